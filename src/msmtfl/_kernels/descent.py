# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, infer_types=True, freethreading_compatible=True
"""The method of the weighted lasso: a block active set, exact up to rounding.

A support with signs has a closed-form minimiser (one solve with its factor). A round adds the features
that violate optimality most, solves, drops the entries whose sign came out wrong, and accepts the result
only if the objective fell: otherwise it goes back and takes guarded single steps (exact line search),
which always descend. A feature that depends linearly on the support cannot be added; it is exchanged
along the null direction instead.

This file is plain Python: `cython` types make it C.
"""

import cython

from . import constants

if not cython.compiled:
    from math import fabs

    from .support import Support
    from .vectors import any_beyond, dot, entry_sign, excess, is_free, subtract_rows

KKT = cython.declare(cython.double, constants.KKT)
HUGE = cython.declare(cython.double, constants.HUGE)
LANES = cython.declare(cython.Py_ssize_t, constants.LANES)
OVERRUN = cython.declare(cython.int, constants.BITS["OVERRUN"])
SET_ASIDE = cython.declare(cython.int, constants.BITS["SET_ASIDE"])
TIED = cython.declare(cython.int, constants.BITS["TIED"])
WEAK = cython.declare(cython.int, constants.BITS["WEAK"])


class Descent(Support):
    """From any support to the one of a minimiser, for the weights in `a`"""

    # -------------------------------------------------------------- steps of the method

    def _adopt(self):
        """Fit the warm support to new weights: excluded and zero entries leave, free features enter. Returns from which
        position on there are newcomers that may have to leave again"""
        gone = False
        older: cython.Py_ssize_t = -1
        for t in range(self.k):
            j = self.act[t]
            if (
                self.a[j] > HUGE
                or (self.w[t] == 0.0 and not is_free(self.positive, self.a[j]))
                or (self.positive and self.w[t] < 0.0)
            ):
                self.mark[t] = 1
                gone = True
            self.s[j] = 0.0 if is_free(self.positive, self.a[j]) else (1.0 if self.w[t] > 0.0 else -1.0)
        if gone:
            self._drop_marked()
        if self.outdated:
            older = self._foresee()
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
        return older if older >= 0 else self.k

    def _foresee(self):
        """A new factor, with the features that come to violate if g changes with the ridge as it did before: to take them in
        now costs less than to find them. Returns how many were there before"""
        k: cython.Py_ssize_t = self.k
        on: cython.double = 0.0
        ahead: cython.double
        if self.level_before > self.level_of_g > self.level:
            on = (self.level_of_g - self.level) / (self.level_before - self.level_of_g)
        for j in range(self.K):
            if on > 0.0 and self.pos[j] < 0 and self.root[j] > 0.0 and self.k < self.ld:
                ahead = self.g[j] + on * (self.g[j] - self.g_before[j])
                if excess(self.positive, ahead, self.a[j]) > 0.0:
                    self.act[self.k] = j
                    self.pos[j] = self.k
                    self.s[j] = entry_sign(self.positive, ahead, self.a[j])
                    self.w[self.k] = 0.0
                    self.k += 1
            self.g_before[j] = self.g[j]
        self.level_before = self.level_of_g
        self.level_of_g = self.level
        self._renew()
        return k

    def _minimise(self):
        """z <- minimiser on the support with its signs; returns how many signs come out wrong (marked)"""
        wrong = 0
        for t in range(self.k):
            j = self.act[t]
            self.b[t] = self.c[j] - self.a[j] * self.s[j]
            self.z[t] = self.b[t]
        self._solve_on_support(self.z)
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
        passed = 0.0
        step = 1.0
        leaves = -1
        for t in range(k):
            self.b[t] = self.z[t] - self.w[t]
        curvature = self._curvature(self.b)
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
        subtract_rows(self.K, self.k, self.w, self.act, self.Q, self.ldq, 0, self.g)
        self._add_ridge_to_gradient()
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
            self._solve_on_support(self.x)
            for t in range(self.k):
                self.w[t] += self.x[t]
            self._gradient()

    def _violators(self):
        """List the slots that violate optimality in `wait`, their excess per unit of root in `value`"""
        n = 0
        if not any_beyond(self.K, self.g, 1.0, self.a, 0.0, self.root, self.pos):
            return 0
        for j in range(self.K):
            over = excess(self.positive, self.g[j], self.a[j])
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
            if self._add(j, entry_sign(self.positive, self.g[j], self.a[j])) or self._exchange(j):
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
        slope = -excess(self.positive, self.g[j], self.a[j])
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
        if self._add(j, entry_sign(self.positive, self.g[j], self.a[j])):
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
        older = self._adopt()
        self._save()
        self.fresh = older
        while self.rounds - start < self.limit:
            self.rounds += 1
            # 1. minimise over the support; accept only descent
            if not self._settle(single > 0):
                break
            f = -0.5 * dot(self.k, self.b, 0, self.z, 0)
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
        near = any_beyond(self.K, self.g, 1.0 - 2e-10, self.a, -101.0 * self.atol, self.root, self.pos)
        for j in range(self.K if near else 0):
            if self.pos[j] >= 0 or self.root[j] == 0.0 or self.a[j] > HUGE:
                continue
            over = excess(self.positive, self.g[j], self.a[j])
            if over > 1e-10 * self.a[j] + 100.0 * self.atol * self.root[j]:
                status |= SET_ASIDE
            if over > -1e-10 * self.a[j] - 100.0 * self.atol * self.root[j]:
                status |= TIED
        if self._weak(3e-5):
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
