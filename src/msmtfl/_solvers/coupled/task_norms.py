"""A norm of every task's deviations under squared loss: ARMUL and rMTFL, exactly.

    min  sum_i kappa_i/2 |y_i - X_i (c_i + v_i)|^2  +  sum_i a_i |f_i v_i|_2  +  R(c),     c_i = b (ARMUL) or p_i (rMTFL)

Given c_i, a task's deviations are the solution of one equation in one unknown. In the directions of `pooling.py`, where the
Gram matrix is diagonal (s) and f v has coordinates z, with q = e - s L c_i:

    z = 0  where kappa |q| <= a,    else  z = q / (s + tau),  tau |q / (s + tau)| = a / kappa

What is left is a convex function of c_i with a continuous slope, -kappa L'(q - s z): the square near where the task's own
least squares are, and next to linear far away from it, as Huber's loss is. Its curvature is known, so that Newton steps with
a line search minimise the rest: for ARMUL a system in b, for rMTFL the group lasso over tasks with parabolas for losses,
which `coupled_rows.py` solves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from ..._data.designs import Floats, Ints
from ..._objective.coupled.groups import BlockNorm
from ..._objective.coupled.row_norms import GroupNorm
from ..._objective.coupled.task_norms import CentreNorms, RowNorms, TaskNorms
from ..._objective.problem import Problem
from ..lassos.group_lasso import group_lasso
from ..stages import SETTLED
from .pooling import DEPENDENT, Pooling
from .rows.coupled_rows import CoupledRows

STEPS = 200  # Newton steps; it takes less than ten from a neighbour on a path
ROOTS = 100  # steps for tau; it takes less than ten
DONE = 1e-15  # of the loss at W = 0: what a step that is the last one promises to gain
FLAT = 1e-14  # of the mean curvature: what keeps a system solvable along directions that no data determine
# Where tasks that deviate are next to linear, the curvature says nothing of how far a step may go. So much of what the
# curvature is at most is added to it: more after steps that turn out to go too far, less after others.
CAUTION, LEAST = 1e-3, 1e-12
VIOLATES = 1e-10  # excess of a row's gradient over its bound, relatively, from which it joins
NEAR, ROUGH = 1e-6, 1e-6  # gain, over the loss at 0, from which on parabolas are minimised exactly; how exactly before
GOES = 2000  # goes over the rows that a group lasso gets: the next step goes on where it ends


@dataclass(frozen=True, eq=False)
class _Envelope:
    """The tasks at c, deviations at their best: z, kappa (q - s z) and the curvature, as diag(bend) - drop drop' (all
    (m, r)), and the value (m,) with the norm in it."""

    z: Floats
    slope: Floats
    bend: Floats
    drop: Floats
    value: Floats


class TaskNormSolver:
    """The problem at any strengths; each solve starts where the last one ended.

    Attributes
    ----------
    finished : whether the last solve came to its end
    steps : how many Newton steps it took
    """

    def __init__(self, problem: Problem, pooling: Pooling | None = None):
        self.problem = problem
        self.pooling = Pooling(problem) if pooling is None else pooling
        self.tasks, self.penalised, self.free = self.pooling.tasks, self.pooling.penalised, self.pooling.free
        self.m, self.d = problem.m, len(self.penalised)
        self.finished, self.steps = True, 0
        self.last = np.zeros((self.m, self.d))  # c, for the next solve
        ranks = np.array([len(task.s) for task in self.tasks])
        self.inside = np.arange(int(ranks.max(initial=0))) < ranks[:, None]  # (m, r): the rest is filled up
        self.s = self._filled([task.s for task in self.tasks], 1.0)
        self.e = self._filled([task.e for task in self.tasks], 0.0)
        self.rest = np.array([task.rest for task in self.tasks])

    def _filled(self, parts: list[Floats], value: float) -> Floats:
        out = np.full(self.inside.shape, value)
        out[self.inside] = np.concatenate(parts)
        return out

    def _in_directions(self, C: Floats) -> Floats:
        """(m, r): L_i c_i for C (m, d)."""
        return self._filled([task.L @ c for task, c in zip(self.tasks, C, strict=True)], 0.0)

    def _of_directions(self, Y: Floats) -> Floats:
        """(m, d): L_i'y_i for Y (m, r)."""
        pairs = zip(self.tasks, Y, strict=True)
        return np.array([y[: len(task.s)] @ task.L for task, y in pairs]).reshape(self.m, self.d)

    # ------------------------------------------------------------------ deviations at their best

    def _envelope(self, beta: Floats, kappa: Floats, a: Floats) -> _Envelope:
        """At beta = L c (m, r)."""
        s, k = self.s, kappa[:, None]
        q = self.e - s * beta
        size = np.sqrt((q**2).sum(axis=1))
        away = kappa * size > a
        tau = np.full(self.m, np.inf)
        tau[away] = _roots(q[away], s[away], (a / kappa)[away], self.inside[away])
        t = tau[:, None]
        z = q / (s + t)
        over = np.where(away[:, None], s / (s + t), 0.0)  # how far deviations follow
        left = q - s * z
        nu = np.sqrt((z**2).sum(axis=1))
        u = np.divide(z, nu[:, None], out=np.zeros_like(z), where=nu[:, None] > 0.0)
        p = over * u
        up = np.maximum((u * p).sum(axis=1), np.finfo(float).tiny)
        drop = np.where(away[:, None], p * np.sqrt(k * np.where(away, tau, 0.0)[:, None] / up[:, None]), 0.0)
        bend = k * s * (1.0 - over)
        loss = 0.5 * kappa * (self.rest + (left**2 / s).sum(axis=1))
        norms = np.multiply(a, nu, out=np.zeros_like(nu), where=nu > 0.0)
        return _Envelope(z, k * left, np.where(self.inside, bend, 0.0), drop, loss + norms)

    @cached_property
    def _unit(self) -> Floats:
        """(m,): |y|^2 of the tasks, less what features that are not penalised explain"""
        return np.asarray(self.rest + (self.e**2 / self.s).sum(axis=1))

    # ------------------------------------------------------------------ the whole

    def warm(self, P: Floats) -> None:
        """Start the next solve from P (height, d) instead of from the last solution."""
        self.last = np.broadcast_to(P[: -self.m][:, self.penalised], (self.m, self.d)).copy()

    def solve(self, penalty: TaskNorms, max_iter: int = 0) -> tuple[Floats, int]:
        """The point (height, d), and Newton steps."""
        kappa, a, most = penalty.kappa, penalty.bounds, max_iter or STEPS
        self.finished, self.steps = True, 1
        if np.isinf(penalty.lam_common) or self.s.size == 0:
            C = np.zeros((self.m, self.d))
        elif isinstance(penalty, CentreNorms):
            C = np.broadcast_to(self._centre(penalty, kappa, a, most), (self.m, self.d))
        else:
            C = self._rows(penalty, kappa, a, most)
        z = self._envelope(self._in_directions(C), kappa, a).z
        self.last = C
        out = np.zeros((penalty.height, self.problem.d))
        common, V = out[: -self.m], out[-self.m :]
        common[:, self.penalised] = C[: len(common)]
        for i, task in enumerate(self.tasks):
            V[i, self.penalised] = task.T @ z[i, : len(task.s)]
            W = C[i] + V[i, self.penalised]
            V[i, self.free] = task.lift[:, -1] - task.lift[:, :-1] @ W
        return out, self.steps

    # ------------------------------------------------------------------ a centre

    @cached_property
    def _basis(self) -> Floats | None:
        """(d, k): an orthonormal basis of the g b that data tell from 0; None where it is all of them."""
        pooling = self.pooling
        if pooling.in_directions:
            size = np.sqrt((pooling.scaled**2).sum(axis=1, keepdims=True))
            U, values, _ = np.linalg.svd((pooling.scaled / np.where(size > 0.0, size, 1.0)).T, full_matrices=False)
            return np.asarray(U[:, values**2 > DEPENDENT * float(values.max(initial=0.0)) ** 2])
        if pooling._null is None:
            return None
        N = pooling._null
        return np.asarray(np.linalg.qr(N, mode="complete")[0][:, N.shape[1] :])

    @cached_property
    def _to_centre(self) -> list[Floats]:
        """(r, k) of each task: L_i times what g b is in the basis."""
        found = [task.L / self.pooling.g for task in self.tasks]
        return found if self._basis is None else [L @ self._basis for L in found]

    @cached_property
    def _stacked(self) -> Floats:
        """(directions of all tasks, k): the same below each other."""
        return np.concatenate(self._to_centre)

    def _centre(self, penalty: CentreNorms, kappa: Floats, a: Floats, most: int) -> Floats:
        """(d,): b."""
        maps, ridge = self._to_centre, 2.0 * penalty.lam_common / float(penalty.n.sum())
        g, basis = self.pooling.g, self._basis
        x = g * self.last.mean(axis=0)
        x = x if basis is None else basis.T @ x
        unit = 0.5 * float(kappa @ self._unit)

        def at(x: Floats) -> tuple[_Envelope, float]:
            found = self._envelope(self._filled([M @ x for M in maps], 0.0), kappa, a)
            return found, float(found.value.sum()) + 0.5 * ridge * float(x @ x)

        now, value = at(x)
        start, other = at(np.zeros_like(x))
        if other < value:
            x, now, value = np.zeros_like(x), start, other
        self.finished, caution = False, LEAST
        for step in range(most):
            slope = sum(y[: len(M)] @ M for M, y in zip(maps, now.slope, strict=True)) - ridge * x
            x_step, gain = self._towards(now, slope, ridge, kappa, caution)
            self.steps = step + 1
            x, now, new, part = _searched(at, x, x_step, value, gain, unit)
            self.finished = gain <= DONE * unit or (part == 0.0 and caution >= 1.0)
            value, caution = new, _more_or_less(caution, part)
            if self.finished:
                break
        x = x if basis is None else basis @ x
        return np.asarray(x / g)

    def _towards(
        self, now: _Envelope, slope: Floats, ridge: float, kappa: Floats, caution: float
    ) -> tuple[Floats, float]:
        """The Newton step, and what it promises to gain."""
        bend = (now.bend + caution * kappa[:, None] * self.s)[self.inside]
        H = dsyrk(1.0, (self._stacked * np.sqrt(bend)[:, None]).T)
        drops = np.array([drop[: len(M)] @ M for M, drop in zip(self._to_centre, now.drop, strict=True) if drop.any()])
        if drops.size:
            H = H - dsyrk(1.0, drops.T)
        H = np.triu(H) + np.triu(H, 1).T
        H.flat[:: len(H) + 1] += ridge
        size = np.sqrt(np.maximum(np.diagonal(H), FLAT * float(np.trace(H)) / max(len(H), 1)))
        size = np.where(size > 0.0, size, 1.0)
        H, h = H / np.outer(size, size), slope / size
        factor, failed = dpotrf(H + FLAT * np.eye(len(H)), lower=1)
        if failed == 0:
            step = dpotrs(factor, h, lower=1)[0]
            return step / size, 0.5 * float(h @ step)
        values, U = np.linalg.eigh(H)
        values = np.maximum(values, FLAT * float(values.max(initial=0.0)))
        h = U.T @ h
        part = np.divide(h, values, out=np.zeros_like(h), where=values > 0.0)
        return (U @ part) / size, 0.5 * float(h @ part)

    # ------------------------------------------------------------------ norms of rows

    def _rows(self, penalty: RowNorms, kappa: Floats, a: Floats, most: int) -> Floats:
        """(m, d): P."""
        norm = penalty.norm.of_rows(self.penalised)
        unit = 0.5 * float(kappa @ self._unit)

        def at(C: Floats) -> tuple[_Envelope, float]:
            found = self._envelope(self._in_directions(C), kappa, a)
            return found, float(found.value.sum()) + norm.value(C.T)

        C = self.last.copy()
        now, value = at(C)
        start, other = at(np.zeros_like(C))
        if other < value:
            C, now, value = np.zeros_like(C), start, other
        self.finished, caution, exact = False, LEAST, False
        for step in range(most):
            G = self._of_directions(now.slope)
            sizes, used = norm.dual(G.T), C.any(axis=0)
            wanted = used | norm.spread(sizes > 1.0 + VIOLATES)[:, 0]
            work = np.flatnonzero(norm.groups.closed(wanted) if isinstance(norm, BlockNorm) else wanted)
            self.steps = step + 1
            if work.size == 0:
                self.finished = True
                break
            more = caution * kappa
            direction, gain = self._group_lasso(now, C, G, work, norm, unit, more, SETTLED if exact else ROUGH)
            C, now, new, part = _searched(at, C, direction, value, gain, unit)
            self.finished = exact and (gain <= DONE * unit or (part == 0.0 and caution >= 1.0))
            value, caution, exact = new, _more_or_less(caution, part), gain <= NEAR * unit or part == 0.0
            if self.finished:
                break
        return C

    def _group_lasso(
        self,
        now: _Envelope,
        C: Floats,
        G: Floats,
        work: Ints,
        norm: GroupNorm | BlockNorm,
        unit: float,
        more: Floats,
        accuracy: float,
    ) -> tuple[Floats, float]:
        """The way (m, d) to the minimiser with parabolas for losses, and what it promises to gain."""
        parabolas: list[Any] = []
        for i, task in enumerate(self.tasks):
            M = task.L[:, work]
            r = len(M)
            H = (M * (now.bend[i, :r] + more[i] * task.s)[:, None]).T @ M
            of_drop = now.drop[i, :r] @ M
            H -= np.outer(of_drop, of_drop)
            parabolas.append(_Parabola(H, G[i, work] + H @ C[i, work], 2.0 / self.m, 2.0 * unit / self.m))
        part = norm.of_rows(work)
        if isinstance(part, BlockNorm):
            H, c = np.array([one.H for one in parabolas]), np.array([one.c for one in parabolas])
            found = group_lasso(H, c, np.ascontiguousarray(part.factors.T), part.groups.of, C[:, work])
        else:
            rows = CoupledRows(parabolas, part.factors)
            rows.warm(C[:, work])
            found, _ = rows.solve(part, GOES, accuracy)
        direction = np.zeros_like(C)
        direction[:, work] = found - C[:, work]
        D = direction[:, work]
        bend = sum(float(D[i] @ one.H @ D[i]) for i, one in enumerate(parabolas))
        gain = float((G[:, work] * D).sum()) - 0.5 * bend - part.value(found.T) + part.value(C[:, work].T)
        return direction, max(gain, 0.0)


