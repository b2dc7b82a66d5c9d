"""What the tools of this room share: which models they take, halves of the samples, tables of entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone, is_classifier

from .._data.categories import read_features
from .._data.copies import groups_of
from .._data.designs import Floats, Ints
from .._data.tables import as_values, is_sparse
from .._data.task_data import Task, TaskData
from .._estimators.families import family_of
from .._estimators.fitted import is_model, loss_of, model_chosen
from .._objective.losses import Loss
from .._runtime.checks import check_flag, check_n_jobs
from .._solvers.problems.read_groups import read_feature_groups

TRIES = 100  # to draw halves of the rows such that every task has some in both


class OfEntries(Protocol):
    """A result whose arrays are (m, d)."""

    @property
    def tasks(self) -> np.ndarray: ...

    @property
    def features(self) -> np.ndarray: ...


def checked_model(model: Any, n_jobs: Any, verbose: Any, classes: bool = False, sparse: bool = True) -> Any:
    """The model that is meant; of a fitted MultiTaskAuto the one that it chose."""
    model = model_chosen(model)
    if is_model(model) and is_classifier(model) and not classes:
        raise TypeError(
            f"{type(model).__name__} is a classifier; these intervals are of regressions only. split_intervals takes "
            "classifiers."
        )
    if not is_model(model):
        raise TypeError(f"give a model such as MSMTFL(), not {type(model).__name__}; of a Pipeline, its last step.")
    if hasattr(model, "models"):  # it chooses among them, and has not yet
        raise TypeError(
            f"{type(model).__name__} has not chosen a model yet: fit it first, then the one it chooses is meant."
        )
    if sparse and not hasattr(model, "penalty_factors"):
        raise TypeError(f"give a model with a sparse penalty, such as MSMTFL(), not {type(model).__name__}.")
    check_n_jobs(n_jobs)
    check_flag("verbose", verbose)
    return model


def check_squared(model: Any) -> None:
    if loss_of(model) != "squared":
        raise ValueError(
            f"these intervals are those of least squares; the model has loss={model.loss!r}. split_intervals takes it."
        )


@dataclass(frozen=True)
class Samples:
    """The samples that a user gave, as arrays of which some can be taken."""

    X: Any  # (N, d) without the column of the task
    y: np.ndarray
    task: np.ndarray | None
    weight: np.ndarray | None
    groups: np.ndarray | None
    offset: np.ndarray | None = None
    feature_groups: list[str] | None = None  # the names of the features' groups, if there are any

    @staticmethod
    def read(estimator: Any, X: Any, y: Any, task: Any, weight: Any, groups: Any, offset: Any = None) -> Samples:
        """Of data that the estimator has read before without complaint."""
        values, labels, names, encoding = read_features(X, task, estimator.task_column)
        of_features = given_groups(estimator, names, encoding)
        return Samples(
            sliceable(values),
            as_values(y, "y"),
            None if labels is None else as_values(labels, "task"),
            None if weight is None else as_values(weight, "sample_weight"),
            None if groups is None else groups_of(groups, X),
            None if offset is None else as_values(offset, "offset"),
            of_features,
        )

    def fit(self, estimator: Any, keep: np.ndarray) -> Any:
        """A clone of the estimator, fitted to some of the samples, keep (N,) bool."""
        model = clone(estimator).set_params(task_column=None)
        if self.feature_groups is not None:
            model.set_params(feature_groups=self.feature_groups)
        known = {"task": self.task, "sample_weight": self.weight, "offset": self.offset}
        if self.groups is not None and family_of(model).is_search(model):
            known["groups"] = self.groups
        return model.fit(self.X[keep], self.y[keep], **{k: None if v is None else v[keep] for k, v in known.items()})


def given_groups(estimator: Any, names: np.ndarray, encoding: Any) -> list[str] | None:
    """The name of the group of every feature, where an estimator has groups in data with these features."""
    if not hasattr(estimator, "_feature_groups"):
        return None
    data: Any = SimpleNamespace(features=names, d=len(names), encoding=encoding)
    groups = read_feature_groups(estimator._feature_groups(), data)
    return None if groups is None else groups.of_features.tolist()


def sliceable(X: Any) -> Any:
    """A matrix of which some rows can be taken."""
    sparse = issparse(X)
    return X.tocsr() if sparse else X


def as_dense(X: Any) -> Floats:
    """A matrix, sparse or not, as an array of float64."""
    return np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)


def dense_rows(task: Task, places: np.ndarray, features: Ints, centre: bool) -> tuple[Floats, Floats]:
    """Some features (n, k) and the target less the offset (n,) of some of a task's samples, less their means if they are to
    be centred, and times the roots of the weights."""
    X = as_dense(task.X[places][:, features])
    y, w = task.unexplained[places], None if task.weight is None else task.weight[places]
    if centre:
        share = np.full(len(y), 1.0 / len(y)) if w is None else w / w.sum()
        X, y = X - share @ X, y - share @ y
    if w is None:
        return X, y
    root = np.sqrt(w / w.mean())
    return root[:, None] * X, root * y


def draw_halves(
    data: TaskData, groups: Any, n_pairs: int, random: np.random.RandomState, loss: Loss | None = None
) -> list[np.ndarray]:
    """n_pairs random halves of the rows, (N,) bool, each followed by its complement; every task has rows in both, and, where
    a loss needs them (classes, counts that are not all 0), rows of every kind of target that it has.

    Rows (or groups) that belong to the same set of tasks (and kinds) are shuffled and dealt out in turn, set after set in
    random order. (Folds balanced with more care leave little to chance where such sets are small or groups differ in size.)
    """
    kinds = [(i, kind, rows) for i, of_task in enumerate(data.tasks) for kind, rows in _kinds(of_task, loss)]
    member = np.zeros((data.X.shape[0], len(kinds)), dtype=bool)
    for k, (_, _, rows) in enumerate(kinds):
        member[rows, k] = True
    unit = np.arange(data.X.shape[0])
    if groups is not None:
        unit = np.unique(groups_of(groups, data.X), return_inverse=True)[1].ravel()
    sets = np.zeros((unit.max() + 1, len(kinds)), dtype=bool)
    np.logical_or.at(sets, unit, member)
    stratum = np.unique(np.packbits(sets, axis=1), axis=0, return_inverse=True)[1].ravel()  # in the order of the sets
    out: list[np.ndarray] = []
    for _ in range(TRIES * n_pairs):
        order = np.lexsort((random.permutation(len(sets)), random.permutation(stratum.max() + 1)[stratum]))
        half = np.argsort(order) % 2 == 0
        if (sets[half].any(axis=0) & sets[~half].any(axis=0)).all():
            out += [half[unit], ~half[unit]]
        if len(out) == 2 * n_pairs:
            return out
    rarest = int(np.argmin(sets.sum(axis=0)))
    i, kind, _ = kinds[rarest]
    size = f"{int(sets[:, rarest].sum())} {'row' if groups is None else 'group'}(s){kind}"
    raise ValueError(f"task {data.labels.tolist()[i]!r} has {size}, too few to have some in both halves. Leave it out.")


def _kinds(task: Task, loss: Loss | None) -> Iterator[tuple[str, Ints]]:
    """Rows of a task that both halves need some of, and what is said of them."""
    away = np.zeros(len(task.y)) if loss is None else loss.escapes(task.y)
    values = np.unique(away)
    words = {1.0: " of one class", -1.0: " of one class" if 1.0 in values else " that are 0", 0.0: " that are not 0"}
    for value in values:
        yield words[float(value)] if len(values) > 1 else "", task.rows[away == value]


def entries_table(result: OfEntries, cells: np.ndarray, **columns: np.ndarray) -> Any:
    """A pandas table of some entries (m, d) bool, task outermost."""
    i, j = np.nonzero(cells)
    names = {"task": result.tasks[i], "feature": result.features[j]}
    return to_pandas(names | {name: values[cells] for name, values in columns.items()})


def to_pandas(columns: Mapping[str, np.ndarray]) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_frame needs pandas (pip install pandas); the attributes hold the same.") from error
    return pd.DataFrame(dict(columns))
