"""Common part and deviations as one lasso: the tasks' designs put together to one with (m + 1) d columns.

    min_{b, V}  1/2 sum_i s_i |y_i - X_i (b + v_i)|^2 + sum_j a_j |b_j| + sum_ji a_ji |v_ji|,      s_i = 1 / n_i

The rows of task i are those of X_i times s_i^1/2, under b and under v_i; 0 elsewhere. No such row is ever made. It is
solved on the tasks' own Gram matrices, whose deviations meet in b only (`_kernels/arrow.py`); where these are not formed, or
a solve does not end, on a Gram matrix of all, or rows of it, put together from those of the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..._data.designs import Coefs, Design, Floats, Ints, with_rows
from ..._kernels.active_set import ActiveSet, solve_all
from ..._kernels.arrow import Arrow
from ..._objective.coupled.common_penalty import SharedNorm
from ..gram import BUDGET, WHOLE_BELOW, at_hand, may_form
from ..lassos.lasso_solver import OVERRUN, SLID
from ..lassos.task_solver import Caches, task_caches
from ..lassos.weighted_lasso import Lassos

AT_BOUND = 1e-9  # |gradient| this close to its bound, relatively, counts as at the bound
MOVED = 1e-9  # of a row's largest coefficient: a common value that differs by more is another one
POLISHED = 2**18  # entries of the columns in use up to which a solution is worked out on them, all tasks together


class Stacked:
    """All tasks as one `Design`, features being b (d), v_1 (d), ..., v_m (d). Its n is m, so that a loss over n is that of
    objective (1). Where tasks have a part for each of several classes, these stand side by side, and every class has a b."""

    def __init__(self, parts: Sequence[Design], classes: int = 1):
        self.parts, self.classes = list(parts), classes
        self.m, self.width = len(self.parts), self.parts[0].d
        self.tasks = self.m // classes
        self.d, self.n = (self.m + classes) * self.width, float(self.m)
        self.curvature = 1.0
        self.scale = np.array([1.0 / part.n for part in self.parts])
        self.order = min(sum(part.order for part in self.parts), self.m * self.width)
        self.same_x = self
        self.yy = float(sum(s * part.yy for s, part in zip(self.scale, self.parts, strict=True)))
        self.c = self._spread([part.c for part in self.parts])
        self.squares = self._spread([part.squares for part in self.parts])

    def _spread(self, values: Sequence[Floats]) -> Floats:
        """(p,): of task i (d,) each, scaled; their sum belongs to b."""
        scaled = self.scale[:, None] * np.array(values)
        of_b = scaled.reshape(self.tasks, -1).sum(axis=0)
        return np.concatenate([of_b, scaled.ravel()])

    def sums(self, P: Floats) -> Floats:
        """(m, d): b + v_i for P (p,), of every class"""
        parts = P.reshape(self.tasks + 1, -1)
        return np.reshape(parts[0] + parts[1:], (self.m, self.width))

    # ------------------------------------------------------------------ Gram matrices

    @cached_property
    def _whole(self) -> bool:
        return may_form(self.parts, BUDGET)

    def _rows_of(self, i: int, columns: Ints) -> Floats:
        """(len(columns), d): rows of s_i X_i'X_i"""
        part = self.parts[i]
        out: Floats = self.scale[i] * (part.gram()[columns] if self._whole else part.gram_rows(columns))
        return out

    def _block(self, i: int) -> slice:
        """The places of v_i"""
        return slice((i + 1) * self.width, (i + 2) * self.width)

    def gram(self, room: Floats | None = None, n_jobs: int | None = None) -> Floats:
        d, out = self.width, np.empty((self.d, self.d)) if room is None else room
        out[:] = 0.0
        for i, part in enumerate(self.parts):
            G, at = self.scale[i] * part.gram(), self._block(i)
            out[:d, :d] += G
            out[:d, at] = out[at, :d] = out[at, at] = G
        return out

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        out = np.empty((len(features), self.d)) if out is None else out
        out[:] = 0.0
        owner, column = np.divmod(features, self.width)
        of_b = np.flatnonzero(owner == 0)
        for i in range(self.m) if of_b.size else np.unique(owner) - 1:
            of_v = np.flatnonzero(owner == i + 1)
            rows = np.concatenate([of_b, of_v])
            G = self._rows_of(i, column[rows])
            out[rows, self._block(i)] = G
            out[rows, : self.width] += G
        return out

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        owner, column = np.divmod(others, self.width)
        mine, of_mine = np.divmod(some, self.width)
        out = np.zeros((len(some), len(others)))
        for i in range(self.m):
            rows, at = np.flatnonzero((mine == 0) | (mine == i + 1)), np.flatnonzero((owner == 0) | (owner == i + 1))
            if rows.size and at.size:
                out[np.ix_(rows, at)] += self.scale[i] * self.parts[i].gram_block(of_mine[rows], column[at])
        return out

    # ------------------------------------------------------------------ rows, if they are at hand

    @cached_property
    def target(self) -> Floats | None:
        targets = [part.target for part in self.parts]
        if any(target is None for target in targets):
            return None
        return np.concatenate([np.sqrt(s) * target for s, target in zip(self.scale, targets, strict=True)])

    def as_rows(self) -> Stacked:
        """The same on rows that are made of the tasks' statistics."""
        return Stacked([with_rows(part) for part in self.parts])

    def loss(self, P: Floats) -> float:
        parts = zip(self.scale, self.parts, self.sums(P), strict=True)
        return float(sum(s * part.loss(w) for s, part, w in parts))

    def gradient(self, P: Floats) -> Floats:
        return self._spread([part.gradient(w) for part, w in zip(self.parts, self.sums(P), strict=True)])

    def residual(self, P: Floats) -> Floats | None:
        if self.target is None:
            return None
        parts = zip(self.scale, self.parts, self.sums(P), strict=True)
        return np.concatenate([np.sqrt(s) * part.residual(w) for s, part, w in parts])

    def residuals(self, W: Floats) -> Floats | None:
        return None if self.target is None else np.array([self.residual(P) for P in W])

    def correlate(self, v: Floats) -> Floats:
        """X'v for v (rows,) or (rows, count)"""
        ends = np.cumsum([0 if part.target is None else len(part.target) for part in self.parts])[:-1]
        pieces = zip(self.scale, self.parts, np.split(v, ends), strict=True)
        apart = [np.sqrt(s) * part.correlate(piece) for s, part, piece in pieces]
        return np.concatenate([np.sum(apart, axis=0), *apart])

    def columns(self, features: Ints) -> Floats | None:
        if self.target is None:
            return None
        owner, column = np.divmod(features, self.width)
        blocks = []
        for i, part in enumerate(self.parts):
            X = part.columns(column)
            assert X is not None
            blocks.append(np.sqrt(self.scale[i]) * X * ((owner == 0) | (owner == i + 1)))
        return np.concatenate(blocks)

    def intercepts(self, W: Coefs) -> Floats:
        raise NotImplementedError("every task has an intercept of its own")


