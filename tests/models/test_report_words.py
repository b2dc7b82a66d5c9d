"""The report in the user's words: what is predicted in whom, how well and how sure, from the rows themselves."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from report_data import make_data
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.metrics import confusion_matrix, roc_auc_score

from msmtfl import (
    MSMTFLCV,
    LassoMTL,
    LassoMTLCV,
    MSMTFLClassifierCV,
    MultiTaskAuto,
    NestedMTL,
    debiased_intervals,
    split_intervals,
)
from msmtfl._estimators.families import known_families
from msmtfl._estimators.words.subject import Subject, subject_of
from msmtfl._runtime.drawing import new_figure
from msmtfl.baselines import PooledLassoCV, PooledRidgeCV, RidgePerTaskCV
from msmtfl.model_files import load_model, save_model
from msmtfl.plots import GainDisplay
from msmtfl.plots.views import OverLasso
from msmtfl.report import charts, model_tables, report_html, sentences, task_view
from msmtfl.report import page as report_page
from msmtfl.report.answer import answer, direction, effect, told
from msmtfl.report.known import performance
from msmtfl.report.known.facts import ModelFacts
from msmtfl.report.known.samples import read_samples
from msmtfl.report.known.sureness import cheap_intervals, sureness_of
from msmtfl.report.pictures import Picture
from msmtfl.report.words import number
from msmtfl.tables import coefficient_table

for needed in ("bokeh", "jinja2", "matplotlib"):
    pytest.importorskip(needed)

SCALES = np.array([1.0, 100.0, 0.01, 1.0, 1.0])


def make_table(m=3, n=40, seed=0, kind="number"):
    """Patients P1, P2, ... with a target that rises with dose and falls with age, features in wild units."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((m * n, 5))
    X = pd.DataFrame(Z * SCALES, columns=["dose", "age", "mass", "sun", "rain"])
    X["patient"] = np.repeat([f"P{i + 8}" for i in range(m)], n)  # P8, P9, P10: not in this order as text
    f = 2.0 * Z[:, 0] - Z[:, 1]
    if kind == "class":
        return X, pd.Series(np.where(rng.random(m * n) < expit(f), "yes", "no"), name="relapse")
    if kind == "count":
        return X, pd.Series(rng.poisson(np.exp(0.3 * f + 1)).astype(float), name="falls")
    return X, pd.Series(f + 0.5 * rng.standard_normal(m * n), name="updrs")


def facts_of(model, X, y, **options):
    samples = read_samples(model, X, y, None, None, None)
    return ModelFacts(model, subject_of(model, y=y), samples, **options)


def said(facts):
    return " ".join("".join(part.text for part in sentence) for sentence in answer(facts))


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module")
def model(table):
    return MSMTFLCV(task_column="patient", lams=6, cv=3, entry_shares=0).fit(*table)


@pytest.fixture(scope="module")
def facts(model, table):
    return facts_of(model, *table)


def blank(draw, alt, width, height, columns=1):
    """In place of a still picture, which takes longer than all the rest."""
    figure, axes = new_figure(1, columns, width, height)
    result = draw(axes)
    figure.clear()
    return Picture("data:image/svg+xml;base64,", alt), result


@pytest.fixture(scope="module")
def page(model, table):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_page, "picture", blank)
        return report_html(model, X=table[0], y=table[1])


@pytest.fixture
def undrawn(monkeypatch):
    for name in ("_coefficient_map", "_surface", "_gains_chart"):
        monkeypatch.setattr(report_page, name, lambda facts: None)
    monkeypatch.setattr(report_page, "picture", blank)


def text_of(html):
    body = re.sub(r"(?s)<(script|style).*?</\1>", " ", html)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", body)).replace("&#39;", "'")


def json_of(html):
    return json.loads(re.search(r'(?s)<script type="application/json" id="data">(.*?)</script>', html)[1])


# ------------------------------------------------------------------ the first screen


def test_title_and_answer_name_target_and_tasks(facts, page):
    assert "<title>What predicts updrs in 3 patients</title>" in page
    text = said(facts)
    assert re.match(r"updrs rises with dose \(\+\d\.\d per s\.d\., this direction in all 3 patients\)", text)
    assert "falls with age (−0.98 per s.d.," in text
    assert text.index("dose") < text.index("age")  # the strongest first, whatever the units
    assert "It beats the patient's own mean in all 3 patients." in text


