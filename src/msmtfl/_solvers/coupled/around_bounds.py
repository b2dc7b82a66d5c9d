"""Bounds low <= W <= high in models that couple the tasks: a method of multipliers around what solves these without bounds.

    min_P  loss(W) + penalty(P)    where W, a linear function of P (`Form`), is within the bounds

Coefficients beyond a bound are drawn back by springs, sum_ij s_ij / 2 (w_ij - t_ij)^2 in a task's own sums, t being the
bound and a force u over s beyond it. A task with springs is a task with a few samples more (`Ridged`), so that the solver of
the structure, whatever it is, solves the problem with springs exactly; coefficients that pass a bound on the way get
springs, those that come back lose them, and a search along the line makes sure that the objective with springs falls. What a
spring is stretched by then goes into its force: distances to the bounds fall a hundredfold each time, and the forces become
the multipliers of the bounds, which certificates need (`_objective/proofs/pressed.py`). At last coefficients are put
on their bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic

import numpy as np

from ..._data.designs import Floats, Ints
from ..._data.forms.ridged import Ridged
from ..._objective.box import Box, outwards
from ..._objective.problem import Problem
from ..stages import SETTLED
from .newton_around import Form, NewtonAround, Stage

STIFF = 1e2  # of springs, over the sum of squares of a column
SLOW, STIFFER, STIFFEST = (
    0.2,
    10.0,
    1e7,
)  # a share from which on springs are too soft; by what they become stiffer; limit
REACHED = 1e-13  # distance to the bounds, as a correlation, at which forces are right
ROUNDS = 60  # times that forces are found anew; it takes about five
PATIENCE = 3  # of these without progress, before rounding is blamed
CLOSE = 1e-9  # the distance from which on it may be
SETS = 100  # sets of springs for the same forces
HALVINGS = 30
RESTS = 20  # times that features may come to rest on the way
SMALL = 1e-6  # a coefficient, as a correlation, that may be 0
INSIDE = 1e-9  # share by which the gradients of features at rest are smaller than they may be
NEARLY = 1e-9  # how far from the bounds sums of parts may be on the way
NUDGES = 8  # of a sum by one unit in its last place
NOISE, HIDDEN = 1e-14, 1e-11  # of the objective: what rounding may hide, of one value and of steps near the end


class AroundBounds(Generic[Stage]):
    """Minimises the squared loss of all tasks plus a penalty within bounds; each solve starts where the last one ended.

    Attributes
    ----------
    forces : (m, d) multipliers of the bounds, > 0 where the lower one presses, in a task's own sums
    finished : whether the last solve came to its end
    inner : what solved the last problem with springs
    """

    def __init__(self, problem: Problem, form: Form[Stage]):
        box = problem.box
        assert box is not None
        self.problem, self.form, self.box = problem, form, box
        self.designs: Sequence[Any] = problem.designs
        self.last = np.zeros((form.height, problem.d))
        self.forces: Floats | None = None
        self.finished = True
        self.inner: Any = None
        self.work: Ints = np.arange(problem.d)
        squares = np.array([design.squares for design in problem.designs])
        self.root = np.sqrt(squares)
        kappa = form.kappa
        self.unit = 0.5 * float(sum(k * design.yy for k, design in zip(kappa, self.designs, strict=True)))

    def gradients(self, P: Floats) -> Floats:
        """(m, d): minus that of the loss."""
        return np.asarray(self.form.kappa[:, None] * self._slopes(self.form.coefs(P)))

    def _slopes(self, W: Floats) -> Floats:
        """The same in the tasks' own sums."""
        return np.array([design.gradient(w) for design, w in zip(self.designs, W, strict=True)])

    def solve(
        self, penalty: Stage, aim: Floats | None = None, max_iter: int = 0, accuracy: float = SETTLED
    ) -> tuple[Floats, int]:
        """The point (height, d) within the bounds, and how many problems with springs were solved."""
        aim = np.zeros_like(self.last) if aim is None else aim
        P = np.where(np.isfinite(self.last), self.last, 0.0)
        if self.forces is None:
            W = self.form.coefs(P)
            self.forces = -outwards(self.box, np.where(W == 0.0, self._slopes(W), 0.0))
        best, idle, total, self.finished = np.inf, 0, 0, False
        self.stiff, self.before = np.where(self.root > 0.0, STIFF * self.root**2, 1.0), np.full_like(self.root, np.inf)
        self._targets()
        for step in range(ROUNDS):
            P, steps, settled = self._with_springs(penalty, P, aim, accuracy, max_iter - total if max_iter else SETS)
            total += steps
            W = self.form.coefs(P)
            forces, self.forces = self.forces, self.stiff * self._beyond(W)
            stretched = np.abs(self.forces - forces) / self.stiff
            if step < RESTS:
                P, before = self._at_rest(penalty, P, SMALL), W
                W = self.form.coefs(P)
                stretched = np.maximum(stretched, np.abs(W - before))
            error = float(np.max(stretched * self.root / self.lengths, initial=0.0))
            self._stiffen(stretched)
            idle = 0 if error < 0.5 * best else idle + 1
            best = min(best, error)
            if not settled or (max_iter and total >= max_iter):
                break
            if error <= REACHED or (idle > PATIENCE and best <= CLOSE):
                self.finished = True
                break
        P = self._at_rest(penalty, self._on_bounds(P), REACHED)
        self.last = P
        return P.copy(), max(total, 1)

    def _stiffen(self, stretched: Floats) -> None:
        """Have stiffer springs where they are stretched hardly less than before: a norm of few coefficients that are all but
        0 is itself as stiff."""
        slow = (stretched > SLOW * self.before) & (self.stiff < STIFFEST * self.root**2)
        self.stiff[slow] *= STIFFER
        self.before = np.where(slow, np.inf, stretched)

    def _targets(self) -> None:
        """Lengths (m, 1) that distances are relative to: those of the targets."""
        lengths = np.sqrt([max(float(design.yy), 0.0) for design in self.designs])
        self.lengths = np.where(lengths > 0.0, lengths, 1.0)[:, None]

    def _beyond(self, W: Floats) -> Floats:
        """(m, d): how far springs are stretched at W, with what the forces add: from where they would be pulled back."""
        assert self.forces is not None
        at = W - self.forces / self.stiff
        return np.asarray(np.clip(at, self.box.low, self.box.high) - at)

    # ------------------------------------------------------------------ springs

    def _with_springs(
        self, penalty: Stage, P: Floats, aim: Floats, accuracy: float, most: int
    ) -> tuple[Floats, int, bool]:
        """The minimiser with the present forces; how many problems it took, and whether they settled."""
        value = self._value(penalty, P)
        for step in range(most):
            on = self._beyond(self.form.coefs(P))
            to, self.inner = self.form.solved(self._sprung(on), penalty, P, aim, accuracy)
            same = np.array_equal(np.sign(self._beyond(self.form.coefs(to))), np.sign(on))
            new = self._value(penalty, to)
            if same and new <= value + NOISE * (abs(value) + self.unit):
                if getattr(self.inner, "finished", True):
                    return to, step + 1, True
                P, value = to, new
                continue
            P, value, moved = self._towards(penalty, P, to, value, new)
            if not moved:  # rounding hides what is gained
                return to if new <= value + HIDDEN * (abs(value) + self.unit) else P, step + 1, True
        return P, most, False

    def _sprung(self, on: Floats) -> Problem:
        """The problem without bounds, with springs where coefficients are beyond them."""
        assert self.forces is not None
        ends = np.where(on > 0.0, self.box.low, self.box.high)
        rest = np.where(on != 0.0, np.where(on != 0.0, ends, 0.0) + self.forces / self.stiff, 0.0)
        stiff = np.where(on != 0.0, self.stiff, 0.0)
        tasks: list[Any] = [
            Ridged(design, s, t) if s.any() else design for design, s, t in zip(self.designs, stiff, rest, strict=True)
        ]
        problem = self.problem
        return replace(
            problem,
            designs=tasks,
            positive=False,
            bounds=None,
            known_units=problem.units,
            known_common=problem.common_factors,
            intercepts="task",
        )

    def _value(self, penalty: Stage, P: Floats) -> float:
        """The objective with springs."""
        W = self.form.coefs(P)
        of_springs = (self.stiff * self._beyond(W) ** 2).sum(axis=1)
        parts = zip(self.form.kappa, self.designs, W, of_springs.tolist(), strict=True)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = sum(0.5 * k * (design.loss(w) + own) for k, design, w, own in parts)
        return float(loss + self.form.value(penalty, P))

    def _towards(self, penalty: Stage, P: Floats, to: Floats, value: float, new: float) -> tuple[Floats, float, bool]:
        """As far from P to another point as the objective falls, and whether it does."""
        if not np.isfinite(value):  # the start was that of another penalty
            return to, new, True
        t = 1.0
        for _ in range(HALVINGS):
            if new < value - NOISE * (abs(value) + self.unit):
                return P + t * (to - P), new, True
            t *= 0.5
            new = self._value(penalty, P + t * (to - P))
        return P, value, False

    def _at_rest(self, penalty: Stage, P: Floats, size: float) -> Floats:
        """The point without features that are all but 0 and have no reason to be anything else, as what gradients have
        beside the pressure of bounds of 0 is not large enough. Their forces are these pressures: many would do, and some
        would leave gradients as large as they may be."""
        assert self.forces is not None
        W = self.form.coefs(P)
        small = np.abs(W) * self.root <= size * self.lengths
        pressed, groups = (self.forces != 0.0).any(axis=0), self.problem.groups
        rows = small.all(axis=0) & ~self.form.always(penalty)
        if groups is not None:  # which come to rest as a whole
            rows, pressed = ~groups.closed(~rows), groups.closed(pressed)
        rows &= pressed
        if not rows.any():
            return P
        out = np.where(rows, 0.0, P)
        slopes = self._slopes(self.form.coefs(out))
        pushed = outwards(self.box, slopes)
        left = self.form.kappa[:, None] * np.where(rows, slopes - pushed, 0.0)
        rows &= self.form.excess(penalty, left) < 1.0 - INSIDE
        self.forces = np.where(rows, -pushed, self.forces)
        return np.where(rows, 0.0, P)

    # ------------------------------------------------------------------ the end

    def _on_bounds(self, P: Floats) -> Floats:
        """The point with coefficients that are pressed exactly at their bounds, and none beyond."""
        assert self.forces is not None
        W = self.form.coefs(P)
        self.forces = np.where(self.root > 0.0, self.forces, 0.0)
        wanted = np.where(self.forces > 0.0, self.box.low, np.where(self.forces < 0.0, self.box.high, W))
        wanted = np.clip(wanted, self.box.low, self.box.high)
        if np.array_equal(wanted, W):
            return P
        slopes = self._slopes(W)
        out = put(P, wanted, self.box)
        held = self.forces != 0.0
        forces = np.where(held, self.forces + slopes - self._slopes(self.form.coefs(out)), 0.0)
        self.forces = np.where(np.sign(forces) == np.sign(self.forces), forces, 0.0)
        return out


