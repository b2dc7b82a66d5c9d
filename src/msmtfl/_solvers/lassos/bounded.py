"""The weighted lassos of all tasks with bounds on their coefficients, under any loss.

Newton steps (of squared loss one is enough, and the next is for what rounding left) on the features in work: those in use,
free ones, and those that violate optimality most. The parabola of a step with weights and bounds is solved exactly
(`box_lasso.py`); under a loss that is not squared a line search follows, which cannot leave the bounds: they are convex.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._data.designs import Floats, Ints
from ..._data.forms.ridged import apart, ridged
from ..._kernels import active_set as _kernel
from ..._objective.box import Box
from ..._runtime.threads import each
from .box_lasso import box_lasso
from .lasso_solver import OVERRUN, Solve, one_by_one
from .working_set import WorkingSet

GOAL = 1e-14  # violation of optimality, as a correlation, at which steps end
OVER = 1e-13  # the same of a feature from which it is taken into work
AT_LEAST = 16  # features taken into work together
PATIENCE = 3  # steps without progress that are made before rounding is blamed
STEPS = 1000  # of a solve
FLAT = 1e-8  # curvature of a row, as a share of the largest, below which it is not taken at its word
HALVINGS = 40  # of a step
ENOUGH = 1e-4  # of the fall that a parabola promises
FALLS = 1e-10  # of the objective, as a share of it, that is progress


class BoundedLassos:
    """What `Lassos` and `LossLassos` are without bounds (a `LassoSolver`). Where a task's minimiser is not unique, W is the
    one that is reached from the last solution.

    Parameters
    ----------
    designs : one `Design` or `LossTask` per task
    box : bounds (m, d)
    units : (m, d) scale in which the distance between solutions is measured
    ridge : (m, d) that of every task at lam = 1, if there is any; `at` says which lam it is
    n_jobs : threads over tasks

    Attributes
    ----------
    status : (m,) bits of the last solve: OVERRUN where it was not finished
    """

    grams = None
    positive = False

    def __init__(
        self,
        designs: Sequence[Any],
        box: Box,
        *,
        units: Floats | None = None,
        ridge: Floats | None = None,
        n_jobs: int | None = None,
    ):
        self._prepare(designs, units, ridge, n_jobs)
        self.box = box
        self.works = [None if hasattr(design, "of_loss") else WorkingSet(design) for design in self.designs]

    def _prepare(self, designs: Sequence[Any], units: Floats | None, ridge: Floats | None, n_jobs: int | None) -> None:
        self.designs, self.ridge, self.lam, self.n_jobs = list(designs), ridge, 0.0, n_jobs
        self.m, self.d = len(self.designs), self.designs[0].d
        self.units = np.ones((self.m, self.d)) if units is None else units
        self.status, self.last = np.zeros(self.m, np.intc), np.zeros((self.m, self.d))

    def at(self, lam: float) -> None:
        """Have the ridge of this lam, if there is one, from the next solve on."""
        self.lam = lam

    def design(self, i: int) -> Any:
        """That of task i, with its ridge."""
        return ridged(self.designs[i], None if self.ridge is None else self.lam * self.ridge[i])

    def limit(self, i: int) -> Any:
        """The bounds of task i."""
        return self.box.task(i)

    def warm(self, W: Floats) -> None:
        """Start the next solve from W (m, d) instead of from the last solution."""
        self.last = np.array(W)

    def states(self) -> list[_kernel.ActiveSet]:
        """Empty: the kernel cannot solve these by itself."""
        return []

    def solve(self, A: Floats, reference: Floats | None = None, max_iter: int = 0) -> tuple[Floats, np.ndarray]:
        """W (m, d) for weights A (m, d), and steps (m,)."""
        W, (status, steps) = np.zeros((self.m, self.d)), np.zeros((2, self.m), np.intc)
        self.solve_into(A, np.zeros_like(W) if reference is None else reference, W, status, steps, max_iter)
        return W, steps

    def solve_into(
        self, A: Floats, aim: Floats, W: Floats, status: np.ndarray, rounds: np.ndarray, max_iter: int = 0
    ) -> None:
        """The same, W, status and steps (m,) being written to arrays at hand."""

        def one(i: int) -> None:
            W[i], rounds[i], ended = self._solved(i, A[i], aim[i], max_iter or STEPS)
            status[i] = 0 if ended else OVERRUN

        each(one, range(self.m), self.n_jobs)
        self.status, self.last = np.array(status), np.array(W)

    def _solved(self, i: int, a: Floats, aim: Floats, most: int) -> tuple[Floats, int, bool]:
        """Task i's solution, steps, and whether they came to their end."""
        return _Descent(self.design(i), self.works[i], a, self.limit(i)).run(self.last[i], most)

    def repair(self, i: int, w: Floats, a: Floats, aim: Floats) -> Floats:
        """A solution whose certificate is poor, found anew from 0."""
        return _Descent(self.design(i), self.works[i], a, self.limit(i)).run(np.zeros_like(w), STEPS)[0]

    def path(
        self,
        lams: Floats,
        weights: Floats,
        *,
        max_iter: int = 0,
        likely: Ints | None = None,
        tick: Callable[[float], None] = lambda part: None,
        stop: Callable[[], None] | None = None,
    ) -> list[Solve]:
        """Solve for lam times the weights (m, d), for one of lams (L,) after the other."""
        return one_by_one(self, lams, weights, max_iter, tick)


