"""Classifiers compared, the logistic baselines, and the automatic choice among classifiers."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from msmtfl import LassoMTL, MSMTFLClassifier, MultiTaskAuto, MultiTaskAutoClassifier, compare_models
from msmtfl._estimators.baselines.logistic import (
    LOGISTIC_ALPHAS,
    LogisticPerTaskCV,
    PooledLogisticCV,
    _logistic_path,
)
from msmtfl._estimators.classification.classes import class_folds, read_classes
from msmtfl.compare.run import default_models
from msmtfl.model_files import load_model, save_model

TASKS = np.array(["east", "north", "south"])
FAST = {"weak": MSMTFLClassifier(0.02), "strong": MSMTFLClassifier(0.1), "pooled": PooledLogisticCV(cv=2)}
SMALL = {
    "lasso": MSMTFLClassifier(0.05, np.inf, unknown_task="mean"),
    "pooled ridge": PooledLogisticCV(cv=2, unknown_task="mean"),
}


def make_data(seed=0, n=60, d=5, same=True, classes=("ill", "well")):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((3 * n, d)), np.repeat(TASKS, n)
    W = (
        np.tile([2.0, -1.0, *[0.0] * (d - 2)], (3, 1))
        if same
        else np.array([[3.0, 0], [-3.0, 0], [0, 3.0]] @ np.eye(2, d))
    )
    f = (X * np.repeat(W, n, axis=0)).sum(axis=1) + rng.logistic(size=3 * n)
    cuts = np.quantile(f, np.arange(1, len(classes)) / len(classes))
    order = rng.permutation(3 * n)
    return X[order], np.array(classes)[np.digitize(f, cuts)][order], task[order]


def folds_of(X, y, task, n_splits):
    classes, _, data = read_classes(X, y, task=task, task_column=None, sample_weight=None)
    return class_folds(data, classes, n_splits, 0, None)


# ------------------------------------------------------------------ numbers


@pytest.mark.slow
@pytest.mark.parametrize("classes", [(False, True), ("a", "b", "c")])
def test_errors_are_log_losses_over_those_of_class_shares_by_hand(classes):
    X, y, task = make_data(classes=classes)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    result = compare_models(X, y, task=task, models=FAST, cv=3, sample_weight=weight, nested=True)
    for k, model in enumerate(FAST.values()):
        p = np.empty((len(y), len(classes)))
        area = np.zeros((2, 3))
        for train, test in folds_of(X, y, task, 3):
            fitted = clone(model).fit(X[train], y[train], task=task[train], sample_weight=weight[train])
            p[test] = fitted.predict_proba(X[test], task=task[test])
            for i, label in enumerate(TASKS):
                rows = test[task[test] == label]
                if len(classes) == 2:
                    positive = y[rows] == classes[1]
                    pairs = weight[rows][positive].sum() * weight[rows][~positive].sum()
                    auc = roc_auc_score(positive, p[rows, 1], sample_weight=weight[rows])
                    area[:, i] += pairs * auc, pairs
        for i, label in enumerate(TASKS):
            rows = np.flatnonzero(task == label)
            shares = np.array([weight[rows][y[rows] == one].sum() for one in classes]) / weight[rows].sum()
            options = {"labels": list(classes), "sample_weight": weight[rows]}
            nothing = log_loss(y[rows], np.tile(shares, (len(rows), 1)), **options)
            np.testing.assert_allclose(result.error_by_task[k, i], log_loss(y[rows], p[rows], **options) / nothing)
        if len(classes) == 2:
            np.testing.assert_allclose(result.auc_by_task[k], area[0] / area[1])
    assert (result.auc is None) == (len(classes) > 2)
    assert result.best == result.models[np.argmin(result.error)]
    assert "relative log-loss" in repr(result)


def test_a_column_of_y_per_task_is_the_same_as_a_label_per_row_of_its_own_task():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 4))
    Y = (X[:, :1] + rng.logistic(size=(90, 2)) > 0).astype(float)
    Y[:20, 0] = np.nan
    pairs = [(np.arange(k % 3, 90, 3), np.arange((k + 1) % 3, 90, 3)) for k in range(3)]
    models = {"a": MSMTFLClassifier(0.02, np.inf), "b": MSMTFLClassifier(0.1, np.inf)}
    wide = compare_models(X, Y, models=models, cv=pairs)
    seen = ~np.isnan(Y.T.ravel())
    rows = np.tile(np.arange(90), 2)[seen]
    place = [(np.flatnonzero(np.isin(rows, a)), np.flatnonzero(np.isin(rows, b))) for a, b in pairs]
    long = compare_models(
        X[rows], Y.T.ravel()[seen].astype(int), task=np.repeat([0, 1], 90)[seen], models=models, cv=place
    )
    np.testing.assert_allclose(wide.error_by_task, long.error_by_task, rtol=1e-6)
    np.testing.assert_allclose(wide.auc_by_task, long.auc_by_task)


@pytest.mark.slow
def test_named_models_are_logistic_and_noise_has_an_error_of_one():
    X, y, task = make_data()
    names = ["lasso", "ridge per task", "pooled lasso", "pooled ridge"]
    result = compare_models(X, y, task=task, models=names, classify=True, cv=2, inner_cv=2, nested=True)
    assert result.reference == "lasso"
    assert result.best in names
    result = compare_models(X, y, task=task, models=names, classify=True, cv=2, inner_cv=2)
    assert (result.error < 0.9).all()
    assert (result.auc > 0.7).all()
    noise = np.random.default_rng(0).permutation(y)
    result = compare_models(X, noise, task=task, models=names, classify=True, cv=2, inner_cv=2)
    np.testing.assert_allclose(result.error, 1.0, atol=0.1)
    np.testing.assert_allclose(result.auc, 0.5, atol=0.1)


def test_tables_and_picture_say_what_is_measured():
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    X, y, task = make_data()
    result = compare_models(X, y, task=task, models=FAST, cv=2)
    assert {"relative_log_loss", "auc"} <= set(result.summary())
    assert {"relative_log_loss", "auc"} <= set(result.to_frame())
    assert "nmse" not in result.summary()
    left, right = result.plot().axes
    assert left.get_xlabel().startswith("held-out relative log-loss")
    assert right.get_xlabel().startswith("relative log-loss of")
    with pytest.raises(AttributeError, match="error holds their relative log-loss"):
        _ = result.nmse


def test_text_and_mixtures_are_refused_with_the_way_out():
    X, y, task = make_data()
    with pytest.raises(ValueError, match=r"classify=True"):
        compare_models(X, y, task=task, models=["lasso", "msmtfl"])
    with pytest.raises(ValueError, match=r"MultiTaskAutoClassifier"):
        MultiTaskAuto(["lasso", "msmtfl"]).fit(X, y, task=task)
    with pytest.raises(TypeError, match=r"'weak' are classifiers, 'l' are not"):
        compare_models(X, y, task=task, models={"weak": FAST["weak"], "l": LassoMTL()})
    with pytest.raises(TypeError, match="classify=False, but the models are classifiers"):
        compare_models(X, y, task=task, models=FAST, classify=False)
    with pytest.raises(ValueError, match=r"unknown model.*'dirt'.*Known: .*'dirty'"):
        compare_models(X, y, task=task, models=["lasso", "dirt"], classify=True)
    with pytest.raises(ValueError, match="leave_one_task_out is for numbers"):
        compare_models(X, y, task=task, models=FAST, leave_one_task_out=True)


def test_every_task_without_all_classes_is_named():
    X, y, task = make_data(classes=("a", "b", "c"))
    y = np.where(task == "south", "a", np.where((task == "east") & (y == "b"), "c", y))
    with pytest.raises(
        ValueError, match=r"task 'east' has no row of class 'b'; task 'south' has no row of class 'b', 'c'"
    ):
        compare_models(X, y, task=task, models=FAST)
    y = np.where(task == "north", "b", np.where(task == "south", "b", np.where(y == "c", "a", y)))
    with pytest.raises(ValueError, match=r"tasks 'north', 'south' have no row of class 'a'"):
        MSMTFLClassifier().fit(X, y, task=task)


# ------------------------------------------------------------------ baselines


@pytest.mark.slow
@parametrize_with_checks([LogisticPerTaskCV(cv=2)])
def test_scikit_learn_checks_of_baselines(estimator, check):
    if check.func.__name__ != "check_sample_weight_equivalence_on_dense_data":  # gives folds; a baseline makes its own
        check(estimator)


def test_a_ridge_path_is_that_of_scikit_learn():
    X, y, task = make_data()
    X, y = X[task == "east"], (y[task == "east"] == "well").astype(float)
    X = X - X.mean(axis=0)
    W, b = _logistic_path(X, y, np.ones(len(y)), np.zeros(len(y), dtype=int))
    for w, level, alpha in zip(W, b, LOGISTIC_ALPHAS[::-1] * (X**2).sum(axis=0).mean(), strict=True):
        peer = LogisticRegression(C=1.0 / alpha, tol=1e-10, max_iter=10_000).fit(X, y)
        np.testing.assert_allclose(w, peer.coef_[0], atol=1e-4)
        np.testing.assert_allclose(level, peer.intercept_, atol=1e-4)


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_pooled_tasks_have_intercepts_of_their_own_without_penalty(penalty):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((240, 3)), np.repeat([0, 1], 120)
    y = rng.random(240) < np.where(task == 0, 0.1, 0.7)  # nothing but the task matters
    model = PooledLogisticCV(penalty, cv=3).fit(X, y, task=task)
    np.testing.assert_array_equal(model.coef_[0], model.coef_[1])
    p = model.predict_proba(X, task=task)[:, 1]
    for i in range(2):
        np.testing.assert_allclose(p[task == i].mean(), y[task == i].mean(), rtol=1e-4)


def test_one_task_is_the_pooled_one_and_units_do_not_matter_when_standardised():
    X, y, _ = make_data()
    alone, pooled = LogisticPerTaskCV(cv=3).fit(X, y), PooledLogisticCV(cv=3).fit(X, y)
    np.testing.assert_allclose(alone.coef_, pooled.coef_)
    scale = np.array([1e-3, 1.0, 1e3, 1.0, 10.0])
    same = LogisticPerTaskCV(cv=3, standardize=True)
    one, other = (clone(same).fit(Z, y) for Z in (X, X * scale + 5.0))
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X * scale + 5.0), atol=1e-4)


def test_bad_parameters_of_baselines_are_named():
    X, y, task = make_data()
    with pytest.raises(ValueError, match="penalty must be 'l1' or 'l2'"):
        PooledLogisticCV("l0").fit(X, y, task=task)
    with pytest.raises(TypeError, match="takes dense data"):
        LogisticPerTaskCV().fit(sparse.csr_array(X), y, task=task)


# ------------------------------------------------------------------ the automatic choice


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # small data that features separate
@parametrize_with_checks(
    [MultiTaskAutoClassifier({"a": MSMTFLClassifier(0.3, np.inf), "b": MSMTFLClassifier(0.1)}, cv=2)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("same", [True, False])
def test_it_pools_classes_where_pooling_wins_and_only_there(same, tmp_path):
    X, y, task = make_data(same=same, n=80)
    model = MultiTaskAutoClassifier(SMALL, cv=3, selection="min").fit(X, y, task=task)
    assert model.chosen_ == ("pooled ridge" if same else "lasso")
    assert "has the smallest held-out relative log-loss of 2 models" in model.reason_
    alone = clone(SMALL[model.chosen_]).fit(X, y, task=task)
    np.testing.assert_array_equal(model.predict_proba(X, task=task), alone.predict_proba(X, task=task))
    np.testing.assert_array_equal(model.predict(X, task=task), alone.predict(X, task=task))
    assert model.score(X, y, task=task) == alone.score(X, y, task=task)
    save_model(model, tmp_path / "a.msmtfl")
    again = load_model(tmp_path / "a.msmtfl")
    assert again.provenance_["choice"] == {"chosen": model.chosen_, "reason": model.reason_, "way": "cross-validation"}
    np.testing.assert_array_equal(again.predict_proba(X, task=task), model.predict_proba(X, task=task))


def test_classifiers_by_name_in_a_table():
    pd = pytest.importorskip("pandas")
    X, y, task = make_data()
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(5)]).assign(town=task)
    names = ["ridge per task", "pooled ridge"]
    model = MultiTaskAutoClassifier(names, cv=2, inner_cv=2, task_column="town").fit(table, y)
    assert model.classes_.tolist() == ["ill", "well"]
    assert set(model.predict(table)) == {"ill", "well"}
    assert set(default_models(classify=True)) > set(names)
