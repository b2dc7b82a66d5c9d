"""The pretrained lasso: one lasso for all tasks first, then one per task that starts from it; with and without search."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from .._data.copies import groups_of
from .._data.designs import Floats
from .._objective.penalties import ConcaveRows
from .._objective.problem import Problem
from .._paths.pretrained_path import (
    ALPHAS,
    PretrainedGrid,
    PretrainedPaths,
    PretrainedSurface,
    pretrained_grid,
    second_step,
)
from .._paths.pretraining import FirstStep, OffsetFolds, pretrain
from .._runtime.checks import check_count, check_positive, check_share
from .._runtime.progress import Monitor, Progress, one_blas_thread, with_callbacks
from .._solvers.gram import BUDGET
from .._solvers.make_problem import default_lam, largest_lam, on_rows
from .._solvers.solvers import solver_for
from .._solvers.stages import Solution, run_stages
from .base import MultiTaskLinear
from .search import GridSearch


class _Pretrained(MultiTaskLinear):
    """What PretrainedMTL and PretrainedMTLCV have in common: two steps, whose coefficients add up."""

    relax = False
    intercepts = "task"

    def _check_params(self) -> None:
        super()._check_params() if isinstance(self, GridSearch) else self._check_common()
        check_count("offset_folds", self.offset_folds)
        if self.offset_folds < 2:
            raise ValueError(f"offset_folds must be at least 2, got {self.offset_folds}.")

    def _can_share(self, intercepts: str) -> bool:
        return intercepts == "task"

    def _make_problem(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any = None) -> Problem:
        if np.ndim(self.penalty_factors) == 2:
            raise ValueError(
                "penalty_factors must have one entry per feature here: the first step has one coefficient for all tasks."
            )
        return super()._make_problem(X, y, task, sample_weight, offset)

    def _training(self, problem: Problem, keep: np.ndarray | int) -> Problem:
        assert isinstance(keep, np.ndarray)  # data that have rows
        return on_rows(problem, keep)

    def _limits(self) -> dict[str, Any]:
        return {"tol": self.tol, "max_iter": self.max_iter or 0}

    def _second(
        self, problem: Problem, first: FirstStep, alpha: float, lam: float | None, near: Floats | None = None
    ) -> tuple[Solution, ConcaveRows]:
        """The second step with certificates, as a solution whose coefficients are the sum of both. What is said of the gap
        and of uniqueness holds for both steps."""
        second = second_step(problem, first, alpha)
        lam = default_lam(lam, largest_lam(second))
        penalty = ConcaveRows(lam, np.inf, second.factors)
        solver = solver_for(second, penalty, lam=lam, n_jobs=self.n_jobs, near=near)
        listener = None if isinstance(self, GridSearch) else Monitor(self, 1, problem.m)
        solution = run_stages(
            penalty, solver, max_stages=1, tol=self.tol, max_iter=self.max_iter or 0, listener=listener
        )
        proof, (stage,) = first.prove(problem), solution.stages
        gap = proof.relative_gap
        whole = replace(
            stage,
            coef=(1.0 - alpha) * first.coef + stage.coef,
            dual_gap=max(stage.dual_gap, gap),
            unique=stage.unique and proof.unique,
        )
        solution = replace(solution, stages=(whole,), converged=solution.converged and gap <= self.tol)
        return solution, ConcaveRows(lam, np.inf, problem.factors)

    def _keep_parts(self, first: FirstStep, alpha: float, lam: float) -> None:
        self.lam_, self.alpha_, self.lam_common_ = float(lam), float(alpha), first.lam
        self.coef_common_ = first.coef.copy()
        self.coef_specific_ = self.stages_[-1].coef - (1.0 - alpha) * first.coef
        if self._form == "single":
            self.coef_specific_ = self.coef_specific_[0]

    def _separates(self) -> bool:
        return bool(self.alpha_ == 1.0)


class PretrainedMTL(_Pretrained):
    r"""The pretrained lasso: one lasso for all tasks, then one per task that starts from it.

    The first step is a lasso of all tasks together, with an intercept per task: it minimises

    .. math:: \frac{1}{N} \sum_i \| X_i b + c_i - y_i \|^2 + \lambda_c \| b \|_1

    and uses the features S. The second fits every task to what the first leaves of its targets,

    .. math:: \sum_i \frac{1}{m n_i} \| (1 - \alpha) X_i b + X_i w_i + b_i - y_i \|^2 + \lambda \sum_{ij} f_j |w_{ji}|,

    where f is 1 on S and 1 / alpha elsewhere. The coefficients of a task are (1 - alpha) b + w_i. alpha = 1 is a
    lasso per task, which knows nothing of the first step; alpha = 0 takes all of b over, and lets tasks differ from it
    in the features S only. What the first step predicts of a sample comes from a fit without the sample's fold
    (pre-validation): otherwise the second step would be given residuals that are too small. (E. Craig, M. Pilanci,
    T. Le Menestrel, B. Narasimhan, M. Rivas, S. Gullaksen and R. Tibshirani, Pretraining and the lasso, JRSS-B 2025.)

    Parameters
    ----------
    lam : x
        x
    lam_common : x
        x
    alpha : x
        x
    offset_folds : x
        x
    loss : x
        x
    epsilon : x
        x
    task_column : x
        x
    fit_intercept : x
        x
    standardize : x
        x
    penalty_factors : x
        x
    tol : x
        x
    max_iter : x
        x
    unknown_task : x
        x
    random_state : x
        x
    n_jobs : x
        x

    Attributes
    ----------
    coef_ : x
        x
    coef_common_ : x
        x
    coef_specific_ : x
        x
    intercept_ : x
        x
    tasks_ : x
        x
    features_ : x
        x
    n_features_in_ : x
        x
    feature_names_in_ : x
        x
    uses_offset_ : x
        x
    n_samples_ : x
        x
    n_fitted_tasks_ : x
        x
    target_mean_ : x
        x
    target_sd_ : x
        x
    lam_ : x
        x
    alpha_ : x
        x
    lam_common_ : x
        x
    scale_ : x
        x
    stages_ : x
        x
    n_stages_ : x
        x
    n_iter_ : x
        x
    certificate_ : x
        x
    converged_ : x
        x
    stopping_reason_ : x
        x
    objective_ : x
        x
    dual_gap_ : x
        x
    row_norms_ : x
        x
    row_slopes_ : x
        x
    feature_importances_ : x
        x
    learnable_ : x
        x
    task_level_features_ : x
        x

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import PretrainedMTL
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((120, 6)), np.repeat([0, 1, 2], 40)
    >>> y = 2 * X[:, 0] + np.where(task == 1, 1.5, 0.0) * X[:, 3] + 0.5 * rng.standard_normal(120)
    >>> model = PretrainedMTL(lam=0.02, alpha=0.25).fit(X, y, task=task)
    >>> model.coef_common_.round(1)[0], model.coef_.round(1)[:, 3]
    (2.0, array([0. , 1.4, 0. ]))
    """

    def __init__(
        self,
        lam=None,
        lam_common=None,
        alpha=0.5,
        *,
        offset_folds=5,
        loss="squared",
        epsilon=1.35,
        task_column=None,
        fit_intercept=True,
        standardize=False,
        penalty_factors=None,
        tol=1e-8,
        max_iter=None,
        unknown_task="error",
        random_state=0,
        n_jobs=None,
    ):
        self.lam = lam
        self.lam_common = lam_common
        self.alpha = alpha
        self.offset_folds = offset_folds
        self.loss = loss
        self.epsilon = epsilon
        self.task_column = task_column
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.penalty_factors = penalty_factors
        self.tol = tol
        self.max_iter = max_iter
        self.unknown_task = unknown_task
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_params(self) -> None:
        super()._check_params()
        check_share("alpha", self.alpha)
        for name in ("lam", "lam_common"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))

    @with_callbacks
    def fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None, offset: Any = None
    ) -> PretrainedMTL:
        """Fit the model.

        Parameters
        ----------
        X : x
            x
        y : x
            x
        task : x
            x
        sample_weight : x
            x
        groups : x
            x
        offset : x
            x

        Returns
        -------
        PretrainedMTL
            The fitted model itself.
        """
        self._check_params()
        with one_blas_thread():
            problem = self._make_problem(X, y, task, sample_weight, offset)
            together = None if groups is None else groups_of(groups, problem.data.X)
            lams = None if self.lam_common is None else np.array([float(self.lam_common)])
            folds = OffsetFolds(self.offset_folds, self.random_state, together)
            (first,) = pretrain(problem, lams, folds, **self._limits())
            solution, penalty = self._second(problem, first, float(self.alpha), self.lam)
        self._store(problem, solution, penalty)
        self._keep_parts(first, self.alpha, penalty.lam)
        self._warn(solution, problem)
        return self


class PretrainedMTLCV(_Pretrained, GridSearch):
    """PretrainedMTL with alpha and lam chosen by cross-validation.

    The grid has a path of lam for every alpha. On every training fold both steps are fitted anew, the strength of the
    first step (unless `lam_commons` are given) and its offsets by folds within the training fold: so a point is scored
    as a fit would be, and no sample that is held out has a part in it. The model is then fitted to all data at the
    point that was chosen.

    Parameters
    ----------
    lams : x
        x
    alphas : x
        x
    lam_commons : x
        x
    offset_folds : x
        x
    lam_min_ratio : x
        x
    cv : x
        x
    scoring : x
        x
    selection : x
        x
    loss : x
        x
    epsilon : x
        x
    task_column : x
        x
    fit_intercept : x
        x
    standardize : x
        x
    penalty_factors : x
        x
    tol : x
        x
    max_iter : x
        x
    unknown_task : x
        x
    random_state : x
        x
    n_jobs : x
        x
    memory_budget : x
        x
    verbose : x
        x

    Attributes
    ----------
    coef_ : x
        x
    coef_common_ : x
        x
    coef_specific_ : x
        x
    intercept_ : x
        x
    tasks_ : x
        x
    features_ : x
        x
    n_features_in_ : x
        x
    feature_names_in_ : x
        x
    uses_offset_ : x
        x
    n_samples_ : x
        x
    n_fitted_tasks_ : x
        x
    target_mean_ : x
        x
    target_sd_ : x
        x
    lam_ : x
        x
    alpha_ : x
        x
    lam_common_ : x
        x
    scale_ : x
        x
    lams_ : x
        x
    best_point_ : x
        x
    best_index_ : x
        x
    best_score_ : x
        x
    cross_fitted_score_ : x
        x
    n_splits_ : x
        x
    held_out_ : x
        x
    cv_results_ : x
        x
    surface_ : x
        x
    stages_ : x
        x
    n_stages_ : x
        x
    n_iter_ : x
        x
    certificate_ : x
        x
    converged_ : x
        x
    stopping_reason_ : x
        x
    objective_ : x
        x
    dual_gap_ : x
        x
    row_norms_ : x
        x
    row_slopes_ : x
        x
    feature_importances_ : x
        x
    learnable_ : x
        x
    task_level_features_ : x
        x

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import PretrainedMTLCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((120, 6)), np.repeat([0, 1, 2], 40)
    >>> y = 2 * X[:, 0] + np.where(task == 1, 1.5, 0.0) * X[:, 3] + 0.5 * rng.standard_normal(120)
    >>> model = PretrainedMTLCV(lams=10).fit(X, y, task=task)
    >>> model.coef_.round(1)[:, 0], len(model.cv_results_["alpha"])
    (array([2., 2., 2.]), 50)
    """

    def __init__(
        self,
        lams=30,
        *,
        alphas=None,
        lam_commons=None,
        offset_folds=5,
        lam_min_ratio=None,
        cv=5,
        scoring="neg_nmse",
        selection="min",
        loss="squared",
        epsilon=1.35,
        task_column=None,
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
    ):
        self.lams = lams
        self.alphas = alphas
        self.lam_commons = lam_commons
        self.offset_folds = offset_folds
        self.lam_min_ratio = lam_min_ratio
        self.cv = cv
        self.scoring = scoring
        self.selection = selection
        self.loss = loss
        self.epsilon = epsilon
        self.task_column = task_column
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

    def _check_params(self) -> None:
        super()._check_params()
        if self.selection not in ("min", "1se"):
            raise ValueError(
                f"selection must be 'min' or '1se', got {self.selection!r}: what two steps cost in degrees of freedom is "
                "not known, so that there are no information criteria."
            )

    def _search_problem(
        self, X: Any, y: Any, task: Any, sample_weight: Any, groups: Any, offset: Any = None
    ) -> tuple[Problem, Any, list[Any], Any]:
        problem, grid, splits, scorer = super()._search_problem(X, y, task, sample_weight, groups, offset)
        together = splits[0].groups
        return problem, replace(grid, folds=replace(grid.folds, groups=together)), splits, scorer

    def _grid(self, problem: Problem) -> PretrainedGrid:
        folds = OffsetFolds(self.offset_folds, self.random_state)
        alphas = ALPHAS if self.alphas is None else self.alphas
        return pretrained_grid(problem, self.lams, alphas, self.lam_commons, self.lam_min_ratio, folds)

    def _same_grid(self, grid: PretrainedGrid) -> PretrainedGrid:
        return replace(grid, folds=self.surface_.grid.folds)

    def _caches(self, problem: Problem, **options: Any) -> None:
        """Every second step has its own."""

    def _wants_whole(self, problem: Problem) -> bool:
        return False  # nothing is taken over from all data

    def _walker(
        self, problem: Problem, grid: PretrainedGrid, grams: Any, n_jobs: int | None, progress: Progress
    ) -> PretrainedPaths:
        return PretrainedPaths(
            problem,
            grid,
            budget=(self.memory_budget or BUDGET) / (6 * grid.shape[1]),
            n_jobs=n_jobs,
            tick=progress.step,
            stop=progress.stop,
            **self._limits(),
        )

    def _refit(
        self, problem: Problem, surface: PretrainedSurface, k: int, l: int, grams: Any
    ) -> tuple[Solution, ConcaveRows]:
        first, alpha = surface.firsts[l], float(surface.grid.alphas[l])
        near = surface.coef(k, l) - (1.0 - alpha) * first.coef
        return self._second(problem, first, alpha, float(surface.grid.lams[k]), near)

    @with_callbacks
    def fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None, offset: Any = None
    ) -> PretrainedMTLCV:
        """Choose alpha and lam, and fit the model to all samples with them.

        Parameters
        ----------
        X : x
            x
        y : x
            x
        task : x
            x
        sample_weight : x
            x
        groups : x
            x
        offset : x
            x

        Returns
        -------
        PretrainedMTLCV
            The fitted model itself.
        """
        fitted = self._fit(X, y, task, sample_weight, groups, offset)
        grid, (k, l) = self.surface_.grid, self.best_point_
        self.lams_ = grid.lams
        self._keep_parts(self.surface_.firsts[l], float(grid.alphas[l]), float(grid.lams[k]))
        self._warn(*fitted)
        return self


def pretrained_coef(model: Any, part: Problem) -> Floats:
    """(m, d): the coefficients at a fitted model's parameters on a part of the rows, `part` holding no others."""
    folds = OffsetFolds(model.offset_folds, model.random_state)
    limits = {"tol": np.inf, "max_iter": model.max_iter or 0}
    (first,) = pretrain(part, np.array([model.lam_common_]), folds, **limits)
    second = second_step(part, first, model.alpha_)
    penalty = ConcaveRows(model.lam_, np.inf, second.factors)
    solution = run_stages(penalty, solver_for(second, penalty, lam=model.lam_), max_stages=1, tol=np.inf)
    return np.asarray((1.0 - model.alpha_) * first.coef + solution.stages[-1].coef)
