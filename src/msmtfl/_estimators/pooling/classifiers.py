"""Partial pooling for classes; with and without search."""

from __future__ import annotations

from collections.abc import Callable

from ..._data.designs import Floats
from ..classification.class_scores import LOG_LOSS
from ..classification.classifier import ClassifierFit, ClassifierSearch
from .fit import PoolingFit
from .search import PoolingSearch


class PartialPoolingClassifier(ClassifierFit, PoolingFit):
    r"""Partial pooling for classes: common values and dense deviations from them, in logistic regressions.

    .. math::
        \min_{b, V, a} \frac{2}{N} \sum_{i=1}^m \sum_r [\log(1 + e^{f_r}) - y_r f_r]
               + \frac{k}{N} \sum_{i=1}^m \|v_i\|^2 + \frac{k_c}{N} \|b\|^2,
               \qquad f_r = x_r' (b + v_i) + a_i

    Partial pooling (:class:`PartialPooling`) with the deviance in place of the squared error, for y 0
    or 1. It is solved by Newton steps around the solver of the squared error, and certified. With K > 2
    classes each is told from the rest, and the tasks have values in common for each of them:
    `coef_common_` is (K, d) then, and N counts every sample once per class.

    Parameters
    ----------
    k : float, optional
        Strength of the ridge on the deviations; it may be inf: all tasks have the common
        values. By default the value with the largest marginal likelihood (REML), which is
        inf if tasks do not differ by more than noise. :class:`PartialPoolingClassifierCV` chooses by
        cross-validation.
    k_common : float, default=0
        Strength of the ridge on the common values; it may be inf (no common part), if k is
        not. With 0 they are not shrunk; where the data do not determine them, the smallest
        are taken.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    class_weight : dict {class: weight} or "balanced", optional
        Weights of the classes, which multiply the weights of the samples. "balanced": in
        every task all classes weigh the same, n_i in all.
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
        The relative duality gap that the solution must have to count as certified. 1e-10
        and less is usual.
    unknown_task : {"error", "mean"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error,
        or predict with the mean coefficients of the known tasks, and warn.
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
    n_samples_ : ndarray of shape (m,)
        Number of training samples of every task.
    n_fitted_tasks_ : int
        Number of tasks of the fit, those that were added later not counted.
    target_mean_ : ndarray of shape (m,)
        Share of the second class in the training samples of every task.
    target_sd_ : ndarray of shape (m,)
        Standard deviation of the 0/1 indicator of that class.
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
        Number of Newton steps of the solver, over all stages.
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
    feature_means_ : ndarray of shape (m, d)
        Means of the features over the training samples of every task, by which
        unknown_task="similar" knows how similar tasks are.
    learnable_ : ndarray of bool of shape (m, d)
        Where a feature varies within a task; elsewhere its effect cannot be told from the
        intercept.
    feature_units_ : ndarray of shape (d,)
        With standardize="numeric" only: the units in which features are penalised.
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
    >>> from msmtfl import PartialPoolingClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((200, 4)), np.repeat([0, 1], 100)
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(200) > 0, "ill", "well")
    >>> model = PartialPoolingClassifier().fit(X, y, task=task)
    >>> model.classes_.tolist(), model.score(X, y, task=task) > 0.8
    (['ill', 'well'], True)
    """

    def __init__(
        self,
        k=None,
        k_common=0.0,
        *,
        task_column=None,
        class_weight=None,
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
        self.class_weight = class_weight
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

    def _note_parts(self, arrange: Callable[[Floats], Floats]) -> None:
        self.coef_deviation_ = arrange(self.coef_deviation_)


class PartialPoolingClassifierCV(ClassifierSearch, PoolingSearch):
    """PartialPoolingClassifier with its strengths chosen by cross-validation.

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
        The folds. A number means that many folds stratified by task and class. Every
        training fold needs samples of every class of every task.
    scoring : scorer name or callable, default="neg_log_loss"
        What is compared on the samples held out, all tasks together; greater is better:
        "neg_log_loss", "accuracy", "roc_auc" ("roc_auc_ovr" with more than two classes) or
        any scorer of scikit-learn. With a 2-D y only "neg_log_loss". Held-out log-losses
        use the class weights, too.
    selection : {"min", "1se", "aic", "bic", "ebic"}, default="min"
        How the point of the grid is chosen. "min": the best mean score. "1se": the largest k
        within one standard error of it. The others are information criteria, which need no
        folds and charge for degrees of freedom (the trace of what makes fitted values of
        targets).
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    class_weight : dict {class: weight} or "balanced", optional
        Weights of the classes, which multiply the weights of the samples. "balanced": in
        every task all classes weigh the same, n_i in all.
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
        The relative duality gap that the solution must have to count as certified. 1e-10
        and less is usual.
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
    n_samples_ : ndarray of shape (m,)
        Number of training samples of every task.
    n_fitted_tasks_ : int
        Number of tasks of the fit, those that were added later not counted.
    target_mean_ : ndarray of shape (m,)
        Share of the second class in the training samples of every task.
    target_sd_ : ndarray of shape (m,)
        Standard deviation of the 0/1 indicator of that class.
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
        Number of Newton steps of the solver, over all stages.
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
    feature_means_ : ndarray of shape (m, d)
        Means of the features over the training samples of every task, by which
        unknown_task="similar" knows how similar tasks are.
    learnable_ : ndarray of bool of shape (m, d)
        Where a feature varies within a task; elsewhere its effect cannot be told from the
        intercept.
    feature_units_ : ndarray of shape (d,)
        With standardize="numeric" only: the units in which features are penalised.
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
    >>> from msmtfl import PartialPoolingClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((200, 4)), np.repeat([0, 1], 100)
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(200) > 0, "ill", "well")
    >>> model = PartialPoolingClassifierCV(ks=5, cv=3).fit(X, y, task=task)
    >>> model.classes_.tolist(), model.score(X, y, task=task) > 0.8
    (['ill', 'well'], True)
    """

    def __init__(
        self,
        ks=10,
        *,
        k_commons=None,
        cv=5,
        scoring=LOG_LOSS,
        selection="min",
        task_column=None,
        class_weight=None,
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
        self.class_weight = class_weight
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

    def _note_parts(self, arrange: Callable[[Floats], Floats]) -> None:
        self.coef_deviation_ = arrange(self.coef_deviation_)
