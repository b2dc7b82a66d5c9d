"""ARMUL and rMTFL at given strengths: tasks unlike the rest deviate as a whole, or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._data.tables import warn_user
from ..._objective.coupled.task_norms import TaskNorms
from ..._objective.problem import Problem
from ..._paths.families.robust_path import ARMUL, KINDS, beyond_noise, both_max, deviation_max, penalty_of
from ..._runtime.checks import check_positive
from ..._runtime.progress import Monitor, one_blas_thread, with_callbacks
from ..._solvers.largest_lam import default_lam
from ..._solvers.solvers import ROBUST, caches_for, solver_for, task_norms_for
from ..._solvers.stages import Solution, run_stages
from ..added_tasks import AddTaskMixin, no_deviations
from ..streaming import PartialFitMixin


class Robust(AddTaskMixin):
    """What fits and searches have in common: they solve for what is common and for deviations, and are about the sum to the
    outside."""

    coef_deviation_: Floats
    coef_shared_: Floats
    _of_several = "one of them is returned"

    def _check_common(self) -> None:
        super()._check_common()
        if self.kind not in KINDS:
            raise ValueError(f"kind must be 'armul' or 'rmtfl', got {self.kind!r}.")
        if not self._can_share(self.intercepts):
            raise ValueError(
                f"intercepts='common' is not possible with {type(self).__name__}: take 'shrunk' or 'task'."
            )

    def _can_share(self, intercepts: str) -> bool:
        return intercepts != "common"

    def _make_problem(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any = None) -> Problem:
        if np.ndim(self.penalty_factors) == 2:
            raise ValueError(
                "penalty_factors must have one entry per feature here: what is common belongs to all tasks."
            )
        return super()._make_problem(X, y, task, sample_weight, offset)

    def _common(self) -> Floats:
        return np.asarray(self.coef_common_)

    def _store(
        self, problem: Problem, solution: Solution, penalty: Any, grams: Any = None, coef: Floats | None = None
    ) -> None:
        points = [stage.coef.reshape(penalty.height, -1) for stage in solution.stages]
        point = points[-1]
        if self.relax:
            point = relaxed_point(task_norms_for(problem, grams), point, penalty)
        pairs = zip(solution.stages, points, strict=True)
        stages = tuple(replace(stage, coef=penalty.coefs(P)) for stage, P in pairs)
        super()._store(problem, replace(solution, stages=stages), penalty, grams, coef=penalty.coefs(point))
        V = point[-problem.m :]
        shared = np.broadcast_to(point[: -problem.m], V.shape).copy()
        single = self._form == "single"
        self.coef_common_ = shared.mean(axis=0)
        self.coef_shared_, self.coef_deviation_ = (shared[0], V[0].copy()) if single else (shared, V.copy())
        self.lam_deviation_, self.lam_common_ = float(penalty.lam_deviation), float(penalty.lam_common)
        self.outlier_tasks_ = self.tasks_[penalty.deviation_norms(points[-1][-problem.m :]) > 0.0]

    def _warn(self, solution: Solution, problem: Problem) -> None:
        super()._warn(solution, problem)
        last = solution.stages[-1]
        undetermined = not (last.unique or last.endless) and self.kind == ARMUL and self.lam_common_ == 0.0
        if undetermined and problem.m > 1:
            warn_user(
                "the samples do not determine the centre of the tasks: features are dependent, there are more of them than "
                "samples, or the tasks have no majority. One of several centres is returned. Give lam_common > 0, or let "
                "RobustMTLCV choose it."
            )

    def _separates(self) -> bool:
        return False

    def _selects(self) -> bool:
        return bool(self.kind != ARMUL)

    # ------------------------------------------------------------------ one more task

    def _held_fixed(self, label: Any) -> Floats:
        return np.asarray(self.coef_common_)

    def _new_l1_ratio(self) -> float:
        return 1.0

    def _new_factors(self) -> Any:
        return no_deviations(self) if np.isinf(self.lam_deviation_) else self.penalty_factors

    def _penalty_given(self, problem: Problem) -> TaskNorms:
        lam = self.lam_deviation_ if np.isfinite(self.lam_deviation_) else 1.0
        count = 1 if self.kind == ARMUL else self.n_fitted_tasks_  # rMTFL's strength is relative to losses over m
        return penalty_of(problem, self.kind, np.inf, count * lam)

    def _ridge_lam(self, problem: Problem) -> float:
        return 0.0

    def _coef_given(self, stage_coef: Floats, problem: Problem) -> Floats:
        return np.asarray(stage_coef.reshape(-1, problem.d)[-problem.m :])

    def _append_parts(self, own: Floats, problem: Problem) -> None:
        self.coef_shared_ = np.vstack([self.coef_shared_, self.coef_common_])
        self.coef_deviation_ = np.vstack([self.coef_deviation_, own])
        penalised = problem.factors.T > 0.0
        if np.any(np.where(penalised, own, 0.0)):
            self.outlier_tasks_ = np.append(self.outlier_tasks_, self.tasks_[-1:])


def relaxed_point(solver: Any, P: Floats, penalty: TaskNorms) -> Floats:
    """(height, d): the loss alone, with the tasks deviating that do in P."""
    deviating = penalty.deviation_norms(P[-penalty.m :]) > 0.0
    return np.asarray(solver.solve(replace(penalty, deviating=deviating))[0])


def robust_coef(model: Any, part: Problem) -> Floats:
    """(m, d): the coefficients at a fitted model's parameters on a part of the rows."""
    penalty = penalty_of(part, model.kind, model.lam_common_, model.lam_deviation_)
    return penalty.coefs(task_norms_for(part).solve(penalty)[0])