class Remainder:
    """A task whose target is what a common part b leaves of it: the `Design` of its deviations."""

    def __init__(self, part: Design, b: Floats):
        self.part, self.b = part, b
        self.d, self.n, self.order, self.same_x = part.d, part.n, part.order, part.same_x
        self.curvature = part.curvature
        self.squares, self.gram, self.gram_rows, self.gram_block = (
            part.squares,
            part.gram,
            part.gram_rows,
            part.gram_block,
        )
        self.columns, self.correlate = part.columns, part.correlate
        self.target = None if part.target is None else part.residual(b)
        self.yy, self.c = part.loss(b), part.gradient(b)

    def as_rows(self) -> Remainder:
        """The same on rows that are made of the task's statistics."""
        return Remainder(with_rows(self.part), self.b)

    def loss(self, w: Floats) -> float:
        return self.part.loss(self.b + w)

    def gradient(self, w: Floats) -> Floats:
        return self.part.gradient(self.b + w)

    def residual(self, w: Floats) -> Floats | None:
        return self.part.residual(self.b + w)

    def residuals(self, W: Floats) -> Floats | None:
        return self.part.residuals(self.b + W)

    def intercepts(self, W: Coefs) -> Floats:
        dense = W if isinstance(W, np.ndarray) else W.dense(np.arange(W.shape[0]))
        return self.part.intercepts(self.b + dense)


class Weighed:
    """(m, d, d): every task's Gram matrix times its weight in the loss; (d, d): their sum; whether single fits form them."""

    def __init__(self, each: Floats, always: bool):
        self.each, self.total, self.always = each, each.sum(axis=0), always


