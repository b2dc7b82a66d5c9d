"""The pretrained lasso with its strengths chosen by cross-validation or an information criterion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..._objective.penalties import ConcaveRows
from ..._objective.problem import Problem
from ..._paths.families.pretrained_path import (
    ALPHAS,
    PretrainedGrid,
    PretrainedPaths,
    PretrainedSurface,
    pretrained_grid,
)
from ..._paths.families.pretraining import OffsetFolds
from ..._runtime.progress import Progress, with_callbacks
from ..._solvers.gram import BUDGET
from ..._solvers.stages import Solution
from ..grid_search import GridSearch
from .fit import Pretrained


class PretrainedMTLCV(Pretrained, GridSearch):
    """PretrainedMTL with alpha and lam chosen by cross-validation.

    The grid has a path of lam for every alpha. On every training fold both steps are fitted anew, the strength of the
    first step (unless `lam_commons` are given) and its offsets by folds within the training fold: so a point is scored
    as a fit would be, and no sample that is held out has a part in it. The model is then fitted to all data at the
    point that was chosen.

    Parameters
    ----------
    lams : int or array-like of shape (K,), default=30
        How many values of lam the grid has, geometrically spaced from the smallest at which
        separate lassos are 0 down to `lam_min_ratio` times that; or the values themselves, in
        any order.
    alphas : array-like of numbers from 0 to 1, optional
        Values of alpha: how much of a task is left to itself; see :class:`PretrainedMTL`. By
        default 0, 0.25, 0.5, 0.75 and 1.
    lam_commons : float or array-like, optional
        Strengths of the penalty of the first step to try, each with every alpha. By default
        every training set chooses its own, by the folds that offsets come from.
    offset_folds : int, default=5
        Number of folds, stratified by task, that the offsets of the second step come from:
        what the first step predicts of a sample, without having seen the sample's fold.
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
    selection : {"min", "1se"}, default="min"
        How the point of the grid is chosen. "min": the best mean score. "1se": the simplest
        model within one standard error of it (the fewest features, then the fewest
        coefficients, then the largest lam). There are no information criteria, as it is not
        known what two steps cost in degrees of freedom.
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
        The source of randomness that deals out the samples to folds, when `cv` is a number
        and for the folds that offsets come from.
    n_jobs : int, optional
        Number of threads, which work on folds side by side. The result is the same to
        rounding. With squared errors and fewer than 256 features a search stays on one thread,
        where it is faster.
    memory_budget : float, optional
        Bytes that Gram matrices may take; by default 1 GiB.
    verbose : bool, default=False
        Whether to show a progress bar.
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
    l1_ratio : float or list of floats, default=1
        The share of both steps' penalties that is as above, as in scikit-learn's ElasticNet;
        the rest of each is a ridge of its strength: in the first step (1 - l1_ratio) lam_common
        / 2 times the sum of b_j^2, in the second (1 - l1_ratio) lam / 2 times the sum of
        (f_ji w_ji)^2. By default there is none. With 0 there is nothing else: the first step
        then uses every feature. Of several values, which share folds, the one with the best
        score is taken: `l1_ratio_`.
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
        The alpha that was chosen.
    lam_common_ : float
        The strength of the penalty of the first step that was used.
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
    l1_ratio_ : float
        The value of l1_ratio that the model was fitted with.
    l1_ratio_scores_ : ndarray of shape (n_ratios,)
        With several values of l1_ratio: the best mean score at each (of a criterion: minus
        its least value). `cv_results_` and `surface_` are those of `l1_ratio_`.
    lams_ : ndarray of shape (K,)
        The values of lam of the grid.
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
        One entry per point of the grid, lam outermost, ready for a table: lam, alpha,
        lam_common (that of all data), n_rows (features used in any task), n_entries
        (coefficients that are not 0), eligible, mean_test_score, std_test_score, se_test_score,
        rank_test_score, split0_test_score, ...; test_mse (test_deviance, if that is the
        scoring) and test_weight hold an array (folds, m) per point. Points beyond where the
        errors of an alpha have turned are not solved: they have NaN, and are not `eligible`.
    surface_ : surface
        The solutions at all points of the grid, on all data; ``surface_.coef(k, l)`` has
        the coefficients of one.
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
    >>> from msmtfl import PretrainedMTLCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((120, 6)), np.repeat([0, 1, 2], 40)
    >>> y = 2 * X[:, 0] + np.where(task == 1, 1.5, 0.0) * X[:, 3] + 0.5 * rng.standard_normal(120)
    >>> model = PretrainedMTLCV(lams=10).fit(X, y, task=task)
    >>> model.coef_.round(1)[:, 0], len(model.cv_results_["alpha"])
    (array([2.2, 2. , 1.9]), 50)
    """

    def __init__(
        self,
        lams=30,
        *,
        alphas=None,
        lam_commons=None,
        offset_folds=5,
        lam_min_ratio=None,
        cv=5,
        scoring="neg_nmse",
        selection="min",
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
        memory_budget=None,
        verbose=False,
        bounds=None,
        feature_groups=None,
        unknown_category="error",
        l1_ratio=1.0,
        intercepts="task",
    ):
        self.lams = lams
        self.alphas = alphas
        self.lam_commons = lam_commons
        self.offset_folds = offset_folds
        self.lam_min_ratio = lam_min_ratio
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
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
        self.memory_budget = memory_budget
        self.verbose = verbose
        self.bounds = bounds
        self.feature_groups = feature_groups
        self.unknown_category = unknown_category
        self.l1_ratio = l1_ratio
        self.intercepts = intercepts

    def _check_params(self) -> None:
        super()._check_params()
        if self.selection not in ("min", "1se"):
            raise ValueError(
                f"selection must be 'min' or '1se', got {self.selection!r}: what two steps cost in degrees of freedom is "
                "not known, so that there are no information criteria."
            )

    def _search_problem(
        self, X: Any, y: Any, task: Any, sample_weight: Any, groups: Any, offset: Any = None
    ) -> tuple[Problem, Any, list[Any], Any]:
        problem, grid, splits, scorer = super()._search_problem(X, y, task, sample_weight, groups, offset)
        together = splits[0].groups
        return problem, replace(grid, folds=replace(grid.folds, groups=together)), splits, scorer

    def _grid(self, problem: Problem) -> PretrainedGrid:
        folds = OffsetFolds(self.offset_folds, self.random_state)
        alphas = ALPHAS if self.alphas is None else self.alphas
        return pretrained_grid(problem, self.lams, alphas, self.lam_commons, self.lam_min_ratio, folds)

    def _same_grid(self, grid: PretrainedGrid) -> PretrainedGrid:
        return replace(grid, folds=self.surface_.grid.folds)

    def _caches(self, problem: Problem, **options: Any) -> None:
        """Every second step has its own."""

    def _wants_whole(self, problem: Problem) -> bool:
        return False  # nothing is taken over from all data

    def _walker(
        self, problem: Problem, grid: PretrainedGrid, grams: Any, n_jobs: int | None, progress: Progress
    ) -> PretrainedPaths:
        return PretrainedPaths(
            problem,
            grid,
            budget=(self.memory_budget or BUDGET) / (6 * grid.shape[1]),
            n_jobs=n_jobs,
            tick=progress.step,
            stop=progress.stop,
            **self._limits(),
        )

    def _refit(
        self, problem: Problem, surface: PretrainedSurface, k: int, l: int, grams: Any
    ) -> tuple[Solution, ConcaveRows]:
        first, alpha = surface.firsts[l], float(surface.grid.alphas[l])
        near = surface.coef(k, l) - (1.0 - alpha) * first.coef
        return self._second(problem, first, alpha, float(surface.grid.lams[k]), near)

    @with_callbacks
    def fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None, offset: Any = None
    ) -> PretrainedMTLCV:
        """Choose alpha and lam, and fit the model to all samples with them.

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
        PretrainedMTLCV
            The fitted model itself.
        """
        fitted = self._fit(X, y, task, sample_weight, groups, offset)
        grid, (k, l) = self.surface_.grid, self.best_point_
        self.lams_ = grid.lams
        self._keep_parts(self.surface_.firsts[l], float(grid.alphas[l]), float(grid.lams[k]))
        self._warn(*fitted)
        return self
