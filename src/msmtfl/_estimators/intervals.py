"""Intervals and sets of predictions, from what cross-validation has held out (`_paths.conformal`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._data.categories import of_model, read_features
from .._data.designs import Floats
from .._data.tables import match_labels, names_of, warn_user
from .._data.tasks import grouped
from .._objective.losses import loss_named
from .._paths.conformal import HeldOutScores, Table, class_shares
from .._runtime.checks import check_level
from .families import family_of
from .fitted import NewTaskWarning, loss_of, name_of_loss, respond, task_column_in
from .new_tasks import way_of


class SmallTaskWarning(UserWarning):
    """Intervals of tasks with few samples lean on the errors of all tasks."""


Reach = Callable[[Floats, Table], np.ndarray]  # of linear predictors (n, folds K) without each fold, and of scores


def interval_of(model: Any, X: Any, task: Any, level: float, offset: Any = None) -> Floats:
    """(n, 2), or (n, m, 2) if every sample is predicted for every task."""

    def around(linear: Floats, table: Table) -> Floats:
        return table.interval(respond(model, linear), level)

    return np.asarray(np.maximum(_by_task(model, X, task, level, offset, around), loss_named(loss_of(model)).least))


def set_of(model: Any, X: Any, task: Any, level: float, offset: Any = None) -> np.ndarray:
    """(n, classes) bool, or (n, m, classes) if every sample is predicted for every task."""

    def around(linear: Floats, table: Table) -> np.ndarray:
        K = 1 if len(model.classes_) == 2 else len(model.classes_)
        p = class_shares(linear.reshape(len(linear), -1, K), loss_named(name_of_loss(model)))  # (n, folds, classes)
        return np.stack([table.contains(1.0 - p[:, :, c], level) for c in range(p.shape[2])], axis=1)

    return _by_task(model, X, task, level, offset, around)


def scores_of(model: Any) -> HeldOutScores:
    """What a model knows of samples held out; an error that says why it knows nothing."""
    check_is_fitted(model, "coef_")
    found: HeldOutScores | None = getattr(model, "held_out_", None)
    if found is not None:
        return found
    name, search = type(model).__name__, family_of(model).search
    if not isinstance(model, search):
        raise ValueError(
            f"{name} has no errors of samples held out, which intervals are made of. Fit {search.__name__}, which "
            "cross-validates."
        )
    if getattr(model, "_from_file", None) is model.coef_:
        raise ValueError(
            "the file of this model carries no errors of samples held out, which intervals are made of: an earlier version "
            "wrote it, or the model was fitted without folds or from statistics. Fit again to the samples, and save."
        )
    raise ValueError(
        f"this {name} has no errors of samples held out, which intervals are made of: it was fitted without folds "
        "(selection by an information criterion), or from statistics or on workers, where the samples are not at hand. Fit "
        "it to the samples themselves, with folds."
    )


def task_radii(model: Any, level: float) -> Floats:
    """(m,): how far the prediction of a task's sample may be off; NaN of a task that has too few samples of its own for the
    level, or none that was held out."""
    out: Floats = np.full(len(model.tasks_), np.nan)
    scores: HeldOutScores | None = getattr(model, "held_out_", None)
    if scores is None:
        return out
    for i in range(scores.m):
        table = scores.own.of_task(i)
        if table.reaches(level):
            out[i] = table.radius(level)
    return out


# ------------------------------------------------------------------ task by task


def _by_task(model: Any, X: Any, task: Any, level: float, offset: Any, reach: Reach) -> np.ndarray:
    """(n, width), or (n, m, width) if every sample is predicted for every task."""
    scores, tasks = scores_of(model), len(model.tasks_)
    check_level(level)
    coefs, intercepts = _padded(scores.coefs(), tasks), _padded(scores.intercepts(), tasks)
    unknown = getattr(model, "unknown_category", "error")
    values, labels, _, _ = read_features(X, task, task_column_in(model, X), of_model(model), unknown)
    if labels is None:  # every sample for every task, or for the only one
        linear = model._linear(X, task, coefs, intercepts, offset)
        linear = linear.reshape(len(linear), tasks, -1)
        every = [reach(linear[:, i], table) for i, table in _tables(model, scores, range(tasks), level).items()]
        return np.stack(every, axis=1) if model._form == "wide" else every[0]
    coef, intercept = np.reshape(model.coef_, (tasks, -1, coefs.shape[2])), np.reshape(model.intercept_, (tasks, -1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NewTaskWarning)  # ours says what is known of their errors
        predicted = model._linear(X, task, coef, intercept, offset)
    beside = model._offset(offset, values.shape[:1])
    beside = np.zeros(values.shape[0]) if beside is None else beside
    codes = match_labels(model.tasks_, labels, values.shape[0], model.unknown_task)
    of_new, *of_known = grouped(codes + 1, tasks + 1)
    parts = []
    for i, table in _tables(model, scores, np.unique(codes[codes >= 0]).tolist(), level).items():
        rows = of_known[i]
        linear = np.asarray(values[rows] @ coefs[i].T) + intercepts[i] + beside[rows, None]
        parts.append((rows, reach(linear, table)))
    if (codes < 0).any():
        rows = np.arange(len(codes))[of_new]
        parts += _of_new(model, scores, values, np.asarray(labels), rows, predicted, level, reach)
    out = np.empty((len(codes), parts[0][1].shape[1]), parts[0][1].dtype)
    for rows, part in parts:
        out[rows] = part
    return out


def _of_new(
    model: Any,
    scores: HeldOutScores,
    values: Any,
    labels: np.ndarray,
    rows: np.ndarray,
    predicted: Floats,
    level: float,
    reach: Reach,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows of new tasks, and what is said of them, way by way."""
    names = np.array([way_of(model, label) for label in labels[rows].tolist()])
    out = []
    for way in dict.fromkeys(names.tolist()):
        some = rows[names == way]
        table = scores.others if way == "mean" else scores.ways.get(way)
        _check_new(model, scores, table, way, labels[some], level)
        assert table is not None
        if way == "mean":
            others = _left_out(model, scores, values[some], predicted[some])
        else:  # the same whoever is left out
            others = np.tile(predicted[some], (1, scores.m))
        out.append((some, reach(others, replace(table, plus=True))))
    return out


