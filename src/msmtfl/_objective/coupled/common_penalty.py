"""The penalty of models that share values: w_i = b + v_i, with a common part b and deviations v_i.

    lam_common sum_j |b_j|  +  lam_deviation sum_j min(sum_i f_ji |v_ji|, theta)

A point is P (p, 1), p = (m + 1) d: b first, then v_1 to v_m. Only the sum W = b + V has an effect on the fit, so a stage's
penalty is a norm of every row of W, `SharedNorm`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..._data.designs import Floats, Ints
from ..penalties import bent
from .groups import Groups, OfGroups
from .row_norms import OfRows, counted

FLAT = 1e-9  # slope of a row's norm along b, relatively, that counts as none


@dataclass(frozen=True)
class SharedNorm(OfRows):
    """min_b  c_j |b| + a_j sum_i f_ji |w_ji - b|  for every row w^j of W, with a, c (d,) in [0, inf] and factors f (d, m).

    Its dual norm is the larger of max_i |p_i| / (a f_i) and |sum_i p_i| / c. a = 0: the row is free; a = inf: all its
    entries are equal; c = inf, or c >= a sum_i f_i: b = 0, the lasso.
    """

    a: Floats
    c: Floats
    factors: Floats

    @cached_property
    def deviation(self) -> Floats:
        """(d, m): the weights of |w_ji - b|; 0 in rows that are excluded."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(self.factors) & (self.factors > 0), self.a[:, None] * self.factors, 0.0)

    def weights(self) -> Floats:
        """(p,): the same as weights of a lasso in b and V."""
        excluded = np.isinf(self.factors)
        return np.concatenate(
            [np.where(excluded.all(axis=1), np.inf, self.c), np.where(excluded, np.inf, self.deviation).T.ravel()]
        )

    def common(self, W: Floats) -> Floats:
        """(d,): the b of smallest size that attains the minimum for W (d, m)."""
        up, down = (_lowest(side * W, self.deviation, self.c) for side in (1.0, -1.0))
        return up - down

    def common_of_sign(self, W: Floats, sign: Floats) -> Floats:
        """(d,): the same, of which the sign (d,) is known, unless it is 0."""
        return sign * _lowest(sign[:, None] * W, self.deviation, self.c)

    def is_lowest(self, W: Floats, b: Floats) -> np.ndarray:
        """(d,) bool: whether b (d,), nowhere 0, is certainly the same as `common_of_sign`: the sum falls up to b, and no
        further. Where deviations have no bound on their weights, that is left open."""
        A, size = self.deviation, np.abs(b)[:, None]
        beyond = np.sign(b)[:, None] * W - size
        with np.errstate(invalid="ignore"):
            slack = -FLAT * (A.sum(axis=1) + self.c)
            left = self.c + (A * np.where(beyond < 0.0, 1.0, -1.0)).sum(axis=1)
            return np.asarray((left < slack) & (left + 2.0 * (A * (beyond == 0.0)).sum(axis=1) >= slack))

    def values(self, W: Floats) -> Floats:
        b = self.common(W)
        out: Floats = _times(self.c, b) + _times(self.deviation, W - b[:, None]).sum(axis=1)
        return out

    def value(self, W: Floats) -> float:
        return float(self.values(W).sum())

    def dual(self, G: Floats) -> Floats:
        G = np.where(self.deviation > 0, G, 0.0)
        apart = np.divide(np.abs(G), self.deviation, out=np.zeros_like(G), where=self.deviation > 0)
        together = np.divide(np.abs(G.sum(axis=1)), self.c, out=np.zeros(len(G)), where=self.c > 0)
        out: Floats = np.maximum(apart.max(axis=1, initial=0.0), together)
        return out

    def free(self) -> np.ndarray:
        out: np.ndarray = ((self.a == 0.0)[:, None] | (self.factors == 0.0)) & np.isfinite(self.factors)
        return out

    def of_rows(self, rows: Ints) -> SharedNorm:
        return SharedNorm(self.a[rows], self.c[rows], self.factors[rows])

    def at(self, P: Floats) -> SharedNorm:
        """The norm with what the common part of P (p,) says of it."""
        return self

    def of_class(self, c: int, classes: int) -> SharedNorm:
        """The norm of a class alone, whose losses count as many times as there are classes."""
        part = self.of_rows(np.arange(len(self.c)).reshape(classes, -1)[c])
        return SharedNorm(classes * part.a, classes * part.c, part.factors)


