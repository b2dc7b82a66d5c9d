"""L1,2 and Dirty on a grid of their parameters: paths that go down warm, and the result with its certificates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._data.designs import Floats, Ints, support
from ..._objective.coupled.groups import BlockDirty, BlockNorm, Groups
from ..._objective.coupled.row_norms import GroupNorm, RowNorm
from ..._objective.penalties import ConcaveGroups, Dirty
from ..._objective.problem import Problem
from ..._objective.proofs.certificates import RowCertificate
from ..._objective.proofs.row_certificates import certify_rows
from ..._runtime.progress import one_blas_thread
from ..._runtime.threads import each
from ..._solvers.coupled.rows.coupled_rows import CoupledRows
from ..._solvers.coupled.rows.only_minimiser import AT_BOUND
from ..._solvers.degrees import (
    FIXED,
    Form,
    block_form,
    curved,
    group_form,
    level_form,
    stiffened,
    traces,
    traces_of_dirty_blocks,
)
from ..._solvers.gram import Gram
from ..._solvers.largest_lam import first_gradient, of_lasso
from ..._solvers.one_level import with_free_level
from ..._solvers.solvers import ROWS, caches_for, pressed_rows, rows_for
from ..._solvers.stages import SETTLED
from ..grids import read_lams, read_ratios
from ..solutions import Solutions, Solved

SHARES = (
    1e-2,
    1e-3,
)  # of lam_max where the lams end: n < d, n >= d. Rows that couple tasks saturate sooner than the lasso
ROUNDS = 2000  # goes over the rows that a point gets before it is known whether it matters
DIRTY_RATIOS = (1.0, 0.5, 0.2, 0.1)  # lam_s / lam_b, those of the paper's figure; 1 / m, the lasso, comes with them


def group_lam_max(problem: Problem) -> float:
    """The smallest lam at which L1,2 is zero (but for the cells that are never penalised)."""
    ones, groups = np.ones(problem.d), problem.groups
    norm = GroupNorm(ones, problem.factors) if groups is None else groups.norm(ones, problem.factors)
    return float(norm.dual(first_gradient(problem).T).max(initial=0.0)) / of_lasso(problem.l1_ratio)


def dirty_lam_max(problem: Problem, ratio: float) -> float:
    """The smallest lam_b at which Dirty with lam_s = ratio lam_b is zero."""
    norm = Dirty(ratio, 1.0, problem.factors, groups=problem.groups).norm
    return float(norm.dual(first_gradient(problem).T).max(initial=0.0)) / of_lasso(problem.l1_ratio)


class RowGrid:
    """Points (k, l) at which a row-coupled model is solved; `parameters` are (K, L) each, the first falls along a path."""

    @property
    def parameters(self) -> dict[str, Floats]:
        raise NotImplementedError

    def penalty(self, k: int, l: int, factors: Floats) -> ConcaveGroups | Dirty:
        raise NotImplementedError

    def norm(self, k: int, l: int, factors: Floats) -> RowNorm:
        """The penalty of the only stage, as the solver takes it."""
        penalty = self.penalty(k, l, factors)
        return penalty.weights(penalty.pattern(np.zeros(factors.shape)))

    def twin(self, k: int, l: int) -> tuple[tuple[int, int], float] | None:
        """A point of the first column, and a bound: where no gradient exceeds it there, the point (k, l) has the same
        minimisers."""
        return None

    @property
    def ridge_lams(self) -> Floats:
        """(K, L): the strengths that a ridge is a share of."""
        return self.strength

    @property
    def strength(self) -> Floats:
        return next(iter(self.parameters.values()))

    @property
    def shape(self) -> tuple[int, int]:
        return self.strength.shape[0], self.strength.shape[1]

    @property
    def block(self) -> int:
        """Points of a column that a search solves between two looks at held-out errors: each takes long."""
        return 1

    @property
    def leader(self) -> Ints:
        """(L,): every column goes by its own errors (see `early_stopping.Front`)."""
        return np.arange(self.shape[1])

    @property
    def steps(self) -> int:
        return self.strength.size


@dataclass(frozen=True)
class GroupGrid(RowGrid):
    """L1,2 at lams (K, 1)."""

    lam: Floats
    l1_ratio: float = 1.0
    groups: Groups | None = None

    @property
    def parameters(self) -> dict[str, Floats]:
        return {"lam": self.lam}

    def penalty(self, k: int, l: int, factors: Floats) -> ConcaveGroups:
        return ConcaveGroups(float(self.lam[k, l]), np.inf, factors, l1_ratio=self.l1_ratio, groups=self.groups)


@dataclass(frozen=True)
class DirtyGrid(RowGrid):
    """Dirty at lam_b, lam_s (K, L); a column has one ratio of them."""

    lam_b: Floats
    lam_s: Floats
    l1_ratio: float = 1.0
    groups: Groups | None = None

    @property
    def parameters(self) -> dict[str, Floats]:
        return {"lam_b": self.lam_b, "lam_s": self.lam_s}

    @property
    def ridge_lams(self) -> Floats:
        return self.lam_s

    def twin(self, k: int, l: int) -> tuple[tuple[int, int], float] | None:
        """With many tasks a ratio matters only once it is small: before, no entry leaves its row's level."""
        if self.l1_ratio < 1.0 or self.groups is not None:  # the ridge goes with lam_s
            return None
        same = l > 0 and self.lam_b[k, l] == self.lam_b[k, 0] and self.lam_s[k, l] <= self.lam_s[k, 0]
        return ((k, 0), float(self.lam_s[k, l])) if same else None

    def penalty(self, k: int, l: int, factors: Floats) -> Dirty:
        return Dirty(float(self.lam_s[k, l]), float(self.lam_b[k, l]), factors, self.l1_ratio, self.groups)


