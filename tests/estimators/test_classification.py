"""Classifiers: their contract, parity with scikit-learn, one against the rest, class weights, cross-validation, files."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

from msmtfl import MSMTFL, MSMTFLClassifier, MSMTFLClassifierCV, TaskKFold
from msmtfl._data import tasks
from msmtfl._data.categories import read_features
from msmtfl.model_files import load_model, save_model
from msmtfl.sharing import map_of


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # small data that features separate
@parametrize_with_checks(
    [MSMTFLClassifier(), MSMTFLClassifierCV(2, lam_min_ratio=0.3, theta_ratios=[4.0, np.inf], entry_shares=0, cv=2)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def make_data(m=3, n=100, d=6, classes=2, seed=0):
    """X, y (whole numbers from 0), labels; two features matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m * n, d)) + 1.0
    f = 1.5 * X[:, 0] - X[:, 2] - 0.5 + rng.logistic(size=m * n)
    y = (f > 0).astype(int) if classes == 2 else np.digitize(f, [-1, 1])
    return X, y, np.repeat(["east", "north", "west"][:m], n)


def make_table():
    X, y, task = make_data()
    return pd.DataFrame(X, columns=list("abcdef")).assign(site=task), np.array(["well", "ill"])[y]


# ------------------------------------------------------------------ parity


@pytest.mark.parametrize("intercept", [False, True])
def test_one_stage_is_l1_logistic_regression_of_scikit_learn(intercept):
    X, y, task = make_data(m=2)
    model = MSMTFLClassifier(lam=0.05, max_stages=1, fit_intercept=intercept).fit(X, y, task=task)
    assert model.dual_gap_ <= 1e-12
    for i, label in enumerate(model.tasks_):
        rows = task == label
        C = 2 / (2 * rows.sum() * 0.05)
        options = {"C": C, "fit_intercept": intercept, "tol": 1e-10, "random_state": 0}
        if "l1_ratio" in LogisticRegression().get_params() and LogisticRegression().l1_ratio is not None:
            penalty = {"l1_ratio": 1.0}
        else:  # scikit-learn before 1.8
            penalty = {"penalty": "l1"}
        solver = {"solver": "saga", "max_iter": 20_000} if intercept else {"solver": "liblinear"}
        other = LogisticRegression(**options, **penalty, **solver).fit(X[rows], y[rows])
        np.testing.assert_allclose(model.coef_[i], other.coef_[0], atol=1e-5)
        assert model.intercept_[i] == pytest.approx(float(np.ravel(other.intercept_)[0]), abs=1e-5)
        np.testing.assert_allclose(
            model.predict_proba(X[rows], task=task[rows]), other.predict_proba(X[rows]), atol=1e-5
        )


def test_each_class_against_the_rest_is_a_binary_problem_that_shares_rows():
    X, y, task = make_data(classes=3)
    lam = 0.01
    model = MSMTFLClassifier(lam, np.inf).fit(X, y, task=task)
    assert model.coef_.shape == (3, 3, 6)
    assert model.intercept_.shape == (3, 3)
    for k in range(3):
        one = MSMTFLClassifier(3 * lam, np.inf).fit(X, y == k, task=task)
        np.testing.assert_allclose(model.coef_[:, k], one.coef_, atol=1e-10)
        np.testing.assert_allclose(model.intercept_[:, k], one.intercept_, atol=1e-10)
    capped = MSMTFLClassifier(lam, 2.0).fit(X, y, task=task)
    np.testing.assert_allclose(capped.row_norms_, np.abs(capped.coef_).sum(axis=(0, 1)))
    assert capped.stages_[-1].free_rows.tolist() == np.flatnonzero(capped.row_norms_ >= 2.0).tolist()
    p = capped.predict_proba(X, task=task)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(capped.predict(X, task=task), np.argmax(p, axis=1))
    assert map_of(capped).support.shape == (3, 6)


# ------------------------------------------------------------------ the front door


