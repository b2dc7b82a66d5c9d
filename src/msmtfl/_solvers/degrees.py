"""Degrees of freedom of a solution: how much of its targets it follows.

    df_i = sum over the samples r of task i of  d fitted_r / d y_r

The mean of this divergence is  sum_r cov(fitted_r, y_r) / sigma^2  (Stein 1981), as long as the fitted values are a
continuous
function of y: they are for penalties that are convex, and are not where a threshold decides what is penalised. While a
solution keeps its form, it moves with y as the minimiser of a quadratic function does:

    lasso            the coefficients that are not 0 move, each by itself: df is their rank (Zou, Hastie and Tibshirani 2007;
                     Tibshirani and Taylor 2012)
    Dirty, shared    so do those of the rows' levels, the entries at a level together: df is the dimension of the face, of
    values           which the data see no more than their rank (Vaiter, Deledalle, Fadili, Peyre and Dossal 2017)
    L1,2             all entries of the rows in use move, against the curvature of their norm (the same; for orthogonal
                     columns Yuan and Lin 2006)
    with a ridge     what moves does so against the ridge as well: df is the trace of what makes fitted values of targets (of
                     common values and deviations each with its own)
    partial pooling  the same, nothing being 0 (`Pooling.degrees`)

A loss that is not squared counts as the parabola that touches it at the solution does.

`benchmarks/studies/degrees_of_freedom.py` holds these against the covariances themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cholesky, eigh

from .._data.designs import Design, Floats, Ints
from .._objective.coupled.common_penalty import SharedBlocks
from .._objective.coupled.groups import BlockDirty, BlockNorm, Groups
from .._objective.loss_task import LossTask

RANK = 1e-9  # of the largest eigenvalue of a matrix with ones on its diagonal: what is smaller counts as 0
FIXED = 1e8  # times a column's own curvature: that of a coefficient at its bound
TIED = 1e-9  # relative difference of entries at the same level


class Curved(Protocol):
    """What is asked of a task: the number of its samples, how many are independent, and sums of products of columns."""

    @property
    def n(self) -> float: ...

    @property
    def order(self) -> int: ...

    def gram_block(self, some: Ints, others: Ints) -> Floats: ...


@dataclass(frozen=True)
class Form:
    """How a solution moves with its targets as long as it keeps its form.

    Task i's coefficients at the features own[i] move each by itself; that at shared[q] moves by follow[i, q] times s_q,
    which the tasks have in common. The penalty, on the scale of the objective, has second derivatives bend[i] along own[i],
    stiff (q,) along s, and pull[i] (len(own[i]), q) between them. Of groups of features bend and stiff are matrices.
    """

    own: list[Ints]
    bend: list[Floats]
    shared: Ints
    follow: Floats
    stiff: Floats
    pull: list[Floats]


def face(own: Sequence[Ints], shared: Ints, follow: Floats) -> Form:
    """The form of a penalty that is linear as long as the solution keeps it."""
    bend, pull = [np.zeros(len(part)) for part in own], [np.zeros((len(part), len(shared))) for part in own]
    return Form(list(own), bend, shared, follow, np.zeros(len(shared)), pull)


def stiffened(form: Form, ridge: Floats) -> Form:
    """The same with a ridge, of which (m, d) are the second derivatives."""
    bend = [_plus(old, of_task[own]) for old, own, of_task in zip(form.bend, form.own, ridge, strict=True)]
    return replace(form, bend=bend, stiff=_plus(form.stiff, (ridge[:, form.shared] * form.follow**2).sum(axis=0)))


def _plus(bend: Floats, more: Floats) -> Floats:
    """Second derivatives, a matrix or its diagonal, with more on the diagonal."""
    return bend + (more if bend.ndim == 1 else np.diag(more))


def _matrix(bend: Floats) -> Floats:
    return np.diag(bend) if bend.ndim == 1 else bend


def common_form(own: Sequence[Ints], shared: Ints, ridge: Floats) -> Form:
    """Common values b at the features `shared` and deviations v_i at own[i], entries being b + v_i, with a ridge: (m + 1, d)
    are its second derivatives, those of b first."""
    form = face(own, shared, np.ones((len(own), len(shared))))
    bend = [of_task[mine] for mine, of_task in zip(own, ridge[1:], strict=True)]
    return replace(form, bend=bend, stiff=ridge[0, shared])


def group_form(W: Floats, a: Floats, factors: Floats) -> Form:
    """Of W (d, m) under  sum_j a_j |f_j w^j|_2, factors f (d, m): every entry of a row in use by itself. The curvature of a
    row's norm couples them: it is that of  a/2 (sum_i (f_i w_i)^2 / s + s)  at its minimum over s, s = |f w|_2."""
    counts = np.isfinite(factors)
    F = np.where(counts, factors, 0.0)
    norms = np.sqrt(((F * W) ** 2).sum(axis=1))
    used = np.flatnonzero(W.any(axis=1))
    shared = used[(norms[used] > 0.0) & (a[used] > 0.0)]
    ratio = np.zeros_like(norms)
    ratio[shared] = a[shared] / norms[shared]
    own = [used[counts[used, i]] for i in range(W.shape[1])]
    bend = [ratio[mine] * F[mine, i] ** 2 for i, mine in enumerate(own)]
    pull = [
        np.where(mine[:, None] == shared, -(ratio * F[:, i] ** 2 * W[:, i])[shared] / norms[shared], 0.0)
        for i, mine in enumerate(own)
    ]
    return Form(own, bend, shared, np.zeros((W.shape[1], len(shared))), ratio[shared], pull)


