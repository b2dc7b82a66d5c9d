"""Stages that couple the tasks, with certificates: a norm of every row, a common part, partial pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from .._data.designs import Design, Floats
from .._data.ridged import ridged
from .._objective.certificates import (
    GAP,
    RowCertificate,
    certify,
    largest_violation,
)
from .._objective.common_penalty import SharedNorm
from .._objective.penalties import RowNorm
from .._objective.pooling import PoolingRidge, certify_pooling, certify_ridges
from .._objective.pressed import pressed
from .._objective.problem import Problem
from .._objective.row_certificates import certify_rows, row_violation
from .._objective.task_norms import TaskNorms, certify_task_norms
from .._runtime.progress import Listener
from .coupled.around_bounds import within
from .coupled.common_part import Stacked, settled
from .proofs import Separation, rather_zero
from .stages import Outcome


class RowsSolver(Protocol):
    """What solves problems with a norm of every row."""

    @property
    def finished(self) -> bool:
        """Whether the last solve came to its end."""

    def solve(self, norm: RowNorm, max_iter: int = 0) -> tuple[Floats, int]:
        """W (m, d), and rounds or steps."""


class CommonSolver(Protocol):
    """What solves problems in (b, V)."""

    @property
    def grams(self) -> Any:
        """What is known of Gram matrices."""

    @property
    def stacked(self) -> Stacked:
        """The tasks beside each other, as one."""

    @property
    def ridge(self) -> Floats | None:
        """(p,) in sums, if there is one."""

    @property
    def finished(self) -> bool:
        """Whether the last solve came to its end."""

    def solve(self, a: Floats, reference: Floats, max_iter: int) -> tuple[Floats, int]:
        """P (p,), and rounds or steps."""


class PoolingSolver(Protocol):
    """What solves partial pooling."""

    @property
    def problem(self) -> Problem:
        """That of the tasks."""

    @property
    def steps(self) -> int:
        """Of the last solve."""

    @property
    def finished(self) -> bool:
        """Whether the last solve came to its end."""

    def one(self, k: float, k_common: float) -> tuple[Floats, Floats]:
        """b (d,) and V (m, d)."""


class RowStages:
    """Stages with a norm of every row."""

    def __init__(self, rows: RowsSolver, problem: Problem, lam: float):
        self.rows, self.problem, self.lam, self.grams = rows, problem, lam, None
        self.designs = problem.at(lam)
        self.separation = Separation(problem.data)

    def _proving(self) -> list[Any]:
        """The tasks with the forces of bounds on the last solution."""
        return list(pressed(self.problem, forces_at(self.rows)).at(self.lam))

    def solve(self, weights: RowNorm, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        W, n_iter = self.rows.solve(weights, max_iter=max_iter)
        designs = self._proving()
        W, proof = rather_zero(W, certify_rows(designs, W, weights), lambda W: certify_rows(designs, W, weights))
        for _ in self.designs:
            listener.task_done()
        self.separation.warn({i: proof.dependent[i] for i in proof.escapes})
        return Outcome(W, n_iter, self.rows.finished, proof.gap, proof.kkt, proof.unique, proof.dependent, proof.doubt)

    def violation(self, weights: RowNorm, W: Floats) -> float:
        return row_violation(self._proving(), W, weights)


def forces_at(solver: Any) -> Floats | None:
    """The forces (m, d) of bounds on what a solver has found last, if there are any."""
    forces: Floats | None = getattr(solver, "forces", None)
    return forces


class CommonStages:
    """Stages in (b, V): points are (1, p), weights a `SharedNorm`; what is proven is about W = b + V."""

    def __init__(self, lassos: CommonSolver, problem: Problem):
        self.lassos: Any = lassos
        self.problem = problem
        self.grams = lassos.grams
        self.designs: list[Any] = [lassos.stacked]
        self.scale = 0.5 * lassos.stacked.m
        self.separation = Separation(problem.data)

    def _proving(self) -> list[Any]:
        """The tasks with the forces of bounds on the last solution."""
        parts: list[Any] = pressed(self.problem, forces_at(self.lassos)).designs
        return parts

    def _settled(self, weights: SharedNorm, P: Floats) -> Floats:
        m = self.lassos.stacked.m
        P = settled(weights, P, m)
        return within(self.problem, P.reshape(m + 1, -1)).ravel()

    def solve(self, weights: SharedNorm, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        stacked, a = self.lassos.stacked, self.scale * weights.weights()
        P, rounds = self.lassos.solve(a, last[0], max_iter)
        P, parts = self._settled(weights, P), self._proving()
        proof = certify_rows(parts, stacked.sums(P), weights)
        if proof.gap > GAP and self.lassos.finished and hasattr(self.lassos, "repair"):
            better = self._settled(weights, self.lassos.repair(P, a, last[0]))
            again = certify_rows(parts, stacked.sums(better), weights)
            if again.gap < proof.gap:
                P, proof = better, again
        P, proof = rather_zero(P, proof, lambda P: certify_rows(parts, stacked.sums(P), weights))
        for _ in stacked.parts:
            listener.task_done()
        self.separation.warn({i: proof.dependent[i] for i in proof.escapes})
        finished = self.lassos.finished
        return Outcome(P[None], rounds, finished, proof.gap, proof.kkt, proof.unique, proof.dependent, proof.doubt)

    def violation(self, weights: SharedNorm, P: Floats) -> float:
        return row_violation(self._proving(), self.lassos.stacked.sums(P[0]), weights)


class RidgedCommonStages(CommonStages):
    """The same with a ridge on b and V: then these are what is unique, and what is proven is about them."""

    def __init__(self, lassos: CommonSolver, problem: Problem):
        super().__init__(lassos, problem)
        self.designs = [ridged(lassos.stacked, lassos.ridge)]

    def solve(self, weights: SharedNorm, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        stacked, a, design = self.lassos.stacked, self.scale * weights.weights(), self.designs[0]
        P, rounds = self.lassos.solve(a, last[0], max_iter)
        proof = certify(design, P, a)
        if proof.relative_gap > GAP and self.lassos.finished:
            better = self.lassos.repair(P, a, last[0])
            again = certify(design, better, a)
            if again.gap < proof.gap:
                P, proof = better, again
        P, proof = rather_zero(P, proof, lambda P: certify(design, P, a))
        for _ in stacked.parts:
            listener.task_done()
        owner, feature = np.divmod(proof.dependent, stacked.width)
        of_tasks = tuple(np.unique(feature[(owner == 0) | (owner == i + 1)]) for i in range(stacked.m))
        gap, finished = proof.relative_gap, self.lassos.finished
        return Outcome(P[None], rounds, finished, gap, proof.kkt, proof.unique, of_tasks, proof.doubt)

    def violation(self, weights: SharedNorm, P: Floats) -> float:
        return largest_violation(self.designs, P, self.scale * weights.weights()[None])


class RidgedLossStages(RidgedCommonStages):
    """The same under a loss that is not squared, or with bounds."""

    def solve(self, weights: SharedNorm, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        stacked = self.lassos.stacked
        P, rounds = self.lassos.solve(self.scale * weights.weights(), last[0], max_iter)
        proof = certify_common_ridges(self._proving(), P, weights, self.lassos.ridge)
        for _ in stacked.parts:
            listener.task_done()
        outcome = Outcome(P[None], rounds, self.lassos.finished, proof.gap, proof.kkt, proof.unique, proof.dependent)
        return replace(outcome, doubt=proof.doubt)

    def violation(self, weights: SharedNorm, P: Floats) -> float:
        return certify_common_ridges(self._proving(), P[0], weights, self.lassos.ridge).kkt


def certify_common_ridges(parts: Sequence[Any], P: Floats, norm: SharedNorm, ridge: Floats) -> RowCertificate:
    """Of b and V with a ridge on both, whatever the loss is."""
    m, scale = len(parts), np.array([1.0 / part.n for part in parts])
    A, height = 0.5 * m * norm.weights(), m + 1
    return certify_ridges(parts, P, A.reshape(height, -1), ridge.reshape(height, -1), scale)


class PoolingStages:
    """The only stage of partial pooling: points are (1, p), b first, then V; weights are a `PoolingRidge`."""

    def __init__(self, pooling: PoolingSolver):
        self.pooling, self.grams = pooling, pooling
        self.designs = [AllTasks(pooling.problem.designs)]

    def _proving(self) -> list[Any]:
        designs: list[Any] = pressed(self.pooling.problem, forces_at(self.pooling)).designs
        return designs

    def solve(self, weights: PoolingRidge, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        b, V = self.pooling.one(weights.k, weights.k_common)
        P = np.concatenate([b, V.ravel()])
        proof = certify_pooling(self._proving(), P, weights)
        for _ in V:
            listener.task_done()
        steps, finished = self.pooling.steps, self.pooling.finished
        return Outcome(P[None], steps, finished, proof.gap, proof.kkt, proof.unique, proof.dependent, proof.doubt)

    def violation(self, weights: PoolingRidge, P: Floats) -> float:
        return certify_pooling(self._proving(), P[0], weights).kkt


class AllTasks:
    """The loss of all tasks at b and V, every sample counting the same."""

    def __init__(self, parts: Sequence[Design]):
        self.parts, self.d = parts, (len(parts) + 1) * parts[0].d
        self.n = sum(part.n for part in parts)

    def loss(self, P: Floats) -> float:
        b, *V = P.reshape(len(self.parts) + 1, -1)
        return float(sum(part.loss(b + v) for part, v in zip(self.parts, V, strict=True)))


class TaskNormStages:
    """The only stage of a model with a norm of every task's deviations: points are (1, p), the common part first, then V."""

    def __init__(self, problem: Problem, penalty: Any, solver: Any, near: Floats | None = None):
        self.problem, self.solver, self.grams = problem, solver, None
        self.designs = [CountedTasks(problem.designs, penalty)]
        if near is not None:
            solver.warm(near)

    def _proving(self) -> list[Any]:
        designs: list[Any] = pressed(self.problem, forces_at(self.solver)).designs
        return designs

    def solve(self, weights: TaskNorms, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        P, steps = self.solver.solve(weights, max_iter)
        designs = self._proving()
        proof = certify_task_norms(designs, P, weights)
        P, proof = rather_zero(P, proof, lambda P: certify_task_norms(designs, P, weights))
        for _ in designs:
            listener.task_done()
        finished, flat = self.solver.finished, P.reshape(1, -1)
        return Outcome(flat, steps, finished, proof.gap, proof.kkt, proof.unique, proof.dependent, proof.doubt)

    def violation(self, weights: TaskNorms, P: Floats) -> float:
        return certify_task_norms(self._proving(), P[0].reshape(weights.height, -1), weights).kkt


class CountedTasks:
    """The loss of all tasks at a point, each counting as a penalty on deviations has it."""

    n = 1.0

    def __init__(self, parts: Sequence[Design], penalty: TaskNorms):
        self.parts, self.penalty, self.d = parts, penalty, penalty.height * parts[0].d

    def loss(self, P: Floats) -> float:
        W = self.penalty.coefs(P.reshape(self.penalty.height, -1))
        parts = zip(self.penalty.kappa, self.parts, W, strict=True)
        return float(sum(0.5 * k * part.loss(w) for k, part, w in parts))
