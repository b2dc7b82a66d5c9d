"""Certificates: how far a W is from optimal, and whether it is the only one. Nothing here is shared with the solvers.

For one task in sums over rows (see designs.py), with weights a_j in [0, inf]:

    primal  P(w) = 1/2 |y - Xw|^2 + sum_j a_j |w_j|
    dual    D(r) = y'r - 1/2 |r|^2      for |x_j'r| <= a_j   (x_j'r = 0 where a_j = 0)

The residual is projected on the orthogonal complement of the un-penalised columns, then scaled until it is
feasible. The relative duality gap of a stage is sum_i (P_i - D_i) / n_i over sum_i |y_i|^2 / (2 n_i): the
difference between primal and dual of the stage's objective over the loss at W = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError, cholesky
from scipy.linalg import qr, solve_triangular

from .designs import Design, Floats, Ints
from .penalties import Penalty

EQUICORRELATION = 1e-7  # |gradient| within this share of its bound counts as at the bound
RANK = 1e-9  # unit-length columns with a pivot (QR) below this share of the largest count as dependent
CRITICAL = 1e-8  # critical-point residual (a correlation) below which W counts as a critical point
EPS = 2.0**-54  # half of the unit roundoff: errors of a sum do not all add up
AT_ONCE = 64  # solutions that are worth certifying together
MANY = 1000  # features at their bound beyond which a null direction is not looked for
GAP = 1e-10  # the relative gap that an exact solve stays below on well-posed data


@dataclass(frozen=True)
class TaskCertificate:
    """Of one task in one stage: gap P - D, |y|^2 / 2 (its unit), optimality violation, uniqueness."""

    gap: float
    unit: float
    kkt: float
    unique: bool
    dependent: Ints = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    @property
    def relative_gap(self) -> float:
        return self.gap / self.unit if self.unit > 0 else float(self.gap > 0)


def certify(design: Design, w: Floats, a: Floats, positive: bool = False) -> TaskCertificate:
    """Gap, optimality and uniqueness of w for one task's weighted lasso."""
    return certify_all(design, w[None], a[None], positive)[0]


def certify_all(design: Design, W: Floats, A: Floats, positive: bool = False) -> list[TaskCertificate]:
    """The same for several weights: rows of W and A (solutions, d). X is gone through once for all of them."""
    free = [np.flatnonzero(_unpenalised(design, w, a, positive)) for w, a in zip(W, A, strict=True)]
    gradients, points = _dual_points(design, W, free)
    out = []
    for w, a, g, point in zip(W, A, gradients, points, strict=True):
        unique, dependent = uniqueness(design, w, a, g, positive)
        gap, kkt = _gap(design, w, a, point, positive), violation(design, w, a, g, positive)
        out.append(TaskCertificate(gap, 0.5 * design.yy, kkt, unique, dependent))
    return out


@dataclass(frozen=True)
class _DualPoint:
    """A residual r made orthogonal to the un-penalised columns: |r|^2, y'r, X'r, and the smallest pivot of these columns."""

    loss: float
    fit: float
    g: Floats
    pivot: float


def duality_gap(design: Design, w: Floats, a: Floats, positive: bool = False) -> float:
    """P(w) - D(r) for a feasible multiple r of the projected residual, plus what rounding may hide of it."""
    _, points = _dual_points(design, w[None], [np.flatnonzero(_unpenalised(design, w, a, positive))])
    return _gap(design, w, a, points[0], positive)


def _unpenalised(design: Design, w: Floats, a: Floats, positive: bool) -> np.ndarray:
    return np.asarray((a == 0.0) & (design.squares > 0) & ((w > 0) | (not positive)))


def _gap(design: Design, w: Floats, a: Floats, point: _DualPoint, positive: bool) -> float:
    """The residual is known to about eps (|y| + sum_j |x_j w_j|), its projection to eps |y| over the smallest pivot of
    the un-penalised columns: with huge coefficients or nearly dependent columns no gap below that can be claimed.
    inf where w breaks a constraint.
    """
    used = w != 0.0
    if np.isinf(a[used]).any() or (positive and (w < 0).any()):
        return float("inf")
    primal = 0.5 * design.loss(w) + float(a[used] @ np.abs(w[used]))
    length = np.sqrt(design.squares) * np.sqrt(design.yy)
    free = _unpenalised(design, w, a, positive)
    size = point.g if positive else np.abs(point.g)
    bound = np.isfinite(a) & ~free & (size > 0) & (length > 0)
    rounding = bound & (a == 0.0) & (size <= 1e-11 * length)  # a weight of 0 with w >= 0 leaves no other room
    bound &= ~rounding
    with np.errstate(over="ignore"):
        most = float(np.min(a[bound] / size[bound], initial=np.inf))
    scale = min(1.0, most)
    blur = EPS * (np.sqrt(design.yy) + float(np.sqrt(design.squares[used]) @ np.abs(w[used])))
    tight = bound & (size > 0.9 * a) & (a > 0)
    hidden = (blur + EPS * np.sqrt(design.yy) / point.pivot) * np.sqrt(design.yy)
    if tight.any():
        hidden += blur * point.fit * float(np.max(np.sqrt(design.squares[tight]) / a[tight]))
    return abs(primal - scale * point.fit + 0.5 * scale**2 * point.loss) + hidden


