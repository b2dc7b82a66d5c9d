"""What a model is said to minimise is what it minimises: every term of the formula is evaluated by hand."""

import numpy as np
import pytest
from scipy.special import xlogy

from msmtfl import L12MTL, L12MTLCV, MSMTFL, MSMTFLCV, DirtyMTL, LassoMTL, MSMTFLClassifier, SharedMTL
from msmtfl._estimators.baselines.lasso import PooledLassoCV
from msmtfl._estimators.baselines.logistic import LogisticPerTaskCV, PooledLogisticCV
from msmtfl._estimators.baselines.ridge import PooledRidgeCV, RidgePerTaskCV
from msmtfl._estimators.words.formulas import formula
from msmtfl._objective.shapes import SCAD
from msmtfl.model_files import load_model, save_model

RNG = np.random.default_rng(0)
X, TASK = RNG.standard_normal((90, 6)), np.repeat(np.arange(3), 30)
SCORE = 2 * X[:, 0] - X[:, 1] + 0.5 * RNG.standard_normal(90)
COUNT = RNG.poisson(np.exp(0.4 * X[:, 0])).astype(float)
CLASS = np.arange(90) % 3
YES = (X[:, 0] + 2 * RNG.standard_normal(90) > 0).astype(int)

SQUARED = "Σᵢ 1/(m nᵢ) ‖fᵢ − yᵢ‖²"
LOGISTIC = "Σᵣ [log(1 + exp fᵣ) − yᵣ fᵣ]"
POISSON = "Σᵢ 2/(m nᵢ) Σᵣ [exp fᵣ − yᵣ fᵣ + yᵣ log yᵣ − yᵣ]"
HUBER = "Σᵢ 1/(m nᵢ) Σᵣ h(fᵣ − yᵣ)"


def fitted(model, y=SCORE):
    return model.fit(X, y, task=TASK)


def predictors(model):
    coef, level = model.coef_.reshape(3, -1, 6), np.reshape(model.intercept_, (3, -1))
    return [X[np.equal(TASK, i)] @ coef[i].T + level[i] for i in range(3)]


def huber(r, scale):
    e = 1.35 * scale
    return np.where(np.abs(r) <= e, r**2, 2 * e * np.abs(r) - e**2)


def mean_loss(model, y, kind):
    """The first part of the formulas."""
    of_task = []
    for i, f in enumerate(predictors(model)):
        t = y[np.equal(TASK, i)][:, None]
        if kind == "logistic" and f.shape[1] > 1:
            t = (t == np.arange(3)).astype(float)
        value = {
            "squared": lambda f=f, t=t: (f - t) ** 2,
            "logistic": lambda f=f, t=t: 2 * (np.log1p(np.exp(f)) - t * f),
            "poisson": lambda f=f, t=t: 2 * (np.exp(f) - t * f + xlogy(t, t) - t),
            "huber": lambda f=f, t=t, i=i: huber(f - t, model.scale_[i]),
        }[kind]()
        of_task.append(value.mean())
    return np.mean(of_task)


