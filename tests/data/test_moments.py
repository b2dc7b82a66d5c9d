"""Statistics in place of rows: the same models, however the rows came, from batches, sites or Parquet files."""

import io
import json
import os
import pickle
import re
import tracemalloc
import warnings
import zipfile
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forms import MODELS, options_for
from scipy import sparse

from msmtfl import L12MTLCV, MSMTFL, MSMTFLCV, DirtyMTLCV, LassoMTLCV, Moments
from msmtfl._data.forms.dense import DenseRows, RowTask
from msmtfl._data.statistics.dealer import Dealer
from msmtfl._data.statistics.moment_data import MomentData
from msmtfl._data.statistics.parquet import ParquetRows
from msmtfl._data.statistics.task_moments import MomentTask, TaskMoments

N, D = 180, 8
FEATURES = [f"f{j}" for j in range(D)]
TASK = np.tile(["north", "south", "west"], N // 3)


def make_data(seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D))
    shared = np.array([2.0, 0, 0, -1.5, 0, 0, 0, 0.0])
    w = np.array([shared + (0.3 * rng.standard_normal(D)) * (shared != 0) for _ in range(3)])
    w[2, 5] = 1.0
    y = np.einsum("ij,ij->i", X, w[np.arange(N) % 3]) + 0.3 * rng.standard_normal(N) + 1.0
    return X + offset, y + offset


def weights(seed=1):
    """Some of them zero"""
    return np.random.default_rng(seed).uniform(0.1, 3.0, N) * (np.arange(N) % 11 > 0)


def batches(*arrays, size=50):
    for low in range(0, len(arrays[0]), size):
        yield tuple(None if array is None else array[low : low + size] for array in arrays)


def stream(X, y, task=TASK, weight=None, size=50):
    moments = Moments()
    for X_b, y_b, task_b, w_b in batches(
        X, y, np.asarray(task), np.ones(len(y)) if weight is None else weight, size=size
    ):
        moments.update(X_b, y_b, task=task_b, sample_weight=None if weight is None else w_b)
    return moments


def assert_same_fit(model, rows, atol=1e-12):
    np.testing.assert_array_equal(model.tasks_, rows.tasks_)
    np.testing.assert_array_equal(model.features_, rows.features_)
    np.testing.assert_allclose(model.coef_, rows.coef_, rtol=0, atol=atol)
    np.testing.assert_allclose(model.intercept_, rows.intercept_, rtol=atol, atol=10 * atol)
    np.testing.assert_array_equal(model.coef_ != 0, rows.coef_ != 0)
    assert model.objective_ == pytest.approx(rows.objective_, rel=1e-11)
    assert (model.n_stages_, model.converged_) == (rows.n_stages_, rows.converged_)
    for name in ("optimal", "unique", "monotone"):
        assert getattr(model.certificate_, name) == getattr(rows.certificate_, name)
    assert model.dual_gap_ <= 1e-10
    for name in ("n_samples_", "target_mean_", "target_sd_"):
        np.testing.assert_allclose(getattr(model, name), getattr(rows, name), rtol=1e-12)


def assert_equal_sums(a, b, rtol=1e-13):
    """Two Moments, relative to the lengths of the columns."""
    np.testing.assert_array_equal(np.sort(a.tasks), np.sort(b.tasks))
    for label in a.tasks.tolist():
        one, two = a[label], b[label]
        assert one.rows == two.rows
        assert one.n == pytest.approx(two.n, rel=1e-14)
        length, size = np.sqrt(np.where(two.xx.diagonal() > 0, two.xx.diagonal(), 1.0)), np.sqrt(two.yy) or 1.0
        np.testing.assert_allclose(one.xx / np.outer(length, length), two.xx / np.outer(length, length), atol=rtol)
        np.testing.assert_allclose(one.xy / (length * size), two.xy / (length * size), atol=rtol)
        assert one.yy == pytest.approx(two.yy, rel=rtol)
        np.testing.assert_allclose(one.mean, two.mean, rtol=1e-14, atol=1e-14)
        assert one.y_mean == pytest.approx(two.y_mean, rel=1e-14, abs=1e-14)


def assert_bit_equal(a, b):
    np.testing.assert_array_equal(a.tasks, b.tasks)
    np.testing.assert_array_equal(a.features, b.features)
    assert (a.named, a.form) == (b.named, b.form)
    for label in a.tasks.tolist():
        for name, value in vars(a[label]).items():
            if name == "levels":  # are not in files
                continue
            np.testing.assert_array_equal(value, getattr(b[label], name))


# ------------------------------------------------------------------ the same models

OPTIONS = options_for(D)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize(("model", "options"), MODELS)
def test_models_equal_those_fitted_to_rows(model, options, weighted):
    X, y = make_data()
    weight = weights() if weighted else None
    made = model(**OPTIONS[options]).fit_moments(stream(X, y, weight=weight))
    rows = model(**OPTIONS[options]).fit(X, y, task=TASK, sample_weight=weight)
    assert_same_fit(made, rows)
    np.testing.assert_allclose(made.predict(X, task=TASK), rows.predict(X, task=TASK), rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("model", [MSMTFLCV, LassoMTLCV, L12MTLCV, DirtyMTLCV])
@pytest.mark.parametrize("criterion", ["aic", "bic", "ebic"])
@pytest.mark.sampled(3)
def test_information_criteria_need_no_folds(model, criterion):
    X, y = make_data()
    options = {"lams": 10, "selection": criterion}
    made, rows = model(**options).fit_moments(stream(X, y)), model(**options).fit(X, y, task=TASK)
    assert made.best_point_ == rows.best_point_
    np.testing.assert_allclose(made.cv_results_[criterion], rows.cv_results_[criterion], rtol=1e-6)
    assert_same_fit(made, rows, atol=1e-10)


def test_a_single_task():
    X, y = make_data()
    moments = Moments()
    for X_b, y_b in batches(X, y):
        moments.update(X_b, y_b)
    model = MSMTFL().fit_moments(moments)
    assert model.coef_.shape == (D,)
    assert_same_fit(model, MSMTFL().fit(X, y))
    np.testing.assert_allclose(model.predict(X), MSMTFL().fit(X, y).predict(X))


@pytest.mark.parametrize("weighting", ["none", "rows", "cells"])
def test_one_x_for_all_tasks_some_values_missing(weighting):
    X, y = make_data()
    Y = np.column_stack([y, -y + X[:, 1], y**2])
    Y[:60, 1], Y[::3, 2] = np.nan, np.nan  # the first batches have nothing of task 1
    weight = {"none": None, "rows": weights(), "cells": np.column_stack([weights(s) for s in range(3)])}[weighting]
    rows = MSMTFL().fit(X, Y, sample_weight=weight)
    moments = Moments()
    for X_b, Y_b, w_b in batches(X, Y, np.ones(N) if weight is None else weight, size=45):
        moments.update(X_b, Y_b, sample_weight=None if weight is None else w_b)
    model = MSMTFL().fit_moments(moments)
    assert_same_fit(model, rows)
    np.testing.assert_allclose(model.predict(X), rows.predict(X), rtol=1e-10)
    named = Moments().update(X, pd.DataFrame(Y, columns=["b", "a", "c"]), sample_weight=weight)
    assert MSMTFL().fit_moments(named).tasks_.tolist() == ["b", "a", "c"]


def test_a_wide_batch_without_any_value():
    X, y = make_data()
    moments = Moments().update(X, np.column_stack([y, -y]))
    before = moments.copy()
    with pytest.warns(UserWarning, match="180 rows of y are wholly missing"):
        moments.update(X, np.full((N, 2), np.nan))
    assert_bit_equal(moments, before)


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_data_far_off_zero_lose_no_digits(offset):
    """Against exact rational arithmetic; rows are sorted, so that the means of batches differ."""
    rng = np.random.default_rng(0)
    X, y, weight = rng.standard_normal((60, 3)) + offset, rng.standard_normal(60) + offset, rng.uniform(0.1, 2.0, 60)
    X[:, 1] += np.arange(60) / 5
    for w in (np.ones(60), weight):
        exact = exact_sums(np.column_stack([X, y]), w)
        length = np.sqrt(exact.diagonal())
        for size in (1, 7, 30, 60):
            m = stream(X, y, np.zeros(60, dtype=int), w, size=size)[0]
            sums = np.block([[m.xx, m.xy[:, None]], [m.xy, m.yy]])
            np.testing.assert_allclose(sums / np.outer(length, length), exact / np.outer(length, length), atol=1e-14)


def exact_sums(A, w):
    A, w = [[Fraction(v) for v in row] for row in A.tolist()], [Fraction(v) for v in w.tolist()]
    mean = [sum(u * row[j] for u, row in zip(w, A, strict=True)) / sum(w) for j in range(len(A[0]))]
    centred = [[value - at for value, at in zip(row, mean, strict=True)] for row in A]
    k = range(len(A[0]))
    return np.array(
        [[float(sum(u * row[i] * row[j] for u, row in zip(w, centred, strict=True))) for j in k] for i in k]
    )


@pytest.mark.parametrize("options", ["default", "standardize"])
def test_models_on_data_far_off_zero(options):
    X, y = make_data(offset=1e6)
    centred = X - X[0]  # exact: they are close to each other
    moments = stream(X, y, weight=weights())
    model = MSMTFL(**OPTIONS[options]).fit_moments(moments)
    rows = MSMTFL(**OPTIONS[options]).fit(centred, y - 1e6, task=TASK, sample_weight=weights())
    np.testing.assert_allclose(model.coef_, rows.coef_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.predict(X, task=TASK), rows.predict(centred, task=TASK) + 1e6, atol=1e-8)


def test_everything_a_solver_may_ask_is_that_of_dense_rows():
    X, y = make_data(offset=3.0)
    X[:, 2], X[:, 4] = 0.1, 0.0
    for centre in (True, False):
        for weight in (None, weights() + 0.01):
            moments = stream(X, y, np.zeros(N, dtype=int), weight, size=37)
            one, dense = MomentTask(moments[0], centre), RowTask(DenseRows(X, weight, centre), y)
            length, size = np.where(dense.squares > 0, np.sqrt(dense.squares), 1.0), np.sqrt(dense.yy)
            w = np.where(dense.squares > 0, np.random.default_rng(0).standard_normal(D) * (np.arange(D) % 2), 0.0)
            some = np.array([1, 2, 7])

            def close(value, expected, unit):
                np.testing.assert_allclose(value / unit, expected / unit, rtol=0, atol=1e-12)

            assert one.order == dense.order
            np.testing.assert_array_equal(one.squares == 0, dense.squares == 0)
            close(one.squares, dense.squares, length**2)
            close(one.yy, dense.yy, size**2)
            close(one.c, dense.c, length * size)
            close(one.gram(), dense.gram(), np.outer(length, length))
            close(one.gram_rows(some, out=np.empty((3, D))), dense.gram_rows(some), np.outer(length[some], length))
            close(one.gradient(w), dense.gradient(w), length * size)
            close(one.loss(w), dense.loss(w), dense.loss(w))
            close(one.intercepts(w[None]), dense.intercepts(w[None]), 1.0)
            assert one.residual(w) is one.columns(some) is one.target is None


@pytest.mark.parametrize("value", [1.0, 0.1, 1e6 + 0.1, -1e-5])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_constant_columns_are_exactly_dead(value, weighted):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 3))
    X[:, 1] = value
    y = X[:, 0] + 0.1 * rng.standard_normal(len(X))
    weight = rng.uniform(0.1, 2.0, len(X)) if weighted else None
    moments = stream(X, y, np.zeros(len(X), dtype=int), weight, size=1000)
    task = MomentTask(moments[0], True)
    assert task.squares[1] == task.c[1] == 0.0
    assert not task.gram()[1].any()
    assert not task.gram()[:, 1].any()
    assert MSMTFL(lam=1e-9, standardize=True).fit_moments(moments).coef_[0, 1] == 0.0


