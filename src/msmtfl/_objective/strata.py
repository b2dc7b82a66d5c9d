"""Cox's partial likelihood of samples in strata, each with a baseline hazard of its own: the sum of theirs.

Tasks are strata already, each a loss by itself. This is for one model of all tasks, whose samples lie one below the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._data.designs import Floats, Ints
from .survival import Cox, CoxTask


class CoxStrata(Cox):
    """Samples with these strata, (n,) numbers."""

    def __init__(self, ties: str, codes: Ints):
        super().__init__(ties)
        self.codes = codes

    def of_task(self, y: Floats, v: Floats) -> Any:
        return OfStrata(self.ties, self.codes, y, v)


class OfStrata(CoxStrata):
    """The loss of the samples with these targets and weights."""

    def __init__(self, ties: str, codes: Ints, y: Floats, v: Floats):
        super().__init__(ties, codes)
        order = np.argsort(codes, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
        self.parts = [(rows, CoxTask(ties, y[rows], v[rows])) for rows in parts]

    def _by_row(self, f: Floats, make: Callable[[Ints, CoxTask, Floats], Floats]) -> Floats:
        out = np.empty(f.shape)
        for rows, loss in self.parts:
            out[rows] = make(rows, loss, f[rows])
        return out

    def value(self, y: Floats, f: Floats) -> Floats:
        return self._by_row(f, lambda rows, loss, f: loss.value(y[rows], f))

    def slope(self, y: Floats, f: Floats) -> Floats:
        return self._by_row(f, lambda rows, loss, f: loss.slope(y[rows], f))

    def curvature(self, y: Floats, f: Floats) -> Floats:
        return self._by_row(f, lambda rows, loss, f: loss.curvature(y[rows], f))

    def excess(self, y: Floats, f: Floats, s: Floats) -> Floats:
        return self._by_row(f, lambda rows, loss, f: loss.excess(y[rows], f, s[rows]))

    def bent(self, x: Floats, v: Floats, f: Floats, bend: Floats) -> Floats:
        return self._by_row(f, lambda rows, loss, f: loss.bent(x[rows], v[rows], f, bend[rows]))

    def yields(self, y: Floats, slope: Floats, bend: Floats) -> Floats:
        return self._by_row(bend, lambda rows, loss, b: loss.yields(y[rows], slope[rows], b))

    # Rows of these are in the order of strata.

    def root(self, C: Floats, v: Floats, f: Floats, bend: Floats) -> Floats:
        return np.concatenate([loss.root(C[rows], v[rows], f[rows], bend[rows]) for rows, loss in self.parts])

    def target(self, v: Floats, f: Floats, slope: Floats, bend: Floats) -> Floats:
        return np.concatenate([loss.target(v[rows], f[rows], slope[rows], bend[rows]) for rows, loss in self.parts])

    def ways(self, y: Floats, C: Floats) -> tuple[Floats, Floats]:
        found = [loss.ways(y[rows], C[rows]) for rows, loss in self.parts]
        return np.concatenate([T for T, _ in found]), np.concatenate([away for _, away in found])
