"""Tables as files: CSV (compressed or not), Parquet, Feather, JSON and Excel to read; CSV, Parquet and JSON to write."""

from __future__ import annotations

import bz2
import csv
import glob
import gzip
import io
import json
import lzma
import os
import re
import stat
import sys
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._data.tables import names_of
from ..._runtime.files import special
from ..._runtime.text.documents import inert
from ..._runtime.text.naturally import natural_order
from .data import UNNAMED, InputError, NamedError, Note, has_points, is_number, pandas, to_numbers

OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
PARQUET = (".parquet", ".pq")
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: _arrow().compress(data, codec="zstd", asbytes=True),
}
KINDS = {
    "Parquet": PARQUET,
    "Feather": (".feather", ".arrow"),
    "JSON": (".jsonl", ".ndjson", ".json"),
    "Excel": (".xlsx",),
}
ENDINGS = (
    ".csv",
    ".tsv",
    ".txt",
    *(ending for endings in KINDS.values() for ending in endings),
)  # of tables in a folder
OLD_ENCODINGS = ("cp1252", "latin-1")  # of files that are not UTF-8
LOOKED_AT = 50  # lines from which delimiter and decimal mark are told
COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?", re.ASCII)
POINT_NUMBER = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?", re.ASCII)
THOUSANDS = re.compile(r"[+-]?\d{1,3},\d{3}", re.ASCII)
SEPARATORS = {";": ";", "\t": "tab", "|": "|", ",": ","}
EXCEL = "It looks like an Excel workbook: let its name end in .xlsx, or save its sheet as CSV."
SIGNS = {  # how files begin that are no plain CSV, and the way out
    b"PAR1": "It is Parquet: let its name end in .parquet.",
    b"PK\x03\x04": EXCEL,
    b"\xd0\xcf\x11\xe0": EXCEL,
    b"\x1f\x8b": "It is compressed by gzip: let its name end in .csv.gz.",
    b"BZh": "It is compressed by bzip2: let its name end in .csv.bz2.",
    b"\xfd7zXZ": "It is compressed by xz: let its name end in .csv.xz.",
    b"\x28\xb5\x2f\xfd": "It is compressed by zstd: let its name end in .csv.zst.",
    b"\xff\xfe": "It looks like UTF-16: --encoding utf-16.",
    b"\xfe\xff": "It looks like UTF-16: --encoding utf-16.",
}
START = 2**16  # bytes that are looked at first
UNREADABLE = (ValueError, OSError, EOFError, NotImplementedError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() in PARQUET


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() in (*PACKERS, ".zip")


def _arrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise InputError('Parquet and .zst files need pyarrow: pip install "msmtfl[cli]".') from error
    return pyarrow


# ------------------------------------------------------------------ reading


def read_table(
    paths: Sequence[Path],
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    as_text: Iterable[str] = (),
) -> Any:
    """A pandas table, its rows numbered from 0; `-` is standard input. Several files, the files of a folder and those that
    fit a pattern are read one after the other. Columns `as_text` are not turned into numbers."""
    texts, files = set(as_text), files_of(paths)
    if decimal not in (None, ".", ","):
        raise InputError(f"--decimal must be . or a comma, got {decimal!r}.")
    if delimiter is not None and delimiter != "\\t" and len(delimiter) != 1:
        raise InputError(f"--delimiter must be one character (or \\t), got {delimiter!r}.")
    if len(files) == 1 and files[0] == paths[0]:
        return _read_file(files[0], delimiter, encoding, decimal, texts)
    tables = []
    for path in files:
        try:
            tables.append(_read_file(path, delimiter, encoding, decimal, texts))
        except InputError as error:
            raise NamedError(f"{path}: {error}") from error
        _refuse_other_columns(files[0], list(tables[0].columns), path, list(tables[-1].columns))
    rows = sum(len(table) for table in tables)
    note(f"{rows} rows are read from {len(files)} files, {files[0].name} to {files[-1].name}.")
    return pandas().concat(tables, ignore_index=True)


def note(text: str) -> None:
    warnings.warn(text, Note, stacklevel=2)


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files that are meant: those named, those of folders, those that fit a pattern; in natural order."""
    out: list[Path] = []
    for path in paths:
        found = [path]
        if path.is_dir():
            found = sorted(one for one in path.rglob("*") if one.is_file() and _is_table(one))
            if not found:
                raise NamedError(f"{path}: it is a folder without tables ({', '.join(ENDINGS)}).")
        elif not path.exists() and any(mark in str(path) for mark in "*?["):
            found = sorted(Path(one) for one in glob.glob(str(path), recursive=True) if Path(one).is_file())
            if not found:
                raise NamedError(f"{path}: no file fits this pattern.")
        out += [found[k] for k in natural_order([str(one) for one in found])] if found != [path] else found
    if len(out) > 1 and any(str(path) == "-" for path in out):
        raise NamedError("-: standard input cannot be one of several tables.")
    return out


def _is_table(path: Path) -> bool:
    hidden = path.name.startswith((".", "_"))  # what others leave beside Parquet files
    return not hidden and _unpacked(path).endswith(ENDINGS)


def _refuse_other_columns(first: Path, names: list[str], path: Path, others: list[str]) -> None:
    lacking, more = (set(names) - set(others), set(others) - set(names))
    if lacking or more:
        what = f"lacks {names_of(sorted(lacking))}" if lacking else f"has {names_of(sorted(more))} besides"
        raise NamedError(
            f"{path}: its columns are not those of {first}: it {what}. Several files must have the same columns."
        )


def _read_file(path: Path, delimiter: str | None, encoding: str | None, decimal: str | None, texts: set[str]) -> Any:
    kind = next((name for name, endings in KINDS.items() if _unpacked(path).endswith(endings)), "CSV")
    if decimal == "," and kind != "CSV":
        raise InputError(f"--decimal is about CSV files: numbers in {kind} have no decimal mark.")
    try:
        table = _read_text(path, delimiter, encoding, decimal, texts) if kind == "CSV" else READERS[kind](path, texts)
    except UnicodeDecodeError as error:
        used = encoding or "utf-8"
        raise InputError(f"it is not {used} text{_where(path, used)}. {_another(used)}") from error
    except LookupError as error:
        if type(error) is not LookupError:  # anything but an encoding that Python does not know
            raise
        raise InputError(f"--encoding: {error}. {_another(encoding or '')}") from error
    except ImportError as error:
        raise InputError(f"it cannot be read: {error}") from error
    except UNREADABLE as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise InputError(f"it cannot be read as {kind}: {reason}.") from error
    if len(table) == 0:
        raise InputError("it has column names but no rows.")
    for name in texts & set(table.columns):
        table[name] = table[name].map(blank_as_missing)
    return table


# ------------------------------------------------------------------ how a CSV file looks


def _read_text(path: Path, delimiter: str | None, encoding: str | None, decimal: str | None, texts: set[str]) -> Any:
    """A CSV file; what was not given is as its first lines look, and said if it is unusual."""
    likely = encoding or _marked(path)
    source = _source(path, likely)
    tried = [encoding] if encoding else [likely, *(one for one in OLD_ENCODINGS if likely == "utf-8")]
    for k, one in enumerate(tried):
        try:
            lines = _first_lines(source(), path, one)
            mark = ("\t" if delimiter == "\\t" else delimiter) if delimiter is not None else _delimiter_of(lines)
            point = decimal or _decimal_of(lines, mark)
            table = _read_csv(source, mark, one, point, texts)
            break
        except UnicodeDecodeError:
            if k + 1 == len(tried):
                raise
    said = [
        f"delimiter {SEPARATORS.get(mark, mark)!r}" if delimiter is None and mark != "," else "",
        "decimal comma" if decimal is None and point == "," else "",
        f"encoding {one}" if encoding is None and one != "utf-8" else "",
    ]
    if any(said):
        note(f"{path} is read with {', '.join(filter(None, said))}, as it looks (--delimiter, --decimal, --encoding).")
    return table


def _marked(path: Path) -> str:
    """The encoding that the first bytes of a file say."""
    if not path.is_file():
        return "utf-8"
    with path.open("rb") as file:
        return "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8"


def _first_lines(source: Any, path: Path, encoding: str) -> list[str]:
    """Some lines of a CSV file; none where they are not easily had."""
    if not isinstance(source, Path):
        start = source.read(START)
    elif source.suffix.lower() == ".zip":
        return []
    else:
        opener: Any = OPENERS.get(source.suffix.lower(), open)
        with opener(source, "rb") as file:
            start = file.read(START)
    lines = start.decode(encoding, errors="replace").splitlines()
    whole = lines[:-1] if len(start) == START else lines
    return [line for line in whole if line.strip()][:LOOKED_AT]


def _delimiter_of(lines: Sequence[str]) -> str:
    """What separates the first lines into equally many fields, the most if there are several."""
    best, most = ",", 1
    for mark in (",", *SEPARATORS):
        try:
            counts = {len(row) for row in csv.reader(lines, delimiter=mark, skipinitialspace=True)}
        except csv.Error:
            continue
        if len(counts) == 1 and (count := counts.pop()) > most:
            best, most = mark, count
    return best


def _decimal_of(lines: Sequence[str], delimiter: str) -> str:
    """A comma if numbers have commas and none has a point; not if all of these may mark thousands."""
    if delimiter == ",":
        return "."
    fields = [field.strip() for row in csv.reader(lines[1:], delimiter=delimiter) for field in row]
    commas = [field for field in fields if COMMA_NUMBER.fullmatch(field)]
    points = any(POINT_NUMBER.fullmatch(field) for field in fields)
    return "," if not points and any(not THOUSANDS.fullmatch(field) for field in commas) else "."


def _another(encoding: str) -> str:
    return f"Try --encoding {'latin-1 or cp1252' if 'utf' in encoding.lower() else 'utf-8'}."


def _is_wide(encoding: str) -> bool:
    return any(bits in encoding for bits in ("16", "32"))


def _where(path: Path, encoding: str) -> str:
    """The first line that cannot be decoded."""
    if not path.is_file() or _is_packed(path) or _is_wide(encoding):
        return ""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError:
                return f" (line {number})"
    return ""


def blank_as_missing(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


def _source(path: Path, encoding: str) -> Callable[[], Any]:
    """What pandas reads, as often as it is called; a pipe is read once and kept."""
    if str(path) == "-":
        _refuse_device(sys.stdin)
        data = _read_all(sys.stdin.buffer, path, encoding)
    else:
        _check_exists(path)
        with path.open("rb") as file:
            if path.is_file() and path.suffix.lower() != ".zst":
                _check_start(file.read(START), path, encoding)
                return lambda: path
            data = _read_all(file, path, encoding)
    if path.suffix.lower() == ".zst":
        data = _arrow().input_stream(io.BytesIO(data), compression="zstd").read()
    return lambda: io.BytesIO(data)


def _read_all(stream: Any, path: Path, encoding: str) -> bytes:
    """All of a stream; it is left where its beginning is no table, as it may have no end."""
    start = stream.read(START)
    _check_start(start, path, encoding)
    return bytes(start + stream.read())


def _refuse_device(stream: Any) -> None:
    """Standard input is a pipe, a file or a terminal, where people can end it; a device may have no end."""
    try:
        device = stat.S_ISCHR(os.fstat(stream.fileno()).st_mode) and not stream.isatty()
    except (OSError, ValueError):
        return
    if device:
        raise InputError("standard input is a device, which may have no end; give a file or a pipe.")


def _check_exists(path: Path, pipes: bool = True) -> None:
    if not path.exists():
        raise InputError("there is no such file.")
    kind = special(path.stat().st_mode)
    if kind is not None and not (pipes and path.is_fifo()):
        raise InputError(f"it is {kind}.")


def _check_start(start: bytes, path: Path, encoding: str) -> None:
    if not start:
        raise InputError("it is empty.")
    for sign, hint in SIGNS.items():
        if start.startswith(sign) and not _is_packed(path) and not _is_wide(encoding):
            raise InputError(f"it is not plain CSV. {hint}")
    if 10 * start.count(0) > len(start) and not _is_packed(path) and not _is_wide(encoding):
        raise InputError("it holds bytes that are 0, and is not text. If it is UTF-16: --encoding utf-16.")


def schema_of(path: Path) -> tuple[list[str], int]:
    """Names of columns, and number of rows, of a Parquet file."""
    _check_exists(path, pipes=False)
    try:
        _check_parquet(path)
        with _arrow().parquet.ParquetFile(path) as found:
            return [str(name) for name in found.schema_arrow.names], int(found.metadata.num_rows)
    except UNREADABLE as error:
        raise NamedError(
            f"{path}: it cannot be read as Parquet: {' '.join(str(error).split()).rstrip('.')}."
        ) from error
    except InputError as error:
        raise NamedError(f"{path}: {error}") from error


def _check_parquet(path: Path) -> None:
    """An error in words where a file does not begin as Parquet does."""
    with path.open("rb") as file:
        start = file.read(4)
    if start != b"PAR1":
        raise InputError(
            "it is not Parquet" + (". If it is CSV, let its name end in .csv." if start else ": it is empty.")
        )


def _read_parquet(path: Path, texts: set[str]) -> Any:
    _check_exists(path, pipes=False)
    _check_parquet(path)
    _refuse_twice(_arrow().parquet.read_schema(path).names)
    try:
        table = pandas().read_parquet(path, engine="pyarrow")
    except TypeError as error:  # what pandas says of metadata that are damaged
        raise InputError(f"it cannot be read as Parquet: {' '.join(str(error).split()).rstrip('.')}.") from error
    table = table.reset_index(drop=table.index.names == [None])  # an index that has a name is a column
    table.columns = [str(name) for name in table.columns]
    _refuse_twice(list(table.columns))
    return table


def _read_feather(path: Path, texts: set[str]) -> Any:
    _check_exists(path, pipes=False)
    _arrow()
    import pyarrow.feather

    table = pyarrow.feather.read_feather(str(path)).reset_index(drop=True)
    table.columns = [str(name) for name in table.columns]
    return table


def _read_json(path: Path, texts: set[str]) -> Any:
    """JSON lines, or a list of objects."""
    _check_exists(path, pipes=False)
    opener: Any = OPENERS.get(path.suffix.lower(), open)
    with opener(path, "rb") as file:
        text = file.read().decode("utf-8-sig")
    lines = not _unpacked(path).endswith(".json")
    rows = [json.loads(line) for line in text.splitlines() if line.strip()] if lines else json.loads(text)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        what = "an object per line" if lines else "a list of objects"
        raise InputError(f"it is JSON, but not {what}: {{column: value, ...}}.")
    return pandas().DataFrame(rows)


def _read_excel(path: Path, texts: set[str]) -> Any:
    """The first sheet of a workbook."""
    _check_exists(path, pipes=False)
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise InputError(
            "to read an Excel workbook openpyxl is needed: pip install openpyxl. Or save its sheet as CSV."
        ) from error
    book = load_workbook(path, read_only=True)
    names = list(book.sheetnames)
    book.close()
    table = pandas().read_excel(path, engine="openpyxl", dtype=dict.fromkeys(texts, str))
    if len(names) > 1:
        note(f"{path} is read from its first sheet, {names[0]!r}, of {len(names)}.")
    table.columns = [str(name).strip() for name in table.columns]
    _refuse_twice(list(table.columns))
    for name, kind in table.dtypes.items():
        if kind.kind not in "biuf":
            table[name] = _tidy(table[name], name in texts, ".")
    return table


def _read_csv(source: Callable[[], Any], delimiter: str, encoding: str, decimal: str, texts: set[str]) -> Any:
    options = {"sep": delimiter, "encoding": encoding, "skipinitialspace": True, "low_memory": False}
    if [int(part) for part in pandas().__version__.split(".")[:2]] < [3, 1]:
        options["float_precision"] = "round_trip"  # to the bit, which later versions always are
    names = _header(source, delimiter, options)
    kinds = {name: str for name in names if name in texts}
    table = pandas().read_csv(source(), header=0, names=names, dtype=kinds, decimal=decimal, **options)
    if not isinstance(table.index, pandas().RangeIndex):  # pandas takes what is too much for an index
        raise InputError(f"its rows have more fields than the {len(names)} names of the first line. Name every column.")
    for name, kind in table.dtypes.items():
        if kind.kind not in "biuf":
            table[name] = _tidy(table[name], name in texts, decimal)
    return table


def _header(source: Callable[[], Any], delimiter: str, options: dict[str, Any]) -> list[str]:
    """The names in the first line; a name twice and a delimiter that is not the file's are refused."""
    try:
        first = pandas().read_csv(source(), header=None, nrows=1, dtype=str, keep_default_na=False, **options)
    except pandas().errors.EmptyDataError as error:
        raise InputError("it is empty: no line holds anything.") from error
    names = [str(name).removeprefix("\ufeff").strip() for name in first.iloc[0]]
    if len(names) == 1:
        others = [mark for mark in SEPARATORS if mark != delimiter and mark in names[0]]
        if others:
            best = max(others, key=names[0].count)
            option = best.replace("\t", "\\t")
            raise InputError(
                f"it has a single column by {SEPARATORS.get(delimiter, delimiter)!r}; it looks separated by "
                f"{SEPARATORS[best]!r}: --delimiter '{option}'."
            )
    names = [name or f"{UNNAMED}{k}" for k, name in enumerate(names)]
    _refuse_twice(names)
    return names


def _refuse_twice(names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"column name(s) {names_of(twice)} occur more than once. Give each column its own.")


def _tidy(column: Any, text: bool, decimal: str) -> Any:
    """Text without blanks around it; numbers that pandas left as text, which are the very long ones. Where the decimal mark
    is a comma, a point may stand for thousands: such numbers stay text, and are asked about where they are used."""
    column = column.map(lambda value: value.strip() if isinstance(value, str) else value)
    if text or is_number(column) or (decimal == "," and has_points(column)):
        return column
    numbers = to_numbers(column)
    return numbers if (numbers.notna() == column.notna()).all() else column


READERS: dict[str, Callable[[Path, set[str]], Any]] = {
    "Parquet": _read_parquet,
    "Feather": _read_feather,
    "JSON": _read_json,
    "Excel": _read_excel,
}


# ------------------------------------------------------------------ writing


def check_ending(path: Path | None) -> None:
    """Before the work: does the name say what to write?"""
    if path is None or is_parquet(path) or _unpacked(path).endswith((".csv", ".json")):
        return
    raise InputError(
        f"{path}: what to write is said by the ending: .csv, .json (also with {', '.join(PACKERS)}) or .parquet."
    )


def _unpacked(path: Path) -> str:
    name = path.name.lower()
    return name.removesuffix(path.suffix.lower()) if path.suffix.lower() in PACKERS else name


def table_bytes(table: Any, path: Path, formulas: bool = False) -> bytes:
    """The table in the format that the name of the file says; `formulas` as for `csv_text`."""
    if is_parquet(path):
        buffer = io.BytesIO()
        table.to_parquet(buffer, index=False, engine="pyarrow")
        return buffer.getvalue()
    text = records(table) if _unpacked(path).endswith(".json") else csv_text(table, formulas)
    pack = PACKERS.get(path.suffix.lower())
    return pack(text.encode()) if pack else text.encode()


def csv_text(table: Any, formulas: bool = False, header: bool = True) -> str:
    """The table as CSV. Names and text that a spreadsheet would take for formulas, and run, get an apostrophe in front,
    unless `formulas` are wanted."""
    if not formulas:
        table = table.rename(columns={name: _inert(name) for name in table.columns})
        texts = [name for name, kind in table.dtypes.items() if kind.kind not in "biufc"]
        table = table.assign(**{str(name): table[name].map(_inert, na_action="ignore") for name in texts})
    return str(table.to_csv(index=False, header=header))


def _inert(value: Any) -> Any:
    return inert(value) if isinstance(value, str) else value


def records(table: Any) -> str:
    """The rows as JSON: a list of objects. Floats have all their digits; missing is null, infinity the text "inf"."""
    return json.dumps(plain_rows(table), indent=1, default=str)


def plain_rows(table: Any) -> list[dict[str, Any]]:
    return [{name: _plain(value) for name, value in row.items()} for row in table.to_dict("records")]


def _plain(value: Any) -> Any:
    if value is None or value is pandas().NA:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(value)
    return value
