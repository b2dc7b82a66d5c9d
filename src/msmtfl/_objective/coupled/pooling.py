"""The penalty of partial pooling, w_i = b + v_i with ridges only, and how far a (b, V) is from its minimiser.

    N F(b, V) = sum_i |y_i - X_i (b + v_i)|^2  +  k sum_ji f_ji^2 v_ji^2  +  k_common sum_j g_j^2 b_j^2,      N = sum_i n_i

Every sample counts the same, so that small tasks are drawn more towards the common part. A point is P (p,), p = (m + 1) d:
b first, then v_1 to v_m. Nothing here is shared with the solver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..._data.designs import NONE, Floats, Ints, with_rows
from ..penalties import bent
from ..proofs.certificates import CERTAIN, FAR, RowCertificate, full_rank, ridge_slack
from ..proofs.common_escapes import escaping_together, with_escapes
from ..proofs.dual_points import Doubt, over_unit, vacuous
from ..proofs.pressed import slack_of, unpressed
from ..proofs.shared_moves import OpenMoves
from ..proofs.task_duals import duals, of_losses
from .groups import Groups
from .row_norms import counted


@dataclass(frozen=True)
class PoolingRidge:
    """k / N sum_ji f_ji^2 v_ji^2 + k_common / N sum_j g_j^2 b_j^2; of k and k_common one may be inf (V = 0, b = 0).

    factors f is (d, m), scales g is (d,); inf excludes a feature, 0 leaves it un-penalised (in V; b is 0 there). n is N, the
    sum of all sample weights.
    """

    structure: ClassVar[str] = "pooling"
    convex: ClassVar[bool] = True

    k: float
    k_common: float
    factors: Floats
    scales: Floats
    n: float

    def of_class(self, c: int, classes: int) -> PoolingRidge:
        """That of a class alone, where features of several classes, each against the rest, stand after each other."""
        of_features = np.arange(len(self.scales)).reshape(classes, -1)[c]
        return PoolingRidge(
            self.k, self.k_common, self.factors[of_features], self.scales[of_features], self.n / classes
        )

    @property
    def of_deviations(self) -> Floats:
        """(m, d): k f^2, inf where a deviation is 0 whatever the data say."""
        return _strengths(self.k, self.factors).T

    @property
    def of_common(self) -> Floats:
        """(d,): k_common g^2; inf where b is 0: of features that are not penalised all is found in V."""
        return np.where(self.scales == 0.0, np.inf, _strengths(self.k_common, self.scales))

    def value(self, P: Floats) -> float:
        parts = P.reshape(-1, len(self.scales))
        strengths = np.vstack([self.of_common, self.of_deviations])
        finite = np.where(parts != 0.0, strengths, 0.0)
        return float((finite * parts**2).sum() / self.n)

    def row_norms(self, W: Floats) -> Floats:
        """(d,): how much each feature counts, for W (d, m)."""
        return np.asarray((counted(self.factors) * np.abs(W)).sum(axis=1))

    def pattern(self, P: Floats) -> np.ndarray:
        """Nothing that a next stage depends on: there is one."""
        return bent(np.ones(len(self.scales)))

    def weights(self, pattern: np.ndarray) -> PoolingRidge:
        return self

    def row_slopes(self, pattern: np.ndarray) -> Floats:
        return np.ones(len(self.scales))

    def free_rows(self, pattern: np.ndarray) -> Ints:
        return np.flatnonzero((self.factors == 0.0).any(axis=1))

    def free(self) -> np.ndarray:
        """(d, m) bool"""
        out: np.ndarray = self.factors == 0.0
        return out


def _strengths(k: float, factors: Floats) -> Floats:
    """k f^2; 0 where f is 0, even if k is inf, and inf where f is, even if k is 0."""
    excluded = np.isinf(factors)
    found = np.multiply(k, factors**2, out=np.zeros_like(factors), where=(factors != 0.0) & ~excluded)
    return np.where(excluded, np.inf, found)


# ------------------------------------------------------------------ certificate


@np.errstate(over="ignore", invalid="ignore")  # what leaves the range of floats is not certified
def certify_pooling(designs: Sequence[Any], P: Floats, penalty: PoolingRidge) -> RowCertificate:
    """Gap, optimality and uniqueness of P (p,).

    With h minus the gradient of half the objective in one entry of b or V, and a the ridge there, moving that entry by t
    gains no more than h t - a t^2 / 2, and all entries together no more than the sum of that, as the loss is convex. So the
    gap is at most the sum over entries of h^2 / (2 a), or of |h| T where that is less: T is how far the optimum is looked
    for, `FAR` times what was found or, if that is more, what a column alone would need to fit the targets. It is at most
    the objective itself, too. What rounding may hide of gradients is added to them, and what nearly dependent columns hide
    from slopes (`shared_moves.py`, where half of every ridge is set aside if there are such columns).
    """
    ridge = np.vstack([penalty.of_common, penalty.of_deviations])
    ones = np.ones(len(designs))
    certificate = certify_ridges(designs, P, np.zeros_like(ridge), ridge, ones)
    if certificate.escapes:
        return certificate
    dependent = _dependent(designs, P, penalty)
    return replace(certificate, unique=certificate.unique and not any(map(np.size, dependent)), dependent=dependent)


@np.errstate(over="ignore", invalid="ignore")
def certify_ridges(
    designs: Sequence[Any], P: Floats, A: Floats, ridge: Floats, scale: Floats, groups: Groups | None = None
) -> RowCertificate:
    """Gap and optimality of P (p,) for losses times `scale` (m,), with weights A of an l1 norm and ridges ((m + 1, d) each,
    in the same sums) in b and V; where one of them is inf, P is 0. What has neither is looked for within FAR. With groups
    of features the norm is the length of a group, in b and in every v_i."""
    none = (NONE,) * len(designs)
    if any(vacuous(design) for design in designs):
        return RowCertificate(float("inf"), float("inf"), False, none, Doubt("underflow"))
    belongs = np.column_stack([np.ones(len(designs), dtype=bool), np.eye(len(designs), dtype=bool)])
    moves = OpenMoves(designs, scale, (ridge == 0.0) & (A == 0.0), belongs, ridge)
    gap, exact, kkt = _gap(designs, P, A, ridge, scale, moves, groups)
    if gap > CERTAIN and not of_losses(designs) and any(design.target is None for design in designs):
        again = _gap([with_rows(design) for design in designs], P, A, ridge, scale, moves, groups)
        if again[0] < gap:
            gap, exact, kkt = again
    doubt = None if gap <= CERTAIN else Doubt("rounding" if exact <= 0.1 * gap else "far")
    proof = RowCertificate(gap, kkt, gap <= 1.0, none, doubt)
    parts = P.reshape(len(designs) + 1, -1)
    away = escaping_together(designs, parts[0] + parts[1:], (ridge == 0.0) & (A == 0.0), belongs)
    return with_escapes(proof, away, *_sizes(designs, parts, A, ridge, scale, groups)) if away else proof


def _sizes(
    designs: Sequence[Any], parts: Floats, A: Floats, strengths: Floats, scale: Floats, groups: Groups | None
) -> tuple[float, float]:
    """Twice the objective at (b, V), and twice the loss at W = 0."""
    losses = sum(s * design.loss(w) for s, design, w in zip(scale, designs, parts[0] + parts[1:], strict=True))
    costs = np.multiply(A, np.abs(parts), out=np.zeros_like(parts), where=parts != 0.0)
    norm = costs.sum() if groups is None else groups.lengths(costs.T).sum()
    squares = np.multiply(strengths, parts**2, out=np.zeros_like(parts), where=parts != 0.0)
    nulls = sum(s * unpressed(design).null for s, design in zip(scale, designs, strict=True))
    return float(losses + 2.0 * norm + squares.sum()), 2.0 * float(nulls)


def _gap(
    designs: Sequence[Any],
    P: Floats,
    A: Floats,
    strengths: Floats,
    scale: Floats,
    moves: OpenMoves,
    groups: Groups | None = None,
) -> tuple[float, float, float]:
    """The relative gap, what it would be without rounding, and the largest violation of the optimality conditions as a
    correlation."""
    parts = P.reshape(len(designs) + 1, -1)
    W = parts[0] + parts[1:]
    tasks = duals(designs, W)
    fixed = np.isinf(strengths) | np.isinf(A)
    broken = (parts[fixed] != 0.0).any() or not np.isfinite(P).all()
    if broken or any(getattr(task, "lost", False) for task in tasks):
        return float("inf"), float("inf"), float("inf")
    gradients = np.array([s * task.gradient for s, task in zip(scale, tasks, strict=True)])
    noise = np.array([s * task.noise for s, task in zip(scale, tasks, strict=True)])
    squares = np.array([s * design.squares for s, design in zip(scale, designs, strict=True)])
    yy = np.array([s * design.yy for s, design in zip(scale, designs, strict=True)])
    ridge, bound = np.where(fixed, 0.0, strengths), np.where(fixed, 0.0, A)
    slopes = np.where(fixed, 0.0, np.vstack([gradients.sum(axis=0), gradients]) - ridge * parts)
    hidden = np.where(fixed, 0.0, np.vstack([noise.sum(axis=0), noise]))
    if groups is None:
        error = np.where(parts != 0.0, np.abs(slopes - bound * np.sign(parts)), np.maximum(np.abs(slopes) - bound, 0.0))
        norm = float((bound * np.abs(parts)).sum())
    else:
        error, norm = group_errors(parts, bound, slopes, groups), float(groups.lengths((bound * parts).T).sum())
    unit = float(2.0 * sum(s * task.unit for s, task in zip(scale, tasks, strict=True)))
    # coefficients may be 0 though the best ones are not: what a column alone would need to fit all there is counts, too
    length = np.sqrt(np.vstack([squares.sum(axis=0), squares]))
    alone = np.divide(np.sqrt(unit), length, out=np.zeros_like(length), where=length > 0.0)
    reach = FAR * np.maximum(np.maximum(np.abs(parts), np.abs(W).max(axis=0)), alone)

    # no loss is below 0: where samples are all but interpolated, what is left of the objective is all there is to gain
    losses = sum(s * design.loss(w) for s, design, w in zip(scale, designs, W, strict=True))
    whole = float(losses + 2.0 * norm + np.sum(ridge * parts**2))
    above, normed = over_unit(whole, unit), (bound > 0.0) & (ridge == 0.0)
    most = np.divide(0.5 * whole, bound, out=np.zeros_like(parts), where=normed) + np.where(normed, np.abs(parts), 0.0)
    moved = moves.moved(most) if moves.any else 0.0

    lost = slack_of(tasks, scale)

    def gain(noise: Floats) -> float:
        known = parts, bound, ridge, slopes + ridge * parts, noise
        slack = ridge_slack(*known, False) if groups is None else group_slack(*known, groups)
        found = np.where(ridge > 0.0, slack, np.inf)
        linear = np.where(bound > 0.0, np.inf, (error + noise) * reach)
        by_slopes = float(np.where(fixed, 0.0, np.minimum(moves.set_aside * found, linear)).sum())
        by_slopes += moves.gain(slopes, noise, moved)
        by_slopes = over_unit(2.0 * (by_slopes + lost), unit)
        return min(by_slopes, above) if np.isfinite(lost) else np.inf

    length = length * np.sqrt(np.append(yy.sum(), yy))[:, None]
    kkt = np.divide(error, length, out=np.zeros_like(slopes), where=length > 0.0).max(initial=0.0)
    return gain(hidden), gain(np.zeros_like(hidden)), float(kkt)


def group_errors(P: Floats, bound: Floats, slopes: Floats, groups: Groups) -> Floats:
    """(parts, d): violations of the conditions on slopes by P (parts, d) with weights of the lengths of groups."""
    norms, counted = groups.lengths((bound * P).T)[groups.of].T, bound > 0.0
    sizes = groups.lengths(np.divide(slopes, bound, out=np.zeros_like(P), where=counted).T)[groups.of].T
    over = np.abs(slopes) * np.maximum(1.0 - 1.0 / np.maximum(sizes, 1.0), 0.0)
    bent = np.divide(bound**2 * P, norms, out=np.zeros_like(P), where=norms > 0.0)
    error = np.where(norms > 0.0, np.abs(slopes - bent), over)
    return np.where(counted, error, np.abs(slopes))


def group_slack(P: Floats, bound: Floats, ridge: Floats, dual: Floats, noise: Floats, groups: Groups) -> Floats:
    """(parts, d): what `ridge_slack` is of entries, of groups, which share what the norm of one leaves."""
    counted = (bound > 0.0) & (ridge > 0.0)

    def lengths(M: Floats) -> Floats:
        return groups.lengths(np.divide(M, bound, out=np.zeros_like(M), where=counted).T)

    q = np.where(counted, dual - ridge * P, 0.0)
    size, hidden = lengths(q), lengths(noise)
    p = np.where(counted, q / np.maximum(size, 1.0)[groups.of].T, 0.0)
    at_zero = (groups.sums((P != 0.0).T.astype(np.float64)) == 0.0) & (size + hidden <= 1.0)
    noise = np.where(at_zero[groups.of].T & counted, 0.0, noise)
    far = np.abs(P - np.divide(dual - p, ridge, out=np.zeros_like(P), where=ridge > 0.0))
    far += np.divide(noise, ridge, out=np.zeros_like(P), where=ridge > 0.0)
    norm = np.where(counted, bound * P, 0.0)
    of_norms = np.maximum(groups.lengths(norm.T) - groups.sums((p * P).T), 0.0)
    sizes = groups.sums(counted.T.astype(np.float64))
    share = np.divide(of_norms, sizes, out=np.zeros_like(of_norms), where=sizes > 0.0)[groups.of].T
    return np.asarray(np.where(counted, share, 0.0) + 0.5 * ridge * far**2)


def _dependent(designs: Sequence[Any], P: Floats, penalty: PoolingRidge) -> tuple[Ints, ...]:
    """Of each task: features of a direction that may be free. V is determined where it is penalised; b where it is, or
    else if no combination of columns is constant in all tasks."""
    out = [NONE] * len(designs)
    parts = P.reshape(len(designs) + 1, -1)
    tasks = duals(designs, parts[0] + parts[1:]) if of_losses(designs) else None

    def products(i: int, E: Ints) -> Floats:
        if tasks is None:
            return np.asarray(designs[i].gram_block(E, E))
        X = tasks[i].independent_columns(E)
        return np.asarray(X.T @ X)

    one_level = np.isinf(getattr(getattr(designs[0], "prior", None), "ridge", 0.0))

    free = penalty.factors == 0.0
    for i, design in enumerate(designs):
        E = np.flatnonzero(free[:, i] & (design.squares > 0.0))
        out[i] = E if E.size and not full_rank(products(i, E)) else NONE
    open_ = penalty.of_common == 0.0
    live = np.flatnonzero(open_ & np.any([design.squares > 0.0 for design in designs], axis=0))
    if live.size:
        full = full_rank(np.sum([products(i, live) for i in range(len(designs))], axis=0))
        if not full or (one_level and not full_rank(_less_means(designs, live))):  # one intercept is free, too
            out = [live] * len(designs)
    return tuple(out)


def _less_means(designs: Sequence[Any], E: Ints) -> Floats:
    """Products of columns of all tasks together, less the means of all samples, of tasks that are held at one level."""
    n = sum(design.n for design in designs)
    products, sums = np.zeros((len(E), len(E))), np.zeros(len(E))
    for design in map(unpressed, designs):
        if hasattr(design, "part"):
            products += design.gram_block(E, E)
            sums += np.sqrt(design.n) * design.row[E]
        else:
            X = design.columns(E)
            products += X.T @ X
            sums += X.T @ np.sqrt(design.v)
    return np.asarray(products - np.outer(sums, sums) / n)
