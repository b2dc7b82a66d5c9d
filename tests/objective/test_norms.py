"""Norms of rows and their duals, compared with their definitions, which small linear programs compute."""

import numpy as np
import pytest
from scipy.optimize import linprog

from msmtfl._objective.box import Box
from msmtfl._objective.coupled.common_penalty import CappedDeviations, SharedBlocks, SharedNorm
from msmtfl._objective.coupled.groups import BoundedGroups, Groups
from msmtfl._objective.coupled.row_norms import DirtyNorm, GroupNorm
from msmtfl._objective.penalties import ConcaveRows, Dirty

FACTORS = np.array([[1.0, 1.0, 1.0, 1.0], [0.5, 2.0, 1.0, 3.0], [0.0, 1.0, 2.0, 1.0], [1.0, np.inf, 1.0, 0.5]])


def rows(seed):
    W = np.random.default_rng(seed).standard_normal((4, 4))
    W[3, 1] = 0.0  # excluded
    W[0, 2] = 0.0
    return W


def dirty_by_definition(w, lam_s, lam_b, f):
    """The least lam_s sum f |s| + lam_b max f |b| over s + b = w, as a linear program in (s+, s-, b+, b-, level)."""
    use = np.isfinite(f)
    w, f, m = w[use], f[use], int(use.sum())
    eye, zero = np.eye(m), np.zeros((m, m))
    cost = np.concatenate([lam_s * f, lam_s * f, np.zeros(2 * m), [lam_b]])
    equal = np.hstack([eye, -eye, eye, -eye, np.zeros((m, 1))])
    below = np.hstack([zero, zero, np.diag(f), np.diag(f), -np.ones((m, 1))])
    return linprog(cost, A_ub=below, b_ub=np.zeros(m), A_eq=equal, b_eq=w).fun


def dual_by_definition(g, lam_s, lam_b, f):
    """The largest g'w over the w with a norm of 1 at most; entries that are free or excluded do not count."""
    use = (f > 0) & np.isfinite(f)
    g, f, m = g[use], f[use], int(use.sum())
    # maximise g's + g'b with lam_s sum f |s| + lam_b level <= 1, f |b| <= level
    cost = -np.concatenate([g, -g, g, -g, [0.0]])
    budget = np.concatenate([lam_s * f, lam_s * f, np.zeros(2 * m), [lam_b]])[None]
    below = np.hstack([np.zeros((m, 2 * m)), np.diag(f), np.diag(f), -np.ones((m, 1))])
    found = linprog(cost, A_ub=np.vstack([budget, below]), b_ub=np.concatenate([[1.0], np.zeros(m)]))
    return -found.fun


