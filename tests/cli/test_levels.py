"""Tasks with levels from the command line: --task region,school."""

import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from msmtfl import NestedMTL
from msmtfl.cli import app
from msmtfl.model_files import load_model


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    school = np.repeat(np.arange(8), 12)
    frame = pd.DataFrame(rng.standard_normal((96, 3)), columns=list("abc"))
    frame["region"], frame["school"] = np.where(school < 4, "north", "south"), school
    frame["score"] = frame["a"] * np.where(school < 4, 1.0, -1.0) + school + 0.1 * rng.standard_normal(96)
    frame.to_csv(tmp_path / "scores.csv", index=False)
    return tmp_path / "scores.csv", frame


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fit_is_that_of_python_and_predicts_new_schools(table, tmp_path):
    path, frame = table
    out, page = tmp_path / "model.msmtfl", tmp_path / "page.html"
    options = ["--task", "region,school", "--target", "score", "--model", "nested", "--lam", 0.05, "--no-standardize"]
    found = run("fit", path, *options, "--out", out, "--report", page, "--quiet")
    assert found.exit_code == 0, found.output
    model = load_model(out)
    same = NestedMTL(0.05, task_column=["region", "school"]).fit(frame.drop(columns="score"), frame["score"])
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-12)
    assert model.tasks_[0] == "north / 0"
    np.testing.assert_array_equal(model.effects("region")["north"], same.effects("region")["north"])
    assert "region" in page.read_text(encoding="utf-8")

    new = frame.tail(3).assign(region=["north", "north", "west"], school=["0", "77", "1"])
    new.to_csv(tmp_path / "new.csv", index=False)
    found = run("predict", out, tmp_path / "new.csv", "--quiet")
    assert found.exit_code != 0
    assert "north / 77" in found.output
    found = run(
        "predict", out, tmp_path / "new.csv", "--unknown-task", "common", "--out", tmp_path / "p.csv", "--quiet"
    )
    assert found.exit_code == 0, found.output
    got = pd.read_csv(tmp_path / "p.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = same.set_params(unknown_task="common").predict(new.drop(columns="score"))
    assert got["task"].tolist() == ["north / 0", "north / 77", "west / 1"]
    np.testing.assert_allclose(got["prediction"], wanted, atol=0.1)  # those of new tasks are rounded


def test_what_is_wrong_with_levels_is_named(table, tmp_path):
    path, frame = table
    options = ["--target", "score", "--model", "nested", "--lam", 0.05]
    found = run("fit", path, *options, "--task", "region,scool")
    assert found.exit_code != 0
    assert "no column" in found.output
    frame.assign(region=["a / b", *frame["region"][1:]]).to_csv(tmp_path / "odd.csv", index=False)
    found = run("fit", tmp_path / "odd.csv", *options, "--task", "region,school")
    assert found.exit_code != 0
    assert "'a / b'" in found.output
    frame.assign(region=[None, *frame["region"][1:]]).to_csv(tmp_path / "gap.csv", index=False)
    found = run("fit", tmp_path / "gap.csv", *options, "--task", "region,school")
    assert found.exit_code != 0
    assert "region,school" in found.output
