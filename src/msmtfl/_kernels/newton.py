# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, infer_types=True, freethreading_compatible=True
"""One task's weighted lasso under a loss that is not squared, by proximal Newton steps, warm from the last solution.

    min_w  min_b sum_r v_r h(y_r, o_r + x_r'w + b) + sum_j a_j |w_j| + ridge_j w_j^2 / 2,   a_j in [0, inf]

A step replaces h by its parabola at the present f = o + Xw + b, with o the offset: a weighted lasso of the features in work
(those in use, free, at their bound or beyond it), which `active_set.py` solves exactly, the intercept being taken out by
centring. Its Gram matrix is made again only where the curvature has changed too much for the last one to serve. The gradient
of a feature out of work is computed only where the slopes have moved far enough for it to have reached its bound.

What this cannot do by itself (minimisers that are not unique, nearly dependent columns, steps that do not end) is left to
Python, see `_solvers/lassos/proximal_newton.py`: the status then says LEFT. This file is plain Python, which `cython` types
make C.
"""

import cython
import numpy as np

from . import constants
from .active_set import ActiveSet

if not cython.compiled:
    from math import fabs, sqrt

    from .losses import apart, changed, gram_of, lift, slopes, sum_of, times, value_of
    from .vectors import axpy, dot

LOGISTIC = cython.declare(cython.int, 0)
POISSON = cython.declare(cython.int, 1)
HUBER = cython.declare(cython.int, 2)
GAMMA = cython.declare(cython.int, 3)
TWEEDIE = cython.declare(cython.int, 4)
KINDS = {"Logistic": 0, "Poisson": 1, "Huber": 2, "Gamma": 3, "Tweedie": 4}  # as in losses.py

LEFT = cython.declare(cython.int, 64)
ROOM = cython.declare(cython.int, 128)
AGAIN = cython.declare(cython.int, 1)
STATUS = {"LEFT": 64, "ROOM": 128}  # to be solved by Python; there are more features in work than there is room for

GOAL = cython.declare(cython.double, 1e-13)  # violation of optimality, as a correlation, at which steps end
NEAR = cython.declare(cython.double, 1e-11)  # the same, at which they may, if rounding leaves no more to gain
OVER = cython.declare(cython.double, 1e-11)  # violation, as a correlation, from which a feature is taken into work
TIE = cython.declare(cython.double, 1e-9)  # |gradient| this close to its bound, relatively: other minimisers may use it
FLAT = cython.declare(
    cython.double, 1e-14
)  # curvature, as a share of the largest, below which it is not taken at its word
LOST = cython.declare(
    cython.double, 1e-6
)  # share of a column's squares left by centring, below which it is not trusted
IDLE = cython.declare(cython.Py_ssize_t, 20)  # steps without progress, after which Python has its turn
STEPS = cython.declare(
    cython.Py_ssize_t, 120
)  # of a solve; it takes less than ten, or thirty where classes are separable
HALVED = cython.declare(
    cython.int, 10
)  # times that a step is halved before it is cut to a tenth: where rows are saturated it may be 1e26 times too long
FEW = cython.declare(cython.Py_ssize_t, 6)  # steps after which longer ones are tried
FAR = cython.declare(cython.double, 64.0)  # times the step: the longest
AT_LEAST = cython.declare(cython.Py_ssize_t, 16)  # features taken into work together
SMALL = cython.declare(cython.Py_ssize_t, 12)  # features in work from which a library makes their Gram matrix
SOON = cython.declare(cython.double, 1e-3)  # violation, as a correlation, from which the last Gram matrix may serve
STALE = cython.declare(
    cython.double, 0.1
)  # change of curvature up to which the last Gram matrix serves far from the goal
HUGE = cython.declare(cython.double, constants.HUGE)


