"""What solves the weighted lassos of a problem's tasks, whatever the loss and the constraints: `lassos_for` makes it."""

from __future__ import annotations

from typing import Any

from .._objective.problem import Problem
from .coupled.bounded_groups import BoundedGroupedLassos
from .lassos.bounded import BoundedLassos
from .lassos.class_lassos import ClassLassos
from .lassos.grouped import GroupedLassos
from .lassos.proximal_newton import LossLassos
from .lassos.task_solver import Caches
from .lassos.weighted_lasso import Lassos
from .one_level import AtBestLevel


def lassos_for(
    problem: Problem,
    grams: Caches | None = None,
    n_jobs: int | None = None,
    careful: bool = False,
    search: bool = False,
) -> Any:
    """The weighted lassos of a problem's tasks. In a `search` those that have no minimiser are not solved."""
    if problem.classes_together:
        return ClassLassos(problem, n_jobs, search)
    if problem.has_one_level:
        return AtBestLevel(problem, lambda: lassos_at_level(problem, None, n_jobs, careful, search))
    return lassos_at_level(problem, grams, n_jobs, careful, search)


def lassos_at_level(
    problem: Problem,
    grams: Caches | None = None,
    n_jobs: int | None = None,
    careful: bool = False,
    search: bool = False,
) -> Any:
    """The weighted lassos of tasks that have levels of their own, or are held at one that they have in common."""
    if problem.groups is not None and problem.box is not None:
        return BoundedGroupedLassos(problem, problem.groups, n_jobs, search)
    if problem.groups is not None:
        return GroupedLassos(
            problem.designs,
            problem.groups,
            units=problem.units,
            grams=grams,
            ridge=problem.unit_ridge,
            n_jobs=n_jobs,
            problem=problem if search and problem.may_escape else None,
        )
    if problem.bounds is not None:
        return BoundedLassos(
            problem.designs, problem.bounds, units=problem.units, ridge=problem.unit_ridge, n_jobs=n_jobs
        )
    if not problem.loss.squared:
        options: dict[str, Any] = {"positive": problem.positive, "units": problem.units, "n_jobs": n_jobs}
        options["ridge"] = problem.unit_ridge
        return LossLassos(problem.designs, **options, problem=problem if search and problem.may_escape else None)
    return Lassos(
        problem.designs,
        positive=problem.positive,
        units=problem.units,
        grams=grams,
        careful=careful,
        ridge=problem.unit_ridge,
        n_jobs=n_jobs,
    )