class StackedGrams:
    """What is known of the Gram matrices of all tasks: put together, and (if deviations are all there is) apart."""

    def __init__(
        self,
        designs: Sequence[Design],
        *,
        reuse: bool = False,
        budget: float | None = None,
        n_jobs: int | None = None,
    ):
        self.designs, self.n_jobs = list(designs), n_jobs
        self.reuse, self.budget = reuse, (BUDGET if budget is None else budget) / 2
        self.stacked = Stacked(self.designs)

    @cached_property
    def together(self) -> Caches:
        return task_caches([self.stacked], reuse=self.reuse, budget=self.budget, n_jobs=self.n_jobs)

    def for_one(self) -> Caches:
        """Those of all put together, for one solver: its own, if it has to fetch rows while others do."""
        if self.weighed is None or at_hand(self.together):
            return self.together
        return task_caches([self.stacked], budget=self.budget, n_jobs=self.n_jobs)

    @cached_property
    def apart(self) -> Caches:
        return task_caches(self.designs, reuse=self.reuse, budget=self.budget, n_jobs=self.n_jobs)

    @cached_property
    def weighed(self) -> Weighed | None:
        """None where it does not pay to form them all: in a single fit with many more features than samples it does not."""
        few = all(x.d <= WHOLE_BELOW or x.order >= x.d for x in self.designs)
        if not ((few or self.reuse) and may_form(self.designs, self.budget) and at_hand(self.apart)):
            return None
        wholes: list[Any] = [gram.whole for gram in self.apart]
        return Weighed(np.array([s * G for s, G in zip(self.stacked.scale, wholes, strict=True)]), few)

    def fetched_at_once(self) -> bool:
        """Whether several threads may use them."""
        return self.weighed is not None or at_hand((*self.together, *self.apart))


class MadeGrams(StackedGrams):
    """The same of tasks whose Gram matrices G (m, d, d) are made already."""

    def __init__(self, designs: Sequence[Design], G: Floats, n_jobs: int | None = None):
        super().__init__(designs, n_jobs=n_jobs)
        self.made = G

    @cached_property
    def weighed(self) -> Weighed | None:
        few = all(x.d <= WHOLE_BELOW or x.order >= x.d for x in self.designs)
        return Weighed(self.stacked.scale[:, None, None] * self.made, True) if few else None


class _Together(Lassos):
    """The lasso in (b, V) as it stands."""

    def _polish(self, i: int, w: Floats, a: Floats) -> Floats:
        """On the columns in use, if they are few; else every task's deviations are worked out by `_nearest` alone."""
        design: Any = with_rows(self.design(i))
        small = design.target is not None and len(design.target) * np.count_nonzero((w != 0.0) | (a == 0.0)) <= POLISHED
        return super()._polish(i, w, a) if small else w

    def _nearest(self, i: int, w: Floats, a: Floats, aim: Floats) -> Floats:
        """Deviations for which b + V is nearest to that of `aim`, b being what it is: every task on its own."""
        if self.ridge is not None:  # there is one minimiser
            return w
        design: Any = self.designs[i]
        d, m = design.width, design.m
        b, V, A = w[:d], w[d:].reshape(m, d), a[d:].reshape(m, d)
        g, squares = self._gradient(w)[d:].reshape(m, d), design.squares[d:].reshape(m, d)
        finite = np.where(np.isfinite(A), A, 0.0)
        noise = np.sqrt(squares) * (1e-12 * np.sqrt(design.yy) + 1e-13 * float(np.sqrt(design.squares) @ np.abs(w)))
        reached = (np.abs(g) >= finite * (1.0 - AT_BOUND) - noise) & (squares > 0) & np.isfinite(A)
        tied = np.flatnonzero((reached & (V == 0.0)).any(axis=1) | ((finite == 0.0) & reached).any(axis=1))
        if tied.size == 0:
            return w
        out = w.copy()
        out[d:].reshape(m, d)[tied] = self._deviations(tied, b, V[tied], A[tied], design.sums(aim)[tied] - b)
        return out

    def _gradient(self, w: Floats) -> Floats:
        """(p,): minus that of the loss at w, which was just found."""
        return self.designs[0].gradient(w)

    def _deviations(self, tasks: Ints, b: Floats, V: Floats, A: Floats, aim: Floats) -> Floats:
        """(len(tasks), d): those of some tasks nearest to `aim`, given b, others as good, V, and their weights A."""
        design: Any = self.designs[0]
        units = self.units[0, design.width :].reshape(design.m, design.width)[tasks]
        lassos = Lassos([Remainder(design.parts[k], b) for k in tasks], units=units, n_jobs=self.n_jobs)
        lassos.warm(V)
        return lassos.solve(A / design.scale[tasks, None], reference=aim)[0]


