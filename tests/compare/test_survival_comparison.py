"""Comparisons of models of times until an event."""

import numpy as np
import pytest

from msmtfl import L12MTL, L12MTLCV, MSMTFL, MSMTFLCV, LassoMTLCV, MultiTaskAuto, compare_models


def make(m=3, n=30):
    rng = np.random.default_rng(3)
    X, task = rng.standard_normal((m * n, 4)), np.repeat(np.arange(m), n)
    time, end = rng.exponential(np.exp(-X[:, 0])), rng.exponential(2.0, m * n)
    return X, np.column_stack([np.ceil(10 * np.minimum(time, end)), time <= end]), task


def test_a_search_of_one_point_and_a_fit_on_every_fold_have_the_same_errors():
    X, y, task = make()
    models = {
        "searched": MSMTFLCV(lams=[0.1], thetas=[np.inf], loss="cox"),
        "fitted": MSMTFL(0.1, np.inf, loss="cox"),
        "nothing": L12MTL(1e3, loss="cox"),
    }
    result = compare_models(X, y, task=task, models=models, cv=3)
    by_task = dict(zip(result.models, result.error_by_task, strict=True))
    np.testing.assert_allclose(by_task["searched"], by_task["fitted"], rtol=1e-6)
    assert (by_task["fitted"] < by_task["nothing"]).all()
    np.testing.assert_allclose(by_task["nothing"], 1.0, atol=0.15)
    assert "partial deviance" in str(result)
    nested = compare_models(X, y, task=task, models=models, cv=3, nested=True)
    np.testing.assert_allclose(nested.error_by_task, result.error_by_task, rtol=1e-6)


def test_the_family_is_chosen_and_draws_curves():
    X, y, task = make()
    model = MultiTaskAuto(["lasso", "l12"], cv=3, loss="cox").fit(X, y, task=task)
    assert isinstance(model.best_estimator_, (L12MTLCV, LassoMTLCV))
    assert model.score(X, y, task=task) > 0.7
    assert model.predict_survival_function(X[:2], task=task[:2], times=[1.0, 5.0]).shape == (2, 2)


def test_what_cannot_be_compared_is_refused():
    X, y, task = make()
    models = {"cox": L12MTLCV(loss="cox"), "squares": L12MTLCV()}
    with pytest.raises(ValueError, match="with their like only"):
        compare_models(X, y, task=task, models=models, loss="cox")
    with pytest.raises(ValueError, match="no baseline hazard"):
        compare_models(X, y, task=task, models=["lasso", "l12"], loss="cox", leave_one_task_out=True)
