"""Samples of several tasks one below the other, and one model for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._data.folds import TaskKFold
from ..._data.task_data import Task, TaskData
from ..._paths.conformal import FoldFit
from ..regression import MultiTaskLinear
from .added import AddsTasks
from .baseline import Solved, Tried, given_folds, held_out_means, what_was_tried


class LinearBaseline(AddsTasks, MultiTaskLinear):
    """A baseline for numbers says how it makes coefficients (m, d) of the tasks, and fits without each fold (`_coefs`)."""

    def _coefs(self, data: TaskData, groups: np.ndarray | None) -> tuple[Floats, list[FoldFit]]:
        raise NotImplementedError

    def _solve(self, data: TaskData, groups: np.ndarray | None) -> Solved:
        data = data.less_offset()  # squared errors: an offset is a matter of the target
        W, without = self._coefs(data, groups)
        means = [weighted_means(one.X, one.y, one.weight) for one in data.tasks]
        return W, np.array([y_mean - w @ x_mean for w, (x_mean, y_mean) in zip(W, means, strict=True)]), without


def weighted_means(X: Floats, y: Floats, weight: Floats | None) -> tuple[Floats, float]:
    return np.average(X, axis=0, weights=weight), float(np.average(y, weights=weight))


@dataclass(frozen=True)
class Stack:
    """Rows of several tasks one below the other: which task and which row of the data each is."""

    X: Floats
    y: Floats
    weight: Floats
    task: np.ndarray
    row: np.ndarray
    offset: Floats

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> Stack:
        weights = [np.ones(len(task.y)) if task.weight is None else task.weight for task in tasks]
        return cls(
            np.concatenate([task.X for task in tasks]),
            np.concatenate([task.y for task in tasks]),
            np.concatenate(weights),
            np.repeat(np.arange(len(tasks)), [len(task.y) for task in tasks]),
            np.concatenate([task.rows for task in tasks]),
            np.concatenate([np.zeros(len(task.y)) if task.offset is None else task.offset for task in tasks]),
        )

    def levels(self, on: np.ndarray, w: Floats) -> Floats:
        """(tasks,): the intercepts that belong to coefficients (d,) fitted to some of the rows."""
        means = [self._mean_over(i, on) for i in range(int(self.task.max()) + 1)]
        return np.array([y_mean - w @ x_mean for x_mean, y_mean in means])

    def _mean_over(self, i: int, on: np.ndarray) -> tuple[Floats, float]:
        of_task = self.task == i
        some = of_task & on if (of_task & on).any() else on
        return weighted_means(self.X[some], self.y[some], self.weight[some])

    def held_out(self, test: np.ndarray, N: int) -> np.ndarray:
        """(N,) bool: rows of the data, for some of those that are stacked."""
        out = np.zeros(N, dtype=bool)
        out[self.row[test]] = True
        return out

    def centred(self, on: np.ndarray) -> tuple[Floats, Floats]:
        """X and y less their task's means over some of the rows (of a task without any: the means of all of these)."""
        X, y = self.X.copy(), self.y.copy()
        for i in np.unique(self.task):
            of_task = self.task == i
            x_mean, y_mean = self._mean_over(i, on)
            X[of_task] -= x_mean
            y[of_task] -= y_mean
        return X, y


Path = Callable[[Floats, Floats, Floats], Floats]  # centred X, y, weights -> (d, points) coefficients


def chosen_by_folds(
    stack: Stack, path: Path, folds: list[tuple[np.ndarray, np.ndarray]], records: Sequence[Any] = ()
) -> tuple[Floats, list[Floats], Tried | None]:
    """(d,): the coefficients at the point of a path with the smallest held-out error; those without each fold; and what they
    were chosen from, if there are records of the folds. Centring belongs to the fold: of rows centred together the others
    tell those left out, if there are fewer than features."""
    means, sizes, paths = [], [], []
    for f, (train, test) in enumerate(folds):
        X, y = stack.centred(train)
        paths.append(path(X[train], y[train], stack.weight[train]))
        fitted = X[test] @ paths[-1]
        losses = (y[test, None] - fitted) ** 2
        means.append(held_out_means(records, f, losses, stack.weight[test]))
        sizes.append(stack.weight[test].sum())
    X, y = stack.centred(np.ones(len(stack.y), dtype=bool))
    coefs = path(X, y, stack.weight)
    if not folds:
        return np.zeros(X.shape[1]), [], None
    best = int(np.argmin(np.array(sizes) @ np.array(means)))
    tried = what_was_tried(records, means, np.count_nonzero(coefs, axis=0), best)
    return np.asarray(coefs[:, best]), [one[:, best] for one in paths], tried


def stacked_folds(
    model: Any, stack: Stack, data: TaskData, groups: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Folds of the stacked rows as masks, stratified by task; of a 2-D y whole rows are held out."""
    if given_folds(model.cv):
        return [(split.train[stack.row], split.test[stack.row]) for split in model.cv]
    strata = np.zeros(data.X.shape[0], dtype=np.intp)
    if data.form != "wide":
        strata[stack.row] = stack.task
    splitter = TaskKFold(max(model.cv, 2), random_state=model.random_state)
    rows = np.unique(stack.row)
    parts = list(splitter.deal_evenly(strata[rows], None if groups is None else groups[rows]))
    pairs = [(np.isin(stack.row, rows[train]), np.isin(stack.row, rows[test])) for train, test in parts]
    return [(train, test) for train, test in pairs if train.any() and test.any()]


def pooled_fits(
    stack: Stack, data: TaskData, folds: list[tuple[np.ndarray, np.ndarray]], without: list[Floats]
) -> list[FoldFit]:
    """Coefficients (d,) without each fold as those of all tasks, with the tasks' intercepts."""
    return [
        FoldFit(np.tile(w, (data.m, 1)), stack.levels(train, w), stack.held_out(test, data.X.shape[0]))
        for w, (train, test) in zip(without, folds, strict=True)
    ]


def column_scales(X: Floats, weight: Floats, standardize: bool) -> Floats:
    """(d,): what to divide the columns by; inf for a constant one."""
    square = np.average(X**2, axis=0, weights=weight)
    return np.where(square > 0, np.sqrt(square) if standardize else 1.0, np.inf)
