"""Algorithm 1: multi-stage multi-task feature learning.

    (1)  min_W  F(W) = sum_i 1/(m n_i) |X_i w_i - y_i|^2 + penalty(W)

Each stage minimises the loss plus a convex penalty that majorises the penalty at the last W: in the paper a weighted l1
norm, so that tasks meet only in the weights. The loop knows neither which penalty it serves nor how stages are solved. W is
(m, d) here, one row per task.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from .._data.designs import Design, Floats, Ints, stage_scale
from .._objective.certificates import (
    GAP,
    TaskCertificate,
    certify,
    largest_violation,
    loss_of,
    main_doubt,
    relative_gap,
)
from .._objective.dual_points import Doubt
from .._objective.penalties import Penalty, RowNorm
from .._objective.row_certificates import certify_rows, row_violation
from .._objective.shapes import CAPPED
from .._runtime.progress import Listener
from .._runtime.threads import each
from .coupled_rows import CoupledRows
from .weighted_lasso import OVERRUN, Lassos

REPEATS = "converged: the set of capped rows repeats, so W is a critical point"
SAME_WEIGHTS = "converged: the next stage would have the same weights, so W is a critical point"
CYCLES = "stopped: the sets of capped rows run in a cycle. Try another theta or lam"
LIMIT = "stopped: max_stages={} reached before the weights of the stages repeated. Raise max_stages to go on"
ASKED = "stopped: a callback asked to"
CONVEX = "converged: the problem is convex, one stage solves it"
ONE_STAGE = "one stage, as asked: max_stages=1"
CROWDED = (
    "stopped: the next stage would leave more features un-penalised than there are independent samples in most tasks. "
    "Choose a larger theta or lam"
)
INEXACT = (
    "stopped, not certified: a stage is not solved to tol={:.0e}, or rounding leaves too few digits to prove it. A fit of "
    "this point alone says why"
)
UNFINISHED = "stopped: the solver ran out of rounds"
FULL = "stopped: stage 1 has more than one coefficient for every six rows; a search goes no further there"
DENSE = "stopped: a larger lam has more than one coefficient for every three rows; a search ends there, with that one"
SHORT = (CROWDED, UNFINISHED, FULL, DENSE)  # a search ended before the model's own algorithm would have
SAME = 1e-8  # slopes of a penalty this close count as the same; those of capped ones are 0 or 1
UNSOLVED = "stopped, not certified: stage {} is not solved to tol (relative duality gap {:.1e} > {:.0e})"


@dataclass(frozen=True)
class Stage:
    """One stage: the solution of its convex problem and what is proven about it.

    `coef` is (m, d) in the data's units; `objective` is (1) at it; `free_rows` are the rows that this stage left
    un-penalised; `dual_gap` is relative; `kkt` is the largest violation of its optimality conditions, as a
    correlation; `unique` says whether its minimiser is certainly the only one.
    """

    stage: int
    coef: Floats
    objective: float
    free_rows: Ints
    dual_gap: float
    kkt: float
    unique: bool
    n_iter: int
    seconds: float
    ambiguous: tuple[Ints, ...] = field(repr=False)  # of each task: features that keep it from being certainly unique
    doubt: Doubt | None = field(default=None, repr=False)  # why its gap is not known to be small, where it is not


@dataclass(frozen=True)
class Solution:
    """Stages of one run of Algorithm 1, why it stopped, and how far the last W is from a critical point of (1): the largest
    violation of the optimality conditions of the convex problem that majorises (1) at W itself, as a correlation."""

    stages: tuple[Stage, ...]
    converged: bool
    reason: str
    critical: float
    convex: bool
    free: np.ndarray = field(repr=False)  # (d, m) bool: entries that the last stage left un-penalised
    row_slopes: Floats = field(repr=False)  # (d,): what it left of the penalty of rows


@dataclass(frozen=True)
class Outcome:
    """A stage as its solver leaves it: see `Stage`. `finished` is False where the solver ran out of rounds."""

    coef: Floats
    n_iter: int
    finished: bool
    dual_gap: float
    kkt: float
    unique: bool
    ambiguous: tuple[Ints, ...]
    doubt: Doubt | None = None


class StageSolver(Protocol):
    """Solves the convex problem of a stage; `weights` are what the penalty calls its weights."""

    designs: list[Design]

    def solve(self, weights: Any, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        """The stage after the one that led to `last` (m, d), with certificates."""

    def violation(self, weights: Any, W: Floats) -> float:
        """How far W (m, d) is from solving it, as a correlation."""


State = TypeVar("State")
Proof = TypeVar("Proof", bound=Any)
Pattern = TypeVar("Pattern")


def algorithm_1(
    pattern: Callable[[State], np.ndarray],
    solve: Callable[[np.ndarray, State], tuple[State, str]],
    state: State,
    most: int,
) -> str:
    """Algorithm 1, at most `most` stages; returns why it stopped.

    A state stands for a W. `pattern(state)` is what the penalty makes of it: which weights the next stage has.
    `solve(pattern, state)` solves that stage after the one that led to `state`; it returns the stage's own state and, if
    it has one, a reason to stop there.
    """
    seen: list[np.ndarray] = []
    now = pattern(state)
    while True:
        state, reason = solve(now, state)
        seen.append(now)
        if reason and reason != ASKED:
            return reason
        now = pattern(state)
        reason = ended(now, seen, most, same) or reason
        if reason:
            return reason


def ended(now: Pattern, seen: list[Pattern], most: int, alike: Callable[[Pattern, Pattern], bool]) -> str:
    """Why Algorithm 1 stops, if it does, at the pattern `now` of the next stage, having `seen` those of the stages so far.
    `alike` tells whether two patterns are equal."""
    if alike(now, seen[-1]):  # equal weights would give the same stage again
        return REPEATS
    if len(seen) > 1 and any(alike(now, old) for old in seen):
        return CYCLES
    return limit(most) if len(seen) == most else ""


def limit(most: int) -> str:
    """That so many stages have been made, in words."""
    return LIMIT.format(most) if most > 1 else ONE_STAGE


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two patterns are equal: exactly in their places, nearly in their slopes."""
    return a is b or (a.shape == b.shape and bool((np.abs(a - b) <= SAME).all()))


