"""Sufficient statistics of tasks: all that squared loss needs to know of data too large, or too private, to be passed on.

Per task: the number of rows, the sum n of their weights, the (weighted) means of features and target, and the sums of
squares and products about these means. Batches are merged by the pairwise update of Chan, Golub and LeVeque (1979):
every batch is centred at its own mean. Means are kept with the digits that rounding cuts off them, so that data with a
mean of 1e6 and a spread of 1 lose no digits, however many batches they come in.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_random_state

from .checks import check_count, check_verbose
from .designs import CONSTANT_SHARE, Floats, Ints, RowTask
from .files import write_whole
from .monitor import Progress, one_blas_thread
from .parquet import ParquetRows, Rows
from .sparse_rows import SparseRows
from .tables import check_finite, check_form, column_position, is_table, names_of, read_features, warn_user
from .tasks import Target, Task, check_weights, read_target, read_training

FORMAT, VERSION = "msmtfl-moments", 1
SUMS = ("rows", "n", "mean", "y_mean", "low", "xx", "xy", "yy")
UNREADABLE = (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, NotImplementedError)
FEW_ONES = 5  # a 0/1 column with so many ones or fewer (or zeros) gives rows away
ROUNDING = 1e-9  # sums this much below what rows can have, as a share of what they were: too much was subtracted
NOISE = 1e-13  # what is left of a sum of squares after a subtraction, below this share of it, is rounding
FEW_DIGITS = 1e-7  # and below this one it has not all of 8 digits
NOT_ADDED = "Were these rows added before?"


@dataclass(frozen=True)
class TaskMoments:
    """One task: rows, n = sum of weights, means, and centred sums xx (d, d), xy (d,), yy.

    low (d + 1,) are the digits of the means, the last that of the target, that rounding cuts off: means differ by little,
    and the sums about one are made of those about another through that difference.
    """

    rows: int
    n: float
    mean: Floats
    y_mean: float
    low: Floats
    xx: Floats
    xy: Floats
    yy: float

    @staticmethod
    def of(X: Any, y: Floats, weight: Floats | None) -> TaskMoments:
        """Of rows at hand: centred at about their means, and what these lack is taken away from the sums.

        X is sparse or dense, float64 or float32: that is good enough for a first mean, all else is in float64.
        """
        if issparse(X):
            return _of_sparse(X, y, weight)
        w = np.ones(len(y)) if weight is None else weight
        n = float(w.sum())
        with np.errstate(over="ignore", invalid="ignore"):  # whoever asks looks at what comes out
            mean, y_mean = (w.astype(X.dtype) @ X).astype(np.float64) / n, float(w @ y / n)
            mean[~np.isfinite(mean)] = 0.0
            Z, z = X - mean, y - y_mean
            rest, y_rest = w @ Z / n, float(w @ z / n)
            if weight is not None:
                root = np.sqrt(weight)
                Z *= root[:, None]
                z *= root
            xx = Z.T @ Z
            xx -= np.outer(n * rest, rest)
            xy, yy = Z.T @ z - n * y_rest * rest, float(z @ z - n * y_rest * y_rest)
        means, low = add_exactly(np.append(mean, y_mean), np.append(rest, y_rest))
        return TaskMoments(len(y), n, means[:-1], float(means[-1]), low, xx, xy, yy)

    def merged(self, other: TaskMoments, sign: int = 1) -> TaskMoments:
        """With the rows of another (sign 1), or without them (sign -1)."""
        n = self.n + sign * other.n
        own, others = np.append(self.mean, self.y_mean), np.append(other.mean, other.y_mean)
        apart = (others - own) + (other.low - self.low)
        means, low = add_exactly(own, sign * other.n / n * apart)
        if sign > 0:
            share = self.n * other.n / n
        else:  # self = rest + other: the rest's mean is beyond self's, away from the other's
            share, apart = n * other.n / self.n, self.n / n * apart
        dx, dy = apart[:-1], float(apart[-1])
        return TaskMoments(
            self.rows + sign * other.rows,
            n,
            means[:-1],
            float(means[-1]),
            self.low + low,
            self.xx + sign * (other.xx + share * np.outer(dx, dx)),
            self.xy + sign * (other.xy + share * dy * dx),
            float(self.yy + sign * (other.yy + share * dy * dy)),
        )

    def flattened(self, constant: np.ndarray) -> TaskMoments:
        """With columns (the last is the target) that are known to be constant."""
        dead, xx, xy = np.flatnonzero(constant[:-1]), self.xx.copy(), self.xy.copy()
        xx[dead], xx[:, dead], xy[dead] = 0.0, 0.0, 0.0
        return replace(self, xx=xx, xy=0.0 * xy, yy=0.0) if constant[-1] else replace(self, xx=xx, xy=xy)

    def squared_error(self, W: Floats, intercepts: Floats) -> Floats:
        """(count,): sum over rows of weight * (y - intercept - x'w)^2, for the rows of W (count, d)."""
        used = np.flatnonzero(W.any(axis=0))
        V = W[:, used]
        inner = np.einsum("sj,jk,sk->s", V, self.xx[np.ix_(used, used)], V, optimize=True)
        shift = self.y_mean - intercepts - V @ self.mean[used]
        return np.maximum(self.yy - 2.0 * (V @ self.xy[used]) + inner, 0.0) + self.n * shift**2


def add_exactly(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The sum as floats, and what their rounding leaves of it (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _of_sparse(X: Any, y: Floats, weight: Floats | None) -> TaskMoments:
    rows = SparseRows(X, weight, True)
    task = RowTask(rows, y)
    low = np.append(rows.low, rows.u**2 @ (y - task.y_mean) / rows.n)
    return TaskMoments(len(y), rows.n, rows.mean, task.y_mean, low, rows.gram(), task.c, task.yy)


class Sums:
    """The sums of squares and products of features and target of a task as one matrix, to be compared with others; size is
    (d + 1,): lengths of the columns, or what rounding leaves of a constant one."""

    def __init__(self, task: TaskMoments):
        self.n, self.mean = task.n, np.append(task.mean, task.y_mean)
        self.matrix = np.block([[task.xx, task.xy[:, None]], [task.xy, np.array([[task.yy]])]])
        length, far = np.sqrt(np.maximum(self.matrix.diagonal(), 0.0)), np.sqrt(task.n) * np.abs(self.mean)
        self.size = np.where(length + far > 0.0, length + CONSTANT_SHARE * far, 1.0)

    def equal(self, other: Sums) -> bool:
        """Whether they may be those of the same rows."""
        return bool(
            abs(self.n - other.n) <= ROUNDING * self.n
            and (np.sqrt(self.n) * np.abs(self.mean - other.mean) <= 1e-6 * self.size).all()
            and (np.abs(self.matrix - other.matrix) <= 1e-6 * np.outer(self.size, self.size)).all()
        )

    def left(self, rest: TaskMoments) -> Floats:
        """What is left of them: correlations, but with the lengths that the columns had."""
        return Sums(rest).matrix / np.outer(self.size, self.size)


def _impossible(left: Floats) -> int | None:
    """Which column has sums that no rows have (a direction with a negative sum of squares), if there is one."""
    try:
        np.linalg.cholesky(left + ROUNDING * np.eye(len(left)))
    except np.linalg.LinAlgError:
        return int(np.argmax(np.abs(np.linalg.eigh(left)[1][:, 0])))
    return None


class MomentTask:
    """A task known by its statistics alone, as the solvers see it (a `Design`)."""

    target = None

    def __init__(self, moments: TaskMoments, centre: bool):
        self.moments, self.centre, self.same_x = moments, centre, self
        self.d, self.n = len(moments.mean), moments.n
        self.order = min(moments.rows - centre, self.d)
        n, mean, y_mean = moments.n, moments.mean, moments.y_mean
        xx, self.c, self.yy = moments.xx, moments.xy.copy(), moments.yy
        if not centre:
            xx, self.c, self.yy = xx + n * np.outer(mean, mean), self.c + n * y_mean * mean, self.yy + n * y_mean**2
        self.squares = xx.diagonal().copy()
        dead = (
            np.flatnonzero(self.squares <= CONSTANT_SHARE**2 * n * mean**2)
            if centre
            else np.flatnonzero(self.squares <= 0.0)
        )
        if dead.size:
            xx = xx.copy()
            xx[dead], xx[:, dead], self.c[dead], self.squares[dead] = 0.0, 0.0, 0.0, 0.0
        if self.yy <= CONSTANT_SHARE**2 * n * y_mean**2 and centre:
            self.yy, self.c = 0.0, np.zeros(self.d)
        self._xx = np.ascontiguousarray(xx)

    def gram(self, room: Floats | None = None) -> Floats:
        return self._xx

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        rows = self._xx[features]
        if out is None:
            return rows
        out[:] = rows
        return out

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        return self._xx[np.ix_(some, others)]

    def gradient(self, w: Floats) -> Floats:
        used = np.flatnonzero(w)
        return self.c - w[used] @ self._xx[used]

    def loss(self, w: Floats) -> float:
        used = np.flatnonzero(w)
        v = w[used]
        return max(float(self.yy - 2.0 * (v @ self.c[used]) + v @ self._xx[np.ix_(used, used)] @ v), 0.0)

    def residual(self, w: Floats) -> None:
        return None

    def residuals(self, W: Floats) -> None:
        return None

    def columns(self, features: Ints) -> None:
        return None

    def correlate(self, v: Floats) -> Floats:
        raise NotImplementedError("only statistics are at hand, no rows")

    def intercepts(self, W: Any) -> Floats:
        if not self.centre:
            return np.zeros(W.shape[0])
        return np.asarray(self.moments.y_mean - W @ self.moments.mean)


class Moments:
    """Statistics of all tasks, from which a model is fitted exactly as from the rows.

    Rows come in batches (:meth:`update`, :meth:`from_batches`, :meth:`from_parquet`); statistics of different rows add up,
    so that sites that may not share rows can share these: see :meth:`disclosure` for what they give away.

    Attributes
    ----------
    features : (d,) names, in the order of the first batch
    tasks : labels in the order in which they came
    n, rows : (m,) sums of weights and numbers of rows

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

    def __init__(self) -> None:
        self.features: np.ndarray | None = None
        self.named = False
        self._tasks: dict[Any, TaskMoments] = {}
        self.task_place: int | None = None  # of the task column in the first table
        self._seen: dict[Any, None] = {}  # all labels, also those that had no row that counts
        self.form = ""

    # ---------------------------------------------------------------- what is there

    @property
    def tasks(self) -> np.ndarray:
        labels = [label for label in self._seen | dict.fromkeys(self._tasks) if label in self._tasks]
        kinds = {type(label) for label in labels}
        if len(kinds) == 1 and not isinstance(labels[0], tuple):
            return np.array(labels)
        out = np.empty(len(labels), dtype=object)
        out[:] = labels
        return out

    @property
    def d(self) -> int:
        return 0 if self.features is None else len(self.features)

    @property
    def n(self) -> Floats:
        return np.array([self._tasks[label].n for label in self.tasks.tolist()])

    @property
    def rows(self) -> np.ndarray:
        return np.array([self._tasks[label].rows for label in self.tasks.tolist()], dtype=int)

    def __getitem__(self, label: Any) -> TaskMoments:
        return self._tasks[label]

    def __contains__(self, label: Any) -> bool:
        return label in self._tasks

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        return f"Moments({len(self)} tasks, {int(self.rows.sum())} rows, {self.d} features)"

    def copy(self) -> Moments:
        out = Moments()
        out.features, out.named, out.form = self.features, self.named, self.form
        out._tasks, out._seen, out.task_place = dict(self._tasks), dict(self._seen), self.task_place
        return out

    # ---------------------------------------------------------------- adding rows

    def update(
        self, X: Any, y: Any, *, task: Any = None, task_column: str | int | None = None, sample_weight: Any = None
    ) -> Moments:
        """Add a batch of rows; input as for :meth:`MSMTFL.fit`. All of it is added or, if something is wrong, nothing.

        A table's columns are brought into the order of the first batch by their names.
        """
        add_batch([self], X, y, task=task, task_column=task_column, sample_weight=sample_weight)
        return self

    def _order(self, names: np.ndarray) -> list[int] | None:
        """Where the features of the first batch stand in a table with these; None if it is in their order."""
        assert self.features is not None
        wanted, columns = self.features.tolist(), names.tolist()
        if columns == wanted:
            return None
        absent = [name for name in wanted if name not in columns]
        extra = [name for name in columns if name not in wanted]
        if absent or extra:
            lacks = f"lacks column(s) {names_of(absent)}" if absent else f"has further column(s) {names_of(extra)}"
            raise ValueError(f"this batch {lacks}; the batches before had {names_of(wanted)}.")
        return [columns.index(name) for name in wanted]

    def _check_form(self, d: int, form: str, what: str = "this batch") -> None:
        if self.features is not None and d != self.d:
            raise ValueError(f"{what} has {d} features, the batches before had {self.d}.")
        if self.form and form != self.form:
            kinds = {"single": "no task labels", "long": "task labels", "wide": "one column of y per task"}
            raise ValueError(f"{what} has {kinds[form]}, the batches before had {kinds[self.form]}.")

    def _merge(self, found: Mapping[Any, TaskMoments]) -> None:
        new = dict(self._tasks)
        for label, part in found.items():
            new[label] = new[label].merged(part) if label in new else part
        self._tasks = new

    def sorted_tasks(self) -> np.ndarray:
        """The labels in the order that a fit to the rows has: sorted if they can be; columns of y as they are."""
        try:
            return self.tasks if self.form == "wide" else np.unique(self.tasks)
        except TypeError:
            return self.tasks

    def __add__(self, other: Moments) -> Moments:
        out = self.copy()
        out += other
        return out

    def __iadd__(self, other: Moments) -> Moments:
        other = self._matching(other)
        if self.features is None:
            self.features, self.named, self.form = other.features, other.named, other.form
        self._seen |= other._seen
        self.task_place = other.task_place if self.task_place is None else self.task_place
        self._merge(other._tasks)
        return self

    def __sub__(self, other: Moments) -> Moments:
        """The statistics without rows that were added before. A task of which nothing is left goes."""
        other = self._matching(other)
        out = self.copy()
        for label, part in other._tasks.items():
            whole = out._tasks.get(label)
            if whole is None or part.rows > whole.rows or part.n > whole.n * (1 + ROUNDING):
                had = 0 if whole is None else whole.rows
                raise ValueError(f"task {label!r}: {part.rows} rows cannot be taken from {had}.")
            rest = self._less(label, whole, part)
            if rest is None:
                del out._tasks[label]
                out._seen.pop(label, None)
            else:
                out._tasks[label] = rest
        return out

    def _less(self, label: Any, whole: TaskMoments, part: TaskMoments) -> TaskMoments | None:
        """A task without some of its rows; None if these are all."""
        before = Sums(whole)
        if part.rows == whole.rows:
            if not before.equal(Sums(part)):
                raise ValueError(f"task {label!r}: as many rows are subtracted as were added, but not the same ones.")
            return None
        if whole.n - part.n <= 1e-15 * whole.n:
            raise ValueError(f"task {label!r}: no weight is left for {whole.rows - part.rows} row(s). {NOT_ADDED}")
        rest = whole.merged(part, -1)
        left = before.left(rest)
        names = [*(f"column {name!r}" for name in self.features), "the target"]  # type: ignore[union-attr]
        odd = _impossible(left)
        if odd is not None:
            raise ValueError(f"task {label!r}, {names[odd]}: more is subtracted than was added. {NOT_ADDED}")
        share = left.diagonal()
        gone = share <= NOISE
        poor = np.flatnonzero(~gone & (share < FEW_DIGITS))
        if poor.size:
            warn_user(
                f"task {label!r}, {names[poor[0]]}: so little is left of its spread ({share[poor[0]]:.0e}) that digits are "
                "lost. Sum up the remaining rows instead."
            )
        return rest.flattened(gone)

    def _matching(self, other: Moments) -> Moments:
        """The other with its features in our order."""
        if not isinstance(other, Moments):
            raise TypeError(f"Moments can be combined with Moments, not with {type(other).__name__}.")
        if self.features is None or other.features is None:
            return other
        self._check_form(other.d, other.form, "the other")
        mine, theirs = self.features.tolist(), other.features.tolist()
        if mine == theirs:
            return other
        if sorted(mine) != sorted(theirs):
            odd = sorted(set(mine) ^ set(theirs))
            raise ValueError(f"the features differ: {names_of(odd)} are in one of the two only.")
        order = np.array([theirs.index(name) for name in mine])
        out = other.copy()
        out.features = self.features
        out._tasks = {
            label: replace(
                part,
                mean=part.mean[order],
                low=part.low[np.append(order, len(order))],
                xx=part.xx[np.ix_(order, order)],
                xy=part.xy[order],
            )
            for label, part in other._tasks.items()
        }
        return out

    # ---------------------------------------------------------------- streams

    @classmethod
    def from_batches(
        cls,
        batches: Iterable[Sequence[Any]],
        *,
        task_column: str | int | None = None,
        folds: int | None = None,
        random_state: Any = 0,
    ) -> Any:
        """Statistics of batches (X, y), (X, y, task) or (X, y, task, sample_weight), of which one is in memory at a time.

        With `folds` a list of that many Moments: rows go to one of them at random, evenly within each task, so that
        :meth:`MSMTFLCV.fit_moments` can cross-validate.
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
    def _parts(cls, folds: int | None, random_state: Any) -> tuple[list[Moments], Dealer | None]:
        if folds is None:
            return [cls()], None
        check_count("folds", folds)
        return [cls() for _ in range(folds)], Dealer(int(folds), random_state)

    @classmethod
    def from_parquet(
        cls,
        path: Any,
        target: str,
        task: str | None = None,
        *,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        group: str | None = None,
        folds: int | None = None,
        random_state: Any = 0,
        batch_rows: int = 2**15,
        verbose: bool = False,
    ) -> Any:
        """Statistics of Parquet files, read in batches of bounded memory with pyarrow.

        Parameters
        ----------
        path : a file, a folder of files, a pattern such as "year=*/part-*.parquet", or a list of files
        target, task, weight, group : names of columns; rows of one group go to the same fold
        features : names; by default all columns that have no other role
        folds, random_state : as for :meth:`from_batches`
        batch_rows : rows of a batch; two are in memory at a time, the next one being read on another thread
        verbose : show a progress bar

        Returns
        -------
        Moments, or with `folds` a list of them. A file that cannot be read, and a column that is missing, holds no
        numbers or has missing values, is an error that names the file.
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

    def disclosure(self) -> list[str]:
        """What these statistics give away of single rows, in words; empty if nothing was found.

        Sums over many rows hide each of them; they do not where a task has few rows compared with its features (the sums
        then determine the rows up to rotation), or where a 0/1 column has very few ones: sums of products with it are then
        sums over these few.
        """
        out = []
        for label, task in self._tasks.items():
            if task.rows <= self.d + 1:
                out.append(
                    f"task {label!r} has {task.rows} rows and {self.d} features: sums over so few can give them away"
                )
            second = task.xx.diagonal() + task.n * task.mean**2
            binary = (task.mean >= 0) & (task.mean <= 1) & np.isclose(second, task.n * task.mean, rtol=1e-9, atol=1e-9)
            rows = np.rint(
                task.rows * np.minimum(task.mean, 1.0 - task.mean)
            )  # ones, or zeros; with weights about so many
            rare = binary & (task.mean > 0) & (task.mean < 1) & (rows <= FEW_ONES)
            if rare.any():
                assert self.features is not None
                names = names_of(self.features[rare])
                out.append(
                    f"task {label!r}: 0/1 column(s) {names} have {FEW_ONES} or fewer ones (or zeros), and show their rows"
                )
        return out

    # ---------------------------------------------------------------- files

    def save(self, path: Any) -> None:
        """To a file of plain arrays that :meth:`load` reads; written whole or not at all. Warns of what it gives away."""
        if self.features is None:
            raise ValueError("there are no rows yet: nothing to save.")
        for words in self.disclosure():
            warn_user(f"{words}. Drop the column, merge sites first, or keep the file private.")
        labels, seen = [_plain(label) for label in self._tasks], [_plain(label) for label in self._seen]
        head = {"format": FORMAT, "version": VERSION, "form": self.form, "tasks": labels, "seen": seen}
        head["named"] = self.named
        arrays: dict[str, Any] = {"features": self.features.astype(str), "head": np.array(json.dumps(head))}
        for name in SUMS:
            arrays[name] = np.array([getattr(task, name) for task in self._tasks.values()])
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        write_whole(Path(path), buffer.getvalue())

    @classmethod
    def load(cls, path: Any) -> Moments:
        """From a file of :meth:`save`. No code is run."""
        try:
            with open(path, "rb") as file:
                head, arrays = _stored(file)
            out = cls()
            out.features, out.named, out.form = (
                arrays["features"].astype(object),
                bool(head["named"]),
                str(head["form"]),
            )
            out._seen = dict.fromkeys(head["seen"])
            for i, label in enumerate(head["tasks"]):
                values = {name: arrays[name][i] for name in SUMS}
                scalars = {"rows": int(values["rows"]), **{k: float(values[k]) for k in ("n", "y_mean", "yy")}}
                out._tasks[label] = TaskMoments(**{**values, **scalars})
        except UNREADABLE as error:
            raise ValueError(f"{path} is not a file of Moments, or is damaged: {error}") from error
        return out


def _stored(file: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Head and arrays of a file of statistics, checked."""
    with np.load(file, allow_pickle=False) as stored:
        head = json.loads(str(stored["head"]))
        if head["format"] != FORMAT:
            raise ValueError(f"its format is {head['format']!r}")
        if head["version"] != VERSION:
            raise ValueError(f"version {head['version']!r}; this msmtfl reads {VERSION}. Install a newer one.")
        arrays = {name: stored[name] for name in ("features", *SUMS)}
    m, d = len(head["tasks"]), len(arrays["features"])
    shapes = {"rows": (m,), "n": (m,), "mean": (m, d), "y_mean": (m,), "low": (m, d + 1)}
    shapes |= {"xx": (m, d, d), "xy": (m, d), "yy": (m,)}
    for name, shape in shapes.items():
        if arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} has shape {arrays[name].shape}, or is not finite")
    return head, arrays


def _plain(label: Any) -> Any:
    value = label.item() if isinstance(label, np.generic) else label
    if not isinstance(value, str | int | float | bool):
        raise TypeError(f"task label {label!r} cannot be stored: use text or numbers.")
    return value


# ------------------------------------------------------------------ batches, and folds on the fly


class Dealer:
    """Deals the rows of a stream out to folds: of every `folds` rows of a task that follow each other each goes to another
    fold, in random order, whatever the batches they come in; or all rows of a group go to the fold that its name says."""

    def __init__(self, folds: int, random_state: Any):
        if folds < 2:
            raise ValueError(f"folds must be at least 2: one is held out at a time; got {folds}.")
        self.folds, self.seed = folds, int(check_random_state(random_state).randint(2**31 - 1))
        self.hands: dict[Any, tuple[np.random.Generator, np.ndarray]] = {}  # of every task: what is left of a round

    def deal(self, label: Any, count: int) -> np.ndarray:
        """The folds of the next `count` rows of a task."""
        if label not in self.hands:
            random = np.random.default_rng([self.seed, zlib.crc32(str(label).encode())])
            self.hands[label] = random, np.empty(0, dtype=np.intp)
        random, left = self.hands[label]
        rounds = -(-max(count - len(left), 0) // self.folds)
        cards = np.concatenate([left, random.random((rounds, self.folds)).argsort(axis=1).ravel()])
        self.hands[label] = random, cards[count:]
        return cards[:count]

    def of_groups(self, groups: Iterable[Any]) -> np.ndarray:
        return np.array([zlib.crc32(str(group).encode()) % self.folds for group in groups], dtype=np.intp)


def add_batch(
    parts: Sequence[Moments],
    X: Any,
    y: Any,
    *,
    task: Any = None,
    task_column: str | int | None = None,
    sample_weight: Any = None,
    dealer: Dealer | None = None,
) -> None:
    """Add a batch to one Moments, or its rows to several, as the dealer says: all of it, or nothing."""
    if len(np.shape(X)) == 2 and np.shape(X)[0] == 0:
        return
    check_form(X)
    values, task, names = read_features(X, task, task_column)
    named = is_table(X)
    order = parts[0]._order(names) if named and parts[0].named else None
    if order is not None:
        values, names = values[:, order], names[order]
    check_finite(values, names, "X")
    tasks, labels, form = _read_batch(values, y, task, sample_weight)
    parts[0]._check_form(values.shape[1], form)
    fold = None if dealer is None else _folds(tasks, values.shape[0], form, dealer)
    rows = (one for task in tasks for one in _by_fold(task, fold))
    add_rows(parts, rows, names, labels, named=named, form=form)
    for part in parts:
        if task_column is not None and part.task_place is None:
            part.task_place = column_position(X, task_column)


def _read_batch(X: Any, y: Any, task: Any, sample_weight: Any) -> tuple[list[Task], list[Any], str]:
    """(tasks with rows that count, labels of all, form): in a batch a task may have none, even if it has a column of y."""
    target, names = read_target(y, X.shape[0])
    weight = check_weights(sample_weight, target.shape)
    if target.ndim == 1:
        data = read_training(X, target, task=task)
        labels = data.labels.tolist()
        found = [_counting(one, label, weight) for one, label in zip(data.tasks, labels, strict=True)]
        return [one for one in found if one is not None], labels, data.form
    labels = list(range(target.shape[1])) if names is None else names.tolist()
    measured = np.flatnonzero(~np.isnan(target).all(axis=0)).tolist()
    if not measured:
        warn_user(f"all {len(target)} rows of y are wholly missing and were left out.")
        return [], labels, "wide"
    tasks = read_training(X, target[:, measured], task=task).tasks
    columns = [weight if weight is None or weight.ndim == 1 else weight[:, i] for i in measured]
    found = [_counting(one, labels[i], w) for one, i, w in zip(tasks, measured, columns, strict=True)]
    return [one for one in found if one is not None], labels, "wide"


def _counting(task: Task, label: Any, weight: Floats | None) -> Task | None:
    """The rows of a task that have a weight; None if there are none."""
    if weight is None:
        return replace(task, label=label)
    w = weight[task.rows]
    used = w > 0
    if used.all():
        return replace(task, label=label, weight=w)
    return Task(label, task.X[used], task.y[used], w[used], task.rows[used]) if used.any() else None


def _folds(tasks: Sequence[Task], rows: int, form: str, dealer: Dealer) -> np.ndarray:
    """The fold of every row that counts; a row of a 2-D y goes to one fold, dealt out within the set of its tasks."""
    out = np.zeros(rows, dtype=np.intp)
    if form != "wide":
        for task in tasks:
            out[task.rows] = dealer.deal(task.label, len(task.rows))
        return out
    member = np.zeros((rows, len(tasks)), dtype=bool)
    for i, task in enumerate(tasks):
        member[task.rows, i] = True
    sets, which = np.unique(member, axis=0, return_inverse=True)
    for k, of_set in enumerate(sets):
        mine = np.flatnonzero(which.ravel() == k)
        out[mine] = dealer.deal(tuple(task.label for task, has in zip(tasks, of_set, strict=True) if has), len(mine))
    return out


def _by_fold(task: Task, fold: np.ndarray | None) -> Iterable[Rows]:
    """A task's rows, fold by fold."""
    if fold is None:
        yield Rows(task.label, 0, task.X, task.y, task.weight)
        return
    mine = fold[task.rows]
    for f in np.unique(mine).tolist():
        at = np.flatnonzero(mine == f)
        yield Rows(task.label, f, task.X[at], task.y[at], None if task.weight is None else task.weight[at])


def add_rows(
    parts: Sequence[Moments],
    rows: Iterable[Rows],
    features: np.ndarray,
    labels: Iterable[Any],
    *,
    named: bool,
    form: str,
) -> None:
    """Add checked rows, every one to the part of its fold: all of them, or nothing."""
    found: list[dict[Any, TaskMoments]] = [{} for _ in parts]
    for one in rows:
        found[one.fold][one.label] = TaskMoments.of(one.X, one.y, one.weight)
        _check_finite(found[one.fold][one.label], one, features)
    for part, of_part in zip(parts, found, strict=True):
        if part.features is None or (named and not part.named):
            part.features, part.named = features, named
        part.form = form
        part._seen |= dict.fromkeys(labels)
        part._merge(of_part)


def _check_finite(sums: TaskMoments, rows: Rows, features: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(np.append(sums.xx.diagonal(), sums.yy)))
    if bad.size:
        of_y = bad[0] == len(features)
        values: Any = rows.y if of_y else rows.X[:, bad[0]]
        values = values.toarray() if hasattr(values, "toarray") else values
        name = f"{'y' if of_y else f'column {features[bad[0]]!r}'} in task {rows.label!r}"
        if not np.isfinite(values).all():
            raise ValueError(f"{name} holds a value that is not finite. Drop such rows first.")
        raise ValueError(f"{name} is too large: the sum of its squares overflows. Rescale it.")


# ------------------------------------------------------------------ what a fit takes


@dataclass(frozen=True)
class MomentSplit:
    """A fold of statistics: train on the others, measure on this one."""

    train: int

    def measure(self, data: Any, surface: Any, scorer: Any) -> tuple[Floats, Floats, None]:
        places, back = np.unique(surface.last, return_inverse=True)
        back = back.reshape(surface.last.shape)
        mse, weight = np.full((data.m, len(places)), np.nan), np.zeros(data.m)
        for i, (label, design) in enumerate(zip(data.labels.tolist(), surface.problem.designs, strict=True)):
            if label in data.folds[self.train]:
                held = data.folds[self.train][label]
                W = surface.of_task(i)
                error = held.squared_error(W.dense(places), design.intercepts(W)[places])
                weight[i], mse[i] = held.n, error / held.n
        return mse[:, back], weight, None


class MomentData:
    """Statistics where rows would be: what a `Problem` asks of its data."""

    task_position: int | None = None

    def __init__(self, folds: Sequence[Moments], task_column: Any):
        if not folds:
            raise ValueError("no Moments were given.")
        strange = [type(fold).__name__ for fold in folds if not isinstance(fold, Moments)]
        if strange:
            raise TypeError(f"expected Moments, or a list of them, one per fold; got {strange[0]}.")
        total = folds[0].copy()
        for other in folds[1:]:
            total += other
        if total.features is None or len(total) == 0:
            raise ValueError("these Moments hold no rows: update them first.")
        self.named = total.named
        self.total, self.folds = total, [total._matching(fold) for fold in folds]
        self.features, self.form, self.labels = total.features, total.form, total.sorted_tasks()
        self.m, self.d = len(total), total.d
        if task_column is not None:
            last = (
                self.d if total.task_place is None else total.task_place
            )  # a table to predict is like the first batch
            self.task_position = int(task_column) % (self.d + 1) if isinstance(task_column, Integral) else last
        idle = [label for label in total._seen if label not in total]
        if idle:
            warn_user(f"task(s) {names_of(idle)} have no row that counts (weights 0, or y missing) and are left out.")
        if not np.isfinite([part.yy + part.xx.diagonal().sum() for part in self.tasks]).all():
            raise ValueError("these Moments are not finite: the sums of squares overflow. Rescale the data.")

    @property
    def tasks(self) -> list[TaskMoments]:
        return [self.total[label] for label in self.labels.tolist()]

    @property
    def targets(self) -> list[Target]:
        return [
            Target(part.rows, part.y_mean, _variance(part), part.yy / part.n + part.y_mean**2) for part in self.tasks
        ]

    def designs(self, centre: bool, n_jobs: int | None = None) -> list[MomentTask]:
        return [MomentTask(part, centre) for part in self.tasks]

    def splits(self) -> list[MomentSplit]:
        if len(self.folds) < 2:
            raise ValueError(
                "cross-validation needs the statistics of at least 2 folds: Moments.from_batches(..., folds=5), or a list."
            )
        for f in range(len(self.folds)):
            lost = [label for label in self.labels.tolist() if label not in self.without(f)]
            if lost:
                raise ValueError(
                    f"task(s) {names_of(lost)} have all their rows in fold {f}: nothing is left to train on. Use fewer "
                    "folds, or leave them out."
                )
            if not len(self.folds[f]):
                raise ValueError(
                    f"fold {f} holds no rows. Use fewer folds, or deal rows out by groups that are smaller."
                )
        return [MomentSplit(f) for f in range(len(self.folds))]

    def without(self, f: int) -> Moments:
        """The sum of the other folds: nothing is subtracted."""
        others = [fold for k, fold in enumerate(self.folds) if k != f]
        out = others[0].copy()
        for other in others[1:]:
            out += other
        return out

    def training(self, designs: Sequence[MomentTask], keep: int) -> list[MomentTask]:
        rest = self.without(keep)
        return [MomentTask(rest[label], designs[0].centre) for label in self.labels.tolist()]

    def gather(self, designs: Any, keeps: Any, n_jobs: int | None = None) -> None:
        """Nothing to prepare: the Gram matrices are here."""

    def release(self, designs: Any) -> None:
        """Nothing to forget."""


def _variance(part: TaskMoments) -> float:
    return part.yy / part.n if part.yy > CONSTANT_SHARE**2 * part.n * part.y_mean**2 else 0.0
