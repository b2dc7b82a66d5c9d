"""pi(k, s), Lemmas 19 and 20, coherence, incoherence and isometry against brute force, and what the paper says of how the
conditions on columns are related (Remarks 9 and 11)."""

from itertools import combinations, product
from math import inf, sqrt

import numpy as np
import pytest
from scipy.optimize import minimize

from msmtfl import stack_tasks
from msmtfl.paper.theory import (
    design_conditions,
    incoherence,
    mutual_coherence,
    mutual_incoherence,
    pi_constant,
    restricted_isometry,
    sparse_eigenvalues,
)
from msmtfl.paper.theory.interaction import _best


def moments(X, center=False):
    Z = X - X.mean(axis=0) if center else X
    return Z.T @ Z / len(Z)


def with_moments(A):
    """X with X'X / n = A"""
    return sqrt(len(A)) * np.linalg.cholesky(A).T


def designs(seed, count, sizes=((30, 4), (9, 5), (12, 6))):
    rng = np.random.default_rng(seed)
    for k in range(count):
        n, d = sizes[k % len(sizes)]
        X = rng.standard_normal((n, d))
        if k % 3 == 1:
            X[:, 0] = X[:, 1] + 0.3 * X[:, 0]
        if k % 4 == 3:
            X *= 10.0 ** rng.uniform(-1, 1, d)
        yield X


def brute_pi(A, k, s, rng):
    """(32): all I, J and signs of u, v by a general optimiser from three starts."""
    best = 0.0
    for I in combinations(range(len(A)), k):
        outside = [j for j in range(len(A)) if j not in I]
        M = A[np.ix_(I, I)]
        for J in combinations(outside, s):
            for signs in product((1.0, -1.0), repeat=s):
                b = A[np.ix_(I, J)] @ np.array(signs)
                for _ in range(3):
                    found = minimize(
                        lambda v, b=b, M=M: -(v @ b) * np.linalg.norm(v) / (v @ M @ v), rng.standard_normal(k)
                    )
                    best = max(best, -found.fun)
    return best


# ------------------------------------------------------------------ pi and its lemmas


@pytest.mark.parametrize(("k", "s"), [(1, 1), (1, 3), (2, 1), pytest.param(2, 2, marks=pytest.mark.slow)])
def test_pi_is_the_supremum_that_a_general_optimiser_finds(k, s):
    rng = np.random.default_rng(0)
    for X in designs(k + 10 * s, 2, ((7, 4), (9, 5))):
        truth = brute_pi(moments(X), k, s, rng)
        found = pi_constant(X, k, s)
        assert found.values[0].exact
        assert found.largest.high == pytest.approx(truth, rel=1e-5)
        bounded = pi_constant(X, k, s, max_subsets=1).largest
        assert not bounded.exact
        assert bounded.low <= truth * (1 + 1e-6) <= bounded.high * (1 + 2e-6)
        assert bounded.low > 0.3 * truth  # the search is of use


def test_no_random_choice_exceeds_pi():
    rng = np.random.default_rng(1)
    X = next(designs(1, 1, ((12, 7),)))
    A, pi = moments(X), pi_constant(X, 3, 2).largest.high
    for _ in range(3000):
        order = rng.permutation(7)
        I, J = order[:3], order[3:5]
        v, u = rng.standard_normal(3), rng.uniform(-1, 1, 2)
        value = v @ A[np.ix_(I, J)] @ u * np.linalg.norm(v) / (v @ A[np.ix_(I, I)] @ v * np.abs(u).max())
        assert value <= pi


@pytest.mark.parametrize("first", [0.0, 1e-14, 1e-8, 1e-3, 1.0])
def test_the_best_v_where_b_hardly_points_along_the_smallest_eigenvalue(first):
    """The equation for c then has no root, or one that rounding swallows."""
    values, beta = np.array([0.05, 1.0, 2.0]), np.array([first, 1.0, -0.5])

    def quotient(v):
        return (v @ beta) * np.linalg.norm(v) / (v**2 @ values)

    grid = [np.array([t, *rest]) for t in np.linspace(0, 30, 400) for rest in ((1.0, -0.25), (1.0, -0.2), (1.0, -0.3))]
    best, v = _best(values, beta)
    starts = [max(grid, key=quotient), np.array([1.0, 1.0, -0.3]), np.array([20.0, 1.0, -0.2])]
    truth = max(
        -minimize(lambda v: -quotient(v), start, method="Nelder-Mead", options={"maxiter": 4000}).fun
        for start in starts
    )
    assert float(best) == pytest.approx(truth, rel=1e-5)
    assert quotient(v) == pytest.approx(float(best), rel=1e-9)


