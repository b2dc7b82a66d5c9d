"""Parabolas of all tasks made together, against those of single tasks."""

import numpy as np
import pytest

from msmtfl._data.forms.dense import DenseRows
from msmtfl._objective.loss_task import LossTask
from msmtfl._objective.losses import loss_named
from msmtfl._solvers.coupled.parabolas import Samples


def samples_of(loss, centre, seed=0):
    """Tasks of unequal size, with weights and offsets; a column is constant in one of them."""
    rng, designs = np.random.default_rng(seed), []
    for n in (7, 12, 30):
        X, weight = rng.standard_normal((n, 4)) + 5.0, rng.uniform(0.5, 2.0, n)
        X[:, 2] = 3.0 if n == 12 else X[:, 2]
        y = (rng.random(n) < 0.5).astype(float) if loss == "logistic" else rng.poisson(2.0, n).astype(float)
        designs.append(LossTask(DenseRows(X, weight, centre), y, shared[loss], offset=0.1 * rng.standard_normal(n)))
    kappa = np.array([2.0 / (3 * design.n) for design in designs])
    features = np.array([0, 2, 3])
    return Samples(designs, features, kappa), rng.standard_normal((3, 3)), rng.standard_normal(3)


shared = {name: loss_named(name) for name in ("logistic", "poisson")}


@pytest.mark.parametrize("loss", list(shared))
@pytest.mark.parametrize("centre", [True, False])
def test_made_together_they_are_those_of_single_tasks(loss, centre):
    samples, W, levels = samples_of(loss, centre)
    f = samples.predictors(0.1 * W, 0.1 * levels)
    slope, bend = samples.slope(f), samples.bend(f, 0.0)
    assert samples.together
    together = samples.parabolas(f, slope, bend)
    samples.together, samples.loss = False, None
    np.testing.assert_allclose(samples.slope(f), slope, rtol=1e-14)
    np.testing.assert_allclose(samples.bend(f, 0.0), bend, rtol=1e-14)
    for i, (one, other) in enumerate(zip(together, samples.parabolas(f, slope, bend), strict=True)):
        size = np.sqrt(np.outer(other.squares, other.squares)) + 1e-300
        assert (np.abs(one.gram() - other.gram()) <= 1e-12 * size).all()
        if centre and i == 1:
            assert one.squares[1] == 0.0  # a constant column
        np.testing.assert_allclose(one.c, other.c, atol=1e-11 * np.abs(other.c).max())
        np.testing.assert_allclose(one.gradient(W[i]), other.gradient(W[i]), atol=1e-11 * np.abs(other.c).max())
        np.testing.assert_allclose(one.intercepts(W[i][None]), other.intercepts(W[i][None]), rtol=1e-11, atol=1e-11)
        assert (one.n, one.yy) == (other.n, other.yy)


def test_a_loss_of_its_own_for_every_task_is_not_taken_for_that_of_all():
    rng = np.random.default_rng(0)
    rows = [DenseRows(rng.standard_normal((9, 2)), None, True) for _ in range(2)]
    losses = [loss_named("huber", 1.0), loss_named("huber", 2.0)]
    y = 3.0 * rng.standard_normal((2, 9))
    designs = [LossTask(one, of_task, loss) for one, of_task, loss in zip(rows, y, losses, strict=True)]
    samples = Samples(designs, np.arange(2), np.ones(2))
    f = np.zeros(18)
    expected = np.concatenate([loss.slope(of_task, np.zeros(9)) for loss, of_task in zip(losses, y, strict=True)])
    np.testing.assert_array_equal(samples.slope(f), expected)
    assert not samples.together
