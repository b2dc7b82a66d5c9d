"""Intervals after selection, debiased intervals and shared features: against plain computations, and by simulation."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import t as student

from msmtfl import (
    MSMTFL,
    MSMTFLCV,
    LassoMTL,
    LassoMTLCV,
    MSMTFLClassifier,
    MultiTaskAuto,
    SharedMTL,
    stack_tasks,
)
from msmtfl._data.tasks import read_training
from msmtfl._paths.discoveries import benjamini_hochberg
from msmtfl.inference import debiased_intervals, draw_halves, shared_features, split_intervals
from msmtfl.inference.common import Samples
from msmtfl.inference.gaussian_knockoffs import Law, Laws, covariance_near, covariance_of, distances
from msmtfl.inference.knockoffs import beside_knockoffs, knockoff_plus, lasso_statistics, scores_of

STUDIES = Path(__file__).parents[2] / "benchmarks" / "studies"


def loaded(name):
    """A study as a module."""
    spec = importlib.util.spec_from_file_location(name, STUDIES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


study = loaded("interval_coverage")


def simple(seed=0, n=160, d=12, m=2, noise=1.0):
    """Features 0 and 3 matter in all tasks."""
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((n, d)), np.tile([f"t{i}" for i in range(m)], n // m)
    return X, 2 * X[:, 0] - X[:, 3] + 1.0 + noise * rng.standard_normal(n), task


X, y, TASK = simple()


def plain_intervals(Z, y, k, level=0.95):
    """Estimates and ends of least squares, the first k coefficients."""
    G = np.linalg.inv(Z.T @ Z)
    b = G @ Z.T @ y
    degrees = len(y) - Z.shape[1]
    s2 = ((y - Z @ b) ** 2).sum() / degrees
    reach = student.ppf(0.5 + level / 2, degrees) * np.sqrt(s2 * np.diag(G))
    p = 2 * student.sf(np.abs(b) / np.sqrt(s2 * np.diag(G)), degrees)
    return np.array([b, b - reach, b + reach, p])[:, :k]


# ------------------------------------------------------------------ splitting


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_split_intervals_are_those_of_least_squares_on_the_other_half(intercept, weighted):
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    model = LassoMTL(0.4, fit_intercept=intercept)
    found = split_intervals(model, X, y, task=TASK, sample_weight=weight, level=0.9, random_state=3)
    half = draw_halves(read_training(X, y, task=TASK), None, 1, np.random.RandomState(3))[0]
    for split, keep in enumerate((half, ~half)):
        chosen = model.fit(X[keep], y[keep], task=TASK[keep], sample_weight=None if weight is None else weight[keep])
        np.testing.assert_array_equal(found.support[split], chosen.coef_ != 0)
        for i, label in enumerate(("t0", "t1")):
            rows, S = np.flatnonzero(~keep & (label == TASK)), np.flatnonzero(chosen.coef_[i])
            root = np.ones(len(rows)) if weight is None else np.sqrt(weight[rows])
            Z = np.column_stack([X[np.ix_(rows, S)], np.ones((len(rows), int(intercept)))])
            known = plain_intervals(root[:, None] * Z, root * y[rows], len(S), 0.9)
            arrays = (found.estimate, found.lower, found.upper, found.p_value)
            np.testing.assert_allclose([a[split, i, S] for a in arrays], known, rtol=1e-8, atol=1e-12)
            assert found.n_estimating[split, i] == len(rows)
    assert np.array_equal(np.isfinite(found.estimate), found.support)


def test_split_intervals_cover_selected_entries_null_ones_included():
    covered = study.split(12, 80, 30, 0.5, LassoMTL(0.06))
    null, active = np.concatenate(covered.null), np.concatenate(covered.active)
    assert len(null) > 500
    assert 0.93 <= null.mean() <= 0.97
    assert 0.92 <= active.mean() <= 0.98


def test_split_intervals_of_a_stand_in_cover_what_it_stands_for_not_0():
    rng, task = np.random.default_rng(0), np.repeat(["a", "b"], 400)
    hidden = rng.standard_normal(800)
    Z = np.column_stack([hidden, 0.8 * hidden + 0.6 * rng.standard_normal(800)])
    never = LassoMTL(0.1, penalty_factors=[np.inf, 1.0])  # the feature that matters is not selected
    found = split_intervals(never, Z, hidden + 0.3 * rng.standard_normal(800), task=task, level=0.99)
    assert (found.lower[:, :, 1] > 0.5).all()
    assert ((found.lower[:, :, 1] < 0.8) & (found.upper[:, :, 1] > 0.8)).all()
    assert (found.p_value[:, :, 1] < 1e-6).all()


def test_split_table_has_a_line_per_split_and_the_print_shows_both():
    found = split_intervals(LassoMTL(0.4), X, y, task=TASK)
    table = found.to_frame()
    assert list(table.columns[:6]) == ["task", "feature", "split", "estimate", "lower", "upper"]
    assert len(table) == found.support.sum()
    first = table.query("task == 't1' and feature == 'x3'")
    assert first["split"].tolist() == [1, 2]
    np.testing.assert_array_equal(first["lower"], found.lower[:, 1, 3])
    for split in (0, 1):
        np.testing.assert_allclose(
            table[table["split"] == split + 1]["p_adjusted"],
            benjamini_hochberg(table[table["split"] == split + 1]["p_value"].to_numpy()),
        )
    text = str(found)
    assert "least-squares coefficient of a feature within the features selected in its task" in text
    assert "do not average them" in text
    assert "It is not 0 where a feature stands in for one that was not selected" in text
    assert f"{found.estimate[0, 1, 3]:.3g} [" in text


def test_split_forms_agree_and_groups_stay_together():
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(12)]).assign(school=TASK)
    first = split_intervals(MSMTFLCV(lams=8, cv=3), X, y, task=TASK)
    for other in (
        split_intervals(MSMTFLCV(lams=8, cv=3, task_column="school"), table, y),
        split_intervals(MSMTFLCV(lams=8, cv=3), sp.csc_array(X), y, task=TASK),
    ):
        np.testing.assert_allclose(other.lower, first.lower, rtol=1e-6)
    # groups of ten samples are halved by groups: with one group per task that is impossible
    groups = np.arange(160) // 10
    split_intervals(LassoMTL(0.4), X, y, task=TASK, groups=groups)
    with pytest.raises(ValueError, match=r"has 1 group\(s\), too few to have some in both halves"):
        split_intervals(LassoMTL(0.4), X, y, task=TASK, groups=TASK)
    wide = split_intervals(LassoMTL(0.2), X, np.column_stack([y, y[::-1]]))
    assert wide.estimate.shape == (2, 2, 12)


def test_a_search_chooses_on_the_selecting_half_alone():
    found = split_intervals(LassoMTLCV(lams=10, cv=3), X, y, task=TASK)
    noise = y + 100.0 * np.random.default_rng(0).standard_normal(len(y))
    half = draw_halves(read_training(X, y, task=TASK), None, 1, np.random.RandomState(0))[0]
    other = split_intervals(LassoMTLCV(lams=10, cv=3), X, np.where(half, y, noise), task=TASK)
    np.testing.assert_array_equal(found.support[0], other.support[0])
    assert not np.array_equal(found.support[1], other.support[1])


def test_halves_that_are_too_small_have_no_intervals_in_words():
    with pytest.warns(
        UserWarning, match=r"no intervals for task\(s\) 't0' \(split 1\).*no more than the features selected"
    ):
        found = split_intervals(LassoMTL(1e-4), X[:40], y[:40], task=TASK[:40])
    assert found.to_frame().empty
    assert "A larger lam selects fewer" in str(found)
    nothing = split_intervals(LassoMTL(100.0), X, y, task=TASK)
    assert "no half selects any feature" in str(nothing)
    assert nothing.to_frame().empty


def test_p_values_are_adjusted_as_benjamini_and_hochberg_do():
    p = np.array([[0.01, np.nan, 0.04], [0.03, 0.5, np.nan]])
    np.testing.assert_allclose(benjamini_hochberg(p), [[0.04, np.nan, 0.16 / 3], [0.16 / 3, 0.5, np.nan]])


# ------------------------------------------------------------------ debiased


def test_debiased_is_least_squares_where_samples_are_many():
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    found = debiased_intervals(LassoMTL(0.4), X, y, task=TASK, sample_weight=weight)
    assert found.exact.all()
    for i, label in enumerate(("t0", "t1")):
        rows = np.flatnonzero(label == TASK)
        root = np.sqrt(weight[rows])
        known = plain_intervals(root[:, None] * np.column_stack([X[rows], np.ones(len(rows))]), root * y[rows], 12)
        got = [found.estimate[i], found.lower[i], found.upper[i], found.p_value[i]]
        np.testing.assert_allclose(got, known, rtol=1e-8, atol=1e-12)
    assert list(found.to_frame().columns[:2]) == ["task", "feature"]
    assert "exact for normal noise: task(s) 't0', 't1'" in str(found)


def test_debiased_takes_back_the_shrinkage_where_samples_are_few():
    covered = study.debiased(6, 30, 60, 0.5, MSMTFLCV(lams=15))
    null, active = np.concatenate(covered.null), np.concatenate(covered.active)
    assert 0.93 <= null.mean() <= 0.98
    assert active.mean() >= 0.86  # 120 entries: 0.92 to 0.94 over more draws
    X, y, task, W, _ = study.drawn(0, 30, 60)
    found = debiased_intervals(LassoMTL(0.1), X, y, task=task)
    assert not found.exact.any()
    assert (np.isfinite(found.lower) & (found.lower < found.upper)).all()
    large = np.abs(W) > 0.7
    assert np.abs(found.estimate - W)[large].mean() < np.abs(found.coef - W)[large].mean()
    assert "About right on average" in str(found)


def test_tasks_on_the_same_samples_share_what_is_left_of_their_columns(monkeypatch):
    from msmtfl.inference import debiased

    calls = []
    plain = debiased.nodewise
    monkeypatch.setattr(debiased, "nodewise", lambda X: calls.append(X.shape) or plain(X))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 40))
    Y = X[:, :3] @ rng.standard_normal((3, 4)) + 0.1 * rng.standard_normal((30, 4))
    wide = debiased_intervals(LassoMTL(0.1), X, Y)
    assert calls == [(30, 40)]
    stacked = debiased_intervals(LassoMTL(0.1), *stack_tasks([X] * 4, list(Y.T))[:2], task=np.repeat(np.arange(4), 30))
    assert len(calls) == 5
    np.testing.assert_allclose(wide.lower, stacked.lower, rtol=1e-6, atol=1e-8)


def test_debiased_leaves_out_what_cannot_be_estimated():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 40))
    X[:, 5] = 1.0
    task = np.repeat(["a", "b"], 30)
    factors = np.ones(40)
    factors[7] = np.inf
    y = X[:, 0] + 0.1 * rng.standard_normal(60)
    found = debiased_intervals(LassoMTL(0.1, penalty_factors=factors), X, y, task=task)
    assert np.isnan(found.estimate[:, [5, 7]]).all()
    assert np.isfinite(np.delete(found.estimate, [5, 7], axis=1)).all()
    with pytest.warns(UserWarning, match="about as many coefficients"):
        crowded = debiased_intervals(LassoMTL(1e-6), X, y, task=task)
    assert crowded.to_frame().empty


# ------------------------------------------------------------------ knockoffs


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_knockoffs_have_the_covariances_that_they_should(rho):
    d = 8
    cov = rho ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    s = distances(cov)
    assert (s > 0).all()
    assert np.linalg.eigvalsh(2 * cov - np.diag(s)).min() > 0
    inverse = np.linalg.inv(2 * cov - np.diag(s / (1 - 1e-3)))  # where the entropy is largest, before the margin
    np.testing.assert_allclose(np.diag(inverse), (1 - 1e-3) / s, rtol=1e-2)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200_000, d)) @ np.linalg.cholesky(cov).T
    K = Law.of(cov).draw(X, rng)
    np.testing.assert_allclose(K.T @ K / len(K), cov, atol=0.02)
    np.testing.assert_allclose(X.T @ K / len(K), cov - np.diag(s), atol=0.02)
    np.testing.assert_allclose(covariance_of(X), cov, atol=0.02)


def near(X, common, share):
    unit = X / X.std(axis=0)
    return covariance_near(unit.T @ unit / len(X), len(X), common, share)


def test_covariances_are_drawn_towards_those_of_all_tasks_where_these_are_alike():
    rng, d = np.random.default_rng(0), 20
    cov = 0.5 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    root = np.linalg.cholesky(cov)
    alike = [rng.standard_normal((60, d)) @ root.T for _ in range(6)]
    common = covariance_of(np.concatenate(alike))
    error = np.mean([np.abs(near(X, common, 1 / 6) - cov).mean() for X in alike])
    assert error < 0.6 * np.mean([np.abs(np.corrcoef(X.T) - cov).mean() for X in alike])
    other = rng.standard_normal((2000, d))  # columns that are independent, known well
    assert np.abs(near(other, common, 0.5) - np.eye(d)).mean() < 0.03
    assert near(other, common, 1.0) is common


def test_distances_are_the_same_from_wherever_they_are_sought():
    rng, d = np.random.default_rng(0), 30
    Z = rng.standard_normal((40, d)) @ rng.standard_normal((d, d))
    cov = 0.98 * np.corrcoef(Z.T) + 0.02 * np.eye(d)  # condition number of 100 and more
    s = distances(cov)
    for start in (np.full(d, 1e-6), np.full(d, 5.0), rng.uniform(0.001, 1.0, d)):
        np.testing.assert_allclose(distances(cov, start), s, rtol=1e-3)
    joint = np.linalg.inv(2 * cov - np.diag(s / (1 - 1e-3)))
    np.testing.assert_allclose(np.diag(joint) * s, 1 - 1e-3, rtol=1e-2)


def test_tasks_with_the_common_correlations_share_one_law_and_constant_columns_have_none():
    rng, d = np.random.default_rng(0), 12
    cov = 0.5 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    laws, some = Laws(cov), np.arange(1, d)
    alike = np.corrcoef((rng.standard_normal((50, d)) @ np.linalg.cholesky(cov).T).T)
    assert laws.near(0.5 * (alike + cov), np.arange(d), 50, 0.1) is laws.law
    part = laws.near(np.eye(d - 1), some, 4000, 0.1)  # its own correlations are 0, and well known
    np.testing.assert_allclose(part.s, 1.0, atol=0.05)
    assert part.kept.shape == (d - 1, d - 1)


def test_columns_that_stand_twice_have_knockoffs_too():
    twice = np.column_stack([X, X[:, 3], -X[:, 0]])
    with_noise = np.column_stack([twice, X[:, 5] + 1e-9 * np.random.default_rng(0).standard_normal(len(X))])
    found = shared_features(LassoMTL(), with_noise, y, task=TASK, r=1, fdr=0.5)
    assert np.isfinite(found.statistics).all()


@pytest.mark.slow
@pytest.mark.parametrize("model", [LassoMTL(), MSMTFL(loss="huber"), SharedMTL()], ids=["lasso", "huber", "shared"])
def test_a_swap_in_one_task_flips_that_task_s_sign_and_nothing_else(model):
    X, y, task = simple(n=180, d=6, m=3)
    data = read_training(X, y, task=task)
    samples = Samples.read(model, X, y, task, None, None)
    both, _ = beside_knockoffs(data, np.random.default_rng(0))
    before = lasso_statistics(model, data, samples, both, None)
    swapped = both.copy()
    rows = np.flatnonzero(task == "t1")
    for j in (0, 2, 5):
        swapped[np.ix_(rows, [j, 6 + j])] = both[np.ix_(rows, [6 + j, j])]
    after = lasso_statistics(model, data, samples, swapped, None)
    sign = np.ones((3, 6))
    sign[1, [0, 2, 5]] = -1
    np.testing.assert_allclose(after, sign * before, atol=1e-6)
    assert np.abs(before[1, [0, 2, 5]]).max() > 1e-3


def test_signs_of_scores_are_coins_where_fewer_tasks_matter():
    rng = np.random.default_rng(0)
    m, d = 6, 40_000
    V = rng.standard_normal((m, d))
    V[rng.random((m, d)) < 0.3] = 0.0
    V[0] = 5.0  # one task in which all matter: not two
    score = scores_of(V, 2)
    assert np.array_equal(score == 0, (V != 0).sum(axis=0) < 2)
    assert np.mean(score > 0) / np.mean(score != 0) == pytest.approx(0.5, abs=0.01)
    for large in (2.0, 6.0):  # whatever the size
        at = np.abs(score) > large
        assert np.mean(score[at] > 0) == pytest.approx(0.5, abs=0.015)
    assert np.mean(scores_of(V, 1) > 0) == 1.0
    assert np.mean(scores_of(V[1:], 2) > 0) < 0.3  # both by chance


def test_scores_and_the_filter_by_hand():
    V = np.array([[3.0, -1.0, 2.0, 0.0], [2.0, 5.0, -0.5, 4.0], [-1.0, 4.0, 1.0, 0.0]])
    np.testing.assert_allclose(scores_of(V, 1), [3.0, 5.0, 2.0, 4.0])
    np.testing.assert_allclose(scores_of(V, 2), [6.0, 20.0, 2.0, 0.0])
    np.testing.assert_allclose(scores_of(V, 3), [-6.0, -20.0, -1.0, 0.0])
    score = np.array([8.0, 7.0, 6.0, -5.0, 4.0, 3.0, -2.0, 0.0])
    assert np.flatnonzero(knockoff_plus(score, 0.4)).tolist() == [0, 1, 2, 4, 5]  # (1 + 1) / 5
    assert np.flatnonzero(knockoff_plus(score, 1 / 3)).tolist() == [0, 1, 2]  # (1 + 0) / 3
    assert not knockoff_plus(score, 0.3).any()
    assert not knockoff_plus(np.zeros(3), 0.3).any()


def test_shared_features_are_found_and_said():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((600, 30)), np.tile(["a", "b", "c"], 200)
    W = np.zeros((3, 30))
    W[:, :12], W[0, 12:14] = 1.0, 2.0  # the latter matter in one task only
    y = (X * W[np.unique(task, return_inverse=True)[1]]).sum(axis=1) + rng.standard_normal(600)
    found = shared_features(MSMTFLCV(), X, y, task=task, r=2, fdr=0.1)
    assert found.declared[:12].all()
    assert found.declared[12:].sum() <= 2
    assert set(found.features) == {f"x{j}" for j in np.flatnonzero(found.declared)}
    table = found.to_frame()
    assert list(table.columns) == ["feature", "declared", "tasks_for", "tasks_against", "score"]
    assert table["score"].is_monotonic_decreasing
    assert "declares at least 10 features at 10 %, or none" in str(found)
    assert found.approximate == ()
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(30)]).assign(site=task)
    again = shared_features(MSMTFL(task_column="site"), frame, y, r=2, fdr=0.1)
    np.testing.assert_array_equal(again.declared, found.declared)
    once = shared_features(MSMTFL(), X, y, task=task, r=1, fdr=0.1)
    assert once.declared[:14].sum() >= 13  # in any task
    classes = shared_features(MSMTFLClassifier(), X, np.where(y > 0, "high", "low"), task=task, r=2, fdr=0.2)
    assert classes.declared[:12].sum() >= 9


@pytest.mark.slow
def test_false_discoveries_are_as_rare_as_asked_for():
    found = loaded("knockoffs").measured(8, 150, 0.5, False, 0.45, stability=False)
    for r, rate in {1: 0.1, 2: 0.1, 4: 0.2}.items():
        false, power = found[r, "shared_features"].T
        assert false.mean() <= rate + 2 * max(false.std(), 0.1) / np.sqrt(len(false))
        assert power.mean() > 0.5
    # features that matter in one task only are not declared to matter in two
    assert found[1, "shared_features"][:, 1].mean() > found[1, "all signs"][:, 1].mean()


def test_tasks_that_share_samples_are_refused_but_for_any():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 20))
    Y = X[:, :8] @ np.ones((8, 2)) + rng.standard_normal((200, 2))
    with pytest.raises(ValueError, match=r"measured on the same samples.*no error rate can be given for r=2.*Take r=1"):
        shared_features(MSMTFL(), X, Y, r=2)
    found = shared_features(MSMTFL(), X, Y, r=1, fdr=0.2)
    assert found.declared[:8].sum() >= 6
    X2, y2, task = stack_tasks([X, X], list(Y.T))
    with pytest.raises(ValueError, match=r"samples of tasks 0, 1 have the same values in all features"):
        shared_features(MSMTFL(), X2, y2, task=task)
    with pytest.raises(ValueError, match="some groups have samples in several tasks"):
        shared_features(MSMTFL(), rng.standard_normal((400, 20)), y2, task=task, groups=np.tile(np.arange(200), 2))


def test_what_is_approximate_is_said():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 40))
    X[:, 3] = X[:, 3] > 0
    task = np.repeat(["a", "b"], 30)
    with pytest.warns(UserWarning, match=r"at fdr=0.02 at least 50 features are declared, or none, and there are 40"):
        found = shared_features(LassoMTL(), X, rng.standard_normal(60), task=task, fdr=0.02)
    text = str(found)
    assert "approximate: task(s) 'a', 'b' have fewer samples than features" in text
    assert "approximate: knockoffs are normal, but feature(s) 'x3' have two values only" in text
    assert "None declared is not none that matters" in text


# ------------------------------------------------------------------ bad input

COUNTS = np.abs(np.round(y))
ERRORS = {
    "one task": (lambda: shared_features(MSMTFL(), X, y), r"r=2, but there is one task.*Take r=1 at most"),
    "few tasks": (lambda: shared_features(MSMTFL(), X, y, task=TASK, r=3), r"r=3, but there are 2 tasks"),
    "r": (lambda: shared_features(MSMTFL(), X, y, task=TASK, r=0), "r must be at least 1"),
    "fdr": (lambda: shared_features(MSMTFL(), X, y, task=TASK, fdr=10), "fdr must be between 0 and 1"),
    "level": (lambda: split_intervals(MSMTFL(), X, y, task=TASK, level=95), "level must lie between 0 and 1"),
    "level, debiased": (lambda: debiased_intervals(MSMTFL(), X, y, level=0), "level must lie between 0 and 1"),
    "counts": (
        lambda: debiased_intervals(MSMTFL(loss="poisson"), X, COUNTS),
        "intervals are those of least squares.*split_intervals takes it",
    ),
    "one sample": (
        lambda: split_intervals(LassoMTL(0.1), X[:21], y[:21], task=["big"] * 20 + ["one"]),
        "task 'one' has 1 row.*too few",
    ),
    "classifier": (lambda: debiased_intervals(MSMTFLClassifier(), X, y > 0), "is a classifier.*split_intervals takes"),
    "three classes": (lambda: split_intervals(MSMTFLClassifier(), X, np.digitize(y, [-1, 2])), "there are 3 classes"),
    "a class that no half can have": (
        lambda: split_intervals(MSMTFLClassifier(0.1), X, np.isin(np.arange(160), [0, 2, 4, 6, 1]), task=TASK),
        "task 't1' has 1 row.* of one class, too few to have some in both halves",
    ),
    "not chosen yet": (
        lambda: shared_features(MultiTaskAuto(), X, y, task=TASK),
        "MultiTaskAuto has not chosen a model yet: fit it first",
    ),
    "no model": (lambda: shared_features("MSMTFL", X, y), "give a model such as MSMTFL"),
}


@pytest.mark.filterwarnings("ignore:1 task")
@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_to_do(case):
    call, message = ERRORS[case]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize("tool", [split_intervals, debiased_intervals, shared_features])
def test_an_offset_is_subtracted_from_numbers(tool):
    """n is more than twice d in one task, less in the other: both ways of `debiased_intervals`."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((130, 20)), np.repeat(["a", "b"], [30, 100])
    offset = 5 * rng.standard_normal(130)
    y = X[:, :6].sum(axis=1) + rng.standard_normal(130)
    model = LassoMTL(0.1)
    found, plain = tool(model, X, y + offset, task=task, offset=offset), tool(model, X, y, task=task)
    values = "statistics" if tool is shared_features else "lower"
    np.testing.assert_allclose(getattr(found, values), getattr(plain, values), rtol=1e-9, atol=1e-9)
    assert not np.allclose(
        getattr(tool(model, X, y + offset, task=task), values), getattr(plain, values), equal_nan=True
    )
    fitted = LassoMTL(0.1).fit(X, y + offset, task=task, offset=offset)
    with pytest.raises(ValueError, match=r"was fitted with an offset: pass offset="):
        tool(fitted, X, y + offset, task=task)


