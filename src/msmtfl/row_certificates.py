"""Certificates for problems whose rows couple the tasks (L1,2, Dirty). Nothing here is shared with the solver.

    primal  P(W) = sum_i kappa_i/2 |y_i - X_i w_i|^2 + sum_j N(w^j),     kappa_i = 2 / (m n_i)
    dual    D(r) = sum_i kappa_i (y_i'r_i - |r_i|^2 / 2)    for rows (kappa_i x_ij'r_i)_i of dual norm <= 1

The dual point is the residual, made orthogonal to each task's un-penalised columns and scaled, the same in all tasks, until
it is feasible. The relative gap is (P - D) over the loss at W = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.linalg import LinAlgError, cholesky
from scipy.linalg import solve_triangular

from .certificates import EPS, EQUICORRELATION, project
from .designs import Design, Floats, Ints
from .penalties import DirtyNorm, RowNorm


@dataclass(frozen=True)
class RowCertificate:
    """Relative duality gap; largest violation of the optimality conditions, as a correlation; whether W is certainly the
    only minimiser, and for every task the features of a direction that may be free."""

    gap: float
    kkt: float
    unique: bool
    dependent: tuple[Ints, ...]


def certify_rows(designs: Sequence[Design], W: Floats, norm: RowNorm) -> RowCertificate:
    """Gap, optimality and uniqueness of W (m, d) for the loss plus a norm of every row."""
    kappa = np.array([2.0 / (len(designs) * design.n) for design in designs])
    unit = 0.5 * sum(k * design.yy for k, design in zip(kappa, designs, strict=True))
    live = np.array([design.squares > 0 for design in designs]).T & np.isfinite(norm.factors)
    free = norm.free() & live
    gradients = np.empty_like(W)
    dual = np.empty_like(W)  # X'r of the dual point
    primal, fits, losses, hidden = norm.value(W.T), 0.0, 0.0, 0.0
    for i, (design, w, k) in enumerate(zip(designs, W, kappa, strict=True)):
        gradients[i] = k * design.gradient(w)
        loss, fit, square, dual[i], pivot = _dual_point(design, w, np.flatnonzero(free[:, i]))
        dual[i] *= k
        primal, fits, losses = primal + 0.5 * k * loss, fits + k * fit, losses + k * square
        of_y = float(np.sqrt(design.yy))
        blur = EPS * (of_y + np.abs(w) @ np.sqrt(design.squares))
        hidden += k * of_y * (blur + EPS * of_y / pivot)
    broken = bool((W.T[~live & np.isinf(norm.factors)] != 0.0).any())
    size = norm.dual(np.where(live & ~free, dual.T, 0.0))
    scale = min(1.0, 1.0 / max(float(size.max(initial=0.0)), np.finfo(float).tiny))
    gap = abs(primal - scale * fits + 0.5 * scale**2 * losses) + hidden
    relative = (gap / unit if unit > 0 else float(gap > 0)) if not broken else np.inf
    dependent = _dependent(designs, W, norm, gradients, live, free, kappa)
    kkt = row_violation(designs, W, norm, gradients)
    return RowCertificate(float(relative), kkt, all(part.size == 0 for part in dependent), dependent)


def _dual_point(design: Design, w: Floats, free: Ints) -> tuple[float, float, float, Floats, float]:
    """|y - Xw|^2; then y'r, |r|^2 and X'r of the residual r made orthogonal to some columns, and their smallest pivot"""
    residual = design.residual(w)
    if residual is None or design.target is None:
        if free.size:
            raise NotImplementedError("un-penalised entries need rows at hand.")
        loss, gradient = design.loss(w), design.gradient(w)
        return loss, loss + float(w @ gradient), loss, gradient, 1.0
    r, pivot = (residual, 1.0) if free.size == 0 else project(design, residual, free, {})
    return float(residual @ residual), float(design.target @ r), float(r @ r), design.correlate(r), pivot


def row_violation(designs: Sequence[Design], W: Floats, norm: RowNorm, gradients: Floats | None = None) -> float:
    """How far W (m, d) is from satisfying  g^j in the subdifferential of N at w^j,  the g^j being rows of minus the loss's
    gradient: dual(g^j) <= 1 and g^j'w^j = N(w^j), each violation weighted with the row's largest correlation."""
    m = len(designs)
    if gradients is None:
        parts = [2.0 / (m * design.n) * design.gradient(w) for design, w in zip(designs, W, strict=True)]
        gradients = np.array(parts)
    length = np.array([2.0 / (m * x.n) * np.sqrt(x.squares * x.yy) for x in designs])  # of a gradient that is 1
    live = (length > 0) & np.isfinite(norm.factors.T)
    correlation = np.divide(np.abs(gradients), length, out=np.zeros_like(length), where=live)
    free = norm.free().T & live
    G = np.where(live & ~free, gradients, 0.0)
    values = norm.values(W.T)
    beyond = np.maximum(norm.dual(G.T) - 1.0, 0.0)
    slack = np.abs(values - np.einsum("ij,ij->j", G, W))
    slack = np.divide(slack, values, out=np.zeros_like(slack), where=values > 0)
    coupled = np.maximum(beyond, slack) * np.where(free, 0.0, correlation).max(axis=0)
    return float(max(coupled.max(initial=0.0), np.where(free, correlation, 0.0).max(initial=0.0)))


# ------------------------------------------------------------------ uniqueness


def _dependent(
    designs: Sequence[Design],
    W: Floats,
    norm: RowNorm,
    gradients: Floats,
    live: np.ndarray,
    free: np.ndarray,
    kappa: Floats,
) -> tuple[Ints, ...]:
    """For every task the features in a direction along which W may move without leaving the set of minimisers.

    All minimisers have the same fit and the same gradient g. The gradient says how a row can move: a group norm's row along
    g^j / f^2 only; a Dirty row with its level t (entries with 0 < |g| < lam_s f follow it), and on their own where |g| is 0
    or lam_s f. If all these movements change the fit in independent directions, W is the only minimiser.
    """
    m = len(W)
    none = np.empty(0, dtype=np.intp)
    G = np.where(live & ~free, gradients.T, 0.0)
    at_bound = (norm.dual(G) >= 1.0 - EQUICORRELATION) | W.any(axis=0)
    alone = free.copy()
    f = np.where(np.isfinite(norm.factors) & (norm.factors > 0), norm.factors, 1.0)
    if isinstance(norm, DirtyNorm):
        size = np.abs(G) / f / norm.lam_s
        tied_rows = np.abs(G / f).sum(axis=1) >= norm.lam_b * (1.0 - EQUICORRELATION)
        at_zero = (size <= EQUICORRELATION) & tied_rows[:, None]
        alone |= ((size >= 1.0 - EQUICORRELATION) | at_zero) & at_bound[:, None] & live
        along = np.where(live & tied_rows[:, None], np.sign(G) / f, 0.0)
        along[np.abs(size) <= EQUICORRELATION] = 0.0
        inside = (size > EQUICORRELATION) & (size < 1.0 - EQUICORRELATION)
        moving = tied_rows & inside.any(axis=1)  # with none inside, the level is not tied to any entry
    else:
        along, moving = G / f**2, at_bound & (np.abs(G).max(axis=1, initial=0.0) > 0)
    rows = np.flatnonzero(moving)
    M, size_of = np.zeros((len(rows), len(rows))), np.zeros(len(rows))
    alone_lost: list[Ints] = []
    for i, (design, k) in enumerate(zip(designs, kappa, strict=True)):
        single = np.flatnonzero(alone[:, i])
        every = np.concatenate([single, rows])
        X = design.columns(every)
        Q = design.gram_rows(every)[:, every] if X is None else X.T @ X
        length = np.sqrt(np.diag(Q)[: len(single)])
        scale = np.concatenate([1.0 / length, along[rows, i] * np.sqrt(k)])
        Q = Q * np.outer(scale, scale)
        a, B = len(single), Q[: len(single), len(single) :]
        M += Q[a:, a:]
        size_of += np.diag(Q[a:, a:])
        lost = none
        if a:
            try:
                if a > design.order:
                    raise LinAlgError
                factor = cholesky(Q[:a, :a] - (1e-14 * a**2 + 1e-12) * np.eye(a))
                inner = solve_triangular(factor, B, lower=True)
                M -= inner.T @ inner
            except LinAlgError:
                lost = single
        alone_lost.append(lost)
    if not any(part.size for part in alone_lost) and rows.size:
        root = np.sqrt(np.where(size_of > 0, size_of, 1.0))
        try:
            cholesky(M / np.outer(root, root) - (1e-14 * len(rows) ** 2 + 1e-11) * np.eye(len(rows)))
        except LinAlgError:
            return tuple(rows[along[rows, i] != 0.0] for i in range(m))
    return tuple(alone_lost)
