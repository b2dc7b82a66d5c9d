"""Classifiers: the logistic loss in the place of the squared one, two classes or one against the rest.

A classifier reads labels as classes and leaves the work to a regression with the logistic loss on 0 and 1. With K > 2
classes there is one such problem per task and class; all of them share rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score, get_scorer, get_scorer_names
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .._data.copies import groups_of
from .._data.designs import Floats
from .._data.folds import TaskKFold
from .._data.tables import as_values, missing_values, names_of, refuse_twice, warn_user
from .._data.tasks import Task, TaskData, check_weights, read_training
from .._objective.problem import Problem
from .._paths.choice import cross_fitted_score
from .._paths.cross_validation import REDRAWS, Scorer
from .._solvers.make_problem import all_of, make_problem
from .base import MultiTaskModel
from .msmtfl import MSMTFL
from .search import MSMTFLCV

LOG_LOSS = "neg_log_loss"
EXACT = 2**53  # whole numbers below this are different floats
SHARED = (
    *("penalty", "task_column", "max_stages", "fit_intercept", "standardize", "positive", "penalty_factors"),
    *("relax", "tol", "max_iter", "unknown_task", "n_jobs"),
)


# ------------------------------------------------------------------ the regressions that do the work


class _Binary:
    """Logistic loss on targets that are codes of classes: 0 and 1, or, with more than two classes, one against the rest."""

    classes: Any = (0, 1)

    def _read(self, X: Any, y: Any, task: Any, sample_weight: Any) -> TaskData:
        return one_against_rest(super()._read(X, y, task, sample_weight), self.classes)  # type: ignore[misc]

    def _make_problem(self, X: Any, y: Any, task: Any, sample_weight: Any) -> Problem:
        me: Any = self
        return make_problem(
            self._read(X, y, task, sample_weight),
            loss="logistic",
            fit_intercept=me.fit_intercept,
            standardize=me.standardize,
            positive=me.positive,
            penalty_factors=me.penalty_factors,
            error="log_loss",
            n_jobs=me.n_jobs,
        )


class _Regression(_Binary, MSMTFL):
    pass


class _Search(_Binary, MSMTFLCV):
    judged: Any = None
    weigh: Any = None  # `Problem.weigh`: weights of classes are those of the training rows, as in a fit of these

    def _make_problem(self, X: Any, y: Any, task: Any, sample_weight: Any) -> Problem:
        return replace(super()._make_problem(X, y, task, sample_weight), weigh=self.weigh)

    def _scorer(self, X: Any, y: Any, sample_weight: Any) -> Any:
        return self.judged


def one_against_rest(data: TaskData, classes: Any) -> TaskData:
    """A task per task and class, where there are more than two of these; targets are places in `classes`."""
    if len(classes) == 2:
        return data
    tasks = [
        Task(_label(task.label, one), task.X, (task.y == k).astype(np.float64), task.weight, task.rows)
        for task in data.tasks
        for k, one in enumerate(classes)
    ]
    labels = np.array([task.label for task in tasks], dtype=object)
    form = "long" if data.form == "single" else data.form
    return replace(data, tasks=tuple(tasks), labels=labels, form=form, classes=len(classes))


class ClassScorer(Scorer):
    """A scikit-learn scorer of classifiers on probabilities that have been computed already."""

    def __init__(self, scoring: Any, X: Any, y: np.ndarray, weight: Floats | None, classes: np.ndarray):
        known = isinstance(scoring, str) and scoring in get_scorer_names()
        self.score = get_scorer(scoring) if known else scoring
        if not callable(self.score):
            raise ValueError(
                f"scoring must be {LOG_LOSS!r}, the name of a scikit-learn scorer (such as 'roc_auc' or 'accuracy') or a "
                f"callable; got {scoring!r}."
            )
        self.X, self.y, self.weight, self.classes = X, y, weight, classes
        self.weighted = weight is not None

    def _predicted(self, values: Floats) -> Any:
        return _Predicted(values, self.classes)


class LogLoss:
    """Minus the mean log-loss of probabilities of K > 2 classes, each against the rest; codes are (N,) or (N, m)."""

    def __init__(self, codes: Floats, weight: Floats | None, n_classes: int):
        self.codes, self.n_classes = codes.reshape(len(codes), -1), n_classes
        shape = self.codes.shape[::-1]
        self.weight = np.ones(shape).T if weight is None else np.broadcast_to(weight.T, shape).T

    def __call__(self, predictions: Floats, test: np.ndarray) -> float:
        p = normalised(predictions.reshape(*self.codes.shape, self.n_classes))
        row, column = np.nonzero(np.isfinite(p).all(axis=2) & test[:, None] & (self.weight > 0))
        chosen = p[row, column, self.codes[row, column].astype(np.intp)]
        losses = -np.log(np.maximum(chosen, np.finfo(float).tiny))
        return -float(np.average(losses, weights=self.weight[row, column]))


class _Predicted(ClassifierMixin, BaseEstimator):
    """A classifier that has predicted already; values are probabilities (n,), or (n, K) one against the rest."""

    def __init__(self, values: Any = None, classes: Any = None):
        self.values, self.classes = values, classes
        self.classes_ = classes

    def fit(self, X: Any, y: Any) -> _Predicted:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def decision_function(self, X: Any) -> Floats:
        with np.errstate(divide="ignore"):
            return np.clip(logit(self.values), -1e3, 1e3)

    def predict_proba(self, X: Any) -> Floats:
        return normalised(self.values if self.values.ndim == 2 else self.values[:, None])

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


def normalised(p: Floats) -> Floats:
    """(..., K) probabilities of classes from (..., 1) of the second, or (..., K) of each against the rest."""
    if p.shape[-1] == 1:
        return np.concatenate([1.0 - p, p], axis=-1)
    total = p.sum(axis=-1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1.0 / p.shape[-1])


def probabilities(f: Floats) -> Floats:
    """(..., K) from linear predictors: (..., 1) of the second class, or (..., K)."""
    return normalised(expit(f))


# ------------------------------------------------------------------ what both classifiers share


class MultiTaskClassifier(ClassifierMixin, MultiTaskModel):
    """What all multi-task classifiers share: reading classes, predicting them and their probabilities."""

    def _learn(self, inner: Any, X: Any, y: Any, task: Any, sample_weight: Any, **options: Any) -> None:
        """Fit the regression and take over what it found."""
        if hasattr(self, "_skl_callbacks"):
            inner.set_callbacks(*self._skl_callbacks)
        inner.fit(X, y, task=task, sample_weight=sample_weight, **options)
        K, data = len(inner.classes), self._data
        del self._data
        for name, value in vars(inner).items():
            if name.endswith("_") or name == "_task_position":
                setattr(self, name, value)
        self._form = data.form
        if K > 2:
            single = data.form == "single"
            m, d = data.m, data.d
            coef, level = inner.coef_.reshape(m, K, d), inner.intercept_.reshape(m, K)
            self.coef_, self.intercept_ = (coef[0], level[0]) if single else (coef, level)
            self.tasks_, self.n_samples_ = data.labels, inner.n_samples_[::K]
            self.learnable_ = inner.learnable_[::K]
            self.n_fitted_tasks_ = m
            self.target_mean_, self.target_sd_ = inner.target_mean_.reshape(m, K), inner.target_sd_.reshape(m, K)

    def _read(self, X: Any, y: Any, task: Any, sample_weight: Any) -> Any:
        """The data of the tasks with codes of `classes_` as targets."""
        given = {"task": task, "sample_weight": sample_weight}
        intercept = getattr(self, "fit_intercept", True)
        self.classes_, codes, _ = read_classes(X, y, task_column=self.task_column, fit_intercept=intercept, **given)
        return super()._read(X, as_given(y, codes), **given)

    def _read_classes(self, X: Any, y: Any, task: Any, sample_weight: Any) -> tuple[Floats, Floats | None]:
        """y as codes of `classes_` (NaN = not measured) and weights with those of the classes in them; the data of the tasks
        stay in `_data` for a while."""
        self.classes_, codes, self._data = read_classes(
            X,
            y,
            task=task,
            task_column=self.task_column,
            sample_weight=sample_weight,
            fit_intercept=self.fit_intercept,
        )
        weight = check_weights(sample_weight, codes.shape)
        return codes, class_weights(self.class_weight, self._data, self.classes_, codes.shape, weight)

    def _shared(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SHARED}

    # ------------------------------------------------------------------ using

    def decision_function(self, X: Any, *, task: Any = None) -> Floats:
        """Return the log-odds x'w + b of the second class, or with K > 2 classes of each class against the rest.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples in the form that was given to `fit`, with the column that identifies the
            task if there was one.
        task : array-like of shape (n,), optional
            The label of the task of every sample, if `fit` was given labels.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            The log-odds; (n, K) with K > 2 classes. If `fit` was given a 2-D y and `task` is None, there is an
            axis of tasks after the first: (n, m), or (n, m, K).
        """
        check_is_fitted(self, "coef_")
        m, K, d = len(self.tasks_), self._width, len(self.features_)
        coef, intercept = np.reshape(self.coef_, (m, K, d)), np.reshape(self.intercept_, (m, K))
        out = self._linear(X, task, coef, intercept)
        return out[..., 0] if K == 1 else out

    @property
    def _width(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def predict_proba(self, X: Any, *, task: Any = None) -> Floats:
        """Return the probabilities of the classes.

        With more than two classes they are those of each class against the rest, divided by their sum.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples in the form that was given to `fit`, with the column that identifies the
            task if there was one.
        task : array-like of shape (n,), optional
            The label of the task of every sample, if `fit` was given labels.

        Returns
        -------
        ndarray of shape (n, K)
            The probabilities, in the order of `classes_`. If `fit` was given a 2-D y and `task` is None, they
            are (n, m), those of the second class; with more than two classes (n, m, K).
        """
        values = self.decision_function(X, task=task)
        if self._width > 1:
            return probabilities(values)
        return expit(values) if values.ndim == 2 else probabilities(values[:, None])

    def predict_log_proba(self, X: Any, *, task: Any = None) -> Floats:
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples in the form that was given to `fit`, with the column that identifies the
            task if there was one.
        task : array-like of shape (n,), optional
            The label of the task of every sample, if `fit` was given labels.

        Returns
        -------
        ndarray of shape (n, K)
            The logarithms, in the order of `classes_`. If `fit` was given a 2-D y and `task` is None, they are
            (n, m), those of the second class; with more than two classes (n, m, K).
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, task=task))

    def predict(self, X: Any, *, task: Any = None) -> np.ndarray:
        """Predict the classes of samples.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples in the form that was given to `fit`, with the column that identifies the
            task if there was one.
        task : array-like of shape (n,), optional
            The label of the task of every sample, if `fit` was given labels.

        Returns
        -------
        ndarray of shape (n,) or (n, m)
            The class with the largest decision value for every sample; (n, m), one column per task, if `fit`
            was given a 2-D y and `task` is None.
        """
        values = self.decision_function(X, task=task)
        return self.classes_[(values > 0).astype(np.intp) if self._width == 1 else np.argmax(values, axis=-1)]

    def score(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> float:
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

        Returns
        -------
        float
            The accuracy, from 0 to 1.
        """
        found, truth = self.predict(X, task=task), read_labels(y)
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


