"""The feature side of a task whose X is sparse: centring is a rank-one term, so nothing is ever made dense as a whole."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
from scipy import sparse

from .designs import CONSTANT_SHARE, OFFSET_SHARE, Floats, Ints


class SparseRows:
    """What `DenseRows` is for a dense X.

    Parameters
    ----------
    X : (rows, d) scipy sparse array; kept in its own precision (float32 or float64), by columns
    weight : (rows,) positive sample weights, or None
    centre : whether to subtract the (weighted) column means
    """

    def __init__(self, X: Any, weight: Floats | None, centre: bool):
        rows, self.d = X.shape
        self.centre = centre
        self.n = float(rows) if weight is None else float(weight.sum())
        self.u = np.ones(rows) if weight is None else np.sqrt(weight)
        self.order = min(rows - centre, self.d)
        self.X = sparse.csc_array(X)
        self.whole: Floats | None = None
        self.lock = Lock()
        data, at = self.X.data.astype(np.float64), self.X.indices
        column = np.repeat(np.arange(self.d), np.diff(self.X.indptr))
        w = np.ones(len(data)) if weight is None else weight[at]
        self.mean = np.bincount(column, w * data, self.d) / self.n if centre else np.zeros(self.d)
        stored = np.bincount(column, w, self.d)
        deviation = data - self.mean[column]
        self.squares = np.bincount(column, w * deviation**2, self.d) + np.maximum(self.n - stored, 0.0) * self.mean**2
        of_mean = self.n * self.mean**2
        self.dead = np.flatnonzero(self.squares <= CONSTANT_SHARE**2 * of_mean)
        self.squares[self.dead] = 0.0
        self.offset = self.mean.copy()
        if weight is not None:
            self.X = sparse.csc_array((data * self.u[at], at, self.X.indptr), shape=self.X.shape)
        thick = np.setdiff1d(np.flatnonzero(self.squares < OFFSET_SHARE * of_mean), self.dead)
        if thick.size:
            self._centre(thick)

    def _centre(self, thick: Ints) -> None:
        """Columns far off zero compared with their spread have hardly a zero: they are stored centred."""
        part = self._centred(thick)
        part -= np.outer(self.u, self.u @ part / self.n)
        others = np.setdiff1d(np.arange(self.d), thick)
        joined = sparse.hstack([self.X[:, others], sparse.csc_array(part)], format="csc")
        back = np.empty(self.d, dtype=np.intp)
        back[np.concatenate([others, thick])] = np.arange(self.d)
        self.X = sparse.csc_array(joined[:, back])
        self.offset[thick] = 0.0

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
        if self.dead.size:
            out[self.dead] = 0.0
        return out

    def gram(self) -> Floats:
        with self.lock:  # tasks on the same rows may ask from several threads
            if self.whole is None:
                G = np.ascontiguousarray((self.X.T @ self.X).toarray(), dtype=np.float64)
                self.whole = self._less_mean(G, np.arange(self.d))
            return self.whole

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        V = self.X[:, features].toarray().astype(np.float64)
        G = self._less_mean(np.asarray((self.X.T @ V).T), features)
        if out is None:
            return np.ascontiguousarray(G)
        out[:] = G
        return out

    def _less_mean(self, G: Floats, features: Ints) -> Floats:
        if self.centre:
            G = G - np.outer(self.n * self.offset[features], self.offset)
        if self.dead.size:
            G[:, self.dead] = 0.0
            G[np.isin(features, self.dead)] = 0.0
        return G
