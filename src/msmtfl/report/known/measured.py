"""How the errors of a model are measured and called on its page: by its own loss, as in comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._data.designs import Floats, Ints
from ..._data.task_data import TaskData
from ..._estimators.fitted import loss_of
from ...compare.measures import LOG_LOSS, NMSE, Measure, Numbers
from ...compare.of_losses import ABSOLUTE, DEVIANCE, HAZARDS, numbers_under
from .samples import Samples


@dataclass(frozen=True)
class ErrorWords:
    """What is measured, what is predicted by who knows nothing but the task, what the measure is a share of, what has become
    of the rest, and what the measure is, in a sentence."""

    loss: str
    nothing: str
    unit: str
    saved: str = "explained"
    about: str = ""


OF_MEANS = (
    " (The deviance says how unlikely the target is if its mean is the prediction; 0 is a prediction that is exact.)"
)
OF_HAZARDS = (
    " (The partial deviance says how unlikely it is that the event came to just those rows, of all that were at risk at the "
    "time.)"
)
WORDS = {
    NMSE: ErrorWords("squared error", "mean", "the targets' variance"),
    LOG_LOSS: ErrorWords("log-loss", "class shares", "that of the class shares"),
    DEVIANCE: ErrorWords("deviance", "mean", "that of the mean", about=OF_MEANS),
    ABSOLUTE: ErrorWords("absolute error", "median", "that of the median", "saved"),
    HAZARDS: ErrorWords("partial deviance", "equal hazards", "that of equal hazards", about=OF_HAZARDS),
}


def numbers_of(model: Any) -> Numbers | None:
    """How predictions of a regression are measured; None of a classifier."""
    return None if hasattr(model, "classes_") else numbers_under(loss_of(model))


def measure_under(model: Any) -> Measure:
    """What the errors of a model are called."""
    kind = numbers_of(model)
    return LOG_LOSS if kind is None else kind.measure


def losses_by_fold(kind: Numbers, samples: Samples, predicted: Sequence[Floats]) -> tuple[Floats, Floats]:
    """(folds, m) each: mean losses of rows that were predicted without their fold, and their weights."""
    F, m = 1 + max(int(fold.max(initial=0)) for fold in samples.folds), len(samples.places)
    total, weight = np.zeros((F, m)), np.zeros((F, m))
    for i, (fold, v) in enumerate(zip(samples.folds, samples.weights, strict=True)):
        weight[:, i] = np.bincount(fold, v, F)
        if len(fold):
            total[:, i] = np.bincount(fold, v * kind.losses(samples.targets[i], predicted[i]), F)
    return np.divide(total, weight, out=np.full((F, m), np.nan), where=weight > 0), weight


def units_of(kind: Numbers, data: TaskData, places: Ints) -> Floats:
    """(m,): the losses of knowing nothing but the task; NaN of tasks without rows."""
    data = data.less_offset() if data.offset_of_targets else data
    return np.array([np.nan if place < 0 else kind.unit(data.tasks[place]) for place in places])
