"""The dense form of a task's data, training folds by subtraction, and a task with its target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from threading import Lock

import numpy as np

from ..._kernels.products import column_moments, few_products, gram
from ..._runtime.threads import count, each, shares
from ..designs import CONSTANT_SHARE, NONE, OFFSET_SHARE, Coefs, FeatureRows, Floats, Ints, support

# So few vectors are multiplied with X at once without copying it, as BLAS would.
FEW = 32
# With fewer entries in X a pass over it is not worth sharing out among threads.
WORTH_SHARING = 2 * 10**6
# With fewer products of two numbers (some 0.5 ms) a Gram matrix is not, either.
PRODUCTS_WORTH_SHARING = 2 * 10**7
# A column (a target) that keeps less than this share of its squares when rows are left out is computed anew.
LEFT_SHARE = 1e-2


@lru_cache(maxsize=128)
def _ones(rows: int) -> Floats:
    """The roots of weights that are all 1: one array for all tasks of as many rows; nobody writes to it."""
    return np.ones(rows)


def centred(rows: FeatureRows, y: Floats) -> tuple[float, Floats]:
    """The weighted mean of y, and u (y - mean), exactly 0 if y is constant; y is not centred if the rows are not."""
    if not rows.centre:
        return 0.0, rows.u * y
    mean = float(rows.u**2 @ y / rows.n)
    constant = np.ptp(y[rows.u > 0.0]) == 0.0
    return mean, np.zeros_like(rows.u) if constant else rows.u * (y - mean)


class DenseRows:
    """The feature side of a dense task; tasks measured on the same rows share one.

    Parameters
    ----------
    X : (rows, d) float64, any memory order, not copied unless it must be
    weight : (rows,) positive sample weights, or None
    centre : whether to subtract the (weighted) column means
    y : (rows,) the target of a task on these rows, whose X'y then comes from the same pass over X
    """

    squares: Floats
    first: tuple[Floats, float, Floats, Floats] | None = None  # that y, its mean, what is left of it, X'y
    parts: dict[bytes, Floats] = {}  # noqa: RUF012 - Gram matrices of some of the rows, by their indices; replaced as a whole

    def __init__(self, X: Floats, weight: Floats | None, centre: bool, y: Floats | None = None):
        rows, self.d = X.shape
        self.centre = centre
        self.n = float(rows) if weight is None else float(weight.sum())
        self.u = _ones(rows) if weight is None else np.sqrt(weight)
        shift = None
        if weight is not None:  # a copy in any case: centre it before the weights blur the digits
            if centre:
                shift = weight @ X / self.n
                X = X - shift
            X = X * self.u[:, None]
        self.X = X
        self.order = min(rows - centre, self.d)
        y_mean, target = (0.0, self.u) if y is None else centred(self, y)
        sums, c, self.squares = np.empty(self.d), np.empty(self.d), np.empty(self.d)
        column_moments(X, self.u, target, sums, c, self.squares)
        self.offset = sums / self.n if centre else np.zeros(self.d)  # what is still to be subtracted from self.X
        self.mean = self.offset if shift is None else shift + self.offset
        self.dead: Ints = NONE
        self.whole: Floats | None = None
        self.lock = Lock()
        if not np.isfinite(self.squares).all():
            return  # the front door finds the place and says so
        if centre:
            self._centre()
        if y is not None and self.X is X:
            self.first = y, y_mean, target, self._less_mean(c, target)

    def _centre(self) -> None:
        of_mean = self.n * self.mean**2
        self.squares -= self.n * self.offset**2
        suspect = np.flatnonzero(self.squares < OFFSET_SHARE * of_mean)
        if suspect.size == 0:
            return
        part = self._centred(suspect)
        part -= np.outer(self.u, self.u @ part / self.n)  # what the rounding of the mean left
        self.squares[suspect] = np.einsum("ij,ij->j", part, part)
        constant = self.squares[suspect] <= CONSTANT_SHARE**2 * of_mean[suspect]
        self.dead = suspect[constant]
        self.squares[self.dead] = 0.0
        if not constant.all():
            part[:, constant] = 0.0
            self.X = self.X - np.outer(self.u, self.offset)
            self.X[:, suspect] = part
            self.offset = np.zeros(self.d)
            self.dead = self.dead[:0]

    def _centred(self, features: Ints) -> Floats:
        return self.X[:, features] - np.outer(self.u, self.offset[features])

    def columns(self, features: Ints) -> Floats:
        part = self._centred(features)
        part[:, self.squares[features] == 0.0] = 0.0
        return part

    def apply(self, w: Floats) -> Floats:
        """Xw for a sparse w"""
        used = support(w)
        return self.X[:, used] @ w[used] - self.u * (self.offset[used] @ w[used])

    def apply_all(self, W: Floats) -> Floats:
        """The same for the rows of W, one row each"""
        used = np.flatnonzero(W.any(axis=0))
        V = W[:, used]
        return V @ self.X[:, used].T - np.outer(V @ self.offset[used], self.u)

    def correlate(self, v: Floats) -> Floats:
        """X'v"""
        return self._less_mean(self.X.T @ v, v)

    def _less_mean(self, out: Floats, v: Floats) -> Floats:
        if self.centre:
            out -= np.multiply.outer(self.offset, self.u @ v)
            if self.dead.size:
                out[self.dead] = 0.0
        return out

    def gram(self, room: Floats | None = None, n_jobs: int | None = None) -> Floats:
        with self.lock:  # tasks on the same rows may ask from several threads
            if self.whole is None:
                self.whole = self._gram(room, n_jobs)
            return self.whole

    def gather(self, outs: Sequence[Ints]) -> None:
        """Form the Gram matrix as the sum of those of parts of the rows, and keep these: `outs` are the parts."""
        room = np.empty((1 + len(outs), self.d, self.d))
        self.parts = {out.tobytes(): _gram_of(self.held(out), part) for out, part in zip(outs, room[1:], strict=True)}
        self.whole = np.add(room[1], room[2], out=room[0])
        for part in room[3:]:
            self.whole += part
        if self.dead.size:
            self.whole[self.dead] = 0.0
            self.whole[:, self.dead] = 0.0

    def held(self, rows: Ints) -> Floats:
        """Some of the rows, centred as all are."""
        return self.X[rows] - np.outer(self.u[rows], self.offset) if self.offset.any() else self.X[rows]

    def _gram(self, room: Floats | None, n_jobs: int | None) -> Floats:
        G = _gram_of(self.X, room, n_jobs)
        if self.centre and self.offset.any():
            G -= np.outer(self.n * self.offset, self.offset)
        if self.dead.size:
            G[self.dead] = 0.0
            G[:, self.dead] = 0.0
        return G

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        G = self._products(self.X[:, features], out, n_jobs)
        if self.centre and self.offset.any():
            G -= np.outer(self.n * self.offset[features], self.offset)
        self._bury(G, features)
        return G

    def _bury(self, G: Floats, features: Ints) -> None:
        """Make the rows of some features 0 where columns are constant."""
        if self.dead.size:
            G[:, self.dead] = 0.0
            G[np.isin(features, self.dead)] = 0.0

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        return np.asarray(self.columns(some).T @ self.columns(others))

    def _products(self, V: Floats, out: Floats | None, n_jobs: int | None) -> Floats:
        """V'X for a few vectors V (rows, count), the columns of X shared out among threads"""
        G = np.empty((V.shape[1], self.d)) if out is None else out
        pieces = shares(self.d, n_jobs if self.X.size > WORTH_SHARING else None)
        V = np.ascontiguousarray(V.T)
        each(lambda piece: few_products(V, self.X[:, piece], G[:, piece], FEW), pieces, n_jobs)
        return G


