"""The scale in which Huber's epsilon is given: what it estimates, that signal and lam have no part in it, ugly data."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import HuberRegressor

from msmtfl import MSMTFL, MSMTFLCV
from msmtfl.model_files import load_model, save_model

ALONE = {"lam": 1e-5, "theta": np.inf}  # hardly a penalty


def make_data(seed, n=60, d=3, used=3, signal=1.0, outliers=0.0, size=20.0, m=1):
    """X, y, labels, coefficients: noise of standard deviation 1, a share of outliers."""
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    W = np.zeros((m, d))
    W[:, :used] = signal * rng.choice([-1.0, 1.0], (m, used)) * rng.uniform(0.5, 1.5, (m, used))
    y = np.einsum("rj,rj->r", X, W[task]) + rng.standard_normal(m * n)
    y[rng.random(m * n) < outliers] += size
    return X, y, task, W


def strong(seed):
    """60 samples, of which 6 are outliers, coefficients 10, -8, 6."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 3))
    y = X @ [10.0, -8.0, 6.0] + rng.standard_normal(60)
    y[:6] += rng.choice([-1.0, 1.0], 6) * rng.uniform(20.0, 60.0, 6)
    return X, y


@pytest.mark.slow
def test_a_strong_signal_does_not_make_it_the_squared_loss():
    w = np.array([10.0, -8.0, 6.0])
    errors = []
    for seed in range(8):
        X, y = strong(seed)
        models = (
            MSMTFL(**ALONE).fit(X, y),
            MSMTFL(loss="huber", **ALONE).fit(X, y),
            HuberRegressor(alpha=0.0, max_iter=1000).fit(X, y),
        )
        errors.append([np.linalg.norm(model.coef_ - w) for model in models])
    squared, huber, other = np.mean(errors, axis=0)
    assert huber < 0.25 * squared
    assert huber < 1.1 * other


def test_the_scale_does_not_depend_on_the_signal():
    found = []
    for signal in (1.0, 10.0, 100.0):
        X, y, _, _ = make_data(3, n=80, d=6, signal=signal, outliers=0.1)
        found.append(MSMTFL(loss="huber").fit(X, y).scale_)
    assert found[0] == pytest.approx(found[1], rel=0.02)
    assert found[1] == pytest.approx(found[2], rel=1e-6)
    assert 0.9 < found[1] < 1.5


def test_the_scale_is_the_standard_deviation_of_the_noise_of_each_task():
    X, y, task, W = make_data(0, n=1500, d=4, m=3, signal=5.0)
    noise = np.array([0.5, 1.0, 3.0])
    f = np.einsum("rj,rj->r", X, W[task])
    y = f + noise[task] * (y - f)
    model = MSMTFL(loss="huber").fit(X, y, task=task)
    np.testing.assert_allclose(model.scale_, noise, rtol=0.06)
    np.testing.assert_allclose(MSMTFL(loss="huber").fit(X, 7.0 * y, task=task).scale_, 7.0 * model.scale_, rtol=1e-8)
    assert not hasattr(model.set_params(loss="squared").fit(X, y, task=task), "scale_")


@pytest.mark.slow
@pytest.mark.parametrize(("outliers", "most"), [(0.0, 1.3), (0.1, 1.8), (0.2, 3.5)])
def test_more_features_than_samples(outliers, most):
    found = []
    for seed in range(3):
        X, y, _, _ = make_data(seed, n=60, d=150, used=4, signal=20.0, outliers=outliers)
        found.append(MSMTFL(loss="huber").fit(X, y).scale_)
    assert 0.75 < np.median(found) < most  # the targets spread by 40
    quiet = [MSMTFL(loss="huber").fit(*make_data(seed, n=40, d=200, signal=0.0)[:2]).scale_ for seed in range(3)]
    assert 0.7 < np.median(quiet) < 1.3


@pytest.mark.slow
def test_small_tasks_take_the_features_that_others_found():
    X, y, task, _ = make_data(1, n=20, d=60, used=4, signal=10.0, m=8)
    apart = [MSMTFL(loss="huber").fit(X[task == i], y[task == i]).scale_ for i in range(8)]
    together = MSMTFL(loss="huber").fit(X, y, task=task).scale_
    assert max(apart) > 3.0
    assert together.max() < 2.0


