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
from scipy.linalg.lapack import dpotrs

from .designs import Design, Floats, Ints
from .printable import printable

EQUICORRELATION = 1e-7  # |gradient| within this share of its bound counts as at the bound
WELL = 1e-4  # unit-length columns with all pivots (Cholesky) above this are far from dependent
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


def certify_all(
    design: Design, W: Floats, A: Floats, positive: bool = False, memo: dict[Any, Any] | None = None
) -> list[TaskCertificate]:
    """The same for several weights: rows of W and A (solutions, d). X is gone through once for all of them, and equal sets
    of columns are factorised once; a `memo` (any dict) keeps these for the next call on the same design."""
    memo = {} if memo is None else memo
    free = (A == 0.0) & (design.squares > 0) & ((W > 0) | (not positive))
    losses, gradients, point = dual_points(design, W, free, memo)
    gaps = _gaps(design, W, A, free, losses, point, positive)
    kkts = violations(design, W, A, gradients, positive)
    reached = at_bound(design, W, A, gradients, positive)
    out = []
    for gap, kkt, E in zip(gaps.tolist(), kkts.tolist(), reached, strict=True):
        key = ("independent", E.tobytes())
        if key not in memo:
            memo[key] = independence(design, np.flatnonzero(E))
        out.append(TaskCertificate(gap, 0.5 * design.yy, kkt, *memo[key]))
    return out


# ------------------------------------------------------------------ duality gap


@dataclass(frozen=True)
class DualPoints:
    """Residuals r made orthogonal to the un-penalised columns: |r|^2 (solutions,), y'r, X'r (solutions, d), and the
    smallest pivot among these columns."""

    losses: Floats
    fits: Floats
    gradients: Floats
    pivots: Floats


def dual_points(design: Design, W: Floats, free: np.ndarray, memo: dict[Any, Any]) -> tuple[Floats, Floats, DualPoints]:
    """|y - Xw|^2 and gradients at the rows of W, and the dual points made of them."""
    y = design.target
    if y is None:
        return _dual_points_from_statistics(design, W, free)
    residuals = design.residuals(W)
    assert residuals is not None
    gradients = design.correlate(residuals.T).T
    projected, pivots = residuals.copy(), np.ones(len(W))
    moved = np.flatnonzero(free.any(axis=1))
    for s in moved:
        projected[s], pivots[s] = project(design, residuals[s], np.flatnonzero(free[s]), memo)
    of_projected = gradients
    if moved.size:
        of_projected = gradients.copy()
        of_projected[moved] = design.correlate(projected[moved].T).T
    losses = np.einsum("sr,sr->s", projected, projected)
    points = DualPoints(losses, projected @ y, of_projected, pivots)
    return np.einsum("sr,sr->s", residuals, residuals), gradients, points


def project(design: Design, r: Floats, columns: Ints, memo: dict[Any, Any]) -> tuple[Floats, float]:
    """The residual made orthogonal to some columns, and the smallest pivot among these.

    By a Cholesky factor of their correlations, applied until nothing is left to take away; by pivoted QR where they are
    nearly dependent. The factor is kept, the columns are not.
    """
    X = design.columns(columns)
    assert X is not None
    X = X / np.linalg.norm(X, axis=0)
    key = ("factor", columns.tobytes())
    if key not in memo:
        try:
            memo[key] = cholesky(X.T @ X) if columns.size <= design.order else None
        except LinAlgError:
            memo[key] = None
        if memo[key] is not None and np.diag(memo[key]).min() < WELL:
            memo[key] = None
    factor = memo[key]
    if factor is not None:
        for _ in range(3):
            r = r - X @ dpotrs(factor, X.T @ r, lower=1)[0]
        return r, float(np.diag(factor).min())
    Q, R, _ = qr(X, mode="economic", pivoting=True)
    pivots = np.abs(np.diag(R))
    independent = pivots > 1e-11 * pivots[0]
    Q = Q[:, independent]
    for _ in range(2):
        r = r - Q @ (Q.T @ r)
    return r, float(pivots[independent].min())


