"""The estimators for Dask collections."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._data.designs import Floats
from .._data.folds import TaskKFold
from .._data.statistics.dealer import Dealer
from .._data.tables import factorise
from .._data.tasks import NO_WEIGHT
from .._estimators.fitted import forget, loss_of
from .._estimators.msmtfl.fit import MSMTFL
from .._estimators.msmtfl.search import MSMTFLCV
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


def _check(model: Any, offset: Any) -> None:
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


class _OnCluster:
    """What both share: reading collections, adding up statistics, predicting."""

    kind: type[MSMTFL] | type[MSMTFLCV]

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
        if self.rows.min() < cv.n_splits:  # workers score every task in every fold
            i = int(np.argmin(self.rows))
            raise ValueError(
                f"task {self.labels.tolist()[i]!r} has {self.rows[i]} sample(s), fewer than n_splits={cv.n_splits} folds: "
                "on a cluster that is too few. Use fewer folds, or leave that task out."
            )
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
    """MSMTFL for Dask collections.

    After a fit it has the attributes of :class:`MSMTFL`.

    Parameters
    ----------
    client : distributed.Client, optional
        The client of the cluster; by default the one in use.
    mode : {"auto", "moments", "data"}, default="auto"
        "moments": statistics are added up in a tree. "data": the data stay on the workers, the samples of
        one task on one worker. "auto" goes over the data once more and chooses by size: statistics where
        they are small, or where a task's samples do not fit into half of a worker's memory; and where
        data mode cannot be had (relax, a 2-D y, penalty factors that differ between tasks or are 0).
    **parameters : object
        The parameters of :class:`MSMTFL`, by name.

    Attributes
    ----------
    mode_ : str
        The mode that was used last.
    messages_ : dict {name: int}
        In data mode: how many bytes of stage messages went out and came back, in how many rounds.
    coef_ : ndarray of shape (m, d)
        Coefficients of every task in the data's units; (d,) if the model was fitted without
        tasks.
    intercept_ : ndarray of shape (m,)
        Intercepts of the tasks; a float if the model was fitted without tasks.
    tasks_ : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `coef_`.
    features_ : ndarray of shape (d,)
        Names of the features, in the order of the last axis of `coef_`.

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

    def fit(
        self, X: Any, y: Any = None, *, task: Any = None, sample_weight: Any = None, offset: Any = None
    ) -> DaskMSMTFL:
        """Fit the model.

        Parameters
        ----------
        X : Dask DataFrame, Dask Array or list of futures
            Samples of all tasks: a DataFrame (with the column that identifies the task, see
            `task_column`), an Array, or futures of tuples (X, y), (X, y, task) or (X, y, task,
            sample_weight).
        y : Dask Series, Dask Array or str, optional
            Targets in the partitions of X, or the name of a column of X. Not needed where X is
            a list of futures.
        task : Dask Series, Dask Array or str, optional
            Task labels in the partitions of X, or the name of a column of X.
        sample_weight : Dask Series, Dask Array or str, optional
            Weights of the samples in the partitions of X, or the name of a column of X.
        offset : None, optional
            Not available on a cluster: the error says how to do without.

        Returns
        -------
        DaskMSMTFL
            The fitted model itself.
        """
        _check(self.model, offset)
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
        offset: Any = None,
    ) -> Surface:
        """Fit a whole grid of lam and theta with this model's other parameters.

        The model's own lam, theta, lam_entry, theta_entry and coef_init are not used. From statistics the grid
        is solved where the client is. With data that stay on the workers all stages that come next are solved
        there at a time, with their certificates.

        Parameters
        ----------
        X : Dask DataFrame, Dask Array or list of futures
            Samples of all tasks: a DataFrame (with the column that identifies the task, see
            `task_column`), an Array, or futures of tuples (X, y), (X, y, task) or (X, y, task,
            sample_weight).
        y : Dask Series, Dask Array or str, optional
            Targets in the partitions of X, or the name of a column of X. Not needed where X is
            a list of futures.
        task : Dask Series, Dask Array or str, optional
            Task labels in the partitions of X, or the name of a column of X.
        sample_weight : Dask Series, Dask Array or str, optional
            Weights of the samples in the partitions of X, or the name of a column of X.
        lams : int or array-like of shape (K,), default=50
            How many values of lam the grid has, geometrically spaced from the smallest at which
            all coefficients are 0 down to `lam_min_ratio` times that; or the values themselves,
            in any order.
        theta_ratios : array-like of shape (L,), optional
            Values of theta in units of m lam / rho_bar, with rho_bar the mean square of the
            columns. By default six from 1 to max(50, 11 m), and inf, which is the lasso.
        thetas : array-like of shape (L,) or (K, L), optional
            Values of theta themselves, instead of ratios; inf is allowed.
        lam_min_ratio : float, optional
            The smallest lam of the grid over the largest. By default 1e-3, or 1e-4 if every
            task has more samples than features.
        entry_shares : array-like of numbers from 0 to 1, default=(0.0,)
            Shares s of lam that go to a penalty on every coefficient by itself: lam_entry = s
            lam, which leaves (1 - s) lam for the features. 0 is the paper's model. The columns
            of the surface are all combinations of share, theta and entry ratio.
        entry_ratios : array-like, optional
            Values of theta_entry in units of m lam / rho_bar; by default 0.5 and 2.
        verbose : bool, default=False
            Whether to show a progress bar.
        offset : None, optional
            Not available on a cluster: the error says how to do without.

        Returns
        -------
        Surface
            The solutions at all points of the grid.
        """
        _check(self.model, offset)
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
    """MSMTFLCV for Dask collections, with the same folds.

    Statistics of every fold are added up in a tree and folds solved on workers; or all folds are solved
    where the samples are. Samples are dealt out as :class:`MSMTFLCV` does it if they are in the order of
    the partitions (with a 2-D y: evenly within every partition); the data are gone over once more to count
    them. After a fit it has the attributes of :class:`MSMTFLCV`.

    Parameters
    ----------
    client : distributed.Client, optional
        The client of the cluster; by default the one in use.
    mode : {"auto", "moments", "data"}, default="auto"
        "moments": statistics are added up in a tree. "data": the data stay on the workers, the samples of
        one task on one worker. "auto" goes over the data once more and chooses by size: statistics where
        they are small, or where a task's samples do not fit into half of a worker's memory; and where
        data mode cannot be had (relax, a 2-D y, penalty factors that differ between tasks or are 0).
    **parameters : object
        The parameters of :class:`MSMTFLCV`, by name; `cv` is a number of folds or a :class:`TaskKFold`,
        and `scoring` one of "neg_nmse", "neg_amse" and "neg_mse".

    Attributes
    ----------
    mode_ : str
        The mode that was used last.
    lam_ : float
        The strength of the penalty that was used.
    theta_ : float
        The norm from which a feature is free that was used.
    cv_results_ : dict of arrays
        One entry per point of the grid, lam outermost, ready for a table: lam, theta,
        theta_ratio, n_rows (features used in any task), n_entries (coefficients that are
        not 0), n_stages, eligible, mean_test_score, std_test_score, se_test_score,
        rank_test_score, split0_test_score, ...; test_mse (test_deviance, if that is the
        scoring) and test_weight hold an array (folds, m) per point. Without folds the
        criterion stands in place of scores, NaN where it is not known. A point is
        `eligible`, and has scores, where every fold and all data were solved just as
        :class:`MSMTFL` solves them. A search stops short of stages that would leave more
        features un-penalised than most tasks have independent samples: such points have NaN
        and are not chosen.
    coef_ : ndarray of shape (m, d)
        Coefficients of every task in the data's units; (d,) if the model was fitted without
        tasks.
    intercept_ : ndarray of shape (m,)
        Intercepts of the tasks; a float if the model was fitted without tasks.
    tasks_ : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `coef_`.
    features_ : ndarray of shape (d,)
        Names of the features, in the order of the last axis of `coef_`.

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

    def fit(
        self, X: Any, y: Any = None, *, task: Any = None, sample_weight: Any = None, offset: Any = None
    ) -> DaskMSMTFLCV:
        """Choose lam and theta, and fit the model to all samples with them.

        Parameters
        ----------
        X : Dask DataFrame, Dask Array or list of futures
            Samples of all tasks: a DataFrame (with the column that identifies the task, see
            `task_column`), an Array, or futures of tuples (X, y), (X, y, task) or (X, y, task,
            sample_weight).
        y : Dask Series, Dask Array or str, optional
            Targets in the partitions of X, or the name of a column of X. Not needed where X is
            a list of futures.
        task : Dask Series, Dask Array or str, optional
            Task labels in the partitions of X, or the name of a column of X.
        sample_weight : Dask Series, Dask Array or str, optional
            Weights of the samples in the partitions of X, or the name of a column of X.
        offset : None, optional
            Not available on a cluster: the error says how to do without.

        Returns
        -------
        DaskMSMTFLCV
            The fitted model itself.
        """
        _check(self.model, offset)
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