def group_grid(problem: Problem, lams: ArrayLike = 30, lam_min_ratio: float | None = None) -> GroupGrid:
    """An array of lams as it is, or that many from L1,2's own lam_max down."""
    found = read_lams(problem, lams, lam_min_ratio, group_lam_max(problem), SHARES)[:, None]
    return GroupGrid(found, problem.l1_ratio, problem.groups)


def dirty_grid(
    problem: Problem, lams: ArrayLike = 30, ratios: ArrayLike | None = None, lam_min_ratio: float | None = None
) -> DirtyGrid:
    """lam_b as an array, the same for all ratios, or that many for each ratio from its own lam_max down. Of ratios lam_s /
    lam_b that give the same models one is kept: those above 1 are l1,inf, as 1 is; on a grid of its own a ratio below 1/m is
    the lasso, as 1/m is."""
    found = read_ratios(DIRTY_RATIOS if ratios is None else ratios)
    if ratios is None:
        found = np.append(found, 1.0 / problem.m)
    found = np.minimum(found, 1.0)
    if isinstance(lams, Integral):
        found = np.maximum(found, 1.0 / problem.m)
    found = np.unique(found)[::-1]
    tops = [dirty_lam_max(problem, float(ratio)) for ratio in found]
    columns = [read_lams(problem, lams, lam_min_ratio, top, SHARES) for top in tops]
    lam_b = np.stack(columns, axis=1)
    return DirtyGrid(lam_b, lam_b * found, problem.l1_ratio, problem.groups)


