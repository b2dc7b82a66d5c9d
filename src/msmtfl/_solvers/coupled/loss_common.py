"""Losses that are not squared, or bounds, in models with a common part: steps around `StackedLassos`."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..._data.designs import Floats, Ints
from ..._objective.problem import Problem
from .around_bounds import around, forces_of, within
from .common_part import Stacked, StackedGrams, StackedLassos
from .newton_around import CommonStage, finite, mean_of_tasks

# ------------------------------------------------------------------ a common part


class _OfCommon:
    """b and V with W = b + V; a penalty is weights and ridges (p,) on the scale of `StackedLassos`."""

    def __init__(self, problem: Problem, n_jobs: int | None):
        self.m, self.height, self.n_jobs = problem.m, problem.m + 1, n_jobs
        self.kappa = mean_of_tasks(problem.designs)

    def coefs(self, P: Floats) -> Floats:
        return np.asarray(P[0] + P[1:])

    def value(self, penalty: CommonStage, P: Floats) -> float:
        a, ridge = penalty
        out = float(finite(a, np.abs(P)).sum())
        out += 0.0 if ridge is None else 0.5 * float(np.sum(ridge * P**2))
        return 2.0 * out / self.m

    def on(self, penalty: CommonStage, features: Ints) -> CommonStage:
        a, ridge = penalty
        return a[:, features], None if ridge is None else np.ascontiguousarray(ridge[:, features])

    def always(self, penalty: CommonStage) -> np.ndarray:
        return np.asarray((penalty[0] == 0.0).any(axis=0))

    def excess(self, penalty: CommonStage, G: Floats) -> Floats:
        sizes = 0.5 * self.m * np.abs(np.vstack([G.sum(axis=0), G]))
        bound = penalty[0]
        return np.asarray(np.divide(sizes, bound, out=np.zeros_like(sizes), where=bound > 0.0).max(axis=0))

    def solved(
        self, problem: Problem, penalty: CommonStage, P: Floats, aim: Floats, accuracy: float
    ) -> tuple[Floats, StackedLassos]:
        a, ridge = penalty
        lassos = StackedLassos(
            StackedGrams(problem.designs, n_jobs=self.n_jobs), units=problem.units, n_jobs=self.n_jobs
        )
        lassos.at(None if ridge is None else ridge.ravel())
        lassos.warm(P.ravel())
        found, _ = lassos.solve(a.ravel(), aim.ravel())
        return found.reshape(P.shape), lassos


class LossGrams:
    """What `StackedGrams` is for squared loss: there is nothing to keep but how tasks are put together."""

    weighed = None

    def __init__(self, problem: Problem):
        self.stacked = Stacked(problem.designs)

    def fetched_at_once(self) -> bool:
        return True


class LossCommon:
    """What `StackedLassos` is for squared loss without bounds: the problem in (b, V); points P are (p,)."""

    def __init__(self, problem: Problem, grams: LossGrams | None = None, n_jobs: int | None = None):
        self.problem, self.grams = problem, LossGrams(problem) if grams is None else grams
        self.stacked = self.grams.stacked
        self.newton = around(problem, _OfCommon(problem, n_jobs))
        self.ridge: Floats | None = None
        self.solver: Any = None

    @property
    def finished(self) -> bool:
        return bool(self.newton.finished)

    @property
    def forces(self) -> Floats | None:
        """(m, d): multipliers of the bounds at the last solution, if there are any."""
        return forces_of(self.newton)

    @property
    def slid(self) -> bool:
        inner = self.newton.inner
        return bool(inner is not None and getattr(inner, "inner", inner).slid)

    def at(self, ridge: Floats | None) -> None:
        """Have this ridge (p,), in sums, from the next solve on."""
        self.ridge = self.ridge if ridge is None else ridge

    def warm(self, P: Floats) -> None:
        """Start the next solve from P instead of from the last solution."""
        self.newton.last = within(self.problem, np.reshape(P, self.newton.last.shape).copy())

    def solve(self, a: Floats, reference: Floats | None = None, max_iter: int = 0) -> tuple[Floats, int]:
        """P for the weights a (p,), in sums; and the Newton steps."""
        shape = self.newton.last.shape
        ridge = None if self.ridge is None else self.ridge.reshape(shape)
        aim = None if reference is None else reference.reshape(shape)
        P, steps = self.newton.solve((a.reshape(shape), ridge), aim, max_iter)
        self.solver = self.newton
        return P.ravel(), steps


CommonGrams: TypeAlias = StackedGrams | LossGrams
CommonSolver: TypeAlias = StackedLassos | LossCommon
