"""A weighted lasso with more features than Gram rows could be kept of: what is kept is the matrix between the features in
work; the gradient of all others is a pass over X. The answer is the same, and checked on all features."""

from __future__ import annotations

import numpy as np

from ..._data.designs import Design, Floats, Ints
from ..._kernels import active_set as _kernel

AT_LEAST = 16  # features taken into work together
MOST = 2048  # features in work, above which those that are not used go
OVER = 1e-11  # |gradient| beyond its bound, relative to the length of column and target, that counts
ROUNDS = 10_000  # of taking features into work; far more than it takes


class WorkingSet:
    """One task's features in work and the matrix between them; any number of solves may use it in turn."""

    whole = None

    def __init__(self, design: Design):
        self.design = design
        self.c, self.root = design.c, np.sqrt(design.squares)
        self.slot = np.full(design.d, -1, dtype=np.intc)
        self.features = np.empty(0, dtype=np.intp)
        self.known = np.empty((0, 0))

    def take(self, new: Ints) -> None:
        """Take features into work."""
        for low in range(0, len(new), AT_LEAST):
            some = new[low : low + AT_LEAST]
            have, size = len(self.features), len(self.features) + len(some)
            self.features = np.concatenate([self.features, some])
            block = self.design.gram_block(some, self.features)
            self.slot[some] = np.arange(have, size)
            grown = np.empty((size, size))
            grown[:have, :have] = self.known
            grown[have:] = block
            grown[:have, have:] = grown[have:, :have].T
            self.known = grown

    def keep(self, needed: Ints) -> None:
        """Let all others go."""
        at = np.sort(self.slot[needed])
        self.slot[self.features] = -1
        self.features, self.known = self.features[at], np.ascontiguousarray(self.known[np.ix_(at, at)])
        self.slot[self.features] = np.arange(len(self.features))


class WorkingState:
    """The solver of one task on its working set, warm from the last solution."""

    def __init__(self, work: WorkingSet, positive: bool, ridge: Floats | None = None):
        self.work, self.positive, self.ridge, self.level = work, positive, ridge, 0.0
        self.at, self.values = np.empty(0, dtype=np.intp), np.empty(0)  # the last solution

    def set_level(self, level: float) -> None:
        """Times which the ridge counts, from the next solve on."""
        self.level = level

    def follow(self) -> None:
        """Nothing to take note of: the working set is looked at when it is used."""

    def begin(self, w: Floats) -> None:
        """Start the next solve from w (d,)"""
        self.at = np.flatnonzero(w)
        self.values = w[self.at]

    def solve(
        self, a: Floats, aim: Floats, unit: Floats, w: Floats, status: np.ndarray, rounds: np.ndarray, max_iter: int
    ) -> None:
        """Fill w (d,), status (1,) and rounds (1,) as the kernel does for other tasks."""
        work, design = self.work, self.work.design
        usable = (work.root > 0) & np.isfinite(a)
        self._make_room(a, usable)
        slack = OVER * work.root * np.sqrt(design.yy)
        wanted = np.concatenate([self.at, np.flatnonzero((a == 0.0) & usable)])
        if wanted.size == 0:
            wanted = self._next(work.c, a, usable, slack)
        total = 0
        for _ in range(ROUNDS):
            new = np.unique(wanted[work.slot[wanted] < 0])
            work.take(new)
            w[:] = 0.0
            total += self._restricted(a, aim, unit, w, status, rounds, max_iter)
            if status[0] & _kernel.BITS["OVERRUN"]:
                break
            wanted = self._next(design.gradient(w), a, usable, slack)
            if wanted.size == 0:
                break
        else:
            status[0] |= _kernel.BITS["OVERRUN"]
        rounds[0] = max(total, 1)
        self.begin(w)

    def _next(self, g: Floats, a: Floats, usable: np.ndarray, slack: Floats) -> Ints:
        """The features that violate most, as a correlation; none if no feature outside the working set does."""
        over = (g if self.positive else np.abs(g)) - a - slack
        worse = np.flatnonzero((over > 0) & usable & (self.work.slot < 0))
        count = min(max(AT_LEAST, len(self.work.features) // 2), len(worse))
        if count == 0:
            return worse
        return worse[np.argpartition(-over[worse] / self.work.root[worse], count - 1)[:count]]

    def _make_room(self, a: Floats, usable: np.ndarray) -> None:
        work = self.work
        if len(work.features) > MOST:
            needed = np.union1d(self.at, np.flatnonzero((a == 0.0) & usable))
            work.keep(needed[work.slot[needed] >= 0])

    def _restricted(
        self, a: Floats, aim: Floats, unit: Floats, w: Floats, status: np.ndarray, rounds: np.ndarray, max_iter: int
    ) -> int:
        """The lasso of the features in work, exactly."""
        work = self.work
        E = work.features
        order = len(E) if self.ridge is not None else min(work.design.order, len(E))
        state = _kernel.ActiveSet(work.known, work.c[E].copy(), work.root[E].copy(), len(E), order, self.positive)
        if self.ridge is not None:
            state.set_ridge(self.ridge[E].copy(), self.level)
        if self.at.size:
            state.begin(work.slot[self.at].astype(np.intc), self.values)
        part, status[0], rounds[0] = np.zeros((1, len(E))), 0, 1
        _kernel.solve_all([state], a[None, E], aim[None, E], unit[None, E], part, status, rounds, max_iter)
        w[E] = part[0]
        self.begin(w)
        return int(rounds[0])
