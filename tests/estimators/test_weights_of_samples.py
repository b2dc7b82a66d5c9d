"""A sample of weight k is k samples, whatever the loss and the family."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from msmtfl import PartialPooling, RobustMTL
from msmtfl._estimators.families import known_families
from msmtfl._objective.losses import of_regressions

FAMILIES = {family.name: family for family in known_families() if family.fit is not None}
# Under Efron's rule samples that are repeated are tied with each other, which one of weight k is not.
LOSSES = ["cox(breslow)" if loss == "cox" else loss for loss in of_regressions()]
CASES = [(name, loss) for name, family in FAMILIES.items() for loss in ([2, 3] if family.classifies else LOSSES)]
QUIET = pytest.mark.filterwarnings("ignore:.*un-penalised", "ignore:.*do not determine")


def data(loss, m=3, n=24, d=5, seed=0):
    """X, y, labels of tasks and whole weights; and which of them each of the samples repeats."""
    rng = np.random.default_rng(seed)
    X, task, noise = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n), rng.standard_normal(m * n)
    f = X[:, 0] - 0.6 * X[:, 2] + np.where(task == 1, X[:, 3], 0) + 0.2 * task
    if isinstance(loss, int):
        y = np.digitize(f + noise, [0.0] if loss == 2 else [-0.7, 0.7])
    elif loss == "poisson":
        y = rng.poisson(np.exp(0.4 * f)).astype(float)
    elif loss in ("gamma", "tweedie"):
        y = np.exp(0.4 * f + 0.3 * noise) * (1.0 if loss == "gamma" else rng.random(m * n) < 0.7)
    elif loss.startswith("cox"):
        times = np.round(np.exp(-0.5 * f) * rng.exponential(size=m * n), 1) + 0.1
        y = np.column_stack([times, rng.random(m * n) < 0.7])
    else:
        y = f + noise + (15.0 * (np.arange(m * n) % 11 == 0) if loss == "huber" else 0.0)
    weight = rng.integers(1, 4, m * n)
    return X, y, task, weight, np.repeat(np.arange(m * n), weight)


def options_of(loss):
    return {} if isinstance(loss, int) else {"loss": loss}


def assert_same(one, other):
    scale = np.abs(other.coef_).max() + 1e-300
    assert np.abs(one.coef_ - other.coef_).max() <= 1e-8 * scale
    assert np.abs(np.subtract(one.intercept_, other.intercept_)).max() <= 1e-8 * max(scale, 1.0)


@QUIET
@pytest.mark.parametrize(("family", "loss"), CASES)
def test_a_fit_takes_weights_for_repeated_samples(family, loss):
    X, y, task, weight, again = data(loss)
    model = FAMILIES[family].fit(**options_of(loss))
    found = model.fit(X, y, task=task, sample_weight=weight)
    assert_same(found, type(model)(**options_of(loss)).fit(X[again], y[again], task=task[again]))
    assert np.abs(found.coef_).max() > 0.01


@QUIET
@pytest.mark.parametrize("family", [name for name, one in FAMILIES.items() if not one.classifies])
def test_with_more_features_than_samples_the_scale_of_residuals_is_that_of_repeated_samples(family):
    X, y, task, weight, again = data("huber", d=40)
    model = FAMILIES[family].fit
    found = model(loss="huber").fit(X, y, task=task, sample_weight=weight)
    assert_same(found, model(loss="huber").fit(X[again], y[again], task=task[again]))


@pytest.mark.sampled(5)
@QUIET
@pytest.mark.parametrize(("family", "loss"), CASES)
def test_a_search_takes_weights_for_repeated_samples(family, loss):
    X, y, task, weight, again = data(loss, m=2)
    search = FAMILIES[family].search
    known = search._get_param_names()
    options = options_of(loss) | {name: 3 for name in ("lams", "ks") if name in known}
    fold = np.arange(len(X)) % 2
    folds = [[(np.flatnonzero(one != k), np.flatnonzero(one == k)) for k in (0, 1)] for one in (fold, fold[again])]
    found = search(cv=folds[0], **options).fit(X, y, task=task, sample_weight=weight)
    other = search(cv=folds[1], **options).fit(X[again], y[again], task=task[again])
    errors, again = (np.asarray(one.cv_results_["mean_test_score"], dtype=float) for one in (found, other))
    np.testing.assert_allclose(errors, again, rtol=1e-7)
    assert_same(found, other)


@pytest.mark.parametrize("intercepts", ["task", "shrunk", "common"])
@pytest.mark.parametrize("classes", [2, 3])
def test_weights_of_classes_multiply_those_of_samples(classes, intercepts):
    X, y, task, weight, again = data(classes)
    family = FAMILIES["MSMTFLClassifier"]
    for of_classes in ("balanced", {0: 2.0}):
        model = family.fit(class_weight=of_classes, intercepts=intercepts)
        found = model.fit(X, y, task=task, sample_weight=weight)
        other = family.fit(class_weight=of_classes, intercepts=intercepts).fit(X[again], y[again], task=task[again])
        assert_same(found, other)
    by_hand = family.fit(intercepts=intercepts).fit(X, y, task=task, sample_weight=weight * np.where(y == 0, 2.0, 1.0))
    assert_same(found, by_hand)


def test_strengths_from_the_noise_count_the_weights():
    X, y, task, weight, again = data("squared")
    one, other = (
        RobustMTL().fit(X, y, task=task, sample_weight=weight),
        RobustMTL().fit(X[again], y[again], task=task[again]),
    )
    assert one.lam_deviation_ == pytest.approx(other.lam_deviation_, rel=1e-12)


def varied(loss):
    """Tasks whose effects differ; and what the parabolas at a fit are: working targets and their weights."""
    rng = np.random.default_rng(3)
    X, task = rng.standard_normal((320, 4)), np.repeat(np.arange(8), 40)
    B = np.array([0.5, -0.4, 0.2, 0.0]) + 0.3 * rng.standard_normal((8, 4))
    mean = np.exp((X * B[task]).sum(axis=1) + 0.3)
    y = rng.poisson(mean).astype(float) if loss == "poisson" else mean * rng.gamma(2.0, 0.5, 320)
    model = PartialPooling(loss=loss).fit(X, y, task=task)
    f = (X * model.coef_[task]).sum(axis=1) + model.intercept_[task]
    mean = np.exp(f)
    bend, slope = (mean, mean - y) if loss == "poisson" else (y / mean, 1.0 - y / mean)
    return model, X, task, f - slope / bend, bend


def test_the_likely_strength_is_that_of_the_working_targets():
    model, X, task, working, bend = varied("gamma")
    assert PartialPooling().fit(X, working, task=task, sample_weight=bend).k_ == pytest.approx(model.k_, rel=1e-6)


def test_counts_have_the_noise_that_their_distribution_says():
    """The restricted likelihood of the working targets, with the variance 1 over their weights."""
    model, X, task, working, bend = varied("poisson")
    fixed = np.column_stack([X, np.eye(8)[task]])

    def deviance(log_k):
        V = np.diag(1.0 / bend) + np.exp(-log_k) * (X @ X.T) * (task[:, None] == task)
        inverse = np.linalg.inv(V)
        H = fixed.T @ inverse @ fixed
        r = working - fixed @ np.linalg.solve(H, fixed.T @ inverse @ working)
        return np.linalg.slogdet(V)[1] + np.linalg.slogdet(H)[1] + r @ inverse @ r

    best = minimize_scalar(deviance, bounds=(0.0, 6.0), method="bounded", options={"xatol": 1e-8})
    assert np.exp(best.x) == pytest.approx(model.k_, rel=1e-5)
