"""Algorithm 1: multi-stage multi-task feature learning.

    (1)  min_W  F(W) = sum_i 1/(m n_i) |X_i w_i - y_i|^2 + penalty(W)

Each stage minimises the loss plus a convex penalty that majorises the penalty at the last W: in the paper a weighted l1
norm, so that tasks meet only in the weights. The loop knows neither which penalty it serves nor how stages are solved. W is
(m, d) here, one row per task.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from .._data.designs import Floats, Ints, Smooth
from .._objective.penalties import Penalty
from .._objective.proofs.certificates import loss_of
from .._objective.proofs.dual_points import Doubt
from .._objective.shapes import CAPPED
from .._runtime.progress import Listener

SETTLED = 3e-13  # change of an entry in one go over the rows, as a correlation, that counts as none

REPEATS = "converged: the set of freed features repeats, so W is a critical point"
SAME_WEIGHTS = "converged: the next stage would have the same weights, so W is a critical point"
CYCLES = "stopped: the sets of freed features run in a cycle. Try another theta or lam"
LIMIT = "stopped: max_stages={} reached before the weights of the stages repeated. Raise max_stages to go on"
ASKED = "stopped: a callback asked to"
CONVEX = "converged: the problem is convex, one stage solves it"
ONE_STAGE = "one stage, as asked: max_stages=1"
CROWDED = (
    "stopped: the next stage would leave more features un-penalised than there are independent samples in most tasks. "
    "Choose a larger theta or lam"
)
SEPARATED = (
    "stopped: in some task the features that the next stage would leave un-penalised separate the classes (or hold counts "
    "at 0), so that no coefficients minimise its loss. Choose a larger theta or lam"
)
INEXACT = (
    "stopped, not certified: a stage is not solved to tol={:.0e}, or rounding leaves too few digits to prove it. A fit of "
    "this point alone says why"
)
UNFINISHED = "stopped: the solver ran out of rounds"
FULL = "stopped: stage 1 has more than one coefficient for every six rows; a search goes no further there"
DENSE = "stopped: a larger lam has more than one coefficient for every three rows; a search ends there, with that one"
LEFT_OUT = "not solved: errors on held-out samples had turned at larger values"
# a search ended before the model's own algorithm would have
SHORT = frozenset((CROWDED, SEPARATED, UNFINISHED, FULL, DENSE, LEFT_OUT))
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
    endless: bool = field(default=False, repr=False)  # whether it is known that there is no minimiser


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
    endless: bool = False


class StageSolver(Protocol):
    """Solves the convex problem of a stage; `weights` are what the penalty calls its weights."""

    @property
    def designs(self) -> Sequence[Smooth]: ...

    def solve(self, weights: Any, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        """The stage after the one that led to `last` (m, d), with certificates."""

    def violation(self, weights: Any, W: Floats) -> float:
        """How far W (m, d) is from solving it, as a correlation."""


State = TypeVar("State")
Pattern = TypeVar("Pattern")


def algorithm_1(
    pattern: Callable[[State], Pattern],
    start: State,
    most: int,
    *,
    alike: Callable[[Pattern, Pattern], bool],
    crowded: Callable[[Pattern], bool] = lambda pattern: False,
) -> Generator[Pattern, tuple[State, str], str]:
    """Algorithm 1, at most `most` stages; returns why it stopped.

    A state stands for a W, and `pattern(state)` is what the penalty makes of it: it says which weights the next stage
    has. The generator yields the pattern of a stage that is to be solved, and is sent the state that it leads to with, if
    there is one, a reason to stop there. `alike` tells whether two patterns are equal; a stage that is `crowded` is not
    solved any more.
    """
    seen: list[Pattern] = []
    now = pattern(start)
    while True:
        state, asked = yield now
        seen.append(now)
        if asked and asked != ASKED:
            return asked
        now = pattern(state)
        if alike(now, seen[-1]):  # equal weights would give the same stage again
            return REPEATS
        if len(seen) > 1 and any(alike(now, old) for old in seen):
            return CYCLES
        if len(seen) == most:
            return limit(most)
        if asked:
            return asked
        if crowded(now):
            return CROWDED


def run(
    stages: Generator[Pattern, tuple[State, str], str],
    solve: Callable[[Pattern, State], tuple[State, str]],
    state: State,
) -> str:
    """Go through Algorithm 1: `solve(pattern, state)` solves the stage after the one that led to `state`."""
    try:
        wanted = next(stages)
        while True:
            state, reason = solve(wanted, state)
            wanted = stages.send((state, reason))
    except StopIteration as end:
        return str(end.value)


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
                doubt=outcome.doubt if outcome.finished or outcome.endless else Doubt("unfinished"),
                endless=outcome.endless,
            )
        )
        asked = listener.end_stage()
        if not stages[-1].dual_gap <= tol:  # NaN is not a proof
            return W, UNSOLVED.format(len(stages), stages[-1].dual_gap, tol)
        return W, ASKED if asked else ""

    start = np.zeros((len(designs), designs[0].d)) if start is None else start
    stages_of = algorithm_1(lambda W: penalty.pattern(W.T), start, max_stages, alike=same)
    reason = run(stages_of, solve, start)
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
