"""The weighted lassos of all tasks: exact, warm, canonical.

    task i:  min_w  1/2 |y - Xw|^2 + sum_j a_j |w_j|,   a_j in [0, inf]

(in sums over rows; a stage of Algorithm 1 has a = m n_i / 2 times its weights). The compiled kernel works
on the full Gram matrix of a task, or on the Gram rows of the features that matter, fetched on demand. Two
rare cases are settled here in numpy: a minimiser that is not unique (`nearest`), and a support so
ill-conditioned that the Gram form loses the answer (`polish`, on X itself).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular

from . import _kernel
from .designs import Design, Floats, Ints, support
from .gram import WHOLE_AT_MOST, Gram, few_rows, gram_caches
from .sparse_rows import SparseRows
from .threads import each, shares
from .working import WorkingSet, WorkingState

OVERRUN, SET_ASIDE, WEAK, MISSING, SLID = (
    _kernel.BITS[name] for name in ("OVERRUN", "SET_ASIDE", "WEAK", "MISSING", "SLID")
)

WIDE = 1e4  # ratio of column lengths beyond which rounding would decide what is nearest
FEW_DIRECTIONS = 40  # with more null directions the nearest minimiser is found through the dual
AT_LEAST = 8  # Gram rows fetched together: that many cost little more than one
AT_LEAST_OF_MANY = 16  # the same where so many more do not make the whole matrix worth forming
AHEAD = 16  # the same where they belong to free features: those of others that may be free next come with them
DOUBT = 1e-11  # suspicion beyond which a solution is worked out on X
POLISHES = 20  # attempts to improve a solution on X
AT_ONCE = 2**16  # features looked at, over lams and tasks, before Python may stop a path
BRIEF = 1e-3  # seconds of a solve that are not worth sharing: threads take as long to begin
TIE = 1e-9  # |gradient| this close to its bound, relatively, counts as at the bound


class TaskState:
    """The warm solver state of one task on its Gram; it follows when the Gram grows, is formed whole or makes room."""

    def __init__(self, gram: Gram, positive: bool):
        self.gram, self.positive = gram, positive
        self._fresh()

    def _fresh(self) -> None:
        gram, design = self.gram, self.gram.design
        self.whole, self.version, self.size = gram.whole is not None, gram.version, 0
        if gram.whole is not None:
            self.state = _kernel.ActiveSet(gram.whole, gram.c, gram.root, design.d, design.order, self.positive)
            return
        self.g = gram.c.copy()
        self.state = _kernel.ActiveSet(np.zeros((1, 1)), np.zeros(1), np.zeros(1), 0, design.order, self.positive)
        self.state.attach(gram.rows, gram.slot, gram.c, gram.root, self.g)
        self.features = gram.features

    def support(self) -> tuple[Ints, Floats]:
        """(features, values) of the last solution"""
        slots, values = self.state.support()
        return (slots if self.whole else self.features[slots]).astype(np.intp), values

    def follow(self) -> None:
        """Take note of what has happened to the Gram since the last solve."""
        gram = self.gram
        if self.whole or (gram.whole is None and gram.version == self.version and gram.size == self.size):
            return
        if gram.whole is not None or gram.version != self.version:
            features, values = self.support()
            self._fresh()
            self._set(features, values)
        else:
            self._grow()

    def _grow(self) -> None:
        gram = self.gram
        self.features, self.size = gram.features, gram.size
        self.state.grow(gram.known, gram.slot_c, gram.slot_root, gram.rows, gram.features, gram.size)

    def _set(self, features: Ints, values: Floats) -> None:
        if self.whole:
            self.state.begin(features.astype(np.intc), values)
            return
        new = features[self.gram.slot[features] < 0]
        if new.size:
            self.gram.fetch(new, features)
            if self.gram.whole is not None or self.gram.version != self.version:
                self._fresh()
                self._set(features, values)
                return
        self._grow()
        self.state.begin(self.gram.slot[features], values)

    def begin(self, w: Floats) -> None:
        """Start the next solve from w (d,)"""
        self.follow()
        features = support(w)
        self._set(features, w[features])

    def supply(
        self,
        a: Floats,
        n_jobs: int | None = None,
        used: np.ndarray | None = None,
        likely: Ints | None = None,
    ) -> None:
        """Fetch the Gram rows that the last solve, for weights a (d,), lacked, knowing which features (d,) any task used the
        stage before, and which are likely to be needed some time, most likely ones first."""
        wanted = self._wanted(used, likely)
        needed = wanted[:0]
        if self.gram.crowded(len(wanted)):
            needed = np.union1d(self.support()[0], np.flatnonzero(a == 0.0))
        self.gram.fetch(wanted, needed, n_jobs)
        self.follow()

    def _wanted(self, used: np.ndarray | None, likely: Ints | None) -> Ints:
        """Free features and, as they may be free next, others in use; else the worst violators, what is likely to be needed,
        and those next to violating: few fetches serve many weights."""
        over, lacking, beyond, free = self.state.lacking()
        count = AT_LEAST_OF_MANY if self.gram.design.d > WHOLE_AT_MOST else AT_LEAST
        count = max(count, min(beyond, self.gram.size // 4), free)
        if free and used is not None:
            soon = np.flatnonzero(used & np.isfinite(over))
            over[soon] += 2.0 * np.abs(over[np.isfinite(over)]).max(initial=0.0)  # before those that are not
            count = max(count, min(AHEAD, len(soon) + 2 * free))  # a few more than are known to be needed
        if likely is not None:
            likely = likely[np.isfinite(over[likely])]
            least = 1e-9 * over[np.isfinite(over)].max(initial=0.0)  # of a violator that goes before them
            over[likely] = np.maximum(over[likely], least * np.linspace(1.0, 0.0, len(likely)))
        rest = len(over) - min(count, lacking)
        return np.sort(np.argpartition(over, rest)[rest:])


def _state(gram: Gram | WorkingSet, positive: bool) -> Any:
    return WorkingState(gram, positive) if isinstance(gram, WorkingSet) else TaskState(gram, positive)


def thin(design: Design) -> bool:
    return isinstance(getattr(design, "rows", None), SparseRows)


def task_caches(
    designs: Sequence[Design], *, budget: float | None = None, n_jobs: int | None = None, **options: Any
) -> list[Any]:
    """What is kept of the Gram matrices: all, rows as they are needed (options as of `gram_caches`), or no more than the
    features in work: where the budget would not hold a few rows of every task, or a row takes more than the pass over a
    sparse X that it saves."""
    if few_rows(designs, budget) or (thin(designs[0]) and designs[0].d > WHOLE_AT_MOST):
        return each(WorkingSet, designs, n_jobs)
    return gram_caches(designs, budget=budget, n_jobs=n_jobs, **options)


def go_on(careful: bool) -> int:
    """Bits of a status that are no reason to complete what the kernel did."""
    return 0 if careful else SLID


@dataclass(frozen=True)
class Solve:
    """The lassos of all tasks at one lam: values at flat positions (rising) of the (m, d) coefficients, status bits (m,)."""

    at: Ints
    values: Floats
    status: np.ndarray


def one_by_one(lassos: Any, lams: Floats, weights: Floats, max_iter: int, tick: Callable[[float], None]) -> list[Solve]:
    """A path, solve after solve."""
    out = []
    for lam in lams:
        W, _ = lassos.solve(lam * weights, max_iter=max_iter)
        at = support(W)
        out.append(Solve(at, W.ravel()[at], lassos.status))
        tick(1.0)
    return out


class Lacking(Exception):  # noqa: N818
    """Gram rows are needed that must not be fetched now."""


class Lassos:
    """The weighted lassos of all tasks, each with its warm state.

    Parameters
    ----------
    designs : one Design per task
    positive : require w >= 0
    units : (m, d) scale in which the distance between solutions is measured (1, or the standard deviations)
    grams : what is known of the Gram matrices, by default nothing yet
    careful : check solutions that seem not to be unique on X. Not needed where all are certified anyway
    n_jobs : threads over tasks; the answer does not depend on it
    may_fetch : whether Gram rows may be fetched; if not, `Lacking` is raised where they have to be

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
        grams: list[Any] | None = None,
        careful: bool = False,
        n_jobs: int | None = None,
        may_fetch: bool = True,
    ):
        self.designs = list(designs)
        self.positive, self.careful, self.n_jobs, self.may_fetch = positive, careful, n_jobs, may_fetch
        self.m, self.d = len(self.designs), self.designs[0].d
        self.units = np.ones((self.m, self.d)) if units is None else self._checked(units)
        self.grams = task_caches(self.designs, n_jobs=n_jobs, to_the_bit=True) if grams is None else grams
        self.tasks = [_state(gram, positive) for gram in self.grams]
        self.status = np.zeros(self.m, np.intc)
        self.brief = False  # the last solve was

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

        parts = shares(self.m, None if self.brief else self.n_jobs)
        began = perf_counter()
        each(solve, parts, self.n_jobs)
        self.brief = len(parts) * (perf_counter() - began) < BRIEF
        self.complete(A, aim, W, status, rounds, max_iter)

    def states(self) -> list[_kernel.ActiveSet]:
        """The states of the tasks, for whoever calls the kernel itself; none where tasks are not solved by it one after the
        other."""
        if not (self.n_jobs in (None, 1) or self.brief) or isinstance(self.tasks[0], WorkingState):
            return []
        for task in self.tasks:
            task.follow()
        return [task.state for task in self.tasks]

    def complete(
        self, A: Floats, aim: Floats, W: Floats, status: np.ndarray, rounds: np.ndarray, max_iter: int = 0
    ) -> None:
        """Solve the tasks to the end whose status asks for more than the kernel can do; arrays as in `solve_into`."""
        left = (status & ~go_on(self.careful)).nonzero()[0]
        inner = self.n_jobs if len(left) == 1 else None  # one task alone may use all threads to fetch its rows

        def finish(i: int) -> None:
            at = slice(i, i + 1)
            self._finish(i, A[at], aim[at], W[at], status[at], rounds[at], max_iter, inner, used)

        if left.size:
            used = np.asarray(aim.any(axis=0))
            each(finish, left.tolist(), self.n_jobs)
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
            if len(left) == len(parts):
                each(_Path.supply, left, self.n_jobs, stop)
            else:  # not enough to keep all threads busy: these fetch rows together
                for part in left:
                    part.supply(self.n_jobs)
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
        design, a, unit = self.designs[i], A[0], self.units[i : i + 1]

        def run() -> None:
            before = rounds[0]
            _kernel.solve_all([self.tasks[i].state], A, aim, unit, W, status, rounds, max_iter)
            rounds[0] += before - 1

        for _ in range(20 * self.d + 100):  # far more turns than it takes, even if rows must make room for others
            if not status[0] & MISSING or status[0] & OVERRUN:
                break
            if not self.may_fetch:
                raise Lacking
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
        return polish(self.designs[i], w, a, self.positive)

    def _nearest(self, i: int, w: Floats, a: Floats, aim: Floats) -> Floats:
        return nearest(self.designs[i], w, a, aim, self.units[i], self.positive)

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
        self.supplied = -1  # the solve that rows were fetched for last
        self.aim = np.zeros((lassos.m, lassos.d))
        self.counts = np.zeros(lassos.m * len(lams), np.intc)  # coefficients of every solve
        self.features: list[np.ndarray] = []
        self.values: list[Floats] = []

    @property
    def ended(self) -> bool:
        return self.place == self.end

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
                lacking = bool(self.status[i, k] & MISSING) and self.place != self.supplied
                if not lacking:
                    self._finish(i, k)
            self.tick((self.place - begin) / lassos.m)
            if lacking:  # mostly one fetch is enough: let the kernel try again
                return

    def supply(self, n_jobs: int | None = None) -> None:
        """Fetch the Gram rows that are lacking."""
        self.supplied = self.place
        i, k = divmod(self.place, len(self.lams))
        self.lassos.tasks[i].supply(self.lams[k] * self.weights[i], n_jobs, likely=self.likely)

    def _finish(self, i: int, k: int) -> None:
        """The solve of task i for lams[k], which the kernel cannot do by itself."""
        lassos, aim = self.lassos, self.aim[:1]
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


