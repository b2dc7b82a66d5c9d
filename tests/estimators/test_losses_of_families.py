"""Every loss with every family: fits are certified and predict, searches judge by the deviance, files keep fits."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import mean_tweedie_deviance

from msmtfl import compare_models
from msmtfl._estimators.families import known_families
from msmtfl._objective.losses import loss_named, of_regressions
from msmtfl.formulas import formula
from msmtfl.model_files import load_model, save_model

NAMES = [*of_regressions(), "tweedie(1.2)"]
REGRESSIONS = {
    family.name: family for family in known_families() if family.fit and "loss" in family.fit._get_param_names()
}
CLASSIFIERS = {
    family.name: family
    for family in known_families()
    if family.fit and family.classifies and family.name.endswith("Classifier")
}
POWERS = {"poisson": 1.0, "gamma": 2.0, "tweedie": 1.5, "tweedie(1.2)": 1.2}


def data(loss, seed=0, m=3, n=24, d=5):
    """X, y, labels, an exposure and weights: two features matter, in tasks of different levels."""
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    exposure = rng.uniform(0.5, 2.0, m * n)
    f = 0.6 * X[:, 0] - 0.4 * X[:, 1] + 0.2 * task + np.log(exposure)
    if loss_named(loss).linear:
        y = f + rng.standard_t(4, m * n)
    elif loss == "logistic":
        y = (rng.logistic(size=m * n) < f).astype(int)
    elif loss == "poisson":
        y = rng.poisson(np.exp(f)).astype(float)
    else:
        y = rng.gamma(2.0, np.exp(f)) * (rng.random(m * n) < (1.0 if loss == "gamma" else 0.7))
    return X, y, task, exposure, rng.choice([0.0, 1.0, 2.0], m * n)


@pytest.mark.parametrize("loss", NAMES)
@pytest.mark.parametrize("family", REGRESSIONS)
def test_a_fit_is_certified_with_offsets_and_weights(family, loss, tmp_path):
    X, y, task, exposure, weight = data(loss)
    model = REGRESSIONS[family].fit(loss=loss, tol=1e-7)
    model.fit(X, y, task=task, sample_weight=weight, offset=np.log(exposure))
    assert model.certificate_.optimal
    assert model.dual_gap_ <= 1e-9
    found = model.predict(X, task=task, offset=np.log(exposure))
    assert loss_named(loss).linear or not loss_named(loss).levelled or (found > 0.0).all()
    if loss in POWERS:
        fitted, alone = (
            mean_tweedie_deviance(y, one, sample_weight=weight, power=POWERS[loss])
            for one in (found, np.full(len(y), np.average(y, weights=weight)))
        )
        assert fitted < 0.9 * alone
    save_model(model, tmp_path / "model.msmtfl")
    again = load_model(tmp_path / "model.msmtfl")
    assert again.loss == loss
    np.testing.assert_array_equal(again.predict(X, task=task, offset=np.log(exposure)), found)
    assert "p = 1.2" in str(formula(model)) or loss != "tweedie(1.2)"


@pytest.mark.parametrize("loss", NAMES)
@pytest.mark.parametrize("family", REGRESSIONS)
@pytest.mark.sampled(6)
def test_a_search_judges_by_the_deviance(family, loss):
    X, y, task, *_ = data(loss)
    kind = REGRESSIONS[family].search
    small = {"lams": 4, "cv": 3, "theta_ratios": [2.0, np.inf]}
    model = kind(loss=loss, scoring="neg_deviance", **{k: v for k, v in small.items() if k in kind._get_param_names()})
    model.fit(X, y, task=task)
    assert model.dual_gap_ <= 1e-9
    found = [np.asarray(value) for name, value in model.cv_results_.items() if name == "mean_test_score"]
    assert all(np.isfinite(one).all() for one in found)


@pytest.mark.parametrize("family", CLASSIFIERS)
def test_a_classifier_is_certified(family):
    X, y, task, _, weight = data("logistic")
    model = clone(CLASSIFIERS[family].fit()).fit(X, y, task=task, sample_weight=weight)
    assert model.certificate_.optimal
    assert model.dual_gap_ <= 1e-9
    assert model.score(X, y, task=task) > 0.55


@pytest.mark.parametrize("loss", ["gamma", "tweedie"])
def test_losses_take_part_in_comparisons(loss):
    X, y, task, *_ = data(loss)
    models = {name: family.fit(loss=loss) for name, family in REGRESSIONS.items() if name in ("MSMTFL", "SharedMTL")}
    result = compare_models(X, y, task=task, models=models, cv=2)
    assert np.isfinite(result.errors).all()
