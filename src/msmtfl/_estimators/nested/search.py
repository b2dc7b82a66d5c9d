"""Coefficients that are sums over levels of tasks, with strengths chosen by cross-validation."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from ..._data.task_levels import TaskLevels
from ..._objective.level_penalty import SPARSE, LevelPenalty
from ..._objective.problem import Problem
from ..._paths.families.nested_path import NestedGrid, NestedPaths, NestedSurface, largest, nested_grid
from ..._runtime.checks import check_count
from ..._runtime.progress import Progress, with_callbacks
from ..._solvers.solvers import LEVELS, solver_for
from ..._solvers.stages import Solution, run_stages
from ..grid_search import GridSearch
from ..streaming import FromMomentsMixin
from .fit import Nested


class NestedSearch(Nested, GridSearch):
    """A search of the strengths, with any loss."""

    _step = "points"
    _structure = LEVELS

    def _check_params(self) -> None:
        super()._check_params()
        if self.selection not in ("min", "1se"):
            raise ValueError(
                f"selection must be 'min' or '1se', got {self.selection!r}: the degrees of freedom of effects by level are "
                "not known, so that there are no information criteria."
            )
        if isinstance(self.lams, Integral):
            check_count("lams", self.lams)

    @property
    def _ends_early(self) -> bool:  # type: ignore[override]
        return bool(self.kind == SPARSE)  # of ridges all points cost the same

    def _grid(self, problem: Problem) -> NestedGrid:
        levels: TaskLevels = self._levels(problem)
        return nested_grid(
            problem, levels, self.kind, self.lams, self.lam_commons, self.lam_uppers, self.lam_min_ratio
        )

    def _walker(
        self, problem: Problem, grid: NestedGrid, grams: Any, n_jobs: int | None, progress: Progress
    ) -> NestedPaths:
        options = {"max_iter": self.max_iter or 0, "n_jobs": n_jobs, "tick": progress.step, "stop": progress.stop}
        return NestedPaths(problem, grid, **options)

    def _refit(
        self, problem: Problem, surface: NestedSurface, k: int, l: int, grams: Any
    ) -> tuple[Solution, LevelPenalty]:
        penalty = surface.grid.penalty(k, l, problem)
        solver = solver_for(problem, penalty, near=surface.point(k, l))
        solution = run_stages(penalty, solver, max_stages=1, tol=self.tol, max_iter=self.max_iter or 0)
        return solution, penalty

    def _ends_by_chance(self) -> bool:
        return self.kind == SPARSE and super()._ends_by_chance()

    def _fit_point(self, problem: Problem, grid: Any, splits: list[Any], scorer: Any) -> None:
        """Choose a point, and set the attributes of a fit there."""
        fitted = self._fit_grid(problem, grid, splits, scorer)
        strengths = self.surface_.grid.lams
        self.lams_, self.lam_commons_, self.lam_uppers_ = strengths[:, :, -1], strengths[:, :, 0], strengths[:, :, 1:-1]
        self._warn(*fitted)


class NestedMTLCV(NestedSearch, FromMomentsMixin):
    """NestedMTL with its strengths chosen by cross-validation.

    Along a column of the grid all strengths fall together; columns differ in the ratios of the levels'
    strengths. Ratios of inf, without effects of the upper levels, are among them, so that the flat model
    takes part. The grid is solved on every training fold; the model is then fitted to all data at the point
    that was chosen.

    Parameters
    ----------
    lams : int or array-like of shape (K,), default=20
        How many values of lam, the strength of the last level, the grid has, geometrically spaced; or
        the values themselves, in any order. With kind="sparse" they fall from what leaves all
        coefficients at 0, with kind="ridge" from 1000 to 0.001 times the mean sum of squares of a
        column in a task.
    kind : {"sparse", "ridge"}, default="sparse"
        The penalty: absolute values, which leave most effects at 0, or squares.
    lam_uppers : array-like, optional
        Ratios of the strengths of the levels above the last one to lam, which may be inf. With
        kind="sparse" they are in units at which noise has the same chance in all levels, by
        default 0.3, 1 and inf; with kind="ridge" by default 0.01, 0.1, 1, 10 and inf. With more than
        one such level all combinations are tried.
    lam_commons : array-like, optional
        With kind="sparse" ratios of lam_common to lam in the same units, by default 0.2 and 1. With
        kind="ridge" ridges on what is common: by default 0, or, if there are not more than two
        samples for every feature, 0.001, 0.01 and 0.1 times the mean over features of the sum of
        squares of a column over all tasks.
    lam_min_ratio : float, optional
        With kind="sparse" and a number of lams: the smallest lam over the largest, by default 0.01.

    Attributes
    ----------
    lam_ : float
        The strength of the last level that was chosen.
    lam_common_ : float
        The strength of what is common that was chosen.
    lam_upper_ : ndarray of shape (L - 1,)
        The strengths of the levels above the last one that were chosen.
    lams_ : ndarray of shape (K, L)
        The values of lam of the grid.
    lam_commons_ : ndarray of shape (K, L)
        The values of lam_common of the grid.
    lam_uppers_ : ndarray of shape (K, L, levels - 1)
        The strengths of the upper levels of the grid.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import NestedMTLCV
    >>> rng = np.random.default_rng(0)
    >>> X, school = rng.standard_normal((400, 3)), np.repeat(np.arange(20), 20)
    >>> region = np.where(school < 10, "north", "south")
    >>> y = X[:, 0] + np.where(region == "north", X[:, 2], 0.0) + 0.5 * rng.standard_normal(400)
    >>> model = NestedMTLCV(kind="ridge").fit(X, y, task=np.column_stack([region, school]))
    >>> (model.effects("level 1")["north"] - model.effects("level 1")["south"]).round(1)
    array([-0. ,  0. ,  1. ])
    """

    def __init__(
        self,
        lams=20,
        *,
        kind="sparse",
        lam_uppers=None,
        lam_commons=None,
        lam_min_ratio=None,
        cv=5,
        scoring="neg_nmse",
        selection="min",
        nested=None,
        task_column=None,
        loss="squared",
        epsilon=1.35,
        fit_intercept=True,
        standardize=False,
        penalty_factors=None,
        tol=1e-8,
        max_iter=None,
        unknown_task="error",
        random_state=0,
        n_jobs=None,
        memory_budget=None,
        verbose=False,
        intercepts="task",
        bounds=None,
        feature_groups=None,
        unknown_category="error",
    ):
        self.lams = lams
        self.kind = kind
        self.lam_uppers = lam_uppers
        self.lam_commons = lam_commons
        self.lam_min_ratio = lam_min_ratio
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.nested = nested
        self.task_column = task_column
        self.loss = loss
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.penalty_factors = penalty_factors
        self.tol = tol
        self.max_iter = max_iter
        self.unknown_task = unknown_task
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_budget = memory_budget
        self.verbose = verbose
        self.intercepts = intercepts
        self.bounds = bounds
        self.feature_groups = feature_groups
        self.unknown_category = unknown_category

    @with_callbacks
    def fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None, offset: Any = None
    ) -> NestedMTLCV:
        """Choose the strengths, and fit the model to all samples with them.

        Held-out errors use the weights of the samples, too.

        Parameters
        ----------
        X : DataFrame
        y : array-like

        Returns
        -------
        NestedMTLCV
            The fitted model itself.
        """
        self._fit_point(*self._search_problem(X, y, task, sample_weight, groups, offset))
        return self