def suspicions(design: Design, W: Floats, A: Floats) -> Floats:
    """How far X itself contradicts each row of W: sum_j |w_j| |g_j - a_j sign(w_j)| as a share of |y|^2, plus the largest
    violation by a feature that is not used, as a correlation.

    In Gram form columns at a distance of less than about 1e-6 cannot be told from dependent ones.
    """
    if design.target is None or design.yy == 0.0:
        return np.zeros(len(W))
    R = design.residuals(W)
    assert R is not None
    G, used, length = design.correlate(R.T).T, W != 0.0, np.sqrt(design.squares * design.yy)
    error = np.abs(G - np.where(used, A, 0.0) * np.sign(W))
    beyond = np.where(used | (length == 0.0), 0.0, np.abs(G) - A) / np.where(length > 0.0, length, 1.0)
    return np.einsum("sj,sj->s", np.abs(W), error) / design.yy + np.maximum(beyond.max(axis=1, initial=0.0), 0.0)


def least_squares_on(lassos: Lassos, W: Floats) -> Floats:
    """Least squares (m, d) on the support of W; of several solutions the one nearest to W."""
    out, _ = lassos.solve(np.where(W != 0.0, 0.0, np.inf), reference=W)
    return out


# ------------------------------------------------------------------ minimisers that are not unique


