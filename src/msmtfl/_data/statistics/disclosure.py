"""What sums give away of single rows: the plain cases, each with the way in which a row is got out of them.

With x a column and S the sums of products of all columns (the target and a column of ones among them), a combination D of
columns that is 0 in all rows but one, where it is e, makes S D / e that row. Such are: a column less its commonest value;
the difference of two columns. And the sums of yesterday taken from those of today are the sums of the rows that came.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..designs import Floats
from ..tables import names_of
from .levels import FEW
from .task_moments import Sums, TaskMoments

CODE = 1e6  # whole numbers up to this size are taken for codes of values
WHOLE = 1e-6  # sums that are as near to a whole number are sums of whole numbers
EXACT = 1e-7  # agreement of sums, as shares of each other, that is no chance
DIGITS = 1e-15  # of what is subtracted, lost by rounding
AT_ONCE = 2**22  # pairs of columns


def of_task(task: TaskMoments, who: str, names: Sequence[str]) -> list[str]:
    """What the sums of a task give away, in words; names are those of the features and of the target."""
    d = len(task.mean)
    if task.rows <= max(d + 1, FEW):
        return [f"{who} has {task.rows} rows and {d} features: sums over so few can give them away"]
    out = []
    rare = _codes(task) if task.levels is None else task.levels.rare()
    if rare.size:
        named = names_of([names[j] for j in rare])
        out.append(f"{who}: column(s) {named} have one value in all but {FEW} or fewer rows, and show these rows")
    pairs = _pairs(task)
    if pairs:
        named = "; ".join(f"{names[a]!r} and {names[b]!r}" for a, b in pairs[:3])
        more = f"; {len(pairs) - 3} more pairs" if len(pairs) > 3 else ""
        out.append(f"{who}: columns {named}{more} differ in a few rows only, and their difference shows these rows")
    return out


def of_difference(now: TaskMoments, before: TaskMoments, who: str, names: Sequence[str]) -> list[str]:
    """What the sums of a task give away to those who have earlier ones."""
    if now.rows == before.rows and Sums(now).equal(Sums(before)):
        return []
    new = now.rows - before.rows
    if abs(new) <= max(len(now.mean) + 1, FEW):
        told = (
            f"{abs(new)} row(s) {'more' if new > 0 else 'fewer'} than"
            if new
            else "as many rows as, but other ones than,"
        )
        return [f"{who} has {told} in the statistics that were shared before: the difference shows what changed"]
    large, small = (now, before) if new > 0 else (before, now)
    if large.n - small.n <= 1e-9 * large.n:
        return []
    return of_task(large.merged(small, -1), f"{who}, without the statistics that were shared before", names)


def _columns(task: TaskMoments) -> tuple[Floats, Floats]:
    """Means (d + 1,) and centred sums (d + 1, d + 1) of features and target."""
    sums = Sums(task)
    return sums.mean, sums.matrix


def _codes(task: TaskMoments) -> np.ndarray:
    """Columns that can be two whole numbers, one of them in a few rows: for every number of such rows, mean and spread say
    which two values these would be."""
    mean, matrix = _columns(task)
    share = np.arange(1, FEW + 1)[:, None] / task.rows
    apart = np.sqrt(np.maximum(matrix.diagonal(), 0.0) / task.n / (share * (1.0 - share)))
    found = np.zeros(len(mean), dtype=bool)
    for sign in (1.0, -1.0):
        common = mean - sign * share * apart
        other = common + sign * apart
        found |= (_whole(common) & _whole(other) & (apart > 0.5)).any(axis=0)
    return np.flatnonzero(found)


def _whole(values: Floats) -> np.ndarray:
    return (np.abs(values) <= CODE) & (np.abs(values - np.rint(values)) <= WHOLE)


def _pairs(task: TaskMoments) -> list[tuple[int, int]]:
    """Pairs of columns that differ in one row; of columns of 0 and 1 in a few."""
    mean, matrix = _columns(task)
    second = matrix.diagonal() + task.n * mean**2
    binary = (mean > 0) & (mean < 1) & np.isclose(second, task.n * mean, rtol=1e-9, atol=1e-9 * task.n)
    whole = _whole(task.rows * mean) & _whole(second) if task.n == task.rows else np.zeros(len(mean), dtype=bool)
    out: list[tuple[int, int]] = []
    height = max(1, AT_ONCE // len(mean))
    for low in range(0, len(mean), height):
        some = np.arange(low, min(low + height, len(mean)))
        apart = mean[some, None] - mean
        spread = matrix.diagonal()[some, None] + matrix.diagonal() - 2.0 * matrix[some]
        lost = DIGITS * (matrix.diagonal()[some, None] + matrix.diagonal() + task.n * (mean[some, None] ** 2 + mean**2))
        of_both = spread + task.n * apart**2  # the sum of squares of the difference
        seen = (spread > 1e3 * lost) & (np.arange(len(mean)) > some[:, None])
        with np.errstate(divide="ignore", invalid="ignore"):
            rows = task.rows * task.n * apart**2 / of_both  # if the difference is the same in those where there is one
            one = seen & (np.abs(rows - 1.0) <= EXACT + 10.0 * lost / of_both)
        few = seen & binary[some, None] & binary & (task.rows / task.n * of_both < FEW + 0.5)
        one &= ~(binary[some, None] & binary)
        out += [(int(some[i]), int(j)) for i, j in np.argwhere(few)]
        likely = [(int(some[i]), int(j)) for i, j in np.argwhere(one)]
        out += [pair for pair in likely if _row_is_possible(task, mean, matrix, whole, *pair)]
    return sorted(out)


def _row_is_possible(task: TaskMoments, mean: Floats, matrix: Floats, whole: np.ndarray, a: int, b: int) -> bool:
    """Whether the row in which two columns differ, if it is one, has whole numbers where all rows have them: sums of whole
    numbers agree by chance, too."""
    apart = mean[a] - mean[b]
    products = matrix[a] - matrix[b] + task.n * apart * mean
    return bool(_whole(products[whole] / (task.n * apart)).all())
