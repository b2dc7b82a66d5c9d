"""Weighted lassos with a ridge that changes from solve to solve: the factor is made anew, newcomers are foreseen."""

import numpy as np
import oracles
import pytest

from msmtfl._data.forms.dense import DenseRows, RowTask
from msmtfl._kernels.registers import use_registers
from msmtfl._solvers.gram import Gram
from msmtfl._solvers.lassos.weighted_lasso import Lassos

FALLING = np.geomspace(1.0, 1e-3, 25)


def design_of(X, y):
    return RowTask(DenseRows(X, None, False), y)


def problem(seed, n, d, active=8):
    (X,), (y,) = oracles.random_tasks(seed, m=1, n=n, d=d, active=min(active, d))
    return X, y, np.full((1, d), np.abs(X.T @ y).max())


def with_samples(X, y, ridge, a, positive):
    """Without a ridge: samples in its place."""
    rows = np.sqrt(ridge)
    lassos = Lassos([design_of(np.vstack([X, np.diag(rows)]), np.append(y, np.zeros(len(rows))))], positive=positive)
    return lassos.solve(a)[0]


@pytest.fixture(params=[8, 4, 2])
def width(request):
    before = use_registers(request.param)
    yield request.param
    use_registers(before)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("rows", ["whole", "on demand"])
@pytest.mark.parametrize(("n", "d"), [(30, 5), (60, 37), (20, 50), (90, 72)])
@pytest.mark.parametrize("order", ["falling", "rising", "any"])
@pytest.mark.sampled(6)
def test_a_ridge_is_samples_along_any_path(width, order, n, d, rows, positive):
    rng = np.random.default_rng(n + d)
    X, y, a = problem(n + d, n, d)
    ridge = rng.uniform(0.2, 2.0, (1, d)) * n
    a[0, ::5] *= rng.choice([0.0, 0.5, 2.0, np.inf])
    design = design_of(X, y)
    lassos = Lassos(
        [design], grams=[Gram(design, whole=rows == "whole", may_form=False)], ridge=ridge, positive=positive
    )
    lams = {"falling": FALLING, "rising": FALLING[::-1], "any": rng.permutation(FALLING)}[order]
    for lam in lams.tolist():
        lassos.at(lam)
        found = lassos.solve(lam * a)[0]
        expected = with_samples(X, y, lam * ridge[0], lam * a, positive)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kernel", ["path", "one by one"])
def test_a_path_down_takes_few_rounds_and_ends_where_each_lam_does(kernel):
    X, y, a = problem(5, 200, 80, active=40)
    ridge, lams = np.full((1, 80), 40.0), np.geomspace(0.9, 1e-3, 40)
    lassos = Lassos([design_of(X, y)], ridge=ridge)
    rounds = []
    if kernel == "path":
        found = np.zeros((40, 80))
        for w, solve in zip(found, lassos.path(lams, a), strict=True):
            w[solve.at] = solve.values
    else:
        found = []
        for lam in lams.tolist():
            lassos.at(lam)
            w, used = lassos.solve(lam * a)
            found.append(w[0])
            rounds.append(int(used[0]))
        assert sum(rounds) < 55  # 73 if features enter only when a round has found them
    for lam, w in zip(lams.tolist(), found, strict=True):
        np.testing.assert_allclose(w, with_samples(X, y, lam * ridge[0], lam * a, False)[0], rtol=1e-9, atol=1e-10)


def test_columns_that_only_the_ridge_tells_apart():
    """Copies are independent as long as there is a ridge; where rounding hides it, the support goes on without some."""
    X, y, a = problem(3, 40, 12)
    X = np.hstack([X, X[:, :6], X[:, :6] + 1e-9 * X[:, 6:12]])
    a, ridge = np.full((1, 24), a.max()), np.ones((1, 24))
    lassos = Lassos([design_of(X, y)], ridge=ridge)
    for lam, level in ((0.01, 1.0), (0.01, 1e-4), (0.005, 1e-15), (0.002, 1e-18), (0.002, 1.0)):
        lassos.at(level)
        w = lassos.solve(lam * a)[0][0]
        gradient = X.T @ (y - X @ w) - level * w
        np.testing.assert_array_less(np.abs(gradient), lam * a[0] * (1.0 + 1e-9))
        np.testing.assert_allclose(gradient[w != 0.0], (lam * a[0] * np.sign(w))[w != 0.0], rtol=1e-9)


def test_the_same_bits_with_a_ridge_from_registers_of_any_width(width):
    X, y, a = problem(7, 120, 61, active=45)
    found = []
    for allowed in (8, width):
        use_registers(allowed)
        lassos = Lassos([design_of(X, y)], ridge=np.full((1, 61), 30.0))
        found.append([])
        for lam in FALLING.tolist():
            lassos.at(lam)
            found[-1].append(lassos.solve(lam * a)[0])
    assert np.count_nonzero(found[0][-1]) > 40
    np.testing.assert_array_equal(*found)
