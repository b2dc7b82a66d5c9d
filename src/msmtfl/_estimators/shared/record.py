"""What is known of models with common values and sparse deviations: their records and the words of their grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._objective.penalties import ConcaveRows
from ..._objective.shapes import Capped
from ..._paths.families.common_path import SharedGrid
from ..families import Family, Part, Strength, Variant, at_once
from ..words.formula_texts import Penalty, bent, penalised
from ..words.grid_words import GridWords, Levels, Results, columns_of_thetas, number
from .classifiers import SharedMTLClassifier, SharedMTLClassifierCV
from .fit import SharedMTL, shared_coef
from .search import SharedMTLCV

# ------------------------------------------------------------------ common values and deviations


def _common_levels(grid: Results) -> Levels:
    pairs = zip(grid["ratio"][0], grid["theta_ratio"][0], strict=True)
    texts = tuple(f"{number(ratio)}, {number(cap)}" for ratio, cap in pairs)
    return texts, r"$\lambda_c / (\sqrt{m} \lambda_d)$, θ ratio"


def _common_column(surface: Any, l: int) -> str:
    ratio, cap = map(number, surface.grid.columns[l])
    return rf"$\lambda_c$ = {ratio} $\sqrt{{m}} \lambda_d$, θ ratio {cap}"


COMMON = GridWords(
    kind=SharedGrid,
    strength="lam",
    symbol="λ",
    norm=ConcaveRows,
    width=columns_of_thetas,
    levels=_common_levels,
    lassos=lambda results, m: np.isinf(results["theta"]) & (results["lam_common"] >= m * results["lam_deviation"]),
    column=_common_column,
)


def squares_of_shared(model: Any) -> str:
    parts = [("λ_c/2 Σ bⱼ²", model.lam_common_), ("λ_d/2 Σ vⱼᵢ²", model.lam_deviation_)]
    return "  +  ".join(text for text, lam in parts if np.isfinite(lam))


def of_shared(model: Any) -> Penalty:
    if np.isinf(model.lam_deviation_):
        return "λ_c Σⱼ |bⱼ|", ["wᵢ = b: one for all tasks"]
    deviations = f"λ_d Σⱼ {bent(Capped(), '‖vʲ‖₁', 'θ', model.theta_)[0]}"
    if np.isinf(model.lam_common_):
        return deviations, ["wᵢ = vᵢ: nothing in common"]
    return f"λ_c Σⱼ |bⱼ|  +  {deviations}", ["wᵢ = b + vᵢ"]


REGRESSION = Family(
    title="values common to all tasks, and sparse deviations from them",
    fit=SharedMTL,
    search=SharedMTLCV,
    variants=(Variant("shared", place=5),),
    formula=penalised(of_shared, squares_of_shared),
    strengths=(
        Strength("lam_common", "λ_c", may_be_inf=True),
        Strength("lam_deviation", "λ_d", may_be_inf=True),
        Strength("theta", "θ", caps="lam_deviation", may_be_inf=True),
    ),
    main="lam_deviation",
    by_default=(("lam_common", "lam_deviation"),),
    chosen="λ_c, λ_d and θ",
    parts=(
        Part("coef_common_", "Common value", "what tasks that do not deviate have", common=True),
        Part("coef_deviation_", "Largest deviation"),
    ),
    grid=COMMON,
    grid_attributes=("thetas_",),
    coef_on=at_once(shared_coef),
)

FAMILIES = (
    REGRESSION,
    REGRESSION.for_classes(
        "values common to all tasks, and sparse deviations from them, for classes",
        SharedMTLClassifier,
        SharedMTLClassifierCV,
    ),
)
