"""An offset: a known part of the linear predictor, in every model that is fitted and wherever rows are drawn."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn import config_context
from sklearn.linear_model import PoissonRegressor
from sklearn.model_selection import cross_validate

import msmtfl._solvers.lassos.proximal_newton as proximal_newton
from msmtfl import (
    L12MTL,
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    DirtyMTLCV,
    LassoMTL,
    LassoMTLCV,
    Moments,
    MSMTFLClassifier,
    MSMTFLClassifierCV,
    MultiTaskAuto,
    MultiTaskAutoClassifier,
    SharedMTL,
    SharedMTLCV,
    bootstrap_intervals,
    compare_models,
    regularization_surface,
    stability_selection,
)
from msmtfl._objective.losses import Logistic, Poisson
from msmtfl._objective.proofs.lasso_certificates import certify_lassos
from msmtfl.baselines import LogisticPerTaskCV, PooledLassoCV, PooledLogisticCV, PooledRidgeCV, RidgePerTaskCV
from msmtfl.export import to_sql
from msmtfl.formulas import formula
from msmtfl.model_files import load_model, save_model

FITS = [MSMTFL(), LassoMTL(), L12MTL(), DirtyMTL(), SharedMTL(), MSMTFL(loss="huber"), MSMTFL(relax=True)]
SEARCHES = [
    MSMTFLCV(8, cv=3, scoring="neg_mse"),
    LassoMTLCV(8, cv=3, scoring="neg_mse"),
    L12MTLCV(8, cv=3, scoring="neg_mse"),
    DirtyMTLCV(4, cv=3, scoring="neg_mse"),
    SharedMTLCV(4, cv=3, scoring="neg_mse"),
    MSMTFLCV(8, cv=3, loss="huber", scoring="neg_deviance"),
    MSMTFLCV(8, selection="ebic"),
    LassoMTLCV(8, cv=3, scoring="neg_mean_absolute_error"),
]
BASELINES = [RidgePerTaskCV(), PooledRidgeCV(), PooledLassoCV(lams=10)]


def name_of(model):
    return type(model).__name__ + str(getattr(model, "loss", "")) + str(getattr(model, "selection", ""))


@pytest.fixture(scope="module")
def numbers():
    """X, y, task and an offset that matters."""
    rng = np.random.default_rng(3)
    X, task = rng.standard_normal((90, 8)), np.tile(["a", "b", "c"], 30)
    offset = 3.0 * rng.standard_normal(90)
    return X, 2.0 * X[:, 0] - X[:, 3] + rng.standard_normal(90) + offset, task, offset


@pytest.fixture(scope="module")
def counts():
    """X, counts, task and exposures that differ by orders of magnitude."""
    rng = np.random.default_rng(4)
    X, task = rng.standard_normal((240, 6)), np.tile(["a", "b", "c"], 80)
    exposure = np.exp(1.5 * rng.standard_normal(240))
    y = rng.poisson(exposure * np.exp(0.5 * X[:, 0] - 0.3 * X[:, 3] + 0.2)).astype(float)
    return X, y, task, exposure


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(5)
    X, task, offset = rng.standard_normal((240, 5)), np.tile([0, 1, 2], 80), 1.5 * rng.standard_normal(240)
    p = 1.0 / (1.0 + np.exp(-X[:, 0] - offset))
    return X, np.where(rng.random(240) < p, "ill", "healthy"), task, offset


# ------------------------------------------------------------------ squared errors: a matter of the target


@pytest.mark.slow
@pytest.mark.parametrize("model", [*FITS, *SEARCHES, *BASELINES], ids=name_of)
@pytest.mark.sampled(3)
def test_numbers_are_fitted_less_their_offset(model, numbers):
    from sklearn.base import clone

    X, y, task, offset = numbers
    one = clone(model).fit(X, y, task=task, offset=offset)
    other = clone(model).fit(X, y - offset, task=task)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=0, atol=1e-12)
    found = one.predict(X, task=task, offset=offset)
    np.testing.assert_allclose(found, other.predict(X, task=task) + offset, rtol=0, atol=1e-12)
    assert one.uses_offset_
    assert not other.uses_offset_
    if hasattr(one, "best_point_"):
        assert one.best_point_ == other.best_point_
        assert one.best_score_ == pytest.approx(other.best_score_, rel=1e-9)


@pytest.mark.parametrize("shape", ["(n,)", "(n, m)"])
@pytest.mark.parametrize("model", [MSMTFL(), LassoMTLCV(6, cv=3, scoring="neg_mse"), PooledRidgeCV()], ids=name_of)
def test_offset_of_a_2d_target(model, shape):
    from sklearn.base import clone

    rng = np.random.default_rng(0)
    X, offset = rng.standard_normal((60, 5)), rng.standard_normal((60, 3))
    offset = offset[:, 0] if shape == "(n,)" else offset
    full = offset[:, None] if offset.ndim == 1 else offset
    Y = X[:, :1] + 0.1 * rng.standard_normal((60, 3)) + full
    Y[rng.random(60) < 0.3, 1] = np.nan
    given = (
        np.where(np.isnan(Y), np.nan, full) if offset.ndim == 2 else offset
    )  # known only where something was measured
    one, other = clone(model).fit(X, Y, offset=given), clone(model).fit(X, Y - full)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one.predict(X, offset=offset), other.predict(X) + full, rtol=0, atol=1e-12)
    assert one.score(X, Y, offset=given) > 0.9


def test_sample_weights_go_with_it(numbers):
    X, y, task, offset = numbers
    weight = np.random.default_rng(0).integers(0, 3, 90).astype(float)
    one = MSMTFLCV(6, cv=3, scoring="neg_mse").fit(X, y, task=task, offset=offset, sample_weight=weight)
    other = MSMTFLCV(6, cv=3, scoring="neg_mse").fit(X, y - offset, task=task, sample_weight=weight)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", ["sparse", "float32", "table"])
def test_forms_of_data(form, numbers, counts, monkeypatch):
    import scipy.sparse

    X, y, task, offset = numbers
    _, cases, of_case, exposure = counts
    Z = counts[0]
    if form == "sparse":
        make = scipy.sparse.csr_array
    elif form == "float32":
        monkeypatch.setattr("msmtfl._data.tables.KEPT_ABOVE", 0)

        def make(X):
            return X.astype(np.float32)
    else:
        pd = pytest.importorskip("pandas")

        def make(X):
            return pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])

    one = MSMTFLCV(6, cv=3, scoring="neg_mse").fit(make(X), y, task=task, offset=offset)
    other = MSMTFLCV(6, cv=3, scoring="neg_mse").fit(make(X), y - offset, task=task)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=0, atol=1e-12)
    options = {"lam": 0.05, "theta": 0.4, "loss": "poisson"}
    dense = MSMTFL(**options).fit(np.float64(np.float32(Z)), cases, task=of_case, offset=np.log(exposure))
    found = MSMTFL(**options).fit(make(np.float64(np.float32(Z))), cases, task=of_case, offset=np.log(exposure))
    np.testing.assert_allclose(found.coef_, dense.coef_, atol=1e-7)
    assert found.dual_gap_ <= 1e-8


def test_new_tasks_have_offsets_too(counts):
    X, y, task, exposure = counts
    offset = np.log(exposure)
    model = MSMTFL(0.05, loss="poisson", unknown_task="mean").fit(X, y, task=task, offset=offset)
    with pytest.warns(UserWarning, match="were not in the training data") as said:
        found = model.predict(X[:9], task=["new"] * 9, offset=offset[:9])
    expected = np.exp(offset[:9] + X[:9] @ model.coef_.mean(axis=0) + model.intercept_.mean())
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    every = np.exp(offset[:9, None] + X[:9] @ model.coef_.T + model.intercept_)  # how far known tasks lie apart
    assert f"differ by {np.sqrt(every.var(axis=1, ddof=1).mean()):.2g}" in str(said[0].message)


# ------------------------------------------------------------------ counts and classes


@pytest.mark.slow
def test_free_poisson_is_the_model_of_rates(counts):
    """Counts with offset log e are rates y / e of weight e."""
    X, y, task, exposure = counts
    model = MSMTFL(1.0, np.inf, loss="poisson", penalty_factors=np.zeros(6)).fit(
        X, y, task=task, offset=np.log(exposure)
    )
    for i, label in enumerate("abc"):
        own = task == label
        rates = PoissonRegressor(alpha=0.0, tol=1e-12, solver="newton-cholesky")
        rates.fit(X[own], y[own] / exposure[own], sample_weight=exposure[own])
        np.testing.assert_allclose(model.coef_[i], rates.coef_, atol=1e-9)
        assert model.intercept_[i] == pytest.approx(rates.intercept_, abs=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("lam", [0.02, 0.2])
def test_poisson_with_exposure_is_that_of_rates(counts, lam, fit_intercept):
    X, y, _, exposure = counts
    options = {"loss": "poisson", "fit_intercept": fit_intercept}
    scale = len(y) / exposure.sum()  # 1/n of the counts, 1/(sum of weights) of the rates
    one = MSMTFL(lam, **options).fit(X, y, offset=np.log(exposure))
    other = MSMTFL(lam * scale, **options).fit(X, y / exposure, sample_weight=exposure)
    assert one.coef_.any()
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-10)
    assert one.intercept_ == pytest.approx(other.intercept_, abs=1e-10)
    assert one.lam_max_ * scale == pytest.approx(other.lam_max_, rel=1e-10)
    found = one.predict(X, offset=np.log(exposure)) / exposure
    np.testing.assert_allclose(found, other.predict(X), rtol=1e-10)


def test_largest_lam_leaves_nothing(counts):
    X, y, task, exposure = counts
    offset = np.log(exposure)
    top = MSMTFL(loss="poisson").fit(X, y, task=task, offset=offset).lam_max_
    assert not MSMTFL(1.0001 * top, loss="poisson").fit(X, y, task=task, offset=offset).coef_.any()
    assert MSMTFL(0.999 * top, loss="poisson").fit(X, y, task=task, offset=offset).coef_.any()
    none = MSMTFL(2.0 * top, loss="poisson").fit(X, y, task=task, offset=offset)
    for i, label in enumerate("abc"):  # the null model: one rate per task
        own = task == label
        assert none.intercept_[i] == pytest.approx(np.log(y[own].sum() / exposure[own].sum()), abs=1e-10)
        assert none.dual_gap_ <= 1e-10


@pytest.mark.parametrize("loss", [Poisson(), Logistic()], ids=["poisson", "logistic"])
@pytest.mark.parametrize("compiled", [True, False])
def test_minimum_is_that_of_another_solver(loss, compiled, monkeypatch):
    """Against a general optimiser, on smooth halves w = p - q of the coefficients."""
    if not compiled:
        monkeypatch.setattr(proximal_newton, "COMPILED", ())
    for seed in range(4):
        rng = np.random.default_rng(seed)
        n, d, lam = 40, 4, 0.05 + 0.1 * rng.random()
        X, offset = rng.standard_normal((n, d)), rng.standard_normal(n)
        f = X[:, 0] + offset
        y = (
            rng.poisson(np.exp(f)).astype(float)
            if isinstance(loss, Poisson)
            else (rng.random(n) < 1 / (1 + np.exp(-f)))
        )
        y = y.astype(float)

        def value(z, X=X, y=y, offset=offset, lam=lam, n=n, d=d):
            p, q, b = z[:d], z[d : 2 * d], z[-1]
            f = offset + X @ (p - q) + b
            slope = 2.0 / n * loss.slope(y, f)
            down = X.T @ slope
            return (
                2.0 / n * loss.value(y, f).sum() + lam * (p + q).sum(),
                np.concatenate([down + lam, lam - down, [slope.sum()]]),
            )

        bounds = [(0, None)] * (2 * d) + [(None, None)]
        options = {"maxiter": 10_000, "ftol": 1e-16, "gtol": 1e-12}
        best = minimize(value, np.zeros(2 * d + 1), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        if isinstance(loss, Poisson):
            model = MSMTFL(lam, np.inf, loss="poisson").fit(X, y, offset=offset)
        else:
            model = MSMTFLClassifier(lam, np.inf).fit(X, y.astype(int), offset=offset)
        assert model.objective_ == pytest.approx(best.fun, abs=1e-8)
        assert model.dual_gap_ <= 1e-10


def test_certificate_sees_what_is_not_optimal(counts):
    from msmtfl._data.tasks import read_training
    from msmtfl._solvers.problems.make_problem import make_problem

    X, y, _, exposure = counts
    data = read_training(X, y, offset=np.log(exposure))
    problem = make_problem(data, loss="poisson", fit_intercept=True, standardize=False, positive=False)
    a = np.full(6, 0.05 * len(y) / 2)
    w = MSMTFL(0.05, np.inf, loss="poisson").fit(X, y, offset=np.log(exposure)).coef_
    right, wrong = certify_lassos(problem, 0, np.array([w, 1.1 * w]), np.array([a, a]))
    assert right.gap <= 1e-10 * right.unit < 1e-3 * right.unit < wrong.gap


def test_constant_counts_of_other_exposures_are_no_perfect_fit():
    """An intercept fits targets that are all alike, but not beside an offset."""
    rng = np.random.default_rng(0)
    X, exposure = rng.standard_normal((60, 3)), np.exp(rng.standard_normal(60))
    model = MSMTFL(10.0, np.inf, loss="poisson").fit(X, np.full(60, 2.0), offset=np.log(exposure))
    assert not model.coef_.any()
    assert model.intercept_ == pytest.approx(np.log(120.0 / exposure.sum()))
    assert model.objective_ > 0.0


def test_exposures_of_any_size():
    """Offsets far from 0 are no more than another intercept."""
    rng = np.random.default_rng(1)
    X, exposure = rng.standard_normal((80, 4)), np.exp(rng.standard_normal(80))
    y = rng.poisson(exposure * np.exp(X[:, 0])).astype(float)
    near = MSMTFL(0.1, loss="poisson").fit(X, y, offset=np.log(exposure))
    for shift in (-200.0, -20.0, 20.0, 200.0):
        far = MSMTFL(0.1, loss="poisson").fit(X, y, offset=np.log(exposure) + shift)
        np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-9)
        assert far.intercept_ + shift == pytest.approx(near.intercept_, abs=1e-9)
        assert far.dual_gap_ <= 1e-9


def test_what_separates_still_has_no_minimiser():
    """Free features that hold counts at 0 are found, whatever the exposures are."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = np.where(X[:, 0] > 0, rng.poisson(3.0, 60) + 1.0, 0.0)
    y[X[:, 0] > 0] += 1.0
    X[X[:, 0] > 0, 0] = 0.0
    for offset in (np.zeros(60), rng.standard_normal(60) + 8.0, rng.standard_normal(60) - 8.0):
        with pytest.warns(UserWarning, match="x0"):
            MSMTFL(0.5, np.inf, loss="poisson", penalty_factors=[0.0, 1.0, 1.0]).fit(X, y, offset=offset)


