"""The front door: the same data in any accepted form give the same fit."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from msmtfl import MSMTFL, LassoMTL, stack_tasks
from msmtfl._data.tasks import read_training

NAMES = ["age", "bmi", "sex", "size", "dose"]


def long_data(seed=0):
    """Rows of three tasks in random order: X, y, labels."""
    rng = np.random.default_rng(seed)
    task = rng.permutation(np.repeat(["b", "a", "c"], [18, 25, 21]))
    X = rng.standard_normal((64, 5))
    slope = {"a": [2.0, -1.0, 0.0, 0.0, 0.0], "b": [1.0, -2.0, 0.0, 0.3, 0.0], "c": [3.0, 1.0, 0.0, 0.0, 0.2]}
    W = np.array([slope[label] for label in task])
    y = (X * W).sum(axis=1) + 0.3 * rng.standard_normal(64) + 1.0
    return X, y, task


def wide_data(missing=False, seed=1):
    """Shared X and Y (n, 3)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 5))
    Y = X[:, :3] + 0.3 * rng.standard_normal((40, 3)) + [0.0, 1.0, 2.0]
    if missing:
        Y[3:9, 0] = Y[20:25, 1] = Y[:2, 2] = np.nan
    return X, Y


def melt(X, Y, weight=None):
    """The long form of shared X and Y: X, y, labels, weights."""
    row, task = np.nonzero(~np.isnan(Y))
    order = np.lexsort((row, task))
    row, task = row[order], task[order]
    return X[row], Y[row, task], task, None if weight is None else weight[row, task]


def assert_same_fit(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=0, atol=tolerance * np.abs(b.coef_).max())
    np.testing.assert_allclose(a.intercept_, b.intercept_, rtol=0, atol=tolerance * np.abs(b.intercept_).max())
    assert a.n_stages_ == b.n_stages_


def table(X, task):
    return pd.DataFrame(X, columns=NAMES).assign(school=task)[["age", "school", "bmi", "sex", "size", "dose"]]


def objects(X, task):
    return np.insert(X.astype(object), 5, task, axis=1)


