"""Solutions in which a row is a feature of a class, each against the rest, about the features themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..._objective.problem import Problem
from ..._solvers.stages import Solution


def of_features(solution: Solution, problem: Problem) -> Solution:
    """A feature is free where it is in some class."""
    K, d = problem.classes, problem.d
    if K == 1 or len(solution.row_slopes) == d:
        return solution
    stages = tuple(replace(stage, free_rows=np.unique(stage.free_rows % d)) for stage in solution.stages)
    free = solution.free.T.reshape(problem.m, d).T
    return replace(solution, stages=stages, free=free, row_slopes=solution.row_slopes.reshape(K, d).min(axis=0))
