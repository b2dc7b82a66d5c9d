"""On the workers: data that stay there, and stages solved where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack

from .._data.designs import Floats, Ints
from .._data.forms.dense import RowTask
from .._data.task_data import Task, TaskData
from .._objective.problem import Problem
from .._objective.proofs.certificates import AT_ONCE, certify_all, largest_violation
from .._objective.proofs.dual_points import Doubt
from .._paths.solutions import TaskCoefs, losses_of
from .._paths.validation.held_out import task_errors
from .._runtime.progress import Listener, one_blas_thread
from .._solvers.lasso_stages import certified
from .._solvers.lassos.lasso_solver import OVERRUN
from .._solvers.lassos.task_solver import task_caches
from .._solvers.lassos.weighted_lasso import Lassos
from .._solvers.problems.arguments import read_factors
from .reading import Layout, Piece, size_of

NONE = -1  # stands for no stage before
ALL = 0  # the split of all rows; split 1 + f is without fold f


@dataclass(frozen=True)
class Rules:
    """How every one of the m tasks is fitted; `budget` is in bytes, for the Gram matrix of one split of its rows."""

    centre: bool
    standardize: bool
    positive: bool
    factors: Floats | None
    m: int
    budget: float


@dataclass(frozen=True)
class Weights:
    """Those of a stage of one task: lam, the features that are eased, and what is left of their weights relative to lam."""

    lam: float
    eased: np.ndarray
    left: Floats

    @property
    def nbytes(self) -> int:
        return 8 + self.eased.nbytes + self.left.nbytes


class Split:
    """Some of a task's rows, as they are fitted: all, or those without a fold."""

    def __init__(self, data: TaskData, design: RowTask, rules: Rules):
        problem = Problem(data, [design], read_factors(rules.factors, data), rules.standardize, rules.positive)
        self.design, self.rules = design, rules
        self.factors, self.units = problem.factors[:, 0], problem.units
        self.grams: Any = None  # what is known of the Gram matrix serves all stages

    def lassos(self, careful: bool = False) -> Lassos:
        if self.grams is None:
            self.grams = task_caches([self.design], budget=self.rules.budget)
        return Lassos([self.design], positive=self.rules.positive, units=self.units, grams=self.grams, careful=careful)

    def weights(self, stage: Weights) -> Floats:
        """(d,) on the scale of the task's sums."""
        out = 0.5 * self.rules.m * self.design.n * stage.lam * self.factors
        out[stage.eased] *= stage.left
        return np.asarray(out)


class TaskOnWorker:
    """One task's data where they are, and the fold of every row if there are folds. If it has to move, its rows do."""

    def __init__(
        self, pieces: Sequence[Piece], label: Any, layout: Layout, rules: Rules, fold: np.ndarray | None = None
    ):
        self.piece, self.label, self.layout, self.rules, self.fold = _stacked(pieces), label, layout, rules, fold
        X, y, weight = self.piece
        labels = np.empty(1, dtype=object)
        labels[0] = label
        task = Task(label, X, y, weight, np.arange(len(y)))
        self.data = TaskData((task,), labels, layout.features, "long", X)
        with one_blas_thread():
            self.splits = {ALL: Split(self.data, self.data.designs(rules.centre)[0], rules)}

    def __reduce__(self) -> Any:
        return TaskOnWorker, ([self.piece], self.label, self.layout, self.rules, self.fold)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + size_of(self.piece[0])  # lest Dask thinks it is easily moved

    @property
    def all(self) -> Split:
        return self.splits[ALL]

    def split(self, p: int) -> Split:
        """Training statistics of a fold are made when they are asked for."""
        if p not in self.splits:
            (design,) = self.data.training([self.all.design], ~self._in_fold(p))
            self.splits[p] = Split(self.data, design, self.rules)
        return self.splits[p]

    def held_out(self, p: int) -> Ints:
        return np.flatnonzero(self._in_fold(p))

    def _in_fold(self, p: int) -> np.ndarray:
        return np.asarray(self.fold == p - 1)


