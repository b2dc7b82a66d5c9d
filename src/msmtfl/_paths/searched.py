"""What a fitted search holds of its folds."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Protocol

import numpy as np

from .._data.designs import Floats


class Searched(Protocol):
    """A fitted model that has searched a grid by cross-validation."""

    n_splits_: int
    cv_results_: Mapping[str, np.ndarray]
    selection: str


def fold_scores_of(model: Searched) -> Floats:
    """(folds, P): scores of the points of a fitted CV model's grid, greater is better."""
    columns = (f"split{f}_test_score" for f in range(model.n_splits_))
    return np.array([model.cv_results_[name] for name in columns])


def strengths_in(results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The columns of `cv_results_` that are the `parameters` of a surface, in their order: those before the sizes of the
    models, but for ratios, which only say the same in other units."""
    names = takewhile(lambda name: name != "n_rows", results)
    return {name: results[name] for name in names if not name.endswith("ratio")}


def cross_fits(model: object) -> bool:
    """Whether a model has folds of which each can be scored at a point that others chose."""
    return getattr(model, "n_splits_", 0) > 1 and "split0_test_score" in getattr(model, "cv_results_", {})
