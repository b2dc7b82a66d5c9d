"""Ridge regression: one per task, and one for all tasks."""

from __future__ import annotations

import numpy as np

from ..._data.designs import Floats
from ..._data.task_data import Task, TaskData
from ..._paths.conformal import FoldFit
from .baseline import records_of
from .stack import LinearBaseline, Path, Stack, chosen_by_folds, column_scales, pooled_fits, stacked_folds

ALPHAS = np.geomspace(1e-4, 1e4, 33)  # of ridge, times the mean square of the columns


def _ridge(X: Floats, y: Floats, weight: Floats, alpha: float, standardize: bool) -> Floats:
    """(d,): the minimiser of sum_r s_r (y_r - x_r'w)^2 + alpha |w|^2, from the smaller of two systems."""
    if not np.isfinite(alpha):
        return np.zeros(X.shape[1])
    scales, root = column_scales(X, weight, standardize), np.sqrt(weight)
    Z, t = X / scales * root[:, None], root * y
    alpha = max(alpha, float((Z**2).sum()) * np.finfo(float).eps)
    if len(Z) < Z.shape[1]:
        return np.asarray(Z.T @ np.linalg.solve(Z @ Z.T + alpha * np.eye(len(Z)), t) / scales)
    return np.asarray(np.linalg.solve(Z.T @ Z + alpha * np.eye(Z.shape[1]), Z.T @ t) / scales)


def _directions(Z: Floats) -> tuple[Floats, Floats]:
    """(r,) and (d, r): eigenvalues of Z'Z that may differ from 0, and their vectors. Strengths are at least 1e-4 times the
    mean of a column's squares, beside which the rounding of Z'Z is nothing."""
    if len(Z) < Z.shape[1]:
        size, Vt = np.linalg.svd(Z, full_matrices=False)[1:]
        return size**2, Vt.T
    values, V = np.linalg.eigh(Z.T @ Z)
    return np.maximum(values, 0.0), V


def _left_out_ridge(Z: Floats, y: Floats, weight: Floats, alphas: Floats) -> tuple[Floats, float]:
    """(d,), and the strength: the ridge with the smallest squared error of samples that are left out one by one, intercept
    included. Z and y are centred. A sample's residual without it is that with it, divided by 1 less its leverage; one
    decomposition serves all strengths (scikit-learn's RidgeCV takes one strength after the other)."""
    root = np.sqrt(weight)
    Z, t = root[:, None] * Z, root * y
    values, V = _directions(Z)
    along = Z @ V
    share = 1.0 / (values[:, None] + alphas)
    coefs = share * (along.T @ t)[:, None]
    leverage = (weight / weight.sum())[:, None] + along**2 @ share
    left_out = (t[:, None] - along @ coefs) / np.maximum(1.0 - leverage, np.finfo(float).eps)
    best = int(np.argmin((left_out**2).sum(axis=0)))
    return V @ coefs[:, best], float(alphas[best])


def _ridge_path(standardize: bool) -> Path:
    def path(X: Floats, y: Floats, weight: Floats) -> Floats:
        """The minimisers of sum_r s_r (y_r - x_r'w)^2 + alpha |w|^2"""
        scales = column_scales(X, weight, standardize)
        root = np.sqrt(weight)
        Z = X / scales * root[:, None]
        values, V = _directions(Z)
        alphas = ALPHAS * max(float(values.sum()) / X.shape[1], np.finfo(float).tiny)
        along = V.T @ (Z.T @ (root * y))
        return np.asarray(V @ (along[:, None] / (values[:, None] + alphas)) / scales[:, None])

    return path


