"""The (lam, theta) surface: Algorithm 1 on a whole grid, nothing computed twice.

Stage 1 does not depend on theta: it is solved once per lam, warm from the lam before. A later stage depends on theta only
through the rows that it caps: at one lam every set of capped rows is solved once, whichever theta asks for it. (Where
a stage's minimiser is not unique the answer is the one nearest to the stage before, so there the sets before count
too.) A point stops short of a stage that would interpolate in most tasks: such stages are not unique, say nothing about
other data, and would take most of the time. Objectives and certificates are computed on X, by other code, when they are
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .certificates import AT_ONCE, certify_all, relative_gap
from .checks import check_count, check_flag, check_n_jobs, check_positive
from .designs import Design, Floats, Ints
from .gram import Gram, gram_caches
from .grids import Grid, read_grid
from .lasso import DOUBT, OVERRUN, SLID, Lassos, suspicions
from .monitor import Progress, one_blas_thread
from .penalties import CappedRows
from .problem import Problem, pose
from .stages import CROWDED, REPEATS, UNFINISHED, algorithm_1
from .tasks import read_training
from .threads import count, each, shares

NONE = -1  # stands for the place of W = 0, where Algorithm 1 starts


@dataclass(frozen=True)
class Solved:
    """One stage's solution, sparse: values at flat positions of the (m, d) coefficients, and the weights it is for."""

    k: int  # of lams
    capped: Ints  # rows
    at: Ints
    values: Floats
    finished: bool
    slid: Ints  # tasks whose minimiser was not unique, as far as the Gram form can tell


