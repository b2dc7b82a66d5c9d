"""A small group lasso, solved exactly: of one task, or of several that share the groups.

    min_V  sum_i 1/2 v_i'G_i v_i - c_i'v_i  +  sum_g |(A V)_g|_2,      V (m, k), groups g of columns with all their tasks

With |u| = min_t |u|^2 / (2 t) + t / 2 the lengths t_g >= 0 of the groups are what is looked for: for given t the rest is a
ridge regression, and what is left is a smooth convex function of t with slopes (1 - |r_g|^2) / 2 and second derivatives
r_g'S_gh r_h, r the gradient of the loss and S = (G^-1 + diag t)^-1. Newton steps, each a small problem with t >= 0
(`box_lasso.py`), find it, whether groups are in use or not; at the end Newton steps in V itself take off what rounding left.
Entries with A = 0 are free: they are eliminated, and where they are not determined they keep what they start with along the
null space.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from ..._data.designs import Floats, Ints
from .box_lasso import box_lasso

STEPS = 200  # Newton steps in the lengths; it takes about ten
ENOUGH = 1e-4  # of the fall that a Newton step promises
LEAST = 1e-12  # share of a step
CLOSE = 1e-7  # violation of optimality from which on steps in V take over
POLISHES = 4  # of these
NULL = 1e-12  # eigenvalues, per column and relative to the largest, that are those of dependent columns
NOISE = 4e-15  # what rounding leaves of a gradient, relative to the numbers that it is made of
EXPLAINED = 1e-24  # second derivatives, relative to the largest, that are squares of what rounding leaves of gradients
FLAT = 1e-12  # a pivot, relative to the diagonal, below which a matrix counts as singular


def group_lasso(G: Floats, c: Floats, A: Floats, of: Ints, V: Floats) -> Floats:
    """The minimiser (m, k), from V (m, k). A is inf where an entry is 0; `of` (k,) counts groups."""
    usable = np.isfinite(A) & (np.diagonal(G, axis1=1, axis2=2) > 0.0)
    diagonal = np.diagonal(G, axis1=1, axis2=2)
    unit = np.where(usable, np.where(A > 0.0, A, np.sqrt(diagonal)), 1.0)
    penalised = usable & (A > 0.0)
    scale = np.where(usable, 1.0 / unit, 0.0)
    inner = _Scaled(G * scale[:, :, None] * scale[:, None, :], c * scale, penalised, usable & ~penalised, of)
    return np.asarray(inner.solve(np.where(usable, V * unit, 0.0)) * scale)


def _factor(B: Floats) -> Floats:
    """The Cholesky factor of a matrix that is definite, though perhaps not to rounding."""
    for lift in (0.0, NULL, 1e3 * NULL, 1e6 * NULL):
        try:
            lifted = B + np.diag(lift * np.diag(B)) if lift else B
            return np.asarray(cholesky(lifted, lower=True, check_finite=False))
        except LinAlgError:
            pass
    return np.asarray(np.diag(np.sqrt(np.diag(B))))


class _Scaled:
    """The same in units in which the norm of a group is its length."""

    def __init__(self, G: Floats, c: Floats, penalised: np.ndarray, free: np.ndarray, of: Ints):
        self.G, self.c, self.penalised, self.free, self.of = G, c, penalised, free, of
        self.m, self.k, self.count = *c.shape, int(of.max(initial=-1)) + 1
        self.loose = [self._loose(i) for i in range(self.m)]
        # without the free entries
        self.bare_G, self.bare_c = self.G, np.where(penalised, c, 0.0)
        if free.any():
            both = penalised[:, :, None] & penalised[:, None, :]
            self.bare_G, self.bare_c = np.where(both, G, 0.0), np.where(penalised, c, 0.0)
            for i, (at, inverse) in enumerate(self.loose):
                if at.size:
                    on = np.flatnonzero(penalised[i])
                    cross = G[i][np.ix_(on, at)]
                    self.bare_G[i][np.ix_(on, on)] -= cross @ inverse @ cross.T
                    self.bare_c[i, on] -= cross @ (inverse @ c[i, at])

    def _loose(self, i: int) -> tuple[Ints, Floats]:
        """Of a task: its free entries, and what makes of their gradient the step to the minimum."""
        at = np.flatnonzero(self.free[i])
        if at.size == 0:
            return at, np.empty((0, 0))
        values, vectors = np.linalg.eigh(self.G[i][np.ix_(at, at)])
        kept = values > NULL * len(at) * max(values[-1], 1e-300)
        return at, np.asarray((vectors[:, kept] / values[kept]) @ vectors[:, kept].T)

    def _squares(self, M: Floats) -> Floats:
        """(groups,): sums of squares of M (m, k) over the penalised entries of groups."""
        per_column = np.where(self.penalised, M * M, 0.0).sum(axis=0)
        return np.asarray(np.bincount(self.of, per_column, self.count), dtype=np.float64)

    def solve(self, U: Floats) -> Floats:
        t = np.sqrt(self._squares(U))
        U = self._with_free(self._descend(t), U)
        best = U, self._error(U)
        for _ in range(POLISHES):
            if best[1] <= self._noise(U):
                break
            step = self._direction(U)
            if step is None or not np.isfinite(step).all():
                break
            U = U + step
            error = self._error(U)
            if not error < best[1]:
                break
            best = U, error
        return best[0]

    # ------------------------------------------------------------------ the lengths

    def _descend(self, t: Floats) -> Floats:
        """U (m, k) at the best lengths, from lengths t (groups,); free entries are 0."""
        value, U, R, factors = self._at(t)
        for _ in range(STEPS):
            size = np.sqrt(self._squares(R))
            if float(np.where(t > 0.0, np.abs(size - 1.0), size - 1.0).max(initial=0.0)) <= CLOSE:
                break
            slope, H = 0.5 * (1.0 - size**2), self._bends(t, R, factors)
            # Newton's method for 1 / |r| reaches further where |r| is far above 1, but is no descent for certain
            further = np.where(size > 1.0, size**2 * (1.0 - size), slope)
            before = t
            for wanted in (further, slope):
                way = _lengths(H, wanted, t) - t
                fall, share = -float(slope @ way), 1.0
                found = self._at(t + way)
                while fall > 0.0 and share > LEAST and not found[0] <= value - ENOUGH * share * fall + noise(value):
                    share *= 0.5 if wanted is slope else 0.0
                    found = self._at(t + share * way)
                if fall > 0.0 and share > LEAST:
                    t, (value, U, R, factors) = np.maximum(t + share * way, 0.0), found
                    break
            if np.array_equal(before, t):
                break
        return U

    def _at(self, t: Floats) -> tuple[float, Floats, Floats, list[Floats]]:
        """The objective at lengths t, U and the gradient (m, k) there, and factors of I + t^1/2 G t^1/2 of each task."""
        root = np.where(self.penalised, np.sqrt(t)[self.of], 0.0)
        U, factors, value = np.zeros_like(self.c), [], 0.5 * float(t.sum())
        for i, r in enumerate(root):
            on = np.flatnonzero(r)
            B = self.bare_G[i][np.ix_(on, on)] * np.outer(r[on], r[on])
            B[np.diag_indices_from(B)] += 1.0
            factor = _factor(B)
            z = cho_solve((factor, True), r[on] * self.bare_c[i, on], check_finite=False)
            U[i, on] = r[on] * z
            value -= 0.5 * float(self.bare_c[i, on] @ U[i, on])
            factors.append(factor)
        R = self.bare_c - np.matmul(self.bare_G, U[:, :, None])[:, :, 0]
        return value, U, np.where(self.penalised, R, 0.0), factors

    def _bends(self, t: Floats, R: Floats, factors: list[Floats]) -> Floats:
        """(groups, groups): second derivatives."""
        H = np.zeros((self.count, self.count))
        columns = np.arange(self.k)
        root = np.where(self.penalised, np.sqrt(t)[self.of], 0.0)
        for i, factor in enumerate(factors):
            apart = np.zeros((self.k, self.count))
            apart[columns, self.of] = R[i]
            GR = self.bare_G[i] @ apart
            on = np.flatnonzero(root[i])
            inner = solve_triangular(factor, root[i, on, None] * GR[on], lower=True, check_finite=False)
            H += apart.T @ GR - inner.T @ inner
        return 0.5 * (H + H.T)

    # ------------------------------------------------------------------ all entries

    def _with_free(self, U: Floats, start: Floats) -> Floats:
        """U with the free entries at their minimum, nearest to where they start."""
        out = np.where(self.free, start, U)
        for i, (at, inverse) in enumerate(self.loose):
            if at.size:
                out[i, at] += inverse @ (self.c[i] - self.G[i] @ out[i])[at]
        return out

    def _gradient(self, U: Floats) -> Floats:
        return np.asarray(self.c - np.matmul(self.G, U[:, :, None])[:, :, 0])

    def _noise(self, U: Floats) -> float:
        """What rounding leaves of a gradient."""
        reach = np.matmul(np.abs(self.G), np.abs(U)[:, :, None]).max(initial=0.0)
        return NOISE * (1.0 + float(np.abs(self.c).max(initial=0.0)) + float(reach))

    def _error(self, U: Floats) -> float:
        """The largest violation of optimality."""
        R, t = self._gradient(U), np.sqrt(self._squares(U))
        at_zero = (np.sqrt(self._squares(R)) - 1.0)[t == 0.0]
        used = self.penalised & (t > 0.0)[self.of]
        rest = np.abs(R - U / np.where(t > 0.0, t, 1.0)[self.of])[used]
        return float(max(at_zero.max(initial=0.0), rest.max(initial=0.0), np.abs(R[self.free]).max(initial=0.0)))

    def _direction(self, U: Floats) -> Floats | None:
        """-H^-1 of the gradient on the entries in use: H_i = G_i + D_i less what couples the tasks, q q' / t for every
        group, with D = 1/t and q = u/t: a matrix for each task, and one of the size of the groups in use."""
        t = np.sqrt(self._squares(U))
        groups = np.flatnonzero(t)
        place = np.full(self.count, -1)
        place[groups] = np.arange(len(groups))
        used = self.penalised & (t > 0.0)[self.of]
        inverse = 1.0 / np.where(t > 0.0, t, 1.0)[self.of]
        D, Q = np.where(used, inverse, 0.0), np.where(used, U * inverse, 0.0)
        slope = self._gradient(U) - D * U
        out, M, right = np.zeros_like(U), np.diag(t[groups]), np.zeros(len(groups))
        follow: list[tuple[Ints, Floats]] = []
        for i in range(self.m):
            S = np.flatnonzero(used[i] | self.free[i])
            B = np.zeros((len(S), len(groups)))
            mine = np.flatnonzero(used[i, S])
            B[mine, place[self.of[S[mine]]]] = Q[i, S[mine]]
            H = self.G[i][np.ix_(S, S)] + np.diag(D[i, S])
            both = _solved(H, np.column_stack([slope[i, S], B]), self.free[i, S])
            if both is None:
                return None
            out[i, S] = both[:, 0]
            follow.append((S, both[:, 1:]))
            M -= B.T @ both[:, 1:]
            right += B.T @ both[:, 0]
        if groups.size:
            try:
                y = cho_solve(cho_factor(0.5 * (M + M.T), lower=True, check_finite=False), right, check_finite=False)
            except (LinAlgError, ValueError):
                return None
            for i, (S, F) in enumerate(follow):
                out[i, S] += F @ y
        return out


def _lengths(H: Floats, slope: Floats, t: Floats) -> Floats:
    """The t >= 0 of least  slope'(t - t0) + 1/2 (t - t0)'H(t - t0)."""
    diagonal = np.diag(H)
    # of columns that free ones explain rounding is all that is left: their groups are 0
    out, live = np.zeros_like(t), diagonal > EXPLAINED * diagonal.max(initial=0.0)
    if live.any():
        part = H[np.ix_(live, live)]
        part[np.diag_indices_from(part)] *= 1.0 + 1e-13
        goal, none = part @ t[live] - slope[live], np.zeros(int(live.sum()))
        out[live] = box_lasso(part, goal, none, none, np.full(len(goal), np.inf), t[live])
    return out


def noise(value: float) -> float:
    """What rounding leaves of an objective."""
    return 1e-14 * (1.0 + abs(value))


def _solved(H: Floats, B: Floats, free: np.ndarray) -> Floats | None:
    """H^-1 B; where free entries leave H singular, the solution without a part in its null space."""
    try:
        factor = cho_factor(H, lower=True, check_finite=False)
        if not free.any() or (np.diag(factor[0]) ** 2 > FLAT * np.diag(H)).all():
            return np.asarray(cho_solve(factor, B, check_finite=False))
    except (LinAlgError, ValueError):
        pass
    if not np.isfinite(H).all():
        return None
    root = np.sqrt(np.maximum(np.diag(H), 1e-300))
    values, vectors = np.linalg.eigh(H / np.outer(root, root))
    kept = values > NULL * len(H)
    solution = (vectors[:, kept] / values[kept]) @ (vectors[:, kept].T @ (B / root[:, None]))
    return np.asarray(solution / root[:, None])
