"""Solving Algorithm 1 on a whole grid of (lam, theta), nothing computed twice.

Stage 1 does not depend on theta: it is solved once per lam, warm from the lam before. A later stage depends on theta only
through the rows that it caps: at one lam every set of capped rows is solved once, whichever theta asks for it. (Where
a stage's minimiser is not unique the answer is the one nearest to the stage before, so there the sets before count
too.) A point stops short of a stage that would interpolate in most tasks: such stages are not unique, say nothing about
other data, and would take most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .certificates import GAP
from .checks import check_count, check_flag, check_n_jobs, check_positive, check_verbose
from .designs import Floats, Ints
from .glm import check_loss, pose_loss
from .grids import Grid, read_grid
from .lasso import DOUBT, OVERRUN, SLID, WEAK, Lassos, suspicions
from .monitor import Progress, one_blas_thread
from .penalties import bent, slopes_of
from .problem import Problem, pose
from .stages import CROWDED, UNFINISHED, algorithm_1
from .surface import Solved, Surface
from .tasks import read_training
from .threads import count, each, shares

NONE = -1  # stands for the place of W = 0, where Algorithm 1 starts


def regularization_surface(
    X: Any,
    y: Any,
    *,
    task: Any = None,
    task_column: str | int | None = None,
    lams: Any = 50,
    theta_ratios: Any = None,
    thetas: Any = None,
    loss: str = "squared",
    epsilon: float = 1.35,
    fit_intercept: bool = True,
    standardize: bool = False,
    positive: bool = False,
    penalty_factors: Any = None,
    sample_weight: Any = None,
    max_stages: int = 10,
    tol: float = 1e-8,
    lam_min_ratio: float | None = None,
    entry_shares: Any = (0.0,),
    entry_ratios: Any = None,
    penalty: Any = "capped",
    n_jobs: int | None = None,
    memory_budget: float | None = None,
    verbose: bool = False,
) -> Surface:
    """MSMTFL on a whole grid of (lam, theta), for little more than the price of one lasso path.

    Every point is what ``MSMTFL(lam, theta)`` gives on its own, but for one thing: where the next stage would leave more
    features un-penalised than there are independent samples, in most tasks, the point keeps the stage before it (see its
    `stopping_reason`; MSMTFL itself goes on, and warns).

    Parameters
    ----------
    X, y, task, task_column, sample_weight : as for :meth:`MSMTFL.fit`
    lams : how many, or an array (K,) in any order; by default geometric from lam_max to `lam_min_ratio` lam_max
    theta_ratios : (L,) theta in units of m lam / rho_bar; by default six from 1 to max(50, 11 m), and inf (the lasso)
    thetas : (L,) or (K, L), instead of ratios; inf allowed
    loss, epsilon, fit_intercept, standardize, positive, penalty_factors, max_stages : as for :class:`MSMTFL`
    tol : the relative duality gap that the stages of a `converged` point stay below
    lam_min_ratio : by default 1e-3, or 1e-4 if every task has more samples than features
    entry_shares : shares s of lam that go to a penalty of its own on every entry: lam_entry = s lam, and (1 - s) lam for the
        rows; by default 0, the paper's model. Columns of the surface are all combinations of share, theta and entry ratio
    entry_ratios : theta_entry in units of m lam / rho_bar; by default 0.5 and 2
    penalty : as for :class:`MSMTFL`
    n_jobs : threads; the result is the same to rounding
    memory_budget : bytes for Gram matrices, by default 1 GiB
    verbose : show a progress bar

    Returns
    -------
    Surface

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
    with one_blas_thread():
        data = read_training(X, y, task=task, task_column=task_column, sample_weight=sample_weight)
        options = {**flags, "penalty_factors": penalty_factors, "n_jobs": n_jobs}
        problem = pose(data, **options) if loss == "squared" else pose_loss(data, loss=loss, epsilon=epsilon, **options)
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
        problem.release()
        return surface


