"""Concave penalties: the value, and the weights of the next stage. All that Algorithm 1 needs to know.

A penalty is linearised at the current W: the stage that follows is a weighted lasso with a (d, m) matrix of weights. What
decides these weights is the penalty's pattern at W: for capped penalties the d bits that say which rows are capped. Two
stages are the same exactly when their patterns are equal.
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

    def pattern(self, W: Floats) -> np.ndarray:
        """What the next stage depends on."""

    def weights(self, pattern: np.ndarray) -> Floats:
        """Weights (d, m) of the lasso that majorises the penalty wherever it has this pattern."""

    def free_rows(self, pattern: np.ndarray) -> Ints:
        """The rows that a stage with this pattern leaves un-penalised."""


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
        factors = np.where(np.isinf(self.factors), 0.0, self.factors) if self._excludes else self.factors
        return np.asarray((factors * np.abs(W)).sum(axis=1))

    @property
    def _excludes(self) -> bool:
        return bool(np.isinf(self.factors.max(initial=0.0)))

    def value(self, W: Floats) -> float:
        return float(self.lam * np.minimum(self.row_norms(W), self.theta).sum())

    def pattern(self, W: Floats) -> np.ndarray:
        """(d,) bool: capped rows."""
        return self.row_norms(W) >= self.theta  # with equality, as in Algorithm 1

    def weights(self, pattern: np.ndarray) -> Floats:
        out = np.where(pattern[:, None], 0.0, self.lam * self.factors)
        if self._excludes:
            out[np.isinf(self.factors)] = np.inf
        return out

    def free_rows(self, pattern: np.ndarray) -> Ints:
        rows = np.flatnonzero(pattern)
        counted = (self.factors[rows] > 0) & np.isfinite(self.factors[rows])
        return rows[counted.any(axis=1)]
