"""Classes and the automatic choice: the command, reports, pictures and tools."""

import io
import json
import re

import numpy as np
import pandas as pd
import pytest

from msmtfl import (
    MSMTFLCV,
    LassoMTLCV,
    MSMTFLClassifier,
    MSMTFLClassifierCV,
    MultiTaskAuto,
    MultiTaskAutoClassifier,
    bootstrap_intervals,
    compare_models,
    stability_selection,
)
from msmtfl._estimators.baselines.logistic import PooledLogisticCV
from msmtfl._estimators.baselines.ridge import PooledRidgeCV, RidgePerTaskCV
from msmtfl.export import to_onnx, to_sql
from msmtfl.model_files import load_model, save_model
from msmtfl.sharing import sharing_map

testing = pytest.importorskip("typer.testing")
app = pytest.importorskip("msmtfl.cli").app
describe, facts = (getattr(pytest.importorskip("msmtfl.cli.describing"), name) for name in ("describe", "facts"))
pytest.importorskip("bokeh")
plots = pytest.importorskip("msmtfl.plots")
report_html = pytest.importorskip("msmtfl.report").report_html
Figure = pytest.importorskip("matplotlib.figure").Figure

FEATURES = [f"f{j}" for j in range(4)]
ROLES = ("--target", "relapse", "--task", "town")
FEW = ("--models", "ridge per task,pooled ridge", "--cv", "2")


def make(n=150):
    rng = np.random.default_rng(0)
    X, code = rng.standard_normal((n, 4)), rng.permutation(n) % 3
    f = 2 * X[:, 0] - X[:, 1]
    return pd.DataFrame(X, columns=FEATURES).assign(
        town=np.array(["Bonn", "Kiel", "Ulm"])[code],
        relapse=np.where(f + rng.logistic(size=n) > 0, "yes", "no"),
        score=f + rng.standard_normal(n),
    )


TABLE = make()
X, TASK = TABLE[FEATURES].to_numpy(), TABLE["town"].to_numpy()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "visits.csv"
    TABLE.drop(columns="score").to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def chosen():
    """An automatic choice that is a model with stages, and one that is not."""
    sparse = {"msmtfl": MSMTFLCV(5, cv=2, entry_shares=0), "strong": LassoMTLCV([5.0], cv=2)}
    dense = {"ridge": RidgePerTaskCV(), "pooled": PooledRidgeCV(cv=2)}
    return [MultiTaskAuto(models, cv=2).fit(X, TABLE["score"], task=TASK) for models in (sparse, dense)]


def run(*arguments):
    return testing.CliRunner().invoke(app, [str(one) for one in arguments])


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def text_of(page):
    plain = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", plain).replace("&#39;", "'").split())


# ------------------------------------------------------------------ the command


def test_a_model_without_strengths_is_described_without_gaps():
    fitted = PooledLogisticCV(cv=2, penalty="l1").fit(X, TABLE["relapse"], task=TASK)
    assert describe(fitted).splitlines()[0] == "PooledLogisticCV: 3 tasks, 150 rows, 4 features; penalty = l1"
    dense = PooledRidgeCV(cv=2).fit(X, TABLE["score"], task=TASK)
    assert describe(dense).splitlines()[0] == "PooledRidgeCV: 3 tasks, 150 rows, 4 features"


@pytest.mark.slow
def test_scores_for_programs_say_what_they_are(data):
    told = json.loads(done("compare", data, *ROLES, *FEW, "--classify", "--json"))
    assert (told["measure"], told["reference"]) == ("relative_log_loss", "ridge per task")
    assert all("relative_log_loss" in row for row in told["models"])
    assert told["means"]["predicts"] == "the tasks' class frequencies"
    assert told["means"]["a_model_is_clearly_better"] is True
    best = min(row["relative_log_loss"] for row in told["models"])
    np.testing.assert_allclose(told["means"]["relative_log_loss"] + told["means"]["difference"], best)
    options = {"lams": 4, "cv": 2, "entry_shares": 0}
    fitted = MSMTFLClassifierCV(**options).fit(X, TABLE["relapse"], task=TASK)
    assert (facts(fitted)["scoring"], facts(fitted)["measure"]) == ("neg_log_loss", "relative_log_loss")
    fitted = MSMTFLClassifierCV(**options, scoring="roc_auc").fit(X, TABLE["relapse"], task=TASK)
    assert (facts(fitted)["scoring"], facts(fitted)["best_score"] > 0.5) == ("roc_auc", True)
    fitted = MSMTFLCV(4, selection="ebic").fit(X, TABLE["score"], task=TASK)
    assert facts(fitted)["scoring"] == "neg_ebic"
    assert "measure" not in facts(fitted)


