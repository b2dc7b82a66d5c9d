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

from .._data.designs import DenseRows, Floats, Ints, RowTask
from .._objective.losses import LossTask, Squared
from .._objective.penalties import RowNorm
from .._objective.pooling import PoolingRidge
from .._objective.problem import Problem
from .common_part import Stacked, StackedGrams, StackedLassos
from .coupled_rows import SETTLED, CoupledRows
from .pooling import PooledFit, Pooling, sizes

GOAL = 1e-12  # change of the linear predictors, over the root of the loss at W = 0, at which steps end
PATIENCE = 3  # steps without progress that are made before rounding is blamed
# It takes less than ten, or thirty where classes are separable.
STEPS = 150  # Newton steps with the same features in work
GOES = 1000  # goes over the rows that a parabola gets: the next step goes on where they end
ROUNDS = 1000  # of taking features into work
VIOLATES = 1e-10  # excess of a feature's gradient over its bound, relatively, from which it is taken into work
AT_LEAST = 16  # features taken into work together
FLAT = 1e-12  # curvature, as a share of the largest, below which it is not taken at its word
CAUTION = 1e-6  # the least share of a majorant that is added where a loss has no curvature
LARGEST = 1e150  # curvature
LIKELY = 5  # times that a strength is found anew for the coefficients that it leads to
NEAR, ROUGH = 1e-2, 1e-6  # a change from which on parabolas are minimised exactly, and how exactly they are before
FASTER = 1.5  # the power of the last change, from which on convergence is that of Newton's method
CLOSE = (
    1e-6  # a change of the linear predictors up to which steps need no line search: twice the root of what they gain
)
NOISE = 1e-15  # of the objective: what rounding may hide

Stage = TypeVar("Stage")  # the penalty of a stage, in the form in which a structure's solver takes it
RowsStage: TypeAlias = tuple[RowNorm, Floats | None]  # a norm, and a ridge (m, d), in sums
CommonStage: TypeAlias = tuple[Floats, Floats | None]  # weights and a ridge (m + 1, d), in sums


