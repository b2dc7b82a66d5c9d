"""What the estimators for Dask collections share: reading, counting and adding up partitions, and predicting them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._data.folds import TaskKFold
from .._data.tables import factorise
from .._data.task_data import NO_WEIGHT
from .._estimators.fitted import forget, loss_of
from .._estimators.msmtfl.fit import MSMTFL
from .._estimators.msmtfl.search import MSMTFLCV
from .._solvers.gram import BUDGET, WHOLE_AT_MOST
from .client import NOTHING, TasksOnWorkers
from .cluster import Part, is_frame, loaded, modules, smallest_memory
from .reading import KnownFolds, Layout, add_up, count, layout_of, pick, pieces_of, statistics_of
from .worker import Rules, TaskOnWorker

MODES = ("auto", "moments", "data")
AT_ONCE = 4  # statistics added up at a time
TWICE = 2  # a task's rows are there twice while they are put together


# ------------------------------------------------------------------ predictions


def _predicted(part: Any, task: Any, model: Any) -> Floats:
    """A model's predictions for a partition, which may be empty."""
    if len(part) == 0:
        return np.empty((0, len(model.tasks_)) if model._form == "wide" and task is None else 0)
    return np.asarray(model.predict(part, task=task))


def _predict_frame(part: Any, task: Any, model: Any) -> Any:
    import pandas as pd

    if isinstance(task, str):
        part, task = part.drop(columns=task), part[task]
    values = _predicted(part, task, model)
    if values.ndim == 2:
        return pd.DataFrame(values, index=part.index, columns=model.tasks_)
    return pd.Series(values, index=part.index, name="prediction")


def _predict_block(part: Any, labels: Any, model: Any) -> Floats:
    return _predicted(part, labels[:, 0], model)


# ------------------------------------------------------------------ the estimators


def check_model(model: Any, offset: Any) -> None:
    model._check_params()
    if offset is not None:
        raise ValueError(
            "on a cluster there are no offsets. Its loss is squared: subtract the offset from y, which gives the same "
            "model, and add it to the predictions."
        )
    if loss_of(model) != "squared":
        raise ValueError(f"on a cluster there is squared loss only; the model has loss={model.loss!r}.")
    if isinstance(getattr(model, "l1_ratio", 1.0), (list, tuple, np.ndarray)):
        raise ValueError(f"on a cluster l1_ratio must be one number; the model has l1_ratio={model.l1_ratio!r}.")


