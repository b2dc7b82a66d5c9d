"""Cross-validation on a grid: folds, held-out errors per fold, task and point, and the choice of a point.

One engine for all models: it is given a function that solves a whole grid for some training rows. The statistics of a
training fold are those of all rows less those held out (`training`); centring and scaling are the fold's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.special import gammaln
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from .._data.copies import groups_of, remark_on_repeats
from .._data.designs import AnyData, Floats, Folded, Ints, TargetSums
from .._data.folds import TaskKFold
from .._data.survival import times_of
from .._data.tables import Labels, RandomState, Table, Targets, names_of, warn_user
from .._data.tasks import Task, TaskData, check_weights
from .._objective.class_tasks import classes_together
from .solutions import Solutions, TaskCoefs

ERRORS = ("neg_nmse", "neg_amse", "neg_mse", "neg_deviance")
REDRAWS = 200  # of folds for a 2-D y in which rare tasks have few rows
MOST = 0.3  # of the features in use: picking them takes longer than going over all
AT_ONCE = 2**20  # held-out predictions made together
COPIED = (
    2**24
)  # entries of dense X up to which a fold keeps those that it holds out, so that tasks are measured together
CRITERIA = ("aic", "bic", "ebic")
EQUAL = 1e-12  # relative difference of scores that is rounding


class Splitter(Protocol):
    """scikit-learn's splitters, and what is like them."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[Any]:
        """Pairs of training and test rows."""


