"""Partial pooling, common values and dense deviations from them, at given strengths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._data.tables import warn_user
from ..._objective.coupled.pooling import PoolingRidge
from ..._objective.penalties import ConcaveRows
from ..._objective.problem import Problem
from ..._paths.families.pooling_path import pooling_ridge
from ..._runtime.checks import check_positive
from ..._runtime.progress import Monitor, one_blas_thread, with_callbacks
from ..._solvers.coupled.pooling import sizes
from ..._solvers.problems.level_priors import counted
from ..._solvers.solvers import pooling_for, solver_for
from ..._solvers.stages import Solution, run_stages
from ..added_tasks import AddTaskMixin, no_deviations
from ..classification.of_classes import of_features
from ..fitted import forget
from ..streaming import PartialFitMixin


class Pooled(AddTaskMixin):
    """What fits and searches of partial pooling have in common: they solve for b and V, and are about W = b + V to the
    outside."""

    coef_deviation_: Floats
    feature_units_: Floats
    relax = False  # ridges leave no coefficient out: there is no support to refit
    _of_several = "the smallest common values are returned"
    _samples_alike = True
    _can_scale_numbers = True

    def _check_common(self) -> None:
        if not isinstance(self.standardize, bool | np.bool_) and not self._scales_numbers():
            raise ValueError(f"standardize must be True, False or 'numeric', got {self.standardize!r}.")
        super()._check_common()

    def _common(self) -> Floats:
        return np.asarray(self.coef_common_)

    def _held_fixed(self, label: Any) -> Floats:
        return np.asarray(self.coef_common_)

    def _new_l1_ratio(self) -> float:
        return 0.0

    def _new_factors(self) -> Any:
        if np.isinf(self.k_):
            return no_deviations(self)
        if not self._scales_numbers():
            return self.penalty_factors
        given = 1.0 if self.penalty_factors is None else np.asarray(self.penalty_factors, dtype=np.float64)
        return given * self.feature_units_  # those of the tasks that the others are about

    def _ridge_lam(self, problem: Problem) -> float:
        """(RSS + k |f v|^2) / n, as RSS / n + lam / 2 |f v|^2."""
        n = problem.classes * problem.designs[0].n
        return float(2.0 * self.k_ / n) if np.isfinite(self.k_) else 1.0

    def _penalty_given(self, problem: Problem) -> ConcaveRows:
        return ConcaveRows(self._ridge_lam(problem), np.inf, problem.factors, l1_ratio=0.0)

    def _append_parts(self, own: Floats, problem: Problem) -> None:
        own = own if self.coef_deviation_.ndim == 2 else own[None]
        self.coef_deviation_ = np.concatenate([self.coef_deviation_, own])

    def _make_problem(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any = None) -> Problem:
        if np.ndim(self.penalty_factors) == 2:
            raise ValueError(
                "penalty_factors must have one entry per feature here: a common value belongs to all tasks."
            )
        return super()._make_problem(X, y, task, sample_weight, offset)

    def _store(
        self, problem: Problem, solution: Solution, penalty: Any, grams: Any = None, coef: Floats | None = None
    ) -> None:
        K, d, solution = problem.classes, problem.d, of_features(solution, problem)
        points = [stage.coef[0].reshape(problem.m // K + 1, -1) for stage in solution.stages]
        coefs = [np.reshape(P[0] + P[1:], (problem.m, d)) for P in points]
        stages = tuple(replace(stage, coef=W) for stage, W in zip(solution.stages, coefs, strict=True))
        b, V = points[-1][0], points[-1][1:].reshape(problem.m, d)
        of_sums = replace(penalty, factors=problem.factors, scales=problem.common_factors)
        super()._store(problem, replace(solution, stages=stages), of_sums, grams, coef=coefs[-1])
        self.coef_common_ = b.copy() if K == 1 else b.reshape(K, d).copy()
        self.coef_deviation_ = V[0].copy() if self._form == "single" and K == 1 else V.copy()
        self.k_, self.k_common_ = float(penalty.k), float(penalty.k_common)
        forget(self, "feature_units_")
        if self._scales_numbers():
            self.feature_units_ = problem.column_units.copy()

    def _warn(self, solution: Solution, problem: Problem) -> None:
        super()._warn(of_features(solution, problem), problem)
        last = solution.stages[-1]
        if any(map(len, last.ambiguous)) and not last.endless and self.k_common_ == 0.0 and problem.m > problem.classes:
            found = "The smallest are returned."
            if problem.may_escape:
                found = "They may grow without end as the fit gets ever better: what came near enough is returned."
            warn_user(
                "the samples of all tasks together do not determine the common values: features are dependent, or there are "
                f"more of them than samples. {found} Give k_common > 0, or let PartialPoolingCV choose it."
            )

    def _separates(self) -> bool:
        return bool(np.isinf(self.k_common_))

    def _selects(self) -> bool:
        return False


def pooled_coef(model: Any, part: Problem) -> Floats:
    """(m, d): the coefficients at a fitted model's parameters on a part of the rows."""
    return np.asarray(pooling_for(part).solve([(model.k_, model.k_common_)]).coefs[0])


