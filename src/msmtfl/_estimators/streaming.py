"""Models that can be fitted from statistics, fed in batches, and given one more task later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from .._data.moment_data import MomentData
from .._data.moments import Moments, add_rows
from .._data.parquet import Rows
from .._data.tables import is_table, label_array, missing_values, opened, warn_user
from .._data.tasks import Task, read_training
from .._objective.certificates import explain
from .._objective.penalties import ConcaveEntries, counted
from .._objective.problem import Problem
from .._objective.shapes import read_shape
from .._runtime.progress import one_blas_thread
from .._runtime.whole import whole_or_untouched
from .._solvers.make_problem import make_problem
from .._solvers.solvers import solver_for
from .._solvers.stages import UNSOLVED, Stage, run_stages
from .base import MultiTaskLinear, importances, level_prior, loss_of, require_offset
from .new_tasks import feature_means


class Growing(MultiTaskLinear):
    """Fitting from statistics."""

    def fit_moments(self, moments: Any) -> Any:
        """Fit the model from statistics of the samples, which gives what the samples give.

        Parameters
        ----------
        moments : Moments or list of Moments
            The statistics (see :class:`Moments`); a list of them, one per fold, for a model that
            cross-validates.

        Returns
        -------
        object
            The fitted model itself. Tables to predict have the columns of the first batch; where there was
            none (statistics from a file) the column that identifies the task comes last.
        """
        if not isinstance(moments, (Moments, list, tuple)):
            raise TypeError(f"expected Moments, or a list of them, one per fold; got {type(moments).__name__}.")
        parts = [moments] if isinstance(moments, Moments) else list(moments)
        return self.fit(MomentData(parts, self.task_column), None)


def _from_statistics(model: Any) -> bool:
    if loss_of(model) != "squared":
        raise AttributeError(
            f"statistics of batches serve squared loss only, not loss={model.loss!r}: fit to all rows."
        )
    return True


class Batchwise(Growing):
    """Fitting batch by batch."""

    moments_: Moments

    @available_if(_from_statistics)
    @whole_or_untouched
    def partial_fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> Any:
        """Add a batch of samples to those given to `partial_fit` before, and fit to all of them, exactly.

        Only statistics of the samples are kept, in `moments_`. A call of `fit` starts anew.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (N, d)
            Samples of all tasks. A table or an array may have a column that identifies the task
            (see `task_column`).
        y : array-like of shape (N,) or (N, m)
            Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
            means not measured.
        task : array-like of shape (N,), optional
            The label of the task of every sample, if the tasks are not a column of X.
        sample_weight : array-like of shape (N,) or (N, m), optional
            Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.

        Returns
        -------
        object
            The fitted model itself.
        """
        X = opened(X)
        goes_on = hasattr(self, "moments_")
        if goes_on and not is_table(X):  # a table's columns are found by their names
            validate_data(self, X, reset=False, skip_check_array=True)
        moments = self.moments_.copy() if goes_on else Moments()
        moments.update(X, y, task=task, task_column=self.task_column, sample_weight=sample_weight)
        self.fit_moments(moments)
        self.moments_ = moments
        return self


def _check_label(label: Any, known: list[Any]) -> None:
    """Whether a new task can have this label."""
    try:
        taken = label in set(known)
    except TypeError as error:
        raise TypeError(f"the label of a task is a text or a number, got {type(label).__name__}.") from error
    if taken:
        raise ValueError(f"the model has a task {label!r} already. Give the new one another label.")
    if missing_values(np.array([label, None], dtype=object))[0]:
        raise ValueError(f"the label of the new task is missing ({label!r}). Give it one.")


class Welcoming(Growing):
    """Models whose rows do not couple the tasks once it is known which are free: a task can be added."""

    def add_task(self, X: Any, y: Any, label: Any, *, sample_weight: Any = None, offset: Any = None) -> Any:
        r"""Fit one more task with what was learned about the features; the other tasks are not touched.

        .. math::
            \min_w \frac{1}{m n} \|Xw - y\|^2 + \sum_j \lambda_j f_j |w_j|

        with :math:`\lambda_j` = 0 for the features that the fit left free and lam for the others (lam times
        `row_slopes_`), and the m of the fit; the bi-level model adds its penalty on single coefficients, with
        stages of its own. The new task comes last in `coef_`, `intercept_` and `tasks_`; in all `stages_` but
        the last its coefficients are 0.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (n, d)
            Samples of the new task, with the model's features and without a column that
            identifies the task.
        y : array-like of shape (n,)
            Targets of the new task.
        label : str or number
            The label of the new task; the model must not have a task with this label.
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
        if loss_of(self) != "squared":
            raise ValueError(f"a task can be added with squared loss only, not with loss={self.loss!r}: fit again.")
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
        _check_label(label, self.tasks_.tolist())
        with one_blas_thread():
            problem = self._newcomer(X, y, sample_weight, offset)
            penalty = ConcaveEntries(
                self.lam_,
                np.inf,
                problem.factors,
                read_shape(getattr(self, "penalty", "capped")),
                getattr(self, "lam_entry_", 0.0),
                getattr(self, "theta_entry_", np.inf),
                self.row_slopes_,
                l1_ratio=problem.l1_ratio,
            )
            # on the scale of all tasks, as below
            lam = self.n_fitted_tasks_ * (penalty.lam + penalty.lam_entry)
            solver = solver_for(problem, penalty, lam=lam)
            solver.scale = np.array([[0.5 * self.n_fitted_tasks_ * problem.designs[0].n]])
            most, max_iter = getattr(self, "max_stages", 1), self.max_iter or 0
            solution = run_stages(penalty, solver, max_stages=most, tol=self.tol, max_iter=max_iter)
        self._append(label, problem, solution.stages[-1])
        if hasattr(self, "moments_"):
            self.moments_ = self._remembered(label, problem.data.tasks[0])
        return self

    def _remembered(self, label: Any, task: Task) -> Moments:
        """The statistics of all batches, with those of a task that was added: the next batch keeps it."""
        moments = self.moments_.copy()
        rows = [Rows(label, 0, task.X, task.y, task.weight)]
        add_rows([moments], rows, self.features_, [label], named=moments.named, form=moments.form)
        return moments

    def _newcomer(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Problem:
        data = read_training(X, y, sample_weight=sample_weight, offset=offset)
        if data.form != "single":
            raise ValueError(
                f"add_task takes one task at a time: y must be 1-D, one value per row; it has {data.m} columns."
            )
        if data.d != len(self.features_):
            raise ValueError(f"X has {data.d} features, the model {len(self.features_)} (without the task column).")
        named = hasattr(X, "columns")
        if named and [str(name) for name in X.columns] != [str(name) for name in self.features_]:
            raise ValueError(
                "the columns of X are not the model's features, or in another order. They are in features_."
            )
        factors = self.penalty_factors
        if np.ndim(factors) == 2:
            raise ValueError(
                "penalty_factors differ between the tasks, so those of a new one are not known. Fit again."
            )
        bounds = self._bounds()
        if bounds is not None and any(np.ndim(one) == 2 for one in bounds):
            raise ValueError("bounds differ between the tasks, so those of a new one are not known. Fit again.")
        return make_problem(
            data,
            fit_intercept=self.fit_intercept,
            standardize=self.standardize,
            positive=getattr(self, "positive", False),
            penalty_factors=factors,
            l1_ratio=self._chosen_l1_ratio(),
            intercepts="task" if (prior := level_prior(self)) is None else "shrunk",  # to what the others have found
            prior=prior,
            bounds=bounds,
        )

    def _append(self, label: Any, problem: Problem, outcome: Stage) -> None:
        w, target = outcome.coef, problem.data.targets[0]
        self.tasks_ = label_array([*self.tasks_.tolist(), label])
        self.coef_ = np.vstack([self.coef_, w])
        self.intercept_ = np.append(self.intercept_, problem.designs[0].intercepts(w))
        self.n_samples_ = np.append(self.n_samples_, target.rows)
        if hasattr(self, "learnable_"):  # a model from an old file does not know
            self.learnable_ = np.vstack([self.learnable_, problem.learnable])
            of_level = np.isin(self.features_, self.task_level_features_) & ~problem.learnable[0]
            self.task_level_features_ = self.features_[of_level]
        if hasattr(self, "feature_means_"):
            self.feature_means_ = np.vstack([self.feature_means_, feature_means(problem)])
        self.target_mean_ = np.append(self.target_mean_, target.mean)
        self.target_sd_ = np.append(self.target_sd_, np.sqrt(target.variance))
        self.stages_ = [
            replace(
                stage,
                coef=np.vstack([stage.coef, w if stage is self.stages_[-1] else np.zeros_like(w)]),
                ambiguous=(*stage.ambiguous, *outcome.ambiguous),
            )
            for stage in self.stages_
        ]
        named = (
            {label: [str(name) for name in self.features_[outcome.ambiguous[0]]]} if outcome.ambiguous[0].size else {}
        )
        self.row_norms_ = self.row_norms_ + counted(problem.factors)[:, 0] * np.abs(w[0])
        self.feature_importances_ = importances(self.row_norms_, self._task_position)
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
            doubt = explain(outcome.doubt, [label], self.features_)
            self.converged_ = False
            self.stopping_reason_ = f"{UNSOLVED.format(outcome.stage, outcome.dual_gap, self.tol)}: {doubt}"
            self.certificate_ = replace(self.certificate_, doubt=doubt)
            warn_user(self.stopping_reason_ + ".", ConvergenceWarning)
