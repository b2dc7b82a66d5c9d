"""The estimators: parameters in, attributes out. The work is done in tasks, stages and certificates."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from . import thresholds
from .certificates import Certificate, critical_residual
from .designs import DenseTask, Floats
from .lasso import Lassos
from .monitor import CallbackSupport, Monitor, one_blas_thread, with_callbacks
from .penalties import CappedRows
from .stages import ONE_STAGE, Solution, run_stages
from .tasks import (
    TaskData,
    _column_position,
    check_finite,
    check_form,
    match_labels,
    names_of,
    read_features,
    read_training,
)

LAM_SHARE = 0.1  # lam=None is this share of lam_max


@dataclass(frozen=True)
class Problem:
    """The problem actually solved: designs, penalty factors (d, m) with the standardisation in them, scales."""

    data: TaskData
    designs: list[DenseTask]
    factors: Floats
    units: Floats  # (m, d): standard deviations if standardised, else 1
    lam_max: float
    rho_bar: float

    @property
    def m(self) -> int:
        return len(self.designs)


class _MultiTaskLinear(CallbackSupport, RegressorMixin, BaseEstimator):
    """What all multi-task linear models share: reading data, predicting, scoring."""

    # ------------------------------------------------------------------ reading

    def _read(self, X: Any, y: Any, task: Any, sample_weight: Any) -> TaskData:
        check_form(X)
        validate_data(self, X, skip_check_array=True)
        data = read_training(X, y, task=task, task_column=self.task_column, sample_weight=sample_weight)
        self._form = data.form
        self._task_position = None if self.task_column is None else _column_position(X, self.task_column)
        if not hasattr(self, "n_features_in_"):  # nested lists
            self.n_features_in_ = data.d + (self._task_position is not None)
        return data

    def _pose(self, data: TaskData) -> Problem:
        """Designs, scales and lam_max. Standardising is a matter of penalty factors: X stays as it is."""
        designs = data.designs(self.fit_intercept)
        squares = np.array([design.squares / design.n for design in designs])
        units = np.sqrt(np.where(squares > 0, squares, 1.0)) if self.standardize else np.ones_like(squares)
        factors = _read_factors(self.penalty_factors, data) * units.T
        return Problem(
            data,
            designs,
            factors,
            units,
            lam_max(designs, factors, self.positive),
            thresholds.mean_square(designs, units),
        )

    def _check_common(self) -> None:
        for name in ("fit_intercept", "standardize", "positive", "warm_start"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}.")
        if self.unknown_task not in ("error", "mean"):
            raise ValueError(f"unknown_task must be 'error' or 'mean', got {self.unknown_task!r}.")
        _check_positive("tol", self.tol)
        if self.max_iter is not None:
            _check_count("max_iter", self.max_iter)
        if self.n_jobs is not None and (not isinstance(self.n_jobs, Integral) or self.n_jobs == 0):
            raise ValueError(f"n_jobs must be a non-zero integer or None, got {self.n_jobs!r}.")

    # ------------------------------------------------------------------ storing

    def _store(self, problem: Problem, solution: Solution, penalty: CappedRows) -> None:
        data, last = problem.data, solution.stages[-1]
        W = last.coef
        self.tasks_ = data.labels
        self.features_ = data.features
        self.coef_ = W
        self.intercept_ = np.array(
            [design.intercept(w) if self.fit_intercept else 0.0 for design, w in zip(problem.designs, W, strict=True)]
        )
        if data.form == "single":
            self.coef_, self.intercept_ = W[0], float(self.intercept_[0])
        self.lam_, self.lam_max_ = penalty.lam, problem.lam_max
        self.row_norms_ = penalty.row_norms(W.T)
        self.feature_importances_ = self.row_norms_
        if self._task_position is not None:
            self.feature_importances_ = np.insert(
                self.row_norms_, self._task_position, self.row_norms_.max(initial=0.0)
            )
        self.stages_ = list(solution.stages)
        self.n_stages_ = len(solution.stages)
        self.n_iter_ = int(sum(stage.n_iter for stage in solution.stages))
        self.objective_ = last.objective
        self.dual_gap_ = last.dual_gap
        self.converged_ = solution.converged
        self.stopping_reason_ = solution.reason
        objectives = [stage.objective for stage in solution.stages]
        rise = 1e-12 * max(abs(objectives[0]), np.finfo(float).tiny)
        self.certificate_ = Certificate(
            last.dual_gap,
            last.kkt,
            critical_residual(problem.designs, W, penalty, self.positive),
            all(stage.unique for stage in solution.stages),
            all(after <= before + rise for before, after in zip(objectives, objectives[1:], strict=False)),
            {
                label: [str(name) for name in data.features[proof.dependent]]
                for label, proof in zip(data.labels.tolist(), last.certificates, strict=True)
                if not proof.unique
            },
            self.tol,
        )
        self._warn(solution, data)

    def _warn(self, solution: Solution, data: TaskData) -> None:
        last = solution.stages[-1]
        if not solution.converged and solution.reason != ONE_STAGE:
            how = " Raise max_iter or tol." if last.dual_gap > self.tol else " Raise max_stages to go on."
            warnings.warn(solution.reason + "." + how, ConvergenceWarning, stacklevel=4)
        crowded = [
            label
            for label, design in zip(data.labels.tolist(), self._orders(data), strict=True)
            if len(last.free_rows) > design
        ]
        if crowded:
            warnings.warn(
                f"{len(last.free_rows)} rows are un-penalised, more than task(s) {names_of(crowded)} have independent "
                "samples: their coefficients interpolate and are not unique (the solution nearest the previous stage is "
                "returned). Choose a larger theta or lam.",
                UserWarning,
                stacklevel=4,
            )

    def _orders(self, data: TaskData) -> list[int]:
        return [min(len(task.y) - bool(self.fit_intercept), data.d) for task in data.tasks]

    # ------------------------------------------------------------------ using

    def predict(self, X: Any, *, task: Any = None) -> Floats:
        """Predict.

        Parameters
        ----------
        X : table or array like the one given to fit (with the task column, if there was one)
        task : labels, one per row, if fit was given labels

        Returns
        -------
        (n,) predictions in the order of the rows; (n, m) if fit was given a 2-D y and `task` is None.
        """
        check_is_fitted(self, "coef_")
        check_form(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        values, task, names = read_features(X, task, self.task_column)
        check_finite(values, names, "X")
        if values.shape[1] != len(self.features_):
            raise ValueError(
                f"X has {values.shape[1]} features, but {type(self).__name__} is expecting {len(self.features_)} features "
                "as input."
            )
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        if task is None:
            if self._form == "wide":
                return np.asarray(values @ coef.T + intercept)
            if self._form == "single":
                return np.asarray(values @ coef[0] + intercept[0])
            raise ValueError(
                f"this model was fitted with task labels: pass task=, one label per row (known: {names_of(self.tasks_)})."
            )
        codes = match_labels(self.tasks_, task, len(values), self.unknown_task)
        out = np.empty(len(values))
        for i in np.unique(codes):
            rows = codes == i
            w, b = (coef[i], intercept[i]) if i >= 0 else (coef.mean(axis=0), intercept.mean())
            out[rows] = values[rows] @ w + b
        return out

    def score(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> float:
        """R^2 over all rows; for a 2-D y the mean over tasks, missing cells ignored."""
        prediction = self.predict(X, task=task)
        truth = np.asarray(y, dtype=np.float64)
        if truth.ndim == 1 or prediction.ndim == 1:
            return float(r2_score(truth.reshape(prediction.shape), prediction, sample_weight=sample_weight))
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def _read_factors(factors: Any, data: TaskData) -> Floats:
    """penalty_factors as (d, m): None, one per feature (d,), or one per feature and task (d, m)."""
    if factors is None:
        return np.ones((data.d, data.m))
    out = np.asarray(factors, dtype=np.float64)
    if out.shape == (data.d,):
        out = np.repeat(out[:, None], data.m, axis=1)
    if out.shape != (data.d, data.m):
        raise ValueError(
            f"penalty_factors has shape {np.shape(factors)}; expected ({data.d},) for one per feature, or "
            f"({data.d}, {data.m}) for one per feature and task."
        )
    bad = np.argwhere(~(out >= 0))
    if bad.size:
        raise ValueError(
            f"penalty_factors must be >= 0 (inf excludes a cell); feature {data.features[bad[0][0]]!r} has "
            f"{out[tuple(bad[0])]}."
        )
    return out


def lam_max(designs: Sequence[DenseTask], factors: Floats, positive: bool = False) -> float:
    """The smallest lam at which stage 1 is zero (but for the cells that are never penalised).

    max_ij 2 / (m n_i f_ji) |x_j'r_i|, r_i the residual of the fit of the f = 0 cells.
    """
    free = (factors == 0.0).T
    W = np.zeros((len(designs), designs[0].d))
    if free.any():
        W, _ = Lassos(designs, positive=positive).solve(np.where(free, 0.0, np.inf))
    top = 0.0
    for design, w, f in zip(designs, W, factors.T, strict=True):
        g = design.gradient(w) if w.any() else design.c
        counted = (f > 0) & np.isfinite(f)
        size = g[counted] if positive else np.abs(g[counted])
        top = max(top, 2.0 / (len(designs) * design.n) * float(np.max(size / f[counted], initial=0.0)))
    return top


def _check_positive(name: str, value: Any, allow_inf: bool = False) -> None:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if not value > 0 or (np.isinf(value) and not allow_inf):
        raise ValueError(f"{name} must be > 0{'' if allow_inf else ' and finite'}, got {value!r}.")


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value!r}.")


class MSMTFL(_MultiTaskLinear):
    r"""Multi-stage multi-task feature learning (Gong, Ye and Zhang): sparse linear models for related tasks.

    .. math::
        \min_W \sum_{i=1}^m \frac{1}{m n_i} \|X_i w_i - y_i\|^2
               + \lambda \sum_{j=1}^d \min(\|w^j\|_1, \theta)

    with one column :math:`w_i` of W per task and one row :math:`w^j` per feature. A feature that matters enough over all
    tasks (row norm at least theta) is no longer penalised, so its coefficients are not shrunk; the others are. Solved by
    Algorithm 1 of the paper, each stage exactly.

    Parameters
    ----------
    lam : float, optional
        Strength of the penalty; by default 0.1 times `lam_max_`, above which all coefficients are 0. scikit-learn's
        ``Lasso(alpha)`` of one task has alpha = m lam / 2.
    theta : float, "adaptive" or None, optional
        Row norm from which a feature is free. None: DEFAULT_RATIO times m lam / rho_bar, rho_bar the mean square of the
        columns. "adaptive": at the first significant jump of the sorted row norms of stage 1. inf: the lasso.
    task_column : str or int, optional
        The column of X that says the task.
    max_stages : int, default=10
        1 is the lasso.
    fit_intercept : bool, default=True
        One intercept per task.
    standardize : bool, default=False
        Penalise every task's columns as if scaled to unit standard deviation; coefficients stay in the data's units.
    positive : bool, default=False
        Require coefficients >= 0.
    penalty_factors : array of shape (d,) or (d, m), optional
        f in the row norm sum_i f_ji |w_ji|; 0: never penalised, inf: excluded.
    tol : float, default=1e-8
        The relative duality gap that a stage must reach. Solves are exact: 1e-10 and less is usual.
    max_iter : int, optional
        Limit on the rounds of a stage's solver; by default far more than it needs.
    warm_start : bool, default=False
        Start from the coefficients of the last fit (if tasks and features are the same): goes on with its stages.
    coef_init : array of shape (m, d), optional
        Start elsewhere than at 0: the problem is not convex. Its row norms decide which rows stage 1 leaves free.
    unknown_task : {"error", "mean"}, default="error"
        What to predict for a label never seen: nothing, or with the mean coefficients.
    n_jobs : int, optional
        Threads over tasks. The result is the same to the bit.

    Attributes
    ----------
    coef_ : (m, d), intercept_ : (m,)
        In the data's units; (d,) and a float if fitted without tasks.
    tasks_, features_ : labels of the rows and names of the columns of `coef_`
    lam_, theta_, lam_max_ : the values used
    stages_ : list of stages with stage, coef, objective, free_rows, dual_gap, kkt, unique, n_iter, seconds
    certificate_ : what is proven; print it
    converged_, stopping_reason_, n_stages_, n_iter_, objective_, dual_gap_
    row_norms_ : (d,) sum_i f_ji |w_ji|
    feature_importances_ : (n_features_in_,) the same, the task column getting the largest

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((90, 6))
    >>> task = np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(90)
    >>> model = MSMTFL().fit(X, y, task=task)
    >>> model.coef_.round(1)[:, [0, 3]]
    array([[ 2., -1.],
           [ 2., -1.],
           [ 2., -1.]])
    >>> model.stages_[-1].free_rows
    array([0, 3])
    >>> model.stopping_reason_
    'converged: the set of capped rows repeats, so W is a critical point'
    >>> model.predict(X[:2], task=["north", "south"]).shape
    (2,)
    """

    def __init__(
        self,
        lam=None,
        theta=None,
        *,
        task_column=None,
        max_stages=10,
        fit_intercept=True,
        standardize=False,
        positive=False,
        penalty_factors=None,
        tol=1e-8,
        max_iter=None,
        warm_start=False,
        coef_init=None,
        unknown_task="error",
        n_jobs=None,
    ):
        self.lam = lam
        self.theta = theta
        self.task_column = task_column
        self.max_stages = max_stages
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.positive = positive
        self.penalty_factors = penalty_factors
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.coef_init = coef_init
        self.unknown_task = unknown_task
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> MSMTFL:
        """Fit.

        Parameters
        ----------
        X : table with a task column (see `task_column`), or table/array of features (N, d)
        y : (N,) target, or (N, m) with shared X, one column per task, NaN = not measured
        task : (N,) labels, if they are not a column of X
        sample_weight : (N,) weights >= 0, or (N, m) for a 2-D y

        Returns
        -------
        self
        """
        self._check_params()
        with one_blas_thread():
            problem = self._pose(self._read(X, y, task, sample_weight))
            start = self._start(problem.data)
            lam = _default_lam(self.lam, problem)
            lassos = Lassos(problem.designs, positive=self.positive, units=problem.units, n_jobs=self.n_jobs)
            options = {"tol": self.tol, "max_iter": self.max_iter or 0}
            theta = self.theta
            if theta is None:
                theta = thresholds.default_theta(lam, problem.m, problem.rho_bar)
            elif isinstance(theta, str):
                lasso = CappedRows(lam, np.inf, problem.factors)
                first = run_stages(problem.designs, lasso, lassos, max_stages=1, **options).stages[0]
                rows = np.mean([design.n for design in problem.designs])
                theta = thresholds.adaptive_theta(lasso.row_norms(first.coef.T), float(rows))
            self.theta_ = float(theta)
            penalty = CappedRows(lam, self.theta_, problem.factors)
            solution = run_stages(
                problem.designs,
                penalty,
                lassos,
                max_stages=self.max_stages,
                start=start,
                listener=Monitor(self, self.max_stages, problem.m),
                **options,
            )
        self._store(problem, solution, penalty)
        return self

    def _check_params(self) -> None:
        self._check_common()
        if self.lam is not None:
            _check_positive("lam", self.lam)
        if isinstance(self.theta, str):
            if self.theta != "adaptive":
                raise ValueError(f"theta must be a number, 'adaptive' or None, got {self.theta!r}.")
        elif self.theta is not None:
            _check_positive("theta", self.theta, allow_inf=True)
        _check_count("max_stages", self.max_stages)

    def _start(self, data: TaskData) -> Floats | None:
        """Where Algorithm 1 starts: coef_init, the last fit's coefficients, or (None) at 0."""
        if self.coef_init is not None:
            start = np.atleast_2d(np.asarray(self.coef_init, dtype=np.float64))
            if start.shape != (data.m, data.d):
                raise ValueError(f"coef_init has shape {np.shape(self.coef_init)}; expected ({data.m}, {data.d}).")
            if not np.isfinite(start).all():
                raise ValueError("coef_init must be finite.")
            return start
        if self.warm_start and hasattr(self, "coef_"):
            same = np.array_equal(self.tasks_, data.labels) and np.array_equal(self.features_, data.features)
            return np.atleast_2d(self.coef_).copy() if same else None
        return None


