"""Where Gram rows are fetched on demand: which of them a surface will need, so that they are fetched together.

A fetch is a pass over X, whether it brings one row or sixteen. First stages (`likely_shared`): tasks mostly use the same
features, those that all of them together are correlated with most. Second stages (`foresee`): what they free is known once
all first stages are, the features whose row norm reaches theta. Afterwards few fetches are left, so that threads can take a
lam each.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from .._data.designs import Floats, Ints
from .._objective.problem import Problem
from .._objective.shapes import CAPPED
from .._runtime.threads import each_or_together
from .._solvers.gram import WHOLE_AT_MOST, Gram, at_hand
from .._solvers.largest_lam import first_gradient
from .._solvers.lassos.lasso_solver import Solve
from .._solvers.lassos.task_solver import AT_LEAST_OF_MANY, Caches
from .grid import Grid

LIKELY = AT_LEAST_OF_MANY  # features whose rows a task gets with the first that it needs: as many as a fetch brings
TOGETHER = 4  # rows are fetched in multiples of this, the height of the kernel's tiles: one takes as long as four


def likely_shared(problem: Problem, grams: Caches) -> Ints | None:
    """The features that all tasks together speak for most: they will be in use, or free, in most of them. None where rows
    are so short that an own fetch for them costs little, or all are at hand."""
    if problem.d <= WHOLE_AT_MOST or at_hand(grams):
        return None
    total = np.abs(first_gradient(problem)).sum(axis=0)
    some = np.argpartition(total, -LIKELY)[-LIKELY:]
    return some[np.argsort(-total[some], kind="stable")]


def foresee(
    problem: Problem, grid: Grid, firsts: Mapping[int, Solve], grams: Caches, roomy: int, n_jobs: int | None
) -> bool:
    """Fetch what second stages need, as far as the budget allows, given the first stages by lam; False where that does not
    help: other penalties, or caches that hold no rows. Stages that free more than `roomy` features are left out: they may be
    too many for the smallest task, and most such stages are not solved."""
    if grid.concave is not CAPPED or not all(isinstance(gram, Gram) for gram in grams):
        return False
    reach = reaches(problem, grid, firsts, roomy)
    each_or_together(partial(_fetch, reach), [gram for gram in grams if gram.whole is None], n_jobs)
    return True


def reaches(problem: Problem, grid: Grid, firsts: Mapping[int, Solve], roomy: int) -> Floats:
    """(d,): the largest norm of each row in a first stage, in units of the smallest theta of that lam that frees no more
    than `roomy` rows."""
    d, lams = problem.d, np.array(list(firsts))
    at = np.concatenate([first.at for first in firsts.values()])
    sizes = np.abs(np.concatenate([first.values for first in firsts.values()])) * np.ravel(problem.factors.T)[at]
    place = np.repeat(np.arange(len(lams)), [len(first.at) for first in firsts.values()])
    rows, inverse = np.unique(place * d + at % d, return_inverse=True)
    place, norms = rows // d, np.bincount(inverse, sizes, len(rows))
    theta = np.full(len(lams), np.inf)
    for column in np.flatnonzero(grid.shares == 0.0):  # others free nothing that is not in use
        of_lam = grid.thetas[lams, column]
        freed = np.bincount(place[norms >= of_lam[place]], minlength=len(lams))
        np.minimum(theta, of_lam, out=theta, where=freed <= roomy)
    out = np.zeros(d)
    np.maximum.at(out, rows % d, norms / theta[place])
    return out


def _fetch(reach: Floats, gram: Gram, n_jobs: int | None = None) -> None:
    """The rows of the features that reach theta, and of those next to them."""
    may: Ints = np.flatnonzero((gram.slot < 0) & (gram.root > 0.0) & (reach > 0.0))
    may = may[np.argsort(-reach[may], kind="stable")]
    needed = int(np.count_nonzero(reach[may] >= 1.0))
    wanted = np.sort(may[: -(-needed // TOGETHER) * TOGETHER])
    if needed and not gram.crowded(len(wanted)):
        gram.fetch(wanted, wanted[:0], n_jobs)
