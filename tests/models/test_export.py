"""Exports predict what the model predicts: SQL is run in SQLite, ONNX graphs in its reference and in onnxruntime."""

from __future__ import annotations

import copy
import json
import re
import sqlite3
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Lasso

import msmtfl
from msmtfl import L12MTL, MSMTFL, DirtyMTL, LassoMTL
from msmtfl._estimators.baselines.ridge import RidgePerTaskCV
from msmtfl.export import to_onnx, to_sql

STRANGE = ["plain", 'quo"te', "two words", "ünï 東京", "</b>", "it's", "`tick`", "a]b", "-- x", "semi;colon"]
LABELS = ["o'hara", 'say "hi"', "東京; DROP TABLE t", "", "<b>"]


def data(d=6, m=3, n=20):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    return X, X @ rng.standard_normal(d) + task, task


def handmade(coef, names=None, labels=None, intercept=None, **parameters):
    """A fitted model with these coefficients (m, d)."""
    coef = np.asarray(coef, dtype=np.float64)
    m, d = coef.shape
    labels = np.arange(m) if labels is None else np.asarray(labels)
    X = np.random.default_rng(0).standard_normal((2 * m, d))
    model = RidgePerTaskCV(**parameters).fit(X, X[:, 0], task=np.repeat(labels, 2))
    order = [labels.tolist().index(label) for label in model.tasks_.tolist()]
    model.coef_ = coef[order]
    model.intercept_ = (np.zeros(m) if intercept is None else np.asarray(intercept, dtype=np.float64))[order]
    if names is not None:
        model.features_ = np.array(names, dtype=object)
    return model


def quoted(name, quote='"'):
    end = {"[": "]"}.get(quote, quote)
    return quote + name.replace(end, 2 * end) + end


def database(X, names, labels=None, kind="", column="task", table="t"):
    """A table of the features, and the label of every row."""
    connection = sqlite3.connect(":memory:")
    columns = [f"{quoted(name)} REAL" for name in names]
    rows = [list(map(float, row)) for row in X]
    if labels is not None:
        columns.append(f"{quoted(column)} {kind}")
        rows = [[*row, label] for row, label in zip(rows, labels, strict=True)]
    connection.execute(f"CREATE TABLE {quoted(table)} ({', '.join(columns)})")
    places = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO {quoted(table)} VALUES ({places})", rows)
    return connection


def last_column(connection, statement):
    return np.array([row[-1] for row in connection.execute(statement)], dtype=np.float64)


def close(one, other, X, coef):
    """Equal up to rounding of sums of products of this size."""
    return np.all(np.abs(one - other) <= 1e-14 * (1 + np.abs(X) @ np.abs(coef).max(axis=0)))


# ------------------------------------------------------------------ SQL


@pytest.mark.parametrize("cls", [MSMTFL, L12MTL, DirtyMTL, RidgePerTaskCV])
def test_sql_predicts_what_the_model_predicts(cls):
    X, y, task = data()
    labels = np.array(["a", "b", "c"])[task]
    model = cls().fit(X, y, task=labels)
    connection = database(X, model.features_, labels.tolist())
    assert close(
        last_column(connection, to_sql(model, table="t", task_column="task")),
        model.predict(X, task=labels),
        X,
        model.coef_,
    )
    expressions = to_sql(model)
    assert list(expressions) == ["a", "b", "c"]
    for label, expression in expressions.items():
        found = last_column(connection, f"SELECT {expression} FROM t")
        assert close(found, model.predict(X, task=[label] * len(X)), X, model.coef_)


