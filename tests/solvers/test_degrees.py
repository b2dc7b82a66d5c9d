"""Degrees of freedom: divergences by differences, covariances by simulation; what information criteria make of them."""

import numpy as np
import pytest

from msmtfl import L12MTLCV, MSMTFLCV, DirtyMTLCV, LassoMTLCV, MSMTFLClassifierCV, SharedMTLCV
from msmtfl._data.tasks import read_training
from msmtfl._paths.families.common_path import shared_grid, shared_lam_max, solve_shared
from msmtfl._paths.families.coupled_path import (
    DirtyGrid,
    GroupGrid,
    dirty_lam_max,
    group_lam_max,
    solve_rows,
)
from msmtfl._paths.grids import read_grid
from msmtfl._paths.solve import solve_surface
from msmtfl._solvers.degrees import pseudo_inverse, rank_of
from msmtfl._solvers.largest_lam import largest_lam
from msmtfl._solvers.problems.make_problem import make_problem

M, D = 3, 6
TASK = np.repeat(np.arange(M), [8, 10, 13])


def make_data(seed=0, d=D):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((len(TASK), d)) + 0.6 * rng.standard_normal((len(TASK), 1))
    W = np.zeros((M, d))
    W[:, 0], W[:, 1] = 1.0, rng.standard_normal(M)
    return X, np.einsum("rj,rj->r", X, W[TASK]) + rng.standard_normal(len(TASK))


def posed(X, y, weight=None, **options):
    data = read_training(X, y, task=TASK, sample_weight=weight)
    return make_problem(data, **{"fit_intercept": True, "standardize": False, "positive": False, **options})


def lasso(problem, lam=None):
    lam = 0.1 * largest_lam(problem) if lam is None else lam
    return solve_surface(problem, read_grid(problem, [lam], thetas=[np.inf])), lam


def group(problem, lam=None):
    lam = 0.1 * group_lam_max(problem) if lam is None else lam
    return solve_rows(problem, GroupGrid(np.array([[lam]]))), lam


def dirty(ratio, share=0.1):
    def solve(problem, lam=None):
        lam = share * dirty_lam_max(problem, ratio) if lam is None else lam
        grid = DirtyGrid(np.array([[lam]]), np.array([[ratio * lam]]), problem.l1_ratio)
        return solve_rows(problem, grid), lam

    return solve


def shared(ratio):
    def solve(problem, lam=None):
        lam = 0.1 * shared_lam_max(problem, ratio) if lam is None else lam
        return solve_shared(problem, shared_grid(problem, [lam], [ratio], [np.inf])), lam

    return solve


FAMILIES = {
    "lasso": lasso,
    "L1,2": group,
    "l1,inf": dirty(1.0),
    "Dirty": dirty(0.4),
    "shared values": shared(0.5),
    "pooled": shared(0.0),
}
SETTINGS = {
    "plain": {},
    "no intercept, factors": {"fit_intercept": False, "penalty_factors": np.r_[0.0, 2.0, np.inf, np.ones(D - 3)]},
    "ridge": {"l1_ratio": 0.5},
    "ridge, factors": {"l1_ratio": 0.3, "penalty_factors": np.r_[0.0, 2.0, np.inf, np.ones(D - 3)]},
    "standardised, weights": {
        "standardize": True,
        "weight": np.random.default_rng(9).uniform(0.3, 3.0, len(TASK)),
    },
}


def fits(problem, surface):
    """(N,): fitted values, in the order of the rows, divided by the roots of their weights."""
    out = np.empty(len(TASK))
    for i, (design, w) in enumerate(zip(problem.designs, surface.coef(0, 0), strict=True)):
        out[i == TASK] = (design.target - design.residual(w)) / design.rows.u
    return out


def divergences(X, y, solve, **setting):
    """(m,): sum of d fitted_r / d y_r over a task's rows, by differences."""
    _, lam = solve(posed(X, y, **setting))
    step, out = 1e-6, np.zeros(M)
    for r in range(len(y)):
        both = []
        for side in (step, -step):
            moved = y.copy()
            moved[r] += side
            problem = posed(X, moved, **setting)
            both.append(fits(problem, solve(problem, lam)[0])[r])
        out[TASK[r]] += (both[0] - both[1]) / (2.0 * step)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.sampled(3)
