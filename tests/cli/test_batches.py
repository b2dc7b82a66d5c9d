"""`msmtfl fit` on Parquet files that are too large for memory: rows are read in batches."""

import json

import numpy as np
import pandas as pd
import pytest

from msmtfl._runtime.memory import _of_container, free_memory
from msmtfl.model_files import load_model

testing = pytest.importorskip("typer.testing")
pytest.importorskip("pyarrow")
app = pytest.importorskip("msmtfl.cli").app
GIVEN = ("-y", "wear", "-t", "machine")


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((400, 4)), columns=list("abcd"))
    table["machine"] = np.r_[rng.integers(0, 3, 396), [9] * 4]
    table["wear"] = table["a"] - 0.5 * table["b"] + 0.3 * rng.standard_normal(400)
    table["name"] = [f"row {i}" for i in range(400)]
    table["weight"] = rng.uniform(0.5, 2.0, 400)
    for k in range(4):
        table[100 * k : 100 * (k + 1)].to_parquet(folder / f"{k}.parquet", index=False)
    return folder


def run(*arguments):
    return testing.CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.mark.parametrize("options", [(), ("--weight", "weight"), ("--min-rows", "10", "--features", "a,b,c")])
def test_batches_give_the_model_that_rows_give(parts, tmp_path, options):
    found = {}
    for way in ([], ["--stream"]):
        out = tmp_path / f"m{len(way)}.msmtfl"
        given = ("--id", "name", "--model", "lasso", "--lam", "0.05", "--out", out)
        exclude = () if "--weight" in options or "--features" in options else ("--exclude", "weight")
        done = run("fit", parts, *GIVEN, *given, *options, *exclude, *way)
        assert done.exit_code == 0, done.output
        found[len(way)] = load_model(out)
    rows, batches = found[0], found[1]
    assert batches.tasks_.tolist() == rows.tasks_.tolist() == [0, 1, 2] + [9] * ("--min-rows" not in options)
    assert batches.features_.tolist() == rows.features_.tolist()
    np.testing.assert_allclose(batches.coef_, rows.coef_, atol=1e-12)
    np.testing.assert_allclose(batches.intercept_, rows.intercept_, atol=1e-12)
    predicted = run("predict", tmp_path / "m1.msmtfl", parts / "0.parquet", "--out", tmp_path / "p.csv")
    assert predicted.exit_code == 0, predicted.output
    assert len(pd.read_csv(tmp_path / "p.csv")) == 100


def test_a_table_too_large_for_memory_is_read_in_batches_by_itself(parts, tmp_path, monkeypatch):
    monkeypatch.setattr("msmtfl.cli.inputs.streaming.free_memory", lambda: 2.0**12)
    page = tmp_path / "r.html"
    options = ("--id", "name", "--exclude", "weight", "--model", "msmtfl", "--cv", "3", "--report", page)
    done = run("fit", parts, *GIVEN, *options, "--out", tmp_path / "m.json")
    assert done.exit_code == 0, done.output
    assert "too many for the 0 MB of memory that are free: rows are read in batches" in done.stderr
    assert json.loads((tmp_path / "m.json").read_text())["provenance"]["user"]["rows"] == 400
    assert "What predicts wear in 4 machines" in page.read_text()
    one = run("fit", parts, *GIVEN, "--features", "a", "--impute", "mean")
    assert one.exit_code == 2
    assert "--impute: not possible then" in one.stderr
    monkeypatch.setattr("msmtfl.cli.inputs.streaming.free_memory", lambda: 2.0**40)
    assert "in batches" not in run("fit", parts, *GIVEN, *options).stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--one-hot",), "--one-hot: not possible then. Prepare these columns"),
        (("--loss", "huber", "--model", "msmtfl"), "not enough for loss='huber'. Take --model msmtfl"),
        (("--model", "pooled-lasso"), "not enough for this model"),
        (("--exclude", "nothing"), "--exclude: there is no column 'nothing'"),
        (("--min-rows", "1000", "--exclude", "name"), "--min-rows: no task has 1000 rows"),
        ((), "name"),  # text, in the words of the reader of Parquet
    ],
)
def test_what_batches_cannot_do_is_said(parts, options, said):
    found = run("fit", parts, *GIVEN, *options, "--stream")
    assert found.exit_code == 2, found.output
    assert said in found.stderr


def test_only_parquet_is_read_in_batches(tmp_path):
    (tmp_path / "t.csv").write_text("a,machine,wear\n1,2,3\n")
    found = run("fit", tmp_path / "t.csv", *GIVEN, "--stream")
    assert found.exit_code == 2
    assert "t.csv: it is not Parquet" in found.stderr


def test_free_memory_is_that_of_the_container(tmp_path):
    assert free_memory() > 2**20
    assert _of_container(tmp_path) == np.inf
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    assert _of_container(tmp_path) == 600
    (tmp_path / "memory.max").write_text("max\n")
    assert _of_container(tmp_path) == np.inf


