"""Tables, columns and labels: what any X or task vector holds, as numpy arrays.

Tables are pandas or polars frames (anything with `columns` and `shape`). A lazy frame of polars, a table of pyarrow, a
frame of narwhals and a dict of columns become one of these first (`opened`); no library is imported for frames of its own.
"""

from __future__ import annotations

import difflib
import re
import sys
import warnings
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from types import FrameType
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import check_array

from .designs import Floats

KEPT_ABOVE = 2**26  # bytes: a smaller float32 X is made float64, which is faster to work with

MANY = 8  # how many names an error message lists before it stops
CHOICES = 20  # and how many, where one of them is to be chosen


class Frame(Protocol):
    """A table: pandas' or polars' DataFrame, or what is like them."""

    @property
    def columns(self) -> Any:
        """The names of the columns, in some sequence."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""

    @property
    def dtypes(self) -> Any:
        """The types of the columns."""


class Sparse(Protocol):
    """A sparse array or matrix of scipy, in any format."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its entries."""

    @property
    def format(self) -> str:
        """How it is stored: "csr", "coo", ..."""

    def toarray(self) -> np.ndarray:
        """The same as a dense array."""


# What users give. A pandas or polars Series is an ArrayLike.
Table: TypeAlias = np.ndarray | Sequence[ArrayLike] | Sparse | Frame  # X
Targets: TypeAlias = ArrayLike | Frame  # y, 1-D or 2-D
TaskColumn: TypeAlias = str | int | Sequence[str | int] | None  # the column of the task, or those of its levels
Position: TypeAlias = int | tuple[int, ...] | None  # of the task column, or of the columns of its levels
Labels: TypeAlias = ArrayLike | Sequence[Hashable]  # one per row: task, groups
RandomState: TypeAlias = int | np.random.RandomState | None
# What they are read as: features of all rows, by rows if sparse
Matrix: TypeAlias = np.ndarray | csr_array
Given = TypeVar("Given")


def opened(X: Any) -> Any:
    """Any X in a form that is read here, or an error if it has no rows and columns.

    X stays as it is if it is an array, a list, a sparse array, or a frame of pandas or polars. A lazy frame is collected; a
    table of pyarrow, a frame of narwhals or a dict of columns becomes a frame of pandas, or of polars without pandas.
    """
    X = native(X)
    _check_form(X)
    return X


def native(X: Any) -> Any:
    """A table of a library that is not read here as a frame of one that is; all else as it is."""
    if type(X).__module__.startswith("narwhals.") and hasattr(X, "to_native"):
        X = X.to_native()
    if hasattr(X, "collect_schema") and hasattr(X, "collect"):  # a lazy frame of polars
        return X.collect()
    if isinstance(X, dict) and not issparse(X):  # dok_array is a dict
        return _frame_of(X, "a dict of columns")
    if hasattr(X, "column_names") and hasattr(X, "combine_chunks"):  # a table of pyarrow
        refuse_twice(list(X.column_names), "X")
        return _frame_of(X, "a table of pyarrow")
    return X


def _frame_of(given: Any, what: str) -> Any:
    if isinstance(given, dict):
        sizes = {str(name): np.shape(values) for name, values in given.items()}
        odd = [f"column {name!r} has shape {size}" for name, size in sizes.items() if len(size) != 1]
        first = {
            size: f"column {name!r} has {size[0]} values" for name, size in reversed(sizes.items()) if len(size) == 1
        }
        if odd or len(first) != 1:
            why = odd[0] if odd else " and ".join(list(first.values())[-2:]) or "it has no column"
            raise ValueError(f"X is a dict, which is read as columns of one length, but {why}.")
    try:
        import pandas as pd
    except ImportError:
        try:
            import polars as pl
        except ImportError:
            raise TypeError(f"X is {what}: install pandas or polars, or pass an array with task= labels.") from None
        return pl.DataFrame(given)
    return pd.DataFrame(given) if isinstance(given, dict) else given.to_pandas()


