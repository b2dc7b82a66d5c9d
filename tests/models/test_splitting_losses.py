"""Splitting under losses that are not squared: held against statsmodels, and against what they promise."""

import numpy as np
import pytest
from scipy.stats import t as student

from msmtfl import L12MTLClassifierCV, LassoMTL, MSMTFLClassifier, SharedMTL
from msmtfl.inference import draw_halves, split_intervals

N, D = 240, 6
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D)) @ (np.eye(D) + 0.3)
TASK = np.tile(["a", "b"], N // 2)
F = 0.3 * X[:, 0] - 0.3 * X[:, 1]
WEIGHT = RNG.uniform(0.5, 2.0, N)
ENDS = np.column_stack([RNG.exponential(np.exp(-F)), RNG.exponential(2.0, N)])
Y = {
    "logistic": np.where(F + RNG.logistic(size=N) > 0, "yes", "no"),
    "poisson": RNG.poisson(np.exp(F) * RNG.gamma(2.0, 0.5, N)),
    "gamma": RNG.gamma(2.0, np.exp(F) / 2.0),
    "huber": F + RNG.standard_t(3, N),
    "cox": np.column_stack([ENDS.min(axis=1), ENDS[:, 0] < ENDS[:, 1]]),
}


def model_of(loss, lam=0.03, **options):
    return MSMTFLClassifier(lam, **options) if loss == "logistic" else LassoMTL(lam, loss=loss, **options)


def halves_of(model, y, seed=0, **known):
    problem = model._make_problem(X, y, TASK, None, **known)
    return draw_halves(problem.data, None, 1, np.random.RandomState(seed), problem.loss)


@pytest.mark.parametrize("offset", [None, 0.2 * X[:, 5]], ids=["", "offset"])
@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma"])
def test_estimates_are_maximum_likelihood_and_errors_the_sandwich(loss, offset):
    sm = pytest.importorskip("statsmodels.api")
    likelihood = {
        "logistic": sm.families.Binomial(),
        "poisson": sm.families.Poisson(),
        "gamma": sm.families.Gamma(sm.families.links.Log()),
    }[loss]
    model, y = model_of(loss), Y[loss]
    found = split_intervals(model, X, y, task=TASK, offset=offset, level=0.9)
    for split, half in enumerate(halves_of(model, y, offset=offset)):
        for i, label in enumerate("ab"):
            rows, S = ~half & (label == TASK), np.flatnonzero(found.support[split, i])
            assert 0 < len(S) < rows.sum() - 10
            Z, n = sm.add_constant(X[np.ix_(rows, S)]), rows.sum()
            target = (y[rows] == "yes") * 1.0 if loss == "logistic" else y[rows].astype(float)
            known = sm.GLM(target, Z, likelihood, offset=None if offset is None else offset[rows]).fit(tol=1e-12)
            np.testing.assert_allclose(found.estimate[split, i, S], known.params[1:], rtol=1e-5, atol=1e-7)
            mu = known.fittedvalues  # slopes and curvatures of the likelihood, written down once more
            slope = (target - mu) / (mu if loss == "gamma" else 1.0)
            bend = {"logistic": mu * (1 - mu), "poisson": mu, "gamma": target / mu}[loss]
            inverse = np.linalg.inv((Z.T * bend) @ Z)
            alone = bend * np.einsum("ij,jk,ik->i", Z, inverse, Z)
            errors = np.sqrt(np.diag(inverse @ (Z.T * (slope / (1 - alone)) ** 2) @ Z @ inverse))[1:]
            reach = student.ppf(0.95, n - Z.shape[1]) * errors
            np.testing.assert_allclose(found.upper[split, i, S] - known.params[1:], reach, rtol=1e-4)
            p = 2 * student.sf(np.abs(known.params[1:]) / errors, n - Z.shape[1])
            np.testing.assert_allclose(found.p_value[split, i, S], p, rtol=1e-3, atol=1e-12)


def test_hazards_are_those_of_the_partial_likelihood():
    PHReg = pytest.importorskip("statsmodels.duration.hazard_regression").PHReg
    model, y = model_of("cox", 0.05), Y["cox"]
    found = split_intervals(model, X, y, task=TASK, level=0.9)
    assert "the coefficient (cox, no penalty) of a feature" in str(found)
    for split, half in enumerate(halves_of(model, y)):
        for i, label in enumerate("ab"):
            rows, S = ~half & (label == TASK), np.flatnonzero(found.support[split, i])
            known = PHReg(y[rows, 0], X[np.ix_(rows, S)], status=y[rows, 1], ties="efron").fit()
            np.testing.assert_allclose(found.estimate[split, i, S], known.params, rtol=1e-4, atol=1e-6)
            reach = student.ppf(0.95, y[rows, 1].sum() - len(S)) * known.bse
            np.testing.assert_allclose(found.upper[split, i, S] - known.params, reach, rtol=1e-3)


def test_a_loss_without_bend_far_out_is_huber_s():
    y = Y["huber"].copy()
    y[::40] += 1e4  # samples that have all but no say
    plain, wild = (split_intervals(model_of("huber", 0.05), X, one, task=TASK) for one in (Y["huber"], y))
    both = np.isfinite(plain.estimate) & np.isfinite(wild.estimate)
    assert both.sum() > 5
    width = wild.upper[both] - wild.lower[both]
    assert (width < 3 * (plain.upper[both] - plain.lower[both])).all()


def test_bounds_groups_and_shared_intercepts_hold_nothing_back_on_the_estimating_half():
    wanted = split_intervals(model_of("poisson"), X, Y["poisson"], task=TASK)
    kept = {"penalty_factors": [0.0] * D}
    free = split_intervals(LassoMTL(0.1, loss="poisson", **kept), X, Y["poisson"], task=TASK)
    for one in (
        LassoMTL(0.1, loss="poisson", bounds=(-0.01, 0.01), **kept),
        LassoMTL(0.1, loss="poisson", intercepts="shrunk", **kept),
        SharedMTL(loss="poisson", lam_common=1e-9, lam_deviation=1e-9),
    ):
        found = split_intervals(one, X, Y["poisson"], task=TASK)
        assert found.support.all()
        np.testing.assert_allclose(found.lower, free.lower, rtol=1e-4, atol=1e-6)
    assert not wanted.support.all()


def test_what_has_no_finite_estimate_is_said():
    apart = np.where(X[:, 0] > 0, "yes", "no")
    with pytest.warns(
        UserWarning, match=r"task\(s\) .*'a' \(split 1\).*separate the classes.*A larger lam selects fewer"
    ):
        found = split_intervals(MSMTFLClassifier(0.05, max_stages=1), X, apart, task=TASK)
    assert found.to_frame().empty
    few = np.column_stack([np.arange(N) + 1.0, np.arange(N) < 16])
    with pytest.warns(UserWarning, match="half of its events are no more than the features selected"):
        split_intervals(LassoMTL(1e-4, loss="cox"), X, few, task=TASK)


def test_weights_count_and_a_search_of_classes_selects_on_its_half():
    model = L12MTLClassifierCV(lams=6, cv=3)
    found = split_intervals(model, X, Y["logistic"], task=TASK)
    assert np.isfinite(found.estimate).any()
    plain, heavy, same = (
        split_intervals(model_of("logistic", 0.05), X, Y["logistic"], task=TASK, sample_weight=w)
        for w in (None, WEIGHT, np.full(N, 3.0))
    )
    np.testing.assert_allclose(same.upper, plain.upper, rtol=1e-5)
    assert not np.allclose(
        heavy.estimate[np.isfinite(heavy.estimate)][:3], plain.estimate[np.isfinite(plain.estimate)][:3]
    )
