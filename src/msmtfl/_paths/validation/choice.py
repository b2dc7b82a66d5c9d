"""Which point of a grid is chosen, from its scores over folds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ..._data.designs import Floats, Ints
from ..searched import Searched, fold_scores_of, strengths_in

EQUAL = 1e-12  # relative difference of scores that is rounding


class Points(Protocol):
    """What a choice looks at beside scores, everything (K, L)."""

    @property
    def parameters(self) -> dict[str, Floats]:
        """The strengths of the penalty, by name."""

    @property
    def n_rows(self) -> Ints:
        """How many rows of W are not 0."""

    @property
    def n_entries(self) -> Ints:
        """How many entries of W are not 0."""


def standard_errors(scores: Floats) -> Floats:
    """(K, L) of the mean over folds; 0 with a single fold."""
    folds = len(scores)
    with np.errstate(over="ignore", invalid="ignore"):  # of infinite scores: NaN
        return scores.std(axis=0, ddof=1) / np.sqrt(folds) if folds > 1 else np.zeros(scores.shape[1:])


def choose(scores: Floats, grid: Points, selection: str) -> tuple[int, int]:
    """The point with the best mean score, or ("1se") the simplest within one standard error of it. Points without a score
    (NaN in some fold) are not eligible.

    Simplest: fewest non-zero rows, then fewest entries, then the largest lam (lam_b); so are ties broken, scores that differ
    by no more than rounding being one.
    """
    mean = scores.mean(axis=0)
    mean = np.where(np.isnan(mean), -np.inf, mean)
    if np.isneginf(mean).all():
        raise ValueError(
            "no point of the grid has a score: at each of them, in some fold, the score is NaN, or the solver did not end, "
            "or the model would leave more features un-penalised than there are samples, or features without a penalty "
            "separate the classes of a task. Use fewer, larger folds, larger values of theta or lam, more iterations, or "
            "another scoring; penalise features that separate classes."
        )
    best = np.unravel_index(int(np.argmax(mean)), mean.shape)
    slack = float(standard_errors(scores)[best]) if selection == "1se" else EQUAL * abs(mean[best])
    with np.errstate(over="ignore"):  # counts predicted next to the end of the range of floats
        return _simplest(grid, mean >= mean[best] - slack)


def _simplest(grid: Points, eligible: np.ndarray) -> tuple[int, int]:
    at = np.argwhere(eligible)
    k, l = at.T
    strengths = [values[k, l] for values in grid.parameters.values()]
    order = simplest_first(grid.n_rows[k, l], grid.n_entries[k, l], strengths)
    return int(at[order[0], 0]), int(at[order[0], 1])


def simplest_first(n_rows: Ints, n_entries: Ints, strengths: Sequence[Floats]) -> Ints:
    """The order of points, all given as (P,): fewest non-zero rows, then fewest entries, then the largest strengths."""
    return np.lexsort((*(-values for values in reversed(strengths)), n_entries, n_rows))


def in_order(model: Searched) -> Ints:
    """The places in `cv_results_` of the points that have a score in every fold, the simplest first."""
    results = model.cv_results_
    known = np.flatnonzero(np.isfinite(fold_scores_of(model)).all(axis=0))
    strengths = [values[known] for values in strengths_in(results).values()]
    return known[simplest_first(results["n_rows"][known], results["n_entries"][known], strengths)]


def choose_simplest(scores: Floats, selection: str) -> Ints:
    """(...,): what `choose` would take for scores (folds, ..., P) of points that are in order, the simplest first."""
    mean = scores.mean(axis=0)
    best = np.argmax(mean, axis=-1)[..., None]
    top = np.take_along_axis(mean, best, axis=-1)
    slack = np.take_along_axis(standard_errors(scores), best, axis=-1) if selection == "1se" else EQUAL * np.abs(top)
    return np.asarray(np.argmax(mean >= top - slack, axis=-1))