def test_pi_of_more_columns_than_there_are_is_that_of_at_most_so_many():
    X = next(designs(3, 1, ((9, 5),)))
    smaller = max(pi_constant(X, k, 5 - k).largest.high for k in (2, 3, 4))
    assert pi_constant(X, 9, 3).largest.high == pytest.approx(smaller)
    assert pi_constant(X, 9, 9).largest.high >= smaller * (1 - 1e-12)
    assert pi_constant(X[:, :1], 2, 2).largest.high == 0.0


def test_pi_without_correlations_and_with_dependent_columns():
    rng = np.random.default_rng(0)
    orthogonal = np.linalg.qr(rng.standard_normal((20, 6)))[0]
    assert pi_constant(orthogonal, 2, 2).largest.high < 1e-9
    assert pi_constant(np.eye(4), 2, 2).largest.high == 0.0
    assert pi_constant(rng.standard_normal((3, 8)), 4, 2).largest.low == inf
    copied = rng.standard_normal((30, 5))
    copied[:, 1] = copied[:, 0]
    found = pi_constant(copied, 2, 1)
    assert found.largest.high == inf
    assert found.holds  # the bound is infinite, too


@pytest.mark.slow
def test_lemma_19_holds_on_any_design():
    near = []
    for X in designs(7, 60, ((30, 4), (9, 5), (12, 6), (6, 5))):
        for k, s in ((1, 1), (2, 1), (2, 2)):
            found = pi_constant(X, k, s)
            low, high = sparse_eigenvalues(X, k + s).rho_min, sparse_eigenvalues(X, s).rho_max
            assert found.limits[0].high == pytest.approx(sqrt(s) / 2 * sqrt(high.high / low.low - 1))
            assert found.holds
            near.append(found.largest.high / found.limits[0].high)
    assert max(near) > 0.95  # it leaves little room
    assert max(near) <= 1 + 1e-9


def test_lemma_19_would_be_seen_to_fail():
    """With half of its right-hand side it does."""
    X = with_moments(np.array([[1.0, 0.9], [0.9, 1.0]]))
    found = pi_constant(X, 1, 1)
    assert found.largest.high == pytest.approx(0.9)
    half = type(found)(found.symbol, found.tasks, found.values, (type(found.limits[0])(0.0, found.limits[0].high / 2),))
    assert not half.holds


def test_lemma_20_holds_on_any_design_and_any_vector():
    """max(0, w_I'A w) >= rho-(k + s) (||w_I|| - pi(k + s, s) ||w_G||_1 / s) ||w_I||; without pi it fails."""
    rng = np.random.default_rng(0)
    fails_without = 0
    for X in designs(5, 12, ((30, 6), (10, 6))):
        A, d = moments(X), X.shape[1]
        for k, s in ((1, 1), (2, 1), (2, 2)):
            if k + 2 * s > d:
                continue
            pi, rho = pi_constant(X, k + s, s).largest.high, sparse_eigenvalues(X, k + s).rho_min.low
            for _ in range(200):
                w = rng.standard_normal(d) * 10.0 ** rng.uniform(-2, 1, d)
                order = rng.permutation(d)
                G = order[k:]
                J = G[np.argsort(-np.abs(w[G]))[:s]]
                w_I = np.zeros(d)
                inside = np.concatenate([order[:k], J])
                w_I[inside] = w[inside]
                left, size = max(0.0, w_I @ A @ w), np.linalg.norm(w_I)
                assert left >= rho * (size - pi * np.abs(w[G]).sum() / s) * size - 1e-12
                fails_without += left < rho * size**2 * (1 - 1e-9)
    assert fails_without > 50


# ------------------------------------------------------------------ coherence, incoherence, isometry


def test_coherence_is_the_largest_correlation_and_names_the_columns():
    for X in designs(2, 8):
        for center in (False, True):
            Z = X - X.mean(axis=0) if center else X
            pairs = {
                (j, l): abs(Z[:, j] @ Z[:, l]) / np.linalg.norm(Z[:, j]) / np.linalg.norm(Z[:, l])
                for j, l in combinations(range(Z.shape[1]), 2)
            }
            (j, l), truth = max(pairs.items(), key=lambda item: item[1])
            found = mutual_coherence(X, center=center)
            assert found.largest.high == pytest.approx(truth)
            assert found.values[0].how == f"features x{j} and x{l}"
    X[:, 2] = 0.0
    assert mutual_coherence(X[:, 2:3]).largest.high == 0.0
    assert "x2" not in mutual_coherence(X).values[0].how


