"""`msmtfl table` and `msmtfl plot`."""

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest

from msmtfl import MSMTFLCV, debiased_intervals
from msmtfl.model_files import load_model

testing = pytest.importorskip("typer.testing")
pytest.importorskip("matplotlib")
app = pytest.importorskip("msmtfl.cli").app


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("papers")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((120, 4)) * [1, 1e5, 1, 1], columns=["age", "cost", "dose", "none"])
    frame["town"] = np.repeat(["T10", "T2", "T1"], 40)
    frame["score"] = 2 * frame["age"] - 1e-5 * frame["cost"] + 0.5 * rng.standard_normal(120)
    frame.to_csv(path / "scores.csv", index=False)
    found = run("fit", path / "scores.csv", "-y", "score", "-t", "town", "--cv", "3", "--out", path / "m.msmtfl")
    assert found.exit_code == 0, found.output
    return path


def run(*arguments):
    return testing.CliRunner().invoke(app, [str(one) for one in arguments])


def test_a_table_on_stdout_says_the_target_and_holds_the_coefficients(folder):
    text = run("table", folder / "m.msmtfl").stdout
    assert "for score in 3 towns (120 samples)" in text
    assert next(line for line in text.splitlines() if line.startswith("feature")).split()[1:] == ["T1", "T2", "T10"]
    read = list(csv.DictReader(io.StringIO(run("table", folder / "m.msmtfl", "--format", "csv").stdout)))
    model = load_model(folder / "m.msmtfl")
    line = next(one for one in read if one["feature"] == "age")
    assert float(line["T10"]) == model.coef_[model.tasks_.tolist().index("T10"), model.features_.tolist().index("age")]


@pytest.mark.parametrize("ending", ["tex", "docx", "html", "md", "csv", "xlsx"])
def test_every_ending_is_written_and_says_the_same_as_python(folder, tmp_path, ending):
    from msmtfl.tables import coefficient_table

    out = tmp_path / f"t.{ending}"
    found = run("table", folder / "m.msmtfl", "--out", out, "--per", "sd", "--long")
    assert found.exit_code == 0
    assert "Coefficients of MSMTFL for score" in found.stderr
    table = coefficient_table(load_model(folder / "m.msmtfl"), per="sd", layout="long")
    expected = table.content(out)
    assert out.read_bytes() == (expected.encode() if isinstance(expected, str) else expected)


