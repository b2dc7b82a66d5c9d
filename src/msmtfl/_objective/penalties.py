"""Concave penalties: the value, and the weights of the next stage. All that Algorithm 1 needs to know.

A penalty is linearised at the current W: the stage that follows has a convex penalty, a weighted lasso or a norm of every
row. What decides it is the penalty's pattern at W: the slopes there, as far as they are not 1. Of capped penalties these are
all 0, so a pattern is a set of rows (and entries) that are free. Two stages are the same exactly when their patterns are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from .._data.designs import Floats, Ints
from .coupled.groups import BlockDirty, Groups
from .coupled.row_norms import DirtyNorm, GroupNorm, RowNorm, counted, excludes, lengths
from .shapes import CAPPED, Shape


class Penalty(Protocol):
    """A concave function of a norm of every row, or of every entry. W has shape (d, m)."""

    structure: ClassVar[str]  # of its stages: "lassos", "rows" or "common", see `_solvers/solvers.py`

    def value(self, W: Floats) -> float:
        """The penalty at W."""

    def row_norms(self, W: Floats) -> Floats:
        """(d,): how much each feature counts."""

    def pattern(self, W: Floats) -> np.ndarray:
        """What the next stage depends on."""

    def weights(self, pattern: np.ndarray) -> Floats | StagePenalty:
        """The convex penalty that majorises this one wherever it has this pattern, in the form that the stage's solver
        takes: weights (d, m) of a lasso, a `RowNorm`, or ridges."""

    def row_slopes(self, pattern: np.ndarray) -> Floats:
        """(d,): what a stage with this pattern leaves of the penalty of rows, 1 being all."""

    def free_rows(self, pattern: np.ndarray) -> Ints:
        """The rows that a stage with this pattern leaves un-penalised, in one task at least."""

    @property
    def convex(self) -> bool:
        """Whether one stage is all there is."""


class StagePenalty(Protocol):
    """The convex penalty of a stage that is no weighted lasso."""

    def free(self) -> np.ndarray:
        """(d, m) bool: entries that it does not penalise."""


def slopes_of(shape: Shape, t: Floats, theta: float) -> Floats:
    """The slopes at t; 1 for theta = inf, which stands for the lasso in every shape."""
    return np.ones_like(t) if np.isinf(theta) else np.asarray(shape.slope(t, theta))


def values_of(shape: Shape, t: Floats, theta: float) -> Floats:
    return t if np.isinf(theta) else np.asarray(shape.value(t, theta))


def bent(slopes: Floats, first: int = 0) -> Floats:
    """(2, p): places (counted from `first`) and values of the slopes that are not 1."""
    at = np.flatnonzero(slopes != 1.0)
    out = np.empty((2, len(at)))
    np.add(at, first, out=out[0])
    out[1] = slopes.ravel()[at]
    return out


@dataclass(frozen=True)
class _Concave:
    """lam * sum_j phi(h_j; theta), h_j a norm of row j and phi a `Shape`.

    factors is (d, m): 0 leaves an entry out of norm and cap, inf excludes it (its coefficient is 0).
    theta = inf is the convex penalty lam * sum_j h_j. Of the strengths l1_ratio is left, where the rest is a ridge, which
    the loss has (`Problem.at`).
    """

    lam: float
    theta: float
    factors: Floats
    shape: Shape = CAPPED
    l1_ratio: float = field(default=1.0, kw_only=True)
    groups: Groups | None = field(default=None, kw_only=True)  # features whose norm is one, if there are any

    @property
    def convex(self) -> bool:
        return bool(np.isinf(self.theta))

    def norms(self, W: Floats) -> Floats:
        """(groups,): the norms h of all groups; of all rows, where there are none."""
        raise NotImplementedError

    def row_norms(self, W: Floats) -> Floats:
        """(d,): of a row in a group, the group's."""
        norms = self.norms(W)
        return norms if self.groups is None else norms[self.groups.of]

    def value(self, W: Floats) -> float:
        return float(self.l1_ratio * self.lam * values_of(self.shape, self.norms(W), self.theta).sum())

    def pattern(self, W: Floats) -> np.ndarray:
        """(2, p): rows whose slope is not 1, and their slopes."""
        return bent(slopes_of(self.shape, self.row_norms(W), self.theta))

    def row_slopes(self, pattern: np.ndarray) -> Floats:
        d = len(self.factors)
        out, rows = np.ones(d), pattern[0] < d
        out[pattern[0, rows].astype(np.intp)] = pattern[1, rows]
        return out

    def free_rows(self, pattern: np.ndarray) -> Ints:
        rows = np.flatnonzero(self.row_slopes(pattern) == 0.0)
        counted = (self.factors[rows] > 0) & np.isfinite(self.factors[rows])
        return rows[counted.any(axis=1)]


