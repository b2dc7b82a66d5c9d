"""Norms of groups of features within tasks, under squared loss: of coefficients (Dirty), or of a common part and deviations.

    min_P  sum_i kappa_i/2 |y_i - X_i w_i|^2 + sum_g N((A P)_g) + ridge,      w_i = p_i,  or  p_0 + p_i

Points P are (height, d). N is a norm of the lengths of a group in every part: their sum, or Dirty's. What is known of it is
the projection on the ball of its dual norm (`Ball`). By a method of multipliers: with multipliers y and springs of stiffness
s the norm has in its place  max over the ball of  p'(y + s A P) / s - |p|^2 / (2 s),  a smooth function whose gradient is
that projection. Newton steps find the minimiser: a matrix for every task, and what couples the tasks, which is a matrix for
the common part, or a number for every group. Then the projection is the next y: what is left falls a hundredfold each time.
Groups that are not in use are exactly 0 in the end, as the projection does not reach the end of the ball. Bounds on the w_i
have springs and multipliers of their own, in the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from ..._data.designs import Floats, Ints
from ..._data.forms.ridged import apart
from ..._objective.box import Box, outwards
from ..._objective.coupled.groups import Groups
from ..._objective.problem import Problem
from ..lassos.bounded import bends
from ..lassos.working_set import WorkingSet
from .around_bounds import put
from .block_newton import at_once

STIFF = 30.0  # of springs, over the mean curvature of the loss in the units of the norm
GOAL = 1e-14  # what multipliers and coefficients still move by, as a correlation, at which they are right
CLOSE = 1e-11  # the same from which on rounding may be what is left
SLOW, FIRMER, FIRMEST = 0.3, 10.0, 1e5  # what is left over what was, from which springs become stiffer; by what; limit
ROUNDS = 200  # times that multipliers are found anew; it takes about ten
PATIENCE = 4  # of these without progress, before rounding is blamed
NEAR, TRIES = 3e-2, 6  # what is left, at which Newton steps in all are tried again; how often
ROUGH = 1e-3  # what is left of slopes for the same multipliers, while they are
STEPS = 60  # Newton steps for the same multipliers
MOST = 3000  # Newton steps in all; it takes some fifty, with bounds that most coefficients reach a thousand
HALVINGS = 40
ENOUGH = 1e-4  # of the fall that a Newton step promises
NULL = 1e-6  # of the diagonal: what is added so that no matrix is singular
NULL_COMMON = 1e-11  # the same with a common part: with more it does not arrive where little is penalised
OVER = 1e-12  # a gradient beyond its bound, relatively, from which a group is taken into work
AT_LEAST = 16  # groups taken into work together
GOES = 100  # of taking groups into work


@dataclass(frozen=True)
class Ball:
    """The dual ball of a norm of a group's lengths l_i in the parts of a point: |p_i| <= 1, and sum_i |p_i| <= together. The
    norm is their sum where that is not less than the number of parts."""

    together: float = np.inf

    def projected(self, sizes: Floats) -> tuple[Floats, np.ndarray]:
        """Lengths (groups, parts) of the projections of groups of these lengths; and (groups, parts) bool: those that give
        way to each other, as their sum is bounded."""
        out = np.minimum(sizes, 1.0)
        tied = np.zeros(sizes.shape, dtype=bool)
        for g in np.flatnonzero(out.sum(axis=1) > self.together).tolist():
            less = _level(sizes[g], self.together)
            out[g] = np.clip(sizes[g] - less, 0.0, 1.0)
            tied[g] = (out[g] > 0.0) & (out[g] < 1.0)
        return out, tied


def _level(sizes: Floats, total: float) -> float:
    """The x at which  sum_i min(max(sizes_i - x, 0), 1)  is a total."""
    ends = np.unique(np.concatenate([[0.0], sizes, sizes - 1.0]))
    ends = ends[ends >= 0.0]
    sums = np.clip(sizes[None, :] - ends[:, None], 0.0, 1.0).sum(axis=1)
    k = int(np.argmax(sums <= total))  # the first of them is more, and the last is 0
    low, high = ends[k - 1], ends[k]
    return float(low + (high - low) * (sums[k - 1] - total) / (sums[k - 1] - sums[k]))


@dataclass
class SolvedBlocks:
    """What is known of a solve. (Minimisers are determined, but for what nothing penalises.)"""

    steps: int
    finished: bool
    forces: Floats | None = None  # (m, d): multipliers of bounds, if there are any, in a task's own sums
    slid: bool = False

    def determined(self, norm: Any) -> bool:
        return not norm.free().any()


class Works:
    """What is kept of the Gram matrices of a problem's tasks."""

    def __init__(self, problem: Problem):
        self.designs, self.known = problem.designs, [WorkingSet(apart(design)[0]) for design in problem.designs]

    def of(self, problem: Problem) -> list[WorkingSet]:
        """Those of another problem, which are new ones unless its tasks are the same."""
        pairs = zip(problem.designs, self.designs, self.known, strict=True)
        return [known if one is other else WorkingSet(apart(one)[0]) for one, other, known in pairs]


