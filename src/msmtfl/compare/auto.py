"""Which family of models suits the data: chosen by cross-validation, and said in words."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .._data.copies import RepeatedSamplesWarning
from .._data.tables import check_form, names_of
from .._estimators.base import MultiTaskLinear, MultiTaskModel, check_use, forget
from .._estimators.classifier import MultiTaskClassifier
from .._estimators.families import Family, Variant, family_of
from .comparison import Comparison
from .evidence import decimals
from .run import compare_models, default_models, read_models

RULES = ("1se", "min")
ABOUT = 1.25  # times the fewest features count as as few: one of ten less is no reason to leave the best
REFIT_FOLDS = 5  # at least, if every task has as many rows: it is one fit only, and parameters decide much


class _Auto(MultiTaskModel):
    """Compares, chooses, and leaves the rest to the model chosen."""

    _classify = False

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
    ):
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

    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None) -> Any:
        """Fit; see :meth:`MSMTFLCV.fit`."""
        if self.selection not in RULES:
            raise ValueError(f"selection must be '1se' or 'min', got {self.selection!r}.")
        check_use(self)
        forget(self, "best_estimator_")  # what it has found is not asked for below
        data = self._read(X, y, task, sample_weight)  # its errors name this class
        known = default_models(
            cv=self.inner_cv,
            standardize=self.standardize,
            random_state=self.random_state,
            classify=self._classify,
        )
        models = read_models(self.models, _able(known, X))
        self.comparison_ = compare_models(
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
        )
        self.chosen_, self.reason_ = choose_family(self.comparison_, self.selection)
        best = clone(models[self.chosen_])
        if not (isinstance(self.models, Mapping) or self._classify or groups is not None):
            best.set_params(cv=max(self.inner_cv, min(REFIT_FOLDS, *(len(part.rows) for part in data.tasks))))
        own = {name: getattr(self, name) for name in ("task_column", "unknown_task", "n_jobs")}
        best.set_params(**{name: value for name, value in own.items() if name in best.get_params()})
        options = {"task": task, "sample_weight": sample_weight}
        if "groups" in inspect.signature(best.fit).parameters:
            options["groups"] = groups
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepeatedSamplesWarning)  # said by the comparison
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

    def _asked(self, method: str, X: Any, task: Any) -> Any:
        """What a method of the model chosen says."""
        check_is_fitted(self, "best_estimator_")
        check_form(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        check_use(self)
        model = self.best_estimator_
        if getattr(model, "unknown_task", self.unknown_task) != self.unknown_task:  # set after the fit
            model = copy(model).set_params(unknown_task=self.unknown_task)
        return getattr(model, method)(X, **({} if task is None else {"task": task}))

    def predict(self, X: Any, *, task: Any = None) -> Any:
        """Predict as the model chosen does; see :meth:`MSMTFL.predict`."""
        return self._asked("predict", X, task)

    def score(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> float:
        """The score of the model chosen."""
        check_is_fitted(self, "best_estimator_")
        options = {"task": task, "sample_weight": sample_weight}
        given = {name: value for name, value in options.items() if value is not None}
        return float(self.best_estimator_.score(X, y, **given))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class MultiTaskAuto(_Auto, MultiTaskLinear):
    """The model that suits the data: families that share nothing, a support, values or everything, tried on the same folds.

    Every family is fitted on the training rows of each fold, where it chooses its own parameters by cross-validation, and
    predicts the rows held out (:func:`compare_models`). Of those whose error is within one standard error of the
    smallest, the best of those that use the fewest features (or at most a quarter more) is refitted on all data. The
    standard error is that of the difference, for other rows to train on as well as to predict (`se` of
    :class:`Comparison`).
    Variances that errors are divided by are steadied first: those of tasks with few rows are drawn towards the others', so
    that a task whose targets happen to be alike does not decide.

    Parameters
    ----------
    models : list of names, or {name: estimator}, optional
        The families to choose from; by default all of :func:`compare_models`.
    task_column : str or int, optional
        The column of X that says the task.
    cv : int, splitter or iterable of (train, test), default=5
        Folds on which the families are compared.
    inner_cv : int, default=5
        Folds by which each chooses its parameters. The family chosen does so again on all data, with five folds at least if
        there are rows enough (not with groups, nor if `models` are estimators).
    selection : {"1se", "min"}, default="1se"
        The simplest (see above) within one standard error of the best, or the best.
    screen : bool, default=True
        Families that are clearly worse on the first folds are not tried on the others; see :func:`compare_models`.
    standardize : bool, default=False
    unknown_task : {"error", "mean"}, default="error"
    random_state : int, RandomState or None, default=0
    n_jobs : int, optional
        Threads over folds.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    chosen_ : the name of the family
    reason_ : why, in words
    best_estimator_ : its model, fitted on all data
    comparison_ : :class:`Comparison` of the families; its errors are of rows held out, so they do not flatter, and its
        `dropped` are the families screened out
    coef_, intercept_, tasks_, features_ ... : those of `best_estimator_`

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
    'pooled lasso' has the smallest held-out nMSE of 2 models: 0.224. The next, 'lasso' with 0.247 (+0.023, s.e. 0.036), is
    not clearly worse.
    """


class MultiTaskAutoClassifier(_Auto, MultiTaskClassifier):
    """The classifier that suits the data: :class:`MultiTaskAuto` for classes, two or more.

    The families are those of ``compare_models(..., classify=True)``, compared by their held-out log-losses relative to
    predicting a task's class shares.

    Parameters
    ----------
    models : list of names, or {name: classifier}, optional
    task_column, cv, inner_cv, selection, screen, standardize, unknown_task, random_state, n_jobs, verbose
        As for :class:`MultiTaskAuto`; folds are stratified by task and class.

    Attributes
    ----------
    classes_ : (K,)
    chosen_, reason_, best_estimator_, comparison_ : as of :class:`MultiTaskAuto`
    coef_, intercept_, tasks_, features_ ... : those of `best_estimator_`

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

    def decision_function(self, X: Any, *, task: Any = None) -> Any:
        """That of the model chosen; see :meth:`MSMTFLClassifier.decision_function`."""
        return self._asked("decision_function", X, task)

    def predict_proba(self, X: Any, *, task: Any = None) -> Any:
        """Those of the model chosen; see :meth:`MSMTFLClassifier.predict_proba`."""
        return self._asked("predict_proba", X, task)


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


