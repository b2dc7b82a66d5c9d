"""Pictures of fitted models, searches and comparisons, with matplotlib."""

from .displays import (
    CoefficientMapDisplay,
    GainDisplay,
    PathDisplay,
    RowNormDisplay,
    StabilityMapDisplay,
    StageHistoryDisplay,
    SurfaceDisplay,
    TaskSimilarityDisplay,
)

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
