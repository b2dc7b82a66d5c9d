"""Held-out errors at points that the rows held out had no part in choosing.

A search takes the best of hundreds of points on some folds, so its score there is better than on new data, by as much as
chance could find. Here each fold is scored at the point that the other folds choose, which costs nothing more than the
search. (What it leaves in: the models that the other folds score were trained on the fold, too.)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from .._data.designs import AnyData, Floats, Ints
from .._data.tables import names_of, warn_user
from .._data.tasks import TaskData
from .._objective.problem import Problem
from .cross_validation import EQUAL, HeldOut, choose, simplest_first, standard_errors, to_explain
from .searched import Searched, cross_fits, fold_scores_of, strengths_in

# Error relative to knowing nothing below which a task is not predicted but known: measurements have noise.
PERFECT = 1e-6
FLAT = 0.01  # share of the error by which it must still fall at the end of a grid
TWICE, FAR = 1.9, 4.0  # times the smallest lam: where the grid is looked at for comparison; a coarser one cannot tell
CLEARLY = 2.0  # standard errors over folds
NOTHING_TO_GAIN = 0.01  # of the variance of targets: errors below it need no smaller lam
OVER_RATIOS = "cross_fitted_score"  # the column of `cv_results_` that says so where several l1_ratios were tried
VALUES = 10  # different targets of a task without which an exact prediction is no wonder


def points_without(model: Searched, among: Ints | None = None) -> Ints:
    """(folds,): for each fold the place in `cv_results_` of the point that the other folds choose, by the model's own rule;
    `among` some of the points, or all."""
    results, scores = model.cv_results_, fold_scores_of(model)
    if among is not None:
        outside = np.ones(scores.shape[1], dtype=bool)
        outside[among] = False
        scores[:, outside] = np.nan
    grid: Any = SimpleNamespace(
        parameters={name: values[None] for name, values in strengths_in(results).items()},
        n_rows=results["n_rows"][None],
        n_entries=results["n_entries"][None],
    )
    rest = (np.delete(scores, f, axis=0)[:, None] for f in range(len(scores)))
    return np.array([choose(part, grid, model.selection)[1] for part in rest])


def in_order(model: Searched) -> Ints:
    """The places in `cv_results_` of the points that have a score in every fold, the simplest first."""
    results = model.cv_results_
    known = np.flatnonzero(np.isfinite(fold_scores_of(model)).all(axis=0))
    strengths = [values[known] for values in strengths_in(results).values()]
    return known[simplest_first(results["n_rows"][known], results["n_entries"][known], strengths)]


def choose_simplest(scores: Floats, selection: str) -> Ints:
    """(...,): what `choose` would take for scores (folds, ..., P) of points that are in order, the simplest first."""
    mean = scores.mean(axis=0)
    best = np.argmax(mean, axis=-1)[..., None]
    top = np.take_along_axis(mean, best, axis=-1)
    slack = np.take_along_axis(standard_errors(scores), best, axis=-1) if selection == "1se" else EQUAL * np.abs(top)
    return np.asarray(np.argmax(mean >= top - slack, axis=-1))


def cross_fitted_score(model: Searched) -> float:
    """The mean score of the folds, each at the point that the others choose."""
    if not cross_fits(model):
        raise AttributeError(
            f"this {type(model).__name__} has no cross_fitted_score_: that takes a search with at least two folds."
        )
    known = model.cv_results_.get(OVER_RATIOS)  # of several l1_ratios `cv_results_` has one only
    return float(np.mean(_at_points_of_others(model)[1]) if known is None else known[0])


def cross_fitted_over(searches: Sequence[Searched]) -> float:
    """The same where the folds choose among several searches on the same folds as well: each fold is scored in the search,
    and at the point, that the others choose."""
    found = [_at_points_of_others(one) for one in searches]
    of_others, of_fold = np.array([one[0] for one in found]), np.array([one[1] for one in found])  # (searches, folds)
    return float(np.mean(of_fold[np.argmax(of_others, axis=0), np.arange(of_fold.shape[1])]))


def _at_points_of_others(model: Searched) -> tuple[Floats, Floats]:
    """(folds,) each: the best mean score of the others, and that of the fold at the point that they choose."""
    scores, places = fold_scores_of(model), points_without(model)
    mean = (scores.sum(axis=0) - scores) / (len(scores) - 1)
    return np.where(np.isfinite(mean), mean, -np.inf).max(axis=1), scores[np.arange(len(scores)), places]


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


class GridEndWarning(UserWarning):
    """The best point of a search lies at the end of its grid, where errors are still falling."""


def warn_if_at_the_end(held_out: HeldOut, problem: Problem, scores: Floats, parameters: dict[str, Floats]) -> None:
    """A warning where the best point of a grid, whose lams fall, has the smallest of them and it is not flat there: a
    stronger penalty, about twice as strong, is worse in more than one per cent, and by more than chance makes of folds.
    Scores (folds, K, L) are greater where they are better. Tasks that are predicted almost exactly have nothing to gain."""
    name, main = next(iter(parameters.items()))
    mean, lams = scores.mean(axis=0), main + parameters.get("lam_entry", 0.0)
    if problem.error != "mse" or len(lams) < 2 or len(scores) < 2:
        return
    k, l = divmod(int(np.nanargmax(mean)), mean.shape[1])
    error, weight = _nmse(held_out, problem, k, l)
    times = lams[:k, l] / lams[k, l]
    before = np.flatnonzero(np.isfinite(mean[:k, l]) & (times >= TWICE) & (times <= FAR))
    if k < len(lams) - 1 or not before.size or np.average(error, weights=weight) < NOTHING_TO_GAIN:
        return
    gain = scores[:, k, l] - scores[:, before[-1], l]
    chance = CLEARLY * gain.std(ddof=1) / np.sqrt(len(gain))
    if gain.mean() > max(FLAT * abs(mean[k, l]), chance):
        share = lams[k, l] / lams[0, l]
        warn_user(
            f"the best point has the smallest {name} of the grid, {main[k, l]:.3g}, and errors are still falling there: the "
            f"mean score is {mean[k, l]:.4g}, and {mean[before[-1], l]:.4g} at {times[before[-1]]:.2g} times "
            f"that {name}. A smaller one may predict better: search further with lam_min_ratio={share / 100:.0e} (the grid "
            f"ends at {share:.0e} of its largest). Without intercepts, centre the targets of every task, or fit some.",
            GridEndWarning,
        )


def warn_if_too_good(held_out: HeldOut, problem: Problem, k: int, l: int) -> None:
    """A warning of tasks whose held-out squared errors at a point of the grid no measurement allows."""
    if problem.error != "mse":
        return
    error, _ = _nmse(held_out, problem, k, l)
    perfect = [i for i in np.flatnonzero(error < PERFECT).tolist() if _values(problem.data, i) >= VALUES]
    if perfect:
        warn_user(too_good(problem.data.labels[perfect], error[perfect], "nMSE"), TooGoodWarning)


def _nmse(held_out: HeldOut, problem: Problem, k: int, l: int) -> tuple[Floats, Floats]:
    """(m,) each: held-out squared errors of the tasks at a point over their variances, 1 where that is not known, and the
    weights held out.
    """
    mse, weight = held_out.mse[:, :, k, l], np.where(np.isfinite(held_out.mse[:, :, k, l]), held_out.weight, 0.0)
    total = weight.sum(axis=0)
    variance = np.array([target.variance for target in to_explain(problem.data)])
    known = (total > 0) & (variance > 0)
    mean = (np.nan_to_num(mse) * weight).sum(axis=0)
    return np.divide(mean, total * variance, out=np.ones(len(total)), where=known), total


def _values(data: AnyData, i: int) -> int:
    """How many different targets a task has; where rows are not at hand, how many rows."""
    return len(np.unique(data.tasks[i].y)) if isinstance(data, TaskData) else int(data.targets[i].rows)