def _stacked(pieces: Sequence[Piece]) -> Piece:
    """One under the other."""
    if len(pieces) == 1:
        return pieces[0]
    Xs, ys, weights = zip(*pieces, strict=True)
    X = vstack(Xs, format="csr") if any(issparse(one) for one in Xs) else np.concatenate(Xs)
    weight = None
    if any(one is not None for one in weights):
        weight = np.concatenate([np.ones(len(y)) if w is None else w for y, w in zip(ys, weights, strict=True)])
    return X, np.concatenate(ys), weight


@dataclass(frozen=True)
class TaskSummary:
    """What the client is told of a task: numbers that a `Problem` asks for, of all rows and of every training fold."""

    all: dict[str, Any]
    folds: list[dict[str, Any]]
    held_out: Floats  # (folds,): the weight of the rows held out


def describe(task: TaskOnWorker, folds: int) -> TaskSummary:
    with one_blas_thread():
        design = task.all.design
        more: dict[str, Any] = {"c": design.c, "yy": design.yy, "y_mean": design.y_mean, "mean": design.rows.mean}
        designs = [task.split(p).design for p in range(1 + folds)]
        every = [{name: getattr(one, name) for name in ("d", "n", "order", "squares")} for one in designs]
        weight = np.ones(len(task.piece[1])) if task.piece[2] is None else task.piece[2]
        held_out = np.array([weight[task.held_out(p)].sum() for p in range(1, 1 + folds)])
        return TaskSummary(every[0] | more | {"target": task.data.targets[0]}, every[1:], held_out)


# ------------------------------------------------------------------ one stage of a fit


@dataclass(frozen=True)
class Answer:
    """What comes back from a stage of one task."""

    w: Floats
    rounds: int
    finished: bool
    gap: float
    unit: float
    kkt: float
    unique: bool
    dependent: Ints
    doubt: Doubt | None
    loss: float


def solve_stage(task: TaskOnWorker, weights: Weights, before: Any, max_iter: int) -> Answer:
    """A stage of one task; `before` is its stage before, which has stayed where it was computed, or where to start (d,)."""
    with one_blas_thread():
        a, lassos, design = task.all.weights(weights)[None], task.all.lassos(), task.all.design
        reference = np.zeros((1, design.d))
        if before is not None:
            reference = (before.w if isinstance(before, Answer) else before)[None]
            lassos.warm(reference)
        W, rounds = lassos.solve(a, reference=reference, max_iter=max_iter)
        W, (proof,) = certified(lassos, W, a, reference, Listener())
        finished = not lassos.status[0] & OVERRUN
        told: dict[str, Any] = {
            "gap": proof.gap,
            "unit": proof.unit,
            "kkt": proof.kkt,
            "unique": proof.unique,
            "dependent": proof.dependent,
            "doubt": proof.doubt,
        }
        return Answer(w=W[0], rounds=int(rounds[0]), finished=bool(finished), loss=design.loss(W[0]), **told)


def violation(task: TaskOnWorker, weights: Weights, answer: Answer) -> float:
    with one_blas_thread():
        a = task.all.weights(weights)[None]
        return largest_violation([task.all.design], answer.w[None], a, task.rules.positive)


# ------------------------------------------------------------------ many stages of a surface


def _bytes_in(message: Any) -> int:
    """Bytes of the arrays that a message, a dataclass of them, is made of."""
    return sum(getattr(message, part.name).nbytes for part in fields(message))


@dataclass(frozen=True)
class StageRequest:
    """Stages of one task to be solved: of every one the split of the rows, lam, and the place of the stage before it among
    all that were asked for before (NONE: from 0), all (count,). What it eases is between two `ends`; see `Weights`."""

    split: np.ndarray
    lam: Floats
    before: np.ndarray
    eased: np.ndarray
    left: Floats
    ends: np.ndarray

    def __len__(self) -> int:
        return len(self.lam)

    def __iter__(self) -> Iterator[tuple[int, int, Weights]]:
        eased, left = (np.split(values, self.ends[:-1]) for values in (self.eased, self.left))
        weights = map(Weights, self.lam.tolist(), eased, left)
        yield from zip(self.split.tolist(), self.before.tolist(), weights, strict=True)

    @property
    def nbytes(self) -> int:
        return _bytes_in(self)