def test_a_table_with_a_task_column_and_text_for_classes():
    table, y = make_table()
    model = MSMTFLClassifier(task_column="site").fit(table, y)
    assert model.classes_.tolist() == ["ill", "well"]
    assert model.coef_.shape == (3, 6)
    assert model.tasks_.tolist() == ["east", "north", "west"]
    f, p = model.decision_function(table), model.predict_proba(table)
    np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-f)))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(table)), p)
    np.testing.assert_array_equal(model.predict(table), np.where(f > 0, "well", "ill"))
    assert model.score(table, y) == accuracy_score(y, model.predict(table)) > 0.7
    np.testing.assert_allclose(model.target_mean_, [(y[table.site == t] == "well").mean() for t in model.tasks_])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


def test_without_tasks_coefficients_are_one_vector():
    X, y, _ = make_data(m=1)
    model = MSMTFLClassifier().fit(X, y.astype(bool))
    assert model.coef_.shape == (6,)
    assert isinstance(model.intercept_, float)
    assert model.predict(X).dtype == bool
    assert MSMTFLClassifier().fit(X, make_data(m=1, classes=3)[1]).coef_.shape == (3, 6)


def test_one_x_for_all_tasks_with_missing_classes():
    X, y, _ = make_data(m=1, n=200)
    Y = pd.DataFrame({"first": y.astype(float), "second": (X[:, 1] > 1).astype(float)})
    Y.loc[:39, "second"] = np.nan
    model = MSMTFLClassifier(lam=0.05).fit(X, Y)
    assert model.tasks_.tolist() == ["first", "second"]
    assert model.classes_.tolist() == [0, 1]
    assert model.predict(X).shape == model.predict_proba(X).shape == (200, 2)
    alone = MSMTFLClassifier(lam=0.05).fit(
        np.vstack([X, X[40:]]), np.r_[y, Y.second[40:]], task=np.r_[y * 0, np.ones(160)]
    )
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-9)
    seen = Y.notna().to_numpy()
    assert model.score(X, Y) == pytest.approx((model.predict(X) == Y.to_numpy())[seen].mean())
    labels = Y.map(lambda v: None if np.isnan(v) else "yes" if v else "no")
    np.testing.assert_array_equal(MSMTFLClassifier(lam=0.05).fit(X, labels).coef_, model.coef_)


def test_sparse_x():
    X, y, task = make_data()
    X = np.where(X > 1, X, 0.0)
    thick, thin = (MSMTFLClassifier().fit(one, y, task=task) for one in (X, csr_array(X)))
    np.testing.assert_allclose(thick.coef_, thin.coef_, atol=1e-9)
    np.testing.assert_allclose(thick.predict_proba(X, task=task), thin.predict_proba(csr_array(X), task=task))


def test_what_cannot_be_classified_is_refused_by_name():
    X, y, task = make_data()
    with pytest.raises(ValueError, match="task 'west' has no row of class 1"):
        MSMTFLClassifier().fit(X, np.where(task == "west", 0, y), task=task)
    for model, why in (
        (MSMTFLClassifier(), "with an intercept no finite model fits"),
        (MSMTFLClassifier(fit_intercept=False), "such a task cannot teach what tells that class from the others"),
        (MSMTFLClassifierCV(fit_intercept=False), "such a task cannot teach what tells that class from the others"),
    ):
        with pytest.raises(ValueError, match=rf"task 'west' has no row of class 1: {why}.* Leave it out until"):
            model.fit(X, np.where(task == "west", 0, y), task=task)
    with pytest.raises(ValueError, match="one class only"):
        MSMTFLClassifier().fit(X, np.zeros(len(y)), task=task)
    with pytest.raises(ValueError, match="row 3 is the first of 1 such"):
        MSMTFLClassifier().fit(X, np.where(np.arange(len(y)) == 3, np.nan, y), task=task)
    with pytest.raises(ValueError, match="Unknown label type"):
        MSMTFLClassifier().fit(X, X[:, 0], task=task)
    with pytest.raises(ValueError, match="class_weight names 2"):
        MSMTFLClassifier(class_weight={2: 1.0}).fit(X, y, task=task)
    with pytest.raises(ValueError, match="class_weight must be"):
        MSMTFLClassifier(class_weight="even").fit(X, y, task=task)


def test_free_features_that_separate_the_classes_are_warned_of():
    X, y, task = make_data()
    y = np.where(task == "west", X[:, 0] > 1, y)
    with pytest.warns(ConvergenceWarning, match=r"task\(s\) 'west' are separated by features .*'x0'"):
        model = MSMTFLClassifier(theta=0.5).fit(X, y, task=task)
    assert np.isfinite(model.coef_).all()


