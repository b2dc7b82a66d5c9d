"""What a search warns of once it has chosen: a grid that ends too early, and tasks that are predicted too well."""

from __future__ import annotations

import numpy as np

from ..._data.designs import AnyData, Floats
from ..._data.tables import warn_user
from ..._data.task_data import TaskData
from ..._objective.problem import Problem
from .cross_validation import to_explain
from .errors import HeldOut
from .too_good import PERFECT, TooGoodWarning, too_good

FLAT = 0.01  # share of the error by which it must still fall at the end of a grid
TWICE, FAR = 1.9, 4.0  # times the smallest lam: where the grid is looked at for comparison; a coarser one cannot tell
CLEARLY = 2.0  # standard errors over folds
NOTHING_TO_GAIN = 0.01  # of the variance of targets: errors below it need no smaller lam
VALUES = 10  # different targets of a task without which an exact prediction is no wonder


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