def labels_of(model: Any) -> list[Any]:
    """Of the problems that a fitted model's stages are about: its tasks; with K > 2 classes K for each."""
    tasks, classes = model.tasks_.tolist(), getattr(model, "classes_", ())
    return tasks if len(classes) <= 2 else [_label(task, one) for task in tasks for one in classes]


def _label(task: Any, one: Any) -> str:
    return f"{task}: {one}"


def read_classes(
    X: Any, y: Any, *, task: Any, task_column: str | int | None, sample_weight: Any, fit_intercept: bool = True
) -> tuple[np.ndarray, Floats, TaskData]:
    """The classes (K,), y as codes of them (NaN = not measured), and the data of the tasks, with codes as targets."""
    values = read_labels(y)
    seen = ~missing_values(values.ravel()).reshape(values.shape)
    if values.ndim == 1 and not seen.all():
        raise ValueError(
            f"Input y contains NaN: row {int(np.argmin(seen))} is the first of {int((~seen).sum())} such value(s). Drop "
            "these rows, or pass a 2-D y in which NaN means not measured."
        )
    of_seen = _plain_numbers(values[seen])
    check_classification_targets(of_seen)
    classes, found = np.unique(of_seen, return_inverse=True)
    if values.ndim == 2 and classes.dtype.kind == "f" and (classes == classes.round()).all():
        classes = classes.astype(np.int64)  # floats because of NaN
    if len(classes) < 2:
        raise ValueError(f"y holds one class only ({names_of(classes)}): a classifier needs at least two classes.")
    codes = np.full(values.shape, np.nan)
    codes[seen] = found.ravel()
    data = read_training(X, as_given(y, codes), task=task, task_column=task_column, sample_weight=sample_weight)
    refuse_lonely(data, classes, fit_intercept)
    return classes, codes, data


