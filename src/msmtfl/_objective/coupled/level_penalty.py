"""Penalties of coefficients that are sums over levels, w_i = b + u_region(i) + v_school(i), and how far a point is from the
minimiser.

    F  =  sum_i kappa_i/2 |y_i - X_i w_i|^2  +  penalty(b)  +  sum over levels and their values v of penalty(u_v)

The sparse one, with every task counting the same; of level l the rows u^j (a feature's effects of all values) may be capped:

    kappa_i = 2 / (m n_i),   lam_0 sum_j g_j |b_j|  +  sum_l lam_l sum_j min(sum_v f_vj |u_vj|, theta_l)

The ridge, with every sample counting the same, over N = sum_i n_i:

    kappa_i = 2 / N,         lam_0 / N sum_j g_j^2 b_j^2  +  sum_l lam_l / N sum_vj f_vj^2 u_vj^2

With groups of features the sparse one has, in place of |b_j| and |u_vj|, the length of a group times the root of its size
(which is in the factors), and a cap is one of the group's sum over the values. With one level these are the penalties of
`common_penalty.py` and `pooling.py`. A point P is (height, d): b, and below it the
effects of all values, one level after the other. Nothing here is shared with the solvers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..._data.designs import NONE, Floats, Ints, with_rows
from ..penalties import bent
from ..proofs.certificates import CERTAIN, EQUICORRELATION, FAR, RowCertificate
from ..proofs.common_escapes import escaping_together, sizes_of, with_escapes
from ..proofs.dual_points import Doubt, over_unit, vacuous
from ..proofs.shared_moves import OpenMoves
from ..proofs.task_duals import duals, of_losses
from .groups import Groups
from .pooling import group_errors
from .row_norms import counted
from .task_norms import determined

SPARSE, RIDGE = "sparse", "ridge"
KINDS = (SPARSE, RIDGE)
MANY = 1500  # movements beyond which nobody looks whether the minimiser is the only one


@dataclass(frozen=True)
class LevelPenalty:
    """Of the strengths lams (1 + L,), the common part first, some may be inf: these parts are 0.

    blocks (m, 1 + L) are the parts of every task, factors (height, d) those of every entry: inf excludes it, 0 leaves it
    un-penalised. of_tasks (d, m) are the factors of the tasks' own coefficients, which norms of rows are made of. n are the
    sums of the tasks' sample weights. A stage leaves the share `slopes` (1 + L, d) of the penalty.
    """

    structure: ClassVar[str] = "levels"

    kind: str
    lams: Floats
    thetas: Floats  # (L,)
    blocks: Ints
    factors: Floats
    of_tasks: Floats
    n: Floats
    slopes: Floats | None = None
    groups: Groups | None = None

    @property
    def m(self) -> int:
        return len(self.n)

    @property
    def height(self) -> int:
        return len(self.factors)

    @property
    def convex(self) -> bool:
        return bool(np.isinf(self.thetas).all())

    @property
    def kappa(self) -> Floats:
        """(m,): how much the tasks' halves of sums of squares count."""
        if self.kind == RIDGE:
            return np.full(self.m, 2.0 / float(self.n.sum()))
        return np.asarray(2.0 / (self.m * self.n))

    @cached_property
    def parts(self) -> Ints:
        """(height,): the part that every line of a point belongs to, 0 being what is common."""
        out = np.zeros(self.height, dtype=np.intp)
        for part in range(1, self.blocks.shape[1]):
            out[self.blocks[:, part]] = part
        return out

    @cached_property
    def _strengths(self) -> Floats:
        """(height, d): the strengths of all entries before factors, inf where an entry is 0."""
        out = np.tile(self.lams[self.parts][:, None], (1, self.factors.shape[1]))
        return np.where(np.isinf(self.factors), np.inf, out)

    @cached_property
    def bounds(self) -> Floats:
        """(height, d): the weights of absolute values, inf where an entry is 0."""
        if self.kind == RIDGE:
            return np.where(np.isinf(self.ridge), np.inf, 0.0)
        out = _product(self._strengths, self.factors)
        return out if self.slopes is None else _product(out, self.slopes[self.parts])

    @cached_property
    def ridge(self) -> Floats:
        """(height, d): the second derivatives of the ridge, inf where an entry is 0."""
        if self.kind != RIDGE:
            return np.where(np.isinf(self.bounds), np.inf, 0.0)
        return _product(2.0 * self._strengths / float(self.n.sum()), self.factors**2)

    def coefs(self, P: Floats) -> Floats:
        """(m, d)"""
        return np.asarray(P[self.blocks].sum(axis=1))

    def over_blocks(self, G: Floats) -> Floats:
        """(height, d): sums of G (m, d) over the tasks that an entry is part of."""
        out = np.zeros_like(self.factors)
        for part in range(self.blocks.shape[1]):
            np.add.at(out, self.blocks[:, part], G)
        return out

    def norms(self, P: Floats) -> Floats:
        """(1 + L, d): sum_v f_vj |p_vj| of every part; of a feature in a group, the group's."""
        out = np.zeros((self.blocks.shape[1], P.shape[1]))
        sizes = counted(self.factors) * np.abs(P)
        np.add.at(out, self.parts, sizes if self.groups is None else self.groups.lengths(sizes.T)[self.groups.of].T)
        return out

    def once(self, values: Floats) -> Floats:
        """Values (..., d) of features that are the same in a group, counted once for every group."""
        return values if self.groups is None else values / self.groups.sizes[self.groups.of]

    def value(self, P: Floats) -> float:
        P = P.reshape(self.height, -1)
        if self.kind == RIDGE:
            return float(0.5 * (np.where(P != 0.0, self.ridge, 0.0) * P**2).sum())
        norms = self.norms(P)
        if self.slopes is None:
            norms[1:] = np.minimum(norms[1:], self.thetas[:, None])
        else:
            norms = norms * self.slopes
        return float(self.once(_product(np.broadcast_to(self.lams[:, None], norms.shape), norms)).sum())

    def row_norms(self, W: Floats) -> Floats:
        """(d,): how much each feature counts, for W (d, m); of a feature in a group, the group."""
        sizes = counted(self.of_tasks) * np.abs(W)
        return np.asarray((sizes if self.groups is None else self.groups.lengths(sizes)[self.groups.of]).sum(axis=1))

    def pattern(self, P: Floats) -> np.ndarray:
        """(2, p): parts and features whose effects are capped, and 0."""
        return bent(self._slopes_at(P).ravel())

    def _slopes_at(self, P: Floats) -> Floats:
        """(1 + L, d)"""
        norms = self.norms(P.reshape(self.height, -1))
        caps = np.concatenate([[np.inf], self.thetas])
        return np.where(norms >= caps[:, None], 0.0, 1.0)

    def _slopes_of(self, pattern: np.ndarray) -> Floats:
        out = np.ones((self.blocks.shape[1], self.factors.shape[1]))
        out.ravel()[pattern[0].astype(np.intp)] = 0.0
        return out

    def weights(self, pattern: np.ndarray) -> LevelPenalty:
        return self if self.convex else replace(self, slopes=self._slopes_of(pattern))

    def row_slopes(self, pattern: np.ndarray) -> Floats:
        return np.asarray(self._slopes_of(pattern).min(axis=0))

    def free_rows(self, pattern: np.ndarray) -> Ints:
        free = (self.row_slopes(pattern) == 0.0) | (self.of_tasks == 0.0).any(axis=1)
        return np.flatnonzero(free)

    def free(self) -> np.ndarray:
        """(d, m) bool"""
        open_ = (self.bounds == 0.0) & (self.ridge == 0.0)
        out: np.ndarray = open_[self.blocks[:, 1:]].any(axis=1).T
        return out

    def of_features(self, features: Ints) -> LevelPenalty:
        """The penalty of some of the features."""
        slopes = None if self.slopes is None else self.slopes[:, features]
        groups, of_tasks = None if self.groups is None else self.groups.on(features), self.of_tasks[features]
        return replace(self, factors=self.factors[:, features], of_tasks=of_tasks, slopes=slopes, groups=groups)


