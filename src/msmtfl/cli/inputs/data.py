"""What the columns of a table are for, and what a model takes of them. Rows are counted from 1, without the header."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from ..._data.tables import choices_of, close_to, names_of

UNNAMED = "Unnamed: "  # how a column without a name is called, with its place
NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
WHOLE_FLOAT = re.compile(r"(-?\d+)\.0", re.ASCII)
FEW_LEVELS = 10  # so many values may be all different
MISSING = "(missing)"  # the category of missing values in columns of text
FILLS: dict[str, Any] = {"mean": np.mean, "median": np.median}
WITH_POINT = re.compile(r"\s*[+-]?(\d{1,3}(\.\d{3})+(,\d+)?|\d+\.\d+([eE][+-]?\d+)?)\s*", re.ASCII)  # 1.234 may be 1234
WITHOUT_POINT = re.compile(r"\s*[+-]?\d+(,\d+)?([eE][+-]?\d+)?\s*", re.ASCII)
WITH_COMMA = re.compile(r"\s*[+-]?[\d.]*,\d[\d.,]*\s*", re.ASCII)


class Note(UserWarning):
    """Something that people should know, but need not act upon: how a file was read."""


class InputError(Exception):
    """Something that the user gave cannot be used. The message says what, and the way out."""


class NamedError(InputError):
    """An error whose message names its file already."""


@contextmanager
def about(*paths: Path) -> Iterator[None]:
    """Errors name the file, or the first of several."""
    try:
        yield
    except InputError as error:
        if isinstance(error, NamedError):
            raise
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        raise InputError(f"{paths[0]}{more}: {error}") from error


def pandas() -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise InputError('tables need pandas: pip install "msmtfl[cli]".') from error
    return pd


# ------------------------------------------------------------------ what columns are for


@dataclass(frozen=True)
class Columns:
    """What the columns of a table are for. `levels` are the categories of columns that were one-hot encoded, `fills` what
    missing values of a column are replaced by."""

    target: str | None
    task: str | None
    features: list[str]
    weight: str | None = None
    group: str | None = None
    id: str | None = None
    levels: dict[str, list[str]] = field(default_factory=dict)
    fills: dict[str, float] = field(default_factory=dict)
    offset: str | None = None
    exposure: str | None = None
    event: str | None = None

    @property
    def used(self) -> list[str]:
        """Columns in which no value may be missing."""
        roles = [self.target, self.event, self.task, self.weight, self.group, self.offset, self.exposure]
        filled = {name for name, levels in self.levels.items() if MISSING in levels}
        needed = [name for name in self.features if name not in self.fills and name not in filled]
        return [name for name in roles if name is not None] + needed

    @property
    def expanded(self) -> list[str]:
        """Names of the features that a model sees."""
        return [
            name if level is None else f"{name}={level}"
            for name in self.features
            for level in self.levels.get(name, [None])
        ]


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
    offset: str | None = None,
    exposure: str | None = None,
    event: str | None = None,
) -> Columns:
    """Which columns are features: those named, or all that have no other role; they must hold numbers."""
    roles = {"--target" if event is None else "--time": target, "--event": event, "--task": task, "--weight": weight}
    roles |= {"--offset": offset, "--exposure": exposure}
    roles |= {"--group": group, "--id": id}
    if offset is not None and exposure is not None:
        raise InputError("--offset and --exposure: give one of them, the logarithm of an exposure is an offset.")
    for option, name in roles.items():
        if name is not None:
            require(table, [name], option)
    require(table, exclude, "--exclude")
    _refuse_two_roles(roles)
    if features is None:
        taken = {*roles.values(), *exclude}
        features = [name for name in table.columns if name not in taken]
        _refuse_unnamed(features)
    else:
        require(table, features, "--features")
        both = [name for name in features if name in (target, event, task, offset, exposure)]
        if both:
            raise InputError(
                f"--features: {names_of(both)} cannot be a feature: it is the target, the task or the offset."
            )
        features = [name for name in dict.fromkeys(features) if name not in exclude]
    if not features:
        raise InputError("no column is left to be a feature.")
    refuse_nested(table, [*(name for name in roles.values() if name is not None), *features])
    text = [name for name in features if not is_number(table[name])]
    pointed = [name for name in text if has_points(table[name])]
    if pointed:
        raise InputError(_about_points(table, pointed))
    if text and not one_hot:
        way_out = f"Encode them as numbers, use --one-hot, or leave them out: {_exclude(text)}."
        raise InputError(_about_text(table, text, way_out))
    for name in text:
        _warn_of_numbers(table[name])
        _warn_of_ids(table[name])
    levels = {name: _levels(table[name]) for name in text}
    columns = Columns(target, task, features, weight, group, id, levels, offset=offset, exposure=exposure, event=event)
    _refuse_same_names(columns)
    return columns


def require(table: Any, names: Iterable[str], option: str) -> None:
    columns = list(table.columns)
    known = set(columns)
    absent = [name for name in names if name not in known]
    if not absent:
        return
    close = close_to(absent[0], columns)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    if sum(bool(NUMBER.fullmatch(name)) for name in columns) > len(columns) / 2:
        hint = " The first line must hold the names of the columns, but looks like data."
    raise InputError(
        f"{option}: there is no column {names_of(absent)}.{hint} Columns: {choices_of(absent[0], columns)}."
    )


def refuse_nested(table: Any, names: Iterable[str]) -> None:
    """An error if an entry of a column is a list or the like, which Parquet can hold."""
    for name in dict.fromkeys(names):
        column = table[name]
        if column.dtype != object:
            continue
        nested = np.flatnonzero([isinstance(value, list | tuple | dict | set | np.ndarray) for value in column])
        if nested.size:
            kind = "records" if isinstance(column.iloc[nested[0]], dict) else "lists"
            raise InputError(
                f"column {name!r} holds {kind}, first in row {_row(column, nested[0])}, where single values are needed. "
                f"Turn it into columns of single values, or leave it out: {_exclude([name])}."
            )


def _refuse_two_roles(roles: dict[str, str | None]) -> None:
    """An id may be something else, too; no other column has two roles."""
    seen: dict[str, str] = {}
    for option, name in roles.items():
        if name in seen and option != "--id":
            raise InputError(f"{seen[name]} and {option} are both {name!r}.")
        if name is not None:
            seen.setdefault(name, option)


def _refuse_unnamed(features: list[str]) -> None:
    unnamed = [name for name in features if name.startswith(UNNAMED)]
    if unnamed:
        raise InputError(
            f"column(s) {names_of(unnamed)} have no name in the first line (row numbers?). Leave them out: "
            f"{_exclude(unnamed)}. Or name them."
        )


def _refuse_same_names(columns: Columns) -> None:
    counts = Counter([*columns.expanded, columns.task])
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise InputError(f"--one-hot makes column(s) {names_of(twice)}, but there are such already. Rename these.")


# ------------------------------------------------------------------ numbers and text


def is_number(column: Any) -> bool:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_bool_dtype(column) or is_numeric_dtype(column) or column.isna().all():
        return True
    kinds = int | float | Decimal  # integers of any size; bool is an int
    return bool(column.dtype == object and column.map(lambda value: value is None or isinstance(value, kinds)).all())


def numbers(column: Any, option: str = "", way_out: str = "Encode them as numbers.") -> np.ndarray:
    """A column as finite floats; otherwise an error that names the row."""
    prefix = f"{option}: " if option else ""
    if not is_number(column):
        raise InputError(prefix + _about_text(column.to_frame(), [str(column.name)], way_out))
    plain = column.map(_float) if column.dtype == object else column
    values = np.asarray(plain.to_numpy(dtype=float, na_value=np.nan))
    endless = np.flatnonzero(np.isinf(values))
    if endless.size:
        value, row = column.iloc[endless[0]], _row(column, endless[0])
        raise InputError(
            f"{prefix}column {column.name!r} holds {_shown(value)} in row {row}: infinite, or too large for a float. Mend "
            "it, or leave it empty if it is missing."
        )
    return values


def offsets(table: Any, columns: Columns) -> np.ndarray | None:
    """The offset of every row: a column as it is, or the logarithm of an exposure; None if there is none."""
    if columns.exposure is None:
        return None if columns.offset is None else numbers(table[columns.offset], "--offset")
    column = table[columns.exposure]
    values = numbers(column, "--exposure")
    none = np.flatnonzero(~(values > 0))
    if none.size:
        raise InputError(
            f"--exposure: column {column.name!r} holds {values[none[0]]:g} in row {_row(column, none[0])}; an exposure is "
            "> 0. Leave rows without any out."
        )
    return np.asarray(np.log(values))


def to_numbers(column: Any) -> Any:
    """What can be read as numbers in a column of text, however long; the rest is missing."""
    found = pandas().to_numeric(column.astype(object), errors="coerce").astype(float)
    text = column[column.notna() & found.isna()].map(str)
    long = text[[bool(NUMBER.fullmatch(value)) for value in text]]
    found[long.index] = [float(value) for value in long]
    return found


def _float(value: Any) -> float:
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        return np.inf


def _row(column: Any, place: int) -> int:
    """Rows keep the number that they have in the file, also when others are left out."""
    return int(column.index[place]) + 1


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _strays(column: Any) -> np.ndarray:
    """Places of the entries of a column of text that are no numbers (nor missing); of all, if the type alone is text."""
    given = np.asarray(column.notna())
    if column.dtype.kind in "mM":
        return np.flatnonzero(given)
    strays = given & np.asarray(to_numbers(column).isna())
    return np.flatnonzero(strays if strays.any() else given)


def _about_text(table: Any, names: list[str], way_out: str) -> str:
    """Columns that hold text: numbers with points or commas, a few entries among numbers, or all of it."""
    pointed = [name for name in names if has_points(table[name])]
    if pointed:
        return _about_points(table, pointed)
    commas = [name for name in names if _has_commas(table[name])]
    few = [name for name in names if name not in commas and len(_strays(table[name])) < len(table) / 2]
    rest = [name for name in names if name not in commas and name not in few]
    said = [
        f"column {name!r} holds numbers, but not in {len(_strays(table[name]))} of {len(table)} rows: "
        f"{_example(table[name])}. Mend these, or leave them empty if they are missing."
        for name in few[:3]
    ]
    if commas:
        said.append(
            f"column(s) {names_of(commas)} hold numbers with a comma: {_example(table[commas[0]])}. Write them with a "
            "decimal point and no other mark: 1234.5. Or, if commas are decimal marks throughout a CSV file: --decimal ,"
        )
    if rest:
        said.append(f"column(s) {names_of(rest)} hold text or dates: {_example(table[rest[0]])}. {way_out}")
    return " ".join(said)


def has_points(column: Any) -> bool:
    """Whether a column of text holds numbers, some of them with points that can mark thousands or decimals."""
    values = [str(value) for value in column.dropna().unique()]
    pointed = [value for value in values if "." in value]
    return bool(pointed) and all(WITH_POINT.fullmatch(value) or WITHOUT_POINT.fullmatch(value) for value in values)


def _about_points(table: Any, names: list[str]) -> str:
    column = table[names[0]]
    place = int(np.flatnonzero([isinstance(value, str) and "." in value for value in column])[0])
    example = f"{_shown(column.iloc[place])} in row {_row(column, place)}"
    return (
        f"column(s) {names_of(names)} hold numbers with points, {example}: it cannot be told whether these mark thousands "
        "or decimals. Write the numbers without marks of thousands: 1234,5 if a comma is the decimal mark (--decimal ,), "
        "else 1234.5. If all numbers of the file have decimal points, leave --decimal out."
    )


def _has_commas(column: Any) -> bool:
    first = column.iloc[_strays(column)[:100]]
    return all(isinstance(value, str) and WITH_COMMA.fullmatch(value) for value in first)


def _example(column: Any) -> str:
    place = _strays(column)[0]
    return f"{_shown(column.iloc[place])} in row {_row(column, place)}"


def _exclude(names: list[str]) -> str:
    """The option, ready to be pasted."""
    import shlex

    quoted = [f'"{name}"' if "," in name else name for name in names[:3]]
    return f"--exclude {shlex.quote(','.join(quoted))}{' and so on' if len(names) > 3 else ''}"


def _warn_of_numbers(column: Any) -> None:
    strays = len(_strays(column))
    if strays < len(column) / 2:
        warnings.warn(
            f"column {column.name!r} is one-hot encoded, but only {strays} of its {len(column)} rows hold no number: "
            f"{_example(column)}.",
            UserWarning,
            stacklevel=2,
        )


def _warn_of_ids(column: Any) -> None:
    """Text that hardly ever repeats says which row it is, not what it is like."""
    given, different = column.notna().sum(), column.nunique()
    if different > max(given / 2, FEW_LEVELS):
        warnings.warn(
            f"column {column.name!r} is one-hot encoded, but has {different} different values in {given} rows, as an id "
            f"would. Name it with --id, or leave it out: {_exclude([str(column.name)])}.",
            UserWarning,
            stacklevel=2,
        )


def _levels(column: Any) -> list[str]:
    return sorted({str(value) for value in column.dropna()})


# ------------------------------------------------------------------ missing values


def with_level_of_missing(table: Any, names: Iterable[str]) -> Any:
    """The table with a category of their own for what is missing in columns of text."""
    texts = [name for name in names if not is_number(table[name]) and table[name].isna().any()]
    return table.assign(**{name: table[name].astype(object).where(table[name].notna(), MISSING) for name in texts})


def missing(table: Any, columns: Columns) -> np.ndarray:
    """(rows,) bool: a value that is needed is missing."""
    return np.asarray(table[columns.used].isna().any(axis=1))


def about_missing(table: Any, columns: Columns) -> str:
    row = int(table.index[missing(table, columns)][0]) + 1
    return f"missing values in {in_counts(table[columns.used].isna().sum())}, first in row {row}"


def in_counts(counts: Any) -> str:
    """'a' (2), 'b' (1): the columns with a count, and it."""
    counts = counts[counts > 0]
    shown = ", ".join(f"{name!r} ({int(count)})" for name, count in list(counts.items())[:8])
    return shown + (f" and {len(counts) - 8} more columns" if len(counts) > 8 else "")


def with_fills(table: Any, columns: Columns, how: str) -> Columns:
    """Features of numbers are filled in by their mean or median over the rows that are left then."""
    if how not in FILLS:
        raise InputError(f"--impute must be {' or '.join(FILLS)}, got {how!r}.")
    numeric = [name for name in columns.features if name not in columns.levels]
    gone = missing(table, replace(columns, fills=dict.fromkeys(numeric, np.nan)))
    kept = table if gone.all() else table[~gone]
    return replace(columns, fills={name: _fill(kept[name], how) for name in numeric})


def _fill(column: Any, how: str) -> float:
    values = numbers(column)
    given = values[~np.isnan(values)]
    if given.size == 0:
        named = _exclude([str(column.name)])
        raise InputError(f"--impute: column {column.name!r} holds nothing to take the {how} of. Leave it out: {named}.")
    return float(FILLS[how](given))


def about_fills(table: Any, columns: Columns) -> str:
    """What is filled in, for people; nothing if nothing is missing."""
    return in_counts(missing_fills(table, columns))


def missing_fills(table: Any, columns: Columns) -> Any:
    """How many values are filled in, by column."""
    return table[list(columns.fills)].isna().sum()


# ------------------------------------------------------------------ task labels


def label_texts(values: Iterable[Any]) -> list[str]:
    """Labels as text, whole floats as whole numbers if all are such: the same from CSV, Parquet and arrays."""
    texts = [str(value) for value in values]
    whole = [WHOLE_FLOAT.fullmatch(text) for text in texts]
    return [match[1] for match in whole if match] if all(whole) else texts


def labels(column: Any) -> np.ndarray:
    """Task labels for a model: numbers where all are plain numbers (so that 2 is before 10), else text."""
    known = column.unique().tolist()
    texts = label_texts(known)
    kind = next((kind for kind in (int, float) if all(_is_plain(text, kind) for text in texts)), str)
    values = {value: kind(text) for value, text in zip(known, texts, strict=True)}
    return np.array([values[value] for value in column.tolist()], dtype=object if kind is str else kind)


def _is_plain(text: str, kind: type[int | float]) -> bool:
    """Whether a number is written as Python does: 007 is text, and so is what does not fit in 64 bits."""
    try:
        return bool(NUMBER.fullmatch(text)) and len(text) <= (18 if kind is int else 24) and str(kind(text)) == text
    except ValueError:  # 1.5 is no int
        return False


def find_labels(known: Iterable[Any], column: Any) -> np.ndarray:
    """(rows,) places of the labels among the known ones, or -1; 7 and 7.0 are the same, 7 and 007 are not."""
    exact = {text: i for i, text in enumerate(label_texts(known))}
    place = {_short(text): i for text, i in exact.items()} | exact
    found = {value: place.get(str(value), place.get(_short(str(value)), -1)) for value in column.unique()}
    return np.asarray(column.astype(object).map(found), dtype=np.intp)


def _short(text: str) -> str:
    match = WHOLE_FLOAT.fullmatch(text)
    return match[1] if match else text


# ------------------------------------------------------------------ what a model takes


def design(table: Any, columns: Columns) -> Any:
    """The table that a model takes: features as numbers, one-hot columns by their levels, and the task column."""
    parts: dict[str, Any] = {}
    for name in columns.features:
        if name not in columns.levels:
            values = numbers(table[name])
            parts[name] = np.where(np.isnan(values), columns.fills.get(name, np.nan), values)
            continue
        text = table[name].astype(object).where(table[name].notna(), MISSING).map(str)
        unknown = np.flatnonzero(~text.isin(columns.levels[name]))
        if unknown.size:
            value, row = text.iloc[unknown[0]], _row(text, unknown[0])
            raise InputError(
                f"column {name!r} holds {_shown(value)} in row {row}, which the model has not seen; it knows "
                f"{names_of(columns.levels[name])}. Mend it, or leave such rows out."
            )
        for level in columns.levels[name]:
            parts[f"{name}={level}"] = (text == level).to_numpy(dtype=float)
    if columns.task is not None:
        parts[columns.task] = labels(table[columns.task])
    return pandas().DataFrame(parts, index=table.index)