class PoolingFit(Pooled):
    """A fit at one pair of strengths, with any loss."""

    def _check_params(self) -> None:
        self._check_common()
        check_positive("k_common", self.k_common, allow_inf=True, allow_zero=True)
        if self.k is not None:
            check_positive("k", self.k, allow_inf=True)
            if np.isinf(self.k) and np.isinf(self.k_common):
                raise ValueError("with k=inf give a finite k_common: otherwise all coefficients are 0.")

    def _penalty(self, problem: Problem, pooling: Any) -> PoolingRidge:
        k, k_common = self.k, float(self.k_common)
        if k is None:
            own = 0 if problem.has_one_level else problem.m * bool(self.fit_intercept)
            samples = (float(counted(problem)[1].sum()) - own) / problem.classes
            k = pooling.likely(k_common, samples)
            if np.isinf(k) and np.isinf(k_common):
                k = sizes(problem)[0]
        return pooling_ridge(problem, float(k), k_common)

    def _fit_problem(self, problem: Problem, previous: Floats | None) -> None:
        """Solve, and set the attributes of the fit, which goes on from no other."""
        with one_blas_thread():
            pooling = pooling_for(problem)
            penalty = self._penalty(problem, pooling)
            solver = solver_for(problem, penalty, grams=pooling)
            listener = Monitor(self, 1, problem.m)
            solution = run_stages(penalty, solver, max_stages=1, tol=self.tol, listener=listener)
        self._store(problem, solution, penalty)
        self._warn(solution, problem)


