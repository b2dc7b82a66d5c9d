"""Certificates: how far a W is from optimal, and whether it is the only one. Nothing here is shared with the solvers.

For one task in sums over rows (see designs.py), with weights a_j in [0, inf]:

    primal  P(w) = 1/2 |y - Xw|^2 + sum_j a_j |w_j|
    dual    D(u) = y'u - 1/2 |u|^2      for |x_j'u| <= a_j   (x_j'u = 0 where a_j = 0)

The dual point u is the residual r = y - Xw, made orthogonal to the columns that leave it no room (un-penalised ones, and
those whose weight is below the rounding of x_j'r), then scaled until it is feasible (`dual_points.py`). The gap is

    P(w) - D(u) = 1/2 |r - u|^2 + sum_j (a_j |w_j| - w_j x_j'u)

in which no term is negative and none is a difference of large numbers. What rounding may hide of every quantity is added to
it before it is used, so that the gap is never too small; it is infinite where nothing can be said. The relative duality gap
of a stage is sum_i (P_i - D_i) / n_i over sum_i |y_i|^2 / (2 n_i): the difference between primal and dual of the stage's
objective over the loss at W = 0.

With a ridge, sum_j r_j w_j^2 / 2 more in P, the dual has no bounds where r_j > 0: it loses (|x_j'u| - a_j)_+^2 / (2 r_j)
there instead. With p_j the value nearest to x_j'u in [-a_j, a_j] the gap has the terms

    a_j |w_j| - w_j p_j + r_j/2 (w_j - s_j)^2,      s_j = (x_j'u - p_j) / r_j,

none of which is negative; and no direction is free in which such a w_j changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError, cholesky
from scipy.linalg import qr, solve_triangular

from ..._data.designs import NONE, Design, Floats, Ints, Smooth, with_rows
from ..._data.forms.ridged import apart
from ..._runtime.text.cards import Card
from ..._runtime.text.printable import printable
from ..box import Box, Limit, breaks, of_task, outward, pressed
from .dual_points import Doubt, DualPoints, Memo, Residuals, dual_points, few_digits, look, over_unit, vacuous

# The optimum is looked for within so many times the size of what was found. (Where nothing penalises a direction, a gradient
# that rounding leaves there would otherwise promise any gain.)
FAR = 100.0


def full_rank(G: Floats) -> bool:
    """Whether a Gram matrix is that of columns that are certainly independent."""
    size = np.sqrt(np.diagonal(G))
    if not (size > 0.0).all():
        return False
    values = np.linalg.eigvalsh(G / np.outer(size, size))
    return bool(values[0] > RANK * values[-1])


CERTAIN = 1e-10  # the relative gap from which the reason of a doubt is asked for


@dataclass(frozen=True)
class RowCertificate:
    """Relative duality gap; largest violation of the optimality conditions, as a correlation; whether W is certainly the
    only minimiser, and for every task the features of a direction that may be free; why the gap is not known to be small,
    where it is not."""

    gap: float
    kkt: float
    unique: bool
    dependent: tuple[Ints, ...]
    doubt: Doubt | None = None
    escapes: tuple[
        int, ...
    ] = ()  # tasks that have no minimiser: theirs are the features in which the loss always falls

    @property
    def relative_gap(self) -> float:
        return self.gap


EQUICORRELATION = 1e-7  # |gradient| within this share of its bound counts as at the bound
RANK = 1e-9  # unit-length columns with a pivot (QR) below this share of the largest count as dependent
CRITICAL = 1e-8  # critical-point residual (a correlation) below which W counts as a critical point
AT_ONCE = 64  # solutions that are worth certifying together
MANY = 1000  # features at their bound beyond which a null direction is not looked for
GAP = 1e-10  # the relative gap that an exact solve stays below on well-posed data
# Weights up to so many times the rounding of a gradient leave a dual point no room. (To scale it would cost more.) Which of
# these proves most depends on the solution: the others are tried where the first proves too little.
ROOMS = (1e5, 4.0, 1e8)
AT_ZERO = 1e-11  # a gradient this small, as a correlation, may be one that a weight of 0 with w >= 0 holds at 0


@dataclass(frozen=True, slots=True)
class TaskCertificate:
    """Of one task in one stage: gap P - D, |y|^2 / 2 (its unit), optimality violation, uniqueness; and why the gap is not
    known to be small, where it is not and that was asked for."""

    gap: float
    unit: float
    kkt: float
    unique: bool
    dependent: Ints = field(default_factory=lambda: NONE)
    doubt: Doubt | None = None

    @property
    def relative_gap(self) -> float:
        return over_unit(self.gap, self.unit)


def certify(design: Design, w: Floats, a: Floats, positive: Limit = False) -> TaskCertificate:
    """Gap, optimality and uniqueness of w for one task's weighted lasso, with doubts."""
    return certify_all(design, w[None], a[None], positive, reasons=True)[0]


