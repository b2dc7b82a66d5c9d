"""What errors are in a comparison of models with another loss than the squared one.

poisson, gamma, tweedie   the unit deviance of the prediction, over that of the task's mean
huber                     |y - f|, over that of the task's median: no outlier decides
cox                       what held-out samples add to the partial likelihood of the training samples (Verweij and van
                          Houwelingen), over what they add where all hazards are the same
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.designs import Floats, Ints
from .._data.task_data import Task
from .._objective.losses import LOGISTIC, Loss, is_loss, loss_named, of_regressions, weighted_median
from .._objective.survival import Cox, held_out
from .measures import EPS, Measure, Numbers

DEVIANCE = Measure("relative deviance", "dev.", "relative_deviance", "deviance over that of the task's mean")
ABSOLUTE = Measure(
    "relative absolute error",
    "abs.",
    "relative_absolute_error",
    "absolute error over that of the task's median",
    "the tasks' medians",
)
HAZARDS = Measure(
    "relative partial deviance",
    "dev.",
    "relative_partial_deviance",
    "held-out partial deviance over that of equal hazards",
    "equal hazards",
)
TINY = float(np.finfo(np.float64).tiny)


class Deviance(Numbers):
    """Targets whose mean is the exponential of the linear predictor."""

    measure = DEVIANCE

    def __init__(self, loss: Loss):
        self.loss = loss

    def unit(self, task: Task) -> float:
        mean = np.full(len(task.y), np.average(task.y, weights=task.weight))
        return float(np.average(self.losses(task.y, mean), weights=task.weight)) if np.ptp(task.y) > 0 else 0.0

    def rounding(self, task: Task, unit: float) -> float:
        return EPS

    def losses(self, y: Floats, prediction: Floats) -> Floats:
        level = np.log(np.maximum(prediction, TINY))  # a mean of 0 where y > 0 would cost infinity
        return 2.0 * np.asarray(self.loss.value(y, level))

    def of_points(self, y: Floats, values: Floats) -> Floats:
        return self.losses(np.broadcast_to(y[:, None], values[0].shape), values[0])


class Absolute(Numbers):
    """Targets with outliers."""

    measure = ABSOLUTE

    def unit(self, task: Task) -> float:
        v = np.ones(len(task.y)) if task.weight is None else task.weight
        return float(np.average(np.abs(task.y - weighted_median(task.y, v)), weights=v))

    def rounding(self, task: Task, unit: float) -> float:
        return EPS

    def of_means(self, y: Floats, task: Ints, weight: Floats, m: int) -> Floats:
        """(m,): the median of each task; 0 of a task without rows."""
        rows = [np.flatnonzero((task == i) & (weight > 0)) for i in range(m)]
        return np.array([weighted_median(y[at], weight[at]) if at.size else 0.0 for at in rows])

    def losses(self, y: Floats, prediction: Floats) -> Floats:
        return np.abs(prediction - y)

    def of_points(self, y: Floats, values: Floats) -> Floats:
        return np.asarray(np.abs(values[0] - y[:, None]))


class Survival(Numbers):
    """Times until an event; what is predicted are hazards. Samples have their errors together with those trained on, so
    that folds say what these are."""

    measure = HAZARDS
    survival = True

    def __init__(self, loss: Cox):
        self.loss = loss

    def unit(self, task: Task) -> float:
        """Of a sample: an event costs the logarithm of the number at risk, and about 1 for being at risk at others'."""
        v = np.ones(len(task.y)) if task.weight is None else task.weight
        one = self.loss.of_task(task.y, v)
        terms = one.sums(np.zeros(len(v))).terms
        return float(2.0 * one.of_term @ (terms - one.log_v[one.events] + 1.0) / v.sum()) if len(terms) else 0.0

    def rounding(self, task: Task, unit: float) -> float:
        return EPS

    def of_points(self, y: Floats, values: Floats) -> Floats:
        """Folds are told errors in the place of predictions."""
        return np.asarray(values[0])

    def held_out(self, task: Task, train: np.ndarray, test: np.ndarray, f: Floats) -> Floats:
        """(rows held out,): their errors at linear predictors f of the task's rows, training rows and others being (rows,)
        bool."""
        both = train | test
        v = np.ones(len(task.y)) if task.weight is None else task.weight
        out = held_out(self.loss.ties, task.y[both], v[both], test[both], f[both][:, None])
        return np.asarray(2.0 * out[:, 0])


def numbers_under(name: Any) -> Numbers:
    """How models with a loss are measured."""
    if not is_loss(name) or name == LOGISTIC:
        known = ", ".join(map(repr, of_regressions()))
        more = " For classes: classify=True." if name in (LOGISTIC, "log_loss") else ""
        raise ValueError(f"loss must be one of {known}, got {name!r}.{more}")
    loss = loss_named(name)
    if loss.squared:
        return Numbers()
    if isinstance(loss, Cox):
        return Survival(loss)
    return Absolute() if loss.linear else Deviance(loss)


def under_loss(known: dict[str, Any], loss: str) -> dict[str, Any]:
    """The models that can be fitted with a loss, set to it."""
    able = {name: model for name, model in known.items() if loss == "squared" or "loss" in model.get_params()}
    for model in able.values():
        if loss != "squared":
            model.set_params(loss=loss)
    return able
