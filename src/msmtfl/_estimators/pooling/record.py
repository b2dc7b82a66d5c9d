"""What is known of partial pooling: its records and the words of its grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._objective.losses import loss_named
from ..._objective.penalties import ConcaveRows
from ..._objective.problem import NUMERIC
from ..._paths.families.pooling_path import PoolingGrid
from ..families import Family, Formula, Part, Strength, Variant, at_once
from ..fitted import name_of_loss
from ..words.formula_texts import letters
from ..words.grid_words import GridWords, number
from .classifiers import PartialPoolingClassifier, PartialPoolingClassifierCV
from .fit import PartialPooling, pooled_coef
from .search import PartialPoolingCV

# ------------------------------------------------------------------ common values and deviations, with ridges

POOLED = GridWords(
    kind=PoolingGrid,
    strength="k",
    symbol="k",
    norm=ConcaveRows,
    width=lambda model: len(model.k_commons_),
    levels=lambda grid: (tuple(number(value) for value in grid["k_common"][0]), "$k_c$"),
    lassos=lambda results, m: np.zeros(len(results["k"]), dtype=bool),
    column=lambda surface, l: f"$k_c$ = {number(surface.grid.k_common[0, l])}",
)


def of_pooling(model: Any) -> Formula:
    """Partial pooling: every sample counts the same, and penalties are ridges."""
    common = "k_c/N ‖b‖²" if 0.0 < model.k_common_ < np.inf else ""
    deviations = "k/N Σᵢ ‖vᵢ‖²" if np.isfinite(model.k_) else ""
    note = "wᵢ = b + vᵢ"
    if np.isinf(model.k_):
        note = "wᵢ = b: one for all tasks"
    elif np.isinf(model.k_common_):
        note = "wᵢ = vᵢ: nothing in common"
    kind = loss_named(name_of_loss(model))
    share, _, rest = kind.text.replace("({m} nᵢ)", "N").partition(" ")
    notes = [f"{note}, N samples in all"]
    if len(getattr(model, "classes_", ())) > 2:
        notes = [f"{note}, for each class against the rest, N samples in all, counted once per class"]
    if kind.note:
        notes.append(letters(kind, model))
    if getattr(model, "penalty_factors", None) is not None:
        notes.append("with penalty_factors f: f w in the place of w in the penalty")
    return f"{share} Σᵢ {rest}", "  +  ".join(filter(None, (deviations, common))), notes


REGRESSION = Family(
    title="partial pooling: values common to all tasks, and dense deviations from them",
    fit=PartialPooling,
    search=PartialPoolingCV,
    variants=(Variant("partial-pooling", "common values and dense deviations: ridges only", place=9, scaling=NUMERIC),),
    formula=of_pooling,
    strengths=(
        Strength("k", "k", may_be_inf=True),
        Strength("k_common", "k_c", optional=True, may_be_inf=True),
    ),
    main="k",
    by_default=(("k",),),
    chosen="k and k_c",
    parts=(
        Part("coef_common_", "Common value", "what a task without data would have", common=True),
        Part("coef_deviation_", "Largest deviation"),
    ),
    grid=POOLED,
    grid_attributes=("ks_", "k_commons_"),
    coef_on=at_once(pooled_coef),
    selects=lambda model: "",
    has_largest=False,
)

FAMILIES = (
    REGRESSION,
    REGRESSION.for_classes(
        "partial pooling for classes: values common to all tasks, and dense deviations from them",
        PartialPoolingClassifier,
        PartialPoolingClassifierCV,
    ),
)
