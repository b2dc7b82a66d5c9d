"""What is asked of a cluster, and the parts that Dask collections are taken in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._data.tables import choices_of


def modules() -> tuple[Any, Any]:
    try:
        import dask
        import distributed
    except ImportError as error:
        raise ImportError('msmtfl.dask needs dask and distributed: pip install "msmtfl[dask]"') from error
    return dask, distributed


@contextlib.contextmanager
def connection(client: Any) -> Iterator[None]:
    """A cluster that goes away gives an error that says so."""
    _, distributed = modules()
    from concurrent.futures import CancelledError

    try:
        yield
    except distributed.KilledWorker as error:
        raise ConnectionError(
            f"workers died, one after the other, at the same piece of work, most often for lack of memory: {error} Nothing "
            "was fitted; use smaller partitions, or workers with more memory."
        ) from error
    except Exception as error:
        gone = isinstance(error, (CancelledError, distributed.comm.core.CommClosedError))
        if not gone and client.status == "running":
            raise
        raise ConnectionError(
            f"the Dask cluster or its client went away during the fit ({type(error).__name__}: {error}). Nothing was "
            "fitted; start a client and fit again. (Data that were scattered to workers are lost with them.)"
        ) from error


def smallest_memory(client: Any) -> float:
    """Bytes that every worker may use; inf if that is not known."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return min((float(one["memory_limit"]) for one in workers if one.get("memory_limit")), default=np.inf)


@dataclass(frozen=True)
class Part:
    """X, y, task labels (None: in X, or one task) and weights (or None) of some rows: delayed, futures, in memory, or names
    of columns of X. y is None where X is a future of all."""

    X: Any
    y: Any
    task: Any = None
    weight: Any = None

    @property
    def values(self) -> tuple[Any, Any, Any, Any]:
        return self.X, self.y, self.task, self.weight


def is_frame(X: Any) -> bool:
    return hasattr(X, "to_delayed") and hasattr(X, "npartitions") and not hasattr(X, "chunks")


def partitions(X: Any, y: Any, task: Any, sample_weight: Any) -> list[Part]:
    """Dask DataFrames, Dask Arrays, or a list of futures of (X, y[, task[, weight]]) as parts."""
    if isinstance(X, (list, tuple)):
        if y is not None or task is not None or sample_weight is not None:
            raise ValueError(
                "a list of futures holds X, y and task labels in each: leave y, task and sample_weight out."
            )
        if not X:
            raise ValueError("an empty list of futures: nothing to fit.")
        return [Part(one, None) for one in X]
    if not is_frame(X) and not hasattr(X, "chunks"):
        raise TypeError(
            f"X is a {type(X).__name__}; expected a Dask DataFrame or Array, or a list of futures. For data "
            "in memory: MSMTFL."
        )
    if y is None:
        raise ValueError("y is missing: pass the target, or (of a DataFrame) the name of its column.")
    others = {"y": y, "task": task, "sample_weight": sample_weight}
    return _of_frames(X, others) if is_frame(X) else _of_arrays(X, others)


def _of_frames(X: Any, others: dict[str, Any]) -> list[Part]:
    def split(name: str, value: Any) -> list[Any]:
        if value is None:
            return [None] * X.npartitions
        if isinstance(value, str):  # split off on the worker, where rows are sure to stand side by side
            if value not in X.columns:
                raise ValueError(f"{name}={value!r} is not a column of X. Columns: {choices_of(value, X.columns)}.")
            return [value] * X.npartitions
        if not hasattr(value, "to_delayed"):
            raise TypeError(
                f"{name} is a {type(value).__name__}; with a Dask DataFrame pass a Dask Series, or a column's name."
            )
        if value.npartitions != X.npartitions:
            raise ValueError(f"{name} has {value.npartitions} partitions, X has {X.npartitions}.")
        return list(np.ravel(value.to_delayed()))

    columns = [split(name, value) for name, value in others.items()]
    return [Part(*one) for one in zip(X.to_delayed(), *columns, strict=True)]


def _of_arrays(X: Any, others: dict[str, Any]) -> list[Part]:
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimension(s); expected rows and columns.")
    for name, value in {"X": X, **others}.items():
        if any(np.isnan(size) for sizes in getattr(value, "chunks", ()) for size in sizes):
            raise ValueError(f"the chunks of {name} have unknown sizes: call {name}.compute_chunk_sizes() first.")
    X = X.rechunk({1: -1})

    def split(name: str, values: Any) -> list[Any]:
        if values is None:
            return [None] * X.numblocks[0]
        if isinstance(values, str):
            raise TypeError(f"{name}={values!r}: a Dask Array has no names of columns. Pass the values.")
        if len(values) != X.shape[0]:
            raise ValueError(f"{name} has {len(values)} rows, X has {X.shape[0]}.")
        if hasattr(values, "chunks"):
            whole = {0: X.chunks[0]} | ({1: -1} if values.ndim == 2 else {})
            return list(np.ravel(values.rechunk(whole).to_delayed()))
        return list(np.split(np.asarray(values), np.cumsum(X.chunks[0])[:-1]))

    columns = [split(name, values) for name, values in others.items()]
    return [Part(*one) for one in zip(X.to_delayed()[:, 0], *columns, strict=True)]


def loaded(client: Any, parts: list[Part]) -> list[tuple[Any, Any, Any, Any]]:
    """The parts' contents, collections as futures: in one graph, so that what they have in common is computed once."""
    dask, _ = modules()
    found = [v for part in parts for v in part.values if dask.is_dask_collection(v)]
    futures = iter(client.compute(found))
    return [tuple(next(futures) if dask.is_dask_collection(v) else v for v in part.values) for part in parts]
