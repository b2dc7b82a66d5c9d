"""Tasks that several columns name: a school of a region, a drug in a hospital.

The label of such a task is text, the values of its levels with " / " between them: "north / school 7". Whoever reads a
table with several task columns makes these labels (`joined`); what the levels of tasks are is read from the labels
themselves (`TaskLevels.of`), so that data in any form, files and predictions need nothing more than labels.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .designs import Ints
from .tables import (
    Labels,
    Position,
    Table,
    TaskColumn,
    column_position,
    factorise,
    names_of,
    native,
    places_of,
    split_off,
    unmasked,
    warn_user,
)

SEPARATOR = " / "


def label_of(given: Hashable) -> Hashable:
    """A task's label as it stands in `tasks_`; of several levels it may be given as the tuple of their values."""
    return SEPARATOR.join(map(_text, given)) if isinstance(given, tuple) and len(given) > 1 else given


def joined(columns: Sequence[Labels], names: Sequence[Hashable], rows: int) -> np.ndarray:
    """(rows,) labels of tasks, from a column of labels for each level."""
    texts: list[np.ndarray] = []
    for column, name in zip(columns, names, strict=True):
        try:
            labels, codes = factorise(column, rows)
        except ValueError as error:
            raise ValueError(f"{error} This is level {name!r} of the task.") from error
        known = [_text(label) for label in labels.tolist()]
        if len(set(known)) < len(known):
            twice = next(text for k, text in enumerate(known) if text in known[:k])
            raise ValueError(f"level {name!r} has several values that read {twice!r}: give them different names.")
        for k, text in enumerate(known):
            if SEPARATOR in text:
                row = int(np.flatnonzero(codes == k)[0])
                raise ValueError(
                    f"level {name!r} has the value {text!r} (first in row {row}): {SEPARATOR!r} separates levels in the "
                    "labels of tasks. Write it otherwise."
                )
        texts.append(np.array(known, dtype=object)[codes])
    together = list(zip(*texts, strict=True))
    known_pairs = {pair: SEPARATOR.join(pair) for pair in dict.fromkeys(together)}
    return np.array([known_pairs[pair] for pair in together])


def _text(label: Hashable) -> str:
    """How a value reads: 3.0 as 3, as a column of whole numbers in which one is missing elsewhere has floats."""
    if isinstance(label, float) and label.is_integer() and abs(label) < 2**53:
        return str(int(label))
    return str(label)


def without_task(X: Table, task: Labels | None, task_column: TaskColumn) -> tuple[Any, Labels | None, Position]:
    """(the features as they are given, task labels or None, the place of the task column) of any accepted X. Of several
    task columns, or columns of labels beside X, labels are made that name the levels, and there are several places."""
    features: Any = unmasked(native(X))
    if task_column is None:
        return features, _together(task), None
    if task is not None:
        raise ValueError("pass either task_column= (a column of X) or task= (labels beside X), not both.")
    if issparse(features):
        raise ValueError("a sparse X has no task column: pass the labels as task=, and task_column=None.")
    position = positions_of(features, task_column)
    columns = [split_off(features, place)[1] for place in places_of(position)]
    for place in sorted(places_of(position), reverse=True):
        features = split_off(features, place)[0]
    if features.shape[1] == 0:
        raise ValueError("X has no features beside the task column. Pass at least one.")
    if isinstance(position, int):
        return features, columns[0], position
    names = task_column if isinstance(task_column, (list, tuple)) else [task_column]
    return features, joined(columns, names, features.shape[0]), position


def positions_of(X: Table, task_column: TaskColumn) -> Position:
    """Where the task column stands, or the columns of its levels."""
    if task_column is None:
        return None
    if np.ndim(task_column) == 1 and not isinstance(task_column, (list, tuple)):
        names = np.asarray(task_column).tolist()
        raise ValueError(f"task_column must be a name, or a list of names: give {names!r}, not an array.")
    if isinstance(task_column, (str, int, np.integer)) or not isinstance(task_column, Sequence):
        return column_position(X, task_column)
    found = [column_position(X, name) for name in task_column]
    if len(found) < 2 or len(set(found)) < len(found):
        raise ValueError(
            f"task_column={list(task_column)!r} must name several columns, each once: those of the levels of a task, from "
            "the widest on. Of tasks with one level give the name itself."
        )
    return tuple(found)


def has_levels(labels: np.ndarray) -> bool:
    """Whether labels of tasks name several levels: all of them as many, the upper ones of which group the tasks."""
    if not all(isinstance(label, str) for label in labels.tolist()):
        return False
    parts = [label.split(SEPARATOR) for label in labels.tolist()]
    if {len(one) for one in parts} != {len(parts[0])} or len(parts[0]) < 2:
        return False
    return any(1 < len({one[k] for one in parts}) < len(parts) for k in range(len(parts[0]) - 1))


def _together(task: Labels | None) -> Labels | None:
    """Labels given beside X; of several columns of them those that name all levels."""
    given: Any = native(task)
    names: list[Any] = []
    columns: list[Any] = []
    if hasattr(given, "columns") and len(getattr(given, "shape", ())) == 2:
        names = list(given.columns)
        columns = [given[name] for name in names]
    elif isinstance(given, np.ndarray) and given.ndim == 2:
        columns, names = list(given.T), [f"level {k + 1}" for k in range(given.shape[1])]
    elif getattr(given, "nlevels", 1) > 1:  # the index of a table
        columns = [given.get_level_values(k) for k in range(given.nlevels)]
        names = [f"level {k + 1}" if name is None else name for k, name in enumerate(given.names)]
    return task if len(columns) < 2 else joined(columns, names, len(given))