NORMS = {"l1": lambda W: np.abs(W).sum(axis=0), "l2": lambda W: np.sqrt((W**2).sum(axis=0))}
MODELS = {  # model, target, kind of loss, the loss in words, the penalty in words, the penalty by hand
    "squared": (
        MSMTFL(0.1, 1.0),
        SCORE,
        "squared",
        SQUARED,
        "λ Σⱼ min(‖wʲ‖₁, θ)",
        lambda W: 0.1 * np.minimum(NORMS["l1"](W), 1.0).sum(),
    ),
    "poisson": (
        MSMTFL(0.05, 0.4, loss="poisson"),
        COUNT,
        "poisson",
        POISSON,
        "λ Σⱼ min(‖wʲ‖₁, θ)",
        lambda W: 0.05 * np.minimum(NORMS["l1"](W), 0.4).sum(),
    ),
    "huber": (
        MSMTFL(0.1, np.inf, loss="huber"),
        SCORE,
        "huber",
        HUBER,
        "λ Σⱼ ‖wʲ‖₁",
        lambda W: 0.1 * np.abs(W).sum(),
    ),
    "two classes": (
        MSMTFLClassifier(0.05, 1.0),
        YES,
        "logistic",
        f"Σᵢ 2/(m nᵢ) {LOGISTIC}",
        "λ Σⱼ min(‖wʲ‖₁, θ)",
        lambda W: 0.05 * np.minimum(NORMS["l1"](W), 1.0).sum(),
    ),
    "three classes": (
        MSMTFLClassifier(0.02, 1.0),
        CLASS,
        "logistic",
        f"Σᵢₖ 2/(m K nᵢ) {LOGISTIC}",
        "λ Σⱼ min(‖wʲ‖₁, θ)",
        lambda W: 0.02 * np.minimum(NORMS["l1"](W), 1.0).sum(),
    ),
    "bi-level": (
        MSMTFL(0.05, 1.0, lam_entry=0.05, theta_entry=0.3),
        SCORE,
        "squared",
        SQUARED,
        "λ Σⱼ min(‖wʲ‖₁, θ)  +  λₑ Σ min(|wⱼᵢ|, θₑ)",
        lambda W: 0.05 * np.minimum(NORMS["l1"](W), 1.0).sum() + 0.05 * np.minimum(np.abs(W), 0.3).sum(),
    ),
    "entries alone": (
        MSMTFL(0.0, lam_entry=0.1, theta_entry=0.3),
        SCORE,
        "squared",
        SQUARED,
        "λₑ Σ min(|wⱼᵢ|, θₑ)",
        lambda W: 0.1 * np.minimum(np.abs(W), 0.3).sum(),
    ),
    "mcp": (
        MSMTFL(0.1, 2.0, penalty="mcp"),
        SCORE,
        "squared",
        SQUARED,
        "λ Σⱼ φ(‖wʲ‖₁; θ)",
        lambda W: 0.1 * sum(t - t**2 / 4 if t < 2 else 1.0 for t in NORMS["l1"](W)),
    ),
    "log": (
        L12MTL(0.1, 2.0, penalty="log"),
        SCORE,
        "squared",
        SQUARED,
        "λ Σⱼ φ(‖wʲ‖₂; θ)",
        lambda W: 0.1 * (2 * np.log1p(NORMS["l2"](W) / 2)).sum(),
    ),
    "lq": (
        MSMTFL(0.1, 2.0, penalty="lq"),
        SCORE,
        "squared",
        SQUARED,
        "λ Σⱼ φ(‖wʲ‖₁; θ)",
        lambda W: 0.1 * (2 / 0.5 * ((1 + NORMS["l1"](W) / 2) ** 0.5 - 1)).sum(),
    ),
    "lasso": (LassoMTL(0.1), SCORE, "squared", SQUARED, "λ Σⱼ ‖wʲ‖₁", lambda W: 0.1 * np.abs(W).sum()),
    "l12": (L12MTL(0.1), SCORE, "squared", SQUARED, "λ Σⱼ ‖wʲ‖₂", lambda W: 0.1 * NORMS["l2"](W).sum()),
    "capped l12": (
        L12MTL(0.1, 1.0),
        SCORE,
        "squared",
        SQUARED,
        "λ Σⱼ min(‖wʲ‖₂, θ)",
        lambda W: 0.1 * np.minimum(NORMS["l2"](W), 1.0).sum(),
    ),
}


@pytest.mark.parametrize("case", MODELS)
def test_the_formula_is_what_the_objective_is_made_of(case):
    model, y, kind, loss, penalty, by_hand = MODELS[case]
    model = fitted(model, y)
    text = formula(model)
    assert text.startswith(f"minimise  {loss}  +  {penalty},   fᵢ = Xᵢ wᵢ + intercept")
    W = model.coef_.reshape(-1, 6)
    assert model.objective_ == pytest.approx(mean_loss(model, y, kind) + by_hand(W), rel=1e-9)
    assert ("e^" in text or "exp f" in text) == (kind in ("poisson", "logistic"))


