"""Losses that are not squared: their calculus, the solver against independent ones, certificates, stages, bad data."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import TweedieRegressor

from msmtfl import MSMTFL, MSMTFLCV, Moments, TaskKFold, compare_models, regularization_surface
from msmtfl._data.tasks import read_training
from msmtfl._objective import escapes, loss_task
from msmtfl._objective.losses import (
    Gamma,
    Huber,
    Logistic,
    Poisson,
    Tweedie,
    best_level,
    is_loss,
    loss_named,
    robust_scale,
)
from msmtfl._objective.penalties import ConcaveRows
from msmtfl._objective.proofs.loss_certificates import certify_loss
from msmtfl._paths.grids import read_grid
from msmtfl._paths.solve import solve_surface
from msmtfl._runtime.progress import Listener
from msmtfl._solvers.largest_lam import largest_lam
from msmtfl._solvers.lassos.lasso_solver import SLID
from msmtfl._solvers.problems.make_problem import make_problem
from msmtfl._solvers.solvers import solver_for
from msmtfl._solvers.stages import SEPARATED
from msmtfl._solvers.task_lassos import lassos_for
from msmtfl.model_files import load_model, save_model

LOSSES = {
    "logistic": Logistic(),
    "poisson": Poisson(),
    "gamma": Gamma(),
    "tweedie(1.3)": Tweedie(1.3),
    "huber": Huber(1.3),
}
OPTIONS = {"fit_intercept": True, "standardize": False, "positive": False}


def make_data(loss, m=3, n=60, d=8, seed=0):
    """X, y, labels: three features matter in all tasks."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m * n, d)) + rng.normal(0, 2, d)
    w = np.zeros(d)
    w[:3] = 1.0, -0.8, 0.5
    f = (X - X.mean(axis=0)) @ w
    y = {
        "logistic": lambda: (rng.random(m * n) < 1 / (1 + np.exp(-f))).astype(float),
        "poisson": lambda: rng.poisson(np.exp(f)).astype(float),
        "gamma": lambda: rng.gamma(2.0, np.exp(f) / 2.0),
        "tweedie(1.3)": lambda: np.where(rng.random(m * n) < 0.3, 0.0, rng.gamma(2.0, np.exp(f))),
        "huber": lambda: f + rng.standard_t(1.5, m * n),
    }[loss]()
    return X, y, np.repeat(np.arange(m), n)


def posed(loss, X, y, task=None, sample_weight=None, **options):
    data = read_training(X, y, task=task, sample_weight=sample_weight)
    return make_problem(data, loss=loss, **(OPTIONS | options))


def half_deviance(loss, y, f, epsilon=None):
    """The formulas of the documentation, once more."""
    if loss == "logistic":
        return np.logaddexp(0, f) - y * f
    if loss == "poisson":
        return np.exp(f) - y * f + np.where(y > 0, y * np.log(np.where(y > 0, y, 1)), 0) - y
    if loss == "gamma":
        return y / np.exp(f) - np.log(y / np.exp(f)) - 1
    if loss == "tweedie(1.3)":  # as in scikit-learn's mean_tweedie_deviance
        mu = np.exp(f)
        return y**0.7 / (-0.3 * 0.7) + y * mu**-0.3 / 0.3 + mu**0.7 / 0.7
    r = np.abs(y - f)
    return np.where(r <= epsilon, 0.5 * r**2, epsilon * r - 0.5 * epsilon**2)


def oracle(loss, X, y, a, v, epsilon, intercept=True):
    """(w, b, objective) by L-BFGS-B on w = p - q, p, q >= 0."""
    d = X.shape[1]
    slope = {
        "logistic": lambda f: 1 / (1 + np.exp(-f)) - y,
        "poisson": lambda f: np.exp(f) - y,
        "gamma": lambda f: 1 - y * np.exp(-f),
        "tweedie(1.3)": lambda f: np.exp(0.7 * f) - y * np.exp(-0.3 * f),
        "huber": lambda f: np.clip(f - y, -epsilon, epsilon),
    }[loss]

    def objective(z):
        f = X @ (z[:d] - z[d : 2 * d]) + z[-1] * intercept
        g = X.T @ (v * slope(f))
        value = v @ half_deviance(loss, y, f, epsilon) + a @ (z[:d] + z[d : 2 * d])
        return value, np.concatenate([g + a, a - g, [intercept * (v @ slope(f))]])

    bounds = [(0, None)] * (2 * d) + [(None, None)]
    options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 50}
    z = minimize(objective, np.zeros(2 * d + 1), jac=True, bounds=bounds, method="L-BFGS-B", options=options).x
    return z[:d] - z[d : 2 * d], z[-1], objective(z)[0]


