"""Bounds of coefficients, low_j <= w_j <= high_j with low_j <= 0 <= high_j, and what they change in optimality conditions.

The penalty a_j |w_j| with bounds has the conjugate max(0, high_j (z - a_j), low_j (z + a_j)): where a coefficient can still
move up, x_j'u may not exceed a_j, and where it is at its upper bound x_j'u may be as large as it likes (and the same
downwards). So a bound is seen only where it is reached; elsewhere dual points are those of a problem without bounds.

A `Limit` is True (w >= 0, which the kernels know), False (no bounds) or a `Box`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .._data.designs import Floats, Ints


@dataclass(frozen=True)
class Box:
    """Lower and upper bounds: (m, d) of all tasks, or (d,) of one."""

    low: Floats
    high: Floats

    def task(self, i: int) -> Box:
        return Box(self.low[i], self.high[i])

    def on(self, features: Ints) -> Box:
        return Box(self.low[..., features], self.high[..., features])

    def less(self, beside: Floats) -> Box:
        """Those of what is added to coefficients that are known."""
        return Box(self.low - beside, self.high - beside)

    def common(self) -> Box:
        """(d,): those of coefficients that are the same in all tasks."""
        return Box(self.low.max(axis=0), self.high.min(axis=0))


Limit: TypeAlias = bool | Box


def of_task(limit: Limit, i: int) -> Limit:
    """That of task i, of one of all tasks."""
    return limit.task(i) if isinstance(limit, Box) else limit


def outward(limit: Limit, W: Floats, G: Floats) -> Floats:
    """How far gradients G reach in the directions in which W can move; -inf where it cannot."""
    if not isinstance(limit, Box):
        return G if limit else np.abs(G)
    up = np.where((limit.high > 0.0) & (limit.high > W), G, -np.inf)
    return np.maximum(up, np.where((limit.low < 0.0) & (limit.low < W), -G, -np.inf))


def breaks(limit: Limit, W: Floats) -> np.ndarray:
    """Where W is out of bounds."""
    if not isinstance(limit, Box):
        return np.asarray(W < 0.0) if limit else np.zeros(W.shape, dtype=bool)
    return np.asarray((limit.low > W) | (limit.high < W))


def pressed(limit: Limit, W: Floats, G: Floats, slack: Floats | float = 0.0) -> np.ndarray:
    """Where W is at a bound and G pushes it outwards by more than a slack."""
    if not isinstance(limit, Box):
        return np.asarray((W <= 0.0) & (-slack >= G)) if limit else np.zeros(W.shape, dtype=bool)
    return np.asarray(((limit.high == W) & (slack < G)) | ((limit.low == W) & (-slack > G)))


def outwards(box: Box, G: Floats) -> Floats:
    """The part of gradients G (minus those of the loss) that would move coefficients that are 0 out of their bounds."""
    return np.where(((box.high == 0.0) & (G > 0.0)) | ((box.low == 0.0) & (G < 0.0)), G, 0.0)


def can_fall(limit: Limit, W: Floats) -> np.ndarray:
    """Where a coefficient may go to infinity."""
    if not isinstance(limit, Box):
        return np.asarray(W > 0.0) if limit else np.ones(W.shape, dtype=bool)
    return np.asarray(np.isinf(limit.low) | np.isinf(limit.high)) & np.ones(W.shape, dtype=bool)
