"""Models are used through other packages as their own documentation has it, and give the same numbers there.

Packages that are not installed are skipped; `pip install --group interop` brings them all. MSMTFL_POSTGRES, the address of a
database (postgresql://...), has a PostgreSQL server run exported queries, too.
"""

from __future__ import annotations

import io
import os
import pickle
import shutil
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from msmtfl import (
    L12MTLCV,
    MSMTFL,
    DirtyMTL,
    LassoMTLCV,
    MSMTFLClassifier,
    PartialPooling,
    SharedMTL,
    TaskKFold,
)
from msmtfl.export import to_onnx, to_sql
from msmtfl.model_files import save_model

MODELS = [MSMTFL(0.05), DirtyMTL(), SharedMTL(), PartialPooling(), L12MTLCV(lams=4, cv=3), LassoMTLCV(lams=4, cv=3)]


def samples(n: int = 30) -> tuple[pd.DataFrame, np.ndarray]:
    """A table with the town among its columns, and targets that depend on `a` everywhere and on `b` in one town."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((3 * n, 4)), columns=list("abcd"))
    town = np.repeat(["north", "o'hara", "west"], n)
    y = 3.0 * table["a"] - table["c"] + (town == "west") * table["b"] + 0.3 * rng.standard_normal(3 * n)
    table.insert(1, "town", town)
    return table, y.to_numpy()


@pytest.fixture(scope="module")
def fitted() -> tuple[MSMTFL, pd.DataFrame, np.ndarray]:
    table, y = samples()
    return MSMTFL(0.05, task_column="town").fit(table, y), table, y


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("way", ["pickle", "joblib", "skops"])
def test_a_stored_model_predicts_the_same_to_the_bit(model, way):
    table, y = samples()
    model = sklearn.base.clone(model).set_params(task_column="town").fit(table, y)
    if way == "pickle":
        same = pickle.loads(pickle.dumps(model))
    elif way == "joblib":
        file = io.BytesIO()
        joblib.dump(model, file)
        file.seek(0)
        same = joblib.load(file)
    else:
        skops = pytest.importorskip("skops.io")
        stored = skops.dumps(model)
        foreign = [name for name in skops.get_untrusted_types(data=stored) if not name.startswith("msmtfl.")]
        assert not foreign
        same = skops.loads(stored, trusted=skops.get_untrusted_types(data=stored))
    assert same.predict(table).tobytes() == model.predict(table).tobytes()
    assert str(same.certificate_) == str(model.certificate_)


PYFUNC = """
import mlflow
from mlflow.pyfunc import PythonModel

class FromFile(PythonModel):
    def load_context(self, context):
        from msmtfl.model_files import load_model
        self.model = load_model(context.artifacts["model"])

    def predict(self, context, model_input, params=None):
        return self.model.predict(model_input)

mlflow.models.set_model(FromFile())
"""


@pytest.mark.slow
def test_mlflow_serves_a_model_file_as_pyfunc(fitted, tmp_path):
    """MLflow is given code and a model file, so that nothing is pickled."""
    pytest.importorskip("mlflow")
    model, table, _ = fitted
    save_model(model, tmp_path / "model.msmtfl")
    (tmp_path / "served.py").write_text(PYFUNC, encoding="utf-8")
    table.to_pickle(tmp_path / "table.pkl")
    run = """
import sys
from pathlib import Path
import mlflow.pyfunc, numpy, pandas
folder = Path(sys.argv[1])
artifacts = {"model": str(folder / "model.msmtfl")}
code = str(folder / "served.py")
mlflow.pyfunc.save_model(folder / "served", python_model=code, artifacts=artifacts, pip_requirements=["msmtfl"])
table = pandas.read_pickle(folder / "table.pkl")
numpy.save(folder / "found.npy", mlflow.pyfunc.load_model(str(folder / "served")).predict(table))
"""
    done = subprocess.run([sys.executable, "-c", run, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), model.predict(table))


# ------------------------------------------------------------------ where Python is not


def test_onnxruntime_predicts_what_the_model_predicts(fitted):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    model, table, _ = fitted
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = {"X": table[model.features_.tolist()].to_numpy(), "task": table["town"].to_numpy(dtype=object)}
    np.testing.assert_allclose(session.run(["prediction"], inputs)[0], model.predict(table), rtol=1e-12, atol=1e-12)


def test_duckdb_runs_the_query_on_a_data_frame(fitted):
    duckdb = pytest.importorskip("duckdb")
    model, table, _ = fitted
    new = pd.concat([table, table.iloc[:1].assign(town="elsewhere")], ignore_index=True)
    with duckdb.connect() as connection:
        connection.register("visits", new)
        found = connection.execute(to_sql(model, table="visits")).fetchnumpy()
    prediction = np.ma.filled(found["prediction"].astype(np.float64), np.nan)
    np.testing.assert_allclose(prediction[:-1], model.predict(table), rtol=1e-12, atol=1e-12)
    assert np.isnan(prediction[-1])  # a town that was not in the training data
    assert list(found) == [*table.columns, "prediction"]


@pytest.mark.skipif("MSMTFL_POSTGRES" not in os.environ, reason="set MSMTFL_POSTGRES to the address of a database")
def test_postgresql_runs_the_query(fitted):
    psql = shutil.which("psql")
    if psql is None:
        pytest.skip("psql is not installed")
    model, table, _ = fitted
    types = {name: "text" if name == "town" else "double precision" for name in table}
    columns = ", ".join(f'"{name}" {kind}' for name, kind in types.items())
    script = f"""CREATE TEMPORARY TABLE visits ({columns});
