"""A task of several classes under the softmax loss, as one design per class, each of which knows the others.

    h(y_r, f_r) = log sum_k exp f_rk - f_r,y_r,      f_rk = x_r'w_k + b_k

Seen from class k, with the others held, this is the logistic loss of y_r = k with an offset, -log sum_{l != k} exp f_rl, but
for a constant. So every class is a `LossTask`, and what needs one class at a time (a gradient, a step, a violation of the
optimality conditions) is that of a `LossTask`. What all classes have together is here: their levels, the loss, and the
certificate. In sums over a task's rows, with weights a_kj:

    primal  P(W, b) = sum_r v_r h(y_r, f_r) + sum_kj a_kj |w_kj|
    dual    D(Q)    = - sum_r v_r sum_k q_rk log q_rk,   q_r >= 0, sum_k q_rk = 1, and for u_k = v (y_k - q_k)
                      |x_j'u_k| <= a_kj,   x_j'u_k = 0 where a_kj = 0, sum u_k = 0 (intercepts)

At the solution q_r are the probabilities. Away from it q = y + s (p - y) with the largest s up to 1 that keeps the bounds,
after a Newton step in the coefficients of columns that leave no room, which keeps sum_k q_rk. The gap is

    P - D = sum_r v_r KL(q_r | p_r) + sum_kj (a_kj |w_kj| - w_kj x_j'u_k)

in which no term is negative. The loss does not change if all classes get the same added to their coefficients of a feature:
where these are not penalised those with the sum 0 are meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._data.designs import Floats, Ints, rounding
from .box import Limit, can_fall
from .escapes import escaping
from .loss_task import LossTask
from .losses import divergence
from .proofs.certificates import AT_ZERO, GAP, at_bound, ridge_slack, violations
from .proofs.dual_points import Doubt, dependent_below, over_unit
from .proofs.loss_certificates import INSIDE, LossCertificate

STEPS = 50  # of a search for levels; it takes less than ten
ROOM = 4.0  # times the rounding of a gradient: up to such weights the dual point has no room
MANY = 2**23  # numbers in the columns whose independence is looked at


class ClassTask(LossTask):
    """One class of a task; see `ClassGroup`."""

    group: ClassGroup

    def hold(self, beside: Floats) -> None:
        """Have these offsets (rows,), from the linear predictors of the other classes."""
        self.middle = float(np.average(beside, weights=self.v)) if self.base.centre else 0.0
        self.offset[:] = beside - self.middle
        self._levels, self._last = {}, {}

    def own(self, w: Floats, level: float) -> Floats:
        """(rows,): x_r'w + b, at a level as `level` gives it"""
        return np.asarray(self.base.apply(w) / self.base.u) + level - self.middle

    def loss(self, w: Floats) -> float:
        """The share of the task's loss that counts for a class, while the others stay what they are."""
        return self.group.loss_with(self, w)


class ClassGroup:
    """The classes of a task. They are held at coefficients W (K, d): every class knows the linear predictors of the others
    there."""

    def __init__(self, parts: Sequence[ClassTask]):
        self.parts, self.K, first = list(parts), len(parts), parts[0]
        self.v, self.centre, self.n = first.v, bool(first.base.centre), first.n
        self.Y = np.column_stack([part.y for part in parts])
        self.F, self.b = np.zeros(self.Y.shape), np.zeros(self.K)
        share = self.v @ self.Y / self.v.sum() if self.centre else np.full(self.K, 1.0 / self.K)
        with np.errstate(divide="ignore"):
            null = -float(np.where(self.Y > 0.5, np.log(share), 0.0).sum(axis=1) @ self.v)
        for part in parts:
            part.group, part.null = self, null / self.K
        self.hold(np.zeros((self.K, first.d)))

    def hold(self, W: Floats) -> None:
        """Hold the classes at W, with the levels that suit it best."""
        F = np.column_stack([part.base.apply(w) / part.base.u for part, w in zip(self.parts, W, strict=True)])
        b = np.zeros(self.K)
        if self.centre:
            b = self.b = best_levels(F, self.Y, self.v, self.b)
        self.F = F + b
        for k, part in enumerate(self.parts):
            self.tell(k)
            if self.centre:
                part.note(W[k], float(b[k]) + part.middle)

    def tell(self, k: int) -> None:
        """Let a class know the others."""
        self.parts[k].hold(-log_sum(np.delete(self.F, k, axis=1))[:, 0])

    def moved(self, k: int, w: Floats, level: float) -> None:
        """A class has other coefficients, at a level as `LossTask.level` has it; the others are not told."""
        self.b = self.b.copy()
        self.b[k] = level - self.parts[k].middle if self.centre else 0.0
        self.F[:, k] = self.parts[k].own(w, level)

    def loss_with(self, part: ClassTask, w: Floats) -> float:
        F = self.F.copy()
        F[:, self.parts.index(part)] = part.own(w, part.level(w))
        return 2.0 / self.K * float(self.v @ softmax_losses(F, self.Y))

    def value(self, W: Floats, A: Floats, ridge: Floats) -> float:
        """What is minimised, at the W that the classes are held at."""
        cost = np.multiply(A, np.abs(W), out=np.zeros_like(W), where=W != 0.0)
        return float(self.v @ softmax_losses(self.F, self.Y)) + float((cost + 0.5 * ridge * W**2).sum())

    def probabilities(self) -> Floats:
        return np.asarray(np.exp(self.F - log_sum(self.F)))


