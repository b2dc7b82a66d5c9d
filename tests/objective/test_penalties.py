"""Concave penalties on rows and entries: shapes, weights, the bi-level model, surfaces of it."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import Lasso

from msmtfl import L12MTL, MSMTFL, MSMTFLCV, LassoMTL, regularization_surface
from msmtfl._objective.penalties import ConcaveEntries, ConcaveGroups, ConcaveRows
from msmtfl._objective.shapes import MCP, SCAD, SHAPES, Capped, LogSum, Power, read_shape
from msmtfl._solvers.stages import CONVEX, REPEATS, SAME_WEIGHTS
from msmtfl.datasets import make_multitask
from msmtfl.metrics import parameter_error
from msmtfl.model_files import load_model, save_model

EVERY = [*SHAPES.values(), SCAD(2.2), Power(0.1)]
rng = np.random.default_rng(0)
D, M = 6, 3
FACTORS = rng.uniform(0.5, 2.0, (D, M))
FACTORS[1, 2], FACTORS[4, 0] = 0.0, np.inf


@pytest.fixture(scope="module")
def sample():
    return make_multitask(m=5, n=40, d=60, sigma=0.05, normalize=False, random_state=3)


def penalties(shape, theta=1.0, theta_entry=0.4):
    yield ConcaveRows(0.7, theta, FACTORS, shape)
    yield ConcaveRows(0.7, theta, FACTORS, shape, 0.5, theta_entry)
    yield ConcaveRows(0.0, theta, FACTORS, shape, 0.5, theta_entry)
    yield ConcaveEntries(0.7, np.inf, FACTORS, shape, 0.5, theta_entry, rng.uniform(size=D))


def draw(scale=0.6):
    W = scale * rng.standard_normal((D, M))
    W[0], W[4, 0] = 0.0, 0.0
    return W


# ------------------------------------------------------------------ shapes


@pytest.mark.parametrize("shape", EVERY, ids=repr)
@pytest.mark.parametrize("theta", [0.3, 1.0, 20.0])
def test_slopes_are_derivatives_of_values(shape, theta):
    t, h = np.linspace(0.013, 30.0, 997), 1e-6
    numeric = (shape.value(t + h, theta) - shape.value(t - h, theta)) / (2 * h)
    corner = np.isclose(t, theta, atol=2e-6) & isinstance(shape, Capped)
    np.testing.assert_allclose(shape.slope(t, theta)[~corner], numeric[~corner], atol=2e-7)
    assert shape.value(np.zeros(1), theta) == 0.0
    assert shape.slope(np.zeros(1), theta) == 1.0


@pytest.mark.parametrize("shape", EVERY, ids=repr)
def test_shapes_are_concave_and_rise(shape):
    t = np.linspace(0.0, 12.0, 301)
    slopes = shape.slope(t, 2.0)
    assert (slopes >= 0).all()
    assert (np.diff(slopes) <= 0).all()


@pytest.mark.parametrize("shape", EVERY, ids=repr)
def test_the_weights_majorise_the_penalty(shape):
    for penalty in penalties(shape):
        for _ in range(50):
            here, there = draw(), draw(rng.choice([0.1, 1.0, 4.0]))
            weights = penalty.weights(penalty.pattern(here))
            assert (weights >= 0).all()
            assert np.isinf(weights[4, 0])
            used = np.isfinite(weights)
            rise = (weights[used] * (np.abs(there) - np.abs(here))[used]).sum()
            assert penalty.value(there) <= penalty.value(here) + rise + 1e-12


@pytest.mark.parametrize("shape", EVERY, ids=repr)
def test_the_weights_are_the_derivatives_of_the_value(shape):
    for penalty in penalties(shape):
        W, h = draw(), 1e-6
        weights = penalty.weights(penalty.pattern(W))
        for j, i in np.argwhere((W != 0) & np.isfinite(FACTORS)):
            step = np.zeros_like(W)
            step[j, i] = h * np.sign(W[j, i])
            numeric = (penalty.value(W + step) - penalty.value(W - step)) / (2 * h)
            assert abs(weights[j, i] - numeric) < 1e-6


@pytest.mark.parametrize("shape", EVERY, ids=repr)
def test_infinite_theta_is_the_lasso_in_every_shape(shape):
    penalty, W = ConcaveRows(0.7, np.inf, FACTORS, shape, 0.5, np.inf), draw()
    plain = ConcaveRows(1.2, np.inf, FACTORS)
    assert penalty.convex
    assert penalty.value(W) == pytest.approx(plain.value(W), rel=1e-14)
    np.testing.assert_allclose(penalty.weights(penalty.pattern(W)), plain.weights(plain.pattern(W)), rtol=1e-14)


@pytest.mark.parametrize(
    ("penalty", "error", "match"),
    [
        ("l0", ValueError, "'capped', 'mcp'.*got 'l0'"),
        (3, TypeError, r"value\(t, theta\) and slope"),
        (MCP, TypeError, "object with value"),
        (SCAD(1.0), ValueError, "a of SCAD must be > 1"),
        (Power(1.5), ValueError, "q of Power must be between"),
    ],
)
def test_what_is_no_shape_is_refused(penalty, error, match):
    with pytest.raises(error, match=match):
        MSMTFL(penalty=penalty).fit(np.eye(3), np.ones(3))


class Own:
    """t / (1 + t / theta) unless told otherwise."""

    def value(self, t, theta):
        return t / (1.0 + t / theta)

    def slope(self, t, theta):
        return 1.0 / (1.0 + t / theta) ** 2


class Convex(Own):
    def slope(self, t, theta):
        return 1.0 + t


class Steep(Own):
    def slope(self, t, theta):
        return 2.0 * Own.slope(self, t, theta)


class Wrong(Own):
    def slope(self, t, theta):
        return 1.0 / (1.0 + t / theta) ** 6


def test_a_shape_of_ones_own_is_tried_out(sample):
    X, y, task, _ = sample
    model = MSMTFL(0.05, 2.0, penalty=Own(), max_stages=60).fit(X, y, task=task)
    assert model.converged_
    assert model.certificate_.monotone
    for wrong, match in ((Convex(), "never rise"), (Steep(), "slope 1 at t = 0"), (Wrong(), "does not majorise")):
        with pytest.raises(ValueError, match=match):
            read_shape(wrong)


class InPlace:
    def value(self, t, theta):
        return theta * (1.0 - np.exp(-t / theta))

    def slope(self, t, theta):
        out = t.copy()
        out /= -theta
        return np.exp(out, out=out)


def test_a_shape_of_ones_own_gets_numbers_also_where_nothing_is_used(sample):
    X, y, task, _ = sample
    surface = regularization_surface(X, y, task=task, lams=[100.0, 0.1], theta_ratios=[4.0], penalty=InPlace())
    assert not surface.coef(0, 0).any()
    assert surface.coef(1, 0).any()


# ------------------------------------------------------------------ models


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lam_entry", [0.0, 0.03])
def test_stages_go_downhill_to_a_critical_point(sample, shape, lam_entry):
    X, y, task, _ = sample
    model = MSMTFL(0.03, 1.0, lam_entry=lam_entry, theta_entry=0.3, penalty=shape, max_stages=60).fit(X, y, task=task)
    assert model.converged_
    assert model.certificate_.monotone
    assert model.certificate_.critical < 1e-7
    assert max(stage.dual_gap for stage in model.stages_) < 1e-10
    assert model.stopping_reason_ == (REPEATS if shape == "capped" and not lam_entry else SAME_WEIGHTS)


def test_every_stage_is_the_weighted_lasso_that_the_formula_says(sample):
    X, y, task, _ = sample
    lam, theta, lam_entry, theta_entry = 0.04, 6.0, 0.06, 1.0
    model = MSMTFL(lam, theta, lam_entry=lam_entry, theta_entry=theta_entry).fit(X, y, task=task)
    assert model.n_stages_ > 2
    W = np.zeros_like(model.coef_)
    for stage in model.stages_:
        weights = lam * (np.abs(W).sum(axis=0) < theta) + lam_entry * (np.abs(W) < theta_entry)
        for i in range(5):
            rows, penalised = task == i, weights[i] > 0
            Xi, yi = X[rows] - X[rows].mean(axis=0), y[rows] - y[rows].mean()
            F = Xi[:, ~penalised]
            away = np.eye(rows.sum()) - F @ np.linalg.pinv(F)  # free columns are projected out
            scaled = away @ Xi[:, penalised] / weights[i, penalised]
            lasso = Lasso(alpha=5 / 2, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(scaled, away @ yi)
            np.testing.assert_allclose(stage.coef[i, penalised], lasso.coef_ / weights[i, penalised], atol=1e-7)
        W = stage.coef
        penalty = (
            lam * np.minimum(np.abs(W).sum(axis=0), theta).sum() + lam_entry * np.minimum(np.abs(W), theta_entry).sum()
        )
        centred = [
            y[task == i] - y[task == i].mean() - (X[task == i] - X[task == i].mean(axis=0)) @ W[i] for i in range(5)
        ]
        assert stage.objective == pytest.approx(sum(r @ r / (5 * len(r)) for r in centred) + penalty, rel=1e-12)


def test_without_a_penalty_on_rows_the_tasks_are_apart(sample):
    X, y, task, _ = sample
    together = MSMTFL(0.0, lam_entry=0.05, theta_entry=0.3).fit(X, y, task=task)
    for i in range(5):
        alone = MSMTFL(0.0, lam_entry=5 * 0.05, theta_entry=0.3).fit(X[task == i], y[task == i])
        np.testing.assert_allclose(together.coef_[i], alone.coef_, atol=1e-12)


def test_entries_that_are_never_free_add_to_the_lasso(sample):
    X, y, task, _ = sample
    mixed = MSMTFL(0.02, np.inf, lam_entry=0.03, theta_entry=np.inf).fit(X, y, task=task)
    np.testing.assert_allclose(mixed.coef_, LassoMTL(0.05).fit(X, y, task=task).coef_, atol=1e-12)
    assert mixed.stopping_reason_ == CONVEX


def test_bad_parameters_are_named(sample):
    X, y, task, _ = sample
    for parameters, match in (
        ({"lam": 0.0}, "lam must be > 0"),
        ({"lam_entry": -1.0}, "lam_entry must be >= 0"),
        ({"lam_entry": 0.1, "theta_entry": 0.0}, "theta_entry must be > 0"),
    ):
        with pytest.raises(ValueError, match=match):
            MSMTFL(**parameters).fit(X, y, task=task)


@pytest.mark.parametrize("shape", ["mcp", "log"])
def test_one_task_and_one_feature_at_a_time_is_a_minimum(shape):
    """With orthogonal columns the problem falls apart into scalars, which a search over a grid can solve."""
    Q = np.linalg.qr(np.random.default_rng(1).standard_normal((40, 5)))[0] * np.sqrt(40)
    y = Q @ [3.0, -1.0, 0.4, 0.1, 0.0]
    model = MSMTFL(0.5, 2.0, penalty=shape, fit_intercept=False, max_stages=200).fit(Q, y)
    assert model.converged_
    for c, w in zip(Q.T @ y / 40, model.coef_, strict=True):
        t = np.linspace(-4, 4, 800_001)
        value = (t - c) ** 2 + 0.5 * SHAPES[shape].value(np.abs(t), 2.0)
        assert abs(t[np.argmin(value)] - w) < 2e-5


def test_groups_of_any_shape(sample):
    X, y, task, _ = sample
    penalty = ConcaveGroups(0.1, 1.0, np.ones((60, 5)), LogSum())
    W = L12MTL(0.1).fit(X, y, task=task).coef_.T
    slopes = 1.0 / (1.0 + np.linalg.norm(W, axis=1))
    np.testing.assert_allclose(penalty.weights(penalty.pattern(W)).a, 0.1 * slopes, rtol=1e-14)
    model = L12MTL(0.1, 1.0, penalty="mcp", max_stages=50).fit(X, y, task=task)
    assert model.converged_
    assert model.certificate_.critical < 1e-7


def test_one_more_task_has_the_weights_of_rows_and_stages_of_its_own(sample):
    X, y, task, _ = sample
    old = task < 4
    model = MSMTFL(0.02, 2.0, lam_entry=0.04, theta_entry=0.4).fit(X[old], y[old], task=task[old])
    slopes = model.row_slopes_.copy()
    assert 0 < (slopes == 0).sum() < 60
    model.add_task(X[~old], y[~old], 4)
    w = np.zeros(60)
    Xi, yi = X[~old] - X[~old].mean(axis=0), y[~old] - y[~old].mean()
    for _ in range(10):
        weights = 0.02 * slopes + 0.04 * (np.abs(w) < 0.4)
        free = weights == 0
        away = np.eye(len(yi)) - Xi[:, free] @ np.linalg.pinv(Xi[:, free])
        lasso = Lasso(alpha=4 / 2, fit_intercept=False, tol=1e-14, max_iter=100_000)
        w = np.zeros(60)
        w[~free] = lasso.fit(away @ Xi[:, ~free] / weights[~free], away @ yi).coef_ / weights[~free]
        w[free] = np.linalg.lstsq(Xi[:, free], yi - Xi @ w, rcond=None)[0]
    np.testing.assert_allclose(model.coef_[4], w, atol=1e-7)


# ------------------------------------------------------------------ surfaces and cross-validation


@pytest.mark.parametrize(("shape", "standardize"), [("capped", True), ("scad", False)])
def test_every_point_of_a_surface_is_a_fit_of_its_own(sample, shape, standardize):
    X, y, task, _ = sample
    options = {"standardize": standardize, "penalty": shape, "max_stages": 300}
    surface = regularization_surface(
        X, y, task=task, lams=3, lam_min_ratio=0.02, theta_ratios=[2, 8], entry_shares=[0, 0.3, 1], **options
    )
    assert surface.thetas.shape == (3, 2 + 4 + 2)
    frame = surface.to_dict()
    assert frame["dual_gap"].max() < 1e-10
    for p, (k, l) in enumerate(np.ndindex(3, 8)):
        parameters = {name: values[k, l] for name, values in surface.parameters.items()}
        model = MSMTFL(**parameters, **options).fit(X, y, task=task)
        assert surface.converged[k, l] == model.converged_
        np.testing.assert_allclose(surface.coef(k, l), model.coef_, atol=1e-8)
        assert frame["objective"][p] == pytest.approx(model.objective_, rel=1e-9)
        assert surface.stopping_reason[k, l] == model.stopping_reason_
        assert frame["n_free_rows"][p] == len(model.stages_[-1].free_rows)


def test_the_default_grid_has_the_papers_model_and_the_mixture(sample):
    X, y, task, _ = sample
    model = MSMTFLCV(lams=8, cv=3).fit(X, y, task=task)
    assert set(model.surface_.shares) == {0.0, 0.5}
    again = MSMTFL(model.lam_, model.theta_, lam_entry=model.lam_entry_, theta_entry=model.theta_entry_)
    np.testing.assert_allclose(again.fit(X, y, task=task).coef_, model.coef_, atol=1e-8)
    paper = MSMTFLCV(lams=8, cv=3, entry_shares=0).fit(X, y, task=task)
    assert paper.lam_entry_ == 0
    assert MSMTFLCV(lams=8, cv=3, theta_ratios=[4, 8]).fit(X, y, task=task).thetas_.shape == (8, 2)


def test_the_model_within_rows_finds_the_truth_where_the_papers_does_not():
    X, y, task, coef = make_multitask(random_state=200)
    options = {"lams": 20, "cv": 4, "fit_intercept": False}
    bilevel, paper = (MSMTFLCV(entry_shares=s, **options).fit(X, y, task=task) for s in (None, 0))
    assert bilevel.lam_entry_ > 0
    assert parameter_error(coef, bilevel.coef_) < 0.4 * parameter_error(coef, paper.coef_)


def test_bad_shares_are_named(sample):
    X, y, task, _ = sample
    for shares, match in (([], "one or more"), ([0.2, 1.2], r"entry_shares\[1\] is 1.2"), ("half", "must be numbers")):
        with pytest.raises(ValueError, match=match):
            MSMTFLCV(entry_shares=shares).fit(X, y, task=task)
    with pytest.raises(ValueError, match=r"entry_ratios must be > 0 .*entry_ratios\[0\] is -1"):
        MSMTFLCV(entry_ratios=[-1.0]).fit(X, y, task=task)


def test_a_saved_model_is_the_same(sample, tmp_path):
    X, y, task, _ = sample
    model = MSMTFL(0.02, 2.0, lam_entry=0.04, theta_entry=0.4).fit(X, y, task=task)
    save_model(model, tmp_path / "a.msmtfl")
    again = load_model(tmp_path / "a.msmtfl")
    assert (again.lam_entry_, again.theta_entry_) == (0.04, 0.4)
    np.testing.assert_array_equal(again.row_slopes_, model.row_slopes_)
    np.testing.assert_array_equal(again.predict(X, task=task), model.predict(X, task=task))


def test_a_smooth_shape_in_one_dimension_agrees_with_a_general_minimiser(sample):
    X, y, task, _ = sample
    few, rows = slice(0, 3), task == 0
    Xi, yi = X[rows, few], y[rows]
    model = MSMTFL(0.3, 4.0, penalty="log", fit_intercept=False, max_stages=200).fit(Xi, yi)

    def objective(w):
        return ((yi - Xi @ w) ** 2).mean() + 0.3 * SHAPES["log"].value(np.abs(w), 4.0).sum()

    starts = [
        minimize(objective, start, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-13})
        for start in np.random.default_rng(0).standard_normal((5, 3))
    ]
    assert objective(model.coef_) <= min(found.fun for found in starts) + 1e-9
