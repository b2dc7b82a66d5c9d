"""How good predictions and coefficients are: the measures of the paper's experiments.

Per task i with targets y, predictions p and weights s (1 if there are none), sums over its measured rows:

    MSE_i  = sum s (y - p)^2 / sum s
    nMSE_i = MSE_i / variance of y        (population variance: sum s (y - mean)^2 / sum s)
    aMSE_i = MSE_i / mean square of y     (sum s y^2 / sum s)

and over tasks their average, weighted by n_i = sum s, so that every row counts the same. Predicting a task's mean has
nMSE 1, predicting 0 has aMSE 1; nMSE_i = 1 - R^2 of task i.

The paper calls nMSE and aMSE "commonly used in multi-task learning problems" (Zhang & Yeung 2010, Zhou et al. 2011,
Gong et al. 2012) and prints no formula. The papers it cites have nMSE as the MSE over the variance of the target and
aMSE as the MSE over its squared norm, here per row: the mean square. The paper's table agrees: aMSE / nMSE is 0.028
throughout, to 4 %, as for two measures of one error that differ in the denominator alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._data.designs import Floats, Ints
from ._data.event_times import times_of
from ._data.survival import read_survival
from ._data.tables import as_floats, check_finite, factorise, names_of
from ._data.tasks import check_weights, read_target


def mse(
    y_true: Any, y_pred: Any, *, task: Any = None, sample_weight: Any = None, average: bool = True
) -> float | Floats:
    """Return the mean squared error over all samples, or per task.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, m)
        True values. A 2-D array has one column per task, in which NaN means not measured.
    y_pred : array-like of shape (n,) or (n, m)
        Predictions, in the shape of `y_true`. Where `y_true` is not measured they are
        ignored.
    task : array-like of shape (n,), optional
        The label of the task of every sample of a 1-D `y_true`. Without labels all samples
        are one task.
    sample_weight : array-like of shape (n,) or (n, m), optional
        Weights of the samples; (n, m) beside a 2-D `y_true`. By default all are 1.
    average : bool, default=True
        Whether to return one number; otherwise an array (m,) with one value per task, in
        the order of a model's `tasks_` (columns, or sorted labels).

    Returns
    -------
    float or ndarray of shape (m,)
        The error; without `average` one per task.

    Examples
    --------
    >>> mse([1, 3, 2, 6], [1, 2, 3, 6], task=["a", "a", "b", "b"])
    0.5
    """
    measured = _read(y_true, y_pred, task, sample_weight)
    return _score(measured, average, "unit", np.ones(len(measured.labels)))


def nmse(
    y_true: Any, y_pred: Any, *, task: Any = None, sample_weight: Any = None, variance: Any = None, average: bool = True
) -> float | Floats:
    """Return the normalised mean squared error: a task's MSE over the variance of its targets.

    Over tasks it is averaged by size.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, m)
        True values. A 2-D array has one column per task, in which NaN means not measured.
    y_pred : array-like of shape (n,) or (n, m)
        Predictions, in the shape of `y_true`. Where `y_true` is not measured they are
        ignored.
    task : array-like of shape (n,), optional
        The label of the task of every sample of a 1-D `y_true`. Without labels all samples
        are one task.
    sample_weight : array-like of shape (n,) or (n, m), optional
        Weights of the samples; (n, m) beside a 2-D `y_true`. By default all are 1.
    variance : array-like of shape (m,), optional
        What to divide by instead of the variance of `y_true`, e.g. that of the training samples: one test
        sample alone has none.
    average : bool, default=True
        Whether to return one number; otherwise an array (m,) with one value per task, in
        the order of a model's `tasks_` (columns, or sorted labels).

    Returns
    -------
    float or ndarray of shape (m,)
        The error; without `average` one per task.

    Examples
    --------
    >>> from msmtfl.metrics import nmse
    >>> nmse([1, 3, 2, 6], [1, 2, 3, 6], task=["a", "a", "b", "b"], average=False)
    array([0.5  , 0.125])
    >>> nmse([[1, 2], [3, 6]], [[1, 3], [2, 6]])  # the same, one column per task
    0.3125
    """
    measured = _read(y_true, y_pred, task, sample_weight)
    return _score(measured, average, "variance", measured.variance() if variance is None else variance)


def amse(
    y_true: Any,
    y_pred: Any,
    *,
    task: Any = None,
    sample_weight: Any = None,
    mean_square: Any = None,
    average: bool = True,
) -> float | Floats:
    """Return a task's mean squared error over the mean square of its targets, averaged over tasks by size.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, m)
        True values. A 2-D array has one column per task, in which NaN means not measured.
    y_pred : array-like of shape (n,) or (n, m)
        Predictions, in the shape of `y_true`. Where `y_true` is not measured they are
        ignored.
    task : array-like of shape (n,), optional
        The label of the task of every sample of a 1-D `y_true`. Without labels all samples
        are one task.
    sample_weight : array-like of shape (n,) or (n, m), optional
        Weights of the samples; (n, m) beside a 2-D `y_true`. By default all are 1.
    mean_square : array-like of shape (m,), optional
        What to divide by instead of the mean square of `y_true`.
    average : bool, default=True
        Whether to return one number; otherwise an array (m,) with one value per task, in
        the order of a model's `tasks_` (columns, or sorted labels).

    Returns
    -------
    float or ndarray of shape (m,)
        The error; without `average` one per task.

    Examples
    --------
    >>> amse([1, 3, 2, 6], [1, 2, 3, 6], task=["a", "a", "b", "b"], average=False)
    array([0.1  , 0.025])
    """
    measured = _read(y_true, y_pred, task, sample_weight)
    return _score(
        measured, average, "mean_square", measured.mean(measured.y**2) if mean_square is None else mean_square
    )


def concordance_index(
    y_true: Any, y_pred: Any, *, task: Any = None, sample_weight: Any = None, average: bool = True
) -> float | Floats:
    """Return how often the order of times until an event is predicted: Harrell's C-index, of pairs of the same task.

    A pair is counted where it is known who had the event first: one had it, and the other had it later, or was
    still without it. It is in order if the first has the higher prediction; equal predictions count half.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, m)
        True values. A 2-D array has one column per task, in which NaN means not measured.
    y_pred : array-like of shape (n,) or (n, m)
        Predictions, in the shape of `y_true`. Where `y_true` is not measured they are
        ignored.
    task : array-like of shape (n,), optional
        The label of the task of every sample of a 1-D `y_true`. Without labels all samples
        are one task.
    sample_weight : array-like of shape (n,) or (n, m), optional
        Weights of the samples; (n, m) beside a 2-D `y_true`. By default all are 1.
    average : bool, default=True
        Whether to return one number; otherwise an array (m,) with one value per task, in
        the order of a model's `tasks_` (columns, or sorted labels).

    Returns
    -------
    float or ndarray of shape (m,)
        The share of pairs in order, 0.5 for predictions that know nothing; without `average`
        one per task.

    Examples
    --------
    >>> from msmtfl.metrics import concordance_index
    >>> concordance_index([[3, 1], [5, 0], [4, 1], [6, 1]], [2.0, 1.0, 1.5, 1.7])
    0.8
    """
    y, f = read_survival(y_true), np.asarray(y_pred, dtype=np.float64)
    if f.shape != y.shape:
        raise ValueError(f"y_true has {len(y)} samples but y_pred has the shape {f.shape}. Give one value per sample.")
    check_finite(f, None, "y_pred")
    weight = np.asarray(check_weights(1.0 if sample_weight is None else sample_weight, y.shape))
    codes = np.zeros(len(y), dtype=np.intp) if task is None else factorise(task, len(y))[1]
    pairs = []
    for i in range(int(codes.max(initial=0)) + 1):
        at = np.flatnonzero(codes == i)
        pairs.append(pairs_in_order(*times_of(y[at]), f[at], weight[at]))
    ordered, known = np.array(pairs).T
    if not average:
        return np.asarray(np.divide(ordered, known, out=np.full(len(known), np.nan), where=known > 0.0))
    return float(ordered.sum() / known.sum()) if known.any() else float("nan")


def pairs_in_order(time: Floats, event: np.ndarray, f: Floats, weight: Floats | None = None) -> tuple[float, float]:
    """Weights of pairs of which it is known who had the event first: those with the higher f first (equal ones by half), and
    all. In n log(n)^2: samples after another in time are counted block by block, each twice as long as those before."""
    v = np.ones(len(time)) if weight is None else weight
    order = np.lexsort((~event, time))
    when, happened, v = time[order], event[order], v[order]
    rank = np.unique(f[order], return_inverse=True)[1].ravel()
    tied = np.cumsum(np.append(True, (np.diff(when) != 0) | (np.diff(happened.astype(np.int8)) != 0)))
    lower, equal, later = _behind(rank, v, np.zeros_like(tied))
    less = _behind(rank, v, tied)  # who has an event at the same time is not later
    lower, equal, later = lower - less[0], equal - less[1], later - less[2]
    mine = np.where(happened, v, 0.0)
    return float(mine @ (lower + 0.5 * equal)), float(mine @ later)


def _behind(rank: Ints, v: Floats, group: Ints) -> tuple[Floats, Floats, Floats]:
    """(n,) each: of samples further behind in the same group (of neighbours) the weight of those of lower rank, of the same
    rank, and of all."""
    n = len(rank)
    lower, up_to, every = np.zeros(n), np.zeros(n), np.zeros(n)
    place, size, ranks = np.arange(n), 1, int(rank.max(initial=0)) + 1
    while size < n:
        block = place // size
        right = (block % 2).astype(bool)
        pair = np.unique(group * (n + 1) + block // 2, return_inverse=True)[1].ravel()
        total = np.bincount(pair, np.where(right, v, 0.0))
        for out, first in ((lower, ~right), (up_to, right)):  # who comes first among equal ranks
            at = np.argsort((pair * ranks + rank) * 2 + ~first, kind="stable")
            sums = np.cumsum(np.where(right, v, 0.0)[at])
            ends = np.append(0.0, np.cumsum(total))[pair[at]]
            out[at] += np.where(right[at], 0.0, sums - ends)
        every += np.where(right, 0.0, total[pair])
        size *= 2
    return lower, up_to - lower, every


@dataclass(frozen=True)
class _Measured:
    """The measured values of positive weight; every task has at least one."""

    labels: np.ndarray  # (m,)
    codes: np.ndarray  # each value's task, a place in labels
    y: Floats
    error: Floats  # y - prediction
    weight: Floats

    def mean(self, values: Floats) -> Floats:
        """(m,) weighted means of other values of them."""
        return np.bincount(self.codes, self.weight * values) / np.bincount(self.codes, self.weight)

    def variance(self) -> Floats:
        """(m,), exactly 0 for equal values: they are shifted by the first, since their mean may be rounded."""
        first = np.unique(self.codes, return_index=True)[1]
        shifted = self.y - self.y[first][self.codes]
        return self.mean((shifted - self.mean(shifted)[self.codes]) ** 2)


def _score(measured: _Measured, average: bool, name: str, unit: Any) -> float | Floats:
    """MSE over unit (m,), per task or averaged."""
    if not isinstance(average, (bool, np.bool_)):
        raise TypeError(f"average must be True or False (one value per task), got {average!r}.")
    values, unit = measured.mean(measured.error**2), np.atleast_1d(np.asarray(unit, dtype=np.float64))
    if unit.shape != values.shape:
        raise ValueError(
            f"{name} has shape {unit.shape}; expected {values.shape}, for tasks {names_of(measured.labels)}."
        )
    for label, value in zip(measured.labels.tolist(), unit.tolist(), strict=True):
        if not 0.0 < value < np.inf:
            raise ValueError(f"task {label!r} has {name} {value}. Leave it out, use mse, or pass a positive {name}=.")
    values = values / unit
    return float(np.average(values, weights=np.bincount(measured.codes, measured.weight))) if average else values


def _read(y_true: Any, y_pred: Any, task: Any, sample_weight: Any) -> _Measured:
    """Both forms, rows with labels and one column per task, as values of tasks."""
    (truth, names), (prediction, predicted) = _target(y_true, "y_true"), _target(y_pred, "y_pred")
    n = len(truth)
    if truth.shape != prediction.shape:
        raise ValueError(f"y_true has shape {truth.shape} but y_pred has {prediction.shape}. Give both the same.")
    if names is not None and predicted is not None and names.tolist() != predicted.tolist():
        raise ValueError("y_true and y_pred have different columns, or in another order. Give both the same.")
    weight = np.asarray(check_weights(1.0 if sample_weight is None else sample_weight, truth.shape))
    used = np.ones(n, dtype=bool)
    if truth.ndim == 2:
        if task is not None:
            raise ValueError("with a 2-D y_true every column is a task: do not pass task labels as well.")
        used = ~np.isnan(truth)
        labels = np.arange(truth.shape[1]) if names is None else names
        codes = np.broadcast_to(np.arange(len(labels)), truth.shape)
        weight = np.broadcast_to(weight if weight.ndim == 2 else weight[:, None], truth.shape)
    elif task is None:
        labels, codes = np.zeros(1, dtype=int), np.zeros(n, dtype=np.intp)
    elif np.size(task) != n:
        raise ValueError(f"task has {np.size(task)} labels but y_true has {n} rows.")
    else:
        labels, codes = factorise(task, n)
    for values, what in ((truth, "y_true"), (prediction, "y_pred")):
        check_finite(np.where(used, values, 0.0), names, what, "Drop these rows; a 2-D y_true may hold NaN.")
    used &= weight > 0.0
    for label, count in zip(labels.tolist(), np.bincount(codes[used], minlength=len(labels)), strict=True):
        if count == 0:
            raise ValueError(f"task {label!r} has no measured value of positive weight. Leave it out.")
    return _Measured(labels, codes[used], truth[used], truth[used] - prediction[used], weight[used])


def _target(y: Any, what: str) -> tuple[Floats, np.ndarray | None]:
    shape = np.shape(y)
    if len(shape) not in (1, 2) or shape[0] == 0:
        raise ValueError(f"{what} must be (n,), or (n, m) with one column per task, n >= 1; it has shape {shape}.")
    try:
        return read_target(y, shape[0])
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


def parameter_error(coef_true: Any, coef: Any) -> float:
    """Return the paper's ||W - W_true||_2,1 = sqrt(sum_j (sum_i |difference_ij|)^2), j features, i tasks.

    It is not the usual l2,1 norm (the sum over features of the Euclidean norm over tasks): in the paper's
    l_p,q, q is the inner norm. The paper's error bound (Theorem 8) is about this one.

    Parameters
    ----------
    coef_true : array-like of shape (m, d) or (d,)
        True coefficients, one line per task; (d,) is one task.
    coef : array-like of shape (m, d) or (d,)
        Estimated coefficients in the same shape.

    Returns
    -------
    float
        The error.

    Examples
    --------
    >>> parameter_error([[1, 0], [2, 0]], [[0, 2], [0, -2]])  # the features differ by 1 + 2 and 2 + 2
    5.0
    """
    true, found = _coefficients(coef_true, coef)
    return float(np.linalg.norm(np.abs(found - true).sum(axis=0)))


@dataclass(frozen=True)
class SupportScores:
    """How well the non-zero coefficients are found: precision, recall and F1.

    Attributes
    ----------
    precision : float
        The share of the selected that is true.
    recall : float
        The share of the true that is selected.
    f1 : float
        The harmonic mean of the two.

    Examples
    --------
    >>> from msmtfl.metrics import support_scores
    >>> found = support_scores([[1, 0, 0], [2, 0, 0]], [[1, 0, 0], [0, 0, 0]])
    >>> found.precision, found.recall
    (1.0, 0.5)
    """

    precision: float
    recall: float
    f1: float


def support_scores(coef_true: Any, coef: Any, *, rows: bool = False) -> SupportScores:
    """Tell how well the non-zero coefficients are found.

    With TP entries (task, feature) non-zero in both, FP in `coef` alone and FN in `coef_true` alone, the
    precision is TP / (TP + FP), 1 if nothing is selected; the recall TP / (TP + FN), 1 if nothing is true;
    f1 is 2 TP / (2 TP + FP + FN), 1 if both are empty.

    Parameters
    ----------
    coef_true : array-like of shape (m, d) or (d,)
        True coefficients, one line per task; (d,) is one task.
    coef : array-like of shape (m, d) or (d,)
        Estimated coefficients in the same shape.
    rows : bool, default=False
        Whether to count features instead of entries; a feature is non-zero if it is so in any task.

    Returns
    -------
    SupportScores
        Precision, recall and F1.

    Examples
    --------
    >>> support_scores([[1, 0, 0], [2, 0, 0]], [[1, 0, 0], [0, 0, 3]])
    SupportScores(precision=0.5, recall=0.5, f1=0.5)
    >>> support_scores([[1, 0, 0], [2, 0, 0]], [[1, 0, 0], [0, 0, 3]], rows=True).recall
    1.0
    """
    true, found = (part != 0.0 for part in _coefficients(coef_true, coef))
    if rows:
        true, found = true.any(axis=0), found.any(axis=0)
    both, selected, wanted = int((true & found).sum()), int(found.sum()), int(true.sum())
    return SupportScores(
        precision=both / selected if selected else 1.0,
        recall=both / wanted if wanted else 1.0,
        f1=2 * both / (selected + wanted) if selected + wanted else 1.0,
    )


def _coefficients(coef_true: Any, coef: Any) -> tuple[Floats, Floats]:
    """Both as finite (m, d)."""
    true, found = as_floats(np.atleast_2d(coef_true), what="coef_true"), as_floats(np.atleast_2d(coef), what="coef")
    if true.shape != found.shape:
        raise ValueError(
            f"coef_true has shape {true.shape} but coef has {found.shape}: both must be (tasks, features)."
        )
    for values, what in ((true, "coef_true"), (found, "coef")):
        check_finite(values, None, what, "Coefficients must be finite; rows are tasks, columns features.")
    return true, found
