"""The feature side of a task whose X is a large float32 array: it stays one; sums are formed in float64, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ..designs import CONSTANT_SHARE, Floats, Ints

BLOCK = 2**21  # entries of X in float64 at a time


class NarrowRows:
    """What `DenseRows` is for float64. Blocks are centred before they are used, so that no digits are lost.

    Parameters
    ----------
    X : (rows, d) float32, not copied
    weight : (rows,) positive sample weights, or None
    centre : whether to subtract the (weighted) column means
    """

    def __init__(self, X: NDArray[np.float32], weight: Floats | None, centre: bool):
        rows, self.d = X.shape
        self.X, self.centre = X, centre
        self.n = float(rows) if weight is None else float(weight.sum())
        self.u = np.ones(rows) if weight is None else np.sqrt(weight)
        self.order = min(rows - centre, self.d)
        self.height = max(1, BLOCK // max(self.d, 1))
        self.whole: Floats | None = None
        self.lock = Lock()
        self.mean, self.squares = np.zeros(self.d), np.zeros(self.d)
        with np.errstate(over="ignore", invalid="ignore"):  # the front door finds the place and says so
            for _ in range(2 if centre else 0):  # the second time what the rounding of the mean left
                self.mean = self.mean + sum(self.u[at] @ block for at, block in self._blocks()) / self.n
            for _, block in self._blocks():
                self.squares += np.einsum("ij,ij->j", block, block)
        self.squares[self.squares <= CONSTANT_SHARE**2 * self.n * self.mean**2] = 0.0

    def _blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Rows in float64, centred and weighted, some at a time."""
        for low in range(0, len(self.u), self.height):
            at = slice(low, low + self.height)
            block = self.X[at].astype(np.float64)
            if self.centre:
                block -= self.mean
            block *= self.u[at, None]
            yield at, block

    def columns(self, features: Ints) -> Floats:
        part = self.X[:, features].astype(np.float64)
        if self.centre:
            part -= self.mean[features]
        part *= self.u[:, None]
        part[:, self.squares[features] == 0.0] = 0.0
        return part

    def apply(self, w: Floats) -> Floats:
        """Xw for a sparse w"""
        used = np.flatnonzero(w)
        return np.asarray(self.columns(used) @ w[used])

    def apply_all(self, W: Floats) -> Floats:
        """The same for the rows of W, one row each"""
        used = np.flatnonzero(W.any(axis=0))
        return np.asarray(W[:, used] @ self.columns(used).T)

    def correlate(self, v: Floats) -> Floats:
        """X'v"""
        out = np.zeros((self.d, *v.shape[1:]))
        for at, block in self._blocks():
            out += block.T @ v[at]
        out[self.squares == 0.0] = 0.0
        return out

    def gram(self, room: Floats | None = None, n_jobs: int | None = None) -> Floats:
        with self.lock:
            if self.whole is None:
                G = np.zeros((self.d, self.d))
                for _, block in self._blocks():
                    G += block.T @ block
                dead = self.squares == 0.0
                G[dead], G[:, dead] = 0.0, 0.0
                self.whole = G
            return self.whole

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        G = self.correlate(self.columns(features)).T
        if out is None:
            return np.ascontiguousarray(G)
        out[:] = G
        return out

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        return np.asarray(self.columns(some).T @ self.columns(others))