def _padded(values: Floats, tasks: int) -> Floats:
    """With zeros for tasks that were added later."""
    return np.concatenate([values, np.zeros((tasks - len(values), *values.shape[1:]))])


def _left_out(model: Any, scores: HeldOutScores, values: Any, predicted: Floats) -> Floats:
    """(n, m K): linear predictors by the mean coefficients of all tasks but one, for each of the tasks, moved so that their
    mean is what `predict` says (n, K), in whichever way it predicts new tasks."""
    (_, m, K), tasks = scores.intercept.shape, len(model.tasks_)
    coef, intercept = np.reshape(model.coef_, (tasks, K, -1))[:m], np.reshape(model.intercept_, (tasks, K))[:m]
    each = np.asarray(values @ coef.reshape(m * K, -1).T).reshape(-1, m, K) + intercept
    mean = each.mean(axis=1, keepdims=True)
    return np.asarray(predicted[:, None] + (mean - each) / (m - 1)).reshape(len(each), -1)


def _tables(model: Any, scores: HeldOutScores, tasks: Iterable[int], level: float) -> dict[int, Table]:
    """The scores of tasks or, where there are too few, what stands for them. A warning names those of the second kind."""
    out: dict[int, Table] = {}
    few: list[int] = []
    for i in tasks:
        label = model.tasks_.tolist()[i]
        if i >= scores.m:
            raise ValueError(
                f"task {label!r} was added after the fit: none of its samples was held out, so that nothing is known of its "
                "errors. Fit again with it, or leave its samples out."
            )
        table = scores.own.of_task(i)
        if not table.reaches(level):
            few.append(i)
            borrowed = scores.borrowed(i, level)
            if borrowed is None:
                raise ValueError(_too_small(label, scores, table, level))
            table = borrowed
        out[i] = table
    if few:
        i = min(few, key=lambda one: scores.own.of_task(one).size)
        table = scores.own.of_task(i)
        warn_user(
            f"task(s) {names_of(model.tasks_[few])} have too few samples for a level of {level:g} by themselves "
            f"({model.tasks_.tolist()[i]!r} has {_count(table, scores)}, which allow {_down(table.largest_level)}): their "
            "intervals take the shape of errors from all tasks, and the scale from their own.",
            SmallTaskWarning,
        )
    return out


def _too_small(label: Any, scores: HeldOutScores, table: Table, level: float) -> str:
    """Why there is no interval for a task, and what the largest level is."""
    if len(table.score) == 0:
        return f"no fold held out a sample of task {label!r}, so nothing is known of its errors. Give folds that do."
    borrowed = scores.largest_borrowed_level
    alone = "it is the only task" if scores.m < 2 else f"all tasks together allow {_down(borrowed)} at most"
    return (
        f"task {label!r} has {_count(table, scores)} that were held out, too few for a level of {level:g}; {alone}. "
        f"The largest level possible for it is {_down(max(borrowed, table.largest_level))}."
    )


def _count(table: Table, scores: HeldOutScores) -> str:
    return f"{table.size:.4g} {'group' if scores.grouped else 'sample'}{'' if table.size == 1 else 's'}"


def _down(level: float) -> str:
    """A level in words, rounded down, so that it can be asked for."""
    for digits in (3, 6, 9):
        if (cut := np.floor(level * 10**digits) / 10**digits) < 1.0:
            return f"{cut:.{digits}f}".rstrip("0")
    return f"{level}"


def _check_new(
    model: Any, scores: HeldOutScores, table: Table | None, way: str, labels: np.ndarray, level: float
) -> None:
    """Whether there are intervals for tasks that were not in the training data; what should be known of them."""
    new, m = names_of(list(dict.fromkeys(labels.tolist()))), scores.m
    if table is None and m > 1:
        raise ValueError(
            f"there are no intervals for new tasks ({new}) with unknown_task={model.unknown_task!r}: this model is from an "
            "older file, and does not know the errors of predicting a task in this way. Fit it again, or set "
            "unknown_task='mean'."
        )
    count = 0 if table is None else len(np.unique(table.task))
    if m < 2 or table is None or not table.reaches(level):
        most = "none is possible" if not count else f"{_down(table.largest_level) if table else 0} at most"
        most = "none is possible with a single task" if m < 2 else most
        raise ValueError(
            f"task(s) {new} were not in the training data. The errors of predicting a new task are known from "
            f"{count if m > 1 else m} task(s): that is too few for a level of {level:g} ({most})."
        )
    warn_user(
        f"task(s) {new} were not in the training data: their intervals come from the errors of predicting each of the "
        f"{count} known tasks {_in_words(way)}. They hold on average over new tasks, if those are like the known ones.",
        NewTaskWarning,
    )


def _in_words(way: str) -> str:
    """How known tasks were predicted for their errors, as if they were new."""
    if way == "mean":
        return "by the mean coefficients of the others"
    if way == "similar":
        return "by the mean coefficients of the others, weighted by how similar they are"
    return "by what the others" + (" with the same known levels" if "1" in way else "") + " have in common"