class _Descent:
    """One task's solve."""

    def __init__(self, design: Any, work: WorkingSet | None, a: Floats, box: Box):
        self.design, self.work, self.a, self.box = design, work, a, box
        self.usable = (design.squares > 0.0) & np.isfinite(a) & (box.low < box.high)
        self.cost = np.where(self.usable, a, 0.0)
        self.weights = np.where(self.usable, a, np.inf)  # what cannot be used violates nothing

    @np.errstate(over="ignore", invalid="ignore")  # what leaves the range of floats is no step down
    def run(self, start: Floats, most: int) -> tuple[Floats, int, bool]:
        """The minimiser, from about `start`, steps, and whether they came to their end."""
        w = np.where(self.usable, np.clip(start, self.box.low, self.box.high), 0.0)
        if self.work is None and self._value(w) > self._value(np.zeros_like(w)):
            w = np.zeros_like(w)
        inside, best, idle = self.usable & ((w != 0.0) | (self.a == 0.0)), (np.inf, w), 0
        lowest = np.inf
        for step in range(most):
            g = self.design.gradient(w)
            errors = self._errors(w, g)
            worst = float(errors.max(initial=0.0))
            value = lowest if self.work is not None else self._value(w)
            idle = 0 if worst < 0.5 * best[0] or value < lowest - FALLS * abs(lowest) else idle + 1
            lowest = min(value, lowest)
            best = min(best, (worst, w), key=lambda one: one[0])
            new = self._wanted(errors, inside)
            if worst <= GOAL or (idle > PATIENCE and not new.any()):
                return best[1], step + 1, True
            inside |= new
            w = self._stepped(w, g, np.flatnonzero(inside))
        return best[1], most, False

    def _errors(self, w: Floats, g: Floats) -> Floats:
        """(d,): violations of optimality, as correlations."""
        rest = g - self.cost * np.sign(w)
        moved = np.where(
            ((w == self.box.high) & (rest > 0.0)) | ((w == self.box.low) & (rest < 0.0)), 0.0, np.abs(rest)
        )
        up = np.where(self.box.high > 0.0, g, 0.0)
        down = np.where(self.box.low < 0.0, -g, 0.0)
        error = np.where(w != 0.0, moved, np.maximum(np.maximum(up, down) - self.cost, 0.0))
        length = np.sqrt(self.design.squares * self.design.yy)
        return np.asarray(np.divide(error, length, out=np.zeros_like(error), where=self.usable & (length > 0.0)))

    def _wanted(self, errors: Floats, inside: np.ndarray) -> np.ndarray:
        """(d,) bool: the features not in work that violate optimality most."""
        out = np.asarray((errors > OVER) & ~inside)
        most = max(AT_LEAST, int(np.count_nonzero(inside)))
        if np.count_nonzero(out) > most:
            out &= errors >= np.partition(errors[out], -most)[-most]
        return out

    def _value(self, w: Floats) -> float:
        return float(0.5 * self.design.loss(w) + self.cost @ np.abs(w))

    def _stepped(self, w: Floats, g: Floats, B: Ints) -> Floats:
        """The next point: where the parabola on the features B has its minimum, or on the way there."""
        H = bends(self.design, self.work, w, B)
        target, low, high = w.copy(), self.box.low[B], self.box.high[B]
        target[B] = box_lasso(H, g[B] + H @ w[B], self.a[B], low, high, w[B])
        if self.work is not None:
            return target
        way = target - w
        fall = float(g @ way - self.cost @ (np.abs(target) - np.abs(w)))
        now, t = self._value(w), 1.0
        if fall <= 1e-12 * abs(now):  # less than rounding shows of values
            return target
        for _ in range(HALVINGS):
            at = target if t == 1.0 else w + t * way
            if self._value(at) <= now - ENOUGH * t * fall:
                return at
            t *= 0.5
        return target


def bends(given: Any, work: Any, w: Floats, B: Ints) -> Floats:
    """(k, k): second derivatives of a task's loss in the features B, the intercept being the best one. `work` is what is
    kept of the Gram matrix (None where the loss is not squared)."""
    design, ridge = apart(given)
    if work is not None:
        H = known(work, B)
    else:
        f, Z = design.predictor(w), design.block(B)
        bend = design.of_loss.curvature(design.y, f)
        bend = np.maximum(bend, FLAT * bend.max(initial=0.0))
        weight = design.v * bend
        if design.centred:
            Z = Z - weight @ Z / weight.sum()
        weighed = design.of_loss.root(Z, design.v, f, bend)
        H = weighed.T @ weighed
    if ridge is not None:
        H[np.arange(len(B)), np.arange(len(B))] += ridge[B]
    diagonal = np.diag(H)
    short = diagonal <= 1e-14 * diagonal.max(initial=0.0)  # a column without curvature
    H[short, short] += np.maximum(design.squares[B][short], 1e-300)
    return H


def known(work: Any, B: Ints) -> Floats:
    """(k, k): a copy of the Gram matrix between features, fetched as far as it is not at hand."""
    if work.whole is not None:
        return np.asarray(work.whole[np.ix_(B, B)])
    new = B[work.slot[B] < 0]
    if isinstance(work, WorkingSet):
        work.take(new)
    elif new.size:
        work.fetch(new, B)
        if work.whole is not None:
            return np.asarray(work.whole[np.ix_(B, B)])
    at = work.slot[B]
    return np.asarray(work.known[np.ix_(at, at)])
