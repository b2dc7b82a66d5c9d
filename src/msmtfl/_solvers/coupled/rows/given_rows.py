"""One more task beside others that are held fixed, where a norm of rows couples it to them
(`_objective/coupled/given_rows.py`).

    min_w  1/2 loss(w) + sum_j phi_j(w_j) + 1/2 sum_j ridge_j w_j^2

On the features in work (those that others use, that are free, or whose gradient is too large for 0): every coefficient in
turn, and a Newton step on those that are not at a kink, until nothing moves. Other losses by Newton steps around that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._data.designs import AnyData, Design, Floats, Ints
from ...._objective.coupled.given_rows import GivenRows, certify_given
from ...._objective.loss_task import LossTask
from ...._objective.problem import Problem
from ...._runtime.progress import Listener
from ...stages import Outcome
from ..newton_around import NewtonAround

ROUNDS = 2000  # goes over the features in work; with the Newton steps it takes a few dozen
SETTLED = 1e-14  # violation of optimality, as a correlation, at which they end
VIOLATES = 1e-10  # excess of a gradient over its bound, relatively, from which a feature is taken into work
IDLE = 5  # goes without a lower objective before rounding is blamed
GivenStage = tuple[GivenRows, Floats | None]  # a penalty and a ridge (d,)


class _Work:
    """Some features of a task under squared loss, as products of their columns."""

    def __init__(self, G: Floats, c: Floats, yy: float, penalty: GivenRows, ridge: Floats, w: Floats):
        self.G, self.c, self.penalty, self.ridge, self.w = G, c, penalty, ridge, w.copy()
        self.h = np.diagonal(G) + ridge
        self.length = np.sqrt(self.h) * np.sqrt(yy)

    def value(self, w: Floats) -> float:
        return float(0.5 * w @ (self.G @ w) - self.c @ w + 0.5 * self.ridge @ w**2 + self.penalty.sizes(w).sum())

    def gradient(self, w: Floats) -> Floats:
        return np.asarray(self.G @ w - self.c + self.ridge * w)

    def sweep(self) -> None:
        w, slope = self.w, self.G @ self.w - self.c
        known = zip(self.h.tolist(), self.penalty.bound.tolist(), self.penalty.reach.tolist(), strict=True)
        for j, (h, bound, reach) in enumerate(known):
            if h <= 0.0:
                continue
            old = float(w[j])
            new = self.penalty.best(h, float(self.G[j, j]) * old - float(slope[j]), bound, reach)
            if new != old:
                slope += self.G[:, j] * (new - old)
                w[j] = new

    def step(self) -> None:
        """A Newton step on what is not at a kink, at most to the next one."""
        w, kinks = self.w, self.penalty.kinks()
        S = np.flatnonzero(~self.penalty.kinked(w) & (self.h > 0.0))
        if S.size == 0:
            return
        slope, bend = self.penalty.slopes(w)
        g = (self.gradient(w) + slope)[S]
        A = self.G[np.ix_(S, S)] + np.diag((self.ridge + bend)[S])
        size = np.sqrt(np.maximum(np.diagonal(A), np.finfo(float).tiny))
        move = -np.linalg.lstsq(A / np.outer(size, size), g / size, rcond=1e-13)[0] / size
        far, hit = 1.0, -1
        for at in (kinks[S], -kinks[S]):
            with np.errstate(divide="ignore", invalid="ignore"):
                t = np.where(np.isfinite(at), (at - w[S]) / move, np.inf)
            t = np.where((t > 0.0) & np.isfinite(t), t, np.inf)
            place = int(np.argmin(t))
            if t[place] < far:
                far, hit, level = float(t[place]), place, float(at[place])
        new = w.copy()
        new[S] += far * move
        if hit >= 0:
            new[S[hit]] = level
        if self.value(new) <= self.value(w) or self.error(new) < self.error(w):
            self.w = new

    def error(self, w: Floats) -> float:
        """The largest violation of optimality, as a correlation."""
        g, (low, high) = -self.gradient(w), self.penalty.slope_range(w)
        off = np.maximum(np.maximum(low - g, g - high), 0.0)
        return float(np.divide(off, self.length, out=np.zeros_like(off), where=self.length > 0.0).max(initial=0.0))

    def run(self, most: int) -> tuple[int, bool]:
        lowest, idle = np.inf, 0
        for count in range(1, most + 1):
            self.sweep()
            self.step()
            error = self.error(self.w)
            if error <= SETTLED:
                return count, True
            idle = 0 if error < lowest else idle + 1
            lowest = min(lowest, error)
            if idle >= IDLE and lowest <= 1e-9:
                return count, True
        return most, False


def minimised(
    design: Design, penalty: GivenRows, ridge: Floats | None, start: Floats, most: int = 0
) -> tuple[Floats, int, bool]:
    """(d,): the minimiser for a task under squared loss, all in its own sums; goes, and whether it came to its end."""
    r = np.zeros(design.d) if ridge is None else ridge
    live = np.isfinite(penalty.bound) & (design.squares > 0.0)
    finite = penalty.finite
    w = np.where(live, start, 0.0)
    work = live & ((w != 0.0) | (penalty.bound == 0.0) | (penalty.reach > 0.0))
    total, done = 0, True
    for _ in range(design.d + 1):
        g = design.gradient(w)
        over = np.where(live & ~work, np.abs(g) / np.where(penalty.bound > 0.0, penalty.bound, 1.0), 0.0)
        new = over > 1.0 + VIOLATES
        if total and not new.any():
            break
        if np.count_nonzero(new) > 50:  # those that violate it most come first
            new &= over >= np.sort(over)[-50]
        work |= new
        E: Ints = np.flatnonzero(work)
        if E.size == 0:
            return w, 1, True
        part = _Work(design.gram_block(E, E), design.c[E], design.yy, finite.on(E), r[E], w[E])
        goes, done = part.run((most or ROUNDS) - total)
        total += goes
        w = np.zeros(design.d)
        w[E] = part.w
        if not done or total >= (most or ROUNDS):
            break
    return w, max(total, 1), done


class _OfGiven:
    """What Newton steps ask (`Form`); points are (1, d)."""

    height = 1

    def __init__(self, design: LossTask):
        self.kappa = np.array([2.0 / design.n])

    def coefs(self, P: Floats) -> Floats:
        return P

    def value(self, penalty: GivenStage, P: Floats) -> float:
        given, ridge = penalty
        return given.value(P.T) + (0.0 if ridge is None else 0.5 * float(self.kappa[0] * (ridge @ P[0] ** 2)))

    def on(self, penalty: GivenStage, features: Ints) -> GivenStage:
        given, ridge = penalty
        return given.on(features), None if ridge is None else ridge[features]

    def always(self, penalty: GivenStage) -> np.ndarray:
        given = penalty[0]
        return np.asarray(((given.bound == 0.0) | (given.reach > 0.0)) & np.isfinite(given.bound))

    def excess(self, penalty: GivenStage, G: Floats) -> Floats:
        bound = penalty[0].bound
        within = (bound > 0.0) & np.isfinite(bound)
        return np.asarray(np.divide(np.abs(G[0]), bound, out=np.zeros(len(bound)), where=within))

    def solved(
        self, problem: Problem, penalty: GivenStage, P: Floats, aim: Floats, accuracy: float
    ) -> tuple[Floats, Any]:
        design, (given, ridge) = problem.designs[0], penalty
        return minimised(design, given.times(0.5 * design.n), ridge, P[0])[0][None], None


class GivenStages:
    """The only stage of a task beside others that are held fixed: weights are a `GivenRows`, W is (1, d)."""

    def __init__(self, problem: Problem, lam: float, data: AnyData):
        self.problem, self.designs, self.grams, self.data = problem, problem.at(lam), None, data
        self.ridge = None if problem.unit_ridge is None else lam * problem.unit_ridge[0]

    def solve(self, weights: GivenRows, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        design = self.problem.designs[0]
        given = weights.times(0.5 * design.n)
        if self.problem.loss.squared:
            w, goes, finished = minimised(design, given, self.ridge, last[0], max_iter)
        else:
            newton = NewtonAround(self.problem, _OfGiven(design))
            P, goes = newton.solve((weights, self.ridge), max_iter=max_iter)
            w, finished = P[0], newton.finished
        proof = certify_given(design, w, given, self.ridge)
        listener.task_done()
        return Outcome(w[None], goes, finished, proof.gap, proof.kkt, proof.unique, proof.dependent, proof.doubt)

    def violation(self, weights: GivenRows, W: Floats) -> float:
        design = self.problem.designs[0]
        return certify_given(design, W[0], weights.times(0.5 * design.n), self.ridge).kkt