class _Parabola:
    """A task whose loss is half of w'Hw - 2 c'w + yy, as a `Design`; n is such that it counts as it is."""

    target = None

    def __init__(self, H: Floats, c: Floats, n: float, yy: float):
        self.H, self.c, self.n, self.yy = H, c, n, yy
        self.d = self.order = len(c)
        self.squares = np.maximum(np.diagonal(H), 0.0).copy()
        self.same_x, self.curvature = self, 1.0

    def gram(self, room: Floats | None = None, n_jobs: int | None = None) -> Floats:
        return self.H

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        if out is None:
            return self.H[features]
        out[:] = self.H[features]
        return out

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        return self.H[np.ix_(some, others)]


def _searched(
    at: Any, x: Floats, step: Floats, value: float, gain: float, unit: float
) -> tuple[Floats, _Envelope, float, float]:
    """As far along the step as the objective falls enough: where that is, what is known there, and which part of the step
    it is. One that gains so little that rounding hides it is taken as it is, if it does no harm."""
    noise, part = 1e-15 * (abs(value) + unit), 1.0
    for _ in range(40):
        found, new = at(x + part * step)
        if new <= value - 0.1 * part * gain or (gain <= 1e-12 * unit and new <= value + noise):
            return x + part * step, found, new, part
        part *= 0.5
    found, value = at(x)
    return x, found, value, 0.0


