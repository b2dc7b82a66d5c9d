"""Statistics of all tasks as sums: what adds up, what is subtracted, and in which order tasks and features stand."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Self

import numpy as np

from ..._runtime.whole import whole_or_untouched
from ..designs import Floats
from ..tables import label_array, names_of, order_of_labels, warn_user
from .task_moments import ROUNDING, Sums, TaskMoments, impossible

NOISE = 1e-13  # what is left of a sum of squares after a subtraction, below this share of it, is rounding
FEW_DIGITS = 1e-7  # and below this one it has not all of 8 digits
NOT_ADDED = "Were these rows added before?"


class TaskSums:
    """Statistics of every task (`TaskMoments`), in the same features."""

    def __init__(self) -> None:
        self.features: np.ndarray | None = None
        self.named = False
        self._tasks: dict[Hashable, TaskMoments] = {}
        self.task_place: int | tuple[int, ...] | None = None  # of task columns in the first table
        self.seen: dict[Hashable, None] = {}  # all labels, also those that had no row that counts
        self.form = ""
        self.categories: list[Hashable] | None = None  # of the task labels, if these came with an order

    @property
    def tasks(self) -> np.ndarray:
        """Labels of the tasks, in the order in which they came."""
        labels = [label for label in self.seen | dict.fromkeys(self._tasks) if label in self._tasks]
        return label_array(labels)

    @property
    def d(self) -> int:
        """Number of features."""
        return 0 if self.features is None else len(self.features)

    @property
    def n(self) -> Floats:
        """Sum of the weights of every task's samples."""
        return np.array([self._tasks[label].n for label in self.tasks.tolist()])

    @property
    def rows(self) -> np.ndarray:
        """Number of every task's samples."""
        return np.array([self._tasks[label].rows for label in self.tasks.tolist()], dtype=int)

    def __getitem__(self, label: Hashable) -> TaskMoments:
        return self._tasks[label]

    def __contains__(self, label: Hashable) -> bool:
        return label in self._tasks

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} tasks, {int(self.rows.sum())} rows, {self.d} features)"

    def copy(self) -> Self:
        """Return a copy, to which batches can be added without changing this one.

        Returns
        -------
        Moments
            The copy.
        """
        out = type(self)()
        out.features, out.named, out.form = self.features, self.named, self.form
        out._tasks, out.seen, out.task_place = dict(self._tasks), dict(self.seen), self.task_place
        out.categories = self.categories
        return out

    def _of_tasks(self, features: np.ndarray, tasks: Mapping[Hashable, TaskMoments]) -> Self:
        """Statistics of some of these tasks in other features."""
        out = self.copy()
        out.features, out.named, out._tasks, out.task_place = features, False, dict(tasks), None
        out.seen = dict.fromkeys(tasks)
        return out

    def _check_form(self, d: int, form: str, what: str = "this batch") -> None:
        if self.features is not None and d != self.d:
            raise ValueError(f"{what} has {d} features, the batches before had {self.d}.")
        if self.form and form != self.form:
            kinds = {"single": "no task labels", "long": "task labels", "wide": "one column of y per task"}
            raise ValueError(f"{what} has {kinds[form]}, the batches before had {kinds[self.form]}.")

    def _merge(self, found: Mapping[Hashable, TaskMoments]) -> None:
        new = dict(self._tasks)
        for label, part in found.items():
            new[label] = new[label].merged(part) if label in new else part
        self._tasks = new

    def _names(self) -> list[str]:
        return [] if self.features is None else self.features.tolist()

    def sorted_tasks(self) -> np.ndarray:
        """Return the labels of the tasks in the order that a fit to the samples has.

        Categories are in their own order, other labels sorted if they can be, columns of y as they are.

        Returns
        -------
        ndarray of shape (m,)
            The labels.
        """
        if self.form == "wide":
            return self.tasks
        try:
            labels = np.unique(self.tasks)
        except TypeError:
            labels = self.tasks
        out: np.ndarray = labels[order_of_labels(labels, self.categories)]
        return out

    def __add__(self, other: Self) -> Self:
        out = self.copy()
        out += other
        return out

    @whole_or_untouched
    def __iadd__(self, other: Self) -> Self:
        other = self.matching(other)
        if self.features is None:
            self.features, self.named, self.form = other.features, other.named, other.form
        self.seen = self.seen | other.seen
        self.task_place = other.task_place if self.task_place is None else self.task_place
        self.categories = other.categories if self.categories is None else self.categories
        self._merge(other._tasks)
        return self

    def __sub__(self, other: Self) -> Self:
        """The statistics without rows that were added before. A task of which nothing is left goes."""
        other = self.matching(other)
        out = self.copy()
        for label, part in other._tasks.items():
            whole = out._tasks.get(label)
            if whole is None or part.rows > whole.rows or part.n > whole.n * (1 + ROUNDING):
                had = 0 if whole is None else whole.rows
                raise ValueError(f"task {label!r}: {part.rows} rows cannot be taken from {had}.")
            rest = self._less(label, whole, part)
            if rest is None:
                del out._tasks[label]
                out.seen.pop(label, None)
            else:
                out._tasks[label] = rest
        return out

    def _less(self, label: Hashable, whole: TaskMoments, part: TaskMoments) -> TaskMoments | None:
        """A task without some of its rows; None if these are all."""
        before = Sums(whole)
        if part.rows == whole.rows:
            if not before.equal(Sums(part)):
                raise ValueError(f"task {label!r}: as many rows are subtracted as were added, but not the same ones.")
            return None
        if whole.n - part.n <= 1e-15 * whole.n:
            raise ValueError(f"task {label!r}: no weight is left for {whole.rows - part.rows} row(s). {NOT_ADDED}")
        rest = whole.merged(part, -1)
        left = before.left(rest)
        names = [*(f"column {name!r}" for name in self.features), "the target"]  # type: ignore[union-attr]
        odd = impossible(left)
        if odd is not None:
            raise ValueError(f"task {label!r}, {names[odd]}: more is subtracted than was added. {NOT_ADDED}")
        share = left.diagonal()
        gone = share <= NOISE
        poor = np.flatnonzero(~gone & (share < FEW_DIGITS))
        if poor.size:
            warn_user(
                f"task {label!r}, {names[poor[0]]}: so little is left of its spread ({share[poor[0]]:.0e}) that digits are "
                "lost. Sum up the remaining rows instead."
            )
        return rest.flattened(gone)

    def matching(self, other: Self) -> Self:
        """Return other statistics with their features in the order of these.

        Parameters
        ----------
        other : Moments
            Statistics of the same features.

        Returns
        -------
        Moments
            The other statistics.
        """
        if not isinstance(other, TaskSums):
            raise TypeError(f"Moments can be combined with Moments, not with {type(other).__name__}.")
        if self.features is None or other.features is None:
            return other
        self._check_form(other.d, other.form, "the other")
        mine, theirs = self.features.tolist(), other.features.tolist()
        if mine == theirs:
            return other
        if sorted(mine) != sorted(theirs):
            odd = sorted(set(mine) ^ set(theirs))
            raise ValueError(f"the features differ: {names_of(odd)} are in one of the two only.")
        place = {name: k for k, name in enumerate(theirs)}
        order = np.array([place[name] for name in mine])
        out = other.copy()
        out.features = self.features
        out._tasks = {
            label: replace(
                part,
                mean=part.mean[order],
                low=part.low[np.append(order, len(order))],
                xx=part.xx[np.ix_(order, order)],
                xy=part.xy[order],
                levels=None if part.levels is None else part.levels.reordered(order),
            )
            for label, part in other._tasks.items()
        }
        return out