# ------------------------------------------------------------------ calculus


def targets_of(loss, f):
    k = np.arange(len(f))
    return {"logistic": k % 2.0, "poisson": k % 4.0, "gamma": 0.1 + k % 5, "huber": np.sin(f)}.get(loss, k % 5.0)


@pytest.mark.parametrize("loss", LOSSES)
def test_slope_and_curvature_are_derivatives_of_the_value(loss):
    of = LOSSES[loss]
    f = np.linspace(-4, 4, 41) + 0.013
    y = targets_of(loss, f)
    h = 1e-6
    np.testing.assert_allclose(of.value(y, f), half_deviance(loss, y, f, 1.3), atol=1e-12)
    np.testing.assert_allclose((of.value(y, f + h) - of.value(y, f - h)) / (2 * h), of.slope(y, f), atol=1e-7)
    np.testing.assert_allclose((of.slope(y, f + h) - of.slope(y, f - h)) / (2 * h), of.curvature(y, f), atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_excess_is_zero_at_slopes_positive_elsewhere_and_infinite_beyond(loss):
    """It is h(f) + sup_t (s t - h(t)) - s f; the supremum is over a fine grid here."""
    of = LOSSES[loss]
    f = np.linspace(-5, 5, 21)
    y = targets_of(loss, f)
    s = of.slope(y, f)
    assert (of.excess(y, f, s) <= 1e-29).all()  # not 1e-16: no digits are lost
    other = of.slope(y, f[::-1].copy())
    t = np.linspace(-8, 8, 16001)[:, None]
    conjugate = (other * t - of.value(y + 0 * t, t + 0 * y)).max(axis=0)
    np.testing.assert_allclose(of.excess(y, f, other), of.value(y, f) + conjugate - other * f, atol=1e-4, rtol=1e-6)
    assert (of.excess(y, f, other) >= 0.0).all()
    beyond = {"gamma": 1.1, "tweedie(1.3)": -1.0}.get(loss, -20.0)
    some = y == 0.0 if loss == "tweedie(1.3)" else np.arange(21) < 2  # every slope is one of y > 0
    assert np.isinf(of.excess(y[some], f[some], np.full(some.sum(), beyond))).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_best_intercept_has_no_slope_left(loss):
    _, y, _ = make_data(loss)
    g = np.random.default_rng(1).normal(0, 3, len(y))
    v = np.random.default_rng(2).uniform(0, 2, len(y))
    b = best_level(LOSSES[loss], y, g, v)
    assert abs(v @ LOSSES[loss].slope(y, g + b)) <= 1e-10 * (v @ np.abs(LOSSES[loss].slope(y, g)))


def test_robust_scale_is_the_standard_deviation_of_normal_targets_and_ignores_outliers():
    y = np.random.default_rng(0).normal(3, 2, 100_000)
    assert robust_scale(y, None) == pytest.approx(2, rel=0.02)
    assert robust_scale(np.append(y, 1e9), None) == pytest.approx(2, rel=0.02)
    assert robust_scale(y[:9], np.full(9, 2.0)) == pytest.approx(robust_scale(np.repeat(y[:9], 2), None))
    assert robust_scale(np.ones(4), None) == 1.0
    assert robust_scale(np.array([0.0, 0, 0, 2]), None) == pytest.approx(np.std([0, 0, 0, 2]))
    assert robust_scale(y, None, about=3.0) == pytest.approx(2, rel=0.02)


# ------------------------------------------------------------------ the solver


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.sampled(2)
def test_one_task_agrees_with_an_independent_solver(loss, weighted):
    X, y, _ = make_data(loss, m=1)
    v = np.random.default_rng(3).choice([0.0, 0.5, 1, 3], len(y)) if weighted else np.ones(len(y))
    problem = posed(loss, X, y, sample_weight=v if weighted else None)
    lam = 0.1 * largest_lam(problem)
    W, _ = lassos_for(problem).solve(lam * problem.stage_weights)
    design, a = problem.designs[0], lam * problem.stage_weights[0]
    epsilon = getattr(design.of_loss, "epsilon", None)
    w, b, least = oracle(loss, X, y, a, v, epsilon)
    f = X @ W[0] + design.intercepts(W)[0]
    reached = v @ half_deviance(loss, y, f, epsilon) + a @ np.abs(W[0])
    assert reached <= least + 1e-12 * design.null
    np.testing.assert_allclose(W[0], w, atol=2e-4 * np.abs(w).max())
    assert design.intercepts(W)[0] == pytest.approx(b, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_weights_may_differ_between_entries_and_some_be_zero_or_infinite(loss):
    X, y, task = make_data(loss)
    problem = posed(loss, X, y, task=task)
    rng = np.random.default_rng(5)
    weights = largest_lam(problem) * rng.choice(
        [0.0, 0.05, 0.2, np.inf], (problem.d, problem.m), p=[0.2, 0.4, 0.3, 0.1]
    )
    outcome = solver_for(problem, ConcaveRows(1.0, np.inf, problem.factors)).solve(
        weights, np.zeros((3, problem.d)), 0, Listener()
    )
    assert outcome.dual_gap <= 1e-12
    assert outcome.unique
    assert (outcome.coef[np.isinf(weights.T)] == 0).all()
    for i in range(3):
        rows, use = task == i, np.isfinite(weights[:, i])
        a = 0.5 * 3 * rows.sum() * weights[use, i]
        epsilon = getattr(problem.designs[i].of_loss, "epsilon", None)
        w, _, _ = oracle(loss, X[rows][:, use], y[rows], a, np.ones(rows.sum()), epsilon)
        np.testing.assert_allclose(outcome.coef[i, use], w, atol=2e-3 * np.abs(w).max())


@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie(1.3)"])
def test_losses_of_log_links_agree_with_glum(loss, share):
    glum = pytest.importorskip("glum")
    X, y, _ = make_data(loss, m=1)
    model = MSMTFL(loss=loss, max_stages=1, tol=1e-12, l1_ratio=share).fit(X, y)
    options = {"alpha": model.lam_ / 2, "l1_ratio": share, "link": "log", "gradient_tol": 1e-10, "max_iter": 1000}
    other = glum.GeneralizedLinearRegressor(family=loss.replace("(", " ("), **options).fit(X, y)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-6)
    assert model.intercept_ == pytest.approx(other.intercept_, abs=1e-6)
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=1e-5)


