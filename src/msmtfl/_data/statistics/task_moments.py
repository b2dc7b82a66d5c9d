"""Sufficient statistics of one task, and the task as solvers see it through them.

The number of rows, the sum n of their weights, the (weighted) means of features and target, and the sums of squares and
products about these means. Batches are merged by the pairwise update of Chan, Golub and LeVeque (1979): every batch is
centred at its own mean. Means are kept with the digits that rounding cuts off them, so that data with a mean of 1e6 and a
spread of 1 lose no digits, however many batches they come in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf
from scipy.sparse import csr_array, issparse

from ..designs import CONSTANT_SHARE, Coefs, Floats, Ints, rounding
from ..forms.dense import DenseRows, RowTask
from ..forms.sparse import SparseRows
from .levels import Levels

BESIDES = 4.0  # times what rounding leaves of a product that is 0: more is not rounding
DIRECTION = 1e-6  # a sum of squares of columns of length 1 that is larger is not what rounding leaves
ROUNDING = 1e-9  # sums this much below what rows can have, as a share of what they were: too much was subtracted


@dataclass(frozen=True)
class TaskMoments:
    """One task: rows, n = sum of weights, means, and centred sums xx (d, d), xy (d,), yy.

    low (d + 1,) are the digits of the means, the last that of the target, that rounding cuts off: means differ by little,
    and the sums about one are made of those about another through that difference. levels are the columns with few
    different values, if these were counted.
    """

    rows: int
    n: float
    mean: Floats
    y_mean: float
    low: Floats
    xx: Floats
    xy: Floats
    yy: float
    levels: Levels | None = None  # None: not known, as of statistics from a file

    @staticmethod
    def of(X: np.ndarray | csr_array, y: Floats, weight: Floats | None) -> TaskMoments:
        """Of rows at hand: centred at about their means, and what these lack is taken away from the sums.

        X is sparse or dense, float64 or float32: that is good enough for a first mean, all else is in float64.
        """
        if issparse(X):
            return _of_sparse(X, y, weight)
        w = np.ones(len(y)) if weight is None else weight
        n = float(w.sum())
        with np.errstate(over="ignore", invalid="ignore"):  # whoever asks looks at what comes out
            mean, y_mean = (w.astype(X.dtype) @ X).astype(np.float64) / n, float(w @ y / n)
            mean[~np.isfinite(mean)] = 0.0
            Z, z = X - mean, y - y_mean
            rest, y_rest = w @ Z / n, float(w @ z / n)
            if weight is not None:
                root = np.sqrt(weight)
                Z *= root[:, None]
                z *= root
            xx = Z.T @ Z
            xx -= np.outer(n * rest, rest)
            xy, yy = Z.T @ z - n * y_rest * rest, float(z @ z - n * y_rest * y_rest)
        means, low = add_exactly(np.append(mean, y_mean), np.append(rest, y_rest))
        return TaskMoments(len(y), n, means[:-1], float(means[-1]), low, xx, xy, yy, Levels.of(X, y))

    def merged(self, other: TaskMoments, sign: int = 1) -> TaskMoments:
        """With the rows of another (sign 1), or without them (sign -1)."""
        n = self.n + sign * other.n
        own, others = np.append(self.mean, self.y_mean), np.append(other.mean, other.y_mean)
        apart = (others - own) + (other.low - self.low)
        means, low = add_exactly(own, sign * other.n / n * apart)
        if sign > 0:
            share = self.n * other.n / n
        else:  # self = rest + other: the rest's mean is beyond self's, away from the other's
            share, apart = n * other.n / self.n, self.n / n * apart
        dx, dy = apart[:-1], float(apart[-1])
        return TaskMoments(
            self.rows + sign * other.rows,
            n,
            means[:-1],
            float(means[-1]),
            self.low + low,
            self.xx + sign * (other.xx + share * np.outer(dx, dx)),
            self.xy + sign * (other.xy + share * dy * dx),
            float(self.yy + sign * (other.yy + share * dy * dy)),
            None if self.levels is None or other.levels is None else self.levels.merged(other.levels, sign),
        )

    def flattened(self, constant: np.ndarray) -> TaskMoments:
        """With columns (the last is the target) that are known to be constant."""
        dead, xx, xy = np.flatnonzero(constant[:-1]), self.xx.copy(), self.xy.copy()
        xx[dead], xx[:, dead], xy[dead] = 0.0, 0.0, 0.0
        return replace(self, xx=xx, xy=0.0 * xy, yy=0.0) if constant[-1] else replace(self, xx=xx, xy=xy)

    def squared_error(self, W: Floats, intercepts: Floats) -> Floats:
        """(count,): sum over rows of weight * (y - intercept - x'w)^2, for the rows of W (count, d)."""
        used = np.flatnonzero(W.any(axis=0))
        V = W[:, used]
        inner = np.einsum("sj,jk,sk->s", V, self.xx[np.ix_(used, used)], V, optimize=True)
        shift = self.y_mean - intercepts - V @ self.mean[used]
        out: Floats = np.maximum(self.yy - 2.0 * (V @ self.xy[used]) + inner, 0.0) + self.n * shift**2
        return out


def add_exactly(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The sum as floats, and what their rounding leaves of it (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _of_sparse(X: csr_array, y: Floats, weight: Floats | None) -> TaskMoments:
    rows = SparseRows(X, weight, True)
    task = RowTask(rows, y)
    low = np.append(rows.low, rows.u**2 @ (y - task.y_mean) / rows.n)
    levels = Levels.of(X, y)
    return TaskMoments(len(y), rows.n, rows.mean, task.y_mean, low, rows.gram(), task.c, task.yy, levels)


class Sums:
    """The sums of squares and products of features and target of a task as one matrix, to be compared with others; size is
    (d + 1,): lengths of the columns, or what rounding leaves of a constant one."""

    def __init__(self, task: TaskMoments):
        self.n, self.mean = task.n, np.append(task.mean, task.y_mean)
        self.matrix = np.block([[task.xx, task.xy[:, None]], [task.xy, np.array([[task.yy]])]])
        length, far = np.sqrt(np.maximum(self.matrix.diagonal(), 0.0)), np.sqrt(task.n) * np.abs(self.mean)
        self.size = np.where(length + far > 0.0, length + CONSTANT_SHARE * far, 1.0)

    def equal(self, other: Sums) -> bool:
        """Whether they may be those of the same rows."""
        return bool(
            abs(self.n - other.n) <= ROUNDING * self.n
            and (np.sqrt(self.n) * np.abs(self.mean - other.mean) <= 1e-6 * self.size).all()
            and (np.abs(self.matrix - other.matrix) <= 1e-6 * np.outer(self.size, self.size)).all()
        )

    def left(self, rest: TaskMoments) -> Floats:
        """What is left of them: correlations, but with the lengths that the columns had."""
        out: Floats = Sums(rest).matrix / np.outer(self.size, self.size)
        return out


def impossible(left: Floats) -> int | None:
    """Which column has sums that no rows have (a direction with a negative sum of squares), if there is one."""
    try:
        np.linalg.cholesky(left + ROUNDING * np.eye(len(left)))
    except np.linalg.LinAlgError:
        return int(np.argmax(np.abs(np.linalg.eigh(left)[1][:, 0])))
    return None


NOTHING: Any = (np.zeros((0, 0)), np.zeros(0, dtype=np.intp), 0, 0)  # the factor of a matrix that is empty


def too_many(left: Floats, rows: int) -> bool:
    """Whether the sums vary in more directions than so many rows, centred, can."""
    if rows > len(left):
        return False
    return int(np.sum(np.linalg.eigvalsh(left) > DIRECTION)) > rows - 1


class MomentTask:
    """A task known by its statistics alone, as the solvers see it (a `Design`)."""

    target = None
    curvature = 1.0

    def __init__(self, moments: TaskMoments, centre: bool):
        self.moments, self.centre, self.same_x = moments, centre, self
        self.d, self.n = len(moments.mean), moments.n
        self.order = min(moments.rows - centre, self.d)
        n, mean, y_mean = moments.n, moments.mean, moments.y_mean
        xx, self.c, self.yy = moments.xx, moments.xy.copy(), moments.yy
        if not centre:
            xx, self.c, self.yy = xx + n * np.outer(mean, mean), self.c + n * y_mean * mean, self.yy + n * y_mean**2
        self.squares = xx.diagonal().copy()
        dead = (
            np.flatnonzero(self.squares <= CONSTANT_SHARE**2 * n * mean**2)
            if centre
            else np.flatnonzero(self.squares <= 0.0)
        )
        if dead.size:
            xx = xx.copy()
            xx[dead], xx[:, dead], self.c[dead], self.squares[dead] = 0.0, 0.0, 0.0, 0.0
        least = CONSTANT_SHARE * np.sqrt(n) * abs(y_mean)
        if centre and np.sqrt(max(self.yy, 0.0)) <= least and (np.abs(self.c) <= least * np.sqrt(self.squares)).all():
            self.yy, self.c = 0.0, np.zeros(self.d)
        self._xx = np.ascontiguousarray(xx)

    @property
    def mean(self) -> Floats:
        return self.moments.mean if self.centre else np.zeros(self.d)

    def gram(self, room: Floats | None = None, n_jobs: int | None = None) -> Floats:
        return self._xx

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        rows = self._xx[features]
        if out is None:
            return rows
        out[:] = rows
        return out

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        return self._xx[np.ix_(some, others)]

    def gradient(self, w: Floats) -> Floats:
        used = np.flatnonzero(w)
        return self.c - w[used] @ self._xx[used]

    def loss(self, w: Floats) -> float:
        used = np.flatnonzero(w)
        v = w[used]
        return max(float(self.yy - 2.0 * (v @ self.c[used]) + v @ self._xx[np.ix_(used, used)] @ v), 0.0)

    def as_rows(self) -> RowTask:
        """A task with rows, d + 2 of them at most, that has these sums: what is lost in sums of squares but not in what they
        were made of (columns far off zero) can be worked out on it."""
        return self._rows

    @cached_property
    def _rows(self) -> RowTask:
        moments, n = self.moments, self.moments.n
        square = moments.xx.diagonal()
        live = np.flatnonzero(
            (square > CONSTANT_SHARE**2 * n * moments.mean**2) & (square > 0.0) & (self.squares > 0.0)
        )
        length = np.zeros(self.d)
        length[live] = np.sqrt(square[live])
        unit, size, of_y = rounding(self), length[live], float(np.sqrt(max(moments.yy, 0.0)))
        correlations = moments.xx[np.ix_(live, live)] / np.outer(size, size)
        factor, order, rank, _ = (
            dpstrf(correlations, tol=4.0 * unit * float(np.sqrt(len(live)))) if live.size else NOTHING
        )
        factor, order = np.triu(factor)[:rank], order - 1
        X, y = np.zeros((rank + 2, self.d)), np.zeros(rank + 2)
        c = moments.xy[live] / size if self.yy > 0.0 else 0.0 * size
        y[:rank] = solve_triangular(factor[:, :rank], c[order[:rank]], trans="T") if rank else 0.0
        y[rank] = np.sqrt(max(min(moments.yy, self.yy) - float(y @ y), 0.0))
        X[:rank, live[order]] = factor * size[order]
        unclear = np.zeros(self.d)
        unclear[live] = np.abs(c * size - X[:rank, live].T @ y[:rank])
        unclear[unclear <= BESIDES * unit * length * of_y] = 0.0
        if not self.centre:
            X[-1], y[-1] = np.sqrt(n) * moments.mean, np.sqrt(n) * moments.y_mean
        out = RowTask(DenseRows(X, None, False), y)
        out.n, out.order, out.spread = self.n, self.order, (length, of_y, unclear)
        return out

    def residual(self, w: Floats) -> None:
        return None

    def residuals(self, W: Floats) -> None:
        return None

    def columns(self, features: Ints) -> None:
        return None

    def correlate(self, v: Floats) -> Floats:
        raise NotImplementedError("only statistics are at hand, no rows")

    def intercepts(self, W: Coefs) -> Floats:
        if not self.centre:
            return np.zeros(W.shape[0])
        return np.asarray(self.moments.y_mean - W @ self.moments.mean)
