"""Multi-stage multi-task feature learning for classes, at given strengths and with a search."""

from __future__ import annotations

from ..classification.classifier import ClassifierFit
from .fit import StagedFit

# ------------------------------------------------------------------ the estimators


class MSMTFLClassifier(ClassifierFit, StagedFit):
    r"""Multi-stage multi-task feature learning for classes: sparse logistic regressions of related tasks.

    .. math::
        \min_{W, b} \sum_{i=1}^m \frac{2}{m n_i} \sum_r \log(1 + e^{f_r}) - y_r f_r
               + \lambda \sum_{j=1}^d \min(\|w^j\|_1, \theta), \qquad f_r = x_r' w_i + b_i

    for y 0 or 1: the deviance in place of the squared error of :class:`MSMTFL`, whose penalty and stages
    it has. Each stage is solved by Newton steps around the exact quadratic solver, and certified. With
    K > 2 classes there is such a problem for every task and class (against the rest), m K in all in place
    of m; they share features.

    Parameters
    ----------
    lam : float, optional
        Strength of the penalty. The default, 0.1 times `lam_max_`, is a value to start from, not a choice;
        :class:`MSMTFLClassifierCV` chooses lam by cross-validation. The C of scikit-learn's
        ``LogisticRegression(C)`` of one task with l1 penalty is 2 / (m n_i lam).
    theta : float or "adaptive", optional
        Norm from which a feature is free. The default is a cautious choice: max(8, m / 4) times
        m lam / rho_bar, with rho_bar the mean square of the columns times the curvature p (1 - p) of the
        loss at the fit of intercepts only, and at least three times the median norm of the features after
        stage 1, so that of features that are all alike none is freed. "adaptive" is bolder: the first
        significant jump of the sorted norms after stage 1. inf: the lasso.
    lam_entry : float, default=0
        Strength of a second penalty, on every coefficient by itself: the bi-level model,
        which is sparse also within the features that are free. With lam = 0 it is the only
        penalty, and the tasks have separate models. 0 gives the paper's model.
    theta_entry : float, optional
        Size from which a coefficient is free of the second penalty. The default is m (lam +
        lam_entry) / rho_bar, twice what the lasso takes from a coefficient, with rho_bar
        the mean square of the columns; inf: it is never free.
    penalty : {"capped", "mcp", "scad", "log", "lq"} or a shape, default="capped"
        The concave function that stands in place of min(t, theta); see
        :mod:`msmtfl._objective.shapes`.
    class_weight : dict {class: weight} or "balanced", optional
        Weights of the classes, which multiply the weights of the samples; 1 for classes that
        the dict leaves out. "balanced": in every task all classes weigh the same, n_i in all.
        lam counts as without, the loss of a task being a weighted mean. Probabilities are those
        of a population in which classes are as frequent as their weights make them.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    max_stages : int, default=10
        The largest number of stages; with 1 the model is the lasso.
    fit_intercept : bool, default=True
        Whether every task has an intercept, which is not penalised.
    standardize : bool, default=False
        Whether every task's columns are penalised as if they were scaled to unit standard
        deviation. Coefficients stay in the data's units.
    positive : bool, default=False
        Whether coefficients are required to be at least 0.
    penalty_factors : array-like of shape (d,), (d, m) or (d, m K), optional
        Factors f of the penalty: a feature's norm is the sum over tasks of f_ji |w_ji|. 0:
        the coefficient is never penalised; inf: the feature is excluded. With K > 2 classes
        they are given per feature, or per feature and pair of task and class, task by task.
    relax : bool, default=False
        Whether to refit with the loss alone on the support that was found, so that no
        coefficient is shrunk. `stages_` and the certificate stay those of the penalised
        solution, whose coefficients are ``stages_[-1].coef``.
    tol : float, default=1e-8
        The relative duality gap that every stage must reach. Solves are exact: 1e-10 and
        less is usual.
    max_iter : int, optional
        Limit on the rounds of a stage's solver. The default is far more than it needs.
    warm_start : bool, default=False
        Whether to start from the coefficients of the last fit, if its tasks and features
        are the same: the fit goes on with its stages.
    coef_init : array-like of shape (m, d) or (m K, d), optional
        Coefficients to start from instead of 0, which matters because the problem is not
        convex: their norms decide which features stage 1 leaves free. With K > 2 classes
        they are given for every pair of task and class, task by task.
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
        The least and the largest value that coefficients may have, in the units of the
        columns as they are given: each a number, one per feature (d,), or one per feature and
        task (d, m), with low <= 0 <= high; None, -inf or inf is no bound. ``bounds=(0, None)``
        is `positive=True`. A coefficient that is at its bound is exactly that number.
    feature_groups : mapping {name: columns} or sequence of d names, optional
        Which columns belong together: a group enters a task or leaves it as a whole. In place
        of |w_ji| stands the l2 norm of a group's coefficients in the task (times the penalty
        factors), times the root of the group's size; theta caps the sum of these norms over
        the tasks. Columns that are in no group are groups by themselves.
    multinomial : bool, default=False
        Whether K > 2 classes have one loss per task, the softmax's, log sum_k exp f_rk - f_ry,
        in place of one against the rest for every class. A feature's row is its coefficients
        over tasks and classes in both, and lam counts the same: as l1-penalised multinomial
        regression of one task, C of scikit-learn is 2 / (m K n_i lam). There is no reference
        class: coefficients of features that are not penalised, and intercepts, have the sum 0
        over the classes. Not with `bounds`, `feature_groups`, shared intercepts, `add_task` and
        criteria without folds. Two classes are what they are without it.
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
    lam_entry_ : float
        The strength of the penalty on single coefficients that was used; 0 in the paper's
        model.
    theta_entry_ : float
        The size from which a coefficient is free of that penalty.
    lam_max_ : float
        The smallest lam at which all coefficients are 0.
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

    Notes
    -----
    A task needs samples of every class: otherwise no finite intercept fits it, and `fit` raises an error
    that names the task. Where features that are free separate the classes of a task, no finite
    coefficients fit it, and `fit` warns.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((300, 10)), np.repeat(["north", "south", "west"], 100)
    >>> y = np.where(2 * X[:, 0] - X[:, 3] + rng.logistic(size=300) > 0, "ill", "well")
    >>> model = MSMTFLClassifier().fit(X, y, task=task)
    >>> model.classes_, model.coef_.shape
    (array(['ill', 'well'], dtype='<U4'), (3, 10))
    >>> model.predict_proba(X[:2], task=["north", "west"]).shape
    (2, 2)
    >>> bool(model.dual_gap_ < 1e-10)
    True
    """

    def __init__(
        self,
        lam=None,
        theta=None,
        *,
        lam_entry=0.0,
        theta_entry=None,
        penalty="capped",
        class_weight=None,
        task_column=None,
        max_stages=10,
        fit_intercept=True,
        standardize=False,
        positive=False,
        penalty_factors=None,
        relax=False,
        tol=1e-8,
        max_iter=None,
        warm_start=False,
        coef_init=None,
        unknown_task="error",
        n_jobs=None,
        l1_ratio=1.0,
        intercepts="task",
        bounds=None,
        feature_groups=None,
        multinomial=False,
        unknown_category="error",
    ):
        self.lam = lam
        self.theta = theta
        self.lam_entry = lam_entry
        self.theta_entry = theta_entry
        self.penalty = penalty
        self.class_weight = class_weight
        self.task_column = task_column
        self.max_stages = max_stages
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.positive = positive
        self.penalty_factors = penalty_factors
        self.relax = relax
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.coef_init = coef_init
        self.unknown_task = unknown_task
        self.n_jobs = n_jobs
        self.l1_ratio = l1_ratio
        self.intercepts = intercepts
        self.bounds = bounds
        self.feature_groups = feature_groups
        self.multinomial = multinomial
        self.unknown_category = unknown_category