def test_huber_with_a_large_epsilon_is_squared_loss():
    X, y, task = make_data("huber")
    options = {"lam": 0.05, "theta": 0.8}
    far = MSMTFL(loss="huber", epsilon=1e6, **options).fit(X, y, task=task)
    near = MSMTFL(**options).fit(X, y, task=task)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-9)
    np.testing.assert_allclose(far.intercept_, near.intercept_, atol=1e-9)
    assert far.objective_ == pytest.approx(near.objective_, rel=1e-10)
    assert far.lam_max_ == pytest.approx(near.lam_max_)


def test_huber_does_not_follow_an_outlier_and_does_not_depend_on_the_scale_of_y():
    X, y, task = make_data("huber", seed=4)
    wild = y.copy()
    wild[0] = 1e6
    one, other = (MSMTFL(loss="huber", lam=0.1).fit(X, target, task=task) for target in (y, wild))
    assert np.abs(one.coef_ - other.coef_).max() < 0.2
    scaled = MSMTFL(loss="huber", lam=0.1 * 100).fit(X, 100 * y, task=task)
    np.testing.assert_allclose(scaled.coef_, 100 * one.coef_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_sparse_x_gives_the_same_answer(loss):
    X, y, task = make_data(loss)
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.5, X, 0.0)
    thick, thin = (posed(loss, one, y, task=task) for one in (X, csr_array(X)))
    A = 0.05 * largest_lam(thick) * thick.stage_weights
    np.testing.assert_allclose(lassos_for(thick).solve(A)[0], lassos_for(thin).solve(A)[0], atol=1e-9)