def test_degrees_are_the_divergence_of_the_fit_in_every_task(family, setting):
    solve, options = FAMILIES[family], dict(SETTINGS[setting])
    X, y = make_data()
    surface, _ = solve(posed(X, y, **options))
    charged = surface.degrees(surface.last.ravel())
    assert charged.shape == (1, M)
    np.testing.assert_allclose(charged[0], divergences(X, y, solve, **options), atol=2e-5)
    assert 0.5 < charged.sum() < np.count_nonzero(surface.coef(0, 0)) + 1e-9


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0, np.inf])
def test_common_values_with_a_ridge_follow_the_targets_as_charged(ratio):
    """Differences of targets cost a solve each, so that one task's are enough."""
    X, y = make_data()
    solve, setting = shared(ratio), {"l1_ratio": 0.4}
    surface, lam = solve(posed(X, y, **setting))
    charged, step, found = surface.degrees(surface.last.ravel())[0, 0], 1e-6, 0.0
    for r in np.flatnonzero(TASK == 0):
        ends = []
        for side in (step, -step):
            moved = y.copy()
            moved[r] += side
            problem = posed(X, moved, **setting)
            ends.append(fits(problem, solve(problem, lam)[0])[r])
        found += (ends[0] - ends[1]) / (2.0 * step)
    assert charged == pytest.approx(found, abs=2e-5)
    assert 0.3 < charged < np.count_nonzero(surface.coef(0, 0)[0]) - 0.05


def test_a_ridge_beside_counts_follows_them_as_charged():
    """The mean of a count is e^f, and moves with the counts as that of the parabola does that touches the loss."""
    X, y = make_data()
    y, step = np.exp(0.5 * y), 1e-5
    setting = {"l1_ratio": 0.5, "loss": "poisson"}
    surface, lam = lasso(posed(X, y, **setting))
    charged, found = surface.degrees(surface.last.ravel())[0], -1.0  # less the intercept
    for place, r in enumerate(np.flatnonzero(TASK == 2)):
        ends = []
        for side in (step, -step):
            moved = y.copy()
            moved[r] += side
            problem = posed(X, moved, **setting)
            ends.append(np.exp(problem.designs[2].predictor(lasso(problem, lam)[0].coef(0, 0)[2])[place]))
        found += (ends[0] - ends[1]) / (2.0 * step)
    assert charged[2] == pytest.approx(found, abs=1e-4)
    assert charged[2] < np.count_nonzero(surface.coef(0, 0)[2]) - 0.1


def test_a_ridge_beside_classes_with_one_intercept():
    X, y = make_data()
    model = MSMTFLClassifierCV(lams=[0.05], l1_ratio=0.2, intercepts="common", selection="aic", theta_ratios=[np.inf])
    model.fit(X, y > 0, task=TASK)
    charged = model.surface_.degrees(np.array([0]))[0]
    for i in range(M):
        Z, p = X[i == TASK][:, model.coef_[i] != 0], model.predict_proba(X, task=TASK)[i == TASK, 1]
        G = Z.T @ ((p * (1 - p))[:, None] * Z)
        ridge = 0.5 * M * len(Z) * 0.8 * 0.05 * np.eye(len(G))
        assert charged[i] == pytest.approx(np.trace(np.linalg.solve(G + ridge, G)), rel=1e-6)


def test_more_coefficients_than_samples_leave_no_more_degrees_than_samples():
    X, y = make_data(d=40)
    for solve in (dirty(1.0, share=1e-3), dirty(0.5, share=1e-3)):
        surface, _ = solve(posed(X, y))
        used = np.count_nonzero(surface.coef(0, 0), axis=1)
        degrees = surface.degrees(surface.last.ravel())[0]
        assert (used > np.bincount(TASK)).any()
        assert (degrees <= np.bincount(TASK) - 1 + 1e-9).all()


