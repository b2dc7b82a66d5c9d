"""One intercept for all tasks: the value at which the rest of the problem, solved for it, has the least objective.

With F(a) the least objective of a stage whose level is held at a, F is convex, and its derivative is that of the loss alone
at the solution there, so that a is the root of a rising function of one variable. Its curvature is at most 2 for squared
loss; the root is found by the secant method in a bracket. Tasks know the level that they are held at (`LevelTask.move`).

Tasks count the same, each by the mean of its samples' losses, or samples do (`Problem.samples_alike`): `shares_of` says how
much a sum over the samples of a task counts.

What is proven: with u a dual point of the problem held at a, the bound that u gives is linear in the level, with slope s. So
no point whose level is within R of a is better by more than the gap at a plus R |s| (`with_free_level`), R being the spread
of the targets and the way that the level has come. It is relative to the loss at W = 0 and the level that suits W = 0 best:
at the level of a solution whose features are far from 0 that loss may be any number of times as large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq

from .._data.designs import CONSTANT_SHARE, Design, Floats
from .._objective.class_tasks import hold
from .._objective.losses import Huber, best_level
from .._objective.problem import Problem
from .._runtime.progress import Listener
from .lassos.lasso_solver import one_by_one
from .stages import Outcome

STEPS = 100  # of the search for a level; it takes about four
FAR = 10.0  # times its last step that it may go, under squared loss; under others its slope says less, far away
NEAR = 2.0  # the same under others, and their first step
FARTHEST = 300.0  # from where it began: farther away curvatures underflow, and there is no minimiser, or next to none
FLAT = 1e-14  # times the loss at W = 0, over the reach: a slope that rounding hides
CLOSE = 1e-8  # variance of a column, as a share of the square of its mean, up to which it is taken about the mean
EPS = float(np.finfo(float).eps)
NARROW = 4e-16  # relative width of a bracket


def settle_level(
    designs: Sequence[Any],
    solve: Callable[[], Floats],
    classes: int = 1,
    samples_alike: bool = False,
    rises: Floats | None = None,
) -> Floats:
    """Move tasks to the level at which W = solve() (m, d) has the least objective, and return that W; with several classes
    one level for each. `rises` (classes,) says how fast the derivative rose at the end of the last search, 0 if there was
    none, and is told that of this one."""
    rises = np.zeros(classes) if rises is None else rises
    if classes == 1:
        return _settle(designs, solve, samples_alike, rises)
    for c in range(classes):  # those of others do not matter: classes share features, not levels
        _settle(designs[c::classes], partial(_of_class, solve, c, classes), samples_alike, rises[c : c + 1])
    return solve()


def shares_of(designs: Sequence[Design], samples_alike: bool) -> Floats:
    """(m,): how much a sum over the samples of each task counts in the mean that is minimised."""
    n = np.array([design.n for design in designs])
    return np.full(len(n), 1.0 / n.sum()) if samples_alike else 1.0 / (len(n) * n)


def _of_class(solve: Callable[[], Floats], c: int, classes: int) -> Floats:
    return solve()[c::classes]


def slope_of(designs: Sequence[Any], W: Floats, samples_alike: bool = False) -> float:
    """Half the derivative of the mean over tasks (or samples) of their losses, with respect to the level."""
    slopes = np.array([design.level_slope(w) for design, w in zip(designs, W, strict=True)])
    return float(shares_of(designs, samples_alike) @ slopes)


def unit_of(designs: Sequence[Any], samples_alike: bool = False) -> float:
    """Half the mean loss at W = 0."""
    losses = np.array([design.loss(np.zeros(design.d)) for design in designs])
    return 0.5 * float(shares_of(designs, samples_alike) @ losses)


def reach_of(designs: Sequence[Any], start: float, lever: float, unit: float) -> float:
    """How far from the level a better one is looked for: the spread of the targets, of which `unit` is half the square (1
    where these have another scale than linear predictors), as far as a feature that explains all of it moves the level at
    x = 0; and the way that the level has come."""
    way = abs(float(designs[0].prior.level) - start)
    return way + (float(np.sqrt(2.0 * unit)) if _linear(designs) else 1.0) * (1.0 + lever)


def _linear(designs: Sequence[Any]) -> bool:
    """Whether targets are on the scale of linear predictors."""
    return bool(getattr(getattr(designs[0], "of_loss", None), "linear", True))


@np.errstate(over="ignore", invalid="ignore")  # what leaves the range of floats is not certified
def with_free_level(problem: Problem, gap: float, W: Floats) -> tuple[float, float]:
    """The relative gap of W (m, d) where tasks have one level in common, from that of the problem held at the level where
    they are, and the share of the level in it."""
    if problem.classes_together or not problem.has_one_level:
        return gap, 0.0
    K, designs = getattr(problem.data, "classes", 1), problem.designs
    held, best, apart, alike = 0.0, 0.0, 0.0, problem.samples_alike
    for c in range(K):
        of_class = designs[c::K]
        start = _level_of(of_class, np.zeros((len(of_class), designs[0].d)), alike)
        best_of_class, level = _unit_at(of_class, start, alike), abs(float(of_class[0].prior.level))
        held, best = held + unit_of(of_class, alike), best + best_of_class
        reach = reach_of(of_class, start, lever_of(of_class), best_of_class)
        terms = [np.abs(mean) @ np.abs(w) for (mean, _), w in zip(map(_moments, of_class), W[c::K], strict=True)]
        hidden = 4.0 * EPS * (level + max(terms) + np.sqrt(2.0 * best_of_class))  # of the slope, by rounding
        apart += (abs(slope_of(of_class, W[c::K], alike)) + hidden) * reach
    if not (best > 0.0 and np.isfinite(held)):
        return (gap, 0.0) if held == 0.0 else (float("inf"), float("inf"))
    found, share = float(gap * (held / best) + apart / best), float(apart / best)
    return (found, share) if found >= 0.0 else (float("inf"), float("inf"))


def _unit_at(designs: Sequence[Any], level: float, samples_alike: bool) -> float:
    """Half the mean loss at W = 0 and a level."""
    shares = shares_of(designs, samples_alike)
    if not hasattr(designs[0], "of_loss"):
        return 0.5 * float(shares @ [one.part.yy + one.n * (_own_level(one) - level) ** 2 for one in designs])
    zeros = np.zeros(designs[0].d)
    return float(shares @ [one.v @ one.of_loss.value(one.y, one.fitted(zeros) + level) for one in designs])


def _own_level(design: Any) -> float:
    return float(design.part.intercepts(np.zeros((1, design.d)))[0])


def lever_of(designs: Sequence[Any]) -> float:
    """How far from 0 columns lie, in units of their standard deviations: the largest over tasks and features."""
    out = 0.0
    for mean, squares in map(_moments, designs):
        live = squares > 0.0
        out = max(out, float(np.max(np.abs(mean[live]) / np.sqrt(squares[live]), initial=0.0)))
    return out


def _moments(design: Any) -> tuple[Floats, Floats]:
    """Means and variances (d,) of a task's columns."""
    if hasattr(design, "part"):
        return np.asarray(design.part.mean), np.asarray(design.part.squares / design.n)
    mean = design.base.correlate(design.base.u) / design.n
    squares = design.squares / design.n - mean**2
    close = np.flatnonzero((squares <= CLOSE * mean**2) & (design.squares > 0.0))
    if close.size:  # the difference has no digits left
        C = design.block(close)
        C = C - design.v @ C / design.v.sum()
        squares[close] = design.v @ C**2 / design.v.sum()
    return mean, np.where(squares > CONSTANT_SHARE**2 * mean**2, squares, 0.0)


