"""Cross-validation scores what is refitted: held-out errors of every search equal those of single fits on the training rows,
and points at which that does not hold have no score and are not chosen."""

import inspect
import warnings

import numpy as np
import pytest
from sklearn.base import ClassifierMixin

import msmtfl
from msmtfl import (
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTLCV,
    LassoMTLCV,
    MSMTFLClassifier,
    MSMTFLClassifierCV,
    PretrainedMTLCV,
    SharedMTLClassifierCV,
    SharedMTLCV,
    TaskKFold,
)
from msmtfl._solvers.stages import CROWDED

# every search, with the estimator of one point of its grid and the parameters that a point gives it
SEARCHES = [getattr(msmtfl, name) for name in msmtfl.__all__ if name.endswith("CV")]
CLASSIFIERS = [one for one in SEARCHES if issubclass(one, ClassifierMixin)]
GRIDS = {"lams": 8, "lam": 6, "k": 4, "k_common": 2, "alphas": [0.3, 0.7]}  # small ones, where a search takes them
# what an outlier task, few samples, strong correlation or nothing to find do to a search
KINDS = ("shared", "dense", "null", "correlated")


def table(kind, m=4, seed=0):
    """X, y, task"""
    rng = np.random.default_rng(seed)
    n, d = {"shared": (24, 30), "dense": (30, 60), "null": (20, 30), "correlated": (25, 15)}[kind]
    X, task, W = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n), np.zeros((m, d))
    if kind == "correlated":
        X = np.sqrt(0.99) * rng.standard_normal((m * n, 1)) + 0.1 * X
    if kind in ("shared", "correlated"):
        W[:, :4] = rng.normal(size=(m, 4))
    if kind == "dense":
        W = 0.35 * rng.normal(size=(m, d))
    return X, np.einsum("rj,rj->r", X, W[task]) + rng.standard_normal(m * n), task


def small(search, **options):
    """A search over few points."""
    known = inspect.signature(search).parameters
    return search(**{name: value for name, value in GRIDS.items() if name in known}, **options)


def single(search, point, **options):
    """The estimator of one point of a search's grid."""
    kind = getattr(msmtfl, type(search).__name__.removesuffix("CV"))
    names = set(inspect.signature(kind).parameters) & set(search.cv_results_)
    if type(search) is PretrainedMTLCV:
        names -= {"lam_common"}  # its first step chooses this within every fold; cv_results_ has that of all samples
    given = {name: float(search.cv_results_[name][point]) for name in names}
    if given.get("lam_entry") == 0.0:
        del given["lam_entry"], given["theta_entry"]
    return kind(**given, **options)


def mean_errors(model, X, y, task):
    """Per task: squared errors, or log-losses of two classes."""
    if hasattr(model, "classes_"):
        f = model.decision_function(X, task=task)
        errors = np.logaddexp(0.0, np.where(y == model.classes_[1], -f, f))
    else:
        errors = (y - model.predict(X, task=task)) ** 2
    return [errors[task == label].mean() for label in model.tasks_]


def assert_scored_as_refitted(search, X, y, task, folds, seed, **options):
    """At ten random points that have a score, and at the one chosen; what of a grid has a score."""
    results, rng = search.cv_results_, np.random.default_rng(seed)
    scored = np.flatnonzero(results["eligible"])
    np.testing.assert_array_equal(np.isfinite(results["mean_test_score"]), results["eligible"])
    assert results["eligible"][search.best_index_]
    name = "test_log_loss" if hasattr(search, "classes_") else "test_mse"
    for point in np.append(rng.choice(scored, min(10, len(scored)), replace=False), search.best_index_):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            refits = [single(search, point, **options).fit(X[a], y[a], task=task[a]) for a, _ in folds]
        expected = [mean_errors(one, X[b], y[b], task[b]) for one, (_, b) in zip(refits, folds, strict=True)]
        np.testing.assert_allclose(results[name][point], expected, rtol=1e-8, err_msg=f"point {point}")
    return len(scored) / len(results["eligible"])


@pytest.mark.filterwarnings("ignore:.*un-penalised", "ignore:stopped")
@pytest.mark.parametrize("kind", KINDS[1:])  # "shared" is that of the next test
@pytest.mark.parametrize("search", [one for one in SEARCHES if one not in CLASSIFIERS])
@pytest.mark.sampled(2)
def test_held_out_errors_are_those_of_single_fits(search, kind):
    X, y, task = table(kind, m=3)
    folds = list(TaskKFold(3, task=task, random_state=0).split(X))
    model = small(search, cv=folds).fit(X, y, task=task)
    assert_scored_as_refitted(model, X, y, task, folds, seed=1)


