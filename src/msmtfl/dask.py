"""MSMTFL on a Dask cluster (extra `dask`): the answer is that of one machine, whatever the cluster.

Two modes. **moments**: every partition is reduced to its statistics, these are added up in a tree, and the model is fitted
where the client is: for up to some thousand features, any number of rows. **data**: every task's rows are brought
together on one worker and stay there; a stage is solved where the data are. Down go the features that are free (one bit
each) and lam, up come d numbers per task.

All work is done by functions of their arguments, so what is lost with a worker is computed again, with the same result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .certificates import largest_violation, relative_gap
from .cross_validation import HeldOut
from .designs import Floats, Ints, RowTask
from .estimators import MSMTFL
from .gram import BUDGET, WHOLE_AT_MOST, gram_caches
from .lasso import OVERRUN, Lassos
from .model_selection import MSMTFLCV
from .moments import Dealer, MomentData, Moments, add_batch
from .monitor import Progress
from .problem import Problem, read_factors
from .stages import Listener, Outcome, certified
from .tables import is_table, names_of
from .tasks import Target, read_training

MODES = ("auto", "moments", "data")


def _dask() -> tuple[Any, Any]:
    try:
        import dask
        import distributed
    except ImportError as error:
        raise ImportError('msmtfl.dask needs dask and distributed: pip install "msmtfl[dask]"') from error
    return dask, distributed


@contextlib.contextmanager
def _connection() -> Iterator[None]:
    """A cluster that goes away gives an error that says so."""
    _, distributed = _dask()
    from concurrent.futures import CancelledError

    gone = (CancelledError, distributed.comm.core.CommClosedError, distributed.KilledWorker)
    try:
        yield
    except gone as error:
        raise ConnectionError(
            f"the Dask cluster or its client went away during the fit ({type(error).__name__}: {error}). Nothing was "
            "fitted; start a client and fit again."
        ) from error


# ------------------------------------------------------------------ what a partition is


@dataclass(frozen=True)
class Part:
    """Delayed or future X, y, task labels (None: in X, or one task) and weights (or None) of some rows."""

    X: Any
    y: Any
    task: Any = None
    weight: Any = None


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
    if hasattr(X, "to_delayed") and hasattr(X, "npartitions") and not hasattr(X, "chunks"):
        return _of_frames(X, y, task, sample_weight)
    if hasattr(X, "chunks"):
        return _of_arrays(X, y, task, sample_weight)
    raise TypeError(
        f"X is a {type(X).__name__}; expected a Dask DataFrame or Array, or a list of futures. For data in memory: MSMTFL."
    )


def _of_frames(X: Any, y: Any, task: Any, weight: Any) -> list[Part]:
    columns: dict[str, Any] = {"y": y, "task": task, "sample_weight": weight}
    parts = []
    for name, value in columns.items():
        if isinstance(value, str):
            if value not in X.columns:
                raise ValueError(f"{name}={value!r} is not a column of X. Columns: {names_of(X.columns)}.")
            columns[name] = X[value]
        elif value is not None and getattr(value, "npartitions", None) != X.npartitions:
            raise ValueError(f"{name} has {getattr(value, 'npartitions', 'no')} partitions, X has {X.npartitions}.")
    named = [value for value in (y, task, weight) if isinstance(value, str)]
    X = X.drop(columns=named) if named else X
    delayed = {name: None if value is None else value.to_delayed() for name, value in columns.items()}
    for i, part in enumerate(X.to_delayed()):
        others = {name: None if value is None else value[i] for name, value in delayed.items()}
        parts.append(Part(part, others["y"], others["task"], others["sample_weight"]))
    return parts


def _of_arrays(X: Any, y: Any, task: Any, weight: Any) -> list[Part]:
    if any(np.isnan(size) for size in X.chunks[0]):
        raise ValueError("the chunks of X have unknown sizes: call X.compute_chunk_sizes() first.")
    X = X.rechunk({1: -1})
    rows = [block[0] for block in X.to_delayed()]

    def split(values: Any, name: str) -> list[Any]:
        if values is None:
            return [None] * len(rows)
        if hasattr(values, "chunks"):
            if values.shape[0] != X.shape[0]:
                raise ValueError(f"{name} has {values.shape[0]} rows, X has {X.shape[0]}.")
            blocks = values.rechunk({0: X.chunks[0]} | ({1: -1} if values.ndim == 2 else {})).to_delayed()
            return list(np.ravel(blocks))
        if len(values) != X.shape[0]:
            raise ValueError(f"{name} has {len(values)} rows, X has {X.shape[0]}.")
        ends = np.cumsum(X.chunks[0])
        return list(np.split(np.asarray(values), ends[:-1]))

    named = zip(rows, split(y, "y"), split(task, "task"), split(weight, "sample_weight"), strict=True)
    return [Part(*one) for one in named]


def _open(X: Any, y: Any, task: Any, weight: Any) -> tuple[Any, Any, Any, Any]:
    """A part's content; a future of a list holds (X, y[, task[, weight]])."""
    if y is None:
        if not isinstance(X, (tuple, list)) or not 2 <= len(X) <= 4:
            raise ValueError("a future must hold (X, y), (X, y, task) or (X, y, task, sample_weight).")
        X, y, task, weight = (*X, None, None)[:4]
    if X.shape[0] != len(y):
        raise ValueError(f"a partition has {X.shape[0]} rows of X but {len(y)} of y.")
    return X, y, task, weight


