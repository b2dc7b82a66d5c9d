"""What one asks of any fitted model: its loss, the model that it chose, how it responds; and warnings about its use."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.categories import check_unknown, of_model
from .._data.designs import Floats
from .._data.tables import (
    as_values,
    is_table,
    missing_values,
    names_of,
    places_of,
    warn_user,
)
from .._objective.coupled.groups import Groups, groups_named
from .._objective.losses import LOGISTIC, SOFTMAX, is_loss, loss_named
from .._solvers.problems.arguments import check_loss

WORDS = {
    "mean": "the mean coefficients of the {} known task(s)",
    "common": "what the {} known task(s) have in common",
    "similar": "the mean of the {} known task(s), weighted by how similar their features are",
}

WAYS = ("mean", "common", "similar")

BETWEEN_TASKS = (  # what can learn from columns that differ between tasks only
    "To learn from the differences between tasks, fit one model to all rows without task labels (in cross-validation with "
    "groups= the tasks), or regress intercept_ on these columns."
)
AT_MOST = 1000  # samples of new tasks that are looked at for how far known tasks differ in them


class NewTaskWarning(UserWarning):
    """Predictions are for tasks that were not in the training data."""


class TaskLevelWarning(UserWarning):
    """Features differ between tasks only, so that their coefficients cannot be learned."""


def refuse_offset(offset: Any) -> None:
    """An error if an offset is given beside statistics, which hold no rows that it could belong to."""
    if offset is not None:
        raise ValueError(
            "an offset needs rows, not statistics of them. With squared loss subtract it from y before the statistics are "
            "made, and add it to the predictions."
        )


def require_offset(model: Any, offset: Any) -> None:
    """An error if a model that was fitted with an offset is used without."""
    if offset is None and getattr(model, "uses_offset_", False):  # models from earlier files do not know
        raise ValueError(
            f"this {type(model).__name__} was fitted with an offset: pass offset=, one value per row (the logarithm of its "
            "exposure, if that is what the offset was), or offset=0.0 for none (an exposure of 1)."
        )


def where_measured(offset: Any, y: Any) -> Any:
    """An offset for all entries of a 2-D y, from one for those that are measured: 0 at the others, which nobody looks at."""
    values = None if offset is None else as_values(offset, "offset")
    if values is None or values.ndim != 2 or values.dtype.kind != "f":
        return offset
    given = as_values(y, "y")
    if given.shape != values.shape:
        return offset
    return np.where(missing_values(given.ravel()).reshape(given.shape), 0.0, values)


def spread_over_tasks(model: Any, X: Any, offset: Floats | None = None) -> float:
    """How far the predictions of known tasks lie apart in samples of new ones: the root mean square, over the first of them,
    of their standard deviation. That is about the error of predicting one task by the mean of the others, noise aside. NaN
    of classes, and of a single task."""
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    if hasattr(model, "classes_") or coef.ndim > 2 or len(coef) < 2:
        return float("nan")
    beside = 0.0 if offset is None else offset[:AT_MOST, None]
    every = respond(model, np.asarray(X[:AT_MOST] @ coef.T) + intercept + beside)
    return float(np.sqrt(np.mean(every.var(axis=1, ddof=1))))


def errors_of_new_tasks(model: Any) -> tuple[Floats, float] | None:
    """Of a search by squared errors: the root mean squared errors (m,) of its tasks, each predicted by the mean coefficients
    of the others, and that of samples held out, by the coefficients of their own tasks. None where nobody knows."""
    scores = getattr(model, "held_out_", None)
    if scores is None or scores.m < 2 or hasattr(model, "classes_") or loss_of(model) != "squared":
        return None
    others, own = scores.others, scores.own
    weight = np.bincount(others.fold, others.weight, scores.m)
    if not (weight > 0).all() or not len(own.score):
        return None
    of_task = np.sqrt(np.bincount(others.fold, others.weight * others.score**2, scores.m) / weight)
    return of_task, float(np.sqrt(np.average(own.score**2, weights=own.weight)))


def warn_of_new_tasks(model: Any, labels: list[Any], rows: int, spread: float) -> None:
    """What should be known of predictions for tasks that were not in the training data."""
    apart = (
        f" The known tasks' own predictions for them differ by {spread:.2g} (standard deviation)." if spread > 0 else ""
    )
    way = "" if hasattr(model, "classes_") else " compare_models(..., leave_one_task_out=True) estimates it."
    found = errors_of_new_tasks(model)
    about = f" The error of such predictions is not known.{way}"
    if found is not None:
        of_task, own = found
        low, high = (model.tasks_.tolist()[int(k)] for k in (np.argmin(of_task), np.argmax(of_task)))
        about = (
            " How far such predictions are off is known from the tasks of the fit, each predicted by the mean coefficients "
            f"of the others: by {np.median(of_task):.3g} (root mean square, median over tasks; {of_task.min():.3g} in "
            f"{low!r} to {of_task.max():.3g} in {high!r}), where their own coefficients are off by {own:.3g}."
        )
    warn_user(
        f"task(s) {names_of(labels)} were not in the training data: their {rows} prediction(s) use "
        f"{WORDS[model.unknown_task].format(len(model.tasks_))}.{apart}{about}",
        NewTaskWarning,
    )


def check_without_ridge(model: Any, what: str) -> None:
    """An error where a fitted model has a ridge, which something does not know."""
    ratio = getattr(model, "l1_ratio_", getattr(model, "l1_ratio", 1.0))
    if ratio != 1.0:
        raise ValueError(
            f"{what} is about models without a ridge: this one has l1_ratio={ratio!r}. Fit with l1_ratio=1."
        )


def task_column_in(model: Any, X: Any) -> Any:
    """The column that identifies the task in what is to be predicted: where a name was given to the fit, but X is an array
    (as tools hand on that know no tables), its place in the table of the fit."""
    column = model.task_column
    named = isinstance(column, str) or (
        isinstance(column, (list, tuple)) and any(isinstance(one, str) for one in column)
    )
    return model._task_position if named and not is_table(X) and model._task_position is not None else column


def forget(model: Any, *names: str) -> None:
    """Delete those of a model's attributes, from a fit before, that it has and that the fit at hand may not set."""
    for name in names:
        if hasattr(model, name):
            delattr(model, name)


