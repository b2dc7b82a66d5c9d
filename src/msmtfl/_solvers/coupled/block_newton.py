"""Norms of groups of features within tasks, under squared loss: Newton steps in points and multipliers at once.

Near the solution it is known which groups are at rest, which give way to each other (`Ball`), and which coefficients are at
their bounds: the multipliers say it, and they follow from the point, as the gradient of the loss is the weight times them.
What is left is a system of equations, smooth in what is not at rest; from a point next to the solution on a path four to
six Newton steps solve it. From farther away they may come to no end: then `block_norms.py` goes on by multipliers in turn
with points, which always arrives.

With e the direction of a group's multiplier and coefficients in a part, l their length and p that of the multiplier, the
second derivatives of a norm are  p / l A (I - e e') A.  Where groups give way to each other their p are unknowns, too, and
their lengths l are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._data.designs import Floats, Ints
from ..._objective.box import outwards

GOAL = 1e-14  # violation of optimality, as a correlation, at which the point is the solution
CLOSE = 1e-12  # the same from which on rounding may be what is left
STEPS = 25
SMALL = 1e-9  # a coefficient, as a correlation, that may be 0
LOSES = 2  # steps that are no progress, after which others have to go on
FIRM = 1e3  # of springs at bounds, over the curvature of the loss
FLAT = 1e-13  # of the diagonal: the same where groups give way to each other
NULL = 1e-11  # of the diagonal: what is added so that no matrix is singular


@dataclass(frozen=True, eq=False)
class _Present:
    """What is known at a point P (height, k) with multipliers U (m, k) of bounds: those of norms as directions E (height, k)
    and lengths p, and how long coefficients are by them, l (groups, parts each); what is at rest (height, k); groups and
    parts that give way to each other; which coefficients are held at bounds, and which bounds (m, k), if there are any; and
    the largest violation of optimality."""

    P: Floats
    U: Floats
    E: Floats
    p: Floats
    l: Floats
    rest: np.ndarray
    tied: np.ndarray
    held: np.ndarray | None
    ends: Floats | None
    error: float


def at_once(work: Any, most: int) -> tuple[Floats, int, bool]:
    """The minimiser of what is in work (`_Work` in `block_norms.py`), from its point; steps, and whether they arrived.
    Multipliers of bounds are left as they were if they did not."""
    P, U, best, idle, step = work.P, work.U, np.inf, 0, 0
    found = P, U
    for step in range(min(most or STEPS, STEPS)):
        now = _present(work, P, U)
        idle = 0 if now.error < 0.5 * best else idle + 1
        if now.error < best:
            best, found = now.error, (np.where(now.rest, 0.0, P), now.U)
        if best <= GOAL or (idle and best <= CLOSE):
            found[0][:], work.U = _asleep(work, *found)
            return found[0], step + 1, True
        if idle > LOSES or not np.isfinite(now.error):
            break
        P, U = _moved(work, now)
    return work.P, step + 1, False


def _asleep(work: Any, P: Floats, U: Floats) -> tuple[Floats, Floats]:
    """The same without groups that are all but 0, where bounds press so much that they may be 0: of the multipliers that
    press them some would leave their norms as large as they may be."""
    if work.box is None:
        return P, U
    groups = work.groups
    for whole in (True, False):  # groups in all parts, and in single ones
        sizes = groups.lengths((work.root * P).T)  # (groups, parts)
        tiny = sizes <= SMALL
        small = (tiny.all(axis=1, keepdims=True) if whole else tiny) & (sizes > 0.0)
        parts = small[groups.of].T & work.penalised
        if not parts.any():
            continue
        to = np.where(parts, 0.0, P)
        none = (groups.lengths(work.coefs(to).T) == 0.0)[groups.of].T  # (m, k): what tasks do not use
        none &= parts.any(axis=0) if whole else parts[-len(none) :]
        now = _present(work, to, np.where(none, outwards(work.box, work.loss_gradient(to)), U))
        if now.error <= CLOSE:
            P, U = to, now.U
    return P, U


def _present(work: Any, P: Floats, U: Floats) -> _Present:
    G = work.gradient(P)
    off, held, ends = 0.0, None, None
    if work.box is not None:
        if not work.common:  # what is pressed to 0 needs no norm
            asleep = (work.groups.lengths((work.A * P).T) == 0.0)[work.groups.of].T & work.penalised
            U = np.where(asleep, outwards(work.box, G), U)
        W, mild = work.coefs(P), work.squares
        ends = np.clip(W + U / mild, work.box.low, work.box.high)
        held = W + U / mild != ends
        off = float((np.abs(W - ends) * work.root[-len(W) :])[held].max(initial=0.0))
        U = np.where(held, U, 0.0)
        G = work.gradient(P, U)
    reach = np.divide(G, work.A, out=np.zeros_like(P), where=work.penalised)
    of = work.groups.of
    Q = np.where(work.penalised, reach + work.mild[of].T * work.A * P, 0.0)
    sizes = work.groups.lengths(Q.T)
    p, tied = work.ball.projected(sizes)
    E = Q / np.where(sizes > 0.0, sizes, 1.0)[of].T
    rest = work.penalised & ((p >= sizes) & ~tied)[of].T
    l = np.maximum(sizes - p, 0.0) / work.mild
    apart = np.where(work.usable, G - work.A * np.where(rest, reach, p[of].T * E), 0.0)
    error = np.divide(np.abs(apart), work.length, out=np.zeros_like(P), where=work.length > 0.0)
    asleep = np.abs(np.where(rest, P, 0.0)) * work.root
    worst = float(max(error.max(initial=0.0), asleep.max(initial=0.0), off))
    return _Present(P, U, E, p, l, rest, tied, held, ends, worst)


def _moved(work: Any, now: _Present) -> tuple[Floats, Floats]:
    """The point after a step, and the multipliers of bounds."""
    P, U, of, k = np.where(now.rest, 0.0, now.P), now.U, work.groups.of, np.arange(now.P.shape[1])
    over = np.divide(now.p, now.l, out=np.zeros_like(now.p), where=now.l > 0.0)[of].T
    A = np.where(work.penalised & ~now.rest, work.A, 0.0)
    AE = A * now.E
    along = work.groups.sums((AE * P).T)  # (groups, parts): the part of coefficients in the directions
    bent = over * (A * (A * P) - AE * along[of].T)
    pull: Floats | float = 0.0
    H, springs = work.H, FIRM * work.squares
    if now.held is not None:
        H = H.copy()
        H[:, k, k] += np.where(now.held, springs, 0.0)
        pull = np.where(now.held, U + springs * (work.coefs(P) - now.ends), 0.0)
    slope = work.gradient(P, pull) - A * now.p[of].T * now.E - bent
    D = -(over * AE)[:, :, None] * AE[:, None, :] * (of[:, None] == of)
    D[:, k, k] += over * A**2 + work.ridge
    system = _System(H, D, ~work.usable | now.rest, work.least_of(NULL), work.common)
    if now.tied.any():
        to = P + _with_ties(system, slope, AE, along, now.tied, of)
    else:
        to = P + system.solve(slope[:, :, None])[:, :, 0]
    if now.held is not None:
        U = np.where(now.held, U + springs * (work.coefs(to) - now.ends), 0.0)
    return to, U


def _with_ties(system: _System, slope: Floats, AE: Floats, along: Floats, tied: np.ndarray, of: Ints) -> Floats:
    """The step where parts of some groups give way to each other: tied (groups, parts) bool."""
    count = len(along)
    V = np.zeros((*slope.shape, count))
    V[:, np.arange(len(of)), of] = np.where(tied[of].T, AE, 0.0)
    both = system.solve(np.concatenate([slope[:, :, None], V], axis=2))
    step, F = both[:, :, 0], both[:, :, 1:]
    tied = tied.T  # (parts, groups)
    T = np.matmul(V.swapaxes(1, 2), F)
    T[:, np.arange(count), np.arange(count)] += np.where(tied, FLAT * T.diagonal(axis1=1, axis2=2), 1.0)
    right = along.T + np.matmul(V.swapaxes(1, 2), step[:, :, None])[:, :, 0]
    selected = np.eye(count) * tied[:, :, None]
    try:
        solved = np.linalg.solve(T, np.concatenate([np.where(tied, right, 0.0)[:, :, None], selected], axis=2))
        of_level = np.where(tied[:, :, None], solved[:, :, 1:], 0.0).sum(axis=0)
        none = np.flatnonzero(~tied.any(axis=0))
        of_level[none, none] = 1.0
        level = np.linalg.solve(of_level, np.where(tied, solved[:, :, 0], 0.0).sum(axis=0))
    except np.linalg.LinAlgError:
        return np.full_like(step, np.nan)
    change = np.where(tied, solved[:, :, 0] - solved[:, :, 1:] @ level, 0.0)
    return np.asarray(step - np.matmul(F, change[:, :, None])[:, :, 0])


class _System:
    """What a Newton step solves: a matrix for every task, and one for the common part, if there is one."""

    def __init__(self, H: Floats, D: Floats, dead: np.ndarray, least: Floats, common: bool):
        self.H, self.common, self.dead = H, common, dead
        k = H.shape[1]
        own = D.copy()
        own[:, np.arange(k), np.arange(k)] += least
        self.own = own

    def solve(self, right: Floats) -> Floats:
        """(height, k, r)"""
        right = np.where(self.dead[:, :, None], 0.0, right)
        if not self.common:
            return _solved(self.H + self.own, right, self.dead)
        both = _solved(self.H + self.own[1:], np.concatenate([right[1:], self.H], axis=2), self.dead[1:])
        r = right.shape[2]
        S = self.own[0] + (self.H - np.matmul(self.H, both[:, :, r:])).sum(axis=0)
        top = right[0] - np.matmul(self.H, both[:, :, :r]).sum(axis=0)
        b = _solved(S[None], top[None], self.dead[:1])
        return np.concatenate([b, both[:, :, :r] - np.matmul(both[:, :, r:], b)])


def _solved(M: Floats, right: Floats, dead: np.ndarray) -> Floats:
    """M^-1 times a right-hand side, 0 where entries are dead."""
    gone = dead[:, :, None] | dead[:, None, :]
    k = M.shape[1]
    matrix = np.where(gone, 0.0, M)
    matrix[:, np.arange(k), np.arange(k)] += dead
    try:
        return np.asarray(np.linalg.solve(matrix, np.where(dead[:, :, None], 0.0, right)))
    except np.linalg.LinAlgError:
        return np.full_like(right, np.nan)
