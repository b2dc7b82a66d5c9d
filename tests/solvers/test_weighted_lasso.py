"""The weighted lassos of one stage: against oracles, by every route, unique or not."""

import importlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

import msmtfl
from msmtfl import LassoMTL
from msmtfl._data.forms.dense import DenseRows, RowTask
from msmtfl._kernels import arrow_factor, products, support
from msmtfl._kernels.registers import use_registers
from msmtfl._objective.proofs.certificates import certify
from msmtfl._runtime.progress import Listener
from msmtfl._solvers.gram import Gram
from msmtfl._solvers.lasso_stages import certified
from msmtfl._solvers.lassos import weighted_lasso as lasso
from msmtfl._solvers.lassos.weighted_lasso import Lassos
from msmtfl._solvers.lassos.working_set import WorkingSet


def design_of(X, y, centre=False):
    return RowTask(DenseRows(X, None, centre), y)


def solve(X, y, a, positive=False, reference=None):
    """The solution for weights a, from nothing."""
    lassos = Lassos([design_of(X, y)], positive=positive)
    return lassos.solve(a[None], reference=None if reference is None else reference[None])[0][0]


def largest(X, y):
    """The smallest weight at which the solution is 0."""
    return np.abs(X.T @ y).max()


def random_weights(X, y, rng, free=0.1, excluded=0.1):
    """Weights between 0.01 and 1 of the largest, some 0, some infinite."""
    a = largest(X, y) * 10.0 ** rng.uniform(-2, 0, X.shape[1])
    a[rng.random(len(a)) < free] = 0.0
    a[rng.random(len(a)) < excluded] = np.inf
    return a


def test_the_kernels_are_those_asked_for(request):
    folder = Path(msmtfl.__file__).parent / "_kernels"
    names = [file.stem for file in folder.glob("*.py") if "import cython\n" in file.read_text(encoding="utf-8")]
    assert {"active_set", "products", "row_sweep", "stage_loop"} < set(names)
    for name in names:
        kernel = importlib.import_module(f"msmtfl._kernels.{name}")
        assert kernel.__file__.endswith(".py") == request.config.getoption("--uncompiled"), name


# ------------------------------------------------------------------ against oracles


@pytest.mark.parametrize(("free", "excluded"), [(0, 0), (0.3, 0), (0, 0.3), (0.3, 0.3)])
def test_equals_fista(free, excluded):
    (X,), (y,) = oracles.random_tasks(1, m=1, n=40, d=15)
    a = random_weights(X, y, np.random.default_rng(2), free, excluded)
    w = solve(X, y, a)
    np.testing.assert_allclose(w, oracles.weighted_lasso(X, y, a), rtol=0, atol=1e-10)
    assert not w[np.isinf(a)].any()


def test_only_zero_or_infinite_weights():
    (X,), (y,) = oracles.random_tasks(3, m=1, n=30, d=8)
    a = np.where(np.arange(8) % 2, 0.0, np.inf)
    w = solve(X, y, a)
    np.testing.assert_allclose(w[1::2], np.linalg.lstsq(X[:, 1::2], y, rcond=None)[0], rtol=1e-12)
    assert not w[::2].any()


@pytest.mark.parametrize("n", [40, 12])
def test_positive_least_squares_equals_nnls(n):
    (X,), (y,) = oracles.random_tasks(4, m=1, n=n, d=10)
    w = solve(X, y, np.zeros(10), positive=True)
    np.testing.assert_allclose(w, nnls(X, y)[0], rtol=0, atol=1e-12)
    assert (w == 0).any()


def test_positive_lasso_equals_sklearn():
    (X,), (y,) = oracles.random_tasks(5, m=1, n=20, d=40)
    for share in (0.5, 0.1, 0.01):
        a = share * largest(X, y)
        peer = Lasso(alpha=a / 20, positive=True, fit_intercept=False, tol=1e-14, max_iter=1_000_000).fit(X, y)
        np.testing.assert_allclose(solve(X, y, np.full(40, a), positive=True), peer.coef_, rtol=0, atol=1e-6)


# ------------------------------------------------------------------ routes


@pytest.mark.parametrize("switch", [False, True], ids=["to the end", "until the rest follows"])
def test_gram_rows_on_demand_equal_full_gram(switch):
    (X,), (y,) = oracles.random_tasks(6, m=1, n=40, d=150)
    design, rng = design_of(X, y), np.random.default_rng(7)
    gram = Gram(design, whole=False, may_form=switch)
    full, some = Lassos([design]), Lassos([design], grams=[gram])
    for _ in range(6):
        a = random_weights(X, y, rng)[None]
        np.testing.assert_allclose(some.solve(a)[0], full.solve(a)[0], rtol=0, atol=1e-10)
    assert (gram.whole is not None) == switch


