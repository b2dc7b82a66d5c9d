"""What all multi-task regressions share: predicting, intervals, scoring."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from .._data.designs import Floats
from .._data.tables import (
    names_of,
)
from .._data.tasks import (
    check_weights,
    read_target,
    refuse_infinity,
)
from .._objective.losses import is_loss, loss_named
from .._runtime.whole import available_where
from .base import MultiTaskModel
from .fitted import loss_of, of_survival, respond, where_measured
from .intervals import interval_of
from .survival import score_of, survival_curves


class MultiTaskLinear(RegressorMixin, MultiTaskModel):
    """What all multi-task regressions share: predicting, scoring."""

    def predict(self, X: Any, *, task: Any = None, offset: Any = None) -> Floats:
        """Predict the targets of samples.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples in the form that was given to `fit`, with the column that identifies the
            task if there was one.
        task : array-like of shape (n,), optional
            The label of the task of every sample, if `fit` was given labels.
        offset : array-like of shape (n,) or (n, m), or float, optional
            The offset of every sample, which is added to its linear predictor; (n, m) for a
            model of a 2-D y. A model that was fitted with an offset needs it; 0 leaves it out.

        Returns
        -------
        ndarray of shape (n,) or (n, m)
            Predictions in the order of the samples; (n, m), one column per task, if `fit` was given a 2-D y
            and `task` is None.
        """
        check_is_fitted(self, "coef_")
        coef, intercept = np.atleast_2d(self.coef_)[:, None], np.atleast_1d(self.intercept_)[:, None]
        out = self._linear(X, task, coef, intercept, offset)[..., 0]
        return respond(self, out)

    def predict_interval(self, X: Any, *, task: Any = None, level: float = 0.9, offset: Any = None) -> Floats:
        """Predict intervals that hold the targets of new samples with a given probability, task by task.

        They are made of the errors on samples that cross-validation held out, so the model must have chosen
        its parameters by folds. For new samples of a task like those that it was fitted to, intervals hold the
        target with a probability of about `level`. For tasks with fewer than 50 samples they are those of CV+,
        of which 1 - 2 (1 - level) is proven, less a term that falls with the number of samples, for folds that
        had no part in choosing the parameters. For others they are around the mean of the predictions by the
        models without each fold, which is no further off than these models are on average.
        The scale is that of the targets, whatever the loss.

        A task with too few samples for the level, fewer than level / (1 - level), borrows the shape of the
        errors of all tasks, scaled by its own errors; a warning names it. For tasks that were not in the
        training data (``unknown_task="mean"``) intervals come from the errors of predicting each task by the
        others, and m tasks allow levels up to m / (m + 1).

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples in the form that was given to `fit`, with the column that identifies the
            task if there was one.
        task : array-like of shape (n,), optional
            The label of the task of every sample, if `fit` was given labels.
        level : float, default=0.9
            The probability, between 0 and 1, with which an interval shall hold the target.
        offset : array-like of shape (n,) or (n, m), or float, optional
            The offset of every sample, which is added to its linear predictor; (n, m) for a
            model of a 2-D y. A model that was fitted with an offset needs it; 0 leaves it out.

        Returns
        -------
        ndarray of shape (n, 2) or (n, m, 2)
            The lower and the upper ends; (n, m, 2) if `fit` was given a 2-D y and `task` is None.

        Raises
        ------
        ValueError
            The model has no errors of samples held out (it was fitted without folds, or from statistics), or
            there are too few for the level; the message names the task and the largest level possible.
        """
        if of_survival(self):
            raise ValueError(
                f"predict_interval is about targets, and loss={self.loss!r} predicts hazards. Use "
                "predict_survival_function: its curves say how likely times are."
            )
        return interval_of(self, X, task, level, offset)

    @available_where(of_survival)
    def predict_survival_function(self, X: Any, *, task: Any = None, times: Any = None, offset: Any = None) -> Floats:
        """Predict the probability of being without the event after given times (with loss="cox").

        Every task has a baseline hazard of its own (`baseline_hazard_`), which is not known for tasks that were
        not in the training data. Curves are constant between the times of events, and after the last of a task.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples in the form that was given to `fit`, with the column that identifies the
            task if there was one.
        task : array-like of shape (n,), optional
            The label of the task of every sample, if `fit` was given labels.
        times : array-like of shape (T,), optional
            The times, at least 0. By default those at which a training sample of any task had
            the event, in ascending order.
        offset : array-like of shape (n,) or (n, m), or float, optional
            The offset of every sample, which is added to its linear predictor; (n, m) for a
            model of a 2-D y. A model that was fitted with an offset needs it; 0 leaves it out.

        Returns
        -------
        ndarray of shape (n, T)
            Probabilities, a row per sample and a column per time.
        """
        return survival_curves(self, X, task, times, offset)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        name = loss_of(self)
        tags.target_tags.positive_only = is_loss(name) and loss_named(name).least >= 0.0
        return tags

    def score(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the coefficient of determination R^2 of the predictions.

        It is taken over all samples. With a 2-D y it is the mean over the tasks, of the values that are
        measured; a task for which it is undefined is left out, with a warning. With loss="cox" the score is
        the C-index instead, the share of pairs of the same task whose order in time is predicted (see
        :func:`msmtfl.metrics.concordance_index`).

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples in the form that was given to `fit`, with the column that identifies the
            task if there was one.
        y : array-like of shape (N,) or (N, m)
            Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
            means not measured. With loss="cox" it has two, times and events.
        task : array-like of shape (n,), optional
            The label of the task of every sample, if `fit` was given labels.
        sample_weight : array-like of shape (N,) or (N, m), optional
            Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
            A sample of weight 2 is two samples.
        offset : array-like of shape (n,) or (n, m), or float, optional
            The offset of every sample, which is added to its linear predictor; (n, m) for a
            model of a 2-D y. A model that was fitted with an offset needs it; 0 leaves it out.

        Returns
        -------
        float
            R^2, at most 1; with loss="cox" the C-index, from 0 to 1.
        """
        if of_survival(self):
            return score_of(self, X, y, task, sample_weight, offset)
        prediction = self.predict(X, task=task, offset=where_measured(offset, y))
        truth, _ = read_target(y, len(prediction))
        if prediction.ndim == 1:
            truth = truth[:, 0] if truth.ndim == 2 and truth.shape[1] == 1 else truth
            return float(r2_score(truth, prediction, sample_weight=check_weights(sample_weight, truth.shape)))
        if truth.shape != prediction.shape:
            raise ValueError(
                f"y has shape {truth.shape}; this model was fitted with {len(self.tasks_)} tasks: one column per task."
            )
        refuse_infinity(truth, self.tasks_)
        weight = check_weights(sample_weight, truth.shape)
        scores, without = [], []
        for i, label in enumerate(self.tasks_.tolist()):
            seen = np.isfinite(truth[:, i])
            if seen.sum() < 2 or np.ptp(truth[seen, i]) == 0.0:
                without.append(label)
                continue
            w = None if weight is None else (weight if weight.ndim == 1 else weight[:, i])[seen]
            scores.append(r2_score(truth[seen, i], prediction[seen, i], sample_weight=w))
        if without:
            warnings.warn(
                f"R^2 is undefined for task(s) {names_of(without)} (fewer than two values, or all equal): left out.",
                UserWarning,
                stacklevel=2,
            )
        return float(np.mean(scores)) if scores else float("nan")
