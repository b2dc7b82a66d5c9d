"""What a norm of rows costs one more task, where the coefficients of the other tasks are held fixed.

With r_j what the others have of feature j, in the units of the new task's coefficient w_j, and a_j >= 0,

    L1,2    a_j ((r_j^2 + w_j^2)^1/2 - r_j)     smooth where others use the feature, |w_j| where none does
    Dirty   a_j max(|w_j| - r_j, 0)             nothing up to the shared part of the others, |w_j| beyond

Both are convex functions of every coefficient by itself, and lassos where no other task has anything (r = 0). Nothing but
the penalty and its certificate is here; `_solvers/given_rows.py` minimises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ..._data.designs import NONE, Floats, Ints
from ..penalties import bent
from ..proofs.certificates import CERTAIN, RowCertificate, full_rank
from ..proofs.dual_points import Doubt, over_unit, vacuous
from ..proofs.loss_certificates import INSIDE
from ..proofs.task_duals import duals, escaping_tasks, of_losses

STEPS = 100  # of Newton's method for one coefficient; it takes less than ten
AT_BOUND = 1e-9  # |gradient| this close to its bound, relatively, counts as at the bound


@dataclass(frozen=True)
class GivenRows:
    """Penalties of the coefficients of one task: `bound` a (d,), inf excludes a feature, and `reach` r (d,)."""

    structure: ClassVar[str] = "given"
    convex: ClassVar[bool] = True

    bound: Floats
    reach: Floats

    # ------------------------------------------------------------------ what kinds differ in

    def sizes(self, w: Floats) -> Floats:
        """(d,): the penalty of every coefficient, for finite bounds."""
        raise NotImplementedError

    def slopes(self, w: Floats) -> tuple[Floats, Floats]:
        """(d,) each: first and second derivatives, where there are such."""
        raise NotImplementedError

    def conjugates(self, u: Floats) -> Floats:
        """(d,): max over w of u w less the penalty, for |u| <= bound."""
        raise NotImplementedError

    def strict(self) -> np.ndarray:
        """(d,) bool: where the penalty is strictly convex."""
        raise NotImplementedError

    @staticmethod
    def best(h: float, rho: float, bound: float, reach: float) -> float:
        """argmin over w of h w^2 / 2 - rho w plus the penalty, h > 0."""
        raise NotImplementedError

    def kinks(self) -> Floats:
        """(d,): the size of a coefficient at which there is no derivative; inf where there is one everywhere."""
        raise NotImplementedError

    # ------------------------------------------------------------------ what all have

    def kinked(self, w: Floats) -> np.ndarray:
        """(d,) bool: where w is at a kink."""
        return np.asarray(np.abs(w) == self.kinks())

    def slope_range(self, w: Floats) -> tuple[Floats, Floats]:
        """(d,) each: the least and the largest subgradient at w."""
        low, high = self.slopes(w)[0], self.slopes(w)[0]
        kinked = self.kinked(w)
        least = np.where(w > 0.0, 0.0, -self.bound)
        most = np.where(w < 0.0, 0.0, self.bound)
        return np.where(kinked, least, low), np.where(kinked, most, high)

    def times(self, factor: float) -> Self:
        return replace(self, bound=factor * self.bound)

    def on(self, features: Ints) -> Self:
        return replace(self, bound=self.bound[features], reach=self.reach[features])

    # ------------------------------------------------------------------ a `Penalty`

    def value(self, W: Floats) -> float:
        w = W[:, 0]
        return float(self.finite.sizes(np.where(np.isinf(self.bound), 0.0, w)).sum())

    @property
    def finite(self) -> Self:
        """The same with 0 in place of bounds that exclude."""
        return replace(self, bound=np.where(np.isinf(self.bound), 0.0, self.bound))

    def row_norms(self, W: Floats) -> Floats:
        return np.abs(W[:, 0])

    def pattern(self, W: Floats) -> np.ndarray:
        return bent(np.ones(len(self.bound)))

    def weights(self, pattern: np.ndarray) -> Self:
        return self

    def row_slopes(self, pattern: np.ndarray) -> Floats:
        return np.ones(len(self.bound))

    def free_rows(self, pattern: np.ndarray) -> Ints:
        return np.flatnonzero(self.bound == 0.0)

    def free(self) -> np.ndarray:
        """(d, 1) bool"""
        return np.asarray(self.bound == 0.0)[:, None]


class Rounded(GivenRows):
    """a ((r^2 + w^2)^1/2 - r)"""

    def sizes(self, w: Floats) -> Floats:
        return np.asarray(self.bound * _beyond(self.reach, w))

    def slopes(self, w: Floats) -> tuple[Floats, Floats]:
        length = np.hypot(self.reach, w)
        safe = np.where(length > 0.0, length, 1.0)
        return self.bound * w / safe, np.where(length > 0.0, self.bound * self.reach / safe * self.reach / safe**2, 0.0)

    def conjugates(self, u: Floats) -> Floats:
        s = np.divide(np.abs(u), self.bound, out=np.zeros_like(u), where=self.bound > 0.0)
        s = np.minimum(s, 1.0)
        return np.asarray(self.bound * self.reach * s**2 / (1.0 + np.sqrt(1.0 - s**2)))

    def strict(self) -> np.ndarray:
        return (self.reach > 0.0) & (self.bound > 0.0)

    @staticmethod
    def best(h: float, rho: float, bound: float, reach: float) -> float:
        size = abs(rho)
        w = max((size - bound) / h, 0.0)
        if reach > 0.0 and bound > 0.0:  # the slope is concave from 0 on, so that steps come from below
            for _ in range(STEPS):
                length = math.hypot(reach, w)
                step = (size - h * w - bound * w / length) / (h + bound * (reach / length) ** 2 / length)
                if not step > 1e-16 * w:
                    break
                w += step
        return math.copysign(w, rho)

    def kinks(self) -> Floats:
        return np.where((self.reach == 0.0) & (self.bound > 0.0), 0.0, np.inf)


class Flat(GivenRows):
    """a max(|w| - r, 0)"""

    def sizes(self, w: Floats) -> Floats:
        return np.asarray(self.bound * np.maximum(np.abs(w) - self.reach, 0.0))

    def slopes(self, w: Floats) -> tuple[Floats, Floats]:
        return np.where(np.abs(w) > self.reach, self.bound * np.sign(w), 0.0), np.zeros_like(w)

    def conjugates(self, u: Floats) -> Floats:
        return np.asarray(self.reach * np.abs(u))

    def strict(self) -> np.ndarray:
        return np.zeros(len(self.bound), dtype=bool)

    @staticmethod
    def best(h: float, rho: float, bound: float, reach: float) -> float:
        size = abs(rho) / h
        return math.copysign(max(min(size, reach), size - bound / h), rho)

    def kinks(self) -> Floats:
        return np.where(self.bound > 0.0, self.reach, np.inf)


def _beyond(r: Floats, w: Floats) -> Floats:
    """(r^2 + w^2)^1/2 - r, in a form that loses no digits."""
    total = np.hypot(r, w) + r
    return np.divide(w**2, total, out=np.zeros_like(w), where=total > 0.0)


# ------------------------------------------------------------------ certificate


@np.errstate(over="ignore", invalid="ignore")  # what leaves the range of floats is not certified
def certify_given(design: Any, w: Floats, penalty: GivenRows, ridge: Floats | None) -> RowCertificate:
    """Gap, optimality and uniqueness of w (d,) for a task's loss (squared or not, without its ridge), a penalty and a ridge
    (d,), in the task's own sums.

    The gap is what a dual point u leaves of Fenchel's inequality, in the loss and in the penalty of every coefficient: u is
    the residual, made orthogonal to what is not penalised and scaled until it is within the bounds.
    """
    out = np.isinf(penalty.bound)
    if vacuous(design) or w[out].any() or not np.isfinite(w).all():
        return RowCertificate(float("inf"), float("inf"), False, (NONE,), Doubt("underflow"))
    finite, R = penalty.finite, np.zeros(len(w)) if ridge is None else ridge
    live = ~out & (design.squares > 0.0)
    bare = live & (R == 0.0)
    held = bare & (finite.bound == 0.0)
    best = (float("inf"), float("inf"))
    for escaped in (0.0, *([1e-9] if of_losses([design]) else [])):
        task = duals([design], w[None], escaped)[0]
        if not getattr(task, "lost", False):
            best = min(best, _gap(task, w, finite, R, live, held, bare & ~held))
    task = duals([design], w[None])[0]
    g = np.where(live, task.gradient - R * w, 0.0)
    low, high = finite.slope_range(w)
    error = np.where(live, np.maximum(np.maximum(low - g, g - high), 0.0), 0.0)
    length = np.sqrt(design.squares) * np.sqrt(design.yy)
    kkt = float(np.divide(error, length, out=np.zeros_like(w), where=length > 0.0).max(initial=0.0))
    inside = finite.kinked(w) & (g > low + AT_BOUND * finite.bound) & (g < high - AT_BOUND * finite.bound)
    open_ = np.flatnonzero(bare & ~finite.strict() & ~inside)
    dependent = open_ if open_.size and not _independent(task, design, open_) else NONE
    escapes = escaping_tasks([design], w[None], held[None])
    doubt = None if best[0] <= CERTAIN else Doubt("rounding" if best[1] <= 0.1 * best[0] else "far")
    unique = best[0] <= 1.0 and not dependent.size
    return replace(RowCertificate(best[0], kkt, unique, (dependent,), doubt), escapes=tuple(escapes))


def _gap(
    task: Any, w: Floats, penalty: GivenRows, ridge: Floats, live: np.ndarray, held: np.ndarray, bounded: np.ndarray
) -> tuple[float, float]:
    """The relative gap, and what it would be without rounding."""
    task.hold(held)
    over = (np.abs(task.dual[bounded]) + task.noise[bounded]) / penalty.bound[bounded]
    inside = min(1.0, 1.0 / max(float(over.max(initial=0.0)), np.finfo(float).tiny))
    for share in INSIDE:  # squared loss has a dual point of every size
        scale = share * inside
        u = np.where(live & ~held, scale * task.dual, 0.0)
        slack = penalty.sizes(w) + 0.5 * ridge * w**2 + _conjugates(penalty, ridge, u) - u * w
        hidden = float(task.noise[live] @ (np.abs(w) + np.where(penalty.bound > 0.0, penalty.reach, 0.0))[live])
        left = float(np.maximum(slack[live], 0.0).sum())
        gap = over_unit(task.apart(scale, task.away, task.blur) + left + hidden, task.unit)
        if np.isfinite(gap):
            return gap, over_unit(task.apart(scale, 0.0, 0.0) + left, task.unit)
    return float("inf"), float("inf")


def _independent(task: Any, design: Any, features: Ints) -> bool:
    columns = task.independent_columns(features)
    return full_rank(design.gram_block(features, features) if columns is None else columns.T @ columns)


def _conjugates(penalty: GivenRows, ridge: Floats, u: Floats) -> Floats:
    """(d,): those of the penalty and the ridge together."""
    out = penalty.conjugates(u)
    for j in np.flatnonzero(ridge > 0.0).tolist():
        one = penalty.on(np.array([j]))
        w = one.best(float(ridge[j]), float(u[j]), float(penalty.bound[j]), float(penalty.reach[j]))
        out[j] = u[j] * w - 0.5 * ridge[j] * w**2 - float(one.sizes(np.array([w]))[0])
    return np.asarray(out)