Pairs: TypeAlias = Iterable[tuple[Sequence[int] | np.ndarray, Sequence[int] | np.ndarray]]  # training and test rows
Folds: TypeAlias = int | Splitter | Pairs | None  # cv=
Scoring: TypeAlias = str | Callable[..., float]
# Is told mse and weight as of `measure`, and by problem (a task, or one of its classes) the predictions (rows, places)
# of the rows held out.
Record: TypeAlias = Callable[["Split", TaskData, Solutions, Floats, Floats, list[Floats]], None]


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows held out, both (N,) bool; who asks for more than mean errors is told of the solutions on
    the training rows (`record`), once they have been measured. `groups` (N,) are those that folds keep together."""

    train: np.ndarray
    test: np.ndarray
    record: Record | None = field(default=None, repr=False, compare=False)
    groups: np.ndarray | None = field(default=None, repr=False, compare=False)

    def measure(
        self, data: TaskData, surface: Solutions, scorer: Scorer | None, held: Callable[[], RowsHeldOut] | None = None
    ) -> tuple[Floats, Floats, Floats | None]:
        """Mean squared errors (m, K, L) on the rows held out, their weights (m,), and a scorer's scores (K, L). Who measures
        more than once keeps the rows held out."""
        noted: list[Floats] | None = None if self.record is None else []
        held = partial(RowsHeldOut, data, self) if held is None else held
        mse, weight, scores = _measure(data, self, surface, scorer, noted, held)
        if self.record is not None and noted is not None:
            self.record(self, data, surface, mse, weight, noted)
        return mse, weight, scores


@dataclass(frozen=True)
class HeldOut:
    """Errors on held-out rows.

    mse is (folds, m, K, L), NaN where a fold holds no row of a task; weight (folds, m) is the sum of the sample weights of
    the rows held out; scores (folds, K, L) are a scorer's, if there is one; complete (folds, K, L) says where a fold's
    solution is the one that the model itself gives on the training rows (`Solutions.complete`).
    """

    mse: Floats
    weight: Floats
    scores: Floats | None
    complete: np.ndarray

    @property
    def reached(self) -> np.ndarray:
        """(folds, K, L) bool: where errors were measured at all."""
        return np.asarray(np.isfinite(self.mse).any(axis=1))

    @classmethod
    def of(cls, folds: Sequence[OfFold]) -> HeldOut:
        mse, weight, scores, complete = zip(*folds, strict=True)
        return cls(np.array(mse), np.array(weight), None if scores[0] is None else np.array(scores), np.array(complete))


OfFold = tuple[Floats, Floats, Floats | None, np.ndarray]  # what `HeldOut` has, of one fold


# ------------------------------------------------------------------ folds


def read_splits(
    cv: Folds, X: Table, y: Targets, groups: Labels | None, data: AnyData, random_state: RandomState
) -> list[Any]:
    """The folds asked for: a number (stratified by task), a splitter, or pairs of row indices."""
    if not isinstance(data, TaskData):  # no rows at hand: folds were made before
        assert isinstance(data, Folded)
        return data.splits()
    if isinstance(cv, list) and cv and all(isinstance(split, Split) for split in cv):
        return cv  # read already
    N = data.X.shape[0]
    if groups is not None:
        groups = groups_of(groups, data.X)
    cv = read_cv(cv, random_state)
    pairs = _stratified(cv, data, groups) if by_task(cv) else list(check_cv(cv).split(X, y, groups))
    splits = []
    for f, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ValueError(f"cv must give pairs (training rows, test rows); fold {f} has {len(pair)} parts.")
        train, test = pair
        split = Split(_mask(train, N, f), _mask(test, N, f), groups=groups)
        if (split.train & split.test).any():
            row = int(np.argmax(split.train & split.test))
            raise ValueError(f"row {row} is both in the training rows and in the test rows of fold {f}.")
        lost = [task.label for task in data.tasks if not split.train[task.rows].any()]
        if lost:
            raise ValueError(
                f"fold {f} leaves task(s) {names_of(lost)} without training rows. Use cv=TaskKFold(...) or a number of "
                "folds, which keep every task in every training fold, or fewer folds."
            )
        if not any(split.test[task.rows].any() for task in data.tasks):
            raise ValueError(f"fold {f} holds out no row that counts (test rows: {int(split.test.sum())}).")
        splits.append(split)
    if not splits:
        raise ValueError("cv gives no folds.")
    if groups is None:
        remark_on_repeats(data, splits)
    return splits


def read_cv(cv: Folds, random_state: RandomState) -> Folds:
    """A number of folds as TaskKFold; others as they are."""
    cv = 5 if cv is None else cv
    if not isinstance(cv, Integral) or isinstance(cv, bool):
        return cv
    if cv < 2:
        raise ValueError(f"cv must be at least 2 folds, got {cv}.")
    return TaskKFold(int(cv), random_state=random_state)


def by_task(cv: object) -> TypeGuard[TaskKFold]:
    """Whether folds are dealt out within the tasks of the data."""
    return isinstance(cv, TaskKFold) and cv.task is None and cv.task_column is None


def _mask(rows: Sequence[int] | np.ndarray, N: int, f: int) -> np.ndarray:
    out, rows = np.zeros(N, dtype=bool), np.asarray(rows, dtype=np.intp if len(rows) == 0 else None)
    try:
        out[rows] = True
    except IndexError as error:
        raise ValueError(f"fold {f}: {error}; X has {N} rows.") from error
    if rows.dtype != bool and len(rows) != out.sum():
        raise ValueError(f"fold {f} names a row twice. To count rows more than once use sample_weight.")
    return out


def _stratified(cv: TaskKFold, data: TaskData, groups: np.ndarray | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """TaskKFold on the rows that count, stratified by the task (of a 2-D y: by the set of tasks) they belong to."""
    sets = data.membership
    used = np.flatnonzero(sets.any(axis=1))
    if data.form == "wide":
        fewest = min(data.tasks, key=lambda task: len(task.rows))
        if len(fewest.rows) < cv.n_splits:
            raise ValueError(
                f"task {fewest.label!r} has {len(fewest.rows)} measured row(s), fewer than {cv.n_splits} folds. Use at most "
                "as many folds as the smallest task has rows, or leave that task out."
            )
        parts = _deal_until_whole(cv, sets[used], _chosen(groups, used))
    elif data.survival and groups is None:
        event = np.zeros(len(sets), dtype=bool)
        for task in data.tasks:
            event[task.rows] = times_of(task.y)[1]
        parts = list(cv.deal_within(data.labels, np.argmax(sets[used], axis=1), event[used]))
    else:
        labelled = TaskKFold(
            cv.n_splits,
            task=data.labels[np.argmax(sets[used], axis=1)],
            shuffle=cv.shuffle,
            random_state=cv.random_state,
        )
        parts = list(labelled.split(used, groups=_chosen(groups, used)))
    return [(used[train], used[test]) for train, test in parts]


def _deal_until_whole(
    cv: TaskKFold, sets: np.ndarray, groups: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Folds stratified by the set of tasks, drawn again while one of them leaves a rare task without training rows."""
    random = check_random_state(cv.random_state)
    again = TaskKFold(cv.n_splits, shuffle=cv.shuffle, random_state=random)
    strata = np.unique(sets, axis=0, return_inverse=True)[1].ravel()
    for _ in range(REDRAWS if cv.shuffle else 1):
        parts = list(again.deal_evenly(strata, groups))
        if all(sets[train].any(axis=0).all() for train, _ in parts):
            break
    return parts