def _plain_numbers(values: np.ndarray) -> np.ndarray:
    """Python's numbers as an array of numpy's; as whole numbers where floats would take two for one."""
    kinds = (int, float, np.integer, np.floating)
    if values.dtype != object or not all(isinstance(one, kinds) for one in values.tolist()):
        return values
    numbers = values.tolist()
    large = [one for one in numbers if isinstance(one, (int, np.integer)) and abs(int(one)) >= EXACT]
    if not large or not all(np.isfinite(one) and one == int(one) for one in numbers if isinstance(one, float)):
        return values.astype(float)
    whole = [int(one) for one in numbers]
    low, high = min(whole), max(whole)
    if low < -(2**63) or high >= (2**63 if low < 0 else 2**64):
        raise ValueError(
            f"y holds classes of more than 64 bits, such as {low if low < -(2**63) else high}. Pass classes as text: "
            "[str(one) for one in y]."
        )
    return np.array(whole, dtype=np.int64 if high < 2**63 else np.uint64)


def read_labels(y: Any) -> np.ndarray:
    if y is None:
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None: pass the target as the second argument."
        )
    if hasattr(y, "columns"):
        refuse_twice(list(y.columns), "y")
    values = as_values(y, "y")
    if values.dtype.kind == "f" and isinstance(y, (list, tuple)) and (np.abs(values) >= EXACT).any():
        values = np.array(y, dtype=object)  # numpy makes floats of whole numbers that have no type in common
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported: y has complex values.")
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ValueError("Input y contains infinity: classes must be finite, or text.")
    if values.ndim not in (1, 2):
        raise ValueError(f"y must be 1-D, or 2-D with one column per task; it has shape {values.shape}.")
    return values


class _Columns:
    """A 2-D array with names of columns: what `read_training` looks for in a table."""

    def __init__(self, values: Floats, columns: list[Any]):
        self.values, self.columns, self.shape = values, columns, values.shape

    def to_numpy(self) -> Floats:
        return self.values


def refuse_lonely(data: TaskData, classes: np.ndarray, fit_intercept: bool = True) -> None:
    """Every task needs rows of every class; the error names all that lack some."""
    lonely: dict[str, list[Any]] = {}
    for task in data.tasks:
        absent = np.setdiff1d(np.arange(len(classes)), task.y)
        if absent.size:
            lonely.setdefault(names_of(classes[absent]), []).append(task.label)
    if not lonely:
        return
    said = [f"{all_of(labels)} no row of class {absent}" for absent, labels in lonely.items()]
    where = "; ".join(said) if data.form != "single" else f"y (rows of positive weight) has no row of class {absent}"
    why = "with an intercept no finite model fits such a task"
    if not fit_intercept:  # a penalty on every feature makes it finite, but it is drawn to the class that there is
        why = "such a task cannot teach what tells that class from the others"
    raise ValueError(f"{where}: {why}. Leave it out until it has rows of every class.")


