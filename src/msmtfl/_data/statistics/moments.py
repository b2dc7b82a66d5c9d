"""Sufficient statistics of tasks: all that squared loss needs to know of data too large, or too private, to be passed on.

`Moments` holds those of all tasks; they come from batches of rows, add up, and are stored in files.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._runtime.checks import check_count, check_verbose
from ..._runtime.files import write_whole
from ..._runtime.progress import Progress, one_blas_thread
from ..._runtime.whole import whole_or_untouched
from ..categories import read_features
from ..tables import (
    Labels,
    RandomState,
    Table,
    Targets,
    categories_of,
    check_finite,
    is_table,
    names_of,
    opened,
    shape_of,
    warn_user,
)
from ..task_levels import positions_of
from . import moment_files
from .batches import Batch, batch_tasks
from .dealer import Dealer
from .disclosure import of_difference, of_task
from .parquet import ParquetPath, ParquetRows, Rows
from .task_moments import TaskMoments
from .task_sums import TaskSums


class Moments(TaskSums):
    """Statistics of all tasks, from which a model is fitted exactly as from the samples.

    Samples come in batches (:meth:`update`, :meth:`from_batches`, :meth:`from_parquet`). Statistics of
    different samples add up (``a + b``), so that sites that may not share samples can share these: see
    :meth:`disclosure` for what they give away.

    Attributes
    ----------
    features : ndarray of shape (d,)
        Names of the features, in the order of the first batch.
    tasks : ndarray of shape (m,)
        Labels of the tasks, in the order in which they came.
    d : int
        Number of features.
    n : ndarray of shape (m,)
        Sum of the weights of every task's samples.
    rows : ndarray of shape (m,)
        Number of every task's samples.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL, Moments
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((300, 6)), np.tile(["north", "south", "west"], 100)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(300)
    >>> moments = Moments()
    >>> for low in range(0, 300, 50):
    ...     _ = moments.update(X[low : low + 50], y[low : low + 50], task=task[low : low + 50])
    >>> moments
    Moments(3 tasks, 300 rows, 6 features)
    >>> streamed = MSMTFL(lam=0.1).fit_moments(moments)
    >>> np.allclose(streamed.coef_, MSMTFL(lam=0.1).fit(X, y, task=task).coef_, atol=1e-12)
    True
    """

    # ---------------------------------------------------------------- adding rows

    @whole_or_untouched
    def update(
        self,
        X: Table,
        y: Targets,
        *,
        task: Labels | None = None,
        task_column: str | int | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Moments:
        """Add a batch of samples: all of it or, if something is wrong, nothing.

        The columns of a table are brought into the order of the first batch by their names.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (N, d)
            Samples of all tasks. A table or an array may have a column that identifies the task
            (see `task_column`).
        y : array-like of shape (N,) or (N, m)
            Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
            means not measured. With loss="cox" it has two, times and events.
        task : array-like of shape (N,), optional
            The label of the task of every sample, if the tasks are not a column of X.
        task_column : str or int, optional
            The column of X that identifies the task.
        sample_weight : array-like of shape (N,) or (N, m), optional
            Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
            A sample of weight 2 is two samples.

        Returns
        -------
        Moments
            These statistics themselves.
        """
        add_batch([self], X, y, task=task, task_column=task_column, sample_weight=sample_weight)
        return self

    def read(
        self,
        X: Table,
        y: Targets,
        *,
        task: Labels | None = None,
        task_column: str | int | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Batch:
        """Read a batch of samples as it would be added.

        The batch is checked, and its columns are in the order of the batches before.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (N, d)
            Samples of all tasks. A table or an array may have a column that identifies the task
            (see `task_column`).
        y : array-like of shape (N,) or (N, m)
            Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
            means not measured. With loss="cox" it has two, times and events.
        task : array-like of shape (N,), optional
            The label of the task of every sample, if the tasks are not a column of X.
        task_column : str or int, optional
            The column of X that identifies the task.
        sample_weight : array-like of shape (N,) or (N, m), optional
            Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
            A sample of weight 2 is two samples.

        Returns
        -------
        Batch
            The samples, task by task.
        """
        X = opened(X)
        values, task, names, encoding = read_features(X, task, task_column)
        if encoding is not None:
            raise ValueError(
                f"column(s) {names_of(encoding.levels)} are categorical: statistics of batches need numbers, as not every "
                "batch holds all levels. Encode them first, with the same columns in every batch."
            )
        named = is_table(X)
        order = self._order(names) if named and self.named else None
        if order is not None:
            values, names = values[:, order], names[order]
        check_finite(values, names, "X")
        tasks, labels, form = batch_tasks(values, y, task, sample_weight)
        self._check_form(values.shape[1], form)
        return Batch(tasks, labels, form, names, named, values.shape[0], categories_of(task))

    def _order(self, names: np.ndarray) -> list[int] | None:
        """Where the features of the first batch stand in a table with these; None if it is in their order."""
        assert self.features is not None
        wanted, columns = self.features.tolist(), names.tolist()
        if columns == wanted:
            return None
        place = {name: k for k, name in enumerate(columns)}
        absent = [name for name in wanted if name not in place]
        known = set(wanted)
        extra = [name for name in columns if name not in known]
        if absent or extra:
            lacks = f"lacks column(s) {names_of(absent)}" if absent else f"has further column(s) {names_of(extra)}"
            raise ValueError(f"this batch {lacks}; the batches before had {names_of(wanted)}.")
        return [place[name] for name in wanted]

    # ---------------------------------------------------------------- streams

    @classmethod
    def from_batches(
        cls,
        batches: Iterable[Sequence[Any]],
        *,
        task_column: str | int | None = None,
        folds: int | None = None,
        random_state: RandomState = 0,
    ) -> Any:
        """Compute the statistics of batches of samples, one batch in memory at a time.

        Parameters
        ----------
        batches : iterable of tuple
            Batches (X, y), (X, y, task) or (X, y, task, sample_weight).
        task_column : str or int, optional
            The column of X that identifies the task.
        folds : int, optional
            Number of folds. The result is then a list of that many Moments, for cross-validation by
            :meth:`MSMTFLCV.fit_moments`: samples go to one of them at random, evenly within each task.
        random_state : int, RandomState instance or None, default=0
            The source of randomness that deals out the samples to folds.

        Returns
        -------
        Moments or list of Moments
            The statistics; with `folds` a list of them.
        """
        parts, dealer = cls._parts(folds, random_state)
        for k, batch in enumerate(batches):
            if not 2 <= len(batch) <= 4:
                raise ValueError(
                    f"batch {k} has {len(batch)} parts; expected X, y and, if need be, task and sample_weight."
                )
            X, y, task, weight = (*batch, None, None)[:4]
            try:
                add_batch(parts, X, y, task=task, task_column=task_column, sample_weight=weight, dealer=dealer)
            except (ValueError, TypeError) as error:
                raise type(error)(f"batch {k}: {error}") from error
        return parts[0] if folds is None else parts

    @classmethod
    def _parts(cls, folds: int | None, random_state: RandomState) -> tuple[list[Moments], Dealer | None]:
        if folds is None:
            return [cls()], None
        check_count("folds", folds)
        return [cls() for _ in range(folds)], Dealer(int(folds), random_state)

    @classmethod
    def from_parquet(
        cls,
        path: ParquetPath,
        target: str,
        task: str | None = None,
        *,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        group: str | None = None,
        folds: int | None = None,
        random_state: RandomState = 0,
        batch_rows: int = 2**15,
        verbose: bool = False,
    ) -> Any:
        """Compute the statistics of Parquet files, read in batches of bounded memory with pyarrow.

        Parameters
        ----------
        path : path, str or list of paths
            A file, a folder of files, a pattern such as ``"year=*/part-*.parquet"``, or a list of files.
        target : str
            The column of the targets.
        task : str, optional
            The column that identifies the task. Without it all samples are one task.
        features : sequence of str, optional
            The columns of the features; by default all columns that have no other role.
        weight : str, optional
            The column of the weights of the samples.
        group : str, optional
            The column of the groups: samples of one group go to the same fold.
        folds : int, optional
            Number of folds. The result is then a list of that many Moments, for cross-validation by
            :meth:`MSMTFLCV.fit_moments`: samples go to one of them at random, evenly within each task.
        random_state : int, RandomState instance or None, default=0
            The source of randomness that deals out the samples to folds.
        batch_rows : int, default=32768
            Number of samples of a batch. Two batches are in memory at a time, the next one being read on
            another thread. Every batch costs some time per task in it: take larger ones if there are thousands
            of tasks.
        verbose : bool, default=False
            Whether to show a progress bar.

        Returns
        -------
        Moments or list of Moments
            The statistics; with `folds` a list of them.

        Raises
        ------
        ValueError
            A file cannot be read, or a column is missing, holds no numbers or has missing values. The message
            names the file.
        """
        parts, dealer = cls._parts(folds, random_state)
        check_count("batch_rows", batch_rows)
        check_verbose(verbose)
        files = ParquetRows(path, target, task, features, weight, group, batch_rows, dealer)
        with one_blas_thread(), Progress(files.rows, "rows", verbose) as progress:
            for rows, labels, count in files:
                try:
                    add_rows(parts, rows, files.features, labels, named=True, form="single" if task is None else "long")
                except ValueError as error:
                    raise ValueError(f"{files.file}: {error}") from error
                progress.step(count)
        return parts[0] if folds is None else parts

    # ---------------------------------------------------------------- what leaves a site

    def disclosure(self, before: Moments | Sequence[Moments] = ()) -> list[str]:
        """Say in words what these statistics give away of single samples.

        Sums over many samples hide each of them. They do not where a task has few samples compared with its
        features (the sums then determine the samples up to rotation), where a column has one value in all but
        five samples or fewer (sums of products with it, less that value, are sums over these), or where two
        columns differ in one sample. These are the plain cases: nothing found is no proof. For statistics from
        a file the values of columns are not known; there only columns of two whole numbers are found.

        Parameters
        ----------
        before : Moments or sequence of Moments, default=()
            Statistics that were shared earlier. Whoever has them can subtract them: what the difference gives
            away is told, too.

        Returns
        -------
        list of str
            A sentence for each finding; empty if nothing was found.
        """
        names = [*self._names(), "the target"]
        out = [words for label, task in self._tasks.items() for words in of_task(task, f"task {label!r}", names)]
        for other in [before] if isinstance(before, Moments) else before:
            earlier = self.matching(other)
            for label, task in self._tasks.items():
                if label in earlier:
                    out += of_difference(task, earlier[label], f"task {label!r}", names)
        return out

    # ---------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str], *, before: Moments | Sequence[Moments] = ()) -> None:
        """Write the statistics to a file of plain arrays that :meth:`load` reads, whole or not at all.

        It warns of what the file gives away, also to those who have the file that is replaced.

        Parameters
        ----------
        path : path or str
            The file to write.
        before : Moments or sequence of Moments, default=()
            Statistics that were shared earlier; see :meth:`disclosure`.
        """
        if self.features is None:
            raise ValueError("there are no rows yet: nothing to save.")
        for words in self.disclosure([*([before] if isinstance(before, Moments) else before), *self._replaced(path)]):
            warn_user(f"{words}. Drop the column, merge sites first, or keep the file private.")
        head = {"form": self.form, "named": self.named, "seen": [moment_files.plain(label) for label in self.seen]}
        if self.categories is not None:
            head["categories"] = [moment_files.plain(label) for label in self.categories]
        write_whole(path, moment_files.to_bytes(head, self.features, self._tasks))

    def _replaced(self, path: str | os.PathLike[str]) -> list[Moments]:
        """The statistics in a file that is there already, if they are of the same features."""
        with suppress(ValueError, OSError):
            other = Moments.load(path)
            self.matching(other)
            return [other]
        return []

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Moments:
        """Read the statistics in a file of :meth:`save`. No code is run.

        Parameters
        ----------
        path : path or str
            The file to read.

        Returns
        -------
        Moments
            The statistics.

        Raises
        ------
        ValueError
            The file is damaged, or holds sums that no samples have (more correlation than is possible, a
            negative sum of squares). The message says what is wrong.
        """
        head, features, tasks = moment_files.read(path)
        out = cls()
        out.features, out.named, out.form = features, head["named"], head["form"]
        out.seen, out.categories = dict.fromkeys(head["seen"]), head.get("categories")
        out._tasks = tasks
        return out


# ------------------------------------------------------------------ adding batches


def with_labels(moments: Moments, names: Mapping[Hashable, Hashable]) -> Moments:
    """These statistics with other labels of the tasks; tasks without one are left out."""
    out = moments.copy()
    out._tasks = {names[label]: sums for label, sums in moments._tasks.items() if label in names}
    out.seen = dict.fromkeys(names[label] for label in moments.seen if label in names)
    out.categories = None
    return out


def add_batch(
    parts: Sequence[Moments],
    X: Table,
    y: Targets,
    *,
    task: Labels | None = None,
    task_column: str | int | None = None,
    sample_weight: ArrayLike | None = None,
    dealer: Dealer | None = None,
) -> None:
    """Add a batch to one Moments, or its rows to several, as the dealer says: all of it, or nothing."""
    if len(shape_of(X)) == 2 and shape_of(X)[0] == 0:
        return
    batch = parts[0].read(X, y, task=task, task_column=task_column, sample_weight=sample_weight)
    add_rows(parts, batch.by_fold(dealer), batch.names, batch.labels, named=batch.named, form=batch.form)
    for part in parts:
        if part.categories is None:
            part.categories = batch.categories
        if task_column is not None and part.task_place is None:
            part.task_place = positions_of(X, task_column)


def add_rows(
    parts: Sequence[Moments],
    rows: Iterable[Rows],
    features: np.ndarray,
    labels: Iterable[Hashable],
    *,
    named: bool,
    form: str,
) -> None:
    """Add checked rows, every one to the part of its fold: all of them, or nothing."""
    found: list[dict[Hashable, TaskMoments]] = [{} for _ in parts]
    for one in rows:
        found[one.fold][one.label] = TaskMoments.of(one.X, one.y, one.weight)
        _check_finite(found[one.fold][one.label], one, features)
    for part, of_part in zip(parts, found, strict=True):
        if part.features is None or (named and not part.named):
            part.features, part.named = features, named
        part.form = form
        part.seen = part.seen | dict.fromkeys(labels)
        part._merge(of_part)


def _check_finite(sums: TaskMoments, rows: Rows, features: np.ndarray) -> None:
    if np.isfinite(sums.xx.trace() + sums.yy):
        return
    bad = np.flatnonzero(~np.isfinite(np.append(sums.xx.diagonal(), sums.yy)))
    if bad.size:
        of_y = bad[0] == len(features)
        values: Any = rows.y if of_y else rows.X[:, bad[0]]
        values = values.toarray() if hasattr(values, "toarray") else values
        name = f"{'y' if of_y else f'column {features[bad[0]]!r}'} in task {rows.label!r}"
        if not np.isfinite(values).all():
            raise ValueError(f"{name} holds a value that is not finite. Drop such rows first.")
        raise ValueError(f"{name} is too large: the sum of its squares overflows. Rescale it.")