@pytest.mark.parametrize("lam_b", [0.3, 1.0, 1.7, 2.0, 3.4, 5.0])
def test_dirty_norms_are_the_least_cost_of_two_parts(lam_b):
    norm, W = DirtyNorm(0.8, 0.8 * lam_b, FACTORS), rows(0)
    expected = [dirty_by_definition(w, 0.8, 0.8 * lam_b, f) for w, f in zip(W, FACTORS, strict=True)]
    np.testing.assert_allclose(norm.values(W), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(norm.value(W), np.sum(expected), rtol=1e-9)
    S, B = norm.split(W)
    np.testing.assert_allclose(S + B, W, atol=1e-15)
    f = np.where(np.isfinite(FACTORS), FACTORS, 0.0)
    cost = 0.8 * (f * np.abs(S)).sum(axis=1) + 0.8 * lam_b * (f * np.abs(B)).max(axis=1)
    np.testing.assert_allclose(cost, expected, rtol=1e-9, atol=1e-12)
    assert (np.sign(B) * np.sign(W) >= 0).all()


@pytest.mark.parametrize("lam_b", [0.3, 1.0, 1.7, 3.4])
def test_dual_norms_of_dirty_are_the_largest_products(lam_b):
    norm, G = DirtyNorm(0.8, 0.8 * lam_b, FACTORS), rows(1) + 0.1
    expected = [dual_by_definition(g, 0.8, 0.8 * lam_b, f) for g, f in zip(G, FACTORS, strict=True)]
    np.testing.assert_allclose(norm.dual(G), expected, rtol=1e-9)


def test_what_is_free():
    free = FACTORS == 0.0
    np.testing.assert_array_equal(DirtyNorm(0.8, 1.0, FACTORS).free(), free)
    np.testing.assert_array_equal(DirtyNorm(0.0, 0.0, FACTORS).free(), np.isfinite(FACTORS))
    np.testing.assert_array_equal(DirtyNorm(0.0, 0.0, FACTORS).values(rows(2)), np.zeros(4))
    np.testing.assert_array_equal(DirtyNorm(0.0, 0.0, FACTORS).dual(rows(2)), np.zeros(4))
    a = np.array([1.0, 0.0, 2.0, 0.0])
    np.testing.assert_array_equal(GroupNorm(a, FACTORS).free(), free | ((a == 0.0)[:, None] & np.isfinite(FACTORS)))


def test_dirty_separates_where_it_is_the_lasso():
    assert DirtyNorm(1.0, 4.0, FACTORS).separates
    assert not DirtyNorm(1.0, 3.9, FACTORS).separates
    W, f = rows(3), np.where(np.isfinite(FACTORS), FACTORS, 0.0)
    np.testing.assert_allclose(DirtyNorm(1.0, 4.0, FACTORS).values(W), (f * np.abs(W)).sum(axis=1))
    np.testing.assert_allclose(DirtyNorm(1.0, 1.0, FACTORS).values(W), (f * np.abs(W)).max(axis=1))


def test_group_norms_and_their_duals():
    a, W, G = np.array([1.0, 0.5, 2.0, 0.0]), rows(4), rows(5)
    f = np.where(np.isfinite(FACTORS), FACTORS, 0.0)
    norm = GroupNorm(a, FACTORS)
    np.testing.assert_allclose(norm.values(W), a * np.linalg.norm(f * W, axis=1))
    over = np.divide(G, f, out=np.zeros_like(G), where=f > 0)
    expected = np.divide(np.linalg.norm(over, axis=1), a, out=np.zeros(4), where=a > 0)
    np.testing.assert_allclose(norm.dual(G), expected)
    for j in range(3):  # the dual norm is reached: g'w = dual(g) values(w) at w = over / f
        w = np.zeros((4, 4))
        w[j] = np.divide(over[j], f[j], out=np.zeros(4), where=f[j] > 0)
        np.testing.assert_allclose((G * w).sum(), norm.dual(G)[j] * norm.values(w)[j])
    part = norm.of_rows(np.array([2, 0]))
    np.testing.assert_array_equal(part.values(W[[2, 0]]), norm.values(W)[[2, 0]])


def test_free_rows_are_those_that_have_something_to_free():
    factors = np.array([[1.0, 1.0], [0.0, np.inf], [np.inf, np.inf], [0.0, 2.0], [1.0, 1.0]])
    penalty = ConcaveRows(1.0, 0.5, factors)
    W = np.array([[1.0, 1.0], [3.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.1, 0.1]])
    pattern = np.array([[0, 1, 2, 3], [0.0, 0.0, 0.0, 0.0]])  # all slopes 0 but the last row's
    np.testing.assert_array_equal(penalty.free_rows(pattern), [0, 3])
    np.testing.assert_array_equal(penalty.free_rows(penalty.pattern(W)), [0, 3])


def test_the_ridge_of_dirty_takes_its_share_of_the_norm():
    penalty = Dirty(2.0, 3.0, FACTORS, l1_ratio=0.25)
    np.testing.assert_allclose(penalty.norm.values(rows(6)), DirtyNorm(0.5, 0.75, FACTORS).values(rows(6)))
    assert penalty.value(rows(6)) == penalty.norm.value(rows(6))
    f = np.where(np.isfinite(FACTORS), FACTORS, 0.0)
    np.testing.assert_allclose(penalty.row_norms(rows(6)), (f * np.abs(rows(6))).sum(axis=1))


def test_whether_a_common_value_is_the_smallest_is_known_without_sorting():
    rng = np.random.default_rng(5)
    seen = {True: 0, False: 0}
    for _ in range(300):
        d, m = 6, int(rng.integers(1, 6))
        W = np.round(rng.normal(size=(d, m)), 1)  # with ties
        factors = rng.choice([0.5, 1.0, np.inf, 0.0], p=[0.2, 0.6, 0.1, 0.1], size=(d, m))
        norm = SharedNorm(rng.choice([0.0, 1.0, np.inf], p=[0.1, 0.8, 0.1], size=d), rng.uniform(0.1, 3.0, d), factors)
        b = np.where(rng.random(d) < 0.5, norm.common(W), W[:, 0])
        b = np.where(b == 0.0, 0.3, b)
        lowest, expected = norm.is_lowest(W, b), norm.common_of_sign(W, np.sign(b)) == b
        assert not (lowest & ~expected).any()
        plain = np.isfinite(norm.deviation).all(axis=1)
        np.testing.assert_array_equal(lowest[plain], expected[plain])
        for one in (True, False):
            seen[one] += int((lowest == one).sum())
    assert min(seen.values()) > 100


# ------------------------------------------------------------------ of groups


GROUPS = Groups(np.array([0, 1, 0, 1]), ("a", "b"))


def parts_of_groups(M):
    """(2, ...): l2 norms over the features of each group."""
    return np.stack([np.linalg.norm(M[[0, 2]], axis=0), np.linalg.norm(M[[1, 3]], axis=0)])


def test_norms_of_a_common_part_of_groups_and_their_duals():
    rng = np.random.default_rng(7)
    a, c, f = np.array([1.0, 0.5, 2.0, 0.0]), np.array([0.5, 2.0, 1.0, 0.0]), rng.uniform(0.5, 2.0, (4, 3))
    W, b = rng.standard_normal((4, 3)), np.array([0.3, 0.0, -1.0, 0.7])
    norm = SharedBlocks(a, c, f, GROUPS, np.zeros(4)).at(b)
    A = a[:, None] * f
    expected = parts_of_groups(c * b) + parts_of_groups(A * (W - b[:, None])).sum(axis=1)
    np.testing.assert_allclose(norm.values(W), expected)
    # the dual: a task's deviations see its own gradients, the common part their sum; what has no weight is free of both
    G = rng.standard_normal((4, 3))
    weighed = np.where(A > 0.0, G, 0.0)
    own = np.divide(weighed, A, out=np.zeros_like(G), where=A > 0.0)
    shared = np.divide(weighed.sum(axis=1), c, out=np.zeros(4), where=c > 0.0)
    expected = np.maximum(parts_of_groups(own).max(axis=1), parts_of_groups(shared))
    np.testing.assert_allclose(norm.dual(G), expected)
    for _ in range(200):  # no product is larger than norm times dual norm
        V, common = rng.standard_normal((4, 3)), rng.standard_normal(4)
        V[3] = common[3] = 0.0
        assert (G * (V + common[:, None])).sum() <= norm.at(common).values(V + common[:, None]) @ expected + 1e-12


def test_groups_of_several_parts_stand_beside_each_other():
    twice = Groups(GROUPS.of, GROUPS.names, (True, False)).tiled(2)
    assert twice.of.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    assert twice.names == ("a", "b", "a", "b")
    assert twice.one_hot == (True, False, True, False)
    assert GROUPS.tiled(1) is GROUPS


@pytest.mark.parametrize("at_bound", [1, 2])
def test_bounds_press_groups_by_what_is_left_of_their_conditions(at_bound):
    """At a minimum g = a^2 w / |(a w)_group| + force, where the force is against the bound that w is at."""
    a, w = np.array([0.5, 1.0, 0.5, 0.0]), np.array([0.4, 0.0, -0.3, 2.0])
    low, high = np.full(4, -5.0), np.full(4, 5.0)
    g = np.array([0.25 * 0.4 / 0.25, 0.6, -0.25 * 0.3 / 0.25, 0.0])  # within the group's ball, no force anywhere
    if at_bound == 1:  # in use: the gradient would have it larger
        high[0] = w[0]
        g[0] += 0.7
        expected = [-0.7, 0.0, 0.0, 0.0]
    else:  # without a weight, below
        low[3] = w[3]
        g[3] -= 0.2
        expected = [0.0, 0.0, 0.0, 0.2]
    forces = BoundedGroups(GROUPS, Box(low, high)).forces(w, a, g)
    np.testing.assert_allclose(forces, expected, atol=1e-15)


def test_rows_with_nothing_in_them_are_not_freed_from_deviations():
    factors = np.array([[1.0, 1.0], [0.0, np.inf], [np.inf, np.inf], [0.0, 0.0], [1.0, 1.0]])
    penalty = CappedDeviations(1.0, 1.0, 0.5, factors, np.ones(5))
    W = np.array([[3.0, -3.0], [9.0, 0.0], [0.0, 0.0], [4.0, 4.0], [0.1, 0.1]])
    P = np.concatenate([np.zeros(5), W.T.ravel()])[:, None]
    assert penalty.free_rows(penalty.pattern(P)).tolist() == [0]
    assert penalty.free_rows(np.array([[0, 1, 2, 3], [0.0] * 4])).tolist() == [0]
