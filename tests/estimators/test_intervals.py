"""Intervals of predictions: what they are made of, whether they hold, and what is said where they cannot be made."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold

from msmtfl import (
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTLCV,
    LassoMTL,
    LassoMTLCV,
    MSMTFLClassifier,
    MSMTFLClassifierCV,
    MultiTaskAuto,
    SharedMTLCV,
)
from msmtfl._estimators import intervals
from msmtfl._estimators.baselines.lasso import PooledLassoCV
from msmtfl._estimators.baselines.logistic import LogisticPerTaskCV, PooledLogisticCV
from msmtfl._estimators.baselines.ridge import PooledRidgeCV, RidgePerTaskCV
from msmtfl._estimators.fitted import NewTaskWarning
from msmtfl._estimators.intervals import SmallTaskWarning
from msmtfl._objective.losses import loss_named
from msmtfl._paths import conformal
from msmtfl._paths.conformal import FoldFit, Table, held_out_scores, thinned
from msmtfl.model_files import load_model, save_model

SEARCHES = [MSMTFLCV, LassoMTLCV, L12MTLCV, DirtyMTLCV, SharedMTLCV]


def draw(rng, W, b, sd, counts):
    """Samples of tasks with coefficients W, intercepts b and noise sd."""
    task = np.repeat(np.arange(len(W)), counts)
    X = rng.standard_normal((len(task), W.shape[1]))
    return X, (X * W[task]).sum(axis=1) + b[task] + sd[task] * rng.standard_normal(len(task)), task


def samples(counts=(20, 25, 30), d=6, seed=0):
    rng = np.random.default_rng(seed)
    W = np.zeros((len(counts), d))
    W[:, :2] = 1.0 + 0.3 * rng.standard_normal((len(counts), 2))
    return draw(rng, W, rng.standard_normal(len(W)), np.geomspace(0.3, 3.0, len(W)), counts)


def quantile(scores, level):
    """Where an exponential tail through two neighbouring scores has the level, on average over draws."""
    n, scores = len(scores), np.sort(scores)
    t = level * (n + 1)
    k = int(np.floor(t))
    return scores[k - 1] + (t - k) * (n - k) / (n + 1 - t) * (scores[k] - scores[k - 1])


@pytest.mark.parametrize("relax", [False, True])
@pytest.mark.parametrize("cls", SEARCHES)
def test_intervals_are_those_of_refits_without_each_fold(cls, relax):
    X, y, task = samples((20, 25, 60))
    folds = list(KFold(4, shuffle=True, random_state=0).split(X))
    model = cls(lams=5, cv=folds, relax=relax).fit(X, y, task=task)
    found = model.predict_interval(X, task=task, level=0.85)
    scores = model.held_out_
    for i in range(3):
        mine = np.flatnonzero(task == i)
        fold = np.empty(len(mine), dtype=int)
        for f, (_, test) in enumerate(folds):
            fold[np.isin(mine, test)] = f
        coef = scores.coefs()[i]
        errors = np.abs(y[mine] - (X[mine] * coef[fold]).sum(axis=1) - scores.intercepts()[i][fold])
        # the errors that the search has measured itself
        for f in range(4):
            told = model.cv_results_["test_mse"][model.best_index_][f, i]
            np.testing.assert_allclose(np.mean(errors[fold == f] ** 2), told, rtol=1e-8)
        for r in mine[:5]:
            mu = (X[r] @ coef.T + scores.intercepts()[i])[fold]
            expected = [-quantile(errors - mu, 0.85), quantile(errors + mu, 0.85)]  # CV+
            if len(mine) >= conformal.MANY:
                expected = mu.mean() + np.array([-1.0, 1.0]) * quantile(errors, 0.85)
            np.testing.assert_allclose(found[r], expected, rtol=1e-9, atol=1e-9)


def test_both_ways_to_find_an_end_agree(monkeypatch):
    rng = np.random.default_rng(0)
    score = np.abs(rng.standard_normal(59))  # 0.9 * 60 is a number of scores: nothing is between them
    fold = np.repeat(np.arange(3), 20)[:59]
    score = np.concatenate([np.sort(score[fold == f]) for f in range(3)])
    table = Table(np.zeros(59, int), fold, score, np.ones(59), plus=True)
    mu = rng.standard_normal((50, 3))
    sorted_ones = table.interval(mu, 0.9)
    monkeypatch.setattr(conformal, "AT_ONCE", 7 * 59)  # a few samples at a time
    np.testing.assert_array_equal(table.interval(mu, 0.9), sorted_ones)
    monkeypatch.setattr(conformal, "FEW", 0)
    np.testing.assert_allclose(table.interval(mu, 0.9), sorted_ones, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_intervals_hold_on_average_for_every_task():
    """Few samples, unequal noise; the study benchmarks/studies/prediction_intervals.py is the large version."""
    counts, sd = np.array([6, 8, 12, 20, 30]), np.array([1.0, 0.3, 3.0, 1.0, 0.5])
    held = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        W = np.zeros((5, 6))
        W[:, :2] = 1.0 + 0.3 * rng.standard_normal((5, 2))
        b = rng.standard_normal(5)
        X, y, task = draw(rng, W, b, sd, counts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LassoMTLCV(lams=8).fit(X, y, task=task)
            X, y, task = draw(rng, W, b, sd, 200)
            low, high = model.predict_interval(X, task=task, level=0.9).T
        held.append(((low <= y) & (y <= high)).reshape(5, 200).mean(axis=1))
    by_task = np.mean(held, axis=0)
    assert by_task.min() > 0.87
    assert by_task.mean() < 0.9 + np.mean(1 / (counts + 1)) + 0.015
    assert (by_task < 0.9 + 1 / (counts + 1) + 0.03).all()


@pytest.mark.parametrize(("n", "level"), [(14, 0.9), (12, 0.9), (10, 0.8), (22, 0.95)])
def test_quantiles_of_few_scores_are_not_rounded_up(n, level):
    """14 scores have no quantile of 0.9: the largest alone would hold 93.3 %."""
    rng = np.random.default_rng(0)
    for draws, cdf in (
        (rng.standard_normal((2000, n)), norm.cdf),
        (rng.standard_t(3, (2000, n)), student(3).cdf),
    ):
        one = np.zeros(n, int)
        radii = np.array([Table(one, one, score, np.ones(n)).radius(level) for score in np.sort(np.abs(draws))])
        assert abs(np.mean(2 * cdf(radii) - 1) - level) < 0.006


def test_a_level_that_scores_have_is_taken_as_it_is():
    score = np.arange(1.0, 10.0)
    table = Table(np.zeros(9, int), np.zeros(9, int), score, np.ones(9))
    assert [table.radius(level) for level in (0.1, 0.5, 0.9)] == [1.0, 5.0, 9.0]
    assert table.radius(0.05) == 1.0
    heavy = Table(np.zeros(9, int), np.zeros(9, int), score, np.full(9, 3.0))
    assert 8.0 < heavy.radius(0.9) < 9.0


def test_noisy_tasks_have_wider_intervals():
    X, y, task = samples((40, 40, 40))
    width = np.ptp(LassoMTLCV(lams=8).fit(X, y, task=task).predict_interval(X, task=task), axis=1)
    quiet, _, loud = (width[task == i].mean() for i in range(3))
    assert loud > 4 * quiet


def test_forms_of_data_and_of_the_answer():
    X, y, task = samples((20, 20))
    assert LassoMTLCV(lams=4).fit(X[:20], y[:20]).predict_interval(X[:3]).shape == (3, 2)
    wide = LassoMTLCV(lams=4).fit(X[:20], np.column_stack([y[:20], y[20:]]))
    assert wide.predict_interval(X[:3]).shape == (3, 2, 2)
    np.testing.assert_allclose(wide.predict_interval(X[:3], task=[1, 1, 1]), wide.predict_interval(X[:3])[:, 1])
    columns = np.column_stack([task, X])
    inside = LassoMTLCV(lams=4, task_column=0).fit(columns, y)
    beside = LassoMTLCV(lams=4).fit(X, y, task=task)
    np.testing.assert_allclose(
        inside.predict_interval(columns[::-1]), beside.predict_interval(X[::-1], task=task[::-1]), rtol=1e-9
    )


def test_a_table_without_rows_has_no_intervals():
    X, y, task = samples()
    model = LassoMTLCV(lams=4).fit(X, y, task=task)
    with pytest.raises(ValueError, match="0 sample"):
        model.predict_interval(X[:0], task=task[:0])


# ------------------------------------------------------------------ weights, groups, repetitions


def scores_with(X, y, *, weight=None, groups=None, cv=4):
    options = {} if groups is None else {"groups": groups}
    model = LassoMTLCV(lams=[1e-3], cv=cv).fit(X, y, sample_weight=weight, **options)
    return model.held_out_.own


def test_a_common_factor_of_weights_does_not_matter():
    X, y, _ = samples((40,))
    one, other = scores_with(X, y), scores_with(X, y, weight=np.full(40, 7.0))
    assert one.size == pytest.approx(40)
    assert other.size == pytest.approx(40)


def test_uneven_weights_count_as_fewer_samples():
    X, y, _ = samples((40,))
    weight = np.where(np.arange(40) < 10, 10.0, 0.1)
    assert scores_with(X, y, weight=weight).size == pytest.approx(weight.sum() ** 2 / (weight**2).sum())


def test_weights_move_the_quantile_to_heavy_samples():
    """Half of the samples are ten times as noisy: where they weigh nothing, intervals are those of the others."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    loud = np.arange(200) % 2 == 1
    y = X[:, 0] + np.where(loud, 10.0, 1.0) * rng.standard_normal(200)
    quiet = LassoMTLCV(lams=[1e-3]).fit(X, y, sample_weight=np.where(loud, 1e-6, 1.0)).predict_interval(X)
    both = LassoMTLCV(lams=[1e-3]).fit(X, y).predict_interval(X)
    assert np.ptp(quiet, axis=1).mean() < 5 < 20 < np.ptp(both, axis=1).mean()


