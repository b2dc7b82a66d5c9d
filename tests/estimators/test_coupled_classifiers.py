"""Classifiers, counts and outliers of the families that couple tasks: as estimators, in searches, comparisons, files."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from msmtfl import (
    L12MTLCV,
    DirtyMTLClassifier,
    DirtyMTLClassifierCV,
    DirtyMTLCV,
    L12MTLClassifier,
    L12MTLClassifierCV,
    MultiTaskAutoClassifier,
    PartialPooling,
    PartialPoolingClassifier,
    PartialPoolingClassifierCV,
    PartialPoolingCV,
    SharedMTLClassifier,
    SharedMTLClassifierCV,
    SharedMTLCV,
    compare_models,
)
from msmtfl._estimators.families import family_of
from msmtfl.model_files import load_model, save_model
from msmtfl.report import report_html

FITS = [L12MTLClassifier(), DirtyMTLClassifier(), SharedMTLClassifier(), PartialPoolingClassifier()]
SEARCHES = [
    L12MTLClassifierCV(lams=3, lam_min_ratio=0.3, cv=2),
    DirtyMTLClassifierCV(lams=3, ratios=[0.5], lam_min_ratio=0.3, cv=2),
    SharedMTLClassifierCV(lams=3, ratios=[0.5], lam_min_ratio=0.3, cv=2),
    PartialPoolingClassifierCV(ks=2, k_commons=[1.0], cv=2),
]
REGRESSIONS = [
    L12MTLCV(lams=4, cv=2),
    DirtyMTLCV(lams=3, ratios=[0.5], cv=2),
    SharedMTLCV(lams=3, ratios=[0.5], cv=2),
    PartialPoolingCV(ks=2, k_commons=[1.0], cv=2),
]


def named(model):
    return type(model).__name__


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # small data that features separate
@parametrize_with_checks(FITS + SEARCHES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def make_data(classes=2, n=40, seed=0):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((3 * n, 4)), np.repeat(["a", "b", "c"], n)
    f = X[:, 0] + 0.4 * (task == "b") * X[:, 1] + 0.5 * rng.logistic(size=3 * n)
    return X, np.digitize(f, np.linspace(-0.7, 0.7, classes - 1)) if classes > 2 else (f > 0).astype(int), task


@pytest.mark.parametrize("model", FITS + SEARCHES, ids=named)
@pytest.mark.sampled(4)
def test_two_classes(model):
    X, y, task = make_data()
    model = type(model)(**model.get_params()).fit(X, np.array(["no", "yes"])[y], task=task)
    assert model.classes_.tolist() == ["no", "yes"]
    p = model.predict_proba(X, task=task)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    f = (X * model.coef_[np.searchsorted(model.tasks_, task)]).sum(axis=1)
    f += model.intercept_[np.searchsorted(model.tasks_, task)]
    np.testing.assert_allclose(model.decision_function(X, task=task), f)
    np.testing.assert_allclose(p[:, 1], 1.0 / (1.0 + np.exp(-f)))
    assert model.score(X, np.array(["no", "yes"])[y], task=task) > 0.7
    assert model.certificate_.optimal


@pytest.mark.parametrize("model", [FITS[0], FITS[1], SEARCHES[0]], ids=named)
def test_three_classes_share_features(model):
    X, y, task = make_data(3)
    model = type(model)(**model.get_params()).fit(X, y, task=task)
    assert model.coef_.shape == (3, 3, 4)
    assert model.predict_proba(X, task=task).shape == (120, 3)
    if hasattr(model, "coef_shared_"):
        np.testing.assert_allclose(model.coef_shared_ + model.coef_specific_, model.coef_, atol=1e-12)
    assert model.score(X, y, task=task) > 0.5


COMMON = [
    SharedMTLClassifier(lam_common=0.02, lam_deviation=0.012),
    SharedMTLClassifier(lam_common=0.02, lam_deviation=0.012, theta=0.2),
    SharedMTLClassifier(lam_common=0.02, lam_deviation=0.012, l1_ratio=0.7),
    SharedMTLClassifier(lam_common=0.02, lam_deviation=0.012, relax=True, intercepts="common"),
    SharedMTLClassifier(standardize=True),
    PartialPoolingClassifier(k=5.0, k_common=0.5),
    PartialPoolingClassifier(k=5.0),
    PartialPoolingClassifier(),
]


@pytest.mark.parametrize("model", COMMON, ids=range(len(COMMON)))
def test_values_in_common_of_three_classes_are_those_of_each_against_the_rest(model):
    X, y, task = make_data(3)
    model = clone(model).fit(X, y, task=task)
    assert model.certificate_.optimal
    assert model.coef_.shape == model.coef_deviation_.shape == (3, 3, 4)
    assert model.coef_common_.shape == (3, 4)
    names = ("k",) if hasattr(model, "k_") else ("lam_common", "lam_deviation")
    factor = 1.0 if hasattr(model, "k_") else 3.0  # the loss is a mean over classes, too
    objectives = 0.0
    for c in range(3):
        strengths = {name: factor * getattr(model, f"{name}_") for name in names}
        one = clone(model).set_params(**strengths).fit(X, y == c, task=task)
        np.testing.assert_allclose(model.coef_[:, c], one.coef_, atol=1e-8)
        np.testing.assert_allclose(model.coef_common_[c], one.coef_common_, atol=1e-8)
        np.testing.assert_allclose(model.coef_deviation_[:, c], one.coef_deviation_, atol=1e-8)
        objectives += one.objective_ / 3.0
    assert model.objective_ == pytest.approx(objectives, abs=1e-10)


@pytest.mark.parametrize("model", [COMMON[0], COMMON[5]], ids=["shared", "pooling"])
def test_what_one_asks_of_models_with_values_in_common_of_three_classes(model, tmp_path):
    X, y, task = make_data(3)
    model = clone(model).set_params(unknown_task="common").fit(X, y, task=task)
    save_model(model, tmp_path / "a.msmtfl")
    np.testing.assert_array_equal(load_model(tmp_path / "a.msmtfl").coef_common_, model.coef_common_)
    with pytest.warns(UserWarning, match="new"):
        p = model.predict_proba(X[:2], task=["new"] * 2)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    # a new task like an old one, given what the others have in common
    model.add_task(X[:40], y[:40], "again")
    np.testing.assert_allclose(model.coef_[-1], model.coef_[0], atol=1e-8)
    np.testing.assert_allclose(model.coef_deviation_[-1], model.coef_deviation_[0], atol=1e-8)
    assert model.certificate_.optimal
    assert "Common value" in report_html(model)


@pytest.mark.parametrize("model", [SEARCHES[2], SEARCHES[3]], ids=named)
@pytest.mark.parametrize("options", [{}, {"selection": "bic"}], ids=["folds", "bic"])
def test_searches_of_values_in_common_of_three_classes(model, options):
    X, y, task = make_data(3)
    model = clone(model).set_params(**options).fit(X, y, task=task)
    assert model.certificate_.optimal
    assert model.score(X, y, task=task) > 0.5
    if options:
        chosen = model.surface_
        assert np.nanmax(chosen.dual_gap) <= 1e-8
        names = ("k", "k_common") if hasattr(model, "k_") else ("lam_common", "lam_deviation", "theta")
        kind = PartialPoolingClassifier if hasattr(model, "k_") else SharedMTLClassifier
        alone = kind(**{name: getattr(model, f"{name}_") for name in names}).fit(X, y, task=task)
        np.testing.assert_allclose(alone.coef_, model.coef_, atol=1e-7)
        np.testing.assert_allclose(chosen.objective[model.best_point_], alone.objective_, atol=1e-9)


@pytest.mark.parametrize("model", FITS, ids=named)
def test_class_weights_are_sample_weights(model):
    X, y, task = make_data()
    weighted = type(model)(class_weight={0: 1.0, 1: 3.0}).set_params(**strengths(model)).fit(X, y, task=task)
    given = type(model)(**strengths(model)).fit(X, y, task=task, sample_weight=np.where(y == 1, 3.0, 1.0))
    np.testing.assert_allclose(weighted.coef_, given.coef_, atol=1e-9)


def strengths(model):
    known = {"lam": 0.05, "lam_s": 0.04, "lam_b": 0.07, "lam_common": 0.08, "lam_deviation": 0.04, "k": 3.0}
    return {name: value for name, value in known.items() if name in model.get_params()}


@pytest.mark.parametrize("model", SEARCHES, ids=named)
@pytest.mark.sampled(2)
def test_scores_are_log_losses_of_fits_without_the_fold(model):
    X, y, task = make_data()
    rows = np.arange(len(y))
    folds = [(rows[rows % 2 == 0], rows[rows % 2 == 1]), (rows[rows % 2 == 1], rows[rows % 2 == 0])]
    search = type(model)(**model.get_params() | {"cv": folds}).fit(X, y, task=task)
    place = search.best_index_
    fit = next(one for one in FITS if type(search).__name__ == type(one).__name__ + "CV")
    known = {name: search.cv_results_[name][place] for name in fit.get_params() if name in search.cv_results_}
    losses = []
    for train, test in folds:
        one = type(fit)(**known).fit(X[train], y[train], task=task[train])
        p = one.predict_proba(X[test], task=task[test])[np.arange(len(test)), y[test]]
        losses.append(-np.log(p).mean())
    found = [search.cv_results_[f"split{k}_test_score"][place] for k in range(2)]
    np.testing.assert_allclose(found, -np.array(losses), rtol=1e-6)
    np.testing.assert_allclose(search.coef_, type(fit)(**known).fit(X, y, task=task).coef_, atol=1e-6)


@pytest.mark.parametrize("loss", ["poisson", "huber"])
@pytest.mark.parametrize("model", REGRESSIONS, ids=named)
@pytest.mark.sampled(3)
def test_searches_of_regressions(model, loss):
    X, _, task = make_data()
    counts = np.random.default_rng(1).poisson(np.exp(0.5 * X[:, 0])).astype(float)
    search = type(model)(**model.get_params() | {"loss": loss, "scoring": "neg_deviance"}).fit(X, counts, task=task)
    assert search.certificate_.optimal
    assert np.nanmax(search.surface_.dual_gap) < 1e-8
    assert np.isfinite(search.best_score_)
    null = type(model)(**model.get_params() | {"loss": loss}).fit(X, counts, task=task).predict(X, task=task)
    assert (null > 0).all() if loss == "poisson" else np.isfinite(null).all()


@pytest.mark.parametrize("selection", ["aic", "bic", "ebic"])
@pytest.mark.parametrize("model", [SEARCHES[0], SEARCHES[1], SEARCHES[3]], ids=named)
@pytest.mark.sampled(3)
def test_information_criteria(model, selection):
    X, y, task = make_data()
    search = type(model)(**model.get_params() | {"selection": selection}).fit(X, y, task=task)
    assert np.isfinite(search.cv_results_[selection]).any()


@pytest.mark.parametrize("model", FITS + SEARCHES, ids=named)
@pytest.mark.sampled(4)
def test_files_keep_them(model, tmp_path):
    X, y, task = make_data()
    model = type(model)(**model.get_params()).fit(X, y, task=task)
    save_model(model, tmp_path / "a.msmtfl")
    again = load_model(tmp_path / "a.msmtfl")
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict_proba(X, task=task), model.predict_proba(X, task=task))


@pytest.mark.slow
def test_comparisons_have_all_families():
    X, y, task = make_data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare_models(X, y, task=task, classify=True, cv=2)
    names = {"lasso", "l12", "dirty", "msmtfl", "bi-level", "shared", "partial-pooling"}
    assert names <= set(found.to_frame()["model"])


def test_comparisons_of_three_classes_have_values_in_common():
    X, y, task = make_data(3)
    found = compare_models(X, y, task=task, classify=True, models=["lasso", "shared"], cv=2, random_state=0)
    assert set(found.to_frame()["model"]) == {"lasso", "shared"}


@pytest.mark.slow
def test_the_automatic_choice_takes_them():
    X, y, task = make_data()
    models = {"l12": SEARCHES[0], "shared": SEARCHES[2]}
    chosen = MultiTaskAutoClassifier(models, cv=2, inner_cv=2).fit(X, y, task=task)
    assert chosen.chosen_ in models
    assert chosen.score(X, y, task=task) > 0.7


def test_formulas_have_the_loss():
    X, y, task = make_data()
    classes = PartialPoolingClassifier(k=1.0).fit(X, y, task=task)
    counts = PartialPooling(k=1.0, loss="poisson").fit(X, y, task=task)
    numbers = PartialPooling(k=1.0).fit(X, y, task=task)
    assert family_of(classes).formula(classes)[0] == "2/N Σᵢ Σᵣ [log(1 + exp fᵣ) − yᵣ fᵣ]"
    assert "exp fᵣ − yᵣ fᵣ" in family_of(counts).formula(counts)[0]
    assert family_of(numbers).formula(numbers)[0] == "1/N Σᵢ ‖fᵢ − yᵢ‖²"