@pytest.mark.slow
def test_normal_noise_costs_little_and_outliers_do_not_cost_much():
    for outliers, most in ((0.0, 1.1), (0.1, 0.5), (0.2, 0.5)):
        errors = []
        for seed in range(6):
            X, y, _, W = make_data(seed, n=50, d=5, used=5, signal=3.0, outliers=outliers)
            models = (MSMTFL(**ALONE).fit(X, y), MSMTFL(loss="huber", **ALONE).fit(X, y))
            errors.append([np.sum((model.coef_ - W[0]) ** 2) for model in models])
        squared, huber = np.mean(errors, axis=0)
        assert huber < most * squared


def test_it_is_hubers_estimate_at_epsilon_times_the_scale():
    X, y = strong(0)
    model = MSMTFL(loss="huber", epsilon=1.7, **ALONE).fit(X, y)
    r = y - model.predict(X)
    pull = np.clip(r, -1.7 * model.scale_, 1.7 * model.scale_)
    assert np.abs(np.column_stack([X, np.ones(60)]).T @ pull).max() < 1e-3
    assert model.dual_gap_ < 1e-8
    assert (
        model.scale_ == MSMTFL(loss="huber", lam=0.3, theta=1.0).fit(X, y).scale_
    )  # lam, theta, epsilon: no part in it


@pytest.mark.slow
@pytest.mark.parametrize(("form", "scoring"), [("dense", "neg_nmse"), ("sparse", "neg_deviance")])
def test_held_out_errors_are_those_of_refits(form, scoring):
    X, y, task, _ = make_data(5, n=30, d=8, signal=4.0, outliers=0.1, m=3)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    if form == "sparse":
        X = csr_array(np.where(np.random.default_rng(1).random(X.shape) < 0.6, X, 0.0))
    options = {"loss": "huber", "standardize": True, "penalty_factors": np.r_[0.0, np.ones(6), np.inf]}
    folds = [(np.arange(90) % 30 % 3 != f, np.arange(90) % 30 % 3 == f) for f in range(3)]
    cv = [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in folds]
    search = MSMTFLCV(lams=3, theta_ratios=[1.0, np.inf], cv=cv, scoring=scoring, **options)
    results = search.fit(X, y, task=task, sample_weight=weight).cv_results_
    of_all = 1.35 * search.scale_  # so that folds are scored alike
    errors = results["test_mse" if scoring == "neg_nmse" else "test_deviance"]
    for point in np.random.default_rng(2).choice(len(errors), 3, replace=False):
        for f, (train, test) in enumerate(folds):
            single = MSMTFL(results["lam"][point], results["theta"][point], **options)
            single.fit(X[train], y[train], task=task[train], sample_weight=weight[train])
            r = np.abs(y[test] - single.predict(X[test], task=task[test]))
            e = of_all[task[test]]
            loss = r**2 if scoring == "neg_nmse" else np.where(r <= e, r**2, 2 * e * r - e**2)
            for i in range(3):
                mine = task[test] == i
                expected = np.average(loss[mine], weights=weight[test][mine])
                assert errors[point][f, i] == pytest.approx(expected, rel=1e-8)


# ------------------------------------------------------------------ ugly data


def solved(X, y, **options):
    fitting = {name: options.pop(name) for name in ("task", "sample_weight") if name in options}
    model = MSMTFL(loss="huber", **options).fit(X, y, **fitting)
    assert (np.asarray(model.scale_) > 0).all()
    assert np.isfinite(model.coef_).all()
    assert model.dual_gap_ <= 1e-8
    return model


def test_constant_targets():
    X = make_data(0)[0]
    model = solved(X, np.full(60, 3.0))
    assert (model.scale_, model.coef_.any(), model.intercept_) == (1.0, False, 3.0)
    solved(X, np.full(60, 3.0), fit_intercept=False)


def test_an_exact_fit_with_outliers_is_found_exactly():
    X = make_data(0)[0]
    y = X @ [10.0, -8.0, 6.0]
    y[:10] += 40.0
    np.testing.assert_allclose(solved(X, y, **ALONE).coef_, [10.0, -8.0, 6.0], atol=0.02)


