"""Classifiers: the logistic loss in the place of the squared one, two classes or one against the rest.

A classifier reads labels as classes and fits the problem with the logistic loss on 0 and 1 as the regressions fit theirs.
With K > 2 classes there is one such problem per task and class; all of them share rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from ..._data.categories import of_model
from ..._data.designs import Floats
from ..._data.tables import missing_values
from ..._data.task_data import TaskData
from ..._data.tasks import check_weights, read_training
from ..._objective.losses import LOGISTIC, SOFTMAX
from ..._objective.problem import Problem
from ..._runtime.progress import one_blas_thread, with_callbacks
from ..._solvers.problems.make_problem import make_problem
from ..added_tasks import AddTaskMixin
from ..base import MultiTaskModel
from ..fitted import classes_together, forget, where_measured
from ..intervals import set_of
from .class_scores import LOG_LOSS, ClassScorer, LogLoss, probabilities
from .classes import (
    ClassData,
    as_given,
    class_folds,
    encode,
    known_codes,
    read_labels,
    refuse_lonely,
    refuse_many_classes,
)


class MultiTaskClassifier(ClassifierMixin, MultiTaskModel):
    """What all multi-task classifiers share: reading classes, predicting them and their probabilities."""

    def _read(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any = None) -> TaskData:
        """The data of the tasks with codes of `classes_` as targets."""
        read = self._read_classes(X, y, task, sample_weight, offset)
        self.classes_ = read.classes
        return read.tasks

    def _read_classes(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any = None) -> ClassData:
        classes, codes = encode(y)
        refuse_many_classes(offset, classes)
        data = super()._read(X, as_given(y, codes), task, sample_weight, offset)
        if getattr(self, "intercepts", "task") == "task" or data.m == 1:
            refuse_lonely(data, classes, getattr(self, "fit_intercept", True))
        return ClassData(classes, codes, data, check_weights(sample_weight, codes.shape))

    def _logistic_problem(self, read: ClassData) -> Problem:
        """One problem per task; with K > 2 classes one per task and class, which classes that have one loss know of each
        other."""
        together = bool(getattr(self, "multinomial", False)) and len(read.classes) > 2
        if together:
            self._check_together()
        return make_problem(
            read.binary(self.class_weight),
            loss=SOFTMAX if together else LOGISTIC,
            fit_intercept=self.fit_intercept,
            standardize=self.standardize,
            positive=getattr(self, "positive", False),
            penalty_factors=self.penalty_factors,
            l1_ratio=self._chosen_l1_ratio(),
            error="log_loss",
            n_jobs=self.n_jobs,
            intercepts=self.intercepts,
            samples_alike=getattr(self, "_samples_alike", False),
            bounds=self._bounds(),
            feature_groups=False if together else self._feature_groups(),
        )

    def _check_together(self) -> None:
        """An error where classes with one loss cannot do what is asked for."""
        said = "with multinomial=True the classes of a task have one loss, "
        if self.intercepts != "task":
            raise ValueError(
                f"{said}whose intercepts do not share between tasks: leave intercepts at 'task', or leave out multinomial; "
                f"got {self.intercepts!r}."
            )
        if self._bounds() is not None:
            raise ValueError(f"{said}which knows no bounds but positive=True: leave out bounds, or multinomial.")
        if getattr(self, "feature_groups", None) is not None:
            raise ValueError(f"{said}which knows no groups of features: leave out feature_groups, or multinomial.")
        if not getattr(self, "_by_folds", True):
            raise ValueError(
                f"{said}of which selection={self.selection!r} has no criterion: choose by cross-validation ('min' or '1se')."
            )

    def _make_problem(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any = None) -> Problem:
        read = self._read_classes(X, y, task, sample_weight, offset)
        return self._weighed_anew(self._logistic_problem(read), read)

    def _weighed_anew(self, problem: Problem, read: ClassData) -> Problem:
        """On some of the rows weights of classes are those of these rows, as in a fit to them."""
        if self.class_weight is None or isinstance(self.class_weight, dict):
            return problem
        return replace(problem, weigh=lambda keep: read.weights(self.class_weight, keep))

    def _note_classes(self, read: ClassData) -> None:
        """Arrange what a fit of the problems has stored by tasks and classes."""
        self.classes_, data, K = read.classes, read.tasks, len(read.classes)
        self._form = data.form
        if K == 2:
            return
        m, d = data.m, data.d
        coef, level = self.coef_.reshape(m, K, d), np.reshape(self.intercept_, (m, K))
        self.coef_, self.intercept_ = (coef[0], level[0]) if data.form == "single" else (coef, level)
        self.tasks_, self.n_samples_ = data.labels, self.n_samples_[::K]
        self.learnable_ = self.learnable_[::K]
        self.feature_means_ = self.feature_means_[::K]
        self.n_fitted_tasks_ = m
        self.target_mean_, self.target_sd_ = self.target_mean_.reshape(m, K), self.target_sd_.reshape(m, K)
        self._note_parts(lambda part: part.reshape(m, K, d)[0] if data.form == "single" else part.reshape(m, K, d))

    def _note_parts(self, arrange: Callable[[Floats], Floats]) -> None:
        """Arrange the parts of coefficients that a family keeps by themselves."""

    # ------------------------------------------------------------------ using

    def decision_function(self, X: Any, *, task: Any = None, offset: Any = None) -> Floats:
        """Return the log-odds x'w + b of the second class, or with K > 2 classes of each class against the rest.

        Of a model with ``multinomial=True`` they are the logarithms of the probabilities of the K classes, but for a number
        that is the same for all classes of a sample.

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
        ndarray of shape (n,) or (n, K)
            The log-odds; (n, K) with K > 2 classes. If `fit` was given a 2-D y and `task` is None, there is an
            axis of tasks after the first: (n, m), or (n, m, K).
        """
        check_is_fitted(self, "coef_")
        m, K, d = len(self.tasks_), self._width, len(self.features_)
        coef, intercept = np.reshape(self.coef_, (m, K, d)), np.reshape(self.intercept_, (m, K))
        refuse_many_classes(offset, self.classes_)
        out = self._linear(X, task, coef, intercept, offset)
        return out[..., 0] if K == 1 else out

    @property
    def _width(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def predict_proba(self, X: Any, *, task: Any = None, offset: Any = None) -> Floats:
        """Return the probabilities of the classes.

        With more than two classes they are those of each class against the rest, divided by their sum; of a model with
        ``multinomial=True`` the softmax of the decision values.

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
        ndarray of shape (n, K)
            The probabilities, in the order of `classes_`. If `fit` was given a 2-D y and `task` is None, they
            are (n, m), those of the second class; with more than two classes (n, m, K).
        """
        values = self.decision_function(X, task=task, offset=offset)
        if self._width > 1:
            return probabilities(values, classes_together(self))
        return expit(values) if values.ndim == 2 else probabilities(values[:, None])

    def predict_log_proba(self, X: Any, *, task: Any = None, offset: Any = None) -> Floats:
        """Return the logarithms of the probabilities of the classes.

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
        ndarray of shape (n, K)
            The logarithms, in the order of `classes_`. If `fit` was given a 2-D y and `task` is None, they are
            (n, m), those of the second class; with more than two classes (n, m, K).
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, task=task, offset=offset))

    def predict(self, X: Any, *, task: Any = None, offset: Any = None) -> np.ndarray:
        """Predict the classes of samples.

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
            The class with the largest decision value for every sample; (n, m), one column per task, if `fit`
            was given a 2-D y and `task` is None.
        """
        values = self.decision_function(X, task=task, offset=offset)
        codes = (values > 0).astype(np.intp) if self._width == 1 else np.argmax(values, axis=-1)
        return np.asarray(self.classes_[codes])

    def predict_set(self, X: Any, *, task: Any = None, level: float = 0.9, offset: Any = None) -> np.ndarray:
        """Predict sets of classes that hold the classes of new samples with a given probability, task by task.

        A class is in the set if its probability is no smaller than usual for the true classes of samples that
        cross-validation held out (CV+), so the model must have chosen its parameters by folds. What is promised is as
        for `predict_interval` of regressions: about `level` over the samples of a task, all classes together.
        A set may hold no class, where every class would be less probable than usual.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples in the form that was given to `fit`, with the column that identifies the
            task if there was one.
        task : array-like of shape (n,), optional
            The label of the task of every sample, if `fit` was given labels.
        level : float, default=0.9
            The probability, between 0 and 1, with which a set shall hold the class.
        offset : array-like of shape (n,) or (n, m), or float, optional
            The offset of every sample, which is added to its linear predictor; (n, m) for a
            model of a 2-D y. A model that was fitted with an offset needs it; 0 leaves it out.

        Returns
        -------
        ndarray of bool of shape (n, K) or (n, m, K)
            Whether the set holds each class, in the order of `classes_`; (n, m, K) if `fit` was given a 2-D y
            and `task` is None.

        Raises
        ------
        ValueError
            The model knows nothing of samples held out (it was fitted without folds), or too few were for the level;
            the message names the task and the largest level possible.
        """
        return set_of(self, X, task, level, offset)

    def score(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the accuracy: the share of samples whose class is predicted.

        It is taken over all samples; with a 2-D y over all classes that are measured.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples in the form that was given to `fit`, with the column that identifies the
            task if there was one.
        y : array-like of shape (N,) or (N, m)
            Classes. A 2-D y has one column per task, all of them for the same samples X; NaN or
            None means not measured.
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
            The accuracy, from 0 to 1.
        """
        found, truth = self.predict(X, task=task, offset=where_measured(offset, y)), read_labels(y)
        if found.ndim == 1 and truth.ndim == 2 and truth.shape[1] == 1:
            truth = truth[:, 0]
        if truth.shape != found.shape:
            raise ValueError(f"y has shape {truth.shape}, but {found.shape} is what is predicted.")
        weight = check_weights(sample_weight, truth.shape)
        if truth.ndim == 1:
            return float(accuracy_score(truth, found, sample_weight=weight))
        seen = ~missing_values(truth.ravel()).reshape(truth.shape)
        full = None if weight is None else np.broadcast_to(weight.T, truth.T.shape).T[seen]
        return float(np.average(found[seen] == truth[seen], weights=full))


class _AddsTasks(MultiTaskClassifier, AddTaskMixin):
    """One more task of a classifier."""

    def _read_new(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> TaskData:
        if classes_together(self):
            raise ValueError(
                "add_task knows two classes, or each against the rest, not multinomial=True. Fit again with the new task."
            )
        codes = known_codes(y, self.classes_)
        refuse_many_classes(offset, self.classes_)
        known: dict[str, Any] = {"encoding": of_model(self), "unknown": self.unknown_category}
        data = read_training(X, codes, sample_weight=sample_weight, offset=offset, **known)
        if self.intercepts == "task":
            refuse_lonely(data, self.classes_, self.fit_intercept)
        read = ClassData(self.classes_, codes, data, check_weights(sample_weight, codes.shape))
        return read.binary(self.class_weight)


class ClassifierFit(_AddsTasks):
    """A classifier at given strengths. A family says how a problem is solved and kept (`_fit_problem`)."""

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, offset: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (N, d)
            Samples of all tasks. A table or an array may have a column that identifies the task
            (see `task_column`).
        y : array-like of shape (N,) or (N, m)
            Classes. A 2-D y has one column per task, all of them for the same samples X; NaN or
            None means not measured.
        task : array-like of shape (N,), optional
            The label of the task of every sample, if the tasks are not a column of X.
        sample_weight : array-like of shape (N,) or (N, m), optional
            Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
            A sample of weight 2 is two samples.
        offset : array-like of shape (N,) or (N, m), optional
            A known part of the linear predictor, which is offset + b_i + x'w_i; (N, m) beside a
            2-D y. With loss="poisson" the logarithm of an exposure makes a model of rates.
            `predict` then needs the offsets of its samples, too.

        Returns
        -------
        object
            The fitted model itself.
        """
        self._check_params()
        with one_blas_thread():
            read = self._read_classes(X, y, task, sample_weight, offset)
            problem = self._logistic_problem(read)
        self._fit_problem(problem, self._last_coefs(read))
        self._note_classes(read)
        return self

    def _last_coefs(self, read: ClassData) -> Floats | None:
        """The last fit's coefficients (m, d), or (m K, d), if warm_start asks for them and classes, tasks and features are
        the same."""
        warm = getattr(self, "warm_start", False) and hasattr(self, "coef_")
        if not (warm and np.array_equal(self.classes_, read.classes)):
            return None
        previous = self._previous(read.tasks)
        return None if previous is None else previous.reshape(-1, read.tasks.d)


class ClassifierSearch(_AddsTasks):
    """A classifier that chooses its strengths. A family says how (`_grid`, `_fit_point`)."""

    @with_callbacks
    def fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None, offset: Any = None
    ) -> Any:
        """Choose lam and theta, and fit the model to all samples with them.

        Held-out errors use the weights of the samples, too.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (N, d)
            Samples of all tasks. A table or an array may have a column that identifies the task
            (see `task_column`).
        y : array-like of shape (N,) or (N, m)
            Classes. A 2-D y has one column per task, all of them for the same samples X; NaN or
            None means not measured.
        task : array-like of shape (N,), optional
            The label of the task of every sample, if the tasks are not a column of X.
        sample_weight : array-like of shape (N,) or (N, m), optional
            Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
            A sample of weight 2 is two samples.
        groups : array-like of shape (N,) or "identical", optional
            Labels of groups: samples of one group (a patient, a speaker) stay in one fold.
            "identical": samples with the same features are a group.
        offset : array-like of shape (N,) or (N, m), optional
            A known part of the linear predictor, which is offset + b_i + x'w_i; (N, m) beside a
            2-D y. With loss="poisson" the logarithm of an exposure makes a model of rates.
            `predict` then needs the offsets of its samples, too.

        Returns
        -------
        object
            The fitted model itself.
        """
        self._check_params()
        with one_blas_thread():
            forget(self, "l1_ratio_")
            read = self._read_classes(X, y, task, sample_weight, offset)
            problem = self._weighed_anew(self._logistic_problem(read), read)
            grid, splits, scorer = self._grid(problem), [], None
            if self._by_folds:
                codes = as_given(y, read.codes)
                splits = self._splits(self._folds(read, groups), X, codes, groups, problem)
                scorer = self._class_scorer(X, read)
        self._fit_point(problem, grid, splits, scorer)
        self._note_classes(read)
        return self

    def _folds(self, read: ClassData, groups: Any) -> Any:
        """`cv`, a number being folds stratified by task and class."""
        if not isinstance(self.cv, (int, np.integer)) or isinstance(self.cv, bool) or self.cv < 2:
            return self.cv
        alone = self.intercepts == "task"
        return class_folds(read.tasks, read.classes, int(self.cv), self.random_state, groups, alone)

    def _class_scorer(self, X: Any, read: ClassData) -> Any:
        """What scores the rows held out; None if their errors, the log-losses, do."""
        classes, codes, weight = read.classes, read.codes, read.weights(self.class_weight)
        if isinstance(self.scoring, str) and self.scoring == LOG_LOSS:
            return LogLoss(codes, weight, len(classes)) if len(classes) > 2 else None
        if codes.ndim == 2:
            raise ValueError(f"with a 2-D y scoring must be {LOG_LOSS!r}; got {self.scoring!r}.")
        return ClassScorer(self.scoring, X, classes[codes.astype(np.intp)], weight, classes)
