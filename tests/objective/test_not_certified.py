"""What is not known is not certified: gaps are never negative, nothing that was dropped is proven, and the words say why."""

import warnings
from dataclasses import replace

import numpy as np
import oracles
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from msmtfl import L12MTL, MSMTFL, DirtyMTL, LassoMTL, Moments, SharedMTL, regularization_surface
from msmtfl._data.forms.dense import DenseRows, RowTask
from msmtfl._data.statistics.task_moments import MomentTask, TaskMoments
from msmtfl._objective.proofs.certificates import certify
from msmtfl._objective.proofs.dual_points import Doubt, over_unit
from msmtfl._solvers.lassos.weighted_lasso import Lassos
from msmtfl.model_files import load_model, save_model
from msmtfl.report.sentences import certificate

WILD = np.repeat([0, 12, 16, 20], 5)


def quietly(fit, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(*arguments, **options)


def gap_of(model, X, y, factors=1.0):
    """The oracle's, of a lasso on one task."""
    task = oracles.task_of(X, y, centre=model.fit_intercept)
    a = 0.5 * len(y) * model.lam_ * factors * np.ones(X.shape[1])
    return oracles.lasso_gap([task], np.atleast_2d(model.coef_), a[None])


# ------------------------------------------------------------------ gaps are >= 0


def test_columns_of_wild_scales():
    """Solved, so that no answer is worse than zeros, and what is certified is right."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((12, 20)) * 10.0**WILD, rng.standard_normal(12)
        model = quietly(LassoMTL(0.05).fit, X, y)
        assert model.dual_gap_ >= 0.0
        assert model.converged_ == (model.dual_gap_ <= model.tol)
        assert model.score(X, y) >= 0.0
        if model.converged_:
            assert gap_of(model, X, y) <= 1e-8


@pytest.mark.parametrize("lam", [1e-8, 1e-10, 1e-12, 1e-14, 1e-16, 1e-18])
def test_small_lams_are_certified_and_tight(lam):
    """Right answers of well-posed problems have small gaps at every lam, and none is negative."""
    for seed in range(8):
        (X,), (y,) = oracles.random_tasks(seed, m=1, n=40, d=12)
        model = LassoMTL(lam, tol=1e-9).fit(X, y)
        true = gap_of(model, X, y)
        assert abs(true) <= 1e-10
        assert true - 1e-18 <= model.dual_gap_ <= 1e-9


@pytest.mark.parametrize("family", [L12MTL, DirtyMTL, SharedMTL])
def test_small_lams_of_models_with_rows(family):
    """The gap is no larger than the oracle's, but for what a dual point costs at a lam next to nothing."""
    rng, f = np.random.default_rng(0), np.ones((5, 3))
    X, task = rng.standard_normal((90, 5)), np.repeat([0, 1, 2], 30)
    y = X[:, 0] - X[:, 1] + rng.standard_normal(90)
    tasks = [oracles.task_of(X[task == i], y[task == i]) for i in range(3)]
    for lam in (1e-9, 1e-11, 1e-13, 1e-15):
        one = np.full(5, lam)
        norm = {
            L12MTL: oracles.Group(one, f),
            DirtyMTL: oracles.Dirty(lam, lam, f),
            SharedMTL: oracles.Shared(one, one, f),
        }
        model = quietly(family(*([lam] if family is L12MTL else [lam, lam])).fit, X, y, task=task)
        true = oracles.rows_gap(tasks, model.coef_, norm[family])
        assert true * (1 - 1e-9) - 1e-18 <= model.dual_gap_ <= 2 * true + 1e-9


@pytest.mark.parametrize(
    ("gap", "unit", "share"),
    [
        (1.0, 4.0, 0.25),
        (0.0, 0.0, 0.0),
        (1.0, 0.0, np.inf),
        (-1e-9, 1.0, np.inf),
        (np.nan, 1.0, np.inf),
        (1.0, np.nan, np.inf),
    ],
)
def test_what_is_no_proof_is_an_infinite_gap(gap, unit, share):
    assert over_unit(gap, unit) == share


def test_coefficients_that_are_not_finite_have_an_infinite_gap():
    (X,), (y,) = oracles.random_tasks(1, m=1, n=20, d=3, active=2)
    assert certify(RowTask(DenseRows(X, None, False), y), np.array([np.nan, 0.0, 0.0]), np.ones(3)).gap == np.inf
    assert certify(RowTask(DenseRows(X, None, False), y), np.array([1e300, 0.0, 0.0]), np.ones(3)).gap == np.inf


# ------------------------------------------------------------------ a loss that underflows


@pytest.mark.parametrize("route", ["rows", "sparse", "moments", "huber", "l12", "dirty", "shared"])
def test_targets_whose_squares_underflow_are_not_certified(route):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 3)), 1e-170 * rng.standard_normal(30)
    fit = {
        "rows": lambda: LassoMTL(1e-180).fit(X, y),
        "sparse": lambda: LassoMTL(1e-180).fit(csr_array(X), y),
        "moments": lambda: LassoMTL(1e-180).fit_moments(Moments().update(X, y)),
        "huber": lambda: MSMTFL(1e-180, np.inf, loss="huber").fit(X, y),
        "l12": lambda: L12MTL(1e-180).fit(X, y),
        "dirty": lambda: DirtyMTL(1e-180, 1e-180).fit(X, y),
        "shared": lambda: SharedMTL(1e-180, 1e-180).fit(X, y),
    }[route]
    with pytest.warns(ConvergenceWarning, match="not certified.*too small for floats.*Rescale y"):
        model = fit()
    assert not model.converged_
    assert model.dual_gap_ == np.inf
    assert "not certified" in model.stopping_reason_
    assert str(model.certificate_).startswith("NOT solved, not certified")
    assert "Rescale y" in str(model.certificate_)


