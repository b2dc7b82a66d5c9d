"""Certificates for losses that are not squared. Nothing here is shared with the solver.

For one task, in sums over rows (see losses.py), with weights a_j in [0, inf]:

    primal  P(w, b) = sum_r v_r h(y_r, x_r'w + b) + sum_j a_j |w_j|
    dual    D(u)    = - sum_r v_r h*(y_r, -u_r / v_r)    for |x_j'u| <= a_j, x_j'u = 0 where a_j = 0, sum u = 0 (intercept)

At the solution u = -v h'. Away from it, with C the un-penalised columns and the intercept's,

    u - v h'' C z,   z such that  C'u = C' v h'' C z

is what a Newton step in the un-penalised coefficients makes of u: it meets the equations, and moves hardly where h' is near
an end of its range, where there is no room. Any multiple between 0 and 1 of a u that meets equations and range does so,
too: the largest that keeps |x_j'u| <= a_j is the dual point. u = 0 is one as well, with D = 0, so the gap is at most P.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.optimize import linprog

from .certificates import EPS, TaskCertificate, at_bound, independence, violations
from .designs import DenseRows, Floats, Ints, RowTask
from .losses import LossTask

STEEP = 1e-6  # curvature, as a share of the largest, below which a row has all but escaped


@dataclass(frozen=True)
class LossCertificate(TaskCertificate):
    """With whether no minimiser exists: `dependent` are then the features of a direction in which the loss always falls."""

    escapes: bool = False


def certify_loss(design: LossTask, w: Floats, a: Floats, positive: bool = False) -> LossCertificate:
    """Gap, optimality and uniqueness of w for one task's weighted lasso under its loss."""
    seen: Any = design  # a Design, as far as anyone looks here
    f = design.predictor(w)
    slope, bend = design.of_loss.slope(design.y, f), design.of_loss.curvature(design.y, f)
    g = design.correlate(-slope)
    free = (a == 0.0) & (design.squares > 0) & ((w > 0) | (not positive))
    gap = _gap(design, w, a, f, slope, bend, free, positive)
    kkt = float(violations(seen, w[None], a[None], g[None], positive)[0])
    E = np.flatnonzero(at_bound(seen, w[None], a[None], g[None], positive)[0])
    unique, dependent = _only(design, E, bend)
    away = escaping(design, w, free)
    if away.size:
        unique, dependent = False, away
    return LossCertificate(gap, design.null, kkt, unique, dependent, bool(away.size))


def _gap(
    design: LossTask,
    w: Floats,
    a: Floats,
    f: Floats,
    slope: Floats,
    bend: Floats,
    free: np.ndarray,
    positive: bool,
) -> float:
    loss, y, v, used = design.of_loss, design.y, design.v, w != 0.0
    if (used & np.isinf(a)).any() or (positive and (w < 0).any()):
        return float("inf")
    primal = float(v @ loss.value(y, f)) + float(a[used] @ np.abs(w[used]))
    s, left = _projected(design, -slope, bend, np.flatnonzero(free), w)  # u = v s
    g = design.correlate(s)
    size = g if positive else np.abs(g)
    noise = 1e-11 * np.sqrt(design.squares * design.yy)
    bound = np.isfinite(a) & ~free & (size > 0) & ~((a == 0.0) & (size <= noise)) & (design.squares > 0)
    scale = min(1.0, float(np.divide(a, size, out=np.full(len(a), np.inf), where=bound).min(initial=np.inf)))
    dual = -float(v @ loss.conjugate(y, -scale * s))
    if not np.isfinite(dual):  # outside of the range of slopes, by rounding: a little less is inside
        scale *= 1.0 - 1e-9
        dual = -float(v @ loss.conjugate(y, -scale * s))
    hidden = left + 4.0 * EPS * (primal + design.null) + EPS * float(v @ np.abs(slope * f))
    return min(abs(primal - dual), primal) + hidden if np.isfinite(dual) else primal + hidden


def _projected(design: LossTask, s: Floats, bend: Floats, free: Ints, w: Floats) -> tuple[Floats, float]:
    """s (u = v s) made to meet the equations of the un-penalised coefficients, and what it misses them by, times twice these
    coefficients: so much could be hidden."""
    root, C, coefs = np.sqrt(design.v), design.columns(free), w[free]
    if design.base.centre:
        C, coefs = np.column_stack([C, root]), np.append(coefs, design.level(w))
    if not coefs.size:
        return s, 0.0
    lengths = np.linalg.norm(C, axis=0)
    C = C / lengths
    _, R, order = qr(np.sqrt(bend)[:, None] * C, mode="economic", pivoting=True)
    pivots = np.abs(np.diag(R))
    rank = int((pivots > 1e-12 * pivots[0]).sum())
    R, order = R[:rank, :rank], order[:rank]
    for _ in range(3 if rank else 0):
        inner = solve_triangular(R, (C.T @ (root * s))[order], trans="T")
        s = s - bend * (C[:, order] @ solve_triangular(R, inner)) / root
    missed = np.abs(C.T @ (root * s))
    return s, 2.0 * float(missed @ (lengths * np.abs(coefs)))


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


def escaping(design: LossTask, w: Floats, free: np.ndarray) -> Ints:
    """The un-penalised features of a direction in which the loss falls for ever, so that no minimiser exists: classes that
    these features separate, counts that they hold at 0. Found by a linear program, if rows have all but escaped at w."""
    y, f = design.y, design.predictor(w)
    away = design.of_loss.escapes(y)
    columns = np.flatnonzero(free)
    bend = design.of_loss.curvature(y, f)
    suspect = (away * f > 0) & (bend < STEEP * bend.max())
    if not columns.size or not suspect.any():
        return columns[:0]
    C = design.block(columns)
    scale = np.abs(C).max(axis=0)
    C = C / scale
    if design.base.centre:
        C = np.column_stack([C, np.ones(len(y))])
    # max sum |t_r| for t = C z, t_r between 0 and away_r
    limits: list[Any] = [(min(float(one), 0.0), max(float(one), 0.0)) for one in away]
    k, n = C.shape[1], len(y)
    equations = np.hstack([C, -np.eye(n)])
    found: Any = linprog(
        np.concatenate([np.zeros(k), -away]), A_eq=equations, b_eq=np.zeros(n), bounds=[(None, None)] * k + limits
    )
    if not found.success or found.fun > -1e-6:
        return columns[:0]
    z = np.abs(found.x[: len(columns)])
    return columns[z > 1e-9 * z.max(initial=1.0)]
