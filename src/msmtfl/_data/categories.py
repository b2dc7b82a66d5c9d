"""Categorical columns of a table as columns of 0 and 1, one for every level that occurs in the training data.

No level is left out for reference: the penalty makes the coefficients of a variable unique as long as it is penalised, and
treats all levels alike. What comes out is sparse where that is smaller; the levels are kept for `predict`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array, hstack

from .designs import Ints
from .tables import (
    Frame,
    Labels,
    Matrix,
    Table,
    TaskColumn,
    as_floats,
    factorise,
    is_table,
    missing_values,
    names_of,
    read_numbers,
)
from .task_levels import without_task

DENSE = 0.3  # share of numbers that are not 0 from which on a dense matrix is as good
ERROR, BASELINE = "error", "baseline"  # what is done with a category that was not in the training data


class Column(Protocol):
    """A column of pandas or polars."""

    @property
    def dtype(self) -> Any:
        """The type of its values."""


@dataclass(frozen=True)
class Encoding:
    """Which columns of a table are categorical, and which levels they have.

    Attributes
    ----------
    columns : the names of all columns that are features, in their order
    levels : {name: levels} of those that are categorical
    """

    columns: tuple[str, ...]
    levels: dict[str, list[Any]]

    @cached_property
    def counts(self) -> Ints:
        """(columns,): how many features each column makes."""
        return np.array([len(self.levels.get(name, (None,))) for name in self.columns], dtype=np.intp)

    @cached_property
    def features(self) -> np.ndarray:
        """The names of the features: a column's, or column=level."""
        names = [
            name if level is None else f"{name}={level}"
            for name in self.columns
            for level in self.levels.get(name, (None,))
        ]
        twice = [name for k, name in enumerate(names) if name in set(names[:k])] if len(set(names)) < len(names) else []
        if twice:
            raise ValueError(
                f"the levels of categorical columns make features {names_of(twice)}, but there are such already. Rename the "
                "columns or the levels."
            )
        return np.array(names, dtype=object)

    @cached_property
    def variables(self) -> list[str]:
        """The column that each feature comes from."""
        return [name for name, count in zip(self.columns, self.counts.tolist(), strict=True) for _ in range(count)]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """What is given per column, per feature."""
        return np.repeat(values, self.counts, axis=0)


def encoding_of(frame: Frame) -> Encoding | None:
    """That of a table of training data, if it has categorical columns."""
    names = [str(name) for name in frame.columns]
    levels = {
        name: coded(column, name)[0]
        for name, column in zip(names, _columns(frame), strict=True)
        if is_categorical(column.dtype)
    }
    return Encoding(tuple(names), levels) if levels else None


def is_categorical(dtype: object) -> bool:
    """Whether a column of pandas or polars is of categories."""
    return type(dtype).__name__ == "CategoricalDtype" or str(dtype).startswith(("Categorical", "Enum"))


def encoded(given: Frame, encoding: Encoding, unknown: str = ERROR) -> Matrix:
    """The features of a table. A category that was not in the training data is an error, or ("baseline") has 0 in the
    columns of all levels."""
    frame: Any = given  # pandas and polars have methods of their own
    blocks: list[Any] = []
    names, columns = [str(name) for name in frame.columns], _columns(frame)
    numeric: list[int] = []

    def take_numbers() -> None:
        if numeric:
            part = frame.iloc[:, numeric] if hasattr(frame, "iloc") else frame[[names[j] for j in numeric]]
            blocks.append(as_floats(part, np.array([names[j] for j in numeric], dtype=object)))
            numeric.clear()

    for j, (name, column) in enumerate(zip(names, columns, strict=True)):
        if name not in encoding.levels:
            numeric.append(j)
            continue
        take_numbers()
        blocks.append(_dummies(column, name, encoding.levels[name], unknown))
    take_numbers()
    return _together(blocks)


def read_features(
    X: Table,
    task: Labels | None,
    task_column: TaskColumn,
    encoding: Encoding | None = None,
    unknown: str = ERROR,
) -> tuple[Any, Labels | None, np.ndarray, Encoding | None]:
    """(feature values, task labels or None, feature names, what categorical columns were made of) of any accepted X.

    Without an `encoding` that is known, a table's categorical columns say themselves which levels there are.
    """
    frame, task, position = without_task(X, task, task_column)
    if encoding is None and is_table(frame):
        encoding = encoding_of(frame)
    elif encoding is not None and not is_table(frame):
        raise ValueError(
            f"the model was fitted to a table with the categorical column(s) {names_of(encoding.levels)}: pass a table with "
            "the same columns."
        )
    if encoding is None:
        values, names = read_numbers(frame, position)
        return values, task, names, None
    return encoded(frame, encoding, unknown), task, encoding.features, encoding


