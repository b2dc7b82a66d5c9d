"""Partial pooling: common values and deviations with ridges only."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from msmtfl import (
    LassoMTL,
    Moments,
    MultiTaskAuto,
    PartialPooling,
    PartialPoolingCV,
    TaskKFold,
    compare_models,
)
from msmtfl._objective.coupled.pooling import certify_pooling
from msmtfl._paths.families.pooling_path import pooling_ridge
from msmtfl._solvers.coupled.pooling import Pooling
from msmtfl._solvers.problems.make_problem import make_problem
from msmtfl._solvers.solvers import pooling_for
from msmtfl.compare.entrants import default_models
from msmtfl.model_files import load_model, save_model


@parametrize_with_checks([PartialPooling(), PartialPoolingCV(ks=4, cv=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def sample(m=5, sizes=(8, 30), d=4, seed=0, spread=0.5, noise=1.0):
    """X, y, labels: slopes that differ between tasks by `spread`; tasks of different sizes."""
    rng = np.random.default_rng(seed)
    n = rng.integers(*sizes, m)
    task = np.repeat(np.arange(m), n)
    X = rng.standard_normal((len(task), d)) + rng.standard_normal(d)
    slopes = rng.standard_normal(d) + spread * rng.standard_normal((m, d))
    y = np.einsum("nj,nj->n", X, slopes[task]) + rng.standard_normal(m)[task] + noise * rng.standard_normal(len(task))
    return X, y, task


def dense(X, y, task, weight, k, k_common, f, g, centre):
    """b, V (m + 1, d) and the objective by one least-squares problem with rows for the ridges."""
    labels, d = np.unique(task), X.shape[1]
    blocks, targets = [], []
    for i, label in enumerate(labels):
        on = task == label
        A, t, w = X[on], y[on], weight[on]
        if centre:
            A, t = A - np.average(A, axis=0, weights=w), t - np.average(t, weights=w)
        block = np.zeros((len(t), (len(labels) + 1) * d))
        block[:, :d] = block[:, (i + 1) * d : (i + 2) * d] = A
        blocks.append(np.sqrt(w)[:, None] * block)
        targets.append(np.sqrt(w) * t)
    ridge = np.sqrt(np.concatenate([k_common * g**2, *(k * f**2)]))
    A, t = np.vstack([*blocks, np.diag(ridge)]), np.concatenate([*targets, np.zeros(len(ridge))])
    P = np.linalg.lstsq(A, t, rcond=1e-13)[0]
    return P.reshape(-1, d), float(np.sum((A @ P - t) ** 2)) / weight.sum()


@pytest.mark.parametrize("seed", range(100))
def test_the_solution_is_that_of_dense_least_squares(seed):
    rng = np.random.default_rng(seed)
    m, d = int(rng.integers(1, 6)), int(rng.integers(1, 9))
    X, y, task = sample(m, (3, 25), d, seed)
    X *= 10.0 ** rng.uniform(-1, 1, d)
    few = len(y) - m <= d + 2
    k, k_common = 10.0 ** rng.uniform(-2, 3), float(rng.choice([0.5, 20.0] if few else [0.0, 0.5, 20.0]))
    weight = rng.uniform(0.5, 2.0, len(y)) if rng.random() < 0.5 else np.ones(len(y))
    centre, standardize = bool(rng.random() < 0.7), bool(rng.random() < 0.5)
    given = rng.uniform(0.3, 3.0, d) if rng.random() < 0.5 else np.ones(d)
    f, g = np.tile(given, (m, 1)), given
    if standardize:
        parts = [(X[task == i], weight[task == i]) for i in range(m)]
        means = [np.average(A, axis=0, weights=w) if centre else 0.0 for A, w in parts]
        squares = np.array(
            [np.average((A - mean) ** 2, axis=0, weights=w) for (A, w), mean in zip(parts, means, strict=True)]
        )
        f, g = f * np.sqrt(squares), g * np.sqrt(squares.mean(axis=0))
    options = {"fit_intercept": centre, "standardize": standardize, "penalty_factors": given}
    model = PartialPooling(k, k_common, **options).fit(X, y, task=task, sample_weight=weight)
    P, value = dense(X, y, task, weight, k, k_common, f, g, centre)
    np.testing.assert_allclose(model.coef_, P[0] + P[1:], rtol=0, atol=1e-8 * np.abs(P).max())
    np.testing.assert_allclose(model.coef_common_, P[0], rtol=0, atol=1e-8 * np.abs(P).max())
    assert model.objective_ == pytest.approx(value, rel=1e-8)
    assert model.dual_gap_ < 1e-10
    assert model.converged_


def test_it_is_the_mixed_model():
    """Best linear unbiased predictions with the variances that make k, by the dense covariance of all targets."""
    X, y, task = sample(6, (4, 30), 3)
    variance, noise = 0.3, 1.7
    own = (task[:, None] == np.arange(6)).astype(float)
    fixed = np.hstack([X, own])
    cov = variance * (X @ X.T) * (task[:, None] == task) + noise * np.eye(len(y))
    precision = np.linalg.inv(cov)
    beta = np.linalg.solve(fixed.T @ precision @ fixed, fixed.T @ precision @ y)
    left = precision @ (y - fixed @ beta)
    slopes = beta[:3] + variance * np.array([X[task == i].T @ left[task == i] for i in range(6)])
    model = PartialPooling(noise / variance).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_common_, beta[:3], atol=1e-9)
    np.testing.assert_allclose(model.coef_, slopes, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, beta[3:] + 0.0 * model.intercept_, atol=0.5)  # levels, about


def test_small_tasks_are_drawn_more_to_the_common_values():
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(50):
        n = np.array([5, 200, 100, 100])
        task = np.repeat(np.arange(4), n)
        X = rng.standard_normal((len(task), 1))
        y = X[:, 0] * np.array([2.0, 2.0, -1.0, -1.0])[task] + 0.3 * rng.standard_normal(len(task))
        model = PartialPooling(20.0).fit(X, y, task=task)
        shares.append(model.coef_deviation_[:2, 0])
    small, large = np.mean(shares, axis=0)
    assert 0.0 < small < 0.5 * large


def test_the_ends_are_ridges():
    X, y, task = sample()
    pooled = PartialPooling(np.inf, 3.0).fit(X, y, task=task)
    assert not pooled.coef_deviation_.any()
    centred = [np.column_stack([X, y])[task == i] - np.column_stack([X, y])[task == i].mean(axis=0) for i in range(5)]
    rows = np.concatenate(centred)
    np.testing.assert_allclose(pooled.coef_[2], Ridge(3.0, fit_intercept=False).fit(rows[:, :-1], rows[:, -1]).coef_)
    apart = PartialPooling(3.0, np.inf).fit(X, y, task=task)
    assert not apart.coef_common_.any()
    for i in range(5):
        np.testing.assert_allclose(apart.coef_[i], Ridge(3.0).fit(X[task == i], y[task == i]).coef_)
    with pytest.raises(ValueError, match="all coefficients are 0"):
        PartialPooling(np.inf, np.inf).fit(X, y, task=task)


@pytest.mark.parametrize("k", [0.0, -1.0, np.nan, "many"])
def test_strengths_that_make_no_sense(k):
    X, y, task = sample()
    with pytest.raises((ValueError, TypeError), match="k must be"):
        PartialPooling(k).fit(X, y, task=task)
    with pytest.raises((ValueError, TypeError), match=r"ks must be|could not convert"):
        PartialPoolingCV([k, 1.0]).fit(X, y, task=task)


def test_more_features_than_samples():
    X, y, task = sample(3, (6, 10), 40)
    model = PartialPooling(2.0, 0.5).fit(X, y, task=task)
    P, value = dense(X, y, task, np.ones(len(y)), 2.0, 0.5, np.ones((3, 40)), np.ones(40), True)
    np.testing.assert_allclose(model.coef_, P[0] + P[1:], atol=1e-9)
    assert model.objective_ == pytest.approx(value, rel=1e-9)
    assert model.dual_gap_ < 1e-10
    with pytest.warns(UserWarning, match="do not determine the common values"):
        least = PartialPooling(2.0).fit(X, y, task=task)
    near = PartialPooling(2.0, 1e-7).fit(X, y, task=task)
    np.testing.assert_allclose(least.coef_common_, near.coef_common_, atol=1e-5)
    assert least.dual_gap_ < 1e-8
    assert not least.certificate_.unique


def test_dependent_features_have_the_smallest_common_values():
    X, y, task = sample(4, (20, 40), 3)
    twice = np.column_stack([X, X[:, 0]])
    with pytest.warns(UserWarning, match="do not determine the common values"):
        model = PartialPooling(5.0).fit(twice, y, task=task)
    np.testing.assert_allclose(model.coef_common_[0], model.coef_common_[3])
    assert model.dual_gap_ < 1e-10
    near = PartialPooling(5.0, 1e-6).fit(twice, y, task=task)
    np.testing.assert_allclose(model.predict(twice, task=task), near.predict(twice, task=task), atol=1e-5)


def test_features_that_are_not_penalised():
    X, y, task = sample(4, (20, 40), 5)
    factors = np.array([0.0, 1.0, np.inf, 2.0, 0.0])
    model = PartialPooling(4.0, 1.0, penalty_factors=factors).fit(X, y, task=task)
    near = PartialPooling(4.0, 1.0, penalty_factors=np.where(factors == 0, 1e-6, factors)).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, near.coef_, atol=1e-6)
    assert not model.coef_[:, 2].any()
    assert not model.coef_common_[[0, 4]].any()
    assert model.dual_gap_ < 1e-10
    with pytest.raises(ValueError, match="one entry per feature"):
        PartialPooling(penalty_factors=np.ones((5, 4))).fit(X, y, task=task)


def test_a_column_that_does_not_vary_in_a_task_has_its_common_value():
    X, y, task = sample(4, (20, 40), 3)
    X[task == 1, 2] = 7.0
    model = PartialPooling(4.0).fit(X, y, task=task)
    assert model.coef_deviation_[1, 2] == 0.0
    assert model.coef_[1, 2] == model.coef_common_[2] != 0.0


@pytest.mark.parametrize("where", ["common", "deviation"])
def test_the_certificate_is_no_formality(where):
    X, y, task = sample()
    model = PartialPooling(3.0, 0.5)
    problem = model._make_problem(X, y, task, None)
    penalty = pooling_ridge(problem, 3.0, 0.5)
    b, V = Pooling(problem).one(3.0, 0.5)
    right = certify_pooling(problem.designs, np.concatenate([b, V.ravel()]), penalty)
    value = penalty.value(np.concatenate([b, V.ravel()]))
    value += sum(x.loss(b + v) for x, v in zip(problem.designs, V, strict=True)) / penalty.n
    (b if where == "common" else V[0])[0] += 1e-3
    P = np.concatenate([b, V.ravel()])
    wrong = certify_pooling(problem.designs, P, penalty)
    worse = penalty.value(P) + sum(x.loss(b + v) for x, v in zip(problem.designs, V, strict=True)) / penalty.n
    zero = sum(x.yy for x in problem.designs) / penalty.n
    assert right.gap < 1e-12
    assert wrong.gap >= (worse - value) / zero > 1e-9
    assert wrong.doubt.kind == "far"


@pytest.mark.parametrize("loss", ["squared", "poisson"])
@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-3, -1.0])
def test_coefficients_that_are_far_too_small_are_not_certified(loss, size):
    """What nothing penalises is looked for at the size that the data allow, not only at that of what was found."""
    X, y, task = sample()
    y = np.floor(np.exp(0.3 * y)) if loss == "poisson" else y
    problem = PartialPooling(3.0, loss=loss)._make_problem(X, y, task, None)
    penalty = pooling_ridge(problem, 3.0, 0.0)
    b, V = pooling_for(problem).one(3.0, 0.0)
    P = np.concatenate([b, V.ravel()])

    def value(P):
        b, *V = P.reshape(-1, problem.d)
        return penalty.value(P) + sum(x.loss(b + v) for x, v in zip(problem.designs, V, strict=True)) / penalty.n

    share = (value(size * P) - value(P)) / value(np.zeros_like(P))
    assert share > 1e-4
    assert certify_pooling(problem.designs, size * P, penalty).gap >= share
    assert certify_pooling(problem.designs, P, penalty).gap < 1e-10


@pytest.mark.parametrize("apart", [1e-4, 1e-7, 1e-10])
@pytest.mark.parametrize("factor", [0.0, 1.0])
def test_what_nearly_equal_columns_hide_is_not_certified(apart, factor):
    """Their difference explains much, but its slope is next to nothing."""
    rng = np.random.default_rng(1)
    X, hidden, task = rng.standard_normal((90, 3)), rng.standard_normal(90), np.repeat([0, 1, 2], 30)
    X[:, 2] = X[:, 0] + apart * hidden
    y = X @ [1.0, 2.0, 0.0] + 0.5 * hidden
    problem = PartialPooling(penalty_factors=np.full(3, factor))._make_problem(X, y, task, None)
    penalty = pooling_ridge(problem, 1e3, 0.0)
    P, best = np.zeros((4, 3)), np.array([1.0, 2.0, 0.0])
    if factor:
        P[0] = best
    else:
        P[1:] = best
    share = sum(x.loss(best) for x in problem.designs) / sum(x.yy for x in problem.designs)
    assert share > 1e-3  # all of it can be fitted
    assert certify_pooling(problem.designs, P.ravel(), penalty).gap >= 0.9 * share
    if not factor:  # no penalty at all: what the solver leaves is the gap
        _, V = pooling_for(problem).one(1e3, 0.0)
        P[1:] = V
        left = sum(x.loss(v) for x, v in zip(problem.designs, V, strict=True)) / sum(x.yy for x in problem.designs)
        assert certify_pooling(problem.designs, P.ravel(), penalty).gap >= 0.9 * left


def test_from_statistics():
    X, y, task = sample()
    for options in ({}, {"k": 3.0, "k_common": 0.4, "standardize": True}, {"fit_intercept": False}):
        moments = Moments()
        for rows in np.array_split(np.arange(len(y)), 3):
            moments.update(X[rows], y[rows], task=task[rows])
        model = PartialPooling(**options).fit(X, y, task=task)
        again = PartialPooling(**options).fit_moments(moments)
        np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-6)
        assert again.k_ == pytest.approx(model.k_, rel=1e-4)
        assert again.dual_gap_ < 1e-8
    folds = [Moments() for _ in range(4)]
    parts = list(TaskKFold(4, task=task, random_state=0).split(X))
    for moments, (_, test) in zip(folds, parts, strict=True):
        moments.update(X[test], y[test], task=task[test])
    of_rows = PartialPoolingCV(cv=parts).fit(X, y, task=task)
    of_sums = PartialPoolingCV().fit_moments(folds)
    assert of_sums.best_point_ == of_rows.best_point_
    np.testing.assert_allclose(
        of_sums.cv_results_["mean_test_score"], of_rows.cv_results_["mean_test_score"], rtol=1e-6
    )


def test_batches():
    X, y, task = sample()
    model = PartialPooling(3.0)
    for rows in np.array_split(np.random.default_rng(0).permutation(len(y)), 3):
        model.partial_fit(X[rows], y[rows], task=task[rows])
    np.testing.assert_allclose(model.coef_, PartialPooling(3.0).fit(X, y, task=task).coef_, atol=1e-9)


def test_tasks_with_the_same_samples():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((30, 4)), rng.standard_normal((30, 3))
    wide = PartialPooling(2.0).fit(X, Y)
    long = PartialPooling(2.0).fit(np.tile(X, (3, 1)), Y.T.ravel(), task=np.repeat(np.arange(3), 30))
    np.testing.assert_allclose(wide.coef_, long.coef_, atol=1e-10)


# ------------------------------------------------------------------ search


@pytest.mark.parametrize("options", [{}, {"standardize": True}, {"penalty_factors": [1.0, 0.0, 2.0, 1.0]}])
def test_a_search_scores_what_fits_on_the_folds_predict(options):
    X, y, task = sample(sizes=(10, 30))
    folds = list(TaskKFold(3, task=task, random_state=1).split(X))
    model = PartialPoolingCV([1.0, 30.0], k_commons=[0.0, 5.0], cv=folds, scoring="neg_mse", **options)
    results = model.fit(X, y, task=task).cv_results_
    for place in range(4):
        one = PartialPooling(results["k"][place], results["k_common"][place], **options)
        for f, (train, test) in enumerate(folds):
            fitted = one.fit(X[train], y[train], task=task[train])
            error = np.mean((fitted.predict(X[test], task=task[test]) - y[test]) ** 2)
            assert -results[f"split{f}_test_score"][place] == pytest.approx(error, rel=1e-9)
    best = PartialPooling(model.k_, model.k_common_, **options).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, best.coef_, atol=1e-10)
    np.testing.assert_allclose(model.surface_.coef(*model.best_point_), best.coef_, atol=1e-10)
    np.testing.assert_allclose(model.surface_.coef_common(*model.best_point_), best.coef_common_, atol=1e-10)


def test_the_surface_is_certified_and_outlives_its_data():
    X, y, task = sample()
    surface = PartialPoolingCV(ks=4, cv=3).fit(X, y, task=task).surface_
    again = pickle.loads(pickle.dumps(surface))
    assert again.problem is None
    assert (again.dual_gap < 1e-9).all()
    assert (np.diff(again.objective[:, 0]) < 0).all()
    np.testing.assert_array_equal(again.coef(2, 1), surface.coef(2, 1))
    assert len(again.to_frame()) == surface.grid.k.size


def test_degrees_of_freedom_are_the_trace_of_what_fits():
    X, y, task = sample(3, (8, 12), 3)
    pooling = Pooling(
        make_problem(PartialPooling()._read(X, y, task, None), fit_intercept=True, standardize=False, positive=False)
    )
    for k, k_common in ((2.0, 0.0), (2.0, 5.0), (np.inf, 1.0), (3.0, np.inf)):
        model, traces = PartialPooling(k, k_common), np.zeros(3)
        base = model.fit(X, y, task=task).predict(X, task=task)
        for r in range(len(y)):
            z = y.copy()
            z[r] += 1.0
            traces[task[r]] += (model.fit(X, z, task=task).predict(X, task=task) - base)[r]
        np.testing.assert_allclose(pooling.degrees(k, k_common), traces - 1.0, atol=1e-8)  # less the intercepts


@pytest.mark.parametrize("selection", ["1se", "aic", "bic", "ebic"])
def test_other_ways_to_choose(selection):
    X, y, task = sample(6, (20, 40))
    model = PartialPoolingCV(selection=selection).fit(X, y, task=task)
    assert model.k_ in model.ks_
    if selection == "1se":
        assert model.k_ >= PartialPoolingCV().fit(X, y, task=task).k_


# ------------------------------------------------------------------ marginal likelihood


def test_the_likelihood_is_that_of_all_targets():
    """Differences of the restricted log-likelihood, by the dense covariance of contrasts of the targets."""
    X, y, task = sample(4, (5, 15), 2)
    fixed = np.hstack([X, task[:, None] == np.arange(4)])
    contrasts = np.linalg.svd(fixed)[0][:, fixed.shape[1] :]
    problem = make_problem(
        PartialPooling()._read(X, y, task, None), fit_intercept=True, standardize=False, positive=False
    )
    pooling, found = Pooling(problem), []
    for k in (0.5, 5.0, 50.0, np.inf):
        cov = contrasts.T @ (np.eye(len(y)) + (X @ X.T) * (task[:, None] == task) / k) @ contrasts
        z = contrasts.T @ y
        best = len(z) * np.log(z @ np.linalg.solve(cov, z)) + np.linalg.slogdet(cov)[1]
        found.append(pooling.deviance(k, 0.0, len(y) - 4) - best)
    np.testing.assert_allclose(found, found[0], atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "spread", "most"), [(1.0, 0.5, 0.4), (2.0, 0.5, 0.5), (1.0, 0.1, 1.2)])
def test_the_likelihood_finds_the_ratio_of_variances(noise, spread, most):
    logs = []
    for seed in range(40):
        X, y, task = sample(25, (10, 40), 4, seed, spread, noise)
        logs.append(np.log(PartialPooling().fit(X, y, task=task).k_))
    error = np.array(logs) - np.log(noise**2 / spread**2)
    assert abs(np.median(error)) < 0.15
    assert np.quantile(np.abs(error), 0.75) < most


def test_tasks_that_do_not_differ_are_one():
    alone = [
        PartialPooling().fit(*sample(8, (10, 30), 3, seed, 0.0)[:2], task=sample(8, (10, 30), 3, seed, 0.0)[2]).k_
        for seed in range(20)
    ]
    assert np.mean(np.isinf(alone)) > 0.3  # the estimate of a variance that is 0 is 0 about half of the time
    assert np.median(alone) > 100.0


# ------------------------------------------------------------------ in company


@pytest.mark.slow
def test_it_takes_part_in_comparisons_and_is_chosen_where_effects_are_dense():
    X, y, task = sample(12, (15, 30), 10, 3, 0.25)
    result = compare_models(X, y, task=task, models=["lasso", "shared", "partial-pooling"], cv=3)
    assert result.models[int(np.argmin(result.nmse))] == "partial-pooling"
    auto = MultiTaskAuto(cv=3, models=["lasso", "l12", "partial-pooling"]).fit(X, y, task=task)
    assert auto.chosen_ == "partial-pooling"
    assert auto.coef_common_.shape == (10,)


# ------------------------------------------------------------------ columns that do not vary, and weights


@pytest.mark.filterwarnings("ignore:feature.* are constant within every task")
@pytest.mark.parametrize("column", [0, 2, 5])
@pytest.mark.parametrize("value", [7.0, 0.0, "task"])
def test_a_column_that_varies_in_no_task_changes_nothing(column, value):
    rng = np.random.default_rng(column)
    X, task = rng.standard_normal((112, 6)), np.repeat(np.arange(4), [30, 50, 12, 20])
    y = X[:, 0] + rng.standard_normal(112)
    X[:, column] = task if value == "task" else value
    others = np.delete(X, column, axis=1)
    for k in (2.0, None, np.inf):
        model = PartialPooling(k).fit(X, y, task=task)
        assert model.dual_gap_ < 1e-10
        expected = PartialPooling(k).fit(others, y, task=task).predict(others, task=task)
        np.testing.assert_allclose(model.predict(X, task=task), expected, atol=1e-9)
    scores = PartialPoolingCV(3).fit(X, y, task=task).cv_results_["mean_test_score"]
    assert scores.min() > -10.0


def test_excluded_features_are_certified():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 3)), np.repeat([0, 1, 2], 20)
    for factors in ([1.0, np.inf, 1.0], [np.inf] * 3):
        model = PartialPooling(2.0, penalty_factors=factors).fit(X, X[:, 0], task=task)
        assert model.converged_
        assert model.coef_[:, 1].tolist() == [0.0] * 3


@pytest.mark.parametrize("weight", [1 / 112, 0.1, 2.3])
def test_a_factor_of_all_weights_does_not_change_what_likelihood_chooses(weight):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((112, 4)), np.repeat(np.arange(4), 28)
    slopes = rng.standard_normal(4) + 0.5 * rng.standard_normal((4, 4))
    y = np.einsum("nj,nj->n", X, slopes[task]) + rng.standard_normal(112)
    expected = PartialPooling().fit(X, y, task=task).k_
    found = PartialPooling().fit(X, y, task=task, sample_weight=np.full(112, weight)).k_
    assert found / weight == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("loss", ["squared", "huber", "poisson"])
@pytest.mark.parametrize("model", [PartialPooling, PartialPoolingCV])
def test_features_that_do_not_vary_leave_the_intercepts(model, loss):
    y = np.arange(20.0)
    fitted = model(loss=loss).fit(np.ones((20, 3)), y, task=np.repeat(["a", "b"], 10))
    assert not fitted.coef_.any()
    assert np.allclose(fitted.predict(np.ones((2, 3)), task=["a", "b"]), [4.5, 14.5])


# ------------------------------------------------------------------ units of columns


def mixed(seed=0):
    """X, y, labels: a number in large units, an indicator, a constant column and a number of spread 1."""
    X, y, task = sample(seed=seed)
    X = np.column_stack([300.0 * X[:, 0], X[:, 1] > X[:, 1].mean(), np.full(len(y), 3.0), X[:, 2]])
    return X, y, task


@pytest.mark.parametrize("model", [PartialPooling(3.0, 2.0), PartialPooling(3.0, 2.0, loss="huber"), PartialPooling()])
def test_numbers_are_in_two_standard_deviations_and_indicators_as_they_are(model):
    X, y, task = mixed()
    scaled = clone(model).set_params(standardize="numeric").fit(X, y, task=task)
    centred = X - np.array([X[task == label].mean(axis=0) for label in range(5)])[task]
    spread = np.sqrt((centred**2).mean(axis=0))
    units = np.array([2 * spread[0], 1.0, 1.0, 2 * spread[3]])
    np.testing.assert_allclose(scaled.feature_units_, units)
    by_hand = clone(model).fit(X / units, y, task=task)
    np.testing.assert_allclose(scaled.coef_ * units, by_hand.coef_, atol=1e-7)
    assert scaled.dual_gap_ < 1e-8


def test_units_are_those_of_every_form_of_the_data():
    X, y, task = mixed()
    X[:, 2] = np.where(X[:, 3] > X[:, 3].mean(), 1.0, -1.0)
    X[:, 3] *= 1e-9  # a number, however small
    of_rows = PartialPooling(3.0, standardize="numeric").fit(X, y, task=task)
    assert of_rows.feature_units_[1:3].tolist() == [1.0, 2.0]
    sums = Moments().update(X, y, task=task)
    others = [
        PartialPooling(3.0, standardize="numeric").fit(csr_array(X), y, task=task),
        PartialPooling(3.0, standardize="numeric").fit_moments(sums),
        PartialPooling(3.0, standardize="numeric").fit(X.astype(np.float32), y, task=task),
    ]
    for other in others:
        np.testing.assert_allclose(other.feature_units_, of_rows.feature_units_, rtol=1e-6)
        found = other.coef_ * of_rows.feature_units_
        np.testing.assert_allclose(found, of_rows.coef_ * of_rows.feature_units_, rtol=1e-4, atol=1e-5)


def test_units_of_a_search_its_file_and_its_new_tasks(tmp_path):
    X, y, task = mixed()
    model = PartialPoolingCV([1.0, 30.0], standardize="numeric", cv=3).fit(X, y, task=task)
    alone = PartialPooling(model.k_, model.k_common_, standardize="numeric").fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-9)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.feature_units_, model.feature_units_)
    again.add_task(X[:9], y[:9], "new")
    factor = clone(alone).set_params(standardize=False, penalty_factors=model.feature_units_)
    factor.fit(X, y, task=task).add_task(X[:9], y[:9], "new")
    np.testing.assert_allclose(again.coef_[-1], factor.coef_[-1], atol=1e-7)


def test_scales_that_are_not_known():
    X, y, task = mixed()
    with pytest.raises(ValueError, match="standardize must be True, False or 'numeric', got 'numbers'"):
        PartialPooling(standardize="numbers").fit(X, y, task=task)
    with pytest.raises(ValueError, match="standardize must be True, False or 'numeric', got None"):
        PartialPooling(standardize=None).fit(X, y, task=task)
    with pytest.raises(TypeError, match="standardize must be True or False"):
        LassoMTL(standardize="numeric").fit(X, y, task=task)


def test_comparisons_have_partial_pooling_in_units_that_are_alike():
    known = default_models(standardize=False)["partial-pooling"]
    assert known.standardize == "numeric"
    assert default_models(standardize=True)["partial-pooling"].standardize is True


# ------------------------------------------------------------------ columns of very different sizes, and counts


@pytest.mark.parametrize("form", ["samples", "sums", "wide"])
def test_columns_of_very_different_sizes(form):
    """The same model as with columns of one size, whose penalties are told by penalty factors."""
    X, y, task = sample(4, (20, 30), 30 if form == "wide" else 4)
    sizes = 10.0 ** np.linspace(-6, 6, X.shape[1])
    expected = PartialPooling(2.0, 0.5 if form == "wide" else 0.0, penalty_factors=1 / sizes).fit(X, y, task=task)
    model = clone(expected).set_params(penalty_factors=None)
    if form == "sums":
        model.fit_moments(Moments().update(X * sizes, y, task=task))
    else:
        model.fit(X * sizes, y, task=task)
    assert model.dual_gap_ < 1e-10
    np.testing.assert_allclose(model.coef_ * sizes, expected.coef_, atol=1e-6)


def test_counts_that_more_features_than_samples_interpolate():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((24, 60)), np.repeat(np.arange(3), 8)
    y = rng.poisson(np.exp(0.3 + X[:, :3].sum(axis=1) / 2)).astype(float)
    with pytest.warns(UserWarning, match="no finite coefficients minimise the loss.*k_common > 0"):
        model = PartialPooling(3.0, loss="poisson").fit(X, y, task=task)
    assert model.converged_
    assert model.dual_gap_ < 1e-9
    np.testing.assert_allclose(model.predict(X, task=task), y, atol=1e-4)


def test_nothing_more_can_be_gained_than_the_objective():
    X, y, task = sample()
    problem = PartialPooling()._make_problem(X, y, task, None)
    penalty = pooling_ridge(problem, 3.0, 0.0)
    assert certify_pooling(problem.designs, np.zeros((problem.m + 1) * problem.d), penalty).gap <= 1.0 + 1e-12


@pytest.mark.parametrize(("apart", "certain"), [(0.0, True), (1e-12, False), (1e-9, False), (1.0, True)])
def test_nearly_equal_columns_are_not_certified_under_other_losses(apart, certain):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((180, 4)), np.repeat(np.arange(3), 60)
    X[:, 1] = X[:, 0] + apart * X[:, 1]
    y = rng.poisson(np.exp(0.3 * X[:, 2]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PartialPooling(loss="poisson").fit(X, y, task=task)
    assert model.converged_ == certain
    assert (model.dual_gap_ < 1e-8) == certain
