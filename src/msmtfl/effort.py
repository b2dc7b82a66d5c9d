"""How much work the points of a search deserve: where a fold's errors have long been rising, little.

A path of L1,2 or Dirty takes most of its time where the model has more coefficients than samples, long after the errors on
held-out rows have turned. Such points are gone over a few times only: their errors are those of a solution on the way, are
measured all the same, and should they fall again, points are solved to the end again. Points that were not are not
`finished`; the one chosen always is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .cross_validation import Split, error_scale
from .designs import Ints
from .problem import Problem
from .surface import Solutions, Solved

WORSE = 1.05  # times its smallest error so far: a path is past its best
IN_A_ROW = 3  # points like that, after which little effort is made
LITTLE = 30  # goes over the rows


class Effort:
    """The goes over the rows that the points (k, l) of a grid may take: `rounds`, unless every fold has given up there. 0 is
    no limit."""

    def __init__(self, shape: tuple[int, int], rounds: int = 0):
        self.shape, self.rounds = shape, rounds
        self._little = min(LITTLE, rounds or LITTLE)
        self.folds: list[FoldEffort] = []

    def at(self, k: int, l: int) -> int:
        hopeless = bool(self.folds) and all(fold.given_up[k, l] for fold in self.folds)
        return self._little if hopeless else self.rounds

    def told(self, k: int, l: int, rounds: int, solved: Solved) -> None:
        """What became of a point."""

    def on_fold(self, error: Callable[[Solved], float]) -> FoldEffort:
        """The same for a fold, given how its errors on held-out rows are measured."""
        self.folds.append(FoldEffort(self.shape, self.rounds, error))
        return self.folds[-1]


class FoldEffort(Effort):
    """The same on a training fold, column by column as the errors on the rows held out go."""

    def __init__(self, shape: tuple[int, int], rounds: int, error: Callable[[Solved], float]):
        super().__init__(shape, rounds)
        self.error = error
        self.given_up = np.zeros(shape, dtype=bool)
        self.best, self.worse = np.full(shape[1], np.inf), np.zeros(shape[1], dtype=int)

    def at(self, k: int, l: int) -> int:
        self.given_up[k, l] = self.worse[l] >= IN_A_ROW
        return self._little if self.given_up[k, l] else self.rounds

    def told(self, k: int, l: int, rounds: int, solved: Solved) -> None:
        if rounds < LITTLE:
            return  # whatever its error, it was cheap
        error = self.error(solved)
        self.best[l] = min(self.best[l], error)
        self.worse[l] = self.worse[l] + 1 if error > WORSE * self.best[l] else 0


class _One(Solutions):
    """A single solution."""

    @property
    def last(self) -> Ints:
        return np.zeros((1, 1), dtype=np.intp)


def held_out_error(problem: Problem, split: Split, part: Problem, scoring: str, solved: Solved) -> float:
    """The error, as the search scores it, of a solution on the part of the problem that a split trains on."""
    one = _One(problem.data.labels, problem.data.features, (solved,), part)
    mse, weight, _ = split.measure(problem.data, one, None)
    scale = np.array([error_scale(target, scoring) for target in problem.data.targets])
    counts = (weight > 0.0) & (scale > 0.0)
    return float(weight[counts] @ (mse[counts, 0, 0] / scale[counts]))
