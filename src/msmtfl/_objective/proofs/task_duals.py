"""One task of a model that couples tasks, as its certificate sees it: a gradient, a dual point, and how far these are apart.

`SquaredDual` is that of squared loss (`dual_points.py`), `LossDual` that of any other (`loss_certificates.py`, where dual
points are explained). All is in the task's own sums. Nothing here is shared with the solvers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..._data.designs import Design, Floats, Ints, rounding
from ..._data.forms.dense import DenseRows
from ..box import can_fall
from ..escapes import escaping
from ..loss_task import LossTask
from .certificates import ROOMS
from .dual_points import dual_points, look
from .loss_certificates import TRIED, projected
from .pressed import Pressed, PressedDual, unpressed


class TaskDual(Protocol):
    """A task at coefficients w."""

    unit: float  # half the loss at w = 0
    gradient: Floats  # (d,): minus that of half the loss
    noise: Floats  # (d,): what rounding leaves open of it
    dual: Floats  # (d,): products of the columns with the dual point
    away: float  # how far at most the dual point is from one that meets its equations
    blur: float  # what rounding leaves open of linear predictors
    spread: float  # what a unit of `away` and `blur` is in dual points and linear predictors

    def hold(self, held: np.ndarray) -> None:
        """Make a dual point that is orthogonal to the columns held, (d,) bool."""

    def apart(self, scale: float, away: float, blur: float) -> float:
        """What the loss adds to the gap, the dual point being scaled; inf where that is no dual point."""

    def primal(self, blur: float) -> float:
        """Half the loss."""

    def independent_columns(self, features: Ints) -> Floats | None:
        """(rows, features): columns on the rows that tell coefficients apart; None if only sums are at hand."""


class SquaredDual:
    """A task under squared loss."""

    spread = 1.0

    def __init__(self, design: Design, w: Floats):
        self.design, self.seen = design, look(design, w[None])
        self.unit, self.blur = 0.5 * design.yy, float(self.seen.blur[0])
        self.gradient, self.noise = self.seen.gradients[0], self.seen.noise[0]
        self.dual, self.away = self.gradient, 0.0

    def hold(self, held: np.ndarray) -> None:
        self.point = dual_points(self.design, self.seen, held[None], {})
        self.dual, self.away = self.point.gradients[0], float(self.point.away[0])

    def apart(self, scale: float, away: float, blur: float) -> float:
        squares = self.point.squares[0] + self.seen.unknown[0] ** 2
        moved = self.point.moved[0] + (1.0 - scale) ** 2 * squares
        return float(0.5 * (np.sqrt(moved) + scale * away + blur) ** 2)

    def primal(self, blur: float) -> float:
        return float(0.5 * (np.sqrt(self.seen.losses[0]) + blur) ** 2)

    def independent_columns(self, features: Ints) -> Floats | None:
        return self.design.columns(features)


class LossDual:
    """A task under another loss; slopes up to `escaped` of the largest count as 0 in its dual point."""

    def __init__(self, design: LossTask, w: Floats, escaped: float = 0.0):
        self.design, self.w = design, w
        loss, y, v = design.of_loss, design.y, design.v
        self.f = design.predictor(w)
        slope, self.bend = loss.slope(y, self.f), loss.curvature(y, self.f)
        gone = np.abs(slope) <= escaped * np.abs(slope).max(initial=0.0)
        self.s, self.held_bend = -np.where(gone, 0.0, slope), np.where(gone, 0.0, self.bend)
        root, unit = np.sqrt(design.squares), rounding(design)
        self.unit, self.gradient = design.null, design.correlate(-slope)
        self.noise = unit * root * float(np.sqrt(v @ self.s**2))
        self.blur = unit * (float(root @ np.abs(w)) + float(np.sqrt(v @ self.f**2)))
        self.spread = float(np.sqrt(self.held_bend.max(initial=0.0)))
        # the intercept fits all there is, but for rounding
        self.constant = bool(design.base.centre and not w.any() and np.ptp(y) == 0.0 and np.ptp(design.offset) == 0.0)
        if self.constant:
            self.unit, self.s, self.gradient = 0.0, np.zeros_like(self.s), np.zeros_like(self.gradient)
            self.noise = np.zeros_like(self.noise)
        self.dual, self.away = self.gradient, 0.0

    @property
    def lost(self) -> bool:
        """Whether linear predictors have left the range of floats."""
        return not (np.isfinite(self.f).all() and np.isfinite(self.s).all())

    def hold(self, held: np.ndarray) -> None:
        self.s, self.away = projected(self.design, self.s, self.f, self.held_bend, np.flatnonzero(held), self.noise)
        self.dual = self.design.correlate(self.s)

    def apart(self, scale: float, away: float, blur: float) -> float:
        design = self.design
        if self.constant:
            return 0.0
        excess = float(design.v @ design.of_loss.excess(design.y, self.f, -scale * self.s))
        return float(0.5 * (np.sqrt(2.0 * excess) + scale * away + self.spread * blur) ** 2)

    def primal(self, blur: float) -> float:
        design = self.design
        if self.constant:
            return 0.0
        half = float(design.v @ design.of_loss.value(design.y, self.f)) * (1.0 + 4.0 * rounding(design))
        return float(half + blur * self.spread * np.sqrt(2.0 * half))

    def independent_columns(self, features: Ints) -> Floats:
        """Rows without curvature tell nothing apart."""
        design, curved = self.design, self.bend > 0.0
        if curved.all():
            return design.columns(features)
        if not curved.any():
            return np.zeros((1, len(features)))
        return DenseRows(design.block(features)[curved], design.v[curved], design.base.centre).columns(
            np.arange(len(features))
        )


def duals(designs: Sequence[Any], W: Floats, escaped: float = 0.0) -> list[Any]:
    """One `TaskDual` per task at W (m, d)."""
    return [_dual(design, w, escaped) for design, w in zip(designs, W, strict=True)]


def _dual(design: Any, w: Floats, escaped: float) -> Any:
    if isinstance(design, Pressed):
        return PressedDual(_dual(design.base, w, escaped), design, w)
    return LossDual(design, w, escaped) if isinstance(design, LossTask) else SquaredDual(design, w)


def of_losses(designs: Sequence[Any]) -> bool:
    """Whether tasks (without ridges) have a loss that is not squared."""
    return isinstance(unpressed(designs[0]), LossTask)


def rooms(designs: Sequence[Any]) -> list[tuple[float, float]]:
    """Pairs of room and share of slopes for which dual points are tried."""
    return list(TRIED) if of_losses(designs) else [(room, 0.0) for room in ROOMS]


def escaping_tasks(designs: Sequence[Any], W: Floats, free: np.ndarray) -> dict[int, Ints]:
    """By task that has no minimiser: the features, free (m, d) bool, of a direction in which its loss always falls."""
    if not of_losses(designs):
        return {}
    found = {}
    for i, (design, w) in enumerate(zip(designs, W, strict=True)):
        limit = design.box if isinstance(design, Pressed) else False
        some = free[i] & (design.squares > 0.0) & can_fall(limit, w)
        found[i] = escaping(unpressed(design), w, some, limit)
    return {i: features for i, features in found.items() if features.size}
