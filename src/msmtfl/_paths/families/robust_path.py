"""Models with a norm of every task's deviations on a grid of their two strengths: ARMUL and rMTFL."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from ..._data.designs import Floats, Ints
from ..._objective.coupled.row_norms import lengths
from ..._objective.coupled.task_norms import CentreNorms, RowNorms, TaskNorms, certify_task_norms
from ..._objective.problem import Problem
from ..._solvers.coupled.pooling import Pooling, sizes
from ..._solvers.coupled_stages import Certify
from ..._solvers.largest_lam import first_gradient
from ..._solvers.problems.level_priors import counted
from ..._solvers.solvers import task_norms_for
from ..grids import read_lams, read_ratios
from .points import PointPaths, PointSurface

ARMUL, RMTFL = "armul", "rmtfl"
KINDS = (ARMUL, RMTFL)
ALARM = 0.05  # the probability that noise alone makes a task deviate at the default strength
ROUNDING = (
    1e-12  # of the largest that a gradient, or what least squares leave, could be: smaller is what rounding leaves
)
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
    strengths, factors = (float(lam_deviation), float(lam_common)), problem.plain_factors
    if kind == ARMUL:
        return CentreNorms(*strengths, factors, problem.common_factors, n)
    return RowNorms(*strengths, factors, problem.common_factors, n, groups=problem.groups)


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
    n, counts = counted(problem)
    ranks = np.array([len(task.s) + task.used for task in known.tasks])
    freedom = counts - ranks - 1  # an intercept
    told = np.array([task.rest > ROUNDING * (task.rest + float(np.sum(task.e**2 / task.s))) for task in known.tasks])
    some = (freedom > 0) & (ranks > 0) & told
    if not some.any():
        return None
    variance = float(np.median(np.array([task.rest for task in known.tasks])[some] / freedom[some]))
    first, second = (np.array([np.sum(task.s**power) for task in known.tasks])[ranks > 0] for power in (1, 2))
    quantile = chi2.ppf(1.0 - ALARM / problem.m, first**2 / second) * second / first
    return float(2.0 * np.sqrt(variance * (quantile / n[ranks > 0]).max()))


def both_max(problem: Problem, ratio: float) -> float:
    """The smallest lam_common of rMTFL at which all coefficients are 0, with lam_deviation = ratio lam_common."""
    G = first_gradient(problem)
    penalty = penalty_of(problem, RMTFL, 1.0, 1.0)
    assert isinstance(penalty, RowNorms)
    rows = penalty.norm.dual(G.T).max(initial=0.0)
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
        enough = counted(problem)[1].sum() > CROWDED * problem.d
        return np.zeros(1) if enough else sizes(problem)[1] * np.array(RIDGES)
    return np.unique(read_ratios(given, "lam_commons", ends=True))


# ------------------------------------------------------------------ solutions


@dataclass(frozen=True, eq=False)
class RobustSurface(PointSurface):
    """Solutions on a grid of two strengths.

    Attributes
    ----------
    parameters : {name: (K, L)}: lam_deviation, lam_common
    n_outliers : (K, L) tasks that deviate
    """

    certify: ClassVar[Certify] = staticmethod(certify_task_norms)

    @cached_property
    def n_outliers(self) -> Ints:
        m = len(self.tasks)
        counts = np.array([np.count_nonzero(np.diff(P.indptr)[-m:]) for P in self.points], dtype=np.intp)
        return np.asarray(self._at_points(counts, -1))

    def _in_common(self, place: int) -> Floats:
        shared = self.points[place].toarray()[: -len(self.tasks)]
        return np.asarray(shared.mean(axis=0, keepdims=True))

    def to_dict(self) -> dict[str, np.ndarray]:
        return super().to_dict() | {"n_outliers": self.n_outliers.reshape(-1)}


class RobustPaths(PointPaths):
    """Goes down every column of the grid, each solve from the one before, as far as it is asked to."""

    surface = RobustSurface

    def __init__(self, problem: Problem, grid: RobustGrid, *, known: Pooling | None = None, **options: Any):
        super().__init__(problem, grid, **options)
        plain = problem.loss.squared and problem.box is None
        self.known = Pooling(problem) if known is None and plain else known

    def solver(self, l: int) -> Any:
        return task_norms_for(self.problem, self.known)