# ------------------------------------------------------------------ on the workers: statistics


def _statistics(
    place: int, X: Any, y: Any, task: Any, weight: Any, task_column: Any, folds: int, seed: int
) -> list[Moments]:
    """The Moments of one partition: of all rows, or of every fold."""
    parts = [Moments() for _ in range(folds)]
    X, y, task, weight = _open(X, y, task, weight)
    dealer = None if folds == 1 else Dealer(folds, seed + place)
    try:
        add_batch(parts, X, y, task=task, task_column=task_column, sample_weight=weight, dealer=dealer)
    except (ValueError, TypeError) as error:
        raise type(error)(f"partition {place}: {error}") from error
    return parts


def _sum(some: list[list[Moments]]) -> list[Moments]:
    out = [moments.copy() for moments in some[0]]
    for other in some[1:]:
        for mine, theirs in zip(out, other, strict=True):
            mine += theirs
    return out


# ------------------------------------------------------------------ on the workers: data that stay


@dataclass(frozen=True)
class Shape:
    """Task labels, feature names (and whether they are a table's), form and number of rows."""

    labels: list[Any]
    features: list[str]
    named: bool
    form: str
    rows: int


def _shape_of(X: Any, y: Any, task: Any, weight: Any, task_column: Any) -> Shape | None:
    """The shape of a partition; None if it is empty."""
    X, y, task, weight = _open(X, y, task, weight)
    if X.shape[0] == 0:
        return None
    data = read_training(X, y, task=task, task_column=task_column, sample_weight=weight)
    names = [str(name) for name in data.features]
    return Shape(data.labels.tolist(), names, is_table(X), data.form, X.shape[0])


def _rows_of(X: Any, y: Any, task: Any, weight: Any, task_column: Any, label: Any) -> Any:
    """One task's rows of a partition, or None."""
    X, y, task, weight = _open(X, y, task, weight)
    if X.shape[0] == 0:
        return None
    data = read_training(X, y, task=task, task_column=task_column, sample_weight=weight)
    for one in data.tasks:
        if one.label == label:
            return one.X, one.y, one.weight
    return None


