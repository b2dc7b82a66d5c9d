"""ARMUL and rMTFL with their strengths chosen by cross-validation."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._objective.coupled.task_norms import TaskNorms
from ..._objective.problem import Problem
from ..._paths.families.robust_path import ARMUL, RobustGrid, RobustPaths, RobustSurface, deviation_max, robust_grid
from ..._paths.refitted import Refitted
from ..._runtime.checks import check_count
from ..._runtime.progress import Progress, with_callbacks
from ..._solvers.solvers import ROBUST, solver_for, task_norms_for
from ..._solvers.stages import Solution, run_stages
from ..grid_search import GridSearch
from ..streaming import FromMomentsMixin
from .fit import Robust, relaxed_point


class RobustSearch(Robust, GridSearch):
    """A search of the strengths, with any loss."""

    _step = "points"
    _structure = ROBUST

    def _check_params(self) -> None:
        super()._check_params()
        if self.selection not in ("min", "1se"):
            raise ValueError(
                f"selection must be 'min' or '1se', got {self.selection!r}: the degrees of freedom of deviations that tasks "
                "have as a whole or not at all are not known, so that there are no information criteria."
            )
        if isinstance(self.lams, Integral):
            check_count("lams", self.lams)

    def _grid(self, problem: Problem) -> RobustGrid:
        return robust_grid(problem, self.kind, self.lams, self.lam_commons, self.lam_min_ratio)

    def _walker(
        self, problem: Problem, grid: RobustGrid, grams: Any, n_jobs: int | None, progress: Progress
    ) -> RobustPaths:
        return RobustPaths(
            problem,
            grid,
            known=grams,
            max_iter=self.max_iter or 0,
            n_jobs=n_jobs,
            tick=progress.step,
            stop=progress.stop,
        )

    def _columns(self, surface: RobustSurface, problem: Problem) -> dict[str, np.ndarray]:
        return super()._columns(surface, problem) | {"n_outliers": surface.n_outliers}

    def _refit(
        self, problem: Problem, surface: RobustSurface, k: int, l: int, grams: Any
    ) -> tuple[Solution, TaskNorms]:
        penalty = surface.grid.penalty(k, l, problem)
        solver = solver_for(problem, penalty, grams=grams, near=surface.point(k, l))
        solution = run_stages(penalty, solver, max_stages=1, tol=self.tol, max_iter=self.max_iter or 0)
        self.lam_max_ = deviation_max(problem, self.kind, penalty.lam_common, task_norms_for(problem, grams))
        return solution, penalty

    def _refitted(self, problem: Problem, solutions: RobustSurface, grams: Any) -> Refitted:
        solver, known = task_norms_for(problem, grams), dict[bytes, Floats]()
        points = {int(solutions.last[k, l]): (k, l) for k, l in np.argwhere(solutions.reached).tolist()}

        def refit(place: int) -> Floats:
            k, l = points[place]
            penalty, P = solutions.grid.penalty(k, l, problem), solutions.point(k, l)
            key = (penalty.deviation_norms(P[-problem.m :]) > 0.0).tobytes() + np.float64(penalty.lam_common).tobytes()
            if key not in known:
                known[key] = penalty.coefs(relaxed_point(solver, P, penalty))
            return known[key]

        return Refitted.of(solutions, refit)

    def _ends_by_chance(self) -> bool:
        return self.kind != ARMUL and super()._ends_by_chance()  # ARMUL's ends are one model for all, and one for each

    def _fit_point(self, problem: Problem, grid: Any, splits: list[Any], scorer: Any) -> None:
        """Choose a point, and set the attributes of a fit there."""
        fitted = self._fit_grid(problem, grid, splits, scorer)
        self.lam_deviations_ = self.surface_.grid.lam_deviation
        self.lam_commons_ = self.surface_.grid.lam_common
        self._warn(*fitted)


class RobustMTLCV(RobustSearch, FromMomentsMixin):
    """RobustMTL with its strengths chosen by cross-validation.

    The grid of strengths is solved on every training fold; the model is then fitted to all data at the
    point that was chosen. With kind="armul" the grid begins with one model for all tasks and ends next to
    one for each.

    Parameters
    ----------
    lams : int or array-like of shape (K,), default=30
        How many values of lam the grid has, geometrically spaced from `lam_max_` down to
        `lam_min_ratio` times that; or the values themselves, in any order.
    kind : {"armul", "rmtfl"}, default="armul"
        What the tasks have in common: a centre, or the features in use.
    lam_commons : array-like of shape (L,), optional
        With kind="armul" ridges on the centre: by default 0, or, if there are not more than two
        samples for every feature, 0.001, 0.01, 0.1 and 1 times the mean over features of the
        sum of squares of a column over all tasks. With kind="rmtfl" ratios of lam_deviation to
        lam_common, in units of sqrt(d / m), of which inf is L1,2: by default 0.5, 1, 2 and inf.
    lam_min_ratio : float, optional
        The smallest lam of the grid over the largest. By default 1e-3, or 1e-4 if every
        task has more samples than features.
    cv : int, splitter or iterable of (train, test), default=5
        The folds. A number means that many folds stratified by task (:class:`TaskKFold`);
        with a 2-D y a sample is held out in all tasks at once. Every training fold needs
        samples of every task, but with :class:`LeaveTasksOut`, which holds out whole tasks as
        new ones.
    scoring : {"neg_nmse", "neg_amse", "neg_mse", "neg_deviance"}, scorer name or callable, default="neg_nmse"
        What is compared; greater is better. "neg_nmse", "neg_amse" and "neg_mse" are minus
        a task's held-out squared error over the variance of its targets, over their mean
        square, and as it is, averaged over tasks with the weights of the samples held out.
        "neg_deviance" is minus the loss itself; with loss="huber" it keeps outliers that
        are held out from deciding. Anything else is a scorer of scikit-learn. With
        loss="cox" held-out deviances are all that is compared: what the samples held out add
        to that of the training samples (Verweij and van Houwelingen).
    selection : {"min", "1se", "aic", "bic", "ebic"}, default="min"
        How the point of the grid is chosen. "min": the best mean score. "1se": the simplest
        model within one standard error of it (the fewest features, then the fewest
        coefficients, then the largest lam). The others are information criteria, which need
        no folds. "aic" and "bic" charge for degrees of freedom, which are known where the
        penalty is convex: so they compare the points without a cap, and are NaN at the
        others. "ebic" charges for the search as well, and compares all points.
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
    random_state : int, RandomState instance or None, default=0
        The source of randomness that deals out the samples when `cv` is a number.
    n_jobs : int, optional
        Number of threads, which work on folds side by side. The result is the same to
        rounding. With squared errors and fewer than 256 features a search stays on one thread,
        where it is faster.
    memory_budget : float, optional
        Bytes that Gram matrices may take; by default 1 GiB.
    verbose : bool, default=False
        Whether to show a progress bar.
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
    concordance_ : ndarray of shape (m,)
        With loss="cox" only: of every task the share of pairs of samples that the same fold
        held out whose order in time is predicted (Harrell's C-index); NaN where there are none.
    scale_ : ndarray of shape (m,)
        With loss="huber" only: robust estimates of the standard deviation of the tasks'
        noise; a float if the model was fitted without tasks. They come from a fit of their
        own, before lam and theta play a part, and are then held fixed: the problem that is
        solved, and that the certificate is about, has this loss. See
        :mod:`msmtfl._solvers.problems.residual_scale`.
    lam_deviation_ : float
        The strength of the penalty on deviations that was chosen.
    lam_common_ : float
        The strength of the penalty on what is common that was chosen.
    lam_max_ : float
        The smallest strength of the penalty at which all coefficients are 0.
    outlier_tasks_ : ndarray
        Labels of the tasks that deviate: those whose deviation is not 0 in a feature that is
        penalised.
    lam_deviations_ : ndarray of shape (K, L)
        The values of lam_deviation of the grid.
    lam_commons_ : ndarray of shape (K, L)
        The values of lam_common of the grid.
    best_point_ : tuple of int
        The place (k, l) of the choice in the grid.
    best_index_ : int
        The place of the choice in `cv_results_`.
    best_score_ : float
        The mean score of the choice (with an information criterion minus its value). It is
        the best of many on the same folds, so it is no estimate of the score on new data.
    cross_fitted_score_ : float
        An estimate of the score on new data: the mean score of the folds, each at the point
        that the other folds choose.
    n_splits_ : int
        Number of folds; 0 with an information criterion.
    held_out_ : HeldOutScores
        What `predict_interval` is made of: the errors of samples that folds held out, and
        the coefficients without each fold. Only where samples were given and folds decide.
    cv_results_ : dict of arrays
        One entry per point of the grid, lam outermost, ready for a table: lam, theta,
        theta_ratio, n_rows (features used in any task), n_entries (coefficients that are
        not 0), n_stages, eligible, mean_test_score, std_test_score, se_test_score,
        rank_test_score, split0_test_score, ...; test_mse (test_deviance, if that is the
        scoring) and test_weight hold an array (folds, m) per point. Without folds the
        criterion stands in place of scores, NaN where it is not known. A point is
        `eligible`, and has scores, where every fold and all data were solved just as
        :class:`MSMTFL` solves them. A search stops short of stages that would leave more
        features un-penalised than most tasks have independent samples: such points have NaN
        and are not chosen.
    surface_ : Surface
        The solutions at all points of the grid, on all data; ``surface_.coef(k, l)`` has
        the coefficients of one.
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

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import RobustMTLCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((200, 3)), np.repeat(["a", "b", "c", "d", "odd"], 40)
    >>> slopes = np.where(task == "odd", -1.0, 1.0)[:, None] * np.array([1.0, -2.0, 0.5])
    >>> y = (X * slopes).sum(axis=1) + rng.standard_normal(200)
    >>> model = RobustMTLCV(relax=True).fit(X, y, task=task)
    >>> "odd" in model.outlier_tasks_, bool(model.best_score_ > -0.3)
    (True, True)
    """

    def __init__(
        self,
        lams=30,
        *,
        kind="armul",
        lam_commons=None,
        lam_min_ratio=None,
        cv=5,
        scoring="neg_nmse",
        selection="min",
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
        random_state=0,
        n_jobs=None,
        memory_budget=None,
        verbose=False,
        intercepts="task",
        bounds=None,
        feature_groups=None,
        unknown_category="error",
    ):
        self.lams = lams
        self.kind = kind
        self.lam_commons = lam_commons
        self.lam_min_ratio = lam_min_ratio
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
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
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_budget = memory_budget
        self.verbose = verbose
        self.intercepts = intercepts
        self.bounds = bounds
        self.feature_groups = feature_groups
        self.unknown_category = unknown_category

    @with_callbacks
    def fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None, offset: Any = None
    ) -> RobustMTLCV:
        """Choose the strengths, and fit the model to all samples with them.

        Held-out errors use the weights of the samples, too.

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
            Labels of groups: samples of one group (a patient, a speaker) stay in one fold.
            "identical": samples with the same features are a group.
        offset : array-like of shape (N,) or (N, m), optional
            A known part of the linear predictor, which is offset + b_i + x'w_i; (N, m) beside a
            2-D y. With loss="poisson" the logarithm of an exposure makes a model of rates.
            `predict` then needs the offsets of its samples, too.

        Returns
        -------
        RobustMTLCV
            The fitted model itself.
        """
        self._fit_point(*self._search_problem(X, y, task, sample_weight, groups, offset))
        return self