# ------------------------------------------------------------------ weights


def test_class_weights_are_sample_weights():
    X, y, task = make_data()
    y = np.where((np.arange(len(y)) % 3 == 0), y, 0)  # rare
    w = np.random.default_rng(0).uniform(0.5, 2, len(y))
    fit = MSMTFLClassifier(0.05, 1.0).fit
    by_hand = fit(X, y, task=task, sample_weight=w * np.where(y == 1, 3.0, 0.5))
    given = MSMTFLClassifier(0.05, 1.0, class_weight={1: 3.0, 0: 0.5}).fit(X, y, task=task, sample_weight=w)
    np.testing.assert_allclose(given.coef_, by_hand.coef_, atol=1e-10)
    balanced = MSMTFLClassifier(0.05, 1.0, class_weight="balanced").fit(X, y, task=task)
    even = np.empty(len(y))
    for label in np.unique(task):
        for k in (0, 1):
            here = (task == label) & (y == k)
            even[here] = (task == label).sum() / (2 * here.sum())
    np.testing.assert_allclose(balanced.coef_, fit(X, y, task=task, sample_weight=even).coef_, atol=1e-10)
    assert balanced.predict(X, task=task).mean() > fit(X, y, task=task).predict(X, task=task).mean()


def test_zero_weights_leave_rows_out():
    X, y, task = make_data()
    w = np.random.default_rng(0).integers(0, 3, len(y))
    weighted = MSMTFLClassifier(0.05, 1.0).fit(X, y, task=task, sample_weight=w)
    repeated = MSMTFLClassifier(0.05, 1.0).fit(np.repeat(X, w, axis=0), np.repeat(y, w), task=np.repeat(task, w))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-9)


def test_penalties_on_entries_and_of_other_shapes_take_part():
    X, y, task = make_data()
    model = MSMTFLClassifier(0.02, 1.0, lam_entry=0.02).fit(X, y, task=task)
    assert model.converged_
    assert model.dual_gap_ <= 1e-10
    assert np.count_nonzero(model.coef_) < np.count_nonzero(MSMTFLClassifier(0.02, 1.0).fit(X, y, task=task).coef_)
    for shape in ("mcp", "scad"):
        assert (
            MSMTFLClassifier(0.05, 2.0, penalty=shape, max_stages=50).fit(X, y, task=task).certificate_.critical < 1e-6
        )
    search = MSMTFLClassifierCV(3, theta_ratios=[4], entry_shares=[0, 0.5], cv=2).fit(X, y, task=task)
    assert "lam_entry" in search.cv_results_


def test_a_warm_start_goes_on_from_the_last_fit():
    for classes in (2, 3):
        X, y, task = make_data(classes=classes)
        model = MSMTFLClassifier(0.02, 1.0, warm_start=True).fit(X, y, task=task)
        coef = model.coef_
        assert model.fit(X, y, task=task).n_stages_ == 1
        np.testing.assert_allclose(model.coef_, coef, atol=1e-9)


def test_a_warm_start_needs_the_same_classes_and_tasks():
    X, y, task = make_data(classes=3)
    others = np.where(task == "west", "south", task)
    for labels, sites in ((y + 1, task), (y, others), (y, None)):
        model = MSMTFLClassifier(0.02, 1.0, warm_start=True).fit(X, y, task=task).fit(X, labels, task=sites)
        cold = MSMTFLClassifier(0.02, 1.0).fit(X, labels, task=sites)
        np.testing.assert_array_equal(model.coef_, cold.coef_)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_the_data_are_read_once(monkeypatch, class_weight, classes):
    X, y, task = make_data(classes=classes)
    calls = []
    monkeypatch.setattr(tasks, "read_features", lambda *given: calls.append(0) or read_features(*given))
    MSMTFLClassifier(class_weight=class_weight).fit(X, y, task=task)
    assert len(calls) == 1
    MSMTFLClassifierCV(2, theta_ratios=[np.inf], cv=2, class_weight=class_weight).fit(X, y, task=task)
    assert len(calls) == 2


