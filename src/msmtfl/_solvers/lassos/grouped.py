"""Groups of features that enter or leave together, under any loss: of every task by itself (`GroupedLassos`, the stages of
MSMTFL), or of all tasks together (`coupled/grouped_rows.py`, L1,2 over groups).

Newton steps (of squared loss one is enough, and the next is for what rounding left) on the groups in work: those in use,
those with free entries, and those that violate optimality most. The parabola of a step is minimised exactly
(`group_lasso.py`); under a loss that is not squared a line search follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._data.designs import Floats, Ints
from ..._data.forms.ridged import apart
from ..._objective.coupled.groups import BoundedGroups, Groups
from ..._objective.problem import Problem
from .bounded import ENOUGH, FALLS, GOAL, HALVINGS, OVER, PATIENCE, STEPS, BoundedLassos, bends
from .group_lasso import group_lasso
from .lasso_solver import ESCAPES, OVERRUN
from .task_solver import Caches, task_caches

AT_LEAST = 8  # groups taken into work together
SAME = 1e-11  # difference of gradients, as a correlation, that is rounding
MANY = 20  # steps after which a search asks whether there is a minimiser


class GroupDescent:
    """One solve: sum_i kappa_i/2 loss_i(w_i) + sum_g |(A W)_g|_2 over the groups of all the tasks given.

    Parameters
    ----------
    designs : `Design` or `LossTask` of every task, with their ridges
    works : what is kept of the Gram matrix of each of them, without ridges; None for losses that are not squared
    A : (m, d) weights on the scale of the objective
    groups : which features belong together
    kappa : (m,) how losses count
    """

    def __init__(self, designs: Sequence[Any], works: Sequence[Any], A: Floats, groups: Groups, kappa: Floats):
        self.designs, self.works, self.groups, self.kappa = designs, works, groups, kappa
        squares = np.array([design.squares for design in designs])
        self.usable = (squares > 0.0) & np.isfinite(A)
        self.A = np.where(self.usable, A, np.inf)
        self.cost = np.where(self.usable, A, 0.0)
        self.free = self.usable & (A == 0.0)
        length = kappa[:, None] * np.sqrt(squares * np.array([[design.yy] for design in designs]))
        self.per_length = np.divide(1.0, length, out=np.zeros_like(length), where=self.usable & (length > 0.0))

    @np.errstate(over="ignore", invalid="ignore")  # what leaves the range of floats is no step down
    def run(self, start: Floats, most: int) -> tuple[Floats, int, bool]:
        """The minimiser (m, d), from about `start`, steps, and whether they came to their end."""
        W = np.where(self.usable & np.isfinite(start), start, 0.0)
        squared = self.works[0] is not None
        if not squared and W.any() and not self.value(W) <= self.value(np.where(self.free, W, 0.0)):
            W = np.where(self.free, W, 0.0)
        inside = self._of_groups((W != 0.0) | self.free)
        best, idle, lowest = (np.inf, W), 0, np.inf
        for step in range(most):
            G = self.gradient(W)
            errors = self._errors(W, G)
            worst = float(errors.max(initial=0.0))
            value = lowest if squared else self.value(W)
            idle = 0 if worst < 0.5 * best[0] or value < lowest - FALLS * abs(lowest) else idle + 1
            lowest = min(value, lowest)
            best = min(best, (worst, W), key=lambda one: one[0])
            new = self._wanted(errors, inside)
            if worst <= GOAL or (idle > PATIENCE and not new.any()):
                return best[1], step + 1, True
            inside |= new
            W = self._stepped(W, G, np.flatnonzero(inside[self.groups.of]))
        return best[1], most, False

    def gradient(self, W: Floats) -> Floats:
        """(m, d): minus that of the losses."""
        return np.array([k * design.gradient(w) for k, design, w in zip(self.kappa, self.designs, W, strict=True)])

    def value(self, W: Floats) -> float:
        losses = (0.5 * k * design.loss(w) for k, design, w in zip(self.kappa, self.designs, W, strict=True))
        return float(sum(losses) + self._norms(self.cost * W).sum())

    def _norms(self, M: Floats) -> Floats:
        """(groups,)"""
        return np.asarray(np.sqrt(self.groups.sums((M * M).T).sum(axis=1)))

    def _of_groups(self, entries: np.ndarray) -> np.ndarray:
        """(groups,) bool: to which some entries, (m, d) bool, belong."""
        out = np.zeros(self.groups.count, dtype=bool)
        out[self.groups.of[entries.any(axis=0)]] = True
        return out

    def _errors(self, W: Floats, G: Floats) -> Floats:
        """(groups,): violations of optimality, as correlations."""
        of, counted = self.groups.of, self.cost > 0.0
        sizes = self._norms(np.divide(G, self.cost, out=np.zeros_like(G), where=counted))
        norms = self._norms(self.cost * W)
        over = np.maximum(1.0 - 1.0 / np.maximum(sizes, 1.0), 0.0)[of]  # share of the gradient beyond its bound
        bent = self.cost**2 * W / np.where(norms > 0.0, norms, 1.0)[of]
        error = np.where(norms[of] > 0.0, np.abs(G - bent), over * np.abs(G))
        error = np.where(self.free, np.abs(G), np.where(counted, error, 0.0)) * self.per_length
        out = np.zeros(self.groups.count)
        np.maximum.at(out, of, error.max(axis=0))
        return out

    def _wanted(self, errors: Floats, inside: np.ndarray) -> np.ndarray:
        """(groups,) bool: those not in work that violate optimality most."""
        out = np.asarray((errors > OVER) & ~inside)
        most = max(AT_LEAST, int(np.count_nonzero(inside)))
        if np.count_nonzero(out) > most:
            out &= errors >= np.partition(errors[out], -most)[-most]
        return out

    def _stepped(self, W: Floats, G: Floats, B: Ints) -> Floats:
        """The next point: where the parabola on the features B has its minimum, or on the way there."""
        parts = zip(self.kappa, self.designs, self.works, W, strict=True)
        H = np.array([k * bends(design, work, w, B) for k, design, work, w in parts])
        c = G[:, B] + np.matmul(H, W[:, B, None])[:, :, 0]
        target = W.copy()
        target[:, B] = group_lasso(H, c, self.A[:, B], self.groups.on(B).of, W[:, B])
        if self.works[0] is not None:
            return target
        way = target - W
        fall = float(np.vdot(G, way) - self._norms(self.cost * target).sum() + self._norms(self.cost * W).sum())
        now, t = self.value(W), 1.0
        if fall <= 1e-12 * abs(now):  # less than rounding shows of values
            return target
        for _ in range(HALVINGS):
            at = target if t == 1.0 else W + t * way
            if self.value(at) <= now - ENOUGH * t * fall:
                return at
            t *= 0.5
        return target


class GroupedLassos(BoundedLassos):
    """What `Lassos` and `LossLassos` are without groups (a `LassoSolver`): a weighted group lasso of every task. Entries
    that are free and not determined are those nearest to where the solve starts.

    Parameters
    ----------
    designs : one `Design` or `LossTask` per task
    groups : which features belong together
    units : (m, d) scale in which the distance between solutions is measured
    grams : what is known of Gram matrices, by default nothing yet
    ridge : (m, d) that of every task at lam = 1, if there is any; `at` says which lam it is
    n_jobs : threads over tasks
    problem : given in a search only, where what has no minimiser is not solved
    """

    def __init__(
        self,
        designs: Sequence[Any],
        groups: Groups,
        *,
        units: Floats | None = None,
        grams: Caches | None = None,
        ridge: Floats | None = None,
        n_jobs: int | None = None,
        problem: Problem | None = None,
    ):
        self._prepare(designs, units, ridge, n_jobs)
        self.groups, self.problem = groups, problem
        self.works = works_of(designs, grams, n_jobs)

    def limit(self, i: int) -> Groups | BoundedGroups:
        """What ties the coefficients of task i."""
        return self.groups

    def solve_into(
        self, A: Floats, aim: Floats, W: Floats, status: np.ndarray, rounds: np.ndarray, max_iter: int = 0
    ) -> None:
        if self._without_minimiser(A, aim, W, status, rounds):
            return
        super().solve_into(A, aim, W, status, rounds, max_iter or (MANY if self.problem is not None else 0))
        hard = np.flatnonzero(status) if self.problem is not None and not max_iter else status[:0]
        if hard.size and self.problem is not None:
            free = (A == 0.0).any(axis=1)
            found = any(free[i] and self.problem.escapes(i, W[[i]], A[[i]])[0] for i in hard.tolist())
            if not (found and self._without_minimiser(A, aim, W, status, rounds)):
                super().solve_into(A, aim, W, status, rounds)

    def _without_minimiser(self, A: Floats, aim: Floats, W: Floats, status: np.ndarray, rounds: np.ndarray) -> bool:
        """Whether some task is known to have no minimiser: W is then the aim."""
        gone = np.zeros(self.m, dtype=bool) if self.problem is None else self.problem.without_minimiser(A)
        if not gone.any():
            return False
        W[:], rounds[:], status[:] = aim, 1, np.where(gone, OVERRUN | ESCAPES, 0)
        self.status = np.array(status)
        return True

    def _solved(self, i: int, a: Floats, aim: Floats, most: int) -> tuple[Floats, int, bool]:
        start = np.where(a == 0.0, aim, self.last[i])
        return self._run(i, a, start, most)

    def _run(self, i: int, a: Floats, start: Floats, most: int) -> tuple[Floats, int, bool]:
        descent = GroupDescent([self.design(i)], [self.works[i]], a[None], self.groups, np.ones(1))
        W, steps, ended = descent.run(start[None], most)
        return self._balanced(i, W[0], a), steps, ended

    def _balanced(self, i: int, w: Floats, a: Floats) -> Floats:
        """Task i's w with free levels of a variable adding up to 0, where the intercept makes up for that."""
        design = self.designs[i]
        for features in self.groups.levels:
            live = features[design.squares[features] > 0.0]
            if live.size and w[live].any() and not a[live].any():
                other = w.copy()
                other[live] -= w[live].mean()
                change = np.abs(design.gradient(other) - design.gradient(w))
                if (change <= SAME * np.sqrt(design.squares * design.yy)).all():
                    w = other
        return w

    def repair(self, i: int, w: Floats, a: Floats, aim: Floats) -> Floats:
        return self._run(i, a, np.where(a == 0.0, aim, 0.0), STEPS)[0]


def works_of(designs: Sequence[Any], grams: Caches | None, n_jobs: int | None) -> list[Any]:
    """What is kept of the Gram matrix of every task under squared loss; None for others."""
    bare = [apart(design)[0] for design in designs]
    if hasattr(bare[0], "of_loss"):
        return [None] * len(bare)
    return list(task_caches(bare, n_jobs=n_jobs, to_the_bit=True) if grams is None else grams)
