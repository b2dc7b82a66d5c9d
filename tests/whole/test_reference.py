"""Answers of high accuracy, made by other code: every file of the reference folder."""

import numpy as np
import pytest

from msmtfl import MSMTFL, LassoMTL


def fit_stages(reference, k):
    """The fitted model of the k-th (lam, theta), and its stages continued with the last one, which repeats itself."""
    last = int(reference["n_stages"])
    model = MSMTFL(reference["lam"][k], reference["theta"][k], fit_intercept=False, max_stages=last)
    model.fit(reference["X"], reference["y"], task=reference["task"])
    assert model.converged_ or model.n_stages_ == last
    return model, model.stages_ + [model.stages_[-1]] * (last - model.n_stages_)


def test_stages(reference):
    X, task = reference["X"], reference["task"]
    for k in range(len(reference["lam"])):
        _, stages = fit_stages(reference, k)
        path_unique = reference["ms_path_unique"][k]
        for t, stage in enumerate(stages):
            if path_unique[:t].all():
                np.testing.assert_array_equal(stage.free_rows, np.flatnonzero(reference["ms_lamj"][k, t] == 0))
                assert stage.objective == pytest.approx(reference["ms_obj"][k, t], rel=1e-10)
                assert stage.unique == reference["ms_unique"][k, t]
                fit = np.einsum("rd,rd->r", X, stage.coef[task])
                np.testing.assert_allclose(fit, reference["ms_fit"][k, t], rtol=0, atol=1e-7)
            if path_unique[t]:
                np.testing.assert_allclose(stage.coef.T, reference["ms_W"][k, t], rtol=0, atol=1e-7)


def test_every_stage_is_certified(reference):
    for k in range(len(reference["lam"])):
        model, stages = fit_stages(reference, k)
        assert max(stage.dual_gap for stage in stages) <= 1e-10
        assert model.lam_max_ == pytest.approx(reference["lammax_lasso"], rel=1e-12)


def test_lasso(reference):
    for k, lam in enumerate(reference["lasso_lam"]):
        model = LassoMTL(lam, fit_intercept=False).fit(reference["X"], reference["y"], task=reference["task"])
        assert model.objective_ == pytest.approx(reference["lasso_obj"][k], rel=1e-10)
        assert model.certificate_.unique == reference["lasso_unique"][k]
        if reference["lasso_unique"][k]:
            np.testing.assert_allclose(model.coef_.T, reference["lasso_W"][k], rtol=0, atol=1e-7)
