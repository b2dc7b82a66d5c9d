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

import difflib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from .designs import DenseRows, DenseTask, Floats, Ints

MANY = 8  # how many names an error message lists before it stops
NO_WEIGHT = "all sample weights of task {!r} are zero. Leave the task out, or give a row a positive weight."


@dataclass(frozen=True)
class Task:
    """One task's rows. Tasks measured on the same rows share the same X (and weight) object."""

    label: Any
    X: Floats
    y: Floats
    weight: Floats | None


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

    @property
    def m(self) -> int:
        return len(self.tasks)

    @property
    def d(self) -> int:
        return len(self.features)

    def designs(self, centre: bool) -> list[DenseTask]:
        """One design per task; tasks on the same rows share theirs."""
        shared: dict[tuple[int, int], DenseRows] = {}
        out = []
        for task in self.tasks:
            key = (id(task.X), id(task.weight))
            if key not in shared:
                shared[key] = DenseRows(task.X, task.weight, centre)
            rows = shared[key]
            too_large = np.flatnonzero(~np.isfinite(rows.squares))
            if too_large.size:
                check_finite(self.X, self.features, "X")
                raise ValueError(
                    f"column {self.features[too_large[0]]!r} in task {task.label!r} is so large that the sum of its "
                    "squares overflows. Rescale it before fitting."
                )
            out.append(DenseTask(rows, task.y))
            if not np.isfinite(out[-1].yy):
                raise ValueError(
                    f"y in task {task.label!r} is so large that the sum of its squares overflows. Rescale it."
                )
        return out


# ------------------------------------------------------------------ tables and columns


def names_of(values: Iterable[Any]) -> str:
    """A list of names for an error message, cut after a few."""
    values = list(values)
    shown = ", ".join(repr(v.item() if isinstance(v, np.generic) else v) for v in values[:MANY])
    return shown + (f", ... ({len(values)} in all)" if len(values) > MANY else "")


def _is_table(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "shape")


def _column_position(X: Any, task_column: str | int) -> int:
    """Where the task column stands."""
    if isinstance(task_column, (int, np.integer)) and not isinstance(task_column, bool):
        width = X.shape[1] if hasattr(X, "shape") else np.asarray(X).shape[1]
        if not -width <= task_column < width:
            raise ValueError(f"task_column={task_column} is out of range: X has {width} columns.")
        return int(task_column) % width
    if not _is_table(X):
        raise ValueError(
            f"task_column={task_column!r} is a name, but X is a {type(X).__name__} without column names. "
            "Pass a table (pandas or polars), an integer position, or task= labels."
        )
    columns = list(X.columns)
    if task_column in columns:
        return columns.index(task_column)
    ends = [c for c in columns if isinstance(c, str) and c.endswith(f"__{task_column}")]
    if len(ends) == 1:
        hint = f"Did you mean task_column={ends[0]!r}?"
    else:
        close = difflib.get_close_matches(str(task_column), [str(c) for c in columns], n=1)
        hint = f"Did you mean {close[0]!r}?" if close else "Pass the name of the column that says the task."
    raise ValueError(f"task_column={task_column!r} is not a column of X. Columns: {names_of(columns)}. {hint}")


def _split_off(X: Any, position: int) -> tuple[Any, Any]:
    """(features, task labels) of a table or array with a task column."""
    if not _is_table(X):
        X = np.asarray(X)
        return np.delete(X, position, axis=1), X[:, position]
    others = [i for i in range(X.shape[1]) if i != position]
    if hasattr(X, "iloc"):
        return X.iloc[:, others], X.iloc[:, position]
    columns = list(X.columns)
    return X.select([columns[i] for i in others]), X[columns[position]]


def _as_floats(X: Any, names: np.ndarray | None = None, what: str = "X") -> Floats:
    """A 2-D float64 array, not yet checked for NaN; a value that is no number is named by its row and column."""
    if _is_table(X) and not hasattr(X, "iloc") and hasattr(X, "to_numpy"):
        X = X.to_numpy()  # polars
    try:
        out = check_array(
            X,
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            order=None,
            input_name=what,
            accept_sparse=False,
            ensure_min_samples=1,
        )
    except (ValueError, TypeError) as error:
        place = _first_non_number(X)
        if place is None:
            raise
        row, column, value = place
        name = column if names is None else names[column]
        raise type(error)(
            f"{error}. Column {name!r} of {what}, row {row} holds {value!r}, which is not a number: encode text columns "
            "(e.g. one-hot), or name the column of task labels with task_column=."
        ) from error
    if out.dtype != np.float64:
        out = out.astype(np.float64, order="K")
    return out