@pytest.mark.parametrize("y", [np.zeros(20), np.full(20, 0.1)], ids=["zero", "constant"])
@pytest.mark.parametrize("loss", ["squared", "huber", "poisson"])
def test_targets_that_an_intercept_fits_are_certified(loss, y):
    if loss == "poisson" and not y.any():
        pytest.skip("no intercept fits counts that are all 0: an error")
    X = np.random.default_rng(0).standard_normal((20, 3))
    model = MSMTFL(0.1, np.inf, loss=loss).fit(X, y)
    assert model.dual_gap_ == 0.0
    assert model.converged_
    assert not model.coef_.any()


# ------------------------------------------------------------------ nothing that was dropped is proven


def far_off_zero(n=200):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2)) + 1e6
    return X, X[:, 0] - X[:, 1] + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("route", ["rows", "moments", "partial_fit", "float32 and batches"])
def test_columns_far_off_zero_without_an_intercept(route):
    """Statistics hold the means apart: nothing is lost, by any route."""
    X, y = far_off_zero()
    model = LassoMTL(0.05, penalty_factors=[0, 0], fit_intercept=False)
    if route == "rows":
        model.fit(X, y)
    elif route == "moments":
        model.fit_moments(Moments().update(X[:70], y[:70]) + Moments().update(X[70:], y[70:]))
    else:
        for part in np.array_split(np.arange(200), 5):
            model.partial_fit(X[part], y[part])
    assert model.converged_
    assert model.score(X, y) > 0.994
    assert gap_of(model, X, y, 0.0) <= 1e-12
    np.testing.assert_allclose(model.coef_, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-6)


def nearly_dependent(distance, n=200):
    """Two features at some distance, relative to their length; what they differ by is all that matters."""
    rng = np.random.default_rng(0)
    x, q = rng.standard_normal((2, n))
    X = np.column_stack([x, x + distance * q])
    return X, q + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("distance", [1e-9, 1e-11, 1e-13])
