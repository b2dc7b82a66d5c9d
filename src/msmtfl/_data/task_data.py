"""The data of all tasks, however they were given: rows, targets, weights and offsets of each, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._runtime.threads import each
from .categories import Encoding
from .designs import FeatureRows, Floats, Ints
from .event_times import times_of
from .forms.dense import WORTH_SHARING, DenseRows, RowTask, TrainingRows
from .forms.float32 import NarrowRows
from .forms.sparse import SparseRows
from .tables import Matrix, check_finite

LARGEST, SMALLEST = 1e290, 1e-290  # range in which sums of squares keep all their digits
NO_WEIGHT = "all sample weights of task {!r} are zero. Leave the task out, or give a row a positive weight."


@dataclass(frozen=True, slots=True)
class Task:
    """One task's rows. Tasks measured on the same rows share the same X (and weight) object.

    rows says where they stand in the data given: an array of indices. offset is what the linear predictor of each row has
    beside features and intercept, None for 0.
    """

    label: Hashable
    X: Floats
    y: Floats
    weight: Floats | None
    rows: Ints
    offset: Floats | None = None

    @property
    def unexplained(self) -> Floats:
        """y less the offset: what is left to features and intercept where the linear predictor itself is predicted."""
        return self.y if self.offset is None else self.y - self.offset


@dataclass(frozen=True, slots=True)
class Target:
    """What a task's y is like: rows, and the weighted mean, variance and mean square (0 variance: it is constant)."""

    rows: int
    mean: float
    variance: float
    square: float

    @staticmethod
    def of(y: Floats, weight: Floats | None) -> Target:
        mean = float(np.average(y, weights=weight))
        with np.errstate(over="ignore"):  # targets that are too large are refused later, by name
            variance = 0.0 if np.ptp(y) == 0.0 else float(np.average((y - mean) ** 2, weights=weight))
        with np.errstate(over="ignore"):  # of a single target that is huge: infinite
            square = float(np.average(y**2, weights=weight))
        return Target(len(y), mean, variance, square)


