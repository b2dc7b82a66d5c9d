"""Bounds of coefficients that tasks share something of: sums of parts, and norms over the tasks."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array

from msmtfl import (
    L12MTL,
    L12MTLCV,
    DirtyMTL,
    DirtyMTLCV,
    L12MTLClassifier,
    Moments,
    PartialPooling,
    PartialPoolingCV,
    PretrainedMTL,
    PretrainedMTLCV,
    RobustMTL,
    RobustMTLCV,
    SharedMTL,
    SharedMTLClassifier,
    SharedMTLCV,
)
from msmtfl._data.tasks import read_training
from msmtfl._objective.box import Box
from msmtfl._objective.penalties import GroupNorm
from msmtfl._objective.proofs.pressed import pressed
from msmtfl._objective.proofs.row_certificates import certify_rows
from msmtfl._solvers.coupled.around_bounds import put
from msmtfl._solvers.problems.make_problem import make_problem
from msmtfl._solvers.solvers import rows_for

D, M, N = 6, 3, 40
FAMILIES = {
    "l12": lambda **more: L12MTL(0.1, **more),
    "dirty": lambda **more: DirtyMTL(0.1, 0.2, **more),
    "shared": lambda **more: SharedMTL(0.2, 0.1, **more),
    "capped": lambda **more: SharedMTL(0.2, 0.1, theta=0.3, **more),
    "pooling": lambda **more: PartialPooling(5.0, 1.0, **more),
    "armul": lambda **more: RobustMTL(kind="armul", lam_deviation=3.0, **more),
    "rmtfl": lambda **more: RobustMTL(kind="rmtfl", lam_deviation=0.2, lam_common=0.1, **more),
    "pretrained": lambda **more: PretrainedMTL(0.05, lam_common=0.05, **more),
}


def made(seed, loss="squared"):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((M * N, D)), np.repeat(["a", "b", "c"], N)
    W = rng.standard_normal(D) * (rng.random(D) < 0.7) + 0.5 * rng.standard_normal((M, D))
    f = np.einsum("ij,ij->i", X, np.repeat(W, N, axis=0))
    if loss == "poisson":
        return X, rng.poisson(np.exp(np.clip(f / 2, -2, 2))).astype(float), task
    if loss == "cox":
        return X, np.column_stack([np.exp(-f / 2) * rng.exponential(size=len(f)), rng.random(len(f)) < 0.8]), task
    return X, f + 0.5 * rng.standard_normal(len(f)), task


def box(seed):
    """Bounds of all kinds: none, one-sided, two-sided, 0 itself."""
    rng = np.random.default_rng(seed + 1000)
    low = np.where(rng.random((D, M)) < 0.3, -np.inf, -0.5 * rng.random((D, M)) * (rng.random((D, M)) < 0.7))
    return low, np.where(rng.random((D, M)) < 0.3, np.inf, 0.5 * rng.random((D, M)) * (rng.random((D, M)) < 0.7))


def within(W, low, high):
    return bool(((low <= W.T) & (high >= W.T)).all())


def length(x, axis=None):
    """A norm that is smooth, and its gradient."""
    out = np.sqrt((x**2).sum(axis=axis, keepdims=True) + 1e-20)
    return float(out.sum() - 1e-10 * out.size), x / out


def one_by_one(x):
    out = np.sqrt(x**2 + 1e-20)
    return float(out.sum()), x / out


def penalty_of(name, model, W, Z):
    """The penalty at W (M, D) with a common part Z, (D,) or (M, D), and its gradients."""
    V = W - Z
    if name == "l12":
        value, of_w = length(W, axis=0)
        return 0.1 * value, 0.1 * of_w, 0.0 * Z
    if name == "shared":
        (common, of_z), (own, of_v) = one_by_one(Z), one_by_one(V)
        return 0.2 * common + 0.1 * own, 0.1 * of_v, 0.2 * of_z - 0.1 * of_v.sum(axis=0)
    if name == "pooling":
        k, c = 5.0 / (M * N), 1.0 / (M * N)
        return k * (V**2).sum() + c * (Z**2).sum(), 2 * k * V, 2 * c * Z - 2 * k * V.sum(axis=0)
    if name == "armul":
        a = 3.0 * np.sqrt(N) / (M * N)
        value, of_v = length(V, axis=1)
        return a * value, a * of_v, -a * of_v.sum(axis=0)
    (rows, of_p), (own, of_v) = length(Z, axis=0), length(V, axis=1)
    return 0.1 * rows + 0.2 * own, 0.2 * of_v, 0.1 * of_p - 0.2 * of_v


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["l12", "shared", "pooling", "armul", "rmtfl"])
def test_nobody_finds_less_within_the_bounds(name, seed):
    """L-BFGS-B with norms that are smoothed, from the solution and from elsewhere."""
    (X, y, task), (low, high) = made(seed), box(seed)
    model = FAMILIES[name](bounds=(low, high)).fit(X, y, task=task)
    assert within(model.coef_, low, high)
    assert (model.coef_.T[np.isfinite(low)] == low[np.isfinite(low)]).any()
    assert model.dual_gap_ <= 1e-9
    assert model.certificate_.kkt <= 1e-8
    parts = [(X[task == t] - X[task == t].mean(axis=0), y[task == t] - y[task == t].mean()) for t in "abc"]
    shape = (M, D) if name == "rmtfl" else (D,)

    def value(p):
        W, Z = p[: M * D].reshape(M, D), p[M * D :].reshape(shape)
        out, of_w, of_z = penalty_of(name, model, W, Z)
        of_w = of_w + 0.0 * W
        for i, (A, t) in enumerate(parts):
            r = A @ W[i] - t
            out, of_w[i] = out + r @ r / (M * N), of_w[i] + 2 * A.T @ r / (M * N)
        return out, np.concatenate([of_w.ravel(), np.ravel(of_z)])

    sides = [*zip(low.T.ravel(), high.T.ravel(), strict=True), *[(None, None)] * int(np.prod(shape))]
    rng = np.random.default_rng(seed)
    for start in (
        np.concatenate([model.coef_.ravel(), np.zeros(np.prod(shape))]),
        0.1 * rng.standard_normal(len(sides)),
    ):
        options = {"ftol": 1e-16, "gtol": 1e-12, "maxiter": 20_000, "maxfun": 10**6}
        peer = minimize(value, start, jac=True, bounds=sides, method="L-BFGS-B", options=options)
        assert model.objective_ <= peer.fun + 1e-8
    assert model.objective_ >= peer.fun - 1e-3 * abs(peer.fun)


@pytest.mark.parametrize("intercepts", ["task", "shrunk", "common"])
@pytest.mark.parametrize("loss", ["squared", "huber", "poisson", "cox"])
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.sampled(4)
def test_every_loss_is_certified(name, loss, intercepts):
    if (loss == "cox" and intercepts != "task") or (intercepts == "common" and name in ("pooling", "armul", "rmtfl")):
        return
    (X, y, task), (low, high) = made(4, loss), box(4)
    options = {"loss": loss, "intercepts": intercepts}
    model = FAMILIES[name](bounds=(low, high), **options).fit(X, y, task=task)
    assert within(model.coef_, low, high)
    assert not within(FAMILIES[name](**options).fit(X, y, task=task).coef_, low, high)
    assert model.dual_gap_ <= 1e-8
    assert model.certificate_.kkt <= 1e-6


@pytest.mark.parametrize("name", FAMILIES)
def test_positive_is_a_case_of_bounds_to_the_bit(name):
    X, y, task = made(5)
    one = FAMILIES[name](positive=True).fit(X, y, task=task)
    other = FAMILIES[name](bounds=(0, np.inf)).fit(X, y, task=task)
    assert one.coef_.min() == 0.0
    assert one.coef_.max() > 0.0
    np.testing.assert_array_equal(one.coef_, other.coef_)


@pytest.mark.parametrize("name", FAMILIES)
def test_bounds_that_are_not_reached_change_nothing(name):
    X, y, task = made(6)
    free = FAMILIES[name]().fit(X, y, task=task)
    wide = FAMILIES[name](bounds=(-1e6, 1e6)).fit(X, y, task=task)
    np.testing.assert_allclose(wide.coef_, free.coef_, rtol=0, atol=1e-9)
    assert wide.certificate_.unique == free.certificate_.unique


@pytest.mark.parametrize("name", FAMILIES)
def test_relaxed_and_ridged_fits_are_within_bounds(name):
    (X, y, task), (low, high) = made(7), box(7)
    model = FAMILIES[name](bounds=(low, high))
    options = {"relax": True, "l1_ratio": 0.7}
    known = {option: value for option, value in options.items() if option in model.get_params()}
    model.set_params(**known).fit(X, y, task=task)
    assert within(model.coef_, low, high)
    assert model.dual_gap_ <= 1e-9


def test_forces_prove_no_more_than_there_is():
    """Certificates of points that are not optimal, with the forces of the optimum, with none and with wrong ones."""
    (X, y, task), (low, high) = made(8), box(8)
    data = read_training(X, y, task=task)
    problem = make_problem(data, fit_intercept=True, standardize=False, positive=False, bounds=(low, high))
    norm, rows, rng = GroupNorm(np.full(D, 0.1), problem.factors), rows_for(problem), np.random.default_rng(8)
    W, _ = rows.solve(norm)
    forces = rows.forces
    assert (forces != 0).any()

    def value(W):
        loss = sum(design.loss(w) for design, w in zip(problem.designs, W, strict=True)) / (M * N)
        return loss + norm.value(W.T)

    unit = sum(design.yy for design in problem.designs) / (M * N)
    assert certify_rows(pressed(problem, forces).designs, W, norm).gap <= 1e-12
    for scale in (0.0, 1e-3, 0.3):
        other = np.clip(W + scale * rng.standard_normal(W.shape), low.T, high.T)
        for force in (forces, None, forces + scale * rng.standard_normal(W.shape)):
            proof = certify_rows(pressed(problem, force).designs, other, norm)
            assert proof.gap * unit >= (value(other) - value(W)) * (1 - 1e-9)
    beyond = W.copy()
    beyond[forces > 0] -= 1e-9
    assert np.isinf(certify_rows(pressed(problem, forces).designs, beyond, norm).gap)


def test_sums_are_put_within_bounds():
    rng = np.random.default_rng(9)
    low, high = np.full((2, 500), 0.1), np.full((2, 500), 0.3)
    P = np.vstack([rng.uniform(-5, 5, (1, 500)), rng.uniform(-5, 5, (2, 500))])
    found = put(P, np.clip(P[0] + P[1:], low, high), Box(low, high))
    W = found[0] + found[1:]
    assert ((low <= W) & (high >= W)).all()
    np.testing.assert_allclose(W, np.clip(P[0] + P[1:], low, high), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["l12", "dirty", "shared", "pooling", "armul"])
def test_statistics_and_sparse_columns_give_the_same(name):
    (X, y, task), (low, high) = made(10), box(10)
    model = FAMILIES[name](bounds=(low, high))
    one = model.fit(X, y, task=task).coef_.copy()
    np.testing.assert_allclose(model.fit(csr_array(X), y, task=task).coef_, one, rtol=0, atol=1e-9)
    assert model.dual_gap_ <= 1e-8
    model.partial_fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, one, rtol=0, atol=1e-8)
    assert within(model.coef_, low, high)


@pytest.mark.parametrize(
    "search",
    [
        L12MTLCV(lams=4, cv=3),
        DirtyMTLCV(lams=3, cv=3),
        SharedMTLCV(lams=3, cv=3),
        PartialPoolingCV(ks=3, cv=3),
        RobustMTLCV(lams=3, cv=3),
        PretrainedMTLCV(lams=3, cv=3),
    ],
    ids=lambda search: type(search).__name__,
)
def test_searches_are_within_bounds(search):
    (X, y, task), (low, high) = made(11), box(11)
    search.set_params(bounds=(low, high)).fit(X, y, task=task)
    assert within(search.coef_, low, high)
    assert search.dual_gap_ <= 1e-8
    surface = search.surface_
    for k, l in np.argwhere(np.isfinite(surface.dual_gap)).tolist():
        assert within(surface.coef(k, l), low, high)
    assert np.nanmax(surface.dual_gap) <= 1e-8
    np.testing.assert_allclose(surface.coef(*search.best_point_), search.coef_, rtol=0, atol=1e-9)


def test_a_coefficient_at_its_bound_is_no_degree_of_freedom():
    X, y, task = made(12)
    for search in (DirtyMTLCV(lams=[0.1], cv=3), SharedMTLCV(lams=[0.1], ratios=[0.0], cv=3)):
        surface = search.set_params(bounds=(-0.2, 0.3)).fit(X, y, task=task).surface_
        k, l = search.best_point_
        W = surface.coef(k, l)
        inside = (W != 0) & (W > -0.2) & (W < 0.3)
        assert inside.sum() < (W != 0).sum()
        found = surface.degrees(np.array([surface._place(k, l)]))[0]
        assert (found <= inside.sum(axis=1) + 1e-6).all()


def test_the_largest_lam_is_that_of_bounded_coefficients():
    X, y, task = made(13)
    sides = [(0, None), (None, 0)]
    tops = [L12MTL(bounds=bounds).fit(X, y, task=task).lam_max_ for bounds in sides]
    assert min(tops) < L12MTL().fit(X, y, task=task).lam_max_
    for top, bounds in zip(tops, sides, strict=True):
        assert not L12MTL(1.0001 * top, bounds=bounds).fit(X, y, task=task).coef_.any()
        assert L12MTL(0.99 * top, bounds=bounds).fit(X, y, task=task).coef_.any()


def test_a_new_task_is_within_bounds_or_refused():
    X, y, task = made(14)
    for name in ("shared", "pooling", "armul", "pretrained"):
        model = FAMILIES[name](bounds=(-0.4, 0.5)).fit(X, y, task=task)
        held = model._held_fixed("d")
        if ((held < -0.4) | (held > 0.5)).any():
            with pytest.raises(ValueError, match="is not within the bounds"):
                model.add_task(X[:30], 3 * y[:30], "d")
            continue
        model.add_task(X[:30], 3 * y[:30], "d")
        assert within(model.coef_, -0.4, 0.5)
        assert model.dual_gap_ <= 1e-8
    for name in ("l12", "dirty"):
        with pytest.raises(ValueError, match="fit again with the new task"):
            FAMILIES[name](positive=True).fit(X, y, task=task).add_task(X[:30], y[:30], "d")


@pytest.mark.parametrize("kind", [L12MTLClassifier, SharedMTLClassifier])
def test_classes_are_within_bounds(kind):
    X, y, task = made(15)
    cuts = [-0.7, 0.7] if kind is L12MTLClassifier else [0.0]
    model = kind(bounds=(-0.3, 0.2)).fit(X, np.digitize(y, cuts), task=task)
    assert model.coef_.shape == ((M, 3, D) if len(cuts) > 1 else (M, D))
    assert 0.2 >= model.coef_.max() > 0.2 - 1e-15  # sums of parts
    assert -0.3 <= model.coef_.min() < -0.3 + 1e-15
    assert model.dual_gap_ <= 1e-8


def test_moments_of_batches_within_bounds():
    (X, y, task), (low, high) = made(16), box(16)
    model = L12MTLCV(lams=3, cv=3, bounds=(low, high)).fit_moments(Moments.from_batches([(X, y, task)], folds=3))
    assert within(model.coef_, low, high)
    assert model.dual_gap_ <= 1e-8