def _first_non_number(X: Any) -> tuple[int, int, Any] | None:
    """(row, column, value) of the first entry that float() refuses."""
    values = np.asarray(X, dtype=object) if not hasattr(X, "to_numpy") else np.asarray(X.to_numpy(), dtype=object)
    if values.ndim != 2:
        return None
    for (row, column), value in np.ndenumerate(values):
        if isinstance(value, (complex, np.complexfloating)):
            return None
        try:
            float(value)
        except (TypeError, ValueError):
            return row, column, value
    return None


def check_finite(X: Floats, names: np.ndarray | None, what: str, hint: str = "") -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return
    bad = np.argwhere(~np.isfinite(X))
    if bad.size == 0:
        return
    kind = "NaN" if np.isnan(X[tuple(bad[0])]) else "infinity"
    place = f"row {bad[0][0]}"
    if X.ndim == 2:
        column = int(bad[0][1])
        place = f"column {column if names is None else names[column]!r}, row {bad[0][0]}"
    raise ValueError(
        f"Input {what} contains {kind}: {place} is the first of {len(bad)} such value(s). "
        + (hint or "Impute or drop them first (e.g. sklearn.impute.SimpleImputer in a Pipeline).")
    )


# ------------------------------------------------------------------ labels


def _factorise(task: Any, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(labels, codes): the distinct task labels (categories in their order, others sorted) and each row's."""
    order = None
    dtype = getattr(task, "dtype", None)
    if hasattr(dtype, "categories") and not hasattr(task, "to_physical"):  # pandas; polars sorts as text
        order = list(dtype.categories)
    values = np.asarray(task)
    if values.ndim != 1:
        raise ValueError(f"task must be one label per row (1-D), but has shape {values.shape}.")
    if len(values) != rows:
        raise ValueError(f"task has {len(values)} labels but X has {rows} rows.")
    missing = _missing(values)
    if missing.any():
        raise ValueError(
            f"task label missing in {int(missing.sum())} row(s), first in row {int(np.flatnonzero(missing)[0])}. "
            "Drop these rows or give them a label."
        )
    try:
        labels, codes = np.unique(values, return_inverse=True)
    except TypeError:  # labels of mixed types: in order of appearance
        seen: dict[Any, int] = {}
        codes = np.array([seen.setdefault(v, len(seen)) for v in values])
        labels = np.empty(len(seen), dtype=object)
        labels[:] = list(seen)
    if order is not None:
        rank = {value: r for r, value in enumerate(order)}
        by_category = np.argsort([rank[v] for v in labels.tolist()], kind="stable")
        inverse = np.empty_like(by_category)
        inverse[by_category] = np.arange(len(by_category))
        labels, codes = labels[by_category], inverse[codes]
    return labels, codes


def _missing(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)

    def absent(v: Any) -> bool:
        return (
            v is None or type(v).__name__ in ("NAType", "NaTType") or (isinstance(v, (float, np.floating)) and v != v)
        )

    return np.fromiter((absent(v) for v in values), dtype=bool, count=len(values))


def match_labels(known: np.ndarray, task: Any, rows: int, unknown: str) -> np.ndarray:
    """Codes of the rows' tasks among the known ones; -1 for a new label if unknown == "mean"."""
    labels, codes = _factorise(task, rows)
    place = {value: i for i, value in enumerate(known.tolist())}
    to_known = np.array([place.get(value, -1) for value in labels.tolist()], dtype=np.intp)
    if unknown == "error" and (to_known < 0).any():
        new = labels[to_known < 0]
        kinds = {type(v).__name__ for v in known.tolist()} ^ {type(v).__name__ for v in new.tolist()}
        typed = f" (known labels are of type {type(known.tolist()[0]).__name__})" if kinds else ""
        raise ValueError(
            f"unknown task label(s) {names_of(new)}; known: {names_of(known)}{typed}. In cross-validation use "
            "TaskKFold, which keeps every task in every training fold, or set unknown_task='mean'."
        )
    return to_known[codes]


# ------------------------------------------------------------------ weights and targets


def _check_weights(sample_weight: Any, shape: tuple[int, ...]) -> Floats | None:
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(shape[:1], float(weight))
    if weight.shape not in (shape[:1], shape):
        wanted = f"({shape[0]},)" + (f" or {shape}" if len(shape) == 2 else "")
        raise ValueError(f"sample_weight has shape {weight.shape}; expected {wanted}.")
    bad = np.argwhere(~(np.isfinite(weight) & (weight >= 0)))
    if bad.size:
        raise ValueError(f"sample_weight must be finite and >= 0; row {bad[0][0]} holds {weight[tuple(bad[0])]}.")
    return weight


def _target(y: Any, rows: int) -> tuple[Floats, np.ndarray | None]:
    """(float64 target, column names of a 2-D one)."""
    if y is None:
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None: pass the target as the second argument."
        )
    names = np.array(list(y.columns), dtype=object) if _is_table(y) else None
    values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported: y has complex values.")
    if values.ndim not in (1, 2):
        raise ValueError(f"y must be 1-D, or 2-D with one column per task; it has shape {values.shape}.")
    if len(values) != rows:
        raise ValueError(f"X has {rows} rows but y has {len(values)}: inconsistent numbers of samples.")
    try:
        values = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must be numeric, but could not be converted: {error}.") from error
    if values.ndim == 2 and values.shape[1] == 0:
        raise ValueError("y has no columns: a 2-D y needs one column per task.")
    return values, names