@pytest.mark.parametrize("quote", ['"', "`", "["])
def test_names_and_labels_of_any_kind(quote):
    names = [name for name in STRANGE if quote != "[" or "]" not in name]  # SQLite cannot escape ]
    rng = np.random.default_rng(1)
    coef = rng.standard_normal((len(LABELS), len(names)))
    model = handmade(coef, names, LABELS)
    X, labels = rng.standard_normal((50, len(names))), np.array(LABELS, dtype=object)[np.arange(50) % len(LABELS)]
    connection = database(X, names, labels.tolist(), column='the "task"', table="my table")
    found = last_column(connection, to_sql(model, table="my table", task_column='the "task"', quote=quote))
    assert close(found, model.predict(X, task=labels), X, coef)
    assert connection.execute('SELECT count(*) FROM "my table"').fetchone() == (50,)


def test_a_bracket_is_escaped_as_sql_server_has_it():
    expression = to_sql(handmade([[1.0]], ["a]b"]), quote="[")[0]
    assert expression == "1.0e0 * [a]]b]"


@pytest.mark.parametrize(
    ("labels", "kind"),
    [([-3, 0, 2**62 + 1], "INTEGER"), ([0.5, -1.25, 1e300], "REAL"), ([False, True], "")],
    ids=["integers", "floats", "booleans"],
)
def test_labels_that_are_numbers(labels, kind):
    rng = np.random.default_rng(2)
    model = handmade(rng.standard_normal((len(labels), 2)), labels=labels)
    X, task = rng.standard_normal((12, 2)), [labels[k % len(labels)] for k in range(12)]
    found = last_column(database(X, ["x0", "x1"], task, kind), to_sql(model, table="t", task_column="task"))
    assert close(found, model.predict(X, task=task), X, model.coef_)


def test_numbers_are_exact_and_zeros_left_out():
    coef = [[-0.0, 5e-324, -1.7e308, 0.1 + 0.2, 1e-5, 0.0, -3.0]]
    expression = to_sql(handmade(coef, intercept=[-1 / 3]))[0]
    numbers = [float(text) for text in re.findall(r"-?[\d.]+e[+-]?\d+", expression)]
    assert numbers == [-1 / 3, 5e-324, -1.7e308, 0.1 + 0.2, 1e-5, -3.0]
    assert re.findall(r'"x\d"', expression) == ['"x1"', '"x2"', '"x3"', '"x4"', '"x6"']
    X = np.array([[1.0, 1e300, 1e-300, 3.0, 1e5, 7.0, 1.0]])
    found = last_column(database(X, [f"x{j}" for j in range(7)]), f"SELECT {expression} FROM t")
    assert np.allclose(found, X @ coef[0] - 1 / 3, rtol=1e-14, atol=0)
    assert to_sql(handmade([[0.0, -0.0]], intercept=[-0.0]))[0] == "0.0e0"