def nearest(design: Design, w: Floats, a: Floats, aim: Floats, unit: Floats, positive: bool) -> Floats:
    """The minimiser nearest to `aim` (in the norm |unit * (w - aim)|), given one minimiser w.

    All minimisers have the same fit and the same signs: they are the v with X_E v = X_E w and s_j v_j >= 0 for the
    penalised j, where E holds the features whose gradient is at its bound. The nearest one is the projection of
    `aim` on that polyhedron: unique, hence independent of how w was found. (Columns whose lengths differ by more
    than WIDE are weighted as if they differed by that much: beyond it rounding would decide.)
    """
    if np.array_equal(w, aim):
        return w
    g = design.gradient(w)
    finite = np.where(np.isfinite(a), a, 0.0)
    root = np.sqrt(design.squares)
    slack = TIE * finite + root * (1e-12 * np.sqrt(design.yy) + 1e-13 * float(root @ np.abs(w)))
    at_bound = ((g if positive else np.abs(g)) >= finite - slack) & (design.squares > 0) & np.isfinite(a)
    E = np.flatnonzero(at_bound | (w != 0.0))
    if E.size == 0:
        return w
    length = np.sqrt(design.squares[E])
    rows, null = _row_and_null_space(design, E, length)
    if null.shape[1] == 0:
        return w
    norm = unit[E] / length
    norm = np.maximum(norm / norm.max(), 1.0 / WIDE)  # relative to the columns' lengths
    scale = norm * length
    sign = np.where((a[E] > 0) | positive, 1.0 if positive else np.sign(g[E]), 0.0)
    if null.shape[1] <= FEW_DIRECTIONS:
        v = _slide(scale * w[E], np.linalg.qr(norm[:, None] * null)[0], scale * aim[E], sign)
    else:
        v = _project(scale * w[E], np.linalg.qr((rows / norm).T)[0].T, scale * aim[E], sign)
    out = np.zeros_like(w)
    out[E] = v / scale
    return out