@dataclass(frozen=True, eq=False)
class RowSurface(Solutions):
    """Solutions of L1,2 or Dirty on a grid of their parameters.

    Attributes
    ----------
    parameters : {name: (K, L)}: lam, or lam_b and lam_s
    n_rows, n_entries : (K, L) features used in any task; non-zero coefficients
    objective, dual_gap, unique : (K, L) computed from the data when first asked for
    finished : (K, L) whether the solver came to its end within its rounds

    Pickling computes the certificates first and leaves the data behind.
    """

    grid: RowGrid
    places: Ints = field(repr=False)  # (K, L)

    def __repr__(self) -> str:
        names = ", ".join(self.parameters)
        K, L = self.grid.shape
        return f"RowSurface({K} x {L} values of {names}, {len(self.tasks)} tasks, {len(self.features)} features)"

    @property
    def parameters(self) -> dict[str, Floats]:
        return self.grid.parameters

    @property
    def last(self) -> Ints:
        return self.places

    @cached_property
    def _points(self) -> list[list[int]]:
        """The point of every solution."""
        return sorted(np.argwhere(self.reached).tolist(), key=lambda point: self.places[tuple(point)])

    @cached_property
    def _norms(self) -> list[RowNorm]:
        """The penalty of every solution."""
        return [self.grid.norm(k, l, self._data().factors) for k, l in self._points]

    def _ridge_lam(self, place: int) -> float:
        k, l = self._points[place]
        return float(self.grid.ridge_lams[k, l])

    def degrees(self, places: Ints) -> Floats:
        problem, out = self._data(), []
        for W, place in zip(self.coefs(places), places.tolist(), strict=True):
            norm = self._norms[place]
            if isinstance(norm, BlockDirty):
                lam = self._ridge_lam(place)
                parts = zip(problem.at(lam), W, strict=True)
                G = np.array([2.0 / (problem.m * design.n) * design.gradient(w) for design, w in parts])
                known = curved(problem.designs, W), W, norm, G, problem.held(W), problem.ridge_bends(lam)
                out.append(traces_of_dirty_blocks(*known))
                continue
            form = _form(W.T, self._norms[place])
            if problem.unit_ridge is not None:
                form = stiffened(form, problem.ridge_bends(self._ridge_lam(place)))
            held = problem.held(W)
            if held.any():  # they do not move with the targets
                n, squares = (np.array([getattr(one, what) for one in problem.designs]) for what in ("n", "squares"))
                form = stiffened(form, np.where(held, FIXED * squares / (problem.m * n[:, None]), 0.0))
            out.append(traces(curved(problem.designs, W), form))
        return np.reshape(out, (-1, problem.m))

    @cached_property
    def finished(self) -> np.ndarray:
        return self._at_points(np.array([solved.finished for solved in self.solved], dtype=bool), False)

    @property
    def settled(self) -> np.ndarray:
        return self.finished

    @cached_property
    @one_blas_thread()
    def _proofs(self) -> list[RowCertificate]:
        problem, out = self._data(), []
        for place, norm in enumerate(self._norms):
            W, lam = self.coefs([place])[0], self._ridge_lam(place)
            with self._at_level(place):
                proof = certify_rows(pressed_rows(problem, norm, lam, W).at(lam), W, norm)
                out.append(replace(proof, gap=with_free_level(problem, proof.gap, W)[0]))
        return out

    @cached_property
    def dual_gap(self) -> Floats:
        return self._at_points(np.array([proof.gap for proof in self._proofs]), np.nan)

    @cached_property
    def unique(self) -> np.ndarray:
        return self._at_points(np.array([proof.unique for proof in self._proofs], dtype=bool), False)

    @cached_property
    def objective(self) -> Floats:
        problem = self._data()
        n = np.array([design.n for design in problem.designs])
        out = self._at_points((self.losses / (problem.m * n)).sum(axis=1), np.nan)
        for k, l in np.argwhere(self.reached).tolist():
            W, lam = self.coef(k, l), float(self.grid.ridge_lams[k, l])
            out[k, l] += self.grid.penalty(k, l, problem.factors).value(W.T) + problem.ridge_value(lam, W)
        return np.asarray(out)

    def to_dict(self) -> dict[str, np.ndarray]:
        names = ("objective", "dual_gap", "unique", "finished", "n_rows", "n_entries")
        columns = {**self.parameters} | {name: getattr(self, name) for name in names}
        return {name: np.asarray(values).reshape(-1) for name, values in columns.items()}

    def __getstate__(self) -> dict[str, Any]:
        if self.problem is not None:
            _ = self._intercepts, self.objective, self.dual_gap, self.unique, self.complete
        return {**self.__dict__, "problem": None}


def _form(W: Floats, norm: RowNorm) -> Form:
    if isinstance(norm, BlockNorm):
        return block_form(W, norm)
    return group_form(W, norm.a, norm.factors) if isinstance(norm, GroupNorm) else level_form(W, norm.factors)


def solve_rows(
    problem: Problem,
    grid: RowGrid,
    *,
    max_iter: int = 0,
    settled: float = SETTLED,
    n_jobs: int | None = None,
    grams: list[Gram] | None = None,
    tick: Callable[[float], None] = lambda part: None,
    stop: Callable[[], None] | None = None,
) -> RowSurface:
    """All points of a grid, see `RowPaths`."""
    paths = RowPaths(
        problem, grid, max_iter=max_iter, settled=settled, n_jobs=n_jobs, grams=grams, tick=tick, stop=stop
    )
    paths.advance(np.full(grid.shape[1], grid.shape[0]))
    return paths.solutions()


