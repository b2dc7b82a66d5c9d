"""Splitting multi-task data: every task in every training fold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator, StratifiedGroupKFold
from sklearn.utils import check_random_state

from .tables import Labels, RandomState, Table, TaskColumn, factorise, names_of, read_groups, warn_user
from .task_levels import without_task

NEVER = -1  # the fold of samples that are never held out


class TaskKFold(BaseCrossValidator):
    """K folds stratified by task, so that every task is in every training fold.

    A plain KFold on a table sorted by task leaves whole tasks out, and a model cannot predict a task that
    it has never seen. Use it as `cv=` of GridSearchCV, cross_val_predict and the like.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    task_column : str, int or list, optional
        The column of X that identifies the task, or the columns of its levels.
    task : array-like of shape (N,), optional
        The label of the task of every sample of the X that will be split, instead of a column. Without
        either, all samples are one task.
    shuffle : bool, default=True
        Whether to shuffle the samples of a task before they are dealt out; otherwise each fold takes every
        k-th sample.
    random_state : int, RandomState instance or None, default=None
        The source of randomness.

    Notes
    -----
    With `groups` (e.g. patients or speakers) given to `split`, samples of one group stay together.

    A task with fewer samples than folds is held out in some of them. The sample of a task that has no other
    is in every training fold, so that it is never held out: cross_val_predict, which needs a prediction of
    every sample, does not take such a split.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import TaskKFold
    >>> task = np.repeat(["a", "b"], [6, 4])
    >>> for train, test in TaskKFold(2, task=task, random_state=0).split(np.zeros((10, 1))):
    ...     print(sorted(task[test].tolist()))
    ['a', 'a', 'a', 'b', 'b']
    ['a', 'a', 'a', 'b', 'b']
    """

    __metadata_request__split = {"groups": True}  # noqa: RUF012

    def __init__(
        self,
        n_splits: int = 5,
        *,
        task_column: TaskColumn = None,
        task: Labels | None = None,
        shuffle: bool = True,
        random_state: RandomState = None,
    ):
        if not isinstance(n_splits, (int, np.integer)) or n_splits < 2:
            raise ValueError(f"n_splits must be an integer of at least 2, got {n_splits!r}.")
        self.n_splits = n_splits
        self.task_column = task_column
        self.task = task
        self.shuffle = shuffle
        self.random_state = random_state

    def __repr__(self) -> str:
        return f"TaskKFold(n_splits={self.n_splits}, shuffle={self.shuffle}, random_state={self.random_state})"

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X : object, optional
            Not used.
        y : object, optional
            Not used.
        groups : object, optional
            Not used.

        Returns
        -------
        int
            The number of folds.
        """
        return self.n_splits

    def _codes(self, X: Table) -> tuple[np.ndarray, np.ndarray]:
        rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if self.task_column is not None:
            labels: Any = without_task(X, None, self.task_column)[1]
            return factorise(labels, rows)
        if self.task is not None:
            return factorise(self.task, rows)
        return np.zeros(1, dtype=int), np.zeros(rows, dtype=np.intp)

    def split(
        self, X: Table, y: object = None, groups: Labels | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the training and the test samples of every fold.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (N, d)
            Samples of all tasks.
        y : object, optional
            Not used.
        groups : array-like of shape (N,), optional
            Labels of groups: samples of one group stay in one fold.

        Yields
        ------
        train : ndarray
            Places of the training samples.
        test : ndarray
            Places of the test samples.
        """
        labels, codes = self._codes(X)
        of_rows = None if groups is None else read_groups(groups, len(codes))
        fold = self._deal(labels, codes) if of_rows is None else self._deal_groups(labels, codes, of_rows)
        for k in range(self.n_splits):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

    def deal_tasks(self, labels: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
        """Return the folds of the samples of every task, given how many samples it has.

        They are the folds of `split`, in whatever order the samples of different tasks come.

        Parameters
        ----------
        labels : ndarray of shape (m,)
            Labels of the tasks.
        counts : ndarray of shape (m,)
            Number of samples of every task.

        Returns
        -------
        list of ndarray
            For every task the number of the fold of each of its samples.
        """
        known, codes = factorise(labels, len(labels))
        fold = self._deal(known, np.repeat(codes, counts))
        return np.split(fold, np.cumsum(counts)[:-1])

    def deal_within(
        self, labels: np.ndarray, codes: np.ndarray, within: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield folds stratified by task, and within tasks by something else.

        Parameters
        ----------
        labels : ndarray of shape (m,)
            Labels of the tasks.
        codes : ndarray of shape (N,)
            The task of every sample, a place in labels.
        within : ndarray of shape (N,)
            What samples of a task are dealt out in the order of, as whether an event was observed.

        Yields
        ------
        train : ndarray
            Places of the training samples.
        test : ndarray
            Places of the test samples.
        """
        fold = self._deal(labels, codes, within)
        for k in range(self.n_splits):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

    def _deal(self, labels: np.ndarray, codes: np.ndarray, within: np.ndarray | None = None) -> np.ndarray:
        counts = np.bincount(codes, minlength=len(labels))
        if counts.max() < self.n_splits:
            i = int(np.argmax(counts))
            raise ValueError(
                f"every task has fewer samples than n_splits={self.n_splits} folds; task {labels.tolist()[i]!r} has "
                f"most, {counts[i]} sample(s). Use fewer folds."
            )
        alone = counts == 1
        fold = np.full(len(codes), NEVER, dtype=np.intp)
        several = ~alone[codes]
        fold[several] = self._deal_out(codes[several], None if within is None else within[several])
        if alone.any():
            warn_user(
                f"task(s) {names_of(labels[alone])} have 1 sample, which is in the training samples of every fold: there is "
                "no held-out error of these tasks."
            )
        return fold

    def deal_evenly(
        self, codes: np.ndarray, groups: np.ndarray | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield folds stratified by codes, as far as their numbers allow; with groups, by groups alone.

        Parameters
        ----------
        codes : ndarray of shape (N,)
            The stratum of every sample.
        groups : ndarray of shape (N,), optional
            Labels of groups: samples of one group stay in one fold.

        Yields
        ------
        train : ndarray
            Places of the training samples.
        test : ndarray
            Places of the test samples.
        """
        if groups is None:
            fold = self._deal_out(codes)
        else:
            fold = self._deal_groups(np.zeros(1, dtype=int), np.zeros(len(codes), dtype=np.intp), groups)
        for k in range(self.n_splits):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

    def _deal_out(self, codes: np.ndarray, within: np.ndarray | None = None) -> np.ndarray:
        random = check_random_state(self.random_state)
        fold = np.empty(len(codes), dtype=np.intp)
        start = 0
        strata, counts = np.unique(codes, return_counts=True)
        members = np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])
        places = np.arange(len(strata))
        for i in random.permutation(places) if self.shuffle else places:  # small ones would always meet the same folds
            rows = random.permutation(members[i]) if self.shuffle else members[i]
            if within is not None:
                rows = rows[np.argsort(within[rows], kind="stable")]
            fold[rows] = (start + np.arange(len(rows))) % self.n_splits  # go on where the last task ended: even folds
            start += len(rows)
        return fold

    def _deal_groups(self, labels: np.ndarray, codes: np.ndarray, groups: np.ndarray) -> np.ndarray:
        n_groups = len(np.unique(groups))
        if np.bincount(codes).max() < self.n_splits:
            raise ValueError(
                f"every task, e.g. {labels.tolist()[0]!r}, has fewer rows than "
                f"n_splits={self.n_splits} folds. Use fewer folds."
            )
        if n_groups < self.n_splits:
            raise ValueError(f"{n_groups} group(s) cannot be split into n_splits={self.n_splits} folds.")
        splitter = StratifiedGroupKFold(
            self.n_splits, shuffle=self.shuffle, random_state=self.random_state if self.shuffle else None
        )
        fold = np.empty(len(codes), dtype=np.intp)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            parts = list(splitter.split(np.zeros(len(codes)), codes, groups))
        for k, (_, test) in enumerate(parts):
            fold[test] = k
            lost = np.setdiff1d(np.arange(len(labels)), codes[np.setdiff1d(np.arange(len(codes)), test)])
            if lost.size:
                raise ValueError(
                    f"keeping groups together leaves task(s) {names_of(labels[lost])} out of a training fold: all their "
                    "rows belong to the groups of one fold. Use fewer folds, or leave these tasks out."
                )
        return fold