@dataclass(frozen=True)
class ConcaveRows(_Concave):
    """lam sum_j phi(h_j; theta) + lam_entry sum_ji phi(f_ji |w_ji|; theta_entry),  h_j = sum_i f_ji |w_ji|.

    The paper's penalty, capped-l1,l1, is the first term with phi = min(h, theta). In a pattern entry (i, j) has place
    d + i d + j. With groups of features h_g = sum_i |f w_i|_2 over the features of the group; all of them have its slope.
    """

    structure: ClassVar[str] = "lassos"

    lam_entry: float = 0.0
    theta_entry: float = np.inf

    @property
    def convex(self) -> bool:
        return bool((self.lam == 0.0 or np.isinf(self.theta)) and (self.lam_entry == 0.0 or np.isinf(self.theta_entry)))

    def _sizes(self, W: Floats) -> Floats:
        return np.asarray(counted(self.factors) * np.abs(W))

    def norms(self, W: Floats) -> Floats:
        sizes = self._sizes(W)
        return np.asarray((sizes if self.groups is None else self.groups.lengths(sizes)).sum(axis=1))

    def value(self, W: Floats) -> float:
        out = super().value(W)
        if self.lam_entry:
            out += float(self.l1_ratio * self.lam_entry * values_of(self.shape, self._sizes(W), self.theta_entry).sum())
        return out

    def pattern(self, W: Floats) -> np.ndarray:
        rows = super().pattern(W) if self.lam else np.empty((2, 0))
        if not self.lam_entry:
            return rows
        entries = slopes_of(self.shape, self._sizes(W).T, self.theta_entry)
        return np.concatenate([rows, bent(entries, len(self.factors))], axis=1)

    def weights(self, pattern: np.ndarray) -> Floats:
        """(d, m)"""
        slopes = self.l1_ratio * self.lam * self.row_slopes(pattern)[:, None]
        if self.lam_entry:
            d, m = self.factors.shape
            entries, of_entries = np.ones(d * m), pattern[0] >= d
            entries[pattern[0, of_entries].astype(np.intp) - d] = pattern[1, of_entries]
            slopes = slopes + self.l1_ratio * self.lam_entry * entries.reshape(m, d).T
        with np.errstate(over="ignore"):  # a weight too large for floats excludes a coefficient, as it would anyway
            out = slopes * counted(self.factors)
        if excludes(self.factors):
            out[np.isinf(self.factors)] = np.inf
        return out

    def free_rows(self, pattern: np.ndarray) -> Ints:
        if not self.lam_entry:
            return super().free_rows(pattern)
        return np.flatnonzero(((self.weights(pattern) == 0.0) & (self.factors > 0)).any(axis=1))


@dataclass(frozen=True)
class ConcaveEntries(ConcaveRows):
    """The same with the slopes of the rows (d,) given: for one more task."""

    given: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def convex(self) -> bool:
        return bool(self.lam_entry == 0.0 or np.isinf(self.theta_entry))

    @property
    def _of_entries(self) -> ConcaveRows:
        both = self.lam_entry, self.theta_entry
        return ConcaveRows(0.0, np.inf, self.factors, self.shape, *both, l1_ratio=self.l1_ratio)

    def value(self, W: Floats) -> float:
        norms = self.row_norms(W) if self.groups is None else self.row_norms(W) / self.groups.sizes[self.groups.of]
        return float(self.l1_ratio * self.lam * (self.given @ norms)) + self._of_entries.value(W)

    def pattern(self, W: Floats) -> np.ndarray:
        return self._of_entries.pattern(W)

    def row_slopes(self, pattern: np.ndarray) -> Floats:
        return self.given


class ConcaveGroups(_Concave):
    """lam * sum_j phi(h_j; theta),  h_j = (sum_i (f_ji w_ji)^2)^1/2. With theta = inf this is L1,2. With groups of features
    the sum is over those of the group, too."""

    structure: ClassVar[str] = "rows"

    def norms(self, W: Floats) -> Floats:
        sizes = counted(self.factors) * W
        return lengths(sizes if self.groups is None else self.groups.lengths(sizes))

    def weights(self, pattern: np.ndarray) -> RowNorm:
        strengths = self.l1_ratio * self.lam * self.row_slopes(pattern)
        return GroupNorm(strengths, self.factors) if self.groups is None else self.groups.norm(strengths, self.factors)


@dataclass(frozen=True)
class Dirty:
    """The convex penalty of DirtyMTL: see `DirtyNorm`. There is but one stage."""

    structure: ClassVar[str] = "rows"

    lam_s: float
    lam_b: float
    factors: Floats
    l1_ratio: float = 1.0
    groups: Groups | None = None
    convex = True

    @cached_property
    def norm(self) -> DirtyNorm | BlockDirty:
        strengths = self.l1_ratio * self.lam_s, self.l1_ratio * self.lam_b
        if self.groups is not None:
            return BlockDirty(*strengths, self.factors, self.groups)
        return DirtyNorm(*strengths, self.factors)

    def value(self, W: Floats) -> float:
        return self.norm.value(W)

    def row_norms(self, W: Floats) -> Floats:
        sizes = counted(self.factors) * np.abs(W)
        if self.groups is not None:
            sizes = self.groups.lengths(sizes)[self.groups.of]
        return np.asarray(sizes.sum(axis=1))

    def pattern(self, W: Floats) -> np.ndarray:
        return np.empty((2, 0))

    def weights(self, pattern: np.ndarray) -> DirtyNorm | BlockDirty:
        return self.norm

    def row_slopes(self, pattern: np.ndarray) -> Floats:
        return np.ones(len(self.factors))

    def free_rows(self, pattern: np.ndarray) -> Ints:
        return np.empty(0, dtype=np.intp)
