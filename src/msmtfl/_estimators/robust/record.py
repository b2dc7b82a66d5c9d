"""What is known of robust models: their record and the words of their grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._objective.losses import loss_named
from ..._objective.penalties import ConcaveRows
from ..._paths.families.robust_path import ARMUL, RobustGrid
from ..families import Family, Formula, Part, Strength, Variant, at_once
from ..fitted import loss_of
from ..words.formula_texts import letters, of_groups
from ..words.grid_words import GridWords, Levels, Results, number
from .fit import RobustMTL, robust_coef
from .search import RobustMTLCV


def _ratios(grid: Results) -> Levels:
    """Of ridges on the centre, which are the same at every strength, or ratios of the two strengths."""
    common, deviation = grid["lam_common"], grid["lam_deviation"]
    if (common == common[:1]).all():
        return tuple(number(value) for value in common[0]), r"$\lambda_c$"
    return tuple(number(value) for value in (deviation / common)[0]), r"$\lambda_d / \lambda_c$"


def _column(surface: Any, l: int) -> str:
    texts, what = _ratios(surface.parameters)
    return f"{what} = {texts[l]}"


ROBUST = GridWords(
    kind=RobustGrid,
    strength="lam_deviation",
    symbol=r"$\lambda_d$",
    norm=ConcaveRows,
    width=lambda model: int(model.lam_deviations_.shape[1]),
    levels=_ratios,
    lassos=lambda results, m: np.zeros(len(results["lam_deviation"]), dtype=bool),
    column=_column,
    instead=("lam_common", r"$\lambda_c$"),
)


def of_robust(model: Any) -> Formula:
    loss = loss_named(loss_of(model))
    notes = []
    deviates = np.isfinite(model.lam_deviation_)
    if model.kind == ARMUL:
        share, _, rest = loss.text.replace("({m} nᵢ)", "N").partition(" ")
        of_loss = f"{share} Σᵢ {rest}"
        common = "λ_c/N ‖b‖²" if 0.0 < model.lam_common_ < np.inf else ""
        deviations = "λ_d/N Σᵢ √nᵢ ‖vᵢ‖₂" if deviates else ""
        notes.append("wᵢ = b + vᵢ, N samples in all" if deviates else "wᵢ = b: one for all tasks, N samples in all")
    else:
        of_loss = "Σᵢ " + loss.text.format(m="m")
        common = "λ_c Σⱼ ‖pʲ‖₂" if np.isfinite(model.lam_common_) else ""
        deviations = "λ_d Σᵢ ‖qᵢ‖₂" if deviates else ""
        notes.append("W = P + Q" if deviates else "W = P: no task deviates")
    if loss.note:
        notes.append(letters(loss, model))
    notes += of_groups(model)
    if getattr(model, "penalty_factors", None) is not None:
        notes.append("with penalty_factors f: f w in the place of w in the penalty")
    return of_loss, "  +  ".join(filter(None, (deviations, common))), notes


FAMILIES = (
    Family(
        title="robust: what tasks have in common, and deviations of a few tasks unlike the rest",
        fit=RobustMTL,
        search=RobustMTLCV,
        variants=(
            Variant(
                "robust",
                "a common centre, and the tasks that deviate from it",
                options={"relax": True},  # then folds choose a strength at which only odd tasks deviate
                place=11,
                when_named=True,
            ),
            Variant(
                "rmtfl",
                "common features, and the tasks that deviate from them",
                options={"kind": "rmtfl"},
                place=12,
                when_named=True,
            ),
        ),
        formula=of_robust,
        strengths=(
            Strength("lam_deviation", "λ_d", may_be_inf=True),
            Strength("lam_common", "λ_c", optional=True, may_be_inf=True),
        ),
        main="lam_deviation",
        by_default=(("lam_deviation",),),
        chosen="λ_d and λ_c",
        parts=(
            Part("coef_common_", "Common value", "what tasks that do not deviate have, in the mean", common=True),
            Part("coef_shared_", "Shared part"),
            Part("coef_deviation_", "Largest deviation"),
        ),
        odd="outlier_tasks_",
        grid=ROBUST,
        grid_attributes=("lam_deviations_", "lam_commons_"),
        coef_on=at_once(robust_coef),
        has_largest=False,
    ),
)
