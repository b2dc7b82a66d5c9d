"""Grids of lam and theta, solved in stages by Algorithm 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.task_data import TaskData
from .._objective.penalties import ConcaveRows
from .._objective.problem import Problem
from .._objective.theta import unit
from .._paths.grid import Grid
from .._paths.grids import MIXTURE, default_grid, read_grid
from .._paths.stage_paths import StagePaths
from .._paths.surface import Surface
from .._runtime.checks import check_count
from .._runtime.progress import Progress
from .._solvers.gram import Gram, wants_whole
from .._solvers.largest_lam import largest_lam
from .._solvers.solvers import solver_for
from .._solvers.stages import Solution
from .grid_search import GridSearch


class StageSearch(GridSearch):
    """Grids of (lam, theta) for Algorithm 1; a model says how many stages (`_stages`)."""

    def _wants_whole(self, problem: Problem) -> bool:
        rows_at_hand = isinstance(problem.data, TaskData)
        return not rows_at_hand or any(wants_whole(design, reuse=False) for design in problem.designs)

    def _stages(self) -> int:
        raise NotImplementedError

    def _check_params(self) -> None:
        super()._check_params()
        check_count("max_stages", self._stages())

    def _walker(self, problem: Problem, grid: Grid, grams: Any, n_jobs: int | None, progress: Progress) -> StagePaths:
        return StagePaths(
            problem,
            grid,
            max_stages=self._stages(),
            tol=self.tol,
            max_iter=self.max_iter or 0,
            n_jobs=n_jobs,
            grams=grams,
            tick=progress.step,
            stop=progress.stop,
        )

    def _columns(self, surface: Surface, problem: Problem) -> dict[str, np.ndarray]:
        parameters = surface.parameters
        units = unit(problem.l1_ratio or 1.0, problem.m, problem.rho_bar) * surface.lams[:, None]
        ratios = {f"{name}_ratio": parameters[name] / units for name in ("theta", "theta_entry") if name in parameters}
        first = {name: parameters[name] for name in ("lam", "theta")} | {"theta_ratio": ratios["theta_ratio"]}
        return first | ratios | super()._columns(surface, problem) | {"n_stages": surface.n_stages}

    def _refit(
        self, problem: Problem, surface: Surface, k: int, l: int, grams: list[Gram], solver: Any = None
    ) -> tuple[Solution, ConcaveRows]:
        penalty = surface.penalty(k, l, problem.factors)
        if solver is None:
            lam = float(surface.lams[k])
            solver = solver_for(problem, penalty, lam=lam, grams=grams, n_jobs=self.n_jobs, near=surface.coef(k, l))
        solution = self._stages_again(surface, k, l, penalty, solver, self._stages())
        self.lams_, self.thetas_ = surface.lams, surface.thetas
        self.lam_, self.lam_max_ = penalty.lam, largest_lam(problem)
        return solution, penalty


class ThetaSearch(StageSearch):
    """Grids of lam, theta and the penalty on entries, as the parameters say."""

    def _grid(self, problem: Problem) -> Grid:
        shares = self.entry_shares
        if shares is None:
            if self.theta_ratios is None and self.thetas is None and self.entry_ratios is None:
                return default_grid(problem, self.lams, self.lam_min_ratio, self.penalty)
            shares = (0.0,) if self.entry_ratios is None else (0.0, MIXTURE, 1.0)
        return read_grid(
            problem,
            self.lams,
            self.theta_ratios,
            self.thetas,
            self.lam_min_ratio,
            shares,
            self.entry_ratios,
            self.penalty,
        )

    def _stages(self) -> int:
        stages: int = self.max_stages
        return stages

    def _fit_point(self, problem: Problem, grid: Grid, splits: list[Any], scorer: Any, work: Any = None) -> None:
        """See `_fit_grid`; with what was chosen beside lam, and with warnings."""
        fitted = self._fit_grid(problem, grid, splits, scorer, work)
        at = {name: float(values[self.best_point_]) for name, values in self.surface_.parameters.items()}
        self.theta_ = at["theta"]
        self.lam_entry_, self.theta_entry_ = at.get("lam_entry", 0.0), at.get("theta_entry", np.inf)
        self._warn(*fitted)