class TaskOnWorker:
    """One task's data, penalty factors and units, where the data are."""

    def __init__(self, pieces: Sequence[Any], label: Any, centre: bool, standardize: bool, factors: Floats | None):
        found = [piece for piece in pieces if piece is not None]
        X = np.concatenate([piece[0] for piece in found])
        y = np.concatenate([piece[1] for piece in found])
        weights = [piece[2] for piece in found]
        weight = None
        if any(one is not None for one in weights):
            weight = np.concatenate([np.ones(len(p[1])) if p[2] is None else p[2] for p in found])
        labels = np.empty(len(y), dtype=object)
        labels[:] = [label] * len(y)
        data = read_training(X, y, task=labels, sample_weight=weight)
        self.design: RowTask = data.designs(centre)[0]
        self.target = data.targets[0]
        problem = Problem(data, [self.design], read_factors(factors, data), standardize, False)
        self.factors, self.units = problem.factors[:, 0], problem.units

    def weights(self, scale: float, bits: bytes) -> Floats:
        """Of a stage that leaves the features free whose bits are set, on the scale of the task's sums."""
        free = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=len(self.factors)).astype(bool)
        return np.where(free & np.isfinite(self.factors), 0.0, scale * self.factors)

    def describe(self) -> dict[str, Any]:
        design = self.design
        names = ("d", "n", "order", "squares", "c", "yy", "y_mean")
        return {name: getattr(design, name) for name in names} | {"mean": design.rows.mean, "target": self.target}


def _describe(task: TaskOnWorker) -> dict[str, Any]:
    return task.describe()


@dataclass(frozen=True)
class Answer:
    """What comes back from a stage of one task."""

    w: Floats
    rounds: int
    finished: bool
    gap: float
    unit: float
    kkt: float
    unique: bool
    dependent: Ints
    loss: float


def _solve(task: TaskOnWorker, scale: float, bits: bytes, before: Any, positive: bool, max_iter: int) -> Answer:
    """A stage of one task; `before` is its stage before, which has stayed where it was computed."""
    a, design = task.weights(scale, bits), task.design
    reference = np.zeros((1, design.d)) if before is None else before.w[None]
    lassos = Lassos([design], positive=positive, units=task.units)
    if before is not None:
        lassos.warm(reference)
    W, rounds = lassos.solve(a[None], reference=reference, max_iter=max_iter)
    W, (proof,) = certified(lassos, W, a[None], reference, Listener())
    finished = not lassos.status[0] & OVERRUN
    told: dict[str, Any] = {
        "gap": proof.gap,
        "unit": proof.unit,
        "kkt": proof.kkt,
        "unique": proof.unique,
        "dependent": proof.dependent,
    }
    return Answer(w=W[0], rounds=int(rounds[0]), finished=bool(finished), loss=design.loss(W[0]), **told)


def _violation(task: TaskOnWorker, scale: float, bits: bytes, answer: Answer, positive: bool) -> float:
    return largest_violation([task.design], answer.w[None], task.weights(scale, bits)[None], positive)


# ------------------------------------------------------------------ on the client: data that stay elsewhere


class RemoteTask:
    """A task on a worker as the client knows it: a `Design` that can say what has been told."""

    target = None

    def __init__(self, told: dict[str, Any]):
        self.d, self.n, self.order = told["d"], told["n"], told["order"]
        self.squares, self.c, self.yy = told["squares"], told["c"], told["yy"]
        self.mean, self.y_mean, self.same_x = told["mean"], told["y_mean"], self
        self.last_loss = self.yy

    def loss(self, w: Floats) -> float:
        """Of the last stage solved: the only one that is asked for."""
        return self.last_loss

    def intercepts(self, W: Any) -> Floats:
        return np.asarray(self.y_mean - W @ self.mean)


@dataclass(frozen=True)
class RemoteData:
    """What a `Problem` asks of its data."""

    labels: np.ndarray
    features: np.ndarray
    form: str
    targets: list[Target]
    task_position: int | None
    named: bool

    @property
    def m(self) -> int:
        return len(self.labels)

    @property
    def d(self) -> int:
        return len(self.features)

    def release(self, designs: Any) -> None:
        """Nothing to forget."""


