"""The pretrained lasso: one lasso for all tasks, then one per task on what it leaves."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import Lasso
from sklearn.utils.estimator_checks import parametrize_with_checks

from msmtfl import MSMTFL, LassoMTL, PretrainedMTL, PretrainedMTLCV, TaskKFold, compare_models, stability_selection
from msmtfl._paths.families.pretraining import OffsetFolds, Stack, dealt, pretrain
from msmtfl.model_files import load_model, save_model


@parametrize_with_checks([PretrainedMTL(), PretrainedMTLCV(lams=3, cv=2, alphas=[0.5], offset_folds=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def sample(seed=0, m=4, n=30, d=10):
    """X, y, labels: two features that all tasks use, one of each task alone; levels and means far from 0."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), n)
    X = rng.standard_normal((m * n, d)) + 3.0 * rng.standard_normal(d)
    W = np.zeros((m, d))
    W[:, 0], W[:, 1], W[np.arange(m), 3 + np.arange(m)] = 2.0, -1.0, 1.5
    return X, np.einsum("nj,nj->n", X, W[task]) + 3.0 * task + rng.standard_normal(m * n), task


def within(values, task):
    """Less the means of the tasks."""
    out = np.array(values, dtype=float)
    for label in np.unique(task):
        out[task == label] -= out[task == label].mean(axis=0)
    return out


def by_hand(X, y, task, lam, lam_common, alpha, folds=5):
    """Both steps by scikit-learn's lasso, on folds that are dealt out as the model does."""

    def pooled(on):
        return lasso(within(X[on], task[on]), within(y[on], task[on]), 0.5 * lam_common)

    b, offset = pooled(np.ones(len(y), dtype=bool)), np.zeros(len(y))
    for held in folds_of(X, y, task, folds):
        offset[held] = within(X, task)[held] @ pooled(~held)
    labels, coefs = np.unique(task), []
    for label in labels:
        on = task == label
        f = np.where(b != 0, 1.0, 1.0 / alpha if alpha else np.inf)
        A, t = within(X[on], task[on]) / f, within(y[on] - (1 - alpha) * offset[on], task[on])
        coefs.append((1 - alpha) * b + lasso(A, t, 0.5 * lam * len(labels)) / f)
    return np.array(coefs)


def folds_of(X, y, task, folds=5):
    """The folds that offsets come from, of samples that are sorted by task."""
    return dealt(Stack.of(PretrainedMTL()._read(X, y, task, None)), False, OffsetFolds(folds))


def lasso(X, y, alpha):
    return Lasso(alpha=alpha, fit_intercept=False, tol=1e-14, max_iter=10**6).fit(X, y).coef_


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_both_steps_are_the_lassos_that_they_say(alpha):
    X, y, task = sample()
    model = PretrainedMTL(0.05, 0.2, alpha).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, by_hand(X, y, task, 0.05, 0.2, alpha), atol=1e-9)
    np.testing.assert_allclose(model.coef_, (1 - alpha) * model.coef_common_ + model.coef_specific_, atol=1e-12)
    assert model.dual_gap_ < 1e-10
    assert model.converged_
    assert model.certificate_.unique
    means = np.array([y[task == i].mean() - X[task == i].mean(axis=0) @ model.coef_[i] for i in range(4)])
    np.testing.assert_allclose(model.intercept_, means, atol=1e-9)


def test_the_ends_of_alpha():
    X, y, task = sample()
    apart = PretrainedMTL(0.05, alpha=1.0).fit(X, y, task=task)
    np.testing.assert_array_equal(apart.coef_, LassoMTL(0.05).fit(X, y, task=task).coef_)
    whole = PretrainedMTL(0.02, 0.4, alpha=0.0).fit(X, y, task=task)
    assert not whole.coef_[:, whole.coef_common_ == 0].any()
    assert whole.coef_specific_.any()
    strong = PretrainedMTL(1e6, 0.4, alpha=0.0).fit(X, y, task=task)
    np.testing.assert_array_equal(strong.coef_, np.tile(strong.coef_common_, (4, 1)))


