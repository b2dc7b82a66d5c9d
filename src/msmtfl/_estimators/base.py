"""What all multi-task linear models share: reading data, storing a solution, predicting, scoring."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from .._data.designs import Data, Floats
from .._data.level_rows import LevelPrior
from .._data.tables import (
    as_values,
    check_finite,
    is_table,
    match_labels,
    missing_values,
    names_of,
    opened,
    read_features,
    warn_user,
)
from .._data.tasks import (
    TaskData,
    check_offset,
    check_weights,
    grouped,
    read_target,
    read_training,
    refuse_infinity,
)
from .._objective.certificates import Certificate, explain
from .._objective.losses import is_loss, loss_named
from .._objective.penalties import Penalty
from .._objective.problem import Problem
from .._runtime.checks import check_count, check_flag, check_n_jobs, check_positive, check_share
from .._runtime.progress import CallbackSupportMixin
from .._runtime.whole import guard_methods
from .._solvers.gram import Gram
from .._solvers.make_problem import check_intercepts, check_loss, common_levels, make_problem, training
from .._solvers.solvers import lassos_for
from .._solvers.stages import ASKED, ONE_STAGE, Solution
from .._solvers.weighted_lasso import least_squares_on
from .new_tasks import WAYS, WORDS, feature_means, new_lines

BETWEEN_TASKS = (  # what can learn from columns that differ between tasks only
    "To learn from the differences between tasks, fit one model to all rows without task labels (in cross-validation with "
    "groups= the tasks), or regress intercept_ on these columns."
)
LEVELS = ("common_level_", "level_at_", "level_ridge_")  # attributes of models whose intercepts share
AT_MOST = 1000  # samples of new tasks that are looked at for how far known tasks differ in them


NO_BOUNDS = (
    "bounds are not known to {} yet: its coefficients are sums of parts, or share a norm over the tasks. MSMTFL, LassoMTL "
    "and MSMTFLClassifier take bounds; or leave bounds=None."
)


class NewTaskWarning(UserWarning):
    """Predictions are for tasks that were not in the training data."""


class TaskLevelWarning(UserWarning):
    """Features differ between tasks only, so that their coefficients cannot be learned."""


class MultiTaskModel(CallbackSupportMixin, BaseEstimator):
    """What all multi-task models share: reading data, storing a solution, the linear predictor."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        guard_methods(cls, ("fit", "fit_moments", "add_task"))

    # ------------------------------------------------------------------ reading

    def _read(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any = None) -> Any:
        if isinstance(X, Data):  # any form, read before
            refuse_offset(offset)
            self._note_features(X)
            return X
        X = opened(X)
        validate_data(self, X, skip_check_array=True)
        data = read_training(X, y, task=task, task_column=self.task_column, sample_weight=sample_weight, offset=offset)
        if offset is not None:
            numbers = not hasattr(type(self), "predict_proba")
            data = replace(data, offset_of_targets=numbers and loss_named(loss_of(self)).linear)
        if not hasattr(self, "n_features_in_"):  # nested lists
            self.n_features_in_ = data.d + (data.task_position is not None)
        return data

    def _note_features(self, data: Any) -> None:
        """What `predict` expects: the features, and the task column (if there is one) where it stood in the first batch."""
        names = data.features.tolist()
        if data.task_position is not None:
            names.insert(data.task_position, self.task_column)
        self.n_features_in_ = len(names)
        if data.named and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        else:
            forget(self, "feature_names_in_")

    def _make_problem(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any = None) -> Problem:
        return make_problem(
            self._read(X, y, task, sample_weight, offset),
            loss=loss_of(self),
            epsilon=getattr(self, "epsilon", 1.35),
            fit_intercept=self.fit_intercept,
            standardize=self.standardize,
            positive=getattr(self, "positive", False),
            penalty_factors=self.penalty_factors,
            l1_ratio=self._chosen_l1_ratio(),
            error=self._error(),
            n_jobs=self.n_jobs,
            intercepts=self.intercepts,
            bounds=self._bounds(),
        )

    def _training(self, problem: Problem, keep: np.ndarray | int) -> Problem:
        """The problem of some of the rows (of statistics: without one fold)."""
        return training(problem, keep)

    _bounded = True  # whether the model can keep coefficients within bounds

    def _bounds(self) -> Any:
        """Those of the coefficients, if there are any."""
        bounds = getattr(self, "bounds", None)
        if bounds is not None and not self._bounded:
            raise ValueError(NO_BOUNDS.format(type(self).__name__))
        return bounds

    def _chosen_l1_ratio(self) -> float:
        """Which share of the penalty is a norm; the rest is a ridge."""
        return self._l1_ratios()[0]

    def _l1_ratios(self) -> list[float]:
        """The one that is given, if it is one."""
        ratio = getattr(self, "l1_ratio", 1.0)
        check_share("l1_ratio", ratio)
        return [float(ratio)]

    def _can_share(self, intercepts: str) -> bool:
        """Whether intercepts can share in this way."""
        return True

    def _error(self) -> str:
        """What errors of held-out samples are (`Problem.error`)."""
        return "deviance" if getattr(self, "scoring", None) == "neg_deviance" and loss_of(self) != "squared" else "mse"

    def _check_common(self) -> None:
        for name in ("fit_intercept", "standardize", "positive", "relax", "warm_start"):
            if hasattr(self, name):
                check_flag(name, getattr(self, name))
        check_use(self)
        self._l1_ratios()
        check_intercepts(self.intercepts, self.fit_intercept)
        check_positive("tol", self.tol)
        if getattr(self, "max_iter", None) is not None:
            check_count("max_iter", self.max_iter)
        check_n_jobs(self.n_jobs)

    def _previous(self, data: TaskData) -> Floats | None:
        """The last fit's coefficients (m, d), if warm_start asks for them and tasks and features are the same."""
        if not (self.warm_start and hasattr(self, "coef_")):
            return None
        same = np.array_equal(self.tasks_, data.labels) and np.array_equal(self.features_, data.features)
        return np.atleast_2d(self.coef_).copy() if same else None

    # ------------------------------------------------------------------ storing

    def _store(
        self,
        problem: Problem,
        solution: Solution,
        penalty: Penalty,
        grams: list[Gram] | None = None,
        coef: Floats | None = None,
    ) -> None:
        """Set the attributes of a fit. `coef` (m, d) are the coefficients to predict with: by default those of the last
        stage or, with `relax`, the least squares on their support."""
        data, last = problem.data, solution.stages[-1]
        # `partial_fit` starts anew; a scale is of some losses only, a common level of some intercepts, scores of searches
        forget(self, "moments_", "scale_", "held_out_", *LEVELS)
        W = last.coef if coef is None else coef
        if coef is None and self.relax:
            W = least_squares_on(lassos_for(problem, grams), W)
        self._form, self._task_position = data.form, data.task_position
        self.uses_offset_ = isinstance(data, TaskData) and data.has_offset
        self.tasks_, self.n_fitted_tasks_ = data.labels, len(data.labels)
        self.features_ = data.features
        targets = data.targets
        self.n_samples_ = np.array([target.rows for target in targets])
        self.learnable_, self.feature_sd_ = problem.learnable, problem.feature_sds
        self.task_level_features_ = data.features[problem.of_task_level]
        self.feature_means_ = feature_means(problem)
        self.target_mean_ = np.array([target.mean for target in targets])
        self.target_sd_ = np.sqrt([target.variance for target in targets])
        intercept = np.array([design.intercepts(w[None])[0] for design, w in zip(problem.designs, W, strict=True)])
        single = data.form == "single"
        self.coef_ = W[0] if single else W
        self.intercept_ = float(intercept[0]) if single else intercept
        if (levels := common_levels(problem)) is not None:
            self.common_level_, self.level_at_, self.level_ridge_ = levels
        if problem.scales is not None:
            self.scale_ = float(problem.scales[0]) if single else problem.scales
        self.row_norms_ = penalty.row_norms(W.T)
        self.row_slopes_ = solution.row_slopes
        self.feature_importances_ = importances(self.row_norms_, self._task_position)
        self.stages_ = list(solution.stages)
        self.n_stages_ = len(solution.stages)
        self.n_iter_ = int(sum(stage.n_iter for stage in solution.stages))
        self.objective_ = last.objective
        self.dual_gap_ = last.dual_gap
        self.converged_ = solution.converged
        doubt = "" if 0.0 <= last.dual_gap <= self.tol else explain(last.doubt, data.labels.tolist(), data.features)
        self.stopping_reason_ = f"{solution.reason}: {doubt}" if doubt else solution.reason
        objectives = [stage.objective for stage in solution.stages]
        rise = 1e-12 * max(abs(objectives[0]), np.finfo(float).tiny)
        self.certificate_ = Certificate(
            dual_gap=last.dual_gap,
            kkt=last.kkt,
            critical=solution.critical,
            unique=all(stage.unique for stage in solution.stages),
            monotone=all(after <= before + rise for before, after in pairwise(objectives)),
            ambiguous={
                label: [str(name) for name in data.features[features]]
                for label, features in zip(data.labels.tolist(), last.ambiguous, strict=True)
                if features.size
            },
            tol=self.tol,
            convex=solution.convex,
            doubt=doubt,
        )

    _of_several = "the solution nearest the previous stage is returned"  # where coefficients are not unique

    def _warn(self, solution: Solution, problem: Problem) -> None:
        warn_of_task_level(self.task_level_features_)
        if not solution.converged and solution.reason not in (ONE_STAGE, ASKED):
            warn_user(self.stopping_reason_ + ".", ConvergenceWarning)
        self._warn_of_crowds(solution.free, problem)

    def _warn_of_crowds(self, free: np.ndarray, problem: Problem) -> None:
        """About tasks that have few samples for as many features as are free, (d, m) bool."""
        if problem.unit_ridge is not None:
            free = free & (problem.unit_ridge.T == 0.0)
        counts = np.array([np.count_nonzero(d.squares[free[:, i]]) for i, d in enumerate(problem.designs)])
        samples = np.maximum(self.n_samples_ - bool(self.fit_intercept), 1)
        labels, most = problem.data.labels, int(counts.max(initial=0))
        full, half = counts >= samples, 2 * counts >= self.n_samples_
        several = self._of_several if problem.bounds is None else "which of them is returned depends on the start"
        if full.any():
            warn_user(
                f"{most} features are un-penalised, but task(s) {names_of(labels[full])} have no more independent samples "
                f"than that: their coefficients interpolate (where they are not unique, {several}). Choose a "
                "larger theta or lam."
            )
        elif half.any() and most:
            warn_user(
                f"{most} features are un-penalised, which is half or more of the samples of task(s) "
                f"{names_of(labels[half])}: their coefficients follow the noise closely, and may predict worse than those "
                "of a lasso. Choose a larger theta or lam."
            )

    def _common(self) -> Floats | None:
        """Coefficients that the tasks have in common, where the model has such a part: (d,), or (K, d) of classes."""
        return None

    def _separates(self) -> bool:
        """Whether the penalty, at the strengths of the fit, leaves every task to itself: with a cap on rows it does not."""
        capless = np.isinf(getattr(self, "theta_", np.inf)) or getattr(self, "max_stages", 1) == 1
        return bool(capless or self.lam_ == 0)

    # ------------------------------------------------------------------ using

    def _linear(self, X: Any, task: Any, coef: Floats, intercept: Floats, offset: Any = None) -> Floats:
        """The offset and x'w + b for all rows, with the coefficients (m, K, d) and intercepts (m, K) of their tasks: (n, K);
        (n, m, K) if fit was given a 2-D y and there are no labels."""
        check_is_fitted(self, "coef_")
        check_use(self)
        X = opened(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        values, task, names = read_features(X, task, task_column_in(self, X))
        check_finite(values, names, "X")
        if values.shape[1] != len(self.features_):
            raise ValueError(
                f"X has {values.shape[1]} features, but {type(self).__name__} is expecting {len(self.features_)} features "
                "as input."
            )
        by_task = (len(self.tasks_),) if task is None and self._form == "wide" else ()
        beside = self._offset(offset, (values.shape[0], *by_task))
        if task is None:
            if self._form == "wide":
                flat = values @ coef.reshape(-1, coef.shape[2]).T + intercept.ravel()
                out = np.asarray(flat).reshape(len(flat), *intercept.shape)
                return out if beside is None else out + beside.reshape(len(out), -1, 1)
            if self._form == "single":
                out = np.asarray(values @ coef[0].T + intercept[0])
                return out if beside is None else out + beside[:, None]
            raise ValueError(
                f"this model was fitted with task labels: pass task=, one label per row (known: {names_of(self.tasks_)})."
            )
        if self._form == "single":
            raise ValueError("this model was fitted without task labels: leave task= out, or fit with task=.")
        codes = match_labels(self.tasks_, task, values.shape[0], self.unknown_task)
        out = np.empty((values.shape[0], coef.shape[1]))
        of_new, *of_known = grouped(codes + 1, len(coef) + 1)
        for rows, w, b in zip(of_known, coef, intercept, strict=True):
            out[rows] = values[rows] @ w.T + b
        if (codes < 0).any():
            new, places = values[of_new], np.flatnonzero(codes < 0)
            labels = np.asarray(task)[places].tolist()
            order = {label: i for i, label in enumerate(dict.fromkeys(labels))}
            of_label = np.array([order[label] for label in labels])
            groups = np.split(np.argsort(of_label, kind="stable"), np.cumsum(np.bincount(of_label))[:-1])
            for rows, (w, b) in new_lines(self, new, groups, coef, intercept):
                out[places[rows]] = new[rows] @ w.T + b
            spread = spread_over_tasks(self, new, None if beside is None else beside[of_new])
            warn_of_new_tasks(self, list(order), new.shape[0], spread)
        return out if beside is None else out + beside[:, None]

    def _offset(self, offset: Any, shape: tuple[int, ...]) -> Floats | None:
        """What `predict` was given, which a model that was fitted with an offset needs."""
        require_offset(self, offset)
        return check_offset(offset, shape, self.tasks_)

    def summary(self, *, max_features: int = 30) -> Any:
        """Summarise the fitted model: its features, how it was fitted, and what is proven of it.

        Every line of the table is a feature: the number of tasks whose coefficient is not 0, and the smallest,
        the median and the largest of these coefficients.

        Parameters
        ----------
        max_features : int, default=30
            Number of features that texts show, those that most tasks use first. The data frame has all.

        Returns
        -------
        Summary
            Print it for the text. `as_latex()`, `as_markdown()` and `to_frame()` are other forms; notebooks show the
            Markdown.
        """
        from .summary import summary_of  # it knows the families, and these know us

        return summary_of(self, max_features)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags


class MultiTaskLinear(RegressorMixin, MultiTaskModel):
    """What all multi-task regressions share: predicting, scoring."""

    def predict(self, X: Any, *, task: Any = None, offset: Any = None) -> Floats:
        """Predict the targets of samples.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples in the form that was given to `fit`, with the column that identifies the
            task if there was one.
        task : array-like of shape (n,), optional
            The label of the task of every sample, if `fit` was given labels.
        offset : array-like of shape (n,) or (n, m), or float, optional
            The offset of every sample, which is added to its linear predictor; (n, m) for a
            model of a 2-D y. A model that was fitted with an offset needs it; 0 leaves it out.

        Returns
        -------
        ndarray of shape (n,) or (n, m)
            Predictions in the order of the samples; (n, m), one column per task, if `fit` was given a 2-D y
            and `task` is None.
        """
        check_is_fitted(self, "coef_")
        coef, intercept = np.atleast_2d(self.coef_)[:, None], np.atleast_1d(self.intercept_)[:, None]
        out = self._linear(X, task, coef, intercept, offset)[..., 0]
        return respond(self, out)

    def predict_interval(self, X: Any, *, task: Any = None, level: float = 0.9, offset: Any = None) -> Floats:
        """Predict intervals that hold the targets of new samples with a given probability, task by task.

        They are made of the errors on samples that cross-validation held out, so the model must have chosen
        its parameters by folds. For new samples of a task like those that it was fitted to, intervals hold the
        target with a probability of about `level`. For tasks with fewer than 50 samples they are those of CV+,
        of which 1 - 2 (1 - level) is proven, less a term that falls with the number of samples, for folds that
        had no part in choosing the parameters. For others they are around the mean of the predictions by the
        models without each fold, which is no further off than these models are on average.
        The scale is that of the targets, whatever the loss.

        A task with too few samples for the level, fewer than level / (1 - level), borrows the shape of the
        errors of all tasks, scaled by its own errors; a warning names it. For tasks that were not in the
        training data (``unknown_task="mean"``) intervals come from the errors of predicting each task by the
        others, and m tasks allow levels up to m / (m + 1).

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples in the form that was given to `fit`, with the column that identifies the
            task if there was one.
        task : array-like of shape (n,), optional
            The label of the task of every sample, if `fit` was given labels.
        level : float, default=0.9
            The probability, between 0 and 1, with which an interval shall hold the target.
        offset : array-like of shape (n,) or (n, m), or float, optional
            The offset of every sample, which is added to its linear predictor; (n, m) for a
            model of a 2-D y. A model that was fitted with an offset needs it; 0 leaves it out.

        Returns
        -------
        ndarray of shape (n, 2) or (n, m, 2)
            The lower and the upper ends; (n, m, 2) if `fit` was given a 2-D y and `task` is None.

        Raises
        ------
        ValueError
            The model has no errors of samples held out (it was fitted without folds, or from statistics), or
            there are too few for the level; the message names the task and the largest level possible.
        """
        from .intervals import interval_of  # it knows the families, and these know us

        return interval_of(self, X, task, level, offset)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        name = loss_of(self)
        tags.target_tags.positive_only = is_loss(name) and loss_named(name).least >= 0.0
        return tags

    def score(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the coefficient of determination R^2 of the predictions.

        It is taken over all samples. With a 2-D y it is the mean over the tasks, of the values that are
        measured; a task for which it is undefined is left out, with a warning.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples in the form that was given to `fit`, with the column that identifies the
            task if there was one.
        y : array-like of shape (N,) or (N, m)
            Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
            means not measured.
        task : array-like of shape (n,), optional
            The label of the task of every sample, if `fit` was given labels.
        sample_weight : array-like of shape (N,) or (N, m), optional
            Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
        offset : array-like of shape (n,) or (n, m), or float, optional
            The offset of every sample, which is added to its linear predictor; (n, m) for a
            model of a 2-D y. A model that was fitted with an offset needs it; 0 leaves it out.

        Returns
        -------
        float
            R^2, at most 1.
        """
        prediction = self.predict(X, task=task, offset=where_measured(offset, y))
        truth, _ = read_target(y, len(prediction))
        if prediction.ndim == 1:
            truth = truth[:, 0] if truth.ndim == 2 and truth.shape[1] == 1 else truth
            return float(r2_score(truth, prediction, sample_weight=check_weights(sample_weight, truth.shape)))
        if truth.shape != prediction.shape:
            raise ValueError(
                f"y has shape {truth.shape}; this model was fitted with {len(self.tasks_)} tasks: one column per task."
            )
        refuse_infinity(truth, self.tasks_)
        weight = check_weights(sample_weight, truth.shape)
        scores, without = [], []
        for i, label in enumerate(self.tasks_.tolist()):
            seen = np.isfinite(truth[:, i])
            if seen.sum() < 2 or np.ptp(truth[seen, i]) == 0.0:
                without.append(label)
                continue
            w = None if weight is None else (weight if weight.ndim == 1 else weight[:, i])[seen]
            scores.append(r2_score(truth[seen, i], prediction[seen, i], sample_weight=w))
        if without:
            warnings.warn(
                f"R^2 is undefined for task(s) {names_of(without)} (fewer than two values, or all equal): left out.",
                UserWarning,
                stacklevel=2,
            )
        return float(np.mean(scores)) if scores else float("nan")


def refuse_offset(offset: Any) -> None:
    """An error if an offset is given beside statistics, which hold no rows that it could belong to."""
    if offset is not None:
        raise ValueError(
            "an offset needs rows, not statistics of them. With squared loss subtract it from y before the statistics are "
            "made, and add it to the predictions."
        )


def require_offset(model: Any, offset: Any) -> None:
    """An error if a model that was fitted with an offset is used without."""
    if offset is None and getattr(model, "uses_offset_", False):  # models from earlier files do not know
        raise ValueError(
            f"this {type(model).__name__} was fitted with an offset: pass offset=, one value per row (the logarithm of its "
            "exposure, if that is what the offset was), or offset=0.0 for none (an exposure of 1)."
        )


def where_measured(offset: Any, y: Any) -> Any:
    """An offset for all entries of a 2-D y, from one for those that are measured: 0 at the others, which nobody looks at."""
    values = None if offset is None else as_values(offset, "offset")
    if values is None or values.ndim != 2 or values.dtype.kind != "f":
        return offset
    given = as_values(y, "y")
    if given.shape != values.shape:
        return offset
    return np.where(missing_values(given.ravel()).reshape(given.shape), 0.0, values)


def level_prior(model: Any) -> LevelPrior | None:
    """What a fitted regression's intercepts are drawn to, if they share a level."""
    if not hasattr(model, "common_level_"):
        return None
    return LevelPrior(model.level_at_, model.common_level_, model.level_ridge_)


def spread_over_tasks(model: Any, X: Any, offset: Floats | None = None) -> float:
    """How far the predictions of known tasks lie apart in samples of new ones: the root mean square, over the first of them,
    of their standard deviation. That is about the error of predicting one task by the mean of the others, noise aside. NaN
    of classes, and of a single task."""
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    if hasattr(model, "classes_") or coef.ndim > 2 or len(coef) < 2:
        return float("nan")
    beside = 0.0 if offset is None else offset[:AT_MOST, None]
    every = respond(model, np.asarray(X[:AT_MOST] @ coef.T) + intercept + beside)
    return float(np.sqrt(np.mean(every.var(axis=1, ddof=1))))


def warn_of_new_tasks(model: Any, labels: list[Any], rows: int, spread: float) -> None:
    """What should be known of predictions for tasks that were not in the training data."""
    apart = (
        f" The known tasks' own predictions for them differ by {spread:.2g} (standard deviation)." if spread > 0 else ""
    )
    way = "" if hasattr(model, "classes_") else " compare_models(..., leave_one_task_out=True) estimates it."
    warn_user(
        f"task(s) {names_of(labels)} were not in the training data: their {rows} prediction(s) use "
        f"{WORDS[model.unknown_task].format(len(model.tasks_))}.{apart} The error of such predictions is not known.{way}",
        NewTaskWarning,
    )


def check_without_ridge(model: Any, what: str) -> None:
    """An error where a fitted model has a ridge, which something does not know."""
    ratio = getattr(model, "l1_ratio_", getattr(model, "l1_ratio", 1.0))
    if ratio != 1.0:
        raise ValueError(
            f"{what} is about models without a ridge: this one has l1_ratio={ratio!r}. Fit with l1_ratio=1."
        )


def task_column_in(model: Any, X: Any) -> Any:
    """The column that identifies the task in what is to be predicted: where a name was given to the fit, but X is an array
    (as tools hand on that know no tables), its place in the table of the fit."""
    placed = isinstance(model.task_column, str) and not is_table(X) and model._task_position is not None
    return model._task_position if placed else model.task_column


def forget(model: Any, *names: str) -> None:
    """Delete those of a model's attributes, from a fit before, that it has and that the fit at hand may not set."""
    for name in names:
        if hasattr(model, name):
            delattr(model, name)


def check_use(model: Any) -> None:
    """Whether the parameters that predictions depend on make sense: they may be set after the fit, or come from a file."""
    if model.unknown_task not in ("error", *WAYS):
        raise ValueError(
            f"unknown_task must be 'error', {', '.join(map(repr, WAYS[:-1]))} or {WAYS[-1]!r}, got {model.unknown_task!r}."
        )
    if hasattr(model, "loss"):
        check_loss(model.loss, model.epsilon)


def model_chosen(model: Any) -> Any:
    """Of a fitted MultiTaskAuto (or a GridSearchCV) the model that it chose; others as they are."""
    return getattr(model, "best_estimator_", model)


def noted(model: Any, name: str) -> Any:
    """What the command wrote down under this name in the file that a model comes from; None if it did not."""
    user = getattr(model, "provenance_", {}).get("user")
    return user.get(name) if isinstance(user, dict) else None


def warn_of_task_level(features: Any) -> None:
    """Coefficients of 0 that a reader would take for "no effect", of these features."""
    if len(features):
        warn_user(
            f"feature(s) {names_of(features)} are constant within every task and differ only between "
            "tasks: beside an intercept per task they cannot be learned. Their coefficients are 0, which says nothing about "
            f"their effect. {BETWEEN_TASKS} Leave them out here.",
            TaskLevelWarning,
        )


def separate(model: Any) -> bool:
    """Whether every task of a fitted model has a sparse model of its own, whatever the others are like."""
    return len(model.tasks_) == 1 or bool(model._separates())


def respond(model: Any, f: Floats) -> Floats:
    """What a regression predicts, from its linear predictor."""
    return loss_named(loss_of(model)).response(f)


def loss_of(model: Any) -> str:
    """The name of a model's loss."""
    return str(getattr(model, "loss", "squared"))


def importances(row_norms: Floats, task_position: int | None) -> Floats:
    """Row norms of the features, the task column (if there is one) getting the largest."""
    if task_position is None:
        return row_norms
    return np.insert(row_norms, task_position, row_norms.max(initial=0.0))
