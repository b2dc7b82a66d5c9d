"""Sums over levels of tasks for classes: solved exactly, for several classes too; with one level they are other models."""

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from msmtfl import (
    NestedMTLClassifier,
    NestedMTLClassifierCV,
    PartialPoolingClassifier,
    SharedMTLClassifier,
)
from msmtfl.formulas import formula
from msmtfl.metrics import nmse
from msmtfl.model_files import load_model, save_model

KINDS = pytest.mark.parametrize("kind", ["sparse", "ridge"])
CLASSES = pytest.mark.parametrize("K", [2, 3])
STRENGTHS = {"sparse": (0.02, 0.06, 0.03), "ridge": (12.0, 0.5, 4.0)}  # of schools, what is common, and regions


@parametrize_with_checks(
    [NestedMTLClassifier(), NestedMTLClassifierCV(2, lam_commons=[1.0], lam_uppers=[1.0], kind="ridge", cv=2)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def sample(K=2, seed=0, n=40, d=3):
    """X, classes, region, school."""
    rng = np.random.default_rng(seed)
    school = np.repeat(np.arange(6), n)
    region = np.array(["north", "south"])[school % 2]
    X = rng.standard_normal((len(school), d))
    f = X[:, 0] + np.where(region == "north", 1.5, -1.5) * X[:, 1] + 0.3 * school + rng.logistic(size=len(school))
    return X, np.array(["low", "mid", "top"])[np.digitize(f, [0.7] if K == 2 else [0.0, 1.5])], region, school


def least(X, codes, region, school, kind, K):
    """The smallest value of the objective for all classes, and the coefficients of tasks (m, K, d), by accelerated proximal
    steps on the columns of all parts beside each other; written down without anything of the package."""
    lam, lam_common, lam_upper = STRENGTHS[kind]
    d, m = X.shape[1], 6
    parts = [np.ones(len(X), bool), *(region == r for r in ("north", "south")), *(school == s for s in range(m))]
    Z = np.hstack([X * part[:, None] for part in parts] + [(school == s)[:, None] * 1.0 for s in range(m)])
    strength = np.repeat([lam_common, lam_upper, lam_upper, *[lam] * m, *[0.0] * m], [d] * 9 + [1] * m)
    problems = K if K > 2 else 1
    size = np.bincount(school)[school]
    kappa = 1.0 / (m * problems * size) if kind == "sparse" else np.full(len(X), 1.0 / (problems * len(X)))
    ridge = 2.0 * strength / (problems * len(X)) if kind == "ridge" else np.zeros(len(strength))
    step = 1.0 / (np.linalg.norm(Z * np.sqrt(0.5 * kappa)[:, None], 2) ** 2 + ridge.max())
    value, W = 0.0, []
    for k in range(problems):
        y = (codes == (k if problems > 1 else 1)).astype(float)
        p = at = np.zeros(Z.shape[1])
        t = 1.0
        for _ in range(40_000):
            slope = Z.T @ (2.0 * kappa * (1.0 / (1.0 + np.exp(-Z @ at)) - y)) + ridge * at
            new = at - step * slope
            if kind == "sparse":
                new = np.sign(new) * np.maximum(np.abs(new) - step * strength, 0.0)
            if (at - new) @ (new - p) > 0:
                t = 1.0
            t, before = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t)), t
            p, at = new, new + (before - 1.0) / t * (new - p)
        f = Z @ p
        value += 2.0 * kappa @ (np.logaddexp(0.0, f) - y * f)
        value += 0.5 * ridge @ p**2 if kind == "ridge" else strength @ np.abs(p)
        P = p[: 9 * d].reshape(9, d)
        W.append([P[0] + P[1 + s % 2] + P[3 + s] for s in range(m)])
    return value, np.array(W).transpose(1, 0, 2)


def fitted(kind, K, **options):
    X, y, region, school = sample(K)
    lam, lam_common, lam_upper = STRENGTHS[kind]
    model = NestedMTLClassifier(lam, lam_common, lam_upper=lam_upper, kind=kind, **options)
    return model.fit(X, y, task=np.column_stack([region, school]))


