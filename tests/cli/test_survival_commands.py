"""Times until an event from the command line."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from msmtfl import L12MTL
from msmtfl.cli import app
from msmtfl.model_files import load_model

OPTIONS = ["--task", "clinic", "--loss", "cox", "--quiet"]


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X, clinic = rng.standard_normal((90, 3)), np.repeat(["n", "s", "w"], 30)
    time, end = rng.exponential(np.exp(-X[:, 0])), rng.exponential(2.0, 90)
    frame = pd.DataFrame(X, columns=list("abc")).assign(clinic=clinic)
    frame["days"], frame["died"] = np.ceil(50 * np.minimum(time, end)), (time <= end).astype(int)
    frame.to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv", frame


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_a_fit_is_that_of_python(table, tmp_path):
    path, frame = table
    out, report = tmp_path / "model.msmtfl", tmp_path / "page.html"
    given = ["--time", "days", "--event", "died", "--model", "l12", "--lam", 0.1]
    found = run("fit", path, *OPTIONS, *given, "--no-standardize", "--out", out, "--report", report)
    assert found.exit_code == 0, found.output
    model = load_model(out)
    same = L12MTL(0.1, loss="cox").fit(frame[list("abc")], frame[["days", "died"]], task=frame["clinic"])
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-12)
    assert model.predict_survival_function(frame[model.feature_names_in_]).shape[0] == 90
    text = report.read_text(encoding="utf-8")
    assert "hazard ratio" in text
    assert "proportional to exp(" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--time", "days"], "give --time, the column of times, and --event"),
        (["--target", "days", "--event", "died"], "in the place of --target"),
        (["--time", "days", "--event", "a"], "row 1: times must be at least 0, and events 0 or 1"),
        (["--time", "days", "--event", "dead"], "dead"),
    ],
)
def test_columns_that_do_not_suit_are_refused(table, options, words):
    found = run("fit", table[0], *OPTIONS, *options)
    assert found.exit_code != 0
    assert words in " ".join(found.output.split())


def test_a_search_says_how_well_the_order_is_predicted(table, tmp_path):
    given = ["--task", "clinic", "--loss", "cox", "--time", "days", "--event", "died", "--cv", "3"]
    found = run("fit", table[0], *given, "--out", tmp_path / "m.msmtfl")
    assert found.exit_code == 0, found.output
    model = load_model(tmp_path / "m.msmtfl")
    assert f"held-out partial deviance: {-model.cross_fitted_score_:.4g}, each fold" in found.stdout
    low, high = model.concordance_.min(), model.concordance_.max()
    assert f"held-out C-index: {low:.3f} to {high:.3f}, by task (0.5 is chance, 1 is perfect)" in found.stdout
    assert "neg_deviance" not in found.stdout
    drawn = run("plot", tmp_path / "m.msmtfl", "gain", "--out", tmp_path / "g.png")
    assert "`msmtfl compare --loss cox --plot` shows it" in drawn.stderr


def test_other_losses_have_a_target(table):
    assert "--target: name the column" in " ".join(run("fit", table[0], "--task", "clinic").output.split())
    both = run("fit", table[0], "--task", "clinic", "--target", "a", "--time", "days")
    assert "are for --loss cox" in " ".join(both.output.split())
