"""What a fitted model minimises, as a line of text: the loss it was given, and the penalty at the strengths it has."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..families import family_of
from ..fitted import model_chosen, of_survival

PREDICTOR = "fᵢ = Xᵢ wᵢ"


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
    loss, penalty, notes = family_of(model).formula(model)
    predictor = PREDICTOR + " + intercept" * (bool(getattr(model, "fit_intercept", True)) and not of_survival(model))
    predictor += " + offset" * bool(getattr(model, "uses_offset_", False))
    notes = [*notes, *_of_intercepts(model)]
    constraint = ["w ≥ 0"] if getattr(model, "positive", False) else []
    constraint += [] if getattr(model, "bounds", None) is None else [_of_bounds(*model.bounds)]
    return f"minimise  {loss}  +  {',   '.join([penalty, predictor, *notes, *constraint])}"


def _of_bound(bound: Any, name: str) -> str:
    if bound is None or np.isinf(bound).all():
        return ""
    return f"{bound:.3g}" if np.ndim(bound) == 0 else name


def _of_bounds(low: Any, high: Any) -> str:
    """In numbers where there is one for all coefficients."""
    least, most = _of_bound(low, "low"), _of_bound(high, "high")
    return f"{least}{' ≤ ' * bool(least)}w{' ≤ ' * bool(most)}{most}" if least or most else "w without bounds"


def _of_intercepts(model: Any) -> list[str]:
    """How they share, if they do."""
    kind = getattr(model, "intercepts", "task")
    if kind == "task" or not hasattr(model, "common_level_"):
        return []
    if kind == "common":
        return ["one intercept for all tasks"]
    if np.ndim(model.level_ridge_):
        return ["intercepts drawn to a common level of every class"]
    level, ridge = model.common_level_, model.level_ridge_
    return [f"intercepts drawn to the level {level:.3g} at the mean sample, as by {ridge:.3g} samples there"]