def test_words_come_from_the_table_the_file_or_the_caller(model, table, tmp_path):
    note = {"command": "msmtfl fit", "columns": {"target": "pain", "task": "ward_id"}, "rows_dropped": 7}
    save_model(model, tmp_path / "m.msmtfl", provenance=note)
    loaded = load_model(tmp_path / "m.msmtfl")
    assert subject_of(loaded) == Subject("pain", "ward", "wards")
    assert subject_of(model, y=table[1]) == Subject("updrs", "patient", "patients")
    assert subject_of(model, "score", "city") == Subject("score", "city", "cities")
    assert subject_of(LassoMTL().fit([[0.0], [1.0], [3.0]], [0.0, 1.0, 2.0])) == Subject()
    assert "7 rows with missing values were left out." in sentences.left_out(ModelFacts(loaded))


def test_share_explained_is_that_of_all_rows_together(model, facts):
    """By hand: squared errors of rows held out, each fold at the point that the others choose, over the tasks' variances."""
    results = model.cv_results_
    scores = np.array([results[f"split{f}_test_score"] for f in range(3)])
    points = [np.argmax(np.delete(scores, f, axis=0).mean(axis=0)) for f in range(3)]
    mse, weight = (
        np.array([results[name][p][f] for f, p in enumerate(points)]) for name in ("test_mse", "test_weight")
    )
    share = 1.0 - (mse * weight).sum() / (weight * model.target_sd_**2).sum()
    assert facts.explained.share == pytest.approx(share)
    assert f"{100 * share:.0f}\N{NO-BREAK SPACE}% of the variation within patients is explained" in said(facts)
    assert 0 < facts.explained.reach < 0.2


@pytest.mark.slow
def test_the_interval_of_the_share_explained_covers_that_of_new_rows():
    """Of fits to other data: 95 % intervals by Student's t over folds, the others' share measured on many new rows."""
    hits = []
    for seed in range(60):
        X, y = make_table(n=30, seed=seed)
        new, target = make_table(n=2000, seed=1000 + seed)
        model = LassoMTLCV(task_column="patient", lams=8, cv=5).fit(X, y)
        found = ModelFacts(model).explained
        spread = target.groupby(new["patient"]).transform("std")
        true = 1.0 - ((target - model.predict(new)) ** 2).sum() / (spread**2).sum()
        hits.append(abs(true - found.share) <= found.reach)
    assert np.mean(hits) >= 0.9


def test_without_rows_held_out_nothing_is_promised(table):
    facts = facts_of(LassoMTL(lam=0.05, task_column="patient").fit(*table), *table)
    assert facts.explained is None
    assert not facts.samples.held_out
    assert "explained" not in said(facts)
    assert sentences.rows_shown(facts).startswith("Rows are predicted by the model itself.")


def test_a_feature_that_goes_both_ways_is_not_said_to_rise():
    X, y = make_table(m=4)
    y = y + np.where(X["patient"].isin(["P8", "P9"]), 6, -6) * X["sun"]
    facts = facts_of(LassoMTL(lam=0.01, task_column="patient").fit(X, y), X, y)
    j = list(facts.model.features_).index("sun")
    assert direction(facts, j) == 0
    assert "has no common direction with sun (2 up, 2 down, whether by chance is not known)" in said(facts)


def test_a_feature_goes_where_it_is_clear():
    """A feature without effect has coefficients of chance: the tasks in which it is clearly non-zero say the direction."""
    X, y = make_table(m=6, n=80)
    y = y + np.where(X["patient"] == "P8", 3.0, 0.0) * X["sun"]
    model = LassoMTL(lam=1e-4, task_column="patient").fit(X, y)
    samples = read_samples(model, X, y, None, None, None)
    facts = ModelFacts(model, subject_of(model, y=y), samples, cheap_intervals(model, samples, X, y, None, None))
    j = list(facts.model.features_).index("sun")
    w = facts.coef[:, 0, j]
    assert (w > 0).any()
    assert (w < 0).any()
    assert facts.sure.clear_in[j] == 1
    assert direction(facts, j) == 1
    assert "sun (clearly non-zero in 1 of 6 patients, +" in said(facts)
    assert "per s.d. there)" in said(facts)
    columns = {column.head: column for column in model_tables.features_table(facts).columns}
    clear_in = columns["Clearly non-zero in"]
    assert clear_in.cells[facts.by_importance.tolist().index(j)].text == "1 (up)"