def test_groups_count_as_samples():
    """A group's samples share one weight, and it takes groups to reach a level."""
    X, y, _ = samples((60,))
    groups = np.repeat(np.arange(12), 5)
    model = LassoMTLCV(lams=[1e-3], cv=GroupKFold(4)).fit(X, y, groups=groups)
    assert model.held_out_.own.size == pytest.approx(12)
    model.predict_interval(X, level=12 / 13)
    with pytest.raises(ValueError, match=r"12 groups .* largest level possible for it is 0\.923"):
        model.predict_interval(X, level=0.95)


def test_groups_are_held_out_whole():
    """Samples of a group are alike: with folds that part them intervals would be far too narrow."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 5)
    level = 5 * rng.standard_normal(40)
    X = level[groups][:, None] + 0.01 * rng.standard_normal((200, 1))
    y = np.sin(3 * level)[groups] + 0.01 * rng.standard_normal(200)
    together = LassoMTLCV(lams=[1e-3]).fit(X, y, groups=groups)
    assert together.held_out_.own.size == pytest.approx(40)
    for f in range(5):  # the folds of the scores part no group
        assert together.held_out_.own.of_task(0).parts()[f][1].size % 5 == 0


def test_samples_held_out_several_times_count_once():
    X, y, _ = samples((30,))
    table = scores_with(X, y, cv=RepeatedKFold(n_splits=3, n_repeats=2, random_state=0))
    assert table.size == pytest.approx(30)
    assert len(table.score) == 60


# ------------------------------------------------------------------ few samples, new tasks, bad input


def test_small_tasks_borrow_the_shape_of_errors_and_keep_their_scale():
    X, y, task = samples((8, 8, 60, 60), seed=1)
    y[task == 1] += 20 * np.random.default_rng(0).standard_normal(8)
    model = LassoMTLCV(lams=8).fit(X, y, task=task)
    with pytest.warns(SmallTaskWarning, match=r"task\(s\) 0, 1 .* allow 0\.888\)"):
        width = np.ptp(model.predict_interval(X, task=task, level=0.95), axis=1)
    assert width[task == 1].mean() > 5 * width[task == 0].mean()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_interval(X, task=task, level=0.88)
        model.predict_interval(X[16:], task=task[16:], level=0.95)


@pytest.mark.parametrize("level", [0.0, 1.0, -1, 2, np.nan])
def test_level_must_lie_between_0_and_1(level):
    X, y, task = samples()
    with pytest.raises(ValueError, match="between 0 and 1"):
        LassoMTLCV(lams=4).fit(X, y, task=task).predict_interval(X, task=task, level=level)


def test_a_level_in_per_cent_is_noticed():
    X, y, task = samples()
    model = LassoMTLCV(lams=4).fit(X, y, task=task)
    with pytest.raises(ValueError, match=r"For 90 per cent it is 0\.9"):
        model.predict_interval(X, task=task, level=90)
    with pytest.raises(TypeError, match="level must be a number"):
        model.predict_interval(X, task=task, level="0.9")


def test_too_few_samples_for_a_level():
    X, y, task = samples((20, 25, 30))
    one = LassoMTLCV(lams=4).fit(X[:20], y[:20])
    with pytest.raises(ValueError, match=r"task 0 has 20 samples .* only task\. The largest level possible .* 0\.952"):
        one.predict_interval(X, level=0.96)
    one.predict_interval(X, level=0.952)
    several = LassoMTLCV(lams=4).fit(X, y, task=np.array(["a", "b", "c"])[task])
    with pytest.raises(ValueError, match=r"task 'b' has 25 samples .* all tasks together allow 0\.986 at most"):
        several.predict_interval(X[20:45], task=["b"] * 25, level=0.99)


def test_new_tasks():
    rng = np.random.default_rng(0)
    m = 12
    W = np.zeros((m + 40, 3))
    W[:, 0] = 1.0 + 0.5 * rng.standard_normal(m + 40)
    b, sd = rng.standard_normal(m + 40), np.full(m + 40, 0.5)
    X, y, task = draw(rng, W, b, sd, 30)
    known = task < m
    model = LassoMTLCV(lams=8, unknown_task="mean").fit(X[known], y[known], task=task[known])
    with pytest.warns(NewTaskWarning, match="errors of predicting each of the 12 known tasks"):
        low, high = model.predict_interval(X[~known], task=task[~known], level=0.9).T
    assert 0.8 < np.mean((low <= y[~known]) & (y[~known] <= high)) < 0.99
    of_known = model.predict_interval(X[known], task=task[known])
    assert np.mean(high - low) > 1.5 * np.ptp(of_known, axis=1).mean()
    with pytest.raises(ValueError, match=r"12 task\(s\).* level of 0\.95 \(0\.923 at most\)"):
        model.predict_interval(X[~known], task=task[~known], level=0.95)
    with pytest.raises(ValueError, match="unknown task"):
        model.set_params(unknown_task="error").predict_interval(X[~known], task=task[~known])


@pytest.mark.filterwarnings("ignore::msmtfl._estimators.fitted.NewTaskWarning")
@pytest.mark.parametrize("intercepts", ["task", "shrunk", "common"])
def test_intervals_of_new_tasks_are_around_their_prediction(intercepts):
    """Tasks of 5 samples are drawn to the common level, one of 300 is not: the mean of intercepts is not that level."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(12), [300] + [5] * 11)
    X = rng.standard_normal((len(task), 2))
    y = X[:, 0] + np.where(task == 0, 6.0, rng.standard_normal(12)[task]) + 0.5 * rng.standard_normal(len(task))
    model = LassoMTLCV(lams=5, intercepts=intercepts, unknown_task="mean").fit(X, y, task=task)
    new = model.predict(X[:4], task=["new"] * 4)
    left_out = intervals._left_out(model, model.held_out_, X[:4], new[:, None])
    np.testing.assert_allclose(left_out.mean(axis=1), new, rtol=1e-9, atol=1e-9)
    low, high = model.predict_interval(X[:4], task=["new"] * 4, level=0.8).T
    assert ((low < new) & (new < high)).all()


