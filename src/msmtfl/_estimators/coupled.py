"""Estimators whose rows couple the tasks: L1,2 (and its multi-stage version) and DirtyMTL, with and without search."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._objective.penalties import ConcaveGroups, Dirty, DirtyNorm, Penalty
from .._objective.problem import Problem
from .._objective.shapes import read_shape
from .._paths.coupled_path import (
    DirtyGrid,
    GroupGrid,
    RowGrid,
    RowSurface,
    dirty_grid,
    dirty_lam_max,
    group_grid,
    group_lam_max,
    solve_rows,
)
from .._paths.cross_validation import HeldOut, fold_scores, information
from .._paths.early_stopping import Effort, FoldEffort, SearchEffort, held_out_error, near_best
from .._paths.surface import Solutions
from .._runtime.checks import check_count, check_positive
from .._runtime.progress import Monitor, Progress, one_blas_thread, with_callbacks
from .._solvers.gram import Gram
from .._solvers.make_problem import default_lam
from .._solvers.solvers import ROWS, rows_for, solver_for
from .._solvers.stages import Solution, algorithm_1, run, run_stages, same
from .search import GridSearch
from .streaming import Batchwise, Growing

SEARCH_SETTLED = 1e-12  # the accuracy of a grid's points, as of a fit: held-out errors are those of fits


class _Coupled(Batchwise):
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


class L12MTL(_Coupled):
    r"""L1,2-regularised multi-task learning (the group lasso over tasks): a feature is used by all tasks or by none.

    .. math::
        \min_W \sum_{i=1}^m \frac{1}{m n_i} \|X_i w_i - y_i\|^2 + \lambda \sum_{j=1}^d \min(\|w^j\|_2, \theta)

    With theta = inf, the default, this is the convex L1,2 model; a finite theta makes it multi-stage, as MSMTFL is, with l2
    in place of l1 inside the rows. Every task may have its own X. With one X for all tasks it is scikit-learn's
    ``MultiTaskLasso(alpha)`` at alpha = m lam / 2.

    Parameters
    ----------
    lam : float, optional
        Strength of the penalty; by default 0.1 times `lam_max_`, above which all coefficients are 0: a value to start from,
        not a choice, which keeps most of pure noise (see :class:`MSMTFL`). :class:`L12MTLCV` chooses by cross-validation.
    theta : float, default=inf
        Row norm from which a feature is free.
    penalty : {"capped", "mcp", "scad", "log", "lq"} or a shape, default="capped"
        What takes the place of min(t, theta): see :mod:`msmtfl._objective.shapes`.
    max_stages : int, default=10
        With theta = inf there is one.
    penalty_factors : array of shape (d,) or (d, m), optional
        f in the row norm (sum_i (f_ji w_ji)^2)^1/2; 0: never penalised, inf: excluded.
    max_iter : int, optional
        Limit on how often a stage's solver goes over the rows.
    task_column, fit_intercept, standardize, relax, tol, warm_start, unknown_task, n_jobs
        As for :class:`MSMTFL`.

    Attributes
    ----------
    As for :class:`MSMTFL`; `row_norms_` are l2 norms.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import MultiTaskLasso
    >>> from msmtfl import L12MTL
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 8))
    >>> Y = X[:, :2] @ rng.standard_normal((2, 3)) + 0.1 * rng.standard_normal((50, 3))
    >>> model = L12MTL(lam=0.1).fit(X, Y)
    >>> same = MultiTaskLasso(alpha=3 * 0.1 / 2, tol=1e-12, max_iter=10_000).fit(X, Y)
    >>> np.allclose(model.coef_, same.coef_)
    True
    """

    def __init__(
        self,
        lam=None,
        theta=np.inf,
        *,
        penalty="capped",
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
        self.lam = lam
        self.theta = theta
        self.penalty = penalty
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

    def _most(self) -> int:
        return 1 if np.isinf(self.theta) else self.max_stages

    def _penalty(self, problem: Problem) -> tuple[ConcaveGroups, float]:
        lam_max = group_lam_max(problem)
        lam = default_lam(self.lam, lam_max)
        return ConcaveGroups(lam, float(self.theta), problem.factors, read_shape(self.penalty)), lam_max

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> L12MTL:
        """Fit; see :meth:`MSMTFL.fit`."""
        self._check_common()
        if self.lam is not None:
            check_positive("lam", self.lam)
        check_positive("theta", self.theta, allow_inf=True)
        read_shape(self.penalty)
        check_count("max_stages", self.max_stages)
        solution, problem, penalty = self._fit(X, y, task, sample_weight)
        self.lam_, self.theta_ = penalty.lam, penalty.theta
        self._warn(solution, problem)
        return self


class DirtyMTL(_Coupled):
    r"""DirtyMTL (Jalali, Ravikumar, Sanghavi and Ruan): shared and task-specific coefficients, W = S + B.

    .. math::
        \min_{S, B} \sum_{i=1}^m \frac{1}{m n_i} \|X_i (s_i + b_i) - y_i\|^2
                    + \lambda_s \sum_{ji} |s_{ji}| + \lambda_b \sum_j \max_i |b_{ji}|

    Only the sum W is determined by the data: where lam_b / lam_s is a whole number there are several S and B, of which
    those with the smallest B are given. Where lam_b >= m lam_s, B is 0 and the model is the lasso; where lam_b <= lam_s, S
    is 0 (l1,inf). Entries below their row's level are not penalised, so that with few rows and small lam_b a task can be
    interpolated in many ways: W is not unique then, the certificate says so, and which one is found depends on the start.
    The solver is slow there, and may end before `tol` is reached: then the fit warns, and `dual_gap_` says how far it is.
    The way out is a larger lam_b: towards m lam_s, where the model is the lasso, fits are quick and exact.

    Parameters
    ----------
    lam_s, lam_b : float, optional
        Strengths of the two penalties. By default lam_s = lam_b / sqrt(m), half way between the lasso and l1,inf, and lam_b
        0.1 times `lam_max_`, above which all coefficients are 0: values to start from, not a choice, which keep most of
        pure noise (see :class:`MSMTFL`). :class:`DirtyMTLCV` chooses by cross-validation. One of them alone sets the other
        by that ratio.
    penalty_factors : array of shape (d,) or (d, m), optional
        f in f_ji |s_ji| and f_ji |b_ji|; 0: never penalised, inf: excluded.
    max_iter : int, optional
        Limit on how often the solver goes over the rows.
    task_column, fit_intercept, standardize, relax, tol, warm_start, unknown_task, n_jobs
        As for :class:`MSMTFL`.

    Attributes
    ----------
    coef_specific_ : (m, d) S
    coef_shared_ : (m, d) B
    coef_ : (m, d) S + B (with `relax`: least squares on its support)
    lam_s_, lam_b_, lam_max_ : the values used; lam_max_ is of lam_b, at this ratio
    intercept_, tasks_, features_, certificate_, ... : as for :class:`MSMTFL`

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import DirtyMTL
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 20)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] + np.where(task == "west", X[:, 5], 0) + 0.1 * rng.standard_normal(90)
    >>> model = DirtyMTL(lam_s=0.1, lam_b=0.2).fit(X, y, task=task)
    >>> np.flatnonzero(model.coef_shared_.any(axis=0)), np.flatnonzero(model.coef_specific_[2].round(1))
    (array([0]), array([5]))
    """

    def __init__(
        self,
        lam_s=None,
        lam_b=None,
        *,
        task_column=None,
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
        self.lam_s = lam_s
        self.lam_b = lam_b
        self.task_column = task_column
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.penalty_factors = penalty_factors
        self.relax = relax
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.unknown_task = unknown_task
        self.n_jobs = n_jobs

    def _penalty(self, problem: Problem) -> tuple[Dirty, float]:
        given = (self.lam_s, self.lam_b)
        ratio = 1.0 / np.sqrt(problem.m) if None in given else self.lam_s / self.lam_b
        lam_max = dirty_lam_max(problem, ratio)
        lam_b = self.lam_b
        if lam_b is None:
            lam_b = default_lam(None, lam_max) if self.lam_s is None else self.lam_s / ratio
        lam_s = ratio * lam_b if self.lam_s is None else self.lam_s
        return Dirty(float(lam_s), float(lam_b), problem.factors), lam_max

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None) -> DirtyMTL:
        """Fit; see :meth:`MSMTFL.fit`."""
        self._check_common()
        for name in ("lam_s", "lam_b"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        solution, problem, penalty = self._fit(X, y, task, sample_weight)
        _keep_parts(self, penalty, solution)
        self._warn(solution, problem)
        return self


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


def _keep_parts(model: Any, penalty: Dirty, solution: Solution) -> None:
    """Dirty's own attributes."""
    model.lam_s_, model.lam_b_ = penalty.lam_s, penalty.lam_b
    S, B = penalty.norm.split(solution.stages[-1].coef.T)
    single = np.ndim(model.coef_) == 1
    model.coef_specific_, model.coef_shared_ = (
        part.T[0] if single else np.ascontiguousarray(part.T) for part in (S, B)
    )