def test_several_minimisers_give_the_one_nearest_the_reference():
    X, y, _ = make_data("poisson", m=1)
    X = np.column_stack([X, X[:, 0]])
    problem = posed("poisson", X, y)
    A = 0.1 * largest_lam(problem) * problem.stage_weights
    W, _ = lassos_for(problem).solve(A)
    assert W[0, 0] == pytest.approx(W[0, -1], rel=1e-6)
    proof = certify_loss(problem.designs[0], W[0], A[0])
    assert not proof.unique
    assert {0, 8} <= set(proof.dependent.tolist())


@pytest.mark.parametrize("how", ["plain", "weighted", "positive", "no intercept", "binary"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.sampled(3)
def test_steps_in_the_kernel_lead_where_those_in_python_do(loss, how):
    X, y, task = make_data(loss, n=50, d=9)
    X = (X.mean(axis=0) < X).astype(float) if how == "binary" else X
    v = np.random.default_rng(1).integers(1, 4, len(y)).astype(float) if how == "weighted" else None
    options = {"positive": how == "positive", "fit_intercept": how != "no intercept"}
    problem = posed(loss, X, y, task, sample_weight=v, **options)
    fast, slow = lassos_for(problem), lassos_for(problem)
    slow.known = []  # no states in the kernel
    rng, weights = np.random.default_rng(2), problem.stage_weights
    for lam in largest_lam(problem) * np.array([1.0, 0.5, 0.2, 0.3, 0.05, 0.01]):
        A = lam * weights * rng.choice([1.0, 1.0, 0.3, 0.0, np.inf], weights.shape, p=[0.5, 0.2, 0.15, 0.1, 0.05])
        (W, steps), (V, _) = fast.solve(A), slow.solve(A)
        assert np.abs(W - V).max() <= 1e-9 * max(1.0, np.abs(V).max())
        assert steps.max() < 40
        for design, w in zip(problem.designs, W, strict=True):  # the intercept that was noted is the best one
            again = best_level(design.of_loss, design.y, design.fitted(w), design.v)
            assert design.level(w) == pytest.approx(again if options["fit_intercept"] else 0.0, abs=1e-9)


def test_what_the_kernel_cannot_settle_is_left_to_python():
    """Copies of a column: the minimiser nearest to the reference, which only Python finds."""
    X, y, task = make_data("logistic", d=4)
    X = np.column_stack([X, X[:, 0]])
    problem = posed("logistic", X, y, task)
    lassos = lassos_for(problem)
    aim = np.zeros((3, 5))
    aim[:, 4] = 0.3
    W, _ = lassos.solve(0.05 * largest_lam(problem) * problem.stage_weights, reference=aim)
    assert (lassos.status & SLID).all()
    assert (W[:, 4] - W[:, 0] == pytest.approx(0.3, abs=1e-6)) or (W[:, 0] * W[:, 4] == 0).all()


@pytest.mark.parametrize("seed", range(8))
def test_the_way_back_from_separated_classes(seed):
    """Free features that separate the classes lead the kernel far away; steps back may leave the intercept at -1e21, which
    was remembered as the best one without features: a search of three classes ended in an error of numpy's."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((100, 9))
    y = (X[:, :5] @ rng.standard_normal(5) > 1.5).astype(float)
    problem = posed("logistic", X, y)
    lassos, top = lassos_for(problem), largest_lam(problem) * problem.stage_weights
    away = top * np.ones(9)
    free = away.copy()
    free[:, :5] = 0.0
    for share in (0.9, 1.0, 1.2):
        lassos.solve(free)
        W, _ = lassos.solve(share * away)
        again, _ = lassos_for(posed("logistic", X, y)).solve(share * away)
        assert not lassos.status.any()
        np.testing.assert_allclose(W, again, atol=1e-9)
        level = problem.designs[0].level(W[0])
        assert level == pytest.approx(
            best_level(problem.designs[0].of_loss, y, problem.designs[0].fitted(W[0]), np.ones(100))
        )


# ------------------------------------------------------------------ certificates


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gap_is_never_less_than_the_distance_from_the_minimum(loss):
    X, y, _ = make_data(loss, m=1)
    problem = posed(loss, X, y)
    design, rng = problem.designs[0], np.random.default_rng(7)
    a = 0.1 * largest_lam(problem) * problem.stage_weights[0]
    a[[0, 4]] = 0.0
    W, _ = lassos_for(problem).solve(a[None])

    def primal(w):
        return 0.5 * design.loss(w) + a @ np.abs(w)

    for size in (0.0, 1e-6, 1e-3, 0.1, 1.0):
        w = W[0] + size * rng.standard_normal(problem.d)
        gap = certify_loss(design, w, a).gap
        assert gap >= primal(w) - primal(W[0]) - 1e-12 * design.null
        assert gap <= 1e-12 * design.null + 1e3 * size * design.null
    wrong = W[0].copy()
    wrong[1] += 1e-3
    assert certify_loss(design, wrong, a).kkt > 1e-5


@pytest.mark.parametrize("loss", ["poisson", "huber"])
def test_every_stage_is_solved_and_the_objective_falls(loss):
    X, y, task = make_data(loss, n=80)
    model = MSMTFL(loss=loss, theta=1.0).fit(X, y, task=task)
    assert len(model.stages_) > 1
    assert model.stages_[-1].free_rows.size
    assert all(stage.dual_gap <= 1e-10 and stage.unique for stage in model.stages_)
    assert model.converged_
    assert model.certificate_.critical <= 1e-10
    assert model.certificate_.monotone
    n, m = 80, 3
    f = np.log(model.predict(X, task=task)) if loss == "poisson" else model.predict(X, task=task)
    e = 1.35 * getattr(model, "scale_", np.ones(m))
    losses = [2 * half_deviance(loss, y[task == i], f[task == i], e[i]).sum() / (m * n) for i in range(m)]
    norms = np.abs(model.coef_).sum(axis=0)
    assert model.objective_ == pytest.approx(sum(losses) + model.lam_ * np.minimum(norms, model.theta_).sum())


@pytest.mark.parametrize("loss", LOSSES)
def test_lam_max_is_where_the_first_coefficient_appears(loss):
    X, y, task = make_data(loss)
    problem = posed(loss, X, y, task=task)
    for share, used in ((1.0 + 1e-9, 0), (0.999, 1)):
        W, _ = lassos_for(problem).solve(share * largest_lam(problem) * problem.stage_weights)
        assert np.count_nonzero(W) == used
    free = posed(loss, X, y, task=task, penalty_factors=np.r_[0.0, np.ones(7)])
    W, _ = lassos_for(free).solve((1.0 + 1e-9) * largest_lam(free) * free.stage_weights)
    assert W[:, 0].all()
    assert not W[:, 1:].any()


def test_theta_counts_the_curvature_of_the_loss():
    X, y, task = make_data("poisson")
    doubled = np.concatenate([y, 3 * y])  # curvature of Poisson's loss is the mean
    one = posed("poisson", X, y, task=task).rho_bar
    both = posed("poisson", np.vstack([X, X]), doubled, task=np.r_[task, task]).rho_bar
    assert both == pytest.approx(2 * one)


def test_separated_classes_are_named_with_the_way_out():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 5)), np.repeat(["east", "west"], 30)
    y = (X[:, 1] > 0).astype(float)
    y[task == "east"] = rng.random(30) < 0.5
    problem = posed("logistic", X, y, task=task, penalty_factors=np.r_[1.0, 0.0, 1.0, 1.0, 1.0])
    weights = largest_lam(problem) * problem.factors
    with pytest.warns(ConvergenceWarning, match=r"task\(s\) 'west' are separated .*'x1'.*larger theta"):
        outcome = solver_for(problem, ConcaveRows(1.0, np.inf, problem.factors)).solve(
            weights, np.zeros((2, 5)), 0, Listener()
        )
    assert np.isfinite(outcome.coef).all()
    assert outcome.dual_gap <= 1e-8
    assert not outcome.unique


# ------------------------------------------------------------------ ugly data


def nearly_separated(seed, n=80, gap=0.0, k=3):
    """A task of two classes with heavy tails; with a gap > 0 the first feature tells them apart."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2, (n, k))
    f = 3.0 * X[:, 0] + (0.0 if gap else rng.logistic(size=n))
    y = (f > np.median(f)).astype(float)
    X[:, 0] += gap * (2.0 * y - 1.0)
    return X, y


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("gap", [0.0, 0.05])
def test_a_minimiser_that_exists_proves_itself(seed, gap, monkeypatch):
    asked = []
    program = escapes.milp
    monkeypatch.setattr(escapes, "milp", lambda *args, **options: asked.append(1) or program(*args, **options))
    X, y = nearly_separated(seed, gap=gap)
    problem = posed("logistic", X, y)
    free = np.ones(3, dtype=bool)
    W, _ = lassos_for(problem).solve(np.zeros((1, 3)))
    found = escapes.escaping(problem.designs[0], W[0], free)
    assert found.size > 0 if gap else found.size == 0
    assert bool(asked) == (gap > 0)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_features_that_leave_no_minimiser_alone_are_those_of_the_linear_program(loss, monkeypatch):
    monkeypatch.setattr(escapes, "_held_back", lambda *args: False)
    monkeypatch.setattr(escapes, "STEEP", np.inf)
    rng = np.random.default_rng(0)
    counts = {True: 0, False: 0}
    for centre in (True, False):
        for _ in range(15):
            n = 12
            y = rng.integers(0, 2, n).astype(float) * (1.0 if loss == "logistic" else rng.integers(1, 4, n))
            y[:2] = 0.0, 1.0
            X = np.where(rng.random((n, 8)) < 0.2, rng.choice([-1.0, 1.0], (n, 8)), 0.0)
            design = posed(loss, X, y, fit_intercept=centre).designs[0]
            alone = escapes.escaping_alone(design)
            w = 1e-3 * rng.standard_normal(8)  # rows on both sides: all are looked at
            for j in np.flatnonzero(design.squares > 0):
                expected = _escapes_along(design, j)
                counts[expected] += 1
                assert alone[j] == expected
                if (design.of_loss.escapes(y) * design.predictor(w) > 0).any():
                    assert (escapes.escaping(design, w, np.arange(8) == j).size > 0) == expected
    assert min(counts.values()) >= 20


def _escapes_along(design, j):
    """By trying every direction: one feature and the intercept leave few."""
    x, away = design.block(np.array([j]))[:, 0], design.of_loss.escapes(design.y)
    for sign in (1.0, -1.0):
        for shift in np.unique(x) if design.base.centre else [0.0]:
            t = sign * (x - shift)
            t[np.abs(t) < 1e-12] = 0.0
            if t.any() and (t[away == 0] == 0).all() and (away * t >= 0).all():
                return True
    return False


def test_a_search_stops_short_of_stages_without_a_minimiser():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((120, 5)), np.repeat([0, 1], 60)
    y = (X[:, 0] + 0.7 * rng.logistic(size=120) > 0).astype(float)
    X[:, 1] = 0.0
    X[np.flatnonzero(y)[:12], 1] = 1.0  # a rare feature, seen in one class only
    problem = posed("logistic", X, y, task)
    grid = read_grid(problem, largest_lam(problem) * np.geomspace(0.5, 0.02, 6), [1.0, np.inf])
    surface = solve_surface(problem, grid)
    short = surface.ended == SEPARATED
    assert short[:, 0].any()
    assert not short[:, 1].any()
    assert not surface.complete[short].any()
    assert surface.dual_gap.max() <= 1e-8  # what a point keeps is a stage that was solved
    for k, l in np.argwhere(short):
        assert 1 not in surface.free_rows(k, l)
        assert np.abs(surface.coef(k, l)).max() < 50


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", [(30, 80), (8, 3)])
def test_ugly_data_are_solved(loss, shape):
    n, d = shape
    X, y, task = make_data(loss, m=2, n=n, d=d, seed=11)
    if loss == "logistic":
        y[::n], y[1::n] = 0, 1
    X = X * 10.0 ** np.random.default_rng(0).uniform(-6, 6, d)
    X[:, -1] = 7.0
    problem = posed(loss, X, y, task=task, standardize=True)
    for share in (0.5, 0.05, 0.005):
        outcome = solver_for(problem, ConcaveRows(1.0, np.inf, problem.factors)).solve(
            share * largest_lam(problem) * problem.factors, np.zeros((2, d)), 0, Listener()
        )
        assert outcome.dual_gap <= 1e-9
        assert not outcome.coef[:, -1].any()


@pytest.mark.parametrize("loss", ["poisson", "huber"])
def test_weights_are_repetitions_and_zero_weights_are_rows_left_out(loss):
    X, y, task = make_data(loss, n=40)
    w = np.random.default_rng(0).integers(0, 4, len(y))
    fit = MSMTFL(loss=loss, lam=0.05, theta=0.5).fit
    weighted = fit(X, y, task=task, sample_weight=w)
    repeated = fit(np.repeat(X, w, axis=0), np.repeat(y, w), task=np.repeat(task, w))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-9)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-9)


