"""Pictures of fitted models, searches and comparisons, with matplotlib."""

from .grids import GainDisplay, PathDisplay, SurfaceDisplay
from .maps import CoefficientMapDisplay, StabilityMapDisplay, TaskSimilarityDisplay
from .stages import RowNormDisplay, StageHistoryDisplay

__all__ = [
    "CoefficientMapDisplay",
    "GainDisplay",
    "PathDisplay",
    "RowNormDisplay",
    "StabilityMapDisplay",
    "StageHistoryDisplay",
    "SurfaceDisplay",
    "TaskSimilarityDisplay",
]
