"""What all multi-task linear models share: reading data, storing a solution, predicting, scoring."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from .._data.categories import Encoding, of_model, read_features
from .._data.designs import Data, Floats
from .._data.tables import (
    check_finite,
    match_labels,
    names_of,
    opened,
    places_of,
    warn_user,
)
from .._data.task_data import TaskData
from .._data.tasks import check_offset, grouped, read_training
from .._objective.coupled.groups import Groups
from .._objective.losses import loss_named
from .._objective.penalties import Penalty
from .._objective.problem import NUMERIC, Problem
from .._objective.proofs.certificates import Certificate, explain
from .._runtime.checks import check_count, check_flag, check_n_jobs, check_positive, check_share
from .._runtime.progress import CallbackSupportMixin
from .._runtime.whole import guard_methods
from .._solvers.gram import Gram
from .._solvers.lassos.weighted_lasso import least_squares_on
from .._solvers.one_level import intercepts_with
from .._solvers.problems.arguments import check_intercepts
from .._solvers.problems.make_problem import make_problem, training
from .._solvers.problems.priors import common_levels
from .._solvers.problems.read_groups import read_feature_groups
from .._solvers.stages import ASKED, ONE_STAGE, Solution
from .._solvers.task_lassos import lassos_for
from .fitted import (
    check_use,
    forget,
    importances,
    loss_of,
    of_survival,
    refuse_offset,
    require_offset,
    spread_over_tasks,
    task_column_in,
    warn_of_new_tasks,
    warn_of_task_level,
)
from .new_tasks import feature_means, new_lines
from .survival import baseline_hazards

NO_BOUNDS = (
    "bounds are not known to {} yet: its coefficients are sums of parts by level. PartialPooling, SharedMTL and the other "
    "models take bounds; or leave bounds=None."
)
LEVELS = ("common_level_", "level_at_", "level_ridge_")  # attributes of models whose intercepts share


class MultiTaskModel(CallbackSupportMixin, BaseEstimator):
    """What all multi-task models share: reading data, storing a solution, the linear predictor."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        guard_methods(cls, ("fit", "fit_moments", "add_task"))

    # ------------------------------------------------------------------ reading

    def _read(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any = None) -> Any:
        if isinstance(X, Data):  # any form, read before
            self._note_categories(getattr(X, "encoding", None))
            refuse_offset(offset)
            self._note_features(X)
            return X
        X = opened(X)
        validate_data(self, X, skip_check_array=True)
        options = {"sample_weight": sample_weight, "offset": offset, "survival": of_survival(self)}
        data = read_training(X, y, task=task, task_column=self.task_column, **options)
        self._note_categories(data.encoding)
        if offset is not None:
            numbers = not hasattr(type(self), "predict_proba")
            data = replace(data, offset_of_targets=numbers and loss_named(loss_of(self)).linear)
        if not hasattr(self, "n_features_in_"):  # nested lists
            self.n_features_in_ = data.d + len(places_of(data.task_position))
        return data

    def _note_categories(self, encoding: Encoding | None) -> None:
        """What `predict` needs to know of categorical columns."""
        forget(self, "categories_")
        if encoding is not None:
            self.categories_ = encoding.levels

    def _note_features(self, data: Any) -> None:
        """What `predict` expects: the features, and the task column (if there is one) where it stood in the first batch."""
        names = data.features.tolist()
        several = isinstance(self.task_column, (list, tuple))
        columns = self.task_column if several else [self.task_column]
        for place, name in sorted(zip(places_of(data.task_position), columns, strict=False)):
            names.insert(place, name)
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
            samples_alike=getattr(self, "_samples_alike", False),
            bounds=self._bounds(),
            feature_groups=self._feature_groups(),
        )

    def _training(self, problem: Problem, keep: np.ndarray | int) -> Problem:
        """The problem of some of the rows (of statistics: without one fold)."""
        return training(problem, keep)

    _of_msmtfl = True  # says what is a model of this package (`is_model`)

    _bounded = True  # whether the model can keep coefficients within bounds

    def _bounds(self) -> Any:
        """Those of the coefficients, if there are any."""
        bounds = getattr(self, "bounds", None)
        if bounds is not None and not self._bounded:
            raise ValueError(NO_BOUNDS.format(type(self).__name__))
        return bounds

    def _selects(self) -> bool:
        """Whether the penalty leaves features out, so that those of a group enter or leave together. Of others groups are
        names of variables, which reports and sharing maps speak of, and coefficients are the same without."""
        return True

    def _feature_groups(self) -> Any:
        """The groups that a penalty is to know, if any; False where those of categorical columns are none, either."""
        return getattr(self, "feature_groups", None) if self._selects() else False

    def _variables(self, problem: Problem) -> Groups | None:
        """The groups of a problem's features, whether its penalty knows them or not."""
        given = getattr(self, "feature_groups", None)
        return problem.groups if self._selects() or given is None else read_feature_groups(given, problem.data)

    _can_scale_numbers = False  # whether `standardize` may be "numeric"

    def _scales_numbers(self) -> bool:
        """Whether columns are penalised as if numbers, but not indicators, were scaled."""
        return self._can_scale_numbers and isinstance(self.standardize, str) and self.standardize == NUMERIC

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
        return "deviance" if self._scored_by() == "neg_deviance" and loss_of(self) != "squared" else "mse"

    def _scored_by(self) -> Any:
        """What scores points of a grid: `scoring`, unless a loss has errors of its own only."""
        scoring = getattr(self, "scoring", None)
        if not of_survival(self):
            return scoring
        if scoring not in (None, "neg_nmse", "neg_deviance"):
            raise ValueError(
                f"scoring={scoring!r} does not go with loss={loss_of(self)!r}, whose predictions are no times: points are "
                "scored by held-out deviances. Leave scoring at its default; `concordance_` tells how well the order of "
                "samples is predicted."
            )
        return "neg_deviance"

    def _check_common(self) -> None:
        for name in ("fit_intercept", "standardize", "positive", "relax", "warm_start"):
            if hasattr(self, name) and not (name == "standardize" and self._scales_numbers()):
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
        forget(
            self,
            "moments_",
            "scale_",
            "held_out_",
            "baseline_hazard_",
            "concordance_",
            "feature_groups_",
            *LEVELS,
        )
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
        intercept = intercepts_with(problem, W)
        single = data.form == "single"
        self.coef_ = W[0] if single else W
        self.intercept_ = float(intercept[0]) if single else intercept
        if (levels := common_levels(problem)) is not None:
            self.common_level_, self.level_at_, self.level_ridge_ = levels
        if of_survival(self):
            self.baseline_hazard_ = baseline_hazards(problem, W)
        if problem.scales is not None:
            self.scale_ = float(problem.scales[0]) if single else problem.scales
        if (groups := self._variables(problem)) is not None:
            self.feature_groups_ = groups.of_features
        self.row_norms_ = penalty.row_norms(W.T)
        self.row_slopes_ = solution.row_slopes
        self.feature_importances_ = importances(self)
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
        unknown = getattr(self, "unknown_category", "error")
        values, task, names, _ = read_features(X, task, task_column_in(self, X), of_model(self), unknown)
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
            for rows, (w, b) in new_lines(self, new, groups, list(order), coef, intercept):
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
        from .words.summary import summary_of  # here: a fit does not wait for what is said of it

        return summary_of(self, max_features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags
