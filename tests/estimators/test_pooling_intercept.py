"""Partial pooling with one intercept for all tasks: a common column of ones, whose deviations are 0."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from msmtfl import (
    PartialPooling,
    PartialPoolingClassifier,
    PartialPoolingClassifierCV,
    PartialPoolingCV,
    compare_models,
)
from msmtfl._solvers.coupled.pooling import Pooling
from msmtfl.model_files import load_model, save_model


def sample(seed, m=4, d=4, sizes=(2, 30)):
    """X, y, labels: tasks of very different sizes, columns and targets away from 0."""
    rng = np.random.default_rng(seed)
    n = rng.integers(*sizes, m)
    task = np.repeat(np.arange(m), n)
    X = rng.standard_normal((len(task), d)) + 2.0 * rng.standard_normal(d)
    slopes = rng.standard_normal(d) + 0.6 * rng.standard_normal((m, d))
    y = 5.0 * rng.normal() + np.einsum("nj,nj->n", X, slopes[task]) + rng.standard_normal(len(task))
    return X, y, task


def normal_equations(X, y, task, v, k, k_common, f):
    """W (m, d) and the intercept: columns 1, b and v_1 to v_m in one dense system."""
    m, d = task.max() + 1, X.shape[1]
    apart = np.einsum("ni,nj->nij", np.eye(m)[task], X).reshape(len(X), -1)
    D = np.column_stack([np.ones(len(X)), X, apart])
    ridge = np.concatenate([[0.0], k_common * f**2, np.tile(np.where(f > 0.0, k * f**2, 0.0), m)])
    ridge[1 : d + 1][f == 0.0] = np.inf  # what is not penalised is found in the deviations
    on = np.isfinite(ridge)
    A = (D[:, on] * v[:, None]).T @ D[:, on] + np.diag(ridge[on])
    z = np.zeros(len(ridge))
    z[on] = np.linalg.lstsq(A, (D[:, on] * v[:, None]).T @ y, rcond=1e-15)[0]
    return z[1 : d + 1] + z[d + 1 :].reshape(m, d), z[0]


@pytest.mark.parametrize("seed", range(50))
def test_it_is_the_solution_of_the_normal_equations(seed):
    rng = np.random.default_rng(1000 + seed)
    d = int(rng.integers(1, 8))
    X, y, task = sample(seed, int(rng.integers(2, 6)), d, (2 + (seed % 5 == 0) * 8, 25))
    v = rng.uniform(0.2, 3.0, len(y)) if seed % 3 == 0 else np.ones(len(y))
    k, k_common = 10 ** rng.uniform(-2, 3), 10 ** rng.uniform(-2, 2)
    k_common = 0.0 if len(y) > 3 * d and seed % 2 else k_common
    if seed % 7 == 0:
        k = np.inf
    elif seed % 7 == 1:
        k_common = np.inf
    f = np.ones(d)
    if seed % 5 == 0 and d > 2 and np.isfinite(k) and np.isfinite(k_common):
        f[:2] = 0.0, 2.5
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(un-penalised|do not vary|one sample).*")
        model = PartialPooling(k, k_common, intercepts="common", penalty_factors=f).fit(
            X, y, task=task, sample_weight=v
        )
    W, level = (
        normal_equations(X, y, task, v, k, k_common, f)
        if np.isfinite(k) and np.isfinite(k_common)
        else without_a_part(X, y, task, v, k, k_common)
    )
    assert model.converged_
    np.testing.assert_allclose(model.coef_, W, rtol=0, atol=1e-8 * max(1.0, np.abs(W).max()))
    np.testing.assert_allclose(model.intercept_, level, rtol=0, atol=1e-8 * max(1.0, abs(level)))


def without_a_part(X, y, task, v, k, k_common):
    """The same where there are no deviations, or no common part."""
    m, d = task.max() + 1, X.shape[1]
    apart = np.einsum("ni,nj->nij", np.eye(m)[task], X).reshape(len(X), -1)
    D = np.column_stack([np.ones(len(X)), X if np.isinf(k) else apart])
    ridge = np.full(D.shape[1], k_common if np.isinf(k) else k)
    ridge[0] = 0.0
    z = np.linalg.lstsq((D * v[:, None]).T @ D + np.diag(ridge), (D * v[:, None]).T @ y, rcond=1e-15)[0]
    return (np.tile(z[1:], (m, 1)) if np.isinf(k) else z[1:].reshape(m, d)), z[0]


def test_more_features_than_samples():
    X, y, task = sample(0, d=90)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k_common in (0.0, 3.0):
            model = PartialPooling(2.0, k_common, intercepts="common").fit(X, y, task=task)
            assert model.converged_
            assert abs((y - model.predict(X, task=task)).sum()) < 1e-9 * np.abs(y).sum()
    W, level = normal_equations(X, y, task, np.ones(len(y)), 2.0, 3.0, np.ones(90))
    np.testing.assert_allclose(model.coef_, W, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, level, atol=1e-8)


def restricted(X, y, task, k):
    """Minus twice the restricted log-likelihood of a mixed model with one fixed intercept, by dense matrices."""
    V = np.eye(len(y)) + (task[:, None] == task) * (X @ X.T) / k
    F = np.column_stack([np.ones(len(y)), X])
    A = F.T @ np.linalg.solve(V, F)
    r = y - F @ np.linalg.solve(A, F.T @ np.linalg.solve(V, y))
    left = (len(y) - F.shape[1]) * np.log(r @ np.linalg.solve(V, r))
    return np.linalg.slogdet(V)[1] + np.linalg.slogdet(A)[1] + left


def test_the_strength_maximises_the_restricted_likelihood_with_one_fixed_intercept():
    X, y, task = sample(3, sizes=(5, 30))
    k = PartialPooling(intercepts="common").fit(X, y, task=task).k_
    best = restricted(X, y, task, k)
    assert 0.1 < k < 100.0
    assert all(best < restricted(X, y, task, k * factor) for factor in (0.5, 0.99, 1.01, 2.0))
    pooling = Pooling(PartialPooling(intercepts="common")._make_problem(X, y, task, None))
    one, other = (pooling.deviance(at, 0.0, float(len(y))) for at in (1.0, 7.0))
    assert one - other == pytest.approx(restricted(X, y, task, 1.0) - restricted(X, y, task, 7.0), abs=1e-8)
    assert pooling.slope(3.0, 0.0, float(len(y))) == pytest.approx(
        (pooling.deviance(3.0 * np.exp(1e-4), 0.0, len(y)) - pooling.deviance(3.0 * np.exp(-1e-4), 0.0, len(y))) / 2e-4,
        abs=1e-5,
    )


def test_a_mixed_model_of_statsmodels_has_the_same_coefficients():
    MixedLM = pytest.importorskip("statsmodels.regression.mixed_linear_model").MixedLM
    X, y, task = sample(3, m=8, d=1, sizes=(5, 40))
    found = MixedLM(y, np.column_stack([np.ones(len(y)), X]), groups=task, exog_re=X).fit(reml=True, gtol=1e-8)
    model = PartialPooling(intercepts="common").fit(X, y, task=task)
    assert model.k_ == pytest.approx(found.scale / found.cov_re[0, 0], rel=1e-3)
    given = PartialPooling(found.scale / found.cov_re[0, 0], intercepts="common").fit(X, y, task=task)
    np.testing.assert_allclose([given.common_level_, *given.coef_common_], found.fe_params, atol=1e-6)
    effects = np.array([found.random_effects[i] for i in range(8)]).ravel()
    np.testing.assert_allclose(given.coef_deviation_.ravel(), effects, atol=1e-6)


@pytest.mark.parametrize(("k", "k_common"), [(3.0, 2.0), (0.5, 0.0), (np.inf, 0.0), (1.0, np.inf)])
def test_degrees_are_how_fitted_values_follow_targets(k, k_common):
    X, y, task = sample(5, m=3, d=2, sizes=(4, 12))
    model = PartialPooling(k, k_common, intercepts="common")
    pooling = Pooling(model._make_problem(X, y, task, None))
    base, found = model.fit(X, y, task=task).predict(X, task=task), np.zeros(3)
    for r in range(len(y)):
        found[task[r]] += model.fit(X, y + (np.arange(len(y)) == r), task=task).predict(X, task=task)[r] - base[r]
    np.testing.assert_allclose(pooling.degrees(k, k_common), found, rtol=1e-8)


def test_a_combination_of_columns_that_is_constant_is_no_unique_common_value():
    """Indicators of all values of a variable cannot be told from the intercept."""
    _, y, task = sample(1)
    X = np.eye(3)[np.random.default_rng(0).integers(0, 3, len(y))]
    with pytest.warns(UserWarning, match="do not determine the common values"):
        model = PartialPooling(2.0, intercepts="common").fit(X, y, task=task)
    assert model.dual_gap_ < 1e-9
    assert not model.certificate_.unique
    assert abs(model.coef_common_.sum()) < 1e-9  # the smallest
    assert PartialPooling(2.0, 0.1, intercepts="common").fit(X, y, task=task).certificate_.unique


def test_columns_far_from_zero_are_solved_or_not_certified():
    X, y, task = sample(3, sizes=(5, 30))
    for far in (1e2, 1e4, 1e6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PartialPooling(2.0, intercepts="common").fit(X + far, y, task=task)
        assert model.converged_ or far > 1e2
        if model.converged_:
            assert abs((y - model.predict(X + far, task=task)).sum()) < 1e-5


@pytest.mark.parametrize("bounds", [None, (0.0, 1.0)], ids=["free", "bounds"])
@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_other_losses_and_bounds(loss, bounds):
    X, y, task = sample(3, m=3, d=2, sizes=(5, 20))
    y = np.floor(np.exp(np.clip(y / 4.0, -2.0, 2.0))) if loss == "poisson" else y
    model = PartialPooling(2.0, 0.5, loss=loss, intercepts="common", bounds=bounds).fit(X, y, task=task)
    assert model.converged_

    def objective(z):
        """c, W (m, d); b is the best one beside W, sum_i k (w_i - b) = k_common b."""
        W = z[1:].reshape(3, 2)
        b = 2.0 * W.sum(axis=0) / (3 * 2.0 + 0.5)
        f = z[0] + np.einsum("nj,nj->n", X, W[task])
        at = y * np.log(np.where(y > 0.0, y, 1.0)) - y
        losses = (y - f) ** 2 if loss == "squared" else 2.0 * (np.exp(f) - y * f + at)
        return (losses.sum() + 2.0 * ((W - b) ** 2).sum() + 0.5 * b @ b) / len(y)

    z = np.concatenate([[model.common_level_], model.coef_.ravel()])
    assert model.objective_ == pytest.approx(objective(z), rel=1e-10)
    limits = [(None, None)] + [(None, None) if bounds is None else bounds] * 6
    found = minimize(objective, np.zeros(7), bounds=limits, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15})
    assert -1e-12 <= found.fun - model.objective_ < 1e-7


def test_classes():
    rng = np.random.default_rng(0)
    X, _, task = sample(3, sizes=(20, 40))
    kind = rng.binomial(1, expit(X[:, 0] - X[:, 0].mean()))
    model = PartialPoolingClassifier(2.0, 0.5, intercepts="common").fit(X, kind, task=task)
    assert model.converged_
    assert abs((kind - model.predict_proba(X, task=task)[:, 1]).sum()) < 1e-9  # every sample counts the same
    several = np.digitize(X[:, 0] + rng.logistic(size=len(X)), np.quantile(X[:, 0], [0.3, 0.6]))
    model = PartialPoolingClassifier(2.0, 0.5, intercepts="common").fit(X, several, task=task)
    assert model.converged_
    assert model.common_level_.shape == (3,)
    assert (model.intercept_ == model.common_level_).all()


def test_searches_and_their_surfaces(tmp_path):
    X, y, task = sample(3, sizes=(8, 30))
    model = PartialPoolingCV(ks=4, cv=3, intercepts="common", unknown_task="common").fit(X, y, task=task)
    alone = PartialPooling(model.k_, model.k_common_, intercepts="common").fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-10)
    assert model.surface_.dual_gap.max() < 1e-9
    np.testing.assert_allclose(model.surface_.objective[model.best_point_], alone.objective_, rtol=1e-10)
    np.testing.assert_allclose(model.surface_.intercept(*model.best_point_), alone.intercept_, rtol=1e-9)
    with pytest.warns(UserWarning, match="not in the training data"):
        assert model.predict(np.zeros((1, 4)), task=["new"])[0] == pytest.approx(model.common_level_)
    save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X, task=task), model.predict(X, task=task))
    model.add_task(X[:9], y[:9], "new")
    assert model.intercept_[-1] == model.common_level_
    assert np.isfinite(PartialPoolingCV(ks=4, selection="aic", intercepts="common").fit(X, y, task=task).best_score_)


@pytest.mark.slow
def test_folds_score_what_is_fitted_to_them():
    X, y, task = sample(3, sizes=(12, 30))
    fold = np.arange(len(y)) % 2
    pairs = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(2)]
    model = PartialPoolingCV(ks=[3.0], k_commons=[0.5], cv=pairs, intercepts="common").fit(X, y, task=task)
    for f, (train, test) in enumerate(pairs):
        alone = PartialPooling(3.0, 0.5, intercepts="common").fit(X[train], y[train], task=task[train])
        errors = (y[test] - alone.predict(X[test], task=task[test])) ** 2
        by_task = [errors[task[test] == i].mean() for i in range(4)]
        np.testing.assert_allclose(model.cv_results_["test_mse"][0][f], by_task, rtol=1e-9)
    kind = np.random.default_rng(0).integers(0, 2, len(y))
    classes = PartialPoolingClassifierCV(ks=2, cv=2, intercepts="common").fit(X, kind, task=task)
    assert classes.converged_
    found = compare_models(X, y, task=task, cv=2, inner_cv=2, intercepts="common", models=["lasso", "partial-pooling"])
    assert np.isfinite(found.nmse).all()