def put(P: Floats, W: Floats, box: Box) -> Floats:
    """The point next to P whose coefficients are W (m, d), which is within the bounds: P itself, or the sum of a common part
    and deviations. Where rounding leaves no sum that is W, it is one next to it and within the bounds. A common part that
    some tasks follow without deviations is moved, so that they have none afterwards."""
    m = len(W)
    if len(P) == m:
        return W.copy()
    out = P.copy()
    own, V = out[:-m], out[-m:]
    alike, shared = V == 0.0, in_tasks(own, m)
    if len(own) == m:
        own[alike] = W[alike]
    else:  # one for all tasks, of every class
        moved = (alike & (shared != W)).reshape(-1, *own.shape)
        some = moved.any(axis=0)
        first = np.take_along_axis(W.reshape(moved.shape), moved.argmax(axis=0)[None], axis=0)[0]
        own[some] = first[some]
        shared = in_tasks(own, m)
        W = np.where(alike & (shared >= box.low) & (shared <= box.high), shared, W)
    common = in_tasks(own, m)
    V[:] = np.where(common == W, 0.0, W - common)
    for _ in range(NUDGES):
        found = common + V
        low, high = found < box.low, found > box.high
        if not (low | high).any():
            break
        ulp = np.spacing(np.maximum(np.abs(V), np.abs(found)))
        V[:] = V + np.where(low, ulp, np.where(high, -ulp, 0.0))
    return out