def test_classes_that_no_feature_tells_apart_are_called_so(tmp_path):
    noise = TABLE.drop(columns="score").assign(relapse=np.random.default_rng(4).permutation(TABLE["relapse"]))
    noise.to_csv(tmp_path / "noise.csv", index=False)
    assert "No model predicts clearly better than the tasks' class frequencies: their relative log-loss is 1.0" in done(
        "compare", tmp_path / "noise.csv", *ROLES, *FEW, "--classify"
    )


@pytest.mark.slow
def test_compare_classifiers_gives_what_the_api_gives(data, tmp_path):
    options = ("--classify", "--out", tmp_path / "t.csv", "--report", tmp_path / "r.html")
    told = json.loads(done("compare", data, *ROLES, *FEW, *options, "--json"))
    api = compare_models(
        TABLE[[*FEATURES, "town"]],
        TABLE["relapse"],
        task_column="town",
        models=["ridge per task", "pooled ridge"],
        classify=True,
        cv=2,
        standardize=True,
    )
    assert told["best"] == api.best
    found = {row["model"]: (row["relative_log_loss"], row["auc"]) for row in told["models"]}
    for k, name in enumerate(api.models):
        np.testing.assert_allclose(found[name], (api.error[k], api.auc[k]), rtol=1e-6)
    assert {"relative_log_loss", "auc"} <= set(pd.read_csv(tmp_path / "t.csv"))
    page = text_of((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "Held-out relative log-loss by town and model" in page
    assert "classify=True" in page
    assert "nMSE" not in page


@pytest.mark.slow
def test_the_automatic_choice_of_a_classifier_is_told_everywhere(data, tmp_path):
    path, page = tmp_path / "m.msmtfl", tmp_path / "r.html"
    said = done("fit", data, *ROLES, "--model", "auto-classifier", "--cv", 2, "--out", path, "--report", page)
    model = load_model(path)
    choice = model.provenance_["choice"]
    reason = f"chosen automatically: {choice['reason']}"
    assert said.startswith(reason)
    assert done("inspect", path).startswith(reason)
    assert json.loads(done("inspect", path, "--json"))["chosen"] == choice["chosen"]
    assert choice["reason"] in text_of(page.read_text(encoding="utf-8"))
    predicted = done("predict", path, data)
    assert predicted.splitlines()[0] == "task,prediction,probability[no],probability[yes]"


@pytest.mark.slow
def test_a_classifier_has_a_report(data, tmp_path):
    page = tmp_path / "r.html"
    done("fit", data, *ROLES, "--model", "classifier", "--cv", 2, "--report", page)
    said = text_of(page.read_text(encoding="utf-8"))
    assert re.search(r"the log-loss is [\d.]+ % of that of the class shares", said)
    assert "Share of yes" in said
    assert re.search(r"[Tt]he odds of .* = yes", said), said[:3000]


def test_text_as_a_target_is_refused_with_the_way_out(data):
    for command in (("fit",), ("compare", *FEW)):
        result = run(command[0], data, *ROLES, *command[1:])
        assert result.exit_code == 2
        assert "msmtfl fit --classify, msmtfl compare --classify" in " ".join(result.stderr.split())
    result = run("compare", data, *ROLES, "--models", "lasso,dirt", "--classify")
    assert result.exit_code == 2
    assert "unknown model(s) 'dirt'." in " ".join(result.stderr.split())


# ------------------------------------------------------------------ reports and pictures of classifiers


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_held_out_errors_of_a_report_are_relative_to_class_shares(classes):
    y = TABLE["relapse"].to_numpy() if classes == 2 else np.digitize(TABLE["score"], [-1, 1])
    model = MSMTFLClassifierCV(3, cv=2, theta_ratios=[4.0, np.inf], entry_shares=0).fit(X, y, task=TASK)
    facts = pytest.importorskip("msmtfl.report.known.facts").ModelFacts(model)
    log_loss, weight = (model.cv_results_[name][model.best_index_] for name in ("test_log_loss", "test_weight"))
    for i, label in enumerate(model.tasks_):
        nothing = loss = 0.0
        for k, one in enumerate(model.classes_ if classes > 2 else model.classes_[1:]):
            p, column = np.mean(y[label == TASK] == one), i * (classes if classes > 2 else 1) + k
            nothing -= p * np.log(p) + (1 - p) * np.log(1 - p)
            loss += np.average(log_loss[:, column], weights=weight[:, column])
        np.testing.assert_allclose(facts.errors.relative[i], loss / nothing)
    said = text_of(report_html(model))
    assert "relative log-loss" in said
    assert "nMSE" not in said
    norms = plots.RowNormDisplay.from_estimator(model, X, y, task=TASK, ax=Figure().subplots()).norms
    np.testing.assert_allclose(norms[model.n_stages_], model.row_norms_)
    assert "log loss" in plots.SurfaceDisplay.from_estimator(model, ax=Figure().subplots()).ax_.get_title(loc="left")
    gain = plots.GainDisplay.from_estimator(model, ax=Figure().subplots())
    assert gain.ax_.get_xlabel().startswith("held-out relative log-loss of MSMTFLClassifier")


def test_pipelines_are_not_exported_and_the_error_says_what_to_do():
    pipeline = pytest.importorskip("sklearn.pipeline").make_pipeline(LassoMTLCV())
    for export in (to_sql, to_onnx):
        with pytest.raises(TypeError, match=r"Export its last step, pipeline\[-1\].*standardize=True"):
            export(pipeline)


# ------------------------------------------------------------------ tools on an automatic choice


def test_tools_take_the_model_that_was_chosen(chosen):
    auto, y = chosen[0], TABLE["score"]
    best = auto.best_estimator_
    assert auto.chosen_ == "msmtfl"
    for display in (plots.RowNormDisplay, plots.SurfaceDisplay, plots.GainDisplay, plots.PathDisplay):
        one, other = (display.from_estimator(model, ax=Figure().subplots()) for model in (auto, best))
        assert one.ax_.get_title(loc="left") == other.ax_.get_title(loc="left")
    three = [plots.StageHistoryDisplay.from_estimator(model, ax=Figure().subplots(1, 3)) for model in (auto, best)]
    np.testing.assert_array_equal(three[0].objective, three[1].objective)
    assert repr(sharing_map(auto)) == repr(sharing_map(best))
    for tool in (stability_selection, bootstrap_intervals):
        options = {"n_pairs": 2} if tool is stability_selection else {"n_boot": 50}
        one, other = (tool(model, X, y, task=TASK, **options) for model in (auto, best))
        assert repr(one) == repr(other)
    assert to_sql(auto) == to_sql(best)
    with pytest.raises(TypeError, match=r"MultiTaskAuto has not chosen a model yet: fit it first"):
        stability_selection(MultiTaskAuto(), X, y, task=TASK)


@pytest.mark.slow
def test_a_report_of_an_automatic_choice_says_why(chosen, tmp_path):
    for auto in chosen:
        assert auto.reason_ in text_of(report_html(auto))
    save_model(chosen[0], tmp_path / "a.msmtfl")
    loaded = load_model(tmp_path / "a.msmtfl")
    assert chosen[0].reason_ in text_of(report_html(loaded))
    save_model(loaded, tmp_path / "b.msmtfl", provenance={"by": "hand"})  # once more: still known
    assert load_model(tmp_path / "b.msmtfl").provenance_["choice"]["reason"] == chosen[0].reason_
    loaded.fit(X, TABLE["score"], task=TASK)  # another fit: nobody chose it
    save_model(loaded, tmp_path / "b.msmtfl")
    assert "choice" not in load_model(tmp_path / "b.msmtfl").provenance_


@pytest.mark.slow
def test_a_choice_among_classifiers_has_a_report_with_its_comparison():
    models = {"weak": MSMTFLClassifier(0.01), "strong": MSMTFLClassifier(0.1)}
    auto = MultiTaskAutoClassifier(models, cv=2).fit(X, TABLE["relapse"], task=TASK)
    said = text_of(report_html(auto))
    assert auto.reason_ in said
    assert "Comparison of models" in said


def test_predictions_come_with_sets_of_classes(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((120, 3)), columns=list("abc"))
    table["town"] = np.repeat(["north", "south"], 60)
    table["state"] = np.where(table.a + rng.logistic(size=120) > 0, "ill", "well")
    table.to_csv(tmp_path / "data.csv", index=False)
    out = tmp_path / "m.msmtfl"
    options = ["--target", "state", "--task", "town", "--model", "classifier", "--out", out, "--quiet"]
    fit = testing.CliRunner().invoke(app, [str(one) for one in ("fit", tmp_path / "data.csv", *options)])
    assert fit.exit_code == 0, fit.output
    called = ("predict", out, tmp_path / "data.csv", "--interval", "0.8")
    found = pd.read_csv(
        io.StringIO(testing.CliRunner().invoke(app, list(map(str, called))).stdout), keep_default_na=False
    )
    assert list(found.columns[:3]) == ["task", "prediction", "prediction_set"]
    assert set(found.prediction_set) <= {"", "ill", "well", "ill;well"}
    held = [state in text.split(";") for state, text in zip(table.state, found.prediction_set, strict=True)]
    assert 0.7 < np.mean(held) < 0.95


# ------------------------------------------------------------------ the classifier of any model


@pytest.mark.parametrize(("model", "kind"), [("l12", "L12MTLClassifier"), ("shared", "SharedMTLClassifier")])
def test_classify_takes_the_classifier_of_a_model(data, tmp_path, model, kind):
    out = tmp_path / "model.msmtfl"
    given = ("--lam", "0.05") if model == "l12" else ("--lam-common", "0.1", "--lam-deviation", "0.05")
    told = testing.CliRunner().invoke(
        app, ["fit", str(data), *ROLES, "--model", model, "--classify", *given, "--out", str(out)]
    )
    assert told.exit_code == 0, told.output
    assert type(load_model(out)).__name__ == kind
    assert load_model(out).classes_.tolist() == ["no", "yes"]


def test_counts_by_any_model(tmp_path):
    path, out = tmp_path / "counts.csv", tmp_path / "model.msmtfl"
    counts = np.random.default_rng(0).poisson(np.exp(0.5 * TABLE["f0"]))
    TABLE.drop(columns=["score", "relapse"]).assign(relapse=counts).to_csv(path, index=False)
    options = ["--model", "dirty", "--lam-s", "0.05", "--lam-b", "0.1", "--loss", "poisson", "--out", str(out)]
    told = testing.CliRunner().invoke(app, ["fit", str(path), *ROLES, *options])
    assert told.exit_code == 0, told.output
    assert load_model(out).loss == "poisson"
    assert (load_model(out).predict(TABLE.drop(columns=["score", "relapse"])) > 0).all()


def test_the_command_fits_all_classes_in_one_loss_and_amounts(tmp_path):
    table = TABLE.assign(kind=np.digitize(TABLE["score"], [-1.0, 1.0]), cost=np.exp(0.3 * TABLE["score"]))
    file, model = tmp_path / "visits.csv", tmp_path / "model.msmtfl"
    table.drop(columns=["score", "relapse"]).to_csv(file, index=False)
    runner, roles = testing.CliRunner(), ("-t", "town", "--out", str(model))
    options = ("-y", "kind", "--classify", "--model", "msmtfl", "--lam", "0.02", "--multinomial", "--exclude", "cost")
    done = runner.invoke(app, ["fit", str(file), *options, *roles])
    assert done.exit_code == 0, done.output
    fitted = load_model(model)
    assert fitted.multinomial
    assert facts(fitted)["loss"] == "softmax"
    done = runner.invoke(app, ["predict", str(model), str(file)])
    shares = pd.read_csv(io.StringIO(done.stdout)).drop(columns=["prediction"]).filter(regex="^p")
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-6)
    options = ("-y", "cost", "--model", "msmtfl", "--lam", "0.02", "--loss", "tweedie(1.7)", "--exclude", "kind")
    done = runner.invoke(app, ["fit", str(file), *options, *roles])
    assert done.exit_code == 0, done.output
    assert load_model(model).loss == "tweedie(1.7)"
    refused = runner.invoke(
        app, ["fit", str(file), "-y", "kind", "-t", "town", "--classify", "--model", "l12", "--multinomial"]
    )
    assert refused.exit_code == 2
    assert "--multinomial: not for l12" in refused.output
