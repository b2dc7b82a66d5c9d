"""The weighted lassos of all tasks: exact, warm, canonical.

    task i:  min_w  1/2 |y - Xw|^2 + sum_j a_j |w_j|,   a_j in [0, inf]

(in sums over rows; a stage of Algorithm 1 has a = m n_i / 2 times its weights). The compiled kernel works
on the full Gram matrix of a task, or on the Gram rows of the features that matter, fetched on demand. Two
rare cases are settled here in numpy: a minimiser that is not unique (`nearest`), and a support so
ill-conditioned that the Gram form loses the answer (`polish`, on X itself).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.linalg import qr, solve_triangular

from . import _kernel
from .designs import Design, Floats, Ints

OVERRUN, SET_ASIDE, TIED, WEAK, MISSING = (
    _kernel.BITS[name] for name in ("OVERRUN", "SET_ASIDE", "TIED", "WEAK", "MISSING")
)

FULL_GRAM_BELOW = 400  # with fewer features the whole Gram matrix is cheaper than deciding what to fetch
FULL_GRAM_AT_MOST = 4000  # with more features it is never formed (128 MB per task at 4000)
STRONG_SHARE = 1 / 16  # of the features expected to enter soon, from which the whole matrix is formed at once
SWITCH_SHARE = 1 / 8  # of the Gram rows fetched, from which the rest follows at once
WIDE = 1e4  # ratio of column lengths beyond which rounding would decide what is nearest
FEW_DIRECTIONS = 40  # with more null directions the nearest minimiser is found through the dual
TIE = 1e-9  # |gradient| this close to its bound, relatively, counts as at the bound


class FullGram:
    """A task whose whole Gram matrix is at hand."""

    def __init__(self, design: Design, positive: bool):
        root = np.sqrt(design.squares)
        self.state = _kernel.ActiveSet(design.gram(), design.c, root, design.d, design.order, positive)

    def begin(self, w: Floats) -> None:
        features = np.flatnonzero(w)
        self.state.begin(features.astype(np.intc), w[features])


class SomeGram:
    """A task with Gram rows on demand: the kernel says when a feature is missing, `fetch` brings it."""

    def __init__(self, design: Design, positive: bool):
        self.design, self.positive = design, positive
        self.root = np.sqrt(design.squares)
        self.slot = np.full(design.d, -1, dtype=np.intc)  # feature -> slot
        self.features = np.empty(0, dtype=np.intc)  # slot -> feature
        self.rows = np.empty((0, design.d))
        self.known = np.empty((0, 0))
        self.c = design.c
        self.g = self.c.copy()
        self.state = _kernel.ActiveSet(np.zeros((1, 1)), np.zeros(1), np.zeros(1), 0, design.order, positive)
        self.state.attach(self.rows, self.slot, self.c, self.root, self.g)

    def fetch(self, a: Floats) -> None:
        """The Gram rows that weights a (d,) call for: free features first, else the worst violators."""
        missing = (self.slot < 0) & (self.root > 0)
        free = np.flatnonzero(missing & (a == 0.0)) if not self.positive else np.empty(0, dtype=np.intp)
        self._fetch(free if free.size else self._wanted(a, missing))

    def _wanted(self, a: Floats, missing: np.ndarray) -> Ints:
        """The worst violators, and those next to violating, so that few fetches serve many weights."""
        size = self.g if self.positive else np.abs(self.g)
        over = np.full(len(a), -np.inf)
        open_to = missing & np.isfinite(a)
        over[open_to] = (size[open_to] - a[open_to]) / self.root[open_to]
        have = len(self.features)
        count = max(16, min(int((over > 0).sum()), have // 4))  # 16 rows cost little more than one
        count = min(count, int(open_to.sum()))
        return np.sort(np.argpartition(-over, count - 1)[:count])

    def _fetch(self, wanted: Ints) -> None:
        design, have = self.design, len(self.features)
        size = have + len(wanted)
        if size > len(self.rows):
            capacity = min(max(2 * size, 256), design.d)  # memory is used only as far as it is filled
            rows, known = np.empty((capacity, design.d)), np.zeros((capacity, capacity))
            rows[:have], known[:have, :have] = self.rows[:have], self.known[:have, :have]
            self.rows, self.known = rows, known
        design.gram_rows(wanted, out=self.rows[have:size])
        self.slot[wanted] = np.arange(have, size, dtype=np.intc)
        self.features = np.concatenate([self.features, wanted.astype(np.intc)])
        block = self.rows[have:size][:, self.features]
        self.known[have:size, :size] = block
        self.known[:size, have:size] = block.T
        c, root = np.zeros(len(self.known)), np.zeros(len(self.known))
        c[:size], root[:size] = self.c[self.features], self.root[self.features]
        self.state.grow(self.known, c, root, self.rows, self.features, size)

    def begin(self, w: Floats) -> None:
        features = np.flatnonzero(w)
        new = features[self.slot[features] < 0]
        if new.size:
            self._fetch(new)
        self.state.begin(self.slot[features], w[features])


class Lassos:
    """The weighted lassos of all tasks, each with its warm state.

    Parameters
    ----------
    designs : one Design per task
    positive : require w >= 0
    units : (m, d) scale in which the distance between solutions is measured (1, or the standard deviations)
    reuse : the Gram matrices will serve many solves, so form them at once
    n_jobs : threads over tasks; the answer does not depend on it
    """

    def __init__(
        self,
        designs: Sequence[Design],
        *,
        positive: bool = False,
        units: Floats | None = None,
        reuse: bool = False,
        n_jobs: int | None = None,
    ):
        self.designs = list(designs)
        self.positive, self.n_jobs = positive, n_jobs
        self.m, self.d = len(self.designs), self.designs[0].d
        self.units = np.ones((self.m, self.d)) if units is None else self._checked(units)
        self.tasks: list[FullGram | SomeGram] = self.each(
            lambda i: (FullGram if _wants_full(self.designs[i], reuse) else SomeGram)(self.designs[i], positive),
            range(self.m),
        )

    def _checked(self, matrix: Floats) -> Floats:
        """The kernel does not look at bounds: shape, order and writability are settled here."""
        if np.shape(matrix) != (self.m, self.d):
            raise ValueError(f"a matrix of shape {np.shape(matrix)} was given where ({self.m}, {self.d}) is needed.")
        return np.require(matrix, np.float64, ["C", "W"])

    def each(self, call: Callable[[int], Any], items: Sequence[int]) -> list[Any]:
        """call(i) for some tasks, on threads if asked to."""
        if self.n_jobs in (None, 1) or len(items) < 2:
            return [call(i) for i in items]
        return list(Parallel(n_jobs=self.n_jobs, backend="threading")(delayed(call)(i) for i in items))

    def solve(self, A: Floats, reference: Floats | None = None, max_iter: int = 0) -> tuple[Floats, np.ndarray]:
        """Solve every task for its row of the weights A (m, d).

        Returns W (m, d) and the rounds used (m,). Where a task's minimiser is not unique, W is the one
        nearest `reference` (m, d), by default nearest 0.
        """
        A = self._checked(A)
        aim = np.zeros((self.m, self.d)) if reference is None else self._checked(reference)
        W, status, rounds = np.zeros((self.m, self.d)), np.zeros(self.m, np.intc), np.ones(self.m, np.intc)
        if self.n_jobs in (None, 1):
            states = [task.state for task in self.tasks]
            _kernel.solve_all(states, A, aim, self.units, W, status, rounds, max_iter)
            left = np.flatnonzero(status)
        else:
            left = np.arange(self.m)
        self.each(lambda i: self._finish(i, A, aim, W, status, rounds, max_iter), left.tolist())
        return W, rounds

    def _finish(
        self, i: int, A: Floats, aim: Floats, W: Floats, status: np.ndarray, rounds: np.ndarray, max_iter: int
    ) -> None:
        """Solve task i to the end: fetch what is missing, repair what the kernel flags."""
        at = slice(i, i + 1)
        design, a = self.designs[i], A[i]

        def run() -> None:
            before = rounds[i]
            states = [self.tasks[i].state]
            _kernel.solve_all(states, A[at], aim[at], self.units[at], W[at], status[at], rounds[at], max_iter)
            rounds[i] += before - 1

        if self.n_jobs not in (None, 1):
            run()
        while status[i] & MISSING and not status[i] & OVERRUN:
            self._supply(i, a)
            run()
        if status[i] & OVERRUN:
            return
        if status[i] & (WEAK | SET_ASIDE):
            W[i] = polish(design, W[i], a, self.positive)
        if status[i]:
            W[i] = nearest(design, W[i], a, aim[i], self.units[i], self.positive)

    def repair(self, i: int, w: Floats, a: Floats, aim: Floats) -> Floats:
        """A solution whose certificate is poor, polished on X and again the one nearest to aim."""
        better = polish(self.designs[i], w, a, self.positive)
        return nearest(self.designs[i], better, a, aim, self.units[i], self.positive)

    def _supply(self, i: int, a: Floats) -> None:
        """Fetch Gram rows; a task that has fetched much of its Gram matrix gets the rest at once."""
        task = self.tasks[i]
        assert isinstance(task, SomeGram)
        task.fetch(a)
        if self.d <= FULL_GRAM_AT_MOST and len(task.features) > SWITCH_SHARE * self.d:
            slots, values = task.state.support()
            w = np.zeros(self.d)
            w[task.features[slots]] = values
            self.tasks[i] = FullGram(self.designs[i], self.positive)
            self.tasks[i].begin(w)

    def warm(self, W: Floats) -> None:
        """Start the next solve from W (m, d) instead of from the last solution."""
        for task, w in zip(self.tasks, self._checked(W), strict=True):
            task.begin(w)


def _wants_full(design: Design, reuse: bool) -> bool:
    """Whether to form the whole Gram matrix at once.

    Yes if it is small, if there are more samples than features, if it will be reused, or if many features are about
    to enter: the strong rule at 3/4 of the largest weight keeps those with half of the largest correlation.
    """
    if design.d > FULL_GRAM_AT_MOST:
        return False
    if design.d <= FULL_GRAM_BELOW or design.order >= design.d:
        return True
    root = np.sqrt(design.squares)
    ratio = np.abs(design.c) / np.where(root > 0, root, 1.0)
    return reuse or int((ratio > 0.5 * ratio.max()).sum()) > STRONG_SHARE * design.d


# ------------------------------------------------------------------ minimisers that are not unique


def nearest(design: Design, w: Floats, a: Floats, aim: Floats, unit: Floats, positive: bool) -> Floats:
    """The minimiser nearest to `aim` (in the norm |unit * (w - aim)|), given one minimiser w.

    All minimisers have the same fit and the same signs: they are the v with X_E v = X_E w and s_j v_j >= 0 for the
    penalised j, where E holds the features whose gradient is at its bound. The nearest one is the projection of
    `aim` on that polyhedron: unique, hence independent of how w was found. (Columns whose lengths differ by more
    than WIDE are weighted as if they differed by that much: beyond it rounding would decide.)
    """
    g = design.gradient(w)
    finite = np.where(np.isfinite(a), a, 0.0)
    root = np.sqrt(design.squares)
    slack = TIE * finite + root * (1e-12 * np.sqrt(design.yy) + 1e-13 * float(root @ np.abs(w)))
    at_bound = ((g if positive else np.abs(g)) >= finite - slack) & (design.squares > 0) & np.isfinite(a)
    E = np.flatnonzero(at_bound | (w != 0.0))
    length = np.sqrt(design.squares[E])
    rows = _row_space(design, E, length)
    if len(rows) == len(E):
        return w
    norm = unit[E] / length
    norm = np.maximum(norm / norm.max(), 1.0 / WIDE)  # relative to the columns' lengths
    A = np.linalg.qr((rows / norm).T)[0].T
    scale = norm * length
    sign = np.where((a[E] > 0) | positive, 1.0 if positive else np.sign(g[E]), 0.0)
    if len(E) - len(rows) <= FEW_DIRECTIONS:
        N = np.linalg.qr(A.T, mode="complete")[0][:, len(rows) :]
        v = _slide(scale * w[E], N, scale * aim[E], sign)
    else:
        v = _project(scale * w[E], A, scale * aim[E], sign)
    out = np.zeros_like(w)
    out[E] = v / scale
    return out


def _row_space(design: Design, E: Ints, length: Floats) -> Floats:
    """An orthonormal basis (rank, |E|) of the row space of X_E with columns of unit length."""
    X = design.columns(E)
    if X is None:
        values, vectors = np.linalg.eigh(design.gram_rows(E)[:, E] / np.outer(length, length))
        return np.asarray(vectors[:, values > 1e-12 * len(E)].T)
    _, values, right = np.linalg.svd(X / length, full_matrices=False)
    return np.asarray(right[values > 1e-10 * values[0]])


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