def in_tasks(common: Floats, m: int) -> Floats:
    """(m, d): what is common to the tasks, (classes, d), or (m, d) already, as every task has it."""
    return np.tile(common, (m // len(common), 1))


def within(problem: Problem, P: Floats) -> Floats:
    """The point next to P (height, d) whose coefficients are within the bounds of a problem, if it has any."""
    box = problem.box
    if box is None:
        return P
    m = problem.m
    W = P if len(P) == m else in_tasks(P[:-m], m) + P[-m:]
    wanted = np.clip(W, box.low, box.high)
    return P if np.array_equal(wanted, W) else put(P, wanted, box)


class AsItIs(Generic[Stage]):
    """What Newton steps and springs go around, where there is nothing to go around: squared loss without bounds, or with
    bounds that the form meets by itself (those of groups of features)."""

    def __init__(self, problem: Problem, form: Form[Stage]):
        self.problem, self.form = problem, form
        self.designs: Sequence[Any] = problem.designs
        self.last = np.zeros((form.height, problem.d))
        self.inner: Any = None
        self.work: Ints = np.arange(problem.d)
        self.most = 0

    @property
    def finished(self) -> bool:
        return self.inner is None or bool(self.inner.finished)

    @property
    def forces(self) -> Floats | None:
        """(m, d): multipliers of bounds at the last solution, if there are any."""
        return None if self.inner is None else self.inner.forces

    def gradients(self, P: Floats) -> Floats:
        """(m, d): minus that of the loss."""
        parts = zip(self.form.kappa, self.designs, self.form.coefs(P), strict=True)
        return np.array([k * design.gradient(w) for k, design, w in parts])

    def solve(
        self, penalty: Stage, aim: Floats | None = None, max_iter: int = 0, accuracy: float = SETTLED
    ) -> tuple[Floats, int]:
        """The point (height, d), and the steps of what finds it."""
        aim = np.zeros_like(self.last) if aim is None else aim
        self.last, self.inner = self.form.solved(self.problem, penalty, self.last, aim, accuracy)
        return self.last.copy(), int(self.inner.steps)


class Bounded(Generic[Stage]):
    """A `Form` whose problems under squared loss have bounds: what Newton steps for other losses go around."""

    def __init__(self, form: Form[Stage], problem: Problem):
        box = problem.box
        assert box is not None
        self.form, self.box = form, box
        self.height, self.kappa = form.height, form.kappa
        self.features: Ints = np.arange(problem.d)
        self.known: Floats | None = None  # (m, d): forces

    def coefs(self, P: Floats) -> Floats:
        return self.form.coefs(P)

    def value(self, penalty: Stage, P: Floats) -> float:
        W = self.form.coefs(P)
        box = self.box if W.shape == self.box.low.shape else self.box.on(self.features)
        slack = NEARLY * (1.0 + np.abs(W))
        out = ((box.low - slack > W) | (box.high + slack < W)).any()
        return float("inf") if out else self.form.value(penalty, P)

    def on(self, penalty: Stage, features: Ints) -> Stage:
        self.features = features
        return self.form.on(penalty, features)

    def always(self, penalty: Stage) -> np.ndarray:
        return self.form.always(penalty)

    def excess(self, penalty: Stage, G: Floats) -> Floats:
        return self.form.excess(penalty, G - outwards(self.box, G))

    def solved(self, problem: Problem, penalty: Stage, P: Floats, aim: Floats, accuracy: float) -> tuple[Floats, Any]:
        features = self.features
        within = replace(problem, bounds=self.box.on(features), positive=False)
        solver: Any = AsItIs(within, self.form) if problem.groups is not None else AroundBounds(within, self.form)
        solver.last = P.copy()
        if self.known is not None and isinstance(solver, AroundBounds):
            solver.forces = self.known[:, features]
        found, _ = solver.solve(penalty, aim, accuracy=accuracy)
        if self.known is None:
            self.known = np.zeros((problem.m, self.box.low.shape[1]))
        assert solver.forces is not None
        self.known[:, features] = solver.forces
        return found, solver


def around(problem: Problem, form: Form[Stage]) -> Any:
    """What solves a problem whose structure a `Form` describes, if the form itself is not enough: the loss is not squared,
    or coefficients have bounds (which forms meet by themselves where features are in groups)."""
    if problem.loss.squared and (problem.box is None or problem.groups is not None):
        return AsItIs(problem, form)
    if problem.box is None:
        return NewtonAround(problem, form)
    return AroundBounds(problem, form) if problem.loss.squared else NewtonAround(problem, Bounded(form, problem))


def forces_of(around: Any) -> Floats | None:
    """The multipliers (m, d) of the bounds, if there are any, at the last solution of what `around` has made."""
    if isinstance(around, AroundBounds | AsItIs):
        return around.forces
    form: Any = around.form
    if not isinstance(form, Bounded):
        return None
    W = form.coefs(around.last)
    G = np.array([design.gradient(w) for design, w in zip(around.designs, W, strict=True)])
    out = -outwards(form.box, np.where(W == 0.0, G, 0.0))
    if form.known is not None:
        out[:, around.work] = form.known[:, around.work]
    return out


def lasso_forces(problem: Problem, lam: float, W: Floats, A: Floats) -> Floats | None:
    """The same at the solution W (m, d) of weighted lassos with weights A (m, d)."""
    box = problem.box
    if box is None:
        return None
    G = np.array([design.gradient(w) for design, w in zip(problem.at(lam), W, strict=True)])
    A = np.where(np.isfinite(A), A, np.inf)
    short = np.where(W != 0.0, np.where(W != 0.0, A, 0.0) * np.sign(W) - G, np.clip(G, -A, A) - G)
    return np.where((short > 0.0) & (box.low == W) | (short < 0.0) & (box.high == W), short, 0.0)
