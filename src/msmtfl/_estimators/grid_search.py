"""Searching a grid: folds or an information criterion choose one of its points, which is fitted to all data."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from numbers import Integral
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._data.designs import Data, Floats, Ints
from .._data.level_folds import LeaveTasksOut
from .._data.task_data import TaskData
from .._objective.penalties import Penalty
from .._objective.problem import Problem
from .._paths.conformal import held_out_scores
from .._paths.early_stopping import FoldRun, Front, search
from .._paths.refitted import Refitted
from .._paths.solutions import Solutions, StagedSolutions
from .._paths.validation.choice import choose, standard_errors
from .._paths.validation.cross_validation import fold_scores
from .._paths.validation.errors import HeldOut
from .._paths.validation.folds import read_splits
from .._paths.validation.held_out import Split
from .._paths.validation.information import CRITERIA, information
from .._paths.validation.left_out import ForAllTasks
from .._paths.validation.other_folds import OVER_RATIOS, cross_fitted_over, cross_fitted_score
from .._paths.validation.remarks import warn_if_at_the_end, warn_if_too_good
from .._paths.validation.scorers import ERRORS, Scorer
from .._runtime.checks import check_positive, check_share, check_verbose
from .._runtime.progress import Progress, one_blas_thread
from .._solvers.gram import BUDGET, Gram, follow, may_form
from .._solvers.lassos.weighted_lasso import least_squares_on
from .._solvers.problems.make_problem import of_tasks
from .._solvers.problems.priors import gather, release
from .._solvers.solvers import LASSOS, caches_for
from .._solvers.stages import REPEATS, Solution, StageSolver, run_stages
from .._solvers.task_lassos import lassos_for
from .base import MultiTaskModel
from .cross_fitted import cross_fitted
from .fitted import forget, require_offset
from .new_tasks import leave_tasks, left_out, ways
from .survival import held_out_concordance

# Features from which on threads gain something: with fewer, most of a search with squared errors is spent in Python, which
# one thread at a time can run (two threads on 139 tasks with 28 features took longer than one).
WIDE = 256
FOLD = re.compile(r"split\d+_test_score")
Choice = tuple[dict[str, np.ndarray], tuple[int, int], float]  # cv_results_, the point, its score


class GridSearch(MultiTaskModel):
    """What models that search a grid share. A model says which grid (`_grid`), what solves it (`_walker`), and how to solve
    one of its points with certificates (`_refit`)."""

    _ends_early = True  # whether columns of the grid end where held-out errors have turned

    def _grid(self, problem: Problem) -> Any:
        raise NotImplementedError

    def _walker(self, problem: Problem, grid: Any, grams: Any, n_jobs: int | None, progress: Progress) -> Any:
        """What solves the grid."""
        raise NotImplementedError

    def _solve(self, problem: Problem, grid: Any, grams: Any, n_jobs: int | None, progress: Progress) -> Any:
        """The solutions at all points."""
        walker = self._walker(problem, grid, grams, n_jobs, progress)
        walker.advance(np.full(grid.shape[1], grid.shape[0]))
        walker.finish(np.zeros(grid.shape, dtype=bool))
        return walker.solutions()

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

    def _fit(
        self, X: Any, y: Any, task: Any, sample_weight: Any, groups: Any, offset: Any = None
    ) -> tuple[Solution, Problem]:
        return self._fit_grid(*self._search_problem(X, y, task, sample_weight, groups, offset))

    def _search_problem(
        self, X: Any, y: Any, task: Any, sample_weight: Any, groups: Any, offset: Any = None
    ) -> tuple[Problem, Any, list[Any], Any]:
        """The problem, the grid, the folds, and what scores predictions for these."""
        self._check_params()
        with one_blas_thread():
            forget(self, "l1_ratio_")
            problem = self._make_problem(X, y, task, sample_weight, offset)
            grid = self._grid(problem)
            splits = self._splits(self.cv, X, y, groups, problem) if self._by_folds else []
            scorer = self._scorer(X, y, sample_weight) if self._by_folds else None
        return problem, grid, splits, scorer

    def _splits(self, cv: Any, X: Any, y: Any, groups: Any, problem: Problem) -> list[Any]:
        """The folds, some of which may leave out whole tasks."""
        if isinstance(cv, LeaveTasksOut) and cv.task is None and cv.task_column is None:
            cv = LeaveTasksOut(
                cv.level, n_splits=cv.n_splits, task_column=self.task_column, random_state=cv.random_state
            )
        return read_splits(cv, X, y, groups, problem.data, self.random_state, new_tasks=True)

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
            budget = (self.memory_budget or BUDGET) / (1 + len(splits))
            ratios = self._l1_ratios()
            steps = grid.steps * (len(splits) + 1) * len(ratios)
            with Progress(steps, self._step, self.verbose, self) as progress:
                whole = self._by_folds and self._wants_whole(problem)
                if whole and may_form(problem.designs, budget) and not leave_tasks(splits):
                    gather(problem, [split.train for split in splits], self.n_jobs)
                grams = work._caches(problem, reuse=whole, budget=budget, n_jobs=self.n_jobs)
                parts: dict[int, tuple[Problem, Any]] = {}  # training folds and their Gram matrices, if there are turns

                def begin(split: Split, grid: Any, ratio: float) -> Any:
                    left = left_out(self, problem, split)
                    at_once = whole or left is not None or _whole(grams)
                    if id(split) not in parts:
                        of_fold = problem if left is None else of_tasks(problem, left.known)
                        part = self._training(of_fold, split.train)
                        both = part, self._caches(part, reuse=at_once, budget=budget)
                        if len(ratios) > 1:
                            parts[id(split)] = both
                    else:
                        both = parts[id(split)]
                    part, of_part = replace(both[0], l1_ratio=ratio), both[1]
                    grid = grid if left is None else self._grid_of(grid, left.known)
                    walker = self._walker(part, grid, of_part, None, progress)
                    scored = partial(self._refitted, part, grams=of_part) if self.relax else lambda found: found
                    if left is not None:
                        return walker, lambda: None, lambda found: ForAllTasks.of(problem, left, scored(found))
                    return walker, (lambda: None) if at_once else partial(follow, of_part, grams), scored

                found = []
                for ratio in ratios:
                    one = problem if ratio == problem.l1_ratio else replace(problem, l1_ratio=ratio)
                    of_one = grid if one is problem else self._grid(one)
                    start = partial(begin, grid=of_one, ratio=ratio)
                    folds = [FoldRun(one, split, start, scorer, of_one.shape) for split in splits]
                    surface, held_out = work._search(one, of_one, grams, folds, progress)
                    choice = self._choice(one, surface, held_out)
                    found.append((one, of_one, folds, surface, held_out, choice))
                progress.finish()
            scores = np.array([self._best_of(choice[0]) for *_, choice in found])
            place = int(np.nanargmax(scores)) if np.isfinite(scores).any() else 0
            problem, grid, folds, surface, held_out, (results, (k, l), score) = found[place]
            if held_out is not None:
                warn_if_too_good(held_out, problem, k, l)
                if self._ends_by_chance():
                    warn_if_at_the_end(held_out, problem, _folds(results, grid.shape), surface.parameters)
            solution, penalty = work._refit(problem, surface, k, l, grams)
        if hasattr(self, "l1_ratio"):
            self.l1_ratio_ = problem.l1_ratio
        forget(self, "l1_ratio_scores_")
        if len(ratios) > 1:
            results["l1_ratio"] = np.full(grid.shape[0] * grid.shape[1], problem.l1_ratio)
            if held_out is not None and len(splits) > 1:
                known = {"n_splits_": len(splits), "selection": self.selection}
                searches: Any = [SimpleNamespace(cv_results_=choice[0], **known) for *_, choice in found]
                results[OVER_RATIOS] = np.full(grid.shape[0] * grid.shape[1], cross_fitted_over(searches))
            self.l1_ratio_scores_ = scores
        self.surface_, self.cv_results_, self.best_score_ = surface, results, score
        self.best_point_, self.best_index_, self.n_splits_ = (k, l), k * grid.shape[1] + l, len(splits)
        self._store(problem, solution, penalty, grams)
        self._keep_scores(problem, folds, k, l)
        release(problem)
        return solution, problem

    def _choice(self, problem: Problem, surface: Any, held_out: HeldOut | None) -> Choice:
        """What folds or a criterion choose of a surface."""
        if held_out is None:
            return self._choose_without_folds(surface, problem)
        return self._choose(surface, held_out, problem)

    def _best_of(self, results: dict[str, np.ndarray]) -> float:
        """The best score in `cv_results_`, greater being better."""
        values = results["mean_test_score"] if self._by_folds else -results[self.selection]
        return float(np.nanmax(values)) if np.isfinite(values).any() else float("nan")

    def _l1_ratios(self) -> list[float]:
        """Those that are tried, in turn, on the same folds and Gram matrices."""
        given = getattr(self, "l1_ratio", 1.0)  # partial pooling has ridges only
        if isinstance(given, (list, tuple, np.ndarray)):
            ratios = list(given)
            if not ratios:
                raise ValueError("l1_ratio is empty: give a number from 0 to 1, or several.")
            for ratio in ratios:
                check_share("l1_ratio", ratio)
            return list(dict.fromkeys(float(ratio) for ratio in ratios))
        check_share("l1_ratio", given)
        return [float(given)]

    def _chosen_l1_ratio(self) -> float:
        ratios = self._l1_ratios()
        return float(getattr(self, "l1_ratio_", ratios[0])) if len(ratios) > 1 else ratios[0]

    def _keep_scores(self, problem: Problem, folds: list[FoldRun], k: int, l: int) -> None:
        """What intervals are made of, where the rows are at hand that folds hold out (`_store` has forgotten any other)."""
        if leave_tasks([fold.split for fold in folds]):  # they say nothing of new samples of known tasks
            return
        fits = [fold.fit_at(k, l) for fold in folds] if isinstance(problem.data, TaskData) else []
        known = [fit for fit in fits if fit is not None]
        if known and len(known) == len(fits) and not problem.loss.levelled:
            self.concordance_ = held_out_concordance(problem.data, known)
        elif known and len(known) == len(fits):
            classes = problem.error == "log_loss"
            others = ways(self, np.atleast_2d(self.feature_means_)[:: problem.classes], self.feature_sd_)
            scores = held_out_scores(problem.data, known, problem.loss, classes, folds[0].split.groups, others)
            if not (classes or problem.loss.squared):
                scores = replace(scores, crossed=cross_fitted(self, problem.data, folds, self.surface_.last.shape[1]))
            self.held_out_ = scores

    def _scorer(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """What scores predictions of rows held out; None if their errors do."""
        if isinstance(self._scored_by(), str) and self._scored_by() in ERRORS:
            return None
        if isinstance(X, Data):
            raise ValueError(f"from statistics scoring must be one of {', '.join(ERRORS)}; got {self.scoring!r}.")
        return Scorer(self.scoring, X, y, sample_weight)

    def _search(
        self, problem: Problem, grid: Any, grams: Any, folds: list[FoldRun], progress: Progress
    ) -> tuple[Any, HeldOut | None]:
        """The solutions on all data, and the errors on the folds if there are any."""
        n_jobs = self.n_jobs if problem.d >= WIDE or not problem.loss.squared else None
        walker = self._walker(problem, grid, grams, n_jobs, progress)
        if not folds:
            return self._search_without_folds(walker, problem, grid), None
        front, follows = self._front(grid, folds), not _whole(grams)
        held_out = search(
            front, walker, folds, problem, self._scored_by(), n_jobs=n_jobs, stop=progress.stop, follows=follows
        )
        return walker.solutions(), held_out

    def _front(self, grid: Any, folds: list[FoldRun]) -> Front:
        """How far down the grid to go: not to its end where the smallest of our own errors decides. (The simplest model
        within one standard error may lie anywhere, and of other scores one does not know how they go on.)"""
        known = all(fold.scorer is None or getattr(fold.scorer, "is_log_loss", False) for fold in folds)
        early = self._ends_early and self.selection == "min" and known
        return Front(grid.strength, grid.leader, grid.block, early, getattr(grid, "convex", None))

    def _search_without_folds(self, walker: Any, problem: Problem, grid: Any) -> Solutions:
        """All points, and those longer that would be chosen if they were finished."""
        walker.advance(np.full(grid.shape[1], grid.shape[0]))
        while True:
            surface: Solutions = walker.solutions()
            values = information(surface, problem.data, self.selection)
            best = values[surface.complete].min(initial=np.inf)
            if not walker.finish(~surface.complete & (values < best)):
                return surface

    def _refitted(self, problem: Problem, solutions: Any, grams: Any) -> Solutions:
        """What `relax` makes of solutions: it is this that is scored then, as it is this that is fitted in the end."""
        lassos = lassos_for(problem, grams)
        return Refitted.of(solutions, lambda place: least_squares_on(lassos, solutions.coefs([place])[0]))

    def complete_surface(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, offset: Any = None
    ) -> Any:
        """Solve the points of the grid that the search has left out, so that `surface_` has all of them.

        A search ends where held-out errors have turned, as most of its time would go into the points beyond.
        They have no part in the choice, and none in `cv_results_`, but can be of interest, as for a plot of
        the whole path.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (N, d)
            Samples of all tasks: those that the model was fitted to.
        y : array-like of shape (N,) or (N, m)
            Targets, as given to `fit`.
        task : array-like of shape (N,), optional
            The label of the task of every sample, as given to `fit`.
        sample_weight : array-like of shape (N,) or (N, m), optional
            Weights of the samples, as given to `fit`.
        offset : array-like of shape (N,) or (N, m), optional
            The offset, as given to `fit`.

        Returns
        -------
        estimator
            The fitted model itself, `surface_` being complete.
        """
        check_is_fitted(self, "surface_")
        require_offset(self, offset)
        other = clone(self)
        if hasattr(self, "l1_ratio"):
            other.set_params(l1_ratio=self._chosen_l1_ratio())
        with one_blas_thread():
            problem = other._make_problem(X, y, task, sample_weight, offset)
            grid = self._same_grid(other._grid(problem))
            known = self.surface_.strength
            if known.shape != grid.shape or not np.allclose(known, grid.strength, rtol=1e-9):
                raise ValueError(
                    "these are not the samples that the model was fitted to: they make another grid. Give X, y, task, "
                    "sample_weight and offset as they were given to `fit`."
                )
            grams = other._caches(problem, reuse=True, budget=self.memory_budget or BUDGET, n_jobs=self.n_jobs)
            with Progress(grid.steps, self._step, self.verbose) as progress:
                self.surface_ = other._solve(problem, grid, grams, self.n_jobs, progress)
            release(problem)
        return self

    def _grid_of(self, grid: Any, known: Ints) -> Any:
        """A grid for some of the tasks."""
        return grid

    def _same_grid(self, grid: Any) -> Any:
        """A grid made anew, with what the fit knew of it beside the samples."""
        return grid

    def _part_with_data(self) -> None:
        """Leave the data behind, for another process; unlike pickling, without computing what would need them first."""
        self.surface_ = replace(self.surface_, problem=None)

    def _meet_data(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any = None) -> None:
        """Take the data up again that were left behind: those that the model was fitted to."""
        if self.surface_.problem is not None:
            return
        with one_blas_thread():
            problem = clone(self)._make_problem(X, y, task, sample_weight, offset)
            release(problem)
        self.surface_ = replace(self.surface_, problem=problem)

    @property
    def cross_fitted_score_(self) -> float:
        """An estimate of the score on new data: the mean score of the folds, each at the point that the others choose.

        `best_score_` is no such estimate: it is the best of many on the same folds.
        """
        return cross_fitted_score(self)

    def _ends_by_chance(self) -> bool:
        """Whether the grid may end too soon without the user knowing: of lams that were given one knows where they end."""
        return isinstance(self.lams, Integral)

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
        scores = fold_scores(held_out, problem.data, self._scored_by())
        scores = np.where(held_out.complete & surface.complete, scores, np.nan)
        mean = scores.mean(axis=0)
        columns = self._columns(surface, problem)
        solved = np.asarray(held_out.reached.all(axis=0))
        for name in {"n_rows", "n_entries", "n_stages"} & columns.keys():
            columns[name] = np.where(solved, columns[name], -1)
        columns |= {"solved": solved, "eligible": np.isfinite(mean)}
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


def _whole(grams: Any) -> bool:
    """Whether Gram matrices are at hand as a whole, or those of common values: no fold waits for rows of these."""
    return not isinstance(grams, list) or any(getattr(gram, "whole", None) is not None for gram in grams)


def _folds(results: dict[str, np.ndarray], shape: tuple[int, int]) -> Floats:
    """(folds, K, L): scores, from the columns of `cv_results_`."""
    return np.array([values.reshape(shape) for name, values in results.items() if FOLD.fullmatch(name)])


def _cells(values: Floats) -> np.ndarray:
    """(folds, m, K, L) as one entry (folds, m) per point, so that the results make a table."""
    out = np.empty(values.shape[2] * values.shape[3], dtype=object)
    for p, (k, l) in enumerate(np.ndindex(values.shape[2:])):
        out[p] = values[:, :, k, l]
    return out
