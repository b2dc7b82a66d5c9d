"""compare_models and the baselines: the same held-out rows, honest errors, paired uncertainty."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import RepeatedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from msmtfl import LassoMTL, LassoMTLCV, MultiTaskAuto, TaskKFold, compare_models
from msmtfl._estimators.baselines.lasso import PooledLassoCV
from msmtfl._estimators.baselines.ridge import PooledRidgeCV, RidgePerTaskCV
from msmtfl._estimators.fitted import NewTaskWarning
from msmtfl.compare.run import default_models
from msmtfl.metrics import nmse
from msmtfl.warnings import TaskLevelWarning

TASKS = np.array(["east", "north", "south"])
FAST = {"separate": LassoMTL(0.05), "strong": LassoMTL(0.5), "pooled": PooledRidgeCV(cv=3)}


def make_data(seed=0, n=24, d=6, same=True, noise=1.0):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((3 * n, d)), np.repeat(TASKS, n)
    W = np.tile(rng.standard_normal(d), (3, 1)) if same else rng.standard_normal((3, d))
    y = (X * np.repeat(W, n, axis=0)).sum(axis=1) + noise * rng.standard_normal(3 * n)
    order = rng.permutation(3 * n)
    return X[order], y[order] + 5.0 * (task[order] == "north"), task[order]


def by_hand(model, X, y, task, splits):
    """Predictions of every row by the model fitted without it."""
    out = np.full(len(y), np.nan)
    for train, test in splits:
        out[test] = clone(model).fit(X[train], y[train], task=task[train]).predict(X[test], task=task[test])
    return out


# ------------------------------------------------------------------ numbers


def test_errors_are_those_of_a_loop_by_hand():
    X, y, task = make_data()
    splits = list(TaskKFold(4, task=task, random_state=3).split(X))
    result = compare_models(X, y, task=task, models=FAST, cv=splits, nested=True)
    assert result.models == list(FAST)
    assert result.reference == "separate"
    for k, model in enumerate(FAST.values()):
        prediction = by_hand(model, X, y, task, splits)
        np.testing.assert_allclose(result.nmse_by_task[k], nmse(y, prediction, task=task, average=False))
        np.testing.assert_allclose(result.nmse[k], nmse(y, prediction, task=task))
    np.testing.assert_allclose(result.difference, result.nmse - result.nmse[0])
    assert result.best == result.models[np.argmin(result.nmse)]


def test_paired_standard_errors_by_hand():
    X, y, task = make_data(1)
    splits = list(TaskKFold(4, task=task, random_state=3).split(X))
    result = compare_models(X, y, task=task, models=FAST, cv=splits)
    errors = [(y - by_hand(model, X, y, task, splits)) ** 2 for model in FAST.values()]
    for i, label in enumerate(TASKS):
        rows = task == label
        part = (errors[1][rows] - errors[0][rows]) / y[rows].var()
        np.testing.assert_allclose(result.difference_by_task[1, i], part.mean())
        of_rows = part.std(ddof=1) / np.sqrt(len(part))
        np.testing.assert_allclose(result.se_of_rows_by_task[1, i], of_rows, rtol=1e-9)
        np.testing.assert_allclose(result.se_by_task[1, i], np.sqrt(1 + 4 / 3) * of_rows, rtol=1e-9)  # four folds
    assert result.se[0] == 0.0
    # tasks of equal size: the variance of a mean of three independent means
    np.testing.assert_allclose(result.se[1], np.sqrt((result.se_by_task[1] ** 2).sum()) / 3, rtol=0.03)


@pytest.mark.filterwarnings("ignore::msmtfl._data.copies.RepeatedSamplesWarning")
def test_groups_are_counted_as_wholes_and_stay_together():
    X, y, task = make_data(2)
    X, y, task = (np.concatenate([values, values]) for values in (X, y, task))  # every row twice
    groups = np.tile(np.arange(len(y) // 2), 2)
    result = compare_models(X, y, task=task, groups=groups, models=FAST, cv=3)
    single = compare_models(X, y, task=task, models=FAST, cv=3)
    assert (result.se[1:] > 1.2 * single.se[1:]).all()
    once = compare_models(X[: len(y) // 2], y[: len(y) // 2], task=task[: len(y) // 2], models=FAST, cv=3)
    np.testing.assert_allclose(result.se[1:], once.se[1:], rtol=0.5)


def test_a_two_dimensional_y_counts_rows_as_clusters():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    Y = X @ rng.standard_normal((5, 3)) + rng.standard_normal((60, 3))
    copies = np.repeat(Y[:, :1], 3, axis=1)
    three = compare_models(X, copies, models={"a": LassoMTL(0.05), "b": LassoMTL(0.4)}, cv=3)
    np.testing.assert_allclose(three.se_by_task[1], three.se_by_task[1, 0])
    np.testing.assert_allclose(three.se, three.se_by_task[:, 0])  # three copies tell no more than one
    Y[::4, 1] = np.nan
    result = compare_models(X, Y, models=FAST, cv=3, leave_one_task_out=True)
    assert np.isfinite(result.nmse_by_task).all()
    assert result._of_task.tolist() == [60, 45, 60]
    assert np.isfinite(result.new_task_nmse).all()


def test_rows_held_out_more_than_once_count_once():
    X, y, task = make_data(3)
    result = compare_models(X, y, task=task, models=FAST, cv=RepeatedKFold(n_splits=4, n_repeats=3, random_state=0))
    assert result.n_splits == 12
    assert result.errors.shape == (3, len(y))
    once = [(np.arange(36, 72), np.arange(36))]  # rows that are never held out do not count
    assert compare_models(X, y, task=task, models=FAST, cv=once).errors.shape == (3, 36)


def test_weights_count():
    X, y, task = make_data(4)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    splits = list(TaskKFold(3, task=task, random_state=0).split(X))
    result = compare_models(X, y, task=task, sample_weight=weight, models=FAST, cv=splits)
    out = np.full(len(y), np.nan)
    for train, test in splits:
        model = LassoMTL(0.05).fit(X[train], y[train], task=task[train], sample_weight=weight[train])
        out[test] = model.predict(X[test], task=task[test])
    np.testing.assert_allclose(result.nmse[0], nmse(y, out, task=task, sample_weight=weight))


def test_new_tasks_are_predicted_by_the_mean_of_the_others():
    X, y, task = make_data(5)
    result = compare_models(X, y, task=task, models=FAST, cv=3, leave_one_task_out=True)
    rows = task == "south"
    others = LassoMTL(0.05, unknown_task="mean").fit(X[~rows], y[~rows], task=task[~rows])
    with pytest.warns(NewTaskWarning):
        rest = y[rows] - others.predict(X[rows], task=task[rows])
    np.testing.assert_allclose(result.new_task_nmse[0, 2], np.mean(rest**2) / y[rows].var())
    np.testing.assert_allclose(result.new_task_nmse_centred[0, 2], rest.var() / y[rows].var())
    assert result.summary()["new_task_nmse"].notna().all()


# ------------------------------------------------------------------ against knowing nothing


def test_means_of_training_rows_are_what_models_are_compared_with():
    X, y, task = make_data(2)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    splits = list(TaskKFold(4, task=task, random_state=3).split(X))
    result = compare_models(X, y, task=task, models=FAST, cv=splits, sample_weight=weight)
    expected = np.full(len(y), np.nan)
    for train, test in splits:
        for label in TASKS:
            here = train[task[train] == label]
            expected[test[task[test] == label]] = np.average(y[here], weights=weight[here])
    for i, label in enumerate(TASKS):
        np.testing.assert_allclose(result.means[result.cell_task == i], (y - expected)[task == label] ** 2)
    found = result.over_means()
    np.testing.assert_allclose(found.base, nmse(y, expected, task=task, sample_weight=weight))
    np.testing.assert_allclose(found.difference, result.error.min() - found.base)


def test_noise_is_called_what_it_is_and_signal_is_not():
    X, y, task = make_data(0, n=40)
    told = "No model predicts clearly better than the tasks' means: their nMSE is "
    assert told not in str(compare_models(X, y, task=task, models=FAST, cv=4))
    noise = np.random.default_rng(1).standard_normal(len(y)) + 5.0 * (task == "north")
    result = compare_models(X, noise, task=task, models=FAST, cv=4)
    assert told in str(result)
    assert not result.over_means().better
    assert replace(result, means=None).means_in_words() == ""


def test_copies_of_a_feature_are_told_apart_by_no_model():
    """Errors of 1e-30 and of 1e-28 are both rounding."""
    X, _, task = make_data(3)
    models = {"lasso": LassoMTL(1e-16), "strong": LassoMTL(3e-15), "stronger": LassoMTL(1e-13)}
    result = compare_models(X, 3.0 * X[:, 2] + 1e3, task=task, models=models, cv=4)
    assert (result.error < 1e-20).all()
    assert [result.evidence(name).standing for name in models] == ["not clear"] * 3
    assert not (result.gains | result.loses).any()
    assert "No model predicts clearly better" not in result.verdict()


def test_columns_that_differ_between_tasks_only_are_named_once():
    X, y, task = make_data(1)
    X[:, 1] = (task == "north") + 2.0 * (task == "south")
    for run in (
        lambda: compare_models(X, y, task=task, models=FAST, cv=3),
        lambda: MultiTaskAuto(FAST, cv=3).fit(X, y, task=task),
    ):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            run()
        assert [str(one.message).split(" are ")[0] for one in said if one.category is TaskLevelWarning] == [
            "feature(s) 'x1'"
        ]
    free = {"a": LassoMTL(0.1, fit_intercept=False), "b": LassoMTL(0.2, fit_intercept=False)}
    compare_models(
        X, y, task=task, models=free, cv=3
    )  # without intercepts they are learned; a warning would be an error


# ------------------------------------------------------------------ what it finds


def test_equal_tasks_call_for_pooling_and_different_ones_do_not():
    X, y, task = make_data(6, n=40, d=15, noise=2.0)
    models = ["lasso", "pooled lasso"]
    equal = compare_models(X, y, task=task, models=models)
    assert equal.best == "pooled lasso"
    assert equal.difference[1] < -2 * equal.se[1]
    assert "'pooled lasso' has the smallest nMSE" in equal.verdict()
    assert "clearly less than 'lasso'" in equal.verdict()
    X, y, task = make_data(6, n=40, d=15, same=False, noise=0.5)
    different = compare_models(X, y, task=task, models=models)
    assert different.best == "lasso"
    assert different.loses[1].all()
    assert "'lasso' has the smallest nMSE" in different.verdict()
    assert "is clearly worse" in different.verdict()


@pytest.mark.slow
def test_defaults_hold_the_papers_models_and_the_first_tries():
    names = ["lasso", "l12", "dirty", "msmtfl", "bi-level", "shared"]
    names += ["ridge per task", "pooled lasso", "pooled ridge", "partial-pooling"]
    assert list(default_models()) == names
    X, y, task = make_data(7, n=15, d=4)
    result = compare_models(X, y, task=task, cv=2, inner_cv=2)
    assert result.models == names
    assert np.isfinite(result.nmse).all()


def test_threads_do_not_change_the_result():
    X, y, task = make_data(8)
    one, two = (compare_models(X, y, task=task, models=FAST, cv=3, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.errors, two.errors)


def test_tables_in_and_out(capsys, terminal):
    X, y, task = make_data(9)
    table = pd.DataFrame(X, columns=list("abcdef")).assign(hospital=task)
    result = compare_models(table, pd.Series(y), task_column="hospital", models=FAST, cv=3, verbose=True)
    assert "3/3 models [" in capsys.readouterr().err
    np.testing.assert_allclose(result.nmse, compare_models(X, y, task=task, models=FAST, cv=3).nmse)
    frame = result.to_frame()
    assert len(frame) == 9
    assert {"model", "task", "n", "nmse", "difference", "se", "gains", "loses"} <= set(frame)
    assert result.summary()["nmse"].is_monotonic_increasing
    assert str(result).count("\n") == 6
    again = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(again.nmse, result.nmse)


def test_a_task_with_constant_targets_is_left_out():
    X, y, task = make_data(10)
    y[task == "east"] = 3.0
    with pytest.warns(UserWarning, match="targets of task.*'east' are constant"):
        result = compare_models(X, y, task=task, models=FAST, cv=3)
    assert np.isnan(result.nmse_by_task[:, 0]).all()
    assert np.isfinite(result.nmse).all()


@pytest.mark.parametrize("labels", [TASKS, np.array([f"task {i}" for i in range(60)])], ids=["few", "many"])
def test_figure(labels):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    rng = np.random.default_rng(0)
    task = np.repeat(labels, 6)
    X = rng.standard_normal((len(task), 3))
    result = compare_models(X, X[:, 0] + rng.standard_normal(len(task)), task=task, models=FAST, cv=2)
    figure = result.plot("strong")
    assert len(figure.axes) == 2
    figure.canvas.draw()
    with pytest.raises(ValueError, match="no model 'weak'"):
        result.plot("weak")


# ------------------------------------------------------------------ baselines


@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_per_task_is_ridge(weighted):
    X, y, task = make_data(11)
    weight = np.random.default_rng(0).uniform(0.2, 3.0, len(y)) if weighted else np.ones(len(y))
    model = RidgePerTaskCV().fit(X, y, task=task, sample_weight=weight if weighted else None)
    rows = task == "north"
    size = ((X[rows] - np.average(X[rows], axis=0, weights=weight[rows])) ** 2).sum() / X.shape[1]
    one = RidgeCV(np.geomspace(1e-4, 1e4, 33) * size).fit(X[rows], y[rows], sample_weight=weight[rows])
    np.testing.assert_allclose(model.coef_[1], one.coef_)
    np.testing.assert_allclose(model.intercept_[1], one.intercept_)


def test_ridge_per_task_does_not_interpolate_noise():
    """Centred rows sum to 0: leaving one out of them, with more features than rows, would tell it from the others."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 80)), np.repeat([0, 1], 30)
    for model in (RidgePerTaskCV(), PooledRidgeCV()):
        assert np.abs(model.fit(X, rng.standard_normal(60), task=task).coef_).max() < 0.1