def test_targets_that_do_not_suit_the_loss_are_refused():
    X, y, task = make_data("poisson")
    with pytest.raises(ValueError, match=r"targets >= 0; task 1 holds -2 in row 61"):
        MSMTFL(loss="poisson").fit(X, np.where(np.arange(len(y)) == 61, -2, y), task=task)
    with pytest.raises(ValueError, match=r"task 2 has targets that are all 0"):
        MSMTFL(loss="poisson").fit(X, np.where(task == 2, 0, y), task=task)
    with pytest.raises(
        ValueError, match=r"loss must be one of 'squared', 'poisson', 'gamma', 'tweedie', 'huber', 'cox', got 'hinge'"
    ):
        MSMTFL(loss="hinge").fit(X, y, task=task)
    with pytest.raises(ValueError, match="epsilon"):
        MSMTFL(loss="huber", epsilon=0).fit(X, y, task=task)


def test_gamma_and_tweedie_say_which_targets_and_powers_they_take():
    X, y, task = make_data("gamma")
    with pytest.raises(ValueError, match=r"loss='gamma' needs targets > 0; task 1 holds 0 in row 61"):
        MSMTFL(loss="gamma").fit(X, np.where(np.arange(len(y)) == 61, 0, y), task=task)
    with pytest.raises(ValueError, match=r"task 2 has targets that are all 0"):
        MSMTFL(loss="tweedie").fit(X, np.where(task == 2, 0, y), task=task)
    with pytest.raises(ValueError, match=r"power must be between 1 and 2. Use 'poisson' for 1 and 'gamma' for 2"):
        MSMTFL(loss="tweedie(2)").fit(X, y, task=task)
    assert loss_named("tweedie ( 1.7 )") == Tweedie(1.7)
    assert loss_named("tweedie") == Tweedie(1.5)
    for name in ("tweedie(x)", "tweedie(1.2.3)"):
        with pytest.raises(ValueError, match="the power must be a number"):
            MSMTFL(loss=name).fit(X, y, task=task)
    assert not any(is_loss(one) for one in ("gamma(2)", "hinge", "", None, 1.5))


