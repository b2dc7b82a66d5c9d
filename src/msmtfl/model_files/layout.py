"""What a file of a model holds: its keys, the classes there are, and what each must have."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._estimators.families import Family, known_families, known_strengths

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

PREDICTING = ("coef_", "intercept_")
LINEAR = ("tasks_", "features_", "n_features_in_", *PREDICTING)
FITTING = ("lam_max_", "objective_", "dual_gap_", "n_stages_", "n_iter_", "converged_", "stopping_reason_")
TARGETS = ("n_samples_", "target_mean_", "target_sd_", "n_fitted_tasks_")
STAGED = (*LINEAR, *TARGETS, "row_norms_", "row_slopes_", "feature_importances_", *FITTING)
SEARCH = (*STAGED, "cv_results_", "best_point_", "best_index_", "best_score_", "n_splits_")
PLACES = "constant_at_"  # of the cells that are False in learnable_
HELD_OUT = "held_out_"
APART = ("stages_", "certificate_", "provenance_", "moments_")  # attributes that have keys of their own, or stay behind
LAM_MAX = "lam_max_"
LARGEST = 1e150  # of coefficients: products with features beyond it leave the range of floats
TYPES: dict[str, type] = {
    **dict.fromkeys((LAM_MAX, "objective_", "dual_gap_", "best_score_", "l1_ratio_"), float),
    **dict.fromkeys(("n_features_in_", "n_fitted_tasks_", "n_stages_", "n_iter_", "n_splits_", "best_index_"), int),
    "converged_": bool,
    "uses_offset_": bool,
    "stopping_reason_": str,
}


def stored_models() -> dict[str, tuple[type[BaseEstimator], tuple[str, ...]]]:
    """The only classes that files hold, by name, and the attributes that each needs."""
    return {
        cls.__name__: (cls, (*_of_all(family, cls), *family.attributes(cls)))
        for family in known_families()
        for cls in family.classes
    }


def _of_all(family: Family, cls: type) -> tuple[str, ...]:
    if not family.staged:
        return LINEAR
    needed = SEARCH if issubclass(cls, family.search) else STAGED
    return needed if family.has_largest else tuple(name for name in needed if name != LAM_MAX)


def types_of_attributes() -> dict[str, type]:
    """The attributes that are numbers, flags or texts."""
    return TYPES | {one.attribute: float for one in known_strengths()}


def finite_attributes() -> set[str]:
    """Numbers that cannot be inf."""
    return {"intercept_", LAM_MAX, *(one.attribute for one in known_strengths() if not one.may_be_inf)}


def beyond_range(key: str, values: Any, tasks: Any) -> str:
    """Of coefficients or intercepts, those of a task after the other, what keeps them from predicting numbers; empty if
    nothing does."""
    by_task = np.reshape(values, (len(tasks), -1))
    bad = np.argwhere(~(np.abs(by_task) <= LARGEST))
    if not bad.size:
        return ""
    i, value = tasks.tolist()[bad[0, 0]], by_task[tuple(bad[0])]
    what = f"beyond {LARGEST:.0e}" if np.isfinite(value) else "not finite"
    return f"{key} is {what}: task {i!r} has {value:.3g} there, from which nothing can be predicted"


def scalar_fields(cls: Any) -> dict[str, type]:
    """The fields of a dataclass that are numbers or flags."""
    kinds: dict[Any, type] = {"int": int, "float": float, "bool": bool}
    return {field.name: kinds[field.type] for field in fields(cls) if field.type in kinds}


def is_shaped(name: str) -> bool:
    """Whether a reader knows the shape of an attribute: only these are stored sparse."""
    return name.startswith("coef_") or name in ("row_norms_", "row_slopes_", "feature_importances_")