def _gram_of(X: Floats, room: Floats | None, n_jobs: int | None = None) -> Floats:
    """X'X, its columns shared out among threads so that each has as much of the upper triangle to do"""
    rows, d = X.shape
    G = np.empty((d, d)) if room is None else room
    pieces = count(n_jobs) if rows * d**2 > PRODUCTS_WORTH_SHARING else 1
    ends = np.rint(d * np.sqrt(np.linspace(0.0, 1.0, pieces + 1))).astype(int).tolist()
    each(lambda piece: gram(X, G, *piece), list(pairwise(ends)), n_jobs)
    return G


class TrainingRows(DenseRows):
    """Dense rows without some of them: statistics are those of all rows less those left out; only these are copied.

    What is left out counts as a row of zeros. Columns that the difference would lose digits of (nearly all of their
    spread is in the rows left out) are looked at one by one; where that is not enough either, `safe` is False.

    Parameters
    ----------
    total : all rows
    out : which of them are left out
    y, task : (rows,) the target of a task on all rows, and that task: its X'y comes by subtraction as well
    """

    def __init__(self, total: DenseRows, out: Ints, y: Floats, task: RowTask):
        self.total, self.out = total, out
        self.X, self.d, self.centre = total.X, total.d, total.centre
        self.kept = np.ones(len(total.u))
        self.kept[out] = 0.0
        self.u = total.u * self.kept
        self.n = float(self.u @ self.u)
        self.order = min(len(total.u) - len(out) - self.centre, self.d)
        self.gone = total.held(out)
        u, target = total.u[out], task.target[out]
        if self.centre:  # what the rounding of a mean far off zero left
            target -= u * (total.u @ task.target / total.n)
        sums, of_gone, squares = np.empty((3, self.d))
        column_moments(self.gone, u, target, sums, of_gone, squares)
        self.shift = sums / -self.n if self.centre else np.zeros(self.d)
        self.offset = total.offset + self.shift
        self.squares = total.squares - squares - self.n * self.shift**2
        self.whole: Floats | None = None
        self.lock = Lock()
        suspect = np.flatnonzero(self.squares <= LEFT_SHARE * total.squares)
        if self.centre:
            self.offset[suspect] = self.u @ self.X[:, suspect] / self.n
        self.mean = (total.mean - total.offset) + self.offset
        part = self._centred(suspect)
        if self.centre:
            part -= np.outer(self.u, self.u @ part / self.n)
        self.squares[suspect] = np.einsum("ij,ij->j", part, part)
        least = CONSTANT_SHARE**2 * np.maximum(self.n * self.mean**2, total.squares)[suspect]
        self.dead = suspect[self.squares[suspect] <= least]
        self.squares[self.dead] = 0.0
        self.suspect = np.setdiff1d(suspect, self.dead) if suspect.size else suspect
        y_mean, left = centred(self, y)
        if left @ left > LEFT_SHARE * task.yy:
            c = task.c - of_gone + (u @ target) * self.shift
            c[suspect] = left @ part
            c[self.dead] = 0.0
            self.first = y, y_mean, left, c

    @property
    def safe(self) -> bool:
        """Whether the columns looked at one by one are few, and none is far off zero compared with its spread."""
        part = self.suspect
        far = self.squares[part] < OFFSET_SHARE * self.n * self.offset[part] ** 2
        return len(part) <= 0.25 * self.d and not far.any()

    def _centred(self, features: Ints) -> Floats:
        return self.kept[:, None] * self.X[:, features] - np.outer(self.u, self.offset[features])

    def apply_all(self, W: Floats) -> Floats:
        return super().apply_all(W) * self.kept  # u is 0 where kept is

    def apply(self, w: Floats) -> Floats:
        used = support(w)
        return self.kept * (self.X[:, used] @ w[used]) - self.u * (self.offset[used] @ w[used])

    def _gram(self, room: Floats | None, n_jobs: int | None) -> Floats:
        part = self.total.parts.pop(self.out.tobytes(), None)
        G = _gram_of(self.gone, room, n_jobs) if part is None else part
        np.subtract(self.total.gram(), G, out=G)  # its memory is free now
        if self.centre:
            G -= np.outer(self.n * self.shift, self.shift)
        if self.suspect.size:
            rows = self.gram_rows(self.suspect)
            G[self.suspect] = rows
            G[:, self.suspect] = rows.T
        G[self.dead] = 0.0
        G[:, self.dead] = 0.0
        return G

    def gram_rows_less(self, features: Ints, of_all: Floats, out: Floats) -> None:
        """The same as `gram_rows`, given those of all rows (len(features), d)."""
        np.matmul(self.gone[:, features].T, self.gone, out=out)
        np.subtract(of_all, out, out=out)
        if self.centre:
            out -= np.outer(self.n * self.shift[features], self.shift)
        if self.suspect.size:
            out[:, self.suspect] = self.gram_rows(self.suspect)[:, features].T
            anew = np.isin(features, self.suspect)
            out[anew] = self.gram_rows(features[anew])
        self._bury(out, features)

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        G = self._products(self.kept[:, None] * self.X[:, features], out, n_jobs)
        if self.centre:
            G -= np.outer(self.n * self.offset[features], self.offset)
        self._bury(G, features)
        return G


