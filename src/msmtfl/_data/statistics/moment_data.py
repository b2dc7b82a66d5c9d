"""Statistics where rows would be: what a fit and cross-validation take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Protocol

import numpy as np

from ..designs import CONSTANT_SHARE, Floats, Ints, StoredCoefs
from ..tables import TaskColumn, names_of, warn_user
from ..task_data import Target
from .moments import Moments
from .task_moments import MomentTask, TaskMoments


class Solved(Protocol):
    """Solutions at the points of a grid: `places_in_use` are the places among those `of_task` that points have, and each
    point's (K, L) among these."""

    def places_in_use(self) -> tuple[Ints, Ints]: ...

    def of_task(self, i: int, /) -> StoredCoefs: ...

    def intercepts_of(self, i: int, /) -> Floats: ...


@dataclass(frozen=True)
class MomentSplit:
    """A fold of statistics: train on the others, measure on this one."""

    train: int

    def measure(self, data: MomentData, surface: Solved, scorer: object) -> tuple[Floats, Floats, None]:
        """Mean squared errors (m, K, L) on the fold, and its weights (m,); without rows a scorer is of no use."""
        places, back = surface.places_in_use()
        mse, weight = np.full((data.m, len(places) + 1), np.nan), np.zeros(data.m)  # the last for points not solved
        for i, label in enumerate(data.labels.tolist()):
            if label in data.folds[self.train]:
                held = data.folds[self.train][label]
                W = surface.of_task(i)
                error = held.squared_error(W.dense(places), surface.intercepts_of(i)[places])
                weight[i], mse[i, :-1] = held.n, error / held.n
        return mse[:, back], weight, None


class MomentData:
    """Statistics where rows would be: what a `Problem` asks of its data."""

    task_position: int | tuple[int, ...] | None = None

    def __init__(self, folds: Sequence[Moments], task_column: TaskColumn):
        if not folds:
            raise ValueError("no Moments were given.")
        strange = [type(fold).__name__ for fold in folds if not isinstance(fold, Moments)]
        if strange:
            raise TypeError(f"expected Moments, or a list of them, one per fold; got {strange[0]}.")
        total = folds[0].copy()
        for other in folds[1:]:
            total += other
        if total.features is None or len(total) == 0:
            raise ValueError("these Moments hold no rows: update them first.")
        self.named = total.named
        self.total, self.folds = total, [total.matching(fold) for fold in folds]
        self.features, self.form, self.labels = total.features, total.form, total.sorted_tasks()
        self.m, self.d = len(total), total.d
        if task_column is not None:  # a table to predict is like the first batch
            several = len(task_column) if isinstance(task_column, (list, tuple)) else 0
            last: Any = tuple(range(self.d, self.d + several)) if several else self.d
            place = last if total.task_place is None else total.task_place
            self.task_position = int(task_column) % (self.d + 1) if isinstance(task_column, Integral) else place
        idle = [label for label in total.seen if label not in total]
        if idle:  # of batches more may come: it is no error, as it is of a fit to rows
            warn_user(f"task(s) {names_of(idle)} have no row that counts (weights 0, or y missing) and are left out.")
        if not np.isfinite([part.yy + part.xx.diagonal().sum() for part in self.tasks]).all():
            raise ValueError("these Moments are not finite: the sums of squares overflow. Rescale the data.")

    @property
    def tasks(self) -> list[TaskMoments]:
        return [self.total[label] for label in self.labels.tolist()]

    @property
    def targets(self) -> list[Target]:
        return [
            Target(part.rows, part.y_mean, _variance(part), part.yy / part.n + part.y_mean**2) for part in self.tasks
        ]

    def designs(self, centre: bool, n_jobs: int | None = None) -> list[MomentTask]:
        return [MomentTask(part, centre) for part in self.tasks]

    def splits(self) -> list[MomentSplit]:
        if len(self.folds) < 2:
            raise ValueError(
                "cross-validation needs the statistics of at least 2 folds: Moments.from_batches(..., folds=5), or a list."
            )
        for f in range(len(self.folds)):
            lost = [label for label in self.labels.tolist() if label not in self.without(f)]
            if lost:
                raise ValueError(
                    f"task(s) {names_of(lost)} have all their rows in fold {f}: nothing is left to train on. Use fewer "
                    "folds, or leave them out."
                )
            if not len(self.folds[f]):
                raise ValueError(
                    f"fold {f} holds no rows. Use fewer folds, or deal rows out by groups that are smaller."
                )
        return [MomentSplit(f) for f in range(len(self.folds))]

    def without(self, f: int) -> Moments:
        """The sum of the other folds: nothing is subtracted."""
        others = [fold for k, fold in enumerate(self.folds) if k != f]
        out = others[0].copy()
        for other in others[1:]:
            out += other
        return out

    def training(self, designs: Sequence[MomentTask], keep: int) -> list[MomentTask]:
        rest = self.without(keep)
        return [MomentTask(rest[label], designs[0].centre) for label in self.labels.tolist()]

    def gather(self, designs: object, keeps: object, n_jobs: int | None = None) -> None:
        """Nothing to prepare: the Gram matrices are here."""

    def release(self, designs: object) -> None:
        """Nothing to forget."""


def _variance(part: TaskMoments) -> float:
    return part.yy / part.n if part.yy > CONSTANT_SHARE**2 * part.n * part.y_mean**2 else 0.0
