"""What is to be gained by moving coefficients that all given tasks share and nothing penalises.

The slopes of nearly dependent columns are small however much their difference explains. What the best move gains is known
from a factor of the columns: with g the products of columns and residuals and R'R those of the columns, |R^-T g|^2 / 2. It
is taken from products where these show that columns are independent, else from the rows; directions in which columns agree
in all of their digits gain nothing. That is for squared loss. Under other losses no such sum is a bound: there nothing is
certain (an infinite gain) where columns are nearly dependent. Nothing here is shared with the solvers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.linalg import cholesky
from scipy.linalg import qr, solve_triangular

from .._data.designs import Floats, Ints
from .certificates import full_rank
from .dual_points import dependent_below, size_of_inverse
from .pressed import unpressed
from .task_duals import of_losses

NEARLY = (
    1e-7  # pivots of unit-length columns below which slopes hide, under other losses, what a gap of 1e-8 would show
)


class SharedMoves:
    """Moves of some features in all tasks at once, for losses times `scale` (m,).

    Where statistics are all there is, and do not tell columns apart, slopes may hide any gain.
    """

    def __init__(self, designs: Sequence[Any], scale: Floats, features: Ints):
        designs = [unpressed(design) for design in designs]  # forces are in the slopes
        squares = np.sum([s * design.squares[features] for s, design in zip(scale, designs, strict=True)], axis=0)
        self.features = features[squares > 0.0]
        self.size = np.sqrt(squares[squares > 0.0])
        self.factor: Floats | None = None  # R, of some of the features
        self.independent = False  # whether products show that all features are
        self.hides = False  # whether slopes may hide any gain
        if self.features.size and of_losses(designs):
            self.hides = self._nearly_dependent(designs, scale)
        elif self.features.size:
            self._find(designs, scale)

    def _find(self, designs: Sequence[Any], scale: Floats) -> None:
        E, unit = self.features, np.outer(self.size, self.size)
        products = sum(s * np.asarray(design.gram_block(E, E)) for s, design in zip(scale, designs, strict=True)) / unit
        self.independent = full_rank(products)
        if self.independent:
            self.factor = cholesky(products).T
            return
        columns = [design.columns(E) for design in designs]
        if any(X is None or getattr(design, "spread", None) for X, design in zip(columns, designs, strict=True)):
            self.hides = (
                True  # sums, and rows made of them, do not tell columns that are alike from those that nearly are
            )
            return
        R, order = self._factor(columns, scale)
        rank = int((np.abs(np.diag(R)) > dependent_below(E.size)).sum())
        if rank:
            self.features, self.size, self.factor = E[order[:rank]], self.size[order[:rank]], R[:rank, :rank]

    def _factor(self, columns: Sequence[Floats], scale: Floats) -> tuple[Floats, Ints]:
        """R of the columns of all tasks, of unit length together, and the order in which they were taken."""
        parts = [np.linalg.qr(np.sqrt(s) * X / self.size, mode="r") for s, X in zip(scale, columns, strict=True)]
        R, order = qr(np.vstack(parts), mode="r", pivoting=True)
        return R, order

    def _nearly_dependent(self, designs: Sequence[Any], scale: Floats) -> bool:
        columns = [design.columns(self.features) for design in designs]
        if self.features.size == 1 or any(X is None for X in columns):
            return False
        pivots = np.abs(np.diag(self._factor(columns, scale)[0]))
        return bool(((pivots > dependent_below(self.features.size)) & (pivots < NEARLY)).any())

    def gain(self, slopes: Floats, noise: Floats) -> float:
        """At most of half the loss, for slopes (d,) and what rounding may hide of them (d,)."""
        if self.factor is None:
            return np.inf if self.hides else 0.0
        inner = solve_triangular(self.factor, slopes[self.features] / self.size, trans="T")
        hidden = np.linalg.norm(noise[self.features] / self.size)
        blur = float(hidden) * size_of_inverse(self.factor, lower=False) if hidden > 0.0 else 0.0
        return 0.5 * (float(np.linalg.norm(inner)) + blur) ** 2
