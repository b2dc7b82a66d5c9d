"""The commands that take tables: from a file to predictions, the same as by the API; bad input is refused in words."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import math
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from msmtfl import (
    L12MTL,
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    DirtyMTLCV,
    LassoMTL,
    LassoMTLCV,
    SharedMTL,
    SharedMTLCV,
    compare_models,
    regularization_surface,
)
from msmtfl.__main__ import main
from msmtfl._estimators.baselines.ridge import RidgePerTaskCV
from msmtfl._estimators.cross_fitted import lasso_points
from msmtfl.compare.run import default_models
from msmtfl.model_files import load_model, save_model

testing = pytest.importorskip("typer.testing")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
app = pytest.importorskip("msmtfl.cli").app

ROLES = ("--target", "y", "--task", "town")
OTHERS = "colour,id,patient,weight"
GIVEN = (*ROLES, "--exclude", OTHERS, "--lam", "0.1")
FEATURES = [f"f{j}" for j in range(5)]
TOWNS = ("007", "7", "Bonn", 'Köln, "West"')


def make(n=96):
    """Rows of all towns, in no order."""
    rng = np.random.default_rng(0)
    X, code = rng.standard_normal((n, len(FEATURES))), rng.permutation(n) % len(TOWNS)
    y = 2 * X[:, 0] - X[:, 1] + 0.5 * code * X[:, 2] + code + 0.3 * rng.standard_normal(n)
    others = {
        "town": np.array(TOWNS)[code],
        "y": y,
        "weight": rng.integers(1, 5, n) / 2,
        "patient": rng.integers(0, 30, n),
        "id": [f"r{i}" for i in range(n)],
        "colour": rng.choice(["blue", "green", "red"], n),
    }
    return pd.DataFrame(X, columns=FEATURES).assign(**others)


TABLE = make()
NEW = TABLE.sample(frac=0.5, random_state=1).reset_index(drop=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def data(folder):
    return written(TABLE, folder / "data.csv")


@pytest.fixture(scope="module")
def new(folder):
    return written(NEW, folder / "new.csv")


@pytest.fixture(scope="module")
def model(folder, data):
    """A model file with given parameters."""
    path = folder / "model.msmtfl"
    done("fit", data, *GIVEN, "--out", path)
    return path


def written(table, path, **options):
    (table.to_parquet if path.suffix == ".parquet" else table.to_csv)(path, index=False, **options)
    return path


def changed(path, column, row, value):
    """The table as CSV with another entry; rows are counted from 1."""
    table = TABLE.astype({column: object})
    table.loc[row - 1, column] = value
    return written(table, path)


def run(*arguments, **options):
    result = testing.CliRunner().invoke(app, [str(argument) for argument in arguments], **options)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(*arguments, **options):
    """What a command that succeeds writes to stdout; nothing may go to stderr."""
    result = run(*arguments, **options)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def refused(*arguments, said=(), code=2):
    """The message of a command that fails: on stderr, in one line, with nothing on stdout."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"msmtfl {arguments[0]}: ")
    for part in said:
        assert part in last
    return last


def predicted(model, data, *options):
    text = done("predict", model, data, *options)
    return pd.read_csv(io.StringIO(text), dtype={"task": str, "id": str})


def exact(source, *numbers):
    """A CSV with all digits of its columns of numbers; the others are text."""
    table = pd.read_csv(source, dtype=str)
    return table.assign(**{name: [float(text) for text in table[name]] for name in numbers})


def features_and_town(table, features=FEATURES):
    return table[[*features, "town"]]


# ------------------------------------------------------------------ the same as by the API