def class_weights(
    given: Any, data: TaskData, classes: np.ndarray, shape: tuple[int, ...], weight: Floats | None
) -> Floats | None:
    """Sample weights times those of the classes; "balanced": every class of a task weighs the same, all together n_i."""
    if given is None:
        return weight
    out = np.ones(shape) if weight is None else np.broadcast_to(weight.T, shape[::-1]).T.copy()
    if isinstance(given, dict):
        known = classes.tolist()
        foreign = [key for key in given if key not in known]
        if foreign:
            raise ValueError(f"class_weight names {names_of(foreign)}, but the classes are {names_of(known)}.")
        factors = np.array([float(given.get(one, 1.0)) for one in known])
        if not (np.isfinite(factors) & (factors >= 0)).all():
            raise ValueError(f"class_weight must be finite and >= 0; got {given!r}.")
    elif given != "balanced":
        raise ValueError(f"class_weight must be None, 'balanced' or a dict {{class: weight}}, got {given!r}.")
    for i, task in enumerate(data.tasks):
        code = task.y.astype(np.intp)
        if not isinstance(given, dict):
            v = np.ones(len(code)) if task.weight is None else task.weight
            factors = v.sum() / (len(classes) * np.bincount(code, v, len(classes)))
        out[(task.rows, i) if data.form == "wide" else task.rows] *= factors[code]
    return out


# ------------------------------------------------------------------ the estimators


