"""A norm of every group of features in all tasks, under any loss: L1,2 over groups."""

from __future__ import annotations

import numpy as np

from ..._data.designs import Floats, stage_scale
from ..._objective.groups import Groups
from ..._objective.problem import Problem
from ..._objective.row_norms import RowNorm
from ..lassos.bounded import STEPS
from ..lassos.grouped import GroupDescent, works_of
from ..lassos.task_solver import Caches


class GroupedRows:
    """What `CoupledRows` and `LossRows` are without groups: the problem with a norm of every group in all tasks."""

    grams = None

    def __init__(self, problem: Problem, groups: Groups, grams: Caches | None = None, n_jobs: int | None = None):
        self.problem, self.groups, self.lam = problem, groups, 0.0
        self.kappa = stage_scale(problem.designs).ravel() ** -1.0
        self.works = works_of(problem.designs, grams, n_jobs)
        self.W = np.zeros((problem.m, problem.d))
        self.finished = True

    def at(self, lam: float) -> None:
        """Have the ridge of this lam, if there is one, from the next solve on."""
        self.lam = lam

    def warm(self, W: Floats) -> None:
        """Start the next solve from W (m, d) instead of from the last solution."""
        self.W = np.array(W)

    def forget(self) -> None:
        """Start the next solve from 0, as a fit does."""
        self.W = np.zeros_like(self.W)

    def solve(self, norm: RowNorm, max_iter: int = 0, settled: float = 0.0) -> tuple[Floats, int]:
        """W (m, d) that minimises the loss plus the norm, and steps; `settled` is for `CoupledRows`."""
        descent = self._descent(norm)
        self.W, steps, self.finished = descent.run(self.W, max_iter or STEPS)
        return self.W.copy(), steps

    def _descent(self, norm: RowNorm) -> GroupDescent:
        A = np.ascontiguousarray(norm.factors.T)
        return GroupDescent(self.problem.at(self.lam), self.works, A, self.groups, self.kappa)

    def determined(self, norm: RowNorm) -> bool:
        """Whether W is known not to depend on where the solver started: it is, but for free entries."""
        return not norm.free().any()

    def steepest(self) -> float:
        """The largest |g| / f of an entry."""
        f = self.problem.factors.T
        counts = (f > 0.0) & self.problem.learnable
        pairs = zip(self.kappa, self.problem.at(self.lam), self.W, strict=True)
        G = np.array([k * design.gradient(w) for k, design, w in pairs])
        return float((np.abs(G) / np.where(counts, f, np.inf)).max(initial=0.0))
