"""MSMTFL on a Dask cluster (extra `dask`): the answer is that of one machine, whatever the cluster.

Two modes. **moments**: every partition is reduced to its statistics, these are added up in a tree, and the model is fitted
where the client is: for up to some thousand features, any number of rows. **data**: every task's rows are brought
together on one worker and stay there; a stage is solved where the data are. Down go the features that are free (one bit
each) and lam, up come d numbers per task.

All work is done by functions of their arguments, so what is lost with a worker is computed again, with the same result (to
rounding).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack
from sklearn.utils import check_random_state

from .certificates import largest_violation, relative_gap
from .checks import check_count
from .cross_validation import CRITERIA, HeldOut
from .designs import Floats, Ints, RowTask
from .estimators import MSMTFL
from .gram import BUDGET, WHOLE_AT_MOST
from .lasso import OVERRUN, Lassos, task_caches
from .linear import loss_of
from .model_selection import MSMTFLCV
from .moments import Dealer, MomentData, Moments, _read_batch, add_batch
from .monitor import Progress, one_blas_thread
from .problem import Problem, read_factors
from .stages import Listener, Outcome, certified
from .tables import (
    check_finite,
    check_form,
    column_position,
    factorise,
    is_table,
    names_of,
    place_name,
    read_features,
    split_off,
)
from .tasks import NO_WEIGHT, Target, Task, TaskData

MODES = ("auto", "moments", "data")
NOTHING = "all partitions are empty: nothing to fit."
AT_ONCE = 4  # statistics added up at a time
TWICE = 2  # a task's rows are there twice while they are put together


def _dask() -> tuple[Any, Any]:
    try:
        import dask
        import distributed
    except ImportError as error:
        raise ImportError('msmtfl.dask needs dask and distributed: pip install "msmtfl[dask]"') from error
    return dask, distributed


@contextlib.contextmanager
def _connection(client: Any) -> Iterator[None]:
    """A cluster that goes away gives an error that says so."""
    _, distributed = _dask()
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


def _smallest_memory(client: Any) -> float:
    """Bytes that every worker may use; inf if that is not known."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return min((float(one["memory_limit"]) for one in workers if one.get("memory_limit")), default=np.inf)


# ------------------------------------------------------------------ what a partition is


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


def _is_frame(X: Any) -> bool:
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
    if not _is_frame(X) and not hasattr(X, "chunks"):
        raise TypeError(
            f"X is a {type(X).__name__}; expected a Dask DataFrame or Array, or a list of futures. For data "
            "in memory: MSMTFL."
        )
    if y is None:
        raise ValueError("y is missing: pass the target, or (of a DataFrame) the name of its column.")
    others = {"y": y, "task": task, "sample_weight": sample_weight}
    return _of_frames(X, others) if _is_frame(X) else _of_arrays(X, others)


def _of_frames(X: Any, others: dict[str, Any]) -> list[Part]:
    def split(name: str, value: Any) -> list[Any]:
        if value is None:
            return [None] * X.npartitions
        if isinstance(value, str):  # split off on the worker, where rows are sure to stand side by side
            if value not in X.columns:
                raise ValueError(f"{name}={value!r} is not a column of X. Columns: {names_of(X.columns)}.")
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


# ------------------------------------------------------------------ on the workers: reading a partition


@dataclass(frozen=True)
class Layout:
    """What the first partition is like, and all must be: features (d,), the task column's place, form (see `TaskData`), a
    table's columns as given, and the order of tasks that are categories."""

    features: np.ndarray
    position: int | None
    form: str
    columns: list[Any] | None
    categories: list[Any] | None = None

    @property
    def d(self) -> int:
        return len(self.features)

    def moments(self) -> Moments:
        """Statistics of no rows yet, to which only partitions like the first can be added."""
        out = Moments()
        out.features, out.named, out.form = self.features, self.columns is not None, self.form
        return out

    def in_order(self, labels: np.ndarray) -> np.ndarray:
        """Sorted labels, in the order that a local fit has."""
        rank = {label: r for r, label in enumerate(self.categories or ())}
        places = [rank.get(label, len(rank)) for label in labels.tolist()]
        return labels[np.argsort(places, kind="stable")]


@contextlib.contextmanager
def _in_partition(place: int) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"partition {place}: {error}") from error