def solve_surface(
    problem: Problem,
    grid: Grid,
    *,
    max_stages: int = 10,
    tol: float = 1e-8,
    max_iter: int = 0,
    n_jobs: int | None = None,
    grams: list[Any] | None = None,
    budget: float | None = None,
    tick: Callable[[float], None] = lambda part: None,
    stop: Callable[[], None] | None = None,
    careful: bool = False,
) -> Surface:
    """The surface of a problem on a grid.

    Threads share out the tasks of stage 1; then the lams, where whole Gram matrices are at hand, otherwise (few rows of
    many) the tasks again, so that no row is fetched twice. `tick` is called with the share of a lam
    that has been done, and may raise to stop; `stop` is called when a thread has raised, so that `tick` can stop the
    others. Solutions that seem not to be unique in Gram form are checked on X at the end; if one fails (nearly dependent
    columns can look dependent), all is solved again, `careful`ly: checked one by one.
    """
    grams = problem.caches(budget=budget, n_jobs=n_jobs) if grams is None else grams
    order = np.argsort(-grid.lams, kind="stable").tolist()
    firsts = _path(problem, grid, grams, order, max_iter, n_jobs, tick, stop, careful)
    by_lam = all(gram.whole is not None for gram in grams)
    walkers = min(count(n_jobs), len(order)) if by_lam else 1

    def walk(start: int) -> _Walk:
        walk = _Walk(
            problem, grid, firsts, _lassos(problem, grams, None if by_lam else n_jobs, careful), max_stages, max_iter
        )
        for k in order[start::walkers]:
            walk.at(k)
            tick(0.5)
        return walk

    walks = each(walk, range(walkers), n_jobs if by_lam else None, stop)
    surface = _gather(problem, grid, walks, tol)
    if careful or not _doubtful(surface, problem):
        return surface
    return solve_surface(
        problem,
        grid,
        max_stages=max_stages,
        tol=tol,
        max_iter=max_iter,
        n_jobs=n_jobs,
        grams=grams,
        tick=lambda part: tick(0.0),  # counted already; it may still stop the work
        stop=stop,
        careful=True,
    )


def _doubtful(surface: Surface, problem: Problem) -> bool:
    """Whether X contradicts a solution that in Gram form is one of several, or ill-conditioned."""
    unclear: list[list[int]] = [[] for _ in problem.designs]  # by task: places in `solved`
    for place, solved in enumerate(surface.solved):
        for i in solved.unclear.tolist():
            unclear[i].append(place)
    for i, (design, places) in enumerate(zip(problem.designs, unclear, strict=True)):
        for W, A in surface.lassos_of(i, np.array(places, dtype=np.intp)):
            doubt = suspicions(design, W, A) > DOUBT
            proofs = problem.certify(i, W[doubt], A[doubt]) if doubt.any() else []
            if any(proof.relative_gap > GAP for proof in proofs):
                return True
    return False


def _lassos(
    problem: Problem, grams: list[Any], n_jobs: int | None, careful: bool, tasks: slice = slice(None)
) -> Lassos:
    return problem.lassos(grams, n_jobs, careful, tasks)


@dataclass(frozen=True)
class _First:
    """Stage 1 at one lam, of some of the tasks: values at flat positions of the (m, d) coefficients."""

    at: Ints
    values: Floats
    status: np.ndarray


def _path(
    problem: Problem,
    grid: Grid,
    grams: list[Any],
    order: list[int],
    max_iter: int,
    n_jobs: int | None,
    tick: Callable[[float], None],
    stop: Callable[[], None] | None,
    careful: bool,
) -> list[list[_First]]:
    """Stage 1 at every lam, in pieces: tasks have nothing to do with each other here, so threads share them out."""
    pieces = shares(problem.m, n_jobs)

    def path(tasks: slice) -> dict[int, _First]:
        lassos, weights = _lassos(problem, grams, None, careful, tasks), problem.stage_weights[tasks]
        out = {}
        for k in order:
            W, _ = lassos.solve(grid.lams[k] * weights, max_iter=max_iter)
            at = np.flatnonzero(W)
            out[k] = _First(at + tasks.start * problem.d, W.ravel()[at], lassos.status)
            tick(0.5 / len(pieces))
        return out

    parts = each(path, pieces, n_jobs, stop)
    return [[part[k] for part in parts] for k in range(len(order))]


