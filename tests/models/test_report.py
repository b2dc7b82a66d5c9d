"""The HTML report: what it says is what the model holds, names are text, nothing is asked of the network."""

import base64
import copy
import dataclasses
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from msmtfl import (
    L12MTL,
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    DirtyMTLCV,
    LassoMTL,
    LassoMTLCV,
    MSMTFLClassifier,
    PartialPooling,
    PartialPoolingCV,
    SharedMTL,
    SharedMTLCV,
    compare_models,
)
from msmtfl._estimators.regression import MultiTaskLinear
from msmtfl._runtime.drawing import new_figure, pyplot
from msmtfl.model_files import load_model, save_model
from msmtfl.plots import CoefficientMapDisplay, GainDisplay
from msmtfl.report import charts, model_tables, report_html, sentences, write_report
from msmtfl.report import page as report_page
from msmtfl.report.known.facts import ModelFacts
from msmtfl.report.page import _asset
from msmtfl.report.pictures import Picture
from msmtfl.report.words import typeset
from msmtfl.sharing import sharing_map

for needed in ("bokeh", "jinja2", "matplotlib"):
    pytest.importorskip(needed)

TASKS = np.array(["east", "north", "south"])
EVIL = ["<script>alert(1)</script>", "</script><!-- <b>", "$$x$$", "a & b \"q\" 's'", "{{ 7 * 7 }}", "line\nbreak"]
EVIL_TASKS = np.array(["</script><img src=x onerror=alert(1)>", "&lt;i&gt;", "\\(t\\)"])
VOID = {"meta", "input", "img", "br"}


