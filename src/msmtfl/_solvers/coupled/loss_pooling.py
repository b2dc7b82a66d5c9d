"""Losses that are not squared, or bounds, in partial pooling: steps around `Pooling`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

import numpy as np

from ..._data.designs import Floats, Ints
from ..._objective.pooling import PoolingRidge
from ..._objective.problem import Problem
from ..stages import SETTLED
from .around_bounds import AroundBounds, around, forces_of
from .newton_around import LIKELY
from .pooling import PooledFit, Pooling, sizes

# ------------------------------------------------------------------ ridges only


class _OfPooling:
    """b and V with ridges only: all features are always in work."""

    def __init__(self, problem: Problem):
        self.height = problem.m + 1
        self.kappa = np.full(problem.m, 2.0 / sum(design.n for design in problem.designs))

    def coefs(self, P: Floats) -> Floats:
        return np.asarray(P[0] + P[1:])

    def value(self, penalty: PoolingRidge, P: Floats) -> float:
        return penalty.value(P.ravel())

    def on(self, penalty: PoolingRidge, features: Ints) -> PoolingRidge:
        return replace(penalty, factors=penalty.factors[features], scales=penalty.scales[features])

    def always(self, penalty: PoolingRidge) -> np.ndarray:
        return np.ones(len(penalty.scales), dtype=bool)

    def excess(self, penalty: PoolingRidge, G: Floats) -> Floats:
        return np.zeros(G.shape[1])

    def solved(
        self, problem: Problem, penalty: PoolingRidge, P: Floats, aim: Floats, accuracy: float
    ) -> tuple[Floats, Pooling]:
        pooling = Pooling(problem)
        # what rounding leaves the next step corrects
        b, V = pooling.one(penalty.k, penalty.k_common, rounds=int(accuracy <= SETTLED))
        return np.vstack([b, V]), pooling


class LossPooling:
    """What `Pooling` is for squared loss without bounds: partial pooling at any strengths, from the strongest on."""

    def __init__(self, problem: Problem):
        self.problem, self.newton = problem, around(problem, _OfPooling(problem))
        self.n = float(sum(design.n for design in problem.designs))
        self.steps = 1

    @property
    def finished(self) -> bool:
        return bool(self.newton.finished)

    @property
    def forces(self) -> Floats | None:
        """(m, d): multipliers of the bounds at the last solution, if there are any."""
        return forces_of(self.newton)

    def one(self, k: float, k_common: float) -> tuple[Floats, Floats]:
        """b (d,) and V (m, d) at one point."""
        problem = self.problem
        P, self.steps = self.newton.solve(PoolingRidge(k, k_common, problem.factors, problem.common_factors, self.n))
        return P[0], P[1:]

    def solve(self, points: Sequence[tuple[float, float]]) -> PooledFit:
        """At pairs (k, k_common): for every k_common from the largest k down."""
        B = np.zeros((len(points), self.problem.d))
        W = np.zeros((len(points), self.problem.m, self.problem.d))
        for place in sorted(range(len(points)), key=lambda p: (-points[p][1], -points[p][0])):
            b, V = self.one(*points[place])
            B[place], W[place] = b, b + V
        return PooledFit(B, W)

    def degrees(self, k: float, k_common: float) -> Floats:
        """(m,): how much the fitted values of every task follow its own targets, by the parabolas at the solution; as if
        coefficients had no bounds."""
        self.one(k, k_common)
        return np.asarray(_without_bounds(self.newton).degrees(k, k_common))

    def likely(self, k_common: float, samples: float) -> float:
        """The k of the largest marginal likelihood of the targets that the parabolas have at the solution (penalised
        quasi-likelihood), a few times anew with that k. Bounds have no part in it."""
        if self.problem.loss.squared:
            return _without_bounds(self.newton).likely(k_common, samples)
        k = sizes(self.problem)[0]
        for _ in range(LIKELY):
            self.one(k, k_common)
            if self.newton.inner is None:  # no parabola was solved: no feature tells tasks from each other
                return np.inf
            k, before = float(_without_bounds(self.newton).likely(k_common, samples)), k
            if k == before or (np.isinf(k) and np.isinf(k_common)):
                break
        return k


def _without_bounds(newton: Any) -> Pooling:
    """What solved the last parabolas, or would, if coefficients had no bounds."""
    around = newton if isinstance(newton, AroundBounds) else newton.inner
    if isinstance(around, AroundBounds):
        return Pooling(replace(around.problem, bounds=None, positive=False))
    return cast(Pooling, around)


AnyPooling: TypeAlias = Pooling | LossPooling
