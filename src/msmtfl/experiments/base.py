"""What an experiment is: a frozen description that yields cells of work, rows from each, and a picture, a table and a
verdict on claims from all rows. Nothing here knows how cells are run; `runner` does."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar

Row = dict[str, Any]  # one line of rows.csv

HOLDS, PARTLY, FAILS, UNTESTED = "holds", "partly", "does not hold", "not testable"


@dataclass(frozen=True)
class Claim:
    """What is claimed (by the paper, if nothing else is said), where it was looked at, and what was found."""

    claim: str
    setting: str
    verdict: str
    evidence: str


def verdict(held: Sequence[bool]) -> str:
    """All of them, none of them, or some."""
    return HOLDS if all(held) else PARTLY if any(held) else FAILS


@dataclass(frozen=True)
class Cell:
    """A piece of an experiment that is computed by itself, in any order. `key` names it, and its file."""

    key: str
    seed: int
    where: tuple[Any, ...]  # what the experiment needs to know: setting, training share, ...


def versions() -> str:
    """Of what the numbers depend on."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("msmtfl", "numpy", "scipy", "scikit-learn"))
    return f"{packages}, python {platform.python_version()}"


class Experiment:
    """Subclasses are frozen dataclasses whose fields are the whole description."""

    name: ClassVar[str]
    title: ClassVar[str]

    @property
    def fingerprint(self) -> str:
        """Rows of two runs may be mixed if and only if these agree."""
        return self._digest().hexdigest()[:16]

    def _digest(self) -> Any:
        return hashlib.sha256(f"{versions()} {self!r}".encode())

    def quick(self) -> Experiment:
        """The same in a minute or less: fewer runs and a smaller grid."""
        raise NotImplementedError

    def cells(self) -> list[Cell]:
        raise NotImplementedError

    def work(self, cell: Cell) -> list[Row]:
        raise NotImplementedError

    def draw(self, rows: list[Row]) -> Any:
        """A matplotlib figure."""
        raise NotImplementedError

    def table(self, rows: list[Row]) -> str:
        """Markdown, without a title."""
        raise NotImplementedError

    def claims(self, rows: list[Row]) -> list[Claim]:
        raise NotImplementedError


class NotAvailableError(Exception):
    """An experiment's data are not here; the message says how to get them."""


def select(rows: Iterable[Row], **where: Any) -> list[Row]:
    """The rows whose columns have these values."""
    return [row for row in rows if all(row[name] == value for name, value in where.items())]


def values(rows: Iterable[Row], name: str) -> list[Any]:
    """The different values of a column, in the order in which they occur."""
    return list(dict.fromkeys(row[name] for row in rows))


def markdown(head: Sequence[str], body: Iterable[Sequence[Any]]) -> str:
    """A table; a bar in a cell is escaped, so that it does not end it."""
    lines = [list(head), ["---"] * len(head), *([str(cell) for cell in line] for line in body)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