def test_features_that_are_clear_are_told_of_before_those_that_are_not():
    """Two copies of nothing, which a weak penalty gives large coefficients of opposite signs."""
    X, y = make_table(m=3, n=60)
    rng = np.random.default_rng(1)
    X["sun"], X["rain"] = X["sun"] + 0.05 * X["rain"], X["sun"] - 0.05 * X["rain"]
    y = y + 2.0 * rng.standard_normal(len(y))
    model = LassoMTL(lam=1e-5, task_column="patient").fit(X, y)
    samples = read_samples(model, X, y, None, None, None)
    facts = ModelFacts(model, subject_of(model, y=y), samples, cheap_intervals(model, samples, X, y, None, None))
    names = facts.sharing.features[facts.by_importance].tolist()
    assert names.index("sun") < names.index("age") or names.index("rain") < names.index("age")
    clear, doubtful = ([str(facts.sharing.features[j]) for j in places] for places in told(facts))
    assert clear == ["dose", "age"]
    assert set(doubtful) <= {"sun", "rain"}
    assert doubtful
    assert "updrs rises with dose (" in said(facts)
    assert f"The model leans on {' and '.join(doubtful)}, too, which" in said(facts)
    assert "not clearly non-zero in any patient." in said(facts)


def test_a_task_that_fails_does_not_hide_what_is_found():
    X, y = make_table(m=4, n=60)
    keep = (X["patient"] != "P11") | (np.arange(len(X)) % 60 < 4)
    X, y = X[keep].reset_index(drop=True), y[keep].reset_index(drop=True)
    few = np.flatnonzero(X["patient"] == "P11")
    y[few] = np.array([100.0, -100.0, 90.0, 100.0])  # four rows, which three features interpolate in the folds
    X.loc[few, "dose"] *= 0.01
    model = LassoMTLCV(task_column="patient", cv=2, lams=[1e-4, 1e-5]).fit(X, y)
    facts = facts_of(model, X, y)
    assert facts.model.tasks_[facts.failed].tolist() == ["P11"]
    assert facts.explained.share < 0.2 < 0.8 < facts.explained_elsewhere.share
    kept = X["patient"] != "P11"
    alone = facts_of(LassoMTLCV(task_column="patient", cv=2, lams=[1e-4, 1e-5]).fit(X[kept], y[kept]), X[kept], y[kept])
    assert alone.failed.size == 0
    assert alone.explained_elsewhere is alone.explained
    assert facts.explained_elsewhere.share == pytest.approx(alone.explained.share, abs=0.05)
    assert "Nothing is found" not in said(facts)
    assert "On rows held out (but for P11: see below) predictions are off by" in said(facts)
    look = sentences.failing(facts)
    assert look.startswith(
        f"Predictions fail in P11 (4 rows, off by {number(np.sqrt(facts.errors.loss[facts.failed[0]]))}, the"
    )
    assert sentences.failing(alone) == ""


def test_the_hazard_is_that_of_the_event_and_nested_tasks_are_called_by_their_own_level():
    X, y = make_data("cox")
    times = pd.DataFrame(y, columns=["days", "died"])
    model = LassoMTL(0.05, loss="cox", task_column="site").fit(X, times)
    assert subject_of(model, y=times).target == "died"
    assert subject_of(model).target == "the event"
    X, y = make_data("squared")
    X["site"] = [f"{site} / {site}{k % 2}" for k, site in enumerate(X["site"])]
    X = X.rename(columns={"site": "region,school"})
    nested = NestedMTL(task_column="region,school").fit(X, y)
    assert subject_of(nested, y=y).title(6) == "What predicts score in 6 schools"
    X["region,school"] = [label[:-1].split(" / ")[0] + " / " + label[-1] for label in X["region,school"]]
    crossed = NestedMTL(task_column="region,school", nested=False).fit(X, y)
    assert subject_of(crossed, y=y).title(6) == "What predicts score in 6 tasks"


def test_differences_far_from_the_others_do_not_squash_them():
    change, reach = np.array([-0.2, -0.1, 0.0, 0.05, 60.0]), np.array([0.1, 0.1, 0.1, 0.1, 300.0])
    display = GainDisplay(np.array(list("abcde")), change, reach, "MSMTFL")
    chart = charts.gain_chart(display)
    assert chart["beyond"]
    assert not charts.gain_chart(GainDisplay(np.array(list("abcd")), change[:4], reach[:4], "MSMTFL"))["beyond"]
    text = json.dumps(chart["item"], ensure_ascii=False)
    assert '"triangle"' in text
    assert "60 ± 300" in text
    assert display.plot(new_figure(1, 1, 5.0, 3.0)[1][0, 0]).ax_.get_xlim()[1] < 2.0


