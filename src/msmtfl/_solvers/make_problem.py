"""From what a user gives to a `Problem`, and to that of a training fold; the largest lam of a problem."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._data.designs import AnyData, Data, Design, FeatureRows, Floats, RowTask, stage_scale
from .._data.level_rows import LevelPrior, LevelTask, drawn
from .._data.tables import warn_user
from .._data.tasks import Task, TaskData, warn_of_single_rows
from .._objective.box import Box, Limit, outward
from .._objective.losses import LOGISTIC, Huber, Logistic, Loss, LossTask, is_loss, loss_named, of_regressions
from .._objective.problem import Problem
from .._runtime.checks import check_positive, check_share
from .level_priors import loss_priors, squared_prior
from .one_level import has_one_level, held_at, levels_of, settle_level
from .residual_scale import with_scales
from .solvers import lassos_for

EXTREME = 1e100  # penalty factors beyond this, and below its inverse, leave the range of floats with what they multiply
LAM_SHARE = 0.1  # lam=None is this share of lam_max
LEAST_SHARE = 1e-3  # of the l1 norm in a penalty: with less, the largest lam is that of this share
INTERCEPTS = ("task", "shrunk", "common")  # how they share
WAY_OUT = "Or fit with intercepts='shrunk', which draws the intercepts of such tasks to that of all."
ROUNDING = 1e-11  # of the largest that a gradient can be: what is less is left by an interpolation


class SharedLevelWarning(UserWarning):
    """The intercept of a task says little about the task itself."""


def make_problem(
    data: TaskData | Data,
    *,
    loss: str = "squared",
    epsilon: float = 1.35,
    fit_intercept: bool,
    standardize: bool,
    positive: bool,
    penalty_factors: ArrayLike | None = None,
    l1_ratio: float = 1.0,
    error: str = "mse",
    n_jobs: int | None = None,
    intercepts: str = "task",
    priors: Sequence[LevelPrior] | None = None,
    bounds: Any = None,
) -> Problem:
    """The problem with a loss by name: "squared", "logistic" (targets 0 and 1), "poisson", or "huber" with epsilon in units
    of the scale of every task's residuals. `priors` are what "shrunk" intercepts are drawn to, if that is known: one per
    task."""
    kind = loss_named(loss, epsilon)
    if not kind.squared and not isinstance(data, TaskData):
        raise ValueError(f"loss={loss!r} needs rows: statistics in their place serve squared loss only.")
    if not kind.levelled and intercepts != "task":
        raise ValueError(
            f"intercepts={intercepts!r} does not go with loss={loss!r}: a partial likelihood compares samples of the same "
            "task, so that tasks have no intercepts (each has a baseline hazard of its own). Leave intercepts at 'task'."
        )
    factors = read_factors(penalty_factors, data)
    positive, box = read_bounds(bounds, data, positive)
    check_share("l1_ratio", l1_ratio)
    check_intercepts(intercepts, fit_intercept)
    if intercepts == "task":
        warn_of_single_rows(data.labels.tolist(), [target.rows for target in data.targets])
    limit = positive if box is None else box
    fit_intercept = fit_intercept or not kind.levelled  # columns that are centred lose fewer digits
    designs = _designs(data, kind, fit_intercept, factors, limit, n_jobs, intercepts, priors)
    known = priors is not None
    if (
        intercepts != "task"
        and isinstance(data, TaskData)
        and (lonely := check_targets(data, kind, True, intercepts, known))
    ):
        warn_user(
            f"{all_of(lonely)} {what_of(kind)}: the intercept comes from the level of all tasks, and says little about the "
            "task itself.",
            SharedLevelWarning,
        )
    more: dict[str, Any] = {"l1_ratio": float(l1_ratio), "intercepts": intercepts, "bounds": box}
    return Problem(data, designs, factors, standardize, positive, kind, error, **more)


def training(problem: Problem, keep: np.ndarray | int) -> Problem:
    """The same problem on some of the rows, keep (N,) bool (of statistics: without one fold), with centring and scaling of
    its own."""
    if problem.loss.squared:
        parts = problem.data.training(without_priors(problem.designs), keep)
        return replace(problem, designs=_with_levels(parts, problem.intercepts, totals=problem.designs))
    assert isinstance(keep, np.ndarray)  # data that have rows
    data = problem.data.kept(keep, None if problem.weigh is None else problem.weigh(keep))
    centre, kind = problem.designs[0].base.centre, problem.intercepts
    designs = _designs(data, problem.loss, centre, problem.given_factors, problem.limit, intercepts=kind)
    return replace(problem, designs=designs, scored_by=tuple(design.of_loss for design in problem.designs))


def remade(problem: Problem, data: TaskData, factors: Floats, centre: bool, kind: Huber | None = None) -> Problem:
    """The same loss and kind of penalty for other data, with penalty factors (d, m); intercepts do not share. `kind` is
    Huber's loss of all tasks, where its scale is known."""
    if kind is None:
        designs = _designs(data, problem.loss, centre, factors, problem.limit)
    else:
        designs = data.designs(centre, None, lambda rows, task: LossTask(rows, task.unexplained, kind))
    return replace(problem, data=data, designs=designs, given_factors=factors, intercepts="task")


