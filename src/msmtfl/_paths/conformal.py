"""How far predictions may be off: scores of samples that folds hold out, and intervals of them.

A sample's score says how wrong the prediction was that a model made without the sample's fold: |y - mu_f(x)| of numbers,
1 - p_f(y | x) of classes. With scores R_r, fold f(r), weight v_r, V = sum_r v_r, and a new sample that counts 1, the
interval of a level is

    u(x) = the smallest u with  sum_r v_r [mu_f(r)(x) + R_r <= u]  >=  level (V + 1),   l(x) likewise from below

(CV+: Barber, Candes, Ramdas and Tibshirani 2021). Without weights and groups v_r = 1. Scores are those of the sample's own
task (Mondrian), so that the promise is for every task.

Between scores. Where level (V + 1) = t is none of the weights below an end, but between a and b of two neighbouring ones,
the way from one end to the other is divided by the share  (t - a) / (b - a) * (V + 1 - b) / (V + 1 - t).  On average over
draws that is exact where errors have an exponential tail, since -log(1 - F) of order statistics grows by independent
exponential steps of mean 1 / (n - k); `benchmarks/studies/prediction_intervals.py quantiles` has other tails. The larger
end would hold 93.3 % at a level of 90 % and 14 scores.

Many scores. CV+ also grows with the differences between the models, and holds more than asked by that. From MANY scores on
the interval is around the mean over folds of mu_f(x), with the quantile of R as its radius. To the model without fold f a
new sample is what the samples of that fold were, so that each of the intervals mu_f(x) +- radius holds as often as asked
(but for the little that one of many samples has to say in the other folds); and the mean is, for every sample, no further
off than these models are on average.

Weights. A new sample is as heavy as samples are on average when they are met as often as they weigh: the unit of v_r is
sum v^2 / sum v. So V is Kish's effective number of samples, and a common factor of the weights does not matter. A group of
samples that stay in one fold counts as one sample would, each member having its share (Dunn, Wasserman and Ramdas 2022;
Lee, Barber and Willett 2023).

New tasks. The tasks are the groups then: a task counts 1, its samples share that, and its scores are of predictions by the
mean coefficients of the others, or by another way of making coefficients of a task from those of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from .._data.designs import Floats, Ints
from .._data.task_data import TaskData
from .._objective.losses import Loss, Softmax

KEPT = 100  # largest scores of a task and fold that are kept one by one
FINENESS = 100  # of those below: together as many as change 1 - level by no more than one part in so many
FEW = 256  # scores of a task up to which it is faster to sort them for every sample than to bisect
STEPS = 60  # of a bisection: to the last digit
DRAWS = 2**15  # ratios of scores, of all tasks, that stand for the tasks' common shape
AT_ONCE = 2**21  # numbers that are drawn, or sorted, together
# Scores of a task from which intervals are around the mean prediction. With fewer the choice of parameters on the same
# folds shows: tasks of 10 samples had 86 % at a level of 90 %, and have 92 % by CV+; with 300 (Isolet) CV+ has 92 %, and the
# mean 91 %.
MANY = 50
ENDLESS = 1e9  # weight of a score that stands for as many as one likes
SLACK = 1e-9  # of a level: rounding

# Of coefficients (m, K, d) and intercepts (m, K) those that would predict every task, were it new; NaN where there are none.
Stand: TypeAlias = Callable[[Floats, Floats], tuple[Floats, Floats]]


@dataclass(frozen=True)
class FoldFit:
    """Coefficients (m, d) and intercepts (m,) without a fold, and the rows (N,) bool that it holds out."""

    coef: Floats
    intercept: Floats
    test: np.ndarray


@dataclass(frozen=True, eq=False)
class Table:
    """Scores by task and by what was left out (a fold; of new tasks, a task), ascending within; a new sample weighs 1.
    `plus`: whether intervals are to be those of CV+ as it stands, however many scores there are."""

    task: Ints
    fold: Ints
    score: Floats
    weight: Floats
    plus: bool = False

    @property
    def columns(self) -> dict[str, np.ndarray]:
        return {"task": self.task, "fold": self.fold, "score": self.score, "weight": self.weight}

    @classmethod
    def of_columns(cls, values: Mapping[str, Any], prefix: str, m: int, folds: int) -> Table:
        """Of the columns of a table of m tasks, whose names have a prefix; a ValueError where they are none."""
        columns: list[Any] = [values.get(f"{prefix}{name}") for name in ("task", "fold", "score", "weight")]
        task, fold, score, weight = columns
        n = len(score) if isinstance(score, np.ndarray) else -1
        whole = all(isinstance(one, np.ndarray) and one.shape == (n,) and one.dtype.kind == "i" for one in (task, fold))
        if not (whole and _are_floats(score, n) and _are_floats(weight, n)):
            raise ValueError("the scores of samples held out are not columns of numbers.")
        known = bool(((task >= 0) & (task < m) & (fold >= 0) & (fold < folds) & (score >= 0) & (weight > 0)).all())
        if not known or not np.array_equal(np.lexsort((score, fold, task)), np.arange(n)):
            raise ValueError("the scores of samples held out are out of range, or not in order.")
        return cls(task, fold, score, weight)

    def of_task(self, i: int) -> Table:
        """Those of one task."""
        part = slice(*np.searchsorted(self.task, [i, i + 1]))
        return Table(self.task[part], self.fold[part], self.score[part], self.weight[part], self.plus)

    @property
    def size(self) -> float:
        """The effective number of samples."""
        return float(self.weight.sum())

    @property
    def largest_level(self) -> float:
        """The largest level of which intervals are finite."""
        return self.size / (self.size + 1.0)

    def reaches(self, level: float) -> bool:
        """Whether intervals of this level are finite."""
        return level <= self.largest_level * (1.0 + SLACK)

    def parts(self) -> list[tuple[int, Floats, Floats]]:
        """For every fold its number, its scores, and the weights of the first k = 0, 1, ... of them."""
        starts = np.flatnonzero(np.diff(self.fold, prepend=-1))
        every = zip(starts.tolist(), [*starts[1:].tolist(), len(self.fold)], strict=True)
        return [(int(self.fold[a]), self.score[a:b], np.append(0.0, np.cumsum(self.weight[a:b]))) for a, b in every]

    def upper(self, mu: Floats, level: float) -> Floats:
        """(n,): the upper ends of intervals, of predictions mu (n, folds) by the models without each fold."""
        if len(self.score) > FEW:  # they are so close to each other that it does not matter what is between them
            return self._by_bisection(mu, min(level * (self.size + 1.0), self.size) - SLACK)
        out, height = np.empty(len(mu)), max(AT_ONCE // len(self.score), 1)
        for low in range(0, len(mu), height):
            out[low : low + height] = self._quantiles(mu[low : low + height, self.fold] + self.score, level)
        return out

    def _quantiles(self, ends: Floats, level: float) -> Floats:
        """(n,): where the weight of ends (n, scores) reaches a level, between two of them where none has it."""
        order, target = np.argsort(ends, axis=1), min(level * (self.size + 1.0), self.size)
        below, rows = np.cumsum(self.weight[order], axis=1), np.arange(len(ends))
        high = np.argmax(below >= target - SLACK, axis=1)
        low = np.maximum(high - 1, 0)
        a, b = below[rows, low], below[rows, high]
        share = np.divide(target - a, b - a, out=np.ones(len(ends)), where=b > a)
        share *= (self.size + 1.0 - b) / (self.size + 1.0 - target)
        if self.plus:  # weights that are not those of single scores
            share[:] = 1.0
        first, second = ends[rows, order[rows, low]], ends[rows, order[rows, high]]
        return np.asarray(first + np.clip(share, 0.0, 1.0) * (second - first))

    def _by_bisection(self, mu: Floats, target: float) -> Floats:
        """(n,): where the weight of ends below reaches a target, in a time that hardly grows with the number of scores."""
        parts = self.parts()
        used = mu[:, [f for f, *_ in parts]]
        low = used.min(axis=1) + min(score[0] for _, score, _ in parts)
        high = used.max(axis=1) + max(score[-1] for _, score, _ in parts)
        high = high + np.spacing(np.abs(high) + np.abs(used).max(axis=1))
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            mass = sum(total[np.searchsorted(score, middle - mu[:, f], side="right")] for f, score, total in parts)
            enough = mass >= target
            high, low = np.where(enough, middle, high), np.where(enough, low, middle)
        return np.asarray(high)

    def radius(self, level: float) -> float:
        """The quantile of scores."""
        return float(self._quantiles(self.score[None], level)[0])

    def interval(self, mu: Floats, level: float) -> Floats:
        """(n, 2): the ends of intervals, of predictions mu (n, folds)."""
        if self.plus or self.size < MANY:
            return np.sort(np.column_stack([-self.upper(-mu, level), self.upper(mu, level)]), axis=1)
        centre = np.average(mu, axis=1, weights=np.bincount(self.fold, self.weight, minlength=mu.shape[1]))
        return np.asarray(centre[:, None] + self.radius(level) * np.array([-1.0, 1.0]))

    def contains(self, scores: Floats, level: float) -> np.ndarray:
        """(n,) bool: whether candidates are in the sets of a level, of the scores (n, folds) that they would have."""
        target = level * (self.size + 1.0) - SLACK
        below = sum(total[np.searchsorted(score, scores[:, f], side="left")] for f, score, total in self.parts())
        return np.asarray(below < target)


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """What a fit by folds keeps for intervals: coefficients and intercepts without each fold, and scores.

    Parameters
    ----------
    at, coef : ndarray of shape (entries,)
        Coefficients, 0 but at these places in C order of (folds, m, K, d), K being the problems of a task (more than two
        classes have one each, otherwise 1).
    intercept : ndarray of shape (folds, m, K)
        Intercepts.
    d : int
        Number of features.
    own : Table
        Scores of the tasks, of predictions by their own coefficients.
    ways : dict of Table
        Scores of predicting each task from the others in other ways than by their mean coefficients.
    others : Table
        Scores of predictions by the mean coefficients of the other tasks; nothing of a single task.
    grouped : bool
        Whether samples stayed together in groups.
    fold_of : ndarray of shape (N,), optional
        The fold that held each sample out, -1 for none; None of a model that was read from a file.
    crossed : tuple of ndarray of shape (2, n), optional
        Of the samples of each task the linear predictors without their fold, at the points that the other folds choose of
        the grid and of its separate lassos, NaN where there are none. None where the errors of the search say as much, and
        of a model that was read from a file.
    """

    at: Ints = field(repr=False)
    coef: Floats = field(repr=False)
    intercept: Floats = field(repr=False)
    d: int = field(repr=False)
    own: Table = field(repr=False)
    others: Table = field(repr=False)
    grouped: bool = False
    ways: Mapping[str, Table] = field(default_factory=dict, repr=False)
    fold_of: np.ndarray | None = field(default=None, repr=False)
    crossed: tuple[Floats, ...] | None = field(default=None, repr=False)

    @property
    def n_folds(self) -> int:
        return len(self.intercept)

    @property
    def m(self) -> int:
        return int(self.intercept.shape[1])

    def coefs(self) -> Floats:
        """(m, folds * K, d): as a model's linear predictors take them."""
        F, m, K = self.intercept.shape
        dense = np.zeros((F, m, K, self.d))
        dense.reshape(-1)[self.at] = self.coef
        return np.ascontiguousarray(np.moveaxis(dense, 0, 1)).reshape(m, F * K, self.d)

    def intercepts(self) -> Floats:
        """(m, folds * K)"""
        return np.moveaxis(self.intercept, 0, 1).reshape(self.m, -1)

    def borrowed(self, i: int, level: float) -> Table | None:
        """In place of the scores of a task that has too few of its own for a level, one for all folds: the task's mean
        score, times the quantile of what a score is in units of the mean of as many others, in all tasks. None where
        all tasks together have too few scores as well."""
        mine = self.own.of_task(i)
        tasks = [one for one in map(self.own.of_task, range(self.m)) if len(one.score) > 1]
        if len(mine.score) == 0 or level > self.largest_borrowed_level * (1.0 + SLACK):
            return None
        # one fewer than there are: scores of a small task are around a level that was fitted to them
        count, total = max(round(mine.size) - 1, 1), sum(one.size for one in tasks)
        draws = min(DRAWS // len(tasks) + 1, AT_ONCE // max(len(one.score) for one in tasks))
        ratios = np.concatenate([_ratios(one, count, draws) for one in tasks])
        ratios = ratios[np.isfinite(ratios)]
        share = min(level * (total + 1.0) / total, 1.0)
        times = np.quantile(ratios, share, method="higher") if ratios.size else 0.0
        folds = np.unique(mine.fold)
        score = np.full(len(folds), times * np.average(mine.score, weights=mine.weight))
        return Table(np.full(len(folds), i), folds, score, np.full(len(folds), ENDLESS), plus=True)

    def to_dict(self) -> dict[str, Any]:
        """What a file keeps: arrays and a flag."""
        return {
            "at": self.at,
            "coef": self.coef,
            "intercept": self.intercept,
            **{f"own_{name}": values for name, values in self.own.columns.items()},
            **{f"others_{name}": values for name, values in self.others.columns.items()},
            "grouped": self.grouped,
            "ways": list(self.ways),
            **{
                f"way{k}_{name}": values
                for k, table in enumerate(self.ways.values())
                for name, values in table.columns.items()
            },
        }

    @classmethod
    def of_dict(cls, values: Mapping[str, Any], m: int, d: int, K: int) -> HeldOutScores:
        """Back again, of a model with m tasks when it was fitted; a ValueError where that is not what was kept."""
        intercept: Any = values.get("intercept")
        at: Any = values.get("at")
        coef: Any = values.get("coef")
        right = isinstance(intercept, np.ndarray) and intercept.ndim == 3 and intercept.shape[1:] == (m, K)
        if not right or not _are_floats(intercept.ravel(), intercept.size):
            raise ValueError(f"the intercepts of folds are not numbers of shape (folds, {m}, {K}).")
        places = isinstance(at, np.ndarray) and at.ndim == 1 and at.dtype.kind == "i" and bool((np.diff(at) > 0).all())
        if not places or (at.size and not (at[0] >= 0 and at[-1] < intercept.size * d)):
            raise ValueError("the coefficients of folds are not at places that there are.")
        if not _are_floats(coef, len(at)):
            raise ValueError("the coefficients of folds are not finite numbers.")
        own = Table.of_columns(values, "own_", m, len(intercept))
        others = Table.of_columns(values, "others_", m, m)
        names: Any = values.get("ways", [])
        if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise ValueError("the ways in which new tasks are predicted have no names.")
        ways = {name: Table.of_columns(values, f"way{k}_", m, m) for k, name in enumerate(names)}
        return cls(at, coef, intercept, d, own, others, values.get("grouped") is True, ways)

    @property
    def largest_borrowed_level(self) -> float:
        """The largest level that tasks together have scores for; 0 where there is one task."""
        sizes = [one.size for one in map(self.own.of_task, range(self.m)) if len(one.score) > 1]
        return 0.0 if len(sizes) < 2 else float(sum(sizes) / (sum(sizes) + 1.0))


def _are_floats(values: Any, count: int) -> bool:
    """Whether a value is so many finite floats."""
    found = isinstance(values, np.ndarray) and values.shape == (count,) and values.dtype == np.float64
    return bool(found and np.isfinite(values).all())


def _ratios(table: Table, count: int, draws: int) -> Floats:
    """Scores over the means of `count` others of the same task (fewer, if it has no more), drawn by their weights."""
    random = np.random.default_rng(0)
    count = min(count, len(table.score) - 1)
    # the smallest of exponential times over weights are a draw without replacement
    keys = random.exponential(size=(draws, len(table.score))) / table.weight
    order = np.argpartition(keys, count, axis=1)[:, : count + 1]
    drawn = random.permuted(table.score[order], axis=1)
    mean = drawn[:, 1:].mean(axis=1)
    return np.asarray(np.divide(drawn[:, 0], mean, out=np.full(draws, np.nan), where=mean > 0))


# ------------------------------------------------------------------ from folds to scores


def held_out_scores(
    data: TaskData,
    fits: Sequence[FoldFit],
    loss: Loss,
    classes: bool = False,
    groups: np.ndarray | None = None,
    ways: Mapping[str, Stand] | None = None,
) -> HeldOutScores:
    """Scores of the samples that folds hold out; `groups` (N,) are labels of samples that stay together. `ways` are other
    ones than the mean of predicting a task from the others."""
    K = data.classes
    m = data.m // K
    units = None if groups is None else np.unique(groups, return_inverse=True)[1].ravel()
    stands: list[Stand] = [means_of_others, *(ways or {}).values()]
    pairs = [_with_those_of_others(fit, m, K, stands if m > 1 else []) for fit in fits]
    own: list[Any] = []
    others: list[list[Any]] = [[] for _ in stands]
    for i in range(m):
        task, of_classes = data.tasks[i * K], data.tasks[i * K : (i + 1) * K]
        y = task.y if K == 1 else np.argmax([one.y for one in of_classes], axis=0)
        held = [np.flatnonzero(fit.test[task.rows]) for fit in fits]
        sample, fold = np.concatenate(held), np.repeat(np.arange(len(fits)), [len(rows) for rows in held])
        if sample.size == 0:
            continue
        linear = np.concatenate(
            [task.X[rows] @ coef[i].T + level[i] for rows, (coef, level) in zip(held, pairs, strict=True)]
        )  # of the task's own coefficients, and of the others'
        if task.offset is not None:
            linear += task.offset[sample, None]
        mine, *of_others = (
            misses(y[sample], part, loss, classes) for part in np.split(linear, linear.shape[1] // K, 1)
        )
        weight = np.ones(len(sample)) if task.weight is None else task.weight[sample]
        weight = weight / np.bincount(sample)[sample]  # held out several times: a share of each
        own.append((i, fold, mine, _in_units(weight, None if units is None else units[task.rows[sample]], sample)))
        for table, missed in zip(others, of_others, strict=False):
            if not np.isnan(missed).any():  # nothing stands for this task
                table.append((i, np.full(len(sample), i), missed, weight / weight.sum()))
    size = data.m * data.d
    at = [f * size + np.flatnonzero(fit.coef).astype(np.int64) for f, fit in enumerate(fits)]
    entries = [fit.coef[fit.coef != 0.0] for fit in fits]
    intercept = np.array([fit.intercept for fit in fits]).reshape(len(fits), m, K)
    fold_of = np.full(data.X.shape[0], -1, dtype=np.int16)
    for f, fit in enumerate(fits):
        fold_of[fit.test] = f
    of_means, *of_ways = [_table(table) for table in others]
    tables = (_table(own), of_means)
    return HeldOutScores(
        np.concatenate(at),
        np.concatenate(entries),
        intercept,
        data.d,
        *tables,
        groups is not None,
        dict(zip(ways or {}, of_ways, strict=True)),
        fold_of,
    )


def means_of_others(coef: Floats, intercept: Floats) -> tuple[Floats, Floats]:
    """For every task the mean coefficients and intercepts of all others."""
    rest = max(len(coef) - 1, 1)
    return (coef.sum(axis=0) - coef) / rest, (intercept.sum(axis=0) - intercept) / rest


def _with_those_of_others(fit: FoldFit, m: int, K: int, stands: Sequence[Stand]) -> tuple[Floats, Floats]:
    """(m, (1 + S) K, d) and (m, (1 + S) K): coefficients and intercepts of the tasks, and those that stand for them, as if
    they were new, in each of S ways."""
    coef, intercept = fit.coef.reshape(m, K, -1), fit.intercept.reshape(m, K)
    both = [(coef, intercept), *(stand(coef, intercept) for stand in stands)]
    return np.concatenate([one for one, _ in both], axis=1), np.concatenate([one for _, one in both], axis=1)


def misses(y: Floats, f: Floats, loss: Loss, classes: bool) -> Floats:
    """(n,): scores of targets (of classes: their codes) and linear predictors (n, K)."""
    if not classes:
        return np.abs(y - loss.response(f[:, 0]))
    return 1.0 - class_shares(f, loss)[np.arange(len(y)), y.astype(np.intp)]


def class_shares(f: Floats, loss: Loss) -> Floats:
    """(..., classes): probabilities, of linear predictors (..., K), K = 1 for two classes."""
    p = loss.response(f - f.max(axis=-1, keepdims=True) if isinstance(loss, Softmax) else f)
    if f.shape[-1] == 1:
        return np.concatenate([1.0 - p, p], axis=-1)
    total = p.sum(axis=-1, keepdims=True)
    return np.asarray(np.where(total > 0, p / np.where(total > 0, total, 1.0), 1.0 / f.shape[-1]))


def _in_units(weight: Floats, unit: Ints | None, sample: Ints) -> Floats:
    """Weights of entries: the entries of a unit (a group; None: a sample) together have the mean weight v of its samples, in
    units of sum v^2 / sum v over the task."""
    if unit is None:
        shares, v = weight, np.bincount(sample, weight)
    else:
        _, unit = np.unique(unit, return_inverse=True)
        members = np.bincount(unit[np.unique(sample, return_index=True)[1]])  # samples of the units, each counted once
        shares = weight / members[unit]
        v = np.bincount(unit, shares)
    return np.asarray(shares * v.sum() / (v**2).sum())


def _table(parts: Sequence[tuple[int, Ints, Floats, Floats]]) -> Table:
    """The scores of tasks: place of the task, folds, scores and weights of each."""
    if not parts:
        return Table(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0), np.empty(0))
    task = np.repeat(np.array([i for i, *_ in parts], dtype=np.int32), [len(one[1]) for one in parts])
    fold, score, weight = (np.concatenate([one[k] for one in parts]) for k in (1, 2, 3))
    folds = int(fold.max()) + 1
    group, score, weight = thinned(task * np.int64(folds) + fold, score, weight)
    return Table((group // folds).astype(np.int32), (group % folds).astype(np.int32), score, weight)


def thinned(group: Ints, score: Floats, weight: Floats) -> tuple[Ints, Floats, Floats]:
    """Scores and weights of every group (of a task and fold), ascending; of many, those below the largest are put together
    and stand as the largest of them, so that intervals become no narrower."""
    order = np.lexsort((-score, group))
    group, score, weight = group[order], score[order], weight[order]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    counts = np.diff(starts, append=len(group))
    total = np.add.reduceat(weight, starts)
    before = np.repeat(np.cumsum(total) - total, counts)
    tail = (np.cumsum(weight) - before) / np.repeat(total / counts, counts)  # in samples
    place = np.arange(len(group)) - np.repeat(starts, counts)
    many = tail > KEPT + 0.5
    place[many] = len(group) + np.floor(FINENESS * np.log(tail[many] / KEPT)).astype(np.int64)
    first = np.flatnonzero((np.diff(place, prepend=-1) != 0) | (np.diff(group, prepend=-1) != 0))
    group, score, weight = group[first], score[first], np.add.reduceat(weight, first)
    order = np.lexsort((score, group))
    return group[order], score[order], weight[order]