def _open(X: Any, y: Any, task: Any, weight: Any) -> tuple[Any, Any, Any, Any]:
    """A part's content; a future of a list holds (X, y[, task[, weight]])."""
    if y is None:
        if not isinstance(X, (tuple, list)) or not 2 <= len(X) <= 4:
            raise ValueError("a future must hold (X, y), (X, y, task) or (X, y, task, sample_weight).")
        X, y, task, weight = (*X, None, None)[:4]
    named = [one for one in (y, task, weight) if isinstance(one, str)]
    y, task, weight = (X[one] if isinstance(one, str) else one for one in (y, task, weight))
    X = X.drop(columns=named) if named else X
    check_form(X)
    for name, other in (("y", y), ("task", task), ("sample_weight", weight)):
        if other is not None and np.ndim(other) and len(other) != X.shape[0]:
            raise ValueError(f"{X.shape[0]} rows of X, but {len(other)} of {name}.")
        if _in_another_order(X, other):
            raise ValueError(
                f"the rows of {name} stand in another order than those of X: pass {name} as a column of X."
            )
    return X, y, task, weight


def _in_another_order(X: Any, other: Any) -> bool:
    """Whether two tables have the same index in another order (a shuffle does not promise one)."""
    if not (hasattr(X, "iloc") and hasattr(other, "iloc")) or X.index.equals(other.index):
        return False
    return bool(np.array_equal(np.sort(X.index), np.sort(other.index)))


def _layout(X: Any, y: Any, task: Any, weight: Any, task_column: Any) -> Layout:
    """Of the first partition, which may be empty."""
    with _in_partition(0):
        X, y, task, _ = _open(X, y, task, weight)
        position = None if task_column is None else column_position(X, task_column)
        columns = list(X.columns) if is_table(X) else None
        places = [j for j in range(X.shape[1]) if j != position]
        names = [place_name(k, position) if columns is None else str(columns[j]) for k, j in enumerate(places)]
        labels = task if position is None else split_off(X, position)[1]
        form = "wide" if np.ndim(y) == 2 else "single" if labels is None else "long"
        kind: Any = getattr(labels, "dtype", None)
        categories = (
            list(kind.categories) if hasattr(kind, "categories") and not hasattr(labels, "to_physical") else None
        )
        return Layout(np.array(names, dtype=object), position, form, columns, categories)


def _statistics(
    place: int, layout: Layout, X: Any, y: Any, task: Any, weight: Any, task_column: Any, folds: int, seed: int
) -> list[Moments]:
    """The Moments of one partition: of all rows, or of every fold."""
    parts = [layout.moments() for _ in range(folds)]
    dealer = None if folds == 1 else Dealer(folds, seed + place)
    with _in_partition(place), one_blas_thread():
        X, y, task, weight = _open(X, y, task, weight)
        add_batch(parts, X, y, task=task, task_column=task_column, sample_weight=weight, dealer=dealer)
    return parts


def _sum(some: list[list[Moments]]) -> list[Moments]:
    out = [moments.copy() for moments in some[0]]
    for other in some[1:]:
        for mine, theirs in zip(out, other, strict=True):
            mine += theirs
    return out


Piece = tuple[Any, Floats, Floats | None]  # X, y, weight of some rows of a task


def _pieces(
    place: int, layout: Layout, X: Any, y: Any, task: Any, weight: Any, task_column: Any
) -> dict[Any, Piece | None]:
    """The rows of every task in a partition; None for a task that has none with a weight."""
    with _in_partition(place):
        X, y, task, weight = _open(X, y, task, weight)
        if X.shape[0] == 0:
            return {}
        like = layout.moments()
        values, task, names = read_features(X, task, task_column)
        order = like._order(names) if like.named and is_table(X) else None
        values = values if order is None else values[:, order]
        tasks, labels, form = _read_batch(values, y, task, weight)
        like._check_form(values.shape[1], form)
        check_finite(values, layout.features, "X")
    found = {one.label: (one.X, one.y, one.weight) for one in tasks}
    return {label: found.get(label) for label in labels}


def _size(X: Any) -> int:
    """Bytes of a dense or sparse array."""
    return X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes


def _count(*part: Any) -> dict[Any, tuple[int, int]]:
    """{task: (rows, bytes)} of a partition."""
    pieces = _pieces(*part)
    return {label: (0, 0) if one is None else (len(one[1]), _size(one[0])) for label, one in pieces.items()}


def _pick(pieces: dict[Any, Piece | None], label: Any) -> Piece | None:
    return pieces[label]


# ------------------------------------------------------------------ on the workers: data that stay


@dataclass(frozen=True)
class Rules:
    """How every one of the m tasks is fitted."""

    centre: bool
    standardize: bool
    positive: bool
    factors: Floats | None
    m: int


class TaskOnWorker:
    """One task's data, penalty factors and units, where the data are. If it has to move, its rows do."""

    def __init__(self, pieces: Sequence[Piece], label: Any, layout: Layout, rules: Rules):
        self.piece, self.label, self.layout, self.rules = _stacked(pieces), label, layout, rules
        X, y, weight = self.piece
        labels = np.empty(1, dtype=object)
        labels[0] = label
        data = TaskData((Task(label, X, y, weight, np.arange(len(y))),), labels, layout.features, "long", X)
        with one_blas_thread():
            self.design: RowTask = data.designs(rules.centre)[0]
        self.target = data.targets[0]
        problem = Problem(data, [self.design], read_factors(rules.factors, data), rules.standardize, rules.positive)
        self.factors, self.units = problem.factors[:, 0], problem.units
        self.grams: Any = None  # what is known of the Gram matrix serves all stages

    def __reduce__(self) -> Any:
        return TaskOnWorker, ([self.piece], self.label, self.layout, self.rules)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + _size(self.piece[0])  # lest Dask thinks it is easily moved

    def lassos(self) -> Lassos:
        if self.grams is None:
            self.grams = task_caches([self.design], budget=BUDGET / self.rules.m)
        return Lassos([self.design], positive=self.rules.positive, units=self.units, grams=self.grams)

    def weights(self, scale: float, bits: bytes) -> Floats:
        """(1, d) of a stage that leaves the features free whose bits are set, on the scale of the task's sums."""
        free = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=len(self.factors)).astype(bool)
        out = np.full((1, len(free)), np.inf)
        counts = np.isfinite(self.factors)
        out[0, counts] = np.where(free, 0.0, scale)[counts] * self.factors[counts]
        return out

    def describe(self) -> dict[str, Any]:
        design = self.design
        names = ("d", "n", "order", "squares", "c", "yy", "y_mean")
        return {name: getattr(design, name) for name in names} | {"mean": design.rows.mean, "target": self.target}


def _stacked(pieces: Sequence[Piece]) -> Piece:
    """One under the other."""
    if len(pieces) == 1:
        return pieces[0]
    Xs, ys, weights = zip(*pieces, strict=True)
    X = vstack(Xs, format="csr") if any(issparse(one) for one in Xs) else np.concatenate(Xs)
    weight = None
    if any(one is not None for one in weights):
        weight = np.concatenate([np.ones(len(y)) if w is None else w for y, w in zip(ys, weights, strict=True)])
    return X, np.concatenate(ys), weight


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


def _solve(task: TaskOnWorker, scale: float, bits: bytes, before: Any, max_iter: int) -> Answer:
    """A stage of one task; `before` is its stage before, which has stayed where it was computed, or where to start (d,)."""
    with one_blas_thread():
        a, lassos, design = task.weights(scale, bits), task.lassos(), task.design
        reference = np.zeros((1, design.d))
        if before is not None:
            reference = (before.w if isinstance(before, Answer) else before)[None]
            lassos.warm(reference)
        W, rounds = lassos.solve(a, reference=reference, max_iter=max_iter)
        W, (proof,) = certified(lassos, W, a, reference, Listener())
        finished = not lassos.status[0] & OVERRUN
        told: dict[str, Any] = {
            "gap": proof.gap,
            "unit": proof.unit,
            "kkt": proof.kkt,
            "unique": proof.unique,
            "dependent": proof.dependent,
        }
        return Answer(w=W[0], rounds=int(rounds[0]), finished=bool(finished), loss=design.loss(W[0]), **told)


