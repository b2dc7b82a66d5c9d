"""Pretrained lassos on a grid of their parameters: a first step per training set, and a path of lassos per column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._data.designs import Floats, Ints
from ..._objective.coupled.groups import Groups
from ..._objective.problem import Problem
from ..._objective.proofs.certificates import TaskCertificate
from ..._solvers.problems.make_problem import with_offset
from ..._solvers.solvers import LASSOS, caches_for
from ..grid import Grid
from ..grids import read_lams
from ..solutions import Solutions, Solved
from ..stage_paths import StagePaths
from ..surface import Surface
from .pretraining import FirstStep, OffsetFolds, pretrain

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, eq=False)
class PretrainedGrid:
    """Points (k, l): lam falls along a column, which has one alpha and one strength of the first step (NaN: every training
    set chooses its own)."""

    lams: Floats  # (K,)
    alphas: Floats  # (L,)
    commons: Floats  # (L,)
    folds: OffsetFolds

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.lams), len(self.alphas)

    @property
    def strength(self) -> Floats:
        return np.broadcast_to(self.lams[:, None], self.shape)

    @property
    def block(self) -> int:
        return 3

    @property
    def leader(self) -> Ints:
        return np.arange(self.shape[1])

    @property
    def steps(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def column(self) -> Grid:
        never = np.full((len(self.lams), 1), np.inf)
        return Grid(self.lams, never, np.zeros(1), never)

    def pretrained(self, problem: Problem, **options: Any) -> tuple[FirstStep, ...]:
        """The first step of every column."""
        chosen = np.isnan(self.commons).any()
        lams = None if chosen else np.unique(self.commons)[::-1]
        steps = pretrain(problem, lams, self.folds, **options)
        places = [0] * len(self.commons) if lams is None else [int(np.flatnonzero(lams == c)[0]) for c in self.commons]
        return tuple(steps[place] for place in places)


def pretrained_grid(
    problem: Problem,
    lams: int | ArrayLike,
    alphas: ArrayLike,
    commons: ArrayLike | None,
    lam_min_ratio: float | None,
    folds: OffsetFolds,
) -> PretrainedGrid:
    """All pairs of a strength of the first step and an alpha; lams are those of separate lassos."""
    shares = _values("alphas", alphas, lambda a: (a >= 0) & (a <= 1), "from 0 to 1")
    firsts = np.array([np.nan])
    if commons is not None:
        firsts = _values("lam_commons", commons, lambda c: (c > 0) & np.isfinite(c), "greater than 0")
    pairs = [(common, alpha) for common in firsts for alpha in shares]
    common, alpha = np.array(pairs).T
    return PretrainedGrid(read_lams(problem, lams, lam_min_ratio), alpha, common, folds)


def _values(name: str, given: ArrayLike, good: Callable[[Floats], np.ndarray], words: str) -> Floats:
    try:
        out = np.unique(np.atleast_1d(np.asarray(given, dtype=np.float64)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers {words}: {error}.") from error
    if out.ndim != 1 or out.size == 0 or not good(out).all():
        raise ValueError(f"{name} must be one or more numbers {words}, got {given!r}.")
    return out


def second_step(problem: Problem, first: FirstStep, alpha: float) -> Problem:
    """The lassos of the tasks: targets less (1 - alpha) times the first step's predictions, and a penalty that is 1 / alpha
    times as large on the features that it does not use."""
    factors = second_factors(problem.given_factors, used_by(first.coef, problem.groups)[:, None], alpha)
    offsets, over = list(first.offsets), 1.0 - alpha
    if (
        problem.intercepts != "task"
    ):  # a level that tasks share has all of x'b in it: their means are those of the first step
        known = zip(offsets, first.levels, problem.data.tasks, strict=True)
        offsets = [one - np.average(one, weights=task.weight) + level for one, level, task in known]
    out = with_offset(problem, [over * one for one in offsets], factors, over * first.coef)
    box = problem.box  # of the sum; what the first step adds is within it, as 0 is
    return out if box is None else replace(out, bounds=box.less(over * first.coef), positive=False)


def used_by(coef: Floats, groups: Groups | None) -> np.ndarray:
    """(d,) bool: the features that a first step uses; all of a group, if it uses any of them."""
    used = np.asarray(coef != 0.0)
    return used if groups is None else groups.closed(used)


def second_factors(given: Floats, used: np.ndarray, alpha: float) -> Floats:
    """The penalty factors of the second step, from those given and whether the first step uses a feature."""
    with np.errstate(divide="ignore", over="ignore"):
        outside = given / alpha if alpha > 0 else np.where(given > 0, np.inf, 0.0)
    return np.where(used, given, outside)


@dataclass(frozen=True, eq=False)
class PretrainedSurface(Solutions):
    """Solutions of pretrained lassos on a grid: coefficients are the sum of both steps.

    Attributes
    ----------
    parameters : {name: (K, L)}: lam, alpha, lam_common
    firsts : the first step of every column
    parts : the second steps of every column, without their data
    objective, dual_gap, unique : (K, L) computed from the data when first asked for; the gap is the larger of both steps'

    Pickling computes the certificates first and leaves the data behind.
    """

    grid: PretrainedGrid
    firsts: tuple[FirstStep, ...] = field(repr=False)
    parts: tuple[Surface, ...] = field(repr=False)
    places: Ints = field(repr=False)  # (K, L), in `solved`
    done: np.ndarray = field(repr=False)  # (K, L) bool: whether the point was solved to the end

    def __repr__(self) -> str:
        K, L = self.grid.shape
        return f"PretrainedSurface({K} lams x {L} alphas, {len(self.tasks)} tasks, {len(self.features)} features)"

    @property
    def parameters(self) -> dict[str, Floats]:
        shape = self.grid.shape
        commons = np.array([first.lam for first in self.firsts])
        return {
            "lam": self.grid.strength,
            "alpha": np.broadcast_to(self.grid.alphas, shape),
            "lam_common": np.broadcast_to(commons, shape),
        }

    @property
    def last(self) -> Ints:
        return self.places

    @property
    def settled(self) -> np.ndarray:
        return self.done

    @cached_property
    def columns(self) -> list[Surface]:
        """The second steps with their data."""
        both = zip(self.parts, self.firsts, self.grid.alphas, strict=True)
        return [replace(part, problem=second_step(self._data(), first, alpha)) for part, first, alpha in both]

    def _beside(self, values: Callable[[Surface], np.ndarray]) -> np.ndarray:
        return np.hstack([values(column) for column in self.columns])

    @cached_property
    def objective(self) -> Floats:
        return self._beside(lambda column: column.objective)

    @cached_property
    def _first_proofs(self) -> list[TaskCertificate]:
        """Of the first step of every column."""
        known = {id(first): first.prove(self._data()) for first in self.firsts}
        return [known[id(first)] for first in self.firsts]

    @cached_property
    def dual_gap(self) -> Floats:
        first = np.array([proof.relative_gap for proof in self._first_proofs])
        return np.asarray(np.maximum(self._beside(lambda column: column.dual_gap), first))

    @cached_property
    def unique(self) -> np.ndarray:
        first = np.array([proof.unique for proof in self._first_proofs])
        return np.asarray(self._beside(lambda column: column.unique) & first)

    def _in_common(self, place: int) -> Floats:
        column = int(np.argwhere(self.places == place)[0, 1])
        return self.firsts[column].coef[None]

    def to_dict(self) -> dict[str, np.ndarray]:
        columns = {**self.parameters}
        for name in ("objective", "dual_gap", "unique", "n_rows", "n_entries"):
            columns[name] = getattr(self, name)
        return {name: np.asarray(values).reshape(-1) for name, values in columns.items()}

    def __getstate__(self) -> dict[str, Any]:
        if self.problem is not None:
            _ = self._intercepts, self.objective, self.dual_gap, self.unique, self.complete
        of_data = ("columns", "_by_task", "_first_proofs")
        return {name: value for name, value in self.__dict__.items() if name not in of_data} | {"problem": None}


class PretrainedPaths:
    """Goes down the columns of a grid, each the path of the lassos of one second step."""

    def __init__(
        self, problem: Problem, grid: PretrainedGrid, *, budget: float | None, n_jobs: int | None, **options: Any
    ):
        self.problem, self.grid = problem, grid
        limits = {name: options[name] for name in ("tol", "max_iter")}
        self.firsts = grid.pretrained(problem, **limits)
        self.paths = []
        for first, alpha in zip(self.firsts, grid.alphas, strict=True):
            second = second_step(problem, first, float(alpha))
            grams = caches_for(second, LASSOS, reuse=True, budget=budget, n_jobs=n_jobs)
            self.paths.append(StagePaths(second, grid.column, max_stages=1, n_jobs=n_jobs, grams=grams, **options))
        self.moved = [False] * len(self.paths)
        self.sums: list[dict[int, tuple[Solved, Solved]]] = [{} for _ in self.paths]  # of both steps, once made

    def advance(self, ends: Ints) -> None:
        self.moved = [int(end) > int(path.done[0]) for path, end in zip(self.paths, ends, strict=True)]
        for l in np.flatnonzero(self.moved).tolist():
            self.paths[l].advance(ends[l : l + 1])

    def finish(self, points: np.ndarray) -> bool:
        self.moved = [path.done[0] > 0 and path.finish(points[:, l : l + 1]) for l, path in enumerate(self.paths)]
        return any(self.moved)

    def latest(self) -> PretrainedSurface:
        return self._gathered(
            [path.latest() if moved else None for path, moved in zip(self.paths, self.moved, strict=True)]
        )

    def solutions(self) -> PretrainedSurface:
        return self._gathered([path.solutions() for path in self.paths])

    def _gathered(self, parts: list[Surface | None]) -> PretrainedSurface:
        data, m = self.problem.data, self.problem.m
        solved: list[Solved] = []
        last, complete = np.full(self.grid.shape, -1, dtype=np.intp), np.zeros(self.grid.shape, dtype=bool)
        kept = []
        for l, (part, first, alpha) in enumerate(zip(parts, self.firsts, self.grid.alphas, strict=True)):
            if part is None:
                part = self.paths[l]._gathered([])
            kept.append(replace(part, problem=None))
            complete[:, l] = part.complete[:, 0]
            last[:, l] = np.where(part.last[:, 0] >= 0, part.last[:, 0] + len(solved), -1)
            common, known = np.tile((1.0 - alpha) * first.coef, m), self.sums[l]
            for one in part.solved:
                if id(one) not in known:
                    known[id(one)] = one, _sum_of(one, common, self.problem)
                solved.append(known[id(one)][1])
        return PretrainedSurface(
            tasks=data.labels,
            features=data.features,
            solved=tuple(solved),
            problem=self.problem,
            grid=self.grid,
            firsts=self.firsts,
            parts=tuple(kept),
            places=last,
            done=complete,
        )


def _sum_of(one: Solved, common: Floats, problem: Problem) -> Solved:
    """A solution of the second step with what the first adds to every task, (m d,)."""
    if not common.any():
        return one
    W = common.copy()
    W[one.at] += one.values
    W = problem.within(W.reshape(problem.m, -1)).ravel()
    at = np.flatnonzero(W)
    return Solved(one.k, at, W[at], one.finished, one.unclear)
