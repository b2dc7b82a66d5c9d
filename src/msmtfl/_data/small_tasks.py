"""Tasks with few samples, left out before a fit: counted and named."""

from __future__ import annotations

import numpy as np

from .._runtime.checks import check_count
from .._runtime.text.naturally import natural_order
from .tables import Labels, as_values, missing_values, warn_user

NAMED = 8  # tasks that are named


def enough_samples(task: Labels, *, min_samples: int = 10) -> np.ndarray:
    """Tell which samples belong to tasks that have enough of them; a warning counts and names the others.

    A task with fewer samples than folds is fitted, but has no held-out error, and a task with one or two says little
    about its own coefficients. This leaves them out before anything is fitted, in whatever form the data are.

    Parameters
    ----------
    task : array-like of shape (N,)
        The label of the task of every sample, such as a column of a table.
    min_samples : int, default=10
        The smallest number of samples that a task must have.

    Returns
    -------
    ndarray of bool of shape (N,)
        Whether a sample's task has so many: index X, y, task and whatever else there is per sample with it.

    Raises
    ------
    ValueError
        No task has so many samples, or a label is missing.

    Examples
    --------
    >>> import warnings
    >>> from msmtfl import enough_samples
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     enough_samples(["north", "north", "south", "north"], min_samples=2)
    array([ True,  True, False,  True])
    """
    check_count("min_samples", min_samples)
    labels = np.asarray(as_values(task, "task") if not isinstance(task, list | tuple) else np.array(task, dtype=object))
    if labels.ndim != 1 or labels.size == 0:
        raise ValueError(f"task must have one label per sample, (N,); its shape is {labels.shape}.")
    if missing_values(labels).any():
        row = int(np.flatnonzero(missing_values(labels))[0])
        raise ValueError(f"task has no label in row {row}: give every sample one.")
    known, place, count = np.unique(labels.astype(str), return_inverse=True, return_counts=True)
    keep = np.asarray(count >= min_samples)
    if not keep.any():
        most = int(np.argmax(count))
        raise ValueError(f"no task has {min_samples} samples; {str(known[most])!r} has most, {count[most]}.")
    if not keep.all():
        small = np.flatnonzero(~keep)
        order = small[natural_order([str(name) for name in known[small]])]
        named = ", ".join(f"{str(known[k])!r} ({count[k]})" for k in order[:NAMED]) + ", ..." * (len(order) > NAMED)
        warn_user(
            f"{len(small)} of {len(known)} tasks, {int(count[small].sum())} of {len(labels)} samples, are left out: fewer "
            f"than {min_samples} samples: {named}."
        )
    return np.asarray(keep[place.ravel()])
