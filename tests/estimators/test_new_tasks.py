"""Tasks that were not in the training data: the ways of predicting them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from msmtfl import (
    L12MTL,
    DirtyMTL,
    LassoMTL,
    LassoMTLCV,
    MSMTFLClassifier,
    NestedMTLCV,
    PartialPooling,
    PartialPoolingCV,
    PretrainedMTL,
    SharedMTL,
    compare_models,
)
from msmtfl._estimators.fitted import errors_of_new_tasks
from msmtfl._estimators.new_tasks import _by_all, _by_levels, _shares, similarity, spread
from msmtfl.baselines import PooledLassoCV, PooledRidgeCV, RidgePerTaskCV
from msmtfl.export import to_sql
from msmtfl.model_files import load_model, save_model
from msmtfl.warnings import NewTaskWarning

WITH_COMMON = [
    SharedMTL(0.05, 0.05),
    SharedMTL(0.05, 0.05, intercepts="shrunk"),
    PartialPooling(10.0),
    PretrainedMTL(0.05, 0.1, 0.3),
    PooledLassoCV(cv=3),
    PooledRidgeCV(cv=3),
]
WITHOUT = [LassoMTL(0.05), L12MTL(0.05), DirtyMTL(0.05, 0.1), RidgePerTaskCV()]


def sample(seed=0, m=5, n=30, d=4, apart=4.0):
    """X, y, labels: slopes that go with the level of a task's features; levels and slopes far from 0."""
    rng = np.random.default_rng(seed)
    kind = np.arange(m) % 2  # two kinds of tasks
    task = np.repeat([f"t{i}" for i in range(m)], n)
    X = rng.standard_normal((m * n, d)) + apart * np.repeat(kind, n)[:, None]
    slopes = np.where(kind == 1, -1.0, 2.0)[:, None] * np.ones(d)
    y = np.einsum("nj,nj->n", X, np.repeat(slopes, n, axis=0)) + 7.0 + rng.standard_normal(m * n)
    return X, y, task


def predicted(model, X, label="new", **options):
    with pytest.warns(NewTaskWarning):
        return model.predict(X, task=np.repeat(label, len(X)), **options)


def name(model):
    return type(model).__name__


@pytest.mark.parametrize("model", WITH_COMMON, ids=name)
def test_by_what_the_known_tasks_have_in_common(model):
    X, y, task = sample(apart=1.0)
    model.set_params(unknown_task="common").fit(X, y, task=task)
    b = getattr(model, "coef_common_", model.coef_[0])
    found = predicted(model, X)
    rest = found - X @ b
    np.testing.assert_allclose(rest, rest[0], atol=1e-9)
    if not hasattr(model, "common_level_"):  # the mean of the levels that tasks have with these coefficients
        levels = [(y - X @ b)[task == label].mean() for label in np.unique(task)]
        np.testing.assert_allclose(rest[0], np.mean(levels), atol=1e-8)
    else:
        np.testing.assert_allclose(rest[0] + model.level_at_ @ b, model.common_level_, atol=1e-9)


@pytest.mark.parametrize("model", WITHOUT, ids=name)
def test_models_without_a_common_part_say_so(model):
    X, y, task = sample()
    model.set_params(unknown_task="common").fit(X, y, task=task)
    model.predict(X, task=task)  # known tasks
    with pytest.raises(
        ValueError, match=rf"{name(model)} has no part that is common to all tasks.*'mean' or 'similar'"
    ):
        model.predict(X[:2], task=["new", "new"])