def test_no_feature_is_said_plainly(table):
    facts = ModelFacts(LassoMTL(lam=1e9, task_column="patient").fit(*table))
    assert said(facts) == "No feature predicts the target: all coefficients are 0."


def test_what_may_be_chance_is_said_to_be(table):
    X, _ = table
    y = pd.Series(np.random.default_rng(1).standard_normal(len(X)) + 0.45 * X["dose"], name="noise")
    facts = facts_of(LassoMTLCV(task_column="patient", cv=3, lams=[0.1, 0.05], standardize=True).fit(X, y), X, y)
    assert 0 < facts.explained.share < facts.explained.reach
    assert "%, so it may be chance)." in said(facts)


def test_one_value_for_all_is_no_evidence_by_itself(table):
    facts = facts_of(PooledRidgeCV(task_column="patient", cv=3).fit(*table), *table)
    assert "one value for all 3 patients" in said(facts)
    assert "this direction" not in said(facts)


# ------------------------------------------------------------------ features


def test_effects_are_of_one_standard_deviation(model, table, facts):
    X, _ = table
    within = X.drop(columns="patient") - X.groupby("patient").transform("mean")
    spread = np.sqrt((within**2).mean()).to_numpy()
    np.testing.assert_allclose(facts.spreads, spread, rtol=1e-10)
    shown = {row[0].text: row for row in model_tables.features_table(facts).rows}
    heads = [column.head for column in model_tables.features_table(facts).columns]
    for j, name in enumerate(model.features_):
        w = model.coef_[:, j] * spread[j]
        if w.any():
            assert shown[name][heads.index("Effect of one s.d.")].value == pytest.approx(np.median(w[w != 0]))
            assert shown[name][heads.index("Highest")].value == pytest.approx(w[w != 0].max())
    assert next(iter(shown)) == "dose"


def test_effects_are_those_of_tables_also_without_the_data(model, facts, tmp_path):
    save_model(model, tmp_path / "m.msmtfl")
    table = coefficient_table(model, per="sd", layout="summary").to_frame().set_index("feature")
    for known in (facts, ModelFacts(load_model(tmp_path / "m.msmtfl"))):
        found = model_tables.features_table(known)
        place = [column.head for column in found.columns].index("Effect of one s.d.")
        shown = {row[0].text: row[place].value for row in found.rows if row[0].text in table.index}
        assert shown == pytest.approx(table["median"].to_dict())


def test_ratios_of_odds_and_of_rates():
    X, y = make_table(kind="count", n=60)
    model = MSMTFLCV(task_column="patient", lams=5, cv=3, loss="poisson", entry_shares=0).fit(X, y)
    facts = facts_of(model, X, y)
    heads = [column.head for column in model_tables.features_table(facts).columns]
    assert "Rate ratio of one s.d." in heads
    j = list(model.features_).index("dose")
    ratio = np.exp(np.median(model.coef_[:, j] * facts.spreads[j]))
    assert effect(facts, j).startswith(f"×{ratio:.1f} per s.d.")
    assert said(facts).startswith("The rate of falls rises with dose (×")
    first = model_tables.features_table(facts).rows[0]
    assert first[heads.index("Rate ratio of one s.d.")].value == pytest.approx(ratio)


def test_clearly_non_zero_is_corrected_for_how_many_were_looked_at(model, table):
    X, y = table
    samples = read_samples(model, X, y, None, None, None)
    sure = cheap_intervals(model, samples, X, y, None, None)
    found = debiased_intervals(LassoMTL(lam=1.0, task_column="patient"), X, y)
    np.testing.assert_array_equal(sure.clear, found.p_adjusted <= 0.05)
    facts = ModelFacts(model, subject_of(model, y=y), samples, sure)
    assert "clearly non-zero in all 3 patients" in said(facts)
    cells = {row[0].text: row for row in model_tables.features_table(facts).rows}
    heads = [column.head for column in model_tables.features_table(facts).columns]
    for j, name in enumerate(model.features_):
        assert cells[name][heads.index("Clearly non-zero in")].value == (found.p_adjusted[:, j] <= 0.05).sum()