def _product(strengths: Floats, values: Floats) -> Floats:
    """Their product; 0 where a value is 0, whatever the strength, and inf where one of them is."""
    with np.errstate(invalid="ignore"):
        return np.where(values == 0.0, 0.0, strengths * values)


# ------------------------------------------------------------------ certificate


@np.errstate(over="ignore", invalid="ignore")  # what leaves the range of floats is not certified
def certify_levels(designs: Sequence[Any], P: Floats, penalty: LevelPenalty) -> RowCertificate:
    """Gap, optimality and uniqueness of P (height, d), for the penalty of a stage.

    The loss is convex: with G minus its gradient at P, no point Z is better by more than

        G'(Z - P) + penalty(P) - penalty(Z)

    An entry with the weight a adds a |p| - G p + max(|G| - a, 0) |z|, and as F(Z) <= F(P), the sum of all a |z| is at most
    F(P). A ridge r adds the square of the slope over 2 r. What nothing penalises is looked for within FAR times its size;
    what nearly dependent columns hide from slopes (`shared_moves.py`), and rounding from gradients, is added to them.
    """
    none = (NONE,) * len(designs)
    if any(vacuous(design) for design in designs):
        return RowCertificate(float("inf"), float("inf"), False, none, Doubt("underflow"))
    gap, exact, kkt = _gap(designs, P, penalty)
    if gap > CERTAIN and not of_losses(designs) and any(design.target is None for design in designs):
        again = _gap([with_rows(design) for design in designs], P, penalty)
        if again[0] < gap:
            gap, exact, kkt = again
    doubt = None if gap <= CERTAIN else Doubt("rounding" if exact <= 0.1 * gap else "far")
    dependent = _dependent(designs, P, penalty)
    unique = gap <= 1e-6 and not any(map(np.size, dependent))
    proof = RowCertificate(gap, kkt, unique, dependent, doubt)
    open_ = (penalty.bounds == 0.0) & (penalty.ridge == 0.0)
    away = escaping_together(designs, penalty.coefs(P), open_, _belongs(penalty))
    return with_escapes(proof, away, *sizes_of(designs, P, penalty)) if away else proof


