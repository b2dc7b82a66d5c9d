"""Estimators that choose lam and theta themselves, by cross-validation or an information criterion."""

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

from .._data.designs import Data, Floats
from .._data.tasks import TaskData
from .._objective.penalties import ConcaveRows, Penalty
from .._objective.problem import Problem
from .._objective.theta import unit
from .._paths.choice import OVER_RATIOS, cross_fitted_over, cross_fitted_score, warn_if_at_the_end, warn_if_too_good
from .._paths.conformal import held_out_scores
from .._paths.cross_validation import (
    CRITERIA,
    ERRORS,
    HeldOut,
    Scorer,
    Split,
    choose,
    fold_scores,
    information,
    read_splits,
    standard_errors,
)
from .._paths.early_stopping import FoldRun, Front, search
from .._paths.grids import MIXTURE, Grid, default_grid, read_grid
from .._paths.solve import StagePaths
from .._paths.surface import Refitted, Solutions, StagedSolutions, Surface
from .._runtime.checks import check_count, check_positive, check_share, check_verbose
from .._runtime.progress import Progress, one_blas_thread, with_callbacks
from .._solvers.gram import BUDGET, Gram, follow, may_form, wants_whole
from .._solvers.make_problem import gather, largest_lam, release
from .._solvers.solvers import LASSOS, caches_for, lassos_for, solver_for
from .._solvers.stages import REPEATS, Solution, StageSolver, run_stages
from .._solvers.weighted_lasso import least_squares_on
from .added_tasks import AddTaskMixin
from .base import MultiTaskModel, forget, require_offset
from .streaming import Growing

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
            budget = (self.memory_budget or BUDGET) / (1 + len(splits))
            ratios = self._l1_ratios()
            steps = grid.steps * (len(splits) + 1) * len(ratios)
            with Progress(steps, self._step, self.verbose, self) as progress:
                whole = self._by_folds and self._wants_whole(problem)
                if whole and may_form(problem.designs, budget):
                    gather(problem, [split.train for split in splits], self.n_jobs)
                grams = work._caches(problem, reuse=whole, budget=budget, n_jobs=self.n_jobs)
                parts: dict[int, tuple[Problem, Any]] = {}  # training folds and their Gram matrices, if there are turns

                def begin(split: Split, grid: Any, ratio: float) -> Any:
                    at_once = whole or _whole(grams)
                    if id(split) not in parts:
                        part = self._training(problem, split.train)
                        both = part, self._caches(part, reuse=at_once, budget=budget)
                        if len(ratios) > 1:
                            parts[id(split)] = both
                    else:
                        both = parts[id(split)]
                    part, of_part = replace(both[0], l1_ratio=ratio), both[1]
                    walker = self._walker(part, grid, of_part, None, progress)
                    scored = partial(self._refitted, part, grams=of_part) if self.relax else lambda found: found
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
        fits = [fold.fit_at(k, l) for fold in folds] if isinstance(problem.data, TaskData) else []
        known = [fit for fit in fits if fit is not None]
        if known and len(known) == len(fits):
            self.held_out_ = held_out_scores(
                problem.data, known, problem.loss, problem.error == "log_loss", folds[0].split.groups
            )

    def _scorer(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """What scores predictions of rows held out; None if their errors do."""
        if isinstance(self.scoring, str) and self.scoring in ERRORS:
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
            front, walker, folds, problem, self.scoring, n_jobs=n_jobs, stop=progress.stop, follows=follows
        )
        return walker.solutions(), held_out

    def _front(self, grid: Any, folds: list[FoldRun]) -> Front:
        """How far down the grid to go: not to its end where the smallest of our own errors decides. (The simplest model
        within one standard error may lie anywhere, and of other scores one does not know how they go on.)"""
        known = all(fold.scorer is None or getattr(fold.scorer, "is_log_loss", False) for fold in folds)
        early = self._ends_early and self.selection == "min" and known
        return Front(grid.strength, grid.leader, grid.block, early)

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
        scores = fold_scores(held_out, problem.data, self.scoring)
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


