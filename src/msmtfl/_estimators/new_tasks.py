"""Coefficients for tasks that were not in the training data, in one of the ways that `unknown_task` names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._data.designs import Floats, Ints
from .._data.task_data import TaskData
from .._objective.problem import Problem
from .._solvers.priors import without_priors

Line = tuple[Floats, Floats]  # coefficients (K, d) and intercepts (K,)


def feature_means(problem: Problem) -> Floats:
    """(m, d): the means of the features over the samples of every task."""
    data = problem.data
    if not isinstance(data, TaskData):
        return np.array([design.mean for design in without_priors(problem.designs)])
    known: dict[tuple[int, int], Floats] = {}  # tasks on the same samples share them
    for task in data.tasks:
        key = (id(task.X), id(task.weight))
        if key not in known:
            weight = np.ones(len(task.y)) if task.weight is None else task.weight
            known[key] = np.ravel(weight @ task.X) / weight.sum()
    return np.array([known[id(task.X), id(task.weight)] for task in data.tasks])


def new_lines(
    model: Any, X: Any, groups: list[Ints], labels: list[Any], coef: Floats, intercept: Floats
) -> Iterator[tuple[Ints, Line]]:
    """For rows of X, those of every new task, the coefficients and intercepts that predict them; `coef` (m, K, d) and
    `intercept` (m, K) are those of the known tasks."""
    if model.unknown_task == "common" and hasattr(model, "_line_of"):  # tasks have levels, of which some may be known
        means, _ = profile(model)
        for rows, label in zip(groups, labels, strict=True):
            yield rows, model._line_of(label, coef, intercept, means)
    elif model.unknown_task == "similar":
        means, sd = profile(model)
        scale = spread(means, sd)
        for rows in groups:
            share = similarity(np.ravel(X[rows].mean(axis=0)), means, sd, scale)
            w = np.tensordot(share, coef, 1)
            yield rows, (w, _level(model, w, share @ intercept))
    elif groups:
        yield np.concatenate(groups), new_line(model, coef, intercept)


def new_line(model: Any, coef: Floats, intercept: Floats) -> Line:
    """The coefficients and intercepts of any new task, by the mean of the known ones or by what they have in common."""
    if model.unknown_task == "mean":
        w = coef.mean(axis=0)
        return w, _level(model, w, intercept.mean(axis=0))
    if model.unknown_task == "similar":
        raise ValueError(
            "unknown_task='similar' depends on the samples that are predicted: it has no coefficients of its own. Set "
            "unknown_task='mean', 'common' or 'error'."
        )
    common = model._common()
    if common is None:
        raise ValueError(
            f"{type(model).__name__} has no part that is common to all tasks. Set unknown_task='mean' or 'similar', or take "
            "SharedMTL, PartialPooling or PretrainedMTL."
        )
    w = np.reshape(common, coef.shape[1:])
    if not getattr(model, "fit_intercept", True):
        return w, np.zeros(len(w))
    means, _ = profile(model)
    levels = intercept + np.einsum(
        "mkd,md->mk", coef - w, means
    )  # of tasks with these coefficients, at their own means
    return w, _level(model, w, levels.mean(axis=0))


def _level(model: Any, w: Floats, otherwise: Floats) -> Floats:
    """The intercepts beside coefficients (K, d): those of the common level where intercepts share one."""
    if not hasattr(model, "common_level_"):
        return np.asarray(otherwise)
    return np.asarray(model.common_level_ - w @ model.level_at_)


def profile(model: Any) -> tuple[Floats, Floats]:
    """The means (m, d) of the features in the known tasks, and their standard deviations (d,) within tasks."""
    if not hasattr(model, "feature_means_"):
        raise ValueError(
            f"unknown_task={model.unknown_task!r} needs the means of the features in every task, which this model, from an "
            "older file, does not hold. Fit it again, or set unknown_task='mean'."
        )
    return np.atleast_2d(model.feature_means_), model.feature_sd_


def distances(mean: Floats, means: Floats, sd: Floats) -> Floats:
    """(m,): mean over the features of the squared differences of means, in standard deviations; constant features are left
    out."""
    live = sd > 0
    if not live.any():
        return np.zeros(len(means))
    return np.asarray((((means - mean)[:, live] / sd[live]) ** 2).mean(axis=1))


def spread(means: Floats, sd: Floats) -> float:
    """How far known tasks are from each other: the median, over tasks, of the distance to the nearest other one."""
    nearest = [np.delete(distances(mean, means, sd), i).min(initial=np.inf) for i, mean in enumerate(means)]
    return float(np.median(nearest)) if len(means) > 1 else 0.0


def similarity(mean: Floats, means: Floats, sd: Floats, scale: float) -> Floats:
    """(m,): shares of the known tasks in a new one whose features have these means: exp(-D_i / scale), over their sum."""
    far = distances(mean, means, sd)
    if scale == 0.0:
        return np.full(len(means), 1.0 / len(means))
    share = np.exp(-(far - far.min()) / scale)
    return np.asarray(share / share.sum())
