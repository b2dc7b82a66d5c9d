# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
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
the factor. `act` maps positions to slots, `pos` slots to positions (-1: not in the support).
"""

import cython
import numpy as np

if not cython.compiled:
    from math import fabs, sqrt

PIVOT = cython.declare(cython.double, 1e-12)  # a column with less of its square left is dependent
KKT = cython.declare(cython.double, 1e-11)  # relative excess over a_j that counts as a violation
SHORT = cython.declare(cython.Py_ssize_t, 24)  # below this length a plain loop beats a BLAS call
SMALL = cython.declare(cython.Py_ssize_t, 40)  # below this order plain substitution beats dtrsv
TILE = cython.declare(cython.Py_ssize_t, 2048)  # entries of a long gradient that stay in the first cache
HUGE = cython.declare(cython.double, 1e300)  # a weight above this excludes the feature

# What a solve may report besides success (bits).
OVERRUN = cython.declare(cython.int, 1)  # ran out of rounds: the point returned is feasible but not optimal
SET_ASIDE = cython.declare(cython.int, 2)  # a dependent feature violates optimality and could not be exchanged
TIED = cython.declare(cython.int, 4)  # a feature outside the support is exactly at its bound: the minimiser may not be unique
WEAK = cython.declare(cython.int, 8)  # the factor has a tiny pivot: the Gram form has lost about half of the digits
BITS = {"OVERRUN": OVERRUN, "SET_ASIDE": SET_ASIDE, "TIED": TIED, "WEAK": WEAK}


# ------------------------------------------------------------------ vector operations on flat arrays


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _axpy(
    n: cython.int, alpha: cython.double, x: cython.double[::1], i: cython.Py_ssize_t,
    y: cython.double[::1], j: cython.Py_ssize_t,
) -> cython.void:
    """y[j:j+n] += alpha * x[i:i+n]"""
    t: cython.Py_ssize_t
    one: cython.int = 1
    if cython.compiled:
        if n < SHORT:
            for t in range(n):
                y[j + t] += alpha * x[i + t]
        else:
            daxpy(cython.address(n), cython.address(alpha), cython.address(x[i]), cython.address(one),
                  cython.address(y[j]), cython.address(one))
    else:
        y[j : j + n] += alpha * x[i : i + n]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _dot(
    n: cython.int, x: cython.double[::1], i: cython.Py_ssize_t, y: cython.double[::1], j: cython.Py_ssize_t
) -> cython.double:
    """x[i:i+n]' y[j:j+n]"""
    t: cython.Py_ssize_t
    one: cython.int = 1
    total: cython.double = 0.0
    if cython.compiled:
        if n < SHORT:
            for t in range(n):
                total += x[i + t] * y[j + t]
        else:
            total = ddot(cython.address(n), cython.address(x[i]), cython.address(one),
                         cython.address(y[j]), cython.address(one))
    else:
        total = np.dot(x[i : i + n], y[j : j + n])
    return total


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _rotate(
    n: cython.int, x: cython.double[::1], i: cython.Py_ssize_t, y: cython.double[::1], j: cython.Py_ssize_t,
    cs: cython.double, sn: cython.double,
) -> cython.void:
    """(x, y) <- (cs x + sn y, cs y - sn x) over n entries from x[i] and y[j]"""
    t: cython.Py_ssize_t
    one: cython.int = 1
    old: cython.double
    if cython.compiled:
        if n < SHORT:
            for t in range(n):
                old = x[i + t]
                x[i + t] = cs * old + sn * y[j + t]
                y[j + t] = cs * y[j + t] - sn * old
        else:
            drot(cython.address(n), cython.address(x[i]), cython.address(one), cython.address(y[j]),
                 cython.address(one), cython.address(cs), cython.address(sn))
    else:
        kept = x[i : i + n].copy()
        x[i : i + n] = cs * kept + sn * y[j : j + n]
        y[j : j + n] = cs * y[j : j + n] - sn * kept


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