def test_statistics_that_do_not_hold_a_direction_say_so(distance, fit_intercept):
    X, y = nearly_dependent(distance)
    model = LassoMTL(0.05, penalty_factors=[0, 0], fit_intercept=fit_intercept)
    with pytest.warns(ConvergenceWarning, match="not certified") as said:
        model.fit_moments(Moments().update(X, y))
    assert gap_of(model, X, y, 0.0) > 0.1  # it is indeed not found
    assert model.dual_gap_ > 0.1
    assert not model.converged_
    text = str(said[0].message)
    assert "the statistics of task 0 hold no digits of the fit of features" in text
    assert "('x0', 'x1')" in text
    assert "or fit to rows" in text
    assert text[:-1] == model.stopping_reason_
    assert model.certificate_.doubt in model.stopping_reason_


@pytest.mark.parametrize("distance", [1e-12, 1e-13])
def test_rows_that_do_not_hold_a_direction_say_so(distance):
    X, y = nearly_dependent(distance)
    with pytest.warns(ConvergenceWarning, match="not certified.*rounding leaves .* digits? of the fit of features"):
        model = LassoMTL(0.05, penalty_factors=[0, 0]).fit(X, y)
    assert not model.converged_
    assert "'x0', 'x1'" in model.stopping_reason_


@pytest.mark.parametrize("distance", [1e-3, 1e-5])
def test_rows_and_statistics_that_hold_a_direction_find_it(distance):
    X, y = nearly_dependent(distance)
    rows = LassoMTL(0.05, penalty_factors=[0, 0]).fit(X, y)
    assert rows.converged_
    assert rows.score(X, y) > 0.98
    sums = LassoMTL(0.05, penalty_factors=[0, 0]).fit_moments(Moments().update(X, y))
    assert sums.converged_
    assert sums.score(X, y) > 0.98
    assert max(gap_of(model, X, y, 0.0) for model in (rows, sums)) <= 1e-8


def test_copies_that_are_not_penalised_are_certified():
    """Exactly dependent columns hide nothing: rows and statistics say the same."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    X = np.column_stack([X, X[:, 1], 2.5 * X[:, 2], X[:, 0] - X[:, 3], (np.arange(60) % 2), 1 - (np.arange(60) % 2)])
    y = X @ rng.standard_normal(9) + rng.standard_normal(60)
    factors = np.zeros(9)
    for model in (
        LassoMTL(0.05, penalty_factors=factors).fit(X, y),
        LassoMTL(0.05, penalty_factors=factors).fit_moments(Moments().update(X, y)),
    ):
        assert model.converged_
        assert model.dual_gap_ <= 1e-10
        assert not model.certificate_.unique


def test_rows_made_of_statistics_have_these_statistics():
    rng = np.random.default_rng(0)
    X, y, weight = rng.standard_normal((40, 5)) + 100.0, rng.standard_normal(40) + 10.0, rng.uniform(0.5, 2.0, 40)
    X[:, 3], X[:, 4] = X[:, 0] + X[:, 1], 7.0
    for centre in (True, False):
        task = MomentTask(TaskMoments.of(X, y, weight), centre)
        rows = task.as_rows()
        assert len(rows.target) <= 7
        scale = np.sqrt(np.where(task.squares > 0, task.squares, 1.0))
        np.testing.assert_allclose(
            rows.gram() / np.outer(scale, scale), task.gram() / np.outer(scale, scale), atol=1e-13
        )
        np.testing.assert_allclose(rows.c / scale, task.c / scale, atol=1e-12 * np.sqrt(task.yy))
        assert rows.yy == pytest.approx(task.yy, rel=1e-13)
        assert rows.n == task.n


# ------------------------------------------------------------------ words


def test_a_certificate_says_what_can_be_done():
    (X,), (y,) = oracles.random_tasks(3, m=1, n=20, d=4)
    good = LassoMTL(0.1).fit(X, y).certificate_
    assert "not certified" not in str(good)
    bad = replace(good, dual_gap=np.inf, doubt="the reason. The way out")
    assert str(bad).splitlines()[:3] == [
        f"NOT solved, not certified: relative duality gap inf (tolerance 1e-08), optimality violation {good.kkt:.1e}",
        "  the reason. The way out",
        "the objective is convex: others may have a smaller one, by no more than the gap",
    ]
    for gap in (-1.0, np.nan):
        assert not replace(good, dual_gap=gap).optimal
    first = certificate(bad)[0]
    assert (first.mark, first.details) == ("care", ["the reason. The way out"])


def test_a_model_file_keeps_the_doubt(tmp_path):
    X, y = nearly_dependent(1e-12)
    model = quietly(LassoMTL(0.05, penalty_factors=[0, 0]).fit, X, y)
    save_model(model, tmp_path / "a.msmtfl")
    again = load_model(tmp_path / "a.msmtfl")
    assert str(again.certificate_) == str(model.certificate_)
    assert "not certified" in again.stopping_reason_


def test_an_added_task_that_is_not_certified_unsettles_the_model():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((80, 2)), np.repeat(["a", "b"], 40)
    model = LassoMTL(0.05, penalty_factors=[0, 0]).fit(X, X @ [1.0, -1.0] + rng.standard_normal(80), task=task)
    assert model.converged_
    Z, z = nearly_dependent(1e-12)
    with pytest.warns(ConvergenceWarning, match="not certified.*in task 'new' rounding leaves"):
        model.add_task(Z, z, "new")
    assert not model.converged_
    assert "not certified" in model.stopping_reason_
    assert str(model.certificate_).startswith("NOT solved, not certified")


def test_points_of_a_surface_that_are_not_certified_have_not_converged():
    X, y = nearly_dependent(1e-12)
    surface = regularization_surface(X, y, lams=3, theta_ratios=[np.inf], penalty_factors=[0, 0])
    assert (surface.dual_gap > surface.tol).all()
    assert not surface.converged.any()
    assert all("not certified" in reason for reason in surface.stopping_reason.ravel())


# ------------------------------------------------------------------ what solvers hand over


def test_sliding_among_minimisers_does_not_lose_the_minimum():
    """Columns of wild scales: the solver's own minimiser is kept where rounding would move the fit."""
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((12, 20)) * 10.0**WILD, rng.standard_normal(12)
    design, a = RowTask(DenseRows(X, None, True), y), np.full((1, 20), 0.3)
    W, _ = Lassos([design]).solve(a)
    assert design.loss(W[0]) <= 1e-12 * design.yy


