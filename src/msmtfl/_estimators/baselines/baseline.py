"""What baselines share: the fit, folds that a comparison gives, and what was chosen from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..._data.copies import groups_of
from ..._data.designs import Floats
from ..._data.tables import check_finite, unmasked
from ..._data.task_data import TaskData
from ..._objective.losses import Squared
from ..._paths.conformal import FoldFit, HeldOutScores, Stand, held_out_scores
from ..._paths.validation.held_out import Split
from ..._runtime.checks import check_count, check_flag
from ..._runtime.progress import one_blas_thread
from ..._solvers.problems.make_problem import make_problem
from ..fitted import forget, warn_of_task_level
from ..new_tasks import feature_means, ways


@dataclass(frozen=True, eq=False)
class Tried:
    """What a baseline has chosen from, on folds that it was given: its scores (folds, P), the features that its points use
    on all data, and the place of its choice."""

    scores: Floats
    n_features: Floats
    chosen: int


Solved = tuple[Floats, Floats, list[FoldFit]]  # coefficients and intercepts, and fits without each fold


class Baseline:
    """A baseline says how it makes coefficients and intercepts of the tasks (`_solve`); the first axis of both is theirs.

    A comparison may set `cv` to folds (`Split`). What `_takes_folds` then keeps the losses of its points in their records,
    and says in `_tried` what it has chosen from.
    """

    cv: Any
    _tried: Tried | None = None
    _per_task = False  # whether every task has a model of its own
    standardize: bool
    random_state: Any
    coef_: Any
    _read: Callable[..., TaskData]

    def _keep(self, tried: Tried | None) -> None:
        """For the comparison only: what is fitted without one has nothing to keep."""
        if tried is not None:
            self._tried = tried
        elif self._tried is not None:
            del self._tried

    def _takes_folds(self, n_classes: int) -> bool:
        """Whether it has one choice to make for all tasks, which folds can be given for."""
        return False

    _intervals = True  # whether the next fit also makes what intervals need

    def _without_intervals(self) -> Any:
        """The model itself, whose next fits are for predictions alone: fits that only intervals need are not made."""
        self._intervals = False
        return self

    def _separates(self) -> bool:
        return self._per_task

    def _common(self) -> Floats | None:
        """One model for all tasks is what they have in common."""
        return None if self._separates() else np.asarray(self.coef_)[0]

    def _solve(self, data: TaskData, groups: np.ndarray | None) -> Solved:
        raise NotImplementedError

    def _as_fitted(self, data: TaskData) -> TaskData:
        """The data with the targets that are fitted: of classes, each against the rest."""
        return data

    def _scores(self, data: TaskData, without: list[FoldFit], groups: np.ndarray | None) -> HeldOutScores:
        """What intervals are made of."""
        return held_out_scores(data, without, Squared(), groups=groups, ways=self._ways())

    def _ways(self) -> dict[str, Stand]:
        """In which new tasks are predicted, beside the mean."""
        return ways(self, self.feature_means_, self.feature_sd_)

    def fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None, offset: Any = None
    ) -> Any:
        """Choose the strength of the penalty, and fit the model to all samples with it.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (N, d)
            Samples of all tasks. A table or an array may have a column that identifies the task
            (see `task_column`).
        y : array-like of shape (N,) or (N, m)
            Targets, or the classes for a classifier. A 2-D y has one column per task, all of
            them for the same samples X; NaN (or None) means not measured.
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
        object
            The fitted model itself.
        """
        check_flag("standardize", self.standardize)
        if not given_folds(self.cv):
            check_count("cv", self.cv)
        with one_blas_thread():
            if issparse(X):
                raise TypeError(
                    f"Sparse data was passed for X, but {type(self).__name__} takes dense data: X.toarray()."
                )
            data = self._read(X, y, task, sample_weight, offset)
            if data.X.dtype != np.float64:
                data = self._read(np.asarray(unmasked(X), dtype=np.float64), y, task, sample_weight, offset)
            check_finite(data.X, data.features, "X")
            problem = make_problem(
                data, fit_intercept=True, standardize=False, positive=False
            )  # refuses columns out of range
            of_rows = None if groups is None else groups_of(groups, data.X)
            W, b, without = self._solve(data, of_rows)
        forget(self, "held_out_")
        self.feature_means_, self.feature_sd_ = feature_means(problem), problem.feature_sds
        if without:
            together = self.cv[0].groups if given_folds(self.cv) else of_rows
            self.held_out_ = self._scores(data, without, together)
        self._form, self._task_position, self.uses_offset_ = data.form, data.task_position, data.has_offset
        self.tasks_, self.features_ = data.labels, data.features
        targets = self._as_fitted(data).targets
        self.n_samples_, self.n_fitted_tasks_ = np.array([len(one.y) for one in data.tasks]), data.m
        shape = (data.m,) if len(targets) == data.m else (data.m, -1)  # of more than two classes
        self.target_mean_ = np.reshape([target.mean for target in targets], shape)
        self.target_sd_ = np.sqrt(np.reshape([target.variance for target in targets], shape))
        self.learnable_, self.task_level_features_ = problem.learnable, data.features[problem.of_task_level]
        warn_of_task_level(self.task_level_features_)
        single = data.form == "single"
        self.coef_ = W[0] if single else W
        self.intercept_ = (float(b[0]) if b.ndim == 1 else b[0]) if single else b
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = False
        return tags


def held_out_means(records: Sequence[Any], f: int, losses: Floats, weight: Floats) -> Floats:
    """(P,): the means of losses (rows, P) that a fold holds out, which are kept if there is a record of it."""
    if records:
        records[f].keep(losses.T)
    return np.asarray(weight @ losses / weight.sum())


def what_was_tried(records: Sequence[Any], means: list[Floats], n_features: Any, best: int) -> Tried | None:
    return Tried(-np.array(means), np.asarray(n_features, dtype=np.float64), best) if records else None


def given_folds(cv: Any) -> bool:
    """Whether folds were made by a comparison."""
    return isinstance(cv, list) and bool(cv) and all(isinstance(split, Split) for split in cv)


def records_of(cv: Any) -> list[Any]:
    """Where losses of folds are to be kept."""
    kept = [split.record for split in cv] if given_folds(cv) else []
    return [] if None in kept else kept