def _chosen(groups: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if groups is None else np.asarray(groups)[rows]


# ------------------------------------------------------------------ held-out errors


def _measure(
    data: TaskData,
    split: Split,
    surface: Solutions,
    scorer: Scorer | None,
    noted: list[Floats] | None,
    held: Callable[[], RowsHeldOut],
) -> tuple[Floats, Floats, Floats | None]:
    """See `Split.measure`; predictions are added to `noted`."""
    places, back = surface.places_in_use()
    mse, weight = np.full((data.m, len(places) + 1), np.nan), np.zeros(data.m)  # the last for points not solved
    predictions = np.full((len(places), len(split.test), *data.width), np.nan) if scorer is not None else None
    problem = surface.problem
    assert problem is not None
    if scorer is None and problem.loss.squared and together(data, len(places)):
        weight, mse[:, :-1] = _errors_together(data, held(), surface, places, noted)
        return mse[:, back], weight, None
    for i, task in enumerate(data.tasks):
        rows = np.flatnonzero(split.test[task.rows])
        of_task = np.empty((len(rows), len(places))) if noted is not None else None
        if noted is not None and of_task is not None:
            noted.append(of_task)
        if rows.size == 0:
            continue

        def note(
            some: Ints, fitted: Floats, task: Task = task, i: int = i, rows: Ints = rows, out: Any = of_task
        ) -> None:
            if out is not None:
                out[np.searchsorted(rows, some)] = fitted
            if predictions is not None:
                column = (i % data.width[0],) if data.width else ()
                predictions[(slice(None), task.rows[some], *column)] = fitted.T

        measure = partial(problem.held_out, i)
        W, intercepts = surface.of_task(i), surface.intercepts_of(i)
        if not problem.loss.levelled:
            train = np.flatnonzero(split.train[task.rows])
            weight[i], mse[i, :-1] = whole_task_errors(task, train, rows, W, places, problem.held_out_of_task, note)
            continue
        weight[i], mse[i, :-1] = task_errors(task, rows, W, intercepts, places, measure, note)
    scores = None
    if predictions is not None and classes_together(problem):
        mse[:, :-1] = _class_losses(data, split.test, predictions)
    if scorer is not None and predictions is not None:
        scores = np.array([*(scorer(values, split.test) for values in predictions), np.nan])[back]
    return mse[:, back], weight, scores


def _class_losses(data: TaskData, test: np.ndarray, predictions: Floats) -> Floats:
    """(m, points): the mean log-losses of rows held out, shared out among the classes of a task: those of rows of the class.
    Predictions (points, N, columns) are proportional to the probabilities of classes."""
    out, K = np.full((data.m, len(predictions)), np.nan), data.classes
    for i, task in enumerate(data.tasks):
        rows = np.flatnonzero(test[task.rows])
        if rows.size == 0:
            continue
        places = np.arange(i - i % K, i - i % K + K) % data.width[0]
        p = predictions[:, task.rows[rows]][:, :, places]
        share = np.maximum(p[:, :, i % K] / p.sum(axis=2), np.finfo(float).tiny)
        weights = np.ones(len(rows)) if task.weight is None else task.weight[rows]
        out[i] = np.where(task.y[rows] > 0.5, -np.log(share), 0.0) @ weights / weights.sum()
    return out


def together(data: TaskData, points: int) -> bool:
    """Whether there is room for measuring all tasks at once, rather than picking each one's rows anew."""
    if issparse(data.X) or data.X.size > COPIED:
        return False
    N = sum(len(task.rows) for task in data.tasks)
    return max(N, data.d * data.m) * points <= COPIED


def _errors_together(
    data: TaskData, held: RowsHeldOut, surface: Solutions, places: Ints, noted: list[Floats] | None
) -> tuple[Floats, Floats]:
    """The weights (m,) of the rows held out, and the mean squared errors (m, len(places)) there of some solutions; NaN where
    a task has no such rows. Predictions are added to `noted`."""
    weight, mse = np.zeros(data.m), np.full((data.m, len(places)), np.nan)
    total = weight[held.some] = np.add.reduceat(held.weights, held.starts)
    fitted = held.fitted(surface, places)
    errors = held.weights[:, None] * (held.y[:, None] - fitted) ** 2
    mse[held.some] = np.add.reduceat(errors, held.starts, axis=0) / total[:, None]
    if noted is not None:
        of_some = dict(zip(held.some, np.split(fitted, held.starts[1:]), strict=True))
        noted += [of_some.get(i, fitted[:0]) for i in range(data.m)]
    return weight, mse


class RowsHeldOut:
    """The rows that a fold holds out, of all tasks one after the other: the tasks that have some, where each begins, X, y,
    weights and offsets."""

    def __init__(self, data: TaskData, split: Split):
        rows = [np.flatnonzero(split.test[task.rows]) for task in data.tasks]
        self.some = [i for i, of_task in enumerate(rows) if of_task.size]
        both = [(data.tasks[i], rows[i]) for i in self.some]
        sizes = np.array([len(at) for _, at in both])
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.of_task = np.repeat(np.arange(len(self.some)), sizes)
        self.X = np.concatenate([task.X[at] for task, at in both])
        self.y = np.concatenate([task.y[at] for task, at in both])
        self.weights = np.concatenate(
            [np.ones(len(at)) if task.weight is None else task.weight[at] for task, at in both]
        )
        self.offset = np.concatenate(
            [np.zeros(len(at)) if task.offset is None else task.offset[at] for task, at in both]
        )

    def fitted(self, surface: Solutions, places: Ints) -> Floats:
        """(rows, len(places)): predictions of some solutions."""
        coefs = surface.coefs(places)
        out, X = np.empty((len(self.y), len(coefs))), self.X
        by_task = np.ascontiguousarray(coefs.transpose(1, 2, 0))
        used = np.flatnonzero(by_task.any(axis=(0, 2)))
        if len(used) <= MOST * X.shape[1]:
            X, by_task = X[:, used], by_task[:, used]
        ends = [*self.starts[1:].tolist(), len(self.y)]
        for i, low, high in zip(self.some, self.starts.tolist(), ends, strict=True):
            np.matmul(X[low:high], by_task[i], out=out[low:high])
        intercepts = np.array([surface.intercepts_at(i, places, coefs[:, i]) for i in self.some])  # (some, points)
        out += intercepts[self.of_task] + self.offset[:, None]
        return out


def task_errors(
    task: Task,
    rows: Ints,
    W: TaskCoefs,
    intercepts: Floats,
    places: Ints,
    measure: Callable[[Floats, Floats], tuple[Floats, Floats]] = lambda y, f: ((y - f) ** 2, f),
    note: Callable[[Ints, Floats], None] = lambda some, fitted: None,
) -> tuple[float, Floats]:
    """The weight of some of a task's rows, and the mean errors (len(places),) there of some of the solutions.
    `measure` makes errors (by default squared) and predictions of targets (rows, 1) and linear predictions (rows,
    len(places)); `note` is told rows and predictions for them."""
    used, scattered = W.used(), issparse(task.X)
    most = not scattered and len(used) > MOST * W.shape[1]
    coefs, intercepts = W.dense(places, None if most else used).T, intercepts[places]
    weights = np.ones(len(rows)) if task.weight is None else task.weight[rows]
    weight, mse = float(weights.sum()), np.zeros(len(places))
    height = max(1, AT_ONCE // len(places))
    for low in range(0, len(rows), height):  # (rows x points) at once would outgrow X
        some = rows[low : low + height]
        rows_of_x = task.X[some] if most else task.X[some][:, used] if scattered else task.X[np.ix_(some, used)]
        linear = rows_of_x @ coefs + intercepts
        if task.offset is not None:
            linear += task.offset[some, None]
        errors, fitted = measure(task.y[some, None], linear)
        mse += weights[low : low + height] @ errors / weight
        note(some, fitted)
    return weight, mse


def whole_task_errors(
    task: Task,
    train: Ints,
    rows: Ints,
    W: TaskCoefs,
    places: Ints,
    measure: Callable[[Floats, Floats, np.ndarray, Floats], Floats],
    note: Callable[[Ints, Floats], None],
) -> tuple[float, Floats]:
    """As `task_errors`, of a loss that the rows of a task have together: what rows held out add to that of the training
    rows. `measure` is given targets, weights, which rows are held out, and linear predictions; `note` is told rows and
    their errors."""
    every = np.sort(np.concatenate([train, rows]))
    out = np.isin(every, rows)
    weights = np.ones(len(every)) if task.weight is None else task.weight[every]
    used = W.used()
    coefs, X = W.dense(places, used).T, task.X[every][:, used]
    beside = 0.0 if task.offset is None else task.offset[every, None]
    total, mean = float(weights[out].sum()), np.zeros(len(places))
    width = max(1, AT_ONCE // len(every))
    errors = np.empty((len(rows), len(places)))
    for low in range(0, len(places), width):
        some = slice(low, low + width)
        linear = np.asarray(X @ coefs[:, some]) + beside
        errors[:, some] = measure(task.y[every], weights, out, linear)
        mean[some] = weights[out] @ errors[:, some] / total
    note(every[out], errors)
    return total, mean


class Scorer:
    """A scikit-learn scorer, or any callable (estimator, X, y), on predictions that have been made already."""

    def __init__(self, scoring: Scoring, X: Table, y: Targets, sample_weight: ArrayLike | None):
        known = isinstance(scoring, str) and scoring in get_scorer_names()
        score: Any = get_scorer(scoring) if known else scoring
        if not callable(score):
            raise ValueError(
                f"scoring must be one of {', '.join(map(repr, ERRORS))}, the name of a scikit-learn scorer or a callable; "
                f"got {scoring!r}."
            )
        self.score: Callable[..., float] = score
        if known and "predict" not in np.atleast_1d(getattr(self.score, "_response_method", "predict")):
            raise ValueError(
                f"scoring={scoring!r} is for classifiers: it asks for probabilities, and a regression has none. Use one of "
                f"{', '.join(map(repr, ERRORS))}, or a scorer of regressions, such as 'r2'."
            )
        self.X, self.y = X, np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y, dtype=np.float64)
        if self.y.ndim == 2 and np.isnan(self.y).any():
            raise ValueError(
                f"scoring={scoring!r} cannot be used with missing values in y: use one of {', '.join(map(repr, ERRORS))}."
            )
        self.weight = check_weights(sample_weight, self.y.shape)
        if self.weight is not None and self.weight.ndim == 2:
            raise ValueError(
                f"scoring={scoring!r} takes one weight per row, not one per row and task: use one of "
                f"{', '.join(map(repr, ERRORS))}."
            )
        self.weighted = self.weight is not None and "sample_weight" in _parameters(self.score)

    def _rows(self, rows: np.ndarray) -> Any:
        """Of X, for scorers that look at it."""
        given: Any = self.X
        X = given.iloc if hasattr(given, "iloc") else given.tocsr() if hasattr(given, "tocsr") else given
        return X[rows] if hasattr(given, "shape") else None

    def __call__(self, predictions: Floats, test: np.ndarray) -> float:
        rows = np.flatnonzero(test & ~np.isnan(predictions.reshape(len(test), -1)).any(axis=1))
        options = {"sample_weight": self.weight[rows]} if self.weighted and self.weight is not None else {}
        return float(self.score(self._predicted(predictions[rows]), self._rows(rows), self.y[rows], **options))

    def _predicted(self, values: Floats) -> object:
        return _Predicted(values)


def _parameters(call: Callable[..., object]) -> Iterable[str]:
    try:
        return inspect.signature(call).parameters
    except (TypeError, ValueError):
        return ()


class _Predicted(RegressorMixin, BaseEstimator):
    """An estimator that has predicted already."""

    def __init__(self, values: Floats | None = None):
        self.values = values

    def fit(self, X: object, y: object) -> _Predicted:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: object) -> Floats | None:
        return self.values


# ------------------------------------------------------------------ scores and choice


def fold_scores(held_out: HeldOut, data: AnyData, scoring: Scoring) -> Floats:
    """(folds, K, L), greater is better: a scorer's, or the error averaged over tasks with the weights held out."""
    if held_out.scores is not None:
        return held_out.scores  # where a solution is not complete, too: who chooses must look
    assert isinstance(scoring, str)
    scale = np.array([_scale(target, scoring) for target in to_explain(data)])
    if (scale == 0).any():
        flat = data.labels[scale == 0].tolist()
        everything = len(flat) == data.m
        warn_user(
            f"the targets of task(s) {names_of(flat)} are {'all 0' if scoring == 'neg_amse' else 'constant'}: "
            f"{scoring[4:]} is undefined there. {'Scored by neg_mse.' if everything else 'They are left out of the score.'}"
        )
    scale = error_scales(data, scoring)
    total = held_out.weight @ (scale > 0)
    if (total == 0).any():
        raise ValueError(
            f"fold {int(np.argmin(total))} holds out only tasks whose targets are constant. Use scoring='neg_mse'."
        )
    return -mean_errors(held_out.mse, held_out.weight, scale)


def mean_errors(mse: Floats, weight: Floats, scale: Floats) -> Floats:
    """(..., K, L): errors (..., m, K, L) over their scales (m,), averaged over tasks by the weights held out (..., m). Tasks
    whose scale is 0 do not count; 0 if none does."""
    counts = np.where(scale > 0, weight, 0.0)
    total = counts.sum(axis=-1)
    with np.errstate(over="ignore"):  # an error beyond the range of floats is infinite, and is not chosen
        error = np.nan_to_num(mse) / np.where(scale > 0, scale, 1.0)[:, None, None]
    out: Floats = np.einsum("...i,...ikl->...kl", counts, error) / np.where(total > 0, total, 1.0)[..., None, None]
    return out


def error_scales(data: AnyData, scoring: str) -> Floats:
    """(m,): what the tasks' squared errors are divided by. 0 where that is undefined, unless it is so everywhere: then 1."""
    scale = np.array([_scale(target, scoring) for target in to_explain(data)])
    return scale if scale.any() else np.ones_like(scale)


def to_explain(data: AnyData) -> Sequence[TargetSums]:
    """The targets that errors are relative to: less the offset, where there is one that can be subtracted from them."""
    return data.to_explain if isinstance(data, TaskData) else data.targets


def _scale(target: TargetSums, scoring: str) -> float:
    """Of one task: its variance or mean square over all rows."""
    return {"neg_nmse": target.variance, "neg_amse": target.square}.get(scoring, 1.0)


def standard_errors(scores: Floats) -> Floats:
    """(K, L) of the mean over folds; 0 with a single fold."""
    folds = len(scores)
    with np.errstate(over="ignore", invalid="ignore"):  # of infinite scores: NaN
        return scores.std(axis=0, ddof=1) / np.sqrt(folds) if folds > 1 else np.zeros(scores.shape[1:])


def choose(scores: Floats, surface: Solutions, selection: str) -> tuple[int, int]:
    """The point with the best mean score, or ("1se") the simplest within one standard error of it. Points without a score
    (NaN in some fold) are not eligible.

    Simplest: fewest non-zero rows, then fewest entries, then the largest lam (lam_b); so are ties broken, scores that differ
    by no more than rounding being one.
    """
    mean = scores.mean(axis=0)
    mean = np.where(np.isnan(mean), -np.inf, mean)
    if np.isneginf(mean).all():
        raise ValueError(
            "no point of the grid has a score: at each of them, in some fold, the score is NaN, or the solver did not end, "
            "or the model would leave more features un-penalised than there are samples, or features without a penalty "
            "separate the classes of a task. Use fewer, larger folds, larger values of theta or lam, more iterations, or "
            "another scoring; penalise features that separate classes."
        )
    best = np.unravel_index(int(np.argmax(mean)), mean.shape)
    slack = float(standard_errors(scores)[best]) if selection == "1se" else EQUAL * abs(mean[best])
    with np.errstate(over="ignore"):  # counts predicted next to the end of the range of floats
        return _simplest(surface, mean >= mean[best] - slack)


def _simplest(surface: Solutions, eligible: np.ndarray) -> tuple[int, int]:
    at = np.argwhere(eligible)
    k, l = at.T
    strengths = [values[k, l] for values in surface.parameters.values()]
    order = simplest_first(surface.n_rows[k, l], surface.n_entries[k, l], strengths)
    return int(at[order[0], 0]), int(at[order[0], 1])


def simplest_first(n_rows: Ints, n_entries: Ints, strengths: Sequence[Floats]) -> Ints:
    """The order of points, all given as (P,): fewest non-zero rows, then fewest entries, then the largest strengths."""
    return np.lexsort((*(-values for values in reversed(strengths)), n_entries, n_rows))


def information(surface: Solutions, data: AnyData, criterion: str) -> Floats:
    """(K, L), smaller is better: AIC, BIC or EBIC of every point, tasks having noise variances of their own.

        sum_i  n_i log(RSS_i / n_i) + charge_i,    N = sum_i n_i

        AIC    2 df_i n_i / (n_i - df_i - 2)        corrected for small samples (Hurvich and Tsai 1989)
        BIC    log N df_i n_i / (n_i - df_i - 2)    the same (McQuarrie 1999)
        EBIC   (log n_i df_i + 2 log (d choose min(df_i, d/2))) n_i / (n_i - df_i - 2)    of every task (Chen and Chen 2008,
               gamma = 1; corrected likewise, and what a search costs does not fall again where all features are in use)

    with df_i the degrees of freedom of task i, see `degrees`. They are known of convex penalties only: where a threshold
    decides what is penalised, the search for it takes part in the fit as well; AIC and BIC, which do not charge for that,
    would take noise for signal, and are NaN. EBIC charges more than the best of all models with df_i coefficients gains on
    noise, however it was found, so that it has a value everywhere.

    Where a task has more than n_i / 2 degrees of freedom, or leaves fewer than three to the noise, its RSS says nothing
    about the noise any more: it is taken as if nothing were explained, so that neither a small task nor an
    interpolated one decides for the others. Tasks with constant targets do not count. Where the scale of the loss
    is known (logistic and Poisson; that of Huber's, from its pilot fit), the deviance stands in place of the first
    term, and needs no correction.
    """
    counted = np.ones(surface.last.shape, dtype=bool) if criterion == "ebic" else surface.convex
    if not counted.any():
        raise ValueError(
            f"selection={criterion!r} needs degrees of freedom, which are known where the penalty is convex (theta = inf): "
            "no point of the grid is of that kind. Use selection='ebic' or cross-validation, or add theta = inf to the grid."
        )
    places, back = np.unique(surface.last[counted], return_inverse=True)
    problem, degrees, losses = surface.problem, surface.degrees(places), surface.losses[places]  # (places, m)
    assert problem is not None
    n = np.array([float(target.rows) for target in data.targets])
    yy = np.array([design.yy for design in problem.designs])
    varies, units = yy > 0, problem.deviance_units
    if units is None:
        silent = degrees > np.minimum(n / 2, n - 4.0)
        rss = np.where(silent, yy, np.maximum(losses, 1e-15 * yy))  # an interpolation has a logarithm too
        value = n * np.log(np.where(varies, rss, 1.0) / n)
        small = n / np.maximum(n - degrees - 2.0, np.maximum(n / 2 - 2.0, 2.0))
    else:
        value, small = losses / units, np.ones_like(degrees)
    if criterion == "ebic":
        d = len(surface.features)
        some = np.minimum(degrees, d / 2)
        search = 2.0 * (gammaln(d + 1) - gammaln(some + 1) - gammaln(d - some + 1))
        value = value + small * (np.log(n) * degrees + search)
    else:
        value = value + (2.0 if criterion == "aic" else np.log(n.sum() / getattr(data, "classes", 1))) * small * degrees
    out = np.full(counted.shape, np.nan)
    out[counted] = value[:, varies].sum(axis=1)[back]
    return out
