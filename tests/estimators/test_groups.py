"""Groups of features: what they are compared with, which models take them, and what they refuse."""

import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest

import msmtfl
from msmtfl import (
    L12MTL,
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    DirtyMTLClassifier,
    DirtyMTLCV,
    L12MTLClassifier,
    LassoMTL,
    LassoMTLCV,
    Moments,
    MSMTFLClassifier,
    MSMTFLClassifierCV,
    SharedMTL,
    SharedMTLCV,
    regularization_surface,
)
from msmtfl._data.tasks import read_training
from msmtfl._objective.coupled.groups import BlockNorm, groups_named
from msmtfl._objective.proofs.certificates import certify
from msmtfl._objective.proofs.group_certificates import certify_group_lasso
from msmtfl._objective.proofs.row_certificates import certify_rows
from msmtfl._paths.families.pretraining import OffsetFolds, pretrain
from msmtfl._solvers.coupled import block_norms
from msmtfl._solvers.lassos.group_lasso import group_lasso
from msmtfl._solvers.problems.make_problem import make_problem
from msmtfl.model_files import load_model, save_model
from msmtfl.sharing import sharing_map, variables_of

M, N, D = 3, 30, 10
NAMES = ["a", "a", "b", "c", "c", "c", "b", "d", "e", "e"]
GROUPS = [np.flatnonzero(np.array(NAMES) == name) for name in "abcde"]
ONE_BY_ONE = [str(j) for j in range(D)]


