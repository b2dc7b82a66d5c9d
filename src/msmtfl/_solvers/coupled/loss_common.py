"""Losses that are not squared, bounds, or groups of features, in models with a common part: steps around `StackedLassos`,
and with groups around what solves their norms."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..._data.designs import Floats, Ints
from ..._objective.box import Box
from ..._objective.problem import Problem
from ..lassos.bounded import BoundedLassos
from ..lassos.lasso_solver import OVERRUN, SLID
from ..lassos.proximal_newton import LossLassos
from .around_bounds import around, forces_of, lasso_forces, within
from .block_norms import Ball, BlockNorms, SolvedBlocks, Works
from .common_part import MadeGrams, Stacked, StackedGrams, StackedLassos
from .newton_around import CommonStage, finite, mean_of_tasks
from .parabolas import made_grams

# ------------------------------------------------------------------ a common part


class _Solvers:
    """What has solved the last parabolas, for every class."""

    def __init__(self, of_classes: list[StackedLassos | SolvedBlocks]):
        self.of_classes = of_classes

    @property
    def forces(self) -> Floats | None:
        """(m, d): multipliers of bounds, of all classes beside each other, where features are in groups."""
        parts = [part for part in (getattr(one, "forces", None) for one in self.of_classes) if part is not None]
        return np.stack(parts, axis=1).reshape(-1, parts[0].shape[1]) if parts else None

    @property
    def steps(self) -> int:
        return max(getattr(one, "steps", 1) for one in self.of_classes)

    @property
    def slid(self) -> bool:
        return any(one.slid for one in self.of_classes)

    @property
    def finished(self) -> bool:
        return all(one.finished for one in self.of_classes)


class _OfCommon:
    """b and V with W = b + V, of every class; a penalty is weights and ridges (p,) on the scale of `StackedLassos`."""

    def __init__(self, problem: Problem, n_jobs: int | None):
        self.m, self.classes, self.n_jobs = problem.m, problem.classes, n_jobs
        self.height = self.m + self.classes
        self.kappa = mean_of_tasks(problem.designs)
        self.works = None if problem.groups is None else Works(problem)
        self.pressed: dict[int, Floats] = {}  # (tasks, d): multipliers of bounds at the last solution, by class

    def coefs(self, P: Floats) -> Floats:
        parts = P.reshape(self.m // self.classes + 1, -1)
        return np.reshape(parts[0] + parts[1:], (self.m, -1))

    def value(self, penalty: CommonStage, P: Floats) -> float:
        a, ridge, groups = penalty
        sizes = finite(a, np.abs(P))
        out = float((sizes if groups is None else groups.lengths(sizes.T)).sum())
        out += 0.0 if ridge is None else 0.5 * float(np.sum(ridge * P**2))
        return 2.0 * out / self.m

    def on(self, penalty: CommonStage, features: Ints) -> CommonStage:
        a, ridge, groups = penalty
        ridge = None if ridge is None else np.ascontiguousarray(ridge[:, features])
        return a[:, features], ridge, None if groups is None else groups.on(features)

    def always(self, penalty: CommonStage) -> np.ndarray:
        return np.asarray((penalty[0] == 0.0).any(axis=0))

    def excess(self, penalty: CommonStage, G: Floats) -> Floats:
        of_b = G.reshape(-1, self.classes, G.shape[1]).sum(axis=0)
        sizes = 0.5 * self.m * np.abs(np.vstack([of_b, G]))
        bound, groups = penalty[0], penalty[2]
        out = np.divide(sizes, bound, out=np.zeros_like(sizes), where=bound > 0.0)
        if groups is not None:
            out = groups.lengths(out.T)[groups.of].T
        return np.asarray(out.max(axis=0))

    def solved(
        self, problem: Problem, penalty: CommonStage, P: Floats, aim: Floats, accuracy: float
    ) -> tuple[Floats, _Solvers]:
        found, K = np.empty_like(P), self.classes
        used: list[StackedLassos | SolvedBlocks] = []
        a, start, near = (self._by_class(x) for x in (penalty[0], P, aim))
        ridge = None if penalty[1] is None else self._by_class(penalty[1])
        groups = penalty[2]
        for c, out in enumerate(self._by_class(found)):
            designs = problem.designs[c::K]
            if groups is not None and self.works is not None:
                kappa, scale = self.kappa[c::K], 2.0 / self.m
                of_ridge = None if ridge is None else scale * ridge[c]
                works = self.works.of(problem)[c::K]
                box = None if problem.box is None else Box(problem.box.low[c::K], problem.box.high[c::K])
                blocks = BlockNorms(designs, works, kappa, scale * a[c], groups, Ball(), of_ridge, box)
                out[:], steps = blocks.run(start[c], pressed=self.pressed.get(c))
                if blocks.forces is not None:
                    self.pressed[c] = blocks.forces
                used.append(SolvedBlocks(steps, blocks.finished, blocks.forces))
                continue
            made = made_grams(designs)
            grams = StackedGrams(designs, n_jobs=self.n_jobs) if made is None else MadeGrams(designs, made, self.n_jobs)
            lassos = StackedLassos(grams, units=problem.units[c::K], n_jobs=self.n_jobs)
            lassos.at(None if ridge is None else ridge[c].ravel())
            lassos.warm(start[c].ravel())
            out[:] = lassos.solve(a[c].ravel(), near[c].ravel())[0].reshape(out.shape)
            used.append(lassos)
        return found, _Solvers(used)

    def _by_class(self, x: Floats) -> Floats:
        """(classes, tasks + 1, d): points (height, d), b first, of every class by itself."""
        return x.reshape(-1, self.classes, x.shape[1]).swapaxes(0, 1)


class LossGrams:
    """What `StackedGrams` is for squared loss: there is nothing to keep but how tasks are put together."""

    weighed = None

    def __init__(self, problem: Problem):
        self.stacked = Stacked(problem.designs, problem.classes)

    def fetched_at_once(self) -> bool:
        return True


class LossCommon:
    """What `StackedLassos` is for squared loss without bounds: the problem in (b, V); points P are (p,)."""

    def __init__(self, problem: Problem, grams: LossGrams | None = None, n_jobs: int | None = None):
        self.problem, self.grams = problem, LossGrams(problem) if grams is None else grams
        self.stacked = self.grams.stacked
        self.newton = around(problem, _OfCommon(problem, n_jobs))
        self.ridge: Floats | None = None
        self.solver: Any = None
        self.n_jobs = n_jobs
        self.lassos: Any = None  # what has solved the last problem, if nothing was in common
        self.weights: Floats | None = None  # of these lassos

    @property
    def finished(self) -> bool:
        return bool(self.newton.finished)

    @property
    def forces(self) -> Floats | None:
        """(m, d): multipliers of the bounds at the last solution, if there are any."""
        if self.lassos is not None and self.weights is not None:
            return lasso_forces(self.problem, 0.0, self.lassos.last, self.weights)
        return forces_of(self.newton)

    @property
    def slid(self) -> bool:
        if self.lassos is not None:
            return bool((self.lassos.status & SLID).any())
        inner = self.newton.inner
        return bool(inner is not None and getattr(inner, "inner", inner).slid)

    def at(self, ridge: Floats | None) -> None:
        """Have this ridge (p,), in sums, from the next solve on."""
        self.ridge = self.ridge if ridge is None else ridge

    def warm(self, P: Floats) -> None:
        """Start the next solve from P instead of from the last solution."""
        self.newton.last = within(self.problem, np.reshape(P, self.newton.last.shape).copy())
        self.lassos = None

    def solve(self, a: Floats, reference: Floats | None = None, max_iter: int = 0) -> tuple[Floats, int]:
        """P for the weights a (p,), in sums; and the Newton steps."""
        shape = self.newton.last.shape
        ridge = None if self.ridge is None else self.ridge.reshape(shape)
        aim = None if reference is None else reference.reshape(shape)
        self.solver = self.newton
        groups = self.problem.groups
        if ridge is None and groups is None and self._nothing_in_common(a.reshape(shape)):
            return self._apart(a.reshape(shape), aim, max_iter)
        self.lassos = None
        P, steps = self.newton.solve((a.reshape(shape), ridge, groups), aim, max_iter)
        return P.ravel(), steps

    def _nothing_in_common(self, a: Floats) -> bool:
        """Whether no feature can gain by a common part (see `StackedLassos`)."""
        K = self.problem.classes
        of_tasks = np.where(self.problem.learnable, a[K:], 0.0).reshape(-1, K, a.shape[1]).sum(axis=0)
        return bool((a[:K] >= of_tasks * (1.0 - 1e-12)).all())

    def _apart(self, a: Floats, aim: Floats | None, max_iter: int) -> tuple[Floats, int]:
        """The same where there is nothing in common: every task on its own."""
        problem, K = self.problem, self.problem.classes
        if self.lassos is None:
            more: dict[str, Any] = {"units": problem.units, "n_jobs": self.n_jobs}
            box = problem.box
            self.lassos = (
                LossLassos(problem.designs, **more) if box is None else BoundedLassos(problem.designs, box, **more)
            )
            self.lassos.warm(self.newton.form.coefs(self.newton.last))
        n = np.array([design.n for design in problem.designs])
        weights = self.weights = a[K:] * n[:, None]
        W, steps = self.lassos.solve(weights, None if aim is None else self.newton.form.coefs(aim), max_iter)
        P = np.concatenate([np.zeros((K, problem.d)), W])
        self.newton.last, self.newton.finished = P, not (self.lassos.status & OVERRUN).any()
        return P.ravel(), int(steps.max())


CommonGrams: TypeAlias = StackedGrams | LossGrams
CommonSolver: TypeAlias = StackedLassos | LossCommon
