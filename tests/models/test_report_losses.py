"""A page measures a model by its own loss, as comparisons do, and shows its formula: of every family and loss."""

import html
import re

import numpy as np
import pytest
from report_data import make_data
from sklearn.metrics import mean_absolute_error, mean_gamma_deviance, mean_poisson_deviance, mean_tweedie_deviance

from msmtfl import MSMTFL, MSMTFLCV, MSMTFLClassifier, MSMTFLClassifierCV, TaskKFold, split_intervals
from msmtfl._estimators.cross_fitted import lasso_points
from msmtfl._estimators.families import known_families
from msmtfl._estimators.words.formulas import formula
from msmtfl._paths.validation.other_folds import points_without
from msmtfl.compare.of_losses import DEVIANCE, numbers_under
from msmtfl.model_files import load_model, save_model
from msmtfl.report import page as report_page
from msmtfl.report import report_html
from msmtfl.report.known.facts import ModelFacts
from msmtfl.report.known.lifetimes import LEVELS, curves, read_lifetimes
from msmtfl.report.known.measured import WORDS, losses_by_fold
from msmtfl.report.known.samples import read_samples

for needed in ("bokeh", "jinja2", "matplotlib"):
    pytest.importorskip(needed)

SQUARED = ("squared error", "targets' variance", "root mean square", "nMSE is", "of its variation")
FAMILIES = [cls for family in known_families() for cls in family.classes]


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    for name in ("_coefficient_map", "_surface", "_gains_chart"):
        monkeypatch.setattr(report_page, name, lambda facts: None)


def text_of(page):
    body = re.sub(r"(?s)<(script|style).*?</\1>", " ", page)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", body)))


def formula_of(model):
    return " ".join(formula(model).split())


def absolute_over_median(y, p, sample_weight):
    assert np.ptp(sample_weight) == 0  # numpy's median has no weights
    return mean_absolute_error(y, p) / mean_absolute_error(y, np.full(len(y), np.median(y)))


def over_mean(deviance):
    def share(y, p, sample_weight):
        mean = np.full(len(y), np.average(y, weights=sample_weight))
        return deviance(y, p, sample_weight=sample_weight) / deviance(y, mean, sample_weight=sample_weight)

    return share


STRENGTHS = ("lam", "theta", "lam_entry", "theta_entry")
DEVIANCES = ("poisson", "gamma", "huber")
ORACLES = {
    "poisson": ("deviance", over_mean(mean_poisson_deviance)),
    "gamma": ("deviance", over_mean(mean_gamma_deviance)),
    "tweedie": ("deviance", over_mean(lambda *a, **kw: mean_tweedie_deviance(*a, power=1.5, **kw))),
    "huber": ("absolute error", absolute_over_median),
}


@pytest.mark.parametrize("loss", [pytest.param(one, marks=[pytest.mark.slow] * (one != "poisson")) for one in ORACLES])
def test_a_page_measures_by_the_loss_of_the_model(loss):
    X, y = make_data(loss)
    word, share = ORACLES[loss]
    weight = np.ones(len(y)) if loss == "huber" else np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    model = MSMTFLCV(loss=loss, task_column="site", cv=3, lams=[0.2, 0.1, 0.05]).fit(X, y, sample_weight=weight)
    samples = read_samples(model, X, y, None, weight, None)
    facts = ModelFacts(model, None, samples)
    assert samples.held_out
    assert facts.by_fold[2]  # each fold at the point that the others choose
    own = losses_by_fold(numbers_under(loss), samples, samples.predicted)
    oracle, at_choice = [], np.average(own[0], axis=0, weights=own[1]) / facts.unit
    for i, label in enumerate(model.tasks_):
        rows = (X["site"] == label).to_numpy()
        assert np.array_equal(samples.targets[i], y[rows])
        oracle.append(share(y[rows], samples.predicted[i], weight[rows]))
    np.testing.assert_allclose(at_choice, oracle, rtol=1e-9)
    text = text_of(report_html(model, X=X, y=y, sample_weight=weight))
    assert formula_of(model) in text
    assert (
        f"On rows held out in 3 folds, each predicted with parameters that the other folds chose, the {word} is" in text
    )
    assert f"Held-out {word}" in text
    assert f"the mean {word} is" in text
    assert "candidates by their held-out nMSE" in text  # what chose, whatever measures
    assert not [wrong for wrong in SQUARED if wrong in text]


def in_tasks(X, rows, losses):
    """(3,): means over the rows of the tasks."""
    sites = X["site"].to_numpy()[rows]
    return np.array([losses[sites == label].mean() for label in ("north", "south", "west")])


