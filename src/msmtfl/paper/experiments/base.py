"""What an experiment is: a frozen description that yields cells of work, rows from each, and a picture, a table and a
verdict on claims from all rows. Nothing here knows how cells are run; `runner` does."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, ClassVar

import numpy as np
from scipy.special import stdtrit

from ..._data.designs import Floats

Row = dict[str, Any]  # one line of rows.csv

HOLDS, PARTLY, FAILS = "holds", "partly", "does not hold"
UNCLEAR, UNTESTED = "not clear", "not testable"
PAPER, PACKAGE, CONTROL = "paper", "package", "control"
LEVEL = 0.95  # of the intervals that verdicts rest on


@dataclass(frozen=True)
class Claim:
    """A statement, where it was looked at, and what was found.

    Attributes
    ----------
    claim : the statement; the paper's own words, symbols spelled out, where it is the paper's
    setting : which data, which reading of the paper, which protocol
    verdict : "holds", "partly", "does not hold", "not clear" (too few runs to tell) or "not testable"
    evidence : the numbers
    source : "paper", "package" (a statement of our own) or "control" (what a run that is not of the paper shows)
    quick : whether fewer runs or a smaller grid than those of the full experiment are behind the verdict
    """

    claim: str
    setting: str
    verdict: str
    evidence: str
    source: str = PAPER
    quick: bool = False

    @property
    def shown(self) -> str:
        """The verdict as people should read it."""
        return f"{self.verdict} (quick run)" if self.quick and self.verdict != UNTESTED else self.verdict


def verdict(held: Sequence[bool | None]) -> str:
    """All of them, some of them, none of them; None is one that cannot be told."""
    if any(held):
        return HOLDS if all(held) else PARTLY
    return UNCLEAR if all(one is None for one in held) else FAILS


def every(held: Sequence[bool | None]) -> bool | None:
    """Whether all hold: one that does not is enough for False; None if it cannot be told."""
    if any(one is not None and not one for one in held):
        return False
    return None if any(one is None for one in held) else True


def below(differences: Floats) -> bool | None:
    """Whether the mean of these differences, one per run, is below 0; None if the runs are too few to tell.

    They tell when 0 is outside of Student's interval for the mean: with two runs that takes differences that are twelve
    times their standard error, with ten more than twice.
    """
    if len(differences) < 2:
        return None
    reach = _quantile(len(differences) - 1) * differences.std(ddof=1) / np.sqrt(len(differences))
    return None if differences.mean() - reach < 0.0 <= differences.mean() + reach else bool(differences.mean() < 0.0)


def steadier(mine: Floats, other: Floats) -> bool | None:
    """Whether errors of the same runs spread less than others; None if the runs are too few to tell.

    Pitman's test: the spreads are equal where sums and differences are uncorrelated.
    """
    if len(mine) < 3:
        return None
    total, change = mine + other, mine - other
    scale = total.std() * change.std()
    if scale == 0.0:  # both constant, or they differ by a constant, or by a sign
        return False
    r = float(np.clip(((total - total.mean()) * (change - change.mean())).mean() / scale, -1.0, 1.0))
    free = len(mine) - 2
    limit = _quantile(free) / np.sqrt(free + _quantile(free) ** 2)  # of the correlation
    return r < 0.0 if abs(r) > limit else None


def _quantile(free: int) -> float:
    return float(stdtrit(free, 0.5 + LEVEL / 2.0))


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
    repeats: ClassVar[str] = "runs"  # the field that says over how many samples results are averaged

    @property
    def fingerprint(self) -> str:
        """Rows of two runs may be mixed if and only if these agree. How many runs or splits there are does not matter: every
        one is the same however many there are, so that more can be added later."""
        return self._digest().hexdigest()[:16]

    def _digest(self) -> Any:
        return hashlib.sha256(f"{versions()} {self.repeated(1)!r}".encode())

    def quick(self) -> Experiment:
        """The same in a minute or less: fewer runs and a smaller grid."""
        raise NotImplementedError

    def repeated(self, times: int) -> Experiment:
        """The same with another number of runs or splits."""
        fields: Any = {self.repeats: times}
        return replace(self, **fields)  # type: ignore[type-var]

    @property
    def shortened(self) -> bool:
        """Whether this is less than the full experiment: its verdicts are then marked as such."""
        return len(self.cells()) < len(type(self)().cells())

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
