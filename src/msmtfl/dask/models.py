"""The estimators for Dask collections."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._data.folds import TaskKFold
from .._data.statistics.dealer import Dealer
from .._estimators.msmtfl.fit import MSMTFL
from .._estimators.msmtfl.search import MSMTFLCV
from .._objective.problem import Problem
from .._paths.grids import read_grid
from .._paths.solve import solve_surface
from .._paths.surface import Surface
from .._paths.validation.folds import by_task, read_cv
from .._paths.validation.information import CRITERIA
from .._paths.validation.scorers import ERRORS
from .._runtime.checks import check_verbose
from .._runtime.progress import Progress, one_blas_thread
from .client import FoldsElsewhere, RemoteSurface, SearchOnWorkers, TasksOnWorkers, fit_on_workers, moment_data
from .cluster import Part, connection, partitions
from .on_cluster import Census, OnCluster, check_model
from .reading import Layout


class DaskMSMTFL(OnCluster):
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
        check_model(self.model, offset)
        client = self._client()
        parts = partitions(X, y, task, sample_weight)
        with connection(client):
            data, layout, workers = self._data(client, parts)
            model: Any = copy(self.model)  # which stays as it is until all has gone well
            if workers is None:
                model.fit(data, None)
            else:
                fit_on_workers(model, workers)
        self._note(model, layout, workers)
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
        check_model(self.model, offset)
        check_verbose(verbose)
        client, model = self._client(), self.model
        parts = partitions(X, y, task, sample_weight)

        def grid_of(problem: Problem) -> Any:
            return read_grid(
                problem, lams, theta_ratios, thetas, lam_min_ratio, entry_shares, entry_ratios, model.penalty
            )

        with connection(client):
            data, _, workers = self._data(client, parts)
            problem = (
                copy(model)._make_problem(data, None, None, None) if workers is None else workers.make_problem(model)
            )
            grid = grid_of(problem)
            with one_blas_thread(), Progress(grid.steps, "lams", verbose) as progress:
                if workers is None:
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
                    remote = RemoteSurface(problem, grid, workers, model.max_stages, model.max_iter or 0, 0)
                    remote.run(progress)
                    surface = remote.surface(model.tol)
        self._note_messages(workers)
        return surface

    def _data(self, client: Any, parts: list[Part]) -> tuple[Any, Layout, TasksOnWorkers | None]:
        """Statistics, or the tasks on their workers."""
        future, layout = self._layout(client, parts)
        census = self._census(client, parts, future, layout, 0)
        if census is not None and self._stay(client, census, layout, 0):
            return None, layout, self._tasks_on_workers(client, parts, future, layout, census)
        moments = self._moments(client, parts, future, layout.d, [None] * len(parts)).result()
        return moment_data(moments, self.model.task_column, layout), layout, None


class DaskMSMTFLCV(OnCluster):
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
        check_model(self.model, offset)
        cv = self._cv()
        client = self._client()
        parts = partitions(X, y, task, sample_weight)
        folds = 0 if cv is None else cv.n_splits
        with connection(client):
            future, layout = self._layout(client, parts)
            census = self._census(client, parts, future, layout, folds)
            fold = None if census is None or cv is None else census.dealt(cv)
            workers, model = None, copy(self.model)  # which stays as it is until all has gone well
            if census is not None and self._stay(client, census, layout, folds):
                workers = self._tasks_on_workers(client, parts, future, layout, census, fold, self.model.memory_budget)
                SearchOnWorkers(model, workers).fit()
            else:
                dealers = self._dealers(len(parts), census, fold, cv)
                moments = self._moments(client, parts, future, layout.d, dealers)
                data = moment_data(moments.result(), model.task_column, layout)
                FoldsElsewhere(model, client, moments, future).fit(data)
        self._note(model, layout, workers)
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
            return census.fold_by_task(fold, cv.n_splits)
        seed = int(check_random_state(cv.random_state).randint(2**31 - 1))
        return [Dealer(cv.n_splits, seed + place) for place in range(count)]
