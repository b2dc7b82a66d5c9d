"""One lasso for all tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._data.task_data import TaskData
from ..._paths.conformal import FoldFit
from ..._paths.solve import regularization_surface
from .baseline import records_of, what_was_tried
from .stack import LinearBaseline, Stack, chosen_by_folds, pooled_fits, stacked_folds


class PooledLassoCV(LinearBaseline):
    """One lasso for all tasks, each with its own intercept.

    This model takes dense data only.

    Parameters
    ----------
    cv : int, default=5
        Number of folds, which are stratified by task; with a 2-D y a sample is held out in
        all tasks at once.
    lams : int or array-like of shape (K,), default=50
        How many strengths of the penalty are tried, or the values themselves.
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
    >>> from msmtfl.baselines import PooledLassoCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((60, 4)), np.repeat(["north", "south"], 30)
    >>> y = 2 * X[:, 0] + np.where(task == "north", 3, 5) + 0.1 * rng.standard_normal(60)
    >>> model = PooledLassoCV().fit(X, y, task=task)
    >>> model.coef_[:, 0].round(1), model.intercept_.round()
    (array([2., 2.]), array([3., 5.]))
    """

    def __init__(self, *, cv=5, lams=50, task_column=None, standardize=False, unknown_task="error", random_state=0):
        self.cv = cv
        self.lams = lams
        self.task_column = task_column
        self.standardize = standardize
        self.unknown_task = unknown_task
        self.random_state = random_state

    def _coefs(self, data: TaskData, groups: np.ndarray | None) -> tuple[Floats, list[FoldFit]]:
        stack = Stack.of(data.tasks)
        options: dict[str, Any] = {"thetas": [np.inf], "fit_intercept": False, "standardize": self.standardize}
        X, y = stack.centred(np.ones(len(stack.y), dtype=bool))
        records = records_of(self.cv)
        if not y.any():
            for record, split in zip(records, self.cv if records else (), strict=True):
                record.keep(np.zeros((1, int(split.test[stack.row].sum()))))
            self._keep(what_was_tried(records, [np.zeros(1)] * len(records), [0.0], 0))
            folds = stacked_folds(self, stack, data, groups)
            return np.zeros((data.m, data.d)), pooled_fits(stack, data, folds, [np.zeros(data.d)] * len(folds))
        lams = regularization_surface(X, y, lams=self.lams, sample_weight=stack.weight, **options).lams

        def path(X: Floats, y: Floats, weight: Floats) -> Floats:
            surface = regularization_surface(X, y, lams=lams, sample_weight=weight, **options)
            return np.array([surface.coef(k, 0)[0] for k in range(len(lams))]).T

        folds = stacked_folds(self, stack, data, groups)
        w, without, tried = chosen_by_folds(stack, path, folds, records)
        self._keep(tried)
        return np.tile(w, (data.m, 1)), pooled_fits(stack, data, folds, without)

    def _takes_folds(self, n_classes: int) -> bool:
        return True