class LassoMTL(_MultiTaskLinear):
    r"""Independent lassos, one per task, on the scale of MSMTFL: stage 1 of it, and its baseline.

    .. math::
        \min_W \sum_{i=1}^m \frac{1}{m n_i} \|X_i w_i - y_i\|^2 + \lambda \sum_{ji} |w_{ji}|

    Parameters are those of :class:`MSMTFL` but for theta, max_stages and coef_init. ``Lasso(alpha)`` of scikit-learn gives
    the same coefficients per task at alpha = m lam / 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Lasso
    >>> from msmtfl import LassoMTL
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((60, 4)), np.repeat([0, 1], 30)
    >>> y = X[:, 0] + 0.1 * rng.standard_normal(60)
    >>> model = LassoMTL(lam=0.1).fit(X, y, task=task)
    >>> one = Lasso(alpha=2 * 0.1 / 2, tol=1e-12).fit(X[:30], y[:30])
    >>> np.allclose(model.coef_[0], one.coef_)
    True
    """

    def __init__(
        self,
        lam=None,
        *,
        task_column=None,
        fit_intercept=True,
        standardize=False,
        positive=False,
        penalty_factors=None,
        tol=1e-8,
        max_iter=None,
        warm_start=False,
        unknown_task="error",
        n_jobs=None,
    ):
        self.lam = lam
        self.task_column = task_column
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.positive = positive
        self.penalty_factors = penalty_factors
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.unknown_task = unknown_task
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> LassoMTL:
        """Fit; see :meth:`MSMTFL.fit`."""
        self._check_common()
        if self.lam is not None:
            _check_positive("lam", self.lam)
        with one_blas_thread():
            problem = self._pose(self._read(X, y, task, sample_weight))
            lassos = Lassos(problem.designs, positive=self.positive, units=problem.units, n_jobs=self.n_jobs)
            if (
                self.warm_start
                and hasattr(self, "coef_")
                and np.shape(np.atleast_2d(self.coef_)) == (problem.m, lassos.d)
            ):
                lassos.warm(np.atleast_2d(self.coef_))
            penalty = CappedRows(_default_lam(self.lam, problem), np.inf, problem.factors)
            solution = run_stages(
                problem.designs,
                penalty,
                lassos,
                max_stages=1,
                tol=self.tol,
                max_iter=self.max_iter or 0,
                listener=Monitor(self, 1, problem.m),
            )
        self._store(problem, solution, penalty)
        return self


def _default_lam(lam: float | None, problem: Problem) -> float:
    if lam is not None:
        return float(lam)
    return LAM_SHARE * problem.lam_max if problem.lam_max > 0 else 1.0