class PartialPooling(PoolingFit, PartialFitMixin):
    r"""Partial pooling: values common to all tasks, and deviations from them that are shrunk but not sparse.

    .. math::
        \min_{b, V} \frac{1}{N} \sum_{i=1}^m \left( \|X_i (b + v_i) - y_i\|^2 + k \|v_i\|^2 \right)
                    + \frac{k_c}{N} \|b\|^2, \qquad N = \sum_{i=1}^m n_i

    It is the model for effects that are dense: every feature matters a little, and tasks differ a little in
    all of them. Every sample counts the same, so a task with few samples is drawn more towards the common
    values than one with many. With k_common = 0 these are the predictions of a linear mixed model with
    independent random effects of one variance, k being the variance of the noise over theirs. The model can
    be one for all tasks (k = inf), one ridge regression for each (k_common = inf), and everything between.

    Values are shared in the data's units: the same column must mean the same in all tasks. A task in which
    a column does not vary gets its common value. The solution is a closed form, computed from every task's
    sums of squares and products (or from its samples, if they are fewer than features).

    Parameters
    ----------
    k : float, optional
        Strength of the ridge on the deviations; it may be inf: all tasks have the common
        values. By default the value with the largest marginal likelihood (REML), which is
        inf if tasks do not differ by more than noise. :class:`PartialPoolingCV` chooses by
        cross-validation.
    k_common : float, default=0
        Strength of the ridge on the common values; it may be inf (no common part), if k is
        not. With 0 they are not shrunk; where the data do not determine them, the smallest
        are taken.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    loss : {"squared", "poisson", "gamma", "tweedie", "huber", "cox"}, default="squared"
        The loss. "poisson" is for counts (or any y >= 0), "gamma" for amounts y > 0 whose
        spread is proportional to their mean (costs, durations), "tweedie" for amounts y >= 0
        of which many are exactly 0 (claims, rainfall): their variance is proportional to the
        mean to the power 1.5, or to another one between 1 and 2, as in "tweedie(1.7)". These
        three have the mean exp(x'w + b), which is what is predicted: in place of the squared
        error stands the unit deviance, for counts 2 (mu - y log mu + y log y - y). "huber" is
        for targets with outliers: the squared error r^2 up to |r| = e_i, and 2 e_i |r| -
        e_i^2 beyond, with e_i = `epsilon` times `scale_` of the task. Strengths are compared
        with sums of squares times the curvature of the loss. "cox" is for times until an event:
        y has two columns (time, event), or is a structured array as in scikit-survival. The
        loss is minus twice the logarithm of the partial likelihood of every task, less that of
        a saturated model. Tasks have baseline hazards of their own, and no intercepts;
        `predict` gives the logarithm of the hazard relative to that of x = 0. Events at the
        same time are dealt with by Efron's rule, or Breslow's with "cox(breslow)".
    epsilon : float, default=1.35
        With loss="huber": how many standard deviations of the noise a residual may be large
        before it counts as an outlier. With 1.35 the un-penalised estimate is some 95 % as
        efficient as least squares if the noise is normal.
    fit_intercept : bool, default=True
        Whether every task has an intercept, which is not penalised.
    standardize : bool or "numeric", default=False
        Whether deviations are penalised as if every task's columns were scaled to unit
        standard deviation, and common values as if the columns of all tasks together were.
        "numeric": both as if numbers were in units of two standard deviations within tasks,
        the same for all tasks, and columns of two values (indicators) in units of their
        distance, which makes numbers and indicators alike (Gelman, 2008). Take it where
        columns have different units. (Statistics in place of samples show indicators of 0 and 1,
        or of -1 and 1; others count as numbers there.) Coefficients stay in the data's units.
    positive : bool, default=False
        Whether coefficients are required to be at least 0.
    penalty_factors : array-like of shape (d,), optional
        Factors f of the penalties f_j^2 b_j^2 and f_j^2 v_ji^2. 0: the feature is never
        penalised (its values are then found in the deviations); inf: the feature is
        excluded.
    tol : float, default=1e-8
        The relative duality gap that the solution must have to count as certified. With
        squared loss it is a closed form: 1e-10 and less is usual.
    unknown_task : {"error", "mean", "common", "similar"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error, or
        predict and warn, with the mean coefficients of the known tasks; with the common
        values; or with the mean weighted by exp(-D_i / D), where D_i is how far the means of
        the features in the samples to be predicted are from those of task i (the mean square
        of the differences in standard deviations), and D the distance of a known task to the
        nearest other one, in the median.
    n_jobs : int, optional
        Number of threads that read the tasks. The result is the same to the bit.
    intercepts : {"task", "shrunk", "common"}, default="task"
        How intercepts share. "task": every task has its own, which is not penalised.
        "shrunk": they are random as well, drawn to a common level; see :class:`MSMTFL`.
        "common": one intercept for all tasks, which is not penalised. A strength that is
        estimated by marginal likelihood counts it as one more common value.
    bounds : pair (low, high), optional
        The least and the largest value that coefficients may have, in the units of the
        columns as they are given: each a number, one per feature (d,), or one per feature and
        task (d, m), with low <= 0 <= high; None, -inf or inf is no bound. ``bounds=(0, None)``
        is `positive=True`. Bounds are those of the coefficients of the tasks, `coef_`, which are
        sums of parts here; the parts have none of their own.
    feature_groups : mapping {name: columns} or sequence of d names, optional
        Which columns belong together, as those of one variable. Ridges leave no column out, so that
        groups are names here: `feature_groups_` and reports have them, and coefficients are the same
        without.
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
    k_ : float
        The strength of the ridge on the deviations that was used; it may be inf.
    k_common_ : float
        The strength of the ridge on the common values that was used.
    stages_ : list of Stage
        One stage, as the problem is convex, with stage (1), coef, objective, free_rows (the
        features that are not penalised), dual_gap, kkt, unique, n_iter and seconds.
    n_stages_ : int
        Number of stages: 1.
    n_iter_ : int
        Number of rounds of the solver: 1 with squared loss.
    certificate_ : Certificate
        What is proven about the fit; print it for the answer in words.
    converged_ : bool
        Whether the fit is certified to have come to its end.
    stopping_reason_ : str
        Whether the solution is certified, in words.
    objective_ : float
        The value of what is minimised, loss plus penalty.
    dual_gap_ : float
        Relative duality gap: an upper bound on how far the solution is from optimal, over
        the loss with all coefficients at 0.
    row_norms_ : ndarray of shape (d,)
        For every feature the sum over tasks of the absolute coefficients, times the penalty
        factors.
    row_slopes_ : ndarray of shape (d,)
        Ones: the penalty has no cap, which would leave less of it.
    feature_groups_ : ndarray of shape (d,)
        The name of the group of every feature. There is no such attribute if every feature is
        by itself.
    feature_importances_ : ndarray of shape (n_features_in_,)
        The norms of the features in the order of the columns of X; a column that identifies
        the task gets the largest.
    feature_means_ : x
        x
    feature_units_ : ndarray of shape (d,)
        With standardize="numeric" only: the units in which features are penalised.
    feature_sd_ : ndarray of shape (d,)
        Standard deviations of the features within tasks, pooled over the tasks in which a
        feature varies; 0 where it never does. A coefficient times it is the effect of one
        standard deviation.
    learnable_ : ndarray of bool of shape (m, d)
        Where a feature varies within a task; elsewhere its effect cannot be told from the
        intercept.
    task_level_features_ : ndarray
        Names of the features that are constant within every task and differ only between
        tasks. A coefficient of 0 says nothing about their effect, and `fit` warns of them.
    moments_ : Moments
        After `partial_fit` only: the statistics of all samples seen so far.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import PartialPooling
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((120, 3)), np.repeat(["north", "south", "west", "east"], 30)
    >>> slopes = np.array([1.0, -2.0, 0.5]) + 0.3 * rng.standard_normal((4, 3))
    >>> y = (X * np.repeat(slopes, 30, axis=0)).sum(axis=1) + rng.standard_normal(120)
    >>> model = PartialPooling().fit(X, y, task=task)
    >>> model.coef_common_.round(1), model.coef_.shape
    (array([ 1. , -2.1,  0.4]), (4, 3))
    """

    def __init__(
        self,
        k=None,
        k_common=0.0,
        *,
        task_column=None,
        loss="squared",
        epsilon=1.35,
        fit_intercept=True,
        standardize=False,
        positive=False,
        penalty_factors=None,
        tol=1e-8,
        unknown_task="error",
        n_jobs=None,
        intercepts="task",
        bounds=None,
        feature_groups=None,
        unknown_category="error",
    ):
        self.k = k
        self.k_common = k_common
        self.task_column = task_column
        self.loss = loss
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.positive = positive
        self.penalty_factors = penalty_factors
        self.tol = tol
        self.unknown_task = unknown_task
        self.n_jobs = n_jobs
        self.intercepts = intercepts
        self.bounds = bounds
        self.feature_groups = feature_groups
        self.unknown_category = unknown_category

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, offset: Any = None) -> PartialPooling:
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
        PartialPooling
            The fitted model itself.
        """
        self._check_params()
        with one_blas_thread():
            problem = self._make_problem(X, y, task, sample_weight, offset)
        self._fit_problem(problem, None)
        return self
