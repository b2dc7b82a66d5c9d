"""Reading files that a user has: numpy archives, tables, and the folder where data are looked for."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .._data.tables import choices_of, close_to, is_table, names_of, refuse_twice
from .dataset import check_shapes

FOLDER = "MSMTFL_DATA"  # the environment variable that names a folder of data


def data_folder() -> Path | None:
    """The folder that MSMTFL_DATA names, if it is set."""
    path = os.environ.get(FOLDER)
    return Path(path).expanduser() if path else None


def existing_file(path: Any) -> Path:
    found = Path(path).expanduser()
    if not found.is_file():
        what = "is a folder, not a file" if found.is_dir() else "does not exist"
        raise FileNotFoundError(f"{found} {what}.")
    return found


def read_archive(path: Path) -> dict[str, np.ndarray]:
    """X, y, task and, where they are there, feature_names and task_names of an .npz file. Nothing is unpickled."""
    wanted, extra = ("X", "y", "task"), ("feature_names", "task_names")
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            found = list(stored.files)
            arrays = {name: stored[name] for name in found if name in wanted + extra}
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is not an archive of plain arrays (np.savez_compressed; objects and pickles are not read): {error}"
        ) from error
    lacking = [name for name in wanted if name not in arrays]
    if lacking:
        raise ValueError(f"{path} has no array {names_of(lacking)}; it holds {names_of(found)}.")
    for name in ("X", "y"):
        if arrays[name].dtype.kind not in "biuf":
            raise ValueError(f"{path}: {name} must hold numbers, but is of type {arrays[name].dtype}.")
    check_shapes(str(path), arrays["X"], arrays["y"], arrays["task"], arrays.get("feature_names"))
    return arrays


def read_table(table: Any) -> Any:
    """A pandas table: a pandas or polars one as given, or read from a CSV or Parquet file."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("reading tables needs pandas: pip install pandas.") from error
    tabular = is_table(table)  # and of which library is asked next
    if tabular:
        out = table if hasattr(table, "iloc") else pd.DataFrame(table.to_dict(as_series=False))
    else:
        path = existing_file(table)
        kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
        if kind not in ("csv", "parquet"):
            raise ValueError(f"{path}: a table must be a .csv, .csv.gz or .parquet file.")
        try:
            out = pd.read_csv(path, low_memory=False) if kind == "csv" else pd.read_parquet(path)
        except ValueError as error:
            raise ValueError(f"{path} cannot be read as {kind}: {error}") from error
    refuse_twice(list(out.columns), "the table")
    return out


def require_columns(table: Any, asked: Iterable[tuple[str, Any]]) -> None:
    """An error if the table lacks a column; asked are pairs (name of the argument, name of the column)."""
    columns = list(table.columns)
    for argument, name in asked:
        if name not in columns:
            close = close_to(name, columns)
            hint = f"{argument}={close[0]!r}" if close else f"{argument}= with its name"
            raise ValueError(f"the table has no column {name!r}. Columns: {choices_of(name, columns)}. Pass {hint}.")


def text_columns(table: Any, names: list[Any]) -> list[Any]:
    """Those of the columns that hold no numbers."""
    from pandas.api.types import is_numeric_dtype

    return [name for name in names if not is_numeric_dtype(table[name])]


def numeric_columns(table: Any, names: list[Any], way_out: str) -> np.ndarray:
    """(rows, len(names)) float64 with NaN where missing; an error names the columns that hold no numbers."""
    text = text_columns(table, names)
    if text:
        raise ValueError(f"column(s) {names_of(text)} hold no numbers. {way_out}")
    values = np.asarray(table[names].to_numpy(dtype=np.float64, na_value=np.nan))
    for row, column in np.argwhere(np.isinf(values)):
        raise ValueError(
            f"column {names[column]!r}, row {row} of the table is infinite. Leave it empty if it is missing."
        )
    return values
