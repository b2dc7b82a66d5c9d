"""Common values and sparse deviations for classes; with and without search."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._data.designs import Floats
from ..classification.class_scores import LOG_LOSS
from ..classification.classifier import ClassifierFit, ClassifierSearch
from .fit import SharedFit
from .search import SharedSearch


class SharedMTLClassifier(ClassifierFit, SharedFit):
    r"""Values common to all tasks and sparse deviations from them, for classes: logistic regressions.

    .. math::
        \min_{W, a} \sum_{i=1}^m \frac{2}{m n_i} \sum_r [\log(1 + e^{f_r}) - y_r f_r]
               + \lambda_c \sum_{j=1}^d |b_j| + \lambda_d \sum_{j=1}^d \min(\|v^j\|_1, \theta),
               \qquad f_r = x_r' w_i + a_i, \quad w_i = b + v_i

    Common values and sparse deviations (:class:`SharedMTL`) with the deviance in place of the squared
    error, for y 0 or 1. It is solved by Newton steps around the solver of the squared error, and
    certified. With K > 2 classes each is told from the rest, and the tasks have values in common for
    each of them: `coef_common_` is (K, d) then, and the loss and both penalties are sums over classes
    (of which the loss takes the mean).

    Parameters
    ----------
    lam_common : float, optional
        Strength of the penalty on the common values; it may be inf. By default sqrt(m) times
        lam_deviation, at which noise has the same chance in both.
    lam_deviation : float, optional
        Strength of the penalty on the deviations; it may be inf, if lam_common is not. By default
        lam_common / sqrt(m); if neither is given both are 0.1 times what leaves all coefficients at 0, a
        value to start from, not a choice, which keeps much of pure noise. :class:`SharedMTLClassifierCV` chooses by
        cross-validation.
    theta : float, default=inf
        Norm of a feature's deviations from which they are free.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    max_stages : int, default=10
        The largest number of stages. With theta = inf there is one.
    class_weight : dict {class: weight} or "balanced", optional
        Weights of the classes, which multiply the weights of the samples. "balanced": in
        every task all classes weigh the same, n_i in all.
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
        Whether to refit with the loss alone on the support of the common values and
        deviations that were found, so that none of them is shrunk. `stages_` and the
        certificate stay those of the penalised solution.
    tol : float, default=1e-8
        The relative duality gap that the solution must have to count as certified. 1e-10
        and less is usual.
    max_iter : int, optional
        Limit on the Newton steps of a stage's solver; by default the solver's own.
    warm_start : bool, default=False
        Whether to start from the coefficients of the last fit, if its tasks and features
        are the same: the fit goes on with its stages.
    unknown_task : {"error", "mean"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error,
        or predict with the mean coefficients of the known tasks, and warn.
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
    classes_ : ndarray of shape (2,)
        The classes, sorted.
    coef_ : ndarray of shape (m, d)
        Coefficients of the log-odds of the second class, the common values plus the task's
        deviations; (d,) if the model was fitted without tasks.
    coef_common_ : ndarray of shape (d,)
        The common values b.
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
        Share of the second class in the training samples of every task.
    target_sd_ : ndarray of shape (m,)
        Standard deviation of the 0/1 indicator of that class.
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
        Number of Newton steps of the solver, over all stages.
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
    >>> from msmtfl import SharedMTLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((200, 4)), np.repeat([0, 1], 100)
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(200) > 0, "ill", "well")
    >>> model = SharedMTLClassifier().fit(X, y, task=task)
    >>> model.classes_.tolist(), model.score(X, y, task=task) > 0.8
    (['ill', 'well'], True)
    """

    def __init__(
        self,
        lam_common=None,
        lam_deviation=None,
        theta=np.inf,
        *,
        task_column=None,
        max_stages=10,
        class_weight=None,
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
        self.class_weight = class_weight
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

    def _note_parts(self, arrange: Callable[[Floats], Floats]) -> None:
        self.coef_deviation_ = arrange(self.coef_deviation_)


class SharedMTLClassifierCV(ClassifierSearch, SharedSearch):
    """SharedMTLClassifier with its strengths chosen by cross-validation.

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
        The folds. A number means that many folds stratified by task and class. Every
        training fold needs samples of every class of every task.
    scoring : scorer name or callable, default="neg_log_loss"
        What is compared on the samples held out, all tasks together; greater is better:
        "neg_log_loss", "accuracy", "roc_auc" ("roc_auc_ovr" with more than two classes) or
        any scorer of scikit-learn. With a 2-D y only "neg_log_loss". Held-out log-losses
        use the class weights, too.
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
    class_weight : dict {class: weight} or "balanced", optional
        Weights of the classes, which multiply the weights of the samples. "balanced": in
        every task all classes weigh the same, n_i in all.
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
        Whether to refit with the loss alone on the support of the common values and
        deviations that were found, so that none of them is shrunk. `stages_` and the
        certificate stay those of the penalised solution.
    tol : float, default=1e-8
        The relative duality gap that the solution must have to count as certified. 1e-10
        and less is usual.
    max_iter : int, optional
        Limit on the Newton steps of a stage's solver; by default the solver's own.
    unknown_task : {"error", "mean"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error,
        or predict with the mean coefficients of the known tasks, and warn.
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
        The share of the penalty that is as above, as in scikit-learn's ElasticNet; the rest
        is a ridge, (1 - l1_ratio) lam / 2 times the sum of (f_ji w_ji)^2, which no threshold
        caps; theta is counted in units of m l1_ratio lam / rho_bar. By default there is none;
        with 0 there is nothing else. Of several values, which share folds and Gram matrices,
        the one with the best score is taken: `l1_ratio_`.
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
    classes_ : ndarray of shape (2,)
        The classes, sorted.
    coef_ : ndarray of shape (m, d)
        Coefficients of the log-odds of the second class, the common values plus the task's
        deviations; (d,) if the model was fitted without tasks.
    coef_common_ : ndarray of shape (d,)
        The common values b.
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
        Share of the second class in the training samples of every task.
    target_sd_ : ndarray of shape (m,)
        Standard deviation of the 0/1 indicator of that class.
    lam_common_ : float
        The strength of the penalty on the common values that was chosen.
    lam_deviation_ : float
        The strength of the penalty on the deviations that was chosen.
    theta_ : float
        The norm that was used: from it a feature's deviations are free.
    lam_max_ : float
        The smallest strength of the penalty at which all coefficients are 0.
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
        Number of Newton steps of the solver, over all stages.
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
    >>> from msmtfl import SharedMTLClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((200, 4)), np.repeat([0, 1], 100)
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(200) > 0, "ill", "well")
    >>> model = SharedMTLClassifierCV(lams=10, cv=3).fit(X, y, task=task)
    >>> model.classes_.tolist(), model.score(X, y, task=task) > 0.8
    (['ill', 'well'], True)
    """

    def __init__(
        self,
        lams=20,
        *,
        ratios=None,
        theta_ratios=None,
        lam_min_ratio=None,
        cv=5,
        scoring=LOG_LOSS,
        selection="min",
        task_column=None,
        max_stages=10,
        class_weight=None,
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
        self.class_weight = class_weight
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

    def _note_parts(self, arrange: Callable[[Floats], Floats]) -> None:
        self.coef_deviation_ = arrange(self.coef_deviation_)
