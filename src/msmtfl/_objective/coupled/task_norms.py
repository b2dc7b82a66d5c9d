"""Penalties with a norm of every task's deviations, w_i = common part + v_i, and how far a point is from the minimiser.

    F  =  sum_i kappa_i/2 |y_i - X_i w_i|^2  +  sum_i a_i |f_i v_i|_2  +  R(common part)

ARMUL (Duan and Wang, 2023), `CentreNorms`: a centre b, w_i = b + v_i, with every sample counting the same; its objective
over N = sum_i n_i, and a ridge on the centre, if it is asked for:

    kappa_i = 2 / N,    a_i = lam_deviation sqrt(n_i) / N,    R = lam_common / N |g b|^2

rMTFL (Gong, Ye and Zhang, 2012), `RowNorms`: W = P + Q, Q being V, with every task counting the same:

    kappa_i = 2 / (m n_i),    a_i = lam_deviation,            R = lam_common sum_j |f_j p^j|_2

or of groups of features, lam_common sum_g p_g^1/2 |(f P)_g|_2.

A norm leaves the deviations of a task at 0 as a whole, or none of them. A point is (height, d): b, or P (m, d), and below it
V (m, d). Nothing here is shared with the solver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..._data.designs import NONE, Floats, Ints, with_rows
from ..penalties import bent
from ..proofs.certificates import CERTAIN, EQUICORRELATION, FAR, RowCertificate, full_rank
from ..proofs.common_escapes import escaping_together, sizes_of, with_escapes
from ..proofs.dual_points import Doubt, over_unit, vacuous
from ..proofs.pressed import slack_of
from ..proofs.shared_moves import OpenMoves
from ..proofs.task_duals import duals, of_losses
from .groups import BlockNorm, Groups
from .row_norms import GroupNorm, counted, lengths

SAME_W = 1e-12  # of the largest eigenvalue: what rounding leaves of movements that add up to none


@dataclass(frozen=True)
class _TaskNorms:
    """Of the strengths one may be inf: then the deviations, or the common part, are 0.

    factors f is (d, m), scales g is (d,); inf excludes a feature, 0 leaves it un-penalised: its values are then found in V.
    n are the sums of the tasks' sample weights. With `deviating` (m,) bool these tasks deviate at no cost, and no others do.
    """

    structure: ClassVar[str] = "robust"
    convex: ClassVar[bool] = True

    lam_deviation: float
    lam_common: float
    factors: Floats
    scales: Floats
    n: Floats
    deviating: np.ndarray | None = None

    @property
    def m(self) -> int:
        return len(self.n)

    @property
    def height(self) -> int:
        raise NotImplementedError

    @property
    def kappa(self) -> Floats:
        """(m,): how much the tasks' halves of sums of squares count."""
        raise NotImplementedError

    @property
    def bounds(self) -> Floats:
        """(m,): a_i, the strengths of the norms of deviations."""
        return self._strengths if self.deviating is None else np.where(self.deviating, 0.0, np.inf)

    @property
    def _strengths(self) -> Floats:
        raise NotImplementedError

    def common_value(self, common: Floats) -> float:
        raise NotImplementedError

    def coefs(self, P: Floats) -> Floats:
        """(m, d)"""
        return np.asarray(P[: -self.m] + P[-self.m :])

    def scaled_down(self, G: Floats) -> Floats:
        """G (m, d) over f where a deviation has a finite penalty factor above 0, else 0."""
        out = np.zeros_like(G)
        return np.divide(G, self.factors.T, out=out, where=self.penalised)

    @cached_property
    def penalised(self) -> np.ndarray:
        """(m, d) bool"""
        f = self.factors.T
        return np.asarray((f > 0.0) & np.isfinite(f))

    def scaled_up(self, P: Floats) -> Floats:
        """|f P| (m, d)"""
        return np.asarray(counted(self.factors).T * np.abs(P))

    def deviation_norms(self, V: Floats) -> Floats:
        """(m,): |f_i v_i|_2"""
        return lengths(counted(self.factors).T * V)

    def value(self, P: Floats) -> float:
        P = P.reshape(self.height, -1)
        norms = self.deviation_norms(P[-self.m :])
        of_deviations = np.multiply(self.bounds, norms, out=np.zeros_like(norms), where=norms > 0.0)
        return float(of_deviations.sum()) + self.common_value(P[: -self.m])

    def row_norms(self, W: Floats) -> Floats:
        """(d,): how much each feature counts, for W (d, m)."""
        return np.asarray((counted(self.factors) * np.abs(W)).sum(axis=1))

    def pattern(self, P: Floats) -> np.ndarray:
        """Nothing that a next stage depends on: there is one."""
        return bent(np.ones(len(self.scales)))

    def weights(self, pattern: np.ndarray) -> _TaskNorms:
        return self

    def row_slopes(self, pattern: np.ndarray) -> Floats:
        return np.ones(len(self.scales))

    def free_rows(self, pattern: np.ndarray) -> Ints:
        return np.flatnonzero((self.factors == 0.0).any(axis=1))

    def free(self) -> np.ndarray:
        """(d, m) bool"""
        out: np.ndarray = self.factors == 0.0
        return out