def test_intervals_are_those_of_python(folder, tmp_path):
    found = run("table", folder / "m.msmtfl", "--intervals", folder / "scores.csv", "--level", "0.8", "--format", "csv")
    line = next(one for one in csv.DictReader(io.StringIO(found.stdout)) if one["feature"] == "age")
    frame = pd.read_csv(folder / "scores.csv")
    X, y = frame.drop(columns=["score", "town"]), frame["score"]
    expected = debiased_intervals(MSMTFLCV(standardize=True, cv=3), X, y, task=frame["town"], level=0.8)
    i = expected.tasks.tolist().index("T2")
    assert float(line["T2 lower"]) == pytest.approx(expected.lower[i, 0], rel=1e-9)
    assert float(line["T2 upper"]) == pytest.approx(expected.upper[i, 0], rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["table", "M", "--out", "x.pdf"], "the ending says what to write"),
        (["table", "M", "--long", "--wide"], "--wide and --long: give one of them"),
        (["table", "M", "--per", "metre"], "--per must be unit or sd"),
        (["table", "M", "--level", "0.9"], "--level is of --intervals"),
        (["table", "M", "--ratios"], "exponentials of its coefficients mean nothing"),
        (["table", "M", "--format", "docx"], "--format must be one of"),
        (["plot", "M", "coefficient"], "no picture 'coefficient'. Known: 'coefficients'"),
        (["plot", "M", "path"], "a path needs the data"),
        (["plot", "M", "gain", "--scale", "row"], "--scale is not for the picture 'gain'"),
        (["plot", "M", "coefficients", "--out", "x.doc"], ".png, .svg or .pdf"),
    ],
)
def test_what_cannot_be_made_is_refused_in_words(folder, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    found = run(*(folder / "m.msmtfl" if one == "M" else one for one in arguments))
    assert found.exit_code == 2
    assert said in found.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_picture_is_written_in_the_format_of_its_ending(folder, tmp_path):
    for ending, start in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")):
        out = tmp_path / f"map.{ending}"
        assert run("plot", folder / "m.msmtfl", "coefficients", "--out", out).exit_code == 0
        assert out.read_bytes().startswith(start)


@pytest.mark.slow
def test_every_kind_of_picture_is_drawn(folder, tmp_path):
    from msmtfl.cli.papers import KINDS

    for kind in KINDS:
        out = tmp_path / f"{kind}.png"
        more = ["--data", folder / "scores.csv"] if kind == "path" else []
        found = run("plot", folder / "m.msmtfl", kind, "--out", out, *more)
        assert found.exit_code == 0, found.output
        assert out.stat().st_size > 5000


def test_the_error_of_new_tasks_is_in_what_compare_prints(folder):
    roles = ("-y", "score", "-t", "town", "--cv", "3", "--models", "lasso,pooled lasso")
    text = run("compare", folder / "scores.csv", *roles, "--leave-one-task-out").stdout
    assert "new task" in text.splitlines()[1]
    assert "a task that had no part in the fit" in text
    assert "new task" not in run("compare", folder / "scores.csv", *roles).stdout


def test_an_error_rate_of_nothing_is_refused(folder):
    found = run("inspect", folder / "m.msmtfl", folder / "scores.csv", "--fdr", "0")
    assert found.exit_code == 2
    assert "--fdr must lie between 0 and 1, got 0" in found.stderr


def test_classes_with_semicolons_are_quoted_in_sets():
    from msmtfl.cli.using import _listed

    assert _listed(["a;b", "c", 'd"']) == '"a;b";c;"d"""'


def test_a_dash_is_standard_output(folder):
    plain = run("predict", folder / "m.msmtfl", folder / "scores.csv")
    assert run("predict", folder / "m.msmtfl", folder / "scores.csv", "--out", "-").stdout == plain.stdout
    assert run("table", folder / "m.msmtfl", "--out", "-").stdout == run("table", folder / "m.msmtfl").stdout


def test_what_a_model_does_not_have_is_said_in_the_words_of_the_command(folder, tmp_path):
    """No class of Python is named, and there is a way out."""
    data, out = folder / "scores.csv", tmp_path / "p.png"
    asked = {
        ("--model", "lasso", "--lam", "0.1"): [("plot", "gain"), ("plot", "surface")],
        ("--model", "pooled-lasso"): [("plot", "gain"), ("plot", "stages"), ("table", "--intervals", data)],
        ("--model", "msmtfl", "--lam", "0.1", "--loss", "huber"): [("table", "--intervals", data)],
        ("--model", "partial-pooling"): [("plot", "gain"), ("plot", "similarity")],
    }
    for options, pictures in asked.items():
        model = tmp_path / "m.msmtfl"
        assert run("fit", data, "-y", "score", "-t", "town", *options, "--out", model, "-q").exit_code == 0
        for command, *what in pictures:
            found = run(command, model, *what, "--out", out if command == "plot" else tmp_path / "t.csv")
            assert found.exit_code == 2
            assert "CV" not in found.stderr
            assert "MTL" not in found.stderr
            ways = ("`msmtfl compare --plot`", "the model leaves", "Leave", "this model")
            assert any(way in found.stderr for way in ways)


def test_counts_are_compared_by_their_deviance(tmp_path):
    from msmtfl import compare_models

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((90, 2)), columns=["age", "dose"])
    frame["town"], frame["years"] = np.repeat(["a", "b", "c"], 30), rng.uniform(0.5, 2.0, 90)
    frame["cases"] = rng.poisson(frame["years"] * np.exp(0.5 * frame["age"] + 0.5))
    frame.to_csv(tmp_path / "c.csv", index=False)
    options = ("-y", "cases", "-t", "town", "--models", "lasso,l12", "--cv", "3", "--loss", "poisson")
    found = run("compare", tmp_path / "c.csv", *options, "--exposure", "years", "--json")
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)
    expected = compare_models(
        frame[["age", "dose"]],
        frame["cases"],
        task=frame["town"],
        offset=np.log(frame["years"]),
        models=["lasso", "l12"],
        loss="poisson",
        standardize=True,
        cv=3,
    )
    assert said["measure"] == "relative_deviance"
    assert [row["relative_deviance"] for row in said["models"]] == pytest.approx(sorted(expected.error), rel=1e-9)
    wrong = run("compare", tmp_path / "c.csv", *options[:-1], "cubic")
    assert wrong.exit_code == 2
    assert "loss must be one of 'squared'" in wrong.stderr
