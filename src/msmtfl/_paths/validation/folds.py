"""The folds of a cross-validation: from what users give as `cv` to the samples that are held out.

The statistics of a training fold are those of all rows less those held out (`training`); centring and scaling are the fold's
own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from ..._data.copies import groups_of, remark_on_repeats
from ..._data.designs import AnyData, Folded
from ..._data.event_times import times_of
from ..._data.folds import TaskKFold
from ..._data.level_folds import LeaveTasksOut
from ..._data.tables import Labels, RandomState, Table, Targets, names_of
from ..._data.task_data import TaskData
from .held_out import Split

REDRAWS = 200  # of folds for a 2-D y in which rare tasks have few rows


class Splitter(Protocol):
    """scikit-learn's splitters, and what is like them."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[Any]:
        """Pairs of training and test rows."""


Pairs: TypeAlias = Iterable[tuple[Sequence[int] | np.ndarray, Sequence[int] | np.ndarray]]  # training and test rows
Folds: TypeAlias = int | Splitter | Pairs | None  # cv=


def read_splits(
    cv: Folds,
    X: Table,
    y: Targets,
    groups: Labels | None,
    data: AnyData,
    random_state: RandomState,
    new_tasks: bool = False,
) -> list[Any]:
    """The folds asked for: a number (stratified by task), a splitter, or pairs of row indices. `new_tasks`: whether folds
    may leave tasks out as a whole, as those of `LeaveTasksOut` do."""
    if not isinstance(data, TaskData):  # no rows at hand: folds were made before
        assert isinstance(data, Folded)
        return data.splits()
    if isinstance(cv, list) and cv and all(isinstance(split, Split) for split in cv):
        return cv  # read already
    N = data.X.shape[0]
    if groups is not None:
        groups = groups_of(groups, data.X)
    cv = read_cv(cv, random_state)
    leaves = isinstance(cv, LeaveTasksOut)
    if isinstance(cv, LeaveTasksOut):
        pairs: Any = _of_whole_tasks(cv, X, data, groups, new_tasks)
    else:
        pairs = _stratified(cv, data, groups) if by_task(cv) else list(check_cv(cv).split(X, y, groups))
    splits = []
    for f, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ValueError(f"cv must give pairs (training rows, test rows); fold {f} has {len(pair)} parts.")
        train, test = pair
        split = Split(_mask(train, N, f), _mask(test, N, f), groups=groups)
        if (split.train & split.test).any():
            row = int(np.argmax(split.train & split.test))
            raise ValueError(f"row {row} is both in the training rows and in the test rows of fold {f}.")
        lost = [i for i, task in enumerate(data.tasks) if not split.train[task.rows].any()]
        if lost and leaves:
            split = replace(split, left_out=np.array(lost))
        elif lost:
            raise ValueError(
                f"fold {f} leaves task(s) {names_of(data.labels[lost])} without training rows. Use cv=TaskKFold(...) or a "
                "number of folds, which keep every task in every training fold, or fewer folds. To predict new tasks a "
                "search takes cv=LeaveTasksOut(...)."
            )
        if not any(split.test[task.rows].any() for task in data.tasks):
            raise ValueError(f"fold {f} holds out no row that counts (test rows: {int(split.test.sum())}).")
        splits.append(split)
    if not splits:
        raise ValueError("cv gives no folds.")
    if groups is None:
        remark_on_repeats(data, splits)
    return splits


