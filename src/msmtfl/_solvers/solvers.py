"""What solves a problem: `solver_for` makes the solver of its stages. No solver is made of a problem anywhere else.

The convex problem of a stage has one of six structures, which the penalty names: weighted lassos ("lassos"), a norm of
every row ("rows"), a part that is common to all tasks ("common"), or that with ridges only ("pooling"), or with a norm of
every task's deviations ("robust"); one more task beside others has that of its coefficients given theirs ("given"). Where
the loss is not squared, the first has a solver of its own;
the others are solved by Newton steps around theirs (`coupled_newton.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._data.designs import AnyData, Design, Floats, Ints, stage_scale
from .._data.ridged import ridged
from .._data.tables import names_of, warn_user
from .._objective.box import Limit
from .._objective.certificates import GAP, TaskCertificate, certify, largest_violation, main_doubt, relative_gap
from .._objective.common_penalty import CappedDeviations, SharedNorm
from .._objective.loss_certificates import LossCertificate, certify_loss
from .._objective.losses import LossTask
from .._objective.penalties import Penalty, RowNorm
from .._objective.pooling import PoolingRidge, certify_pooling, certify_ridges
from .._objective.problem import Problem
from .._objective.row_certificates import RowCertificate, certify_rows, row_violation
from .._objective.task_norms import TaskNorms, certify_task_norms
from .._runtime.progress import Listener
from .._runtime.threads import each
from .bounded import BoundedLassos
from .common_part import Stacked, StackedGrams, StackedLassos, settled
from .coupled_newton import AnyPooling, CommonGrams, CommonSolver, LossCommon, LossGrams, LossPooling, LossRows
from .coupled_rows import CoupledRows
from .given_rows import GivenStages
from .gram import Gram, gram_caches
from .loss_task_norms import AnyTaskNorms, LossTaskNorms
from .one_level import AtBestLevel, LevelStages, has_one_level
from .pooling import Pooling
from .proximal_newton import LossLassos
from .stages import Outcome
from .task_norms import TaskNormSolver
from .task_solver import Caches, task_caches
from .weighted_lasso import OVERRUN, Lassos

LASSOS, ROWS, COMMON, POOLING, GIVEN = "lassos", "rows", "common", "pooling", "given"  # structures of stages
ROBUST = "robust"
NO_MINIMISER = (
    "the targets of task(s) {} are separated by features that are not penalised (in the first of them by {}): no finite "
    "coefficients minimise the loss, and those returned only come close to its lowest value. Choose a larger theta or lam, "
    "or penalise these features."
)
Proof = TypeVar("Proof", bound=Any)


def solver_for(
    problem: Problem,
    penalty: Penalty,
    *,
    lam: float = 0.0,
    grams: Any = None,
    n_jobs: int | None = None,
    near: Floats | None = None,
) -> Any:
    """What solves the stages of a problem with a penalty (a `StageSolver`).

    Parameters
    ----------
    lam : which the ridge of the problem has, if there is one
    grams : what is known of Gram matrices (`caches_for`), by default nothing yet
    near : about where the solution is
    """
    if has_one_level(problem):
        common = penalty.structure == COMMON

        def make(near: Floats | None) -> Any:
            start = near if near is None or not common else near.ravel()
            return _solver_for(problem, penalty, lam, None, n_jobs, start)

        def coefs(found: Floats) -> Floats:
            return Stacked(problem.designs).sums(found[0]) if common else found

        return LevelStages(problem.designs, make, coefs, near, getattr(problem.data, "classes", 1))
    return _solver_for(problem, penalty, lam, grams, n_jobs, near)


def _solver_for(
    problem: Problem, penalty: Penalty, lam: float, grams: Any, n_jobs: int | None, near: Floats | None
) -> Any:
    if penalty.structure == LASSOS:
        lassos = _lassos_for(problem, grams, n_jobs)
        lassos.at(lam)
        if near is not None:
            lassos.warm(near)
        designs = problem.at(lam)
        if problem.loss.squared:
            return LassoStages(lassos, designs)
        return LossStages(lassos, designs, problem.data)
    if penalty.structure == ROWS:
        rows = _rows_for(problem, grams, n_jobs)
        rows.at(lam)
        if near is not None:
            rows.warm(near)
        return RowStages(rows, problem.at(lam), problem.data)
    if penalty.structure == GIVEN:
        return GivenStages(problem, lam, problem.data)
    if penalty.structure == POOLING:
        return PoolingStages(pooling_for(problem, grams))
    if penalty.structure == ROBUST:
        return TaskNormStages(problem, penalty, task_norms_for(problem, grams), near)
    common = _common_for(problem, grams, n_jobs)
    common.at(penalty.ridge() if isinstance(penalty, CappedDeviations) else None)
    if near is not None:
        common.warm(near)
    if common.ridge is None:
        return CommonStages(common, problem.data)
    return RidgedCommonStages(common) if problem.loss.squared else RidgedLossStages(common)


def lassos_for(
    problem: Problem,
    grams: Caches | None = None,
    n_jobs: int | None = None,
    careful: bool = False,
    search: bool = False,
) -> Any:
    """The weighted lassos of a problem's tasks. In a `search` those that have no minimiser are not solved."""
    if has_one_level(problem):
        return AtBestLevel(problem, lambda: _lassos_for(problem, None, n_jobs, careful, search))
    return _lassos_for(problem, grams, n_jobs, careful, search)