def test_without_folds_there_are_no_intervals():
    X, y, task = samples()
    for model, named in ((MSMTFL(lam=0.1), "MSMTFLCV"), (LassoMTL(lam=0.1), "LassoMTLCV")):
        with pytest.raises(ValueError, match=f"Fit {named}, which cross-validates"):
            model.fit(X, y, task=task).predict_interval(X, task=task)
    model = LassoMTLCV(lams=4).fit(X, y, task=task).set_params(selection="ebic").fit(X, y, task=task)
    with pytest.raises(ValueError, match="without folds"):
        model.predict_interval(X, task=task)


def test_from_statistics_there_are_no_intervals():
    from msmtfl import Moments

    X, y, task = samples()
    parts = [Moments().update(X[f::3], y[f::3], task=task[f::3]) for f in range(3)]
    model = LassoMTLCV(lams=4).fit(X, y, task=task).fit_moments(parts)
    with pytest.raises(ValueError, match="from statistics"):
        model.predict_interval(X, task=task)


def test_a_task_that_was_added_has_no_intervals():
    X, y, task = samples()
    model = LassoMTLCV(lams=4).fit(X, y, task=task).add_task(X[:20], y[:20], 9)
    with pytest.raises(ValueError, match="task 9 was added after the fit"):
        model.predict_interval(X[:2], task=[0, 9])
    assert model.predict_interval(X[:2], task=[0, 1]).shape == (2, 2)


