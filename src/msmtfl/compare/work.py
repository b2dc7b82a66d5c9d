"""The fits of a comparison, each by itself: here, or in another process that was sent the `Work`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from .._estimators.grid_search import GridSearch
from .._paths.validation.held_out import Split
from .._runtime.progress import one_blas_thread
from .._solvers.solvers import LASSOS, POOLING
from .choice.points import Points, recording
from .scoring import Cells, OfFold

WORTHWHILE = 50_000  # coefficients of all fits together, which take some 5 seconds: a process takes 1 or 2 to start


@dataclass(frozen=True, eq=False)
class Work:
    """What fits need.

    X, y, options, task_column : as given by the user
    n_jobs : of searches
    """

    rows: Cells
    splits: Sequence[Split]
    models: Mapping[str, Any]
    X: Any
    y: Any
    options: dict[str, Any]
    task_column: str | int | None
    n_jobs: int | None = None


@dataclass(frozen=True, eq=False)
class Searched:
    """A search that was fitted to all data, what it chose from, and what each fold says of it. There are no points if folds
    have none in common that there was room for."""

    model: Any
    points: Points | None
    parts: list[OfFold]


@dataclass(frozen=True)
class Job:
    """A fit of a model; `size` in units of the comparison's progress. What a search warns of is noted under its name."""

    name: str
    size: float
    call: Callable[[Work], Any]
    is_search: bool = False


def search(name: str, work: Work) -> Searched:
    """Fit a search to all data, on the folds. Its `cv` is left to the caller, as is `n_jobs`."""
    model = clone(work.models[name])
    folds, records = recording(work.splits, work.rows.kind)
    own = {"n_jobs": work.n_jobs} if "n_jobs" in model.get_params(deep=False) else {}
    model.set_params(cv=folds, task_column=work.task_column, **own)
    began = time.perf_counter()
    model.fit(work.X, work.y, **work.options)
    seconds = time.perf_counter() - began
    model.set_params(cv=None)
    if hasattr(model, "_tried"):
        points = Points.of_baseline(model, records, work.rows.data.m)
        model._keep(None)
    else:
        points = Points.of_search(model, records)
    if points.scores.size == 0:
        return Searched(model, None, [])
    of_folds = points.cross_fitted(points.scores)
    features = float(points.n_features[of_folds].mean())
    ends = np.cumsum([record.losses.shape[1] for record in records])[:-1]
    parts = [
        work.rows.of_point(split, np.split(points.losses[p], ends)[f], features, seconds)
        for f, (split, p) in enumerate(zip(work.splits, of_folds.tolist(), strict=True))
    ]
    return Searched(model, points, parts)


def fit(name: str, f: int, work: Work) -> OfFold:
    """Fit a model to the training samples of a fold."""
    return work.rows.held_out(work.models[name], work.splits[f])


def fit_without(name: str, tasks: Sequence[int], work: Work) -> list[tuple[float, ...]]:
    """Fit a model without some tasks: its errors in each of them."""
    return work.rows.new_tasks(work.models[name], tasks)


# ------------------------------------------------------------------ in other processes


def pays(m: int, d: int, fits: int) -> bool:
    """Whether so many fits of m x d coefficients take so long that processes are worth their start."""
    return m * d * fits >= WORTHWHILE


def slowest_first(models: Mapping[str, Any], jobs: Sequence[Job]) -> list[Job]:
    """What takes longest is begun first, so that processes end together: searches that couple tasks, those of them with a
    second parameter before the others, and partial pooling, which has no zeros to profit from."""

    def length(job: Job) -> int:
        model = models[job.name]
        if not isinstance(model, GridSearch) or model._structure == LASSOS:
            return 0
        return 2 if "ratios" in model.get_params(deep=False) or model._structure == POOLING else 1

    return sorted(jobs, key=length, reverse=True)


Said = list[tuple[str, type[Warning]]]


def elsewhere(call: Callable[[Work], Any], filters: Sequence[tuple[Any, ...]]) -> Callable[[Work], tuple[Any, Said]]:
    """A call for another process: what it returns, without the data, and what it warns of by the filters of this one."""
    return partial(_listened_to, call, list(filters))


def _listened_to(call: Callable[[Work], Any], filters: Sequence[tuple[Any, ...]], work: Work) -> tuple[Any, Said]:
    with one_blas_thread(), warnings.catch_warnings(record=True) as said:
        for action, message, category, module, line in reversed(filters):
            warnings.filterwarnings(action, _pattern(message), category, _pattern(module), line)
        found = call(work)
    if isinstance(found, Searched) and isinstance(found.model, GridSearch):
        found.model._part_with_data()
    return found, [(str(one.message), one.category) for one in said]


def _pattern(given: Any) -> str:
    """The text of a filter's pattern, which may be None."""
    return str(given if isinstance(given, str) else given.pattern if given else "")
