"""The estimators: parameters in, attributes out. The work is done in tasks, stages and certificates."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.designs import Floats
from .._data.tasks import TaskData
from .._objective import theta as thresholds
from .._objective.penalties import ConcaveRows
from .._objective.problem import Problem
from .._objective.shapes import read_shape
from .._paths.solve import regularization_surface
from .._paths.surface import Surface
from .._runtime.checks import check_count, check_positive
from .._runtime.progress import Monitor, one_blas_thread, with_callbacks
from .._solvers.make_problem import default_lam, largest_lam
from .._solvers.solvers import solver_for
from .._solvers.stages import run_stages
from .base import MultiTaskModel
from .streaming import Batchwise, Welcoming


class StagedFit(MultiTaskModel):
    """A fit at one lam and one theta, by Algorithm 1, to a problem with any loss."""

    def _fit_stages(self, problem: Problem, previous: Floats | None, solver: Any = None) -> None:
        """Solve, and set the attributes of the fit; `previous` (m, d) are the coefficients of a fit to go on from. `solver`
        solves the stages, if it is to be another than that for data at hand."""
        with one_blas_thread():
            start = self._start(problem.data, previous)
            lam_max = largest_lam(problem)
            lam = default_lam(self.lam, lam_max)
            if solver is None:
                solver = solver_for(problem, ConcaveRows(1.0, np.inf, problem.factors), n_jobs=self.n_jobs)
            options = {"tol": self.tol, "max_iter": self.max_iter or 0}
            theta, lam_entry, theta_entry = self.theta, float(self.lam_entry), self.theta_entry
            if theta is None or isinstance(theta, str):
                lasso = ConcaveRows(lam + lam_entry, np.inf, problem.factors)
                first = run_stages(lasso, solver, max_stages=1, **options).stages[0]
                norms = lasso.row_norms(first.coef.T)
                if theta is None:
                    theta = thresholds.default_theta(lam + lam_entry, problem.m, problem.rho_bar, norms)
                else:
                    theta = thresholds.adaptive_theta(norms)
            if theta_entry is None:
                theta_entry = thresholds.default_theta_entry(lam + lam_entry, problem.m, problem.rho_bar)
            penalty = ConcaveRows(
                lam, float(theta), problem.factors, read_shape(self.penalty), lam_entry, float(theta_entry)
            )
            solution = run_stages(
                penalty,
                solver,
                max_stages=self.max_stages,
                start=start,
                listener=Monitor(self, self.max_stages, problem.m),
                **options,
            )
        self._store(problem, solution, penalty, solver.grams)
        self.lam_, self.theta_, self.lam_max_ = penalty.lam, penalty.theta, lam_max
        self.lam_entry_, self.theta_entry_ = penalty.lam_entry, penalty.theta_entry
        self._warn(solution, problem)

    def _check_params(self) -> None:
        self._check_common()
        check_positive("lam_entry", self.lam_entry, allow_zero=True)
        if self.lam is not None:
            check_positive("lam", self.lam, allow_zero=self.lam_entry > 0)
        if self.theta_entry is not None:
            check_positive("theta_entry", self.theta_entry, allow_inf=True)
        read_shape(self.penalty)
        if isinstance(self.theta, str):
            if self.theta != "adaptive":
                raise ValueError(f"theta must be a number, 'adaptive' or None, got {self.theta!r}.")
        elif self.theta is not None:
            check_positive("theta", self.theta, allow_inf=True)
        check_count("max_stages", self.max_stages)

    def _start(self, data: TaskData, previous: Floats | None) -> Floats | None:
        """Where Algorithm 1 starts: coef_init, the last fit's coefficients, or (None) at 0."""
        if self.coef_init is None:
            return previous
        start = np.atleast_2d(np.asarray(self.coef_init, dtype=np.float64))
        if start.shape != (data.m, data.d):
            raise ValueError(f"coef_init has shape {np.shape(self.coef_init)}; expected ({data.m}, {data.d}).")
        if not np.isfinite(start).all():
            raise ValueError("coef_init must be finite.")
        return start


