"""The front door: every accepted form of multi-task data becomes one `TaskData`.

Accepted forms
- a long table (pandas or polars) or 2-D array in which one column says the task (`task_column`),
- a 2-D array or table plus `task=` labels, one per row,
- one shared X with a 2-D Y, one column per task, NaN = not measured,
- plain X, y: a single task,
- lists of per-task arrays, through `stack_tasks`.

Rows are grouped by task; rows already sorted by task are sliced, not copied. float64 is used as it is,
float32 and integers are upcast (a float32 Gram could not carry a 1e-10 certificate).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse, vstack

from .._runtime.threads import each
from .categories import Encoding, read_features
from .dense import WORTH_SHARING, DenseRows, RowTask, TrainingRows
from .designs import FeatureRows, Floats, Ints
from .event_times import times_of
from .float32 import NarrowRows
from .sparse import SparseRows
from .survival import read_survival
from .tables import (
    Labels,
    Matrix,
    Table,
    Targets,
    as_values,
    check_finite,
    check_places,
    column_position,
    factorise,
    is_sparse,
    is_table,
    label_array,
    missing_values,
    names_of,
    native,
    refuse_dates,
    refuse_twice,
    unmasked,
    warn_user,
)

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
    task_position: int | None = None  # of the task column, if there is one
    encoding: Encoding | None = None  # of categorical columns, if there are any
    classes: int = 1  # tasks stand together in as many, one per class, on the same rows
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
            return _make_task(task.label, task.X, task.y, mine, task.rows, task.offset)

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


# ------------------------------------------------------------------ weights and targets


def check_weights(sample_weight: ArrayLike | None, shape: tuple[int, ...]) -> Floats | None:
    if sample_weight is None:
        return None
    values = as_values(sample_weight, "sample_weight")
    refuse_dates(values, "sample_weight")
    try:
        weight = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be numbers >= 0: {error}.") from error
    if weight.ndim == 0:
        weight = np.full(shape[:1], float(weight))
    if weight.shape not in (shape[:1], shape):
        wanted = f"({shape[0]},)" + (f" or {shape}" if len(shape) == 2 else "")
        raise ValueError(f"sample_weight has shape {weight.shape}; expected {wanted}.")
    bad = np.argwhere(~(np.isfinite(weight) & (weight >= 0)))
    if bad.size:
        raise ValueError(f"sample_weight must be finite and >= 0; row {bad[0][0]} holds {weight[tuple(bad[0])]}.")
    return weight


def check_offset(
    offset: ArrayLike | None,
    shape: tuple[int, ...],
    labels: np.ndarray | None = None,
    measured: np.ndarray | None = None,
) -> Floats | None:
    """An offset as numbers of the shape (N,), or (N, m) where that is the shape of the target. Of these only
    entries that are measured (all, if that is None) need to be finite."""
    if offset is None:
        return None
    values = as_values(offset, "offset")
    refuse_dates(values, "offset")
    if values.dtype == object:
        values = np.where(missing_values(values.ravel()).reshape(values.shape), np.nan, values)
    try:
        out = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"offset must be numbers, one per row: {error}.") from error
    if out.ndim == 0:
        out = np.full(shape[:1], float(out))
    if out.shape not in (shape[:1], shape):
        wanted = f"({shape[0]},)" + (f" or {shape}" if len(shape) == 2 else "")
        raise ValueError(f"offset has shape {out.shape}; expected {wanted}: one value per row of X.")
    if measured is None or out.ndim < measured.ndim:
        measured = np.ones(out.shape, dtype=bool)
    bad = np.argwhere(~np.isfinite(out) & measured)
    if bad.size:
        row, *column = bad[0]
        named = column if labels is None else [repr(labels.tolist()[i]) for i in column]
        where = f"row {row}" + (f", task {named[0]}" if named else "")
        raise ValueError(
            f"offset must be finite; {where} holds {out[tuple(bad[0])]}. An offset that is the logarithm of an exposure "
            "needs an exposure > 0: leave rows without any out."
        )
    return out


def read_target(y: Targets | None, rows: int) -> tuple[Floats, np.ndarray | None]:
    """(float64 target, column names of a 2-D one)."""
    if y is None:
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None: pass the target as the second argument."
        )
    y = native(y)
    names = np.array(list(y.columns), dtype=object) if is_table(y) else None
    if names is not None:
        refuse_twice(names.tolist(), "y")
    values = as_values(y, "y")
    refuse_dates(values, "y")
    if values.dtype == object:
        values = np.where(missing_values(values.ravel()).reshape(values.shape), np.nan, values)
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported: y has complex values.")
    if values.ndim not in (1, 2):
        raise ValueError(f"y must be 1-D, or 2-D with one column per task; it has shape {values.shape}.")
    if len(values) != rows:
        raise ValueError(f"X has {rows} rows but y has {len(values)}: inconsistent numbers of samples.")
    try:
        values = values.astype(np.float64)
    except OverflowError as error:
        raise ValueError("y holds an integer too large for a float. Rescale y.") from error
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y must be numeric, but could not be converted: {error}. Of classes take a classifier (MSMTFLClassifierCV, "
            "MultiTaskAutoClassifier) or compare_models(..., classify=True)."
        ) from error
    if values.ndim == 2 and values.shape[1] == 0:
        raise ValueError("y has no columns: a 2-D y needs one column per task.")
    return values, names


# ------------------------------------------------------------------ reading


def read_training(
    X: Table,
    y: Targets,
    *,
    task: Labels | None = None,
    task_column: str | int | None = None,
    sample_weight: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    encoding: Encoding | None = None,
    unknown: str = "error",
    survival: bool = False,
) -> TaskData:
    """Any accepted form of training data as `TaskData`; `survival`: targets are times until an event. An `encoding` of
    categorical columns is that of other data."""
    X = native(X)
    values, task, names, encoding = read_features(X, task, task_column, encoding, unknown)
    rows = values.shape[0]
    y = read_survival(y) if survival else y
    target, target_names = read_target(y, rows)
    weight = check_weights(sample_weight, target.shape)
    beside = check_offset(offset, target.shape, target_names, ~np.isnan(target))
    if target.ndim == 2:
        if task is not None:
            raise ValueError("with a 2-D y every column is a task: do not pass task labels as well.")
        labels = np.arange(target.shape[1]) if target_names is None else target_names
        tasks = _wide_tasks(values, target, weight, beside, labels)
        return TaskData(tasks, labels, names, "wide", values, encoding=encoding)
    check_finite(target, None, "y", "Drop these rows, or pass a 2-D y in which NaN means not measured.")
    if task is None:
        labels, codes, form = np.zeros(1, dtype=int), np.zeros(rows, dtype=np.intp), "single"
    else:
        labels, codes = factorise(task, rows)
        form = "long"
    position = None if task_column is None else column_position(X, task_column)
    tasks = _long_tasks(values, target, weight, beside, labels, codes)
    return TaskData(tasks, labels, names, form, values, position, encoding, survival=survival)


def grouped(codes: np.ndarray, m: int) -> list[Ints | slice]:
    """The rows of each task: a slice where they stand together, indices otherwise."""
    counts = np.bincount(codes, minlength=m)
    if np.all(codes[:-1] <= codes[1:]):
        ends = np.cumsum(counts)
        return [slice(int(end - count), int(end)) for end, count in zip(ends, counts, strict=True)]
    order = np.argsort(codes, kind="stable")
    return list(np.split(order, np.cumsum(counts)[:-1]))


def _long_tasks(
    X: Floats, y: Floats, weight: Floats | None, offset: Floats | None, labels: np.ndarray, codes: np.ndarray
) -> tuple[Task, ...]:
    tasks, every = [], np.arange(len(y))
    for label, rows in zip(labels.tolist(), grouped(codes, len(labels)), strict=True):
        place = every[rows] if isinstance(rows, slice) else rows
        own, beside = (None if values is None else values[rows] for values in (weight, offset))
        tasks.append(_make_task(label, X[rows], y[rows], own, place, beside))
    return tuple(tasks)


def _make_task(
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
    return Task(label, X, y, _proper(weight), rows, offset)


def _proper(weight: Floats) -> Floats | None:
    """Weights that are all 1 are no weights."""
    return None if np.all(weight == 1.0) else weight


def _wide_tasks(
    X: Floats, Y: Floats, weight: Floats | None, offset: Floats | None, labels: np.ndarray
) -> tuple[Task, ...]:
    measured = ~np.isnan(Y)
    refuse_infinity(Y, labels)
    empty = ~measured.any(axis=0)
    if empty.any():
        raise ValueError(
            f"task {labels.tolist()[int(np.argmax(empty))]!r} has no measured value: its column of y is wholly missing. "
            "Leave the column out."
        )
    unused = int((~measured.any(axis=1)).sum())
    if unused:
        warn_user(f"{unused} row(s) of y are wholly missing and were left out.")
    parts: dict[tuple[bytes, bytes], tuple[Floats, Floats | None]] = {}  # tasks on the same rows share them
    tasks = []
    for i, label in enumerate(labels.tolist()):
        used = measured[:, i]
        column = None if weight is None else weight if weight.ndim == 1 else weight[:, i]
        if column is not None:
            used = used & (column > 0)
        key = (used.tobytes(), b"" if column is None else column[used].tobytes())
        if not used.any():
            raise ValueError(NO_WEIGHT.format(label))
        if key not in parts:
            parts[key] = (X if used.all() else X[used], None if column is None else _proper(column[used]))
        beside = None if offset is None else (offset if offset.ndim == 1 else offset[:, i])[used]
        tasks.append(Task(label, parts[key][0], Y[used, i], parts[key][1], np.flatnonzero(used), beside))
    return tuple(tasks)


def refuse_infinity(Y: Floats, labels: np.ndarray) -> None:
    """An error if a 2-D y, in which NaN is welcome, holds an infinite value."""
    if np.isinf(Y).any():
        row, column = np.argwhere(np.isinf(Y))[0]
        label = labels.tolist()[column]
        raise ValueError(f"Input y contains infinity: task {label!r}, row {row}. Use NaN for not measured.")


def warn_of_single_rows(labels: Sequence[Hashable], rows: Sequence[int]) -> None:
    single = [label for label, count in zip(labels, rows, strict=True) if count == 1]
    if single:
        warn_user(
            f"{len(single)} task(s) have a single row ({names_of(single)}): with an intercept their coefficients "
            "are all 0.",
        )


def stack_tasks(
    Xs: Sequence[Table], ys: Sequence[ArrayLike], labels: Sequence[Hashable] | None = None
) -> tuple[Any, Floats, np.ndarray]:
    """Stack arrays of the tasks into one X, y and a task label per sample.

    Parameters
    ----------
    Xs : sequence of m arrays of shape (n_i, d)
        The samples of each task: arrays, dense or sparse, or tables with the same columns.
    ys : sequence of m arrays of shape (n_i,)
        The targets of each task.
    labels : sequence of m labels, optional
        Distinct labels of the tasks; by default 0 .. m-1.

    Returns
    -------
    X : ndarray, csr_array or DataFrame of shape (N, d)
        All samples, N the sum of the n_i; sparse if one of `Xs` is, a table if tables were given.
    y : ndarray of shape (N,)
        Their targets.
    task : ndarray of shape (N,)
        Their labels.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL, stack_tasks
    >>> rng = np.random.default_rng(0)
    >>> Xs = [rng.standard_normal((20, 3)), rng.standard_normal((30, 3))]
    >>> X, y, task = stack_tasks(Xs, [X_i[:, 0] for X_i in Xs])
    >>> X.shape, np.bincount(task)
    ((50, 3), array([20, 30]))
    >>> MSMTFL().fit(X, y, task=task).coef_.shape
    (2, 3)
    """
    tables_or_arrays: list[Any] = [native(X) for X in Xs]
    Xs, ys = tables_or_arrays, list(ys)
    if len(Xs) != len(ys) or not Xs:
        raise ValueError(f"stack_tasks needs as many targets as feature arrays, at least one: {len(Xs)} and {len(ys)}.")
    names = list(range(len(Xs))) if labels is None else list(labels)
    if len(names) != len(Xs):
        raise ValueError(f"{len(names)} labels for {len(Xs)} tasks.")
    if len(set(names)) != len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(f"task labels must be distinct; {twice!r} occurs twice.")
    tables = all(is_table(X) for X in Xs)
    thin = any(issparse(X) for X in Xs)
    for X in Xs:
        if is_sparse(X):
            check_places(X, "X")
    parts: list[Any] = Xs if tables else [csr_array(X) if thin else np.asarray(unmasked(X)) for X in Xs]
    targets = [as_values(y, "y") for y in ys]
    for name, X, y in zip(names, parts, targets, strict=True):
        if len(X.shape) != 2 or y.ndim != 1 or X.shape[0] != len(y):
            raise ValueError(
                f"task {name!r}: X must be (n, d) and y (n,); their shapes are {tuple(X.shape)} and {y.shape}."
            )
        if len(y) == 0:
            raise ValueError(f"task {name!r} has no rows. Leave it out.")
        if X.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"task {name!r} has {X.shape[1]} features, task {names[0]!r} has {parts[0].shape[1]}: all tasks need "
                "the same features in the same order."
            )
        if tables and list(X.columns) != list(parts[0].columns):
            raise ValueError(f"task {name!r} and task {names[0]!r} have different columns, or in another order.")
    if missing_values(label_array(names)).any():
        raise ValueError("a task label is missing (None or NaN): give every task a label.")
    task = np.repeat(label_array(names), [len(y) for y in targets])
    return _concatenate(parts), np.concatenate(targets), task


def _concatenate(parts: list[Any]) -> Any:
    if issparse(parts[0]):
        return vstack(parts, format="csr")
    if not is_table(parts[0]):
        return np.concatenate(parts)
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    import polars as pl

    return pl.concat(parts)
