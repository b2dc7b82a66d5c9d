"""On the workers: what a partition holds, read and checked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._data.statistics.moments import Moments, add_batch
from .._data.tables import categories_of, column_position, is_table, opened, order_of_labels, place_name, split_off
from .._runtime.progress import one_blas_thread


@dataclass(frozen=True)
class Layout:
    """What the first partition is like, and all must be: features (d,), the task column's place, form (see `TaskData`), a
    table's columns as given, and the order of tasks that are categories."""

    features: np.ndarray
    position: int | None
    form: str
    columns: list[Any] | None
    categories: list[Any] | None = None

    @property
    def d(self) -> int:
        return len(self.features)

    def moments(self) -> Moments:
        """Statistics of no rows yet, to which only partitions like the first can be added."""
        out = Moments()
        out.features, out.named, out.form = self.features, self.columns is not None, self.form
        out.categories = self.categories
        return out

    def in_order(self, labels: np.ndarray) -> np.ndarray:
        """Sorted labels, in the order that a local fit has."""
        return labels[order_of_labels(labels, self.categories)]


@contextlib.contextmanager
def _in_partition(place: int) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"partition {place}: {error}") from error


def _open(X: Any, y: Any, task: Any, weight: Any) -> tuple[Any, Any, Any, Any]:
    """A part's content; a future of a list holds (X, y[, task[, weight]])."""
    if y is None:
        if not isinstance(X, (tuple, list)) or not 2 <= len(X) <= 4:
            raise ValueError("a future must hold (X, y), (X, y, task) or (X, y, task, sample_weight).")
        X, y, task, weight = (*X, None, None)[:4]
    named = [one for one in (y, task, weight) if isinstance(one, str)]
    y, task, weight = (X[one] if isinstance(one, str) else one for one in (y, task, weight))
    X = X.drop(columns=named) if named else X
    X = opened(X)
    for name, other in (("y", y), ("task", task), ("sample_weight", weight)):
        if other is not None and np.ndim(other) and len(other) != X.shape[0]:
            raise ValueError(f"{X.shape[0]} rows of X, but {len(other)} of {name}.")
        if _in_another_order(X, other):
            raise ValueError(
                f"the rows of {name} stand in another order than those of X: pass {name} as a column of X."
            )
    return X, y, task, weight


def _in_another_order(X: Any, other: Any) -> bool:
    """Whether two tables have the same index in another order (a shuffle does not promise one)."""
    if not (hasattr(X, "iloc") and hasattr(other, "iloc")) or X.index.equals(other.index):
        return False
    return bool(np.array_equal(np.sort(X.index), np.sort(other.index)))


def layout_of(X: Any, y: Any, task: Any, weight: Any, task_column: Any) -> Layout:
    """Of the first partition, which may be empty."""
    with _in_partition(0):
        X, y, task, _ = _open(X, y, task, weight)
        position = None if task_column is None else column_position(X, task_column)
        columns = list(X.columns) if is_table(X) else None
        places = [j for j in range(X.shape[1]) if j != position]
        names = [place_name(k, position) if columns is None else str(columns[j]) for k, j in enumerate(places)]
        labels = task if position is None else split_off(X, position)[1]
        form = "wide" if np.ndim(y) == 2 else "single" if labels is None else "long"
        return Layout(np.array(names, dtype=object), position, form, columns, categories_of(labels))


# ------------------------------------------------------------------ statistics


@dataclass(frozen=True)
class KnownFolds:
    """Stands in for a `Dealer` where the folds of a partition's rows are known: by task, in the order of its rows."""

    folds: int
    fold_by_task: dict[Any, np.ndarray]

    def deal(self, label: Any, count: int) -> np.ndarray:
        return self.fold_by_task[label][:count]


def statistics_of(
    place: int, layout: Layout, X: Any, y: Any, task: Any, weight: Any, task_column: Any, dealer: Any
) -> list[Moments]:
    """The Moments of one partition: of all rows, or of every fold."""
    parts = [layout.moments() for _ in range(1 if dealer is None else dealer.folds)]
    with _in_partition(place), one_blas_thread():
        X, y, task, weight = _open(X, y, task, weight)
        add_batch(parts, X, y, task=task, task_column=task_column, sample_weight=weight, dealer=dealer)
    return parts


def add_up(some: list[list[Moments]]) -> list[Moments]:
    out = [moments.copy() for moments in some[0]]
    for other in some[1:]:
        for mine, theirs in zip(out, other, strict=True):
            mine += theirs
    return out


# ------------------------------------------------------------------ rows


Piece = tuple[Any, Floats, Floats | None]  # X, y, weight of some rows of a task


def pieces_of(
    place: int, layout: Layout, X: Any, y: Any, task: Any, weight: Any, task_column: Any
) -> dict[Any, Piece | None]:
    """The rows of every task in a partition; None for a task that has none with a weight."""
    with _in_partition(place):
        X, y, task, weight = _open(X, y, task, weight)
        if X.shape[0] == 0:
            return {}
        batch = layout.moments().read(X, y, task=task, task_column=task_column, sample_weight=weight)
    found = {one.label: (one.X, one.y, one.weight) for one in batch.tasks}
    return {label: found.get(label) for label in batch.labels}


def size_of(X: Any) -> int:
    """Bytes of a dense or sparse array."""
    return X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes


def count(*part: Any) -> dict[Any, tuple[int, int]]:
    """{task: (rows, bytes)} of a partition."""
    found = pieces_of(*part)
    return {label: (0, 0) if one is None else (len(one[1]), size_of(one[0])) for label, one in found.items()}


def pick(found: dict[Any, Piece | None], label: Any) -> Piece | None:
    return found[label]
