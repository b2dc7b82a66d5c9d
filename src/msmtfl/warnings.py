"""Warnings of the package, to be filtered by their class."""

from ._data.copies import RepeatedSamplesWarning
from ._estimators.base import NewTaskWarning, TaskLevelWarning
from ._paths.choice import TooGoodWarning

__all__ = ["NewTaskWarning", "RepeatedSamplesWarning", "TaskLevelWarning", "TooGoodWarning"]
