"""A row of results, and the file they are kept in."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

SOLVED = 1e-3  # a gap beyond which an answer does not count, however fast


@dataclass(frozen=True)
class Row:
    problem: str
    data: str  # generated, real, look-alike
    shape: str
    work: str
    solver: str
    setting: str
    threads: int
    seconds: float | None  # best; None where it was not done, the note says why
    median: float | None
    runs: int
    gap: float | None  # worst over the answer's points, by gap.py
    support: int | None  # features in use at the last point
    peak: int | None  # bytes beyond those held before
    x_bytes: int
    version: str
    note: str

    def solved(self, gap: float) -> bool:
        """Done, and where a gap is known, with one of at most this."""
        return self.seconds is not None and (self.gap is None or self.gap <= gap)


NUMBERS = {"threads": int, "runs": int, "support": int, "peak": int, "x_bytes": int}
NUMBERS |= dict.fromkeys(("seconds", "median", "gap"), float)


def write_rows(rows: Iterable[Row], file: Path) -> None:
    """The whole file, or what was there before."""
    unfinished = file.with_suffix(".unfinished")
    with unfinished.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    unfinished.replace(file)


def read_rows(file: Path) -> list[Row]:
    with file.open(newline="", encoding="utf-8") as stored:
        return [Row(**{key: _value(key, text) for key, text in row.items()}) for row in csv.DictReader(stored)]


def _value(key: str, text: str):
    if key not in NUMBERS:
        return text
    return NUMBERS[key](text) if text else None