class Parabola(RowTask):
    """The parabola that touches a task's loss, as a task under squared loss. Its n is that of the task, so that losses count
    as they do there, and its |y|^2 twice the loss at w = 0, which accuracies are relative to: where the loss is all but
    linear, targets are far away."""

    def __init__(self, rows: DenseRows, y: Floats, n: float, unit: float):
        super().__init__(rows, y)
        self.n, self.yy = n, unit


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
    f: list[Floats]
    levels: Floats
    value: float


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
        work, total, self.finished = self.live & (P.any(axis=0) | form.always(penalty)), 0, False
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
        return P.copy(), max(total, 1)

    def _start(self, penalty: Stage) -> Floats:
        """The last solution, if it is better than 0."""
        P = np.where(self.live & np.isfinite(self.last), self.last, 0.0)
        if not P.any():
            return P
        loss = sum(
            0.5 * k * design.loss(w)
            for k, design, w in zip(self.form.kappa, self.designs, self.form.coefs(P), strict=True)
        )
        return P if loss + self.form.value(penalty, P) <= self.unit else np.zeros_like(P)

    def _wanted(self, penalty: Stage, P: Floats, work: np.ndarray) -> np.ndarray:
        """(d,) bool: the features that violate optimality most."""
        if work[self.live].all():
            return np.zeros_like(work)
        over = np.where(work | ~self.live, 0.0, self.form.excess(penalty, self.gradients(P)))
        out = np.asarray(over > 1.0 + VIOLATES)
        most = max(AT_LEAST, int(np.count_nonzero(work)))
        if np.count_nonzero(out) > most:
            out[np.argsort(-over, kind="stable")[most:]] = False
        return out

    # ------------------------------------------------------------------ the features in work

    def _descend(self, penalty: Stage, P: Floats, B: Ints, aim: Floats, most: int) -> tuple[Floats, int, bool]:
        """Newton steps on the features B until they settle; with how many they were, and whether they did."""
        form, part = self.form, self.form.on(penalty, B)
        blocks = [design.block(B) for design in self.designs]
        W = form.coefs(P)
        levels = np.array([design.level(w) for design, w in zip(self.designs, W, strict=True)])
        now = self._at(part, P[:, B], [design.predictor(w) for design, w in zip(self.designs, W, strict=True)], levels)
        best, idle, moved, before = np.inf, 0, 1.0, 1.0
        self.work = B
        for step in range(most):
            to, bends, slopes = self._step(part, now, blocks, aim[:, B], SETTLED if moved < NEAR else ROUGH)
            moved, before = self._moved(now, to, bends), moved
            now, fell = self._search(part, now, to, slopes, moved)
            idle = 0 if moved < 0.5 * best or fell else idle + 1
            best = min(best, moved)
            # steps that fall as the square of those before leave nothing to the next one
            if moved <= GOAL or idle > PATIENCE or (moved <= CLOSE and before < NEAR and moved <= before**FASTER):
                return self._whole(P, B, now), step + 1, True
        return self._whole(P, B, now), most, False

    def _whole(self, P: Floats, B: Ints, now: _Present) -> Floats:
        """The point of all features; tasks are told what is known of it."""
        out = np.zeros_like(P)
        out[:, B] = now.P
        for design, w, f, level in zip(self.designs, self.form.coefs(out), now.f, now.levels.tolist(), strict=True):
            design.note(w, level, f)
        return out

    def _at(self, part: Stage, P: Floats, f: list[Floats], levels: Floats) -> _Present:
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite value is never a step down
            losses = (
                k * float(design.v @ design.of_loss.value(design.y, one))
                for k, design, one in zip(self.form.kappa, self.designs, f, strict=True)
            )
            return _Present(P, f, levels, sum(losses) + self.form.value(part, P))

    def _step(
        self, part: Stage, now: _Present, blocks: list[Floats], aim: Floats, accuracy: float
    ) -> tuple[_Present, list[Floats], list[Floats]]:
        """The minimiser with the parabolas at the present point, their curvatures and slopes."""
        tasks, bends, slopes = [], [], []
        for design, X, f in zip(self.designs, blocks, now.f, strict=True):
            loss, y = design.of_loss, design.y
            bend = np.maximum(loss.curvature(y, f), self.caution * loss.majorant(y, f))
            bend = np.minimum(bend, LARGEST)
            top = float(bend.max(initial=0.0))
            bend = np.maximum(bend, FLAT * top) if top > 0.0 else np.ones_like(bend)
            slope = loss.slope(y, f)
            tasks.append(Parabola(*design.parabola(X, f, slope, bend), design.n, 2.0 * design.null))
            bends.append(bend)
            slopes.append(slope)
        working = self._working(tasks)
        P, self.inner = self.form.solved(working, part, now.P, aim, accuracy)
        predictors, levels = [], now.levels.copy()
        for i, (task, design, w) in enumerate(zip(tasks, self.designs, self.form.coefs(P), strict=True)):
            level = 0.0
            if design.centred:
                level = levels[i] = float(task.intercepts(w[None])[0])
            predictors.append(blocks[i] @ w + level + design.beside)
        return self._at(part, P, predictors, levels), bends, slopes

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
        )

    def _moved(self, now: _Present, to: _Present, bends: list[Floats]) -> float:
        """How far a step goes, in linear predictors weighed by curvature, over the root of the loss at W = 0."""
        with np.errstate(over="ignore", invalid="ignore"):
            square = sum(
                k * float(design.v @ (bend * (g - f) ** 2))
                for k, design, bend, f, g in zip(self.form.kappa, self.designs, bends, now.f, to.f, strict=True)
            )
        return float(np.sqrt(square / self.unit)) if self.unit > 0.0 else 0.0

    def _search(
        self, part: Stage, now: _Present, to: _Present, slopes: list[Floats], moved: float
    ) -> tuple[_Present, bool]:
        """As far towards `to` as the objective falls enough; and whether it falls by more than rounding."""
        fall = sum(
            k * float(design.v @ (slope * (g - f)))
            for k, design, slope, f, g in zip(self.form.kappa, self.designs, slopes, now.f, to.f, strict=True)
        )
        fall = min(fall + self.form.value(part, to.P) - self.form.value(part, now.P), 0.0)
        size, t, at = abs(now.value) + self.unit, 1.0, to
        noise = NOISE * size
        if (
            moved <= CLOSE and to.value <= now.value + CLOSE**2 * size
        ):  # rounding of the objective says nothing any more
            self.caution = max(0.1 * self.caution, CAUTION)
            return to, to.value < now.value - 100.0 * noise
        for _ in range(60):
            if at.value <= now.value + 1e-4 * t * fall + noise:
                self.caution = max(0.1 * self.caution, CAUTION) if t == 1.0 else min(10.0 * self.caution, 1.0)
                return at, at.value < now.value - 100.0 * noise
            t *= 0.5
            f = [f + t * (g - f) for f, g in zip(now.f, to.f, strict=True)]
            at = self._at(part, now.P + t * (to.P - now.P), f, now.levels + t * (to.levels - now.levels))
        self.caution = 1.0
        return now, False