def test_gram_rows_on_demand_are_the_rule_for_many_features():
    (X,), (y,) = oracles.random_tasks(8, m=1, n=40, d=5000)
    lassos = Lassos([design_of(X, y)])
    a = np.full((1, 5000), 0.5 * largest(X, y))
    W, _ = lassos.solve(a)
    assert lassos.grams[0].size < 500
    assert oracles.relative_gap(X, y, W[0], a[0]) <= 1e-10


def test_warm_equals_cold():
    (X,), (y,) = oracles.random_tasks(9, m=1, n=25, d=30)
    rng = np.random.default_rng(10)
    warm = Lassos([design_of(X, y)])
    for turn in range(20):
        a = random_weights(X, y, rng)
        if turn % 3 == 2:  # from a point that has nothing to do with the solution
            warm.warm(rng.standard_normal((1, 30)))
        np.testing.assert_allclose(warm.solve(a[None])[0][0], solve(X, y, a), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "route", ["whole", "rows on demand", "working sets", "several minimisers", "all tied", "near copies"]
)
@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.sampled(3)
def test_a_path_equals_solves_one_by_one(route, careful):
    Xs, ys = oracles.random_tasks(11, m=3, n=25, d=60)
    if route == "several minimisers":
        Xs = [np.column_stack([X[:, :30], X[:, :30]]) for X in Xs]
    if route == "all tied":  # more ties than the kernel takes on
        Xs = [np.outer(X[:, 0], np.sign(X[0])) for X in Xs]
    if route == "near copies":  # so ill-conditioned that solutions are worked out on X
        Xs = [np.column_stack([X[:, :30], X[:, :30] + 1e-6 * X[:, 30:]]) for X in Xs]
    designs = [design_of(X, y) for X, y in zip(Xs, ys, strict=True)]
    weights = np.array(
        [largest(X, y) * np.random.default_rng(12).uniform(0.5, 2.0, 60) for X, y in zip(Xs, ys, strict=True)]
    )
    weights[:, 5], weights[:, 6] = 0.0, np.inf
    if route in ("all tied", "near copies"):
        weights[:] = [[largest(X, y)] for X, y in zip(Xs, ys, strict=True)]
    lams = np.geomspace(2.0, 0.01, 15)

    def lassos(n_jobs=None):
        grams = {
            "rows on demand": [Gram(design, whole=False, may_form=False) for design in designs],
            "working sets": [WorkingSet(design) for design in designs],
        }
        return Lassos(designs, grams=grams.get(route), careful=careful, n_jobs=n_jobs)

    for n_jobs in (None, 2):
        one, ticks = lassos(), []
        path = lassos(n_jobs).path(lams, weights, tick=ticks.append)
        for lam, solved in zip(lams, path, strict=True):
            W, _ = one.solve(lam * weights)
            out = np.zeros(W.size)
            out[solved.at] = solved.values
            assert W.any() == (lam < 1.0) or weights.min() == 0.0
            np.testing.assert_allclose(out.reshape(W.shape), W, rtol=0, atol=1e-12)
            np.testing.assert_array_equal(solved.at, np.sort(solved.at))
            np.testing.assert_array_equal(solved.status, one.status)
        assert sum(ticks) == pytest.approx(len(lams))