@pytest.mark.parametrize("scoring", ["neg_nmse", "neg_deviance", "neg_mean_poisson_deviance"])
def test_folds_predict_with_their_own_offsets(counts, scoring):
    """What a search says of its folds is what fits on them say."""
    X, y, task, exposure = counts
    offset = np.log(exposure)
    folds = _folds(task, 3)
    model = MSMTFLCV([0.3, 0.05], thetas=[np.inf], loss="poisson", cv=folds, scoring=scoring)
    model.fit(X, y, task=task, offset=offset)
    for k, lam in enumerate([0.3, 0.05]):
        for f, (train, test) in enumerate(folds):
            one = MSMTFL(lam, np.inf, loss="poisson").fit(X[train], y[train], task=task[train], offset=offset[train])
            mu = one.predict(X[test], task=task[test], offset=offset[test])
            deviance = 2 * Poisson().value(y[test], np.log(mu))
            score = {
                "neg_nmse": -np.mean(
                    [np.mean((y[test] - mu)[task[test] == t] ** 2) / y[task == t].var() for t in "abc"]
                ),
                "neg_deviance": -deviance.mean(),
                "neg_mean_poisson_deviance": -deviance.mean(),
            }[scoring]
            assert model.cv_results_[f"split{f}_test_score"][k] == pytest.approx(score, rel=1e-8)


