"""The data of a comparison as cells (task, row): who is predicted from what. (`measures.py` has what a prediction costs.)"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from .._data.designs import Floats
from .._data.task_data import TaskData
from .._data.tasks import check_weights
from .._estimators.fitted import WAYS
from .._paths.validation.held_out import Split
from .measures import NMSE, Classes, Numbers, ratio, variance_of

OTHER_WAYS = WAYS[1:]  # of predicting new tasks, beside the mean


@dataclass(frozen=True, eq=False)
class OfFold:
    """What a model makes of the rows that a fold holds out: the losses of their cells, of two classes the probabilities of
    the second, whether all predictions are finite; features used and seconds of its fit."""

    losses: Floats
    second: Floats | None
    finite: bool
    features: float
    seconds: float


@dataclass(frozen=True)
class Gathered:
    """Losses (models, cells), averaged where a row was held out more than once; features used and seconds of a fit, means
    over folds (models,); of two classes the area under the curve (models, m), over pairs of rows of the same fold."""

    errors: Floats
    n_features: Floats
    seconds: Floats
    auc: Floats | None


class Cells:
    """The data as cells (task, row): who is predicted from what."""

    def __init__(self, data: TaskData, kind: Numbers | Classes, sample_weight: Any, groups: np.ndarray | None):
        self.data, self.kind, self.groups = data, kind, groups
        N = data.X.shape[0]
        self.wide = data.form == "wide"
        self.y = np.full((N, data.m) if self.wide else N, np.nan)
        self.labels = None if data.form != "long" else np.empty(N, dtype=data.labels.dtype)
        self.weight = check_weights(sample_weight, self.y.shape)
        self.offset = np.zeros(self.y.shape) if data.has_offset else None
        cells: list[tuple[np.ndarray, ...]] = []
        for i, task in enumerate(data.tasks):
            self.y[(task.rows, i) if self.wide else task.rows] = task.y
            if self.offset is not None:
                self.offset[(task.rows, i) if self.wide else task.rows] = task.offset
            if self.labels is not None:
                self.labels[task.rows] = data.labels[i]
            weight = np.ones(len(task.y)) if task.weight is None else task.weight
            cells.append((np.full(len(task.y), i), task.rows, weight))
        self.cell_task, self.cell_row, self.cell_weight = (np.concatenate(part) for part in zip(*cells, strict=True))
        self.given = kind.given(self.y)
        clusters = np.arange(N) if groups is None else groups
        self.cell_cluster = np.unique(clusters[self.cell_row], return_inverse=True)[1].ravel()
        to_explain = data.less_offset() if data.offset_of_targets else data
        self.unit = np.array([kind.unit(task) for task in to_explain.tasks])
        self.rounding = np.array([kind.rounding(*pair) for pair in zip(data.tasks, self.unit, strict=True)])
        if not (self.unit > 0).any():
            raise ValueError("the targets of all tasks are constant: there is nothing to compare.")

    def _fit(self, model: Any, rows: np.ndarray, tasks: np.ndarray | None = None) -> Any:
        """A clone of the model fitted on some rows (and, of a 2-D y, some tasks)."""
        used = rows[np.isfinite(self.y[rows]).any(axis=1)] if self.wide else rows
        y = self.given[used] if tasks is None or not self.wide else self.given[np.ix_(used, tasks)]
        options: dict[str, Any] = {}
        if self.labels is not None:
            options["task"] = self.labels[used]
        for name, values in (("sample_weight", self.weight), ("offset", self.offset)):
            if values is not None:
                part = values[used]
                options[name] = part if part.ndim == 1 or tasks is None else part[:, tasks]
        model = clone(model)
        if hasattr(model, "_without_intervals"):
            model = model._without_intervals()
        if getattr(model, "task_column", None) is not None:  # labels are given beside X here
            model.set_params(task_column=None)
        if self.groups is not None and "groups" in inspect.signature(model.fit).parameters:
            options["groups"] = self.groups[used]
        try:
            return model.fit(self.data.X[used], y, **options)
        except ValueError:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.data.rows(centre=True)  # columns out of range are called by their names here, not by their places
            raise

    def held_out(self, model: Any, split: Split) -> OfFold:
        """A model that is fitted on the training rows, on the rows held out."""
        began = time.perf_counter()
        used = np.asarray(self.data.membership.any(axis=1))
        fitted = self._fit(model, np.flatnonzero(split.train & used))
        seconds = time.perf_counter() - began
        if self.kind.survival:
            rows = np.flatnonzero((split.train | split.test) & used)
            given = {} if self.labels is None else {"task": self.labels[rows]}
            given |= {} if self.offset is None else {"offset": self.offset[rows]}
            f = np.zeros(len(used))
            f[rows] = fitted.predict(self.data.X[rows], **given)
            losses = self._of_hazards(split, f)
            return OfFold(losses, None, bool(np.isfinite(f).all()), features_used(fitted), seconds)
        test, here = np.flatnonzero(split.test & used), split.test[self.cell_row]
        options = {} if self.labels is None else {"task": self.labels[test]}
        if self.offset is not None:
            options["offset"] = self.offset[test]
        prediction = self.kind.predict(fitted, self.data.X[test], **options)
        every = np.full((len(used), *prediction.shape[1:]), np.nan)
        every[test] = prediction
        value = (every[self.cell_row, self.cell_task] if self.wide else every[self.cell_row])[here]
        return OfFold(
            losses=self.kind.losses(self._targets[here], value),
            second=value[:, 1] if self.kind.pairs else None,
            finite=bool(np.isfinite(value).all()),
            features=features_used(fitted),
            seconds=seconds,
        )

    def of_point(self, split: Split, losses: Floats, features: float, seconds: float) -> OfFold:
        """The same of losses that are known."""
        second = None
        if isinstance(self.kind, Classes) and self.kind.pairs:
            second = self.kind.second(self._targets[split.test[self.cell_row]], losses)
        return OfFold(np.asarray(losses, dtype=np.float64), second, not np.isnan(losses).any(), features, seconds)

    @property
    def _targets(self) -> Floats:
        return self.y[self.cell_row, self.cell_task] if self.wide else self.y[self.cell_row]

    @property
    def _to_explain(self) -> Floats:
        """The targets, less the offset where that is in their units."""
        if self.offset is None or not self.data.offset_of_targets:
            return self._targets
        wide = self.offset.ndim == 2
        return self._targets - (self.offset[self.cell_row, self.cell_task] if wide else self.offset[self.cell_row])

    def of_means(self, splits: Sequence[Split]) -> Floats:
        """(cells,): losses of predicting the mean of the task's training rows (of classes their shares) beside the offset,
        averaged where a row was held out more than once; NaN where it never was."""
        if self.kind.survival:
            return self._of_equal_hazards(splits)
        total, times, targets = np.zeros(len(self.cell_row)), np.zeros(len(self.cell_row)), self._to_explain
        for split in splits:
            train, test = split.train[self.cell_row], split.test[self.cell_row]
            weight = np.where(train, self.cell_weight, 0.0)
            known = self.kind.of_means(targets, self.cell_task, weight, self.data.m)
            total[test] += self.kind.losses(targets[test], known[self.cell_task[test]])
            times += test
        return ratio(total, times, np.nan)

    def _of_equal_hazards(self, splits: Sequence[Split]) -> Floats:
        total, times = np.zeros(len(self.cell_row)), np.zeros(len(self.cell_row))
        beside = np.zeros(len(self.y)) if self.offset is None else self.offset
        for split in splits:
            here = split.test[self.cell_row]
            total[here] += self._of_hazards(split, beside)
            times += here
        return ratio(total, times, np.nan)

    def _of_hazards(self, split: Split, f: Floats) -> Floats:
        """Errors of the cells that a fold holds out, at linear predictors f (N,) of all rows."""
        kind: Any = self.kind
        parts = []
        for task in self.data.tasks:
            train, test = split.train[task.rows], split.test[task.rows]
            parts.append(kind.held_out(task, train, test, f[task.rows]) if test.any() else np.zeros(0))
        return np.concatenate(parts)

    def gather(self, folds: list[list[OfFold]], splits: Sequence[Split], names: list[str]) -> Gathered:
        """What all folds together say of the models."""
        count = len(folds[0])
        total, times = np.zeros((count, len(self.cell_row))), np.zeros(len(self.cell_row))
        pairs = np.zeros((2, count, self.data.m))  # of rows of different classes: in the right order, and all
        for f, (split, fold) in enumerate(zip(splits, folds, strict=True)):
            here = split.test[self.cell_row]
            for k, part in enumerate(fold):
                if not part.finite:
                    raise ValueError(f"model {names[k]!r} predicts NaN or infinity for a row held out by fold {f}.")
                total[k, here] += part.losses
                if part.second is not None:
                    pairs[:, k] += self._pairs(here, self._targets[here], part.second)
            times += here
        with np.errstate(invalid="ignore"):
            errors = np.where(times > 0, total / times, np.nan)
            auc = pairs[0] / pairs[1] if self.kind.pairs else None
        features, seconds = (
            np.mean([[getattr(part, name) for part in fold] for fold in folds], axis=0)
            for name in ("features", "seconds")
        )
        return Gathered(errors, features, seconds, auc)

    def _pairs(self, here: np.ndarray, target: Floats, p: Floats) -> Floats:
        """(2, m): weights of the pairs of rows of different classes that a fold holds out of each task: those in the right
        order, and all."""
        out = np.zeros((2, self.data.m))
        of_task, weight = self.cell_task[here], self.cell_weight[here]
        for i in range(self.data.m):
            at = of_task == i
            every = float(np.prod(np.bincount(target[at].astype(np.intp), weight[at], 2)))
            if every > 0:
                out[:, i] = every * roc_auc_score(target[at], p[at], sample_weight=weight[at]), every
        return out

    def new_tasks(self, model: Any, tasks: Sequence[int]) -> list[tuple[float, ...]]:
        """Errors in each of some tasks that were not in the training data, with the mean coefficients of the others: with
        their mean intercept, and with the task's own; then with what the others have in common, and with the mean of those
        that are similar (NaN where the model does not have such a way)."""
        if hasattr(model, "unknown_task"):
            model = clone(model).set_params(unknown_task="mean")
        others = np.setdiff1d(np.arange(self.data.m), tasks)
        if self.wide:
            rows = np.flatnonzero(np.isfinite(self.y[:, others]).any(axis=1))
            fitted = self._fit(model, rows, others)
        else:
            assert self.labels is not None
            rows = np.sort(np.concatenate([self.data.tasks[k].rows for k in others]))
            fitted = self._fit(model, rows)
        return [self._in_new_task(fitted, i) for i in tasks]

    def _in_new_task(self, fitted: Any, i: int) -> tuple[float, ...]:
        """The errors of a model that was fitted without a task."""
        task = self.data.tasks[i]
        options: dict[str, Any] = {} if task.offset is None else {"offset": task.offset}
        if self.wide:
            prediction = fitted.predict(task.X, **options).mean(axis=1)
            by_way = [np.full(len(task.y), np.nan)] * len(OTHER_WAYS)
        else:
            options |= {"task": np.repeat(self.data.labels[i : i + 1], len(task.y))}
            prediction = fitted.predict(task.X, **options)
            by_way = [_by_way(fitted, way, task.X, options) for way in OTHER_WAYS]
        if self.unit[i] == 0:
            return (np.nan,) * (2 + len(OTHER_WAYS))
        known = [np.average(self.kind.losses(task.y, one), weights=task.weight) for one in [prediction, *by_way]]
        errors = [float(error / self.unit[i]) for error in known]
        squared = self.kind.measure == NMSE
        centred = float(variance_of(task.y - prediction, task.weight) / self.unit[i]) if squared else np.nan
        return errors[0], centred, *errors[1:]


def _by_way(fitted: Any, way: str, X: Any, options: dict[str, Any]) -> Any:
    """Predictions of a new task in another way than by the mean; NaN if the model does not have it."""
    able = hasattr(fitted, "feature_means_") and (way != "common" or fitted._common() is not None)
    if not able:
        return np.full(X.shape[0], np.nan)
    return copy(fitted).set_params(unknown_task=way).predict(X, **options)


def features_used(fitted: Any) -> float:
    """How many features a fitted model uses in any task; NaN if it has no coefficients."""
    coef = getattr(fitted, "coef_", None)
    return np.nan if coef is None else float(np.reshape(coef, (-1, np.shape(coef)[-1])).any(axis=0).sum())
