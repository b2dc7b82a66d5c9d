"""What the command is told of single columns: bounds, and which of them belong together."""

import numpy as np
import pytest

from msmtfl import L12MTL, LassoMTL
from msmtfl.cli.commands import app
from msmtfl.model_files import load_model

typer_testing = pytest.importorskip("typer.testing")
pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    colour = rng.choice(list("pqrs"), 240)
    w, h, x = rng.standard_normal((3, 240))
    y = w - 0.7 * h + 0.3 * x + np.where(colour == "q", 1.0, 0.0) + 0.5 * rng.standard_normal(240)
    return pd.DataFrame({"t": rng.choice(list("abc"), 240), "colour": colour, "w": w, "h": h, "x": x, "y": y})


@pytest.fixture
def run(frame, tmp_path):
    frame.to_csv(tmp_path / "table.csv", index=False)

    def invoke(*options):
        arguments = [
            "fit",
            str(tmp_path / "table.csv"),
            "-y",
            "y",
            "-t",
            "t",
            "-q",
            "--out",
            str(tmp_path / "m.msmtfl"),
        ]
        return typer_testing.CliRunner().invoke(app, [*arguments, *options])

    return invoke


def test_groups_and_levels_enter_together(run, frame, tmp_path):
    found = run("--model", "lasso", "--lam", "0.4", "--one-hot", "--one-hot-groups", "--groups", "size=w,h")
    assert found.exit_code == 0, found.output
    model = load_model(tmp_path / "m.msmtfl")
    assert model.feature_groups_.tolist() == ["colour"] * 4 + ["size"] * 2 + ["x"]
    used = model.coef_ != 0.0
    assert (used[:, 4] == used[:, 5]).all()
    assert all(len(set(row)) == 1 for row in used[:, :4].tolist())
    wide = pd.get_dummies(frame[["t", "colour", "w", "h", "x"]], columns=["colour"], prefix_sep="=", dtype=float)
    groups = {"colour": [f"colour={one}" for one in "pqrs"], "size": ["w", "h"]}
    same = LassoMTL(0.4, standardize=True, feature_groups=groups, task_column="t").fit(
        wide[["t", *model.features_]], frame["y"]
    )
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=0, atol=1e-9)


def test_bounds_of_columns_and_of_all(run, frame, tmp_path):
    assert run("--model", "l12", "--lam", "0.1", "--bounds", "x=:0.05,h=-0.2:", "--exclude", "colour").exit_code == 0
    model = load_model(tmp_path / "m.msmtfl")
    assert (model.coef_[:, 2] == 0.05).any()
    assert (model.coef_[:, 2] <= 0.05).all()
    assert (model.coef_[:, 1] == -0.2).all()
    assert run("--model", "l12", "--lam", "0.1", "--positive", "--exclude", "colour").exit_code == 0
    model = load_model(tmp_path / "m.msmtfl")
    same = L12MTL(0.1, standardize=True, positive=True, task_column="t")
    same.fit(frame[["t", "w", "h", "x"]], frame["y"])
    np.testing.assert_array_equal(model.coef_, same.coef_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bounds", "z=0:1"], "--bounds: 'z' is not a feature"),
        (["--bounds", "0,1"], "--bounds is LOW:HIGH for all columns"),
        (["--bounds", "x=a:1"], "'a' in 'x=a:1' is no number"),
        (["--bounds", "x=1:0"], "low must not exceed high"),
        (["--positive", "--bounds", "x=-1:"], "contradicts --positive"),
        (["--groups", "w"], "--groups is NAME=COL,COL"),
        (["--groups", "size=w,z"], "--groups: 'z' is not a feature"),
        (["--groups", "a=w,h", "--groups", "b=w,x"], "in two groups"),
        (["--model", "robust", "--groups", "a=w,z"], "--groups: 'z' is not a feature"),
        (["--one-hot-groups", "--exclude", "colour"], "--one-hot has not encoded any column"),
    ],
)
def test_what_makes_no_sense_is_named(run, options, message):
    given = [] if "--model" in options else ["--model", "l12", "--lam", "0.1"]
    found = run(*given, "--one-hot", *options)
    assert found.exit_code == 2
    assert message in " ".join(found.output.split())
