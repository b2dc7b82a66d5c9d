"""The command on what goes wrong: ugly tables, extreme models, endless files, interrupts."""

import numpy as np
import pandas as pd
import pytest

from msmtfl import MSMTFL, MSMTFLClassifier
from msmtfl.model_files import save_model

testing = pytest.importorskip("typer.testing")
pytest.importorskip("pyarrow")
app = pytest.importorskip("msmtfl.cli").app

N = 90
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.standard_normal((N, 3)), columns=["a", "b", "c"])
TOWN = np.tile(["north", "south", "7"], N // 3)
Y = 2 * X["a"].to_numpy() - X["b"].to_numpy() + 0.3 * RNG.standard_normal(N)
TABLE = X.assign(town=TOWN, y=Y)


def run(*arguments, **options):
    result = testing.CliRunner().invoke(app, [str(argument) for argument in arguments], **options)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(*arguments, **options):
    result = run(*arguments, **options)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refused(*arguments, code=2, **options):
    result = run(*arguments, **options)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    return result.stderr.splitlines()[-1]


def written(table, path, **options):
    (table.to_parquet if path.suffix == ".parquet" else table.to_csv)(path, index=False, **options)
    return path


def predictions(model, data, tmp_path, *options):
    save_model(model, tmp_path / "model.msmtfl")
    done("predict", tmp_path / "model.msmtfl", data, "--out", tmp_path / "out.parquet", *options)
    return pd.read_parquet(tmp_path / "out.parquet")


# ------------------------------------------------------------------ one implementation of predictions


def extreme(model):
    """The model with log-odds of some hundreds: the probabilities of several classes are 1 to the last digit."""
    model.coef_ = model.coef_ * 1000.0
    return model


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("form", ["column", "labels", "wide", "single"])
def test_classes_predicted_by_the_command_are_those_of_the_model(classes, form, tmp_path):
    y = np.argsort(np.argsort(Y)) * classes // N
    data = written(TABLE, tmp_path / "data.csv")
    options = []
    if form == "column":
        model = extreme(
            MSMTFLClassifier(lam=0.05, theta=np.inf, task_column="town").fit(TABLE[["a", "town", "b", "c"]], y)
        )
        wanted, p = (getattr(model, name)(TABLE[["a", "town", "b", "c"]]) for name in ("predict", "predict_proba"))
    elif form == "labels":
        model = extreme(MSMTFLClassifier(lam=0.05, theta=np.inf).fit(X.to_numpy(), y, task=TOWN))
        model.features_ = np.array(["a", "b", "c"], dtype=object)
        wanted, p = (getattr(model, name)(X.to_numpy(), task=TOWN) for name in ("predict", "predict_proba"))
        options = ["--task", "town"]
    elif form == "wide":
        model = extreme(MSMTFLClassifier(lam=0.05, theta=np.inf).fit(X, np.column_stack([y, np.roll(y, 1)])))
        wanted, p = model.predict(X).ravel(), model.predict_proba(X)
        p = np.stack([1.0 - p, p], axis=-1) if classes == 2 else p
    else:
        model = extreme(MSMTFLClassifier(lam=0.05, theta=np.inf).fit(X, y))
        wanted, p = model.predict(X), model.predict_proba(X)
    found = predictions(model, data, tmp_path, *options)
    np.testing.assert_array_equal(found["prediction"].astype(int), wanted)
    columns = [f"probability[{k}]" for k in range(classes)]
    np.testing.assert_array_equal(found[columns], p.reshape(-1, classes))


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_numbers_predicted_by_the_command_are_those_of_the_model(loss, tmp_path):
    y = np.exp(0.3 * Y).round() if loss == "poisson" else Y
    data = written(TABLE, tmp_path / "data.csv")
    model = MSMTFL(lam=0.05, loss=loss, task_column="town").fit(TABLE[["a", "b", "town", "c"]], y)
    np.testing.assert_array_equal(
        predictions(model, data, tmp_path)["prediction"], model.predict(TABLE[["a", "b", "town", "c"]])
    )
    places = np.insert(X.to_numpy().astype(object), 1, TOWN, axis=1)
    by_place = MSMTFL(lam=0.05, loss=loss, task_column=1).fit(places, y)
    named = TABLE.rename(columns={"a": "x0", "b": "x2", "c": "x3"})
    found = predictions(by_place, written(named, tmp_path / "places.csv"), tmp_path, "--task", "town")
    np.testing.assert_array_equal(found["prediction"], by_place.predict(places))


def test_rows_without_predictions_and_new_tasks(tmp_path):
    model = MSMTFL(lam=0.05, task_column="town").fit(TABLE[["a", "town"]], Y)
    table = TABLE.copy()
    table.loc[4, "a"] = np.nan
    table.loc[7, "town"] = "new"
    found = predictions(
        model, written(table, tmp_path / "t.csv"), tmp_path, "--drop-missing", "--unknown-task", "mean"
    )["prediction"]
    assert np.flatnonzero(found.isna()).tolist() == [4]
    kept = table.drop(index=4)
    model.set_params(unknown_task="mean")
    np.testing.assert_array_equal(found.drop(index=4), model.predict(kept[["a", "town"]]))