@pytest.mark.parametrize("model", [PooledRidgeCV(), PooledLassoCV()], ids=["ridge", "lasso"])
def test_pooled_models_have_one_slope_and_many_intercepts(model):
    X, y, task = make_data(12, noise=0.01)
    model = clone(model).fit(X, y, task=task)
    assert (model.coef_ == model.coef_[0]).all()
    dummies = np.column_stack([X, task == "east", task == "north", task == "south"])
    best = LinearRegression(fit_intercept=False).fit(dummies, y)
    np.testing.assert_allclose(model.coef_[0], best.coef_[:6], atol=0.01)
    np.testing.assert_allclose(model.intercept_, best.coef_[6:], atol=0.01)


@pytest.mark.parametrize("model", [RidgePerTaskCV(), PooledRidgeCV(), PooledLassoCV()])
def test_baselines_refuse_what_is_not_finite(model):
    X, y, task = make_data(14)
    X[5, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*x2"):
        model.fit(X, y, task=task)


# ------------------------------------------------------------------ bad input


def test_bad_input_is_named():
    X, y, task = make_data(13)
    for options, words in [
        (
            {"models": ["lasso", "pool"]},
            "unknown model.*'pool'.*Known: 'pooled lasso', 'pooled ridge', 'partial-pooling', 'lasso', .*'shared'",
        ),
        ({"models": ["lasso"]}, "at least two models"),
        ({"models": FAST, "reference": "lasso"}, "reference='lasso' is not among"),
        ({"models": FAST, "cv": 30}, "task 'east'"),
        ({"models": FAST, "groups": [1, 2]}, "groups has 2 entries"),
    ]:
        with pytest.raises(ValueError, match=words):
            compare_models(X, y, task=task, **options)
    with pytest.raises(TypeError, match="must be an estimator with fit and predict"):
        compare_models(X, y, task=task, models={"a": LassoMTLCV(), "b": 3})
    with pytest.raises(ValueError, match="at least two tasks"):
        compare_models(X, y, models=FAST, leave_one_task_out=True)
    with pytest.raises(ValueError, match="all tasks are constant"):
        compare_models(X, np.ones(len(y)), task=task, models=FAST)


def test_models_that_cannot_take_part_are_named():
    X, y, task = make_data(18)
    for model in (Ridge(), make_pipeline(StandardScaler(), Ridge())):
        with pytest.raises(TypeError, match=r"model 'b'.*transform X beforehand|model 'b'.*does not say"):
            compare_models(X, y, task=task, models={"a": LassoMTL(0.1), "b": model})
    with pytest.raises(ValueError, match="'lasso' is listed twice"):
        compare_models(X, y, task=task, models=["lasso", "lasso"])
    with pytest.raises(TypeError, match="names of models must be text"):
        compare_models(X, y, task=task, models={1: LassoMTL(0.1), 2: LassoMTL(0.2)})
    with pytest.raises(ValueError, match=r"every task has fewer rows to train on in fold 0 than inner_cv=\d+"):
        compare_models(X, y, task=task, inner_cv=1000)
    table = pd.DataFrame(X, columns=list("abcdef")).assign(hospital=task)
    table.loc[7, "c"] = np.nan
    with pytest.raises(ValueError, match="'c', row 7"):
        compare_models(table, y, task_column="hospital")


@pytest.mark.parametrize("model", [PooledRidgeCV(), PooledLassoCV()], ids=["ridge", "lasso"])
def test_pooled_models_do_not_interpolate_noise(model):
    """Rows centred before the inner folds tell those held out: with fewer rows than features nothing would be penalised."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((50, 200)), np.repeat(np.arange(10), 5)
    assert clone(model).fit(X, rng.standard_normal(50), task=task).score(X, X[:, 0], task=task) < 0.2
    fitted = clone(model).fit(X, rng.standard_normal(50), task=task)
    assert (X @ fitted.coef_[0]).var() < 0.3


def test_ridge_per_task_keeps_groups_together():
    rng = np.random.default_rng(0)
    copies = np.repeat(np.arange(40), 3)  # three near copies of every row
    X = rng.standard_normal((40, 60))[copies] + 0.01 * rng.standard_normal((120, 60))
    y, task = rng.standard_normal(40)[copies], copies // 20
    alone = RidgePerTaskCV().fit(X, y, task=task)
    together = RidgePerTaskCV().fit(X, y, task=task, groups=copies)
    assert np.abs(together.coef_).max() < 0.5 * np.abs(alone.coef_).max()


def test_figure_shows_names_as_they_are():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    X, y, task = make_data(19)
    labels = np.array(["$5k-$10k", r"$\frac$", "a" * 200])[np.unique(task, return_inverse=True)[1]]
    models = {r"$\lambda_{bad$": LassoMTL(0.05), "b": LassoMTL(0.5)}
    figure = compare_models(X, y, task=labels, models=models, cv=3).plot()
    figure.canvas.draw()
    with pytest.raises(ValueError, match="axes must be two"):
        compare_models(X, y, task=task, models=FAST, cv=3).plot(axes=figure.axes[0])


# ------------------------------------------------------------------ uncertainty, honestly


class Fixed:
    """A model that predicts a column of X: nothing is fitted, so that errors are as simulated."""

    def __init__(self, column=0):
        self.column = column

    def get_params(self, deep=True):
        return {"column": self.column}

    def set_params(self, **params):
        self.column = params.get("column", self.column)
        return self

    def fit(self, X, y, task=None):
        return self

    def predict(self, X, task=None):
        return X[:, self.column]


@pytest.mark.slow
def test_standard_errors_cover_in_simulation():
    """Forty tasks of two groups of five equal rows each: what counts is the spread between groups."""
    rng = np.random.default_rng(0)
    task, groups = np.repeat(np.arange(40), 10), np.repeat(np.arange(80), 5)
    train = np.arange(400) % 2 == 0
    cv = [(np.flatnonzero(train), np.flatnonzero(~train)), (np.flatnonzero(~train), np.flatnonzero(train))]
    differences, errors = [], []
    for _ in range(60):
        X = np.repeat(rng.standard_normal((80, 2)), 5, axis=0)
        y = np.tile([0.0, 1.0], 200)  # a variance of 1/4 in every task
        result = compare_models(X, y, task=task, groups=groups, models={"a": Fixed(0), "b": Fixed(1)}, cv=cv)
        differences.append(result.difference[1])
        errors.append(result.se_of_rows[1])  # nothing is trained here
    assert np.mean(errors) == pytest.approx(np.std(differences), rel=0.25)
    assert np.mean(np.abs(differences) < 2 * np.array(errors)) >= 0.85


def test_the_verdict_names_tasks_that_gain_and_lose_most_and_says_what_shares_nothing():
    """Task k is predicted with noise of size 0.1 k by one model, of size 0.2 (5 - k) by the other."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(6), 200)
    y, noise = rng.standard_normal(1200), rng.standard_normal((1200, 2))
    X = y[:, None] + noise * np.stack([0.1 * task, 0.2 * (5 - task)], axis=1)
    labels = np.array(list("abcdef"))[task]
    models = {"up": Fixed(0), "down": Fixed(1)}
    shown = compare_models(X, y, task=labels, models=models, reference="down", cv=3).verdict()
    assert "Of 6 tasks 4 have a smaller error by it and 2 a larger one (median change -" in shown
    assert "; 4 clearly gain ('a', 'b', 'c' and 1 more) and 2 clearly lose ('f', 'e')." in shown
    assert "shares nothing" not in shown
    for name in ("lasso", "ridge per task"):
        models = {name: Fixed(0), "down": Fixed(1)}
        for reference in models:  # the best is the reference, or is not
            shown = compare_models(X, y, task=labels, models=models, reference=reference, cv=3).verdict()
            assert f" {name!r} shares nothing between tasks." in shown
            assert shown.endswith("or samples are there twice.")
            assert (
                "held-out targets of task(s) 'a', 'f' are predicted with an error (nMSE) of 0." in shown
            )  # without any noise


def test_a_task_with_one_row_held_out_has_no_verdict():
    X, y, task = make_data(15)
    single = np.flatnonzero(task == "east")[0]
    rest = np.flatnonzero(task != "east")
    test = np.append(rest[:20], single)
    result = compare_models(X, y, task=task, models=FAST, cv=[(np.setdiff1d(np.arange(len(y)), test), test)])
    assert np.isnan(result.se_by_task[:, 0]).all()
    assert not (result.gains | result.loses)[:, 0].any()
    assert np.isfinite(result.se).all()


def test_a_prediction_that_is_not_finite_is_named():
    X, y, task = make_data(16)
    X = np.column_stack([X, np.full(len(y), 1e200)])
    with pytest.raises(ValueError, match="model 'b' predicts NaN or infinity"):
        compare_models(X, y, task=task, models={"a": Fixed(0), "b": Blank()}, cv=3)


class Blank(Fixed):
    def predict(self, X, task=None):
        return np.full(len(X), np.nan)


def test_models_made_for_a_task_column_take_part():
    X, y, task = make_data(17)
    table = pd.DataFrame(X, columns=list("abcdef")).assign(hospital=task)
    models = {"a": LassoMTL(0.05, task_column="hospital"), "b": LassoMTL(0.5, task_column="hospital")}
    result = compare_models(table, y, task_column="hospital", models=models, cv=3)
    assert np.isfinite(result.nmse).all()


def test_a_column_out_of_range_is_called_by_its_name():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((60, 3)), columns=["x1", "x2", "x0"]).assign(
        town=np.repeat(["a", "b"], 30)
    )
    table["x2"] *= 1e164
    with pytest.raises(ValueError, match="column 'x2' in task 'a' is too large"):
        compare_models(table, table["x0"], task_column="town", models=["ridge per task", "pooled ridge"], cv=2)
    with pytest.raises(ValueError, match="column 'x2' in task 'a' is too large"):
        PooledRidgeCV(task_column="town", cv=2).fit(table, table["x0"])


