"""What is known of the pretrained lasso: its record and the words of its grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._objective.penalties import ConcaveRows
from ..._paths.families.pretrained_path import PretrainedGrid
from ..families import LAM, Family, Part, Strength, Variant, at_once
from ..fitted import loss_of
from ..words.formula_texts import Penalty, mixed, penalised
from ..words.grid_words import GridWords, Levels, Results, number
from .fit import PretrainedMTL, pretrained_coef
from .search import PretrainedMTLCV

# ------------------------------------------------------------------ lam, and what is taken over from a first step


def _alpha_levels(grid: Results) -> Levels:
    several = np.unique(grid["lam_common"][0]).size > 1
    pairs = zip(grid["alpha"][0], grid["lam_common"][0], strict=True)
    texts = tuple(f"{number(alpha)}, {number(common)}" if several else number(alpha) for alpha, common in pairs)
    return texts, r"α, $\lambda_c$" if several else "α"


PRETRAINED = GridWords(
    kind=PretrainedGrid,
    strength="lam",
    symbol="λ",
    norm=ConcaveRows,
    width=lambda model: len(model.cv_results_["alpha"]) // len(model.lams_),
    levels=_alpha_levels,
    lassos=lambda results, m: np.asarray(results["alpha"] == 1.0),
    column=lambda surface, l: f"α = {number(surface.grid.alphas[l])}",
)


def of_pretrained(model: Any) -> Penalty:
    if model.alpha_ == 1.0:
        return "λ Σ |vⱼᵢ|", ["wᵢ = vᵢ: nothing is taken over from the lasso of all tasks"]
    outside = "no vⱼᵢ outside S" if model.alpha_ == 0.0 else "α = " + f"{model.alpha_:.4g}"
    text = "λ Σ_{j∈S} |vⱼᵢ|" + ("  +  λ/α Σ_{j∉S} |vⱼᵢ|" if model.alpha_ else "")
    start = "wᵢ = b + vᵢ" if model.alpha_ == 0.0 else "wᵢ = (1 − α) b + vᵢ"
    ratio = getattr(model, "l1_ratio_", model.l1_ratio)
    first = (
        "b, of support S, minimises 1/N Σᵢ ‖Xᵢ b − yᵢ‖²  +  " + mixed(ratio, "λ_c ‖b‖₁", "λ_c/2 ‖b‖²")
        if loss_of(model) == "squared"
        else ("b, of support S, is one lasso for all tasks with the strength λ_c")
        + ("" if ratio == 1.0 else f" and l1_ratio = {ratio:.4g}")
    )
    return text, [start, first, outside]


def _squares(model: Any) -> str:
    """The ridge of the second step, with the squares of the lasso's factors."""
    if model.alpha_ == 1.0:
        return "λ/2 Σ vⱼᵢ²"
    return "λ/2 Σ_{j∈S} vⱼᵢ²" + ("  +  λ/(2α²) Σ_{j∉S} vⱼᵢ²" if model.alpha_ else "")


FAMILIES = (
    Family(
        title="the pretrained lasso: one lasso for all tasks, then one per task that starts from it",
        fit=PretrainedMTL,
        search=PretrainedMTLCV,
        variants=(
            Variant(
                "pretrained",
                "one lasso for all tasks, then one per task that starts from it",
                place=10,
                when_named=True,
            ),
        ),
        formula=penalised(of_pretrained, _squares),
        strengths=(
            LAM,
            Strength("alpha", "α"),
            Strength("lam_common", "λ_c", may_be_inf=True),
        ),
        by_default=(("lam",), ("lam_common",)),
        chosen="λ and α",
        parts=(
            Part("coef_common_", "First step", "the lasso of all tasks", common=True),
            Part("coef_specific_", "Largest of the second step"),
        ),
        grid=PRETRAINED,
        grid_attributes=("lams_",),
        coef_on=at_once(pretrained_coef),
        has_largest=False,
    ),
)
