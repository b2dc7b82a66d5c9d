"""Models with common values on a grid of their parameters: how a stage is solved, paths that go down warm, the result.

Stage 1 does not depend on theta, and of a later stage only the set of capped rows matters: as in `solve.py`, each is
solved once per lam and ratio, and a point stops short of a stage that would interpolate in most tasks. Where stage 1 is
dense already no stage follows: there they would take most of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._data.designs import Floats, Ints
from ..._data.forms.ridged import ridged
from ..._objective.coupled.common_penalty import CappedDeviations
from ..._objective.coupled.groups import Groups
from ..._objective.penalties import bent
from ..._objective.problem import Problem
from ..._objective.proofs.certificates import RowCertificate, TaskCertificate, certify
from ..._objective.proofs.class_proofs import certify_common_ridges, certify_shared
from ..._objective.theta import unit
from ..._runtime.progress import one_blas_thread
from ..._runtime.threads import each
from ..._solvers.coupled.around_bounds import within
from ..._solvers.coupled.common_part import Stacked, settled
from ..._solvers.coupled.loss_common import CommonGrams, CommonSolver
from ..._solvers.degrees import Form, common_form, curved, face, shared_block_form, traces
from ..._solvers.largest_lam import first_gradient, of_lasso
from ..._solvers.one_level import with_free_level
from ..._solvers.solvers import COMMON, caches_for, common_for, pressed_common
from ..._solvers.stages import CONVEX, DENSE, FULL, REPEATS, SEPARATED, UNFINISHED, algorithm_1, run, same
from ..crowding import Crowding
from ..grids import read_lams, read_ratios, read_theta_ratios
from ..solutions import Solved, StagedSolutions, no_points

RATIOS = (0.0, 0.2, 0.5, 1.0, 2.0, np.inf)  # lam_common / lam_deviation, in units of sqrt(m)
# Of lam_max, where the lams end: n < d, n >= d. It is lam_deviation that counts, so that smaller ratios than 1 go further
# down, but no further than to FURTHER times this.
SHARES, FURTHER = (1e-2, 1e-3), 0.1
THETA_RATIOS = (1.0, np.inf)  # times max(4, m / 4): half of a row's entries deviate by as much as they are shrunk
# Coefficients per row, and in all, beyond which a search goes no further than stage 1. With twice as many it goes no further
# down; those chosen on real data had up to 1/6 of the rows (a common part being allowed).
SPARSE, FEW = 1 / 6, 200
NONE = -1  # stands for the place of P = 0, where Algorithm 1 starts


# ------------------------------------------------------------------ grids


def scales(problem: Problem) -> Floats:
    """(d,): penalty factors of b, of all classes after each other."""
    own = problem.common_factors if problem.groups is None else problem.common_factors * problem.groups.scale
    return np.tile(own, problem.classes)


def groups_of_classes(problem: Problem) -> Groups | None:
    """The groups of the features of all classes, if there are any."""
    return None if problem.groups is None else problem.groups.tiled(problem.classes)


def strengths(ratio: float, m: int) -> tuple[float, float]:
    """lam_common and lam_deviation at lam = 1: lam is the smaller of lam_common / sqrt(m) and lam_deviation."""
    return float(np.sqrt(m) * max(1.0, ratio)), max(1.0, 1.0 / ratio if ratio > 0 else np.inf)


def shared_lam_max(problem: Problem, ratio: float) -> float:
    """The smallest lam at which the model with this ratio is zero (but for the features that are never penalised)."""
    factors = problem.wide(problem.factors)
    common, deviation = strengths(ratio, factors.shape[1])
    groups = groups_of_classes(problem)
    penalty = CappedDeviations(common, deviation, np.inf, factors, scales(problem), groups=groups)
    norm = penalty.weights(np.empty((2, 0)))
    return float(norm.dual(problem.wide(first_gradient(problem).T)).max(initial=0.0)) / of_lasso(problem.l1_ratio)


@dataclass(frozen=True)
class SharedGrid:
    """lams (K, L) x columns (ratio, theta ratio), L of them; see `strengths`, and `_objective/theta.py` for the unit of
    theta."""

    lams: Floats
    columns: tuple[tuple[float, float], ...]
    m: int
    rho_bar: float
    l1_ratio: float = 1.0
    classes: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        return self.lams.shape[0], self.lams.shape[1]

    @property
    def groups(self) -> list[list[int]]:
        """The columns of each ratio"""
        ratios = [ratio for ratio, _ in self.columns]
        return [[l for l, ratio in enumerate(ratios) if ratio == one] for one in dict.fromkeys(ratios)]

    @property
    def strength(self) -> Floats:
        return self.lams

    @property
    def block(self) -> int:
        """Points of a column that a search solves between two looks at held-out errors: each takes its time."""
        return 2

    @property
    def leader(self) -> Ints:
        """(L,): of a ratio the column without a cap, if it has one; otherwise each goes by its own errors (see
        `early_stopping.Front`)."""
        out = np.arange(len(self.columns))
        for group in self.groups:
            convex = [l for l in group if np.isinf(self.columns[l][1])]
            out[group] = convex[0] if convex else group
        return out

    @property
    def convex(self) -> np.ndarray:
        """(L,) bool: columns without a cap (see `early_stopping.Front`)."""
        return np.array([np.isinf(theta) or ratio == 0.0 for ratio, theta in self.columns])

    @property
    def steps(self) -> int:
        return len(self.lams) * len(self.groups)

    @cached_property
    def parameters(self) -> dict[str, Floats]:
        of_column = np.array([strengths(ratio, self.m) for ratio, _ in self.columns])
        deviation = self.lams * of_column[:, 1]
        ratios = np.array([ratio for _, ratio in self.columns])
        capped = np.isfinite(deviation) & np.isfinite(ratios)
        units = unit(self.l1_ratio, self.m * self.classes, self.rho_bar) * np.where(capped, deviation, 1.0)
        theta = np.where(capped, np.where(capped, ratios, 1.0) * units, np.inf)
        common = self.lams * of_column[:, 0]
        return {"lam": self.lams, "lam_common": common, "lam_deviation": deviation, "theta": theta}

    def penalty(self, k: int, l: int, problem: Problem) -> CappedDeviations:
        _, common, deviation, theta = (float(values[k, l]) for values in self.parameters.values())
        factors, shares = problem.wide(problem.factors), (problem.l1_ratio, self.classes)
        return CappedDeviations(
            common, deviation, theta, factors, scales(problem), *shares, groups=groups_of_classes(problem)
        )


def shared_grid(
    problem: Problem,
    lams: ArrayLike = 20,
    ratios: ArrayLike | None = None,
    theta_ratios: ArrayLike | None = None,
    lam_min_ratio: float | None = None,
) -> SharedGrid:
    """lams as an array, the same for all ratios, or that many for each from its own lam_max down. Of ratios that give the
    same models one is kept: from sqrt(m) on there is no common part; of one task all are the lasso."""
    found = read_ratios(RATIOS if ratios is None else ratios, ends=True)
    m = problem.m // problem.classes
    found = np.where(found >= np.sqrt(m) * (1.0 - 1e-12), np.inf, found)
    found = np.array([np.inf]) if m == 1 else np.unique(found)
    caps = np.array(THETA_RATIOS) * max(4.0, m / 4)
    if theta_ratios is not None:
        caps = read_theta_ratios(theta_ratios)
    caps = np.unique(caps)[::-1]
    paths = {}
    for r in found.tolist():
        shares = (SHARES[0] * min(max(r, FURTHER), 1.0), SHARES[1] * min(max(r, FURTHER), 1.0))
        paths[r] = read_lams(problem, lams, lam_min_ratio, shared_lam_max(problem, r), shares)
    columns = [(r, cap) for r in found.tolist() for cap in (caps.tolist() if r > 0 else [np.inf])]
    of_problem = m, problem.rho_bar, problem.l1_ratio, problem.classes
    return SharedGrid(np.stack([paths[r] for r, _ in columns], axis=1), tuple(columns), *of_problem)


# ------------------------------------------------------------------ the result


@dataclass(eq=False, kw_only=True)
class SharedSolved(Solved):
    """A solution W with the b in it: values at some features, and how many deviations each task has."""

    l: int  # a column with its ratio
    common: tuple[Ints, Floats]
    n_deviations: Ints

    @property
    def n_entries(self) -> int:
        return len(self.common[0]) + int(self.n_deviations.sum())


@dataclass(frozen=True, eq=False)
class SharedSurface(StagedSolutions):
    """Solutions with common values on a grid of lam_common, lam_deviation and theta.

    Attributes
    ----------
    parameters : {name: (K, L)}
    n_rows, n_entries : (K, L) features used in any task; non-zero entries of b and V
    n_stages, converged, stopping_reason, objective, dual_gap, unique : (K, L) as of :class:`Surface`; the last five are
        computed from the data when first asked for. `unique` is about b + V

    Pickling computes the certificates first and leaves the data behind.
    """

    grid: SharedGrid
    solved: tuple[SharedSolved, ...]

    def __repr__(self) -> str:
        K, L = self.grid.shape
        return f"SharedSurface({K} lams x {L} columns, {len(self.tasks)} tasks, {len(self.features)} features)"

    @property
    def parameters(self) -> dict[str, Floats]:
        return self.grid.parameters

    def in_words(self, k: int, l: int) -> str:
        return CONVEX if np.isinf(self.parameters["theta"][k, l]) else REPEATS

    def coef_common(self, k: int, l: int) -> Floats:
        """(d,): the common part b of `coef(k, l)`; of several classes (classes * d,)."""
        return self._common(self._place(k, l))

    def _common(self, place: int) -> Floats:
        out = np.zeros(len(self.features) * self.grid.classes)
        at, values = self.solved[place].common
        out[at] = values
        return out

    def _in_common(self, place: int) -> Floats:
        return self._common(place).reshape(-1, len(self.features))

    def point(self, k: int, l: int) -> Floats:
        """(p,): b and V"""
        return self.point_at(self._place(k, l))

    def point_at(self, place: int) -> Floats:
        """(p,): those of a place in `solved`."""
        b = self._common(place)
        return np.concatenate([b, (self.coefs([place])[0].reshape(-1, len(b)) - b).ravel()])

    @cached_property
    def n_entries(self) -> Ints:
        return self._at_points(np.array([one.n_entries for one in self.solved], dtype=np.intp), -1)

    @property
    def convex(self) -> np.ndarray:
        return np.isinf(self.parameters["theta"])

    def degrees(self, places: Ints) -> Floats:
        designs = self._data().designs
        out, K = np.zeros((len(places), len(designs))), self.grid.classes
        for of_place, place in zip(out, places.tolist(), strict=True):
            parts = curved(designs, self.coefs([place])[0])
            for c in range(K):
                of_place[c::K] = traces(parts[c::K], self._form(place, c))
        return out

    def _form(self, place: int, c: int) -> Form:
        """Deviations that are not 0 move each by itself, all other entries with the common value. Of a class."""
        problem, one, K = self._data(), self.solved[place], self.grid.classes
        W, b = self.coefs([place])[0][c::K], self._common(place).reshape(K, -1)[c]
        held = problem.held(self.coefs([place])[0])[c::K]  # what is at a bound does not move with the targets
        if problem.groups is not None:
            penalty = self.grid.penalty(one.k, one.l, problem)
            slopes = np.where(np.isin(np.arange(K * problem.d), one.free_rows(K * problem.d)), 0.0, 1.0)
            norm: Any = penalty.weights(bent(slopes)).at(self.point_at(place))
            ridge = penalty.ridge()
            rho = None if ridge is None else (2.0 * K / problem.m) * ridge.reshape(-1, K, problem.d)[:, c]
            return shared_block_form(W, norm if K == 1 else norm.of_class(c, K), held, rho)
        deviates, shared = (b != W) & ~held, np.flatnonzero(b)
        own = [np.flatnonzero(mine) for mine in deviates]
        ridge = self.grid.penalty(one.k, one.l, problem).ridge()
        if ridge is not None:
            ridge = ridge.reshape(-1, K, problem.d)[:, c]
            return common_form(own, shared, (2.0 * K / problem.m) * ridge)
        return face(own, shared, np.where((deviates | held)[:, shared], 0.0, 1.0))

    @cached_property
    def objective(self) -> Floats:
        problem = self._data()
        n = np.array([design.n for design in problem.designs])
        out = self._at_points((self.losses / (problem.m * n)).sum(axis=1), np.nan)
        for k, l in np.argwhere(self.reached).tolist():
            P, penalty = self.point(k, l), self.grid.penalty(k, l, problem)
            out[k, l] += penalty.value(P[:, None]) + penalty.ridge_value(P)
        return np.asarray(out)

    @cached_property
    @one_blas_thread()
    def _proofs(self) -> tuple[Floats, np.ndarray]:
        problem = self._data()
        proofs: list[RowCertificate | TaskCertificate] = []
        gaps, stacked, K = [], Stacked(problem.designs, problem.classes), problem.classes
        for place, one in enumerate(self.solved):
            slopes = np.where(np.isin(np.arange(K * problem.d), one.free_rows(K * problem.d)), 0.0, 1.0)
            penalty = self.grid.penalty(one.k, one.l, problem)
            norm, ridge = penalty.weights(bent(slopes)), penalty.ridge()
            with self._at_level(place):
                designs = pressed_common(problem, norm, ridge, self.point_at(place)).designs
                plain = problem.box is None and problem.loss.squared and problem.groups is None
                if ridge is not None and not plain:
                    point = self.point_at(place)
                    proofs.append(certify_common_ridges(designs, stacked.scale, point, norm, ridge, K))
                elif ridge is not None:
                    a = 0.5 * problem.m * norm.weights()
                    proofs.append(certify(ridged(stacked, ridge), self.point_at(place), a))
                else:
                    norm = norm.at(self.point_at(place))
                    proofs.append(certify_shared(designs, self.coefs([place])[0], norm, K))
                gaps.append(with_free_level(problem, proofs[-1].relative_gap, self.coefs([place])[0])[0])
        return np.array(gaps), np.array([proof.unique for proof in proofs])


# ------------------------------------------------------------------ solving


def solve_shared(
    problem: Problem,
    grid: SharedGrid,
    *,
    max_stages: int = 10,
    tol: float = 1e-8,
    max_iter: int = 0,
    n_jobs: int | None = None,
    grams: CommonGrams | None = None,
    tick: Callable[[float], None] = lambda part: None,
    stop: Callable[[], None] | None = None,
) -> SharedSurface:
    """All points of a grid, see `SharedPaths`."""
    paths = SharedPaths(
        problem,
        grid,
        max_stages=max_stages,
        tol=tol,
        max_iter=max_iter,
        n_jobs=n_jobs,
        grams=grams,
        tick=tick,
        stop=stop,
    )
    paths.advance(np.full(grid.shape[1], grid.shape[0]))
    return paths.solutions()


class SharedPaths:
    """Goes down the lams of every ratio, and at each over its thetas, as far as it is asked to. Ratios run on threads where
    whole Gram matrices are at hand; otherwise in turn, so that they can fetch rows."""

    def __init__(
        self,
        problem: Problem,
        grid: SharedGrid,
        *,
        max_stages: int = 10,
        tol: float = 1e-8,
        max_iter: int = 0,
        n_jobs: int | None = None,
        grams: CommonGrams | None = None,
        tick: Callable[[float], None] = lambda part: None,
        stop: Callable[[], None] | None = None,
    ):
        self.problem, self.grid, self.max_stages, self.tol, self.max_iter = problem, grid, max_stages, tol, max_iter
        self.grams = caches_for(problem, COMMON, reuse=True, n_jobs=n_jobs) if grams is None else grams
        self.n_jobs, self.tick, self.stop = None if problem.has_one_level else n_jobs, tick, stop
        self.aside = self.grams.fetched_at_once()
        self.order = np.argsort(-grid.lams, axis=0, kind="stable")  # (K, L), the same within a ratio
        self.done = np.zeros(grid.shape[1], dtype=np.intp)
        self.walks: dict[int, _Walk] = {}  # by the first column of a ratio
        self.new: set[tuple[int, int]] = set()

    def advance(self, ends: Ints) -> None:
        """Solve the first ends[l] points of every column l."""

        def go(columns: list[int]) -> None:
            walk = self._walk(columns)
            for step in range(min(self.done[columns]), max(ends[columns])):
                now = [l for l in columns if self.done[l] <= step < ends[l]]
                if now:
                    walk.at(int(self.order[step, columns[0]]), now)
                    self.tick(len(now) / len(columns))

        self.new = {
            (int(k), l) for l in range(len(ends)) for k in self.order[self.done[l] : max(ends[l], self.done[l]), l]
        }
        behind = [columns for columns in self.grid.groups if (ends > self.done)[columns].any()]
        each(go, behind, self.n_jobs if self.aside else None, self.stop)
        self.done = np.maximum(self.done, ends)

    def finish(self, points: np.ndarray) -> bool:
        """No point is left before its end."""
        return False

    def _walk(self, columns: list[int]) -> _Walk:
        if columns[0] not in self.walks:
            n_jobs = None if self.aside else self.n_jobs
            first, later = (common_for(self.problem, self.grams, n_jobs) for _ in range(2))
            self.walks[columns[0]] = _Walk(
                self.problem, self.grid, columns, first, later, self.max_stages, self.max_iter
            )
        return self.walks[columns[0]]

    def latest(self) -> SharedSurface:
        """What the last call has solved."""
        return self._surface(self.new)

    def solutions(self) -> SharedSurface:
        """All that has been solved."""
        return self._surface({point for walk in self.walks.values() for point in walk.points})

    def _surface(self, points: set[tuple[int, int]]) -> SharedSurface:
        chains, reasons = no_points(self.grid.shape)
        solved: list[SharedSolved] = []
        for one in self.walks.values():
            for point in points & one.points.keys():
                chain, reasons[point] = one.points[point]
                chains[point] = tuple(len(solved) + place for place in chain)
            solved += one.solved
        return SharedSurface(
            tasks=self.problem.data.labels,
            features=self.problem.data.features,
            solved=tuple(solved),
            problem=self.problem,
            tol=self.tol,
            ended=reasons,
            chains=chains,
            grid=self.grid,
        )


class _Walk:
    """Goes down the lams of one ratio, and at each over the thetas, from stage 1 on."""

    def __init__(
        self,
        problem: Problem,
        grid: SharedGrid,
        columns: list[int],
        first: CommonSolver,
        later: CommonSolver,
        max_stages: int,
        max_iter: int,
    ):
        self.problem, self.grid, self.columns = problem, grid, columns
        self.tasks, self.width = problem.m // problem.classes, problem.d * problem.classes
        self.first, self.later = first, later
        self.max_stages, self.max_iter = max_stages, max_iter
        self.crowding = Crowding(problem)
        self.one_level = problem.has_one_level  # the steps of its last solve say little of how long a stage took
        factors = problem.factors.T
        self.penalised = self.crowding.usable & (factors > 0) & np.isfinite(factors)  # (m, d)
        self.most = max(SPARSE * sum(target.rows for target in problem.data.targets), FEW)
        self.back = False
        self.dense: int | None = None  # where the path has ended
        self.firsts: dict[int, tuple[bytes, int]] = {}  # by lam: the key and the place of stage 1
        self.solved: list[SharedSolved] = []
        self.steps: dict[int, int] = {}  # of the solver, by place
        self.points: dict[tuple[int, int], tuple[tuple[int, ...], str]] = {}

    def at(self, k: int, columns: list[int]) -> None:
        """Some of the thetas, there and back: the next lam begins where this one ended."""
        if self.dense is not None and k not in self.firsts:
            self.points |= {(k, l): (self.points[self.dense, l][0], DENSE) for l in columns}
            return
        self.k = k
        self.P = {NONE: np.zeros((self.tasks + 1) * self.width)}
        self.known: dict[tuple[bytes, int], int] = {}
        if k in self.firsts:
            key, place = self.firsts[k]
            self.known[key, NONE], self.P[place] = place, self._stacked(place)
        thetas = self.grid.parameters["theta"][k]
        for l in sorted(columns, key=lambda l: thetas[l], reverse=not self.back):
            self.points[k, l] = self._run(self.grid.penalty(k, l, self.problem))
        self.back = not self.back
        if k not in self.firsts:
            place = self.points[k, columns[0]][0][0]
            self.firsts[k] = next(key for (key, _), known in self.known.items() if known == place), place
            first = self.solved[place]
            if first.common[0].size and first.n_entries > 2.0 * self.most:  # tasks that are solved apart cost little
                self.dense = k

    def _stacked(self, place: int) -> Floats:
        """b and V of a solution."""
        one, b = self.solved[place], np.zeros(self.width)
        b[one.common[0]] = one.common[1]
        return np.concatenate([b, (self._coefs(place).reshape(self.tasks, -1) - b).ravel()])

    def _run(self, penalty: CappedDeviations) -> tuple[tuple[int, ...], str]:
        chain: list[int] = []

        def crowded(pattern: np.ndarray) -> bool:
            return self.crowding((self.penalised & self._freed(penalty, pattern)).sum(axis=1))

        def solve(pattern: np.ndarray, before: int) -> tuple[int, str]:
            if len(chain) == 1 and self.solved[before].n_entries > self.most:
                return before, FULL
            if self._separated(penalty, pattern):
                return before, SEPARATED
            place = self._stage(penalty, pattern, before)
            if self._separated(penalty, pattern, place):
                return before, SEPARATED
            chain.append(place)
            return chain[-1], "" if self.solved[chain[-1]].finished else UNFINISHED

        stages = algorithm_1(
            lambda place: penalty.pattern(self.P[place]), NONE, self.max_stages, alike=same, crowded=crowded
        )
        reason = run(stages, solve, NONE)
        return tuple(chain), reason

    def _separated(self, penalty: CappedDeviations, pattern: np.ndarray, place: int | None = None) -> bool:
        """Whether the features that a stage frees leave some task without a minimiser: what was found out before says so, or
        rows that have all but escaped at its solution."""
        if not (pattern.size and self.problem.may_escape):
            return False
        free = self._freed(penalty, pattern)
        A = np.where(free, 0.0, 1.0)
        if self.problem.without_minimiser(A).any():
            return True
        if place is None:
            return False
        W = self._coefs(place)
        return any(self.problem.escapes(i, W[i][None], A[[i]])[0] for i in range(self.problem.m))

    def _freed(self, penalty: CappedDeviations, pattern: np.ndarray) -> np.ndarray:
        """(m, d) bool: where deviations are not penalised."""
        free = penalty.row_slopes(pattern) == 0.0
        return np.tile(free.reshape(self.problem.classes, -1), (self.tasks, 1))

    def _coefs(self, place: int) -> Floats:
        """(m, d)"""
        W = np.zeros(self.problem.m * self.problem.d)
        W[self.solved[place].at] = self.solved[place].values
        return W.reshape(self.problem.m, -1)

    def _stage(self, penalty: CappedDeviations, pattern: np.ndarray, before: int) -> int:
        """The place in `solved` of the stage with this pattern."""
        key = pattern.tobytes()
        for known in ((key, NONE), (key, before)):
            if known in self.known:
                return self.known[known]
        norm, tasks = penalty.weights(pattern), self.tasks
        lassos = self.first if before == NONE else self.later
        lassos.at(penalty.ridge())
        if before != NONE and lassos.solver is None:
            lassos.warm(self.P[before])
        a = 0.5 * self.problem.m * norm.weights()
        P, steps = lassos.solve(a, None if before == NONE else self.P[before], self.max_iter)
        P = P if lassos.ridge is not None or self.problem.groups is not None else settled(norm, P, tasks)
        P = within(self.problem, P.reshape(-1, self.problem.d)).ravel()
        place, parts = len(self.solved), P.reshape(tasks + 1, -1)
        W, used = parts[0] + parts[1:], np.flatnonzero(parts[0])
        at = np.flatnonzero(W)
        eased = (self.width * np.arange(tasks)[:, None] + penalty.free_rows(pattern)).ravel()
        self.solved.append(
            SharedSolved(
                k=self.k,
                at=at,
                values=W.ravel()[at],
                finished=lassos.finished,
                unclear=np.empty(0, dtype=np.intp),
                eased=eased,
                left=np.zeros(len(eased)),
                l=self.columns[0],
                common=(used, parts[0, used]),
                n_deviations=np.count_nonzero(parts[1:], axis=1),
            )
        )
        self.P[place], self.steps[place] = P, steps
        self.known[key, before if lassos.slid else NONE] = place
        return place
