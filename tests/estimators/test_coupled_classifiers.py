"""Classifiers, counts and outliers of the families that couple tasks: as estimators, in searches, comparisons, files."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from msmtfl import (
    DirtyMTLClassifier,
    DirtyMTLClassifierCV,
    DirtyMTLCV,
    L12MTLClassifier,
    L12MTLClassifierCV,
    L12MTLCV,
    MultiTaskAutoClassifier,
    PartialPoolingClassifier,
    PartialPoolingClassifierCV,
    PartialPoolingCV,
    SharedMTLClassifier,
    SharedMTLClassifierCV,
    SharedMTLCV,
    compare_models,
)
from msmtfl.model_files import load_model, save_model

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


@pytest.mark.parametrize("model", [FITS[2], FITS[3], SEARCHES[2]], ids=named)
def test_common_values_are_for_two_classes(model):
    X, y, task = make_data(3)
    with pytest.raises(ValueError, match=r"y holds 3 classes.*OneVsRestClassifier"):
        type(model)(**model.get_params()).fit(X, y, task=task)


def test_the_way_out_for_more_classes_works():
    X, y, task = make_data(3)
    table = pd.DataFrame(X, columns=list("abcd")).assign(site=task)
    many = OneVsRestClassifier(SharedMTLClassifier(task_column="site")).fit(table, y)
    assert many.predict_proba(table).shape == (120, 3)


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
    X, y, task = make_data()
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


def test_comparisons_of_three_classes_leave_out_what_knows_two():
    X, y, task = make_data(3)
    with pytest.raises(ValueError, match="3 classes, and model\\(s\\) 'shared' know two only"):
        compare_models(X, y, task=task, classify=True, models=["lasso", "shared"], cv=2)


@pytest.mark.slow
def test_the_automatic_choice_takes_them():
    X, y, task = make_data()
    models = {"l12": SEARCHES[0], "shared": SEARCHES[2]}
    chosen = MultiTaskAutoClassifier(models, cv=2, inner_cv=2).fit(X, y, task=task)
    assert chosen.chosen_ in models
    assert chosen.score(X, y, task=task) > 0.7
