"""What a file of a model holds: its keys, the classes there are, and what each must have."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from typing import Any

from .._estimators.base import MultiTaskModel
from .._estimators.baselines import LogisticPerTaskCV, PooledLassoCV, PooledLogisticCV, PooledRidgeCV, RidgePerTaskCV
from .._estimators.classifier import MSMTFLClassifier, MSMTFLClassifierCV
from .._estimators.coupled import L12MTL, L12MTLCV, DirtyMTL, DirtyMTLCV
from .._estimators.msmtfl import MSMTFL, LassoMTL
from .._estimators.search import MSMTFLCV, LassoMTLCV
from .._estimators.shared import SharedMTL, SharedMTLCV

FORMAT, VERSION = "msmtfl-model", 1
DOCUMENT = "model.json"
INLINE = 64  # arrays of more numbers than this are members of the archive
WIDE = 2**28  # characters that an array of text may take in memory
KEY = re.compile(r"\w+", re.ASCII)
ATTRIBUTE = re.compile(r"[a-z]\w*_", re.ASCII)

Node = Any  # what json makes of a value
Shape = tuple[int, ...]
SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
ENTRIES: dict[str, set[type]] = {  # what stands in JSON for the entries of an array, by dtype
    "bool": {bool},
    **{f"{kind}{8 * size}": {int} for kind in ("int", "uint") for size in (1, 2, 4, 8)},
    **{f"float{8 * size}": {float, int, str} for size in (2, 4, 8)},
}

LINEAR = ("tasks_", "features_", "n_features_in_", "coef_", "intercept_")
FITTING = ("lam_max_", "objective_", "dual_gap_", "n_stages_", "n_iter_", "converged_", "stopping_reason_")
TARGETS = ("n_samples_", "target_mean_", "target_sd_", "n_fitted_tasks_")
STAGED = (*LINEAR, *TARGETS, "row_norms_", "row_slopes_", "feature_importances_", *FITTING)
SEARCH = (*STAGED, "cv_results_", "best_point_", "best_index_", "best_score_", "n_splits_")
BILEVEL = ("lam_", "theta_", "lam_entry_", "theta_entry_")
DIRTY = ("lam_s_", "lam_b_", "coef_specific_", "coef_shared_")
SHARED = ("lam_common_", "lam_deviation_", "theta_", "coef_common_", "coef_deviation_")
MODELS: dict[str, tuple[type[MultiTaskModel], tuple[str, ...]]] = {  # the only classes there are, and what they need
    "MSMTFL": (MSMTFL, (*STAGED, *BILEVEL)),
    "MSMTFLCV": (MSMTFLCV, (*SEARCH, *BILEVEL, "lams_", "thetas_")),
    "MSMTFLClassifier": (MSMTFLClassifier, (*STAGED, *BILEVEL, "classes_")),
    "MSMTFLClassifierCV": (MSMTFLClassifierCV, (*SEARCH, *BILEVEL, "lams_", "thetas_", "classes_")),
    "LassoMTL": (LassoMTL, (*STAGED, "lam_")),
    "LassoMTLCV": (LassoMTLCV, (*SEARCH, "lam_", "lams_", "thetas_")),
    "L12MTL": (L12MTL, (*STAGED, "lam_", "theta_")),
    "L12MTLCV": (L12MTLCV, (*SEARCH, "lam_", "lams_")),
    "DirtyMTL": (DirtyMTL, (*STAGED, *DIRTY)),
    "DirtyMTLCV": (DirtyMTLCV, (*SEARCH, *DIRTY)),
    "SharedMTL": (SharedMTL, (*STAGED, *SHARED)),
    "SharedMTLCV": (SharedMTLCV, (*SEARCH, *SHARED, "thetas_")),
    "RidgePerTaskCV": (RidgePerTaskCV, LINEAR),
    "PooledRidgeCV": (PooledRidgeCV, LINEAR),
    "PooledLassoCV": (PooledLassoCV, LINEAR),
    "LogisticPerTaskCV": (LogisticPerTaskCV, (*LINEAR, "classes_")),
    "PooledLogisticCV": (PooledLogisticCV, (*LINEAR, "classes_")),
}
STRENGTHS = ("lam_", "lam_s_", "lam_b_", "lam_max_")
PLACES = "constant_at_"  # of the cells that are False in learnable_
APART = ("stages_", "certificate_", "provenance_", "moments_")  # attributes that have keys of their own, or stay behind
TYPES: dict[str, type] = {
    **dict.fromkeys(
        (*STRENGTHS, *SHARED[:3], "lam_entry_", "theta_entry_", "objective_", "dual_gap_", "best_score_"), float
    ),
    **dict.fromkeys(("n_features_in_", "n_fitted_tasks_", "n_stages_", "n_iter_", "n_splits_", "best_index_"), int),
    "converged_": bool,
    "stopping_reason_": str,
}


def scalar_fields(cls: Any) -> dict[str, type]:
    """The fields of a dataclass that are numbers or flags."""
    kinds: dict[Any, type] = {"int": int, "float": float, "bool": bool}
    return {field.name: kinds[field.type] for field in fields(cls) if field.type in kinds}


def is_shaped(name: str) -> bool:
    """Whether a reader knows the shape of an attribute: only these are stored sparse."""
    return name.startswith("coef_") or name in ("row_norms_", "row_slopes_", "feature_importances_")
