"""What a fitted model minimises, as a line of text: the loss it was given, and the penalty at the strengths it has."""

from __future__ import annotations

from typing import Any

from .base import model_chosen
from .families import family_of
from .formula_texts import PREDICTOR


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
    predictor = PREDICTOR + " + intercept" * bool(getattr(model, "fit_intercept", True))
    predictor += " + offset" * bool(getattr(model, "uses_offset_", False))
    constraint = ["w ≥ 0"] if getattr(model, "positive", False) else []
    return f"minimise  {loss}  +  {',   '.join([penalty, predictor, *notes, *constraint])}"