# ------------------------------------------------------------------ cross-validation


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("scoring", ["neg_log_loss", "accuracy", "roc_auc_ovr"])
def test_scores_are_those_of_models_fitted_to_the_folds(scoring, classes):
    X, y, task = make_data(classes=classes)
    folds = list(TaskKFold(3, task=task, random_state=0).split(X))
    search = MSMTFLClassifierCV(4, theta_ratios=[2, np.inf], cv=folds, scoring=scoring).fit(X, y, task=task)
    scores = []
    for train, test in folds:
        model = MSMTFLClassifier(search.lam_, search.theta_).fit(X[train], y[train], task=task[train])
        p = model.predict_proba(X[test], task=task[test])
        found = p if classes > 2 else p[:, 1]
        if scoring == "neg_log_loss":
            scores.append(-log_loss(y[test], p))
        elif scoring == "accuracy":
            scores.append(accuracy_score(y[test], np.argmax(p, axis=1)))
        else:
            scores.append(roc_auc_score(y[test], found, multi_class="ovr"))
    assert search.best_score_ == pytest.approx(np.mean(scores), rel=1e-6)
    assert search.dual_gap_ <= 1e-10
    assert search.classes_.tolist() == list(range(classes))
    assert len(search.cv_results_["mean_test_score"]) == 8
    best = MSMTFLClassifier(search.lam_, search.theta_).fit(X, y, task=task)
    np.testing.assert_allclose(search.coef_, best.coef_, atol=1e-8)


def test_log_losses_of_several_classes_leave_out_what_was_not_measured():
    X, y, _ = make_data(m=1, n=200, classes=3)
    Y = np.column_stack([y, np.digitize(X[:, 1] + np.random.default_rng(1).logistic(size=200), [0, 2])]).astype(float)
    Y[np.random.default_rng(2).random(Y.shape) < 0.1] = np.nan
    folds = [(np.arange(0, 200, 2), np.arange(1, 200, 2)), (np.arange(1, 200, 2), np.arange(0, 200, 2))]
    search = MSMTFLClassifierCV(4, theta_ratios=[np.inf], cv=folds).fit(X, Y)
    scores = []
    for train, test in folds:
        p = MSMTFLClassifier(search.lam_, np.inf).fit(X[train], Y[train]).predict_proba(X[test])
        row, column = np.nonzero(np.isfinite(Y[test]))
        scores.append(np.log(p[row, column, Y[test][row, column].astype(int)]).mean())
    assert search.best_score_ == pytest.approx(np.mean(scores), rel=1e-6)


def test_folds_are_stratified_by_task_and_class():
    X, y, task = make_data()
    y = np.where(np.arange(len(y)) % 10 == 0, 1, 0)  # ten in each task
    seen = []

    def scoring(estimator, X, y):
        seen.append(int(y.sum()))
        return 0.0

    MSMTFLClassifierCV(2, thetas=[np.inf], cv=5, scoring=scoring).fit(X, y, task=task)
    assert set(seen) == {6}


def test_few_rows_of_a_class_are_named():
    X, y, task = make_data()
    few = np.where(task == "north", np.cumsum(task == "north") <= 3, y)
    with pytest.warns(UserWarning, match=r"task\(s\) 'north' have fewer rows of a class than cv=5 folds"):
        MSMTFLClassifierCV(2, thetas=[np.inf]).fit(X, few, task=task)
    one = np.where(task == "north", np.cumsum(task == "north") == 1, y)
    with pytest.raises(ValueError, match="task 'north' has 1 row of class 1"):
        MSMTFLClassifierCV(2, thetas=[np.inf]).fit(X, one, task=task)
    with pytest.raises(ValueError, match="scoring must be"):
        MSMTFLClassifierCV(2, scoring="best").fit(X, y, task=task)


def test_groups_stay_together_and_splitters_are_welcome():
    X, y, task = make_data()
    groups = np.tile(np.arange(20), 15)
    model = MSMTFLClassifierCV(2, thetas=[np.inf], cv=3).fit(X, y, task=task, groups=groups)
    assert model.n_splits_ == 3
    assert MSMTFLClassifierCV(2, thetas=[np.inf], cv=StratifiedKFold(4)).fit(X, y, task=task).n_splits_ == 4
    assert MSMTFLClassifierCV(3, selection="bic").fit(X, y, task=task).n_splits_ == 0


