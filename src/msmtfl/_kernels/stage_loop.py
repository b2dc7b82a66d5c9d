# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, infer_types=True, freethreading_compatible=True
"""The third compiled kernel: Algorithm 1 of capped penalties at one lam, for one point (theta) after the other.

A stage is known by its marks: the rows j whose norm reaches theta, and d + i d + j for the entries (i, j) that reach
theta_entry, if these have a share of lam; marked rows and entries pay no penalty in it. Stages with the same marks and
share are solved once (where the minimiser is not unique: once for every stage before). What `_paths.solve.GridStages` does
for any penalty and wherever data are, this does for the penalties of the paper, without going back to Python between
stages, unless a task needs what the kernel cannot do.

This file is plain Python: `cython` types make it C.
"""

import sys

import cython
import numpy as np

from .active_set import BITS

if not cython.compiled:
    from math import fabs, isinf

    from .active_set import solve_all

OVERRUN = cython.declare(cython.int, BITS["OVERRUN"])
SLID = cython.declare(cython.int, BITS["SLID"])
ANY = cython.declare(cython.Py_ssize_t, -1)  # whatever stage was before
UNKNOWN = cython.declare(cython.Py_ssize_t, -1)  # instead of a place

# Why a point ends.
REPEATS = cython.declare(cython.int, 0)
CYCLES = cython.declare(cython.int, 1)
LIMIT = cython.declare(cython.int, 2)
CROWDED = cython.declare(cython.int, 3)
UNFINISHED = cython.declare(cython.int, 4)
ENDS = {"REPEATS": REPEATS, "CYCLES": CYCLES, "LIMIT": LIMIT, "CROWDED": CROWDED, "UNFINISHED": UNFINISHED}


def _larger(array, size):
    """The array with room for `size` numbers at least, twice as large as before"""
    if size <= len(array):
        return array
    out = np.empty(max(size, 2 * len(array)), dtype=np.asarray(array).dtype)
    out[: len(array)] = array
    return out