@dataclass(frozen=True)
class CentreNorms(_TaskNorms):
    """That of ARMUL."""

    @property
    def height(self) -> int:
        return self.m + 1

    @property
    def kappa(self) -> Floats:
        return np.full(self.m, 2.0 / float(self.n.sum()))

    @property
    def _strengths(self) -> Floats:
        return np.asarray(self.lam_deviation * np.sqrt(self.n) / float(self.n.sum()))

    @property
    def ridge(self) -> Floats:
        """(d,): the second derivatives of the ridge on the centre; inf where it is 0: of features that are not penalised all
        is found in V."""
        g = self.scales
        if np.isinf(self.lam_common):
            return np.full_like(g, np.inf)
        inside = (g > 0.0) & np.isfinite(g)
        return np.where(inside, 2.0 * self.lam_common / float(self.n.sum()) * np.where(inside, g, 0.0) ** 2, np.inf)

    def common_value(self, common: Floats) -> float:
        b = common[0]
        return float(0.5 * np.where(b != 0.0, self.ridge, 0.0) @ b**2)


@dataclass(frozen=True)
class RowNorms(_TaskNorms):
    """That of rMTFL. With groups of features it is the norm of a group over all tasks, times the root of its size, that
    stands in place of a row's; deviations are those of whole tasks anyway."""

    groups: Groups | None = None

    @property
    def height(self) -> int:
        return 2 * self.m

    @property
    def kappa(self) -> Floats:
        return np.asarray(2.0 / (self.m * self.n))

    @property
    def _strengths(self) -> Floats:
        return np.full(self.m, self.lam_deviation)

    @cached_property
    def norm(self) -> GroupNorm | BlockNorm:
        """That of the rows (or groups) of P; entries that are not penalised are found in V alone."""
        factors = np.where(self.factors == 0.0, np.inf, self.factors)
        strengths = np.full(len(factors), min(self.lam_common, np.finfo(float).max))
        if self.groups is None:
            return GroupNorm(strengths, factors)
        return self.groups.norm(strengths, factors * self.groups.scale[:, None])

    def common_value(self, common: Floats) -> float:
        return self.norm.value(common.T) if common.any() else 0.0

    def row_norms(self, W: Floats) -> Floats:
        if self.groups is None:
            return super().row_norms(W)
        sizes = self.groups.lengths(self.groups.scale[:, None] * counted(self.factors) * np.abs(W))
        return np.asarray(sizes.sum(axis=1)[self.groups.of])


TaskNorms: TypeAlias = CentreNorms | RowNorms


# ------------------------------------------------------------------ certificate


