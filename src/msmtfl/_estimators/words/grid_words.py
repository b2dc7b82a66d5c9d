"""What the grid of a search is called: its strength, its columns, and the points at which it is separate lassos.

`results` are the columns of `cv_results_`, (P,) each; `grid` the same as (K, L) each, K strengths and L columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._objective.coupled.groups import Groups
from ..._objective.penalties import ConcaveGroups, ConcaveRows

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
    instead : a column of `cv_results_` that takes the place of the first where that is infinite, and what it is called
    """

    kind: type
    strength: str
    symbol: str
    norm: type[ConcaveRows | ConcaveGroups]
    width: Callable[[Any], int]
    levels: Callable[[Results], Levels]
    lassos: Callable[[Results, int], np.ndarray]
    column: Callable[[Any, int], str]
    instead: tuple[str, str] | None = None

    def strengths(self, grid: Results) -> tuple[np.ndarray, str]:
        """What falls along the paths of a grid (or of some of its columns), always finite, and what pictures call it."""
        own = grid[self.strength] + grid.get("lam_entry", 0.0)
        if self.instead is None or np.isfinite(own).all():
            return own, self.symbol
        return grid[self.instead[0]], self.instead[1]

    def row_norms(self, W: Any, factors: Any, groups: Groups | None = None) -> np.ndarray:
        """(d,) norms of the rows of W (d, m), whose entries are multiplied by factors (d, m); of features in groups, those
        of the groups."""
        return self.norm(1.0, np.inf, factors, groups=groups).row_norms(W)

    def describes(self, surface: Any) -> bool:
        return isinstance(surface, self.kind) or isinstance(getattr(surface, "grid", None), self.kind)


def number(value: float) -> str:
    return f"{value:.4g}" if value >= 1000 else f"{value:.3g}"


def columns_of_thetas(model: Any) -> int:
    return int(model.thetas_.shape[1])
