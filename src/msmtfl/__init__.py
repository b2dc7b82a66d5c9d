"""Sparse linear models for many related tasks: multi-stage multi-task feature learning with certificates.

A public name is imported when it is first asked for: `import msmtfl` alone costs next to nothing.
"""

from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import TYPE_CHECKING

from ._runtime import interrupt as _interrupt  # noqa: F401 (first: what is imported later takes seconds)

if TYPE_CHECKING:
    from ._data.folds import TaskKFold
    from ._data.level_folds import LeaveTasksOut
    from ._data.small_tasks import enough_samples
    from ._data.statistics.moments import Moments
    from ._data.tasks import stack_tasks
    from ._estimators.dirty.classifiers import DirtyMTLClassifier, DirtyMTLClassifierCV
    from ._estimators.dirty.fit import DirtyMTL
    from ._estimators.dirty.search import DirtyMTLCV
    from ._estimators.l12.classifiers import L12MTLClassifier, L12MTLClassifierCV
    from ._estimators.l12.fit import L12MTL
    from ._estimators.l12.search import L12MTLCV
    from ._estimators.lasso.fit import LassoMTL
    from ._estimators.lasso.search import LassoMTLCV
    from ._estimators.msmtfl.classifier_search import MSMTFLClassifierCV
    from ._estimators.msmtfl.classifiers import MSMTFLClassifier
    from ._estimators.msmtfl.fit import MSMTFL
    from ._estimators.msmtfl.search import MSMTFLCV
    from ._estimators.nested.classifiers import NestedMTLClassifier, NestedMTLClassifierCV
    from ._estimators.nested.fit import NestedMTL
    from ._estimators.nested.search import NestedMTLCV
    from ._estimators.pooling.classifiers import PartialPoolingClassifier, PartialPoolingClassifierCV
    from ._estimators.pooling.fit import PartialPooling
    from ._estimators.pooling.search import PartialPoolingCV
    from ._estimators.pretrained.fit import PretrainedMTL
    from ._estimators.pretrained.search import PretrainedMTLCV
    from ._estimators.robust.fit import RobustMTL
    from ._estimators.robust.search import RobustMTLCV
    from ._estimators.shared.classifiers import SharedMTLClassifier, SharedMTLClassifierCV
    from ._estimators.shared.fit import SharedMTL
    from ._estimators.shared.search import SharedMTLCV
    from ._paths.solve import regularization_surface
    from .compare.auto import MultiTaskAuto, MultiTaskAutoClassifier
    from .compare.run import compare_models
    from .compare.sources import which_tasks_help
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
    "LeaveTasksOut",
    "MSMTFLClassifier",
    "MSMTFLClassifierCV",
    "Moments",
    "MultiTaskAuto",
    "MultiTaskAutoClassifier",
    "NestedMTL",
    "NestedMTLCV",
    "NestedMTLClassifier",
    "NestedMTLClassifierCV",
    "PartialPooling",
    "PartialPoolingCV",
    "PartialPoolingClassifier",
    "PartialPoolingClassifierCV",
    "PretrainedMTL",
    "PretrainedMTLCV",
    "RobustMTL",
    "RobustMTLCV",
    "SharedMTL",
    "SharedMTLCV",
    "SharedMTLClassifier",
    "SharedMTLClassifierCV",
    "TaskKFold",
    "bootstrap_intervals",
    "compare_models",
    "debiased_intervals",
    "enough_samples",
    "regularization_surface",
    "shared_features",
    "split_intervals",
    "stability_selection",
    "stack_tasks",
    "which_tasks_help",
]

_MODULES = {  # of each public name: the module that has it
    "LeaveTasksOut": "_data.level_folds",
    "TaskKFold": "_data.folds",
    "enough_samples": "_data.small_tasks",
    "Moments": "_data.statistics.moments",
    "stack_tasks": "_data.tasks",
    "MSMTFLClassifier": "_estimators.msmtfl.classifiers",
    "MSMTFLClassifierCV": "_estimators.msmtfl.classifier_search",
    "DirtyMTL": "_estimators.dirty.fit",
    "DirtyMTLCV": "_estimators.dirty.search",
    "DirtyMTLClassifier": "_estimators.dirty.classifiers",
    "DirtyMTLClassifierCV": "_estimators.dirty.classifiers",
    "L12MTL": "_estimators.l12.fit",
    "L12MTLCV": "_estimators.l12.search",
    "L12MTLClassifier": "_estimators.l12.classifiers",
    "L12MTLClassifierCV": "_estimators.l12.classifiers",
    "MSMTFL": "_estimators.msmtfl.fit",
    "LassoMTL": "_estimators.lasso.fit",
    "PartialPooling": "_estimators.pooling.fit",
    "PartialPoolingCV": "_estimators.pooling.search",
    "PartialPoolingClassifier": "_estimators.pooling.classifiers",
    "PartialPoolingClassifierCV": "_estimators.pooling.classifiers",
    "PretrainedMTL": "_estimators.pretrained.fit",
    "PretrainedMTLCV": "_estimators.pretrained.search",
    "NestedMTL": "_estimators.nested.fit",
    "NestedMTLCV": "_estimators.nested.search",
    "NestedMTLClassifier": "_estimators.nested.classifiers",
    "NestedMTLClassifierCV": "_estimators.nested.classifiers",
    "RobustMTL": "_estimators.robust.fit",
    "RobustMTLCV": "_estimators.robust.search",
    "MSMTFLCV": "_estimators.msmtfl.search",
    "LassoMTLCV": "_estimators.lasso.search",
    "SharedMTL": "_estimators.shared.fit",
    "SharedMTLCV": "_estimators.shared.search",
    "SharedMTLClassifier": "_estimators.shared.classifiers",
    "SharedMTLClassifierCV": "_estimators.shared.classifiers",
    "regularization_surface": "_paths.solve",
    "MultiTaskAuto": "compare.auto",
    "MultiTaskAutoClassifier": "compare.auto",
    "compare_models": "compare.run",
    "which_tasks_help": "compare.sources",
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
