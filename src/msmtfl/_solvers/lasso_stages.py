"""Stages that are weighted lassos, with certificates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._data.designs import AnyData, Design, Floats, stage_scale
from .._objective.box import Limit
from .._objective.coupled.groups import BoundedGroups, Groups
from .._objective.loss_task import LossTask
from .._objective.proofs.certificates import (
    GAP,
    TaskCertificate,
    main_doubt,
    relative_gap,
)
from .._objective.proofs.group_certificates import certify_task, largest_group_violation
from .._objective.proofs.loss_certificates import LossCertificate
from .._runtime.progress import Listener
from .._runtime.threads import each
from .lassos.bounded import BoundedLassos
from .lassos.lasso_solver import OVERRUN
from .lassos.proximal_newton import LossLassos
from .lassos.weighted_lasso import Lassos
from .proofs import Separation, rather_zero, scaled
from .stages import Outcome

# ------------------------------------------------------------------ solvers of stages


class LassoStages:
    """Stages that are weighted lassos: weights (d, m)."""

    def __init__(self, lassos: Lassos | BoundedLassos, designs: Sequence[Design] | None = None):
        self.lassos, self.grams = lassos, lassos.grams
        self.designs = lassos.designs if designs is None else designs
        self.scale = stage_scale(lassos.designs)

    def solve(self, weights: Floats, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        A = scaled(self.scale, weights)
        W, rounds = self.lassos.solve(A, reference=last, max_iter=max_iter)
        W, proofs = certified(self.lassos, W, A, last, listener)
        return Outcome(
            coef=W,
            n_iter=int(rounds.max()),
            finished=not (self.lassos.status & OVERRUN).any(),
            dual_gap=relative_gap(self.designs, proofs),
            kkt=max(proof.kkt for proof in proofs),
            unique=all(proof.unique for proof in proofs),
            ambiguous=tuple(proof.dependent for proof in proofs),
            doubt=main_doubt(self.designs, proofs),
        )

    def violation(self, weights: Floats, W: Floats) -> float:
        return largest_group_violation(self.designs, W, scaled(self.scale, weights), limits_of(self.lassos))


def limits_of(lassos: Any) -> list[Limit | Groups | BoundedGroups]:
    """What ties the coefficients of every task."""
    return [lassos.limit(i) for i in range(lassos.m)]


def certified(
    lassos: Any, W: Floats, A: Floats, aim: Floats, listener: Listener
) -> tuple[Floats, list[TaskCertificate]]:
    """Certificates of all tasks; a task above GAP is polished on X first."""

    def check(i: int) -> TaskCertificate:
        design, limit = lassos.design(i), lassos.limit(i)
        proof: TaskCertificate = certify_task(design, W[i], A[i], limit)
        if proof.relative_gap > GAP and not lassos.status[i] & OVERRUN:
            better = lassos.repair(i, W[i], A[i], aim[i])
            again = certify_task(design, better, A[i], limit)
            if again.gap < proof.gap:
                W[i], proof = better, again
        W[i], proof = rather_zero(W[i], proof, lambda w: certify_task(design, w, A[i], limit))
        return proof

    proofs = each(check, range(lassos.m), lassos.n_jobs)
    for _ in proofs:
        listener.task_done()
    return W, proofs


class LossStages:
    """Stages that are weighted lassos under a loss: weights (d, m)."""

    def __init__(self, lassos: LossLassos | BoundedLassos, designs: Sequence[LossTask], data: AnyData):
        self.designs = designs
        self.lassos, self.grams = lassos, lassos.grams
        self.scale, self.separation = stage_scale(self.designs), Separation(data)

    def solve(self, weights: Floats, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        A = scaled(self.scale, weights)
        W, steps = self.lassos.solve(A, reference=last, max_iter=max_iter)

        def check(i: int) -> LossCertificate:
            def proven(w: Floats) -> LossCertificate:
                out: LossCertificate = certify_task(self.designs[i], w, A[i], self.lassos.limit(i))
                return out

            W[i], proof = rather_zero(W[i], proven(W[i]), proven)
            return proof

        proofs = each(check, range(len(W)), self.lassos.n_jobs)
        for _ in proofs:
            listener.task_done()
        self.separation.warn({i: proof.dependent for i, proof in enumerate(proofs) if proof.escapes})
        return Outcome(
            coef=W,
            n_iter=int(steps.max()),
            finished=not (self.lassos.status & OVERRUN).any(),
            dual_gap=relative_gap(self.designs, proofs),
            kkt=max(proof.kkt for proof in proofs),
            unique=all(proof.unique for proof in proofs),
            ambiguous=tuple(proof.dependent for proof in proofs),
            doubt=main_doubt(self.designs, proofs),
        )

    def violation(self, weights: Floats, W: Floats) -> float:
        return largest_group_violation(self.designs, W, scaled(self.scale, weights), limits_of(self.lassos))
