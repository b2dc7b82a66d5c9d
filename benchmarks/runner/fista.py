"""FISTA (Beck and Teboulle, 2009), which the paper uses for the sub-problem of every stage: plain, and tuned.

Plain: products with X, one fixed step 1 / L, momentum never restarted; each lambda from the one before. Whether to stop is
looked at every ten steps. L1,2 and Dirty stop at a relative gap of tol, so that no step is wasted. Lassos stop where a
proximal step would move w by less than tol alpha times its length, which makes sense for weights of 0, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from gap import dual_norms, relative_gap, row_norms, rows_gap

SMALL = 100  # features up to which the curvature is that of LAPACK
MOST_STEPS = 1_000_000
Prox = Callable[[np.ndarray, float], np.ndarray]  # point, step -> point


def plain(W: np.ndarray, descent: Callable, step: float, prox: Prox, done: Callable[[np.ndarray], bool]) -> np.ndarray:
    """From W on; descent is the negative gradient."""
    V, t = W, 1.0
    for count in range(MOST_STEPS):
        if count % 10 == 0 and done(W):
            break
        new = prox(V + step * descent(V), step)
        t_new = 0.5 + np.sqrt(0.25 + t * t)
        V, W, t = new + (t - 1.0) / t_new * (new - W), new, t_new
    return W


def plain_lasso(X: np.ndarray, y: np.ndarray) -> Callable[[float, np.ndarray, np.ndarray, float], np.ndarray]:
    """Solves 1/(2n) |y - Xw|^2 + alpha sum_j weights_j |w_j|, given alpha, weights (0 or 1), a start and tol."""
    n, step = len(y), len(y) / np.linalg.norm(X, 2) ** 2

    def solve(alpha, weights, start, tol):
        def shrink(z, s):
            return np.sign(z) * np.maximum(np.abs(z) - s * alpha * weights, 0.0)

        def descent(w):
            return X.T @ (y - X @ w) / n

        def done(w):
            return np.abs(shrink(w + step * descent(w), step) - w).max() <= tol * alpha * step

        return plain(start, descent, step, shrink, done)

    return solve


def plain_rows(Xs, ys, lams, *, tol: float, ratio: float | None = None) -> np.ndarray:
    """(K, m, d) of L1,2 (ratio None) or Dirty."""
    kappa = [2.0 / (len(Xs) * len(y)) for y in ys]
    step = 1.0 / max(k * np.linalg.norm(X, 2) ** 2 for k, X in zip(kappa, Xs))
    W, cuts, out = np.zeros((len(Xs), Xs[0].shape[1])), np.zeros(Xs[0].shape[1]), []

    def descent(W):
        return np.array([k * (X.T @ (y - X @ w)) for k, X, y, w in zip(kappa, Xs, ys, W)])

    for lam in lams:
        prox = partial(proximal, lam=lam, ratio=ratio, cuts=cuts)
        W = plain(W, descent, step, prox, lambda W, lam=lam: rows_gap(Xs, ys, W, lam, ratio) <= tol)
        out.append(W)
    return np.array(out)


def tuned_rows(Xs, ys, lams, *, tol: float, ratio: float | None = None) -> np.ndarray:
    """(K, m, d): the same with Gram matrices where these are less to read, momentum restarted where it points uphill, and
    one product a step: the gradient is affine, so that at the extrapolated point is extrapolated, too."""
    gradient = Gradient(Xs, ys)
    step = 1.0 / gradient.curvature()
    out = np.empty((len(lams), *gradient.C.shape))
    W, G, cuts = np.zeros_like(gradient.C), gradient.C, np.zeros(gradient.d)
    for k, lam in enumerate(lams):
        V, slope, t = W, G, 1.0
        prox = partial(proximal, lam=lam, ratio=ratio, cuts=cuts)
        for count in range(MOST_STEPS):
            if count % 10 == 0:
                ry, rr = gradient.yy - np.vdot(W, gradient.C), gradient.yy - np.vdot(W, gradient.C + G)
                penalty, excess = row_norms(W, lam, ratio).sum(), dual_norms(G, ratio).max() / lam
                if relative_gap(rr, rr, ry, gradient.yy, penalty, excess) <= tol:
                    break
            new = prox(V + step * slope, step)
            G_new = gradient(new)
            moved = new - W
            if np.vdot(V - new, moved) > 0.0:
                t = 1.0
            t_new = 0.5 + np.sqrt(0.25 + t * t)
            momentum = (t - 1.0) / t_new
            V, slope = new + momentum * moved, G_new + momentum * (G_new - G)
            W, G, t = new, G_new, t_new
        out[k] = W
    return out


class Gradient:
    """G (m, d) = kappa_i X_i'(y_i - X_i w_i) of the smooth part sum_i kappa_i / 2 |X_i w_i - y_i|^2, kappa_i = 2 / (m n_i).

    By Gram matrices or by products with X (short tasks padded with zeros), whichever is less to read; of the former only
    the rows of features in use, kept together as long as no others come to be used.
    """

    def __init__(self, Xs: list[np.ndarray], ys: list[np.ndarray]):
        m, self.d = len(Xs), Xs[0].shape[1]
        roots = [np.sqrt(2.0 / (m * len(y))) for y in ys]
        n = max(len(y) for y in ys)
        self.C = np.array([root * root * (X.T @ y) for root, X, y in zip(roots, Xs, ys)])
        self.yy = sum(root * root * (y @ y) for root, y in zip(roots, ys))
        self.gram = 2 * n > self.d
        if self.gram:
            self.A = np.array([root * root * (X.T @ X) for root, X in zip(roots, Xs)])
        else:
            self.A = np.zeros((m, n, self.d))
            for A, root, X in zip(self.A, roots, Xs):
                A[: len(X)] = root * X
        self.kept, self.part = np.arange(self.d), self.A

    def __call__(self, W: np.ndarray) -> np.ndarray:
        if not self.gram:
            return self.C - np.matmul(np.matmul(self.A, W[:, :, None])[:, None, :, 0], self.A)[:, 0]
        used = W.any(axis=0)
        if np.count_nonzero(used) != np.count_nonzero(used[self.kept]) or 4 * used.sum() < len(self.kept):
            self.kept = np.flatnonzero(used)
            if 3 * len(self.kept) > self.d:
                self.kept, self.part = np.arange(self.d), self.A
            else:
                self.part = self.A[:, self.kept]
        return self.C - np.matmul(W[:, None, self.kept], self.part)[:, 0]

    def curvature(self) -> float:
        """The largest eigenvalue of all tasks' Hessians (and one per cent, for the iteration that finds it)."""
        from scipy.sparse.linalg import eigsh, svds

        if self.d <= SMALL:
            return float(
                np.linalg.eigvalsh(self.A if self.gram else np.matmul(self.A.transpose(0, 2, 1), self.A)).max()
            )
        if self.gram:
            return 1.01 * max(float(eigsh(Q, k=1, tol=1e-3, return_eigenvectors=False)[0]) for Q in self.A)
        return 1.01 * max(float(svds(A, k=1, tol=1e-3, return_singular_vectors=False)[0]) ** 2 for A in self.A)


