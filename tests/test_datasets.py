"""Simulated data are what their description says."""

import numpy as np
import pytest

from msmtfl.datasets import make_multitask


def test_the_papers_first_setting_by_default():
    X, y, task, coef = sample = make_multitask()
    assert X.shape == (600, 250)
    assert coef.shape == (15, 250)
    np.testing.assert_array_equal(np.bincount(task), np.full(15, 40))
    for i in range(15):
        np.testing.assert_allclose(np.linalg.norm(X[task == i], axis=0), 1.0)
    assert np.count_nonzero(coef) == round(0.2 * 25 * 15)
    assert coef.any(axis=0).sum() <= 25
    assert np.abs(coef).max() <= 10
    noise = y - (X * coef[task]).sum(axis=1)
    assert noise.std() == pytest.approx(0.01, rel=0.1)
    assert repr(sample).startswith("Sample(15 tasks, 600 rows, 250 features")


def test_knobs_turn():
    X, y, task, coef = make_multitask(
        3,
        [5, 7, 400],
        6,
        sigma=0.0,
        zero_rows=0.5,
        zero_entries=0.0,
        coef_range=(1, 2),
        normalize=False,
        correlation=0.9,
    )
    np.testing.assert_array_equal(np.bincount(task), [5, 7, 400])
    assert coef.any(axis=0).sum() == 3
    assert np.count_nonzero(coef) == 9
    assert coef[coef != 0].min() >= 1
    assert coef.max() <= 2
    np.testing.assert_allclose(y, (X * coef[task]).sum(axis=1))
    correlations = np.corrcoef(X[task == 2].T)
    np.testing.assert_allclose(np.diag(correlations, 1), 0.9, atol=0.05)
    np.testing.assert_allclose(np.diag(correlations, 2), 0.81, atol=0.08)


def test_a_seed_gives_the_same_data_again():
    first, second, other = (make_multitask(2, 5, 4, random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.y, second.y)
    assert (first.y != other.y).any()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"m": 0}, "m must be at least 1"),
        ({"n": [3, 4]}, "n has 2 entries for 15 tasks"),
        ({"m": 2, "n": [3, 0]}, r"n\[1\] must be at least 1"),
        ({"zero_rows": 1.5}, "zero_rows must be between 0 and 1"),
        ({"sigma": -1.0}, "sigma must be a number of at least 0"),
        ({"correlation": 1.0}, "correlation must be between -1 and 1"),
        ({"coef_range": (2, 1)}, "coef_range must be two finite numbers"),
    ],
)
def test_bad_parameters_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        make_multitask(**options)
