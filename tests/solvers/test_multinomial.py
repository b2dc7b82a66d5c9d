"""All classes of a task in one loss: against scikit-learn, certificates, what is free, searches, what is refused."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from msmtfl import MSMTFLClassifier, MSMTFLClassifierCV
from msmtfl._data.tasks import read_training
from msmtfl._estimators.classification.classes import one_against_rest
from msmtfl._objective.class_tasks import certify_held
from msmtfl._solvers.lassos.class_lassos import level_classes
from msmtfl._solvers.problems.make_problem import make_problem
from msmtfl._solvers.task_lassos import lassos_for
from msmtfl.formulas import formula
from msmtfl.model_files import load_model, save_model
from msmtfl.report import write_report


def data(seed, K=3, n=60, d=6, m=1):
    """X, y, labels: half of the features matter, alike in all tasks."""
    rng = np.random.default_rng(seed)
    X, W = rng.standard_normal((m * n, d)) + 0.5, rng.standard_normal((K, d)) * (np.arange(d) < d // 2)
    return X, (X @ W.T + rng.gumbel(size=(m * n, K))).argmax(axis=1), np.repeat(np.arange(m), n)


def objective(model, X, y, task, lam, share=1.0, weight=None):
    """The formula of the documentation, for the lasso."""
    m, K, _ = model.coef_.shape if model.coef_.ndim == 3 else (1, *model.coef_.shape)
    W, b = model.coef_.reshape(m, K, -1), np.reshape(model.intercept_, (m, K))
    F = np.einsum("rj,rkj->rk", X, W[task]) + b[task]
    v = np.ones(len(y)) if weight is None else weight
    h = v * (logsumexp(F, axis=1) - F[np.arange(len(y)), y])
    loss = sum(2.0 / (m * K * v[task == i].sum()) * h[task == i].sum() for i in range(m))
    return loss + lam * (share * np.abs(W).sum() + 0.5 * (1.0 - share) * (W**2).sum())


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("K", [3, 5])
@pytest.mark.sampled(4)
def test_one_task_is_scikit_learns_multinomial_regression(K, share, intercept):
    X, y, task = data(K, K)
    options = {"l1_ratio": share, "fit_intercept": intercept}
    model = MSMTFLClassifier(lam=0.02, theta=np.inf, multinomial=True, **options).fit(X, y)
    C = 2.0 / (K * len(y) * 0.02)
    solver = {"solver": "saga", "max_iter": 100_000} if share else {"solver": "newton-cg", "max_iter": 1000}
    other = LogisticRegression(C=C, tol=1e-12, **solver, **options).fit(X, y)
    assert model.certificate_.optimal
    assert model.dual_gap_ < 1e-11
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-6)
    level = other.intercept_ - other.intercept_.mean()
    np.testing.assert_allclose(model.intercept_, level, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=1e-6)
    assert model.objective_ == pytest.approx(objective(model, X, y, task, 0.02, share), abs=1e-12)
    assert model.objective_ <= objective(other, X, y, task, 0.02, share) + 1e-12


def test_a_feature_is_freed_for_all_tasks_and_classes_and_then_has_the_sum_0():
    X, y, task = data(1, K=3, n=80, m=3)
    model = MSMTFLClassifier(lam=0.02, theta=0.3, multinomial=True).fit(X, y, task=task)
    norms = np.abs(model.stages_[0].coef).sum(axis=0)  # of the lasso, over the tasks and classes
    free = np.abs(model.stages_[-2].coef).sum(axis=0) >= 0.3
    assert 0 < free.sum() < len(free)
    np.testing.assert_allclose(model.row_norms_, np.abs(model.coef_).sum(axis=(0, 1)), rtol=1e-12)
    np.testing.assert_allclose(model.coef_.sum(axis=1)[:, free], 0.0, atol=1e-12)
    np.testing.assert_allclose(model.intercept_.sum(axis=1), 0.0, atol=1e-12)
    assert (norms[free] > 0.0).all()
    assert model.certificate_.optimal
    assert model.certificate_.monotone
    values = model.decision_function(X, task=task)
    np.testing.assert_allclose(model.predict_proba(X, task=task), softmax(values, axis=1))
    np.testing.assert_array_equal(model.predict(X, task=task), values.argmax(axis=1))


@pytest.mark.parametrize("seed", range(4))
def test_the_gap_is_never_less_than_the_distance_from_the_minimum(seed):
    rng = np.random.default_rng(seed)
    X, y, task = data(seed, K=3 + seed % 2, n=30, d=4, m=2)
    K = int(y.max()) + 1
    tasks = one_against_rest(read_training(X, y.astype(float), task=task), np.arange(K))
    problem = make_problem(tasks, loss="softmax", fit_intercept=seed != 1, standardize=False, positive=seed == 2)
    factor = np.array([1.0, 1.0, 0.0 if seed == 3 else 1.0, 1.0])
    A = 0.05 * problem.stage_weights * factor
    W, _ = lassos_for(problem).solve(A)
    best = sum(proof.gap for proof in certify_held(problem, W, A, 0.0))
    assert best < 1e-10

    def value(W):
        certify_held(problem, W, A, 0.0)  # which holds the classes there
        loss = sum(0.5 * design.loss(w) for design, w in zip(problem.designs, W, strict=True))
        return loss + (A * np.abs(W)).sum()

    least = value(W)
    for size in (1e-6, 1e-3, 0.1, 1.0):
        other = W + size * rng.standard_normal(W.shape) * (W != 0.0)
        other = np.maximum(other, 0.0) if seed == 2 else other
        gap = sum(proof.gap for proof in certify_held(problem, other, A, 0.0))
        assert gap >= value(other) - least - 1e-12


def test_what_all_classes_have_in_common_is_where_the_penalty_is_least():
    rng = np.random.default_rng(0)
    W, A = rng.standard_normal((4, 30)), rng.choice([0.0, 1.0, 2.0], (4, 30))
    ridge = rng.choice([0.0, 0.7], 30) * np.ones((4, 1))
    W[rng.random(W.shape) < 0.2] = 0.0

    def cost(W):
        return (A * np.abs(W) + 0.5 * ridge * W**2).sum(axis=0)

    grid = np.linspace(-4.0, 4.0, 8001)[:, None]
    for positive in (False, True):
        start = np.abs(W) if positive else W
        out = level_classes(start, A, ridge, positive)
        shifts = start - out
        np.testing.assert_allclose(shifts, np.broadcast_to(shifts[0], shifts.shape), atol=1e-12)
        tried = np.array([cost(start - c) for c in grid])
        if positive:
            tried[grid[:, 0][:, None] > start.min(axis=0) + 1e-12] = np.inf
            assert (out >= 0.0).all()
        assert (cost(out) <= tried.min(axis=0) + 1e-9).all()
    free = (A == 0.0).all(axis=0) & (ridge == 0.0).all(axis=0)
    level = level_classes(W, np.where(free, 0.0, A) * 0.0, 0.0 * ridge, False)
    np.testing.assert_allclose(level.sum(axis=0), 0.0, atol=1e-12)


def test_weights_are_repetitions_and_classes_have_weights_too():
    X, y, task = data(5, n=50, m=2)
    v = np.random.default_rng(0).integers(0, 4, len(y))
    fit = MSMTFLClassifier(lam=0.02, theta=np.inf, multinomial=True).fit
    weighted = fit(X, y, task=task, sample_weight=v)
    repeated = fit(np.repeat(X, v, axis=0), np.repeat(y, v), task=np.repeat(task, v))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-9)
    given = {0: 1.0, 1: 2.0, 2: 0.5}
    model = MSMTFLClassifier(lam=0.02, theta=np.inf, multinomial=True, class_weight=given).fit(X, y, task=task)
    same = fit(X, y, task=task, sample_weight=np.array([given[one] for one in y]))
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-10)


def test_two_classes_are_what_they_are_without_it():
    X, y, task = data(2, K=2, m=2)
    one, other = (MSMTFLClassifier(multinomial=flag).fit(X, y, task=task) for flag in (True, False))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.predict_proba(X, task=task), other.predict_proba(X, task=task))


@pytest.mark.parametrize("options", [{"positive": True}, {"relax": True}, {"standardize": True}, {"lam_entry": 0.01}])
def test_other_options_are_certified_too(options):
    X, y, task = data(3, n=80, m=2)
    model = MSMTFLClassifier(lam=0.02, theta=0.4, multinomial=True, **options).fit(X, y, task=task)
    assert model.certificate_.optimal
    assert model.dual_gap_ < 1e-10
    assert model.score(X, y, task=task) > 0.55


def test_classes_that_free_features_separate_are_named():
    X, _, _ = data(4, n=60)
    y = np.digitize(X[:, 0], [0.0, 1.0])
    with pytest.warns(ConvergenceWarning) as said:
        model = MSMTFLClassifier(lam=0.05, theta=0.01, multinomial=True).fit(X, y)
    assert "separated by features that are not penalised (in the first of them by 'x0')" in str(said[0].message)
    assert np.isfinite(model.coef_).all()
    assert not model.certificate_.optimal


def test_a_search_chooses_by_the_log_loss_of_all_classes(tmp_path):
    X, y, task = data(6, n=50, d=4, m=2)
    search = MSMTFLClassifierCV(lams=4, theta_ratios=[2.0, np.inf], cv=3, multinomial=True).fit(X, y, task=task)
    lam, theta = search.lam_, search.theta_
    alone = MSMTFLClassifier(lam=lam, theta=theta, multinomial=True).fit(X, y, task=task)
    np.testing.assert_allclose(search.coef_, alone.coef_, atol=1e-8)
    assert search.best_score_ > -np.log(3.0)
    losses = np.asarray(search.cv_results_["test_log_loss"])[search.best_index_]  # (folds, tasks and classes)
    each_task = losses.reshape(3, 2, 3).sum(axis=2)
    assert -each_task.mean() == pytest.approx(search.best_score_, abs=0.02)  # folds are of about one size
    sets = search.predict_set(X, task=task, level=0.8)
    assert 0.7 < sets[np.arange(len(y)), y].mean() <= 1.0
    save_model(search, tmp_path / "model.msmtfl")
    again = load_model(tmp_path / "model.msmtfl")
    np.testing.assert_array_equal(again.predict_proba(X, task=task), search.predict_proba(X, task=task))
    assert again.multinomial
    assert log_loss(y, again.predict_proba(X, task=task)) < -search.best_score_
    assert "log Σₖ exp fᵣₖ" in str(formula(again))
    write_report(again, tmp_path / "report.html", X=X, y=y, task=task)
    assert "softmax" in again.summary().as_markdown()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"intercepts": "shrunk"}, "leave intercepts at 'task'"),
        ({"bounds": (-1.0, 1.0)}, "leave out bounds"),
        ({"feature_groups": {"first": [0, 1]}}, "leave out feature_groups"),
    ],
)
def test_what_it_cannot_do_says_so(options, said):
    X, y, task = data(7, m=2)
    with pytest.raises(ValueError, match=said):
        MSMTFLClassifier(multinomial=True, **options).fit(X, y, task=task)
    with pytest.raises(ValueError, match="choose by cross-validation"):
        MSMTFLClassifierCV(multinomial=True, selection="bic").fit(X, y, task=task)
    model = MSMTFLClassifier(multinomial=True).fit(X, y, task=task)
    with pytest.raises(ValueError, match="Fit again with the new task"):
        model.add_task(X[:20], y[:20], label="new")