def proximal(Z: np.ndarray, step: float, lam: float, ratio: float | None, cuts: np.ndarray) -> np.ndarray:
    """argmin_W |W - Z|^2 / 2 + step * norms of the rows; Z is (m, d). cuts (d,) is kept from one call to the next."""
    excess = dual_norms(Z, ratio) / (step * lam)
    if ratio is None:
        return Z * (1.0 - 1.0 / np.maximum(excess, 1.0))
    rows = np.flatnonzero(excess > 1.0)
    part, a = Z[:, rows], ratio * step * lam
    sizes = np.abs(part)
    cuts[rows] = cut = _cut(sizes, a, step * lam, cuts[rows])
    out = np.zeros_like(Z)
    out[:, rows] = np.copysign(sizes - np.minimum(np.maximum(sizes - cut, 0.0), a), part)
    return out


def _cut(sizes: np.ndarray, a: float, total: float, guess: np.ndarray) -> np.ndarray:
    """(k,): the least tau >= 0 with sum_i min(a, (s_i - tau)_+) <= total, for each column s of sizes (m, k).

    Newton's steps from the guess, which is close when FISTA is; where they do not get there, by sorting.
    """
    left = np.flatnonzero(np.minimum(sizes, a).sum(axis=0) > total)
    out = np.zeros(len(guess))
    S, tau = sizes[:, left], guess[left]
    for _ in range(4):
        if left.size == 0:
            return out
        rest = S - tau
        capped = np.minimum(np.maximum(rest, 0.0), a)
        off = capped.sum(axis=0) - total
        found = np.abs(off) <= 1e-14 * len(S) * total
        if found.any():
            out[left[found]] = tau[found]
            go = ~found
            left, S, tau, rest, capped, off = left[go], S[:, go], tau[go], rest[:, go], capped[:, go], off[go]
        tau = tau + off / np.maximum((capped == rest).sum(axis=0), 1)
    out[left] = _sorted_cut(S.T, a, total)
    return out


def _sorted_cut(S: np.ndarray, a: float, total: float) -> np.ndarray:
    """The same for the rows of S, all of which need a cut."""
    knots = np.concatenate([S, S - a], axis=1)  # going down, the sum's slope rises by 1 at s_i and falls at s_i - a
    order = np.argsort(-knots, axis=1)
    knots = np.take_along_axis(knots, order, axis=1)
    slope = np.cumsum(np.where(order < S.shape[1], 1.0, -1.0), axis=1)
    sums = np.cumsum(slope[:, :-1] * (knots[:, :-1] - knots[:, 1:]), axis=1)
    k = (sums < total).sum(axis=1)  # within the k-th piece; the last sum is m a, above the total
    every = np.arange(len(S))
    before = np.where(k > 0, sums[every, np.maximum(k - 1, 0)], 0.0)
    return knots[every, k] - (total - before) / slope[every, k]
