"""How much work the points of a search deserve: where a fold's errors have long been rising, little.

A path of L1,2 or Dirty takes most of its time where the model has more coefficients than samples, long after the errors on
held-out rows have turned. Such points are gone over a few times only; their errors, of solutions on the way, tell whether
they rise still, and should they fall, points are worked on again. A point is scored only where it has been solved to the
end. So whatever comes near the best is: on every fold, and on all data, for as long as a fit by itself would go on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._data.designs import Floats, Ints
from .._objective.problem import Problem
from .cross_validation import Split, error_scales, mean_errors, standard_errors
from .surface import Solutions, Solved

WORSE = 1.05  # times the smallest error (so far): a path is past its best, a point is not near it
IN_A_ROW = 3  # points like that, after which little effort is made
LITTLE = 30  # goes over the rows
ROUNDS = 2000  # goes over the rows that a point gets before it is known whether it matters


class Effort:
    """The goes over the rows that the points (k, l) of a grid may take: at most `most` (0: as many as a fit may take), and
    before they are `due` (K, L) not more than ROUNDS."""

    def __init__(self, most: int, shape: tuple[int, int]):
        self.most = most
        self.little, self.rounds = (min(limit, most or limit) for limit in (LITTLE, ROUNDS))
        self.due = np.zeros(shape, dtype=bool)
        self.step = 1.0  # what a point counts for progress

    def at(self, k: int, l: int) -> int:
        return self.most if self.due[k, l] else self.rounds

    def told(self, k: int, l: int, rounds: int, solved: Solved) -> None:
        """What became of a point."""

    def demand(self, points: np.ndarray) -> bool:
        """Make points (K, L) bool due, and those that are due already stay so; whether any is new."""
        new = bool((points & ~self.due).any())
        self.due |= points
        self.step = 0.0  # counted already
        return new


class FoldEffort(Effort):
    """On a training fold, column by column as the errors on the rows held out go."""

    def begin(self, error: Callable[[Solved], float]) -> None:
        """Before the grid is solved, or solved again: how errors on the rows held out are measured."""
        self.error, self.given_up = error, np.zeros_like(self.due)
        self.best, self.worse = np.full(self.due.shape[1], np.inf), np.zeros(self.due.shape[1], dtype=int)

    def at(self, k: int, l: int) -> int:
        self.given_up[k, l] = self.worse[l] >= IN_A_ROW and not self.due[k, l]
        return self.little if self.given_up[k, l] else super().at(k, l)

    def told(self, k: int, l: int, rounds: int, solved: Solved) -> None:
        if rounds < self.little:
            return  # whatever its error, it was cheap
        error = self.error(solved)
        self.best[l] = min(self.best[l], error)
        self.worse[l] = self.worse[l] + 1 if error > WORSE * self.best[l] else 0


class SearchEffort(Effort):
    """On all data: little where every fold has given up."""

    def __init__(self, most: int, shape: tuple[int, int], folds: list[FoldEffort]):
        super().__init__(most, shape)
        self.folds = folds

    def at(self, k: int, l: int) -> int:
        given_up = bool(self.folds) and all(fold.given_up[k, l] for fold in self.folds)
        return self.little if given_up and not self.due[k, l] else super().at(k, l)


def near_best(errors: Floats) -> np.ndarray:
    """(K, L) bool: the points whose mean error over folds (folds, K, L) is near the smallest."""
    mean, spread = errors.mean(axis=0), standard_errors(errors)
    best = int(np.argmin(mean))
    return np.asarray(mean <= mean.flat[best] + max((WORSE - 1.0) * abs(mean.flat[best]), spread.flat[best]))


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
