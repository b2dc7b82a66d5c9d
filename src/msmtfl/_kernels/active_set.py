# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, infer_types=True, freethreading_compatible=True
"""One task's weighted lasso as the solvers use it, and many of them after each other.

    min_w  1/2 w'Qw - c'w + sum_j a_j |w_j|,      Q = X'X,  c = X'y,  a_j in [0, inf]

The method is in `descent.py`, the factor that it works with in `support.py`: it is kept between calls, so
that a change of weights costs only the features that move. Where the minimiser is not unique,
`nearest.py` picks the one nearest to a point. Here are Gram rows on demand, with which a *slot* is a
feature whose row is known, and what Python calls.

This file is plain Python: `cython` types make it C. Uncompiled it runs as it stands (Cython must be
importable), which is how the tests look inside it.
"""

import cython
import numpy as np

from . import constants

if not cython.compiled:
    from .descent import Descent
    from .nearest import nearest
    from .vectors import any_beyond, excess, is_free, largest_ratio, subtract_rows

    INFINITY = float("inf")

KKT = cython.declare(cython.double, constants.KKT)
HUGE = cython.declare(cython.double, constants.HUGE)
TILE = cython.declare(cython.Py_ssize_t, 2048)  # entries of a long gradient that stay in the first cache
BREATH = cython.declare(cython.Py_ssize_t, 10**7)  # products of numbers, some 2 ms, between two looks for Ctrl-C

BITS = constants.BITS
TIED = cython.declare(cython.int, BITS["TIED"])
MISSING = cython.declare(cython.int, BITS["MISSING"])
SLID = cython.declare(cython.int, BITS["SLID"])


if not cython.compiled:

    def solve_at(state, A, i, aim, unit, W, status, rounds, max_rounds):
        """As in the .pxd file, but for the first argument"""
        status[i] = state._run(A, i, 1.0, aim, unit, max_rounds)
        rounds[i] = state.rounds
        state._write(W, i)
        return state._work()


