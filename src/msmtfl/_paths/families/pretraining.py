"""The first step of a pretrained lasso: one lasso for all tasks, and what it predicts of samples that it has not seen.

The second step fits every task to what the first one leaves of its targets. Were the first fit's own residuals left, they
would be too small, as it has seen the targets. So folds are held out within the samples at hand, and the offset of a sample
comes from coefficients that were found without its fold ("pre-validation").
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack, issparse, vstack

from ..._data.copies import sample_keys
from ..._data.designs import Floats, Ints
from ..._data.folds import TaskKFold
from ..._data.forms.dense import DenseRows
from ..._data.forms.pooled_rows import PooledFold, PooledRows, sums_of
from ..._data.task_data import Task, TaskData
from ..._objective.box import Box
from ..._objective.problem import Problem
from ..._objective.proofs.certificates import TaskCertificate
from ..._objective.proofs.lasso_certificates import certify_lassos
from ..._objective.strata import CoxStrata
from ..._objective.survival import Cox
from ..._solvers.gram import BUDGET, may_form
from ..._solvers.problems.arguments import all_of, check_targets, what_of
from ..._solvers.problems.make_problem import centred, remade, typical_huber
from ..._solvers.solvers import LASSOS, caches_for
from ..early_stopping import FoldRun, Front, held_out_errors, search
from ..grid import Grid
from ..grids import read_lams
from ..solutions import Solutions
from ..stage_paths import StagePaths
from ..surface import Surface
from ..validation.scorers import Scorer

LOOKED_AT = 8  # columns that say, beside the target, in which order samples are dealt out
N_LAMS = 30  # of the path of which a strength is chosen


@dataclass(frozen=True, eq=False)
class OffsetFolds:
    """How samples are dealt out to folds whose offsets come from the others."""

    n: int
    random_state: Any = 0
    groups: np.ndarray | None = None  # (N,): samples of one stay together


@dataclass(frozen=True, eq=False)
class FirstStep:
    """Coefficients (d,) common to all tasks, at a strength, and for every task its samples' offsets, which are x'b less its
    mean over the task, b being fitted without the fold of the sample. `point` are the coefficients of all columns that the
    first step has (`Pooled`). `levels` (m,) are the means of x'b over the tasks."""

    lam: float
    coef: Floats
    offsets: tuple[Floats, ...]
    point: Floats
    levels: Floats

    def prove(self, problem: Problem) -> TaskCertificate:
        """What is proven about the fit to all samples of a problem."""
        pooled = Pooled(problem, Stack.of(problem.data)).problem
        (proof,) = certify_lassos(
            pooled, 0, self.point[None], self.lam * pooled.stage_weights, lams=np.array([self.lam])
        )
        return proof


@dataclass(frozen=True, eq=False)
class Stack:
    """Samples of all tasks one below the other: which task, and which row of the data, each is."""

    X: Any
    y: Floats
    weight: Floats | None
    offset: Floats | None
    task: Ints
    row: Ints
    m: int

    @classmethod
    def of(cls, data: TaskData) -> Stack:
        tasks, sizes = data.tasks, [len(task.y) for task in data.tasks]
        parts: list[Any] = [task.X for task in tasks]
        X = vstack(parts, format="csr") if issparse(parts[0]) else np.concatenate(parts).astype(np.float64, copy=False)

        def joined(values: list[Floats | None], otherwise: float) -> Floats | None:
            if all(one is None for one in values):
                return None
            pairs = zip(values, sizes, strict=True)
            return np.concatenate([np.full(size, otherwise) if one is None else one for one, size in pairs])

        return cls(
            X,
            np.concatenate([task.y for task in tasks]),
            joined([task.weight for task in tasks], 1.0),
            joined([task.offset for task in tasks], 0.0),
            np.repeat(np.arange(len(tasks)), sizes),
            np.concatenate([task.rows for task in tasks]),
            len(tasks),
        )

    def only(self, some: np.ndarray) -> Stack:
        """Some of the samples, (n,) bool."""
        at = np.flatnonzero(some)
        weight, offset = (None if one is None else one[at] for one in (self.weight, self.offset))
        return replace(
            self, X=self.X[at], y=self.y[at], weight=weight, offset=offset, task=self.task[at], row=self.row[at]
        )

    @property
    def weights(self) -> Floats:
        return np.ones(len(self.y)) if self.weight is None else self.weight

    @property
    def unexplained(self) -> Floats:
        return self.y if self.offset is None else self.y - self.offset

    @cached_property
    def totals(self) -> Floats:
        """(m,): the tasks' weights."""
        return np.bincount(self.task, self.weights, self.m).astype(np.float64)

    def means(self, values: Floats | csr_array) -> Floats:
        """(m, ...): means over the tasks; 0 of those without samples."""
        n = len(self.y)
        share = self.weights / self.totals[self.task]
        if not issparse(values):
            return sums_of(self.task, self.m, share.reshape(-1, *[1] * (values.ndim - 1)) * values)
        out: Any = csr_array((share, (self.task, np.arange(n))), shape=(self.m, n)) @ values
        return np.asarray(out.toarray())

    def indicators(self) -> csr_array:
        """(n, m - 1): columns that say the task, but for the first."""
        n = len(self.y)
        return csr_array((np.ones(n), (np.arange(n), self.task)), shape=(n, self.m))[:, 1:]


