"""A small weighted lasso with bounds, solved exactly.

    min_v  1/2 v'Gv - c'v + sum_j a_j |v_j|,      low_j <= v_j <= high_j  (low_j <= 0 <= high_j)

An active set: every coefficient rests at a kink (0, where it is penalised, or a bound) or moves inside of the piece between
two kinks, on which the objective is a parabola. Those that move go to the minimum of the parabola, or until the first of
them reaches the end of its piece, where it rests; then those at rest whose gradient says that they should move set out.
Along the way to the minimum the gradients of those that have just set out have the right signs in sum, so that at least one
of them goes the right way: the objective falls from round to round, and no set of pieces is met twice.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_solve, cholesky

from ..._data.designs import Floats

SOUND = 1e-6  # pivots (Cholesky) of unit-length columns above which these are far from dependent
NULL = 1e-12  # eigenvalues, per column, that are those of dependent columns
NOISE = 1e-14  # what rounding leaves of a gradient, relative to the numbers that it is made of
SETS_OUT = 8  # coefficients that set out together, or as many as move already


def box_lasso(G: Floats, c: Floats, a: Floats, low: Floats, high: Floats, v: Floats) -> Floats:
    """The minimiser (k,), from a v (k,) within the bounds; where it is not unique, one of them. The diagonal of G is
    positive, weights are finite."""
    root = np.sqrt(np.diag(G))
    inner = _Pieces(G / np.outer(root, root), c / root, a / root, low * root, high * root)
    scaled = np.where(v == high, high * root, np.where(v == low, low * root, v * root))
    found = inner.solve(scaled)
    out = np.clip(found / root, low, high)
    return np.where(found == inner.high, high, np.where(found == inner.low, low, out))  # exactly


class _Pieces:
    """The same for columns of unit length."""

    def __init__(self, G: Floats, c: Floats, a: Floats, low: Floats, high: Floats):
        self.G, self.c, self.a, self.low, self.high = G, c, a, low, high
        self.free = a == 0.0  # no kink at 0

    def solve(self, v: Floats) -> Floats:
        moving = (v > self.low) & (v < self.high) & (self.free | (v != 0.0))
        sign = np.where(self.free, 0.0, np.sign(v))
        for _ in range(100 + 20 * len(v)):  # far more than it takes
            self._settle(v, moving, sign)
            g = self.c - self.G @ v
            up, down = self._gains(v, g)
            gain = np.where(moving, -np.inf, np.maximum(up, down))
            noise = NOISE * (np.abs(self.c).max() + np.abs(v).sum())
            outs = np.flatnonzero(gain > noise)
            if not outs.size:
                break
            most = max(SETS_OUT, int(moving.sum()))
            outs = outs[np.argsort(-gain[outs], kind="stable")[:most]]
            moving[outs] = True
            at_zero = outs[v[outs] == 0.0]
            sign[outs] = np.sign(v[outs])
            sign[at_zero] = np.where(up[at_zero] >= down[at_zero], 1.0, -1.0)
            sign[self.free] = 0.0
        return v

    def _gains(self, v: Floats, g: Floats) -> tuple[Floats, Floats]:
        """How steeply the objective falls where a coefficient at rest sets out upwards, and downwards."""
        up = np.where(v < self.high, g - np.where(v < 0.0, -self.a, self.a), -np.inf)
        down = np.where(v > self.low, -g + np.where(v > 0.0, self.a, -self.a), -np.inf)
        return up, down

    def _settle(self, v: Floats, moving: np.ndarray, sign: Floats) -> None:
        """Those that move, to the minimum of their pieces."""
        while moving.any():
            F = np.flatnonzero(moving)
            slope = self.c[F] - self.G[F] @ v - self.a[F] * sign[F]
            step, ends = _step(self.G[np.ix_(F, F)], slope, NOISE * (np.abs(self.c).max() + np.abs(v).sum()))
            lowest = np.where(sign[F] > 0.0, 0.0, self.low[F])
            highest = np.where(sign[F] < 0.0, 0.0, self.high[F])
            way = np.where(step > 0.0, highest - v[F], np.where(step < 0.0, lowest - v[F], np.inf))
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                shares = np.where(step != 0.0, np.maximum(way / step, 0.0), np.inf)
            first = float(shares.min())
            if first > 1.0 and ends:
                v[F] += step
                return
            if not np.isfinite(first):  # rounding: nothing is gained along the null space
                return
            v[F] += first * step
            there = shares <= first
            v[F[there]] = np.where(step[there] > 0.0, highest[there], lowest[there])
            moving[F[there]] = False


def _step(G: Floats, slope: Floats, noise: float) -> tuple[Floats, bool]:
    """To the minimum, True; or, where columns are dependent and the objective falls along their null space, a direction in
    it, False."""
    try:
        factor = cholesky(G, lower=True)
        if np.diag(factor).min() > SOUND:
            return np.asarray(cho_solve((factor, True), slope)), True
    except LinAlgError:
        pass
    values, vectors = np.linalg.eigh(G)
    along = vectors.T @ slope
    null = values <= NULL * len(slope)
    fall = np.where(null, along, 0.0)
    if float(np.linalg.norm(fall)) > 100.0 * noise * np.sqrt(len(slope)):
        return np.asarray(vectors @ fall), False
    return np.asarray(vectors @ np.divide(along, values, out=np.zeros_like(along), where=~null)), True
