"""One more task for a fitted model, with what the model has learned of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._data.categories import of_model
from .._data.designs import Floats
from .._data.forms.level_rows import LevelPrior
from .._data.statistics.moments import Moments, add_rows
from .._data.statistics.parquet import Rows
from .._data.tables import label_array, missing_values, warn_user
from .._data.task_data import Task, TaskData
from .._data.task_levels import label_of
from .._data.tasks import read_training
from .._objective.losses import Huber, loss_named
from .._objective.penalties import ConcaveEntries, ConcaveRows, Penalty
from .._objective.problem import Problem
from .._objective.proofs.certificates import explain
from .._objective.shapes import CAPPED, read_shape
from .._runtime.progress import one_blas_thread
from .._solvers.problems.arguments import read_bounds
from .._solvers.problems.make_problem import drawn_to, make_problem, remade
from .._solvers.solvers import solver_for
from .._solvers.stages import UNSOLVED, Stage, run_stages
from .base import MultiTaskModel
from .fitted import forget, importances, loss_of, of_survival, require_offset
from .new_tasks import feature_means
from .survival import baseline_hazards, joined


class AddTaskMixin(MultiTaskModel):
    """A task can be added to a fitted model, which is solved for itself, with all else held fixed.

    A family says what its coefficients are beside (`_held_fixed`), and what penalty they have given those of the other tasks
    (`_penalty_given`), on the scale of a problem with one task.
    """

    moments_: Moments

    def add_task(self, X: Any, y: Any, label: Any, *, sample_weight: Any = None, offset: Any = None) -> Any:
        r"""Fit one more task with what was learned from the others, which are not touched.

        The new task minimises

        .. math::
            \frac{1}{m n} \|Xw - y\|^2 + \text{penalty}(w \mid \text{the others})

        (or its other loss), with the m and the strengths of the fit. What is held fixed is:

        - LassoMTL, MSMTFL: which features are free. The penalty is lam times `row_slopes_` on every
          coefficient; the bi-level model adds its penalty on single coefficients, with stages of its own.
        - L12MTL: the coefficients of the others. With a_j their norm of feature j, the penalty is
          lam ((a_j^2 + f_j^2 w_j^2)^1/2 - a_j): nearly nothing for features that the others use much, that
          of the lasso for features that none uses.
        - DirtyMTL: the shared part of the others. Up to its largest size in feature j (in the data's units)
          a coefficient costs nothing, and what goes beyond it the smaller of lam_s and lam_b.
        - SharedMTL, PartialPooling: the common values. Deviations from them have the penalty that those of
          the other tasks have.
        - RobustMTL: the centre (with kind="rmtfl" the mean of what is common to the others). The new task's
          deviation from it has the penalty that those of the others have.
        - PretrainedMTL: the first step. The second is fitted to the new task.
        - NestedMTL: what is common, and the effects of those values of its levels that are known. Deviations
          from their sum have the penalty of the last level.

        Intercepts: of its own, or drawn to the common level that the fit has found, or that level itself,
        as `intercepts` says. (As the common level of m tasks is an estimate, it draws m / (m + 1) times as
        strongly as it does in the fit: so would it, were it found anew with the new task's level.) With
        `standardize` columns count in the new task's own standard deviations, as those of every task do.
        The new task comes last in `coef_`, `intercept_` and `tasks_`; in all `stages_` but the last its
        coefficients are 0. The gap and the uniqueness of the new task's problem are part of `certificate_`
        then.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples of the new task, with the model's features and without a column that
            identifies the task.
        y : array-like of shape (n,)
            Targets of the new task.
        label : str, number or tuple
            The label of the new task; the model must not have a task with this label. Of tasks with several
            levels the values of all levels, ``("north", "school 7")``, or the label as it stands in `tasks_`.
        sample_weight : array-like of shape (n,), optional
            Weights of the samples, at least 0. By default all are 1.
        offset : array-like of shape (n,), optional
            The offset of every sample, if the model was fitted with one.

        Returns
        -------
        object
            The model itself, with one task more.
        """
        check_is_fitted(self, "stages_")
        self._check_growth(offset)
        label = label_of(label)
        check_label(label, self.tasks_.tolist())
        with one_blas_thread():
            data = self._read_new(X, y, sample_weight, offset)
            self._check_new(X, data)
            held = self._held_fixed(label)
            problem = self._new_problem(data, held)
            penalty = self._penalty_given(problem)
            solver = solver_for(problem, penalty, lam=self._ridge_lam(problem))
            most, max_iter = getattr(self, "max_stages", 1), getattr(self, "max_iter", None) or 0
            stage = run_stages(penalty, solver, max_stages=most, tol=self.tol, max_iter=max_iter).stages[-1]
            stage = replace(stage, coef=self._coef_given(stage.coef, problem))
        intercepts = [design.intercepts(w[None])[0] for design, w in zip(problem.designs, stage.coef, strict=True)]
        self._append(label, data, problem, stage, np.array(intercepts) + self._level_in_offset())
        self._append_parts(stage.coef, problem)
        if hasattr(self, "moments_"):
            self.moments_ = self._remembered(label, data.tasks[0])
        return self

    # ------------------------------------------------------------------ what families say

    def _held_fixed(self, label: Any) -> Floats | None:
        """(d,), or (K, d) of classes: coefficients that those of the new task, which has this label, are added to; None:
        there are none."""
        return None

    def _penalty_given(self, problem: Problem) -> Penalty:
        """The penalty of the new task's coefficients given those of the others."""
        return entries_given(
            self,
            problem,
            self.lam_,
            shape=read_shape(getattr(self, "penalty", "capped")),
            lam_entry=getattr(self, "lam_entry_", 0.0),
            theta_entry=getattr(self, "theta_entry_", np.inf),
        )

    def _ridge_lam(self, problem: Problem) -> float:
        """The strength that the ridge is a share of, on the scale of a problem with one task."""
        return float(self.n_fitted_tasks_ * (self.lam_ + getattr(self, "lam_entry_", 0.0)))

    def _new_factors(self) -> Any:
        """The penalty factors of the new task."""
        return self.penalty_factors

    def _new_l1_ratio(self) -> float:
        return self._chosen_l1_ratio()

    def _coef_given(self, found: Floats, problem: Problem) -> Floats:
        """(K, d): the coefficients of the new task, of what the solver has found."""
        return found

    def _append_parts(self, own: Floats, problem: Problem) -> None:
        """Set the family's own attributes, `own` (K, d) being the coefficients beside what is held fixed."""

    def _norms_with(self, w: Floats, problem: Problem) -> Floats:
        """(d,): the norms of the features with the new task's coefficients w (K, d)."""
        return np.asarray(
            self.row_norms_ + ConcaveRows(1.0, np.inf, problem.factors, groups=problem.groups).row_norms(w.T)
        )

    # ------------------------------------------------------------------ reading

    def _check_growth(self, offset: Any) -> None:
        if self.relax:
            raise ValueError(
                "relax=True refits all tasks together with the choice of features: fit again with the new task."
            )
        if self._form == "single":
            raise ValueError(
                "this model was fitted without task labels: it has no tasks to add one to. Fit with task=."
            )
        require_offset(self, offset)
        if offset is not None and not getattr(self, "uses_offset_", False):
            raise ValueError(
                "this model was fitted without an offset: leave it out, or fit again with offsets for all tasks."
            )
        if np.ndim(self.penalty_factors) == 2:
            raise ValueError(
                "penalty_factors differ between the tasks, so those of a new one are not known. Fit again."
            )

        if any(np.ndim(one) == 2 for one in self._bounds() or ()):
            raise ValueError("bounds differ between the tasks, so those of a new one are not known. Fit again.")

    def _read_new(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> TaskData:
        known: dict[str, Any] = {"encoding": of_model(self), "unknown": self.unknown_category}
        known["survival"] = of_survival(self)
        data = read_training(X, y, sample_weight=sample_weight, offset=offset, **known)
        return replace(data, offset_of_targets=data.has_offset and loss_named(loss_of(self)).linear)

    def _check_new(self, X: Any, data: TaskData) -> None:
        if data.form == "wide":
            raise ValueError(
                f"add_task takes one task at a time: y must be 1-D, one value per row; it has {data.m} columns."
            )
        if data.d != len(self.features_):
            raise ValueError(f"X has {data.d} features, the model {len(self.features_)} (without the task column).")
        names = self.features_ if data.encoding is None else data.encoding.columns
        named = hasattr(X, "columns")
        if named and [str(name) for name in X.columns] != [str(name) for name in names]:
            raise ValueError(
                "the columns of X are not the model's features, or in another order. They are in features_."
            )

    # ------------------------------------------------------------------ its problem

    def _new_problem(self, data: TaskData, held: Floats | None) -> Problem:
        """The problem of the new task alone (of K > 2 classes: of each against the rest)."""
        level, at_level = self._level_in_offset(), self._has_level_in_offset()
        known = [None] * data.m if held is None else np.broadcast_to(held, (data.m, data.d))
        parts = zip(data.tasks, known, level, strict=True)
        beside = replace(data, tasks=tuple(_beside(task, of_class, float(own)) for task, of_class, own in parts))
        priors, centre = None if at_level else self._priors(data, held), self.fit_intercept and not at_level
        loss = "logistic" if hasattr(self, "classes_") else loss_of(self)
        kind = loss_named(loss, getattr(self, "epsilon", 1.35))
        options: dict[str, Any] = {
            "loss": loss,
            "epsilon": getattr(self, "epsilon", 1.35),
            "standardize": self.standardize is True,
            "positive": getattr(self, "positive", False) and held is None,
            "penalty_factors": self._new_factors(),
            "l1_ratio": self._new_l1_ratio(),
            "bounds": self._bounds() if held is None else self._bounds_beside(data, held),
            "feature_groups": self._feature_groups(),
        }
        if isinstance(kind, Huber):  # its scale is that of the task itself, whatever is held fixed
            alone = make_problem(data, fit_intercept=self.fit_intercept, **options)
            return drawn_to(remade(alone, beside, alone.given_factors, centre, alone.designs[0].of_loss), priors)
        shares = "task" if priors is None else "shrunk"  # to what the others have found
        return make_problem(beside, fit_intercept=centre, intercepts=shares, priors=priors, **options)

    def _bounds_beside(self, data: TaskData, held: Floats) -> tuple[Floats, Floats] | None:
        """The bounds (d,) of what is added to coefficients that are held fixed, if coefficients have any."""
        positive, box = read_bounds(self._bounds(), data, getattr(self, "positive", False))
        if not positive and box is None:
            return None
        low, high = (np.zeros(data.d), np.full(data.d, np.inf)) if box is None else (box.low[0], box.high[0])
        out = (held < low) | (held > high)
        if out.any():
            raise ValueError(
                f"the common value of feature {str(self.features_[out.argmax()])!r}, {held[out.argmax()]:g}, is not within "
                "the bounds of the coefficients of a task, which the sum with its deviations has to be. A new task cannot "
                "be added to it: fit again with that task."
            )
        return low - held, high - held

    def _has_level_in_offset(self) -> bool:
        """Whether the new task has the one intercept of all tasks, under a loss that is not squared: it is known then."""
        shares = hasattr(self, "common_level_") and np.isinf(np.min(self.level_ridge_))
        return bool(shares and (hasattr(self, "classes_") or loss_of(self) != "squared"))

    def _level_in_offset(self) -> Floats:
        """(K,): that intercept; else 0."""
        K = max(np.size(self.intercept_) // max(len(self.tasks_), 1), 1)
        return np.broadcast_to(self.common_level_ if self._has_level_in_offset() else 0.0, (K,))

    def _priors(self, data: TaskData, held: Floats | None) -> Sequence[LevelPrior] | None:
        """What the level of the new task is drawn to, one for each of its problems, if tasks share levels."""
        if not hasattr(self, "common_level_"):
            return None
        m = self.n_fitted_tasks_  # the common level is not known, but the mean of so many
        levels, ridges = np.ravel(self.common_level_), np.ravel(self.level_ridge_) * (m / (m + 1.0))
        at, K = self.level_at_, len(data.tasks)
        besides = np.zeros(K) if held is None else np.broadcast_to(held @ at, (K,))
        return [
            LevelPrior(at, float(level - beside), float(ridge), _mean_offset(task) + float(beside))
            for level, ridge, beside, task in zip(levels, ridges, besides, data.tasks, strict=True)
        ]

    # ------------------------------------------------------------------ storing

    def _summed(self, found: Floats, held: Floats, data: TaskData) -> Floats:
        """(K, d): coefficients within their bounds, which a sum may leave by rounding."""
        positive, box = read_bounds(self._bounds(), data, getattr(self, "positive", False))
        w = found + held
        return np.maximum(w, 0.0) if positive else (w if box is None else np.clip(w, box.low, box.high))

    def _append(self, label: Any, data: TaskData, problem: Problem, outcome: Stage, intercepts: Floats) -> None:
        held = self._held_fixed(label)
        w = outcome.coef if held is None else self._summed(outcome.coef, held, data)
        targets, single = data.targets, len(data.tasks) == 1
        self.tasks_ = label_array([*self.tasks_.tolist(), label])
        self.coef_ = np.concatenate([self.coef_, w if single else w[None]])
        self.intercept_ = np.concatenate([self.intercept_, intercepts if single else intercepts[None]])
        self.n_samples_ = np.append(self.n_samples_, targets[0].rows)
        if of_survival(self):
            new = baseline_hazards(replace(problem, data=data), w)
            self.baseline_hazard_ = joined(self.baseline_hazard_, new, len(self.tasks_) - 1)
            forget(self, "concordance_")
        if hasattr(self, "learnable_"):  # a model from an old file does not know
            self.learnable_ = np.vstack([self.learnable_, problem.learnable[:1]])
            of_level = np.isin(self.features_, self.task_level_features_) & ~problem.learnable[0]
            self.task_level_features_ = self.features_[of_level]
        if hasattr(self, "feature_means_"):
            self.feature_means_ = np.vstack([self.feature_means_, feature_means(problem)[:1]])
        if hasattr(self, "scale_") and problem.scales is not None:
            self.scale_ = np.append(self.scale_, problem.scales)
        means, sds = np.array([one.mean for one in targets]), np.sqrt([one.variance for one in targets])
        self.target_mean_ = np.concatenate([self.target_mean_, means if single else means[None]])
        self.target_sd_ = np.concatenate([self.target_sd_, sds if single else sds[None]])
        self.stages_ = [
            replace(
                stage,
                coef=np.vstack([stage.coef, w if stage is self.stages_[-1] else np.zeros_like(w)]),
                ambiguous=(*stage.ambiguous, *outcome.ambiguous),
            )
            for stage in self.stages_
        ]
        unsure = np.unique(np.concatenate(outcome.ambiguous))
        named = {label: [str(name) for name in self.features_[unsure]]} if unsure.size else {}
        self.row_norms_ = self._norms_with(w, problem)
        self.feature_importances_ = importances(self)
        self.dual_gap_ = max(self.dual_gap_, outcome.dual_gap)
        proof = self.certificate_
        self.certificate_ = replace(
            proof,
            dual_gap=max(proof.dual_gap, outcome.dual_gap),
            kkt=max(proof.kkt, outcome.kkt),
            unique=proof.unique and outcome.unique,
            ambiguous=proof.ambiguous | named,
            added=proof.added + 1,
        )
        if not outcome.dual_gap <= self.tol:
            doubt = explain(outcome.doubt, [label] * len(data.tasks), self.features_)
            self.converged_ = False
            self.stopping_reason_ = f"{UNSOLVED.format(outcome.stage, outcome.dual_gap, self.tol)}: {doubt}"
            self.certificate_ = replace(self.certificate_, doubt=doubt)
            warn_user(self.stopping_reason_ + ".", ConvergenceWarning)

    def _remembered(self, label: Any, task: Task) -> Moments:
        """The statistics of all batches, with those of a task that was added: the next batch keeps it."""
        moments = self.moments_.copy()
        rows = [Rows(label, 0, task.X, task.y, task.weight)]
        add_rows([moments], rows, self.features_, [label], named=moments.named, form=moments.form)
        return moments


def entries_given(
    model: Any,
    problem: Problem,
    lam: float,
    *,
    shape: Any = CAPPED,
    lam_entry: float = 0.0,
    theta_entry: float = np.inf,
) -> ConcaveEntries:
    """A weighted lasso of the new task's coefficients, with what the fit left of the penalty of rows."""
    m = model.n_fitted_tasks_
    both = m * lam_entry, theta_entry
    more: dict[str, Any] = {"l1_ratio": problem.l1_ratio, "groups": problem.groups}
    return ConcaveEntries(m * lam, np.inf, problem.factors, shape, *both, model.row_slopes_, **more)


def no_deviations(model: Any) -> Floats:
    """Penalty factors of a task that does not deviate from common values, but in features that are never penalised."""
    given = np.ones(len(model.features_)) if model.penalty_factors is None else np.asarray(model.penalty_factors, float)
    return np.where(given == 0.0, 0.0, np.inf)


def refuse_bounds(model: Any, problem: Problem) -> None:
    """An error where a norm of rows is to be minimised for one more task within bounds."""
    if problem.box is not None:
        raise ValueError(
            f"{type(model).__name__} with bounds of its coefficients takes no task beside those that it was fitted to: fit "
            "again with the new task, or take MSMTFL or SharedMTL, which do."
        )


def refuse_groups(model: Any, problem: Problem) -> None:
    """An error where a norm of groups in all tasks is to be minimised for one more."""
    if problem.groups is not None:
        raise ValueError(
            f"{type(model).__name__} with groups of features takes no task beside those that it was fitted to: fit again "
            "with the new task, or take MSMTFL or SharedMTL, which do."
        )


def refuse_more_classes(model: Any) -> None:
    """An error where a norm would couple the classes of the new task."""
    classes = getattr(model, "classes_", ())
    if len(classes) > 2:
        raise ValueError(
            f"{type(model).__name__} has {len(classes)} classes, which its penalty couples: a task can be added with two "
            "classes only. Fit again with the new task, or take MSMTFLClassifier."
        )


def check_label(label: Any, known: list[Any]) -> None:
    """Whether a new task can have this label."""
    try:
        taken = label in set(known)
    except TypeError as error:
        raise TypeError(f"the label of a task is a text or a number, got {type(label).__name__}.") from error
    if taken:
        raise ValueError(f"the model has a task {label!r} already. Give the new one another label.")
    if missing_values(np.array([label, None], dtype=object))[0]:
        raise ValueError(f"the label of the new task is missing ({label!r}). Give it one.")


def _mean_offset(task: Task) -> float:
    return 0.0 if task.offset is None else float(np.average(task.offset, weights=task.weight))


def _beside(task: Task, held: Floats | None, level: float) -> Task:
    """The task with what is known of its linear predictor as an offset."""
    if held is None and level == 0.0:
        return task
    more = np.full(len(task.y), level) if held is None else np.asarray(task.X @ held).ravel() + level
    return replace(task, offset=more if task.offset is None else task.offset + more)