def block_form(W: Floats, norm: BlockNorm) -> Form:
    """Of W (d, m) under a norm of groups of rows: every entry of a group in use by itself, coupled by the curvature of the
    group's norm as those of a row are (`group_form`)."""
    groups, counts = norm.groups, np.isfinite(norm.factors)
    F = np.where(counts, norm.factors, 0.0)
    norms = norm.values(W)
    used = np.flatnonzero(groups.sums(np.abs(W)).sum(axis=1)[groups.of] > 0.0)
    shared = np.flatnonzero(norms > 0.0)
    ratio = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)[groups.of]
    own = [used[counts[used, i] & ((F[used, i] > 0.0) | (W[used, i] != 0.0))] for i in range(W.shape[1])]
    bend = [ratio[mine] * F[mine, i] ** 2 for i, mine in enumerate(own)]
    pull = [
        np.where(groups.of[mine][:, None] == shared, -(ratio**2 * F[:, i] ** 2 * W[:, i])[mine][:, None], 0.0)
        for i, mine in enumerate(own)
    ]
    firsts = np.array([groups.members[g][0] for g in shared.tolist()], dtype=np.intp)
    return Form(own, bend, firsts, np.zeros((W.shape[1], len(shared))), 1.0 / norms[shared], pull)


def _bent(w: Floats, a: Floats, groups: Groups) -> Floats:
    """(d, d): second derivatives of  sum_g |(a w)_g|_2  at w, in groups that are not 0."""
    norms = groups.lengths((a * w)[:, None])[groups.of, 0]
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)
    slope = a**2 * w * inverse
    same = groups.of[:, None] == groups.of
    return np.asarray(np.diag(a**2 * inverse) - np.where(same, np.outer(slope, slope) * inverse, 0.0))


def shared_block_form(W: Floats, norm: SharedBlocks, held: np.ndarray, ridge: Floats | None) -> Form:
    """Of common values b, those of the norm, and W (m, d): deviations move each by itself, and b with what is not `held`,
    against the curvature of the norms of groups. What is held, its deviation makes up for b. `ridge` (m + 1, d): second
    derivatives of a ridge on both."""
    m, d = W.shape
    b, groups = norm.common_part, norm.groups
    rho = np.zeros((m + 1, d)) if ridge is None else ridge
    V, shared = W - b, np.flatnonzero(b)
    c = np.where(np.isfinite(norm.c), norm.c, 0.0)
    stiff = (_bent(b, c, groups) + np.diag(rho[0]))[np.ix_(shared, shared)]
    own, bend, pull = [], [], []
    for v, a, r, at in zip(V, norm.deviation.T, rho[1:], held, strict=True):
        H = _bent(v, np.where(np.isfinite(a), a, 0.0), groups) + np.diag(r)
        own.append(np.flatnonzero((v != 0.0) & ~at))
        bend.append(H[np.ix_(own[-1], own[-1])])
        against = H[:, shared] * at[shared]  # what is held, on its columns
        pull.append(-against[own[-1]])
        stiff = stiff + against[shared] * at[shared][:, None]
    return Form(own, bend, shared, np.where(held[:, shared], 0.0, 1.0), stiff, pull)


