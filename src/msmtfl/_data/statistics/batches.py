"""Batches of rows: their tasks, and folds on the fly."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from ..designs import Floats
from ..tables import Labels, Targets, warn_user
from ..task_data import Task
from ..tasks import check_weights, read_target, read_training
from .dealer import Dealer
from .parquet import Rows


@dataclass(frozen=True)
class Batch:
    """Rows of several tasks, checked: tasks with rows that count, labels of all, form (see `TaskData`), names of the
    features, whether they are a table's, the number of rows, and the categories of the labels, if they have an order."""

    tasks: list[Task]
    labels: list[Hashable]
    form: str
    names: np.ndarray
    named: bool
    rows: int
    categories: list[Hashable] | None

    def by_fold(self, dealer: Dealer | None) -> Iterable[Rows]:
        """Task by task, and fold by fold if rows are dealt out."""
        fold = None if dealer is None else _folds(self.tasks, self.rows, self.form, dealer)
        return (one for task in self.tasks for one in _by_fold(task, fold))


def batch_tasks(
    X: Floats, y: Targets, task: Labels | None, sample_weight: ArrayLike | None
) -> tuple[list[Task], list[Hashable], str]:
    """(tasks with rows that count, labels of all, form): in a batch a task may have none, even if it has a column of y."""
    target, names = read_target(y, X.shape[0])
    weight = check_weights(sample_weight, target.shape)
    if target.ndim == 1:
        data = read_training(X, target, task=task)
        labels = data.labels.tolist()
        found = [_counting(one, label, weight) for one, label in zip(data.tasks, labels, strict=True)]
        return [one for one in found if one is not None], labels, data.form
    labels = list(range(target.shape[1])) if names is None else names.tolist()
    measured = np.flatnonzero(~np.isnan(target).all(axis=0)).tolist()
    if not measured:
        warn_user(f"all {len(target)} rows of y are wholly missing and were left out.")
        return [], labels, "wide"
    tasks = read_training(X, target[:, measured], task=task).tasks
    columns = [weight if weight is None or weight.ndim == 1 else weight[:, i] for i in measured]
    found = [_counting(one, labels[i], w) for one, i, w in zip(tasks, measured, columns, strict=True)]
    return [one for one in found if one is not None], labels, "wide"


def _counting(task: Task, label: Hashable, weight: Floats | None) -> Task | None:
    """The rows of a task that have a weight; None if there are none."""
    if weight is None:
        return replace(task, label=label)
    w = weight[task.rows]
    used = w > 0
    if used.all():
        return replace(task, label=label, weight=w)
    return Task(label, task.X[used], task.y[used], w[used], task.rows[used]) if used.any() else None


def _folds(tasks: Sequence[Task], rows: int, form: str, dealer: Dealer) -> np.ndarray:
    """The fold of every row that counts; a row of a 2-D y goes to one fold, dealt out within the set of its tasks."""
    out = np.zeros(rows, dtype=np.intp)
    if form != "wide":
        for task in tasks:
            out[task.rows] = dealer.deal(task.label, len(task.rows))
        return out
    member = np.zeros((rows, len(tasks)), dtype=bool)
    for i, task in enumerate(tasks):
        member[task.rows, i] = True
    sets, which = np.unique(member, axis=0, return_inverse=True)
    for k, of_set in enumerate(sets):
        mine = np.flatnonzero(which.ravel() == k)
        out[mine] = dealer.deal(tuple(task.label for task, has in zip(tasks, of_set, strict=True) if has), len(mine))
    return out


def _by_fold(task: Task, fold: np.ndarray | None) -> Iterable[Rows]:
    """A task's rows, fold by fold."""
    if fold is None:
        yield Rows(task.label, 0, task.X, task.y, task.weight)
        return
    mine = fold[task.rows]
    for f in np.unique(mine).tolist():
        at = np.flatnonzero(mine == f)
        yield Rows(task.label, f, task.X[at], task.y[at], None if task.weight is None else task.weight[at])
