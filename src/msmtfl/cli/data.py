"""Tables from files, and what their columns are for."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..files import write_whole
from ..tables import names_of

ENDINGS = (".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zst", ".parquet", ".pq")
SEPARATORS = {";": ";", "\t": "tab", "|": "|", ",": ","}


class InputError(Exception):
    """Something that the user gave cannot be used. The message says what, and the way out."""


def pandas() -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise InputError('tables need pandas: pip install "msmtfl[cli]"') from error
    return pd


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def read_table(path: Path, *, delimiter: str = ",", encoding: str = "utf-8", as_text: Iterable[str] = ()) -> Any:
    """A pandas table from a CSV (compressed or not) or Parquet file; columns `as_text` are not turned into numbers."""
    pd = pandas()
    if not path.exists():
        raise InputError(f"{path} does not exist.")
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file.")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty.")
    try:
        if is_parquet(path):
            table = pd.read_parquet(path)
        else:
            _check_header(path, delimiter, encoding)
            kinds = dict.fromkeys(as_text, str)
            table = pd.read_csv(
                path, sep=delimiter, encoding=encoding, dtype=kinds, low_memory=False, skipinitialspace=True
            )
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not {encoding} text ({error.reason} at byte {error.start}). Try --encoding latin-1 or cp1252."
        ) from error
    except ImportError as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    except (ValueError, OSError, EOFError) as error:  # pandas' and pyarrow's own errors are of these kinds
        what = "Parquet" if is_parquet(path) else "CSV"
        raise InputError(f"{path} cannot be read as {what}: {str(error).strip() or type(error).__name__}") from error
    if len(table) == 0:
        raise InputError(f"{path} has column names but no rows.")
    table.columns = [str(name) for name in table.columns]
    _refuse_twice(list(table.columns), path)
    return table


def _check_header(path: Path, delimiter: str, encoding: str) -> None:
    """Names that occur twice (pandas would rename them), and a delimiter that is not the file's."""
    first = pandas().read_csv(
        path, sep="\0", header=None, nrows=1, encoding=encoding, dtype=str, engine="python", quoting=csv.QUOTE_NONE
    )
    line = str(first.iloc[0, 0]).removeprefix("\ufeff")
    names = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    if len(names) == 1:
        others = [mark for mark in SEPARATORS if mark != delimiter and line.count(mark)]
        if others:
            best = max(others, key=line.count)
            given = "\\t" if best == "\t" else best
            raise InputError(
                f"{path} has a single column by {SEPARATORS.get(delimiter, delimiter)!r}; it looks separated by "
                f"{SEPARATORS[best]!r}: --delimiter '{given}'."
            )
    _refuse_twice(names, path)


def _refuse_twice(names: list[str], path: Path) -> None:
    twice = {name for k, name in enumerate(names) if name in names[:k]}
    if twice:
        raise InputError(
            f"{path}: column name(s) {names_of(sorted(twice))} occur more than once. Give each column its own."
        )


@dataclass(frozen=True)
class Columns:
    """What the columns of a table are for. `levels` are the categories of columns that were one-hot encoded."""

    target: str | None
    task: str | None
    features: list[str]
    weight: str | None = None
    group: str | None = None
    id: str | None = None
    levels: dict[str, list[str]] = field(default_factory=dict)

    @property
    def used(self) -> list[str]:
        """Columns in which no value may be missing."""
        roles = [self.target, self.task, self.weight, self.group]
        return [name for name in roles if name is not None] + self.features


def find_columns(
    table: Any,
    *,
    target: str,
    task: str,
    features: list[str] | None,
    exclude: list[str],
    weight: str | None,
    group: str | None,
    id: str | None,
    one_hot: bool,
) -> Columns:
    """Which columns are features: those named, or all that have no other role; they must hold numbers."""
    roles = {"--target": target, "--task": task, "--weight": weight, "--group": group, "--id": id}
    for option, name in roles.items():
        if name is not None:
            require(table, [name], option)
    require(table, exclude, "--exclude")
    if target == task:
        raise InputError(f"--target and --task are both {target!r}.")
    taken = {name for name in roles.values() if name is not None}
    if features is None:
        features = [name for name in table.columns if name not in taken and name not in exclude]
    else:
        require(table, features, "--features")
        both = [name for name in features if name in (target, task)]
        if both:
            raise InputError(f"{names_of(both)} cannot be a feature: it is the target or the task.")
        features = [name for name in dict.fromkeys(features) if name not in exclude]
    if not features:
        raise InputError("no column is left to be a feature.")
    text = [name for name in features if not _is_number(table[name])]
    if text and not one_hot:
        raise InputError(_about_text(table, text))
    levels = {name: _levels(table[name]) for name in text}
    return Columns(target, task, features, weight, group, id, levels)


