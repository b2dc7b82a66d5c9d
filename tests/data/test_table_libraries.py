"""Tables of every library give the same model: pandas, polars (eager and lazy), pyarrow, narwhals, a dict of columns."""

import decimal
import warnings

import numpy as np
import pytest

from msmtfl import MSMTFL, MSMTFLClassifier, MultiTaskAuto, compare_models, regularization_surface, stack_tasks

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

N = 90
RNG = np.random.default_rng(0)
COLUMNS = {
    "a": RNG.standard_normal(N),
    "b": RNG.integers(0, 5, N),
    "c": RNG.random(N) > 0.5,
    "town": np.tile(["x", "y", "z"], N // 3),
}
Y = 2 * COLUMNS["a"] + 0.3 * COLUMNS["b"] + 0.1 * RNG.standard_normal(N)
FRAME = pd.DataFrame(COLUMNS)


def narwhals_frame(given):
    return pytest.importorskip("narwhals").from_native(given)


TABLES = {
    "polars": lambda: pl.DataFrame(COLUMNS),
    "lazy polars": lambda: pl.LazyFrame(COLUMNS),
    "polars, categories": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("town").cast(pl.Categorical)),
    "polars, decimals": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("b").cast(pl.Decimal(10, 2))),
    "pyarrow": lambda: pa.table(COLUMNS),
    "pyarrow, dictionary": lambda: pa.table({**COLUMNS, "town": pa.array(COLUMNS["town"]).dictionary_encode()}),
    "pyarrow, decimals": lambda: pa.table({**COLUMNS, "b": pa.array([decimal.Decimal(int(b)) for b in COLUMNS["b"]])}),
    "pandas, categories": lambda: FRAME.astype({"town": "category"}),
    "pandas, nullable": lambda: FRAME.astype({"a": "Float64", "b": "Int64", "c": "boolean"}),
    "pandas, pyarrow": lambda: FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "narwhals": lambda: narwhals_frame(pl.DataFrame(COLUMNS)),
    "lazy narwhals": lambda: narwhals_frame(pl.LazyFrame(COLUMNS)),
    "dict": lambda: dict(COLUMNS),
    "dict of lists": lambda: {name: values.tolist() for name, values in COLUMNS.items()},
}


@pytest.mark.parametrize("name", TABLES)
def test_every_library_gives_the_coefficients_of_pandas(name):
    X = TABLES[name]()
    expected = MSMTFL(lam=0.05, task_column="town").fit(FRAME, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # polars warns of lazy frames whose columns are asked for
        model = MSMTFL(lam=0.05, task_column="town").fit(X, Y)
        found = model.predict(X)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.tasks_, expected.tasks_)
    np.testing.assert_array_equal(model.feature_names_in_, expected.feature_names_in_)
    np.testing.assert_array_equal(found, expected.predict(FRAME))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lazy polars", "pyarrow", "dict"])
def test_every_door_takes_them(name):
    X, options = TABLES[name](), {"task_column": "town"}
    surface = regularization_surface(X, Y, lams=4, **options)
    np.testing.assert_array_equal(surface.coef(3, 0), regularization_surface(FRAME, Y, lams=4, **options).coef(3, 0))
    names = ["lasso", "pooled ridge"]
    assert compare_models(X, Y, models=names, **options).best == compare_models(FRAME, Y, models=names, **options).best
    auto = MultiTaskAuto(models=names, **options).fit(X, Y)
    np.testing.assert_array_equal(auto.predict(X), auto.predict(FRAME))
    streamed = MSMTFL(lam=0.05, **options).partial_fit(X, Y).partial_fit(X, Y)
    np.testing.assert_allclose(streamed.predict(X), MSMTFL(lam=0.05, **options).fit(FRAME, Y).predict(FRAME))
    classes = MSMTFLClassifier(lam=0.05, theta=np.inf, **options).fit(X, Y > 1)
    np.testing.assert_array_equal(classes.predict_proba(X), classes.predict_proba(FRAME))


def test_targets_and_labels_of_pyarrow():
    X = {name: COLUMNS[name] for name in "ab"}
    wide = MSMTFL(lam=0.05).fit(pa.table(X), pa.table({"u": Y, "v": Y + COLUMNS["b"]}))
    assert wide.tasks_.tolist() == ["u", "v"]
    long = MSMTFL(lam=0.05).fit(pa.table(X), pa.chunked_array([Y]), task=pa.chunked_array([COLUMNS["town"]]))
    assert long.tasks_.tolist() == ["x", "y", "z"]
    stacked, _, _ = stack_tasks([pa.table(X), pa.table(X)], [Y, Y])
    assert stacked.shape == (2 * N, 2)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ({}, "no column"),
        ({"a": [1.0, 2.0], "b": [1.0]}, "'b' has 1 values and column 'a' has 2 values"),
        ({"a": 3.0}, r"column 'a' has shape \(\)"),
        ({"a": [1.0, 2.0], "b": ["u", "v"]}, "Column 'b' of X, row 0 holds 'u'"),
    ],
)
def test_dicts_that_are_no_tables(X, message):
    with pytest.raises(ValueError, match=message):
        MSMTFL(lam=0.1).fit(X, [1.0, 2.0])


def test_a_name_twice_in_a_table_of_pyarrow():
    X = pa.Table.from_arrays([pa.array([1.0, 2.0]), pa.array([1.0, 2.0])], names=["a", "a"])
    with pytest.raises(ValueError, match="'a' occurs more than once in X"):
        MSMTFL(lam=0.1).fit(X, [1.0, 2.0])
