# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, infer_types=True, freethreading_compatible=True
"""The factor of a support of a common part and deviations from it, in the form of an arrow: see `arrow.py`.

Slots: feature j of b is slot j, that of task i slot (i + 1) d + j. Positions are in the order in which entries came in, as
in any support; a *place* is one in the factor of a task, or in R.

This file is plain Python: `cython` types make it C. Uncompiled it runs as it stands.
"""

import cython

from . import constants

if not cython.compiled:
    from math import fabs, sqrt

    from .descent import Descent
    from .vectors import axpy, dot, move, rotate, subtract_block, subtract_rows

PIVOT = cython.declare(cython.double, constants.PIVOT)
CLOSE = cython.declare(cython.double, 1e-6)  # less than this left of a column: the rounding of R is looked at
NOISE = cython.declare(cython.double, 1e-14)  # of a column's square: what rounding may do to C
DRIFT = cython.declare(cython.double, 1e-15)  # what a change of R may add to that; where it matters R is made anew
LOSSY = cython.declare(cython.double, 1e-3)  # less than this left: R is made anew rather than changed
WORN = cython.declare(cython.double, 500.0)  # changes after which R is made anew, and one more for every entry


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def forward(
    n: cython.Py_ssize_t,
    U: cython.double[::1],
    low: cython.Py_ssize_t,
    ld: cython.Py_ssize_t,
    x: cython.double[::1],
) -> cython.void:
    """x <- U^-T x for the factor that begins at `low`"""
    t: cython.Py_ssize_t
    if cython.compiled and n >= SHORT:
        vec_forward(n, cython.address(U[low]), ld, cython.address(x[0]))
        return
    for t in range(n):
        x[t] /= U[low + t * ld + t]
        axpy(n - t - 1, -x[t], U, low + t * ld + t + 1, x, t + 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def backward(
    n: cython.Py_ssize_t,
    U: cython.double[::1],
    low: cython.Py_ssize_t,
    ld: cython.Py_ssize_t,
    x: cython.double[::1],
) -> cython.void:
    """x <- U^-1 x"""
    t: cython.Py_ssize_t
    if cython.compiled and n >= SHORT:
        vec_backward(n, cython.address(U[low]), ld, cython.address(x[0]))
        return
    for t in range(n - 1, -1, -1):
        x[t] = (x[t] - dot(n - t - 1, U, low + t * ld + t + 1, x, t + 1)) / U[low + t * ld + t]


class ArrowFactor(Descent):
    """A descent on such a factor. What the attributes are is said in the .pxd file."""

    # -------------------------------------------------------------- the factor of all

    def _forward(self, x):
        """x <- L^-1 x, by position, L being the factor of all in the order of the arrow: deviations, common part"""
        i: cython.Py_ssize_t
        t: cython.Py_ssize_t
        low: cython.Py_ssize_t
        slot: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.common
        if self.stale:
            self._factor()
        for t in range(n):
            self.q[t] = x[self.pos[self.shared[t]]]
        for i in range(self.m):
            low = i * self.room
            slot = (i + 1) * self.width
            if self.sizes[i] == 0:
                continue
            for t in range(self.sizes[i]):
                self.v[t] = x[self.pos[slot + self.columns[low + t]]]
            forward(self.sizes[i], self.U, low * self.room, self.room, self.v)
            for t in range(self.sizes[i]):
                x[self.pos[slot + self.columns[low + t]]] = self.v[t]
            subtract_block(n, self.sizes[i], self.v, self.Y, low * self.width, self.width, self.q, 0)
        forward(n, self.R, 0, self.width, self.q)
        for t in range(n):
            x[self.pos[self.shared[t]]] = self.q[t]

    def _backward(self, x):
        """x <- L^-T x"""
        i: cython.Py_ssize_t
        t: cython.Py_ssize_t
        low: cython.Py_ssize_t
        slot: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.common
        if self.stale:
            self._factor()
        for t in range(n):
            self.q[t] = x[self.pos[self.shared[t]]]
        backward(n, self.R, 0, self.width, self.q)
        for t in range(n):
            x[self.pos[self.shared[t]]] = self.q[t]
        for i in range(self.m):
            low = i * self.room
            slot = (i + 1) * self.width
            if self.sizes[i] == 0:
                continue
            for t in range(self.sizes[i]):
                self.v[t] = x[self.pos[slot + self.columns[low + t]]] - dot(
                    n, self.Y, (low + t) * self.width, self.q, 0
                )
            backward(self.sizes[i], self.U, low * self.room, self.room, self.v)
            for t in range(self.sizes[i]):
                x[self.pos[slot + self.columns[low + t]]] = self.v[t]

    def _curvature(self, x):
        """x'Qx, by position"""
        i: cython.Py_ssize_t
        t: cython.Py_ssize_t
        low: cython.Py_ssize_t
        slot: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.common
        total: cython.double = 0.0
        row: cython.double
        if self.stale:
            self._factor()
        for t in range(n):
            self.q[t] = x[self.pos[self.shared[t]]]
        for t in range(n):
            row = dot(n - t, self.R, t * self.width + t, self.q, t)
            total += row * row
        for i in range(self.m):
            low = i * self.room
            slot = (i + 1) * self.width
            for t in range(self.sizes[i]):
                self.v[t] = x[self.pos[slot + self.columns[low + t]]]
            for t in range(self.sizes[i]):
                row = dot(n, self.Y, (low + t) * self.width, self.q, 0)
                row += dot(self.sizes[i] - t, self.U, (low + t) * self.room + t, self.v, t)
                total += row * row
        return total

    def _weak(self, level):
        """Whether a column in the support is so near to the others that less than this share of its length is left"""
        i: cython.Py_ssize_t
        t: cython.Py_ssize_t
        low: cython.Py_ssize_t
        if self.stale:
            self._factor()
        for t in range(self.common):
            if self.R[t * self.width + t] < level * self.root[self.shared[t]]:
                return True
        for i in range(self.m):
            low = i * self.room
            for t in range(self.sizes[i]):
                if self.U[(low + t) * self.room + t] < level * self.root[(i + 1) * self.width + self.columns[low + t]]:
                    return True
        return False

    def _project(self, j):
        """x <- L^-1 Q_Aj, by position; returns what the support leaves of the square of the column of slot j"""
        i: cython.Py_ssize_t = j // self.width - 1
        t: cython.Py_ssize_t
        for t in range(self.k):
            self.x[t] = 0.0
        if i < 0:
            return self._common_column(j)
        j -= (i + 1) * self.width
        rest: cython.double = self._beyond_common(i, j, self._own_column(i, j))
        for t in range(self.sizes[i]):
            self.x[self.pos[(i + 1) * self.width + self.columns[i * self.room + t]]] = self.v[t]
        for t in range(self.common):
            self.x[self.pos[self.shared[t]]] = self.q[t]
        return rest

    def _square(self, j):
        """The square of the column of slot j, with its ridge"""
        d: cython.Py_ssize_t = self.width
        i: cython.Py_ssize_t = j // d - 1
        square: cython.double
        if i < 0:
            square = self.total[j * d + j]
        else:
            square = self.Q[(i * d + j % d) * d + j % d]
        if self.level != 0.0:
            square += self.level * self.ridge[j]
        return square

    # -------------------------------------------------------------- columns that enter

    def _add(self, j, sign):
        """Append slot j with the value 0; refused (False) if it depends on the support"""
        k: cython.Py_ssize_t = self.k
        i: cython.Py_ssize_t = j // self.width - 1
        if k >= self.ld:
            return False
        if not (self._add_common(j) if i < 0 else self._add_own(i, j - (i + 1) * self.width)):
            return False
        self.act[k] = j
        self.pos[j] = k
        self.s[j] = sign
        self.w[k] = 0.0
        self.k = k + 1
        return True

    def _add_batch(self, n):
        """The same for the slots batch[:n], each with its own sign; returns how many are in"""
        k: cython.Py_ssize_t = self.k
        q: cython.Py_ssize_t
        j: cython.Py_ssize_t
        for q in range(n):
            j = self.batch[q]
            self._add(j, 0.0 if self.a[j] == 0.0 else (1.0 if self.g[j] > 0.0 else -1.0))
        return self.k - k

    def _own_column(self, i, j):
        """v <- U_i^-T Q_i[A_i, j]; returns what task i's support leaves of the square of its column j"""
        t: cython.Py_ssize_t
        row: cython.Py_ssize_t = (i * self.width + j) * self.width
        k: cython.Py_ssize_t = self.sizes[i]
        for t in range(k):
            self.v[t] = self.Q[row + self.columns[i * self.room + t]]
        forward(k, self.U, i * self.room * self.room, self.room, self.v)
        return self._square((i + 1) * self.width + j) - dot(k, self.v, 0, self.v, 0)

    def _beyond_common(self, i, j, rest):
        """y <- what task i's support leaves of products of its column j and B, q <- R^-T y, given v and what it leaves of
        the square; returns what the common part leaves of that"""
        t: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.common
        row: cython.Py_ssize_t = (i * self.width + j) * self.width
        if self.stale:
            self._factor()
        for t in range(n):
            self.y[t] = self.Q[row + self.shared[t]]
        subtract_block(n, self.sizes[i], self.v, self.Y, i * self.room * self.width, self.width, self.y, 0)
        for t in range(n):
            self.q[t] = self.y[t]
        forward(n, self.R, 0, self.width, self.q)
        return rest - dot(n, self.q, 0, self.q, 0)

    def _add_own(self, i, j):
        """Column j of task i"""
        t: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.common
        k: cython.Py_ssize_t = self.sizes[i]
        low: cython.Py_ssize_t = i * self.room
        square: cython.double = self._square((i + 1) * self.width + j)
        noise: cython.double = 0.0
        left: cython.double
        u: cython.double
        if k >= self.orders[i]:
            return False
        rest: cython.double = self._own_column(i, j)
        if not rest > PIVOT * square:
            return False
        left = self._beyond_common(i, j, rest)
        if PIVOT * square < left < CLOSE * rest:
            for t in range(n):
                self.h[t] = self.q[t]
            backward(n, self.R, 0, self.width, self.h)
            for t in range(n):
                noise += (self.h[t] * self.root[self.shared[t]]) ** 2
            if NOISE * noise < left < DRIFT * self.worn * noise:
                self.stale = True
                left = self._beyond_common(i, j, rest)
        if not left > max(PIVOT * square, NOISE * noise):
            return False
        u = sqrt(rest)
        for t in range(k):
            self.U[(low + t) * self.room + k] = self.v[t]
        self.U[(low + k) * self.room + k] = u
        for t in range(n):
            self.y[t] /= u
            self.q[t] /= u
            self.Y[(low + k) * self.width + t] = self.y[t]
        self._lower(left / rest)
        self.columns[low + k] = j
        self.place[(i + 1) * self.width + j] = k
        self.sizes[i] = k + 1
        return True

    def _common_column(self, j):
        """y <- what the tasks' supports leave of products of column j of b and B, q <- R^-T y; columns of the Y_i are put
        beside those that are in use, and x is set by position. Returns what all leave of the square of column j"""
        i: cython.Py_ssize_t
        t: cython.Py_ssize_t
        low: cython.Py_ssize_t
        row: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.common
        if self.stale:
            self._factor()
        rest: cython.double = self._square(j)
        for t in range(n):
            self.y[t] = self.total[j * self.width + self.shared[t]]
        for i in range(self.m):
            low = i * self.room
            row = (i * self.width + j) * self.width
            if self.sizes[i] == 0:
                continue
            for t in range(self.sizes[i]):
                self.v[t] = self.Q[row + self.columns[low + t]]
            forward(self.sizes[i], self.U, low * self.room, self.room, self.v)
            subtract_block(n, self.sizes[i], self.v, self.Y, low * self.width, self.width, self.y, 0)
            for t in range(self.sizes[i]):
                rest -= self.v[t] * self.v[t]
                self.x[self.pos[(i + 1) * self.width + self.columns[low + t]]] = self.v[t]
                if n < self.width:
                    self.Y[(low + t) * self.width + n] = self.v[t]
        for t in range(n):
            self.q[t] = self.y[t]
        forward(n, self.R, 0, self.width, self.q)
        for t in range(n):
            self.x[self.pos[self.shared[t]]] = self.q[t]
        return rest - dot(n, self.q, 0, self.q, 0)

    def _add_common(self, j):
        """Column j of b"""
        t: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.common
        square: cython.double = self._square(j)
        rest: cython.double = self._common_column(j)
        if PIVOT * square < rest < DRIFT * self.worn * square:
            self.stale = True
            rest = self._common_column(j)
        if not rest > PIVOT * square:
            return False
        for t in range(n):
            self.R[t * self.width + n] = self.q[t]
        self.R[n * self.width + n] = sqrt(rest)
        self.shared[n] = j
        self.place[j] = n
        self.common = n + 1
        return True

    # -------------------------------------------------------------- columns that leave

    def _drop_marked(self):
        """Remove all marked positions"""
        p: cython.Py_ssize_t
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        q: cython.Py_ssize_t = 0
        older: cython.Py_ssize_t = 0
        for p in range(self.k):
            if not self.mark[p]:
                continue
            j = self.act[p]
            i = j // self.width - 1
            if i < 0:
                self._drop_common(j)
            else:
                self._drop_own(i, j - (i + 1) * self.width)
            if p < self.fresh:
                older += 1
        for p in range(self.k):
            j = self.act[p]
            if self.mark[p]:
                self.mark[p] = 0
                self.pos[j] = -1
                continue
            self.act[q] = j
            self.pos[j] = q
            self.w[q] = self.w[p]
            q += 1
        self.k = q
        self.fresh -= older

    def _shrink(self, U, low, ld, k, p, below):
        """Take place p out of a factor of order k that begins at `low`: its row is worked into those below. If the rows of
        a Y (which begin at `below`, -1: none) go with it, y is what is left of that at p"""
        t: cython.Py_ssize_t
        top: cython.double
        length: cython.double
        if below >= 0:
            for t in range(self.common):
                self.y[t] = self.Y[below + p * self.width + t]
        for t in range(p + 1, k):
            self.u[t] = U[low + p * ld + t]
        for t in range(p + 1, k):
            if self.u[t] == 0.0:
                continue
            top = U[low + t * ld + t]
            length = sqrt(top * top + self.u[t] * self.u[t])
            top /= length
            length = self.u[t] / length
            rotate(k - t, top, length, U, low + t * ld + t, self.u, t)
            if below >= 0:
                rotate(self.common, top, length, self.Y, below + t * self.width, self.y, 0)
        for t in range(p):
            move(U, low + t * ld + p + 1, low + t * ld + p, k - p - 1)
        for t in range(p + 1, k):
            move(U, low + t * ld + t, low + (t - 1) * ld + t - 1, k - t)
            if below >= 0:
                move(self.Y, below + t * self.width, below + (t - 1) * self.width, self.common)

    def _drop_own(self, i, j):
        t: cython.Py_ssize_t
        low: cython.Py_ssize_t = i * self.room
        p: cython.Py_ssize_t = self.place[(i + 1) * self.width + j]
        self._shrink(self.U, low * self.room, self.room, self.sizes[i], p, low * self.width)
        self.sizes[i] -= 1
        for t in range(p, self.sizes[i]):
            self.columns[low + t] = self.columns[low + t + 1]
            self.place[(i + 1) * self.width + self.columns[low + t]] = t
        self._raise()

    def _drop_common(self, j):
        i: cython.Py_ssize_t
        t: cython.Py_ssize_t
        p: cython.Py_ssize_t = self.place[j]
        n: cython.Py_ssize_t = self.common
        d: cython.Py_ssize_t = self.width
        if not self.stale:
            self._shrink(self.R, 0, d, n, p, -1)
        for i in range(self.m):
            for t in range(self.sizes[i]):
                move(self.Y, (i * self.room + t) * d + p + 1, (i * self.room + t) * d + p, n - p - 1)
        self.common = n - 1
        for t in range(p, self.common):
            self.shared[t] = self.shared[t + 1]
            self.place[self.shared[t]] = t

    # -------------------------------------------------------------- the factor of the Schur complement

    def _raise(self):
        """C += yy'"""
        t: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.common
        d: cython.Py_ssize_t = self.width
        top: cython.double
        length: cython.double
        self.worn += 1.0
        if self.stale:
            return
        for t in range(n):
            if self.y[t] == 0.0:
                continue
            top = self.R[t * d + t]
            length = sqrt(top * top + self.y[t] * self.y[t])
            rotate(n - t, top / length, self.y[t] / length, self.R, t * d + t, self.y, t)

    def _lower(self, left):
        """C -= yy', q being R^-T y and `left` 1 - |q|^2"""
        t: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.common
        d: cython.Py_ssize_t = self.width
        size: cython.double = sqrt(left)
        length: cython.double
        self.worn += 1.0 / left
        if self.stale or left < LOSSY or self.worn > WORN + self.k:
            self.stale = True
            return
        for t in range(n):
            self.h[t] = 0.0
        for t in range(n - 1, -1, -1):
            length = sqrt(size * size + self.q[t] * self.q[t])
            rotate(n - t, size / length, -self.q[t] / length, self.R, t * d + t, self.h, t)
            size = length

    def _factor(self):
        """R from the tasks' factors"""
        i: cython.Py_ssize_t
        s: cython.Py_ssize_t
        t: cython.Py_ssize_t
        u: cython.Py_ssize_t
        low: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.common
        d: cython.Py_ssize_t = self.width
        least: cython.double
        self.stale = False
        self.worn = 0.0
        for t in range(n):
            for u in range(t, n):
                self.R[t * d + u] = self.total[self.shared[t] * d + self.shared[u]]
            self.R[t * d + t] = self._square(self.shared[t])
        for i in range(self.m):
            low = i * self.room * d
            if self.sizes[i] == 0:
                continue
            for t in range(n):
                for s in range(self.sizes[i]):
                    self.u[s] = self.Y[low + s * d + t]
                subtract_block(n - t, self.sizes[i], self.u, self.Y, low + t, d, self.R, t * d + t)
        for t in range(n):
            for u in range(t):
                self.u[u] = self.R[u * d + t]
            subtract_block(n - t, t, self.u, self.R, t, d, self.R, t * d + t)
            least = NOISE * self.total[self.shared[t] * d + self.shared[t]]
            if not self.R[t * d + t] > least:
                self.broken = True
                self.R[t * d + t] = least
            least = sqrt(self.R[t * d + t])
            for u in range(t, n):
                self.R[t * d + u] /= least

    # -------------------------------------------------------------- the gradient

    def _gradient(self):
        """g = c - Qw on all slots, and the rounding level of its entries per unit of root"""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        t: cython.Py_ssize_t
        n: cython.Py_ssize_t
        low: cython.Py_ssize_t
        slot: cython.Py_ssize_t
        size: cython.double = 0.0
        d: cython.Py_ssize_t = self.width
        for j in range(d):
            self.q[j] = 0.0
            self.g[j] = 0.0
        for t in range(self.common):
            self.q[self.shared[t]] = self.w[self.pos[self.shared[t]]]
        for i in range(self.m):
            low = i * self.room
            slot = (i + 1) * d
            for j in range(d):
                self.u[j] = self.q[j]
                self.h[j] = self.c[slot + j]
            for t in range(self.sizes[i]):
                self.u[self.columns[low + t]] += self.w[self.pos[slot + self.columns[low + t]]]
            n = 0
            for j in range(d):
                if self.u[j] != 0.0 and self.root[slot + j] > 0.0:
                    self.v[n] = self.u[j]
                    self.rows[n] = i * d + j
                    n += 1
            subtract_rows(d, n, self.v, self.rows, self.Q, d, 0, self.h)
            for j in range(d):
                self.g[slot + j] = self.h[j]
                self.g[j] += self.h[j]
        self._add_ridge_to_gradient()
        for t in range(self.k):
            size += self.root[self.act[t]] * fabs(self.w[t])
        self.atol = max(1e-14 * self.scale, 4e-16 * size)


def use_registers(width: cython.int) -> cython.int:
    """The width of registers that the loops of this module may use; returns what was allowed before"""
    before: cython.int = 8
    if cython.compiled:
        global msmtfl_widest
        before = msmtfl_widest
        msmtfl_widest = width
    return before
