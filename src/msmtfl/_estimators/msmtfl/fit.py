"""MSMTFL at one lam and one theta."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._data.task_data import TaskData
from ..._objective import theta as thresholds
from ..._objective.penalties import ConcaveRows
from ..._objective.problem import Problem
from ..._objective.shapes import read_shape
from ..._paths.solve import regularization_surface
from ..._paths.surface import Surface
from ..._runtime.checks import check_count, check_positive
from ..._runtime.progress import Monitor, one_blas_thread, with_callbacks
from ..._solvers.largest_lam import default_lam, largest_lam
from ..._solvers.problems.read_groups import refuse_entries
from ..._solvers.solvers import solver_for
from ..._solvers.stages import run_stages
from ..added_tasks import AddTaskMixin
from ..base import MultiTaskModel
from ..streaming import PartialFitMixin


class StagedFit(MultiTaskModel):
    """A fit at one lam and one theta, by Algorithm 1, to a problem with any loss."""

    def _fit_problem(self, problem: Problem, previous: Floats | None, solver: Any = None) -> None:
        """Solve, and set the attributes of the fit; `previous` (m, d) are the coefficients of a fit to go on from. `solver`
        solves the stages, if it is to be another than that for data at hand."""
        with one_blas_thread():
            start = self._start(problem.data, previous)
            lam_max = largest_lam(problem)
            lam = default_lam(self.lam, lam_max)
            if self.lam_entry:
                refuse_entries(problem)
            if solver is None:
                first = ConcaveRows(1.0, np.inf, problem.factors, groups=problem.groups)
                solver = solver_for(problem, first, lam=lam + float(self.lam_entry), n_jobs=self.n_jobs)
            options = {"tol": self.tol, "max_iter": self.max_iter or 0}
            theta, lam_entry, theta_entry = self.theta, float(self.lam_entry), self.theta_entry
            both = problem.l1_ratio * (lam + lam_entry)
            if theta is None or isinstance(theta, str):
                lasso = ConcaveRows(both, np.inf, problem.factors, groups=problem.groups)
                stage_1 = run_stages(lasso, solver, max_stages=1, **options).stages[0]
                norms = lasso.norms(stage_1.coef.T)
                if theta is None:
                    theta = thresholds.default_theta(both, problem.m, problem.rho_bar, norms)
                else:
                    theta = thresholds.adaptive_theta(norms)
            if theta_entry is None:
                theta_entry = thresholds.default_theta_entry(both, problem.m, problem.rho_bar)
            penalty = ConcaveRows(
                lam,
                float(theta),
                problem.factors,
                read_shape(self.penalty),
                lam_entry,
                float(theta_entry),
                l1_ratio=problem.l1_ratio,
                groups=problem.groups,
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


class MSMTFL(StagedFit, PartialFitMixin, AddTaskMixin):
    r"""Multi-stage multi-task feature learning (Gong, Ye and Zhang): sparse linear models for related tasks.

    .. math::
        \min_W \sum_{i=1}^m \frac{1}{m n_i} \|X_i w_i - y_i\|^2
               + \lambda \sum_{j=1}^d \min(\|w^j\|_1, \theta)
               \quad \Big[ + \lambda_e \sum_{ji} \min(|w_{ji}|, \theta_e) \Big]

    with one column :math:`w_i` of W per task and one row :math:`w^j` per feature. A feature that matters
    enough over all tasks (its norm is at least theta) is no longer penalised, so its coefficients are not
    shrunk; the others are. The problem is solved by Algorithm 1 of the paper, each stage exactly.

    This is the model at one lam and one theta, for those who have them (from theory, another program, an
    earlier search) or who search themselves (:func:`regularization_surface`, scikit-learn's
    ``GridSearchCV``). To have both chosen by cross-validation take :class:`MSMTFLCV`. The default lam is a
    value to start from, not a choice: it knows nothing of the noise, and from data that are nothing but
    noise it takes a fifth to three quarters of all coefficients as non-zero
    (``python benchmarks/studies/null_lam.py``).

    Parameters
    ----------
    lam : float, optional
        Strength of the penalty. The default, 0.1 times `lam_max_`, is a value to start from (see above).
        scikit-learn's ``Lasso(alpha)`` of one task has alpha = m lam / 2.
    theta : float or "adaptive", optional
        Norm from which a feature is free. The default is a cautious choice: max(8, m / 4) times
        m lam / rho_bar, with rho_bar the mean square of the columns, and at least three times the median
        norm of the features after stage 1, so that of features that are all alike none is freed.
        "adaptive" is bolder: the first significant jump of the sorted norms after stage 1. inf: the lasso.
        How they were chosen, and what they cost on noise: :mod:`msmtfl._objective.theta`.
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
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    max_stages : int, default=10
        The largest number of stages; with 1 the model is the lasso.
    loss : {"squared", "poisson", "gamma", "tweedie", "huber", "cox"}, default="squared"
        The loss. "poisson" is for counts (or any y >= 0), "gamma" for amounts y > 0 whose
        spread is proportional to their mean (costs, durations), "tweedie" for amounts y >= 0
        of which many are exactly 0 (claims, rainfall): their variance is proportional to the
        mean to the power 1.5, or to another one between 1 and 2, as in "tweedie(1.7)". These
        three have the mean exp(x'w + b), which is what is predicted: in place of the squared
        error stands the unit deviance, for counts 2 (mu - y log mu + y log y - y), and lam is
        2 / m times the alpha of other generalised linear models. "huber" is for targets with
        outliers: the squared error r^2 up to |r| = e_i, and 2 e_i |r| - e_i^2 beyond, with
        e_i = `epsilon` times `scale_` of the task. `lam_max_` is taken at the fit of
        intercepts only, and rho_bar counts the mean curvature of the loss there (with
        "huber": at the fit that gives `scale_`). "cox" is for times until an event: y has two
        columns (time, event), or is a structured array as in scikit-survival. The loss is minus
        twice the logarithm of the partial likelihood of every task, less that of a saturated
        model. Tasks have baseline hazards of their own, and no intercepts; `predict` gives the
        logarithm of the hazard relative to that of x = 0. Events at the same time are dealt
        with by Efron's rule, or Breslow's with "cox(breslow)".
    epsilon : float, default=1.35
        With loss="huber": how many standard deviations of the noise a residual may be large
        before it counts as an outlier. With 1.35 the un-penalised estimate is some 95 % as
        efficient as least squares if the noise is normal.
    fit_intercept : bool, default=True
        Whether every task has an intercept, which is not penalised.
    standardize : bool, default=False
        Whether every task's columns are penalised as if they were scaled to unit standard
        deviation. Coefficients stay in the data's units.
    positive : bool, default=False
        Whether coefficients are required to be at least 0.
    penalty_factors : array-like of shape (d,) or (d, m), optional
        Factors f of the penalty: a feature's norm is the sum over tasks of f_ji |w_ji|. 0:
        the coefficient is never penalised; inf: the feature is excluded.
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
    coef_init : array-like of shape (m, d), optional
        Coefficients to start from instead of 0, which matters because the problem is not
        convex: their norms decide which features stage 1 leaves free.
    unknown_task : {"error", "mean", "common", "similar"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error, or
        predict and warn, with the mean coefficients of the known tasks; with what they have in
        common, if the model has such a part; or with their mean weighted by exp(-D_i / D),
        where D_i is how far the means of the features in the samples to be predicted are from
        those of task i (the mean square of the differences in standard deviations), and D the
        distance of a known task to the nearest other one, in the median.
    n_jobs : int, optional
        Number of threads, which work on tasks side by side. The result is the same to the
        bit.
    l1_ratio : float, default=1
        The share of the penalty that is as above, as in scikit-learn's ElasticNet; the rest
        is a ridge, (1 - l1_ratio) lam / 2 times the sum of (f_ji w_ji)^2, which no threshold
        caps; theta is counted in units of m l1_ratio lam / rho_bar. By default there is none;
        with 0 there is nothing else.
    intercepts : {"task", "shrunk", "common"}, default="task"
        How intercepts share. "task": every task has its own, which knows nothing of the
        others. "shrunk": random intercepts. A task's level, its linear predictor at the mean
        of all samples, is drawn to a common level, as strongly as `level_ridge_` samples
        there would draw it; the fewer samples a task has, the more. Level and strength are
        estimated from the training samples (of every fold anew), whatever the penalty is.
        Tasks with one sample, one class or counts that are all 0 have a finite fit then.
        "common": one intercept for all tasks.
    bounds : pair (low, high), optional
        The least and the largest value that coefficients may have, in the units of the
        columns as they are given: each a number, one per feature (d,), or one per feature and
        task (d, m), with low <= 0 <= high; None, -inf or inf is no bound. ``bounds=(0, None)``
        is `positive=True`. A coefficient that is at its bound is exactly that number.
    feature_groups : mapping {name: columns} or sequence of d names, optional
        Which columns belong together: a group enters a task or leaves it as a whole. In place
        of |w_ji| stands the l2 norm of a group's coefficients in the task (times the penalty
        factors), times the root of the group's size; theta caps the sum of these norms over
        the tasks. Columns that are in no group are groups by themselves.
    unknown_category : {"error", "baseline"}, default="error"
        What `predict` does with a category of a categorical column that was not in the training
        data: raise an error, or count the sample as none of the known categories, so that the
        column adds nothing to its linear predictor.

    Attributes
    ----------
    coef_ : ndarray of shape (m, d)
        Coefficients of every task in the data's units; (d,) if the model was fitted without
        tasks.
    intercept_ : ndarray of shape (m,)
        Intercepts of the tasks; a float if the model was fitted without tasks.
    common_level_ : float
        If intercepts share only: the common level, which is the linear predictor at
        `level_at_` of a task of which nothing else is known; with intercepts="common" the
        intercept of all tasks. (With K > 2 classes K numbers.)
    level_at_ : ndarray of shape (d,)
        If intercepts share only: the sample at which levels are compared, the mean of all
        training samples; with intercepts="common" zeros.
    level_ridge_ : float
        If intercepts share only: how many samples at the common level weigh as much as
        what draws a task's level to it: a task of so many samples is half its own. inf with
        intercepts="common". (With K > 2 classes K numbers.)
    tasks_ : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `coef_`.
    features_ : ndarray of shape (d,)
        Names of the features, in the order of the last axis of `coef_`.
    n_features_in_ : int
        Number of columns of X in `fit`, the column that identifies the task included.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X in `fit`. There is no such attribute if X had no names
        that are text.
    uses_offset_ : bool
        Whether the model was fitted with an offset, so that `predict` needs one.
    categories_ : dict
        If the table had categorical columns only: the levels of each of them, in the order of
        their features, which are named column=level.
    feature_groups_ : ndarray of shape (d,)
        The name of the group of every feature. There is no such attribute if every feature is
        by itself.
    n_samples_ : ndarray of shape (m,)
        Number of training samples of every task.
    n_fitted_tasks_ : int
        Number of tasks of the fit, those that were added later not counted.
    target_mean_ : ndarray of shape (m,)
        Mean of the training targets of every task.
    target_sd_ : ndarray of shape (m,)
        Standard deviation of the training targets of every task.
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
    baseline_hazard_ : dict of arrays
        With loss="cox" only: the baseline cumulative hazards, which `predict_survival_function`
        uses, ready for a table: task (a place in `tasks_`), time and log_cumulative_hazard, the
        logarithm of the cumulative hazard of x = 0 from that time on (Breslow's estimate).
    scale_ : ndarray of shape (m,)
        With loss="huber" only: robust estimates of the standard deviation of the tasks'
        noise; a float if the model was fitted without tasks. They come from a fit of their
        own, before lam and theta play a part, and are then held fixed: the problem that is
        solved, and that the certificate is about, has this loss. See
        :mod:`msmtfl._solvers.problems.residual_scale`.
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
    feature_means_ : ndarray of shape (m, d)
        Means of the features over the training samples of every task, by which
        unknown_task="similar" knows how similar tasks are.
    learnable_ : ndarray of bool of shape (m, d)
        Where a feature varies within a task; elsewhere its effect cannot be told from the
        intercept.
    feature_sd_ : ndarray of shape (d,)
        Standard deviations of the features within tasks, pooled over the tasks in which a
        feature varies; 0 where it never does. A coefficient times it is the effect of one
        standard deviation.
    task_level_features_ : ndarray
        Names of the features that are constant within every task and differ only between
        tasks. A coefficient of 0 says nothing about their effect, and `fit` warns of them.
    moments_ : Moments
        After `partial_fit` only: the statistics of all samples seen so far.

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
    'converged: the set of freed features repeats, so W is a critical point'
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
        l1_ratio=1.0,
        intercepts="task",
        bounds=None,
        feature_groups=None,
        unknown_category="error",
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
        self.l1_ratio = l1_ratio
        self.intercepts = intercepts
        self.bounds = bounds
        self.feature_groups = feature_groups
        self.unknown_category = unknown_category

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, offset: Any = None) -> MSMTFL:
        """Fit the model.

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
        offset : array-like of shape (N,) or (N, m), optional
            A known part of the linear predictor, which is offset + b_i + x'w_i; (N, m) beside a
            2-D y. With loss="poisson" the logarithm of an exposure makes a model of rates.
            `predict` then needs the offsets of its samples, too.

        Returns
        -------
        MSMTFL
            The fitted model itself.
        """
        self._check_params()
        with one_blas_thread():
            problem = self._make_problem(X, y, task, sample_weight, offset)
        self._fit_problem(problem, self._previous(problem.data))
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
        offset: Any = None,
    ) -> Surface:
        """Fit a whole grid of lam and theta with this model's other parameters.

        It calls :func:`regularization_surface`. The model's own lam, theta, lam_entry, theta_entry and
        coef_init are not used, and the model is not changed.

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
        lams : int or array-like of shape (K,), default=50
            How many values of lam the grid has, geometrically spaced from the smallest at which
            all coefficients are 0 down to `lam_min_ratio` times that; or the values themselves,
            in any order.
        theta_ratios : array-like of shape (L,), optional
            Values of theta in units of m lam / rho_bar, with rho_bar the mean square of the
            columns. By default six from 1 to max(50, 11 m), and inf, which is the lasso.
        thetas : array-like of shape (L,) or (K, L), optional
            Values of theta themselves, instead of ratios; inf is allowed.
        lam_min_ratio : float, optional
            The smallest lam of the grid over the largest. By default 1e-3, or 1e-4 if every
            task has more samples than features.
        entry_shares : array-like of numbers from 0 to 1, default=(0.0,)
            Shares s of lam that go to a penalty on every coefficient by itself: lam_entry = s
            lam, which leaves (1 - s) lam for the features. 0 is the paper's model. The columns
            of the surface are all combinations of share, theta and entry ratio.
        entry_ratios : array-like, optional
            Values of theta_entry in units of m lam / rho_bar; by default 0.5 and 2.
        verbose : bool, default=False
            Whether to show a progress bar.
        offset : array-like of shape (N,) or (N, m), optional
            A known part of the linear predictor, which is offset + b_i + x'w_i; (N, m) beside a
            2-D y. With loss="poisson" the logarithm of an exposure makes a model of rates.
            `predict` then needs the offsets of its samples, too.

        Returns
        -------
        Surface
            The solutions at all points of the grid.
        """
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
            bounds=self.bounds,
            feature_groups=self.feature_groups,
            sample_weight=sample_weight,
            max_stages=self.max_stages,
            tol=self.tol,
            lam_min_ratio=lam_min_ratio,
            entry_shares=entry_shares,
            entry_ratios=entry_ratios,
            penalty=self.penalty,
            n_jobs=self.n_jobs,
            verbose=verbose,
            offset=offset,
            l1_ratio=self.l1_ratio,
            intercepts=self.intercepts,
        )
