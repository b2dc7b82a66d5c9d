"""One more task for the model that was chosen automatically."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from .._estimators.base import MultiTaskModel


class AddsToChosen(MultiTaskModel):
    """Leaves a new task to the model chosen."""

    def add_task(self, X: Any, y: Any, label: Any, *, sample_weight: Any = None, offset: Any = None) -> Any:
        """Fit one more task with what the model that was chosen has learned from the others, which are not touched.

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
            The fitted model itself, with one task more.
        """
        check_is_fitted(self, "best_estimator_")
        model: Any = self.best_estimator_
        if not hasattr(model, "add_task"):
            raise TypeError(
                f"{type(model).__name__}, which was chosen, takes no task beside those that it was fitted to: fit again "
                "with the new task."
            )
        options = {"sample_weight": sample_weight, "offset": offset}
        model.add_task(X, y, label, **{name: value for name, value in options.items() if value is not None})
        return self