def deviances(kind, y, f):
    if kind == "poisson":
        return 2.0 * (np.where(y > 0, y * np.log(np.maximum(y, 1e-9)) - y * f, 0.0) - y + np.exp(f))
    return 2.0 * (y * np.exp(-f) - 1.0 - np.log(y) + f) if kind == "gamma" else np.abs(y - f)


@pytest.mark.parametrize(
    "loss", [pytest.param(one, marks=[pytest.mark.slow] * (one != "poisson")) for one in DEVIANCES]
)
def test_what_sharing_gained_is_that_of_refits_by_the_loss_of_the_model(loss):
    X, y = make_data(loss, 80)
    split = list(TaskKFold(3, task_column="site", random_state=1).split(X))
    options = {"loss": loss, "task_column": "site"}
    model = MSMTFLCV(cv=split, lams=8, **options).fit(X, y)
    own, alone = points_without(model), points_without(model, lasso_points(model))
    assert (own != alone).any()
    found, oracle, folds = model.cv_results_, [], []
    level = np.median if loss == "huber" else lambda values: np.log(np.mean(values))
    nothing = np.array([level(y[X["site"] == label]) for label in model.tasks_])
    unit = in_tasks(X, slice(None), deviances(loss, y.to_numpy(), nothing[np.repeat([0, 1, 2], 80)]))
    for (train, test), points in zip(split, zip(own, alone, strict=True), strict=True):
        for p in points:
            one = MSMTFL(**{name: found[name][p] for name in STRENGTHS}, **options).fit(X.iloc[train], y.iloc[train])
            level = one.predict(X.iloc[test])
            f = level if loss == "huber" else np.log(level)
            oracle.append(in_tasks(X, test, deviances(loss, y.to_numpy()[test], f)) / unit)
        folds.append(X["site"].iloc[test].value_counts()[model.tasks_].to_numpy())
    facts = ModelFacts(model, None, read_samples(model, X, y, None, None, None))
    np.testing.assert_allclose(facts.over_lasso.chosen, oracle[::2], rtol=1e-4)
    np.testing.assert_allclose(facts.over_lasso.lasso, oracle[1::2], rtol=1e-4)
    change = np.subtract(oracle[::2], oracle[1::2])
    np.testing.assert_allclose(facts.gain[0], np.average(change, axis=0, weights=folds), atol=1e-4)
    text = text_of(report_html(model, X=X, y=y))
    name = "relative absolute error" if loss == "huber" else "relative deviance"
    assert f"compared with the best independent lassos ({name} " in text or facts.shares_nothing
    assert not [wrong for wrong in (*SQUARED, "This fit alone cannot say") if wrong in text]


def test_a_search_by_deviances_is_measured_at_points_that_other_folds_choose():
    X, y = make_data("poisson")
    options = {"loss": "poisson", "task_column": "site", "cv": 3, "thetas": [np.inf]}
    one = MSMTFLCV(lams=[0.1], scoring="neg_deviance", **options).fit(X, y)  # where there is nothing to choose
    two = MSMTFLCV(lams=[0.1], **options).fit(X, y)
    crossed, own = (ModelFacts(model, None, read_samples(model, X, y, None, None, None)) for model in (one, two))
    assert crossed.by_fold[2]
    assert own.by_fold[2]
    np.testing.assert_allclose(crossed.by_fold[0], own.by_fold[0], rtol=1e-6)
    np.testing.assert_allclose(crossed.errors.relative, own.errors.relative, rtol=1e-6)
    assert "each predicted with parameters that the other folds chose, the deviance is" in text_of(
        report_html(one, X=X, y=y)
    )


def test_without_its_rows_a_model_of_counts_has_no_share_explained(tmp_path):
    X, y = make_data("poisson")
    model = MSMTFLCV(loss="poisson", task_column="site", cv=3, lams=[0.2, 0.1, 0.05]).fit(X, y)
    save_model(model, tmp_path / "model.npz")
    for one in (model, load_model(tmp_path / "model.npz")):
        text = text_of(report_html(one))
        assert "With the rows of the fit (X and y) the page tells the held-out deviance of every site." in text
        assert "explained" not in text
        assert "nMSE 0." not in text