def test_an_offset_of_a_2d_y_keeps_the_names_of_tasks():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 5))
    Y = pd.DataFrame(X[:, [0, 1]] + rng.standard_normal((80, 2)), columns=["north", "south"])
    offset = rng.standard_normal((80, 2))
    found = debiased_intervals(LassoMTL(0.1), X, Y + offset, offset=offset)
    assert found.tasks.tolist() == ["north", "south"]
    np.testing.assert_allclose(found.lower, debiased_intervals(LassoMTL(0.1), X, Y).lower, atol=1e-9)


def test_shared_features_of_rates():
    """Counts per exposure: without the offset, exposures that a feature goes along with would pass for an effect of it."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((400, 10)), np.tile(["a", "b"], 200)
    exposure = np.exp(X[:, 9])
    counts = rng.poisson(exposure * np.exp(0.6 * X[:, :5].sum(axis=1) / np.sqrt(2)))
    model = MSMTFL(loss="poisson")
    with_offset, without = (
        shared_features(model, X, counts, task=task, fdr=0.3, offset=o).score for o in (np.log(exposure), None)
    )
    assert without[9] > 10 * max(abs(with_offset[9]), 1e-9)
    assert (with_offset[:5] > abs(with_offset[9])).all()


def test_words_about_tasks_without_intervals():
    """`debiased_intervals` has no halves."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((80, 4)), np.repeat(["a", "b"], 40)
    X[:40, 3] = X[:40, 0]
    y = X[:, 0] + rng.standard_normal(80)
    with pytest.warns(UserWarning, match=r"task\(s\) 'a': its features are linearly dependent, or one is constant"):
        found = debiased_intervals(LassoMTL(0.1), X, y, task=task)
    assert "half" not in str(found)
    with pytest.warns(UserWarning, match="on the estimating half the features selected are linearly dependent"):
        split_intervals(LassoMTL(1e-4), X, y, task=task)


@pytest.mark.filterwarnings("ignore:1 task.* have a single row", "ignore:no intervals for task")
def test_a_task_in_which_no_feature_varies_has_no_debiased_intervals():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 6))
    y = X[:, 0] + rng.standard_normal(90)
    found = debiased_intervals(LassoMTL(lam=0.1), X, y, task=np.array(["a"] * 60 + ["b"] * 29 + ["d"]))
    assert "no intervals for task(s) 'd': no feature varies in it." in found.without
    assert np.isfinite(found.estimate[0]).all()
