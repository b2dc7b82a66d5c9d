"""Cox's partial likelihood against its definition: value, derivatives, conjugate."""

import numpy as np
import pytest
from oracles.survival import partial_likelihood, signed

from msmtfl._objective.survival import TIES, Cox


def cases():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 16))
        time = rng.integers(0, 6, n).astype(float) if seed % 3 else rng.uniform(0.0, 9.0, n)
        event = rng.random(n) < (0.9, 0.4)[seed % 2]
        v = rng.uniform(0.2, 3.0, n) if seed % 4 == 0 else np.ones(n)
        yield rng, signed(time, event), v, 2.0 * rng.standard_normal(n)


@pytest.mark.parametrize("ties", TIES)
def test_value_and_derivatives_are_those_of_the_definition(ties):
    for rng, y, v, f in cases():
        loss, n = Cox(ties).of_task(y, v), len(y)
        assert v @ loss.value(y, f) == pytest.approx(float(partial_likelihood(y, v, f, ties)), rel=1e-12, abs=1e-12)
        assert v @ loss.value(y, f) >= -1e-14

        def along(i, step, of, f=f, n=n):
            return (of(f + step * np.eye(n)[i]) - of(f - step * np.eye(n)[i])) / (2.0 * step)

        gradient = v * loss.slope(y, f)
        by_steps = [float(along(i, 1e-6, lambda g, y=y, v=v: partial_likelihood(y, v, g, ties))) for i in range(n)]
        np.testing.assert_allclose(gradient, by_steps, atol=1e-9)
        assert abs(gradient.sum()) <= 1e-12  # a level makes no difference
        H = np.array([along(i, 1e-5, lambda g, y=y, v=v, loss=loss: v * loss.slope(y, g)) for i in range(n)])
        bend, x = loss.curvature(y, f), rng.standard_normal(n)
        L = loss.root(np.eye(n), v, f, bend)
        np.testing.assert_allclose(L.T @ L, H, atol=1e-8)
        np.testing.assert_allclose(v * loss.bent(x, v, f, bend), L.T @ (L @ x), atol=1e-10)
        np.testing.assert_allclose(L.T @ loss.target(v, f, loss.slope(y, f), bend), gradient, atol=1e-11)
        assert np.linalg.eigvalsh(np.diag(v * bend) - L.T @ L)[0] >= -1e-10  # the curvature of rows is no less


@pytest.mark.parametrize("ties", TIES)
def test_the_conjugate_is_exact_and_knows_its_range(ties):
    for rng, y, v, f in cases():
        loss = Cox(ties).of_task(y, v)
        other = f + rng.standard_normal(len(f))
        s = loss.slope(y, other)
        apart = partial_likelihood(y, v, f, ties) - partial_likelihood(y, v, other, ties) - (v * s) @ (f - other)
        assert v @ loss.excess(y, f, s) == pytest.approx(float(apart), rel=1e-9, abs=1e-12)
        assert 0.0 <= v @ loss.excess(y, f, loss.slope(y, f)) <= 1e-13 * len(f)
        assert np.isfinite(v @ loss.excess(y, f, 0.5 * s))
        if loss.event.any() and np.abs(s).max() > 1e-3:
            assert np.isinf(v @ loss.excess(y, f, s + 0.1))  # the sum is not 0
            assert np.isinf(v @ loss.excess(y, f, s / np.abs(s).max() * 3.0 * v.sum() / v.min()))


def test_linear_predictors_beyond_the_range_of_exponentials():
    y = signed(np.arange(1.0, 9.0), np.array([1, 0, 1, 1, 0, 1, 0, 1], dtype=bool))
    f = np.linspace(-2000.0, 2000.0, 8)
    loss, v = Cox().of_task(y, np.ones(8)), np.ones(8)
    assert v @ loss.value(y, f) == pytest.approx(sum(2000.0 - f[k] for k in (0, 2, 3, 5, 7)))
    assert np.isfinite(loss.slope(y, f)).all()
    assert np.isfinite(loss.root(np.eye(8), v, f, loss.curvature(y, f))).all()


@pytest.mark.parametrize("ties", TIES)
def test_what_rounding_takes_of_masses_is_no_proof(ties):
    """F(f) + F*(g) - g'f is at least F(f) - F(0) - g'f: where linear predictors are far apart, too."""
    for _, y, v, f in cases():
        loss, f = Cox(ties).of_task(y, v), 200.0 * f
        slope = loss.slope(y, f)
        for share in (1.0, 0.5, 1e-3, 1e-6):
            least = v @ loss.value(y, f) - v @ loss.value(y, 0.0 * f) - share * (v * slope) @ f
            assert v @ loss.excess(y, f, share * slope) >= least - 1e-9 * np.abs(f).max()


def test_a_task_without_events_has_no_loss():
    y = signed(np.array([1.0, 2.0, 2.0]), np.zeros(3, dtype=bool))
    loss, v, f = Cox().of_task(y, np.ones(3)), np.ones(3), np.array([0.3, -1.0, 2.0])
    for found in (loss.value(y, f), loss.slope(y, f), loss.excess(y, f, np.zeros(3)), loss.root(f[:, None], v, f, v)):
        np.testing.assert_array_equal(found, np.zeros_like(found))


def test_ties_have_two_rules():
    with pytest.raises(ValueError, match=r"cox\(efron\), cox\(breslow\)"):
        Cox("exact")
