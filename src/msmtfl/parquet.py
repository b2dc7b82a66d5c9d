"""Rows of tasks from Parquet files, a batch at a time: memory does not grow with the data."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .designs import Floats
from .tables import names_of


@dataclass(frozen=True)
class Rows:
    """Rows of one task, checked."""

    label: Any
    X: Floats
    y: Floats
    weight: Floats | None
    group: Any


class ParquetRows:
    """Iterates over batches: (list of `Rows`, one per task in the batch; number of rows).

    Parameters are those of :meth:`Moments.from_parquet`. Columns are taken by name, whatever their order and type in a file.
    """

    def __init__(
        self,
        path: Any,
        target: str,
        task: str | None,
        features: Sequence[str] | None,
        weight: str | None,
        group: str | None,
        batch_rows: int,
    ):
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise ImportError("reading Parquet needs pyarrow: pip install pyarrow.") from error
        self.parquet, self.batch_rows = pyarrow.parquet, batch_rows
        self.target, self.task, self.weight, self.group = target, task, weight, group
        self.files = _files(path)
        schemas = [self._schema(file) for file in self.files]
        self.rows = sum(count for _, count in schemas)
        roles = [name for name in (target, task, weight, group) if name is not None]
        if features is None:
            features = [name for name in schemas[0][0] if name not in roles]
        self.features = np.array(list(features), dtype=object)
        if self.features.size == 0:
            raise ValueError(f"{self.files[0]} has no column left that could be a feature.")
        for file, (names, _) in zip(self.files, schemas, strict=True):
            absent = [name for name in (*roles, *self.features) if name not in names]
            if absent:
                raise ValueError(f"{file} lacks column(s) {names_of(absent)}; it has {names_of(names)}.")

    def _schema(self, file: Path) -> tuple[list[str], int]:
        """Names of columns and number of rows."""
        try:
            found = self.parquet.ParquetFile(file)
        except (OSError, ValueError) as error:
            raise ValueError(f"{file} cannot be read as Parquet: {error}") from error
        with found:
            return list(found.schema_arrow.names), found.metadata.num_rows

    def __iter__(self) -> Iterator[tuple[list[Rows], int]]:
        wanted = list(dict.fromkeys([*self.features, self.target, self.task, self.weight, self.group]))
        columns = [name for name in wanted if name is not None]
        for file in self.files:
            try:
                with self.parquet.ParquetFile(file) as opened:
                    for batch in opened.iter_batches(batch_size=self.batch_rows, columns=columns):
                        if batch.num_rows:
                            yield self._tasks(batch), batch.num_rows
            except (OSError, ValueError) as error:
                raise ValueError(f"{file}: {error}") from error

    def _tasks(self, batch: Any) -> list[Rows]:
        X = np.empty((batch.num_rows, len(self.features)), order="F")
        for j, name in enumerate(self.features):
            X[:, j] = self._numbers(batch, name)
        y = np.array(self._numbers(batch, self.target), dtype=np.float64)
        for name, values in ((None, X), (self.target, y)):
            if not np.isfinite(values.sum()):
                self._refuse(name, values)
        weight = None if self.weight is None else np.array(self._numbers(batch, self.weight), dtype=np.float64)
        if weight is not None:
            if not (np.isfinite(weight).all() and (weight >= 0).all()):
                raise ValueError(f"column {self.weight!r} holds weights that are negative or not finite.")
            used = weight > 0
            X, y, weight = X[used], y[used], weight[used]
        else:
            used = np.ones(len(y), dtype=bool)
        group = None if self.group is None else np.array(batch.column(self.group).to_pylist(), dtype=object)[used]
        if self.task is None:
            return [Rows(0, X, y, weight, group)] if len(y) else []
        codes, labels = self._codes(batch, self.task)
        codes = codes[used]
        out = []
        for code in np.unique(codes).tolist():
            at: Any = slice(None) if len(labels) == 1 else np.flatnonzero(codes == code)
            of_task = None if weight is None else weight[at]
            out.append(Rows(labels[code], X[at], y[at], of_task, None if group is None else group[at]))
        return out

    def _numbers(self, batch: Any, name: str) -> np.ndarray:
        import pyarrow as pa

        column = batch.column(name)
        kind = column.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise ValueError(f"column {name!r} holds {kind}, not numbers. Encode it, or leave it out: features=[...].")
        if column.null_count:
            raise ValueError(f"column {name!r} has {column.null_count} missing value(s). Drop or fill them first.")
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def _refuse(self, name: str | None, values: Floats) -> None:
        bad = np.argwhere(~np.isfinite(values))
        if bad.size:
            column = name if name is not None else self.features[bad[0][1]]
            raise ValueError(f"column {column!r} holds a value that is not finite. Drop such rows first.")

    def _codes(self, batch: Any, name: str) -> tuple[np.ndarray, list[Any]]:
        """Every row's place among the labels of the batch, and these."""
        encoded = batch.column(name)
        if encoded.null_count:
            raise ValueError(f"column {name!r}: the task is missing in {encoded.null_count} row(s).")
        if not hasattr(encoded, "dictionary"):
            encoded = encoded.dictionary_encode()
        return np.asarray(encoded.indices), encoded.dictionary.to_pylist()


def _files(path: Any) -> list[Path]:
    """The files that a path, a folder, a pattern or a list means, in order of their names."""
    if isinstance(path, (list, tuple)):
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
            raise FileNotFoundError(f"{file} does not exist.")
    return found