# ------------------------------------------------------------------ reading


def read_features(X: Any, task: Any, task_column: str | int | None) -> tuple[Floats, Any, np.ndarray]:
    """(feature values, task labels or None, feature names) of any accepted X."""
    if task_column is not None:
        if task is not None:
            raise ValueError("pass either task_column= (a column of X) or task= (labels beside X), not both.")
        X, task = _split_off(X, _column_position(X, task_column))
    names = np.array([str(c) for c in X.columns], dtype=object) if _is_table(X) else None
    values = _as_floats(X, names)
    if names is None:
        names = np.array([f"x{j}" for j in range(values.shape[1])], dtype=object)
    return values, task, names


def check_form(X: Any) -> None:
    """Refuse what has no rows and columns, lists of arrays, and tables with a name twice."""
    if isinstance(X, (list, tuple)) and len(X) and all(len(getattr(part, "shape", ())) == 2 for part in X[:2]):
        raise TypeError(
            f"X is a list of {len(X)} arrays. Stack per-task arrays first: X, y, task = stack_tasks(Xs, ys), "
            "then fit(X, y, task=task)."
        )
    dimensions = len(X.shape) if hasattr(X, "shape") else np.asarray(X).ndim
    if dimensions != 2:
        raise ValueError(
            f"Expected 2D array, got {dimensions}D array instead: X needs rows (samples) and columns (features). "
            "Reshape your data with X.reshape(-1, 1) if it is a single feature."
        )
    if _is_table(X):
        names = list(X.columns)
        twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
        if twice is not None:
            raise ValueError(f"column name {twice!r} occurs more than once in X. Give every column its own name.")


def read_training(
    X: Any, y: Any, *, task: Any = None, task_column: str | int | None = None, sample_weight: Any = None
) -> TaskData:
    """Any accepted form of training data as `TaskData`."""
    values, task, names = read_features(X, task, task_column)
    target, target_names = _target(y, len(values))
    weight = _check_weights(sample_weight, target.shape)
    if target.ndim == 2:
        if task is not None:
            raise ValueError("with a 2-D y every column is a task: do not pass task labels as well.")
        labels = np.arange(target.shape[1]) if target_names is None else target_names
        return TaskData(_wide_tasks(values, target, weight, labels), labels, names, "wide", values)
    check_finite(target, None, "y", "Drop these rows, or pass a 2-D y in which NaN means not measured.")
    if task is None:
        labels, codes, form = np.zeros(1, dtype=int), np.zeros(len(values), dtype=np.intp), "single"
    else:
        labels, codes = _factorise(task, len(values))
        form = "long"
    return TaskData(_long_tasks(values, target, weight, labels, codes), labels, names, form, values)