def _lassos_for(
    problem: Problem,
    grams: Caches | None = None,
    n_jobs: int | None = None,
    careful: bool = False,
    search: bool = False,
) -> Any:
    if problem.bounds is not None:
        return BoundedLassos(
            problem.designs, problem.bounds, units=problem.units, ridge=problem.unit_ridge, n_jobs=n_jobs
        )
    if not problem.loss.squared:
        options: dict[str, Any] = {"positive": problem.positive, "units": problem.units, "n_jobs": n_jobs}
        options["ridge"] = problem.unit_ridge
        return LossLassos(problem.designs, **options, problem=problem if search and problem.may_escape else None)
    return Lassos(
        problem.designs,
        positive=problem.positive,
        units=problem.units,
        grams=grams,
        careful=careful,
        ridge=problem.unit_ridge,
        n_jobs=n_jobs,
    )


def rows_for(problem: Problem, grams: list[Gram] | None = None, n_jobs: int | None = None) -> Any:
    """A problem with a norm of every row."""
    if has_one_level(problem):
        return AtBestLevel(problem, lambda: _rows_for(problem, None, n_jobs))
    return _rows_for(problem, grams, n_jobs)


def _rows_for(problem: Problem, grams: list[Gram] | None, n_jobs: int | None) -> CoupledRows | LossRows:
    if not problem.loss.squared:
        return LossRows(problem, n_jobs)
    return CoupledRows(
        problem.designs,
        problem.factors,
        units=problem.units,
        grams=grams,
        ridge=problem.unit_ridge,
        n_jobs=n_jobs,
    )


def common_for(problem: Problem, grams: CommonGrams | None = None, n_jobs: int | None = None) -> Any:
    """A problem with a part that is common to all tasks."""
    if has_one_level(problem):
        make = partial(_common_for, problem, None, n_jobs)
        return AtBestLevel(problem, make, lambda P: Stacked(problem.designs).sums(P))
    return _common_for(problem, grams, n_jobs)


def _common_for(problem: Problem, grams: CommonGrams | None, n_jobs: int | None) -> CommonSolver:
    if not problem.loss.squared:
        return LossCommon(problem, grams if isinstance(grams, LossGrams) else None, n_jobs)
    grams = grams if isinstance(grams, StackedGrams) else StackedGrams(problem.designs, n_jobs=n_jobs)
    return StackedLassos(grams, units=problem.units, n_jobs=n_jobs)


def pooling_for(problem: Problem, known: AnyPooling | None = None) -> AnyPooling:
    """A problem with a common part and deviations that have ridges only; as it is, if it was made before."""
    if known is not None:
        return known
    return Pooling(problem) if problem.loss.squared else LossPooling(problem)


def task_norms_for(problem: Problem, known: Pooling | None = None) -> AnyTaskNorms:
    """A problem with a norm of every task's deviations; `known` are the directions of its tasks, if they are known."""
    return TaskNormSolver(problem, known) if problem.loss.squared else LossTaskNorms(problem)


def caches_for(problem: Problem, structure: str, **options: float | None) -> Any:
    """What solvers of stages of a structure keep of Gram matrices; `options` are those of `gram_caches`."""
    if structure == POOLING:
        return pooling_for(problem)
    if structure == ROBUST:
        return Pooling(problem) if problem.loss.squared else None
    if not problem.loss.squared:
        return LossGrams(problem) if structure == COMMON else []
    makers: dict[str, Callable[..., Any]] = {LASSOS: task_caches, ROWS: gram_caches, COMMON: StackedGrams}
    return makers[structure](problem.designs, **options)


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
        return largest_violation(self.designs, W, scaled(self.scale, weights), limit_of(self.lassos))


