"""Stages that couple the tasks, with certificates: a norm of every row, a common part, partial pooling, points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from .._data.designs import Design, Floats
from .._data.forms.ridged import ridged
from .._objective.coupled.common_penalty import SharedNorm
from .._objective.coupled.pooling import PoolingRidge
from .._objective.coupled.row_norms import RowNorm
from .._objective.problem import Problem
from .._objective.proofs.certificates import (
    GAP,
    RowCertificate,
    certify,
    largest_violation,
)
from .._objective.proofs.class_proofs import certify_common_ridges, certify_pooled, certify_shared, shared_violation
from .._objective.proofs.dual_points import Doubt
from .._objective.proofs.pressed import pressed
from .._objective.proofs.row_certificates import certify_rows, row_violation
from .._runtime.progress import Listener
from .coupled.around_bounds import within
from .coupled.common_part import Stacked, settled
from .one_level import with_free_level
from .proofs import Separation, rather_zero
from .stages import Outcome

Certify: TypeAlias = Callable[[Sequence[Any], Floats, Any], RowCertificate]


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
        """b (d,), or (classes, d) of several classes, and V (m, d)."""


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


def forces_at(solver: object) -> Floats | None:
    """The forces (m, d) of bounds on what a solver has found last, if there are any."""
    forces: Floats | None = getattr(solver, "forces", None)
    return forces


class CommonStages:
    """Stages in (b, V): points are (1, p), weights a `SharedNorm`; what is proven is about W = b + V."""

    def __init__(self, lassos: CommonSolver, problem: Problem):
        self.lassos: Any = lassos
        self.problem, self.grams = problem, lassos.grams
        self.designs: list[Any] = [lassos.stacked]
        self.scale = 0.5 * lassos.stacked.m
        self.separation = Separation(problem.data)

    def _proving(self) -> list[Any]:
        """The tasks with the forces of bounds on the last solution."""
        parts: list[Any] = pressed(self.problem, forces_at(self.lassos)).designs
        return parts

    def _settled(self, weights: SharedNorm, P: Floats) -> Floats:
        if self.problem.groups is None:
            P = settled(weights, P, self.lassos.stacked.tasks)
        return within(self.problem, P.reshape(-1, self.problem.d)).ravel()

    def _proof(self, P: Floats, weights: SharedNorm) -> RowCertificate:
        stacked = self.lassos.stacked
        return certify_shared(self._proving(), stacked.sums(P), weights.at(P), stacked.classes)

    def solve(self, weights: SharedNorm, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        stacked, a = self.lassos.stacked, self.scale * weights.weights()
        P, rounds = self.lassos.solve(a, last[0], max_iter)
        P = self._settled(weights, P)
        proof = self._proof(P, weights)
        if proof.gap > GAP and self.lassos.finished and hasattr(self.lassos, "repair"):
            better = self._settled(weights, self.lassos.repair(P, a, last[0]))
            again = self._proof(better, weights)
            if again.gap < proof.gap:
                P, proof = better, again
        P, proof = rather_zero(P, proof, lambda P: self._proof(P, weights))
        for _ in stacked.parts:
            listener.task_done()
        self.separation.warn({i: proof.dependent[i] for i in proof.escapes})
        finished = self.lassos.finished
        return Outcome(P[None], rounds, finished, proof.gap, proof.kkt, proof.unique, proof.dependent, proof.doubt)

    def violation(self, weights: SharedNorm, P: Floats) -> float:
        stacked = self.lassos.stacked
        return shared_violation(self._proving(), stacked.sums(P[0]), weights.at(P[0]), stacked.classes)


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
        doubt = None if proof.doubt is None else self._of_features(proof.doubt)
        return Outcome(P[None], rounds, finished, gap, proof.kkt, proof.unique, of_tasks, doubt)

    def _of_features(self, doubt: Doubt) -> Doubt:
        """A doubt about entries of (b, V) as one about features, of the first task whose deviations it names."""
        owner, feature = np.divmod(doubt.features, self.lassos.stacked.width)
        return replace(doubt, features=np.unique(feature), task=max(int(owner.max(initial=1, where=owner > 0)) - 1, 0))

    def violation(self, weights: SharedNorm, P: Floats) -> float:
        return largest_violation(self.designs, P, self.scale * weights.weights()[None])


class RidgedLossStages(RidgedCommonStages):
    """The same under a loss that is not squared, or with bounds."""

    def _ridges(self, weights: SharedNorm, P: Floats) -> RowCertificate:
        stacked = self.lassos.stacked
        return certify_common_ridges(self._proving(), stacked.scale, P, weights, self.lassos.ridge, stacked.classes)

    def violation(self, weights: SharedNorm, P: Floats) -> float:
        return self._ridges(weights, P[0]).kkt

    def solve(self, weights: SharedNorm, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        stacked = self.lassos.stacked
        P, rounds = self.lassos.solve(self.scale * weights.weights(), last[0], max_iter)
        proof = self._ridges(weights, P)
        for _ in stacked.parts:
            listener.task_done()
        self.separation.warn({i: proof.dependent[i] for i in proof.escapes})
        outcome = Outcome(P[None], rounds, self.lassos.finished, proof.gap, proof.kkt, proof.unique, proof.dependent)
        return replace(outcome, doubt=proof.doubt, endless=bool(proof.escapes))


class PoolingStages:
    """The only stage of partial pooling: points are (1, p), b first, then V; weights are a `PoolingRidge`."""

    def __init__(self, pooling: PoolingSolver):
        self.pooling, self.grams = pooling, pooling
        self.designs = [AllTasks(pooling.problem.designs, pooling.problem.classes)]
        self.separation = Separation(pooling.problem.data, "Give k_common > 0")

    def _proving(self) -> list[Any]:
        designs: list[Any] = pressed(self.pooling.problem, forces_at(self.pooling)).designs
        return designs

    def solve(self, weights: PoolingRidge, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        b, V = self.pooling.one(weights.k, weights.k_common)
        P = np.concatenate([b.ravel(), V.ravel()])
        problem = self.pooling.problem
        proof = certify_pooled(self._proving(), P, weights, problem.classes)
        W = np.tile(b.reshape(problem.classes, -1), (len(V) // problem.classes, 1)) + V
        gap, apart = with_free_level(problem, proof.gap, W)
        for _ in V:
            listener.task_done()
        self.separation.warn({i: proof.dependent[i] for i in proof.escapes})
        steps, finished = self.pooling.steps, self.pooling.finished
        kkt = max(proof.kkt, apart)
        known = proof.unique, proof.dependent, proof.doubt, bool(proof.escapes)
        return Outcome(P[None], steps, finished, gap, kkt, *known)

    def violation(self, weights: PoolingRidge, P: Floats) -> float:
        return certify_pooled(self._proving(), P[0], weights, self.pooling.problem.classes).kkt


class AllTasks:
    """The loss of all tasks at b and V, every sample counting the same."""

    def __init__(self, parts: Sequence[Design], classes: int):
        self.parts, self.classes, self.d = parts, classes, (len(parts) + classes) * parts[0].d
        self.n = sum(part.n for part in parts)

    def loss(self, P: Floats) -> float:
        both = P.reshape(len(self.parts) // self.classes + 1, -1)
        W = np.reshape(both[0] + both[1:], (len(self.parts), -1))
        return float(sum(part.loss(w) for part, w in zip(self.parts, W, strict=True)))


class PointStages:
    """The stages of a model whose penalty is one of points (height, d), which hang together with coefficients as the penalty
    says (`coefs`): stages are (1, p). `certify` proves what is known of a point."""

    def __init__(self, problem: Problem, penalty: Any, solver: Any, certify: Certify, near: Floats | None = None):
        self.problem, self.solver, self.certify, self.grams = problem, solver, certify, None
        self.designs = [CountedTasks(problem.designs, penalty)]
        self.separation = Separation(problem.data, "Give lam_common > 0")
        if near is not None:
            solver.warm(near)

    def _proving(self) -> list[Any]:
        designs: list[Any] = pressed(self.problem, forces_at(self.solver)).designs
        return designs

    def solve(self, weights: Any, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        P, steps = self.solver.solve(weights, max_iter)
        designs = self._proving()
        proof = self.certify(designs, P, weights)
        P, proof = rather_zero(P, proof, lambda P: self.certify(designs, P, weights))
        for _ in designs:
            listener.task_done()
        self.separation.warn({i: proof.dependent[i] for i in proof.escapes})
        finished, flat = self.solver.finished, P.reshape(1, -1)
        known = proof.unique, proof.dependent, proof.doubt, bool(proof.escapes)
        return Outcome(flat, steps, finished, proof.gap, proof.kkt, *known)

    def violation(self, weights: Any, P: Floats) -> float:
        return self.certify(self._proving(), P[0].reshape(weights.height, -1), weights).kkt


class CountedTasks:
    """The loss of all tasks at a point, each counting as the penalty has it."""

    n = 1.0

    def __init__(self, parts: Sequence[Design], penalty: Any):
        self.parts, self.penalty, self.d = parts, penalty, penalty.height * parts[0].d

    def loss(self, P: Floats) -> float:
        W = self.penalty.coefs(P.reshape(self.penalty.height, -1))
        parts = zip(self.penalty.kappa, self.parts, W, strict=True)
        return float(sum(0.5 * k * part.loss(w) for k, part, w in parts))
