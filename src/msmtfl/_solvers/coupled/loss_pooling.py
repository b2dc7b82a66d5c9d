"""Losses that are not squared, or bounds, in partial pooling: steps around `Pooling`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np

from ..._data.designs import Floats, Ints
from ..._objective.coupled.pooling import PoolingRidge
from ..._objective.problem import Problem
from ..one_level import held_levels, settle_level
from ..problems.level_priors import counted
from ..stages import SETTLED
from .around_bounds import AroundBounds, around, forces_of
from .parabolas import made_grams
from .pooling import PooledFit, Pooling, likely, sizes
from .ridge_step import ridge_step

LIKELY = 50  # times that a strength is found anew for the coefficients that it leads to; it takes about ten
SAME = 1e-9  # relative change of a strength that counts as none

# ------------------------------------------------------------------ ridges only


class Poolings:
    """What solves the last parabolas, for every class; made when it is asked for."""

    def __init__(self, problems: Sequence[Problem]):
        self.problems = problems

    @cached_property
    def of_classes(self) -> list[Pooling]:
        return [Pooling(part) for part in self.problems]

    def degrees(self, k: float, k_common: float) -> Floats:
        """(m,): those of tasks, class after class."""
        return np.ravel([one.degrees(k, k_common) for one in self.of_classes], order="F")


class _OfPooling:
    """b and V with ridges only: all features are always in work."""

    def __init__(self, problem: Problem):
        self.classes, self.width = problem.classes, problem.d
        self.height = problem.m + self.classes
        self.kappa = np.full(problem.m, 2.0 / sum(design.n for design in problem.designs))

    def coefs(self, P: Floats) -> Floats:
        both = P.reshape(len(P) // self.classes, -1)
        return np.reshape(both[0] + both[1:], (-1, P.shape[1]))

    def value(self, penalty: PoolingRidge, P: Floats) -> float:
        return penalty.value(P.ravel())

    def on(self, penalty: PoolingRidge, features: Ints) -> PoolingRidge:
        of_classes = (self.width * np.arange(self.classes)[:, None] + features).ravel()
        return replace(penalty, factors=penalty.factors[of_classes], scales=penalty.scales[of_classes])

    def always(self, penalty: PoolingRidge) -> np.ndarray:
        return np.ones(self.width, dtype=bool)

    def excess(self, penalty: PoolingRidge, G: Floats) -> Floats:
        return np.zeros(G.shape[1])

    def solved(
        self, problem: Problem, penalty: PoolingRidge, P: Floats, aim: Floats, accuracy: float
    ) -> tuple[Floats, Poolings]:
        found, K = np.zeros_like(P), self.classes
        used = Poolings(_of_classes(problem))
        for c, part in enumerate(used.problems):
            both = _at_once(part, penalty.of_class(c, K))
            # what rounding leaves the next step corrects
            b, V = both or used.of_classes[c].one(penalty.k, penalty.k_common, rounds=int(accuracy <= SETTLED))
            found[c], found[K + c :: K] = b, V
        return found, used


def _of_classes(problem: Problem) -> list[Problem]:
    """The problem of every class."""
    K = problem.classes
    return [
        replace(
            problem,
            designs=problem.designs[c::K],
            given_factors=problem.given_factors[:, c::K],
            known_units=problem.units[c::K],
        )
        for c in range(K)
    ]


def _at_once(problem: Problem, penalty: PoolingRidge) -> tuple[Floats, Floats] | None:
    """b and V by systems of the features' size, where ridges are on all of them and samples are not fewer."""
    made = made_grams(problem.designs)
    if made is None or any(len(design.target) < problem.d for design in problem.designs):
        return None
    c = np.array([design.c for design in problem.designs])
    return ridge_step(made, c, penalty.of_deviations, penalty.of_common)