def _folds(task, n):
    """Pairs of rows, as many of every task in each."""
    place = np.empty(len(task), dtype=int)
    for label in np.unique(task):
        place[task == label] = np.arange((task == label).sum()) % n
    return [(np.flatnonzero(place != f), np.flatnonzero(place == f)) for f in range(n)]


def test_exposure_finds_effects_that_counts_hide(counts):
    X, y, task, exposure = counts
    options = {"loss": "poisson", "scoring": "neg_deviance", "cv": 3}
    with_it = MSMTFLCV(15, **options).fit(X, y, task=task, offset=np.log(exposure))
    without = MSMTFLCV(15, **options).fit(X, y, task=task)
    assert with_it.best_score_ > 0.5 * without.best_score_  # deviances
    np.testing.assert_allclose(with_it.coef_[:, 0], 0.5, atol=0.2)


@pytest.mark.parametrize(
    "model",
    [
        MSMTFLClassifier(0.02),
        MSMTFLClassifierCV(8, cv=3),
        PooledLogisticCV("l1", cv=3, lams=8),
        PooledLogisticCV("l2", cv=3),
        LogisticPerTaskCV(cv=3),
    ],
    ids=name_of,
)
def test_classifiers(model, classes):
    from sklearn.base import clone

    X, y, task, offset = classes
    fitted = clone(model).fit(X, y, task=task, offset=offset)
    odds = fitted.decision_function(X, task=task, offset=offset)
    np.testing.assert_allclose(odds - offset, fitted.decision_function(X, task=task, offset=0.0), atol=1e-12)
    p = fitted.predict_proba(X, task=task, offset=offset)
    np.testing.assert_allclose(p[:, 1], 1.0 / (1.0 + np.exp(-odds)))
    np.testing.assert_allclose(np.log(p), fitted.predict_log_proba(X, task=task, offset=offset))
    assert np.array_equal(fitted.predict(X, task=task, offset=offset), fitted.classes_[p.argmax(axis=1)])
    without = clone(model).fit(X, y, task=task)
    assert fitted.score(X, y, task=task, offset=offset) > without.score(X, y, task=task)
    residual = (y == "ill") - p[:, 1]  # intercepts fit what is left
    np.testing.assert_allclose([residual[task == i].mean() for i in range(3)], 0.0, atol=2e-3)