@cython.cfunc
@cython.exceptval(check=False)
def _nonzeros(x: cython.double[::1], at: cython.Py_ssize_t[::1], first: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Write the places of what is not 0 in x to `at`, from place `first` on; returns how many they are"""
    if cython.compiled:
        if x.shape[0] == 0 or first == at.shape[0]:
            return 0
        return vec_nonzeros(x.shape[0], cython.address(x[0]), cython.address(at[first]))
    found = np.flatnonzero(x)
    at[first : first + len(found)] = found
    return len(found)


class StageLoop:
    """The stages at one lam, and the point that is being followed. What the attributes are is said in the .pxd file.

    Parameters
    ----------
    A : (m, d) weights of stage 1 at the present lam: changed while a stage is solved, then as before
    aim, W : (m, d) zeros: what the solution of a stage should be near to; the solution
    unit : (m, d) in which that distance is measured
    status, rounds : (m,) of the last solve
    factors : (m d,) penalty factors; entries with 0 or inf are never eased
    usable : (m d,) bytes: whether a column is not constant
    always, orders : (m,) how many features of a task are never penalised, and how many can be independent
    roomy : so many more free features crowd no task
    positive : whether w >= 0 is required
    most : stages of a point
    """

    def __init__(self, A, aim, W, unit, status, rounds, factors, usable, always, orders, roomy, positive, most):
        m, d = A.shape
        shapes = [one.shape for one in (aim, W, unit, status, rounds, factors, usable, always, orders)]
        if shapes != [(m, d)] * 3 + [(m,)] * 2 + [(m * d,)] * 2 + [(m,)] * 2:
            raise ValueError(f"arrays of shapes {shapes} do not fit weights of shape {(m, d)}.")  # nobody looks later
        self.m, self.d = m, d
        self.A, self.aim, self.W, self.unit, self.status, self.rounds = A, aim, W, unit, status, rounds
        self.factors, self.usable, self.always, self.orders = factors, usable, always, orders
        self.roomy, self.positive, self.most = roomy, positive, min(most, sys.maxsize)
        self.ends, self.row_ends, self.mark_ends = np.zeros((3, 16), dtype=np.intp)
        self.before, self.share_of = np.zeros(16, dtype=np.intp), np.zeros(16)
        self.bits, self.any_bits = np.zeros(16 * self.m, dtype=np.intc), np.zeros(16, dtype=np.intc)
        self.at, self.row, self.mark, self.wished, self.kept_at = np.empty((5, 256), dtype=np.intp)
        self.value, self.norm, self.kept_value = np.empty((3, 256))
        self.stages, self.by_row, self.free = np.zeros(16, np.intp), np.zeros(self.d), np.zeros(self.m, np.intp)
        self.places = self.n = self.n_wished = self.kept = 0
        self.reason, self.waiting = 0, False

    # -------------------------------------------------------------- what Python calls

    def begin(
        self,
        at: cython.const[cython.Py_ssize_t][::1],
        values: cython.const[cython.double][::1],
        status: cython.const[cython.int][:],
    ):
        """A new lam, whose stage 1 has these values at flat positions (rising) of W. A is that lam's already."""
        n: cython.Py_ssize_t = at.shape[0]
        p: cython.Py_ssize_t
        self.places = self.n_wished = self.kept = 0
        self.share = 0.0
        for p in range(self.m):
            self.status[p] = status[p]
        self.at, self.value = _larger(self.at, n), _larger(self.value, n)
        for p in range(n):
            self.at[p] = at[p]
            self.value[p] = values[p]
        self.ends[0] = n
        self._keep(ANY)

    def follow(self, theta: cython.double, theta_entry: cython.double, share: cython.double):
        """A new point, from stage 1 on"""
        self.theta, self.theta_entry, self.share = theta, theta_entry, share
        self.stages[0] = 0
        self.n = 1
        self.waiting = False

    def go(self, states: list, go_on: cython.int, max_rounds: cython.Py_ssize_t = 0):
        """Go on with the point; True when it has ended.

        False if tasks of a stage are to be completed: those whose status has a bit that is not in `go_on`, all if there are
        no states. Whoever calls fills W and status, for the weights A and near the aim as they are then, and calls again.
        """
        place: cython.Py_ssize_t
        after: cython.Py_ssize_t
        if self.waiting:
            self._append(self._take(self.stages[self.n - 1]))
        while True:
            place = self.stages[self.n - 1]
            self._find_marks(place)
            if self._ended(place):
                return True
            after = self._known(place)
            if after == UNKNOWN:
                self._ease(place)
                self.waiting = True
                if not self._solve(states, go_on, max_rounds):
                    return False
                after = self._take(place)
            self._append(after)

    def _append(self, place):
        """One more stage of the point"""
        if self.n == self.stages.shape[0]:
            self.stages = _larger(self.stages, self.n + 1)
        self.stages[self.n] = place
        self.n += 1

    def chain(self):
        """The places of the stages of the point, and why it ended"""
        return np.asarray(self.stages[: self.n]).tolist(), self.reason

    def stage(self, p: cython.Py_ssize_t):
        """Positions, values, marks, share and status (m,) of the stage at a place"""
        low: cython.Py_ssize_t = self.ends[p - 1] if p else 0
        first: cython.Py_ssize_t = self.mark_ends[p - 1] if p else 0
        return (
            np.array(self.at[low : self.ends[p]]),
            np.array(self.value[low : self.ends[p]]),
            np.array(self.mark[first : self.mark_ends[p]]),
            self.share_of[p],
            np.array(self.bits[p * self.m : (p + 1) * self.m]),
        )

    def __len__(self):
        return self.places

    # -------------------------------------------------------------- which stage comes next

    def _find_marks(self, place):
        """Which rows of a stage reach theta, which entries theta_entry"""
        low: cython.Py_ssize_t = self.row_ends[place - 1] if place else 0
        first: cython.Py_ssize_t = self.ends[place - 1] if place else 0
        n: cython.Py_ssize_t = 0
        p: cython.Py_ssize_t
        size: cython.Py_ssize_t = self.row_ends[place] - low + self.ends[place] - first
        if size > self.wished.shape[0]:
            self.wished = _larger(self.wished, size)
        if self.share < 1.0:
            for p in range(low, self.row_ends[place]):
                if self.norm[p] >= self.theta:
                    self.wished[n] = self.row[p]
                    n += 1
        if self.share > 0.0:
            for p in range(first, self.ends[place]):
                if self.factors[self.at[p]] * fabs(self.value[p]) >= self.theta_entry:
                    self.wished[n] = self.d + self.at[p]
                    n += 1
        self.n_wished = n

    def _same(self, place):
        """Whether the stage at a place has the marks that are wished for"""
        low: cython.Py_ssize_t = self.mark_ends[place - 1] if place else 0
        if self.mark_ends[place] - low != self.n_wished:
            return False
        if self.n_wished == 0:
            return True
        if self.share_of[place] != self.share:
            return False
        if cython.compiled:
            size: cython.Py_ssize_t = self.n_wished * cython.sizeof(cython.Py_ssize_t)
            return memcmp(cython.address(self.mark[low]), cython.address(self.wished[0]), size) == 0
        return np.array_equal(self.mark[low : low + self.n_wished], self.wished[: self.n_wished])

    def _ended(self, place):
        """Whether the point ends at the stage at a place, and why; the same rules as `stages.ended`"""
        if self.any_bits[place] & OVERRUN:
            self.reason = UNFINISHED
        elif self._same(place):
            self.reason = REPEATS
        elif self._met():
            self.reason = CYCLES
        elif self.n == self.most:
            self.reason = LIMIT
        elif self._crowded():
            self.reason = CROWDED
        else:
            return False
        return True

    def _met(self):
        for t in range(self.n - 1):
            if self._same(self.stages[t]):
                return True
        return False

    def _crowded(self):
        """Whether in most tasks more features would be un-penalised than there are independent samples; if w >= 0 is
        required, that can make such a stage unique all the same. (`by_row` tells which rows are wished for.)"""
        crowd: cython.Py_ssize_t = 0
        i: cython.Py_ssize_t
        p: cython.Py_ssize_t
        entry: cython.Py_ssize_t
        if self.positive or self.n_wished <= self.roomy:
            return False
        for i in range(self.m):
            self.free[i] = self.always[i]
        for p in range(self.n_wished):
            if self.wished[p] < self.d:
                self.by_row[self.wished[p]] = 1.0
                if self.share == 0.0:
                    for i in range(self.m):
                        entry = i * self.d + self.wished[p]
                        if self._eases(entry) and self.usable[entry]:
                            self.free[i] += 1
            else:
                entry = self.wished[p] - self.d
                if (self.share == 1.0 or self.by_row[entry % self.d] != 0.0) and self.usable[entry]:
                    self.free[entry // self.d] += 1
        for p in range(self.n_wished):
            if self.wished[p] < self.d:
                self.by_row[self.wished[p]] = 0.0
        for i in range(self.m):
            crowd += self.free[i] > self.orders[i]
        return 2 * crowd > self.m

    def _eases(self, entry):
        """Whether the weight of an entry can be lowered"""
        return self.factors[entry] > 0.0 and not isinf(self.factors[entry])

    def _known(self, before):
        """The place of the stage wished for, if it has been solved"""
        for p in range(self.places):
            if (self.before[p] == ANY or self.before[p] == before) and self._same(p):
                return p
        return UNKNOWN

    # -------------------------------------------------------------- solving it

    def _ease(self, before):
        """Weights and aim of the stage wished for, after the one before"""
        p: cython.Py_ssize_t
        i: cython.Py_ssize_t
        entry: cython.Py_ssize_t
        size: cython.Py_ssize_t = 0
        low: cython.Py_ssize_t = self.ends[before - 1] if before else 0
        for p in range(self.n_wished):
            size += self.m if self.wished[p] < self.d else 1
        if size > self.kept_at.shape[0]:
            self.kept_at, self.kept_value = _larger(self.kept_at, size), _larger(self.kept_value, size)
        self.kept = 0
        for p in range(self.n_wished):
            if self.wished[p] < self.d:
                for i in range(self.m):
                    entry = i * self.d + self.wished[p]
                    if self._eases(entry):
                        self._set(entry, self.share)  # what is left of its weight
            else:  # a factor of 0 or inf reaches no theta
                entry = self.wished[p] - self.d
                self._set(entry, 0.0 if self._row_is_marked(entry % self.d) else 1.0 - self.share)
        for p in range(low, self.ends[before]):
            self.aim[self.at[p] // self.d, self.at[p] % self.d] = self.value[p]

    def _row_is_marked(self, j):
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.n_wished
        while low < high:  # marks rise
            middle: cython.Py_ssize_t = (low + high) // 2
            if self.wished[middle] < j:
                low = middle + 1
            else:
                high = middle
        return low < self.n_wished and self.wished[low] == j

    def _set(self, entry, left):
        """Leave a share of the weight of an entry, which for a row and its entry may be called twice"""
        i: cython.Py_ssize_t = entry // self.d
        j: cython.Py_ssize_t = entry % self.d
        self.kept_at[self.kept] = entry
        self.kept_value[self.kept] = self.A[i, j]
        self.kept += 1
        self.A[i, j] = 0.0 if left == 0.0 else left * self.A[i, j]

    def _solve(self, states, go_on, max_rounds):
        """Solve all tasks; False if some are to be completed"""
        i: cython.Py_ssize_t
        if not states:
            return False
        solve_all(states, self.A, self.aim, self.unit, self.W, self.status, self.rounds, max_rounds)
        for i in range(self.m):
            if self.status[i] & ~go_on:
                return False
        return True

    def _take(self, before):
        """Take note of the stage that has been solved, and let weights and aim be what they were; returns its place"""
        p: cython.Py_ssize_t
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        end: cython.Py_ssize_t = self.ends[self.places - 1]
        low: cython.Py_ssize_t = self.ends[before - 1] if before else 0
        for p in range(self.kept - 1, -1, -1):
            self.A[self.kept_at[p] // self.d, self.kept_at[p] % self.d] = self.kept_value[p]
        for p in range(low, self.ends[before]):
            self.aim[self.at[p] // self.d, self.at[p] % self.d] = 0.0
        for i in range(self.m):
            if end + self.d > self.at.shape[0]:
                self.at, self.value = _larger(self.at, end + self.d), _larger(self.value, end + self.d)
            used: cython.Py_ssize_t = _nonzeros(self.W[i], self.at, end)
            for p in range(end, end + used):
                j = self.at[p]
                self.at[p] = i * self.d + j
                self.value[p] = self.W[i, j]
            end += used
        self._room()
        self.ends[self.places] = end
        self._keep(before)
        self.waiting = False
        return self.places - 1

    def _room(self):
        """For one more place"""
        if self.places == self.ends.shape[0]:
            size = self.places + 1
            self.ends, self.row_ends = _larger(self.ends, size), _larger(self.row_ends, size)
            self.mark_ends, self.before = _larger(self.mark_ends, size), _larger(self.before, size)
            self.share_of, self.any_bits = _larger(self.share_of, size), _larger(self.any_bits, size)
            self.bits = _larger(self.bits, len(self.ends) * self.m)

    def _keep(self, before):
        """Norms of the rows, marks and status of the stage whose entries have just been noted"""
        place: cython.Py_ssize_t = self.places
        low: cython.Py_ssize_t = self.ends[place - 1] if place else 0
        rows: cython.Py_ssize_t = self.row_ends[place - 1] if place else 0
        marks: cython.Py_ssize_t = self.mark_ends[place - 1] if place else 0
        p: cython.Py_ssize_t
        i: cython.Py_ssize_t
        bits: cython.int = 0
        used: cython.Py_ssize_t = min(self.d, self.ends[place] - low)
        if rows + used > self.row.shape[0]:
            self.row, self.norm = _larger(self.row, rows + used), _larger(self.norm, rows + used)
        if marks + self.n_wished > self.mark.shape[0]:
            self.mark = _larger(self.mark, marks + self.n_wished)
        for p in range(low, self.ends[place]):
            self.by_row[self.at[p] % self.d] += self.factors[self.at[p]] * fabs(self.value[p])
        used = _nonzeros(self.by_row, self.row, rows)
        for p in range(rows, rows + used):
            self.norm[p] = self.by_row[self.row[p]]
            self.by_row[self.row[p]] = 0.0
        rows += used
        for p in range(self.n_wished):
            self.mark[marks + p] = self.wished[p]
        for i in range(self.m):
            self.bits[place * self.m + i] = self.status[i]
            bits |= self.status[i]
        self.row_ends[place] = rows
        self.mark_ends[place] = marks + self.n_wished
        self.share_of[place] = self.share
        self.any_bits[place] = bits
        self.before[place] = before if bits & SLID else ANY
        self.places = place + 1
