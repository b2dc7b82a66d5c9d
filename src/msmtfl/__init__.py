"""Sparse linear models for many related tasks: multi-stage multi-task feature learning with certificates."""

from ._runtime import interrupt as _interrupt  # noqa: F401 (first: what follows takes seconds)

# isort: split
from ._data.folds import TaskKFold
from ._data.moments import Moments
from ._data.tasks import stack_tasks
from ._estimators.classifier import MSMTFLClassifier, MSMTFLClassifierCV
from ._estimators.dirty import DirtyMTL, DirtyMTLCV
from ._estimators.l12 import L12MTL, L12MTLCV
from ._estimators.msmtfl import MSMTFL, LassoMTL
from ._estimators.pooling import PartialPooling, PartialPoolingCV
from ._estimators.search import MSMTFLCV, LassoMTLCV
from ._estimators.shared import SharedMTL, SharedMTLCV
from ._paths.solve import regularization_surface
from .compare.auto import MultiTaskAuto, MultiTaskAutoClassifier
from .compare.run import compare_models
from .inference import (
    bootstrap_intervals,
    debiased_intervals,
    shared_features,
    split_intervals,
    stability_selection,
)

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
    "PartialPooling",
    "PartialPoolingCV",
    "SharedMTL",
    "SharedMTLCV",
    "TaskKFold",
    "bootstrap_intervals",
    "compare_models",
    "debiased_intervals",
    "regularization_surface",
    "shared_features",
    "split_intervals",
    "stability_selection",
    "stack_tasks",
]