def _violation(task: TaskOnWorker, scale: float, bits: bytes, answer: Answer) -> float:
    with one_blas_thread():
        weights = task.weights(scale, bits)
        return largest_violation([task.design], answer.w[None], weights, task.rules.positive)


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

    def __init__(self, problem: Problem, tasks: Sequence[Any], client: Any):
        self.designs: list[Any] = list(problem.designs)
        self.tasks, self.client, self.factors = list(tasks), client, problem.factors
        self.scales = [0.5 * len(self.designs) * design.n for design in self.designs]
        self.last: list[Any] = [None] * len(self.tasks)  # the tasks' last answers, where they were computed
        self.coef: Floats | None = None  # and what they say
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
        scales = [lam * scale for scale in self.scales]
        same = ([value] * len(self.tasks) for value in more)
        futures = self.client.map(function, self.tasks, scales, [bits] * len(self.tasks), self.last, *same, pure=False)
        return futures, self.client.gather(futures)

    def solve(self, weights: Floats, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        if last is not self.coef:  # a new run: from 0, or from where the user says
            self.last = list(last) if last.any() else [None] * len(self.tasks)
        self.last, answers = self._ask(_solve, weights, max_iter)
        self.coef = np.array([answer.w for answer in answers])
        self.received += self.coef.nbytes
        for design, answer in zip(self.designs, answers, strict=True):
            design.last_loss = answer.loss
            listener.task_done()
        return Outcome(
            coef=self.coef,
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
    """MSMTFL whose stages are solved elsewhere: `_remote` holds data, what is told of the tasks, their futures, a client."""

    _remote: Any

    def _pose(self, X: Any, y: Any, task: Any, sample_weight: Any) -> Problem:
        data, designs = self._remote[:2]
        self._note_features(data)
        return Problem(data, designs, read_factors(self.penalty_factors, data), self.standardize, self.positive)

    def _solver(self, problem: Problem) -> RemoteStages:
        self._stages = RemoteStages(problem, *self._remote[2:])
        return self._stages


class _RemoteSearch(MSMTFLCV):
    """MSMTFLCV whose folds are solved elsewhere: `_remote` holds a client, futures of the folds' statistics and of the
    layout."""

    _remote: Any

    def _grid(self, problem: Problem) -> Any:
        """The folds are begun as soon as the grid is known; the surface of all data is solved here meanwhile."""
        grid = super()._grid(problem)
        client, folds, layout = self._remote
        data: Any = problem.data
        count = 0 if self.selection in CRITERIA else len(data.folds)
        same = {"parameters": self.get_params(), "folds": folds, "layout": layout, "grid": grid}
        self._held_out = client.map(_errors, range(count), **same, pure=False) if count else []
        return grid

    def _validate(
        self, problem: Problem, grid: Any, splits: list[Any], solve: Any, scorer: Any, progress: Any
    ) -> HeldOut:
        parts = self._remote[0].gather(self._held_out)
        progress.step(grid.steps * len(splits))
        mse, weight, _ = (list(part) for part in zip(*parts, strict=True))
        return HeldOut(np.array(mse), np.array(weight), None)


def _errors(f: int, parameters: dict[str, Any], folds: list[Moments], layout: Layout, grid: Any) -> Any:
    """What the local fit computes for one fold, on a worker."""
    model = MSMTFLCV(**parameters)
    with one_blas_thread(), Progress(grid.steps, "lams", False) as progress:
        data = _moment_data(folds, model.task_column, layout)
        problem = model._pose(data, None, None, None)
        split = data.splits()[f]
        part = problem.training(split.train)
        surface = model._solve(part, grid, model._caches(part, reuse=True), None, progress)
        return split.measure(data, surface, None)


def _moment_data(folds: list[Moments], task_column: Any, layout: Layout) -> MomentData:
    """Statistics as a fit takes them, with tasks and columns in the order that a local fit has."""
    if not any(len(fold) for fold in folds):
        raise ValueError(NOTHING)
    data = MomentData(folds, task_column)
    data.task_position, data.labels = layout.position, layout.in_order(data.labels)
    return data


def _as(model: Any, kind: Any) -> Any:
    """The same model, fitted or not, as another class: what belongs to the cluster stays behind."""
    out = kind(**model.get_params())
    out.__dict__ |= {
        name: value for name, value in vars(model).items() if name not in ("_remote", "_stages", "_held_out")
    }
    return out


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
        """Predictions: of a Dask DataFrame or Array a Dask collection like it, of data in memory an array.

        `task` (Dask Series or Array, labels in memory, or of a DataFrame the name of a column) if fit was given it.
        """
        model = self.to_local()
        if _is_frame(X):
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
        _, distributed = _dask()
        if self.client is not None:
            return self.client
        try:
            return distributed.get_client()
        except ValueError as error:
            raise ConnectionError(
                "there is no Dask client: start one, client = distributed.Client(), or pass client=."
            ) from error

    def _each(self, client: Any, function: Any, parts: list[Part], layout: Any, *more: Any) -> list[Any]:
        """Futures of a function of every part's place, the layout (a future), its content and the task column."""
        content = zip(*_loaded(client, parts), strict=True)
        same = ([value] * len(parts) for value in (self.model.task_column, *more))
        return client.map(function, range(len(parts)), [layout] * len(parts), *content, *same, pure=False)

    def _layout(self, client: Any, parts: list[Part]) -> tuple[Any, Layout]:
        """A future of it, so that d names need not go out with every piece of work; and itself."""
        values = _loaded(client, parts[:1])[0]
        future = client.submit(_layout, *values, self.model.task_column, pure=False)
        return future, future.result()

    def _moments(self, client: Any, parts: list[Part], layout: Any, d: int, folds: int, seed: int) -> Any:
        """A future of the statistics of all partitions, added up in a tree."""
        one, room = 8.0 * d**2, _smallest_memory(client)
        if (AT_ONCE + 1) * folds * one > room:
            raise ValueError(
                f"the statistics of a task with {d} features take {_gigabytes(one)}, and {(AT_ONCE + 1) * folds} of them "
                f"have to fit into a worker's memory, {_gigabytes(room)}. Use fewer features"
                + (", or mode='data'." if folds == 1 else " or folds.")
            )
        level = self._each(client, _statistics, parts, layout, folds, seed)
        while len(level) > 1:
            some = [level[i : i + AT_ONCE] for i in range(0, len(level), AT_ONCE)]
            level = client.map(_sum, some, pure=False)
        return level[0]


def _loaded(client: Any, parts: list[Part]) -> list[tuple[Any, Any, Any, Any]]:
    """The parts' contents, collections as futures: in one graph, so that what they have in common is computed once."""
    dask, _ = _dask()
    found = [v for part in parts for v in part.values if dask.is_dask_collection(v)]
    futures = iter(client.compute(found))
    return [tuple(next(futures) if dask.is_dask_collection(v) else v for v in part.values) for part in parts]


def _note_columns(model: Any, layout: Layout) -> None:
    """A table to predict has the columns of the one given to fit, in their order."""
    model.__dict__.pop("feature_names_in_", None)
    if layout.columns is not None and all(isinstance(name, str) for name in layout.columns):
        model.feature_names_in_ = np.array(layout.columns, dtype=object)


def _gigabytes(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"


@dataclass(frozen=True)
class Census:
    """The tasks of all partitions: labels in the order of a local fit, rows and bytes (m,), and who has rows of them."""

    labels: np.ndarray
    rows: np.ndarray
    size: np.ndarray
    places: list[list[int]]

    @staticmethod
    def of(told: list[dict[Any, tuple[int, int]]], layout: Layout) -> Census:
        seen = list(dict.fromkeys(label for one in told for label in one))
        if not seen:
            raise ValueError(NOTHING)
        labels = layout.in_order(factorise(seen, len(seen))[0])
        counts = np.array([[one.get(label, (0, 0)) for one in told] for label in labels.tolist()])  # (m, partitions, 2)
        rows, size = counts.sum(axis=1).T
        if not rows.all():
            raise ValueError(NO_WEIGHT.format(labels.tolist()[int(np.argmin(rows))]))
        return Census(labels, rows, size, [np.flatnonzero(of_task[:, 0]).tolist() for of_task in counts])


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
        self.model._check_params()
        if loss_of(self.model) != "squared":
            raise ValueError(f"on a cluster there is squared loss only; the model has loss={self.model.loss!r}.")
        client = self._client()
        parts = partitions(X, y, task, sample_weight)
        messages = None
        with _connection(client):
            future, layout = self._layout(client, parts)
            census = self._census(client, parts, future, layout)
            if census is None:
                model = _as(self.model, MSMTFL)
                folds = self._moments(client, parts, future, layout.d, 1, 0).result()
                model.fit(_moment_data(folds, model.task_column, layout), None)
            else:
                model, messages = self._fit_data(client, self._place(client, parts, future, census), layout, census)
        _note_columns(model, layout)
        self.model, self.mode_ = model, "moments" if census is None else "data"
        self.__dict__.pop("messages_", None)
        if messages is not None:
            self.messages_ = messages
        return self

    def _census(self, client: Any, parts: list[Part], future: Any, layout: Layout) -> Census | None:
        """The tasks, if their rows are to stay on the workers; None for statistics."""
        reason = self._only_from_statistics(layout)
        if self.mode == "data" and reason:
            raise ValueError(f"{reason}: use mode='moments'.")
        if self.mode == "moments" or reason:
            return None
        census = Census.of(client.gather(self._each(client, _count, parts, future)), layout)
        statistics, room = 8.0 * len(census.labels) * layout.d**2, _smallest_memory(client)
        auto = self.mode == "auto"
        if auto and layout.d <= WHOLE_AT_MOST and statistics <= BUDGET:
            return None
        largest = int(np.argmax(census.size))
        if TWICE * census.size[largest] <= room:
            return census
        if auto and (AT_ONCE + 1) * statistics <= room:
            return None
        raise ValueError(
            f"the {census.rows[largest]} rows of task {census.labels.tolist()[largest]!r} take "
            f"{_gigabytes(census.size[largest])}, more than half of a worker's memory, {_gigabytes(room)}. Use workers with "
            f"more memory, or mode='moments', which needs {_gigabytes(statistics)} for the statistics of all tasks."
        )

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

    def _fit_data(self, client: Any, tasks: list[Any], layout: Layout, census: Census) -> tuple[Any, dict[str, int]]:
        remote = _as(self.model, _RemoteMSMTFL)
        told = client.gather(client.map(_describe, tasks, pure=False))
        targets = [one["target"] for one in told]
        named = layout.columns is not None
        data = RemoteData(census.labels, layout.features, layout.form, targets, layout.position, named)
        remote._remote = (data, [RemoteTask(one) for one in told], tasks, client)
        remote.fit(None, None)
        messages = {"sent": remote._stages.sent, "received": remote._stages.received}
        return _as(remote, MSMTFL), messages

    def _place(self, client: Any, parts: list[Part], layout: Any, census: Census) -> list[Any]:
        """Futures of the tasks, each put together on one worker."""
        model, labels = self.model, census.labels.tolist()
        factors = None if model.penalty_factors is None else np.asarray(model.penalty_factors, dtype=float)
        flags = (bool(model.fit_intercept), bool(model.standardize), bool(model.positive))
        rules = Rules(*flags, factors, len(labels))
        pieces = self._each(client, _pieces, parts, layout)
        pairs = [(pieces[i], label) for label, places in zip(labels, census.places, strict=True) for i in places]
        picked = iter(client.map(_pick, *zip(*pairs, strict=True), pure=False))
        mine = [list(islice(picked, len(places))) for places in census.places]
        return client.map(TaskOnWorker, mine, labels, [layout] * len(labels), [rules] * len(labels), pure=False)


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
        count = 5 if self.model.cv is None else self.model.cv
        if not isinstance(count, (int, np.integer)):
            raise ValueError("on a cluster cv must be a number of folds.")
        check_count("cv", count)
        self.model._check_params()
        if loss_of(self.model) != "squared":
            raise ValueError(f"on a cluster there is squared loss only; the model has loss={self.model.loss!r}.")
        client = self._client()
        parts = partitions(X, y, task, sample_weight)
        seed = int(check_random_state(self.model.random_state).randint(2**31 - 1))
        with _connection(client):
            future, layout = self._layout(client, parts)
            folds = self._moments(client, parts, future, layout.d, int(count), seed)
            remote = _as(self.model, _RemoteSearch)
            remote._remote = (client, folds, future)
            remote.fit(_moment_data(folds.result(), remote.task_column, layout), None)
        _note_columns(remote, layout)
        self.model, self.mode_ = _as(remote, MSMTFLCV), "moments"
        return self
