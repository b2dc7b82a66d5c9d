"""Values common to all tasks and sparse deviations from them, at given strengths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._objective.coupled.common_penalty import CappedDeviations
from ..._objective.penalties import ConcaveEntries, ConcaveRows
from ..._objective.problem import Problem
from ..._paths.families.common_path import groups_of_classes, scales, shared_lam_max, strengths
from ..._runtime.checks import check_count, check_positive
from ..._runtime.progress import Monitor, one_blas_thread, with_callbacks
from ..._solvers.largest_lam import default_lam
from ..._solvers.solvers import common_for, solver_for
from ..._solvers.stages import Solution, run_stages
from ..added_tasks import AddTaskMixin, entries_given, no_deviations
from ..classification.of_classes import of_features
from ..streaming import PartialFitMixin


class Sharing(AddTaskMixin):
    """What fits and searches of models with common values share: they solve for P, b and V, and are about W = b + V to
    the outside."""

    _of_several = "which of them is returned depends on the start"

    def _make_problem(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any = None) -> Problem:
        if np.ndim(self.penalty_factors) == 2:
            raise ValueError(
                "penalty_factors must have one entry per feature here: a common value belongs to all tasks."
            )
        return super()._make_problem(X, y, task, sample_weight, offset)

    def _store(
        self, problem: Problem, solution: Solution, penalty: Any, grams: Any = None, coef: Floats | None = None
    ) -> None:
        sums, m = grams.stacked.sums, problem.m // problem.classes
        solution = of_features(solution, problem)
        stages = tuple(replace(stage, coef=sums(stage.coef[0])) for stage in solution.stages)
        point = solution.stages[-1].coef[0]
        if self.relax:
            point = relaxed_point(problem, point, common_for(problem, grams))
        of_sums = ConcaveRows(penalty.lam_deviation, penalty.theta, problem.factors)
        super()._store(problem, replace(solution, stages=stages), of_sums, grams, coef=np.asarray(sums(point)))
        b, *V = point.reshape(m + 1, -1)
        if problem.classes > 1:
            self.coef_common_, self.coef_deviation_ = b.reshape(problem.classes, -1), np.reshape(V, (problem.m, -1))
        else:
            self.coef_common_, self.coef_deviation_ = b.copy(), V[0].copy() if self._form == "single" else np.array(V)
        self.lam_common_, self.lam_deviation_, self.theta_ = penalty.lam_common, penalty.lam_deviation, penalty.theta
        ratio = penalty.lam_common / (np.sqrt(m) * penalty.lam_deviation)
        common, deviation = strengths(ratio, m)
        self.lam_max_ = shared_lam_max(problem, ratio) * (deviation if np.isinf(common) else common)

    def _warn(self, solution: Solution, problem: Problem) -> None:
        super()._warn(of_features(solution, problem), problem)

    def _common(self) -> Floats:
        return np.asarray(self.coef_common_)

    def _held_fixed(self, label: Any) -> Floats:
        return np.asarray(self.coef_common_)

    def _new_factors(self) -> Any:
        return no_deviations(self) if np.isinf(self.lam_deviation_) else self.penalty_factors

    def _penalty_given(self, problem: Problem) -> ConcaveEntries:
        if problem.classes > 1 and (self.row_slopes_ == 0.0).any():
            raise ValueError(
                f"{type(self).__name__} has {problem.classes} classes and freed deviations in some of them: it does not "
                "keep in which, so that no task can be added. Fit again with the new task, or with theta=inf."
            )
        return entries_given(self, problem, self.lam_deviation_ if np.isfinite(self.lam_deviation_) else 1.0)

    def _ridge_lam(self, problem: Problem) -> float:
        return float(self.n_fitted_tasks_ * self.lam_deviation_) if np.isfinite(self.lam_deviation_) else 1.0

    def _append_parts(self, own: Floats, problem: Problem) -> None:
        own = own if self.coef_deviation_.ndim == 2 else own[None]
        self.coef_deviation_ = np.concatenate([self.coef_deviation_, own])

    def _separates(self) -> bool:
        capless, m = np.isinf(self.theta_), self.n_fitted_tasks_
        return bool(capless and self.lam_common_ >= m * self.lam_deviation_)


def relaxed_point(problem: Problem, P: Floats, lassos: Any) -> Floats:
    """(p,): least squares on the support of b and V. (Where all tasks deviate, b adds nothing to V.)"""
    support = P.reshape(problem.m // problem.classes + 1, -1) != 0.0
    live = np.reshape([design.squares > 0 for design in problem.designs], (len(support) - 1, -1))
    support[0] &= ~(support[1:] | ~live).all(axis=0)
    return np.asarray(lassos.solve(np.where(support, 0.0, np.inf).ravel(), P)[0])


class SharedFit(Sharing):
    """A fit at one pair of strengths, with any loss."""

    def _penalty(self, problem: Problem) -> CappedDeviations:
        common, deviation, root = self.lam_common, self.lam_deviation, np.sqrt(problem.m // problem.classes)
        if common is None:
            common = root * (default_lam(None, shared_lam_max(problem, 1.0)) if deviation is None else deviation)
        if deviation is None:
            deviation = common / root
        strengths_ = float(common), float(deviation), float(self.theta)
        factors, shares = problem.wide(problem.factors), (problem.l1_ratio, problem.classes)
        return CappedDeviations(*strengths_, factors, scales(problem), *shares, groups=groups_of_classes(problem))

    def _check_params(self) -> None:
        self._check_common()
        for name in ("lam_common", "lam_deviation"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name), allow_inf=True)
        if np.isinf(self.lam_common or 1.0) and np.isinf(self.lam_deviation or np.inf):
            raise ValueError("with lam_common=inf give a finite lam_deviation: otherwise all coefficients are 0.")
        if self.lam_common is None and np.isinf(self.lam_deviation or 1.0):
            raise ValueError("with lam_deviation=inf give a finite lam_common: otherwise all coefficients are 0.")
        check_positive("theta", self.theta, allow_inf=True)
        check_count("max_stages", self.max_stages)

    def _fit_problem(self, problem: Problem, previous: Floats | None) -> None:
        """Solve, and set the attributes of the fit; `previous` says whether to go on from the last one."""
        most = 1 if np.isinf(self.theta) else self.max_stages
        with one_blas_thread():
            penalty = self._penalty(problem)
            start = None
            if previous is not None:
                start = np.concatenate([self.coef_common_, np.ravel(self.coef_deviation_)])[None]
            near = None if start is None else start[0]
            solver = solver_for(problem, penalty, n_jobs=self.n_jobs, near=near)
            solution = run_stages(
                penalty,
                solver,
                max_stages=most,
                start=start,
                tol=self.tol,
                max_iter=self.max_iter or 0,
                listener=Monitor(self, most, problem.m),
            )
        self._store(problem, solution, penalty, solver.grams)
        self._warn(solution, problem)


class SharedMTL(SharedFit, PartialFitMixin):
    r"""Values shared by all tasks, and sparse deviations from them: the data-shared lasso, with a cap.

    .. math::
        \min_{b, V} \sum_{i=1}^m \frac{1}{m n_i} \|X_i (b + v_i) - y_i\|^2
                    + \lambda_c \|b\|_1 + \lambda_d \sum_{j=1}^d \min(\|v^j\|_1, \theta)

    The data-shared lasso is due to Gross and Tibshirani. The model can be one for all tasks
    (lam_deviation = inf: the pooled lasso, with an intercept per task), one for each (lam_common = inf,
    or at theta = inf from m lam_deviation on: MSMTFL, and LassoMTL), and everything between. With
    theta = inf, the default, the problem is convex: one lasso in (m + 1) d coefficients. A finite theta
    frees the features whose deviations are large over all tasks, in stages as MSMTFL does: there the tasks
    have values of their own, which are not shrunk.

    Values are shared in the data's units: the same column must mean the same in all tasks. A task in which
    a column does not vary gets its common value. If several b are as good for the same sum b + V, the
    smallest is given; what is said of uniqueness is about the sum, `coef_`.

    Parameters
    ----------
    lam_common : float, optional
        Strength of the penalty on the common values; it may be inf. By default sqrt(m) times
        lam_deviation, at which noise has the same chance in both.
    lam_deviation : float, optional
        Strength of the penalty on the deviations; it may be inf, if lam_common is not. By default
        lam_common / sqrt(m); if neither is given both are 0.1 times what leaves all coefficients at 0, a
        value to start from, not a choice, which keeps much of pure noise. :class:`SharedMTLCV` chooses by
        cross-validation.
    theta : float, default=inf
        Norm of a feature's deviations from which they are free.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    max_stages : int, default=10
        The largest number of stages. With theta = inf there is one.
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
        Whether deviations are penalised as if every task's columns were scaled to unit
        standard deviation, and common values as if the columns of all tasks together were.
        Coefficients stay in the data's units.
    positive : bool, default=False
        Whether coefficients are required to be at least 0.
    penalty_factors : array-like of shape (d,), optional
        Factors f of the penalties f_j |b_j| and f_j |v_ji|. 0: the feature is never
        penalised (its values are then found in the deviations); inf: the feature is
        excluded.
    relax : bool, default=False
        Whether to refit with the loss alone on the support of the common values and deviations
        that were found, so that none of them is shrunk. `stages_` and the certificate stay
        those of the penalised solution.
    tol : float, default=1e-8
        The relative duality gap that every stage must reach. Solves are exact: 1e-10 and
        less is usual.
    max_iter : int, optional
        Limit on the rounds of a stage's solver. The default is far more than it needs.
    warm_start : bool, default=False
        Whether to start from the coefficients of the last fit, if its tasks and features
        are the same: the fit goes on with its stages.
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
        The share of the penalties that is as above; the rest are ridges, (1 - l1_ratio) / 2
        times lam_common on squares of common values, and times lam_deviation on squares of
        deviations. By default there are none. With a ridge common values and deviations are
        each unique.
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
        is `positive=True`. Bounds are those of the coefficients of the tasks, `coef_`, which are
        sums of parts here; the parts have none of their own.
    feature_groups : mapping {name: columns} or sequence of d names, optional
        Which columns belong together: a group is common to all tasks as a whole, and a task
        deviates in all of its columns or in none. In place of |b_j| and |v_ji| stand the l2
        norms of a group (times the penalty factors), times the root of its size; theta caps
        the sum of those of the deviations over the tasks. Columns that are in no group are
        groups by themselves.
    unknown_category : {"error", "baseline"}, default="error"
        What `predict` does with a category of a categorical column that was not in the training
        data: raise an error, or count the sample as none of the known categories, so that the
        column adds nothing to its linear predictor.

    Attributes
    ----------
    coef_ : ndarray of shape (m, d)
        Coefficients of every task, the common values plus the task's deviations; (d,) if
        the model was fitted without tasks.
    coef_common_ : ndarray of shape (d,)
        The common values b. (With K > 2 classes it has the shape (K, d).)
    coef_deviation_ : ndarray of shape (m, d)
        The deviations V of the tasks from the common values; (d,) if the model was fitted
        without tasks.
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
    lam_common_ : float
        The strength of the penalty on the common values that was used.
    lam_deviation_ : float
        The strength of the penalty on the deviations that was used.
    theta_ : float
        The norm that was used: from it a feature's deviations are free.
    lam_max_ : float
        The smallest lam_common at which all coefficients are 0, at this ratio of the two
        strengths (the smallest lam_deviation where lam_common is inf).
    stages_ : list of Stage
        The stages, each with stage (its number), coef, objective, free_rows (the features
        whose deviations it left un-penalised), dual_gap, kkt, unique, n_iter and seconds.
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
        For every feature the sum over tasks of the absolute coefficients, times the penalty
        factors.
    row_slopes_ : ndarray of shape (d,)
        What the last stage left of the penalty on a feature's deviations: 0 where they are
        free, 1 where they are penalised in full.
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
    >>> from msmtfl import SharedMTL
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 20)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] + np.where(task == "west", X[:, 5], 0) + 0.1 * rng.standard_normal(90)
    >>> model = SharedMTL().fit(X, y, task=task)
    >>> np.flatnonzero(model.coef_common_.round(1)), np.flatnonzero(model.coef_deviation_[2].round(1))
    (array([0]), array([5]))
    """

    def __init__(
        self,
        lam_common=None,
        lam_deviation=None,
        theta=np.inf,
        *,
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
        unknown_task="error",
        n_jobs=None,
        l1_ratio=1.0,
        intercepts="task",
        bounds=None,
        feature_groups=None,
        unknown_category="error",
    ):
        self.lam_common = lam_common
        self.lam_deviation = lam_deviation
        self.theta = theta
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
        self.unknown_task = unknown_task
        self.n_jobs = n_jobs
        self.l1_ratio = l1_ratio
        self.intercepts = intercepts
        self.bounds = bounds
        self.feature_groups = feature_groups
        self.unknown_category = unknown_category

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, offset: Any = None) -> SharedMTL:
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
        SharedMTL
            The fitted model itself.
        """
        self._check_params()
        with one_blas_thread():
            problem = self._make_problem(X, y, task, sample_weight, offset)
        self._fit_problem(problem, self._previous(problem.data))
        return self


def shared_coef(model: Any, part: Problem) -> Floats:
    """(m, d): the coefficients at a fitted model's parameters on a part of the rows."""
    lams, most = (model.lam_common_, model.lam_deviation_), 1 if np.isinf(model.theta_) else model.max_stages
    penalty = CappedDeviations(*lams, model.theta_, part.factors, scales(part), part.l1_ratio)
    solver = solver_for(part, penalty)
    solution = run_stages(penalty, solver, max_stages=most, tol=np.inf)
    return np.asarray(solver.grams.stacked.sums(solution.stages[-1].coef[0]))
