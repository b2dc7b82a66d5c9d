# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, infer_types=True
"""The compiled kernel: one task's weighted lasso in Gram form, solved exactly by a block active set.

    min_w  1/2 w'Qw - c'w + sum_j a_j |w_j|,      Q = X'X,  c = X'y,  a_j in [0, inf]

A support with signs has a closed-form minimiser (one solve with the Cholesky factor of Q on that
support). A round adds the features that violate optimality most, solves, drops the entries whose
sign came out wrong, and accepts the result only if the objective fell: otherwise it goes back and
takes guarded single steps (exact line search), which always descend. A feature that depends linearly
on the support cannot be added; it is exchanged along the null direction instead.

The factor is kept between calls, so that a change of weights costs only the features that move.
This file is plain Python: `cython` types make it C. Uncompiled it runs as it stands (Cython must be
importable), which is how the tests look inside it.

Index spaces: a *slot* j < K is a feature whose Gram row is known; a *position* t < k is a place in
the factor. `act` maps positions to slots, `pos` slots to positions (-1: not in the support). With the
full Gram matrix slots are features; with rows on demand `feature` and `slot` translate.
"""

import cython
import numpy as np

if not cython.compiled:
    from math import fabs, sqrt

    INFINITY = float("inf")

PIVOT = cython.declare(cython.double, 1e-12)  # a column with less of its square left is dependent
KKT = cython.declare(cython.double, 1e-11)  # relative excess over a_j that counts as a violation
SHORT = cython.declare(cython.Py_ssize_t, 8)  # below this length a plain loop beats a call
LANES = cython.declare(cython.Py_ssize_t, 8)  # columns that go through the factor together
FULL = cython.declare(cython.Py_ssize_t, 3)  # as many take longer one by one
TILE = cython.declare(cython.Py_ssize_t, 2048)  # entries of a long gradient that stay in the first cache
TIES = cython.declare(cython.Py_ssize_t, 24)  # with more features at their bound the projection is left to Python
WIDE = cython.declare(cython.double, 1e4)  # likewise where column lengths differ by more than this
HUGE = cython.declare(cython.double, 1e300)  # a weight above this excludes the feature
BREATH = cython.declare(cython.Py_ssize_t, 10**7)  # products of numbers, some 2 ms, between two looks for Ctrl-C

# What a solve may report besides success (bits).
OVERRUN = cython.declare(cython.int, 1)  # ran out of rounds: the point returned is feasible but not optimal
SET_ASIDE = cython.declare(cython.int, 2)  # a dependent feature violates optimality and could not be exchanged
TIED = cython.declare(
    cython.int, 4
)  # a feature outside the support is exactly at its bound: the minimiser may not be unique
MISSING = cython.declare(cython.int, 16)  # a feature without a Gram row is needed: fetch it and solve again
WEAK = cython.declare(cython.int, 8)  # the factor has a tiny pivot: the Gram form has lost about half of the digits
SLID = cython.declare(cython.int, 32)  # the minimiser was not unique: the one nearest to the aim was taken
BITS = {
    "OVERRUN": OVERRUN,
    "SET_ASIDE": SET_ASIDE,
    "TIED": TIED,
    "WEAK": WEAK,
    "MISSING": MISSING,
    "SLID": SLID,
}


# ------------------------------------------------------------------ vector operations on flat arrays


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _axpy(
    n: cython.Py_ssize_t,
    alpha: cython.double,
    x: cython.double[::1],
    i: cython.Py_ssize_t,
    y: cython.double[::1],
    j: cython.Py_ssize_t,
) -> cython.void:
    """y[j:j+n] += alpha * x[i:i+n]"""
    if cython.compiled:
        if n < SHORT:
            for t in range(n):
                y[j + t] += alpha * x[i + t]
        else:
            vec_axpy(n, alpha, cython.address(x[i]), cython.address(y[j]))
    else:
        y[j : j + n] += alpha * x[i : i + n]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _dot(
    n: cython.Py_ssize_t,
    x: cython.double[::1],
    i: cython.Py_ssize_t,
    y: cython.double[::1],
    j: cython.Py_ssize_t,
) -> cython.double:
    """x[i:i+n]' y[j:j+n]"""
    total = 0.0
    if cython.compiled:
        if n < SHORT:
            for t in range(n):
                total += x[i + t] * y[j + t]
        else:
            total = vec_dot(n, cython.address(x[i]), cython.address(y[j]))
    else:
        total = float(np.dot(x[i : i + n], y[j : j + n]))
    return total


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _reflect(
    n: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    y: cython.double[::1],
    i: cython.Py_ssize_t,
    X: cython.double[::1],
    j: cython.Py_ssize_t,
    ld: cython.Py_ssize_t,
) -> cython.void:
    """Reflect the rows y[i:i+n] and X[j + a ld:][:n], a < count, so that of the first column only y's entry is left"""
    if cython.compiled:
        vec_reflect(n, count, cython.address(y[i]), cython.address(X[j]), ld)
    else:
        rows = np.array([X[j + a * ld : j + a * ld + n] for a in range(count)])
        old, u = y[i : i + n].copy(), rows[:, 0].copy()
        length = sqrt(old[0] ** 2 + u @ u)
        y[i : i + n] = (old[0] * old + u @ rows) / length
        rows -= np.outer(u / (length + old[0]), old + y[i : i + n])
        for a in range(count):
            X[j + a * ld : j + a * ld + n] = rows[a]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _subtract_rows(
    n: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    weight: cython.double[::1],
    row: cython.int[::1],
    Q: cython.double[::1],
    width: cython.Py_ssize_t,
    low: cython.Py_ssize_t,
    g: cython.double[::1],
) -> cython.void:
    """g[low:low+n] -= sum_t weight[t] Q[row[t], low:low+n] over t < count"""
    t = 0
    if cython.compiled:
        while t + 4 <= count:
            vec_axpy4(
                n,
                -weight[t],
                -weight[t + 1],
                -weight[t + 2],
                -weight[t + 3],
                cython.address(Q[row[t] * width + low]),
                cython.address(Q[row[t + 1] * width + low]),
                cython.address(Q[row[t + 2] * width + low]),
                cython.address(Q[row[t + 3] * width + low]),
                cython.address(g[low]),
            )
            t += 4
    while t < count:
        _axpy(n, -weight[t], Q, row[t] * width + low, g, low)
        t += 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _any_beyond(
    n: cython.Py_ssize_t,
    g: cython.double[::1],
    share: cython.double,
    a: cython.double[::1],
    level: cython.double,
    root: cython.double[::1],
    place: cython.int[::1],
) -> cython.bint:
    """Whether |g_j| > share a_j + level root_j for a j with place[j] < 0: mostly not, and found out in one sweep"""
    found: cython.bint = False
    if cython.compiled:
        if n > 0:
            found = vec_any_beyond(
                n,
                cython.address(g[0]),
                share,
                cython.address(a[0]),
                level,
                cython.address(root[0]),
                cython.address(place[0]),
            )
    else:
        found = bool(((np.abs(g[:n]) > share * a[:n] + level * root[:n]) & (place[:n] < 0)).any())
    return found


