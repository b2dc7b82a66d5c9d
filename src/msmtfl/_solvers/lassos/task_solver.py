"""The warm solver state of one task, on what is kept of its Gram matrix: all of it, rows as they are needed, or the
features in work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..._data.designs import Design, Floats, Ints, support
from ..._data.forms.sparse import SparseRows
from ..._kernels import active_set as _kernel
from ..._runtime.threads import each
from ..gram import WHOLE_AT_MOST, Gram, few_rows, gram_caches
from .working_set import WorkingSet, WorkingState

AT_LEAST = 8  # Gram rows fetched together: that many cost little more than one
AT_LEAST_OF_MANY = 16  # the same where so many more do not make the whole matrix worth forming
SLIGHT = 1e-9  # violations less than this share of the largest can wait
AHEAD = 16  # the same where they belong to free features: those of others that may be free next come with them

Caches: TypeAlias = list[Gram] | list[WorkingSet]  # one per task

ENTRY = np.dtype([("value", np.float64), ("feature", np.intc)])  # of a solution


def _packed(features: np.ndarray, values: Floats) -> bytes:
    """A solution in little memory."""
    out = np.empty(len(values), dtype=ENTRY)
    out["feature"], out["value"] = features, values
    return out.tobytes()


def _unpacked(solution: bytes) -> tuple[np.ndarray, Floats]:
    entries = np.frombuffer(solution, dtype=ENTRY)
    return entries["feature"].copy(), entries["value"].copy()


class TaskState:
    """The warm solver state of one task on its Gram; it follows when the Gram grows, is formed whole or makes room. On a
    whole Gram it can be at rest: all that it then holds is the last solution."""

    __slots__ = (
        *("_state", "features", "g", "gram", "level", "positive", "resting", "ridge", "size", "version", "whole"),
    )

    def __init__(self, gram: Gram, positive: bool, ridge: Floats | None = None):
        self.gram, self.positive, self.ridge, self.level = gram, positive, ridge, 0.0
        self._fresh()

    @property
    def order(self) -> int:
        """The largest support."""
        design = self.gram.design
        return design.order if self.ridge is None else min(design.order + int(np.count_nonzero(self.ridge)), design.d)

    def set_level(self, level: float) -> None:
        """Times which the ridge counts, from the next solve on."""
        if self.ridge is not None:
            self.level = level
            if self.resting is None:
                self._state.set_level(level)

    def _fresh(self) -> None:
        gram = self.gram
        self.whole, self.version, self.size = gram.whole is not None, gram.version, 0
        self.resting: bytes | None = None  # the last solution, of a task at rest: features and values
        if gram.whole is not None:
            self.resting = b""
            return
        self.g = gram.c.copy()
        self._state = _kernel.ActiveSet(np.zeros((1, 1)), np.zeros(1), np.zeros(1), 0, self.order, self.positive)
        self._state.attach(gram.rows, gram.slot, gram.c, gram.root, self.g)
        if self.ridge is not None:
            self._state.set_ridge(np.zeros(1), self.level)
        self.features = gram.features

    @property
    def state(self) -> _kernel.ActiveSet:
        """That of the kernel, made now where the task is at rest."""
        gram, design = self.gram, self.gram.design
        if self.resting is not None and gram.whole is not None:
            self._state = _kernel.ActiveSet(gram.whole, gram.c, gram.root, design.d, self.order, self.positive)
            if self.ridge is not None:
                self._state.set_ridge(self.ridge, self.level)
            if self.resting:
                self._state.begin(*_unpacked(self.resting))
            self.resting = None
        return self._state

    def rest(self) -> None:
        """Keep the last solution only: what the kernel works with takes several times the memory of a small task."""
        if self.whole and self.resting is None:
            self.resting = _packed(*self._state.support())
            del self._state

    def support(self) -> tuple[Ints, Floats]:
        """(features, values) of the last solution"""
        slots, values = self.state.support() if self.resting is None else _unpacked(self.resting)
        return (slots if self.whole else self.features[slots]).astype(np.intp), values

    def follow(self) -> None:
        """Take note of what has happened to the Gram since the last solve."""
        gram = self.gram
        if self.whole or (gram.whole is None and gram.version == self.version and gram.size == self.size):
            return
        if gram.whole is not None or gram.version != self.version:
            features, values = self.support()
            self._fresh()
            self._set(features, values)
        else:
            self._grow()

    def _grow(self) -> None:
        gram = self.gram
        self.features, self.size = gram.features, gram.size
        ridge = None
        if self.ridge is not None:
            ridge = np.zeros(len(gram.slot_c))
            ridge[: gram.size] = self.ridge[gram.features]
        self.state.grow(gram.known, gram.slot_c, gram.slot_root, gram.rows, gram.features, gram.size, ridge)

    def _set(self, features: Ints, values: Floats) -> None:
        if self.whole:
            self.resting = _packed(features, values)
            return
        new = features[self.gram.slot[features] < 0]
        if new.size:
            self.gram.fetch(new, features)
            if self.gram.whole is not None or self.gram.version != self.version:
                self._fresh()
                self._set(features, values)
                return
        self._grow()
        self.state.begin(self.gram.slot[features], values)

    def begin(self, w: Floats) -> None:
        """Start the next solve from w (d,)"""
        self.follow()
        features = support(w)
        self._set(features, w[features])

    def supply(
        self,
        a: Floats,
        n_jobs: int | None = None,
        used: np.ndarray | None = None,
        likely: Ints | None = None,
    ) -> None:
        """Fetch the Gram rows that the last solve, for weights a (d,), lacked, knowing which features (d,) any task used the
        stage before, and which are likely to be needed some time, most likely ones first."""
        wanted = self._wanted(used, None if self.gram.crowded(AT_LEAST_OF_MANY) else likely)
        needed = wanted[:0]
        if self.gram.crowded(len(wanted)):
            needed = np.union1d(self.support()[0], np.flatnonzero(a == 0.0))
        self.gram.fetch(wanted, needed, n_jobs)
        self.follow()

    def _wanted(self, used: np.ndarray | None, likely: Ints | None) -> Ints:
        """Free features and, as they may be free next, others in use; else the worst violators, what is likely to be needed,
        and those next to violating: few fetches serve many weights."""
        over, lacking, beyond, free = self.state.lacking()
        count = AT_LEAST_OF_MANY if self.gram.design.d > WHOLE_AT_MOST else AT_LEAST
        count = max(count, min(beyond, self.gram.size // 4), free)
        if free and used is not None:
            soon = np.flatnonzero(used & np.isfinite(over))
            over[soon] += 2.0 * np.abs(over[np.isfinite(over)]).max(initial=0.0)  # before those that are not
            count = max(count, min(AHEAD, len(soon) + 2 * free))  # a few more than are known to be needed
        if likely is not None:
            likely = likely[np.isfinite(over[likely])]
            least = SLIGHT * over[np.isfinite(over)].max(initial=0.0)  # of a violator that goes before them
            over[likely] = np.maximum(over[likely], least * np.linspace(1.0, 0.0, len(likely)))
        rest = len(over) - min(count, lacking)
        return np.sort(np.argpartition(over, rest)[rest:])


def state_of(gram: Gram | WorkingSet, positive: bool, ridge: Floats | None = None) -> Any:
    """The state of a task on what is kept of its Gram matrix: of the same class for all tasks of a problem."""
    return WorkingState(gram, positive, ridge) if isinstance(gram, WorkingSet) else TaskState(gram, positive, ridge)


def thin(design: Design) -> bool:
    return isinstance(getattr(design, "rows", None), SparseRows)


def task_caches(
    designs: Sequence[Design],
    *,
    reuse: bool = False,
    budget: float | None = None,
    n_jobs: int | None = None,
    to_the_bit: bool = False,
) -> Caches:
    """What is kept of the Gram matrices: all, rows as they are needed (parameters as of `gram_caches`), or no more than the
    features in work: where the budget would not hold a few rows of every task, or a row takes more than the pass over a
    sparse X that it saves."""
    if few_rows(designs, budget) or (thin(designs[0]) and designs[0].d > WHOLE_AT_MOST):
        return each(WorkingSet, designs, n_jobs)
    return gram_caches(designs, reuse=reuse, budget=budget, n_jobs=n_jobs, to_the_bit=to_the_bit)