class _ByArrow(_Together):
    """The same on the tasks' own Gram matrices: no larger one is made."""

    def __init__(self, grams: Weighed, stacked: Stacked, units: Floats, ridge: Floats | None, n_jobs: int | None):
        self.ridge, self.levels = None if ridge is None else ridge[None], np.ones(1)
        self.grams_of_tasks, self.designs, self.units = grams, [stacked], units
        self.root = np.sqrt(stacked.squares)
        orders = np.array([part.order if ridge is None else part.d for part in stacked.parts], dtype=np.intc)
        self.state = Arrow(grams.each, grams.total, stacked.c, self.root, orders)
        if ridge is not None:
            self.state.set_ridge(ridge, np.zeros(stacked.d))
        self.found = np.zeros(0)
        self.positive, self.careful, self.n_jobs = False, False, n_jobs
        self.m, self.d = units.shape
        self.status = np.zeros(1, np.intc)

    def solve_into(
        self, A: Floats, aim: Floats, W: Floats, status: np.ndarray, rounds: np.ndarray, max_iter: int = 0
    ) -> None:
        # of several b the nearest, too, unless single fits work with rows, where b is what the solver finds first: a search
        # must find what they do
        project = self.grams_of_tasks.always
        status[0], rounds[0] = self.state.solve(A[0], aim, self.units, W[0], max_iter, project)
        self.found = W[0].copy()
        self.complete(A, aim, W, status, rounds, max_iter)

    def warm(self, W: Floats) -> None:
        self.state.begin(self._checked(W)[0])

    def _gradient(self, w: Floats) -> Floats:
        return self.state.gradient() if np.array_equal(w, self.found) else super()._gradient(w)

    @cached_property
    def _one(self) -> ActiveSet:
        """A state that serves one task after the other."""
        d = self.grams_of_tasks.total.shape[0]
        return ActiveSet(self.grams_of_tasks.total, np.zeros(d), np.zeros(d), d, d, False)

    def _deviations(self, tasks: Ints, b: Floats, V: Floats, A: Floats, aim: Floats) -> Floats:
        """On Gram matrices, and on X where that is not enough."""
        stacked: Any = self.designs[0]
        m, d, Q = stacked.m, stacked.width, self.grams_of_tasks.each
        c, root, units = (x[d:].reshape(m, d) for x in (stacked.c, self.root, self.units[0]))
        largest = np.divide(np.abs(c), root, out=np.zeros_like(c), where=root > 0).max(axis=1)
        out, status, rounds = np.zeros_like(V), np.zeros(len(tasks), np.intc), np.zeros(len(tasks), np.intc)
        for t, k in enumerate(tasks.tolist()):
            at, used = slice(t, t + 1), V[t].nonzero()[0]
            self._one.turn_to(Q[k], c[k] - Q[k] @ b, root[k], largest[k])
            self._one.begin(used.astype(np.intc), V[t, used])
            solve_all([self._one], A[at], aim[at], units[k : k + 1], out[at], status[at], rounds[at])
        left = np.flatnonzero(status & ~SLID)
        if left.size:
            out[left] = super()._deviations(tasks[left], b, V[left], A[left], aim[left])
        return out


