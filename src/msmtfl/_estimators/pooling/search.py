"""Partial pooling with its strengths chosen by cross-validation or an information criterion."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from ..._objective.coupled.pooling import PoolingRidge
from ..._objective.problem import Problem
from ..._paths.families.pooling_path import PoolingGrid, PoolingPaths, PoolingSurface, pooling_grid
from ..._runtime.checks import check_count
from ..._runtime.progress import Progress, with_callbacks
from ..._solvers.solvers import POOLING, solver_for
from ..._solvers.stages import Solution, run_stages
from ..grid_search import GridSearch
from ..streaming import FromMomentsMixin
from .fit import Pooled


class PoolingSearch(Pooled, GridSearch):
    """A search of the strengths, with any loss."""

    _structure = POOLING

    _ends_early = False  # all points cost about as much as a few

    def _check_params(self) -> None:
        super()._check_params()
        if isinstance(self.ks, Integral):
            check_count("ks", self.ks)

    def _grid(self, problem: Problem) -> PoolingGrid:
        return pooling_grid(problem, self.ks, self.k_commons)

    def _ends_by_chance(self) -> bool:
        return False  # the ends of the grid are one model for all tasks, and one for each

    def _walker(
        self, problem: Problem, grid: PoolingGrid, grams: Any, n_jobs: int | None, progress: Progress
    ) -> PoolingPaths:
        return PoolingPaths(problem, grid, grams, progress.step)

    def _refit(
        self, problem: Problem, surface: PoolingSurface, k: int, l: int, grams: Any
    ) -> tuple[Solution, PoolingRidge]:
        penalty = surface.grid.penalty(k, l, problem)
        return run_stages(penalty, solver_for(problem, penalty, grams=grams), max_stages=1, tol=self.tol), penalty

    def _fit_point(self, problem: Problem, grid: Any, splits: list[Any], scorer: Any) -> None:
        """Choose a point, and set the attributes of a fit there."""
        fitted = self._fit_grid(problem, grid, splits, scorer)
        self.ks_, self.k_commons_ = self.surface_.grid.k[:, 0], self.surface_.grid.k_common[0]
        self._warn(*fitted)


class PartialPoolingCV(PoolingSearch, FromMomentsMixin):
    """PartialPooling with its strengths chosen by cross-validation.

    The grid has all pairs of k and k_common, from one model for all tasks to one ridge regression for
    each. One factor per task and fold serves all of them, so that the search costs little. All folds use
    the same values, taken from all data. The model is then fitted to all data at the point that was chosen.

    Parameters
    ----------
    ks : int or array-like of shape (K,), default=10
        How many values of k the grid has, geometrically spaced from 1e3 to 1e-4 times the
        mean over features and tasks of a column's sum of squares (over its squared penalty
        factor); or the values themselves, in any order.
    k_commons : array-like of shape (L,), optional
        Values of k_common. By default 0 (if there are more than two samples for every
        feature), 0.001, 0.01, 0.1 and 1 times the mean over features of the sum of squares
        of a column over all tasks, and inf (no common part).
    cv : int, splitter or iterable of (train, test), default=5
        The folds. A number means that many folds stratified by task (:class:`TaskKFold`);
        with a 2-D y a sample is held out in all tasks at once. Every training fold needs
        samples of every task.
    scoring : {"neg_nmse", "neg_amse", "neg_mse", "neg_deviance"}, scorer name or callable, default="neg_nmse"
        What is compared; greater is better. "neg_nmse", "neg_amse" and "neg_mse" are minus
        a task's held-out squared error over the variance of its targets, over their mean
        square, and as it is, averaged over tasks with the weights of the samples held out.
        "neg_deviance" is minus the loss itself; with loss="huber" it keeps outliers that
        are held out from deciding. Anything else is a scorer of scikit-learn.
    selection : {"min", "1se", "aic", "bic", "ebic"}, default="min"
        How the point of the grid is chosen. "min": the best mean score. "1se": the largest k
        within one standard error of it. The others are information criteria, which need no
        folds and charge for degrees of freedom (the trace of what makes fitted values of
        targets).
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
    concordance_ : ndarray of shape (m,)
        With loss="cox" only: of every task the share of pairs of samples that the same fold
        held out whose order in time is predicted (Harrell's C-index); NaN where there are none.
    scale_ : ndarray of shape (m,)
        With loss="huber" only: robust estimates of the standard deviation of the tasks'
        noise; a float if the model was fitted without tasks. They come from a fit of their
        own, before lam and theta play a part, and are then held fixed: the problem that is
        solved, and that the certificate is about, has this loss. See
        :mod:`msmtfl._solvers.problems.residual_scale`.
    k_ : float
        The strength of the ridge on the deviations that was chosen; it may be inf.
    k_common_ : float
        The strength of the ridge on the common values that was chosen.
    ks_ : ndarray of shape (K,)
        The values of k of the grid, the largest first.
    k_commons_ : ndarray of shape (L,)
        The values of k_common of the grid.
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
        One entry per point of the grid, k outermost, ready for a table: k, k_common, n_rows
        (features used in any task), n_entries (coefficients that are not 0), eligible,
        mean_test_score, std_test_score, se_test_score, rank_test_score, split0_test_score,
        ...; test_mse and test_weight hold an array (folds, m) per point. Without folds the
        criterion stands in place of scores.
    surface_ : surface
        The solutions at all points of the grid, on all data; ``surface_.coef(k, l)`` has
        the coefficients of one, ``surface_.coef_common(k, l)`` the common values.
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

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import PartialPoolingCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((120, 3)), np.repeat([0, 1, 2, 3], 30)
    >>> slopes = np.array([1.0, -2.0, 0.5]) + 0.3 * rng.standard_normal((4, 3))
    >>> y = (X * np.repeat(slopes, 30, axis=0)).sum(axis=1) + rng.standard_normal(120)
    >>> model = PartialPoolingCV().fit(X, y, task=task)
    >>> model.coef_common_.round(1), len(model.cv_results_["k"])
    (array([ 1. , -2. ,  0.4]), 60)
    """

    def __init__(
        self,
        ks=10,
        *,
        k_commons=None,
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
        tol=1e-8,
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
        self.ks = ks
        self.k_commons = k_commons
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
        self.tol = tol
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
    ) -> PartialPoolingCV:
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
        PartialPoolingCV
            The fitted model itself.
        """
        self._fit_point(*self._search_problem(X, y, task, sample_weight, groups, offset))
        return self
