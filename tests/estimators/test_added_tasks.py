"""One more task for a fitted model: every family, loss and kind of intercept, against conditions and fits from scratch."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from msmtfl import (
    L12MTL,
    L12MTLCV,
    MSMTFL,
    DirtyMTL,
    DirtyMTLClassifier,
    DirtyMTLCV,
    L12MTLClassifier,
    LassoMTL,
    MSMTFLClassifier,
    MSMTFLClassifierCV,
    MultiTaskAuto,
    NestedMTL,
    NestedMTLClassifier,
    PartialPooling,
    PartialPoolingClassifier,
    PartialPoolingCV,
    PretrainedMTL,
    PretrainedMTLCV,
    RobustMTL,
    SharedMTL,
    SharedMTLClassifier,
    SharedMTLCV,
)
from msmtfl.baselines import PooledLassoCV, PooledRidgeCV, RidgePerTaskCV
from msmtfl.model_files import load_model, save_model

M = 4  # tasks of the fits


def sites(seed=0, m=M + 1, n=40, d=10):
    """Tasks that have four features in common, with effects that differ; the last is new, with a dozen samples."""
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)) + 0.5, np.repeat(np.arange(m), n)
    W = np.zeros((m, d))
    W[:, :4] = [1.0, -0.8, 0.6, 0.5] + 0.3 * rng.standard_normal((m, 4))
    f = (X * W[task]).sum(axis=1) + 0.3 * task
    targets = {
        "squared": f + 0.5 * rng.standard_normal(m * n),
        "huber": f + 0.5 * rng.standard_t(2, m * n),
        "poisson": rng.poisson(np.exp(0.3 * f)).astype(float),
        "classes": np.where(f + rng.logistic(size=m * n) > 1.0, "yes", "no"),
    }
    old, new = task < m - 1, (task == m - 1) & (np.arange(m * n) % n < 14)
    return X, targets, task, old, new


def added(model, loss="squared", **options):
    X, targets, task, old, new = sites(**options)
    y = targets[loss]
    model.fit(X[old], y[old], task=task[old])
    before = {name: np.copy(getattr(model, name)) for name in ("coef_", "intercept_")}
    model.add_task(X[new], y[new], M)
    for name, values in before.items():
        np.testing.assert_array_equal(getattr(model, name)[:M], values)
    return model, X[new], y[new]


REGRESSIONS = [
    MSMTFL(),
    L12MTL(),
    L12MTL(theta=1.0, l1_ratio=0.6),
    DirtyMTL(),
    DirtyMTL(l1_ratio=0.6),
    SharedMTL(),
    SharedMTL(theta=0.5, l1_ratio=0.6),
    PartialPooling(k=5.0),
    PretrainedMTL(),
    RobustMTL(),
    NestedMTL(),
    NestedMTL(kind="ridge"),
]
CLASSIFIERS = [
    MSMTFLClassifier(theta=4.0),  # at the default some tasks are separated by features that are free
    L12MTLClassifier(),
    DirtyMTLClassifier(),
    SharedMTLClassifier(),
    PartialPoolingClassifier(k=5.0),
    NestedMTLClassifier(kind="ridge"),
]
CASES = [(model, loss) for model in REGRESSIONS for loss in ("squared", "huber", "poisson")]
CASES += [(model, "classes") for model in CLASSIFIERS]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("intercepts", ["task", "shrunk", "common"])
@pytest.mark.parametrize(("model", "loss"), CASES, ids=lambda one: one if isinstance(one, str) else repr(one))
def test_every_family_takes_one_more_task(model, loss, intercepts, tmp_path):
    model = type(model)(**model.get_params())
    if "loss" in model.get_params():
        model.set_params(loss=loss)
    if not model._can_share(intercepts):
        pytest.skip("the family has no such intercepts")
    if "intercepts" in model.get_params():
        model.set_params(intercepts=intercepts)
    model, X, _ = added(model, loss)
    assert model.tasks_.tolist() == [0, 1, 2, 3, 4]
    assert model.coef_.shape == (5, 10)
    assert model.certificate_.added == 1
    assert model.dual_gap_ <= 1e-8
    assert model.converged_
    if intercepts == "common":
        np.testing.assert_allclose(model.intercept_, model.common_level_, atol=1e-9)
    save_model(model, tmp_path / "model.msmtfl")
    same = load_model(tmp_path / "model.msmtfl")
    of_new = np.full(len(X), 4)
    np.testing.assert_array_equal(same.predict(X, task=of_new), model.predict(X, task=of_new))
    for name in ("coef_common_", "coef_deviation_", "coef_specific_", "coef_shared_", "scale_"):
        assert hasattr(model, name) == hasattr(same, name)
        if hasattr(model, name):
            np.testing.assert_array_equal(getattr(same, name), getattr(model, name))


@pytest.mark.parametrize("search", [L12MTLCV, DirtyMTLCV, SharedMTLCV, PartialPoolingCV, PretrainedMTLCV])
def test_searches_take_one_more_task(search):
    options = {"ks": 4} if search is PartialPoolingCV else {"lams": 5}
    model, _, _ = added(search(cv=3, **options))
    assert model.dual_gap_ <= 1e-8
    single = {L12MTLCV: L12MTL, DirtyMTLCV: DirtyMTL, SharedMTLCV: SharedMTL, PartialPoolingCV: PartialPooling}
    if search in single:  # at the strengths that were chosen it is the task that the fit adds
        names = ("lam", "theta", "lam_s", "lam_b", "lam_common", "lam_deviation", "k", "k_common")
        chosen = {name: getattr(model, f"{name}_") for name in names if hasattr(model, f"{name}_")}
        again, _, _ = added(single[search](**chosen))
        np.testing.assert_allclose(model.coef_[M], again.coef_[M], atol=1e-7)


# ------------------------------------------------------------------ optimality, from scratch


def downhill(model, X, y):
    """(d,): minus the gradient of |Xw - y|^2 / (m n) at the new task's coefficients, with the intercept of the model."""
    w, b = model.coef_[M], model.intercept_[M]
    assert abs((y - X @ w - b).sum()) < 1e-9 * len(y)
    return 2.0 * X.T @ (y - X @ w - b) / (M * len(y))