@np.errstate(over="ignore", invalid="ignore")  # what leaves the range of floats is not certified
def certify_all(
    design: Design,
    W: Floats,
    A: Floats,
    positive: Limit = False,
    memo: Memo | None = None,
    reasons: bool = False,
    ridge: Floats | None = None,
) -> list[TaskCertificate]:
    """The same for several weights: rows of W and A (solutions, d), and of ridges, if there are any. X is gone through once
    for all of them, and equal sets of columns are factorised once; a `memo` (any dict) keeps these for the next call on the
    same design. `reasons`: say why a gap is large."""
    memo = {} if memo is None else memo
    design, of_design = apart(design)
    ridge = np.zeros_like(W) if ridge is None else ridge
    ridge = ridge if of_design is None else ridge + of_design
    seen, unit = look(design, W), 0.5 * design.yy
    gaps, doubts = _gaps_on(design, seen, W, A, ridge, positive, ROOMS[0], memo, reasons)
    for form, room in _others(design):
        doubtful = np.flatnonzero([over_unit(gap, unit) > GAP for gap in gaps])
        if doubtful.size == 0:
            break
        again = form(), W[doubtful], A[doubtful], ridge[doubtful]
        found = _gaps_on(again[0], look(*again[:2]), *again[1:], positive, room, {}, reasons)
        for s, gap, doubt in zip(doubtful, *found, strict=True):
            if gap <= gaps[s]:
                gaps[s], doubts[s] = gap, doubt
    slopes = seen.gradients - ridge * W
    kkts = violations(design, W, A, slopes, positive)
    reached = at_bound(design, W, A, slopes, positive) & (ridge == 0.0)
    out = []
    for gap, kkt, E, doubt in zip(gaps.tolist(), kkts.tolist(), reached, doubts, strict=True):
        key = ("independent", E.tobytes())
        if key not in memo:
            memo[key] = independence(design, np.flatnonzero(E))
        unique, dependent = memo[key]
        out.append(TaskCertificate(gap, unit, kkt, unique, dependent, doubt))
    return out


# ------------------------------------------------------------------ duality gap


def _others(design: Design) -> list[tuple[Callable[[], Design], float]]:
    """What else is tried where the first dual point proves too little: forms of the data, statistics being looked at as rows
    that have these sums; and how many times the rounding of a gradient leaves no room."""
    rows = getattr(design, "as_rows", None)
    if vacuous(design):
        return []
    return [*((lambda: design, room) for room in ROOMS[1:]), *((rows, room) for room in ROOMS if rows)]


def _gaps_on(
    design: Design,
    seen: Residuals,
    W: Floats,
    A: Floats,
    ridge: Floats,
    positive: Limit,
    room: float,
    memo: Memo,
    reasons: bool,
) -> tuple[Floats, list[Doubt | None]]:
    """Gaps (solutions,), and why they are large, if that is asked for. Weights up to `room` times the rounding of a gradient
    leave dual points no room."""
    held = _without_room(design, seen, W, A, positive, room) & (ridge == 0.0)
    points = dual_points(design, seen, held, memo)
    gaps = _gaps(design, seen, points, W, A, ridge, held, positive)
    doubts: list[Doubt | None] = [None] * len(W)
    if reasons and any(over_unit(gap, 0.5 * design.yy) > GAP for gap in gaps):
        exact = _gaps(design, seen.exact(), points.exact(), W, A, ridge, held, positive)
        for s, gap in enumerate(gaps):
            if over_unit(gap, 0.5 * design.yy) > GAP:
                doubts[s] = _doubt(design, gap, exact[s], points.away[s], np.flatnonzero(held[s]))
    return gaps, doubts