def test_offsets_do_not_know_their_own_targets():
    """What the first step predicts of a sample does not change with that sample's target, nor with those of its fold."""
    X, y, task = sample()
    model = PretrainedMTL()
    first, *_ = folds_of(X, y, task)
    group = np.random.default_rng(0).permutation(len(y)) % 5  # folds that do not change with the targets
    offsets = []
    for shift in (0.0, 50.0):
        other = y + shift * np.arange(len(y)) * (group == 2)
        problem = model._make_problem(X, other, task, None)
        (step,) = pretrain(problem, np.array([0.1]), OffsetFolds(5, 0, group), tol=1e-8, max_iter=0)
        offsets.append(np.concatenate(step.offsets))
    np.testing.assert_allclose(offsets[0][group == 2], offsets[1][group == 2], atol=1e-12)
    assert np.abs(offsets[0] - offsets[1])[group == 1].max() > 1.0
    assert first.sum() == pytest.approx(len(y) / 5, abs=4)


@pytest.mark.slow
@pytest.mark.parametrize("commons", [None, [0.1, 0.4]])
def test_a_point_is_scored_as_a_fit_on_the_training_rows(commons):
    X, y, task = sample()
    folds = list(TaskKFold(3, task=task).split(X))
    options = {"cv": folds, "scoring": "neg_mse", "offset_folds": 3}
    model = PretrainedMTLCV([0.3, 0.05, 0.01], alphas=[0.0, 0.5, 1.0], lam_commons=commons, **options)
    results = model.fit(X, y, task=task).cv_results_
    for place in np.flatnonzero(results["eligible"]):
        common = None if commons is None else results["lam_common"][place]
        one = PretrainedMTL(results["lam"][place], common, results["alpha"][place], offset_folds=3)
        for f, (train, test) in enumerate(folds):
            fitted = one.fit(X[train], y[train], task=task[train]).predict(X[test], task=task[test])
            score = -np.mean((fitted - y[test]) ** 2)
            assert results[f"split{f}_test_score"][place] == pytest.approx(score, abs=1e-8)
    best = PretrainedMTL(model.lam_, model.lam_common_, model.alpha_, offset_folds=3).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, best.coef_, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, best.intercept_, atol=1e-9)


def test_the_surface_with_its_certificates_and_without_its_data():
    X, y, task = sample()
    model = PretrainedMTLCV(lams=6, alphas=[0.0, 0.5, 1.0], cv=3).fit(X, y, task=task)
    model.complete_surface(X, y, task=task)
    surface = model.surface_
    assert surface.complete.all()
    assert surface.dual_gap.max() < 1e-10
    assert surface.unique.all()
    again = pickle.loads(pickle.dumps(surface))
    np.testing.assert_array_equal(again.dual_gap, surface.dual_gap)
    np.testing.assert_array_equal(again.coef(3, 1), surface.coef(3, 1))
    one = PretrainedMTL(surface.parameters["lam"][3, 1], surface.parameters["lam_common"][3, 1], 0.5)
    np.testing.assert_allclose(surface.coef(3, 1), one.fit(X, y, task=task).coef_, atol=1e-9)
    assert surface.objective[3, 1] == pytest.approx(one.objective_, rel=1e-10)


def test_the_same_answer_in_other_forms():
    X, y, task = sample()
    options = {"lam": 0.05, "lam_common": 0.2, "alpha": 0.4}
    given = {"task": task, "groups": np.arange(len(y))}  # folds that do not change with the data
    model = PretrainedMTL(**options).fit(X, y, **given)
    thin = PretrainedMTL(**options).fit(csr_array(X), y, **given)  # intercepts of the first step are columns there
    np.testing.assert_allclose(thin.coef_, model.coef_, atol=1e-9)
    known = np.random.default_rng(1).standard_normal(len(y))
    moved = PretrainedMTL(**options).fit(X, y + known, **given, offset=known)
    np.testing.assert_allclose(moved.coef_, model.coef_, atol=1e-9)
    units = 10.0 ** np.linspace(-2, 2, X.shape[1])
    scaled = PretrainedMTL(**options, standardize=True).fit(X * units, y, **given)
    plain = PretrainedMTL(**options, standardize=True).fit(X, y, **given)
    np.testing.assert_allclose(scaled.coef_ * units, plain.coef_, atol=1e-8)


