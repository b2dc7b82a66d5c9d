"""What is known of multi-stage multi-task feature learning: its records and the words of its grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._objective.penalties import ConcaveRows
from ..._objective.problem import Problem
from ..._paths.grid import point_of
from ..._paths.solve import solve_surface
from ..._paths.surface import Surface
from ..families import LAM, THETA, Family, Strength, Variant
from ..words.formula_texts import of_rows, penalised
from ..words.grid_words import GridWords, Levels, Results, columns_of_thetas, number
from .classifier_search import MSMTFLClassifierCV
from .classifiers import MSMTFLClassifier
from .fit import MSMTFL
from .search import MSMTFLCV

# ------------------------------------------------------------------ lam and theta


def _theta_levels(grid: Results) -> Levels:
    for name, text in (("theta_ratio", "θ / (m λ / ρ̄)"), ("theta", "θ")):
        values = grid.get(name)
        if values is not None and np.isclose(values, values[0]).all():
            if "lam_entry" in grid:
                return _bilevel(grid, name), f"{text} of features + of entries"
            return tuple("∞ (lasso)" if np.isinf(value) else number(value) for value in values[0]), text
    return _by_place(grid)


def _bilevel(grid: Results, name: str) -> tuple[str, ...]:
    """What the columns of a grid with a penalty on entries are called."""
    out = []
    for l in range(grid["lam"].shape[1]):
        rows, entries = grid["lam"][0, l] > 0, grid["lam_entry"][0, l] > 0
        theta, theta_entry = grid[name][0, l], grid[name.replace("theta", "theta_entry")][0, l]
        if rows and not entries:
            out.append("∞ (lasso)" if np.isinf(theta) else number(theta))
        else:
            out.append(f"{number(theta)} + {number(theta_entry)}" if rows else f"only {number(theta_entry)}")
    return tuple(out)


def _theta_column(surface: Any, l: int) -> str:
    theta, lams = surface.thetas[:, l], surface.lams
    if share := surface.shares[l]:
        of_rows = f", θ = {number(theta[0] / lams[0])} λ" if share < 1 else ""
        return f"{100 * share:.0f} % of λ on entries, θₑ = {number(surface.theta_entries[0, l] / lams[0])} λ{of_rows}"
    if np.isinf(theta).all():
        return "θ = ∞: the lasso"
    if np.isclose(theta, theta[0]).all():
        return f"θ = {number(theta[0])}"
    proportional = np.isclose(theta / lams, theta[0] / lams[0]).all()
    return f"θ = {number(theta[0] / lams[0])} λ" if proportional else f"column {l} of thetas"


def _by_place(grid: Results) -> Levels:
    """Of thetas that are neither the same at every lam nor in proportion to it."""
    return tuple(str(l) for l in range(grid["theta"].shape[1])), "column of thetas"


def _without_caps(results: Results, m: int) -> np.ndarray:
    never = np.isinf(results["theta"])
    if "lam_entry" in results:
        of_entries = (results["lam_entry"] == 0) | np.isinf(results["theta_entry"])
        never = (never | (results["lam"] == 0)) & of_entries
    return np.asarray(never)


THETAS = GridWords(
    kind=Surface,
    strength="lam",
    symbol="λ",
    norm=ConcaveRows,
    width=columns_of_thetas,
    levels=_theta_levels,
    lassos=_without_caps,
    column=_theta_column,
)


def staged_coef(model: Any, part: Problem, **options: Any) -> Floats:
    """(m, d): the coefficients at lam and theta, in stages."""
    return solve_surface(part, point_of(model), max_stages=getattr(model, "max_stages", 1), **options).coef(0, 0)


LAM_ENTRY = Strength("lam_entry", "λₑ", optional=True)
THETA_ENTRY = Strength("theta_entry", "θₑ", caps="lam_entry", may_be_inf=True)
BILEVEL = (LAM, THETA, LAM_ENTRY, THETA_ENTRY)

FAMILIES = (
    Family(
        title="multi-stage multi-task feature learning",
        fit=MSMTFL,
        search=MSMTFLCV,
        variants=(
            Variant("bi-level", "few features, few tasks of each: the paper's model is among them", place=4),
            Variant("msmtfl", "the paper's: few features", ("lam", "theta"), {"entry_shares": 0}, place=3),
        ),
        formula=penalised(of_rows("‖wʲ‖₁")),
        strengths=BILEVEL,
        by_default=(("lam",), ("theta",)),
        chosen="λ and θ",
        grid=THETAS,
        grid_attributes=("lams_", "thetas_"),
        coef_on=staged_coef,
    ),
    Family(
        title="multi-stage multi-task feature learning for classes",
        fit=MSMTFLClassifier,
        search=MSMTFLClassifierCV,
        variants=(
            Variant("classifier", "for classes"),
            Variant("lasso", "", (), {"thetas": [np.inf], "entry_shares": 0}, place=0, command=False),
            Variant("msmtfl", "", ("lam", "theta"), {"entry_shares": 0}, place=3, command=False),
            Variant("bi-level", place=4, command=False),
        ),
        formula=penalised(of_rows("‖wʲ‖₁")),
        strengths=BILEVEL,
        by_default=(("lam",), ("theta",)),
        chosen="λ and θ",
        grid=THETAS,
        grid_attributes=("lams_", "thetas_"),
        coef_on=staged_coef,
    ),
)