def test_inside_scikit_learn():
    table, y = make_table()
    folds = TaskKFold(3, task_column="site", random_state=0)
    search = GridSearchCV(
        MSMTFLClassifier(task_column="site"), {"lam": [0.02, 0.2]}, cv=folds, scoring="roc_auc", error_score="raise"
    ).fit(table, y)
    assert search.best_score_ > 0.75
    p = cross_val_predict(MSMTFLClassifier(task_column="site"), table, y, cv=folds, method="predict_proba")
    assert p.shape == (300, 2)


# ------------------------------------------------------------------ files and commands


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["model.msmtfl", "model.json"])
def test_model_files(tmp_path, classes, name):
    X, y, task = make_data(classes=classes)
    names = np.array(["a", "b", "c"])[y]
    for model, labels in (
        (MSMTFLClassifier(), task),
        (MSMTFLClassifier(), None),
        (MSMTFLClassifierCV(3, cv=2), task),
    ):
        model.fit(X, names, task=labels)
        save_model(model, tmp_path / name)
        same = load_model(tmp_path / name)
        np.testing.assert_array_equal(same.predict_proba(X, task=labels), model.predict_proba(X, task=labels))
        assert same.classes_.tolist() == model.classes_.tolist()
        assert str(same.certificate_) == str(model.certificate_)
        np.testing.assert_array_equal(same.stages_[0].coef, model.stages_[0].coef)


def run(*arguments):
    testing = pytest.importorskip("typer.testing")
    app = pytest.importorskip("msmtfl.cli").app
    return testing.CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.mark.slow
def test_commands_fit_and_predict_classes_with_probabilities(tmp_path):
    table, y = make_table()
    data, file, out = tmp_path / "data.csv", tmp_path / "model.msmtfl", tmp_path / "predictions.csv"
    table.assign(state=y).to_csv(data, index=False)
    roles = ("-y", "state", "-t", "site", "--model", "classifier")
    done = run("fit", data, *roles, "--lam", 0.05, "--balanced", "--out", file)
    assert done.exit_code == 0, done.output
    assert run("predict", file, data, "--out", out).exit_code == 0
    found = pd.read_csv(out)
    model = MSMTFLClassifier(0.05, class_weight="balanced", standardize=True, task_column="site").fit(table, y)
    assert found.columns.tolist() == ["task", "prediction", "probability[ill]", "probability[well]"]
    assert found.prediction.tolist() == model.predict(table).tolist()
    np.testing.assert_allclose(found.iloc[:, 2:], model.predict_proba(table), rtol=1e-9)
    table.assign(state=y)[["a", "c", "site", "state"]].to_csv(data, index=False)  # which a search is faster with
    searched = run("fit", data, *roles, "--cv", 2, "--json")
    assert searched.exit_code == 0
    assert '"model": "MSMTFLClassifierCV"' in searched.output
    said = "each fold predicted with parameters that the others chose"
    shown = run("fit", data, *roles, "--cv", 2, "--report", tmp_path / "page.html")
    assert shown.exit_code == 0
    assert re.search(rf"held-out relative log-loss: 0\.\d+, {said}", shown.output)
    assert "relative log-loss" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert run("fit", data, "-y", "a", "-t", "site", "--exclude", "state", "--balanced").exit_code == 2


def test_commands_predict_counts(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((90, 3)), columns=list("abc")).assign(site=np.repeat(["x", "y"], 45))
    table["visits"] = rng.poisson(np.exp(table.a))
    data, file = tmp_path / "data.csv", tmp_path / "model.json"
    table.to_csv(data, index=False)
    done = run("fit", data, "-y", "visits", "-t", "site", "--loss", "poisson", "--lam", 0.1, "--out", file)
    assert done.exit_code == 0, done.output
    model = MSMTFL(0.1, loss="poisson", standardize=True, task_column="site").fit(
        table[["a", "b", "c", "site"]], table.visits
    )
    lines = run("predict", file, data).stdout.splitlines()[1:]
    np.testing.assert_allclose(
        [float(line.split(",")[1]) for line in lines], model.predict(table[["a", "b", "c", "site"]])
    )
    refused = run("fit", data, "-y", "visits", "-t", "site", "--loss", "poisson", "--model", "lasso", "--classify")
    assert refused.exit_code == 2
    assert "--loss: not for lasso" in refused.output
