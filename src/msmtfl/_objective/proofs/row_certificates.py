"""Certificates for problems whose rows couple the tasks (L1,2, Dirty, common values). But for the norms' values nothing here
is shared with the solvers.

    primal  P(W) = sum_i kappa_i/2 |y_i - X_i w_i|^2 + sum_j N(w^j),     kappa_i = 2 / (m n_i)
    dual    D(u) = sum_i kappa_i (y_i'u_i - |u_i|^2 / 2)    for rows (kappa_i x_ij'u_i)_i of dual norm <= 1

The dual point is the residual, made orthogonal to the columns that leave it no room (`dual_points.py`) and scaled, the same
in all tasks, until it is feasible. The gap is

    P(W) - D(u) = sum_i kappa_i/2 |r_i - u_i|^2 + sum_j (N(w^j) - sum_i w_ij kappa_i x_ij'u_i)

in which no term is negative, with what rounding may hide added to every quantity. The relative gap is that over the loss at
W = 0.

Other losses take the place of the squares: `task_duals.py` has what each of them adds.

With a ridge, sum_ij rho_ij w_ij^2 / 2 more in P, the rows g of the dual point (g_i = kappa_i x_ij'u_i) are not bounded: the
dual loses sum_i (g_i - p_i)^2 / (2 rho_i) for any p of dual norm <= 1. With p = g - rho w, scaled if need be, a row adds
N(w) - p'w + sum_i rho_i/2 (w_i - (g_i - p_i) / rho_i)^2  to the gap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError, cholesky
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from ..._data.designs import Design, Floats, Ints, with_rows
from ..._data.forms.ridged import apart, ridge_rows
from ..coupled.common_penalty import SharedBlocks, SharedNorm
from ..coupled.groups import BlockDirty
from ..coupled.row_norms import DirtyNorm, RowNorm
from .certificates import EQUICORRELATION, GAP, RowCertificate, gradient_noise, rank_margin
from .dual_points import Doubt, few_digits, over_unit, vacuous
from .loss_certificates import INSIDE
from .task_duals import duals, escaping_tasks, of_losses, rooms

ROUGH = 1e-9  # gap or violation beyond which W says nothing about other minimisers


@np.errstate(over="ignore", invalid="ignore")  # what leaves the range of floats is not certified
def certify_rows(designs: Sequence[Any], W: Floats, norm: RowNorm) -> RowCertificate:
    """Gap, optimality and uniqueness of W (m, d) for the loss plus a norm of every row."""
    bare = [apart(design)[0] for design in designs]
    (first, *more), gap, doubt = rooms(bare), float("inf"), None
    gap, doubt, gradients = _gap(designs, W, norm, *first)
    for form, room, escaped in _others(designs, bare, more):
        if gap <= GAP:
            break
        again, other, _ = _gap(form(), W, norm, room, escaped)
        if again <= gap:
            gap, doubt = again, other
    dependent = _dependent(designs, W, norm, gradients)
    kkt = row_violation(designs, W, norm, gradients)
    away = escaping_tasks(bare, W, norm.free().T & (_ridges(designs) == 0.0))
    dependent = tuple(away.get(i, features) for i, features in enumerate(dependent))
    unique = max(gap, kkt) <= ROUGH and all(part.size == 0 for part in dependent)
    return RowCertificate(gap, kkt, unique, dependent, doubt, tuple(away))


def _others(
    designs: Sequence[Any], bare: Sequence[Any], more: Sequence[tuple[float, float]]
) -> list[tuple[Callable[[], Sequence[Any]], float, float]]:
    """What else is tried where the first dual point proves too little (see `certificates.py`)."""
    if any(vacuous(design) for design in bare):
        return []
    sums = not of_losses(bare) and any(design.target is None for design in designs)
    return [
        *((lambda: designs, *one) for one in more),
        *((lambda: [with_rows(design) for design in designs], *one) for one in rooms(bare) if sums),
    ]


def _scales(designs: Sequence[Design]) -> Floats:
    """(m,): kappa"""
    return np.array([2.0 / (len(designs) * design.n) for design in designs])


def _live(designs: Sequence[Design], norm: RowNorm) -> np.ndarray:
    """(d, m) bool: entries that can be other than 0."""
    return np.array([design.squares > 0 for design in designs]).T & np.isfinite(norm.factors)


def _gap(
    designs: Sequence[Any], W: Floats, norm: RowNorm, room: float, escaped: float = 0.0
) -> tuple[float, Doubt | None, Floats]:
    """The relative gap, why it is large, if it is, and (m, d) minus the gradient of the loss. Rows whose bounds are up to
    `room` times the rounding of their gradients leave dual points no room; of slopes up to `escaped` of the largest dual
    points make 0."""
    kappa, live, rho = _scales(designs), _live(designs, norm), _ridges(designs)
    designs = [apart(design)[0] for design in designs]
    tasks = duals(designs, W, escaped)
    unit = sum(k * task.unit for k, task in zip(kappa, tasks, strict=True))
    gradients = np.array([k * task.gradient for k, task in zip(kappa, tasks, strict=True)]) - rho * W
    if any(getattr(task, "lost", False) for task in tasks):
        return float("inf"), Doubt("far"), gradients
    noise = np.array([k * task.noise for k, task in zip(kappa, tasks, strict=True)])
    free = norm.free() & live
    tight = norm.spread(room * norm.dual(np.where(live & ~free, noise.T, 0.0)) >= 1.0)
    hard = norm.spread(norm.total((rho.T == 0.0) & ~free & live) > 0.0)
    soft = (~hard & (rho.T > 0.0) & live).T  # of rows that have a ridge as a whole
    held = ((tight & live) | free).T & ~soft
    for task, h in zip(tasks, held, strict=True):
        task.hold(h)
    dual = np.array([k * task.dual for k, task in zip(kappa, tasks, strict=True)])
    away = np.array([task.away for task in tasks])
    broken = bool((W.T[np.isinf(norm.factors)] != 0.0).any()) or not np.isfinite(W).all()
    if broken or any(vacuous(design) for design in designs):
        return float("inf"), None if broken else Doubt("underflow"), gradients
    root = np.array([k * t.spread * np.sqrt(x.squares) for k, t, x in zip(kappa, tasks, designs, strict=True)])
    bound, cost, ridge = live.T & ~held & ~soft, norm.values(W.T), 0.5 * rho * W**2
    softly = norm.total(soft.T) > 0.0

    def gap(noise: Floats, away: Floats, blurs: Floats) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            hidden = np.where(bound, noise + _times(away, root), 0.0)
            size = norm.dual(np.where(bound, dual, 0.0).T) + norm.dual(hidden.T)
            scale = min(1.0, 1.0 / max(float(size.max(initial=0.0)), np.finfo(float).tiny))
            for share in INSIDE:  # squared loss has a dual point of every size
                parts = zip(kappa, tasks, away, blurs, strict=True)
                loss = sum(k * task.apart(share * scale, a, b) for k, task, a, b in parts)
                if np.isfinite(loss):
                    scale *= share
                    break
            fit = norm.total(np.where(bound & (W != 0.0), W * dual - np.abs(W) * hidden, 0.0).T)
            slack = np.maximum(cost - scale * fit, 0.0) + norm.total(np.where(soft, 0.0, ridge).T)
            if softly.any():
                own = np.where(soft, noise + _times(away, root), 0.0)
                of_ridge = _ridge_slack(norm, W, scale * dual, rho, soft, free.T, own, cost)
                slack = np.where(softly, of_ridge, slack)
            primal = sum(k * task.primal(b) for k, task, b in zip(kappa, tasks, blurs, strict=True))
            return float(
                np.fmin(loss + slack.sum(), primal + cost.sum() + ridge.sum())  # u = 0 is feasible, too
            )

    blurs = np.array([task.blur for task in tasks])
    found = over_unit(gap(noise, away, blurs), unit)
    if found <= GAP:
        return found, None, gradients
    i = int(np.argmax(np.sqrt(kappa) * away))
    doubt = few_digits(designs[i], away[i] * tasks[i].spread, np.flatnonzero(held[i])) if held[i].any() else None
    if doubt is None:
        exact = over_unit(gap(0.0 * noise, np.where(np.isfinite(away), 0.0, away), 0.0 * blurs), unit)
        doubt = Doubt("rounding" if exact <= 0.1 * found else "far")
    return found, replace(doubt, task=i), gradients


def _times(away: Floats, root: Floats) -> Floats:
    """(m, d): away (m,) times root (m, d), 0 where either is."""
    return np.multiply(away[:, None], root, out=np.zeros_like(root), where=(root > 0.0) & (away[:, None] > 0.0))


def _ridges(designs: Sequence[Design]) -> Floats:
    """(m, d): rho"""
    found = [apart(design)[1] for design in designs]
    d = designs[0].d
    return np.array([np.zeros(d) if r is None else k * r for k, r in zip(_scales(designs), found, strict=True)])


def _ridge_slack(
    norm: RowNorm,
    W: Floats,
    dual: Floats,
    rho: Floats,
    soft: np.ndarray,
    free: np.ndarray,
    hidden: Floats,
    cost: Floats,
) -> Floats:
    """(d,): what rows with a ridge add to the gap; arrays are (m, d), `hidden` is what rounding may hide of `dual`."""
    q = np.where(soft & ~free, dual - rho * W, 0.0)
    size = norm.dual(q.T)
    p = q / norm.spread(np.maximum(size, 1.0)).T
    at_zero = norm.total((W != 0.0).T) == 0.0
    inside = at_zero & (size + norm.dual(np.where(soft & ~free, hidden, 0.0).T) <= 1.0)
    hidden = np.where(norm.spread(inside).T & ~free, 0.0, hidden)
    apart = np.abs(W - np.divide(dual - p, rho, out=np.zeros_like(W), where=soft))
    apart += np.divide(hidden, rho, out=np.zeros_like(W), where=soft)
    return np.asarray(
        np.maximum(cost - norm.total((p * W).T), 0.0) + norm.total(np.where(soft, 0.5 * rho * apart**2, 0.0).T)
    )


@np.errstate(over="ignore", invalid="ignore")  # likewise
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
    slack = np.abs(values - norm.total((G * W).T))
    slack = np.divide(slack, values, out=np.zeros_like(slack), where=values > 0)
    coupled = norm.spread(np.maximum(beyond, slack)).T * np.where(free, 0.0, correlation)
    return float(max(coupled.max(initial=0.0), np.where(free, correlation, 0.0).max(initial=0.0)))


# ------------------------------------------------------------------ uniqueness


def _dependent(designs: Sequence[Any], W: Floats, norm: RowNorm, gradients: Floats) -> tuple[Ints, ...]:
    """For every task the features in a direction along which W may move without leaving the set of minimisers.

    All minimisers have the same fit and the same gradient g. The gradient says how a row can move: a group norm's row along
    g^j / f^2 only; a Dirty row with its level t (entries with 0 < |g| < lam_s f follow it), and on their own where |g| is 0
    or lam_s f; a row with a common value with that (if |sum_i g_i| is c), and on their own where |g| is a f (if all can,
    the common value adds nothing). If all these movements change the fit in independent directions, W is the only minimiser.
    """
    m, kappa, live = len(W), _scales(designs), _live(designs, norm)
    bare = [apart(design)[0] for design in designs]
    views = duals(bare, W) if of_losses(bare) else None

    def columns(i: int, features: Ints) -> Floats | None:
        """Of one task, with what a ridge adds."""
        if views is None:
            X: Floats | None = designs[i].columns(features)
            return X
        return ridge_rows(designs[i], views[i].independent_columns(features), features)

    if ((_ridges(designs).T > 0.0) | ~live).all():  # strictly convex in all of them
        return tuple(np.empty(0, dtype=np.intp) for _ in designs)
    free = norm.free() & live
    none = np.empty(0, dtype=np.intp)
    G = np.where(live & ~free, gradients.T, 0.0)
    parts = [k * np.sqrt(x.squares) * gradient_noise(x, w[None])[0] for x, w, k in zip(designs, W, kappa, strict=True)]
    noise = np.where(live & ~free, np.array(parts).T, 0.0)  # of the gradient
    slack = EQUICORRELATION + norm.dual(noise)
    at_bound = (norm.dual(G) >= 1.0 - slack) | (norm.total((W != 0.0).T) > 0.0)
    alone = free.copy()
    f = np.where(np.isfinite(norm.factors) & (norm.factors > 0), norm.factors, 1.0)
    own = np.zeros(G.shape)  # directions of groups within a task
    if isinstance(norm, BlockDirty | SharedBlocks):
        along, moving, own = _ways_of_groups(norm, G, noise, slack, alone, at_bound, live & ~free)
    elif isinstance(norm, DirtyNorm):
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
        along, moving = G / f / f, at_bound & (norm.total(G != 0.0) > 0.0)
    rows = np.flatnonzero(norm.spread(moving)[:, 0])
    blocks, owner = (rows, None) if len(moving) == len(G) else _owners(norm, moving, rows)
    M, size_of = np.zeros((len(blocks), len(blocks))), np.zeros(len(blocks))
    alone_lost: list[Ints] = []
    for i, (design, k) in enumerate(zip(designs, kappa, strict=True)):
        single = np.flatnonzero(alone[:, i])
        mine = np.flatnonzero(own[:, i])
        every = np.concatenate([single, mine, rows])
        X = columns(i, every)
        Q = design.gram_rows(every)[:, every] if X is None else X.T @ X
        length = np.sqrt(np.diag(Q)[: len(single)])
        scale = np.concatenate([1.0 / np.where(length > 0.0, length, 1.0), own[mine, i], along[rows, i] * np.sqrt(k)])
        Q = Q * np.outer(scale, scale)
        for features in norm.sums_that_are_fixed():
            levels = features[live[features, i]]
            if levels.size > 1 and alone[levels, i].all():
                at = np.searchsorted(single, levels)
                along_sum = length[at] / np.linalg.norm(length[at])
                Q[np.ix_(at, at)] += np.outer(along_sum, along_sum)
        a, features = len(single), single
        if owner is not None:  # rows of a block move together
            ways, of_mine = np.unique(norm.spread(np.arange(len(moving)))[mine, 0], return_inverse=True)
            ends = len(single), len(single) + len(ways)
            Q = _folded(
                Q, np.concatenate([np.arange(ends[0]), ends[0] + of_mine, ends[1] + owner]), ends[1] + len(blocks)
            )
            a, features = ends[1], np.concatenate([single, mine])
            length = np.sqrt(np.diag(Q)[ends[0] : a])
            scale = np.ones(len(Q))
            scale[ends[0] : a] = 1.0 / np.where(length > 0.0, length, 1.0)
            Q = Q * np.outer(scale, scale)
        if not np.isfinite(Q).all():  # nothing can be said: any of them may depend on others
            return tuple(np.concatenate([np.flatnonzero(alone[:, j]), rows]) for j in range(m))
        B = Q[:a, a:]
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
                part = _null_part(Q[:a, :a])
                if a > len(single):
                    part = np.concatenate([part[: len(single)], part[len(single) :][of_mine]])
                lost = np.unique(features[part])
        alone_lost.append(lost)
    if not any(part.size for part in alone_lost) and blocks.size:
        root = np.sqrt(np.where(size_of > 0, size_of, 1.0))
        M = M / np.outer(root, root)
        try:
            cholesky(M - 10.0 * rank_margin(len(blocks)) * np.eye(len(blocks)))
        except LinAlgError:
            part = _null_part(M)
            part = part if owner is None else part[owner]
            return tuple(rows[part & (along[rows, i] != 0.0)] for i in range(m))
    return tuple(alone_lost)


def _ways_of_groups(
    norm: BlockDirty | SharedBlocks,
    G: Floats,
    noise: Floats,
    slack: Floats,
    alone: np.ndarray,
    at_bound: np.ndarray,
    bound: np.ndarray,
) -> tuple[Floats, np.ndarray, Floats]:
    """What `_dependent` says of rows, of groups: how a group moves in all tasks together (d, m), which groups do, and how
    they move within a task (d, m), which is along the gradient there. Entries that move by themselves come to `alone`."""
    groups = norm.groups
    A = norm.deviation if isinstance(norm, SharedBlocks) else norm.lam_s * np.where(bound, norm.factors, 0.0)
    over = np.divide(G, A, out=np.zeros_like(G), where=bound & (A > 0.0))
    size = groups.lengths(over)
    close = EQUICORRELATION + groups.lengths(np.divide(noise, A, out=np.zeros_like(G), where=bound & (A > 0.0)))
    way = np.divide(over, A, out=np.zeros_like(G), where=A > 0.0)  # of the deviations of a group at the end of the ball
    ends = size >= 1.0 - close
    if isinstance(norm, SharedBlocks):
        total, c = G.sum(axis=1, keepdims=True), norm.c[:, None]
        shares = np.divide(total, c, out=np.zeros_like(total), where=c > 0.0)
        tied = (groups.lengths(shares)[:, 0] >= 1.0 - slack) & (groups.sums((norm.a > 0.0).astype(np.float64)) > 0.0)
        together = np.divide(shares, c, out=np.zeros_like(total), where=c > 0.0)
        along = np.where(bound & tied[groups.of][:, None], together, 0.0)
        lengths = groups.lengths(way) * groups.lengths(along)
        same = np.abs(groups.sums(way * along)) >= lengths * (
            1.0 - EQUICORRELATION
        )  # the part of a task can do as much
        counts = groups.sums(bound.astype(np.float64)) > 0.0
        moving = tied & (counts & ~(ends & same)).any(axis=1)
    else:
        tied = size.sum(axis=1) >= norm.lam_b / norm.lam_s * (1.0 - slack)
        at_zero = (size <= close) & tied[:, None]
        alone |= at_zero[groups.of] & bound
        ends &= at_bound[:, None]
        inside = (size > close) & (size < 1.0 - close)
        unit = np.divide(way, size[groups.of], out=np.zeros_like(way), where=size[groups.of] > 0.0)
        along = np.where(tied[groups.of][:, None] & ~at_zero[groups.of], unit, 0.0)
        moving = tied & inside.any(axis=1)
    return along, moving, np.where(ends[groups.of], way, 0.0)


def _owners(norm: RowNorm, moving: np.ndarray, rows: Ints) -> tuple[Ints, Ints]:
    """The blocks that move, and of each of their rows the place among these."""
    blocks = np.flatnonzero(moving)
    return blocks, np.searchsorted(blocks, norm.spread(np.arange(len(moving)))[rows, 0])


def _folded(Q: Floats, owner: Ints, count: int) -> Floats:
    """Q (k, k) with the rows and columns of each of `count` owners added up."""
    adds = csr_array((np.ones(len(owner)), (owner, np.arange(len(owner)))), shape=(count, len(owner)))
    return np.asarray(adds @ (adds @ Q).T)


def _null_part(M: Floats) -> np.ndarray:
    """(k,) bool: the columns that take part in a direction in which a positive semidefinite matrix of correlations (nearly)
    vanishes; all, if none of them stands out."""
    values, vectors = np.linalg.eigh(M)
    null = vectors[:, values <= max(values[0] * 10.0, 10.0 * rank_margin(len(M)))]
    part = np.abs(null).max(axis=1, initial=0.0) > 1e-6
    return part if part.any() else np.ones(len(M), dtype=bool)