@pytest.fixture(scope="module")
def models(parts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    given = ("--id", "name", "--model", "l12", "--exclude", "weight")
    table = pd.concat([pd.read_parquet(parts / f"{k}.parquet") for k in range(4)])
    table["wear"] = np.where(table["wear"] > 0, "worn", "new")
    table.to_csv(folder / "classes.csv", index=False)
    for name, data, options in (
        ("numbers", parts, ("--cv", "3")),
        ("classes", folder / "classes.csv", ("--classify", "--lam", "0.02")),
    ):
        done = run("fit", data, *GIVEN, *given, *options, "--out", folder / f"{name}.msmtfl")
        assert done.exit_code == 0, done.output
    return folder


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("options", [("numbers",), ("numbers", "--interval", "0.8"), ("classes",)])
def test_batches_are_predicted_as_tables_are(parts, models, tmp_path, monkeypatch, options, ending):
    monkeypatch.setattr("msmtfl.cli.inputs.batches.ROWS", 37)
    model, *options = options
    for name, way in (("whole", []), ("parts", ["--stream"])):
        out = tmp_path / f"{name}.{ending}"
        done = run("predict", models / f"{model}.msmtfl", parts, *options, "--out", out, *way)
        assert done.exit_code == 0, done.output
    read = pd.read_csv if ending == "csv" else pd.read_parquet
    whole, in_parts = (read(tmp_path / f"{name}.{ending}") for name in ("whole", "parts"))
    assert len(whole) == 400
    assert whole["name"].iloc[-1] == "row 399"
    pd.testing.assert_frame_equal(in_parts, whole, rtol=1e-12)


def test_batches_to_predict_say_what_is_missing_and_where(parts, models, tmp_path, monkeypatch):
    monkeypatch.setattr("msmtfl.cli.inputs.batches.ROWS", 37)
    last = pd.read_parquet(parts / "3.parquet").drop(columns="name")
    last.loc[90, "a"] = np.nan
    for k in range(3):
        pd.read_parquet(parts / f"{k}.parquet").drop(columns="name").to_parquet(tmp_path / f"{k}.parquet")
    last.to_parquet(tmp_path / "3.parquet")
    model, out = models / "numbers.msmtfl", tmp_path / "out" / "p.csv"
    out.parent.mkdir()
    data = [tmp_path / f"{k}.parquet" for k in range(4)]
    found = run("predict", model, *data, "--stream", "--out", out)
    assert found.exit_code == 2
    assert "3.parquet: missing values in 'a' (1), first in row 91" in found.stderr
    assert not list(out.parent.iterdir())  # not half a table either
    found = run("predict", model, *data, "--stream", "--out", out, "--drop-missing")
    assert "1 of 400 predictions are left empty" in found.stderr
    assert "There is no column 'name'" in found.stderr
    assert pd.read_csv(out)["prediction"].isna().to_numpy().nonzero()[0].tolist() == [390]
    shown = run("predict", model, *data, "--stream", "--drop-missing", "-q")
    assert shown.stdout == out.read_text()
    monkeypatch.setattr("msmtfl.cli.inputs.streaming.free_memory", lambda: 2.0**12)
    by_itself = run("predict", model, *data, "--drop-missing")
    assert by_itself.stdout == shown.stdout
    assert "of memory that are free: rows are read in batches" in by_itself.stderr
    for more, said in (
        (["--json"], "--json needs all of them"),
        (["--out", tmp_path / "p.json"], "written as .csv or"),
    ):
        assert said in run("predict", model, *data, "--stream", *more).stderr


def test_a_comparison_beyond_memory_takes_a_share_of_the_rows(parts, tmp_path, monkeypatch):
    monkeypatch.setattr("msmtfl.cli.inputs.streaming.free_memory", lambda: 2.0**12)
    given = ("-y", "wear", "-t", "machine", "--features", "a,b,c", "--models", "lasso,pooled-ridge", "--cv", "3")
    found = run("compare", parts, *given)
    assert found.exit_code == 2
    assert "comparing models needs the rows themselves. Compare them on a share: --sample 0.1." in found.stderr
    found = run("compare", parts, *given, "--sample", "0.5", "--out", tmp_path / "c.csv")
    assert found.exit_code == 0, found.output
    drawn = int(found.stderr.split(" of 400 rows are drawn")[0].split()[-1])
    assert 150 < drawn < 250
    assert "sharing usually gains less" in found.stderr
    whole = pd.concat([pd.read_parquet(parts / f"{k}.parquet") for k in range(4)])
    whole.to_csv(tmp_path / "t.csv", index=False)
    again = run("compare", tmp_path / "t.csv", *given, "--sample", "0.5")
    assert f"{drawn} of 400 rows are drawn" in again.stderr
    assert again.stdout == found.stdout
    assert "--sample must lie between 0 and 1, got 2" in run("compare", parts, *given, "--sample", "2").stderr