def _row_and_null_space(design: Design, E: Ints, length: Floats) -> tuple[Floats, Floats]:
    """Bases (rank, |E|) and (|E|, |E| - rank) of the row and the null space of X_E with columns of unit length."""
    X = design.columns(E)
    if X is None:
        values, vectors = np.linalg.eigh(design.gram_rows(E)[:, E] / np.outer(length, length))
        live = values > 1e-12 * len(E)
        return np.asarray(vectors[:, live].T), np.asarray(vectors[:, ~live])
    X = X / length
    if len(X) > 2 * len(E):  # without pivots it is faster
        X = np.asarray(np.linalg.qr(X, mode="r"))
    R, order = qr(X, mode="r", pivoting=True, overwrite_a=True, check_finite=False)
    pivots = np.abs(np.diag(R))
    rank = int((pivots > 1e-10 * pivots[0]).sum())
    rows, null = np.empty((rank, len(E))), np.zeros((len(E), len(E) - rank))
    rows[:, order] = R[:rank]
    if null.size:
        null[order[:rank]] = -solve_triangular(R[:rank, :rank], R[:rank, rank:], check_finite=False)
        null[order[rank:], np.arange(null.shape[1])] = 1.0
    return rows, null


def _slide(v: Floats, N: Floats, goal: Floats, sign: Floats) -> Floats:
    """The point of {v + N t : sign_p (v + N t)_p >= 0} nearest to goal, from a feasible v; N has orthonormal columns.

    A primal active-set method: go towards the nearest point of the present face, stop where an entry reaches zero and
    hold it there, let go of held entries whose multiplier is negative.
    """
    size = max(float(np.abs(v).max()), float(np.abs(goal).max()), np.finfo(float).tiny)
    v = v.copy()
    held: list[int] = []
    for _ in range(20 * (len(v) + 1)):
        B = N
        if held:
            _, values, right = np.linalg.svd(N[held], full_matrices=True)
            B = N @ right[int((values > 1e-12).sum()) :].T
        move = B @ (B.T @ (goal - v))
        if np.abs(move).max(initial=0.0) <= 1e-12 * size:
            if not held:
                break
            normals = N[held].T * sign[held]
            multipliers = np.linalg.lstsq(normals, N.T @ (v - goal), rcond=1e-12)[0]
            if multipliers.min() >= -1e-10 * size:
                break
            held.pop(int(np.argmin(multipliers)))
            continue
        towards = sign * move < 0
        towards[held] = False
        steps = np.where(towards, -v / np.where(towards, move, 1.0), np.inf)
        first = int(np.argmin(steps))
        v += min(max(steps[first], 0.0), 1.0) * move
        if steps[first] < 1.0:
            held.append(first)
        v[held] = 0.0
    v[(sign != 0.0) & (sign * v <= 1e-13 * size)] = 0.0
    return v