def test_parts_of_dirty_and_shared_models_are_said():
    dirty = fitted(DirtyMTL(0.1, 0.2))
    assert formula(dirty).startswith(f"minimise  {SQUARED}  +  λ_s Σ |sⱼᵢ|  +  λ_b Σⱼ maxᵢ |bⱼᵢ|,")
    value = 0.1 * np.abs(dirty.coef_specific_).sum() + 0.2 * np.abs(dirty.coef_shared_).max(axis=0).sum()
    assert dirty.objective_ == pytest.approx(mean_loss(dirty, SCORE, "squared") + value, rel=1e-9)
    shared = fitted(SharedMTL(0.2, 0.1, 0.5))
    assert "λ_c Σⱼ |bⱼ|  +  λ_d Σⱼ min(‖vʲ‖₁, θ),   fᵢ = Xᵢ wᵢ + intercept,   wᵢ = b + vᵢ" in formula(shared)
    value = 0.2 * np.abs(shared.coef_common_).sum()
    value += 0.1 * np.minimum(np.abs(shared.coef_deviation_).sum(axis=0), 0.5).sum()
    assert shared.objective_ == pytest.approx(mean_loss(shared, SCORE, "squared") + value, rel=1e-9)
    assert formula(fitted(SharedMTL(0.2, np.inf))).endswith("wᵢ = b: one for all tasks")
    assert "λ_d Σⱼ ‖vʲ‖₁,   fᵢ = Xᵢ wᵢ + intercept,   wᵢ = vᵢ" in formula(fitted(SharedMTL(np.inf, 0.2)))


def test_constraints_factors_and_shapes_of_ones_own_are_said(tmp_path):
    class Mine:
        def value(self, t, theta):
            return theta * (1.0 - np.exp(-t / theta))

        def slope(self, t, theta):
            return np.exp(-t / theta)

        def __repr__(self):
            return "Mine()"

    text = formula(fitted(MSMTFL(0.1, 1.0, positive=True, penalty_factors=np.ones(6), fit_intercept=False)))
    assert "fᵢ = Xᵢ wᵢ,   with penalty_factors f: f w in the place of w in the penalty,   w ≥ 0" in text
    own = fitted(MSMTFL(0.1, 1.0, penalty=Mine(), max_stages=100))
    assert formula(own).endswith("φ(t; θ) = value of Mine()")
    save_model(own, tmp_path / "m.msmtfl")
    with pytest.warns(UserWarning, match="could not hold penalty"):
        assert formula(load_model(tmp_path / "m.msmtfl")) == formula(own)
    scad = fitted(MSMTFL(0.1, 1.0, penalty=SCAD(3.0), max_stages=100))
    assert "t up to θ/3, then its slope falls to 0 at θ" in formula(scad)


def test_searches_and_baselines_have_formulas():
    assert f"{HUBER}  +  " in formula(fitted(MSMTFLCV(lams=3, cv=2, loss="huber", entry_shares=0)))
    assert "λ Σⱼ ‖wʲ‖₂" in formula(fitted(L12MTLCV(lams=3, cv=2)))
    said = {
        RidgePerTaskCV(): "minimise  ‖fᵢ − yᵢ‖²  +  αᵢ ‖wᵢ‖²,   fᵢ = Xᵢ wᵢ + intercept,   for every task i by itself",
        PooledRidgeCV(cv=2): "minimise  Σᵢ ‖fᵢ − yᵢ‖²  +  α ‖w‖²,",
        PooledLassoCV(cv=2, lams=3): "minimise  1/N Σᵢ ‖fᵢ − yᵢ‖²  +  λ ‖w‖₁,",
    }
    for model, start in said.items():
        assert formula(fitted(model)).startswith(start)
    classes = {
        LogisticPerTaskCV(cv=2): f"minimise  {LOGISTIC}  +  αᵢ/2 ‖wᵢ‖²,",
        PooledLogisticCV(cv=2): f"minimise  Σᵢ {LOGISTIC}  +  α/2 ‖w‖²,",
        PooledLogisticCV("l1", cv=2, lams=3): f"minimise  2/N Σᵢ {LOGISTIC}  +  λ ‖w‖₁,",
    }
    for model, start in classes.items():
        assert formula(fitted(model, YES)).startswith(start)


def test_intercepts_that_share_are_said():
    model = fitted(LassoMTL(0.1, intercepts="shrunk"))
    k, level = f"{model.level_ridge_:.3g}", f"{model.common_level_:.3g}"
    assert formula(model).endswith(f"intercepts drawn to the level {level} at the mean sample, as by {k} samples there")
    assert formula(fitted(LassoMTL(0.1, intercepts="common"))).endswith("one intercept for all tasks")
    assert "drawn to" not in formula(fitted(LassoMTL(0.1)))