@pytest.mark.parametrize("level", [0.95, 0.9, 0.5])
def test_clearly_means_the_same_in_reports_and_tables(model, table, level):
    """A false discovery rate of one less the level of the intervals."""
    X, y = table
    found = debiased_intervals(LassoMTL(lam=1.0, task_column="patient"), X, y, level=level)
    sure = sureness_of(model, found)
    table = coefficient_table(model, intervals=found, layout="summary").to_frame().set_index("feature")
    places = [model.features_.tolist().index(name) for name in table.index]
    np.testing.assert_array_equal(table["clear"], sure.clear_in[places])
    np.testing.assert_array_equal(sure.clear, found.p_adjusted <= 1 - level + 1e-9)
    assert f"false discovery rate {100 * (1 - level):g} %" in model_tables.sure_hint(sure)
    facts = ModelFacts(model, subject_of(model, y=y), read_samples(model, X, y, None, None, None), sure)
    assert f"at a false discovery rate of {100 * (1 - level):.0f}" in sentences.intervals(facts)


def test_two_splits_must_agree(model, table):
    found = split_intervals(LassoMTL(lam=0.05, task_column="patient"), *table)
    sure = sureness_of(model, found)
    by_hand = (np.nan_to_num(found.p_adjusted, nan=1.0) <= 0.05).all(axis=0)
    np.testing.assert_array_equal(sure.clear, by_hand)
    assert max(len(lines) for lines in sure.lines.values()) == 2


def test_intervals_are_refused_where_they_are_none(model, table):
    with pytest.raises(TypeError, match=r"intervals must be what split_intervals.*has no task, feature, lower, upper"):
        report_html(model, intervals=3)
    frame = pd.DataFrame({"task": ["P99"], "feature": ["dose"], "lower": [0.0], "upper": [1.0]})
    with pytest.raises(ValueError, match=r"task 'P99' and feature 'dose'"):
        report_html(model, intervals=frame)
    uncorrected = sureness_of(model, frame.assign(task="P8"))
    assert "not corrected" in model_tables.sure_hint(uncorrected)


def test_few_rows_are_no_reason_for_intervals(table):
    X, y = make_table(n=9)
    model = LassoMTL(lam=0.05, task_column="patient").fit(X, y)
    assert cheap_intervals(model, read_samples(model, X, y, None, None, None), X, y, None, None) is None


# ------------------------------------------------------------------ rows


def test_rows_are_predicted_without_their_fold(model, table, facts):
    assert facts.samples.held_out
    mse = model.cv_results_["test_mse"][model.best_index_]  # (folds, m)
    fold_of = model.held_out_.fold_of
    for i, task in enumerate(model.tasks_):
        rows = np.flatnonzero(table[0]["patient"] == task)
        left = (facts.samples.observed(i) - facts.samples.predicted[i]) ** 2
        by_fold = [left[fold_of[rows] == f].mean() for f in range(3)]
        np.testing.assert_allclose(by_fold, mse[:, i], rtol=1e-8)


def test_other_rows_are_predicted_by_the_model(model, table):
    X, y = make_table(seed=5)
    samples = read_samples(model, X, y, None, None, None)
    assert not samples.held_out
    found = np.concatenate(samples.predicted)
    order = np.concatenate([np.flatnonzero(X["patient"] == task) for task in model.tasks_])
    np.testing.assert_allclose(found, model.predict(X)[order])
    with pytest.raises(ValueError, match="the data are not those of the model"):
        read_samples(model, X.assign(patient="Q1"), y, None, None, None)


@pytest.mark.filterwarnings("ignore")
def test_rows_that_no_fold_held_out_are_not_shown():
    X, y = make_table()
    X, y = X[:-39], y[:-39]  # one row of P10
    folds = [(np.setdiff1d(np.arange(81), test), test) for test in (np.arange(0, 80, 2), np.arange(1, 80, 2))]
    model = LassoMTLCV(task_column="patient", lams=4, cv=folds).fit(X, y)
    samples = read_samples(model, X, y, None, None, None)
    assert samples.held_out
    assert [len(one) for one in samples.predicted] == [len(one) for one in samples.targets] == [0, 40, 40]
    assert samples.counts.tolist() == [1, 40, 40]
    assert json_of(report_html(model, X=X, y=y))["tasks"]["points"][2] == [[], []]