def _project(v: Floats, A: Floats, goal: Floats, sign: Floats) -> Floats:
    """The same for many null directions: the point nearest to goal with the same A v and sign_p v_p >= 0.

    By Newton's method on the dual, whose size is the number of rows of A (orthonormal): the point is the positive part
    (where sign != 0) of goal + A'u for the u that makes A times it what it should be, a piecewise linear equation.
    Where that fails (huge coefficients on nearly dependent columns), v itself.
    """
    size = max(float(np.abs(v).max()), float(np.abs(goal).max()), np.finfo(float).tiny)
    goal, target, limit = goal / size, A @ v / size, 1e-15 * np.sqrt(len(v))
    u = target - A @ goal

    def at(u: Floats) -> tuple[Floats, Floats, float]:
        point = goal + A.T @ u
        point[(sign != 0.0) & (sign * point <= 0.0)] = 0.0
        return point, A @ point - target, 0.5 * float(point @ point) - float(target @ u)

    point, error, value = at(u)
    for _ in range(200):
        if np.abs(error).max() <= limit:
            break
        live = A[:, (sign == 0.0) | (point != 0.0)]
        values, vectors = np.linalg.eigh(live @ live.T)
        inner = vectors.T @ error
        # a full step, or one less bold where the equations on this piece are (nearly) dependent
        trials = ((floor, 0.5**k) for floor in (1e-12, 1e-6, 1e-2) for k in range(12))
        for floor, step in trials:
            move = -vectors @ (inner / np.maximum(values, floor))
            point, new, lower = at(u + step * move)
            if lower <= value + 1e-4 * step * float(error @ move) or np.abs(new).max() <= 0.5 * np.abs(error).max():
                break
        else:
            break
        u, error, value = u + step * move, new, lower
    point, error, _ = at(u)
    if np.abs(error).max() > 1e-11:
        return v
    return np.asarray(size * np.where((sign != 0.0) & (sign * point <= 1e-13), 0.0, point))


# ------------------------------------------------------------------ ill-conditioned supports


