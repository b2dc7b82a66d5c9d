"""The largest lam of a problem, and the gradient where nothing is penalised."""

from __future__ import annotations

import numpy as np

from .._data.designs import Floats, stage_scale
from .._objective.box import outward, outwards
from .._objective.problem import Problem
from .one_level import held_at, levels_of
from .task_lassos import lassos_for

LAM_SHARE = 0.1  # lam=None is this share of lam_max
LEAST_SHARE = 1e-3  # of the l1 norm in a penalty: with less, the largest lam is that of this share
ROUNDING = 1e-11  # of the largest that a gradient can be: what is less is left by an interpolation


# ------------------------------------------------------------------ the largest lam


def first_gradient(problem: Problem) -> Floats:
    """(m, d): 2 / (m n_i) x_j'r_i, r_i the residual of the fit of the entries that are never penalised; 0 in those. (Where
    the loss is not squared, its slope takes the place of the residual.) What only presses coefficients to a bound of 0 does
    not count."""
    if not problem.has_one_level:
        return _first_gradient(problem, _of_free(problem))
    zeros = np.zeros((problem.m, problem.d))
    with held_at(problem, levels_of(problem, zeros), zeros):
        W = _of_free(problem)
        with held_at(problem, levels_of(problem, W), W):
            return _first_gradient(problem, W)


def _of_free(problem: Problem) -> Floats:
    """(m, d): the fit of the entries that are never penalised."""
    free = (problem.factors == 0.0).T
    if not free.any():
        return np.zeros((problem.m, problem.d))
    W, _ = lassos_for(problem).solve(np.where(free, 0.0, np.inf))
    return np.asarray(W)


def _first_gradient(problem: Problem, W: Floats) -> Floats:
    out = np.zeros_like(W)
    for design, w, f, of_task in zip(problem.designs, W, problem.factors.T, out, strict=True):
        g = design.c
        if w.any() or not problem.loss.squared:
            g = design.gradient(w).copy()
            g[np.abs(g) <= ROUNDING * np.sqrt(design.squares) * np.sqrt(design.yy)] = 0.0
        of_task[:] = np.where((f > 0) & np.isfinite(f), g, 0.0)
    box = problem.box
    if box is not None:  # a bound of 0 holds coefficients at 0 whatever lam is
        out -= outwards(box, out)
    return np.asarray(out / stage_scale(problem.designs))


def largest_lam(problem: Problem) -> float:
    """The smallest lam at which stage 1 is zero (but for the entries that are never penalised)."""
    G, f = first_gradient(problem), problem.factors.T
    if problem.groups is not None:  # what presses coefficients to bounds of 0 is left out of G
        with np.errstate(over="ignore"):
            over = np.divide(G, f, out=np.zeros_like(G), where=(f > 0.0) & np.isfinite(f))
        return float(problem.groups.lengths(over.T).max(initial=0.0)) / of_lasso(problem.l1_ratio)
    with np.errstate(over="ignore"):  # factors next to nothing: no finite lam is large enough
        sizes = np.divide(
            np.maximum(outward(problem.limit, np.zeros_like(G), G), 0.0), f, out=np.zeros_like(G), where=f > 0
        )
    return max(float(sizes.max(initial=0.0)), 0.0) / of_lasso(problem.l1_ratio)


def of_lasso(l1_ratio: float) -> float:
    """What the largest lam of a lasso is divided by: without an l1 norm no lam makes all coefficients 0."""
    return max(l1_ratio, LEAST_SHARE)


def default_lam(lam: float | None, lam_max: float) -> float:
    """The lam asked for, by default a share of lam_max."""
    if lam is not None:
        return float(lam)
    return LAM_SHARE * lam_max if lam_max > 0 else 1.0
