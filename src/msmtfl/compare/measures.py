"""What a prediction costs, and in which unit: what it costs to know nothing but the task.

    numbers   (y - f)^2, over the variance of y:  nMSE
    classes   -log p(y), over the entropy of the classes' shares:  relative log-loss

`of_losses.py` has the measures under other losses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, polygamma, xlogy

from .._data.designs import Floats, Ints
from .._data.task_data import Task
from .._estimators.classification.class_scores import normalised

EPS = np.finfo(np.float64).eps
LEAST = EPS  # a probability below counts as this: no loss is infinite
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
        return variance_of(task.y, task.weight)

    def rounding(self, task: Task, unit: float) -> float:
        """Losses over the unit that rounding can explain: of predictions that keep half of their digits, and of targets
        whose digits are mostly those of their mean."""
        return max(EPS, float(DIGITS * np.abs(task.y).max()) ** 2 / unit) if unit > 0 else EPS

    def of_means(self, y: Floats, task: Ints, weight: Floats, m: int) -> Floats:
        """(m,): the mean of each task."""
        return ratio(np.bincount(task, weight * y, m), np.bincount(task, weight, m))

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
        return ratio(counts, counts.sum(axis=1, keepdims=True))

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


def ratio(values: np.ndarray, weight: np.ndarray, otherwise: float = 0.0) -> Floats:
    """Values over weights; `otherwise` where there is no weight."""
    return np.divide(values, weight, out=np.full(np.shape(values), otherwise), where=weight > 0)


def variance_of(y: Floats, weight: Floats | None) -> float:
    """The variance of weighted targets; 0 if they are all the same."""
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
