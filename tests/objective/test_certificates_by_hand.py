"""Certificates in cases so small that what they have to say is seen without computing."""

import numpy as np
import pytest
from scipy.optimize import minimize

from msmtfl._data.forms.dense import DenseRows, RowTask
from msmtfl._data.forms.ridged import ridged
from msmtfl._data.tasks import read_training
from msmtfl._objective.box import Box
from msmtfl._objective.coupled.row_norms import GroupNorm
from msmtfl._objective.proofs.certificates import (
    block_value,
    certify,
    explain,
    rank_margin,
    ridge_slack,
)
from msmtfl._objective.proofs.dual_points import Doubt
from msmtfl._objective.proofs.loss_certificates import certify_loss
from msmtfl._objective.proofs.row_certificates import certify_rows
from msmtfl._solvers.problems.make_problem import make_problem


def design_of(X, y):
    return RowTask(DenseRows(np.asarray(X, dtype=float), None, False), np.asarray(y, dtype=float))


# ------------------------------------------------------------------ which answers are the only ones


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_features_in_use_count_wherever_their_gradients_are(sign):
    """Of a wrong answer the gradients say little: two copies in use can be exchanged all the same."""
    X = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    design = design_of(X, [1.0, 2.0, 1.0])
    proof = certify(design, sign * np.array([0.5, 0.5, 0.0]), np.full(3, 1e6))  # gradients far below their bounds
    assert not proof.unique
    assert proof.dependent.tolist() == [0, 1]
    assert certify(design, sign * np.array([0.5, 0.0, 0.5]), np.full(3, 1e6)).unique


def test_copies_that_are_pressed_against_their_bounds_cannot_be_exchanged():
    X = np.array([[1.0, 1.0], [2.0, 2.0]])
    design = design_of(X, [5.0, 10.0])
    box = Box(np.full(2, -0.5), np.full(2, 0.5))
    assert certify(design, np.array([0.5, 0.5]), np.full(2, 0.1), box).unique
    wide = Box(np.full(2, -9.0), np.full(2, 9.0))
    assert not certify(design, np.array([2.5, 2.49]), np.full(2, 0.1), wide).unique


def test_columns_of_zeros_are_no_direction():
    X = np.array([[1.0, 0.0], [2.0, 0.0]])
    for a in (0.0, 0.1):
        proof = certify(design_of(X, [1.0, 2.0]), np.array([1.0 - a / 5.0, 0.0]), np.full(2, a))
        assert proof.unique
        assert proof.relative_gap <= 1e-12


@pytest.mark.parametrize("dearer", [1.0, 2.0])
def test_rows_that_are_scaled_copies_with_their_penalties_are_named(dearer):
    """Feature 3 is feature 0 times c_i in task i, and penalised by c_i times its factor: w_0 can be given to it in any
    share, unless it is dearer than that. Targets are made so that the conditions of optimality hold at W."""
    rng = np.random.default_rng(0)
    m, n, d, lam = 3, 12, 4, 0.2
    Xs, c = rng.standard_normal((m, n, d)), np.array([0.5, 2.0, 3.0])
    Xs[:, :, 3] = c[:, None] * Xs[:, :, 0]
    f = rng.uniform(0.5, 2.0, (d, m))
    f[3] = dearer * f[0] * c
    W = np.where(np.arange(d) < 3, rng.uniform(0.5, 2.0, (m, d)), 0.0)
    slopes = (lam * f**2 * W.T / np.maximum(np.linalg.norm(f * W.T, axis=1, keepdims=True), 1e-300)).T[:, :3]
    designs = []
    for X, w, g in zip(Xs, W, slopes, strict=True):
        r = np.linalg.lstsq(X[:, :3].T, 0.5 * m * n * g)[0]
        designs.append(design_of(X, X @ w + r))
    proof = certify_rows(designs, W, GroupNorm(np.full(d, lam), f))
    assert proof.gap <= 1e-12
    assert proof.unique == (dearer > 1.0)
    assert [features.tolist() for features in proof.dependent] == ([[0, 3]] * m if dearer == 1.0 else [[]] * m)


def test_what_rounding_hides_of_eigenvalues_grows_with_the_matrix():
    """The smallest eigenvalue of k copies of a column is 0, whatever LAPACK makes of it."""
    rng = np.random.default_rng(0)
    for k in (2, 40, 400):
        x = rng.standard_normal(k)
        G = np.outer(np.ones(k), np.ones(k)) + 0.0 * x
        assert np.abs(np.linalg.eigvalsh(G)[:-1]).max() <= rank_margin(k) <= 1e-8
    assert rank_margin(1000) == pytest.approx(1e-8, rel=1e-3)


# ------------------------------------------------------------------ gaps


@pytest.mark.parametrize("size", [0.1, 3.0, 100.0, 1e4])
def test_a_ridge_counts_in_the_objective_which_no_gap_exceeds(size):
    """Far away the objective itself is the bound; without the ridge it would be less than the distance from the optimum."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 3))
    y = (X[:, 0] + rng.standard_normal(40) > 0).astype(float)
    data = read_training(X, y, task=np.zeros(40, dtype=int))
    problem = make_problem(data, fit_intercept=False, standardize=False, positive=False, loss="logistic")
    a, ridge = np.full(3, 0.5), np.array([2.0, 0.0, 5.0])

    def objective(w):
        return np.logaddexp(0.0, X @ w).sum() - y @ (X @ w) + a @ np.abs(w) + 0.5 * ridge @ w**2

    def smooth(parts):
        return objective(parts[:3] - parts[3:]) + 0.0

    best = minimize(
        smooth, np.full(6, 0.1), bounds=[(0.0, None)] * 6, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10}
    )
    w = size * np.array([1.0, -1.0, 0.5])
    proof = certify_loss(ridged(problem.designs[0], ridge), w, a)
    assert objective(w) - best.fun <= proof.gap <= objective(w) * (1.0 + 1e-9)
    assert certify_loss(ridged(problem.designs[0], ridge), best.x[:3] - best.x[3:], a).gap <= 1e-5


# ------------------------------------------------------------------ single formulas


def test_the_block_function_by_hand():
    norms, v = np.array([1.0, 3.0]), np.array([1.0, 0.25])
    assert block_value(2.0, norms, v, 0.5, 2.0) == 2.0 + 0.5 * (1.0 + 0.75 + 2.0 * 0.75)
    assert block_value(2.0, norms, v, 0.5, np.inf) == 2.0 + 0.5 * (1.0 + 0.75)


@pytest.mark.parametrize(
    ("digits", "words"), [(0, "no digits"), (1, "about 1 digit "), (2, "about 2 digits "), (9, "about 9 digits ")]
)
def test_digits_are_counted_in_words(digits, words):
    doubt = Doubt("dependent", digits=digits, features=np.array([0]))
    assert words in explain(doubt, ["north"], ["height"])


def test_noise_below_what_presses_a_coefficient_against_its_bound_adds_nothing():
    def slack(noise, gradient):
        one = [np.array([[v]]) for v in (0.5, 0.2, 1.0, gradient, noise)]
        return ridge_slack(*one, Box(np.array([-0.5]), np.array([0.5])))[0, 0]

    # the best value is 2.8, which is 2.3 beyond the bound of 0.5: noise of 0.1 does not move it from there
    assert slack(0.1, 3.0) == slack(0.0, 3.0) == 0.0
    # of 2.4 it might
    assert slack(2.4, 3.0) == pytest.approx(0.5 * 0.1**2)
    assert slack(0.1, 0.4) > slack(0.0, 0.4)