def _together(blocks: Sequence[Any]) -> Matrix:
    rows = blocks[0].shape[0]
    wholes: list[Any] = [csr_array(block) for block in blocks]
    if sum(block.nnz for block in wholes) > DENSE * rows * sum(block.shape[1] for block in wholes):
        return np.asarray(np.hstack([block.toarray() for block in wholes]))
    return csr_array(hstack(wholes, format="csr"))


def _dummies(column: Column, name: str, levels: Sequence[Any], unknown: str) -> csr_array:
    """(rows, levels)"""
    own, codes = coded(column, name)
    place = {level: k for k, level in enumerate(levels)}
    to_known = np.array([place.get(level, -1) for level in own], dtype=np.intp)
    new = [level for level, k in zip(own, to_known.tolist(), strict=True) if k < 0]
    if new and unknown == ERROR:
        row = int(np.flatnonzero(to_known[codes] < 0)[0])
        raise ValueError(
            f"column {name!r} holds {names_of(new)} (first in row {row}), which was not in the training data; known: "
            f"{names_of(levels)}. Fit again with such samples, leave them out, or set unknown_category='baseline', which "
            "counts them as none of the known categories."
        )
    at = to_known[codes]
    known = at >= 0
    ends = np.concatenate([[0], np.cumsum(known)])
    return csr_array((np.ones(int(ends[-1])), at[known], ends), shape=(len(at), len(levels)))


def coded(given: Column, name: str) -> tuple[list[Any], Ints]:
    """(levels that occur, the place of each row's): in the order that the categories have, or sorted."""
    column: Any = given  # likewise
    values: Any
    order: list[Hashable] | None = None
    if hasattr(column, "cat") and hasattr(column, "iloc") and is_categorical(column.dtype):  # pandas
        codes, names = np.asarray(column.cat.codes), list(column.cat.categories)
        order = names if column.cat.ordered else None
        _refuse_missing(codes < 0, name)
    elif hasattr(column, "to_physical") and is_categorical(column.dtype):  # polars
        _refuse_missing(column.is_null().to_numpy(), name)
        values = column.to_physical().to_numpy()
        _, first, codes = np.unique(values, return_index=True, return_inverse=True)
        names = [column[int(row)] for row in first]
        order = names if str(column.dtype).startswith("Enum") else None
    else:  # what is no category by its type: text or numbers that are to be told from known levels
        values = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column, dtype=object)
        _refuse_missing(missing_values(values), name)
        labels, codes = factorise(values, len(values))
        names = labels.tolist()
    codes = np.asarray(codes, dtype=np.intp).ravel()
    used = np.flatnonzero(np.bincount(codes, minlength=len(names)))
    ranked = used if order is not None else used[_sorted([names[k] for k in used.tolist()])]
    to_place = np.full(len(names), -1, dtype=np.intp)
    to_place[ranked] = np.arange(len(ranked))
    return [_plain(names[k]) for k in ranked.tolist()], to_place[codes]


def _sorted(names: list[Any]) -> list[int]:
    try:
        return sorted(range(len(names)), key=lambda k: names[k])
    except TypeError:  # of several types
        return sorted(range(len(names)), key=lambda k: str(names[k]))


def _plain(level: Hashable) -> Any:
    return level.item() if isinstance(level, np.generic) else level


def _refuse_missing(missing: np.ndarray, name: str) -> None:
    if missing.any():
        raise ValueError(
            f"column {name!r} has no category in {int(missing.sum())} row(s), first in row {int(np.argmax(missing))}. Drop "
            "these rows, or make what is missing a category of its own."
        )


def _columns(given: Frame) -> list[Any]:
    """The columns of a table of pandas or polars, in their order."""
    frame: Any = given
    if hasattr(frame, "iloc"):
        return [frame.iloc[:, j] for j in range(frame.shape[1])]
    return [frame[name] for name in frame.columns]


def check_unknown(unknown: object) -> None:
    if unknown not in (ERROR, BASELINE):
        raise ValueError(f"unknown_category must be 'error' or 'baseline', got {unknown!r}.")


def of_model(model: object) -> Encoding | None:
    """That of a fitted model, which keeps its levels as `categories_`."""
    levels = getattr(model, "categories_", None)
    if levels is None:
        return None
    features = [str(name) for name in getattr(model, "features_", ())]
    made = {name: [f"{name}={level}" for level in of_column] for name, of_column in levels.items()}
    columns: list[str] = []
    while features:
        name = next((one for one, names in made.items() if names and features[: len(names)] == names), features[0])
        columns.append(name)
        del features[: len(made.get(name, (name,)))]
    return Encoding(tuple(columns), dict(levels))