@pytest.mark.parametrize("power", [1.0001, 1.5, 1.9999])
def test_tweedie_between_its_limits_loses_no_digits(power):
    of, y = Tweedie(power), np.array([0.0, 1e-2, 1.0, 3.0, 1e6, 1e6])
    f = np.log(np.maximum(y, 1e-3)) + np.array([0.0, 1e-5, -1e-5, 1.0, 30.0, -30.0])
    slope = of.slope(y, f)
    near = of.slope(y, f + 1e-4)
    assert (of.excess(y, f, slope) <= 1e-25 * np.maximum(of.value(y, f), 1.0)).all()
    np.testing.assert_allclose(of.excess(y, f, near), 0.5e-8 * of.curvature(y, f), rtol=1e-3)
    np.testing.assert_allclose(of.value(y, f)[1:3], 0.5e-10 * y[1:3] ** (2.0 - power), rtol=1e-4)


@pytest.mark.parametrize("loss", ["gamma", "tweedie(1.3)"])
def test_a_ridge_alone_is_that_of_scikit_learn(loss):
    X, y, _ = make_data(loss, m=1)
    power = 2.0 if loss == "gamma" else 1.3
    other = TweedieRegressor(power=power, link="log", alpha=0.05, solver="newton-cholesky", tol=1e-12).fit(X, y)
    model = MSMTFL(lam=0.1, theta=np.inf, l1_ratio=0.0, loss=loss).fit(X, y)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-8)
    assert model.intercept_ == pytest.approx(other.intercept_, abs=1e-8)
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=1e-8)