def test_more_than_two_classes_have_no_offset(classes):
    X, _, task, offset = classes
    y = np.arange(len(X)) // 3 % 3
    for model in (MSMTFLClassifier(), MSMTFLClassifierCV(), PooledLogisticCV(), MultiTaskAutoClassifier()):
        with pytest.raises(ValueError, match="two classes, but there are 3"):
            model.fit(X, y, task=task, offset=offset)
    with pytest.raises(ValueError, match="two classes, but there are 3"):
        MSMTFLClassifier().fit(X, y, task=task).predict(X, task=task, offset=offset)


# ------------------------------------------------------------------ comparing, and what is asked of models


@pytest.mark.slow
def test_comparison_of_numbers_is_that_of_targets_less_offset(numbers):
    X, y, task, offset = numbers
    names = ["lasso", "msmtfl", "shared", "ridge per task", "pooled lasso", "pooled ridge"]
    one = compare_models(X, y, task=task, offset=offset, models=names, cv=3, leave_one_task_out=True)
    other = compare_models(X, y - offset, task=task, models=names, cv=3, leave_one_task_out=True)
    np.testing.assert_allclose(one.unit, other.unit)  # relative to what is left to explain
    np.testing.assert_allclose(one.errors, other.errors, rtol=1e-4)  # kept as float32
    np.testing.assert_allclose(one.new_task, other.new_task, rtol=1e-6)
    assert np.median(one.errors) < 2.0  # of the noise, not of the offset