def drawn_to(problem: Problem, priors: Sequence[LevelPrior] | None) -> Problem:
    """A problem with a loss that is not squared, the levels of its tasks drawn to priors, one each, if there are any."""
    if priors is None:
        return problem
    designs = [one.drawn(prior) for one, prior in zip(problem.designs, priors, strict=True)]
    return replace(problem, designs=designs, intercepts="shrunk")


def on_rows(problem: Problem, keep: np.ndarray) -> Problem:
    """As `training`, but on data that hold no other rows than these, keep (N,) bool: for models that look at rows."""
    data = problem.data.kept(keep, None if problem.weigh is None else problem.weigh(keep))
    out = remade(problem, data, problem.given_factors, centred(problem))
    return out if problem.loss.squared else replace(out, scored_by=tuple(one.of_loss for one in problem.designs))


def centred(problem: Problem) -> bool:
    """Whether tasks have intercepts; of data that have rows."""
    first = problem.designs[0]
    return bool((first.rows if problem.loss.squared else first.base).centre)


def typical_huber(problem: Problem) -> Huber | None:
    """Huber's loss at the median of the tasks' scales; None where the loss is another."""
    if problem.scales is None or not isinstance(problem.loss, Huber):
        return None
    scale = float(np.median(problem.scales))
    return Huber(problem.loss.epsilon * scale, scale)


def with_offset(problem: Problem, offsets: Sequence[Floats], factors: Floats) -> Problem:
    """The same problem where the linear predictor of every task has more of an offset, with other penalty factors (d, m).
    What is known of X serves both."""
    tasks = tuple(
        replace(one, offset=more if one.offset is None else one.offset + more)
        for one, more in zip(problem.data.tasks, offsets, strict=True)
    )
    data = replace(problem.data, tasks=tasks)
    pairs = list(zip(problem.designs, tasks, strict=True))
    designs: list[Any]
    if problem.loss.squared:
        designs = [RowTask(one.rows, task.unexplained) for one, task in pairs]
    elif isinstance(problem.loss, Huber):  # scales are those of the noise, which stays the same
        designs = [LossTask(one.base, task.unexplained, one.of_loss, one.curvature) for one, task in pairs]
    else:
        designs = [LossTask(one.base, task.y, one.of_loss, offset=task.offset) for one, task in pairs]
    return replace(problem, data=data, designs=designs, given_factors=factors)


def gather(problem: Problem, keeps: Sequence[np.ndarray | int], n_jobs: int | None = None) -> None:
    """Prepare for `training` with each of `keeps`."""
    if problem.loss.squared:
        problem.data.gather(without_priors(problem.designs), keeps, n_jobs)


def release(problem: Problem) -> None:
    """Forget what can be formed again."""
    if problem.loss.squared:
        problem.data.release(without_priors(problem.designs))
        for design in problem.designs:
            if isinstance(design, LevelTask):
                design.x.whole = None


def _designs(
    data: TaskData | Data,
    loss: Loss,
    centre: bool,
    factors: Floats,
    positive: Limit,
    n_jobs: int | None = None,
    intercepts: str = "task",
    given: Sequence[LevelPrior] | None = None,
) -> list[Any]:
    if loss.squared:
        return _with_levels(list(data.designs(centre, n_jobs)), intercepts, given)
    assert isinstance(data, TaskData)
    if intercepts == "common" and shares_levels(intercepts, data):
        return _with_one_level(data, loss, factors, positive, n_jobs)
    check_targets(data, loss, centre, intercepts, given is not None)
    shrinks = given is not None or shares_levels(intercepts, data)
    priors = None
    if shrinks and not loss.linear:
        priors = loss_priors(data, loss) if given is None else given
    places = {id(task): i for i, task in enumerate(data.tasks)}

    def make(rows: FeatureRows, task: Task) -> LossTask:
        if isinstance(loss, Huber):  # of y - f: an offset is a matter of y
            # at first with all of it, so that what is too large for its squares is seen
            return LossTask(rows, task.unexplained, Huber(np.inf))
        prior = None if priors is None else priors[places[id(task)]]
        return LossTask(rows, task.y, loss, offset=task.offset, prior=prior)

    designs: list[LossTask] = data.designs(centre, n_jobs, make)
    if isinstance(loss, Huber):
        designs = with_scales(designs, loss.epsilon, factors, positive, n_jobs)
    if shrinks and loss.linear:
        known = loss_priors(data, loss, designs) if given is None else given
        designs = [one.drawn(prior) for one, prior in zip(designs, known, strict=True)]
    return designs


