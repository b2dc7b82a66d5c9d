"""What is known of lassos per task: their record."""

from __future__ import annotations

from ..families import LAM, Family, Variant
from ..msmtfl.record import THETAS, staged_coef
from ..words.formula_texts import of_rows, penalised
from .fit import LassoMTL
from .search import LassoMTLCV

FAMILIES = (
    Family(
        title="independent lassos, one per task",
        fit=LassoMTL,
        search=LassoMTLCV,
        variants=(Variant("lasso", "one per task", place=0),),
        formula=penalised(of_rows("‖wʲ‖₁")),
        strengths=(LAM,),
        by_default=(("lam",),),
        grid=THETAS,
        grid_attributes=("lams_", "thetas_"),
        coef_on=staged_coef,
        shares=False,
    ),
)
