"""Rows of all tasks, each task centred by itself: what folds leave of them by subtraction is what their rows say."""

import numpy as np
import pytest

from msmtfl._data.forms.dense import DenseRows, RowTask
from msmtfl._data.forms.pooled_rows import PooledRows, sums_of


def centred(values, strata, weight):
    out = np.array(values, dtype=float)
    for one in np.unique(strata):
        at = strata == one
        out[at] -= np.average(out[at], axis=0, weights=weight[at])
    return out


def pooled(weighted, seed=0, sizes=(20, 7, 12, 3), d=6, far=50.0):
    rng = np.random.default_rng(seed)
    strata = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.standard_normal((len(strata), d)) + far * rng.standard_normal((len(sizes), d))[strata]
    y = X @ rng.standard_normal(d) + rng.standard_normal(len(strata))
    weight = rng.uniform(0.2, 3.0, len(strata)) if weighted else np.ones(len(strata))
    folds = rng.permutation(np.arange(len(strata)) % 4)
    folds[strata == 3] = 1  # a task of which one fold has all
    rows = DenseRows(centred(X, strata, weight), weight if weighted else None, False)
    return X, y, weight, strata, folds, RowTask(rows, centred(y, strata, weight))


@pytest.mark.parametrize("weighted", [False, True])
def test_folds_by_subtraction_are_those_of_their_rows(weighted):
    X, y, weight, strata, folds, whole = pooled(weighted)
    rows = PooledRows(whole, strata, 4, [np.flatnonzero(folds == f) for f in range(4)])
    for f in range(4):
        keep = folds != f
        fold = rows.without(np.flatnonzero(~keep))
        task, root = fold.task(), np.sqrt(weight[keep])
        Xc, yc = centred(X[keep], strata[keep], weight[keep]), centred(y[keep], strata[keep], weight[keep])
        A, t = root[:, None] * Xc, root * yc
        size = np.abs(A).max() ** 2 * len(A)
        np.testing.assert_allclose(task.gram(), A.T @ A, atol=1e-11 * size)
        np.testing.assert_allclose(task.c, A.T @ t, atol=1e-11 * size)
        np.testing.assert_allclose(task.target, t, atol=1e-11 * size)
        np.testing.assert_allclose(task.squares, (A**2).sum(axis=0), atol=1e-11 * size)
        np.testing.assert_allclose(fold.X, A, atol=1e-11 * size)  # the rows, where they are asked for
        assert task.n == pytest.approx(weight[keep].sum())
        assert task.order == 6
        for one in np.unique(strata[keep]):  # means moved by as much as is said
            moved = np.average(X[strata == one], axis=0, weights=weight[strata == one]) - np.average(
                X[keep & (strata == one)], axis=0, weights=weight[keep & (strata == one)]
            )
            np.testing.assert_allclose(fold.shift[one], moved, atol=1e-10)


def test_what_would_lose_digits_is_not_subtracted():
    X, y, weight, strata, folds, _ = pooled(False)
    at = np.flatnonzero((folds == 2) & (strata == 0))[0]
    X[:, 3] = 1e-6 * X[:, 3]
    X[at, 3] = 1e4  # nearly all of this column's spread is in one row
    whole = RowTask(DenseRows(centred(X, strata, weight), None, False), centred(y, strata, weight))
    rows = PooledRows(whole, strata, 4, [np.flatnonzero(folds == f) for f in range(4)])
    assert rows.without(np.flatnonzero(folds == 2)) is None
    assert rows.without(np.flatnonzero(folds == 0)) is not None


def test_sums_over_strata_without_rows_are_zero():
    out = sums_of(np.array([1, 1, 3]), 5, np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    np.testing.assert_array_equal(out, [[0, 0], [4, 6], [0, 0], [5, 6], [0, 0]])
    assert not sums_of(np.array([], dtype=int), 2, np.empty((0, 3))).any()
