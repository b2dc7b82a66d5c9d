"""The part of a gap that entries with a ridge add: the Fenchel-Young term of their penalty, here by its definition."""

import numpy as np
import oracles
import pytest
from scipy.optimize import minimize_scalar

from msmtfl._data.forms.dense import DenseRows, RowTask
from msmtfl._objective.box import Box
from msmtfl._objective.proofs.certificates import certify_all, ridge_slack

NONE = np.zeros((1, 1))
NO_BOX = Box(np.array([-np.inf]), np.array([np.inf]))


def conjugate(g, a, ridge, low=-np.inf, high=np.inf):
    """The largest g w - a |w| - ridge w^2 / 2 over low <= w <= high, at a soft threshold that is cut at the bounds."""
    w = np.clip(np.sign(g) * max(abs(g) - a, 0.0) / ridge, low, high)
    value = g * w - a * abs(w) - ridge * w**2 / 2
    for side in (low, high):  # the formula, checked
        if np.isfinite(side):
            assert value >= g * side - a * abs(side) - ridge * side**2 / 2 - 1e-12
    return value


def term(w, g, a, ridge, low=-np.inf, high=np.inf):
    return a * abs(w) + ridge * w**2 / 2 + conjugate(g, a, ridge, low, high) - g * w


def slack(w, g, a, ridge, limit, noise=0.0):
    one = [np.array([[float(v)]]) for v in (w, a, ridge, g, noise)]
    return ridge_slack(*one, limit)[0, 0]


POINTS = [(w, g) for w in (-1.5, -0.2, 0.0, 0.3, 2.0) for g in (-3.0, -0.6, 0.0, 0.4, 0.5, 2.5)]


def test_the_conjugate_is_a_maximum():
    for g in (-2.0, 0.1, 3.0):
        found = minimize_scalar(
            lambda w, g=g: -(g * w - 0.5 * abs(w) - 0.7 * w**2 / 2), bounds=(-20, 20), method="bounded"
        )
        np.testing.assert_allclose(conjugate(g, 0.5, 0.7), -found.fun, atol=1e-6)


@pytest.mark.parametrize("ridge", [0.3, 4.0])
@pytest.mark.parametrize("a", [0.0, 0.5])
def test_terms_are_those_of_the_definition(a, ridge):
    for w, g in POINTS:
        np.testing.assert_allclose(slack(w, g, a, ridge, False), term(w, g, a, ridge), atol=1e-14, err_msg=f"{w} {g}")
        np.testing.assert_allclose(slack(w, g, a, ridge, NO_BOX), term(w, g, a, ridge), atol=1e-14, err_msg=f"{w} {g}")
        if w >= 0.0:
            expected = term(w, g, a, ridge, low=0.0)
            # a gradient that presses w > 0 downwards counts as if w could fall below 0: no less than the term
            found = slack(w, g, a, ridge, True)
            assert found >= expected - 1e-14
            if w == 0.0 or g >= -a:
                np.testing.assert_allclose(found, expected, atol=1e-14, err_msg=f"{w} {g}")


@pytest.mark.parametrize("ridge", [0.3, 4.0])
def test_terms_within_bounds_are_those_of_the_definition(ridge):
    box, a = Box(np.array([-0.5]), np.array([1.0])), 0.4
    for w in (-0.5, -0.1, 0.0, 0.7, 1.0):
        for g in (-6.0, -0.6, 0.0, 0.45, 1.0, 7.0):
            expected = term(w, g, a, ridge, -0.5, 1.0)
            np.testing.assert_allclose(slack(w, g, a, ridge, box), expected, atol=1e-13, err_msg=f"{w} {g}")


def test_an_infinite_weight_and_no_ridge_add_nothing():
    assert slack(0.0, 5.0, np.inf, 1.0, False) == 0.0
    assert slack(1.0, 5.0, 0.5, 0.0, False) == 0.0


