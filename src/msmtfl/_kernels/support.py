# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, infer_types=True, freethreading_compatible=True
"""One task's problem in Gram form, and the Cholesky factor of a support of it that grows and shrinks.

    min_w  1/2 w'Qw - c'w + sum_j a_j |w_j|,      Q = X'X,  c = X'y,  a_j in [0, inf]

To the diagonal of Q a ridge can be added, level * ridge_j, without touching Q, which others may use.
A support is a set of features with signs and values; its Gram matrix is kept as Q_AA = U'U. Features are
added one or LANES at a time, and refused if they depend on those that are in; any number of them is
dropped at once. A support can be saved and gone back to.

Index spaces: a *slot* j < K is a feature whose Gram row is known; a *position* t < k is a place in
the factor. `act` maps positions to slots, `pos` slots to positions (-1: not in the support). With the
full Gram matrix slots are features; with rows on demand (`active_set.py`) they are not.

This file is plain Python: `cython` types make it C.
"""

import cython
import numpy as np

from . import constants

if not cython.compiled:
    from math import fabs, sqrt

    from .vectors import axpy, dot, entry_sign, largest_ratio, move

LANES = cython.declare(cython.Py_ssize_t, constants.LANES)
PIVOT = cython.declare(cython.double, constants.PIVOT)
FULL = cython.declare(cython.Py_ssize_t, 3)  # as many take longer one by one
TIES = cython.declare(cython.Py_ssize_t, 24)  # with more features at their bound the projection is left to Python


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