# ------------------------------------------------------------------ with search


class _CoupledSearch(GridSearch, Growing):
    """Grids of a row-coupled model."""

    _step = "points"
    _structure = ROWS
    _of_several = _Coupled._of_several

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


class L12MTLCV(_CoupledSearch):
    """L1,2 with lam chosen by cross-validation.

    Parameters and attributes are those of :class:`MSMTFLCV` but for theta, max_stages and positive. `lams`, 30 by default,
    go from the lam_max of :class:`L12MTL` to 1e-2 of it (1e-3 if every task has more samples than features). In
    `cv_results_` a point is `eligible`, and has scores, where every fold and all data were solved to the end; `finished`
    says so of all data. Where the errors of a fold have long been rising its points are gone over only a few times: such
    points have NaN in place of a score, and are not chosen. Whatever comes near the best is solved to the end.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import L12MTLCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 20)), np.repeat([0, 1, 2], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(90)
    >>> model = L12MTLCV(selection="1se").fit(X, y, task=task)
    >>> np.abs(model.coef_).max(axis=0).round(1)[:5]
    array([2., 0., 0., 1., 0.])
    """

    def __init__(
        self,
        lams=30,
        *,
        lam_min_ratio=None,
        cv=5,
        scoring="neg_nmse",
        selection="min",
        task_column=None,
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
        self.lam_min_ratio = lam_min_ratio
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.task_column = task_column
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

    def _grid(self, problem: Problem) -> GroupGrid:
        return group_grid(problem, self.lams, self.lam_min_ratio)

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None) -> L12MTLCV:
        """Fit; see :meth:`MSMTFLCV.fit`."""
        solution, problem = self._fit(X, y, task, sample_weight, groups)
        self.lams_ = self.surface_.grid.lam[:, 0]
        self.lam_, self.lam_max_ = float(self.lams_[self.best_point_[0]]), group_lam_max(problem)
        self._warn(solution, problem)
        return self