class RemoteStages:
    """Solves stages where the data are. `received` counts the bytes of coefficients that came back, `sent` those of bits."""

    grams = None

    def __init__(self, problem: Problem, tasks: Sequence[Any], client: Any, positive: bool):
        self.designs: list[Any] = list(problem.designs)
        self.tasks, self.client, self.positive, self.factors = list(tasks), client, positive, problem.factors
        self.scales = [0.5 * len(self.designs) * design.n for design in self.designs]
        self.last: list[Any] = [None] * len(self.tasks)
        self.sent, self.received = 0, 0

    def _message(self, weights: Floats) -> tuple[float, bytes]:
        """lam, and which features are free, one bit each: all that the weights of a stage say."""
        counts = np.isfinite(self.factors)
        ratio = np.divide(weights, self.factors, out=np.zeros_like(weights), where=counts)
        free = counts.any(axis=1) & (ratio == 0.0).all(axis=1)
        return float(ratio.max(initial=0.0)), np.packbits(free).tobytes()

    def _ask(self, function: Any, weights: Floats, *more: Any) -> tuple[list[Any], list[Any]]:
        """A function of (task, scale, free features, last answer, ...) for every task: futures and results."""
        lam, bits = self._message(weights)
        self.sent += len(bits) * len(self.tasks)
        each = zip(self.tasks, self.scales, self.last, strict=True)
        with _connection():
            futures = [
                self.client.submit(function, task, lam * scale, bits, last, self.positive, *more, pure=False)
                for task, scale, last in each
            ]
            return futures, self.client.gather(futures)

    def solve(self, weights: Floats, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        self.last, answers = self._ask(_solve, weights, max_iter)
        self.received += sum(answer.w.nbytes for answer in answers)
        for design, answer in zip(self.designs, answers, strict=True):
            design.last_loss = answer.loss
            listener.task_done()
        return Outcome(
            coef=np.array([answer.w for answer in answers]),
            n_iter=max(answer.rounds for answer in answers),
            finished=all(answer.finished for answer in answers),
            dual_gap=relative_gap(self.designs, answers),
            kkt=max(answer.kkt for answer in answers),
            unique=all(answer.unique for answer in answers),
            ambiguous=tuple(answer.dependent for answer in answers),
        )

    def violation(self, weights: Floats, W: Floats) -> float:
        return max(self._ask(_violation, weights)[1])


class _RemoteMSMTFL(MSMTFL):
    """MSMTFL whose stages are solved elsewhere: `_remote` is data, what is told of tasks, their futures, the client."""

    _remote: Any

    def _pose(self, X: Any, y: Any, task: Any, sample_weight: Any) -> Problem:
        data, designs = self._remote[:2]
        self._note_features(data)
        return Problem(data, designs, read_factors(self.penalty_factors, data), self.standardize, self.positive)

    def _solver(self, problem: Problem) -> RemoteStages:
        tasks, client = self._remote[2:]
        self._stages = RemoteStages(problem, tasks, client, self.positive)
        return self._stages


def _predict_frame(part: Any, model: Any) -> Any:
    import pandas as pd

    values = model.predict(part) if len(part) else np.empty(0)
    return pd.Series(values, index=part.index, name="prediction")


def _predict_block(part: Any, labels: Any, model: Any) -> Floats:
    return model.predict(part, task=labels[:, 0])


class _RemoteSearch(MSMTFLCV):
    """MSMTFLCV whose folds are solved elsewhere: `_remote` holds the client and a future of the folds' statistics."""

    _remote: Any

    def _validate(
        self, problem: Problem, grid: Any, splits: list[Any], solve: Any, scorer: Any, progress: Any
    ) -> HeldOut:
        client, folds = self._remote
        with _connection():
            futures = [
                client.submit(_errors, self.get_params(), folds, grid, f, pure=False) for f in range(len(splits))
            ]
            parts = client.gather(futures)
        progress.step(grid.steps * len(splits))
        mse, weight, _ = (list(part) for part in zip(*parts, strict=True))
        return HeldOut(np.array(mse), np.array(weight), None)


def _errors(parameters: dict[str, Any], folds: list[Moments], grid: Any, f: int) -> Any:
    """What the local fit computes for one fold, on a worker."""
    model = MSMTFLCV(**parameters)
    data = MomentData(folds, model.task_column)
    problem = model._pose(data, None, None, None)
    split = data.splits()[f]
    with Progress(grid.steps, "lams", False) as progress:
        part = problem.training(split.train)
        surface = model._solve(part, grid, gram_caches(part.designs, reuse=True), None, progress)
    return split.measure(data, surface, None)


# ------------------------------------------------------------------ the estimators


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
        if name.endswith("_") and not name.startswith("_") and "model" in self.__dict__:
            return getattr(self.model, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def to_local(self) -> Any:
        """The fitted model without the cluster: an MSMTFL (MSMTFLCV) like any other."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self.model, "coef_")
        return self.model

    def predict(self, X: Any, *, task: Any = None) -> Any:
        """Predictions: of a Dask DataFrame or Array a Dask collection like it, of data in memory an array."""
        model = self.to_local()
        if hasattr(X, "map_partitions") and not hasattr(X, "chunks"):
            return X.map_partitions(_predict_frame, model, meta=("prediction", "f8"))
        if not hasattr(X, "chunks"):
            return model.predict(X, task=task)
        from dask import array

        X = X.rechunk({1: -1})
        if task is None:
            return X.map_blocks(model.predict, dtype=float, drop_axis=1)
        labels = task if hasattr(task, "chunks") else array.from_array(np.asarray(task), chunks=-1)
        labels = labels.rechunk({0: X.chunks[0]})[:, None]
        return array.map_blocks(_predict_block, X, labels, model, dtype=float, drop_axis=1)

    # ---------------------------------------------------------------- the cluster

    def _client(self) -> Any:
        _, distributed = _dask()
        if self.client is not None:
            return self.client
        try:
            return distributed.get_client()
        except ValueError as error:
            raise ConnectionError(
                "there is no Dask client: start one, client = distributed.Client(), or pass client=."
            ) from error

    def _submit(self, client: Any, function: Any, part: Part, *more: Any, first: Any = ()) -> Any:
        """A function of a part's content, on the cluster."""
        dask, _ = _dask()
        values = [
            client.compute(v) if dask.is_dask_collection(v) else v for v in (part.X, part.y, part.task, part.weight)
        ]
        return client.submit(function, *first, *values, *more, pure=False)

    def _moments(self, client: Any, parts: list[Part], folds: int, seed: int) -> Any:
        """A future of the statistics of all partitions, added up in a tree."""
        column = self.model.task_column
        with _connection():
            level = [
                self._submit(client, _statistics, part, column, folds, seed, first=(i,)) for i, part in enumerate(parts)
            ]
            while len(level) > 1:
                level = [client.submit(_sum, level[i : i + 4], pure=False) for i in range(0, len(level), 4)]
            return level[0]

    def _shape(self, client: Any, parts: list[Part]) -> Shape:
        """Of all partitions; labels are sorted if they can be."""
        with _connection():
            told = client.gather([self._submit(client, _shape_of, part, self.model.task_column) for part in parts])
        seen = [one for one in told if one is not None]
        if not seen:
            raise ValueError("all partitions are empty: nothing to fit.")
        first = seen[0]
        for i, one in enumerate(told):
            if one is not None and (one.features != first.features or one.form != first.form):
                raise ValueError(f"partition {i} has other columns than the first: {names_of(one.features)}.")
        found = Moments()
        found._tasks = dict.fromkeys(label for one in seen for label in one.labels)  # type: ignore[assignment]
        found.form = first.form
        labels = found.sorted_tasks().tolist()
        return Shape(labels, first.features, first.named, first.form, sum(one.rows for one in seen))

    def _by_size(self, shape: Shape) -> str:
        """Statistics where they are small; data that stay where they are otherwise."""
        m, d = len(shape.labels), len(shape.features)
        if self.mode != "auto":
            return self.mode
        return "moments" if d <= WHOLE_AT_MOST and 8.0 * m * d**2 <= BUDGET else "data"


class DaskMSMTFL(_OnCluster):
    """:class:`MSMTFL` for Dask collections.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the one in use.
    mode : {"auto", "moments", "data"}, default="auto"
        Statistics added up in a tree, or data that stay on the workers (one task's rows on one); by size.
    **parameters
        Those of :class:`MSMTFL`.

    Attributes are those of :class:`MSMTFL`; `mode_` says which mode was used, `messages_` how many bytes of stage messages
    went out and came back in data mode.

    Examples
    --------
    >>> from distributed import Client  # doctest: +SKIP
    >>> from msmtfl.dask import DaskMSMTFL  # doctest: +SKIP
    >>> client = Client()  # doctest: +SKIP
    >>> model = DaskMSMTFL(task_column="hospital").fit(ddf, "score")  # doctest: +SKIP
    >>> model.to_local().predict(table)  # doctest: +SKIP
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
        client = self._client()
        parts = partitions(X, y, task, sample_weight)
        shape = self._shape(client, parts)
        mode = self._by_size(shape)
        if mode == "moments":
            with _connection():
                self.model.fit_moments(self._moments(client, parts, 1, 0).result())
        else:
            self._fit_data(client, parts, shape)
        self.mode_ = mode
        return self

    def _fit_data(self, client: Any, parts: list[Part], shape: Shape) -> None:
        model, labels = self.model, shape.labels
        if shape.form == "wide":
            raise ValueError("data mode takes a label per row, not one column of y per task: use mode='moments'.")
        if model.relax:
            raise ValueError("relax=True needs the data where the client is: use mode='moments'.")
        factors = None if model.penalty_factors is None else np.asarray(model.penalty_factors, dtype=float)
        if factors is not None and (factors.ndim != 1 or (factors == 0).any()):
            raise ValueError(
                "in data mode penalty_factors must be one per feature, none of them 0: use mode='moments'."
            )
        options = (bool(model.fit_intercept), bool(model.standardize), factors)
        with _connection():
            tasks = []
            for label in labels:
                pieces = [self._submit(client, _rows_of, part, model.task_column, label) for part in parts]
                tasks.append(client.submit(TaskOnWorker, pieces, label, *options, pure=False))
            told = client.gather([client.submit(_describe, task, pure=False) for task in tasks])
        names = np.array(shape.features, dtype=object)
        position = None if model.task_column is None else len(names)
        marks = np.empty(len(labels), dtype=object)
        marks[:] = labels
        with contextlib.suppress(ValueError, TypeError):
            marks = np.array(labels) if len({type(label) for label in labels}) == 1 else marks
        data = RemoteData(marks, names, shape.form, [one["target"] for one in told], position, shape.named)
        remote = _RemoteMSMTFL(**model.get_params())
        remote._remote = (data, [RemoteTask(one) for one in told], tasks, client)
        remote.fit(None, None)
        self.messages_ = {"sent": remote._stages.sent, "received": remote._stages.received}
        self.model = _local(remote, MSMTFL)


class DaskMSMTFLCV(_OnCluster):
    """:class:`MSMTFLCV` for Dask collections: the statistics of every fold are added up in a tree, folds solved on workers.

    Parameters are those of :class:`DaskMSMTFL` and :class:`MSMTFLCV`; `cv` is the number of folds: rows are dealt out evenly
    within the tasks of every partition.
    """

    kind = MSMTFLCV

    def fit(self, X: Any, y: Any = None, *, task: Any = None, sample_weight: Any = None) -> DaskMSMTFLCV:
        """Fit; see :meth:`DaskMSMTFL.fit`."""
        if self.mode == "data":
            raise ValueError("cross-validation works from statistics: mode='moments'.")
        if not isinstance(self.model.cv, (int, np.integer)):
            raise ValueError("on a cluster cv must be a number of folds.")
        client = self._client()
        parts = partitions(X, y, task, sample_weight)
        seed = self.model.random_state if isinstance(self.model.random_state, (int, np.integer)) else 0
        folds = self._moments(client, parts, int(self.model.cv), int(seed))
        remote = _RemoteSearch(**self.model.get_params())
        remote._remote = (client, folds)
        with _connection():
            remote.fit_moments(folds.result())
        self.model, self.mode_ = _local(remote, MSMTFLCV), "moments"
        return self


def _local(remote: Any, kind: Any) -> Any:
    """The same fit as an estimator that knows nothing of a cluster."""
    out = kind(**remote.get_params())
    out.__dict__ |= {name: value for name, value in vars(remote).items() if name not in ("_remote", "_stages")}
    return out