@cython.cfunc
def _largest_ratio(c: cython.double[::1], root: cython.double[::1], n: cython.Py_ssize_t) -> cython.double:
    """max_j |c_j| / root_j: the largest correlation, the unit of the tolerances"""
    most: cython.double = 0.0
    for j in range(n):
        if root[j] > 0.0:
            most = max(most, fabs(c[j]) / root[j])
    return most


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _move(x: cython.double[::1], i: cython.Py_ssize_t, j: cython.Py_ssize_t, n: cython.Py_ssize_t) -> cython.void:
    """x[j:j+n] = x[i:i+n], overlapping allowed"""
    if cython.compiled:
        memmove(cython.address(x[j]), cython.address(x[i]), n * cython.sizeof(cython.double))
    else:
        x[j : j + n] = x[i : i + n].copy()


if not cython.compiled:

    def solve_at(state, A, i, aim, unit, W, status, rounds, max_rounds):
        """As in the .pxd file, but for the first argument"""
        status[i] = state._run(A, i, 1.0, aim, unit, max_rounds)
        rounds[i] = state.rounds
        state._write(W, i)
        return state._work()


class ActiveSet:
    """The warm state of one task's weighted lasso: Gram rows of the known features, support, factor.

    Parameters
    ----------
    Q : (capacity, capacity) C-ordered Gram matrix; rows and columns below `size` are filled
    c : (capacity,) correlations X'y of the slots
    root : (capacity,) square roots of the diagonal of Q; 0 marks a constant column, never used
    size : number of slots filled
    order : largest support (no more columns than rows can be independent)
    positive : whether w >= 0 is required
    """

    def __init__(self, Q, c, root, size: cython.Py_ssize_t, order: cython.Py_ssize_t, positive: cython.bint):
        capacity: cython.Py_ssize_t = Q.shape[0]
        self.positive = positive
        self.order = order
        self.k = 0
        self.k_saved = 0
        self.atol = 0.0
        self.rounds = 0
        self.lazy = self.aside = self.restart = self.slid = False
        self.last = self.fresh = self.limit = 0
        self.d = self.K = size
        self.ldq = capacity
        self.Q = Q.reshape(-1)
        self.c = c
        self.root = root
        self.scale = _largest_ratio(self.c, self.root, size)
        self._make_slots(capacity)
        self._make_room(max(min(order, capacity), 1))

    def _make_slots(self, n: cython.Py_ssize_t):
        """Arrays by slot: one buffer, cut up. To be called before `_make_room`"""
        self.ties = min(TIES, n)  # more features than there are cannot be at their bound
        numbers: cython.double[::1] = np.zeros(4 * n + 2 * self.ties * (2 * self.ties + 1))
        marks: cython.int[::1] = np.zeros(3 * n + self.ties, dtype=np.intc)
        self.a, self.g, self.s, self.value = (
            numbers[:n],
            numbers[n : 2 * n],
            numbers[2 * n : 3 * n],
            numbers[3 * n : 4 * n],
        )
        self.H = numbers[4 * n :]
        self.pos, self.flag, self.wait, self.tie = marks[:n], marks[n : 2 * n], marks[2 * n : 3 * n], marks[3 * n :]
        for j in range(n):
            self.pos[j] = -1

    def _make_room(self, n: cython.Py_ssize_t):
        """Arrays by position for supports up to n; the vectors have room for some features tied with them"""
        self.ld = n
        self.U = np.empty(n * n)
        n += self.ties
        numbers: cython.double[::1] = np.zeros(6 * n + self.ties * n)
        marks: cython.int[::1] = np.zeros(6 * n, dtype=np.intc)
        self.w, self.z, self.b = numbers[:n], numbers[n : 2 * n], numbers[2 * n : 3 * n]
        self.x, self.w_saved, self.s_saved = numbers[3 * n : 4 * n], numbers[4 * n : 5 * n], numbers[5 * n : 6 * n]
        self.N = numbers[6 * n :]
        self.act, self.act_saved, self.mark, self.runs = (
            marks[:n],
            marks[n : 2 * n],
            marks[2 * n : 3 * n],
            marks[3 * n :],
        )
        self.X, self.S = np.empty(n * LANES), np.empty(LANES * LANES)
        self.batch = np.zeros(LANES, dtype=np.intc)

    # -------------------------------------------------------------- the Cholesky factor, Q_AA = U'U

    def _forward(self, x):
        """x <- U^-T x (U is row-major, so this walks along rows)"""
        n = self.k
        ld = self.ld
        if cython.compiled and n >= SHORT:
            vec_forward(n, cython.address(self.U[0]), ld, cython.address(x[0]))
            return
        for t in range(n):
            x[t] /= self.U[t * ld + t]
            _axpy(n - t - 1, -x[t], self.U, t * ld + t + 1, x, t + 1)

    def _backward(self, x):
        """x <- U^-1 x"""
        n = self.k
        if cython.compiled and n >= SHORT:
            vec_backward(n, cython.address(self.U[0]), self.ld, cython.address(x[0]))
            return
        for t in range(n - 1, -1, -1):
            x[t] = (x[t] - _dot(n - t - 1, self.U, t * self.ld + t + 1, x, t + 1)) / self.U[t * self.ld + t]

    def _project(self, j):
        """x <- U^-T Q_Aj; returns what the support leaves of column j's square"""
        row = j * self.ldq
        for t in range(self.k):
            self.x[t] = self.Q[row + self.act[t]]
        self._forward(self.x)
        return self.Q[row + j] - _dot(self.k, self.x, 0, self.x, 0)

    def _add(self, j, sign):
        """Append slot j with w_j = 0; refused (False) if it depends on the support"""
        k = self.k
        if k >= self.ld:
            return False
        rest = self._project(j)
        if not rest > PIVOT * self.Q[j * self.ldq + j]:
            return False
        for t in range(k):
            self.U[t * self.ld + k] = self.x[t]
        self.U[k * self.ld + k] = sqrt(rest)
        self.act[k] = j
        self.pos[j] = k
        self.s[j] = sign
        self.w[k] = 0.0
        self.k = k + 1
        return True

    def _add_batch(self, n):
        """The same for the slots batch[:n], n <= LANES, each with its own sign; returns how many are in. The factor is gone
        through once for all of them"""
        k: cython.Py_ssize_t = self.k
        t: cython.Py_ssize_t
        q: cython.Py_ssize_t
        r: cython.Py_ssize_t
        u: cython.Py_ssize_t
        row: cython.Py_ssize_t
        rest: cython.double
        if n < FULL:
            for q in range(n):
                self._add(self.batch[q], self._sign(self.batch[q]))
            return self.k - k
        for q in range(LANES):
            row = self.batch[min(q, n - 1)] * self.ldq
            for t in range(k):
                self.X[t * LANES + q] = self.Q[row + self.act[t]]
        self._forward_lanes()
        # from row k on the factor is that of Q_BB - X'X, B being the slots that are in; x: a slot's column there
        for q in range(n):
            j = self.batch[q]
            row = j * self.ldq
            rest = self.Q[row + j] - self.S[q * LANES + q]
            for r in range(k, self.k):
                self.x[r] = self.Q[row + self.act[r]] - self.S[q * LANES + self.mark[r]]
                for u in range(k, r):
                    self.x[r] -= self.U[u * self.ld + r] * self.x[u]
                self.x[r] /= self.U[r * self.ld + r]
                rest -= self.x[r] * self.x[r]
            if self.k >= self.ld or not rest > PIVOT * self.Q[row + j]:
                continue
            for r in range(k, self.k):
                self.U[r * self.ld + self.k] = self.x[r]
            self.U[self.k * self.ld + self.k] = sqrt(rest)
            self.mark[self.k] = q  # its lane
            self.act[self.k] = j
            self.pos[j] = self.k
            self.s[j] = self._sign(j)
            self.w[self.k] = 0.0
            self.k += 1
        for t in range(k):
            for r in range(k, self.k):
                self.U[t * self.ld + r] = self.X[t * LANES + self.mark[r]]
        for r in range(k, self.k):
            self.mark[r] = 0
        return self.k - k

    def _forward_lanes(self):
        """X <- U^-T X, S <- X'X"""
        k: cython.Py_ssize_t = self.k
        if cython.compiled:
            vec_forward_lanes(
                k, cython.address(self.U[0]), self.ld, cython.address(self.X[0]), cython.address(self.S[0])
            )
        else:
            X = np.asarray(self.X[: k * LANES]).reshape(k, LANES)
            for q in range(LANES):
                column = X[:, q].copy()
                self._forward(column)
                X[:, q] = column
            self.S[: LANES * LANES] = (X.T @ X).ravel()

    def _drop_marked(self):
        """Remove all marked positions: their rows are worked into those below, LANES at a time, then the gaps closed"""
        q = 0
        k = self.k
        ld = self.ld
        older = 0
        n = 0
        for p in range(k - 1, -1, -1):
            if not self.mark[p]:
                continue
            if p < self.fresh:
                older += 1
            for t in range(p + 1, k):
                self.X[n * ld + t] = self.U[p * ld + t]
            self.batch[n] = p
            n += 1
            if n == LANES:
                self._absorb(p, n)
                n = 0
        if n:
            self._absorb(self.batch[n - 1], n)
        runs = self._find_runs()
        first = 0
        for t in range(k):
            if self.mark[t]:
                self.pos[self.act[t]] = -1
                continue
            while self.runs[3 * first + 1] <= t:
                first += 1
            for r in range(first, runs):
                u = max(self.runs[3 * r], t)
                if q != t or self.runs[3 * r + 2]:
                    _move(self.U, t * ld + u, q * ld + u - self.runs[3 * r + 2], self.runs[3 * r + 1] - u)
            self.act[q] = self.act[t]
            self.pos[self.act[q]] = q
            self.w[q] = self.w[t]
            q += 1
        for t in range(k):
            self.mark[t] = 0
        self.k = q
        self.fresh -= older

    def _find_runs(self):
        """Positions that stay and follow on each other: where a run of them begins, ends, by how much it moves up; returns
        how many runs there are"""
        count = 0
        gone = 0
        for t in range(self.k):
            if self.mark[t]:
                gone += 1
                continue
            if t == 0 or self.mark[t - 1]:
                self.runs[3 * count] = t
                self.runs[3 * count + 2] = gone
                count += 1
            self.runs[3 * count - 2] = t + 1
        return count

    def _absorb(self, low, n):
        """Work n rows of the factor that are in X, those of the positions in `batch`, of which `low` is the first, into the
        rows below that stay: these become the factor without the positions"""
        k = self.k
        ld = self.ld
        left: cython.double
        for a in range(n):
            for t in range(low + 1, self.batch[a] + 1):
                self.X[a * ld + t] = 0.0
        for t in range(low + 1, k):
            if self.mark[t]:
                continue
            left = 0.0
            for a in range(n):
                left += fabs(self.X[a * ld + t])
            if left > 0.0:
                _reflect(k - t, n, self.U, t * ld + t, self.X, t, ld)

    # -------------------------------------------------------------- points to go back to

    def _save(self):
        for t in range(self.k):
            self.act_saved[t] = self.act[t]
            self.w_saved[t] = self.w[t]
            self.s_saved[t] = self.s[self.act[t]]
        self.k_saved = self.k
        self.fresh = self.k

    def _restore(self):
        whole = True
        for t in range(self.k_saved):
            self.flag[self.act_saved[t]] = 1
        for t in range(self.k):
            self.mark[t] = not self.flag[self.act[t]]
        self._drop_marked()
        for t in range(self.k_saved):
            j = self.act_saved[t]
            self.flag[j] = 0
            if self.pos[j] < 0 and not self._add(j, self.s_saved[t]):
                whole = False
                continue
            self.w[self.pos[j]] = self.w_saved[t]
            self.s[j] = self.s_saved[t]
        self.fresh = self.k
        return whole

    # -------------------------------------------------------------- steps of the method

    def _free(self, j):
        return self.a[j] == 0.0 and not self.positive

    def _sign(self, j):
        """The sign with which slot j enters; 0: it may take either"""
        if self._free(j):
            return 0.0
        return 1.0 if self.positive or self.g[j] > 0.0 else -1.0

    def _excess(self, j):
        if self.positive:
            return self.g[j] - self.a[j]
        return fabs(self.g[j]) - self.a[j]

    def _adopt(self):
        """Fit the warm support to new weights: excluded and zero entries leave, free features enter"""
        gone = False
        for t in range(self.k):
            j = self.act[t]
            if self.a[j] > HUGE or (self.w[t] == 0.0 and not self._free(j)) or (self.positive and self.w[t] < 0.0):
                self.mark[t] = 1
                gone = True
            self.s[j] = 0.0 if self._free(j) else (1.0 if self.w[t] > 0.0 else -1.0)
        if gone:
            self._drop_marked()
        if self.some_free and not self.positive:
            n = 0
            for j in range(self.K):
                if self.a[j] == 0.0 and self.pos[j] < 0 and self.root[j] > 0.0:
                    self.batch[n] = j
                    n += 1
                    if n == LANES:
                        self._add_batch(n)
                        n = 0
            self._add_batch(n)

    def _minimise(self):
        """z <- minimiser on the support with its signs; returns how many signs come out wrong (marked)"""
        wrong = 0
        for t in range(self.k):
            j = self.act[t]
            self.b[t] = self.c[j] - self.a[j] * self.s[j]
            self.z[t] = self.b[t]
        self._forward(self.z)
        self._backward(self.z)
        for t in range(self.k):
            self.mark[t] = self.z[t] * self.s[self.act[t]] <= 0.0 and self.s[self.act[t]] != 0.0
            wrong += self.mark[t]
        return wrong

    def _block_step(self):
        """Drop the entries marked wrong; newcomers first, since they may have turned the others"""
        new = False
        for t in range(self.fresh, self.k):
            if self.mark[t]:
                new = True
        if new:
            for t in range(self.fresh):
                self.mark[t] = 0
        self._drop_marked()

    def _line_step(self):
        """Exact line search from w towards z over the breakpoints where a marked entry crosses zero.

        Along p = z - w the slope at step r is -(1 - r) |Up|^2 + 2 S; passing entry t adds a_t |p_t| to
        S and flips its sign. Stops where the slope turns positive: at a breakpoint (that entry leaves)
        or between two.
        """
        k = self.k
        curvature = 0.0
        passed = 0.0
        step = 1.0
        leaves = -1
        for t in range(k):
            self.b[t] = self.z[t] - self.w[t]
        for t in range(k):
            row = _dot(k - t, self.U, t * self.ld + t, self.b, t)
            curvature += row * row
        while True:
            best = -1
            here = 2.0
            for t in range(k):
                if self.mark[t]:
                    row = self.w[t] / (self.w[t] - self.z[t]) if self.w[t] != self.z[t] else 0.0
                    if row < here:
                        here = row
                        best = t
            if best < 0 or (passed > 0.0 and -(1.0 - here) * curvature + 2.0 * passed >= 0.0):
                step = 1.0 - 2.0 * passed / curvature
                break
            j = self.act[best]
            self.mark[best] = 0
            if self.positive or -(1.0 - here) * curvature + 2.0 * (passed + self.a[j] * fabs(self.b[best])) >= 0.0:
                leaves = best
                step = here
                break
            passed += self.a[j] * fabs(self.b[best])
            self.s[j] = -self.s[j]
        for t in range(k):
            self.mark[t] = 0
            self.w[t] += step * self.b[t]
        if leaves >= 0:
            self.mark[leaves] = 1
            self._drop_marked()

    def _gradient(self):
        """g = c - Qw on all slots, and the rounding level of its entries per unit of root"""
        size = 0.0
        for j in range(self.K):
            self.g[j] = self.c[j]
        _subtract_rows(self.K, self.k, self.w, self.act, self.Q, self.ldq, 0, self.g)
        for t in range(self.k):
            size += self.root[self.act[t]] * fabs(self.w[t])
        self.atol = max(1e-14 * self.scale, 4e-16 * size)

    def _refine(self):
        """Iterative refinement on the support, until its equations g_A = a_A s_A hold to rounding"""
        for turn in range(3):
            worst = 0.0
            for t in range(self.k):
                j = self.act[t]
                self.x[t] = self.g[j] - self.a[j] * self.s[j]
                worst = max(worst, fabs(self.x[t]) / self.root[j])
            if worst <= self.atol:
                return
            self._forward(self.x)
            self._backward(self.x)
            for t in range(self.k):
                self.w[t] += self.x[t]
            self._gradient()

    def _violators(self):
        """List the slots that violate optimality in `wait`, their excess per unit of root in `value`"""
        n = 0
        if not _any_beyond(self.K, self.g, 1.0, self.a, 0.0, self.root, self.pos):
            return 0
        for j in range(self.K):
            over = self._excess(j)
            if over > 0.0 and self.pos[j] < 0 and not self.flag[j]:
                if over > KKT * self.a[j] + self.atol * self.root[j] and self.root[j] > 0.0:
                    self.wait[n] = j
                    self.value[n] = over / self.root[j]
                    n += 1
        return n

    def _pick(self, n):
        """The place in `wait` of the largest excess not yet taken"""
        best = 0
        for t in range(1, n):
            if self.value[t] > self.value[best]:
                best = t
        return best

    def _enter(self, n, single):
        """Bring violators into the support; False if nothing but setting aside was possible"""
        most = 1 if single else max(8, self.k // 20)
        before = self.k
        top = 0.0
        chosen = 0
        for tried in range(min(most, n)):
            t = self._pick(n)
            if tried == 0:
                top = self.value[t]
            if self.value[t] < 0.1 * top or self.value[t] <= 0.0:
                break
            self.last = self.wait[t]
            self.value[t] = -self.value[t]
            self.batch[chosen] = self.wait[t]
            chosen += 1
            if chosen == LANES:
                self._add_batch(chosen)
                chosen = 0
        self._add_batch(chosen)
        if self.k > before:
            return True
        for t in range(n):
            self.value[t] = fabs(self.value[t])
        for tried in range(n):
            t = self._pick(n)
            j = self.wait[t]
            self.last = j
            if self._add(j, self._sign(j)) or self._exchange(j):
                return True
            self._set_aside()
            self.value[t] = -1.0
        return False

    def _set_aside(self):
        """Leave the last feature tried out for now"""
        self.flag[self.last] = 2
        self.aside = True

    def _recall(self):
        """Let the features that were set aside be tried again"""
        for j in range(self.K):
            self.flag[j] = 0
        self.aside = False

    def _exchange(self, j):
        """Slot j depends on the support: move along the null direction until an entry reaches zero.

        p_A = -s_j U^-1 x, p_j = s_j leaves Xw as it is; the slope of the penalty along it starts at
        a_j - |g_j| < 0 and rises by 2 a_i |p_i| whenever entry i passes zero.
        """
        sign = 1.0 if self.g[j] > 0.0 else -1.0
        slope = -self._excess(j)
        if self.k == 0:
            return False
        self._project(j)
        self._backward(self.x)
        for t in range(self.k):
            self.b[t] = -sign * self.x[t]
            self.z[t] = self.s[self.act[t]]
            self.mark[t] = self.z[t] * self.b[t] < 0.0
        while True:
            best = -1
            here = 0.0
            for t in range(self.k):
                if self.mark[t]:
                    move = -self.w[t] / self.b[t]
                    if best < 0 or move < here:
                        here = move
                        best = t
            if best < 0:
                break
            self.mark[best] = 0
            i = self.act[best]
            slope += 2.0 * self.a[i] * fabs(self.b[best])
            if self.positive or slope >= 0.0:
                break
            self.z[best] = -self.z[best]
        for t in range(self.k):
            self.mark[t] = 0
        if best < 0:
            return False
        for t in range(self.k):
            self.w[t] += here * self.b[t]
            self.s[self.act[t]] = self.z[t]
        self.mark[best] = 1
        self._drop_marked()
        if self._add(j, self._sign(j)):
            self.w[self.k - 1] = here * sign
            return True
        self._restore()
        return False

    # -------------------------------------------------------------- the method

    def _settle(self, single):
        """Minimise over the support until every sign is right; the minimiser is left in z"""
        for turn in range(2 * self.limit + 2 * self.k):
            if self._minimise() == 0:
                return True
            if single:
                self._line_step()
            else:
                self._block_step()
        return False

    def _signs_broken(self):
        """Drop the entries that refinement pushed over zero"""
        broken = False
        for t in range(self.k):
            if self.w[t] * self.s[self.act[t]] <= 0.0 and self.s[self.act[t]] != 0.0:
                self.mark[t] = 1
                broken = True
        if broken:
            self._drop_marked()
        return broken

    def _descend(self, careful):
        """Rounds of minimise, check, add; False when the limit on rounds is reached"""
        start = self.rounds
        single = self.limit if careful else 0  # rounds to go in single steps
        penance = 1
        best = HUGE
        recalled = HUGE
        self._adopt()
        self._save()
        while self.rounds - start < self.limit:
            self.rounds += 1
            # 1. minimise over the support; accept only descent
            if not self._settle(single > 0):
                break
            f = -0.5 * _dot(self.k, self.b, 0, self.z, 0)
            if f < best:
                best = f
                for t in range(self.k):
                    self.w[t] = self.z[t]
            else:
                if not self._restore():
                    break
                if single > 0:  # even a single step gained nothing: what drove it is rounding
                    self._set_aside()
                else:
                    single = penance
                    penance *= 2
            # 2. check optimality
            self._gradient()
            self._refine()
            if self._signs_broken():
                best = HUGE
                self._save()
                continue
            n = self._violators()
            if n == 0 and self.aside and best < recalled:
                recalled = best
                self._recall()
                n = self._violators()
            # 3. bring the worst violators in
            self._save()
            while n > 0 and not self._enter(n, single > 0):
                n = self._violators()
            if n == 0:
                return True
            if single > 0:
                single -= 1
        return False

    def _verdict(self):
        """Which of SET_ASIDE, TIED and WEAK hold at the point reached"""
        status = 0
        near = _any_beyond(self.K, self.g, 1.0 - 2e-10, self.a, -101.0 * self.atol, self.root, self.pos)
        for j in range(self.K if near else 0):
            if self.pos[j] >= 0 or self.root[j] == 0.0 or self.a[j] > HUGE:
                continue
            over = self._excess(j)
            if over > 1e-10 * self.a[j] + 100.0 * self.atol * self.root[j]:
                status |= SET_ASIDE
            if over > -1e-10 * self.a[j] - 100.0 * self.atol * self.root[j]:
                status |= TIED
        for t in range(self.k):
            j = self.act[t]
            if self.U[t * self.ld + t] < 3e-5 * self.root[j]:
                status |= WEAK
        return status

    def _solve(self):
        status = 0
        self.rounds = 0
        self.aside = False
        self.fresh = 0
        if not self._descend(False):
            if self.restart:  # once more from nothing, in single steps
                for t in range(self.k):
                    self.pos[self.act[t]] = -1
                self.k = 0
                self._recall()
                if not self._descend(True):
                    status = OVERRUN
            else:
                status = OVERRUN
            if status:
                self._restore()
                self._gradient()
        if self.aside:
            self._recall()
        return status | self._verdict()

    # -------------------------------------------------------------- what Python calls

    def _limit(self, max_rounds):
        self.restart = max_rounds <= 0
        self.limit = max_rounds if max_rounds > 0 else 20 * self.K + 100

    def begin(self, slots: cython.int[::1], values: cython.double[::1]):
        """Start the next solve from this point; slots that depend on earlier ones are left out"""
        for t in range(self.k):
            self.pos[self.act[t]] = -1
        self.k = 0
        for t in range(slots.shape[0]):
            if self.root[slots[t]] > 0.0 and self._add(slots[t], 1.0 if values[t] > 0.0 else -1.0):
                self.w[self.k - 1] = values[t]

    def attach(self, rows, slot, c, root, g):
        """Work with Gram rows on demand: arrays by feature, slot -1 where the row is not known"""
        self.lazy = True
        self.d = c.shape[0]
        self.slot, self.all_c, self.all_root, self.all_g = slot, c, root, g
        self.all_a = np.full(self.d, INFINITY)
        self.scale = _largest_ratio(self.all_c, self.all_root, self.d)
        self.rows = rows.reshape(-1)

    def grow(self, Q, c, root, rows, feature, size: cython.Py_ssize_t):
        """Go on with `size` slots in the (possibly larger) arrays given; earlier slots are unchanged"""
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
            _subtract_rows(n, self.k, self.w, self.act, self.rows, self.d, low, self.all_g)
            low += n
        if not _any_beyond(self.d, self.all_g, 1.0 - 2e-10, self.all_a, -101.0 * self.atol, self.all_root, self.slot):
            return 0
        for j in range(self.d):
            if self.slot[j] < 0:
                over = (self.all_g[j] if self.positive else fabs(self.all_g[j])) - self.all_a[j]
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
            over[j] = ((self.all_g[j] if self.positive else fabs(self.all_g[j])) - self.all_a[j]) / self.all_root[j]
            if over[j] > 0.0:
                beyond += 1
            if self.all_a[j] == 0.0 and not self.positive:
                over[j] = INFINITY
                free += 1
        return np.asarray(over), count, beyond, free

    # -------------------------------------------------------------- the minimiser nearest to a point

    def _ties(self):
        """Null directions of the features at their bound, one row of N each; -1 where this is not clear-cut"""
        q = 0
        independent = 0
        width = self.ld + self.ties
        for t in range(self.k):
            if self.U[t * self.ld + t] < 1e-3 * self.root[self.act[t]]:
                return -1
        for j in range(self.K):
            if self.pos[j] >= 0 or self.root[j] == 0.0 or self.a[j] > HUGE:
                continue
            if self._excess(j) > -1e-10 * self.a[j] - 100.0 * self.atol * self.root[j]:
                if q == self.ties or independent:
                    return -1
                if self._project(j) > 1e-10 * self.root[j] * self.root[j]:
                    independent = 1  # alone it is no tie, but with others it may be part of one
                    continue
                self._backward(self.x)
                for t in range(self.k):
                    self.N[q * width + t] = -self.x[t]
                for t in range(self.ties):
                    self.N[q * width + self.k + t] = 1.0 if t == q else 0.0
                self.tie[q] = j
                q += 1
        return -1 if independent and q else q

    def _eliminate(self, n):
        """Solve the n x n system in H (rows of n + 1, right-hand side last) in place; False if singular"""
        width = n + 1
        for p in range(n):
            r = p
            for i in range(p + 1, n):
                if fabs(self.H[i * width + p]) > fabs(self.H[r * width + p]):
                    r = i
            if fabs(self.H[r * width + p]) < 1e-9:
                return False
            if r != p:
                for j in range(width):
                    f = self.H[p * width + j]
                    self.H[p * width + j] = self.H[r * width + j]
                    self.H[r * width + j] = f
            for i in range(n):
                if i != p:
                    f = self.H[i * width + p] / self.H[p * width + p]
                    if f != 0.0:
                        for j in range(p, width):
                            self.H[i * width + j] -= f * self.H[p * width + j]
        for p in range(n):
            self.H[p * width + n] /= self.H[p * width + p]
        return True

    def _nearest(self, aim, unit, i):
        """z <- the minimiser nearest to aim[i], |unit * (w - aim)| least, ties after the support; False: left to Python.

        With null directions N of the q ties it is w + N't: least squares in t under s_p (w + N't)_p >= 0 for the
        penalised entries p, by a primal active-set method in the few dimensions of t.
        """
        q = self._ties()
        width = self.ld + self.ties
        n = self.k + q
        held = 0
        size: cython.double = 0.0
        large: cython.double = 0.0
        small: cython.double = HUGE
        f: cython.double
        step: cython.double
        reach: cython.double
        if q <= 0:
            return q == 0
        # z: the entries, b: their signs (0: unconstrained), x: their units, act_saved: held places, s_saved: the move
        for p in range(n):
            j = self.act[p] if p < self.k else self.tie[p - self.k]
            self.z[p] = self.w[p] if p < self.k else 0.0
            self.b[p] = self.s[j] if p < self.k else self._sign(j)
            self.x[p] = unit[i, j]
            f = unit[i, j] / self.root[j]
            small = min(small, f)
            large = max(large, f)
            size = max(size, self.x[p] * max(fabs(self.z[p]), fabs(aim[i, j])))
        if small * WIDE < large:
            return False
        if size == 0.0:
            size = 1.0
        # row lengths of N in the metric, to make the small system well scaled
        for t in range(q):
            f = 0.0
            for p in range(n):
                f += (self.x[p] * self.N[t * width + p]) ** 2
            f = 1.0 / sqrt(f)
            for p in range(n):
                self.N[t * width + p] *= f
        found = False
        for p in range(n):
            self.mark[p] = 0
        for turn in range(20 * (n + 1)):
            # minimise over t with the held entries kept at their value: a KKT system of order q + held
            t = q + held
            for p in range(t * (t + 1)):
                self.H[p] = 0.0
            for t in range(q):
                for r in range(q):
                    f = 0.0
                    for p in range(n):
                        f += self.x[p] * self.x[p] * self.N[t * width + p] * self.N[r * width + p]
                    self.H[t * (q + held + 1) + r] = f
                f = 0.0
                for p in range(n):
                    j = self.act[p] if p < self.k else self.tie[p - self.k]
                    f += self.x[p] * self.x[p] * self.N[t * width + p] * (aim[i, j] - self.z[p])
                self.H[t * (q + held + 1) + q + held] = f
            r = q
            for p in range(n):
                if self.mark[p]:
                    self.act_saved[r - q] = p
                    for t in range(q):
                        self.H[t * (q + held + 1) + r] = -self.x[p] * self.N[t * width + p] * self.b[p]
                        self.H[r * (q + held + 1) + t] = self.x[p] * self.N[t * width + p] * self.b[p]
                    r += 1
            if not self._eliminate(q + held):
                break
            reach = 0.0
            for p in range(n):
                f = 0.0
                for t in range(q):
                    f += self.H[t * (q + held + 1) + q + held] * self.N[t * width + p]
                self.s_saved[p] = 0.0 if self.mark[p] else f
                reach = max(reach, self.x[p] * fabs(self.s_saved[p]))
            if reach <= 1e-12 * size:
                # at the minimum over this face: let go of an entry whose multiplier is negative
                block = -1
                f = -1e-10 * size
                for r in range(held):
                    if self.H[(q + r) * (q + held + 1) + q + held] < f:
                        f = self.H[(q + r) * (q + held + 1) + q + held]
                        block = r
                if block < 0:
                    found = True
                    break
                self.mark[self.act_saved[block]] = 0
                held -= 1
                continue
            step = 1.0
            block = -1
            for p in range(n):
                if self.b[p] * self.s_saved[p] < 0.0 and not self.mark[p]:
                    f = -self.z[p] / self.s_saved[p]
                    if f < step:
                        step = max(f, 0.0)
                        block = p
            for p in range(n):
                self.z[p] += step * self.s_saved[p]
            if block >= 0:
                if held == q:
                    break
                self.z[block] = 0.0
                self.mark[block] = 1
                held += 1
        for p in range(n):
            self.mark[p] = 0
        if not found:
            self._answer()
            return False
        for p in range(n):
            if self.b[p] != 0.0 and self.b[p] * self.x[p] * self.z[p] <= 1e-13 * size:
                self.z[p] = 0.0
            if self.z[p] != (self.w[p] if p < self.k else 0.0):
                self.slid = True
        self.entries = n
        return True

    # -------------------------------------------------------------- one solve, as Python asks for it

    def _run(self, A, i, lam, aim, unit, max_rounds):
        """Solve for the weights lam A[i]; the answer is in z, `entries` long, and the status returned"""
        self._limit(max_rounds)
        self.rounds = 1
        self.entries = 0
        if not self._load(A, i, lam):
            return MISSING
        status = self._solve()
        self._answer()
        if self.lazy:
            return status | self._outside()
        self.slid = False
        if status == TIED and self._nearest(aim, unit, i):
            status = SLID if self.slid else 0
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
    """Solve tasks for all weights lam A, one task after the other, from solve number `begin` to `end` of tasks x lams.

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


def use_registers(width: cython.int) -> cython.int:
    """Use registers of at most 8, 4 or 2 numbers, as machines without wider ones do; returns what was allowed before"""
    before: cython.int = 8
    if cython.compiled:
        global msmtfl_widest
        before = msmtfl_widest
        msmtfl_widest = width
    return before


def column_moments(
    X: cython.const[cython.double][:, :],
    u: cython.double[::1],
    y: cython.double[::1],
    sums: cython.double[::1],
    c: cython.double[::1],
    squares: cython.double[::1],
):
    """sums = X'u, c = X'y and squares = the columns' sums of squares, in one pass over X (C- or Fortran-ordered)"""
    rows = X.shape[0]
    d = X.shape[1]
    i: cython.Py_ssize_t
    if cython.compiled and rows > 0 and d > 0:
        along: cython.Py_ssize_t = _apart(X.strides[1])
        if _apart(X.strides[0]) == 1 and (along or d == 1):
            with cython.nogil:
                vec_columns(
                    rows,
                    d,
                    cython.address(X[0, 0]),
                    along,
                    cython.address(u[0]),
                    cython.address(y[0]),
                    cython.address(sums[0]),
                    cython.address(c[0]),
                    cython.address(squares[0]),
                )
            return
        if X.strides[1] == cython.sizeof(cython.double):
            sums[:] = 0.0
            c[:] = 0.0
            squares[:] = 0.0
            with cython.nogil:
                for i in range(rows):
                    vec_moments(
                        d,
                        u[i],
                        y[i],
                        cython.address(X[i, 0]),
                        cython.address(sums[0]),
                        cython.address(c[0]),
                        cython.address(squares[0]),
                    )
            return
    array = np.asarray(X)
    np.asarray(sums)[:] = np.asarray(u) @ array
    np.asarray(c)[:] = np.asarray(y) @ array
    np.asarray(squares)[:] = np.einsum("ij,ij->j", array, array)


@cython.cfunc
def _apart(stride: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """A stride counted in numbers; 0 if it is not a whole number of them"""
    size: cython.Py_ssize_t = cython.sizeof(cython.double) if cython.compiled else 8
    return stride // size if stride % size == 0 else 0


def gram(
    X: cython.const[cython.double][:, :],
    out: cython.double[:, ::1],
    low: cython.Py_ssize_t = 0,
    high: cython.Py_ssize_t = -1,
):
    """out (d, d) = X'X for an X of any order: rows and columns from low to `high` (d if it is negative), as far as they
    have not been made with lower ones"""
    rows = X.shape[0]
    d = X.shape[1]
    if high < 0:
        high = d
    if not 0 <= low <= high <= d or out.shape[0] != d:
        raise ValueError(f"no part of a Gram matrix of order {d}: {low} to {high} of {out.shape[0]}.")
    if cython.compiled and rows > 0 and low < high:
        down: cython.Py_ssize_t = _apart(X.strides[0])
        along: cython.Py_ssize_t = _apart(X.strides[1])
        by_columns: cython.bint = down == 1 and along >= rows
        if by_columns or (along == 1 and down >= d):
            with cython.nogil:
                cross_products(
                    by_columns,
                    rows,
                    d,
                    cython.address(X[0, 0]),
                    along if by_columns else down,
                    low,
                    high,
                    cython.address(out[0, 0]),
                )
                vec_mirror(d, low, high, cython.address(out[0, 0]))
            return
    array, G = np.asarray(X), np.asarray(out)
    G[:low, low:high] = array[:, :low].T @ array[:, low:high]
    G[low:high, :low] = G[:low, low:high].T
    lower = np.tril(array[:, low:high].T @ array[:, low:high])  # mirrored: not every product with itself is symmetric
    G[low:high, low:high] = lower + np.tril(lower, -1).T


def few_products(
    V: cython.double[:, ::1], X: cython.const[cython.double][:, :], out: cython.double[:, :], most: cython.Py_ssize_t
):
    """out = VX for few vectors V (count, rows), at most `most`, in one pass over a Fortran-ordered X; else by BLAS"""
    count = V.shape[0]
    rows = V.shape[1]
    if cython.compiled and 0 < count <= most and rows > 0 and X.shape[1] > 0:
        along: cython.Py_ssize_t = _apart(X.strides[1])
        of_out: cython.Py_ssize_t = _apart(out.strides[0])
        if _apart(X.strides[0]) == 1 and along and _apart(out.strides[1]) == 1:
            with cython.nogil:
                vec_products(
                    rows,
                    count,
                    cython.address(V[0, 0]),
                    X.shape[1],
                    cython.address(X[0, 0]),
                    along,
                    cython.address(out[0, 0]),
                    of_out,
                )
            return
    np.matmul(V, X, out=np.asarray(out))