COPY visits FROM STDIN WITH (FORMAT csv);
{table.to_csv(index=False, header=False)}\\.
COPY ({to_sql(model, table="visits")}) TO STDOUT WITH (FORMAT csv);
"""
    done = subprocess.run(
        [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", os.environ["MSMTFL_POSTGRES"]],
        input=script,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = pd.read_csv(io.StringIO(done.stdout), header=None)
    np.testing.assert_allclose(found.iloc[:, -1], model.predict(table), rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------ packages around scikit-learn


def coded(table: pd.DataFrame) -> np.ndarray:
    """The table as numbers, the town's in column 0, as packages hand data on that know no tables."""
    return np.column_stack([np.unique(table["town"], return_inverse=True)[1], table.drop(columns="town")])


def test_mapie_makes_intervals_of_a_fitted_model_and_of_folds():
    mapie = pytest.importorskip("mapie.regression")
    table, y = samples(n=90)
    Z, folds = coded(table), TaskKFold(5, task_column=0, random_state=0)
    fit, rest, new = (np.arange(len(y)) % 3 == k for k in range(3))
    model = MSMTFL(0.05, task_column=0).fit(Z[fit], y[fit])
    split = mapie.SplitConformalRegressor(model, confidence_level=0.9, prefit=True).conformalize(Z[rest], y[rest])
    point, ends = split.predict_interval(Z[new])
    np.testing.assert_array_equal(point, model.predict(Z[new]))
    errors = np.sort(np.abs(y[rest] - model.predict(Z[rest])))
    rank = int(np.ceil(0.9 * (len(errors) + 1)))
    np.testing.assert_allclose(ends[:, 1, 0] - point, errors[rank - 1])
    cross = mapie.CrossConformalRegressor(model, confidence_level=0.9, cv=folds, method="base")
    point, ends = cross.fit_conformalize(Z, y).predict_interval(Z)
    errors = np.sort(np.abs(y - cross_val_predict(model, Z, y, cv=folds)))
    rank = int(np.ceil(0.9 * (len(errors) + 1)))
    np.testing.assert_allclose(ends[:, 1, 0] - point, errors[rank - 1])


@pytest.mark.slow
def test_shap_explains_every_task():
    """The values of a task's samples are w_j (x_j - mean of x_j), and add up to its predictions."""
    shap = pytest.importorskip("shap")
    table, y = samples()
    model = MSMTFL(0.05, task_column="town").fit(table, y)
    for i, town in enumerate(model.tasks_):
        own = table[table["town"] == town]
        X = own[model.features_.tolist()].to_numpy()
        masker = shap.maskers.Independent(X, max_samples=1000)
        explainer = shap.LinearExplainer((model.coef_[i], model.intercept_[i]), masker)
        values = explainer.shap_values(X)
        np.testing.assert_allclose(values, model.coef_[i] * (X - X.mean(axis=0)), atol=1e-12)
        np.testing.assert_allclose(values.sum(axis=1) + explainer.expected_value, model.predict(own))


# ------------------------------------------------------------------ scikit-learn's own tools


def test_partial_dependence_is_the_slope_of_the_tasks(fitted):
    model, table, _ = fitted
    found = partial_dependence(model, table, ["a"], grid_resolution=5, kind="both")
    grid, shares = found["grid_values"][0], table["town"].value_counts(normalize=True).reindex(model.tasks_)
    slope = np.diff(found["average"][0]) / np.diff(grid)
    np.testing.assert_allclose(slope, shares.to_numpy() @ model.coef_[:, 0])
    own = np.diff(found["individual"][0], axis=1) / np.diff(grid)
    of_sample = pd.Series(model.coef_[:, 0], index=model.tasks_).loc[table["town"]].to_numpy()
    np.testing.assert_allclose(own, np.repeat(of_sample[:, None], len(grid) - 1, axis=1))