@pytest.mark.filterwarnings("ignore:.*un-penalised", "ignore:stopped", "ignore:the targets of task")
@pytest.mark.parametrize("search", CLASSIFIERS)
def test_held_out_log_losses_are_those_of_single_fits(search):
    X, y, task = table("shared", m=3, seed=4)
    X, y = X[:, :8], (y > np.quantile(y, 0.6)).astype(int)
    of_class = [f"{one} {other}" for one, other in zip(task, y, strict=True)]
    folds = list(TaskKFold(3, task=of_class, random_state=1).split(X))
    model = small(search, cv=folds).fit(X, y, task=task)
    assert_scored_as_refitted(model, X, y, task, folds, seed=5)


@pytest.mark.filterwarnings("ignore:.*un-penalised", "ignore:stopped", "ignore:the targets of task")
@pytest.mark.parametrize(
    "options", [{"intercepts": "shrunk"}, {"penalty_factors": [0, 1, 1, 2, 0.5, 1, np.inf, 1]}], ids=str
)
def test_separable_classes_of_few_newton_steps_have_no_score(options):
    """Such stages used to be taken for solved: log-losses of 668 where cross-validation said 334."""
    rng = np.random.default_rng(1)
    X, task = rng.standard_normal((90, 8)), np.repeat(np.arange(3), 30)
    W = np.zeros((3, 8))
    W[:, :3] = 0.5 * rng.standard_normal((3, 3))
    y = ((X * W[task]).sum(1) + 0.3 * task + rng.logistic(size=90) > 0).astype(int)
    folds = list(TaskKFold(3, task=[f"{a} {b}" for a, b in zip(task, y, strict=True)], random_state=0).split(X))
    model = SharedMTLClassifierCV(lams=5, cv=folds, **options).fit(X, y, task=task)
    share = assert_scored_as_refitted(model, X, y, task, folds, seed=5, **options)
    assert share < 1.0


@pytest.mark.filterwarnings("ignore:.*un-penalised", "ignore:stopped")
@pytest.mark.parametrize("search", [MSMTFLCV, L12MTLCV, DirtyMTLCV, SharedMTLCV])
@pytest.mark.parametrize("options", [{"relax": True}, {"standardize": True, "fit_intercept": False}], ids=str)
@pytest.mark.sampled(3)
def test_with_the_options_of_a_fit(search, options):
    X, y, task = table("shared", seed=2)
    folds = list(TaskKFold(3, task=task, random_state=0).split(X))
    model = search(lams=6, cv=folds, **options).fit(X, y, task=task)
    assert_scored_as_refitted(model, X, y, task, folds, seed=3, **options)


@pytest.mark.filterwarnings("ignore:.*un-penalised", "ignore:stopped", "ignore:the targets of task")
@pytest.mark.parametrize("options", [{}, {"relax": True}], ids=str)
def test_of_classes(options):
    X, y, task = table("shared", m=3, seed=4)
    X, y = X[:, :8], (y > np.quantile(y, 0.6)).astype(int)
    of_class = [f"{one} {other}" for one, other in zip(task, y, strict=True)]
    folds = list(TaskKFold(3, task=of_class, random_state=1).split(X))
    model = MSMTFLClassifierCV(lams=4, theta_ratios=[2.0, 20.0, np.inf], cv=folds, **options).fit(X, y, task=task)
    share = assert_scored_as_refitted(model, X, y, task, folds, seed=5, **options)
    assert share < 1.0  # at some points free features separate the classes of a fold: no minimiser, no score


def test_balanced_weights_are_those_of_the_training_rows():
    X, y, task = table("shared", m=3, seed=4)
    y = (y > np.quantile(y, 0.8)).astype(int)
    folds = [(np.flatnonzero(np.arange(len(y)) % 3 != k), np.arange(k, len(y), 3)) for k in range(3)]
    model = MSMTFLClassifierCV(lams=[0.1], thetas=[np.inf], cv=folds, class_weight="balanced").fit(X, y, task=task)
    of_all = np.zeros(len(y))  # the weights with which held-out rows count
    for label in np.unique(task):
        for one in (0, 1):
            rows = (task == label) & (y == one)
            of_all[rows] = (task == label).sum() / (2 * rows.sum())
    for k, (a, b) in enumerate(folds):
        refit = MSMTFLClassifier(0.1, np.inf, class_weight="balanced").fit(X[a], y[a], task=task[a])
        f = refit.decision_function(X[b], task=task[b])
        losses = np.logaddexp(0.0, np.where(y[b] == 1, -f, f))
        means = [np.average(losses[task[b] == one], weights=of_all[b][task[b] == one]) for one in refit.tasks_]
        np.testing.assert_allclose(model.cv_results_["test_log_loss"][0][k], means, rtol=1e-8)


