"""Certificates for losses that are not squared. Nothing here is shared with the solver.

For one task, in sums over rows (see losses.py), with weights a_j in [0, inf]:

    primal  P(w, b) = sum_r v_r h(y_r, f_r) + sum_j a_j |w_j|,      f_r = o_r + x_r'w + b
    dual    D(u)    = - sum_r v_r h*(y_r, -u_r / v_r) - o'u,   |x_j'u| <= a_j, x_j'u = 0 where a_j = 0, sum u = 0 (intercept)

At the solution u = -v h'. Away from it, with C the columns that leave u no room (un-penalised ones and the like, and the
intercept's),

    u - v h'' C z,   z such that  C'u = C' v h'' C z

is what a Newton step in their coefficients makes of u: it meets the equations, and moves hardly where h' is near an end of
its range, where there is no room. Any multiple between 0 and 1 of a u that meets equations and range does so, too: the
largest that keeps |x_j'u| <= a_j is the dual point. The gap is

    P - D = sum_r v_r (h + h* + f_r u_r / v_r) + sum_j (a_j |w_j| - w_j x_j'u)

in which no term is negative, with what rounding may hide added. A ridge is dealt with as in `certificates.py`. u = 0 is a
dual point as well, with D = 0, so the gap is at most P.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.linalg import qr, solve_triangular

from ..._data.designs import Floats, Ints, rounding
from ..._data.forms.dense import DenseRows, RowTask
from ..._data.forms.ridged import apart as without_ridge
from ..box import Limit, breaks, can_fall, outward, pressed
from ..escapes import escaping
from ..loss_task import LossTask
from .certificates import AT_ZERO, GAP, ROOMS, TaskCertificate, at_bound, independence, ridge_slack, violations
from .dual_points import Doubt, dependent_below, few_digits, over_unit, size_of_inverse, vacuous

# Dual points that are tried: how many times the rounding of a gradient leaves no room (a scale near 1 costs much where h' is
# near an end of its range), and slopes, as shares of the largest, up to which a row has escaped and counts as 0.
TRIED = tuple((room, escaped) for room in ROOMS for escaped in (0.0, 1e-9))
INSIDE = (1.0, 1.0 - 1e-9, 1.0 - 1e-6, 1.0 - 1e-3, 0.5)  # what is tried of a dual point outside of the range of slopes


@dataclass(frozen=True)
class LossCertificate(TaskCertificate):
    """With whether no minimiser exists: `dependent` are then the features of a direction in which the loss always falls."""

    escapes: bool = False


@np.errstate(over="ignore", invalid="ignore")  # what leaves the range of floats is not certified
def certify_loss(design: LossTask, w: Floats, a: Floats, positive: Limit = False) -> LossCertificate:
    """Gap, optimality and uniqueness of w for one task's weighted lasso under its loss."""
    design, ridge = without_ridge(design)
    ridge = np.zeros(design.d) if ridge is None else ridge
    f = design.predictor(w)
    slope, bend = design.of_loss.slope(design.y, f), design.of_loss.curvature(design.y, f)
    if not (np.isfinite(f).all() and np.isfinite(slope).all()):  # beyond the range of floats
        return LossCertificate(float("inf"), design.null, float("inf"), False, np.flatnonzero(w), Doubt("far"))
    g = design.correlate(-slope)
    constant = design.base.centre and not w.any() and np.ptp(design.y) == 0.0 and np.ptp(design.offset) == 0.0
    # the intercept fits all there is
    gap, doubt = (0.0, None) if constant else _least_gap(design, w, a, ridge, f, slope, bend, g, positive)
    slopes, bare = (g - ridge * w)[None], ridge == 0.0
    kkt = float(violations(design, w[None], a[None], slopes, positive)[0])
    E = np.flatnonzero(at_bound(design, w[None], a[None], slopes, positive)[0] & bare)
    unique, dependent = _only(design, E, bend)
    free = (a == 0.0) & bare & (design.squares > 0) & can_fall(positive, w)
    away = escaping(design, w, free, positive)
    if away.size:
        unique, dependent = False, away
    unit = 0.0 if constant else design.null
    return LossCertificate(gap, unit, kkt, unique, dependent, doubt, bool(away.size))


def _least_gap(
    design: LossTask,
    w: Floats,
    a: Floats,
    ridge: Floats,
    f: Floats,
    slope: Floats,
    bend: Floats,
    g: Floats,
    positive: Limit,
) -> tuple[float, Doubt | None]:
    """The smallest gap that one of several dual points proves, and why it is large, if it is."""
    used = w != 0.0
    if (used & np.isinf(a)).any() or breaks(positive, w).any():
        return float("inf"), None
    if vacuous(design):
        return float("inf"), Doubt("underflow")
    best: tuple[float, Doubt | None] = (float("inf"), Doubt("far"))
    for room, escaped in TRIED:
        gone = np.abs(slope) <= escaped * np.abs(slope).max(initial=0.0)
        point = -np.where(gone, 0.0, slope), np.where(gone, 0.0, bend)
        found = _gap(design, w, a, ridge, f, *point, g, positive, room)
        best = min(best, found, key=lambda one: one[0])
        if over_unit(best[0], design.null) <= GAP:
            return best[0], None
    return best