def hold(problem: Any, W: Floats) -> None:
    """Hold all classes at W (m, d)."""
    begin = 0
    for group in groups_of(problem.designs):
        group.hold(W[begin : begin + group.K])
        begin += group.K


def log_sum(F: Floats) -> Floats:
    """(rows, 1): log sum_k exp f_rk"""
    top = F.max(axis=1, keepdims=True)
    return np.asarray(top + np.log(np.exp(F - top).sum(axis=1, keepdims=True)))


def softmax_losses(F: Floats, Y: Floats) -> Floats:
    """(rows,)"""
    return np.asarray(log_sum(F - (F * Y).sum(axis=1, keepdims=True))[:, 0])


def groups_of(designs: Sequence[Any]) -> list[ClassGroup]:
    """Of all tasks, in their order."""
    return list(dict.fromkeys(design.group for design in designs))


def best_levels(F: Floats, Y: Floats, v: Floats, b: Floats) -> Floats:
    """(K,), of mean 0: the levels that suit linear predictors F (rows, K) best, by Newton's method from b, or from 0 if that
    is better."""
    value, b = min(((float(v @ softmax_losses(F + one, Y)), one) for one in (0.0 * b, b)), key=lambda found: found[0])
    best = np.inf, b
    for _ in range(STEPS):
        P = np.exp(F + b - log_sum(F + b))
        g = v @ (P - Y)
        size = float(np.abs(g).max())
        if size == 0.0 or (size >= best[0] and size <= 1e-10 * v.sum()):
            break
        best = (size, b) if size < best[0] else best
        if not np.isfinite(size):
            break
        H = np.diag(v @ P) - P.T @ (v[:, None] * P) + v.sum() / len(b)  # the last term holds their sum
        step, t = np.linalg.lstsq(H, g)[0], 1.0
        while t > 1e-10:
            new = float(v @ softmax_losses(F + b - t * step, Y))
            if new <= value + 1e-15 * abs(value):
                break
            t *= 0.5
        b, value = b - t * step, min(new, value)
        b = b - b.mean()
    return best[1]


# ------------------------------------------------------------------ certificates


def certify_held(problem: Any, W: Floats, A: Floats, lam: float) -> list[LossCertificate]:
    """The certificates of all classes of all tasks, which are then held at W (m, d), for weights A (m, d)."""
    ridge = None if problem.unit_ridge is None else lam * problem.unit_ridge
    out: list[LossCertificate] = []
    hold(problem, W)
    begin = 0
    for group in groups_of(problem.designs):
        some = slice(begin, begin + group.K)
        of_task = None if ridge is None else ridge[some]
        out += certify_classes(group, W[some], A[some], of_task, problem.positive)
        begin += group.K
    return out