def test_weights_count_samples():
    X, y, task = sample(n=12)
    weight = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(len(y)), weight.astype(int))
    model = PretrainedMTL(0.05, alpha=0.3).fit(X, y, task=task, sample_weight=weight)
    twice = np.random.default_rng(0).permutation(twice)
    again = PretrainedMTL(0.05, alpha=0.3).fit(X[twice], y[twice], task=task[twice])
    np.testing.assert_allclose(model.coef_common_, again.coef_common_, atol=1e-9)
    np.testing.assert_allclose(model.coef_, again.coef_, atol=1e-9)


def test_groups_stay_together_in_the_folds_of_offsets():
    """Copies of every sample: with groups their offsets come from fits without any of them."""
    X, y, task = sample(n=12)
    X, y, task, group = np.tile(X, (2, 1)), np.tile(y, 2), np.tile(task, 2), np.tile(np.arange(len(y)), 2)
    problem = PretrainedMTL()._make_problem(X, y, task, None)
    (first,) = pretrain(problem, np.array([0.1]), OffsetFolds(5, 0, group), tol=1e-8, max_iter=0)
    for one, part in zip(problem.data.tasks, first.offsets, strict=True):
        np.testing.assert_allclose(part[: len(part) // 2], part[len(part) // 2 :], atol=1e-12)
        assert len(one.y) == len(part)
    model = PretrainedMTLCV([0.1, 0.02], alphas=[0.5], cv=3).fit(X, y, task=task, groups=group)
    lone = PretrainedMTL(model.lam_, model.lam_common_, 0.5).fit(X, y, task=task, groups=group)
    np.testing.assert_allclose(model.coef_, lone.coef_, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["poisson", "huber"])
def test_other_losses(loss):
    X, y, task = sample(n=20, d=8)
    X = X - X.mean(axis=0)
    if loss == "poisson":
        y = np.random.default_rng(0).poisson(np.exp(0.5 * X[:, 0] + 0.3 * (task == 1) * X[:, 3])).astype(float)
    model = PretrainedMTL(0.03, 0.1, 0.5, loss=loss).fit(X, y, task=task)
    assert model.dual_gap_ < 1e-8
    assert model.converged_
    assert model.coef_common_.any()
    assert model.coef_specific_.any()
    apart = PretrainedMTL(0.03, 0.1, 1.0, loss=loss).fit(X, y, task=task)
    np.testing.assert_allclose(apart.coef_, MSMTFL(0.03, np.inf, loss=loss).fit(X, y, task=task).coef_, atol=1e-7)


def test_tasks_of_few_samples():
    X, y, task = sample(n=12)
    keep = (task > 0) | (np.arange(len(y)) < 2)  # two samples of the first task: some folds hold out both, or one
    model = PretrainedMTL(0.05, alpha=0.25).fit(X[keep], y[keep], task=task[keep])
    assert np.isfinite(model.coef_).all()
    assert model.coef_common_.any()


def test_folds_that_hold_out_whole_tasks_have_no_part_in_the_choice():
    X, y, task = sample(n=12)
    groups = np.where(task == 0, -1, np.arange(len(y)) % 4)  # all samples of the first task are one group
    model = PretrainedMTL(0.05).fit(X, y, task=task, groups=groups)
    assert model.coef_common_.any()
    alone = PretrainedMTL(0.05, lam_common=model.lam_common_).fit(X, y, task=task, groups=groups)
    np.testing.assert_allclose(alone.coef_, model.coef_, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="Give groups that are parts of tasks, or lam_common"):
        PretrainedMTL(0.05).fit(X, y, task=task, groups=task)
    assert PretrainedMTL(0.05, lam_common=0.1).fit(X, y, task=task, groups=task).coef_common_.any()


def test_what_is_refused():
    X, y, task = sample(n=8)
    for options, words in (
        ({"alpha": 1.5}, "alpha"),
        ({"offset_folds": 1}, "offset_folds must be at least 2"),
        ({"penalty_factors": np.ones((10, 4))}, "one entry per feature"),
        ({"lam_common": -1.0}, "lam_common"),
    ):
        with pytest.raises(ValueError, match=words):
            PretrainedMTL(**options).fit(X, y, task=task)
    for options, words in (({"selection": "bic"}, "degrees of freedom"), ({"alphas": [-0.1]}, "from 0 to 1")):
        with pytest.raises(ValueError, match=words):
            PretrainedMTLCV(**options).fit(X, y, task=task)


def test_in_comparisons_where_it_is_named():
    X, y, task = sample(n=16)
    compared = compare_models(X, y, task=task, models=["lasso", "pretrained"], cv=3, inner_cv=3)
    assert list(compared.models) == ["lasso", "pretrained"]
    with pytest.raises(ValueError, match="pretrained"):
        compare_models(X, y, task=task, models=["lasso", "pretraind"])


@pytest.mark.slow
def test_selected_in_half_samples():
    X, y, task = sample()
    found = stability_selection(PretrainedMTL(0.2, 0.8, 0.5), X, y, task=task, n_pairs=8)
    assert found.frequency[:, 0].min() == 1.0
    assert found.frequency[:, 9].max() < 0.7


@pytest.mark.slow
def test_it_predicts_better_than_what_it_is_made_of():
    """Features that all tasks use, with values of their own: neither one lasso nor separate ones."""
    from msmtfl import LassoMTLCV

    errors = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        task, W = np.repeat(np.arange(5), 60), np.zeros((5, 60))
        W[:, :8] = 1.0 + 0.5 * np.arange(5)[:, None]
        W[np.arange(5), 10 + np.arange(5)] = 1.0
        X, X_new = rng.standard_normal((2, 300, 60))
        y = np.einsum("nj,nj->n", X, W[task]) + 4.0 * rng.standard_normal(300)
        truth = np.einsum("nj,nj->n", X_new, W[task])
        models = [PretrainedMTLCV(), PretrainedMTLCV(alphas=[0.0], lams=[1e3]), LassoMTLCV()]
        errors.append([np.mean((m.fit(X, y, task=task).predict(X_new, task=task) - truth) ** 2) for m in models])
    mine, pooled, apart = np.mean(errors, axis=0)
    assert mine < 0.95 * pooled
    assert mine < 0.9 * apart


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_a_ridge_in_both_steps(alpha):
    """Both steps by hand: a ridge is a sample more for every feature, with a target of 0."""
    X, y, task = sample()
    lam, lam_common, ratio, m, d = 0.05, 0.2, 0.6, 4, X.shape[1]

    def net(A, t, strength, factors):
        """Minimise |Aw - t|^2 / n + strength (ratio |f w|_1 + (1 - ratio) / 2 |f w|^2)."""
        n, B = len(t), A / factors
        rows = np.vstack([B, np.sqrt(0.5 * n * (1 - ratio) * strength) * np.eye(d)])
        share = 0.5 * ratio * strength * n / len(rows)
        return lasso(rows, np.append(t, np.zeros(d)), share) / factors

    def pooled(on):
        return net(within(X[on], task[on]), within(y[on], task[on]), lam_common, np.ones(d))

    b, offset = pooled(np.ones(len(y), dtype=bool)), np.zeros(len(y))
    for held in folds_of(X, y, task):
        offset[held] = within(X, task)[held] @ pooled(~held)
    factors = np.where(b != 0, 1.0, 1.0 / alpha if alpha else 1e9)
    coefs = []
    for label in range(m):
        on = task == label
        left = within(y[on] - (1 - alpha) * offset[on], task[on])
        coefs.append((1 - alpha) * b + net(within(X[on], task[on]), left, lam * m, factors))
    model = PretrainedMTL(lam, lam_common, alpha, l1_ratio=ratio).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_common_, b, atol=1e-9)
    np.testing.assert_allclose(model.coef_, coefs, atol=1e-8)
    assert model.converged_
    assert model.dual_gap_ < 1e-10
    assert model.certificate_.unique


def test_the_ends_of_a_ridge():
    X, y, task = sample()
    none = PretrainedMTL(0.05, 0.2, 0.3, l1_ratio=1).fit(X, y, task=task)
    np.testing.assert_array_equal(none.coef_, PretrainedMTL(0.05, 0.2, 0.3).fit(X, y, task=task).coef_)
    only = PretrainedMTL(0.05, 0.2, 0.3, l1_ratio=0).fit(X, y, task=task)
    assert only.coef_common_.all()
    assert only.dual_gap_ < 1e-8
    factors = np.linspace(0.0, 2.0, X.shape[1])
    options = {"l1_ratio": 0.4, "standardize": True, "penalty_factors": factors}
    apart = PretrainedMTL(0.05, 0.2, 1.0, **options).fit(X, y, task=task)
    plain = LassoMTL(0.05, **options).fit(X, y, task=task)
    np.testing.assert_allclose(apart.coef_, plain.coef_, rtol=1e-10, atol=1e-12)
    assert apart.objective_ == pytest.approx(plain.objective_, rel=1e-10)


def test_searches_of_a_ridge(tmp_path):
    X, y, task = sample(n=16)
    options = {"alphas": [0.0, 0.5], "cv": 2, "offset_folds": 2}
    model = PretrainedMTLCV([0.2, 0.05], l1_ratio=[1.0, 0.5], **options).fit(X, y, task=task)
    alone = [PretrainedMTLCV([0.2, 0.05], l1_ratio=one, **options).fit(X, y, task=task) for one in (1.0, 0.5)]
    np.testing.assert_allclose(model.l1_ratio_scores_, [one.best_score_ for one in alone], rtol=1e-10)
    again = PretrainedMTL(model.lam_, model.lam_common_, model.alpha_, offset_folds=2, l1_ratio=model.l1_ratio_).fit(
        X, y, task=task
    )
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-9)
    surface = alone[1].complete_surface(X, y, task=task).surface_
    assert surface.dual_gap.max() < 1e-10
    save_model(alone[1], tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").coef_, alone[1].coef_)


@pytest.mark.parametrize("loss", ["squared", "poisson", "huber"])
@pytest.mark.parametrize("intercepts", ["shrunk", "common"])
def test_intercepts_of_the_second_step_share(intercepts, loss):
    X, y, task = sample(n=12)
    if loss == "poisson":
        X = X - X.mean(axis=0)
        y = np.random.default_rng(0).poisson(np.exp(0.4 * X[:, 0] + 0.3 * task)).astype(float)
    options = {"intercepts": intercepts, "loss": loss}
    apart = PretrainedMTL(0.05, 0.2, 1.0, l1_ratio=0.7, **options).fit(X, y, task=task)
    plain = MSMTFL(0.05, np.inf, l1_ratio=0.7, **options).fit(X, y, task=task)
    tol = 1e-10 if loss == "squared" else 1e-7
    np.testing.assert_allclose(apart.coef_, plain.coef_, rtol=tol, atol=tol)
    np.testing.assert_allclose(apart.intercept_, plain.intercept_, rtol=tol, atol=tol)
    assert apart.common_level_ == pytest.approx(plain.common_level_, rel=tol)
    assert apart.level_ridge_ == plain.level_ridge_
    half = PretrainedMTL(0.05, 0.2, 0.5, **options).fit(X, y, task=task)
    assert half.converged_
    assert half.dual_gap_ < 1e-8
    moved = PretrainedMTL(0.05, 0.2, 0.5, **options).fit(X, y, task=task, groups=None, offset=np.zeros(len(y)))
    np.testing.assert_allclose(moved.coef_, half.coef_, atol=1e-8)
    if intercepts == "common":
        assert np.ptp(half.intercept_) == 0.0


@pytest.mark.parametrize("intercepts", ["shrunk", "common"])
def test_levels_that_share_are_those_of_both_steps(intercepts):
    """The second step by hand: with its intercept and the sample at the common level, or the one intercept of all tasks."""
    X, y, task = sample()
    lam, alpha, m, d = 0.05, 0.4, 4, X.shape[1]
    model = PretrainedMTL(lam, 0.2, alpha, intercepts=intercepts).fit(X, y, task=task)
    own = PretrainedMTL(lam, 0.2, alpha).fit(X, y, task=task)
    b = model.coef_common_
    np.testing.assert_array_equal(b, own.coef_common_)
    problem = own._make_problem(X, y, task, None)
    (first,) = pretrain(problem, np.array([0.2]), OffsetFolds(5, 0), tol=1e-8, max_iter=0)
    factors = np.where(b != 0, 1.0, 1.0 / alpha)
    for label in range(m):
        on = task == label
        n = on.sum()
        offset = first.offsets[label] - first.offsets[label].mean() + X[on].mean(axis=0) @ b
        left = y[on] - (1 - alpha) * offset
        A, t, weight = X[on], left, np.ones(n)
        if intercepts == "shrunk":
            A = np.vstack([A, model.level_at_])
            t = np.append(t, model.common_level_ - (1 - alpha) * model.level_at_ @ b)
            weight = np.append(weight, model.level_ridge_)
            x_mean, t_mean = np.average(A, axis=0, weights=weight), np.average(t, weights=weight)
        else:
            x_mean, t_mean = np.zeros(d), model.intercept_[label]
        root = np.sqrt(weight)
        B, u = root[:, None] * (A - x_mean) / factors, root * (t - t_mean)
        w = lasso(B, u, 0.5 * lam * m * n / len(u)) / factors
        np.testing.assert_allclose(model.coef_[label], (1 - alpha) * b + w, atol=1e-8)
        if intercepts == "shrunk":
            assert model.intercept_[label] == pytest.approx(t_mean - x_mean @ w, abs=1e-8)
    if intercepts == "common":  # which is where the mean of the tasks' mean residuals is 0
        residuals = y - np.einsum("nj,nj->n", X, model.coef_[task]) - model.intercept_[task]
        assert residuals.mean() == pytest.approx(0.0, abs=1e-9)
    assert model.converged_
    assert model.dual_gap_ < 1e-8


def test_searches_of_shared_intercepts(tmp_path):
    X, y, task = sample(n=16)
    for intercepts in ("shrunk", "common"):
        folds = list(TaskKFold(2, task=task).split(X))
        options = {"cv": folds, "offset_folds": 2, "scoring": "neg_mse", "intercepts": intercepts}
        model = PretrainedMTLCV([0.2, 0.05], alphas=[0.5], **options).fit(X, y, task=task)
        alike = {"offset_folds": 2, "intercepts": intercepts}
        again = PretrainedMTL(model.lam_, model.lam_common_, 0.5, **alike).fit(X, y, task=task)
        np.testing.assert_allclose(model.coef_, again.coef_, atol=1e-8)
        np.testing.assert_allclose(model.intercept_, again.intercept_, atol=1e-8)
        train, test = folds[0]
        part = PretrainedMTL(model.lam_, None, 0.5, **alike).fit(X[train], y[train], task=task[train])
        error = np.mean((part.predict(X[test], task=task[test]) - y[test]) ** 2)
        assert model.cv_results_["split0_test_score"][model.best_index_] == pytest.approx(-error, rel=1e-7)
        assert model.surface_.dual_gap[model.best_point_] < 1e-8
        save_model(model, tmp_path / intercepts)
        loaded = load_model(tmp_path / intercepts)
        np.testing.assert_array_equal(loaded.predict(X, task=task), model.predict(X, task=task))
        before = model.coef_.copy()
        model.add_task(X[task == 1], y[task == 1], "new")
        np.testing.assert_array_equal(model.coef_[:4], before)


def test_first_steps_of_folds_that_need_their_rows(monkeypatch):
    """Folds by subtraction have the same first step where solvers look at rows: several minimisers, all solved carefully."""
    from msmtfl._paths import stage_paths
    from msmtfl._paths.families import pretraining

    X, y, task = sample(m=3, n=8, d=40)
    X[:, 20:] = X[:, :20]  # features that are the same
    plain = PretrainedMTLCV(cv=2, lams=6).fit(X, y, task=task)
    monkeypatch.setattr(pretraining, "may_form", lambda designs, budget: False)  # every fold from its rows
    rows = PretrainedMTLCV(cv=2, lams=6).fit(X, y, task=task)
    np.testing.assert_allclose(plain.predict(X, task=task), rows.predict(X, task=task), atol=1e-7)
    monkeypatch.undo()
    monkeypatch.setattr(stage_paths, "_doubtful", lambda surface, problem: True)
    careful = PretrainedMTLCV(cv=2, lams=6).fit(X, y, task=task)
    assert (careful.lam_, careful.alpha_, careful.lam_common_) == (rows.lam_, rows.alpha_, rows.lam_common_)
    np.testing.assert_allclose(careful.predict(X, task=task), rows.predict(X, task=task), atol=1e-7)
