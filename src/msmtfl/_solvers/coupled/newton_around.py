"""Losses that are not squared in models that couple the tasks: Newton steps around what solves these for squared loss.

    min_P  sum_i kappa_i sum_r v_r h(y_r, f_r) + penalty(P),      f_r = o_r + x_r'w_i + b_i,  W a linear function of P

A step replaces every task's loss by its parabola at the present f, which is a task under squared loss with other weights and
targets. The problem with these tasks is solved by the solver of its structure, from the present P; then follows a
line search on what is minimised. That is the same for all structures: a `Form` says how points, penalty and coefficients
hang together, and which solver is around. Only the features in work (in use, free, or with a gradient too large for 0) take
part; the gradient of all others is looked at when the steps have settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from ..._data.designs import Floats, Ints
from ..._objective.coupled.groups import Groups
from ..._objective.coupled.row_norms import RowNorm
from ..._objective.loss_task import LossTask
from ..._objective.losses import Squared
from ..._objective.problem import Problem
from ..stages import SETTLED
from .parabolas import Parabola, Samples

GOAL = 1e-12  # change of the linear predictors, over the root of the loss at W = 0, at which steps end
PATIENCE = 3  # steps without progress that are made before rounding is blamed
ROUNDED = 1e-5  # change of the linear predictors above which it is not: the solve is not finished
HALVED = (
    10  # times that a step is halved before it is cut to a tenth: from saturated rows it may be 1e26 times too long
)
# It takes less than ten, or thirty where classes are separable.
STEPS = 150  # Newton steps with the same features in work
GOES = 1000  # goes over the rows that a parabola gets: the next step goes on where they end
ROUNDS = 1000  # of taking features into work
VIOLATES = 1e-10  # excess of a feature's gradient over its bound, relatively, from which it is taken into work
AT_LEAST = 16  # features taken into work together
CAUTION = 1e-6  # the least share of a majorant that is added where a loss has no curvature
NEAR, ROUGH = 1e-2, 1e-6  # a change from which on parabolas are minimised exactly, and how exactly they are before
FASTER = 1.5  # the power of the last change, from which on convergence is that of Newton's method
CLOSE = (
    1e-6  # a change of the linear predictors up to which steps need no line search: twice the root of what they gain
)
AT_HAND = 2**22  # entries of the features in work that are kept from one solve to the next
NOISE = 1e-15  # of the objective: what rounding may hide

Stage = TypeVar("Stage")  # the penalty of a stage, in the form in which a structure's solver takes it
RowsStage: TypeAlias = tuple[RowNorm, Floats | None]  # a norm, and a ridge (m, d), in sums
# weights and a ridge (m + 1, d), in sums, and which features belong together
CommonStage: TypeAlias = tuple[Floats, Floats | None, Groups | None]


class Form(Protocol[Stage]):
    """What the Newton steps ask of a structure. Points P are (height, d); a `penalty` is that of a stage, in the form in
    which the structure's solver takes it."""

    height: int
    kappa: Floats  # (m,)

    def coefs(self, P: Floats) -> Floats:
        """(m, d)"""

    def value(self, penalty: Stage, P: Floats) -> float:
        """The penalty at P."""

    def on(self, penalty: Stage, features: Ints) -> Stage:
        """The penalty of some of the features."""

    def always(self, penalty: Stage) -> np.ndarray:
        """(d,) bool: features that are in work from the start, as they are free."""

    def excess(self, penalty: Stage, G: Floats) -> Floats:
        """(d,): how large the gradients of features that are 0 are, 1 being as large as they may be; G (m, d) is minus the
        gradient of the loss, kappa_i times that of a task."""

    def solved(self, problem: Problem, penalty: Stage, P: Floats, aim: Floats, accuracy: float) -> tuple[Floats, Any]:
        """The minimiser for a problem with squared loss, from P, of several the nearest to `aim`; and what found it."""


@dataclass
class _Present:
    """Where the steps are: a point of the features in work, and the linear predictors and the intercepts of all tasks."""

    P: Floats
    f: Floats
    levels: Floats
    value: float


@dataclass
class _Kept:
    """What is known of the point that the last solve has found."""

    P: Floats
    f: Floats
    levels: Floats
    loss: float