class RobustFit(Robust):
    """A fit at one pair of strengths, with any loss."""

    def _check_params(self) -> None:
        self._check_common()
        for name in ("lam_deviation", "lam_common"):
            if getattr(self, name) is not None:
                zero = name == "lam_common" and self.kind == ARMUL
                check_positive(name, getattr(self, name), allow_inf=True, allow_zero=zero)
        if np.isinf(self.lam_deviation or 1.0) and np.isinf(self.lam_common or 1.0):
            raise ValueError("with lam_deviation=inf give a finite lam_common: otherwise all coefficients are 0.")

    def _penalty(self, problem: Problem, known: Any) -> tuple[TaskNorms, float]:
        """The penalty, and the smallest lam_deviation at which no task deviates."""
        common, deviation = self.lam_common, self.lam_deviation
        if common is None and self.kind == ARMUL:
            common = 0.0
        elif common is None:
            ratio = np.sqrt(problem.d / problem.m)
            inside = deviation is None or np.isinf(deviation)
            common = default_lam(None, both_max(problem, ratio)) if inside else deviation / ratio
        if deviation is None and self.kind == ARMUL:
            deviation = beyond_noise(problem, known)
            if deviation is None:
                top = deviation_max(problem, self.kind, float(common), task_norms_for(problem, known))
                deviation = default_lam(None, top)
        elif deviation is None:
            deviation = common * np.sqrt(problem.d / problem.m)
        top = deviation_max(problem, self.kind, float(common), task_norms_for(problem, known))
        return penalty_of(problem, self.kind, float(common), float(deviation)), top

    def _fit_problem(self, problem: Problem, previous: Floats | None) -> None:
        """Solve, and set the attributes of the fit, which goes on from no other."""
        with one_blas_thread():
            known = caches_for(problem, ROBUST)
            penalty, self.lam_max_ = self._penalty(problem, known)
            solver, listener = solver_for(problem, penalty, grams=known), Monitor(self, 1, problem.m)
            solution = run_stages(
                penalty, solver, max_stages=1, tol=self.tol, max_iter=self.max_iter or 0, listener=listener
            )
        self._store(problem, solution, penalty, known)
        self._warn(solution, problem)


