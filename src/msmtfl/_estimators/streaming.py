"""Models that can be fitted from statistics, fed in batches, and given one more task later."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import validate_data

from .._data.statistics.moment_data import MomentData
from .._data.statistics.moments import Moments
from .._data.tables import is_table, opened
from .._runtime.whole import available_where, whole_or_untouched
from .fitted import loss_of
from .regression import MultiTaskLinear


class FromMomentsMixin(MultiTaskLinear):
    """Fitting from statistics."""

    def fit_moments(self, moments: Any) -> Any:
        """Fit the model from statistics of the samples, which gives what the samples give.

        Parameters
        ----------
        moments : Moments or list of Moments
            The statistics (see :class:`Moments`); a list of them, one per fold, for a model that
            cross-validates.

        Returns
        -------
        object
            The fitted model itself. Tables to predict have the columns of the first batch; where there was
            none (statistics from a file) the column that identifies the task comes last.
        """
        if not isinstance(moments, (Moments, list, tuple)):
            raise TypeError(f"expected Moments, or a list of them, one per fold; got {type(moments).__name__}.")
        parts = [moments] if isinstance(moments, Moments) else list(moments)
        return self.fit(MomentData(parts, self.task_column), None)


def _from_statistics(model: Any) -> bool:
    if loss_of(model) != "squared":
        raise AttributeError(
            f"statistics of batches serve squared loss only, not loss={model.loss!r}: fit to all rows."
        )
    return True


class PartialFitMixin(FromMomentsMixin):
    """Fitting batch by batch."""

    moments_: Moments

    @available_where(_from_statistics)
    @whole_or_untouched
    def partial_fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> Any:
        """Add a batch of samples to those given to `partial_fit` before, and fit to all of them, exactly.

        Only statistics of the samples are kept, in `moments_`. A call of `fit` starts anew.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (N, d)
            Samples of all tasks. A table or an array may have a column that identifies the task
            (see `task_column`).
        y : array-like of shape (N,) or (N, m)
            Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
            means not measured. With loss="cox" it has two, times and events.
        task : array-like of shape (N,), optional
            The label of the task of every sample, if the tasks are not a column of X.
        sample_weight : array-like of shape (N,) or (N, m), optional
            Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
            A sample of weight 2 is two samples.

        Returns
        -------
        object
            The fitted model itself.
        """
        X = opened(X)
        goes_on = hasattr(self, "moments_")
        if goes_on and not is_table(X):  # a table's columns are found by their names
            validate_data(self, X, reset=False, skip_check_array=True)
        moments = self.moments_.copy() if goes_on else Moments()
        moments.update(X, y, task=task, task_column=self.task_column, sample_weight=sample_weight)
        self.fit_moments(moments)
        self.moments_ = moments
        return self
