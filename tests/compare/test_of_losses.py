"""Comparisons of models with other losses than the squared one: errors are deviances, as scikit-learn has them."""

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, mean_gamma_deviance, mean_poisson_deviance, mean_tweedie_deviance

from msmtfl import L12MTL, LassoMTL, TaskKFold, compare_models
from msmtfl.compare.of_losses import numbers_under

DEVIANCES = {
    "poisson": mean_poisson_deviance,
    "gamma": mean_gamma_deviance,
    "tweedie": lambda y, p, sample_weight=None: mean_tweedie_deviance(y, p, power=1.5, sample_weight=sample_weight),
}


def make_counts(loss, n=60):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((3 * n, 4)), np.repeat(["a", "b", "c"], n)
    y = rng.poisson(np.exp(0.5 * X[:, 0] + 0.4)).astype(float)
    return X, y + 0.1 * (loss == "gamma"), task, rng.uniform(0.5, 2.0, 3 * n)


@pytest.mark.parametrize("loss", DEVIANCES)
def test_errors_are_relative_deviances(loss):
    X, y, task, weight = make_counts(loss)
    models = {"lasso": LassoMTL(0.05, loss=loss), "l12": L12MTL(0.05, loss=loss)}
    folds = list(TaskKFold(3, task=task, random_state=0).split(X))
    found = compare_models(X, y, task=task, models=models, cv=folds, loss=loss, sample_weight=weight)
    assert found.measure.column == "relative_deviance"
    for k, model in enumerate(models.values()):
        prediction = np.empty(len(y))
        for train, test in folds:
            model.fit(X[train], y[train], task=task[train], sample_weight=weight[train])
            prediction[test] = model.predict(X[test], task=task[test])
        for i, label in enumerate("abc"):
            at = task == label
            mean = np.full(at.sum(), np.average(y[at], weights=weight[at]))
            own, nothing = (DEVIANCES[loss](y[at], p, sample_weight=weight[at]) for p in (prediction[at], mean))
            assert found.error_by_task[k, i] == pytest.approx(own / nothing, rel=1e-10)
    assert "relative deviance" in found.verdict()
    with pytest.raises(AttributeError, match="relative deviance"):
        _ = found.nmse


def test_outliers_are_measured_by_absolute_errors():
    X, y, task, _ = make_counts("huber")
    y[5] = 1e4
    folds = list(TaskKFold(3, task=task, random_state=0).split(X))
    models = {"lasso": LassoMTL(0.05, loss="huber"), "l12": L12MTL(0.05, loss="huber")}
    found = compare_models(X, y, task=task, models=models, cv=folds, loss="huber")
    prediction = np.empty(len(y))
    for train, test in folds:
        model = models["lasso"].fit(X[train], y[train], task=task[train])
        prediction[test] = model.predict(X[test], task=task[test])
    at = task == "b"
    nothing = np.abs(y[at] - np.median(y[at])).mean()
    assert found.error_by_task[0, 1] == pytest.approx(mean_absolute_error(y[at], prediction[at]) / nothing, rel=1e-10)


def test_models_by_name_have_the_loss_and_the_others_are_named():
    X, y, task, _ = make_counts("poisson", n=30)
    found = compare_models(X, y, task=task, models=["lasso", "l12"], loss="poisson", leave_one_task_out=True)
    assert found.new_task.shape == (2, 3, 4)
    assert np.isnan(found.new_task[:, :, 1]).all()  # an error about the task's own mean is of squares only
    assert "new task: relative deviance" in repr(found)
    alone = compare_models(X, y, task=task, models=["lasso", "l12"])
    assert alone.measure.name == "nMSE"
    with pytest.raises(ValueError, match=r"'ridge per task' cannot be fitted with loss='poisson'\. Those that"):
        compare_models(X, y, task=task, models=["lasso", "ridge-per-task"], loss="poisson")
    with pytest.raises(ValueError, match="loss='poisson' is for numbers"):
        compare_models(X, y > 1, task=task, classify=True, loss="poisson")
    with pytest.raises(ValueError, match="loss must be one of 'squared', 'poisson'"):
        compare_models(X, y, task=task, loss="logistic")
    with pytest.raises(ValueError, match="-3"):
        compare_models(X, np.where(task == "a", -3.0, y), task=task, models=["lasso", "l12"], loss="poisson")


def test_a_mean_of_zero_costs_a_lot_but_not_infinity():
    kind = numbers_under("poisson")
    losses = kind.losses(np.array([0.0, 2.0]), np.array([0.0, 0.0]))
    assert losses[0] < 1e-300
    assert 100.0 < losses[1] < 1e4
    assert kind.of_points(np.array([1.0]), np.ones((1, 1, 3))).tolist() == [[0.0, 0.0, 0.0]]
