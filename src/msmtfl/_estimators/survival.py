"""What models of times until an event have beside others: baseline hazards, survival curves, concordance."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._data.designs import Floats
from .._data.event_times import times_of
from .._data.survival import read_survival
from .._data.tables import names_of, opened
from .._data.task_data import TaskData
from .._data.task_levels import without_task
from .._objective.problem import Problem
from .._objective.survival import Cox
from .._paths.conformal import FoldFit
from ..metrics import concordance_index, pairs_in_order
from .fitted import task_column_in

Baseline = dict[str, np.ndarray]  # "task" (a place in tasks_), "time" and "log_cumulative_hazard"


def baseline_hazards(problem: Problem, W: Floats) -> Baseline:
    """Of all tasks, at linear predictors of 0 and coefficients W (m, d)."""
    parts = []
    for i, (task, w) in enumerate(zip(problem.data.tasks, W, strict=True)):
        assert isinstance(problem.loss, Cox)
        used = np.flatnonzero(w)
        f = np.asarray(task.X[:, used] @ w[used]) + (0.0 if task.offset is None else task.offset)
        of_task = problem.loss.of_task(task.y, np.ones(len(task.y)) if task.weight is None else task.weight)
        times = of_task.times
        parts.append((np.full(len(times), i), times, of_task.cumulative_hazard(f)))
    task, time, hazard = (np.concatenate(part) for part in zip(*parts, strict=True))
    return {"task": task, "time": time, "log_cumulative_hazard": hazard}


def joined(known: Baseline, new: Baseline, place: int) -> Baseline:
    """With those of a task that was added at a place."""
    return {name: np.append(values, new[name] + place * (name == "task")) for name, values in known.items()}


def survival_curves(model: Any, X: Any, task: Any, times: Any, offset: Any) -> Floats:
    """See `predict_survival_function`."""
    check_is_fitted(model, "baseline_hazard_")
    baseline = model.baseline_hazard_
    at = np.unique(baseline["time"]) if times is None else np.asarray(times, dtype=np.float64)
    if at.ndim != 1 or not (np.isfinite(at) & (at >= 0.0)).all():
        raise ValueError("times must be a list of finite numbers, at least 0.")
    f = np.asarray(model.predict(X, task=task, offset=offset))
    out = np.ones((len(f), len(at)))
    for i, rows in enumerate(_rows_of_tasks(model, X, task, len(f))):
        if not len(rows):
            continue
        mine = baseline["task"] == i
        logs = np.append(-np.inf, baseline["log_cumulative_hazard"][mine])
        steps = logs[np.searchsorted(baseline["time"][mine], at, side="right")]
        with np.errstate(over="ignore"):
            out[rows] = np.exp(-np.exp(f[rows][:, None] + steps))
    return out


def _rows_of_tasks(model: Any, X: Any, task: Any, n: int) -> list[np.ndarray]:
    """For every task its samples; an error for those of tasks without a baseline hazard."""
    if model._form == "single":
        return [np.arange(n)]
    labels = _labels(model, X, task)
    place = {label: i for i, label in enumerate(model.tasks_.tolist())}
    codes = np.array([place.get(label, -1) for label in np.asarray(labels).tolist()], dtype=np.intp)
    if (codes < 0).any():
        new = np.unique(np.asarray(labels)[codes < 0])
        raise ValueError(
            f"task(s) {names_of(new)} were not in the training data, so that their baseline hazards are not known. predict "
            "ranks their samples; add_task learns a baseline hazard."
        )
    return [np.flatnonzero(codes == i) for i in range(len(place))]


def _labels(model: Any, X: Any, task: Any) -> Any:
    """The labels of samples, beside X or in a column of it."""
    X = opened(X)
    return without_task(X, task, task_column_in(model, X))[1]


def score_of(model: Any, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any) -> float:
    """The share of pairs of the same task whose order is predicted."""
    y, f = read_survival(y), model.predict(X, task=task, offset=offset)
    if model._form == "single":
        return float(concordance_index(y, f, sample_weight=sample_weight))
    return float(concordance_index(y, f, task=_labels(model, X, task), sample_weight=sample_weight))


def held_out_concordance(data: TaskData, fits: list[FoldFit]) -> Floats:
    """(m,): shares of the pairs of samples that the same fold holds out of a task whose order is predicted; NaN where
    there are none."""
    pairs = np.zeros((2, data.m))
    for fit in fits:
        for i, task in enumerate(data.tasks):
            rows = np.flatnonzero(fit.test[task.rows])
            if len(rows) < 2:
                continue
            f = np.asarray(task.X[rows] @ fit.coef[i]) + (0.0 if task.offset is None else task.offset[rows])
            weight = None if task.weight is None else task.weight[rows]
            pairs[:, i] += pairs_in_order(*times_of(task.y[rows]), f, weight)
    return np.asarray(np.divide(pairs[0], pairs[1], out=np.full(data.m, np.nan), where=pairs[1] > 0.0))
