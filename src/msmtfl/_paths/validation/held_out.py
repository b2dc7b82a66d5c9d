"""Errors of a grid's solutions on the samples that a fold holds out, per task and point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import issparse

from ..._data.designs import Floats, Ints
from ..._data.task_data import Task, TaskData
from ..solutions import Solutions, TaskCoefs
from .scorers import Scorer

MOST = 0.3  # of the features in use: picking them takes longer than going over all
AT_ONCE = 2**20  # held-out predictions made together
COPIED = 2**24  # entries of dense X up to which a fold keeps what it holds out, so that tasks are measured together

# Is told mse and weight as of `measure`, and by problem (a task, or one of its classes) the predictions (rows, places)
# of the rows held out.
Record: TypeAlias = Callable[["Split", TaskData, Solutions, Floats, Floats, list[Floats]], None]


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows held out, both (N,) bool; who asks for more than mean errors is told of the solutions on
    the training rows (`record`), once they have been measured. `groups` (N,) are those that folds keep together, `left_out`
    places of tasks that have no training rows."""

    train: np.ndarray
    test: np.ndarray
    record: Record | None = field(default=None, repr=False, compare=False)
    groups: np.ndarray | None = field(default=None, repr=False, compare=False)
    left_out: Ints | None = field(default=None, repr=False, compare=False)

    def measure(
        self, data: TaskData, surface: Solutions, scorer: Scorer | None, held: Callable[[], RowsHeldOut] | None = None
    ) -> tuple[Floats, Floats, Floats | None]:
        """Mean squared errors (m, K, L) on the rows held out, their weights (m,), and a scorer's scores (K, L). Who measures
        more than once keeps the rows held out."""
        noted: list[Floats] | None = None if self.record is None else []
        held = partial(RowsHeldOut, data, self) if held is None else held
        mse, weight, scores = _measure(data, self, surface, scorer, noted, held)
        if self.record is not None and noted is not None:
            self.record(self, data, surface, mse, weight, noted)
        return mse, weight, scores


def _measure(
    data: TaskData,
    split: Split,
    surface: Solutions,
    scorer: Scorer | None,
    noted: list[Floats] | None,
    held: Callable[[], RowsHeldOut],
) -> tuple[Floats, Floats, Floats | None]:
    """See `Split.measure`; predictions are added to `noted`."""
    places, back = surface.places_in_use()
    mse, weight = np.full((data.m, len(places) + 1), np.nan), np.zeros(data.m)  # the last for points not solved
    predictions = np.full((len(places), len(split.test), *data.width), np.nan) if scorer is not None else None
    problem = surface.problem
    assert problem is not None
    if scorer is None and problem.loss.squared and together(data, len(places)):
        weight, mse[:, :-1] = _errors_together(data, held(), surface, places, noted)
        return mse[:, back], weight, None
    for i, task in enumerate(data.tasks):
        rows = np.flatnonzero(split.test[task.rows])
        of_task = np.empty((len(rows), len(places))) if noted is not None else None
        if noted is not None and of_task is not None:
            noted.append(of_task)
        if rows.size == 0:
            continue

        def note(
            some: Ints, fitted: Floats, task: Task = task, i: int = i, rows: Ints = rows, out: Any = of_task
        ) -> None:
            if out is not None:
                out[np.searchsorted(rows, some)] = fitted
            if predictions is not None:
                column = (i % data.width[0],) if data.width else ()
                predictions[(slice(None), task.rows[some], *column)] = fitted.T

        measure = partial(problem.held_out, i)
        W, intercepts = surface.of_task(i), surface.intercepts_of(i)
        if not problem.loss.levelled:
            train = np.flatnonzero(split.train[task.rows])
            weight[i], mse[i, :-1] = whole_task_errors(task, train, rows, W, places, problem.held_out_of_task, note)
            continue
        weight[i], mse[i, :-1] = task_errors(task, rows, W, intercepts, places, measure, note)
    scores = None
    if predictions is not None and problem.classes_together:
        mse[:, :-1] = _class_losses(data, split.test, predictions)
    if scorer is not None and predictions is not None:
        scores = np.array([*(scorer(values, split.test) for values in predictions), np.nan])[back]
    return mse[:, back], weight, scores


def _class_losses(data: TaskData, test: np.ndarray, predictions: Floats) -> Floats:
    """(m, points): the mean log-losses of rows held out, shared out among the classes of a task: those of rows of the class.
    Predictions (points, N, columns) are proportional to the probabilities of classes."""
    out, K = np.full((data.m, len(predictions)), np.nan), data.classes
    for i, task in enumerate(data.tasks):
        rows = np.flatnonzero(test[task.rows])
        if rows.size == 0:
            continue
        places = np.arange(i - i % K, i - i % K + K) % data.width[0]
        p = predictions[:, task.rows[rows]][:, :, places]
        share = np.maximum(p[:, :, i % K] / p.sum(axis=2), np.finfo(float).tiny)
        weights = np.ones(len(rows)) if task.weight is None else task.weight[rows]
        out[i] = np.where(task.y[rows] > 0.5, -np.log(share), 0.0) @ weights / weights.sum()
    return out


def together(data: TaskData, points: int) -> bool:
    """Whether there is room for measuring all tasks at once, rather than picking each one's rows anew."""
    if issparse(data.X) or data.X.size > COPIED:
        return False
    N = sum(len(task.rows) for task in data.tasks)
    return max(N, data.d * data.m) * points <= COPIED


