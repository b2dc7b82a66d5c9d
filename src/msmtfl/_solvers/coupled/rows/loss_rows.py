"""Losses that are not squared, bounds, or groups of features, beside a norm of every row: steps around `CoupledRows`, and
with groups around what solves their norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._data.designs import Floats, Ints, stage_scale
from ...._data.forms.ridged import ridged
from ...._objective.coupled.groups import BlockDirty, Groups
from ...._objective.coupled.row_norms import DirtyNorm, RowNorm
from ...._objective.problem import Problem
from ...lassos.bounded import STEPS, BoundedLassos
from ...lassos.grouped import GroupDescent
from ...lassos.lasso_solver import OVERRUN
from ...lassos.proximal_newton import LossLassos
from ...lassos.working_set import WorkingSet
from ..around_bounds import AroundBounds, around, forces_of, lasso_forces, within
from ..block_norms import Ball, BlockNorms, SolvedBlocks, Works
from ..newton_around import GOES, RowsStage, mean_of_tasks
from .coupled_rows import CoupledRows

# ------------------------------------------------------------------ norms of rows


class OfRows:
    """W itself, with a norm of every row. `ridge` (m, d) is on the scale of a task's sums."""

    def __init__(self, problem: Problem, n_jobs: int | None):
        self.height, self.kappa, self.n_jobs = problem.m, mean_of_tasks(problem.designs), n_jobs
        self.works = None if problem.groups is None else Works(problem)
        self.pressed: Floats | None = None  # (m, d): multipliers of bounds at the last solution

    def coefs(self, P: Floats) -> Floats:
        return P

    def value(self, penalty: RowsStage, P: Floats) -> float:
        norm, ridge = penalty
        out = norm.value(P.T)
        return out if ridge is None else out + 0.5 * float(np.sum(self.kappa[:, None] * ridge * P**2))

    def on(self, penalty: RowsStage, features: Ints) -> RowsStage:
        norm, ridge = penalty
        return norm.of_rows(features), None if ridge is None else np.ascontiguousarray(ridge[:, features])

    def always(self, penalty: RowsStage) -> np.ndarray:
        return np.asarray(penalty[0].free().any(axis=1))

    def excess(self, penalty: RowsStage, G: Floats) -> Floats:
        norm = penalty[0]
        return np.asarray(norm.spread(norm.dual(G.T))[:, 0])

    def solved(
        self, problem: Problem, penalty: RowsStage, P: Floats, aim: Floats, accuracy: float
    ) -> tuple[Floats, Any]:
        if problem.groups is not None and self.works is not None:
            return self._of_groups(problem, problem.groups, self.works.of(problem), penalty, P)
        rows = CoupledRows(problem.designs, problem.factors, units=problem.units, ridge=penalty[1], n_jobs=self.n_jobs)
        rows.at(1.0)
        rows.warm(P)
        return rows.solve(penalty[0], GOES, accuracy)[0], rows

    def _of_groups(
        self, problem: Problem, groups: Groups, works: list[WorkingSet], penalty: RowsStage, P: Floats
    ) -> tuple[Floats, SolvedBlocks]:
        norm, ridge = penalty
        if isinstance(norm, BlockDirty) or (problem.box is not None and problem.m == 1):
            return self._of_lengths(problem, groups, works, penalty, P)
        if problem.box is not None:  # a norm of all tasks together
            around_box = AroundBounds(problem, self)
            around_box.last = P.copy()
            W, steps = around_box.solve(penalty)
            return W, SolvedBlocks(steps, around_box.finished, around_box.forces)
        designs = [ridged(one, None if ridge is None else ridge[i]) for i, one in enumerate(problem.designs)]
        descent = GroupDescent(designs, works, np.ascontiguousarray(norm.factors.T), groups, self.kappa)
        W, steps, finished = descent.run(P, STEPS)
        return W, SolvedBlocks(steps, finished)

    def _of_lengths(
        self, problem: Problem, groups: Groups, works: list[WorkingSet], penalty: RowsStage, P: Floats
    ) -> tuple[Floats, SolvedBlocks]:
        """The same where the norm is one of lengths within tasks."""
        norm, ridge = penalty
        ball, A = Ball(), np.ascontiguousarray(norm.factors.T)
        if isinstance(norm, BlockDirty):
            ball = Ball(np.inf if norm.separates or not norm.lam_s else norm.lam_b / norm.lam_s)
            A = np.where(np.isinf(A), np.inf, norm.lam_s * np.where(np.isinf(A), 0.0, A))
        of_ridge = None if ridge is None else self.kappa[:, None] * ridge
        blocks = BlockNorms(problem.designs, works, self.kappa, A, groups, ball, of_ridge, problem.box)
        W, steps = blocks.run(P, pressed=self.pressed)
        self.pressed = blocks.forces
        return W, SolvedBlocks(steps, blocks.finished, blocks.forces)


