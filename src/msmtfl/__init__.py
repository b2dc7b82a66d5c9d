"""Sparse linear models for many related tasks: multi-stage multi-task feature learning with certificates."""

from . import _interrupt  # noqa: F401 (first: what follows takes seconds)
from .auto import MultiTaskAuto, MultiTaskAutoClassifier
from .classification import MSMTFLClassifier, MSMTFLClassifierCV
from .contest import compare_models
from .coupled import L12MTL, L12MTLCV, DirtyMTL, DirtyMTLCV
from .estimators import MSMTFL, LassoMTL
from .folds import TaskKFold
from .inference import bootstrap_intervals, stability_selection
from .model_selection import MSMTFLCV, LassoMTLCV
from .moments import Moments
from .shared import SharedMTL, SharedMTLCV
from .tasks import stack_tasks
from .walk import regularization_surface

__version__ = "0.1.0"

__all__ = [
    "L12MTL",
    "L12MTLCV",
    "MSMTFL",
    "MSMTFLCV",
    "DirtyMTL",
    "DirtyMTLCV",
    "LassoMTL",
    "LassoMTLCV",
    "MSMTFLClassifier",
    "MSMTFLClassifierCV",
    "Moments",
    "MultiTaskAuto",
    "MultiTaskAutoClassifier",
    "SharedMTL",
    "SharedMTLCV",
    "TaskKFold",
    "bootstrap_intervals",
    "compare_models",
    "regularization_surface",
    "stability_selection",
    "stack_tasks",
]
