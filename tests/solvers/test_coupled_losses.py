"""Losses that are not squared in models that couple tasks: against plain descent, scikit-learn, and on ugly data."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from msmtfl import (
    L12MTL,
    DirtyMTL,
    DirtyMTLClassifier,
    L12MTLClassifier,
    MSMTFLClassifier,
    PartialPooling,
    PartialPoolingClassifier,
    SharedMTL,
    SharedMTLClassifier,
)

FAMILIES = ("l12", "dirty", "shared", "pooling")
REGRESSIONS = {"l12": L12MTL, "dirty": DirtyMTL, "shared": SharedMTL, "pooling": PartialPooling}
CLASSIFIERS = {
    "l12": L12MTLClassifier,
    "dirty": DirtyMTLClassifier,
    "shared": SharedMTLClassifier,
    "pooling": PartialPoolingClassifier,
}
STRENGTHS = {
    "l12": {"lam": 0.05},
    "dirty": {"lam_s": 0.04, "lam_b": 0.07},
    "shared": {"lam_common": 0.08, "lam_deviation": 0.04},
    "pooling": {"k": 3.0, "k_common": 1.0},
}


def data(seed, loss, m=3, n=30, d=5):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    common, own = rng.standard_normal(d), 0.5 * rng.standard_normal((m, d))
    W = (common + own) * (rng.random(d) < 0.6)
    f = 0.7 * (X * W[task]).sum(axis=1) + 0.3
    if loss == "logistic":
        y = (rng.random(m * n) < 1.0 / (1.0 + np.exp(-f))).astype(float)
    elif loss == "poisson":
        y = rng.poisson(np.exp(np.clip(0.5 * f, -4.0, 3.0))).astype(float)
    elif loss in ("gamma", "tweedie"):
        y = rng.gamma(2.0, np.exp(np.clip(0.5 * f, -3.0, 3.0))) * (
            rng.random(m * n) < (1.0 if loss == "gamma" else 0.7)
        )
    else:
        y = f + rng.standard_t(2, m * n)
    return X, y, task


def model_of(family, loss, **options):
    if loss == "logistic":
        return CLASSIFIERS[family](**STRENGTHS[family], **options)
    return REGRESSIONS[family](**STRENGTHS[family], loss=loss, **options)


# ------------------------------------------------------------------ plain descent


def loss_and_slope(loss, y, f, scale):
    if loss == "logistic":
        return np.logaddexp(0.0, f) - y * f, 1.0 / (1.0 + np.exp(-f)) - y
    if loss == "poisson":
        safe = np.where(y > 0, y, 1.0)
        return np.exp(f) - y * f + y * np.log(safe) - y, np.exp(f) - y
    if loss == "gamma":
        q = y * np.exp(-f)
        return q - 1.0 - np.log(q), 1.0 - q
    if loss == "tweedie":
        z = np.exp(0.5 * f)
        return 2.0 * (y / z + z) - 4.0 * np.sqrt(y), z - y / z
    r, e = f - y, 1.35 * scale
    return np.where(np.abs(r) <= e, 0.5 * r**2, e * np.abs(r) - 0.5 * e**2), np.clip(r, -e, e)


def shrink(V, t):
    return np.sign(V) * np.maximum(np.abs(V) - t, 0.0)


def shrink_largest(V, t):
    """The proximal map of t max_i |v_i| for every column of V (m, d): what the nearest point of an l1 ball leaves."""
    out = np.empty_like(V)
    for j, v in enumerate(V.T):
        size = np.sort(np.abs(v))[::-1]
        if size.sum() <= t:
            out[:, j] = 0.0
            continue
        over = (np.cumsum(size) - t) / np.arange(1, len(v) + 1)
        out[:, j] = np.clip(v, -over[np.flatnonzero(size > over)[-1]], over[np.flatnonzero(size > over)[-1]])
    return out


def parts_of(family, p):
    """How coefficients (m, d) are made of parts (h, m or 1, d), their proximal map, and their penalty."""
    if family == "l12":

        def prox(P, t):
            length = np.sqrt((P[0] ** 2).sum(axis=0))
            return [P[0] * np.maximum(1.0 - t * p["lam"] / np.maximum(length, 1e-300), 0.0)]

        return 1, prox, lambda P: p["lam"] * np.sqrt((P[0] ** 2).sum(axis=0)).sum()
    if family == "dirty":
        return (
            2,
            lambda P, t: [shrink(P[0], t * p["lam_s"]), shrink_largest(P[1], t * p["lam_b"])],
            lambda P: p["lam_s"] * np.abs(P[0]).sum() + p["lam_b"] * np.abs(P[1]).max(axis=0).sum(),
        )
    if family == "shared":
        return (
            2,
            lambda P, t: [shrink(P[0], t * p["lam_deviation"]), shrink(P[1], t * p["lam_common"])],
            lambda P: p["lam_deviation"] * np.abs(P[0]).sum() + p["lam_common"] * np.abs(P[1]).sum(),
        )
    k, c, n = p["k"], p["k_common"], p["n"]
    return (
        2,
        lambda P, t: [P[0] / (1.0 + 2.0 * t * k / n), P[1] / (1.0 + 2.0 * t * c / n)],
        lambda P: k / n * (P[0] ** 2).sum() + c / n * (P[1] ** 2).sum(),
    )


def least(family, loss, X, y, task, scales, steps=20000):
    """The smallest objective, by accelerated proximal descent with restarts; it knows nothing of the package."""
    m, d, N = task.max() + 1, X.shape[1], len(y)
    n = np.bincount(task)
    weight = 2.0 / (m * n[task]) if family != "pooling" else np.full(N, 2.0 / N)
    count, prox, value = parts_of(family, STRENGTHS[family] | {"n": N})
    one = family in ("shared", "pooling")
    Z = [np.zeros((m, d))] + [np.zeros((1 if one else m, d)) for _ in range(count - 1)]
    level, scale = np.zeros(m), scales[task]

    def smooth(P, b):
        W = sum(P)
        h, s = loss_and_slope(loss, y, (X * W[task]).sum(axis=1) + b[task], scale)
        g = weight * s
        G = np.array([g[task == i] @ X[task == i] for i in range(m)])
        grads = [G] + [G.sum(axis=0, keepdims=True) if one else G for _ in range(count - 1)]
        return float(weight @ h), grads, np.bincount(task, g)

    t, momentum, best, last = 1.0, 1.0, np.inf, np.inf
    P, b, old_P, old_b = Z, level, Z, level
    for step in range(steps):
        f0, grads, slope = smooth(P, b)
        while True:
            new_P, new_b = prox([a - t * g for a, g in zip(P, grads, strict=True)], t), b - t * slope
            moves = [q - a for q, a in zip(new_P, P, strict=True)]
            f1 = smooth(new_P, new_b)[0]
            bound = f0 + sum((g * v).sum() for g, v in zip(grads, moves, strict=True)) + slope @ (new_b - b)
            bound += (sum((v**2).sum() for v in moves) + ((new_b - b) ** 2).sum()) / (2.0 * t)
            if f1 <= bound + 1e-15:
                break
            t *= 0.5
        now = f1 + value(new_P)
        if now > best:  # too much momentum
            momentum, P, b = 1.0, old_P, old_b
            if step and t < 1e-12:
                break
            best = np.inf
            continue
        if step % 100 == 99 and last - now < 1e-14:
            break
        if step % 100 == 0:
            last = now
        best, after = now, 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        share, momentum = (momentum - 1.0) / after, after
        P = [q + share * (q - o) for q, o in zip(new_P, old_P, strict=True)]
        b = new_b + share * (new_b - old_b)
        old_P, old_b = new_P, new_b
    return float(smooth(old_P, old_b)[0] + value(old_P))


def check_parity(family, loss, seed):
    X, y, task = data(seed, loss)
    model = model_of(family, loss).fit(X, y, task=task)
    scales = np.asarray(getattr(model, "scale_", np.ones(3)))
    wanted = least(family, loss, X, y, task, scales)
    assert model.certificate_.optimal
    assert model.dual_gap_ < 1e-9
    assert model.objective_ == pytest.approx(wanted, abs=1e-8)
    assert model.objective_ <= wanted + 1e-10


@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma", "tweedie", "huber"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.sampled(4)
def test_objective_is_that_of_plain_descent(family, loss):
    check_parity(family, loss, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(k, k + 10) for k in range(1, 51, 10)], ids=lambda seeds: f"from {seeds[0]}")
@pytest.mark.parametrize("family", FAMILIES)
def test_objective_is_that_of_plain_descent_often(family, seeds):
    for seed in seeds:
        check_parity(family, "logistic", seed)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie", "huber"])
@pytest.mark.parametrize("family", FAMILIES)
def test_objective_of_other_losses_often(family, loss):
    for seed in range(1, 11 if loss in ("poisson", "huber") else 4):
        check_parity(family, loss, seed)


# ------------------------------------------------------------------ what other packages know


@pytest.mark.parametrize("family", ["l12", "dirty", "shared"])
def test_one_task_is_the_lasso_of_scikit_learn(family):
    X, y, _ = data(4, "logistic", m=1, n=80)
    lam = 0.05
    own = {"l12": {"lam": lam}, "dirty": {"lam_s": lam, "lam_b": lam}}
    own["shared"] = {"lam_common": np.inf, "lam_deviation": lam}
    model = CLASSIFIERS[family](**own[family]).fit(X, y)
    new = getattr(LogisticRegression(), "penalty", "deprecated") == "deprecated"
    known = {"l1_ratio": 1.0} if new else {"penalty": "l1"}
    peer = LogisticRegression(C=2.0 / (80 * lam), solver="saga", tol=1e-12, max_iter=100000, **known).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_[0], atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-6)


def test_one_task_of_counts_is_the_ridge_of_scikit_learn():
    X, y, _ = data(5, "poisson", m=1, n=80)
    model = PartialPooling(2.0, np.inf, loss="poisson").fit(X, y)
    peer = PoissonRegressor(alpha=2.0 / 80, tol=1e-12, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(model.predict(X), peer.predict(X), rtol=1e-6)


def test_a_wide_threshold_of_huber_is_squared_loss():
    X, y, task = data(6, "huber")
    for family, make in REGRESSIONS.items():
        wide = make(**STRENGTHS[family], loss="huber", epsilon=1e6).fit(X, y, task=task)
        np.testing.assert_allclose(wide.coef_, make(**STRENGTHS[family]).fit(X, y, task=task).coef_, atol=1e-8)


def test_dirty_with_a_large_shared_strength_is_the_lasso_of_classes():
    X, y, task = data(7, "logistic")
    dirty = DirtyMTLClassifier(0.03, 1.0).fit(X, y, task=task)
    np.testing.assert_allclose(dirty.coef_, MSMTFLClassifier(0.03, np.inf).fit(X, y, task=task).coef_, atol=1e-8)


# ------------------------------------------------------------------ options


@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma", "tweedie", "huber"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("intercepts", ["task", "shrunk", "common"])
@pytest.mark.parametrize("more", [{}, {"standardize": True}, {"l1_ratio": 0.5}], ids=["plain", "standardised", "ridge"])
@pytest.mark.sampled(9)
def test_options_are_certified(family, loss, intercepts, more):
    if family == "pooling" and "l1_ratio" in more:
        pytest.skip("partial pooling has ridges only")
    X, y, task = data(8, loss)
    X = X * np.array([1.0, 10.0, 0.1, 1.0, 3.0])
    model = model_of(family, loss, intercepts=intercepts, **more).fit(X, y, task=task)
    assert model.certificate_.optimal
    assert model.dual_gap_ < 1e-9


@pytest.mark.parametrize("family", FAMILIES)
def test_standardising_is_rescaling(family):
    """The units are those of the columns, not of the weights that Newton steps give to samples."""
    X, y, _ = data(9, "logistic", m=1, n=60)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    wide = X * np.array([1.0, 100.0, 0.01, 5.0, 2.0])
    plain = model_of(family, "logistic").fit(X, y)
    scaled = model_of(family, "logistic", standardize=True).fit(wide, y)
    np.testing.assert_allclose(scaled.coef_ * wide.std(axis=0), plain.coef_, atol=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_repeated_samples(family):
    X, y, task = data(10, "poisson")
    times = np.random.default_rng(0).integers(1, 4, len(y))
    weighted = model_of(family, "poisson").fit(X, y, task=task, sample_weight=times)
    repeated = model_of(family, "poisson").fit(
        np.repeat(X, times, axis=0), np.repeat(y, times), task=np.repeat(task, times)
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_offset_is_part_of_the_linear_predictor(family):
    """A constant offset in a task moves its intercept only."""
    X, y, task = data(11, "poisson")
    offset = np.array([0.5, -1.0, 2.0])[task]
    moved = model_of(family, "poisson").fit(X, y, task=task, offset=offset)
    plain = model_of(family, "poisson").fit(X, y, task=task)
    np.testing.assert_allclose(moved.coef_, plain.coef_, atol=1e-8)
    np.testing.assert_allclose(moved.intercept_ + np.array([0.5, -1.0, 2.0]), plain.intercept_, atol=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
def test_features_that_are_not_penalised(family):
    X, y, task = data(12, "logistic")
    model = model_of(family, "logistic", penalty_factors=[0, 1, 1, 1, np.inf]).fit(X, y, task=task)
    assert model.certificate_.optimal
    assert (model.coef_[:, 0] != 0).all()
    assert (model.coef_[:, 4] == 0).all()


@pytest.mark.parametrize("family", ["l12", "dirty", "shared"])
def test_a_penalty_that_is_all_ridge(family):
    X, y, task = data(19, "huber")
    model = model_of(family, "huber", l1_ratio=0.0).fit(X, y, task=task)
    assert model.certificate_.optimal
    assert (model.coef_ != 0).all()


def test_stages_of_a_capped_penalty():
    X, y, task = data(13, "logistic", n=80)
    model = L12MTLClassifier(0.05, 0.6).fit(X, y, task=task)
    assert model.n_stages_ > 1
    assert model.certificate_.monotone
    assert model.certificate_.optimal
    shared = SharedMTLClassifier(0.08, 0.04, 0.3).fit(X, y, task=task)
    assert shared.n_stages_ > 1
    assert shared.certificate_.monotone


# ------------------------------------------------------------------ ugly data


def told(model, X, y, task):
    """Fit; the gap is proven to be small, or a warning says why not."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y, task=task)
    assert np.isfinite(model.coef_).all()
    warned = [one for one in said if issubclass(one.category, ConvergenceWarning)]
    assert model.certificate_.optimal or warned
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_separable_classes(family):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 4)), np.repeat([0, 1], 30)
    y = (X[:, 0] > 0).astype(int)
    weak = {name: 1e-4 * value for name, value in STRENGTHS[family].items()}
    model = told(CLASSIFIERS[family](**weak), X, y, task)
    assert model.score(X, y, task=task) > 0.98