def choose_family(comparison: Comparison, selection: str = "1se") -> tuple[str, str]:
    """The model with the smallest held-out error, or ("1se") of those within one standard error of it the best one that uses
    about the fewest features; and why. Errors of numbers are over variances that are steadied: a task of few rows whose
    targets happen to be alike would else count for many."""
    plain, steady = _Choice(comparison, selection), _Choice(comparison.steadied, selection)
    if (steady.chosen, steady.best) == (plain.chosen, plain.best):
        return plain.chosen, plain.reason(comparison.measure.name)
    return steady.chosen, steady.reason("nMSE (with the variances of small tasks drawn towards the others')")


class _Choice:
    """The best model of a comparison, those as good as can be told, and the simplest of them."""

    def __init__(self, comparison: Comparison, selection: str):
        self.comparison, self.best = comparison, comparison.best
        self.paired = replace(comparison, reference=self.best)
        self.near = self.paired.difference <= self.paired.se
        if selection == "min":
            self.near[:] = False
        self.near[comparison.models.index(self.best)] = True
        size = np.where(self.near, np.nan_to_num(comparison.n_features, nan=np.inf), np.inf)
        simple = self.near & (size <= ABOUT * size.min())
        self.chosen = comparison.models[int(np.lexsort((size, comparison.error, ~simple))[0])]

    @property
    def dropped(self) -> str:
        return f" {self.comparison.dropped_in_words()}" if self.comparison.dropped else ""

    def reason(self, what: str) -> str:
        """Figures that are compared are of the same rows: of all folds, or of those until a model was screened out."""
        comparison, best, chosen = self.comparison, self.best, self.chosen
        names, digits = comparison.models, decimals(self.paired.se)
        error = {name: f"{value:.{digits}f}" for name, value in zip(names, comparison.error.tolist(), strict=True)}
        more = {
            name: f"{difference:+.{digits}f}, s.e. {se:.{digits}f}"
            for name, difference, se in zip(
                names, self.paired.difference.tolist(), self.paired.se.tolist(), strict=True
            )
        }
        every = f" tried on all folds, of {len(names) + len(comparison.dropped)}" if comparison.dropped else ""
        smallest = f"{best!r} has the smallest held-out {what} of {len(names)} models{every}: {error[best]}"
        if chosen == best:
            second = names[int(np.argsort(np.where(np.array(names) == best, np.inf, comparison.error))[0])]
            word = "clearly worse" if self.paired.evidence(second).worse else "not clearly worse"
            return f"{smallest}. The next, {second!r} with {error[second]} ({more[second]}), is {word}.{self.dropped}"
        few, many = (comparison.n_features[names.index(name)] for name in (chosen, best))
        digits = int(few.round() == many.round())
        uses = f"uses {few:.{digits}f} features" + (f" where that uses {many:.{digits}f}" if np.isfinite(many) else "")
        rest = [name for name, one in zip(names, self.near, strict=True) if one and name not in (best, chosen)]
        also = f" ({names_of(rest)} would have done too.)" if rest else ""
        return (
            f"{smallest}. {chosen!r} with {error[chosen]} ({more[chosen]}) is within one standard error of it and {uses}."
            f"{also}{self.dropped}"
        )


def choice_of(model: Any) -> dict[str, dict[str, str]]:
    """Which family was chosen and why, as a note that goes with the model; empty if it was not chosen so."""
    if isinstance(model, _Auto):
        check_is_fitted(model, "best_estimator_")
        return {"choice": {"chosen": model.chosen_, "reason": model.reason_}}
    as_loaded = hasattr(model, "coef_") and getattr(model, "_from_file", None) is model.coef_
    noted = model.provenance_.get("choice") if as_loaded else None
    return {"choice": noted} if noted else {}
