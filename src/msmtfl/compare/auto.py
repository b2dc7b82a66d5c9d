"""Which family of models suits the data: chosen by cross-validation, and said in words."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from copy import copy
from typing import Any

from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .._data.copies import RepeatedSamplesWarning
from .._data.tables import opened, warn_user
from .._data.task_levels import has_levels
from .._estimators.classification.classifier import MultiTaskClassifier
from .._estimators.families import Family, Variant, family_of
from .._estimators.fitted import TaskLevelWarning, check_use, choice_of, forget, loss_of
from .._estimators.grid_search import GridSearch
from .._estimators.regression import MultiTaskLinear
from .added import AddsToChosen
from .choice.choosing import RULES, choose_family
from .run import default_models, read_models, run_comparison

__all__ = ["AUTOMATIC", "MultiTaskAuto", "MultiTaskAutoClassifier", "choice_of", "choose_family"]

REFIT_FOLDS = 5  # at least, if every task has as many rows: it is one fit only, and parameters decide much


class _Auto(AddsToChosen):
    """Compares, chooses, and leaves the rest to the model chosen."""

    _classify = False

    def _note_of_choice(self) -> dict[str, dict[str, str]]:
        """What `choice_of` says of it."""
        check_is_fitted(self, "best_estimator_")
        return {"choice": {"chosen": self.chosen_, "reason": self.reason_, "way": self.comparison_.way}}

    def __init__(
        self,
        models=None,
        *,
        task_column=None,
        cv=5,
        inner_cv=5,
        selection="1se",
        screen=True,
        standardize=False,
        unknown_task="error",
        random_state=0,
        n_jobs=None,
        verbose=False,
        nested=False,
        intercepts="task",
    ):
        self.intercepts = intercepts
        self.models = models
        self.task_column = task_column
        self.cv = cv
        self.inner_cv = inner_cv
        self.selection = selection
        self.screen = screen
        self.standardize = standardize
        self.unknown_task = unknown_task
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.nested = nested

    def fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None, offset: Any = None
    ) -> Any:
        """Compare the families, and fit the one that is chosen to all samples.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (N, d)
            Samples of all tasks. A table or an array may have a column that identifies the task
            (see `task_column`).
        y : array-like of shape (N,) or (N, m)
            Targets, or the classes for a classifier. A 2-D y has one column per task, all of
            them for the same samples X; NaN (or None) means not measured.
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
        if self.selection not in RULES:
            raise ValueError(f"selection must be '1se' or 'min', got {self.selection!r}.")
        check_use(self)
        forget(self, "best_estimator_")  # what it has found is not asked for below
        data = self._read(X, y, task, sample_weight, offset)  # its errors name this class
        known = default_models(
            cv=self.inner_cv,
            standardize=self.standardize,
            random_state=self.random_state,
            classify=self._classify,
            intercepts=self.intercepts,
            named=self.models is not None,
            levels=has_levels(data.labels),
        )
        loss = loss_of(self)
        models = read_models(self.models, _able(known, X), loss)
        found = run_comparison(
            X,
            y,
            task=task,
            task_column=self.task_column,
            sample_weight=sample_weight,
            groups=groups,
            models=models,
            classify=self._classify,
            cv=self.cv,
            inner_cv=self.inner_cv,
            screen=self.screen,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            nested=self.nested,
            offset=offset,
            loss=loss,
        )
        self.comparison_ = found.comparison
        self.chosen_, reason = choose_family(self.comparison_, self.selection)
        way = f"Parameters were chosen by {self.comparison_.way}."
        said = (reason, self.comparison_.corrected_in_words(self.selection, self.chosen_), way)
        self.reason_ = " ".join(filter(None, said))
        own = {name: getattr(self, name) for name in ("task_column", "unknown_task", "n_jobs")}
        if self.chosen_ in found.fitted:
            best = found.fitted[self.chosen_]
            if isinstance(best, GridSearch):
                best._meet_data(X, y, task, sample_weight, offset)
            best.set_params(**{name: value for name, value in own.items() if name in best.get_params()})
            for message, category in found.warned[self.chosen_]:
                warn_user(message, category)
            self.best_estimator_ = best
            return self
        best = clone(models[self.chosen_])
        if not (isinstance(self.models, Mapping) or self._classify or groups is not None):
            best.set_params(cv=max(self.inner_cv, min(REFIT_FOLDS, *(len(part.rows) for part in data.tasks))))
        best.set_params(**{name: value for name, value in own.items() if name in best.get_params()})
        options = {"task": task, "sample_weight": sample_weight, "offset": offset}
        if "groups" in inspect.signature(best.fit).parameters:
            options["groups"] = groups
        with warnings.catch_warnings():
            for said_before in (RepeatedSamplesWarning, TaskLevelWarning):  # by the comparison
                warnings.simplefilter("ignore", said_before)
            given = {name: value for name, value in options.items() if value is not None}
            self.best_estimator_ = best.fit(X, y, **given)
        return self

    def __getattr__(self, name: str) -> Any:
        """What the model chosen has found, `coef_` and all else that ends in an underscore, is to be had here as well."""
        if _is_found(name) and name != "best_estimator_" and hasattr(self, "best_estimator_"):
            return getattr(self.best_estimator_, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        chosen = dir(self.best_estimator_) if hasattr(self, "best_estimator_") else []
        return sorted({*super().__dir__(), *filter(_is_found, chosen)})

    @property
    def _form(self) -> str:
        return str(self.best_estimator_._form)

    @property
    def _task_position(self) -> int | None:
        position: int | None = self.best_estimator_._task_position
        return position

    def _asked(self, method: str, X: Any, task: Any, offset: Any, **options: Any) -> Any:
        """What a method of the model chosen says."""
        check_is_fitted(self, "best_estimator_")
        X = opened(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        check_use(self)
        model = self.best_estimator_
        if getattr(model, "unknown_task", self.unknown_task) != self.unknown_task:  # set after the fit
            model = copy(model).set_params(unknown_task=self.unknown_task)
        given = {name: value for name, value in (("task", task), ("offset", offset)) if value is not None}
        return getattr(model, method)(X, **given, **options)

    def predict(self, X: Any, *, task: Any = None, offset: Any = None) -> Any:
        """Predict with the model that was chosen.

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
            Predictions (classes for a classifier) in the order of the samples; (n, m), one column per task, if
            `fit` was given a 2-D y and `task` is None.
        """
        return self._asked("predict", X, task, offset)

    def score(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the score of the model that was chosen: R^2, or the accuracy for a classifier.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples in the form that was given to `fit`, with the column that identifies the
            task if there was one.
        y : array-like of shape (N,) or (N, m)
            Targets, or the classes for a classifier. A 2-D y has one column per task, all of
            them for the same samples X; NaN (or None) means not measured.
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
            The score.
        """
        check_is_fitted(self, "best_estimator_")
        options = {"task": task, "sample_weight": sample_weight, "offset": offset}
        given = {name: value for name, value in options.items() if value is not None}
        return float(self.best_estimator_.score(X, y, **given))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class MultiTaskAuto(_Auto, MultiTaskLinear):
    """Choose the family of models that suits the data, from sharing nothing to sharing everything.

    Families that share nothing, a support, values or everything search for their parameters on the same
    folds, once; each fold is predicted with the parameters that the other folds choose
    (:func:`compare_models`). Among those whose error is within one standard error of the smallest, the best
    of those that use the fewest features (or at most a quarter more) is taken. The standard error is that
    of the difference, for other samples to train on as well as to predict (`se` of :class:`Comparison`).
    Variances that errors are divided by are steadied first: those of tasks with few samples are drawn
    towards the others', so that a task whose targets happen to be alike does not decide. What error is to be
    expected is corrected for all of these choices (``comparison_.corrected``).

    Parameters
    ----------
    models : list of str or dict {name: estimator}, optional
        The families to choose from; by default all of :func:`compare_models`.
    task_column : str, int or list, optional
        The column of X that identifies the task, or the columns of its levels, from the widest on;
        nested models take part then. Without it the tasks are given to `fit` as `task`, or as columns of y.
    cv : int, splitter or iterable of (train, test), default=5
        The folds on which the families choose their parameters and are compared. A number means that many
        folds stratified by task.
    inner_cv : int, default=5
        Number of folds by which a family chooses its parameters within the training samples of a fold: all
        families with `nested`, otherwise those that have a choice for every task (ridge regressions) or
        class. If such a family is chosen, it does so again on all data, with five folds at least if there
        are samples enough (not with groups, nor if `models` are estimators).
    selection : {"1se", "min"}, default="1se"
        "1se": the simplest family (see above) within one standard error of the best. "min": the best.
    screen : bool, default=True
        Whether families that are fitted fold by fold, and are clearly worse on the first folds, are left out
        on the others; see :func:`compare_models`.
    standardize : bool, default=False
        Whether the families penalise every task's columns as if they were scaled to unit
        standard deviation; partial pooling has ``standardize="numeric"`` where they do not.
        Coefficients stay in the data's units.
    unknown_task : {"error", "mean", "common", "similar"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error, or
        predict and warn, with the mean coefficients of the known tasks; with what they have in
        common, if the model has such a part; or with their mean weighted by exp(-D_i / D),
        where D_i is how far the means of the features in the samples to be predicted are from
        those of task i (the mean square of the differences in standard deviations), and D the
        distance of a known task to the nearest other one, in the median.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that deals out the samples to folds.
    n_jobs : int, optional
        Number of processes, which work on families side by side: this one, and others that are
        started beside it. The result is the same to the bit. Where all fits together have fewer
        than 50,000 coefficients they take less time than that, and stay in this process, on one
        thread.
    verbose : bool, default=False
        Whether to show a progress bar.
    nested : bool, default=False
        Whether every family chooses its parameters anew within the training samples of each fold
        (`inner_cv`): about as many times slower as there are folds.
    intercepts : {"task", "shrunk", "common"}, default="task"
        How the intercepts of families given by name share; see :func:`compare_models`.
    loss : {"squared", "poisson", "gamma", "tweedie", "huber", "cox"}, default="squared"
        The loss of models given by name, which are those that have it, and what errors are;
        see :func:`compare_models`. "cox" is for times until an event.

    Attributes
    ----------
    chosen_ : str
        The name of the family that was chosen.
    reason_ : str
        Why it was chosen, in words.
    best_estimator_ : estimator
        Its model, fitted on all data.
    comparison_ : Comparison
        The comparison of the families. Its errors are of samples that have no part in choosing the
        parameters; its `corrected` has those that take the choice of the family into account as well, its
        `dropped` names the families that were screened out.
    coef_ : ndarray of shape (m, d)
        Coefficients of `best_estimator_`. All other attributes of `best_estimator_` are to be had here, too.
    intercept_ : ndarray of shape (m,)
        Intercepts of `best_estimator_`.
    tasks_ : ndarray of shape (m,)
        Labels of the tasks.
    features_ : ndarray of shape (d,)
        Names of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MultiTaskAuto
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + rng.standard_normal(90)
    >>> model = MultiTaskAuto(["lasso", "pooled lasso"], cv=3, inner_cv=3).fit(X, y, task=task)
    >>> model.chosen_
    'pooled lasso'
    >>> print(model.reason_)
    'pooled lasso' has the smallest held-out nMSE of 2 models, each with the parameters that suit it best: 0.224. The next,
    'lasso' with 0.240 (+0.016, s.e. 0.035), is not clearly worse. Corrected for having chosen among all models and their
    parameters, the nMSE to expect on new data is 0.231. Parameters were chosen by cross-validation.
    """

    def __init__(
        self,
        models=None,
        *,
        task_column=None,
        cv=5,
        inner_cv=5,
        selection="1se",
        screen=True,
        standardize=False,
        unknown_task="error",
        random_state=0,
        n_jobs=None,
        verbose=False,
        nested=False,
        intercepts="task",
        loss="squared",
    ):
        super().__init__(
            models,
            task_column=task_column,
            cv=cv,
            inner_cv=inner_cv,
            selection=selection,
            screen=screen,
            standardize=standardize,
            unknown_task=unknown_task,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            nested=nested,
            intercepts=intercepts,
        )
        self.loss = loss

    def predict_interval(self, X: Any, *, task: Any = None, level: float = 0.9, offset: Any = None) -> Any:
        """Predict intervals with the model that was chosen, see its own `predict_interval`.

        That the family was chosen on the same folds is outside of what is proven for them, as is the choice of
        the parameters.

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
        """
        return self._asked("predict_interval", X, task, offset, level=level)


class MultiTaskAutoClassifier(_Auto, MultiTaskClassifier):
    """Choose the family of classifiers that suits the data, for two classes or more.

    The families are those of ``compare_models(..., classify=True)``, which search for their parameters on
    the same folds, once; each fold is predicted with the parameters that the other folds choose. They are
    compared by their held-out log-losses relative to predicting a task's class shares. Among those within
    one standard error of the smallest, the best of those that use the fewest features (or at most a quarter
    more) is taken.

    Parameters
    ----------
    models : list of str or dict {name: classifier}, optional
        The families to choose from; by default all of ``compare_models(..., classify=True)``.
    task_column : str, int or list, optional
        The column of X that identifies the task, or the columns of its levels, from the widest on;
        nested models take part then. Without it the tasks are given to `fit` as `task`, or as columns of y.
    cv : int, splitter or iterable of (train, test), default=5
        The folds on which the families choose their parameters and are compared. A number means that many
        folds stratified by task and class.
    inner_cv : int, default=5
        Number of folds by which a family chooses its parameters within the training samples of a fold: all
        families with `nested`, otherwise those that have a choice for every task (ridge regressions) or
        class. If such a family is chosen, it does so again on all data, with five folds at least if there
        are samples enough (not with groups, nor if `models` are estimators).
    selection : {"1se", "min"}, default="1se"
        "1se": the simplest family (see above) within one standard error of the best. "min": the best.
    screen : bool, default=True
        Whether families that are fitted fold by fold, and are clearly worse on the first folds, are left out
        on the others; see :func:`compare_models`.
    standardize : bool, default=False
        Whether the families penalise every task's columns as if they were scaled to unit
        standard deviation; partial pooling has ``standardize="numeric"`` where they do not.
        Coefficients stay in the data's units.
    unknown_task : {"error", "mean", "common", "similar"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error, or
        predict and warn, with the mean coefficients of the known tasks; with what they have in
        common, if the model has such a part; or with their mean weighted by exp(-D_i / D),
        where D_i is how far the means of the features in the samples to be predicted are from
        those of task i (the mean square of the differences in standard deviations), and D the
        distance of a known task to the nearest other one, in the median.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that deals out the samples to folds.
    n_jobs : int, optional
        Number of processes, which work on families side by side: this one, and others that are
        started beside it. The result is the same to the bit. Where all fits together have fewer
        than 50,000 coefficients they take less time than that, and stay in this process, on one
        thread.
    verbose : bool, default=False
        Whether to show a progress bar.
    nested : bool, default=False
        Whether every family chooses its parameters anew within the training samples of each fold
        (`inner_cv`): about as many times slower as there are folds.
    intercepts : {"task", "shrunk", "common"}, default="task"
        How the intercepts of families given by name share; see :func:`compare_models`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, sorted.
    chosen_ : str
        The name of the family that was chosen.
    reason_ : str
        Why it was chosen, in words.
    best_estimator_ : estimator
        Its model, fitted on all data.
    comparison_ : Comparison
        The comparison of the families. Its errors are of samples that have no part in choosing the
        parameters; its `corrected` has those that take the choice of the family into account as well, its
        `dropped` names the families that were screened out.
    coef_ : ndarray of shape (m, d) or (m, K, d)
        Coefficients of `best_estimator_`. All other attributes of `best_estimator_` are to be had here, too.
    intercept_ : ndarray of shape (m,) or (m, K)
        Intercepts of `best_estimator_`.
    tasks_ : ndarray of shape (m,)
        Labels of the tasks.
    features_ : ndarray of shape (d,)
        Names of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MultiTaskAutoClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((240, 6)), np.repeat(["north", "south", "west"], 80)
    >>> y = np.where(2 * X[:, 0] - X[:, 3] + rng.logistic(size=240) > 0, "ill", "well")
    >>> model = MultiTaskAutoClassifier(["lasso", "pooled ridge"], cv=3, inner_cv=3).fit(X, y, task=task)
    >>> model.chosen_, model.predict_proba(X[:2], task=task[:2]).shape
    ('pooled ridge', (2, 2))
    """

    _classify = True

    def decision_function(self, X: Any, *, task: Any = None, offset: Any = None) -> Any:
        """Return the decision values of the model that was chosen.

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
            The log-odds of the second class; (n, K), those of each class against the rest, with K > 2 classes.
        """
        return self._asked("decision_function", X, task, offset)

    def predict_proba(self, X: Any, *, task: Any = None, offset: Any = None) -> Any:
        """Return the probabilities of the classes by the model that was chosen.

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
            The probabilities, in the order of `classes_`.
        """
        return self._asked("predict_proba", X, task, offset)

    def predict_set(self, X: Any, *, task: Any = None, level: float = 0.9, offset: Any = None) -> Any:
        """Predict sets of classes with the model that was chosen, see its own `predict_set`.

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
        ndarray of bool of shape (n, K)
            Whether the set holds each class, in the order of `classes_`.
        """
        return self._asked("predict_set", X, task, offset, level=level)


def _is_found(name: str) -> bool:
    """Whether an attribute of this name is public, and set by a fit."""
    return name.endswith("_") and not name.startswith("_")


AUTOMATIC = tuple(  # not among the families: once fitted, such a model is of the family that it chose
    Family(
        title="the family that suits the data",
        fit=None,
        search=kind,
        variants=(Variant(name, note),),
        formula=lambda model: family_of(model).formula(model.best_estimator_),
    )
    for kind, name, note in (
        (MultiTaskAuto, "auto", "the one that suits the data"),
        (MultiTaskAutoClassifier, "auto-classifier", "for classes"),
    )
)


def _able(models: dict[str, Any], X: Any) -> dict[str, Any]:
    """Those that take X."""
    return {name: model for name, model in models.items() if not issparse(X) or get_tags(model).input_tags.sparse}