@pytest.mark.parametrize("model", [*WITH_COMMON, *WITHOUT], ids=name)
def test_by_tasks_that_are_similar(model):
    """A mean of the known tasks' predictions, with the shares that the rule says; far tasks hardly count."""
    X, y, task = sample()
    model.set_params(unknown_task="similar").fit(X, y, task=task)
    new = X[task == "t1"] + 0.1
    means = np.array([X[task == label].mean(axis=0) for label in model.tasks_])
    sd = np.sqrt(np.mean([X[task == label].var(axis=0) for label in model.tasks_], axis=0))
    np.testing.assert_allclose(model.feature_means_, means, atol=1e-12)
    np.testing.assert_allclose(model.feature_sd_, sd, atol=1e-12)
    far = (((means - new.mean(axis=0)) / sd) ** 2).mean(axis=1)
    every = (((means[:, None] - means) / sd) ** 2).mean(axis=2) + np.diag(np.full(5, np.inf))
    share = np.exp(-(far - far.min()) / np.median(every.min(axis=1)))
    share /= share.sum()
    assert share[[1, 3]].sum() > 0.99
    each = np.array([model.predict(new, task=np.repeat(label, len(new))) for label in model.tasks_])
    if not hasattr(model, "common_level_"):
        np.testing.assert_allclose(predicted(model, new), share @ each, atol=1e-9)
    # two new tasks at once are two by themselves
    with pytest.warns(NewTaskWarning, match="similar"):
        parts = model.predict(np.vstack([new, X[:5]]), task=["p"] * len(new) + ["q"] * 5)
    np.testing.assert_allclose(parts[: len(new)], predicted(model, new), atol=1e-9)
    np.testing.assert_allclose(parts[len(new) :], predicted(model, X[:5]), atol=1e-9)


def test_shares_add_up_whatever_the_distances():
    means, sd = np.array([[0.0, 5.0], [1.0, 5.0], [1e3, 5.0]]), np.array([1.0, 0.0])
    assert spread(means, sd) == pytest.approx(1.0)
    share = similarity(np.array([1e6, 0.0]), means, sd, spread(means, sd))
    assert share.sum() == pytest.approx(1.0)
    assert share.argmax() == 2
    np.testing.assert_allclose(similarity(np.zeros(2), np.zeros((3, 2)), sd, 0.0), 1 / 3)


def test_from_files_sparse_data_and_classes(tmp_path):
    X, y, task = sample()
    for way in ("common", "similar"):
        model = SharedMTL(0.05, 0.05, unknown_task=way).fit(X, y, task=task)
        save_model(model, tmp_path / "model.json")
        again = load_model(tmp_path / "model.json")
        np.testing.assert_array_equal(predicted(again, X[:7]), predicted(model, X[:7]))
        thin = SharedMTL(0.05, 0.05, unknown_task=way).fit(csr_array(X), y, task=task)
        np.testing.assert_allclose(predicted(thin, X[:7]), predicted(model, X[:7]), atol=1e-8)
    classes = np.digitize(X[:, 0] - X[:, 1] + np.random.default_rng(1).standard_normal(len(X)), [-1.0, 1.0])
    model = MSMTFLClassifier(0.01, unknown_task="similar").fit(X, classes, task=task)
    assert model.feature_means_.shape == (5, 4)
    with pytest.warns(NewTaskWarning):
        share = model.predict_proba(X[:4], task=["new"] * 4)
    np.testing.assert_allclose(share.sum(axis=1), 1.0)


def test_exported_with_what_new_tasks_have():
    X, y, task = sample()
    model = SharedMTL(0.05, 0.05, unknown_task="common").fit(X, y, task=task)
    text = to_sql(model, table="visits", task_column="site")
    assert "ELSE" in text
    with pytest.raises(ValueError, match="depends on the samples"):
        to_sql(model.set_params(unknown_task="similar"), table="visits", task_column="site")


def test_an_added_task_has_means_as_well():
    X, y, task = sample()
    known = task != "t4"
    model = LassoMTL(0.05, unknown_task="similar").fit(X[known], y[known], task=task[known])
    model.add_task(X[~known], y[~known], "t4")
    np.testing.assert_allclose(model.feature_means_[-1], X[~known].mean(axis=0))
    assert np.isfinite(predicted(model, X[:3])).all()


def test_what_is_no_way():
    X, y, task = sample()
    with pytest.raises(ValueError, match="'error', 'mean', 'common' or 'similar', got 'median'"):
        LassoMTL(0.05, unknown_task="median").fit(X, y, task=task)