class RidgePerTaskCV(LinearBaseline):
    """One ridge regression per task, each with its own strength of the penalty.

    The strength is chosen by leave-one-out cross-validation; where `fit` is given groups, by folds of them.
    This model takes dense data only.

    Parameters
    ----------
    cv : int, default=5
        Number of folds, where `fit` is given groups.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    standardize : bool, default=False
        Whether every task's columns are penalised as if they were scaled to unit standard
        deviation. Coefficients stay in the data's units.
    unknown_task : {"error", "mean", "common", "similar"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error, or
        predict and warn, with the mean coefficients of the known tasks; with what they have in
        common, if the model has such a part; or with their mean weighted by exp(-D_i / D),
        where D_i is how far the means of the features in the samples to be predicted are from
        those of task i (the mean square of the differences in standard deviations), and D the
        distance of a known task to the nearest other one, in the median.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that deals out the samples to folds.

    Attributes
    ----------
    coef_ : ndarray of shape (m, d)
        Coefficients of every task in the data's units; (d,) if the model was fitted without
        tasks.
    intercept_ : ndarray of shape (m,)
        Intercepts of the tasks; a float if the model was fitted without tasks.
    tasks_ : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `coef_`.
    features_ : ndarray of shape (d,)
        Names of the features, in the order of the last axis of `coef_`.
    n_features_in_ : int
        Number of columns of X in `fit`, the column that identifies the task included.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X in `fit`. There is no such attribute if X had no names
        that are text.
    uses_offset_ : bool
        Whether the model was fitted with an offset, so that `predict` needs one.
    n_samples_ : ndarray of shape (m,)
        Number of training samples of every task.
    n_fitted_tasks_ : int
        Number of tasks of the fit, those that were added later not counted.
    target_mean_ : ndarray of shape (m,)
        Mean of the training targets of every task.
    target_sd_ : ndarray of shape (m,)
        Standard deviation of the training targets of every task.
    feature_means_ : ndarray of shape (m, d)
        Means of the features over the training samples of every task, by which
        unknown_task="similar" knows how similar tasks are.
    learnable_ : ndarray of bool of shape (m, d)
        Where a feature varies within a task; elsewhere its effect cannot be told from the
        intercept.
    feature_sd_ : ndarray of shape (d,)
        Standard deviations of the features within tasks, pooled over the tasks in which a
        feature varies; 0 where it never does. A coefficient times it is the effect of one
        standard deviation.
    task_level_features_ : ndarray
        Names of the features that are constant within every task and differ only between
        tasks. A coefficient of 0 says nothing about their effect, and `fit` warns of them.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.baselines import RidgePerTaskCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((60, 4)), np.repeat(["north", "south"], 30)
    >>> y = np.where(task == "north", 2, -1) * X[:, 0] + 0.1 * rng.standard_normal(60)
    >>> RidgePerTaskCV().fit(X, y, task=task).coef_[:, 0].round(1)
    array([ 2., -1.])
    """

    _per_task = True

    def __init__(self, *, cv=5, task_column=None, standardize=False, unknown_task="error", random_state=0):
        self.cv = cv
        self.task_column = task_column
        self.standardize = standardize
        self.unknown_task = unknown_task
        self.random_state = random_state

    def _coefs(self, data: TaskData, groups: np.ndarray | None) -> tuple[Floats, list[FoldFit]]:
        parts = [self._one(task, data, groups) for task in data.tasks]
        without = self._refits(data, groups, [alpha for _, alpha in parts]) if self._intervals else []
        return np.array([w for w, _ in parts]), without

    def _refits(self, data: TaskData, groups: np.ndarray | None, alphas: list[float]) -> list[FoldFit]:
        """Fits without each fold, at the strengths of the penalty that were chosen."""
        out, stack = [], Stack.of(data.tasks)
        for train, test in stacked_folds(self, stack, data, groups):
            W, b = np.zeros((data.m, data.d)), np.zeros(data.m)
            for i, task in enumerate(data.tasks):
                on = train[stack.task == i]
                if not on.any():
                    return []
                one = Stack.of([task])
                X, y = one.centred(on)
                W[i] = _ridge(X[on], y[on], one.weight[on], alphas[i], self.standardize)
                b[i] = one.levels(on, W[i])[0]
            out.append(FoldFit(W, b, stack.held_out(test, data.X.shape[0])))
        return out

    def _one(self, task: Task, data: TaskData, groups: np.ndarray | None) -> tuple[Floats, float]:
        """The coefficients, and the strength of the penalty (inf: all of them are 0)."""
        stack = Stack.of([task])
        if groups is not None:
            few = len(np.unique(groups[task.rows])) < 2
            folds = [] if few else stacked_folds(self, stack, data, groups)
            w = chosen_by_folds(stack, _ridge_path(self.standardize), folds)[0]
            X, y = stack.centred(np.ones(len(stack.y), dtype=bool))
            scales = column_scales(X, stack.weight, self.standardize)
            # the strength of a ridge is what its gradient says: alpha w = Z'(y - Z w)
            z = (X / scales).T @ (stack.weight * (y - X @ w))
            u = np.where(np.isfinite(scales), w * scales, 0.0)
            return w, float(z @ u / (u @ u)) if u.any() else np.inf
        X, y = stack.centred(np.ones(len(stack.y), dtype=bool))
        scales = column_scales(X, stack.weight, self.standardize)
        Z = X / scales
        size = float((Z**2).sum()) / X.shape[1]
        if size == 0.0 or not y.any() or len(y) < 3:
            return np.zeros(X.shape[1]), np.inf
        w, alpha = _left_out_ridge(Z, y, stack.weight, ALPHAS * size)
        return np.asarray(w / scales), alpha