def _errors_together(
    data: TaskData, held: RowsHeldOut, surface: Solutions, places: Ints, noted: list[Floats] | None
) -> tuple[Floats, Floats]:
    """The weights (m,) of the rows held out, and the mean squared errors (m, len(places)) there of some solutions; NaN where
    a task has no such rows. Predictions are added to `noted`."""
    weight, mse = np.zeros(data.m), np.full((data.m, len(places)), np.nan)
    total = weight[held.some] = np.add.reduceat(held.weights, held.starts)
    fitted = held.fitted(surface, places)
    errors = held.weights[:, None] * (held.y[:, None] - fitted) ** 2
    mse[held.some] = np.add.reduceat(errors, held.starts, axis=0) / total[:, None]
    if noted is not None:
        ends = dict(zip(held.some, held.bounds, strict=True))
        noted += [fitted[slice(*ends.get(i, (0, 0)))] for i in range(data.m)]
    return weight, mse


class RowsHeldOut:
    """The rows that a fold holds out, of all tasks one after the other: the tasks that have some, where each begins, X, y,
    weights and offsets."""

    def __init__(self, data: TaskData, split: Split):
        rows = [np.flatnonzero(split.test[task.rows]) for task in data.tasks]
        self.some = [i for i, of_task in enumerate(rows) if of_task.size]
        both = [(data.tasks[i], rows[i]) for i in self.some]
        sizes = np.array([len(at) for _, at in both])
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.bounds = list(zip(self.starts.tolist(), np.cumsum(sizes).tolist(), strict=True))
        self.of_task = np.repeat(np.arange(len(self.some)), sizes)
        self.X = np.empty((int(sizes.sum()), data.d), dtype=np.result_type(*(task.X for task, _ in both)))
        for (task, at), (low, high) in zip(both, self.bounds, strict=True):
            np.take(task.X, at, axis=0, out=self.X[low:high], mode="clip")
        self.y = np.concatenate([task.y[at] for task, at in both])
        self.weights = np.concatenate(
            [np.ones(len(at)) if task.weight is None else task.weight[at] for task, at in both]
        )
        self.offset = np.concatenate(
            [np.zeros(len(at)) if task.offset is None else task.offset[at] for task, at in both]
        )

    def fitted(self, surface: Solutions, places: Ints) -> Floats:
        """(rows, len(places)): predictions of some solutions."""
        coefs = surface.coefs(places)
        out, X = np.empty((len(self.y), len(coefs))), self.X
        by_task = np.ascontiguousarray(coefs.transpose(1, 2, 0))
        used = np.flatnonzero(by_task.any(axis=(0, 2)))
        if len(used) <= MOST * X.shape[1]:
            X, by_task = X[:, used], by_task[:, used]
        for i, (low, high) in zip(self.some, self.bounds, strict=True):
            np.matmul(X[low:high], by_task[i], out=out[low:high])
        intercepts = np.array([surface.intercepts_at(i, places, coefs[:, i]) for i in self.some])
        out += intercepts[self.of_task] + self.offset[:, None]
        return out


def task_errors(
    task: Task,
    rows: Ints,
    W: TaskCoefs,
    intercepts: Floats,
    places: Ints,
    measure: Callable[[Floats, Floats], tuple[Floats, Floats]] = lambda y, f: ((y - f) ** 2, f),
    note: Callable[[Ints, Floats], None] = lambda some, fitted: None,
) -> tuple[float, Floats]:
    """The weight of some of a task's rows, and the mean errors (len(places),) there of some of the solutions.
    `measure` makes errors (by default squared) and predictions of targets (rows, 1) and linear predictions (rows,
    len(places)); `note` is told rows and predictions for them."""
    used, scattered = W.used(), issparse(task.X)
    most = not scattered and len(used) > MOST * W.shape[1]
    coefs, intercepts = W.dense(places, None if most else used).T, intercepts[places]
    weights = np.ones(len(rows)) if task.weight is None else task.weight[rows]
    weight, mse = float(weights.sum()), np.zeros(len(places))
    height = max(1, AT_ONCE // len(places))
    for low in range(0, len(rows), height):  # (rows x points) at once would outgrow X
        some = rows[low : low + height]
        rows_of_x = task.X[some] if most else task.X[some][:, used] if scattered else task.X[np.ix_(some, used)]
        linear = rows_of_x @ coefs + intercepts
        if task.offset is not None:
            linear += task.offset[some, None]
        errors, fitted = measure(task.y[some, None], linear)
        with np.errstate(over="ignore"):  # errors of counts predicted beyond the range of floats
            mse += weights[low : low + height] @ errors / weight
        note(some, fitted)
    return weight, mse


def whole_task_errors(
    task: Task,
    train: Ints,
    rows: Ints,
    W: TaskCoefs,
    places: Ints,
    measure: Callable[[Floats, Floats, np.ndarray, Floats], Floats],
    note: Callable[[Ints, Floats], None],
) -> tuple[float, Floats]:
    """As `task_errors`, of a loss that the rows of a task have together: what rows held out add to that of the training
    rows. `measure` is given targets, weights, which rows are held out, and linear predictions; `note` is told rows and
    their errors."""
    every = np.sort(np.concatenate([train, rows]))
    out = np.isin(every, rows)
    weights = np.ones(len(every)) if task.weight is None else task.weight[every]
    used = W.used()
    coefs, X = W.dense(places, used).T, task.X[every][:, used]
    beside = 0.0 if task.offset is None else task.offset[every, None]
    total, mean = float(weights[out].sum()), np.zeros(len(places))
    width = max(1, AT_ONCE // len(every))
    errors = np.empty((len(rows), len(places)))
    for low in range(0, len(places), width):
        some = slice(low, low + width)
        linear = np.asarray(X @ coefs[:, some]) + beside
        errors[:, some] = measure(task.y[every], weights, out, linear)
        mean[some] = weights[out] @ errors[:, some] / total
    note(every[out], errors)
    return total, mean