class OnCluster:
    """What both share: reading collections, adding up statistics, predicting."""

    kind: type[MSMTFL | MSMTFLCV]

    def __init__(self, *, client: Any = None, mode: str = "auto", **parameters: Any):
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, got {mode!r}.")
        self.client, self.mode, self.model = client, mode, self.kind(**parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the model, `client` and `mode` among them.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of parameters that are estimators.

        Returns
        -------
        dict {name: value}
            The parameters.
        """
        return {"client": self.client, "mode": self.mode, **self.model.get_params(deep=deep)}

    def __repr__(self) -> str:
        inside = repr(self.model).split("(", 1)[1].rstrip(")")
        return f"{type(self).__name__}({inside}{', ' if inside else ''}mode={self.mode!r})"

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):
            return getattr(self.model, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def to_local(self) -> Any:
        """Return the fitted model without the cluster, an MSMTFL (or MSMTFLCV) like any other.

        Returns
        -------
        MSMTFL or MSMTFLCV
            The model.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self.model, "coef_")
        return self.model

    def predict(self, X: Any, *, task: Any = None) -> Any:
        """Predict the targets of samples, in a Dask collection or in memory.

        Parameters
        ----------
        X : Dask DataFrame, Dask Array, DataFrame or ndarray
            Samples in the form that was given to `fit`.
        task : Dask Series, Dask Array, array-like or str, optional
            Task labels, if `fit` was given them; for a DataFrame the name of a column.

        Returns
        -------
        Dask collection or ndarray
            Predictions: for a Dask DataFrame or Array a Dask collection like it, for data in memory an array.
        """
        model = self.to_local()
        if is_frame(X):
            return self._predict_frames(model, X, task)
        if not hasattr(X, "chunks"):
            return model.predict(X, task=task)
        from dask import array

        X = X.rechunk({1: -1})
        if task is not None:
            labels = task if hasattr(task, "chunks") else array.from_array(np.asarray(task), chunks=-1)
            labels = labels.rechunk({0: X.chunks[0]})[:, None]
            return array.map_blocks(_predict_block, X, labels, model, dtype=float, drop_axis=1)
        wide = model._form == "wide"
        shape = {"chunks": (X.chunks[0], (len(model.tasks_),))} if wide else {"drop_axis": 1}
        return X.map_blocks(_predicted, None, model, dtype=float, **shape)

    @staticmethod
    def _predict_frames(model: Any, X: Any, task: Any) -> Any:
        import pandas as pd

        meta: Any = ("prediction", "f8")
        if model._form == "wide" and task is None:
            meta = pd.DataFrame(columns=model.tasks_, dtype=float)
        if task is not None and not isinstance(task, str) and getattr(task, "npartitions", None) != X.npartitions:
            raise ValueError("task must be a Dask Series with the partitions of X, or the name of a column of X.")
        return X.map_partitions(_predict_frame, task, model, meta=meta, align_dataframes=False)

    # ---------------------------------------------------------------- the cluster

    def _client(self) -> Any:
        _, distributed = modules()
        if self.client is not None:
            return self.client
        try:
            return distributed.get_client()
        except ValueError as error:
            raise ConnectionError(
                "there is no Dask client: start one, client = distributed.Client(), or pass client=."
            ) from error

    def _each(self, client: Any, function: Any, parts: list[Part], layout: Any, *more: Sequence[Any]) -> list[Any]:
        """Futures of a function of every part's place, the layout (a future), its content, the task column, and more."""
        content = zip(*loaded(client, parts), strict=True)
        columns = [self.model.task_column] * len(parts)
        same = [layout] * len(parts)
        return client.map(function, range(len(parts)), same, *content, columns, *more, pure=False)

    def _layout(self, client: Any, parts: list[Part]) -> tuple[Any, Layout]:
        """A future of it, so that d names need not go out with every piece of work; and itself."""
        values = loaded(client, parts[:1])[0]
        future = client.submit(layout_of, *values, self.model.task_column, pure=False)
        return future, future.result()

    def _moments(self, client: Any, parts: list[Part], layout: Any, d: int, dealers: Sequence[Any]) -> Any:
        """A future of the statistics of all partitions (of every fold, if rows are dealt out), added up in a tree."""
        one, room = 8.0 * d**2, smallest_memory(client)
        folds = 1 if dealers[0] is None else dealers[0].folds
        if (AT_ONCE + 1) * folds * one > room:
            raise ValueError(
                f"the statistics of a task with {d} features take {_gigabytes(one)}, and {(AT_ONCE + 1) * folds} of them "
                f"have to fit into a worker's memory, {_gigabytes(room)}. Use fewer features"
                + (" or" if folds == 1 else ", fewer folds or")
                + " mode='data'."
            )
        level = self._each(client, statistics_of, parts, layout, dealers)
        while len(level) > 1:
            some = [level[i : i + AT_ONCE] for i in range(0, len(level), AT_ONCE)]
            level = client.map(add_up, some, pure=False)
        return level[0]

    # ---------------------------------------------------------------- modes

    def _only_from_statistics(self, layout: Layout) -> str:
        """Why data mode cannot be had; empty if it can."""
        factors = self.model.penalty_factors
        if layout.form == "wide":
            return "data mode takes a label per row, not one column of y per task"
        if self.model.intercepts != "task":
            return f"intercepts={self.model.intercepts!r} needs the statistics of all tasks where the client is"
        if self.model.bounds is not None:
            return "bounds need the statistics of all tasks where the client is"
        if self.model.feature_groups is not None:
            return "groups of features need the statistics of all tasks where the client is"
        if self.model.relax:
            return "relax=True needs the data where the client is"
        if factors is not None and (np.ndim(factors) != 1 or (np.asarray(factors) == 0).any()):
            return "in data mode penalty_factors must be one per feature, none of them 0"
        return ""

    def _census(self, client: Any, parts: list[Part], future: Any, layout: Layout, folds: int) -> Census | None:
        """The tasks, if anything depends on them: which mode, or which rows a fold gets."""
        reason = self._only_from_statistics(layout)
        if self.mode == "data" and reason:
            raise ValueError(f"{reason}: use mode='moments'.")
        if (self.mode == "moments" or reason) and (not folds or layout.form == "wide"):
            return None
        return Census.of(client.gather(self._each(client, count, parts, future)), layout)

    def _stay(self, client: Any, census: Census | None, layout: Layout, folds: int) -> bool:
        """Whether the rows are to stay on the workers."""
        if census is None or self.mode == "moments" or self._only_from_statistics(layout):
            return False
        statistics, room = 8.0 * (1 + folds) * len(census.labels) * layout.d**2, smallest_memory(client)
        auto = self.mode == "auto"
        if auto and layout.d <= WHOLE_AT_MOST and statistics <= BUDGET:
            return False
        largest = int(np.argmax(census.size))
        if TWICE * census.size[largest] <= room:
            return True
        if auto and (AT_ONCE + 1) * statistics <= room:
            return False
        raise ValueError(
            f"the {census.rows[largest]} rows of task {census.labels.tolist()[largest]!r} take "
            f"{_gigabytes(census.size[largest])}, more than half of a worker's memory, {_gigabytes(room)}. Use workers with "
            f"more memory, or mode='moments', which needs {_gigabytes(statistics)} for the statistics of all tasks."
        )

    def _tasks_on_workers(
        self,
        client: Any,
        parts: list[Part],
        future: Any,
        layout: Layout,
        census: Census,
        fold: list[np.ndarray] | None = None,
        budget: float | None = None,
    ) -> TasksOnWorkers:
        """Every task put together on one worker; fold says where its rows go."""
        model, labels = self.model, census.labels.tolist()
        factors = None if model.penalty_factors is None else np.asarray(model.penalty_factors, dtype=float)
        flags = (bool(model.fit_intercept), bool(model.standardize), bool(model.positive))
        folds = 0 if fold is None else 1 + int(max(mine.max() for mine in fold))
        rules = Rules(*flags, factors, len(labels), (budget or BUDGET) / (len(labels) * (1 + folds)))
        pieces = self._each(client, pieces_of, parts, future)
        pairs = [(pieces[i], label) for label, places in zip(labels, census.places, strict=True) for i in places]
        picked = iter(client.map(pick, *zip(*pairs, strict=True), pure=False))
        mine = [list(islice(picked, len(places))) for places in census.places]
        m = len(labels)
        given = [[future] * m, [rules] * m, [None] * m if fold is None else fold]
        tasks = client.map(TaskOnWorker, mine, labels, *given, pure=False)
        return TasksOnWorkers(client, tasks, census.labels, layout, folds)

    def _note(self, model: Any, layout: Layout, workers: TasksOnWorkers | None) -> None:
        """Keep a fitted model, and say how it came about."""
        forget(model, "feature_names_in_")
        if layout.columns is not None and all(isinstance(name, str) for name in layout.columns):
            model.feature_names_in_ = np.array(layout.columns, dtype=object)  # in the order of a table to predict
        self.model = model
        self._note_messages(workers)

    def _note_messages(self, workers: TasksOnWorkers | None) -> None:
        self.mode_ = "moments" if workers is None else "data"
        forget(self, "messages_")
        if workers is not None:
            self.messages_ = workers.messages