def test_targets_that_are_mostly_zero_are_not_all_predicted_as_zero():
    X, y, _, _ = make_data(1, n=100, d=4, signal=3.0)
    y[np.random.default_rng(0).random(100) < 0.6] = 0.0
    model = solved(X, y, lam=0.01)
    assert 0.2 * y.std() < model.scale_ < 1.5 * y.std()
    assert model.coef_.any()


def test_tiny_tasks_and_more_free_features_than_samples():
    X, y, _, _ = make_data(2, signal=10.0)
    task = np.r_[0, 1, 1, 2, 2, 2, np.repeat(3, 54)]
    with pytest.warns(UserWarning, match="have a single row"):
        model = solved(X, y, task=task)
    assert model.scale_.shape == (4,)
    assert model.scale_[3] == pytest.approx(1.0, abs=0.4)
    with pytest.warns(UserWarning, match="interpolate"):
        solved(X[:3], y[:3], penalty_factors=[0.0, 0.0, 0.0], lam=1.0)


def test_only_the_ratios_of_weights_matter_unless_they_count_samples():
    X, y, _, _ = make_data(3, d=8, signal=5.0, outliers=0.1)
    weight = np.random.default_rng(0).uniform(0.2, 2.0, len(y))
    found = [solved(X, y, sample_weight=unit * weight).scale_ for unit in (1.0, 1e-4, 1e6)]
    np.testing.assert_allclose(found, found[0], rtol=1e-6)
    counts = np.random.default_rng(1).integers(1, 4, len(y))
    again = solved(np.repeat(X, counts, axis=0), np.repeat(y, counts)).scale_
    assert solved(X, y, sample_weight=counts).scale_ == pytest.approx(again, rel=1e-8)


def test_criteria_take_the_scale_as_known():
    X, y, task, _ = make_data(4, n=40, d=10, used=2, signal=4.0, outliers=0.1, m=2)
    model = MSMTFLCV(lams=8, loss="huber", selection="bic").fit(X, y, task=task)
    k, l = model.best_point_
    e = 1.35 * model.scale_[task]
    values = []
    for k in range(8):
        W, b = model.surface_.coef(k, l), model.surface_.intercept(k, l)
        r = np.abs(y - np.einsum("rj,rj->r", X, W[task]) - b[task])
        deviance = np.where(r <= e, r**2, 2 * e * r - e**2) / model.scale_[task] ** 2
        values.append(deviance.sum() + np.log(80) * np.count_nonzero(W))
    np.testing.assert_allclose(model.cv_results_["bic"].reshape(8, -1)[:, l], values, rtol=1e-9)
    assert model.coef_[:, :2].all()
    assert np.count_nonzero(model.coef_) <= 8


def test_a_model_file_keeps_the_scales(tmp_path):
    X, y, task, _ = make_data(4, n=40, d=3, m=2)
    for labels in (task, None):
        model = MSMTFL(loss="huber").fit(X, y, task=labels)
        save_model(model, tmp_path / "robust.msmtfl")
        np.testing.assert_array_equal(load_model(tmp_path / "robust.msmtfl").scale_, model.scale_)


@pytest.mark.slow
def test_a_fold_whose_scale_is_large_does_not_decide_for_the_others():
    rng = np.random.default_rng(12)
    X, task = rng.standard_normal((90, 5)), np.repeat(range(3), 30)
    y = X @ [5.0, -4.0, 3.0, 0.0, 0.0] + rng.standard_normal(90)
    y[rng.random(90) < 0.1] += 50
    model = MSMTFLCV(loss="huber", scoring="neg_deviance").fit(X, y, task=task)
    assert np.abs(model.coef_ - [5.0, -4.0, 3.0, 0.0, 0.0]).max() < 1.5


@pytest.mark.filterwarnings("ignore:.*un-penalised")
def test_large_weights_do_not_let_the_pilot_interpolate():
    """Whole weights count samples, but of these only so many are different."""
    rng = np.random.default_rng(0)
    X, y, task = rng.standard_normal((24, 40)), rng.standard_normal(24), np.repeat([0, 1], 12)
    plain, heavy = (
        MSMTFL(loss="huber").fit(X, y, task=task, sample_weight=np.full(24, w)).scale_ for w in (1.0, 1000.0)
    )
    assert (heavy > 0.05 * plain).all()