def traces_of_dirty_blocks(
    designs: Sequence[Curved], W: Floats, norm: BlockDirty, G: Floats, held: np.ndarray, ridge: Floats
) -> Floats:
    """(m,): what `traces` are of other models, of W (m, d) under Dirty's norm of groups, G (m, d) being minus the gradient
    of the loss. The group of a task moves against the curvature of its length, times what the gradient says that a length
    costs; groups of tasks at the same level stay as long as each other. `held` (m, d) bool stay where they are; `ridge`
    (m, d) are second derivatives of a ridge."""
    groups, kappa = norm.groups, [2.0 / (len(designs) * design.n) for design in designs]
    f = np.where(np.isfinite(norm.factors), norm.factors, 0.0)
    lengths = groups.lengths(f * W.T)
    on = (f > 0.0) & ~held.T  # what is held is pressed beside
    unit = np.divide(f * W.T, lengths[groups.of], out=np.zeros_like(f), where=lengths[groups.of] > 0.0)
    sizes = groups.lengths(np.where(on, unit, 0.0))
    costs = groups.lengths(np.divide(G.T, f, out=np.zeros_like(f), where=on))
    costs = np.divide(costs, sizes, out=np.zeros_like(costs), where=sizes > 0.0)
    level = (costs > TIED * norm.lam_s) & (costs < (1.0 - TIED) * norm.lam_s) & (lengths > 0.0)
    own = [np.flatnonzero((w != 0.0) & ~at) for w, at in zip(W, held, strict=True)]
    longer = f.T**2 * W  # the slopes of lengths, times these
    ends = np.cumsum([0, *(len(mine) for mine in own)])
    columns: list[Floats] = []
    for i, mine in enumerate(own):  # ways in which the entries of a task move by themselves
        moves = np.eye(len(mine))
        for g in np.flatnonzero(level[:, i]).tolist():
            at = np.flatnonzero(groups.of[mine] == g)
            if at.size:
                moves[np.ix_(at, at)] = _across(longer[i, mine[at]])
        kept = moves[:, moves.any(axis=0)]
        columns.append(np.zeros((ends[-1], kept.shape[1])))
        columns[-1][ends[i] : ends[i + 1]] = kept
    for g in np.flatnonzero(level.any(axis=1)).tolist():  # and those at the same level with each other
        along = np.zeros((ends[-1], 1))
        for i in np.flatnonzero(level[g]).tolist():
            at = np.flatnonzero(groups.of[own[i]] == g)
            normal = longer[i, own[i][at]]
            if not at.size:  # a length that bounds fix
                break
            along[ends[i] + at, 0] = normal * lengths[g, i] / (normal @ normal)
        else:
            columns.append(along)
    Z = np.hstack(columns)
    H, parts = np.zeros((Z.shape[1], Z.shape[1])), []
    for i, (mine, design) in enumerate(zip(own, designs, strict=True)):
        ways = Z[ends[i] : ends[i + 1]]
        loss = ways.T @ (kappa[i] * np.asarray(design.gram_block(mine, mine))) @ ways
        bend = np.minimum(costs[:, i], norm.lam_s)[groups.of][:, None] * _bent(W[i], f[:, i], groups)
        H += loss + ways.T @ (bend[np.ix_(mine, mine)] + np.diag(ridge[i, mine])) @ ways
        parts.append(loss)
    inverse = pseudo_inverse(H)
    out = [np.einsum("ij,ji->", inverse, part) for part in parts]
    return np.asarray(np.clip(out, 0.0, [design.order for design in designs]))


def _across(normal: Floats) -> Floats:
    """(k, k): directions orthogonal to a normal (k,), and a column of 0."""
    vectors = np.linalg.svd(normal[None])[2]
    vectors[0] = 0.0
    return np.asarray(vectors.T)


def of_one_task(design: Any, w: Floats, a: Floats, groups: Groups, ridge: Floats | None) -> float:
    """Degrees of freedom of w under one task's weighted group lasso and ridge (d,), in the task's own sums."""
    norm = BlockNorm((2.0 / design.n * a)[:, None], groups)
    form = block_form(w[:, None], norm)
    if ridge is not None:
        form = stiffened(form, 2.0 / design.n * ridge[None])
    return float(traces(curved([design], w[None]), form)[0])


def level_form(W: Floats, factors: Floats) -> Form:
    """Of W (d, m) under a norm that ties entries of a row: those of the same size f_i |w_i| move together, the others that
    are not 0 each by itself."""
    m = W.shape[1]
    sizes = np.where(np.isfinite(factors), factors, 0.0) * np.abs(W)
    alone, shared, follow = W != 0.0, [], []
    for j in np.flatnonzero(np.count_nonzero(sizes, axis=1) > 1).tolist():
        order = np.argsort(sizes[j], kind="stable")
        order = order[sizes[j, order] > 0.0]
        rising = sizes[j, order]
        for tied in np.split(order, np.flatnonzero(np.diff(rising) > TIED * rising[1:]) + 1):
            if len(tied) > 1:
                alone[j, tied] = False
                shared.append(j)
                follow.append(np.zeros(m))
                follow[-1][tied] = np.sign(W[j, tied]) / factors[j, tied]
    own = [np.flatnonzero(mine) for mine in alone.T]
    return face(own, np.array(shared, dtype=np.intp), np.reshape(follow, (len(shared), m)).T)