def _with_one_level(data: TaskData, loss: Loss, factors: Floats, positive: Limit, n_jobs: int | None) -> list[Any]:
    """Tasks under a loss that is not squared, with one intercept: not centred, held at the level that is best at W = 0."""
    check_targets(data, loss, True, "common")
    kinds: list[Loss] = [loss] * data.m
    if isinstance(loss, Huber):  # scales are those of tasks with intercepts of their own: the noise is the same
        kinds = [task.of_loss for task in _designs(data, loss, True, factors, positive, n_jobs)]
    places = {id(task): i for i, task in enumerate(data.tasks)}

    def make(rows: Any, task: Task) -> LossTask:
        kind = kinds[places[id(task)]]
        if isinstance(kind, Huber):  # of y - f: an offset is a matter of y
            return LossTask(rows, task.unexplained, kind)
        return LossTask(rows, task.y, kind, offset=task.offset)

    out = data.designs(False, n_jobs, make)
    settle_level(out, lambda: np.zeros((data.m, data.d)), data.classes)
    return list(out)


def _rows_in(part: Design) -> int:
    rows, moments = getattr(part, "rows", None), getattr(part, "moments", None)
    return int(np.count_nonzero(getattr(rows, "u", 0.0))) if moments is None else int(moments.rows)


def shares_levels(intercepts: str, data: AnyData) -> bool:
    """Whether there are levels that have something to share."""
    return intercepts != "task" and data.m > getattr(data, "classes", 1)


def _with_levels(
    parts: list[Any],
    intercepts: str,
    priors: Sequence[LevelPrior] | None = None,
    totals: Sequence[Any] | None = None,
) -> list[Any]:
    """Tasks under squared loss, their levels drawn to what all have in common, if they are to be."""
    if intercepts == "task" or (len(parts) < 2 and priors is None):
        return parts
    if priors is not None:
        return drawn(parts, priors, totals)
    if intercepts == "common":
        levels = [float(part.intercepts(np.zeros((1, part.d)))[0]) for part in parts]
        prior = LevelPrior(np.zeros(parts[0].d), float(np.mean(levels)), np.inf)
    else:
        prior = squared_prior(parts, [_rows_in(part) for part in parts])
    return drawn(parts, [prior] * len(parts), totals)


def common_levels(problem: Problem) -> tuple[Any, Floats, Any] | None:
    """The common level, the point where it is one, and how strongly levels are drawn to it, if they are; of classes against
    the rest arrays of these."""
    priors: list[Any] = [
        getattr(design, "prior", None) for design in problem.designs[: getattr(problem.data, "classes", 1)]
    ]
    if priors[0] is None:
        return None
    levels, ridges = np.array([one.level for one in priors]), np.array([one.ridge for one in priors])
    single = len(priors) == 1
    return float(levels[0]) if single else levels, priors[0].at, float(ridges[0]) if single else ridges


def without_priors(designs: Sequence[Any]) -> list[Any]:
    """Tasks under squared loss as they are without a prior."""
    return [design.part if isinstance(design, LevelTask) else design for design in designs]


# ------------------------------------------------------------------ the largest lam


def first_gradient(problem: Problem) -> Floats:
    """(m, d): 2 / (m n_i) x_j'r_i, r_i the residual of the fit of the entries that are never penalised; 0 in those. (Where
    the loss is not squared, its slope takes the place of the residual.)"""
    if not has_one_level(problem):
        return _first_gradient(problem, _of_free(problem))
    with held_at(problem, levels_of(problem, np.zeros((problem.m, problem.d)))):
        W = _of_free(problem)
        with held_at(problem, levels_of(problem, W)):
            return _first_gradient(problem, W)


def _of_free(problem: Problem) -> Floats:
    """(m, d): the fit of the entries that are never penalised."""
    free = (problem.factors == 0.0).T
    if not free.any():
        return np.zeros((problem.m, problem.d))
    W, _ = lassos_for(problem).solve(np.where(free, 0.0, np.inf))
    return np.asarray(W)


