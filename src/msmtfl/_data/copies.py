"""Samples that have the same features: are they the same units, and do folds part them?

A unit (patient, isolate, cell line) that is measured in several tasks, or copied within one, and falls into both the
training rows and the rows held out makes held-out errors too small. Features alone do not tell units from coincidence, so
the remark is made only where samples agree far more often than by chance: across tasks more often than within one, or in the
target as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse

from .categories import read_features
from .designs import Floats, Ints
from .tables import Labels, Matrix, Table, read_groups, warn_user
from .task_data import TaskData

IDENTICAL = "identical"  # groups= that are to be made of samples with the same features
WORTH_SAYING = 0.05  # share of the samples from which on it is remarked
BEYOND_CHANCE = 3.0  # times as often as by chance
UNSEEN = 3.0  # pairs that may be expected where none was seen: the 95 % limit of a Poisson variable
AT_ONCE = 2**15  # entries of X that are hashed or compared together: they stay in the second cache


def groups_of(groups: Labels, X: Matrix) -> np.ndarray:
    """One group per row of X, the features of all samples; of "identical" those with the same features are one."""
    if not isinstance(groups, str):
        return read_groups(groups, X.shape[0])
    if groups != IDENTICAL:
        raise ValueError(
            f"groups must be a label per row, or {IDENTICAL!r}: samples with the same features. Got {groups!r}."
        )
    return same_rows(X)


class RepeatedSamplesWarning(UserWarning):
    """Samples with the same features are in training rows and rows held out."""


# ------------------------------------------------------------------ which samples are the same


def identical_samples(X: Table, *, task_column: str | int | None = None) -> Ints:
    """Number the samples so that those with the same features have the same number.

    Use the numbers as `groups=` of a splitter; estimators and :func:`compare_models` make them themselves
    with ``groups="identical"``.

    Parameters
    ----------
    X : DataFrame, ndarray or sparse matrix of shape (N, d)
        Samples of all tasks.
    task_column : str or int, optional
        The column that identifies the task; it is no feature.

    Returns
    -------
    ndarray of shape (N,)
        Whole numbers from 0, in the order of appearance.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.copies import identical_samples
    >>> identical_samples(np.array([[1.0, 2.0], [0.0, 2.0], [1.0, 2.0]]))
    array([0, 1, 0])
    """
    return same_rows(read_features(X, None, task_column)[0])


def same_rows(X: Matrix) -> Ints:
    """(N,): numbers of distinct rows of an array, dense or sparse by rows, in the order of appearance."""
    first, codes = _grouped(_hashes(X))
    if not _agree(X, first[codes]):  # two rows with one hash
        dense = X.toarray() if issparse(X) else X
        first, codes = _grouped(np.unique(dense + 0.0, axis=0, return_inverse=True)[1].ravel())
    return codes


def _grouped(keys: np.ndarray) -> tuple[Ints, Ints]:
    """Of equal keys the first place, and for each the number of its group in the order of appearance."""
    _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[codes.ravel()]


def _hashes(X: Matrix) -> np.ndarray:
    """(N,) 64-bit sums, over the entries of a row that are not 0, of their bits times a random odd number of the column."""
    random = np.random.default_rng(0)
    odd = np.asarray(random.integers(0, 2**63, X.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1))
    if issparse(X):
        parts = _mixed(X.data) * odd[X.indices]
        ends = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(parts, dtype=np.uint64)])
        return np.asarray(ends[X.indptr[1:]] - ends[X.indptr[:-1]])
    out = np.empty(X.shape[0], dtype=np.uint64)
    height = max(1, AT_ONCE // max(X.shape[1], 1))
    for low in range(0, len(out), height):
        parts = _mixed(X[low : low + height])
        parts *= odd
        parts.sum(axis=1, dtype=np.uint64, out=out[low : low + height])
    return out


def sample_keys(X: Matrix, y: np.ndarray) -> np.ndarray:
    """(N,) 64-bit numbers that samples with the same features and target have in common, and that do not depend on where
    they stand."""
    return np.asarray(_hashes(X) + (_mixed(y) << np.uint64(1)) + _mixed(y))


def _mixed(values: np.ndarray) -> np.ndarray:
    """Bits of numbers, the high ones, in which small integers differ, also at the low end; 0 and -0 are 0."""
    values = np.ascontiguousarray(values) + values.dtype.type(0)
    bits = values.view(f"u{values.itemsize}").astype(np.uint64, copy=False)  # of a sum, which nobody else has
    bits ^= bits >> np.uint64(32)
    bits *= np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(29)
    return np.asarray(bits)


def _agree(X: Matrix, first: Ints) -> bool:
    """Whether every row is the same as the one it was taken for."""
    again = np.flatnonzero(first != np.arange(len(first)))
    height, thin = max(1, AT_ONCE // max(X.shape[1], 1)), issparse(X)
    for low in range(0, len(again), height):
        some = again[low : low + height]
        differ: Any = X[some] != X[first[some]]
        if differ.nnz if thin else differ.any():
            return False
    return True


# ------------------------------------------------------------------ what is said of them


class Parted(Protocol):
    """A split: rows to train on and rows held out, both (N,) bool."""

    @property
    def train(self) -> np.ndarray:
        """Those to train on."""

    @property
    def test(self) -> np.ndarray:
        """Those held out."""


@dataclass(frozen=True)
class Repeats:
    """Shares of the samples that folds part from one like them: with the same features in another task, and with the same
    features and target in their own; 0 where that is no more often than by chance."""

    across: float
    within: float


def repeats(data: TaskData, splits: Sequence[Parted]) -> Repeats:
    """`splits` have `train` and `test`, (N,) bool each."""
    tasks = data.tasks[:: data.classes]  # one of those that stand for the classes of a task
    task = np.repeat(np.arange(len(tasks)), [len(one.rows) for one in tasks])
    row, y = np.concatenate([one.rows for one in tasks]), np.concatenate([one.y for one in tasks])
    code = same_rows(data.X)
    parted = _parted(code, splits)[code[row]]
    if not parted.any():
        return Repeats(0.0, 0.0)
    code, target = code[row], _numbered(y)
    keys, of_task = np.unique(code * len(tasks) + task, return_inverse=True)
    alike = _numbered(of_task.ravel() * (target.max() + 1) + target)
    across, within = 0.0, 0.0
    if data.form == "long" and _more_across(code, task, of_task.ravel()):
        in_tasks = np.bincount(keys // len(tasks), minlength=code.max() + 1)
        across = float(np.mean(parted & (in_tasks[code] > 1)))
    if _more_copies(of_task.ravel(), alike, task, target):
        within = float(np.mean(parted & (np.bincount(alike)[alike] > 1)))
    return Repeats(across, within)


def _numbered(values: np.ndarray) -> Ints:
    """Numbers of distinct values."""
    return np.unique(values, return_inverse=True)[1].ravel()


def _parted(code: Ints, splits: Sequence[Parted]) -> np.ndarray:
    """(codes,) bool: some split has such rows both to train on and to predict."""
    out = np.zeros(code.max() + 1, dtype=bool)
    for split in splits:
        sides = np.zeros((2, len(out)), dtype=bool)
        for side, rows in zip(sides, (split.train, split.test), strict=True):
            side[code[rows]] = True
        out |= sides.all(axis=0)
    return out


def _pairs(codes: np.ndarray) -> float:
    """Pairs of equal codes."""
    return float(_pairs_by_task(codes, np.zeros(len(codes), dtype=np.intp))[0])


def _pairs_by_task(codes: np.ndarray, task: np.ndarray) -> Floats:
    """(m,): pairs of equal codes in each task."""
    width = int(codes.max()) + 1
    keys, counts = np.unique(task * width + codes, return_counts=True)
    return np.asarray(np.bincount(keys // width, counts * (counts - 1.0) / 2), dtype=np.float64)


def _more_across(code: Ints, task: np.ndarray, of_task: np.ndarray) -> bool:
    """Whether samples of different tasks agree far more often than those of one, as those of a unit in several tasks do: a
    coincidence of coarse features is as likely within a task."""
    within, pairs_within = _pairs(of_task), _pairs(task)
    across, pairs_across = _pairs(code) - within, len(task) * (len(task) - 1) / 2 - pairs_within
    return across * max(pairs_within, 1.0) > BEYOND_CHANCE * (within + UNSEEN) * pairs_across


def _more_copies(of_task: np.ndarray, alike: np.ndarray, task: np.ndarray, target: np.ndarray) -> bool:
    """Whether samples of a task with the same features have the same target far more often than any two of its samples."""
    features, targets, every = (_pairs_by_task(codes, task) for codes in (of_task, target, np.zeros_like(task)))
    expected = float((features * targets / np.maximum(every, 1.0)).sum())
    return _pairs(alike) > BEYOND_CHANCE * (expected + 1.0)


def remark_on_repeats(data: TaskData, splits: Sequence[Parted]) -> None:
    """A warning if folds part samples that may well be the same units."""
    found = repeats(data, splits)
    said = []
    if found.across >= WORTH_SAYING:
        said.append(f"{found.across:.0%} of the samples have the same features as a sample of another task")
    if found.within >= WORTH_SAYING:
        said.append(f"{found.within:.0%} have the same features and target as another sample of their task")
    if said:
        warn_user(
            f"{', and '.join(said)}, and folds part them. If these are the same units (patients, isolates), held-out errors "
            "are too small, most of all those of models that share: keep them together with groups='identical', or give "
            "groups=, a label of the unit per row. If features were set by design (everybody rates the same items), errors "
            "are of these items, and with groups='identical' of new ones.",
            RepeatedSamplesWarning,
        )