@np.errstate(over="ignore", invalid="ignore")  # what leaves the range of floats is not certified
def certify_classes(
    group: ClassGroup, W: Floats, A: Floats, ridge: Floats | None, positive: Limit = False
) -> list[LossCertificate]:
    """The certificates of a task's classes, which are held at W (K, d), for weights A and a ridge (K, d): the gap is that of
    the task, shared out evenly."""
    R = np.zeros_like(W) if ridge is None else ridge
    P = group.probabilities()
    parts = group.parts
    G = np.array([part.correlate(y - p) for part, y, p in zip(parts, group.Y.T, P.T, strict=True)])
    unit = group.K * parts[0].null
    gap = _gap(group, W, A, R, P, G, positive) if np.isfinite(P).all() else float("inf")
    doubt = None if over_unit(gap, unit) <= GAP else Doubt("far")
    unique, dependent = _only(group, W, A, R, G, P, positive)
    out = []
    for k, part in enumerate(parts):
        slopes = (G[k] - R[k] * W[k])[None]
        kkt = float(violations(part, W[k][None], A[k][None], slopes, positive)[0])
        free = (A[k] == 0.0) & (R[k] == 0.0) & (part.squares > 0) & can_fall(positive, W[k])
        away = escaping(part, W[k], free, positive)
        alone = unique and not away.size
        of_class = away if away.size else dependent[k]
        out.append(LossCertificate(gap / group.K, part.null, kkt, alone, of_class, doubt, bool(away.size)))
    return out


def _gap(group: ClassGroup, W: Floats, A: Floats, R: Floats, P: Floats, G: Floats, positive: Limit) -> float:
    """The smaller of the gaps that two dual points prove: one for which small weights leave no room, and one for which only
    those of 0 do."""
    used, parts = W != 0.0, group.parts
    if (used & np.isinf(A)).any() or (positive is True and (W < 0.0).any()):
        return float("inf")
    root, live = np.sqrt([part.squares for part in parts]), np.array([part.squares > 0.0 for part in parts])
    unit, best = rounding(parts[0]), float("inf")
    size = np.sqrt(group.v @ (P - group.Y) ** 2)
    for room in (ROOM, 0.0):
        held = (room * unit * root * size[:, None] >= A) & live & (R == 0.0)
        if positive is True:  # what is firmly held at 0 may stay there
            held &= (W > 0.0) | (-AT_ZERO * root * np.sqrt([[part.yy] for part in parts]) <= G)
        S, away = _projected(group, P, held, unit)
        best = min(best, _gap_of(group, W, A, R, P, (S, away, held), positive))
        if over_unit(best, group.K * parts[0].null) <= GAP:
            break
    return best


def _gap_of(
    group: ClassGroup,
    W: Floats,
    A: Floats,
    R: Floats,
    P: Floats,
    point: tuple[Floats, float, np.ndarray],
    positive: Limit,
) -> float:
    (S, away, held), parts, v = point, group.parts, group.v
    root, live = np.sqrt([part.squares for part in parts]), np.array([part.squares > 0.0 for part in parts])
    unit, soft = rounding(parts[0]), R > 0.0
    noise = unit * root * np.sqrt(v @ S**2)[:, None]
    G = np.array([part.correlate(-s) for part, s in zip(parts, S.T, strict=True)])
    hidden = noise + root * away  # the curvature is at most 1
    bound = np.isfinite(A) & ~held & ~soft & live
    size = (G if positive is True else np.abs(G)) + hidden
    ratio = np.divide(A, size, out=np.full(A.shape, np.inf), where=bound & (size > 0.0))
    scale, apart = min(1.0, float(ratio.min(initial=np.inf))), np.inf
    log_p = group.F - log_sum(group.F)
    for share in INSIDE:
        Q = group.Y + share * scale * S
        if (Q >= -1e-14).all():
            apart = float(v @ divergence(np.maximum(Q, 0.0), P, log_p).sum(axis=1))
            scale *= share
            break
    cost = np.where((W != 0.0) & np.isfinite(A), A, 0.0) * np.abs(W)
    fit = np.where(bound & (W != 0.0), W * G - np.abs(W) * hidden, 0.0)
    slacks = np.maximum(cost - scale * fit, 0.0)
    if soft.any():
        slacks = np.where(soft, ridge_slack(W, A, R, scale * G, hidden, positive), slacks)
    blur = unit * float((root * np.abs(W)).sum() + np.sqrt(v @ (group.F**2).sum(axis=1)))
    losses = float(v @ softmax_losses(group.F, group.Y))
    primal = losses * (1.0 + 4.0 * unit) + float((cost + 0.5 * R * W**2).sum())
    found = 0.5 * (np.sqrt(2.0 * apart) + scale * away + blur) ** 2 + float(slacks.sum())
    found = float(np.fmin(found, primal + blur * np.sqrt(2.0 * primal)))
    return found if found >= 0.0 else float("inf")


