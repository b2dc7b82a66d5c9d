"""What solvers of weighted lassos have in common: the bits of their status, their paths, what one may ask of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..._data.designs import Floats, Ints, support
from ..._kernels import active_set as _kernel
from ..._objective.box import Limit

ESCAPES = 256  # a bit of a status, see `LossLassos`

OVERRUN, SET_ASIDE, WEAK, MISSING, SLID = (
    _kernel.BITS[name] for name in ("OVERRUN", "SET_ASIDE", "WEAK", "MISSING", "SLID")
)


def go_on(careful: bool) -> int:
    """Bits of a status that are no reason to complete what the kernel did."""
    return 0 if careful else SLID


@dataclass(frozen=True)
class Solve:
    """The lassos of all tasks at one lam: values at flat positions (rising) of the (m, d) coefficients, status bits (m,)."""

    at: Ints
    values: Floats
    status: np.ndarray


class LassoSolver(Protocol):
    """The weighted lassos of all tasks, under squared loss (`Lassos`) or another (`LossLassos`), or with bounds
    (`BoundedLassos`)."""

    m: int
    d: int
    units: Floats
    positive: bool
    n_jobs: int | None
    status: np.ndarray

    def warm(self, W: Floats) -> None:
        """Start the next solve from W (m, d) instead of from the last solution."""

    def at(self, lam: float) -> None:
        """Have the ridge of this lam, if there is one, from the next solve on."""

    def limit(self, i: int) -> Limit:
        """How task i's coefficients are bounded."""

    def solve(self, A: Floats, reference: Floats | None = None, max_iter: int = 0) -> tuple[Floats, np.ndarray]:
        """W (m, d) for weights A (m, d), and rounds (m,). Where a task's minimiser is not unique, W is the one nearest
        `reference` (m, d), by default nearest 0."""

    def solve_into(
        self, A: Floats, aim: Floats, W: Floats, status: np.ndarray, rounds: np.ndarray, max_iter: int = 0
    ) -> None:
        """The same, W, status and rounds (m,) being written to arrays at hand."""

    def states(self) -> list[_kernel.ActiveSet]:
        """The states of the tasks, for whoever calls the kernel itself; none if it cannot solve these by itself."""

    def path(
        self,
        lams: Floats,
        weights: Floats,
        *,
        max_iter: int = 0,
        likely: Ints | None = None,
        tick: Callable[[float], None] = lambda part: None,
        stop: Callable[[], None] | None = None,
    ) -> list[Solve]:
        """Solve for lam times the weights (m, d), for one of lams (L,) after the other."""


def one_by_one(
    lassos: LassoSolver, lams: Floats, weights: Floats, max_iter: int, tick: Callable[[float], None]
) -> list[Solve]:
    """A path, solve after solve."""
    out = []
    for lam in lams.tolist():
        lassos.at(lam)
        W, _ = lassos.solve(lam * weights, max_iter=max_iter)
        at = support(W)
        out.append(Solve(at, W.ravel()[at], lassos.status))
        tick(1.0)
    return out