@pytest.mark.slow
@pytest.mark.parametrize("nested", [False, True])
def test_comparison_of_counts(counts, nested):
    X, y, task, exposure = counts
    options = {"loss": "poisson", "lams": 6, "cv": 3, "scoring": "neg_mse"}
    models = {"one": MSMTFLCV(thetas=[np.inf], **options), "two": MSMTFLCV(**options)}
    given = {"task": task, "cv": 3, "models": models, "nested": nested}
    with_it = compare_models(X, y, offset=np.log(exposure), **given)
    without = compare_models(X, y, **given)
    assert with_it.error.max() < 0.3 * without.error.min()


@pytest.mark.slow
def test_comparison_of_classes(classes):
    X, y, task, offset = classes
    names = ["lasso", "ridge per task", "pooled lasso", "pooled ridge"]
    with_it = compare_models(X, y, task=task, offset=offset, models=names, classify=True, cv=3)
    without = compare_models(X, y, task=task, models=names, classify=True, cv=3)
    assert (with_it.error < without.error - 0.1).all()


def test_comparison_says_who_takes_no_offset(numbers):
    class Plain(LassoMTL):
        def fit(self, X, y, *, task=None):
            return super().fit(X, y, task=task)

    X, y, task, offset = numbers
    with pytest.raises(TypeError, match=r"model 'plain' \(Plain\) has no fit\(..., offset=...\)"):
        compare_models(X, y, task=task, offset=offset, models={"plain": Plain(), "lasso": LassoMTL()})


