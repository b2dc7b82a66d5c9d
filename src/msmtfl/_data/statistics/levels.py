"""Columns with few different values: which they are, and how many rows have each. Counted while rows go by, so that what
sums give away of rare values can be said when the rows are gone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from ..designs import Floats, Ints

FEW = 5  # a value that is not the commonest in so many rows, or fewer, gives them away
MOST = FEW + 1  # different values: a column with more has more such rows, whatever is the commonest
AT_ONCE = 256  # columns


@dataclass(frozen=True)
class Levels:
    """Of one task: columns (c,) in rising order, the target being the last of all; their values (c, MOST), NaN where there
    are no more; and how many rows have these."""

    columns: Ints
    values: Floats
    counts: np.ndarray

    @staticmethod
    def of(X: np.ndarray | csr_array, y: Floats) -> Levels:
        """Of rows at hand, dense or sparse."""
        d = X.shape[1]
        if isinstance(X, np.ndarray) and d < AT_ONCE:
            return _few(np.column_stack([X, y]), 0)
        parts = [_few(_dense(X[:, low : low + AT_ONCE]), low) for low in range(0, d, AT_ONCE)]
        return _joined([*parts, _few(y[:, None], d)])

    def merged(self, other: Levels, sign: int = 1) -> Levels:
        """With the rows of another, or (sign -1) without them. Columns that have many values in one of the two have many."""
        both, mine, theirs = np.intersect1d(self.columns, other.columns, assume_unique=True, return_indices=True)
        if len(both) == 0:
            return NONE
        values = np.hstack([self.values[mine], other.values[theirs]])
        counts = np.hstack([self.counts[mine], sign * other.counts[theirs]])
        order = np.argsort(values, axis=1, kind="stable")
        return _gathered(both, np.take_along_axis(values, order, 1), np.take_along_axis(counts, order, 1))

    def reordered(self, order: Ints) -> Levels:
        """For columns order[0], order[1], ... in the place of 0, 1, ...; the target stays the last."""
        place = np.empty(len(order) + 1, dtype=np.intp)
        place[order], place[-1] = np.arange(len(order)), len(order)
        now = place[self.columns]
        sort = np.argsort(now)
        return replace(self, columns=now[sort], values=self.values[sort], counts=self.counts[sort])

    def rare(self) -> Ints:
        """Columns in which all but a few rows have one value."""
        others = self.counts.sum(axis=1) - self.counts.max(axis=1, initial=0)
        out: Ints = self.columns[(others > 0) & (others <= FEW)]
        return out


NONE = Levels(np.empty(0, dtype=np.intp), np.empty((0, MOST)), np.empty((0, MOST), dtype=np.int32))


def _dense(part: np.ndarray | csr_array) -> np.ndarray:
    return part if isinstance(part, np.ndarray) else np.asarray(part.toarray())


def _few(X: np.ndarray, first: int) -> Levels:
    """Those of a dense part, whose first column has that number."""
    columns = np.arange(X.shape[1])
    for height in (2 * MOST, 16 * MOST):  # most columns with many values show them early
        few = (_different(np.sort(X[:height, columns], axis=0)).sum(axis=0) < MOST).nonzero()[0]
        columns = columns[few]
        if len(columns) == 0:
            return NONE
        if height >= len(X):
            break
    head = np.sort(X[:height, columns], axis=0)
    values = _firsts(head)
    counts = np.zeros(values.shape, dtype=np.int32)
    part = X[:, columns] if len(columns) < X.shape[1] else X
    for k in range(MOST):
        known = np.flatnonzero(~np.isnan(values[:, k]))
        if len(known):
            some = part[:, known] if len(known) < part.shape[1] else part
            counts[known, k] = np.count_nonzero(some == values[known, k].astype(X.dtype), axis=0)
    seen = counts.sum(axis=1) == len(X)
    if not seen.all():  # further values below the head
        rest = np.flatnonzero(~seen)
        ordered = np.sort(part[:, rest], axis=0)
        few = np.flatnonzero(_different(ordered).sum(axis=0) < MOST)
        rest, ordered = rest[few], ordered[:, few]
        values[rest] = _firsts(ordered)
        for k in range(MOST):
            counts[rest, k] = np.count_nonzero(ordered == values[rest, k].astype(X.dtype), axis=0)
        seen[rest] = True
    return Levels(columns[seen] + first, values[seen], counts[seen])


def _firsts(ordered: np.ndarray) -> Floats:
    """(columns, MOST) the different values of sorted columns that have no more, NaN where they have fewer."""
    firsts = np.vstack([np.ones((1, ordered.shape[1]), dtype=bool), _different(ordered)])
    column, row = np.nonzero(firsts.T)
    out = np.full((ordered.shape[1], MOST), np.nan)
    out[column, np.arange(len(column)) - np.searchsorted(column, column)] = ordered[row, column]
    return out


def _different(ordered: np.ndarray) -> np.ndarray:
    """Whether each entry of sorted columns differs from the one before."""
    out: np.ndarray = ordered[1:] != ordered[:-1]
    return out


def _gathered(columns: Ints, values: Floats, counts: np.ndarray) -> Levels:
    """Equal values (in rising order, NaN last) put together; columns that have too many then, and values with no rows, go;
    so do columns of which more was taken away than there was."""
    c = len(columns)
    known = ~np.isnan(values)
    new = known & np.hstack([np.ones((c, 1), dtype=bool), values[:, 1:] != values[:, :-1]])
    place = np.cumsum(new, axis=1) - 1
    width = int(place.max(initial=0)) + 1
    sums, kept = np.zeros((c, width), dtype=np.int64), np.full((c, width), np.nan)
    row = np.broadcast_to(np.arange(c)[:, None], values.shape)
    np.add.at(sums, (row[known], place[known]), counts[known])
    kept[row[new], place[new]] = values[new]
    kept[sums == 0] = np.nan
    order = np.argsort(np.isnan(kept), axis=1, kind="stable")
    kept, sums = np.take_along_axis(kept, order, 1), np.take_along_axis(sums, order, 1)
    if width < MOST:
        kept = np.hstack([kept, np.full((c, MOST - width), np.nan)])
        sums = np.hstack([sums, np.zeros((c, MOST - width), dtype=np.int64)])
    few = (sums >= 0).all(axis=1) & ((~np.isnan(kept)).sum(axis=1) <= MOST)
    return Levels(columns[few], kept[few, :MOST], sums[few, :MOST].astype(np.int32))


def _joined(parts: list[Levels]) -> Levels:
    if len(parts) == 1:
        return parts[0]
    return Levels(
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.counts for part in parts]),
    )
