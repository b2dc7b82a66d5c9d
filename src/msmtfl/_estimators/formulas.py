"""What a fitted model minimises, as a line of text: the loss it was given, and the penalty at the strengths it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._objective.shapes import MCP, SCAD, SHAPES, Capped, LogSum, Power
from .base import loss_of, model_chosen
from .baselines import LogisticPerTaskCV, PooledLassoCV, PooledLogisticCV, PooledRidgeCV, RidgePerTaskCV
from .coupled import L12MTL, L12MTLCV

LOGISTIC = "Σᵣ [log(1 + exp fᵣ) − yᵣ fᵣ]"
LOSSES = {  # of a task i with nᵢ rows r; f is the linear predictor, intercept included
    "squared": ("1/({m} nᵢ) ‖fᵢ − yᵢ‖²", ""),
    "logistic": ("2/({m} nᵢ) " + LOGISTIC, ""),
    "poisson": ("2/({m} nᵢ) Σᵣ [exp fᵣ − yᵣ fᵣ + yᵣ log yᵣ − yᵣ]", "the prediction is exp f"),
    "huber": (
        "1/({m} nᵢ) Σᵣ h(fᵣ − yᵣ)",
        "h(t) = t² up to |t| = eᵢ, 2 eᵢ |t| − eᵢ² beyond, eᵢ = {epsilon:g} × scale of task i's residuals",
    ),
}
PREDICTOR = "fᵢ = Xᵢ wᵢ"
BASELINES = {  # class: loss, penalty, what the letters are
    RidgePerTaskCV: ("‖fᵢ − yᵢ‖²", "αᵢ ‖wᵢ‖²", "for every task i by itself"),
    PooledRidgeCV: ("Σᵢ ‖fᵢ − yᵢ‖²", "α ‖w‖²", "wᵢ = w: one for all tasks"),
    PooledLassoCV: ("1/N Σᵢ ‖fᵢ − yᵢ‖²", "λ ‖w‖₁", "wᵢ = w: one for all tasks, N rows in all"),
    LogisticPerTaskCV: (LOGISTIC, "αᵢ/2 ‖wᵢ‖²", "for every task i by itself"),
}


def formula(model: Any) -> str:
    """Write down what a fitted model minimises: its loss, and the penalty at the strengths that it has.

    Parameters
    ----------
    model : estimator
        A fitted model of this package.

    Returns
    -------
    str
        The formula as plain text.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import LassoMTL
    >>> from msmtfl.formulas import formula
    >>> X = np.random.default_rng(0).standard_normal((30, 3))
    >>> print(formula(LassoMTL(0.1).fit(X, X[:, :2])))
    minimise  Σᵢ 1/(m nᵢ) ‖fᵢ − yᵢ‖²  +  λ Σⱼ ‖wʲ‖₁,   fᵢ = Xᵢ wᵢ + intercept
    """
    model = model_chosen(model)
    loss, penalty, notes = _baseline(model) if type(model) in (*BASELINES, PooledLogisticCV) else _model(model)
    predictor = PREDICTOR + " + intercept" * bool(getattr(model, "fit_intercept", True))
    constraint = ["w ≥ 0"] if getattr(model, "positive", False) else []
    return f"minimise  {loss}  +  {',   '.join([penalty, predictor, *notes, *constraint])}"


def _baseline(model: Any) -> tuple[str, str, list[str]]:
    rest = _of_classes(model)
    if isinstance(model, PooledLogisticCV):
        l1 = model.penalty == "l1"
        loss = f"2/N Σᵢ {LOGISTIC}" if l1 else f"Σᵢ {LOGISTIC}"
        return loss, "λ ‖w‖₁" if l1 else "α/2 ‖w‖²", ["wᵢ = w: one for all tasks" + ", N rows in all" * l1, *rest]
    loss, penalty, note = BASELINES[type(model)]
    return loss, penalty, [note, *rest]


def _of_classes(model: Any) -> list[str]:
    several = len(getattr(model, "classes_", ())) > 2
    return ["y = 1 in one class, 0 in the others"] if several else []


def _model(model: Any) -> tuple[str, str, list[str]]:
    K = len(getattr(model, "classes_", ()))
    loss, note = LOSSES["logistic" if K else loss_of(model)]
    loss = ("Σᵢₖ " if K > 2 else "Σᵢ ") + loss.format(m="m K" if K > 2 else "m")
    penalty, notes = _penalty(model)
    notes = [*([note.format(epsilon=getattr(model, "epsilon", 0.0))] if note else []), *notes, *_of_classes(model)]
    if getattr(model, "penalty_factors", None) is not None:
        notes.append("with penalty_factors f: f w in the place of w in the penalty")
    return loss, penalty, notes


# ------------------------------------------------------------------ penalties


def _penalty(model: Any) -> tuple[str, list[str]]:
    if hasattr(model, "lam_b_"):
        return "λ_s Σ |sⱼᵢ|  +  λ_b Σⱼ maxᵢ |bⱼᵢ|", ["w = s + b"]
    if hasattr(model, "lam_common_"):
        return _of_shared(model)
    norm = "‖wʲ‖₂" if isinstance(model, (L12MTL, L12MTLCV)) else "‖wʲ‖₁"
    given, theta = getattr(model, "penalty", "capped"), getattr(model, "theta_", np.inf)
    shape = SHAPES[given] if isinstance(given, str) else given
    parts: list[str] = []
    notes: list[str] = []
    if model.lam_:
        text, note = _bent(shape, norm, "θ", theta)
        parts, notes = [f"λ Σⱼ {text}"], note
    if getattr(model, "lam_entry_", 0.0):
        text, note = _bent(shape, "|wⱼᵢ|", "θₑ", model.theta_entry_)
        parts.append(f"λₑ Σ {text}")
        notes = notes or note
    return "  +  ".join(parts), notes


def _of_shared(model: Any) -> tuple[str, list[str]]:
    if np.isinf(model.lam_deviation_):
        return "λ_c Σⱼ |bⱼ|", ["wᵢ = b: one for all tasks"]
    deviations = f"λ_d Σⱼ {_bent(Capped(), '‖vʲ‖₁', 'θ', model.theta_)[0]}"
    if np.isinf(model.lam_common_):
        return deviations, ["wᵢ = vᵢ: nothing in common"]
    return f"λ_c Σⱼ |bⱼ|  +  {deviations}", ["wᵢ = b + vᵢ"]


BENT: dict[type, Callable[[Any], str]] = {
    MCP: lambda shape: "t − t²/(2θ) up to t = θ, θ/2 beyond",
    SCAD: lambda shape: f"t up to θ/{shape.a:g}, then its slope falls to 0 at θ",
    LogSum: lambda shape: "θ log(1 + t/θ)",
    Power: lambda shape: f"θ/{shape.q:g} [(1 + t/θ)^{shape.q:g} − 1]",
}


def _bent(shape: Any, norm: str, name: str, theta: float) -> tuple[str, list[str]]:
    """What a norm costs per unit of lam, and what that means if it is no cap."""
    if np.isinf(theta):
        return norm, []
    if isinstance(shape, Capped):
        return f"min({norm}, {name})", []
    said = BENT.get(type(shape), lambda one: f"value of {one!r}")(shape)
    return f"φ({norm}; {name})", [f"φ(t; θ) = {said}"]