def test_counts_have_intervals_on_their_own_scale():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    task = np.repeat([0, 1], 100)
    y = rng.poisson(np.exp(0.5 * X[:, 0] + 0.5)).astype(float)
    low, high = MSMTFLCV(lams=5, loss="poisson").fit(X, y, task=task).predict_interval(X, task=task).T
    assert low.min() == 0.0
    assert 0.87 < np.mean((low <= y) & (y <= high)) < 0.97


@pytest.mark.parametrize(
    "names", [["lasso", "l12"], ["pooled lasso", "pooled ridge"], ["ridge per task", "pooled lasso"]]
)
def test_automatic_choice_has_the_intervals_of_its_model(names):
    X, y, task = samples((30, 30))
    model = MultiTaskAuto(names, cv=3, inner_cv=3).fit(X, y, task=task)
    np.testing.assert_array_equal(
        model.predict_interval(X, task=task, level=0.8),
        model.best_estimator_.predict_interval(X, task=task, level=0.8),
    )


# ------------------------------------------------------------------ many scores


def test_many_scores_are_kept_as_a_table_that_makes_no_interval_narrower():
    rng = np.random.default_rng(0)
    score, weight = np.abs(rng.standard_normal(20_000)), np.ones(20_000)
    _, values, weights = thinned(np.zeros(20_000, int), score, weight)
    assert len(values) < 800
    assert weights.sum() == pytest.approx(20_000)
    assert (np.diff(values) >= 0).all()
    for level in (0.5, 0.9, 0.95, 0.99, 0.999):
        exact = np.sort(score)[int(np.ceil(level * 20_001)) - 1]
        found = values[np.searchsorted(np.cumsum(weights), level * 20_001 - 1e-9)]
        above = np.sort(score)[min(int(np.ceil((1 - (1 - level) * 0.98) * 20_001)), 20_000) - 1]
        assert exact <= found <= above