def test_features_that_separate_classes_are_named():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 3)), np.repeat([0, 1], 30)
    y = (X[:, 0] > 0).astype(int)
    with pytest.warns(ConvergenceWarning, match="separated by features that are not penalised"):
        L12MTLClassifier(0.05, penalty_factors=[0, 1, 1]).fit(X, y, task=task)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_task_of_one_class(family):
    X, y, task = data(14, "logistic")
    y[task == 1] = 1.0
    with pytest.raises(ValueError, match="no row of class"):
        model_of(family, "logistic").fit(X, y, task=task)
    told(model_of(family, "logistic", intercepts="shrunk"), X, y, task)


@pytest.mark.parametrize("family", FAMILIES)
def test_counts_that_are_all_zero(family):
    X, y, task = data(15, "poisson")
    y[task == 1] = 0.0
    with pytest.raises(ValueError, match="targets that are all 0"):
        model_of(family, "poisson").fit(X, y, task=task)
    told(model_of(family, "poisson", intercepts="shrunk"), X, y, task)


@pytest.mark.parametrize("loss", ["logistic", "poisson", "gamma", "tweedie", "huber"])
@pytest.mark.parametrize("family", FAMILIES)
def test_columns_of_very_different_sizes(family, loss):
    X, y, task = data(16, loss)
    told(model_of(family, loss), X * np.array([1e6, 1e-6, 1.0, 1e3, 1.0]), y, task)


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie", "huber"])
@pytest.mark.parametrize("family", FAMILIES)
def test_targets_that_are_all_the_same(family, loss):
    X, _, task = data(17, loss)
    model = told(model_of(family, loss), X, np.full(len(X), 3.0), task)
    np.testing.assert_allclose(model.predict(X, task=task), 3.0)


@pytest.mark.parametrize("family", FAMILIES)
def test_more_features_than_samples(family):
    X, y, task = data(18, "logistic", n=12, d=60)
    model = told(CLASSIFIERS[family](), X, y, task)
    assert model.dual_gap_ < 1e-8
