"""L1,2 for classes; with and without search."""

from __future__ import annotations

import numpy as np

from ..classification.class_scores import LOG_LOSS
from ..classification.classifier import ClassifierFit, ClassifierSearch
from .fit import L12Fit
from .search import L12Search


class L12MTLClassifier(ClassifierFit, L12Fit):
    r"""L1,2 for classes: logistic regressions of related tasks in which all use a feature, or none does.

    .. math::
        \min_{W, a} \sum_{i=1}^m \frac{2}{m n_i} \sum_r [\log(1 + e^{f_r}) - y_r f_r]
               + \lambda \sum_{j=1}^d \|w^j\|_2, \qquad f_r = x_r' w_i + a_i

    The group lasso over tasks (:class:`L12MTL`) with the deviance in place of the squared error, for y
    0 or 1. It is solved by Newton steps around the solver of the squared error, and certified. With K >
    2 classes there is such a problem for every task and class (against the rest), m K in all in place
    of m; they share features.

    Parameters
    ----------
    lam : float, optional
        Strength of the penalty. The default, 0.1 times `lam_max_`, is a value to start from, not a choice,
        and keeps most of pure noise; :class:`L12MTLClassifierCV` chooses lam by cross-validation.
    theta : float, default=inf
        Norm from which a feature is free.
    penalty : {"capped", "mcp", "scad", "log", "lq"} or a shape, default="capped"
        The concave function that stands in place of min(t, theta); see
        :mod:`msmtfl._objective.shapes`.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    max_stages : int, default=10
        The largest number of stages; with 1 the model is the lasso.
    class_weight : dict {class: weight} or "balanced", optional
        Weights of the classes, which multiply the weights of the samples. "balanced": in
        every task all classes weigh the same, n_i in all.
    fit_intercept : bool, default=True
        Whether every task has an intercept, which is not penalised.
    standardize : bool, default=False
        Whether every task's columns are penalised as if they were scaled to unit standard
        deviation. Coefficients stay in the data's units.
    positive : bool, default=False
        Whether coefficients are required to be at least 0.
    penalty_factors : array-like of shape (d,) or (d, m), optional
        Factors f of the penalty: a feature's norm is the root of the sum over tasks of
        (f_ji w_ji)^2. 0: the coefficient is never penalised; inf: the feature is excluded.
    relax : bool, default=False
        Whether to refit with the loss alone on the support that was found, so that no
        coefficient is shrunk. `stages_` and the certificate stay those of the penalised
        solution, whose coefficients are ``stages_[-1].coef``.
    tol : float, default=1e-8
        The relative duality gap that every stage must reach. Solves are exact: 1e-10 and
        less is usual.
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
        The share of the penalty that is as above, as in scikit-learn's ElasticNet; the rest
        is a ridge, (1 - l1_ratio) lam / 2 times the sum of (f_ji w_ji)^2, which no threshold
        caps; theta is counted in units of m l1_ratio lam / rho_bar. By default there is none;
        with 0 there is nothing else.
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
        Which columns belong together: a group is used by all tasks or by none. Its norm is the
        root of its size times the l2 norm of its coefficients in all tasks (times the penalty
        factors). Columns that are in no group are groups by themselves.
    unknown_category : {"error", "baseline"}, default="error"
        What `predict` does with a category of a categorical column that was not in the training
        data: raise an error, or count the sample as none of the known categories, so that the
        column adds nothing to its linear predictor.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, sorted.
    coef_ : ndarray of shape (m, d) or (m, K, d)
        Coefficients of the log-odds of the second class, one line per task, in the data's
        units. With K > 2 classes there are coefficients for each class against the rest.
        Without the first axis if the model was fitted without tasks.
    intercept_ : ndarray of shape (m,) or (m, K)
        Intercepts of the tasks; without the first axis (a float, or K numbers) if the model
        was fitted without tasks.
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
    target_mean_ : ndarray of shape (m,) or (m, K)
        Share of the second class (of each class, if there are more than two) in the
        training samples of every task.
    target_sd_ : ndarray of shape (m,) or (m, K)
        Standard deviation of the 0/1 indicator of that class.
    lam_ : float
        The strength of the penalty that was used.
    theta_ : float
        The norm from which a feature is free that was used.
    lam_max_ : float
        The smallest lam at which all coefficients are 0.
    stages_ : list of Stage
        The stages, each with stage (its number), coef, objective, free_rows (the features
        that it left un-penalised), dual_gap, kkt, unique, n_iter and seconds.
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
        For every feature the Euclidean norm of its coefficients over all tasks, each times
        its penalty factor.
    row_slopes_ : ndarray of shape (d,)
        What the last stage left of the penalty on a feature: 0 where the feature is free, 1
        where it is penalised in full.
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
    >>> from msmtfl import L12MTLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((200, 4)), np.repeat([0, 1], 100)
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(200) > 0, "ill", "well")
    >>> model = L12MTLClassifier().fit(X, y, task=task)
    >>> model.classes_.tolist(), model.score(X, y, task=task) > 0.8
    (['ill', 'well'], True)
    """

    def __init__(
        self,
        lam=None,
        theta=np.inf,
        *,
        penalty="capped",
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
        self.lam = lam
        self.theta = theta
        self.penalty = penalty
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


class L12MTLClassifierCV(ClassifierSearch, L12Search):
    """L12MTLClassifier with lam chosen by cross-validation.

    All folds use the same values of lam, taken from all data. The model is then fitted to all data at the
    value that was chosen. With `relax` every point is refitted on every fold, and scored so; an
    information criterion judges the models as penalised.

    Parameters
    ----------
    lams : int or array-like of shape (K,), default=30
        How many values of lam the grid has, geometrically spaced from `lam_max_` down to
        `lam_min_ratio` times that; or the values themselves, in any order.
    lam_min_ratio : float, optional
        The smallest value of the grid over the largest. By default 1e-2, or 1e-3 if every
        task has more samples than features.
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
    class_weight : dict {class: weight} or "balanced", optional
        Weights of the classes, which multiply the weights of the samples. "balanced": in
        every task all classes weigh the same, n_i in all.
    fit_intercept : bool, default=True
        Whether every task has an intercept, which is not penalised.
    standardize : bool, default=False
        Whether every task's columns are penalised as if they were scaled to unit standard
        deviation. Coefficients stay in the data's units.
    positive : bool, default=False
        Whether coefficients are required to be at least 0.
    penalty_factors : array-like of shape (d,) or (d, m), optional
        Factors f of the penalty: a feature's norm is the root of the sum over tasks of
        (f_ji w_ji)^2. 0: the coefficient is never penalised; inf: the feature is excluded.
    relax : bool, default=False
        Whether to refit with the loss alone on the support that was found, so that no
        coefficient is shrunk. `stages_` and the certificate stay those of the penalised
        solution, whose coefficients are ``stages_[-1].coef``.
    tol : float, default=1e-8
        The relative duality gap that every stage must reach. Solves are exact: 1e-10 and
        less is usual.
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
        Bounds of the coefficients, which this model does not know yet: anything but None is
        an error.
    feature_groups : mapping {name: columns} or sequence of d names, optional
        Which columns belong together: a group is used by all tasks or by none. Its norm is the
        root of its size times the l2 norm of its coefficients in all tasks (times the penalty
        factors). Columns that are in no group are groups by themselves.
    unknown_category : {"error", "baseline"}, default="error"
        What `predict` does with a category of a categorical column that was not in the training
        data: raise an error, or count the sample as none of the known categories, so that the
        column adds nothing to its linear predictor.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, sorted.
    coef_ : ndarray of shape (m, d) or (m, K, d)
        Coefficients of the log-odds of the second class, one line per task, in the data's
        units. With K > 2 classes there are coefficients for each class against the rest.
        Without the first axis if the model was fitted without tasks.
    intercept_ : ndarray of shape (m,) or (m, K)
        Intercepts of the tasks; without the first axis (a float, or K numbers) if the model
        was fitted without tasks.
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
    target_mean_ : ndarray of shape (m,) or (m, K)
        Share of the second class (of each class, if there are more than two) in the
        training samples of every task.
    target_sd_ : ndarray of shape (m,) or (m, K)
        Standard deviation of the 0/1 indicator of that class.
    lam_ : float
        The strength of the penalty that was used.
    lam_max_ : float
        The smallest strength of the penalty at which all coefficients are 0.
    lams_ : ndarray of shape (K,)
        The values of lam of the grid.
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
        One entry per point of the grid, lam outermost, ready for a table: the parameters,
        n_rows (features used in any task), n_entries (coefficients that are not 0),
        finished, eligible, mean_test_score, std_test_score, se_test_score, rank_test_score,
        split0_test_score, ...; test_mse and test_weight hold an array (folds, m) per point.
        Without folds the criterion stands in place of scores. `finished` says whether the
        point was solved to the end on all data. A point is `eligible`, and has scores,
        where that is so on every fold, too; others have NaN and are not chosen. Where the
        errors of a fold have long been rising its points are gone over only a few times;
        whatever comes near the best is solved to the end.
    surface_ : surface
        The solutions at all points of the grid, on all data; ``surface_.coef(k, l)`` has
        the coefficients of one.
    stages_ : list of Stage
        The stages, each with stage (its number), coef, objective, free_rows (the features
        that it left un-penalised), dual_gap, kkt, unique, n_iter and seconds.
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
        For every feature the Euclidean norm of its coefficients over all tasks, each times
        its penalty factor.
    row_slopes_ : ndarray of shape (d,)
        What the last stage left of the penalty on a feature: 0 where the feature is free, 1
        where it is penalised in full.
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
    >>> from msmtfl import L12MTLClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((200, 4)), np.repeat([0, 1], 100)
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(200) > 0, "ill", "well")
    >>> model = L12MTLClassifierCV(lams=10, cv=3).fit(X, y, task=task)
    >>> model.classes_.tolist(), model.score(X, y, task=task) > 0.8
    (['ill', 'well'], True)
    """

    def __init__(
        self,
        lams=30,
        *,
        lam_min_ratio=None,
        cv=5,
        scoring=LOG_LOSS,
        selection="min",
        task_column=None,
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
        self.lam_min_ratio = lam_min_ratio
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.task_column = task_column
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