def require(table: Any, names: Iterable[str], option: str) -> None:
    columns = list(table.columns)
    for name in names:
        if name not in columns:
            close = difflib.get_close_matches(name, columns, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise InputError(f"{option}: there is no column {name!r}.{hint} Columns: {names_of(columns)}.")


def _is_number(column: Any) -> bool:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_bool_dtype(column) or (is_numeric_dtype(column) and column.dtype.kind != "c"):
        return True
    return (
        column.dtype == object and column.map(lambda v: isinstance(v, int | float) or v is None).all()
    )  # huge integers


def _about_text(table: Any, text: list[str]) -> str:
    """Columns that hold text: all of it, or a few entries among numbers (then the first is shown)."""
    pd = pandas()
    lines = []
    for name in text:
        column = table[name]
        numbers = pd.to_numeric(column, errors="coerce") if column.dtype.kind not in "mM" else None
        bad = column.notna() & numbers.isna() if numbers is not None else None
        if bad is not None and bad.any() and bad.mean() < 0.5:
            row = int(np.flatnonzero(bad)[0])
            lines.append(
                f"column {name!r} holds numbers, but not in {int(bad.sum())} of {len(column)} rows; the first is row "
                f"{row + 1}: {column.iloc[row]!r}. Mend these, or leave them empty if they are missing."
            )
    others = [name for name in text if not any(f"{name!r} holds numbers" in line for line in lines)]
    if others:
        lines.append(
            f"column(s) {names_of(others)} hold text or dates. Encode them as numbers, use --one-hot, or leave them out: "
            f"--exclude {','.join(others[:3])}{',...' if len(others) > 3 else ''}"
        )
    return " ".join(lines)


def _levels(column: Any) -> list[str]:
    return sorted({str(value) for value in column.dropna()})


def missing(table: Any, columns: Columns) -> np.ndarray:
    """(rows,) bool: a value that is needed is missing."""
    return np.asarray(table[columns.used].isna().any(axis=1))


def about_missing(table: Any, columns: Columns) -> str:
    counts = table[columns.used].isna().sum()
    counts = counts[counts > 0]
    shown = ", ".join(f"{name!r} ({int(count)})" for name, count in list(counts.items())[:8])
    more = f" and {len(counts) - 8} more columns" if len(counts) > 8 else ""
    row = int(np.flatnonzero(missing(table, columns))[0])
    return f"missing values in {shown}{more}, first in row {row + 1}"


def labels(column: Any) -> Any:
    """Task labels as text, in the order of numbers if all are whole numbers: the same from CSV and Parquet."""
    pd = pandas()
    text = column.map(_label)
    known = sorted(set(text), key=_natural)
    return pd.Series(pd.Categorical(text, categories=known), index=column.index, name=column.name)


def _label(value: Any) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _natural(text: str) -> tuple[int, int, str]:
    digits = text.removeprefix("-")
    return (0, int(text), text) if digits.isdecimal() and digits.isascii() and len(digits) < 4000 else (1, 0, text)


def design(table: Any, columns: Columns) -> Any:
    """The table that a model takes: features as numbers, one-hot columns by their levels, and the task column."""
    pd = pandas()
    parts: dict[str, Any] = {}
    for name in columns.features:
        if name not in columns.levels:
            parts[name] = _numbers(table[name])
            continue
        text = table[name].astype(str)
        unknown = ~text.isin(columns.levels[name])
        if unknown.any():
            row = int(np.flatnonzero(unknown)[0])
            raise InputError(
                f"column {name!r}, row {row + 1} holds {text.iloc[row]!r}, which the model has not seen; it knows "
                f"{names_of(columns.levels[name])}."
            )
        for level in columns.levels[name]:
            parts[f"{name}={level}"] = (text == level).astype(float)
    out = pd.DataFrame(parts, index=table.index)
    if columns.task is not None:
        out[columns.task] = labels(table[columns.task])
    return out


def _numbers(column: Any) -> Any:
    if not _is_number(column):
        raise InputError(_about_text(column.to_frame(), [str(column.name)]))
    return column.astype(float)


def write_table(table: Any, path: Path) -> None:
    """CSV (compressed if the name ends in .gz), Parquet or JSON (a list of records), whole or not at all."""
    if is_parquet(path):
        buffer = io.BytesIO()
        table.to_parquet(buffer, index=False)
        write_whole(path, buffer.getvalue())
        return
    name = path.name.lower()
    as_json = name.removesuffix(".gz").endswith(".json")
    data = (table.to_json(orient="records", indent=1) if as_json else table.to_csv(index=False)).encode()
    write_whole(path, gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
