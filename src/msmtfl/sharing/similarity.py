"""How alike the tasks' supports are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._data.designs import Floats, Ints
from .._runtime.text.cards import pandas
from .maps import jaccard, sharing_map

ORDERED = 500  # tasks up to which leaves of the clustering are put next to their likes, which takes m^3 steps


@dataclass(frozen=True, eq=False)
class TaskSimilarity:
    """How alike the tasks' supports are.

    Attributes
    ----------
    similarity : ndarray of shape (m, m)
        Jaccard similarity: number of features that both tasks use over features that either uses.
    tasks : ndarray of shape (m,)
        Labels of the tasks.
    order : ndarray of shape (m,)
        Places of the tasks, similar ones side by side (average linkage).

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.sharing import task_similarity
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(90)
    >>> found = task_similarity(MSMTFL(0.2, 1.5).fit(X, y, task=task))
    >>> found.tasks[found.order], found.similarity.shape
    (array(['west', 'south', 'north'], dtype='<U5'), (3, 3))
    """

    similarity: Floats
    tasks: np.ndarray

    @cached_property
    def order(self) -> Ints:
        """Places of the tasks, similar ones side by side (average linkage), (m,)."""
        m = len(self.tasks)
        if m < 3:
            return np.arange(m)
        from scipy.cluster.hierarchy import leaves_list, linkage  # here: reading a model does not wait for it
        from scipy.spatial.distance import squareform

        distance = squareform(1.0 - self.similarity, checks=False)
        return np.asarray(leaves_list(linkage(distance, "average", optimal_ordering=m <= ORDERED)), dtype=np.intp)

    def to_frame(self) -> Any:
        """Return a pandas table with the labels on both sides.

        Returns
        -------
        DataFrame
            The similarities.
        """
        labels = self.tasks.tolist()
        return pandas().DataFrame(self.similarity, index=labels, columns=labels)


def task_similarity(model: Any) -> TaskSimilarity:
    r"""Return the Jaccard similarity of the tasks' supports S_i, the features with a non-zero coefficient.

    .. math::
        J_{ik} = |S_i \\cap S_k| / |S_i \\cup S_k|

    Two tasks that use no feature at all are alike (1); such a task and one that uses some are not (0).

    Parameters
    ----------
    model : estimator
        A fitted model of this package.

    Returns
    -------
    TaskSimilarity
        The similarities.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import LassoMTL
    >>> from msmtfl.sharing import task_similarity
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((60, 6)), np.repeat(["north", "south"], 30)
    >>> y = X[:, 0] + np.where(task == "south", X[:, 1], 0) + 0.1 * rng.standard_normal(60)
    >>> task_similarity(LassoMTL(lam=0.2).fit(X, y, task=task)).similarity
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    found = sharing_map(model)
    return TaskSimilarity(jaccard(found.support), found.tasks)