def test_a_constant_target():
    X, _ = make_data()
    model = MSMTFL().fit_moments(stream(X, np.full(N, 0.1)))
    assert not model.coef_.any()
    np.testing.assert_allclose(model.intercept_, 0.1, rtol=1e-15)
    assert not model.target_sd_.any()


# ------------------------------------------------------------------ batches and sums


@pytest.mark.parametrize("seed", range(4))
def test_any_order_and_size_of_batches(seed):
    X, y = make_data(offset=10.0)
    weight = weights()
    rng = np.random.default_rng(seed)
    whole = Moments().update(X, y, task=TASK, sample_weight=weight)
    order = rng.permutation(N)
    cuts = np.sort(rng.choice(np.arange(1, N), 12, replace=False))
    parts = [
        Moments().update(X[some], y[some], task=TASK[some], sample_weight=weight[some])
        for some in np.split(order, cuts)
    ]
    left = Moments()
    for part in parts:
        left += part
    assert_equal_sums(left, whole)
    assert_equal_sums(sum(parts[::-1], Moments()), whole)
    tree = parts
    while len(tree) > 1:
        tree = [sum(tree[k : k + 2], Moments()) for k in range(0, len(tree), 2)]
    assert_equal_sums(tree[0], whole)
    assert_equal_sums(parts[0] + parts[1], parts[1] + parts[0], rtol=1e-15)
    others = sum((part for k, part in enumerate(parts) if k not in (3, 5)), Moments())
    assert_equal_sums(whole - parts[3] - parts[5], others, rtol=1e-12)


def test_a_sum_leaves_its_parts_alone():
    X, y = make_data()
    a, b = Moments().update(X[:90], y[:90], task=TASK[:90]), Moments().update(X[90:], y[90:], task=TASK[90:])
    before = pickle.loads(pickle.dumps((a, b)))
    _ = a + b, (a + b) - b, a.copy().update(X, y, task=TASK)
    assert_bit_equal(a, before[0])
    assert_bit_equal(b, before[1])
    total = a.copy()
    total += b
    total -= b
    assert_equal_sums(total, a)


def test_undoing_a_batch_gives_the_model_without_it():
    X, y = make_data(offset=1e4)
    moments = stream(X, y)
    rest = moments - Moments().update(X[:50], y[:50], task=TASK[:50])
    assert_same_fit(MSMTFL().fit_moments(rest), MSMTFL().fit(X[50:], y[50:], task=TASK[50:]), atol=1e-11)


def test_a_task_that_only_the_subtracted_rows_had_goes():
    X, y = make_data()
    one = Moments().update(X[:10], y[:10], task=["extra"] * 10)
    rest = (stream(X, y) + one) - one
    assert "extra" not in rest
    assert rest.tasks.tolist() == ["north", "south", "west"]
    assert_same_fit(MSMTFL().fit_moments(rest), MSMTFL().fit(X, y, task=TASK))
    assert len(one - one) == 0


def test_what_is_constant_in_the_rows_left_is_dead():
    X, y = make_data()
    X[:, 2], X[60:, 2] = X[:, 2] + 5.0, 5.1  # varies in the rows subtracted only
    rest = stream(X, y) - stream(X[:60], y[:60], TASK[:60])
    assert rest["north"].xx[2, 2] == 0.0
    for options in ({"lam": 0.01}, {"lam": 0.01, "standardize": True}):
        assert_same_fit(
            MSMTFL(**options).fit_moments(rest), MSMTFL(**options).fit(X[60:], y[60:], task=TASK[60:]), 1e-11
        )


def test_empty_batches_change_nothing():
    X, y = make_data()
    moments = stream(X, y)
    before = moments.copy()
    moments.update(X[:0], y[:0], task=TASK[:0])
    moments.update(pd.DataFrame(X[:0], columns=FEATURES), y[:0])
    moments += Moments()
    assert_bit_equal(moments, before)
    assert_bit_equal(Moments() + moments, before)
    assert_bit_equal(moments - Moments(), before)
    assert repr(Moments().update(X[:0], y[:0])) == "Moments(0 tasks, 0 rows, 0 features)"
    with pytest.raises(ValueError, match="hold no rows"):
        MSMTFL().fit_moments(Moments())


def test_a_task_that_comes_later():
    X, y = make_data()
    order = np.argsort(TASK, kind="stable")[::-1]  # west comes first
    moments = stream(X[order], y[order], TASK[order], size=25)
    assert moments.tasks.tolist() == ["west", "south", "north"]
    np.testing.assert_array_equal(moments.rows, [60, 60, 60])
    assert_same_fit(MSMTFL().fit_moments(moments), MSMTFL().fit(X, y, task=TASK))


def frame_of(kind):
    if kind == "pandas":
        return lambda X, names: pd.DataFrame(X, columns=names)
    return lambda X, names: pl.DataFrame({name: X[:, j] for j, name in enumerate(names)})


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("task_column", ["site", 0, None])
def test_columns_are_found_by_name(kind, task_column):
    X, y = make_data()
    rows = MSMTFL().fit(pd.DataFrame(X, columns=FEATURES), y, task=TASK)
    make, moments, rng = frame_of(kind), Moments(), np.random.default_rng(0)
    for k, (X_b, y_b, task_b) in enumerate(batches(X, y, TASK)):
        order = rng.permutation(D) if k else np.arange(D)
        table = make(X_b[:, order], [FEATURES[j] for j in order])
        if task_column is not None:
            columns = list(table.columns)
            at = 0 if task_column == 0 else 3
            table = (table.assign(site=task_b) if kind == "pandas" else table.with_columns(pl.Series("site", task_b)))[
                [*columns[:at], "site", *columns[at:]]
            ]
        moments.update(table, y_b, **({"task": task_b} if task_column is None else {"task_column": task_column}))
    assert moments.features.tolist() == FEATURES
    assert_same_fit(MSMTFL().fit_moments(moments), rows)


