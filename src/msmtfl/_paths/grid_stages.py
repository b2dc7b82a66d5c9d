"""One column of a surface, from point to point: which stages its points are at, and what they want solved next."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

from .._data.designs import Floats, Ints, support
from .._objective.penalties import bent, slopes_of
from .._objective.problem import Problem
from .._objective.shapes import Shape
from .._solvers.lassos.lasso_solver import ESCAPES, OVERRUN, SLID, WEAK, Solve
from .._solvers.stages import REPEATS, UNFINISHED, algorithm_1, same
from .crowding import Crowding
from .grid import Grid
from .solutions import Solved

NOBODY, NOTHING = np.empty(0, dtype=np.intp), np.empty(0)
UNBENT, NO_KEY = np.empty((2, 0)), (b"", 0.0)  # the pattern of stage 1, and its key
Place = int  # of a stage in `solved`
Chain = tuple[tuple[Place, ...], str]  # the stages of a point, and why they ended


NONE = -1  # stands for the place of W = 0, where Algorithm 1 starts


class FoundStages(NamedTuple):
    """Points of a grid, and the solutions that they refer to."""

    points: dict[tuple[int, int], Chain]
    solved: list[Solved]
    without: set[Place]  # solutions that stand for none, as there is no minimiser


class Entries:
    """The (task, feature) entries of a problem: which of them a pattern eases, and whether that leaves too many free."""

    def __init__(self, problem: Problem):
        self.m, self.d, self.positive = problem.m, problem.d, problem.one_sided
        factors = problem.factors.T  # (m, d)
        self.factors = np.ravel(factors)
        self.plain = bool((self.factors == 1.0).all())
        counts = np.ravel((factors > 0) & np.isfinite(factors))  # those that can be eased
        self.every = None if counts.all() else counts
        self.crowding = Crowding(problem)
        self.usable = self.crowding.usable.ravel()
        self.first = self.d * np.arange(self.m)[:, None]  # of every task

    def ease(self, pattern: np.ndarray, share: float) -> tuple[Ints, Floats]:
        """The found whose weights a pattern lowers, as flat positions, and what is left of them, relative to lam."""
        if pattern.size == 0:
            return NOBODY, NOTHING
        d, m = self.d, self.m
        rows, slopes = pattern[0].astype(np.intp), pattern[1]
        if share > 0.0:
            of_rows = rows < d
            entries, of_row = np.ones(m * d), np.ones(d)
            entries[rows[~of_rows] - d] = slopes[~of_rows]
            of_row[rows[of_rows]] = slopes[of_rows]
            eased = (entries != 1.0) | np.tile(of_row != 1.0, m)
            found = np.flatnonzero(eased)
            left = (1.0 - share) * of_row[found % d] + share * entries[found]
        else:
            found = (self.first + rows).ravel()
            left = np.concatenate([slopes] * m)
        if self.every is None:
            return found, left
        return found[self.every[found]], left[self.every[found]]

    def crowded(self, wanted: Wanted) -> bool:
        """Whether a stage would interpolate in most tasks."""
        if self.positive or wanted.pattern.shape[1] <= self.crowding.roomy:
            return False
        free = wanted.eased[wanted.left == 0.0]
        return self.crowding(np.bincount(free[self.usable[free]] // self.d, minlength=self.m))


class Wanted:
    """A stage at lams[k]: the pattern (see `Penalty.pattern`) that a penalty with this share of the entries makes of the
    stage `before` it, and its own `place` once it has been solved. What its weights are, it works out when asked.

    Equal keys at one lam are equal weights; stage 1 has the empty one.
    """

    __slots__ = ("_all_entries", "_crowded", "_weights", "before", "k", "key", "pattern", "place")

    def __init__(self, all_entries: Entries, k: int, pattern: np.ndarray, share: float, before: Place):
        self._all_entries, self.k, self.pattern, self.before = all_entries, k, pattern, before
        self.key: tuple[bytes, float] = (pattern.tobytes(), share) if pattern.size else NO_KEY
        self.place: Place | None = None
        self._weights: tuple[Ints, Floats] | None = None
        self._crowded: bool | None = None

    @property
    def weights(self) -> tuple[Ints, Floats]:
        """The entries whose weights are eased, as flat positions, rising; what is left of their weights."""
        if self._weights is None:
            self._weights = self._all_entries.ease(self.pattern, self.key[1])
        return self._weights

    @property
    def eased(self) -> Ints:
        return self.weights[0]

    @property
    def left(self) -> Floats:
        return self.weights[1]

    @property
    def crowded(self) -> bool:
        if self._crowded is None:
            self._crowded = self._all_entries.crowded(self)
        return self._crowded


def alike(one: Wanted, other: Wanted) -> bool:
    """Whether two stages of one point, so with the same share of entries, have the same pattern."""
    return one is other or same(one.pattern, other.pattern)


class Sizes:
    """Norms of the rows that a solution uses, or its entries: where they are (rising), and how large."""

    __slots__ = ("at", "values")

    def __init__(self, at: Ints, values: Floats):
        self.at, self.values = at, values

    def pattern(self, shape: Shape, theta: float) -> Floats:
        """(2, p): what a penalty of some shape makes of them (see `Penalty.pattern`)."""
        out = bent(slopes_of(shape, self.values, theta))
        out[0] = self.at[out[0].astype(np.intp)]
        return out


class GridStages:
    """What is known of the stages of a grid's points, and which of them is to be solved next."""

    def __init__(self, problem: Problem, grid: Grid, max_stages: int, all_entries: Entries | None = None):
        self.problem, self.grid, self.max_stages = problem, grid, max_stages
        self.all_entries = Entries(problem) if all_entries is None else all_entries
        self.shares, self.lasso = grid.shares.tolist(), grid.lasso.tolist()
        self.thetas, self.theta_entries = grid.thetas.tolist(), grid.theta_entries.tolist()
        self.solved: list[Solved] = []
        self.points: dict[tuple[int, int], Chain] = {}  # by (k, l)
        self.without: set[Place] = set()  # stages that have no minimiser
        self.firsts = [Wanted(self.all_entries, k, UNBENT, 0.0, NONE) for k in range(len(grid.lams))]
        self.known: dict[Any, Place] = {}  # by lam, what is eased, the stage before if it matters
        self._begin()

    def _begin(self) -> None:
        """What helps to find the next stages; of no use beyond a lam."""
        self.wanted: dict[Any, Wanted] = {}  # by the stage before, and their own keys
        self.patterns: dict[Any, np.ndarray] = {NO_KEY: UNBENT}
        self.rows: dict[Place, Sizes] = {}
        self.entries: dict[Place, Sizes] = {}

    def point(self, k: int, l: int) -> Generator[Wanted, Place, Chain]:
        """Algorithm 1 at point (k, l): yields the stages that are not known yet, and is sent their places."""
        chain: list[Place] = []

        def pattern(place: Place) -> Wanted:
            return self.firsts[k] if place == NONE or self.lasso[k][l] else self._after(place, k, l)

        stages = algorithm_1(pattern, NONE, self.max_stages, alike=alike, crowded=lambda wanted: wanted.crowded)
        try:
            wanted = next(stages)
            while True:
                place = self.find(wanted)
                chain.append((yield wanted) if place is None else place)
                wanted = stages.send((chain[-1], "" if self.solved[chain[-1]].finished else UNFINISHED))
        except StopIteration as end:
            return tuple(chain), end.value

    def _after(self, place: Place, k: int, l: int) -> Wanted:
        """The stage that point (k, l) wants after the one at a place."""
        share, shape = self.shares[l], self.grid.concave
        patterns = [self._rows(place).pattern(shape, self.thetas[k][l])] if share < 1.0 else []
        if share > 0.0:
            patterns.append(self._entries(place).pattern(shape, self.theta_entries[k][l]))
            patterns[-1][0] += self.problem.d  # where entries begin
        whole = patterns[0] if len(patterns) == 1 else np.concatenate(patterns, axis=1)
        if whole.size == 0:
            return self.firsts[k]
        wanted = Wanted(self.all_entries, k, whole, share, place)
        wanted.pattern = self.patterns.setdefault(wanted.key, whole)
        return self.wanted.setdefault((place, wanted.key), wanted)

    def _rows(self, place: Place) -> Sizes:
        if place not in self.rows:
            of, d, groups = self.solved[place], self.problem.d, self.problem.groups
            if groups is not None:
                W = np.zeros(self.problem.m * d)
                W[of.at] = self.all_entries.factors[of.at] * of.values
                of_groups = groups.lengths(W.reshape(-1, d).T).sum(axis=1)[groups.of]
                used = support(of_groups)
                self.rows[place] = Sizes(used, of_groups[used])
                return self.rows[place]
            sizes = np.abs(of.values) if self.all_entries.plain else self.all_entries.factors[of.at] * np.abs(of.values)
            norms: Floats = np.asarray(np.bincount(of.at % d, sizes, d), dtype=np.float64)  # of nothing: integers
            used = support(norms)
            self.rows[place] = Sizes(used, norms[used])
        return self.rows[place]

    def _entries(self, place: Place) -> Sizes:
        if place not in self.entries:
            of = self.solved[place]
            self.entries[place] = Sizes(of.at, self.all_entries.factors[of.at] * np.abs(of.values))
        return self.entries[place]

    def find(self, wanted: Wanted) -> Place | None:
        """Where a stage is, if it has been solved: for this point, or with the same weights for another."""
        if wanted.place is None:
            known, (k, key, before) = self.known, (wanted.k, wanted.key, wanted.before)
            wanted.place = known.get((k, key, before), known.get((k, key, NONE)))
        return wanted.place

    def keep(self, wanted: Wanted, at: Ints, values: Floats, status: np.ndarray) -> Place:
        """Take note of a stage: coefficients at flat positions, and the solver's status of every task."""
        place = len(self.solved)
        seen = self._note(wanted.k, at, values, status, wanted.weights)
        self.known[wanted.k, wanted.key, wanted.before if seen & SLID else NONE] = place
        return place

    def _note(self, k: int, at: Ints, values: Floats, status: np.ndarray, weights: tuple[Ints, Floats]) -> int:
        return note(self.solved, self.without, k, at, values, status, weights)


def note(
    solved: list[Solved],
    without: set[Place],
    k: int,
    at: Ints,
    values: Floats,
    status: np.ndarray,
    weights: tuple[Ints, Floats],
) -> int:
    """Append a stage to those that are `solved`; what the solver's status of all tasks says together."""
    seen = int(np.bitwise_or.reduce(status))
    unclear = np.flatnonzero(status & (SLID | WEAK)) if seen else NOBODY
    if seen & ESCAPES:
        without.add(len(solved))
    solved.append(Solved(k, at, values, not seen & OVERRUN, unclear, *weights))
    return seen


def lassos_only(path: dict[int, Solve], steps: list[tuple[int, list[int]]]) -> FoundStages:
    """Points of columns of lassos, of which stage 1 is all there is: that of every lam in `path`."""
    points: dict[tuple[int, int], Chain] = {}
    solved: list[Solved] = []
    without: set[Place] = set()
    for k, columns in steps:
        first = path[k]
        note(solved, without, k, first.at, first.values, first.status, (NOBODY, NOTHING))
        end = REPEATS if solved[-1].finished else UNFINISHED
        points |= {(k, l): ((len(solved) - 1,), end) for l in columns}
    return FoundStages(points, solved, without)