@dataclass(frozen=True)
class StageResult:
    """The stages asked for, of one task: coefficients between two `ends`, and the solver's status. Of all rows `error` is
    |y - Xw|^2, and there are certificates; of a training fold it is the mean squared error on the rows held out."""

    feature: np.ndarray
    value: Floats
    ends: np.ndarray
    status: np.ndarray
    error: Floats
    gap: Floats
    unique: np.ndarray

    def __len__(self) -> int:
        return len(self.ends)

    def coefs(self) -> list[tuple[np.ndarray, Floats]]:
        ends = self.ends[:-1]
        return list(zip(np.split(self.feature, ends), np.split(self.value, ends), strict=True))

    @property
    def nbytes(self) -> int:
        return _bytes_in(self)


def solve_stages(task: TaskOnWorker, request: StageRequest, earlier: list[StageResult], max_iter: int) -> StageResult:
    """The stages asked for, one from another; `earlier` are those asked for before, which have stayed where they were."""
    known = [coefs for found in earlier for coefs in found.coefs()]
    lassos: dict[int, Lassos] = {}
    coefs, status, d = [], [], task.layout.d
    with one_blas_thread():
        for p, before, weights in request:
            split, reference = task.split(p), np.zeros((1, d))
            if before != NONE:
                feature, value = known[before]
                reference[0, feature] = value
            if p not in lassos:
                lassos[p] = split.lassos(careful=True)
                if before != NONE:
                    lassos[p].warm(reference)
            W, _ = lassos[p].solve(split.weights(weights)[None], reference=reference, max_iter=max_iter)
            used = np.flatnonzero(W[0])
            coefs.append((used, W[0, used]))
            status.append(lassos[p].status[0])
        return _judged(task, request, coefs, np.array(status))


def _judged(
    task: TaskOnWorker, request: StageRequest, coefs: list[tuple[Ints, Floats]], status: np.ndarray
) -> StageResult:
    error, gap = np.full(len(request), np.nan), np.full(len(request), np.nan)
    unique = np.zeros(len(request), dtype=bool)
    weights = [one for *_, one in request]
    for p in np.unique(request.split).tolist():
        at, split = np.flatnonzero(request.split == p), task.split(p)
        W = _together([coefs[s] for s in at], task.layout.d)
        if p != ALL:
            (own,) = task.data.tasks
            error[at] = task_errors(own, task.held_out(p), W, split.design.intercepts(W), np.arange(len(at)))[1]
            continue
        error[at] = losses_of(split.design, W)
        memo: dict[Any, Any] = {}
        for low in range(0, len(at), AT_ONCE):
            some = np.arange(low, min(low + AT_ONCE, len(at)))
            A = np.array([split.weights(weights[s]) for s in at[some]])
            proofs = certify_all(split.design, W.dense(some), A, task.rules.positive, memo)
            gap[at[some]], unique[at[some]] = [one.gap for one in proofs], [one.unique for one in proofs]
    features, values = (np.concatenate(parts) for parts in zip(*coefs, strict=True))
    ends = np.cumsum([len(used) for used, _ in coefs]).astype(np.int32)
    return StageResult(features.astype(np.int32), values, ends, status.astype(np.int32), error, gap, unique)


def _together(coefs: list[tuple[Ints, Floats]], d: int) -> TaskCoefs:
    solution = np.repeat(np.arange(len(coefs)), [len(used) for used, _ in coefs])
    features, values = (np.concatenate(parts) for parts in zip(*coefs, strict=True))
    return TaskCoefs((len(coefs), d), solution, features, values)
