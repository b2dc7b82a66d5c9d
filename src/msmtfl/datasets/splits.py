"""Training and test rows of an experiment: the same share of every task."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._data.tables import factorise, missing_values


def split_tasks(
    task: Any, share: float, random_state: Any = None, *, groups: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw random training samples from every task.

    Task i gets `round(share * n_i)` training samples, but at least one, and at least one sample is left for
    the test. scikit-learn's StratifiedShuffleSplit rounds the whole, so that a task's number depends on the
    others.

    With `groups` it is groups that are drawn, `round(share * groups)` of them, so that no patient (speaker,
    ...) is on both sides; a task then gets about its share of samples, and an error says which task would
    be left without any.

    Parameters
    ----------
    task : array-like of shape (N,)
        The label of the task of every sample.
    share : float
        The share of a task's samples to train on, between 0 and 1.
    random_state : int, RandomState instance or None, default=None
        The source of randomness.
    groups : array-like of shape (N,), optional
        Labels of groups: samples of one group stay together, in whichever tasks they are.

    Returns
    -------
    train : ndarray of int
        Places of the training samples, in ascending order.
    test : ndarray of int
        Places of the other samples, in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.datasets import split_tasks
    >>> task = np.repeat(["a", "b"], [10, 20])
    >>> train, test = split_tasks(task, 0.2, random_state=0)
    >>> task[train].tolist(), len(test)
    (['a', 'a', 'b', 'b', 'b', 'b'], 24)
    """
    if not 0.0 < share < 1.0:
        raise ValueError(f"share must be between 0 and 1, both excluded; got {share!r}.")
    labels, codes = factorise(task, len(task))
    random = check_random_state(random_state)
    if groups is not None:
        return _split_groups(labels, codes, share, random, groups)
    train = np.zeros(len(codes), dtype=bool)
    for i, label in enumerate(labels.tolist()):
        rows = np.flatnonzero(codes == i)
        if len(rows) < 2:
            raise ValueError(f"task {label!r} has a single row, which cannot be split. Leave the task out.")
        count = min(max(round(share * len(rows)), 1), len(rows) - 1)
        train[random.permutation(rows)[:count]] = True
    return np.flatnonzero(train), np.flatnonzero(~train)


def _split_groups(
    labels: np.ndarray, codes: np.ndarray, share: float, random: Any, groups: Any
) -> tuple[np.ndarray, np.ndarray]:
    given = np.asarray(groups)
    if given.shape != codes.shape:
        raise ValueError(f"groups must be one label per row, {len(codes)} of them; it has shape {given.shape}.")
    if missing_values(given).any():
        raise ValueError(f"row {int(np.argmax(missing_values(given)))} has no group. Drop it or give it one.")
    names, members = factorise(groups, len(codes))
    if len(names) < 2:
        raise ValueError("all rows are of one group, which cannot be split. Leave groups out.")
    count = min(max(round(share * len(names)), 1), len(names) - 1)
    train = np.isin(members, random.permutation(len(names))[:count])
    for i, label in enumerate(labels.tolist()):
        inside = train[codes == i]
        if inside.all() or not inside.any():
            raise ValueError(
                f"task {label!r} has no row on one side of this split: its groups are too few. Use another random_state, or "
                "leave the task out."
            )
    return np.flatnonzero(train), np.flatnonzero(~train)