def test_moments_are_matched_by_name():
    X, y = make_data()
    order = np.random.default_rng(0).permutation(D)
    a = Moments().update(pd.DataFrame(X[:90], columns=FEATURES), y[:90], task=TASK[:90])
    b = Moments().update(pd.DataFrame(X[90:], columns=FEATURES)[[FEATURES[j] for j in order]], y[90:], task=TASK[90:])
    whole = Moments().update(pd.DataFrame(X, columns=FEATURES), y, task=TASK)
    assert_equal_sums(a + b, whole)
    assert_equal_sums((a + b) - b, a, 1e-12)
    folds = MSMTFLCV(lams=5).fit_moments([a, b])
    assert_same_fit(MSMTFL(folds.lam_, folds.theta_).fit_moments(whole), folds)


def test_arrays_after_tables_go_by_place_and_tables_name_arrays():
    X, y = make_data()
    table = pd.DataFrame(X, columns=FEATURES)
    for first, second in ((table[:90], X[90:]), (X[:90], table[90:])):
        moments = Moments().update(first, y[:90], task=TASK[:90]).update(second, y[90:], task=TASK[90:])
        assert moments.features.tolist() == FEATURES
        assert_same_fit(MSMTFL().fit_moments(moments), MSMTFL().fit(table, y, task=TASK))


@pytest.mark.parametrize("kind", [np.float32, np.int16, bool, object, "list", "sparse"])
def test_batches_of_other_types(kind):
    X, y = make_data()
    X = np.round(3.0 * X)
    X = X != 0 if kind is bool else X
    moments = Moments()
    for k, (X_b, y_b, task_b) in enumerate(batches(X, y, TASK)):
        other = {"list": lambda A: A.tolist(), "sparse": sparse.csc_array}.get(kind, lambda A: A.astype(kind))
        moments.update(other(X_b) if k % 2 else X_b.astype(float), y_b, task=task_b)
    assert_same_fit(MSMTFL().fit_moments(moments), MSMTFL().fit(X.astype(float), y, task=TASK))


