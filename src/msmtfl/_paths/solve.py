"""Solving Algorithm 1 on a whole grid of (lam, theta), nothing computed twice.

Stage 1 does not depend on theta: it is solved once per lam, warm from the lam before. A later stage depends on theta only
through the rows that it caps: at one lam every set of capped rows is solved once, whichever theta asks for it. (Where
a stage's minimiser is not unique the answer is the one nearest to the stage before, so there the sets before count
too.) A point stops short of a stage that would interpolate in most tasks: such stages are not unique, say nothing about
other data, and would take most of the time.

`Walk` is the bookkeeping of this for any penalty, wherever stages are solved. Here, where the data are, capped
penalties go from stage to stage in compiled code instead (`_kernels/stage_loop.py`); others, and data on workers
(`dask/remote.py`), by `Walk` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._data.designs import Floats, Ints, support
from .._data.ridged import ridged
from .._data.tables import Labels, Table, Targets
from .._data.tasks import read_training
from .._kernels import active_set as _kernel
from .._kernels import stage_loop as _trail
from .._objective.certificates import GAP
from .._objective.losses import loss_named
from .._objective.penalties import bent, slopes_of
from .._objective.problem import Problem
from .._objective.shapes import CAPPED, Shape
from .._runtime.checks import check_count, check_flag, check_n_jobs, check_positive, check_verbose
from .._runtime.progress import Progress, one_blas_thread
from .._runtime.threads import count, each
from .._solvers.gram import Gram, LackingError, at_hand, closed
from .._solvers.make_problem import check_intercepts, check_loss, make_problem, release
from .._solvers.nonunique import DOUBT, suspicions
from .._solvers.one_level import has_one_level
from .._solvers.proximal_newton import ESCAPES, LossLassos
from .._solvers.solvers import LASSOS, caches_for, lassos_for
from .._solvers.stages import CROWDED, CYCLES, REPEATS, SEPARATED, UNFINISHED, algorithm_1, limit, same
from .._solvers.task_solver import Caches
from .._solvers.weighted_lasso import OVERRUN, SLID, WEAK, Lassos, Solve, go_on
from .crowding import Crowding
from .grids import Grid, read_grid
from .prefetch import foresee, likely_shared
from .surface import Solved, Surface, no_points

NONE = -1  # stands for the place of W = 0, where Algorithm 1 starts
NOBODY, NOTHING = np.empty(0, dtype=np.intp), np.empty(0)
UNBENT, NO_KEY = np.empty((2, 0)), (b"", 0.0)  # the pattern of stage 1, and its key


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


class Walked(NamedTuple):
    """Points of a grid, and the solutions that they refer to."""

    points: dict[tuple[int, int], Chain]
    solved: list[Solved]
    without: set[Place]  # solutions that stand for none, as there is no minimiser


class StagePaths:
    """Goes down the lams of a grid and at each over its columns, as far as it is asked to.

    Threads share out the tasks of stage 1, then the lams. Where Gram rows are fetched on demand, those foreseen are there by
    then; what is lacking still is fetched in rounds, when all threads have come as far as they can: so the rounding does not
    depend on which one is faster. `tick` is called with the share of a lam that has been done, and may raise to stop; `stop`
    is called when a thread has raised, so that `tick` can stop the others. Solutions that seem not to be unique in Gram form
    are checked on X; if one fails (nearly dependent columns can look dependent), all is solved again, `careful`ly: checked
    one by one.
    """

    def __init__(
        self,
        problem: Problem,
        grid: Grid,
        *,
        max_stages: int,
        tol: float,
        max_iter: int,
        n_jobs: int | None,
        grams: Caches,
        tick: Callable[[float], None],
        stop: Callable[[], None] | None,
        careful: bool = False,
    ):
        self.problem, self.grid, self.max_stages, self.tol, self.max_iter = problem, grid, max_stages, tol, max_iter
        self.one_level = has_one_level(problem)  # the tasks' state: only one at a time may move it
        self.n_jobs = None if self.one_level else n_jobs
        self.grams, self.tick, self.stop = grams, tick, stop
        self.order = np.argsort(-grid.lams, kind="stable").tolist()
        self.cells = Cells(problem)
        self.done = np.zeros(grid.shape[1], dtype=np.intp)
        self._begin(careful)

    def _begin(self, careful: bool) -> None:
        self.careful = careful
        self.path = lassos_for(self.problem, self.grams, self.n_jobs, careful)
        self.firsts: dict[int, Solve] = {}
        self.walks: list[_LocalWalk] = []
        self.parts: list[list[Walked]] = []  # what every call has solved
        self.checked = 0  # how many of them have been checked

    def advance(self, ends: Ints) -> None:
        """Solve the first ends[l] points of every column l."""
        self._solve(self.done, ends)
        self.done = np.maximum(self.done, ends)

    def finish(self, points: np.ndarray) -> bool:
        """Check the solutions that seem not to be unique; whether all had to be solved again, carefully."""
        if self.one_level or self.careful or not _doubtful(self._gathered(self.parts[self.checked :]), self.problem):
            self.checked = len(self.parts)
            return False
        tick, self.tick = self.tick, lambda part: tick(0.0)  # counted already; it may still stop the work
        self._begin(careful=True)
        self._solve(np.zeros_like(self.done), self.done)
        self.tick = tick
        return True

    def _solve(self, begins: Ints, ends: Ints) -> None:
        problem, grid = self.problem, self.grid
        spans = [(l, begin, end) for l, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True))]
        levels = range(min((begin for _, begin, end in spans if begin < end), default=0), int(max(ends)))
        steps = [(self.order[s], [l for l, begin, end in spans if begin <= s < end]) for s in levels]
        steps = [(k, columns) for k, columns in steps if columns]
        new = self.order[len(self.firsts) : int(max(ends))]
        if new:
            path = self.path.path(
                grid.lams[new],
                problem.stage_weights,
                max_iter=self.max_iter,
                likely=likely_shared(problem, self.grams) if not self.firsts else None,
                tick=lambda part: self.tick(0.5 * part),
                stop=self.stop,
            )
            self.firsts |= dict(zip(new, path, strict=True))
        firsts, roomy = {k: self.firsts[k] for k, _ in steps}, self.cells.crowding.roomy
        by_lam = at_hand(self.grams) or (
            self.max_stages > 1 and foresee(problem, grid, firsts, self.grams, roomy, self.n_jobs)
        )
        walkers = min(count(self.n_jobs), len(steps)) if by_lam else 1
        make = partial(
            lassos_for, problem, self.grams, self.n_jobs if walkers == 1 else None, self.careful, search=True
        )
        while len(self.walks) < walkers:
            self.walks.append(_LocalWalk(problem, grid, self.cells, make, self.max_stages, self.max_iter, self.careful))
        walks = self.walks[:walkers]
        for walk in walks:
            walk.begin(self.firsts, self.tick)
        shared = [gram for gram in self.grams if isinstance(gram, Gram)] if walkers > 1 else []
        dealt = [[steps[place] for place in turns(len(steps), one, walkers)] for one in range(walkers)]
        go_in_rounds(walks, dealt, shared, self.n_jobs, self.stop)
        self.parts.append([Walked(walk.points, walk.solved, walk.without) for walk in walks])

    def latest(self) -> Surface:
        """What the last call has solved."""
        return self._gathered(self.parts[-1:])

    def solutions(self) -> Surface:
        """All that has been solved."""
        return self._gathered(self.parts)

    def _gathered(self, parts: list[list[Walked]]) -> Surface:
        return gathered(self.problem, self.grid, [walk for part in parts for walk in part], self.tol)


def go_in_rounds(
    walks: list[_LocalWalk],
    steps: list[list[tuple[int, list[int]]]],
    grams: list[Gram],
    n_jobs: int | None,
    stop: Callable[[], None] | None,
) -> None:
    """Walks at the same time, each along its own lams: all as far as they can go with the rows that the Gram matrices they
    share have, then what they lack is fetched, and so on. (A walk alone shares none, and fetches what it needs.)"""
    runs = [(walk, walk.run(some)) for walk, some in zip(walks, steps, strict=True)]
    while runs:
        with closed(grams):
            lacking = each(lambda run: next(run[1], False), runs, n_jobs, stop)
        runs = [run for run, lacks in zip(runs, lacking, strict=True) if lacks]
        for walk, _ in runs:
            walk.complete(n_jobs)
        for walk, _ in runs:
            walk.states = walk.lassos.states()  # which now have what others fetched


def turns(n: int, one: int, of: int) -> list[int]:
    """The places among n that one `of` several takes, there and back, so that what grows from place to place is shared out
    evenly."""
    return [place for place in range(n) if (one, of - 1 - one)[place // of % 2] == place % of]


def _doubtful(surface: Surface, problem: Problem) -> bool:
    """Whether X contradicts a solution that in Gram form is one of several, or ill-conditioned."""
    unclear: list[list[int]] = [[] for _ in problem.designs]  # by task: places in `solved`
    for place, solved in enumerate(surface.solved):
        for i in solved.unclear.tolist():
            unclear[i].append(place)
    for i, places in enumerate(unclear):
        if not places:
            continue
        for W, A, lams in surface.lassos_of(i, np.array(places, dtype=np.intp)):
            doubt = _suspicions(problem, i, W, A, lams) > DOUBT
            proofs = problem.certify(i, W[doubt], A[doubt], lams=lams[doubt]) if doubt.any() else []
            if any(proof.relative_gap > GAP for proof in proofs):
                return True
    return False


def _suspicions(problem: Problem, i: int, W: Floats, A: Floats, lams: Floats) -> Floats:
    design = problem.designs[i]
    if problem.unit_ridge is None:
        return suspicions(design, W, A)
    each_one = [(w[None], a[None], lam * problem.unit_ridge[i]) for w, a, lam in zip(W, A, lams, strict=True)]
    return np.array([suspicions(ridged(design, ridge), w, a)[0] for w, a, ridge in each_one])


Place = int  # of a stage in `solved`
Chain = tuple[tuple[Place, ...], str]  # the stages of a point, and why they ended


class Cells:
    """The (task, feature) cells of a problem: which of them a pattern eases, and whether that leaves too many free."""

    def __init__(self, problem: Problem):
        self.m, self.d, self.positive = problem.m, problem.d, problem.one_sided
        factors = problem.factors.T  # (m, d)
        self.factors = np.ravel(factors)
        self.plain = bool((self.factors == 1.0).all())
        counts = np.ravel((factors > 0) & np.isfinite(factors))  # those that can be eased
        self.every = None if counts.all() else counts
        self.crowding = Crowding(problem)
        self.usable = self.crowding.usable.ravel()
        self.first = self.d * np.arange(self.m)[:, None]  # of every task

    def ease(self, pattern: np.ndarray, share: float) -> tuple[Ints, Floats]:
        """The cells whose weights a pattern lowers, as flat positions, and what is left of them, relative to lam."""
        if pattern.size == 0:
            return NOBODY, NOTHING
        d, m = self.d, self.m
        rows, slopes = pattern[0].astype(np.intp), pattern[1]
        if share > 0.0:
            of_rows = rows < d
            entries, of_row = np.ones(m * d), np.ones(d)
            entries[rows[~of_rows] - d] = slopes[~of_rows]
            of_row[rows[of_rows]] = slopes[of_rows]
            eased = (entries != 1.0) | np.tile(of_row != 1.0, m)
            cells = np.flatnonzero(eased)
            left = (1.0 - share) * of_row[cells % d] + share * entries[cells]
        else:
            cells = (self.first + rows).ravel()
            left = np.concatenate([slopes] * m)
        if self.every is None:
            return cells, left
        return cells[self.every[cells]], left[self.every[cells]]

    def crowded(self, wanted: Wanted) -> bool:
        """Whether a stage would interpolate in most tasks."""
        if self.positive or wanted.pattern.shape[1] <= self.crowding.roomy:
            return False
        free = wanted.eased[wanted.left == 0.0]
        return self.crowding(np.bincount(free[self.usable[free]] // self.d, minlength=self.m))


class Wanted:
    """A stage at lams[k]: the pattern (see `Penalty.pattern`) that a penalty with this share of the entries makes of the
    stage `before` it, and its own `place` once it has been solved. What its weights are, it works out when asked.

    Equal keys at one lam are equal weights; stage 1 has the empty one.
    """

    __slots__ = ("_cells", "_crowded", "_weights", "before", "k", "key", "pattern", "place")

    def __init__(self, cells: Cells, k: int, pattern: np.ndarray, share: float, before: Place):
        self._cells, self.k, self.pattern, self.before = cells, k, pattern, before
        self.key: tuple[bytes, float] = (pattern.tobytes(), share) if pattern.size else NO_KEY
        self.place: Place | None = None
        self._weights: tuple[Ints, Floats] | None = None
        self._crowded: bool | None = None

    @property
    def weights(self) -> tuple[Ints, Floats]:
        """The cells whose weights are eased, as flat positions, rising; what is left of their weights."""
        if self._weights is None:
            self._weights = self._cells.ease(self.pattern, self.key[1])
        return self._weights

    @property
    def eased(self) -> Ints:
        return self.weights[0]

    @property
    def left(self) -> Floats:
        return self.weights[1]

    @property
    def crowded(self) -> bool:
        if self._crowded is None:
            self._crowded = self._cells.crowded(self)
        return self._crowded


def alike(one: Wanted, other: Wanted) -> bool:
    """Whether two stages of one point, so with the same share of entries, have the same pattern."""
    return one is other or same(one.pattern, other.pattern)


class Sizes:
    """Norms of the rows that a solution uses, or its entries: where they are (rising), and how large."""

    __slots__ = ("at", "values")

    def __init__(self, at: Ints, values: Floats):
        self.at, self.values = at, values

    def pattern(self, shape: Shape, theta: float) -> Floats:
        """(2, p): what a penalty of some shape makes of them (see `Penalty.pattern`)."""
        out = bent(slopes_of(shape, self.values, theta))
        out[0] = self.at[out[0].astype(np.intp)]
        return out


class Walk:
    """What is known of the stages of a grid's points, and which of them is to be solved next."""

    def __init__(self, problem: Problem, grid: Grid, max_stages: int, cells: Cells | None = None):
        self.problem, self.grid, self.max_stages = problem, grid, max_stages
        self.cells = Cells(problem) if cells is None else cells
        self.shares, self.lasso = grid.shares.tolist(), grid.lasso.tolist()
        self.thetas, self.theta_entries = grid.thetas.tolist(), grid.theta_entries.tolist()
        self.solved: list[Solved] = []
        self.points: dict[tuple[int, int], Chain] = {}  # by (k, l)
        self.without: set[Place] = set()  # stages that have no minimiser
        self.firsts = [Wanted(self.cells, k, UNBENT, 0.0, NONE) for k in range(len(grid.lams))]
        self.known: dict[Any, Place] = {}  # by lam, what is eased, the stage before if it matters
        self._begin()

    def _begin(self) -> None:
        """What helps to find the next stages; of no use beyond a lam."""
        self.wanted: dict[Any, Wanted] = {}  # by the stage before, and their own keys
        self.patterns: dict[Any, np.ndarray] = {NO_KEY: UNBENT}
        self.rows: dict[Place, Sizes] = {}
        self.entries: dict[Place, Sizes] = {}

    def point(self, k: int, l: int) -> Generator[Wanted, Place, Chain]:
        """Algorithm 1 at point (k, l): yields the stages that are not known yet, and is sent their places."""
        chain: list[Place] = []

        def pattern(place: Place) -> Wanted:
            return self.firsts[k] if place == NONE or self.lasso[k][l] else self._after(place, k, l)

        stages = algorithm_1(pattern, NONE, self.max_stages, alike=alike, crowded=lambda wanted: wanted.crowded)
        try:
            wanted = next(stages)
            while True:
                place = self.find(wanted)
                chain.append((yield wanted) if place is None else place)
                wanted = stages.send((chain[-1], "" if self.solved[chain[-1]].finished else UNFINISHED))
        except StopIteration as end:
            return tuple(chain), end.value

    def _after(self, place: Place, k: int, l: int) -> Wanted:
        """The stage that point (k, l) wants after the one at a place."""
        share, shape = self.shares[l], self.grid.concave
        patterns = [self._rows(place).pattern(shape, self.thetas[k][l])] if share < 1.0 else []
        if share > 0.0:
            patterns.append(self._entries(place).pattern(shape, self.theta_entries[k][l]))
            patterns[-1][0] += self.problem.d  # where entries begin
        whole = patterns[0] if len(patterns) == 1 else np.concatenate(patterns, axis=1)
        if whole.size == 0:
            return self.firsts[k]
        wanted = Wanted(self.cells, k, whole, share, place)
        wanted.pattern = self.patterns.setdefault(wanted.key, whole)
        return self.wanted.setdefault((place, wanted.key), wanted)

    def _rows(self, place: Place) -> Sizes:
        if place not in self.rows:
            of, d = self.solved[place], self.problem.d
            sizes = np.abs(of.values) if self.cells.plain else self.cells.factors[of.at] * np.abs(of.values)
            norms: Floats = np.asarray(np.bincount(of.at % d, sizes, d), dtype=np.float64)  # of nothing: integers
            used = support(norms)
            self.rows[place] = Sizes(used, norms[used])
        return self.rows[place]

    def _entries(self, place: Place) -> Sizes:
        if place not in self.entries:
            of = self.solved[place]
            self.entries[place] = Sizes(of.at, self.cells.factors[of.at] * np.abs(of.values))
        return self.entries[place]

    def find(self, wanted: Wanted) -> Place | None:
        """Where a stage is, if it has been solved: for this point, or with the same weights for another."""
        if wanted.place is None:
            known, (k, key, before) = self.known, (wanted.k, wanted.key, wanted.before)
            wanted.place = known.get((k, key, before), known.get((k, key, NONE)))
        return wanted.place

    def keep(self, wanted: Wanted, at: Ints, values: Floats, status: np.ndarray) -> Place:
        """Take note of a stage: coefficients at flat positions, and the solver's status of every task."""
        place = len(self.solved)
        seen = self._note(wanted.k, at, values, status, wanted.weights)
        self.known[wanted.k, wanted.key, wanted.before if seen & SLID else NONE] = place
        return place

    def _note(self, k: int, at: Ints, values: Floats, status: np.ndarray, weights: tuple[Ints, Floats]) -> int:
        seen = int(np.bitwise_or.reduce(status))
        unclear = np.flatnonzero(status & (SLID | WEAK)) if seen else NOBODY
        if seen & ESCAPES:
            self.without.add(len(self.solved))
        self.solved.append(Solved(k, at, values, not seen & OVERRUN, unclear, *weights))
        return seen


