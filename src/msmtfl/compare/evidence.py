"""What the difference of two models' errors allows one to conclude.

A total can come from one task, or from one fold of it. A conclusion is drawn only where three things agree: the total is
beyond its standard error, more tasks go its way than the other, and it does not hang on a single task.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from .._data.designs import Floats, Ints
from .._paths.discoveries import benjamini_hochberg

CLEAR = 2.0  # standard errors from which a difference counts as clear; more if there are few samples
LEVEL = 0.975  # of one side of a 95 % interval
FALSE = 0.05  # false discovery rate over tasks
SAME = 1e-5  # share of the error below which a difference may be that of two solutions of one problem
FEW = 3  # tasks from which on it is asked whether the difference hangs on one of them


def clear_from(n: Any) -> Floats:
    """Standard errors from which a difference of n samples (groups) counts as clear, by Student's t: infinity if there is
    but one."""
    n = np.asarray(n)
    reach = np.maximum(CLEAR, stdtrit(np.maximum(n - 1, 1), LEVEL))
    return np.where(n > 1, reach, np.inf)


def clear_tasks(difference: Floats, se: Floats, n: Any) -> Ints:
    """-1 where a task's error is clearly smaller, 1 where it is clearly larger, else 0: at a false discovery rate of 5 %
    over all tasks (the last axis), as some of many tasks differ by chance. `n`: samples (groups) behind each difference."""
    n = np.broadcast_to(np.asarray(n), np.shape(difference))
    known = np.isfinite(difference) & (se > 0) & (n > 1)
    size = np.divide(np.abs(difference), se, out=np.zeros(np.shape(difference)), where=known)
    p = np.where(known, 2.0 * stdtr(np.maximum(n - 1, 1), -size), np.nan)
    adjusted = np.apply_along_axis(benjamini_hochberg, -1, p)
    clear = known & (size > clear_from(n)) & (np.nan_to_num(adjusted, nan=1.0) <= FALSE)
    return np.where(clear, np.sign(np.nan_to_num(difference)), 0).astype(np.intp)


def decimals(se: Any, least: int = 3, most: int = 6) -> int:
    """Decimals with which the smallest standard error has two digits that count."""
    known = np.asarray(se, dtype=np.float64).ravel()
    known = known[np.isfinite(known) & (known > 0)]
    return int(np.clip(1 - np.floor(np.log10(known.min())), least, most)) if known.size else least


@dataclass(frozen=True, eq=False)
class Evidence:
    """The error of a model less that of another, over all tasks and in each of them.

    Attributes
    ----------
    difference : float
        The difference, averaged over tasks by size.
    se : float
        Its standard error.
    base : float
        The error of the other model.
    reach : float
        How large a difference must be to be beyond its standard error.
    by_task : ndarray of shape (m,)
        The difference in every task; NaN where a task has no error.
    base_by_task : ndarray of shape (m,)
        The error of the other model in every task.
    weight : ndarray of shape (m,)
        The sizes of the tasks.
    tasks : ndarray of shape (m,)
        Labels of the tasks.
    n_tasks : int
        Number of tasks that have an error.
    n_better : int
        Number of tasks with a smaller error, however little.
    n_worse : int
        Number of tasks with a larger error, however little.
    change : float
        The difference as a share of `base`.
    se_of_change : float
        Its standard error as a share of `base`.
    median_change : float
        The median over tasks of the difference as a share of the other model's error.
    decisive : int or None
        The place of the task without which the difference would be gone, or of the other sign.
    beyond : bool
        Whether the difference is beyond its standard error.
    agrees : bool
        Whether more tasks go the way of the total than the other way.
    clear : bool
        Whether there is a conclusion to be drawn.
    better : bool
        Whether the model is clearly better.
    worse : bool
        Whether the model is clearly worse.
    standing : str
        "better" or "worse" if that is clear, else "not clear".
    doubt : str
        Why it is not clear, in words.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import compare_models
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((120, 20)), np.repeat(["north", "south", "west"], 40)
    >>> y = 2 * X[:, 0] - X[:, 3] + rng.standard_normal(120)
    >>> found = compare_models(X, y, task=task, models=["lasso", "pooled lasso"]).evidence("pooled lasso")
    >>> found.n_better, found.n_worse, found.standing
    (3, 0, 'not clear')
    >>> found.doubt
    'the difference is within what chance makes of it'
    """

    difference: float
    se: float
    base: float
    reach: float
    by_task: Floats
    base_by_task: Floats
    weight: Floats
    tasks: np.ndarray

    @cached_property
    def _known(self) -> np.ndarray:
        return np.isfinite(self.by_task) & (self.weight > 0)

    @property
    def n_tasks(self) -> int:
        """Number of tasks that have an error."""
        return int(self._known.sum())

    @property
    def n_better(self) -> int:
        """Number of tasks with a smaller error, however little."""
        return int((self.by_task[self._known] < 0).sum())

    @property
    def n_worse(self) -> int:
        """Number of tasks with a larger error, however little."""
        return int((self.by_task[self._known] > 0).sum())

    @property
    def change(self) -> float:
        """The difference as a share of the other model's error."""
        return self.difference / self.base if self.base > 0 else float("nan")

    @property
    def se_of_change(self) -> float:
        """The standard error of the difference as a share of the other model's error."""
        return self.se / self.base if self.base > 0 else float("nan")

    @property
    def median_change(self) -> float:
        """The median over tasks of the change as a share of the other model's error there: no task counts for more."""
        at = self._known & (self.base_by_task > 0)
        return float(np.median(self.by_task[at] / self.base_by_task[at])) if at.any() else float("nan")

    @cached_property
    def without(self) -> Floats:
        """(m,): the difference with each of the tasks left out; NaN where there is none, or no other."""
        weight, change = np.where(self._known, self.weight, 0.0), np.where(self._known, self.by_task, 0.0)
        rest = weight.sum() - weight
        left = (weight @ change) - weight * change
        return np.divide(left, rest, out=np.full(len(rest), np.nan), where=self._known & (rest > 0))

    @cached_property
    def decisive(self) -> int | None:
        """The place of the task without which the difference would be gone, or of the other sign, or None."""
        if self.n_tasks < FEW:
            return None
        left = np.where(self._known, self.without * np.sign(self.difference), np.inf)
        return int(np.argmin(left)) if left.min() <= 0 else None

    @property
    def beyond(self) -> bool:
        """Whether the difference of the totals is beyond its standard error."""
        size = abs(self.difference)
        return bool(np.isfinite(self.se) and size > self.reach and size > SAME * abs(self.base))

    @property
    def agrees(self) -> bool:
        """Whether more tasks go the way of the total than the other way."""
        return (self.n_worse - self.n_better) * np.sign(self.difference) > 0

    @property
    def clear(self) -> bool:
        """Whether there is a conclusion to be drawn."""
        return self.beyond and self.agrees and self.decisive is None

    @property
    def better(self) -> bool:
        """Whether the model is clearly better."""
        return self.clear and self.difference < 0

    @property
    def worse(self) -> bool:
        """Whether the model is clearly worse."""
        return self.clear and self.difference > 0

    @property
    def standing(self) -> str:
        """ "better" or "worse" if that is clear, else "not clear"."""
        return "better" if self.better else "worse" if self.worse else "not clear"

    @property
    def doubt(self) -> str:
        """Why there is no conclusion to be drawn, in words; empty if there is."""
        if self.clear:
            return ""
        if not self.beyond:
            return "the difference is within what chance makes of it"
        if not self.agrees:
            ways, count = ("larger", self.n_worse) if self.difference < 0 else ("smaller", self.n_better)
            return f"in {count} of {self.n_tasks} tasks the error is {ways}"
        assert self.decisive is not None
        label = self.tasks.tolist()[self.decisive]
        return f"it comes from task {label!r}, without which it would be {self.without[self.decisive]:+.2g}"

    def tasks_in_words(self, by: str = "") -> str:
        """Say how many tasks have a smaller error, and what the median of them has.

        Parameters
        ----------
        by : str, default=""
            Words that say by what, such as " by it".

        Returns
        -------
        str
            A clause.
        """
        median = f" (median change {self.median_change:+.1%})" if np.isfinite(self.median_change) else ""
        return (
            f"Of {self.n_tasks} tasks {self.n_better} have a smaller error{by} and {self.n_worse} a larger one{median}"
        )
