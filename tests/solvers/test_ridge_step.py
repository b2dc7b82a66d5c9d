"""Partial pooling at one pair of strengths, by systems of the features' size."""

import numpy as np
import pytest

from msmtfl._solvers.coupled.ridge_step import ridge_step


def sums(m, n, d, rng):
    X, y = rng.standard_normal((m, n, d)) * 10.0 ** rng.uniform(-3, 3, d), rng.standard_normal((m, n))
    return np.einsum("inj,ink->ijk", X, X), np.einsum("inj,in->ij", X, y)


@pytest.mark.parametrize("k", [1e-6, 1.0, 1e8, np.inf])
@pytest.mark.parametrize("k_common", [0.0, 1e-6, 1.0, np.inf])
def test_it_solves_the_normal_equations(k, k_common):
    """Of b and V together, written out."""
    m, d, rng = 4, 3, np.random.default_rng(0)
    G, c = sums(m, 20, d, rng)
    f = rng.uniform(0.5, 2.0, d)
    squares = np.einsum("ijj->j", G) / m
    of_v, of_b = np.tile(k * f * squares, (m, 1)), k_common * f * squares
    b, V = ridge_step(G, c, of_v, of_b)
    H, h = np.zeros(((m + 1) * d,) * 2), np.concatenate([c.sum(axis=0), c.ravel()])
    H[:d, :d] = G.sum(axis=0)
    for i in range(m):
        at = slice((i + 1) * d, (i + 2) * d)
        H[:d, at] = H[at, :d] = H[at, at] = G[i]
    ridge = np.concatenate([of_b, of_v.ravel()])
    open_ = np.isfinite(ridge)
    size = 1.0 / np.sqrt(np.diag(H)[open_] + ridge[open_])
    A = (H[np.ix_(open_, open_)] + np.diag(ridge[open_])) * np.outer(size, size)
    expected = np.zeros((m + 1) * d)
    if open_.any():
        expected[open_] = size * np.linalg.lstsq(A, size * h[open_], rcond=1e-15)[0]
    unit = np.sqrt(np.concatenate([squares, np.tile(squares, m)]))
    np.testing.assert_allclose(np.concatenate([b, V.ravel()]) * unit, expected * unit, rtol=1e-6, atol=1e-9)
    assert not V.any() or np.isfinite(k)
    assert not b.any() or np.isfinite(k_common)


def test_what_it_cannot_tell_is_left():
    """A feature without a ridge, one that no data tell from another, and ridges on some only."""
    rng = np.random.default_rng(1)
    G, c = sums(3, 10, 2, rng)
    one = np.ones((3, 2))
    assert ridge_step(G, c, 0.0 * one, one[0]) is None
    assert ridge_step(G, c, one * [1.0, np.inf], one[0]) is None
    same, of_both = np.repeat(np.repeat(G[:, :1, :1], 2, axis=1), 2, axis=2), np.repeat(c[:, :1], 2, axis=1)
    assert ridge_step(same, of_both, one, 0.0 * one[0]) is None
    assert ridge_step(same, of_both, one, one[0]) is not None