def test_a_model_from_a_file_does_not_call_its_rows_held_out(model, table, tmp_path):
    save_model(model, tmp_path / "m.msmtfl")
    assert not read_samples(load_model(tmp_path / "m.msmtfl"), *table, None, None, None).held_out


def test_sparse_rows_have_the_same_predictions(table):
    X, y = table
    values, task = X.drop(columns="patient").to_numpy(), X["patient"].to_numpy()
    model = LassoMTL(lam=0.05).fit(csr_array(values), y, task=task)
    samples = read_samples(model, csr_array(values), y, task, None, None)
    dense = read_samples(LassoMTL(lam=0.05).fit(values, y, task=task), values, y, task, None, None)
    np.testing.assert_allclose(samples.predicted[0], dense.predicted[0])


def test_tasks_are_in_natural_order(facts, page):
    assert facts.model.tasks_.tolist() == ["P10", "P8", "P9"]
    assert [row[0].text for row in model_tables.tasks_table(facts).rows] == ["P8", "P9", "P10"]
    known = json_of(page)
    assert known["tasks"]["tasks"] == known["charts"]["map"]["columns"] == ["P8", "P9", "P10"]


def test_the_view_of_a_task_holds_its_own_numbers(model, table, facts):
    view = task_view.task_view(facts)
    for place, task in enumerate(view["tasks"]):
        i = list(model.tasks_).index(task)
        shown = {view["features"][k]: value for k, value, _ in view["coefs"][place]}
        w = model.coef_[i] * facts.spreads
        assert shown == pytest.approx({f: v for f, v in zip(model.features_, w, strict=True) if v}, rel=1e-3)
        np.testing.assert_allclose(view["points"][place][0], facts.samples.observed(i), rtol=1e-3)
        assert f"off by {facts.errors.loss[i] ** 0.5:.3f}"[:12] in view["said"][place]
        unit = facts.effects[:, 0] / np.linalg.norm(facts.effects[:, 0], axis=1)[:, None]
        nearest = max((k for k in range(3) if k != i), key=lambda k: unit[i] @ unit[k])
        assert view["alike"][place][0] == [model.tasks_[nearest], round(float(unit[i] @ unit[nearest]), 2)]


def test_many_rows_are_thinned(model, table, facts, monkeypatch):
    monkeypatch.setattr(task_view, "POINTS", 30)
    monkeypatch.setattr(task_view, "LEAST_POINTS", 4)
    assert {len(one[0]) for one in task_view.task_view(facts)["points"]} == {10}


# ------------------------------------------------------------------ classes


@pytest.fixture(scope="module")
def classes():
    X, y = make_table(kind="class", n=60)
    model = MSMTFLClassifierCV(task_column="patient", lams=5, cv=3, entry_shares=0, theta_ratios=[2]).fit(X, y)
    return facts_of(model, X, y), X, y


def test_classes_are_judged_by_rows_held_out(classes):
    facts, X, y = classes
    assert facts.samples.held_out
    for i, task in enumerate(facts.model.tasks_):
        p, truth = facts.samples.predicted[i][:, 1], (y[X["patient"] == task] == "yes")
        assert performance.auc_by_task(facts)[i] == pytest.approx(roc_auc_score(truth, p))
    p, codes = performance.together(facts.samples, 3)
    assert performance.overall_auc(facts) == pytest.approx(roc_auc_score(codes, p[:, 1]))
    shown = [[cell.value for cell in row[1:3]] for row in performance.confusion_table(facts).rows]
    np.testing.assert_array_equal(shown, confusion_matrix(codes, p[:, 1] > 0.5))
    table = performance.calibration_table(facts)
    assert sum(row[1].value for row in table.rows) == len(y)
    for row in table.rows:
        low, high = map(float, row[0].text.split(" to "))
        inside = (p[:, 1] >= low) & (p[:, 1] < high)
        assert row[3].value == pytest.approx(codes[inside].mean())


def test_thresholds_of_the_page_count_the_rows(classes):
    facts, _, _ = classes
    curves = performance.histograms(facts)
    p, codes = performance.together(facts.samples, 3)
    for threshold in (0.25, 0.5, 0.9):
        above = [one for one in curves["counts"][0][0] if one[0] >= threshold * curves["bins"]]
        expected = [int(((p[:, 1] >= threshold) & (codes == k)).sum()) for k in (0, 1)]
        assert [sum(one[side] for one in above) for side in (1, 2)] == expected
    assert len(curves["counts"]) == 4