def test_what_rounding_may_hide_of_a_gradient_is_added():
    # the term of any gradient within the noise is not above the one that is told
    for w, g in POINTS:
        for limit, low in ((False, -np.inf), (Box(np.array([-2.0]), np.array([2.0])), -2.0)):
            told = slack(w, g, 0.5, 0.8, limit, noise=0.05)
            worst = max(term(w, g + by, 0.5, 0.8, low, -low) for by in (-0.05, 0.0, 0.05))
            # the part that is linear in w is allowed for elsewhere: only the distance from the best value counts here
            assert told + 0.05 * abs(w) >= worst - 1e-12, (w, g)
            assert told <= slack(w, g, 0.5, 0.8, limit) + 0.5 * (0.05**2 / 0.8) + 0.05 * (abs(w) + abs(g) / 0.8 + 2), (
                w,
                g,
            )
    assert slack(0.0, 0.3, 0.5, 0.8, False, noise=0.05) == 0.0  # certainly inside: nothing can be hidden
    assert slack(0.0, 0.5, 0.5, 0.8, False, noise=0.05) > 0.0


def ridge_problem(seed, n=30, d=8):
    (X,), (y,) = oracles.random_tasks(seed, m=1, n=n, d=d)
    ridge = np.where(np.arange(d) % 3 == 0, 0.0, 2.0 + np.arange(d))
    return X, y, np.full(d, 0.05 * np.abs(X.T @ y).max()), ridge


def solve(X, y, a, ridge, rounds=4000):
    """Proximal gradient steps, in plain numpy."""
    step = 1.0 / (np.linalg.eigvalsh(X.T @ X)[-1] + ridge.max())
    w = np.zeros(X.shape[1])
    for _ in range(rounds):
        v = w - step * (X.T @ (X @ w - y) + ridge * w)
        w = np.sign(v) * np.maximum(np.abs(v) - step * a, 0.0)
    return w


@pytest.mark.parametrize("seed", range(3))
def test_gaps_with_a_ridge_bound_the_distance_from_the_optimum_and_vanish_there(seed):
    X, y, a, ridge = ridge_problem(seed)
    best = solve(X, y, a, ridge)
    rng = np.random.default_rng(seed)
    W = np.vstack(
        [best, *(best + size * rng.standard_normal(best.shape) for size in (1e-6, 1e-3, 0.1, 10.0)), 0 * best]
    )

    def objective(w):
        return 0.5 * ((y - X @ w) ** 2).sum() + a @ np.abs(w) + 0.5 * ridge @ w**2

    design = RowTask(DenseRows(X, None, False), y)
    told = certify_all(design, W, np.tile(a, (len(W), 1)), ridge=np.tile(ridge, (len(W), 1)))
    assert told[0].relative_gap < 1e-10
    for w, one in zip(W, told, strict=True):
        over = objective(w) - objective(best)
        assert one.gap >= over - 1e-12 * one.unit
        r = y - X @ w  # what the gap is at the residual itself, as far as that is feasible where there is no ridge
        g, hard = X.T @ r, ridge == 0.0
        scale = min(1.0, (a[hard] / np.maximum(np.abs(g[hard]), 1e-300)).min())
        terms = sum(term(w[j], scale * g[j], a[j], ridge[j]) for j in np.flatnonzero(~hard))
        terms += (a * np.abs(w) - scale * g * w)[hard].sum()
        by_hand = 0.5 * (1 - scale) ** 2 * r @ r + terms
        np.testing.assert_allclose(one.gap, min(by_hand, objective(w)), rtol=1e-6, atol=1e-10 * one.unit)


def test_several_solutions_at_once_are_those_one_by_one():
    X, y, a, ridge = ridge_problem(7)
    design = RowTask(DenseRows(X, None, False), y)
    rng = np.random.default_rng(0)
    W, A, R = (
        rng.standard_normal((4, 8)),
        np.vstack([a, 2 * a, 0 * a, a]),
        np.vstack([ridge, 0 * ridge, ridge, ridge + 1]),
    )
    together = certify_all(design, W, A, ridge=R)
    for k, one in enumerate(together):
        alone = certify_all(design, W[k : k + 1], A[k : k + 1], ridge=R[k : k + 1])[0]
        np.testing.assert_allclose([one.gap, one.kkt], [alone.gap, alone.kkt], rtol=1e-10)
        assert one.unique == alone.unique
