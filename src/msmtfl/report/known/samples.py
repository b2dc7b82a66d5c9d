"""What the rows of the data add to a report: predictions to hold against what was observed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from ..._data.designs import Floats, Ints
from ..._data.tables import names_of
from ..._data.task_data import TaskData
from ..._estimators.fitted import name_of_loss
from ..._objective.losses import Loss, loss_named
from ..._paths.conformal import HeldOutScores, class_shares, misses

NEAR = 1e-6  # relative difference of scores that are the same but for rounding


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of the tasks of a model, in the order of its `tasks_`, beside its predictions.

    Attributes
    ----------
    places : (m,) the task of the data that belongs to each task of the model; -1 for none
    targets : per task (n,) of the rows that are shown; of classes their codes
    predicted : per task (n,), or (n, classes) probabilities
    held_out : whether each row was predicted by the model without the row's fold; rows that no fold held out are not shown
    folds, weights : per task (n,) of rows that were predicted so
    crossed : per task (2, n): their predictions at the points that the other folds choose of the grid, and of its separate
        lassos; None where the fit has not kept them
    """

    data: TaskData
    places: Ints
    targets: list[Floats]
    predicted: list[Floats]
    held_out: bool
    folds: list[Ints] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    crossed: list[Floats] | None = None

    def observed(self, i: int) -> Floats:
        """(n,): targets of a task, of classes their codes."""
        return self.targets[i]

    @cached_property
    def counts(self) -> Ints:
        """(m,): rows of the tasks."""
        return np.array([0 if k < 0 else len(self.data.tasks[k].y) for k in self.places])


def read_samples(model: Any, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any) -> Samples:
    """The rows given, each predicted without its fold where the model knows it, and otherwise by the model itself."""
    data: TaskData = clone(model)._read(X, y, task, sample_weight, offset)
    known = {label: k for k, label in enumerate(data.labels.tolist())}
    places = np.array([known.get(label, -1) for label in model.tasks_.tolist()])
    if (places < 0).all() or data.d != len(model.features_):
        raise ValueError(
            f"the data are not those of the model, which has the tasks {names_of(model.tasks_)} and "
            f"{len(model.features_)} features; the data have {names_of(data.labels)} and {data.d}."
        )
    loss = loss_named(name_of_loss(model))
    m = len(model.tasks_)
    coef = np.reshape(model.coef_, (m, -1, data.d))
    level = np.reshape(model.intercept_, (m, -1))
    scores: HeldOutScores | None = getattr(model, "held_out_", None)
    if scores is not None and scores.fold_of is not None and len(scores.fold_of) == data.X.shape[0]:
        held = _without_folds(data, places, scores)
        if _are_of_the_fit(model, held, scores, loss):
            found = [_response(model, f, loss) for _, f in held]
            beside = _folds(data, places, scores)
            return Samples(
                data, places, [y for y, _ in held], found, True, *beside, _crossed(data, places, scores, loss)
            )
    linear = [_linear(data, place, coef[i], level[i]) for i, place in enumerate(places)]
    targets = [np.empty(0) if place < 0 else np.asarray(data.tasks[place].y) for place in places]
    return Samples(data, places, targets, [_response(model, one, loss) for one in linear], False)


def _linear(data: TaskData, place: int, coef: Floats, level: Floats) -> Floats:
    """(n, K): linear predictors of a task's rows."""
    if place < 0:
        return np.empty((0, len(level)))
    task = data.tasks[place]
    found = np.asarray(task.X @ coef.T) + level
    return found if task.offset is None else found + task.offset[:, None]


def _without_folds(data: TaskData, places: Ints, scores: HeldOutScores) -> list[tuple[Floats, Floats]]:
    """Per task: targets (n,) and linear predictors (n, K) by the fits without each row's fold, of rows that had one."""
    assert scores.fold_of is not None
    F, m, K = scores.intercept.shape
    coefs, levels = scores.coefs(), scores.intercepts()
    out = []
    for i, place in enumerate(places):
        if i >= m or place < 0:
            out.append((np.empty(0), np.empty((0, K))))
            continue
        task = data.tasks[place]
        fold = scores.fold_of[task.rows]
        some = np.flatnonzero(fold >= 0)
        every = _linear(data, int(place), coefs[i], levels[i]).reshape(-1, F, K)
        out.append((np.asarray(task.y)[some], every[some, fold[some]]))
    return out


def _folds(data: TaskData, places: Ints, scores: HeldOutScores) -> tuple[list[Ints], list[Floats]]:
    """Per task the folds (n,) of the rows that had one, and their weights."""
    assert scores.fold_of is not None
    folds, weights = [], []
    for i, place in enumerate(places):
        if i >= scores.m or place < 0:
            folds.append(np.empty(0, dtype=np.intp))
            weights.append(np.empty(0))
            continue
        task = data.tasks[place]
        fold = np.asarray(scores.fold_of[task.rows])
        weight = np.ones(len(fold)) if task.weight is None else np.asarray(task.weight)
        folds.append(fold[fold >= 0])
        weights.append(weight[fold >= 0])
    return folds, weights


def _crossed(data: TaskData, places: Ints, scores: HeldOutScores, loss: Loss) -> list[Floats] | None:
    """Per task (2, n): predictions of the rows that had a fold, at points that the other folds choose."""
    if scores.crossed is None or scores.fold_of is None:
        return None
    out = []
    for i, place in enumerate(places):
        some = i < scores.m and place >= 0
        linear = scores.crossed[i][:, scores.fold_of[data.tasks[place].rows] >= 0] if some else np.empty((2, 0))
        out.append(np.asarray(loss.response(linear)))
    return out


def _are_of_the_fit(model: Any, held: list[tuple[Floats, Floats]], scores: HeldOutScores, loss: Loss) -> bool:
    """Whether the rows are those of the fit: each task's largest miss is the one that the fit has kept."""
    for i in range(scores.m):
        kept = scores.own.of_task(i).score
        found = misses(*held[i], loss, hasattr(model, "classes_"))
        if len(kept) and not np.isclose(found.max(initial=0.0), kept.max(), rtol=NEAR, atol=NEAR):
            return False
    return True


def _response(model: Any, linear: Floats, loss: Loss) -> Floats:
    return class_shares(linear, loss) if hasattr(model, "classes_") else np.asarray(loss.response(linear[:, 0]))