class Support:
    """One task's weighted lasso, and a support with its factor. What the attributes are is said in the .pxd file.

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
        self.k = self.k_saved = self.fresh = self.entries = 0
        self.atol = 0.0
        self.K = size
        self.ldq = capacity
        self.Q = Q.reshape(-1)
        self.c = c
        self.root = root
        self.ridge, self.level, self.outdated = np.empty(0), 0.0, False
        self.level_of_g = self.level_before = 0.0
        self.scale = largest_ratio(self.c, self.root, size)
        self._make_slots(capacity)
        self._make_room(max(min(order, capacity), 1))

    def _make_slots(self, n: cython.Py_ssize_t):
        """Arrays by slot: one buffer, cut up. To be called before `_make_room`"""
        self.ties = min(TIES, n)  # more features than there are cannot be at their bound
        numbers: cython.double[::1] = np.zeros(5 * n + 2 * self.ties * (2 * self.ties + 1))
        marks: cython.int[::1] = np.zeros(3 * n + self.ties, dtype=np.intc)
        self.a, self.g, self.s, self.value = (
            numbers[:n],
            numbers[n : 2 * n],
            numbers[2 * n : 3 * n],
            numbers[3 * n : 4 * n],
        )
        self.g_before, self.H = numbers[4 * n : 5 * n], numbers[5 * n :]
        self.pos, self.flag, self.wait, self.tie = marks[:n], marks[n : 2 * n], marks[2 * n : 3 * n], marks[3 * n :]
        for j in range(n):
            self.pos[j] = -1

    def _make_room(self, n: cython.Py_ssize_t):
        """A factor for supports up to n, and what goes with it"""
        self._make_places(n)
        self.U = np.empty(n * n)
        self.X, self.S = np.empty((n + self.ties) * LANES), np.empty(LANES * LANES)

    def _make_places(self, n: cython.Py_ssize_t):
        """Arrays by position for supports up to n, with room for some features tied with them"""
        self.ld = n
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
            axpy(n - t - 1, -x[t], self.U, t * ld + t + 1, x, t + 1)

    def _backward(self, x):
        """x <- U^-1 x"""
        n = self.k
        if cython.compiled and n >= SHORT:
            vec_backward(n, cython.address(self.U[0]), self.ld, cython.address(x[0]))
            return
        for t in range(n - 1, -1, -1):
            x[t] = (x[t] - dot(n - t - 1, self.U, t * self.ld + t + 1, x, t + 1)) / self.U[t * self.ld + t]

    def _solve_on_support(self, x):
        """x <- Q_AA^-1 x"""
        self._forward(x)
        self._backward(x)

    def _square(self, j):
        """Column j's square, with its ridge"""
        square: cython.double = self.Q[j * self.ldq + j]
        if self.level != 0.0:
            square += self.level * self.ridge[j]
        return square

    def _project(self, j):
        """x <- U^-T Q_Aj; returns what the support leaves of column j's square"""
        row = j * self.ldq
        for t in range(self.k):
            self.x[t] = self.Q[row + self.act[t]]
        self._forward(self.x)
        return self._square(j) - dot(self.k, self.x, 0, self.x, 0)

    def _add(self, j, sign):
        """Append slot j with w_j = 0; refused (False) if it depends on the support"""
        k = self.k
        if k >= self.ld:
            return False
        rest = self._project(j)
        if not rest > PIVOT * self._square(j):
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
                j = self.batch[q]
                self._add(j, entry_sign(self.positive, self.g[j], self.a[j]))
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
            rest = self._square(j) - self.S[q * LANES + q]
            for r in range(k, self.k):
                self.x[r] = self.Q[row + self.act[r]] - self.S[q * LANES + self.mark[r]]
                for u in range(k, r):
                    self.x[r] -= self.U[u * self.ld + r] * self.x[u]
                self.x[r] /= self.U[r * self.ld + r]
                rest -= self.x[r] * self.x[r]
            if self.k >= self.ld or not rest > PIVOT * self._square(j):
                continue
            for r in range(k, self.k):
                self.U[r * self.ld + self.k] = self.x[r]
            self.U[self.k * self.ld + self.k] = sqrt(rest)
            self.mark[self.k] = q  # its lane
            self.act[self.k] = j
            self.pos[j] = self.k
            self.s[j] = entry_sign(self.positive, self.g[j], self.a[j])
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
                    move(self.U, t * ld + u, q * ld + u - self.runs[3 * r + 2], self.runs[3 * r + 1] - u)
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

    def _curvature(self, x):
        """x'Q_AA x"""
        total: cython.double = 0.0
        for t in range(self.k):
            row = dot(self.k - t, self.U, t * self.ld + t, x, t)
            total += row * row
        return total

    def _weak(self, level):
        """Whether a feature in the support is so near to the others that less than this share of its length is left"""
        for t in range(self.k):
            if self.U[t * self.ld + t] < level * self.root[self.act[t]]:
                return True
        return False

    # -------------------------------------------------------------- the ridge

    def _add_ridge_to_gradient(self):
        """g <- g less the ridge times w"""
        if self.level != 0.0:
            for t in range(self.k):
                j = self.act[t]
                self.g[j] -= self.level * self.ridge[j] * self.w[t]

    def _set_level(self, level):
        """Change the ridge, between two solves: the next one makes the factor anew"""
        if level != self.level:
            self.level = level
            self.outdated = True

    def _renew(self):
        """The factor of the support with the ridge as it is now"""
        k: cython.Py_ssize_t = self.k
        t: cython.Py_ssize_t
        self.outdated = False
        if k == 0 or self._factor_anew():
            return
        self._save()  # with less of a ridge some depend on others
        for t in range(k):
            self.pos[self.act[t]] = -1
        self.k = 0
        for t in range(k):
            if self._add(self.act_saved[t], self.s_saved[t]):
                self.w[self.k - 1] = self.w_saved[t]

    def _factor_anew(self):
        """The factor of the support from the Gram matrix; False if something in it depends on the rest"""
        k: cython.Py_ssize_t = self.k
        done: cython.bint = False
        if cython.compiled:
            done = vec_factor(
                k,
                cython.address(self.act[0]),
                cython.address(self.Q[0]),
                self.ldq,
                cython.address(self.ridge[0]),
                self.level,
                PIVOT,
                cython.address(self.U[0]),
                self.ld,
                cython.address(self.X[0]),
            )
        else:
            at = np.asarray(self.act[:k])
            A = np.asarray(self.Q).reshape(-1, self.ldq)[np.ix_(at, at)].copy()
            A.flat[:: k + 1] += self.level * np.asarray(self.ridge)[at]
            try:
                factor = np.linalg.cholesky(A).T
            except np.linalg.LinAlgError:
                return False
            done = bool((factor.diagonal() ** 2 > PIVOT * A.diagonal()).all())
            np.asarray(self.U)[: self.ld * self.ld].reshape(self.ld, self.ld)[:k, :k] = factor
        return done

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


def use_registers(width: cython.int) -> cython.int:
    """The width of registers that the loops of this module may use; returns what was allowed before"""
    before: cython.int = 8
    if cython.compiled:
        global msmtfl_widest
        before = msmtfl_widest
        msmtfl_widest = width
    return before
