"""Convex norms of rows: the penalties of stages that couple the tasks, with their dual norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..._data.designs import Floats, Ints

WHOLE = 1e-12  # lam_b / lam_s this close below a whole number counts as that number


def lengths(M: Floats) -> Floats:
    """(d,): the l2 norms of the rows of M, whatever their scale."""
    top = np.abs(M).max(axis=1, initial=0.0)
    unit = np.where((top > 0.0) & np.isfinite(top), top, 1.0)
    return np.asarray(unit * np.sqrt(((M / unit[:, None]) ** 2).sum(axis=1)))


def excludes(factors: Floats) -> bool:
    """Whether any entry is excluded: its factor is inf."""
    return bool(np.isinf(factors.max(initial=0.0)))


def counted(factors: Floats) -> Floats:
    """The factors with 0 in place of inf: what enters a norm of W, which is 0 there."""
    return np.where(np.isinf(factors), 0.0, factors) if excludes(factors) else factors


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
        sizes = lengths(over(G, self.factors))
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
        sizes = np.abs(over(G, self.factors))
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


def over(G: Floats, factors: Floats) -> Floats:
    """G / f where 0 < f < inf, else 0."""
    with np.errstate(over="ignore"):
        return np.divide(G, factors, out=np.zeros_like(G), where=(factors > 0) & np.isfinite(factors))
