"""Lassos per task take every loss, and are MSMTFL without a cap then, too."""

import numpy as np
import pytest

from msmtfl import MSMTFL, MSMTFLCV, LassoMTL, LassoMTLCV
from msmtfl.model_files import load_model, save_model


def sample(loss, m=3, n=60, d=6):
    rng = np.random.default_rng(3)
    task, X = np.repeat(np.arange(m), n), rng.standard_normal((m * n, d))
    f = 0.4 * X[:, 0] - 0.3 * X[:, 1]
    if loss == "huber":
        return X, 3 * f + rng.standard_t(2, m * n), task
    return X, rng.poisson(np.exp(f)) if loss == "poisson" else np.exp(f) * rng.gamma(2, 0.5, m * n), task


@pytest.mark.parametrize("loss", ["huber", "poisson", "gamma", "tweedie(1.3)"])
def test_lassos_with_a_loss_are_stage_1(loss, tmp_path):
    X, y, task = sample(loss)
    one, other = LassoMTL(0.05, loss=loss).fit(X, y, task=task), MSMTFL(0.05, np.inf, loss=loss).fit(X, y, task=task)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert one.converged_
    assert one.dual_gap_ < 1e-10
    one = LassoMTLCV(8, loss=loss).fit(X, y, task=task)
    other = MSMTFLCV(8, thetas=[np.inf], entry_shares=0, loss=loss).fit(X, y, task=task)
    assert one.lam_ == other.lam_
    np.testing.assert_array_equal(one.coef_, other.coef_)
    save_model(one, tmp_path / "model.msmtfl")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model.msmtfl").predict(X, task=task), one.predict(X, task=task)
    )


def test_an_unknown_loss_is_named():
    X, y, task = sample("huber")
    with pytest.raises(ValueError, match="'absolute'"):
        LassoMTL(loss="absolute").fit(X, y, task=task)
