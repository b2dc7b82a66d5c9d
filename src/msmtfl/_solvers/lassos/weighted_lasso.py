"""The weighted lassos of all tasks: exact, warm, canonical.

    task i:  min_w  1/2 |y - Xw|^2 + sum_j a_j |w_j| [ + level / 2 sum_j ridge_j w_j^2 ],   a_j in [0, inf]

(in sums over rows; a stage of Algorithm 1 has a = m n_i / 2 times its weights). The compiled kernel works on the full
Gram matrix of a task, or on the Gram rows of the features that matter, fetched on demand (`task_solver.py`). What it
cannot settle by itself, two rare cases, is put right in numpy (`nonunique.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from time import perf_counter

import numpy as np

from ..._data.designs import Design, Floats, Ints, support, with_rows
from ..._data.forms.ridged import ridged
from ..._kernels import active_set as _kernel
from ..._runtime.threads import each, each_or_together, shares
from .lasso_solver import MISSING, OVERRUN, SET_ASIDE, SLID, WEAK, LassoSolver, Solve, go_on, one_by_one
from .nonunique import DOUBT, nearest, polish, suspicions
from .task_solver import Caches, state_of, task_caches
from .working_set import WorkingState

AT_ONCE = 2**16  # features looked at, over lams and tasks, before Python may stop a path
BRIEF = 2e-4  # seconds of a solve that are not worth sharing: threads take as long to begin
MANY, SMALL = 1000, 32  # more tasks than this, with no more features than this, rest between solves
AWAKE = 256  # but for so many


class Lassos:
    """The weighted lassos of all tasks, each with its warm state.

    Parameters
    ----------
    designs : one Design per task
    positive : require w >= 0
    units : (m, d) scale in which the distance between solutions is measured (1, or the standard deviations)
    grams : what is known of the Gram matrices, by default nothing yet
    careful : check solutions that seem not to be unique on X. Not needed where all are certified anyway
    ridge : (m, d) that of every task at lam = 1, if there is any; `at` says which lam it is
    n_jobs : threads over tasks; the answer does not depend on it (`grams` made by several threads may differ in rounding)

    Attributes
    ----------
    status : (m,) bits of the last solve: OVERRUN where it was not finished, SLID where the minimiser was not unique, WEAK
        where it had to be improved on X
    """

    def __init__(
        self,
        designs: Sequence[Design],
        *,
        positive: bool = False,
        units: Floats | None = None,
        grams: Caches | None = None,
        careful: bool = False,
        ridge: Floats | None = None,
        n_jobs: int | None = None,
    ):
        self.designs, self.ridge, self.levels = list(designs), ridge, np.zeros(len(designs))
        self.positive, self.careful, self.n_jobs = positive, careful, n_jobs
        self.m, self.d = len(self.designs), self.designs[0].d
        self.units = np.ones((self.m, self.d)) if units is None else self._checked(units)
        self.grams = task_caches(self.designs, n_jobs=n_jobs, to_the_bit=True) if grams is None else grams
        ridges = [None] * self.m if ridge is None else list(ridge)
        self.tasks = [state_of(self.grams[i], positive, ridges[i]) for i in range(self.m)]
        self.status = np.zeros(self.m, np.intc)
        self.brief = False  # the last solve was
        self.many_small = self.m > MANY and self.d <= SMALL

    def at(self, lam: float) -> None:
        """Have the ridge of this lam, if there is one, from the next solve on."""
        if self.ridge is not None:
            self.levels[:] = lam
            for task in self.tasks:
                task.set_level(lam)

    def design(self, i: int) -> Design:
        """That of task i, with its ridge."""
        out: Design = ridged(self.designs[i], None if self.ridge is None else self.levels[i] * self.ridge[i])
        return out

    def limit(self, i: int) -> bool:
        """How task i's coefficients are bounded."""
        return self.positive

    def _checked(self, matrix: Floats) -> Floats:
        """The kernel does not look at bounds: shape, order and writability are settled here."""
        if np.shape(matrix) != (self.m, self.d):
            raise ValueError(f"a matrix of shape {np.shape(matrix)} was given where ({self.m}, {self.d}) is needed.")
        if matrix.dtype == np.float64 and matrix.flags.carray:
            return matrix
        return np.require(matrix, np.float64, ["C", "W"])

    def solve(self, A: Floats, reference: Floats | None = None, max_iter: int = 0) -> tuple[Floats, np.ndarray]:
        """Solve every task for its row of the weights A (m, d).

        Returns W (m, d) and the rounds used (m,). Where a task's minimiser is not unique, W is the one
        nearest `reference` (m, d), by default nearest 0.
        """
        aim = np.zeros((self.m, self.d)) if reference is None else self._checked(reference)
        W, status, rounds = np.zeros((self.m, self.d)), np.zeros(self.m, np.intc), np.ones(self.m, np.intc)
        self.solve_into(self._checked(A), aim, W, status, rounds, max_iter)
        return W, rounds

    def solve_into(
        self, A: Floats, aim: Floats, W: Floats, status: np.ndarray, rounds: np.ndarray, max_iter: int = 0
    ) -> None:
        """The same, W, status and rounds (m,) being written to arrays at hand."""
        for task in self.tasks:
            task.follow()

        def solve(tasks: slice) -> None:
            some = self.tasks[tasks]
            if isinstance(some[0], WorkingState):
                for i, task in enumerate(some, tasks.start):
                    at = slice(i, i + 1)
                    task.solve(A[i], aim[i], self.units[i], W[i], status[at], rounds[at], max_iter)
                return
            states = [task.state for task in some]
            _kernel.solve_all(
                states, A[tasks], aim[tasks], self.units[tasks], W[tasks], status[tasks], rounds[tasks], max_iter
            )
            if self.many_small:
                for task in some:
                    task.rest()

        parts = shares(self.m, None if self.brief else self.n_jobs)
        if self.many_small:
            parts = [slice(low, min(low + AWAKE, self.m)) for low in range(0, self.m, AWAKE)]
        began = perf_counter()
        each(solve, parts, self.n_jobs)
        self.brief = len(parts) * (perf_counter() - began) < BRIEF
        self.complete(A, aim, W, status, rounds, max_iter)

    def states(self) -> list[_kernel.ActiveSet]:
        """The states of the tasks, for whoever calls the kernel itself, until anybody fetches Gram rows; none where tasks
        are not solved by it one after the other."""
        if self.n_jobs not in (None, 1) or isinstance(self.tasks[0], WorkingState):
            return []
        for task in self.tasks:
            task.follow()
        return [task.state for task in self.tasks]

    def complete(
        self,
        A: Floats,
        aim: Floats,
        W: Floats,
        status: np.ndarray,
        rounds: np.ndarray,
        max_iter: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        """Solve the tasks to the end whose status asks for more than the kernel can do, on more threads than usual if they
        can be had; arrays as in `solve_into`."""
        left = (status & ~go_on(self.careful)).nonzero()[0]

        def finish(i: int, n_jobs: int | None = None) -> None:
            at = slice(i, i + 1)
            self._finish(i, A[at], aim[at], W[at], status[at], rounds[at], max_iter, n_jobs, used)

        if left.size:
            used = np.asarray(aim.any(axis=0))
            each_or_together(finish, left.tolist(), n_jobs or self.n_jobs)
        self.status = status

    def path(
        self,
        lams: Floats,
        weights: Floats,
        *,
        max_iter: int = 0,
        likely: Ints | None = None,
        tick: Callable[[float], None] = lambda part: None,
        stop: Callable[[], None] | None = None,
    ) -> list[Solve]:
        """Solve every task for lam times its row of the weights (m, d), for one of lams (L,) after the other. Of several
        minimisers W is the one nearest 0. `likely` says of which features Gram rows will be needed (see
        `TaskState.supply`). `tick` is called with the share of the lams that has been done."""
        weights, lams = self._checked(weights), np.ascontiguousarray(lams, dtype=np.float64)
        if isinstance(self.tasks[0], WorkingState):
            return one_by_one(self, lams, weights, max_iter, tick)
        status = np.zeros((self.m, len(lams)), np.intc)
        parts = [
            _Path(self, tasks, lams, weights, status, max_iter, likely, tick) for tasks in shares(self.m, self.n_jobs)
        ]
        left = parts
        while left:
            each(_Path.go, left, self.n_jobs, stop)
            left = [part for part in left if not part.ended]
            each_or_together(_Path.supply, left, self.n_jobs)  # in rounds: nobody fetches while others still solve
        number, at, values = (np.concatenate(part) for part in zip(*[part.entries() for part in parts], strict=True))
        order = np.argsort(number * (self.m * self.d) + at)
        at, values = at[order], values[order]
        ends = np.cumsum(np.bincount(number, minlength=len(lams))).tolist()
        return [
            Solve(at[low:high], values[low:high], status[:, k]) for k, (low, high) in enumerate(pairwise([0, *ends]))
        ]

    def _finish(
        self,
        i: int,
        A: Floats,
        aim: Floats,
        W: Floats,
        status: np.ndarray,
        rounds: np.ndarray,
        max_iter: int,
        n_jobs: int | None,
        used: np.ndarray | None = None,
    ) -> None:
        """Solve task i to the end: fetch what is missing, repair what the kernel flags. Arrays have one row, the task's."""
        design, a, unit = self.design(i), A[0], self.units[i : i + 1]

        def run() -> None:
            before = rounds[0]
            _kernel.solve_all([self.tasks[i].state], A, aim, unit, W, status, rounds, max_iter)
            rounds[0] += before - 1

        for _ in range(20 * self.d + 100):  # far more turns than it takes, even if rows must make room for others
            if not status[0] & MISSING or status[0] & OVERRUN:
                break
            self.tasks[i].supply(a, n_jobs, used)
            run()
        else:
            status[0] |= OVERRUN
        if not status[0] or status[0] & OVERRUN:
            return
        if status[0] == SLID and not (self.careful and suspicions(design, W, A)[0] > DOUBT):
            return
        if status[0] & (WEAK | SET_ASIDE | SLID):
            W[0] = self._polish(i, W[0], a)
            status[0] |= WEAK
        w = W[0].copy()
        W[0] = self._nearest(i, w, a, aim[0])
        status[0] &= SLID | WEAK
        if not np.array_equal(W[0], w):
            status[0] |= SLID

    def repair(self, i: int, w: Floats, a: Floats, aim: Floats) -> Floats:
        """A solution whose certificate is poor, polished on X and again the one nearest to aim."""
        return self._nearest(i, self._polish(i, w, a), a, aim)

    def _polish(self, i: int, w: Floats, a: Floats) -> Floats:
        return polish(with_rows(self.design(i)), w, a, self.positive)

    def _nearest(self, i: int, w: Floats, a: Floats, aim: Floats) -> Floats:
        return nearest(with_rows(self.design(i)), w, a, aim, self.units[i], self.positive)

    def warm(self, W: Floats) -> None:
        """Start the next solve from W (m, d) instead of from the last solution."""
        for task, w in zip(self.tasks, self._checked(W), strict=True):
            task.begin(w)


class _Path:
    """The path of some tasks of `lassos`, one after the other, the kernel going on by itself where it can; arguments as of
    `Lassos.path`."""

    def __init__(
        self,
        lassos: Lassos,
        tasks: slice,
        lams: Floats,
        weights: Floats,
        status: np.ndarray,
        max_iter: int,
        likely: Ints | None,
        tick: Callable[[float], None],
    ):
        self.lassos, self.tasks, self.lams, self.weights, self.status = lassos, tasks, lams, weights, status
        self.max_iter, self.likely, self.tick = max_iter, likely, tick
        self.place, self.end = tasks.start * len(lams), tasks.stop * len(lams)  # of solves of tasks x lams
        self.supplied_for = -1  # the solve that rows were fetched for last
        self.aim = np.zeros((lassos.m, lassos.d))
        self.counts = np.zeros(lassos.m * len(lams), np.intc)  # coefficients of every solve
        self.features: list[np.ndarray] = []
        self.values: list[Floats] = []

    @property
    def ended(self) -> bool:
        out: bool = self.place == self.end
        return out

    def go(self) -> None:
        """Go on to the end, or to where a task lacks Gram rows."""
        lassos, lams, d = self.lassos, self.lams, self.lassos.d
        at_once = max(1, AT_ONCE // d)
        feature, value = np.empty(at_once * d, np.intc), np.empty(at_once * d)
        while not self.ended:
            for task in lassos.tasks[self.tasks]:
                task.follow()
            begin, pause = self.place, min(self.place + at_once, self.end)
            self.place = _kernel.solve_path(
                [task.state for task in lassos.tasks],
                lams,
                self.weights,
                self.aim,
                lassos.units,
                begin,
                pause,
                go_on(lassos.careful),
                feature,
                value,
                self.counts,
                self.status.reshape(-1),
                self.max_iter,
            )
            used = int(self.counts[begin : self.place].sum())
            self._take(feature[:used].copy(), value[:used].copy())
            lacking = False
            if self.place < pause:
                i, k = divmod(self.place, len(lams))
                lacking = bool(self.status[i, k] & MISSING) and self.place != self.supplied_for
                if not lacking:
                    self._finish(i, k)
            self.tick((self.place - begin) / lassos.m)
            if lacking:  # mostly one fetch is enough: let the kernel try again
                return

    def supply(self, n_jobs: int | None = None) -> None:
        """Fetch the Gram rows that are lacking."""
        self.supplied_for = self.place
        i, k = divmod(self.place, len(self.lams))
        self.lassos.tasks[i].supply(self.lams[k] * self.weights[i], n_jobs, likely=self.likely)

    def _finish(self, i: int, k: int) -> None:
        """The solve of task i for lams[k], which the kernel cannot do by itself."""
        lassos, aim = self.lassos, self.aim[:1]
        lassos.levels[i] = self.lams[k]
        lassos.tasks[i].set_level(float(self.lams[k]))
        a, w = self.lams[k] * self.weights[i : i + 1], np.zeros((1, lassos.d))
        status, rounds = self.status[i, k : k + 1], np.ones(1, np.intc)
        unit = lassos.units[i : i + 1]
        _kernel.solve_all([lassos.tasks[i].state], a, aim, unit, w, status, rounds, self.max_iter)  # for its w
        lassos._finish(i, a, aim, w, status, rounds, self.max_iter, None)
        at = support(w)
        self.counts[self.place] = len(at)
        self._take(at.astype(np.intc), w[0, at])
        self.place += 1

    def _take(self, features: np.ndarray, values: Floats) -> None:
        self.features.append(features)
        self.values.append(values)

    def entries(self) -> tuple[Ints, Ints, Floats]:
        """The number of the lam, the flat position and the value of every coefficient that is not 0."""
        number, L = np.repeat(np.arange(len(self.counts), dtype=np.intp), self.counts), len(self.lams)
        return number % L, number // L * self.lassos.d + np.concatenate(self.features), np.concatenate(self.values)


def least_squares_on(lassos: LassoSolver, W: Floats) -> Floats:
    """Least squares (m, d) on the support of W; of several solutions the one nearest to W."""
    out, _ = lassos.solve(np.where(W != 0.0, 0.0, np.inf), reference=W)
    return out