def _first_gradient(problem: Problem, W: Floats) -> Floats:
    out = np.zeros_like(W)
    for design, w, f, of_task in zip(problem.designs, W, problem.factors.T, out, strict=True):
        g = design.c
        if w.any() or not problem.loss.squared:
            g = design.gradient(w).copy()
            g[np.abs(g) <= ROUNDING * np.sqrt(design.squares) * np.sqrt(design.yy)] = 0.0
        of_task[:] = np.where((f > 0) & np.isfinite(f), g, 0.0)
    return np.asarray(out / stage_scale(problem.designs))


def largest_lam(problem: Problem) -> float:
    """The smallest lam at which stage 1 is zero (but for the entries that are never penalised)."""
    G, f = first_gradient(problem), problem.factors.T
    with np.errstate(over="ignore"):  # factors next to nothing: no finite lam is large enough
        sizes = np.divide(
            np.maximum(outward(problem.limit, np.zeros_like(G), G), 0.0), f, out=np.zeros_like(G), where=f > 0
        )
    return max(float(sizes.max(initial=0.0)), 0.0) / of_lasso(problem.l1_ratio)


def of_lasso(l1_ratio: float) -> float:
    """What the largest lam of a lasso is divided by: without an l1 norm no lam makes all coefficients 0."""
    return max(l1_ratio, LEAST_SHARE)


def default_lam(lam: float | None, lam_max: float) -> float:
    """The lam asked for, by default a share of lam_max."""
    if lam is not None:
        return float(lam)
    return LAM_SHARE * lam_max if lam_max > 0 else 1.0


# ------------------------------------------------------------------ what a user gives


def read_factors(factors: ArrayLike | None, data: AnyData) -> Floats:
    """penalty_factors as (d, m): None, one per feature (d,), or one per feature and task (d, m)."""
    if factors is None:
        return np.ones((data.d, data.m))
    try:
        out = np.asarray(factors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"penalty_factors must be numbers >= 0: {error}.") from error
    if out.shape == (data.d,):
        out = np.repeat(out[:, None], data.m, axis=1)
    if out.shape != (data.d, data.m):
        raise ValueError(
            f"penalty_factors has shape {np.shape(factors)}; expected ({data.d},) for one per feature, or "
            f"({data.d}, {data.m}) for one per feature and task."
        )
    bad = np.argwhere(~(out >= 0))
    if bad.size:
        raise ValueError(
            f"penalty_factors must be >= 0 (inf excludes a cell); feature {data.features[bad[0][0]]!r} has "
            f"{out[tuple(bad[0])]}."
        )
    extreme = np.argwhere((out > 0) & np.isfinite(out) & ~((out >= 1.0 / EXTREME) & (out <= EXTREME)))
    if extreme.size:
        raise ValueError(
            f"penalty_factors must be 0, inf, or between {1 / EXTREME:g} and {EXTREME:g}; feature "
            f"{data.features[extreme[0][0]]!r} has {out[tuple(extreme[0])]:g}. Use 0 for a feature that is not to be "
            "penalised, inf for one that is to be left out."
        )
    return out


def read_bounds(bounds: Any, data: AnyData, positive: bool) -> tuple[bool, Box | None]:
    """bounds=(low, high), each a number, (d,) or (d, m), None being no bound: whether they are w >= 0 for all, and the box
    (m, d) where they are others."""
    if bounds is None:
        return positive, None
    if isinstance(bounds, (str, bytes)) or not hasattr(bounds, "__len__") or len(bounds) != 2:
        raise ValueError(
            f"bounds must be a pair (low, high), each of them a number, one per feature ({data.d},), or one per feature "
            f"and task; got {bounds!r}."
        )
    low, high = _bound("low", bounds[0], -np.inf, data), _bound("high", bounds[1], np.inf, data)
    if positive:
        low = np.maximum(low, 0.0)
    _check_box(low, high, data)
    if np.isinf(low).all() and np.isinf(high).all():
        return False, None
    if np.isinf(high).all() and (low == 0.0).all():
        return True, None
    return False, Box(np.ascontiguousarray(low.T) + 0.0, np.ascontiguousarray(high.T) + 0.0)


