"""Algorithm 1 as it is often run: every stage by a fixed number of FISTA steps, whether or not they suffice.

Kept as a control. With theta = inf all stages are the same problem, so an exact solver repeats stage 1; here each "stage"
only continues the one before, and the error falls for a reason that has nothing to do with the model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._data.designs import Floats
from ..._objective.penalties import ConcaveRows


def truncated_stages(
    Xs: Sequence[Floats], ys: Sequence[Floats], lam: float, theta: float, *, stages: int, steps: int
) -> list[Floats]:
    """(m, d) coefficients after each stage of `steps` FISTA steps, each stage starting where the last one ended."""
    m, d = len(Xs), Xs[0].shape[1]
    penalty = ConcaveRows(lam, theta, np.ones((d, m)))
    scale = [2.0 / (m * len(y)) for y in ys]
    lipschitz = np.array([c * np.linalg.norm(X, 2) ** 2 for c, X in zip(scale, Xs, strict=True)])[:, None]
    W, out = np.zeros((m, d)), []
    for _ in range(stages):
        weights = penalty.weights(penalty.pattern(W.T)).T
        V, momentum = W, 1.0
        for _ in range(steps):
            G = np.array([c * (X.T @ (X @ v - y)) for c, X, y, v in zip(scale, Xs, ys, V, strict=True)])
            Z = V - G / lipschitz
            new = np.sign(Z) * np.maximum(np.abs(Z) - weights / lipschitz, 0.0)
            later = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            V, W, momentum = new + (momentum - 1.0) / later * (new - W), new, later
        out.append(W)
    return out
