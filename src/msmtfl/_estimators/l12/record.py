"""What is known of L1,2: its records and the words of its grid."""

from __future__ import annotations

import numpy as np

from ..._objective.penalties import ConcaveGroups
from ..._paths.families.coupled_path import GroupGrid
from ..coupled import coupled_coef
from ..families import LAM, Family, Strength, Variant, at_once
from ..words.formula_texts import of_rows, penalised
from ..words.grid_words import GridWords
from .classifiers import L12MTLClassifier, L12MTLClassifierCV
from .fit import L12MTL
from .search import L12MTLCV

# ------------------------------------------------------------------ lam alone

LAMS = GridWords(
    kind=GroupGrid,
    strength="lam",
    symbol="λ",
    norm=ConcaveGroups,
    width=lambda model: 1,
    levels=lambda grid: (("L1,2",), "penalty"),
    lassos=lambda results, m: np.zeros(len(results["lam"]), dtype=bool),
    column=lambda surface, l: "L1,2",
)

REGRESSION = Family(
    title="L1,2: the group lasso over tasks",
    fit=L12MTL,
    search=L12MTLCV,
    variants=(Variant("l12", place=1),),
    formula=penalised(of_rows("‖wʲ‖₂")),
    strengths=(LAM, Strength("theta", "θ", caps="lam", may_be_inf=True, searched=False)),
    by_default=(("lam",),),
    grid=LAMS,
    grid_attributes=("lams_",),
    coef_on=at_once(coupled_coef),
    selects=lambda model: "rows",
)

FAMILIES = (
    REGRESSION,
    REGRESSION.for_classes("L1,2 for classes: the group lasso over tasks", L12MTLClassifier, L12MTLClassifierCV),
)
