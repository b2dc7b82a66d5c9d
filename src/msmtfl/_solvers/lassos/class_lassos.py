"""Weighted lassos of tasks whose classes have one loss, the softmax: class after class, the others held.

Given the others a class is a logistic lasso with an offset, which `LossLassos` solves. After each round all classes get the
same added to their coefficients of a feature, which the loss does not see, so that the penalty is least: a step that rounds
over classes would take for ever, being one in which none of them alone gains. Then follows a Newton step of all coefficients
in use, so that rounds end fast once these are the right ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._data.designs import Floats, Ints
from ..._objective.box import can_fall
from ..._objective.class_tasks import ClassGroup, curvature_of, groups_of
from ..._objective.escapes import escaping
from ..._objective.problem import Problem
from ..._objective.proofs.certificates import violations
from ..._runtime.threads import each
from .lasso_solver import ESCAPES, OVERRUN, Solve, one_by_one
from .proximal_newton import LossLassos

ROUNDS = 500  # over the classes; it takes about five
GOAL = 1e-13  # violation of optimality, as a correlation, at which rounds end
NEAR = 1e-11  # the same, at which they may, if rounding leaves no more to gain
TOGETHER = 600  # coefficients in use, up to which they take a step together
FLAT = 1e-12  # a curvature, as a share of the largest, below which there is none
OFF = 1e-6  # a slope along a direction without curvature, as a share of all of it, from which on it is followed
GAIN = 1e-10  # of an objective: with less a round has made no progress
NOISE = 1e-14  # of an objective: what rounding may hide
CERTAIN = 40.0  # log-odds from which it is asked whether there is a minimiser
IDLE = 10  # rounds without progress that are made before rounding is blamed


class ClassLassos:
    """What `LossLassos` is where the classes of a task have one loss (a `LassoSolver`). They are left held at the last
    solution."""

    grams = None

    def __init__(self, problem: Problem, n_jobs: int | None = None, search: bool = False):
        self.problem, self.search, self.designs = problem, search, problem.designs
        self.m, self.d, self.units = problem.m, problem.d, problem.units
        self.positive, self.n_jobs = problem.positive, n_jobs
        self.groups, self.ridge, self.lam = groups_of(problem.designs), problem.unit_ridge, 0.0
        self.K = self.groups[0].K
        self.status, self.last = np.zeros(self.m, np.intc), np.zeros((self.m, self.d))
        self.escaped: dict[int, Ints] = {}  # at the last weights: classes without a minimiser, by which features
        self.classes = [self._class(i) for i in range(self.m)]

    def _class(self, i: int) -> LossLassos:
        ridge = None if self.ridge is None else self.ridge[[i]]
        return LossLassos([self.designs[i]], positive=self.positive, units=self.units[[i]], ridge=ridge)

    def at(self, lam: float) -> None:
        """Have the ridge of this lam, if there is one, from the next solve on."""
        self.lam = lam
        for one in self.classes:
            one.at(lam)

    def limit(self, i: int) -> bool:
        """How the coefficients of a task's class are bounded."""
        return self.positive

    def states(self) -> list[object]:
        """Empty: the kernel cannot solve these by itself."""
        return []

    def warm(self, W: Floats) -> None:
        """Start the next solve from W (m, d) instead of from the last solution."""
        self.last = np.array(W)

    def forget(self) -> None:
        """Start the next solve from 0."""
        self.last = np.zeros((self.m, self.d))

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
        lassos: object = self
        return one_by_one(lassos, lams, weights, max_iter, tick)  # type: ignore[arg-type]

    def solve(self, A: Floats, reference: Floats | None = None, max_iter: int = 0) -> tuple[Floats, np.ndarray]:
        """W (m, d) for weights A (m, d), and rounds (m,). Where a task's minimiser is not unique, W is near one of
        those that are nearest `reference` (m, d), by default nearest 0."""
        W, (status, rounds) = np.zeros((self.m, self.d)), np.zeros((2, self.m), np.intc)
        aim = np.zeros((self.m, self.d)) if reference is None else np.ascontiguousarray(reference, dtype=np.float64)
        self.solve_into(np.ascontiguousarray(A, dtype=np.float64), aim, W, status, rounds, max_iter)
        return W, rounds

    def solve_into(
        self, A: Floats, aim: Floats, W: Floats, status: np.ndarray, rounds: np.ndarray, max_iter: int = 0
    ) -> None:
        """The same, W, status and rounds (m,) being written to arrays at hand."""
        gone = self.problem.without_minimiser(A) if self.search and self.problem.may_escape else np.zeros(self.m, bool)
        if gone.any():
            W[:], rounds[:], status[:] = aim, 1, np.where(gone, OVERRUN | ESCAPES, 0)
        else:
            self.escaped = {}

            def one(g: int) -> None:
                some = slice(g * self.K, (g + 1) * self.K)
                W[some], rounds[some], status[some] = self._solve(g, A[some], aim[some], max_iter or ROUNDS)

            each(one, range(len(self.groups)), self.n_jobs)
            self.last = np.array(W)
        self.status = np.array(status)

    @np.errstate(over="ignore", invalid="ignore")  # where there is no minimiser
    def _solve(self, g: int, A: Floats, aim: Floats, most: int) -> tuple[Floats, int, int]:
        """A task's coefficients (K, d), rounds, and status."""
        group, first = self.groups[g], g * self.K
        ridge = np.zeros_like(A) if self.ridge is None else self.lam * self.ridge[first : first + self.K]
        W = np.where(np.isfinite(A), self.last[first : first + self.K], 0.0)
        W = level_classes(np.maximum(W, 0.0) if self.positive else W, A, ridge, self.positive)
        group.hold(W)
        best, idle, value = (np.inf, W), 0, np.inf
        for turn in range(most + 1):
            off = self._violation(group, W, A, ridge)
            before, value = value, group.value(W, A, ridge)
            idle = 0 if off < 0.5 * best[0] or value < before - GAIN * abs(before) else idle + 1
            best = min(best, (off, W), key=lambda one: one[0])
            if off <= GOAL or idle > IDLE or turn == most:
                break
            start = W
            W = self._round(group, first, W, A, aim)
            W = level_classes(W, A, ridge, self.positive)
            group.hold(W)
            W = level_classes(self._together(group, W, A, ridge), A, ridge, self.positive)
            group.hold(W)
            if self._escapes(group, first, W, A, ridge):
                W = start if not group.value(W, A, ridge) <= value else W
                group.hold(W)
                return W, turn + 1, OVERRUN | ESCAPES
        group.hold(best[1])
        return best[1], turn + 1, 0 if best[0] <= NEAR or turn < most else OVERRUN

    def _escapes(self, group: ClassGroup, first: int, W: Floats, A: Floats, ridge: Floats) -> bool:
        """Whether there is no minimiser, as free features tell a class from the others; which ones is noted. That is
        asked once probabilities are as good as certain; rounds would make them ever more so."""
        spread = np.ptp(group.F, axis=1)
        if np.isfinite(spread).all() and spread.max() <= CERTAIN:
            return False
        free = (A == 0.0) & (ridge == 0.0)
        for k, part in enumerate(group.parts):
            away = escaping(part, W[k], free[k] & (part.squares > 0.0) & can_fall(self.positive, W[k]), self.positive)
            if away.size:
                self.escaped[first + k] = away
        return any(first + k in self.escaped for k in range(self.K))

    def _round(self, group: ClassGroup, first: int, W: Floats, A: Floats, aim: Floats) -> Floats:
        """One class after the other at its best given the others."""
        out = W.copy()
        for k, part in enumerate(group.parts):
            group.tell(k)
            lassos = self.classes[first + k]
            lassos.warm(out[[k]])
            out[k] = lassos.solve(A[[k]], reference=aim[[k]])[0][0]
            group.moved(k, out[k], part.level(out[k]))
        return out

    def _together(self, group: ClassGroup, W: Floats, A: Floats, ridge: Floats) -> Floats:
        """A Newton step of all coefficients that are in use, or one along which the loss is flat, up to where the first of
        them is 0; W where it gains nothing. The group is held at the result."""
        used = [np.flatnonzero(w) for w in W]
        if not 0 < sum(len(one) for one in used) <= TOGETHER:
            return W
        blocks = [part.block(one, group.centre) for part, one in zip(group.parts, used, strict=True)]
        P, none = group.probabilities(), np.zeros(int(group.centre))

        def all_of(X: Floats) -> Floats:
            return np.concatenate([np.append(x[one], none) for x, one in zip(X, used, strict=True)])

        slopes = [one.T @ (group.v * (p - y)) for one, p, y in zip(blocks, P.T, group.Y.T, strict=True)]
        z, a, r = all_of(W), all_of(A), all_of(ridge)
        H = curvature_of(group, P, blocks)
        H.flat[:: len(H) + 1] += r
        unit = np.sqrt(np.maximum(H.diagonal(), np.finfo(float).tiny))
        values, vectors = np.linalg.eigh(H / np.outer(unit, unit))
        kept = values > FLAT * values.max()
        g = (np.concatenate(slopes) + a * np.sign(z) + r * z) / unit
        inside = vectors[:, kept].T @ g
        steps = [-(vectors[:, kept] @ (inside / values[kept])) / unit]
        flat = g - vectors[:, kept] @ inside  # along this the loss does not change, but the penalty falls
        if np.abs(flat).max() > OFF * np.abs(g).max():
            steps.append(-flat / unit)
        best = group.value(W, A, ridge), W
        best = best[0] + NOISE * abs(best[0]), W
        for step, far in zip(steps, (1.0, np.inf), strict=False):
            to = until_zero(z, step, a, far)
            out, begin = np.zeros_like(W), 0
            for k, one in enumerate(used):
                out[k, one] = to[begin : begin + len(one)]
                begin += len(one) + len(none)
            out = np.maximum(out, 0.0) if self.positive else out
            group.hold(out)
            best = min(best, (group.value(out, A, ridge), out), key=lambda found: found[0])
        group.hold(best[1])
        return best[1]

    def _violation(self, group: ClassGroup, W: Floats, A: Floats, ridge: Floats) -> float:
        return max(
            float(violations(part, w[None], a[None], (part.gradient(w) - r * w)[None], self.positive)[0])
            for part, w, a, r in zip(group.parts, W, A, ridge, strict=True)
        )


