"""A norm of every task's deviations under a loss that is not squared, or with bounds: steps around `task_norms.py`."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..._data.designs import Floats, Ints
from ..._objective.coupled.task_norms import TaskNorms, without
from ..._objective.problem import Problem
from .around_bounds import around, forces_of, within
from .task_norms import TaskNormSolver

TINY = 1e-11  # size of a deviation, as a correlation, that is rounding


class _OfTaskNorms:
    """A common part and V: all features are always in work."""

    def __init__(self, problem: Problem, penalty: TaskNorms):
        self.m, self.height, self.kappa = problem.m, penalty.height, penalty.kappa

    def coefs(self, P: Floats) -> Floats:
        return np.asarray(P[: -self.m] + P[-self.m :])

    def value(self, penalty: TaskNorms, P: Floats) -> float:
        return penalty.value(P)

    def on(self, penalty: TaskNorms, features: Ints) -> TaskNorms:
        return without(penalty, features)

    def always(self, penalty: TaskNorms) -> np.ndarray:
        return np.ones(len(penalty.scales), dtype=bool)

    def excess(self, penalty: TaskNorms, G: Floats) -> Floats:
        return np.zeros(G.shape[1])

    def solved(
        self, problem: Problem, penalty: TaskNorms, P: Floats, aim: Floats, accuracy: float
    ) -> tuple[Floats, TaskNormSolver]:
        solver = TaskNormSolver(problem)
        solver.warm(P)
        return solver.solve(penalty)[0], solver


class LossTaskNorms:
    """What `TaskNormSolver` is for squared loss without bounds, for penalties of one kind."""

    def __init__(self, problem: Problem):
        self.problem, self.steps, self.finished = problem, 0, True
        self.near: Floats | None = None
        self.newton: Any = None

    @property
    def forces(self) -> Floats | None:
        """(m, d): multipliers of the bounds at the last solution, if there are any."""
        return None if self.newton is None else forces_of(self.newton)

    def warm(self, P: Floats) -> None:
        """Start the next solve from P (height, d) instead of from the last solution."""
        self.near = P

    def solve(self, penalty: TaskNorms, max_iter: int = 0) -> tuple[Floats, int]:
        """The point (height, d), and Newton steps."""
        if self.newton is None:
            self.newton = around(self.problem, _OfTaskNorms(self.problem, penalty))
        if self.near is not None:
            self.newton.last, self.near = within(self.problem, self.near.copy()), None
        P, self.steps = self.newton.solve(penalty, max_iter=max_iter)
        self.finished = self.newton.finished
        if self.problem.box is not None:
            P = self.newton.last = within(self.problem, self._tidied(P))
        return P, self.steps

    def _tidied(self, P: Floats) -> Floats:
        """The point with 0 for all deviations of a task, or a row of the common part, of which rounding is all there is: a
        norm of these has no direction."""
        m, problem = self.problem.m, self.problem
        lengths = np.sqrt([max(float(design.yy), 0.0) for design in problem.designs])[:, None]
        sizes = np.sqrt([design.squares for design in problem.designs]) / np.where(lengths > 0.0, lengths, 1.0)
        out = P.copy()
        out[-m:][(np.abs(P[-m:]) * sizes <= TINY).all(axis=1)] = 0.0
        if len(P) == 2 * m:
            out[:m, (np.abs(P[:m]) * sizes <= TINY).all(axis=0)] = 0.0
        return out


AnyTaskNorms: TypeAlias = TaskNormSolver | LossTaskNorms