def test_page_of_classes_speaks_of_odds(classes, undrawn):
    facts, X, y = classes
    text = text_of(report_html(facts.model, X=X, y=y))
    assert "What predicts relapse in 3 patients" in text
    assert "The odds of relapse = yes rise with dose (×" in text
    assert "Odds ratio of one s.d." in text
    assert "On rows held out its log-loss is" in text
    assert "Every row is predicted by the model that was fitted without the row's fold" in text


@pytest.mark.slow
def test_three_classes_have_curves_each(undrawn):
    X, y = make_table(n=60)
    y = pd.Series(np.array(["a", "b", "c"])[np.digitize(y, [-1, 1])], name="grade")
    options = {"cv": 3, "entry_shares": 0, "thetas": [np.inf], "standardize": True}
    model = MSMTFLClassifierCV(task_column="patient", lams=[0.05, 0.02], **options).fit(X, y)
    html = report_html(model, X=X, y=y)
    assert json_of(html)["tasks"]["curves"]["classes"] == ["a", "b", "c"]
    facts = facts_of(model, X, y)
    strongest = facts.sharing.features[facts.by_importance[0]]
    assert strongest == "dose"
    assert "What tells the classes of grade apart most: dose" in text_of(html)
    p, codes = performance.together(facts.samples, 3)
    each = [roc_auc_score(codes == k, p[:, k]) for k in range(3)]
    assert performance.overall_auc(facts) == pytest.approx(np.mean(each))


# ------------------------------------------------------------------ any family


@pytest.mark.slow
@pytest.mark.parametrize("family", known_families(), ids=lambda family: family.search.__name__)
def test_every_family_has_the_whole_page(family, undrawn, tmp_path):
    X, y = make_table(kind="class" if family.classifies else "number")
    model = family.search(task_column="patient", cv=3).fit(X, y)
    html = report_html(model, X=X, y=y)
    for anchor in ("summary", "features", "coefficients", "tasks", "one", "sure", "method", "settings", "reproduce"):
        assert f'<section id="{anchor}"' in html
    assert "On rows held out" in text_of(html)
    assert json_of(html)["tasks"]["held"]
    save_model(model, tmp_path / "m.msmtfl")
    again = load_model(tmp_path / "m.msmtfl")
    first, second = (model_tables.tasks_table(ModelFacts(one)).rows for one in (model, again))
    assert first == second


def test_a_model_without_stages_has_the_whole_page(undrawn, table):
    X, y = table
    html = report_html(PooledRidgeCV(task_column="patient", cv=3).fit(X, y), X=X, y=y)
    assert 'id="method"' in html
    assert 'id="proof"' not in html
    assert "from msmtfl.baselines import PooledRidgeCV" in html
    assert "Cross-validation chose the strength of the penalty" in text_of(html)


@pytest.mark.parametrize("kind", [RidgePerTaskCV, PooledLassoCV])
def test_errors_of_baselines_are_those_of_their_folds(kind, table):
    X, y = table
    facts = facts_of(kind(task_column="patient", cv=3).fit(X, y), X, y)
    left = [(facts.samples.observed(i) - facts.samples.predicted[i]) ** 2 for i in range(3)]
    np.testing.assert_allclose(facts.errors.loss, [one.mean() for one in left])
    np.testing.assert_allclose(
        facts.errors.relative, facts.errors.loss / [np.var(facts.samples.observed(i)) for i in range(3)]
    )
    assert "The same folds chose the parameters" in sentences.prediction(facts)


@pytest.mark.slow
def test_an_automatic_choice_has_the_whole_page(undrawn, table):
    X, y = table
    model = MultiTaskAuto(["lasso", "pooled ridge"], cv=3, inner_cv=3, task_column="patient").fit(X, y)
    text = text_of(report_html(model, X=X, y=y))
    assert "What predicts updrs in 3 patients" in text
    assert "Why this model" in text
    assert "updrs rises with dose" in text
    assert "One patient at a time" in text


# ------------------------------------------------------------------ what to look at, and what to take along


@pytest.mark.filterwarnings("ignore:Too good to be true")
def test_a_target_that_is_computed_from_a_feature_is_flagged(table, undrawn):
    X, y = table
    y = y.where(X["patient"] != "P9", 3.0 * X["sun"])
    model = LassoMTLCV(task_column="patient", cv=3, lams=[1e-9, 1e-10]).fit(X, y)
    facts = facts_of(model, X, y)
    notes = {row[0].text: row[-1].text for row in model_tables.tasks_table(facts).rows}
    assert notes == {"P8": "", "P9": "too good: is the target computed from a feature?", "P10": ""}
    assert "held-out rows of P9 are predicted with" in sentences.suspicious(facts)
    assert "Look at this" in text_of(report_html(model))


