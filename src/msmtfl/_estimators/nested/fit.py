"""Coefficients that are sums over levels of tasks, at given strengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._data.task_levels import TaskLevels
from ..._objective.coupled.level_penalty import RIDGE
from ..._objective.problem import Problem
from ..._paths.families.nested_path import largest, penalty_at, units_of
from ..._runtime.checks import check_count, check_positive
from ..._runtime.progress import Monitor, one_blas_thread, with_callbacks
from ..._solvers.coupled.pooling import sizes
from ..._solvers.largest_lam import default_lam
from ..._solvers.solvers import solver_for
from ..._solvers.stages import run_stages
from ..streaming import PartialFitMixin
from .effects import Nested


class NestedFit(Nested):
    """A fit at given strengths, with any loss."""

    def _check_params(self) -> None:
        self._check_common()
        for name in ("lam", "lam_common"):
            if getattr(self, name) is not None:
                common = name == "lam_common"
                check_positive(name, getattr(self, name), allow_inf=common, allow_zero=common)
        check_positive("theta", self.theta, allow_inf=True)
        check_count("max_stages", self.max_stages)
        if self.kind == RIDGE and np.isfinite(self.theta):
            raise ValueError("theta caps the sparse penalty: with kind='ridge' leave theta=inf.")

    def _strengths(self, problem: Problem, levels: TaskLevels) -> Floats:
        """(1 + L,): of what is common, and of the levels."""
        unit = units_of(levels, self.kind)
        given = self._uppers(levels)
        lams = [self.lam_common, *given, self.lam]
        if self.lam is not None:
            base = float(self.lam)
        else:
            base = sizes(problem)[0] if self.kind == RIDGE else default_lam(None, largest(problem, levels, unit))
        found = [base * u if lam is None else float(lam) for lam, u in zip(lams, unit, strict=True)]
        if self.kind == RIDGE and self.lam_common is None:
            found[0] = 0.0
        if np.isinf(found).all():
            raise ValueError(
                "lam, lam_upper and lam_common are all inf: all coefficients would be 0. Give a finite one."
            )
        return np.array(found)

    def _uppers(self, levels: TaskLevels) -> Sequence[float | None]:
        """The strengths of the levels above the last one, None where they are not given."""
        count = len(levels.counts) - 1
        given = self.lam_upper
        if given is None:
            return [None] * count
        values = np.atleast_1d(np.asarray(given, dtype=np.float64))
        if values.ndim != 1 or len(values) not in (1, count) or not (values > 0.0).all():
            raise ValueError(
                f"lam_upper must be a number greater than 0 (inf is allowed), or one for each of the {count} level(s) above "
                f"the last; got {given!r}."
            )
        return [float(value) for value in np.broadcast_to(values, (count,))]

    def _fit_problem(self, problem: Problem, previous: Floats | None) -> None:
        """Solve, and set the attributes of the fit, which goes on from no other."""
        with one_blas_thread():
            levels = self._levels(problem)
            lams = self._strengths(problem, levels)
            penalty = penalty_at(problem, levels, self.kind, lams, float(self.theta))
            most = 1 if penalty.convex else self.max_stages
            solution = run_stages(
                penalty,
                solver_for(problem, penalty),
                max_stages=most,
                tol=self.tol,
                max_iter=self.max_iter or 0,
                listener=Monitor(self, most, problem.m),
            )
        self._store(problem, solution, penalty)
        self._warn(solution, problem)


class NestedMTL(NestedFit, PartialFitMixin):
    r"""Models for tasks with levels, as schools of regions, or drugs in hospitals.

    The coefficients of a task are the sum of what is common to all tasks and of an effect of its value at
    every level, each with a penalty of its own. With two levels, regions r and schools s, and with
    kind="sparse",

    .. math::
        \min \sum_{i=1}^m \frac{1}{m n_i} \|X_i w_i - y_i\|^2 + \lambda_c \|b\|_1
             + \lambda_u \sum_r \|u_r\|_1 + \lambda \sum_s \|v_s\|_1, \qquad w_i = b + u_{r(i)} + v_{s(i)}

    where every task counts the same, as in SharedMTL, which this is with one level. With theta below inf a
    feature's effects at a level cost no more than theta times the strength of the level, in stages as with
    MSMTFL. With kind="ridge"

    .. math::
        \min \frac{1}{N} \Big( \sum_{i=1}^m \|X_i w_i - y_i\|^2 + \lambda_c \|b\|^2
             + \lambda_u \sum_r \|u_r\|^2 + \lambda \sum_s \|v_s\|^2 \Big), \qquad N = \sum_i n_i

    where every sample counts the same: a linear model with nested or crossed random effects, whose variances
    are those of the noise over the strengths. With one level it is PartialPooling. Solutions are exact.

    The levels are columns of X, ``task_column=["region", "school"]``, from the widest on, and a task is a
    combination of their values that occurs, with the label "north / school 7". (Labels of this form may be
    given as `task`, too, as may a table or an array with a column per level.) Levels may cross, as drugs
    and hospitals do: effects add up. A task of a new school in a known region is predicted by b + u_r, one of
    a new region by b (``unknown_task="common"``).

    Parameters
    ----------
    lam : float, optional
        Strength of the penalty on the effects of the last level. By default, with kind="sparse", 0.1
        times what leaves all coefficients at 0, and with kind="ridge" the mean sum of squares of a
        column in a task: values to start from, not a choice.
    lam_common : float, optional
        Strength of the penalty on what is common to all tasks; it may be inf: nothing is. By default
        0 with kind="ridge", and with kind="sparse" lam times the root of the number of values of the
        last level, at which noise has the same chance in both.
    lam_upper : float or array-like, optional
        Strengths of the penalties on the effects of the levels above the last one, from the widest
        on, or one for all of them; inf leaves a level out. By default lam times the root of the number of values of the
        last level per value of the level; with kind="ridge" lam itself.
    kind : {"sparse", "ridge"}, default="sparse"
        The penalty: absolute values, which leave most effects at 0, or squares.
    theta : float, default=inf
        Norm of a feature's effects at a level, over its values, from which they are free.
    max_stages : int, default=10
        The largest number of stages; with 1 the model is the lasso.
    nested : bool, optional
        Whether a value of a level belongs to those of the levels above it, so that school "1" of
        one region is another one than school "1" of the next. By default, and with False, it is
        the same value everywhere (levels are crossed); by default with a warning if one occurs
        under several.
    task_column : str, int or list, optional
        The column of X that identifies the task, or the columns of its levels, from the widest
        on. Without it the tasks are given to `fit` as `task`.
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
    penalty_factors : array-like of shape (d,) or (d, m), optional
        Factors f of the penalty: a feature's norm is the sum over tasks of f_ji |w_ji|. 0:
        the coefficient is never penalised; inf: the feature is excluded.
    tol : float, default=1e-8
        The relative duality gap that every stage must reach. Solves are exact: 1e-10 and
        less is usual.
    max_iter : int, optional
        Limit on the rounds of a stage's solver. The default is far more than it needs.
    unknown_task : {"error", "mean", "common", "similar"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error, or
        predict and warn. "common": with what is common to all tasks and the effects of those
        values of its levels that are known; the intercept is found in the same way. "mean": with
        the mean coefficients of the known tasks. "similar": with their mean weighted by
        exp(-D_i / D), where D_i is how far the means of the features in the samples to be
        predicted are from those of task i (the mean square of the differences in standard
        deviations), and D the distance of a known task to the nearest other one, in the median.
    n_jobs : int, optional
        Number of threads, which work on tasks side by side. The result is the same to the
        bit.
    intercepts : {"task", "shrunk", "common"}, default="task"
        How intercepts share. "task": every task has its own, which knows nothing of the
        others. "shrunk": random intercepts. A task's level, its linear predictor at the mean
        of all samples, is drawn to a common level, as strongly as `level_ridge_` samples
        there would draw it; the fewer samples a task has, the more. Level and strength are
        estimated from the training samples (of every fold anew), whatever the penalty is.
        Tasks with one sample, one class or counts that are all 0 have a finite fit then.
        "common": one intercept for all tasks.
    bounds : pair (low, high), optional
        Bounds of the coefficients, which this model does not know yet: anything but None is
        an error.
    feature_groups : mapping {name: columns} or sequence of d names, optional
        Which columns belong together. With kind="sparse" what is common, and the effects of a value
        of a level, have all columns of a group or none: in place of absolute values stand the l2
        norms of a group (times the penalty factors), times the root of its size; theta caps the
        sum of those of a level over its values. With kind="ridge" no penalty leaves columns out,
        so that groups are names: `feature_groups_` and reports have them, and coefficients are
        the same without. Columns that are in no group are groups by themselves.
    unknown_category : {"error", "baseline"}, default="error"
        What `predict` does with a category of a categorical column that was not in the training
        data: raise an error, or count the sample as none of the known categories, so that the
        column adds nothing to its linear predictor.

    Attributes
    ----------
    coef_ : ndarray of shape (m, d)
        Coefficients of every task in the data's units; (d,) if the model was fitted without
        tasks.
    coef_common_ : ndarray of shape (d,)
        What is common to all tasks, b.
    coef_effects_ : ndarray of shape (V, d)
        The effects of all values of all levels, one level after the other.
    effect_levels_ : ndarray of shape (V,)
        The level of every line of `coef_effects_`.
    effect_values_ : ndarray of shape (V,)
        The value of every line of `coef_effects_`.
    task_effects_ : ndarray of int of shape (m, L)
        The lines of `coef_effects_` that every task has, one for each level.
    lam_ : float
        The strength of the penalty that was used.
    lam_common_ : float
        The strength of what is common that was used.
    lam_upper_ : ndarray of shape (L - 1,)
        The strengths of the levels above the last one that were used.
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
    feature_groups_ : ndarray of shape (d,)
        The name of the group of every feature. There is no such attribute if every feature is
        by itself.
    feature_importances_ : ndarray of shape (n_features_in_,)
        The norms of the features in the order of the columns of X; a column that identifies
        the task gets the largest.
    feature_means_ : ndarray of shape (m, d)
        Means of the features over the training samples of every task, by which
        unknown_task="similar" knows how similar tasks are.
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
    >>> import pandas as pd
    >>> from msmtfl import NestedMTL
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.standard_normal((400, 3)), columns=["age", "income", "hours"])
    >>> table["school"] = np.repeat(np.arange(20), 20)
    >>> table["region"] = np.where(table["school"] < 10, "north", "south")
    >>> score = table["age"] + np.where(table["region"] == "north", table["hours"], 0.0) + 0.1 * rng.standard_normal(400)
    >>> model = NestedMTL(task_column=["region", "school"]).fit(table, score)
    >>> model.effects("region")["north"].round(1)
    array([0. , 0. , 0.8])
    >>> print(model.tasks_[0])
    north / 0
    """

    def __init__(
        self,
        lam=None,
        lam_common=None,
        *,
        lam_upper=None,
        kind="sparse",
        theta=np.inf,
        max_stages=10,
        nested=None,
        task_column=None,
        loss="squared",
        epsilon=1.35,
        fit_intercept=True,
        standardize=False,
        penalty_factors=None,
        tol=1e-8,
        max_iter=None,
        unknown_task="error",
        n_jobs=None,
        intercepts="task",
        bounds=None,
        feature_groups=None,
        unknown_category="error",
    ):
        self.lam = lam
        self.lam_common = lam_common
        self.lam_upper = lam_upper
        self.kind = kind
        self.theta = theta
        self.max_stages = max_stages
        self.nested = nested
        self.task_column = task_column
        self.loss = loss
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.penalty_factors = penalty_factors
        self.tol = tol
        self.max_iter = max_iter
        self.unknown_task = unknown_task
        self.n_jobs = n_jobs
        self.intercepts = intercepts
        self.bounds = bounds
        self.feature_groups = feature_groups
        self.unknown_category = unknown_category

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, offset: Any = None) -> NestedMTL:
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
        NestedMTL
            The fitted model itself.
        """
        self._check_params()
        with one_blas_thread():
            problem = self._make_problem(X, y, task, sample_weight, offset)
        self._fit_problem(problem, None)
        return self
