"""The estimators for Dask collections."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._data.batches import Dealer
from .._data.designs import Floats
from .._data.folds import TaskKFold
from .._data.tables import factorise
from .._data.tasks import NO_WEIGHT
from .._estimators.base import forget, loss_of
from .._estimators.msmtfl import MSMTFL
from .._estimators.search import MSMTFLCV
from .._objective.problem import Problem
from .._paths.cross_validation import CRITERIA, ERRORS, by_task, read_cv
from .._paths.grids import read_grid
from .._paths.solve import solve_surface
from .._paths.surface import Surface
from .._runtime.checks import check_verbose
from .._runtime.progress import Progress, one_blas_thread
from .._solvers.gram import BUDGET, WHOLE_AT_MOST
from . import reading
from .cluster import Part, connection, is_frame, loaded, modules, partitions, smallest_memory
from .reading import Layout
from .remote import NOTHING, Crew, FoldsElsewhere, RemoteSurface, SearchOnWorkers, fit_on_workers, moment_data
from .staying import Rules, TaskOnWorker

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


def _check(model: Any) -> None:
    model._check_params()
    if loss_of(model) != "squared":
        raise ValueError(f"on a cluster there is squared loss only; the model has loss={model.loss!r}.")


class _OnCluster:
    """What both share: reading collections, adding up statistics, predicting."""

    kind: type[MSMTFL] | type[MSMTFLCV]

    def __init__(self, *, client: Any = None, mode: str = "auto", **parameters: Any):
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, got {mode!r}.")
        self.client, self.mode, self.model = client, mode, self.kind(**parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"client": self.client, "mode": self.mode, **self.model.get_params(deep=deep)}

    def __repr__(self) -> str:
        inside = repr(self.model).split("(", 1)[1].rstrip(")")
        return f"{type(self).__name__}({inside}{', ' if inside else ''}mode={self.mode!r})"

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):
            return getattr(self.model, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def to_local(self) -> Any:
        """The fitted model without the cluster: an MSMTFL (MSMTFLCV) like any other."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self.model, "coef_")
        return self.model

    def predict(self, X: Any, *, task: Any = None) -> Any:
        """Predictions: of a Dask DataFrame or Array a Dask collection like it, of data in memory an array.

        `task` (Dask Series or Array, labels in memory, or of a DataFrame the name of a column) if fit was given it.
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
        future = client.submit(reading.layout_of, *values, self.model.task_column, pure=False)
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
        level = self._each(client, reading.statistics, parts, layout, dealers)
        while len(level) > 1:
            some = [level[i : i + AT_ONCE] for i in range(0, len(level), AT_ONCE)]
            level = client.map(reading.add_up, some, pure=False)
        return level[0]

    # ---------------------------------------------------------------- modes

    def _only_from_statistics(self, layout: Layout) -> str:
        """Why data mode cannot be had; empty if it can."""
        factors = self.model.penalty_factors
        if layout.form == "wide":
            return "data mode takes a label per row, not one column of y per task"
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
        return Census.of(client.gather(self._each(client, reading.count, parts, future)), layout)

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

    def _crew(
        self,
        client: Any,
        parts: list[Part],
        future: Any,
        layout: Layout,
        census: Census,
        fold: list[np.ndarray] | None = None,
        budget: float | None = None,
    ) -> Crew:
        """Every task put together on one worker; fold says where its rows go."""
        model, labels = self.model, census.labels.tolist()
        factors = None if model.penalty_factors is None else np.asarray(model.penalty_factors, dtype=float)
        flags = (bool(model.fit_intercept), bool(model.standardize), bool(model.positive))
        folds = 0 if fold is None else 1 + int(max(mine.max() for mine in fold))
        rules = Rules(*flags, factors, len(labels), (budget or BUDGET) / (len(labels) * (1 + folds)))
        pieces = self._each(client, reading.pieces, parts, future)
        pairs = [(pieces[i], label) for label, places in zip(labels, census.places, strict=True) for i in places]
        picked = iter(client.map(reading.pick, *zip(*pairs, strict=True), pure=False))
        mine = [list(islice(picked, len(places))) for places in census.places]
        m = len(labels)
        given = [[future] * m, [rules] * m, [None] * m if fold is None else fold]
        tasks = client.map(TaskOnWorker, mine, labels, *given, pure=False)
        return Crew(client, tasks, census.labels, layout, folds)

    def _note(self, model: Any, layout: Layout, crew: Crew | None) -> None:
        """Keep a fitted model, and say how it came about."""
        forget(model, "feature_names_in_")
        if layout.columns is not None and all(isinstance(name, str) for name in layout.columns):
            model.feature_names_in_ = np.array(layout.columns, dtype=object)  # in the order of a table to predict
        self.model = model
        self._note_messages(crew)

    def _note_messages(self, crew: Crew | None) -> None:
        self.mode_ = "moments" if crew is None else "data"
        forget(self, "messages_")
        if crew is not None:
            self.messages_ = crew.messages


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
    def of(told: list[dict[Any, tuple[int, int]]], layout: Layout) -> Census:
        seen = list(dict.fromkeys(label for one in told for label in one))
        if not seen:
            raise ValueError(NOTHING)
        labels = layout.in_order(factorise(seen, len(seen))[0])
        both = np.array([[one.get(label, (0, 0)) for one in told] for label in labels.tolist()])  # (m, partitions, 2)
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
        return [fold.astype(np.int16) for fold in cv.deal_tasks(self.labels, self.rows)]

    def hands(self, fold: list[np.ndarray], folds: int) -> list[reading.Dealt]:
        """The same, for every partition."""
        parts = [np.split(mine, np.cumsum(of_task)[:-1]) for mine, of_task in zip(fold, self.counts, strict=True)]
        labels = self.labels.tolist()
        return [
            reading.Dealt(folds, {label: parts[i][place] for i, label in enumerate(labels)})
            for place in range(self.counts.shape[1])
        ]


class DaskMSMTFL(_OnCluster):
    """:class:`MSMTFL` for Dask collections.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the one in use.
    mode : {"auto", "moments", "data"}, default="auto"
        Statistics added up in a tree, or data that stay on the workers (one task's rows on one). "auto" goes over the data
        once more and chooses by size: statistics where they are small, or where a task's rows do not fit into half of a
        worker's memory; and where data mode cannot be had (relax, a 2-D y, penalty factors that differ between tasks or
        are 0).
    **parameters
        Those of :class:`MSMTFL`.

    Attributes are those of :class:`MSMTFL`; `mode_` says which mode was used last, `messages_` how many bytes of stage
    messages went out and came back in data mode, in how many rounds.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import numpy as np
    >>> import pandas as pd
    >>> from distributed import Client
    >>> from msmtfl.dask import DaskMSMTFL
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.standard_normal((90, 3)), columns=["age", "bmi", "ldl"])
    >>> table["hospital"], table["score"] = np.repeat(["north", "south", "west"], 30), 2 * table["bmi"]
    >>> with Client(processes=False, dashboard_address=None):  # on a cluster: Client(address)
    ...     model = DaskMSMTFL(task_column="hospital").fit(dd.from_pandas(table, npartitions=2), "score")
    >>> model.features_[model.coef_.any(axis=0)]
    array(['bmi'], dtype=object)
    """

    kind = MSMTFL

    def fit(self, X: Any, y: Any = None, *, task: Any = None, sample_weight: Any = None) -> DaskMSMTFL:
        """Fit.

        Parameters
        ----------
        X : Dask DataFrame (with the task column, see `task_column`), Dask Array, or list of futures (X, y[, task[, weight]])
        y : Dask Series or Array of the same partitions, or the name of a column of X
        task, sample_weight : the same, if need be
        """
        _check(self.model)
        client = self._client()
        parts = partitions(X, y, task, sample_weight)
        with connection(client):
            data, layout, crew = self._data(client, parts)
            model: Any = copy(self.model)  # which stays as it is until all has gone well
            if crew is None:
                model.fit(data, None)
            else:
                fit_on_workers(model, crew)
        self._note(model, layout, crew)
        return self

    def surface(
        self,
        X: Any,
        y: Any = None,
        *,
        task: Any = None,
        sample_weight: Any = None,
        lams: Any = 50,
        theta_ratios: Any = None,
        thetas: Any = None,
        lam_min_ratio: float | None = None,
        entry_shares: Any = (0.0,),
        entry_ratios: Any = None,
        verbose: bool = False,
    ) -> Surface:
        """:func:`regularization_surface` of Dask collections (see :meth:`fit`) with this estimator's parameters; lam, theta
        (those of entries too) and starting point are not used.

        From statistics it is solved where the client is. Of data that stay on the workers all stages that come next are
        solved there at a time, with their certificates.
        """
        _check(self.model)
        check_verbose(verbose)
        client, model = self._client(), self.model
        parts = partitions(X, y, task, sample_weight)

        def grid_of(problem: Problem) -> Any:
            return read_grid(
                problem, lams, theta_ratios, thetas, lam_min_ratio, entry_shares, entry_ratios, model.penalty
            )

        with connection(client):
            data, _, crew = self._data(client, parts)
            problem = copy(model)._make_problem(data, None, None, None) if crew is None else crew.make_problem(model)
            grid = grid_of(problem)
            with one_blas_thread(), Progress(grid.steps, "lams", verbose) as progress:
                if crew is None:
                    surface = solve_surface(
                        problem,
                        grid,
                        max_stages=model.max_stages,
                        tol=model.tol,
                        max_iter=model.max_iter or 0,
                        n_jobs=model.n_jobs,
                        tick=progress.step,
                        stop=progress.stop,
                    )
                else:
                    walks = RemoteSurface(problem, grid, crew, model.max_stages, model.max_iter or 0, 0)
                    walks.run(progress)
                    surface = walks.surface(model.tol)
        self._note_messages(crew)
        return surface

    def _data(self, client: Any, parts: list[Part]) -> tuple[Any, Layout, Crew | None]:
        """Statistics, or a crew."""
        future, layout = self._layout(client, parts)
        census = self._census(client, parts, future, layout, 0)
        if census is not None and self._stay(client, census, layout, 0):
            return None, layout, self._crew(client, parts, future, layout, census)
        moments = self._moments(client, parts, future, layout.d, [None] * len(parts)).result()
        return moment_data(moments, self.model.task_column, layout), layout, None


class DaskMSMTFLCV(_OnCluster):
    """:class:`MSMTFLCV` for Dask collections, with the same folds: statistics of every fold are added up in a tree and folds
    solved on workers; or all folds are solved where the rows are.

    Parameters are those of :class:`DaskMSMTFL` and :class:`MSMTFLCV`; `cv` is a number of folds or a :class:`TaskKFold`, and
    `scoring` one of "neg_nmse", "neg_amse" and "neg_mse". Rows are dealt out as :class:`MSMTFLCV` does it if they are in the
    order of the partitions (for a 2-D y: evenly within every partition); the data are gone over once more to count them.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import numpy as np
    >>> import pandas as pd
    >>> from distributed import Client
    >>> from msmtfl.dask import DaskMSMTFLCV
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.standard_normal((90, 3)), columns=["age", "bmi", "ldl"])
    >>> table["hospital"], table["score"] = np.repeat(["north", "south", "west"], 30), 2 * table["bmi"]
    >>> table["score"] += 0.1 * rng.standard_normal(90)
    >>> with Client(processes=False, dashboard_address=None):  # on a cluster: Client(address)
    ...     model = DaskMSMTFLCV(task_column="hospital", cv=3, lams=10).fit(dd.from_pandas(table, npartitions=2), "score")
    >>> model.features_[model.coef_.any(axis=0)]
    array(['bmi'], dtype=object)
    """

    kind = MSMTFLCV

    def fit(self, X: Any, y: Any = None, *, task: Any = None, sample_weight: Any = None) -> DaskMSMTFLCV:
        """Fit; see :meth:`DaskMSMTFL.fit`."""
        _check(self.model)
        cv = self._cv()
        client = self._client()
        parts = partitions(X, y, task, sample_weight)
        folds = 0 if cv is None else cv.n_splits
        with connection(client):
            future, layout = self._layout(client, parts)
            census = self._census(client, parts, future, layout, folds)
            fold = None if census is None or cv is None else census.dealt(cv)
            crew, model = None, copy(self.model)  # which stays as it is until all has gone well
            if census is not None and self._stay(client, census, layout, folds):
                crew = self._crew(client, parts, future, layout, census, fold, self.model.memory_budget)
                SearchOnWorkers(model, crew).fit()
            else:
                dealers = self._dealers(len(parts), census, fold, cv)
                moments = self._moments(client, parts, future, layout.d, dealers)
                data = moment_data(moments.result(), model.task_column, layout)
                FoldsElsewhere(model, client, moments, future).fit(data)
        self._note(model, layout, crew)
        return self

    def _cv(self) -> TaskKFold | None:
        """How rows are dealt out to folds; None where an information criterion does without."""
        if self.model.selection in CRITERIA:
            return None
        cv = read_cv(self.model.cv, self.model.random_state)
        if not by_task(cv):
            raise ValueError("on a cluster cv must be a number of folds, or a TaskKFold without labels of its own.")
        if not (isinstance(self.model.scoring, str) and self.model.scoring in ERRORS):
            raise ValueError(
                f"on a cluster scoring must be one of {', '.join(map(repr, ERRORS))}; got {self.model.scoring!r}."
            )
        return cv

    @staticmethod
    def _dealers(
        count: int, census: Census | None, fold: list[np.ndarray] | None, cv: TaskKFold | None
    ) -> Sequence[Any]:
        """What deals out the rows of every partition."""
        if cv is None:
            return [None] * count
        if census is not None and fold is not None:
            return census.hands(fold, cv.n_splits)
        seed = int(check_random_state(cv.random_state).randint(2**31 - 1))
        return [Dealer(cv.n_splits, seed + place) for place in range(count)]
