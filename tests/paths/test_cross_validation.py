"""MSMTFLCV and LassoMTLCV: held-out errors against refits, scores and choices by hand, life with scikit-learn."""

import pickle
import warnings
from collections import Counter
from types import SimpleNamespace

import numpy as np
import oracles
import pandas as pd
import pytest
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LassoCV
from sklearn.metrics import r2_score
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from msmtfl import MSMTFL, MSMTFLCV, LassoMTLCV, TaskKFold, stack_tasks
from msmtfl._estimators import grid_search
from msmtfl._paths.validation.choice import choose
from msmtfl._solvers.gram import follow


@pytest.mark.slow
@parametrize_with_checks([MSMTFLCV(lams=3, cv=2), LassoMTLCV(lams=3, cv=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


LABELS = ["east", "north", "west"]
X, y, TASK = stack_tasks(*oracles.random_tasks(0, m=3, n=[26, 30, 34], d=10, noise=0.3), labels=LABELS)
N = len(y)
rng = np.random.default_rng(1)
WEIGHT = rng.uniform(0.2, 2.0, N)
WEIGHT[::9] = 0.0
GROUPS = rng.integers(0, 12, N)
Y = np.column_stack([y, X[:, 0] - y, X[:, 1] + rng.standard_normal(N)])
Y[:, 1:][rng.random((N, 2)) < 0.3] = np.nan
Y[Y[:, 1] > 0, 0] = np.nan
GRID = {"lams": [0.5, 0.02, 0.1], "theta_ratios": [2.0, 6.0, np.inf]}
PAIRS = [(train[3:], test) for train, test in KFold(3, shuffle=True, random_state=2).split(X)]


def fit(model=None, X=X, y=y, task=TASK, sample_weight=None, groups=None, **options):
    """A fitted MSMTFLCV on a small grid, or the model given."""
    model = MSMTFLCV(**{**GRID, "cv": 3, **options}) if model is None else model.set_params(**options)
    return model.fit(X, y, task=task if np.ndim(y) == 1 else None, sample_weight=sample_weight, groups=groups)


def refit(model, point, train, y=y, weight=None, **options):
    """The model of a point of cv_results_ on some rows, fitted from nothing."""
    task = TASK[train] if y.ndim == 1 else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        single = MSMTFL(model.cv_results_["lam"][point], model.cv_results_["theta"][point], **options)
        return single.fit(X[train], y[train], task=task, sample_weight=None if weight is None else weight[train])


def errors(model, test, y=y, weight=None):
    """Mean squared error per task on some rows."""
    weight = np.ones(N) if weight is None else weight
    out = []
    for i, label in enumerate(model.tasks_):
        used = test[label == TASK[test]] if y.ndim == 1 else test[~np.isnan(y[test, i])]
        fitted = X[used] @ model.coef_[i] + model.intercept_[i]
        out.append(np.average(((y if y.ndim == 1 else y[:, i])[used] - fitted) ** 2, weights=weight[used]))
    return out


# ------------------------------------------------------------------ held-out errors

by_task = TaskKFold(3, task=TASK, random_state=0)
# how the model is told, and the folds that it should use
CASES = {
    "a number": ({}, {}, by_task.split(X)),
    "sample weights": ({"cv": PAIRS}, {"sample_weight": WEIGHT}, PAIRS),
    "standardize": ({"standardize": True}, {}, by_task.split(X)),
    "no intercept": ({"fit_intercept": False, "positive": True}, {}, by_task.split(X)),
    "penalty factors": ({"penalty_factors": np.r_[0, np.ones(8), np.inf]}, {}, by_task.split(X)),
    "groups": ({}, {"groups": GROUPS}, by_task.split(X, groups=GROUPS)),
    "TaskKFold": ({"cv": TaskKFold(3, random_state=0)}, {}, by_task.split(X)),
    "GroupKFold": ({"cv": GroupKFold(3)}, {"groups": GROUPS}, GroupKFold(3).split(X, y, GROUPS)),
    "ShuffleSplit": ({"cv": ShuffleSplit(2, test_size=0.3, random_state=0)}, {}, None),
    "a generator": ({"cv": (pair for pair in PAIRS)}, {}, PAIRS),
    "missing targets": ({"cv": PAIRS}, {"y": Y}, PAIRS),
    "missing targets, weights": ({"cv": PAIRS, "standardize": True}, {"y": Y, "sample_weight": WEIGHT + 0.1}, PAIRS),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(2)
def test_held_out_errors_equal_refits(name):
    options, data, folds = CASES[name]
    folds = list(options["cv"].split(X) if folds is None else folds)
    model = fit(**data, **options)
    given = {name: value for name, value in options.items() if name != "cv"}
    target, weight = data.get("y", y), data.get("sample_weight")
    assert model.n_splits_ == len(folds)
    for point in range(9):
        refits = [refit(model, point, train, target, weight, **given) for train, _ in folds]
        expected = [errors(single, test, target, weight) for single, (_, test) in zip(refits, folds, strict=True)]
        np.testing.assert_allclose(model.cv_results_["test_mse"][point], expected, rtol=1e-8)


@pytest.mark.parametrize("groups", [None, GROUPS], ids=["", "groups"])
def test_folds_of_shared_features_hold_out_rows_of_every_task(groups):
    held = fit(y=Y, groups=groups).cv_results_["test_weight"][0]
    np.testing.assert_array_equal(held.sum(axis=0), (~np.isnan(Y)).sum(axis=0))
    assert (held > 0).all()
    assert groups is not None or np.ptp(held, axis=0).max() <= 4


# ------------------------------------------------------------------ scores


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
@pytest.mark.parametrize("scoring", ["neg_nmse", "neg_amse", "neg_mse"])
def test_scores_by_hand(scoring, weight):
    model = fit(scoring=scoring, sample_weight=weight)
    w = np.ones(N) if weight is None else weight
    scale = np.ones(3)
    for i, mine in enumerate(label == TASK for label in LABELS if scoring != "neg_mse"):
        mean = np.average(y[mine], weights=w[mine]) if scoring == "neg_nmse" else 0.0
        scale[i] = np.average((y[mine] - mean) ** 2, weights=w[mine])
    results = model.cv_results_
    mse, held = np.stack(results["test_mse"]), np.stack(results["test_weight"])
    scores = -(held * mse / scale).sum(axis=2) / held.sum(axis=2)
    for f in range(3):
        np.testing.assert_allclose(results[f"split{f}_test_score"], scores[:, f], rtol=1e-12)
    np.testing.assert_allclose(results["mean_test_score"], scores.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(results["se_test_score"], scores.std(axis=1, ddof=1) / np.sqrt(3), rtol=1e-10)
    assert model.best_score_ == results["mean_test_score"].max()
    assert results["rank_test_score"][np.ravel_multi_index(model.best_point_, (3, 3))] == 1


SCORERS = {
    "r2": ("r2", lambda y, p, w: r2_score(y, p, sample_weight=w)),
    "absolute": ("neg_mean_absolute_error", lambda y, p, w: -np.average(np.abs(y - p), weights=w)),
    "callable": (lambda model, X, y: -np.ptp(y - model.predict(X)), lambda y, p, w: -np.ptp(y - p)),
}


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("weight", [None, WEIGHT + 0.1], ids=["", "weighted"])
def test_scorers(name, weight):
    scoring, by_hand = SCORERS[name]
    model = fit(scoring=scoring, cv=PAIRS, sample_weight=weight)
    for point in (1, 5, 6):
        for f, (train, test) in enumerate(PAIRS):
            prediction = refit(model, point, train, weight=weight).predict(X[test], task=TASK[test])
            expected = by_hand(y[test], prediction, None if weight is None else weight[test])
            assert model.cv_results_[f"split{f}_test_score"][point] == pytest.approx(expected, rel=1e-8)


def test_constant_targets_are_left_out_of_the_score():
    with pytest.warns(UserWarning, match="'north' are constant.*left out"):
        model = fit(y=np.where(TASK == "north", 3.0, y))
    mse, held = np.stack(model.cv_results_["test_mse"]), np.stack(model.cv_results_["test_weight"])
    nmse = (mse / [y[TASK == "east"].var(), np.inf, y[TASK == "west"].var()] * held).sum(axis=2)
    expected = -(nmse / held[..., [0, 2]].sum(axis=2)).mean(axis=1)
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], expected, rtol=1e-12)
    with pytest.warns(UserWarning, match="'east', 'north', 'west' are constant.*Scored by neg_mse"):
        assert fit(y=np.full(N, 0.1)).best_score_ == pytest.approx(0.0, abs=1e-25)
    with pytest.warns(UserWarning, match="all 0"):
        fit(y=0 * y, scoring="neg_amse")


# ------------------------------------------------------------------ choice


def chosen(mean, n_rows, selection="min", n_entries=None, lams=(3.0, 2.0, 1.0), spread=0.0):
    """The place chosen among three lams with one theta, by scores mean - spread and mean + spread."""
    entries = np.c_[n_rows if n_entries is None else n_entries]
    parameters = {"lam": np.c_[np.array(lams)], "theta": np.ones((3, 1))}
    surface = SimpleNamespace(parameters=parameters, n_rows=np.c_[n_rows], n_entries=entries)
    return choose(np.c_[mean] + np.reshape([-spread, spread], (2, 1, 1)), surface, selection)[0]


def test_choice_by_hand():
    assert chosen([-3, -1, -2], [0, 5, 9]) == 1
    assert chosen([-3, -1, -2], [0, 5, 9], "1se", spread=0.5) == 1  # the standard error of two folds is the spread
    assert chosen([-3, -2, -1], [0, 5, 9], "1se", spread=1.0) == 1
    assert chosen([-3, -2, -1], [0, 5, 9], "1se", spread=2.0) == 0
    assert chosen([-1, -1, -1], [5, 4, 4], n_entries=[5, 7, 6]) == 2  # ties: fewest rows, fewest entries, largest lam
    assert chosen([-1, -1, -1], [4, 4, 4], lams=(1.0, 3.0, 2.0)) == 1
    assert chosen([-1, np.nextafter(-1, 0), -1], [4, 4, 4]) == 0  # rounding does not decide
    assert chosen([-1, -1 + 1e-9, -1], [4, 4, 4]) == 1
    assert chosen([-1, -1, -1], [4, 4, 4], "1se", lams=(1.0, 2.0, 3.0)) == 2


def test_one_standard_error_is_simpler():
    X, y, task = stack_tasks(*oracles.random_tasks(5, m=2, n=40, d=30, noise=1.0))
    best, simple = (LassoMTLCV(selection=rule, lam_min_ratio=0.05).fit(X, y, task=task) for rule in ("min", "1se"))
    mean, n_rows = simple.cv_results_["mean_test_score"], simple.cv_results_["n_rows"]
    eligible = mean >= mean.max() - simple.cv_results_["se_test_score"][np.argmax(mean)]
    k, l = simple.best_point_
    assert (eligible[k], l) == (True, 0)
    assert n_rows[k] == n_rows[eligible].min() < n_rows[best.best_point_[0]]


def log_comb(d, k):
    return gammaln(d + 1) - gammaln(k + 1) - gammaln(d - k + 1)


def criterion_by_hand(name, coef):
    total = 0.0
    for w, label in zip(coef, np.unique(TASK), strict=True):
        X_i, y_i = X[label == TASK], y[label == TASK]
        r = y_i - y_i.mean() - (X_i - X_i.mean(axis=0)) @ w
        n, df = len(y_i), np.count_nonzero(w)
        charge = {
            "aic": 2 * df * n / (n - df - 2),
            "bic": np.log(N) * df * n / (n - df - 2),
            "ebic": (np.log(n) * df + 2 * log_comb(len(w), min(df, len(w) / 2))) * n / (n - df - 2),
        }
        total += n * np.log(r @ r / n) + charge[name]
    return total


@pytest.mark.parametrize("name", ["aic", "bic", "ebic"])
def test_criteria_by_hand_without_folds(name):
    model = fit(lams=6, selection=name, cv=[])
    values = model.cv_results_[name]
    expected = np.array([criterion_by_hand(name, model.surface_.coef(k, l)) for k, l in np.ndindex(6, 3)])
    if name != "ebic":
        expected[np.isfinite(model.cv_results_["theta"])] = np.nan
    np.testing.assert_allclose(values, expected, rtol=1e-9)
    assert (model.n_splits_, model.best_score_) == (0, -np.nanmin(values))
    assert "mean_test_score" not in model.cv_results_


def test_criteria_do_not_depend_on_the_mean_of_the_target():
    here, there = (fit(y=y + mean, lams=[0.5, 0.1, 0.001], selection="bic") for mean in (0.0, 1e8))
    np.testing.assert_allclose(there.cv_results_["bic"], here.cv_results_["bic"], rtol=1e-5)


def test_criteria_look_away_from_models_with_many_coefficients():
    few = np.r_[:12, 26:38, 56:68]
    model = fit(X=X[few], y=y[few], task=TASK[few], lams=8, selection="ebic")
    most = np.array([np.count_nonzero(model.surface_.coef(k, l), axis=1).max() for k, l in np.ndindex(8, 3)])
    assert 0 < (most > 6).sum() < most.size
    assert np.count_nonzero(model.coef_) <= 18


@pytest.mark.filterwarnings("ignore:6 features are un-penalised")
def test_criteria_are_not_decided_by_a_small_task_or_one_with_constant_targets():
    for small, targets in ((3, None), (6, None), (30, 1.0)):
        rng = np.random.default_rng(0)
        task = np.repeat(np.arange(4), [80, 80, 80, small])
        X = rng.standard_normal((len(task), 12))
        y = X[:, :6] @ [2, -2, 1.5, 1, -1, 1] + rng.standard_normal(len(task))
        if targets is not None:
            y[task == 3] = targets
        for criterion in ("bic", "ebic"):
            model = MSMTFLCV(selection=criterion).fit(X, y, task=task)
            valued = np.isfinite(model.cv_results_[criterion])
            np.testing.assert_array_equal(valued, np.isinf(model.cv_results_["theta"]) | (criterion == "ebic"))
            assert np.abs(model.coef_[:3, :6] - [2, -2, 1.5, 1, -1, 1]).max() < 0.5


# ------------------------------------------------------------------ attributes


def test_attributes_are_those_of_the_model_chosen():
    model = fit()
    k, l = model.best_point_
    assert (model.lam_, model.theta_) == (model.lams_[k], model.thetas_[k, l])
    single = MSMTFL(model.lam_, model.theta_).fit(X, y, task=TASK)
    np.testing.assert_allclose(model.coef_, single.coef_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.surface_.coef(k, l), single.coef_, rtol=0, atol=1e-10)
    assert model.stopping_reason_ == single.stopping_reason_
    table = pd.DataFrame(model.cv_results_)
    assert len(table) == 9
    np.testing.assert_array_equal(table["lam"], np.repeat(GRID["lams"], 3))
    np.testing.assert_allclose(table["theta_ratio"], np.tile(GRID["theta_ratios"], 3), rtol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X, task=TASK), model.predict(X, task=TASK))
    assert again.surface_.problem is None


def test_lasso_chooses_as_scikit_learn_does():
    X, y, _ = stack_tasks(*oracles.random_tasks(4, m=1, n=40, d=60))
    lams, folds = np.geomspace(2.0, 0.1, 20), list(KFold(5).split(X))
    model = LassoMTLCV(lams, cv=folds, scoring="neg_mse").fit(X, y)
    peer = LassoCV(alphas=lams / 2, cv=folds, tol=1e-14, max_iter=100_000).fit(X, y)
    assert model.lam_ / 2 == pytest.approx(peer.alpha_)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=0, atol=1e-7)
    solved = model.cv_results_["solved"]
    assert solved.sum() >= 12
    errors = -model.cv_results_["mean_test_score"][solved]
    np.testing.assert_allclose(errors, peer.mse_path_.mean(axis=1)[solved], rtol=1e-7)
    assert not hasattr(model, "theta_")


def test_threads_and_budget_change_nothing_but_random_state_does():
    one = fit(sample_weight=WEIGHT)
    for options in ({"n_jobs": 2}, {"memory_budget": 1.0}, {"n_jobs": 2, "memory_budget": 1.0}):
        other = fit(sample_weight=WEIGHT, **options)
        assert other.best_point_ == one.best_point_
        np.testing.assert_allclose(other.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"], rtol=1e-10)
        np.testing.assert_allclose(other.coef_, one.coef_, rtol=0, atol=1e-10)
    dealt = [fit(random_state=seed).cv_results_["split0_test_score"] for seed in (0, 0, 1)]
    assert [np.array_equal(dealt[0], other) for other in dealt] == [True, True, False]


def test_an_interrupted_fit_leaves_the_model_as_it_was():
    model = fit()
    before = {name: value for name, value in vars(model).items() if name.endswith("_")}

    def interrupt(estimator, X, y):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(model, y=-y, scoring=interrupt)
    assert [name for name in before if getattr(model, name) is not before[name]] == []


# ------------------------------------------------------------------ with scikit-learn


def test_in_a_pipeline_with_a_task_column():
    names = [f"f{j}" for j in range(10)]
    table = pd.DataFrame(X, columns=names).assign(school=TASK)
    scale = ColumnTransformer([("scale", StandardScaler(), names)], remainder="passthrough")
    search = MSMTFLCV(lams=5, cv=3, task_column="remainder__school")
    pipeline = make_pipeline(scale.set_output(transform="pandas"), search).fit(table, y)
    assert pipeline.score(table, y) > 0.5
    assert clone(search).get_params() == search.get_params()
    folds = TaskKFold(2, task_column="school", random_state=0)
    assert cross_val_score(LassoMTLCV(lams=5, cv=2, task_column="school"), table, y, cv=folds).min() > 0.5


def test_callbacks_hear_of_every_lam(capsys, terminal):
    pytest.importorskip("sklearn.callback")
    ended = Counter()

    class Recorder:
        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...

        def on_fit_task_end(self, estimator, context):
            ended[context.task_name] += 1

    fit(MSMTFLCV(**GRID, cv=3, n_jobs=2).set_callbacks(Recorder()))
    assert ended == {"fit": 1, "lams": 3 * (3 + 1)}
    assert capsys.readouterr() == ("", "")
    fit(verbose=True)
    assert "12/12 lams" in capsys.readouterr().err


def test_rare_tasks_of_a_2d_target_are_in_every_training_fold():
    rng = np.random.default_rng(0)
    for seed in range(20):
        Y = np.where(rng.random((60, 4)) < 0.7, rng.standard_normal((60, 4)), np.nan)
        Y[:, 3] = np.nan
        Y[rng.choice(60, 3, replace=False), 3] = rng.standard_normal(3)
        Y[np.isnan(Y).all(axis=1), 0] = 0.0
        assert LassoMTLCV(lams=2, cv=3, random_state=seed).fit(rng.standard_normal((60, 2)), Y).n_splits_ == 3


# ------------------------------------------------------------------ bad input

rows = np.arange(N)
BAD = {
    "few rows": ({"cv": 80}, "every task has fewer samples than n_splits=80"),
    "few measured": ({"y": np.c_[y, np.where(rows < 4, y, np.nan)], "cv": 5}, "task 1 has 4 .*5 folds.*at most"),
    "a task left out": ({"cv": KFold(3)}, "fold 0 leaves task.*'east' without training rows.*TaskKFold"),
    "groups of another length": ({"groups": rows[:-1]}, "groups has 89 entries but X has 90 rows"),
    "no groups": ({"cv": GroupKFold(3)}, "groups"),
    "cv=1": ({"cv": 1}, "at least 2 folds, got 1"),
    "cv=[]": ({"cv": []}, "cv gives no folds"),
    "a row in both": ({"cv": [(rows, rows[:5])]}, "row 0 is both .*fold 0"),
    "no such row": ({"cv": [(rows[:80], rows[80:] + 5)]}, "fold 0.*90 is out of bounds.*90 rows"),
    "nothing held out": ({"cv": [(rows, [])]}, "fold 0 holds out no row"),
    "unknown selection": ({"selection": "best"}, "selection must be 'min', '1se'.*'bic'.*got 'best'"),
    "unknown scoring": ({"scoring": "nmse"}, "'nmse'"),
    "scoring=3": ({"scoring": 3}, "'neg_nmse'.*a callable; got 3"),
    "scorer beside missing targets": ({"y": Y, "scoring": "r2"}, "'r2'.*missing values in y.*'neg_nmse'"),
    "scorer that is undefined": ({"scoring": lambda *_: np.nan}, "scor"),
    "constant tasks": ({"y": np.where(TASK == "east", 1.0, y), "cv": [(rows[10:], rows[:10])]}, "fold 0 .*neg_mse"),
}


@pytest.mark.filterwarnings("ignore:the targets of")
@pytest.mark.parametrize("name", BAD)
def test_refused_with_the_place_and_the_way_out(name):
    options, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        fit(**options)


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"standardize": True}], ids=str)
def test_gram_rows_on_demand_give_what_whole_matrices_give(monkeypatch, options):
    """With many features and few in use the folds begin with the Gram rows that all data have come to need."""
    rng = np.random.default_rng(5)
    m, n, d = 3, 120, 450
    offset = 2.0 * options.get("fit_intercept", True)
    wide, task = rng.standard_normal((m * n, d)) + offset, np.repeat(np.arange(m), n)
    wide[:, 7] = 1.5 * offset
    wide[rng.permutation(m * n)[:4], 8] = 50.0  # in some folds most of it is left out
    target = wide[:, :3] @ np.ones(3) + 0.1 * rng.standard_normal(m * n)
    given = {"lams": 8, "lam_min_ratio": 0.05, "theta_ratios": [2.0, 20.0], "cv": 3, **options}
    followed = []
    monkeypatch.setattr(grid_search, "follow", lambda grams, others: followed.append(follow(grams, others)))
    on_demand = MSMTFLCV(**given).fit(wide, target, task=task)
    times = len(followed)
    assert times >= 3
    monkeypatch.setattr(MSMTFLCV, "_wants_whole", lambda self, problem: True)
    whole = MSMTFLCV(**given).fit(wide, target, task=task)
    assert len(followed) == times
    assert on_demand.best_point_ == whole.best_point_
    np.testing.assert_allclose(on_demand.coef_, whole.coef_, atol=1e-9)
    np.testing.assert_allclose(
        np.array(on_demand.cv_results_["test_mse"].tolist()),
        np.array(whole.cv_results_["test_mse"].tolist()),
        rtol=1e-8,
    )