def _without_room(design: Design, seen: Residuals, W: Floats, A: Floats, positive: Limit, room: float) -> np.ndarray:
    """(solutions, d) bool: columns to which a dual point is made orthogonal."""
    held = (room * seen.noise >= A) & (design.squares > 0.0)
    # where w is at a bound, x_j'u may be beyond a_j by any amount
    return np.asarray(held & ~pressed(positive, W, seen.gradients, AT_ZERO * np.sqrt(design.squares * design.yy)))


def _gaps(
    design: Design,
    seen: Residuals,
    points: DualPoints,
    W: Floats,
    A: Floats,
    ridge: Floats,
    held: np.ndarray,
    positive: Limit,
) -> Floats:
    """P(w) - D(u) for the largest u = scale p that are certainly feasible, and no less than what rounding may hide of it;
    inf where w breaks a constraint."""
    used, root = W != 0.0, np.sqrt(design.squares)
    broken = (used & np.isinf(A)).any(axis=1) | breaks(positive, W).any(axis=1) | ~np.isfinite(W).all(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        cost = np.where(used & np.isfinite(A), A, 0.0) * np.abs(W)
        primal = 0.5 * (np.sqrt(seen.losses) + seen.blur) ** 2 + (cost + 0.5 * ridge * W**2).sum(axis=1)
        noise = seen.noise + np.multiply.outer(points.away, root)
        soft = ridge > 0.0
        bound = np.isfinite(A) & ~held & ~soft & (root > 0.0)
        size = outward(positive, W, points.gradients) + noise
        ratio = np.divide(A, size, out=np.full(A.shape, np.inf), where=bound & (size > 0.0))
        scale = np.minimum(1.0, ratio.min(axis=1, initial=np.inf))
        fit = np.where(bound & used, W * points.gradients - np.abs(W) * noise, 0.0)
        slack = np.maximum(cost - scale[:, None] * fit, 0.0)
        if soft.any():
            gradients = scale[:, None] * points.gradients
            slack = np.where(soft, ridge_slack(W, A, ridge, gradients, noise, positive), slack)
        slack = slack.sum(axis=1)
        squares = points.moved + (1.0 - scale) ** 2 * (points.squares + seen.unknown**2)
        apart = np.sqrt(squares) + scale * points.away + seen.blur
        gap = np.fmin(0.5 * apart**2 + slack, primal)  # u = 0 is feasible, too
    return np.where(broken | vacuous(design) | ~(gap >= 0.0), np.inf, gap)


def ridge_slack(W: Floats, A: Floats, ridge: Floats, gradients: Floats, noise: Floats, positive: Limit) -> Floats:
    """What entries with a ridge add to a gap, given x_j'u and what rounding may hide of that: the least that their penalty
    and its conjugate leave of w_j x_j'u. Where a weight is infinite nothing is added: w is 0 there."""
    bound, some = np.where(np.isfinite(A), A, 0.0), ridge > 0.0
    inside = np.minimum(gradients, bound) if positive is True else np.clip(gradients, -bound, bound)
    best = np.divide(gradients - inside, ridge, out=np.zeros_like(W), where=some)  # what w_j would have to be
    beyond = np.maximum(outward(positive, W, gradients) + noise - bound, 0.0)
    hidden, press = np.where((W == 0.0) & (best == 0.0), beyond, noise), np.zeros_like(W)
    if isinstance(positive, Box):
        best, free = np.clip(best, positive.low, positive.high), best
        press = ridge * np.abs(free - best)  # with which it is held at its bound
        hidden = np.where((best == W) & (press > 0.0), np.maximum(noise - press, 0.0), hidden)
    far = np.abs(W - best) + np.divide(hidden, ridge, out=np.zeros_like(W), where=some)
    out = np.maximum(bound * np.abs(W) - inside * W, 0.0) + 0.5 * ridge * far**2 + press * np.abs(W - best)
    return np.where(np.isfinite(A) & some, out, 0.0)


def _doubt(design: Design, gap: float, exact: float, away: float, held: Ints) -> Doubt:
    """Why a gap is large, given what it would be without rounding, and how far a dual point may be from orthogonal to the
    columns held."""
    if vacuous(design):
        return Doubt("underflow")
    poor = few_digits(design, away, held)
    if poor is not None:
        return poor
    return Doubt("rounding" if exact <= 0.1 * gap else "far")


# ------------------------------------------------------------------ optimality and uniqueness


def violations(design: Smooth, W: Floats, A: Floats, gradients: Floats, positive: Limit = False) -> Floats:
    """Largest violation of the optimality conditions by each row of W, as a correlation between a column and y (0 to 1).

    g_j = a_j sign(w_j) where w_j != 0, |g_j| <= a_j elsewhere (g_j <= a_j if positive); beyond that at a bound.
    """
    length = np.sqrt(design.squares) * np.sqrt(design.yy)
    live = (length > 0) & np.isfinite(A)
    bound = np.where(live, A, 0.0)
    outside = np.maximum(outward(positive, W, gradients) - bound, 0.0)
    rest = gradients - bound * np.sign(W)
    inner = np.where(pressed(positive, W, rest), 0.0, np.abs(rest)) if isinstance(positive, Box) else np.abs(rest)
    error = np.where(W != 0.0, inner, outside)
    out: Floats = np.divide(error, length, out=np.zeros(error.shape), where=live).max(axis=1, initial=0.0)
    return out


def at_bound(design: Smooth, W: Floats, A: Floats, gradients: Floats, positive: Limit) -> np.ndarray:
    """(solutions, d) bool: features whose gradient is at its bound, within EQUICORRELATION (a share of the bound)."""
    length = np.sqrt(design.squares)
    slack = EQUICORRELATION * A + np.outer(gradient_noise(design, W), length)
    with np.errstate(invalid="ignore"):
        reached = outward(positive, W, gradients) >= A - slack
        held = pressed(positive, W, gradients - A * np.sign(W), slack) if isinstance(positive, Box) else False
    out: np.ndarray = ((reached & np.isfinite(A)) | (W != 0.0)) & (length > 0) & ~np.asarray(held)
    return out


def gradient_noise(design: Smooth, W: Floats) -> Floats:
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
        return True, NONE
    length = np.sqrt(design.squares[E])
    X = design.columns(E)
    try:
        if E.size <= design.order:
            G = (design.gram_rows(E)[:, E] if X is None else X.T @ X) / np.outer(length, length)
            cholesky(G - rank_margin(E.size) * np.eye(E.size))
            return True, NONE
    except LinAlgError:
        pass
    if E.size > MANY:
        return False, E  # too many to single some out
    X = with_rows(design).columns(E)
    R, order = qr(np.linalg.qr(X / length, mode="r"), mode="r", pivoting=True)
    pivots = np.abs(np.diag(R))
    rank = int((pivots > RANK * pivots[0]).sum())
    if rank == E.size:
        return True, NONE
    # what the dependent ones are made of
    through = np.abs(solve_triangular(R[:rank, :rank], R[:rank, rank:])).max(axis=1)
    return False, E[np.sort(np.concatenate([order[:rank][through > 1e-6], order[rank:]]))]


# ------------------------------------------------------------------ of a whole W


def loss_of(designs: Sequence[Smooth], W: Floats) -> float:
    """l(W) = sum_i 1/(m n_i) |X_i w_i - y_i|^2; W is (m, d)."""
    return sum(design.loss(w) / design.n for design, w in zip(designs, W, strict=True)) / len(designs)


def relative_gap(designs: Sequence[Smooth], certificates: Sequence[TaskCertificate]) -> float:
    """(primal - dual) / (loss at W = 0), over all tasks."""
    gap = sum(c.gap / design.n for design, c in zip(designs, certificates, strict=True))
    unit = sum(c.unit / design.n for design, c in zip(designs, certificates, strict=True))
    return over_unit(gap, unit)


def main_doubt(designs: Sequence[Smooth], certificates: Sequence[TaskCertificate]) -> Doubt | None:
    """Of the task with the largest gap, if its certificate says why that is large."""
    gaps = [c.gap / design.n for design, c in zip(designs, certificates, strict=True)]
    i = int(np.argmax(gaps))
    doubt = certificates[i].doubt
    return None if doubt is None else replace(doubt, task=i)


def block_value(loss: float, row_norms: Floats, v: Floats, lam: float, theta: float) -> float:
    """The paper's block-descent function f(W, v) = l(W) + lam v'h(W) - lam g*(v), g*(v) = -theta sum_j (1 - v_j).

    At v = (stage weights made of W) / lam it equals objective (1); it never rises over the stages.
    """
    capped = 0.0 if np.isinf(theta) else theta * float((1.0 - v).sum())
    return loss + lam * (float(v @ row_norms) + capped)


def largest_violation(designs: Sequence[Smooth], W: Floats, A: Floats, positive: Limit = False) -> float:
    """Of the optimality conditions of all tasks' lassos with weights A (m, d), at W (m, d), as a correlation."""
    return max(
        float(violations(design, w[None], a[None], design.gradient(w)[None], of_task(positive, i))[0])
        for i, (design, w, a) in enumerate(zip(designs, W, A, strict=True))
    )


WAYS_OUT = {
    "underflow": "the squares of the targets of task {task!r} are too small for floats, so that there is no loss to compare "
    "with. Rescale y",
    "statistics": "the statistics of task {task!r} hold {digits} of the fit of features that are not penalised and nearly "
    "dependent ({features}). Centre or rescale these columns before the statistics are taken, penalise them, or fit to rows",
    "dependent": "in task {task!r} rounding leaves {digits} of the fit of features that are not penalised and nearly "
    "dependent ({features}). Centre or rescale these columns, penalise them, or leave one out",
    "rounding": "in task {task!r} rounding can hide this much, as columns or coefficients differ too much in size. Rescale "
    "the columns, penalise more, or raise tol",
    "far": "no better solution was found. Raise tol, penalise more, or rescale columns that differ much in size",
    "endless": "no finite coefficients are best in task {task!r}: features that are not penalised ({features}) lead its "
    "loss ever further down. Penalise them",
    "unfinished": "the solver ran out of rounds. Raise max_iter or tol",
}


def explain(doubt: Doubt | None, labels: Sequence[Hashable], names: np.ndarray | Sequence[str]) -> str:
    """A doubt in words, with the way out, for tasks and features with these names."""
    if doubt is None:
        return ""
    features = [repr(str(names[j])) for j in doubt.features[:6]] + ["..."] * (len(doubt.features) > 6)
    digits = f"about {doubt.digits} digit{'s' * (doubt.digits > 1)}" if doubt.digits else "no digits"
    kind = "statistics" if doubt.kind == "dependent" and doubt.statistics else doubt.kind
    return WAYS_OUT[kind].format(task=labels[doubt.task], digits=digits, features=", ".join(features))


@dataclass(frozen=True)
class Certificate(Card):
    """What is proven about a fit. Print it for the answer in words.

    Attributes
    ----------
    dual_gap : float
        Relative duality gap of the last stage.
    kkt : float
        Largest violation of the last stage's optimality conditions, as a correlation (0 to 1).
    critical : float
        Largest violation of the optimality conditions of the non-convex objective (1) itself, as a
        correlation.
    unique : bool
        Whether every stage's solution is certainly the only one.
    monotone : bool
        Whether the objective never rose over the stages.
    ambiguous : dict {task: feature names}
        The coefficients of the last stage whose uniqueness could not be certified.
    tol : float
        The gap that the fit was asked to reach.
    convex : bool
        Whether the objective is convex, so that its minimum is what was found.
    added : int
        Number of tasks that were added after the fit, each solved for itself; `critical` and `monotone`
        are about the others.
    doubt : str
        Where the gap is above `tol`: why no smaller gap is certified, and what can be done.

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
    doubt: str = ""

    @property
    def optimal(self) -> bool:
        """Whether the last stage is certified to be solved to the tolerance asked for."""
        return 0.0 <= self.dual_gap <= self.tol

    def __str__(self) -> str:
        lines = [
            f"{'solved' if self.optimal else 'NOT solved, not certified'}: relative duality gap {self.dual_gap:.1e} "
            f"(tolerance {self.tol:.0e}), optimality violation {self.kkt:.1e}",
        ]
        if self.doubt and not self.optimal:
            lines.append(f"  {self.doubt}")
        if self.convex:
            lines.append(
                "the objective is convex: no other solution has a smaller one"
                if self.optimal
                else "the objective is convex: others may have a smaller one, by no more than the gap"
            )
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
                f"{self.added} task(s) added later, each given what the others have: the objective is the others'"
            )
        return "\n".join(lines)
