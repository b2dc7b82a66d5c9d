"""Whether coefficients that tasks have in common leave no minimiser where nothing penalises them: a common value that
separates the classes of all tasks, or holds all of their counts at 0, goes on for ever.

For a task alone that is `escaping` (`loss_certificates.py`). Here directions are of all tasks together: coefficients
are sums of blocks of a point, of which a task has some. Nothing here is shared with the solvers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import LinearConstraint

from ..._data.designs import Floats, Ints
from ..escapes import Leeway, at_present, way_out
from .certificates import CERTAIN, RowCertificate
from .dual_points import Doubt, over_unit
from .pressed import Pressed, unpressed
from .task_duals import of_losses

MANY = 2**24  # numbers in the columns of all tasks that are looked at
NOTHING = 1e-9  # of the largest entry of a direction: what counts as none


def escaping_together(designs: Sequence[Any], W: Floats, open_: np.ndarray, belongs: np.ndarray) -> dict[int, Ints]:
    """By task that has no minimiser: the features of a direction in which its loss always falls.

    Coefficients W (m, d) are sums of the blocks that belong to a task, belongs (m, blocks) bool, of which nothing penalises
    the entries open_ (blocks, d) bool."""
    bare = [unpressed(design) for design in designs]
    if not open_.any() or not of_losses(designs):
        return {}
    now = [at_present(design, w) for design, w in zip(bare, W, strict=True)]
    live = np.array([design.squares > 0.0 for design in bare])
    entries = open_ & (belongs.T.astype(np.intp) @ live.astype(np.intp) > 0)
    block, feature = np.nonzero(entries)
    moves = _Moves(block, feature, belongs, _levels(bare))
    if not moves.block.size or not any(suspect for *_, suspect in now):
        return {}
    if sum(len(f) for f, *_ in now) * moves.count > MANY:
        return {}
    columns = [moves.columns(i, design) for i, design in enumerate(bare)]
    size = np.max([np.abs(C).max(axis=0) for C in columns], axis=0)
    size[size == 0.0] = 1.0
    parts = [Leeway(design, C / size, f, bend) for design, C, (f, bend, _) in zip(bare, columns, now, strict=True)]
    bound = [moves.bounded(i, design, size) for i, design in enumerate(designs) if isinstance(design, Pressed)]
    far = np.full(moves.count, np.inf)
    z = way_out(parts, -far, far, [rule for rule in bound if rule is not None])
    if z is None:
        return {}
    moved = {i: moves.of_task(i, z / size) for i, part in enumerate(parts) if np.abs(part.C @ z).max() > NOTHING}
    return {i: features for i, features in moved.items() if features.size}


def with_escapes(proof: RowCertificate, away: dict[int, Ints], value: float, unit: float) -> RowCertificate:
    """What is left of a certificate where there is no minimiser, away being what `escaping_together` has found: better
    points lie beyond all that was looked at, so that it is only certain that no objective is below 0. Its value is
    given, and the loss at W = 0."""
    if not away:
        return proof
    gap, first = max(over_unit(value, unit), 0.0), min(away)
    dependent = tuple(away.get(i, features) for i, features in enumerate(proof.dependent))
    doubt = None if gap <= CERTAIN else Doubt("endless", away[first], task=first)
    return replace(proof, gap=gap, unique=False, dependent=dependent, doubt=doubt, escapes=tuple(sorted(away)))


def sizes_of(designs: Sequence[Any], P: Floats, penalty: Any) -> tuple[float, float]:
    """The objective at a point P (height, d) of a penalty, and the loss at W = 0."""
    tasks = zip(penalty.kappa, designs, penalty.coefs(P), strict=True)
    losses = sum(0.5 * k * design.loss(w) for k, design, w in tasks)
    null = sum(k * unpressed(design).null for k, design in zip(penalty.kappa, designs, strict=True))
    return float(losses + penalty.value(P)), float(null)


@dataclass(frozen=True)
class _Moves:
    """Directions: entries (block, feature) of a point, and after them the levels of tasks, levels (m,), -1 being none."""

    block: Ints
    feature: Ints
    belongs: np.ndarray
    levels: Ints

    @property
    def count(self) -> int:
        return len(self.block) + int(self.levels.max(initial=-1)) + 1

    def columns(self, i: int, design: Any) -> Floats:
        """(rows, count): what they do to the linear predictors of a task."""
        out = np.zeros((len(design.y), self.count))
        mine = np.flatnonzero(self.belongs[i, self.block])
        out[:, mine] = design.block(self.feature[mine])
        if self.levels[i] >= 0:
            out[:, len(self.block) + self.levels[i]] = 1.0
        return out

    def of_task(self, i: int, z: Floats) -> Ints:
        """The features whose coefficients a direction moves."""
        mine = np.flatnonzero(self.belongs[i, self.block])
        moved = np.bincount(self.feature[mine], z[mine], minlength=1)
        out: Ints = np.flatnonzero(np.abs(moved) > NOTHING * np.abs(z).max())
        return out

    def bounded(self, i: int, design: Pressed, size: Floats) -> LinearConstraint | None:
        """A coefficient goes no way in which it has a bound."""
        low, high = (np.broadcast_to(side, design.squares.shape) for side in (design.box.low, design.box.high))
        features = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
        mine = np.flatnonzero(self.belongs[i, self.block] & np.isin(self.feature, features))
        if not mine.size:
            return None
        sums = np.zeros((len(features), self.count))
        sums[np.searchsorted(features, self.feature[mine]), mine] = 1.0 / size[mine]
        ends = np.where(np.isfinite(low), 0.0, -np.inf)[features], np.where(np.isfinite(high), 0.0, np.inf)[features]
        return LinearConstraint(sums, *ends)


def _levels(designs: Sequence[Any]) -> Ints:
    """(m,): which level that nothing draws anywhere a task has; tasks that are held at one level have it in common."""
    own = np.array([design.centred for design in designs])
    held = np.array([np.isinf(getattr(design.prior, "ridge", 0.0)) for design in designs]) & ~own
    levels = np.where(own, np.cumsum(own) - 1, -1)
    return np.asarray(np.where(held, np.count_nonzero(own), levels))