def _settle(designs: Sequence[Any], solve: Callable[[], Floats], samples_alike: bool, rises: Floats) -> Floats:
    prior = designs[0].prior
    a = 0.0 if prior is None else float(prior.level)
    if prior is None:
        _move(designs, a)
        if not _linear(designs):  # a long way from 0 a loss may leave the range of floats
            level = _level_of(designs, np.zeros((len(designs), designs[0].d)), samples_alike)
            _move(designs, a := level if np.isfinite(level) else a)
    W = solve()
    start, g, lever = a, slope_of(designs, W, samples_alike), lever_of(designs)
    # not at the level that is tried, where coefficients of 0 may have any loss: classes that are apart take levels far away
    unit = _unit_at(designs, _level_of(designs, np.zeros_like(W), samples_alike), samples_alike)
    low, high = (-np.inf, 0.0), (np.inf, 0.0)  # levels and slopes to the left and to the right of the root
    step, before, best = 0.0, 0.0, (abs(g), a, W)
    for turn in range(STEPS):
        if abs(g) <= FLAT * unit / max(reach_of(designs, start, lever, unit), 1e-300) or g == 0.0:
            break
        low, high = ((a, g), high) if g < 0.0 else (low, (a, g))
        way = g if _linear(designs) else float(np.clip(g, -1.0, 1.0))  # of the first step
        by_secant = turn < 2 or abs(g) < 0.5 * abs(before)
        most = (FAR * abs(step) if step else np.inf) if _linear(designs) else NEAR * (abs(step) if step else 1.0)
        new = _onward(low, high, a, way, step, rises[0], most) if by_secant else _between(low, high, a, way, step)
        if not _linear(designs) and abs(new - start) > FARTHEST:
            break
        if new == a or (np.isfinite(high[0] - low[0]) and high[0] - low[0] <= NARROW * max(abs(low[0]), abs(high[0]))):
            break
        step, a = new - a, new
        _move(designs, a)
        W = solve()
        g, before = slope_of(designs, W, samples_alike), g
        if abs(g) < abs(before):  # what is left of g later is rounding
            rises[0] = (g - before) / step
        if (
            low[1] and high[1] and np.sign(g) == np.sign(before)
        ):  # the other end stays where it is: let it count for less
            low, high = ((low[0], 0.5 * low[1]), high) if g > 0.0 else (low, (high[0], 0.5 * high[1]))
        if abs(g) < best[0]:
            best = (abs(g), a, W)
    if best[1] != a:
        _move(designs, best[1])
    return best[2]