def test_automatic_choice(numbers, classes):
    X, y, task, offset = numbers
    auto = MultiTaskAuto(["lasso", "pooled lasso", "ridge per task"], cv=3).fit(X, y, task=task, offset=offset)
    assert auto.uses_offset_
    assert auto.score(X, y, task=task, offset=offset) > 0.9
    with pytest.raises(ValueError, match="fitted with an offset"):
        auto.predict(X, task=task)
    X, y, task, offset = classes
    auto = MultiTaskAutoClassifier(["lasso", "pooled ridge"], cv=3).fit(X, y, task=task, offset=offset)
    p = auto.predict_proba(X, task=task, offset=offset)[:, 1]
    np.testing.assert_allclose(p, 1.0 / (1.0 + np.exp(-auto.decision_function(X, task=task, offset=offset))))


def test_surface_and_what_a_search_left_out(counts):
    X, y, task, exposure = counts
    offset = np.log(exposure)
    surface = regularization_surface(X, y, task=task, offset=offset, loss="poisson", lams=[0.1], thetas=[np.inf])
    alone = MSMTFL(0.1, np.inf, loss="poisson").fit(X, y, task=task, offset=offset)
    np.testing.assert_allclose(surface.coef(0, 0), alone.coef_, atol=1e-10)
    own = MSMTFL(loss="poisson").surface(X, y, task=task, offset=offset, lams=[0.1], thetas=[np.inf])
    np.testing.assert_allclose(own.coef(0, 0), alone.coef_, atol=1e-10)
    model = MSMTFLCV(12, loss="poisson", cv=3).fit(X, y, task=task, offset=offset)
    with pytest.raises(ValueError, match="fitted with an offset"):
        model.complete_surface(X, y, task=task)
    model.complete_surface(X, y, task=task, offset=offset)
    assert model.surface_.complete.all()
    last = MSMTFL(model.lams_[-1], np.inf, loss="poisson").fit(X, y, task=task, offset=offset)
    column = int(np.flatnonzero(np.isinf(model.thetas_[-1]))[0])
    np.testing.assert_allclose(model.surface_.coef(len(model.lams_) - 1, column), last.coef_, atol=1e-8)


def test_resampling_takes_offsets_along(numbers):
    X, y, task, offset = numbers
    one = stability_selection(LassoMTL(0.3), X, y, task=task, offset=offset, n_pairs=4)
    other = stability_selection(LassoMTL(0.3), X, y - offset, task=task, n_pairs=4)
    assert np.array_equal(one.frequency, other.frequency)
    model = LassoMTL(0.3).fit(X, y, task=task, offset=offset)
    with pytest.raises(ValueError, match="fitted with an offset"):
        bootstrap_intervals(model, X, y, task=task, n_boot=50)
    one = bootstrap_intervals(model, X, y, task=task, offset=offset, n_boot=50)
    other = bootstrap_intervals(LassoMTL(0.3).fit(X, y - offset, task=task), X, y - offset, task=task, n_boot=50)
    np.testing.assert_allclose(one.lower, other.lower, atol=1e-10)
    assert one.same_rows


def test_added_task(numbers):
    X, y, task, offset = numbers
    first, new = task != "c", task == "c"
    model = MSMTFL(0.2).fit(X[first], y[first], task=task[first], offset=offset[first])
    with pytest.raises(ValueError, match="fitted with an offset"):
        model.add_task(X[new], y[new], "c")
    model.add_task(X[new], y[new], "c", offset=offset[new])
    plain = MSMTFL(0.2).fit(X[first], (y - offset)[first], task=task[first])
    plain.add_task(X[new], (y - offset)[new], "c")
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-12)
    with pytest.raises(ValueError, match="fitted without an offset"):
        plain.add_task(X[new], y[new], "d", offset=offset[new])


# ------------------------------------------------------------------ scikit-learn, files, words


def test_metadata_routing(counts):
    X, y, task, exposure = counts
    offset = np.log(exposure)
    with config_context(enable_metadata_routing=True):
        model = MSMTFL(0.05, loss="poisson").set_fit_request(task=True, offset=True)
        model.set_score_request(task=True, offset=True)
        found = cross_validate(model, X, y, cv=_folds(task, 3), params={"task": task, "offset": offset})
    scores = []
    for train, test in _folds(task, 3):
        one = MSMTFL(0.05, loss="poisson").fit(X[train], y[train], task=task[train], offset=offset[train])
        scores.append(one.score(X[test], y[test], task=task[test], offset=offset[test]))
    np.testing.assert_allclose(found["test_score"], scores)
    assert min(scores) > 0.5


