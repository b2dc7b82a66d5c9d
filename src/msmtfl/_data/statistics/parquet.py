"""Rows of tasks from Parquet files, a batch at a time: memory does not grow with the data."""

from __future__ import annotations

import glob
import os
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
from scipy.sparse import csr_array

from ..designs import Floats, Ints
from ..tables import missing_values, names_of, refuse_twice

if TYPE_CHECKING:
    from .dealer import Dealer

READ_AT_ONCE = 2**16  # bytes of a column

ParquetPath: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Item = TypeVar("Item")


class RecordBatch(Protocol):
    """A batch of pyarrow's."""

    @property
    def num_rows(self) -> int: ...

    def column(self, name: str, /) -> Any:
        """A pyarrow array."""


@dataclass(frozen=True)
class Rows:
    """Rows of one task that go to one fold; X is float64 or float32."""

    label: Hashable
    fold: int
    X: np.ndarray | csr_array
    y: Floats
    weight: Floats | None


class ParquetRows:
    """Iterates over batches: (list of `Rows`, by task and fold; labels of the tasks; number of rows), from `file`.

    Parameters are those of :meth:`Moments.from_parquet`, and a `Dealer` if there are folds. Columns are taken by name,
    whatever their order and type in a file.
    """

    def __init__(
        self,
        path: ParquetPath,
        target: str,
        task: str | None,
        features: Sequence[str] | None,
        weight: str | None,
        group: str | None,
        batch_rows: int,
        dealer: Dealer | None = None,
    ):
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise ImportError("reading Parquet needs pyarrow: pip install pyarrow.") from error
        self.parquet, self.batch_rows, self.dealer = pyarrow.parquet, batch_rows, dealer
        self.target, self.task, self.weight, self.group = target, task, weight, group
        self.files = _files(path)
        schemas = [self._schema(file) for file in self.files]
        self.rows = sum(count for _, count in schemas)
        roles = [name for name in (target, task, weight, group) if name is not None]
        if features is None:
            features = [name for name in schemas[0][0] if name not in roles]
        self.roles = roles
        refuse_twice([*features, *dict.fromkeys(roles)], "features, target, task, weight and group")
        self.features = np.array(list(features), dtype=object)
        if self.features.size == 0:
            raise ValueError(f"{self.files[0]} has no column left that could be a feature.")
        for file, (names, _) in zip(self.files, schemas, strict=True):
            absent = [name for name in (*roles, *self.features) if name not in names]
            if absent:
                raise ValueError(f"{file} lacks column(s) {names_of(absent)}; it has {names_of(names)}.")

    def _open(self, file: Path) -> Any:
        """In pieces, so that a large row group takes no more memory than a small one."""
        return self.parquet.ParquetFile(
            file, buffer_size=READ_AT_ONCE, pre_buffer=False, page_checksum_verification=True
        )

    def _schema(self, file: Path) -> tuple[list[str], int]:
        """Names of columns and number of rows."""
        try:
            found = self._open(file)
        except (OSError, ValueError) as error:
            raise ValueError(f"{file} cannot be read as Parquet: {error}") from error
        with found:
            return list(found.schema_arrow.names), found.metadata.num_rows

    def __iter__(self) -> Iterator[tuple[list[Rows], list[Hashable], int]]:
        for file, batch in ahead(self._batches()):
            self.file = file
            try:
                yield *self._rows(batch), batch.num_rows
            except ValueError as error:
                raise ValueError(f"{file}: {error}") from error

    def _batches(self) -> Iterator[tuple[Path, RecordBatch]]:
        columns = [*self.features, *dict.fromkeys(self.roles)]
        for file in self.files:
            try:
                with self._open(file) as opened:
                    for batch in opened.iter_batches(batch_size=self.batch_rows, columns=columns):
                        if batch.num_rows:
                            yield file, batch
            except (OSError, ValueError) as error:
                raise ValueError(f"{file}: {error}") from error

    def _rows(self, batch: RecordBatch) -> tuple[list[Rows], list[Hashable]]:
        """The rows of a batch, by task and fold, and the labels of its tasks.

        Columns are brought into that order one by one, while they are small enough for the cache, and stay float32 if
        they are: `TaskMoments.of` needs a copy anyway, and looks for values that are not finite.
        """
        weight = self._weights(batch)
        used = np.arange(batch.num_rows) if weight is None else np.flatnonzero(weight)
        codes = np.zeros(batch.num_rows, dtype=np.intp)
        labels: list[Hashable] = [0]
        if self.task is not None:
            codes, labels = self._codes(batch, self.task)
        place = self._places(batch, codes, labels, used)
        counts = np.bincount(place)
        order = used[sorted_places(place, len(counts))]
        columns = [self._numbers(batch, name) for name in self.features]
        kind = np.result_type(np.float32, *{column.dtype for column in columns})
        X = np.empty((len(order), len(columns)), dtype=kind, order="F")
        for j, column in enumerate(columns):
            column.astype(kind, copy=False).take(order, out=X[:, j], mode="clip")
        y = self._numbers(batch, self.target)[order].astype(np.float64)
        weight = None if weight is None else weight[order]
        out, folds, end = [], 1 if self.dealer is None else self.dealer.folds, 0
        for at in np.flatnonzero(counts).tolist():
            low, end = end, end + int(counts[at])
            w = None if weight is None else weight[low:end]
            out.append(Rows(labels[at // folds], at % folds, X[low:end], y[low:end], w))
        return out, labels

    def _places(self, batch: RecordBatch, codes: np.ndarray, labels: list[Hashable], used: Ints) -> np.ndarray:
        """For every row that counts: its task's place times the number of folds, plus its fold."""
        codes = codes[used]
        if self.dealer is None or len(codes) == 0:
            return codes
        if self.group is not None:
            groups, names = self._codes(batch, self.group)
            fold = self.dealer.of_groups(names)[groups[used]]
        else:
            fold, counts = np.empty(len(codes), dtype=np.intp), np.bincount(codes).tolist()
            dealt = [self.dealer.deal(labels[code], count) for code, count in enumerate(counts) if count]
            fold[sorted_places(codes, len(counts))] = np.concatenate(dealt)
        out: np.ndarray = codes * self.dealer.folds + fold
        return out

    def _weights(self, batch: RecordBatch) -> Floats | None:
        if self.weight is None:
            return None
        weight = self._numbers(batch, self.weight).astype(np.float64)
        if not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise ValueError(f"column {self.weight!r} holds weights that are negative or not finite.")
        return weight

    def _numbers(self, batch: RecordBatch, name: str) -> np.ndarray:
        import pyarrow as pa

        column = batch.column(name)
        kind = column.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise ValueError(f"column {name!r} holds {kind}, not numbers. Encode it, or leave it out: features=[...].")
        if column.null_count:
            raise ValueError(f"column {name!r} has {column.null_count} missing value(s). Drop or fill them first.")
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def _codes(self, batch: RecordBatch, name: str) -> tuple[np.ndarray, list[Hashable]]:
        """Every row's place among the labels that a column holds in this batch, and these."""
        import pyarrow as pa

        column = batch.column(name)
        if pa.types.is_nested(column.type):
            raise ValueError(f"column {name!r} holds {column.type}, where single values are needed as labels.")
        if column.null_count:
            raise ValueError(
                f"column {name!r} is missing in {column.null_count} row(s). Drop them, or give them a label."
            )
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        indices = np.asarray(encoded.indices)
        used = np.flatnonzero(np.bincount(indices))  # a dictionary may hold more, or a label twice
        labels: dict[Hashable, int] = {}
        code = np.zeros(len(encoded.dictionary), dtype=np.intp)
        code[used] = [labels.setdefault(label, len(labels)) for label in encoded.dictionary.take(used).to_pylist()]
        if missing_values(np.array([*labels, None], dtype=object)[:-1]).any():
            raise ValueError(f"column {name!r} holds a label that is missing. Drop such rows, or give them one.")
        return code[indices], list(labels)


def sorted_places(codes: np.ndarray, most: int) -> np.ndarray:
    """Where small whole numbers stand in their order; numbers below 2**15 are sorted much faster as such."""
    return np.argsort(codes.astype(np.int16) if most < 2**15 else codes, kind="stable")


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same, but the next one is fetched on another thread while this one is worked on."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


def _files(path: ParquetPath) -> list[Path]:
    """The files that a path, a folder, a pattern or a list means, in order of their names."""
    if not isinstance(path, str | os.PathLike):
        found = [Path(one) for one in path]
    elif Path(path).is_dir():
        found = sorted(Path(path).rglob("*.parquet"))
    elif Path(path).exists():
        found = [Path(path)]
    else:
        found = sorted(Path(one) for one in glob.glob(str(path), recursive=True))
    if not found:
        raise FileNotFoundError(f"no Parquet file at {path}.")
    for file in found:
        if not file.is_file():
            raise FileNotFoundError(f"{file} is not a file, or does not exist.")
    return found