@dataclass(frozen=True, eq=False)
class Surface:
    """Solutions on a grid of lams (K,) and thetas (K, L).

    Attributes
    ----------
    lams, thetas : the grid; column l of thetas belongs to `coef(k, l)`
    tasks, features : labels of the rows and names of the columns of `coef(k, l)`
    n_stages, stopping_reason : (K, L)
    converged : (K, L) the set of capped rows repeats, and every stage's duality gap is at most `tol`
    n_rows, n_entries : (K, L) features used in any task; non-zero coefficients
    objective, dual_gap, unique : (K, L) value of (1), relative duality gap of the last stage, whether every
        stage's solution is certainly the only one. With `converged` computed from the data when first asked for, so
        do not change X and y in place before.
    lam_max : above it all coefficients are 0

    Pickling computes the certificates first and leaves the data behind.
    """

    lams: Floats
    thetas: Floats
    tasks: np.ndarray
    features: np.ndarray
    tol: float
    n_stages: Ints
    stopping_reason: np.ndarray
    solved: tuple[Solved, ...] = field(repr=False)
    chains: np.ndarray = field(repr=False)  # (K, L) of tuples: the places in `solved` of a point's stages
    problem: Problem | None = field(repr=False)

    def __repr__(self) -> str:
        shape = f"{len(self.lams)} lams x {self.thetas.shape[1]} thetas"
        return f"Surface({shape}, {len(self.tasks)} tasks, {len(self.features)} features, {len(self.solved)} solves)"

    # ------------------------------------------------------------------ solutions

    @cached_property
    def converged(self) -> np.ndarray:
        solved = _over(self.chains, lambda chain: bool((self._proofs[0][list(chain)] <= self.tol).all()), np.bool_)
        return solved & (self.stopping_reason == REPEATS)

    @cached_property
    def last(self) -> Ints:
        """(K, L): the place in `solved` of each point's solution."""
        return _over(self.chains, lambda chain: chain[-1], np.intp)

    def coefs(self, places: Sequence[int] | Ints) -> Floats:
        """(len(places), m, d): some of the solutions."""
        out = np.zeros((len(places), len(self.tasks), len(self.features)))
        for row, s in zip(out.reshape(len(places), -1), places, strict=True):
            row[self.solved[s].at] = self.solved[s].values
        return out

    @cached_property
    def _by_task(self) -> sparse.csr_array:
        """(m * solutions, d): the coefficients of all solutions, task outer."""
        m, d, count = len(self.tasks), len(self.features), len(self.solved)
        at = np.concatenate([solved.at for solved in self.solved])
        solution = np.repeat(np.arange(count), [len(solved.at) for solved in self.solved])
        values = np.concatenate([solved.values for solved in self.solved])
        return sparse.csr_array((values, (at // d * count + solution, at % d)), shape=(m * count, d))

    def of_task(self, i: int) -> sparse.csr_array:
        """(solutions, d): task i's coefficients in all solutions."""
        count = len(self.solved)
        return self._by_task[i * count : (i + 1) * count]

    def coef(self, k: int, l: int) -> Floats:
        """(m, d): coefficients at lams[k] and thetas[k, l], in the data's units."""
        return self.coefs([self.last[k, l]])[0]

    def sparse_coef(self, k: int, l: int) -> sparse.csr_array:
        """The same as a sparse array."""
        solved, shape = self.solved[self.last[k, l]], (len(self.tasks), len(self.features))
        return sparse.csr_array((solved.values, np.unravel_index(solved.at, shape)), shape=shape)

    def intercept(self, k: int, l: int) -> Floats:
        """(m,): the intercepts that belong to `coef(k, l)`; zeros if the model has none."""
        return np.asarray(self._intercepts[self.last[k, l]])

    def support(self, k: int, l: int) -> np.ndarray:
        """(m, d) bool: where `coef(k, l)` is not zero."""
        return self.coef(k, l) != 0.0

    def free_rows(self, k: int, l: int) -> Ints:
        """The features that the last stage left un-penalised."""
        return self.solved[self.last[k, l]].capped

    @cached_property
    def n_entries(self) -> Ints:
        return np.array([len(solved.at) for solved in self.solved], dtype=np.intp)[self.last]

    @cached_property
    def n_rows(self) -> Ints:
        d = len(self.features)
        return np.array([len(np.unique(solved.at % d)) for solved in self.solved], dtype=np.intp)[self.last]

    # ------------------------------------------------------------------ what needs the data

    @cached_property
    def lam_max(self) -> float:
        return self._data().lam_max

    def _data(self) -> Problem:
        assert self.problem is not None
        return self.problem

    def lassos_of(self, i: int, places: Ints) -> Iterator[tuple[Floats, Floats]]:
        """Coefficients and weights of task i's lassos in some solutions, in pieces of (AT_ONCE, d)."""
        problem = self._data()
        W = self.of_task(i)
        factors = 0.5 * problem.m * problem.designs[i].n * problem.factors[:, i]
        for begin in range(0, len(places), AT_ONCE):
            some = places[begin : begin + AT_ONCE]
            A = np.outer([self.lams[self.solved[s].k] for s in some], factors)
            for a, s in zip(A, some, strict=True):
                capped = self.solved[s].capped
                a[capped] = np.where(np.isinf(factors[capped]), np.inf, 0.0)
            yield W[some].toarray(), A

    @cached_property
    def _intercepts(self) -> Floats:
        """(solutions, m)"""
        return np.stack([design.intercepts(self.of_task(i)) for i, design in enumerate(self._data().designs)], axis=1)

    @cached_property
    def losses(self) -> Floats:
        """(solutions, m): |y_i - X_i w_i|^2"""
        designs = self._data().designs
        return np.array([_losses(design, self.of_task(i)) for i, design in enumerate(designs)]).T

    @cached_property
    def objective(self) -> Floats:
        problem = self._data()
        n = np.array([design.n for design in problem.designs])
        out = (self.losses / (problem.m * n)).sum(axis=1)[self.last]
        for k, l in np.ndindex(out.shape):
            out[k, l] += CappedRows(float(self.lams[k]), float(self.thetas[k, l]), problem.factors).value(
                self.coef(k, l).T
            )
        return np.asarray(out)

    @cached_property
    def _proofs(self) -> tuple[Floats, np.ndarray]:
        """Relative gap and uniqueness of every solution."""
        problem = self._data()
        every = np.arange(len(self.solved))

        def certify(i: int) -> list[Any]:
            memo: dict[Any, Any] = {}
            parts = [certify_all(problem.designs[i], W, A, problem.positive, memo) for W, A in self.lassos_of(i, every)]
            return [proof for part in parts for proof in part]

        proofs = [certify(i) for i in range(problem.m)]
        gaps = [relative_gap(problem.designs, of_one) for of_one in zip(*proofs, strict=True)]
        return np.array(gaps), np.array([all(p.unique for p in of_one) for of_one in zip(*proofs, strict=True)])

    @cached_property
    def dual_gap(self) -> Floats:
        return np.asarray(self._proofs[0][self.last])

    @cached_property
    def unique(self) -> np.ndarray:
        return _over(self.chains, lambda chain: bool(self._proofs[1][list(chain)].all()), np.bool_)

    # ------------------------------------------------------------------ tables

    def to_dict(self) -> dict[str, np.ndarray]:
        """One entry per point, lam outer, in columns."""
        K, L = self.thetas.shape
        columns: dict[str, np.ndarray] = {"lam": np.repeat(self.lams[:, None], L, axis=1), "theta": self.thetas}
        for name in ("objective", "dual_gap", "n_stages", "converged", "unique", "n_rows", "n_entries"):
            columns[name] = getattr(self, name)
        columns["n_free_rows"] = np.array([len(solved.capped) for solved in self.solved], dtype=np.intp)[self.last]
        columns["stopping_reason"] = self.stopping_reason
        return {name: np.asarray(values).reshape(K * L) for name, values in columns.items()}

    def to_frame(self) -> Any:
        """A pandas table, one row per point, lam outer."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas (pip install pandas); to_dict() does without.") from error
        return pd.DataFrame(self.to_dict())

    def __getstate__(self) -> dict[str, Any]:
        if self.problem is not None:
            _ = self._intercepts, self.objective, self.dual_gap, self.unique, self.converged, self.lam_max
        return {**self.__dict__, "problem": None}


def _over(chains: np.ndarray, value: Callable[[tuple[int, ...]], Any], dtype: Any) -> np.ndarray:
    return np.array([value(chain) for chain in chains.ravel()], dtype=dtype).reshape(chains.shape)


def _pieces(matrix: sparse.csr_array) -> Iterator[Floats]:
    """The rows as dense arrays, AT_ONCE together."""
    for begin in range(0, matrix.shape[0], AT_ONCE):
        yield matrix[begin : begin + AT_ONCE].toarray()


def _losses(design: Design, W: sparse.csr_array) -> Floats:
    def of_piece(part: Floats) -> Floats:
        R = None if design.target is None else design.residuals(part)
        return np.array([design.loss(w) for w in part]) if R is None else np.einsum("sr,sr->s", R, R)

    return np.concatenate([of_piece(part) for part in _pieces(W)])


# ------------------------------------------------------------------ solving


def regularization_surface(
    X: Any,
    y: Any,
    *,
    task: Any = None,
    task_column: str | int | None = None,
    lams: Any = 50,
    theta_ratios: Any = None,
    thetas: Any = None,
    fit_intercept: bool = True,
    standardize: bool = False,
    positive: bool = False,
    penalty_factors: Any = None,
    sample_weight: Any = None,
    max_stages: int = 10,
    tol: float = 1e-8,
    lam_min_ratio: float | None = None,
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
    fit_intercept, standardize, positive, penalty_factors, max_stages : as for :class:`MSMTFL`
    tol : the relative duality gap that the stages of a `converged` point stay below
    lam_min_ratio : by default 1e-3, or 1e-4 if every task has more samples than features
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
    flags = {"fit_intercept": fit_intercept, "standardize": standardize, "positive": positive, "verbose": verbose}
    for name, value in flags.items():
        check_flag(name, value)
    if memory_budget is not None:
        check_positive("memory_budget", memory_budget)
    with one_blas_thread():
        data = read_training(X, y, task=task, task_column=task_column, sample_weight=sample_weight)
        problem = pose(
            data,
            fit_intercept=fit_intercept,
            standardize=standardize,
            positive=positive,
            penalty_factors=penalty_factors,
            n_jobs=n_jobs,
        )
        grid = read_grid(problem, lams, theta_ratios, thetas, lam_min_ratio)
        with Progress(len(grid.lams), "lams", verbose) as progress:
            return solve_surface(
                problem,
                grid,
                max_stages=max_stages,
                tol=tol,
                n_jobs=n_jobs,
                budget=memory_budget,
                tick=progress.step,
                stop=progress.stop,
            )


def solve_surface(
    problem: Problem,
    grid: Grid,
    *,
    max_stages: int = 10,
    tol: float = 1e-8,
    n_jobs: int | None = None,
    grams: list[Gram] | None = None,
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
    grams = gram_caches(problem.designs, budget=budget, n_jobs=n_jobs) if grams is None else grams
    order = np.argsort(-grid.lams, kind="stable").tolist()
    firsts = _path(problem, grid, grams, order, n_jobs, tick, stop, careful)
    by_lam = all(gram.whole is not None for gram in grams)
    walkers = min(count(n_jobs), len(order)) if by_lam else 1

    def walk(start: int) -> _Walk:
        walk = _Walk(problem, grid, firsts, _lassos(problem, grams, None if by_lam else n_jobs, careful), max_stages)
        for k in order[start::walkers]:
            walk.at(k)
            tick(0.5)
        return walk

    walks = each(walk, range(walkers), n_jobs if by_lam else None, stop)
    surface = _gather(problem, grid, walks, tol)
    if careful or not _doubtful(surface, problem):
        return surface
    return solve_surface(
        problem, grid, max_stages=max_stages, tol=tol, n_jobs=n_jobs, grams=grams, stop=stop, careful=True
    )


def _doubtful(surface: Surface, problem: Problem) -> bool:
    """Whether X contradicts a solution that in Gram form is one of several."""
    ties: list[list[int]] = [[] for _ in problem.designs]  # by task: places in `solved`
    for place, solved in enumerate(surface.solved):
        for i in solved.slid.tolist():
            ties[i].append(place)
    for i, places in enumerate(ties):
        for W, A in surface.lassos_of(i, np.array(places, dtype=np.intp)):
            if (suspicions(problem.designs[i], W, A) > DOUBT).any():
                return True
    return False


def _lassos(
    problem: Problem, grams: list[Gram], n_jobs: int | None, careful: bool, tasks: slice = slice(None)
) -> Lassos:
    return Lassos(
        problem.designs[tasks],
        positive=problem.positive,
        units=problem.units[tasks],
        grams=grams[tasks],
        careful=careful,
        n_jobs=n_jobs,
    )


@dataclass(frozen=True)
class _First:
    """Stage 1 at one lam, of some of the tasks."""

    W: sparse.csr_array
    finished: bool
    slid: Ints


def _path(
    problem: Problem,
    grid: Grid,
    grams: list[Gram],
    order: list[int],
    n_jobs: int | None,
    tick: Callable[[float], None],
    stop: Callable[[], None] | None,
    careful: bool,
) -> list[list[_First]]:
    """Stage 1 at every lam, in pieces: tasks have nothing to do with each other here, so threads share them out."""
    pieces = shares(problem.m, n_jobs)
    # the scale of (1) has the number of all tasks in it
    scale = 0.5 * problem.m * np.array([[design.n] for design in problem.designs])

    def path(tasks: slice) -> dict[int, _First]:
        lassos, weights = _lassos(problem, grams, None, careful, tasks), scale[tasks] * problem.factors.T[tasks]
        out = {}
        for k in order:
            W, _ = lassos.solve(grid.lams[k] * weights)
            slid = np.flatnonzero(lassos.status & SLID) + tasks.start
            out[k] = _First(sparse.csr_array(W), not (lassos.status & OVERRUN).any(), slid)
            tick(0.5 / len(pieces))
        return out

    parts = each(path, pieces, n_jobs, stop)
    return [[part[k] for part in parts] for k in range(len(order))]


class _Walk:
    """Goes along some of the lams, and at each over the thetas, from stage 1 on; stages start from the last one's state."""

    def __init__(self, problem: Problem, grid: Grid, firsts: list[list[_First]], lassos: Lassos, max_stages: int):
        self.problem, self.grid, self.firsts, self.lassos, self.max_stages = problem, grid, firsts, lassos, max_stages
        factors = problem.factors.T  # (m, d)
        self.weights = lassos.scale * factors  # of stage 1 at lam = 1
        self.freed = np.where(np.isinf(factors), np.inf, 0.0)  # in place of them where a row is capped
        self.of_norm = np.ravel(np.where(np.isinf(factors), 0.0, factors))
        self.countable = np.asarray(((factors > 0) & np.isfinite(factors)).any(axis=0))
        self.usable = np.array([design.squares > 0 for design in problem.designs]) & np.isfinite(factors)
        self.always = (self.usable & (factors == 0)).sum(axis=1)  # cells that are never penalised
        self.orders = np.array([design.order for design in problem.designs])
        self.back = False
        self.solved: list[Solved] = []
        self.points: dict[tuple[int, int], tuple[tuple[int, ...], str]] = {}  # (k, l): chain of stages, reason

    def at(self, k: int) -> None:
        """All thetas at lams[k], there and back: the next lam begins where this one ended."""
        self.k, self.A = k, float(self.grid.lams[k]) * self.weights
        self.W = {NONE: np.zeros((self.problem.m, self.problem.d))}  # solutions at this lam, by their place in `solved`
        self.norms: dict[int, np.ndarray] = {NONE: np.zeros(self.problem.d)}  # their row norms
        self.known: dict[tuple[bytes, int], int] = {}  # place of (capped rows, the stage before if it matters)
        thetas = self.grid.thetas[k]
        falling = np.argsort(-thetas, kind="stable")
        for l in falling[::-1] if self.back else falling:
            self.points[k, int(l)] = self._run(float(thetas[l]))
        self.back = not self.back

    def _run(self, theta: float) -> tuple[tuple[int, ...], str]:
        """One point: the places in `solved` of its stages, and why they ended."""
        chain: list[int] = []

        def solve(capped: np.ndarray, before: int) -> tuple[int, str]:
            if chain and self._crowded(capped):
                return before, CROWDED
            chain.append(self._stage(capped, before))
            return chain[-1], "" if self.solved[chain[-1]].finished else UNFINISHED

        reason = algorithm_1(lambda place: self.norms[place] >= theta, solve, NONE, self.max_stages)
        return tuple(chain), reason

    def _crowded(self, capped: np.ndarray) -> bool:
        """Whether in most tasks more features would be un-penalised than there are independent samples."""
        if self.problem.positive:  # the constraint can make such a stage unique
            return False
        free = self.always + (self.usable & (self.of_norm.reshape(self.usable.shape) > 0))[:, capped].sum(axis=1)
        return bool(np.count_nonzero(free > self.orders) > 0.5 * len(free))

    def _stage(self, capped: np.ndarray, before: int) -> int:
        """The place in `solved` of the stage with these rows capped."""
        key = capped.tobytes()
        for known in ((key, NONE), (key, before)):
            if known in self.known:
                return self.known[known]
        rows = np.flatnonzero(capped)
        if before == NONE:
            first = self.firsts[self.k]
            W, finished = np.concatenate([part.W.toarray() for part in first]), all(part.finished for part in first)
            slid = np.concatenate([part.slid for part in first])
        else:
            A = self.A.copy()
            A[:, rows] = self.freed[:, rows]
            W, _ = self.lassos.solve(A, reference=self.W[before])
            finished, slid = not (self.lassos.status & OVERRUN).any(), np.flatnonzero(self.lassos.status & SLID)
        at = np.flatnonzero(W)
        values = W.ravel()[at]
        place = len(self.solved)
        self.solved.append(Solved(self.k, rows[self.countable[rows]], at, values, finished, slid))
        self.W[place] = W
        self.norms[place] = np.bincount(at % self.problem.d, self.of_norm[at] * np.abs(values), self.problem.d)
        self.known[key, before if slid.size else NONE] = place
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
        tasks=problem.data.labels,
        features=problem.data.features,
        tol=tol,
        n_stages=_over(chains, len, np.intp),
        stopping_reason=reasons,
        solved=tuple(solved),
        chains=chains,
        problem=problem,
    )
