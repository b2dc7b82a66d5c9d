"""Norms, groups and penalties against loops over their formulas."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from msmtfl._objective.coupled.common_penalty import CappedDeviations, SharedNorm, common_weights
from msmtfl._objective.coupled.groups import BlockNorm, Groups, groups_named
from msmtfl._objective.coupled.row_norms import DirtyNorm, GroupNorm, counted, excludes, lengths
from msmtfl._objective.penalties import (
    ConcaveEntries,
    ConcaveGroups,
    ConcaveRows,
    Dirty,
    bent,
    slopes_of,
    values_of,
)
from msmtfl._objective.shapes import CAPPED, MCP, SCAD, SHAPES

D, M = 6, 3
FACTORS = np.array(
    [[1.0, 1.0, 2.0], [0.5, 2.0, 1.0], [0.0, 1.0, 2.0], [1.0, np.inf, 0.5], [0.0, 0.0, np.inf], [3.0, 1.0, 1.0]]
)
PLAIN = np.where(np.isfinite(FACTORS), FACTORS, 0.0)
GROUPS = groups_named(["a", "b", "a", "c", "c", "c"])


def entries(seed=0):
    W = np.random.default_rng(seed).normal(size=(D, M))
    W[~np.isfinite(FACTORS)] = 0.0
    return W


def phi(shape, t, theta):
    return t if np.isinf(theta) else float(shape.value(np.array([t]), theta)[0])


# ------------------------------------------------------------------ norms


@pytest.mark.parametrize("scale", [1.0, 1e200, 1e-200])
def test_lengths_are_roots_of_sums_of_squares_at_every_scale(scale):
    M = np.array([[3.0, 4.0], [0.0, 0.0], [-5.0, 12.0]])
    np.testing.assert_allclose(lengths(scale * M), scale * np.array([5.0, 0.0, 13.0]), rtol=1e-14)
    groups = groups_named(["a", "b", "a"])
    np.testing.assert_allclose(groups.lengths(scale * M), scale * np.array([[34**0.5, 160**0.5], [0, 0]]), rtol=1e-14)


def test_lengths_of_what_is_infinite_are_infinite():
    M = np.array([[np.inf, 1.0], [1.0, 1.0]])
    assert np.isinf(lengths(M)).tolist() == [True, False]
    assert lengths(np.empty((2, 0))).tolist() == [0.0, 0.0]
    assert np.isinf(groups_named(["a", "b"]).lengths(M)).tolist() == [[True, False], [False, False]]


def test_what_is_excluded_does_not_count():
    assert excludes(FACTORS)
    assert not excludes(PLAIN)
    assert not excludes(np.empty((0, 2)))
    np.testing.assert_array_equal(counted(FACTORS), PLAIN)
    assert counted(PLAIN) is PLAIN


def test_groups_are_named_in_the_order_in_which_they_come():
    assert GROUPS.of.tolist() == [0, 1, 0, 2, 2, 2]
    assert GROUPS.names == ("a", "b", "c")
    assert GROUPS.count == 3
    assert GROUPS.of_features.tolist() == ["a", "b", "a", "c", "c", "c"]
    assert GROUPS.sizes.tolist() == [2, 1, 3]
    np.testing.assert_allclose(GROUPS.scale, np.sqrt([2, 1, 2, 3, 3, 3]), rtol=1e-15)
    assert [one.tolist() for one in GROUPS.members] == [[0, 2], [1], [3, 4, 5]]
    assert (
        GROUPS.closed(np.array([False, False, True, False, False, False])).tolist() == [True, False, True] + [False] * 3
    )
    np.testing.assert_allclose(GROUPS.sums(entries()), [entries()[at].sum(axis=0) for at in ([0, 2], [1], [3, 4, 5])])


def test_levels_stay_levels_where_all_of_them_are_taken():
    groups = Groups(GROUPS.of, GROUPS.names, (True, False, True))
    assert [one.tolist() for one in groups.levels] == [[0, 2], [3, 4, 5]]
    some = groups.on(np.array([0, 2, 3, 5]))
    assert some.names == ("a", "c")
    assert some.of.tolist() == [0, 0, 1, 1]
    assert some.one_hot == (True, False)
    assert GROUPS.on(np.array([1, 4])).one_hot == ()


def test_norms_of_blocks_and_their_duals():
    A, W, G = FACTORS, entries(1), entries(2)
    norm = BlockNorm(A, GROUPS)
    blocks = [[0, 2], [1], [3, 4, 5]]
    values = [sum((PLAIN[j, i] * W[j, i]) ** 2 for j in of for i in range(M)) ** 0.5 for of in blocks]
    np.testing.assert_allclose(norm.values(W), values, rtol=1e-13)
    assert norm.value(W) == pytest.approx(sum(values), rel=1e-13)
    over = np.divide(G, PLAIN, out=np.zeros_like(G), where=PLAIN > 0)
    np.testing.assert_allclose(norm.dual(G), [np.linalg.norm(over[of]) for of in blocks], rtol=1e-13)
    np.testing.assert_array_equal(norm.free(), A == 0.0)
    np.testing.assert_array_equal(norm.spread(np.array([7, 8, 9]))[:, 0], [7, 8, 7, 9, 9, 9])
    np.testing.assert_array_equal(norm.total(A == 0.0), [1.0, 0.0, 2.0])
    part = norm.of_rows(np.array([3, 5]))
    np.testing.assert_allclose(part.values(W[[3, 5]]), [np.linalg.norm(PLAIN[[3, 5]] * W[[3, 5]])], rtol=1e-13)


def test_a_norm_of_groups_has_the_weights_of_rows():
    a = np.array([2.0, 1.0, 2.0, 0.0, 0.0, 0.0])
    norm = GROUPS.norm(a, FACTORS)
    with np.errstate(invalid="ignore"):
        expected = np.where(np.isinf(FACTORS), np.inf, a[:, None] * PLAIN)
    np.testing.assert_array_equal(norm.factors, expected)


# ------------------------------------------------------------------ values that tasks share


def shared(seed):
    rng = np.random.default_rng(seed)
    return SharedNorm(rng.uniform(0.2, 1.0, D), rng.uniform(0.1, 3.0, D), FACTORS)


@pytest.mark.parametrize("seed", range(8))
def test_shared_norms_are_the_least_cost_of_a_common_value(seed):
    """The cost is linear between 0 and the entries, so one of these is best; of several the one nearest to 0."""
    norm, W = shared(seed), entries(seed)
    for j in range(D):
        costs = {
            b: norm.c[j] * abs(b) + norm.a[j] * sum(PLAIN[j, i] * abs(W[j, i] - b) for i in range(M))
            for b in [0.0, *W[j].tolist()]
        }
        least = min(costs.values())
        assert norm.values(W)[j] == pytest.approx(least, rel=1e-12, abs=1e-15)
        best = min((b for b, cost in costs.items() if cost <= least * (1 + 1e-12)), key=abs)
        assert norm.common(W)[j] == pytest.approx(best, abs=1e-15)
        if best:
            assert norm.common_of_sign(W, np.full(D, np.sign(best)))[j] == pytest.approx(best, rel=1e-15)
    assert norm.value(W) == pytest.approx(norm.values(W).sum(), rel=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_dual_norms_of_shared_values_are_the_largest_products(seed):
    """Of w with a norm of 1 at most, by a linear program in (b+, b-, v+, v-); un-penalised entries do not count."""
    norm, G = shared(seed), entries(seed + 10)
    for j in range(D):
        use = np.flatnonzero(PLAIN[j] > 0)
        g, a = G[j, use], norm.a[j] * PLAIN[j, use]
        cost = -np.concatenate([[g.sum(), -g.sum()], g, -g])
        budget = np.concatenate([[norm.c[j]] * 2, a, a])
        expected = -linprog(cost, A_ub=budget[None], b_ub=[1.0]).fun if use.size else 0.0
        assert norm.dual(G)[j] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_weights_of_shared_values_as_of_a_lasso():
    norm = SharedNorm(
        np.array([1.0, 0.0, np.inf]), np.array([2.0, 3.0, 0.5]), np.array([[1, 2], [1, 1], [np.inf, np.inf]])
    )
    np.testing.assert_array_equal(norm.weights(), [2.0, 3.0, np.inf, 1.0, 0.0, np.inf, 2.0, 0.0, np.inf])
    np.testing.assert_array_equal(norm.free(), [[False, False], [True, True], [False, False]])
    equal = SharedNorm(np.array([np.inf]), np.array([2.0]), np.ones((1, 3)))  # all entries are the common value
    assert equal.values(np.full((1, 3), -1.5)).tolist() == [3.0]
    assert equal.common(np.full((1, 3), -1.5)).tolist() == [-1.5]
    part = norm.of_rows(np.array([2, 0]))
    assert (part.a.tolist(), part.c.tolist()) == ([np.inf, 1.0], [0.5, 2.0])
    both = SharedNorm(np.array([1.0, 2.0, 3.0, 4.0]), np.array([5.0, 6.0, 7.0, 8.0]), np.arange(8.0).reshape(4, 2))
    second = both.of_class(1, 2)
    assert (second.a.tolist(), second.c.tolist()) == ([6.0, 8.0], [14.0, 16.0])
    assert second.factors.tolist() == [[4.0, 5.0], [6.0, 7.0]]
    np.testing.assert_array_equal(common_weights(np.inf, np.array([0.0, 2.0])), [0.0, np.inf])


@pytest.mark.parametrize(("l1_ratio", "theta"), [(1.0, np.inf), (1.0, 0.8), (0.25, 0.8)])
@pytest.mark.parametrize(("lam_common", "lam_deviation"), [(0.3, 0.7), (np.inf, 0.7), (0.3, np.inf)])
def test_penalties_of_shared_values(l1_ratio, theta, lam_common, lam_deviation):
    scales = np.array([1.0, 0.0, 2.0, 1.0, 1.0, 1.0])
    penalty = CappedDeviations(lam_common, lam_deviation, theta, FACTORS, scales, l1_ratio)
    rng = np.random.default_rng(3)
    b = np.where((scales == 0.0) | np.isinf(lam_common), 0.0, rng.normal(size=D))
    V = np.zeros((D, M)) if np.isinf(lam_deviation) else entries(3)
    P = np.concatenate([b, V.T.ravel()])
    assert penalty.problems == M
    assert penalty.convex == (np.isinf(theta) or np.isinf(lam_deviation))
    norms = [sum(PLAIN[j, i] * abs(V[j, i]) for i in range(M)) for j in range(D)]
    np.testing.assert_allclose(penalty.row_norms(P), norms, rtol=1e-14)
    common = 0.0 if np.isinf(lam_common) else lam_common
    deviation = 0.0 if np.isinf(lam_deviation) else lam_deviation
    expected = l1_ratio * (common * (scales @ np.abs(b)) + deviation * sum(min(h, theta) for h in norms))
    assert penalty.value(P[:, None]) == pytest.approx(expected, rel=1e-13)
    rest = 1.0 - l1_ratio
    squares = common * ((scales * b) ** 2).sum() + deviation * ((PLAIN * V) ** 2).sum()
    assert penalty.ridge_value(P) == pytest.approx(0.5 * rest * squares, rel=1e-13)
    assert (penalty.ridge() is None) == (l1_ratio == 1.0)
    pattern = penalty.pattern(P)
    capped = [] if np.isinf(theta) else [j for j, h in enumerate(norms) if h >= theta]
    assert (pattern[0].tolist(), pattern[1].tolist()) == (capped, [0.0] * len(capped))
    slopes = np.array([0.0 if j in capped else 1.0 for j in range(D)])
    np.testing.assert_array_equal(penalty.row_slopes(pattern), slopes)
    live = [j for j in capped if ((FACTORS[j] > 0) & np.isfinite(FACTORS[j])).any()]
    assert penalty.free_rows(pattern).tolist() == live
    norm = penalty.weights(pattern)
    with np.errstate(invalid="ignore"):
        left = lam_deviation if np.isinf(lam_deviation) else l1_ratio * lam_deviation
        np.testing.assert_array_equal(norm.a, np.where(slopes == 0.0, 0.0, left))
    np.testing.assert_allclose(
        norm.c, [0.0 if s == 0 else (lam_common if np.isinf(lam_common) else l1_ratio * lam_common) * s for s in scales]
    )


# ------------------------------------------------------------------ penalties of rows and entries


def test_what_bends_is_what_has_not_slope_1():
    assert bent(np.array([1.0, 0.5, 1.0, 0.0])).tolist() == [[1.0, 3.0], [0.5, 0.0]]
    assert bent(np.array([1.0, 1.5]), first=7).tolist() == [[8.0], [1.5]]
    assert bent(np.array([[0.0, 1.0], [1.0, 0.25]]), first=10).tolist() == [[10.0, 13.0], [0.0, 0.25]]
    t = np.array([0.0, 2.0])
    assert slopes_of(CAPPED, t, np.inf).tolist() == [1.0, 1.0]
    assert values_of(CAPPED, t, np.inf).tolist() == [0.0, 2.0]
    assert slopes_of(CAPPED, t, 2.0).tolist() == [1.0, 0.0]
    assert values_of(CAPPED, t, 1.5).tolist() == [0.0, 1.5]


KINDS = [(False, (0.0, np.inf)), (False, (0.4, 0.6)), (True, (0.0, np.inf))]  # groups have no entries of their own
OPTIONS = [(name, *kind, l1_ratio) for name, kind, l1_ratio in product(SHAPES, KINDS, [1.0, 0.3])]


@pytest.mark.parametrize(("name", "grouped", "entry", "l1_ratio"), OPTIONS)
def test_penalties_of_rows_and_entries(name, grouped, entry, l1_ratio):
    shape, groups, (lam_entry, theta_entry) = SHAPES[name], GROUPS if grouped else None, entry
    lam, theta, W = 0.7, 1.1, entries(4)
    penalty = ConcaveRows(lam, theta, FACTORS, shape, lam_entry, theta_entry, l1_ratio=l1_ratio, groups=groups)
    blocks = [[0, 2], [1], [3, 4, 5]] if grouped else [[j] for j in range(D)]
    size = np.array([[PLAIN[j, i] * abs(W[j, i]) for i in range(M)] for j in range(D)])
    norms = [sum(np.linalg.norm(size[of, i]) for i in range(M)) for of in blocks]
    np.testing.assert_allclose(penalty.norms(W), norms, rtol=1e-13)
    of_row = np.zeros(D)
    for h, of in zip(norms, blocks, strict=True):
        of_row[of] = h
    np.testing.assert_allclose(penalty.row_norms(W), of_row, rtol=1e-13)
    value = lam * sum(phi(shape, h, theta) for h in norms)
    value += lam_entry * sum(phi(shape, t, theta_entry) for t in size.ravel())
    assert penalty.value(W) == pytest.approx(l1_ratio * value, rel=1e-13)
    pattern = penalty.pattern(W)
    slopes = shape.slope(of_row, theta)
    np.testing.assert_allclose(penalty.row_slopes(pattern), slopes, rtol=1e-13)
    weights = lam * slopes[:, None] + (lam_entry * shape.slope(size, theta_entry) if lam_entry else 0.0)
    weights = np.where(np.isinf(FACTORS), np.inf, l1_ratio * weights * PLAIN)
    found = penalty.weights(pattern)
    np.testing.assert_allclose(found, weights, rtol=1e-12)
    free = ((weights == 0.0) & (FACTORS > 0)).any(axis=1)
    assert penalty.free_rows(pattern).tolist() == np.flatnonzero(free).tolist()
    assert not penalty.convex
    assert ConcaveRows(lam, np.inf, FACTORS, shape, lam_entry, np.inf).convex
    assert ConcaveRows(0.0, theta, FACTORS, shape, lam_entry, np.inf).convex
    assert ConcaveRows(0.0, theta, FACTORS, shape, 0.0, 0.6).convex
    assert not ConcaveRows(0.0, theta, FACTORS, shape, 0.4, 0.6).convex


@pytest.mark.parametrize("grouped", [False, True])
def test_penalties_of_one_more_task_have_slopes_of_rows_given(grouped):
    given = np.array([1.0, 0.0, 1.0, 0.5, 0.5, 0.5])
    groups = GROUPS if grouped else None
    penalty = ConcaveEntries(
        0.7, 1.1, FACTORS, MCP(), 0.0 if grouped else 0.4, 0.6, l1_ratio=0.5, groups=groups, given=given
    )
    W = entries(5)
    size = PLAIN * np.abs(W)
    blocks = [[0, 2], [1], [3, 4, 5]] if grouped else [[j] for j in range(D)]
    value = 0.7 * sum(given[of[0]] * sum(np.linalg.norm(size[of, i]) for i in range(M)) for of in blocks)
    value += penalty.lam_entry * sum(phi(MCP(), t, 0.6) for t in size.ravel())
    assert penalty.value(W) == pytest.approx(0.5 * value, rel=1e-13)
    assert penalty.row_slopes(penalty.pattern(W)) is given
    assert penalty.convex == grouped
    assert ConcaveEntries(0.7, 1.1, FACTORS, MCP(), 0.4, np.inf, given=given).convex


@pytest.mark.parametrize("grouped", [False, True])
def test_penalties_of_groups_are_of_lengths(grouped):
    groups, W = GROUPS if grouped else None, entries(6)
    penalty = ConcaveGroups(0.7, 0.9, FACTORS, SCAD(), l1_ratio=0.3, groups=groups)
    blocks = [[0, 2], [1], [3, 4, 5]] if grouped else [[j] for j in range(D)]
    norms = np.array([np.linalg.norm(PLAIN[of] * W[of]) for of in blocks])
    np.testing.assert_allclose(penalty.norms(W), norms, rtol=1e-13)
    assert penalty.value(W) == pytest.approx(0.21 * sum(phi(SCAD(), h, 0.9) for h in norms), rel=1e-13)
    norm = penalty.weights(penalty.pattern(W))
    slopes = SCAD().slope(norms, 0.9)
    np.testing.assert_allclose(norm.values(W), 0.21 * slopes * norms, rtol=1e-12, atol=1e-15)
    assert isinstance(norm, BlockNorm if grouped else GroupNorm)
    assert ConcaveGroups(0.7, np.inf, FACTORS).convex


def test_dirty_has_one_stage():
    penalty, W = Dirty(0.5, 0.8, FACTORS, 0.5), entries(7)
    assert penalty.convex
    assert penalty.pattern(W).shape == (2, 0)
    assert penalty.free_rows(penalty.pattern(W)).tolist() == []
    assert penalty.row_slopes(penalty.pattern(W)).tolist() == [1.0] * D
    np.testing.assert_allclose(penalty.weights(penalty.pattern(W)).values(W), DirtyNorm(0.25, 0.4, FACTORS).values(W))


@pytest.mark.parametrize("name", SHAPES)
def test_slopes_are_derivatives_of_values(name):
    shape, theta, step = SHAPES[name], 1.3, 1e-6
    t = np.array([0.1, 0.3, 0.7, 1.0, 1.25, 1.4, 2.0, 9.0])
    change = (shape.value(t + step, theta) - shape.value(t - step, theta)) / (2 * step)
    np.testing.assert_allclose(shape.slope(t, theta), change, rtol=1e-7, atol=1e-8)
    assert shape.value(np.zeros(1), theta)[0] == 0.0
    assert shape.slope(np.zeros(1), theta)[0] == 1.0
    ends = {"capped": theta, "mcp": theta / 2, "scad": theta / 3.7 + (theta - theta / 3.7) / 2}
    if name in ends:
        assert shape.value(np.array([5.0]), theta)[0] == pytest.approx(ends[name], rel=1e-14)
