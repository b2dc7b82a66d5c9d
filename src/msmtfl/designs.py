"""What a solver may ask of one task's data, and the dense implementation of it.

For squared loss a task is its statistics: everything above this file (solver, stages, certificates)
sees a task only through `Design`, so that sparse, streamed or remote data are one class each.

All quantities are *sums* over the task's rows, centred when the model has an intercept and weighted by
the sample weights: with u_r the square root of row r's weight, X stands for u_r (x_r - mean) and y for
u_r (y_r - mean). Centring is implicit (a rank-one term), so X is not copied, except where a column's
mean exceeds its spread so much that the subtraction would lose digits.
"""

from __future__ import annotations

from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ._kernel import column_moments

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

# A column whose variance is below this share of its squared mean is centred explicitly: the implicit
# form would lose more than 3 of 16 digits.
OFFSET_SHARE = 1e-3
# A spread below this share of the mean is rounding of a constant column.
CONSTANT_SHARE = 1e-13


class Design(Protocol):
    """One task's data as seen by a solver: d features, a target, and sums over rows."""

    d: int
    n: float  # sum of the sample weights (the number of rows without weights)
    order: int  # no more than this many columns can be linearly independent

    @property
    def yy(self) -> float:
        """y'y"""

    @property
    def c(self) -> Floats:
        """X'y, shape (d,)"""

    @property
    def squares(self) -> Floats:
        """The diagonal of X'X, shape (d,); exactly 0 for a constant column."""

    def gram(self) -> Floats:
        """X'X, shape (d, d), C-ordered."""

    def gram_rows(self, features: Ints, out: Floats | None = None) -> Floats:
        """Rows of X'X, shape (len(features), d), written to `out` if given."""

    def loss(self, w: Floats) -> float:
        """|y - Xw|^2"""

    def gradient(self, w: Floats) -> Floats:
        """X'(y - Xw), shape (d,)"""

    def residual(self, w: Floats) -> Floats | None:
        """y - Xw, shape (rows,); None if only statistics are at hand."""

    def correlate(self, v: Floats) -> Floats:
        """X'v for a vector v over rows, shape (d,); only where rows are at hand."""

    def columns(self, features: Ints) -> Floats | None:
        """X restricted to some columns, shape (rows, len(features)); None if only statistics are at hand."""

    @property
    def target(self) -> Floats | None:
        """y, shape (rows,); None if only statistics are at hand."""

    def intercept(self, w: Floats) -> float:
        """The intercept that belongs to w in the data's own units; 0 for data that are not centred."""


class DenseRows:
    """The feature side of a dense task; tasks measured on the same rows share one.

    Parameters
    ----------
    X : (rows, d) float64, any memory order, not copied unless it must be
    weight : (rows,) positive sample weights, or None
    centre : whether to subtract the (weighted) column means
    """

    def __init__(self, X: Floats, weight: Floats | None, centre: bool):
        rows, self.d = X.shape
        self.centre = centre
        self.n = float(rows) if weight is None else float(weight.sum())
        self.u = np.ones(rows) if weight is None else np.sqrt(weight)
        shift = np.zeros(self.d)
        if weight is not None:  # a copy in any case: centre it before the weights blur the digits
            if centre:
                shift = weight @ X / self.n
                X = X - shift
            X = X * self.u[:, None]
        self.X = X
        self.order = min(rows - centre, self.d)
        self.mean, self.squares = np.empty(self.d), np.empty(self.d)
        column_moments(X, self.u, self.mean, self.squares)
        self.offset = self.mean / self.n if centre else np.zeros(self.d)  # what is still to be subtracted from self.X
        self.mean = shift + self.offset
        self.dead: Ints = np.empty(0, dtype=np.intp)
        self.whole: Floats | None = None
        self.lock = Lock()
        if centre and np.isfinite(self.squares).all():  # otherwise the front door finds the place and says so
            self._centre()

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
        used = np.flatnonzero(w)
        return self.X[:, used] @ w[used] - self.u * (self.offset[used] @ w[used])

    def correlate(self, v: Floats) -> Floats:
        """X'v"""
        out = self.X.T @ v
        if self.centre:
            out -= self.offset * (self.u @ v)
            if self.dead.size:
                out[self.dead] = 0.0
        return out

    def gram(self) -> Floats:
        with self.lock:  # tasks on the same rows may ask from several threads
            if self.whole is None:
                self.whole = self._gram()
            return self.whole

    def _gram(self) -> Floats:
        G = np.ascontiguousarray(self.X.T @ self.X)
        if self.centre and self.offset.any():
            G -= np.outer(self.n * self.offset, self.offset)
        if self.dead.size:
            G[self.dead] = 0.0
            G[:, self.dead] = 0.0
        return G

    def gram_rows(self, features: Ints, out: Floats | None = None) -> Floats:
        G = np.matmul(self.X[:, features].T, self.X, out=out)
        if self.centre and self.offset.any():
            G -= np.outer(self.n * self.offset[features], self.offset)
            G[:, self.dead] = 0.0
            G[np.isin(features, self.dead)] = 0.0
        return G


class DenseTask:
    """A dense task: shared rows and one target of its own."""

    def __init__(self, rows: DenseRows, y: Floats):
        self.rows = rows
        self.d, self.n, self.order = rows.d, rows.n, rows.order
        self.y_mean = float(rows.u**2 @ y / rows.n) if rows.centre else 0.0
        self.target: Floats = rows.u * (y - self.y_mean)
        if rows.centre and np.ptp(y) == 0.0:
            self.target = np.zeros_like(self.target)
        with np.errstate(over="ignore"):  # the front door says so
            self.yy = float(self.target @ self.target)
        self.c = rows.correlate(self.target)
        self.squares = rows.squares
        self.gram = rows.gram
        self.gram_rows = rows.gram_rows
        self.columns = rows.columns
        self.correlate = rows.correlate

    def residual(self, w: Floats) -> Floats:
        return self.target - self.rows.apply(w)

    def loss(self, w: Floats) -> float:
        r = self.residual(w)
        return float(r @ r)

    def gradient(self, w: Floats) -> Floats:
        return self.correlate(self.residual(w))

    def intercept(self, w: Floats) -> float:
        return self.y_mean - float(self.rows.mean @ w)
