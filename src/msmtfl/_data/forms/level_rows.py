"""Intercepts that are drawn to a common level: one more weighted sample per task, which is never copied into X.

At the mean x_0 of all samples, task i's linear predictor is its *level*. A ridge of strength k draws it to a common
level a_0:

    sum_r (y_r - x_r'w - b)^2 + k (x_0'w + b - a_0)^2

which is a sample of weight k at x_0 with target a_0. Levels are compared at x_0, where the data are, and not at x = 0, which
may be far away. The n_i that the loss is divided by does not count that sample.

With the intercept at its best, centred sums (see designs.py) become those with one more row

    s (mean_i - x_0),  target s (mean of y_i - a_0),   s^2 = n_i k / (n_i + k)

so that any centred `Design` can be drawn to a level: `LevelTask` is that for squared loss. k = inf holds the level at a_0.
Under other losses the sample is one like the others, under the same loss (`LevelRows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from ..designs import SAME_MEAN, Coefs, Design, FeatureRows, Floats, Ints, with_rows


@dataclass(frozen=True)
class LevelPrior:
    """What levels are drawn to: `level` at the point `at` (d,), as strongly as `ridge` samples would, which have this
    offset beside it."""

    at: Floats
    level: float
    ridge: float
    offset: float = 0.0

    def intercepts(self, W: Coefs) -> Floats:
        """(count,): those of rows of W (count, d) whose level is the common one."""
        return np.asarray(self.level - W @ self.at)


class LevelX:
    """The feature side of tasks that have the same X, drawn to the same point with the same strength: `row` (d,) is what
    comes to the rows of X. It keeps the Gram matrix once that is asked for."""

    def __init__(self, design: Design, row: Floats):
        self.design, self.row, self.whole = design, row, None
        self.lock = Lock()
        self.squares = design.squares + row**2

    whole: Floats | None

    def gram(self, room: Floats | None, n_jobs: int | None) -> Floats:
        with self.lock:
            if self.whole is None:
                out = np.empty((len(self.row), len(self.row))) if room is None else room
                np.multiply.outer(self.row, self.row, out=out)
                out += self.design.gram(None, n_jobs)
                self.whole = out
            return self.whole


class LevelTask:
    """A centred task under squared loss, its level being drawn to that of a prior (a `Design`).

    Parameters
    ----------
    part : the task without the prior, centred
    x : what it shares with tasks that have the same X
    target : that of the row that comes to it
    prior : what its level is drawn to
    total : the row (d,) of the same task with all samples, if `part` has some of them
    """

    curvature = 1.0

    def __init__(self, part: Design, x: LevelX, target: float, prior: LevelPrior, total: Floats | None = None):
        self.part, self.x, self.row, self.of_row, self.prior, self.total = part, x, x.row, target, prior, total
        self.d, self.n, self.order = part.d, part.n, min(part.order + 1, part.d)
        self.same_x: object = x
        self.squares: Floats = x.squares
        self.spread = getattr(part, "spread", None)
        self._aim()

    def _aim(self) -> None:
        self.c: Floats = self.part.c + self.of_row * self.row
        self.yy: float = self.part.yy + self.of_row**2
        mine = self.part.target
        self.target: Floats | None = None if mine is None else np.append(mine, self.of_row)

    def move(self, level: float) -> None:
        """Hold the level at another value. What was made of this task before (solvers, what is kept of Gram matrices) knows
        the one before."""
        self.of_row += float(np.sqrt(self.n * self.share)) * (self.prior.level - level)
        self.prior = replace(self.prior, level=level)
        self._aim()

    @property
    def share(self) -> float:
        """Of the prior in the level."""
        k = self.prior.ridge
        return 1.0 if np.isinf(k) else k / (self.n + k)

    def level_slope(self, w: Floats) -> float:
        """Half the derivative of the loss with respect to a level that is held."""
        return -float(np.sqrt(self.n) * (self.of_row - self.row @ w))

    @property
    def mean(self) -> Floats:
        return np.asarray(getattr(self.part, "mean"))  # noqa: B009 - of every centred design

    @property
    def rows(self) -> Any:
        """Those of the task without the prior."""
        return getattr(self.part, "rows", None)

    @property
    def as_rows(self) -> Callable[[], LevelTask] | None:
        """Where statistics are all there is: the same on rows that have these."""
        make = getattr(self.part, "as_rows", None)
        return None if make is None else self._as_rows

    def _as_rows(self) -> LevelTask:
        return LevelTask(with_rows(self.part), self.x, self.of_row, self.prior)

    @property
    def gram_rows_less(self) -> Callable[[Ints, Floats, Floats], None] | None:
        """From Gram rows of all samples to those of some; see `TrainingRows`."""
        less, total = getattr(self.part, "gram_rows_less", None), self.total
        if less is None or total is None:
            return None

        def rows(features: Ints, of_all: Floats, out: Floats) -> None:
            less(features, of_all - np.outer(total[features], total), out)
            out += np.outer(self.row[features], self.row)

        return rows

    def gram(self, room: Floats | None = None, n_jobs: int | None = None) -> Floats:
        return self.x.gram(room, n_jobs)

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        rows = self.part.gram_rows(features, out, n_jobs)
        rows += np.outer(self.row[features], self.row)
        return rows

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        return np.asarray(self.part.gram_block(some, others) + np.outer(self.row[some], self.row[others]))

    def columns(self, features: Ints) -> Floats | None:
        X = self.part.columns(features)
        return None if X is None else np.vstack([X, self.row[features]])

    def correlate(self, v: Floats) -> Floats:
        return np.asarray(self.part.correlate(v[:-1]) + np.multiply.outer(self.row, v[-1]))

    def residual(self, w: Floats) -> Floats | None:
        r = self.part.residual(w)
        return None if r is None else np.append(r, self.of_row - self.row @ w)

    def residuals(self, W: Floats) -> Floats | None:
        R = self.part.residuals(W)
        return None if R is None else np.column_stack([R, self.of_row - W @ self.row])

    def loss(self, w: Floats) -> float:
        return self.part.loss(w) + float(self.of_row - self.row @ w) ** 2

    def gradient(self, w: Floats) -> Floats:
        return self.part.gradient(w) + self.row * (self.of_row - self.row @ w)

    def intercepts(self, W: Coefs) -> Floats:
        held = self.prior.intercepts(W)
        return held if self.share == 1.0 else (1.0 - self.share) * self.part.intercepts(W) + self.share * held


def drawn(parts: Sequence[Any], priors: Sequence[LevelPrior], totals: Sequence[Any] | None = None) -> list[LevelTask]:
    """Centred tasks drawn to priors, one each; `totals` are the same with all samples, if these have some of them."""
    shared: dict[tuple[int, int], LevelX] = {}
    out = []
    for i, (part, prior) in enumerate(zip(parts, priors, strict=True)):
        share = 1.0 if np.isinf(prior.ridge) else prior.ridge / (part.n + prior.ridge)
        root = float(np.sqrt(part.n * share))
        key = (id(part.same_x), id(prior))
        if key not in shared:
            shared[key] = LevelX(part, root * _apart(part, prior.at))
        level = float(part.intercepts(np.zeros((1, part.d)))[0])
        total = None if totals is None else totals[i].row
        out.append(LevelTask(part, shared[key], root * (level - prior.level), prior, total))
    return out


def _apart(rows: Any, at: Floats) -> Floats:
    """(d,): how far a task's means are from a point; 0 for a column that does not vary where rounding is all there is."""
    apart = rows.mean - at
    rounding = np.abs(apart) <= SAME_MEAN * np.abs(at)
    return np.asarray(np.where(rounding & (rows.squares == 0.0), 0.0, apart))