def _onward(
    low: tuple[float, float], high: tuple[float, float], a: float, g: float, step: float, rise: float, most: float
) -> float:
    """The next level: by the secant through the last two, if that leads into the bracket and no farther than `most`."""
    if rise > 0.0:
        new = float(a - g / rise)
        if low[0] < new < high[0] and abs(new - a) <= most:
            return new
    return _between(low, high, a, g, step)


def _between(low: tuple[float, float], high: tuple[float, float], a: float, g: float, step: float) -> float:
    """The next level: by the secant between the ends; where there is one end only a step beyond it, twice the last one."""
    if not np.isfinite(high[0] - low[0]):
        return a - (np.copysign(2.0 * abs(step), g) if step else g)  # curvature at most 1, of half the loss
    if low[1] == 0.0 or high[1] == 0.0 or high[1] == low[1]:
        return 0.5 * (low[0] + high[0])
    new = low[0] - low[1] * (high[0] - low[0]) / (high[1] - low[1])
    return new if low[0] < new < high[0] else 0.5 * (low[0] + high[0])


def _move(designs: Sequence[Any], level: float) -> None:
    for design in designs:
        design.move(level)


def held_levels(problem: Problem) -> Floats:
    """(classes,): the levels that tasks with one in common are held at."""
    designs: Sequence[Any] = problem.designs
    return np.array([design.prior.level for design in designs[: getattr(problem.data, "classes", 1)]])


def levels_of(problem: Problem, W: Floats) -> Floats:
    """(classes,): the levels that suit coefficients (m, d) best; of classes with one loss their intercepts (m,). Tasks are
    left as they are, but such classes are held there."""
    if problem.classes_together:
        hold(problem, W)
        found = np.array([design.intercepts(w[None])[0] for design, w in zip(problem.designs, W, strict=True)])
        by_task = found.reshape(-1, problem.data.classes)
        return np.ravel(by_task - by_task.mean(axis=1, keepdims=True))  # with the sum 0, as nothing else tells
    K = getattr(problem.data, "classes", 1)
    return np.array([_level_of(problem.designs[c::K], W[c::K], problem.samples_alike) for c in range(K)])


def hold_best(problem: Problem, W: Floats) -> None:
    """Hold tasks that have one level in common at the one that suits coefficients (m, d) best, where these were found by
    other means."""
    if problem.has_one_level:
        for c, level in enumerate(levels := levels_of(problem, W)):
            _move(problem.designs[c :: len(levels)], float(level))


def intercepts_with(problem: Problem, W: Floats) -> Floats:
    """(m,): the intercepts that go with coefficients (m, d), at the levels that tasks are held at if they have one in
    common."""
    if problem.classes_together:
        return levels_of(problem, W)
    return np.array([design.intercepts(w[None])[0] for design, w in zip(problem.designs, W, strict=True)])


def _level_of(designs: Sequence[Any], W: Floats, samples_alike: bool) -> float:
    shares = shares_of(designs, samples_alike)
    if not hasattr(designs[0], "of_loss"):
        own = np.array([design.n * design.part.intercepts(w[None])[0] for design, w in zip(designs, W, strict=True)])
        return float(shares @ own)
    triples = zip(designs, W, shares, strict=True)
    parts = [(design.y, design.fitted(w), design.v * share) for design, w, share in triples]
    if len({design.of_loss for design in designs if isinstance(design.of_loss, Huber)}) < 2:
        return best_level(designs[0].of_loss, *(np.concatenate(part) for part in zip(*parts, strict=True)))

    def slope(a: float) -> float:
        return sum(float(v @ design.of_loss.slope(y, g + a)) for design, (y, g, v) in zip(designs, parts, strict=True))

    ends = np.array([design.of_loss.levels(y, g) for design, (y, g, _) in zip(designs, parts, strict=True)])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    return float(brentq(slope, low, high, xtol=1e-14, rtol=1e-15)) if low < high else low


