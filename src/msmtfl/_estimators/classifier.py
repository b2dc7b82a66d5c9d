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
        """x'w + b, the log-odds of the second class; with K > 2 classes of each against the rest.

        Returns
        -------
        (n,), or (n, K) for K > 2 classes; with a 2-D y and no `task`: (n, m), or (n, m, K).
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
        """Probabilities (n, K) of the classes, in the order of `classes_`; with more than two classes those of each against
        the rest, divided by their sum. With a 2-D y and no `task`: (n, m) of the second class, or (n, m, K)."""
        values = self.decision_function(X, task=task)
        if self._width > 1:
            return probabilities(values)
        return expit(values) if values.ndim == 2 else probabilities(values[:, None])

    def predict_log_proba(self, X: Any, *, task: Any = None) -> Floats:
        """Logarithms of the probabilities."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, task=task))

    def predict(self, X: Any, *, task: Any = None) -> np.ndarray:
        """The class of the largest decision value: (n,); (n, m) with a 2-D y and no `task`."""
        values = self.decision_function(X, task=task)
        return self.classes_[(values > 0).astype(np.intp) if self._width == 1 else np.argmax(values, axis=-1)]

    def score(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> float:
        """Accuracy over all rows; for a 2-D y over all cells that are measured."""
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

    for y 0 or 1: the deviance in the place of the squared error of :class:`MSMTFL`, whose penalty and stages it has. Each
    stage is solved by Newton steps around the exact quadratic solver, and certified. With K > 2 classes there is such a
    problem for every task and class (against the rest), m K in all in the place of m; they share rows.

    Parameters
    ----------
    lam : float, optional
        Strength of the penalty; by default 0.1 times `lam_max_`, a value to start from and not a choice (see
        :class:`MSMTFL`): :class:`MSMTFLClassifierCV` chooses by cross-validation. The C of scikit-learn's
        ``LogisticRegression(C)`` of one task with l1 penalty is 2 / (m n_i lam).
    theta : float, "adaptive" or None, optional
        As for :class:`MSMTFL`; in its unit m lam / rho_bar the rho_bar counts the curvature p (1 - p) of the loss at the fit
        of intercepts only.
    class_weight : dict {class: weight}, "balanced" or None
        Times the sample weights. "balanced": in every task all classes weigh the same, n_i in all.
    lam_entry, theta_entry, penalty, task_column, max_stages, fit_intercept, standardize, positive, penalty_factors, relax,
    tol, max_iter, warm_start, coef_init, unknown_task, n_jobs
        As for :class:`MSMTFL`; with K > 2 classes penalty_factors are (d,) or (d, m K), coef_init (m K, d), task by task.

    Attributes
    ----------
    classes_ : (K,)
    coef_ : (m, d), intercept_ : (m,)
        Of the log-odds of the second class; (d,) and a float if fitted without tasks. With K > 2 classes one more axis:
        (m, K, d) and (m, K).
    lam_, theta_, lam_max_, stages_, certificate_, ... : those of :class:`MSMTFL`, of all m K problems

    Notes
    -----
    A task needs rows of every class: otherwise no finite intercept fits it, and `fit` says which task it is. Where features
    that are free separate the classes of a task no finite coefficients do; `fit` warns.

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
        """Fit.

        Parameters
        ----------
        X : table with a task column (see `task_column`), or table/array of features (N, d)
        y : (N,) classes, or (N, m) with shared X, one column per task, NaN or None = not measured
        task : (N,) labels, if they are not a column of X
        sample_weight : (N,) weights >= 0, or (N, m) for a 2-D y

        Returns
        -------
        self
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
    """MSMTFLClassifier with lam and theta chosen by cross-validation, over the grid of :class:`MSMTFLCV`.

    Parameters
    ----------
    lams, theta_ratios, thetas, lam_min_ratio, entry_shares, entry_ratios, penalty
        As for :class:`MSMTFLCV`; lams is 30 by default.
    cv : int, splitter or iterable of (train, test), default=5
        A number: folds stratified by task and class.
    scoring : scorer name or callable, default="neg_log_loss"
        Of the rows held out, all tasks together: "neg_log_loss", "accuracy", "roc_auc" ("roc_auc_ovr" with more than two
        classes) or any scorer of scikit-learn. For a 2-D y "neg_log_loss" only.
    selection : {"min", "1se", "aic", "bic", "ebic"}, default="min"
        As for :class:`MSMTFLCV`.
    class_weight, task_column, max_stages, fit_intercept, standardize, positive, penalty_factors, relax, tol, max_iter,
    unknown_task
        As for :class:`MSMTFLClassifier`. Held-out log-losses use the class weights too.
    random_state, n_jobs, memory_budget, verbose : as for :class:`MSMTFLCV`

    Attributes
    ----------
    classes_, coef_, intercept_, ... : those of :class:`MSMTFLClassifier` at (lam_, theta_), refitted on all data
    lam_, theta_, surface_, cv_results_, best_score_, cross_fitted_score_, ... : those of :class:`MSMTFLCV`, but
        `test_log_loss`, of every task (and class against the rest), in the place of `test_mse`

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
        """Fit.

        Parameters
        ----------
        X, y, task, sample_weight : as for :meth:`MSMTFLClassifier.fit`
        groups : (N,) labels or "identical", optional
            Rows of one group (a patient, a speaker) stay in one fold; "identical": those with the same features.

        Returns
        -------
        self
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
        """See :class:`MSMTFLCV`."""
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
