"""Sparse linear models for many related tasks: multi-stage multi-task feature learning with certificates.

A public name is imported when it is first asked for: `import msmtfl` alone costs next to nothing.
"""

from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import TYPE_CHECKING

from ._runtime import interrupt as _interrupt  # noqa: F401 (first: what is imported later takes seconds)

if TYPE_CHECKING:
    from ._data.folds import TaskKFold
    from ._data.moments import Moments
    from ._data.tasks import stack_tasks
    from ._estimators.classifier import MSMTFLClassifier, MSMTFLClassifierCV
    from ._estimators.dirty import DirtyMTL, DirtyMTLCV
    from ._estimators.dirty_classifier import DirtyMTLClassifier, DirtyMTLClassifierCV
    from ._estimators.l12 import L12MTL, L12MTLCV
    from ._estimators.l12_classifier import L12MTLClassifier, L12MTLClassifierCV
    from ._estimators.msmtfl import MSMTFL, LassoMTL
    from ._estimators.pooling import PartialPooling, PartialPoolingCV
    from ._estimators.pooling_classifier import PartialPoolingClassifier, PartialPoolingClassifierCV
    from ._estimators.pretrained import PretrainedMTL, PretrainedMTLCV
    from ._estimators.search import MSMTFLCV, LassoMTLCV
    from ._estimators.shared import SharedMTL, SharedMTLCV
    from ._estimators.shared_classifier import SharedMTLClassifier, SharedMTLClassifierCV
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

__version__ = _Path(__file__).with_name("VERSION").read_text(encoding="utf-8").strip()

__all__ = [
    "L12MTL",
    "L12MTLCV",
    "MSMTFL",
    "MSMTFLCV",
    "DirtyMTL",
    "DirtyMTLCV",
    "DirtyMTLClassifier",
    "DirtyMTLClassifierCV",
    "L12MTLClassifier",
    "L12MTLClassifierCV",
    "LassoMTL",
    "LassoMTLCV",
    "MSMTFLClassifier",
    "MSMTFLClassifierCV",
    "Moments",
    "MultiTaskAuto",
    "MultiTaskAutoClassifier",
    "PartialPooling",
    "PartialPoolingCV",
    "PartialPoolingClassifier",
    "PartialPoolingClassifierCV",
    "PretrainedMTL",
    "PretrainedMTLCV",
    "SharedMTL",
    "SharedMTLCV",
    "SharedMTLClassifier",
    "SharedMTLClassifierCV",
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

_MODULES = {  # of each public name: the module that has it
    "TaskKFold": "_data.folds",
    "Moments": "_data.moments",
    "stack_tasks": "_data.tasks",
    "MSMTFLClassifier": "_estimators.classifier",
    "MSMTFLClassifierCV": "_estimators.classifier",
    "DirtyMTL": "_estimators.dirty",
    "DirtyMTLCV": "_estimators.dirty",
    "DirtyMTLClassifier": "_estimators.dirty_classifier",
    "DirtyMTLClassifierCV": "_estimators.dirty_classifier",
    "L12MTL": "_estimators.l12",
    "L12MTLCV": "_estimators.l12",
    "L12MTLClassifier": "_estimators.l12_classifier",
    "L12MTLClassifierCV": "_estimators.l12_classifier",
    "MSMTFL": "_estimators.msmtfl",
    "LassoMTL": "_estimators.msmtfl",
    "PartialPooling": "_estimators.pooling",
    "PartialPoolingCV": "_estimators.pooling",
    "PartialPoolingClassifier": "_estimators.pooling_classifier",
    "PartialPoolingClassifierCV": "_estimators.pooling_classifier",
    "PretrainedMTL": "_estimators.pretrained",
    "PretrainedMTLCV": "_estimators.pretrained",
    "MSMTFLCV": "_estimators.search",
    "LassoMTLCV": "_estimators.search",
    "SharedMTL": "_estimators.shared",
    "SharedMTLCV": "_estimators.shared",
    "SharedMTLClassifier": "_estimators.shared_classifier",
    "SharedMTLClassifierCV": "_estimators.shared_classifier",
    "regularization_surface": "_paths.solve",
    "MultiTaskAuto": "compare.auto",
    "MultiTaskAutoClassifier": "compare.auto",
    "compare_models": "compare.run",
    "bootstrap_intervals": "inference",
    "debiased_intervals": "inference",
    "shared_features": "inference",
    "split_intervals": "inference",
    "stability_selection": "inference",
}
_PUBLIC_MODULES = (
    "baselines",
    "certificates",
    "compare",
    "comparison",
    "copies",
    "datasets",
    "evidence",
    "experiments",
    "export",
    "formulas",
    "inference",
    "metrics",
    "model_files",
    "optimum",
    "plots",
    "sharing",
    "surface",
    "tables",
    "theory",
    "warnings",
)

if not TYPE_CHECKING:  # type checkers read the imports above

    def __getattr__(name):
        if name in _MODULES:
            value = getattr(_import_module(f".{_MODULES[name]}", __name__), name)
        elif name in _PUBLIC_MODULES:
            value = _import_module(f".{name}", __name__)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__, *_PUBLIC_MODULES})
