"""Training and test rows of an experiment: the same share of every task."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..tables import factorise


def split_tasks(task: Any, share: float, random_state: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Random training rows of every task, and the rest: (train, test), indices in ascending order.

    Task i gets `round(share * n_i)` training rows, but at least one, and at least one row is left for the test.
    scikit-learn's StratifiedShuffleSplit rounds the whole, so that a task's number depends on the others.

    Parameters
    ----------
    task : (N,) labels
    share : float between 0 and 1
        Of a task's rows to train on.
    random_state : int, RandomState or None

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
    train = np.zeros(len(codes), dtype=bool)
    for i, label in enumerate(labels.tolist()):
        rows = np.flatnonzero(codes == i)
        if len(rows) < 2:
            raise ValueError(f"task {label!r} has a single row, which cannot be split. Leave the task out.")
        count = min(max(round(share * len(rows)), 1), len(rows) - 1)
        train[random.permutation(rows)[:count]] = True
    return np.flatnonzero(train), np.flatnonzero(~train)