def _dual_points_from_statistics(design: Design, W: Floats, free: np.ndarray) -> tuple[Floats, Floats, DualPoints]:
    """The same without rows: r = y - Xv for the v that minimises over the un-penalised entries."""
    gradients = np.array([design.gradient(w) for w in W])
    V, pivots, of_dual = W.copy(), np.ones(len(W)), gradients.copy()
    for s in np.flatnonzero(free.any(axis=1)):
        columns = np.flatnonzero(free[s])
        length = np.sqrt(design.squares[columns])
        G = design.gram_rows(columns)[:, columns] / np.outer(length, length)
        step, _, _, values = np.linalg.lstsq(G, gradients[s, columns] / length, rcond=1e-12)
        V[s, columns] += step / length
        pivots[s] = values[values > 1e-12 * values[0]].min()
        of_dual[s] = design.gradient(V[s])
        of_dual[s, columns] = 0.0
    losses = np.array([design.loss(v) for v in V])
    points = DualPoints(losses, losses + np.einsum("sj,sj->s", V, of_dual), of_dual, pivots)
    return np.array([design.loss(w) for w in W]), gradients, points


def _gaps(
    design: Design, W: Floats, A: Floats, free: np.ndarray, losses: Floats, point: DualPoints, positive: bool
) -> Floats:
    """P(w) - D(r) for feasible multiples r of the projected residuals, plus what rounding may hide of it.

    The residual is known to about eps (|y| + sum_j |x_j w_j|), its projection to eps |y| over the smallest pivot of
    the un-penalised columns: with huge coefficients or nearly dependent columns no gap below that can be claimed.
    inf where w breaks a constraint.
    """
    used, root, of_y = W != 0.0, np.sqrt(design.squares), float(np.sqrt(design.yy))
    broken = (used & np.isinf(A)).any(axis=1) | (positive & (W < 0).any(axis=1))
    primal = 0.5 * losses + (np.where(used & np.isfinite(A), A, 0.0) * np.abs(W)).sum(axis=1)
    size = point.gradients if positive else np.abs(point.gradients)
    bound = np.isfinite(A) & ~free & (size > 0) & (root * of_y > 0)
    bound &= ~((A == 0.0) & (size <= 1e-11 * root * of_y))  # a weight of 0 with w >= 0 leaves no other room
    with np.errstate(over="ignore", invalid="ignore"):  # weights next to nothing
        ratio = np.divide(A, size, out=np.full(A.shape, np.inf), where=bound)
        scale = np.minimum(1.0, ratio.min(axis=1, initial=np.inf))
        blur = EPS * (of_y + np.abs(W) @ root)
        tight = bound & (size > 0.9 * A) & (A > 0)
        steepest = np.divide(root, A, out=np.zeros(A.shape), where=tight).max(axis=1, initial=0.0)
        hidden = (blur + EPS * of_y / point.pivots) * of_y + blur * point.fits * steepest
        gap = np.abs(primal - scale * point.fits + 0.5 * scale**2 * point.losses) + hidden
    return np.where(broken, np.inf, np.fmin(gap, primal))  # r = 0 is feasible, too


# ------------------------------------------------------------------ optimality and uniqueness


def violations(design: Design, W: Floats, A: Floats, gradients: Floats, positive: bool = False) -> Floats:
    """Largest violation of the optimality conditions by each row of W, as a correlation between a column and y (0 to 1).

    g_j = a_j sign(w_j) where w_j != 0, |g_j| <= a_j elsewhere (g_j <= a_j if positive).
    """
    length = np.sqrt(design.squares) * np.sqrt(design.yy)
    live = (length > 0) & np.isfinite(A)
    bound = np.where(live, A, 0.0)
    outside = np.maximum((gradients if positive else np.abs(gradients)) - bound, 0.0)
    error = np.where(W != 0.0, np.abs(gradients - bound * np.sign(W)), outside)
    return np.divide(error, length, out=np.zeros(error.shape), where=live).max(axis=1, initial=0.0)