def _finite(weights: Floats, x: Floats) -> Floats:
    """weights times x, 0 where x is, whatever the weight."""
    return np.multiply(weights, x, out=np.zeros_like(x), where=x != 0.0)


def _mean_of_tasks(designs: Sequence[LossTask]) -> Floats:
    """(m,): kappa where every task counts the same."""
    return np.array([2.0 / (len(designs) * design.n) for design in designs])


# ------------------------------------------------------------------ norms of rows


class _OfRows:
    """W itself, with a norm of every row. `ridge` (m, d) is on the scale of a task's sums."""

    def __init__(self, problem: Problem, n_jobs: int | None):
        self.height, self.kappa, self.n_jobs = problem.m, _mean_of_tasks(problem.designs), n_jobs

    def coefs(self, P: Floats) -> Floats:
        return P

    def value(self, penalty: RowsStage, P: Floats) -> float:
        norm, ridge = penalty
        out = norm.value(P.T)
        return out if ridge is None else out + 0.5 * float(np.sum(self.kappa[:, None] * ridge * P**2))

    def on(self, penalty: RowsStage, features: Ints) -> RowsStage:
        norm, ridge = penalty
        return norm.of_rows(features), None if ridge is None else np.ascontiguousarray(ridge[:, features])

    def always(self, penalty: RowsStage) -> np.ndarray:
        return np.asarray(penalty[0].free().any(axis=1))

    def excess(self, penalty: RowsStage, G: Floats) -> Floats:
        return penalty[0].dual(G.T)

    def solved(
        self, problem: Problem, penalty: RowsStage, P: Floats, aim: Floats, accuracy: float
    ) -> tuple[Floats, CoupledRows]:
        rows = CoupledRows(problem.designs, problem.factors, units=problem.units, ridge=penalty[1], n_jobs=self.n_jobs)
        rows.at(1.0)
        rows.warm(P)
        return rows.solve(penalty[0], GOES, accuracy)[0], rows


class LossRows:
    """What `CoupledRows` is for squared loss: the problem with a norm of every row."""

    def __init__(self, problem: Problem, n_jobs: int | None = None):
        self.problem, self.form = problem, _OfRows(problem, n_jobs)
        self.newton, self.lam = NewtonAround(problem, self.form), 0.0

    @property
    def finished(self) -> bool:
        return self.newton.finished

    def at(self, lam: float) -> None:
        """Have the ridge of this lam, if there is one, from the next solve on."""
        self.lam = lam

    def _penalty(self, norm: RowNorm) -> RowsStage:
        ridge = self.problem.unit_ridge
        return norm, None if ridge is None else self.lam * ridge

    def warm(self, W: Floats) -> None:
        """Start the next solve from W (m, d) instead of from the last solution."""
        self.newton.last = np.array(W)

    def forget(self) -> None:
        """Start the next solve from 0, as a fit does."""
        self.newton.last = np.zeros_like(self.newton.last)

    def solve(self, norm: RowNorm, max_iter: int = 0, settled: float = 0.0) -> tuple[Floats, int]:
        """W (m, d) that minimises the loss plus the norm, and Newton steps; `settled` is for `CoupledRows`."""
        return self.newton.solve(self._penalty(norm), max_iter=max_iter)

    def determined(self, norm: RowNorm) -> bool:
        """Whether W is known to be the only minimiser, wherever the solver started: that of the last parabolas is."""
        if not self.newton.last.any() or self.newton.inner is None:
            return True
        return bool(self.newton.inner.determined(norm.of_rows(self.newton.work)))

    def steepest(self) -> float:
        """The largest |g| / f of an entry."""
        f = self.problem.factors.T
        counts = (f > 0.0) & self.problem.learnable
        G = self.newton.gradients(self.newton.last)
        return float((np.abs(G) / np.where(counts, f, np.inf)).max(initial=0.0))