def _dual_points(design: Design, W: Floats, free: Sequence[Ints]) -> tuple[Floats, list[_DualPoint]]:
    """Gradients at the rows of W and the dual points made of them."""
    y = design.target
    if y is None:
        gradients = np.array([design.gradient(w) for w in W])
        return gradients, [
            _dual_point_from_statistics(design, w, g, columns) for w, g, columns in zip(W, gradients, free, strict=True)
        ]
    residuals = np.array([design.residual(w) for w in W])
    gradients = design.correlate(residuals.T).T
    projected, pivots, of_projected = residuals.copy(), np.ones(len(W)), gradients.copy()
    for s, columns in enumerate(free):
        if columns.size:
            projected[s], pivots[s] = _project(design, residuals[s], columns)
    moved = [s for s, columns in enumerate(free) if columns.size]
    if moved:
        of_projected[moved] = design.correlate(projected[moved].T).T
    return gradients, [
        _DualPoint(float(r @ r), float(y @ r), g, float(pivot))
        for r, g, pivot in zip(projected, of_projected, pivots, strict=True)
    ]


def _project(design: Design, r: Floats, columns: Ints) -> tuple[Floats, float]:
    """The residual made orthogonal to some columns, and the smallest pivot among these."""
    X = design.columns(columns)
    assert X is not None
    Q, R, _ = qr(X / np.linalg.norm(X, axis=0), mode="economic", pivoting=True)
    pivots = np.abs(np.diag(R))
    independent = pivots > 1e-11 * pivots[0]
    Q = Q[:, independent]
    for _ in range(2):
        r = r - Q @ (Q.T @ r)
    return r, float(pivots[independent].min())


def _dual_point_from_statistics(design: Design, w: Floats, g: Floats, free: Ints) -> _DualPoint:
    """The same without rows: r = y - Xv for the v that minimises over the un-penalised entries."""
    v = w.copy()
    pivot = 1.0
    if free.size:
        length = np.sqrt(design.squares[free])
        G = design.gram_rows(free)[:, free] / np.outer(length, length)
        step, _, _, values = np.linalg.lstsq(G, g[free] / length, rcond=1e-12)
        v[free] += step / length
        pivot = float(values[values > 1e-12 * values[0]].min())
        g = design.gradient(v)
        g[free] = 0.0
    loss = design.loss(v)
    return _DualPoint(loss, loss + float(v @ g), g, pivot)


def violation(design: Design, w: Floats, a: Floats, g: Floats, positive: bool = False) -> float:
    """Largest violation of the optimality conditions, as a correlation between a column and y (0 to 1).

    g_j = a_j sign(w_j) where w_j != 0, |g_j| <= a_j elsewhere (g_j <= a_j if positive).
    """
    length = np.sqrt(design.squares) * np.sqrt(design.yy)
    live = (length > 0) & np.isfinite(a)
    if not live.any():
        return 0.0
    g, w, a, length = g[live], w[live], a[live], length[live]
    outside = np.maximum((g if positive else np.abs(g)) - a, 0.0)
    return float(np.max(np.where(w != 0.0, np.abs(g - a * np.sign(w)), outside) / length))


def uniqueness(design: Design, w: Floats, a: Floats, g: Floats, positive: bool = False) -> tuple[bool, Ints]:
    """Whether w is certainly the only minimiser; otherwise the features of a direction that may be free.

    The minimiser is unique if the columns whose gradient is at its bound (within EQUICORRELATION, a share of
    the bound) are linearly independent. Independence is shown by a Cholesky factor of their correlation
    matrix less a margin for rounding, or else by pivots of a QR factor above RANK.
    """
    length = np.sqrt(design.squares)
    noise = 1e-12 * np.sqrt(design.yy) + 1e-13 * float(length @ np.abs(w))  # of a gradient, per length of its column
    slack = EQUICORRELATION * a + noise * length
    with np.errstate(invalid="ignore"):
        at_bound = (g if positive else np.abs(g)) >= a - slack
    E = np.flatnonzero((at_bound & (length > 0) & np.isfinite(a)) | (w != 0.0))
    if E.size == 0:
        return True, E
    X = design.columns(E)
    if X is None:
        G = design.gram_rows(E)[:, E] / np.outer(length[E], length[E])
    else:
        X = X / length[E]
        G = X.T @ X
    margin = 1e-14 * E.size**2 + 1e-12
    try:
        if E.size <= design.order:
            cholesky(G - margin * np.eye(E.size))
            return True, E[:0]
    except LinAlgError:
        pass
    if E.size > MANY:
        return False, E  # too many to single some out
    if X is None:
        values, vectors = np.linalg.eigh(G)
        null = vectors[:, values <= margin]
        return null.shape[1] == 0, E[np.abs(null).max(axis=1, initial=0.0) > 1e-6]
    R, order = qr(np.linalg.qr(X, mode="r"), mode="r", pivoting=True)
    pivots = np.abs(np.diag(R))
    rank = int((pivots > RANK * pivots[0]).sum())
    if rank == E.size:
        return True, E[:0]
    through = np.abs(solve_triangular(R[:rank, :rank], R[:rank, rank:])).max(
        axis=1
    )  # what the dependent ones are made of
    return False, E[np.sort(np.concatenate([order[:rank][through > 1e-6], order[rank:]]))]