class Newton:
    """The warm state of one task. What the attributes are is said in the .pxd file.

    Parameters
    ----------
    X : (d, rows) C-ordered, a feature's column side by side; centred if there is an intercept
    y, v, offset : (rows,) targets, sample weights, and what is in every f beside features and intercept
    root : (d,) square roots of the columns' sums of v x^2; 0 marks a constant column, never used
    unit : the square root of the sum of v h'^2 at w = 0: gradients over root and unit are correlations
    kind, epsilon : the loss, of `KINDS`
    centre : whether there is an intercept
    level : the intercept at w = 0
    order : largest support (no more columns than rows can be independent)
    positive : whether w >= 0 is required
    """

    def __init__(self, X, y, v, offset, root, unit, kind, epsilon, centre, level, order, positive):
        d, n = X.shape
        self.d, self.n, self.X = d, n, X.reshape(-1)
        self.y, self.v, self.offset, self.root = y, v, offset, root
        self.kind, self.epsilon, self.centre, self.order, self.positive = kind, epsilon, centre, order, positive
        self.unit, self.of_level = unit, unit * sqrt(v.sum())
        self.f, self.u, self.bend, self.old_f, self.old_u = np.zeros((5, n))
        self.seen_u, self.of_gram, self.root_of = np.zeros((3, n))
        self.w, self.g, self.seen_g, self.old_w, self.to, self.a, self.ridge = np.zeros((7, d))
        self.ridged = self.refactor = False
        self.stamp, self.place, self.work = np.zeros((3, d), dtype=np.intc)
        self.k = self.version = self.steps = 0
        self.gram_known = self.has_seen = False
        self.caution, self.total, self.top = 1.0, 1.0, 0.0
        self._grow(min(16, d))
        self.begin(np.zeros(d), level)

    def begin(self, w, level: cython.double):
        """Start the next solve from w (d,) and an intercept"""
        for j in range(self.d):
            self.w[j] = w[j]
            self.place[j] = -1
        self.level = level
        self.k = 0
        self.gram_known = False
        self._predict(self.f, self.w, level)
        self._slopes()

    def set_ridge(self, ridge, order: cython.Py_ssize_t):
        """Another ridge (d,), from the next solve on, and the largest support with it"""
        for j in range(self.d):
            self.ridge[j] = ridge[j]
        self.ridged = self.refactor = True
        self.version += 1
        if order != self.order:
            self.order = order
            self._clear()
            self._grow(self.room)
        self.quadratic.level = 1.0

    def _grow(self, size: cython.Py_ssize_t):
        """Have room for so many features in work"""
        self.room = size
        self.G = np.zeros(size * size)
        self.c, self.roots, self.cross = np.zeros((3, size))
        self.Z = np.zeros(size * self.n)
        self.A, self.aim, self.units = np.ones((3, 1, size))
        self.quadratic = ActiveSet(
            np.asarray(self.G).reshape(size, size),
            np.asarray(self.c),
            np.asarray(self.roots),
            0,
            min(size, self.order),
            self.positive,
        )
        self.quadratic.ridge = np.zeros(size)
        self.quadratic.level = 1.0 if self.ridged else 0.0
        self.gram_known = False

    # -------------------------------------------------------------- the loss and its derivatives

    def _predict(self, f, w, level):
        """f <- offset + Xw + level"""
        for r in range(self.n):
            f[r] = self.offset[r] + level
        for j in range(self.d):
            if w[j] != 0.0:
                axpy(self.n, w[j], self.X, j * self.n, f, 0)

    def _slopes(self):
        """u and bend at f"""
        slopes(self.kind, self.epsilon, self.caution, self.n, self.y, self.v, self.f, self.u, self.bend)
        self.version += 1

    def _objective(self, f, w):
        """But for what does not depend on w"""
        total = value_of(self.kind, self.epsilon, self.n, self.y, self.v, f)
        for j in range(self.d):
            if w[j] != 0.0:
                total += self.a[j] * fabs(w[j]) + 0.5 * self.ridge[j] * w[j] * w[j]
        return total

    # -------------------------------------------------------------- optimality

    def _usable(self, j):
        return self.root[j] > 0.0 and self.a[j] <= HUGE

    def _gradient(self, j):
        if self.stamp[j] != self.version:
            self.g[j] = dot(self.n, self.u, 0, self.X, j * self.n) - self.ridge[j] * self.w[j]
            self.stamp[j] = self.version
        return self.g[j]

    def _size(self, j):
        return self.g[j] if self.positive else fabs(self.g[j])

    def _look(self):
        """The gradient of all features that may be at their bound or beyond; of others one that is known to be near"""
        asked: cython.Py_ssize_t = 0
        moved: cython.double = sqrt(apart(self.n, self.u, self.seen_u, self.v)) if self.has_seen else 0.0
        for j in range(self.d):
            if not self._usable(j) or self.stamp[j] == self.version:
                continue
            if self.has_seen and self.w[j] == 0.0:
                if fabs(self.seen_g[j]) + self.root[j] * moved < (1.0 - 2.0 * TIE) * self.a[j]:
                    self.g[j] = self.seen_g[j]
                    continue
            self._gradient(j)
            asked += 1
        if not self.has_seen or 2 * asked > self.d:
            self.has_seen = True
            for j in range(self.d):
                if self.root[j] > 0.0:
                    self.seen_g[j] = self._gradient(j) + self.ridge[j] * self.w[j]  # that of the loss
            for r in range(self.n):
                self.seen_u[r] = self.u[r]

    def _violation(self):
        """Of optimality on the features in use or in work and of the intercept, as a correlation; gradients are known"""
        worst: cython.double = 0.0
        total: cython.double = 0.0
        for j in range(self.d):
            if self.w[j] != 0.0:
                self._gradient(j)
                error = fabs(self.g[j] - (self.a[j] if self.w[j] > 0.0 else -self.a[j]))
            elif self.place[j] >= 0 and self._usable(j):
                self._gradient(j)
                error = self._size(j) - self.a[j]
            else:
                continue
            worst = max(worst, error / (self.root[j] * self.unit))
            if error != error:
                return HUGE
        if self.centre:
            total = sum_of(self.n, self.u)
            worst = max(worst, fabs(total) / self.of_level)
            if total != total:
                return HUGE
        return worst

    def _wanted(self):
        """How many features out of work ought to be in it: 2 for each beyond its bound, or 1 if there are only some at it"""
        beyond = 0
        tied = 0
        top: cython.double = 0.0
        for j in range(self.d):
            if self.place[j] >= 0 or self.w[j] != 0.0 or not self._usable(j):
                continue
            size = self._size(j)
            over = size - self.a[j]
            if size > 0.0 and over > -TIE * self.a[j]:
                if over > OVER * self.root[j] * self.unit:
                    beyond += 1
                    top = max(top, over / self.root[j])
                else:
                    tied = 1
        self.top = top
        return 2 * beyond if beyond > 0 else tied

    def _take(self, wanted, anew):
        """Have in work what is in use, free or wanted (of many that violate the worst), and, if not `anew`, what is in work
        already; returns the place of the first that was not, or -1 if there is no room"""
        least = self._least(wanted)
        k: cython.Py_ssize_t
        if anew:
            self._clear()
        k = self.k
        for j in range(self.d):
            if self.place[j] < 0 and self._usable(j):
                if self.w[j] != 0.0 or self.a[j] == 0.0 or self._enters(j, least):
                    if k == self.room:
                        self._clear()
                        return -1
                    self.work[k] = j
                    self.place[j] = k
                    k += 1
        first = self.k
        self.k = k
        return first

    def _clear(self):
        """Have nothing in work"""
        for j in range(self.d):
            self.place[j] = -1
        self.k = 0
        self.gram_known = False

    def _least(self, wanted):
        """The violation, over root, from which features are taken into work"""
        most = AT_LEAST
        least: cython.double = 0.5 * self.top
        for j in range(self.d):
            if self.w[j] != 0.0 or self.a[j] == 0.0:
                most += 1
        if wanted <= 2 * most:
            return 0.0
        while True:
            n = 0
            for j in range(self.d):
                if self._enters(j, least):
                    n += 1
            if n >= most // 2:
                return least
            least *= 0.5

    def _enters(self, j, least):
        """Whether a feature that is not in use violates, by so much at least, or is at its bound"""
        if self.w[j] != 0.0 or not self._usable(j):
            return False
        size = self._size(j)
        over = size - self.a[j]
        if not (size > 0.0 and over > -TIE * self.a[j]):
            return False
        return over <= OVER * self.root[j] * self.unit or over >= least * self.root[j]

    # -------------------------------------------------------------- the parabola at f

    def _make_gram(self):
        """The Gram matrix of the features in work under the present curvature, centred; False if that loses too much"""
        k, n = self.k, self.n
        self.gram_known = False
        self.total = lift(n, FLAT, self.bend, self.v, self.of_gram, self.root_of)
        if not (self.total > 0.0 and self.total < HUGE):
            return False
        if k < SMALL:
            return self._extend(0)
        for t in range(k):
            times(n, self.root_of, self.X, self.work[t] * n, self.Z, t * n)
        gram_of(k, n, self.Z, n, self.G, self.room)
        return self._centre(0)

    def _extend(self, first):
        """The same for features in work from place `first` on, under the curvature that the others have been made with"""
        n = self.n
        for t in range(first, self.k):
            times(n, self.of_gram, self.X, self.work[t] * n, self.Z, 0)
            for s in range(t + 1):
                self.G[t * self.room + s] = dot(n, self.Z, 0, self.X, self.work[s] * n)
        return self._centre(first)

    def _centre(self, first):
        """Take the intercept out of rows of the Gram matrix from `first` on, up to their diagonal, and mirror them"""
        self.gram_known = False
        for t in range(first, self.k):
            self.cross[t] = dot(self.n, self.of_gram, 0, self.X, self.work[t] * self.n) if self.centre else 0.0
            before = self.G[t * self.room + t]
            axpy(t + 1, -self.cross[t] / self.total, self.cross, 0, self.G, t * self.room)
            if not self.G[t * self.room + t] > LOST * before:
                return False
            self.roots[t] = sqrt(self.G[t * self.room + t])
            for s in range(t):
                self.G[s * self.room + t] = self.G[t * self.room + s]
        self.gram_known = True
        return True

    def _changed(self):
        """By which share the curvature is not what the Gram matrix was made with"""
        total: cython.double = 0.0
        if self.kind != HUBER:
            return changed(self.n, self.bend, self.of_gram)
        for r in range(self.n):
            total += fabs(self.bend[r] - self.of_gram[r])
        return total / self.total

    def _serves(self, off, share):
        """Whether the last Gram matrix leads to the goal in few enough steps to be worth it"""
        left: cython.double = off
        if off > SOON:
            return False
        for turn in range(1 + min(7, self.k // 16)):
            left *= share
            if left <= 0.5 * GOAL:
                return True
        return False

    def _aim(self, i, aim, unit, again):
        """to, to_level <- the minimiser of the parabola; False if this is left to Python"""
        k = self.k
        total: cython.double = sum_of(self.n, self.u) if self.centre else 0.0
        for j in range(self.d):
            self.to[j] = 0.0
        for t in range(k):
            j = self.work[t]
            self.c[t] = self._gradient(j) - (total / self.total * self.cross[t] if self.centre else 0.0)
            self.c[t] += self.ridge[j] * self.w[j]
            self.quadratic.ridge[t] = self.ridge[j]
        for t in range(k):
            if self.w[self.work[t]] != 0.0:
                axpy(k, self.w[self.work[t]], self.G, t * self.room, self.c, 0)
        for t in range(k):
            j = self.work[t]
            self.A[0, t] = self.a[j]
            self.aim[0, t] = aim[i, j]
            self.units[0, t] = unit[i, j]
        if k > 0:
            if self._quadratic(again):
                return False
        self.to_level = self.level
        if self.centre:
            for t in range(k):
                j = self.work[t]
                total -= self.cross[t] * (self.to[j] - self.w[j])
            self.to_level += total / self.total
        return True

    def _quadratic(self, again):
        """to <- the minimiser of the quadratic; returns the status"""
        k = self.k
        top: cython.double = 0.0
        for t in range(k):
            top = max(top, fabs(self.c[t]) / self.roots[t])
        self.quadratic.K = k
        self.quadratic.d = k
        self.quadratic.order = min(k, self.order)
        self.quadratic.scale = top
        if not again:  # with the same matrix its factor serves, too
            for t in range(self.quadratic.k):
                self.quadratic.pos[self.quadratic.act[t]] = -1
            self.quadratic.k = 0
            n = 0
            for t in range(k):  # in batches, as the factor likes it
                if self.w[self.work[t]] != 0.0:
                    self.quadratic.batch[n] = t
                    self.quadratic.g[t] = self.w[self.work[t]]  # of its sign
                    n += 1
                    if n == 8:
                        self.quadratic._add_batch(n)
                        n = 0
            self.quadratic._add_batch(n)
            for t in range(self.quadratic.k):
                self.quadratic.w[t] = self.w[self.work[self.quadratic.act[t]]]
        status = self.quadratic._run(self.A, 0, 1.0, self.aim, self.units, 0)
        if status != 0:
            return status
        for p in range(self.quadratic.entries):
            self.to[self.work[self.quadratic._feature(p)]] = self.quadratic.z[p]
        return 0

    # -------------------------------------------------------------- steps

    def _save(self):
        for r in range(self.n):
            self.old_f[r] = self.f[r]
            self.old_u[r] = self.u[r]
        for j in range(self.d):
            self.old_w[j] = self.w[j]
        self.old_level = self.level

    def _move(self, t):
        """w <- t times as far as `to` from old_w; and all that follows"""
        if t == 1.0:
            for j in range(self.d):
                self.w[j] = self.to[j]
            self.level = self.to_level
        else:
            for j in range(self.d):
                self.w[j] = self.old_w[j] + t * (self.to[j] - self.old_w[j])
            self.level = self.old_level + t * (self.to_level - self.old_level)
        self._predict(self.f, self.w, self.level)

    def _inside(self, t):
        """Whether so long a step keeps coefficients positive"""
        for j in range(self.d):
            if self.old_w[j] + t * (self.to[j] - self.old_w[j]) < 0.0:
                return False
        return True

    def _step(self, off):
        """Go towards `to`, as far as optimality gets much closer or the objective falls enough, or beyond it; False if it
        does not fall"""
        slope: cython.double
        t: cython.double = 1.0
        self._save()
        self._move(1.0)
        if self.kind == HUBER:
            self.caution = max(0.1 * self.caution, 1e-12)
        self._slopes()
        if self._violation() <= 0.25 * off:
            return True
        before = self._objective(self.old_f, self.old_w)
        noise = 1e-15 * fabs(before)
        slope = dot(self.n, self.old_u, 0, self.old_f, 0) - dot(self.n, self.old_u, 0, self.f, 0)
        for j in range(self.d):
            slope += (self.a[j] if self._usable(j) else 0.0) * (fabs(self.w[j]) - fabs(self.old_w[j]))
            slope += self.ridge[j] * self.old_w[j] * (self.w[j] - self.old_w[j])
        slope = min(slope, 0.0)
        for turn in range(60):
            value = self._objective(self.f, self.w)
            if value <= before + 1e-4 * t * slope + noise:
                if t < 1.0 and self.kind == HUBER:
                    self.caution = min(100.0 * self.caution, 1.0)
                if t == 1.0 and self.steps >= FEW:
                    t = 2.0
                    while t <= FAR and not (self.positive and not self._inside(t)):
                        self._move(t)
                        further = self._objective(self.f, self.w)
                        if not further < value - noise:
                            break
                        value = further
                        t *= 2.0
                    self._move(0.5 * t)
                self._slopes()
                return True
            t *= 0.5 if turn < HALVED else 0.1
            self._move(t)
        return False

    def _begin(self, A, i):
        """Take the weights A[i]; False if the coefficients do not suit them"""
        used: cython.Py_ssize_t = 0
        for j in range(self.d):
            self.a[j] = A[i, j]
            if self.w[j] != 0.0 and (not self._usable(j) or (self.positive and self.w[j] < 0.0)):
                return False
            if self.w[j] != 0.0 or self.a[j] == 0.0:
                used += 1
        if self.k > 2 * used + AT_LEAST:  # most are of no use any more
            self._clear()
        return True

    def _prepare(self, wanted, off):
        """The features in work and their Gram matrix: made anew, extended, or the last one; returns AGAIN where the factor
        that was made with it serves, 0 where it does not, else the status that the solve ends with"""
        share: cython.double = self._changed() if self.gram_known else HUGE
        if wanted == 0 and self.gram_known:
            if self._serves(off, share) or (self.steps == 0 and share <= STALE):
                return AGAIN
            return 0 if self._make_gram() else LEFT
        anew: cython.bint = share > STALE
        first = self._take(wanted, anew)
        if first < 0:
            return ROOM
        if anew:
            return 0 if self._make_gram() else LEFT
        return AGAIN if self._extend(first) else LEFT

    def _run(self, A, i, aim, unit):
        """Solve for the weights A[i]; the answer is in w and level, the status is returned"""
        idle = 0
        ties = 0
        best: cython.double = HUGE
        off: cython.double
        self.steps = 0
        if not self._begin(A, i):
            return LEFT
        while True:
            self._look()
            off = self._violation()
            wanted = self._wanted()
            if off <= GOAL and (wanted == 0 or (wanted == 1 and ties > 0)):
                return 0
            idle = 0 if off < 0.5 * best else idle + 1
            best = min(best, off)
            if idle > 2 and off <= NEAR and wanted < 2:
                return 0
            if self.steps >= STEPS or idle > IDLE or off >= HUGE:
                return LEFT
            if off <= GOAL and wanted == 1:
                ties = 1
            how = self._prepare(wanted, off)
            if how != 0 and how != AGAIN:
                return how
            if wanted > 0:
                off = self._violation()
                best = HUGE
            if not self._aim(i, aim, unit, how == AGAIN and not self.refactor):
                return LEFT
            self.refactor = False
            self.steps += 1
            if not self._step(off):
                return LEFT


def solve_all(states: list, A, aim, unit, W, levels, status, steps):
    """Solve many tasks for the weights A (tasks, d), warm; coefficients go to W, intercepts, status and steps beside them.

    Where a minimiser may not be unique, or something else stands in the way, the status is LEFT, and W not to be used."""
    state: Newton
    i: cython.Py_ssize_t = 0
    j: cython.Py_ssize_t
    for i in range(len(states)):
        state = states[i]
        if cython.compiled:
            PyErr_CheckSignals()
        while True:
            with cython.nogil:
                status[i] = state._run(A, i, aim, unit)
            if status[i] != ROOM:
                break
            state._grow(min(state.d, 2 * state.room))
        steps[i] = state.steps
        levels[i] = state.level
        for j in range(state.d):
            W[i, j] = state.w[j]