def test_a_model_of_times_has_hazards_and_the_order_of_pairs():
    X, y = make_data("cox")
    model = MSMTFLCV(loss="cox", task_column="site", cv=3, lams=[0.2, 0.1, 0.05]).fit(X, y)
    text = text_of(report_html(model, X=X, y=y))
    assert formula_of(model) in text
    assert "What predicts the event in 3 sites" in text
    assert "it tells which event came first in 58 % of the pairs (south) to 72 % (west), where chance" in text
    assert "the mean partial deviance is" in text
    assert "The C-index, the share of pairs whose order is predicted, is from" in text
    assert "Hazards are predicted, not times" in text
    assert "without intervals here. In Python split_intervals(model, X, y) gives intervals that hold" in text
    found = split_intervals(model, X, y)
    page = report_html(model, X=X, y=y, intervals=found)
    assert "clearly non-zero" in text_of(page)
    assert "end of the 95 % interval, of the logarithm of the hazard" in page
    assert not [wrong for wrong in (*SQUARED, "With the data (X and y)", "With the rows of the fit") if wrong in text]


def test_survival_curves_of_a_page_are_those_of_the_model_and_of_kaplan_and_meier():
    SurvfuncRight = pytest.importorskip("statsmodels.duration.survfunc").SurvfuncRight
    X, y = make_data("cox")
    y[:, 0] = np.ceil(8.0 * y[:, 0])  # ties
    model = MSMTFL(0.05, 1.0, loss="cox", task_column="site").fit(X, y)
    lifetimes = read_lifetimes(model, X, y, None, None, None)
    assert lifetimes.of_the_fit
    assert not read_lifetimes(model, X[1:], y[1:], None, None, None).of_the_fit
    for i, label in enumerate(model.tasks_):
        rows = np.flatnonzero(X["site"] == label)
        found = curves(model, lifetimes, i)
        at = np.array(found["steps"][0][0])
        np.testing.assert_allclose(lifetimes.hazards[i], model.predict(X.iloc[rows]), rtol=1e-12)
        whole = model.predict_survival_function(X.iloc[rows], times=at)
        ordered = whole[np.argsort(lifetimes.hazards[i])]
        for (times, shares), q in zip(found["steps"][:3], LEVELS, strict=True):
            assert times == at.tolist()
            below, above = ordered[int(np.ceil(q * (len(rows) - 1)))], ordered[int(q * (len(rows) - 1))]
            assert (below * (1 - 1e-3) <= shares).all()
            assert (shares <= above * (1 + 1e-3)).all()
        of_survfunc = SurvfuncRight(y[rows, 0], y[rows, 1])
        np.testing.assert_allclose(lifetimes.observed(i)[0], of_survfunc.surv_times)
        np.testing.assert_allclose(lifetimes.observed(i)[1], of_survfunc.surv_prob, atol=1e-12)
    with_rows, alone = text_of(report_html(model, X=X, y=y)), text_of(report_html(model))
    assert "With the data (X and y) the page shows survival curves of every site." in alone
    assert "Curves: the share of rows that are expected to be still without the event" in with_rows


def test_every_measure_has_words():
    found = ModelFacts(MSMTFL(0.1, 1.0, loss="gamma", task_column="site").fit(*make_data("gamma")))
    assert found.words == WORDS[DEVIANCE]
    assert found.errors is None


@pytest.mark.parametrize(
    "cls", [pytest.param(cls, marks=[pytest.mark.slow] * (cls is not FAMILIES[0])) for cls in FAMILIES]
)
def test_a_page_of_every_family_has_its_formula_and_measure(cls):
    classifies = hasattr(cls, "predict_proba")
    X, y = make_data("two" if classifies else "squared")
    options = {"cv": 3} if "cv" in cls().get_params() else {}
    model = cls(task_column="site", **options).fit(X, y)
    text = text_of(report_html(model, X=X, y=y))
    assert formula_of(model) in text
    if options:
        assert f"the {'log-loss' if classifies else 'squared error'} is" in text
    else:
        assert "This fit held no rows out" in text
    assert ("split_intervals(model, X, y)" in text) <= hasattr(model, "penalty_factors")
    assert "deviance" not in text.replace("relative deviance", "")


@pytest.mark.slow
@pytest.mark.parametrize("multinomial", [False, True])
def test_pages_of_several_classes(multinomial):
    X, y = make_data("three")
    model = MSMTFLClassifierCV(multinomial=multinomial, task_column="site", cv=3, lams=[0.2, 0.1, 0.05]).fit(X, y)
    text = text_of(report_html(model, X=X, y=y))
    assert formula_of(model) in text
    assert "the log-loss is" in text
    rare = y.where((X["site"] != "west") | (y != "c"), "a")
    rare.iloc[-1] = "c"  # the only one of its class in west
    one = MSMTFLClassifier(0.05, 1.0, multinomial=multinomial, task_column="site").fit(X, rare)
    assert formula_of(one) in text_of(report_html(one, X=X, y=rare))
