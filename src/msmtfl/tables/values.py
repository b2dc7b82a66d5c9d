"""What stands in a table of coefficients: numbers of every task and feature, in the units asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._runtime.text.naturally import natural_order
from ..inference.bootstrap import Intervals
from ..inference.debiased import DebiasedIntervals
from ..inference.splitting import SplitIntervals
from ..sharing import SharingMap

SEVERAL = (  # what an interval object of each kind shows, in words
    (
        DebiasedIntervals,
        "least squares in tasks with at least twice as many samples as features, elsewhere the desparsified lasso",
    ),
    (Intervals, "least squares on the features that the model selected, with bootstrap intervals"),
    (
        SplitIntervals,
        "least squares on the half of the samples that did not select the features; the two splits are two answers",
    ),
)


@dataclass(frozen=True)
class Values:
    """What stands in a table, of every column (a task, or a class of a task) and feature; NaN where there is nothing."""

    labels: list[tuple[str, ...]]  # (columns,): the task, and the class if there are more than two
    centre: Floats  # (columns, d), or (2, columns, d) of splits
    lower: Floats | None
    upper: Floats | None
    clear: np.ndarray | None  # (columns, d) bool: intervals away from 0 after correction for how many there are
    used: np.ndarray  # (columns, d) bool
    constant: np.ndarray  # (columns, d) bool
    intercept: Floats  # (columns,)

    @staticmethod
    def of(model: Any, every: Floats, found: SharingMap, intervals: Any, per: str, ratios: bool) -> Values:
        m, K, d = every.shape
        order = natural_order(found.tasks.tolist())
        names = [str(label) for label in found.tasks[order].tolist()]
        classes = [str(one) for one in model.classes_.tolist()] if K > 1 else []
        labels: list[tuple[str, ...]] = [(name, one) for name in names for one in classes] or [
            (name,) for name in names
        ]
        learnable = np.ones((m, d), dtype=bool) if found.learnable is None else found.learnable
        scale = np.ones(d)
        if per == "sd":
            if not hasattr(model, "feature_sd_"):
                raise ValueError(
                    "per='sd': this model does not hold the standard deviations of the features (its file is older than "
                    "that). Fit again, or take per='unit'."
                )
            scale = model.feature_sd_
        flat = every[order].reshape(m * K, d)
        kept = {"centre": flat, "lower": None, "upper": None}
        clear = None
        if intervals is not None:
            place = _same_entries(model, intervals, K)[order]
            kept = {"centre": intervals.estimate, "lower": intervals.lower, "upper": intervals.upper}
            kept = {name: np.take(value, place, axis=-2) for name, value in kept.items()}
            if isinstance(intervals, DebiasedIntervals):
                clear = intervals.p_adjusted[place] <= round(1.0 - intervals.level, 12)
            if isinstance(intervals, Intervals):
                kept["centre"] = np.where(intervals.support[place], kept["centre"], np.nan)
        ends = {name: None if value is None else _scaled(value, scale, ratios) for name, value in kept.items()}
        return Values(
            labels=labels,
            **ends,  # type: ignore[arg-type]
            clear=clear,
            used=flat != 0.0,
            constant=np.repeat(~learnable[order], K, axis=0) & (flat == 0.0),
            intercept=_scaled(np.reshape(model.intercept_, (m, -1))[order].ravel(), np.ones(1), ratios),
        )


def _scaled(values: Floats, scale: Floats, ratios: bool) -> Floats:
    return np.exp(values * scale) if ratios else np.asarray(values * scale)


def _same_entries(model: Any, intervals: Any, K: int) -> np.ndarray:
    """(m,): places of the model's tasks among those of the intervals."""
    if not isinstance(intervals, DebiasedIntervals | Intervals | SplitIntervals):
        raise TypeError(
            "intervals must be what debiased_intervals, bootstrap_intervals or split_intervals returns, not "
            f"{type(intervals).__name__}."
        )
    places = {label: i for i, label in enumerate(intervals.tasks.tolist())}
    same = [str(name) for name in intervals.features] == [str(name) for name in model.features_]
    absent = [label for label in model.tasks_.tolist() if label not in places]
    if K > 1 or not same or absent:
        why = f"they have no task {absent[0]!r}" if absent and K == 1 else "tasks, classes or features differ"
        raise ValueError(
            f"the intervals are not those of this model: {why}. Compute them with the model's own columns."
        )
    return np.array([places[label] for label in model.tasks_.tolist()], dtype=np.intp)