class PooledRidgeCV(LinearBaseline):
    """One ridge regression for all tasks, each with its own intercept.

    This model takes dense data only.

    Parameters
    ----------
    cv : int, default=5
        Number of folds, which are stratified by task; with a 2-D y a sample is held out in
        all tasks at once.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    standardize : bool, default=False
        Whether every task's columns are penalised as if they were scaled to unit standard
        deviation. Coefficients stay in the data's units.
    unknown_task : {"error", "mean", "common", "similar"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error, or
        predict and warn, with the mean coefficients of the known tasks; with what they have in
        common, if the model has such a part; or with their mean weighted by exp(-D_i / D),
        where D_i is how far the means of the features in the samples to be predicted are from
        those of task i (the mean square of the differences in standard deviations), and D the
        distance of a known task to the nearest other one, in the median.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that deals out the samples to folds.

    Attributes
    ----------
    coef_ : ndarray of shape (m, d)
        Coefficients of every task in the data's units; (d,) if the model was fitted without
        tasks.
    intercept_ : ndarray of shape (m,)
        Intercepts of the tasks; a float if the model was fitted without tasks.
    tasks_ : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `coef_`.
    features_ : ndarray of shape (d,)
        Names of the features, in the order of the last axis of `coef_`.
    n_features_in_ : int
        Number of columns of X in `fit`, the column that identifies the task included.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X in `fit`. There is no such attribute if X had no names
        that are text.
    uses_offset_ : bool
        Whether the model was fitted with an offset, so that `predict` needs one.
    n_samples_ : ndarray of shape (m,)
        Number of training samples of every task.
    n_fitted_tasks_ : int
        Number of tasks of the fit, those that were added later not counted.
    target_mean_ : ndarray of shape (m,)
        Mean of the training targets of every task.
    target_sd_ : ndarray of shape (m,)
        Standard deviation of the training targets of every task.
    feature_means_ : ndarray of shape (m, d)
        Means of the features over the training samples of every task, by which
        unknown_task="similar" knows how similar tasks are.
    learnable_ : ndarray of bool of shape (m, d)
        Where a feature varies within a task; elsewhere its effect cannot be told from the
        intercept.
    feature_sd_ : ndarray of shape (d,)
        Standard deviations of the features within tasks, pooled over the tasks in which a
        feature varies; 0 where it never does. A coefficient times it is the effect of one
        standard deviation.
    task_level_features_ : ndarray
        Names of the features that are constant within every task and differ only between
        tasks. A coefficient of 0 says nothing about their effect, and `fit` warns of them.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.baselines import PooledRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((60, 4)), np.repeat(["north", "south"], 30)
    >>> y = 2 * X[:, 0] + np.where(task == "north", 3, 5) + 0.1 * rng.standard_normal(60)
    >>> model = PooledRidgeCV().fit(X, y, task=task)
    >>> model.coef_[:, 0].round(1), model.intercept_.round()
    (array([2., 2.]), array([3., 5.]))
    """

    def __init__(self, *, cv=5, task_column=None, standardize=False, unknown_task="error", random_state=0):
        self.cv = cv
        self.task_column = task_column
        self.standardize = standardize
        self.unknown_task = unknown_task
        self.random_state = random_state

    def _coefs(self, data: TaskData, groups: np.ndarray | None) -> tuple[Floats, list[FoldFit]]:
        stack, records = Stack.of(data.tasks), records_of(self.cv)
        folds = stacked_folds(self, stack, data, groups)
        w, without, tried = chosen_by_folds(stack, _ridge_path(self.standardize), folds, records)
        self._keep(tried)
        return np.tile(w, (data.m, 1)), pooled_fits(stack, data, folds, without)

    def _takes_folds(self, n_classes: int) -> bool:
        return True