@np.errstate(over="ignore", invalid="ignore")  # what leaves the range of floats is not certified
def certify_task_norms(designs: Sequence[Any], P: Floats, penalty: TaskNorms) -> RowCertificate:
    """Gap, optimality and uniqueness of P (height, d).

    The loss is convex: with G minus its gradient at P, no point Z is better by more than

        G'(Z - P) + penalty(P) - penalty(Z)

    summed over blocks of entries. In a block with norm a |f z| that is  a |f p| - G'p + max(|G / f| - a, 0) |f z|,  and as
    F(Z) <= F(P), |f z| is at most F(P) / a. On a ridge rho it is the square of the slope over 2 rho. What nothing penalises
    (the centre without ridge, entries whose factors are 0) is looked for within FAR times its size; what nearly dependent
    columns hide from the slopes of a centre (`shared_moves.py`), and rounding from gradients, is added to them.
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
    away = escaping_together(designs, penalty.coefs(P), *_open(penalty))
    return with_escapes(proof, away, *sizes_of(designs, P, penalty)) if away else proof


def _open(penalty: TaskNorms) -> tuple[np.ndarray, np.ndarray]:
    """(height, d) bool: what nothing penalises; and (m, height) bool: which lines of a point every task has."""
    centre, own, free = isinstance(penalty, CentreNorms), np.eye(penalty.m, dtype=bool), penalty.factors.T == 0.0
    above = penalty.ridge[None] == 0.0 if isinstance(penalty, CentreNorms) else np.zeros_like(free)
    belongs = np.column_stack([np.ones((penalty.m, 1), dtype=bool) if centre else own, own])
    return np.vstack([above, free]), belongs


def _gap(designs: Sequence[Any], P: Floats, penalty: TaskNorms) -> tuple[float, float, float]:
    """The relative gap, what it would be without rounding, and the largest violation of the optimality conditions as a
    correlation."""
    W, V, common = penalty.coefs(P), P[-penalty.m :], P[: -penalty.m]
    tasks, kappa = duals(designs, W), penalty.kappa
    excluded = np.isinf(penalty.factors.T)
    if (V[excluded] != 0.0).any() or not np.isfinite(P).all() or any(getattr(task, "lost", False) for task in tasks):
        return float("inf"), float("inf"), float("inf")
    G = kappa[:, None] * np.array([task.gradient for task in tasks])
    hidden = kappa[:, None] * np.array([task.noise for task in tasks])
    squares = kappa[:, None] * np.array([design.squares for design in designs])
    yy = kappa * np.array([design.yy for design in designs])
    unit = float(sum(k * task.unit for k, task in zip(kappa, tasks, strict=True)))
    total = float(sum(k * task.primal(task.blur) for k, task in zip(kappa, tasks, strict=True))) + penalty.value(P)
    sizes = np.sqrt(np.divide(2.0 * unit, squares, out=np.zeros_like(squares), where=squares > 0.0))
    looked = _Looked(G, squares, yy, total, FAR * np.maximum(np.abs(W), sizes))

    moves, moved = _open_moves(designs, P, penalty, total)

    def of_common(noise: Floats) -> tuple[float, float]:
        if isinstance(penalty, CentreNorms):
            return _centre_gap(looked, common, penalty, noise, moves.set_aside)
        return _rows_gap(looked, common, penalty, noise)

    def of_deviations(noise: Floats) -> tuple[float, float]:
        gap, violation = _deviation_gap(looked, V, penalty, noise)
        beside = [G.sum(axis=0)[None], noise.sum(axis=0)[None]] if isinstance(penalty, CentreNorms) else [G, noise]
        return gap + moves.gain(np.vstack([beside[0], G]), np.vstack([beside[1], noise]), moved), violation

    parts = [(of_deviations(noise), of_common(noise)) for noise in (hidden, 0.0 * hidden)]
    (one, kkt), (other, beside) = parts[0]
    exact = parts[1][0][0] + parts[1][1][0]
    lost = slack_of(tasks, kappa)
    return over_unit(one + other + lost, unit), over_unit(exact + lost, unit), max(kkt, beside)


def _open_moves(designs: Sequence[Any], P: Floats, penalty: TaskNorms, total: float) -> tuple[OpenMoves, float]:
    """Moves of what nothing penalises, and how much at most those change the fit that norms penalise."""
    m, f, kappa = penalty.m, penalty.factors.T, penalty.kappa
    above = np.zeros(f.shape) if isinstance(penalty, RowNorms) else penalty.ridge[None]
    open_, belongs = _open(penalty)
    moves = OpenMoves(designs, kappa, open_, belongs, np.vstack([above, np.zeros(f.shape)]))
    if not moves.any:
        return moves, 0.0
    # |f v_i| is at most F / a_i at a better point, and so is the length of a row of P by its strength
    lengths_ = np.sqrt(kappa[:, None] * np.array([design.squares for design in designs]))
    a, norms = penalty.bounds, penalty.deviation_norms(P[-m:])
    way = norms + np.divide(total, a, out=np.full_like(a, np.inf), where=a > 0.0)
    fixed = np.isinf(a)
    out = np.where(fixed, 0.0, np.where(fixed, 0.0, way) * lengths(penalty.scaled_down(lengths_)))
    if isinstance(penalty, RowNorms) and np.isfinite(penalty.lam_common):
        out = out + (penalty.scaled_down(lengths_) * (penalty.scaled_up(P[:-m]) + total / penalty.lam_common)).sum(
            axis=1
        )
    return moves, float(np.linalg.norm(out))


@dataclass(frozen=True)
class _Looked:
    """G (m, d), kappa |x_ij|^2 (m, d), kappa |y_i|^2 (m,), F, and how far un-penalised entries are looked for (m, d)."""

    G: Floats
    squares: Floats
    yy: Floats
    value: float
    reach: Floats


def _share(part: Floats, whole: Floats) -> float:
    return float(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0.0).max(initial=0.0))


def _deviation_gap(at: _Looked, V: Floats, penalty: TaskNorms, hidden: Floats) -> tuple[float, float]:
    """What deviations add to the gap, and their largest violation."""
    lengths_ = np.sqrt(at.squares * at.yy[:, None])
    free = penalty.factors.T == 0.0
    gap = float(np.where(free, (np.abs(at.G) + hidden) * at.reach, 0.0).sum())
    kkt = _share(np.where(free, np.abs(at.G), 0.0), lengths_)
    inside, a = penalty.penalised, penalty.bounds
    if np.isinf(penalty.lam_deviation):
        return (np.inf, np.inf) if (V[inside] != 0.0).any() else (gap, kkt)
    size, cost = lengths(penalty.scaled_down(at.G)), a * penalty.deviation_norms(V)
    fit = np.where(inside, at.G * V, 0.0).sum(axis=1)
    blur = np.where(inside, hidden * np.abs(V), 0.0).sum(axis=1)
    over = np.maximum(size + lengths(penalty.scaled_down(hidden)) - a, 0.0)
    gap += float((np.maximum(cost - fit, 0.0) + blur + over / a * at.value).sum())
    apart = np.divide(np.maximum(cost - fit, 0.0), cost, out=np.zeros_like(cost), where=cost > 0.0) * size
    violated = np.maximum(np.maximum(size - a, 0.0), apart)
    return gap, max(kkt, _share(violated, lengths(penalty.scaled_down(lengths_))))


def _centre_gap(
    at: _Looked, common: Floats, penalty: CentreNorms, hidden: Floats, set_aside: float
) -> tuple[float, float]:
    b, ridge = common[0], penalty.ridge
    fixed = np.isinf(ridge)
    if (b[fixed] != 0.0).any():
        return float("inf"), float("inf")
    ridge = np.where(fixed, 0.0, ridge)
    slope = np.where(fixed, 0.0, np.abs(at.G.sum(axis=0) - ridge * b))
    clouded = np.where(fixed, 0.0, slope + hidden.sum(axis=0))
    linear = clouded * np.maximum(at.reach.max(axis=0), FAR * np.abs(b))
    square = np.divide(0.5 * set_aside * clouded**2, ridge, out=np.full_like(b, np.inf), where=ridge > 0.0)
    return float(np.minimum(linear, square).sum()), _share(slope, np.sqrt(at.squares.sum(axis=0) * at.yy.sum()))


def _rows_gap(at: _Looked, common: Floats, penalty: RowNorms, hidden: Floats) -> tuple[float, float]:
    if np.isinf(penalty.lam_common):
        return (np.inf, np.inf) if common.any() else (0.0, 0.0)
    norm, inside = penalty.norm, penalty.penalised
    if (common[~inside] != 0.0).any():
        return float("inf"), float("inf")
    cost, fit = norm.values(common.T), norm.total(np.where(inside, at.G * common, 0.0).T)
    blur = norm.total((hidden * np.abs(common)).T)
    size = norm.dual(at.G.T)
    over = np.maximum(size + norm.dual(hidden.T) - 1.0, 0.0)
    gap = float((np.maximum(cost - fit, 0.0) + blur + over * at.value).sum())
    apart = np.divide(np.maximum(cost - fit, 0.0), cost, out=np.zeros_like(cost), where=cost > 0.0) * size
    lengths_ = norm.dual(np.sqrt(at.squares * at.yy[:, None]).T)
    return gap, _share(np.maximum(np.maximum(size - 1.0, 0.0), apart), lengths_)


# ------------------------------------------------------------------ uniqueness


def _dependent(designs: Sequence[Any], P: Floats, penalty: TaskNorms) -> tuple[Ints, ...]:
    """Of each task: features of a direction that may be free.

    All minimisers have the same gradients. They say how each block can move: deviations along G_i / f^2 where |G_i / f| is
    a_i, a row of P along g^j / f^2 where that has dual norm 1; a centre without ridge and entries that nothing penalises
    every way. If all these movements change the fit in independent directions, there is one minimiser.
    """
    W, m, d = penalty.coefs(P), penalty.m, P.shape[1]
    views = duals(designs, W)
    live = np.array([design.squares > 0.0 for design in designs])
    G = penalty.kappa[:, None] * np.array([view.gradient for view in views])
    none = (NONE,) * m
    all_of_them = tuple(np.flatnonzero(one & np.isfinite(f)) for one, f in zip(live, penalty.factors.T, strict=True))
    samples = sum(min(design.order, d) for design in designs)
    if isinstance(penalty, CentreNorms) and np.count_nonzero((penalty.ridge == 0.0) & live.any(axis=0)) > samples:
        return all_of_them
    moves = _moves(G, P, penalty, live)
    if not moves:
        return none
    if len(moves) > samples:
        return all_of_them
    M, of_W = np.zeros((len(moves), len(moves))), np.zeros((len(moves), len(moves)))
    for i, (design, view) in enumerate(zip(designs, views, strict=True)):
        at = [c for c, move in enumerate(moves) if i in move]
        if not at:
            continue
        E = np.flatnonzero(np.any([moves[c][i] != 0.0 for c in at], axis=0))
        D = np.array([moves[c][i][E] for c in at])
        if of_losses(designs):
            X = view.independent_columns(E) @ D.T
            products = X.T @ X
        else:
            products = D @ design.gram_block(E, E) @ D.T
        M[np.ix_(at, at)] += penalty.kappa[i] * products
        of_W[np.ix_(at, at)] += D @ D.T
    return none if determined(M, of_W) else all_of_them


def determined(M: Floats, of_W: Floats) -> bool:
    """Whether movements that leave the fit as it is leave W as it is: M has the products of what movements do to the fit,
    `of_W` of what they do to W. (P and Q may be exchanged where W is determined.)"""
    if not (np.isfinite(M).all() and np.isfinite(of_W).all() and (np.diagonal(of_W) > 0.0).any()):
        return False  # beyond the range of floats: not known to be
    size = np.sqrt(np.where(np.diagonal(of_W) > 0.0, np.diagonal(of_W), 1.0))
    values, U = np.linalg.eigh(of_W / np.outer(size, size))
    kept = U[:, values > SAME_W * float(values[-1])] / size[:, None]
    return full_rank(kept.T @ M @ kept)


def _moves(G: Floats, P: Floats, penalty: TaskNorms, live: np.ndarray) -> list[dict[int, Floats]]:
    """How minimisers may differ: movements, each by task with its change of that task's coefficients (d,)."""
    m, d = penalty.m, P.shape[1]

    def unit(j: int, size: float = 1.0) -> Floats:
        out = np.zeros(d)
        out[j] = size
        return out

    free, inside = (penalty.factors.T == 0.0) & live, penalty.penalised & live
    out = [{i: unit(j)} for i, j in np.argwhere(free).tolist()]
    along = np.divide(G, penalty.factors.T**2, out=np.zeros_like(G), where=inside)
    if np.isfinite(penalty.lam_deviation):
        size = lengths(penalty.scaled_down(np.where(live, G, 0.0)))
        reached = (size >= penalty.bounds * (1.0 - EQUICORRELATION)) & (size > 0.0)
        out += [{i: along[i] / size[i]} for i in np.flatnonzero(reached | P[-m:].any(axis=1)).tolist() if size[i] > 0.0]
    if np.isinf(penalty.lam_common):
        pass
    elif isinstance(penalty, RowNorms):
        sizes = penalty.norm.dual(np.where(live, G, 0.0).T)
        for block in np.flatnonzero((sizes >= 1.0 - EQUICORRELATION) & (sizes > 0.0)).tolist():
            features = np.array([block]) if penalty.groups is None else penalty.groups.members[block]
            moved = np.zeros_like(along)
            moved[:, features] = np.where(inside, along, 0.0)[:, features]
            out.append({i: moved[i] for i in np.flatnonzero(inside[:, features].any(axis=1)).tolist()})
    else:
        open_ = np.flatnonzero((penalty.ridge == 0.0) & live.any(axis=0))
        out += [dict.fromkeys(np.flatnonzero(live[:, j]).tolist(), unit(j)) for j in open_.tolist()]
    return out


def without(penalty: TaskNorms, features: Ints) -> TaskNorms:
    """The penalty of some of the features."""
    known: dict[str, Any] = {"factors": penalty.factors[features], "scales": penalty.scales[features]}
    if isinstance(penalty, RowNorms) and penalty.groups is not None:
        known["groups"] = penalty.groups.on(features)
    return replace(penalty, **known)