def brute_incoherence(X, k):
    """max over supports S of at most k columns and j outside of ||(X_S'X_S)^-1 X_S'x_j||_1"""
    d, best = X.shape[1], 0.0
    for q in range(1, k + 1):
        for S in combinations(range(d), q):
            rest = [j for j in range(d) if j not in S]
            best = max(best, np.abs(np.linalg.lstsq(X[:, S], X[:, rest], rcond=None)[0]).sum(axis=0).max())
    return best


@pytest.mark.parametrize("k", [1, 2, 3])
def test_incoherence_is_that_of_all_supports(k):
    for X in designs(k, 8):
        truth = brute_incoherence(X, k)
        exact, bounded = mutual_incoherence(X, k).largest, mutual_incoherence(X, k, max_subsets=1).largest
        assert exact.exact
        assert exact.high == pytest.approx(truth)
        assert bounded.low <= truth * (1 + 1e-9)
        assert bounded.high >= truth * (1 - 1e-9)


def test_the_bound_of_incoherence_by_coherence_is_of_use():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 40))
    X /= np.sqrt((X**2).mean(axis=0))
    found = mutual_incoherence(X, 3, max_subsets=10).largest
    assert not found.exact
    assert found.high < 0.5
    assert found.low > 0.3 * found.high


def test_incoherence_of_dependent_columns_is_infinite():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 5))
    assert mutual_incoherence(X[:2], 3).largest.low == inf
    X[:, 1] = X[:, 0]
    assert mutual_incoherence(X, 1).largest.high == pytest.approx(1.0)
    assert mutual_incoherence(X, 2).largest.high == inf
    assert mutual_incoherence(X[:, :1], 2).largest.high == 0.0


@pytest.mark.parametrize("k", [1, 2, 3, 9])
def test_isometry_is_the_worst_change_of_a_length(k):
    for X in designs(k, 8):
        A, q = moments(X), min(k, X.shape[1])
        ends = np.array([np.linalg.eigvalsh(A[np.ix_(S, S)])[[0, -1]] for S in combinations(range(len(A)), q)])
        low, high = max(ends[:, 0].min(), 0.0), ends[:, 1].max()
        assert restricted_isometry(X, k).largest.high == pytest.approx(max(high - 1, 1 - low))
        scales = np.geomspace(0.9 / high, 1.1 / max(low, high / 1e6), 20001)
        smallest = np.minimum.reduce(np.maximum(scales * high - 1, 1 - scales * low))
        scaled = restricted_isometry(X, k, scaled=True).largest
        assert scaled.high == pytest.approx((high - low) / (high + low))
        assert scaled.high == pytest.approx(smallest, rel=2e-3, abs=1e-3)
        if q > 1:
            open_ended = restricted_isometry(X, k, max_subsets=1).largest
            assert open_ended.low <= max(high - 1, 1 - low) * (1 + 1e-9)
            assert open_ended.high >= max(high - 1, 1 - low) * (1 - 1e-9)


def test_isometry_is_at_most_k_minus_1_times_coherence_for_unit_columns():
    for X in designs(11, 10):
        Z = X / np.sqrt((X**2).mean(axis=0))
        for k in (2, 3):
            assert restricted_isometry(Z, k).largest.high <= (k - 1) * mutual_coherence(Z).largest.high + 1e-9


def test_tasks_have_their_own_numbers():
    Xs = list(designs(4, 3, ((30, 4), (9, 4), (12, 4))))
    X, _, task = stack_tasks(Xs, [np.zeros(len(X)) for X in Xs], labels=["a", "b", "c"])
    for number in (
        lambda X, **t: pi_constant(X, 2, 1, **t),
        mutual_coherence,
        lambda X, **t: mutual_incoherence(X, 2, **t),
        lambda X, **t: restricted_isometry(X, 2, **t),
    ):
        together, each = number(X, task=task), [number(one).largest.high for one in Xs]
        assert [one.high for one in together.values] == pytest.approx(each)
        assert together.largest.high == pytest.approx(max(each))
        assert str(together).splitlines()[2].split()[0] == "a"
    assert "at most" in str(pi_constant(X, 2, 1, task=task)).splitlines()[0]