def scaled(scale: Floats, weights: Floats) -> Floats:
    """(m, d): the weights (d, m) of a stage on the scale (m, 1) of each task's own sums. One too large for floats excludes a
    coefficient, as it would anyway."""
    with np.errstate(over="ignore"):
        return np.asarray(scale * weights.T)


def limit_of(lassos: Any) -> Limit:
    """How coefficients (m, d) are bounded."""
    return lassos.box if isinstance(lassos, BoundedLassos) else lassos.positive


def certified(
    lassos: Any, W: Floats, A: Floats, aim: Floats, listener: Listener
) -> tuple[Floats, list[TaskCertificate]]:
    """Certificates of all tasks; a task above GAP is polished on X first."""

    def check(i: int) -> TaskCertificate:
        design, positive = lassos.design(i), lassos.limit(i)
        proof = certify(design, W[i], A[i], positive)
        if proof.relative_gap > GAP and not lassos.status[i] & OVERRUN:
            better = lassos.repair(i, W[i], A[i], aim[i])
            again = certify(design, better, A[i], positive)
            if again.gap < proof.gap:
                W[i], proof = better, again
        W[i], proof = rather_zero(W[i], proof, lambda w: certify(design, w, A[i], positive))
        return proof

    proofs = each(check, range(lassos.m), lassos.n_jobs)
    for _ in proofs:
        listener.task_done()
    return W, proofs


def rather_zero(W: Floats, proof: Proof, certify: Callable[[Floats], Proof]) -> tuple[Floats, Proof]:
    """A solution and its proof; or zeros, if rounding has left so little of the solution that zeros are proven to be nearer
    to the optimum, with what is doubtful about it."""
    if proof.relative_gap <= 1.0:
        return W, proof
    zero = certify(np.zeros_like(W))
    return (np.zeros_like(W), replace(zero, doubt=proof.doubt)) if zero.gap < proof.gap else (W, proof)


class Separation:
    """Warns, once each, of tasks whose loss has no minimiser."""

    def __init__(self, data: AnyData):
        self.data = data
        self.said: set[int] = set()

    def warn(self, features: dict[int, Ints]) -> None:
        """Of tasks, with the features of a direction in which their loss always falls."""
        new = [i for i in features if i not in self.said]
        if new:
            self.said |= set(new)
            named = names_of(self.data.features[features[new[0]]])
            warn_user(NO_MINIMISER.format(names_of(self.data.labels[new]), named), ConvergenceWarning)


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
                return certify_loss(self.designs[i], w, A[i], self.lassos.limit(i))

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
        return largest_violation(self.designs, W, scaled(self.scale, weights), limit_of(self.lassos))


