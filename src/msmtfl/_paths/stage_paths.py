"""The columns of a surface, solved side by side in stages, with what they share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property, partial

import numpy as np

from .._data.designs import Floats, Ints, support
from .._data.forms.ridged import ridged
from .._kernels import active_set as _kernel
from .._kernels.stage_loop import ENDS, StageLoop
from .._objective.problem import Problem
from .._objective.proofs.certificates import GAP
from .._objective.proofs.lasso_certificates import certify_lassos
from .._objective.shapes import CAPPED
from .._runtime.threads import count, each
from .._solvers.gram import Gram, LackingError, at_hand, closed
from .._solvers.lassos.lasso_solver import Solve, go_on
from .._solvers.lassos.nonunique import DOUBT, suspicions
from .._solvers.lassos.proximal_newton import LossLassos
from .._solvers.lassos.task_solver import Caches
from .._solvers.lassos.weighted_lasso import Lassos
from .._solvers.stages import CROWDED, CYCLES, REPEATS, SEPARATED, UNFINISHED, limit
from .._solvers.task_lassos import lassos_for
from .grid import Grid
from .grid_stages import NONE, Chain, Entries, FoundStages, GridStages, Place, Wanted, lassos_only
from .prefetch import foresee, likely_shared
from .solutions import Solved, no_points
from .surface import Surface


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
        self.one_level = problem.has_one_level  # the tasks' state: only one at a time may move it
        self.n_jobs = None if self.one_level else n_jobs
        self.grams, self.tick, self.stop = grams, tick, stop
        self.order = np.argsort(-grid.lams, kind="stable").tolist()
        self.all_entries, self.lassos = Entries(problem), bool(grid.lasso.all())
        self.done = np.zeros(grid.shape[1], dtype=np.intp)
        self._begin(careful)

    def _begin(self, careful: bool) -> None:
        self.careful = careful
        self.path = lassos_for(self.problem, self.grams, self.n_jobs, careful)
        self.firsts: dict[int, Solve] = {}
        self.solvers: list[LocalStages] = []
        self.parts: list[list[FoundStages]] = []  # what every call has solved
        self.checked = 0  # how many of them have been checked

    def advance(self, ends: Ints) -> None:
        """Solve the first ends[l] points of every column l."""
        self._solve(self.done, ends)
        self.done = np.maximum(self.done, ends)

    def finish(self, points: np.ndarray) -> bool:
        """Check the solutions that seem not to be unique; whether all had to be solved again, carefully."""
        if self.problem.groups is not None:  # several minimisers are told apart by X anyway
            return False
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
                likely=likely_shared(problem, self.grams) if not self.firsts and problem.groups is None else None,
                tick=lambda part: self.tick(0.5 * part),
                stop=self.stop,
            )
            self.firsts |= dict(zip(new, path, strict=True))
        if self.lassos:
            self.parts.append([lassos_only(self.firsts, steps)])
            self.tick(0.5 * sum(len(columns) for _, columns in steps) / grid.shape[1])
            return
        firsts, roomy = {k: self.firsts[k] for k, _ in steps}, self.all_entries.crowding.roomy
        by_lam = at_hand(self.grams) or (
            self.max_stages > 1
            and problem.groups is None
            and foresee(problem, grid, firsts, self.grams, roomy, self.n_jobs)
        )
        walkers = min(count(self.n_jobs), len(steps)) if by_lam else 1
        make = partial(
            lassos_for, problem, self.grams, self.n_jobs if walkers == 1 else None, self.careful, search=True
        )
        while len(self.solvers) < walkers:
            self.solvers.append(
                LocalStages(problem, grid, self.all_entries, make, self.max_stages, self.max_iter, self.careful)
            )
        solvers = self.solvers[:walkers]
        for solver in solvers:
            solver.begin(self.firsts, self.tick)
        shared = [gram for gram in self.grams if isinstance(gram, Gram)] if walkers > 1 else []
        dealt = [[steps[place] for place in turns(len(steps), one, walkers)] for one in range(walkers)]
        go_in_rounds(solvers, dealt, shared, self.n_jobs, self.stop)
        self.parts.append([FoundStages(solver.points, solver.solved, solver.without) for solver in solvers])

    def latest(self) -> Surface:
        """What the last call has solved."""
        return self._gathered(self.parts[-1:])

    def solutions(self) -> Surface:
        """All that has been solved."""
        return self._gathered(self.parts)

    def _gathered(self, parts: list[list[FoundStages]]) -> Surface:
        return gathered(self.problem, self.grid, [solver for part in parts for solver in part], self.tol)


def go_in_rounds(
    solvers: list[LocalStages],
    steps: list[list[tuple[int, list[int]]]],
    grams: list[Gram],
    n_jobs: int | None,
    stop: Callable[[], None] | None,
) -> None:
    """Solvers at the same time, each along its own lams: all as far as they can go with the rows that the Gram matrices they
    share have, then what they lack is fetched, and so on. (A solver alone shares none, and fetches what it needs.)"""
    runs = [(solver, solver.run(some)) for solver, some in zip(solvers, steps, strict=True)]
    while runs:
        with closed(grams):
            lacking = each(lambda run: next(run[1], False), runs, n_jobs, stop)
        runs = [run for run, lacks in zip(runs, lacking, strict=True) if lacks]
        for solver, _ in runs:
            solver.complete(n_jobs)
        for solver, _ in runs:
            solver.states = solver.lassos.states()  # which now have what others fetched


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
            proofs = certify_lassos(problem, i, W[doubt], A[doubt], lams=lams[doubt]) if doubt.any() else []
            if any(proof.relative_gap > GAP for proof in proofs):
                return True
    return False


def _suspicions(problem: Problem, i: int, W: Floats, A: Floats, lams: Floats) -> Floats:
    design = problem.designs[i]
    if problem.unit_ridge is None:
        return suspicions(design, W, A)
    each_one = [(w[None], a[None], lam * problem.unit_ridge[i]) for w, a, lam in zip(W, A, lams, strict=True)]
    return np.array([suspicions(ridged(design, ridge), w, a)[0] for w, a, ridge in each_one])


class LocalStages(GridStages):
    """Goes along some of the lams, and at each over the thetas, from stage 1 on; stages start from the last one's state."""

    def __init__(
        self,
        problem: Problem,
        grid: Grid,
        all_entries: Entries,
        make: Callable[[], Lassos | LossLassos],
        max_stages: int,
        max_iter: int,
        careful: bool,
    ):
        super().__init__(problem, grid, max_stages, all_entries)
        self.make, self.max_iter = make, max_iter
        self.tours, self.go_on = grid.tours(), go_on(careful)
        self.compiled = grid.concave is CAPPED and not problem.has_one_level and problem.groups is None
        words = {"REPEATS": REPEATS, "CYCLES": CYCLES, "LIMIT": limit(max_stages)}
        words |= {"CROWDED": CROWDED, "UNFINISHED": UNFINISHED}
        self.reasons = {number: words[name] for name, number in ENDS.items()}
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
    def loop(self) -> StageLoop:
        all_entries = self.all_entries
        return StageLoop(
            self.weights,
            self.reference,
            self.found,
            self.problem.units,
            self.status,
            self.rounds,
            all_entries.factors,
            all_entries.usable.view(np.uint8),
            all_entries.crowding.always,
            all_entries.crowding.orders,
            all_entries.crowding.roomy,
            all_entries.positive,
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
        yield from self._follow(k, tour) if self.compiled else self._ask(k, tour)

    def _ask(self, k: int, tour: list[int]) -> Iterator[bool]:
        """Point by point; only where nothing can be lacking."""
        self._begin()
        for l in tour:
            self.points[k, l] = self._run(self.point(k, l))
            self.tick(0.0)
        yield from ()

    def _follow(self, k: int, tour: list[int]) -> Iterator[bool]:
        """The same by the compiled loop, which capped penalties have."""
        loop, first, past = self.loop, self.path[k], len(self.solved)
        loop.begin(first.at, first.values, first.status)
        for l in tour:
            loop.follow(self.thetas[k][l], self.theta_entries[k][l], self.shares[l])
            while not loop.go(self.states, self.go_on, self.max_iter):
                try:
                    self.complete()
                except LackingError:
                    yield True
            chain, reason = loop.chain()
            self.points[k, l] = tuple(past + place for place in chain), self.reasons[reason]
            self.tick(0.0)
        for place in range(len(loop)):
            at, values, marks, share, status = loop.stage(place)
            pattern = np.zeros((2, len(marks)))
            pattern[0] = marks  # as a pattern of any penalty: places, and slopes of 0
            self._note(k, at, values, status, self.all_entries.ease(pattern, share))

    def complete(self, n_jobs: int | None = None) -> None:
        """What the loop cannot do by itself of a stage."""
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
        """The coefficients (m, d) of a stage. Weights and reference differ from those of other stages in few entries: what
        is not theirs is taken back afterwards."""
        before, (eased, left) = self.solved[wanted.before], wanted.weights
        A, aim = self.weights.ravel(), self.reference.ravel()
        full = A[eased]
        A[eased], aim[before.at] = full * left, before.values
        W, _ = self.lassos.solve(self.weights, reference=self.reference, max_iter=self.max_iter)
        A[eased], aim[before.at] = full, 0.0
        return W


def gathered(problem: Problem, grid: Grid, parts: Sequence[GridStages | FoundStages], tol: float) -> Surface:
    chains, reasons = no_points(grid.shape)
    solved: list[Solved] = []
    for part in parts:
        for point, (chain, reason) in part.points.items():
            if chain[-1] in part.without:  # not solved: the point keeps the stage before
                chain, reason = chain[:-1], SEPARATED
            chains[point] = tuple(len(solved) + s for s in chain) if solved else chain
            reasons[point] = reason
        solved += part.solved
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
        groups=problem.groups,
    )