def test_few_scores_are_kept_as_they_are():
    score, group = np.random.default_rng(0).uniform(size=150), np.repeat([3, 0, 1], 50)
    groups, values, weights = thinned(group, score, np.ones(150))
    for one in (0, 1, 3):
        np.testing.assert_array_equal(values[groups == one], np.sort(score[group == one]))
    np.testing.assert_array_equal(weights, np.ones(150))


def test_scores_of_several_tasks_are_put_together_each_by_itself():
    rng = np.random.default_rng(0)
    score, group = np.abs(rng.standard_normal(6000)), np.repeat([0, 1], [1000, 5000])
    groups, values, weights = thinned(group, score, np.ones(6000))
    for one in (0, 1):
        _, alone, of_alone = thinned(group[group == one], score[group == one], np.ones((group == one).sum()))
        np.testing.assert_array_equal(values[groups == one], alone)
        np.testing.assert_allclose(weights[groups == one], of_alone)


def test_scores_of_others_leave_the_task_out():
    from msmtfl._data.tasks import read_training

    data = read_training(np.ones((4, 1)), np.array([1.0, 2.0, 5.0, 7.0]), task=[0, 0, 1, 1])
    fit = FoldFit(np.zeros((2, 1)), np.array([1.5, 6.0]), np.ones(4, dtype=bool))
    table = held_out_scores(data, [fit], loss_named("squared")).others
    np.testing.assert_allclose(table.of_task(0).score, [4.0, 5.0])  # predicted with the other's 6
    np.testing.assert_allclose(table.of_task(1).score, [3.5, 5.5])
    np.testing.assert_allclose(table.weight, 0.5)


# ------------------------------------------------------------------ classes, baselines