@pytest.mark.parametrize("ending", ["msmtfl", "json"])
def test_files_remember(numbers, ending, tmp_path):
    X, y, task, offset = numbers
    path = tmp_path / f"model.{ending}"
    for model in (MSMTFL().fit(X, y, task=task, offset=offset), PooledRidgeCV().fit(X, y, task=task, offset=offset)):
        save_model(model, path)
        again = load_model(path)
        assert again.uses_offset_
        found = again.predict(X, task=task, offset=offset)
        assert np.array_equal(found, model.predict(X, task=task, offset=offset))
        with pytest.raises(ValueError, match="fitted with an offset"):
            again.predict(X, task=task)


def test_words(numbers):
    X, y, task, offset = numbers
    model = MSMTFL().fit(X, y, task=task, offset=offset)
    assert "Xᵢ wᵢ + intercept + offset" in formula(model)
    assert "offset" not in formula(MSMTFL().fit(X, y, task=task))
    with pytest.raises(ValueError, match="fitted with an offset"):
        to_sql(model)


# ------------------------------------------------------------------ bad input


def test_offset_missing_at_predict(numbers):
    X, y, task, offset = numbers
    model = MSMTFL().fit(X, y, task=task, offset=offset)
    for use in (model.predict, lambda X, task: model.score(X, y, task=task)):
        with pytest.raises(ValueError, match=r"fitted with an offset: pass offset=.*offset=0.0 for none"):
            use(X, task=task)
    zeros = model.predict(X, task=task, offset=np.zeros(len(X)))
    assert np.array_equal(model.predict(X, task=task, offset=0.0), zeros)
    plain = MSMTFL().fit(X, y, task=task)
    np.testing.assert_allclose(plain.predict(X, task=task, offset=offset), plain.predict(X, task=task) + offset)
    model.fit(X, y, task=task)
    model.predict(X, task=task)  # of the last fit


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (np.zeros(7), r"offset has shape \(7,\); expected \(90,\): one value per row of X"),
        (np.zeros((90, 2)), r"offset has shape \(90, 2\); expected \(90,\)"),
        (np.where(np.arange(90) == 4, np.nan, 0.0), "offset must be finite; row 4 holds nan"),
        (np.where(np.arange(90) == 5, -np.inf, 0.0), r"row 5 holds -inf.*exposure > 0"),
        ([None, *[0.0] * 89], "offset must be finite; row 0 holds nan"),
        (["much"] * 90, "offset must be numbers, one per row: .*much"),
        (np.arange(90).astype("M8[D]"), "offset holds dates"),
    ],
    ids=["length", "shape", "nan", "log 0", "missing", "text", "dates"],
)
def test_bad_offsets(numbers, offset, message):
    X, y, task, _ = numbers
    model = MSMTFL().fit(X, y, task=task, offset=np.zeros(90))
    for use in (
        lambda: MSMTFL().fit(X, y, task=task, offset=offset),
        lambda: PooledRidgeCV().fit(X, y, task=task, offset=offset),
        lambda: MSMTFLCV(4, cv=3).fit(X, y, task=task, offset=offset),
        lambda: compare_models(X, y, task=task, offset=offset, models=["lasso", "pooled ridge"]),
        lambda: model.predict(X, task=task, offset=offset),
    ):
        with pytest.raises(ValueError, match=message):
            use()


def test_offset_of_a_2d_target_names_the_task():
    X, offset = np.random.default_rng(0).standard_normal((20, 3)), np.zeros((20, 2))
    offset[3, 1] = np.nan
    with pytest.raises(ValueError, match="row 3, task 1 holds nan"):
        MSMTFL().fit(X, X[:, :2], offset=offset)
    with pytest.raises(ValueError, match=r"expected \(20,\) or \(20, 2\)"):
        MSMTFL().fit(X, X[:, :2], offset=np.zeros((20, 3)))
    pd = pytest.importorskip("pandas")
    Y = pd.DataFrame(X[:, :2], columns=["north", "south"])
    with pytest.raises(ValueError, match="row 3, task 'south' holds nan"):
        MSMTFL().fit(X, Y, offset=pd.DataFrame(offset))
    with pytest.raises(ValueError, match="row 3, task 'south' holds nan"):
        MSMTFL().fit(X, Y).predict(X, offset=offset)


