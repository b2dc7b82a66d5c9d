"""Groups of features: columns of one variable, which enter a task or leave it together.

The norm of a group in a task is an l2 norm, |A_g w_g|_2 with A_j = a f_j p_g^1/2 for the p_g columns of the group: a is what
the stage leaves of lam, f are the penalty factors (with the units in them, if columns are standardised). So the weights of a
stage are those of a lasso, (d, m), and a group of one column is a lasso's coefficient. The root of the size makes up for the
length that the gradient of more columns has by chance: `benchmarks/studies/groups.py` compares it with columns that are made
orthonormal within group and task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from ..._data.designs import Floats, Ints
from ..box import Box, outwards
from .row_norms import DirtyNorm, OfBlocks, lengths, over


@dataclass(frozen=True, eq=False)
class Groups:
    """Which group every feature belongs to: `of` (d,) counts groups from 0, in the order of their first features. `one_hot`
    says which groups are all levels of a categorical column, so that their columns add up to a constant."""

    of: Ints
    names: tuple[str, ...]
    one_hot: tuple[bool, ...] = ()

    @property
    def count(self) -> int:
        return len(self.names)

    @property
    def of_features(self) -> np.ndarray:
        """(d,): the name of each feature's group."""
        return np.array(self.names, dtype=object)[self.of]

    @cached_property
    def sizes(self) -> Ints:
        """(count,): how many columns each group has."""
        return np.bincount(self.of, minlength=self.count)

    @cached_property
    def scale(self) -> Floats:
        """(d,): the root of the size of each feature's group."""
        return np.asarray(np.sqrt(self.sizes[self.of]))

    @cached_property
    def members(self) -> list[Ints]:
        """The features of every group."""
        order = np.argsort(self.of, kind="stable")
        return np.split(order, np.cumsum(self.sizes)[:-1])

    @property
    def levels(self) -> list[Ints]:
        """The features that are all levels of a categorical column, by column."""
        return [self.members[g] for g, one in enumerate(self.one_hot) if one]

    @cached_property
    def _adds(self) -> csr_array:
        return csr_array((np.ones(len(self.of)), (self.of, np.arange(len(self.of)))), shape=(self.count, len(self.of)))

    def sums(self, M: Floats) -> Floats:
        """(count, ...): sums over the features of each group, of M (d, ...)."""
        return np.asarray(self._adds @ M)

    def lengths(self, M: Floats) -> Floats:
        """(count, m): l2 norms of the parts of M (d, m) that belong to a group, whatever their scale."""
        top = np.zeros((self.count, M.shape[1]))
        np.maximum.at(top, self.of, np.abs(M))
        unit = np.where((top > 0.0) & np.isfinite(top), top, 1.0)
        return np.asarray(unit * np.sqrt(self.sums((M / unit[self.of]) ** 2)))

    def tiled(self, times: int) -> Groups:
        """Those of features that stand beside each other several times: of parts, or of classes."""
        of = (self.of + self.count * np.arange(times)[:, None]).ravel()
        return self if times == 1 else Groups(of, self.names * times, self.one_hot * times)

    def beside(self, more: int) -> Groups:
        """Those of as many features more, each of which is by itself."""
        of = np.append(self.of, self.count + np.arange(more))
        one_hot = (*self.one_hot, *(False,) * more) if self.one_hot else ()
        return Groups(of, (*self.names, *(f"column {k + 1} beside" for k in range(more))), one_hot)

    def norm(self, a: Floats, factors: Floats) -> BlockNorm:
        """a_g |(f W)_g|_2 over groups g and all tasks; a (d,) is the same for all features of a group, f is (d, m)."""
        excluded = np.isinf(factors)
        return BlockNorm(np.where(excluded, np.inf, a[:, None] * np.where(excluded, 0.0, factors)), self)

    def closed(self, features: np.ndarray) -> np.ndarray:
        """(d,) bool: all features of the groups to which some features, (d,) bool, belong."""
        some = np.zeros(self.count, dtype=bool)
        some[self.of[features]] = True
        return np.asarray(some[self.of])

    def on(self, features: Ints) -> Groups:
        """The groups of some of the features."""
        found, of = np.unique(self.of[features], return_inverse=True)
        names, whole = tuple(self.names[g] for g in found.tolist()), np.bincount(of.ravel()) == self.sizes[found]
        one_hot = tuple(
            self.one_hot[g] and bool(one) for g, one in zip(found.tolist(), whole, strict=True) if self.one_hot
        )
        return Groups(of.ravel(), names, one_hot)


