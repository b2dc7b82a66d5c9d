"""Models whose coefficients are sums over levels, on a grid of one total strength and of ratios of the levels' strengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from ..._data.designs import Floats, Ints
from ..._data.task_levels import TaskLevels
from ..._objective.coupled.level_penalty import RIDGE, SPARSE, LevelPenalty, certify_levels
from ..._objective.problem import Problem
from ..._solvers.coupled.pooling import sizes
from ..._solvers.coupled.task_levels import LevelGrams
from ..._solvers.coupled_stages import Certify
from ..._solvers.largest_lam import first_gradient
from ..._solvers.problems.level_priors import counted
from ..._solvers.solvers import levels_for
from ..grids import read_lams, read_ratios
from .points import PointPaths, PointSurface

SHARE = 1e-2  # of the largest strength, where the lams of the sparse penalty end
# Sparse: lam_common / lam and lam_upper / lam, in units in which noise has the same chance in all levels: the root of the
# number of tasks that a value has. inf leaves a level out, so that the flat model is among those that are compared. 0 is
# tried where there are more than CROWDED samples for every feature.
COMMONS, UPPERS = (0.0, 0.2, 1.0), (0.3, 1.0, np.inf)
# Ridge: lam relative to the mean sum of squares of a column in a task, lam_upper / lam, and lam_common relative to the mean
# sum of squares of a column in all tasks (0 where there are more than CROWDED samples for every feature).
LARGEST, SMALLEST = 1e3, 1e-3
RIDGE_UPPERS = (0.01, 0.1, 1.0, 10.0, np.inf)
RIDGE_COMMONS = (1e-3, 1e-2, 1e-1)
CROWDED = 2
OF_A_SIDE = 10  # samples for every feature that the rarer side of two classes needs to be fitted without a penalty


def penalty_at(problem: Problem, levels: TaskLevels, kind: str, lams: ArrayLike, theta: float = np.inf) -> LevelPenalty:
    """The penalty of a problem at the strengths (1 + L,) of what is common and of the levels."""
    blocks, of_tasks = levels.blocks, problem.factors
    height = int(blocks.max()) + 1
    squares, members = np.zeros((height, problem.d)), np.zeros((height, 1))
    for of_part in blocks.T:
        np.add.at(squares, of_part, of_tasks.T**2)
        np.add.at(members, of_part, 1.0)
    factors = np.sqrt(squares / members)
    grouped = problem.groups if kind == SPARSE else None
    factors[: levels.classes] = problem.common_factors * (1.0 if grouped is None else grouped.scale)
    free = (of_tasks == 0.0).all(axis=1)  # these features are found in the effects of the last level
    last = np.isin(np.arange(height), blocks[:, -1])
    factors[np.ix_(~last, free)] = np.inf
    strengths = np.asarray(lams, dtype=np.float64)
    n = np.array([design.n for design in problem.designs])
    caps = np.full(len(strengths) - 1, theta)
    return LevelPenalty(kind, strengths, caps, blocks, factors, of_tasks, n, groups=grouped)


def units_of(levels: TaskLevels, kind: str) -> Floats:
    """(1 + L,): strengths, over that of the last level, at which noise has the same chance in all; 1 for ridges."""
    if kind == RIDGE:
        return np.ones(1 + len(levels.counts))
    m = len(levels.codes)
    counts = np.concatenate([[1], levels.counts])
    return np.asarray(np.sqrt(m / counts) / np.sqrt(m / counts[-1]))


def largest(problem: Problem, levels: TaskLevels, ratios: Floats) -> float:
    """The smallest lam at which the sparse model is 0, `ratios` (1 + L,) being the strengths over that of the last level."""
    penalty = penalty_at(problem, levels, SPARSE, ratios)
    G, bounds = np.abs(penalty.over_blocks(first_gradient(problem))), penalty.bounds
    out = np.divide(G, bounds, out=np.zeros_like(G), where=(bounds > 0.0) & np.isfinite(bounds))
    return float((out if penalty.groups is None else penalty.groups.lengths(out.T)).max(initial=0.0))


# ------------------------------------------------------------------ the grid


@dataclass(frozen=True)
class NestedGrid:
    """Points (k, l): all strengths fall along a column, in the ratios of the column; a ridge on what is common stays."""

    kind: str
    levels: TaskLevels
    lams: Floats  # (K, L, 1 + levels): of what is common, and of the levels
    theta: float = np.inf

    @property
    def parameters(self) -> dict[str, Floats]:
        count = self.lams.shape[2] - 2
        uppers = {upper_name(k, count): self.lams[:, :, 1 + k] for k in range(count)}
        return {"lam": self.lams[:, :, -1], **uppers, "lam_common": self.lams[:, :, 0]}

    @property
    def strength(self) -> Floats:
        return np.asarray(self.lams[:, :, -1])

    @property
    def shape(self) -> tuple[int, int]:
        return self.lams.shape[0], self.lams.shape[1]

    @property
    def block(self) -> int:
        """Points of a column that a search solves between two looks at held-out errors."""
        return 2 if self.kind == SPARSE else len(self.lams)

    @property
    def leader(self) -> Ints:
        """(L,): every column goes by its own errors."""
        return np.arange(self.shape[1])

    @property
    def steps(self) -> int:
        return self.strength.size

    def penalty(self, k: int, l: int, problem: Problem) -> LevelPenalty:
        return penalty_at(problem, self.levels, self.kind, self.lams[k, l], self.theta)


def upper_name(k: int, count: int) -> str:
    """What the strength of a level above the last one is called, if there are so many of them."""
    return "lam_upper" if count == 1 else f"lam_upper_{k + 1}"


def nested_grid(
    problem: Problem,
    levels: TaskLevels,
    kind: str,
    lams: ArrayLike = 20,
    commons: ArrayLike | None = None,
    uppers: ArrayLike | None = None,
    lam_min_ratio: float | None = None,
) -> NestedGrid:
    """`lams` are values of the last level's strength, or how many; `uppers` ratios of the other levels' strengths to it, the
    same for all of them or in all combinations; `commons` the same of what is common (with ridges its strengths)."""
    count = len(levels.counts)
    choices = RIDGE_UPPERS if kind == RIDGE else UPPERS
    upper = np.unique(read_ratios(choices if uppers is None else uppers, "lam_uppers", ends=True))
    if not (upper > 0.0).all():
        raise ValueError(f"lam_uppers are ratios, which must be greater than 0; got {uppers!r}.")
    chosen = list(product(upper, repeat=count - 1))
    if kind == RIDGE:
        return _ridge_grid(problem, levels, lams, commons, chosen)
    few = _crowded(problem)
    ratios = np.unique(read_ratios(COMMONS[int(few) :] if commons is None else commons, "lam_commons", ends=True))
    unit = units_of(levels, kind)
    columns = [np.array([common, *above, 1.0]) * unit for common, above in product(ratios, chosen)]
    if commons is None and uppers is None:
        columns.append(np.array([np.inf] * count + [1.0]))  # nothing is shared: a lasso for every task
    paths = []
    for column in columns:
        top = largest(problem, levels, column)
        lam = -np.sort(-read_lams(problem, lams, lam_min_ratio, top, (SHARE, SHARE)))
        paths.append(lam[:, None] * column)
    return NestedGrid(kind, levels, np.stack(paths, axis=1))


def _crowded(problem: Problem) -> bool:
    """Whether what is common needs a penalty, as there are too few samples for every feature. Classes that features separate
    have no un-penalised fit, which is likely where the rarer side has few samples."""
    if counted(problem)[1].sum() <= CROWDED * problem.d * problem.classes:
        return True
    if problem.error != "log_loss":
        return False
    n, ones = np.array([design.n for design in problem.designs]), np.array([one.mean for one in problem.data.targets])
    sides = np.stack([n * ones, n * (1.0 - ones)]).reshape(2, -1, problem.classes).sum(axis=1)
    return bool(sides.min() <= OF_A_SIDE * problem.d)


def _ridge_grid(
    problem: Problem, levels: TaskLevels, lams: ArrayLike, commons: ArrayLike | None, chosen: Sequence[Any]
) -> NestedGrid:
    size, of_all = sizes(problem)
    if isinstance(lams, Integral):
        found = size * np.geomspace(LARGEST, SMALLEST, int(lams))
    else:
        found = -np.sort(-np.unique(read_ratios(lams, "lams")))
    if commons is None:
        ridges = of_all * np.array(RIDGE_COMMONS) if _crowded(problem) else np.zeros(1)
    else:
        ridges = np.unique(read_ratios(commons, "lam_commons", ends=True))
    paths = [
        np.concatenate([np.full((len(found), 1), common), found[:, None] * np.array([*above, 1.0])], axis=1)
        for common, above in product(ridges, chosen)
    ]
    return NestedGrid(RIDGE, levels, np.stack(paths, axis=1))


# ------------------------------------------------------------------ solutions


class NestedSurface(PointSurface):
    """Solutions on a grid of strengths by level.

    Attributes
    ----------
    parameters : {name: (K, L)}: lam, of the last level, lam_upper, of those above, and lam_common
    """

    certify: ClassVar[Certify] = staticmethod(certify_levels)

    def _in_common(self, place: int) -> Floats:
        return np.asarray(self.points[place].toarray())


class NestedPaths(PointPaths):
    """Goes down every column of the grid, each solve from the one before, as far as it is asked to."""

    surface = NestedSurface

    def __init__(self, problem: Problem, grid: NestedGrid, **options: Any):
        super().__init__(problem, grid, **options)
        self.n_jobs = None  # columns fetch rows of the same Gram matrix
        self.first = grid.penalty(0, 0, problem)
        self.known = LevelGrams(problem, self.first) if problem.loss.squared else None

    def solver(self, l: int) -> Any:
        return levels_for(self.problem, self.first, self.known)

    def advance(self, ends: Ints) -> None:
        if self.known is None or self.known.system is None:
            super().advance(ends)
            return
        behind = np.flatnonzero(ends > self.done).tolist()
        self.new = [(k, l) for l in behind for k in range(int(self.done[l]), int(ends[l]))]
        penalties = [self.grid.penalty(k, l, self.problem) for k, l in self.new]
        if penalties:
            found = self.known.system.solve(np.array([penalty.ridge for penalty in penalties]))
            for point, penalty, P in zip(self.new, penalties, found, strict=True):
                self.solved[point] = csr_array(P), penalty.coefs(P), True
            self.tick(float(len(penalties)))
        self.done = np.maximum(self.done, ends)