class Touching:
    """What `traces` asks of a task, if its loss is not squared: that of the parabola that touches the loss at w.

    Sums are over samples that weigh as much as the loss is curved there, centred with these weights if the task has an
    intercept.
    """

    def __init__(self, design: LossTask, w: Floats):
        self.design, self.n, self.order = design, design.n, design.order
        self.f = design.predictor(w)
        self.bend = design.of_loss.curvature(design.y, self.f)

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        return np.asarray(self._columns(some).T @ self._columns(others))

    def _columns(self, features: Ints) -> Floats:
        design, X = self.design, self.design.block(features)
        weight = design.v * self.bend
        if design.centred and weight.any():
            X = X - weight @ X / float(weight.sum())
        return design.of_loss.root(X, design.v, self.f, self.bend)


def curved(designs: Sequence[Any], W: Floats) -> Sequence[Any]:
    """Tasks whose sums are those of second derivatives at W (m, d), whatever their loss is."""
    return [Touching(x, w) if isinstance(x, LossTask) else x for x, w in zip(designs, W, strict=True)]


def traces(designs: Sequence[Curved], form: Form) -> Floats:
    """(m,): every task's degrees of freedom.

    With D_i the second derivatives of task i's loss in its own coefficients and s, and H those of the objective, they are
    tr(H^-1 D_i). Only s couples the tasks, so that a Schur complement in s is enough; of singular matrices the
    pseudo-inverse.
    """
    kappa = [2.0 / (len(designs) * design.n) for design in designs]
    S = _matrix(form.stiff)
    left, right, out = S.copy(), [], np.zeros(len(designs))
    for i, design in enumerate(designs):
        own, shared, follow = form.own[i], form.shared, form.follow[i]
        G = kappa[i] * np.asarray(design.gram_block(own, own))
        between = kappa[i] * np.asarray(design.gram_block(own, shared)) * follow
        of_shared = kappa[i] * np.asarray(design.gram_block(shared, shared)) * np.outer(follow, follow)
        inverse = pseudo_inverse(G + _matrix(form.bend[i]))
        mixed = between + form.pull[i]
        along = inverse @ mixed  # how its own coefficients give way to s
        out[i] = np.einsum("ij,ji->", inverse, G)
        left += of_shared - mixed.T @ along
        S += of_shared
        right.append(along.T @ G @ along - along.T @ between - between.T @ along + of_shared)
    if len(form.shared):
        unit = np.sqrt(S.diagonal() + (S.diagonal() == 0.0))
        inverse = pseudo_inverse(left, unit)
        out += [np.einsum("ij,ji->", inverse, part) for part in right]
    return np.clip(out, 0.0, [design.order for design in designs])


def pseudo_inverse(A: Floats, unit: Floats | None = None) -> Floats:
    """Of a symmetric positive semi-definite A, eigenvalues of A / unit unit' that are small counting as 0; the unit is by
    default the root of the diagonal."""
    if unit is None:
        unit = np.sqrt(np.where(A.diagonal() > 0.0, A.diagonal(), 1.0))
    scale = np.outer(unit, unit)
    C = 0.5 * (A + A.T) / scale
    if not len(C):
        return C
    try:
        cholesky(C - RANK * np.eye(len(C)))  # regular, with a margin
        return np.asarray(np.linalg.inv(C) / scale)
    except LinAlgError:
        values, vectors = eigh(C)
        keep = values > RANK * max(float(values[-1]), 1.0)
        return np.asarray((vectors[:, keep] / values[keep]) @ vectors[:, keep].T / scale)


def rank_of(design: Design, features: Ints) -> int:
    """Of some columns; where only sums are at hand, as many as can be independent."""
    most = min(len(features), design.order)
    block: Any = getattr(design, "gram_block", None)
    columns: Any = getattr(design, "columns", None)
    if most == 0 or (block is None and columns is None):
        return most
    length = np.sqrt(np.where(design.squares[features] > 0.0, design.squares[features], 1.0))
    X = None if block is not None or columns is None else columns(features)
    G = (block(features, features) if X is None else X.T @ X) / np.outer(length, length)
    values = eigh(G, eigvals_only=True)
    return min(most, int((values > RANK * max(float(values[-1]), 1.0)).sum()))