class ActiveSet(Descent):
    """The warm state of one task's weighted lasso; the parameters are those of `Support`"""

    def __init__(self, Q, c, root, size: cython.Py_ssize_t, order: cython.Py_ssize_t, positive: cython.bint):
        super().__init__(Q, c, root, size, order, positive)
        self.d = size
        self.rounds = self.limit = self.last = 0
        self.lazy = self.aside = self.restart = self.some_free = False

    # -------------------------------------------------------------- what Python calls

    def begin(self, slots: cython.int[::1], values: cython.double[::1]):
        """Start the next solve from this point; slots that depend on earlier ones are left out"""
        for t in range(self.k):
            self.pos[self.act[t]] = -1
        self.k = 0
        self.outdated = False
        for t in range(slots.shape[0]):
            if self.root[slots[t]] > 0.0 and self._add(slots[t], 1.0 if values[t] > 0.0 else -1.0):
                self.w[self.k - 1] = values[t]

    def turn_to(self, Q, c, root, scale: cython.double):
        """Solve another problem of the same size next, from zero; the largest correlation |c| / root may be given as that of
        what c was made of: its rounding is meant"""
        for t in range(self.k):
            self.pos[self.act[t]] = -1
        self.k = 0
        self.Q = Q.reshape(-1)
        self.c = c
        self.root = root
        self.scale = scale

    def set_ridge(self, ridge, level: cython.double):
        """Add level * ridge to the diagonal of the Gram matrix, by slot; may be called before the first solve only"""
        self.ridge = ridge
        self.level = level

    def set_level(self, level: cython.double):
        """Another level of the ridge, from the next solve on"""
        self._set_level(level)

    def attach(self, rows, slot, c, root, g):
        """Work with Gram rows on demand: arrays by feature, slot -1 where the row is not known"""
        self.lazy = True
        self.d = c.shape[0]
        self.slot, self.all_c, self.all_root, self.all_g = slot, c, root, g
        self.all_a = np.full(self.d, INFINITY)
        self.scale = largest_ratio(self.all_c, self.all_root, self.d)
        self.rows = rows.reshape(-1)

    def grow(self, Q, c, root, rows, feature, size: cython.Py_ssize_t, ridge=None):
        """Go on with `size` slots in the (possibly larger) arrays given; earlier slots are unchanged"""
        if ridge is not None:
            self.ridge = ridge
        slots, values = self.support()
        larger = Q.shape[0] != self.ldq
        self.ldq = Q.shape[0]
        self.Q = Q.reshape(-1)
        self.rows = rows.reshape(-1)
        self.c = c
        self.root = root
        self.feature = feature
        self.K = size
        if larger:
            self.k = 0
            self._make_slots(self.ldq)
            self._make_room(max(min(self.order, self.ldq), 1))
            self.begin(slots, values)

    def support(self):
        """(slots, values) of the solution"""
        k = int(self.k)
        return np.array(self.act[:k]), np.array(self.w[:k])

    # -------------------------------------------------------------- Gram rows on demand

    def _load(self, A, i, lam):
        """Take the weights lam A[i]; False if a free feature has no Gram row yet"""
        zeros: cython.Py_ssize_t = 0
        if not self.lazy:
            for j in range(self.K):
                self.a[j] = lam * A[i, j]
                if self.a[j] == 0.0:
                    zeros += 1
            self.some_free = zeros > 0
            return True
        for j in range(self.d):
            self.all_a[j] = lam * A[i, j]
            if self.all_a[j] == 0.0:
                zeros += 1
        self.some_free = zeros > 0
        for j in range(self.K):
            self.a[j] = self.all_a[self.feature[j]]
            if self.a[j] == 0.0:
                zeros -= 1
        if zeros > 0 and not self.positive:  # some are not at hand, or never used
            for j in range(self.d):
                if self.all_a[j] == 0.0 and self.slot[j] < 0 and self.all_root[j] > 0.0:
                    return False
        return True

    def _outside(self):
        """all_g <- c - X'Xw for all features; MISSING if one without a row violates, TIED if one is at its bound"""
        low = 0
        found = 0
        while low < self.d:
            n = min(TILE, self.d - low)
            for j in range(low, low + n):
                self.all_g[j] = self.all_c[j]
            subtract_rows(n, self.k, self.w, self.act, self.rows, self.d, low, self.all_g)
            low += n
        if not any_beyond(self.d, self.all_g, 1.0 - 2e-10, self.all_a, -101.0 * self.atol, self.all_root, self.slot):
            return 0
        for j in range(self.d):
            if self.slot[j] < 0:
                over = excess(self.positive, self.all_g[j], self.all_a[j])
                if over > -1e-10 * self.all_a[j] - 100.0 * self.atol * self.all_root[j] and self.all_root[j] > 0.0:
                    found |= TIED
                    if over > KKT * self.all_a[j] + self.atol * self.all_root[j]:
                        found |= MISSING
        return found

    def lacking(self):
        """(d,) by how much features without a Gram row exceed the weights of the last solve (with rows on demand), per unit
        of root (inf: they are free, -inf: they have a row or are never used); how many may be used, exceed, are free"""
        over: cython.double[::1] = np.empty(self.d)
        count: cython.Py_ssize_t = 0
        beyond: cython.Py_ssize_t = 0
        free: cython.Py_ssize_t = 0
        for j in range(self.d):
            if self.slot[j] >= 0 or self.all_root[j] == 0.0 or self.all_a[j] > HUGE:
                over[j] = -INFINITY
                continue
            count += 1
            over[j] = excess(self.positive, self.all_g[j], self.all_a[j]) / self.all_root[j]
            if over[j] > 0.0:
                beyond += 1
            if is_free(self.positive, self.all_a[j]):
                over[j] = INFINITY
                free += 1
        return np.asarray(over), count, beyond, free

    # -------------------------------------------------------------- one solve, as Python asks for it

    def _run(self, A, i, lam, aim, unit, max_rounds):
        """Solve for the weights lam A[i]; the answer is in z, `entries` long, and the status returned"""
        self.restart = max_rounds <= 0
        self.limit = max_rounds if max_rounds > 0 else 20 * self.K + 100
        self.rounds = 1
        self.entries = 0
        if not self._load(A, i, lam):
            return MISSING
        status = self._solve()
        self._answer()
        if self.lazy:
            return status | self._outside()
        if status == TIED:
            moved = nearest(self, aim, unit, i)
            if moved >= 0:
                return SLID if moved else 0
            self._answer()
        return status

    def _work(self):
        """About how many products of numbers the last solve took"""
        return self.rounds * (self.k + 1) * self.d

    def _answer(self):
        self.entries = self.k
        for t in range(self.k):
            self.z[t] = self.w[t]

    def _write(self, W, i):
        """W[i] <- the answer"""
        for j in range(self.d):
            W[i, j] = 0.0
        for p in range(self.entries):
            W[i, self._feature(p)] = self.z[p]

    def _feature(self, p):
        """The feature of entry p of the answer"""
        j = self.act[p] if p < self.k else self.tie[p - self.k]
        return self.feature[j] if self.lazy else j


