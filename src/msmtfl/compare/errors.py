"""The numbers of a comparison: errors of models on the same held-out samples, differences, and their standard errors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from .._data.designs import Floats, Ints
from .._data.tables import choices_of
from .._paths.validation.too_good import PERFECT
from .evidence import Evidence, clear_from, clear_tasks
from .measures import EPS, NMSE, Measure, steady_variances

__all__ = ["Corrected", "Dropped", "HeldOutErrors"]


@dataclass(frozen=True)
class Dropped:
    """Why a model was screened out: on the rows of the first folds its error was larger than that of the best model until
    then, `rival`, by `difference`."""

    error: float
    rival: str
    rival_error: float
    difference: float
    se: float
    folds: int


@dataclass(frozen=True, eq=False)
class Corrected:
    """Errors corrected for having chosen, by bootstrap bias-corrected cross-validation.

    Samples (groups) are drawn again, with replacement. Every draw repeats all choices, and measures what it
    has chosen on the samples that it did not draw; the errors are means over draws.

    Attributes
    ----------
    by_model : ndarray of shape (models,)
        Of every model with the point of its grid that it chooses.
    best : float
        Of the model with the smallest error, whichever that is.
    chosen : dict {"1se" : float, "min" : float}
        Of the model that :class:`MultiTaskAuto` chooses with such a `selection`.
    draws : int
        Number of draws.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import compare_models
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 5)), np.repeat([0, 1, 2], 30)
    >>> y = 2 * X[:, 0] + rng.standard_normal(90)
    >>> found = compare_models(X, y, task=task, models=["lasso", "pooled lasso"], cv=3)
    >>> found.corrected.draws > 0
    True
    """

    by_model: Floats
    best: float
    chosen: dict[str, float]
    draws: int


@dataclass(frozen=True, eq=False, repr=False)
class HeldOutErrors:
    """What a :class:`Comparison` knows: its attributes are described there."""

    models: list[str]
    reference: str
    tasks: np.ndarray
    errors: Floats  # (models, cells) losses
    cell_task: np.ndarray
    cell_weight: Floats
    cell_cluster: np.ndarray
    unit: Floats  # (m,) losses of knowing nothing
    n_features: Floats
    seconds: Floats
    n_splits: int
    rows: Ints | None = None  # (m,) of the tasks, which their units are of; by default as many as were held out
    held_per_trained: float = 0.0  # rows held out in all, over those that a model is trained on
    new_task: Floats | None = field(default=None)
    measure: Measure = NMSE
    auc_by_task: Floats | None = None
    screened: dict[str, Dropped] = field(default_factory=dict)
    rounding: Floats | None = None  # (m,) differences of errors that rounding can explain
    means: Floats | None = None  # (cells,) losses of predicting the task's mean, or its class shares, of training rows
    nested: bool = False
    corrected: Corrected | None = None
    chosen_errors: Floats | None = None  # (models, cells) losses at the parameters that all folds choose
    odd_tasks: dict[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def _weights(self) -> Floats:
        """(cells,): a cell's weight, 0 in tasks with constant targets"""
        return np.where(self.unit[self.cell_task] > 0, self.cell_weight, 0.0)

    @cached_property
    def n_clusters(self) -> int:
        """Number of samples (groups) held out that count."""
        return len(np.unique(self.cell_cluster[self._weights > 0]))

    @cached_property
    def _of_task(self) -> Floats:
        """(m,): sums of the weights"""
        return np.asarray(np.bincount(self.cell_task, self._weights, len(self.tasks)), dtype=np.float64)

    @cached_property
    def _scaled(self) -> Floats:
        """(models, cells): losses over the task's unit"""
        unit = np.where(self.unit > 0, self.unit, 1.0)
        return self.errors / unit[self.cell_task]

    def _mean_by_task(self, values: Floats) -> Floats:
        total = np.array([np.bincount(self.cell_task, row * self._weights, len(self.tasks)) for row in values])
        return np.divide(total, self._of_task, out=np.full(total.shape, np.nan), where=self._of_task > 0)

    def _overall(self, by_task: Floats) -> Floats:
        return np.asarray(np.nan_to_num(by_task) @ self._of_task / self._of_task.sum())

    @cached_property
    def error_by_task(self) -> Floats:
        """Held-out error of every model in every task, (models, m); NaN where a task has none."""
        return self._mean_by_task(self._scaled)

    @cached_property
    def error(self) -> Floats:
        """Held-out error of every model, (models,)."""
        return self._overall(self.error_by_task)

    @property
    def nmse_by_task(self) -> Floats:
        """Held-out errors by task, (models, m), if they are nMSE."""
        return self._squared("error_by_task")

    @property
    def nmse(self) -> Floats:
        """Held-out errors, (models,), if they are nMSE."""
        return self._squared("error")

    def _squared(self, name: str) -> Floats:
        if self.measure != NMSE:
            raise AttributeError(f"errors of these models are no nMSE: {name} holds their {self.measure.name}.")
        return np.asarray(getattr(self, name))

    @property
    def auc(self) -> Floats | None:
        """Area under the ROC curve of every model, (models,); None unless there are two classes."""
        if self.auc_by_task is None:
            return None
        known = np.where(np.isfinite(self.auc_by_task), self._of_task, 0.0)
        return np.asarray((np.nan_to_num(self.auc_by_task) * known).sum(axis=1) / known.sum(axis=1))

    @cached_property
    def _differences(self) -> Floats:
        return self._scaled - self._scaled[self.models.index(self.reference)]

    @cached_property
    def difference_by_task(self) -> Floats:
        """Error less that of the reference, by task, (models, m)."""
        found = self._mean_by_task(self._differences)
        return np.where(np.abs(found) <= (EPS if self.rounding is None else self.rounding), 0.0, found)

    @cached_property
    def difference(self) -> Floats:
        """Error less that of the reference, (models,)."""
        return self._overall(self.difference_by_task)

    @cached_property
    def _clusters(self) -> np.ndarray:
        """(m,): how many rows (groups) of each task were held out"""
        used = self._weights > 0
        m, place = len(self.tasks), np.unique(self.cell_cluster[used], return_inverse=True)[1].ravel()
        pairs = np.unique(place * m + self.cell_task[used])  # as numbers: rows of two take far longer to sort
        return np.bincount(pairs % m, minlength=m)

    @cached_property
    def _influence(self) -> Floats:
        """(models, cells): weighted differences less their task's mean, widened for having estimated it. A task with a
        single cluster has no spread of its own: it is compared with the mean over all tasks."""
        alone = self._clusters < 2
        centre = np.where(alone, self.difference[:, None], np.nan_to_num(self.difference_by_task))
        n = np.maximum(self._clusters, 2)
        factor = np.where(alone, 1.0, np.sqrt(n / (n - 1.0)))
        return (self._differences - centre[:, self.cell_task]) * self._weights * factor[self.cell_task]

    def _spread(self, cells: np.ndarray) -> Floats:
        """(models,): root of the sum of squares of clusters' influences, over some cells"""
        clusters, place = np.unique(self.cell_cluster[cells], return_inverse=True)
        sums = np.array([np.bincount(place.ravel(), row, len(clusters)) for row in self._influence[:, cells]])
        return np.asarray(np.sqrt((sums**2).sum(axis=1)))

    @property
    def _wider(self) -> float:
        """By how much differences of models trained on other rows vary more than those of the models that there are."""
        return float(np.sqrt(1.0 + self.held_per_trained))

    @cached_property
    def se_of_rows(self) -> Floats:
        """Standard errors of the differences for these very models on other samples, (models,)."""
        return self._spread(np.arange(len(self.cell_task))) / self._of_task.sum()

    @cached_property
    def se(self) -> Floats:
        """Standard errors of the differences, for new data, (models,)."""
        return self._wider * self.se_of_rows

    @property
    def se_of_families(self) -> Floats:
        """Another name of `se`."""
        return self.se

    @cached_property
    def se_by_task(self) -> Floats:
        """Standard errors of the differences by task, for new data, (models, m)."""
        return self._wider * self.se_of_rows_by_task

    @cached_property
    def se_of_rows_by_task(self) -> Floats:
        """Standard errors of the differences by task for these very models on other samples, (models, m)."""
        order = np.argsort(self.cell_task, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(self.cell_task, minlength=len(self.tasks)))[:-1])
        spread = np.stack([self._spread(part) for part in parts], axis=1)
        enough = (self._of_task > 0) & (self._clusters > 1)
        return np.divide(spread, self._of_task, out=np.full(spread.shape, np.nan), where=enough)

    @cached_property
    def _clear(self) -> Floats:
        """(m,): standard errors from which a task's difference counts as clear"""
        return clear_from(self._clusters)

    @cached_property
    def _standing_by_task(self) -> Ints:
        """(models, m): -1 for tasks that clearly gain, 1 for those that clearly lose, else 0"""
        return clear_tasks(self.difference_by_task, self.se_by_task, self._clusters)

    @property
    def gains(self) -> np.ndarray:
        """Tasks with clearly less error than by the reference, (models, m) bool."""
        return np.asarray(self._standing_by_task < 0)

    @property
    def loses(self) -> np.ndarray:
        """Tasks with clearly more error than by the reference, (models, m) bool."""
        return np.asarray(self._standing_by_task > 0)

    @property
    def best(self) -> str:
        """The model with the smallest error."""
        return self.models[int(np.argmin(self.error))]

    def evidence(self, model: str, than: str | None = None) -> Evidence:
        """Tell what can be concluded about a model, compared with another.

        The conclusion, `standing`, is "better", "worse" or "not clear", by the total, its standard error and
        the tasks together.

        Parameters
        ----------
        model : str
            The name of the model.
        than : str, optional
            The name of the other model; by default the reference.

        Returns
        -------
        Evidence
            The difference, and what it allows to conclude.
        """
        for name in (model, than or self.reference):
            if name not in self.models:
                raise ValueError(f"no model {name!r}: {choices_of(name, self.models)}.")
        if than not in (None, self.reference):
            return replace(self, reference=str(than)).evidence(model)
        k, base = self.models.index(model), self.models.index(self.reference)
        return Evidence(
            difference=float(self.difference[k]),
            se=float(self.se[k]),
            base=float(self.error[base]),
            reach=float(clear_from(self.n_clusters) * self.se[k]) if self.n_clusters > 1 else np.inf,
            by_task=self.difference_by_task[k],
            base_by_task=self.error_by_task[base],
            weight=self._of_task,
            tasks=self.tasks,
        )

    def over_means(self, model: str | None = None) -> Evidence | None:
        """Compare a model with predicting every task's mean, or its class shares.

        Parameters
        ----------
        model : str, optional
            The name of a model, by default that of the best.

        Returns
        -------
        Evidence or None
            What can be concluded; None if the losses of means are not known.
        """
        if self.means is None:
            return None
        k = self.models.index(self.best if model is None else model)
        names, errors = ["model", "means"], np.stack([self.errors[k], self.means])
        return replace(self, models=names, reference="means", errors=errors).evidence("model")

    @property
    def perfect(self) -> np.ndarray:
        """Tasks that some model predicts better than any measurement allows, (m,) bool."""
        with np.errstate(invalid="ignore"):
            return np.asarray((self.error_by_task < PERFECT).any(axis=0))

    @property
    def dropped(self) -> dict[str, float]:
        """The models that were screened out, with their error on the folds until then."""
        return {name: one.error for name, one in self.screened.items()}

    @property
    def steadied(self) -> Self:
        """This comparison with the variances of small tasks drawn towards the others'."""
        if self.measure != NMSE:
            return self
        rows = np.bincount(self.cell_task, minlength=len(self.tasks)) if self.rows is None else self.rows
        return replace(self, unit=steady_variances(self.unit, rows))

    @property
    def at_choice(self) -> Self:
        """This comparison at the parameters that all folds choose together."""
        if self.chosen_errors is None:
            return self
        return replace(self, errors=self.chosen_errors, chosen_errors=None)

    @property
    def new_task_nmse(self) -> Floats | None:
        """The nMSE of tasks left out as a whole, predicted with the others' mean intercept, or None."""
        return None if self.new_task is None else self.new_task[:, :, 0]

    @property
    def new_task_nmse_centred(self) -> Floats | None:
        """The nMSE of tasks left out as a whole, predicted with their own intercept; None if not asked for."""
        return None if self.new_task is None else self.new_task[:, :, 1]

    @property
    def new_task_nmse_common(self) -> Floats | None:
        """The nMSE of tasks left out as a whole, predicted by what the others have in common, or None."""
        return None if self.new_task is None else self.new_task[:, :, 2]

    @property
    def new_task_nmse_similar(self) -> Floats | None:
        """The nMSE of tasks left out as a whole, predicted by the others that are similar, or None."""
        return None if self.new_task is None else self.new_task[:, :, 3]