@pytest.mark.parametrize("lam", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("factors", [None, [0.0, 2.0, 1.0, 0.5, 1.0, 3.0, 1.0, np.inf, 1.0, 1.0]])
def test_l12_minimises_its_objective_with_the_others_held_fixed(lam, factors):
    """lam times the gradient of (a^2 + (f w)^2)^1/2, which at w = 0 is an interval where a is 0."""
    model, X, y = added(L12MTL(lam=lam, penalty_factors=factors))
    f = np.ones(10) if factors is None else np.array(factors)
    g, w = downhill(model, X, y), model.coef_[M]
    a = np.sqrt(((np.where(np.isinf(f), 0.0, f) * model.coef_[:M]) ** 2).sum(axis=0))
    used = np.isfinite(f) & (f > 0)
    smooth = used & (np.hypot(a, np.where(used, f, 0.0) * w) > 0.0)
    slope = lam * f[smooth] ** 2 * w[smooth] / np.hypot(a[smooth], f[smooth] * w[smooth])
    np.testing.assert_allclose(g[smooth], slope, atol=1e-10)
    np.testing.assert_allclose(g[f == 0.0], 0.0, atol=1e-10)
    at_kink = used & ~smooth
    assert (np.abs(g[at_kink]) <= lam * f[at_kink] + 1e-10).all()
    assert (w[np.isinf(f)] == 0.0).all()
    np.testing.assert_allclose(model.row_norms_, np.hypot(a, np.where(np.isinf(f), 0.0, f) * w), atol=1e-12)
    if lam < 0.3:
        assert smooth.sum() >= 3


@pytest.mark.parametrize(("lam_s", "lam_b"), [(0.02, 0.05), (0.1, 0.2), (0.3, 0.05)])
def test_dirty_minimises_its_objective_with_the_shared_part_held_fixed(lam_s, lam_b):
    """Nothing within the others' shared part; beyond it the smaller strength; any slope between at its ends."""
    model, X, y = added(DirtyMTL(lam_s=lam_s, lam_b=lam_b))
    g, w = downhill(model, X, y), model.coef_[M]
    reach, least = np.abs(model.coef_shared_[:M]).max(axis=0), min(lam_s, lam_b)
    inside, outside = np.abs(w) < reach, np.abs(w) > reach
    np.testing.assert_allclose(g[inside], 0.0, atol=1e-10)
    np.testing.assert_allclose(g[outside], least * np.sign(w[outside]), atol=1e-10)
    ends = ~inside & ~outside
    size = np.where(w[ends] == 0.0, np.abs(g[ends]), g[ends] * np.sign(w[ends]))
    assert (size >= -1e-10).all()
    assert (size <= least + 1e-10).all()
    np.testing.assert_allclose(model.coef_shared_ + model.coef_specific_, model.coef_, atol=1e-14)
    assert (np.abs(model.coef_shared_[M]) <= reach).all()


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_shared_is_the_lasso_of_deviations_from_the_common_values(loss):
    model, X, y = added(SharedMTL(lam_common=0.1, lam_deviation=0.05, loss=loss), loss)
    beside = X @ model.coef_common_
    alone = MSMTFL(lam=M * 0.05, max_stages=1, loss=loss).fit(X, y, offset=beside)
    np.testing.assert_allclose(model.coef_deviation_[M], alone.coef_, atol=1e-8)
    np.testing.assert_allclose(model.intercept_[M], alone.intercept_, atol=1e-8)
    np.testing.assert_allclose(model.coef_[M], model.coef_common_ + model.coef_deviation_[M], atol=1e-14)


def test_a_cap_that_the_fit_has_reached_leaves_deviations_free():
    model, X, y = added(SharedMTL(lam_common=0.1, lam_deviation=0.05, theta=0.1))
    free = model.row_slopes_ == 0.0
    assert free.any()
    np.testing.assert_allclose(downhill(model, X, y)[free], 0.0, atol=1e-10)


def test_without_deviations_a_new_task_has_the_common_values():
    model, _, _ = added(SharedMTL(lam_common=0.1, lam_deviation=np.inf))
    np.testing.assert_array_equal(model.coef_[M], model.coef_common_)
    model, _, _ = added(PartialPooling(k=np.inf, k_common=1.0))
    np.testing.assert_array_equal(model.coef_[M], model.coef_common_)


def test_partial_pooling_is_a_ridge_around_the_common_values():
    model, X, y = added(PartialPooling(k=7.0))
    Z, r = X - X.mean(axis=0), y - X @ model.coef_common_
    v = np.linalg.solve(Z.T @ Z + 7.0 * np.eye(10), Z.T @ (r - r.mean()))
    np.testing.assert_allclose(model.coef_deviation_[M], v, atol=1e-10)


@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
def test_the_pretrained_lasso_fits_its_second_step(alpha):
    model, X, y = added(PretrainedMTL(lam=0.05, alpha=alpha))
    used = model.coef_common_ != 0.0
    factors = np.where(used, 1.0, 1.0 / alpha if alpha else np.inf)
    alone = LassoMTL(lam=M * 0.05, penalty_factors=factors).fit(X, y - (1.0 - alpha) * X @ model.coef_common_)
    np.testing.assert_allclose(model.coef_specific_[M], alone.coef_, atol=1e-10)


def test_more_than_two_classes():
    X, targets, task, old, new = sites(seed=3)
    y = np.digitize(targets["squared"], [0.0, 1.5])
    model = MSMTFLClassifierCV(lams=5, cv=3, thetas=[np.inf], entry_shares=0, intercepts="shrunk")
    model.fit(X[old], y[old], task=task[old])
    model.add_task(X[new], y[new], M)
    assert model.coef_.shape == (5, 3, 10)
    assert model.intercept_.shape == (5, 3)
    assert model.target_mean_.shape == (5, 3)
    assert model.predict_proba(X[new], task=task[new]).shape == (14, 3)
    assert model.dual_gap_ <= 1e-8
    coupled = L12MTLClassifier().fit(X[old], y[old], task=task[old])
    with pytest.raises(ValueError, match="two classes only"):
        coupled.add_task(X[new], y[new], M)


def test_a_level_that_is_drawn_to_the_others_is_so_under_a_loss():
    """With no features to speak of the new intercept lies between its own rate and the common level."""
    X, targets, task, old, new = sites()
    y = targets["poisson"]
    tell = {}
    for intercepts in ("task", "shrunk", "common"):
        model = MSMTFL(lam=100.0, max_stages=1, loss="poisson", intercepts=intercepts)
        model.fit(X[old], y[old], task=task[old])
        tell[intercepts] = float(model.add_task(X[new][:5], y[new][:5] + 9, M).intercept_[M])
    assert tell["common"] < tell["shrunk"] < tell["task"]


# ------------------------------------------------------------------ what it refuses


@pytest.mark.parametrize("model", [L12MTL(), DirtyMTL(), SharedMTL(), PartialPooling(), PretrainedMTL()], ids=repr)
def test_what_every_family_refuses(model):
    X, targets, task, old, new = sites()
    y = targets["squared"]
    model = type(model)().fit(X[old], y[old], task=task[old])
    with pytest.raises(ValueError, match="task 1 already"):
        model.add_task(X[new], y[new], 1)
    with pytest.raises(ValueError, match="9 features, the model 10"):
        model.add_task(X[new][:, 1:], y[new], M)
    with pytest.raises(ValueError, match="offset"):
        model.add_task(X[new], y[new], M, offset=y[new])
    with pytest.raises(ValueError, match="0 sample"):
        model.add_task(X[new][:0], y[new][:0], M)
    assert model.coef_.shape == (M, 10)
    if "relax" in model.get_params():
        relaxed = type(model)(relax=True).fit(X[old], y[old], task=task[old])
        with pytest.raises(ValueError, match="relax"):
            relaxed.add_task(X[new], y[new], M)


def test_classes_that_the_fit_does_not_know():
    X, targets, task, old, new = sites()
    y = targets["classes"].astype(object)
    model = SharedMTLClassifier().fit(X[old], y[old], task=task[old])
    with pytest.raises(ValueError, match="'perhaps' in row 3, which is none of the classes of the fit: 'no', 'yes'"):
        model.add_task(X[new], np.where(np.arange(14) == 3, "perhaps", y[new]), M)
    with pytest.raises(ValueError, match="no row of class 'no'"):
        model.add_task(X[new], np.full(14, "yes"), M)
    with pytest.raises(ValueError, match="y must be 1-D"):
        model.add_task(X[new], np.column_stack([y[new], y[new]]), M)
    shrunk = SharedMTLClassifier(intercepts="shrunk").fit(X[old], y[old], task=task[old])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shrunk.add_task(X[new], np.full(14, "yes"), M)
    assert np.isfinite(shrunk.intercept_[M])


# ------------------------------------------------------------------ what it is good for


@pytest.mark.slow
def test_what_the_others_share_helps_a_task_of_ten_samples():
    """Squared error of the coefficients over 20 draws, beside a lasso of the new task alone at the same lam."""
    kinds = [L12MTL(lam=0.05), DirtyMTL(lam_s=0.05, lam_b=0.1), SharedMTL(lam_common=0.1, lam_deviation=0.05)]
    kinds += [PartialPooling(), PretrainedMTL(lam=0.05)]
    errors = np.zeros((20, len(kinds) + 1))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, task = rng.standard_normal((410, 20)), np.r_[np.repeat(np.arange(8), 50), np.full(10, 8)]
        W = np.zeros((9, 20))
        W[:, :5] = [1.0, -1.0, 1.0, -0.8, 0.7] + 0.2 * rng.standard_normal((9, 5))
        y = (X * W[task]).sum(axis=1) + rng.standard_normal(410)
        old = task < 8
        for i, kind in enumerate(kinds):
            model = type(kind)(**kind.get_params()).fit(X[old], y[old], task=task[old])
            errors[seed, i] = ((model.add_task(X[~old], y[~old], 8).coef_[8] - W[8]) ** 2).sum()
        errors[seed, -1] = ((LassoMTL(lam=0.4).fit(X[~old], y[~old]).coef_ - W[8]) ** 2).sum()
    better = errors[:, -1:] - errors[:, :-1]
    assert (better.mean(axis=0) > 2.0 * better.std(axis=0) / np.sqrt(20)).all(), errors.mean(axis=0)


# ------------------------------------------------------------------ baselines, and what was chosen automatically


def of_sites(seed=0, m=5, n=30, d=4):
    rng = np.random.default_rng(seed)
    task, X = np.repeat(np.arange(m), n), rng.standard_normal((m * n, d))
    y = X @ np.array([2.0, -1.0, 0.0, 1.0]) + 3.0 * task + 0.3 * rng.standard_normal(m * n)
    return X, y, task


@pytest.mark.parametrize("kind", [PooledRidgeCV, PooledLassoCV, RidgePerTaskCV])
def test_baselines_take_one_more_task(kind, tmp_path):
    X, y, task = of_sites()
    known, weight = task < 4, np.where(np.arange(len(y)) % 2, 1.0, 2.0)
    model = kind().fit(X[known], y[known], task=task[known])
    before = model.predict(X[known], task=task[known])
    model.add_task(X[~known], y[~known], 4, sample_weight=weight[~known])
    np.testing.assert_array_equal(model.predict(X[known], task=task[known]), before)
    rest = y[~known] - model.predict(X[~known], task=task[~known])
    assert np.average(rest, weights=weight[~known]) == pytest.approx(0.0, abs=1e-9)
    if kind is RidgePerTaskCV:
        alone = kind().fit(X[~known], y[~known], sample_weight=weight[~known])
        np.testing.assert_allclose(model.coef_[4], alone.coef_, atol=1e-12)
    else:
        np.testing.assert_array_equal(model.coef_[4], model.coef_[0])
    assert model.n_samples_[4] == 30
    assert model.feature_means_.shape == model.learnable_.shape == (5, 4)
    save_model(model, tmp_path / "model.json")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model.json").predict(X, task=task), model.predict(X, task=task)
    )
    with pytest.raises(ValueError, match="has a task 4 already"):
        model.add_task(X[~known], y[~known], 4)
    with pytest.raises(ValueError, match="3 features, the model 4"):
        model.add_task(X[~known][:, :3], y[~known], 5)
    with pytest.raises(ValueError, match="fitted without task labels"):
        kind().fit(X, y).add_task(X, y, "new")


def test_what_was_chosen_takes_one_more_task():
    X, y, task = of_sites()
    known = task < 4
    model = MultiTaskAuto(["lasso", "shared"], cv=3, inner_cv=3).fit(X[known], y[known], task=task[known])
    same = clone(model).fit(X[known], y[known], task=task[known]).best_estimator_.add_task(X[~known], y[~known], 4)
    assert model.add_task(X[~known], y[~known], 4) is model
    assert model.tasks_.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(model.coef_, same.coef_)
    assert np.mean((y[~known] - model.predict(X[~known], task=task[~known])) ** 2) < 0.3