FORMS = {  # what fit gets: X, task_column, task
    "labels: array of strings": lambda X, t: (X, None, t),
    "labels: list": lambda X, t: (X, None, t.tolist()),
    "labels: pandas Series with an index of its own": lambda X, t: (X, None, pd.Series(t, index=np.arange(64) + 7)),
    "labels: pandas categorical": lambda X, t: (X, None, pd.Categorical(t)),
    "labels: polars Series": lambda X, t: (X, None, pl.Series(t)),
    "labels: polars categorical": lambda X, t: (X, None, pl.Series(t, dtype=pl.Categorical)),
    "pandas table beside labels": lambda X, t: (pd.DataFrame(X, columns=NAMES), None, t),
    "pandas table, name": lambda X, t: (table(X, t), "school", None),
    "pandas table, position": lambda X, t: (table(X, t), 1, None),
    "pandas table, position from the end": lambda X, t: (table(X, t), -5, None),
    "pandas table, categorical column": lambda X, t: (table(X, pd.Categorical(t)), "school", None),
    "polars table, name": lambda X, t: (pl.from_pandas(table(X, t)), "school", None),
    "polars table, position": lambda X, t: (pl.from_pandas(table(X, t)), 1, None),
    "polars table, position from the end": lambda X, t: (pl.from_pandas(table(X, t)), -5, None),
    "object array, position": lambda X, t: (objects(X, t), 5, None),
    "object array, position from the end": lambda X, t: (objects(X, t), -1, None),
    "nested lists, position": lambda X, t: (objects(X, t).tolist(), 5, None),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_fits_and_predicts_the_same(form):
    X, y, task = long_data()
    order = np.argsort(task, kind="stable")
    reference = MSMTFL().fit(X[order], y[order], task=task[order])
    X_given, column, labels = FORMS[form](X, task)
    model = MSMTFL(task_column=column).fit(X_given, y, task=labels)
    assert_same_fit(model, reference)
    assert model.tasks_.tolist() == ["a", "b", "c"]
    expected = (X * reference.coef_[np.searchsorted(reference.tasks_, task)]).sum(axis=1)
    expected += reference.intercept_[np.searchsorted(reference.tasks_, task)]
    np.testing.assert_allclose(model.predict(X_given, task=labels), expected, atol=1e-12)


def test_names_of_features_leave_the_task_column_out():
    X, y, task = long_data()
    for given in (table(X, task), pl.from_pandas(table(X, task))):
        assert MSMTFL(task_column="school").fit(given, y).features_.tolist() == NAMES


@pytest.mark.parametrize(
    "labels",
    [np.array([30, 10, 20]), np.array([3.0, 1.0, 2.0]), np.array([2, "north", 1.5], dtype=object)],
    ids=["ints", "floats", "mixed types"],
)
def test_labels_of_any_kind(labels):
    X, y, task = long_data()
    codes = np.searchsorted(["a", "b", "c"], task)
    reference = MSMTFL().fit(X, y, task=task)
    model = MSMTFL().fit(X, y, task=labels[codes])
    place = [model.tasks_.tolist().index(label) for label in labels.tolist()]
    np.testing.assert_allclose(model.coef_[place], reference.coef_, atol=1e-12)
    if len({type(label) for label in labels.tolist()}) == 1:
        assert model.tasks_.tolist() == sorted(labels.tolist())


def test_categories_keep_their_order_and_unused_ones_are_ignored():
    X, y, task = long_data()
    model = MSMTFL().fit(X, y, task=pd.Categorical(task, categories=["c", "nobody", "a", "b"]))
    assert model.tasks_.tolist() == ["c", "a", "b"]
    np.testing.assert_allclose(model.coef_, MSMTFL().fit(X, y, task=task).coef_[[2, 0, 1]], atol=1e-12)


def test_age_bands_made_by_pandas_cut():
    X, y, _ = long_data()
    band = pd.cut(pd.Series(np.linspace(11, 59, 64)), [0, 10, 30, 60])
    assert [str(label) for label in MSMTFL().fit(X, y, task=band).tasks_] == ["(10, 30]", "(30, 60]"]


def test_stack_tasks_equals_stacking_by_hand_bit_for_bit():
    X, y, task = long_data()
    Xs, ys = [X[task == label] for label in "bca"], [y[task == label] for label in "bca"]
    listed = stack_tasks(Xs, ys, labels=list("bca"))
    by_hand = np.vstack(Xs), np.concatenate(ys), np.repeat(list("bca"), [18, 21, 25])
    for got, expected in zip(listed, by_hand, strict=True):
        np.testing.assert_array_equal(got, expected)
    one, two = (MSMTFL().fit(X, y, task=task) for X, y, task in (listed, by_hand))
    assert one.coef_.tobytes() == two.coef_.tobytes()
    assert one.intercept_.tobytes() == two.intercept_.tobytes()
    assert stack_tasks(Xs, ys)[2].tolist() == [0] * 18 + [1] * 21 + [2] * 25


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
def test_stack_tasks_keeps_the_names_of_tables(kind):
    X, y, task = long_data()
    tables = [kind(pd.DataFrame(X[task == label], columns=NAMES)) for label in "abc"]
    stacked, y_stacked, labels = stack_tasks(tables, [y[task == label] for label in "abc"], labels=list("abc"))
    assert type(stacked) is type(tables[0])
    model = MSMTFL().fit(stacked, y_stacked, task=labels)
    assert model.features_.tolist() == NAMES
    assert_same_fit(model, MSMTFL().fit(X, y, task=task))


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "with NaN"])
def test_shared_features_equal_the_long_form(missing):
    X, Y = wide_data(missing)
    X_long, y, task, _ = melt(X, Y)
    model = MSMTFL().fit(X, Y)
    assert_same_fit(model, MSMTFL().fit(X_long, y, task=task))
    np.testing.assert_allclose(model.predict(X), X @ model.coef_.T + model.intercept_, atol=1e-12)
    np.testing.assert_allclose(
        model.predict(X, task=np.arange(40) % 3), model.predict(X)[np.arange(40), np.arange(40) % 3]
    )


NULLABLE = {
    "pandas": lambda Y: pd.DataFrame(Y, columns=["u", "v", "w"]),
    "pandas nullable": lambda Y: pd.DataFrame(Y, columns=["u", "v", "w"]).astype("Float64"),
    "polars": lambda Y: pl.DataFrame(Y, schema=["u", "v", "w"]).fill_nan(None),
}


@pytest.mark.parametrize("kind", NULLABLE)
def test_tables_of_targets_name_the_tasks(kind):
    X, Y = wide_data(missing=True)
    model, reference = MSMTFL().fit(X, NULLABLE[kind](Y)), MSMTFL().fit(X, Y)
    assert model.tasks_.tolist() == ["u", "v", "w"]
    assert_same_fit(model, reference)
    assert model.score(X, NULLABLE[kind](Y)) == pytest.approx(reference.score(X, Y))


def test_tasks_on_the_same_rows_share_one_gram():
    X, Y = wide_data()
    Y[4, 1] = np.nan
    first, other, third = read_training(X, Y).designs(centre=True)
    assert first.rows is third.rows
    assert first.gram() is third.gram()
    assert other.rows is not first.rows