MODELS = {
    "bi-level": (MSMTFL, MSMTFLCV, {"lam": 0.1, "theta": 2.0, "lam_entry": 0.05, "theta_entry": 1.0}),
    "msmtfl": (MSMTFL, partial(MSMTFLCV, entry_shares=0), {"lam": 0.1, "theta": 2.0}),
    "lasso": (LassoMTL, LassoMTLCV, {"lam": 0.1}),
    "l12": (L12MTL, L12MTLCV, {"lam": 0.1, "theta": 2.0}),
    "dirty": (DirtyMTL, DirtyMTLCV, {"lam_s": 0.1, "lam_b": 0.2}),
    "shared": (SharedMTL, SharedMTLCV, {"lam_common": 0.2, "lam_deviation": 0.1, "theta": 0.5}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_cross_validated_fit_predicts_as_the_api_does(name, data, new, tmp_path):
    out = tmp_path / "model.msmtfl"
    folds = 5 if name == "lasso" else 2  # 5 unless told otherwise
    options = () if folds == 5 else ("--cv", folds)
    done("fit", data, *ROLES, "--exclude", OTHERS, "--model", name, *options, "--out", out)
    api = MODELS[name][1](task_column="town", standardize=True, random_state=0, cv=folds)
    expected = api.fit(features_and_town(TABLE), TABLE.y).predict(features_and_town(NEW))
    found = predicted(out, new)
    assert list(found.columns) == ["task", "prediction"]
    assert found.task.tolist() == NEW.town.tolist()
    np.testing.assert_allclose(found.prediction, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_fit_with_given_parameters_predicts_as_the_api_does(name, data, new, tmp_path):
    plain, _, given = MODELS[name]
    options = [part for key, value in given.items() for part in (f"--{key.replace('_', '-')}", value)]
    out = tmp_path / "model.json"
    done("fit", data, *ROLES, "--exclude", OTHERS, "--model", name, *options, "--no-standardize", "--out", out)
    api = plain(task_column="town", **given).fit(features_and_town(TABLE), TABLE.y)
    np.testing.assert_allclose(predicted(out, new).prediction, api.predict(features_and_town(NEW)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("theta", ["inf", "adaptive"])
def test_theta_may_be_a_word(theta, data, tmp_path):
    done("fit", data, *GIVEN, "--theta", theta, "--quiet", "--out", tmp_path / "m.json")
    value = float("inf") if theta == "inf" else theta
    api = MSMTFL(lam=0.1, theta=value, standardize=True, task_column="town").fit(features_and_town(TABLE), TABLE.y)
    assert load_model(tmp_path / "m.json").theta_ == api.theta_


def test_other_options_of_fit_reach_the_model(data, tmp_path):
    options = ("--selection", "1se", "--cv", 3, "--seed", 5, "--no-intercept", "--relax")
    done("fit", data, *ROLES, "--exclude", OTHERS, *options, "--quiet", "--out", tmp_path / "m.msmtfl")
    api = MSMTFLCV(
        task_column="town",
        standardize=True,
        selection="1se",
        cv=3,
        random_state=5,
        fit_intercept=False,
        relax=True,
    ).fit(features_and_town(TABLE), TABLE.y)
    found = load_model(tmp_path / "m.msmtfl")
    np.testing.assert_allclose(found.coef_, api.coef_, rtol=0, atol=1e-12)
    assert (found.lam_, found.theta_, found.n_splits_) == (api.lam_, api.theta_, 3)


def test_groups_and_weights_have_their_effect(data, tmp_path):
    both = ("--group", "patient", "--weight", "weight")
    done("fit", data, *ROLES, "--exclude", "colour,id", *both, "--quiet", "--out", tmp_path / "m.msmtfl")
    found = load_model(tmp_path / "m.msmtfl")
    assert found.features_.tolist() == FEATURES
    api = MSMTFLCV(task_column="town", standardize=True)
    groups = TABLE.patient.astype(str).to_numpy()
    api.fit(features_and_town(TABLE), TABLE.y, sample_weight=TABLE.weight, groups=groups)
    np.testing.assert_allclose(found.coef_, api.coef_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.best_score_, api.best_score_, rtol=1e-12)
    plain = MSMTFLCV(task_column="town", standardize=True).fit(features_and_town(TABLE), TABLE.y)
    assert np.abs(plain.coef_ - found.coef_).max() > 1e-6


def test_features_are_those_named_or_all_without_a_role(data, tmp_path):
    done("fit", data, *ROLES, "--features", "f3, f0,f3", "--lam", 0.1, "--quiet", "--out", tmp_path / "m.json")
    assert load_model(tmp_path / "m.json").features_.tolist() == ["f3", "f0"]
    roles = ("--weight", "weight", "--id", "id", "--exclude", "colour,f1")
    done("fit", data, *ROLES, *roles, "--lam", 0.1, "--quiet", "--out", tmp_path / "m.json")
    assert load_model(tmp_path / "m.json").features_.tolist() == ["f0", "f2", "f3", "f4", "patient"]


@pytest.mark.slow
def test_names_of_models_mean_the_same_in_fit_and_compare(data, tmp_path):
    for name, expected in default_models(standardize=True).items():
        options = ("--model", name, "--cv", 2, "--quiet")
        done("fit", data, *ROLES, "--exclude", OTHERS, *options, "--out", tmp_path / "m.json")
        found = load_model(tmp_path / "m.json")
        assert type(found) is type(expected)
        assert getattr(found, "entry_shares", None) == getattr(expected, "entry_shares", None)
        api = expected.set_params(task_column="town", cv=2).fit(features_and_town(TABLE), TABLE.y)
        np.testing.assert_allclose(found.coef_, api.coef_, rtol=0, atol=1e-12)
    done("fit", data, *ROLES, "--exclude", OTHERS, "--quiet", "--out", tmp_path / "m.json")
    assert load_model(tmp_path / "m.json").entry_shares is None  # bi-level unless told otherwise


def test_rows_with_the_same_features_are_noticed_and_kept_together(tmp_path):
    """Every row of two towns is a row of the other, too: the same patients."""
    half = TABLE[TABLE.town == TABLE.town[0]]
    table = pd.concat([half, half.assign(town="elsewhere", y=half.y + 0.1 * half.f0)], ignore_index=True)
    path = written(table, tmp_path / "twice.csv")
    fit = ("fit", path, *GIVEN[:-2], "--model", "lasso", "--cv", 3, "--json")
    compare = ("compare", path, *GIVEN[:-2], "--models", "ridge per task,pooled ridge", "--cv", 3, "--json")
    for command in (fit, compare):
        said = run(*command).stderr
        assert said.startswith(
            f"msmtfl {command[0]}: warning: 71% of the samples have the same features as a sample of"
        )
        assert "together with --group-identical, or name the column of units with --group. If" in said
        assert said.endswith("errors are of these items, and with --group-identical of new ones.\n")
        done(*command, "--group-identical")  # nothing on stderr
    refused(*fit, "--group-identical", "--group", "id", said=["--group and --group-identical: give one of them"])
    refused(*fit[:-3], "--lam", 0.1, "--group-identical", said=["--group-identical is about cross-validation"])


def test_a_comparison_as_json_says_what_is_clear_and_by_what(data):
    told = json.loads(done("compare", data, *GIVEN[:-2], "--models", "lasso,pooled lasso", "--cv", 3, "--json"))
    assert "other rows been drawn to train on" in told["se"]
    assert told["too_good"] == []
    rows = {row["model"]: row for row in told["models"]}
    assert rows["lasso"]["standing"] == "reference"
    assert rows["pooled lasso"]["standing"] in ("better", "worse", "not clear")
    assert {"better", "worse", "median_change", "se"} <= set(rows["pooled lasso"])
    assert told["way"] == "cross-validation"
    assert set(told["corrected"]["by_model"]) == {"lasso", "pooled lasso"}
    assert f"to expect on new data is {told['corrected']['best']:.3f}" in told["verdict"]


def test_the_command_nests_if_asked_to_and_says_so(data):
    given = (*GIVEN[:-2], "--models", "lasso,pooled lasso", "--cv", 2, "--nested")
    told = json.loads(done("compare", data, *given, "--json"))
    assert (told["way"], told["corrected"]) == ("nested cross-validation", None)
    assert "(nested cross-validation)" in done("compare", data, *given)
    refused("fit", data, *GIVEN[:-2], "--model", "lasso", "--nested", said=["--nested: not for lasso"])


@pytest.mark.slow
def test_compare_takes_all_models_by_default(tmp_path):
    small = written(TABLE[["f0", "f2", "town", "y"]], tmp_path / "small.csv")
    told = json.loads(done("compare", small, *ROLES, "--cv", 2, "--json"))
    assert {row["model"] for row in told["models"]} == set(default_models())


def test_an_id_is_never_a_feature(data):
    options = (*ROLES, "--exclude", "colour,patient,weight", "--id", "id")
    told = json.loads(done("compare", data, *options, "--models", "lasso,pooled lasso", "--cv", 2, "--json"))
    assert len(told["models"]) == 2
    points = pd.read_csv(io.StringIO(done("surface", data, *options, "--lams", 2, "--theta-ratios", "inf")))
    assert len(points) == 2


def test_compare_and_surface_give_what_the_api_gives(data, tmp_path):
    models = ("--models", "lasso,msmtfl")
    told = json.loads(done("compare", data, *GIVEN[:-2], *models, "--cv", 3, "--json", "--out", tmp_path / "by.csv"))
    api = compare_models(
        features_and_town(TABLE),
        TABLE.y,
        task_column="town",
        models=["lasso", "msmtfl"],
        cv=3,
        standardize=True,
    )
    assert told["best"] == api.best
    assert told["verdict"] == api.verdict()
    found = {row["model"]: row["nmse"] for row in told["models"]}
    np.testing.assert_allclose([found[name] for name in api.models], api.nmse, rtol=1e-12)
    shrunk = json.loads(done("compare", data, *GIVEN[:-2], *models, "--cv", 3, "--json", "--intercepts", "shrunk"))
    assert shrunk["models"] != told["models"]
    by_task = pd.read_csv(tmp_path / "by.csv", dtype={"task": str})
    assert len(by_task) == 2 * len(TOWNS)
    assert set(by_task.task) == set(TOWNS)
    rows = json.loads(done("surface", data, *GIVEN[:-2], "--lams", 3, "--theta-ratios", "2,inf", "--json"))
    surface = regularization_surface(
        features_and_town(TABLE), TABLE.y, task_column="town", lams=3, theta_ratios=[2, np.inf], standardize=True
    ).to_dict()
    assert len(rows) == 6
    for name in ("lam", "theta", "objective"):
        np.testing.assert_allclose([float(row[name]) for row in rows], surface[name], rtol=1e-12)
    assert rows[1]["theta"] == "inf"
    text = done("surface", data, *GIVEN[:-2], "--lams", 3, "--theta-ratios", "2,inf")
    np.testing.assert_array_equal(exact(io.StringIO(text), "lam").lam, surface["lam"])


@pytest.mark.filterwarnings("ignore:.*are constant within every task")
def test_real_tables_give_what_the_api_gives(tmp_path):
    place = os.environ.get("MSMTFL_DATA")
    if not place or not (Path(place) / "school.npz").exists():
        pytest.skip("no real data: set MSMTFL_DATA to the folder of school.npz")
    with np.load(Path(place) / "school.npz") as stored:
        some = stored["task"] < 20
        table = pd.DataFrame(stored["X"][some].astype(float), columns=[str(name) for name in stored["feature_names"]])
        table = table.assign(school=stored["task"][some], score=stored["y"][some]).sample(frac=1, random_state=0)
    path = written(table, tmp_path / "school.csv")
    done("fit", path, "-y", "score", "-t", "school", "--quiet", "--out", tmp_path / "m.msmtfl")
    X = table.drop(columns="score")
    with pytest.warns(UserWarning, match="'schoolgender_mixed', .* are constant within every task"):
        api = MSMTFLCV(task_column="school", standardize=True).fit(X, table.score)
    found = predicted(tmp_path / "m.msmtfl", path)
    np.testing.assert_allclose(found.prediction, api.predict(X), rtol=0, atol=1e-10)
    assert found.task.tolist() == [str(school) for school in table.school]


# ------------------------------------------------------------------ what is printed and written


def test_fit_speaks_to_people_or_to_programs(data, tmp_path):
    out = tmp_path / "m.msmtfl"
    text = done("fit", data, *GIVEN, "--out", out)
    for part in (
        "MSMTFL: 4 tasks, 96 rows, 5 features; lam = 0.1",
        "used by all 4 tasks",
        "solved:",
        f"model file: {out}",
    ):
        assert part in text
    assert "Nothing was written" in done("fit", data, *GIVEN)
    told = json.loads(done("fit", data, *GIVEN, "--theta", "inf", "--json", "--out", out))
    assert told["model"] == "MSMTFL"
    assert (told["lam"], told["theta"], told["tasks"], told["features"], told["rows"]) == (0.1, "inf", 4, 5, 96)
    assert sum(told["features_by_class"].values()) == 5
    assert told["converged"] is True
    assert told["dual_gap"] < 1e-8
    assert told["model_file"] == str(out)
    assert {"lam_max", "stopping_reason", "stages", "objective", "unique", "critical", "seconds"} <= set(told)
    searched = json.loads(done("fit", data, *GIVEN[:-2], "--json"))
    assert searched["model"] == "MSMTFLCV"
    assert -1 < searched["best_score"] < 0


def test_quiet_prints_nothing_but_errors(data, model, new, tmp_path):
    lonely = changed(tmp_path / "lonely.csv", "town", 1, "lonely")
    holes = changed(tmp_path / "holes.csv", "f0", 2, None)
    assert "single row" in run("fit", lonely, *GIVEN).stderr
    for command in (
        ("fit", lonely, *GIVEN, "--out", tmp_path / "q.msmtfl"),
        ("fit", holes, *GIVEN, "--drop-missing"),
        ("predict", model, holes, "--drop-missing", "--out", tmp_path / "p.csv"),
        ("inspect", model),
        ("compare", data, *GIVEN[:-2], "--models", "lasso,l12", "--cv", 2, "--out", tmp_path / "c.csv"),
        ("surface", data, *GIVEN[:-2], "--lams", 2, "--out", tmp_path / "s.csv"),
    ):
        result = run(*command, "--quiet")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    refused("fit", tmp_path / "absent.csv", *GIVEN, "--quiet", said=["no such file"])
    assert "task,prediction" in done("predict", model, new, "--quiet")  # without --out these are the result


def test_predictions_keep_all_digits_in_every_format(model, new, tmp_path):
    csv = exact(io.StringIO(done("predict", model, new)), "prediction")
    for ending in (".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".json", ".json.gz", ".parquet", ".csv.zst"):
        out = tmp_path / f"p{ending}"
        assert done("predict", model, new, "--out", out) == ""
        if ending == ".parquet":
            found = pd.read_parquet(out)
        elif ".json" in ending:
            found = pd.DataFrame(json.loads(gzip.decompress(out.read_bytes()) if ".gz" in ending else out.read_text()))
        else:
            source = io.BytesIO(pa.input_stream(out, compression="zstd").read()) if ".zst" in ending else out
            found = exact(source, "prediction")
        assert found.task.tolist() == csv.task.tolist()
        np.testing.assert_array_equal(found.prediction, csv.prediction)
    printed = json.loads(done("predict", model, new, "--json"))
    assert [row["prediction"] for row in printed] == csv.prediction.tolist()


def test_inspect_says_what_a_model_holds(model, tmp_path):
    text = done("inspect", model)
    for part in ("MSMTFL: 4 tasks, 96 rows", "solved:", "data: data.csv", "rows dropped: 0"):
        assert part in text
    told = json.loads(done("inspect", model, "--json"))
    assert told["provenance"]["user"]["columns"]["features"] == FEATURES
    done("inspect", model, "--quiet", "--coefficients", tmp_path / "c.csv", "--sql", tmp_path / "model.sql")
    coefficients = [f"coef[{town}]" for town in TOWNS]
    frame = exact(tmp_path / "c.csv", *coefficients)
    assert frame.feature.tolist() == FEATURES
    np.testing.assert_array_equal(frame[coefficients].to_numpy().T, load_model(model).coef_)
    assert (tmp_path / "model.sql").read_text().count("-- task") == len(TOWNS)
    done("inspect", model, "--quiet", "--coefficients", tmp_path / "c.parquet")
    assert pd.read_parquet(tmp_path / "c.parquet").feature.tolist() == FEATURES


def test_flags_of_json_are_what_the_certificate_says(tmp_path):
    X, task = TABLE[FEATURES].to_numpy(), TABLE["town"].to_numpy()
    models = {
        "not critical": MSMTFL(0.01, 0.2, max_stages=1),
        "zero": MSMTFL(1e6, 0.2),
        "converged": MSMTFL(0.1, 2.0),
        "not unique": LassoMTL(1e-3),
    }
    seen = set()
    for name, model in models.items():
        Z = np.column_stack([X, X[:, :1]]) if name == "not unique" else X
        fitted = model.fit(Z, TABLE["y"], task=task)
        save_model(fitted, tmp_path / "m.msmtfl")
        told = json.loads(done("inspect", tmp_path / "m.msmtfl", "--json"))
        proof = fitted.certificate_
        assert told["critical"] is (name != "not critical"), name
        assert told["critical"] is (proof.critical <= 1e-8)
        assert told["critical_residual"] == proof.critical
        assert told["unique"] is proof.unique is (name != "not unique")
        assert told["converged"] is fitted.converged_
        assert told["loss"] == "squared"
        seen.add((told["critical"], proof.critical == 0.0))
    assert {(False, False), (True, True), (True, False)} <= seen


def test_flags_of_surfaces_and_classes_are_flags(data, tmp_path):
    points = json.loads(done("surface", data, *ROLES, "--exclude", OTHERS, "--lams", 3, "--json"))
    assert {type(point[name]) for point in points for name in ("converged", "unique")} == {bool}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (MSMTFLCV(4, cv=2, entry_shares=0, theta_ratios=[1, np.inf]), "lasso"),
        (MSMTFLCV(4, cv=2, entry_shares=0.5, theta_ratios=[1, np.inf]), None),  # capped lassos: their theta is inf, too
        (MSMTFLCV(4, cv=2, entry_shares=1.0), None),
        (MSMTFLCV(4, cv=2, entry_shares=0, theta_ratios=[1, 4]), None),
        (L12MTLCV(4, cv=2), None),
        (DirtyMTLCV(4, cv=2), "lasso"),
        (DirtyMTLCV(4, cv=2, ratios=[1.0]), None),
        (SharedMTLCV(4, cv=2), "lasso"),
        (SharedMTLCV(4, cv=2, ratios=[1.0]), None),
        (LassoMTLCV(4, cv=2), "chosen"),
    ],
    ids=str,
)
def test_separate_lassos_are_named_where_the_grid_has_them(model, said, tmp_path):
    fitted = model.fit(TABLE[FEATURES].to_numpy(), TABLE["y"], task=TABLE["town"].to_numpy())
    save_model(fitted, tmp_path / "m.msmtfl")
    lines = done("inspect", tmp_path / "m.msmtfl").splitlines()
    place = next(k for k, one in enumerate(lines) if one.startswith("held-out nMSE: "))
    named = lines[place + 1].startswith("separate lassos: ")
    chosen = fitted.best_index_ in lasso_points(fitted)
    assert named == (said == "lasso" and not chosen)
    assert ("the point chosen is that of separate lassos" in lines) == chosen


def test_columns_that_differ_only_between_tasks_are_told(tmp_path):
    table = TABLE.assign(age=TABLE["town"].map(dict(zip(sorted(set(TABLE["town"])), (31, 40, 52, 77), strict=False))))
    path, out = written(table, tmp_path / "data.csv"), tmp_path / "m.msmtfl"
    result = run("fit", path, *GIVEN, "--features", ",".join([*FEATURES, "age"]), "--out", out)
    assert result.exit_code == 0, result.output
    assert "msmtfl fit: warning: feature(s) 'age' are constant within every task" in result.stderr
    for text in (result.stdout, done("inspect", out)):
        assert "NOT LEARNED: constant within every task, different between tasks: 'age'" in text
        assert "regress intercept_ on these columns" in text
    told = json.loads(done("inspect", out, "--json"))
    assert told["task_level_features"] == ["age"]
    assert told["features_by_class"]["constant"] == 1


def test_inspect_says_what_was_minimised(data, tmp_path):
    out = tmp_path / "m.msmtfl"
    done("fit", data, *GIVEN, "--loss", "huber", "--theta", "2", "--out", out)
    assert "minimise  Σᵢ 1/(m nᵢ) Σᵣ h(fᵣ − yᵣ)  +  λ Σⱼ min(‖wʲ‖₁, θ)" in done("inspect", out)


def test_ids_are_carried_in_the_order_of_the_rows(data, new, model, tmp_path):
    done("fit", data, *ROLES, "--exclude", OTHERS, "--id", "id", "--lam", 0.1, "--quiet", "--out", tmp_path / "m.json")
    found = predicted(tmp_path / "m.json", new)
    assert list(found.columns) == ["id", "task", "prediction"]
    assert found.id.tolist() == NEW.id.tolist()
    other = predicted(model, new, "--id", "patient")
    assert other.patient.tolist() == NEW.patient.tolist()
    assert found.prediction.tolist() == other.prediction.tolist()
    without = run("predict", tmp_path / "m.json", written(NEW.drop(columns="id"), tmp_path / "n.csv"))
    assert without.exit_code == 0
    assert "'id'" in without.stderr
    assert without.stdout.startswith("task,prediction")
    table = written(NEW.rename(columns={"id": "prediction"}), tmp_path / "taken.csv")
    refused("predict", model, table, "--id", "prediction", said=["taken.csv", "'prediction'", "rename"])


def test_ids_and_tasks_too_large_for_integers_stay_as_they_are(tmp_path):
    ids = [str(10**30 + i) for i in range(len(TABLE))]
    table = TABLE.assign(id=ids, town=[str(2**70 + i % 3) for i in range(len(TABLE))])
    path = written(table, tmp_path / "t.csv")
    done("fit", path, *GIVEN, "--id", "id", "--quiet", "--out", tmp_path / "m.msmtfl")
    found = predicted(tmp_path / "m.msmtfl", path)
    assert found.id.tolist() == ids
    assert found.task.tolist() == table.town.tolist()


def test_report_is_written_by_fit_and_from_a_model(data, model, tmp_path):
    pytest.importorskip("msmtfl.report", exc_type=ImportError)
    done("fit", data, *GIVEN, "--quiet", "--report", tmp_path / "fit.html")
    done("report", model, "--quiet", "--out", tmp_path / "model.html")
    for name in ("fit.html", "model.html"):
        assert " in 4 towns</title>" in (tmp_path / name).read_text(encoding="utf-8")


def test_every_model_of_the_command_has_a_report_with_its_rows(data, tmp_path):
    pytest.importorskip("msmtfl.report", exc_type=ImportError)
    options = ("--exclude", OTHERS, "--model", "pooled lasso", "--cv", "3", "--quiet")
    done("fit", data, *ROLES, *options, "--report", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>What predicts " in text
    assert "Every row is predicted by the model that was fitted without the row&#39;s fold" in text


# ------------------------------------------------------------------ kinds of tables


LABELS = {  # as given, and what the model calls them
    "ints": ([10, 1, 2], [1, 2, 10]),
    "texts": (["x", "10", "9", "007"], ["007", "10", "9", "x"]),
    "whole floats": ([10.0, 1.0, 2.0], [1, 2, 10]),
    "floats": ([10.0, 2.0, 0.5], [0.5, 2.0, 10.0]),
    "booleans": ([True, False], ["False", "True"]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_csv_and_parquet_give_the_same_model_and_predictions(kind, tmp_path):
    labels, expected = LABELS[kind]
    table = TABLE.assign(town=pd.Series([labels[i % len(labels)] for i in range(len(TABLE))]))
    paths = [written(table, tmp_path / "t.csv"), written(table, tmp_path / "t.parquet")]
    few = [written(table.iloc[[0, len(labels)]], tmp_path / f"few{path.suffix}") for path in paths]  # of one task
    models = [tmp_path / f"{path.suffix[1:]}.json" for path in paths]
    for path, out in zip(paths, models, strict=True):
        done("fit", path, *GIVEN, "--quiet", "--out", out)
    one, other = map(load_model, models)
    assert one.tasks_.tolist() == other.tasks_.tolist() == expected
    np.testing.assert_array_equal(one.coef_, other.coef_)
    first = predicted(models[0], paths[0]).prediction
    for out in models:
        for whole, part in zip(paths, few, strict=True):
            np.testing.assert_array_equal(predicted(out, whole).prediction, first)
            np.testing.assert_allclose(predicted(out, part).prediction, first[[0, len(labels)]], rtol=1e-13)


@pytest.mark.parametrize(
    ("ending", "pack"),
    [
        (".csv.gz", gzip.compress),
        (".csv.bz2", bz2.compress),
        (".csv.xz", lzma.compress),
        (".csv.zst", lambda text: pa.compress(text, codec="zstd", asbytes=True)),
    ],
)
def test_compressed_csv_is_read_and_damage_is_seen(ending, pack, data, model, tmp_path):
    packed = pack(data.read_bytes())
    good, cut, plain = (tmp_path / f"{name}{ending}" for name in ("good", "cut", "plain"))
    good.write_bytes(packed)
    cut.write_bytes(packed[: len(packed) // 2])
    plain.write_bytes(data.read_bytes())
    assert done("predict", model, good) == done("predict", model, data)
    for path in (cut, plain):
        refused("predict", model, path, said=[path.name, "cannot be read as CSV"])
    misnamed = tmp_path / "misnamed.csv"
    misnamed.write_bytes(packed)
    refused("predict", model, misnamed, said=["misnamed.csv", "compressed", f"end in {ending}"])


def test_csv_from_standard_input(data, model):
    assert done("predict", model, "-", input=data.read_bytes()) == done("predict", model, data)
    told = json.loads(done("fit", "-", *GIVEN, "--json", input=data.read_bytes()))
    assert told["rows"] == len(TABLE)


@pytest.mark.parametrize(
    ("encoding", "options"),
    [("utf-8-sig", ()), ("latin-1", ("--encoding", "latin-1")), ("utf-16", ("--encoding", "utf-16"))],
)
def test_byte_order_marks_and_encodings(encoding, options, data, model, tmp_path):
    first = TABLE[["town", *FEATURES]]  # a mark is before the name of the task column
    path = written(first, tmp_path / "t.csv", encoding=encoding)
    assert done("predict", model, path, *options) == done("predict", model, data)


def test_delimiters(data, model, tmp_path):
    for mark, option in ((";", ";"), ("\t", "\\t"), ("|", "|")):
        path = written(TABLE, tmp_path / "t.csv", sep=mark)
        assert done("predict", model, path, "--delimiter", option) == done("predict", model, data)
        found = run("predict", model, path)
        assert found.stdout == done("predict", model, data)
        assert "t.csv is read with delimiter" in found.stderr
    for option in ("", "||"):
        refused("predict", model, data, "--delimiter", option, said=["--delimiter must be one character"])


def test_names_may_hold_anything(tmp_path):
    names = {"f0": 'a "quoted" name', "f1": "two\nlines", "f2": "with, comma", "f3": "Größe", "f4": "<b>"}
    table = TABLE.rename(columns=names)
    path = written(table, tmp_path / "t.csv")
    done("fit", path, *ROLES, "--features", 'Größe,"with, comma",<b>', "--lam", 0.1)
    done("fit", path, *GIVEN, "--quiet", "--out", tmp_path / "m.msmtfl")
    assert load_model(tmp_path / "m.msmtfl").features_.tolist() == list(names.values())
    api = MSMTFL(lam=0.1, standardize=True, task_column="town").fit(features_and_town(TABLE), TABLE.y)
    expected = api.predict(features_and_town(TABLE))
    np.testing.assert_allclose(predicted(tmp_path / "m.msmtfl", path).prediction, expected, atol=1e-12)
    done("inspect", tmp_path / "m.msmtfl", "--coefficients", tmp_path / "c.csv", "--sql", tmp_path / "m.sql")
    assert pd.read_csv(tmp_path / "c.csv").feature.tolist() == list(names.values())


def test_blanks_around_names_and_values_do_not_count(data, model, tmp_path):
    plain = TABLE.replace({"town": {TOWNS[3]: "Köln"}})
    fields = [line.split(",") for line in plain.to_csv(index=False).splitlines()]
    path = tmp_path / "blanks.csv"
    path.write_text("\n".join(" , ".join(f" {one} " for one in line) for line in fields), encoding="utf-8")
    done("fit", path, *GIVEN, "--quiet", "--out", tmp_path / "blanks.json")
    done("fit", written(plain, tmp_path / "plain.csv"), *GIVEN, "--quiet", "--out", tmp_path / "plain.json")
    found, expected = load_model(tmp_path / "blanks.json"), load_model(tmp_path / "plain.json")
    assert found.tasks_.tolist() == expected.tasks_.tolist() == ["007", "7", "Bonn", "Köln"]
    assert found.features_.tolist() == FEATURES
    np.testing.assert_array_equal(found.coef_, expected.coef_)


def test_named_index_of_parquet_is_a_column_and_its_order_is_kept(model, data, tmp_path):
    shuffled = TABLE.sample(frac=1, random_state=3)
    path = tmp_path / "t.parquet"
    shuffled.to_parquet(path)
    found = predicted(model, path, "--id", "id")
    assert found.id.tolist() == shuffled.id.tolist()
    shuffled.set_index("id").to_parquet(path)
    again = predicted(model, path, "--id", "id")
    pd.testing.assert_frame_equal(found, again)


def test_numbers_of_many_kinds_are_numbers(tmp_path):
    kinds = {
        "flag": TABLE.f0 > 0,
        "count": pd.array([i % 7 for i in range(len(TABLE))], dtype="Int64"),
        "money": [Decimal(i) / 4 for i in range(len(TABLE))],
        "small": TABLE.f1.astype("float32"),
    }
    table = TABLE[["town", "y"]].assign(**kinds)
    for path in (written(table, tmp_path / "t.csv"), written(table, tmp_path / "t.parquet")):
        done("fit", path, *ROLES, "--lam", 0.1, "--quiet", "--out", tmp_path / "m.json")
        assert load_model(tmp_path / "m.json").features_.tolist() == list(kinds)


def test_integers_beyond_64_bits_are_features(tmp_path):
    huge = [2**64 + i * 10**20 for i in range(len(TABLE))]
    some = [str(value) if i % 2 else f"{float(value)}" for i, value in enumerate(huge)]
    path = written(TABLE[["f0", "town", "y"]].assign(huge=huge, some=some), tmp_path / "t.csv")
    done("fit", path, *ROLES, "--lam", 1e-3, "--quiet", "--out", tmp_path / "m.json")
    api = MSMTFL(lam=1e-3, standardize=True, task_column="town")
    floats = [float(value) for value in huge]
    X = TABLE[["f0", "town"]].assign(huge=floats, some=floats)[["f0", "huge", "some", "town"]]
    expected = api.fit(X, TABLE.y).predict(X)
    np.testing.assert_allclose(predicted(tmp_path / "m.json", path).prediction, expected, atol=1e-9)


@pytest.mark.slow
def test_thousands_of_columns(tmp_path):
    X = np.random.default_rng(0).standard_normal((24, 5000))
    table = pd.DataFrame(X, columns=[f"c{j}" for j in range(5000)])
    path = written(table.assign(town=["a", "b"] * 12, y=X[:, 7]), tmp_path / "t.csv", float_format="%.6g")
    told = json.loads(done("fit", path, *ROLES, "--lam", 0.2, "--json"))
    assert told["features"] == 5000


def test_one_task_is_enough(tmp_path):
    path = written(TABLE[TABLE.town == "7"], tmp_path / "t.csv")
    assert done("fit", path, *GIVEN).startswith("MSMTFL: 1 task, 24 rows")


# ------------------------------------------------------------------ text columns


def test_one_hot_columns_of_fit_are_those_of_predict(data, tmp_path):
    out = tmp_path / "m.msmtfl"
    done("fit", data, *ROLES, "--exclude", "id,patient,weight", "--one-hot", "--lam", 0.01, "--quiet", "--out", out)
    levels = [f"colour={colour}" for colour in ("blue", "green", "red")]
    fitted = load_model(out)
    assert fitted.features_.tolist() == [*FEATURES, *levels]
    X = TABLE[[*FEATURES, "town"]].assign(**{name: (TABLE.colour == name[7:]).astype(float) for name in levels})
    api = MSMTFL(lam=0.01, standardize=True, task_column="town").fit(X, TABLE.y)
    np.testing.assert_allclose(fitted.coef_, api.coef_, atol=1e-12)
    reds = TABLE.colour == "red"
    path = written(TABLE[reds], tmp_path / "reds.csv")  # a level that is alone
    np.testing.assert_allclose(predicted(out, path).prediction, api.predict(X)[reds], atol=1e-12)
    new = changed(tmp_path / "mauve.csv", "colour", 5, "mauve")
    refused("predict", out, new, said=["mauve.csv", "'colour'", "row 5", "'mauve'", "'blue', 'green', 'red'"])


def test_levels_that_look_like_numbers_are_found_again(tmp_path):
    codes = np.array(["01", "2", "3a"])[np.arange(len(TABLE)) % 3]
    path = written(TABLE.assign(code=codes), tmp_path / "t.csv")
    warned = run("fit", path, *GIVEN, "--one-hot", "--out", tmp_path / "m.json")
    assert warned.exit_code == 0
    assert "'code' is one-hot encoded" in warned.stderr
    assert load_model(tmp_path / "m.json").features_.tolist() == [*FEATURES, "code=01", "code=2", "code=3a"]
    numbers = written(TABLE.assign(code=codes)[codes != "3a"], tmp_path / "numbers.csv")
    assert len(predicted(tmp_path / "m.json", numbers)) == 64


def test_names_that_one_hot_makes_must_be_free(tmp_path):
    path = written(TABLE.assign(**{"colour=red": 1.0}), tmp_path / "t.csv")
    options = (*ROLES, "--exclude", "id", "--one-hot", "--lam", 0.1)
    refused("fit", path, *options, said=["t.csv", "'colour=red'", "Rename"])


def test_text_that_hardly_repeats_is_said_to_look_like_an_id(data, tmp_path):
    options = (*ROLES, "--exclude", "patient,weight", "--one-hot", "--lam", 0.1)
    warned = run("fit", data, *options)
    assert warned.exit_code == 0
    assert "column 'id' is one-hot encoded, but has 96 different values in 96 rows" in warned.stderr
    assert "--id" in warned.stderr
    assert "--exclude id" in warned.stderr
    assert "'colour'" not in warned.stderr
    done("fit", data, *options, "--id", "id")


def test_a_target_of_zeros_and_ones_is_said_to_be_a_class(tmp_path):
    path = written(TABLE.assign(y=(TABLE.y > 1).astype(int)), tmp_path / "t.csv")
    warned = run("fit", path, *GIVEN)
    assert warned.exit_code == 0
    assert "column 'y' holds nothing but 0 and 1" in warned.stderr
    assert "msmtfl fit --classify" in warned.stderr
    assert "0 and 1" in run("compare", path, *GIVEN[:-2], "--models", "lasso,pooled lasso", "--cv", 2).stderr
    done("fit", path, *GIVEN, "--model", "classifier")
    assert "0 and 1" not in run("fit", path, *GIVEN, "--loss", "poisson").stderr


def test_text_is_refused_with_the_way_out(data, tmp_path):
    said = ["data.csv", "'id', 'colour'", "hold text or dates: 'r0' in row 1", "--one-hot", "--exclude id,colour"]
    refused("fit", data, *ROLES, "--lam", 0.1, said=said)
    dates = TABLE.assign(when=pd.date_range("2024-01-31", periods=len(TABLE)))
    for path in (written(dates, tmp_path / "t.csv"), written(dates, tmp_path / "t.parquet")):
        refused("fit", path, *GIVEN, said=[path.name, "'when'", "2024-01-31", "dates", "--exclude when"])
    texts = written(TABLE.assign(f0=TABLE.f0.astype(str)), tmp_path / "texts.parquet")
    refused("fit", texts, *GIVEN, said=["'f0'", "text"])
    comma = written(TABLE.rename(columns={"colour": "my, colour"}), tmp_path / "comma.csv")
    options = ("--exclude", "id,patient,weight", "--lam", 0.1)
    message = refused("fit", comma, *ROLES, *options, said=["""--exclude '"my, colour"'"""])
    assert "id" not in message.split("leave them out")[1]


def test_a_few_texts_among_numbers_are_named_by_row(data, model, tmp_path):
    mixed = changed(tmp_path / "mixed.csv", "f1", 7, "oops")
    for command in (("fit", mixed, *GIVEN), ("predict", model, mixed)):
        refused(*command, said=["mixed.csv", "'f1'", "1 of 96 rows", "'oops' in row 7"])
    target = changed(tmp_path / "target.csv", "y", 9, "n.d.")
    refused("fit", target, *GIVEN, said=["target.csv", "--target", "'y'", "'n.d.' in row 9"])
    weight = changed(tmp_path / "weight.csv", "weight", 3, "much")
    refused("fit", weight, *GIVEN, "--weight", "weight", said=["--weight", "'much' in row 3"])
    words = written(TABLE.assign(y="pass"), tmp_path / "words.csv")
    refused("fit", words, *GIVEN, said=["--target", "'y'", "text", "'pass' in row 1"])


def test_decimal_commas_are_recognised(tmp_path):
    path = written(TABLE, tmp_path / "t.csv", sep=";", decimal=",")
    said = ["t.csv", "'f0'", "comma", "in row 1", "decimal point", "--decimal ,"]
    message = refused("fit", path, *GIVEN, "--delimiter", ";", "--decimal", ".", said=said)
    assert "one-hot" not in message


@pytest.mark.parametrize("sep", [";", ","])  # commas between numbers with commas: quoted
def test_files_with_decimal_commas_give_the_same(sep, data, model, tmp_path):
    path = written(TABLE, tmp_path / "t.csv", sep=sep, decimal=",")
    european = ("--delimiter", sep, "--decimal", ",")
    done("fit", path, *GIVEN, *european, "--out", tmp_path / "m.json")
    np.testing.assert_array_equal(load_model(tmp_path / "m.json").coef_, load_model(model).coef_)
    pd.testing.assert_frame_equal(predicted(model, path, *european), predicted(model, data))


def test_nonsense_in_decimal(data, tmp_path):
    refused("fit", data, *GIVEN, "--decimal", ";", said=["--decimal", "';'"])
    table = written(TABLE, tmp_path / "t.parquet")
    refused("fit", table, *GIVEN, "--decimal", ",", said=["t.parquet", "--decimal", "CSV"])


# ------------------------------------------------------------------ missing values


def test_missing_values_are_refused_or_counted(model, tmp_path):
    table = TABLE.astype({"town": object})
    table.loc[[3, 8], "f0"], table.loc[8, "y"], table.loc[20, "town"] = np.nan, np.nan, None
    told = "missing values in 'y' (1), 'town' (1), 'f0' (2), first in row 4"
    for path in (written(table, tmp_path / "t.csv"), written(table, tmp_path / "t.parquet")):
        refused("fit", path, *GIVEN, said=[path.name, told, "--drop-missing"])
        result = run("fit", path, *GIVEN, "--drop-missing", "--out", tmp_path / "m.json")
        assert result.exit_code == 0
        assert result.stderr.startswith("3 of 96 rows are left out: missing values")
        assert "93 rows" in result.stdout
    kept = table.drop(index=[3, 8, 20])
    api = MSMTFL(lam=0.1, standardize=True, task_column="town").fit(features_and_town(kept), kept.y)
    np.testing.assert_allclose(load_model(tmp_path / "m.json").coef_, api.coef_, atol=1e-12)
    refused("predict", model, path, said=["'town' (1), 'f0' (2), first in row 4", "--drop-missing"])
    result = run("predict", model, path, "--drop-missing")
    assert "3 of 96 predictions are left empty" in result.stderr
    found = pd.read_csv(io.StringIO(result.stdout))
    assert np.flatnonzero(found.prediction.isna()).tolist() == [3, 8, 20]
    empty = json.loads(run("predict", model, path, "--drop-missing", "--json").stdout)[3]
    assert empty == {"task": table.town[3], "prediction": None}


@pytest.mark.parametrize("how", ["mean", "median"])
def test_features_are_filled_in_when_asked_for(how, tmp_path):
    table = TABLE.copy()
    table.loc[[3, 8], "f0"], table.loc[8, "f2"], table.loc[9, "f1"] = np.nan, np.nan, np.nan
    holes = table.copy()
    table.loc[20, "y"] = np.nan
    path, out = written(table, tmp_path / "t.csv"), tmp_path / "m.json"
    refused("fit", path, *GIVEN, said=["'f0' (2)", "--impute mean", "--drop-missing"])
    refused("fit", path, *GIVEN, "--impute", how, said=["missing values in 'y' (1), first in row 21", "--drop-missing"])
    result = run("fit", path, *GIVEN, "--impute", how, "--drop-missing", "--out", out)
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "1 of 96 rows are left out: missing values in 'y' (1), first in row 21.",
        f"missing values are filled in with the {how} of their column: 'f0' (2), 'f1' (1), 'f2' (1).",
    ]
    kept = features_and_town(table.drop(index=20))
    prepare = ColumnTransformer(
        [("numbers", SimpleImputer(strategy=how), FEATURES), ("task", "passthrough", ["town"])],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    api = make_pipeline(prepare, MSMTFL(lam=0.1, standardize=True, task_column="town"))
    api.fit(kept, table.y.drop(index=20))
    result = run("predict", out, written(holes, tmp_path / "holes.csv"))
    assert result.stderr == (
        "missing values are filled in as the model was made (--impute): 'f0' (2), 'f1' (1), 'f2' (1).\n"
    )
    found = pd.read_csv(io.StringIO(result.stdout)).prediction
    np.testing.assert_allclose(found, api.predict(features_and_town(holes)), rtol=0, atol=1e-12)
    options = ("--models", "lasso,pooled lasso", "--cv", 2, "--json", "--quiet")
    told = json.loads(done("compare", path, *GIVEN[:-2], "--impute", how, "--drop-missing", *options))
    direct = compare_models(
        api[:-1].transform(kept),
        table.y.drop(index=20),
        task_column="town",
        models=["lasso", "pooled lasso"],
        cv=2,
        standardize=True,
    )
    np.testing.assert_allclose([row["nmse"] for row in told["models"]], np.sort(direct.nmse))


def test_what_cannot_be_filled_in_is_named(tmp_path):
    empty = written(TABLE.assign(f0=np.nan), tmp_path / "empty.csv")
    refused("fit", empty, *GIVEN, "--impute", "mean", said=["empty.csv", "'f0'", "--exclude f0"])
    words = written(TABLE.assign(colour=TABLE.colour.mask(TABLE.index == 4)), tmp_path / "words.csv")
    options = ("--exclude", "id,patient,weight", "--one-hot", "--impute", "mean", "--lam", 0.1)
    refused("fit", words, *ROLES, *options, said=["missing values in 'colour' (1), first in row 5", "--drop-missing"])


def test_rows_are_named_as_in_the_file_when_others_are_left_out(tmp_path):
    table = TABLE.copy()
    table.loc[:9, "f0"], table.loc[30, "f1"] = np.nan, np.inf
    path = written(table, tmp_path / "t.csv")
    result = run("fit", path, *GIVEN, "--drop-missing")
    assert result.exit_code == 2
    assert "column 'f1' holds inf in row 31" in result.stderr


def test_nothing_left_is_said(tmp_path):
    path = written(TABLE.assign(f0=np.nan), tmp_path / "t.csv")
    refused("fit", path, *GIVEN, "--drop-missing", said=["t.csv", "every row", "'f0' (96)", "--exclude"])
    done("fit", path, *ROLES, "--exclude", f"{OTHERS},f0", "--lam", 0.1)
    refused("fit", path, *ROLES, "--features", "f1", "--exclude", "f1", said=["no column is left"])


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_an_empty_task_is_missing(ending, tmp_path):
    path = written(TABLE.replace({"town": {"7": " "}}), tmp_path / f"t{ending}")
    refused("fit", path, *GIVEN, said=["missing values in 'town' (24)"])


# ------------------------------------------------------------------ models of the API


def saved(fitted, path):
    save_model(fitted, path)
    return path


def test_models_saved_by_the_api_are_used(tmp_path):
    X, y = TABLE[FEATURES], TABLE.y
    labels = np.array([TOWNS.index(town) for town in TABLE.town])
    path = written(TABLE.assign(n=labels, half=labels / 2, flag=labels > 1), tmp_path / "t.csv")
    for column, task in (("n", labels), ("town", TABLE.town), ("half", labels / 2), ("flag", labels > 1)):
        fitted = MSMTFL(lam=0.1).fit(X, y, task=task)
        out = saved(fitted, tmp_path / "m.json")
        refused("predict", out, path, said=["--task"])
        np.testing.assert_allclose(
            predicted(out, path, "--task", column).prediction, fitted.predict(X, task=task), atol=1e-12
        )
    by_place = MSMTFL(lam=0.1, task_column=2).fit(TABLE[["f0", "f1", "town", "f2"]], y)
    found = predicted(saved(by_place, tmp_path / "m.json"), path)
    np.testing.assert_allclose(found.prediction, by_place.predict(TABLE[["f0", "f1", "town", "f2"]]), atol=1e-12)


def test_model_without_names_wants_numbered_columns(data, tmp_path):
    fitted = MSMTFL(lam=0.1).fit(TABLE[FEATURES].to_numpy(), TABLE.y, task=TABLE.town)
    out = saved(fitted, tmp_path / "m.json")
    refused("predict", out, data, "--task", "town", said=["data.csv", "3 feature column(s)", "'x0', 'x1'"])
    table = written(TABLE.rename(columns=dict(zip(FEATURES, fitted.features_, strict=True))), tmp_path / "t.csv")
    expected = fitted.predict(TABLE[FEATURES].to_numpy(), task=TABLE.town)
    np.testing.assert_allclose(predicted(out, table, "--task", "town").prediction, expected, atol=1e-12)


def test_a_single_task_and_a_common_x(data, tmp_path):
    single = MSMTFL(lam=0.1).fit(TABLE[FEATURES], TABLE.y)
    out = saved(single, tmp_path / "single.json")
    np.testing.assert_allclose(predicted(out, data).prediction, single.predict(TABLE[FEATURES]), atol=1e-12)
    refused("predict", out, data, "--task", "town", said=["--task", "single task"])
    Y = pd.DataFrame({"u": TABLE.y, "v": -2 * TABLE.y})
    wide = L12MTL(lam=0.1).fit(TABLE[FEATURES], Y)
    found = predicted(saved(wide, tmp_path / "wide.json"), data, "--id", "id")
    assert found.task.tolist() == ["u", "v"] * len(TABLE)
    assert found.id.tolist() == np.repeat(TABLE.id, 2).tolist()
    np.testing.assert_allclose(found.prediction, wide.predict(TABLE[FEATURES]).ravel(), atol=1e-12)


def test_every_kind_of_model_can_be_inspected(tmp_path):
    fitted = RidgePerTaskCV().fit(TABLE[FEATURES], TABLE.y, task=TABLE.town)
    out = saved(fitted, tmp_path / "m.json")
    assert "RidgePerTaskCV: 4 tasks" in done("inspect", out)
    assert json.loads(done("inspect", out, "--json"))["features_by_class"]["all"] == 5


@pytest.mark.parametrize(
    "columns",
    [
        {"task": "town"},
        {"target": None, "task": "town", "features": 7},
        {"target": None, "task": "town", "features": ["f0"], "levels": [1]},
        {"target": None, "task": 3, "features": FEATURES},
        "names",
    ],
)
def test_provenance_of_others_is_not_taken_for_ours(columns, data, tmp_path):
    X = features_and_town(TABLE)
    fitted = MSMTFL(lam=0.1, task_column="town").fit(X, TABLE.y)
    save_model(fitted, tmp_path / "m.json", provenance={"columns": columns})
    np.testing.assert_allclose(predicted(tmp_path / "m.json", data).prediction, fitted.predict(X), atol=1e-12)


def test_new_tasks_are_refused_or_predicted_with_the_mean(model, data, tmp_path):
    new = changed(tmp_path / "new.csv", "town", 6, "Atlantis")
    said = ["new.csv", "row 6", "'Atlantis'", "'007', '7', 'Bonn'", "--unknown-task mean"]
    refused("predict", model, new, said=said)
    found, fitted = predicted(model, new, "--unknown-task", "mean", "--quiet"), load_model(model)
    every = fitted.coef_ @ TABLE[FEATURES].to_numpy()[5] + fitted.intercept_
    assert found.task[5] == "Atlantis"
    spread = every.std(ddof=1)  # of what known tasks would predict: no more digits than two of it
    assert found.prediction[5] == round(every.mean(), 1 - math.floor(math.log10(spread)))
    said = run("predict", model, new, "--unknown-task", "mean").stderr
    assert said.startswith(
        "msmtfl predict: warning: task(s) 'Atlantis' were not in the training data: their 1 prediction"
    )
    assert f"differ by {spread:.2g} (standard deviation)" in said
    assert "`msmtfl compare --leave-one-task-out` estimates it" in said
    assert run("predict", model, new, "--unknown-task", "mean", "--quiet").stderr == ""
    others = found.drop(index=5).prediction.to_numpy()
    np.testing.assert_allclose(others, predicted(model, data).drop(index=5).prediction, rtol=1e-13)
    kind = MSMTFL(lam=0.1, task_column="town", unknown_task="mean").fit(features_and_town(TABLE), TABLE.y)
    assert len(predicted(saved(kind, tmp_path / "kind.json"), new, "--quiet")) == len(TABLE)
    refused("predict", tmp_path / "kind.json", new, "--unknown-task", "error", said=["'Atlantis'"])
    refused("predict", model, new, "--unknown-task", "guess", said=["--unknown-task", "'guess'"])


# ------------------------------------------------------------------ bad files


def in_file(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.slow
def test_files_that_are_no_tables(data, model, tmp_path):
    csv = data.read_bytes()
    parquet = written(TABLE, tmp_path / "t.parquet").read_bytes()
    cases = {
        "empty.csv": (b"", "empty"),
        "blank.csv": (b"\n\n \n", "empty"),
        "header.csv": (csv.split(b"\n")[0], "no rows"),
        "misnamed.parquet": (csv, "not Parquet"),
        "nothing.parquet": (b"", "empty"),
        "cut.parquet": (parquet[: len(parquet) // 2], "cannot be read as Parquet"),
        "misnamed.csv": (parquet, "end in .parquet"),
        "book.xlsx": (b"PK\x03\x04" + bytes(100), "Excel"),
        "quote.csv": (csv.replace(b",red", b',"red', 1), "cannot be read as CSV"),
        "long.csv": (csv.replace(b",red", b",red,1", 1), "cannot be read as CSV"),
        "too_long.csv": (csv.replace(b"\n", b",1\n").replace(b",1\n", b"\n", 1), "more fields than the 11 names"),
        "data.csv": (b"\n".join(csv.split(b"\n")[1:]), "looks like data"),
        "twice.csv": (csv.replace(b"f0,f1", b"f0, f0 ", 1), "'f0' occur more than once"),
        "rownames.csv": (TABLE.to_csv().encode(), "--exclude 'Unnamed: 0'"),
    }
    for name, (content, told) in cases.items():
        path = in_file(tmp_path / name, content)
        refused("fit", path, *GIVEN, said=[f"{path}: ", told])
    refused("fit", tmp_path / "absent.csv", *GIVEN, said=["absent.csv", "no such file"])
    (tmp_path / "none").mkdir()
    refused("fit", tmp_path / "none", *GIVEN, said=[str(tmp_path / "none"), "folder without tables"])
    refused("fit", data, *GIVEN, "--encoding", "klingon", said=["--encoding", "klingon", "utf-8"])
    twice = pa.table([[1.0], [2.0]], names=["f0", "f0"])
    pa.parquet.write_table(twice, tmp_path / "twice.parquet")
    refused("fit", tmp_path / "twice.parquet", *GIVEN, said=["'f0' occur more than once"])


def test_the_line_that_cannot_be_decoded_is_named(tmp_path):
    towns = ["Bonn", "Ulm"] * (len(TABLE) // 2)
    text = TABLE.assign(town=towns).replace({"id": {"r6": "Jürgen"}}).to_csv(index=False)
    refused(
        "fit",
        in_file(tmp_path / "t.csv", text.encode("cp1252")),
        *GIVEN,
        "--encoding",
        "utf-8",
        said=["not utf-8", "line 8"],
    )


def test_short_rows_are_missing_values(tmp_path):
    lines = TABLE.to_csv(index=False).splitlines()
    lines[5] = "1,2"
    refused("fit", in_file(tmp_path / "t.csv", "\n".join(lines)), *GIVEN, said=["missing", "first in row 5"])


@pytest.mark.parametrize(
    ("option", "name", "hint"),
    [
        ("--target", "Y", "Did you mean 'y'?"),
        ("--task", "twon", "Did you mean 'town'?"),
        ("--weight", "weigth", "Did you mean 'weight'?"),
        ("--group", "patients", "Did you mean 'patient'?"),
        ("--id", "identity", "Columns: 'f0'"),
        ("--exclude", "color", "Did you mean 'colour'?"),
        ("--features", "f0,f9", "Columns: 'f0'"),
    ],
)
def test_absent_columns_are_named_with_a_guess(option, name, hint, data):
    said = ["data.csv", f"{option}: there is no column '{name.split(',')[-1]}'"]
    refused("fit", data, *ROLES, option, name, said=[*said, hint])


def test_one_column_has_one_role(data):
    for first, second in (("--target", "--task"), ("--target", "--weight"), ("--task", "--group")):
        options = {"--target": "y", "--task": "town"} | {first: "f0", second: "f0"}
        arguments = [part for pair in options.items() for part in pair]
        refused("fit", data, *arguments, said=["data.csv", f"{first} and {second} are both 'f0'"])
    refused("fit", data, *ROLES, "--features", "f0,y", said=["'y' cannot be a feature"])


def test_columns_that_predict_needs(model, tmp_path):
    fitted = load_model(model)
    used = fitted.features_[fitted.coef_.any(axis=0)].tolist()
    assert used == ["f0", "f1", "f2"]
    one = written(TABLE.drop(columns=["f2", "f3"]).rename(columns={"f1": "F1"}), tmp_path / "t.csv")
    refused("predict", model, one, said=["t.csv", "3 feature column(s)", "'f1', 'f2'"])
    few = written(TABLE.drop(columns="f3").assign(f4="not measured"), tmp_path / "few.csv")
    pd.testing.assert_frame_equal(predicted(model, few), predicted(model, written(TABLE, tmp_path / "all.csv")))
    without = written(TABLE.drop(columns="town"), tmp_path / "t.csv")
    refused("predict", model, without, said=["t.csv", "task column", "'town'", "--task"])
    renamed = written(TABLE.rename(columns={"town": "place"}), tmp_path / "t.csv")
    extra = written(TABLE.assign(extra="text", more=np.nan), tmp_path / "extra.csv")
    other_order = written(TABLE[TABLE.columns[::-1]], tmp_path / "order.csv")
    expected = predicted(model, extra)
    pd.testing.assert_frame_equal(predicted(model, renamed, "--task", "place"), expected)
    pd.testing.assert_frame_equal(predicted(model, other_order), expected)


def test_files_that_are_no_models(model, data, tmp_path):
    packed = model.read_bytes()
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 255
    done("fit", data, *GIVEN, "--quiet", "--out", tmp_path / "m.json")
    newer = json.loads((tmp_path / "m.json").read_text()) | {"format_version": 99}
    cases = {
        "cut.msmtfl": (packed[: len(packed) // 2], "damaged or cut off"),
        "flipped.msmtfl": (bytes(flipped), "damaged"),
        "table.csv": (data.read_bytes(), "neither a zip archive nor JSON"),
        "empty.msmtfl": (b"", "empty"),
        "newer.json": (json.dumps(newer), "Upgrade"),
        "other.json": ("{}", "other.json"),
    }
    for name, (content, told) in cases.items():
        path = in_file(tmp_path / name, content)
        for command in (("predict", path, data), ("inspect", path)):
            refused(*command, said=[name, told])
    refused("predict", tmp_path / "absent", data, said=["absent", "no such file"])
    refused("inspect", tmp_path, said=[str(tmp_path), "folder"])


# ------------------------------------------------------------------ bad values


def test_values_that_are_not_finite_are_named_by_row(model, tmp_path):
    for column, option in (("f2", ""), ("y", "--target: "), ("weight", "--weight: ")):
        for value in ("inf", "-Infinity", "9" * 400):
            path = changed(tmp_path / "t.csv", column, 4, value)
            refused("fit", path, *GIVEN, "--weight", "weight", said=[f"t.csv: {option}column '{column}'", "row 4"])
    path = changed(tmp_path / "t.csv", "f2", 4, "inf")
    refused("predict", model, path, said=["column 'f2'", "row 4"])
    huge = written(TABLE.assign(f2=[str(10**400 + i) for i in range(len(TABLE))]), tmp_path / "t.csv")
    refused("fit", huge, *GIVEN, said=["column 'f2'", "row 1", "too large"])


def test_weights_are_not_negative(data, tmp_path):
    path = changed(tmp_path / "t.csv", "weight", 12, -1)
    refused("fit", path, *GIVEN, "--weight", "weight", said=["t.csv", "--weight", "-1 in row 12"])
    nothing = written(TABLE.assign(weight=0), tmp_path / "t.csv")
    refused("fit", nothing, *GIVEN, "--weight", "weight", said=["weights", "'007'", "zero"])


def test_a_constant_target_is_fitted_and_warned_of(tmp_path):
    path = written(TABLE.assign(y=3.5), tmp_path / "t.csv")
    result = run("fit", path, *GIVEN[:-2])
    assert result.exit_code == 0
    assert "constant" in result.stderr
    assert "5 unused" in result.stdout


def test_small_tasks_and_many_folds(tmp_path):
    lonely = changed(tmp_path / "t.csv", "town", 1, "lonely")
    assert "single row" in run("fit", lonely, *GIVEN).stderr
    assert "task(s) 'lonely' have 1 sample" in run("fit", lonely, *GIVEN[:-2]).stderr
    few = written(TABLE.head(8), tmp_path / "t.csv")
    refused("fit", few, *GIVEN[:-2], "--cv", 50, said=["--cv 50", "folds"])
    groups = written(TABLE.assign(patient=TABLE.patient % 2), tmp_path / "t.csv")
    refused("fit", groups, *ROLES, "--exclude", "colour,id", "--group", "patient", said=["2 group(s)", "--cv 5"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--lam", "-1"), ("lam", "> 0", "-1")),
        (("--lam", "nan"), ("lam", "nan")),
        (("--lam", "inf"), ("lam", "inf")),
        (("--theta", "wide"), ("--theta", "adaptive", "'wide'")),
        (("--theta", "nan"), ("theta", "nan")),
        (("--theta", "-3"), ("theta", "-3")),
        (
            ("--model", "ridge"),
            ("--model", "'ridge'", "Known: 'nested-ridge', 'ridge-per-task', 'pooled-ridge'"),
        ),
        (("--model", "msmtfl", "--lam-entry", "1"), ("--lam-entry", "msmtfl, which has lam, theta")),
        (("--model", "pooled lasso", "--lam", "1"), ("--lam", "pooled lasso, which has none")),
        (("--model", "pooled ridge", "--relax"), ("--relax", "pooled ridge")),
        (("--model", "ridge per task", "--selection", "1se"), ("--selection", "ridge per task")),
        (("--impute", "mode"), ("--impute", "mean or median", "'mode'")),
        (("--model", "lasso", "--theta", "1"), ("--theta", "lasso")),
        (("--model", "dirty", "--lam", "1"), ("--lam", "lam_s, lam_b")),
        (("--selection", "best"), ("selection", "'best'")),
        (("--lam", "1", "--selection", "1se"), ("--selection", "cross-validation")),
        (("--lam", "1", "--group", "patient"), ("--group", "cross-validation")),
        (("--jobs", "0"), ("--jobs", "0")),
    ],
)
def test_nonsense_in_options_of_fit(options, said, data):
    refused("fit", data, *ROLES, "--exclude", "colour,id", *options, said=said)


def test_nonsense_in_options_of_others(data, tmp_path):
    roles = (*ROLES, "--exclude", OTHERS)
    refused("surface", data, *roles, "--theta-ratios", "1,x", said=["--theta-ratios", "'1,x'"])
    refused("surface", data, *roles, "--theta-ratios", "-1", said=["theta_ratios", "-1"])
    refused("compare", data, *roles, "--models", "lasso,forest", said=["'forest'", "'msmtfl'"])
    refused("compare", data, *roles, "--plot", tmp_path / "x.doc", said=["x.doc", ".png, .svg or .pdf"])
    for wrong in (("--lam", "much"), ("--cv", "1"), ("--nonsense",)):
        result = run("fit", data, *roles, *wrong)
        assert (result.exit_code, result.stdout) == (2, "")
        assert wrong[0] in result.stderr


# ------------------------------------------------------------------ outputs


def test_outputs_are_checked_before_the_work(data, model, tmp_path):
    """The data are absent: whoever looks at them first says so."""
    absent = tmp_path / "absent.csv"
    (tmp_path / "kept.csv").write_text("kept")
    fit, predict = ("fit", absent, *GIVEN, "--out"), ("predict", model, absent, "--out")
    for command in (fit, predict):
        refused(*command, tmp_path / "no" / "folder" / "m.csv", said=["m.csv", "there is no folder"])
        refused(*command, tmp_path, said=["is a folder"])
    for name in ("p", "p.txt", "p.xlsx", "p.parquet.gz"):
        refused(*predict, tmp_path / name, said=[name, ".csv, .json", ".parquet"])
        refused("inspect", model, "--coefficients", tmp_path / name, said=[name, ".csv"])
    same = ("--out", tmp_path / "m", "--report", tmp_path / "m")
    refused("fit", absent, *GIVEN, *same, said=["twice"])
    for command in (
        ("predict", model, data, "--out", data),
        ("fit", data, *GIVEN, "--out", data),
        ("predict", model, data, "--out", model),
        ("inspect", model, "--sql", model),
    ):
        before = data.read_bytes(), model.read_bytes()
        refused(*command, said=["is an input of this command"])
        assert (data.read_bytes(), model.read_bytes()) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.csv"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_devices_are_not_replaced_by_files(data, model):
    for device in ("/dev/null", "/dev/full"):
        refused("fit", data, *GIVEN, "--out", device, said=[device, "not a file"])
        assert stat.S_ISCHR(os.stat(device).st_mode)


def test_folders_that_cannot_be_written_to(data, tmp_path):
    places = [Path("/proc")] if Path("/proc/self").exists() else []
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        tmp_path.chmod(0o500)
        places.append(tmp_path)
    if not places:
        pytest.skip("every folder can be written to")
    for place in places:
        refused(
            "fit", data, *GIVEN, "--out", place / "m.msmtfl", said=["m.msmtfl", f"folder {place} cannot be written"]
        )


@contextmanager
def small_files_only():
    """Writing more than a few bytes to a file fails, as on a full disk."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails_leaves_what_was_there(data, model, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("before")
    for command in (
        ("fit", data, *GIVEN, "--out", out),
        ("predict", model, data, "--out", out),
        ("surface", data, *GIVEN[:-2], "--lams", 2, "--out", out),
        ("inspect", model, "--coefficients", out),
        ("inspect", model, "--sql", out),
    ):
        with small_files_only():
            result = run(*command)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"msmtfl {command[0]}: {out}: ")
        assert "was not written" in result.stderr
        assert out.read_text() == "before"
        assert list(tmp_path.iterdir()) == [out]


# ------------------------------------------------------------------ in a shell


def command(*arguments):
    return [sys.executable, "-m", "msmtfl", *(str(argument) for argument in arguments)]


@pytest.mark.slow
def test_pipes_and_a_full_disk_in_a_shell(data, model, tmp_path):
    """Results go to stdout, messages to stderr; a reader that leaves is no error to speak of."""
    big = written(pd.concat([TABLE] * 60), tmp_path / "big.csv")
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}  # as in containers: Python then takes a part written for all
    with subprocess.Popen(
        command("predict", model, big), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as running:
        assert running.stdout.readline() == b"task,prediction\n"
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 1
    if Path("/dev/full").exists():
        with open("/dev/full", "wb") as full:
            failed = subprocess.run(command("predict", model, data), stdout=full, stderr=subprocess.PIPE, check=False)
        assert failed.returncode == 1
        assert failed.stderr == b"msmtfl predict: stdout: No space left on device.\n"


def test_fit_in_a_shell_writes_down_the_command(data, tmp_path, monkeypatch, capsys):
    out = tmp_path / "a model.msmtfl"
    arguments = ("fit", changed(tmp_path / "t.csv", "f0", 3, ""), *GIVEN, "--drop-missing", "--json", "--out", out)
    monkeypatch.setattr(sys, "argv", ["msmtfl", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    shown, said = capsys.readouterr()
    assert not end.value.code
    assert json.loads(shown)["rows"] == 95
    assert said.startswith("1 of 96 rows are left out")
    user = load_model(out).provenance_["user"]
    assert user["command"].startswith("msmtfl fit ")
    assert f"--out '{out}'" in user["command"]
    assert (user["data"], user["rows"], user["rows_dropped"]) == ("t.csv", 95, 1)


def opened_by_reader(pipe, process):
    """The writing end, once the process reads; an error if it ends before."""
    while process.poll() is None:
        try:
            end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads yet
            time.sleep(0.05)
            continue
        os.set_blocking(end, True)
        return end
    raise AssertionError(process.stderr.read())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.slow
@pytest.mark.timed
def test_interrupt_leaves_nothing_behind(tmp_path):
    """The data come through a named pipe, so that we know when the command is at work; its folds take most of a minute."""
    pipe, out = tmp_path / "pipe", tmp_path / "m.msmtfl"
    os.mkfifo(pipe)
    out.write_text("before")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((1500, 300))).assign(town=np.arange(1500) % 5)
    text = table.assign(y=table[0] + rng.standard_normal(1500)).to_csv(index=False, float_format="%.3g")
    arguments = ("fit", pipe, *ROLES, "--model", "auto", "--cv", 50, "--out", out)
    with subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        with open(opened_by_reader(pipe, running), "wb") as end:
            end.write(text.encode())
        time.sleep(1.5)
        running.send_signal(signal.SIGINT)
        printed, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert printed == b""
    assert said == b"\nmsmtfl fit: stopped.\n"
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.msmtfl", "pipe"]


# ------------------------------------------------------------------ offsets


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Counts of towns, with the years that they were counted in."""
    rng = np.random.default_rng(6)
    X, years = rng.standard_normal((120, 2)), np.exp(rng.standard_normal(120))
    table = pd.DataFrame({"town": np.tile(["a", "b", "c"], 40), "age": X[:, 0], "dose": X[:, 1], "years": years})
    table["beside"] = np.log(years)
    table["cases"] = rng.poisson(years * np.exp(0.6 * X[:, 0]))
    path = tmp_path_factory.mktemp("cases") / "cases.csv"
    table.to_csv(path, index=False)
    return path, table


OF_CASES = ("--target", "cases", "--task", "town", "--model", "msmtfl", "--loss", "poisson", "--lam", "0.05")


def test_an_exposure_is_remembered_and_looked_for(cases, tmp_path):
    path, table = cases
    model, out = tmp_path / "m.msmtfl", tmp_path / "p.csv"
    run("fit", path, *OF_CASES, "--exposure", "years", "--exclude", "beside", "--out", model)
    loaded = load_model(model)
    assert loaded.features_.tolist() == ["age", "dose"]
    assert loaded.uses_offset_
    fitted = MSMTFL(lam=0.05, loss="poisson", standardize=True)
    fitted.fit(table[["age", "dose"]], table["cases"], task=table["town"], offset=table["beside"])
    np.testing.assert_allclose(loaded.coef_, fitted.coef_, atol=1e-9)
    expected = fitted.predict(table[["age", "dose"]], task=table["town"], offset=table["beside"])
    for options in ((), ("--offset", "beside"), ("--exposure", "years")):
        run("predict", model, path, "--out", out, *options)
        np.testing.assert_allclose(pd.read_csv(out)["prediction"], expected, rtol=1e-9)
    without = tmp_path / "without.csv"
    table.drop(columns="years").to_csv(without, index=False)
    said = refused("predict", model, without)
    assert "the model needs the column of its offset (--exposure names another): there is no column 'years'" in said
    run("predict", model, without, "--offset", "beside", "--out", out)
    np.testing.assert_allclose(pd.read_csv(out)["prediction"], expected, rtol=1e-9)
    said = refused("predict", model, path, "--offset", "beside", "--exposure", "years")
    assert "--offset and --exposure: give one of them" in said
    assert "an offset" in run("inspect", model).stdout


def test_a_model_of_python_wants_its_offset_named(cases, tmp_path):
    table = cases[1]
    X, task = table[["age", "dose"]].to_numpy(), table["town"].to_numpy()
    model = MSMTFL(lam=0.05, loss="poisson").fit(X, table["cases"], task=task, offset=table["beside"])
    file, named = tmp_path / "m.msmtfl", tmp_path / "named.csv"
    save_model(model, file)
    table.rename(columns={"age": "x0", "dose": "x1"}).to_csv(named, index=False)
    assert "fitted with an offset: name its column with --offset, or --exposure" in refused(
        "predict", file, named, "--task", "town"
    )
    found = pd.read_csv(io.StringIO(run("predict", file, named, "--task", "town", "--exposure", "years").stdout))
    np.testing.assert_allclose(found["prediction"], model.predict(X, task=task, offset=table["beside"]), rtol=1e-9)


def test_a_column_of_the_offset_is_no_feature_in_compare_and_surface(cases, tmp_path):
    path, table = cases
    given = ("--target", "cases", "--task", "town", "--offset", "beside", "--exclude", "years")
    out = tmp_path / "surface.csv"
    run("surface", path, *given, "--lams", 4, "--out", out)
    found = regularization_surface(
        table[["age", "dose"]], table["cases"], task=table["town"], offset=table["beside"], lams=4, standardize=True
    )
    np.testing.assert_allclose(pd.read_csv(out)["objective"], found.to_dict()["objective"], rtol=1e-9)
    said = json.loads(run("compare", path, *given, "--models", "lasso,pooled ridge", "--cv", 3, "--json").stdout)
    result = compare_models(
        table[["age", "dose"]],
        table["cases"],
        task=table["town"],
        offset=table["beside"],
        models=["lasso", "pooled ridge"],
        cv=3,
        standardize=True,
    )
    assert sorted(row["nmse"] for row in said["models"]) == pytest.approx(sorted(result.error))


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({"years": 0.0}, ("--exposure", "years"), "column 'years' holds 0 in row 5; an exposure is > 0"),
        ({"years": -2.0}, ("--exposure", "years"), "holds -2 in row 5"),
        (
            {"years": "much"},
            ("--exposure", "years"),
            "--exposure: column 'years' holds numbers, but not in 1 of 120 rows",
        ),
        ({"beside": np.inf}, ("--offset", "beside"), "--offset: column 'beside' holds inf in row 5"),
        ({"beside": np.nan}, ("--offset", "beside"), "missing values in 'beside' (1), first in row 5"),
        ({}, ("--offset", "besides"), "--offset: there is no column 'besides'"),
        ({}, ("--offset", "beside", "--exposure", "years"), "--offset and --exposure: give one of them"),
        ({}, ("--offset", "beside", "--features", "age,beside"), "'beside' cannot be a feature"),
        ({}, ("--offset", "town"), "--task and --offset are both 'town'"),
    ],
)
def test_bad_offsets_are_refused_by_row_and_column(change, options, said, cases, tmp_path):
    table = cases[1].astype(dict.fromkeys(change, object))
    for name, value in change.items():
        table.loc[4, name] = value
    path = tmp_path / "bad.csv"
    table.to_csv(path, index=False)
    assert said in refused("fit", path, *OF_CASES, *options)


def test_an_exposure_without_rates_is_warned_of(cases):
    path, _ = cases
    given = (path, "--target", "cases", "--task", "town", "--exclude", "beside", "--exposure", "years")
    assert "which makes no rates" in run("fit", *given, "--lam", "0.1").stderr
    assert "which makes no rates" not in run("fit", *given, "--lam", "0.1", "--loss", "poisson").stderr


# ------------------------------------------------------------------ intervals


def test_predictions_come_with_intervals(data, new, tmp_path):
    out = tmp_path / "m.msmtfl"
    done("fit", data, *ROLES, "--exclude", OTHERS, "--model", "lasso", "--out", out)
    found = predicted(out, new, "--interval", "0.8")
    assert list(found.columns) == ["task", "prediction", "prediction_lower", "prediction_upper"]
    api = LassoMTLCV(task_column="town", standardize=True).fit(features_and_town(TABLE), TABLE.y)
    expected = api.predict_interval(features_and_town(NEW), level=0.8)
    np.testing.assert_allclose(found[["prediction_lower", "prediction_upper"]], expected, rtol=0, atol=1e-10)
    assert list(predicted(out, new).columns) == ["task", "prediction"]
    refused("predict", out, new, "--interval", "90", said=["--interval must lie between 0 and 1, got 90: 0.9 for 90"])
    refused("predict", out, new, "--interval", "0.9999", said=["largest level possible"], code=2)


def test_a_single_fit_has_no_intervals(model, new):
    refused("predict", model, new, "--interval", "0.9", said=["fitted with given parameters, without cross-validation"])


def test_rows_without_predictions_have_no_intervals(data, tmp_path):
    out, holes = tmp_path / "m.msmtfl", NEW.copy()
    done("fit", data, *ROLES, "--exclude", OTHERS, "--model", "lasso", "--out", out)
    holes.loc[1, FEATURES[0]] = np.nan
    path = written(holes, tmp_path / "holes.csv")
    found = predicted(out, path, "--interval", "0.8", "--drop-missing", "--quiet")
    assert found.loc[1].isna().tolist() == [False, True, True, True]
    assert found.drop(index=1).notna().all().all()


# ------------------------------------------------------------------ how sure


def test_inspect_declares_shared_features(tmp_path):
    rng = np.random.default_rng(0)
    X, site = rng.standard_normal((600, 20)), np.tile(["north", "south", "west"], 200)
    y = X[:, :8].sum(axis=1) + rng.standard_normal(600)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(20)]).assign(site=site, y=y)
    table, model = written(frame, tmp_path / "table.csv"), tmp_path / "model.msmtfl"
    done("fit", table, "--task", "site", "--target", "y", "--model", "lasso", "--out", model)
    shown = done("inspect", model, table, "--fdr", "0.2", "--at-least", "3")
    assert "features declared to matter in at least 3 of 3 tasks: 'f" in shown
    assert "declares at least 5 features at 20 %, or none" in shown
    found = json.loads(done("inspect", model, table, "--fdr", "0.2", "--json"))["shared_features"]
    assert {f"f{j}" for j in range(8)} <= set(found["features"])
    assert (found["at_least"], found["fdr"]) == (2, 0.2)
    for arguments, said in {
        (model, "--fdr", "0.1"): "--fdr and DATA, a table with the columns of the fit, go together",
        (model, table, "--fdr", "0.1", "--at-least", "4"): "--at-least must be between 1 and 3",
        (model, "--at-least", "2"): "are for --fdr, which is not given",
        (model, table, "--fdr", "0.1", "--target", "no"): "'no'",
    }.items():
        refused("inspect", *arguments, said=[said])


# ------------------------------------------------------------------ names of models


@pytest.mark.parametrize("name", ["pooled-ridge", "pooled ridge", "Pooled_Ridge"])
def test_names_of_models_may_be_typed_without_blanks(data, name):
    assert "PooledRidge" in run("fit", data, *ROLES, "--exclude", OTHERS, "--model", name).stdout


def test_models_are_compared_under_one_name_however_they_are_typed(data):
    shown = run("compare", data, *ROLES, "--exclude", OTHERS, "--models", "lasso,pooled-ridge", "--json").stdout
    assert [one["model"] for one in json.loads(shown)["models"]] in (
        ["lasso", "pooled ridge"],
        ["pooled ridge", "lasso"],
    )
    assert "Known: 'pooled-ridge'" in refused("fit", data, *ROLES, "--model", "pooled-rigde")