class Pooled:
    """One lasso for all tasks on some of the samples, each task with an intercept of its own.

    With squared loss tasks are centred; otherwise, and where that would fill zeros, columns that say the task stand for
    intercepts, un-penalised.
    """

    def __init__(self, problem: Problem, stack: Stack):
        self.d, self.levels = problem.d, centred(problem)
        self.centres = problem.loss.squared and not issparse(stack.X)
        self.levelled = problem.loss.levelled
        self.known = stack.totals > 0  # tasks that have samples here
        y = stack.unexplained if problem.loss.squared else stack.y
        self.x_mean, self.y_mean = np.zeros((stack.m, problem.d)), np.zeros(stack.m)
        if self.centres and self.levels:
            self.x_mean, self.y_mean = stack.means(stack.X), stack.means(y)
        X, y, offset = self.seen(stack)
        factors = problem.common_factors
        factors = np.concatenate([factors, np.zeros(X.shape[1] - problem.d)])[:, None]
        self.strata = stack.task
        if isinstance(problem.loss, Cox):  # every task has a baseline hazard of its own
            problem = replace(problem, loss=CoxStrata(problem.loss.ties, stack.task))
        one = Task("all", X, y, stack.weight, np.arange(len(y)), offset)
        data = TaskData((one,), np.array(["all"]), np.arange(X.shape[1]), "single", X)
        plain, levels = replace(problem, standardize=False), self.levels and not self.centres
        if problem.groups is not None:
            plain = replace(plain, groups=problem.groups.beside(X.shape[1] - problem.d))
        if problem.box is not None:  # a coefficient of all tasks is within the bounds of each
            of_all, beside = problem.box.common(), np.full(X.shape[1] - problem.d, np.inf)
            box = Box(np.append(of_all.low, -beside)[None], np.append(of_all.high, beside)[None])
            plain = replace(plain, bounds=box, positive=False)
        made = remade(plain, data, factors, levels, typical_huber(problem))
        self.problem = made if made.loss.squared else replace(made, error="deviance", scored_by=None)

    def folds(self, problem: Problem, stack: Stack, tests: list[np.ndarray]) -> list[Pooled]:
        """The same on the samples (n,) bool that each of some folds leaves, given those of all: by subtraction where that
        can be done and loses no digits."""
        (design,), outs = self.problem.designs, [np.flatnonzero(test) for test in tests]
        rows = None
        dense = self.centres and self.levels and type(design.rows) is DenseRows
        if tests and dense and may_form([design] * (1 + len(tests)), BUDGET):
            rows = PooledRows(design, stack.task, stack.m, outs)
        out = []
        for test, gone in zip(tests, outs, strict=True):
            part = None if rows is None else rows.without(gone)
            out.append(Pooled(problem, stack.only(~test)) if part is None else self._with(part))
        return out

    def _with(self, part: PooledFold) -> Pooled:
        out = copy(self)
        out.known = np.bincount(part.strata, minlength=len(self.known)) > 0
        out.strata = part.strata
        out.x_mean, out.y_mean = self.x_mean - part.shift, self.y_mean - part.y_shift
        out.problem = replace(self.problem, designs=[part.task()])
        return out

    def seen(self, stack: Stack) -> tuple[Any, Floats, Floats | None]:
        """Features, targets and offsets of samples as this model has them."""
        y = stack.unexplained if self.centres else stack.y
        if self.centres:
            return stack.X - self.x_mean[stack.task], y - self.y_mean[stack.task], None
        if not (self.levels and self.levelled) or stack.m == 1:
            return stack.X, y, stack.offset
        parts = [stack.X, stack.indicators()]
        X = hstack(parts, format="csr") if issparse(stack.X) else np.hstack([stack.X, parts[1].toarray()])
        return X, y, stack.offset


