"""What tasks under squared loss are without their priors, and what the priors are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._data.forms.level_rows import LevelTask
from ..._objective.problem import Problem


def gather(problem: Problem, keeps: Sequence[np.ndarray | int], n_jobs: int | None = None) -> None:
    """Prepare for `training` with each of `keeps`."""
    if problem.loss.squared:
        problem.data.gather(without_priors(problem.designs), keeps, n_jobs)


def release(problem: Problem) -> None:
    """Forget what can be formed again."""
    if problem.loss.squared:
        problem.data.release(without_priors(problem.designs))
        for design in problem.designs:
            if isinstance(design, LevelTask):
                design.x.whole = None


def common_levels(problem: Problem) -> tuple[Any, Floats, Any] | None:
    """The common level, the point where it is one, and how strongly levels are drawn to it, if they are; of classes against
    the rest arrays of these."""
    priors: list[Any] = [
        getattr(design, "prior", None) for design in problem.designs[: getattr(problem.data, "classes", 1)]
    ]
    if priors[0] is None:
        return None
    levels, ridges = np.array([one.level for one in priors]), np.array([one.ridge for one in priors])
    single = len(priors) == 1
    return float(levels[0]) if single else levels, priors[0].at, float(ridges[0]) if single else ridges


def without_priors(designs: Sequence[Any]) -> list[Any]:
    """Tasks under squared loss as they are without a prior."""
    return [design.part if isinstance(design, LevelTask) else design for design in designs]