@pytest.mark.parametrize(
    "labels",
    [
        np.tile([3, 1, 2], N // 3),
        np.tile([True, False, True], N // 3),
        np.tile(np.array([1, "a", 2.5], dtype=object), N // 3),
        np.tile(["2020-01", "2021-06", "2019-02"], N // 3).astype("datetime64[M]"),
        pd.Series(TASK).astype("string"),
        pl.Series(TASK),
    ],
    ids=["ints", "bools", "mixed", "months", "pandas strings", "polars"],
)
def test_labels_of_any_type(labels):
    X, y = make_data()
    moments = Moments()
    for some in (slice(0, 70), slice(70, N)):
        moments.update(X[some], y[some], task=labels[some])
    rows = MSMTFL().fit(X, y, task=labels)
    model = MSMTFL().fit_moments(moments)
    assert model.tasks_.tolist() == rows.tasks_.tolist()
    np.testing.assert_allclose(model.coef_, rows.coef_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.predict(X, task=labels), rows.predict(X, task=labels), rtol=1e-10)


def test_rows_without_weight_are_no_rows():
    X, y = make_data()
    weight = weights()
    weight[:40][TASK[:40] == "south"] = 0.0  # no row of it counts in the first batch
    moments = stream(X, y, weight=weight, size=30)
    np.testing.assert_array_equal(moments.rows, [int(((weight > 0) & (name == TASK)).sum()) for name in moments.tasks])
    assert moments.tasks.tolist() == ["north", "south", "west"]
    assert_same_fit(MSMTFL().fit_moments(moments), MSMTFL().fit(X, y, task=TASK, sample_weight=weight))


def test_a_task_without_any_weight_is_told():
    X, y = make_data()
    moments = stream(X, y, weight=np.where(TASK == "south", 0.0, 1.0))
    assert "south" not in moments
    with pytest.warns(UserWarning, match="'south' have no row that counts"):
        model = MSMTFL().fit_moments(moments)
    assert model.tasks_.tolist() == ["north", "west"]


# ------------------------------------------------------------------ what is refused

AT_3 = np.arange(30) == 3
# what is done to 30 rows, and the words it is refused with
BAD = {
    "fewer features": (lambda X, y, task: (X[:, :5], y, task), "has 5 features, the batches before had 8"),
    "rows of y": (lambda X, y, task: (X, y[:7], task), "rows but y has 7"),
    "rows of task": (lambda X, y, task: (X, y, task[:7]), "7 labels"),
    "NaN": (lambda X, y, task: (changed(X, np.nan), y, task), "NaN: column 'f4', row 3"),
    "infinite y": (lambda X, y, task: (X, np.where(AT_3, np.inf, y), task), "infinity: row 3"),
    "text": (lambda X, y, task: (changed(X, "blue"), y, task), "'f4' of X, row 3 holds 'blue'"),
    "no labels": (lambda X, y, task: (X, y, None), "no task labels, the batches before had task labels"),
    "wide": (lambda X, y, task: (X, np.column_stack([y, y]), None), "one column of y per task"),
    "no label": (lambda X, y, task: (X, y, np.where(AT_3, None, task)), "label missing in 1 row"),
    "too large": (lambda X, y, task: (changed(X, 1e200), y, task), "column 'f4' in task 'north' is too large"),
    "y too large": (lambda X, y, task: (X, y * 1e200, task), "y in task 'north' is too large"),
    "one-dimensional": (lambda X, y, task: (y, y, task), "Expected 2D"),
}


def changed(X, value):
    out = X.astype(object) if isinstance(value, str) else X.copy()
    out[3, 4] = value
    return out


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_batch_changes_nothing(bad):
    X, y = make_data()
    make, words = BAD[bad]
    moments = Moments().update(pd.DataFrame(X, columns=FEATURES), y, task=TASK)
    before = moments.copy()
    X_b, y_b, task_b = make(X[:30], y[:30], TASK[:30])
    if np.ndim(X_b) == 2 and X_b.shape[1] == D:
        X_b = pd.DataFrame(X_b, columns=FEATURES)
    with pytest.raises(ValueError, match=re.escape(words)):
        moments.update(X_b, y_b, task=task_b)
    assert_bit_equal(moments, before)
    good = (pd.DataFrame(X, columns=FEATURES), y, TASK)
    with pytest.raises(ValueError, match="batch 1: .*" + re.escape(words)):
        Moments.from_batches([good, (X_b, y_b, task_b)])
    with pytest.raises(ValueError, match="batch 1: .*" + re.escape(words)):
        Moments.from_batches([good, (X_b, y_b, task_b)], folds=2)


def test_other_columns_are_refused():
    X, y = make_data()
    table = pd.DataFrame(X, columns=FEATURES).assign(site=TASK)
    moments = Moments().update(table, y, task_column="site")
    before = moments.copy()
    cases = {
        r"lacks column\(s\) 'f2'; the batches before had 'f0'": table.drop(columns="f2"),
        r"has further column\(s\) 'age'": table.assign(age=1.0),
        r"lacks column\(s\) 'f2'": table.rename(columns={"f2": "F2"}),
        "task_column='site' is not a column": table.drop(columns="site"),
        "occurs more than once": pd.concat([table, table[["f1"]]], axis=1),
    }
    for words, batch in cases.items():
        with pytest.raises(ValueError, match=words):
            moments.update(batch, y, task_column="site")
    with pytest.raises(ValueError, match="not both"):
        moments.update(table, y, task_column="site", task=TASK)
    assert_bit_equal(moments, before)
    with pytest.raises(ValueError, match="'f2', 'g2' are in one of the two only"):
        moments + Moments().update(table.rename(columns={"f2": "g2"}), y, task_column="site")


def test_batches_must_have_two_to_four_parts():
    X, y = make_data()
    with pytest.raises(ValueError, match="batch 0 has 1 parts"):
        Moments.from_batches([(X,)])
    assert len(Moments.from_batches([])) == 0
    assert_equal_sums(Moments.from_batches(iter([(X, y, TASK, weights())])), stream(X, y, weight=weights()))


def test_only_moments_of_one_kind_add_up():
    X, y = make_data()
    moments = stream(X, y)
    with pytest.raises(TypeError, match="not with int"):
        moments + 1
    with pytest.raises(ValueError, match="no task labels, the batches before had task labels"):
        moments + Moments().update(X, y)
    for wrong in ([moments, "x"], [1, 2]):
        with pytest.raises(TypeError, match="expected Moments"):
            MSMTFLCV().fit_moments(wrong)
    with pytest.raises(ValueError, match="no Moments"):
        MSMTFLCV().fit_moments([])


def test_more_cannot_be_subtracted_than_was_added():
    X, y = make_data()
    moments = stream(X[:90], y[:90], TASK[:90])
    before = moments.copy()

    def refused(words, X, y, task, weight=None):
        with pytest.raises(ValueError, match=words):
            moments - Moments().update(X, y, task=task, sample_weight=weight)

    refused("task 'north': 60 rows cannot be taken from 30", X, y, TASK)
    refused("task 'east': 9 rows cannot be taken from 0", X[:9], y[:9], ["east"] * 9)
    refused("as many rows are subtracted as were added, but not the same", X[90:], y[90:], TASK[90:])
    refused("as many rows are subtracted as were added, but not the same", X[:90], y[:90] + 1e-3, TASK[:90])
    wider = X[:60] * np.where(np.arange(D) == 3, 9.0, 1.0)
    refused(r"column 'x3': more is subtracted than was added\. Were these rows", wider, y[:60], TASK[:60])
    refused("the target: more is subtracted", X[:60], 9.0 * y[:60], TASK[:60])
    refused("no weight is left for 10 row", X[:60], y[:60], TASK[:60], np.full(60, 1.5))
    refused("20 rows cannot be taken from 30", X[:60], y[:60], TASK[:60], np.full(60, 5.0))
    assert_bit_equal(moments, before)


def test_rows_never_added_show_in_their_products():
    """Every single column could have been; all of them together could not."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4))
    y = rng.standard_normal(400)
    copies = rng.standard_normal((300, 1)) * np.ones(4) * 0.9
    with pytest.raises(ValueError, match="more is subtracted than was added"):
        Moments().update(X, y) - Moments().update(copies, y[:300] * 0.9)


def test_digits_lost_in_a_subtraction_are_told():
    X, y = make_data()
    wild = X[:50].copy()
    wild[3, 2] = 1e6
    moments = stream(X, y) + Moments().update(wild, y[:50], task=TASK[:50])
    with pytest.warns(UserWarning, match="task 'north', column 'x2': so little is left of its spread"):
        moments - Moments().update(wild, y[:50], task=TASK[:50])


# ------------------------------------------------------------------ predicting


def test_predictions_need_no_rows():
    X, y = make_data()
    table = pd.DataFrame(X, columns=FEATURES).assign(site=TASK)
    rows = MSMTFL(task_column="site").fit(table, y)
    moments = Moments().update(table, y, task_column="site")
    model = MSMTFL(task_column="site").fit_moments(moments)
    assert model.feature_names_in_.tolist() == [*FEATURES, "site"]
    assert model.n_features_in_ == D + 1
    np.testing.assert_allclose(model.feature_importances_, rows.feature_importances_)
    np.testing.assert_allclose(model.predict(table), rows.predict(table), rtol=1e-12)
    assert model.score(table, y) == pytest.approx(rows.score(table, y), rel=1e-12)
    beside = MSMTFL().fit_moments(moments)
    np.testing.assert_allclose(beside.predict(table[FEATURES], task=TASK), rows.predict(table), rtol=1e-12)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[["site", *FEATURES[::-1]]])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


def test_a_task_column_by_place():
    X, y = make_data()
    A = np.insert(X.astype(object), 2, TASK, axis=1)
    moments = Moments()
    for A_b, y_b in batches(A, y):
        moments.update(A_b, y_b, task_column=2)
    rows, model = MSMTFL(task_column=2).fit(A, y), MSMTFL(task_column=2).fit_moments(moments)
    assert_same_fit(model, rows)
    np.testing.assert_allclose(model.predict(A), rows.predict(A), rtol=1e-12)
    np.testing.assert_allclose(model.feature_importances_, rows.feature_importances_, rtol=1e-12)


def test_a_refit_forgets_names():
    X, y = make_data()
    model = MSMTFL().fit(pd.DataFrame(X, columns=FEATURES), y, task=TASK)
    model.fit_moments(stream(X, y))
    assert not hasattr(model, "feature_names_in_")
    assert model.features_.tolist() == [f"x{j}" for j in range(D)]
    model.predict(X, task=TASK)


# ------------------------------------------------------------------ files


def quiet(moments, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        moments.save(path)


def test_files_are_read_back_bit_for_bit(tmp_path):
    X, y = make_data(offset=1e6)
    table = pd.DataFrame(X, columns=FEATURES)
    for k, labels in enumerate(
        (TASK, np.tile([3, 1, 2], N // 3), np.tile(np.array([1, "a", 2.5], dtype=object), N // 3))
    ):
        moments = Moments().update(table[:90], y[:90], task=labels[:90], sample_weight=weights()[:90])
        moments.update(table[90:], y[90:], task=labels[90:])
        moments.save(tmp_path / f"sums{k}")
        again = Moments.load(tmp_path / f"sums{k}")
        assert_bit_equal(again, moments)
        assert [type(label) for label in again.tasks.tolist()] == [type(label) for label in moments.tasks.tolist()]
        assert_bit_equal(again + again, moments + moments)
    wide = Moments().update(X, np.column_stack([y, -y]))
    wide.save(str(tmp_path / "wide.npz"))
    assert_bit_equal(Moments.load(str(tmp_path / "wide.npz")), wide)
    assert sorted(os.listdir(tmp_path)) == ["sums0", "sums1", "sums2", "wide.npz"]


def test_tasks_without_weight_are_remembered_in_files(tmp_path):
    X, y = make_data()
    stream(X, y, weight=np.where(TASK == "south", 0.0, 1.0)).save(tmp_path / "sums")
    with pytest.warns(UserWarning, match="'south' have no row that counts"):
        MSMTFL().fit_moments(Moments.load(tmp_path / "sums"))


def stored(path):
    with np.load(path) as file:
        return dict(file)


def with_head(path, **changes):
    arrays = stored(path)
    head = {**json.loads(str(arrays["head"])), **changes}
    np.savez(path, **{**arrays, "head": np.array(json.dumps({k: v for k, v in head.items() if v is not None}))})


def array_file(values):
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


DAMAGE = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-300]),
    "cut in half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("rows,n\n1,2\n"),
    "a pickle": lambda path: path.write_bytes(pickle.dumps({"head": 1})),
    "pickled objects": lambda path: np.savez(path, **{**stored(path), "yy": np.array([{}], dtype=object)}),
    "an array": lambda path: path.write_bytes(array_file(np.ones(3))),
    "another file": lambda path: np.savez(path, weights=np.ones(3)),
    "another format": lambda path: with_head(path, format="msmtfl-model"),
    "no format": lambda path: with_head(path, format=None),
    "a head that is no table": lambda path: np.savez(path, **{**stored(path), "head": np.array("[1, 2]")}),
    "a head that is no JSON": lambda path: np.savez(path, **{**stored(path), "head": np.array("{")}),
    "tasks that are none": lambda path: with_head(path, tasks=[[1], [2], [3]]),
    "fewer tasks": lambda path: with_head(path, tasks=["a"]),
    "no tasks": lambda path: with_head(path, tasks=None),
    "a shape": lambda path: np.savez(path, **{**stored(path), "xx": stored(path)["xx"][:, :3]}),
    "infinity": lambda path: np.savez(path, **{**stored(path), "yy": np.full(3, np.inf)}),
    "negated sums": lambda path: changed_sums(path, xx=lambda v: -v),
    "negated squares of y": lambda path: changed_sums(path, yy=lambda v: -v),
    "sums that differ with their order": lambda path: changed_sums(path, xx=lambda v: v + np.triu(v, 1)),
    "too much correlation": lambda path: changed_sums(path, xy=lambda v: 10 * v),
    "a negative direction": lambda path: changed_sums(
        path, xx=lambda v: v - 2 * v.diagonal(axis1=1, axis2=2).max() * ONES
    ),
    "a label twice": lambda path: with_head(path, tasks=["north", "south", "north"]),
    "labels that are equal": lambda path: with_head(path, tasks=[1, True, "a"]),
    "a label that is missing": lambda path: with_head(path, tasks=["north", "south", float("nan")]),
    "labels seen twice": lambda path: with_head(path, seen=["north", "north"]),
    "an unknown form": lambda path: with_head(path, form="tall"),
    "a single task of three": lambda path: with_head(path, form="single"),
    "names or not": lambda path: with_head(path, named="yes"),
    "a feature twice": lambda path: changed_sums(path, features=lambda v: np.full_like(v, "x0")),
    "no rows": lambda path: changed_sums(path, rows=lambda v: 0 * v),
    "rows that are floats": lambda path: changed_sums(path, rows=lambda v: v.astype(float)),
    "fewer rows than directions": lambda path: changed_sums(path, rows=lambda v: 0 * v + 2),
    "a negative weight": lambda path: changed_sums(path, n=lambda v: -v),
    "means that overflow": lambda path: changed_sums(path, mean=lambda v: v + 1e200),
    "corrections that are none": lambda path: changed_sums(path, low=lambda v: v + 1.0),
    "narrow sums": lambda path: changed_sums(path, xx=lambda v: v.astype(np.float32)),
    "complex sums": lambda path: changed_sums(path, xx=lambda v: v.astype(complex)),
    "columns first": lambda path: changed_sums(path, xx=np.asfortranarray),
    "something else": lambda path: np.savez(path, **stored(path), more=np.ones(3)),
    "a deep head": lambda path: changed_sums(path, head=lambda v: np.array("[" * 100_000)),
    "compressed": lambda path: np.savez_compressed(path, **stored(path)),
    "encrypted": lambda path: path.write_bytes(marked(path.read_bytes(), 8, 6, 1)),
    "packed by what nobody knows": lambda path: path.write_bytes(marked(path.read_bytes(), 10, 8, 97)),
    "members elsewhere": lambda path: path.write_bytes(marked(path.read_bytes(), 42, None, 0x7FFFFFFF)),
    "a header that is no Python": lambda path: path.write_bytes(repacked(path, b"'shape': (", b"'shape': ((")),
}
ONES = np.ones((D, D))


def changed_sums(path, **changes):
    arrays = stored(path)
    np.savez(path, **{**arrays, **{name: change(arrays[name]) for name, change in changes.items()}})


def marked(data, place, of_local, value):
    """An archive with another entry in its directory, and in front of its members."""
    out, size = bytearray(data), 4 if value > 2**16 else 2
    for sign, at in ((b"PK\x01\x02", place), (b"PK\x03\x04", of_local)):
        begin = out.find(sign)
        while at is not None and begin >= 0:
            out[begin + at : begin + at + size] = value.to_bytes(size, "little")
            begin = out.find(sign, begin + 4)
    return bytes(out)


def repacked(path, old, new):
    file = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(file, "w") as other:
        for name in archive.namelist():
            other.writestr(name, archive.read(name).replace(old, new))
    return file.getvalue()


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_refused(damage, tmp_path):
    X, y = make_data()
    path = tmp_path / "sums.npz"
    stream(X, y).save(path)
    DAMAGE[damage](path)
    with pytest.raises(ValueError, match=r"sums.npz is not a file of Moments, or is damaged"):
        Moments.load(path)


def test_negated_sums_are_not_certified(tmp_path):
    """Before the sums were looked at, a fit to these was all zeros, with a proof."""
    X, y = make_data()
    path = tmp_path / "sums.npz"
    stream(X, y).save(path)
    changed_sums(path, xx=lambda v: -v)
    with pytest.raises(
        ValueError, match=r"task 'north': column 'x0' has a negative sum of squares; no rows have such sums"
    ):
        Moments.load(path)


def test_a_small_file_of_statistics_cannot_fill_the_memory(tmp_path):
    path = tmp_path / "bomb.npz"
    head = {"format": "msmtfl-moments", "version": 1, "form": "long", "named": False, "tasks": [0], "seen": [0]}
    many = 3000
    np.savez_compressed(
        path, head=np.array(json.dumps(head)), features=np.arange(many).astype(str), xx=np.zeros((1, many, many))
    )
    assert path.stat().st_size < 200_000
    tracemalloc.start()
    with pytest.raises(ValueError, match="is compressed"):
        Moments.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


@pytest.mark.parametrize("seed", range(30))
def test_statistics_of_rows_are_always_read_back(seed, tmp_path):
    """Whatever the rows: none of the checks takes rounding for deceit."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 12))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-6, 7, d) + rng.choice([0, 0, 1, 1e6, -1e9], d)
    X[:, rng.integers(0, d)] = rng.choice([0.0, 1.0, 1e8])  # constant
    X[:, rng.integers(0, d)] = X[:, rng.integers(0, d)]  # twice
    y = rng.standard_normal(n) * 10.0 ** rng.integers(-5, 6) + rng.choice([0, 1e7])
    if rng.random() < 0.2:
        y[:] = rng.choice([0.0, 3.0])
    task, weight = rng.integers(0, 3, n), 10.0 ** rng.uniform(-8, 8, n) if rng.random() < 0.4 else None
    moments, size = Moments(), int(rng.integers(1, n + 1))
    for low in range(0, n, size):
        some = slice(low, low + size)
        x = sparse.csr_array(X[some]) if rng.random() < 0.2 else X[some]
        moments.update(x, y[some], task=task[some], sample_weight=None if weight is None else weight[some])
    if n > 4 and rng.random() < 0.3:
        with warnings.catch_warnings(), suppress(ValueError):
            warnings.simplefilter("ignore")
            moments = moments - Moments().update(
                X[:2], y[:2], task=task[:2], sample_weight=None if weight is None else weight[:2]
            )
    quiet(moments, tmp_path / "sums.npz")
    assert_bit_equal(Moments.load(tmp_path / "sums.npz"), moments)


def test_statistics_without_a_row_that_counts_are_read_back(tmp_path):
    X, y = make_data()
    moments = stream(X, y, weight=np.zeros(N))
    moments.save(tmp_path / "sums.npz")
    again = Moments.load(tmp_path / "sums.npz")
    assert len(again) == 0
    assert list(again.seen) == list(moments.seen)


def test_files_of_earlier_versions_are_read(tmp_path):
    """As numpy packs arrays."""
    X, y = make_data()
    moments = stream(X, y)
    moments.save(tmp_path / "sums.npz")
    np.savez(tmp_path / "old.npz", **stored(tmp_path / "sums.npz"))
    assert_bit_equal(Moments.load(tmp_path / "old.npz"), moments)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_statistics_are_not_read_from_pipes_and_devices(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "pipe"), ("/dev/zero", "device")):
        with pytest.raises(ValueError, match=f"it is a {kind}, not a file"):
            Moments.load(path)


def test_bytes_that_changed_are_found(tmp_path):
    X, y = make_data()
    path = tmp_path / "sums"
    stream(X, y).save(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="damaged"):
        Moments.load(path)


def test_files_of_newer_versions_are_refused(tmp_path):
    X, y = make_data()
    path = tmp_path / "sums.npz"
    stream(X, y).save(path)
    with_head(path, version=2)
    with pytest.raises(ValueError, match=r"version 2; this msmtfl reads 1\. Install a newer one"):
        Moments.load(path)
    with pytest.raises(FileNotFoundError):
        Moments.load(tmp_path / "absent")


def test_files_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    X, y = make_data()
    path = tmp_path / "sums"
    stream(X, y).save(path)
    before = path.read_bytes()
    months = np.tile(["2020-01", "2021-06", "2019-02"], N // 3).astype("datetime64[M]")
    with pytest.raises(TypeError, match="cannot be stored: use text or numbers"):
        stream(X, y, months).save(path)
    with pytest.raises(ValueError, match="no rows yet"):
        Moments().save(path)

    def fails(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        (stream(X, y) + stream(X, y)).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["sums"]


# ------------------------------------------------------------------ what leaves a site


def test_nothing_to_disclose(tmp_path):
    X, y = make_data()
    X[:, 3] = np.arange(N) % 2
    X[:, 4] = 1.0
    moments = stream(X, y)
    assert moments.disclosure() == []
    moments.save(tmp_path / "sums")  # warnings are errors here


def test_few_rows_are_told(tmp_path):
    X, y = make_data()
    moments = stream(X, y) + Moments().update(X[:9], y[:9], task=["clinic"] * 9)
    (words,) = moments.disclosure()
    assert words.startswith("task 'clinic' has 9 rows and 8 features")
    with pytest.warns(UserWarning, match="task 'clinic' has 9 rows"):
        moments.save(tmp_path / "sums")


@pytest.mark.parametrize("weight", [None, 0.01, 100.0])
@pytest.mark.parametrize(("ones", "told"), [(1, True), (5, True), (6, False), (54, False), (55, True), (59, True)])
def test_few_ones_are_told(ones, told, weight):
    X, y = make_data()
    X[:, 2] = 0.0
    X[np.flatnonzero(TASK == "south")[:ones], 2] = 1.0
    X[TASK != "south", 2] = np.arange(2 * N // 3) % 2
    moments = stream(X, y, weight=None if weight is None else np.full(N, weight))
    words = moments.disclosure()
    assert [("'south'" in line, "'x2'" in line) for line in words] == ([(True, True)] if told else [])


# ------------------------------------------------------------------ folds


def assignment(folds=3, seed=0):
    """Rows dealt out as `from_batches` does it."""
    dealer, out = Dealer(folds, seed), np.empty(N, dtype=int)
    for label in np.unique(TASK).tolist():
        out[label == TASK] = dealer.deal(label, int((label == TASK).sum()))
    return out


def pairs(fold):
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(fold.max() + 1)]


@pytest.mark.parametrize("size", [1, 7, 60, N])
def test_folds_do_not_depend_on_the_batches(size):
    X, y = make_data()
    fold, weight = assignment(), weights() + 0.01
    parts = Moments.from_batches(batches(X, y, TASK, weight, size=size), folds=3)
    for f, part in enumerate(parts):
        mine = fold == f
        assert_equal_sums(part, Moments().update(X[mine], y[mine], task=TASK[mine], sample_weight=weight[mine]))
    assert_equal_sums(sum(parts, Moments()), stream(X, y, weight=weight))


def test_folds_are_balanced_within_tasks_and_follow_the_seed():
    X, y = make_data()
    parts = Moments.from_batches(batches(X, y, TASK, size=17), folds=7)
    for part in parts:
        assert set(part.rows) <= {8, 9}  # of 60
    again = Moments.from_batches(batches(X, y, TASK, size=17), folds=7)
    other = Moments.from_batches(batches(X, y, TASK, size=17), folds=7, random_state=1)
    for part, same in zip(parts, again, strict=True):
        assert_bit_equal(part, same)
    assert any(abs(part["west"].yy - one["west"].yy) > 1e-3 for part, one in zip(parts, other, strict=True))
    for random_state in (None, np.random.RandomState(0)):
        assert len(Moments.from_batches([(X, y, TASK)], folds=2, random_state=random_state)) == 2
    assert len({tuple(assignment(seed=seed)) for seed in range(5)}) == 5


@pytest.mark.parametrize("folds", [0, 1, -2])
def test_at_least_two_folds(folds):
    with pytest.raises(ValueError, match="at least"):
        Moments.from_batches([], folds=folds)
    with pytest.raises(TypeError, match="folds must be an integer"):
        Moments.from_batches([], folds=2.0)


def test_a_row_of_a_wide_y_is_in_one_fold():
    X, y = make_data()
    Y = np.column_stack([y, -y, y**2])
    Y[::4, 2] = np.nan
    parts = Moments.from_batches(batches(X, Y, size=50), folds=3)
    for part in parts:
        np.testing.assert_array_equal(part[0].xx, part[1].xx)  # the same rows
        assert part[0].rows == 60
        assert part[2].rows == 45


@pytest.mark.parametrize("selection", ["min", "1se"])
@pytest.mark.parametrize("scoring", ["neg_nmse", "neg_mse", "neg_amse"])
def test_cross_validation_equals_that_of_rows(scoring, selection):
    X, y = make_data()
    fold, options = assignment(), {"lams": 12, "scoring": scoring, "selection": selection}
    made = MSMTFLCV(**options).fit_moments(Moments.from_batches(batches(X, y, TASK), folds=3))
    rows = MSMTFLCV(cv=pairs(fold), **options).fit(X, y, task=TASK)
    assert made.best_point_ == rows.best_point_
    assert made.n_splits_ == 3
    np.testing.assert_allclose(made.lams_, rows.lams_, rtol=1e-12)
    for name in ("mean_test_score", "se_test_score", "split1_test_score"):
        np.testing.assert_allclose(made.cv_results_[name], rows.cv_results_[name], rtol=1e-9)
    assert_same_fit(made, rows, atol=1e-11)


@pytest.mark.parametrize("model", [LassoMTLCV, L12MTLCV, DirtyMTLCV])
def test_cross_validation_of_the_other_models(model):
    X, y = make_data()
    options = {"lams": 8, "standardize": True, "lam_min_ratio": 0.05}
    made = model(**options).fit_moments(Moments.from_batches(batches(X, y, TASK), folds=3))
    rows = model(cv=pairs(assignment()), **options).fit(X, y, task=TASK)
    assert made.best_point_ == rows.best_point_
    np.testing.assert_allclose(made.cv_results_["mean_test_score"], rows.cv_results_["mean_test_score"], rtol=1e-7)
    assert_same_fit(made, rows, atol=1e-10)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_held_out_errors_by_hand(fit_intercept):
    X, y = make_data()
    weight, lams = weights() + 0.1, np.array([0.3, 0.1])
    parts = Moments.from_batches(batches(X, y, TASK, weight), folds=3)
    options = {"lams": lams, "thetas": [2.0, np.inf], "scoring": "neg_mse", "fit_intercept": fit_intercept}
    made = MSMTFLCV(**options).fit_moments(parts)
    for p, (lam, theta) in enumerate((lam, theta) for lam in lams for theta in (2.0, np.inf)):
        for f, (train, test) in enumerate(pairs(assignment())):
            model = MSMTFL(lam, theta, fit_intercept=fit_intercept)
            model.fit(X[train], y[train], task=TASK[train], sample_weight=weight[train])
            errors = (y[test] - model.predict(X[test], task=TASK[test])) ** 2
            for i, label in enumerate(["north", "south", "west"]):
                mine = TASK[test] == label
                w = weight[test][mine]
                assert made.cv_results_["test_mse"][p][f, i] == pytest.approx(w @ errors[mine] / w.sum(), rel=1e-10)
                assert made.cv_results_["test_weight"][p][f, i] == pytest.approx(w.sum(), rel=1e-12)
            total = weight[test] @ errors / weight[test].sum()
            assert made.cv_results_[f"split{f}_test_score"][p] == pytest.approx(-total, rel=1e-10)


def test_squared_errors_of_statistics():
    X, y = make_data(offset=5.0)
    weight, rng = weights() + 0.01, np.random.default_rng(0)
    W, b = rng.standard_normal((4, D)) * (rng.random((4, D)) < 0.5), rng.standard_normal(4)
    errors = TaskMoments.of(X, y, weight).squared_error(W, b)
    np.testing.assert_allclose(errors, [weight @ (y - X @ w - a) ** 2 for w, a in zip(W, b, strict=True)], rtol=1e-12)


def test_folds_may_be_sites():
    X, y = make_data()
    fold = np.repeat([0, 1, 2], N // 3)
    parts = [Moments().update(X[fold == f], y[fold == f], task=TASK[fold == f]) for f in range(3)]
    made = MSMTFLCV(lams=8).fit_moments(parts)
    assert made.best_point_ == MSMTFLCV(lams=8, cv=pairs(fold)).fit(X, y, task=TASK).best_point_
    before = [part.copy() for part in parts]
    MSMTFLCV(lams=8, n_jobs=2).fit_moments(tuple(parts))
    for part, old in zip(parts, before, strict=True):
        assert_bit_equal(part, old)


def test_a_task_that_a_fold_lacks():
    X, y = make_data()
    fold = assignment()
    fold[(TASK == "west") & (fold == 2)] = 0
    parts = [Moments().update(X[fold == f], y[fold == f], task=TASK[fold == f]) for f in range(3)]
    made = MSMTFLCV(lams=6).fit_moments(parts)
    rows = MSMTFLCV(lams=6, cv=pairs(fold)).fit(X, y, task=TASK)
    assert made.best_point_ == rows.best_point_
    assert np.isnan(made.cv_results_["test_mse"][0][2, 2])
    np.testing.assert_allclose(made.cv_results_["mean_test_score"], rows.cv_results_["mean_test_score"], rtol=1e-9)


def test_folds_that_cannot_be_used():
    X, y = make_data()
    fold = np.where(TASK == "west", 0, np.arange(N) % 2)
    parts = [Moments().update(X[fold == f], y[fold == f], task=TASK[fold == f]) for f in range(2)]
    with pytest.raises(
        ValueError, match=r"task\(s\) 'west' have all their rows in fold 0: nothing is left to train on"
    ):
        MSMTFLCV().fit_moments(parts)
    with pytest.raises(ValueError, match=r"at least 2 folds: .*folds=5"):
        MSMTFLCV().fit_moments(stream(X, y))
    with pytest.raises(ValueError, match="fold 2 holds no rows"):
        MSMTFLCV().fit_moments([stream(X, y), stream(X, y), Moments()])
    good = Moments.from_batches([(X, y, TASK)], folds=3)
    for scoring in ("r2", "neg_mean_absolute_error", lambda model, X, y: 0.0):
        with pytest.raises(ValueError, match="from statistics scoring must be one of neg_nmse, neg_amse, neg_mse"):
            MSMTFLCV(scoring=scoring).fit_moments(good)
    one = Moments.from_batches([(X[:4], y[:4], ["a", "a", "a", "b"])], folds=3)
    with (
        pytest.warns(UserWarning, match="single row"),
        pytest.raises(ValueError, match="'b' have all their rows in fold"),
    ):
        MSMTFLCV().fit_moments(one)


def test_a_task_with_a_single_row_is_warned_of_as_from_rows():
    X, y = make_data()
    labels = np.array(["a"] * 30 + ["b"])
    for fit in (
        lambda: MSMTFL().fit(X[:31], y[:31], task=labels),
        lambda: MSMTFL().fit_moments(Moments().update(X[:31], y[:31], task=labels)),
    ):
        with pytest.warns(UserWarning, match=r"1 task\(s\) have a single row \('b'\)"):
            fit()


@pytest.mark.parametrize("kind", ["update", "add", "file", "folds"])
def test_categories_keep_their_order_as_in_a_fit_to_rows(kind, tmp_path):
    X, y = make_data()
    labels = pd.Series(pd.Categorical(TASK, categories=["west", "nobody", *sorted({*TASK} - {"west"}, reverse=True)]))
    half = N // 2
    rows = MSMTFL().fit(X, y, task=labels)
    parts = [
        (X[:half], y[:half], labels[:half]),
        (X[half:], y[half:], labels[half:].astype(str)),
    ]  # order is remembered
    moments = Moments.from_batches(parts)
    if kind == "add":
        moments = Moments() + Moments().update(*parts[0][:2], task=parts[0][2]) + Moments.from_batches(parts[1:])
    elif kind == "file":
        moments.save(tmp_path / "m.npz")
        moments = Moments.load(tmp_path / "m.npz")
    elif kind == "folds":
        moments = Moments.from_batches(parts, folds=2)
    model = MSMTFL().fit_moments(moments)
    assert model.tasks_.tolist() == rows.tasks_.tolist()
    np.testing.assert_allclose(model.coef_, rows.coef_, atol=1e-10)


def test_models_without_folds_take_the_sum_of_them():
    X, y = make_data()
    model = MSMTFL().fit_moments(Moments.from_batches(batches(X, y, TASK), folds=3))
    assert_same_fit(model, MSMTFL().fit(X, y, task=TASK))
    assert MomentData([stream(X, y)], None).task_position is None


# ------------------------------------------------------------------ Parquet


def write(path, X, y, task=TASK, names=FEATURES, row_group_size=40, extra=None, **options):
    columns = {name: X[:, j] for j, name in enumerate(names)}
    table = pa.table({**columns, "y": y, **({} if task is None else {"site": task}), **(extra or {})})
    pq.write_table(table, path, row_group_size=row_group_size, **options)


@pytest.fixture
def folder(tmp_path):
    """Three files, one of them without rows; columns in another order in the last."""
    X, y = make_data()
    write(tmp_path / "a.parquet", X[:70], y[:70], TASK[:70])
    write(tmp_path / "b.parquet", X[:0], y[:0], TASK[:0].astype(str))
    order = np.random.default_rng(0).permutation(D)
    write(tmp_path / "c.parquet", X[70:][:, order], y[70:], TASK[70:], names=[FEATURES[j] for j in order])
    return tmp_path


def test_files_give_what_rows_in_memory_give(folder, monkeypatch):
    X, y = make_data()
    table = pd.DataFrame(X, columns=FEATURES)
    whole = Moments().update(table, y, task=TASK)
    monkeypatch.chdir(folder)
    files = ["a.parquet", folder / "b.parquet", str(folder / "c.parquet")]
    for path in (folder, str(folder), "*.parquet", str(folder / "?.par*"), files, tuple(files)):
        moments = Moments.from_parquet(path, "y", "site")
        assert_equal_sums(moments, whole)
        assert moments.features.tolist() == FEATURES
    assert_same_fit(MSMTFL().fit_moments(moments), MSMTFL().fit(table, y, task=TASK))
    first = Moments.from_parquet("a.parquet", "y", "site")
    assert_equal_sums(first, Moments().update(table[:70], y[:70], task=TASK[:70]))


@pytest.mark.parametrize("batch_rows", [1, 7, 64, 10_000])
def test_the_size_of_batches_does_not_matter(folder, batch_rows):
    X, y = make_data()
    options = {"target": "y", "task": "site"}
    whole = Moments.from_batches([(pd.DataFrame(X, columns=FEATURES), y, TASK)], folds=3)
    assert_equal_sums(Moments.from_parquet(folder, batch_rows=batch_rows, **options), sum(whole, Moments()))
    parts = Moments.from_parquet(folder, folds=3, batch_rows=batch_rows, **options)
    for part, expected in zip(parts, whole, strict=True):
        assert_equal_sums(part, expected)


def test_folds_of_files_follow_the_seed(folder):
    a, b, c = (Moments.from_parquet(folder, "y", "site", folds=2, random_state=seed)[0] for seed in (0, 0, 1))
    assert_bit_equal(a, b)
    assert abs(a["west"].yy - c["west"].yy) > 1e-3


def test_cross_validation_from_files(folder):
    X, y = make_data()
    made = MSMTFLCV(lams=10).fit_moments(Moments.from_parquet(folder, "y", "site", folds=3))
    rows = MSMTFLCV(lams=10, cv=pairs(assignment())).fit(pd.DataFrame(X, columns=FEATURES), y, task=TASK)
    assert made.best_point_ == rows.best_point_
    assert_same_fit(made, rows, atol=1e-11)


@pytest.mark.parametrize("kind", ["dictionary", "large_string", "int8", "int64", "bool", "float", "date32"])
def test_labels_of_any_type_in_files(tmp_path, kind):
    X, y = make_data()
    code = np.arange(N) % 2
    labels = {
        "dictionary": pa.array(np.array(["b", "a"])[code]).dictionary_encode(),
        "large_string": pa.array(np.array(["b", "a"])[code], pa.large_string()),
        "bool": pa.array(code == 1),
        "float": pa.array(code + 0.5),
        "date32": pa.array(code.astype(np.int32), pa.int32()).cast(pa.date32()),
    }.get(kind)
    labels = pa.array(code, kind) if labels is None else labels
    write(tmp_path / "a.parquet", X, y, labels)
    moments = Moments.from_parquet(tmp_path, "y", "site", batch_rows=33)
    assert moments.rows.tolist() == [90, 90]
    expected = Moments().update(X, y, task=code)
    for place, label in enumerate(moments.tasks.tolist()):  # the first row has code 0
        np.testing.assert_allclose(moments[label].xx, expected[place].xx, atol=1e-12)


def test_a_dictionary_with_a_label_twice(tmp_path):
    """Arrow allows it; and labels that no row has."""
    X, y = make_data()
    odd = pa.DictionaryArray.from_arrays(pa.array(np.arange(N) % 3, pa.int8()), pa.array(["a", "b", "a", "none"]))
    batch = pa.record_batch([pa.array(X[:, 0]), pa.array(y), odd], names=["f0", "y", "site"])
    write(tmp_path / "a.parquet", X[:, :1], y, names=["f0"])
    rows, labels = ParquetRows(tmp_path, "y", "site", None, None, None, 100)._rows(batch)
    assert labels == ["a", "b"]
    assert [(one.label, len(one.y)) for one in rows] == [("a", 120), ("b", 60)]


def test_columns_of_any_type_of_number(tmp_path):
    X, y = make_data()
    X = np.round(3.0 * X)
    kinds = [np.float32, np.float64, np.float16, np.int8, np.int32, np.int64, bool, np.uint8]
    X[:, 6], X[:, 7] = X[:, 6] != 0, np.abs(X[:, 7])
    columns = {name: X[:, j].astype(kind) for j, (name, kind) in enumerate(zip(FEATURES, kinds, strict=True))}
    pq.write_table(pa.table({**columns, "y": y.astype(np.float32), "site": TASK}), tmp_path / "a.parquet")
    moments = Moments.from_parquet(tmp_path, "y", "site")
    assert_equal_sums(moments, Moments().update(X, y.astype(np.float32).astype(float), task=TASK))


def test_float32_columns_lose_no_digits(tmp_path):
    """Far off zero, and so large that their sum is no float32 any more."""
    X, y = make_data()
    X = X.astype(np.float32)
    X[:, 1] += np.float32(1e6)
    X[:, 2] = np.where(np.arange(N) % 5, 3e38, 2e38)
    write(tmp_path / "a.parquet", X, y)
    for options in ({}, {"batch_rows": 17}):
        moments = Moments.from_parquet(tmp_path, "y", "site", **options)
        assert_equal_sums(moments, Moments().update(X.astype(float), y, task=TASK))


@pytest.mark.slow
def test_thousands_of_tasks_in_a_batch(tmp_path):
    rows = 12_000  # times three folds: more than 2**15
    task = np.random.default_rng(0).permutation(rows)
    pq.write_table(pa.table({"x": task, "y": task + 1, "site": task}), tmp_path / "a.parquet")
    ((parts, labels, count),) = ParquetRows(tmp_path, "y", "site", None, None, None, rows, Dealer(3, 0))
    assert len(parts) == len(labels) == count == rows
    assert all(one.label == one.X[0, 0] == one.y[0] - 1 for one in parts)
    assert {one.fold for one in parts} == {0, 1, 2}


def test_weights_and_chosen_features(tmp_path):
    X, y = make_data()
    weight = weights()
    weight[:40][TASK[:40] == "south"] = 0.0
    write(tmp_path / "a.parquet", X, y, extra={"w": weight, "note": ["text"] * N})
    chosen = ["f5", "f0", "f3"]
    moments = Moments.from_parquet(tmp_path, "y", "site", features=chosen, weight="w", batch_rows=20)
    assert moments.features.tolist() == chosen
    assert_equal_sums(moments, Moments().update(X[:, [5, 0, 3]], y, task=TASK, sample_weight=weight))
    parts = Moments.from_parquet(tmp_path, "y", "site", features=chosen, weight="w", batch_rows=20, folds=3)
    assert_equal_sums(sum(parts, Moments()), moments)
    write(tmp_path / "a.parquet", X, y, extra={"w": np.where(TASK == "south", 0, 1)})
    idle = Moments.from_parquet(tmp_path, "y", "site", weight="w", batch_rows=20)
    with pytest.warns(UserWarning, match="'south' have no row that counts"):
        MSMTFL().fit_moments(idle)


def test_a_single_task_in_files(tmp_path):
    X, y = make_data()
    write(tmp_path / "a.parquet", X, y, None)
    moments = Moments.from_parquet(tmp_path / "a.parquet", "y", batch_rows=50)
    model = MSMTFL().fit_moments(moments)
    assert_same_fit(model, MSMTFL().fit(pd.DataFrame(X, columns=FEATURES), y))
    parts = Moments.from_parquet(tmp_path, "y", folds=4)
    assert [part.rows.tolist() for part in parts] == [[45]] * 4


@pytest.mark.parametrize("kind", ["text", "ints", "dictionary"])
def test_rows_of_one_group_go_to_one_fold(tmp_path, kind):
    X, y = make_data()
    group = np.random.default_rng(0).integers(0, 30, N)
    labels = {"text": pa.array([f"p{g}" for g in group]), "ints": pa.array(group)}.get(kind)
    labels = pa.array([f"p{g}" for g in group]).dictionary_encode() if labels is None else labels
    write(tmp_path / "a.parquet", X, y, extra={"patient": labels})
    options = {"target": "y", "task": "site", "group": "patient", "folds": 3}
    parts = Moments.from_parquet(tmp_path, batch_rows=25, **options)
    of_group = Dealer(3, 0).of_groups([g if kind == "ints" else f"p{g}" for g in range(30)])
    fold = of_group[group]
    for f, part in enumerate(parts):
        mine = fold == f
        assert_equal_sums(part, Moments().update(X[mine], y[mine], task=TASK[mine]))
    for part, same in zip(parts, Moments.from_parquet(tmp_path, batch_rows=101, **options), strict=True):
        assert_equal_sums(part, same)


def test_groups_are_spread_over_folds():
    for names in (range(1000), [f"g{k}" for k in range(1000)], [f"patient-{k:05}" for k in range(1000)]):
        for folds in (2, 3, 5):
            counts = np.bincount(Dealer(folds, 0).of_groups(names), minlength=folds)
            assert counts.min() > 0.8 * 1000 / folds


# ------------------------------------------------------------------ Parquet that is refused


def refused(words, path, target="y", task="site", error=ValueError, **options):
    with pytest.raises(error, match=words):
        Moments.from_parquet(path, target, task, **options)


def nulls(values, at=5):
    return pa.array([None if k == at else v for k, v in enumerate(values.tolist())])


def test_missing_values_are_named(tmp_path):
    X, y = make_data()
    write(tmp_path / "a.parquet", X, y)
    cases = {
        "column 'f2' has 1 missing": {"f2": nulls(X[:, 2])},
        "column 'f2' in task 'west' holds a value that is not finite": {
            "f2": np.where(np.arange(N) == 5, np.nan, X[:, 2])
        },
        "column 'y' has 1 missing": {"y": nulls(y)},
        "y in task 'west' holds a value that is not finite": {"y": np.where(np.arange(N) == 5, np.inf, y)},
        "column 'site' is missing in 1 row": {"site": nulls(TASK)},
        "column 'site' holds a label that is missing": {"site": np.where(np.arange(N) == 5, np.nan, 1.0)},
        "column 'f2' holds string, not numbers": {"f2": TASK},
        "column 'f2' holds timestamp": {"f2": np.zeros(N, dtype="datetime64[s]")},
    }
    for words, change in cases.items():
        table = pq.read_table(tmp_path / "a.parquet")
        for name, values in change.items():
            table = table.set_column(table.column_names.index(name), name, pa.array(values))
        pq.write_table(table, tmp_path / "b.parquet")
        refused(rf"b\.parquet: {words}", tmp_path)
    write(tmp_path / "b.parquet", X, y, extra={"w": -np.ones(N), "g": nulls(TASK), "v": nulls(y)})
    refused(
        "b.parquet: column 'w' holds weights that are negative", tmp_path / "b.parquet", weight="w", features=["f1"]
    )
    refused("b.parquet: column 'v' has 1 missing", tmp_path / "b.parquet", weight="v", features=["f1"])
    refused("b.parquet: column 'g' is missing in 1 row", tmp_path / "b.parquet", group="g", features=["f1"], folds=2)


def test_missing_columns_and_files_are_named(folder):
    X, y = make_data()
    refused("no Parquet file", folder / "none", error=FileNotFoundError)
    refused("no Parquet file", str(folder / "*.csv"), error=FileNotFoundError)
    refused("absent.parquet is not a file", [folder / "absent.parquet"], error=FileNotFoundError)
    refused("no Parquet file", [], error=FileNotFoundError)
    refused(r"a\.parquet lacks column\(s\) 'score'; it has 'f0'", folder, target="score")
    refused(r"a\.parquet lacks column\(s\) 'school'", folder, task="school")
    refused(r"a\.parquet lacks column\(s\) 'age'", folder, features=["f1", "age"])
    write(folder / "d.parquet", X[:, :5], y, names=FEATURES[:5])
    refused(r"d\.parquet lacks column\(s\) 'f5', 'f6', 'f7'", folder)
    (folder / "d.parquet").unlink()
    refused("no column left that could be a feature", folder, features=[])
    refused("column name 'y' occurs more than once", folder, features=["f1", "y"])
    refused("column name 'f1' occurs more than once", folder, features=["f1", "f2", "f1"])
    refused("batch_rows must be at least 1", folder, batch_rows=0)
    refused("folds must be at least 2", folder, folds=1)


def test_further_columns_in_later_files_are_not_features(folder):
    X, y = make_data()
    before = Moments.from_parquet(folder, "y", "site")
    write(folder / "c.parquet", X[70:], y[70:], TASK[70:], extra={"note": ["text"] * 110})
    assert_equal_sums(Moments.from_parquet(folder, "y", "site"), before)


def test_corrupt_files_are_named(folder):
    good = (folder / "c.parquet").read_bytes()
    for content in (good[: len(good) // 2], good[:-5], b"", b"PAR1" + bytes(100) + b"PAR1", b"a,b\n1,2\n"):
        (folder / "c.parquet").write_bytes(content)
        refused(r"c\.parquet cannot be read as Parquet", folder)
        refused(r"c\.parquet cannot be read as Parquet", folder, folds=2)


def test_damage_in_the_middle_of_a_file_is_found(folder):
    X, y = make_data()
    write(folder / "c.parquet", X, y, compression="zstd", write_page_checksum=True)
    content = bytearray((folder / "c.parquet").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 200] = bytes(200)
    (folder / "c.parquet").write_bytes(bytes(content))
    refused(r"c\.parquet: ", folder)


def test_the_sum_of_squares_overflows(tmp_path):
    X, y = make_data()
    X[3, 2] = 1e200
    write(tmp_path / "a.parquet", X, y)
    refused(r"a\.parquet: column 'f2' in task 'north' is too large", tmp_path)


def test_memory_does_not_grow_with_the_file(tmp_path):
    """One row group of 24 MB in float32, 48 MB in float64."""
    rng, rows = np.random.default_rng(0), 60_000
    columns = {f"f{j}": rng.standard_normal(rows, dtype=np.float32) for j in range(100)}
    pq.write_table(
        pa.table({**columns, "y": columns["f0"], "site": np.arange(rows) % 2}),
        tmp_path / "a.parquet",
        row_group_size=rows,
        use_dictionary=False,
    )
    del columns
    held = []

    class Watched(ParquetRows):
        def _rows(self, batch):
            held.append(pa.total_allocated_bytes())
            return super()._rows(batch)

    before = pa.total_allocated_bytes()
    tracemalloc.start()
    for _ in Watched(tmp_path, "y", "site", None, None, None, 1000, Dealer(3, 0)):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(held) == 60
    assert peak < 5e6
    assert max(held) - before < 18e6


def test_progress_is_shown(folder, capsys, terminal):
    Moments.from_parquet(folder, "y", "site", verbose=True, batch_rows=50)
    assert "180/180 rows" in capsys.readouterr().err