@pytest.mark.parametrize("order", ["C", "F", "neither"])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (9, 1), (1, 9), (7, 3), (40, 18), (33, 70)])
def test_sums_over_rows_in_any_memory_order(order, n, d):
    rng = np.random.default_rng(n + d)
    whole = np.array(rng.standard_normal((n + 5, 2 * d)), order="F" if order == "F" else "C")
    X = whole[2 : 2 + n, ::2] if order == "neither" else whole[2 : 2 + n, :d]
    X = X.copy(order) if order != "neither" and n > 7 else X  # memory of its own, or part of a larger array
    u, y, moments, G = rng.random(n), rng.standard_normal(n), np.empty((3, d)), np.empty((d, d))
    products.column_moments(X, u, y, *moments)
    np.testing.assert_allclose(moments, [X.T @ u, X.T @ y, (X**2).sum(axis=0)], rtol=1e-12, atol=1e-12)
    products.gram(X, G)
    np.testing.assert_allclose(G, X.T @ X, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(G, G.T)
    for count in (1, 3, 8, 9):
        V, out = rng.standard_normal((count, n)), np.full((count, d + 4), np.nan)
        products.few_products(V, X, out[:, 1 : d + 1], 8)
        np.testing.assert_allclose(out[:, 1 : d + 1], V @ X, rtol=1e-12, atol=1e-12)
        assert np.isnan(out[:, [0, d + 1, d + 2, d + 3]]).all()


@pytest.mark.parametrize("order", ["C", "F", "neither"])
@pytest.mark.parametrize("ends", [(0, 18), (0, 1, 18), (0, 5, 5, 17, 18), range(19)])
def test_a_gram_matrix_in_parts(order, ends):
    whole = np.array(np.random.default_rng(0).standard_normal((40, 36)), order="F" if order == "F" else "C")
    X, G = whole[:, ::2] if order == "neither" else whole[:, :18], np.full((18, 18), np.nan)
    for low, high in pairwise(ends):
        products.gram(X, G, low, high)
        assert np.isnan(G[high:]).all()
    np.testing.assert_allclose(G, X.T @ X, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(G, G.T)


@pytest.mark.parametrize(("low", "high"), [(-1, 3), (2, 1), (0, 5)])
def test_parts_that_a_gram_matrix_does_not_have_are_refused(low, high):
    """The compiled code does not look at bounds."""
    with pytest.raises(ValueError, match="no part of a Gram matrix of order 4"):
        products.gram(np.ones((3, 4)), np.empty((4, 4)), low, high)


@pytest.fixture(params=[8, 4, 2])
def width(request):
    """Numbers in the widest registers that the kernel may use: what machines with narrower ones run, runs here, too."""
    before = use_registers(request.param)
    yield request.param
    use_registers(before)


@pytest.mark.parametrize("kernel", [arrow_factor, products, support], ids=["arrow", "products", "support"])
def test_every_kernel_with_registers_uses_the_width(width, kernel, request):
    allowed = kernel.use_registers(width)
    assert allowed == (8 if request.config.getoption("--uncompiled") else width)


def test_the_same_bits_from_registers_of_any_width(width):
    Xs, ys = oracles.random_tasks(3, m=3, n=60, d=90, active=30)
    a = 0.02 * np.array([np.full(90, largest(X, y)) for X, y in zip(Xs, ys, strict=True)])
    a[:, ::7] = 0.0
    designs = [design_of(X, y) for X, y in zip(Xs, ys, strict=True)]
    found = []
    for allowed in (8, width):
        use_registers(allowed)
        lassos = Lassos(designs)
        found.append([lassos.solve(share * a)[0] for share in (30.0, 1.0, 10.0, 0.5)])
    assert np.count_nonzero(found[0][1]) > 60
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 29])
def test_sums_over_rows_with_registers_of_any_width(width, n):
    rng = np.random.default_rng(n)
    whole = np.asfortranarray(rng.standard_normal((n + 3, 23)))
    u, y, V = rng.random(n), rng.standard_normal(n), rng.standard_normal((13, n))
    for X in (whole[3:], whole[3:].copy("F")):
        moments = np.empty((3, 23))
        products.column_moments(X, u, y, *moments)
        np.testing.assert_allclose(moments, [X.T @ u, X.T @ y, (X**2).sum(axis=0)], rtol=1e-12, atol=1e-12)
        for count in range(1, 14):
            out = np.empty((count, 23))
            products.few_products(V[:count], X, out, 16)
            np.testing.assert_allclose(out, V[:count] @ X, rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------ minimisers that are not unique


def test_copies_share_equally():
    (X,), (y,) = oracles.random_tasks(11, m=1, n=30, d=3, active=3)
    X = X[:, [0, 1, 0, 2, 0]] * [1, 1, 1, 1, -1]
    w = solve(X, y, np.full(5, 0.1 * largest(X, y)))
    assert w[0] != 0
    np.testing.assert_allclose(w[[2, 4]], [w[0], -w[0]], rtol=1e-12)


def test_scaled_copies_share_by_least_norm():
    (X,), (y,) = oracles.random_tasks(12, m=1, n=30, d=2, active=2)
    X = np.column_stack([X, 2 * X[:, 0]])  # w_0 + 2 w_2 is determined; its least norm has w_2 = 2 w_0
    w = solve(X, y, 0.1 * largest(X, y) * np.array([1.0, 1.0, 2.0]))
    assert w[0] != 0
    assert w[2] == pytest.approx(2 * w[0], rel=1e-12)


def test_tied_columns_stay_positive():
    rng = np.random.default_rng(17)
    for _ in range(20):
        X = rng.standard_normal((10, 4))
        X, y = np.column_stack([X, -X]), rng.standard_normal(10)
        w = solve(X, y, np.zeros(8), positive=True)
        assert w.min() >= 0
        np.testing.assert_allclose(X @ w, X @ nnls(X, y)[0], rtol=0, atol=1e-12)


def tied_problem(kind, rng):
    """X, y, a with more than one minimiser."""
    X, a = rng.standard_normal((20, 12)), np.ones(12)
    if kind == "copies":
        X[:, 6:] = X[:, :6] * rng.choice([-1, 1], 6)
    elif kind == "sums":  # a sum of columns at the sum of their weights
        X[:, 10], X[:, 11] = X[:, 0] + X[:, 1], X[:, 2] + X[:, 3]
        a[10:] = 2.0
    else:
        X = rng.standard_normal((20, 4)) @ rng.standard_normal((4, 12))
        a[:8] = 0.0
    y = X @ rng.uniform(0.5, 1, 12) + 0.1 * rng.standard_normal(20)
    return X, y, 0.05 * largest(X, y) * a


@pytest.mark.parametrize("kind", ["copies", "sums", "low rank"])
def test_nearest_zero_by_every_route(kind):
    """Nearest 0 is the limit of a vanishing ridge; route and order of the columns do not matter."""
    rng = np.random.default_rng(13)
    X, y, a = tied_problem(kind, rng)
    design = design_of(X, y)
    w = solve(X, y, a)
    assert not certify(design, w, a).unique
    ridge = 1e-5
    near = oracles.weighted_lasso(np.vstack([X, np.sqrt(ridge) * np.eye(12)]), np.append(y, np.zeros(12)), a)
    np.testing.assert_allclose(w, near, rtol=0, atol=1e-4)

    order = rng.permutation(12)
    np.testing.assert_allclose(solve(X[:, order], y, a[order]), w[order], rtol=0, atol=1e-9)
    some, warm = Lassos([design], grams=[Gram(design, whole=False)]), Lassos([design])
    for _ in range(3):
        warm.solve(random_weights(X, y, rng)[None])
    for route in (some, warm):
        np.testing.assert_allclose(route.solve(a[None])[0][0], w, rtol=0, atol=1e-9)


def test_more_free_features_than_rows_move_least_from_the_reference():
    rng = np.random.default_rng(14)
    X, y, before = rng.standard_normal((8, 25)), rng.standard_normal(8), rng.standard_normal(25)
    a = np.where(np.arange(25) < 15, 0.0, largest(X, y))
    w = solve(X, y, a, reference=before)
    step = np.linalg.pinv(X[:, :15]) @ (y - X[:, :15] @ before[:15])
    np.testing.assert_allclose(w[:15], before[:15] + step, rtol=0, atol=1e-10)
    assert not w[15:].any()


# ------------------------------------------------------------------ hard problems


def test_ill_conditioned_free_columns_are_polished_on_rows(monkeypatch):
    rng = np.random.default_rng(10)
    left, right = np.linalg.qr(rng.standard_normal((40, 8)))[0], np.linalg.qr(rng.standard_normal((8, 8)))[0]
    X = np.column_stack([left * np.geomspace(1, 1e-7, 8) @ right, rng.standard_normal((40, 10))])
    y = X[:, 8:11].sum(axis=1) + left.sum(axis=1)
    a = np.where(np.arange(18) < 8, 0.0, 0.1 * largest(X, y))
    polished = oracles.relative_gap(X, y, solve(X, y, a), a)
    monkeypatch.setattr(lasso, "polish", lambda design, w, a, positive: w)
    rough = oracles.relative_gap(X, y, solve(X, y, a), a)
    assert polished <= 1e-9
    assert rough > 1e-6


def test_stopped_early_is_feasible_and_says_so():
    Xs, ys = oracles.random_tasks(16, m=2, n=30, d=40, active=20)
    X, y, task = np.concatenate(Xs), np.concatenate(ys), np.repeat([0, 1], 30)
    factors = np.ones(40)
    factors[::4] = np.inf
    model = LassoMTL(lam=1e-3, max_iter=1, fit_intercept=False, penalty_factors=factors)
    with pytest.warns(ConvergenceWarning, match="not solved to tol.*Raise max_iter"):
        model.fit(X, y, task=task)
    assert not model.certificate_.optimal
    assert not model.coef_[:, ::4].any()
    gaps = [oracles.relative_gap(Xs[i], ys[i], model.coef_[i], 30 * 1e-3 * factors) for i in range(2)]
    units = [y_i @ y_i for y_i in ys]
    assert model.dual_gap_ == pytest.approx(np.average(gaps, weights=units), rel=1e-6)
    assert model.objective_ <= oracles.loss(Xs, ys, np.zeros((2, 40)))


def test_an_unfinished_point_is_not_taken_for_a_minimiser(monkeypatch):
    """Its violators are no ties: to project it would be slow and would say nothing."""
    (X,), (y,) = oracles.random_tasks(18, m=1, n=30, d=40, active=20)
    called = []
    monkeypatch.setattr(lasso, "nearest", lambda design, w, *rest: called.append("nearest") or w)
    Lassos([design_of(X, y)]).solve(np.full((1, 40), 1e-3 * largest(X, y)), max_iter=1)
    assert not called


@st.composite
def hard_problems(draw):
    """X, y, a, centre: wild scales, copies, near copies, constant columns, weights with zeros and infinities."""
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 16))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.standard_normal((n, d))
    kinds = st.sampled_from(["new", "new", "new", "copy", "negated", "near", "constant"])
    for j, kind in enumerate(draw(st.lists(kinds, min_size=d, max_size=d))):
        model = X[:, rng.integers(j + 1)]
        if kind == "constant":
            X[:, j] = 1.0
        elif kind == "near":
            X[:, j] = model + 10.0 ** rng.uniform(-8, -3) * X[:, j]
        elif kind != "new":
            X[:, j] = model if kind == "copy" else -model
    wild = draw(st.sampled_from([0, 1, 6]))
    X *= 10.0 ** rng.integers(-wild, wild + 1, d)
    length = np.linalg.norm(X, axis=0)
    y = X @ (rng.standard_normal(d) / length) + draw(st.sampled_from([0, 0.1, 1])) * rng.standard_normal(n)
    y *= 10.0 ** draw(st.integers(-6, 6))
    shares = st.sampled_from([0.0, np.inf, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0])
    a = np.array(draw(st.lists(shares, min_size=d, max_size=d)))
    a *= np.linalg.norm(y) * (length if draw(st.booleans()) else length.max())
    return X, y, a, draw(st.booleans())


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(hard_problems())
def test_exact_or_honest(problem):
    """The gap found on X and y is at most 1e-10, or no worse than what the certificate admits."""
    X, y, a, centre = problem
    design = design_of(X, y, centre)
    W, _ = Lassos([design]).solve(a[None])
    W, (proof,) = certified(Lassos([design]), W, a[None], np.zeros((1, design.d)), Listener())
    lost = 0.0  # what the centring here loses of X w, as a share of |y|
    if centre:
        lost = 2.0**-52 * np.sqrt(len(y)) * (np.abs(W[0]) @ np.abs(X.mean(axis=0)))
        y = y - y.mean()
        X = X - X.mean(axis=0)
        X[:, design.squares == 0] = 0.0
        lost /= max(np.linalg.norm(y), np.finfo(float).tiny)
    if design.yy > 0:
        assert oracles.relative_gap(X, y, W[0], a) <= max(1e-10, 2 * proof.relative_gap) + 4 * (lost + lost**2)
    else:
        assert not W.any()


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("kind", ["two rows", "three rows", "copies", "rounded"])
@pytest.mark.sampled(3)
def test_a_path_through_ties_equals_solves_one_by_one(kind, careful):
    """All columns of two centred rows are parallel; the kernel leaves such minimisers to be finished outside."""
    rng = np.random.default_rng(0)
    n = {"two rows": 2, "three rows": 3}.get(kind, 12)
    X = rng.standard_normal((n, 40))
    if kind == "copies":
        X = X[:, rng.integers(0, 6, 40)] * rng.choice([1.0, -1.0, 2.0], 40)
    if kind == "rounded":
        X = np.round(X)
    designs = [RowTask(DenseRows(X, None, True), rng.standard_normal(n)) for _ in range(3)]
    units = np.array([np.sqrt(np.where(design.squares > 0, design.squares, 1.0)) for design in designs])
    top = max((np.abs(design.c) / unit).max() for design, unit in zip(designs, units, strict=True))
    lams = top * np.geomspace(1.0, 1e-3, 15)
    path, one = Lassos(designs, units=units, careful=careful), Lassos(designs, units=units, careful=careful)
    for lam, solve in zip(lams, path.path(lams, units), strict=True):
        W, _ = one.solve(lam * units)
        found = np.zeros_like(W)
        found.ravel()[solve.at] = solve.values
        np.testing.assert_allclose(found, W, atol=1e-9 * np.abs(W).max(initial=1.0))
        for design, w, a in zip(designs, found, lam * units, strict=True):
            assert certify(design, w, a, False).relative_gap < 1e-10
