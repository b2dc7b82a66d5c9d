"""Estimators that choose lam and theta themselves, by cross-validation or an information criterion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._data.moment_data import MomentData
from .._data.tasks import TaskData
from .._objective.penalties import ConcaveRows, Penalty
from .._objective.problem import Problem
from .._objective.theta import unit
from .._paths.choice import cross_fitted_score, warn_if_too_good
from .._paths.cross_validation import (
    CRITERIA,
    ERRORS,
    HeldOut,
    Scorer,
    Split,
    choose,
    cross_validate,
    fold_scores,
    information,
    read_splits,
    standard_errors,
)
from .._paths.grids import MIXTURE, Grid, default_grid, read_grid
from .._paths.solve import solve_surface
from .._paths.surface import Refitted, Solutions, StagedSolutions, Surface
from .._runtime.checks import check_count, check_positive, check_verbose
from .._runtime.progress import Progress, one_blas_thread, with_callbacks
from .._runtime.threads import count
from .._solvers.gram import BUDGET, Gram, follow, may_form, wants_whole
from .._solvers.make_problem import gather, largest_lam, release
from .._solvers.solvers import LASSOS, caches_for, lassos_for, solver_for
from .._solvers.stages import REPEATS, Solution, StageSolver, run_stages
from .._solvers.weighted_lasso import least_squares_on
from .base import MultiTaskModel
from .streaming import Welcoming

Choice = tuple[dict[str, np.ndarray], tuple[int, int], float]  # cv_results_, the point, its score


class GridSearch(MultiTaskModel):
    """What models that search a grid share. A model says which grid (`_grid`), how to solve it (`_solve`), and how to solve
    one of its points with certificates (`_refit`)."""

    def _grid(self, problem: Problem) -> Any:
        raise NotImplementedError

    def _solve(self, problem: Problem, grid: Any, grams: list[Gram], n_jobs: int | None, progress: Progress) -> Any:
        """The solutions at all points."""
        raise NotImplementedError

    def _refit(self, problem: Problem, surface: Any, k: int, l: int, grams: list[Gram]) -> tuple[Solution, Penalty]:
        """One of them once more."""
        raise NotImplementedError

    def _stages_again(
        self, surface: StagedSolutions, k: int, l: int, penalty: Penalty, solver: StageSolver, most: int
    ) -> Solution:
        """The stages of a point once more, as many as there, with certificates."""
        repeats = surface.ended[k, l] == REPEATS
        most = most if repeats else int(surface.n_stages[k, l])
        solution = run_stages(penalty, solver, max_stages=most, tol=self.tol, max_iter=self.max_iter or 0)
        if not (repeats or solution.converged) and solution.stages[-1].dual_gap <= self.tol:
            solution = replace(solution, reason=surface.ended[k, l])
        return solution

    def _check_params(self) -> None:
        self._check_common()
        check_verbose(self.verbose)
        if self.memory_budget is not None:
            check_positive("memory_budget", self.memory_budget)
        if self.selection not in ("min", "1se", *CRITERIA):
            raise ValueError(
                f"selection must be 'min', '1se' (with folds) or 'aic', 'bic', 'ebic' (without), got {self.selection!r}."
            )

    def _fit(self, X: Any, y: Any, task: Any, sample_weight: Any, groups: Any) -> tuple[Solution, Problem]:
        return self._fit_grid(*self._search_problem(X, y, task, sample_weight, groups))

    def _search_problem(
        self, X: Any, y: Any, task: Any, sample_weight: Any, groups: Any
    ) -> tuple[Problem, Any, list[Any], Any]:
        """The problem, the grid, the folds, and what scores predictions for these."""
        self._check_params()
        with one_blas_thread():
            problem = self._make_problem(X, y, task, sample_weight)
            grid = self._grid(problem)
            splits = read_splits(self.cv, X, y, groups, problem.data, self.random_state) if self._by_folds else []
            scorer = self._scorer(X, y, sample_weight) if self._by_folds else None
        return problem, grid, splits, scorer

    @property
    def _by_folds(self) -> bool:
        """Whether folds decide, and not an information criterion."""
        return self.selection not in CRITERIA

    def _fit_grid(
        self, problem: Problem, grid: Any, splits: list[Any], scorer: Any, work: Any = None
    ) -> tuple[Solution, Problem]:
        """Solve the grid on all data and on the folds, choose a point, and set the attributes of a fit there. `work` has
        `_caches`, `_search` and `_refit`, if others than the model's own are to do it."""
        work = self if work is None else work
        with one_blas_thread():
            side_by_side = min(count(self.n_jobs), max(len(splits), 1))
            budget = (self.memory_budget or BUDGET) / (1 + side_by_side)
            with Progress(grid.steps * (len(splits) + 1), self._step, self.verbose, self) as progress:
                whole = self._by_folds and self._wants_whole(problem)
                if whole and may_form(problem.designs, budget / (1 + len(splits))):
                    gather(problem, [split.train for split in splits], self.n_jobs)
                grams = work._caches(problem, reuse=whole, budget=budget, n_jobs=self.n_jobs)

                def solve(part: Problem, split: Split, **options: Any) -> Solutions:
                    at_once = whole or any(getattr(gram, "whole", None) is not None for gram in grams)
                    of_part = self._caches(part, reuse=at_once, budget=budget)
                    if not at_once:
                        follow(of_part, grams)
                    solutions = self._solve(part, grid, of_part, None, progress, **options)
                    return self._refitted(part, solutions, of_part) if self.relax else solutions

                surface, held_out = work._search(problem, grid, grams, splits, solve, scorer, progress)
                if held_out is not None:
                    results, (k, l), score = self._choose(surface, held_out, problem)
                    warn_if_too_good(held_out, problem, k, l)
                else:
                    results, (k, l), score = self._choose_without_folds(surface, problem)
            solution, penalty = work._refit(problem, surface, k, l, grams)
        self.surface_, self.cv_results_, self.best_score_ = surface, results, score
        self.best_point_, self.best_index_, self.n_splits_ = (k, l), k * grid.shape[1] + l, len(splits)
        self._store(problem, solution, penalty, grams)
        release(problem)
        return solution, problem

    def _scorer(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """What scores predictions of rows held out; None if their errors do."""
        if isinstance(self.scoring, str) and self.scoring in ERRORS:
            return None
        if isinstance(X, MomentData):
            raise ValueError(f"from statistics scoring must be one of {', '.join(ERRORS)}; got {self.scoring!r}.")
        return Scorer(self.scoring, X, y, sample_weight)

    def _search(
        self,
        problem: Problem,
        grid: Any,
        grams: list[Gram],
        splits: list[Any],
        solve: Any,
        scorer: Scorer | None,
        progress: Progress,
    ) -> tuple[Any, HeldOut | None]:
        """The solutions on all data, and the errors on the folds if there are any: in this order, so that these can begin
        with the Gram rows that all data have come to need."""
        surface = self._solve(problem, grid, grams, self.n_jobs, progress)
        return surface, self._validate(problem, splits, solve, scorer, progress) if splits else None

    def _validate(
        self, problem: Problem, splits: list[Any], solve: Any, scorer: Scorer | None, progress: Progress
    ) -> HeldOut:
        """Errors on the folds."""
        return cross_validate(problem, splits, solve, scorer=scorer, n_jobs=self.n_jobs, stop=progress.stop)

    def _refitted(self, problem: Problem, solutions: Any, grams: list[Gram]) -> Solutions:
        """What `relax` makes of solutions: it is this that is scored then, as it is this that is fitted in the end."""
        lassos = lassos_for(problem, grams)
        return Refitted.of(solutions, lambda place: least_squares_on(lassos, solutions.coefs([place])[0]))

    @property
    def cross_fitted_score_(self) -> float:
        """The mean score of the folds, each at the point of the grid that the other folds choose: what `best_score_` is too
        good for."""
        return cross_fitted_score(self)

    _step = "lams"  # what a step of the progress bar is
    _structure = LASSOS  # of the stages

    def _caches(self, problem: Problem, **options: Any) -> Any:
        """What is kept of Gram matrices."""
        return caches_for(problem, self._structure, **options)

    def _wants_whole(self, problem: Problem) -> bool:
        """Whether all data and the folds shall have whole Gram matrices from the start."""
        return True

    def _columns(self, surface: Any, problem: Problem) -> dict[str, np.ndarray]:
        """The columns of `cv_results_` that do not come from folds."""
        return {**surface.parameters, "n_rows": surface.n_rows, "n_entries": surface.n_entries}

    def _choose(self, surface: Solutions, held_out: HeldOut, problem: Problem) -> Choice:
        scores = fold_scores(held_out, problem.data, self.scoring)
        scores = np.where(held_out.complete & surface.complete, scores, np.nan)
        mean = scores.mean(axis=0)
        columns = self._columns(surface, problem) | {"eligible": np.isfinite(mean)}
        columns["mean_test_score"] = mean
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # scores of -inf: counts predicted beyond the range of floats
            columns["std_test_score"] = scores.std(axis=0)
            columns["se_test_score"] = standard_errors(scores)
        columns["rank_test_score"] = np.searchsorted(np.sort(-mean.ravel()), -mean) + 1
        for f, of_fold in enumerate(scores):
            columns[f"split{f}_test_score"] = of_fold
        results = {name: values.reshape(-1) for name, values in columns.items()}
        mse = np.where(held_out.complete[:, None], held_out.mse, np.nan)
        results[f"test_{problem.error}"] = _cells(mse)
        results["test_weight"] = _cells(np.broadcast_to(held_out.weight[..., None, None], held_out.mse.shape))
        k, l = choose(scores, surface, self.selection)
        return results, (k, l), float(mean[k, l])

    def _choose_without_folds(self, surface: Solutions, problem: Problem) -> Choice:
        values = np.where(surface.complete, information(surface, problem.data, self.selection), np.nan)
        columns = self._columns(surface, problem) | {"eligible": np.isfinite(values)}
        columns[self.selection] = values
        k, l = choose(-values[None], surface, "min")
        return {name: column.reshape(-1) for name, column in columns.items()}, (k, l), float(-values[k, l])


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

    def _solve(
        self, problem: Problem, grid: Grid, grams: list[Gram], n_jobs: int | None, progress: Progress
    ) -> Surface:
        return solve_surface(
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
        parameters, units = surface.parameters, unit(1.0, problem.m, problem.rho_bar) * surface.lams[:, None]
        ratios = {f"{name}_ratio": parameters[name] / units for name in ("theta", "theta_entry") if name in parameters}
        first = {name: parameters[name] for name in ("lam", "theta")} | {"theta_ratio": ratios["theta_ratio"]}
        return first | ratios | super()._columns(surface, problem) | {"n_stages": surface.n_stages}

    def _refit(
        self, problem: Problem, surface: Surface, k: int, l: int, grams: list[Gram], solver: Any = None
    ) -> tuple[Solution, ConcaveRows]:
        penalty = surface.penalty(k, l, problem.factors)
        if solver is None:
            solver = solver_for(problem, penalty, grams=grams, n_jobs=self.n_jobs, near=surface.coef(k, l))
        solution = self._stages_again(surface, k, l, penalty, solver, self._stages())
        self.lams_, self.thetas_ = surface.lams, surface.thetas
        self.lam_, self.lam_max_ = penalty.lam, largest_lam(problem)
        return solution, penalty


def _cells(values: Floats) -> np.ndarray:
    """(folds, m, K, L) as one entry (folds, m) per point, so that the results make a table."""
    out = np.empty(values.shape[2] * values.shape[3], dtype=object)
    for p, (k, l) in enumerate(np.ndindex(values.shape[2:])):
        out[p] = values[:, :, k, l]
    return out


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


class MSMTFLCV(ThetaSearch, Welcoming):
    r"""MSMTFL with lam and theta chosen by cross-validation: give it data, it does the rest.

    The whole (lam, theta) surface is solved on every training fold, for about the price of one lasso path each; see
    :func:`regularization_surface`. All folds use the same lams and thetas, taken from all data.

    Parameters
    ----------
    lams : int or array of shape (K,), default=30
        How many, from lam_max to `lam_min_ratio` lam_max, or the values themselves in any order.
    theta_ratios : array of shape (L,), optional
        theta in units of m lam / rho_bar (lam that of rows and entries together); by default six from 1 to max(50, 11 m),
        and inf: the lasso is always among the candidates. Without `entry_shares` every second of them is searched.
    thetas : array of shape (L,) or (K, L), optional
        Instead of ratios; inf allowed.
    lam_min_ratio : float, optional
        By default 1e-3, or 1e-4 if every task has more samples than features.
    entry_shares : array of numbers from 0 to 1, optional
        Shares s of lam that go to a penalty on every entry: lam_entry = s lam, (1 - s) lam for the rows. 0 is the paper's
        model, 1 the capped lasso of every task. By default 0 and, at one theta, 0.5; where
        thetas or theta_ratios are given, 0 alone; where entry_ratios are, 0, 0.5 and 1.
    entry_ratios : array, optional
        theta_entry in units of m lam / rho_bar; by default 0.5 and 2 (in the default grid 0.5 alone).
    penalty : as for :class:`MSMTFL`
    cv : int, splitter or iterable of (train, test), default=5
        A number: folds stratified by task (:class:`TaskKFold`); for a 2-D y rows are dealt out, a row being held out in
        all tasks. Every training fold needs rows of every task.
    scoring : {"neg_nmse", "neg_amse", "neg_mse", "neg_deviance"}, scorer name or callable, default="neg_nmse"
        Held-out squared error of a task over its variance (its mean square; 1), averaged over tasks with the weights of
        the rows held out; the loss itself ("neg_deviance"; with loss="huber" it keeps outliers that are held out from
        deciding); or a scikit-learn scorer. Greater is better.
    selection : {"min", "1se", "aic", "bic", "ebic"}, default="min"
        The best mean score; or the simplest model within one standard error of it (fewest features, then coefficients,
        then the largest lam); or an information criterion, without folds. "aic" and "bic" charge for degrees of freedom,
        which are known where the penalty is convex: so they compare the points with theta = inf, the lassos (of
        :class:`SharedMTLCV` all points without a cap), and are NaN at the others. "ebic" charges for the search as well, and
        compares all points.
    task_column, max_stages, loss, epsilon, fit_intercept, standardize, positive, penalty_factors, relax, tol, max_iter,
    unknown_task
        As for :class:`MSMTFL`. With `relax` every point is refitted on every fold, and scored so; an information criterion
        judges the models as penalised.
    random_state : int, RandomState or None, default=0
        Deals out the rows when `cv` is a number.
    n_jobs : int, optional
        Threads over folds. The result is the same to rounding.
    memory_budget : float, optional
        Bytes for Gram matrices, by default 1 GiB.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    lam_, theta_, lam_entry_, theta_entry_ : the choice; lam_entry_ = 0 if it is the paper's model
    best_point_, best_index_, best_score_ : its place (k, l) in the grid and in `cv_results_`; its mean score (of an
        information criterion: minus its value). Being the best of many on the same folds, it is no estimate of the score on
        new data
    cross_fitted_score_ : such an estimate: the mean score of the folds, each at the point that the other folds choose
    surface_ : :class:`Surface` on all data
    cv_results_ : dict of arrays, one entry per point (lam outer), ready for a table: lam, theta, theta_ratio, n_rows,
        n_entries, n_stages, eligible, mean_test_score, std_test_score, se_test_score, rank_test_score,
        split0_test_score, ...; test_mse (test_deviance, if that is the scoring) and test_weight hold an array (folds, m)
        per point. Without folds: the criterion instead of scores, NaN where it is not known. A point is `eligible`,
        and has scores, where every fold
        and all data were solved just as :class:`MSMTFL` solves them. A search stops short of stages that would leave more
        features un-penalised than most tasks have independent samples: such points have NaN and are not chosen
    lams_, thetas_, n_splits_
    coef_, intercept_, tasks_, stages_, certificate_ ... : those of :class:`MSMTFL` at (lam_, theta_), refitted on all data

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFLCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 20)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(90)
    >>> model = MSMTFLCV().fit(X, y, task=task)
    >>> model.coef_.round(1)[:, [0, 3]]
    array([[ 2., -1.],
           [ 2., -1.],
           [ 2., -1.]])
    >>> model.thetas_.shape, len(model.cv_results_["mean_test_score"])
    ((30, 5), 150)
    """

    def __init__(
        self,
        lams=30,
        *,
        theta_ratios=None,
        thetas=None,
        lam_min_ratio=None,
        entry_shares=None,
        entry_ratios=None,
        penalty="capped",
        cv=5,
        scoring="neg_nmse",
        selection="min",
        task_column=None,
        max_stages=10,
        loss="squared",
        epsilon=1.35,
        fit_intercept=True,
        standardize=False,
        positive=False,
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
        self.theta_ratios = theta_ratios
        self.thetas = thetas
        self.lam_min_ratio = lam_min_ratio
        self.entry_shares = entry_shares
        self.entry_ratios = entry_ratios
        self.penalty = penalty
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.task_column = task_column
        self.max_stages = max_stages
        self.loss = loss
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.positive = positive
        self.penalty_factors = penalty_factors
        self.relax = relax
        self.tol = tol
        self.max_iter = max_iter
        self.unknown_task = unknown_task
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_budget = memory_budget
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None) -> MSMTFLCV:
        """Fit.

        Parameters
        ----------
        X, y, task, sample_weight : as for :meth:`MSMTFL.fit`; held-out errors use the weights too
        groups : (N,) labels or "identical", optional
            Rows of one group (a patient, a speaker) stay in one fold; "identical": those with the same features.

        Returns
        -------
        self
        """
        self._fit_point(*self._search_problem(X, y, task, sample_weight, groups))
        return self


class LassoMTLCV(StageSearch, Welcoming):
    """Independent lassos, one per task, with one lam for all chosen by cross-validation: the baseline of MSMTFLCV.

    Parameters and attributes are those of :class:`MSMTFLCV` but for theta and max_stages.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import LassoMTLCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((60, 4)), np.repeat([0, 1], 30)
    >>> y = X[:, 0] + 0.1 * rng.standard_normal(60)
    >>> model = LassoMTLCV(selection="1se").fit(X, y, task=task)
    >>> np.count_nonzero(model.coef_, axis=1)
    array([1, 1])
    """

    def __init__(
        self,
        lams=50,
        *,
        lam_min_ratio=None,
        cv=5,
        scoring="neg_nmse",
        selection="min",
        task_column=None,
        fit_intercept=True,
        standardize=False,
        positive=False,
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
        self.positive = positive
        self.penalty_factors = penalty_factors
        self.relax = relax
        self.tol = tol
        self.max_iter = max_iter
        self.unknown_task = unknown_task
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_budget = memory_budget
        self.verbose = verbose

    def _grid(self, problem: Problem) -> Grid:
        return read_grid(problem, self.lams, thetas=[np.inf], lam_min_ratio=self.lam_min_ratio)

    def _stages(self) -> int:
        return 1

    @with_callbacks
    def fit(self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None) -> LassoMTLCV:
        """Fit; see :meth:`MSMTFLCV.fit`."""
        self._warn(*self._fit(X, y, task, sample_weight, groups))
        return self
