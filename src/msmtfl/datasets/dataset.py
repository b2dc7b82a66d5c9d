"""What a loader returns: the rows of all tasks, where they came from and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from .._data.designs import Floats
from .._data.tables import check_finite, missing_values


def check_shapes(source: str, X: np.ndarray, y: np.ndarray, task: np.ndarray, names: np.ndarray | None) -> None:
    shapes = f"X {X.shape}, y {y.shape}, task {task.shape}"
    if X.ndim != 2 or y.shape != X.shape[:1] or task.shape != X.shape[:1]:
        raise ValueError(f"{source}: X must be (N, d), y and task (N,); their shapes are {shapes}.")
    if X.size == 0:
        raise ValueError(f"{source}: no rows or no features ({shapes}).")
    if names is not None and names.shape != X.shape[1:]:
        raise ValueError(f"{source}: {names.size} feature names for {X.shape[1]} features.")


@dataclass(frozen=True, eq=False, repr=False)
class _Parts:
    """The fields of a :class:`Dataset`."""

    name: str
    X: Floats
    y: Floats
    task: np.ndarray
    feature_names: np.ndarray
    description: str
    source: str
    group: np.ndarray | None
    dropped: Mapping[str, Mapping[str, int]]
    note: str


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Dataset(_Parts):
    """Multi-task data. It unpacks to X, y, task.

    Attributes
    ----------
    name : str
        What the data are, in a word.
    X : ndarray of shape (N, d)
        Samples of all tasks.
    y : ndarray of shape (N,)
        Targets.
    task : ndarray of shape (N,)
        The label of the task of every sample.
    feature_names : ndarray of shape (d,)
        Names of the features.
    description : str
        What the data are, in a few sentences.
    source : str
        The file or service that the data were read from.
    group : ndarray of shape (N,) or None
        Labels of groups. Samples of one group (patient) belong together: pass it as `groups=` to
        cross-validation.
    dropped : dict {reason: {task or column: number of samples}}
        What was left out, and why. Empty if nothing was.
    note : str
        What a reader of the repr should know, e.g. sizes other than the paper's.

    Examples
    --------
    >>> from msmtfl.datasets import make_mri_standin
    >>> data = make_mri_standin()
    >>> X, y, task = data
    >>> data.name, X.shape == (len(y), len(data.feature_names))
    ('SIMULATED stand-in for MRI data, not ADNI', True)
    """

    def __init__(
        self,
        name: str,
        X: Floats,
        y: Floats,
        task: np.ndarray,
        feature_names: np.ndarray,
        description: str,
        source: str,
        group: np.ndarray | None = None,
        dropped: Mapping[str, Mapping[str, int]] | None = None,
        note: str = "",
    ) -> None:
        # the same layout from every source: fits are then the same to the last bit
        X, y = (np.ascontiguousarray(values, dtype=np.float64) for values in (X, y))
        out = {} if dropped is None else dropped
        super().__init__(name, X, y, task, feature_names, description, source, group, out, note)
        check_shapes(self.source, self.X, self.y, self.task, self.feature_names)
        check_finite(self.X, self.feature_names.astype(object), f"X of {self.source}")
        check_finite(self.y, None, f"y of {self.source}", "Drop these rows.")
        if missing_values(self.task).any():
            row = int(np.argmax(missing_values(self.task)))
            raise ValueError(f"{self.source}: row {row} has no task label. Drop it or give it one.")

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.X, self.y, self.task))

    @property
    def sizes(self) -> dict[str, int]:
        """Number of samples of every task, the tasks in order of their first sample."""
        return dict(Counter(self.task.tolist()))

    def __repr__(self) -> str:
        rows = self.sizes.values()
        each = f"{min(rows)}" if min(rows) == max(rows) else f"{min(rows)} to {max(rows)}"
        note = f"; {self.note}" if self.note else ""
        return (
            f"Dataset({self.name}: {len(rows)} tasks of {each} rows, {len(self.y)} in all, "
            f"{self.X.shape[1]} features{note})"
        )
