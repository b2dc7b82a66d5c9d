"""Which coefficients are clearly not zero: intervals that were given, or that cost next to nothing."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._estimators.families import lassos_like
from ..._estimators.fitted import loss_of
from ...inference.debiased import MANY_SAMPLES, debiased_intervals
from .samples import Samples

USUAL = 0.95  # level of intervals that do not tell theirs
CHEAP = 5e8  # products of rows and features that are made for intervals that nobody asked for


@dataclass(frozen=True, eq=False)
class Sureness:
    """Intervals of entries (task, feature).

    Attributes
    ----------
    clear : (m, d) bool: clearly non-zero, in every answer that there is
    known : (m, d) bool: whether there is an interval
    lines : per entry (i, j) the intervals (lower, upper), one or more
    level : of each interval; None if the result does not say
    corrected : whether `clear` accounts for how many entries were looked at
    made : whether they were made for the report
    """

    clear: np.ndarray
    known: np.ndarray
    lines: dict[tuple[int, int], list[tuple[float, float]]]
    level: float | None
    corrected: bool
    made: bool = False

    @property
    def clear_in(self) -> Floats:
        """(d,): number of tasks in which a feature is clearly non-zero."""
        return np.asarray(self.clear.sum(axis=0))

    @property
    def rate(self) -> float:
        """The false discovery rate up to which a coefficient is called clearly non-zero."""
        return error_rate(self.level)


def error_rate(level: float | None) -> float:
    """What intervals of a level leave: it is the false discovery rate of what is called clear beside them, in tables too."""
    return round(1.0 - (USUAL if level is None else level), 12)


def sureness_of(model: Any, intervals: Any, made: bool = False) -> Sureness:
    """Of what split_intervals, debiased_intervals or bootstrap_intervals returned, or a table with the columns task,
    feature, lower and upper."""
    frame = intervals.to_frame() if hasattr(intervals, "to_frame") else intervals
    columns = [str(name) for name in getattr(frame, "columns", ())]
    missing = [name for name in ("task", "feature", "lower", "upper") if name not in columns]
    if missing:
        raise TypeError(
            "intervals must be what split_intervals, debiased_intervals or bootstrap_intervals returns, or a table with the "
            f"columns task, feature, lower and upper; {type(intervals).__name__} has no {', '.join(missing)}."
        )
    rows = {label: i for i, label in enumerate(model.tasks_.tolist())}
    places = {name: j for j, name in enumerate(model.features_.tolist())}
    corrected = "p_adjusted" in columns
    m, d = len(rows), len(places)
    splits = int(np.max(frame["split"].to_numpy(), initial=1)) if "split" in columns else 1
    lines: dict[tuple[int, int], list[tuple[float, float]]] = {}
    level = getattr(intervals, "level", None)
    hits, rate = np.zeros((m, d), dtype=np.intp), error_rate(level)
    parts = [frame[name].tolist() for name in ("task", "feature", "lower", "upper")]
    adjusted = frame["p_adjusted"].tolist() if corrected else [0.0] * len(frame)
    for label, name, low, high, p in zip(*parts, adjusted, strict=True):
        if label not in rows or name not in places:
            raise ValueError(f"intervals are of task {label!r} and feature {name!r}, which the model does not have.")
        at = rows[label], places[name]
        lines.setdefault(at, []).append((float(low), float(high)))
        hits[at] += (low > 0 or high < 0) and p <= rate
    known = np.zeros((m, d), dtype=bool)
    for at in lines:
        known[at] = True
    return Sureness(hits >= splits, known, lines, level, corrected, made)


def cheap_intervals(model: Any, samples: Samples, X: Any, y: Any, task: Any, sample_weight: Any) -> Sureness | None:
    """Least squares on all features, where all tasks have rows enough; None elsewhere.

    These are exact for normal noise, select nothing, and are the same whatever the model is."""
    data = samples.data
    kept_together = getattr(getattr(model, "held_out_", None), "grouped", False)
    squared = not hasattr(model, "classes_") and loss_of(model) == "squared" and not data.has_offset
    if not squared or kept_together or (samples.places < 0).any():
        return None
    rows = np.array([len(one.y) for one in data.tasks])
    if (rows < MANY_SAMPLES * data.d + 1).any() or float(rows.sum()) * data.d**2 > CHEAP:
        return None
    if getattr(model, "positive", False) or getattr(model, "bounds", None) is not None:
        return None
    if not getattr(model, "fit_intercept", True):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = lassos_like(
            model, task_column=model.task_column
        )  # it is fitted to none of the tasks: least squares will do
        found = debiased_intervals(asked, X, y, task=task, sample_weight=sample_weight)
    return sureness_of(model, found, made=True)