class _Abreast(StagePaths):
    """The paths of several lassos, of which each fold asks for the latest solutions."""

    kept: tuple[object, Surface] | None = None

    def latest(self) -> Surface:
        new = self.parts[-1] if self.parts else None
        if self.kept is None or self.kept[0] is not new:
            self.kept = new, super().latest()
        return self.kept[1]


def _abreast(pooled: list[Pooled], grid: Grid, options: dict[str, Any]) -> StagePaths:
    """The lassos of all samples and of those that every fold leaves, which go down the grid as tasks of one problem do."""
    one, count = pooled[0].problem, len(pooled)
    data = replace(
        one.data, tasks=tuple(part.problem.data.tasks[0] for part in pooled), labels=np.arange(count), form="long"
    )
    box = one.bounds
    both = replace(
        one,
        data=data,
        designs=[part.problem.designs[0] for part in pooled],
        given_factors=np.tile(one.given_factors, (1, count)),
        bounds=None if box is None else Box(np.tile(box.low, (count, 1)), np.tile(box.high, (count, 1))),
    )
    grid = replace(grid, lams=grid.lams / count)  # each loss is one of so many in the mean that is minimised
    grams = caches_for(both, LASSOS, reuse=True)
    return _Abreast(both, grid, max_stages=1, n_jobs=None, grams=grams, tick=lambda part: None, stop=None, **options)


class _Side:
    """The paths of several lassos as a fold sees them: another has gone down the grid."""

    def __init__(self, paths: StagePaths):
        self.paths, self.careful = paths, paths.careful

    def advance(self, ends: Ints) -> None:
        """Nothing is left to do."""

    def finish(self, points: np.ndarray) -> bool:
        self.paths.finish(points)
        before, self.careful = self.careful, self.paths.careful
        return before != self.careful

    def latest(self) -> Solutions:
        return self.paths.latest()

    def solutions(self) -> Solutions:
        return self.paths.solutions()


class _Fold:
    """Samples that one of the folds holds out, of the lasso at a place among those that go side by side. (A task without
    any others is not among those measured.)"""

    def __init__(self, place: int, pooled: Pooled, held: Stack):
        self.place, self.pooled, self.held = place, pooled, held
        self.some = held.only(pooled.known[held.task])
        self.X, self.y, self.offset = pooled.seen(self.some)

    def measure(self, data: object, found: Solutions, scorer: Scorer | None) -> tuple[Floats, Floats, None]:
        """Mean errors (1, K, L) of the samples held out, and their weight."""
        places, back = found.places_in_use()
        coefs, weight = found.of_task(self.place).dense(places), self.some.weights
        f = self.X @ coefs.T + found.intercepts_at(self.place, places, coefs)
        if self.offset is not None:
            f = f + self.offset[:, None]
        errors = self._errors(coefs, f)
        means = np.append(weight @ errors / weight.sum(), np.nan) if weight.size else np.full(len(places) + 1, np.nan)
        return means[back][None], np.array([weight.sum()]), None

    def _errors(self, coefs: Floats, f: Floats) -> Floats:
        """(rows held out, P)"""
        pooled = self.pooled
        if pooled.levelled:
            return pooled.problem.held_out(0, self.y[:, None], f)[0]
        (one,) = pooled.problem.data.tasks
        of_training = np.asarray(one.X @ coefs.T) + (0.0 if one.offset is None else one.offset[:, None])
        out = np.repeat([False, True], [len(one.y), len(self.y)])
        weights = np.append(np.ones(len(one.y)) if one.weight is None else one.weight, self.some.weights)
        return pooled.problem.held_out_of_task(
            np.append(one.y, self.y),
            weights,
            out,
            np.concatenate([of_training, f]),
            np.append(pooled.strata, self.some.task),
        )


