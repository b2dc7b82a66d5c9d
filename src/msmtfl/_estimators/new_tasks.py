"""Coefficients for tasks that were not in the training data, in one of the ways that `unknown_task` names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from .._data.designs import Floats, Ints
from .._data.task_data import TaskData
from .._data.task_levels import TaskLevels
from .._objective.problem import Problem
from .._paths.conformal import Stand, means_of_others
from .._paths.validation.left_out import LeftOut, shares_by_level
from .._solvers.problems.make_problem import of_tasks
from .._solvers.problems.priors import without_priors
from .families import family_of

NOTHING_COMMON = (
    "{} has no part that is common to all tasks. Set unknown_task='mean' or 'similar', or take SharedMTL, PartialPooling or "
    "PretrainedMTL."
)

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
        raise ValueError(NOTHING_COMMON.format(type(model).__name__))
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


# ------------------------------------------------------------------ as if known tasks were new


def leave_tasks(splits: list[Any]) -> bool:
    """Whether any of the folds leaves out whole tasks."""
    return any(getattr(split, "left_out", None) is not None for split in splits)


def left_out(model: Any, problem: Problem, split: Any) -> LeftOut | None:
    """The tasks that a fold leaves out, and what `model.unknown_task` says to stand for them: where it is "error", what
    tasks have in common; None if there are none."""
    new = getattr(split, "left_out", None)
    if new is None:
        return None
    known = np.setdiff1d(np.arange(problem.m), new)
    means, way = feature_means(problem), model.unknown_task
    shares, effects = np.full((len(new), len(known)), 1.0 / len(known)), None
    common = any(part.common for part in family_of(model).parts)
    if way == "common" and not common:
        raise ValueError(NOTHING_COMMON.format(type(model).__name__))
    if way == "similar":
        sd = of_tasks(problem, known).feature_sds
        scale = spread(means[known], sd)
        shares = np.array([similarity(mean, means[known], sd, scale) for mean in means[new]])
    elif way != "mean" and hasattr(model, "_line_of"):
        levels: TaskLevels = model._found_levels(problem)
        shares = shares_by_level(levels.codes[known], levels.codes[new])
        effects = levels.places_in(known, new)
    elif way != "mean" and common:
        effects = np.empty((len(new), 0), dtype=np.intp)
    return LeftOut(new, known, shares, means[known] if effects is not None and model.fit_intercept else None, effects)


def way_of(model: Any, label: Any) -> str:
    """The way in which a new task is predicted, as `ways` names it: where tasks have levels it depends on those of its
    values that are known."""
    way = str(model.unknown_task)
    if way != "common" or not hasattr(model, "_line_of"):
        return way
    return f"common {''.join(str(int(at >= 0)) for at in model._effects_of(label))}"


def ways(model: Any, means: Floats, sd: Floats) -> dict[str, Stand]:
    """What would predict the known tasks of a fit from each other, by each way but the mean; `means` (m, d) and `sd` (d,)
    are those of the features."""
    if len(means) < 2:
        return {}
    out: dict[str, Stand] = {"similar": partial(_by_shares, _shares(means, sd))}
    none_known = partial(_by_all, means)
    if hasattr(model, "_line_of"):
        levels = model.task_effects_
        for known in product((False, True), repeat=levels.shape[1]):
            name = "".join(str(int(one)) for one in known)
            out[f"common {name}"] = partial(_by_levels, levels[:, list(known)], means) if any(known) else none_known
    elif any(part.common for part in family_of(model).parts) or not (model._separates() or family_of(model).fit):
        out["common"] = none_known
    return out


def _shares(means: Floats, sd: Floats) -> Floats:
    """(m, m): how similar every task is to each other one, if it is left out of the known ones."""
    m = len(means)
    far, out = np.array([distances(mean, means, sd) for mean in means]), np.zeros((m, m))
    np.fill_diagonal(far, np.inf)
    nearest, first = far.argmin(axis=1), far.min(axis=1)
    second = np.where(np.arange(m) == nearest[:, None], np.inf, far).min(axis=1)
    for i in range(m):
        others = np.delete(np.arange(m), i)
        closest = np.where(nearest == i, second, first)[others]
        scale = float(np.median(closest)) if m > 2 else 0.0
        out[i, others] = by_distance(far[i, others], scale)
    return out


def _by_shares(shares: Floats, coef: Floats, intercept: Floats) -> Line:
    return np.tensordot(shares, coef, 1), shares @ intercept


def _by_all(means: Floats, coef: Floats, intercept: Floats) -> Line:
    """By the mean coefficients of the others, and the mean of the intercepts that they would have with these."""
    w, levels = means_of_others(coef, intercept + np.einsum("mkd,md->mk", coef, means))
    at, _ = means_of_others(means, means)
    return w, levels - np.einsum("mkd,md->mk", w, at)


def _by_levels(known: Ints, means: Floats, coef: Floats, intercept: Floats) -> Line:
    """By the mean of the other tasks, and what those with the same values at the levels `known` (m, L) have beside it.
    Intercepts are those of the tasks, had they these coefficients."""
    W, b = np.full_like(coef, np.nan), np.full_like(intercept, np.nan)
    for i in range(len(coef)):
        others = np.delete(np.arange(len(coef)), i)
        w = np.zeros_like(coef[i])
        apart, codes = coef[others], known[others]
        for k in range(-1, known.shape[1]):
            alike = np.ones(len(others), dtype=bool) if k < 0 else codes[:, k] == known[i, k]
            if not alike.any():
                break
            w = w + apart[alike].mean(axis=0)
            apart = apart - _means(apart, np.zeros(len(others), dtype=np.intp) if k < 0 else codes[:, k])
        else:
            W[i] = w
            rest = intercept[others] + np.einsum("mkd,md->mk", coef[others] - w, means[others])
            b[i] = 0.0
            for k in range(-1, known.shape[1]):
                of = np.zeros(len(others), dtype=np.intp) if k < 0 else codes[:, k]
                b[i] += rest[of == (0 if k < 0 else known[i, k])].mean(axis=0)
                rest = rest - _means(rest, of)
    return W, b


def _means(values: Floats, codes: Ints) -> Floats:
    """The mean over the tasks with the same code, for each."""
    _, place, counts = np.unique(codes, return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), *values.shape[1:]))
    np.add.at(sums, place, values)
    return np.asarray((sums / counts.reshape(-1, *[1] * (values.ndim - 1)))[place])


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
    return by_distance(distances(mean, means, sd), scale)


def by_distance(far: Floats, scale: float) -> Floats:
    """(m,): the same from distances (m,)."""
    if scale == 0.0:
        return np.full(len(far), 1.0 / len(far))
    share = np.exp(-(far - far.min()) / scale)
    return np.asarray(share / share.sum())