class LossRows:
    """What `CoupledRows` is for squared loss without bounds and groups: the problem with a norm of every row."""

    def __init__(self, problem: Problem, n_jobs: int | None = None):
        self.problem, self.form = problem, OfRows(problem, n_jobs)
        self.newton, self.lam, self.n_jobs = around(problem, self.form), 0.0, n_jobs
        self.lassos: Any = None  # what has solved the last norm, if that is the lasso's
        self.weights: Floats | None = None  # of these lassos

    @property
    def finished(self) -> bool:
        return bool(self.newton.finished)

    @property
    def forces(self) -> Floats | None:
        """(m, d): multipliers of the bounds at the last solution, if there are any."""
        if self.lassos is not None and self.weights is not None:
            return lasso_forces(self.problem, self.lam, self.newton.last, self.weights)
        return forces_of(self.newton)

    def at(self, lam: float) -> None:
        """Have the ridge of this lam, if there is one, from the next solve on."""
        self.lam = lam

    def _penalty(self, norm: RowNorm) -> RowsStage:
        ridge = self.problem.unit_ridge
        return norm, None if ridge is None else self.lam * ridge

    def warm(self, W: Floats) -> None:
        """Start the next solve from W (m, d) instead of from the last solution."""
        self.newton.last, self.lassos = within(self.problem, np.array(W)), None

    def forget(self) -> None:
        """Start the next solve from 0, as a fit does."""
        self.newton.last, self.lassos = np.zeros_like(self.newton.last), None

    def solve(self, norm: RowNorm, max_iter: int = 0, settled: float = 0.0) -> tuple[Floats, int]:
        """W (m, d) that minimises the loss plus the norm, and Newton steps; `settled` is for `CoupledRows`."""
        if isinstance(norm, DirtyNorm) and norm.separates:
            return self._solve_apart(norm, max_iter)
        self.lassos = None
        W, steps = self.newton.solve(self._penalty(norm), max_iter=max_iter)
        return np.asarray(W), int(steps)

    def _solve_apart(self, norm: DirtyNorm, max_iter: int) -> tuple[Floats, int]:
        """The same where the norm is the lasso's: every task on its own."""
        problem = self.problem
        if self.lassos is None:
            more: dict[str, Any] = {"units": problem.units, "ridge": problem.unit_ridge, "n_jobs": self.n_jobs}
            box = problem.box
            self.lassos = (
                LossLassos(problem.designs, **more) if box is None else BoundedLassos(problem.designs, box, **more)
            )
            self.lassos.warm(self.newton.last)
        self.lassos.at(self.lam)
        weights = self.weights = stage_scale(problem.designs) * (norm.lam_s * problem.factors).T
        W, steps = self.lassos.solve(weights, max_iter=max_iter)
        self.newton.last, self.newton.finished = W.copy(), not (self.lassos.status & OVERRUN).any()
        return W, int(steps.max())

    def determined(self, norm: RowNorm) -> bool:
        """Whether W is known to be the only minimiser, wherever the solver started: that of the last parabolas is."""
        if self.lassos is not None:  # of several minimisers of a lasso its solver takes the nearest to 0
            return True
        if not self.newton.last.any() or self.newton.inner is None:
            return True
        return bool(self.newton.inner.determined(norm.of_rows(self.newton.work)))

    def steepest(self) -> float:
        """The largest |g| / f of an entry."""
        f = self.problem.factors.T
        counts = (f > 0.0) & self.problem.learnable
        G = self.newton.gradients(self.newton.last)
        forces = self.forces
        if forces is not None:
            G = G + self.form.kappa[:, None] * forces
        return float((np.abs(G) / np.where(counts, f, np.inf)).max(initial=0.0))
