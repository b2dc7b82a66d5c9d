"""Splitting multi-task data by whole tasks: each is held out as a new one would come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from .designs import Ints
from .tables import Labels, RandomState, Table, TaskColumn, factorise, names_of
from .task_levels import TaskLevels, without_task


class LeaveTasksOut(BaseCrossValidator):
    """Folds that hold out whole tasks: every task by itself, or all tasks with the same value of a level.

    What a search chooses with such folds is what predicts *new* tasks best: a new school, or a new region. In a fold the
    model is fitted to the other tasks. Their mean predicts the samples held out; where tasks have levels and the model has
    effects of them, what tasks with the same values have beside that mean is added. With `unknown_task="mean"` it is the
    plain mean, with `unknown_task="similar"` that of tasks with similar features. So use the model with `unknown_task` set.

    Parameters
    ----------
    level : str or int, optional
        The level whose values are held out: a name among `task_column`, or its place, 0 being the widest. By default
        every task is held out by itself.
    n_splits : int, optional
        Number of folds that the tasks, or the values of the level, are dealt out to. By default each has a fold of
        its own.
    task_column : str, int or list, optional
        The column of X that identifies the task, or the columns of its levels. A search knows the tasks of its
        samples, and needs it only to know a level by its name.
    task : array-like of shape (N,) or (N, levels), optional
        The labels of the tasks of the X that will be split, instead of columns.
    random_state : int, RandomState instance or None, default=None
        The source of randomness that deals out tasks if `n_splits` is given.

    Notes
    -----
    :func:`compare_models` has the errors of new tasks beside those of known ones: ask it for
    ``leave_one_task_out=True`` or the name of a level. Prediction intervals and errors of known tasks cannot be made of
    such folds.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import LeaveTasksOut, SharedMTLCV
    >>> rng = np.random.default_rng(0)
    >>> task, X = np.repeat(["a", "b", "c"], 20), rng.standard_normal((60, 3))
    >>> y = X[:, 0] + 0.1 * rng.standard_normal(60)
    >>> [np.unique(task[test]).tolist() for _, test in LeaveTasksOut(task=task).split(X)]
    [['a'], ['b'], ['c']]
    >>> model = SharedMTLCV(cv=LeaveTasksOut(), unknown_task="common").fit(X, y, task=task)
    >>> model.n_splits_
    3
    """

    __metadata_request__split = {"groups": None}  # noqa: RUF012

    def __init__(
        self,
        level: str | int | None = None,
        *,
        n_splits: int | None = None,
        task_column: TaskColumn = None,
        task: Labels | None = None,
        random_state: RandomState = None,
    ):
        if n_splits is not None and (not isinstance(n_splits, (int, np.integer)) or n_splits < 2):
            raise ValueError(f"n_splits must be an integer of at least 2, or None, got {n_splits!r}.")
        self.level = level
        self.n_splits = n_splits
        self.task_column = task_column
        self.task = task
        self.random_state = random_state

    def __repr__(self) -> str:
        return f"LeaveTasksOut(level={self.level!r}, n_splits={self.n_splits})"

    def get_n_splits(self, X: Any = None, y: object = None, groups: object = None) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X : DataFrame or ndarray of shape (N, d), optional
            Samples of all tasks, whose values are counted if `n_splits` is not given.
        y : object, optional
            Not used.
        groups : object, optional
            Not used.

        Returns
        -------
        int
            The number of folds.
        """
        return sum(1 for _ in self.split(X)) if self.n_splits is None else int(self.n_splits)

    def split(self, X: Table, y: object = None, groups: object = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the training and the test samples of every fold.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (N, d)
            Samples of all tasks.
        y : object, optional
            Not used.
        groups : object, optional
            Not used: whole tasks are held out.

        Yields
        ------
        train : ndarray
            Places of the training samples.
        test : ndarray
            Places of the test samples.
        """
        given: Any = without_task(X, self.task, self.task_column)[1]
        if given is None:
            raise ValueError(
                "LeaveTasksOut does not know the tasks: give task_column=, or task=, the labels. As cv= of a search of this "
                "package it needs neither."
            )
        labels, codes = factorise(given, X.shape[0] if hasattr(X, "shape") else len(X))
        fold = self.deal(labels)[codes]
        for k in range(int(fold.max()) + 1):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

    def deal(self, labels: np.ndarray) -> Ints:
        """Return the fold of every task.

        Parameters
        ----------
        labels : ndarray of shape (m,)
            Labels of the tasks.

        Returns
        -------
        ndarray of int of shape (m,)
            The fold that holds the task out.
        """
        codes = np.arange(len(labels)) if self.level is None else self._values(labels)
        count = int(codes.max()) + 1
        what = "task" if self.level is None else f"value of level {self.level!r}"
        if count < 2:
            raise ValueError(f"there is one {what} only, {names_of(labels[:1])}: none is left without it.")
        if self.n_splits is None:
            return np.asarray(codes, dtype=np.intp)
        if count < self.n_splits:
            raise ValueError(f"{count} {what}s cannot be dealt out to n_splits={self.n_splits} folds. Use fewer folds.")
        of_value = np.empty(count, dtype=np.intp)
        of_value[check_random_state(self.random_state).permutation(count)] = np.arange(count) % self.n_splits
        return np.asarray(of_value[codes])

    def _values(self, labels: np.ndarray) -> Ints:
        """(m,): the value of every task at the level."""
        names = self.task_column if isinstance(self.task_column, (list, tuple)) else None
        levels = TaskLevels.of(labels, None if names is None else [str(name) for name in names], nested=False)
        place = self.level
        if isinstance(place, str):
            known = names_of(list(levels.names)) if names is not None else "not known without task_column="
            if names is None or place not in levels.names:
                raise ValueError(
                    f"level={place!r} is no level of the tasks (their names are {known}). Give task_column=, the columns of "
                    "the levels, or the place of the level: 0 is the widest."
                )
            place = levels.names.index(place)
        if isinstance(place, bool) or not isinstance(place, (int, np.integer)) or not 0 <= place < len(levels.names):
            raise ValueError(
                f"level={self.level!r} is no level of the tasks, which have {len(levels.names)}: give None (every task by "
                "itself), a name, or a place from 0, the widest."
            )
        return np.asarray(np.unique(levels.codes[:, int(place)], return_inverse=True)[1].ravel())