# ------------------------------------------------------------------ what is chosen


def dense_effects(n, rng, W):
    m, d = W.shape
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    return X, np.einsum("rj,rj->r", X, W[task]) + rng.standard_normal(m * n), task


def test_an_interpolating_stage_is_not_chosen_by_the_score_of_a_lasso():
    """On a fold the later stage would have more free features than samples, on all rows it would not. Such a point used to
    have the lasso's score: nMSE 1.06 in cross-validation, 4.7 on new rows."""
    rng = np.random.default_rng(2)
    W = 0.35 * rng.normal(size=(4, 60))
    (X, y, task), (new, truth, of) = dense_effects(30, rng, W), dense_effects(300, rng, W)
    model, lasso = MSMTFLCV(cv=3, entry_shares=0), LassoMTLCV(cv=3).fit(X, y, task=task)
    model._ends_early = False  # such points have no score even if they are solved
    model.fit(X, y, task=task)

    def error(fitted):
        return np.mean((truth - fitted.predict(new, task=of)) ** 2) / truth.var()

    assert error(model) <= 1.05 * error(lasso)
    stopped = model.surface_.stopping_reason.ravel() == CROWDED
    assert stopped.any()
    assert not model.cv_results_["eligible"][stopped].any()
    assert np.isnan(model.cv_results_["mean_test_score"][stopped]).all()
    assert (~model.cv_results_["eligible"] & ~stopped).any()  # crowded on a fold only


def test_a_grid_without_any_point_to_score_is_refused():
    X, y, task = table("dense")
    with pytest.raises(ValueError, match=r"no point of the grid has a score.*larger values of theta"):
        MSMTFLCV(lams=[1e-3], thetas=[1e-3], cv=3).fit(X, y, task=task)


@pytest.mark.filterwarnings("ignore:selection='bic' needs degrees of freedom")
@pytest.mark.parametrize("selection", ["bic", "ebic"])
def test_criteria_do_not_choose_points_that_stopped_short(selection):
    X, y, task = table("dense")
    model = MSMTFLCV(selection=selection).fit(X, y, task=task)
    short = model.surface_.stopping_reason.ravel() == CROWDED
    assert short.any()
    assert np.isnan(model.cv_results_[selection][short]).all()
    assert not short[model.best_index_]


def test_from_half_as_many_free_features_as_samples_on_a_warning_names_the_tasks():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 12)), np.repeat(["large", "small"], [44, 16])
    y = X[:, :8] @ np.ones(8) + 0.1 * rng.standard_normal(60)
    with pytest.warns(UserWarning, match="8 features are un-penalised, which is half or more.*'small'"):
        model = MSMTFL(lam=0.1, theta=0.5).fit(X, y, task=task)
    assert len(model.stages_[-1].free_rows) == 8


