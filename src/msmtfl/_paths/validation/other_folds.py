"""Held-out errors at points that the rows held out had no part in choosing.

A search takes the best of hundreds of points on some folds, so its score there is better than on new data, by as much as
chance could find. Here each fold is scored at the point that the other folds choose, which costs nothing more than the
search. (What it leaves in: the models that the other folds score were trained on the fold, too.)
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..._data.designs import Floats, Ints
from ..searched import Searched, cross_fits, fold_scores_of, strengths_in
from .choice import choose

OVER_RATIOS = "cross_fitted_score"  # the column of `cv_results_` that says so where several l1_ratios were tried


def points_without(model: Searched, among: Ints | None = None) -> Ints:
    """(folds,): for each fold the place in `cv_results_` of the point that the other folds choose, by the model's own rule;
    `among` some of the points, or all."""
    results, scores = model.cv_results_, fold_scores_of(model)
    if among is not None:
        outside = np.ones(scores.shape[1], dtype=bool)
        outside[among] = False
        scores[:, outside] = np.nan
    grid: Any = SimpleNamespace(
        parameters={name: values[None] for name, values in strengths_in(results).items()},
        n_rows=results["n_rows"][None],
        n_entries=results["n_entries"][None],
    )
    rest = (np.delete(scores, f, axis=0)[:, None] for f in range(len(scores)))
    return np.array([choose(part, grid, model.selection)[1] for part in rest])


def cross_fitted_score(model: Searched) -> float:
    """The mean score of the folds, each at the point that the others choose."""
    if not cross_fits(model):
        raise AttributeError(
            f"this {type(model).__name__} has no cross_fitted_score_: that takes a search with at least two folds."
        )
    known = model.cv_results_.get(OVER_RATIOS)  # of several l1_ratios `cv_results_` has one only
    return float(np.mean(_at_points_of_others(model)[1]) if known is None else known[0])


def cross_fitted_over(searches: Sequence[Searched]) -> float:
    """The same where the folds choose among several searches on the same folds as well: each fold is scored in the search,
    and at the point, that the others choose."""
    found = [_at_points_of_others(one) for one in searches]
    of_others, of_fold = np.array([one[0] for one in found]), np.array([one[1] for one in found])  # (searches, folds)
    return float(np.mean(of_fold[np.argmax(of_others, axis=0), np.arange(of_fold.shape[1])]))


def _at_points_of_others(model: Searched) -> tuple[Floats, Floats]:
    """(folds,) each: the best mean score of the others, and that of the fold at the point that they choose."""
    scores, places = fold_scores_of(model), points_without(model)
    mean = (scores.sum(axis=0) - scores) / (len(scores) - 1)
    return np.where(np.isfinite(mean), mean, -np.inf).max(axis=1), scores[np.arange(len(scores)), places]
