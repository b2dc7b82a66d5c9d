"""Groups of features that enter or leave a task together, with bounds on their coefficients: the weighted group lassos of
MSMTFL's stages. Every task is a problem by itself, with a norm of groups and springs at its bounds (`around_bounds.py`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._objective.coupled.groups import BlockNorm, BoundedGroups, Groups
from ..._objective.problem import Problem
from ..lassos.bounded import STEPS
from ..lassos.grouped import GroupedLassos
from .around_bounds import around, within
from .rows.loss_rows import OfRows


class BoundedGroupedLassos(GroupedLassos):
    """What `GroupedLassos` are without bounds (a `LassoSolver`)."""

    def __init__(self, problem: Problem, groups: Groups, n_jobs: int | None = None, search: bool = False):
        known = problem if search and problem.may_escape else None
        of_problem: dict[str, Any] = {"units": problem.units, "ridge": problem.unit_ridge, "n_jobs": n_jobs}
        of_problem["problem"] = known
        super().__init__(problem.designs, groups, **of_problem)
        box = problem.box
        assert box is not None
        self.parts = [
            replace(
                problem,
                designs=[design],
                given_factors=problem.given_factors[:, [i]],
                known_units=problem.units[[i]],
                known_common=problem.common_factors,
                bounds=type(box)(box.low[[i]], box.high[[i]]),
                positive=False,
            )
            for i, design in enumerate(problem.designs)
        ]
        self.around: list[Any] = [around(part, OfRows(part, None)) for part in self.parts]
        self.limits = [BoundedGroups(groups, box.task(i)) for i in range(self.m)]

    def limit(self, i: int) -> BoundedGroups:
        return self.limits[i]

    def _run(self, i: int, a: Floats, start: Floats, most: int) -> tuple[Floats, int, bool]:
        solver, part = self.around[i], self.parts[i]
        solver.last = within(part, np.where(np.isfinite(a), start, 0.0)[None])
        norm = BlockNorm((2.0 / part.designs[0].n * a)[:, None], self.groups)
        ridge = None if self.ridge is None else self.lam * self.ridge[[i]]
        W, steps = solver.solve((norm, ridge), max_iter=0 if most == STEPS else most)
        return np.asarray(W[0]), int(steps), bool(solver.finished)
