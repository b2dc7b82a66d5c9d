"""What the tools of this room share: which models they take, halves of the samples, tables of entries."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .._data.copies import groups_of
from .._data.tasks import TaskData
from .._estimators.base import MultiTaskLinear, model_chosen
from .._runtime.checks import check_flag, check_n_jobs

TRIES = 100  # to draw halves of the rows such that every task has some in both


class OfEntries(Protocol):
    """A result whose arrays are (m, d)."""

    @property
    def tasks(self) -> np.ndarray: ...

    @property
    def features(self) -> np.ndarray: ...


def checked_model(model: Any, n_jobs: Any, verbose: Any) -> Any:
    """The model that is meant; of a fitted MultiTaskAuto the one that it chose."""
    model = model_chosen(model)
    if hasattr(model, "predict_proba"):
        raise TypeError(f"{type(model).__name__} is a classifier; half-samples and intervals are of regressions only.")
    if not isinstance(model, MultiTaskLinear):
        raise TypeError(f"give a model such as MSMTFL(), not {type(model).__name__}; of a Pipeline, its last step.")
    if not hasattr(model, "penalty_factors"):
        way = " Fit it first: then the model that it chooses is meant." if hasattr(model, "models") else ""
        raise TypeError(f"give a model with a sparse penalty, such as MSMTFL(), not {type(model).__name__}.{way}")
    check_n_jobs(n_jobs)
    check_flag("verbose", verbose)
    return model


def draw_halves(data: TaskData, groups: Any, n_pairs: int, random: np.random.RandomState) -> list[np.ndarray]:
    """n_pairs random halves of the rows, (N,) bool, each followed by its complement; every task has rows in both.

    Rows (or groups) that belong to the same set of tasks are shuffled and dealt out in turn, set after set in random
    order. (Folds balanced with more care leave little to chance where such sets are small or groups differ in size.)
    """
    unit = np.arange(data.X.shape[0])
    if groups is not None:
        unit = np.unique(groups_of(groups, data.X), return_inverse=True)[1].ravel()
    sets = np.zeros((unit.max() + 1, data.m), dtype=bool)
    np.logical_or.at(sets, unit, data.membership)
    stratum = np.unique(sets, axis=0, return_inverse=True)[1].ravel()
    out: list[np.ndarray] = []
    for _ in range(TRIES * n_pairs):
        order = np.lexsort((random.permutation(len(sets)), random.permutation(stratum.max() + 1)[stratum]))
        half = np.argsort(order) % 2 == 0
        if (sets[half].any(axis=0) & sets[~half].any(axis=0)).all():
            out += [half[unit], ~half[unit]]
        if len(out) == 2 * n_pairs:
            return out
    i = int(np.argmin(sets.sum(axis=0)))
    size = f"{int(sets[:, i].sum())} {'row' if groups is None else 'group'}(s)"
    raise ValueError(f"task {data.labels.tolist()[i]!r} has {size}, too few to have some in both halves. Leave it out.")


def entries_table(result: OfEntries, cells: np.ndarray, **columns: np.ndarray) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_frame needs pandas (pip install pandas); the attributes hold the same.") from error
    i, j = np.nonzero(cells)
    names = {"task": result.tasks[i], "feature": result.features[j]}
    return pd.DataFrame(names | {name: values[cells] for name, values in columns.items()})
