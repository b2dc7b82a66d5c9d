"""Common values and sparse deviations with their strengths chosen by cross-validation or an information criterion."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._objective.coupled.common_penalty import CappedDeviations
from ..._objective.problem import Problem
from ..._paths.families.common_path import SharedGrid, SharedPaths, SharedSurface, shared_grid
from ..._paths.refitted import Refitted
from ..._runtime.checks import check_count
from ..._runtime.progress import Progress, with_callbacks
from ..._solvers.solvers import COMMON, common_for, solver_for
from ..._solvers.stages import Solution
from ..grid_search import GridSearch
from ..streaming import FromMomentsMixin
from .fit import Sharing, relaxed_point


class SharedSearch(Sharing, GridSearch):
    """A search of the strengths, with any loss."""

    _structure = COMMON

    def _check_params(self) -> None:
        super()._check_params()
        check_count("max_stages", self.max_stages)

    def _grid(self, problem: Problem) -> SharedGrid:
        return shared_grid(problem, self.lams, self.ratios, self.theta_ratios, self.lam_min_ratio)

    def _walker(
        self, problem: Problem, grid: SharedGrid, grams: Any, n_jobs: int | None, progress: Progress
    ) -> SharedPaths:
        return SharedPaths(
            problem,
            grid,
            max_stages=self.max_stages,
            tol=self.tol,
            max_iter=self.max_iter or 0,
            n_jobs=n_jobs,
            grams=grams,
            tick=progress.step,
            stop=progress.stop,
        )

    def _refitted(self, problem: Problem, solutions: SharedSurface, grams: Any) -> Refitted:
        lassos = common_for(problem, grams)

        def refit(place: int) -> Floats:
            P = relaxed_point(problem, solutions.point_at(place), lassos)
            return np.asarray(grams.stacked.sums(P))

        return Refitted.of(solutions, refit)

    def _columns(self, surface: SharedSurface, problem: Problem) -> dict[str, np.ndarray]:
        ratios = np.broadcast_to(np.array(surface.grid.columns).T[:, None], (2, *surface.grid.shape))
        names = dict(zip(("ratio", "theta_ratio"), ratios, strict=True))
        return {**surface.parameters} | names | super()._columns(surface, problem) | {"n_stages": surface.n_stages}

    def _refit(
        self, problem: Problem, surface: SharedSurface, k: int, l: int, grams: Any
    ) -> tuple[Solution, CappedDeviations]:
        penalty = surface.grid.penalty(k, l, problem)
        solver = solver_for(problem, penalty, grams=grams, n_jobs=self.n_jobs, near=surface.point(k, l))
        return self._stages_again(surface, k, l, penalty, solver, self.max_stages), penalty

    def _fit_point(self, problem: Problem, grid: Any, splits: list[Any], scorer: Any) -> None:
        """Choose a point, and set the attributes of a fit there."""
        fitted = self._fit_grid(problem, grid, splits, scorer)
        self.thetas_ = self.surface_.parameters["theta"]
        self._warn(*fitted)


class SharedMTLCV(SharedSearch, FromMomentsMixin):
    """SharedMTL with its strengths and theta chosen by cross-validation.

    The grid has all combinations of lam, ratio and theta; pooled and separate models are among them. All
    folds use the same values, taken from all data. The model is then fitted to all data at the point that
    was chosen. With `relax` every point is refitted on every fold, and scored so; an information criterion
    judges the models as penalised.

    Parameters
    ----------
    lams : int or array-like of shape (K,), default=20
        How many values of lam, the smaller of lam_common / sqrt(m) and lam_deviation, the
        grid has, for each ratio geometrically spaced from the smallest at which all
        coefficients are 0 down to `lam_min_ratio` times that; or the values themselves.
    ratios : array-like of shape (R,), optional
        Values of lam_common / lam_deviation in units of sqrt(m); by default 0 (the pooled lasso:
        lam_deviation = inf), 0.2, 0.5, 1, 2 and inf (no common part). From sqrt(m) on they are all as inf,
        and one of them is kept.
    theta_ratios : array-like of shape (T,), optional
        Values of theta in units of m lam_deviation / rho_bar, with rho_bar the mean square
        of the columns; by default max(4, m / 4) and inf.
    lam_min_ratio : float, optional
        The smallest lam of the grid over the largest. By default 1e-2, or 1e-3 if every
        task has more samples than features, times the ratio if that is less than 1 (but no
        less than a tenth).
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
    l1_ratio : float or list of floats, default=1
        The share of the penalties that is as above; the rest are ridges, (1 - l1_ratio) / 2
        times lam_common on squares of common values, and times lam_deviation on squares of
        deviations. By default there are none. Of several values, which share folds and Gram
        matrices, the one with the best score is taken: `l1_ratio_`.
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
    concordance_ : ndarray of shape (m,)
        With loss="cox" only: of every task the share of pairs of samples that the same fold
        held out whose order in time is predicted (Harrell's C-index); NaN where there are none.
    scale_ : ndarray of shape (m,)
        With loss="huber" only: robust estimates of the standard deviation of the tasks'
        noise; a float if the model was fitted without tasks. They come from a fit of their
        own, before lam and theta play a part, and are then held fixed: the problem that is
        solved, and that the certificate is about, has this loss. See
        :mod:`msmtfl._solvers.problems.residual_scale`.
    lam_common_ : float
        The strength of the penalty on the common values that was chosen.
    lam_deviation_ : float
        The strength of the penalty on the deviations that was chosen.
    theta_ : float
        The norm that was used: from it a feature's deviations are free.
    lam_max_ : float
        The smallest lam_common at which all coefficients are 0, at this ratio of the two
        strengths (the smallest lam_deviation where lam_common is inf).
    thetas_ : ndarray of shape (K, L)
        The values of theta of the grid, whose columns are pairs of ratio and theta_ratio.
    l1_ratio_ : float
        The value of l1_ratio that the model was fitted with.
    l1_ratio_scores_ : ndarray of shape (n_ratios,)
        With several values of l1_ratio: the best mean score at each (of a criterion: minus
        its least value). `cv_results_` and `surface_` are those of `l1_ratio_`.
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
        One entry per point of the grid, lam outermost, ready for a table: lam_common,
        lam_deviation, theta, ratio, theta_ratio, n_rows (features used in any task),
        n_entries (common values and deviations that are not 0), n_stages, eligible,
        mean_test_score, std_test_score, se_test_score, rank_test_score, split0_test_score,
        ...; test_mse and test_weight hold an array (folds, m) per point. Without folds the
        criterion stands in place of scores, NaN where it is not known. A search does not go
        on to later stages where the first has more than 200 coefficients, and more than one
        for every six samples; with a common part and twice as many coefficients the path
        ends. Such points are not `eligible`: they have NaN in place of a score, and are not
        chosen.
    surface_ : surface
        The solutions at all points of the grid, on all data; ``surface_.coef(k, l)`` has
        the coefficients of one, ``surface_.coef_common(k, l)`` the common values.
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

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import SharedMTLCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 20)), np.repeat([0, 1, 2], 30)
    >>> y = 2 * X[:, 0] + np.where(task == 1, X[:, 5], 0) + 0.1 * rng.standard_normal(90)
    >>> model = SharedMTLCV(selection="1se").fit(X, y, task=task)
    >>> np.flatnonzero(model.coef_common_), [np.flatnonzero(v.round(1)).tolist() for v in model.coef_deviation_]
    (array([0]), [[], [5], []])
    """

    def __init__(
        self,
        lams=20,
        *,
        ratios=None,
        theta_ratios=None,
        lam_min_ratio=None,
        cv=5,
        scoring="neg_nmse",
        selection="min",
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
        unknown_task="error",
        random_state=0,
        n_jobs=None,
        memory_budget=None,
        verbose=False,
        l1_ratio=1.0,
        intercepts="task",
        bounds=None,
        feature_groups=None,
        unknown_category="error",
    ):
        self.lams = lams
        self.ratios = ratios
        self.theta_ratios = theta_ratios
        self.lam_min_ratio = lam_min_ratio
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
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
        self.unknown_task = unknown_task
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_budget = memory_budget
        self.verbose = verbose
        self.l1_ratio = l1_ratio
        self.intercepts = intercepts
        self.bounds = bounds
        self.feature_groups = feature_groups
        self.unknown_category = unknown_category

    @with_callbacks
    def fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None, offset: Any = None
    ) -> SharedMTLCV:
        """Choose the strengths and theta, and fit the model to all samples with them.

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
        SharedMTLCV
            The fitted model itself.
        """
        self._fit_point(*self._search_problem(X, y, task, sample_weight, groups, offset))
        return self
