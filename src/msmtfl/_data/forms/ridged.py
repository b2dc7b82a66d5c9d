"""A task with a ridge: to the loss |y - Xw|^2 comes sum_j r_j w_j^2, as if there were a sample more for every feature, 0 but
for r_j^1/2 in that feature, with a target of 0. No such sample is ever made where only sums are asked for. Springs are the
same with targets of their own: sum_j r_j (w_j - t_j)^2."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..designs import Coefs, Design, Floats, Ints, with_rows


class Ridged:
    """A design with the ridge r (d,) >= 0; its Gram matrix is that of the design with r added to the diagonal. With `rest`
    (d,) coefficients are drawn there, not to 0."""

    def __init__(self, base: Any, ridge: Floats, rest: Floats | None = None):
        self.base, self.ridge, self.rest = base, ridge, rest
        self.d, self.n, self.curvature = base.d, base.n, base.curvature
        self.order = min(base.order + int(np.count_nonzero(ridge)), base.d)
        self.squares: Floats = base.squares + ridge
        self.same_x = self
        self.root = np.sqrt(ridge)

    @property
    def yy(self) -> float:
        return float(self.base.yy)

    @property
    def c(self) -> Floats:
        c = np.asarray(self.base.c)  # of a task whose level moves, it does
        return c if self.rest is None else c + self.ridge * self.rest

    def as_rows(self) -> Design:
        """The same on rows that are made of the task's statistics; itself, where it has rows."""
        return Ridged(with_rows(self.base), self.ridge, self.rest)

    def _away(self, w: Floats) -> Floats:
        return w if self.rest is None else w - self.rest

    def loss(self, w: Floats) -> float:
        return float(self.base.loss(w) + self.ridge @ self._away(w) ** 2)

    def gradient(self, w: Floats) -> Floats:
        return np.asarray(self.base.gradient(w) - self.ridge * self._away(w))

    def intercepts(self, W: Coefs) -> Floats:
        return np.asarray(self.base.intercepts(W))

    # ------------------------------------------------------------------ Gram matrices

    def gram(self, room: Floats | None = None, n_jobs: int | None = None) -> Floats:
        G = self.base.gram(None, n_jobs)
        out: Floats = np.empty_like(G) if room is None else room
        out[:] = G
        out.flat[:: self.d + 1] += self.ridge
        return out

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        G: Floats = np.asarray(self.base.gram_rows(features, out, n_jobs))
        G[np.arange(len(features)), features] += self.ridge[features]
        return G

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        return np.asarray(self.base.gram_block(some, others) + (some[:, None] == others) * self.ridge[others])

    # ------------------------------------------------------------------ rows, with those of the ridge at the end

    @property
    def target(self) -> Floats | None:
        y = self.base.target
        own = np.zeros(self.d) if self.rest is None else self.root * self.rest
        return None if y is None else np.concatenate([y, own])

    def residual(self, w: Floats) -> Floats | None:
        r = self.base.residual(w)
        return None if r is None else np.concatenate([r, -self.root * self._away(w)])

    def residuals(self, W: Floats) -> Floats | None:
        R = self.base.residuals(W)
        return None if R is None else np.concatenate([R, -self.root * self._away(W)], axis=1)

    def correlate(self, v: Floats) -> Floats:
        own = v[-self.d :]
        return np.asarray(self.base.correlate(v[: -self.d]) + (self.root * own.T).T)

    def columns(self, features: Ints) -> Floats | None:
        X = self.base.columns(features)
        return None if X is None else ridge_rows(self, X, features)


def ridge_rows(design: Any, X: Floats, features: Ints) -> Floats:
    """Columns (rows, features) of a design with the rows of its ridge, if it has one, at the end."""
    if not isinstance(design, Ridged):
        return X
    own = np.zeros((design.d, len(features)))
    own[features, np.arange(len(features))] = design.root[features]
    return np.concatenate([X, own])


def ridged(design: Any, ridge: Floats | None) -> Any:
    """The design with a ridge (d,), if there is one."""
    return design if ridge is None or not ridge.any() else Ridged(design, ridge)


def apart(design: Any) -> tuple[Any, Floats | None]:
    """A design without its ridge, and the ridge (d,), if it has one. Springs stay."""
    ridge = isinstance(design, Ridged) and design.rest is None
    return (design.base, design.ridge) if ridge else (design, None)