class RobustMTL(RobustFit, PartialFitMixin):
    r"""Models for tasks of which a few are unlike the rest: ARMUL and rMTFL.

    With kind="armul" (Duan and Wang, Adaptive and robust multi-task learning, Annals of Statistics 2023) a
    task has the coefficients of a centre, or deviates from it as a whole:

    .. math::
        \min_{b, V} \frac{1}{N} \sum_{i=1}^m \left( \|X_i (b + v_i) - y_i\|^2
                    + \lambda_d \sqrt{n_i} \|v_i\|_2 \right) + \frac{\lambda_c}{N} \|b\|^2, \qquad N = \sum_i n_i

    Every sample counts the same. The penalty is that of the article, n_i lam_i |v_i| with lam_i = lam_d /
    sqrt(n_i); the ridge on the centre, which is not, is 0 by default. A task that is far from the others
    pulls the centre no farther than one that is a little off, as an outlier does with Huber's loss.

    With kind="rmtfl" (Gong, Ye and Zhang, Robust multi-task feature learning, KDD 2012) what is common are
    the features in use:

    .. math::
        \min_{P, Q} \sum_{i=1}^m \frac{1}{m n_i} \|X_i (p_i + q_i) - y_i\|^2
                    + \lambda_c \sum_{j=1}^d \|p^j\|_2 + \lambda_d \sum_{i=1}^m \|q_i\|_2

    Every task counts the same. Q is 0 but for tasks whose features are others. lam_deviation = inf is L1,2.

    Either way `outlier_tasks_` has the labels of the tasks that deviate. What they are named for holds at
    the strengths that were used: the smaller lam_deviation is, the more tasks deviate. Solutions are exact.

    Parameters
    ----------
    lam_deviation : float, optional
        Strength of the penalty on deviations, lambda_d; it may be inf: no task deviates. By
        default, with kind="armul", what noise alone exceeds in any task with a probability of
        5 % (where the loss is not squared, or no task has more samples than features, 0.1
        times `lam_max_`, a value to start from); with kind="rmtfl" sqrt(d / m) times
        lam_common, at which noise has the same chance in both.
    lam_common : float, optional
        Strength of the penalty on what is common, lambda_c; it may be inf: nothing is. By
        default 0 with kind="armul"; with kind="rmtfl" lam_deviation over sqrt(d / m), or, if
        that is not given either, 0.1 times what leaves all coefficients at 0: a value to start
        from, not a choice. :class:`RobustMTLCV` chooses both by cross-validation.
    kind : {"armul", "rmtfl"}, default="armul"
        What the tasks have in common: a centre, or the features in use.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
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
        Which columns belong together. With kind="rmtfl" a group is in what is common as a whole: in
        place of the norm of a row of P stands the l2 norm of a group's coefficients in all tasks
        (times the penalty factors), times the root of the group's size; deviations are of whole
        tasks anyway. With kind="armul" no penalty leaves columns out, so that groups are names:
        sharing maps and reports speak of them, and coefficients are the same without. Columns
        that are in no group are groups by themselves.
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
        With kind="armul" the centre; with kind="rmtfl" the mean over tasks of `coef_shared_`.
    coef_shared_ : ndarray of shape (m, d)
        What is common to the tasks: the centre in every line with kind="armul", P with
        kind="rmtfl"; (d,) if the model was fitted without tasks.
    coef_deviation_ : ndarray of shape (m, d)
        The deviations of the tasks, 0 for all but those that are unlike the rest; (d,) if
        the model was fitted without tasks.
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
    lam_deviation_ : float
        The strength of the penalty on deviations that was used.
    lam_common_ : float
        The strength of the penalty on what is common that was used.
    lam_max_ : float
        The smallest lam at which all coefficients are 0.
    outlier_tasks_ : ndarray
        Labels of the tasks that deviate: those whose deviation is not 0 in a feature that is
        penalised.
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
    >>> from msmtfl import RobustMTL
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((200, 3)), np.repeat(["a", "b", "c", "d", "odd"], 40)
    >>> slopes = np.where(task == "odd", -1.0, 1.0)[:, None] * np.array([1.0, -2.0, 0.5])
    >>> y = (X * slopes).sum(axis=1) + rng.standard_normal(200)
    >>> model = RobustMTL().fit(X, y, task=task)
    >>> model.outlier_tasks_.tolist()
    ['odd']
    """

    def __init__(
        self,
        lam_deviation=None,
        lam_common=None,
        *,
        kind="armul",
        task_column=None,
        loss="squared",
        epsilon=1.35,
        fit_intercept=True,
        standardize=False,
        positive=False,
        penalty_factors=None,
        relax=False,
        tol=1e-8,
        max_iter=None,
        unknown_task="error",
        n_jobs=None,
        intercepts="task",
        bounds=None,
        feature_groups=None,
        unknown_category="error",
    ):
        self.lam_deviation = lam_deviation
        self.lam_common = lam_common
        self.kind = kind
        self.task_column = task_column
        self.loss = loss
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.positive = positive
        self.penalty_factors = penalty_factors
        self.relax = relax
        self.tol = tol
        self.max_iter = max_iter
        self.unknown_task = unknown_task
        self.n_jobs = n_jobs
        self.intercepts = intercepts
        self.bounds = bounds
        self.feature_groups = feature_groups
        self.unknown_category = unknown_category

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, offset: Any = None) -> RobustMTL:
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
        RobustMTL
            The fitted model itself.
        """
        self._check_params()
        with one_blas_thread():
            problem = self._make_problem(X, y, task, sample_weight, offset)
        self._fit_problem(problem, None)
        return self
