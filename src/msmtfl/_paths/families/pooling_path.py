"""Partial pooling on a grid of its two strengths: the grid, and all of its points from one factor per task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._data.designs import Floats, Ints
from ..._objective.coupled.pooling import PoolingRidge
from ..._objective.problem import Problem
from ..._objective.proofs.certificates import RowCertificate
from ..._objective.proofs.class_proofs import certify_pooled
from ..._runtime.progress import one_blas_thread
from ..._solvers.coupled.loss_pooling import AnyPooling
from ..._solvers.coupled.pooling import PooledFit, sizes
from ..._solvers.one_level import with_free_level
from ..._solvers.problems.level_priors import counted
from ..._solvers.solvers import pooling_for, pressed_pooling
from ..solutions import Solutions, TaskCoefs

# The default grid, relative to the mean over features and tasks of a column's sum of squares (in the units of its penalty):
# from next to one model for all tasks to next to one for each.
LARGEST, SMALLEST = 1e3, 1e-4
# k_common, relative to the mean over features of the sum of squares of all tasks. 0 is tried if there are more than CROWDED
# samples for every feature: with fewer, common values that are not shrunk follow the noise.
COMMON = (0.0, 1e-3, 1e-2, 1e-1, 1.0, np.inf)
CROWDED = 2
KEPT = 2**21  # coefficients of all points up to which they are kept, rather than worked out again: 16 MiB


@dataclass(frozen=True)
class PoolingGrid:
    """Points (k, l): k falls along a column, which has one k_common."""

    k: Floats  # (K, L)
    k_common: Floats  # (K, L)

    @property
    def parameters(self) -> dict[str, Floats]:
        return {"k": self.k, "k_common": self.k_common}

    @property
    def strength(self) -> Floats:
        return self.k

    @property
    def shape(self) -> tuple[int, int]:
        return self.k.shape[0], self.k.shape[1]

    @property
    def block(self) -> int:
        """All points of a column are solved at once."""
        return len(self.k)

    @property
    def leader(self) -> Ints:
        return np.arange(self.shape[1])

    @property
    def steps(self) -> int:
        return self.shape[0]

    def penalty(self, k: int, l: int, problem: Problem) -> PoolingRidge:
        return pooling_ridge(problem, float(self.k[k, l]), float(self.k_common[k, l]))


def pooling_ridge(problem: Problem, k: float, k_common: float) -> PoolingRidge:
    """The penalty of a problem at two strengths."""
    n = float(sum(design.n for design in problem.designs))
    factors, scales = problem.wide(problem.factors), np.tile(problem.common_factors, problem.classes)
    return PoolingRidge(k, k_common, factors, scales, n)


def pooling_grid(problem: Problem, ks: int | ArrayLike = 20, k_commons: ArrayLike | None = None) -> PoolingGrid:
    """All pairs of ks and k_commons, arrays as they are (the largest k first); ks may be their number."""
    size, of_all = sizes(problem)
    if isinstance(ks, Integral):
        found = size * np.geomspace(LARGEST, SMALLEST, int(ks))
    else:
        found = np.sort(_strengths("ks", ks, zero=False))[::-1]
    if k_commons is None:
        crowded = counted(problem)[1].sum() <= CROWDED * problem.d * problem.classes
        commons = of_all * np.array(COMMON[1 if crowded else 0 :])
    else:
        commons = _strengths("k_commons", k_commons, zero=True)
    if np.isinf(found).any() and np.isinf(commons).any():
        raise ValueError("ks and k_commons both hold inf: there all coefficients would be 0. Leave it out of one.")
    K, L = len(found), len(commons)
    return PoolingGrid(np.repeat(found[:, None], L, axis=1), np.repeat(commons[None], K, axis=0))


def _strengths(name: str, given: ArrayLike, zero: bool) -> Floats:
    out = np.unique(np.atleast_1d(np.asarray(given, dtype=np.float64)))
    least = "at least 0" if zero else "greater than 0"
    if out.ndim != 1 or out.size == 0 or not ((out >= 0.0) if zero else (out > 0.0)).all():
        raise ValueError(f"{name} must be numbers {least} (inf is allowed), got {given!r}.")
    return out


@dataclass(frozen=True, eq=False)
class PoolingSurface(Solutions):
    """Solutions of partial pooling on a grid of its strengths.

    Attributes
    ----------
    parameters : {name: (K, L)}: k, k_common
    common, coefs_of : (points, d) common parts, and (points, m, d) coefficients, the points of a row after each other
    objective, dual_gap, unique : (K, L) computed from the data when first asked for

    Pickling computes the certificates first and leaves the data behind.
    """

    grid: PoolingGrid
    common: Floats = field(repr=False)
    coefs_of: Floats = field(repr=False)
    pooling: AnyPooling | None = field(repr=False, default=None)

    def __repr__(self) -> str:
        K, L = self.grid.shape
        return (
            f"PoolingSurface({K} x {L} values of k, k_common, {len(self.tasks)} tasks, {len(self.features)} features)"
        )

    @property
    def parameters(self) -> dict[str, Floats]:
        return self.grid.parameters

    @property
    def last(self) -> Ints:
        return np.arange(self.grid.k.size).reshape(self.grid.shape)

    @property
    def settled(self) -> np.ndarray:
        return np.ones(self.grid.shape, dtype=bool)

    def coefs(self, places: ArrayLike) -> Floats:
        return np.asarray(self.coefs_of[np.asarray(places, dtype=np.intp)])

    @property
    def count(self) -> int:
        return len(self.coefs_of)

    def coef_common(self, k: int, l: int) -> Floats:
        """Return the common part at a point of the grid, (d,), of several classes (classes * d,)."""
        return np.asarray(self.common[self._place(k, l)])

    def _in_common(self, place: int) -> Floats:
        return np.asarray(self.common[place]).reshape(-1, len(self.features))

    def of_task(self, i: int) -> TaskCoefs:
        W = self.coefs_of[:, i]
        solution, feature = np.nonzero(W)
        return TaskCoefs(W.shape, solution, feature, W[solution, feature])

    @cached_property
    def _by_task(self) -> list[TaskCoefs]:
        return [self.of_task(i) for i in range(len(self.tasks))]

    def sparse_coef(self, k: int, l: int) -> Any:
        from scipy.sparse import csr_array

        return csr_array(self.coef(k, l))

    @cached_property
    def n_entries(self) -> Ints:
        return np.asarray(np.count_nonzero(self.coefs_of, axis=(1, 2))).reshape(self.grid.shape)

    @cached_property
    def n_rows(self) -> Ints:
        return np.asarray(np.count_nonzero(self.coefs_of.any(axis=1), axis=1)).reshape(self.grid.shape)

    def degrees(self, places: Ints) -> Floats:
        pooling = pooling_for(self._data(), self.pooling)
        pairs = zip(self.grid.k.ravel()[places], self.grid.k_common.ravel()[places], strict=True)
        return np.array([pooling.degrees(float(k), float(common)) for k, common in pairs])

    def _point(self, place: int, penalty: PoolingRidge) -> Floats:
        """(p,): b and V"""
        b = self.common[place]
        V = np.where(np.isinf(penalty.of_deviations), 0.0, self.coefs_of[place].reshape(-1, len(b)) - b)
        return np.concatenate([b, V.ravel()])

    @cached_property
    @one_blas_thread()
    def _proofs(self) -> list[RowCertificate]:
        out = []
        for place, (k, l) in enumerate(np.ndindex(self.grid.shape)):
            problem, penalty = self._data(), self.grid.penalty(k, l, self._data())
            with self._at_level(place):
                designs = pressed_pooling(problem, penalty).designs
                proof = certify_pooled(designs, self._point(place, penalty), penalty, problem.classes)
                out.append(replace(proof, gap=with_free_level(problem, proof.gap, self.coefs([place])[0])[0]))
        return out

    @cached_property
    def dual_gap(self) -> Floats:
        return np.array([proof.gap for proof in self._proofs]).reshape(self.grid.shape)

    @cached_property
    def unique(self) -> np.ndarray:
        return np.array([proof.unique for proof in self._proofs]).reshape(self.grid.shape)

    @cached_property
    def objective(self) -> Floats:
        problem = self._data()
        out = self.losses.sum(axis=1) / sum(design.n for design in problem.designs)
        for place, (k, l) in enumerate(np.ndindex(self.grid.shape)):
            penalty = self.grid.penalty(k, l, problem)
            out[place] += penalty.value(self._point(place, penalty))
        return np.asarray(out.reshape(self.grid.shape))

    def to_dict(self) -> dict[str, np.ndarray]:
        names = ("objective", "dual_gap", "unique", "n_rows", "n_entries")
        columns = {**self.parameters} | {name: getattr(self, name) for name in names}
        return {name: np.asarray(values).reshape(-1) for name, values in columns.items()}

    def __getstate__(self) -> dict[str, Any]:
        if self.problem is not None:
            _ = self._intercepts, self.objective, self.dual_gap, self.unique, self.complete
        state = {name: value for name, value in self.__dict__.items() if name != "_by_task"}
        return {**state, "problem": None, "pooling": None}


class PoolingPaths:
    """Solves all points of the grid at once, whatever of them is asked for; where there are very many coefficients under
    squared loss they are not kept."""

    def __init__(self, problem: Problem, grid: PoolingGrid, known: AnyPooling | None, tick: Callable[[float], None]):
        self.problem, self.grid, self.tick = problem, grid, tick
        self.pooling = pooling_for(problem, known)

    def advance(self, ends: Ints) -> None:
        self.tick(float(self.grid.steps))

    def finish(self, points: np.ndarray) -> bool:
        return False

    def latest(self) -> PoolingSurface:
        return self.solutions()

    def _solved(self) -> PooledFit:
        pairs = zip(self.grid.k.ravel().tolist(), self.grid.k_common.ravel().tolist(), strict=True)
        found: PooledFit = self.pooling.solve(list(pairs))
        return found

    @cached_property
    def _found(self) -> PooledFit:
        return self._solved()

    def solutions(self) -> PoolingSurface:
        """All points; where there is no closed form they are kept, as each takes its time."""
        data = self.problem.data
        plain = self.problem.loss.squared and self.problem.box is None  # a closed form
        large = plain and self.grid.k.size * self.problem.m * self.problem.d > KEPT
        found = self._solved() if large else self._found
        return PoolingSurface(
            tasks=data.labels,
            features=data.features,
            solved=(),
            problem=self.problem,
            grid=self.grid,
            common=found.common,
            coefs_of=found.coefs,
            pooling=self.pooling,
        )