def make_data(names=None, tasks=TASKS, n=30, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((3 * n, d)), np.repeat(tasks, n)
    y = 2 * X[:, 0] - X[:, 1] + np.where(task == tasks[1], X[:, 2], 0) + 0.5 * rng.standard_normal(3 * n)
    return pd.DataFrame(X, columns=names or [f"x{j}" for j in range(d)]), y, task


def fitted(model, **options):
    X, y, task = make_data(**options)
    return model.fit(X, y, task=task)


@pytest.fixture(scope="module")
def model():
    return fitted(MSMTFLCV(lams=8, cv=3, entry_shares=0))


@pytest.fixture(scope="module")
def simple():
    return fitted(LassoMTL(lam=0.01))


@pytest.fixture(scope="module")
def comparison():
    X, y, task = make_data()
    models = {"lasso": LassoMTL(0.05), "<b>strong</b>": LassoMTL(0.5)}
    return compare_models(X, y, task=task, models=models, cv=3)


@pytest.fixture
def undrawn(monkeypatch):
    """Reports without still pictures: to draw them takes longer than all the rest, and other tests look at them."""

    def blank(draw, alt, width, height, columns=1):
        figure, axes = new_figure(1, columns, width, height)
        result = draw(axes)
        pyplot().close(figure)
        return Picture("data:image/svg+xml;base64,", alt), result

    monkeypatch.setattr(report_page, "picture", blank)


@dataclasses.dataclass
class Element:
    tag: str
    attributes: dict
    text: str = ""


class Page(HTMLParser):
    """Elements in order, with all the text in them; tags must nest as they should."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.open = [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        element = Element(tag, dict(attributes))
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag

    def handle_data(self, data):
        for element in self.open:
            element.text += data

    def all(self, *tags):
        return [element for element in self.elements if element.tag in tags]

    def by_id(self, name):
        return next(element for element in self.elements if element.attributes.get("id") == name)

    @property
    def text(self):
        return re.sub(r"\s+", " ", self.all("main")[0].text)

    @property
    def charts(self):
        return json.loads(self.by_id("data").text)["charts"]

    def table(self, name):
        """Rows of a table: the texts of their cells."""
        begin = self.elements.index(self.by_id(f"table-{name}"))
        rows = []
        for element in self.elements[begin + 1 :]:
            if element.attributes.get("id", "").startswith("table-") or element.tag == "section":
                break
            if element.tag == "tr":
                rows.append([])
            elif element.tag in ("th", "td"):
                rows[-1].append(element.text)
        return rows[0], rows[1:]


@pytest.fixture(scope="module")
def page(model):
    return Page(report_html(model, command="msmtfl fit data.csv --task hospital"))


def held_out_by_others(model, among=slice(None)):
    """(m,): mean squared errors of rows held out, each fold at the best of some points by the scores of the other folds."""
    results, places = model.cv_results_, np.arange(len(model.cv_results_["n_rows"]))[among]
    scores = np.array([results[f"split{f}_test_score"] for f in range(model.n_splits_)])
    places = places[results["solved"][places]]
    points = [places[np.argmax(np.delete(scores, f, axis=0).mean(axis=0)[places])] for f in range(model.n_splits_)]
    mse, weight = (
        np.array([results[name][p][f] for f, p in enumerate(points)]) for name in ("test_mse", "test_weight")
    )
    return np.average(mse, weights=weight, axis=0)


def near(text):
    """A number as the page writes it."""
    return float(text.replace("−", "-").replace(",", "").replace("–", "nan").replace("∞", "inf"))


# ------------------------------------------------------------------ what it says


def test_tasks_and_errors_are_the_models(model, page):
    head, rows = page.table("tasks")
    known = ["Task", "Rows", "Target mean", "Target s.d.", "Features used", "Held-out error", "nMSE", "90 % within ±"]
    assert head == known
    by_hand = held_out_by_others(model)
    for i, row in enumerate(rows):
        values = [near(text) for text in row[1:-1]]
        used = np.count_nonzero(model.coef_[i])
        expected = [30, model.target_mean_[i], model.target_sd_[i], used, by_hand[i] ** 0.5]
        np.testing.assert_allclose(values, [*expected, by_hand[i] / model.target_sd_[i] ** 2], rtol=5e-3)
    assert [row[0] for row in rows] == TASKS.tolist()


def test_gains_are_measured_against_the_best_lasso_of_the_grid(model, page):
    head, rows = page.table("gains")
    lasso = np.flatnonzero(np.isinf(model.cv_results_["theta"]))
    given = [near(row[head.index("nMSE of lasso")]) for row in rows]
    np.testing.assert_allclose(given, held_out_by_others(model, lasso) / model.target_sd_**2, rtol=5e-3)


def test_features_table_is_the_sharing_map(model, page):
    found = sharing_map(model)
    head, rows = page.table("features")
    order = np.argsort(-found.row_norms, kind="stable")  # the strongest first
    assert [row[0] for row in rows] == found.features[order].tolist()
    for row, j in zip(rows, order, strict=True):
        cells = dict(zip(head, row, strict=True))
        assert cells["Used in"] == {"all": "all 3", "some": "some", "one": "one", "unused": "none"}[found.classes[j]]
        assert cells["Freed"] == ("freed" if found.freed[j] else "no")
        assert near(cells["Strength"]) == pytest.approx(found.row_norms[j], rel=5e-3)
        for i, label in enumerate(TASKS):
            assert near(cells[f"{label}, per unit"]) == pytest.approx(model.coef_[i, j], rel=5e-3, abs=1e-12)


def test_map_holds_every_stage(model, page):
    chart = page.charts["map"]
    rows = [list(model.features_).index(name) for name in chart["rows"]]
    assert len(chart["frames"]) == len(model.stages_)
    for frame, stage in zip(chart["frames"], model.stages_, strict=True):
        cells = np.frombuffer(base64.b64decode(frame["cells"][0]), dtype="<f4").reshape(len(rows), 3)[::-1]
        np.testing.assert_allclose(np.nan_to_num(cells) * chart["scale"], stage.coef[:, rows].T, rtol=1e-6)
        assert frame["free"] == len(stage.free_rows)
        assert frame["entries"] == np.count_nonzero(stage.coef)
        assert sorted(rows[k] for k in frame["freed"]) == sorted(stage.free_rows)


def test_summary_counts_features_and_gives_errors(model, page):
    n = sharing_map(model).counts
    assert f"Of 6 features {6 - n['unused']} are used: {n['all']} in all 3 tasks" in page.text
    held_out = (
        "On rows held out in 3 folds, each predicted with parameters that the other folds chose, the squared error is"
    )
    assert held_out in page.text
    assert "compared with the best independent lassos (nMSE" in page.text
    assert "is proven optimal" in page.text
    assert "msmtfl fit data.csv --task hospital" in page.text


def test_certificate_is_printed_line_by_line(model, page):
    for line in str(model.certificate_).splitlines():
        assert line.strip()[1:] in page.text
    assert model.stopping_reason_ in page.text


def test_snippet_gives_the_same_model_without_the_search(model, page):
    X, y, task = make_data()
    code = next(element.text for element in page.all("pre") if "from msmtfl" in element.text)
    names: dict = {"X": X, "y": y, "labels": task}
    exec(code, names)
    np.testing.assert_allclose(names["model"].coef_, model.coef_, rtol=1e-12)
    np.testing.assert_allclose(names["same"].coef_, model.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (MSMTFL(theta="adaptive", max_stages=1), "How the stages ended: one stage, as asked"),
        (LassoMTL(lam=1e6), "No feature is used: all coefficients are 0."),
        (LassoMTLCV(lams=5, cv=3), "chose λ from 5 candidates"),
        (L12MTL(), "so how well it predicts is not known: L12MTLCV measures it"),
        (L12MTLCV(lams=5, cv=3), "This fit alone cannot say what sharing gained"),
        (DirtyMTL(standardize=True), "as if scaled to unit standard deviation"),
        (DirtyMTLCV(lams=5, cv=3), "chose λ_s and λ_b from"),
        (SharedMTLCV(lams=5, cv=3), "chose λ_c, λ_d and θ from"),
        (SharedMTL(), "values common to all tasks, and sparse deviations from them"),
        (PartialPooling(), "values common to all tasks, and dense deviations from them"),
        (PartialPoolingCV(ks=5, cv=3), "chose k and k_c from"),
        (MSMTFLCV(lams=5, selection="bic", relax=True), "Relaxed: the coefficients are refitted"),
        (MSMTFLCV(lams=5, cv=3, scoring="r2"), "held-out r2"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, MultiTaskLinear) else "",
)
def test_every_model_has_a_report(kind, said, undrawn):
    assert said in Page(report_html(fitted(kind))).text


def test_the_report_says_how_far_predictions_may_be_off(undrawn):
    model = fitted(LassoMTLCV(lams=5, cv=3))
    said = sentences.reach(ModelFacts(model))
    radii = [np.sort(model.held_out_.own.of_task(i).score) for i in range(len(model.tasks_))]
    share = 0.9 * 3.0 / 3.1  # of the way from the 27th of thirty scores to the 28th: 0.9 (30 + 1) = 27.9
    radii = [one[26] + share * (one[27] - one[26]) for one in radii]
    low, high = (near(text) for text in re.findall(r"±\s([\d.,]+) in", said))
    assert (low, high) == (pytest.approx(min(radii), rel=5e-3), pytest.approx(max(radii), rel=5e-3))
    assert "In 90\N{NO-BREAK SPACE}% of new rows" in said
    assert " ".join(said.split()) in Page(report_html(model)).text
    assert sentences.reach(ModelFacts(fitted(LassoMTL()))) == ""


def test_sentences_follow_the_choice():
    facts = ModelFacts(fitted(MSMTFLCV(lams=5, selection="ebic")))
    assert sentences.choice(facts) == "EBIC chose λ and θ from 25 candidates, without folds"
    assert sentences.prediction(facts).startswith("This fit held no rows out")
    assert sentences.gain(facts) == sentences.within(facts) == ""
    facts = ModelFacts(fitted(MSMTFLCV(lams=5, cv=3, selection="1se")))
    assert sentences.choice(facts).endswith("the simplest model within one standard error of the best")
    facts = ModelFacts(fitted(MSMTFLCV(lams=5, cv=3, thetas=[np.inf, 1e9])))  # a cap that nothing reaches
    assert facts.shares_nothing
    assert sentences.gain(facts).endswith("these data give no reason to share.")
    facts = ModelFacts(
        fitted(MSMTFLCV(lams=5, cv=3, entry_shares=1.0, theta_ratios=[2]))
    )  # capped lassos, and no others
    assert facts.shares_nothing
    facts = ModelFacts(fitted(LassoMTLCV(lams=5, cv=3)))
    assert facts.gain is None
    assert sentences.proof(facts).startswith("Proven optimal: the objective is convex")
    assert sentences.proof(facts).endswith("It is the only solution.")


def test_a_model_judged_by_its_deviance_held_rows_out(undrawn):
    X, y, task = make_data()
    model = MSMTFLCV(lams=4, cv=3, loss="poisson", scoring="neg_deviance", entry_shares=0, theta_ratios=[2, np.inf])
    model.fit(X, np.round(np.exp(y / 2)), task=task)
    said = sentences.prediction(ModelFacts(model))
    assert said.startswith("On rows held out in 3 folds the mean deviance is ")
    assert near(re.search(r"is ([\d.]+)\.", said)[1]) == pytest.approx(-model.best_score_, rel=5e-3)
    with pytest.raises(ValueError, match=r"judged by its deviance .* scoring='neg_nmse'"):
        GainDisplay.from_estimator(model)
    page = Page(report_html(model))
    assert "exp fᵣ − yᵣ fᵣ + yᵣ log yᵣ − yᵣ" in page.text
    assert "‖fᵢ − yᵢ‖²" not in page.text


def test_a_relaxed_fit_is_refitted_by_its_own_loss(undrawn):
    X, y, task = make_data()
    model = MSMTFL(0.1, np.inf, loss="poisson", relax=True).fit(X, np.round(np.exp(y / 2)), task=task)
    page = Page(report_html(model))
    assert page.charts["map"]["frames"][-1]["title"] == "Refitted by the loss alone"
    assert "least squares" not in page.text
    assert "refitted by least squares" in Page(report_html(fitted(LassoMTL(0.1, relax=True)))).text


@pytest.mark.filterwarnings("ignore:feature.s. 'age', 'sex' are constant")
def test_what_could_not_be_learned_is_said_and_marked(undrawn, tmp_path):
    X, y, task = make_data()
    X["age"], X["sex"] = np.repeat([40.0, 50, 60], 30), np.repeat([0.0, 1, 1], 30)
    X.loc[task == "south", "x0"] = 1.0
    save_model(LassoMTL(0.05).fit(X, y, task=task), tmp_path / "m.msmtfl")
    model = load_model(tmp_path / "m.msmtfl")
    page = Page(report_html(model))
    assert ". 2 could not be learned." in page.text
    assert "Constant within every task and different only between tasks: age and sex." in page.text
    assert "1 feature is constant within some of the tasks" in page.text
    head, rows = page.table("features")
    found = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert (found["age"]["Used in"], found["age"]["Varies in"], found["age"]["east, per unit"]) == (
        "not learned",
        "0",
        "–",
    )
    assert (found["x0"]["Varies in"], found["x0"]["south, per unit"]) == ("2", "–")
    chart = page.charts["map"]
    assert chart["constant"] == [chart["rows"].index("x0") * 3 + 2]
    assert "Varies in" not in Page(report_html(fitted(LassoMTL(0.05)))).table("features")[0]


def test_classes_are_shown_one_by_one():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 3)), np.repeat(["one", "two"], 30)
    model = MSMTFLClassifier(0.02).fit(X, np.array(["a", "b", "<c>"])[np.arange(60) % 3], task=task)
    page = Page(report_html(model))
    chart = page.charts["map"]
    assert chart["classes"] == model.classes_.tolist() == ["<c>", "a", "b"]
    order = [list(model.features_).index(name) for name in chart["rows"]]
    for k, packed in enumerate(chart["frames"][-1]["cells"]):
        cells = np.frombuffer(base64.b64decode(packed), dtype="<f4").reshape(len(order), 2)[::-1]
        np.testing.assert_allclose(np.nan_to_num(cells) * chart["scale"], model.coef_[:, k, order].T, rtol=1e-6)
    options = [element.text for element in page.all("option")]
    assert options[-4:] == ["all together: sizes, no signs", "<c>", "a", "b"]
    head, rows = page.table("features")
    assert head[-6:] == [f"{name}: {one}" for name in ("one", "two") for one in ("<c>", "a", "b")]
    for row in rows:
        j = list(model.features_).index(row[0])
        np.testing.assert_allclose([near(text) for text in row[-6:]], model.coef_[:, :, j].ravel(), rtol=5e-3)
    assert "sum of |coefficients| over classes" in still_text(page)
    assert "which has no sign" in page.text
    assert "Largest" not in " ".join(head)


def test_many_tasks_and_classes_are_summed_up_without_sign(undrawn, monkeypatch):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((120, 3)), np.repeat(np.arange(5), 24)
    model = MSMTFLClassifier(0.01).fit(X, np.arange(120) % 3, task=task)
    sizes = np.abs(model.coef_).sum(axis=1)
    head, rows = Page(report_html(model)).table("features")
    assert head[-5:] == [f"Size: {i}" for i in range(5)]
    monkeypatch.setattr(model_tables, "MOST_COLUMNS", 3)
    _, few = Page(report_html(model)).table("features")
    for row, short in zip(rows, few, strict=True):
        j = list(model.features_).index(row[0])
        np.testing.assert_allclose([near(text) for text in row[-5:]], sizes[:, j], rtol=5e-3)
        assert near(short[-1]) == pytest.approx(sizes[:, j].max(), rel=5e-3)


def test_one_task_alone_has_nothing_to_share(undrawn):
    X, y, _ = make_data()
    page = Page(report_html(MSMTFL().fit(X, y)))
    assert re.search(r"Of 6 features \d are used\.", page.text)
    assert "sharing gained" not in page.text
    heads = ["Feature", "Direction", "Effect of one s.d.", "Strength", "Freed", "Coefficient, per unit"]
    assert page.table("features")[0] == heads


def test_two_responses_of_one_table_are_two_tasks():
    X, y, _ = make_data()
    Y = np.stack([y, -y], axis=1)
    Y[:5, 0] = np.nan
    facts = ModelFacts(MSMTFLCV(lams=5, cv=3).fit(X, Y))
    assert sentences.shares(facts).endswith("in both tasks.")
    assert [row[1].text for row in model_tables.tasks_table(facts).rows] == ["85", "90"]
    assert "in task 0" in sentences.prediction(facts)


def test_fit_that_is_not_unique_says_so():
    X, y, task = make_data(names=["x0", "x1", "x2", "a\n\nb"], d=4)
    X["again"] = X["x0"]
    facts = ModelFacts(LassoMTL(lam=0.05).fit(X, y, task=task))
    assert "is not certified in east, north and south" in sentences.proof(facts)
    last = sentences.certificate(facts.model.certificate_)[-1]
    assert last.mark == "care"
    assert "x0, again can be exchanged" in last.details[0]


def test_task_with_constant_target_has_no_relative_error():
    X, y, task = make_data()
    y[task == "north"] = 3.0
    with pytest.warns(UserWarning, match="constant"):
        facts = ModelFacts(MSMTFLCV(lams=5, cv=3).fit(X, y, task=task))
    table = model_tables.tasks_table(facts)
    heads = [column.head for column in table.columns]
    assert [row[heads.index("nMSE")].text == "–" for row in table.rows] == [False, True, False]
    assert [row[heads.index("Note")].text for row in table.rows] == ["", "the target does not vary", ""]
    assert "from" in sentences.prediction(facts)


@pytest.mark.slow
def test_task_added_later_is_not_measured(undrawn, tmp_path):
    X, y, task = make_data()
    model = MSMTFLCV(lams=8, cv=3, entry_shares=0).fit(X, y, task=task)
    before, gain = Page(report_html(model)), sentences.gain(ModelFacts(model))
    model.add_task(X[:40], y[:40], "west")
    save_model(model, tmp_path / "model.msmtfl")
    note = "Not measured: west, which add_task added after the search."
    for grown in (model, load_model(tmp_path / "model.msmtfl")):
        page = Page(report_html(grown))
        rows = page.table("tasks")[1]
        assert [row[:-1] for row in rows[:3]] == before.table("tasks")[1]
        assert rows[3][:2] == ["west", "40"]
        assert rows[3][-4:] == ["–", "–", "–", "added later, not measured"]
        assert page.table("gains") == before.table("gains")
        assert page.charts["gains"]["rows"] == before.charts["gains"]["rows"]
        assert sentences.gain(ModelFacts(grown)) == gain
        assert page.text.count(note) == 3  # the summary, the tasks, the chart of gains
        assert page.charts["map"]["columns"] == [*TASKS, "west"]
    assert note not in before.text


def test_one_measured_task_has_no_range_of_errors(undrawn):
    X, y, _ = make_data()
    model = MSMTFLCV(lams=5, cv=3).fit(X, y, task=np.full(90, "north")).add_task(X, y, "west")
    assert sentences.prediction(ModelFacts(model)).endswith("mean by size).")
    assert "Not measured: west" in Page(report_html(model)).text


def test_gain_and_its_chart_say_who_chose_the_parameters(page):
    said = "Each fold is predicted with the parameters that the other folds choose"
    captions = [element.text for element in page.all("figcaption")]
    assert [said in text for text in captions] == [False, True, False]  # the map, gains, the grid
    assert all(said in re.sub(r"\s+", " ", page.by_id(name).text) for name in ("summary", "sharing"))
    assert "flatter" not in page.text


def with_losses(model, change):
    """The model with held-out errors of its tasks that are the same at all lassos, and others times `change` (m,)."""
    grown, shared = copy.copy(model), np.isfinite(model.cv_results_["theta"])
    lasso = 0.5 * model.target_sd_**2 * np.array([[0.99], [1.0], [1.01]])
    mse = model.cv_results_["test_mse"].copy()
    for p, shares in enumerate(shared):
        mse[p] = lasso * (change if shares else 1.0)
    scores = {f"split{f}_test_score": np.where(shared, 0.0, -1.0) for f in range(3)}
    grown.cv_results_ = model.cv_results_ | scores | {"test_mse": mse}
    return grown


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ([0.8, 0.9, 0.7], "Sharing lowers the error: "),
        ([1.2, 1.1, 1.3], "Sharing raises the error: "),
        ([0.1, 1.01, 1.02], "Whether sharing helps is not clear: "),
        ([0.1, 0.999, 1.002], "Whether sharing helps is not clear: "),
    ],
)
def test_the_sentence_on_sharing_follows_the_total_and_the_tasks(model, change, said):
    """Errors of three tasks that sharing multiplies by something: one task alone decides nothing."""
    facts = ModelFacts(with_losses(model, np.array(change)))
    text = sentences.gain(facts)
    assert text.startswith(said)
    lower, higher = sum(np.array(change) < 1), sum(np.array(change) > 1)
    n, has = [lower or "none", higher or "none"], "has" if lower < 2 else "have"
    assert f"Of 3 tasks {n[0]} {has} a smaller error and {n[1]} a larger one (median change " in text
    assert "(standard error " in text
    doubt = re.search(r"\), but ([^.]*)\.", text)
    assert (doubt is None) == (said != "Whether sharing helps is not clear: ")


@pytest.mark.slow
def test_model_from_a_file_has_the_same_report(model, page, undrawn, tmp_path):
    save_model(model, tmp_path / "model.msmtfl")
    loaded = Page(report_html(load_model(tmp_path / "model.msmtfl")))
    assert loaded.table("features") == page.table("features")
    assert loaded.table("gains") == page.table("gains")
    assert loaded.charts["map"]["frames"] == page.charts["map"]["frames"]
    assert loaded.charts["surface"]["rows"] == page.charts["surface"]["rows"]
    assert "The model was read from a file, saved 20" in loaded.text


@pytest.mark.slow
def test_a_comparison_says_how_parameters_were_chosen_and_what_is_corrected(comparison, undrawn):
    plain = Page(report_html(comparison))
    assert "every fold is predicted with the parameters that the other folds choose" in plain.text
    assert "aving chosen among all models and their parameters" in plain.text
    nested = Page(report_html(dataclasses.replace(comparison, nested=True, corrected=None)))
    assert "anew within the training rows of every fold (nested cross-validation)" in nested.text
    assert "aving chosen among all models" not in nested.text


@pytest.mark.slow
def test_comparison_alone_and_beside_a_model(simple, comparison):
    alone = Page(report_html(comparison))
    head, rows = alone.table("models")
    assert sorted(row[0] for row in rows) == ["<b>strong</b>", "lasso (reference)"]
    np.testing.assert_allclose([near(row[head.index("nMSE")]) for row in rows], np.sort(comparison.nmse), rtol=5e-3)
    assert " ".join(typeset(comparison.verdict()).split()) in alone.text
    assert len(alone.table("by-task")[1]) == 3
    both = Page(report_html(simple, comparison=comparison))
    assert both.table("models") == (head, rows)
    assert both.table("features")[1]


# ------------------------------------------------------------------ what it is made of


@pytest.mark.slow
def test_names_with_markup_are_text(page):
    model = fitted(MSMTFLCV(lams=8, cv=3, entry_shares=0), names=EVIL, tasks=EVIL_TASKS)
    evil = Page(report_html(model, title="<i>T</i>", command="<x>"))
    for tag in ("script", "img", "b", "i", "style", "svg"):
        assert len(evil.all(tag)) == len(page.all(tag)), tag
    assert sorted(row[0] for row in evil.table("features")[1]) == sorted(EVIL)
    assert sorted(row[0] for row in evil.table("tasks")[1]) == sorted(EVIL_TASKS)
    assert set(evil.charts["map"]["rows"]) <= set(EVIL)
    assert evil.charts["map"]["columns"] == sorted(EVIL_TASKS)
    assert evil.by_id("data").text.count("<") == 0
    assert evil.all("h1")[0].text == evil.all("title")[0].text == "<i>T</i>"
    stills = [base64.b64decode(image.attributes["src"].partition(",")[2]).decode() for image in evil.all("img")]
    assert all("<script" not in still for still in stills)


def test_page_asks_nothing_of_the_network(page):
    policy = page.all("meta")[1].attributes["content"]
    assert policy.startswith("default-src 'none';")
    scripts = [element.text for element in page.all("script") if "type" not in element.attributes]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    assert re.findall(r"'sha256-(.*?)'", policy) == digests
    assert "unsafe-inline" not in policy.split("script-src")[1]
    addresses = [value for e in page.elements for name, value in e.attributes.items() if name in ("src", "href")]
    assert all(value.startswith(("#", "data:image/svg+xml;base64,")) for value in addresses)
    assert "url(" not in _asset("style.css")
    assert not page.all("link", "iframe", "object")


def test_page_is_accessible_by_its_structure(page):
    levels = [int(element.tag[1]) for element in page.all("h1", "h2", "h3")]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert {element.tag for element in page.elements} >= {"header", "nav", "main", "footer"}
    assert page.all("html")[0].attributes["lang"] == "en"
    assert all(image.attributes["alt"] for image in page.all("img"))
    assert all(element.attributes["aria-label"] for element in page.elements if element.attributes.get("role") == "img")
    assert all(head.attributes["scope"] in ("row", "col") for head in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    assert len(page.all("label")) == len(page.all("input", "select"))
    ids = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    assert {link.attributes["href"][1:] for link in page.all("a")} <= set(ids)


def luminance(colour):
    parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("place", [0, 1], ids=["light", "dark"])
def test_text_has_contrast(place):
    colours = dict(re.findall(r"--(\w+): light-dark\((#\w+, #\w+)\)", _asset("style.css")))
    value = {name: luminance(pair.split(", ")[place]) for name, pair in colours.items()}
    for text in ("ink", "soft", "accent", "warm", "good"):
        for ground in ("paper", "raised"):
            low, high = sorted((value[text], value[ground]))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)


def test_long_tables_and_large_maps_are_thinned_with_a_note(simple, undrawn, monkeypatch):
    monkeypatch.setattr(model_tables, "MOST_ROWS", 4)
    monkeypatch.setattr(charts, "MAP_FEATURES", 3)
    monkeypatch.setattr(charts, "MAP_TASKS", 2)
    monkeypatch.setattr(model_tables, "MOST_COLUMNS", 2)
    page = Page(report_html(simple))
    strong = np.argsort(-simple.row_norms_)
    head, rows = page.table("features")
    assert {row[0] for row in rows} == set(simple.features_[strong[:4]])
    assert "4 of 6 lines: the strongest are shown." in page.text
    assert {"Lowest", "Highest"} <= set(head)
    assert set(page.charts["map"]["rows"]) == set(simple.features_[strong[:3]])
    assert "The 3 strongest of 6 features are shown" in page.text
    assert "The 2 tasks with the most rows are shown, of 3." in page.text


@pytest.mark.parametrize("standardize", [True, False])
def test_live_map_has_the_rows_and_scales_of_the_still_one(standardize, monkeypatch):
    monkeypatch.setattr(charts, "MAP_FEATURES", 3)
    X, y, task = make_data()
    X *= [1e3, 1e3, 1e3, 1e-3, 1e-3, 1e-3]  # the strongest features have the smallest coefficients
    model = LassoMTL(lam=0.01, standardize=standardize).fit(X, y, task=task)
    page = Page(report_html(model))
    own = "checked" in page.by_id("own-scale").attributes
    still = CoefficientMapDisplay.from_estimator(model, max_features=3, scale="row" if own else None)
    chart = page.charts["map"]
    assert own  # units differ, whether the penalty takes account of that or not
    assert chart["rows"] == still.features.tolist()
    cells = np.frombuffer(base64.b64decode(chart["frames"][0]["cells"][0]), dtype="<f4").reshape(3, 3)[::-1]
    cells = np.nan_to_num(cells) * chart["scale"]
    top = np.abs(cells).max(axis=1, keepdims=True) if own else 1.0
    np.testing.assert_allclose(cells / top, still.coef.T, rtol=1e-6)
    assert ("coefficient / largest of its feature" in still_text(page)) == own


def still_text(page):
    """Of the first still picture."""
    return base64.b64decode(page.all("img")[0].attributes["src"].partition(",")[2]).decode()


def test_text_of_pictures_needs_no_font_of_matplotlibs():
    names = ["漢字", "🚀", "é", "x3", "x4", "x5"]
    page = Page(report_html(fitted(LassoMTL(lam=0.01), names=names)))
    assert all(name in still_text(page) for name in names[:3])


# ------------------------------------------------------------------ files and errors


def test_file_is_written_whole_or_not_at_all(simple, undrawn, tmp_path):
    path = tmp_path / "report.html"
    write_report(simple, path, title="First")
    first = path.read_text(encoding="utf-8")
    assert first.startswith("<!doctype html>")
    with pytest.raises(TypeError, match="Ridge"):
        write_report(Ridge(), path)
    with pytest.raises(FileNotFoundError):
        write_report(simple, tmp_path / "absent" / "report.html")
    assert path.read_text(encoding="utf-8") == first
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_what_has_no_report_is_refused(simple, comparison):
    with pytest.raises(NotFittedError):
        report_html(MSMTFL())
    with pytest.raises(ValueError, match="give X and y together"):
        report_html(simple, X=make_data()[0])
    with pytest.raises(TypeError, match="what shared_features returns, not LassoMTL"):
        report_html(simple, shared=simple)
    with pytest.raises(ValueError, match="leave comparison= out"):
        report_html(comparison, comparison=comparison)
    with pytest.raises(TypeError, match="what compare_models returns, not LassoMTL"):
        report_html(simple, comparison=simple)


@pytest.mark.parametrize("absent", ["bokeh", "jinja2", "matplotlib"])
def test_absent_libraries_are_named(absent, simple, monkeypatch):
    for name in [name for name in sys.modules if name == absent or name.startswith(f"{absent}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(ImportError, match=f"{absent}.*pip install"):
        report_html(simple)
