"""How far from optimal an answer is: relative duality gaps, from X, y and the answer alone. numpy only, nothing of msmtfl.

Every model here is  P(W) = sum_i s_i/2 |y_i - X_i w_i|^2 + penalty(W),  s_i > 0. For p that is dual feasible once scaled
by t >= 0, weak duality says  P(W) - min P <= P(W) - D(t p),  D(t p) = t <p, y> - t^2/2 <p, p>, products weighted by s_i.
With p from the residuals and the best t allowed, this difference over the loss at W = 0 is the gap reported. It is never
too small (but for rounding, some 1e-15), whoever computed W.

`tests/whole/test_benchmarks.py` holds these functions against 50-digit arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

INDEPENDENT = 1e-11  # singular values below this share of the largest belong to dependent free columns


def lasso_gaps(X: np.ndarray, y: np.ndarray, W: np.ndarray, A: np.ndarray) -> np.ndarray:
    """(K,) of K answers W (K, d) to one task's weighted lassos 1/2 |y - Xw|^2 + sum_j a_j |w_j|, A (K, d).

    A weight of 0 asks of a dual point that it is orthogonal to that column: residuals are projected first. A weight of
    infinity asks for a coefficient of 0; where it is not, the gap is infinite.
    """
    R = y[:, None] - X @ W.T  # (n, K)
    P = np.stack([_without(X[:, a == 0], r) for a, r in zip(A, R.T)], axis=1)
    bound = np.isfinite(A) & (A > 0)
    size = np.abs(X.T @ P).T
    excess = np.max(np.divide(size, A, out=np.zeros_like(size), where=bound), axis=1, initial=0.0)
    penalty = np.sum(np.abs(W) * np.where(bound, A, 0.0), axis=1)
    gaps = [relative_gap(r @ r, p @ p, p @ y, y @ y, v, e) for r, p, v, e in zip(R.T, P.T, penalty, excess)]
    return np.where((np.isinf(A) & (W != 0)).any(axis=1), np.inf, gaps)


def rows_gap(
    Xs: Sequence[np.ndarray], ys: Sequence[np.ndarray], W: np.ndarray, lam: float, ratio: float | None
) -> float:
    """Of W (m, d), whose rows of features are penalised together, in objective (1)'s scale: s_i = 2 / (m n_i).

    ratio None: lam sum_j |w^j|_2. Otherwise Dirty: the least of lam_s |S|_1,1 + lam_b sum_j |b^j|_inf over S + B = W, with
    lam_b = lam and lam_s = ratio lam.
    """
    s = [2.0 / (len(ys) * len(y)) for y in ys]
    r = [y - X @ w for X, y, w in zip(Xs, ys, W)]
    G = np.array([s_i * (X.T @ r_i) for s_i, X, r_i in zip(s, Xs, r)])
    rr, ry, yy = (
        sum(s_i * (a @ b) for s_i, a, b in zip(s, left, right)) for left, right in ((r, r), (r, ys), (ys, ys))
    )
    return relative_gap(rr, rr, ry, yy, row_norms(W, lam, ratio).sum(), dual_norms(G, ratio).max() / lam)


def relative_gap(rr: float, pp: float, py: float, yy: float, penalty: float, excess: float) -> float:
    """From products of residuals r, of p and of y; excess: by how much p is too large to be feasible."""
    best = max(py, 0.0) / pp if pp > 0 else 0.0
    t = min(best, 1.0 / excess) if excess > 0 else best
    return (0.5 * rr + penalty - (t * py - 0.5 * t * t * pp)) / (0.5 * yy)


def _without(F: np.ndarray, r: np.ndarray) -> np.ndarray:
    """r less its projection on the columns of F."""
    length = np.linalg.norm(F, axis=0)
    F = F[:, length > 0] / length[length > 0]
    if F.shape[1] == 0:
        return r
    U, values, _ = np.linalg.svd(F, full_matrices=False)
    U = U[:, values > INDEPENDENT * values[0]]
    p = r - U @ (U.T @ r)
    return p - U @ (U.T @ p)


def row_norms(W: np.ndarray, lam: float, ratio: float | None) -> np.ndarray:
    """(d,): what each row of W (m, d) costs."""
    if ratio is None:
        return lam * np.sqrt((W * W).sum(axis=0))
    sizes = -np.sort(-np.abs(W), axis=0)
    most = int(1.0 / ratio + 1e-12)  # this many entries may be larger than |b|_inf
    t = sizes[most] if most < len(W) else np.zeros(W.shape[1])
    return lam * (t + ratio * np.maximum(sizes - t, 0.0).sum(axis=0))


def dual_norms(G: np.ndarray, ratio: float | None) -> np.ndarray:
    """(d,) of G (m, d): the smallest lam at which a row with this gradient is 0."""
    if ratio is None:
        return np.sqrt((G * G).sum(axis=0))
    sizes = np.abs(G)
    return np.maximum(sizes.sum(axis=0), sizes.max(axis=0) / ratio)
