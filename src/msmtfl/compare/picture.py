"""A comparison as a picture: which model predicts best, and what each task gains or loses by one of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.tables import choices_of
from .._runtime.drawing import BLUE, DARK, GREY, ORANGE, bulk, mark_beyond, pyplot, quiet, shown
from .errors import HeldOutErrors
from .evidence import CLEAR


def draw(result: HeldOutErrors, model: str | None, axes: Any) -> Any:
    """The figure that `Comparison.plot` returns."""
    plt = pyplot()
    order = np.argsort(-result.error)
    if model is None:
        model = next(result.models[k] for k in order[::-1] if result.models[k] != result.reference)
    if model not in result.models:
        raise ValueError(f"no model {model!r}: {choices_of(model, result.models)}.")
    k, base = result.models.index(model), result.models.index(result.reference)
    if axes is None:
        height = 1.6 + 0.34 * max(len(result.models), min(len(result.tasks), 14))
        _, axes = plt.subplots(1, 2, figsize=(10, height), width_ratios=(1, 1.2), layout="constrained")
    if np.size(axes) != 2:
        raise ValueError("axes must be two of matplotlib's Axes: for the models and for the tasks.")
    left, right = np.ravel(axes)
    dark, grey, good, bad = DARK, GREY, BLUE, ORANGE
    found = {name: result.evidence(name) for name in result.models}
    colours = [
        good if found[name].better else bad if found[name].worse else grey for name in np.array(result.models)[order]
    ]
    low, high = result.error - CLEAR * result.se, result.error + CLEAR * result.se
    left.hlines(np.arange(len(order)), low[order], high[order], colors=colours)
    left.scatter(result.error[order], np.arange(len(order)), c=colours, zorder=3)
    left.axvline(result.error[base], color=grey, lw=1, ls=":")
    left.set_xlim(*bulk(result.error[order], CLEAR * result.se[order]))
    mark_beyond(left, result.error[order], range(len(order)), colours)
    left.set_yticks(np.arange(len(order)), [shown(result.models[j]) for j in order])
    left.set_xlabel(f"held-out {result.measure.name} (bars: two s.e. of the difference to {shown(result.reference)})")
    left.set_title("Which model predicts best", loc="left", color=dark)
    change, spread = result.difference_by_task[k], result.se_by_task[k]
    place = np.argsort(np.where(np.isnan(change), np.inf, change))[::-1]
    place = place[np.isfinite(change[place])]
    colours = [good if result.gains[k, i] else bad if result.loses[k, i] else grey for i in place]
    many = len(place) > 40
    low, high = change - result._clear * spread, change + result._clear * spread
    right.hlines(np.arange(len(place)), low[place], high[place], colors=colours, lw=0.8 if many else 1.5)
    right.scatter(change[place], np.arange(len(place)), c=colours, s=10 if many else 28, zorder=3)
    right.axvline(0.0, color=dark, lw=1)
    low_end, high_end = bulk(change[place], result._clear * spread[place])
    right.set_xlim(min(low_end, 0.0), max(high_end, 0.0))
    mark_beyond(right, change[place], range(len(place)), colours)
    if many:
        right.set_yticks([])
        right.set_ylabel(f"{len(place)} tasks, sorted")
    else:
        right.set_yticks(np.arange(len(place)), [shown(result.tasks[i]) for i in place])
    right.set_xlabel(f"{result.measure.name} of {shown(model)} less that of {shown(result.reference)} (bars: 95 %)")
    gain, lose = int(result.gains[k].sum()), int(result.loses[k].sum())
    right.set_title(
        f"By {shown(model)}: {gain} task{'s' * (gain != 1)} clearly better, {lose} worse", loc="left", color=dark
    )
    for axis in (left, right):
        quiet(axis, "x")
    return left.figure