def _belongs(penalty: LevelPenalty) -> np.ndarray:
    """(m, height) bool: which lines of a point every task has."""
    out = np.zeros((penalty.m, penalty.height), dtype=bool)
    out[np.repeat(np.arange(penalty.m), penalty.blocks.shape[1]), penalty.blocks.ravel()] = True
    return out


def _gap(designs: Sequence[Any], P: Floats, penalty: LevelPenalty) -> tuple[float, float, float]:
    """The relative gap, what it would be without rounding, and the largest violation of the optimality conditions as a
    correlation."""
    W, kappa = penalty.coefs(P), penalty.kappa
    tasks = duals(designs, W)
    fixed = np.isinf(penalty.bounds)
    if (P[fixed] != 0.0).any() or not np.isfinite(P).all() or any(getattr(task, "lost", False) for task in tasks):
        return float("inf"), float("inf"), float("inf")
    a, ridge = np.where(fixed, 0.0, penalty.bounds), np.where(fixed, 0.0, penalty.ridge)
    of_tasks = np.array([task.gradient for task in tasks])
    G = np.where(fixed, 0.0, penalty.over_blocks(kappa[:, None] * of_tasks))
    hidden = np.where(fixed, 0.0, penalty.over_blocks(kappa[:, None] * np.array([task.noise for task in tasks])))
    squares = penalty.over_blocks(kappa[:, None] * np.array([design.squares for design in designs]))
    yy = penalty.over_blocks(np.repeat((kappa * np.array([d.yy for d in designs]))[:, None], P.shape[1], axis=1))
    unit = float(sum(k * task.unit for k, task in zip(kappa, tasks, strict=True)))
    total = float(sum(k * task.primal(task.blur) for k, task in zip(kappa, tasks, strict=True))) + penalty.value(P)
    open_ = (a == 0.0) & (ridge == 0.0) & ~fixed
    alone = np.sqrt(np.divide(2.0 * unit, squares, out=np.zeros_like(squares), where=squares > 0.0))
    reach = FAR * np.maximum(np.maximum(np.abs(P), alone), penalty.over_blocks(np.abs(W)))
    slopes = G - ridge * P
    moves, bounded = OpenMoves(designs, kappa, open_, _belongs(penalty), ridge), a > 0.0
    most = np.divide(total, a, out=np.zeros_like(a), where=bounded) + np.where(bounded, np.abs(P), 0.0)
    moved = moves.moved(np.where(ridge > 0.0, 0.0, most)) if moves.any else 0.0

    def bounded_parts(noise: Floats) -> tuple[float, float]:
        """What entries with a norm are apart from it, added up, and the largest share that a gradient is over its weight."""
        blur = noise * np.abs(P)
        if penalty.groups is None:
            apart = np.where(bounded, np.maximum(a * np.abs(P) - G * P, 0.0) + blur, 0.0)
            over = np.divide(np.maximum(np.abs(G) + noise - a, 0.0), a, out=np.zeros_like(G), where=bounded)
            return float(apart.sum()), float(over.max(initial=0.0))
        groups, weight = penalty.groups, np.where(bounded, a, 0.0)
        fit = groups.sums(np.where(bounded, G * P, 0.0).T)
        of_norms = np.maximum(groups.lengths((weight * P).T) - fit, 0.0)
        sizes = (groups.lengths(np.divide(x, a, out=np.zeros_like(G), where=bounded).T) for x in (G, noise))
        over = np.maximum(sum(sizes) - 1.0, 0.0)
        return float(of_norms.sum() + np.where(bounded, blur, 0.0).sum()), float(over.max(initial=0.0))

    def gain(noise: Floats) -> float:
        linear = np.where(open_, (np.abs(slopes) + noise) * reach, 0.0)
        squared = moves.set_aside * (np.abs(slopes) + noise) ** 2
        square = np.divide(squared, 2.0 * ridge, out=np.zeros_like(G), where=ridge > 0.0)
        apart, over = bounded_parts(noise)
        found = float(linear.sum() + square.sum() + apart + over * total)
        return found + moves.gain(slopes, noise, moved)

    if penalty.groups is None:
        violated = np.where(P != 0.0, np.abs(slopes - a * np.sign(P)), np.maximum(np.abs(slopes) - a, 0.0))
    else:
        violated = np.where(fixed, 0.0, group_errors(P, a, slopes, penalty.groups))
    lengths = np.sqrt(squares * yy)
    kkt = np.divide(violated, lengths, out=np.zeros_like(G), where=(lengths > 0.0) & ~fixed).max(initial=0.0)
    return over_unit(gain(hidden), unit), over_unit(gain(np.zeros_like(hidden)), unit), float(kkt)


