"""A task under a loss: its value, gradient and intercept at linear predictors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._data.designs import Coefs, FeatureRows, Floats, Ints
from .._data.forms.dense import DenseRows
from .._data.forms.level_rows import LevelPrior, LevelRows
from .losses import Huber, Loss, best_level, pseudo_samples

AT_ONCE = 2**16  # numbers of X that are looked at together


def _key(w: Floats) -> int:
    return hash((w + 0.0).tobytes())  # -0.0 is 0.0


class LossTask:
    """One task's rows under a loss, seen as a `Design`: what depends on the intercept is taken at the best one.

    `rows` are the task's features, centred and weighted (`DenseRows` and its like). Sums are over rows:

        loss(w)      2 min_b sum_r v_r h(y_r, x_r'w + b)
        gradient(w)  -X'(v h'), the downhill direction of half of it
        c, yy, null  gradient, sum of v h'^2 and half the loss at w = 0

    Only rows know such a loss, not statistics: there is no Gram matrix and no `target`. `curvature` is the mean one
    at w = 0, unless it is given. `offset` (rows,), less its mean if there is an intercept, is added to every linear
    predictor: x_r'w + b stands for o_r + x_r'w + b. `centred` says whether there is an intercept of the task's own; columns
    may be centred without one, where the loss does not tell levels apart. A `prior` that the task's level is drawn to is
    one more sample, or two: see `LevelRows`.
    """

    target = None

    def __init__(
        self,
        rows: FeatureRows,
        y: Floats,
        loss: Loss,
        curvature: float | None = None,
        offset: Floats | None = None,
        prior: LevelPrior | None = None,
    ):
        self.prior = prior
        # the mean of an offset is a matter of the intercept: far from 0 it would cost all linear predictors digits
        self.middle = 0.0 if offset is None or not rows.centre else float(np.average(offset, weights=rows.u**2))
        offset = np.zeros(len(y)) if offset is None else offset
        if prior is not None:
            targets, shares = pseudo_samples(loss, prior.level + prior.offset)
            rows, y = LevelRows(rows, prior.at, prior.ridge * shares), np.append(y, targets)
            offset = np.append(offset, np.full(len(targets), prior.offset))
        self.offset = offset - self.middle
        self.base = self.same_x = rows
        self.held = 0.0  # the level of a task that has no intercept of its own
        self.d, self.n, self.order, self.squares = rows.d, rows.n, rows.order, rows.squares
        self.y, self.v, self.columns = y, rows.u**2, rows.columns
        self.of_loss: Loss = loss.of_task(y, self.v)
        self.centred = rows.centre and loss.levelled
        self._begin(curvature)

    @np.errstate(over="ignore", invalid="ignore")  # at a level beyond the range of floats: no step down
    def _begin(self, curvature: float | None) -> None:
        rows, y, loss, prior = self.base, self.y, self.of_loss, self.prior
        self._levels: dict[int, float] = {}
        self._last: dict[str, Any] = {}  # what is known at the w asked for last
        start = np.zeros(self.d)
        f = self.predictor(start)
        slope = loss.slope(y, f)
        self.null = float(self.v @ loss.value(y, f))
        self.yy = float(self.v @ slope**2)
        self.c = rows.correlate(-rows.u * slope)
        total = self.n if prior is None or np.isinf(prior.ridge) else self.n + prior.ridge
        self.curvature = float(self.v @ loss.curvature(y, f) / total) if curvature is None else curvature

    def move(self, level: float) -> None:
        """Hold the level of a task that is not centred at another value; see `LevelTask.move`."""
        self.held, self.prior = level, LevelPrior(np.zeros(self.d), level, np.inf)
        self._begin(None if not isinstance(self.of_loss, Huber) else self.curvature)

    def level_slope(self, w: Floats) -> float:
        """Half the derivative of the loss with respect to a level that is held."""
        return float(self.v @ self.of_loss.slope(self.y, self.predictor(w)))

    def drawn(self, prior: LevelPrior) -> LossTask:
        """The same task with its level drawn to a prior's."""
        return LossTask(self.base, self.y, self.of_loss, self.curvature, self.offset + self.middle, prior)

    # ------------------------------------------------------------------ intercepts

    def fitted(self, w: Floats) -> Floats:
        """(rows,): the offset and (x_r - mean)'w"""
        return np.asarray(self.base.apply(w) / self.base.u + self.offset)

    def level(self, w: Floats) -> float:
        """The best intercept for features and an offset that are centred; what is held (0) if the task has no own one."""
        if not self.centred:
            return self.held
        key = _key(w)
        if key not in self._levels:
            self._levels[key] = best_level(self.of_loss, self.y, self.fitted(w), self.v)
        return self._levels[key]

    def note(self, w: Floats, level: float, predictor: Floats | None = None) -> None:
        """A solver has found the intercept and, perhaps, the linear predictors of w."""
        key = _key(w)
        self._levels[key] = level
        if predictor is not None:
            self._last = {"key": key, "predictor": predictor}

    def predictor(self, w: Floats) -> Floats:
        """(rows,): the offset and x_r'w + b"""
        return self._known(w, "predictor", lambda: self.fitted(w) + self.level(w))

    def _known(self, w: Floats, what: str, find: Callable[[], Floats]) -> Floats:
        """Found once for the same w, if it is asked for again next: paths start where they ended."""
        key = _key(w)
        last: dict[str, Any] = self._last if self._last.get("key") == key else {"key": key}
        if what not in last:
            last[what] = find()
        self._last = last
        return np.asarray(last[what])

    def intercepts(self, W: Coefs) -> Floats:
        dense = W if isinstance(W, np.ndarray) else W.dense(np.arange(W.shape[0]))
        if not self.centred:
            return np.full(len(dense), self.held)
        out: Floats = np.array([self.level(w) for w in dense]) - dense @ self.base.mean - self.middle
        return out

    # ------------------------------------------------------------------ the design

    @property
    def mean(self) -> Floats:
        return np.asarray(self.base.mean)

    def loss(self, w: Floats) -> float:
        return 2.0 * float(self.v @ self.of_loss.value(self.y, self.predictor(w)))

    def gradient(self, w: Floats) -> Floats:
        return self._known(w, "gradient", lambda: self.correlate(-self.of_loss.slope(self.y, self.predictor(w))))

    @np.errstate(over="ignore", invalid="ignore")  # of what has left the range of floats
    def correlate(self, s: Floats) -> Floats:
        """X'(v s) for s over rows"""
        return np.asarray(self.base.correlate(self.base.u * s))

    def block(self, features: Ints, ones: bool = False) -> Floats:
        """(rows, len(features)): x_r - mean, without the sample weights; and a column of ones, if asked for"""
        part = np.asarray(self.base.columns(features) / self.base.u[:, None])
        return np.column_stack([part, np.ones(len(part))]) if ones else part

    def by_feature(self) -> Floats:
        """(d, rows): the block of all features, the column of each side by side; made in parts that fit into caches"""
        out, width = np.empty((self.d, len(self.y))), max(1, AT_ONCE // max(len(self.y), 1))
        for low in range(0, self.d, width):
            some = np.arange(low, min(low + width, self.d))
            out[some[0] : some[-1] + 1] = self.block(some).T
        return out

    @property
    def beside(self) -> Floats:
        """(rows,): what is in every linear predictor beside features and an intercept of the task's own."""
        return self.offset if self.centred else self.offset + self.held

    def parabola(self, X: Floats, f: Floats, slope: Floats, bend: Floats) -> tuple[DenseRows, Floats]:
        """Rows and targets whose sum of squares is, but for a constant, twice the parabola that touches the loss at f, as a
        function of the coefficients of columns X (and the intercept, if there is one)."""
        loss, v, fitted = self.of_loss, self.v, f - self.beside
        if loss.levelled:
            # rows whose curvature has underflowed have no weight, and any target does
            step = np.divide(slope, bend, out=np.zeros_like(slope), where=bend > 0.0)
            return DenseRows(X, v * bend, self.centred), fitted - step
        both = loss.root(np.column_stack([X, fitted]), v, f, bend)
        return DenseRows(both[:, :-1], None, False), both[:, -1] - loss.target(v, f, slope, bend)