class _LocalWalk(Walk):
    """Goes along some of the lams, and at each over the thetas, from stage 1 on; stages start from the last one's state."""

    def __init__(
        self,
        problem: Problem,
        grid: Grid,
        cells: Cells,
        make: Callable[[], Lassos | LossLassos],
        max_stages: int,
        max_iter: int,
        careful: bool,
    ):
        super().__init__(problem, grid, max_stages, cells)
        self.make, self.max_iter = make, max_iter
        self.tours, self.go_on = grid.tours(), go_on(careful)
        words = {"REPEATS": REPEATS, "CYCLES": CYCLES, "LIMIT": limit(max_stages)}
        words |= {"CROWDED": CROWDED, "UNFINISHED": UNFINISHED}
        self.reasons = {number: words[name] for name, number in _trail.ENDS.items()}
        self.weights, self.reference, self.found = np.zeros((3, problem.m, problem.d))
        self.status, self.rounds = np.zeros((2, problem.m), np.intc)
        self.states: list[_kernel.ActiveSet] = []  # of `lassos`, where the kernel may go from stage to stage
        self.back = False

    @cached_property
    def lassos(self) -> Lassos | LossLassos:
        """Of stages after the first, if there are any."""
        return self.make()

    def begin(self, path: dict[int, Solve], tick: Callable[[float], None]) -> None:
        """Forget what was solved, but not the states: some other points are next."""
        self.path, self.tick = path, tick
        self.solved, self.points, self.known, self.without = [], {}, {}, set()
        if self.states:
            self.states = self.lassos.states()  # which now have what was fetched meanwhile

    def run(self, steps: list[tuple[int, list[int]]]) -> Iterator[bool]:
        """Go along some lams, and at each over some columns; stops (True) where Gram rows are lacking that must not be
        fetched now, and goes on once the stage has been completed."""
        for k, columns in steps:
            yield from self.at(k, columns)
            self.tick(0.5 * len(columns) / self.grid.shape[1])

    @cached_property
    def trail(self) -> _trail.Trail:
        cells = self.cells
        return _trail.Trail(
            self.weights,
            self.reference,
            self.found,
            self.problem.units,
            self.status,
            self.rounds,
            cells.factors,
            cells.usable.view(np.uint8),
            cells.crowding.always,
            cells.crowding.orders,
            cells.crowding.roomy,
            cells.positive,
            self.max_stages,
        )

    def at(self, k: int, columns: list[int]) -> Iterator[bool]:
        """Some columns at lams[k], there and back: the next lam begins where this one ended. Stops as `run` does."""
        tour = [l for l in self.tours[k] if l in columns]
        tour = tour[::-1] if self.back else tour
        self.back = not self.back
        lam = float(self.grid.lams[k])
        np.multiply(lam, self.problem.stage_weights, out=self.weights)
        if self.problem.unit_ridge is not None and self.max_stages > 1:
            self.lassos.at(lam)
        compiled = self.grid.concave is CAPPED and not has_one_level(self.problem)
        yield from self._follow(k, tour) if compiled else self._ask(k, tour)

    def _ask(self, k: int, tour: list[int]) -> Iterator[bool]:
        """Point by point; only where nothing can be lacking."""
        self._begin()
        for l in tour:
            self.points[k, l] = self._run(self.point(k, l))
            self.tick(0.0)
        yield from ()

    def _follow(self, k: int, tour: list[int]) -> Iterator[bool]:
        """The same by the compiled trail, which capped penalties have."""
        trail, first, past = self.trail, self.path[k], len(self.solved)
        trail.begin(first.at, first.values, first.status)
        for l in tour:
            trail.follow(self.thetas[k][l], self.theta_entries[k][l], self.shares[l])
            while not trail.go(self.states, self.go_on, self.max_iter):
                try:
                    self.complete()
                except LackingError:
                    yield True
            chain, reason = trail.chain()
            self.points[k, l] = tuple(past + place for place in chain), self.reasons[reason]
            self.tick(0.0)
        for place in range(len(trail)):
            at, values, marks, share, status = trail.stage(place)
            pattern = np.zeros((2, len(marks)))
            pattern[0] = marks  # as a pattern of any penalty: places, and slopes of 0
            self._note(k, at, values, status, self.cells.ease(pattern, share))

    def complete(self, n_jobs: int | None = None) -> None:
        """What the trail cannot do by itself of a stage."""
        arrays = self.weights, self.reference, self.found, self.status, self.rounds
        if not self.states or not isinstance(self.lassos, Lassos):
            self.states = self.lassos.states()
            self.lassos.solve_into(*arrays, self.max_iter)
        else:
            self.lassos.complete(*arrays, self.max_iter, n_jobs)
        self.states = self.lassos.states()

    def _run(self, point: Generator[Wanted, Place, Chain]) -> Chain:
        try:
            wanted = next(point)
            while True:
                wanted = point.send(self._stage(wanted))
        except StopIteration as end:
            chain: Chain = end.value
            return chain

    def _stage(self, wanted: Wanted) -> Place:
        if wanted.before == NONE:
            first = self.path[wanted.k]
            return self.keep(wanted, first.at, first.values, first.status)
        W = self._solve(wanted)
        at = support(W)
        return self.keep(wanted, at, W.ravel()[at], self.lassos.status)

    def _solve(self, wanted: Wanted) -> Floats:
        """The coefficients (m, d) of a stage. Weights and reference differ from those of other stages in few cells: what is
        not theirs is taken back afterwards."""
        before, (eased, left) = self.solved[wanted.before], wanted.weights
        A, aim = self.weights.ravel(), self.reference.ravel()
        full = A[eased]
        A[eased], aim[before.at] = full * left, before.values
        W, _ = self.lassos.solve(self.weights, reference=self.reference, max_iter=self.max_iter)
        A[eased], aim[before.at] = full, 0.0
        return W


def gathered(problem: Problem, grid: Grid, walks: Sequence[Walk | Walked], tol: float) -> Surface:
    chains, reasons = no_points(grid.shape)
    solved: list[Solved] = []
    for walk in walks:
        for point, (chain, reason) in walk.points.items():
            if chain[-1] in walk.without:  # not solved: the point keeps the stage before
                chain, reason = chain[:-1], SEPARATED
            chains[point] = tuple(len(solved) + s for s in chain) if solved else chain
            reasons[point] = reason
        solved += walk.solved
    return Surface(
        lams=grid.lams,
        thetas=grid.thetas,
        shares=grid.shares,
        theta_entries=grid.theta_entries,
        concave=grid.concave,
        tasks=problem.data.labels,
        features=problem.data.features,
        tol=tol,
        ended=reasons,
        solved=tuple(solved),
        chains=chains,
        problem=problem,
        l1_ratio=problem.l1_ratio,
    )