class MSMTFLCV(ThetaSearch, Growing, AddTaskMixin):
    """MSMTFL with lam and theta chosen by cross-validation: give it data, it does the rest.

    The whole grid of lam and theta is solved on every training fold, for about the price of one lasso path
    each; see :func:`regularization_surface`. All folds use the same values, taken from all data. The model
    is then fitted to all data at the point that was chosen. With `relax` every point is refitted on every
    fold, and scored so; an information criterion judges the models as penalised.

    Parameters
    ----------
    lams : int or array-like of shape (K,), default=30
        How many values of lam the grid has, geometrically spaced from `lam_max_` down to
        `lam_min_ratio` times that; or the values themselves, in any order.
    theta_ratios : array-like of shape (L,), optional
        Values of theta in units of m lam / rho_bar, with lam that of features and entries
        together and rho_bar the mean square of the columns. By default six from 1 to
        max(50, 11 m), and inf, so that the lasso is always among the candidates. Where
        `entry_shares` is left at its default, every second of them is searched.
    thetas : array-like of shape (L,) or (K, L), optional
        Values of theta themselves, instead of ratios; inf is allowed.
    lam_min_ratio : float, optional
        The smallest lam of the grid over the largest. By default 1e-3, or 1e-4 if every
        task has more samples than features.
    entry_shares : array-like of numbers from 0 to 1, optional
        Shares s of lam that go to a penalty on every coefficient by itself: lam_entry = s
        lam, which leaves (1 - s) lam for the features. 0 is the paper's model, 1 the capped
        lasso of every task. By default 0 and, at one theta, 0.5; where `thetas` or
        `theta_ratios` are given, 0 alone; where `entry_ratios` are given, 0, 0.5 and 1.
    entry_ratios : array-like, optional
        Values of theta_entry in units of m lam / rho_bar. By default 0.5 and 2 (in the
        default grid 0.5 alone).
    penalty : {"capped", "mcp", "scad", "log", "lq"} or a shape, default="capped"
        The concave function that stands in place of min(t, theta); see
        :mod:`msmtfl._objective.shapes`.
    cv : int, splitter or iterable of (train, test), default=5
        The folds. A number means that many folds stratified by task (:class:`TaskKFold`);
        with a 2-D y a sample is held out in all tasks at once. Every training fold needs
        samples of every task.
    scoring : {"neg_nmse", "neg_amse", "neg_mse", "neg_deviance"}, scorer name or callable, default="neg_nmse"
        What is compared; greater is better. "neg_nmse", "neg_amse" and "neg_mse" are minus
        a task's held-out squared error over the variance of its targets, over their mean
        square, and as it is, averaged over tasks with the weights of the samples held out.
        "neg_deviance" is minus the loss itself; with loss="huber" it keeps outliers that
        are held out from deciding. Anything else is a scorer of scikit-learn.
    selection : {"min", "1se", "aic", "bic", "ebic"}, default="min"
        How the point of the grid is chosen. "min": the best mean score. "1se": the simplest
        model within one standard error of it (the fewest features, then the fewest
        coefficients, then the largest lam). The others are information criteria, which need
        no folds. "aic" and "bic" charge for degrees of freedom, which are known where the
        penalty is convex: so they compare the points without a cap, and are NaN at the
        others. "ebic" charges for the search as well, and compares all points.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    max_stages : int, default=10
        The largest number of stages; with 1 the model is the lasso.
    loss : {"squared", "poisson", "gamma", "tweedie", "huber"}, default="squared"
        The loss. "poisson" is for counts (or any y >= 0), "gamma" for amounts y > 0 whose
        spread is proportional to their mean (costs, durations), "tweedie" for amounts y >= 0
        of which many are exactly 0 (claims, rainfall): their variance is proportional to the
        mean to the power 1.5, or to another one between 1 and 2, as in "tweedie(1.7)". These
        three have the mean exp(x'w + b), which is what is predicted: in place of the squared
        error stands the unit deviance, for counts 2 (mu - y log mu + y log y - y), and lam is
        2 / m times the alpha of other generalised linear models. "huber" is for targets with
        outliers: the squared error r^2 up to |r| = e_i, and 2 e_i |r| - e_i^2 beyond, with
        e_i = `epsilon` times `scale_` of the task. `lam_max_` is taken at the fit of
        intercepts only, and rho_bar counts the mean curvature of the loss there (with
        "huber": at the fit that gives `scale_`).
    epsilon : float, default=1.35
        With loss="huber": how many standard deviations of the noise a residual may be large
        before it counts as an outlier. With 1.35 the un-penalised estimate is some 95 % as
        efficient as least squares if the noise is normal.
    fit_intercept : bool, default=True
        Whether every task has an intercept, which is not penalised.
    standardize : bool, default=False
        Whether every task's columns are penalised as if they were scaled to unit standard
        deviation. Coefficients stay in the data's units.
    positive : bool, default=False
        Whether coefficients are required to be at least 0.
    penalty_factors : array-like of shape (d,) or (d, m), optional
        Factors f of the penalty: a feature's norm is the sum over tasks of f_ji |w_ji|. 0:
        the coefficient is never penalised; inf: the feature is excluded.
    relax : bool, default=False
        Whether to refit with the loss alone on the support that was found, so that no
        coefficient is shrunk. `stages_` and the certificate stay those of the penalised
        solution, whose coefficients are ``stages_[-1].coef``.
    tol : float, default=1e-8
        The relative duality gap that every stage must reach. Solves are exact: 1e-10 and
        less is usual.
    max_iter : int, optional
        Limit on the rounds of a stage's solver. The default is far more than it needs.
    unknown_task : {"error", "mean", "common", "similar"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error, or
        predict and warn, with the mean coefficients of the known tasks; with what they have in
        common, if the model has such a part; or with their mean weighted by exp(-D_i / D),
        where D_i is how far the means of the features in the samples to be predicted are from
        those of task i (the mean square of the differences in standard deviations), and D the
        distance of a known task to the nearest other one, in the median.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that deals out the samples when `cv` is a number.
    n_jobs : int, optional
        Number of threads, which work on folds side by side. The result is the same to
        rounding. With squared errors and fewer than 256 features a search stays on one thread,
        where it is faster.
    memory_budget : float, optional
        Bytes that Gram matrices may take; by default 1 GiB.
    verbose : bool, default=False
        Whether to show a progress bar.
    l1_ratio : float or list of floats, default=1
        The share of the penalty that is as above, as in scikit-learn's ElasticNet; the rest
        is a ridge, (1 - l1_ratio) lam / 2 times the sum of (f_ji w_ji)^2, which no threshold
        caps; theta is counted in units of m l1_ratio lam / rho_bar. By default there is none;
        with 0 there is nothing else. Of several values, which share folds and Gram matrices,
        the one with the best score is taken: `l1_ratio_`.
    intercepts : {"task", "shrunk", "common"}, default="task"
        How intercepts share. "task": every task has its own, which knows nothing of the
        others. "shrunk": random intercepts. A task's level, its linear predictor at the mean
        of all samples, is drawn to a common level, as strongly as `level_ridge_` samples
        there would draw it; the fewer samples a task has, the more. Level and strength are
        estimated from the training samples (of every fold anew), whatever the penalty is.
        Tasks with one sample, one class or counts that are all 0 have a finite fit then.
        "common": one intercept for all tasks.
    bounds : pair (low, high), optional
        The least and the largest value that coefficients may have, in the units of the
        columns as they are given: each a number, one per feature (d,), or one per feature and
        task (d, m), with low <= 0 <= high; None, -inf or inf is no bound. ``bounds=(0, None)``
        is `positive=True`. A coefficient that is at its bound is exactly that number.

    Attributes
    ----------
    coef_ : ndarray of shape (m, d)
        Coefficients of every task in the data's units; (d,) if the model was fitted without
        tasks.
    intercept_ : ndarray of shape (m,)
        Intercepts of the tasks; a float if the model was fitted without tasks.
    common_level_ : float
        If intercepts share only: the common level, which is the linear predictor at
        `level_at_` of a task of which nothing else is known; with intercepts="common" the
        intercept of all tasks. (With K > 2 classes K numbers.)
    level_at_ : ndarray of shape (d,)
        If intercepts share only: the sample at which levels are compared, the mean of all
        training samples; with intercepts="common" zeros.
    level_ridge_ : float
        If intercepts share only: how many samples at the common level weigh as much as
        what draws a task's level to it: a task of so many samples is half its own. inf with
        intercepts="common". (With K > 2 classes K numbers.)
    tasks_ : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `coef_`.
    features_ : ndarray of shape (d,)
        Names of the features, in the order of the last axis of `coef_`.
    n_features_in_ : int
        Number of columns of X in `fit`, the column that identifies the task included.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X in `fit`. There is no such attribute if X had no names
        that are text.
    uses_offset_ : bool
        Whether the model was fitted with an offset, so that `predict` needs one.
    n_samples_ : ndarray of shape (m,)
        Number of training samples of every task.
    n_fitted_tasks_ : int
        Number of tasks of the fit, those that were added later not counted.
    target_mean_ : ndarray of shape (m,)
        Mean of the training targets of every task.
    target_sd_ : ndarray of shape (m,)
        Standard deviation of the training targets of every task.
    lam_ : float
        The strength of the penalty that was used.
    theta_ : float
        The norm from which a feature is free that was used.
    lam_entry_ : float
        The strength of the penalty on single coefficients that was used; 0 in the paper's
        model.
    theta_entry_ : float
        The size from which a coefficient is free of that penalty.
    lam_max_ : float
        The smallest strength of the penalty at which all coefficients are 0.
    lams_ : ndarray of shape (K,)
        The values of lam of the grid.
    thetas_ : ndarray of shape (K, L)
        The values of theta of the grid, for every lam.
    l1_ratio_ : float
        The value of l1_ratio that the model was fitted with.
    l1_ratio_scores_ : ndarray of shape (n_ratios,)
        With several values of l1_ratio: the best mean score at each (of a criterion: minus
        its least value). `cv_results_` and `surface_` are those of `l1_ratio_`.
    best_point_ : tuple of int
        The place (k, l) of the choice in the grid.
    best_index_ : int
        The place of the choice in `cv_results_`.
    best_score_ : float
        The mean score of the choice (with an information criterion minus its value). It is
        the best of many on the same folds, so it is no estimate of the score on new data.
    cross_fitted_score_ : float
        An estimate of the score on new data: the mean score of the folds, each at the point
        that the other folds choose.
    n_splits_ : int
        Number of folds; 0 with an information criterion.
    held_out_ : HeldOutScores
        What `predict_interval` is made of: the errors of samples that folds held out, and
        the coefficients without each fold. Only where samples were given and folds decide.
    cv_results_ : dict of arrays
        One entry per point of the grid, lam outermost, ready for a table: lam, theta,
        theta_ratio, n_rows (features used in any task), n_entries (coefficients that are
        not 0), n_stages, eligible, mean_test_score, std_test_score, se_test_score,
        rank_test_score, split0_test_score, ...; test_mse (test_deviance, if that is the
        scoring) and test_weight hold an array (folds, m) per point. Without folds the
        criterion stands in place of scores, NaN where it is not known. A point is
        `eligible`, and has scores, where every fold and all data were solved just as
        :class:`MSMTFL` solves them. A search stops short of stages that would leave more
        features un-penalised than most tasks have independent samples: such points have NaN
        and are not chosen.
    surface_ : Surface
        The solutions at all points of the grid, on all data; ``surface_.coef(k, l)`` has
        the coefficients of one.
    scale_ : ndarray of shape (m,)
        With loss="huber" only: robust estimates of the standard deviation of the tasks'
        noise; a float if the model was fitted without tasks. They come from a fit of their
        own, before lam and theta play a part, and are then held fixed: the problem that is
        solved, and that the certificate is about, has this loss. See
        :mod:`msmtfl._solvers.residual_scale`.
    stages_ : list of Stage
        The stages, each with stage (its number), coef, objective, free_rows (the features
        that it left un-penalised), dual_gap, kkt, unique, n_iter and seconds.
    n_stages_ : int
        Number of stages.
    n_iter_ : int
        Number of rounds of the solver, over all stages.
    certificate_ : Certificate
        What is proven about the fit; print it for the answer in words.
    converged_ : bool
        Whether the fit is certified to have come to its end.
    stopping_reason_ : str
        Why the stages ended, in words.
    objective_ : float
        The value of what is minimised, loss plus penalty.
    dual_gap_ : float
        Relative duality gap of the last stage: an upper bound on how far its solution is
        from optimal.
    row_norms_ : ndarray of shape (d,)
        For every feature the norm of its coefficients over all tasks: the sum over tasks of
        f_ji |w_ji|, with f the penalty factors.
    row_slopes_ : ndarray of shape (d,)
        What the last stage left of the penalty on a feature: 0 where the feature is free, 1
        where it is penalised in full.
    feature_importances_ : ndarray of shape (n_features_in_,)
        The norms of the features in the order of the columns of X; a column that identifies
        the task gets the largest.
    feature_means_ : ndarray of shape (m, d)
        Means of the features over the training samples of every task, by which
        unknown_task="similar" knows how similar tasks are.
    learnable_ : ndarray of bool of shape (m, d)
        Where a feature varies within a task; elsewhere its effect cannot be told from the
        intercept.
    feature_sd_ : ndarray of shape (d,)
        Standard deviations of the features within tasks, pooled over the tasks in which a
        feature varies; 0 where it never does. A coefficient times it is the effect of one
        standard deviation.
    task_level_features_ : ndarray
        Names of the features that are constant within every task and differ only between
        tasks. A coefficient of 0 says nothing about their effect, and `fit` warns of them.

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
        l1_ratio=1.0,
        intercepts="task",
        bounds=None,
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
        self.l1_ratio = l1_ratio
        self.intercepts = intercepts
        self.bounds = bounds

    @with_callbacks
    def fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None, offset: Any = None
    ) -> MSMTFLCV:
        """Choose lam and theta, and fit the model to all samples with them.

        Held-out errors use the weights of the samples, too.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (N, d)
            Samples of all tasks. A table or an array may have a column that identifies the task
            (see `task_column`).
        y : array-like of shape (N,) or (N, m)
            Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
            means not measured.
        task : array-like of shape (N,), optional
            The label of the task of every sample, if the tasks are not a column of X.
        sample_weight : array-like of shape (N,) or (N, m), optional
            Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
        groups : array-like of shape (N,) or "identical", optional
            Labels of groups: samples of one group (a patient, a speaker) stay in one fold.
            "identical": samples with the same features are a group.
        offset : array-like of shape (N,) or (N, m), optional
            A known part of the linear predictor, which is offset + b_i + x'w_i; (N, m) beside a
            2-D y. With loss="poisson" the logarithm of an exposure makes a model of rates.
            `predict` then needs the offsets of its samples, too.

        Returns
        -------
        MSMTFLCV
            The fitted model itself.
        """
        self._fit_point(*self._search_problem(X, y, task, sample_weight, groups, offset))
        return self


class LassoMTLCV(StageSearch, Growing, AddTaskMixin):
    """Independent lassos, one per task, with one lam for all chosen by cross-validation: the baseline of MSMTFLCV.

    All folds use the same values of lam, taken from all data. The model is then fitted to all data at the
    value that was chosen. With `relax` every point is refitted on every fold, and scored so; an
    information criterion judges the models as penalised.

    Parameters
    ----------
    lams : int or array-like of shape (K,), default=50
        How many values of lam the grid has, geometrically spaced from `lam_max_` down to
        `lam_min_ratio` times that; or the values themselves, in any order.
    lam_min_ratio : float, optional
        The smallest lam of the grid over the largest. By default 1e-3, or 1e-4 if every
        task has more samples than features.
    cv : int, splitter or iterable of (train, test), default=5
        The folds. A number means that many folds stratified by task (:class:`TaskKFold`);
        with a 2-D y a sample is held out in all tasks at once. Every training fold needs
        samples of every task.
    scoring : {"neg_nmse", "neg_amse", "neg_mse", "neg_deviance"}, scorer name or callable, default="neg_nmse"
        What is compared; greater is better. "neg_nmse", "neg_amse" and "neg_mse" are minus
        a task's held-out squared error over the variance of its targets, over their mean
        square, and as it is, averaged over tasks with the weights of the samples held out.
        "neg_deviance" is minus the loss itself; with loss="huber" it keeps outliers that
        are held out from deciding. Anything else is a scorer of scikit-learn.
    selection : {"min", "1se", "aic", "bic", "ebic"}, default="min"
        How the point of the grid is chosen. "min": the best mean score. "1se": the simplest
        model within one standard error of it (the fewest features, then the fewest
        coefficients, then the largest lam). The others are information criteria, which need
        no folds. "aic" and "bic" charge for degrees of freedom, which are known where the
        penalty is convex: so they compare the points without a cap, and are NaN at the
        others. "ebic" charges for the search as well, and compares all points.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    fit_intercept : bool, default=True
        Whether every task has an intercept, which is not penalised.
    standardize : bool, default=False
        Whether every task's columns are penalised as if they were scaled to unit standard
        deviation. Coefficients stay in the data's units.
    positive : bool, default=False
        Whether coefficients are required to be at least 0.
    penalty_factors : array-like of shape (d,) or (d, m), optional
        Factors f of the penalty: a feature's norm is the sum over tasks of f_ji |w_ji|. 0:
        the coefficient is never penalised; inf: the feature is excluded.
    relax : bool, default=False
        Whether to refit by least squares on the support that was found, so that no
        coefficient is shrunk. `stages_` and the certificate stay those of the penalised
        solution, whose coefficients are ``stages_[-1].coef``.
    tol : float, default=1e-8
        The relative duality gap that every stage must reach. Solves are exact: 1e-10 and
        less is usual.
    max_iter : int, optional
        Limit on the rounds of a stage's solver. The default is far more than it needs.
    unknown_task : {"error", "mean", "common", "similar"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error, or
        predict and warn, with the mean coefficients of the known tasks; with what they have in
        common, if the model has such a part; or with their mean weighted by exp(-D_i / D),
        where D_i is how far the means of the features in the samples to be predicted are from
        those of task i (the mean square of the differences in standard deviations), and D the
        distance of a known task to the nearest other one, in the median.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that deals out the samples when `cv` is a number.
    n_jobs : int, optional
        Number of threads, which work on folds side by side. The result is the same to
        rounding. With squared errors and fewer than 256 features a search stays on one thread,
        where it is faster.
    memory_budget : float, optional
        Bytes that Gram matrices may take; by default 1 GiB.
    verbose : bool, default=False
        Whether to show a progress bar.
    l1_ratio : float or list of floats, default=1
        The share of the penalty that is as above, as in scikit-learn's ElasticNet; the rest
        is a ridge, (1 - l1_ratio) lam / 2 times the sum of (f_ji w_ji)^2, which no threshold
        caps; theta is counted in units of m l1_ratio lam / rho_bar. By default there is none;
        with 0 there is nothing else. Of several values, which share folds and Gram matrices,
        the one with the best score is taken: `l1_ratio_`.
    intercepts : {"task", "shrunk", "common"}, default="task"
        How intercepts share. "task": every task has its own, which knows nothing of the
        others. "shrunk": random intercepts. A task's level, its linear predictor at the mean
        of all samples, is drawn to a common level, as strongly as `level_ridge_` samples
        there would draw it; the fewer samples a task has, the more. Level and strength are
        estimated from the training samples (of every fold anew), whatever the penalty is.
        Tasks with one sample, one class or counts that are all 0 have a finite fit then.
        "common": one intercept for all tasks.
    bounds : pair (low, high), optional
        The least and the largest value that coefficients may have, in the units of the
        columns as they are given: each a number, one per feature (d,), or one per feature and
        task (d, m), with low <= 0 <= high; None, -inf or inf is no bound. ``bounds=(0, None)``
        is `positive=True`. A coefficient that is at its bound is exactly that number.

    Attributes
    ----------
    coef_ : ndarray of shape (m, d)
        Coefficients of every task in the data's units; (d,) if the model was fitted without
        tasks.
    intercept_ : ndarray of shape (m,)
        Intercepts of the tasks; a float if the model was fitted without tasks.
    common_level_ : float
        If intercepts share only: the common level, which is the linear predictor at
        `level_at_` of a task of which nothing else is known; with intercepts="common" the
        intercept of all tasks. (With K > 2 classes K numbers.)
    level_at_ : ndarray of shape (d,)
        If intercepts share only: the sample at which levels are compared, the mean of all
        training samples; with intercepts="common" zeros.
    level_ridge_ : float
        If intercepts share only: how many samples at the common level weigh as much as
        what draws a task's level to it: a task of so many samples is half its own. inf with
        intercepts="common". (With K > 2 classes K numbers.)
    tasks_ : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `coef_`.
    features_ : ndarray of shape (d,)
        Names of the features, in the order of the last axis of `coef_`.
    n_features_in_ : int
        Number of columns of X in `fit`, the column that identifies the task included.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X in `fit`. There is no such attribute if X had no names
        that are text.
    uses_offset_ : bool
        Whether the model was fitted with an offset, so that `predict` needs one.
    n_samples_ : ndarray of shape (m,)
        Number of training samples of every task.
    n_fitted_tasks_ : int
        Number of tasks of the fit, those that were added later not counted.
    target_mean_ : ndarray of shape (m,)
        Mean of the training targets of every task.
    target_sd_ : ndarray of shape (m,)
        Standard deviation of the training targets of every task.
    lam_ : float
        The strength of the penalty that was used.
    lam_max_ : float
        The smallest strength of the penalty at which all coefficients are 0.
    lams_ : ndarray of shape (K,)
        The values of lam of the grid.
    thetas_ : ndarray of shape (K, 1)
        The values of theta of the grid, which are all inf: the lasso.
    l1_ratio_ : float
        The value of l1_ratio that the model was fitted with.
    l1_ratio_scores_ : ndarray of shape (n_ratios,)
        With several values of l1_ratio: the best mean score at each (of a criterion: minus
        its least value). `cv_results_` and `surface_` are those of `l1_ratio_`.
    best_point_ : tuple of int
        The place (k, l) of the choice in the grid.
    best_index_ : int
        The place of the choice in `cv_results_`.
    best_score_ : float
        The mean score of the choice (with an information criterion minus its value). It is
        the best of many on the same folds, so it is no estimate of the score on new data.
    cross_fitted_score_ : float
        An estimate of the score on new data: the mean score of the folds, each at the point
        that the other folds choose.
    n_splits_ : int
        Number of folds; 0 with an information criterion.
    held_out_ : HeldOutScores
        What `predict_interval` is made of: the errors of samples that folds held out, and
        the coefficients without each fold. Only where samples were given and folds decide.
    cv_results_ : dict of arrays
        One entry per point of the grid, lam outermost, ready for a table: lam, theta,
        theta_ratio, n_rows (features used in any task), n_entries (coefficients that are
        not 0), n_stages, eligible, mean_test_score, std_test_score, se_test_score,
        rank_test_score, split0_test_score, ...; test_mse (test_deviance, if that is the
        scoring) and test_weight hold an array (folds, m) per point. Without folds the
        criterion stands in place of scores, NaN where it is not known. A point is
        `eligible`, and has scores, where every fold and all data were solved just as
        :class:`MSMTFL` solves them. A search stops short of stages that would leave more
        features un-penalised than most tasks have independent samples: such points have NaN
        and are not chosen.
    surface_ : Surface
        The solutions at all points of the grid, on all data; ``surface_.coef(k, l)`` has
        the coefficients of one.
    stages_ : list of Stage
        The stages, each with stage (its number), coef, objective, free_rows (the features
        that it left un-penalised), dual_gap, kkt, unique, n_iter and seconds.
    n_stages_ : int
        Number of stages.
    n_iter_ : int
        Number of rounds of the solver, over all stages.
    certificate_ : Certificate
        What is proven about the fit; print it for the answer in words.
    converged_ : bool
        Whether the fit is certified to have come to its end.
    stopping_reason_ : str
        Why the stages ended, in words.
    objective_ : float
        The value of what is minimised, loss plus penalty.
    dual_gap_ : float
        Relative duality gap of the last stage: an upper bound on how far its solution is
        from optimal.
    row_norms_ : ndarray of shape (d,)
        For every feature the norm of its coefficients over all tasks: the sum over tasks of
        f_ji |w_ji|, with f the penalty factors.
    row_slopes_ : ndarray of shape (d,)
        What the last stage left of the penalty on a feature: 0 where the feature is free, 1
        where it is penalised in full.
    feature_importances_ : ndarray of shape (n_features_in_,)
        The norms of the features in the order of the columns of X; a column that identifies
        the task gets the largest.
    feature_means_ : ndarray of shape (m, d)
        Means of the features over the training samples of every task, by which
        unknown_task="similar" knows how similar tasks are.
    learnable_ : ndarray of bool of shape (m, d)
        Where a feature varies within a task; elsewhere its effect cannot be told from the
        intercept.
    feature_sd_ : ndarray of shape (d,)
        Standard deviations of the features within tasks, pooled over the tasks in which a
        feature varies; 0 where it never does. A coefficient times it is the effect of one
        standard deviation.
    task_level_features_ : ndarray
        Names of the features that are constant within every task and differ only between
        tasks. A coefficient of 0 says nothing about their effect, and `fit` warns of them.

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
        l1_ratio=1.0,
        intercepts="task",
        bounds=None,
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
        self.l1_ratio = l1_ratio
        self.intercepts = intercepts
        self.bounds = bounds

    def _grid(self, problem: Problem) -> Grid:
        return read_grid(problem, self.lams, thetas=[np.inf], lam_min_ratio=self.lam_min_ratio)

    def _stages(self) -> int:
        return 1

    @with_callbacks
    def fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None, offset: Any = None
    ) -> LassoMTLCV:
        """Choose lam, and fit the model to all samples with it.

        Held-out errors use the weights of the samples, too.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (N, d)
            Samples of all tasks. A table or an array may have a column that identifies the task
            (see `task_column`).
        y : array-like of shape (N,) or (N, m)
            Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
            means not measured.
        task : array-like of shape (N,), optional
            The label of the task of every sample, if the tasks are not a column of X.
        sample_weight : array-like of shape (N,) or (N, m), optional
            Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
        groups : array-like of shape (N,) or "identical", optional
            Labels of groups: samples of one group (a patient, a speaker) stay in one fold.
            "identical": samples with the same features are a group.
        offset : array-like of shape (N,) or (N, m), optional
            A known part of the linear predictor, which is offset + b_i + x'w_i; (N, m) beside a
            2-D y. With loss="poisson" the logarithm of an exposure makes a model of rates.
            `predict` then needs the offsets of its samples, too.

        Returns
        -------
        LassoMTLCV
            The fitted model itself.
        """
        self._warn(*self._fit(X, y, task, sample_weight, groups, offset))
        return self
