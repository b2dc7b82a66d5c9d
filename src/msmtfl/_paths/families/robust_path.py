"""Models with a norm of every task's deviations on a grid of their two strengths: ARMUL and rMTFL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.stats import chi2

from ..._data.designs import Floats, Ints, support
from ..._objective.certificates import RowCertificate
from ..._objective.penalties import GroupNorm, lengths
from ..._objective.problem import Problem
from ..._objective.task_norms import CentreNorms, RowNorms, TaskNorms, certify_task_norms
from ..._runtime.progress import one_blas_thread
from ..._runtime.threads import each
from ..._solvers.coupled.pooling import Pooling, sizes
from ..._solvers.largest_lam import first_gradient
from ..._solvers.solvers import pressed_task_norms, task_norms_for
from ..grids import read_lams, read_ratios
from ..solutions import Solutions, Solved

ARMUL, RMTFL = "armul", "rmtfl"
KINDS = (ARMUL, RMTFL)
ALARM = 0.05  # the probability that noise alone makes a task deviate at the default strength
ROUNDING = 1e-12  # of the largest that a gradient could be: smaller ones are what rounding leaves
SHARE = 1e-3  # of the largest strength where the lams end
# Ridges on the centre, relative to the mean over features of the sum of squares of all tasks; where there are more than
# CROWDED samples for every feature none is tried.
RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
CROWDED = 2
# lam_deviation over lam_common, in units of sqrt(d / m), at which noise has the same chance in both. inf is L1,2 alone.
RATIOS = (0.5, 1.0, 2.0, np.inf)


def penalty_of(problem: Problem, kind: str, lam_common: float, lam_deviation: float) -> TaskNorms:
    """The penalty of a problem at two strengths."""
    n = np.array([design.n for design in problem.designs])
    which: type[CentreNorms] | type[RowNorms] = CentreNorms if kind == ARMUL else RowNorms
    return which(float(lam_deviation), float(lam_common), problem.factors, problem.common_factors, n)


def deviation_max(problem: Problem, kind: str, lam_common: float, solver: Any = None) -> float:
    """The smallest lam_deviation at which no task deviates, given lam_common."""
    penalty = penalty_of(problem, kind, lam_common, 1.0)
    if np.isinf(lam_common):
        G = first_gradient(problem) / (2.0 / (problem.m * penalty.n))[:, None]
    else:
        solver = task_norms_for(problem) if solver is None else solver
        alone = penalty_of(problem, kind, lam_common, np.inf)
        W = alone.coefs(solver.solve(alone)[0])
        G = np.array([design.gradient(w) for design, w in zip(problem.designs, W, strict=True)])
    size = penalty.kappa * lengths(penalty.scaled_down(G)) / penalty.bounds
    return float(np.where(size > ROUNDING * _largest(problem, penalty), size, 0.0).max(initial=0.0))


def _largest(problem: Problem, penalty: TaskNorms) -> Floats:
    """(m,): the largest lam_deviation that any targets of this size could need."""
    columns = np.array([np.sqrt(design.squares * design.yy) for design in problem.designs])
    return np.asarray(penalty.kappa * lengths(penalty.scaled_down(columns)) / penalty.bounds)


def beyond_noise(problem: Problem, known: Pooling | None) -> float | None:
    """A lam_deviation of ARMUL that gradients of noise exceed in any of the tasks with probability ALARM; None where the
    noise is not known.

    Of noise of variance sigma^2 the gradient of a task has squared length 4 sigma^2 sum_r s_r chi_r^2, s being the
    eigenvalues of its Gram matrix: about a multiple of one chi^2 with the same mean and variance. sigma^2 is the median over
    tasks of what their own least squares leave.
    """
    if known is None:
        return None
    rows = np.array([target.rows for target in problem.data.targets])
    ranks = np.array([len(task.s) + task.used for task in known.tasks])
    freedom = rows - ranks - 1  # an intercept
    some = (freedom > 0) & (ranks > 0)
    if not some.any():
        return None
    variance = float(np.median(np.array([task.rest for task in known.tasks])[some] / freedom[some]))
    if not variance > 0.0:
        return None
    first, second = (np.array([np.sum(task.s**power) for task in known.tasks])[ranks > 0] for power in (1, 2))
    quantile = chi2.ppf(1.0 - ALARM / problem.m, first**2 / second) * second / first
    n = np.array([design.n for design in problem.designs])[ranks > 0]
    return float(2.0 * np.sqrt(variance * (quantile / n).max()))


def both_max(problem: Problem, ratio: float) -> float:
    """The smallest lam_common of rMTFL at which all coefficients are 0, with lam_deviation = ratio lam_common."""
    G = first_gradient(problem)
    rows = GroupNorm(np.ones(problem.d), problem.factors).dual(G.T).max(initial=0.0)
    penalty = penalty_of(problem, RMTFL, 1.0, 1.0)
    tasks = lengths(penalty.scaled_down(G)).max(initial=0.0)
    return float(max(rows, tasks / ratio))


# ------------------------------------------------------------------ the grid


@dataclass(frozen=True)
class RobustGrid:
    """Points (k, l): lam_deviation falls along a column, which has one lam_common (ARMUL); or both do, in one ratio
    (rMTFL)."""

    kind: str
    lam_deviation: Floats  # (K, L)
    lam_common: Floats  # (K, L)

    @property
    def parameters(self) -> dict[str, Floats]:
        return {"lam_deviation": self.lam_deviation, "lam_common": self.lam_common}

    @property
    def strength(self) -> Floats:
        return self.lam_deviation if self.kind == ARMUL else self.lam_common

    @property
    def shape(self) -> tuple[int, int]:
        return self.strength.shape[0], self.strength.shape[1]

    @property
    def block(self) -> int:
        """Points of a column that a search solves between two looks at held-out errors."""
        return 2

    @property
    def leader(self) -> Ints:
        """(L,): every column goes by its own errors."""
        return np.arange(self.shape[1])

    @property
    def steps(self) -> int:
        return self.strength.size

    def penalty(self, k: int, l: int, problem: Problem) -> TaskNorms:
        return penalty_of(problem, self.kind, float(self.lam_common[k, l]), float(self.lam_deviation[k, l]))


def robust_grid(
    problem: Problem,
    kind: str,
    lams: ArrayLike = 30,
    commons: ArrayLike | None = None,
    lam_min_ratio: float | None = None,
) -> RobustGrid:
    """`lams` are values of the strength that falls along columns, or how many, from the largest that counts. `commons` are
    for ARMUL ridges on the centre, for rMTFL ratios of the two strengths in units of sqrt(d / m)."""
    found = _commons(problem, kind, commons)
    shares = (SHARE, SHARE)
    if kind == ARMUL:
        solver = task_norms_for(problem)
        any_targets = float(_largest(problem, penalty_of(problem, kind, 0.0, 1.0)).max(initial=0.0))
        # where no task deviates whatever the strength is, as a single one
        tops = [deviation_max(problem, kind, common, solver) or any_targets for common in found]
        of_deviations = np.stack([read_lams(problem, lams, lam_min_ratio, top, shares) for top in tops], axis=1)
        return RobustGrid(kind, _falling(of_deviations), np.broadcast_to(found, of_deviations.shape).copy())
    ratios = found * np.sqrt(problem.d / problem.m)
    tops = [both_max(problem, float(ratio)) for ratio in ratios]
    of_common = _falling(np.stack([read_lams(problem, lams, lam_min_ratio, top, shares) for top in tops], axis=1))
    return RobustGrid(kind, of_common * ratios, of_common)


def _falling(lams: Floats) -> Floats:
    return np.asarray(-np.sort(-lams, axis=0))


def _commons(problem: Problem, kind: str, given: ArrayLike | None) -> Floats:
    if kind == RMTFL:
        ratios = np.unique(read_ratios(RATIOS if given is None else given, "lam_commons", ends=True))
        if not (ratios > 0.0).all():
            raise ValueError(f"lam_commons are ratios here, which must be greater than 0; got {given!r}.")
        return ratios
    if given is None:
        samples = sum(target.rows for target in problem.data.targets)
        enough = samples > CROWDED * problem.d
        return np.zeros(1) if enough else sizes(problem)[1] * np.array(RIDGES)
    return np.unique(read_ratios(given, "lam_commons", ends=True))


# ------------------------------------------------------------------ solutions


@dataclass(frozen=True, eq=False)
class RobustSurface(Solutions):
    """Solutions on a grid of two strengths.

    Attributes
    ----------
    parameters : {name: (K, L)}: lam_deviation, lam_common
    objective, dual_gap, unique : (K, L) computed from the data when first asked for
    n_outliers : (K, L) tasks that deviate

    Pickling computes the certificates first and leaves the data behind.
    """

    grid: RobustGrid
    places: Ints = field(repr=False)  # (K, L)
    points: tuple[csr_array, ...] = field(repr=False)  # (height, d) of every solution
    finished_at: tuple[bool, ...] = field(repr=False)

    def __repr__(self) -> str:
        K, L = self.grid.shape
        names = ", ".join(self.parameters)
        return f"RobustSurface({K} x {L} values of {names}, {len(self.tasks)} tasks, {len(self.features)} features)"

    @property
    def parameters(self) -> dict[str, Floats]:
        return self.grid.parameters

    @property
    def last(self) -> Ints:
        return self.places

    @cached_property
    def complete(self) -> np.ndarray:
        return self._at_points(np.array(self.finished_at, dtype=bool), False)

    @cached_property
    def _of_places(self) -> list[tuple[int, int]]:
        """The point of every solution."""
        found = [(k, l) for k, l in np.argwhere(self.reached).tolist()]
        return sorted(found, key=lambda point: int(self.places[point]))

    def point(self, k: int, l: int) -> Floats:
        """Return the common part and the deviations at a point of the grid, below each other, (height, d)."""
        return np.asarray(self.points[self._place(k, l)].toarray())

    @cached_property
    def n_outliers(self) -> Ints:
        m = len(self.tasks)
        counts = np.array([np.count_nonzero(np.diff(P.indptr)[-m:]) for P in self.points], dtype=np.intp)
        return np.asarray(self._at_points(counts, -1))

    @cached_property
    @one_blas_thread()
    def _proofs(self) -> list[RowCertificate]:
        problem, out = self._data(), []
        for place, (k, l) in enumerate(self._of_places):
            penalty = self.grid.penalty(k, l, problem)
            P = self.points[place].toarray()
            out.append(certify_task_norms(pressed_task_norms(problem, penalty, P).designs, P, penalty))
        return out

    @cached_property
    def dual_gap(self) -> Floats:
        return self._at_points(np.array([proof.gap for proof in self._proofs]), np.nan)

    @cached_property
    def unique(self) -> np.ndarray:
        return self._at_points(np.array([proof.unique for proof in self._proofs], dtype=bool), False)

    @cached_property
    def objective(self) -> Floats:
        problem, out = self._data(), np.full(self.grid.shape, np.nan)
        for place, (k, l) in enumerate(self._of_places):
            penalty = self.grid.penalty(k, l, problem)
            out[k, l] = 0.5 * penalty.kappa @ self.losses[place] + penalty.value(self.points[place].toarray())
        return out

    def to_dict(self) -> dict[str, np.ndarray]:
        names = ("objective", "dual_gap", "unique", "n_rows", "n_entries", "n_outliers")
        columns = {**self.parameters} | {name: getattr(self, name) for name in names}
        return {name: np.asarray(values).reshape(-1) for name, values in columns.items()}

    def __getstate__(self) -> dict[str, Any]:
        if self.problem is not None:
            _ = self._intercepts, self.objective, self.dual_gap, self.unique
        return {**self.__dict__, "problem": None}


class RobustPaths:
    """Goes down every column of the grid, each solve from the one before, as far as it is asked to."""

    def __init__(
        self,
        problem: Problem,
        grid: RobustGrid,
        *,
        known: Pooling | None = None,
        max_iter: int = 0,
        n_jobs: int | None = None,
        tick: Callable[[float], None] = lambda part: None,
        stop: Callable[[], None] | None = None,
    ):
        self.problem, self.grid, self.max_iter, self.n_jobs = problem, grid, max_iter, n_jobs
        self.tick, self.stop = tick, stop
        plain = problem.loss.squared and problem.box is None
        self.known = Pooling(problem) if known is None and plain else known
        self.done = np.zeros(grid.shape[1], dtype=np.intp)
        self.solvers: dict[int, Any] = {}  # by column
        self.solved: dict[tuple[int, int], tuple[csr_array, Floats, bool]] = {}
        self.new: list[tuple[int, int]] = []

    def advance(self, ends: Ints) -> None:
        """Solve the first ends[l] points of every column l."""

        def column(l: int) -> None:
            if l not in self.solvers:
                self.solvers[l] = task_norms_for(self.problem, self.known)
            for k in range(int(self.done[l]), int(ends[l])):
                penalty = self.grid.penalty(k, l, self.problem)
                P, _ = self.solvers[l].solve(penalty, self.max_iter)
                self.solved[k, l] = csr_array(P), penalty.coefs(P), self.solvers[l].finished
                self.tick(1.0)

        behind = np.flatnonzero(ends > self.done).tolist()
        self.new = [(k, l) for l in behind for k in range(int(self.done[l]), int(ends[l]))]
        each(column, behind, self.n_jobs, self.stop)
        self.done = np.maximum(self.done, ends)

    def finish(self, points: np.ndarray) -> bool:
        """Every point is solved to its end at once."""
        return False

    def latest(self) -> RobustSurface:
        """What the last call has solved."""
        return self._surface(self.new)

    def solutions(self) -> RobustSurface:
        """All that has been solved."""
        return self._surface(sorted(self.solved))

    def _surface(self, found: list[tuple[int, int]]) -> RobustSurface:
        places, solved = np.full(self.grid.shape, -1, dtype=np.intp), []
        for place, point in enumerate(found):
            places[point] = place
            W, finished = self.solved[point][1:]
            at = support(W)
            solved.append(Solved(point[0], at, W.ravel()[at], finished, np.empty(0, dtype=np.intp)))
        data = self.problem.data
        return RobustSurface(
            tasks=data.labels,
            features=data.features,
            solved=tuple(solved),
            problem=self.problem,
            grid=self.grid,
            places=places,
            points=tuple(self.solved[point][0] for point in found),
            finished_at=tuple(self.solved[point][2] for point in found),
        )