class NewtonAround(Generic[Stage]):
    """Minimises the loss plus a penalty; each solve starts where the last one ended.

    Attributes
    ----------
    finished : whether the last solve came to its end
    inner : what solved the last parabola, on the features `work`
    """

    def __init__(self, problem: Problem, form: Form[Stage]):
        self.problem, self.form = problem, form
        self.designs: Sequence[LossTask] = problem.designs
        self.last = np.zeros((form.height, problem.d))
        self.finished, self.caution = True, 1.0
        self.inner: Any = None
        self.work: Ints = np.empty(0, dtype=np.intp)
        self.kept: _Kept | None = None
        self.ends: list[_Kept] = []  # where the last two solves have ended
        self.sampled: tuple[bytes, Samples] | None = None  # those of the last features in work

    @cached_property
    def unit(self) -> float:
        """The loss at W = 0."""
        return float(sum(k * design.null for k, design in zip(self.form.kappa, self.designs, strict=True)))

    @cached_property
    def live(self) -> np.ndarray:
        """(d,) bool: features that vary in some task, and are not excluded in all."""
        entries = self.problem.learnable & np.isfinite(self.problem.factors.T)
        return np.asarray(entries.any(axis=0))

    def gradients(self, P: Floats) -> Floats:
        """(m, d): minus that of the loss."""
        parts = zip(self.form.kappa, self.designs, self.form.coefs(P), strict=True)
        return np.array([k * design.gradient(w) for k, design, w in parts])

    @np.errstate(over="ignore", invalid="ignore")  # what leaves the range of floats is no step down
    def solve(self, penalty: Stage, aim: Floats | None = None, max_iter: int = 0) -> tuple[Floats, int]:
        """The point (height, d), and Newton steps."""
        form, most = self.form, max_iter or STEPS
        P, aim = self._start(penalty), np.zeros_like(self.last) if aim is None else aim
        work, total, self.finished = self._whole_groups(P.any(axis=0) | form.always(penalty)), 0, False
        for _ in range(ROUNDS):
            new = self._wanted(penalty, P, work)
            if total and not new.any():
                self.finished = True
                break
            work |= new
            if not work.any():
                P, total, self.finished = np.zeros_like(P), 1, True
                break
            P, steps, settled = self._descend(penalty, P, np.flatnonzero(work), aim, most - total if max_iter else most)
            total += steps
            if not settled:
                break
        self.last = P
        self.ends = [*self.ends[-1:], self.kept] if self.kept is not None else []
        return P.copy(), max(total, 1)

    def _start(self, penalty: Stage) -> Floats:
        """The last solution, if it is better than 0."""
        P = np.where(self.live & np.isfinite(self.last), self.last, 0.0)
        if not P.any():
            return P
        if self.kept is not None and np.array_equal(P, self.kept.P):
            loss = self.kept.loss
        else:
            parts = zip(self.form.kappa, self.designs, self.form.coefs(P), strict=True)
            loss = sum(0.5 * k * design.loss(w) for k, design, w in parts)
        value = loss + self.form.value(penalty, P)
        return self._ahead(penalty, P, value) if value <= self.unit else np.zeros_like(P)

    def _ahead(self, penalty: Stage, P: Floats, value: float) -> Floats:
        """P, or a point as far beyond it as it is beyond the solution before, if that is better: paths go straight on."""
        if len(self.ends) < 2 or self.sampled is None or self.ends[1] is not self.kept:
            return P
        before, now = self.ends
        if not np.array_equal(P, now.P) or before.P[now.P == 0.0].any():
            return P
        f, to = 2.0 * now.f - before.f, 2.0 * now.P - before.P
        loss = self.sampled[1].value(f)
        if not loss + self.form.value(penalty, to) < value:
            return P
        self.kept = _Kept(to, f, 2.0 * now.levels - before.levels, loss)
        return to.copy()

    def _samples(self, B: Ints) -> Samples:
        """Those on the features B."""
        key = B.tobytes()
        if self.sampled is not None and self.sampled[0] == key:
            return self.sampled[1]
        samples = Samples(self.designs, B, self.form.kappa)
        self.sampled = (key, samples) if samples.X.size <= AT_HAND else None
        return samples

    def _wanted(self, penalty: Stage, P: Floats, work: np.ndarray) -> np.ndarray:
        """(d,) bool: the features that violate optimality most."""
        if work[self.live].all():
            return np.zeros_like(work)
        over = np.where(work | ~self.live, 0.0, self.form.excess(penalty, self.gradients(P)))
        out = np.asarray(over > 1.0 + VIOLATES)
        most = max(AT_LEAST, int(np.count_nonzero(work)))
        if np.count_nonzero(out) > most:
            out[np.argsort(-over, kind="stable")[most:]] = False
        return np.asarray(self._whole_groups(out) & ~work)

    def _whole_groups(self, features: np.ndarray) -> np.ndarray:
        """(d,) bool: features, and those that belong to their groups, as far as they count."""
        groups = self.problem.groups
        return np.asarray(self.live & (features if groups is None else groups.closed(features)))

    # ------------------------------------------------------------------ the features in work

    def _descend(self, penalty: Stage, P: Floats, B: Ints, aim: Floats, most: int) -> tuple[Floats, int, bool]:
        """Newton steps on the features B until they settle; with how many they were, and whether they did."""
        form, part = self.form, self.form.on(penalty, B)
        samples = self._samples(B)
        if self.kept is not None and np.array_equal(P, self.kept.P):
            f, levels = self.kept.f, self.kept.levels
        else:
            pairs = list(zip(self.designs, form.coefs(P), strict=True))
            levels = np.array([design.level(w) for design, w in pairs])
            f = np.concatenate([design.predictor(w) for design, w in pairs])
        now = self._at(part, samples, P[:, B], f, levels)
        best, idle, moved, before = np.inf, 0, 1.0, 1.0
        cautious = bool(samples.majorant(f).any())
        self.work = B
        for step in range(most):
            slow = self.caution if cautious else 0.0  # by which a step falls short of Newton's
            to, bend, slope = self._step(part, samples, now, aim[:, B], SETTLED if moved < NEAR else ROUGH)
            moved, before = self._moved(samples, now, to, bend), moved
            now, fell = self._search(part, samples, now, to, slope, moved)
            idle = 0 if moved < 0.5 * best or fell else idle + 1
            best = min(best, moved)
            # steps that fall as the square of those before leave nothing to the next one
            fast = moved <= CLOSE and before < NEAR and moved <= before**FASTER and slow * moved <= GOAL
            if moved <= GOAL or idle > PATIENCE or fast:
                return self._whole(P, B, samples, now), step + 1, best <= ROUNDED
        return self._whole(P, B, samples, now), most, False

    def _whole(self, P: Floats, B: Ints, samples: Samples, now: _Present) -> Floats:
        """The point of all features; tasks are told what is known of it."""
        out = np.zeros_like(P)
        out[:, B] = now.P
        self.kept = _Kept(out.copy(), now.f, now.levels, samples.value(now.f))
        known = zip(self.designs, self.form.coefs(out), samples.parts, now.levels.tolist(), strict=True)
        for design, w, of_task, level in known:
            design.note(w, level, now.f[of_task])
        return out

    def _at(self, part: Stage, samples: Samples, P: Floats, f: Floats, levels: Floats) -> _Present:
        return _Present(P, f, levels, samples.value(f) + self.form.value(part, P))

    def _step(
        self, part: Stage, samples: Samples, now: _Present, aim: Floats, accuracy: float
    ) -> tuple[_Present, Floats, Floats]:
        """The minimiser with the parabolas at the present point, their curvatures and slopes."""
        bend, slope = samples.bend(now.f, self.caution), samples.slope(now.f)
        tasks = samples.parabolas(now.f, slope, bend)
        P, self.inner = self.form.solved(self._working(tasks), part, now.P, aim, accuracy)
        W = self.form.coefs(P)
        own = samples.levels(tasks, W)
        levels = np.where(samples.centred, own, now.levels)
        return self._at(part, samples, P, samples.predictors(W, own), levels), bend, slope

    def _working(self, tasks: list[Parabola]) -> Problem:
        """The problem with parabolas on the features in work, in the units of the problem itself."""
        problem, B = self.problem, self.work
        designs: list[Any] = list(tasks)
        return replace(
            problem,
            designs=designs,
            given_factors=problem.given_factors[B],
            loss=Squared(),
            known_units=np.ascontiguousarray(problem.units[:, B]),
            known_common=problem.common_factors[B],
            intercepts="task",
            groups=None if problem.groups is None else problem.groups.on(B),
        )

    def _moved(self, samples: Samples, now: _Present, to: _Present, bend: Floats) -> float:
        """How far a step goes, in linear predictors weighed by curvature, over the root of the loss at W = 0."""
        with np.errstate(over="ignore", invalid="ignore"):
            square = float(samples.weight @ (bend * (to.f - now.f) ** 2))
        return float(np.sqrt(square / self.unit)) if self.unit > 0.0 else 0.0

    def _search(
        self, part: Stage, samples: Samples, now: _Present, to: _Present, slope: Floats, moved: float
    ) -> tuple[_Present, bool]:
        """As far towards `to` as the objective falls enough; and whether it falls by more than rounding."""
        fall = float(samples.weight @ (slope * (to.f - now.f)))
        fall = min(fall + self.form.value(part, to.P) - self.form.value(part, now.P), 0.0)
        size, t, at = abs(now.value) + self.unit, 1.0, to
        noise = NOISE * size
        if (
            moved <= CLOSE and to.value <= now.value + CLOSE**2 * size
        ):  # rounding of the objective says nothing any more
            self.caution = max(0.1 * self.caution, CAUTION)
            return to, to.value < now.value - 100.0 * noise
        for turn in range(60):
            if at.value <= now.value + 1e-4 * t * fall + noise:
                self.caution = max(0.1 * self.caution, CAUTION) if t == 1.0 else min(10.0 * self.caution, 1.0)
                return at, at.value < now.value - 100.0 * noise
            t *= 0.5 if turn < HALVED else 0.1
            f, levels = now.f + t * (to.f - now.f), now.levels + t * (to.levels - now.levels)
            at = self._at(part, samples, now.P + t * (to.P - now.P), f, levels)
        self.caution = 1.0
        return now, False


def finite(weights: Floats, x: Floats) -> Floats:
    """weights times x, 0 where x is, whatever the weight."""
    return np.multiply(weights, x, out=np.zeros_like(x), where=x != 0.0)


def mean_of_tasks(designs: Sequence[LossTask]) -> Floats:
    """(m,): kappa where every task counts the same."""
    return np.array([2.0 / (len(designs) * design.n) for design in designs])
