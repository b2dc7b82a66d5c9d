"""Random tasks, a plain solver and plain formulas: numpy on raw X and y.

One task's weighted lasso is  min_w 1/2 |y - Xw|^2 + sum_j a_j |w_j|,  a_j in [0, inf]. W is (m, d), one row per task.
"""

from __future__ import annotations

import numpy as np


def random_tasks(seed, m=4, n=30, d=12, active=4, noise=0.3, unit_length=False):
    """Lists Xs, ys: Gaussian designs, `active` features shared by all tasks; n is one number or one per task."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(d, active, replace=False)
    Xs, ys = [], []
    for n_i in np.broadcast_to(n, m):
        X = rng.standard_normal((n_i, d))
        if unit_length:
            X /= np.linalg.norm(X, axis=0)
        w = np.zeros(d)
        w[rows] = rng.uniform(-3, 3, active)
        Xs.append(X)
        ys.append(X @ w + noise * np.sqrt(np.mean((X @ w) ** 2)) * rng.standard_normal(n_i))
    return Xs, ys


def primal(X, y, w, a):
    used = w != 0
    return 0.5 * np.sum((y - X @ w) ** 2) + np.sum(a[used] * np.abs(w[used]))


def weighted_lasso(X, y, a, steps=20_000):
    """FISTA, momentum restarted whenever it points uphill."""
    step = 1 / np.linalg.norm(X, 2) ** 2
    w = z = np.zeros(X.shape[1])
    t = 1.0
    for _ in range(steps):
        v = z + step * (X.T @ (y - X @ z))
        new = np.sign(v) * np.maximum(np.abs(v) - step * a, 0.0)
        if (z - new) @ (new - w) > 0:
            t = 1.0
        t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
        z, w, t = new + (t - 1) / t_next * (new - w), new, t_next
    return w


def relative_gap(X, y, w, a):
    """(primal - dual) / (|y|^2 / 2); the dual point is the residual, projected off the free columns and scaled down."""
    if np.any(w[np.isinf(a)] != 0):
        return np.inf
    r = y - X @ w
    free = X[:, (a == 0) & X.any(axis=0)]
    if free.shape[1]:
        U, values, _ = np.linalg.svd(free / np.linalg.norm(free, axis=0), full_matrices=False)
        U = U[:, values > 1e-11 * values[0]]
        for _ in range(2):
            r = r - U @ (U.T @ r)
    penalised = (a > 0) & np.isfinite(a)
    size = np.abs(X.T @ r)[penalised]
    over = size > a[penalised]
    shrink = np.min(a[penalised][over] / size[over], initial=1.0)
    return (primal(X, y, w, a) - shrink * (y @ r) + 0.5 * shrink**2 * (r @ r)) / (0.5 * y @ y)


def loss(Xs, ys, W):
    return np.mean([np.mean((X @ w - y) ** 2) for X, y, w in zip(Xs, ys, W, strict=True)])


def objective(Xs, ys, W, lam, theta):
    """Equation (1): sum_i 1/(m n_i) |X_i w_i - y_i|^2 + lam sum_j min(|w^j|_1, theta)."""
    return loss(Xs, ys, W) + lam * np.minimum(np.abs(W).sum(axis=0), theta).sum()


def lam_max(Xs, ys):
    return max(2 / (len(Xs) * len(y)) * np.abs(X.T @ y).max() for X, y in zip(Xs, ys, strict=True))
