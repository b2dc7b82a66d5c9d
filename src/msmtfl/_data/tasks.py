"""The front door: every accepted form of multi-task data becomes one `TaskData` (`task_data.py`).

Accepted forms
- a long table (pandas or polars) or 2-D array in which one column identifies the task (`task_column`),
- a 2-D array or table plus `task=` labels, one per row,
- one shared X with a 2-D Y, one column per task, NaN = not measured,
- plain X, y: a single task,
- lists of per-task arrays, through `stack_tasks`.

Rows are grouped by task; rows already sorted by task are sliced, not copied. float64 is used as it is,
float32 and integers are upcast (a float32 Gram could not carry a 1e-10 certificate).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse, vstack

from .categories import Encoding, read_features
from .designs import Floats, Ints
from .survival import read_survival
from .tables import (
    Labels,
    Table,
    Targets,
    TaskColumn,
    as_values,
    check_finite,
    check_places,
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
from .task_data import NO_WEIGHT, Task, TaskData, make_task, proper_weight
from .task_levels import positions_of

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
    task_column: TaskColumn = None,
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
    position = positions_of(X, task_column)
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
        tasks.append(make_task(label, X[rows], y[rows], own, place, beside))
    return tuple(tasks)


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
            parts[key] = (X if used.all() else X[used], None if column is None else proper_weight(column[used]))
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