def made(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((M * n, D)) @ (np.eye(D) + 0.5 * rng.standard_normal((D, D)) / np.sqrt(D))
    on = np.isin(NAMES, ["a", "e"]) * rng.standard_normal(D)
    return X, X @ on + rng.standard_normal(M * n), np.repeat(["u", "v", "w"], n)


def together(W):
    """Whether all columns of a group are used in a task, or none is."""
    W = np.reshape(W, (-1, D))
    return all(len({bool(one) for one in w[g]}) == 1 for w in W for g in GROUPS)


def by_descent(loss, gradient, step, blocks, a, d, steps=20_000):
    """FISTA for a loss plus sum a_b |w_b|_2, with the momentum restarted whenever it points uphill."""
    w = z = np.zeros(d)
    t = 1.0
    for _ in range(steps):
        v = z - step * gradient(z)
        new = v.copy()
        for b, bound in zip(blocks, a, strict=True):
            length = np.linalg.norm(v[b])
            new[b] = v[b] * max(0.0, 1.0 - step * bound / length) if length else 0.0
        if (z - new) @ (new - w) > 0.0:
            t = 1.0
        ahead = (1.0 + np.sqrt(1.0 + 4.0 * t * t)) / 2.0
        w, z, t = new, new + (t - 1.0) / ahead * (new - w), ahead
    return loss(w) + sum(bound * np.linalg.norm(w[b]) for b, bound in zip(blocks, a, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_stages_are_those_of_proximal_gradients(seed):
    X, y, task = made(seed)
    model = MSMTFL(0.08, 0.4, feature_groups=NAMES, penalty_factors=1.0 + 0.1 * np.arange(D)).fit(X, y, task=task)
    assert model.n_stages_ >= 2
    assert model.dual_gap_ <= 1e-12
    assert model.certificate_.critical <= 1e-10
    f = 1.0 + 0.1 * np.arange(D)
    for stage in model.stages_:
        free = set(stage.free_rows.tolist())
        a = [0.0 if free & set(g.tolist()) else 0.08 * np.sqrt(len(g)) for g in GROUPS]
        for i, label in enumerate("uvw"):
            Z = (X[task == label] - X[task == label].mean(axis=0)) / f
            t = y[task == label] - y[task == label].mean()

            def loss(v, Z=Z, t=t):
                return float(((t - Z @ v) ** 2).sum() / (M * N))

            def gradient(v, Z=Z, t=t):
                return 2.0 * Z.T @ (Z @ v - t) / (M * N)

            step = M * N / (2.0 * np.linalg.norm(Z, 2) ** 2)
            peer = by_descent(loss, gradient, step, GROUPS, a, D, steps=600)
            own = f * stage.coef[i]
            value = loss(own) + sum(bound * np.linalg.norm(own[g]) for g, bound in zip(GROUPS, a, strict=True))
            assert value <= peer + 1e-12
            assert value >= peer - 1e-9


def test_l12_over_groups_is_that_of_proximal_gradients():
    X, y, task = made(1)
    lam = 0.15
    model = L12MTL(lam, feature_groups=NAMES, fit_intercept=False).fit(X, y, task=task)
    parts = [(X[task == label], y[task == label]) for label in "uvw"]
    blocks = [(np.arange(M)[:, None] * D + g).ravel() for g in GROUPS]

    def loss(v):
        return sum(((t - Z @ w) ** 2).sum() for (Z, t), w in zip(parts, v.reshape(M, D), strict=True)) / (M * N)

    def gradient(v):
        sides = zip(parts, v.reshape(M, D), strict=True)
        return np.concatenate([2.0 * Z.T @ (Z @ w - t) / (M * N) for (Z, t), w in sides])

    a = [lam * np.sqrt(len(g)) for g in GROUPS]
    step = M * N / (2.0 * max(np.linalg.norm(Z, 2) for Z, _ in parts) ** 2)
    peer = by_descent(loss, gradient, step, blocks, a, M * D, steps=600)
    assert model.objective_ <= peer + 1e-12
    assert model.objective_ >= peer - 1e-9
    assert model.dual_gap_ <= 1e-12


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.sampled(8)
def test_small_group_lassos_meet_their_conditions(seed):
    rng = np.random.default_rng(seed)
    m, k, n = (int(rng.integers(low, high)) for low, high in ((1, 4), (1, 20), (2, 40)))
    of = np.unique(rng.integers(0, max(1, k // 3), k), return_inverse=True)[1].ravel()
    X = rng.standard_normal((m, n, k)) * np.exp(rng.standard_normal(k))
    G = np.matmul(X.transpose(0, 2, 1), X) / n
    c = np.matmul(X.transpose(0, 2, 1), rng.standard_normal((m, n, 1)))[:, :, 0] / n
    A = 0.3 * np.exp(rng.standard_normal((m, k))) * 10.0 ** -rng.uniform(0, 2)
    A[rng.random((m, k)) < 0.05] = 0.0
    V = group_lasso(G, c, A, of, np.zeros((m, k)))
    R = c - np.matmul(G, V[:, :, None])[:, :, 0]
    assert np.abs(R[A == 0.0]).max(initial=0.0) <= 1e-9
    for g in np.unique(of):
        counts = (A > 0.0) & (of == g)
        length = np.linalg.norm((A * V)[counts])
        if length:
            np.testing.assert_allclose(R[counts], (A**2 * V)[counts] / length, rtol=0, atol=1e-9)
        else:
            assert np.linalg.norm(R[counts] / A[counts]) <= 1.0 + 1e-12


def test_common_values_and_deviations_are_those_of_proximal_gradients():
    X, y, task = made(1)
    common, deviation = 0.35, 0.25
    model = SharedMTL(common, deviation, theta=np.inf, feature_groups=NAMES, fit_intercept=False).fit(X, y, task=task)
    parts = [(X[task == label], y[task == label]) for label in "uvw"]
    blocks = [g + D * part for part in range(M + 1) for g in GROUPS]
    a = [lam * np.sqrt(len(g)) for lam in (common, *[deviation] * M) for g in GROUPS]

    def loss(v):
        P = v.reshape(M + 1, D)
        return sum(((t - Z @ (P[0] + w)) ** 2).sum() for (Z, t), w in zip(parts, P[1:], strict=True)) / (M * N)

    def gradient(v):
        P = v.reshape(M + 1, D)
        of_tasks = [2.0 * Z.T @ (Z @ (P[0] + w) - t) / (M * N) for (Z, t), w in zip(parts, P[1:], strict=True)]
        return np.concatenate([sum(of_tasks), *of_tasks])

    step = M * N / (2.0 * (M + 1) * max(np.linalg.norm(Z, 2) for Z, _ in parts) ** 2)
    peer = by_descent(loss, gradient, step, blocks, a, (M + 1) * D, steps=3000)
    assert model.coef_common_.any()
    assert model.coef_deviation_.any()
    assert together(model.coef_common_)
    assert together(model.coef_deviation_)
    assert model.objective_ <= peer + 1e-12
    assert model.objective_ >= peer - 1e-8
    assert model.dual_gap_ <= 1e-12


def of_dirty(W, lam_s, lam_b, norms):
    """The least that S and B with S + B = W cost, for the norms (groups, m) of W: lam_s times the largest of them."""
    q, out = lam_b / lam_s, 0.0
    for row in -np.sort(-norms, axis=1):
        out += lam_s * float((row * np.clip(q - np.arange(len(row)), 0.0, 1.0)).sum())
    return out


@pytest.mark.parametrize("q", [1.0, 1.6, 2.0])
def test_no_point_near_a_dirty_model_is_better(q):
    X, y, task = made(2)
    lam_s = 0.25
    model = DirtyMTL(lam_s, q * lam_s, feature_groups=NAMES, fit_intercept=False).fit(X, y, task=task)
    rng = np.random.default_rng(0)
    assert model.dual_gap_ <= 1e-12
    assert model.certificate_.unique
    W = model.coef_.copy()

    def value(W):
        loss = sum(((y[task == t] - X[task == t] @ w) ** 2).sum() for t, w in zip("uvw", W, strict=True)) / (M * N)
        norms = np.array([[np.sqrt(len(g)) * np.linalg.norm(w[g]) for w in W] for g in GROUPS])
        return loss + of_dirty(W, lam_s, q * lam_s, norms)

    assert value(W) == pytest.approx(model.objective_, rel=1e-12)
    for size in (1e-6, 1e-4, 1e-2):
        for _ in range(50):
            step = rng.standard_normal(W.shape) * (W != 0 if rng.random() < 0.5 else 1.0)
            assert value(W + size * step) >= model.objective_ - 1e-14
    np.testing.assert_allclose(model.coef_specific_ + model.coef_shared_, W, rtol=0, atol=1e-15)
    S, B = model.coef_specific_, model.coef_shared_
    parts = [np.sqrt(len(g)) * np.array([[np.linalg.norm(w[g]) for w in P] for P in (S, B)]) for g in GROUPS]
    cost = sum(lam_s * of_s.sum() + q * lam_s * of_b.max() for of_s, of_b in parts)
    norms = np.array([[np.sqrt(len(g)) * np.linalg.norm(w[g]) for w in W] for g in GROUPS])
    assert cost == pytest.approx(of_dirty(W, lam_s, q * lam_s, norms), rel=1e-10)


def test_dirty_that_separates_is_the_lasso():
    X, y, task = made(4)
    dirty = DirtyMTL(0.1, 0.31, feature_groups=NAMES).fit(X, y, task=task)
    lasso = LassoMTL(0.1, feature_groups=NAMES).fit(X, y, task=task)
    np.testing.assert_allclose(dirty.coef_, lasso.coef_, rtol=0, atol=1e-10)
    assert not dirty.coef_shared_.any()


FAMILIES = {
    "lasso": lambda s, **options: MSMTFL(0.3 * s, np.inf, **options),
    "l12": lambda s, **options: L12MTL(0.5 * s, **options),
    "dirty": lambda s, **options: DirtyMTL(0.25 * s, 0.4 * s, **options),
    "shared": lambda s, **options: SharedMTL(0.7 * s, 0.5 * s, theta=np.inf, **options),
}


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("l1_ratio", [1.0, 0.6])
@pytest.mark.parametrize("intercepts", ["task", "shrunk", "common"])
@pytest.mark.parametrize("loss", ["squared", "huber", "poisson"])
@pytest.mark.sampled(3)
def test_losses_intercepts_and_ridges_are_certified(loss, intercepts, l1_ratio, family):
    X, y, task = made(2)
    y = np.rint(np.exp(np.clip(y / 2, -2, 2))) if loss == "poisson" else y
    options = {"loss": loss, "intercepts": intercepts, "feature_groups": NAMES, "l1_ratio": l1_ratio}
    model = FAMILIES[family](1.0, **options).fit(X, y, task=task)
    assert model.dual_gap_ <= 1e-9
    assert together(model.coef_)
    assert not model.coef_.all()


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_bounds_beside_groups(loss, family):
    X, y, task = made(3)
    y = np.rint(np.exp(np.clip(y / 2, -2, 2))) if loss == "poisson" else y
    model = FAMILIES[family](0.2, loss=loss, feature_groups=NAMES)
    wide = model.set_params(bounds=(-50.0, 50.0)).fit(X, y, task=task).coef_
    most = 0.5 * np.abs(wide).max()
    low, high = np.full(D, -most), np.full(D, most)
    low[2:5], high[1] = 0.0, np.inf
    np.testing.assert_allclose(model.set_params(bounds=None).fit(X, y, task=task).coef_, wide, rtol=0, atol=1e-8)
    model.set_params(bounds=(low, high)).fit(X, y, task=task)
    assert model.dual_gap_ <= 1e-9
    assert (model.coef_ >= low).all()
    assert (model.coef_ <= high).all()
    assert (np.abs(model.coef_) == most).any()
    assert not np.allclose(model.coef_, wide)
    value, rng, best = model.objective_, np.random.default_rng(0), []
    if loss == "squared" and family == "lasso":
        for size in (1e-5, 1e-3, 1e-1):
            for _ in range(30):
                W = np.clip(model.coef_ + size * rng.standard_normal((M, D)) * (model.coef_ != 0.0), low, high)
                loss_of = sum(np.var(y[task == t] - X[task == t] @ w) for t, w in zip("uvw", W, strict=True)) / M
                best.append(loss_of + 0.06 * sum(np.sqrt(len(g)) * np.linalg.norm(w[g]) for g in GROUPS for w in W))
        assert min(best) >= value - 1e-14
    if family in ("lasso", "l12"):
        signs = model.set_params(bounds=(0.0, np.inf)).fit(X, y, task=task).coef_.copy()
        again = model.set_params(bounds=None, positive=True).fit(X, y, task=task).coef_
        np.testing.assert_array_equal(signs, again)


def test_a_certificate_notices_what_is_not_optimal_and_is_never_negative():
    X, y, task = made(3)
    groups, rng = groups_named(NAMES), np.random.default_rng(0)
    model = LassoMTL(0.1, feature_groups=NAMES, fit_intercept=False).fit(X, y, task=task)
    designs = make_problem(
        read_training(X, y, task=task), fit_intercept=False, standardize=False, positive=False
    ).designs
    A = 0.5 * M * N * 0.1 * groups.scale
    for design, w in zip(designs, model.coef_, strict=True):
        exact = certify_group_lasso(design, w, A, groups)
        assert 0.0 <= exact.relative_gap <= 1e-13
        for size in (1e-6, 1e-3, 1.0):
            moved = certify_group_lasso(design, w + size * rng.standard_normal(D), A, groups)
            assert moved.relative_gap > max(exact.relative_gap, 1e-3 * size**2)
            assert moved.kkt > 1e-2 * size**2
        alone = groups_named(ONE_BY_ONE)
        one, other = certify_group_lasso(design, w, A, alone), certify(design, w, A)
        assert one.relative_gap == pytest.approx(other.relative_gap, rel=1e-6, abs=1e-13)
    norm = BlockNorm(np.repeat(0.1 * groups.scale[:, None], M, axis=1), groups)
    assert certify_rows(designs, model.coef_, norm).gap > 1e-4  # that of another problem


def test_groups_of_one_column_change_nothing():
    X, y, task = made(4)
    for groups in (ONE_BY_ONE, {f"g{j}": [j] for j in range(D)}, {}):
        models = MSMTFL(0.1, 0.5), LassoMTL(0.1), L12MTL(0.1), DirtyMTL(0.1, 0.2), SharedMTL(0.2, 0.1)
        for one in (*models, MSMTFLCV(cv=2, lams=5)):
            plain = one.fit(X, y, task=task).coef_
            assert np.array_equal(plain, one.set_params(feature_groups=groups).fit(X, y, task=task).coef_)
    one = MSMTFL(0.1, 0.5, feature_groups=NAMES).fit(X, y, task=task)
    apart = [NAMES[j] if NAMES[j] != "a" else f"a{j}" for j in range(D)]
    other = MSMTFL(0.1, 0.5, feature_groups=apart).fit(X, y, task=task)
    assert not np.array_equal(one.coef_, other.coef_)


def test_lam_max_is_where_the_first_group_enters():
    X, y, task = made(5)
    for model in (LassoMTL(1.0), L12MTL(1.0)):
        model.set_params(feature_groups=NAMES)
        top = model.fit(X, y, task=task).lam_max_
        assert not model.set_params(lam=top * (1.0 + 1e-9)).fit(X, y, task=task).coef_.any()
        W = model.set_params(lam=top * 0.99).fit(X, y, task=task).coef_
        assert together(W)
        assert W.any()
    for model, names in (
        (DirtyMTL(0.5, 1.0), ("lam_s", "lam_b")),
        (SharedMTL(np.sqrt(M), 1.0), ("lam_common", "lam_deviation")),
    ):
        shares = [getattr(model, name) for name in names]
        unit = shares[1]
        top = model.set_params(feature_groups=NAMES).fit(X, y, task=task).lam_max_
        top = top / unit if isinstance(model, DirtyMTL) else top / (shares[0] if top > 2.0 * unit else unit)
        for share, any_ in ((1.0 + 1e-9, False), (0.99, True)):
            model.set_params(**{name: share * top * one for name, one in zip(names, shares, strict=True)})
            assert model.fit(X, y, task=task).coef_.any() == any_


def test_points_of_a_surface_are_fits():
    X, y, task = made(6)
    surface = regularization_surface(X, y, task=task, lams=8, theta_ratios=[4, 16, np.inf], feature_groups=NAMES)
    assert surface.dual_gap.max() <= 1e-11
    for k, l in ((2, 0), (5, 1), (7, 2)):
        model = MSMTFL(surface.lams[k], surface.thetas[k, l], feature_groups=NAMES).fit(X, y, task=task)
        np.testing.assert_allclose(surface.coef(k, l), model.coef_, rtol=0, atol=1e-10)
        assert surface.objective[k, l] == pytest.approx(model.objective_, rel=1e-12)
    places, of_point = surface.places_in_use()
    degrees = surface.degrees(places)[of_point[:, 2]]
    assert degrees[0].max() <= 1e-6
    assert (degrees <= (surface.coef(7, 2) != 0).sum(axis=1) + 1e-9).all()


@pytest.mark.parametrize("kind", [MSMTFL, L12MTL])
def test_degrees_are_those_of_divergences(kind):
    """Fitted values move with targets as the degrees of freedom say."""
    X, y, task = made(7)
    search = {MSMTFL: LassoMTLCV, L12MTL: L12MTLCV}[kind](cv=2, lams=[0.12], feature_groups=NAMES).fit(X, y, task=task)
    W = search.surface_.coef(0, 0)
    assert W.any()
    assert not W.all()
    found = search.surface_.degrees(search.surface_.places_in_use()[0])[0]
    trace, mean = 0.0, X[task == "v"].mean(axis=0)
    for row in np.flatnonzero(task == "v"):
        ends = []
        for step in (1e-4, -1e-4):
            moved = y.copy()
            moved[row] += step
            other = kind(0.12, *([np.inf] if kind is MSMTFL else []), feature_groups=NAMES).fit(X, moved, task=task)
            ends.append(float((X[row] - mean) @ other.coef_[1]))
        trace += (ends[0] - ends[1]) / 2e-4
    assert found[1] == pytest.approx(trace, abs=1e-3)


@pytest.mark.parametrize(
    "model",
    [
        MSMTFLCV(cv=2, lams=6),
        MSMTFLCV(cv=2, lams=6, loss="huber", intercepts="shrunk", penalty="scad", relax=True),
        LassoMTLCV(cv=2, lams=6),
        L12MTLCV(cv=2, lams=6),
        L12MTLCV(cv=2, lams=6, loss="poisson"),
        DirtyMTLCV(cv=2, lams=4, ratios=[0.5, 0.9]),
        DirtyMTLCV(cv=2, lams=[0.5, 0.2], ratios=[0.5], loss="poisson", l1_ratio=0.5),
        SharedMTLCV(cv=2, lams=4, ratios=[1.0]),
        SharedMTLCV(cv=2, lams=3, ratios=[1.0], loss="huber", theta_ratios=[np.inf], relax=True),
    ],
    ids=str,
)
def test_searches(model):
    X, y, task = made(8)
    y = np.rint(np.exp(np.clip(y / 2, -2, 2))) if getattr(model, "loss", "squared") == "poisson" else y
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*un-penalised|stopped: max_stages")
        model.set_params(feature_groups=NAMES).fit(X, y, task=task)
    assert together(model.coef_)
    assert model.dual_gap_ <= 1e-9
    assert model.feature_groups_.tolist() == NAMES


@pytest.mark.parametrize(
    "model",
    [
        MSMTFLClassifier(0.05, np.inf),
        MSMTFLClassifierCV(cv=2, lams=4),
        L12MTLClassifier(0.05),
        DirtyMTLClassifier(0.03, 0.05),
    ],
    ids=str,
)
def test_classifiers(model):
    X, y, task = made(9, 60)
    for classes in (2, 3):
        y_of_classes = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*un-penalised")
            model.set_params(feature_groups=NAMES).fit(X, y_of_classes, task=task)
        assert together(model.coef_)
        assert model.dual_gap_ <= 1e-9


def test_all_forms_of_data_give_the_same_coefficients():
    from scipy.sparse import csr_array

    X, y, task = made(10)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    moments = Moments.from_batches([(X, y, task)])
    for model in (MSMTFL(0.1, 0.5, feature_groups=NAMES), L12MTL(0.1, feature_groups=NAMES)):
        plain = model.fit(X, y, task=task).coef_.copy()
        np.testing.assert_allclose(model.fit(csr_array(X), y, task=task).coef_, plain, rtol=0, atol=1e-10)
        np.testing.assert_allclose(model.fit_moments(moments).coef_, plain, rtol=0, atol=1e-10)
        assert model.dual_gap_ <= 1e-10
        np.testing.assert_allclose(model.set_params(n_jobs=2).fit(X, y, task=task).coef_, plain, rtol=0, atol=1e-12)


def test_a_model_file_keeps_the_groups(tmp_path):
    X, y, task = made(11)
    model = MSMTFL(0.1, 0.5, feature_groups={"first": [0, 1], "last": [-1, -2, -3]}).fit(X, y, task=task)
    save_model(model, tmp_path / "model.msmtfl")
    again = load_model(tmp_path / "model.msmtfl")
    assert again.feature_groups_.tolist() == ["first", "first", *(f"x{j}" for j in range(2, 7)), "last", "last", "last"]
    assert np.array_equal(again.predict(X, task=task), model.predict(X, task=task))
    assert "groups" in msmtfl.formulas.formula(again)


def test_one_more_task_takes_the_groups():
    X, y, task = made(12)
    model = MSMTFL(0.1, 0.5, feature_groups=NAMES).fit(X[: 2 * N], y[: 2 * N], task=task[: 2 * N])
    before = model.row_norms_.copy()
    model.add_task(X[2 * N :], y[2 * N :], "w")
    assert together(model.coef_)
    assert model.dual_gap_ <= 1e-10
    added = [np.sqrt(len(g)) * np.linalg.norm(model.coef_[2, g]) for g in GROUPS]
    np.testing.assert_allclose((model.row_norms_ - before)[[g[0] for g in GROUPS]], added, atol=1e-12)
    with pytest.raises(ValueError, match="takes no task beside those"):
        L12MTL(0.1, feature_groups=NAMES).fit(X, y, task=task).add_task(X, y, "z")


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (NAMES[:4], "for each of the 10 features; got 4 names"),
        ("abc", "got a str"),
        ({"g": ["x1", "x2"], "h": ["x2"]}, "'x2' is in two groups of feature_groups, 'g' and 'h'"),
        ({"g": ["x1", "height"]}, "names column 'height', which X does not have"),
        ({"g": ["x1", 10]}, "names column 10, which"),
        ({"g": []}, "'g' of feature_groups has no columns"),
        ({"x4": ["x1", "x2"]}, "a group 'x4' without the column of that name"),
    ],
)
def test_groups_that_make_no_sense(groups, message):
    X, y, task = made()
    with pytest.raises(ValueError, match=message):
        MSMTFL(feature_groups=groups).fit(X, y, task=task)


def test_what_groups_do_not_go_with():
    X, y, task = made()
    for model in (MSMTFL(lam_entry=0.1, feature_groups=NAMES), MSMTFLCV(entry_shares=[0, 0.5], feature_groups=NAMES)):
        with pytest.raises(ValueError, match="single coefficients"):
            model.fit(X, y, task=task)
    for name in ("PartialPooling", "RobustMTL"):  # where they are names only, they have to make sense, too
        with pytest.raises(ValueError, match="got 4 names"):
            getattr(msmtfl, name)(feature_groups=NAMES[:4]).fit(X, y, task=task)


@pytest.mark.parametrize("lam", [0.03, 0.003, 0.001])
def test_shared_groups_are_solved_where_little_is_penalised(lam):
    """With more added to the diagonal than 1e-8 of it the common part did not arrive: a gap of 0.9 after 1,080 steps."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((240, 7)), np.repeat(np.arange(6), 40)
    W = rng.normal(size=(6, 7)) * (np.arange(7) < 4)
    y = (X * W[task]).sum(axis=1) + rng.standard_normal(240)
    model = SharedMTL(lam, lam, feature_groups={"a": [0, 1, 2], "b": [3, 4]}).fit(X, y, task=task)
    assert model.converged_
    assert model.dual_gap_ < 1e-12


# ------------------------------------------------------------------ families that are sums of parts


LEVELS = np.repeat(["r / u", "r / v", "s / w"], N)
PARTS = {
    "pooling": (lambda **more: msmtfl.PartialPooling(5.0, 1.0, **more), False),
    "armul": (lambda **more: msmtfl.RobustMTL(3.0, kind="armul", **more), False),
    "nested ridge": (lambda **more: msmtfl.NestedMTL(3.0, 1.0, lam_upper=2.0, kind="ridge", **more), False),
    "rmtfl": (lambda **more: msmtfl.RobustMTL(0.4, 0.2, kind="rmtfl", **more), True),
    "nested": (lambda **more: msmtfl.NestedMTL(0.05, 0.05, lam_upper=0.05, **more), True),
    "capped nested": (lambda **more: msmtfl.NestedMTL(0.05, 0.05, lam_upper=0.05, theta=0.3, **more), True),
    "pretrained": (lambda **more: msmtfl.PretrainedMTL(0.05, 0.2, alpha=0.4, **more), True),
}


def counts(y):
    return np.random.default_rng(0).poisson(np.exp(np.clip(0.5 * y, -2.0, 2.0))).astype(float)


@pytest.mark.parametrize("loss", ["squared", "huber", "poisson", "cox"])
@pytest.mark.parametrize("name", PARTS)
@pytest.mark.sampled(3)
def test_groups_in_models_that_are_sums_of_parts(name, loss):
    """Of one column they are what models are without, to the bit; where nothing is left out they are names only."""
    make, selects = PARTS[name]
    X, y, task = made(2)
    if loss == "poisson":
        y = counts(y)
    if loss == "cox":
        y = np.column_stack([np.exp(-0.3 * y), np.arange(len(y)) % 4 > 0])
    labels = LEVELS if "nested" in name else task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = make(loss=loss).fit(X, y, task=labels)
        alone = make(loss=loss, feature_groups=ONE_BY_ONE).fit(X, y, task=labels)
        model = make(loss=loss, feature_groups=NAMES).fit(X, y, task=labels)
    np.testing.assert_array_equal(alone.coef_, plain.coef_)
    assert not hasattr(alone, "feature_groups_")
    assert model.feature_groups_.tolist() == NAMES
    assert model.dual_gap_ <= 1e-9
    if not selects:
        np.testing.assert_array_equal(model.coef_, plain.coef_)
        np.testing.assert_array_equal(model.row_norms_, plain.row_norms_)
        return
    parts = [getattr(model, at, model.coef_) for at in ("coef_common_", "coef_effects_", "coef_shared_")]
    shared = [part for part in parts if part is not model.coef_]
    assert all(together(part) for part in shared)
    assert not np.array_equal(model.coef_, plain.coef_)
    firsts = [model.row_norms_[g] for g in GROUPS]
    assert all(len(set(one.tolist())) == 1 for one in firsts)


@pytest.mark.parametrize("loss", ["squared", "poisson"])
@pytest.mark.parametrize("name", ["pooling", "armul", "rmtfl", "pretrained"])
def test_groups_and_bounds_in_models_that_are_sums_of_parts(name, loss):
    make, selects = PARTS[name]
    X, y, task = made(3)
    y = counts(y) if loss == "poisson" else y
    bounded = make(loss=loss, feature_groups=NAMES, bounds=(0.0, 0.4)).fit(X, y, task=task)
    plain = make(loss=loss, bounds=(0.0, 0.4)).fit(X, y, task=task)
    assert ((bounded.coef_ >= 0.0) & (bounded.coef_ <= 0.4)).all()
    assert bounded.dual_gap_ <= 1e-9
    assert np.array_equal(bounded.coef_, plain.coef_) == (not selects)


def test_the_second_step_of_a_pretrained_lasso_is_a_lasso_over_groups():
    X, y, task = made(4)
    model = msmtfl.PretrainedMTL(0.05, 0.8, alpha=0.4, feature_groups=NAMES).fit(X, y, task=task)
    used = model.coef_common_ != 0.0
    assert 0 < used.sum() < D
    options = {"fit_intercept": True, "standardize": False, "positive": False, "feature_groups": NAMES}
    problem = make_problem(read_training(X, y, task=task), **options)
    folds = OffsetFolds(model.offset_folds, model.random_state)
    (first,) = pretrain(problem, np.array([0.8]), folds, tol=1e-8, max_iter=0)
    offset = 0.6 * np.concatenate(first.offsets)
    factors = np.where(used, 1.0, 1.0 / 0.4)
    second = LassoMTL(0.05, feature_groups=NAMES, penalty_factors=factors).fit(X, y, task=task, offset=offset)
    np.testing.assert_allclose(model.coef_specific_, second.coef_, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["pooling", "rmtfl", "nested", "pretrained"])
def test_searches_comparisons_maps_and_files_know_groups_of_parts(name, tmp_path):
    X, y, task = made(5)
    table = {
        "pooling": "PartialPoolingCV",
        "rmtfl": "RobustMTLCV",
        "nested": "NestedMTLCV",
        "pretrained": "PretrainedMTLCV",
    }
    more = {"kind": "rmtfl"} if name == "rmtfl" else {}
    sizes = {"ks": 6} if name == "pooling" else {"lams": 6}
    groups = dict(zip("abcde", [g.tolist() for g in GROUPS], strict=True))
    search = getattr(msmtfl, table[name])(cv=3, feature_groups=groups, **sizes, **more)
    search.fit(X, y, task=LEVELS if name == "nested" else task)
    assert search.feature_groups_.tolist() == NAMES
    assert search.dual_gap_ <= 1e-9
    save_model(search, tmp_path / "m.msmtfl")
    again = load_model(tmp_path / "m.msmtfl")
    np.testing.assert_array_equal(again.coef_, search.coef_)
    assert again.feature_groups_.tolist() == NAMES
    assert len(variables_of(again)) == D
    if name in ("rmtfl", "nested", "pretrained"):
        assert sharing_map(again).features.tolist() == list("abcde")


STUDY = Path(__file__).parents[2] / "benchmarks" / "studies" / "groups.py"
BOUNDED = ["lasso", "l12", "dirty", "shared", "rmtfl"]


@pytest.mark.slow
@pytest.mark.skipif(not STUDY.exists(), reason="no benchmarks beside the tests")
@pytest.mark.parametrize(
    ("family", "bounded"),
    [*((one, False) for one in [*BOUNDED, "nested", "pretrained"]), *((one, True) for one in BOUNDED)],
)
def test_groups_of_every_family_are_those_of_cvxpy(family, bounded):
    pytest.importorskip("cvxpy")
    beside_cvxpy = runpy.run_path(str(STUDY))["beside_cvxpy"]
    for seed in range(100):
        apart, gap, inside = beside_cvxpy(family, seed, bounded)
        assert -1e-6 <= apart <= 1e-8, seed  # below is what the peer has left
        assert gap <= 1e-8, seed
        assert inside, seed


@pytest.mark.parametrize("bounds", [None, (0.0, 0.5)])
@pytest.mark.parametrize(
    "make", [lambda **more: DirtyMTL(0.05, 0.11, **more), lambda **more: SharedMTL(0.1, 0.05, **more)]
)
def test_steps_in_all_at_once_and_by_multipliers_find_the_same(make, bounds, monkeypatch):
    X, y, task = made(7)
    arrived, at_once = [], block_norms.at_once

    def noted(work, most):
        found = at_once(work, most)
        arrived.append(found[2])
        return found

    monkeypatch.setattr(block_norms, "at_once", noted)
    quick = make(feature_groups=NAMES, bounds=bounds).fit(X, y, task=task)
    assert arrived[-1]
    monkeypatch.setattr(block_norms, "at_once", lambda work, most: (work.P, 0, False))
    slow = make(feature_groups=NAMES, bounds=bounds).fit(X, y, task=task)
    np.testing.assert_allclose(quick.coef_, slow.coef_, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(quick.coef_ == 0.0, slow.coef_ == 0.0)
    assert max(quick.dual_gap_, slow.dual_gap_) <= 1e-12


def test_columns_that_free_ones_explain_stop_no_other_group():
    """What rounding leaves of the gradients of the former made the way of the latter's lengths 0: a gap of 5e-3."""
    X, y, _ = made(2)
    model = PARTS["capped nested"][0](feature_groups=NAMES).fit(X, y, task=LEVELS)
    assert model.n_stages_ == 2
    assert model.stages_[1].free_rows.size
    assert model.dual_gap_ <= 1e-11
