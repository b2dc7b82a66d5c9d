"""What the rows of the data add to a report of times until an event: what was observed, and whose hazards are how large."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from ..._data.designs import Floats, Ints
from ..._data.event_times import times_of
from ..._data.tables import names_of
from ..._data.task_data import TaskData

LEVELS = (0.1, 0.5, 0.9)  # shares of the rows of a task that have smaller hazards than those whose curves are shown
STEPS = 150  # of a curve that are shown
SAME = 1e-9  # difference of shares of events that is rounding


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """Rows of the tasks of a model, in the order of its `tasks_`.

    Attributes
    ----------
    places : (m,) the task of the data that belongs to each task of the model; -1 for none
    hazards : per task (n,) logarithms of the hazards that the model gives its rows
    of_the_fit : whether the rows are those of the fit, as far as their number and events can tell
    """

    data: TaskData
    places: Ints
    hazards: list[Floats]
    of_the_fit: bool

    @cached_property
    def counts(self) -> Ints:
        """(m,): rows of the tasks."""
        return np.array([len(one) for one in self.hazards])

    def observed(self, i: int) -> tuple[Floats, Floats, Floats]:
        """Kaplan-Meier: times of a task at which events were observed, the shares without event just after them, and the
        times of rows of which nothing later is known."""
        if self.places[i] < 0:
            return np.empty(0), np.empty(0), np.empty(0)
        task = self.data.tasks[self.places[i]]
        time, event = times_of(task.y)
        weight = np.ones(len(time)) if task.weight is None else np.asarray(task.weight)
        at, where = np.unique(time, return_inverse=True)
        events, leaving = np.bincount(where, weight * event), np.bincount(where, weight)
        there = np.cumsum(leaving[::-1])[::-1]
        share = np.cumprod(1.0 - np.divide(events, there, out=np.zeros(len(at)), where=there > 0))
        return at[events > 0], np.asarray(share[events > 0], dtype=np.float64), np.asarray(time[~event])


def read_lifetimes(model: Any, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any) -> Lifetimes:
    """The rows given, and the hazards that a model of times until an event gives them."""
    data: TaskData = clone(model)._read(X, y, task, sample_weight, offset)
    known = {label: k for k, label in enumerate(data.labels.tolist())}
    places = np.array([known.get(label, -1) for label in model.tasks_.tolist()])
    if (places < 0).all() or data.d != len(model.features_):
        raise ValueError(
            f"the data are not those of the model, which has the tasks {names_of(model.tasks_)} and "
            f"{len(model.features_)} features; the data have {names_of(data.labels)} and {data.d}."
        )
    coef = np.reshape(model.coef_, (len(places), data.d))
    hazards = [np.empty(0) if place < 0 else _hazards(data, int(place), coef[i]) for i, place in enumerate(places)]
    rows = np.array([len(one) for one in hazards])
    events = np.array([times_of(data.tasks[place].y)[1].mean() if place >= 0 else np.nan for place in places])
    kept = np.asarray(getattr(model, "n_samples_", np.full(len(rows), np.nan)))
    of_the_fit = np.array_equal(rows, kept)
    if of_the_fit and sample_weight is None:
        of_the_fit = bool(np.allclose(events, np.ravel(model.target_mean_), rtol=0.0, atol=SAME))
    return Lifetimes(data, places, hazards, of_the_fit)


def _hazards(data: TaskData, place: int, coef: Floats) -> Floats:
    task = data.tasks[place]
    found = np.asarray(task.X @ coef)
    return found if task.offset is None else found + task.offset


def curves(model: Any, lifetimes: Lifetimes, i: int) -> dict[str, Any] | None:
    """Of a task, for the script: [times, shares without event] of rows with a low, a middle and a high hazard, as the model
    says, and of all rows, as observed; None where there is nothing to show."""
    baseline, f = model.baseline_hazard_, lifetimes.hazards[i]
    mine = baseline["task"] == i
    times, observed = baseline["time"][mine], lifetimes.observed(i)
    if not len(f) or not len(times):
        return None
    some = _some(len(times))
    at, logs = times[some], baseline["log_cumulative_hazard"][mine][some]
    with np.errstate(over="ignore"):
        expected = [np.exp(-np.exp(level + logs)) for level in np.quantile(f, LEVELS)]
    seen = _some(len(observed[0]))
    last = float(max(times[-1], observed[2].max(initial=0.0)))
    steps = [(at, one) for one in expected] + [(observed[0][seen], observed[1][seen])]
    return {"steps": [[_short(x), _short(share)] for x, share in steps], "end": _short(np.array([last]))}


def _some(n: int) -> Ints:
    """Places among n, evenly, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, STEPS)).round().astype(np.intp)) if n else np.empty(0, dtype=np.intp)


def _short(values: Floats) -> list[float]:
    return [float(f"{value:.4g}") for value in values]