def test_dirty_scores_of_tasks_that_it_interpolates_do_not_depend_on_the_path():
    """There it has several minimisers, and the start decides: so every such point starts from 0, as a fit does."""
    rng = np.random.default_rng(1)
    n = [6, 8, 10, 30, 30, 12]
    task = np.repeat(np.arange(6), n)
    X, W = rng.standard_normal((len(task), 20)), rng.normal(size=(6, 20)) * (rng.random((6, 20)) < 0.2)
    y = np.einsum("rj,rj->r", X, W[task]) + rng.standard_normal(len(task))
    folds = list(TaskKFold(3, task=task, random_state=0).split(X))
    lams = np.geomspace(0.3, 0.1, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = DirtyMTLCV(lams, ratios=[0.5], cv=folds).fit(X, y, task=task)
        k = int(np.flatnonzero(whole.cv_results_["eligible"])[-1])
        assert k > 0
        alone = DirtyMTLCV(lams[[k]], ratios=[0.5], cv=folds).fit(X, y, task=task)
    np.testing.assert_allclose(whole.cv_results_["test_mse"][k], alone.cv_results_["test_mse"][0], rtol=1e-2)


@pytest.mark.filterwarnings("ignore:the targets of task")
@pytest.mark.parametrize("intercepts", ["task", "common"])
@pytest.mark.parametrize("search", [MSMTFLClassifierCV, msmtfl.L12MTLClassifierCV, msmtfl.DirtyMTLClassifierCV])
def test_classes_that_a_feature_without_a_penalty_separates_have_no_score(search, intercepts):
    """Models that couple the tasks used to score such points: by where the solver had stopped."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((24, 3)), np.repeat([0, 1], 12)
    y = (np.where(task == 0, X[:, 0], X[:, 1]) > 0).astype(int)
    y[task == 1] ^= rng.random(12) < 0.3
    folds = list(TaskKFold(3, task=[f"{a} {b}" for a, b in zip(task, y, strict=True)], random_state=0).split(X))
    model = small(search, penalty_factors=[0.0, 1.0, 1.0], cv=folds, intercepts=intercepts)
    with pytest.raises(ValueError, match="no point of the grid has a score"):
        model.fit(X, y, task=task)


@pytest.mark.filterwarnings("ignore:the targets of task", "ignore:the best point")
@pytest.mark.parametrize("search", [MSMTFLClassifierCV, msmtfl.DirtyMTLClassifierCV])
def test_points_at_which_the_loss_has_all_but_gone_have_no_score(search):
    """Rounding says how large coefficients are that nearly nothing holds back: scores used to be off by 30 % there."""
    rng = np.random.default_rng(12)
    X, task, W = rng.standard_normal((90, 8)), np.repeat(np.arange(3), 30), np.zeros((3, 8))
    W[:, :3] = 3.0 * rng.standard_normal((3, 3))
    y = ((X * W[task]).sum(axis=1) + 0.3 * task + rng.logistic(size=90) > 0).astype(int)
    folds = list(TaskKFold(3, task=[f"{a} {b}" for a, b in zip(task, y, strict=True)], random_state=1).split(X))
    model = search(np.geomspace(0.1, 1e-9, 6), cv=folds)
    model._ends_early = False
    model.fit(X, y, task=task)
    lams, eligible = model.cv_results_[next(iter(model.surface_.parameters))], model.cv_results_["eligible"]
    assert eligible[lams > 1e-4].any()
    assert not eligible[lams < 1e-8].any()


def test_a_common_level_far_away_is_found():
    """Half-way there all rows of a task are saturated: steps were then 1e26 times too long, and a stage that had not moved
    counted as solved (gap 3.5e-6, level 146.07)."""
    rng = np.random.default_rng(12)
    X, task, W = rng.standard_normal((90, 8)), np.repeat(np.arange(3), 30), np.zeros((3, 8))
    W[:, :3] = 3.0 * rng.standard_normal((3, 3))
    y = ((X * W[task]).sum(axis=1) + 0.3 * task + rng.logistic(size=90) > 0).astype(int)
    folds = TaskKFold(3, task=[f"{a} {b}" for a, b in zip(task, y, strict=True)], random_state=1).split(X)
    rows = next(iter(folds))[0]
    model = MSMTFLClassifier(1e-9, np.inf, intercepts="common").fit(X[rows], y[rows], task=task[rows])
    assert model.dual_gap_ < 1e-9
    np.testing.assert_allclose(model.intercept_, 151.41776, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*un-penalised", "ignore:stopped", "ignore:the targets of task")
def test_free_features_that_separate_classes_have_no_score_beside_a_common_intercept_either():
    rng = np.random.default_rng(1)
    X, task, W = rng.standard_normal((90, 8)), np.repeat([0, 1, 2], 30), np.zeros((3, 8))
    W[:, :3] = 0.5 * rng.standard_normal((3, 3))
    y = ((X * W[task]).sum(axis=1) + 0.3 * task + rng.logistic(size=90) > 0).astype(int)
    of_class = [f"{one} {other}" for one, other in zip(task, y, strict=True)]
    folds = list(TaskKFold(3, task=of_class, random_state=0).split(X))
    model = msmtfl.SharedMTLClassifierCV(lams=5, cv=folds, intercepts="common").fit(X, y, task=task)
    assert_scored_as_refitted(model, X, y, task, folds, seed=5, intercepts="common")
