"""What is known of the dirty model: its records and the words of its grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._objective.penalties import ConcaveRows
from ..._paths.families.coupled_path import DirtyGrid
from ..coupled import coupled_coef
from ..families import Family, Part, Strength, Variant, at_once
from ..words.formula_texts import Penalty, penalised
from ..words.grid_words import GridWords, Levels, Results, number
from .classifiers import DirtyMTLClassifier, DirtyMTLClassifierCV
from .fit import DirtyMTL
from .search import DirtyMTLCV

# ------------------------------------------------------------------ lam_b and its ratio to lam_s


def _columns_of_ratios(model: Any) -> int:
    """The grid repeats its ratios."""
    ratio = model.cv_results_["lam_s"] / model.cv_results_["lam_b"]
    again = np.flatnonzero(np.isclose(ratio[1:], ratio[0], rtol=1e-9))
    return int(again[0]) + 1 if again.size else len(ratio)


def _ratio_levels(grid: Results) -> Levels:
    return tuple(number(value) for value in (grid["lam_s"] / grid["lam_b"])[0]), r"$\lambda_s / \lambda_b$"


def _ratio_column(surface: Any, l: int) -> str:
    lams = surface.parameters
    return rf"$\lambda_s$ = {number(lams['lam_s'][0, l] / lams['lam_b'][0, l])} $\lambda_b$"


RATIOS = GridWords(
    kind=DirtyGrid,
    strength="lam_b",
    symbol=r"$\lambda_b$",
    norm=ConcaveRows,
    width=_columns_of_ratios,
    levels=_ratio_levels,
    lassos=lambda results, m: np.asarray(m * results["lam_s"] <= (1 + 1e-9) * results["lam_b"]),
    column=_ratio_column,
)


def squares_of_dirty(model: Any) -> str:
    return "λ_s/2 Σ wⱼᵢ²"


def of_dirty(model: Any) -> Penalty:
    return "λ_s Σ |sⱼᵢ|  +  λ_b Σⱼ maxᵢ |bⱼᵢ|", ["w = s + b"]


REGRESSION = Family(
    title="the dirty model: shared plus task-specific coefficients",
    fit=DirtyMTL,
    search=DirtyMTLCV,
    variants=(Variant("dirty", place=2),),
    formula=penalised(of_dirty, squares_of_dirty),
    strengths=(Strength("lam_s", "λ_s"), Strength("lam_b", "λ_b")),
    main="lam_b",
    by_default=(("lam_s", "lam_b"),),
    chosen="λ_s and λ_b",
    parts=(Part("coef_shared_", "Shared part"), Part("coef_specific_", "Specific part")),
    grid=RATIOS,
    coef_on=at_once(coupled_coef),
)

FAMILIES = (
    REGRESSION,
    REGRESSION.for_classes(
        "the dirty model for classes: shared plus task-specific coefficients", DirtyMTLClassifier, DirtyMTLClassifierCV
    ),
)
