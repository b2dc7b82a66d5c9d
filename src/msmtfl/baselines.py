"""What an analyst would try first: ridge per task, and one model for all tasks on task-centred data."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import RidgeCV

from .checks import check_count
from .cross_validation import read_groups
from .designs import Floats
from .folds import TaskKFold
from .linear import MultiTaskLinear
from .model_selection import LassoMTLCV
from .monitor import one_blas_thread
from .tables import check_finite
from .tasks import Task, TaskData

ALPHAS = np.geomspace(1e-4, 1e4, 33)  # of ridge, times the mean square of the columns


class _Baseline(MultiTaskLinear):
    """A baseline says how it makes coefficients (m, d) of centred tasks (`_coefs`)."""

    def _coefs(self, tasks: list[Task], data: TaskData, groups: Any) -> Floats:
        raise NotImplementedError

    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None) -> Any:
        """Fit; see :meth:`MSMTFLCV.fit`. (Ridge's leave-one-out cross-validation does not know groups.)"""
        with one_blas_thread():
            data = self._read(X, y, task, sample_weight)
            check_finite(data.X, data.features, "X")
            parts, means = zip(*(_centred(one) for one in data.tasks), strict=True)
            W = self._coefs(list(parts), data, None if groups is None else read_groups(groups, len(data.X)))
        self._form, self._task_position = data.form, data.task_position
        self.tasks_, self.features_ = data.labels, data.features
        intercept = np.array([y_mean - w @ x_mean for w, (x_mean, y_mean) in zip(W, means, strict=True)])
        single = data.form == "single"
        self.coef_ = W[0] if single else W
        self.intercept_ = float(intercept[0]) if single else intercept
        return self


def _centred(task: Task) -> tuple[Task, tuple[Floats, float]]:
    x_mean = np.average(task.X, axis=0, weights=task.weight)
    y_mean = float(np.average(task.y, weights=task.weight))
    return Task(task.label, task.X - x_mean, task.y - y_mean, task.weight, task.rows), (x_mean, y_mean)


def _stacked(tasks: list[Task]) -> tuple[Floats, Floats, Floats | None]:
    X, y = np.concatenate([task.X for task in tasks]), np.concatenate([task.y for task in tasks])
    if all(task.weight is None for task in tasks):
        return X, y, None
    return X, y, np.concatenate([np.ones(len(task.y)) if task.weight is None else task.weight for task in tasks])


def _scales(X: Floats, weight: Floats | None, standardize: bool) -> Floats:
    """(d,): what to divide the columns by; inf for a constant one."""
    square = np.average(X**2, axis=0, weights=weight)
    return np.where(square > 0, np.sqrt(square) if standardize else 1.0, np.inf)


def _ridge(
    X: Floats,
    y: Floats,
    weight: Floats | None,
    standardize: bool,
    splits: list[tuple[np.ndarray, np.ndarray]] | None = None,
) -> Floats:
    """Ridge on centred data (d,), its penalty chosen on the splits, or without them by leaving one row out."""
    scales = _scales(X, weight, standardize)
    Z = X / scales
    size = float((Z**2).sum()) / max(int(np.isfinite(scales).sum()), 1)
    if size == 0.0 or not y.any() or len(y) < 3:
        return np.zeros(X.shape[1])
    if splits is None:
        return np.asarray(RidgeCV(ALPHAS * size).fit(Z, y, sample_weight=weight).coef_ / scales)
    root = np.ones(len(y)) if weight is None else np.sqrt(weight)
    error = np.zeros(len(ALPHAS))
    for train, test in splits:
        share = len(train) / len(y)
        rest = y[test, None] - Z[test] @ _ridges(
            Z[train] * root[train, None], y[train] * root[train], ALPHAS * size * share
        )
        error += (root[test] ** 2) @ rest**2
    best = ALPHAS[int(np.argmin(error))] * size
    return _ridges(Z * root[:, None], y * root, np.array([best]))[:, 0] / scales


def _ridges(X: Floats, y: Floats, alphas: Floats) -> Floats:
    """(d, alphas): the minimisers of |y - Xw|^2 + alpha |w|^2"""
    U, values, V = np.linalg.svd(X, full_matrices=False)
    return np.asarray(V.T @ (values[:, None] / (values[:, None] ** 2 + alphas) * (U.T @ y)[:, None]))


def _folds(
    model: Any, tasks: list[Task], data: TaskData, groups: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Folds of the stacked rows, stratified by task; of a 2-D y whole rows are held out."""
    check_count("cv", model.cv)
    rows = np.concatenate([task.rows for task in tasks])
    strata = np.zeros(len(data.X), dtype=np.intp)
    if data.form != "wide":
        for i, task in enumerate(tasks):
            strata[task.rows] = i
    folds = TaskKFold(model.cv, random_state=model.random_state).deal_evenly(strata, groups)
    pairs = [(np.isin(rows, train), np.isin(rows, test)) for train, test in folds]
    found = [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in pairs if train.any() and test.any()]
    if not found:
        raise ValueError(f"{len(rows)} row(s) cannot be dealt out to {model.cv} folds. Use fewer folds or more rows.")
    return found


class RidgePerTaskCV(_Baseline):
    """One ridge regression per task, each with its own penalty by leave-one-out cross-validation."""

    def __init__(self, *, task_column=None, standardize=False, unknown_task="error"):
        self.task_column = task_column
        self.standardize = standardize
        self.unknown_task = unknown_task

    def _coefs(self, tasks: list[Task], data: TaskData, groups: Any) -> Floats:
        return np.array([_ridge(task.X, task.y, task.weight, self.standardize) for task in tasks])


class PooledRidgeCV(_Baseline):
    """The same ridge coefficients for all tasks, each with its own intercept; folds as for :class:`PooledLassoCV`.

    (Not by leaving one row out: of centred rows the others tell the one left out, if there are fewer than features.)
    """

    def __init__(self, *, cv=5, task_column=None, standardize=False, unknown_task="error", random_state=0):
        self.cv = cv
        self.task_column = task_column
        self.standardize = standardize
        self.unknown_task = unknown_task
        self.random_state = random_state

    def _coefs(self, tasks: list[Task], data: TaskData, groups: Any) -> Floats:
        splits = _folds(self, tasks, data, groups)
        return np.tile(_ridge(*_stacked(tasks), self.standardize, splits), (len(tasks), 1))


class PooledLassoCV(_Baseline):
    """The same lasso coefficients for all tasks, each with its own intercept; cross-validation with folds stratified by
    task (of a 2-D y: with whole rows held out)."""

    def __init__(self, *, cv=5, lams=50, task_column=None, standardize=False, unknown_task="error", random_state=0):
        self.cv = cv
        self.lams = lams
        self.task_column = task_column
        self.standardize = standardize
        self.unknown_task = unknown_task
        self.random_state = random_state

    def _coefs(self, tasks: list[Task], data: TaskData, groups: Any) -> Floats:
        X, y, weight = _stacked(tasks)
        splits = _folds(self, tasks, data, groups)
        model = LassoMTLCV(lams=self.lams, cv=splits, fit_intercept=False, standardize=self.standardize)
        return np.tile(model.fit(X, y, sample_weight=weight).coef_, (len(tasks), 1))
