"""Sparse linear models for many related tasks: multi-stage multi-task feature learning with certificates."""

from .estimators import MSMTFL, LassoMTL
from .model_selection import TaskKFold
from .tasks import stack_tasks

__version__ = "0.1.0"

__all__ = ["MSMTFL", "LassoMTL", "TaskKFold", "stack_tasks"]