def at_bound(design: Design, W: Floats, A: Floats, gradients: Floats, positive: bool) -> np.ndarray:
    """(solutions, d) bool: features whose gradient is at its bound, within EQUICORRELATION (a share of the bound)."""
    length = np.sqrt(design.squares)
    slack = EQUICORRELATION * A + np.outer(gradient_noise(design, W), length)
    with np.errstate(invalid="ignore"):
        reached = (gradients if positive else np.abs(gradients)) >= A - slack
    return (reached & (length > 0) & np.isfinite(A)) | (W != 0.0)


def gradient_noise(design: Design, W: Floats) -> Floats:
    """(solutions,): what rounding leaves open of a gradient, per length of its column"""
    return np.asarray(1e-12 * np.sqrt(design.yy) + 1e-13 * (np.abs(W) @ np.sqrt(design.squares)))


def rank_margin(k: int) -> float:
    """What rounding leaves open of the eigenvalues of a correlation matrix of k columns"""
    return 1e-14 * k**2 + 1e-12


def independence(design: Design, E: Ints) -> tuple[bool, Ints]:
    """Whether columns are certainly linearly independent; otherwise those of a direction that may be free.

    A minimiser is unique if the columns whose gradient is at its bound are independent. That is shown by a Cholesky factor
    of their correlation matrix less a margin for rounding, or else by pivots of a QR factor above RANK.
    """
    if E.size == 0:
        return True, E
    length = np.sqrt(design.squares)
    X = design.columns(E)
    if X is None:
        G = design.gram_rows(E)[:, E] / np.outer(length[E], length[E])
    else:
        X = X / length[E]
        G = X.T @ X
    margin = rank_margin(E.size)
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
    # what the dependent ones are made of
    through = np.abs(solve_triangular(R[:rank, :rank], R[:rank, rank:])).max(axis=1)
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


def largest_violation(designs: Sequence[Design], W: Floats, A: Floats, positive: bool = False) -> float:
    """Of the optimality conditions of all tasks' lassos with weights A (m, d), at W (m, d), as a correlation."""
    return max(
        float(violations(design, w[None], a[None], design.gradient(w)[None], positive)[0])
        for design, w, a in zip(designs, W, A, strict=True)
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
    convex : whether the objective is convex, so that its minimum is what was found
    added : tasks that were added after the fit, each solved for itself; `critical` and `monotone` are about the others

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(90)
    >>> certificate = MSMTFL(0.1, 1.5).fit(X, y, task=task).certificate_
    >>> bool(certificate.dual_gap < 1e-12), certificate.unique, certificate.monotone
    (True, True, True)
    """

    dual_gap: float
    kkt: float
    critical: float
    unique: bool
    monotone: bool
    ambiguous: dict[Any, list[str]]
    tol: float
    convex: bool = False
    added: int = 0

    @property
    def optimal(self) -> bool:
        """Whether the last stage is solved to the tolerance asked for."""
        return self.dual_gap <= self.tol

    def __str__(self) -> str:
        lines = [
            f"{'solved' if self.optimal else 'NOT solved'}: relative duality gap {self.dual_gap:.1e} (tolerance "
            f"{self.tol:.0e}), optimality violation {self.kkt:.1e}",
        ]
        if self.convex:
            lines.append("the objective is convex: no other solution has a smaller one")
        else:
            critical = "critical point" if self.critical <= CRITICAL else "not a critical point"
            lines.append(f"{critical} of the non-convex objective: residual {self.critical:.1e}")
            lines.append("objective never rose over the stages" if self.monotone else "the objective rose in a stage")
        if self.unique:
            lines.append(f"unique: the solution{'' if self.convex else ' of every stage'} is the only one")
        else:
            earlier = "" if self.convex else " in an earlier stage"
            lines.append("uniqueness not certified" + (":" if self.ambiguous else earlier))
            for task, names in list(self.ambiguous.items())[:5]:
                shown = ", ".join(map(printable, names[:6])) + (
                    f", ... ({len(names)} features)" if len(names) > 6 else ""
                )
                lines.append(f"  task {task!r}: {shown} can be exchanged without changing the fit")
            if len(self.ambiguous) > 5:
                lines.append(f"  and {len(self.ambiguous) - 5} more tasks")
        if self.added:
            lines.append(
                f"{self.added} task(s) added later, with the row weights of the fit: the objective is the others'"
            )
        return "\n".join(lines)