class BlockNorms:
    """One solve.

    Parameters
    ----------
    designs : of every task, with ridges and springs
    works : what is kept of the Gram matrix of each, without ridges
    kappa : (m,) how losses count
    A : (height, d) weights; 0 leaves an entry un-penalised, inf excludes it
    groups : which features belong together
    ball : how the norm adds up the lengths of a group; that of a common part is by itself
    ridge : (height, d) second derivatives of a ridge on points, if there is one
    box : bounds (m, d) of coefficients, if there are any
    """

    def __init__(
        self,
        designs: Sequence[Any],
        works: Sequence[Any],
        kappa: Floats,
        A: Floats,
        groups: Groups,
        ball: Ball,
        ridge: Floats | None = None,
        box: Box | None = None,
    ):
        self.designs, self.works, self.kappa, self.groups, self.ball = designs, works, kappa, groups, ball
        self.m, self.common = len(designs), len(A) > len(designs)
        squares = kappa[:, None] * np.array([design.squares for design in designs])
        if self.common:
            squares = np.concatenate([squares.sum(axis=0)[None], squares])
        self.ridge = np.zeros(A.shape) if ridge is None else np.where(squares > 0.0, ridge, 0.0)
        squares = squares + self.ridge
        self.usable = (squares > 0.0) & np.isfinite(A)
        self.A, self.free = np.where(self.usable, A, 0.0), self.usable & (A == 0.0)
        unit = float(np.sqrt(max(sum(k * design.yy for k, design in zip(kappa, designs, strict=True)), 1e-300)))
        self.length = np.sqrt(squares) * unit  # of a gradient that is 1 as a correlation
        self.root = np.sqrt(squares) / unit  # the same of a coefficient
        self.squares = squares
        self.finished, self.box = True, box
        self.inside = np.zeros(A.shape[1], dtype=bool)  # features in work, whose bounds have multipliers
        self.forces = None if box is None else np.zeros((self.m, A.shape[1]))
        self.stiff = STIFF * kappa[:, None] * np.array([design.squares for design in designs])  # of springs at bounds

    def coefs(self, P: Floats) -> Floats:
        return np.asarray(P[0] + P[1:] if self.common else P)

    def gradient(self, P: Floats) -> Floats:
        """(height, d): minus that of the loss."""
        pairs = zip(self.kappa, self.designs, self.coefs(P), strict=True)
        G = np.array([k * design.gradient(w) for k, design, w in pairs])
        if self.box is not None and self.forces is not None:  # what is pressed to 0 needs no norm
            G += np.where(self.inside, self.kappa[:, None] * self.forces, -outwards(self.box, G))
        return np.asarray((np.concatenate([G.sum(axis=0)[None], G]) if self.common else G) - self.ridge * P)

    # ------------------------------------------------------------------ the groups in work

    def run(self, start: Floats, most: int = 0, pressed: Floats | None = None) -> tuple[Floats, int]:
        """The minimiser (height, d), from about `start`, and Newton steps; `pressed` are about the multipliers of bounds."""
        P = np.where(self.usable & np.isfinite(start), start, 0.0)
        work = self._of_groups((P != 0.0) | self.free)
        if self.forces is not None and pressed is not None and pressed.shape == self.forces.shape:
            self.forces = pressed.copy()
        total, self.finished = 0, False
        for _ in range(GOES):
            G = self.gradient(P)
            new = self._wanted(G, work)
            if total and not new.any():
                self.finished = True
                break
            work |= new
            if not work.any():
                self.finished = True
                break
            self.inside = work[self.groups.of]
            B = np.flatnonzero(self.inside)
            inner = _Work(self, B, P)
            P = np.zeros_like(P)
            P[:, B], steps, ended = inner.solved(most - total if most else 0)
            if self.forces is not None:
                self.forces[:] = 0.0
                self.forces[:, B] = -inner.U / self.kappa[:, None]
            total += steps
            if not ended:
                break
        return self._within(P), max(total, 1)

    def _within(self, P: Floats) -> Floats:
        """The point with coefficients that are pressed exactly at their bounds, and none beyond. What is 0, and not in work,
        is pressed by all that its gradient has outwards."""
        if self.box is None or self.forces is None:
            return P
        W, low, high = self.coefs(P), self.box.low, self.box.high
        wanted = np.where(self.forces > 0.0, low, np.where(self.forces < 0.0, high, W))
        P = put(P, np.clip(wanted, low, high), self.box)
        W = self.coefs(P)
        G = np.array([design.gradient(w) for design, w in zip(self.designs, W, strict=True)])
        self.forces -= np.where(self.inside, 0.0, outwards(self.box, G))
        return P

    def _of_groups(self, entries: np.ndarray) -> np.ndarray:
        out = np.zeros(self.groups.count, dtype=bool)
        out[self.groups.of[entries.any(axis=0)]] = True
        return out

    def _wanted(self, G: Floats, work: np.ndarray) -> np.ndarray:
        """(groups,) bool: those not in work whose gradients leave the ball most."""
        over = np.divide(G, self.A, out=np.zeros_like(G), where=self.A > 0.0)
        sizes = self.groups.lengths(over.T)
        excess = sizes.max(axis=1, initial=0.0)
        if not self.common and np.isfinite(self.ball.together):
            together = max(self.ball.together, np.finfo(float).tiny)
            excess = np.maximum(excess, np.minimum(sizes, 1e300).sum(axis=1) / together)
        out = np.asarray((excess > 1.0 + OVER) & ~work)
        most = max(AT_LEAST, int(np.count_nonzero(work)))
        if np.count_nonzero(out) > most:
            out &= excess >= np.partition(excess[out], -most)[-most]
        return out