def test_what_needs_squared_loss_says_so():
    X, y, task = make_data("poisson")
    model = MSMTFL(loss="poisson").fit(X, y, task=task)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(ValueError, match="statistics in their place serve squared loss only"):
        model.fit_moments(Moments().update(X, y, task=task))


# ------------------------------------------------------------------ around it


@pytest.mark.parametrize("loss", ["poisson", "huber"])
def test_points_of_a_surface_are_what_the_estimator_gives(loss):
    X, y, task = make_data(loss)
    surface = regularization_surface(X, y, task=task, loss=loss, lams=4, theta_ratios=[2, 8, np.inf])
    assert surface.dual_gap.max() <= 1e-9
    for k, l in ((1, 0), (2, 1), (3, 2)):
        model = MSMTFL(surface.lams[k], surface.thetas[k, l], loss=loss).fit(X, y, task=task)
        np.testing.assert_allclose(surface.coef(k, l), model.coef_, atol=1e-8)
        np.testing.assert_allclose(surface.intercept(k, l), model.intercept_, atol=1e-8)
        assert surface.objective[k, l] == pytest.approx(model.objective_, rel=1e-10)


@pytest.mark.parametrize("scoring", ["neg_deviance", "neg_nmse"])
def test_cross_validation_scores_what_it_says(scoring):
    X, y, task = make_data("poisson")
    folds = list(TaskKFold(3, task=task, random_state=0).split(X))
    search = MSMTFLCV(lams=4, theta_ratios=[4, np.inf], loss="poisson", cv=folds, scoring=scoring)
    search.fit(X, y, task=task)
    assert "neg_deviance" not in search.cv_results_
    scores = []
    for train, test in folds:
        model = MSMTFL(search.lam_, search.theta_, loss="poisson").fit(X[train], y[train], task=task[train])
        mu = model.predict(X[test], task=task[test])
        if scoring == "neg_deviance":
            scores.append(-2 * half_deviance("poisson", y[test], np.log(mu)).mean())
        else:
            variance = np.array([y[task == i].var() for i in range(3)])[task[test]]
            scores.append(-np.mean((y[test] - mu) ** 2 / variance))
    assert search.best_score_ == pytest.approx(np.mean(scores), rel=1e-7)
    assert ("test_deviance" in search.cv_results_) == (scoring == "neg_deviance")
    assert search.dual_gap_ <= 1e-10


