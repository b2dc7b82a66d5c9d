"""Warnings of the package, to be filtered by their class."""

from ._data.copies import RepeatedSamplesWarning
from ._estimators.fitted import NewTaskWarning, TaskLevelWarning
from ._estimators.intervals import SmallTaskWarning
from ._paths.validation.remarks import GridEndWarning
from ._paths.validation.too_good import TooGoodWarning

__all__ = [
    "GridEndWarning",
    "NewTaskWarning",
    "RepeatedSamplesWarning",
    "SmallTaskWarning",
    "TaskLevelWarning",
    "TooGoodWarning",
]
