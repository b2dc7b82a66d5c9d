"""Concave penalties: the value, and the weights of the next stage. All that Algorithm 1 needs to know.

A penalty is linearised at the current W: the stage that follows has a convex penalty, a weighted lasso or a norm of every
row. What decides it is the penalty's pattern at W: the slopes there, as far as they are not 1. Of capped penalties these are
all 0, so a pattern is a set of rows (and entries) that are free. Two stages are the same exactly when their patterns are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from .._data.designs import Floats, Ints
from .shapes import CAPPED, Shape

if TYPE_CHECKING:
    from .groups import Groups

WHOLE = 1e-12  # lam_b / lam_s this close below a whole number counts as that number


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

    factors is (d, m): 0 leaves a cell out of norm and cap, inf excludes it (its coefficient is 0).
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
        if _excludes(self.factors):
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
    convex = True

    @cached_property
    def norm(self) -> DirtyNorm:
        return DirtyNorm(self.l1_ratio * self.lam_s, self.l1_ratio * self.lam_b, self.factors)

    def value(self, W: Floats) -> float:
        return self.norm.value(W)

    def row_norms(self, W: Floats) -> Floats:
        return np.asarray((counted(self.factors) * np.abs(W)).sum(axis=1))

    def pattern(self, W: Floats) -> np.ndarray:
        return np.empty((2, 0))

    def weights(self, pattern: np.ndarray) -> DirtyNorm:
        return self.norm

    def row_slopes(self, pattern: np.ndarray) -> Floats:
        return np.ones(len(self.factors))

    def free_rows(self, pattern: np.ndarray) -> Ints:
        return np.empty(0, dtype=np.intp)


def lengths(M: Floats) -> Floats:
    """(d,): the l2 norms of the rows of M, whatever their scale."""
    top = np.abs(M).max(axis=1, initial=0.0)
    unit = np.where((top > 0.0) & np.isfinite(top), top, 1.0)
    return np.asarray(unit * np.sqrt(((M / unit[:, None]) ** 2).sum(axis=1)))


def _excludes(factors: Floats) -> bool:
    return bool(np.isinf(factors.max(initial=0.0)))


def counted(factors: Floats) -> Floats:
    """The factors with 0 in place of inf: what enters a norm of W, which is 0 there."""
    return np.where(np.isinf(factors), 0.0, factors) if _excludes(factors) else factors


# ------------------------------------------------------------------ convex norms of rows


class OfBlocks:
    """What a norm does that is a sum over blocks of the entries of W."""

    def sums_that_are_fixed(self) -> list[Ints]:
        """Sets of features of which a convention fixes what their coefficients add up to where they are not penalised: the
        levels of a variable, whose columns add up to a constant."""
        return []

    def spread(self, values: np.ndarray) -> np.ndarray:
        """What is known of every block, at every entry: an array that broadcasts to (d, m)."""
        raise NotImplementedError

    def total(self, M: np.ndarray) -> Floats:
        """(blocks,): sums of M (d, m) over the entries of every block."""
        raise NotImplementedError


class OfRows(OfBlocks):
    """The blocks are the rows."""

    def spread(self, values: np.ndarray) -> np.ndarray:
        return values[:, None]

    def total(self, M: np.ndarray) -> Floats:
        return np.asarray(M.sum(axis=1), dtype=np.float64)


class RowNorm(Protocol):
    """A norm of every row, summed, W being (d, m). It is  max p'w  over the p with dual(p) <= 1. (`BlockNorm` in
    `groups.py` has groups of rows in place of rows: one value for each.)"""

    @property
    def factors(self) -> Floats:
        """(d, m): 0 leaves an entry un-penalised, inf excludes it."""

    def values(self, W: Floats) -> Floats:
        """(d,): the norm of each row"""

    def value(self, W: Floats) -> float:
        """Their sum."""

    def dual(self, G: Floats) -> Floats:
        """(d,): the dual norm of each row of G (d, m); entries that are excluded or un-penalised do not count."""

    def free(self) -> np.ndarray:
        """(d, m) bool: entries that are not penalised."""

    def of_rows(self, rows: Ints) -> RowNorm:
        """The same for some of the rows."""

    def spread(self, values: np.ndarray) -> np.ndarray:
        """See `OfBlocks`."""

    def total(self, M: np.ndarray) -> Floats:
        """See `OfBlocks`."""

    def sums_that_are_fixed(self) -> list[Ints]:
        """See `OfBlocks`."""


@dataclass(frozen=True)
class GroupNorm(OfRows):
    """a_j |f_j w^j|_2 with weights a (d,) >= 0 and factors f (d, m)."""

    a: Floats
    factors: Floats

    def values(self, W: Floats) -> Floats:
        return np.asarray(self.a * lengths(counted(self.factors) * W))

    def value(self, W: Floats) -> float:
        return float(self.values(W).sum())

    def dual(self, G: Floats) -> Floats:
        sizes = lengths(_over(G, self.factors))
        return np.divide(sizes, self.a, out=np.zeros_like(sizes), where=self.a > 0)

    def free(self) -> np.ndarray:
        out: np.ndarray = ((self.a == 0.0)[:, None] | (self.factors == 0.0)) & np.isfinite(self.factors)
        return out

    def of_rows(self, rows: Ints) -> GroupNorm:
        return GroupNorm(self.a[rows], self.factors[rows])


@dataclass(frozen=True)
class DirtyNorm(OfRows):
    """min over w = s + b of  lam_s sum_i f_i |s_i| + lam_b max_i f_i |b_i|  for every row w of W.

    That is  max p'(f w)  over |p|_inf <= lam_s, |p|_1 <= lam_b:  lam_s times the sum of the q largest f_i |w_i|, q = lam_b /
    lam_s, the last of them counted in part if q is not whole. q >= m: the lasso; q <= 1: l-infinity rows.
    """

    lam_s: float
    lam_b: float
    factors: Floats

    def values(self, W: Floats) -> Floats:
        sizes = -np.sort(-counted(self.factors) * np.abs(W), axis=1)
        if self.lam_s == 0.0:  # all of the penalty is a ridge
            return np.zeros(len(W))
        share = np.clip(self.lam_b / self.lam_s - np.arange(sizes.shape[1]), 0.0, 1.0)
        return np.asarray(self.lam_s * (sizes @ share))

    def value(self, W: Floats) -> float:
        return float(self.values(W).sum())

    def dual(self, G: Floats) -> Floats:
        sizes = np.abs(_over(G, self.factors))
        if self.lam_s == 0.0:
            return np.zeros(len(G))
        out: Floats = np.maximum(sizes.sum(axis=1) / self.lam_b, sizes.max(axis=1, initial=0.0) / self.lam_s)
        return out

    def free(self) -> np.ndarray:
        out: np.ndarray = (self.factors == 0.0) | ((self.lam_s == 0.0) & np.isfinite(self.factors))
        return out

    @property
    def separates(self) -> bool:
        """Whether it is the lasso's, lam_s sum_i f_i |w_i|."""
        out: bool = self.factors.shape[1] * self.lam_s <= self.lam_b * (1.0 + WHOLE)
        return out

    def split(self, W: Floats) -> tuple[Floats, Floats]:
        """S and B (d, m) of smallest norm with S + B = W: B is W clipped at the (q + 1)-th largest entry of its row, q
        rounded down. (Any level up to the q-th largest serves where q is whole: B is the smallest, but for q = 1, where S
        is 0. Un-penalised entries go to S.)"""
        sizes = counted(self.factors) * np.abs(W)
        m, q = sizes.shape[1], 0
        if self.lam_b > self.lam_s * (1.0 + WHOLE):
            q = m if self.separates else int(self.lam_b / self.lam_s + WHOLE)
        clip = -np.sort(-sizes, axis=1)[:, q : q + 1] if q < m else np.zeros((len(W), 1))
        share = np.divide(clip, sizes, out=np.zeros_like(sizes), where=sizes > 0)
        B = np.where(sizes > 0, np.minimum(share, 1.0) * W, 0.0)
        return W - B, B

    def of_rows(self, rows: Ints) -> DirtyNorm:
        return DirtyNorm(self.lam_s, self.lam_b, self.factors[rows])


def _over(G: Floats, factors: Floats) -> Floats:
    """G / f where 0 < f < inf, else 0."""
    with np.errstate(over="ignore"):
        return np.divide(G, factors, out=np.zeros_like(G), where=(factors > 0) & np.isfinite(factors))
