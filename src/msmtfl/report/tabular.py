"""Tables as the page shows them: cells with what they say and what they are sorted by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .words import ABSENT, number


@dataclass(frozen=True)
class Cell:
    """`value` is what a number is sorted by; None for text."""

    text: str
    value: float | None = None


@dataclass(frozen=True)
class Column:
    head: str
    numeric: bool = False
    hint: str = ""
    wraps: bool = False


@dataclass(frozen=True)
class Table:
    """The first cell of a row names the row. `total` is how many rows there are in all, `rest` says which are shown.

    `kinds` are the values of the second column, if rows can be chosen by them.
    """

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    total: int
    rest: str = ""
    kinds: Sequence[str] = ()


def figures(values: Iterable[float], digits: int = 3) -> list[Cell]:
    return [Cell(number(value, digits), float(value)) for value in values]


def counts(values: Iterable[Any]) -> list[Cell]:
    return [Cell(f"{int(value):,}", int(value)) for value in values]


def texts(values: Iterable[Any]) -> list[Cell]:
    return [Cell(str(value) or ABSENT) for value in values]


def columns_to_rows(columns: Iterable[Sequence[Cell]]) -> list[tuple[Cell, ...]]:
    return list(zip(*columns, strict=True))