@cython.cfunc
def _addresses(states: list):
    """Where the states are (CPython's id), for calls that do without Python; `states` keeps them there"""
    state: ActiveSet
    if not cython.compiled:
        return states
    n: cython.Py_ssize_t = len(states)
    out = np.empty(n, dtype=np.intp)
    where: cython.Py_ssize_t[::1] = out
    for i in range(n):
        state = states[i]  # nothing else gets through, but None
        if state is None:
            raise TypeError("there is no state of a task.")
        where[i] = id(state)
    return out


def solve_all(states, A, aim, unit, W, status, rounds, max_rounds=0):
    """Solve many tasks for the weights A (tasks, d), warm; coefficients go to W, status bits and rounds beside them.

    Where a minimiser is not unique, W gets the one nearest to aim in the norm |unit * (w - aim)|, and the bit
    TIED gives way to SLID; if it stays set, the projection is left to the caller.
    """
    i: cython.Py_ssize_t = 0
    n: cython.Py_ssize_t = len(states)
    work: cython.Py_ssize_t
    where: cython.Py_ssize_t[::1] = _addresses(states)
    while i < n:
        if cython.compiled:
            PyErr_CheckSignals()
        with cython.nogil:
            work = 0
            while i < n and work < BREATH:
                work += solve_at(where[i], A, i, aim, unit, W, status, rounds, max_rounds)
                i += 1


def solve_path(
    states: list,
    lams: cython.double[::1],
    A: cython.double[:, ::1],
    aim: cython.double[:, ::1],
    unit: cython.double[:, ::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    go_on: cython.int,
    feature: cython.int[::1],
    value: cython.double[::1],
    entries: cython.int[::1],
    status: cython.int[::1],
    max_rounds: cython.Py_ssize_t = 0,
):
    """Solve tasks for all weights lam A, one task after the other, from solve number `begin` to `end` of tasks x lams. A
    ridge, where a state has one, has the level lam.

    Solve number p gets status[p] and entries[p] coefficients, one after the other in `feature` and `value`. Returns the
    number of the first solve with a bit set that is not in `go_on`, whose coefficients are not given, or `end`.
    """
    state: ActiveSet
    used: cython.Py_ssize_t = 0
    p: cython.Py_ssize_t = begin
    t: cython.Py_ssize_t
    i: cython.Py_ssize_t
    last: cython.Py_ssize_t
    work: cython.Py_ssize_t
    stopped: cython.bint = False
    L = lams.shape[0]
    while p < end and not stopped:
        i = p // L
        state = states[i]
        last = min(end, (i + 1) * L)
        if cython.compiled:
            PyErr_CheckSignals()
        with cython.nogil:
            work = 0
            while p < last and work < BREATH:
                if state.ridge.shape[0] > 0:
                    state._set_level(lams[p % L])
                status[p] = state._run(A, i, lams[p % L], aim, unit, max_rounds)
                if status[p] & ~go_on:
                    stopped = True
                    break
                entries[p] = 0
                for t in range(state.entries):
                    if state.z[t] != 0.0:
                        feature[used] = state._feature(t)
                        value[used] = state.z[t]
                        used += 1
                        entries[p] += 1
                work += state._work()
                p += 1
    return p
