"""Tables as the page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .words import number

MOST_ROWS = 1000


@dataclass(frozen=True)
class Cell:
    """`value` is what a number is sorted by; None for text."""

    text: str
    value: float | None = None


@dataclass(frozen=True)
class Column:
    head: str
    cells: Sequence[Cell]
    numeric: bool = False
    hint: str = ""
    wraps: bool = False


@dataclass(frozen=True)
class Table:
    """The first column names the rows.

    `total` is how many rows there are, shown or not, and `rest` says which are shown; `kinds` are the values of the second
    column, if rows can be chosen by them.
    """

    name: str
    caption: str
    columns: Sequence[Column]
    total: int
    rest: str = ""
    kinds: Sequence[str] = field(default=())

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        return list(zip(*(column.cells for column in self.columns), strict=True))


def texts(head: str, values: Iterable[Any], hint: str = "", wraps: bool = False) -> Column:
    return Column(head, [Cell(str(value)) for value in values], hint=hint, wraps=wraps)


def counts(head: str, values: Iterable[Any], hint: str = "") -> Column:
    return Column(head, [Cell(f"{int(value):,}", int(value)) for value in values], True, hint)


def figures(head: str, values: Iterable[Any], hint: str = "", digits: int = 3) -> Column:
    return Column(head, [Cell(number(value, digits), float(value)) for value in values], True, hint)
