"""Rows of all tasks one below the other, each task centred by itself, and training folds of them by subtraction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from threading import Lock

import numpy as np

from ..designs import NONE, Floats, Ints
from .dense import LEFT_SHARE, DenseRows, RowTask


def sums_of(strata: Ints, m: int, values: Floats) -> Floats:
    """(m, ...): the sums of values (n, ...) over strata (n,), which rise; 0 of those that have none."""
    out = np.zeros((m, *values.shape[1:]))
    present, begins = np.unique(strata, return_index=True)
    if present.size:
        out[present] = np.add.reduceat(values, begins, axis=0)
    return out


class PooledRows:
    """Dense rows of all tasks, less the means of their tasks, of which folds are left out.

    Parameters
    ----------
    whole : all rows and their target, which are not centred any more
    strata : (rows,), rising: the task of each row
    m : how many tasks there are
    outs : the rows of every fold, each row in one of them
    """

    def __init__(self, whole: RowTask, strata: Ints, m: int, outs: Sequence[Ints]):
        assert isinstance(whole.rows, DenseRows)
        self.whole, self.strata, self.m, self.total = whole, strata, m, whole.rows
        self.counts = np.bincount(strata, minlength=m)
        self.weights = sums_of(strata, m, self.total.u**2)
        self.total.gather(outs)

    def without(self, out: Ints) -> PooledFold | None:
        """The rows that are left without a fold, each task centred anew; None if subtraction would lose digits."""
        fold = PooledFold(self, out)
        return fold if fold.safe else None


class PooledFold(DenseRows):
    """What is left of pooled rows without a fold: sums are those of all rows less those left out. The rows themselves are
    only made if they are asked for.

    Attributes
    ----------
    shift : (m, d), what the means of the features in all rows exceed those in the rows left by
    y_shift : (m,), the same of the target
    """

    def __init__(self, of: PooledRows, out: Ints):
        total, task = of.total, of.whole
        self.total, self.d, self.centre = total, total.d, False
        self.kept = np.ones(len(total.u), dtype=bool)
        self.kept[out] = False
        self.strata = of.strata[self.kept]
        self.u = total.u[self.kept]
        self.order = min(len(self.u), self.d)
        self.dead, self.lock = NONE, Lock()
        self.offset = self.mean = np.zeros(self.d)

        u, strata = total.u[out], of.strata[out]
        gone, target = total.held(out), task.target[out]
        weights = of.weights - sums_of(strata, of.m, u**2)
        left = np.bincount(self.strata, minlength=of.m) > 0
        share = np.divide(1.0, weights, out=np.zeros(of.m), where=left)
        sums, y_sums = sums_of(strata, of.m, u[:, None] * gone), sums_of(strata, of.m, u * target)
        self.shift, self.y_shift = sums * share[:, None], y_sums * share
        self.n = float(weights[left].sum())
        G = total.gram() - total.parts.pop(out.tobytes())
        G -= sums.T @ self.shift
        self.whole, self.squares = G, G.diagonal().copy()
        y = task.target[self.kept] + self.u * self.y_shift[self.strata]
        self.first = y, 0.0, y, task.c - target @ gone - y_sums @ self.shift
        many = (total.squares == 0.0) | (self.squares > LEFT_SHARE * total.squares)
        self.safe = bool(many.all() and y @ y > LEFT_SHARE * task.yy)

    @cached_property
    def X(self) -> Floats:  # type: ignore[override]  # noqa: N802 - as of other rows
        """The rows that are left."""
        return np.asarray(self.total.X[self.kept] + self.u[:, None] * self.shift[self.strata])

    def task(self) -> RowTask:
        """With their target."""
        assert self.first is not None
        return RowTask(self, self.first[0])
