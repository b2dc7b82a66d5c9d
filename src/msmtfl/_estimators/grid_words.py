"""What the grid of a search is called: its strength, its columns, and the points at which it is separate lassos.

`results` are the columns of `cv_results_`, (P,) each; `grid` the same as (K, L) each, K strengths and L columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._objective.penalties import ConcaveGroups, ConcaveRows
from .._paths.common_path import SharedGrid
from .._paths.coupled_path import DirtyGrid, GroupGrid
from .._paths.pooling_path import PoolingGrid
from .._paths.pretrained_path import PretrainedGrid
from .._paths.surface import Surface

Results = dict[str, np.ndarray]
Levels = tuple[tuple[str, ...], str]


@dataclass(frozen=True)
class GridWords:
    """A kind of grid in words.

    Attributes
    ----------
    kind : the class that holds its points, which is that of a surface or of the surface's `grid`
    strength, symbol : the column of `cv_results_` that falls along a path, and what pictures call it
    norm : the penalty whose row norms say how much a feature counts
    width : L, of a fitted CV model
    levels : what the columns are called, each and together; of (K, L) columns of `cv_results_`
    lassos : (P,) bool, the points that are separate lassos; of `cv_results_` and the number of tasks
    column : one column of a surface in words
    """

    kind: type
    strength: str
    symbol: str
    norm: type[ConcaveRows] | type[ConcaveGroups]
    width: Callable[[Any], int]
    levels: Callable[[Results], Levels]
    lassos: Callable[[Results, int], np.ndarray]
    column: Callable[[Any, int], str]

    def row_norms(self, W: Any, factors: Any) -> np.ndarray:
        """(d,) norms of the rows of W (d, m), whose entries are multiplied by factors (d, m)."""
        return self.norm(1.0, np.inf, factors).row_norms(W)

    def describes(self, surface: Any) -> bool:
        return isinstance(surface, self.kind) or isinstance(getattr(surface, "grid", None), self.kind)


def number(value: float) -> str:
    return f"{value:.4g}" if value >= 1000 else f"{value:.3g}"


def _columns_of_thetas(model: Any) -> int:
    return int(model.thetas_.shape[1])


def _by_place(grid: Results) -> Levels:
    """Of thetas that are neither the same at every lam nor in proportion to it."""
    return tuple(str(l) for l in range(grid["theta"].shape[1])), "column of thetas"


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


def _without_caps(results: Results, m: int) -> np.ndarray:
    never = np.isinf(results["theta"])
    if "lam_entry" in results:
        of_entries = (results["lam_entry"] == 0) | np.isinf(results["theta_entry"])
        never = (never | (results["lam"] == 0)) & of_entries
    return np.asarray(never)


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


THETAS = GridWords(
    kind=Surface,
    strength="lam",
    symbol="λ",
    norm=ConcaveRows,
    width=_columns_of_thetas,
    levels=_theta_levels,
    lassos=_without_caps,
    column=_theta_column,
)


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
    width=_columns_of_thetas,
    levels=_common_levels,
    lassos=lambda results, m: np.isinf(results["theta"]) & (results["lam_common"] >= m * results["lam_deviation"]),
    column=_common_column,
)


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
