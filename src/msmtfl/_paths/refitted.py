"""Solutions whose coefficients are fitted again where they are not 0, without penalties: what `relax=True` scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .._data.designs import Floats, Ints
from .solutions import Solutions, Solved


@dataclass(frozen=True, eq=False)
class Refitted(Solutions):
    """Other coefficients at the points of some solutions."""

    places: Ints = field(repr=False)  # (K, L)
    known: np.ndarray = field(repr=False)  # (K, L) bool

    @classmethod
    def of(cls, solutions: Solutions, refit: Callable[[int], Floats]) -> Refitted:
        """`refit` makes coefficients (m, d) of a place in `solutions.solved`."""
        problem, solved, exists = solutions._data(), [], []
        places, last = solutions.places_in_use()
        for place in places.tolist():
            W = refit(place)
            at, A = np.flatnonzero(W), np.where(W != 0.0, 0.0, np.inf)
            escapes = problem.may_escape and any(
                problem.escapes(i, W[[i]], A[[i]], ridge=False)[0] for i in range(problem.m)
            )
            exists.append(not escapes)
            solved.append(Solved(solutions.solved[place].k, at, W.ravel()[at], True, np.empty(0, dtype=np.intp)))
        settled = solutions.complete & np.array([*exists, False])[last]
        return cls(solutions.tasks, solutions.features, tuple(solved), problem, last, settled)

    @property
    def last(self) -> Ints:
        return self.places

    @property
    def settled(self) -> np.ndarray:
        return self.known