def test_a_model_file_keeps_loss_and_predictions(tmp_path):
    X, y, task = make_data("poisson")
    model = MSMTFL(loss="poisson", relax=True).fit(X, y, task=task)
    save_model(model, tmp_path / "counts.msmtfl")
    same = load_model(tmp_path / "counts.msmtfl")
    assert same.loss == "poisson"
    assert (same.predict(X, task=task) > 0).all()
    np.testing.assert_array_equal(same.predict(X, task=task), model.predict(X, task=task))


def test_losses_take_part_in_a_comparison():
    X, y, task = make_data("poisson")
    models = {"squared": MSMTFLCV(4, cv=2, entry_shares=0), "counts": MSMTFLCV(4, cv=2, entry_shares=0, loss="poisson")}
    result = compare_models(X, y, task=task, models=models, cv=3)
    assert result.best == "counts"


def test_an_intercept_is_found_however_far_the_targets_are_from_zero():
    """The search for it began at 0 with steps of 1: at 1e126 it never arrived, and lam_max was 0."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 4)), np.repeat([0, 1], 30)
    y = X @ [1.0, -1.0, 0.0, 0.0] + rng.standard_normal(60)
    near = MSMTFL(loss="huber").fit(X, y, task=task)
    far = MSMTFL(loss="huber").fit(X, 1e100 * (y + 1e6), task=task)
    assert far.lam_max_ == pytest.approx(1e100 * near.lam_max_, rel=1e-6)
    np.testing.assert_allclose(far.coef_ / 1e100, near.coef_, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(far.intercept_ / 1e100, near.intercept_ + 1e6, rtol=1e-12)


@pytest.mark.parametrize("at_once", [1, 50, 10**6])
def test_columns_for_the_kernel_are_those_of_the_block(monkeypatch, at_once):
    rng = np.random.default_rng(3)
    X, task = rng.standard_normal((24, 7)), np.repeat([0, 1], 12)
    y = (rng.random(24) < 0.5).astype(float)
    y[::12], y[1::12] = 0.0, 1.0
    data = read_training(X, y, task=task, sample_weight=rng.choice([1.0, 2.0, 0.5], 24))
    problem = make_problem(data, loss="logistic", fit_intercept=True, standardize=False, positive=False)
    monkeypatch.setattr(loss_task, "AT_ONCE", at_once)
    for design in problem.designs:
        found = design.by_feature()
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, design.block(np.arange(7)).T)
