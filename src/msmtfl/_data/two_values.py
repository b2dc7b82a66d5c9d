"""Columns that have two values only, such as indicators, and how far apart these are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from .designs import Floats
from .tables import Matrix

SAME = 1e-9  # sums that differ by less, as a share, are those of two values: others are so by a chance that nobody has


class HasTasks(Protocol):
    """Samples of tasks, or sums of them."""

    @property
    def tasks(self) -> Sequence[Any]:
        """One per task."""


def apart(data: HasTasks) -> Floats:
    """(d,): the distance of a column's two values; NaN where it has more of them, or one.

    Where samples are at hand they are looked at. Sums (`Moments`) show values of 0 and 1, or of -1 and 1, which are those
    of nearly all such columns: of these the mean square is the mean, or 1.
    """
    parts = list({id(task): task for task in (getattr(one, "X", one) for one in data.tasks)}.values())
    if hasattr(data.tasks[0], "X"):
        return _of_samples(parts)
    n = np.array([part.n for part in parts])[:, None]
    mean = np.array([part.mean for part in parts])
    square = np.array([part.xx.diagonal() for part in parts]) / n + mean**2
    indicator, sign = ((np.abs(square - goal) <= SAME * square).all(axis=0) for goal in (mean, np.ones_like(mean)))
    varies = (square - mean**2 > SAME * square).any(axis=0) | (np.ptp(mean, axis=0) > SAME)
    return np.where(varies & indicator, 1.0, np.where(varies & sign, 2.0, np.nan))


def _of_samples(parts: list[Any]) -> Floats:
    low = np.min([_reduced(X, "min") for X in parts], axis=0)
    high = np.max([_reduced(X, "max") for X in parts], axis=0)
    two = low < high
    for X in parts:
        two &= _only(X, low, high)
    return np.where(two, high - low, np.nan)


def _reduced(X: Matrix, what: str) -> Floats:
    found: Any = getattr(X, what)(axis=0)
    return np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64).ravel()


def _only(X: Matrix, low: Floats, high: Floats) -> np.ndarray:
    """(d,) bool: whether a column holds nothing but these two values."""
    if isinstance(X, np.ndarray):
        return np.asarray(((low == X) | (high == X)).all(axis=0))
    rows: Any = csr_array(X)
    other = (rows.data != low[rows.indices]) & (rows.data != high[rows.indices])
    stored = np.bincount(rows.indices, minlength=rows.shape[1])
    wrong = np.bincount(rows.indices, other, minlength=rows.shape[1]) > 0
    return np.asarray(~wrong & ((stored == rows.shape[0]) | (low == 0.0) | (high == 0.0)))