class LevelRows:
    """The feature side of a task with further samples, all at one point (a `FeatureRows`); its n does not count them.

    Parameters
    ----------
    rows : those of the task, centred
    at : (d,) the point
    weights : (count,) the weights of the samples there
    """

    def __init__(self, rows: FeatureRows, at: Floats, weights: Floats):
        self.base, self.count = rows, len(weights)
        self.d, self.n, self.centre = rows.d, rows.n, rows.centre
        self.order = min(rows.order + 1, rows.d)
        k = float(weights.sum())
        self.extra = k
        self.u = np.append(rows.u, np.sqrt(weights))
        # about the mean of all, so that the intercept moves with coefficients as little as it can
        share = k / (rows.n + k)
        apart = _apart(rows, at)
        self.shift = share * apart
        self.mean = rows.mean - self.shift
        self.of_point = np.where(apart == 0.0, 0.0, at - self.mean)
        self.squares = rows.squares + rows.n * self.shift**2 + k * self.of_point**2
        self.whole: Floats | None = None

    def columns(self, features: Ints) -> Floats:
        own, more = len(self.base.u), self.u[len(self.base.u) :]
        part = self.base.columns(features) + np.outer(self.u[:own], self.shift[features])
        return np.vstack([part, np.outer(more, self.of_point[features])])

    def apply(self, w: Floats) -> Floats:
        return np.asarray(self.apply_all(w[None])[0])

    def apply_all(self, W: Floats) -> Floats:
        """Xw for the rows of W, one row each"""
        own = len(self.base.u)
        part = self.base.apply_all(W) + np.outer(W @ self.shift, self.u[:own])
        return np.hstack([part, np.outer(W @ self.of_point, self.u[own:])])

    def correlate(self, v: Floats) -> Floats:
        """X'v for vectors v over rows, (rows,) or (rows, count)"""
        own = len(self.base.u)
        out = self.base.correlate(v[:own]) + np.multiply.outer(self.shift, self.u[:own] @ v[:own])
        return np.asarray(out + np.multiply.outer(self.of_point, self.u[own:] @ v[own:]))

    def gram(self, room: Floats | None = None, n_jobs: int | None = None) -> Floats:
        if self.whole is None:
            out = self.gram_rows(np.arange(self.d), room)
            self.whole = out
        return self.whole

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        G = self.correlate(self.columns(features)).T
        if out is None:
            return np.ascontiguousarray(G)
        out[:] = G
        return out

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        return np.asarray(self.columns(some).T @ self.columns(others))