def test_a_column_that_occurs_twice_counts_once():
    X, y = make_data()
    twice = np.column_stack([X, X[:, 0]])
    problem = posed(twice, y)
    surface, lam = lasso(problem)
    assert surface.coef(0, 0)[:, [0, -1]].all()
    once, _ = lasso(posed(X, y), lam)
    np.testing.assert_array_equal(surface.degrees(surface.last.ravel()), once.degrees(once.last.ravel()))
    assert rank_of(problem.designs[0], np.array([0, 1, D])) == 2


def test_the_inverse_of_a_singular_matrix_is_the_smallest():
    A = np.random.default_rng(0).standard_normal((5, 3))
    A = A @ A.T
    np.testing.assert_allclose(pseudo_inverse(A, np.ones(5)), np.linalg.pinv(A), atol=1e-8)
    np.testing.assert_allclose(pseudo_inverse(A[:3, :3]), np.linalg.inv(A[:3, :3]), rtol=1e-8)


# ------------------------------------------------------------------ information criteria


def noise(m, n, d, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m * n, d)), rng.standard_normal(m * n), np.repeat(np.arange(m), n)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["bic", "ebic"])
@pytest.mark.parametrize("search", [MSMTFLCV, LassoMTLCV, L12MTLCV, DirtyMTLCV, SharedMTLCV])
@pytest.mark.sampled(3)
def test_noise_is_not_selected(search, criterion):
    entries = []
    for m, n, d in ((8, 12, 20), (3, 60, 10)):
        X, y, task = noise(m, n, d, seed=1)
        coef = search(lams=12, selection=criterion).fit(X, y, task=task).coef_
        entries.append(np.count_nonzero(coef) / m)
    assert max(entries) <= 1.0  # a feature that all tasks share, at most
    assert np.count_nonzero(entries) <= 1


@pytest.mark.parametrize("criterion", ["bic", "ebic"])
@pytest.mark.parametrize("search", [MSMTFLCV, LassoMTLCV, L12MTLCV, DirtyMTLCV, SharedMTLCV])
@pytest.mark.slow
@pytest.mark.sampled(3)
def test_signal_is_found(search, criterion):
    X, y, task = noise(6, 40, 60, seed=2)
    y += 1.5 * X[:, 3] - 1.5 * X[:, 7]
    used = search(lams=20, selection=criterion).fit(X, y, task=task).coef_ != 0
    assert used[:, [3, 7]].all()
    assert used.any(axis=0).sum() <= 6


@pytest.mark.parametrize("criterion", ["aic", "bic"])
@pytest.mark.parametrize("search", [MSMTFLCV, SharedMTLCV])
def test_what_is_not_convex_has_no_value_but_by_ebic(search, criterion):
    X, y, task = noise(4, 30, 12, seed=0)
    y += X[:, 0]
    model = search(lams=6, selection=criterion).fit(X, y, task=task)
    finite = np.isfinite(model.cv_results_[criterion])
    np.testing.assert_array_equal(finite, model.surface_.convex.ravel())
    assert 0 < finite.sum() < finite.size
    assert model.theta_ == np.inf
    assert finite[model.best_index_]
    best = model.cv_results_[criterion][model.best_index_]
    assert best == np.nanmin(model.cv_results_[criterion]) == -model.best_score_
    assert np.isfinite(search(lams=6, selection="ebic").fit(X, y, task=task).cv_results_["ebic"]).all()


def test_a_grid_without_convex_points_is_refused_with_the_way_out():
    X, y, task = noise(3, 20, 5, seed=0)
    with pytest.raises(ValueError, match=r"selection='bic' needs degrees of freedom.*selection='ebic'.*theta = inf"):
        MSMTFLCV(lams=4, theta_ratios=[1.0, 4.0], selection="bic").fit(X, y, task=task)


@pytest.mark.parametrize(("n", "d", "m"), [(8, 4, 6), (8, 4, 20), (10, 5, 6)])
def test_ebic_of_small_tasks_does_not_take_all_of_the_noise(n, d, m):
    """Where all features are in use, no choice was made among them, and it once was not charged for."""
    chosen = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y, task = rng.standard_normal((n * m, d)), rng.standard_normal(n * m), np.repeat(range(m), n)
        chosen += LassoMTLCV(lams=15, selection="ebic").fit(X, y, task=task).coef_.any()
    assert chosen <= 1