@cython.cclass
class ActiveSet:
    """The warm state of one task's weighted lasso: Gram rows of the known features, support, factor.

    Parameters
    ----------
    Q : (capacity, capacity) C-ordered Gram matrix; rows and columns below `size` are filled
    c : (capacity,) correlations X'y of the slots
    root : (capacity,) square roots of the diagonal of Q; 0 marks a constant column, never used
    size : number of slots filled
    order : largest support (no more columns than rows can be independent)
    scale : max_j |c_j| / root_j over *all* features, the unit of the tolerances
    positive : whether w >= 0 is required
    """

    K: cython.Py_ssize_t  # slots known
    k: cython.Py_ssize_t  # support size
    ldq: cython.Py_ssize_t
    ld: cython.Py_ssize_t
    positive: cython.bint
    scale: cython.double
    atol: cython.double
    aside: cython.bint
    last: cython.Py_ssize_t  # the feature tried last, and its excess then
    last_excess: cython.double
    rounds: cython.Py_ssize_t
    limit: cython.Py_ssize_t
    restart: cython.bint
    fresh: cython.Py_ssize_t  # positions from here on were added in this round
    k_saved: cython.Py_ssize_t
    Q: cython.double[::1]
    c: cython.double[::1]
    root: cython.double[::1]
    a: cython.double[::1]
    g: cython.double[::1]
    s: cython.double[::1]
    U: cython.double[::1]
    w: cython.double[::1]
    z: cython.double[::1]
    b: cython.double[::1]
    x: cython.double[::1]
    w_saved: cython.double[::1]
    s_saved: cython.double[::1]
    value: cython.double[::1]
    act: cython.int[::1]
    pos: cython.int[::1]
    act_saved: cython.int[::1]
    mark: cython.int[::1]
    wait: cython.int[::1]
    flag: cython.int[::1]

    def __init__(self, Q, c, root, size: cython.Py_ssize_t, order: cython.Py_ssize_t, scale: cython.double,
                 positive: cython.bint):
        capacity = Q.shape[0]
        self.ldq = capacity
        self.K = size
        self.k = 0
        self.k_saved = 0
        self.ld = max(min(order, capacity), 1)
        self.positive = positive
        self.scale = scale
        self.atol = 0.0
        self.rounds = 0
        self.Q = Q.reshape(-1)
        self.c = c
        self.root = root
        slots = np.zeros((4, capacity))
        self.a, self.g, self.s, self.value = slots[0], slots[1], slots[2], slots[3]
        self.pos = np.full(capacity, -1, dtype=np.intc)
        marks = np.zeros((2, capacity), dtype=np.intc)
        self.flag, self.wait = marks[0], marks[1]
        self.U = np.empty(self.ld * self.ld)
        places = np.zeros((6, self.ld))
        self.w, self.z, self.b, self.x = places[0], places[1], places[2], places[3]
        self.w_saved, self.s_saved = places[4], places[5]
        ints = np.zeros((3, self.ld), dtype=np.intc)
        self.act, self.act_saved, self.mark = ints[0], ints[1], ints[2]

    # -------------------------------------------------------------- the Cholesky factor, Q_AA = U'U

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _forward(self, x: cython.double[::1]) -> cython.void:
        """x <- U^-T x (U is row-major, so this walks along rows)"""
        t: cython.Py_ssize_t
        n: cython.int = self.k
        ld: cython.int = self.ld
        one: cython.int = 1
        if cython.compiled and n > SMALL:
            dtrsv(b"L", b"N", b"N", cython.address(n), cython.address(self.U[0]), cython.address(ld),
                  cython.address(x[0]), cython.address(one))
            return
        for t in range(n):
            x[t] /= self.U[t * self.ld + t]
            _axpy(n - t - 1, -x[t], self.U, t * self.ld + t + 1, x, t + 1)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _backward(self, x: cython.double[::1]) -> cython.void:
        """x <- U^-1 x"""
        t: cython.Py_ssize_t
        n: cython.int = self.k
        ld: cython.int = self.ld
        one: cython.int = 1
        if cython.compiled and n > SMALL:
            dtrsv(b"L", b"T", b"N", cython.address(n), cython.address(self.U[0]), cython.address(ld),
                  cython.address(x[0]), cython.address(one))
            return
        for t in range(n - 1, -1, -1):
            x[t] = (x[t] - _dot(n - t - 1, self.U, t * self.ld + t + 1, x, t + 1)) / self.U[t * self.ld + t]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _project(self, j: cython.Py_ssize_t) -> cython.double:
        """x <- U^-T Q_Aj; returns what the support leaves of column j's square"""
        t: cython.Py_ssize_t
        row: cython.Py_ssize_t = j * self.ldq
        for t in range(self.k):
            self.x[t] = self.Q[row + self.act[t]]
        self._forward(self.x)
        return self.Q[row + j] - _dot(self.k, self.x, 0, self.x, 0)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _add(self, j: cython.Py_ssize_t, sign: cython.double) -> cython.bint:
        """Append slot j with w_j = 0; refused (False) if it depends on the support"""
        t: cython.Py_ssize_t
        rest: cython.double
        k: cython.Py_ssize_t = self.k
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

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _drop_marked(self) -> cython.void:
        """Remove all marked positions: a rank-one update per row removed, then one closing of the gaps"""
        p: cython.Py_ssize_t
        t: cython.Py_ssize_t
        u: cython.Py_ssize_t
        v: cython.Py_ssize_t
        q: cython.Py_ssize_t = 0
        to: cython.Py_ssize_t
        k: cython.Py_ssize_t = self.k
        ld: cython.Py_ssize_t = self.ld
        older: cython.Py_ssize_t = 0
        h: cython.double
        top: cython.double
        for p in range(k - 1, -1, -1):
            if not self.mark[p]:
                continue
            if p < self.fresh:
                older += 1
            for t in range(p + 1, k):
                self.x[t] = self.U[p * ld + t]
            for t in range(p + 1, k):
                if self.mark[t] or self.x[t] == 0.0:
                    continue
                top = self.U[t * ld + t]
                h = sqrt(top * top + self.x[t] * self.x[t])
                _rotate(k - t, self.U, t * ld + t, self.x, t, top / h, self.x[t] / h)
        for t in range(k):
            if self.mark[t]:
                self.pos[self.act[t]] = -1
                continue
            to = q
            u = t
            while u < k:
                if self.mark[u]:
                    u += 1
                    continue
                v = u
                while v < k and not self.mark[v]:
                    v += 1
                if q != t or to != u:
                    _move(self.U, t * ld + u, q * ld + to, v - u)
                to += v - u
                u = v
            self.act[q] = self.act[t]
            self.pos[self.act[q]] = q
            self.w[q] = self.w[t]
            q += 1
        for t in range(k):
            self.mark[t] = 0
        self.k = q
        self.fresh -= older

    # -------------------------------------------------------------- points to go back to

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _save(self) -> cython.void:
        t: cython.Py_ssize_t
        for t in range(self.k):
            self.act_saved[t] = self.act[t]
            self.w_saved[t] = self.w[t]
            self.s_saved[t] = self.s[self.act[t]]
        self.k_saved = self.k
        self.fresh = self.k

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _restore(self) -> cython.bint:
        t: cython.Py_ssize_t
        j: cython.Py_ssize_t
        whole: cython.bint = True
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

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _free(self, j: cython.Py_ssize_t) -> cython.bint:
        return self.a[j] == 0.0 and not self.positive

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _sign(self, j: cython.Py_ssize_t) -> cython.double:
        """The sign with which slot j enters; 0: it may take either"""
        if self._free(j):
            return 0.0
        return 1.0 if self.g[j] > 0.0 else -1.0

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _excess(self, j: cython.Py_ssize_t) -> cython.double:
        if self.positive:
            return self.g[j] - self.a[j]
        return fabs(self.g[j]) - self.a[j]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _adopt(self) -> cython.void:
        """Fit the warm support to new weights: excluded and zero entries leave, free features enter"""
        t: cython.Py_ssize_t
        j: cython.Py_ssize_t
        gone: cython.bint = False
        for t in range(self.k):
            j = self.act[t]
            if (
                self.a[j] > HUGE
                or (self.w[t] == 0.0 and not self._free(j))
                or (self.positive and self.w[t] < 0.0)
            ):
                self.mark[t] = 1
                gone = True
            self.s[j] = 0.0 if self._free(j) else (1.0 if self.w[t] > 0.0 else -1.0)
        if gone:
            self._drop_marked()
        if not self.positive:
            for j in range(self.K):
                if self.a[j] == 0.0 and self.pos[j] < 0 and self.root[j] > 0.0:
                    self._add(j, 0.0)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _minimise(self) -> cython.Py_ssize_t:
        """z <- minimiser on the support with its signs; returns how many signs come out wrong (marked)"""
        t: cython.Py_ssize_t
        j: cython.Py_ssize_t
        wrong: cython.Py_ssize_t = 0
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

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _block_step(self) -> cython.void:
        """Drop the entries marked wrong; newcomers first, since they may have turned the others"""
        t: cython.Py_ssize_t
        new: cython.bint = False
        for t in range(self.fresh, self.k):
            if self.mark[t]:
                new = True
        if new:
            for t in range(self.fresh):
                self.mark[t] = 0
        self._drop_marked()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _line_step(self) -> cython.void:
        """Exact line search from w towards z over the breakpoints where a marked entry crosses zero.

        Along p = z - w the slope at step r is -(1 - r) |Up|^2 + 2 S; passing entry t adds a_t |p_t| to
        S and flips its sign. Stops where the slope turns positive: at a breakpoint (that entry leaves)
        or between two.
        """
        t: cython.Py_ssize_t
        best: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t = self.k
        curvature: cython.double = 0.0
        passed: cython.double = 0.0
        step: cython.double = 1.0
        here: cython.double
        row: cython.double
        leaves: cython.Py_ssize_t = -1
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

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _gradient(self) -> cython.void:
        """g = c - Qw on all slots, and the rounding level of its entries per unit of root"""
        t: cython.Py_ssize_t
        j: cython.Py_ssize_t
        size: cython.double = 0.0
        for j in range(self.K):
            self.g[j] = self.c[j]
        for t in range(self.k):
            j = self.act[t]
            _axpy(self.K, -self.w[t], self.Q, j * self.ldq, self.g, 0)
            size += self.root[j] * fabs(self.w[t])
        self.atol = max(1e-14 * self.scale, 4e-16 * size)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _refine(self) -> cython.void:
        """Iterative refinement on the support, until its equations g_A = a_A s_A hold to rounding"""
        t: cython.Py_ssize_t
        j: cython.Py_ssize_t
        turn: cython.Py_ssize_t
        worst: cython.double
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

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _violators(self) -> cython.Py_ssize_t:
        """List the slots that violate optimality in `wait`, their excess per unit of root in `value`"""
        j: cython.Py_ssize_t
        n: cython.Py_ssize_t = 0
        over: cython.double
        for j in range(self.K):
            over = self._excess(j)
            if over > 0.0 and self.pos[j] < 0 and not self.flag[j]:
                if over > KKT * self.a[j] + self.atol * self.root[j] and self.root[j] > 0.0:
                    self.wait[n] = j
                    self.value[n] = over / self.root[j]
                    n += 1
        return n

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _pick(self, n: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The place in `wait` of the largest excess not yet taken"""
        t: cython.Py_ssize_t
        best: cython.Py_ssize_t = 0
        for t in range(1, n):
            if self.value[t] > self.value[best]:
                best = t
        return best

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _enter(self, n: cython.Py_ssize_t, single: cython.bint) -> cython.bint:
        """Bring violators into the support; False if nothing but setting aside was possible"""
        t: cython.Py_ssize_t
        j: cython.Py_ssize_t
        most: cython.Py_ssize_t = 1 if single else max(8, self.k // 20)
        added: cython.Py_ssize_t = 0
        tried: cython.Py_ssize_t
        top: cython.double = 0.0
        for tried in range(min(most, n)):
            t = self._pick(n)
            if tried == 0:
                top = self.value[t]
            if self.value[t] < 0.1 * top or self.value[t] <= 0.0:
                break
            j = self.wait[t]
            self.last = j
            self.last_excess = self.value[t]
            self.value[t] = -self.value[t]
            if self._add(j, self._sign(j)):
                added += 1
        if added:
            return True
        for t in range(n):
            self.value[t] = fabs(self.value[t])
        for tried in range(n):
            t = self._pick(n)
            j = self.wait[t]
            self.last = j
            self.last_excess = self.value[t]
            if self._add(j, self._sign(j)) or self._exchange(j):
                return True
            self._set_aside()
            self.value[t] = -1.0
        return False

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _set_aside(self) -> cython.void:
        """Leave the last feature tried out for now"""
        self.flag[self.last] = 2
        self.aside = True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _recall(self) -> cython.void:
        """Let the features that were set aside be tried again"""
        j: cython.Py_ssize_t
        for j in range(self.K):
            self.flag[j] = 0
        self.aside = False

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _exchange(self, j: cython.Py_ssize_t) -> cython.bint:
        """Slot j depends on the support: move along the null direction until an entry reaches zero.

        p_A = -s_j U^-1 x, p_j = s_j leaves Xw as it is; the slope of the penalty along it starts at
        a_j - |g_j| < 0 and rises by 2 a_i |p_i| whenever entry i passes zero.
        """
        t: cython.Py_ssize_t
        i: cython.Py_ssize_t
        best: cython.Py_ssize_t
        sign: cython.double = 1.0 if self.g[j] > 0.0 else -1.0
        slope: cython.double = -self._excess(j)
        here: cython.double
        move: cython.double
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

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _settle(self, single: cython.bint) -> cython.bint:
        """Minimise over the support until every sign is right; the minimiser is left in z"""
        turn: cython.Py_ssize_t
        for turn in range(2 * self.limit + 2 * self.k):
            if self._minimise() == 0:
                return True
            if single:
                self._line_step()
            else:
                self._block_step()
        return False

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _signs_broken(self) -> cython.bint:
        """Drop the entries that refinement pushed over zero"""
        t: cython.Py_ssize_t
        broken: cython.bint = False
        for t in range(self.k):
            if self.w[t] * self.s[self.act[t]] <= 0.0 and self.s[self.act[t]] != 0.0:
                self.mark[t] = 1
                broken = True
        if broken:
            self._drop_marked()
        return broken

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _descend(self, careful: cython.bint) -> cython.bint:
        """Rounds of minimise, check, add; False when the limit on rounds is reached"""
        t: cython.Py_ssize_t
        n: cython.Py_ssize_t
        start: cython.Py_ssize_t = self.rounds
        single: cython.Py_ssize_t = self.limit if careful else 0  # rounds to go in single steps
        penance: cython.Py_ssize_t = 1
        f: cython.double
        best: cython.double = HUGE
        recalled: cython.double = HUGE
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

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _verdict(self) -> cython.int:
        """Which of SET_ASIDE, TIED and WEAK hold at the point reached"""
        j: cython.Py_ssize_t
        t: cython.Py_ssize_t
        status: cython.int = 0
        over: cython.double
        for j in range(self.K):
            if self.pos[j] >= 0 or self.root[j] == 0.0 or self.a[j] > HUGE:
                continue
            over = self._excess(j)
            if over > 1e-10 * self.a[j] + 100.0 * self.atol * self.root[j]:
                status |= SET_ASIDE
            if over > -1e-10 * self.a[j] - 10.0 * self.atol * self.root[j]:
                status |= TIED
        for t in range(self.k):
            j = self.act[t]
            if self.U[t * self.ld + t] < 3e-5 * self.root[j]:
                status |= WEAK
        return status

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _solve(self) -> cython.int:
        t: cython.Py_ssize_t
        status: cython.int = 0
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

    def solve(self, a: cython.double[::1], max_rounds: cython.Py_ssize_t = 0) -> int:
        """Solve for the weights a (size,), starting from the last solution; returns the status bits"""
        status: cython.int
        j: cython.Py_ssize_t
        self._limit(max_rounds)
        with cython.nogil:
            for j in range(self.K):
                self.a[j] = a[j]
            status = self._solve()
        return status

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _limit(self, max_rounds: cython.Py_ssize_t) -> cython.void:
        self.restart = max_rounds <= 0
        self.limit = max_rounds if max_rounds > 0 else 20 * self.K + 100

    def begin(self, slots: cython.int[::1], values: cython.double[::1]):
        """Start the next solve from this point; slots that depend on earlier ones are left out"""
        t: cython.Py_ssize_t
        for t in range(self.k):
            self.pos[self.act[t]] = -1
        self.k = 0
        for t in range(slots.shape[0]):
            if self.root[slots[t]] > 0.0 and self._add(slots[t], 1.0 if values[t] > 0.0 else -1.0):
                self.w[self.k - 1] = values[t]

    def grow(self, Q, c, root, size: cython.Py_ssize_t):
        """Go on with `size` slots in the (possibly larger) arrays given; earlier slots are unchanged"""
        capacity = Q.shape[0]
        if capacity != self.ldq:
            old = int(self.ldq)
            slots = np.zeros((4, capacity))
            slots[2, :old] = self.s
            pos = np.full(capacity, -1, dtype=np.intc)
            pos[:old] = self.pos
            marks = np.zeros((2, capacity), dtype=np.intc)
            self.a, self.g, self.s, self.value = slots[0], slots[1], slots[2], slots[3]
            self.pos, self.flag, self.wait = pos, marks[0], marks[1]
        self.ldq = capacity
        self.Q = Q.reshape(-1)
        self.c = c
        self.root = root
        self.K = size

    def support(self):
        """(slots, values) of the solution"""
        k = int(self.k)
        return np.array(self.act[:k]), np.array(self.w[:k])

    @property
    def n_rounds(self):
        return self.rounds

    @property
    def size(self):
        return self.K

    def outside(
        self, G: cython.double[:, ::1], c: cython.double[::1], a: cython.double[::1], root: cython.double[::1],
        slot: cython.int[::1], g: cython.double[::1],
    ) -> int:
        """g <- c - Gw for all features, from the slots' Gram rows G (slots, features).

        Returns 2 when a feature without a slot violates optimality, else TIED when one is exactly at
        its bound, else 0.
        """
        t: cython.Py_ssize_t
        j: cython.Py_ssize_t
        low: cython.Py_ssize_t = 0
        n: cython.Py_ssize_t
        d: cython.Py_ssize_t = c.shape[0]
        width: cython.Py_ssize_t = G.shape[1]
        over: cython.double
        found: cython.int = 0
        flat: cython.double[::1] = _flat(G)
        with cython.nogil:
            for j in range(d):
                g[j] = c[j]
            while low < d:
                n = min(TILE, d - low)
                for t in range(self.k):
                    _axpy(n, -self.w[t], flat, self.act[t] * width + low, g, low)
                low += n
            for j in range(d):
                if slot[j] < 0:
                    over = (g[j] if self.positive else fabs(g[j])) - a[j]
                    if over > -1e-10 * a[j] - 10.0 * self.atol * root[j] and root[j] > 0.0:
                        found |= TIED
                        if over > KKT * a[j] + self.atol * root[j]:
                            found |= SET_ASIDE
        return found


def _flat(G):
    return np.asarray(G).reshape(-1)


def solve_all(
    states: list, A: cython.double[:, ::1], W: cython.double[:, ::1], status: cython.int[::1],
    rounds: cython.int[::1], max_rounds: cython.Py_ssize_t = 0,
):
    """Solve many tasks whose slots are all their features: weights A (tasks, d) -> coefficients W"""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    t: cython.Py_ssize_t
    state: ActiveSet
    for i in range(len(states)):
        state = states[i]
        with cython.nogil:
            state._limit(max_rounds)
            for j in range(state.K):
                state.a[j] = A[i, j]
                W[i, j] = 0.0
            status[i] = state._solve()
            rounds[i] = state.rounds
            for t in range(state.k):
                W[i, state.act[t]] = state.w[t]
