"""On the client: data that stay elsewhere, and models that are fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._data.statistics.moment_data import MomentData
from .._data.statistics.moments import Moments
from .._data.task_data import NO_WEIGHT, Target
from .._data.tasks import warn_of_single_rows
from .._estimators.msmtfl.fit import MSMTFL
from .._estimators.msmtfl.search import MSMTFLCV
from .._objective.penalties import Penalty
from .._objective.problem import Problem
from .._objective.proofs.certificates import main_doubt, relative_gap
from .._objective.proofs.dual_points import over_unit
from .._paths.early_stopping import as_if_ended
from .._paths.grid import Grid
from .._paths.grid_stages import GridStages, Wanted
from .._paths.stage_paths import gathered
from .._paths.surface import Surface
from .._paths.validation.errors import HeldOut
from .._runtime.progress import Listener, Progress, one_blas_thread
from .._solvers.problems.arguments import read_factors
from .._solvers.problems.make_problem import training
from .._solvers.stages import Outcome, Solution
from .reading import Layout
from .worker import (
    NONE,
    StageRequest,
    StageResult,
    TaskSummary,
    Weights,
    describe,
    solve_stage,
    solve_stages,
    violation,
)

ROUNDING = 1e-12  # weights this much below lam, relatively, are lam
NOTHING = "all partitions are empty: nothing to fit."


class RemoteTask:
    """A task on a worker as the client knows it: a `Design` that can say what has been told."""

    target = None
    curvature = 1.0

    def __init__(self, summary: dict[str, Any]):
        self.d, self.n, self.order, self.squares = summary["d"], summary["n"], summary["order"], summary["squares"]
        self.c, self.yy = summary.get("c"), summary.get("yy", np.nan)  # of a training fold nobody asks for these
        self.mean, self.y_mean, self.same_x = summary.get("mean"), summary.get("y_mean"), self
        self.last_loss = self.yy

    def loss(self, w: Floats) -> float:
        """Of the last stage solved: the only one that is asked for."""
        return float(self.last_loss)

    def intercepts(self, W: Any) -> Floats:
        return np.asarray(self.y_mean - W @ self.mean)


@dataclass(frozen=True)
class RemoteData:
    """What a `Problem` asks of its data."""

    labels: np.ndarray
    features: np.ndarray
    form: str
    targets: list[Target]
    task_position: int | None
    named: bool
    folds: int

    @property
    def m(self) -> int:
        return len(self.labels)

    @property
    def d(self) -> int:
        return len(self.features)

    def splits(self) -> list[RemoteSplit]:
        return [RemoteSplit(f) for f in range(self.folds)]

    def gather(self, designs: Any, keeps: Any, n_jobs: int | None = None) -> None:
        """Nothing to prepare."""

    def release(self, designs: Any) -> None:
        """Nothing to forget."""


@dataclass(frozen=True)
class RemoteSplit:
    """A fold; its rows are elsewhere."""

    train: int


class TasksOnWorkers:
    """Tasks on workers: their futures, what is known of them, and what has been said so far. `sent` and `received` count the
    bytes of stage messages, `rounds` how often all tasks were asked."""

    def __init__(self, client: Any, tasks: Sequence[Any], labels: np.ndarray, layout: Layout, folds: int):
        self.client, self.tasks = client, list(tasks)
        self.summaries: list[TaskSummary] = client.gather(client.map(describe, self.tasks, folds=folds, pure=False))
        self.sent, self.received, self.rounds = 0, 0, 0
        targets = [one.all["target"] for one in self.summaries]
        named = layout.columns is not None
        self.data = RemoteData(labels, layout.features, layout.form, targets, layout.position, named, folds)

    @property
    def messages(self) -> dict[str, int]:
        return {"sent": self.sent, "received": self.received, "rounds": self.rounds}

    def make_problem(self, model: Any) -> Problem:
        if model.l1_ratio != 1.0:
            raise ValueError(
                "where samples stay with the workers there is no ridge: use l1_ratio=1, or have the tasks' statistics "
                "gathered in place of their samples."
            )
        data: Any = self.data
        warn_of_single_rows(data.labels.tolist(), [target.rows for target in data.targets])
        designs: list[Any] = [RemoteTask(one.all) for one in self.summaries]
        return Problem(data, designs, read_factors(model.penalty_factors, data), model.standardize, model.positive)

    def training(self, problem: Problem, f: int) -> Problem:
        designs: list[Any] = [RemoteTask(one.folds[f]) for one in self.summaries]
        return replace(problem, designs=designs)

    def held_out(self) -> Floats:
        """(folds, m): weights"""
        return np.stack([one.held_out for one in self.summaries], axis=1)

    def ask(self, function: Any, messages: Sequence[Any], *by_task: Any, **same: Any) -> tuple[list[Any], list[Any]]:
        """A function of every task and its message, and of what is by task or the same for all: futures and results."""
        self.sent, self.rounds = self.sent + sum(one.nbytes for one in messages), self.rounds + 1
        futures = self.client.map(function, self.tasks, messages, *by_task, **same, pure=False)
        return futures, self.client.gather(futures)


# ------------------------------------------------------------------ one stage after the other


class RemoteStages:
    """Solves stages where the data are."""

    grams = None

    def __init__(self, problem: Problem, workers: TasksOnWorkers):
        self.designs: list[Any] = list(problem.designs)
        self.workers, self.factors = workers, problem.factors
        self.last: list[Any] = [None] * len(self.designs)  # the tasks' last answers, where they were computed
        self.coef: Floats | None = None  # and what they say

    def _messages(self, weights: Floats) -> list[Weights]:
        """What each task has to know of the weights (d, m) of a stage: lam, and the features with less than that."""
        counts = np.isfinite(self.factors)
        ratio = np.divide(weights, self.factors, out=np.zeros_like(weights), where=counts)
        lam = float(ratio.max(initial=0.0))
        eased = [np.flatnonzero(of_task) for of_task in (counts & (ratio < (1.0 - ROUNDING) * lam)).T]
        left = [ratio[mine, i] / lam for i, mine in enumerate(eased)]
        return [Weights(lam, mine.astype(np.int32), rest) for mine, rest in zip(eased, left, strict=True)]

    def solve(self, weights: Floats, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        if last is not self.coef:  # a new run: from 0, or from where the user says
            self.last = list(last) if last.any() else [None] * len(self.designs)
        self.last, answers = self.workers.ask(solve_stage, self._messages(weights), self.last, max_iter=max_iter)
        self.coef = np.array([answer.w for answer in answers])
        self.workers.received += self.coef.nbytes
        for design, answer in zip(self.designs, answers, strict=True):
            design.last_loss = answer.loss
            listener.task_done()
        return Outcome(
            coef=self.coef,
            n_iter=max(answer.rounds for answer in answers),
            finished=all(answer.finished for answer in answers),
            dual_gap=relative_gap(self.designs, answers),
            kkt=max(answer.kkt for answer in answers),
            unique=all(answer.unique for answer in answers),
            ambiguous=tuple(answer.dependent for answer in answers),
            doubt=main_doubt(self.designs, answers),
        )

    def violation(self, weights: Floats, W: Floats) -> float:
        return max(self.workers.ask(violation, self._messages(weights), self.last)[1])


# ------------------------------------------------------------------ all stages that come next at a time


class RemoteGridStages(GridStages):
    """The stages of a grid that are solved together with those of other grids. By place: where a stage stands among
    all that were asked for, and what the tasks say of it, (m,) each."""

    def __init__(self, problem: Problem, grid: Grid, max_stages: int):
        super().__init__(problem, grid, max_stages)
        self.asked: list[int] = []
        self.error: list[Floats] = []
        self.gap: list[Floats] = []
        self.unique: list[bool] = []

    def take(self, wanted: Wanted, number: int, answers: list[tuple[Any, ...]]) -> None:
        """A stage as the tasks found it: (features, values, status, error, gap, unique) of each."""
        features, values, status, error, gap, unique = zip(*answers, strict=True)
        d = self.problem.d
        at = np.concatenate([i * d + used.astype(np.intp) for i, used in enumerate(features)])
        self.keep(wanted, at, np.concatenate(values), np.array(status))
        self.asked.append(number)
        self.error.append(np.array(error))
        self.gap.append(np.array(gap))
        self.unique.append(all(unique))


class RemoteSurface:
    """Surfaces of all rows and, with folds, of every training fold, level by level: in a round every task is asked for all
    stages that any point of any of them needs next, each once."""

    def __init__(
        self, problem: Problem, grid: Grid, workers: TasksOnWorkers, max_stages: int, max_iter: int, folds: int
    ):
        self.grid, self.workers, self.max_iter = grid, workers, max_iter
        problems = [problem, *(workers.training(problem, f) for f in range(folds))]
        self.solvers = [RemoteGridStages(one, grid, max_stages) for one in problems]
        self.levels: list[list[Any]] = [[] for _ in workers.tasks]  # futures of what a task has found, round by round
        self.count = 0  # stages asked for

    def run(self, progress: Progress) -> None:
        """All points, as far as their stages are known; then those that are not, and so on."""
        steps = len(self.grid.lams) * len(self.solvers)
        points = {
            (p, k, l): solver.point(k, l)
            for p, solver in enumerate(self.solvers)
            for k, l in np.ndindex(self.grid.shape)
        }
        waiting = {key: next(point) for key, point in points.items()}
        progressed = 0.0
        while waiting:
            self._solve(waiting)
            still = {}
            for key, wanted in waiting.items():
                p, k, l = key
                solver = self.solvers[p]
                try:
                    place = solver.find(wanted)
                    still[key] = wanted if place is None else points[key].send(place)
                except StopIteration as end:
                    solver.points[k, l] = end.value
            waiting = still
            done = steps * (1.0 - len(waiting) / len(points))
            progress.step(done - progressed)
            progressed = done

    def _solve(self, waiting: dict[tuple[int, int, int], Wanted]) -> None:
        """What is waited for, stages with the same weights once: if one turns out not to be unique, the stage before
        matters, and whoever has another one waits for the next round."""
        new: dict[tuple[int, int, Any], Wanted] = {}
        for (p, k, _), wanted in waiting.items():
            new.setdefault((p, k, wanted.key), wanted)
        lams = self.grid.lams
        order = sorted(new, key=lambda one: (one[0], -lams[one[1]], len(one[2][0])))  # neighbours start from each other
        questions = [(p, k, new[p, k, key]) for p, k, key in order]
        earlier = [list(futures) for futures in self.levels]
        messages = [self._message(questions, i) for i in range(len(earlier))]
        futures, found = self.workers.ask(solve_stages, messages, earlier, max_iter=self.max_iter)
        for mine, future in zip(self.levels, futures, strict=True):
            mine.append(future)
        self._take(questions, found)

    def _message(self, questions: list[tuple[int, int, Wanted]], i: int) -> StageRequest:
        """What task i is asked."""
        d = self.solvers[0].problem.d
        parts = [slice(*np.searchsorted(wanted.eased, [i * d, (i + 1) * d])) for *_, wanted in questions]
        both = list(zip(questions, parts, strict=True))
        before = [NONE if wanted.before < 0 else self.solvers[p].asked[wanted.before] for p, _, wanted in questions]
        return StageRequest(
            np.array([p for p, *_ in questions], dtype=np.int16),
            np.array([self.grid.lams[k] for _, k, _ in questions]),
            np.array(before, dtype=np.int32),
            np.concatenate([wanted.eased[part] - i * d for (*_, wanted), part in both]).astype(np.int32),
            np.concatenate([wanted.left[part] for (*_, wanted), part in both]),
            np.cumsum([part.stop - part.start for part in parts]).astype(np.int32),
        )

    def _take(self, questions: list[tuple[int, int, Wanted]], found: list[StageResult]) -> None:
        self.workers.received += sum(one.nbytes for one in found)
        coefs = [one.coefs() for one in found]
        for s, (p, _, wanted) in enumerate(questions):
            answers = [
                (*mine[s], one.status[s], one.error[s], one.gap[s], one.unique[s])
                for mine, one in zip(coefs, found, strict=True)
            ]
            self.solvers[p].take(wanted, self.count + s, answers)
        self.count += len(questions)

    def surface(self, tol: float) -> Surface:
        """That of all rows, with certificates."""
        solver = self.solvers[0]
        n, yy = (np.array([getattr(design, name) for design in solver.problem.designs]) for name in ("n", "yy"))
        unit = float((0.5 * yy / n).sum())
        gaps = np.array([over_unit(gap, unit) for gap in (np.array(solver.gap) / n).sum(axis=1)])
        surface = gathered(solver.problem, self.grid, [solver], tol)
        return surface.proven(np.array(solver.error), gaps, np.array(solver.unique))

    def held_out(self) -> HeldOut:
        """Errors on the rows held out, of every fold."""
        folds = []
        for solver, weight in zip(self.solvers[1:], self.workers.held_out(), strict=True):
            surface = gathered(solver.problem, self.grid, [solver], 0.0)
            mse = np.moveaxis(np.array(solver.error)[surface.last], -1, 0)
            folds.append((mse, weight, None, surface.complete))
        return HeldOut.of(folds)


# ------------------------------------------------------------------ models


def fit_on_workers(model: MSMTFL, workers: TasksOnWorkers) -> None:
    """Fit a model whose stages are solved where the rows are."""
    model._note_features(workers.data)
    with one_blas_thread():
        problem = workers.make_problem(model)
    model._fit_problem(problem, model._previous(problem.data), RemoteStages(problem, workers))


class SearchOnWorkers:
    """The work of an MSMTFLCV, done by the workers that have the rows."""

    def __init__(self, model: MSMTFLCV, workers: TasksOnWorkers):
        self.model, self.workers = model, workers

    def fit(self) -> None:
        model, data = self.model, self.workers.data
        model._note_features(data)
        with one_blas_thread():
            problem = self.workers.make_problem(model)
            grid = model._grid(problem)
        model._fit_point(problem, grid, data.splits() if model._by_folds else [], None, self)

    def _caches(self, problem: Problem, **options: Any) -> list[Any]:
        return []

    def _search(
        self, problem: Problem, grid: Grid, grams: Any, folds: list[Any], progress: Progress
    ) -> tuple[Surface, HeldOut | None]:
        """All data and the folds go along the grid together."""
        model = self.model
        remote = RemoteSurface(
            problem, grid, self.workers, model._stages(), model.max_iter or 0, self.workers.data.folds
        )
        remote.run(progress)
        held_out = as_if_ended(remote.held_out(), model._front(grid, folds), problem, model.scoring) if folds else None
        return remote.surface(model.tol), held_out

    def _refit(self, problem: Problem, surface: Surface, k: int, l: int, grams: Any) -> tuple[Solution, Penalty]:
        return self.model._refit(problem, surface, k, l, grams, RemoteStages(problem, self.workers))


class FoldsElsewhere:
    """The work of an MSMTFLCV whose folds are solved on workers, from futures of the folds' statistics and of the layout;
    the surface of all data is solved here meanwhile."""

    def __init__(self, model: MSMTFLCV, client: Any, folds: Any, layout: Any):
        self.model, self.client, self.futures = model, client, {"folds": folds, "layout": layout}

    def fit(self, data: MomentData) -> None:
        self.model._fit_point(*self.model._search_problem(data, None, None, None, None), self)

    def begin(self, grid: Grid, count: int) -> list[Any]:
        """Futures of the folds' errors."""
        same = {"parameters": self.model.get_params(), **self.futures, "grid": grid}
        return list(self.client.map(fold_errors, range(count), **same, pure=False)) if count else []

    def _caches(self, problem: Problem, **options: Any) -> Any:
        return self.model._caches(problem, **options)

    def _search(
        self, problem: Problem, grid: Grid, grams: Any, folds: list[Any], progress: Progress
    ) -> tuple[Surface, HeldOut | None]:
        begun = self.begin(grid, len(folds))
        surface = self.model._solve(problem, grid, grams, self.model.n_jobs, progress)
        if not folds:
            return surface, None
        held_out = HeldOut.of(self.client.gather(begun))
        return surface, as_if_ended(held_out, self.model._front(grid, folds), problem, self.model.scoring)

    def _refit(self, problem: Problem, surface: Surface, k: int, l: int, grams: Any) -> tuple[Solution, Penalty]:
        return self.model._refit(problem, surface, k, l, grams)


def fold_errors(f: int, parameters: dict[str, Any], folds: list[Moments], layout: Layout, grid: Any) -> Any:
    """What the local fit computes for one fold, on a worker."""
    model = MSMTFLCV(**parameters)
    with one_blas_thread(), Progress(grid.steps, "lams", False) as progress:
        data = moment_data(folds, model.task_column, layout)
        problem = model._make_problem(data, None, None, None)
        split = data.splits()[f]
        part = training(problem, split.train)
        surface = model._solve(part, grid, model._caches(part, reuse=True), None, progress)
        return *split.measure(data, surface, None), surface.complete


def moment_data(folds: list[Moments], task_column: Any, layout: Layout) -> MomentData:
    """Statistics as a fit takes them, with columns in the order that a local fit has."""
    if not any(len(fold) for fold in folds):
        raise ValueError(NOTHING)
    idle = [label for fold in folds for label in fold.seen if not any(label in one for one in folds)]
    if idle:  # as a local fit to the same rows does
        raise ValueError(NO_WEIGHT.format(idle[0]))
    data = MomentData(folds, task_column)
    data.task_position = layout.position
    return data
