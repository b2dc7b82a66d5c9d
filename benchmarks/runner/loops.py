"""Algorithm 1 around a peer: loops that a user can write for the (lam, theta) surface.

At every point: row norms over tasks, capped rows, each task's lasso with weight 0 on these and lam elsewhere, until a set of
capped rows occurs again, ten stages at most; like the surface it stops short of a stage that would interpolate in most
tasks. Two loops:

loop        the best that we could write: stage 1 is the peer's own path, once per task, for all thetas; at one lam equal
            sets of capped rows are solved once
plain loop  every point by itself: all of its stages, from the point with the same theta at the last lam on

Ways to a weight of zero:

projection      y and the other columns are projected on the complement of the free columns, the peer solves what is left,
                least squares give the free coefficients: exact, and warm from the stage before. The tolerance stays
                relative to y as it was. (scikit-learn has no weights, celer's must be positive.)
tiny weights    1e-6 of the others': coefficients are off by about as much. Warm from the stage before. (celer)
zero weights    FISTA's thresholds are what they are. Warm from the stage before. (FISTA, as in the paper)
zero penalties  cold: adelie's warm start is meant for further lambdas only, and with other penalties it returns points
                where optimality conditions are violated by several percent. (adelie)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from peers import PATHS, TOLERANCES, grpnet
from scipy.linalg import solve_triangular

Solve = Callable[[np.ndarray, float, np.ndarray], np.ndarray]  # capped rows, alpha, coefficients before -> coefficients
Route = Callable[[np.ndarray, np.ndarray], Solve]  # X, y of a task -> Solve
Lasso = Callable[[np.ndarray, np.ndarray, float, np.ndarray, float], np.ndarray]  # X, y, alpha, start, tolerance

TOLERANCE = 1e-6  # relative to |y|^2
TINY = 1e-6
MOST_STAGES = 10


def surface(peer: str, data, lams, *, route: str, ratios: list[float], plain: bool = False) -> dict[str, np.ndarray]:
    """Coefficients (K, L, m, d) and capped rows (K, L, d) at theta = ratios * m * lam, the columns being standardised."""
    Xs, ys = data
    m, d = len(Xs), Xs[0].shape[1]
    if not plain:
        first = PATHS[peer](Xs, ys, 0.5 * m * lams, TOLERANCES[peer][1])
        first = np.swapaxes(np.array(first), 0, 1)
    solvers = [LOOPS[peer][route](X, y) for X, y in zip(Xs, ys)]
    independent = np.array([min(X.shape) for X in Xs])
    shape = (len(lams), len(ratios))
    coefs, last = np.zeros((*shape, m, d)), np.zeros((*shape, d), dtype=bool)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known: dict[bytes, np.ndarray] = {}  # stages at a lam, by the rows capped
        for k, l in np.ndindex(shape):
            lam, nothing = lams[k], np.zeros(d, dtype=bool)
            known = {} if plain or l == 0 else known

            def stage(capped, W, lam=lam, known=known):
                key = capped.tobytes()
                if key not in known:  # some peers write to w
                    known[key] = np.array([solve(capped, 0.5 * m * lam, w.copy()) for solve, w in zip(solvers, W)])
                return known[key]

            W, seen = stage(nothing, coefs[max(k - 1, 0), l]) if plain else first[k], [nothing]
            while len(seen) < MOST_STAGES:
                capped = np.abs(W).sum(axis=0) >= ratios[l] * m * lam
                crowded = np.count_nonzero(capped.sum() > independent) > 0.5 * m
                if crowded or any(np.array_equal(capped, old) for old in seen):
                    break
                W = stage(capped, W)
                seen.append(capped)
            coefs[k, l], last[k, l] = W, seen[-1]
    return {"coefs": coefs, "capped": last}


# ------------------------------------------------------------------ projection


def projection(lasso: Lasso) -> Route:
    def prepare(X: np.ndarray, y: np.ndarray) -> Solve:
        live = X.any(axis=0)

        def solve(capped, alpha, w):
            free = capped & live
            if not free.any():
                return lasso(X, y, alpha, w, TOLERANCE)
            F = X[:, free]
            Q, solve_free = _least_squares(F)
            rest = y - Q @ (Q.T @ y)
            share = (rest @ rest) / (y @ y)
            out, residual = np.zeros(len(w)), y - F @ w[free]
            if share > TOLERANCE**2:
                Zt = (X.T @ Q) @ Q.T
                np.subtract(X.T, Zt, out=Zt)
                Zt[free] = 0.0
                out = lasso(Zt.T, rest, alpha, np.where(free, 0.0, w), TOLERANCE / share)
                used = np.flatnonzero(out)
                residual -= X[:, used] @ out[used]
            out[free] = w[free] + solve_free(Q.T @ residual)
            return out

        return solve

    return prepare


def _least_squares(F: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Q with the range of F, and the shortest v with F v = Q q as a function of q"""
    Q, R = np.linalg.qr(F)
    size = np.abs(np.diag(R))
    if len(size) == F.shape[1] and size.min() > 1e-10 * size.max():
        return Q, lambda q: solve_triangular(R, q, check_finite=False)
    U, s, Vt = np.linalg.svd(F, full_matrices=False)
    keep = s > 1e-10 * s[0]
    U, s, V = U[:, keep], s[keep], Vt[keep].T
    return U, lambda q: V @ (q / s)


def _scikit_learn(X, y, alpha, start, tolerance):
    from sklearn.linear_model import lasso_path

    gram = X.shape[0] > X.shape[1]  # as precompute="auto" decides
    options = {"tol": tolerance, "max_iter": 100_000, "precompute": gram, "check_input": False}
    return lasso_path(X, y, alphas=[alpha], coef_init=start, **options)[1][:, 0]


def _celer(X, y, alpha, start, tolerance, weights=None):
    from celer import celer_path

    options = {"tol": tolerance, "max_iter": 200, "weights": weights}
    return celer_path(X, y, "lasso", alphas=[alpha], coef_init=start, **options)[1][:, 0]


# ------------------------------------------------------------------ weights of the peer


def tiny_weights(X: np.ndarray, y: np.ndarray) -> Solve:
    return lambda capped, alpha, w: _celer(X, y, alpha, w, TOLERANCE, np.where(capped, TINY, 1.0))


def zero_penalties(X: np.ndarray, y: np.ndarray) -> Solve:
    import adelie as ad

    matrix, target = ad.matrix.dense(X, method="naive", n_threads=1), ad.glm.gaussian(y=y)
    return lambda capped, alpha, w: grpnet(matrix, target, np.array([alpha]), np.where(capped, 0.0, 1.0))[0]


def zero_weights(X: np.ndarray, y: np.ndarray) -> Solve:
    from fista import plain_lasso

    solve = plain_lasso(X, y)
    return lambda capped, alpha, w: solve(alpha, np.where(capped, 0.0, 1.0), w, TOLERANCES["FISTA"][1])


LOOPS: dict[str, dict[str, Route]] = {
    "scikit-learn": {"projection": projection(_scikit_learn)},
    "celer": {"projection": projection(_celer), "tiny weights": tiny_weights},
    "adelie": {"zero penalties": zero_penalties},
    "FISTA": {"zero weights": zero_weights},
}