def _of_whole_tasks(
    cv: LeaveTasksOut, X: Table, data: TaskData, groups: np.ndarray | None, new_tasks: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Folds that hold out whole tasks."""
    if not new_tasks:
        raise ValueError(
            "cv=LeaveTasksOut(...) is for searches (the CV classes): folds are of known tasks here. compare_models says "
            "what to expect of new tasks with leave_one_task_out=True, or the name of a level."
        )
    if data.form != "long" or data.classes > 1 or data.survival:
        raise ValueError(
            "cv=LeaveTasksOut(...) needs a label per sample, numbers or two classes to predict: not a y with a column per "
            "task, more than two classes, or times until an event. Use a number of folds."
        )
    if groups is not None:
        raise ValueError("cv=LeaveTasksOut(...) holds out whole tasks: leave out groups=.")
    if cv.task is not None:
        return list(cv.split(X))
    fold, N = cv.deal(data.labels), data.X.shape[0]
    of_rows = np.full(N, -1, dtype=np.intp)
    for task, f in zip(data.tasks, fold.tolist(), strict=True):
        of_rows[task.rows] = f
    numbers = range(int(fold.max()) + 1)
    return [(np.flatnonzero((of_rows != f) & (of_rows >= 0)), np.flatnonzero(of_rows == f)) for f in numbers]


def read_cv(cv: Folds, random_state: RandomState) -> Folds:
    """A number of folds as TaskKFold; others as they are."""
    cv = 5 if cv is None else cv
    if not isinstance(cv, Integral) or isinstance(cv, bool):
        return cv
    if cv < 2:
        raise ValueError(f"cv must be at least 2 folds, got {cv}.")
    return TaskKFold(int(cv), random_state=random_state)


def by_task(cv: object) -> TypeGuard[TaskKFold]:
    """Whether folds are dealt out within the tasks of the data."""
    return isinstance(cv, TaskKFold) and cv.task is None and cv.task_column is None


def _mask(rows: Sequence[int] | np.ndarray, N: int, f: int) -> np.ndarray:
    out, rows = np.zeros(N, dtype=bool), np.asarray(rows, dtype=np.intp if len(rows) == 0 else None)
    try:
        out[rows] = True
    except IndexError as error:
        raise ValueError(f"fold {f}: {error}; X has {N} rows.") from error
    if rows.dtype != bool and len(rows) != out.sum():
        raise ValueError(f"fold {f} names a row twice. To count rows more than once use sample_weight.")
    return out


def _stratified(cv: TaskKFold, data: TaskData, groups: np.ndarray | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """TaskKFold on the rows that count, stratified by the task (of a 2-D y: by the set of tasks) they belong to."""
    sets = data.membership
    used = np.flatnonzero(sets.any(axis=1))
    if data.form == "wide":
        fewest = min(data.tasks, key=lambda task: len(task.rows))
        if len(fewest.rows) < cv.n_splits:
            raise ValueError(
                f"task {fewest.label!r} has {len(fewest.rows)} measured row(s), fewer than {cv.n_splits} folds. Use at most "
                "as many folds as the smallest task has rows, or leave that task out."
            )
        parts = _deal_until_whole(cv, sets[used], _chosen(groups, used))
    elif data.survival and groups is None:
        event = np.zeros(len(sets), dtype=bool)
        for task in data.tasks:
            event[task.rows] = times_of(task.y)[1]
        parts = list(cv.deal_within(data.labels, np.argmax(sets[used], axis=1), event[used]))
    else:
        labelled = TaskKFold(
            cv.n_splits,
            task=data.labels[np.argmax(sets[used], axis=1)],
            shuffle=cv.shuffle,
            random_state=cv.random_state,
        )
        parts = list(labelled.split(used, groups=_chosen(groups, used)))
    return [(used[train], used[test]) for train, test in parts]


def _deal_until_whole(
    cv: TaskKFold, sets: np.ndarray, groups: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Folds stratified by the set of tasks, drawn again while one of them leaves a rare task without training rows."""
    random = check_random_state(cv.random_state)
    again = TaskKFold(cv.n_splits, shuffle=cv.shuffle, random_state=random)
    strata = np.unique(sets, axis=0, return_inverse=True)[1].ravel()
    for _ in range(REDRAWS if cv.shuffle else 1):
        parts = list(again.deal_evenly(strata, groups))
        if all(sets[train].any(axis=0).all() for train, _ in parts):
            break
    return parts


def _chosen(groups: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if groups is None else np.asarray(groups)[rows]
