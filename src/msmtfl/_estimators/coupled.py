"""What models whose rows couple the tasks share, L1,2 and Dirty: one fit, a search, coefficients at a setting."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.designs import Floats
from .._objective.coupled.row_norms import DirtyNorm
from .._objective.penalties import ConcaveGroups, Dirty, Penalty
from .._objective.problem import Problem
from .._objective.shapes import read_shape
from .._paths.families.coupled_path import RowGrid, RowPaths, RowSurface
from .._runtime.progress import Monitor, Progress, one_blas_thread
from .._solvers.gram import Gram
from .._solvers.solvers import ROWS, rows_for, solver_for
from .._solvers.stages import Solution, algorithm_1, run, run_stages, same
from .added_tasks import AddTaskMixin
from .grid_search import GridSearch
from .streaming import FromMomentsMixin, PartialFitMixin

SEARCH_SETTLED = 1e-12  # the accuracy of a grid's points, as of a fit: held-out errors are those of fits


class CoupledFit(AddTaskMixin):
    """One fit of a row-coupled model, with any loss. A model says which penalty (`_penalty`)."""

    _of_several = "which of them is returned depends on the start"

    def _penalty(self, problem: Problem) -> tuple[Penalty, float]:
        """The penalty, and the largest of its kind that leaves anything but zeros."""
        raise NotImplementedError

    def _most(self) -> int:
        return 1

    def _separates(self) -> bool:
        return separated(self)

    def _fit_problem(self, problem: Problem, previous: Floats | None) -> None:
        """Solve, and set the attributes of the fit; `previous` (m, d) are the coefficients of a fit to go on from."""
        with one_blas_thread():
            penalty, lam_max = self._penalty(problem)
            solution = run_stages(
                penalty,
                solver_for(problem, penalty, lam=ridge_lam(penalty), n_jobs=self.n_jobs, near=previous),
                max_stages=self._most(),
                start=previous,
                tol=self.tol,
                max_iter=self.max_iter or 0,
                listener=Monitor(self, self._most(), problem.m),
            )
        self._store(problem, solution, penalty)
        self.lam_max_ = lam_max
        self._keep(penalty, solution)
        self._warn(solution, problem)

    def _keep(self, penalty: Any, solution: Solution) -> None:
        """Set the attributes that are the family's own."""
        raise NotImplementedError


class Coupled(CoupledFit, PartialFitMixin):
    """The same as a regression."""

    def _fit(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any) -> None:
        self._check_params()
        with one_blas_thread():
            problem = self._make_problem(X, y, task, sample_weight, offset)
        self._fit_problem(problem, self._previous(problem.data))


def ridge_lam(penalty: Any) -> float:
    """The strength that a ridge is a share of: Dirty's is that of the specific part."""
    return float(penalty.lam_s if isinstance(penalty, Dirty) else penalty.lam)


def separated(model: Any) -> bool:
    """Whether a fitted model is the lasso: of these only Dirty can be."""
    return hasattr(model, "lam_b_") and DirtyNorm(model.lam_s_, model.lam_b_, np.ones((1, len(model.tasks_)))).separates


def coupled_coef(model: Any, part: Problem) -> Floats:
    """(m, d): the coefficients at a fitted model's parameters on a part of the rows, without certificates."""
    rows = rows_for(part)
    if hasattr(model, "lam_b_"):
        rows.at(model.lam_s_)
        return np.asarray(
            rows.solve(Dirty(model.lam_s_, model.lam_b_, part.factors, part.l1_ratio, part.groups).norm)[0]
        )
    rows.at(model.lam_)
    shape = read_shape(getattr(model, "penalty", "capped"))
    more: dict[str, Any] = {"l1_ratio": part.l1_ratio, "groups": part.groups}
    penalty = ConcaveGroups(model.lam_, getattr(model, "theta_", np.inf), part.factors, shape, **more)

    found = [np.zeros((part.m, part.d))]

    def solve(pattern: np.ndarray, last: Floats) -> tuple[Floats, str]:
        found.append(rows.solve(penalty.weights(pattern))[0])
        return found[-1], ""

    most = getattr(model, "max_stages", 1)
    run(algorithm_1(lambda W: penalty.pattern(W.T), found[0], most, alike=same), solve, found[0])
    return found[-1]


class CoupledGrid(GridSearch, AddTaskMixin):
    """Grids of a row-coupled model, with any loss."""

    _step = "points"
    _structure = ROWS
    _of_several = CoupledFit._of_several

    def _separates(self) -> bool:
        return separated(self)

    def _walker(
        self, problem: Problem, grid: RowGrid, grams: list[Gram], n_jobs: int | None, progress: Progress
    ) -> RowPaths:
        return RowPaths(
            problem,
            grid,
            max_iter=self.max_iter or 0,
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
        lam = ridge_lam(penalty)
        solver = solver_for(problem, penalty, lam=lam, grams=grams, n_jobs=self.n_jobs, near=surface.coef(k, l))
        return run_stages(penalty, solver, max_stages=1, tol=self.tol, max_iter=self.max_iter or 0), penalty

    def _fit_point(self, problem: Problem, grid: Any, splits: list[Any], scorer: Any) -> None:
        """Choose a point, and set the attributes of a fit there."""
        solution, problem = self._fit_grid(problem, grid, splits, scorer)
        self._keep_choice(problem, solution)
        self._warn(solution, problem)

    def _keep_choice(self, problem: Problem, solution: Solution) -> None:
        """Set the attributes that are the family's own."""
        raise NotImplementedError


class CoupledSearch(CoupledGrid, FromMomentsMixin):
    """The same as a regression."""
