"""Dual points of squared loss: residuals made orthogonal to some columns, and what rounding may hide of all that.

A dual point must be orthogonal to every column that leaves it no room. It is so to rounding only, and the more nearly
dependent these columns are, the farther it may be from a point that is: `DualPoints.away` says how far, and enters every
gap. Nothing here is shared with the solvers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.linalg import LinAlgError, cholesky
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dpotrs, dtrtri

from ..._data.designs import UNIT, Design, Floats, Ints, Smooth, rounding

WELL = 1e-4  # unit-length columns with all pivots (Cholesky) above this are far from dependent
MODERATE = 20.0  # times the target's length: terms of a fit up to which rounding hides nothing of it
ENOUGH = 6  # digits of a fit from which rounding is not what spoils a gap

Memo: TypeAlias = dict[tuple[str, bytes], Any]  # what is known of sets of columns: by what it is, and their places


@dataclass(frozen=True)
class Doubt:
    """Why a gap is not known to be small.

    `kind` is "underflow" (the loss at W = 0 is below what floats can hold), "dependent" (un-penalised `features` are so
    nearly dependent that only some `digits` of their fit are known, from `statistics` or from rows), "rounding" (sums of
    numbers much larger than their result), "endless" (there is no minimiser: along `features` the loss falls for ever) or
    "far" (the solution is not optimal). `task` counts tasks.
    """

    kind: str
    features: Ints = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    digits: int = 0
    statistics: bool = False
    task: int = 0


def over_unit(gap: float, unit: float) -> float:
    """A gap as a share of the loss at W = 0. Infinite where one of them is no finite number >= 0, or there is nothing to
    compare with (but 0 where both are 0: all targets are). Nothing else is called a relative gap."""
    if not 0.0 <= gap < np.inf or not 0.0 <= unit < np.inf:
        return float("inf")
    if unit == 0.0:
        return 0.0 if gap == 0.0 else float("inf")
    return float(gap / unit)


def vacuous(design: Smooth) -> bool:
    """Whether the squares of the targets underflow, so that there is no loss to speak of."""
    target = design.target
    return bool(design.yy == 0.0 and (design.c.any() or (target is not None and target.any())))


@dataclass(frozen=True)
class Residuals:
    """Residuals r = y - Xw of several w: |r|^2 (solutions,), X'r (solutions, d), and what rounding leaves open: of r by its
    length (solutions,), and of products of columns with r, or with what is made of it, (solutions, d). `unknown` is the root
    of what it leaves open of |r|^2 where that is a sum of statistics. `rows` are the residuals themselves, if there are
    rows, `W` the coefficients."""

    losses: Floats
    gradients: Floats
    blur: Floats
    noise: Floats
    unknown: Floats
    rows: Floats | None
    W: Floats

    def exact(self) -> Residuals:
        """As if there were no rounding."""
        zeros = {name: np.zeros_like(getattr(self, name)) for name in ("blur", "noise", "unknown")}
        return replace(self, **zeros)


def look(design: Design, W: Floats) -> Residuals:
    """The residuals of the rows of W (solutions, d)."""
    unit, root, of_y = rounding(design), np.sqrt(design.squares), float(np.sqrt(design.yy))
    with np.errstate(over="ignore", invalid="ignore"):
        terms = of_y + np.abs(W) @ root
        R = None if design.target is None else design.residuals(W)
        if R is None:  # sums are all there is, and have errors of their own
            losses = np.array([design.loss(w) for w in W]) + unit * terms**2
            gradients = np.array([design.gradient(w) for w in W])
            noise = unit * np.multiply.outer(terms, root)
            return Residuals(losses, gradients, unit * terms, noise, np.sqrt(unit) * terms, None, W)
        losses, unknown = np.einsum("sr,sr->s", R, R), np.zeros(len(W))
        noise = unit * np.multiply.outer(np.sqrt(losses), root)
        spread = getattr(design, "spread", None)
        if spread is not None:  # rows that were made of statistics have the errors of these
            length, of_target, unclear = spread
            sums = of_target + np.abs(W) @ length
            losses, unknown = losses + unit * sums**2, np.sqrt(unit) * sums
            noise += unit * np.multiply.outer(sums, length) + unclear
        return Residuals(losses, design.correlate(R.T).T, unit * terms, noise, unknown, R, W)


@dataclass(frozen=True)
class DualPoints:
    """Dual points p, not yet scaled, of residuals r: |r - p|^2 (solutions,), |p|^2, X'p (solutions, d), and how far at most
    p is from one that is orthogonal to the columns held (solutions,)."""

    moved: Floats
    squares: Floats
    gradients: Floats
    away: Floats

    def exact(self) -> DualPoints:
        """As if there were no rounding."""
        return replace(self, away=np.where(np.isfinite(self.away), 0.0, self.away))


def dual_points(design: Design, seen: Residuals, held: np.ndarray, memo: Memo) -> DualPoints:
    """Residuals made orthogonal to the columns held, (solutions, d) bool; a `memo` keeps factors."""
    moved, away = np.zeros(len(held)), np.zeros(len(held))
    squares, gradients = seen.losses, seen.gradients
    some = np.flatnonzero(held.any(axis=1))
    if some.size == 0:
        return DualPoints(moved, squares, gradients, away)
    squares, gradients = squares.copy(), gradients.copy()
    if seen.rows is None:
        for s in some:
            parts = _point_from_sums(design, seen.W[s], np.flatnonzero(held[s]), seen.noise[s])
            moved[s], squares[s], gradients[s], away[s] = parts
        return DualPoints(moved, squares, gradients, away)
    P = seen.rows[some].copy()
    for k, s in enumerate(some):
        columns = np.flatnonzero(held[s])
        P[k], away[s], inverse, rank = _projected(design, seen.rows[s], columns, seen.noise[s], memo)
        moved[s] = float(np.sum((seen.rows[s] - P[k]) ** 2))
        away[s] += _away_by_statistics(design, seen.W[s], columns, rank, inverse, float(np.sqrt(moved[s])))
    squares[some], gradients[some] = np.einsum("sr,sr->s", P, P), design.correlate(P.T).T
    return DualPoints(moved, squares, gradients, away)


def _away_by_statistics(design: Design, w: Floats, columns: Ints, rank: int, inverse: float, moved: float) -> float:
    """How much farther a dual point may be from orthogonal where rows were made of statistics: these have the rounding of
    the step that was made along the columns held. What they cannot tell from dependent columns counts as such where products
    with the target say the same, and coefficients are not so large that rounding would hide it."""
    spread: tuple[Floats, float, Floats] | None = getattr(design, "spread", None)
    if spread is None:
        return 0.0
    length, of_target, unclear = spread
    beyond = float(np.abs(w[columns]) @ length[columns]) > MODERATE * of_target
    if rank < columns.size and (beyond or (unclear[columns] > 0.0).any()):
        return float("inf")
    return rounding(design) * inverse**2 * moved


def dependent_below(k: int) -> float:
    """Pivots (QR) of k unit-length columns up to this are what rounding leaves of dependent ones: the columns agree in all
    of their digits."""
    return UNIT * (8.0 + 4.0 * k)


def _projected(design: Design, r: Floats, columns: Ints, noise: Floats, memo: Memo) -> tuple[Floats, float, float, int]:
    """The residual made orthogonal to some columns; how far at most it is from a vector that is, given the noise (d,) of
    products; the size of the inverse of the columns' factor, and their rank.

    By a Cholesky factor of their correlations, applied until nothing is left to take away; by pivoted QR where they are
    nearly dependent. The factor is kept, the columns are not.
    """
    X = design.columns(columns)
    assert X is not None
    length = np.sqrt(design.squares[columns])
    X = X / length
    key = ("factor", columns.tobytes())
    if key not in memo:
        memo[key] = sound_factor(X.T @ X) if columns.size <= design.order else None
    rest = noise[columns] / length
    if memo[key] is not None:
        factor, inverse = memo[key]
        for _ in range(3):
            r = r - X @ dpotrs(factor, X.T @ r, lower=1)[0]
        left = solve_triangular(factor, X.T @ r, lower=True)
        return r, float(np.linalg.norm(left) + np.linalg.norm(rest) * inverse), inverse, columns.size
    Q, R, order = qr(X, mode="economic", pivoting=True)
    rank = int((np.abs(np.diag(R)) > dependent_below(columns.size)).sum())
    Q, R = Q[:, :rank], R[:rank, :rank]
    for _ in range(2):
        r = r - Q @ (Q.T @ r)
    left = solve_triangular(R, (X.T @ r)[order[:rank]], trans="T") if rank else np.zeros(0)
    inverse = size_of_inverse(R, lower=False)
    return r, float(np.linalg.norm(left) + np.linalg.norm(rest) * inverse), inverse, rank


def sound_factor(G: Floats) -> tuple[Floats, float] | None:
    """The Cholesky factor of a matrix of correlations and the size of its inverse; None where it is not to be trusted."""
    try:
        factor = np.asarray(cholesky(G), dtype=np.float64)
    except LinAlgError:
        return None
    return (factor, size_of_inverse(factor, lower=True)) if np.diag(factor).min() >= WELL else None


def size_of_inverse(factor: np.ndarray, lower: bool) -> float:
    return float(np.linalg.norm(dtrtri(factor, lower=int(lower))[0])) if len(factor) else 0.0


def _point_from_sums(design: Design, w: Floats, columns: Ints, noise: Floats) -> tuple[float, float, Floats, float]:
    """The dual point where only sums are at hand: y - Xv for the v that minimises over the columns held. Returns |r - p|^2,
    |p|^2, X'p, and how far p may be from orthogonal: any distance, if the columns are nearly dependent."""
    length = np.sqrt(design.squares[columns])
    gradient = design.gradient(w)
    G = design.gram_rows(columns)[:, columns] / np.outer(length, length)
    found = sound_factor(G) if columns.size <= design.order else None
    if found is None:
        return 0.0, design.loss(w), gradient, float("inf")
    factor, inverse = found
    v, step = w.copy(), np.zeros(len(columns))
    for _ in range(2):  # the second time for what rounding left
        step = step + dpotrs(factor, gradient[columns] / length, lower=1)[0]
        v[columns] = w[columns] + step / length
        gradient = design.gradient(v)
    left = solve_triangular(factor, gradient[columns] / length, lower=True)
    away = float(np.linalg.norm(left) + np.linalg.norm(noise[columns] / length) * inverse)
    return float(step @ G @ step), design.loss(v), gradient, away


def few_digits(design: Design, away: float, held: Ints) -> Doubt | None:
    """The doubt that is due to columns held being nearly dependent, if it is."""
    share = away / float(np.sqrt(design.yy)) if design.yy > 0.0 else 0.0
    digits = int(max(0.0, np.floor(-np.log10(share)))) if 0.0 < share < 1.0 else 0
    if share == 0.0 or digits >= ENOUGH:
        return None
    length = np.sqrt(design.squares[held])
    X = design.columns(held)
    if X is None:
        weak = np.linalg.eigh(design.gram_rows(held)[:, held] / np.outer(length, length))[1][:, 0]
    else:
        weak = np.linalg.svd(np.linalg.qr(X / length, mode="r"))[2][-1]
    part = np.abs(weak) >= 0.1 * np.abs(weak).max()
    return Doubt("dependent", held[part], digits, X is None or getattr(design, "spread", None) is not None)