def test_permutation_importance_finds_what_predicts(fitted):
    model, table, y = fitted
    found = permutation_importance(model, table, y, n_repeats=3, random_state=0).importances_mean
    assert table.columns[int(np.argmax(found))] == "a"
    unused = [
        table.columns.get_loc(name) for name, w in zip(model.features_, model.coef_.T, strict=True) if not w.any()
    ]
    assert not np.any(found[unused])


@pytest.mark.slow
def test_displays_draw_models_that_need_a_task_column(fitted):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot
    from sklearn.calibration import CalibrationDisplay
    from sklearn.inspection import DecisionBoundaryDisplay, PartialDependenceDisplay
    from sklearn.metrics import PredictionErrorDisplay, RocCurveDisplay
    from sklearn.model_selection import LearningCurveDisplay, ValidationCurveDisplay

    model, table, y = fitted
    folds = TaskKFold(3, task_column="town", random_state=0)
    dependence = PartialDependenceDisplay.from_estimator(
        model, table, ["a", "town", ("a", "c")], categorical_features=["town"], grid_resolution=5
    )
    bars = [bar.get_height() for bar in dependence.axes_[0, 1].patches]
    everywhere = [model.predict(table.assign(town=town)).mean() for town in model.tasks_]
    np.testing.assert_allclose(bars, everywhere)
    shown = PredictionErrorDisplay.from_estimator(model, table, y, subsample=None)
    np.testing.assert_array_equal(shown.y_pred, model.predict(table))
    learning = LearningCurveDisplay.from_estimator(
        model, table, y, cv=folds, train_sizes=[0.5, 1.0], shuffle=True, random_state=0, error_score="raise"
    )
    assert learning.test_scores.min() > 0.9
    curve = ValidationCurveDisplay.from_estimator(
        model, table, y, param_name="lam", param_range=[0.05, 10.0], cv=folds, error_score="raise"
    )
    assert curve.test_scores[0].min() > curve.test_scores[1].max()
    large = y + 3.0 * np.random.default_rng(1).standard_normal(len(y)) > 0
    classifier = MSMTFLClassifier(0.05, task_column="town").fit(table, large)
    assert RocCurveDisplay.from_estimator(classifier, table, large).roc_auc > 0.8
    np.testing.assert_array_equal(
        CalibrationDisplay.from_estimator(classifier, table, large).y_prob, classifier.predict_proba(table)[:, 1]
    )
    two = table[["a", "c"]].to_numpy()
    pooled = MSMTFLClassifier(0.05).fit(two, large)
    boundary = DecisionBoundaryDisplay.from_estimator(pooled, two, grid_resolution=9, response_method="predict")
    grid = np.column_stack([boundary.xx0.ravel(), boundary.xx1.ravel()])
    np.testing.assert_array_equal(boundary.response.ravel(), pooled.predict(grid))
    pyplot.close("all")


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_set_config_has_steps_hand_on_tables_with_the_task_column(output):
    pytest.importorskip(output)
    table, y = samples()
    given = table
    if output == "polars":
        import polars

        given = polars.from_pandas(table)
    steps = make_column_transformer(
        (StandardScaler(), list("abcd")), remainder="passthrough", verbose_feature_names_out=False
    )
    with sklearn.config_context(transform_output=output):
        pipe = make_pipeline(steps, MSMTFL(0.05, task_column="town")).fit(given, y)
        found = pipe.predict(given)
    assert pipe[-1].features_.tolist() == list("abcd")
    scaled = table.assign(**{name: (table[name] - table[name].mean()) / table[name].std(ddof=0) for name in "abcd"})
    alone = MSMTFL(0.05, task_column="town").fit(scaled, y)
    np.testing.assert_allclose(found, alone.predict(scaled))


def test_metadata_routing_reaches_the_searches_of_scikit_learn():
    table, y = samples()
    X, town = table.drop(columns="town").to_numpy(), table["town"].to_numpy()
    weight = np.where(np.arange(len(y)) % 2, 1.0, 0.25)
    with sklearn.config_context(enable_metadata_routing=True):
        model = MSMTFL().set_fit_request(task=True, sample_weight=True).set_predict_request(task=True)
        model.set_score_request(task=True, sample_weight=True)
        search = GridSearchCV(
            model, {"lam": [0.02, 5.0]}, cv=TaskKFold(3, task=town, random_state=0), error_score="raise"
        )
        search.fit(X, y, task=town, sample_weight=weight)
        found = search.best_estimator_.predict(X, task=town)
    alone = MSMTFL(search.best_params_["lam"]).fit(X, y, task=town, sample_weight=weight)
    np.testing.assert_array_equal(found, alone.predict(X, task=town))
    assert search.best_params_ == {"lam": 0.02}