class _Work:
    """The problem on some of the features, as products of their columns."""

    def __init__(self, whole: BlockNorms, B: Ints, P: Floats):
        self.of, self.common, self.m = whole.groups.on(B).of, whole.common, whole.m
        self.groups, self.ball = whole.groups.on(B), whole.ball
        self.ridge = whole.ridge[:, B]
        self.A, self.usable, self.free = whole.A[:, B], whole.usable[:, B], whole.free[:, B]
        self.length, self.root = whole.length[:, B], whole.root[:, B]
        parts = list(zip(whole.kappa, whole.designs, whole.works, whole.coefs(P), strict=True))
        self.H = np.array([k * bends(design, work, w, B) for k, design, work, w in parts])
        gradients = np.array([k * design.gradient(w)[B] for k, design, _, w in parts])
        W = whole.coefs(P)[:, B]
        self.c = gradients + np.matmul(self.H, W[:, :, None])[:, :, 0]
        self.P = P[:, B].copy()
        bent = np.diagonal(self.H, axis1=1, axis2=2)
        self.squares = np.where(bent > 0.0, bent, 1.0)
        penalised = self.usable & (self.A > 0.0)
        self.penalised = penalised
        curve = np.divide(whole.squares[:, B], self.A**2, out=np.zeros_like(self.A), where=penalised)
        of_group = self.groups.sums(curve.T).sum(axis=1) / np.maximum(
            self.groups.sums(penalised.T * 1.0).sum(axis=1), 1.0
        )
        self.stiff = np.where(of_group > 0.0, STIFF * of_group, 1.0)[self.of]  # (k,)
        of_parts = self.groups.sums(curve.T) / np.maximum(self.groups.sums(penalised.T * 1.0), 1.0)
        alike = of_parts if self.common else np.repeat(of_group[:, None], len(curve), axis=1)
        self.mild = np.where(alike > 0.0, alike, 1.0)  # (groups, parts): springs of Newton steps in all at once
        # a matrix is never singular: columns that depend on others, or are not in use, stay where they are
        squares = np.where(whole.squares[:, B] > 0.0, whole.squares[:, B], 1.0)
        self.least = (NULL_COMMON if self.common else NULL) * squares
        self.box = None if whole.box is None else whole.box.on(B)
        self.springs = np.where(whole.stiff[:, B] > 0.0, whole.stiff[:, B], 1.0)
        forces = np.zeros((self.m, len(B))) if whole.forces is None else whole.forces[:, B]
        self.firmer = 1.0
        self.U = -whole.kappa[:, None] * forces  # multipliers of bounds

    def _beyond(self, W: Floats) -> Floats:
        """(m, k): how far springs are stretched at W."""
        if self.box is None:
            return np.zeros_like(W)
        at = W + self.U / self.springs
        return np.asarray(at - np.clip(at, self.box.low, self.box.high))

    def coefs(self, P: Floats) -> Floats:
        return np.asarray(P[0] + P[1:] if self.common else P)

    def loss_gradient(self, P: Floats) -> Floats:
        """(m, k): minus that of the loss, in coefficients."""
        return np.asarray(self.c - np.matmul(self.H, self.coefs(P)[:, :, None])[:, :, 0])

    def gradient(self, P: Floats, pulled: Floats | float = 0.0) -> Floats:
        """(height, k): minus that of the loss, less what pulls coefficients (m, k)."""
        G = self.loss_gradient(P) - pulled
        return np.asarray((np.concatenate([G.sum(axis=0)[None], G]) if self.common else G) - self.ridge * P)

    def _gradient(self, P: Floats) -> Floats:
        """The same with springs at bounds."""
        return self.gradient(P, self.springs * self._beyond(self.coefs(P)))

    def _projected(self, Q: Floats) -> tuple[Floats, Floats, Floats, np.ndarray]:
        """Of Q (height, k): its projection on the ball, directions, and by group and part lengths and those that give way
        to each other (see `Ball`)."""
        sizes = self.groups.lengths(Q.T)
        shorter, tied = self.ball.projected(sizes)
        shares = np.divide(shorter, sizes, out=np.ones_like(sizes), where=sizes > 0.0)
        E = Q / np.where(sizes > 0.0, sizes, 1.0)[self.of].T
        return shares[self.of].T * Q, E, shares, tied

    def least_of(self, share: float) -> Floats:
        return share * self.least / (NULL_COMMON if self.common else NULL)

    def solved(self, most: int) -> tuple[Floats, int, bool]:
        """Newton steps in all at once; where they do not arrive, multipliers go on until they do."""
        P, total, arrived = at_once(self, most)
        if arrived:
            return P, total, True
        Y = self._projected(np.divide(self._gradient(P), self.A, out=np.zeros_like(P), where=self.penalised))[0]
        best, kept, idle, pressed, last, tries = np.inf, P, 0, self.U, np.inf, 0
        for _ in range(ROUNDS):
            P, steps = self._minimised(P, Y, ROUGH if tries < TRIES else 0.0)
            total += steps
            Q = self._reach(P, Y)
            new = self._projected(Q)[0]
            Z = np.where(self.penalised, self._back(Q - new), P)
            before, self.U = self.U, self.springs * self._beyond(self.coefs(P))
            error = max(self._error(P, Z, before, new), self._off(before))
            if error <= NEAR and tries < TRIES:
                self.P, tries = Z, tries + 1
                found, steps, arrived = at_once(self, most - total if most else 0)
                total += steps
                if arrived:
                    return found, total, True
            if error > max(SLOW * last, CLOSE) and self.firmer < FIRMEST:  # norms of little are themselves as stiff
                self.firmer *= FIRMER
                self.stiff, self.springs = FIRMER * self.stiff, FIRMER * self.springs
            last = error
            idle = 0 if error < 0.5 * best else idle + 1
            if error < best:
                best, kept, pressed = error, Z, self.U
            Y = new
            if best <= GOAL or (idle > PATIENCE and best <= CLOSE):
                self.U = pressed
                return kept, total, True
            if total >= (most or MOST) or idle > 4 * PATIENCE:
                break
        self.U = pressed
        return kept, total, False

    def _off(self, before: Floats) -> float:
        """By how much multipliers of bounds have moved, as the distance that springs have gone, as a correlation."""
        root = self.root[1:] if self.common else self.root
        return float((np.abs(self.U - before) / self.springs * root).max(initial=0.0))

    def _reach(self, P: Floats, Y: Floats) -> Floats:
        return np.where(self.penalised, Y + self.stiff * self.A * P, 0.0)

    def _back(self, Q: Floats) -> Floats:
        return np.asarray(np.divide(Q, self.stiff * self.A, out=np.zeros_like(Q), where=self.penalised))

    def _error(self, P: Floats, Z: Floats, before: Floats, new: Floats) -> float:
        """What is left to be done, as a correlation: of the coefficients that are taken, Z, and of the gradient there."""
        now, self.U = self.U, before
        G = np.where(self.usable, self._gradient(Z) - self.A * new, 0.0)
        self.U = now
        off = np.divide(np.abs(G), self.length, out=np.zeros_like(G), where=self.length > 0.0)
        return float(max((np.abs(P - Z) * self.root).max(initial=0.0), off.max(initial=0.0)))

    # ------------------------------------------------------------------ with the same multipliers

    def _value(self, P: Floats, Y: Floats) -> float:
        W, Q = self.coefs(P), self._reach(P, Y)
        p = self._projected(Q)[0]
        loss = float(np.vdot(W, 0.5 * np.matmul(self.H, W[:, :, None])[:, :, 0] - self.c))
        loss += 0.5 * float((self.ridge * P * P).sum() + (self.springs * self._beyond(W) ** 2).sum())
        return float(loss + ((p * (Q - 0.5 * p)) / self.stiff).sum())

    def _minimised(self, P: Floats, Y: Floats, rough: float = 0.0) -> tuple[Floats, int]:
        value, settled = self._value(P, Y), np.inf
        for step in range(STEPS):
            p, E, shares, tied = self._projected(self._reach(P, Y))
            slope = np.where(self.usable, self._gradient(P) - self.A * p, 0.0)
            left = float(np.divide(np.abs(slope), self.length, out=np.zeros_like(slope), where=self.length > 0.0).max())
            if left <= max(0.1 * GOAL, rough) or (left <= CLOSE and left > 0.5 * settled):
                return P, step + 1
            settled = min(left, settled)
            way = self._step(P, slope, E, shares, tied)
            fall, t = float(np.vdot(slope, way)), 1.0
            for halvings in range(HALVINGS):
                at = P + t * way
                new = self._value(at, Y)
                if new <= value - ENOUGH * t * fall + 1e-15 * (abs(value) + abs(new)):
                    break
                t *= 0.5 if halvings < 5 else 0.1  # where nothing is curved, as parts make up for each other, t is tiny
            else:
                return P, step + 1
            P, value = at, new
        return P, STEPS

    def _step(self, P: Floats, slope: Floats, E: Floats, shares: Floats, tied: np.ndarray) -> Floats:
        """The Newton step: the second derivatives of a part are H_i + s A J_i A, J_i being those of the projection within
        its groups."""
        of, same = self.of, self.of[:, None] == self.of
        share, moves = shares[of].T, (shares >= 1.0)[of].T | tied[of].T
        blocks = []
        for r, e, along, a, rho, on in zip(share, E, moves, self.A, self.ridge, self.penalised, strict=True):
            J = np.where(same, np.outer(e, e) * (np.where(along, 1.0, 0.0) - r), 0.0)
            J[np.diag_indices_from(J)] += r
            weight = np.where(on, a, 0.0)
            blocks.append(J * np.outer(weight * self.stiff, weight) + np.diag(rho))
        dead, H = ~self.usable, self.H
        if self.box is not None:
            H = H.copy()
            H[:, np.arange(len(of)), np.arange(len(of))] += np.where(
                self._beyond(self.coefs(P)) != 0.0, self.springs, 0.0
            )
        if self.common:
            return self._arrow(H, slope, blocks, dead)
        k = len(of)
        some = np.flatnonzero(tied.any(axis=1))
        out, M, right = np.zeros_like(slope), np.zeros((len(some), len(some))), np.zeros(len(some))
        follow = []
        for i, J in enumerate(blocks):
            V = np.zeros((k, len(some)))
            for column, g in enumerate(some.tolist()):
                if tied[g, i]:
                    at = of == g
                    V[at, column] = (self.A[i] * E[i])[at]
            both = _inverted(H[i] + J, self.least[i], dead[i], np.column_stack([slope[i], V]))
            out[i] = both[:, 0]
            follow.append(both[:, 1:])
            M -= V.T @ both[:, 1:]
            right += V.T @ both[:, 0]
        if some.size:
            stiff = np.array([self.stiff[of == g][0] for g in some.tolist()])
            M[np.diag_indices_from(M)] += tied[some].sum(axis=1) / stiff * (1.0 + 1e-12)
            y = _inverted(M, np.full(len(some), NULL) * np.diag(M), np.zeros(len(some), dtype=bool), right[:, None])[
                :, 0
            ]
            for i, F in enumerate(follow):
                out[i] += F @ y
        return out

    def _arrow(self, tasks: Floats, slope: Floats, blocks: list[Floats], dead: np.ndarray) -> Floats:
        out, S, right = np.zeros_like(slope), blocks[0].copy(), slope[0].copy()
        follow = []
        for i in range(self.m):
            H = tasks[i]
            both = _inverted(H + blocks[i + 1], self.least[i + 1], dead[i + 1], np.column_stack([slope[i + 1], H]))
            follow.append(both)
            S += H - H @ both[:, 1:]
            right -= H @ both[:, 0]
        out[0] = _inverted(0.5 * (S + S.T), self.least[0], dead[0], right[:, None])[:, 0]
        for i, both in enumerate(follow):
            out[i + 1] = both[:, 0] - both[:, 1:] @ out[0]
        return out


def _inverted(M: Floats, least: Floats, dead: np.ndarray, right: Floats) -> Floats:
    """M^-1 times a right-hand side, 0 where entries are dead. A little is added to the diagonal, so that there is one."""
    live = np.flatnonzero(~dead)
    out = np.zeros_like(right)
    if live.size == 0:
        return out
    part = M[np.ix_(live, live)]
    part[np.diag_indices_from(part)] += least[live]
    try:
        out[live] = cho_solve(cho_factor(part, lower=True, check_finite=False), right[live], check_finite=False)
    except (LinAlgError, ValueError):
        values, vectors = eigh(part)
        kept = values > 1e-14 * max(values[-1], 1e-300)
        out[live] = (vectors[:, kept] / values[kept]) @ (vectors[:, kept].T @ right[live])
    return out