# ------------------------------------------------------------------ of a whole W


def loss_of(designs: Sequence[Design], W: Floats) -> float:
    """l(W) = sum_i 1/(m n_i) |X_i w_i - y_i|^2; W is (m, d)."""
    return sum(design.loss(w) / design.n for design, w in zip(designs, W, strict=True)) / len(designs)


def relative_gap(designs: Sequence[Design], certificates: Sequence[TaskCertificate]) -> float:
    """(primal - dual) / (loss at W = 0), over all tasks."""
    gap = sum(c.gap / design.n for design, c in zip(designs, certificates, strict=True))
    unit = sum(c.unit / design.n for design, c in zip(designs, certificates, strict=True))
    return float(gap / unit) if unit > 0 else float(gap > 0)


def block_value(loss: float, row_norms: Floats, v: Floats, lam: float, theta: float) -> float:
    """The paper's block-descent function f(W, v) = l(W) + lam v'h(W) - lam g*(v), g*(v) = -theta sum_j (1 - v_j).

    At v = (stage weights made of W) / lam it equals objective (1); it never rises over the stages.
    """
    capped = 0.0 if np.isinf(theta) else theta * float((1.0 - v).sum())
    return loss + lam * (float(v @ row_norms) + capped)


def critical_residual(designs: Sequence[Design], W: Floats, penalty: Penalty, positive: bool = False) -> float:
    """How far W (m, d) is from a critical point of the non-convex objective: the largest violation of the optimality
    conditions of the lasso that majorises the objective at W itself, as a correlation."""
    m = len(designs)
    weights = penalty.weights(penalty.pattern(W.T)).T
    return max(
        violation(design, w, 0.5 * m * design.n * a, design.gradient(w), positive)
        for design, w, a in zip(designs, W, weights, strict=True)
    )


@dataclass(frozen=True)
class Certificate:
    """What is proven about a fit. Printing it says so in words.

    Attributes
    ----------
    dual_gap : relative duality gap of the last stage
    kkt : largest violation of its optimality conditions, as a correlation (0 to 1)
    critical : the same for the non-convex objective (1) itself
    unique : whether every stage's solution is certainly the only one
    monotone : whether the objective never rose over the stages
    ambiguous : {task: feature names} of the last stage where uniqueness could not be certified
    tol : the gap that the fit was asked to reach
    """

    dual_gap: float
    kkt: float
    critical: float
    unique: bool
    monotone: bool
    ambiguous: dict[Any, list[str]]
    tol: float

    @property
    def optimal(self) -> bool:
        """Whether the last stage is solved to the tolerance asked for."""
        return self.dual_gap <= self.tol

    def __str__(self) -> str:
        lines = [
            f"{'solved' if self.optimal else 'NOT solved'}: relative duality gap {self.dual_gap:.1e} (tolerance "
            f"{self.tol:.0e}), optimality violation {self.kkt:.1e}",
            f"{'critical point' if self.critical <= CRITICAL else 'not a critical point'} of the non-convex objective: "
            f"residual {self.critical:.1e}",
            "objective never rose over the stages" if self.monotone else "the objective rose in a stage",
        ]
        if self.unique:
            lines.append("unique: the solution of every stage is the only one")
        else:
            lines.append("uniqueness not certified" + (":" if self.ambiguous else " in an earlier stage"))
            for task, names in list(self.ambiguous.items())[:5]:
                shown = ", ".join(names[:6]) + (f", ... ({len(names)} features)" if len(names) > 6 else "")
                lines.append(f"  task {task!r}: {shown} can be exchanged without changing the fit")
            if len(self.ambiguous) > 5:
                lines.append(f"  and {len(self.ambiguous) - 5} more tasks")
        return "\n".join(lines)
