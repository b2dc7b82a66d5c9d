"""Grids of models that are solved for points (height, d), which hang together with coefficients as their penalty says:
what is common to the tasks, and below it what tasks, or groups of tasks, have beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.sparse import csr_array

from ..._data.designs import Floats, Ints, support
from ..._objective.problem import Problem
from ..._objective.proofs.certificates import RowCertificate
from ..._runtime.progress import one_blas_thread
from ..._runtime.threads import each
from ..._solvers.coupled_stages import Certify
from ..._solvers.solvers import pressed_points
from ..solutions import Solutions, Solved


class PointGrid(Protocol):
    """A grid (K, L) of penalties of points."""

    @property
    def parameters(self) -> dict[str, Floats]:
        """By name, (K, L) each."""

    @property
    def shape(self) -> tuple[int, int]:
        """(K, L)"""

    def penalty(self, k: int, l: int, problem: Problem) -> Any:
        """That of a point of the grid."""


@dataclass(frozen=True, eq=False)
class PointSurface(Solutions):
    """Solutions on a grid of strengths.

    Attributes
    ----------
    parameters : {name: (K, L)}: the strengths
    objective, dual_gap, unique : (K, L) computed from the data when first asked for

    Pickling computes the certificates first and leaves the data behind.
    """

    certify: ClassVar[Certify]

    grid: Any
    places: Ints = field(repr=False)  # (K, L)
    points: tuple[csr_array, ...] = field(repr=False)  # (height, d) of every solution
    finished_at: tuple[bool, ...] = field(repr=False)

    def __repr__(self) -> str:
        (K, L), m, d = self.grid.shape, len(self.tasks), len(self.features)
        return f"{type(self).__name__}({K} x {L} values of {', '.join(self.parameters)}, {m} tasks, {d} features)"

    @property
    def parameters(self) -> dict[str, Floats]:
        found: dict[str, Floats] = self.grid.parameters
        return found

    @property
    def last(self) -> Ints:
        return self.places

    @property
    def settled(self) -> np.ndarray:
        return self._at_points(np.array(self.finished_at, dtype=bool), False)

    @cached_property
    def _of_places(self) -> list[tuple[int, int]]:
        """The point of every solution."""
        found = [(k, l) for k, l in np.argwhere(self.reached).tolist()]
        return sorted(found, key=lambda point: int(self.places[point]))

    def point(self, k: int, l: int) -> Floats:
        """Return what the coefficients at a point of the grid are made of, (height, d)."""
        return np.asarray(self.points[self._place(k, l)].toarray())

    @cached_property
    @one_blas_thread()
    def _proofs(self) -> list[RowCertificate]:
        problem, out = self._data(), []
        for place, (k, l) in enumerate(self._of_places):
            penalty = self.grid.penalty(k, l, problem)
            P = self.points[place].toarray()
            out.append(type(self).certify(pressed_points(problem, penalty, P).designs, P, penalty))
        return out

    @cached_property
    def dual_gap(self) -> Floats:
        return self._at_points(np.array([proof.gap for proof in self._proofs]), np.nan)

    @cached_property
    def unique(self) -> np.ndarray:
        return self._at_points(np.array([proof.unique for proof in self._proofs], dtype=bool), False)

    @cached_property
    def objective(self) -> Floats:
        problem, out = self._data(), np.full(self.grid.shape, np.nan)
        for place, (k, l) in enumerate(self._of_places):
            penalty = self.grid.penalty(k, l, problem)
            out[k, l] = 0.5 * penalty.kappa @ self.losses[place] + penalty.value(self.points[place].toarray())
        return out

    def to_dict(self) -> dict[str, np.ndarray]:
        names = ("objective", "dual_gap", "unique", "n_rows", "n_entries")
        columns = {**self.parameters} | {name: getattr(self, name) for name in names}
        return {name: np.asarray(values).reshape(-1) for name, values in columns.items()}

    def __getstate__(self) -> dict[str, Any]:
        if self.problem is not None:
            _ = self._intercepts, self.objective, self.dual_gap, self.unique, self.complete
        return {**self.__dict__, "problem": None}


class PointPaths:
    """Goes down every column of the grid, each solve from the one before, as far as it is asked to. A family says what
    solves a column (`solver`), and what kind of surface that makes."""

    surface: type[PointSurface]

    def __init__(
        self,
        problem: Problem,
        grid: PointGrid,
        *,
        max_iter: int = 0,
        n_jobs: int | None = None,
        tick: Callable[[float], None] = lambda part: None,
        stop: Callable[[], None] | None = None,
    ):
        self.problem, self.grid, self.max_iter, self.n_jobs = problem, grid, max_iter, n_jobs
        self.tick, self.stop = tick, stop
        self.done = np.zeros(grid.shape[1], dtype=np.intp)
        self.solvers: dict[int, Any] = {}  # by column
        self.solved: dict[tuple[int, int], tuple[csr_array, Floats, bool]] = {}
        self.new: list[tuple[int, int]] = []

    def solver(self, l: int) -> Any:
        """What solves a column of the grid."""
        raise NotImplementedError

    def advance(self, ends: Ints) -> None:
        """Solve the first ends[l] points of every column l."""

        def column(l: int) -> None:
            if l not in self.solvers:
                self.solvers[l] = self.solver(l)
            for k in range(int(self.done[l]), int(ends[l])):
                penalty = self.grid.penalty(k, l, self.problem)
                P, _ = self.solvers[l].solve(penalty, self.max_iter)
                self.solved[k, l] = csr_array(P), penalty.coefs(P), self.solvers[l].finished
                self.tick(1.0)

        behind = np.flatnonzero(ends > self.done).tolist()
        self.new = [(k, l) for l in behind for k in range(int(self.done[l]), int(ends[l]))]
        each(column, behind, self.n_jobs, self.stop)
        self.done = np.maximum(self.done, ends)

    def finish(self, points: np.ndarray) -> bool:
        """Every point is solved to its end at once."""
        return False

    def latest(self) -> Any:
        """What the last call has solved."""
        return self._surface(self.new)

    def solutions(self) -> Any:
        """All that has been solved."""
        return self._surface(sorted(self.solved))

    def _surface(self, found: list[tuple[int, int]]) -> PointSurface:
        places, solved = np.full(self.grid.shape, -1, dtype=np.intp), []
        for place, point in enumerate(found):
            places[point] = place
            W, finished = self.solved[point][1:]
            at = support(W)
            solved.append(Solved(point[0], at, W.ravel()[at], finished, np.empty(0, dtype=np.intp)))
        data = self.problem.data
        return self.surface(
            tasks=data.labels,
            features=data.features,
            solved=tuple(solved),
            problem=self.problem,
            grid=self.grid,
            places=places,
            points=tuple(self.solved[point][0] for point in found),
            finished_at=tuple(self.solved[point][2] for point in found),
        )
