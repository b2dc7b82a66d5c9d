"""Weighted lassos under a loss that is not squared: proximal Newton steps around the exact quadratic solver.

    task i:  min_w  min_b sum_r v_r h(y_r, x_r'w + b) + sum_j a_j |w_j|,   a_j in [0, inf]

A step replaces h by its parabola at the present f, a weighted least squares lasso (with its intercept inside, by centring),
which the kernel solves exactly; then a line search. Only the features in work (those in use, free, at their bound or beyond)
take part; the gradient of all others is looked at when the steps have settled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _kernel
from .designs import DenseRows, Floats, Ints, RowTask
from .lasso import OVERRUN, SLID, Lassos, Solve, one_by_one
from .losses import LossTask
from .threads import each

GOAL = 1e-13  # violation of optimality, as a correlation, at which steps end
OVER = 1e-11  # violation, as a correlation, from which a feature is taken into work
TIE = 1e-9  # |gradient| this close to its bound, relatively, is taken into work: other minimisers may use it
AT_LEAST = 16  # features taken into work together
STEPS = 500  # Newton steps of a solve; it takes less than ten, or thirty where classes are separable
ROUNDS = 10_000  # of taking features into work
PATIENCE = 3  # steps without progress that are made before rounding is blamed
FLAT = 1e-14  # curvature, as a share of the largest, below which it is not taken at its word
LOST = 1e-7  # share of a column's squares left by centring, below which the Gram form is not trusted


class LossLassos:
    """What `Lassos` is for squared loss: the weighted lassos of all tasks, each started from its last solution.

    Parameters
    ----------
    designs : one `LossTask` per task
    positive : require w >= 0
    units : (m, d) scale in which the distance between solutions is measured
    n_jobs : threads over tasks

    Attributes
    ----------
    status : (m,) bits of the last solve: OVERRUN where it was not finished, SLID where the minimiser was not unique
    """

    grams = None

    def __init__(
        self, designs: Sequence[LossTask], *, positive: bool = False, units: Floats, n_jobs: int | None = None
    ):
        self.designs: list[Any] = list(designs)
        self.positive, self.units, self.n_jobs = positive, units, n_jobs
        self.m, self.d = len(self.designs), self.designs[0].d
        self.status = np.zeros(self.m, np.intc)
        self.last = np.zeros((self.m, self.d))

    def warm(self, W: Floats) -> None:
        """Start the next solve from W (m, d) instead of from the last solution."""
        self.last = np.array(W)

    def solve(self, A: Floats, reference: Floats | None = None, max_iter: int = 0) -> tuple[Floats, np.ndarray]:
        """W (m, d) for weights A (m, d), and Newton steps (m,). Where a task's minimiser is not unique, W is the one
        nearest `reference` (m, d), by default nearest 0."""
        aim = np.zeros((self.m, self.d)) if reference is None else reference

        def one(i: int) -> tuple[Floats, int, int]:
            return _Descent(self.designs[i], A[i], aim[i], self.units[i], self.positive, max_iter).run(self.last[i])

        parts = each(one, range(self.m), self.n_jobs)
        W, status, steps = (np.array(part) for part in zip(*parts, strict=True))
        self.status = status.astype(np.intc)
        self.last = W.copy()
        return W, steps

    def path(
        self,
        lams: Floats,
        weights: Floats,
        *,
        max_iter: int = 0,
        tick: Callable[[float], None] = lambda part: None,
        stop: Callable[[], None] | None = None,
    ) -> list[Solve]:
        """Solve for lam times the weights (m, d), for one of lams (L,) after the other."""
        return one_by_one(self, lams, weights, max_iter, tick)


class _Descent:
    """One task's solve. w is that of all features; B are those in work and X their columns."""

    def __init__(self, design: LossTask, a: Floats, aim: Floats, unit: Floats, positive: bool, max_iter: int):
        self.design, self.a, self.aim, self.unit, self.positive = design, a, aim, unit, positive
        self.most = max_iter or STEPS
        self.loss, self.y, self.v = design.of_loss, design.y, design.v
        self.live = (design.squares > 0) & np.isfinite(a)
        self.length = np.sqrt(design.squares * design.yy)
        self.caution, self.steps, self.status = 1.0, 0, 0

    def run(self, w: Floats) -> tuple[Floats, int, int]:
        design = self.design
        w = np.where(self.live & ((w > 0) | (not self.positive)), w, 0.0)
        w = np.where(np.isfinite(w), w, 0.0)
        if w.any() and not self._value(design.predictor(w), w, self.a) <= design.null:  # 0 is the better start
            w = np.zeros_like(w)
        b = design.level(w)
        work = self.live & ((w != 0.0) | (self.a == 0.0))
        work |= self._wanted(design.gradient(w), work)
        for _ in range(ROUNDS):
            B = np.flatnonzero(work)
            w, b = self._descend(w, b, B)
            design.note(w, b)
            new = self._wanted(design.gradient(w), work)
            if not new.any() or self.status & OVERRUN:
                break
            work |= new
        else:
            self.status |= OVERRUN
        return w, self.status, max(self.steps, 1)

    def _value(self, f: Floats, x: Floats, a: Floats) -> float:
        """The objective; entries of x whose weight is infinite are 0."""
        used = x != 0.0
        with np.errstate(invalid="ignore"):
            return float(self.v @ self.loss.value(self.y, f)) + float(a[used] @ np.abs(x[used]))

    def _wanted(self, g: Floats, work: np.ndarray) -> np.ndarray:
        """Features that violate most, and those at their bound."""
        size = g if self.positive else np.abs(g)
        bound = np.where(self.live, self.a, 0.0)
        over = size - bound
        eligible = self.live & ~work & (size > 0) & (over > -TIE * bound)
        beyond = np.flatnonzero(eligible & (over > OVER * self.length))
        count = max(AT_LEAST, int(work.sum()))
        if len(beyond) > count:
            steep = over[beyond] / self.length[beyond]
            beyond = beyond[np.argpartition(-steep, count - 1)[:count]]
        out = eligible & (over <= OVER * self.length)
        out[beyond] = True
        return out

    # ------------------------------------------------------------------ the features in work

    def _descend(self, w: Floats, b: float, B: Ints) -> tuple[Floats, float]:
        """Newton steps on the features B until optimality holds there, or rounding leaves no more to gain."""
        X, a, x = self.design.block(B), self.a[B], w[B]
        out, best, idle = w.copy(), (np.inf, x, b), 0
        f = X @ x + b
        value = self._value(f, x, a)
        for turn in range(self.most + 1):
            u = -self.v * self.loss.slope(self.y, f)
            g = X.T @ u
            off = self._violation(x, g, a, B, float(u.sum()))
            idle = 0 if off < 0.5 * best[0] else idle + 1
            if off < best[0]:
                best = (off, x, b)
            if off <= GOAL or idle > PATIENCE:
                break
            if turn == self.most:
                self.status |= OVERRUN
                break
            self.steps += 1
            to, shift = self._step(X, x, f, u, g, B)
            x, b, f, new = self._search(X, x, b, f, u, a, to, shift, value)
            idle = 0 if new < value - 1e-13 * (abs(value) + self.design.null) else idle
            value = new
        _, x, b = best
        out[B] = x
        return out, b

    def _violation(self, x: Floats, g: Floats, a: Floats, B: Ints, total: float) -> float:
        """Of the optimality conditions, as a correlation."""
        outside = np.maximum((g if self.positive else np.abs(g)) - a, 0.0)
        error = np.where(x != 0.0, np.abs(g - a * np.sign(x)), outside)
        of_level = abs(total) / np.sqrt(self.design.n * self.design.yy) if self.design.base.centre else 0.0
        return max(float((error / self.length[B]).max(initial=0.0)), of_level) if self.design.yy > 0 else 0.0

    def _step(self, X: Floats, x: Floats, f: Floats, u: Floats, g: Floats, B: Ints) -> tuple[Floats, float]:
        """The minimiser of the parabola at x, and by how much the intercept changes."""
        bend = np.maximum(self.loss.curvature(self.y, f), self.caution * self.loss.majorant(self.y, f))
        bend = np.minimum(bend, 1e150)
        bend = self.v * np.maximum(bend, FLAT * bend.max())
        centre, root = self.design.base.centre, np.sqrt(bend)
        mean = bend @ X / bend.sum() if centre else np.zeros(len(B))
        Z = (X - mean) * root[:, None]
        G = Z.T @ Z
        squares = np.diag(G).copy()
        to, status = np.zeros((1, len(B))), np.zeros(1, np.intc)
        if len(B):
            a, aim, unit = self.a[None, B], self.aim[None, B], self.unit[None, B]
            if (squares > LOST * (bend @ X**2)).all():
                order = min(len(self.y) - centre, len(B))
                c = G @ x + g - mean * (u.sum() if centre else 0.0)
                state = _kernel.ActiveSet(np.ascontiguousarray(G), c, np.sqrt(squares), len(B), order, self.positive)
                used = np.flatnonzero(x)
                state.begin(used.astype(np.intc), x[used])
                rounds = np.ones(1, np.intc)
                _kernel.solve_all([state], a, aim, unit, to, status, rounds, 0)
            else:
                status[0] = SLID
            if status[0]:
                to, status = self._with_care(X, f, u, bend, a, aim, unit)
        self.status = (self.status & ~SLID) | int(status[0])
        shift = (u.sum() - bend @ (X @ (to[0] - x))) / bend.sum() if centre else 0.0
        return to[0], float(shift)

    def _with_care(
        self, X: Floats, f: Floats, u: Floats, bend: Floats, a: Floats, aim: Floats, unit: Floats
    ) -> tuple[Floats, np.ndarray]:
        """The same on X itself, where the minimiser is not unique or the Gram form may lose it."""
        task = RowTask(DenseRows(X, bend, self.design.base.centre), f + u / bend)
        lassos = Lassos([task], positive=self.positive, units=unit, careful=True)
        to, _ = lassos.solve(a, reference=aim)
        return to, lassos.status & (SLID | OVERRUN)

    def _search(
        self, X: Floats, x: Floats, b: float, f: Floats, u: Floats, a: Floats, to: Floats, shift: float, value: float
    ) -> tuple[Floats, float, Floats, float]:
        """As far towards `to` as the objective falls enough."""
        move = X @ (to - x) + shift
        slope = float(-u @ move) + float(a @ (np.abs(to) - np.abs(x)))
        noise = 1e-15 * (abs(value) + self.design.null)
        t = 1.0
        for _ in range(60):
            at = to if t == 1.0 else x + t * (to - x)
            fitted = f + t * move
            new = self._value(fitted, at, a)
            if new <= value + 1e-4 * t * min(slope, 0.0) + noise:
                break
            t *= 0.5
        else:
            self.caution = 1.0
            return x, b, f, value
        self.caution = max(0.1 * self.caution, 1e-12) if t == 1.0 else min(10.0 * self.caution, 1.0)
        level = b + t * shift
        return at, level, X @ at + level, new