@dataclass(frozen=True)
class TaskLevels:
    """The levels of tasks.

    Attributes
    ----------
    names : of the levels, from the widest
    values : for each level its values, as text if there are several levels, else the labels of the tasks
    codes : (m, L) the value of every task at every level, as a place in `values`
    classes : as many problems stand side by side for every task; each has parts of its own
    """

    names: tuple[str, ...]
    values: tuple[np.ndarray, ...]
    codes: Ints
    classes: int = 1

    @classmethod
    def of(cls, labels: np.ndarray, names: Sequence[str] | None = None, nested: bool | None = None) -> TaskLevels:
        """Those of tasks with these labels.

        `nested`: whether a value belongs to those above it, so that "1" of one region is another school than "1" of the
        next one; None: it is the same value everywhere, with a warning where one is found under several.
        """
        texts = [label.split(SEPARATOR) if isinstance(label, str) else [label] for label in labels.tolist()]
        counts = {len(parts) for parts in texts}
        if len(counts) > 1:
            first = labels.tolist()[0]
            other = next(
                label for label, parts in zip(labels.tolist(), texts, strict=True) if len(parts) != len(texts[0])
            )
            raise ValueError(
                f"task {first!r} has {len(texts[0])} level(s), task {other!r} has another number: all labels must name the "
                f"same levels, with {SEPARATOR!r} between them."
            )
        (L,) = counts
        names = tuple(str(name) for name in names or ()) if names and len(names) == L else ()
        names = names or (("task",) if L == 1 else tuple(f"level {k + 1}" for k in range(L)))
        if L == 1:
            return cls(names, (labels,), np.arange(len(labels), dtype=np.intp)[:, None])
        values, codes = [], np.empty((len(texts), L), dtype=np.intp)
        for level in range(L):
            own = [parts[level] for parts in texts]
            if level and nested:
                own = [SEPARATOR.join(parts[: level + 1]) for parts in texts]
            elif level and nested is None:
                _warn_of_crossing(own, [parts[level - 1] for parts in texts], names[level], names[level - 1])
            known, codes[:, level] = np.unique(np.array(own), return_inverse=True)
            values.append(known)
        return cls(names, tuple(values), codes)

    def only(self, some: Ints) -> TaskLevels:
        """Those of some of the tasks, with the values that these have."""
        found = [np.unique(codes, return_inverse=True) for codes in self.codes[some].T]
        values = tuple(values[used] for values, (used, _) in zip(self.values, found, strict=True))
        codes = np.stack([codes.ravel() for _, codes in found], axis=1).astype(np.intp)
        return TaskLevels(self.names, values, codes, self.classes)

    def places_in(self, some: Ints, others: Ints) -> Ints:
        """(others, L): which of the parts (see `blocks`) of a fit to some of the tasks are those of the values of others;
        -1 where none has the value."""
        out, first = np.full((len(others), self.codes.shape[1]), -1, dtype=np.intp), 1
        for k, codes in enumerate(self.codes.T):
            used = np.unique(codes[some])
            known = np.isin(codes[others], used)
            out[known, k] = first + np.searchsorted(used, codes[others][known])
            first += len(used)
        return out

    @property
    def counts(self) -> Ints:
        """(L,): how many values every level has."""
        return np.array([len(values) for values in self.values], dtype=np.intp)

    @property
    def blocks(self) -> Ints:
        """(m, 1 + L): the parts that a task's coefficients are sums of, 0 being what all have in common, then the values of
        the levels, one level after the other. Of K classes (m K, 1 + L): every part is one of K after each other."""
        first = 1 + np.concatenate([[0], np.cumsum(self.counts)[:-1]])
        plain = np.concatenate([np.zeros((len(self.codes), 1), dtype=np.intp), first + self.codes], axis=1)
        of_classes = self.classes * plain[:, None] + np.arange(self.classes)[:, None]
        return np.asarray(of_classes.reshape(-1, plain.shape[1]))

    @property
    def is_nested(self) -> bool:
        """Whether every value is found under one value of the level above only."""
        pairs = zip(self.codes.T[:-1], self.codes.T[1:], strict=True)
        return all(len(np.unique(np.stack([up, low]), axis=1).T) == low.max() + 1 for up, low in pairs)


def _warn_of_crossing(own: list[str], above: list[str], level: str, upper: str) -> None:
    """That a value occurs under several values of the level above, unless that is the rule."""
    under: dict[str, list[str]] = {}
    for value, up in zip(own, above, strict=True):
        if up not in under.setdefault(value, []):
            under[value].append(up)
    several = [value for value, ups in under.items() if len(ups) > 1]
    if several:
        warn_user(
            f"{len(several)} of {len(under)} values of {level!r} occur under several values of {upper!r}, as {several[0]!r} "
            f"under {names_of(under[several[0]])}: the levels are taken as crossed, with one effect of {several[0]!r} "
            f"wherever it occurs. If these are different {level}s of the same name set nested=True; to do without this "
            "warning, nested=False."
        )