@CLASSES
@KINDS
def test_it_is_the_least_of_what_it_says(kind, K):
    X, y, region, school = sample(K)
    model = fitted(kind, K)
    value, W = least(X, np.unique(y, return_inverse=True)[1], region, school, kind, K)
    assert model.dual_gap_ < 1e-9
    assert model.objective_ == pytest.approx(value, rel=1e-8)
    ours = model.coef_.reshape(6, -1, 3)
    order = [int(label.split(" / ")[1]) for label in model.tasks_]
    np.testing.assert_allclose(ours, W[order], atol=2e-5)
    sums = model.coef_common_ + model.coef_effects_[model.task_effects_].sum(axis=1)
    np.testing.assert_allclose(model.coef_, sums, atol=1e-14)


@CLASSES
def test_with_one_level_it_is_what_flat_models_are(K):
    X, y, _, school = sample(K, seed=1)
    sparse = NestedMTLClassifier(0.02, 0.05).fit(X, y, task=school)
    shared = SharedMTLClassifier(0.05, 0.02).fit(X, y, task=school)
    assert sparse.objective_ == pytest.approx(shared.objective_, rel=1e-9)
    np.testing.assert_allclose(sparse.coef_, shared.coef_, atol=1e-5)
    ridge = NestedMTLClassifier(7.0, 2.0, kind="ridge").fit(X, y, task=school)
    pooling = PartialPoolingClassifier(7.0, 2.0).fit(X, y, task=school)
    assert ridge.objective_ == pytest.approx(pooling.objective_, rel=1e-9)
    np.testing.assert_allclose(ridge.coef_, pooling.coef_, atol=1e-6)


@CLASSES
@KINDS
def test_new_schools_of_known_regions(kind, K):
    """They have what is common and the region's effect; the probabilities of new regions lie between."""
    X, *_ = sample(K)
    model = fitted(kind, K, unknown_task="common")
    with pytest.warns(UserWarning, match="not in the training data"):
        f = model.decision_function(X, task=np.full(len(X), "south / 77"))
    w = model.coef_common_ + model.effects("level 1")["south"]
    moved = f - np.asarray(X @ np.reshape(w, (-1, 3)).T).reshape(f.shape)
    assert np.ptp(moved, axis=0).max() < 1e-12
    south = [i for i, label in enumerate(model.tasks_) if label.startswith("south")]
    levels = np.reshape(model.intercept_ + ((model.coef_ - w) @ model.feature_means_.mean(0)), (6, -1))[south]
    assert (moved.min(axis=0) > levels.min(axis=0) - 0.3).all()
    assert (moved.max(axis=0) < levels.max(axis=0) + 0.3).all()


@CLASSES
@KINDS
def test_one_more_task_and_files(tmp_path, kind, K):
    X, *_ = sample(K)
    new, labels, region, _ = sample(K, seed=5)
    of_region = region == "north"
    model = fitted(kind, K).add_task(new[of_region], labels[of_region], "north / 99")
    assert model.certificate_.added == 1
    assert model.dual_gap_ < 1e-8
    sums = model.coef_common_ + model.coef_effects_[model.task_effects_].sum(axis=1)
    np.testing.assert_allclose(model.coef_, sums, atol=1e-12)
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    task = np.full(len(X), "north / 99")
    np.testing.assert_array_equal(again.predict_proba(X, task=task), model.predict_proba(X, task=task))
    assert again.effects("level 1").keys() == model.effects("level 1").keys()
    assert formula(again) == formula(model)


@KINDS
def test_a_search_finds_the_levels(kind):
    X, y, region, school = sample(2, n=60)
    task = np.column_stack([region, school])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the end of so short a grid
        model = NestedMTLClassifierCV(6, kind=kind, cv=3).fit(X, y, task=task)
        flat = NestedMTLClassifierCV(6, kind=kind, cv=3, lam_uppers=[np.inf]).fit(X, y, task=task)
    assert model.best_score_ > flat.best_score_
    assert np.isfinite(model.lam_upper_).all()
    spread = model.level_spread()
    assert spread["level 1"][1] > 3.0 * spread["level 2"][1]
    p = model.predict_proba(X, task=task)[:, 1]
    assert nmse((y == model.classes_[1]).astype(float), p) < 0.9
    single = NestedMTLClassifier(model.lam_, model.lam_common_, lam_upper=model.lam_upper_, kind=kind)
    np.testing.assert_allclose(single.fit(X, y, task=task).coef_, model.coef_, atol=1e-5)
