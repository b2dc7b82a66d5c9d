"""The data of a comparison as cells (task, row): who is predicted from what, and what a prediction costs.

A cell's loss is measured in a unit of its task, what it costs to know nothing but the task:

    numbers   (y - f)^2, over the variance of y:  nMSE
    classes   -log p(y), over the entropy of the classes' shares:  relative log-loss
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, polygamma, xlogy
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from .._data.designs import Floats, Ints
from .._data.tasks import Task, TaskData, check_weights
from .._estimators.class_scores import normalised
from .._estimators.fitted import WAYS
from .._paths.cross_validation import Split

EPS = np.finfo(np.float64).eps
LEAST = EPS  # a probability below counts as this: no loss is infinite
OTHER_WAYS = WAYS[1:]  # of predicting new tasks, beside the mean
DIGITS = 64 * EPS  # what a sum of products may lose, relative to targets


@dataclass(frozen=True)
class Measure:
    """What errors are called in words, in four letters and in tables, and what they are."""

    name: str
    short: str
    column: str
    about: str
    nothing: str = "the tasks' means"  # what is predicted by who knows nothing but the task

    @property
    def heading(self) -> str:
        return self.name if any(letter.isupper() for letter in self.name) else self.name.capitalize()


NMSE = Measure("nMSE", "nMSE", "nmse", "squared error over the target's variance")
LOG_LOSS = Measure(
    "relative log-loss",
    "loss",
    "relative_log_loss",
    "log-loss over that of the task's class shares",
    "the tasks' class frequencies",
)


class Numbers:
    """Targets that are numbers."""

    measure = NMSE
    survival = False  # whether targets are times until an event, and errors those of whole tasks
    pairs = False  # whether two classes make an area under the curve
    n_classes = 0

    def given(self, y: Floats) -> np.ndarray:
        """As models are given them; NaN is not measured."""
        return y

    def unit(self, task: Task) -> float:
        return _variance(task.y, task.weight)

    def rounding(self, task: Task, unit: float) -> float:
        """Losses over the unit that rounding can explain: of predictions that keep half of their digits, and of targets
        whose digits are mostly those of their mean."""
        return max(EPS, float(DIGITS * np.abs(task.y).max()) ** 2 / unit) if unit > 0 else EPS

    def of_means(self, y: Floats, task: Ints, weight: Floats, m: int) -> Floats:
        """(m,): the mean of each task."""
        return _ratio(np.bincount(task, weight * y, m), np.bincount(task, weight, m))

    def predict(self, model: Any, X: Any, **options: Any) -> Floats:
        return np.asarray(model.predict(X, **options))

    def losses(self, y: Floats, prediction: Floats) -> Floats:
        return (prediction - y) ** 2

    def of_points(self, y: Floats, values: Floats) -> Floats:
        """(rows, points): losses of predictions (1, rows, points)."""
        with np.errstate(over="ignore"):
            return np.asarray((values[0] - y[:, None]) ** 2)


class Classes:
    """Targets that are codes of classes; predictions are their probabilities."""

    measure = LOG_LOSS
    survival = False

    def __init__(self, classes: np.ndarray):
        self.classes, self.pairs, self.n_classes = classes, len(classes) == 2, len(classes)

    def given(self, y: Floats) -> np.ndarray:
        labels = self.classes[np.nan_to_num(y).astype(np.intp)]
        if y.ndim == 2:
            labels = labels.astype(object)
            labels[np.isnan(y)] = None
        return labels

    def unit(self, task: Task) -> float:
        total = np.bincount(task.y.astype(np.intp), task.weight)
        share = total / total.sum()
        return float(-xlogy(share, share).sum())

    def rounding(self, task: Task, unit: float) -> float:
        return EPS

    def of_means(self, y: Floats, task: Ints, weight: Floats, m: int) -> Floats:
        """(m, K): the shares of the classes in each task."""
        counts = np.stack([np.bincount(task, weight * (y == k), m) for k in range(len(self.classes))], axis=1)
        return _ratio(counts, counts.sum(axis=1, keepdims=True))

    def predict(self, model: Any, X: Any, **options: Any) -> Floats:
        if not np.array_equal(model.classes_, self.classes):
            raise ValueError(
                f"{type(model).__name__} was trained on classes {model.classes_.tolist()} of {self.classes.tolist()}. Use a "
                "number of folds as cv, which keeps all classes in all training rows."
            )
        p = np.asarray(model.predict_proba(X, **options))
        every = getattr(model, "_form", "") == "wide"
        return normalised(p[..., None]) if every and self.pairs else p  # (n, m) of the second class

    def losses(self, y: Floats, prediction: Floats) -> Floats:
        chosen = prediction[np.arange(len(y)), y.astype(np.intp)]
        return np.asarray(-np.log(np.maximum(chosen, LEAST)))

    def of_points(self, y: Floats, values: Floats) -> Floats:
        """(rows, points): losses of probabilities (1, rows, points) of the second class, or (K, rows, points) of each class
        against the rest."""
        p = normalised(np.moveaxis(values, 0, -1))
        chosen = np.take_along_axis(p, y.astype(np.intp)[:, None, None], axis=2)[:, :, 0]
        return np.asarray(-np.log(np.maximum(chosen, LEAST)))

    def second(self, y: Floats, losses: Floats) -> Floats:
        """Probabilities of the second of two classes that have such losses."""
        chosen = np.exp(-np.asarray(losses, dtype=np.float64))
        return np.where(y == 1, chosen, 1.0 - chosen)


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
        return _ratio(total, times, np.nan)

    def _of_equal_hazards(self, splits: Sequence[Split]) -> Floats:
        total, times = np.zeros(len(self.cell_row)), np.zeros(len(self.cell_row))
        beside = np.zeros(len(self.y)) if self.offset is None else self.offset
        for split in splits:
            here = split.test[self.cell_row]
            total[here] += self._of_hazards(split, beside)
            times += here
        return _ratio(total, times, np.nan)

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

    def new_task(self, model: Any, i: int) -> tuple[float, ...]:
        """Errors in a task that was not in the training data, with the mean coefficients of the others: with their mean
        intercept, and with the task's own; then with what the others have in common, and with the mean of those that are
        similar (NaN where the model does not have such a way)."""
        task = self.data.tasks[i]
        if hasattr(model, "unknown_task"):
            model = clone(model).set_params(unknown_task="mean")
        options: dict[str, Any] = {} if task.offset is None else {"offset": task.offset}
        if self.wide:
            others = np.delete(np.arange(self.data.m), i)
            rows = np.flatnonzero(np.isfinite(self.y[:, others]).any(axis=1))
            prediction = self._fit(model, rows, others).predict(task.X, **options).mean(axis=1)
            by_way = [np.full(len(task.y), np.nan)] * len(OTHER_WAYS)
        else:
            rows = np.sort(np.concatenate([other.rows for k, other in enumerate(self.data.tasks) if k != i]))
            assert self.labels is not None
            fitted, options = (
                self._fit(model, rows),
                options | {"task": np.repeat(self.data.labels[i : i + 1], len(task.y))},
            )
            prediction = fitted.predict(task.X, **options)
            by_way = [_by_way(fitted, way, task.X, options) for way in OTHER_WAYS]
        if self.unit[i] == 0:
            return (np.nan,) * (2 + len(OTHER_WAYS))
        known = [np.average(self.kind.losses(task.y, one), weights=task.weight) for one in [prediction, *by_way]]
        errors = [float(error / self.unit[i]) for error in known]
        squared = self.kind.measure == NMSE
        centred = float(_variance(task.y - prediction, task.weight) / self.unit[i]) if squared else np.nan
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


def _ratio(values: np.ndarray, weight: np.ndarray, otherwise: float = 0.0) -> Floats:
    return np.divide(values, weight, out=np.full(np.shape(values), otherwise), where=weight > 0)


def _variance(y: Floats, weight: Floats | None) -> float:
    return float(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)) if np.ptp(y) > 0 else 0.0


def steady_variances(variance: Floats, rows: Ints) -> Floats:
    """Variances (m,) of tasks with so many rows, drawn towards their common value by empirical Bayes: the fewer rows a task
    has, and the less tasks differ beyond chance, the more (G. Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004)."""
    degrees = np.maximum(rows - 1.0, 0.0)
    s2 = np.divide(variance * rows, degrees, out=np.zeros(len(rows)), where=degrees > 0)
    known = s2 > 0
    if known.sum() < 2:
        return variance
    half = 0.5 * degrees[known]
    e = np.log(s2[known]) - digamma(half) + np.log(half)
    beyond = float(e.var(ddof=1) - polygamma(1, half).mean())  # what chance does not explain of their spread
    prior = 2.0 * brentq(lambda x: polygamma(1, x) - beyond, 1e-6, 1e6) if 1e-6 < beyond < 1e12 else np.inf
    if np.isinf(prior):  # no more spread than by chance
        return np.full(len(rows), np.average(s2[known], weights=half))
    common = np.exp(e.mean() + digamma(0.5 * prior) - np.log(0.5 * prior))
    return np.asarray((prior * common + degrees * s2) / (prior + degrees))
