"""Where a search ends: down a column of its grid the errors on held-out samples fall, and then rise.

Most of a search's time would go into the points beyond, where models have more coefficients than samples. So all data and
all folds go down the grid side by side, some points at a time; a column ends when its mean error over the folds has been
above its smallest for a while. Convex columns go first: where the lasso's errors have turned, those of models that free
features, and so shrink less at the same lam, have turned as well. Should the best point come near an end all the same, the
search goes on there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from .._data.designs import Floats, Ints
from .._objective.problem import Problem
from .._runtime.threads import each
from .conformal import FoldFit
from .solutions import Solutions
from .validation.choice import standard_errors
from .validation.cross_validation import error_scales, mean_errors
from .validation.errors import HeldOut
from .validation.held_out import RowsHeldOut, Split
from .validation.scorers import Scorer, Scoring

# A column has turned when its errors exceed WORSE times its smallest one at IN_A_ROW points or more, over which lam has
# fallen by at least SPAN; or sooner, when they have risen from point to point over IN_A_ROW of them (over RISES where the
# penalty is convex: there errors go smoothly) to STEEP times that. As long as nothing has been found, the smallest error
# being above FOUND times that at the largest lam, it takes more: what is spread over many features comes late.
# benchmarks/studies/early_ends.py says how often another point would be chosen.
IN_A_ROW, RISES, WORSE, SPAN, STEEP = 3, 2, 1.005, 2.0, 1.01
FOUND, FAR_WORSE, FAR = 0.95, 1.1, 10.0
BEGIN = 0.25  # of the largest lam: no column ends before it, and so far all points are solved at once
GUARD = 2  # points that the best one of a column must be away from its end
NEAR = 1.05  # times the smallest error: points near the best are solved for as long as a fit by itself would be


class Walker(Protocol):
    """Solves the columns of a grid, each from its largest lam down, as far as it is asked to."""

    def advance(self, ends: Ints) -> None:
        """Solve the first ends[l] points of every column l that are not solved yet."""

    def finish(self, points: np.ndarray) -> bool:
        """Check what has been solved, and go on with those of some points (K, L) bool that ran out of rounds; whether there
        is anything that `latest` has now other solutions of."""

    def latest(self) -> Solutions:
        """What the last call has solved."""

    def solutions(self) -> Solutions:
        """All that has been solved."""


class Front:
    """How far down the columns of a grid a search has come, and which of them go on.

    Parameters
    ----------
    strength : (K, L), what falls along a column
    leader : (L,), the column that says how far column l may go; a column that leads goes as far as its errors say
    block : points of a column between two looks at the errors
    early : whether columns end early at all
    convex : (L,) bool, whether errors go smoothly down a column, as they do without caps; by default those that lead

    Attributes
    ----------
    ends : (L,), points of every column that are asked for so far
    """

    def __init__(
        self,
        strength: Floats,
        leader: Ints,
        block: int = 1,
        early: bool = True,
        convex: np.ndarray | None = None,
    ):
        K, L = strength.shape
        self.convex = leader == np.arange(L) if convex is None else convex
        self.block = block
        self.order = np.argsort(
            -strength, axis=0, kind="stable"
        )  # (K, L): places of the points, by the step of a column
        self.lams, self.leader, self.early = np.take_along_axis(strength, self.order, 0), leader, early
        self.ends, self.limit = np.zeros(L, dtype=np.intp), np.full(L, K, dtype=np.intp)
        self.open = (leader == np.arange(L)) | (not early)
        self.led = ~self.open

    def ahead(self) -> bool:
        """Move on the ends of the columns that are open; False if there is none."""
        if not self.open.any() and self.led.any():  # leaders have ended: now those that they lead
            self.open, self.led = self.led, np.zeros_like(self.led)
            self.limit = self.ends[self.leader]
        first = (self.lams >= BEGIN * self.lams[0]).sum(axis=0)
        step = (
            np.where(self.ends == 0, np.maximum(first, self.block), self.ends + self.block)
            if self.early
            else self.limit
        )
        new = np.where(self.open, np.minimum(step, self.limit), self.ends)
        moved = bool((new > self.ends).any())
        self.ends = new
        return moved

    def told(self, errors: Floats) -> None:
        """Close the columns whose errors (folds, K, L), NaN where there is none, have turned, and those at their limit."""
        mean = np.take_along_axis(errors.mean(axis=0), self.order, 0)
        for l in np.flatnonzero(self.open).tolist():
            end = self.ends[l]
            if end == self.limit[l] or turned(mean[:end, l], self.lams[:end, l], bool(self.convex[l])):
                self.open[l] = False

    @property
    def asked(self) -> np.ndarray:
        """(K, L) bool: the points that have been asked for."""
        out = np.zeros(self.lams.shape, dtype=bool)
        np.put_along_axis(out, self.order, np.arange(len(out))[:, None] < self.ends, axis=0)
        return out

    def go_on(self, errors: Floats) -> bool:
        """Open the columns that end where one of them has the smallest mean of all errors (folds, K, L) near that end;
        whether that is so."""
        mean, K = errors.mean(axis=0), len(self.lams)
        if np.isnan(mean).all():
            return False
        k, l = divmod(int(np.nanargmin(mean)), mean.shape[1])
        step = int(np.flatnonzero(self.order[:, l] == k)[0])
        if not self.early or self.ends[l] == K or step < self.ends[l] - GUARD:
            return False
        self.open = self.leader == self.leader[l]
        self.limit = np.where(self.open, np.minimum(self.ends[l] + 2 * GUARD, K), self.limit)
        self.open &= self.ends < self.limit
        return True


def turned(errors: Floats, lams: Floats, convex: bool = False) -> bool:
    """Whether errors, at lams that fall, have been above their smallest for long enough; those of a convex penalty?"""
    known = np.where(np.isfinite(errors), errors, np.inf)
    best = known.min()
    found = bool(best < FOUND * known[0])
    worse, span = (WORSE, SPAN) if found else (FAR_WORSE, FAR)
    last = int(np.flatnonzero(known <= worse * best)[-1])
    if len(known) - 1 - last >= IN_A_ROW and lams[last] >= span * lams[-1] * (1.0 - 1e-9):
        return True
    most = RISES if convex else IN_A_ROW
    recent = known[-most - 1 :]
    rises = len(recent) > most and bool((recent[1:] > recent[:-1]).all())
    return found and rises and bool(recent[-1] > STEEP * best)


class FoldRun:
    """A fold of a search: what solves its part of the problem, and the errors on the samples held out.

    `begin` makes of the split the walker, what makes it take over from all data what it can (before every advance), and what
    makes of solutions those to be scored.
    """

    def __init__(
        self,
        problem: Problem,
        split: Any,
        begin: Callable[[Any], tuple[Walker, Callable[[], None], Callable[[Solutions], Solutions]]],
        scorer: Scorer | None,
        shape: tuple[int, int],
    ):
        self.problem, self.split, self.begin, self.scorer = problem, split, begin, scorer
        self.walker: Walker | None = None
        self.held: RowsHeldOut | None = None
        self.mse, self.weight = np.full((problem.m, *shape), np.nan), np.zeros(problem.m)
        self.scores = None if scorer is None else np.full(shape, np.nan)
        self.complete = np.zeros(shape, dtype=bool)
        self.refitted: list[Solutions] = []

    def advance(self, ends: Ints) -> None:
        if self.walker is None:
            self.walker, self.follow, self.scored = self.begin(self.split)
        self.follow()
        self.walker.advance(ends)
        self._measure(self.walker.latest())

    def finish(self, points: np.ndarray) -> bool:
        """Work longer on points (K, L) bool that are not complete; whether there were any such."""
        found = self.walker is not None and self.walker.finish(points & ~self.complete)
        if self.walker is not None and found:
            self._measure(self.walker.latest())
        return found

    def _held(self) -> RowsHeldOut:
        if self.held is None:
            self.held = RowsHeldOut(self.problem.data, self.split)
        return self.held

    def _measure(self, solutions: Solutions) -> None:
        found, solutions = solutions, self.scored(solutions)
        if solutions is not found:
            self.refitted.append(solutions)
        new = solutions.reached
        more = {"held": self._held} if isinstance(self.split, Split) else {}  # other kinds of data hold out no rows
        mse, self.weight, scores = self.split.measure(self.problem.data, solutions, self.scorer, **more)
        self.mse[:, new], self.complete[new] = mse[:, new], solutions.complete[new]
        if self.scores is not None and scores is not None:
            self.scores[new] = scores[new]

    def fit_at(self, k: int, l: int) -> FoldFit | None:
        """The coefficients that were scored at a point; None if somebody else has solved it."""
        for solutions in reversed(self.refitted if self.refitted or self.walker is None else [self.walker.solutions()]):
            if solutions.reached[k, l] and solutions.problem is not None:
                W, place = solutions.coef(k, l), solutions.last[k, l][None]
                level = [solutions.intercepts_at(i, place, w[None])[0] for i, w in enumerate(W)]
                return FoldFit(W, np.array(level), self.split.test)
        return None


def search(
    front: Front,
    whole: Walker,
    folds: Sequence[FoldRun],
    problem: Problem,
    scoring: Scoring,
    *,
    n_jobs: int | None = None,
    stop: Callable[[], None] | None = None,
    follows: bool = True,
) -> HeldOut:
    """Go down the grid until errors have turned, on all data and on the folds; the folds on threads.

    If folds follow all data, these go first, so that folds can begin with the Gram rows that all data have come to need.
    Otherwise all go side by side.
    """

    held_out = partial(_together, folds)
    while True:
        while front.ahead():
            ends = front.ends
            steps = [whole.advance, *(fold.advance for fold in folds)]
            if follows:
                steps.pop(0)(ends)
            each(partial(_go, ends), steps, n_jobs, stop)
            front.told(held_out_errors(held_out(), problem, scoring))
        errors = held_out_errors(held_out(), problem, scoring)
        near = near_best(errors)
        if any(each(partial(FoldRun.finish, points=near), folds, n_jobs, stop)):
            continue
        whole.finish(near)
        if not front.go_on(errors):
            return held_out()


def _go(ends: Ints, advance: Callable[[Ints], None]) -> None:
    advance(ends)


def _together(folds: Sequence[FoldRun]) -> HeldOut:
    return HeldOut.of([(fold.mse, fold.weight, fold.scores, fold.complete) for fold in folds])


def held_out_errors(held_out: HeldOut, problem: Problem, scoring: Scoring) -> Floats:
    """(folds, K, L): errors as the search scores them, NaN where not solved."""
    if held_out.scores is not None:
        return np.where(held_out.reached, -held_out.scores, np.nan)
    scale = error_scales(problem.data, scoring if isinstance(scoring, str) else "")
    return np.where(held_out.reached, mean_errors(held_out.mse, held_out.weight, scale), np.nan)


def as_if_ended(held_out: HeldOut, front: Front, problem: Problem, scoring: Scoring) -> HeldOut:
    """What a search that ends early would know, of one that had to solve all points: so that both choose alike."""
    errors = held_out_errors(held_out, problem, scoring)
    while front.ahead() or front.go_on(np.where(front.asked, errors, np.nan)):
        front.told(errors)
    left_out = ~front.asked
    mse = np.where(left_out, np.nan, held_out.mse)
    return HeldOut(mse, held_out.weight, held_out.scores, held_out.complete & ~left_out)


def near_best(errors: Floats) -> np.ndarray:
    """(K, L) bool: the points whose mean error over folds (folds, K, L) is near the smallest."""
    mean, spread = errors.mean(axis=0), standard_errors(errors)
    if np.isnan(mean).all():
        return np.zeros(mean.shape, dtype=bool)
    best = int(np.nanargmin(mean))
    return np.asarray(mean <= mean.flat[best] + max((NEAR - 1.0) * abs(mean.flat[best]), spread.flat[best]))
