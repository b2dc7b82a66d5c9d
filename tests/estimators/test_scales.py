"""docs/coming_from.md is right: against scikit-learn, and against the documented objectives of glmnet and MALSAR."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso, MultiTaskLasso
from sklearn.preprocessing import StandardScaler

from msmtfl import L12MTL, MSMTFL, DirtyMTL, LassoMTL, stack_tasks

M, N, D = 3, 40, 6


@pytest.fixture(scope="module")
def tasks():
    rng = np.random.default_rng(0)
    Xs = [rng.standard_normal((N, D)) * np.linspace(0.5, 2.0, D) + 0.3 for _ in range(M)]
    W = rng.standard_normal((M, D)) * (np.arange(D) < 3)
    return Xs, [X @ w + 1.0 + 0.3 * rng.standard_normal(N) for X, w in zip(Xs, W, strict=True)]


def fit(model, Xs, ys):
    X, y, task = stack_tasks(Xs, ys)
    return model.fit(X, y, task=task)


def minimise(Xs, ys, scales, prox, steps=20_000):
    """W (m, d) that minimises sum_i scale_i |X_i w_i - y_i|^2 + penalty, by proximal gradient steps."""
    step = 1.0 / max(2 * c * np.linalg.norm(X, 2) ** 2 for c, X in zip(scales, Xs, strict=True))
    W = np.zeros((len(Xs), Xs[0].shape[1]))
    for _ in range(steps):
        G = np.array([2 * c * X.T @ (X @ w - y) for c, X, y, w in zip(scales, Xs, ys, W, strict=True)])
        new = prox(W - step * G, step)
        if np.abs(new - W).max() < 1e-14:
            return new
        W = new
    return W


def soft(V, t):
    return np.sign(V) * np.maximum(np.abs(V) - t, 0.0)


def shrink_rows(V, t):
    return V * np.maximum(1 - t / np.maximum(np.linalg.norm(V, axis=0), 1e-300), 0.0)


def centred(Xs, ys):
    return [X - X.mean(axis=0) for X in Xs], [y - y.mean() for y in ys]


# ------------------------------------------------------------------ scikit-learn


@pytest.mark.parametrize("positive", [False, True])
def test_lasso_of_scikit_learn(tasks, positive):
    Xs, ys = tasks
    ours = fit(LassoMTL(lam=0.1, positive=positive), Xs, ys)
    for i, (X, y) in enumerate(zip(Xs, ys, strict=True)):
        theirs = Lasso(alpha=M * 0.1 / 2, positive=positive, tol=1e-13, max_iter=100_000).fit(X, y)
        np.testing.assert_allclose(ours.coef_[i], theirs.coef_, atol=1e-8)
        assert ours.intercept_[i] == pytest.approx(theirs.intercept_, abs=1e-8)


def test_multi_task_lasso_of_scikit_learn(tasks):
    X = tasks[0][0]
    Y = np.column_stack(tasks[1])
    theirs = MultiTaskLasso(alpha=M * 0.1 / 2, tol=1e-13, max_iter=100_000).fit(X, Y)
    np.testing.assert_allclose(L12MTL(lam=0.1).fit(X, Y).coef_, theirs.coef_, atol=1e-8)


def test_standard_scaler_and_lasso(tasks):
    Xs, ys = tasks
    ours = fit(LassoMTL(lam=0.1, standardize=True), Xs, ys)
    for i, (X, y) in enumerate(zip(Xs, ys, strict=True)):
        scaler = StandardScaler().fit(X)
        theirs = Lasso(alpha=M * 0.1 / 2, tol=1e-13, max_iter=100_000).fit(scaler.transform(X), y)
        np.testing.assert_allclose(ours.coef_[i] * scaler.scale_, theirs.coef_, atol=1e-8)


# ------------------------------------------------------------------ glmnet: 1/(2n) |y - b - Xw|^2 + l sum_j f_j |w_j|


@pytest.mark.parametrize("standardize", [True, False])
def test_glmnet(tasks, standardize):
    l, f = 0.2, np.array([1.0, 2.0, 0.5, 1.0, 1.0, 3.0])
    Xs, ys = centred(*tasks)
    units = [X.std(axis=0) if standardize else np.ones(D) for X in Xs]
    scaled = [X / unit for X, unit in zip(Xs, units, strict=True)]
    rescaled = f * D / f.sum()
    theirs = minimise(scaled, ys, [1 / (2 * N)] * M, lambda V, t: soft(V, t * l * rescaled))
    model = LassoMTL(lam=2 * l / M, standardize=standardize, penalty_factors=f * D / f.sum())
    np.testing.assert_allclose(fit(model, *tasks).coef_ * units, theirs, atol=1e-8)


def test_glmnet_mgaussian(tasks):
    l, X, Y = 0.2, tasks[0][0], np.column_stack(tasks[1])
    Xs, ys = centred([X] * M, Y.T)
    unit = X.std(axis=0)
    theirs = minimise([X / unit for X in Xs], ys, [1 / (2 * N)] * M, lambda V, t: shrink_rows(V, t * l))
    ours = L12MTL(lam=2 * l / M, standardize=True).fit(X, Y)
    np.testing.assert_allclose(ours.coef_ * unit, theirs, atol=1e-8)


def test_only_proportions_of_weights_matter(tasks):
    X, y, task = stack_tasks(*tasks)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    one, other = (LassoMTL(lam=0.1).fit(X, y, task=task, sample_weight=c * weight) for c in (1, 7))
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-12)


# ------------------------------------------------------------------ MALSAR: no 1/n, no intercept


def test_malsar_least_lasso(tasks):
    rho = 8.0
    theirs = minimise(*tasks, [0.5] * M, lambda V, t: soft(V, t * rho))
    ours = fit(LassoMTL(lam=2 * rho / (M * N), fit_intercept=False), *tasks)
    np.testing.assert_allclose(ours.coef_, theirs, atol=1e-8)


def test_malsar_least_lasso_with_tasks_of_different_sizes(tasks):
    rho, sizes = 8.0, np.array([20, 30, 40])
    Xs, ys = ([part[:n] for part, n in zip(parts, sizes, strict=True)] for parts in tasks)
    theirs = minimise(Xs, ys, [0.5] * M, lambda V, t: soft(V, t * rho))
    factors = np.tile(sizes.mean() / sizes, (D, 1))
    ours = fit(LassoMTL(lam=2 * rho / (M * sizes.mean()), penalty_factors=factors, fit_intercept=False), Xs, ys)
    np.testing.assert_allclose(ours.coef_, theirs, atol=1e-8)


def test_malsar_least_l21(tasks):
    rho = 8.0
    theirs = minimise(*tasks, [0.5] * M, lambda V, t: shrink_rows(V, t * rho))
    ours = fit(L12MTL(lam=2 * rho / (M * N), fit_intercept=False), *tasks)
    np.testing.assert_allclose(ours.coef_, theirs, atol=1e-8)


def test_malsar_least_dirty(tasks):
    """The objective |X(P + Q) - Y|^2 + lambda1 sum_j max_i |p_ji| + lambda2 sum |Q| is lowest at our P and Q."""
    lambda1, lambda2 = 25.0, 15.0
    Xs, ys = tasks
    ours = fit(DirtyMTL(lam_b=lambda1 / (M * N), lam_s=lambda2 / (M * N), fit_intercept=False), Xs, ys)

    def objective(P, Q):
        loss = sum(np.sum((X @ w - y) ** 2) for X, y, w in zip(Xs, ys, P + Q, strict=True))
        return loss + lambda1 * np.abs(P).max(axis=0).sum() + lambda2 * np.abs(Q).sum()

    assert objective(ours.coef_shared_, ours.coef_specific_) == pytest.approx(M * N * ours.objective_, rel=1e-10)
    rng = np.random.default_rng(2)
    best = objective(ours.coef_shared_, ours.coef_specific_)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(50):
            P, Q = (part + size * rng.standard_normal(part.shape) for part in (ours.coef_shared_, ours.coef_specific_))
            assert objective(P, Q) > best


def test_malsar_least_msmtfl(tasks):
    lam, theta = 20.0, 1.5
    Xs, ys = tasks
    weights = np.full(D, lam)
    for _ in range(10):
        W = minimise(Xs, ys, [1.0] * M, lambda V, t, weights=weights: soft(V, t * weights))
        weights = np.where(np.abs(W).sum(axis=0) < theta, lam, 0.0)
    ours = fit(MSMTFL(lam=lam / (M * N), theta=theta, fit_intercept=False), Xs, ys)
    assert 0 < len(ours.stages_[-1].free_rows) < D
    np.testing.assert_allclose(ours.coef_, W, atol=1e-8)