# ------------------------------------------------------------------ a common part


class _OfCommon:
    """b and V with W = b + V; a penalty is weights and ridges (p,) on the scale of `StackedLassos`."""

    def __init__(self, problem: Problem, n_jobs: int | None):
        self.m, self.height, self.n_jobs = problem.m, problem.m + 1, n_jobs
        self.kappa = _mean_of_tasks(problem.designs)

    def coefs(self, P: Floats) -> Floats:
        return np.asarray(P[0] + P[1:])

    def value(self, penalty: CommonStage, P: Floats) -> float:
        a, ridge = penalty
        out = float(_finite(a, np.abs(P)).sum())
        out += 0.0 if ridge is None else 0.5 * float(np.sum(ridge * P**2))
        return 2.0 * out / self.m

    def on(self, penalty: CommonStage, features: Ints) -> CommonStage:
        a, ridge = penalty
        return a[:, features], None if ridge is None else np.ascontiguousarray(ridge[:, features])

    def always(self, penalty: CommonStage) -> np.ndarray:
        return np.asarray((penalty[0] == 0.0).any(axis=0))

    def excess(self, penalty: CommonStage, G: Floats) -> Floats:
        sizes = 0.5 * self.m * np.abs(np.vstack([G.sum(axis=0), G]))
        bound = penalty[0]
        return np.asarray(np.divide(sizes, bound, out=np.zeros_like(sizes), where=bound > 0.0).max(axis=0))

    def solved(
        self, problem: Problem, penalty: CommonStage, P: Floats, aim: Floats, accuracy: float
    ) -> tuple[Floats, StackedLassos]:
        a, ridge = penalty
        lassos = StackedLassos(
            StackedGrams(problem.designs, n_jobs=self.n_jobs), units=problem.units, n_jobs=self.n_jobs
        )
        lassos.at(None if ridge is None else ridge.ravel())
        lassos.warm(P.ravel())
        found, _ = lassos.solve(a.ravel(), aim.ravel())
        return found.reshape(P.shape), lassos


class LossGrams:
    """What `StackedGrams` is for squared loss: there is nothing to keep but how tasks are put together."""

    weighed = None

    def __init__(self, problem: Problem):
        self.stacked = Stacked(problem.designs)

    def fetched_at_once(self) -> bool:
        return True


class LossCommon:
    """What `StackedLassos` is for squared loss: the problem in (b, V); points P are (p,)."""

    def __init__(self, problem: Problem, grams: LossGrams | None = None, n_jobs: int | None = None):
        self.problem, self.grams = problem, LossGrams(problem) if grams is None else grams
        self.stacked = self.grams.stacked
        self.newton = NewtonAround(problem, _OfCommon(problem, n_jobs))
        self.ridge: Floats | None = None
        self.solver: NewtonAround[CommonStage] | None = None

    @property
    def finished(self) -> bool:
        return self.newton.finished

    @property
    def slid(self) -> bool:
        return bool(self.newton.inner is not None and self.newton.inner.slid)

    def at(self, ridge: Floats | None) -> None:
        """Have this ridge (p,), in sums, from the next solve on."""
        self.ridge = self.ridge if ridge is None else ridge

    def warm(self, P: Floats) -> None:
        """Start the next solve from P instead of from the last solution."""
        self.newton.last = np.reshape(P, self.newton.last.shape).copy()

    def solve(self, a: Floats, reference: Floats | None = None, max_iter: int = 0) -> tuple[Floats, int]:
        """P for the weights a (p,), in sums; and the Newton steps."""
        shape = self.newton.last.shape
        ridge = None if self.ridge is None else self.ridge.reshape(shape)
        aim = None if reference is None else reference.reshape(shape)
        P, steps = self.newton.solve((a.reshape(shape), ridge), aim, max_iter)
        self.solver = self.newton
        return P.ravel(), steps


