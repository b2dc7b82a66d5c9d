"""Stages of problems whose classes have one loss, the softmax; see `_objective/class_tasks.py`."""

from __future__ import annotations

from .._data.designs import Floats, stage_scale
from .._objective.class_tasks import certify_held
from .._objective.problem import Problem
from .._objective.proofs.certificates import relative_gap
from .._runtime.progress import Listener
from .lassos.class_lassos import ClassLassos
from .lassos.lasso_solver import OVERRUN
from .proofs import Separation, scaled
from .stages import Outcome


class ClassStages:
    """Stages that are weighted lassos of classes with one loss: weights (d, m)."""

    def __init__(self, lassos: ClassLassos, problem: Problem, lam: float):
        self.lassos, self.problem, self.grams = lassos, problem, None
        lassos.at(lam)
        self.designs, self.lam = problem.at(lam), lam
        self.scale, self.separation = stage_scale(problem.designs), Separation(problem.data)

    def solve(self, weights: Floats, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        A = scaled(self.scale, weights)
        W, rounds = self.lassos.solve(A, reference=last, max_iter=max_iter)
        proofs = certify_held(self.problem, W, A, self.lam)
        for _ in proofs:
            listener.task_done()
        self.separation.warn(self.lassos.escaped or {i: one.dependent for i, one in enumerate(proofs) if one.escapes})
        return Outcome(
            coef=W,
            n_iter=int(rounds.max()),
            finished=not (self.lassos.status & OVERRUN).any(),
            dual_gap=relative_gap(self.designs, proofs),
            kkt=max(proof.kkt for proof in proofs),
            unique=all(proof.unique for proof in proofs),
            ambiguous=tuple(proof.dependent for proof in proofs),
            doubt=next((proof.doubt for proof in proofs if proof.doubt is not None), None),
        )

    def violation(self, weights: Floats, W: Floats) -> float:
        return max(proof.kkt for proof in certify_held(self.problem, W, scaled(self.scale, weights), self.lam))
