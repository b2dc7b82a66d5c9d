"""What solves a problem: `solver_for` makes the solver of its stages. No solver is made of a problem anywhere else, but for
its weighted lassos (`task_lassos.py`).

The convex problem of a stage has one of seven structures, which the penalty names: weighted lassos ("lassos"), a norm of
every row ("rows"), a part that is common to all tasks ("common"), or that with ridges only ("pooling"), or with a norm of
every task's deviations ("robust"), or parts by level ("levels"); one more task beside others has that of its coefficients
given theirs ("given"). Where the loss is not squared, the first has a solver of its own; the others are solved by Newton
steps around theirs (`coupled/newton_around.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

from .._data.designs import Floats
from .._objective.coupled.common_penalty import CappedDeviations, SharedNorm
from .._objective.coupled.level_penalty import LevelPenalty, certify_levels
from .._objective.coupled.pooling import PoolingRidge
from .._objective.coupled.row_norms import RowNorm
from .._objective.coupled.task_norms import certify_task_norms
from .._objective.penalties import Penalty
from .._objective.problem import Problem
from .._objective.proofs.pressed import pressed
from .class_stages import ClassStages
from .coupled.common_part import Stacked, StackedGrams, StackedLassos
from .coupled.loss_common import CommonGrams, CommonSolver, LossCommon, LossGrams
from .coupled.loss_pooling import AnyPooling, LossPooling
from .coupled.loss_task_norms import AnyTaskNorms, LossTaskNorms
from .coupled.pooling import Pooling
from .coupled.rows.coupled_rows import CoupledRows
from .coupled.rows.given_rows import GivenStages
from .coupled.rows.loss_rows import LossRows
from .coupled.task_levels import AnyLevels, LevelGrams, LevelSolver, LossLevels
from .coupled.task_norms import TaskNormSolver
from .coupled_stages import (
    CommonStages,
    PointStages,
    PoolingStages,
    RidgedCommonStages,
    RidgedLossStages,
    RowStages,
)
from .gram import Gram, gram_caches
from .lasso_stages import LassoStages, LossStages
from .lassos.class_lassos import ClassLassos
from .lassos.task_solver import task_caches
from .one_level import AtBestLevel, LevelStages
from .task_lassos import lassos_at_level

LASSOS, ROWS, COMMON, POOLING, GIVEN = "lassos", "rows", "common", "pooling", "given"  # structures of stages
ROBUST, LEVELS = "robust", "levels"


def solver_for(
    problem: Problem,
    penalty: Penalty,
    *,
    lam: float = 0.0,
    grams: Any = None,
    n_jobs: int | None = None,
    near: Floats | None = None,
) -> Any:
    """What solves the stages of a problem with a penalty (a `StageSolver`).

    Parameters
    ----------
    lam : which the ridge of the problem has, if there is one
    grams : what is known of Gram matrices (`caches_for`), by default nothing yet
    near : about where the solution is
    """
    if problem.classes_together:
        lassos = ClassLassos(problem, n_jobs)
        if near is not None:
            lassos.warm(near)
        return ClassStages(lassos, problem, lam)
    if problem.has_one_level and penalty.structure != POOLING:  # which finds the level with the rest
        common = penalty.structure == COMMON

        def make(near: Floats | None) -> Any:
            start = near if near is None or not common else near.ravel()
            return _solver_for(problem, penalty, lam, None, n_jobs, start)

        def coefs(found: Floats) -> Floats:
            return Stacked(problem.designs, problem.classes).sums(found[0]) if common else found

        return LevelStages(problem, make, coefs, near)
    return _solver_for(problem, penalty, lam, grams, n_jobs, near)


def _solver_for(
    problem: Problem, penalty: Penalty, lam: float, grams: Any, n_jobs: int | None, near: Floats | None
) -> Any:
    if penalty.structure == LASSOS:
        lassos = lassos_at_level(problem, grams, n_jobs)
        lassos.at(lam)
        if near is not None:
            lassos.warm(near)
        designs = problem.at(lam)
        if problem.loss.squared:
            return LassoStages(lassos, designs)
        return LossStages(lassos, designs, problem.data)
    if penalty.structure == ROWS:
        rows = _rows_for(problem, grams, n_jobs)
        rows.at(lam)
        if near is not None:
            rows.warm(near)
        return RowStages(rows, problem, lam)
    if penalty.structure == GIVEN:
        return GivenStages(problem, lam, problem.data)
    if penalty.structure == POOLING:
        return PoolingStages(pooling_for(problem, grams))
    if penalty.structure == ROBUST:
        return PointStages(problem, penalty, task_norms_for(problem, grams), certify_task_norms, near)
    if isinstance(penalty, LevelPenalty):
        return PointStages(problem, penalty, levels_for(problem, penalty, grams), certify_levels, near)
    common = _common_for(problem, grams, n_jobs)
    common.at(penalty.ridge() if isinstance(penalty, CappedDeviations) else None)
    if near is not None:
        common.warm(near)
    if common.ridge is None:
        return CommonStages(common, problem)
    return RidgedCommonStages(common, problem) if _plain(problem) else RidgedLossStages(common, problem)


def _plain(problem: Problem) -> bool:
    """Whether what couples the tasks is solved by itself: under squared loss, without bounds or groups."""
    return problem.loss.squared and problem.box is None and problem.groups is None


def rows_for(problem: Problem, grams: list[Gram] | None = None, n_jobs: int | None = None) -> Any:
    """A problem with a norm of every row."""
    if problem.has_one_level:
        return AtBestLevel(problem, lambda: _rows_for(problem, None, n_jobs))
    return _rows_for(problem, grams, n_jobs)


def _rows_for(problem: Problem, grams: list[Gram] | None, n_jobs: int | None) -> CoupledRows | LossRows:
    if not _plain(problem):
        return LossRows(problem, n_jobs)
    return CoupledRows(
        problem.designs,
        problem.factors,
        units=problem.units,
        grams=grams,
        ridge=problem.unit_ridge,
        n_jobs=n_jobs,
    )


def common_for(problem: Problem, grams: CommonGrams | None = None, n_jobs: int | None = None) -> Any:
    """A problem with a part that is common to all tasks."""
    if problem.has_one_level:
        make = partial(_common_for, problem, None, n_jobs)
        return AtBestLevel(problem, make, lambda P: Stacked(problem.designs, problem.classes).sums(P))
    return _common_for(problem, grams, n_jobs)


def _common_for(problem: Problem, grams: CommonGrams | None, n_jobs: int | None) -> CommonSolver:
    if not _plain(problem):
        return LossCommon(problem, grams if isinstance(grams, LossGrams) else None, n_jobs)
    grams = grams if isinstance(grams, StackedGrams) else StackedGrams(problem.designs, n_jobs=n_jobs)
    return StackedLassos(grams, units=problem.units, n_jobs=n_jobs)


def pooling_for(problem: Problem, known: AnyPooling | None = None) -> AnyPooling:
    """A problem with a common part and deviations that have ridges only; as it is, if it was made before."""
    if known is not None:
        return known
    return Pooling(problem) if _plain(problem) else LossPooling(problem)


def task_norms_for(problem: Problem, known: Pooling | None = None) -> AnyTaskNorms:
    """A problem with a norm of every task's deviations; `known` are the directions of its tasks, if they are known. What
    belongs together is a matter of its penalty."""
    problem = replace(problem, groups=None)
    return TaskNormSolver(problem, known) if _plain(problem) else LossTaskNorms(problem)


def levels_for(problem: Problem, penalty: LevelPenalty, known: LevelGrams | None = None) -> AnyLevels:
    """A problem with parts by level; `known` are its tasks put together, if they are known."""
    return LevelSolver(problem, penalty, known) if problem.loss.squared else LossLevels(problem, penalty)


# ------------------------------------------------------------------ what bounds press with


def pressed_rows(problem: Problem, norm: RowNorm, lam: float, W: Floats) -> Problem:
    """The problem with the forces of its bounds, if it has any, at a solution W (m, d) with a norm of every row; they are
    found anew from there."""
    if problem.box is None:
        return problem
    rows: Any = _rows_for(problem, None, None)
    rows.at(lam)
    rows.warm(W)
    rows.solve(norm)
    return cast(Problem, pressed(problem, rows.forces))


def pressed_common(problem: Problem, norm: SharedNorm, ridge: Floats | None, P: Floats) -> Problem:
    """The same at a solution P (p,) with a common part."""
    if problem.box is None:
        return problem
    common: Any = _common_for(problem, None, None)
    common.at(ridge)
    common.warm(P)
    common.solve(0.5 * problem.m * norm.weights(), P)
    return cast(Problem, pressed(problem, common.forces))


def pressed_pooling(problem: Problem, penalty: PoolingRidge) -> Problem:
    """The same for partial pooling."""
    if problem.box is None:
        return problem
    pooling: Any = pooling_for(problem)
    pooling.one(penalty.k, penalty.k_common)
    return cast(Problem, pressed(problem, pooling.forces))


def pressed_points(problem: Problem, penalty: Any, P: Floats) -> Problem:
    """The same at a solution P (height, d) with a penalty of points."""
    if problem.box is None:
        return problem
    solver: Any = task_norms_for(problem)
    solver.warm(P)
    solver.solve(penalty)
    return cast(Problem, pressed(problem, solver.forces))


def caches_for(problem: Problem, structure: str, **options: float | None) -> Any:
    """What solvers of stages of a structure keep of Gram matrices; `options` are those of `gram_caches`."""
    if structure == POOLING:
        return pooling_for(problem)
    if structure == LEVELS:
        return None  # what is known depends on the levels, too
    if structure == ROBUST:
        problem = replace(problem, groups=None)
        return Pooling(problem) if _plain(problem) else None
    if not (_plain(problem) if structure == COMMON else problem.loss.squared):
        return LossGrams(problem) if structure == COMMON else []
    if structure == ROWS and problem.groups is not None:
        return []
    makers: dict[str, Callable[..., Any]] = {LASSOS: task_caches, ROWS: gram_caches, COMMON: StackedGrams}
    return makers[structure](problem.designs, **options)