def until_zero(z: Floats, step: Floats, a: Floats, far: float) -> Floats:
    """z plus the step (`far` times: 1, or inf), or to where the first of those with a weight is 0, if that is before."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.where((a > 0.0) & (z * step < 0.0), -z / step, np.inf)
    t = min(far, float(ends.min(initial=np.inf)))
    return np.where(ends <= t, 0.0, z + (t if np.isfinite(t) else 1.0) * step)


def level_classes(W: Floats, A: Floats, ridge: Floats, positive: bool) -> Floats:
    """W (K, d), less what all classes have in common in a feature, as far as the penalty sum_k a_k |w_k| + r_k w_k^2 / 2
    gets smaller; where it does not matter, as near to the sum 0 as may be."""
    some = np.flatnonzero(W.any(axis=0) & np.isfinite(A).all(axis=0))
    if not some.size:
        return W
    order = np.argsort(W[:, some], axis=0)
    w = np.take_along_axis(W[:, some], order, axis=0)
    a, r = np.take_along_axis(A[:, some], order, axis=0), np.take_along_axis(ridge[:, some], order, axis=0)
    stiff, pull = r.sum(axis=0), (r * w).sum(axis=0)
    below = np.concatenate([np.zeros((1, len(some))), np.cumsum(a, axis=0)])
    slope = 2.0 * below - below[-1]  # of sum a |w - c| with c between two of the sorted values
    slope[np.abs(slope) <= 1e-12 * below[-1]] = 0.0
    ends = np.concatenate([np.full((1, len(some)), -np.inf), w, np.full((1, len(some)), np.inf)])
    out, found = np.zeros(len(some)), np.zeros(len(some), dtype=bool)
    for t in range(len(w) + 1):
        low, high = ends[t], ends[t + 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            best = (pull - slope[t]) / stiff
        flat = (stiff == 0.0) & (slope[t] == 0.0)
        best = np.where(stiff > 0.0, best, np.where(flat, w.mean(axis=0), np.where(slope[t] < 0.0, np.inf, -np.inf)))
        here = ~found & (best <= high)
        out[here] = np.maximum(best, low)[here]
        found |= here
    if positive:
        out = np.minimum(out, w[0])
    moved = W.copy()
    moved[:, some] = W[:, some] - out
    return moved