class RowTask:
    """A task whose rows are at hand: shared rows (`DenseRows`, or what is like it) and one target of its own.

    `spread`, of rows made of statistics: lengths (d,) of columns and length of the target about their means, which the
    rounding of sums is relative to; and (d,) what of X'y these rows do not explain, beyond rounding.
    """

    spread: tuple[Floats, float, Floats] | None = None
    curvature = 1.0

    def __init__(self, rows: FeatureRows, y: Floats):
        self.rows = rows
        self.d, self.n, self.order = rows.d, rows.n, rows.order
        first = getattr(rows, "first", None)
        self.target: Floats
        self.c: Floats
        if first is not None and (first[0] is y or np.array_equal(first[0], y)):
            _, self.y_mean, self.target, self.c = first
        else:
            self.y_mean, self.target = centred(rows, y)
            self.c = rows.correlate(self.target)
        with np.errstate(over="ignore"):  # the front door says so
            self.yy = float(self.target @ self.target)
        self.squares = rows.squares

    @property
    def same_x(self) -> object:
        return self.rows

    @property
    def gram_rows_less(self) -> Callable[..., None] | None:
        return getattr(self.rows, "gram_rows_less", None)

    def gram(self, room: Floats | None = None, n_jobs: int | None = None) -> Floats:
        return np.asarray(self.rows.gram(room, n_jobs))

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        return np.asarray(self.rows.gram_rows(features, out, n_jobs))

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        return np.asarray(self.rows.gram_block(some, others))

    def columns(self, features: Ints) -> Floats:
        return np.asarray(self.rows.columns(features))

    def correlate(self, v: Floats) -> Floats:
        return np.asarray(self.rows.correlate(v))

    @property
    def mean(self) -> Floats:
        """(d,): what was subtracted from the columns; 0 for data that are not centred."""
        return np.asarray(self.rows.mean)

    def residual(self, w: Floats) -> Floats:
        return self.target - self.rows.apply(w)

    def residuals(self, W: Floats) -> Floats:
        return self.target - self.rows.apply_all(W)

    def loss(self, w: Floats) -> float:
        r = self.residual(w)
        return float(r @ r)

    def gradient(self, w: Floats) -> Floats:
        return self.correlate(self.residual(w))

    def intercepts(self, W: Coefs) -> Floats:
        out: Floats = self.y_mean - W @ self.rows.mean
        return out
