"""A task whose coefficients are held by bounds, as its certificate sees it.

Bounds low <= w <= high press a coefficient that is at one of them: upwards with a force u >= 0 at its lower bound, downwards
at its upper one. For every choice of forces

    min over the bounds of F(W)   >=   min over all W of F(W) - sum_ij u_ij (w_ij - bound_ij)

so that a dual point of the problem on the right, which has no bounds, proves how good a W within the bounds is: x_j'p + u_j
takes the place of x_j'p in every condition, and what is left, sum_ij u_ij (w_ij - bound_ij), comes to the gap. (It is 0
where only coefficients that are at their bounds are pressed.) That is so whatever the loss and the penalty are. Forces are
on the scale of a task's own sums. Solvers suggest them; they are believed no more than a W is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..._data.designs import Floats, Ints, with_rows
from ..box import Box


class Pressed:
    """A design (or a task under another loss) with forces (d,) on its coefficients, which are within bounds (d,). Loss and
    targets are those of the design; gradients have the forces in them. A coefficient that is pressed cannot move: to see
    which columns are independent, it is as if there were a sample more for it."""

    def __init__(self, base: Any, force: Floats, box: Box):
        self.base, self.force, self.box = base, force, box
        self.held = force != 0.0
        self.root = np.where(self.held, np.sqrt(base.squares), 0.0)

    def __getattr__(self, name: str) -> Any:
        if name == "base":
            raise AttributeError(name)
        return getattr(self.base, name)

    def as_rows(self) -> Pressed:
        """The same on rows that are made of the task's statistics."""
        return Pressed(with_rows(self.base), self.force, self.box)

    def gradient(self, w: Floats) -> Floats:
        return np.asarray(self.base.gradient(w) + self.force)

    def slack(self, w: Floats, force: Floats) -> float:
        """What forces lose at w: 0 where only coefficients at their bounds are pressed, inf where w is out of bounds."""
        low, high = self.box.low, self.box.high
        if (w < low).any() or (w > high).any() or not np.isfinite(w).all():
            return float("inf")
        with np.errstate(invalid="ignore"):
            room = np.where(force > 0.0, w - low, high - w)
        return float(np.multiply(np.abs(force), room, out=np.zeros_like(w), where=force != 0.0).sum())

    def columns(self, features: Ints) -> Floats | None:
        X = self.base.columns(features)
        return None if X is None else self.with_held(X, features)

    def with_held(self, X: Floats, features: Ints) -> Floats:
        """Columns (rows, features) with a row for each feature, which is 0 where that is not pressed."""
        return np.concatenate([X, np.diag(self.root[features])])

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        G = np.array(self.base.gram_rows(features, out, n_jobs))
        G[np.arange(len(features)), features] += self.root[features] ** 2
        return G

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        return np.asarray(self.base.gram_block(some, others) + (some[:, None] == others) * self.root[others] ** 2)


class PressedDual:
    """What `TaskDual` is of a task without bounds, given that of the task and the forces."""

    def __init__(self, view: Any, design: Pressed, w: Floats):
        self.view, self.design, self.w, self.force = view, design, w, design.force
        self.gradient, self.dual = view.gradient + design.force, view.dual + design.force
        self.slack = design.slack(w, design.force)

    def __getattr__(self, name: str) -> Any:
        if name == "view":
            raise AttributeError(name)
        return getattr(self.view, name)

    def hold(self, held: np.ndarray) -> None:
        """A coefficient that is pressed and has no room needs no orthogonal dual point: the force takes up what there is, as
        long as that keeps its sign."""
        force = np.array(self.force)
        of_force = held & (force != 0.0)
        self.view.hold(held & ~of_force)
        needed = -self.view.dual
        of_force &= np.sign(needed) == np.sign(force)
        force[of_force] = needed[of_force]
        self.dual = self.view.dual + force
        self.dual[of_force] = 0.0
        self.slack = self.design.slack(self.w, force)

    def apart(self, scale: float, away: float, blur: float) -> float:
        return float(self.view.apart(scale, away, blur)) + scale * self.slack

    def primal(self, blur: float) -> float:
        return float(self.view.primal(blur)) + (np.inf if np.isinf(self.slack) else 0.0)

    def independent_columns(self, features: Ints) -> Floats | None:
        X = self.view.independent_columns(features)
        return None if X is None else self.design.with_held(X, features)


def unpressed(design: Any) -> Any:
    """A design without its forces, if there are any."""
    return design.base if isinstance(design, Pressed) else design


def pressed(problem: Any, forces: Floats | None) -> Any:
    """A problem whose coefficients are bounded with the forces (m, d) of its bounds (None: 0); others as they are."""
    box: Box | None = problem.box
    if box is None:
        return problem
    forces = np.zeros((problem.m, problem.d)) if forces is None else forces
    designs = [Pressed(one, u, box.task(i)) for i, (one, u) in enumerate(zip(problem.designs, forces, strict=True))]
    known = {"known_units": problem.units, "known_common": problem.common_factors}
    return replace(problem, designs=designs, **known)


def slack_of(tasks: Sequence[Any], scale: Floats) -> float:
    """What forces lose of objectives in which losses count `scale` (m,)."""
    return float(sum(s * getattr(task, "slack", 0.0) for s, task in zip(scale, tasks, strict=True)))
