"""Norms of groups of features within tasks, under squared loss: Newton steps in points and multipliers at once.

Near the solution it is known which groups are at rest, which give way to each other (`Ball`), and which coefficients are at
their bounds: the multipliers say it, and they follow from the point, as the gradient of the loss is the weight times them.
What is left is a system of equations, smooth in what is not at rest; its Newton step goes to the solution in four to six
steps from a point next to it on a path. From farther away it may come to no end: then `block_norms.py` goes on by multipliers
in turn with points, which always arrives.

With e the direction of a group's multiplier and coefficients in a part, l its length and p that of the multiplier, the second
derivatives of a norm are  p / l A (I - e e') A.  Where groups give way to each other their p are unknowns, too, and their
lengths l are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._data.designs import Floats

GOAL = 1e-14  # violation of optimality, as a correlation, at which the point is the solution
CLOSE = 1e-12  # the same from which on rounding may be what is left
STEPS = 25
MILD = 1.0
LOSES = 2  # steps that are no progress, after which others have to go on
FIRM = 1e2  # of springs at bounds, times those of the other method
NULL = 1e-11  # of the diagonal: what is added so that no matrix is singular


@dataclass(frozen=True, eq=False)
class _Present:
    """What is known at a point P (height, k): multipliers as directions E (height, k) and lengths p, and how long
    coefficients are by them, l (groups, parts each); what is at rest (height, k); groups and parts that give way to each
    other; and the largest violation of optimality."""

    P: Floats
    E: Floats
    p: Floats
    l: Floats
    rest: np.ndarray
    tied: np.ndarray
    error: float


def at_once(work: Any, most: int) -> tuple[Floats, int, bool]:
    """The minimiser of what is in work (`_Work` in `block_norms.py`), from its point; steps, and whether they arrived.
    Multipliers of bounds, and how firm their springs are, are left as they were if they did not."""
    P, kept, best, idle = work.P, (work.U, work.springs), np.inf, 0
    work.springs = FIRM * work.springs
    found, pressed = P, work.U
    for step in range(min(most or STEPS, STEPS)):
        now = _present(work, P)
        before, work.U = work.U, work.springs * work.beyond(work.coefs(P))
        error = max(now.error, work.off(before))
        idle = 0 if error < 0.5 * best else idle + 1
        if error < best:
            best, found, pressed = error, np.where(now.rest, 0.0, P), work.U
        if best <= GOAL or (idle and best <= CLOSE):
            work.U = pressed
            return found, step + 1, True
        if idle > LOSES or not np.isfinite(error):
            break
        P = _moved(work, now)
    work.U, work.springs = kept
    return work.P, step + 1, False


def _present(work: Any, P: Floats) -> _Present:
    G = work.gradient_at(P)
    reach = np.divide(G, work.A, out=np.zeros_like(P), where=work.penalised)
    of, mild = work.groups.of, MILD * work.mild
    Q = np.where(work.penalised, reach + mild[of].T * work.A * P, 0.0)
    sizes = work.groups.lengths(Q.T)
    p, tied = work.ball.projected(sizes)
    E = Q / np.where(sizes > 0.0, sizes, 1.0)[of].T
    rest = work.penalised & ((p >= sizes) & ~tied)[of].T
    l = np.maximum(sizes - p, 0.0) / mild
    apart = np.where(work.usable, G - work.A * np.where(rest, reach, p[of].T * E), 0.0)
    error = np.divide(np.abs(apart), work.length, out=np.zeros_like(P), where=work.length > 0.0)
    asleep = np.abs(np.where(rest, P, 0.0)) * work.root
    return _Present(P, E, p, l, rest, tied, float(max(error.max(initial=0.0), asleep.max(initial=0.0))))


def _moved(work: Any, now: _Present) -> Floats:
    """The point after a step."""
    P, of = np.where(now.rest, 0.0, now.P), work.groups.of
    over = np.divide(now.p, now.l, out=np.zeros_like(now.p), where=now.l > 0.0)[of].T
    A = np.where(work.penalised & ~now.rest, work.A, 0.0)
    AE = A * now.E
    along = work.groups.sums((AE * P).T)  # (groups, parts): the part of coefficients in the directions
    bent = over * (A * (A * P) - AE * along[of].T)
    slope = work.gradient_at(P) - A * now.p[of].T * now.E - bent
    dead = ~work.usable | now.rest
    same = of[:, None] == of
    D = -(over * AE)[:, :, None] * AE[:, None, :] * same
    D[:, np.arange(len(of)), np.arange(len(of))] += over * A**2 + work.ridge
    H = work.H_with_springs(P)
    system = _System(H, D, dead, work.least_of(NULL), work.common)
    if not now.tied.any():
        return np.asarray(P + system.solve(slope[:, :, None])[:, :, 0])
    V = np.zeros((*slope.shape, len(along)))
    V[:, np.arange(len(of)), of] = np.where(now.tied[of].T, AE, 0.0)
    both = system.solve(np.concatenate([slope[:, :, None], V], axis=2))
    step, F = both[:, :, 0], both[:, :, 1:]
    tied = now.tied.T  # (parts, groups)
    T = np.matmul(V.swapaxes(1, 2), F)
    T[:, np.arange(len(along)), np.arange(len(along))] += np.where(tied, 1e-13 * T.diagonal(axis1=1, axis2=2), 1.0)
    right = along.T + np.matmul(V.swapaxes(1, 2), step[:, :, None])[:, :, 0]
    selected = np.eye(len(along)) * tied[:, :, None]
    solved = np.linalg.solve(T, np.concatenate([np.where(tied, right, 0.0)[:, :, None], selected], axis=2))
    of_mu = np.where(tied[:, :, None], solved[:, :, 1:], 0.0).sum(axis=0)
    some = tied.any(axis=0)
    of_mu[~some, ~some] = 1.0
    mu = np.linalg.solve(of_mu, np.where(tied, solved[:, :, 0], 0.0).sum(axis=0))
    change = np.where(tied, solved[:, :, 0] - solved[:, :, 1:] @ mu, 0.0)
    return np.asarray(P + step - np.matmul(F, change[:, :, None])[:, :, 0])


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