def _projected(group: ClassGroup, P: Floats, held: np.ndarray, unit: float) -> tuple[Floats, float]:
    """The slopes p - y (rows, K) made to meet the equations of the columns held and those of intercepts, by Newton steps in
    their coefficients; and how far at most they are from doing so, in terms of a step."""
    S, v, parts = P - group.Y, group.v, group.parts
    C = [_columns(part, np.flatnonzero(of_class), group.centre) for part, of_class in zip(parts, held, strict=True)]
    sizes = np.array([one.shape[1] for one in C])
    if not sizes.any():
        return S, 0.0
    ends = np.cumsum(sizes)[:-1]
    H = curvature_of(group, P, C)
    values, vectors = np.linalg.eigh(H)
    kept = values > dependent_below(len(values)) * values.max(initial=0.0)
    values, vectors = values[kept], vectors[:, kept]

    def left(S: Floats) -> Floats:
        return np.concatenate([one.T @ (v * s) for one, s in zip(C, S.T, strict=True)])

    for _ in range(3):
        z = np.split(vectors @ ((vectors.T @ left(S)) / values), ends)
        D = np.column_stack([one @ part for one, part in zip(C, z, strict=True)])
        S = S - P * (D - (P * D).sum(axis=1, keepdims=True))
    rest, root = left(S), np.sqrt(values)
    inner = vectors.T @ rest
    lost = float(np.linalg.norm(rest - vectors @ inner))
    noise = unit * float(np.sqrt(v @ (S**2).sum(axis=1)) * np.sqrt(len(rest)))
    if lost > 10.0 * noise:  # slopes tell columns apart that the curvature does not
        return S, float("inf")
    return S, float(np.linalg.norm(inner / root) + noise / root.min(initial=1.0))


def curvature_of(group: ClassGroup, P: Floats, C: Sequence[Floats]) -> Floats:
    """The second derivatives of the loss in coefficients of columns (rows, k) of the classes, all of them side by side."""
    bent = [group.v[:, None] * p[:, None] * one for p, one in zip(P.T, C, strict=True)]
    pairs = [[bent[k].T @ ((float(k == m) - P[:, [m]]) * C[m]) for m in range(group.K)] for k in range(group.K)]
    return np.block(pairs)


def _columns(part: ClassTask, features: Ints, ones: bool) -> Floats:
    """(rows, k): columns of length 1 (with the weights of the rows), and one for the level."""
    out = part.block(features, ones)
    return np.asarray(out / np.sqrt(part.v @ out**2))


def _only(
    group: ClassGroup, W: Floats, A: Floats, R: Floats, G: Floats, P: Floats, positive: Limit
) -> tuple[bool, list[Ints]]:
    """Whether W is certainly the only minimiser whose free features have the sum 0 over classes: the columns of the entries
    at their bound are independent under the curvature. Otherwise these entries."""
    parts, free = group.parts, ((A == 0.0) & (R == 0.0)).all(axis=0)
    E = []
    for k, part in enumerate(parts):
        reached = at_bound(part, W[k][None], A[k][None], (G[k] - R[k] * W[k])[None], positive)[0]
        E.append(np.flatnonzero(reached & (R[k] == 0.0) & ~(free & (k == group.K - 1))))
    none = [np.empty(0, dtype=np.intp)] * group.K
    total = sum(len(one) for one in E)
    if total == 0:
        return True, none
    if total * group.Y.size > MANY:
        return False, E
    root = np.sqrt(P)
    C = [
        _columns(part, one, group.centre and k < group.K - 1)
        for k, (part, one) in enumerate(zip(parts, E, strict=True))
    ]
    v = np.sqrt(group.v)[:, None]

    def wide(k: int, one: Floats) -> Floats:
        return np.concatenate([v * root[:, [m]] * (float(k == m) - P[:, [k]]) * one for m in range(group.K)])

    M = np.concatenate([wide(k, one) for k, one in enumerate(C)], axis=1)
    size = np.linalg.norm(M, axis=0)
    if not (size > AT_ZERO).all() or M.shape[1] > M.shape[0]:
        return False, E
    values = np.linalg.eigvalsh((M / size).T @ (M / size))
    return (True, none) if values[0] > dependent_below(len(values)) else (False, E)