def _reached(G: Floats, penalty: LevelPenalty) -> Floats:
    """(height, d): gradients over what they may be; of a group, its length."""
    bound = penalty.bounds
    sizes = np.divide(
        np.abs(G), bound, out=np.where(bound == 0.0, np.inf, 0.0), where=(bound > 0.0) & np.isfinite(bound)
    )
    if penalty.groups is None:
        return sizes
    counted_ = np.where(np.isinf(sizes), 0.0, sizes)
    return np.where(np.isinf(sizes), np.inf, penalty.groups.lengths(counted_.T)[penalty.groups.of].T)


def _dependent(designs: Sequence[Any], P: Floats, penalty: LevelPenalty) -> tuple[Ints, ...]:
    """Of each task: features of a direction that may be free. Entries move whose gradient is at its bound, and those that
    nothing penalises; if all these movements change the fit wherever they change the tasks' coefficients, these are the only
    minimisers (what is said of it is about them: a value that all schools of a region share may as well be the region's)."""
    fixed = np.isinf(penalty.bounds)
    kappa, m = penalty.kappa, penalty.m
    views = duals(designs, penalty.coefs(P))
    live = np.array([design.squares > 0.0 for design in designs])
    G = penalty.over_blocks(kappa[:, None] * np.array([view.gradient for view in views]))
    moves = ~fixed & (penalty.ridge == 0.0) & (_reached(G, penalty) >= 1.0 - EQUICORRELATION)
    moves |= (P != 0.0) & (penalty.ridge == 0.0)
    moves &= penalty.over_blocks(live.astype(np.float64)) > 0.0
    none = (NONE,) * m
    block, feature = np.nonzero(moves)
    if block.size == 0:
        return none
    all_of_them = tuple(np.flatnonzero(one & np.isfinite(f)) for one, f in zip(live, penalty.of_tasks.T, strict=True))
    if block.size > MANY:
        return all_of_them
    M, of_W = np.zeros((block.size, block.size)), np.zeros((block.size, block.size))
    for i, (design, view) in enumerate(zip(designs, views, strict=True)):
        at = np.flatnonzero(np.isin(block, penalty.blocks[i]) & live[i][feature])
        if at.size == 0:
            continue
        E, place = np.unique(feature[at], return_inverse=True)
        if of_losses(designs):
            X = view.independent_columns(E)
            products = X.T @ X
        else:
            products = design.gram_block(E, E)
        M[np.ix_(at, at)] += kappa[i] * products[np.ix_(place, place)]
        of_W[np.ix_(at, at)] += (feature[at][:, None] == feature[at]).astype(np.float64)
    return none if determined(M, of_W) else all_of_them
