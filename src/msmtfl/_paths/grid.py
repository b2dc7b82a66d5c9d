"""The points of a grid of lam, theta and the penalty on entries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from .._data.designs import Floats, Ints
from .._objective.shapes import CAPPED, Shape, read_shape


class OfSetting(Protocol):
    """A fitted model with a lam; it may have a theta, and the same of entries."""

    lam_: float


@dataclass(frozen=True)
class Grid:
    """The points of a surface: lams (K,) in any order, thetas (K, L), inf allowed.

    Column l gives the share `shares[l]` of lam to the entries, which are capped at theta_entries (K, L); its rows have the
    rest, lam (1 - shares[l]). Stage 1 is the same for all columns.
    """

    lams: Floats
    thetas: Floats
    shares: Floats
    theta_entries: Floats
    concave: Shape = CAPPED

    @cached_property
    def shape(self) -> tuple[int, int]:
        return self.thetas.shape[0], self.thetas.shape[1]

    @property
    def strength(self) -> Floats:
        """(K, L): lam"""
        return np.broadcast_to(self.lams[:, None], self.shape)

    @property
    def block(self) -> int:
        """Points of a column that a search solves between two looks at held-out errors: they take little time."""
        return 3

    @property
    def leader(self) -> Ints:
        """(L,): the lasso, if it is among the columns; otherwise each goes by its own errors (see
        `early_stopping.Front`)."""
        lasso = np.flatnonzero(self.lasso.all(axis=0))
        return np.full(self.shape[1], lasso[0]) if lasso.size else np.arange(self.shape[1])

    @property
    def convex(self) -> np.ndarray:
        """(L,) bool: columns of lassos (see `early_stopping.Front`)."""
        return np.asarray(self.lasso.all(axis=0))

    @property
    def steps(self) -> int:
        """How many steps of a progress bar a walk over it is."""
        return len(self.lams)

    @property
    def lasso(self) -> np.ndarray:
        """(K, L) bool: where nothing is ever eased, so that stage 1 is all there is."""
        of_rows = np.isinf(self.thetas) | (self.shares == 1.0)
        out: np.ndarray = of_rows & (np.isinf(self.theta_entries) | (self.shares == 0.0))
        return out

    def tours(self) -> list[list[int]]:
        """For every lam, the columns in an order in which neighbours are alike."""
        shares = np.broadcast_to(self.shares, self.shape)
        out: list[list[int]] = np.lexsort((-self.theta_entries, -self.thetas, shares), axis=-1).tolist()
        return out


def point_of(model: OfSetting) -> Grid:
    """The one point of a fitted model's setting."""
    lam, entry = float(model.lam_), float(getattr(model, "lam_entry_", 0.0))
    theta, theta_entry = (float(getattr(model, name, np.inf)) for name in ("theta_", "theta_entry_"))
    share, shape = np.array([entry / (lam + entry)]), read_shape(getattr(model, "penalty", "capped"))
    return Grid(np.array([lam + entry]), np.array([[theta]]), share, np.array([[theta_entry]]), shape)