def test_zeros_rather_than_what_rounding_left():
    """lam next to nothing on nearly dependent columns, from statistics: no fit is worse than none."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((31, 5))
        X[:, 2:] = X[:, :1] + 1e-10 * X[:, 2:]
        y, task = rng.standard_t(1.5, 31), np.repeat([0, 1], [24, 7])
        model = SharedMTL(4e-18, 4e-18, fit_intercept=False)
        quietly(model.fit_moments, Moments().update(X, y, task=task))
        assert model.dual_gap_ <= 1.0 + 1e-12
        loss = sum(((y - X @ model.coef_[i])[task == i] ** 2).mean() for i in range(2))
        assert loss <= sum((y[task == i] ** 2).mean() for i in range(2)) * (1 + 1e-12)


def test_stages_of_one_task_do_not_share_their_coefficients():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    y = 3 * X[:, 0] + 0.5 * rng.standard_normal(40)
    model = L12MTL(0.5, theta=1.0).fit(X, y)
    first, last = model.stages_[0], model.stages_[-1]
    assert first.free_rows.size == 0
    assert last.free_rows.size == 1
    assert abs(first.coef[0, 0]) < abs(last.coef[0, 0]) - 0.1  # stage 1 shrinks it
    np.testing.assert_allclose(first.coef, LassoMTL(0.5).fit(X, y).coef_[None], atol=1e-9)


@pytest.mark.parametrize("kind", ["underflow", "dependent", "rounding", "far", "unfinished"])
def test_every_doubt_names_a_way_out(kind):
    from msmtfl._objective.proofs.certificates import explain

    for statistics in (False, True):
        text = explain(Doubt(kind, np.array([1, 0]), 3, statistics, 1), ["north", "south"], np.array(["x0", "bmi"]))
        assert any(words in text for words in ("Rescale", "rescale", "Raise"))
        if kind == "dependent":
            assert "'bmi', 'x0'" in text
            assert "about 3 digits" in text
        if kind not in ("far", "unfinished"):
            assert "'south'" in text