class LossPooling:
    """What `Pooling` is for squared loss without bounds: partial pooling at any strengths, from the strongest on."""

    def __init__(self, problem: Problem):
        self.problem, self.newton = problem, around(problem, _OfPooling(problem))
        self.n = float(sum(design.n for design in problem.designs))
        self.steps, self.rises = 1, np.zeros(problem.classes)  # of the derivative with respect to the level

    @property
    def finished(self) -> bool:
        return bool(self.newton.finished)

    @property
    def forces(self) -> Floats | None:
        """(m, d): multipliers of the bounds at the last solution, if there are any."""
        return forces_of(self.newton)

    def one(self, k: float, k_common: float) -> tuple[Floats, Floats]:
        """b (d,), or (classes, d) of several classes, and V (m, d) at one point. Tasks with one intercept are held there."""
        if not self.problem.has_one_level:
            return self._one(k, k_common)
        found: list[tuple[Floats, Floats]] = []
        levels: list[Floats] = []

        def solve() -> Floats:
            last, self.newton = self.newton.last, around(self.problem, _OfPooling(self.problem))  # of the level now
            self.newton.last = last
            b, V = self._one(k, k_common)
            found.append((b, V))
            levels.append(held_levels(self.problem))
            return np.asarray(np.tile(b, (len(V) // self.problem.classes, 1)) + V)

        settle_level(self.problem.designs, solve, self.problem.classes, self.problem.samples_alike, self.rises)
        if not np.array_equal(levels[-1], held_levels(self.problem)):
            solve()
        return found[-1]

    def _one(self, k: float, k_common: float) -> tuple[Floats, Floats]:
        problem, K = self.problem, self.problem.classes
        factors, scales = problem.wide(problem.factors), np.tile(problem.common_factors, K)
        P, self.steps = self.newton.solve(PoolingRidge(k, k_common, factors, scales, self.n))
        return P[0] if K == 1 else P[:K], P[K:]

    def solve(self, points: Sequence[tuple[float, float]]) -> PooledFit:
        """At pairs (k, k_common): for every k_common from the largest k down."""
        B = np.zeros((len(points), self.problem.classes * self.problem.d))
        W = np.zeros((len(points), self.problem.m, self.problem.d))
        for place in sorted(range(len(points)), key=lambda p: (-points[p][1], -points[p][0])):
            b, V = self.one(*points[place])
            B[place], W[place] = b.ravel(), np.tile(b, (len(V) // self.problem.classes, 1)) + V
        return PooledFit(B, W)

    def degrees(self, k: float, k_common: float) -> Floats:
        """(m,): how much the fitted values of every task follow its own targets, by the parabolas at the solution; as if
        coefficients had no bounds."""
        self.one(k, k_common)
        return np.asarray(_without_bounds(self.newton).degrees(k, k_common))

    def likely(self, k_common: float, samples: float) -> float:
        """The k of the largest marginal likelihood of the targets that the parabolas have at the solution (penalised
        quasi-likelihood), anew with that k until it stays the same. Classes, counts and event times have the noise that
        their distribution says, as in generalised linear mixed models. Bounds have no part in it."""
        if self.problem.loss.squared:
            return Pooling(replace(self.problem, bounds=None, positive=False)).likely(k_common, samples)
        k = sizes(self.problem)[0]
        n, counts = counted(self.problem)
        noise = float(n.sum() / counts.sum()) if self.problem.loss.dispersed else 0.0
        samples -= self.problem.has_one_level  # parabolas are about the level at which tasks are held
        for _ in range(LIKELY):
            self.one(k, k_common)
            if self.newton.inner is None:  # no parabola was solved: no feature tells tasks from each other
                return np.inf
            k, before = likely(_without_bounds(self.newton).of_classes, k_common, samples, noise), k
            if abs(k - before) <= SAME * k or (np.isinf(k) and (np.isinf(before) or np.isinf(k_common))):
                break
        return k


def _without_bounds(newton: Any) -> Poolings:
    """What solved the last parabolas, or would, if coefficients had no bounds."""
    steps = newton if isinstance(newton, AroundBounds) else newton.inner
    if not isinstance(steps, AroundBounds):
        return cast(Poolings, steps)
    return Poolings(_of_classes(replace(steps.problem, bounds=None, positive=False)))


AnyPooling: TypeAlias = Pooling | LossPooling
