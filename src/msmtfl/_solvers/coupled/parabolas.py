"""The samples of all tasks, one task after the other, on some of the features: what Newton steps look at.

Losses, slopes and curvatures are taken of all samples together where the loss is the same for all tasks, and the parabolas
that touch the losses are made together as well: with tens of tasks of a hundred samples, most of the time of a step would
else go into calls for single tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from ..._data.designs import CONSTANT_SHARE, Floats, Ints
from ..._data.forms.dense import DenseRows, RowTask
from ..._objective.loss_task import LossTask
from ..._objective.losses import Loss

LOST = 1e-6  # share of a column's squares left by centring, below which the difference is not trusted
FLAT = 1e-12  # curvature, as a share of the largest, below which it is not taken at its word
LARGEST = 1e150  # curvature


class Parabola(RowTask):
    """The parabola that touches a task's loss, as a task under squared loss. Its n is that of the task, so that losses count
    as they do there, and its |y|^2 twice the loss at w = 0, which accuracies are relative to: where the loss is all but
    linear, targets are far away."""

    def __init__(self, rows: DenseRows, y: Floats, n: float, unit: float):
        super().__init__(rows, y)
        self.n, self.yy = n, unit


class _MadeRows(DenseRows):
    """Rows (rows, d) that are weighted already, with their Gram matrix about the mean; `left` (d,) is what is still to be
    subtracted from the columns."""

    def __init__(self, X: Floats, left: Floats, u: Floats, centre: bool, n: float, mean: Floats, G: Floats):
        self.X, self.u, self.centre, self.n, self.mean, self.whole = X, u, centre, n, mean, G
        self.d, self.order = X.shape[1], min(len(X) - centre, X.shape[1])
        self.offset, self.dead = left, np.empty(0, dtype=np.intp)
        self.squares = G.diagonal().copy()
        self.lock = Lock()


class _MadeParabola(Parabola):
    """A parabola of which all is known."""

    def __init__(self, rows: _MadeRows, target: Floats, y_mean: float, c: Floats, n: float, unit: float):
        self.rows, self.d, self.order, self.squares = rows, rows.d, rows.order, rows.squares
        self.target, self.y_mean, self.c, self.n, self.yy = target, y_mean, c, n, unit


def made_grams(tasks: Sequence[Any]) -> Floats | None:
    """(tasks, d, d): the Gram matrices of parabolas, if all are made."""
    if not all(isinstance(task, _MadeParabola) for task in tasks):
        return None
    return np.array([task.rows.whole for task in tasks])


@dataclass(frozen=True)
class Made:
    """Of parabolas that were made together: the weighted means of columns (m, k) and of targets (m,)."""

    means: Floats
    targets: Floats


class Samples:
    """The samples of some tasks.

    Attributes
    ----------
    X : (N, k) the features, centred, without the weights of samples
    y, v, beside : (N,) targets, weights, and what is in linear predictors beside features and an intercept
    weight : (N,) v times the task's weight in the objective
    parts : where the tasks are
    loss : that of all tasks; None if each has its own
    """

    def __init__(self, designs: Sequence[LossTask], features: Ints, kappa: Floats):
        self.designs = designs
        sizes = np.array([len(design.y) for design in designs])
        ends = np.cumsum(sizes)
        self.starts, self.task = ends - sizes, np.repeat(np.arange(len(designs)), sizes)
        self.parts = [slice(low, high) for low, high in zip(self.starts.tolist(), ends.tolist(), strict=True)]
        self.X = np.concatenate([design.block(features) for design in designs])
        self.y, self.v = (np.concatenate([getattr(design, name) for design in designs]) for name in ("y", "v"))
        self.beside = np.concatenate([design.beside for design in designs])
        self.weight = kappa[self.task] * self.v
        # what depends on the samples of a task is another object for each of them
        own = {id(design.of_loss) for design in designs}
        alike = len(designs) > 1 and len(own) == 1 and designs[0].of_loss.levelled
        self.loss: Loss | None = designs[0].of_loss if alike else None
        self.centred = np.array([design.centred for design in designs])
        self.together = alike and (self.centred.all() or not self.centred.any())
        self.made: Made | None = None

    def _each(self, what: str, f: Floats) -> Floats:
        """(N,): a member of the loss, at linear predictors f."""
        if self.loss is not None:
            return np.asarray(getattr(self.loss, what)(self.y, f))
        parts = zip(self.designs, self.parts, strict=True)
        return np.concatenate([getattr(design.of_loss, what)(design.y, f[part]) for design, part in parts])

    def value(self, f: Floats) -> float:
        """The loss."""
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite value is never a step down
            return float(self.weight @ self._each("value", f))

    def slope(self, f: Floats) -> Floats:
        return self._each("slope", f)

    def majorant(self, f: Floats) -> Floats:
        return self._each("majorant", f)

    def bend(self, f: Floats, caution: float) -> Floats:
        """(N,): curvatures, and some of the majorant where there is one."""
        bend = np.minimum(np.maximum(self._each("curvature", f), caution * self.majorant(f)), LARGEST)
        top = np.maximum.reduceat(bend, self.starts)[self.task]
        return np.where(top > 0.0, np.maximum(bend, FLAT * top), 1.0)

    def predictors(self, W: Floats, levels: Floats) -> Floats:
        """(N,): linear predictors, given coefficients (m, k) and the levels of all tasks."""
        out = self.beside + levels[self.task]
        for part, w in zip(self.parts, W, strict=True):
            out[part] += self.X[part] @ w
        return out

    def levels(self, tasks: Sequence[Parabola], W: Floats) -> Floats:
        """(m,): the intercepts that suit coefficients (m, k) best under the parabolas made last; 0 where there is none."""
        if self.together and self.made is not None:
            return np.asarray(self.centred * (self.made.targets - np.einsum("ij,ij->i", self.made.means, W)))
        own = np.zeros(len(tasks))
        for i in np.flatnonzero(self.centred).tolist():
            own[i] = float(tasks[i].intercepts(W[i][None])[0])
        return own

    def parabolas(self, f: Floats, slope: Floats, bend: Floats) -> list[Parabola]:
        """Those that touch the losses at f."""
        if self.together:
            return self._parabolas_together(f, slope, bend)
        out = []
        for design, part in zip(self.designs, self.parts, strict=True):
            rows, y = design.parabola(self.X[part], f[part], slope[part], bend[part])
            out.append(Parabola(rows, y, design.n, 2.0 * design.null))
        return out

    def _parabolas_together(self, f: Floats, slope: Floats, bend: Floats) -> list[Parabola]:
        weight, y = self.v * bend, f - self.beside - slope / bend
        n, u = np.add.reduceat(weight, self.starts), np.sqrt(weight)
        (m, k), centre = (len(self.parts), self.X.shape[1]), bool(self.centred[0])
        levels = np.add.reduceat(weight * y, self.starts) / n if centre else np.zeros(m)
        Z = np.empty((len(f), k + 2))  # features, ones and targets: their products are all that there is to a parabola
        np.multiply(self.X, u[:, None], out=Z[:, :k])
        target = u * (y - levels[self.task])
        Z[:, k], Z[:, k + 1] = u, target
        P = np.array([Z[part].T @ Z[part] for part in self.parts])
        G, C = P[:, :k, :k].copy(), P[:, :k, k + 1].copy()
        left = means = P[:, :k, k] / n[:, None] if centre else np.zeros((m, k))
        if centre:
            before = np.einsum("ijj->ij", G).copy()
            G -= P[:, :k, k, None] * means[:, None]
            C -= P[:, k, k + 1, None] * means
            if not (np.einsum("ijj->ij", G) > LOST * before).all():
                G, C, means = self._with_care(Z, weight, n)
                left = np.zeros_like(means)
        self.made = Made(means, levels)
        return [
            _MadeParabola(
                _MadeRows(Z[part, :k], left[i], u[part], centre, float(n[i]), means[i], G[i]),
                *(target[part], float(levels[i]), C[i], design.n, 2.0 * design.null),
            )
            for i, (design, part) in enumerate(zip(self.designs, self.parts, strict=True))
        ]

    def _with_care(self, Z: Floats, weight: Floats, n: Floats) -> tuple[Floats, Floats, Floats]:
        """Gram matrices, X'y and means where centring leaves columns few digits or none; constant ones become 0 in Z."""
        k = self.X.shape[1]
        means = np.add.reduceat(weight[:, None] * self.X, self.starts) / n[:, None]
        X, target = Z[:, k, None] * (self.X - means[self.task]), Z[:, k + 1]
        G = np.array([X[part].T @ X[part] for part in self.parts])
        constant = np.einsum("ijj->ij", G) <= CONSTANT_SHARE**2 * n[:, None] * means**2
        for i in np.flatnonzero(constant.any(axis=1)).tolist():
            X[self.parts[i], constant[i]] = 0.0
            G[i][constant[i]] = 0.0
            G[i][:, constant[i]] = 0.0
        Z[:, :k] = X
        return G, np.add.reduceat(target[:, None] * X, self.starts), means