@contextmanager
def held_at(problem: Problem, levels: Floats, W: Floats) -> Iterator[None]:
    """Tasks at other levels (classes,), those of coefficients W (m, d), for a while. Classes with one loss stay there:
    whoever solves them next holds them where they begin."""
    if problem.classes_together:
        hold(problem, W)
        yield
        return
    K = len(levels)
    before = np.array([design.prior.level for design in problem.designs[:K]])
    for now in (levels, before):
        for c in range(K):
            _move(problem.designs[c::K], float(now[c]))
        if now is levels:
            yield


class AtBestLevel:
    """What solves a problem (weighted lassos, rows that couple tasks, or a common part) at the level that suits each of its
    solutions: `make` makes a solver for the level that the tasks are held at, `coefs` coefficients (m, d) of what it finds.
    In all else it is the last of these solvers."""

    grams = None

    def __init__(
        self,
        problem: Problem,
        make: Callable[[], Any],
        coefs: Callable[[Floats], Floats] = lambda W: W,
    ):
        self.problem, self.coefs, self._make = problem, coefs, make
        self.ridges: list[Any] = []  # the one that was asked for last, if any was
        self.inner, self.near = make(), None
        self.rises = np.zeros(getattr(problem.data, "classes", 1))  # see `settle_level`

    near: Floats | None

    def make(self) -> Any:
        """A solver for the present level, with the present ridge."""
        made = self._make()
        for ridge in self.ridges:
            made.at(ridge)
        return made

    def at(self, strength: Any) -> None:
        """The strength (or the ridge itself) that solutions are wanted for from now on."""
        self.ridges = [strength]
        self.inner.at(strength)

    def solve(self, *given: object, **options: object) -> tuple[Floats, Any]:
        found: list[Any] = []
        levels: list[Floats] = []

        def once() -> Floats:
            levels.append(held_levels(self.problem))
            self.inner = self.make()
            if self.near is not None:
                self.inner.warm(self.near)
            found.append(self.inner.solve(*given, **options))
            self.near = np.array(found[-1][0])
            return self.coefs(self.near)

        settle_level(self.problem.designs, once, len(self.rises), rises=self.rises)
        if not np.array_equal(levels[-1], held_levels(self.problem)):
            once()
        out: tuple[Floats, Any] = found[-1]
        return out

    def path(
        self, lams: Floats, weights: Floats, *, max_iter: int = 0, tick: Callable[[float], None], **_: object
    ) -> list[Any]:
        """Solve for lam times the weights (m, d), for one of lams (L,) after the other."""
        lassos: Any = self
        return one_by_one(lassos, lams, weights, max_iter, tick)

    def warm(self, near: Floats) -> None:
        self.near = near

    def forget(self) -> None:
        """Start anew."""
        self.near, self.inner = None, self.make()

    def states(self) -> list[Any]:
        return []

    def __getattr__(self, name: str) -> Any:
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)


class LevelStages:
    """Stages of a problem whose tasks have one level (a `StageSolver`): `make` makes a solver for the level that the tasks
    are held at, starting about some solution (None: at 0), `coefs` the coefficients (m, d) of what it finds."""

    def __init__(
        self,
        problem: Problem,
        make: Callable[[Floats | None], Any],
        coefs: Callable[[Floats], Floats],
        near: Floats | None,
    ):
        self.problem, self.make, self.coefs, self.near = problem, make, coefs, near
        self.tasks, self.classes = list(problem.designs), getattr(problem.data, "classes", 1)
        self.inner = make(near)
        self.designs: Sequence[Any] = self.inner.designs

    @property
    def grams(self) -> Any:
        """Those of the last level."""
        return self.inner.grams

    def solve(self, weights: Any, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        found: list[Outcome] = []

        def solve() -> Floats:
            self.inner = self.make(self.near)
            found.append(self.inner.solve(weights, last, max_iter, Listener()))
            self.near = found[-1].coef
            return self.coefs(found[-1].coef)

        settle_level(self.tasks, solve, self.classes)
        solve()  # the certificate of the level that was chosen
        for _ in self.tasks:
            listener.task_done()
        end, W = found[-1], self.coefs(found[-1].coef)
        gap, apart = with_free_level(self.problem, end.dual_gap, W)
        return replace(
            end,
            n_iter=sum(one.n_iter for one in found),
            dual_gap=gap,
            kkt=max(end.kkt, apart),
        )

    def violation(self, weights: Any, W: Floats) -> float:
        return float(self.inner.violation(weights, W))