def _group(codes: np.ndarray, m: int) -> list[Ints | slice]:
    """The rows of each task: a slice where they stand together, indices otherwise."""
    counts = np.bincount(codes, minlength=m)
    if np.all(codes[:-1] <= codes[1:]):
        ends = np.cumsum(counts)
        return [slice(int(end - count), int(end)) for end, count in zip(ends, counts, strict=True)]
    order = np.argsort(codes, kind="stable")
    return list(np.split(order, np.cumsum(counts)[:-1]))


def _long_tasks(X: Floats, y: Floats, weight: Floats | None, labels: np.ndarray, codes: np.ndarray) -> tuple[Task, ...]:
    tasks = []
    for label, rows in zip(labels.tolist(), _group(codes, len(labels)), strict=True):
        tasks.append(_make_task(label, X[rows], y[rows], None if weight is None else weight[rows]))
    _warn_single_rows(tasks, "rows")
    return tuple(tasks)


def _make_task(label: Any, X: Floats, y: Floats, weight: Floats | None) -> Task:
    if weight is None:
        return Task(label, X, y, None)
    used = weight > 0
    if not used.any():
        raise ValueError(NO_WEIGHT.format(label))
    if not used.all():
        X, y, weight = X[used], y[used], weight[used]
    return Task(label, X, y, _proper(weight))


def _proper(weight: Floats) -> Floats | None:
    """Weights that are all 1 are no weights."""
    return None if np.all(weight == 1.0) else weight


def _wide_tasks(X: Floats, Y: Floats, weight: Floats | None, labels: np.ndarray) -> tuple[Task, ...]:
    measured = ~np.isnan(Y)
    if np.isinf(Y).any():
        row, column = np.argwhere(np.isinf(Y))[0]
        raise ValueError(f"Input y contains infinity: task {labels[column]!r}, row {row}. Use NaN for not measured.")
    empty = ~measured.any(axis=0)
    if empty.any():
        raise ValueError(
            f"task {labels[int(np.argmax(empty))]!r} has no measured value: its column of y is wholly missing. "
            "Leave the column out."
        )
    unused = int((~measured.any(axis=1)).sum())
    if unused:
        warnings.warn(f"{unused} row(s) of y are wholly missing and were left out.", UserWarning, stacklevel=4)
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
        tasks.append(Task(label, parts[key][0], Y[used, i], parts[key][1]))
    _warn_single_rows(tasks, "measured rows")
    return tuple(tasks)


def _warn_single_rows(tasks: Sequence[Task], what: str) -> None:
    single = [task.label for task in tasks if len(task.y) == 1]
    if single and len(tasks) > 1:
        warnings.warn(
            f"{len(single)} task(s) have a single row ({names_of(single)}): with an intercept their coefficients "
            "are all 0.",
            UserWarning,
            stacklevel=5,
        )


def stack_tasks(
    Xs: Sequence[Any], ys: Sequence[Any], labels: Sequence[Any] | None = None
) -> tuple[Any, Floats, np.ndarray]:
    """Stack per-task arrays into one X, y and a task label per row.

    Parameters
    ----------
    Xs : list of m arrays (n_i, d), or of tables with the same columns
    ys : list of m arrays (n_i,)
    labels : m distinct task labels, by default 0 .. m-1

    Returns
    -------
    X : (sum n_i, d) array, or a table if tables were given
    y : (sum n_i,) array
    task : (sum n_i,) array of labels

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
    Xs, ys = list(Xs), list(ys)
    if len(Xs) != len(ys) or not Xs:
        raise ValueError(f"stack_tasks needs as many targets as feature arrays, at least one: {len(Xs)} and {len(ys)}.")
    names = list(range(len(Xs))) if labels is None else list(labels)
    if len(names) != len(Xs):
        raise ValueError(f"{len(names)} labels for {len(Xs)} tasks.")
    if len(set(names)) != len(names):
        raise ValueError("task labels must be distinct.")
    tables = all(_is_table(X) for X in Xs)
    parts = Xs if tables else [np.asarray(X) for X in Xs]
    targets = [np.asarray(y) for y in ys]
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
    task = np.repeat(np.asarray(names), [len(y) for y in targets])
    return _concatenate(parts), np.concatenate(targets), task


def _concatenate(parts: list[Any]) -> Any:
    if not _is_table(parts[0]):
        return np.concatenate(parts)
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    import polars as pl

    return pl.concat(parts)
