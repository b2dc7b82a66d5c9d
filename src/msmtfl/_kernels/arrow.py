# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, infer_types=True, freethreading_compatible=True
"""The lasso in a common part and deviations of tasks from it, on the tasks' own Gram matrices.

    min_{b, V}  1/2 sum_i (w_i'Q_i w_i - 2 c_i'w_i) + sum_j a_j |b_j| + sum_ij a_ij |v_ij|,      w_i = b + v_i

The method is that of any weighted lasso (`descent.py`). Its factor has the form of an arrow: deviations of different tasks
meet in b only, so that every task has a factor U_i of Q_i[A_i, A_i] of its own, and what they leave of the columns B of b,

    C = sum_i Q_i[B, B] - Y_i'Y_i = R'R,      Y_i = U_i^-T Q_i[A_i, B],

is all that ties them together. To add or drop an entry changes one task's factor, and C by a matrix of rank one.

The factor is in `arrow_factor.py`. This file is plain Python: `cython` types make it C. Uncompiled it runs as it stands.
"""

import cython
import numpy as np

from . import constants

if not cython.compiled:
    from .arrow_factor import ArrowFactor
    from .nearest import nearest
    from .vectors import largest_ratio

TIED = cython.declare(cython.int, constants.BITS["TIED"])
SLID = cython.declare(cython.int, constants.BITS["SLID"])
OVERRUN = cython.declare(cython.int, constants.BITS["OVERRUN"])
ROUNDS = cython.declare(cython.Py_ssize_t, 1000)  # far more than a solve takes


class Arrow(ArrowFactor):
    """The warm state of a lasso in b and V. What the attributes are is said in the .pxd file.

    Parameters
    ----------
    Q : (m, d, d) C-ordered Gram matrices of the tasks, each times its weight in the loss
    total : (d, d) their sum
    c, root : ((m + 1) d,) correlations, and lengths of columns, of all slots
    orders : (m,) largest support of every task
    """

    def __init__(self, Q, total, c, root, orders):
        self.m = Q.shape[0]
        self.width = Q.shape[1]
        self.K = (self.m + 1) * self.width
        self.ldq = self.width
        self.positive = False
        self.Q, self.total = Q.reshape(-1), total.reshape(-1)
        self.c, self.root = c, root
        self.ridge, self.level, self.outdated = np.empty(0), 0.0, False
        self.level_of_g = self.level_before = 0.0
        self.scale = largest_ratio(self.c, self.root, self.K)
        self.orders = np.minimum(orders, self.width).astype(np.intc)
        self.room = max(int(np.max(self.orders)), 1)
        self.order = min(int(np.sum(orders)), self.m * self.width)
        self.atol = 0.0
        self.k = self.k_saved = self.fresh = self.entries = self.rounds = self.limit = self.last = 0
        self.aside = self.restart = self.some_free = False
        self._make_slots(self.K)
        self._make_places(max(self.order, 1))
        m, d, room = int(self.m), int(self.width), int(self.room)
        self.sizes, self.columns = np.zeros(m, dtype=np.intc), np.zeros(m * room, dtype=np.intc)
        self.place, self.shared = np.zeros((m + 1) * d, dtype=np.intc), np.zeros(d, dtype=np.intc)
        self.rows = np.zeros(d, dtype=np.intc)
        self.U, self.Y = np.empty(m * room * room), np.empty(m * room * d)
        self.R = np.empty(d * d)
        self.v, self.u, self.y, self.q, self.h = (np.zeros(d) for _ in range(5))
        self.turn, self.back = np.zeros(d), np.zeros(d)
        self.common, self.worn = 0, 0.0
        self.stale = self.broken = False

    # -------------------------------------------------------------- what Python calls

    def begin(self, P: cython.double[::1]):
        """Start the next solve from this point; entries that depend on earlier ones are left out"""
        j: cython.Py_ssize_t
        for t in range(self.k):
            self.mark[t] = 1
        self._drop_marked()
        for j in range(self.K - 1, -1, -1):  # deviations first: they cost less while there is no common part
            if P[j] != 0.0 and self.root[j] > 0.0 and self._add(j, 1.0 if P[j] > 0.0 else -1.0):
                self.w[self.k - 1] = P[j]

    def set_ridge(self, ridge, P: cython.double[::1]):
        """Add this ridge (p,) to the squares of the columns of b and V, and start the next solve from P"""
        for t in range(self.k):
            self.mark[t] = 1
        self._drop_marked()
        self.ridge, self.level = ridge, 1.0
        self.stale = True
        if self.order < self.K:  # all columns are independent
            self.order = self.K
            self._make_places(self.K)
        self.begin(P)

    def gradient(self):
        """(p,): c - Qw at the last solution, by slot"""
        return np.array(self.g)

    def solve(
        self,
        a: cython.double[::1],
        aim: cython.double[:, ::1],
        unit: cython.double[:, ::1],
        P: cython.double[::1],
        max_rounds: cython.Py_ssize_t = 0,
        project: cython.bint = True,
    ):
        """Solve for the weights a (p,), warm; the answer goes to P. Returns status bits and rounds. Of several minimisers it
        is the one nearest to aim (1, p) in the norm |unit * (P - aim)|, if the bit TIED gives way to SLID; never, if that is
        left to the caller."""
        status: cython.int
        j: cython.Py_ssize_t
        p: cython.Py_ssize_t
        with cython.nogil:
            self.some_free = False
            for j in range(self.K):
                self.a[j] = a[j]
                P[j] = 0.0
                if a[j] == 0.0:
                    self.some_free = True
            status = self._run(aim, unit, max_rounds, project)
            for p in range(self.entries):
                P[self.act[p] if p < self.k else self.tie[p - self.k]] = self.z[p]
        return int(status), int(self.rounds)

    def _run(self, aim, unit, max_rounds, project):
        """Solve for the weights in a; the answer is in z, `entries` long, and the status returned"""
        moved: cython.int
        self.restart = False
        self.limit = max_rounds if max_rounds > 0 else ROUNDS
        self.broken = False
        status = self._solve()
        if self.broken:
            status |= OVERRUN
        self._answer()
        if status == TIED and project:
            moved = nearest(self, aim, unit, 0)
            if moved >= 0:
                return SLID if moved else 0
            self._answer()
        return status

    def _answer(self):
        t: cython.Py_ssize_t
        self.entries = self.k
        for t in range(self.k):
            self.z[t] = self.w[t]