@dataclass(frozen=True)
class TaskData:
    """Training data of all tasks, in the order of `labels`.

    form is "single" (1-D y, no labels), "long" (a label per row) or "wide" (shared X, 2-D Y).
    """

    tasks: tuple[Task, ...]
    labels: np.ndarray
    features: np.ndarray
    form: str
    X: Floats  # all rows, as given: what an error message looks a value up in
    task_position: int | tuple[int, ...] | None = None  # of the task column, or of those of its levels
    encoding: Encoding | None = None  # of categorical columns, if there are any
    classes: int = 1  # tasks stand together in as many, one per class, on the same rows
    of_classes: np.ndarray | None = None  # the labels of the tasks themselves, if there are several classes
    survival: bool = False  # whether targets are times, with a minus sign where they are censored
    offset_of_targets: bool = False  # whether an offset is in the units of y: the linear predictor itself is predicted

    @property
    def m(self) -> int:
        return len(self.tasks)

    @property
    def d(self) -> int:
        return len(self.features)

    @property
    def width(self) -> tuple[int, ...]:
        """How many predictions a row has: () is one."""
        if self.form == "wide":
            return (self.m,)
        return (self.classes,) if self.classes > 1 else ()

    @property
    def has_offset(self) -> bool:
        return any(task.offset is not None for task in self.tasks)

    @cached_property
    def targets(self) -> list[Target]:
        if self.survival:  # what can be said of them in numbers is how many are events
            return [Target.of(times_of(task.y)[1].astype(np.float64), task.weight) for task in self.tasks]
        return [Target.of(task.y, task.weight) for task in self.tasks]

    @cached_property
    def to_explain(self) -> list[Target]:
        """The targets that errors are relative to: less the offset, where that can be subtracted from them, so that nothing
        depends on whether it was."""
        if not (self.has_offset and self.offset_of_targets):
            return self.targets
        return [Target.of(task.unexplained, task.weight) for task in self.tasks]

    def rows(self, centre: bool, n_jobs: int | None = None) -> list[FeatureRows]:
        """The feature side of every task; tasks on the same rows share theirs."""
        first = {(id(task.X), id(task.weight)): task for task in self.tasks}
        n_jobs = n_jobs if sum(task.X.size for task in first.values()) > WORTH_SHARING else None
        made = each(lambda task: _rows_of(task.X, task.weight, centre, task.unexplained), list(first.values()), n_jobs)
        shared = dict(zip(first, made, strict=True))
        rows = [shared[id(task.X), id(task.weight)] for task in self.tasks]
        self._check_range(np.array([part.squares for part in rows]))
        return rows

    def designs(
        self, centre: bool, n_jobs: int | None = None, make: Callable[[Any, Task], Any] | None = None
    ) -> list[Any]:
        """One design per task: for squared loss, or what `make` makes of its rows and itself."""
        rows = self.rows(centre, n_jobs)
        known = (
            make is None and len({id(part) for part in rows if getattr(part, "first", None)}) == self.m
        )  # all X'y are
        make = make or (lambda rows, task: RowTask(rows, task.unexplained))
        out = each(lambda i: make(rows[i], self.tasks[i]), range(self.m), None if known else n_jobs)
        for task, design in zip(self.tasks, out, strict=True):
            if not (design.yy == 0 or SMALLEST <= design.yy <= LARGEST):
                raise ValueError(f"y in task {task.label!r} is too {_extreme(design.yy)} Rescale it before fitting.")
        return out

    @property
    def membership(self) -> np.ndarray:
        """(N, m) bool: the tasks that each row counts in."""
        out = np.zeros((self.X.shape[0], self.m), dtype=bool)
        for i, task in enumerate(self.tasks):
            out[task.rows, i] = True
        return out

    def kept(self, keep: np.ndarray, weights: Floats | None = None) -> TaskData:
        """The same tasks with some of their rows, keep (N,) bool, and, if given, other weights (N,) or (N, m)."""
        parts: dict[Any, tuple[Any, Floats | None]] = {}  # tasks on the same rows share them

        def part(i: int, task: Task) -> Task:
            stay = np.flatnonzero(keep[task.rows])
            key = (id(task.X), id(task.weight), stay.tobytes())
            if key not in parts:
                weight = None if task.weight is None else task.weight[stay]
                if weights is not None:
                    weight = (weights if weights.ndim == 1 else weights[:, i // self.classes])[task.rows[stay]]
                parts[key] = (task.X[stay], weight)
            offset = None if task.offset is None else task.offset[stay]
            return Task(task.label, parts[key][0], task.y[stay], parts[key][1], task.rows[stay], offset)

        return replace(self, tasks=tuple(part(i, task) for i, task in enumerate(self.tasks)))

    def weighted(self, weights: Floats) -> TaskData:
        """The same with other weights, (N,) or (N, m); samples of weight 0 are left out."""

        def part(i: int, task: Task) -> Task:
            mine = (weights if weights.ndim == 1 else weights[:, i])[task.rows]
            return make_task(task.label, task.X, task.y, mine, task.rows, task.offset)

        return replace(self, tasks=tuple(part(i, task) for i, task in enumerate(self.tasks)))

    def less_offset(self) -> TaskData:
        """The same without an offset, which is subtracted from the targets."""
        return replace(self, tasks=tuple(replace(task, y=task.unexplained, offset=None) for task in self.tasks))

    def gather(self, designs: Sequence[RowTask], keeps: Sequence[np.ndarray], n_jobs: int | None = None) -> None:
        """Prepare for `training` with each of `keeps`: where the rows left out are a partition of all, the whole Gram
        matrices of dense rows are formed from theirs, which are kept."""
        rows = {
            id(design.rows): (task, design.rows)
            for task, design in zip(self.tasks, designs, strict=True)
            if isinstance(design.rows, DenseRows)
        }

        def form(one: tuple[Task, DenseRows]) -> None:
            task, total = one
            outs = [np.flatnonzero(~keep[task.rows]) for keep in keeps]
            every, n = np.concatenate(outs), len(total.u)
            partition = len(every) == n == len(np.unique(every))
            if total.whole is None and partition and all(0 < 2 * len(out) <= n for out in outs):
                total.gather(outs)

        each(form, list(rows.values()), n_jobs)

    def release(self, designs: Sequence[RowTask]) -> None:
        """Forget the Gram matrices; they are formed again if need be."""
        for design in designs:
            design.rows.whole = None
            if isinstance(design.rows, DenseRows):
                design.rows.parts = {}

    def training(self, designs: Sequence[RowTask], keep: np.ndarray) -> list[RowTask]:
        """The designs of some of the rows, given those of all; keep is (N,) bool.

        By subtraction of the rows left out where these are fewer and it loses no digits, else from the rows kept.
        """
        made: dict[int, tuple[FeatureRows, Ints | None]] = {}  # tasks on the same rows share them
        out = []
        for task, design in zip(self.tasks, designs, strict=True):
            total = design.rows
            if isinstance(total, TrainingRows):
                raise NotImplementedError("training rows of training rows: go back to all rows.")
            if id(total) not in made:
                stays = keep[task.rows]
                made[id(total)] = _without(task, design, np.flatnonzero(stays), np.flatnonzero(~stays))
            rows, used = made[id(total)]
            y = task.unexplained
            out.append(RowTask(rows, y if used is None else y[used]))
        return out

    def _check_range(self, squares: Floats) -> None:
        """squares is (m, d): NaN and infinite values show here, and columns whose scale leaves the range of floats"""
        bad = ~((squares == 0) | ((squares >= SMALLEST) & (squares <= LARGEST)))
        largest = squares.max(axis=0)
        empty = np.flatnonzero((squares == 0).any(axis=0) & ~(largest >= SMALLEST * self.X.shape[0]))
        if empty.size:
            top = np.abs(self.X[:, empty]).max(axis=0)
            top = np.ravel(top.toarray() if hasattr(top, "toarray") else top)
            bad[:, empty[(top > 0) & (top < SMALLEST**0.5)]] = True
        if bad.any():
            check_finite(self.X, self.features, "X")
            i, j = np.argwhere(bad)[0]
            raise ValueError(
                f"column {self.features[j]!r} in task {self.tasks[i].label!r} is too {_extreme(squares[i, j])} Rescale it "
                "before fitting."
            )


def _rows_of(X: Matrix, weight: Floats | None, centre: bool, y: Floats) -> FeatureRows:
    if issparse(X):
        return SparseRows(X, weight, centre)
    return NarrowRows(X, weight, centre) if X.dtype == np.float32 else DenseRows(X, weight, centre, y)


def _without(task: Task, design: RowTask, stay: Ints, out: Ints) -> tuple[FeatureRows, Ints | None]:
    """The rows of a task less some, and those of its targets that belong to them; None: all, rows left out having weight
    0."""
    total = design.rows
    if len(out) == 0:
        return total, None
    if len(out) <= len(stay) and isinstance(total, DenseRows):
        rows = TrainingRows(total, out, task.unexplained, design)
        if rows.safe:
            return rows, None
    weight = None if task.weight is None else task.weight[stay]
    return _rows_of(task.X[stay], weight, total.centre, task.unexplained[stay]), stay


def _extreme(square: float) -> str:
    return "large: the sum of its squares overflows." if square > 1 else "small: the sum of its squares underflows."


def make_task(
    label: Hashable, X: Floats, y: Floats, weight: Floats | None, rows: Ints, offset: Floats | None = None
) -> Task:
    if weight is None:
        return Task(label, X, y, None, rows, offset)
    used = weight > 0
    if not used.any():
        raise ValueError(NO_WEIGHT.format(label))
    if not used.all():
        X, y, weight, rows = X[used], y[used], weight[used], rows[used]
        offset = None if offset is None else offset[used]
    return Task(label, X, y, proper_weight(weight), rows, offset)


def proper_weight(weight: Floats) -> Floats | None:
    """Weights that are all 1 are no weights."""
    return None if np.all(weight == 1.0) else weight