def _check_form(X: Table) -> None:
    """Refuse what has no rows and columns, lists of arrays, and tables with a name twice."""
    if isinstance(X, (list, tuple)) and len(X) and all(len(getattr(part, "shape", ())) == 2 for part in X[:2]):
        raise TypeError(
            f"X is a list of {len(X)} arrays. Stack per-task arrays first: X, y, task = stack_tasks(Xs, ys), "
            "then fit(X, y, task=task)."
        )
    dimensions = len(shape_of(X))
    if dimensions != 2:
        raise ValueError(
            f"Expected 2D array, got {dimensions}D array instead: X needs rows (samples) and columns (features). "
            "Reshape your data with X.reshape(-1, 1) if it is a single feature."
        )
    if is_table(X):
        refuse_twice(list(X.columns), "X")


def refuse_twice(names: Sequence[Hashable], what: str) -> None:
    """An error if a column name occurs twice."""
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(f"column name {twice!r} occurs more than once in {what}. Give every column its own name.")


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package (and scikit-learn's wrappers) that called it."""
    level = 2
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("msmtfl", "sklearn"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def names_of(values: Iterable[object], many: int = MANY) -> str:
    """A list of names for an error message, cut after a few."""
    values = list(values)
    shown = ", ".join(repr(v.item() if isinstance(v, np.generic) else v) for v in values[:many])
    return shown + (f", ... ({len(values)} in all)" if len(values) > many else "")


def close_to(wanted: object, known: Iterable[Hashable]) -> list[Hashable]:
    """The known names that are spelt most like the one wanted, the closest first, or that hold it; there may be none."""
    by_text: dict[str, Hashable] = {}
    for name in known:
        by_text.setdefault(str(name).lower(), name)
    text = str(wanted).lower()
    spelt = difflib.get_close_matches(text, list(by_text), n=3)
    holding = [other for other in by_text if len(text) > 2 and text in other]
    return [by_text[found] for found in dict.fromkeys([*spelt, *holding[:3]])]


def known_as(wanted: object, known: Iterable[str]) -> str | None:
    """The known name that the one wanted is, whatever is between its words (a blank, - or _) and in capitals or not."""

    def plain(name: str) -> str:
        return re.sub(r"[\s_-]+", " ", name.strip().lower())

    by_plain = {plain(name): name for name in known}
    return by_plain.get(plain(wanted)) if isinstance(wanted, str) else None


def choices_of(wanted: object, known: Iterable[Hashable]) -> str:
    """What can be had in place of an unknown name, for an error message: close ones first, and all unless they are many."""
    known = list(known)
    first = close_to(wanted, known)
    return names_of([*first, *(name for name in known if name not in first)], CHOICES)


def is_table(X: object) -> TypeGuard[Frame]:
    return hasattr(X, "columns") and hasattr(X, "shape")


def is_sparse(X: object) -> TypeGuard[Sparse]:
    return bool(issparse(X))


def shape_of(X: Table) -> tuple[int, ...]:
    """Numbers of rows and columns, of lists as of the array that they make."""
    return tuple(X.shape) if hasattr(X, "shape") else np.asarray(X).shape


def as_values(given: Table | Labels, what: str) -> np.ndarray:
    """A target, labels, weights or groups as an array; what is masked in a masked array is missing."""
    if issparse(given):
        raise TypeError(f"{what} is sparse. Pass an array: {what}.toarray(), and .ravel() if it is a single column.")
    return np.asarray(unmasked(given.to_numpy() if hasattr(given, "to_numpy") else given))


def unmasked(values: Given) -> Given | np.ndarray:
    """A masked array as one in which the masked entries are missing: NaN among floats, else None; others as they are."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.getmaskarray(values).any():
        return values.data
    out = np.array(values.data, dtype=values.dtype if values.dtype.kind == "f" else object)
    out[np.ma.getmaskarray(values)] = np.nan if values.dtype.kind == "f" else None
    return out


def refuse_dates(values: np.ndarray, what: str) -> None:
    """An error if an array holds dates or times: as numbers they would count nanoseconds, and NaT be one of them."""
    kinds = (np.datetime64, np.timedelta64)
    inside = values.dtype == object and any(isinstance(value, kinds) for value in values.ravel())
    if values.dtype.kind in "mM" or inside:
        raise ValueError(
            f"{what} holds dates or times, which are no numbers. Turn them into numbers first, such as days since the "
            "first: (dates - dates.min()) / np.timedelta64(1, 'D')."
        )


def _refuse_date_columns(X: Table, names: np.ndarray | None) -> None:
    """The same for the columns of X."""
    if not is_table(X):
        refuse_dates(np.empty(0, dtype=getattr(X, "dtype", float)), "X")
        return
    for j, kind in enumerate(X.dtypes):
        temporal = getattr(kind, "is_temporal", None)  # polars
        if temporal() if temporal is not None else getattr(kind, "kind", "") in ("m", "M"):
            refuse_dates(
                np.empty(0, dtype="M8[ns]"), f"column {str(X.columns[j]) if names is None else names[j]!r} of X"
            )


def column_position(X: Table, task_column: str | int) -> int:
    """Where the task column stands."""
    if isinstance(task_column, (int, np.integer)) and not isinstance(task_column, bool):
        width = shape_of(X)[1]
        if not -width <= task_column < width:
            raise ValueError(f"task_column={task_column} is out of range: X has {width} columns.")
        return int(task_column) % width
    if not is_table(X):
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
        close = close_to(task_column, columns)
        hint = f"Did you mean {close[0]!r}?" if close else "Pass the name of the column that says the task."
    known = choices_of(task_column, columns)
    raise ValueError(f"task_column={task_column!r} is not a column of X. Columns: {known}. {hint}")


def split_off(X: Table, position: int) -> tuple[np.ndarray | Frame, Labels]:
    """(features, task labels) of a table or array with a task column."""
    if not is_table(X):
        values = np.asarray(X)
        return np.delete(values, position, axis=1), values[:, position]
    frame: Any = X  # pandas and polars have methods of their own
    others = [i for i in range(frame.shape[1]) if i != position]
    if hasattr(frame, "iloc"):
        return frame.iloc[:, others], frame.iloc[:, position]
    columns = list(frame.columns)
    return frame.select([columns[i] for i in others]), frame[columns[position]]


def place_name(j: int, position: Position) -> str:
    """The name of an array's feature j: its place in the X given, in which task columns count too."""
    for place in sorted(places_of(position)):
        j += j >= place
    return f"x{j}"


def places_of(position: Position) -> tuple[int, ...]:
    """The places of task columns, none, one or several."""
    return () if position is None else (position,) if isinstance(position, int) else position


def as_floats(
    X: Table, names: np.ndarray | None = None, position: Position = None, what: str = "X", narrow: bool = False
) -> Floats:
    """A 2-D float64 array, not yet checked for NaN; a value that is no number is named by its row and column. If `narrow`, a
    large float32 array stays one."""
    if is_sparse(X):
        return cast(Floats, as_sparse(X, what))  # who goes on with it takes either
    if is_table(X) and not hasattr(X, "iloc") and hasattr(X, "to_numpy"):
        X = X.to_numpy()  # polars
    try:
        with np.errstate(over="ignore"):  # a long double may become infinite, which is found later
            out: np.ndarray = check_array(
                X, dtype=[np.float64, np.float32], ensure_all_finite=False, order=None, input_name=what
            )
    except (ValueError, TypeError, OverflowError) as error:
        place = _first_non_number(X)
        if place is None:
            raise
        row, column, value = place
        name = place_name(column, position) if names is None else names[column]
        if isinstance(value, complex):
            raise ValueError(
                f"Complex data not supported: column {name!r} of {what}, row {row} holds {value!r}. Pass real numbers "
                "(e.g. real and imaginary parts as two columns)."
            ) from error
        if isinstance(error, OverflowError):
            raise ValueError(f"column {name!r} of {what}, row {row} is too large for a float. Rescale it.") from error
        raise type(error)(
            f"{error}. Column {name!r} of {what}, row {row} holds {value!r}, which is not a number: encode text columns "
            "(one-hot; X[name].astype('category') is encoded here), or name the column of task labels with task_column=."
        ) from error
    if out.dtype != np.float64 and not (narrow and out.nbytes > KEPT_ABOVE):
        out = out.astype(np.float64, order="K")
    return out


def as_sparse(X: Sparse, what: str) -> csr_array:
    """A sparse array by rows, in its own precision."""
    if X.dtype.kind not in "biuf":
        kind = "Complex data not supported: " if X.dtype.kind == "c" else ""
        raise ValueError(f"{kind}{what} must hold numbers, but is of type {X.dtype}.")
    check_places(X, what)
    kept = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    given: Any = X
    out: csr_array = csr_array(given, dtype=kept)
    if not out.has_canonical_format:
        out = out.copy()  # the arrays may be the caller's
        out.sum_duplicates()
    return out


def check_places(X: Sparse, what: str) -> None:
    """An error if a sparse array's indices lead outside of it: compiled code would follow them."""
    given: Any = X  # it depends on the format what attributes there are
    try:
        if X.format in ("csr", "csc", "bsr"):
            alike = type(given)(
                (given.data, given.indices, given.indptr), shape=X.shape
            )  # the check would trim the caller's
            alike.check_format(full_check=True)
        elif X.format == "coo" and given.nnz:
            for name, places, size in (("row", given.row, X.shape[0]), ("column", given.col, X.shape[1])):
                if len(places) != len(given.data) or places.min() < 0 or places.max() >= size:
                    raise ValueError(f"{name} indices must be from 0 to {size - 1}")
    except ValueError as error:
        raise ValueError(
            f"{what} is a damaged sparse array: {error}. Its indices were changed, or do not belong to its shape: build it "
            "again."
        ) from error


def _first_non_number(X: Table) -> tuple[int, int, object] | None:
    """(row, column, value) of the first entry that float() refuses."""
    values = np.asarray(X, dtype=object) if not hasattr(X, "to_numpy") else np.asarray(X.to_numpy(), dtype=object)
    if values.ndim != 2:
        return None
    for (row, column), value in np.ndenumerate(values):
        if isinstance(value, complex) and value.imag:
            return row, column, value
        if isinstance(value, complex):
            continue
        try:
            float(value)
        except (TypeError, ValueError, OverflowError):
            return row, column, value
    return None


def check_finite(X: Matrix, names: np.ndarray | None, what: str, hint: str = "") -> None:
    """An error that says where X, dense or sparse, holds NaN or infinity."""
    if issparse(X):
        _check_stored(X, names, what)
        return
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


def _check_stored(X: csr_array, names: np.ndarray | None, what: str) -> None:
    bad = np.flatnonzero(~np.isfinite(X.data))
    if bad.size:
        place = X.tocoo()
        row, column = int(place.row[bad[0]]), int(place.col[bad[0]])
        kind = "NaN" if np.isnan(place.data[bad[0]]) else "infinity"
        name = column if names is None else repr(names[column])
        raise ValueError(
            f"Input {what} contains {kind}: column {name}, row {row} is the first of {len(bad)} such value(s)."
        )


# ------------------------------------------------------------------ labels


def read_groups(groups: Labels, N: int) -> np.ndarray:
    """(N,) labels of groups of rows that stay together; numbers in place of labels that cannot be compared."""
    out = as_values(groups, "groups")
    if out.shape != (N,):
        raise ValueError(
            f"groups has {len(out) if out.ndim == 1 else f'shape {out.shape}'} entries but X has {N} rows."
        )
    if isinstance(groups, (list, tuple)):
        out = label_array(list(groups))
    missing = np.flatnonzero(missing_values(out))
    if missing.size:
        raise ValueError(f"the group of row {missing[0]} is missing. Give every row a group.")
    if out.dtype == object:
        try:
            np.unique(out)
        except TypeError:  # of several types
            return factorise(out, N)[1]
    return out


def factorise(task: Labels, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(labels, codes): the distinct task labels (categories in their order, others sorted) and each row's."""
    order = categories_of(task)
    values = as_values(task, "task")
    if isinstance(task, (list, tuple)) and values.ndim == 1:
        values = label_array(list(task))
    if values.ndim != 1:
        raise ValueError(f"task must be one label per row (1-D), but has shape {values.shape}.")
    if len(values) != rows:
        raise ValueError(f"task has {len(values)} labels but X has {rows} rows.")
    missing = missing_values(values)
    if missing.any():
        raise ValueError(
            f"task label missing in {int(missing.sum())} row(s), first in row {int(np.flatnonzero(missing)[0])}. "
            "Drop these rows or give them a label."
        )
    try:
        labels, codes = np.unique(values, return_inverse=True)
    except TypeError:  # labels of mixed types: in order of appearance
        seen: dict[Hashable, int] = {}
        codes = np.array([seen.setdefault(v, len(seen)) for v in values])
        labels = np.empty(len(seen), dtype=object)
        labels[:] = list(seen)
    if order is not None:
        by_category = order_of_labels(labels, order)
        inverse = np.empty_like(by_category)
        inverse[by_category] = np.arange(len(by_category))
        labels, codes = labels[by_category], inverse[codes]
    return labels, codes


def label_array(names: Sequence[Any]) -> np.ndarray:
    """Labels as an array that keeps them as they are: numpy would make 1 and "a" both text, a NaN among text "nan", whole
    numbers of more than 64 bits floats, and tuples rows."""
    out = np.empty(len(names), dtype=object)
    out[:] = names
    kinds = {type(name) for name in names}
    numbers = all(issubclass(kind, (int, float, np.number)) for kind in kinds)
    if kinds & {tuple, list} or (len(kinds) > 1 and not numbers):
        return out
    plain = np.asarray(names)
    if plain.dtype.kind in "mM":
        return plain
    exact = [name.item() if isinstance(name, np.generic) else name for name in names]  # numpy compares as floats
    if plain.dtype.kind == "f" and {type(name) for name in exact} <= {int}:
        return out
    same = all(a == b or a != a for a, b in zip(plain.tolist(), exact, strict=True))
    if not same and numbers:
        out[:] = exact
    return plain if same else out


def categories_of(task: Labels | None) -> list[Hashable] | None:
    """The categories of task labels that have an order of their own (pandas)."""
    kind: Any = getattr(task, "dtype", None)
    return list(kind.categories) if hasattr(kind, "categories") and not hasattr(task, "to_physical") else None


def order_of_labels(labels: np.ndarray, categories: list[Hashable] | None) -> np.ndarray:
    """Places of labels in the order of their categories; labels that are none come last, as they stand."""
    rank = {label: r for r, label in enumerate(categories or ())}
    return np.argsort([rank.get(label, len(rank)) for label in labels.tolist()], kind="stable")


def missing_values(values: np.ndarray) -> np.ndarray:
    """Which entries of a 1-D array are missing: NaN, NaT, None or pandas' NA."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind in "mM":
        return np.asarray(np.isnat(values))
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)

    def absent(v: object) -> bool:
        if isinstance(v, (float, np.floating, np.datetime64, np.timedelta64)):
            return bool(v != v)  # NaN, NaT
        return v is None or type(v).__name__ in ("NAType", "NaTType")

    return np.fromiter((absent(v) for v in values), dtype=bool, count=len(values))


def match_labels(known: np.ndarray, task: Labels, rows: int, unknown: str) -> np.ndarray:
    """Codes of the rows' tasks among the known ones; -1 for a new label, unless unknown == "error"."""
    labels, codes = factorise(task, rows)
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
    out: np.ndarray = to_known[codes]
    return out


@lru_cache(maxsize=4)
def _place_names(d: int, position: Position) -> np.ndarray:
    """Names of d features by their places, the task column being at another; kept, as many take milliseconds."""
    return np.array([place_name(j, position) for j in range(d)], dtype=object)


def read_numbers(X: Table, position: Position) -> tuple[Floats, np.ndarray]:
    """(feature values, feature names) of what has no task column any more, and no categories."""
    names = np.array([str(c) for c in X.columns], dtype=object) if is_table(X) else None
    _refuse_date_columns(X, names)
    values = as_floats(X, names, position, narrow=True)
    if names is None:  # named by their place in the X given
        names = _place_names(values.shape[1], position).copy()
    return values, names