@dataclass(frozen=True, eq=False)
class BoundedGroups:
    """Groups of the features of one task, whose coefficients have bounds (d,)."""

    groups: Groups
    box: Box

    def forces(self, w: Floats, a: Floats, gradient: Floats) -> Floats:
        """(d,): those with which bounds press w, weights being a and the gradient minus that of the loss. In a group that is
        not 0 each of them is what is left of the gradient; in others they are what gradients are too large by."""
        A = np.where(np.isfinite(a), a, 0.0)
        norms = self.groups.lengths((A * w)[:, None])[self.groups.of, 0]
        bent = np.divide(A**2 * w, norms, out=np.zeros_like(w), where=norms > 0.0)
        short = np.where((norms > 0.0) | (A == 0.0), bent - gradient, -outwards(self.box, gradient))
        held = ((short > 0.0) & (self.box.low == w)) | ((short < 0.0) & (self.box.high == w))
        return np.where(held & np.isfinite(a), short, 0.0)


def groups_named(names: Sequence[str]) -> Groups:
    """Groups from the name of every feature's group, in the order in which they come."""
    number = {name: g for g, name in enumerate(dict.fromkeys(names))}
    return Groups(np.array([number[name] for name in names], dtype=np.intp), tuple(number))


class OfGroups(OfBlocks):
    """The blocks are groups of rows."""

    groups: Groups

    def sums_that_are_fixed(self) -> list[Ints]:
        return self.groups.levels

    def spread(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(values[self.groups.of][:, None])

    def total(self, M: np.ndarray) -> Floats:
        return np.asarray(self.groups.sums(M.astype(np.float64)).sum(axis=1))


@dataclass(frozen=True, eq=False)
class BlockNorm(OfGroups):
    """sum_g |(A W)_g|_2 over groups g and all tasks; A (d, m) >= 0: 0 leaves an entry un-penalised, inf excludes it."""

    factors: Floats
    groups: Groups

    @cached_property
    def _counted(self) -> Floats:
        return np.where(np.isfinite(self.factors), self.factors, 0.0)

    def values(self, W: Floats) -> Floats:
        return lengths(self.groups.lengths(self._counted * W))

    def value(self, W: Floats) -> float:
        return float(self.values(W).sum())

    def dual(self, G: Floats) -> Floats:
        with np.errstate(over="ignore"):
            over = np.divide(G, self._counted, out=np.zeros_like(G), where=self._counted > 0.0)
        return lengths(self.groups.lengths(over))

    def free(self) -> np.ndarray:
        out: np.ndarray = self.factors == 0.0
        return out

    def of_rows(self, rows: Ints) -> BlockNorm:
        return BlockNorm(self.factors[rows], self.groups.on(rows))


@dataclass(frozen=True, eq=False)
class BlockDirty(OfGroups):
    """What `DirtyNorm` is of the sizes of entries, of the lengths of groups within tasks: min over W = S + B of
    sum_g  lam_s sum_i |(f s_i)_g|_2 + lam_b max_i |(f b_i)_g|_2."""

    lam_s: float
    lam_b: float
    factors: Floats
    groups: Groups

    @property
    def _of_lengths(self) -> DirtyNorm:
        return DirtyNorm(self.lam_s, self.lam_b, np.ones((self.groups.count, self.factors.shape[1])))

    def _lengths(self, W: Floats) -> Floats:
        """(groups, m)"""
        return self.groups.lengths(np.where(np.isfinite(self.factors), self.factors, 0.0) * W)

    def values(self, W: Floats) -> Floats:
        return self._of_lengths.values(self._lengths(W))

    def value(self, W: Floats) -> float:
        return float(self.values(W).sum())

    def dual(self, G: Floats) -> Floats:
        return self._of_lengths.dual(self.groups.lengths(over(G, self.factors)))

    def free(self) -> np.ndarray:
        out: np.ndarray = (self.factors == 0.0) | ((self.lam_s == 0.0) & np.isfinite(self.factors))
        return out

    @property
    def separates(self) -> bool:
        """Whether every task has a norm of its own."""
        return self._of_lengths.separates

    def split(self, W: Floats) -> tuple[Floats, Floats]:
        """S and B (d, m): the group of a task is clipped in its direction (see `DirtyNorm`)."""
        sizes = self._lengths(W)
        share = np.divide(self._of_lengths.split(sizes)[1], sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
        B = np.where((self.factors > 0.0) & np.isfinite(self.factors), share[self.groups.of] * W, 0.0)
        return W - B, B

    def of_rows(self, rows: Ints) -> BlockDirty:
        return BlockDirty(self.lam_s, self.lam_b, self.factors[rows], self.groups.on(rows))