class RowStages:
    """Stages with a norm of every row."""

    def __init__(self, rows: CoupledRows | LossRows, designs: Sequence[Any], data: AnyData):
        self.rows, self.designs, self.grams = rows, designs, None
        self.separation = Separation(data)

    def solve(self, weights: RowNorm, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        W, n_iter = self.rows.solve(weights, max_iter=max_iter)
        W, proof = rather_zero(
            W, certify_rows(self.designs, W, weights), lambda W: certify_rows(self.designs, W, weights)
        )
        for _ in self.designs:
            listener.task_done()
        self.separation.warn({i: proof.dependent[i] for i in proof.escapes})
        return Outcome(W, n_iter, self.rows.finished, proof.gap, proof.kkt, proof.unique, proof.dependent, proof.doubt)

    def violation(self, weights: RowNorm, W: Floats) -> float:
        return row_violation(self.designs, W, weights)


class CommonStages:
    """Stages in (b, V): points are (1, p), weights a `SharedNorm`; what is proven is about W = b + V."""

    def __init__(self, lassos: CommonSolver, data: AnyData | None = None):
        self.lassos: Any = lassos
        self.grams = lassos.grams
        self.designs: list[Any] = [lassos.stacked]
        self.scale = 0.5 * lassos.stacked.m
        self.separation = None if data is None else Separation(data)

    def solve(self, weights: SharedNorm, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        stacked, a = self.lassos.stacked, self.scale * weights.weights()
        P, rounds = self.lassos.solve(a, last[0], max_iter)
        P = settled(weights, P, stacked.m)
        proof = certify_rows(stacked.parts, stacked.sums(P), weights)
        if proof.gap > GAP and self.lassos.finished and hasattr(self.lassos, "repair"):
            better = settled(weights, self.lassos.repair(P, a, last[0]), stacked.m)
            again = certify_rows(stacked.parts, stacked.sums(better), weights)
            if again.gap < proof.gap:
                P, proof = better, again
        P, proof = rather_zero(P, proof, lambda P: certify_rows(stacked.parts, stacked.sums(P), weights))
        for _ in stacked.parts:
            listener.task_done()
        if self.separation is not None:
            self.separation.warn({i: proof.dependent[i] for i in proof.escapes})
        finished = self.lassos.finished
        return Outcome(P[None], rounds, finished, proof.gap, proof.kkt, proof.unique, proof.dependent, proof.doubt)

    def violation(self, weights: SharedNorm, P: Floats) -> float:
        stacked = self.lassos.stacked
        return row_violation(stacked.parts, stacked.sums(P[0]), weights)


class RidgedCommonStages(CommonStages):
    """The same with a ridge on b and V: then these are what is unique, and what is proven is about them."""

    def __init__(self, lassos: CommonSolver):
        super().__init__(lassos)
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
    """The same under a loss that is not squared."""

    def solve(self, weights: SharedNorm, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        stacked = self.lassos.stacked
        P, rounds = self.lassos.solve(self.scale * weights.weights(), last[0], max_iter)
        proof = certify_common_ridges(stacked, P, weights, self.lassos.ridge)
        for _ in stacked.parts:
            listener.task_done()
        outcome = Outcome(P[None], rounds, self.lassos.finished, proof.gap, proof.kkt, proof.unique, proof.dependent)
        return replace(outcome, doubt=proof.doubt)


def certify_common_ridges(stacked: Stacked, P: Floats, norm: SharedNorm, ridge: Floats) -> RowCertificate:
    """Of b and V with a ridge on both, whatever the loss is."""
    A, height = 0.5 * stacked.m * norm.weights(), stacked.m + 1
    return certify_ridges(stacked.parts, P, A.reshape(height, -1), ridge.reshape(height, -1), stacked.scale)


class PoolingStages:
    """The only stage of partial pooling: points are (1, p), b first, then V; weights are a `PoolingRidge`."""

    def __init__(self, pooling: AnyPooling):
        self.pooling, self.grams = pooling, pooling
        self.designs = [AllTasks(pooling.problem.designs)]

    def solve(self, weights: PoolingRidge, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        b, V = self.pooling.one(weights.k, weights.k_common)
        P = np.concatenate([b, V.ravel()])
        proof = certify_pooling(self.pooling.problem.designs, P, weights)
        for _ in V:
            listener.task_done()
        steps, finished = self.pooling.steps, self.pooling.finished
        return Outcome(P[None], steps, finished, proof.gap, proof.kkt, proof.unique, proof.dependent, proof.doubt)

    def violation(self, weights: PoolingRidge, P: Floats) -> float:
        return certify_pooling(self.pooling.problem.designs, P[0], weights).kkt


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

    def __init__(self, problem: Problem, penalty: Any, solver: AnyTaskNorms, near: Floats | None = None):
        self.problem, self.solver, self.grams = problem, solver, None
        self.designs = [CountedTasks(problem.designs, penalty)]
        if near is not None:
            solver.warm(near)

    def solve(self, weights: TaskNorms, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        designs = self.problem.designs
        P, steps = self.solver.solve(weights, max_iter)
        proof = certify_task_norms(designs, P, weights)
        P, proof = rather_zero(P, proof, lambda P: certify_task_norms(designs, P, weights))
        for _ in designs:
            listener.task_done()
        finished = self.solver.finished
        return Outcome(
            P.reshape(1, -1), steps, finished, proof.gap, proof.kkt, proof.unique, proof.dependent, proof.doubt
        )

    def violation(self, weights: TaskNorms, P: Floats) -> float:
        return certify_task_norms(self.problem.designs, P[0].reshape(weights.height, -1), weights).kkt


class CountedTasks:
    """The loss of all tasks at a point, each counting as a penalty on deviations has it."""

    n = 1.0

    def __init__(self, parts: Sequence[Design], penalty: TaskNorms):
        self.parts, self.penalty, self.d = parts, penalty, penalty.height * parts[0].d

    def loss(self, P: Floats) -> float:
        W = self.penalty.coefs(P.reshape(self.penalty.height, -1))
        parts = zip(self.penalty.kappa, self.parts, W, strict=True)
        return float(sum(0.5 * k * part.loss(w) for k, part, w in parts))
