"""Solving Algorithm 1 on a whole grid of (lam, theta), nothing computed twice.

Stage 1 does not depend on theta: it is solved once per lam, warm from the lam before. A later stage depends on theta only
through the rows that it caps: at one lam every set of capped rows is solved once, whichever theta asks for it. (Where
a stage's minimiser is not unique the answer is the one nearest to the stage before, so there the sets before count
too.) A point stops short of a stage that would interpolate in most tasks: such stages are not unique, say nothing about
other data, and would take most of the time.

`GridStages` is the bookkeeping of this for any penalty, wherever stages are solved. Here, where the data are, capped
penalties go from stage to stage in compiled code instead (`_kernels/stage_loop.py`); others, and data on workers
(`dask/client.py`), by `GridStages` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._data.tables import Labels, Table, Targets
from .._data.tasks import read_training
from .._objective.losses import loss_named
from .._objective.problem import Problem
from .._objective.shapes import Shape
from .._runtime.checks import check_count, check_flag, check_n_jobs, check_positive, check_verbose
from .._runtime.progress import Progress, one_blas_thread
from .._solvers.lassos.task_solver import Caches
from .._solvers.problems.arguments import check_intercepts, check_loss
from .._solvers.problems.make_problem import make_problem
from .._solvers.problems.priors import release
from .._solvers.solvers import LASSOS, caches_for
from .grid import Grid
from .grids import read_grid
from .stage_paths import StagePaths
from .surface import Surface


def regularization_surface(
    X: Table,
    y: Targets,
    *,
    task: Labels | None = None,
    task_column: str | int | None = None,
    lams: ArrayLike = 50,
    theta_ratios: ArrayLike | None = None,
    thetas: ArrayLike | None = None,
    loss: str = "squared",
    epsilon: float = 1.35,
    fit_intercept: bool = True,
    standardize: bool = False,
    positive: bool = False,
    penalty_factors: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    max_stages: int = 10,
    tol: float = 1e-8,
    lam_min_ratio: float | None = None,
    entry_shares: ArrayLike = (0.0,),
    entry_ratios: ArrayLike | None = None,
    penalty: str | Shape = "capped",
    n_jobs: int | None = None,
    memory_budget: float | None = None,
    verbose: bool = False,
    l1_ratio: float = 1.0,
    offset: ArrayLike | None = None,
    intercepts: str = "task",
    bounds: Any = None,
    feature_groups: Any = None,
) -> Surface:
    """Fit MSMTFL on a whole grid of lam and theta, for little more than the price of one lasso path.

    Every point is what ``MSMTFL(lam, theta)`` gives on its own, but for one thing: where the next stage
    would leave more features un-penalised than there are independent samples, in most tasks, or has no
    minimiser (counts that free features hold at 0), the point keeps the stage before it (see its
    `stopping_reason`; MSMTFL itself goes on, and warns).

    Parameters
    ----------
    X : DataFrame, ndarray or sparse matrix of shape (N, d)
        Samples of all tasks. A table or an array may have a column that identifies the task
        (see `task_column`).
    y : array-like of shape (N,) or (N, m)
        Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
        means not measured. With loss="cox" it has two, times and events.
    task : array-like of shape (N,), optional
        The label of the task of every sample, if the tasks are not a column of X.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    lams : int or array-like of shape (K,), default=50
        How many values of lam the grid has, geometrically spaced from the smallest at which
        all coefficients are 0 down to `lam_min_ratio` times that; or the values themselves,
        in any order.
    theta_ratios : array-like of shape (L,), optional
        Values of theta in units of m lam / rho_bar, with rho_bar the mean square of the
        columns. By default six from 1 to max(50, 11 m), and inf, which is the lasso.
    thetas : array-like of shape (L,) or (K, L), optional
        Values of theta themselves, instead of ratios; inf is allowed.
    loss : {"squared", "poisson", "gamma", "tweedie", "huber", "cox"}, default="squared"
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
        "huber": at the fit that gives `scale_`). "cox" is for times until an event: y has two
        columns (time, event), or is a structured array as in scikit-survival. The loss is minus
        twice the logarithm of the partial likelihood of every task, less that of a saturated
        model. Tasks have baseline hazards of their own, and no intercepts; `predict` gives the
        logarithm of the hazard relative to that of x = 0. Events at the same time are dealt
        with by Efron's rule, or Breslow's with "cox(breslow)".
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
    sample_weight : array-like of shape (N,) or (N, m), optional
        Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
        A sample of weight 2 is two samples.
    max_stages : int, default=10
        The largest number of stages; with 1 the model is the lasso.
    tol : float, default=1e-8
        The relative duality gap that the stages of a `converged` point stay below.
    lam_min_ratio : float, optional
        The smallest lam of the grid over the largest. By default 1e-3, or 1e-4 if every
        task has more samples than features.
    entry_shares : array-like of numbers from 0 to 1, default=(0.0,)
        Shares s of lam that go to a penalty on every coefficient by itself: lam_entry = s
        lam, which leaves (1 - s) lam for the features. 0 is the paper's model. The columns
        of the surface are all combinations of share, theta and entry ratio.
    entry_ratios : array-like, optional
        Values of theta_entry in units of m lam / rho_bar; by default 0.5 and 2.
    penalty : {"capped", "mcp", "scad", "log", "lq"} or a shape, default="capped"
        The concave function that stands in place of min(t, theta); see
        :mod:`msmtfl._objective.shapes`.
    n_jobs : int, optional
        Number of threads. The result is the same to rounding.
    memory_budget : float, optional
        Bytes that Gram matrices may take; by default 1 GiB.
    verbose : bool, default=False
        Whether to show a progress bar.
    l1_ratio : float, default=1
        The share of the penalty that is as above, as in scikit-learn's ElasticNet; the rest
        is a ridge, (1 - l1_ratio) lam / 2 times the sum of (f_ji w_ji)^2, which no threshold
        caps; theta is counted in units of m l1_ratio lam / rho_bar. By default there is none;
        with 0 there is nothing else.
    offset : array-like of shape (N,) or (N, m), optional
        A known part of the linear predictor, which is offset + b_i + x'w_i; (N, m) beside a
        2-D y. With loss="poisson" the logarithm of an exposure makes a model of rates.
        `predict` then needs the offsets of its samples, too.
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
    feature_groups : mapping {name: columns} or sequence of d names, optional
        Which columns belong together: a group enters a task or leaves it as a whole. In place
        of |w_ji| stands the l2 norm of a group's coefficients in the task (times the penalty
        factors), times the root of the group's size; theta caps the sum of these norms over
        the tasks. Columns that are in no group are groups by themselves.

    Returns
    -------
    Surface
        The solutions at all points of the grid.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import regularization_surface
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 20)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(90)
    >>> surface = regularization_surface(X, y, task=task, lams=10, theta_ratios=[4, 16])
    >>> surface.thetas.shape
    (10, 2)
    >>> surface.coef(5, 0).round(1)[:, [0, 3]]
    array([[ 2., -1.],
           [ 2., -1.],
           [ 2., -1.]])
    >>> bool(surface.dual_gap.max() < 1e-10)
    True
    """
    check_count("max_stages", max_stages)
    check_positive("tol", tol)
    check_n_jobs(n_jobs)
    flags = {"fit_intercept": fit_intercept, "standardize": standardize, "positive": positive}
    for name, value in flags.items():
        check_flag(name, value)
    check_verbose(verbose)
    check_loss(loss, epsilon)
    if memory_budget is not None:
        check_positive("memory_budget", memory_budget)
    check_intercepts(intercepts, fit_intercept)
    with one_blas_thread():
        options: dict[str, Any] = {"sample_weight": sample_weight, "offset": offset}
        survival = not loss_named(loss).levelled
        data = read_training(X, y, task=task, task_column=task_column, survival=survival, **options)
        problem = make_problem(
            data,
            loss=loss,
            epsilon=epsilon,
            fit_intercept=fit_intercept,
            standardize=standardize,
            positive=positive,
            penalty_factors=penalty_factors,
            l1_ratio=l1_ratio,
            n_jobs=n_jobs,
            intercepts=intercepts,
            bounds=bounds,
            feature_groups=feature_groups,
        )
        grid = read_grid(problem, lams, theta_ratios, thetas, lam_min_ratio, entry_shares, entry_ratios, penalty)
        with Progress(len(grid.lams), "lams", verbose) as progress:
            surface = solve_surface(
                problem,
                grid,
                max_stages=max_stages,
                tol=tol,
                n_jobs=n_jobs,
                budget=memory_budget,
                tick=progress.step,
                stop=progress.stop,
            )
        release(problem)
        return surface


def solve_surface(
    problem: Problem,
    grid: Grid,
    *,
    max_stages: int = 10,
    tol: float = 1e-8,
    max_iter: int = 0,
    n_jobs: int | None = None,
    grams: Caches | None = None,
    budget: float | None = None,
    tick: Callable[[float], None] = lambda part: None,
    stop: Callable[[], None] | None = None,
    careful: bool = False,
) -> Surface:
    """The surface of a problem on a grid: all its points, see `StagePaths`."""
    paths = StagePaths(
        problem,
        grid,
        max_stages=max_stages,
        tol=tol,
        max_iter=max_iter,
        n_jobs=n_jobs,
        grams=caches_for(problem, LASSOS, budget=budget, n_jobs=n_jobs) if grams is None else grams,
        tick=tick,
        stop=stop,
        careful=careful,
    )
    paths.advance(np.full(grid.shape[1], grid.shape[0]))
    paths.finish(np.zeros(grid.shape, dtype=bool))
    return paths.solutions()