class DirtyMTLCV(_CoupledSearch):
    """DirtyMTL with lam_b and the ratio lam_s / lam_b chosen by cross-validation.

    Parameters
    ----------
    lams : int or array of shape (K,), default=30
        Values of lam_b: how many, for each ratio from its own largest down, or the values themselves.
    ratios : array of shape (L,), optional
        lam_s / lam_b; by default 1, 0.5, 0.2, 0.1 (the paper's) and 1/m. Those above 1 are l1,inf, as 1 is; unless lam_b is
        given as an array, those below 1/m are the lasso, as 1/m is: of equals one is kept.
    lam_min_ratio : float, optional
        By default 1e-2, or 1e-3 if every task has more samples than features.
    the others : as for :class:`MSMTFLCV`, without theta, max_stages and positive

    Attributes
    ----------
    lam_s_, lam_b_ : the choice
    coef_specific_, coef_shared_ : as for :class:`DirtyMTL`
    the others : as for :class:`MSMTFLCV`; `finished` in `cv_results_` as for :class:`L12MTLCV`

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import DirtyMTLCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 20)), np.repeat([0, 1, 2], 30)
    >>> y = 2 * X[:, 0] + np.where(task == 1, X[:, 5], 0) + 0.1 * rng.standard_normal(90)
    >>> model = DirtyMTLCV(selection="1se").fit(X, y, task=task)
    >>> [np.flatnonzero(w).tolist() for w in model.coef_]
    [[0], [0, 5], [0]]
    """

    def __init__(
        self,
        lams=30,
        *,
        ratios=None,
        lam_min_ratio=None,
        cv=5,
        scoring="neg_nmse",
        selection="min",
        task_column=None,
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
        self.lam_min_ratio = lam_min_ratio
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.task_column = task_column
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

    def _grid(self, problem: Problem) -> DirtyGrid:
        return dirty_grid(problem, self.lams, self.ratios, self.lam_min_ratio)

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None) -> DirtyMTLCV:
        """Fit; see :meth:`MSMTFLCV.fit`."""
        solution, problem = self._fit(X, y, task, sample_weight, groups)
        penalty = self.surface_.grid.penalty(*self.best_point_, problem.factors)
        self.lam_max_ = dirty_lam_max(problem, penalty.lam_s / penalty.lam_b)
        _keep_parts(self, penalty, solution)
        self._warn(solution, problem)
        return self
