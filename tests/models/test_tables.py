"""Tables of coefficients for a paper."""

import csv
import html.parser
import io
import re
import xml.etree.ElementTree as ET
import zipfile

import numpy as np
import pytest

from msmtfl import (
    MSMTFL,
    LassoMTL,
    MSMTFLClassifier,
    bootstrap_intervals,
    debiased_intervals,
    split_intervals,
)
from msmtfl._estimators.baselines.ridge import RidgePerTaskCV
from msmtfl._runtime.text.documents import significant
from msmtfl._runtime.text.naturally import natural_order
from msmtfl.model_files import load_model, save_model
from msmtfl.tables import coefficient_table

NASTY = ["a & b_1", "<script>alert(1)</script>", "50 % {x}", "=SUM(A1)", "pipe | #1", "naïve ~^\\"]
WORDS = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
SHEETS = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((120, 6)), np.repeat(["P10", "P2", "<P&1>"], 40)
    X[:40, 3] = 1.0
    y = 2 * X[:, 0] - X[:, 3] + np.where(task == "P2", X[:, 5], 0) + 0.3 * rng.standard_normal(120)
    import pandas as pd

    return pd.DataFrame(X * [1e6, 1, 1, 1, 1, 1e-3], columns=NASTY), y, task


@pytest.fixture(scope="module")
def model(sample):
    X, y, task = sample
    return MSMTFL(0.1, 1.5, standardize=True).fit(X, y, task=task)


def test_natural_order_and_significant_digits():
    assert natural_order(["P10", "p2", "P1", "a"]).tolist() == [3, 2, 1, 0]
    assert natural_order([10, 9, 2]).tolist() == [2, 1, 0]
    shown = [significant(x) for x in (1234567.8, 1234.5, 12.345, 0.012345, -0.9996, 1.5e-7, 2e9, 0.0)]
    assert shown == ["1234568", "1234", "12.3", "0.0123", "-1.00", "1.50e-7", "2.00e9", "0"]


def test_the_wide_table_holds_the_coefficients_of_features_in_use_tasks_in_natural_order(model):
    frame = coefficient_table(model).to_frame()
    tasks = ["<P&1>", "P2", "P10"]
    assert frame.columns.tolist() == ["feature", *tasks]
    assert frame["feature"].iloc[0] == "(intercept)"
    used = model.features_[model.coef_.any(axis=0)]
    assert set(frame["feature"].iloc[1:]) == set(used)
    for label in tasks:
        i = model.tasks_.tolist().index(label)
        assert frame[label].iloc[0] == model.intercept_[i]
        for name, value in zip(frame["feature"].iloc[1:], frame[label].iloc[1:], strict=True):
            j = model.features_.tolist().index(name)
            assert np.isnan(value) if not model.learnable_[i, j] else value == model.coef_[i, j]
    whole = coefficient_table(model, unused=True, intercepts=False).to_frame()
    assert set(whole["feature"]) == set(NASTY)


def test_effects_of_a_standard_deviation_and_what_the_caption_says(model, sample):
    X, _, task = sample
    frame = coefficient_table(model, per="sd", layout="long", intercepts=False).to_frame()
    own = np.array([np.asarray(X)[task == label].var(axis=0) for label in model.tasks_])
    sd = np.sqrt(own.sum(axis=0) / (own > 1e-20).sum(axis=0))
    assert len(frame) == np.count_nonzero(model.coef_)
    for label, name, value in frame.itertuples(index=False):
        j = model.features_.tolist().index(name)
        expected = model.coef_[model.tasks_.tolist().index(label), j] * sd[j]
        assert value == pytest.approx(expected, rel=1e-9)
    table = coefficient_table(model, per="sd", target="score")
    used = int(model.coef_.any(axis=0).sum())
    assert table.caption == (
        f"Coefficients of MSMTFL for score in 3 tasks (120 samples): the {used} of 6 features that some task uses."
    )
    assert "change in score per standard deviation (within tasks)" in table.notes[0]
    assert "×: the feature is constant in this task" in repr(table)
    assert coefficient_table(model, caption="Mine.").caption == "Mine."