def test_five_thousand_features_do_not_nest_too_deeply():
    d, rng = 5000, np.random.default_rng(3)
    model = handmade(rng.standard_normal((2, d)), intercept=[1.0, 2.0])
    x = rng.standard_normal((1, d))
    connection = sqlite3.connect(":memory:")
    tables = []
    for begin in range(0, d, 1000):  # a table of SQLite has at most 2,000 columns
        names = range(begin, begin + 1000)
        connection.execute(f"CREATE TABLE t{begin} ({', '.join(f'x{j} REAL' for j in names)})")
        connection.execute(f"INSERT INTO t{begin} VALUES ({', '.join(repr(float(x[0, j])) for j in names)})")
        tables.append(f"t{begin}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100)
    for label, expression in to_sql(model).items():
        found = last_column(connection, f"SELECT {expression} FROM {', '.join(tables)}")
        assert close(found, model.predict(x, task=[label]), x, model.coef_)


@pytest.mark.slow
def test_hundreds_of_tasks_and_features():
    rng = np.random.default_rng(4)
    coef = rng.standard_normal((300, 200))
    model = handmade(np.where(rng.random(coef.shape) < 0.05, coef, 0.0))
    X, task = rng.standard_normal((40, 200)), rng.integers(0, 300, 40)
    connection = database(X, model.features_, task.tolist(), "INTEGER")
    found = last_column(connection, to_sql(model, table="t", task_column="task"))
    assert close(found, model.predict(X, task=task), X, model.coef_)


@pytest.mark.parametrize("task_column", ["school", 2])
def test_the_task_column_of_the_fit_is_the_default(task_column):
    X, y, task = data()
    table = pd.DataFrame(X, columns=list("abcdef"))
    table.insert(2, "school", task)
    model = LassoMTL(task_column=task_column).fit(table, y)
    connection = database(X, list("abcdef"), task.tolist(), "INTEGER", column="school")
    assert close(last_column(connection, to_sql(model, table="t")), model.predict(table), X, model.coef_)


@pytest.mark.filterwarnings("ignore::msmtfl._estimators.fitted.NewTaskWarning")
def test_labels_never_seen():
    model = handmade([[1.0], [3.0]], intercept=[0.0, 1.0], unknown_task="error")
    connection = database([[2.0], [2.0]], ["x0"], [1, 9], "INTEGER")
    statement = to_sql(model, table="t", task_column="task")
    assert [row[-1] for row in connection.execute(statement)] == [7.0, None]
    model.unknown_task = "mean"
    statement = to_sql(model, table="t", task_column="task")
    assert [row[-1] for row in connection.execute(statement)] == model.predict([[2.0], [2.0]], task=[1, 9]).tolist()


def test_one_task_without_labels_and_shared_rows():
    X, y, task = data()
    connection = database(X, [f"x{j}" for j in range(6)], task.tolist(), "INTEGER")
    model = LassoMTL().fit(X, y)
    assert close(last_column(connection, to_sql(model, table="t")), model.predict(X), X, model.coef_[None])
    assert list(to_sql(model)) == [0]
    Y = pd.DataFrame({"up": y, 'd"own': -y, "far": X[:, 0]})
    model = LassoMTL().fit(X, Y)
    found = connection.execute(to_sql(model, table="t"))
    assert [column[0] for column in found.description][-3:] == ["up", 'd"own', "far"]
    assert close(
        np.array(found.fetchall())[:, -3:].ravel(), model.predict(X).ravel(), np.repeat(X, 3, axis=0), model.coef_
    )
    connection.execute("ALTER TABLE t ADD COLUMN which TEXT DEFAULT 'far'")
    by_label = last_column(connection, to_sql(model, table="t", task_column="which"))
    assert close(by_label, model.predict(X)[:, 2], X, model.coef_)


def test_a_table_in_a_schema():
    model = handmade([[1.0]])
    assert to_sql(model, table=("my schema", "t"), task_column="task").endswith('FROM "my schema"."t"')


def test_a_missing_value_makes_no_prediction():
    connection = database([[1.0, 2.0]], ["x0", "x1"])
    connection.execute("UPDATE t SET x1 = NULL")
    assert connection.execute(f"SELECT {to_sql(handmade([[1.0, 1.0]]))[0]} FROM t").fetchone() == (None,)


def test_what_sql_cannot_say():
    model = handmade(np.ones((2, 1)), labels=["a", "b"])
    with pytest.raises(ValueError, match=r"pass task_column="):
        to_sql(model, table="t")
    with pytest.raises(ValueError, match=r"task_column= goes with table="):
        to_sql(model, task_column="a")
    with pytest.raises(ValueError, match=r"quote must be one of"):
        to_sql(model, quote="'")
    for name in ("", "a\0b"):
        with pytest.raises(ValueError, match="cannot be a name in SQL"):
            to_sql(handmade(np.ones((1, 1)), [name]))
    for label, quote in (("a\0", '"'), ("back\\slash", "`"), (10**30, '"'), (np.inf, '"')):
        strange = copy.copy(model)
        strange.tasks_ = np.array([label, "b"], dtype=object)
        with pytest.raises(ValueError, match=r"task label .* cannot be written in SQL"):
            to_sql(strange, table="t", task_column="task", quote=quote)
    for export in (to_sql, to_onnx):
        with pytest.raises(NotFittedError):
            export(MSMTFL())
        with pytest.raises(TypeError, match="only models of this package can be exported, got Lasso"):
            export(Lasso())


MEANS = {
    "poisson": lambda f, rng: rng.poisson(np.exp(f)).astype(float),
    "gamma": lambda f, rng: np.exp(f) * rng.gamma(2.0, 0.5, len(f)),
    "tweedie": lambda f, rng: np.where(rng.random(len(f)) < 0.3, 0.0, np.exp(f) * rng.gamma(2.0, 0.5, len(f))),
    "cox": lambda f, rng: np.column_stack([rng.exponential(np.exp(-f)), rng.random(len(f)) < 0.7]),
    "classes": lambda f, rng: np.where(f + rng.logistic(size=len(f)) > 0, "yes", "no"),
}


@pytest.mark.filterwarnings("ignore:task\\(s\\) 'n' were not in the training data")
@pytest.mark.parametrize("what", MEANS)
@pytest.mark.parametrize("family", ["MSMTFL", "L12MTL", "SharedMTL", "PartialPooling"])
def test_every_loss_is_exported(family, what):
    """Counts, amounts, hazards and two classes: what `predict` or `predict_proba` says, also of tasks not seen."""
    rng = np.random.default_rng(1)
    X, task = rng.standard_normal((120, 4)), np.repeat(["a", "b", "c"], 40)
    y = MEANS[what](X @ [0.5, -0.3, 0.0, 0.2] + 0.2, rng)
    options = {} if what == "classes" else {"loss": what}
    if family != "PartialPooling":
        options["unknown_task"] = "mean"
    made = getattr(msmtfl, family + "Classifier" * (what == "classes"))
    model = made(**({"k": 5.0} if family == "PartialPooling" else {}), **options).fit(X, y, task=task)
    if "unknown_task" in options:
        task[:5] = "n"
    expected = model.predict_proba(X, task=task)[:, 1] if what == "classes" else model.predict(X, task=task)
    table = pd.DataFrame(X, columns=model.features_).assign(place=task)
    with sqlite3.connect(":memory:") as connection:
        table.to_sql("t", connection, index=False)
        found = pd.read_sql(to_sql(model, table="t", task_column="place"), connection)["prediction"]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    onnx = pytest.importorskip("onnx.reference")
    (found,) = onnx.ReferenceEvaluator(to_onnx(model)).run(["prediction"], {"X": X, "task": task.astype(object)})
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("export", [to_sql, to_onnx])
def test_three_classes_and_offsets_are_refused_with_the_way_out(export):
    X, y, task = data()
    three = msmtfl.L12MTLClassifier(0.02).fit(X, np.digitize(y, [0.0, 1.0]), task=task)
    with pytest.raises(ValueError, match=r"one class against the others.*msmtfl predict"):
        export(three)
    counts = MSMTFL(0.1, loss="poisson").fit(X, np.abs(y), task=task, offset=np.ones(len(y)))
    with pytest.raises(ValueError, match="of other losses export a model of the same data without offset"):
        export(counts)


# ------------------------------------------------------------------ ONNX


def runs(proto, inputs):
    """The outputs of ONNX's reference and, where it is installed, of onnxruntime."""
    reference = pytest.importorskip("onnx.reference")
    inputs = {key: value.astype(object) if value.dtype.kind == "U" else value for key, value in inputs.items()}
    yield reference.ReferenceEvaluator(proto).run(None, inputs)[0]
    try:
        import onnxruntime
    except ImportError:
        return
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    yield session.run(None, inputs)[0]


@pytest.mark.parametrize(
    "labels",
    [["a", "東京", "o'hara"], [7, -1, 2**62 + 1], [0.5, -2.0, 1e300], np.array(["a", "b", "c"], dtype=object)],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::msmtfl._estimators.fitted.NewTaskWarning")
@pytest.mark.parametrize("unknown", ["error", "mean"])
def test_a_graph_with_labels(labels, unknown):
    pytest.importorskip("onnx")
    X, y, task = data()
    given = np.asarray(labels)[task]
    model = MSMTFL(unknown_task=unknown).fit(X, y, task=given)
    proto = to_onnx(model)
    new = given.copy()
    new[::7] = type(new.tolist()[0])(3) if new.dtype.kind != "O" else "3"
    for found in runs(proto, {"X": X, "task": given}):
        assert found.dtype == np.float64
        assert close(found, model.predict(X, task=given), X, model.coef_)
    for found in runs(proto, {"X": X, "task": new}):
        if unknown == "mean":
            assert close(found, model.predict(X, task=new), X, model.coef_)
        else:
            assert np.array_equal(np.isnan(found), np.arange(len(X)) % 7 == 0)


def test_a_graph_with_boolean_labels():
    pytest.importorskip("onnx")
    X, y, task = data()
    model = DirtyMTL().fit(X, y, task=task > 0)
    for found in runs(to_onnx(model), {"X": X, "task": task > 0}):
        assert close(found, model.predict(X, task=task > 0), X, model.coef_)


def test_graphs_without_labels():
    pytest.importorskip("onnx")
    X, y, _ = data()
    single, wide = LassoMTL().fit(X, y), L12MTL().fit(X, np.stack([y, X[:, 1]], axis=1))
    for found in runs(to_onnx(single), {"X": X}):
        assert close(found, single.predict(X), X, single.coef_[None])
    for found in runs(to_onnx(wide), {"X": X}):
        assert found.shape == (len(X), 2)
        assert close(found.ravel(), wide.predict(X).ravel(), np.repeat(X, 2, axis=0), wide.coef_)


def test_a_graph_says_what_goes_in():
    onnx = pytest.importorskip("onnx")
    X, y, task = data()
    table = pd.DataFrame(X, columns=[*"abcde", "ü"]).assign(school=task)
    proto = to_onnx(LassoMTL(task_column="school").fit(table, y))
    onnx.checker.check_model(proto, full_check=True)
    facts = {entry.key: json.loads(entry.value) for entry in proto.metadata_props}
    assert facts == {"features": [*"abcde", "ü"], "tasks": [0, 1, 2]}
    assert [entry.name for entry in proto.graph.input] == ["X", "task"]
    assert {node.domain for node in proto.graph.node} == {""}  # standard operators


def test_labels_that_onnx_cannot_hold():
    pytest.importorskip("onnx")
    for labels in (np.array([1, "a"], dtype=object), np.array([1, 10**30], dtype=object)):
        model = handmade(np.ones((2, 1)))
        model.tasks_ = labels
        with pytest.raises(ValueError, match=r"task labels .* do not fit into one type of ONNX"):
            to_onnx(model)


def test_without_onnx_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)  # as if it were not installed
    with pytest.raises(ImportError, match="to_onnx needs onnx: pip install onnx"):
        to_onnx(handmade(np.ones((2, 1))))


def test_labels_that_are_the_same_to_a_database_are_refused():
    """1 and '1': two tasks in Python, one in SQL."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 2)), rng.standard_normal(40)
    for pair in ([1, "1"], [1.5, "1.5"], [1, "1.0"], [True, "true"], [2, "2e0"]):
        model = LassoMTL(lam=0.1).fit(X, y, task=[pair[k % 2] for k in range(40)])
        with pytest.raises(ValueError, match=r"are the same in SQL.*without table="):
            to_sql(model, table="t", task_column="c")
        assert len(to_sql(model)) == 2
    fine = LassoMTL(lam=0.1).fit(X, y, task=[("1", "01", "1.0")[k % 3] for k in range(40)])
    assert to_sql(fine, table="t", task_column="c").count("WHEN") == 3
