"""Scores of a grid's points, by fold, from errors on held-out samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._data.designs import AnyData, Floats, TargetSums
from ..._data.tables import names_of, warn_user
from ..._data.task_data import TaskData
from .errors import HeldOut
from .scorers import Scoring


def fold_scores(held_out: HeldOut, data: AnyData, scoring: Scoring) -> Floats:
    """(folds, K, L), greater is better: a scorer's, or the error averaged over tasks with the weights held out."""
    if held_out.scores is not None:
        return held_out.scores  # where a solution is not complete, too: who chooses must look
    assert isinstance(scoring, str)
    scale = np.array([_scale(target, scoring) for target in to_explain(data)])
    if (scale == 0).any():
        flat = data.labels[scale == 0].tolist()
        everything = len(flat) == data.m
        warn_user(
            f"the targets of task(s) {names_of(flat)} are {'all 0' if scoring == 'neg_amse' else 'constant'}: "
            f"{scoring[4:]} is undefined there. {'Scored by neg_mse.' if everything else 'They are left out of the score.'}"
        )
    scale = error_scales(data, scoring)
    total = held_out.weight @ (scale > 0)
    if (total == 0).any():
        raise ValueError(
            f"fold {int(np.argmin(total))} holds out only tasks whose targets are constant. Use scoring='neg_mse'."
        )
    return -mean_errors(held_out.mse, held_out.weight, scale)


def mean_errors(mse: Floats, weight: Floats, scale: Floats) -> Floats:
    """(..., K, L): errors (..., m, K, L) over their scales (m,), averaged over tasks by the weights held out (..., m). Tasks
    whose scale is 0 do not count; 0 if none does."""
    counts = np.where(scale > 0, weight, 0.0)
    total = counts.sum(axis=-1)
    with np.errstate(over="ignore"):  # an error beyond the range of floats is infinite, and is not chosen
        error = np.nan_to_num(mse) / np.where(scale > 0, scale, 1.0)[:, None, None]
    out: Floats = np.einsum("...i,...ikl->...kl", counts, error) / np.where(total > 0, total, 1.0)[..., None, None]
    return out


def error_scales(data: AnyData, scoring: str) -> Floats:
    """(m,): what the tasks' squared errors are divided by. 0 where that is undefined, unless it is so everywhere: then 1."""
    scale = np.array([_scale(target, scoring) for target in to_explain(data)])
    return scale if scale.any() else np.ones_like(scale)


def to_explain(data: AnyData) -> Sequence[TargetSums]:
    """The targets that errors are relative to: less the offset, where there is one that can be subtracted from them."""
    return data.to_explain if isinstance(data, TaskData) else data.targets


def _scale(target: TargetSums, scoring: str) -> float:
    """Of one task: its variance or mean square over all rows."""
    return {"neg_nmse": target.variance, "neg_amse": target.square}.get(scoring, 1.0)
