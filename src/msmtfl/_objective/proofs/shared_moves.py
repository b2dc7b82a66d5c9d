"""What is to be gained by moving coefficients that nothing penalises, whatever those do that something penalises.

The slopes of nearly dependent columns are small however much their difference explains. With squared loss, g the slopes of
the open coordinates (those that nothing penalises) and R'R the products of their columns, moving these alone gains at most
|R^-T g|^2 / 2. But others may move with them and undo what they do to the fit: a common value rises, and the deviations of
all tasks fall. Two things are in the way.

A ridge. With half of it set aside for their own slopes (so that these gain at most h^2 / r in place of h^2 / 2r), the other
half is left: for the moves x of a task's fit by open coordinates and z of those with ridges r,

    |x + Xz|^2 + r/2 |z|^2  >=  |x|^2 / (1 + 2t),     t = sum_j |x_j|^2 / r_j

so that R is taken from columns of task i divided by the root of 1 + 2 t_i. A coordinate that tasks share gives each of them
the share of its ridge that the task has in its squares.

A norm. A better point has a penalty of at most the whole objective F, so that no such move changes the fit of the tasks by
more than some B; then the gain is at most  |R^-T g|^2 / 2 + B |R^-T g|.

R is taken from products where these show that columns are independent, else from the rows; directions in which columns agree
in all of their digits gain nothing. Under other losses no such sum is a bound: there nothing is certain (an infinite gain)
where columns are nearly dependent. Nothing here is shared with the solvers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.linalg import cholesky
from scipy.linalg import qr, solve_triangular

from ..._data.designs import Floats, Ints
from .certificates import full_rank
from .dual_points import dependent_below, size_of_inverse
from .pressed import unpressed
from .task_duals import of_losses

NEARLY = (
    1e-7  # pivots of unit-length columns below which slopes hide, under other losses, what a gap of 1e-8 would show
)
MANY = 2**24  # numbers in the columns of all tasks that are looked at


class OpenMoves:
    """Moves of entries of blocks of coefficients that nothing penalises, open (blocks, d) bool, for losses times `scale`
    (m,). `belongs` (m, blocks) bool says which blocks add up to a task's coefficients; `ridge` (blocks, d) has the ridges,
    in the same sums.

    Where statistics are all there is, and do not tell columns apart, slopes may hide any gain.
    """

    def __init__(self, designs: Sequence[Any], scale: Floats, open_: np.ndarray, belongs: np.ndarray, ridge: Floats):
        designs = [unpressed(design) for design in designs]  # forces are in the slopes
        squares = scale[:, None] * np.array([design.squares for design in designs])
        total = belongs.T.astype(np.float64) @ squares
        self.squares, self.belongs = squares, belongs
        self.block, self.feature = np.nonzero(open_ & (total > 0.0))
        self.size = np.sqrt(total[self.block, self.feature])
        self.factor: Floats | None = None  # R, of some of the entries
        self.kept = np.arange(self.size.size)
        self.independent = False  # whether products show that all of them are
        self.hides = False  # whether slopes may hide any gain
        self.bends = not of_losses(designs)  # whether the loss gives moves a curvature that is known
        if not self.any:
            return
        if not self.bends:
            self.hides = self._nearly_dependent(designs, scale)
            return
        moving = (ridge > 0.0) & np.isfinite(ridge)
        per_ridge = np.divide(total, ridge, out=np.zeros_like(total), where=moving).sum(axis=1)
        scale = scale / (1.0 + 2.0 * (belongs @ per_ridge))
        size = np.sqrt(self._total(scale, designs))
        if (size > 0.0).all() and np.isfinite(size).all():
            self.size = size
            self._find(designs, scale)
        else:
            self.hides = True

    @property
    def any(self) -> bool:
        return bool(self.size.size)

    @property
    def set_aside(self) -> float:
        """How many times what ridges say of their own slopes is counted."""
        return 2.0 if self.any and self.bends else 1.0

    def _total(self, scale: Floats, designs: Sequence[Any]) -> Floats:
        squares = scale[:, None] * np.array([design.squares for design in designs])
        return np.asarray((self.belongs.T.astype(np.float64) @ squares)[self.block, self.feature])

    def _of_task(self, i: int) -> Ints:
        """The entries that move a task's coefficients."""
        return np.flatnonzero(self.belongs[i, self.block])

    def _find(self, designs: Sequence[Any], scale: Floats) -> None:
        products: Any = np.zeros((self.size.size, self.size.size))
        for i, design in enumerate(designs):
            at = self._of_task(i)
            if at.size:
                E, place = np.unique(self.feature[at], return_inverse=True)
                block = scale[i] * np.asarray(design.gram_block(E, E))
                if at.size == self.size.size and np.array_equal(place, at):  # the same entries in all tasks
                    products += block
                else:
                    products[np.ix_(at, at)] += block[np.ix_(place, place)]
        products /= np.outer(self.size, self.size)
        self.independent = full_rank(products)
        if self.independent:
            self.factor = np.asarray(cholesky(products).T, dtype=np.float64)
            return
        columns = self._columns(designs, scale)
        if columns is None or any(getattr(design, "spread", None) for design in designs):
            self.hides = (
                True  # sums, and rows made of them, do not tell columns that are alike from those that nearly are
            )
            return
        R: Any
        R, order = qr(columns, mode="r", pivoting=True)
        rank = int((np.abs(np.diag(R)) > dependent_below(self.size.size)).sum())
        if rank:
            self.kept, self.factor = order[:rank], R[:rank, :rank]

    def _columns(self, designs: Sequence[Any], scale: Floats) -> Floats | None:
        """Those of all tasks below each other, of unit length; None if they are not at hand, or too many."""
        parts: list[Floats] = []
        for i, design in enumerate(designs):
            at = self._of_task(i)
            E, place = np.unique(self.feature[at], return_inverse=True)
            X = design.columns(E) if at.size else np.zeros((0, 0))
            if X is None or len(X) * self.size.size > MANY:
                return None
            part = np.zeros((len(X), self.size.size))
            part[:, at] = np.sqrt(scale[i]) * X[:, place] / self.size[at]
            parts.append(np.asarray(np.linalg.qr(part, mode="r")))
        return np.vstack(parts)

    def _nearly_dependent(self, designs: Sequence[Any], scale: Floats) -> bool:
        if self.size.size == 1:
            return False
        columns = self._columns(designs, scale)
        if columns is None:
            return False
        pivots = np.abs(np.diag(qr(columns, mode="r", pivoting=True)[0]))
        return bool(((pivots > dependent_below(self.size.size)) & (pivots < NEARLY)).any())

    def moved(self, most: Floats) -> float:
        """How much at most entries that move by up to `most` (blocks, d) change the fit of all tasks."""
        parts = np.sqrt(self.squares) * (self.belongs.astype(np.float64) @ np.where(np.isfinite(most), most, 0.0))
        return float(np.linalg.norm(parts.sum(axis=1))) if np.isfinite(most).all() else float("inf")

    def gain(self, slopes: Floats, noise: Floats, moved: float = 0.0) -> float:
        """At most of half the loss, for slopes (blocks, d) and what rounding may hide of them, where other moves change the
        fit by up to `moved`."""
        if self.factor is None:
            return np.inf if self.hides else 0.0
        at = self.block[self.kept], self.feature[self.kept]
        size = self.size[self.kept]
        inner = solve_triangular(self.factor, slopes[at] / size, trans="T")
        hidden = np.linalg.norm(noise[at] / size)
        blur = float(hidden) * size_of_inverse(self.factor, lower=False) if hidden > 0.0 else 0.0
        slope = float(np.linalg.norm(inner)) + blur
        return 0.5 * slope**2 + (moved * slope if slope > 0.0 else 0.0)