def _bound(name: str, given: Any, otherwise: float, data: AnyData) -> Floats:
    """(d, tasks), the classes of a task having the same."""
    K: int = getattr(data, "classes", 1)
    m = data.m // K
    try:
        out = np.asarray(otherwise if given is None else given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the {name} bounds of bounds=(low, high) must be numbers: {error}.") from error
    if out.shape not in ((), (data.d,), (data.d, m), (data.d, data.m)):
        raise ValueError(
            f"the {name} bounds of bounds=(low, high) have shape {out.shape}; expected a number, ({data.d},) for one per "
            f"feature, or ({data.d}, {m}) for one per feature and task."
        )
    if out.shape != (data.d, data.m):
        wide = out if out.ndim == 2 else np.atleast_1d(out)[:, None]
        out = np.repeat(np.broadcast_to(wide, (data.d, m)), K, axis=1)
    missing = np.argwhere(np.isnan(out))
    if missing.size:
        raise ValueError(
            f"the {name} bound of feature {data.features[missing[0][0]]!r} is NaN. Use {otherwise:+g} where there is no "
            "bound."
        )
    return out


def _check_box(low: Floats, high: Floats, data: AnyData) -> None:
    """An error that names the feature and the task where bounds leave nothing, or not 0."""

    def where(bad: np.ndarray) -> tuple[str, float, float]:
        j, i = np.argwhere(bad)[0]
        said = f"feature {str(data.features[j])!r}" + (
            "" if data.form == "single" else f" in task {data.labels.tolist()[i]!r}"
        )
        return said, float(low[j, i]), float(high[j, i])

    empty = low > high
    if empty.any():
        said, least, most = where(empty)
        raise ValueError(
            f"the bounds of {said} are empty: low is {least:g}, high is {most:g}. low must not exceed high."
        )
    without_zero = (low > 0.0) | (high < 0.0)
    if without_zero.any():
        said, least, most = where(without_zero)
        raise ValueError(
            f"the bounds of {said} are ({least:g}, {most:g}), which leaves out 0: a penalised model must be able to leave a "
            "feature out. Choose low <= 0 <= high; an effect that is known to be at least so large can be given as an "
            "offset."
        )


def check_loss(loss: object, epsilon: object) -> None:
    if not is_loss(loss) or loss == LOGISTIC:
        raise ValueError(f"loss must be one of {', '.join(map(repr, of_regressions()))}, got {loss!r}.")
    check_positive("epsilon", epsilon)


def check_intercepts(intercepts: object, fit_intercept: bool) -> None:
    if intercepts not in INTERCEPTS:
        raise ValueError(f"intercepts must be one of {', '.join(map(repr, INTERCEPTS))}, got {intercepts!r}.")
    if not fit_intercept and intercepts != "task":
        raise ValueError(
            f"intercepts={intercepts!r} says how intercepts share, but fit_intercept=False leaves them out. Set "
            "fit_intercept=True, or leave intercepts at 'task'."
        )


def check_targets(
    data: TaskData, loss: Loss, centre: bool, intercepts: str = "task", known: bool = False
) -> list[Hashable]:
    """An error where the targets do not suit the loss, or no intercept does: it names all such tasks. The tasks that have a
    finite intercept only because they share it; `known` says that what they share is known from other tasks."""
    lonely, K = [], data.classes
    ways: list[set[float]] = [set() for _ in range(K)]  # by class: those in which tasks escape; 0 where one does not
    for i, task in enumerate(data.tasks):
        low = np.flatnonzero(task.y < loss.least)
        if low.size:
            least = "> 0" if loss.least > 0.0 else f">= {loss.least:g}"
            raise ValueError(
                f"loss={type(loss).__name__.lower()!r} needs targets {least}; task {task.label!r} holds "
                f"{task.y[low[0]]:g} in row {task.rows[low[0]]}."
            )
        away = loss.escapes(task.y)
        alone = centre and loss.levelled and away[0] != 0.0 and bool((away == away[0]).all())
        ways[i % K].add(away[0] if alone else 0.0)
        if alone:
            lonely.append(task.label)
    fits = known or (shares_levels(intercepts, data) and all(len(way) > 1 or 0.0 in way for way in ways))
    if lonely and not fits:
        raise ValueError(
            f"{all_of(lonely)} {what_of(loss)} (to train on): no intercept fits best. Leave out such tasks until they have "
            f"others; in cross-validation use fewer folds. {WAY_OUT}"
        )
    return lonely


def what_of(loss: Loss) -> str:
    return "rows of one class only" if isinstance(loss, Logistic) else "targets that are all 0"


def all_of(labels: Sequence[Hashable]) -> str:
    """All of some tasks, however many: who is to leave them out needs the whole list."""
    one = len(labels) == 1
    return f"task{'s' * (not one)} {', '.join(map(repr, labels))} {'has' if one else 'have'}"