def test_a_task_of_one_row_is_fitted_and_left_out_of_the_scores():
    X, y, task = make_data(18)
    alone = np.append(task, "lonely")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = compare_models(np.vstack([X, X[:1]]), np.append(y, 3.0), task=alone, models=FAST, cv=3)
    assert any("'lonely' have 1 sample" in str(one.message) for one in said)
    i = result.tasks.tolist().index("lonely")
    assert np.isnan(result.error_by_task[:, i]).all()
    known = np.delete(result.error_by_task, i, axis=1)
    assert np.isfinite(known).all()
    assert np.isfinite(result.error).all()
    assert result.best in result.models


def test_ridges_that_are_only_scored_make_no_fits_for_intervals(monkeypatch):
    from msmtfl.baselines import RidgePerTaskCV

    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 3)), np.repeat([0, 1], 30)
    y = X[:, 0] + rng.standard_normal(60)
    made = []
    refits = RidgePerTaskCV._refits
    monkeypatch.setattr(RidgePerTaskCV, "_refits", lambda self, *given: made.append(self) or refits(self, *given))
    compare_models(X, y, task=task, models=["ridge per task", "pooled ridge"])
    assert not made
    model = RidgePerTaskCV().fit(X, y, task=task)
    assert made == [model]
    assert hasattr(model, "held_out_")