@dataclass(frozen=True, eq=False)
class SharedBlocks(OfGroups, SharedNorm):
    """What `SharedNorm` is of rows, of groups: c |(s b)_g|_2 + a sum_i |(f (w_i - b))_g|_2 for every group g, c and a being
    weights (d,) that hold s. The best b of groups has no closed form: `common` (d,) is one that a solver has found, and
    values are those with it, which are never below the norm's."""

    groups: Groups
    common_part: Floats

    def values(self, W: Floats) -> Floats:
        b = self.common_part[:, None]
        apart = np.multiply(self.deviation, W - b, out=np.zeros_like(W), where=b != W)
        together = np.multiply(self.c[:, None], b, out=np.zeros_like(b), where=b != 0.0)
        return np.asarray(self.groups.lengths(together)[:, 0] + self.groups.lengths(apart).sum(axis=1))

    def dual(self, G: Floats) -> Floats:
        G = np.where(self.deviation > 0.0, G, 0.0)
        apart = self.groups.lengths(np.divide(G, self.deviation, out=np.zeros_like(G), where=self.deviation > 0.0))
        total, c = G.sum(axis=1, keepdims=True), self.c[:, None]
        together = self.groups.lengths(np.divide(total, c, out=np.zeros_like(total), where=c > 0.0))
        return np.asarray(np.maximum(apart.max(axis=1, initial=0.0), together[:, 0]))

    def at(self, P: Floats) -> SharedBlocks:
        return replace(self, common_part=P.ravel()[: len(self.c)])

    def of_rows(self, rows: Ints) -> SharedBlocks:
        of_rows = self.a[rows], self.c[rows], self.factors[rows]
        return SharedBlocks(*of_rows, self.groups.on(rows), self.common_part[rows])

    def of_class(self, c: int, classes: int) -> SharedBlocks:
        part = self.of_rows(np.arange(len(self.c)).reshape(classes, -1)[c])
        return replace(part, a=classes * part.a, c=classes * part.c)


def common_weights(lam: float, scales: Floats) -> Floats:
    """(d,): those of |b_j|; 0 for a feature that is not penalised, even if lam is inf."""
    return np.multiply(lam, scales, out=np.zeros_like(scales), where=scales != 0.0)


def _times(weights: Floats, x: Floats) -> Floats:
    """weights |x|, 0 where x is, whatever the weight."""
    return np.multiply(weights, np.abs(x), out=np.zeros_like(x), where=x != 0.0)


def _lowest(W: Floats, A: Floats, c: Floats) -> Floats:
    """(d,): the smallest t >= 0 from which c t + sum_i a_i |w_i - t| no longer falls."""
    order = np.argsort(W, axis=1, kind="stable")
    W, A = np.take_along_axis(W, order, 1), np.take_along_axis(A, order, 1)
    equal = np.isinf(A).any(axis=1)  # w is the same in all entries that count
    A = np.where(np.isinf(A), 1.0, A)
    total = A.sum(axis=1, keepdims=True)
    c = np.where(equal, 0.0, c)[:, None]
    slopes = c + 2.0 * np.cumsum(A, axis=1) - total  # just above each of the w_i
    at_zero = c + 2.0 * np.where(W <= 0.0, A, 0.0).sum(axis=1, keepdims=True) - total
    slack = -FLAT * (total + np.where(np.isinf(c), 0.0, c))
    places = np.where((slopes >= slack) & (W > 0.0), W, np.inf).min(axis=1, initial=np.inf)
    return np.where((at_zero[:, 0] >= slack[:, 0]) | np.isinf(places), 0.0, places)


