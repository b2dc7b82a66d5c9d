"""What errors are in a comparison of models with another loss than the squared one.

poisson, gamma, tweedie   the unit deviance of the prediction, over that of the task's mean
huber                     |y - f|, over that of the task's median: no outlier decides
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.designs import Floats, Ints
from .._data.tasks import Task
from .._objective.losses import LOGISTIC, Loss, Separable, is_loss, loss_named, of_regressions, weighted_median
from .scoring import EPS, Measure, Numbers

DEVIANCE = Measure("relative deviance", "dev.", "relative_deviance", "deviance over that of the task's mean")
ABSOLUTE = Measure(
    "relative absolute error",
    "abs.",
    "relative_absolute_error",
    "absolute error over that of the task's median",
    "the tasks' medians",
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


def numbers_under(name: Any) -> Numbers:
    """How models with a loss are measured."""
    if not is_loss(name) or name == LOGISTIC:
        known = ", ".join(map(repr, of_regressions()))
        more = " For classes: classify=True." if name in (LOGISTIC, "log_loss") else ""
        raise ValueError(f"loss must be one of {known}, got {name!r}.{more}")
    loss = loss_named(name)
    if loss.squared:
        return Numbers()
    if not isinstance(loss, Separable):
        raise ValueError(f"compare_models does not measure loss={name!r} yet: fit the models one by one.")
    return Absolute() if loss.linear else Deviance(loss)


def under_loss(known: dict[str, Any], loss: str) -> dict[str, Any]:
    """The models that can be fitted with a loss, set to it."""
    able = {name: model for name, model in known.items() if loss == "squared" or "loss" in model.get_params()}
    for model in able.values():
        if loss != "squared":
            model.set_params(loss=loss)
    return able