def check_use(model: Any) -> None:
    """Whether the parameters that predictions depend on make sense: they may be set after the fit, or come from a file."""
    if model.unknown_task not in ("error", *WAYS):
        raise ValueError(
            f"unknown_task must be 'error', {', '.join(map(repr, WAYS[:-1]))} or {WAYS[-1]!r}, got {model.unknown_task!r}."
        )
    check_unknown(getattr(model, "unknown_category", "error"))
    if hasattr(model, "loss"):
        check_loss(model.loss, getattr(model, "epsilon", 1.35))


def is_model(model: Any) -> bool:
    """Whether an object is a model of this package."""
    return getattr(type(model), "_of_msmtfl", False)


def choice_of(model: Any) -> dict[str, dict[str, str]]:
    """Which family was chosen and why, as a note that goes with the model; empty if it was not chosen so."""
    of_this = getattr(model, "_note_of_choice", None)  # of a MultiTaskAuto
    if of_this is not None:
        note: dict[str, dict[str, str]] = of_this()
        return note
    as_loaded = hasattr(model, "coef_") and getattr(model, "_from_file", None) is model.coef_
    noted = model.provenance_.get("choice") if as_loaded else None
    return {"choice": noted} if noted else {}


def model_chosen(model: Any) -> Any:
    """Of a fitted MultiTaskAuto (or a GridSearchCV) the model that it chose; others as they are."""
    return getattr(model, "best_estimator_", model)


def noted(model: Any, name: str) -> Any:
    """What the command wrote down under this name in the file that a model comes from; None if it did not."""
    user = getattr(model, "provenance_", {}).get("user")
    return user.get(name) if isinstance(user, dict) else None


def warn_of_task_level(features: Any) -> None:
    """Coefficients of 0 that a reader would take for "no effect", of these features."""
    if len(features):
        warn_user(
            f"feature(s) {names_of(features)} are constant within every task and differ only between "
            "tasks: beside an intercept per task they cannot be learned. Their coefficients are 0, which says nothing about "
            f"their effect. {BETWEEN_TASKS} Leave them out here.",
            TaskLevelWarning,
        )


def groups_of(model: Any) -> Groups | None:
    """The groups of a fitted model's features that its penalty knows, if there are any."""
    names = getattr(model, "feature_groups_", None) if model._selects() else None
    return None if names is None else groups_named([str(name) for name in names])


def separate(model: Any) -> bool:
    """Whether every task of a fitted model has a sparse model of its own, whatever the others are like."""
    return len(model.tasks_) == 1 or bool(model._separates())


def respond(model: Any, f: Floats) -> Floats:
    """What a regression predicts, from its linear predictor."""
    return loss_named(loss_of(model)).response(f)


def loss_of(model: Any) -> str:
    """The name of a model's loss."""
    return str(getattr(model, "loss", "squared"))


def of_survival(model: Any) -> bool:
    """Whether a model's targets are times until an event, and its predictions logarithms of hazards."""
    return is_loss(loss_of(model)) and not loss_named(loss_of(model)).levelled


def scoring_of(model: Any) -> Any:
    """What a search scored points by."""
    return "neg_deviance" if of_survival(model) else model.scoring


def name_of_loss(model: Any) -> str:
    """The name of the loss that a model was fitted with, classifiers included."""
    if not hasattr(model, "classes_"):
        return loss_of(model)
    return SOFTMAX if classes_together(model) else LOGISTIC


def classes_together(model: Any) -> bool:
    """Whether a classifier's classes have one loss, the softmax."""
    return bool(getattr(model, "multinomial", False)) and len(getattr(model, "classes_", ())) > 2


def importances(model: Any) -> Floats:
    """Row norms of the columns of a fitted model's X, task columns (if there are any) getting the largest: of a
    categorical column that of its group, or the sum of those of its levels."""
    norms: Floats = model.row_norms_
    encoding = of_model(model)
    if encoding is not None:
        ends = np.cumsum(encoding.counts)
        one = norms[ends - 1] if groups_of(model) is not None else np.add.reduceat(norms, ends - encoding.counts)
        norms = np.asarray(one)
    largest = norms.max(initial=0.0)
    for place in sorted(places_of(model._task_position)):
        norms = np.insert(norms, place, largest)
    return norms
