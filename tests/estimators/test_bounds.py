"""Bounds of coefficients: what they are compared with, who honours them and who refuses them."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear, minimize
from scipy.special import expit

import msmtfl
from msmtfl import (
    MSMTFL,
    MSMTFLCV,
    LassoMTL,
    LassoMTLCV,
    Moments,
    MSMTFLClassifier,
    bootstrap_intervals,
    regularization_surface,
)
from msmtfl._objective.proofs.lasso_certificates import certify_lassos
from msmtfl.model_files import load_model, save_model

D, M, N = 8, 2, 40


def made(seed, d=D, n=N):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((M * n, d)) @ (np.eye(d) + 0.5 * rng.standard_normal((d, d)) / np.sqrt(d))
    y = X @ (rng.standard_normal(d) * (rng.random(d) < 0.6)) + rng.standard_normal(M * n)
    return X, y, np.repeat(["a", "b"], n)


def box(seed, d=D):
    """Bounds of all kinds: none, one-sided, two-sided, 0 itself."""
    rng = np.random.default_rng(seed + 1000)
    low = np.where(rng.random((d, M)) < 0.3, -np.inf, -0.5 * rng.random((d, M)) * (rng.random((d, M)) < 0.7))
    return low, np.where(rng.random((d, M)) < 0.3, np.inf, 0.5 * rng.random((d, M)) * (rng.random((d, M)) < 0.7))


def within(W, low, high):
    return bool(((low <= W.T) & (high >= W.T)).all())


def test_least_squares_with_bounds_are_those_of_scipy():
    X, y, _ = made(0)
    peer = lsq_linear(X, y, (-0.3, 0.4), tol=1e-14)
    model = LassoMTL(1.0, penalty_factors=np.zeros(D), bounds=(-0.3, 0.4), fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.x, rtol=0, atol=1e-9)
    assert set(model.coef_) & {-0.3, 0.4}  # exactly
    assert model.dual_gap_ <= 1e-12


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sampled(3)
def test_lassos_are_those_of_lbfgsb(seed, standardize, l1_ratio):
    X, y, task = made(seed)
    (low, high), lam = box(seed), 0.05
    model = LassoMTL(lam, bounds=(low, high), standardize=standardize, l1_ratio=l1_ratio).fit(X, y, task=task)
    assert within(model.coef_, low, high)
    assert model.dual_gap_ <= 1e-10
    for i, label in enumerate("ab"):
        Z, t = X[task == label] - X[task == label].mean(axis=0), y[task == label] - y[task == label].mean()
        f = Z.std(axis=0) if standardize else np.ones(D)

        def value(p, Z=Z, t=t, f=f):
            w = p[:D] - p[D:]
            r = Z @ w - t
            g, c = 2 * Z.T @ r / (M * N) + lam * (1 - l1_ratio) * f**2 * w, lam * l1_ratio * f
            ridge = lam * (1 - l1_ratio) / 2 * (f * w) @ (f * w)
            return r @ r / (M * N) + c @ (p[:D] + p[D:]) + ridge, np.concatenate([g + c, -g + c])

        sides = [*((0, one) for one in high[:, i]), *((0, -one) for one in low[:, i])]
        options = {"ftol": 1e-16, "gtol": 1e-12, "maxiter": 10_000}
        peer = minimize(value, np.zeros(2 * D), jac=True, bounds=sides, method="L-BFGS-B", options=options)
        w = model.coef_[i]
        assert value(np.concatenate([np.maximum(w, 0), np.maximum(-w, 0)]))[0] <= peer.fun + 1e-9


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_other_losses_are_those_of_lbfgsb(loss):
    X, y, _ = made(3)
    X, y, d, lam = X[:N], y[:N], D, 0.02
    low, high = np.full(d, -0.2), np.where(np.arange(d) % 2, np.inf, 0.1)
    y = (y > 0).astype(float) if loss == "logistic" else np.rint(np.exp(np.clip(y / 2, -2, 2)))
    how = MSMTFLClassifier(lam, np.inf) if loss == "logistic" else MSMTFL(lam, np.inf, loss=loss)
    model = how.set_params(bounds=(low, high)).fit(X, y)

    def value(p):
        f = X @ (p[:d] - p[d:-1]) + p[-1]
        h, s = (np.logaddexp(0, f) - y * f, expit(f) - y) if loss == "logistic" else (np.exp(f) - y * f, np.exp(f) - y)
        g = 2 / N * X.T @ s
        return 2 / N * h.sum() + lam * p[:-1].sum(), np.concatenate([g + lam, -g + lam, [2 / N * s.sum()]])

    sides = [*((0, one) for one in high), *((0, -one) for one in low), (None, None)]
    options = {"ftol": 1e-16, "gtol": 1e-12, "maxiter": 10_000}
    peer = minimize(value, np.zeros(2 * d + 1), jac=True, bounds=sides, method="L-BFGS-B", options=options)
    w = model.coef_.ravel()
    assert ((w >= low) & (w <= high)).all()
    assert model.dual_gap_ <= 1e-10
    here = np.concatenate([np.maximum(w, 0), np.maximum(-w, 0), np.ravel(model.intercept_)])
    assert value(here)[0] <= peer.fun + 1e-9


@pytest.mark.parametrize("intercepts", ["task", "shrunk", "common"])
@pytest.mark.parametrize("loss", ["squared", "huber", "poisson"])
def test_losses_and_intercepts_are_certified(loss, intercepts):
    X, y, task = made(4)
    y = np.rint(np.exp(np.clip(y / 2, -2, 2))) if loss == "poisson" else y
    low, high = box(4)
    options = {"loss": loss, "intercepts": intercepts}
    model = MSMTFL(0.03, np.inf, bounds=(low, high), **options).fit(X, y, task=task)
    free = MSMTFL(0.03, np.inf, **options).fit(X, y, task=task)
    assert within(model.coef_, low, high)
    assert not within(free.coef_, low, high)
    assert model.dual_gap_ <= 1e-10


@pytest.mark.parametrize(
    "model",
    [
        MSMTFL(0.05, 0.3),
        LassoMTL(0.05),
        MSMTFL(0.05, 0.3, loss="huber"),
        MSMTFL(0.05, 0.3, penalty="mcp", relax=True),
        LassoMTLCV(lams=8, cv=3),
    ],
    ids=str,
)
def test_positive_is_a_case_of_bounds_to_the_bit(model):
    X, y, task = made(5)
    kwargs = {"task": task}
    one = model.set_params(positive=True).fit(X, y, **kwargs).coef_
    for low in (0, np.zeros(D), np.zeros((D, M))):
        other = model.set_params(positive=False, bounds=(low, None)).fit(X, y, **kwargs)
        assert np.array_equal(one, other.coef_)
    assert np.array_equal(one, model.set_params(positive=True, bounds=(-1, np.inf)).fit(X, y, **kwargs).coef_)


def test_bounds_that_are_not_reached_change_nothing():
    X, y, task = made(6)
    free = MSMTFL(0.05, 0.3).fit(X, y, task=task)
    wide = MSMTFL(0.05, 0.3, bounds=(-1e6, 1e6)).fit(X, y, task=task)
    np.testing.assert_allclose(wide.coef_, free.coef_, rtol=0, atol=1e-12)
    assert wide.dual_gap_ <= 1e-12
    assert wide.certificate_.unique
    assert np.array_equal(MSMTFL(0.05, 0.3, bounds=(None, np.inf)).fit(X, y, task=task).coef_, free.coef_)


def test_a_certificate_notices_what_is_not_optimal():
    """Also where a coefficient stays at a bound that it should leave."""
    from msmtfl._data.tasks import read_training
    from msmtfl._solvers.problems.make_problem import make_problem

    X, y, task = made(7)
    data = read_training(X, y, task=task)
    low, high = box(7)
    problem = make_problem(data, fit_intercept=True, standardize=False, positive=False, bounds=(low, high))
    model = LassoMTL(0.02, bounds=(low, high)).fit(X, y, task=task)
    A = 0.02 * problem.stage_weights[0]
    w = model.coef_[0]
    assert certify_lassos(problem, 0, w[None], A[None])[0].relative_gap <= 1e-10
    two_sided = np.flatnonzero(np.isfinite(low[:, 0]) & np.isfinite(high[:, 0]) & (low[:, 0] < high[:, 0]))
    for j in two_sided:
        for value in {low[j, 0], high[j, 0]} - {w[j]}:
            other = w.copy()
            other[j] = value
            proof = certify_lassos(problem, 0, other[None], A[None])[0]
            design = problem.designs[0]
            excess = 0.5 * (design.loss(other) - design.loss(w)) + A @ (np.abs(other) - np.abs(w))
            assert proof.gap >= excess * (1 - 1e-9) > 0
            assert proof.kkt > 1e-3
    beyond = w.copy()
    beyond[two_sided[0]] = high[two_sided[0], 0] + 1e-9
    assert np.isinf(certify_lassos(problem, 0, beyond[None], A[None])[0].gap)


def test_more_features_than_samples_and_dependent_columns():
    X, y, task = made(8, d=60, n=20)
    X[:, 30:] = X[:, :30]  # every column twice
    with pytest.warns(UserWarning, match="which of them is returned depends on the start"):
        model = MSMTFL(0.02, 0.2, bounds=(-0.2, 0.3)).fit(X, y, task=task)
    assert model.dual_gap_ <= 1e-10
    assert model.coef_.max() <= 0.3
    assert not model.certificate_.unique


def test_surfaces_and_searches_are_within_bounds():
    X, y, task = made(9)
    low, high = box(9)
    surface = regularization_surface(X, y, task=task, lams=6, bounds=(low, high))
    assert surface.dual_gap.max() <= 1e-10
    again = MSMTFL(surface.lams[4], surface.thetas[4, 2], bounds=(low, high)).fit(X, y, task=task)
    np.testing.assert_allclose(surface.coef(4, 2), again.coef_, rtol=0, atol=1e-9)
    own = MSMTFL(bounds=(low, high)).surface(X, y, task=task, lams=6)
    np.testing.assert_array_equal(own.coef(4, 2), surface.coef(4, 2))
    assert not surface.coef(0, 0).any()
    assert surface.coef(1, 0).any()  # so that the largest lam is that of bounded coefficients
    search = MSMTFLCV(lams=6, cv=3, bounds=(low, high), relax=True).fit(X, y, task=task)
    assert within(search.coef_, low, high)
    assert within(search.stages_[-1].coef, low, high)


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_a_coefficient_at_its_bound_is_no_degree_of_freedom(loss):
    X, y, task = made(18)
    y = np.rint(np.exp(np.clip(y / 2, -2, 2))) if loss == "poisson" else y
    surface = regularization_surface(X, y, task=task, lams=[0.02], thetas=[np.inf], bounds=(-0.1, 0.2), loss=loss)
    W = surface.coef(0, 0)
    inside = (W != 0) & (W > -0.1) & (W < 0.2)
    assert inside.sum() < (W != 0).sum()
    np.testing.assert_allclose(surface.degrees(np.array([0]))[0], inside.sum(axis=1), rtol=0, atol=1e-6)


def test_statistics_sparse_columns_and_batches_give_the_same():
    from scipy.sparse import csr_array

    X, y, task = made(10)
    low, high = box(10)
    model = MSMTFL(0.05, 0.3, bounds=(low, high))
    one = model.fit(X, y, task=task).coef_.copy()
    moments = Moments.from_batches([(X, y, task)])
    np.testing.assert_allclose(model.fit_moments(moments).coef_, one, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.fit(csr_array(X), y, task=task).coef_, one, rtol=0, atol=1e-9)
    batches = MSMTFL(0.05, 0.3, bounds=(low, high))
    for part in (np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1):
        batches.partial_fit(X[part], y[part], task=task[part])
    np.testing.assert_allclose(batches.coef_, one, rtol=0, atol=1e-9)


def test_a_new_task_has_the_bounds_of_features():
    X, y, task = made(11)
    model = LassoMTL(0.02, bounds=(-0.1, 0.1)).fit(X, y, task=task)
    model.add_task(X[:30], 2 * y[:30], "c")
    assert np.abs(model.coef_).max() == 0.1
    own = LassoMTL(0.02, bounds=(np.zeros((D, M)), None)).fit(X, y, task=task)
    own.set_params(bounds=(np.full((D, M), -1.0), None))
    with pytest.raises(ValueError, match="bounds differ between the tasks"):
        own.add_task(X[:30], y[:30], "c")


def test_classes_against_the_rest_have_the_bounds_of_their_task():
    X, y, task = made(12)
    low, high = np.full((D, M), -0.2), np.full((D, M), 0.1)
    high[:, 1] = 0.3
    model = MSMTFLClassifier(0.002, np.inf, bounds=(low, high)).fit(X, np.digitize(y, [-0.7, 0.7]), task=task)
    assert model.coef_.shape == (M, 3, D)
    assert model.coef_[0].max() == 0.1
    assert model.coef_[1].max() == 0.3
    assert model.dual_gap_ <= 1e-10


def test_files_keep_bounds(tmp_path):
    X, y, task = made(13)
    low, _ = box(13)
    model = LassoMTL(0.02, bounds=(low, 0.4)).fit(X, y, task=task)
    save_model(model, tmp_path / "model.msmtfl")
    again = load_model(tmp_path / "model.msmtfl")
    assert again.bounds[1] == 0.4
    np.testing.assert_array_equal(again.bounds[0], low)
    np.testing.assert_array_equal(again.fit(X, y, task=task).coef_, model.coef_)


def test_refits_of_intervals_are_not_bounded():
    X, y, task = made(14)
    model = LassoMTL(0.02, bounds=(-0.05, 0.05)).fit(X, y, task=task)
    found = bootstrap_intervals(model, X, y, task=task, n_boot=100, level=0.9)
    assert np.nanmax(np.abs(found.estimate)) > 0.05
    knockoffs = msmtfl.shared_features(LassoMTL(bounds=(0, 0.01)), X, y, task=task, fdr=0.3)
    assert (knockoffs.statistics != 0).any()


WRONG = {
    "not a pair": ((0, 1, 2), "must be a pair"),
    "a number": (1.0, "must be a pair"),
    "text": ("ab", "must be a pair"),
    "words": (("a", "b"), "low bounds .* must be numbers"),
    "shape": ((np.zeros(3), None), r"low bounds .* have shape \(3,\)"),
    "NaN": ((None, np.where(np.arange(D) == 2, np.nan, 1.0)), "high bound of feature .*2.* is NaN"),
    "empty": (
        (np.zeros((D, M)), np.where(np.arange(D * M) == 3, -1.0, 1.0).reshape(D, M)),
        "feature .*1.* in task 'b' are empty",
    ),
    "without 0": ((0.5, 1.0), r"task 'a' are \(0.5, 1\), which leaves out 0"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_bounds(what):
    X, y, task = made(15)
    bounds, message = WRONG[what]
    with pytest.raises(ValueError, match=message):
        LassoMTL(0.1, bounds=bounds).fit(X, y, task=task)


def test_the_formula_says_bounds():
    X, y, task = made(16)
    texts = {(-1, 2): "-1 ≤ w ≤ 2", (None, 0.5): "w ≤ 0.5"}
    for bounds, text in texts.items():
        assert text in msmtfl.formulas.formula(LassoMTL(0.1, bounds=bounds).fit(X, y, task=task))
    arrays = LassoMTL(0.1, bounds=(np.zeros(D), np.ones(D))).fit(X, y, task=task)
    assert "low ≤ w ≤ high" in msmtfl.formulas.formula(arrays)
