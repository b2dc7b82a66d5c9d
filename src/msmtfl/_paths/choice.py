"""Held-out errors at points that the rows held out had no part in choosing.

A search takes the best of hundreds of points on some folds, so its score there is better than on new data, by as much as
chance could find. Here each fold is scored at the point that the other folds choose, which costs nothing more than the
search. (What it leaves in: the models that the other folds score were trained on the fold, too.)
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from .._data.designs import AnyData, Floats, Ints
from .._data.tables import names_of, warn_user
from .._data.tasks import TaskData
from .._objective.problem import Problem
from .cross_validation import HeldOut, choose

# Error relative to knowing nothing below which a task is not predicted but known: measurements have noise.
PERFECT = 1e-6
VALUES = 10  # different targets of a task without which an exact prediction is no wonder
STRENGTHS = ("lam_b", "lam_s", "lam", "lam_common", "lam_deviation", "theta", "lam_entry", "theta_entry")


class Searched(Protocol):
    """A fitted model that has searched a grid by cross-validation."""

    n_splits_: int
    cv_results_: Mapping[str, np.ndarray]
    selection: str


def fold_scores_of(model: Searched) -> Floats:
    """(folds, P): scores of the points of a fitted CV model's grid, greater is better."""
    columns = (f"split{f}_test_score" for f in range(model.n_splits_))
    return np.array([model.cv_results_[name] for name in columns])


def cross_fits(model: object) -> bool:
    """Whether a model has folds of which each can be scored at a point that others chose."""
    return getattr(model, "n_splits_", 0) > 1 and "split0_test_score" in getattr(model, "cv_results_", {})


def points_without(model: Searched, among: Ints | None = None) -> Ints:
    """(folds,): for each fold the place in `cv_results_` of the point that the other folds choose, by the model's own rule;
    `among` some of the points, or all."""
    results, scores = model.cv_results_, fold_scores_of(model)
    if among is not None:
        outside = np.ones(scores.shape[1], dtype=bool)
        outside[among] = False
        scores[:, outside] = np.nan
    grid: Any = SimpleNamespace(
        parameters={name: results[name][None] for name in STRENGTHS if name in results},
        n_rows=results["n_rows"][None],
        n_entries=results["n_entries"][None],
    )
    rest = (np.delete(scores, f, axis=0)[:, None] for f in range(len(scores)))
    return np.array([choose(part, grid, model.selection)[1] for part in rest])


def cross_fitted_score(model: Searched) -> float:
    """The mean score of the folds, each at the point that the others choose."""
    if not cross_fits(model):
        raise AttributeError(
            f"this {type(model).__name__} has no cross_fitted_score_: that takes a search with at least two folds."
        )
    scores = fold_scores_of(model)
    return float(np.mean(scores[np.arange(len(scores)), points_without(model)]))


class TooGoodWarning(UserWarning):
    """Held-out targets of a task are predicted better than measurements allow."""


def too_good(tasks: np.ndarray | Sequence[Hashable], errors: Floats, measure: str) -> str:
    """What to say of tasks whose held-out errors no measurement allows; empty if there is none."""
    if len(tasks) == 0:
        return ""
    at_most = f"at most {np.max(errors):.0e}" if np.max(errors) > 0 else "0"
    return (
        f"Too good to be true: held-out targets of task(s) {names_of(tasks)} are predicted with a {measure} of {at_most}. "
        "The target is probably computed from a feature, or samples are there twice."
    )


def warn_if_too_good(held_out: HeldOut, problem: Problem, k: int, l: int) -> None:
    """A warning of tasks whose held-out squared errors at a point of the grid no measurement allows."""
    if problem.error != "mse":
        return
    mse, weight = held_out.mse[:, :, k, l], np.where(np.isfinite(held_out.mse[:, :, k, l]), held_out.weight, 0.0)
    total = weight.sum(axis=0)
    variance = np.array([target.variance for target in problem.data.targets])
    known = (total > 0) & (variance > 0)
    mean = (np.nan_to_num(mse) * weight).sum(axis=0)
    error = np.divide(mean, total * variance, out=np.ones(len(total)), where=known)
    perfect = [i for i in np.flatnonzero(error < PERFECT).tolist() if _values(problem.data, i) >= VALUES]
    if perfect:
        warn_user(too_good(problem.data.labels[perfect], error[perfect], "nMSE"), TooGoodWarning)


def _values(data: AnyData, i: int) -> int:
    """How many different targets a task has; where rows are not at hand, how many rows."""
    return len(np.unique(data.tasks[i].y)) if isinstance(data, TaskData) else int(data.targets[i].rows)