def test_what_was_left_out_is_said(table, undrawn):
    X, y = table
    X, y = X.assign(unit=1.0)[:-36], y[:-36]  # P10 has four rows left
    model = LassoMTL(lam=0.05, task_column="patient").fit(X, y)
    text = text_of(report_html(model, left_out="2 rows had no target."))
    assert "2 rows had no target. The column unit is the same in all rows, and could not be learned from." in text
    assert "1 patient with fewer than 10 rows: P10." in text


def test_gains_of_tasks_are_corrected_for_how_many_there_are(facts):
    off = np.sqrt(1.2) * np.array([[-1.0], [0.0], [1.0]])  # so that standard errors over three folds are 1

    def signs(*change):
        found = ModelFacts(facts.model)
        found.over_lasso = OverLasso(change + off, np.zeros((3, 3)), np.ones((3, 3)), found.model.tasks_)
        np.testing.assert_allclose(found.gain, [change, np.full(3, 4.303)], rtol=1e-4)
        return found.gain_clear.tolist()

    assert signs(-4.4, 0.1, 0.1) == [0, 0, 0]  # one just clear task of three is none
    assert signs(-60.0, 0.1, 60.0) == [-1, 0, 1]


def test_tables_and_charts_can_be_taken_along(page):
    tables = re.findall(r'class="table-block" id="table-([\w-]+)"', page)
    assert sorted(re.findall(r'data-csv="([\w-]+)"', page)) == sorted(tables)
    charts = re.findall(r'<figure id="figure-(\w+)"', page)
    for kind in ("svg", "png"):
        assert re.findall(rf'data-picture="(\w+)" data-kind="{kind}"', page) == charts


def test_rows_are_rows_of_data_only(page):
    """Words of a page that would take a feature or a line of a table for a row."""
    text = text_of(page)
    for wrong in ("capped row", "row norm", "Row norm", "One row per feature", "of rows and entries"):
        assert wrong not in text


def test_a_page_of_noise_does_not_begin_with_a_finding(undrawn):
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.standard_normal((120, 4)), columns=["dose", "age", "sun", "rain"])
    X["site"] = np.repeat(["n", "s", "w"], 40)
    y = pd.Series(rng.standard_normal(120), name="noise")
    model = LassoMTLCV(task_column="site", cv=3, lams=[0.02, 0.01]).fit(X, y)
    samples = read_samples(model, X, y, None, None, None)
    facts = facts_of(model, X, y, sure=cheap_intervals(model, samples, X, y, None, None))
    assert facts.explained.share < 0
    told = "".join(part.text for part in answer(facts)[0])
    assert told.startswith(
        "Nothing is found that holds on new rows: the model predicts them no better than nothing would. In"
    )
    assert " clearly non-zero in none of 3 sites" in told
    assert "coefficients that have an interval none is clearly non-zero" in sentences.intervals(facts)
    classes = pd.Series(rng.choice(["a", "b", "c"], 120), name="kind")
    search = MSMTFLClassifierCV(task_column="site", cv=3, lams=[0.002, 0.001]).fit(X, classes)
    told = "".join(part.text for part in answer(facts_of(search, X, classes))[0])
    assert told.startswith("Nothing is found that holds on new rows")


def test_names_in_the_table_of_features_are_in_natural_order_and_rounding_has_no_direction():
    """A patient whose target is computed from one feature has effects of 1e-17 of others: they were counted as "down"."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((120, 3)), np.repeat(["patient 2", "patient 10", "patient 1", "patient 3"], 30)
    model = LassoMTL(0.01).fit(X, X[:, 0] + 0.1 * rng.standard_normal(120), task=task)
    model.coef_[:] = [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [-1e-17, 0.0, 0.0], [1.0, 1.0, 0.0]]
    facts = ModelFacts(model, Subject("updrs", "patient", "patients"))
    table = model_tables.features_table(facts)
    shown = {column.head: [cell.text for cell in column.cells] for column in table.columns}
    assert shown["Direction"][:2] == ["up", "up"]
    assert "patient 3 and patient 10" in shown["Used by"]