def _gap(
    design: LossTask,
    w: Floats,
    a: Floats,
    ridge: Floats,
    f: Floats,
    s: Floats,
    bend: Floats,
    g: Floats,
    positive: Limit,
    room: float,
) -> tuple[float, Doubt | None]:
    """The gap that the dual point made of u = v s proves, and why it is not small, if it is not. Weights up to `room` times
    the rounding of a gradient leave the point no room."""
    loss, y, v, used, live = design.of_loss, design.y, design.v, w != 0.0, design.squares > 0.0
    unit, root = rounding(design), np.sqrt(design.squares)
    noise = unit * root * float(np.sqrt(v @ s**2))
    soft = ridge > 0.0
    held = (room * noise >= a) & live & ~soft
    held &= ~pressed(positive, w, g, AT_ZERO * root * np.sqrt(design.yy))
    cost = np.where(used & np.isfinite(a), a, 0.0) * np.abs(w)
    s, away = projected(design, s, f, bend, np.flatnonzero(held), noise)
    g = design.correlate(s)
    bound, most = np.isfinite(a) & ~held & ~soft & live, float(np.sqrt(bend.max(initial=0.0)))

    def gap(noise: Floats, away: float, blur: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            hidden = noise + root * most * away
            size = outward(positive, w, g) + hidden
            ratio = np.divide(a, size, out=np.full(len(a), np.inf), where=bound & (size > 0.0))
            scale, apart = min(1.0, float(ratio.min(initial=np.inf))), np.inf
            for share in INSIDE:
                apart = float(v @ loss.excess(y, f, -share * scale * s))
                if np.isfinite(apart):
                    scale *= share
                    break
            fit = np.where(bound & used, w * g - np.abs(w) * hidden, 0.0)
            slacks = np.maximum(cost - scale * fit, 0.0)
            if soft.any():
                slacks = np.where(soft, ridge_slack(w, a, ridge, scale * g, hidden, positive), slacks)
            slack = float(slacks.sum())
            primal = float(v @ loss.value(y, f)) * (1.0 + 4.0 * unit) + float((cost + 0.5 * ridge * w**2).sum())
            found = 0.5 * (np.sqrt(2.0 * apart) + scale * away + most * blur) ** 2 + slack
            return float(np.fmin(found, primal + blur * most * np.sqrt(2.0 * primal)))

    found = gap(noise, away, unit * (float(root @ np.abs(w)) + float(np.sqrt(v @ f**2))))
    found = found if found >= 0.0 else float("inf")
    if over_unit(found, design.null) <= GAP:
        return found, None
    doubt = few_digits(cast(Any, design), away * most, np.flatnonzero(held)) if held.any() else None
    exact = gap(0.0 * noise, 0.0 if np.isfinite(away) else away, 0.0)
    return found, doubt or Doubt("rounding" if exact <= 0.1 * found else "far")


def projected(design: LossTask, s: Floats, f: Floats, bend: Floats, held: Ints, noise: Floats) -> tuple[Floats, float]:
    """s (u = v s) made to meet the equations of the columns held and the intercept's, and how far at most L^-1 u is from
    doing so, L L' being the second derivatives at f (the root of v h'', where rows count by themselves)."""
    root, C = np.sqrt(design.v), design.columns(held)
    lengths = np.sqrt(design.squares[held])
    rest = noise[held] / lengths
    C = C / lengths
    if design.centred:
        C = np.column_stack([C, root / np.linalg.norm(root)])
        rest = np.append(rest, rounding(design) * float(np.linalg.norm(root * s)))
    if not rest.size:
        return s, 0.0
    bare = C / root[:, None]
    B = design.of_loss.root(bare, design.v, f, bend)
    size = np.linalg.norm(B, axis=0)
    curved = np.flatnonzero(size > 0.0)
    R = np.zeros((0, 0))
    if curved.size:
        _, R, order = qr(B[:, curved] / size[curved], mode="economic", pivoting=True)
        rank = int((np.abs(np.diag(R)) > dependent_below(curved.size)).sum())
        R, curved = R[:rank, :rank], curved[order[:rank]]
    for _ in range(3):
        inner = solve_triangular(R, (C.T @ (root * s))[curved] / size[curved], trans="T") if len(R) else np.zeros(0)
        step = solve_triangular(R, inner) / size[curved] if len(R) else inner
        s = s - design.of_loss.bent(bare[:, curved] @ step, design.v, f, bend)
        if not np.isfinite(s).all():  # beyond the range of floats
            return s, float("inf")
    left = C.T @ (root * s)
    others = np.setdiff1d(np.arange(len(rest)), curved)
    if (np.abs(left[others]) > 10.0 * rest[others]).any():  # columns that the curvature does not tell apart, but s does
        return s, float("inf")
    inner = solve_triangular(R, left[curved] / size[curved], trans="T") if len(R) else np.zeros(0)
    return s, float(
        np.linalg.norm(inner) + np.linalg.norm(rest[curved] / size[curved]) * size_of_inverse(R, lower=False)
    )


def _only(design: LossTask, E: Ints, bend: Floats) -> tuple[bool, Ints]:
    """Whether a minimiser is the only one: h is strictly convex on rows whose curvature is not 0, and the columns E at their
    bound are independent on these."""
    curved, seen = bend > 0.0, cast(Any, design)
    if curved.all():
        return independence(seen, E)
    if not curved.any() or not E.size:
        return not E.size and bool(curved.any()), E
    rows = DenseRows(design.block(E)[curved], design.v[curved], design.base.centre)
    if (rows.squares <= 0.0).any():
        return False, E[rows.squares <= 0.0]
    unique, dependent = independence(RowTask(rows, np.zeros(len(rows.u))), np.arange(len(E)))
    return unique, E[dependent]