def test_theory_takes_it_or_says_so(numbers):
    from msmtfl.optimum import global_minimum
    from msmtfl.theory import check_conditions, check_starts

    X, y, task, offset = numbers
    X = X[:, :4]
    model = MSMTFL(0.2).fit(X, y, task=task, offset=offset)
    plain = MSMTFL(0.2).fit(X, y - offset, task=task)
    for ask in (global_minimum, check_starts):
        with pytest.raises(ValueError, match="fitted with an offset"):
            ask(model, X, y, task=task)
    one, other = global_minimum(model, X, y, task=task, offset=offset), global_minimum(plain, X, y - offset, task=task)
    assert one.objective == pytest.approx(other.objective, rel=1e-12)
    assert str(check_starts(model, X, y, task=task, offset=offset)) == str(
        check_starts(plain, X, y - offset, task=task)
    )
    with pytest.raises(ValueError, match="without an offset: fit to y - offset"):
        check_conditions(model, X, y, task=task)


def test_clusters_say_how_to_do_without():
    dask = pytest.importorskip("msmtfl.dask")
    for ask in (dask.DaskMSMTFL().fit, dask.DaskMSMTFL().surface, dask.DaskMSMTFLCV().fit):
        with pytest.raises(ValueError, match=r"subtract the offset from y.*add it to the predictions"):
            ask(None, offset=np.zeros(3))


def test_statistics_have_no_rows_for_it(numbers):
    from msmtfl._data.statistics.moment_data import MomentData

    X, y, task, offset = numbers
    moments = Moments()
    moments.update(X, y, task=task)
    with pytest.raises(ValueError, match=r"needs rows.*subtract it from y before.*add it to the predictions"):
        MSMTFL().fit(MomentData([moments], None), None, offset=offset)
    moments = Moments()
    moments.update(X, y - offset, task=task)
    np.testing.assert_allclose(
        MSMTFL().fit_moments(moments).coef_, MSMTFL().fit(X, y, task=task, offset=offset).coef_, atol=1e-10
    )


class TestHowTheProblemIsWritten:
    """A fit with an offset is the fit to y - offset, with the same scores and the same choice."""

    def data(self):
        rng = np.random.default_rng(3)
        task = np.repeat(["a", "b", "c"], 30)
        X = rng.standard_normal((90, 6))
        noise = np.where(task == "a", 0.3, 3.0)
        y = np.where(task == "a", X[:, 0] + X[:, 1], X[:, 0]) + noise * rng.standard_normal(90)
        # offsets that make the quiet task's targets vary most: by variances of y alone it would hardly count
        return X, y, task, np.where(task == "a", 100.0, 0.1) * rng.standard_normal(90)

    @pytest.mark.parametrize("kind", [LassoMTLCV, MSMTFLCV])
    @pytest.mark.parametrize("scoring", ["neg_nmse", "neg_amse"])
    def test_searches(self, kind, scoring):
        X, y, task, offset = self.data()
        plain = kind(lams=8, cv=4, scoring=scoring).fit(X, y, task=task)
        beside = kind(lams=8, cv=4, scoring=scoring).fit(X, y + offset, task=task, offset=offset)
        assert beside.best_score_ == pytest.approx(plain.best_score_, rel=1e-6)
        assert beside.lam_ == pytest.approx(plain.lam_)
        np.testing.assert_allclose(beside.coef_, plain.coef_, atol=1e-8)

    def test_counts_are_relative_to_themselves(self):
        """The logarithm of an exposure is not in the units of counts."""
        rng = np.random.default_rng(0)
        X, task = rng.standard_normal((80, 3)), np.tile(["a", "b"], 40)
        offset = np.log(rng.uniform(1, 9, 80))
        y = rng.poisson(np.exp(offset + 0.5 * X[:, 0]))
        model = MSMTFLCV(lams=4, cv=3, loss="poisson", scoring="neg_nmse").fit(X, y, task=task, offset=offset)
        f = model.cv_results_["test_mse"][model.best_index_] / [y[task == "a"].var(), y[task == "b"].var()]
        assert model.best_score_ == pytest.approx(-f.mean(), rel=0.1)
