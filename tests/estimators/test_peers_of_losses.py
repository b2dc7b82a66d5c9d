"""One task under losses that are not squared beside other packages: the same coefficients to 1e-6 where these solve the same
problem. And every family of classifiers beside a general solver, on fifty problems each."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import msmtfl

STUDIES = Path(__file__).parents[2] / "benchmarks" / "studies"


def sample(n=150, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X[:, 0] - 0.7 * X[:, 1] + 0.4 * X[:, 2], rng


def times(n=150, seed=0, ties=False):
    X, f, rng = sample(n, seed=seed)
    time, censored = rng.exponential(np.exp(-f)), rng.exponential(2.0, n)
    seen = np.minimum(time, censored)
    return X, np.ceil(10 * seen) / 10 if ties else seen, time <= censored


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_cox_is_that_of_coxnet(ratio):
    """Which has half the weight of a ridge, and a mean over samples, as we have."""
    linear = pytest.importorskip("sksurv.linear_model")
    X, time, event = times()
    y = np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])
    alphas = np.array([0.05, 0.02])
    peer = linear.CoxnetSurvivalAnalysis(alphas=alphas, l1_ratio=ratio, tol=1e-16, max_iter=10**6).fit(X, y)
    for alpha, expected in zip(alphas, peer.coef_.T, strict=True):
        model = msmtfl.LassoMTL(2.0 * alpha, loss="cox(breslow)", l1_ratio=ratio)
        model.fit(X, np.column_stack([time, event]))
        assert model.dual_gap_ < 1e-10
        np.testing.assert_allclose(model.coef_, expected, atol=1e-6)


@pytest.mark.slow
def test_cox_with_ties_is_that_of_lifelines():
    lifelines, pd = pytest.importorskip("lifelines"), pytest.importorskip("pandas")
    X, time, event = times(ties=True)
    table = pd.DataFrame(X).assign(time=time, event=event.astype(int))
    options = {"precision": 1e-14, "r_precision": 1e-16}
    peer = lifelines.CoxPHFitter().fit(table, "time", "event", fit_options=options)
    model = msmtfl.MSMTFL(1.0, np.inf, loss="cox", penalty_factors=np.zeros(6)).fit(X, np.column_stack([time, event]))
    np.testing.assert_allclose(model.coef_, peer.params_.to_numpy(), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["lasso", "l12", "dirty", "shared"])
@pytest.mark.parametrize("ratio", [0.5, 0.9])
def test_classes_with_a_ridge_are_those_of_scikit_learn(family, ratio):
    X, f, rng = sample(seed=1)
    y, lam = (f + rng.logistic(size=len(f)) > 0).astype(int), 0.03
    models = {
        "lasso": msmtfl.MSMTFLClassifier(lam, np.inf, l1_ratio=ratio),
        "l12": msmtfl.L12MTLClassifier(lam, l1_ratio=ratio),
        "dirty": msmtfl.DirtyMTLClassifier(lam, 2.0 * lam, l1_ratio=ratio),
        "shared": msmtfl.SharedMTLClassifier(np.inf, lam, l1_ratio=ratio),
    }
    known = {"solver": "saga", "tol": 1e-14, "max_iter": 10**6, "random_state": 0, "l1_ratio": ratio}
    if getattr(LogisticRegression(), "penalty", "deprecated") != "deprecated":
        known["penalty"] = "elasticnet"
    peer = LogisticRegression(C=2.0 / (len(y) * lam), **known).fit(X, y)
    model = models[family].fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_[0], atol=1e-6)
    np.testing.assert_allclose(model.intercept_, peer.intercept_[0], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["lasso", "l12", "dirty", "shared", "partial-pooling"])
def test_classes_of_every_family_are_those_of_cvxpy(family):
    pytest.importorskip("cvxpy")
    spec = importlib.util.spec_from_file_location("parity_study", STUDIES / "parity.py")
    parity = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(parity)
    for seed in range(50):
        rng = np.random.default_rng([51, seed])
        X, y, task, offset = parity.sample(rng, "logistic")
        ratio, strengths = float(rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])), 10.0 ** rng.uniform(-2.5, -0.5, 2)
        model, options = parity.fit(family, "logistic", X, y, task, offset, ratio, strengths)
        found, null = parity.written_out(family, "logistic", X, y, task, offset, ratio, options)
        assert model.dual_gap_ < 1e-9, seed
        assert (model.objective_ - found) / null < 1e-8, seed
        assert (found - model.objective_) / null < 1e-6, seed  # cvxpy stops short of it, but not by much
