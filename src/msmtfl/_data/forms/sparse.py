"""The feature side of a task whose X is sparse: centring is a rank-one term, so nothing is ever made dense as a whole."""

from __future__ import annotations

from threading import Lock

import numpy as np
from scipy import sparse

from ..designs import CONSTANT_SHARE, OFFSET_SHARE, Floats, Ints


class SparseRows:
    """What `DenseRows` is for a dense X.

    Parameters
    ----------
    X : (rows, d) scipy sparse array; kept in its own precision (float32 or float64), by columns
    weight : (rows,) positive sample weights, or None
    centre : whether to subtract the (weighted) column means
    """

    def __init__(self, X: sparse.csr_array, weight: Floats | None, centre: bool):
        rows, self.d = X.shape
        self.centre = centre
        self.n = float(rows) if weight is None else float(weight.sum())
        self.u = np.ones(rows) if weight is None else np.sqrt(weight)
        self.order = min(rows - centre, self.d)
        self.X = sparse.csc_array(X)
        self.whole: Floats | None = None
        self.lock = Lock()
        self.mean, self.low = np.zeros(self.d), np.zeros(self.d)  # low: digits that rounding cuts off the mean
        with np.errstate(over="ignore", invalid="ignore"):  # the front door finds the place and says so
            of_mean = self._sum_up(rows)
        self.offset = self.mean.copy()  # what is still to be subtracted from self.X
        suspect = np.flatnonzero(self.squares < OFFSET_SHARE * of_mean)
        part = self._looked_at(suspect)
        if weight is not None:
            self._set(self.X.data * self.u[self.X.indices])
        if suspect.size:
            self._replace(suspect, part)

    def _sum_up(self, rows: int) -> Floats:
        """Means and sums of squares of the columns, what is not stored counting as 0; returns n times the means squared."""
        data, stored = self.X.data.astype(np.float64), np.diff(self.X.indptr)
        column, w = np.repeat(np.arange(self.d), stored), self.u[self.X.indices] ** 2
        if self.centre:
            self.mean = np.bincount(column, w * data, self.d) / self.n
        of_mean = self.n * self.mean**2
        squares = np.bincount(column, w * (data - self.mean[column]) ** 2, self.d)
        zeros = np.where(stored < rows, np.maximum(self.n - np.bincount(column, w, self.d), 0.0), 0.0)
        self.squares = np.where(np.isfinite(of_mean), squares + zeros * self.mean**2, np.inf)
        return of_mean

    def _set(self, data: np.ndarray) -> None:
        """Other values in the same places"""
        self.X = sparse.csc_array((data, self.X.indices, self.X.indptr), shape=self.X.shape)

    def _looked_at(self, suspect: Ints) -> Floats:
        """Columns far off zero compared with their spread, centred once more by what the rounding of the mean left; they
        have hardly a zero, so that this takes no more memory than they do. Constant ones are exactly 0."""
        part = self.X[:, suspect].toarray().astype(np.float64) - self.mean[suspect]
        rest = self.u**2 @ part / self.n
        about = self.mean[suspect]
        self.mean[suspect] = about + rest
        self.low[suspect] = rest - (self.mean[suspect] - about)
        part = (part - rest) * self.u[:, None]
        squares = np.einsum("ij,ij->j", part, part)
        constant = squares <= CONSTANT_SHARE**2 * self.n * self.mean[suspect] ** 2
        part[:, constant], squares[constant] = 0.0, 0.0
        self.squares[suspect] = squares
        return part

    def _replace(self, features: Ints, part: Floats) -> None:
        """Store columns as they are in `part`: centred, so that no offset is left to subtract."""
        others = np.ones(self.d, dtype=self.X.dtype)
        others[features] = 0
        self._set(self.X.data * np.repeat(others, np.diff(self.X.indptr)))
        self.X.eliminate_zeros()
        self.offset[features] = 0.0
        if part.any():
            count = len(features)
            place = sparse.csc_array((np.ones(count), (np.arange(count), features)), shape=(count, self.d))
            self.X = sparse.csc_array(self.X + sparse.csc_array(part) @ place)

    def _centred(self, features: Ints) -> Floats:
        return self.X[:, features].toarray().astype(np.float64) - np.outer(self.u, self.offset[features])

    def columns(self, features: Ints) -> Floats:
        part = self._centred(features)
        part[:, self.squares[features] == 0.0] = 0.0
        return part

    def apply(self, w: Floats) -> Floats:
        """Xw for a sparse w"""
        used = np.flatnonzero(w)
        return np.asarray(self.X[:, used] @ w[used] - self.u * (self.offset[used] @ w[used]))

    def apply_all(self, W: Floats) -> Floats:
        """The same for the rows of W, one row each"""
        used = np.flatnonzero(W.any(axis=0))
        V = W[:, used]
        return np.asarray((self.X[:, used] @ V.T).T - np.outer(V @ self.offset[used], self.u))

    def correlate(self, v: Floats) -> Floats:
        """X'v"""
        out = np.asarray(self.X.T @ v)
        if self.centre:
            out -= np.multiply.outer(self.offset, self.u @ v)
        return out

    def gram(self, room: Floats | None = None, n_jobs: int | None = None) -> Floats:
        with self.lock:  # tasks on the same rows may ask from several threads
            if self.whole is None:
                X = self.X.astype(np.float64, copy=False)
                self.whole = self._less_mean((X.T @ X).toarray(), np.arange(self.d))
            return self.whole

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        V = self.X[:, features].toarray().astype(np.float64)
        G = self._less_mean(np.asarray((self.X.T @ V).T), features)
        if out is None:
            return G
        out[:] = G
        return out

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        G = (self.X[:, some].T @ self.X[:, others]).toarray().astype(np.float64)
        if self.centre:
            G -= np.outer(self.n * self.offset[some], self.offset[others])
        G[self.squares[some] == 0.0] = 0.0
        G[:, self.squares[others] == 0.0] = 0.0
        return np.asarray(G)

    def _less_mean(self, G: Floats, features: Ints) -> Floats:
        return np.ascontiguousarray(G - np.outer(self.n * self.offset[features], self.offset) if self.centre else G)