def _gigabytes(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"


@dataclass(frozen=True)
class Census:
    """The tasks of all partitions: labels in the order of a local fit, rows and bytes (m,), rows by partition (m, parts)."""

    labels: np.ndarray
    rows: np.ndarray
    size: np.ndarray
    counts: np.ndarray

    @staticmethod
    def of(summaries: list[dict[Any, tuple[int, int]]], layout: Layout) -> Census:
        seen = list(dict.fromkeys(label for one in summaries for label in one))
        if not seen:
            raise ValueError(NOTHING)
        labels = layout.in_order(factorise(seen, len(seen))[0])
        both = np.array(
            [[one.get(label, (0, 0)) for one in summaries] for label in labels.tolist()]
        )  # (m, partitions, 2)
        rows, size = both.sum(axis=1).T
        if not rows.all():
            raise ValueError(NO_WEIGHT.format(labels.tolist()[int(np.argmin(rows))]))
        return Census(labels, rows, size, both[:, :, 0])

    @property
    def places(self) -> list[list[int]]:
        """For every task the partitions that have rows of it."""
        return [np.flatnonzero(of_task).tolist() for of_task in self.counts]

    def dealt(self, cv: TaskKFold) -> list[np.ndarray]:
        """For every task the folds of its rows, in the order of the partitions."""
        if self.rows.min() < cv.n_splits:  # workers score every task in every fold
            i = int(np.argmin(self.rows))
            raise ValueError(
                f"task {self.labels.tolist()[i]!r} has {self.rows[i]} sample(s), fewer than n_splits={cv.n_splits} folds: "
                "on a cluster that is too few. Use fewer folds, or leave that task out."
            )
        return [fold.astype(np.int16) for fold in cv.deal_tasks(self.labels, self.rows)]

    def fold_by_task(self, fold: list[np.ndarray], folds: int) -> list[KnownFolds]:
        """The same, for every partition."""
        parts = [np.split(mine, np.cumsum(of_task)[:-1]) for mine, of_task in zip(fold, self.counts, strict=True)]
        labels = self.labels.tolist()
        return [
            KnownFolds(folds, {label: parts[i][place] for i, label in enumerate(labels)})
            for place in range(self.counts.shape[1])
        ]
