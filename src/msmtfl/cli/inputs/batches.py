"""Parquet files that do not fit into memory, batch by batch: rows to predict, and a share of rows to compare models on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..options import emit
from .data import InputError, NamedError, pandas
from .table_files import (
    PARQUET,
    UNREADABLE,
    blank_as_missing,
    csv_text,
    files_of,
    is_parquet,
    note,
    schema_of,
)

ROWS = 2**16  # of a batch


def parquet_files(data: Sequence[Path]) -> list[Path]:
    """The files that are meant; an error if one of them is not Parquet."""
    files = files_of(data)
    other = next((path for path in files if not is_parquet(path)), None)
    if other is not None:
        raise NamedError(
            f"{other}: it is not Parquet, which alone is read in batches. Write the table as Parquet first."
        )
    return files


def batches(
    files: Sequence[Path], columns: Sequence[str] | None, texts: Sequence[str] = ()
) -> Iterator[tuple[Path, Any]]:
    """Files, and tables of at most so many of their rows with those of the columns that they have (or all); rows are
    numbered by their places in the file. Blank `texts` are missing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in files:
        before = 0
        names, _ = schema_of(path)
        wanted = names if columns is None else [name for name in names if name in set(columns)]
        try:
            with pq.ParquetFile(path) as opened:
                for batch in opened.iter_batches(batch_size=ROWS, columns=wanted):
                    table = pa.Table.from_batches([batch]).to_pandas(ignore_metadata=True)
                    table.index = pandas().RangeIndex(before, before + len(table))
                    before += len(table)
                    for name in set(texts) & set(table.columns):
                        table[name] = table[name].map(blank_as_missing)
                    yield path, table
        except UNREADABLE as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise NamedError(f"{path}: it cannot be read as Parquet: {reason}.") from error


# ------------------------------------------------------------------ a share of the rows


def sampled(data: Sequence[Path], share: float, seed: int, texts: Sequence[str]) -> Any:
    """A random share of the rows of Parquet files, in their order."""
    files = parquet_files(data)
    random, kept, rows = np.random.default_rng(seed), [], 0
    names = set(schema_of(files[0])[0])
    for path in files:
        odd = sorted(names ^ set(schema_of(path)[0]))
        if odd:
            raise NamedError(f"{path}: its columns are not those of {files[0]}: {odd[0]!r} is in one of them only.")
    for _, table in batches(files, None, texts):
        kept.append(table[random.random(len(table)) < share])
        rows += len(table)
    return _told(pandas().concat(kept, ignore_index=True), rows, share)


def share_of(table: Any, share: float, seed: int) -> Any:
    """A random share of the rows of a table, in their order."""
    drawn = np.random.default_rng(seed).random(len(table)) < share
    return _told(table[drawn].reset_index(drop=True), len(table), share)


def _told(drawn: Any, rows: int, share: float) -> Any:
    if not len(drawn):
        raise InputError(f"--sample {share:g}: none of {rows} rows was drawn. Take a larger share.")
    note(
        f"{len(drawn)} of {rows} rows are drawn at random (--sample {share:g}). With all rows every model is better, and "
        "sharing usually gains less."
    )
    return drawn


# ------------------------------------------------------------------ writing


class TableWriter:
    """A table that is written part by part, as CSV or Parquet."""

    def __init__(self, file: IO[bytes] | None, parquet: bool, formulas: bool):
        """`file` None: standard output."""
        self.file, self.parquet, self.formulas = file, parquet, formulas
        self.begun = False
        self.writer: Any = None

    def write(self, table: Any) -> None:
        if self.parquet:
            self._write_parquet(table)
            return
        text = csv_text(table, self.formulas, header=not self.begun)
        self.begun = True
        if self.file is None:
            emit(text, data=True)
        else:
            self.file.write(text.encode("utf-8", "surrogateescape"))

    def _write_parquet(self, table: Any) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        part = pa.Table.from_pandas(table, preserve_index=False)
        if self.writer is None:
            kinds = [pa.string() if pa.types.is_null(one.type) else one.type for one in part.schema]
            schema = pa.schema(list(zip(part.schema.names, kinds, strict=True)))
            self.writer = pq.ParquetWriter(self.file, schema)
        try:
            self.writer.write_table(part.cast(self.writer.schema))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(f"its columns are of other types than those of the files before: {error}") from error

    def close(self) -> None:
        if self.parquet and self.writer is not None:
            self.writer.close()


def check_part_by_part(path: Path | None) -> None:
    """What can be written part by part."""
    if path is not None and not path.name.lower().endswith((".csv", *PARQUET)):
        raise InputError(f"{path}: what is read in batches is written as .csv or {PARQUET[0]}.")