class StackedLassos:
    """The lasso in (b, V), exact and warm; points P are (p,).

    Where no row can gain by a common part (c_j >= sum_i a_ji) b is 0 and the tasks are solved apart. Where V is not unique
    given b, it is the one for which b + V is nearest to that of the reference; b is what the solver found.

    Parameters
    ----------
    grams : what is known of the Gram matrices
    units : (m, d) scale in which the distance between solutions is measured
    """

    def __init__(self, grams: StackedGrams, *, units: Floats, n_jobs: int | None = None):
        self.grams, self.units, self.n_jobs = grams, units, n_jobs
        self.stacked = grams.stacked
        self.last = np.zeros(self.stacked.d)
        self.solver: Lassos | None = None  # that of the last solve
        self.finished, self.slid = True, False
        self.ridge: Floats | None = None
        self.known: dict[str, Lassos] = {}  # solvers, by what they are

    def at(self, ridge: Floats | None) -> None:
        """Have this ridge (p,), in sums, from the next solve on."""
        if ridge is None or (self.ridge is not None and np.array_equal(ridge, self.ridge)):
            return
        self.ridge, self.solver = ridge, None
        self.known = {}

    def _kept(self, name: str, make: Callable[[], Lassos]) -> Lassos:
        if name not in self.known:
            self.known[name] = make()
        return self.known[name]

    def warm(self, P: Floats) -> None:
        """Start the next solve from P instead of from the last solution."""
        self.last, self.solver = P, None

    @cached_property
    def _all_units(self) -> Floats:
        """(1, p)"""
        common = np.sqrt((self.units**2).mean(axis=0))
        return np.concatenate([common, self.units.ravel()])[None]

    @property
    def _together(self) -> Lassos:
        weighed = self.grams.weighed
        if weighed is None:
            return self._by_rows
        return self._kept("arrow", lambda: _ByArrow(weighed, self.stacked, self._all_units, self.ridge, self.n_jobs))

    @cached_property
    def _own_grams(self) -> Caches:
        return self.grams.for_one()

    @property
    def _by_rows(self) -> Lassos:
        """On a Gram matrix of all, or rows of it."""
        ridge = None if self.ridge is None else self.ridge[None]
        return self._kept("rows", lambda: self._of(_Together, [self.stacked], self._all_units, self._own_grams, ridge))

    @property
    def _apart(self) -> Lassos:
        stacked, ridge = self.stacked, None
        if self.ridge is not None:
            ridge = self.ridge[stacked.width :].reshape(stacked.m, -1) / stacked.scale[:, None]
        return self._kept("apart", lambda: self._of(Lassos, stacked.parts, self.units, self.grams.apart, ridge))

    def _of(
        self, kind: type[Lassos], designs: Sequence[Design], units: Floats, grams: Caches, ridge: Floats | None
    ) -> Lassos:
        lassos = kind(designs, units=units, grams=grams, ridge=ridge, n_jobs=self.n_jobs)
        lassos.at(1.0)
        return lassos

    def solve(self, a: Floats, reference: Floats | None = None, max_iter: int = 0) -> tuple[Floats, int]:
        """P for the weights a (p,), in sums; and the rounds used."""
        d, m = self.stacked.width, self.stacked.m
        A, live = a[d:].reshape(m, d), self.stacked.squares[d:].reshape(m, d) > 0
        aim = np.zeros_like(a) if reference is None else reference
        useless = a[:d] >= np.where(live, A, 0.0).sum(axis=0) * (1.0 - 1e-12)
        if self.ridge is not None:  # a ridge would rather have some of both
            useless = np.isinf(a[:d])
        if useless.all():
            self._take_up(self._apart, self.stacked.sums(self.last))
            V, rounds = self._apart.solve(A / self.stacked.scale[:, None], self.stacked.sums(aim), max_iter)
            P = np.concatenate([np.zeros(d), V.ravel()])
        else:
            found, rounds = self._solved(self._together, self.last, a, aim, max_iter)
            if self._together.status[0] & OVERRUN and not max_iter and self._together is not self._by_rows:
                found, rounds = self._solved(self._by_rows, found[0], a, aim, max_iter)
            P = found[0]
        assert self.solver is not None
        self.last, status = P, self.solver.status
        self.finished, self.slid = not (status & OVERRUN).any(), bool((status & SLID).any())
        return P, int(rounds.max())

    def _solved(
        self, lassos: Lassos, start: Floats, a: Floats, aim: Floats, max_iter: int
    ) -> tuple[Floats, np.ndarray]:
        self._take_up(lassos, start[None])
        return lassos.solve(a[None], aim[None], max_iter)

    def _take_up(self, solver: Lassos, start: Floats) -> None:
        if solver is not self.solver:
            solver.warm(start)
            self.solver = solver

    def repair(self, P: Floats, a: Floats, aim: Floats) -> Floats:
        """A solution whose certificate is poor, worked out on X."""
        return self._together.repair(0, P, a, aim)


def settled(norm: SharedNorm, P: Floats, m: int) -> Floats:
    """P (p,) with the same W, and of all b that are as good for it the smallest."""
    parts = P.reshape(m + 1, -1)
    rows = np.flatnonzero(parts[0])  # 0 cannot be made smaller
    if rows.size == 0:
        return P
    W = parts[0, rows] + parts[1:, rows]
    of_rows = norm.of_rows(rows)
    if of_rows.is_lowest(W.T, parts[0, rows]).all():
        return P
    b = of_rows.common_of_sign(W.T, np.sign(parts[0, rows]))
    moved = np.abs(b - parts[0, rows]) > MOVED * np.abs(W).max(axis=0, initial=0.0)
    if not moved.any():
        return P
    out = parts.copy()
    out[0, rows[moved]], out[1:, rows[moved]] = b[moved], (W - b)[:, moved]
    return out.ravel()
