"""Certificates for problems whose rows couple the tasks (L1,2, Dirty, common values). But for the norms' values nothing here
is shared with the solvers.

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

from .certificates import EPS, EQUICORRELATION, dual_points, gradient_noise, rank_margin
from .designs import Design, Floats, Ints
from .deviations import SharedNorm
from .penalties import DirtyNorm, RowNorm

ROUGH = 1e-9  # gap or violation beyond which W says nothing about other minimisers


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
    gradients, dual, noise = np.empty_like(W), np.empty_like(W), np.empty_like(W)
    primal, fits, losses, hidden = norm.value(W.T), 0.0, 0.0, 0.0
    for i, (design, w, k) in enumerate(zip(designs, W, kappa, strict=True)):
        loss, gradient, point = dual_points(design, w[None], free[None, :, i], {})
        gradients[i], dual[i] = k * gradient[0], k * point.gradients[0]
        primal += 0.5 * k * float(loss[0])
        fits, losses = fits + k * float(point.fits[0]), losses + k * float(point.losses[0])
        of_y = float(np.sqrt(design.yy))
        blur = EPS * (of_y + np.abs(w) @ np.sqrt(design.squares))  # of the residual
        hidden += k * of_y * (blur + EPS * of_y / float(point.pivots[0]))
        noise[i] = k * np.sqrt(design.squares) * blur
    broken = bool((W.T[np.isinf(norm.factors)] != 0.0).any()) or not np.isfinite(W).all()
    bound = live & ~free
    size = norm.dual(np.where(bound, dual.T, 0.0))
    scale = min(1.0, 1.0 / max(float(size.max(initial=0.0)), np.finfo(float).tiny))
    steepest = norm.dual(np.where(bound, noise.T, 0.0))[size > 0.9].max(initial=0.0)
    gap = abs(primal - scale * fits + 0.5 * scale**2 * losses) + hidden + abs(fits) * float(steepest)
    relative = (gap / unit if unit > 0 else float(gap > 0)) if not broken and np.isfinite(gap) else np.inf
    dependent = _dependent(designs, W, norm, gradients, live, free, kappa)
    kkt = row_violation(designs, W, norm, gradients)
    unique = max(relative, kkt) <= ROUGH and all(part.size == 0 for part in dependent)
    return RowCertificate(float(relative), kkt, unique, dependent)


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
    or lam_s f; a row with a common value with that (if |sum_i g_i| is c), and on their own where |g| is a f (if all can,
    the common value adds nothing). If all these movements change the fit in independent directions, W is the only minimiser.
    """
    m = len(W)
    none = np.empty(0, dtype=np.intp)
    G = np.where(live & ~free, gradients.T, 0.0)
    parts = [k * np.sqrt(x.squares) * gradient_noise(x, w[None])[0] for x, w, k in zip(designs, W, kappa, strict=True)]
    noise = np.where(live & ~free, np.array(parts).T, 0.0)  # of the gradient
    slack = EQUICORRELATION + norm.dual(noise)
    at_bound = (norm.dual(G) >= 1.0 - slack) | W.any(axis=0)
    alone = free.copy()
    f = np.where(np.isfinite(norm.factors) & (norm.factors > 0), norm.factors, 1.0)
    if isinstance(norm, DirtyNorm):
        size = np.abs(G) / f / norm.lam_s
        close = EQUICORRELATION + noise / f / norm.lam_s
        tied_rows = np.abs(G / f).sum(axis=1) >= norm.lam_b * (1.0 - slack)
        at_zero = (size <= close) & tied_rows[:, None]
        alone |= ((size >= 1.0 - close) | at_zero) & at_bound[:, None] & live
        along = np.where(live & tied_rows[:, None], np.sign(G) / f, 0.0)
        along[size <= close] = 0.0
        inside = (size > close) & (size < 1.0 - close)
        moving = tied_rows & inside.any(axis=1)  # with none inside, the level is not tied to any entry
    elif isinstance(norm, SharedNorm):
        size = np.divide(np.abs(G), norm.deviation, out=np.zeros_like(G), where=norm.deviation > 0)
        close = EQUICORRELATION + np.divide(noise, norm.deviation, out=np.zeros_like(G), where=norm.deviation > 0)
        alone |= (size >= 1.0 - close) & live & ~free
        with np.errstate(invalid="ignore"):
            tied_rows = (norm.a > 0) & (np.abs(G.sum(axis=1)) >= norm.c * (1.0 - slack))
        along = np.where(live & tied_rows[:, None], 1.0, 0.0)
        moving = tied_rows & (live & ~alone).any(axis=1)
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
                factor = cholesky(Q[:a, :a] - rank_margin(a) * np.eye(a))
                inner = solve_triangular(factor, B, lower=True)
                M -= inner.T @ inner
            except LinAlgError:
                lost = single[_null_part(Q[:a, :a])]
        alone_lost.append(lost)
    if not any(part.size for part in alone_lost) and rows.size:
        root = np.sqrt(np.where(size_of > 0, size_of, 1.0))
        M = M / np.outer(root, root)
        try:
            cholesky(M - 10.0 * rank_margin(len(rows)) * np.eye(len(rows)))
        except LinAlgError:
            part = _null_part(M)
            return tuple(rows[part & (along[rows, i] != 0.0)] for i in range(m))
    return tuple(alone_lost)


def _null_part(M: Floats) -> np.ndarray:
    """(k,) bool: the columns that take part in a direction in which a positive semidefinite matrix of correlations (nearly)
    vanishes; all, if none of them stands out."""
    values, vectors = np.linalg.eigh(M)
    null = vectors[:, values <= max(values[0] * 10.0, 10.0 * rank_margin(len(M)))]
    part = np.abs(null).max(axis=1, initial=0.0) > 1e-6
    return part if part.any() else np.ones(len(M), dtype=bool)