class MSMTFLClassifier(MultiTaskClassifier):
    r"""Multi-stage multi-task feature learning for classes: sparse logistic regressions of related tasks.

    .. math::
        \min_{W, b} \sum_{i=1}^m \frac{2}{m n_i} \sum_r \log(1 + e^{f_r}) - y_r f_r
               + \lambda \sum_{j=1}^d \min(\|w^j\|_1, \theta), \qquad f_r = x_r' w_i + b_i

    for y 0 or 1: the deviance in place of the squared error of :class:`MSMTFL`, whose penalty and stages
    it has. Each stage is solved by Newton steps around the exact quadratic solver, and certified. With
    K > 2 classes there is such a problem for every task and class (against the rest), m K in all in place
    of m; they share features.

    Parameters
    ----------
    lam : float, optional
        Strength of the penalty. The default, 0.1 times `lam_max_`, is a value to start from, not a choice;
        :class:`MSMTFLClassifierCV` chooses lam by cross-validation. The C of scikit-learn's
        ``LogisticRegression(C)`` of one task with l1 penalty is 2 / (m n_i lam).
    theta : float or "adaptive", optional
        Norm from which a feature is free. The default is a cautious choice: max(8, m / 4) times
        m lam / rho_bar, with rho_bar the mean square of the columns times the curvature p (1 - p) of the
        loss at the fit of intercepts only, and at least three times the median norm of the features after
        stage 1, so that of features that are all alike none is freed. "adaptive" is bolder: the first
        significant jump of the sorted norms after stage 1. inf: the lasso.
    lam_entry : float, default=0
        Strength of a second penalty, on every coefficient by itself: the bi-level model,
        which is sparse also within the features that are free. With lam = 0 it is the only
        penalty, and the tasks have separate models. 0 gives the paper's model.
    theta_entry : float, optional
        Size from which a coefficient is free of the second penalty. The default is m (lam +
        lam_entry) / rho_bar, twice what the lasso takes from a coefficient, with rho_bar
        the mean square of the columns; inf: it is never free.
    penalty : {"capped", "mcp", "scad", "log", "lq"} or a shape, default="capped"
        The concave function that stands in place of min(t, theta); see
        :mod:`msmtfl._objective.shapes`.
    class_weight : dict {class: weight} or "balanced", optional
        Weights of the classes, which multiply the weights of the samples. "balanced": in
        every task all classes weigh the same, n_i in all.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    max_stages : int, default=10
        The largest number of stages; with 1 the model is the lasso.
    fit_intercept : bool, default=True
        Whether every task has an intercept, which is not penalised.
    standardize : bool, default=False
        Whether every task's columns are penalised as if they were scaled to unit standard
        deviation. Coefficients stay in the data's units.
    positive : bool, default=False
        Whether coefficients are required to be at least 0.
    penalty_factors : array-like of shape (d,), (d, m) or (d, m K), optional
        Factors f of the penalty: a feature's norm is the sum over tasks of f_ji |w_ji|. 0:
        the coefficient is never penalised; inf: the feature is excluded. With K > 2 classes
        they are given per feature, or per feature and pair of task and class, task by task.
    relax : bool, default=False
        Whether to refit with the loss alone on the support that was found, so that no
        coefficient is shrunk. `stages_` and the certificate stay those of the penalised
        solution, whose coefficients are ``stages_[-1].coef``.
    tol : float, default=1e-8
        The relative duality gap that every stage must reach. Solves are exact: 1e-10 and
        less is usual.
    max_iter : int, optional
        Limit on the rounds of a stage's solver. The default is far more than it needs.
    warm_start : bool, default=False
        Whether to start from the coefficients of the last fit, if its tasks and features
        are the same: the fit goes on with its stages.
    coef_init : array-like of shape (m, d) or (m K, d), optional
        Coefficients to start from instead of 0, which matters because the problem is not
        convex: their norms decide which features stage 1 leaves free. With K > 2 classes
        they are given for every pair of task and class, task by task.
    unknown_task : {"error", "mean"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error,
        or predict with the mean coefficients of the known tasks, and warn.
    n_jobs : int, optional
        Number of threads, which work on tasks side by side. The result is the same to the
        bit.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, sorted.
    coef_ : ndarray of shape (m, d) or (m, K, d)
        Coefficients of the log-odds of the second class, one line per task, in the data's
        units. With K > 2 classes there are coefficients for each class against the rest.
        Without the first axis if the model was fitted without tasks.
    intercept_ : ndarray of shape (m,) or (m, K)
        Intercepts of the tasks; without the first axis (a float, or K numbers) if the model
        was fitted without tasks.
    tasks_ : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `coef_`.
    features_ : ndarray of shape (d,)
        Names of the features, in the order of the last axis of `coef_`.
    n_features_in_ : int
        Number of columns of X in `fit`, the column that identifies the task included.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X in `fit`. There is no such attribute if X had no names
        that are text.
    n_samples_ : ndarray of shape (m,)
        Number of training samples of every task.
    n_fitted_tasks_ : int
        Number of tasks of the fit, those that were added later not counted.
    target_mean_ : ndarray of shape (m,) or (m, K)
        Share of the second class (of each class, if there are more than two) in the
        training samples of every task.
    target_sd_ : ndarray of shape (m,) or (m, K)
        Standard deviation of the 0/1 indicator of that class.
    lam_ : float
        The strength of the penalty that was used.
    theta_ : float
        The norm from which a feature is free that was used.
    lam_entry_ : float
        The strength of the penalty on single coefficients that was used; 0 in the paper's
        model.
    theta_entry_ : float
        The size from which a coefficient is free of that penalty.
    lam_max_ : float
        The smallest lam at which all coefficients are 0.
    stages_ : list of Stage
        The stages, each with stage (its number), coef, objective, free_rows (the features
        that it left un-penalised), dual_gap, kkt, unique, n_iter and seconds.
    n_stages_ : int
        Number of stages.
    n_iter_ : int
        Number of rounds of the solver, over all stages.
    certificate_ : Certificate
        What is proven about the fit; print it for the answer in words.
    converged_ : bool
        Whether the fit is certified to have come to its end.
    stopping_reason_ : str
        Why the stages ended, in words.
    objective_ : float
        The value of what is minimised, loss plus penalty.
    dual_gap_ : float
        Relative duality gap of the last stage: an upper bound on how far its solution is
        from optimal.
    row_norms_ : ndarray of shape (d,)
        For every feature the norm of its coefficients over all tasks: the sum over tasks of
        f_ji |w_ji|, with f the penalty factors.
    row_slopes_ : ndarray of shape (d,)
        What the last stage left of the penalty on a feature: 0 where the feature is free, 1
        where it is penalised in full.
    feature_importances_ : ndarray of shape (n_features_in_,)
        The norms of the features in the order of the columns of X; a column that identifies
        the task gets the largest.
    learnable_ : ndarray of bool of shape (m, d)
        Where a feature varies within a task; elsewhere its effect cannot be told from the
        intercept.
    task_level_features_ : ndarray
        Names of the features that are constant within every task and differ only between
        tasks. A coefficient of 0 says nothing about their effect, and `fit` warns of them.

    Notes
    -----
    A task needs samples of every class: otherwise no finite intercept fits it, and `fit` raises an error
    that names the task. Where features that are free separate the classes of a task, no finite
    coefficients fit it, and `fit` warns.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((300, 10)), np.repeat(["north", "south", "west"], 100)
    >>> y = np.where(2 * X[:, 0] - X[:, 3] + rng.logistic(size=300) > 0, "ill", "well")
    >>> model = MSMTFLClassifier().fit(X, y, task=task)
    >>> model.classes_, model.coef_.shape
    (array(['ill', 'well'], dtype='<U4'), (3, 10))
    >>> model.predict_proba(X[:2], task=["north", "west"]).shape
    (2, 2)
    >>> bool(model.dual_gap_ < 1e-10)
    True
    """

    def __init__(
        self,
        lam=None,
        theta=None,
        *,
        lam_entry=0.0,
        theta_entry=None,
        penalty="capped",
        class_weight=None,
        task_column=None,
        max_stages=10,
        fit_intercept=True,
        standardize=False,
        positive=False,
        penalty_factors=None,
        relax=False,
        tol=1e-8,
        max_iter=None,
        warm_start=False,
        coef_init=None,
        unknown_task="error",
        n_jobs=None,
    ):
        self.lam = lam
        self.theta = theta
        self.lam_entry = lam_entry
        self.theta_entry = theta_entry
        self.penalty = penalty
        self.class_weight = class_weight
        self.task_column = task_column
        self.max_stages = max_stages
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.positive = positive
        self.penalty_factors = penalty_factors
        self.relax = relax
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.coef_init = coef_init
        self.unknown_task = unknown_task
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> MSMTFLClassifier:
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

        Returns
        -------
        MSMTFLClassifier
            The fitted model itself.
        """
        names = ("lam", "theta", "lam_entry", "theta_entry", "warm_start", "coef_init")
        inner = _Regression(**{name: getattr(self, name) for name in names}, **self._shared())
        inner._check_params()
        before = vars(self).copy() if self.warm_start and hasattr(self, "coef_") else {}
        codes, weight = self._read_classes(X, y, task, sample_weight)
        inner.classes = self.classes_
        if before and np.array_equal(before["classes_"], self.classes_):
            inner.coef_, inner.features_ = (
                np.reshape(before["coef_"], (-1, len(before["features_"]))),
                before["features_"],
            )
            inner.tasks_ = before["tasks_"] if self._width == 1 else one_against_rest(self._data, self.classes_).labels
        self._learn(inner, X, as_given(y, codes), task, weight)
        return self


def as_given(y: Any, codes: Floats) -> Any:
    return _Columns(codes, list(y.columns)) if hasattr(y, "columns") else codes


class MSMTFLClassifierCV(MultiTaskClassifier):
    """MSMTFLClassifier with lam and theta chosen by cross-validation.

    The whole grid of lam and theta is solved on every training fold. All folds use the same values, taken
    from all data. The model is then fitted to all data at the point that was chosen. With `relax` every
    point is refitted on every fold, and scored so; an information criterion judges the models as
    penalised.

    Parameters
    ----------
    lams : int or array-like of shape (K,), default=30
        How many values of lam the grid has, geometrically spaced from `lam_max_` down to
        `lam_min_ratio` times that; or the values themselves, in any order.
    theta_ratios : array-like of shape (L,), optional
        Values of theta in units of m lam / rho_bar, with lam that of features and entries
        together and rho_bar the mean square of the columns. By default six from 1 to
        max(50, 11 m), and inf, so that the lasso is always among the candidates. Where
        `entry_shares` is left at its default, every second of them is searched.
    thetas : array-like of shape (L,) or (K, L), optional
        Values of theta themselves, instead of ratios; inf is allowed.
    lam_min_ratio : float, optional
        The smallest lam of the grid over the largest. By default 1e-3, or 1e-4 if every
        task has more samples than features.
    entry_shares : array-like of numbers from 0 to 1, optional
        Shares s of lam that go to a penalty on every coefficient by itself: lam_entry = s
        lam, which leaves (1 - s) lam for the features. 0 is the paper's model, 1 the capped
        lasso of every task. By default 0 and, at one theta, 0.5; where `thetas` or
        `theta_ratios` are given, 0 alone; where `entry_ratios` are given, 0, 0.5 and 1.
    entry_ratios : array-like, optional
        Values of theta_entry in units of m lam / rho_bar. By default 0.5 and 2 (in the
        default grid 0.5 alone).
    penalty : {"capped", "mcp", "scad", "log", "lq"} or a shape, default="capped"
        The concave function that stands in place of min(t, theta); see
        :mod:`msmtfl._objective.shapes`.
    cv : int, splitter or iterable of (train, test), default=5
        The folds. A number means that many folds stratified by task and class. Every
        training fold needs samples of every class of every task.
    scoring : scorer name or callable, default="neg_log_loss"
        What is compared on the samples held out, all tasks together; greater is better:
        "neg_log_loss", "accuracy", "roc_auc" ("roc_auc_ovr" with more than two classes) or
        any scorer of scikit-learn. With a 2-D y only "neg_log_loss". Held-out log-losses
        use the class weights, too.
    selection : {"min", "1se", "aic", "bic", "ebic"}, default="min"
        How the point of the grid is chosen. "min": the best mean score. "1se": the simplest
        model within one standard error of it (the fewest features, then the fewest
        coefficients, then the largest lam). The others are information criteria, which need
        no folds. "aic" and "bic" charge for degrees of freedom, which are known where the
        penalty is convex: so they compare the points without a cap, and are NaN at the
        others. "ebic" charges for the search as well, and compares all points.
    class_weight : dict {class: weight} or "balanced", optional
        Weights of the classes, which multiply the weights of the samples. "balanced": in
        every task all classes weigh the same, n_i in all.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    max_stages : int, default=10
        The largest number of stages; with 1 the model is the lasso.
    fit_intercept : bool, default=True
        Whether every task has an intercept, which is not penalised.
    standardize : bool, default=False
        Whether every task's columns are penalised as if they were scaled to unit standard
        deviation. Coefficients stay in the data's units.
    positive : bool, default=False
        Whether coefficients are required to be at least 0.
    penalty_factors : array-like of shape (d,), (d, m) or (d, m K), optional
        Factors f of the penalty: a feature's norm is the sum over tasks of f_ji |w_ji|. 0:
        the coefficient is never penalised; inf: the feature is excluded. With K > 2 classes
        they are given per feature, or per feature and pair of task and class, task by task.
    relax : bool, default=False
        Whether to refit with the loss alone on the support that was found, so that no
        coefficient is shrunk. `stages_` and the certificate stay those of the penalised
        solution, whose coefficients are ``stages_[-1].coef``.
    tol : float, default=1e-8
        The relative duality gap that every stage must reach. Solves are exact: 1e-10 and
        less is usual.
    max_iter : int, optional
        Limit on the rounds of a stage's solver. The default is far more than it needs.
    unknown_task : {"error", "mean"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error,
        or predict with the mean coefficients of the known tasks, and warn.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that deals out the samples when `cv` is a number.
    n_jobs : int, optional
        Number of threads, which work on folds side by side. The result is the same to
        rounding.
    memory_budget : float, optional
        Bytes that Gram matrices may take; by default 1 GiB.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, sorted.
    coef_ : ndarray of shape (m, d) or (m, K, d)
        Coefficients of the log-odds of the second class, one line per task, in the data's
        units. With K > 2 classes there are coefficients for each class against the rest.
        Without the first axis if the model was fitted without tasks.
    intercept_ : ndarray of shape (m,) or (m, K)
        Intercepts of the tasks; without the first axis (a float, or K numbers) if the model
        was fitted without tasks.
    tasks_ : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `coef_`.
    features_ : ndarray of shape (d,)
        Names of the features, in the order of the last axis of `coef_`.
    n_features_in_ : int
        Number of columns of X in `fit`, the column that identifies the task included.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X in `fit`. There is no such attribute if X had no names
        that are text.
    n_samples_ : ndarray of shape (m,)
        Number of training samples of every task.
    n_fitted_tasks_ : int
        Number of tasks of the fit, those that were added later not counted.
    target_mean_ : ndarray of shape (m,) or (m, K)
        Share of the second class (of each class, if there are more than two) in the
        training samples of every task.
    target_sd_ : ndarray of shape (m,) or (m, K)
        Standard deviation of the 0/1 indicator of that class.
    lam_ : float
        The strength of the penalty that was used.
    theta_ : float
        The norm from which a feature is free that was used.
    lam_entry_ : float
        The strength of the penalty on single coefficients that was used; 0 in the paper's
        model.
    theta_entry_ : float
        The size from which a coefficient is free of that penalty.
    lam_max_ : float
        The smallest strength of the penalty at which all coefficients are 0.
    lams_ : ndarray of shape (K,)
        The values of lam of the grid.
    thetas_ : ndarray of shape (K, L)
        The values of theta of the grid, for every lam.
    best_point_ : tuple of int
        The place (k, l) of the choice in the grid.
    best_index_ : int
        The place of the choice in `cv_results_`.
    best_score_ : float
        The mean score of the choice (with an information criterion minus its value). It is
        the best of many on the same folds, so it is no estimate of the score on new data.
    cross_fitted_score_ : float
        An estimate of the score on new data: the mean score of the folds, each at the point
        that the other folds choose.
    n_splits_ : int
        Number of folds; 0 with an information criterion.
    cv_results_ : dict of arrays
        One entry per point of the grid, lam outermost, ready for a table: lam, theta,
        theta_ratio, n_rows (features used in any task), n_entries (coefficients that are
        not 0), n_stages, eligible, mean_test_score, std_test_score, se_test_score,
        rank_test_score, split0_test_score, ...; test_log_loss, of every task (and class
        against the rest), and test_weight hold an array per point, with one line per fold.
        Without folds the criterion stands in place of scores, NaN where it is not known. A
        point is `eligible`, and has scores, where every fold and all data were solved just
        as :class:`MSMTFLClassifier` solves them. A search stops short of stages that would
        leave more features un-penalised than most tasks have independent samples: such
        points have NaN and are not chosen.
    surface_ : Surface
        The solutions at all points of the grid, on all data; ``surface_.coef(k, l)`` has
        the coefficients of one.
    stages_ : list of Stage
        The stages, each with stage (its number), coef, objective, free_rows (the features
        that it left un-penalised), dual_gap, kkt, unique, n_iter and seconds.
    n_stages_ : int
        Number of stages.
    n_iter_ : int
        Number of rounds of the solver, over all stages.
    certificate_ : Certificate
        What is proven about the fit; print it for the answer in words.
    converged_ : bool
        Whether the fit is certified to have come to its end.
    stopping_reason_ : str
        Why the stages ended, in words.
    objective_ : float
        The value of what is minimised, loss plus penalty.
    dual_gap_ : float
        Relative duality gap of the last stage: an upper bound on how far its solution is
        from optimal.
    row_norms_ : ndarray of shape (d,)
        For every feature the norm of its coefficients over all tasks: the sum over tasks of
        f_ji |w_ji|, with f the penalty factors.
    row_slopes_ : ndarray of shape (d,)
        What the last stage left of the penalty on a feature: 0 where the feature is free, 1
        where it is penalised in full.
    feature_importances_ : ndarray of shape (n_features_in_,)
        The norms of the features in the order of the columns of X; a column that identifies
        the task gets the largest.
    learnable_ : ndarray of bool of shape (m, d)
        Where a feature varies within a task; elsewhere its effect cannot be told from the
        intercept.
    task_level_features_ : ndarray
        Names of the features that are constant within every task and differ only between
        tasks. A coefficient of 0 says nothing about their effect, and `fit` warns of them.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFLClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((300, 10)), np.repeat(["north", "south", "west"], 100)
    >>> y = 2 * X[:, 0] - X[:, 3] + rng.logistic(size=300) > 0
    >>> model = MSMTFLClassifierCV(lams=10, cv=3).fit(X, y, task=task)
    >>> np.flatnonzero(model.row_norms_ > 1)
    array([0, 3])
    >>> bool(model.best_score_ > -np.log(2))
    True
    """

    def __init__(
        self,
        lams=30,
        *,
        theta_ratios=None,
        thetas=None,
        lam_min_ratio=None,
        entry_shares=None,
        entry_ratios=None,
        penalty="capped",
        cv=5,
        scoring=LOG_LOSS,
        selection="min",
        class_weight=None,
        task_column=None,
        max_stages=10,
        fit_intercept=True,
        standardize=False,
        positive=False,
        penalty_factors=None,
        relax=False,
        tol=1e-8,
        max_iter=None,
        unknown_task="error",
        random_state=0,
        n_jobs=None,
        memory_budget=None,
        verbose=False,
    ):
        self.lams = lams
        self.theta_ratios = theta_ratios
        self.thetas = thetas
        self.lam_min_ratio = lam_min_ratio
        self.entry_shares = entry_shares
        self.entry_ratios = entry_ratios
        self.penalty = penalty
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.class_weight = class_weight
        self.task_column = task_column
        self.max_stages = max_stages
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.positive = positive
        self.penalty_factors = penalty_factors
        self.relax = relax
        self.tol = tol
        self.max_iter = max_iter
        self.unknown_task = unknown_task
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_budget = memory_budget
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> MSMTFLClassifierCV:
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
        groups : array-like of shape (N,) or "identical", optional
            Labels of groups: samples of one group (a patient, a speaker) stay in one fold.
            "identical": samples with the same features are a group.

        Returns
        -------
        MSMTFLClassifierCV
            The fitted model itself.
        """
        grid = ("lams", "theta_ratios", "thetas", "lam_min_ratio", "entry_shares", "entry_ratios")
        others = ("cv", "scoring", "selection", "random_state", "memory_budget", "verbose")
        inner = _Search(**{name: getattr(self, name) for name in (*grid, *others)}, **self._shared())
        inner._check_params()
        codes, weight = self._read_classes(X, y, task, sample_weight)
        inner.classes = self.classes_
        if isinstance(self.cv, (int, np.integer)) and not isinstance(self.cv, bool) and self.cv >= 2:
            inner.cv = class_folds(self._data, self.classes_, int(self.cv), self.random_state, groups)
        inner.judged = self._judged(X, y, codes, weight)
        if self.class_weight is not None and not isinstance(self.class_weight, dict):
            base, data, classes = check_weights(sample_weight, codes.shape), self._data, self.classes_
            inner.weigh = lambda keep: class_weights(self.class_weight, data.kept(keep), classes, codes.shape, base)
        self._learn(inner, X, as_given(y, codes), task, weight, groups=groups)
        return self

    @property
    def cross_fitted_score_(self) -> float:
        """An estimate of the score on new data: the mean score of the folds, each at the point that the others choose.

        `best_score_` is no such estimate: it is the best of many on the same folds.
        """
        return cross_fitted_score(self)

    def _judged(self, X: Any, y: Any, codes: Floats, weight: Floats | None) -> Any:
        """What scores the rows held out; None if their errors, the log-losses, do."""
        if self.scoring == LOG_LOSS:
            return LogLoss(codes, weight, len(self.classes_)) if self._width > 1 else None
        if codes.ndim == 2:
            raise ValueError(f"with a 2-D y scoring must be {LOG_LOSS!r}; got {self.scoring!r}.")
        return ClassScorer(self.scoring, X, self.classes_[codes.astype(np.intp)], weight, self.classes_)


def class_folds(
    data: TaskData, classes: np.ndarray, n_splits: int, random_state: Any, groups: Any
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Folds stratified by task and class; an error if a training fold would lack a class of a task."""
    few = []
    for task in data.tasks:
        counts = np.bincount(task.y.astype(np.intp), minlength=len(classes))
        rare = int(np.argmin(counts))
        if counts[rare] < 2:
            named = names_of([classes[rare]])
            raise ValueError(
                f"task {task.label!r} has {counts[rare]} row of class {named}: held out, none is left to train. Leave the "
                "task out, or give pairs of (training, test) rows as cv that keep it in all training rows."
            )
        if counts[rare] < n_splits:
            few.append(task.label)
    if few:
        warn_user(
            f"task(s) {names_of(few)} have fewer rows of a class than cv={n_splits} folds: some hold out none of them. "
            "Use fewer folds."
        )
    pattern = np.full((data.X.shape[0], data.m), -1)
    for i, task in enumerate(data.tasks):
        pattern[task.rows, i] = task.y
    used = np.flatnonzero((pattern >= 0).any(axis=1))
    strata = np.unique(pattern[used], axis=0, return_inverse=True)[1].ravel()
    of_rows = None if groups is None else groups_of(groups, data.X)[used]
    dealer = TaskKFold(n_splits, random_state=check_random_state(random_state))
    for _ in range(REDRAWS):
        fold = list(dealer.deal_evenly(strata, of_rows))
        lost = [
            task.label
            for i, task in enumerate(data.tasks)
            if any(
                len(np.unique(pattern[used[train], i][pattern[used[train], i] >= 0])) < len(classes)
                for train, _ in fold
            )
        ]
        if not lost:
            return [(used[train], used[test]) for train, test in fold]
    raise ValueError(
        f"some folds leave task(s) {names_of(lost)} without training rows of every class. Use fewer folds, or leave these "
        "tasks out."
    )