@dataclass(frozen=True)
class CappedDeviations:
    """lam_common sum_j s_j |b_j| + lam_deviation sum_j min(h_j, theta), h_j = sum_i f_ji |v_ji|; of the lams one may be inf.

    Of several classes, each against the rest, features of each count by themselves: d is that of all classes together.
    factors f is (d, m), scales s is (d,); inf excludes a feature, 0 leaves it un-penalised (in V; b is 0). With an l1_ratio
    below 1 these norms have that share of the strengths, and the rest is a ridge (`ridge`). With groups of features the
    sizes of b_j and v_ji are l2 norms of the features of a group, whose factors and scales hold the root of its size.
    """

    structure: ClassVar[str] = "common"

    lam_common: float
    lam_deviation: float
    theta: float
    factors: Floats
    scales: Floats
    l1_ratio: float = 1.0
    classes: int = 1
    groups: Groups | None = field(default=None, kw_only=True)  # of the features of all classes, if there are any

    @property
    def convex(self) -> bool:
        return bool(np.isinf(self.theta) or np.isinf(self.lam_deviation))

    @property
    def problems(self) -> int:
        """One for every task and class."""
        return int(self.factors.shape[1]) * self.classes

    def parts(self, P: Floats) -> tuple[Floats, Floats]:
        """b (d,) and V (d, m) of P (p, 1)."""
        parts = P.reshape(-1, len(self.scales))
        return parts[0], parts[1:].T

    def norms(self, P: Floats) -> Floats:
        """(groups,): the norms h of the deviations of all groups; of all rows, where there are none."""
        sizes = counted(self.factors) * np.abs(self.parts(P)[1])
        return np.asarray((sizes if self.groups is None else self.groups.lengths(sizes)).sum(axis=1))

    def row_norms(self, P: Floats) -> Floats:
        """(d,): of a row in a group, the group's."""
        norms = self.norms(P)
        return norms if self.groups is None else norms[self.groups.of]

    def value(self, P: Floats) -> float:
        sizes = _times(common_weights(self._left(self.lam_common), self.scales), self.parts(P)[0])
        common = sizes.sum() if self.groups is None else self.groups.lengths(sizes[:, None]).sum()
        capped = np.minimum(self.norms(P), self.theta)
        return float(common + _times(np.full_like(capped, self._left(self.lam_deviation)), capped).sum())

    def _left(self, lam: float) -> float:
        """What is left of a strength for the norm."""
        return lam if np.isinf(lam) else self.l1_ratio * lam

    def ridge(self) -> Floats | None:
        """(p,): half the number of problems times the second derivatives of the ridge in b and V, if there is one; 0 where
        these are 0 anyway."""
        if self.l1_ratio == 1.0:
            return None
        of_b, of_v = counted(self.scales), counted(self.factors)
        if self.groups is not None:  # a ridge is one of single coefficients
            of_b, of_v = of_b / self.groups.scale, of_v / self.groups.scale[:, None]
        common, deviation = (0.0 if np.isinf(lam) else lam for lam in (self.lam_common, self.lam_deviation))
        return np.asarray(
            0.5
            * self.problems
            * (1.0 - self.l1_ratio)
            * np.concatenate([common * of_b**2, (deviation * of_v**2).T.ravel()])
        )

    def ridge_value(self, P: Floats) -> float:
        """What the ridge adds to the objective at P (p,)."""
        ridge = self.ridge()
        return 0.0 if ridge is None else float(ridge @ P**2 / self.problems)

    def pattern(self, P: Floats) -> np.ndarray:
        """(2, p): rows whose deviations are capped, and 0."""
        if np.isinf(self.theta):
            return np.empty((2, 0))
        return bent(np.where(self.row_norms(P) >= self.theta, 0.0, 1.0))

    def row_slopes(self, pattern: np.ndarray) -> Floats:
        out = np.ones(len(self.scales))
        if pattern.size:
            out[pattern[0].astype(np.intp)] = 0.0
        return out

    def weights(self, pattern: np.ndarray) -> SharedNorm:
        a = np.full(len(self.scales), self._left(self.lam_deviation))
        if pattern.size:
            a[pattern[0].astype(np.intp)] = 0.0
        known = a, common_weights(self._left(self.lam_common), self.scales), self.factors
        return SharedNorm(*known) if self.groups is None else SharedBlocks(*known, self.groups, np.zeros(len(a)))

    def free_rows(self, pattern: np.ndarray) -> Ints:
        if pattern.size == 0:
            return np.empty(0, dtype=np.intp)
        rows = np.flatnonzero(self.row_slopes(pattern) == 0.0)
        counts = (self.factors[rows] > 0) & np.isfinite(self.factors[rows])
        return rows[counts.any(axis=1)]
