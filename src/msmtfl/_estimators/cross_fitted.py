"""Predictions of the samples that folds hold out, each fold at the point that the other folds choose: of losses whose errors
a search does not measure beside those that it chooses by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._data.designs import Floats, Ints
from .._data.task_data import TaskData
from .._paths.early_stopping import FoldRun
from .._paths.searched import cross_fits
from .._paths.validation.other_folds import points_without
from .families import grid_words


def lasso_points(model: Any) -> Ints:
    """The points of a CV model's grid at which it is separate lassos; there may be none."""
    return np.flatnonzero(grid_words(model).lassos(model.cv_results_, len(model.tasks_)))


def cross_fitted(model: Any, data: TaskData, folds: Sequence[FoldRun], width: int) -> tuple[Floats, ...] | None:
    """Per task (2, n): linear predictors of samples held out, at the points that the other folds choose of the grid and of
    its lassos; NaN where there are none, and of samples that no fold holds out. `width`: columns of the grid."""
    if not cross_fits(model):
        return None
    lassos = lasso_points(model)
    some = 0 < lassos.size < len(model.cv_results_["mean_test_score"])
    points = [points_without(model), points_without(model, lassos) if some else None]
    out = tuple(np.full((2, len(task.rows)), np.nan) for task in data.tasks)
    for k, chosen in enumerate(points):
        for fold, point in zip(folds, [] if chosen is None else chosen.tolist(), strict=False):
            fit = fold.fit_at(*divmod(point, width))
            if fit is None:
                return None
            for i, task in enumerate(data.tasks):
                rows = np.flatnonzero(fit.test[task.rows])
                out[i][k, rows] = task.X[rows] @ fit.coef[i] + fit.intercept[i]
                if task.offset is not None:
                    out[i][k, rows] += task.offset[rows]
    return out
