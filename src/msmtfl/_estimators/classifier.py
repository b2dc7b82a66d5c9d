"""Classifiers: the logistic loss in the place of the squared one, two classes or one against the rest.

A classifier reads labels as classes and fits the problem with the logistic loss on 0 and 1 as the regressions fit theirs.
With K > 2 classes there is one such problem per task and class; all of them share rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from .._data.designs import Floats
from .._data.tables import missing_values
from .._data.tasks import TaskData, check_weights
from .._objective.problem import Problem
from .._paths.cross_validation import read_splits
from .._runtime.progress import one_blas_thread, with_callbacks
from .._solvers.make_problem import make_problem
from .base import MultiTaskModel
from .class_scores import LOG_LOSS, ClassScorer, LogLoss, probabilities
from .classes import ClassData, as_given, class_folds, encode, read_labels, refuse_lonely
from .msmtfl import StagedFit
from .search import ThetaSearch


class MultiTaskClassifier(ClassifierMixin, MultiTaskModel):
    """What all multi-task classifiers share: reading classes, predicting them and their probabilities."""

    def _read(self, X: Any, y: Any, task: Any, sample_weight: Any) -> TaskData:
        """The data of the tasks with codes of `classes_` as targets."""
        read = self._read_classes(X, y, task, sample_weight)
        self.classes_ = read.classes
        return read.tasks

    def _read_classes(self, X: Any, y: Any, task: Any, sample_weight: Any) -> ClassData:
        classes, codes = encode(y)
        data = super()._read(X, as_given(y, codes), task, sample_weight)
        refuse_lonely(data, classes)
        return ClassData(classes, codes, data, check_weights(sample_weight, codes.shape))

    def _logistic_problem(self, read: ClassData) -> Problem:
        """One problem per task; with K > 2 classes one per task and class."""
        return make_problem(
            read.binary(self.class_weight),
            loss="logistic",
            fit_intercept=self.fit_intercept,
            standardize=self.standardize,
            positive=self.positive,
            penalty_factors=self.penalty_factors,
            error="log_loss",
            n_jobs=self.n_jobs,
        )

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
        self.n_fitted_tasks_ = m
        self.target_mean_, self.target_sd_ = self.target_mean_.reshape(m, K), self.target_sd_.reshape(m, K)

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


# ------------------------------------------------------------------ the estimators


class MSMTFLClassifier(MultiTaskClassifier, StagedFit):
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

    @with_callbacks
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
        self._check_params()
        with one_blas_thread():
            read = self._read_classes(X, y, task, sample_weight)
            problem = self._logistic_problem(read)
        self._fit_stages(problem, self._last_coefs(read))
        self._note_classes(read)
        return self

    def _last_coefs(self, read: ClassData) -> Floats | None:
        """The last fit's coefficients (m, d), or (m K, d), if warm_start asks for them and classes, tasks and features are
        the same."""
        if not (self.warm_start and hasattr(self, "coef_") and np.array_equal(self.classes_, read.classes)):
            return None
        previous = self._previous(read.tasks)
        return None if previous is None else previous.reshape(-1, read.tasks.d)


class MSMTFLClassifierCV(MultiTaskClassifier, ThetaSearch):
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

    @with_callbacks
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
        self._check_params()
        with one_blas_thread():
            read = self._read_classes(X, y, task, sample_weight)
            problem = self._logistic_problem(read)
            if self.class_weight is not None and not isinstance(self.class_weight, dict):
                # weights of classes are those of the training rows, as in a fit of these
                problem = replace(problem, weigh=lambda keep: read.weights(self.class_weight, keep))
            grid, splits, scorer = self._grid(problem), [], None
            if self._by_folds:
                codes = as_given(y, read.codes)
                splits = read_splits(self._folds(read, groups), X, codes, groups, problem.data, self.random_state)
                scorer = self._class_scorer(X, read)
        self._fit_point(problem, grid, splits, scorer)
        self._note_classes(read)
        return self

    def _folds(self, read: ClassData, groups: Any) -> Any:
        """`cv`, a number being folds stratified by task and class."""
        if not isinstance(self.cv, (int, np.integer)) or isinstance(self.cv, bool) or self.cv < 2:
            return self.cv
        return class_folds(read.tasks, read.classes, int(self.cv), self.random_state, groups)

    def _class_scorer(self, X: Any, read: ClassData) -> Any:
        """What scores the rows held out; None if their errors, the log-losses, do."""
        classes, codes, weight = read.classes, read.codes, read.weights(self.class_weight)
        if isinstance(self.scoring, str) and self.scoring == LOG_LOSS:
            return LogLoss(codes, weight, len(classes)) if len(classes) > 2 else None
        if codes.ndim == 2:
            raise ValueError(f"with a 2-D y scoring must be {LOG_LOSS!r}; got {self.scoring!r}.")
        return ClassScorer(self.scoring, X, classes[codes.astype(np.intp)], weight, classes)