def test_incoherence_at_a_support_by_hand():
    rng = np.random.default_rng(0)
    Xs = [rng.standard_normal((n, 5)) for n in (30, 20)]
    W = np.array([[1.0, 0, 2.0, 0, 0], [0, 0, 3.0, 0, 0]])
    X, _, task = stack_tasks(Xs, [np.zeros(len(X)) for X in Xs])
    supports, outside = [[0, 2], [2]], [1, 3, 4]
    norms = np.array(
        [
            np.abs(np.linalg.lstsq(X[:, S], X[:, outside], rcond=None)[0]).sum(axis=0)
            for X, S in zip(Xs, supports, strict=True)
        ]
    )
    found = incoherence(X, W, task=task)
    assert found.values == pytest.approx(norms.max(axis=1))
    assert found.gamma == pytest.approx(1 - norms.sum(axis=0).max())
    least = [np.linalg.eigvalsh(moments(X)[np.ix_(S, S)])[0] for X, S in zip(Xs, supports, strict=True)]
    assert found.eigenvalues == pytest.approx(least)
    assert found.holds == (found.gamma > 0)
    same = incoherence(X, [1.0, 0, 2.0, 0, 0], task=task)
    assert same.values[0] == pytest.approx(found.values[0])


# ------------------------------------------------------------------ how the conditions are related


def verdicts(X, coef, **options):
    return {one.name: one.verdict for one in design_conditions(X, coef, **options)}


def test_remark_11_is_wrong_incoherence_does_not_imply_the_condition_on_columns():
    """Two copies of a feature that does not matter: the incoherence condition of Jalali et al., which is about the features
    that do, has all the room there is, and no isometry and no (20) holds for any s, since rho-(2) = 0."""
    rng = np.random.default_rng(0)
    X = sqrt(40) * np.linalg.qr(rng.standard_normal((40, 6)))[0]
    X[:, 5] = X[:, 4]
    coef = np.array([3.0, 0, 0, 0, 0, 0])
    assert incoherence(X, coef).gamma == pytest.approx(1.0)
    assert incoherence(X, coef).holds
    for s in (1, 2, 5, 50):
        found = verdicts(X, coef, s=s)
        assert (found["incoherence"], found["columns"], found["isometry"]) == ("holds", "fails", "fails")


def test_the_condition_on_columns_does_not_imply_incoherence():
    """Of many tasks: their regressions are added up."""
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal(np.zeros(4), 0.95 * np.eye(4) + 0.05, 40 * 1500)
    task = np.repeat(np.arange(40), 1500)
    found = verdicts(X, [1.0, 0, 0, 0], task=task)
    assert (found["columns"], found["incoherence"]) == ("holds", "fails")


def test_remark_9_isometry_and_coherence_imply_the_condition_on_columns_and_not_the_other_way_round():
    rng, seen = np.random.default_rng(0), set()
    for _ in range(150):
        n, d = rng.integers(20, 3000), rng.integers(2, 9)
        X = rng.standard_normal((n, d)) @ (np.eye(d) + rng.uniform(0, 0.25) * rng.standard_normal((d, d)))
        coef = np.zeros(d)
        coef[: rng.integers(1, 3)] = 1.0
        found = verdicts(X, coef, s=int(rng.integers(2, 6)))
        if "holds" in (found["isometry"], found["coherence"]):
            assert found["columns"] == "holds"
        seen.add((found["columns"], found["isometry"], found["coherence"]))
    assert ("holds", "holds", "holds") in seen
    assert ("holds", "fails", "fails") in seen
    assert ("fails", "fails", "fails") in seen


def test_isometry_depends_on_units_and_the_condition_on_columns_does_not():
    X = np.random.default_rng(0).standard_normal((900, 5))
    assert restricted_isometry(X, 2).largest.high < 0.2
    assert restricted_isometry(10 * X, 2).largest.high > 90
    assert verdicts(X, [1.0, 0, 0, 0, 0]) == verdicts(10 * X, [1.0, 0, 0, 0, 0])


# ------------------------------------------------------------------ what is wrong with the input


def test_what_is_wrong_is_said():
    X = np.random.default_rng(0).standard_normal((20, 4))
    for call, message in (
        (lambda: pi_constant(X, 0, 1), "k must be at least 1"),
        (lambda: pi_constant(X, 1, 0), "s must be at least 1"),
        (lambda: mutual_incoherence(X, 1, max_subsets=0), "max_subsets must be at least 1"),
        (lambda: incoherence(X, np.ones((2, 4))), r"coef has shape \(2, 4\); expected \(1, 4\) or \(4,\)"),
        (lambda: incoherence(X, np.zeros(4)), "all coefficients are zero"),
        (lambda: design_conditions(X, [1.0, 1.0, 0, 0], s=1), "s=1 must be at least rbar = 2"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="scaled must be True or False"):
        restricted_isometry(X, 1, scaled=1)
    with pytest.raises(ValueError, match="NaN"):
        mutual_coherence(np.array([[1.0, np.nan], [2.0, 1.0]]))