# ------------------------------------------------------------------ ridges only


class _OfPooling:
    """b and V with ridges only: all features are always in work."""

    def __init__(self, problem: Problem):
        self.height = problem.m + 1
        self.kappa = np.full(problem.m, 2.0 / sum(design.n for design in problem.designs))

    def coefs(self, P: Floats) -> Floats:
        return np.asarray(P[0] + P[1:])

    def value(self, penalty: PoolingRidge, P: Floats) -> float:
        return penalty.value(P.ravel())

    def on(self, penalty: PoolingRidge, features: Ints) -> PoolingRidge:
        return replace(penalty, factors=penalty.factors[features], scales=penalty.scales[features])

    def always(self, penalty: PoolingRidge) -> np.ndarray:
        return np.ones(len(penalty.scales), dtype=bool)

    def excess(self, penalty: PoolingRidge, G: Floats) -> Floats:
        return np.zeros(G.shape[1])

    def solved(
        self, problem: Problem, penalty: PoolingRidge, P: Floats, aim: Floats, accuracy: float
    ) -> tuple[Floats, Pooling]:
        pooling = Pooling(problem)
        # what rounding leaves the next step corrects
        b, V = pooling.one(penalty.k, penalty.k_common, rounds=int(accuracy <= SETTLED))
        return np.vstack([b, V]), pooling


class LossPooling:
    """What `Pooling` is for squared loss: partial pooling at any strengths, from the strongest on."""

    def __init__(self, problem: Problem):
        self.problem, self.newton = problem, NewtonAround(problem, _OfPooling(problem))
        self.n = float(sum(design.n for design in problem.designs))
        self.steps = 1

    @property
    def finished(self) -> bool:
        return self.newton.finished

    def one(self, k: float, k_common: float) -> tuple[Floats, Floats]:
        """b (d,) and V (m, d) at one point."""
        problem = self.problem
        P, self.steps = self.newton.solve(PoolingRidge(k, k_common, problem.factors, problem.common_factors, self.n))
        return P[0], P[1:]

    def solve(self, points: Sequence[tuple[float, float]]) -> PooledFit:
        """At pairs (k, k_common): for every k_common from the largest k down."""
        B = np.zeros((len(points), self.problem.d))
        W = np.zeros((len(points), self.problem.m, self.problem.d))
        for place in sorted(range(len(points)), key=lambda p: (-points[p][1], -points[p][0])):
            b, V = self.one(*points[place])
            B[place], W[place] = b, b + V
        return PooledFit(B, W)

    def degrees(self, k: float, k_common: float) -> Floats:
        """(m,): how much the fitted values of every task follow its own targets, by the parabolas at the solution."""
        self.one(k, k_common)
        return np.asarray(self.newton.inner.degrees(k, k_common))

    def likely(self, k_common: float, samples: float) -> float:
        """The k of the largest marginal likelihood of the targets that the parabolas have at the solution (penalised
        quasi-likelihood), a few times anew with that k."""
        k = sizes(self.problem)[0]
        for _ in range(LIKELY):
            self.one(k, k_common)
            if self.newton.inner is None:  # no parabola was solved: no feature tells tasks from each other
                return np.inf
            k, before = float(self.newton.inner.likely(k_common, samples)), k
            if k == before or (np.isinf(k) and np.isinf(k_common)):
                break
        return k


CommonGrams: TypeAlias = StackedGrams | LossGrams
CommonSolver: TypeAlias = StackedLassos | LossCommon
AnyPooling: TypeAlias = Pooling | LossPooling
