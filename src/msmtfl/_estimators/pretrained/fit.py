"""The pretrained lasso, one lasso for all tasks and then one per task, at given strengths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..._data.copies import groups_of
from ..._data.designs import Floats
from ..._objective.coupled.row_norms import counted
from ..._objective.penalties import ConcaveRows
from ..._objective.problem import Problem
from ..._paths.families.pretrained_path import second_factors, second_step, used_by
from ..._paths.families.pretraining import FirstStep, OffsetFolds, pretrain
from ..._runtime.checks import check_count, check_positive, check_share
from ..._runtime.progress import Monitor, one_blas_thread, with_callbacks
from ..._solvers.largest_lam import default_lam, largest_lam
from ..._solvers.one_level import hold_best
from ..._solvers.problems.make_problem import on_rows
from ..._solvers.solvers import solver_for
from ..._solvers.stages import UNSOLVED, Solution, run_stages
from ..added_tasks import AddTaskMixin
from ..fitted import groups_of as groups_of_features
from ..grid_search import GridSearch
from ..regression import MultiTaskLinear


class Pretrained(MultiTaskLinear, AddTaskMixin):
    """What PretrainedMTL and PretrainedMTLCV have in common: two steps, whose coefficients add up."""

    relax = False

    def _check_params(self) -> None:
        super()._check_params() if isinstance(self, GridSearch) else self._check_common()
        check_count("offset_folds", self.offset_folds)
        if self.offset_folds < 2:
            raise ValueError(f"offset_folds must be at least 2, got {self.offset_folds}.")

    def _make_problem(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any = None) -> Problem:
        if np.ndim(self.penalty_factors) == 2:
            raise ValueError(
                "penalty_factors must have one entry per feature here: the first step has one coefficient for all tasks."
            )
        return super()._make_problem(X, y, task, sample_weight, offset)

    def _training(self, problem: Problem, keep: np.ndarray | int) -> Problem:
        assert isinstance(keep, np.ndarray)  # data that have rows
        return on_rows(problem, keep)

    def _limits(self) -> dict[str, Any]:
        return {"tol": self.tol, "max_iter": self.max_iter or 0}

    @np.errstate(over="ignore", invalid="ignore")  # offsets beyond the range of floats are not certified
    def _second(
        self, problem: Problem, first: FirstStep, alpha: float, lam: float | None, near: Floats | None = None
    ) -> tuple[Solution, ConcaveRows]:
        """The second step with certificates, as a solution whose coefficients are the sum of both. What is said of the gap
        and of uniqueness holds for both steps."""
        second = second_step(problem, first, alpha)
        lam = default_lam(lam, largest_lam(second))
        penalty = ConcaveRows(lam, np.inf, second.factors, l1_ratio=second.l1_ratio, groups=second.groups)
        solver = solver_for(second, penalty, lam=lam, n_jobs=self.n_jobs, near=near)
        listener = None if isinstance(self, GridSearch) else Monitor(self, 1, problem.m)
        solution = run_stages(
            penalty, solver, max_stages=1, tol=self.tol, max_iter=self.max_iter or 0, listener=listener
        )
        proof, (stage,) = first.prove(problem), solution.stages
        gap = proof.relative_gap
        whole = replace(
            stage,
            coef=problem.within((1.0 - alpha) * first.coef + stage.coef),
            dual_gap=max(stage.dual_gap, gap),
            unique=stage.unique and proof.unique,
        )
        hold_best(problem, whole.coef)
        proven = bool(whole.dual_gap <= self.tol)
        reason = solution.reason if proven else UNSOLVED.format(1, whole.dual_gap, self.tol)
        solution = replace(solution, stages=(whole,), converged=solution.converged and proven, reason=reason)
        return solution, ConcaveRows(lam, np.inf, problem.factors, groups=problem.groups)

    def _keep_parts(self, first: FirstStep, alpha: float, lam: float) -> None:
        self.lam_, self.alpha_, self.lam_common_ = float(lam), float(alpha), first.lam
        self.coef_common_ = first.coef.copy()
        self.coef_specific_ = self.stages_[-1].coef - (1.0 - alpha) * first.coef
        if self._form == "single":
            self.coef_specific_ = self.coef_specific_[0]

    def _common(self) -> Floats:
        return np.asarray(self.coef_common_)

    def _separates(self) -> bool:
        return bool(self.alpha_ == 1.0)

    def _held_fixed(self, label: Any) -> Floats:
        return np.asarray((1.0 - self.alpha_) * self.coef_common_)

    def _new_factors(self) -> Floats:
        given = (
            np.ones(len(self.features_)) if self.penalty_factors is None else np.asarray(self.penalty_factors, float)
        )
        return second_factors(given, used_by(self.coef_common_, groups_of_features(self)), self.alpha_)

    def _append_parts(self, own: Floats, problem: Problem) -> None:
        self.coef_specific_ = np.vstack([self.coef_specific_, own])

    def _norms_with(self, w: Floats, problem: Problem) -> Floats:
        given = (
            np.ones(len(self.features_)) if self.penalty_factors is None else np.asarray(self.penalty_factors, float)
        )
        factors, groups = counted(given * problem.units[0])[:, None], problem.groups
        factors = factors if groups is None else factors * groups.scale[:, None]
        return np.asarray(self.row_norms_ + ConcaveRows(1.0, np.inf, factors, groups=groups).row_norms(w.T))


class PretrainedMTL(Pretrained):
    r"""The pretrained lasso: one lasso for all tasks, then one per task that starts from it.

    The first step is a lasso of all tasks together, with an intercept per task: it minimises

    .. math:: \frac{1}{N} \sum_i \| X_i b + c_i - y_i \|^2 + \lambda_c \| b \|_1

    and uses the features S. The second fits every task to what the first leaves of its targets,

    .. math:: \sum_i \frac{1}{m n_i} \| (1 - \alpha) X_i b + X_i w_i + b_i - y_i \|^2 + \lambda \sum_{ij} f_j |w_{ji}|,

    where f is 1 on S and 1 / alpha elsewhere. The coefficients of a task are (1 - alpha) b + w_i. alpha = 1 is a
    lasso per task, which knows nothing of the first step; alpha = 0 takes all of b over, and lets tasks differ from it
    in the features S only. What the first step predicts of a sample comes from a fit without the sample's fold
    (pre-validation): otherwise the second step would be given residuals that are too small. (E. Craig, M. Pilanci,
    T. Le Menestrel, B. Narasimhan, M. Rivas, S. Gullaksen and R. Tibshirani, Pretraining and the lasso, JRSS-B 2025.)

    Parameters
    ----------
    lam : float, optional
        Strength of the penalty on the tasks' own coefficients. By default a tenth of the
        smallest at which all of them are 0.
    lam_common : float, optional
        Strength of the penalty of the first step. By default the one with the smallest
        error in the folds that offsets come from.
    alpha : float, default=0.5
        From 0 to 1: how much of a task is left to itself. The first step's predictions are
        taken over times 1 - alpha, and features that it does not use are penalised 1 / alpha
        times as much. 1: separate lassos. 0: all of the first step, with tasks that may differ
        from it in its features only.
    offset_folds : int, default=5
        Number of folds, stratified by task, that the offsets of the second step come from:
        what the first step predicts of a sample, without having seen the sample's fold.
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
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    fit_intercept : bool, default=True
        Whether every task has an intercept, which is not penalised.
    standardize : bool, default=False
        Whether the second step penalises as if every task's columns were scaled to unit
        standard deviation, and the first as if the columns of all tasks together were.
        Coefficients stay in the data's units.
    positive : bool, default=False
        Whether coefficients are required to be at least 0.
    penalty_factors : array-like of shape (d,), optional
        Factors of the penalties of both steps. 0: the feature is never penalised; inf: the
        feature is excluded.
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
    random_state : int, RandomState instance or None, default=0
        The source of randomness that deals out the samples to the folds that offsets come
        from.
    n_jobs : int, optional
        Number of threads, which work on tasks side by side. The result is the same to the
        bit.
    bounds : pair (low, high), optional
        The least and the largest value that coefficients may have, in the units of the
        columns as they are given: each a number, one per feature (d,), or one per feature and
        task (d, m), with low <= 0 <= high; None, -inf or inf is no bound. ``bounds=(0, None)``
        is `positive=True`. Bounds are those of the coefficients of the tasks, `coef_`, which are
        sums of parts here; the parts have none of their own.
    feature_groups : mapping {name: columns} or sequence of d names, optional
        Which columns belong together: a group enters the first step, or a task in the second, as
        a whole. In place of |b_j| and |w_ji| stand the l2 norms of a group's coefficients (times
        the penalty factors), times the root of the group's size; the first step uses a group if
        it uses any of its columns. Columns that are in no group are groups by themselves.
    unknown_category : {"error", "baseline"}, default="error"
        What `predict` does with a category of a categorical column that was not in the training
        data: raise an error, or count the sample as none of the known categories, so that the
        column adds nothing to its linear predictor.
    l1_ratio : float, default=1
        The share of both steps' penalties that is as above, as in scikit-learn's ElasticNet;
        the rest of each is a ridge of its strength: in the first step (1 - l1_ratio) lam_common
        / 2 times the sum of b_j^2, in the second (1 - l1_ratio) lam / 2 times the sum of
        (f_ji w_ji)^2. By default there is none. With 0 there is nothing else: the first step
        then uses every feature.
    intercepts : {"task", "shrunk", "common"}, default="task"
        How intercepts of the second step, which are those of the model, share; the first step
        has an intercept for every task. "task": every task has its own, which knows nothing of
        the others. "shrunk": random intercepts. A task's level, its linear predictor at the
        mean of all samples, is drawn to a common level, as strongly as `level_ridge_` samples
        there would draw it; the fewer samples a task has, the more. Level and strength are
        estimated from the training samples (of every fold anew), whatever the penalty is.
        "common": one intercept for all tasks.

    Attributes
    ----------
    coef_ : ndarray of shape (m, d)
        Coefficients of every task: 1 - `alpha_` times the first step's plus the task's own;
        (d,) if the model was fitted without tasks.
    coef_common_ : ndarray of shape (d,)
        The coefficients of the first step, a lasso of all tasks together.
    coef_specific_ : ndarray of shape (m, d)
        The tasks' own coefficients, of the second step; (d,) if the model was fitted without
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
    n_samples_ : ndarray of shape (m,)
        Number of training samples of every task.
    n_fitted_tasks_ : int
        Number of tasks of the fit, those that were added later not counted.
    target_mean_ : ndarray of shape (m,)
        Mean of the training targets of every task.
    target_sd_ : ndarray of shape (m,)
        Standard deviation of the training targets of every task.
    lam_ : float
        The strength of the penalty on the tasks' own coefficients that was used.
    alpha_ : float
        The alpha that was used.
    lam_common_ : float
        The strength of the penalty of the first step that was used.
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
        One stage, as both steps are convex, with stage (1), coef, objective (that of the second
        step), free_rows (the features that are not penalised), dual_gap (the larger of the two
        steps'), kkt, unique (whether both are), n_iter and seconds.
    n_stages_ : int
        Number of stages: 1.
    n_iter_ : int
        Number of rounds of the solver, over all stages.
    certificate_ : Certificate
        What is proven about the fit; print it for the answer in words.
    converged_ : bool
        Whether the fit is certified to have come to its end.
    stopping_reason_ : str
        Why the stages ended, in words.
    objective_ : float
        The value of what the second step minimises, loss plus penalty.
    dual_gap_ : float
        Relative duality gap, the larger of the two steps': an upper bound on how far their
        solutions are from optimal.
    row_norms_ : ndarray of shape (d,)
        For every feature the norm of its coefficients over all tasks: the sum over tasks of
        f_ji |w_ji|, with f the penalty factors.
    row_slopes_ : ndarray of shape (d,)
        Ones: the penalty has no cap, which would leave less of it.
    feature_groups_ : ndarray of shape (d,)
        The name of the group of every feature. There is no such attribute if every feature is
        by itself.
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

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import PretrainedMTL
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((120, 6)), np.repeat([0, 1, 2], 40)
    >>> y = 2 * X[:, 0] + np.where(task == 1, 1.5, 0.0) * X[:, 3] + 0.5 * rng.standard_normal(120)
    >>> model = PretrainedMTL(lam=0.02, alpha=0.25).fit(X, y, task=task)
    >>> float(model.coef_common_[0].round(1)), model.coef_.round(1)[:, 3]
    (2.0, array([0.1, 1.4, 0.1]))
    """

    def __init__(
        self,
        lam=None,
        lam_common=None,
        alpha=0.5,
        *,
        offset_folds=5,
        loss="squared",
        epsilon=1.35,
        task_column=None,
        fit_intercept=True,
        standardize=False,
        positive=False,
        penalty_factors=None,
        tol=1e-8,
        max_iter=None,
        unknown_task="error",
        random_state=0,
        n_jobs=None,
        bounds=None,
        feature_groups=None,
        unknown_category="error",
        l1_ratio=1.0,
        intercepts="task",
    ):
        self.lam = lam
        self.lam_common = lam_common
        self.alpha = alpha
        self.offset_folds = offset_folds
        self.loss = loss
        self.epsilon = epsilon
        self.task_column = task_column
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.positive = positive
        self.penalty_factors = penalty_factors
        self.tol = tol
        self.max_iter = max_iter
        self.unknown_task = unknown_task
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.bounds = bounds
        self.feature_groups = feature_groups
        self.unknown_category = unknown_category
        self.l1_ratio = l1_ratio
        self.intercepts = intercepts

    def _check_params(self) -> None:
        super()._check_params()
        check_share("alpha", self.alpha)
        for name in ("lam", "lam_common"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))

    @with_callbacks
    def fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None, offset: Any = None
    ) -> PretrainedMTL:
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
        groups : array-like of shape (N,) or "identical", optional
            Labels of groups: samples of one group (a patient, a speaker) stay in one of the
            folds that offsets come from. "identical": samples with the same features are a
            group.
        offset : array-like of shape (N,) or (N, m), optional
            A known part of the linear predictor, which is offset + b_i + x'w_i; (N, m) beside a
            2-D y. With loss="poisson" the logarithm of an exposure makes a model of rates.
            `predict` then needs the offsets of its samples, too.

        Returns
        -------
        PretrainedMTL
            The fitted model itself.
        """
        self._check_params()
        with one_blas_thread():
            problem = self._make_problem(X, y, task, sample_weight, offset)
            together = None if groups is None else groups_of(groups, problem.data.X)
            lams = None if self.lam_common is None else np.array([float(self.lam_common)])
            folds = OffsetFolds(self.offset_folds, self.random_state, together)
            (first,) = pretrain(problem, lams, folds, **self._limits())
            solution, penalty = self._second(problem, first, float(self.alpha), self.lam)
        self._store(problem, solution, penalty)
        self._keep_parts(first, self.alpha, penalty.lam)
        self._warn(solution, problem)
        return self


def pretrained_coef(model: Any, part: Problem) -> Floats:
    """(m, d): the coefficients at a fitted model's parameters on a part of the rows, `part` holding no others."""
    folds = OffsetFolds(model.offset_folds, model.random_state)
    limits = {"tol": np.inf, "max_iter": model.max_iter or 0}
    (first,) = pretrain(part, np.array([model.lam_common_]), folds, **limits)
    second = second_step(part, first, model.alpha_)
    penalty = ConcaveRows(model.lam_, np.inf, second.factors, l1_ratio=second.l1_ratio, groups=second.groups)
    solution = run_stages(penalty, solver_for(second, penalty, lam=model.lam_), max_stages=1, tol=np.inf)
    return np.asarray(part.within((1.0 - model.alpha_) * first.coef + solution.stages[-1].coef))