class MSMTFL(StagedFit, Batchwise, Welcoming):
    r"""Multi-stage multi-task feature learning (Gong, Ye and Zhang): sparse linear models for related tasks.

    .. math::
        \min_W \sum_{i=1}^m \frac{1}{m n_i} \|X_i w_i - y_i\|^2
               + \lambda \sum_{j=1}^d \min(\|w^j\|_1, \theta)
               \quad \Big[ + \lambda_e \sum_{ji} \min(|w_{ji}|, \theta_e) \Big]

    with one column :math:`w_i` of W per task and one row :math:`w^j` per feature. A feature that matters enough over all
    tasks (row norm at least theta) is no longer penalised, so its coefficients are not shrunk; the others are. Solved by
    Algorithm 1 of the paper, each stage exactly.

    This is the model at one lam and one theta, for those who have them (from theory, another program, an earlier search) or
    who search themselves (:func:`regularization_surface`, scikit-learn's ``GridSearchCV``). To have both chosen by
    cross-validation take :class:`MSMTFLCV`. The default lam is a value to start from, not a choice: it knows nothing of the
    noise, and from data that are nothing but noise it takes a fifth to three quarters of all coefficients as non-zero
    (``python benchmarks/studies/null_lam.py``).

    Parameters
    ----------
    lam : float, optional
        Strength of the penalty; by default 0.1 times `lam_max_`, above which all coefficients are 0: a value to start from
        (see above). scikit-learn's ``Lasso(alpha)`` of one task has alpha = m lam / 2.
    theta : float, "adaptive" or None, optional
        Row norm from which a feature is free. None, a cautious choice: max(8, m / 4) times m lam / rho_bar, rho_bar the mean
        square of the columns, and at least three times the median of the row norms of stage 1, so that of features that
        are all alike none is freed. "adaptive": at the first significant jump of the sorted row norms of stage 1, bolder.
        inf: the lasso. How they were chosen, and what they cost on noise: :mod:`msmtfl._objective.theta`.
    task_column : str or int, optional
        The column of X that says the task.
    lam_entry : float, default=0
        Strength of a second penalty, on every entry by itself: the bi-level model, sparse also within the rows that are
        free. lam = 0 with lam_entry > 0 leaves it alone: separate models for the tasks. 0: the paper's model.
    theta_entry : float, optional
        Size from which an entry is free of it; by default m (lam + lam_entry) / rho_bar, twice what the lasso takes from
        an entry. inf: never.
    penalty : {"capped", "mcp", "scad", "log", "lq"} or a shape, default="capped"
        What takes the place of min(t, theta), for rows and entries: see :mod:`msmtfl._objective.shapes`.
    max_stages : int, default=10
        1 is the lasso.
    fit_intercept : bool, default=True
        One intercept per task.
    loss : {"squared", "poisson", "huber"}, default="squared"
        "poisson": counts (or any y >= 0) with mean exp(x'w + b), which is what is predicted; in place of the squared error
        stands the deviance 2 (mu - y log mu + y log y - y), and lam is 2 / m times the alpha of other generalised linear
        models. "huber": for targets with outliers; the squared error r^2 up to |r| = e_i, 2 e_i |r| - e_i^2 beyond,
        with e_i =
        `epsilon` times `scale_` of the task. `lam_max_` is taken at the fit of intercepts only, and rho_bar counts the mean
        curvature of the loss there (of "huber": at the fit that gives `scale_`).
    epsilon : float, default=1.35
        How many standard deviations of the noise a residual of "huber" may be large before it counts as an outlier: with
        1.35 the un-penalised estimate is some 95 % as efficient as least squares if the noise is normal.
    standardize : bool, default=False
        Penalise every task's columns as if scaled to unit standard deviation; coefficients stay in the data's units.
    positive : bool, default=False
        Require coefficients >= 0.
    penalty_factors : array of shape (d,) or (d, m), optional
        f in the row norm sum_i f_ji |w_ji|; 0: never penalised, inf: excluded.
    relax : bool, default=False
        Refit by least squares (or the loss) alone on the support that was found: no coefficient is shrunk. `stages_` and
        certificates stay those of the penalised solution, whose coefficients are ``stages_[-1].coef``.
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
    n_samples_, target_mean_, target_sd_ : (m,) rows of the tasks, and what their targets are like
    lam_, theta_, lam_entry_, theta_entry_, lam_max_ : the values used
    scale_ : (m,), or a float if fitted without tasks
        With loss="huber": robust estimates of the standard deviation of the tasks' noise, see
        :mod:`msmtfl._solvers.residual_scale`. They come from a fit of their own, before lam and theta play a part, and are
        then held fixed: the problem that is solved, and that the certificate is about, has this loss.
    stages_ : list of stages with stage, coef, objective, free_rows, dual_gap, kkt, unique, n_iter, seconds
    certificate_ : what is proven; print it
    converged_, stopping_reason_, n_stages_, n_iter_, objective_, dual_gap_
    row_norms_ : (d,) sum_i f_ji |w_ji|
    row_slopes_ : (d,) what the last stage left of the rows' penalty: 0 where a row is free, 1 where it is penalised in full
    feature_importances_ : (n_features_in_,) the row norms, the task column (if there is one) getting the largest
    learnable_ : (m, d) bool: where a column varies within a task; elsewhere it cannot be told from the intercept
    task_level_features_ : names of the features that are constant within every task and differ only between tasks: a
        coefficient of 0 says nothing about their effect, and `fit` warns

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((90, 20))
    >>> task = np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(90)
    >>> model = MSMTFL(theta="adaptive").fit(X, y, task=task)
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
        lam_entry=0.0,
        theta_entry=None,
        penalty="capped",
        task_column=None,
        max_stages=10,
        loss="squared",
        epsilon=1.35,
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
        self.task_column = task_column
        self.max_stages = max_stages
        self.loss = loss
        self.epsilon = epsilon
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
            problem = self._make_problem(X, y, task, sample_weight)
        self._fit_stages(problem, self._previous(problem.data))
        return self

    def surface(
        self,
        X: Any,
        y: Any,
        *,
        task: Any = None,
        sample_weight: Any = None,
        lams: Any = 50,
        theta_ratios: Any = None,
        thetas: Any = None,
        lam_min_ratio: float | None = None,
        entry_shares: Any = (0.0,),
        entry_ratios: Any = None,
        verbose: bool = False,
    ) -> Surface:
        """:func:`regularization_surface` with this estimator's parameters; lam, theta (those of entries too) and starting
        point are not used."""
        return regularization_surface(
            X,
            y,
            task=task,
            task_column=self.task_column,
            lams=lams,
            theta_ratios=theta_ratios,
            thetas=thetas,
            loss=self.loss,
            epsilon=self.epsilon,
            fit_intercept=self.fit_intercept,
            standardize=self.standardize,
            positive=self.positive,
            penalty_factors=self.penalty_factors,
            sample_weight=sample_weight,
            max_stages=self.max_stages,
            tol=self.tol,
            lam_min_ratio=lam_min_ratio,
            entry_shares=entry_shares,
            entry_ratios=entry_ratios,
            penalty=self.penalty,
            n_jobs=self.n_jobs,
            verbose=verbose,
        )


class LassoMTL(Batchwise, Welcoming):
    r"""Independent lassos, one per task, on the scale of MSMTFL: stage 1 of it, and its baseline.

    .. math::
        \min_W \sum_{i=1}^m \frac{1}{m n_i} \|X_i w_i - y_i\|^2 + \lambda \sum_{ji} |w_{ji}|

    Parameters are those of :class:`MSMTFL` but for theta, max_stages and coef_init. ``Lasso(alpha)`` of scikit-learn gives
    the same coefficients per task at alpha = m lam / 2. The default lam, 0.1 times `lam_max_`, is a value to start from, not
    a choice, and keeps much of pure noise (see :class:`MSMTFL`); :class:`LassoMTLCV` chooses it by cross-validation.

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
        relax=False,
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
        self.relax = relax
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
            check_positive("lam", self.lam)
        with one_blas_thread():
            problem = self._make_problem(X, y, task, sample_weight)
            lam_max = largest_lam(problem)
            penalty = ConcaveRows(default_lam(self.lam, lam_max), np.inf, problem.factors)
            solver = solver_for(problem, penalty, n_jobs=self.n_jobs, near=self._previous(problem.data))
            solution = run_stages(
                penalty,
                solver,
                max_stages=1,
                tol=self.tol,
                max_iter=self.max_iter or 0,
                listener=Monitor(self, 1, problem.m),
            )
        self._store(problem, solution, penalty, solver.grams)
        self.lam_, self.lam_max_ = penalty.lam, lam_max
        self._warn(solution, problem)
        return self