@pytest.mark.parametrize("cls", [RidgePerTaskCV, PooledRidgeCV, PooledLassoCV])
@pytest.mark.parametrize("grouped", [False, True])
def test_baselines_have_intervals(cls, grouped):
    X, y, task = samples((60, 60), d=4)
    groups = {"groups": np.arange(120) // 2} if grouped else {}
    model = cls().fit(X, y, task=task, **groups)
    assert model.held_out_.own.of_task(0).size == pytest.approx(30 if grouped else 60)
    low, high = model.predict_interval(X, task=task).T
    assert 0.85 < np.mean((low <= y) & (y <= high)) < 1.0
    assert (low < model.predict(X, task=task)).all()
    assert (high > model.predict(X, task=task)).all()


def test_refits_of_ridges_are_ridges():
    """At the strength that a task has chosen, fits to the training rows of the folds."""
    X, y, task = samples((40, 40), d=4)
    model = RidgePerTaskCV().fit(X, y, task=task)
    for i in range(2):
        mine, w = task == i, model.coef_[i]
        Z, t = X[mine] - X[mine].mean(axis=0), y[mine] - y[mine].mean()
        alpha = (Z.T @ (t - Z @ w)) @ w / (w @ w)
        for f, (v, level) in enumerate(zip(model.held_out_.coefs()[i], model.held_out_.intercepts()[i], strict=True)):
            scores = model.held_out_.own.of_task(i).parts()[f][1]
            errors = np.abs(y[mine] - X[mine] @ v - level)
            test = np.isin(np.round(errors, 9), np.round(scores, 9))
            assert test.sum() == len(scores) == 8
            plain = Ridge(alpha=alpha).fit(X[mine][~test], y[mine][~test])
            np.testing.assert_allclose(v, plain.coef_, rtol=1e-7)
            np.testing.assert_allclose(level, plain.intercept_, rtol=1e-7, atol=1e-9)


def classes_of(X, rng, K):
    latent = 2 * X[:, 0] + rng.logistic(size=len(X))
    return np.where(latent > 0, "p", "q") if K == 2 else np.array(list("abc"))[(latent > -1).astype(int) + (latent > 1)]


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("cls", [MSMTFLClassifierCV, PooledLogisticCV, LogisticPerTaskCV])
def test_sets_of_classes(cls, K):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((240, 3)), np.repeat([0, 1], 120)
    y = classes_of(X, rng, K)
    model = (cls(lams=5) if cls is MSMTFLClassifierCV else cls()).fit(X, y, task=task)
    new, of = rng.standard_normal((4000, 3)), np.repeat([0, 1], 2000)
    truth = np.searchsorted(model.classes_, classes_of(new, rng, K))
    sizes = []
    for level in (0.6, 0.8, 0.95):
        found = model.predict_set(new, task=of, level=level)
        assert found.shape == (4000, K)
        sizes.append(found.sum(axis=1).mean())
        assert abs(found[np.arange(4000), truth].mean() - level) < 0.07
    assert sizes == sorted(sizes)


def test_sets_are_cv_plus():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = classes_of(X, rng, 2)
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    model = MSMTFLClassifierCV(lams=4, cv=folds).fit(X, y)
    fold = np.empty(60, dtype=int)
    for f, (_, test) in enumerate(folds):
        fold[test] = f
    p = 1 / (1 + np.exp(-(X @ model.held_out_.coefs()[0].T + model.held_out_.intercepts()[0])))  # (60, folds)
    own = np.where(y == model.classes_[1], 1 - p[np.arange(60), fold], p[np.arange(60), fold])
    found = model.predict_set(X[:20], level=0.7)
    for r in range(20):
        for c in (0, 1):
            mine = 1 - p[r] if c else p[r]
            assert found[r, c] == ((own < mine[fold]).sum() < 0.7 * 61)


def test_sets_come_from_files(tmp_path):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((180, 3)), np.repeat([0, 1], 90)
    model = MSMTFLClassifierCV(lams=4).fit(X, classes_of(X, rng, 3), task=task)
    save_model(model, tmp_path / "model.msmtfl")
    same = load_model(tmp_path / "model.msmtfl")
    np.testing.assert_array_equal(same.predict_set(X, task=task), model.predict_set(X, task=task))
    with pytest.raises(ValueError, match="Fit MSMTFLClassifierCV"):
        MSMTFLClassifier(lam=0.1).fit(X, classes_of(X, rng, 2), task=task).predict_set(X, task=task)


# ------------------------------------------------------------------ other packages


@pytest.mark.parametrize("column", ["town", 2])
def test_arrays_are_predicted_where_the_fit_was_to_a_table(column):
    """MAPIE hands arrays to `predict`, and asks for zeros to see whether a model is fitted."""
    X, y, task = samples()
    table = pd.DataFrame(X, columns=list("abcdef"))
    table.insert(2, "town", task)
    model = LassoMTLCV(lams=4, task_column=column).fit(table, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn says that the array has no names
        # to rounding: pandas before 3 lays out the numbers of a table otherwise, and sums are taken in another order
        np.testing.assert_allclose(model.predict(table.to_numpy()), model.predict(table), rtol=1e-13)
        np.testing.assert_allclose(model.predict_interval(table.to_numpy()), model.predict_interval(table), rtol=1e-13)
        assert model.predict(np.zeros((1, 7))).shape == (1,)
        with pytest.raises(ValueError, match="features"):
            model.predict(X)