def polish(design: Design, w: Floats, a: Floats, positive: bool) -> Floats:
    """Improve a minimiser on X itself where the Gram form (which squares the condition) has lost digits.

    Returns w unchanged when X is not at hand or nothing can be gained.
    """
    value = _objective(design, w, a)
    for _ in range(POLISHES):
        better = _polish_once(design, w, a, positive)
        reached = _objective(design, better, a)
        if not reached < value - 1e-14 * design.yy:
            return better if reached <= value else w
        w, value = better, reached
    return w


def _polish_once(design: Design, w: Floats, a: Floats, positive: bool) -> Floats:
    """One attempt: a feature that has left does not come back in it, so it ends.

    A plain primal active-set method with a QR factor of X on the support, for the few steps that are left:
    solve on the support, line search to the first sign change, add the worst violator. Returns w unchanged
    when X is not at hand or nothing can be gained.
    """
    y = design.target
    if y is None:
        return w
    length = np.sqrt(design.squares)
    fixed = (a == 0.0) & (not positive)
    support: list[int] = np.flatnonzero(((w != 0.0) | fixed) & (length > 0)).tolist()
    sign = np.where(fixed, 0.0, np.sign(w))
    best, best_value = w, _objective(design, w, a)
    w = w.copy()
    barred = _surplus(design, [j for j in support if fixed[j]])
    support = [j for j in support if j not in barred]
    w[list(barred)] = 0.0
    for _ in range(50 + 2 * len(support)):
        X = design.columns(np.array(support, dtype=np.intp))
        assert X is not None
        Q, R, order = qr(X / length[support], mode="economic", pivoting=True)
        pivots = np.abs(np.diag(R))
        rank = int((pivots > 1e-13 * pivots[0]).sum()) if pivots.size else 0
        now = w[support]
        if rank < len(support):  # move along a null direction, downhill, until an entry can leave
            v = np.linalg.svd(R, full_matrices=True)[2][-1][np.argsort(order)] / length[support]
            v = v if a[support] @ (sign[support] * v) <= 0 else -v
            blocking = np.flatnonzero(sign[support] * v < 0)
            if blocking.size:
                first = int(blocking[np.argmin(-now[blocking] / v[blocking])])
            else:  # free columns alone: one of them is enough less
                first = int(np.argmax(np.abs(v) * length[support]))
                barred.add(support[first])
            w[support] = now - now[first] / v[first] * v
            w[support.pop(first)] = 0.0
            continue
        b = (a[support] * sign[support] / length[support])[order]
        z = np.empty(len(support))
        z[order] = solve_triangular(R, Q.T @ y - solve_triangular(R, b, trans="T")) if support else 0.0
        z /= length[support]
        wrong = np.flatnonzero((sign[support] != 0) & (z * sign[support] <= 0))
        if wrong.size:
            steps = np.where(now[wrong] == z[wrong], 0.0, now[wrong] / (now[wrong] - z[wrong]))
            first = int(np.argmin(steps))
            w[support] = now + steps[first] * (z - now)
            gone = support.pop(int(wrong[first]))
            w[gone] = 0.0
            barred.add(gone)
            continue
        w[support] = z
        value = _objective(design, w, a)
        if value <= best_value + 1e-14 * design.yy:
            best, best_value = w.copy(), value
        g = design.gradient(w)
        over = (g if positive else np.abs(g)) - a
        over = np.where((length > 0) & (over > 1e-11 * a), over / np.where(length > 0, length, 1.0), 0.0)
        over[support] = 0.0
        over[list(barred)] = 0.0
        j = int(np.argmax(over))
        if over[j] <= 1e-14 * np.sqrt(design.yy):
            break
        support.append(j)
        sign[j] = 0.0 if fixed[j] else np.sign(g[j])
    return best


def _surplus(design: Design, features: list[int]) -> set[int]:
    """Those of the features that depend on the rest of them."""
    X = design.columns(np.array(features, dtype=np.intp))
    if not features or X is None:
        return set()
    R, order = qr(X / np.sqrt(design.squares[features]), mode="r", pivoting=True)
    pivots = np.abs(np.diag(R))
    rank = int((pivots > 1e-13 * pivots[0]).sum())
    return {features[t] for t in order[rank:]}


def _objective(design: Design, w: Floats, a: Floats) -> float:
    used = w != 0.0
    return 0.5 * design.loss(w) + float(a[used] @ np.abs(w[used]))
