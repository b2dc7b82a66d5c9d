"""How much work the points of a search deserve: where a fold's errors have long been rising, little.

A path of L1,2 or Dirty takes most of its time where the model has more coefficients than samples, long after the errors on
held-out rows have turned. Such points are gone over a few times only; their errors, of solutions on the way, are measured
all the same, and should they fall, points are solved to the end again. Whatever comes near the best mean over the folds is
solved to the end on every fold before a choice is made.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .cross_validation import Split, error_scales, mean_errors, standard_errors
from .designs import Floats, Ints
from .problem import Problem
from .surface import Solutions, Solved

WORSE = 1.05  # times the smallest error (so far): a path is past its best, a point is not near it
IN_A_ROW = 3  # points like that, after which little effort is made
LITTLE = 30  # goes over the rows


class Effort:
    """The goes over the rows that the points (k, l) of a grid may take: the same everywhere; 0 is no limit."""

    def __init__(self, rounds: int = 0):
        self.rounds = rounds
        self.little = min(LITTLE, rounds or LITTLE)
        self.step = 1.0  # what a point counts for progress

    def at(self, k: int, l: int) -> int:
        return self.rounds

    def told(self, k: int, l: int, rounds: int, solved: Solved) -> None:
        """What became of a point."""


class FoldEffort(Effort):
    """On a training fold, column by column as the errors on the rows held out go. `due` (K, L) marks the points that are to
    be solved to the end all the same."""

    def __init__(self, rounds: int, shape: tuple[int, int]):
        super().__init__(rounds)
        self.due = np.zeros(shape, dtype=bool)

    def begin(self, error: Callable[[Solved], float]) -> None:
        """Before the grid is solved, or solved again: how errors on the rows held out are measured."""
        self.error, self.given_up = error, np.zeros_like(self.due)
        self.best, self.worse = np.full(self.due.shape[1], np.inf), np.zeros(self.due.shape[1], dtype=int)

    def at(self, k: int, l: int) -> int:
        self.given_up[k, l] = self.worse[l] >= IN_A_ROW and not self.due[k, l]
        return self.little if self.given_up[k, l] else self.rounds

    def told(self, k: int, l: int, rounds: int, solved: Solved) -> None:
        if rounds < self.little:
            return  # whatever its error, it was cheap
        error = self.error(solved)
        self.best[l] = min(self.best[l], error)
        self.worse[l] = self.worse[l] + 1 if error > WORSE * self.best[l] else 0


class SearchEffort(Effort):
    """On all data: little where every fold has given up."""

    def __init__(self, rounds: int, folds: list[FoldEffort]):
        super().__init__(rounds)
        self.folds = folds

    def at(self, k: int, l: int) -> int:
        return self.little if all(fold.given_up[k, l] for fold in self.folds) else self.rounds

    def wanting(self, errors: Floats) -> list[int]:
        """The folds that gave up on a point near the best, errors being theirs (folds, K, L). These points are due then."""
        mean, spread = errors.mean(axis=0), standard_errors(errors)
        best = int(np.argmin(mean))
        near = mean <= max(WORSE * mean.flat[best], mean.flat[best] + spread.flat[best])
        out = [f for f, fold in enumerate(self.folds) if (fold.given_up & near).any()]
        for f in out:
            self.folds[f].due |= near
            self.folds[f].step = 0.0  # counted already
        return out


class _One(Solutions):
    """A single solution."""

    @property
    def last(self) -> Ints:
        return np.zeros((1, 1), dtype=np.intp)


def held_out_error(problem: Problem, split: Split, part: Problem, scoring: str, solved: Solved) -> float:
    """The error, as the search scores it, of a solution on the part of the problem that a split trains on."""
    one = _One(problem.data.labels, problem.data.features, (solved,), part)
    mse, weight, _ = split.measure(problem.data, one, None)
    return float(mean_errors(mse, weight, error_scales(problem.data, scoring))[0, 0])
