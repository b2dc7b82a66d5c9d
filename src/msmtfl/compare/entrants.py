"""Who takes part in a comparison: models by name or as given, and whether they can."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._data.designs import Ints
from .._data.tables import choices_of, known_as, names_of, warn_user
from .._data.task_data import TaskData
from .._data.task_levels import TaskLevels, has_levels
from .._estimators.families import compared_variants
from .._paths.validation.held_out import Split
from .._runtime.checks import check_flag
from .of_losses import under_loss


def default_models(
    *,
    cv: int = 5,
    standardize: bool = False,
    random_state: Any = 0,
    classify: bool = False,
    intercepts: str = "task",
    named: bool = False,
    levels: bool = False,
) -> dict[str, Any]:
    """The paper's four models, the one with common values, and what an analyst would try first; all choose their parameters
    by cross-validation. Of classifiers the same, with the logistic loss. With `named` also those that take part only where
    they are asked for by name, with `levels` those for tasks with several levels."""
    common = {"unknown_task": "mean", "cv": cv, "random_state": random_state}
    models = {
        name: family.search(**variant.options, **common, standardize=standardize or variant.scaling)
        for name, (family, variant) in compared_variants(classify, named, levels).items()
    }
    for model in models.values():
        if "intercepts" in model.get_params() and model._can_share(intercepts):
            model.set_params(intercepts=intercepts)
    return models


def for_levels(models: Any, data: TaskData, options: dict[str, Any], loss: str = "squared") -> dict[str, Any]:
    """The models that take part by default where tasks have several levels."""
    if models is not None or not has_levels(data.labels):
        return {}
    found = read_models(None, default_models(**options, levels=True), loss)
    plain = default_models(**options)
    return {name: model for name, model in found.items() if name not in plain}


def tasks_left_out(asked: bool | str, data: TaskData, task_column: Any) -> list[Ints]:
    """Which tasks are left out together: each by itself, or those with the same value of a level."""
    if not isinstance(asked, str):
        return [np.array([i]) for i in range(data.m)] if asked else []
    parts = task_column.split(",") if isinstance(task_column, str) else task_column
    names = [one.strip() for one in parts] if parts and all(isinstance(one, str) for one in parts) else None
    levels = TaskLevels.of(data.labels, names, nested=False)
    if data.form == "wide" or asked not in levels.names:
        known = "the tasks are columns of y" if data.form == "wide" else f"levels are {names_of(levels.names)}"
        raise ValueError(
            f"leave_one_task_out={asked!r} is no level of the tasks ({known}): give task_column=[...], the columns of the "
            "levels, or True to leave out every task by itself."
        )
    of_tasks = levels.codes[:, levels.names.index(asked)]
    if of_tasks.max() == 0:
        raise ValueError(f"all tasks have the same {asked!r}: none is left without it. Leave out another level.")
    return [np.flatnonzero(of_tasks == code) for code in range(int(of_tasks.max()) + 1)]


def shares(model: Any) -> bool:
    """Whether the intercepts of a model share."""
    return getattr(model, "intercepts", "task") != "task"


def with_enough(models: dict[str, Any], data: TaskData, classes: int, folds: int, reference: str) -> dict[str, Any]:
    """The models without those that need an intercept per task, where a task has too few samples of a class for one."""
    few = [task.label for task in data.tasks if np.bincount(task.y.astype(np.intp), minlength=classes).min() < folds]
    out = {name: model for name, model in models.items() if not few or shares(model)}
    unable = [name for name in models if name not in out]
    if unable and (len(out) < 2 or reference in unable):
        raise ValueError(
            f"task(s) {names_of(few)} have fewer rows of a class than {folds} folds: model(s) {names_of(unable)}, whose "
            "intercepts do not share, cannot be compared on them. Leave out these models, or these tasks."
        )
    if unable:
        warn_user(
            f"model(s) {names_of(unable)} are left out: they need an intercept per task, for which task(s) {names_of(few)} "
            "have too few rows of a class."
        )
    return out


def classifies(models: Any, asked: bool | None) -> bool:
    """Whether classifiers are compared: as asked, or as the models given say."""
    if asked is not None:
        check_flag("classify", asked)
    if not isinstance(models, Mapping):
        return bool(asked)
    able = [name for name, model in models.items() if hasattr(model, "predict_proba")]
    unable = [name for name in models if name not in able]
    if able and unable:
        raise TypeError(
            f"model(s) {names_of(able)} are classifiers, {names_of(unable)} are not (no predict_proba): compare one or the "
            "other."
        )
    if asked is not None and asked != bool(able):
        raise TypeError(f"classify={asked}, but the models are {'' if able else 'no '}classifiers.")
    return bool(able)


def read_models(models: Any, known: dict[str, Any], loss: str = "squared") -> dict[str, Any]:
    """The models asked for; those by name are set to the loss."""
    every, known = known, under_loss(known, loss)
    if models is None:
        return known
    if isinstance(models, Mapping):
        chosen = dict(models)
        for name, model in chosen.items():
            if not isinstance(name, str):
                raise TypeError(f"the names of models must be text; got {name!r}.")
            if isinstance(model, type) or not (hasattr(model, "fit") and hasattr(model, "predict")):
                raise TypeError(f"model {name!r} must be an estimator with fit and predict; got {model!r}.")
    else:
        listed = [models] if isinstance(models, str) else list(models)
        listed = [known_as(name, every) or name for name in listed]
        unable = [name for name in listed if name in every and name not in known]
        if unable:
            raise ValueError(
                f"model(s) {names_of(unable)} cannot be fitted with loss={loss!r}. Those that can: {names_of(known)}."
            )
        absent = [name for name in listed if name not in known]
        if absent:
            raise ValueError(f"unknown model(s) {names_of(absent)}. Known: {choices_of(absent[0], known)}.")
        if len(set(listed)) < len(listed):
            twice = next(name for k, name in enumerate(listed) if name in listed[:k])
            raise ValueError(f"model {twice!r} is listed twice.")
        chosen = {name: known[name] for name in listed}
    if len(chosen) < 2:
        raise ValueError("give at least two models to compare.")
    return chosen


def check_signature(name: str, model: Any, labelled: bool, weighted: bool, offset: bool = False) -> None:
    """Whether a model can be given task labels, weights and an offset."""
    needed = [("fit", "task"), ("predict", "task")] if labelled else []
    needed += [("fit", "sample_weight")] if weighted else []
    needed += [("fit", "offset"), ("predict", "offset")] if offset else []
    for method, option in needed:
        known = inspect.signature(getattr(model, method)).parameters
        if option not in known and not (method == "fit" and any(p.kind == p.VAR_KEYWORD for p in known.values())):
            raise TypeError(
                f"model {name!r} ({type(model).__name__}) has no {method}(..., {option}=...). Models are given task labels "
                "beside X, so a Pipeline or a plain scikit-learn model cannot take part: transform X beforehand."
            )
    if labelled and any(p.kind == p.VAR_KEYWORD for p in inspect.signature(model.fit).parameters.values()):
        raise TypeError(f"model {name!r} ({type(model).__name__}) does not say that its fit takes task=...")


def check_inner(data: TaskData, splits: Sequence[Split], groups: np.ndarray | None, inner_cv: int) -> None:
    """Whether there are enough training rows for the folds inside."""
    if inner_cv < 2:
        raise ValueError(f"inner_cv must be at least 2, got {inner_cv}.")
    for f, split in enumerate(splits):
        if groups is not None:
            left = len(np.unique(groups[split.train]))
            if left < inner_cv:
                raise ValueError(f"{left} group(s) to train on in fold {f}, fewer than inner_cv={inner_cv}: lower it.")
            continue
        rows = [int(split.train[task.rows].sum()) for task in data.tasks]
        if max(rows) < inner_cv:  # smaller tasks are held out in some folds, or in none
            raise ValueError(
                f"every task has fewer rows to train on in fold {f} than inner_cv={inner_cv}: at most {max(rows)}. Use "
                "fewer inner folds."
            )
