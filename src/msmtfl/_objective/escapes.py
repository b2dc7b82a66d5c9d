"""Where no minimiser exists: free features along which a loss that is not squared falls for ever, as classes that they
separate, or counts that they hold at 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrs
from scipy.optimize import Bounds, LinearConstraint, milp

from .._data.designs import UNIT, Floats, Ints
from .box import Box, Limit
from .loss_task import LossTask
from .proofs.dual_points import sound_factor
from .survival import RANGE

AT_ONCE = 2**22  # numbers of X looked at together
SAME = 1e-12  # of the largest number of a column: what two may differ by and be the same
STEEP = 1e-6  # curvature, as a share of the largest, below which a row has all but escaped


@dataclass(frozen=True)
class Leeway:
    """Columns C of a task's rows, along which these may escape from where they are: linear predictors f with curvatures."""

    design: LossTask
    C: Floats
    f: Floats
    bend: Floats


def at_present(design: LossTask, w: Floats) -> tuple[Floats, Floats, bool]:
    """Linear predictors and curvatures at w, and whether some rows have all but escaped there."""
    y, f = design.y, design.predictor(w)
    bend = design.of_loss.curvature(y, f)
    if design.of_loss.levelled:
        far = (design.of_loss.escapes(y) * f > 0) | (design.offset != 0.0)  # what f an offset leads to is open
        return f, bend, bool((far & (bend < STEEP * bend.max())).any())
    moved, away = design.of_loss.ways(y, f[:, None])
    return f, bend, bool((away * moved[:, 0] > -np.log(STEEP)).any())


def escaping(design: LossTask, w: Floats, free: np.ndarray, limit: Limit = False) -> Ints:
    """The un-penalised features of a direction in which the loss falls for ever, so that no minimiser exists: classes that
    these features separate, counts that they hold at 0. Found by a linear program, if rows have all but escaped at w and
    w itself does not prove that there is none."""
    columns = np.flatnonzero(free)
    f, bend, suspect = at_present(design, w)
    if not columns.size or not suspect:
        return columns[:0]
    C = design.block(columns)
    C = C / np.abs(C).max(axis=0)
    if design.centred:
        C = np.column_stack([C, np.ones(len(f))])
    low, high = np.full(C.shape[1], -np.inf), np.full(C.shape[1], np.inf)
    if isinstance(limit, Box):  # a coefficient goes no way in which it has a bound
        low[: len(columns)] = np.where(np.isfinite(limit.low[columns]), 0.0, -np.inf)
        high[: len(columns)] = np.where(np.isfinite(limit.high[columns]), 0.0, np.inf)
    z = way_out([Leeway(design, C, f, bend)], low, high)
    if z is None:
        return columns[:0]
    z = np.abs(z[: len(columns)])
    out: Ints = columns[z > 1e-9 * z.max(initial=1.0)]
    return out


def way_out(
    parts: Sequence[Leeway], low: Floats, high: Floats, rules: Sequence[LinearConstraint] = ()
) -> Floats | None:
    """A direction z between low and high, and by some rules, along which the losses of all tasks together fall for ever,
    none of them rising; None if there is none. Tasks have the columns of z in common."""
    if _held_back(parts):
        return None
    # max sum |t_r| for t = T z, t_r between 0 and away_r
    ways = [part.design.of_loss.ways(part.design.y, part.C) for part in parts]
    T, away = np.concatenate([T for T, _ in ways]), np.concatenate([away for _, away in ways])
    limits = LinearConstraint(T, np.minimum(away, 0.0), np.maximum(away, 0.0))
    found: Any = milp(-(away @ T), constraints=[limits, *rules], bounds=Bounds(low, high))
    return found.x if found.success and found.fun <= -1e-6 else None


def may_have_escaped(design: LossTask, W: Floats) -> np.ndarray:
    """(solutions,) bool: whether coefficients W (solutions, d) are large enough for `all_escaped`, whatever the level is."""
    away, live, out = design.of_loss.escapes(design.y), design.v > 0.0, np.zeros(len(W), dtype=bool)
    if not live.any() or not away.all():
        return out
    size, far = np.abs(W), -np.log(STEEP)
    out = np.asarray(size @ np.sqrt(design.squares / design.v[live].min()) > far)
    if out.any() and away.min() < 0.0 < away.max():  # rows themselves say more than norms
        some = np.flatnonzero(out)
        used = np.flatnonzero(size[some].any(axis=0))
        f = design.block(used) @ W[np.ix_(some, used)].T + design.offset[:, None]
        out[some] = f[away > 0.0].min(axis=0) - f[away < 0.0].max(axis=0) > far
    return out


