"""Gram matrices as far as they are needed: whole, or row by row, under a budget of memory.

A Gram holds nothing but data of one task, so any number of solver states may work on it: in turn, each of which then takes
note of what others have fetched, or at the same time, as long as it is whole or closed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from .._data.designs import Design, Floats, Ints
from .._runtime.threads import each, each_or_together

BUDGET = 2**30  # bytes that the Gram matrices of all tasks may take
WHOLE_BELOW = 400  # with fewer features the whole matrix is cheaper than deciding what to fetch
WHOLE_AT_MOST = 4000  # with more features it is never formed (128 MB per task at 4000)
STRONG_SHARE = 1 / 16  # of the features expected to enter soon, from which the whole matrix is formed at once
SWITCH_SHARE = 1 / 8  # of the rows fetched, from which the rest follows at once
FEWEST_ROWS = 64  # a task may always hold this many rows, whatever the budget
FIRST_ROOM = 64  # rows that there is room for at first


class LackingError(Exception):
    """Gram rows are needed that must not be fetched now."""


class Gram:
    """One task's Gram matrix: `whole` once it is formed, else the rows of the `size` features asked for so far.

    Rows are known by slot: `slot` maps features to slots (-1: not at hand), `features` slots to features; `known`
    is the matrix between slots, `slot_c` and `slot_root` are X'y and column lengths by slot. `version` changes when
    slots are given to other features. While it is `closed` nothing may be fetched.
    """

    __slots__ = (
        *("c", "closed", "design", "features", "known", "may_form", "most_rows", "root", "rows", "slot", "slot_c"),
        *("slot_root", "version", "whole"),
    )

    def __init__(
        self,
        design: Design,
        *,
        whole: bool,
        may_form: bool = True,
        most_rows: int | None = None,
        room: Floats | None = None,
        n_jobs: int | None = None,
    ):
        self.design, self.closed = design, False
        self.c: Floats = design.c
        self.root: Floats = np.sqrt(design.squares)
        self.may_form, self.most_rows = may_form, design.d if most_rows is None else most_rows
        self.whole: Floats | None = None
        self.version = 0
        if whole:
            self.whole = design.gram(room, n_jobs)
        else:
            self._empty()

    def _empty(self) -> None:
        d = self.design.d
        self.slot = np.full(d, -1, dtype=np.intc)
        self.features = np.empty(0, dtype=np.intc)
        self.rows, self.known = np.empty((0, d)), np.empty((0, 0))
        self.slot_c, self.slot_root = np.empty(0), np.empty(0)

    @property
    def size(self) -> int:
        return len(self.features)

    def crowded(self, count: int) -> bool:
        """Whether so many more rows would exceed the budget."""
        return self.size + count > self.most_rows

    def fetch(self, wanted: Ints, needed: Ints, n_jobs: int | None = None, of_all: Floats | None = None) -> None:
        """Get the rows of the features wanted (not at hand yet); if the task is a part of another, from those `of_all`.

        When the budget is used up, all rows but those of the features `needed` make room. A task that has fetched much
        of its Gram matrix gets the rest at once (by one thread: fits are the same to the bit whatever n_jobs is).
        """
        if self.closed:
            raise LackingError
        if self.crowded(len(wanted)):
            self._forget(needed)
        have, size = self.size, self.size + len(wanted)
        if self.may_form and size > SWITCH_SHARE * self.design.d:
            self.whole = self.design.gram()
            self._empty()
            return
        if size > len(self.rows):
            self._make_room(size)
        less = None if of_all is None else getattr(self.design, "gram_rows_less", None)
        if less is None:
            self.design.gram_rows(wanted, out=self.rows[have:size], n_jobs=n_jobs)
        else:
            less(wanted, of_all, self.rows[have:size])
        self.slot[wanted] = np.arange(have, size, dtype=np.intc)
        self.features = np.concatenate([self.features, wanted.astype(np.intc)])
        block = self.rows[have:size][:, self.features]
        self.known[have:size, :size] = block
        self.known[:size, have:size] = block.T
        self.slot_c[have:size], self.slot_root[have:size] = self.c[wanted], self.root[wanted]

    def _make_room(self, size: int) -> None:
        have, d = self.size, self.design.d
        capacity = min(max(2 * size, FIRST_ROOM), d, max(self.most_rows, size))
        rows, known = np.empty((capacity, d)), np.zeros((capacity, capacity))
        rows[:have], known[:have, :have] = self.rows[:have], self.known[:have, :have]
        c, root = np.zeros(capacity), np.zeros(capacity)
        c[:have], root[:have] = self.slot_c[:have], self.slot_root[:have]
        self.rows, self.known, self.slot_c, self.slot_root = rows, known, c, root

    def _forget(self, needed: Ints) -> None:
        """Keep only the rows of some features."""
        kept = np.sort(self.slot[needed])
        kept = kept[kept >= 0]
        if len(kept) == self.size:
            return
        self.version += 1
        features, rows, known = self.features[kept], self.rows[kept], self.known[np.ix_(kept, kept)]
        self._empty()
        self.features, self.rows, self.known = features, rows, known
        self.slot_c, self.slot_root = self.c[features], self.root[features]
        self.slot[features] = np.arange(len(features), dtype=np.intc)


def gram_caches(
    designs: Sequence[Design],
    *,
    reuse: bool = False,
    budget: float | None = None,
    n_jobs: int | None = None,
    to_the_bit: bool = False,
) -> list[Gram]:
    """One Gram per task; whole where that pays and all of them fit into the budget (bytes). Threads take a task each, and
    the last ones together, which changes the rounding: not where it is to be the same `to_the_bit`, as for single fits."""
    budget = BUDGET if budget is None else budget
    d, whole = designs[0].d, may_form(designs, budget)
    most_rows = max(FEWEST_ROWS, int(budget / (8.0 * d * len(designs))))

    at_once = [whole and wants_whole(design, reuse) for design in designs]
    # one piece of memory, which the system can give in large pages; it is used only as far as it is filled
    room = np.empty((len(designs) if any(at_once) else 0, d, d))

    def cache(i: int, n_jobs: int | None = None) -> Gram:
        own = room[i] if at_once[i] else None
        return Gram(designs[i], whole=at_once[i], may_form=whole, most_rows=most_rows, room=own, n_jobs=n_jobs)

    return (each if to_the_bit else each_or_together)(cache, range(len(designs)), n_jobs)


@contextmanager
def closed(grams: Sequence[Gram]) -> Iterator[None]:
    """Nothing may be fetched within, so that threads can work on the same Gram matrices."""
    for gram in grams:
        gram.closed = True
    try:
        yield
    finally:
        for gram in grams:
            gram.closed = False


class Known(Protocol):
    """What is kept of a Gram matrix; `whole` is all of it, if that was formed."""

    @property
    def whole(self) -> Floats | None: ...


def at_hand(grams: Sequence[Known]) -> bool:
    """Whether all Gram matrices are whole."""
    return all(gram.whole is not None for gram in grams)


def follow(grams: Sequence[Gram], others: Sequence[Gram]) -> None:
    """Get at once the rows that others, of all the data of which these have a part, have come to hold."""
    for gram, other in zip(grams, others, strict=True):
        if not (isinstance(gram, Gram) and isinstance(other, Gram)):
            continue  # what holds features in work only
        if gram.whole is not None or other.whole is not None:
            continue
        new = np.flatnonzero(gram.slot[other.features] < 0)
        if new.size and not gram.crowded(len(new)):
            features = other.features[new].astype(np.intp)
            gram.fetch(features, features[:0], of_all=other.rows[new])


def few_rows(designs: Sequence[Design], budget: float | None) -> bool:
    """Whether the budget does not even hold the rows that every task may always hold."""
    return 8.0 * designs[0].d * len(designs) * FEWEST_ROWS > (BUDGET if budget is None else budget)


def may_form(designs: Sequence[Design], budget: float) -> bool:
    """Whether all tasks' whole Gram matrices are small enough to be formed."""
    d = designs[0].d
    return d <= WHOLE_AT_MOST and 8.0 * len(designs) * d**2 <= budget


def wants_whole(design: Design, reuse: bool) -> bool:
    """Whether to form the whole Gram matrix at once.

    Yes if it is small, if there are more samples than features, if it will be reused, or if many features are about
    to enter: the strong rule at 3/4 of the largest weight keeps those with half of the largest correlation.
    """
    if design.d <= WHOLE_BELOW or design.order >= design.d or reuse:
        return True
    root = np.sqrt(design.squares)
    ratio = np.abs(design.c) / np.where(root > 0, root, 1.0)
    return int((ratio > 0.5 * ratio.max()).sum()) > STRONG_SHARE * design.d
