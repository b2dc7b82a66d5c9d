"""One more task for a fitted baseline: the coefficients of all tasks with an intercept of its own, or a fit of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..._data.designs import Floats
from ..._data.tables import label_array
from ..._data.task_data import Task
from ..._data.tasks import read_training
from ..._solvers.problems.make_problem import make_problem
from ..added_tasks import AddTaskMixin, check_label
from ..fitted import require_offset
from ..new_tasks import feature_means
from .baseline import Baseline, given_folds


class AddsTasks(Baseline):
    """A baseline of numbers takes one more task."""

    def add_task(self, X: Any, y: Any, label: Any, *, sample_weight: Any = None, offset: Any = None) -> Any:
        """Add one more task to the fitted model, whose other tasks are not touched.

        One model for all tasks has its coefficients for the new task, too, and an intercept of the new task's
        own: the mean of what they leave of its targets. Separate models fit one more.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples of the new task, with the model's features and without a column that
            identifies the task.
        y : array-like of shape (n,)
            Targets of the new task.
        label : str or number
            The label of the new task; the model must not have a task with this label.
        sample_weight : array-like of shape (n,), optional
            Weights of the samples, at least 0. By default all are 1.
        offset : array-like of shape (n,), optional
            The offset of every sample, if the model was fitted with one.

        Returns
        -------
        object
            The model itself, with one task more.
        """
        model: Any = self
        check_is_fitted(model, "coef_")
        if model._form == "single":
            raise ValueError(
                "this model was fitted without task labels: it has no tasks to add one to. Fit with task=."
            )
        check_label(label, model.tasks_.tolist())
        require_offset(model, offset)
        if offset is not None and not model.uses_offset_:
            raise ValueError(
                "this model was fitted without an offset: leave it out, or fit again with offsets for all tasks."
            )
        data = read_training(X, y, sample_weight=sample_weight, offset=offset)
        AddTaskMixin._check_new(model, X, data)
        w, level = self._of_new(data.tasks[0])
        problem, (target,) = make_problem(data, fit_intercept=True, standardize=False, positive=False), data.targets
        model.tasks_ = label_array([*model.tasks_.tolist(), label])
        model.coef_, model.intercept_ = np.vstack([model.coef_, w]), np.append(model.intercept_, level)
        model.n_samples_ = np.append(model.n_samples_, target.rows)
        model.target_mean_ = np.append(model.target_mean_, target.mean)
        model.target_sd_ = np.append(model.target_sd_, np.sqrt(target.variance))
        model.feature_means_ = np.vstack([model.feature_means_, feature_means(problem)])
        model.learnable_ = np.vstack([model.learnable_, problem.learnable])
        of_level = np.isin(model.features_, model.task_level_features_) & ~problem.learnable[0]
        model.task_level_features_ = model.features_[of_level]
        return self

    def _of_new(self, task: Task) -> tuple[Floats, float]:
        """The coefficients and the intercept of a new task."""
        model: Any = self
        if not model._separates():
            w = model.coef_[0]
            rest = task.y - task.X @ w - (0.0 if task.offset is None else task.offset)
            return w, float(np.average(rest, weights=task.weight))
        alone = clone(model).set_params(task_column=None, **({"cv": 5} if given_folds(model.cv) else {}))
        options = {"sample_weight": task.weight, "offset": task.offset}
        alone.fit(task.X, task.y, **{name: value for name, value in options.items() if value is not None})
        return alone.coef_, float(alone.intercept_)