def run_stages(
    penalty: Penalty,
    solver: StageSolver,
    *,
    max_stages: int = 10,
    tol: float = 1e-8,
    max_iter: int = 0,
    start: Floats | None = None,
    listener: Listener | None = None,
) -> Solution:
    """Algorithm 1 from `start` (m, d), by default from 0 (then stage 1 has no capped row), with a certificate per stage.

    Stops when the weights repeat (converged), when they cycle, after `max_stages`, when a stage could not be solved
    to `tol`, or when the listener asks to.
    """
    designs = solver.designs
    listener = listener or Listener()
    stages: list[Stage] = []
    free, slopes = np.zeros((designs[0].d, len(designs)), dtype=bool), np.ones(designs[0].d)

    def solve(pattern: np.ndarray, last: Floats) -> tuple[Floats, str]:
        nonlocal free, slopes
        listener.begin_stage()
        began = time.perf_counter()
        weights = penalty.weights(pattern)
        outcome = solver.solve(weights, last, max_iter, listener)
        W, slopes = outcome.coef, penalty.row_slopes(pattern)
        free = weights == 0.0 if isinstance(weights, np.ndarray) else weights.free()
        stages.append(
            Stage(
                stage=len(stages) + 1,
                coef=W,
                objective=loss_of(designs, W) + penalty.value(W.T),
                free_rows=penalty.free_rows(pattern),
                dual_gap=outcome.dual_gap,
                kkt=outcome.kkt,
                unique=outcome.unique,
                n_iter=outcome.n_iter,
                seconds=time.perf_counter() - began,
                ambiguous=outcome.ambiguous,
                doubt=outcome.doubt if outcome.finished else Doubt("unfinished"),
            )
        )
        asked = listener.end_stage()
        if not stages[-1].dual_gap <= tol:  # NaN is not a proof
            return W, UNSOLVED.format(len(stages), stages[-1].dual_gap, tol)
        return W, ASKED if asked else ""

    start = np.zeros((len(designs), designs[0].d)) if start is None else start
    reason = algorithm_1(lambda W: penalty.pattern(W.T), solve, start, max_stages)
    listener.end()
    converged = reason == REPEATS
    if converged:
        reason = in_words(penalty)
    last = stages[-1].coef
    critical = solver.violation(penalty.weights(penalty.pattern(last.T)), last)
    return Solution(tuple(stages), converged, reason, critical, penalty.convex, free, slopes)


def in_words(penalty: Penalty) -> str:
    """Why stages that repeat have converged."""
    if penalty.convex:
        return CONVEX
    of_rows = getattr(penalty, "shape", CAPPED) is CAPPED and not getattr(penalty, "lam_entry", 0.0)
    return REPEATS if of_rows else SAME_WEIGHTS


# ------------------------------------------------------------------ solvers of stages


class LassoStages:
    """Stages that are weighted lassos: weights (d, m)."""

    def __init__(self, lassos: Lassos):
        self.lassos, self.designs, self.grams = lassos, lassos.designs, lassos.grams
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
        return largest_violation(self.designs, W, scaled(self.scale, weights), self.lassos.positive)


def scaled(scale: Floats, weights: Floats) -> Floats:
    """(m, d): the weights (d, m) of a stage on the scale (m, 1) of each task's own sums. One too large for floats excludes a
    coefficient, as it would anyway."""
    with np.errstate(over="ignore"):
        return np.asarray(scale * weights.T)


class RowStages:
    """Stages with a norm of every row."""

    def __init__(self, rows: CoupledRows):
        self.rows, self.designs = rows, rows.designs

    def solve(self, weights: RowNorm, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        W, n_iter = self.rows.solve(weights, max_iter=max_iter)
        W, proof = rather_zero(
            W, certify_rows(self.designs, W, weights), lambda W: certify_rows(self.designs, W, weights)
        )
        for _ in self.designs:
            listener.task_done()
        return Outcome(W, n_iter, self.rows.finished, proof.gap, proof.kkt, proof.unique, proof.dependent, proof.doubt)

    def violation(self, weights: RowNorm, W: Floats) -> float:
        return row_violation(self.designs, W, weights)


def rather_zero(W: Floats, proof: Proof, certify: Callable[[Floats], Proof]) -> tuple[Floats, Proof]:
    """A solution and its proof; or zeros, if rounding has left so little of the solution that zeros are proven to be nearer
    to the optimum, with what is doubtful about it."""
    if proof.relative_gap <= 1.0:
        return W, proof
    zero = certify(np.zeros_like(W))
    return (np.zeros_like(W), replace(zero, doubt=proof.doubt)) if zero.gap < proof.gap else (W, proof)


def certified(
    lassos: Lassos, W: Floats, A: Floats, aim: Floats, listener: Listener
) -> tuple[Floats, list[TaskCertificate]]:
    """Certificates of all tasks; a task above GAP is polished on X first."""

    def check(i: int) -> TaskCertificate:
        design, positive = lassos.designs[i], lassos.positive
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