def _more_or_less(caution: float, part: float) -> float:
    """The caution of the next step, so much of this one being taken."""
    if part == 1.0:
        return max(0.01 * caution, LEAST)
    return caution if part == 0.5 else min(max(10.0 * caution, CAUTION), 1.0)


def _roots(q: Floats, s: Floats, c: Floats, inside: np.ndarray) -> Floats:
    """(k,): the tau with tau |q / (s + tau)| = c, where |q| > c.

    1 / |q / (s + tau)| is concave in tau, so that tau / c less that is convex: Newton steps from above the root fall to it.
    """
    if len(q) == 0:
        return np.zeros(0)
    size = np.sqrt((q**2).sum(axis=1))
    if not c.any():
        return np.zeros(len(q))  # deviations that cost nothing
    top = np.where(inside, s, 0.0).max(axis=1, initial=0.0)
    tau = c * top / np.maximum(size - c, 1e-16 * size)
    for _ in range(ROOTS):
        ratio = q / (s + tau[:, None])
        square = (ratio**2).sum(axis=1)
        g = np.sqrt(square)
        slope = 1.0 / c - (ratio**2 / (s + tau[:, None])).sum(axis=1) / (square * g)
        change = np.divide(tau / c - 1.0 / g, slope, out=np.zeros_like(tau), where=slope > 0.0)
        new = np.where(change > 0.0, tau - change, tau)
        new = np.where(new > 0.0, new, 0.5 * tau)
        done = np.abs(new - tau) <= 1e-15 * tau
        tau = new
        if done.all():
            break
    return np.asarray(tau)
