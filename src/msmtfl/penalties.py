"""Concave penalties: the value, and the weights of the next stage. All that Algorithm 1 needs to know.

A penalty is linearised at the current W: the stage that follows is a weighted lasso with a (d, m) matrix
of weights. Weights of capped penalties take finitely many values, so two stages are the same exactly
when their weight matrices are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .designs import Floats, Ints


class Penalty(Protocol):
    """A concave function of |W|. W has shape (d, m)."""

    def value(self, W: Floats) -> float:
        """The penalty at W."""

    def weights(self, W: Floats) -> Floats:
        """Weights (d, m) of the lasso that majorises the penalty at W."""

    def free_rows(self, weights: Floats) -> Ints:
        """The rows that a stage with these weights leaves un-penalised."""


@dataclass(frozen=True)
class CappedRows:
    """The paper's penalty  lam * sum_j min(h_j, theta),  h_j = sum_i f_ji |w_ji|  (capped-l1,l1).

    factors is (d, m): 0 leaves a cell out of norm and cap, inf excludes it (its coefficient is 0).
    theta = inf is the lasso.
    """

    lam: float
    theta: float
    factors: Floats

    def row_norms(self, W: Floats) -> Floats:
        finite = np.where(np.isinf(self.factors), 0.0, self.factors)
        return np.asarray((finite * np.abs(W)).sum(axis=1))

    def value(self, W: Floats) -> float:
        return float(self.lam * np.minimum(self.row_norms(W), self.theta).sum())

    def weights(self, W: Floats) -> Floats:
        penalised = self.row_norms(W) < self.theta  # strict, as in Algorithm 1
        out = np.where(penalised[:, None], self.lam * self.factors, 0.0)
        out[np.isinf(self.factors)] = np.inf
        return out

    def free_rows(self, weights: Floats) -> Ints:
        counted = (self.factors > 0) & np.isfinite(self.factors)
        return np.flatnonzero(counted.any(axis=1) & ~(counted & (weights > 0)).any(axis=1))