def all_escaped(design: LossTask, w: Floats) -> bool:
    """Whether all rows of a task have all but escaped at w: its loss has all but gone, and the slopes that say how large its
    coefficients are have lost most of their digits."""
    if not design.of_loss.escapes(design.y).all():
        return False
    slope = design.of_loss.slope(design.y, design.predictor(w))
    return float(np.abs(slope).max()) < STEEP * float(np.sqrt(design.yy / design.v.sum()))


def _held_back(parts: Sequence[Leeway]) -> bool:
    """Whether it is certain that rows cannot escape along the columns C: no t = C z has away_r t_r >= 0 in all rows that can
    escape and t_r = 0 in the others, but t = 0.

    That is so if C'p = 0 for some p with away_r p_r > 0 in all rows that can escape. u = -v h' has these signs, and
    what a Newton step z makes of it, p = u - v h'' C z, meets the equations; its signs are the same where |v h'' C z| < |u|:
    h'' <= |h'| in rows that can escape, so that it is enough if the step moves their f by less than 1. (Where rows do
    escape, every step moves them by about 1.) Only half of that is accepted, with what rounding may hide added. Of a loss
    whose rows act together the same holds of what holds them back; `yields` says how it changes with f."""
    slopes = [part.design.of_loss.slope(part.design.y, part.f) for part in parts]
    us = [-part.design.v * slope for part, slope in zip(parts, slopes, strict=True)]
    yields = [
        part.design.of_loss.yields(part.design.y, slope, part.bend) for part, slope in zip(parts, slopes, strict=True)
    ]
    # second derivatives further apart are not those at f
    known = all(part.design.of_loss.levelled or np.ptp(part.f) <= RANGE for part in parts)
    if not known or not all(np.isfinite(one).all() for one in yields):
        return False
    roots = [part.design.of_loss.root(part.C, part.design.v, part.f, part.bend) for part in parts]
    size = np.linalg.norm([np.linalg.norm(B, axis=0) for B in roots], axis=0)
    if not (np.isfinite(size) & (size > np.sqrt(np.finfo(float).tiny))).all():
        return False
    roots = [B / size for B in roots]
    found = sound_factor(np.sum([B.T @ B for B in roots], axis=0))
    if found is None:
        return False
    factor, inverse = found
    Cs = [part.C / size for part in parts]
    z = dpotrs(factor, np.sum([C.T @ u for C, u in zip(Cs, us, strict=True)], axis=0), lower=1)[0]
    hidden = [len(u) * UNIT * (np.abs(C).T @ np.abs(u)) for C, u in zip(Cs, us, strict=True)]
    noise = float(np.linalg.norm(np.sum(hidden, axis=0))) * inverse
    for C, yields_of in zip(Cs, yields, strict=True):
        rows = yields_of != 0.0
        spread = np.linalg.norm(solve_triangular(factor, C[rows].T, lower=True), axis=0)
        moved = (np.abs(C[rows] @ z) + noise * spread) * yields_of[rows]
        if not moved.max(initial=0.0) < 0.5:
            return False
    return True


def escaping_alone(design: LossTask) -> np.ndarray:
    """(d,) bool: features that need no other to leave no minimiser where they are free: for some c, which is 0 without an
    intercept, their values are on one side of c in rows that escape upwards, on the other in those that escape
    downwards, and c itself in all others."""
    away, out = design.of_loss.escapes(design.y), np.zeros(design.d, dtype=bool)
    groups = [away == sign for sign in (-1.0, 0.0, 1.0)]
    if groups[1].all():
        return out
    width = max(1, AT_ONCE // len(away))
    if not design.of_loss.levelled:
        return _monotone(design, width)
    for low in range(0, design.d, width):
        some = np.arange(low, min(low + width, design.d))
        C = design.block(some)
        slack = SAME * np.abs(C).max(axis=0)
        least = [C[rows].min(axis=0, initial=np.inf) for rows in groups]
        most = [C[rows].max(axis=0, initial=-np.inf) for rows in groups]
        for below, above in ((0, 2), (2, 0)):
            # c is at least the first of these, at most the second
            lowest, highest = np.maximum(most[below], most[1]), np.minimum(least[above], least[1])
            if not design.base.centre:
                lowest, highest = np.maximum(lowest, 0.0), np.minimum(highest, 0.0)
            out[some] |= lowest <= highest + slack
    return out & (design.squares > 0.0)


def _monotone(design: LossTask, width: int) -> np.ndarray:
    """(d,) bool: `escaping_alone` of a loss that does not tell levels apart."""
    out = np.zeros(design.d, dtype=bool)
    for low in range(0, design.d, width):
        some = np.arange(low, min(low + width, design.d))
        C = design.block(some)
        T, away = design.of_loss.ways(design.y, C)
        slack, free = SAME * np.abs(C).max(axis=0), away != 0.0
        equal = (np.abs(T[~free]) <= slack).all(axis=0)
        out[some] = equal & ((T[free] >= -slack).all(axis=0) | (T[free] <= slack).all(axis=0))
    return out & (design.squares > 0.0)
