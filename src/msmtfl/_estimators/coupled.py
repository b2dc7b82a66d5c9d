"""What models whose rows couple the tasks share, L1,2 and Dirty: one fit, a search, coefficients at a setting."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._objective.penalties import ConcaveGroups, Dirty, DirtyNorm, Penalty
from .._objective.problem import Problem
from .._objective.shapes import read_shape
from .._paths.coupled_path import (
    RowGrid,
    RowSurface,
    solve_rows,
)
from .._paths.cross_validation import HeldOut, fold_scores, information
from .._paths.early_stopping import Effort, FoldEffort, SearchEffort, held_out_error, near_best
from .._paths.surface import Solutions
from .._runtime.progress import Monitor, Progress, one_blas_thread
from .._solvers.gram import Gram
from .._solvers.solvers import ROWS, rows_for, solver_for
from .._solvers.stages import Solution, algorithm_1, run, run_stages, same
from .search import GridSearch
from .streaming import Batchwise, Growing

SEARCH_SETTLED = 1e-12  # the accuracy of a grid's points, as of a fit: held-out errors are those of fits


class Coupled(Batchwise):
    """One fit of a row-coupled model. A model says which penalty (`_penalty`)."""

    _of_several = "which of them is returned depends on the start"

    def _penalty(self, problem: Problem) -> tuple[Penalty, float]:
        """The penalty, and the largest of its kind that leaves anything but zeros."""
        raise NotImplementedError

    def _most(self) -> int:
        return 1

    def _separates(self) -> bool:
        return separated(self)

    def _fit(self, X: Any, y: Any, task: Any, sample_weight: Any) -> tuple[Solution, Problem, Any]:
        with one_blas_thread():
            problem = self._make_problem(X, y, task, sample_weight)
            penalty, lam_max = self._penalty(problem)
            previous = self._previous(problem.data)
            solution = run_stages(
                penalty,
                solver_for(problem, penalty, n_jobs=self.n_jobs, near=previous),
                max_stages=self._most(),
                start=previous,
                tol=self.tol,
                max_iter=self.max_iter or 0,
                listener=Monitor(self, self._most(), problem.m),
            )
        self._store(problem, solution, penalty)
        self.lam_max_ = lam_max
        return solution, problem, penalty


def separated(model: Any) -> bool:
    """Whether a fitted model is the lasso: of these only Dirty can be."""
    return hasattr(model, "lam_b_") and DirtyNorm(model.lam_s_, model.lam_b_, np.ones((1, len(model.tasks_)))).separates


def coupled_coef(model: Any, part: Problem) -> Floats:
    """(m, d): the coefficients at a fitted model's parameters on a part of the rows, without certificates."""
    rows = rows_for(part)
    if hasattr(model, "lam_b_"):
        return rows.solve(Dirty(model.lam_s_, model.lam_b_, part.factors).norm)[0]
    shape = read_shape(getattr(model, "penalty", "capped"))
    penalty = ConcaveGroups(model.lam_, getattr(model, "theta_", np.inf), part.factors, shape)

    found = [np.zeros((part.m, part.d))]

    def solve(pattern: np.ndarray, last: Floats) -> tuple[Floats, str]:
        found.append(rows.solve(penalty.weights(pattern))[0])
        return found[-1], ""

    most = getattr(model, "max_stages", 1)
    run(algorithm_1(lambda W: penalty.pattern(W.T), found[0], most, alike=same), solve, found[0])
    return found[-1]


class CoupledSearch(GridSearch, Growing):
    """Grids of a row-coupled model."""

    _step = "points"
    _structure = ROWS
    _of_several = Coupled._of_several

    def _separates(self) -> bool:
        return separated(self)

    def _search(
        self,
        problem: Problem,
        grid: RowGrid,
        grams: list[Gram],
        splits: list[Any],
        solve: Any,
        scorer: Any,
        progress: Progress,
    ) -> tuple[RowSurface, HeldOut | None]:
        """The folds first: they tell which points deserve work, on all data too. (So these cannot `follow` all data.)"""
        most, shape = self.max_iter or 0, grid.shape
        if not splits:
            return self._search_without_folds(problem, grid, grams, progress), None
        folds = [Effort(most, shape) if scorer is not None else FoldEffort(most, shape) for _ in splits]
        of_split = {id(split): fold for split, fold in zip(splits, folds, strict=True)}

        def on_fold(part: Problem, split: Any) -> Solutions:
            fold = of_split[id(split)]
            if isinstance(fold, FoldEffort):
                fold.begin(partial(held_out_error, problem, split, part, self.scoring))
            return solve(part, split, effort=fold)

        held_out = self._validate(problem, splits, on_fold, scorer, progress)
        while True:
            near = near_best(-fold_scores(held_out, problem.data, self.scoring))
            again = [f for f, fold in enumerate(folds) if fold.demand(near & ~held_out.complete[f])]
            if not again:
                break
            held_out.take(again, self._validate(problem, [splits[f] for f in again], on_fold, scorer, progress))
        effort = SearchEffort(most, shape, [fold for fold in folds if isinstance(fold, FoldEffort)])
        effort.due |= near
        return self._solve(problem, grid, grams, self.n_jobs, progress, effort), held_out

    def _search_without_folds(
        self, problem: Problem, grid: RowGrid, grams: list[Gram], progress: Progress
    ) -> RowSurface:
        """All points, and those longer that would be chosen if they were finished."""
        effort = Effort(self.max_iter or 0, grid.shape)
        while True:
            surface = self._solve(problem, grid, grams, self.n_jobs, progress, effort)
            values = information(surface, problem.data, self.selection)
            best = values[surface.complete].min(initial=np.inf)
            if not effort.demand(~surface.complete & (values < best)):
                return surface

    def _solve(
        self,
        problem: Problem,
        grid: RowGrid,
        grams: list[Gram],
        n_jobs: int | None,
        progress: Progress,
        effort: Effort | None = None,
    ) -> RowSurface:
        return solve_rows(
            problem,
            grid,
            effort=effort,
            settled=SEARCH_SETTLED,
            n_jobs=n_jobs,
            grams=grams,
            tick=progress.step,
            stop=progress.stop,
        )

    def _columns(self, surface: RowSurface, problem: Problem) -> dict[str, np.ndarray]:
        return super()._columns(surface, problem) | {"finished": surface.finished}

    def _refit(self, problem: Problem, surface: RowSurface, k: int, l: int, grams: list[Gram]) -> tuple[Solution, Any]:
        penalty = surface.grid.penalty(k, l, problem.factors)
        solver = solver_for(problem, penalty, grams=grams, n_jobs=self.n_jobs, near=surface.coef(k, l))
        return run_stages(penalty, solver, max_stages=1, tol=self.tol, max_iter=self.max_iter or 0), penalty