def pretrain(problem: Problem, lams: Floats | None, folds: OffsetFolds, **options: Any) -> list[FirstStep]:
    """The first step at each of some strengths; if none are given, at the one with the smallest error in the folds. Without
    folds (a single sample or group) nothing is taken over. `options` are tol and max_iter."""
    _check_levels(problem)
    stack = Stack.of(problem.data)
    whole = Pooled(problem, stack)
    values = read_lams(whole.problem, N_LAMS) if lams is None else lams
    never = np.full((len(values), 1), np.inf)
    grid = Grid(values, never, np.zeros(1), never)
    tests = dealt(stack, problem.data.form == "wide", folds)
    held = whole.folds(problem, stack, tests)
    paths = _abreast([whole, *held], grid, options)
    places = list(range(len(values))) if lams is not None else [0]
    if lams is None and tests:
        runs = [
            FoldRun(whole.problem, _Fold(1 + f, pooled, stack.only(test)), partial(_beside, paths), None, grid.shape)
            for f, (pooled, test) in enumerate(zip(held, tests, strict=True))
        ]
        front = Front(grid.strength, grid.leader, grid.block)
        found = search(front, paths, _judges(runs), whole.problem, "neg_mse")
        errors = held_out_errors(found, whole.problem, "neg_mse")
        places = [int(np.nanargmin(errors[:, :, 0].mean(axis=0)))]
    else:
        paths.advance(np.array([len(values)]))
        paths.finish(np.zeros(grid.shape, dtype=bool))
    surface = paths.solutions()
    means = stack.means(stack.X) if whole.levels else np.zeros((stack.m, problem.d))
    bounds = np.cumsum(np.bincount(stack.task, minlength=stack.m))[:-1]
    out = []
    for k in places:
        offsets = np.zeros(len(stack.y))
        point, *of_folds = surface.coef(k, 0)
        for b, test in zip(of_folds, tests, strict=True):
            offsets[test] = stack.X[test] @ b[: problem.d] - (means @ b[: problem.d])[stack.task[test]]
        point = point * bool(tests)
        b = point[: problem.d]
        step = FirstStep(float(values[k]), b, tuple(np.split(offsets, bounds)), point, means @ b)
        out.append(step)
    return out


def _check_levels(problem: Problem) -> None:
    """An error where intercepts that share are all that makes those of some tasks finite."""
    if problem.intercepts == "task" or not isinstance(problem.data, TaskData):
        return
    if lonely := check_targets(problem.data, problem.loss, True, problem.intercepts):
        raise ValueError(
            f"{all_of(lonely)} {what_of(problem.loss)} (to train on): the first step has an intercept for every task, and "
            "none fits these best. Leave out such tasks until they have others; in cross-validation use fewer folds. Or "
            "take a model whose only step has intercepts that share, as SharedMTL."
        )


def _beside(paths: StagePaths, fold: object) -> tuple[_Side, Any, Any]:
    return _Side(paths), lambda: None, lambda found: found


def _judges(runs: list[FoldRun]) -> list[FoldRun]:
    """The folds whose errors choose a strength: not those that hold out whole tasks, whose levels nobody knows."""
    judges = [run for run in runs if run.split.some.weights.sum() > 0]
    if not judges:
        raise ValueError(
            "groups keep all samples of a task together, so that no fold measures the first step in tasks that it knows. "
            "Give groups that are parts of tasks, or lam_common, the strength of the first step (lam_commons in a search)."
        )
    return judges


def dealt(stack: Stack, wide: bool, folds: OffsetFolds) -> list[np.ndarray]:
    """(n,) bool each: samples that are held out together, stratified by task; of a 2-D y in all tasks at once.

    Copies of a sample stay together, and neither the order of samples nor the units of columns and targets make a
    difference: so a weight of 2 is the same as a sample that is given twice.
    """
    rows, first, back = np.unique(stack.row, return_index=True, return_inverse=True)
    if folds.groups is not None:
        of_row, strata = np.unique(np.asarray(folds.groups)[rows], return_inverse=True)[1], None
    else:
        several = wide and stack.m > 1  # targets for every sample: its features say which it is
        X, y = stack.X[first], np.zeros(len(rows)) if several else stack.y[first]
        at = np.zeros(len(rows), dtype=np.intp) if wide else stack.task[first]
        order = np.lexsort((y, at))
        new = np.append(False, (np.diff(y[order]) != 0) | (np.diff(at[order]) != 0))
        if not new[1:].all():  # features say the rest
            looked_at = X[:, :LOOKED_AT]
            columns = list((looked_at.toarray() if issparse(X) else looked_at).T[::-1])
            keys = sample_keys(X, y)
            order = np.lexsort((keys, *columns, y, at))
            new = np.append(False, (np.diff(keys[order]) != 0) | (np.diff(at[order]) != 0))
        of_row = np.empty(len(rows), dtype=np.intp)
        of_row[order] = np.cumsum(new)
        strata = at[order][np.append(True, new[1:])]
    of_row = of_row.ravel()
    count = int(of_row.max()) + 1
    n = min(folds.n, count)
    if n < 2:
        return []
    strata = np.zeros(count, dtype=np.intp) if strata is None else strata
    fold = np.empty(count, dtype=np.intp)
    for k, (_, test) in enumerate(TaskKFold(n, random_state=folds.random_state).deal_evenly(strata)):
        fold[test] = k
    of_sample = fold[of_row[back.ravel()]]
    tests = [of_sample == k for k in range(n)]
    return [test for test in tests if test.any() and not test.all()]