def test_a_summary_counts_tasks(model):
    frame = coefficient_table(model, layout="summary").to_frame().set_index("feature")
    for j, name in enumerate(model.features_):
        values = model.coef_[:, j][model.coef_[:, j] != 0]
        if values.size:
            line = frame.loc[name]
            assert line["tasks"] == values.size
            assert [line["median"], line["smallest"], line["largest"]] == [
                np.median(values),
                values.min(),
                values.max(),
            ]


def test_many_tasks_make_a_summary():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((130, 2)), np.repeat(np.arange(13), 10)
    table = coefficient_table(LassoMTL(0.01).fit(X, X[:, 0], task=task))
    assert table.sheet.header[:2] == ("feature", "tasks")
    assert table.sheet.shown[0][:3] == ("x0", "13 of 13", "+")


class Texts(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_text_is_escaped_in_every_format(model, tmp_path):
    table = coefficient_table(model, unused=True)
    page = Texts()
    page.feed(table.to_html())
    assert "script" not in page.tags
    assert set(NASTY) <= set(page.texts)
    tex = table.to_latex()
    assert r"a \& b\_1" in tex
    assert r"50 \% \{x\}" in tex
    assert r"na\"ive" in tex or "naïve" in tex
    body = tex[tex.index("midrule") : tex.index("bottomrule")].splitlines()[1:-1]
    assert all(len(re.findall(r"(?<!\\)&", line)) == 3 for line in body)
    assert all(line.count("|") - line.count(r"\|") == 5 for line in table.to_markdown().splitlines() if line[:1] == "|")
    lines = list(csv.reader(io.StringIO(table.content("t.csv"))))
    assert "'=SUM(A1)" in [line[0] for line in lines]
    assert float(lines[1][2]) == model.intercept_[model.tasks_.tolist().index("P2")]


def test_the_intercept_of_ratios_is_what_they_are_factors_of():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((120, 3)), np.repeat(["a", "b"], 60)
    model = MSMTFL(0.05, loss="poisson").fit(X, rng.poisson(np.exp(1.5 + 0.5 * X[:, 0])), task=task)
    table = coefficient_table(model, ratios=True)
    first = table.to_frame().set_index("feature").loc["(intercept)"]
    np.testing.assert_allclose(first, model.predict(np.zeros((2, 3)), task=["a", "b"]))
    assert "factor on the expected value of the target per unit" in table.notes[0]


@pytest.mark.parametrize("ending", ["docx", "xlsx"])
def test_office_files_are_sound_archives_that_hold_the_table(model, tmp_path, ending):
    table = coefficient_table(model, unused=True)
    path = tmp_path / f"t.{ending}"
    table.save(path)
    assert path.read_bytes() == table.content(path)  # the same table is the same file
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        parts = {name: ET.fromstring(archive.read(name)) for name in archive.namelist()}
    if ending == "docx":
        rows = parts["word/document.xml"].iter(f"{WORDS}tr")
        read = [["".join(t.text for t in cell.iter(f"{WORDS}t")) for cell in row.iter(f"{WORDS}tc")] for row in rows]
        assert [line[0] for line in read] == ["feature", *(line[0] for line in table.sheet.shown)]
        texts = [t.text for t in parts["word/document.xml"].iter(f"{WORDS}t")]
        assert table.caption in texts
    else:
        rows = list(parts["xl/worksheets/sheet1.xml"].iter(f"{SHEETS}row"))
        first = [next(row.iter(f"{SHEETS}t")).text for row in rows]
        assert first == ["feature", *(line[0] for line in table.sheet.lines)]
        numbers = [float(v.text) for v in rows[1].iter(f"{SHEETS}v")]
        assert numbers == list(table.sheet.lines[0][1:])
        assert next(parts["xl/worksheets/sheet2.xml"].iter(f"{SHEETS}t")).text == table.caption


def test_an_ending_that_says_nothing_is_refused_and_nothing_written(model, tmp_path):
    with pytest.raises(ValueError, match=r"t\.pdf: the ending says what to write: \.csv, \.docx"):
        coefficient_table(model).save(tmp_path / "t.pdf")
    assert not list(tmp_path.iterdir())


def test_intervals_stand_in_place_of_the_coefficients(model, sample):
    X, y, task = sample
    found = debiased_intervals(model, X, y, task=task)
    table = coefficient_table(model, intervals=found)
    frame = table.to_frame().set_index("feature")
    i, j = model.tasks_.tolist().index("P2"), model.features_.tolist().index("a & b_1")
    line = frame.loc["a & b_1"]
    assert [line["P2"], line["P2 lower"], line["P2 upper"]] == [
        a[i, j] for a in (found.estimate, found.lower, found.upper)
    ]
    assert "(intercept)" not in frame.index
    assert "not the model's own coefficients" in repr(table)
    assert "95 % intervals" in table.caption
    clear = coefficient_table(model, intervals=found, layout="summary").to_frame().set_index("feature")["clear"]
    assert clear["a & b_1"] == (found.p_adjusted[:, j] <= 0.05).sum() == 3
    halves = split_intervals(model, X, y, task=task)
    with pytest.raises(ValueError, match='layout="long" only'):
        coefficient_table(model, intervals=halves)
    long = coefficient_table(model, intervals=halves, layout="long", unused=True).to_frame()
    assert len(long) == np.isfinite(halves.estimate).sum()
    again = bootstrap_intervals(model, X, y, task=task, n_boot=40)
    assert "too short" in repr(coefficient_table(model, intervals=again))
    with pytest.raises(ValueError, match="not those of this model"):
        coefficient_table(LassoMTL(0.1).fit(np.asarray(X), y, task=task), intervals=found)
    with pytest.raises(TypeError, match="intervals must be what"):
        coefficient_table(model, intervals=3)


def test_classes_have_columns_of_their_own_and_odds_ratios():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((120, 3)), np.repeat(["one", "two"], 60)
    y = np.where(X[:, 0] + rng.standard_normal(120) > 0, "yes", "no")
    two = MSMTFLClassifier(0.01).fit(X, y, task=task)
    table = coefficient_table(two, ratios=True, intercepts=False)
    assert table.caption.startswith("Odds ratios of MSMTFLClassifier")
    assert "factor on the odds of class yes" in table.notes[0]
    assert table.to_frame().set_index("feature").loc["x0", "one"] == np.exp(two.coef_[0, 0])
    three = MSMTFLClassifier(0.01).fit(X, np.arange(120) % 3, task=task)
    header = coefficient_table(three).sheet.header
    assert header[1:] == tuple(f"{t}: {c}" for t in ("one", "two") for c in range(3))
    assert coefficient_table(three, layout="long").sheet.header[:3] == ("task", "class", "feature")
    with pytest.raises(ValueError, match="exponentials of its coefficients mean nothing"):
        coefficient_table(LassoMTL(0.1).fit(X, X[:, 0], task=task), ratios=True)


def test_a_model_file_keeps_the_standard_deviations_and_an_old_one_says_so(model, sample, tmp_path):
    save_model(model, tmp_path / "m.msmtfl")
    again = load_model(tmp_path / "m.msmtfl")
    np.testing.assert_array_equal(again.feature_sd_, model.feature_sd_)
    del again.feature_sd_
    with pytest.raises(ValueError, match="does not hold the standard deviations"):
        coefficient_table(again, per="sd")
    X, y, task = sample
    ridge = RidgePerTaskCV().fit(X, y, task=task)
    np.testing.assert_allclose(ridge.feature_sd_, model.feature_sd_)
    assert "The ridge shrinks" in repr(coefficient_table(ridge, per="sd"))


def test_a_summary_of_several_classes_has_a_line_for_each():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((240, 3)), np.repeat(list("abcd"), 60)
    kind = np.array(["low", "middle", "high"])[(X[:, :1] * [-2.0, 0.0, 2.0] + rng.gumbel(size=(240, 3))).argmax(axis=1)]
    model = MSMTFLClassifier(0.01, 0.5).fit(X, kind, task=task)
    table = coefficient_table(model, layout="summary", ratios=True)
    frame = table.to_frame().set_index(["feature", "class"])
    assert frame.loc[("x0", "high"), "sign"] == "+"
    assert frame.loc[("x0", "low"), "sign"] == "-"
    W = model.coef_.reshape(4, 3, 3)  # tasks, classes, features
    for c, name in enumerate(model.classes_):
        used = np.exp(W[:, c, 0][W[:, c, 0] != 0])
        line = frame.loc[("x0", name)]
        assert line[["median", "smallest", "largest"]].tolist() == pytest.approx(
            [np.median(used), used.min(), used.max()]
        )
        assert line["tasks"] == len(used)
    for ending in ("tex", "docx", "html", "md", "csv", "xlsx"):
        assert table.content(f"t.{ending}")