class RowPaths:
    """Goes down every column of the grid from its largest parameter, each solve from the one before, as far as it is asked
    to. Columns run on threads where whole Gram matrices are at hand; otherwise in turn, so that they can fetch rows.

    A point may take `max_iter` goes over the rows; 0: as many as a fit may take, though not more than ROUNDS before it is
    known whether it matters (`finish`).
    """

    def __init__(
        self,
        problem: Problem,
        grid: RowGrid,
        *,
        max_iter: int = 0,
        settled: float = SETTLED,
        n_jobs: int | None = None,
        grams: list[Gram] | None = None,
        tick: Callable[[float], None] = lambda part: None,
        stop: Callable[[], None] | None = None,
    ):
        self.problem, self.grid, self.max_iter, self.settled = problem, grid, max_iter, settled
        self.grams = caches_for(problem, ROWS, reuse=grid.shape[1] > 1, n_jobs=n_jobs) if grams is None else grams
        self.n_jobs, self.tick, self.stop = None if problem.has_one_level else n_jobs, tick, stop
        self.whole = all(gram.whole is not None for gram in self.grams)
        self.order = np.argsort(-grid.strength, axis=0, kind="stable")  # (K, L)
        self.done = np.zeros(grid.shape[1], dtype=np.intp)
        self.rows: dict[int, Any] = {}  # by column
        self.solved: dict[tuple[int, int], Solved] = {}
        self.new: list[tuple[int, int]] = []
        self.tried: set[tuple[int, int]] = set()  # as long as a fit would
        self.steepest: dict[tuple[int, int], float] = {}  # gradient, at points of the first column
        self.several: set[tuple[int, int]] = set()  # points that may have more than one minimiser
        self.behind: dict[int, Solved] = {}  # by column: what was taken from the first one since its last solve

    def advance(self, ends: Ints) -> None:
        """Solve the first ends[l] points of every column l."""

        def column(l: int) -> None:
            for k in self.order[self.done[l] : ends[l], l].tolist():
                self._solve(k, l, min(ROUNDS, self.max_iter or ROUNDS))
                self.tick(1.0)

        behind = np.flatnonzero(ends > self.done).tolist()
        self.new = [(k, l) for l in behind for k in self.order[self.done[l] : ends[l], l].tolist()]
        first = [l for l in behind if l == 0]  # of which others may take solutions
        each(column, first, None, self.stop)
        each(column, behind[len(first) :], self.n_jobs if self.whole else None, self.stop)
        self.done = np.maximum(self.done, ends)

    def finish(self, points: np.ndarray) -> bool:
        """Go on with points (K, L) bool that have come to the end of their rounds, for as long as a fit by itself would;
        whether there are any."""
        again = {point for point, one in self.solved.items() if points[point] and not one.finished} - self.tried
        self.new = [] if 0 < self.max_iter <= ROUNDS else sorted(again)
        self.tried |= again
        for k, l in self.new:
            self._warm(l, self.solved[k, l])
            self._solve(k, l, self.max_iter)
            self.tick(0.0)
        return bool(self.new)

    def _rows(self, l: int) -> Any:
        if l not in self.rows:
            self.rows[l] = rows_for(self.problem, self.grams, None if self.whole else self.n_jobs)
            if self.n_jobs is None and isinstance(self.rows[l], CoupledRows):  # columns have the same X
                self.rows[l].independence = next(iter(self.rows.values())).independence
        return self.rows[l]

    def _warm(self, l: int, start: Solved) -> None:
        W = np.zeros(self.problem.m * self.problem.d)
        W[start.at] = start.values
        self._rows(l).warm(W.reshape(self.problem.m, -1))

    def _solve(self, k: int, l: int, most: int) -> None:
        twin = self.grid.twin(k, l)
        alike = twin is not None and self.steepest.get(twin[0], np.inf) < (1.0 - AT_BOUND) * twin[1]
        if twin is not None and alike and twin[0] not in self.several:
            self.solved[k, l] = self.behind[l] = self.solved[twin[0]]
            return
        rows, norm = self._rows(l), self.grid.norm(k, l, self.problem.factors)
        rows.at(float(self.grid.ridge_lams[k, l]))
        if l in self.behind:
            self._warm(l, self.behind.pop(l))
        if not alike:
            if isinstance(rows, CoupledRows):
                rows.go_ahead(self._ahead(k, l))
            W, _ = rows.solve(norm, most, self.settled)
        if alike or (rows.finished and not rows.determined(norm)):
            # of several minimisers the one that a fit by itself finds
            self.several.add((k, l))
            rows.forget()
            W, _ = rows.solve(norm, most, self.settled)
        if rows.finished and l == 0:
            self.steepest[k, l] = rows.steepest()
        at = support(W)
        self.solved[k, l] = Solved(k, at, W.ravel()[at], rows.finished, np.empty(0, dtype=np.intp))

    def _ahead(self, k: int, l: int) -> float:
        """How far the next point of a column is from the last one, over how far that is from the one before."""
        lams = self.grid.strength[self.order[:, l], l]
        s = int(np.flatnonzero(self.order[:, l] == k)[0])
        return (
            float((lams[s - 1] - lams[s]) / (lams[s - 2] - lams[s - 1])) if s > 1 and lams[s - 2] > lams[s - 1] else 0.0
        )

    def latest(self) -> RowSurface:
        """What the last call has solved."""
        return self._surface(self.new)

    def solutions(self) -> RowSurface:
        """All that has been solved."""
        return self._surface(sorted(self.solved))

    def _surface(self, points: list[tuple[int, int]]) -> RowSurface:
        places = np.full(self.grid.shape, -1, dtype=np.intp)
        for place, point in enumerate(points):
            places[point] = place
        return RowSurface(
            tasks=self.problem.data.labels,
            features=self.problem.data.features,
            solved=tuple(self.solved[point] for point in points),
            problem=self.problem,
            grid=self.grid,
            places=places,
        )