@pytest.mark.slow
def test_what_to_expect_of_a_new_task_in_each_way():
    """Two kinds of tasks, which their features tell apart: similar ones predict a new one, the mean does not."""
    X, y, task = sample(m=8)
    models = {"shared": SharedMTL(0.05, 0.05), "lasso": LassoMTLCV(lams=5, cv=3)}
    found = compare_models(X, y, task=task, models=models, cv=3, inner_cv=3, leave_one_task_out=True)
    assert found.new_task.shape == (2, 8, 4)
    assert np.isnan(found.new_task_nmse_common[1]).all()
    assert (found.new_task_nmse_similar.mean(axis=1) < 0.3 * found.new_task_nmse.mean(axis=1)).all()
    left = task != "t3"
    model = SharedMTL(0.05, 0.05, unknown_task="common").fit(X[left], y[left], task=task[left])
    rest = y[~left] - predicted(model, X[~left], "t3")
    assert found.new_task_nmse_common[0, 3] == pytest.approx(np.mean(rest**2) / y[~left].var(), rel=1e-9)
    table = found.summary()
    assert {"new_task_nmse", "new_task_nmse_common", "new_task_nmse_similar"} <= set(table.columns)


# ------------------------------------------------------------------ intervals, by every way


def in_regions(seed, m=30, regions=5, n=20, new=5):
    """X, y, task and region of samples of known tasks, and of new ones of known regions."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m + new), n)
    X = rng.standard_normal((len(task), 4))
    of_region, own = rng.standard_normal((regions, 4)), 0.3 * rng.standard_normal((m + new, 4))
    W = 1.0 + own + of_region[np.arange(m + new) % regions]
    y = (X * W[task]).sum(axis=1) + rng.standard_normal(m + new)[task] + rng.standard_normal(len(task))
    label = np.array([f"r{i % regions} / {i}" for i in task])
    known = task < m
    return [(X[rows], y[rows], label[rows]) for rows in (known, ~known)]


@pytest.mark.parametrize("way", ["mean", "common", "similar"])
@pytest.mark.parametrize(
    "model", [NestedMTLCV(6, kind="ridge", lam_uppers=[1.0], cv=3), PartialPoolingCV(4, cv=3), PooledRidgeCV(cv=3)]
)
def test_intervals_of_new_tasks_hold_as_often_as_they_say(model, way):
    held, width = [], []
    for seed in range(4):
        (X, y, label), (X_new, y_new, label_new) = in_regions(seed)
        fitted = clone(model).set_params(unknown_task=way).fit(X, y, task=label)
        with pytest.warns(NewTaskWarning, match="errors of predicting each of the 30 known tasks"):
            low, high = fitted.predict_interval(X_new, task=label_new, level=0.8).T
        held.append(np.mean((low <= y_new) & (y_new <= high)))
        fitted.set_params(unknown_task="mean")
        with pytest.warns(NewTaskWarning):
            low_mean, high_mean = fitted.predict_interval(X_new, task=label_new, level=0.8).T
        width.append(np.mean(high - low) / np.mean(high_mean - low_mean))
    assert 0.7 < np.mean(held) < 0.9
    knows_regions = way == "common" and hasattr(fitted, "coef_effects_")
    assert np.mean(width) < 0.85 if knows_regions else 0.85 < np.mean(width) < 1.15


def test_intervals_say_what_is_known_of_each_task(tmp_path):
    """Of a school in a known region they are narrower than in a new one; files keep them, older files say that they lack
    them."""
    (X, y, label), (X_new, *_) = in_regions(1)
    model = NestedMTLCV(6, kind="ridge", lam_uppers=[1.0], cv=3, unknown_task="common").fit(X, y, task=label)
    task = np.where(np.arange(len(X_new)) % 2 == 0, "r1 / 77", "r9 / 78")
    with pytest.warns(NewTaskWarning) as said:
        low, high = model.predict_interval(X_new, task=task).T
    texts = " ".join(str(one.message) for one in said)
    assert "with the same known levels have in common" in texts
    assert "by what the others have in common" in texts
    width = high - low
    assert width[::2].max() < width[1::2].min()
    save_model(model, tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    with pytest.warns(NewTaskWarning):
        np.testing.assert_array_equal(again.predict_interval(X_new, task=task), np.column_stack([low, high]))
    model.held_out_ = replace(model.held_out_, ways={})
    with pytest.raises(ValueError, match=r"older file.*Fit it again, or set unknown_task='mean'"):
        model.predict_interval(X_new, task=task)


def test_what_stands_for_a_task_is_made_of_the_others():
    rng = np.random.default_rng(0)
    coef, intercept, means = rng.standard_normal((7, 1, 3)), rng.standard_normal((7, 1)), rng.standard_normal((7, 3))
    region = np.array([0, 0, 0, 1, 1, 1, 2])
    flat, level = _by_all(means, coef, intercept)
    same, same_level = _by_levels(np.empty((7, 0), dtype=int), means, coef, intercept)
    np.testing.assert_allclose(flat, same, atol=1e-14)
    np.testing.assert_allclose(level, same_level, atol=1e-14)
    W, b = _by_levels(region[:, None], means, coef, intercept)
    assert np.isnan(W[6]).all()  # no other task of this region
    for i in range(6):
        others = (region == region[i]) & (np.arange(7) != i)
        np.testing.assert_allclose(W[i], coef[others].mean(axis=0), atol=1e-14)
        levels = intercept[others, 0] + ((coef[others] - W[i])[:, 0] * means[others]).sum(axis=1)
        assert b[i, 0] == pytest.approx(levels.mean())
    changed = coef.copy()
    changed[2] += 5.0
    np.testing.assert_array_equal(_by_levels(region[:, None], means, changed, intercept)[0][2], W[2])


@pytest.mark.parametrize("m", [2, 3, 9])
def test_shares_of_similar_tasks_are_those_of_a_task_left_out(m):
    rng = np.random.default_rng(m)
    means, sd = rng.standard_normal((m, 3)), np.array([1.0, 2.0, 0.0])
    found = _shares(means, sd)
    for i in range(m):
        others = np.delete(np.arange(m), i)
        np.testing.assert_allclose(found[i, others], similarity(means[i], means[others], sd, spread(means[others], sd)))
        assert found[i, i] == 0.0


def test_a_warning_says_how_far_such_predictions_are_off(tmp_path):
    X, y, task = sample(m=6, apart=0.0)
    model = LassoMTLCV(cv=3, unknown_task="mean").fit(X, y, task=task)
    off = []
    for i in range(6):
        rows, others = task == f"t{i}", np.arange(6) != i
        w, b = model.coef_[others].mean(axis=0), model.intercept_[others].mean()
        off.append(np.sqrt(np.mean((y[rows] - X[rows] @ w - b) ** 2)))
    found, own = errors_of_new_tasks(model)
    np.testing.assert_allclose(found, off, rtol=0.03)  # these are of fits to all folds but one
    assert own == pytest.approx(
        np.sqrt(-model.best_score_ * np.mean([y[task == t].var() for t in model.tasks_])), rel=0.2
    )
    low, high = np.argmin(found), np.argmax(found)
    words = (
        f"by {np.median(found):.3g} (root mean square, median over tasks; {found[low]:.3g} in 't{low}' to "
        f"{found[high]:.3g} in 't{high}'), where their own coefficients are off by {own:.3g}."
    )
    save_model(model, tmp_path / "m.msmtfl")
    for one in (model, load_model(tmp_path / "m.msmtfl")):
        with pytest.warns(NewTaskWarning) as said:
            one.predict(X[:3], task=["new"] * 3)
        assert str(said[0].message).endswith(words)
    for unknowing in (LassoMTL(0.05, unknown_task="mean"), LassoMTLCV(cv=3, loss="huber", unknown_task="mean")):
        with pytest.warns(NewTaskWarning, match="The error of such predictions is not known. compare_models"):
            unknowing.fit(X, y, task=task).predict(X[:3], task=["new"] * 3)
