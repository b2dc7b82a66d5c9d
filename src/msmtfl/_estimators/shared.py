"""Estimators that share values: a common part and sparse deviations from it, with and without search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._objective.common_penalty import CappedDeviations
from .._objective.penalties import ConcaveRows
from .._objective.problem import Problem
from .._paths.common_path import (
    SharedGrid,
    SharedSurface,
    scales,
    shared_grid,
    shared_lam_max,
    solve_shared,
    strengths,
)
from .._paths.surface import Refitted
from .._runtime.checks import check_count, check_positive
from .._runtime.progress import Monitor, Progress, one_blas_thread, with_callbacks
from .._solvers.common_part import StackedLassos
from .._solvers.make_problem import default_lam
from .._solvers.solvers import COMMON, common_for, solver_for
from .._solvers.stages import Solution, run_stages
from .base import MultiTaskLinear
from .search import GridSearch
from .streaming import Batchwise, Growing


class _Sharing(MultiTaskLinear):
    """What SharedMTL and SharedMTLCV have in common: they solve for P, b and V, and are about W = b + V to the outside."""

    _of_several = "which of them is returned depends on the start"

    def _make_problem(self, X: Any, y: Any, task: Any, sample_weight: Any) -> Problem:
        if np.ndim(self.penalty_factors) == 2:
            raise ValueError(
                "penalty_factors must have one entry per feature here: a common value belongs to all tasks."
            )
        return super()._make_problem(X, y, task, sample_weight)

    def _store(
        self, problem: Problem, solution: Solution, penalty: Any, grams: Any = None, coef: Floats | None = None
    ) -> None:
        sums, m = grams.stacked.sums, problem.m
        stages = tuple(replace(stage, coef=sums(stage.coef[0])) for stage in solution.stages)
        point = solution.stages[-1].coef[0]
        if self.relax:
            point = relaxed_point(problem, point, common_for(problem, grams))
        of_sums = ConcaveRows(penalty.lam_deviation, penalty.theta, problem.factors)
        super()._store(problem, replace(solution, stages=stages), of_sums, grams, coef=np.asarray(sums(point)))
        b, *V = point.reshape(m + 1, -1)
        self.coef_common_, self.coef_deviation_ = b.copy(), V[0].copy() if self._form == "single" else np.array(V)
        self.lam_common_, self.lam_deviation_, self.theta_ = penalty.lam_common, penalty.lam_deviation, penalty.theta
        ratio = penalty.lam_common / (np.sqrt(m) * penalty.lam_deviation)
        common, deviation = strengths(ratio, m)
        self.lam_max_ = shared_lam_max(problem, ratio) * (deviation if np.isinf(common) else common)

    def _separates(self) -> bool:
        capless, m = np.isinf(self.theta_), len(self.tasks_)
        return bool(capless and self.lam_common_ >= m * self.lam_deviation_)


def relaxed_point(problem: Problem, P: Floats, lassos: StackedLassos) -> Floats:
    """(p,): least squares on the support of b and V. (Where all tasks deviate, b adds nothing to V.)"""
    support = P.reshape(problem.m + 1, -1) != 0.0
    live = np.array([design.squares > 0 for design in problem.designs])
    support[0] &= ~(support[1:] | ~live).all(axis=0)
    return lassos.solve(np.where(support, 0.0, np.inf).ravel(), P)[0]


class SharedMTL(_Sharing, Batchwise):
    r"""Values shared by all tasks, and sparse deviations from them (the data-shared lasso of Gross and Tibshirani, with a
    cap).

    .. math::
        \min_{b, V} \sum_{i=1}^m \frac{1}{m n_i} \|X_i (b + v_i) - y_i\|^2
                    + \lambda_c \|b\|_1 + \lambda_d \sum_{j=1}^d \min(\|v^j\|_1, \theta)

    One model for all tasks (lam_deviation = inf: the pooled lasso, with an intercept per task), one for each (lam_common =
    inf, or at theta = inf from m lam_deviation on: MSMTFL, and LassoMTL), and everything between. With theta = inf, the
    default, it is convex: one lasso in (m + 1) d coefficients. A finite theta frees features whose deviations are large
    in all, in stages as MSMTFL does: tasks have values of their own there, not shrunk.

    Values are shared in the data's units: the same column must mean the same in all tasks. A task in which a column does
    not vary gets its common value. Of several b that are as good for the same sum the smallest is given; what is said of
    uniqueness is about the sum, `coef_`.

    Parameters
    ----------
    lam_common, lam_deviation : float, optional
        Strengths of the two penalties; one of them may be inf. By default lam_common = sqrt(m) lam_deviation, at which
        noise has the same chance in both, and 0.1 times `lam_max_`: values to start from, not a choice, which keep much of
        pure noise (see :class:`MSMTFL`). :class:`SharedMTLCV` chooses by cross-validation. One of them alone sets the other
        by that ratio.
    theta : float, default=inf
        Norm of a row of deviations from which they are free.
    max_stages : int, default=10
        With theta = inf there is one.
    penalty_factors : array of shape (d,), optional
        f in f_j |b_j| and f_j |v_ji|; 0: never penalised (then in V), inf: excluded.
    standardize : bool, default=False
        Penalise deviations as if every task's columns were scaled to unit standard deviation, and common values as if all
        tasks' together were; coefficients stay in the data's units.
    relax : bool, default=False
        Refit by least squares on the support of b and V.
    task_column, fit_intercept, tol, max_iter, warm_start, unknown_task, n_jobs
        As for :class:`MSMTFL`.

    Attributes
    ----------
    coef_common_ : (d,) b
    coef_deviation_ : (m, d) V; (d,) if fitted without tasks
    coef_ : (m, d) b + V
    lam_common_, lam_deviation_, theta_, lam_max_ : the values used; lam_max_ is of lam_common at this ratio (of
        lam_deviation where lam_common is inf)
    intercept_, tasks_, features_, stages_, certificate_, ... : as for :class:`MSMTFL`; `free_rows` of a stage are features
        whose deviations it left un-penalised

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import SharedMTL
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 20)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] + np.where(task == "west", X[:, 5], 0) + 0.1 * rng.standard_normal(90)
    >>> model = SharedMTL().fit(X, y, task=task)
    >>> np.flatnonzero(model.coef_common_.round(1)), np.flatnonzero(model.coef_deviation_[2].round(1))
    (array([0]), array([5]))
    """

    def __init__(
        self,
        lam_common=None,
        lam_deviation=None,
        theta=np.inf,
        *,
        task_column=None,
        max_stages=10,
        fit_intercept=True,
        standardize=False,
        penalty_factors=None,
        relax=False,
        tol=1e-8,
        max_iter=None,
        warm_start=False,
        unknown_task="error",
        n_jobs=None,
    ):
        self.lam_common = lam_common
        self.lam_deviation = lam_deviation
        self.theta = theta
        self.task_column = task_column
        self.max_stages = max_stages
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.penalty_factors = penalty_factors
        self.relax = relax
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.unknown_task = unknown_task
        self.n_jobs = n_jobs

    def _penalty(self, problem: Problem) -> CappedDeviations:
        common, deviation, root = self.lam_common, self.lam_deviation, np.sqrt(problem.m)
        if common is None:
            common = root * (default_lam(None, shared_lam_max(problem, 1.0)) if deviation is None else deviation)
        if deviation is None:
            deviation = common / root
        return CappedDeviations(float(common), float(deviation), float(self.theta), problem.factors, scales(problem))

    def _check_params(self) -> None:
        self._check_common()
        for name in ("lam_common", "lam_deviation"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name), allow_inf=True)
        if np.isinf(self.lam_common or 1.0) and np.isinf(self.lam_deviation or np.inf):
            raise ValueError("with lam_common=inf give a finite lam_deviation: otherwise all coefficients are 0.")
        if self.lam_common is None and np.isinf(self.lam_deviation or 1.0):
            raise ValueError("with lam_deviation=inf give a finite lam_common: otherwise all coefficients are 0.")
        check_positive("theta", self.theta, allow_inf=True)
        check_count("max_stages", self.max_stages)

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> SharedMTL:
        """Fit; see :meth:`MSMTFL.fit`."""
        self._check_params()
        most = 1 if np.isinf(self.theta) else self.max_stages
        with one_blas_thread():
            problem = self._make_problem(X, y, task, sample_weight)
            penalty = self._penalty(problem)
            start = None
            if self._previous(problem.data) is not None:
                start = np.concatenate([self.coef_common_, np.ravel(self.coef_deviation_)])[None]
            near = None if start is None else start[0]
            solver = solver_for(problem, penalty, n_jobs=self.n_jobs, near=near)
            solution = run_stages(
                penalty,
                solver,
                max_stages=most,
                start=start,
                tol=self.tol,
                max_iter=self.max_iter or 0,
                listener=Monitor(self, most, problem.m),
            )
        self._store(problem, solution, penalty, solver.grams)
        self._warn(solution, problem)
        return self


class SharedMTLCV(_Sharing, GridSearch, Growing):
    """SharedMTL with its strengths and theta chosen by cross-validation.

    The grid has lams x ratios x thetas; pooled and separate models are among them. All folds use the same parameters, taken
    from all data. A search does not go on to later stages where the first has more than 200 coefficients, and more than one
    for every six samples; with a common part and twice as many coefficients the path ends (`stopping_reason` says so). Such
    points have no score, and are not chosen: `eligible` in `cv_results_` is False.

    Parameters
    ----------
    lams : int or array of shape (K,), default=20
        lam is the smaller of lam_common / sqrt(m) and lam_deviation: how many, for each ratio from its own largest down, or
        the values themselves.
    ratios : array of shape (R,), optional
        lam_common / lam_deviation in units of sqrt(m); by default 0 (the pooled lasso: lam_deviation = inf), 0.2, 0.5,
        1, 2 and inf (no common part). From sqrt(m) on they are all as inf: one is kept.
    theta_ratios : array of shape (T,), optional
        theta in units of m lam_deviation / rho_bar, rho_bar the mean square of the columns; by default
        max(4, m / 4) and inf.
    lam_min_ratio : float, optional
        By default 1e-2, or 1e-3 if every task has more samples than features, times the ratio if that is less than 1 (but
        no less than a tenth).
    max_stages, penalty_factors, standardize, relax : as for :class:`SharedMTL`
    the others : as for :class:`MSMTFLCV`

    Attributes
    ----------
    lam_common_, lam_deviation_, theta_ : the choice
    coef_common_, coef_deviation_, coef_ : as for :class:`SharedMTL`
    surface_ : solutions on all data; ``surface_.coef(k, l)``, ``surface_.coef_common(k, l)``
    thetas_ : (K, L) those of the grid, whose columns are pairs of ratio and theta_ratio
    cv_results_ : as for :class:`MSMTFLCV`, with lam_common, lam_deviation, theta, ratio and theta_ratio; n_entries counts
        entries of b and V
    the others : as for :class:`MSMTFLCV`

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import SharedMTLCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 20)), np.repeat([0, 1, 2], 30)
    >>> y = 2 * X[:, 0] + np.where(task == 1, X[:, 5], 0) + 0.1 * rng.standard_normal(90)
    >>> model = SharedMTLCV(selection="1se").fit(X, y, task=task)
    >>> np.flatnonzero(model.coef_common_), [np.flatnonzero(v.round(1)).tolist() for v in model.coef_deviation_]
    (array([0]), [[], [5], []])
    """

    _structure = COMMON

    def __init__(
        self,
        lams=20,
        *,
        ratios=None,
        theta_ratios=None,
        lam_min_ratio=None,
        cv=5,
        scoring="neg_nmse",
        selection="min",
        task_column=None,
        max_stages=10,
        fit_intercept=True,
        standardize=False,
        penalty_factors=None,
        relax=False,
        tol=1e-8,
        max_iter=None,
        unknown_task="error",
        random_state=0,
        n_jobs=None,
        memory_budget=None,
        verbose=False,
    ):
        self.lams = lams
        self.ratios = ratios
        self.theta_ratios = theta_ratios
        self.lam_min_ratio = lam_min_ratio
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.task_column = task_column
        self.max_stages = max_stages
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.penalty_factors = penalty_factors
        self.relax = relax
        self.tol = tol
        self.max_iter = max_iter
        self.unknown_task = unknown_task
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_budget = memory_budget
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        check_count("max_stages", self.max_stages)

    def _grid(self, problem: Problem) -> SharedGrid:
        return shared_grid(problem, self.lams, self.ratios, self.theta_ratios, self.lam_min_ratio)

    def _solve(
        self, problem: Problem, grid: SharedGrid, grams: Any, n_jobs: int | None, progress: Progress
    ) -> SharedSurface:
        return solve_shared(
            problem,
            grid,
            max_stages=self.max_stages,
            tol=self.tol,
            max_iter=self.max_iter or 0,
            n_jobs=n_jobs,
            grams=grams,
            tick=progress.step,
            stop=progress.stop,
        )

    def _refitted(self, problem: Problem, solutions: SharedSurface, grams: Any) -> Refitted:
        lassos = common_for(problem, grams)

        def refit(place: int) -> Floats:
            P = relaxed_point(problem, solutions.point_at(place), lassos)
            return np.asarray(grams.stacked.sums(P))

        return Refitted.of(solutions, refit)

    def _columns(self, surface: SharedSurface, problem: Problem) -> dict[str, np.ndarray]:
        ratios = np.broadcast_to(np.array(surface.grid.columns).T[:, None], (2, *surface.grid.shape))
        names = dict(zip(("ratio", "theta_ratio"), ratios, strict=True))
        return {**surface.parameters} | names | super()._columns(surface, problem) | {"n_stages": surface.n_stages}

    def _refit(
        self, problem: Problem, surface: SharedSurface, k: int, l: int, grams: Any
    ) -> tuple[Solution, CappedDeviations]:
        penalty = surface.grid.penalty(k, l, problem)
        solver = solver_for(problem, penalty, grams=grams, n_jobs=self.n_jobs, near=surface.point(k, l))
        return self._stages_again(surface, k, l, penalty, solver, self.max_stages), penalty

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None) -> SharedMTLCV:
        """Fit; see :meth:`MSMTFLCV.fit`."""
        fitted = self._fit(X, y, task, sample_weight, groups)
        self.thetas_ = self.surface_.parameters["theta"]
        self._warn(*fitted)
        return self


def shared_coef(model: Any, part: Problem) -> Floats:
    """(m, d): the coefficients at a fitted model's parameters on a part of the rows."""
    lams, most = (model.lam_common_, model.lam_deviation_), 1 if np.isinf(model.theta_) else model.max_stages
    penalty = CappedDeviations(*lams, model.theta_, part.factors, scales(part))
    solver = solver_for(part, penalty)
    solution = run_stages(penalty, solver, max_stages=most, tol=np.inf)
    return np.asarray(solver.grams.stacked.sums(solution.stages[-1].coef[0]))