def test_integer_weights_are_repeated_rows_and_zero_is_no_row():
    X, y, task = long_data()
    weight = np.random.default_rng(2).integers(0, 4, size=64)
    repeated = np.repeat(np.arange(64), weight)
    model = MSMTFL().fit(X, y, task=task, sample_weight=weight)
    assert_same_fit(model, MSMTFL().fit(X[repeated], y[repeated], task=task[repeated]))


def test_rows_of_weight_zero_may_hold_anything():
    X, y, task = long_data()
    weight = np.ones(64)
    weight[[5, 40]] = 0.0
    used = weight > 0
    y_with_outliers = np.where(used, y, 1e6)
    model = MSMTFL().fit(X, y_with_outliers, task=task, sample_weight=weight)
    assert_same_fit(model, MSMTFL().fit(X[used], y[used], task=task[used]))


def test_weights_per_row_and_task():
    X, Y = wide_data(missing=True)
    weight = np.random.default_rng(3).uniform(0.0, 2.0, size=Y.shape)
    weight[7] = 0.0
    X_long, y, task, long_weight = melt(X, Y, weight)
    model = MSMTFL().fit(X, Y, sample_weight=weight)
    assert_same_fit(model, MSMTFL().fit(X_long, y, task=task, sample_weight=long_weight))
    by_row = MSMTFL().fit(X, Y, sample_weight=weight[:, 0])
    assert_same_fit(by_row, MSMTFL().fit(X, Y, sample_weight=np.repeat(weight[:, :1], 3, axis=1)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.int64, np.uint16, bool])
def test_narrow_numbers_are_upcast(dtype):
    X, y, task = long_data()
    X, y = np.abs(10 * X).astype(dtype), (10 * y).astype(dtype)
    model = MSMTFL().fit(X, y, task=task)
    assert model.coef_.dtype == model.intercept_.dtype == model.predict(X, task=task).dtype == np.float64
    assert_same_fit(model, MSMTFL().fit(X.astype(float), y.astype(float), task=task))


def test_memory_order_matters_only_to_rounding():
    X, y, task = long_data()
    assert_same_fit(MSMTFL().fit(np.asfortranarray(X), y, task=task), MSMTFL().fit(X, y, task=task))


@pytest.mark.parametrize("order", ["C", "F"])
def test_sorted_rows_are_not_copied(order):
    X, y, task = long_data()
    by_task = np.argsort(task, kind="stable")
    X = np.array(X[by_task], order=order)
    data = read_training(X, y[by_task], task=task[by_task])
    for task_rows, design in zip(data.tasks, data.designs(centre=True), strict=True):
        assert np.shares_memory(task_rows.X, X)
        assert np.shares_memory(design.rows.X, X)


def test_fit_leaves_its_input_alone():
    X, y, task = long_data()
    X += 1e6
    weight = np.linspace(0.0, 2.0, 64)
    before = [np.copy(part) for part in (X, y, task, weight)]
    MSMTFL(standardize=True).fit(X, y, task=task, sample_weight=weight)
    for part, old in zip((X, y, task, weight), before, strict=True):
        np.testing.assert_array_equal(part, old)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9])
@pytest.mark.parametrize("where", ["abc", "b"], ids=["in all tasks", "in one task"])
def test_constant_columns_get_zero(value, where):
    X, y, task = long_data()
    still = np.isin(task, list(where))
    X[still, 1] = value
    model = LassoMTL(lam=0.01).fit(X, y, task=task)
    constant = np.isin(model.tasks_, list(where))
    assert (model.coef_[constant, 1] == 0.0).all()
    without = LassoMTL(lam=0.01).fit(np.delete(X, 1, axis=1), y, task=task)
    np.testing.assert_allclose(np.delete(model.coef_, 1, axis=1)[constant], without.coef_[constant], atol=1e-12)


@pytest.mark.parametrize("offset", [25.0, 1e6])
@pytest.mark.parametrize("columns", [[1], [0, 1, 2, 3, 4]], ids=["one column", "all columns"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_a_large_mean_costs_no_digits(offset, columns, weighted):
    X, y, task = long_data()
    weight = np.random.default_rng(4).uniform(0.5, 2.0, size=64) if weighted else None
    X[:, columns] += offset
    centred = X.copy()
    centred[:, columns] -= offset  # exact: X is already rounded
    model = LassoMTL(lam=0.02).fit(X, y, task=task, sample_weight=weight)
    reference = LassoMTL(lam=0.02).fit(centred, y, task=task, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.predict(X, task=task), reference.predict(centred, task=task), rtol=0, atol=1e-8)