class _Walk:
    """Goes along some of the lams, and at each over the thetas, from stage 1 on; stages start from the last one's state."""

    def __init__(
        self, problem: Problem, grid: Grid, firsts: list[list[_First]], lassos: Lassos, max_stages: int, max_iter: int
    ):
        self.problem, self.grid, self.firsts, self.lassos = problem, grid, firsts, lassos
        self.max_stages, self.max_iter = max_stages, max_iter
        factors = problem.factors.T  # (m, d)
        self.of_norm = np.ravel(np.where(np.isinf(factors), 0.0, factors))
        self.counts = np.ravel((factors > 0) & np.isfinite(factors))  # cells that can be eased
        self.every = None if self.counts.all() else self.counts
        usable = np.array([design.squares > 0 for design in problem.designs])
        self.always = (usable & (factors == 0)).sum(axis=1)  # cells that are never penalised
        self.usable = usable.ravel()
        self.orders = np.array([design.order for design in problem.designs])
        self.back = False
        self.solved: list[Solved] = []
        self.points: dict[tuple[int, int], tuple[tuple[int, ...], str]] = {}  # (k, l): chain of stages, reason

    def at(self, k: int) -> None:
        """All thetas at lams[k], there and back: the next lam begins where this one ended."""
        self.k, self.A = k, float(self.grid.lams[k]) * self.problem.stage_weights
        self.W = {NONE: np.zeros((self.problem.m, self.problem.d))}  # solutions at this lam, by their place in `solved`
        self.norms: dict[int, np.ndarray] = {NONE: np.zeros(self.problem.d)}  # their row norms
        self.known: dict[tuple[bytes, int], int] = {}  # place of (what is eased, the stage before if it matters)
        tour = self.grid.tour(k)
        for l in reversed(tour) if self.back else tour:
            self.points[k, l] = self._run(k, l)
        self.back = not self.back

    def _run(self, k: int, l: int) -> tuple[tuple[int, ...], str]:
        """One point: the places in `solved` of its stages, and why they ended."""
        chain: list[int] = []
        share = float(self.grid.shares[l])

        def solve(pattern: np.ndarray, before: int) -> tuple[int, str]:
            eased, left = self._ease(pattern, share)
            if chain and self._crowded(eased[left == 0.0]):
                return before, CROWDED
            chain.append(self._stage(eased, left, before))
            return chain[-1], "" if self.solved[chain[-1]].finished else UNFINISHED

        reason = algorithm_1(lambda place: self._pattern(place, k, l), solve, NONE, self.max_stages)
        return tuple(chain), reason

    def _pattern(self, place: int, k: int, l: int) -> np.ndarray:
        """What point (k, l) makes of a solution; see `ConcaveRows.pattern`."""
        grid, share = self.grid, self.grid.shares[l]
        rows = np.empty((2, 0))
        if share < 1.0:
            rows = bent(slopes_of(grid.concave, self.norms[place], float(grid.thetas[k, l])))
        if share == 0.0 or place == NONE:
            return rows
        of = self.solved[place]
        sizes = self.of_norm[of.at] * np.abs(of.values)
        entries = bent(slopes_of(grid.concave, sizes, float(grid.theta_entries[k, l])))
        entries[0] = of.at[entries[0].astype(np.intp)] + self.problem.d
        return np.concatenate([rows, entries], axis=1)

    def _ease(self, pattern: np.ndarray, share: float) -> tuple[Ints, Floats]:
        """The cells whose weights a pattern lowers, as flat positions, and what is left of them, relative to lam."""
        d, m = self.problem.d, self.problem.m
        of_rows = pattern[0] < d
        rows = pattern[0, of_rows].astype(np.intp)
        cells = (d * np.arange(m)[:, None] + rows).ravel()
        left = np.tile(pattern[1, of_rows], m)
        if share > 0.0:
            entries, at = np.ones(m * d), pattern[0, ~of_rows].astype(np.intp) - d
            entries[at] = pattern[1, ~of_rows]
            slopes = np.ones(d)
            slopes[rows] = pattern[1, of_rows]
            cells = np.union1d(cells, at)
            left = (1.0 - share) * slopes[cells % d] + share * entries[cells]
        if self.every is None:
            return cells, left
        return cells[self.every[cells]], left[self.every[cells]]

    def _crowded(self, free: Ints) -> bool:
        """Whether in most tasks more features would be un-penalised than there are independent samples."""
        if self.problem.positive:  # the constraint can make such a stage unique
            return False
        of_task = np.bincount(free[self.usable[free]] // self.problem.d, minlength=self.problem.m)
        return bool(np.count_nonzero(self.always + of_task > self.orders) > 0.5 * self.problem.m)

    def _stage(self, eased: Ints, left: Floats, before: int) -> int:
        """The place in `solved` of the stage with these weights."""
        key = eased.tobytes() + left.tobytes()
        for known in ((key, NONE), (key, before)):
            if known in self.known:
                return self.known[known]
        if before == NONE:
            first = self.firsts[self.k]
            at, values = np.concatenate([part.at for part in first]), np.concatenate([part.values for part in first])
            W = np.zeros((self.problem.m, self.problem.d))
            W.ravel()[at] = values
            status = np.concatenate([part.status for part in first])
        else:
            A = self.A.copy()
            A.ravel()[eased] *= left
            W, _ = self.lassos.solve(A, reference=self.W[before], max_iter=self.max_iter)
            status = self.lassos.status
            at = np.flatnonzero(W)
            values = W.ravel()[at]
        place = len(self.solved)
        finished, unclear = not (status & OVERRUN).any(), np.flatnonzero(status & (SLID | WEAK))
        self.solved.append(Solved(self.k, at, values, finished, unclear, eased, left))
        self.W[place] = W
        self.norms[place] = np.bincount(at % self.problem.d, self.of_norm[at] * np.abs(values), self.problem.d)
        self.known[key, before if (status & SLID).any() else NONE] = place
        return place


def _gather(problem: Problem, grid: Grid, walks: Sequence[_Walk], tol: float) -> Surface:
    chains, reasons = np.empty(grid.shape, dtype=object), np.empty(grid.shape, dtype=object)
    solved: list[Solved] = []
    for walk in walks:
        for point, (chain, reason) in walk.points.items():
            chains[point], reasons[point] = tuple(len(solved) + s for s in chain), reason
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
    )
