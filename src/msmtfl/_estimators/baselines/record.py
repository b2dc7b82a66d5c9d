"""What is known of the baselines: their records and formulas."""

from __future__ import annotations

from typing import Any

from ..families import Family, Formula, Variant
from ..words.formula_texts import fixed, of_classes
from .lasso import PooledLassoCV
from .logistic import LogisticPerTaskCV, PooledLogisticCV
from .ridge import PooledRidgeCV, RidgePerTaskCV

LOGISTIC = "Σᵣ [log(1 + exp fᵣ) − yᵣ fᵣ]"


def of_pooled_logistic(model: Any) -> Formula:
    """One logistic regression for all tasks, with the penalty that it was given."""
    l1 = model.penalty == "l1"
    loss = f"2/N Σᵢ {LOGISTIC}" if l1 else f"Σᵢ {LOGISTIC}"
    one = "wᵢ = w: one for all tasks" + ", N rows in all" * l1
    return loss, "λ ‖w‖₁" if l1 else "α/2 ‖w‖²", [one, *of_classes(model)]


FAMILIES = (
    Family(
        title="one ridge regression per task",
        fit=None,
        search=RidgePerTaskCV,
        variants=(Variant("ridge per task", place=6),),
        formula=fixed("‖fᵢ − yᵢ‖²", "αᵢ ‖wᵢ‖²", "for every task i by itself"),
        selects=lambda model: "",
        shares=False,
        staged=False,
    ),
    Family(
        title="one lasso for all tasks, each with its own intercept",
        fit=None,
        search=PooledLassoCV,
        variants=(Variant("pooled lasso", place=7),),
        formula=fixed("1/N Σᵢ ‖fᵢ − yᵢ‖²", "λ ‖w‖₁", "wᵢ = w: one for all tasks, N rows in all"),
        selects=lambda model: "rows",
        staged=False,
    ),
    Family(
        title="one ridge regression for all tasks, each with its own intercept",
        fit=None,
        search=PooledRidgeCV,
        variants=(Variant("pooled ridge", place=8),),
        formula=fixed("Σᵢ ‖fᵢ − yᵢ‖²", "α ‖w‖²", "wᵢ = w: one for all tasks"),
        selects=lambda model: "",
        staged=False,
    ),
    Family(
        title="one logistic regression per task",
        fit=None,
        search=LogisticPerTaskCV,
        variants=(Variant("ridge per task", place=6, command=False),),
        formula=fixed(LOGISTIC, "αᵢ/2 ‖wᵢ‖²", "for every task i by itself"),
        selects=lambda model: "",
        shares=False,
        staged=False,
    ),
    Family(
        title="one logistic regression for all tasks, each with its own intercept",
        fit=None,
        search=PooledLogisticCV,
        variants=(
            Variant("pooled lasso", options={"penalty": "l1"}, place=7, command=False),
            Variant("pooled ridge", options={"penalty": "l2"}, place=8, command=False),
        ),
        formula=of_pooled_logistic,
        selects=lambda model: "rows" if model.penalty == "l1" else "",
        staged=False,
    ),
)
