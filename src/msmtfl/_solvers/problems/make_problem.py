"""From what a user gives to a `Problem`, and to that of a training fold; the largest lam of a problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from ..._data.designs import Data, Design, FeatureRows, Floats, Ints
from ..._data.forms.dense import RowTask
from ..._data.forms.level_rows import LevelPrior, LevelRows, drawn
from ..._data.tables import warn_user
from ..._data.task_data import Task, TaskData
from ..._data.tasks import warn_of_single_rows
from ..._objective.box import Box, Limit
from ..._objective.class_tasks import ClassGroup, ClassTask
from ..._objective.loss_task import LossTask
from ..._objective.losses import Huber, Loss, Softmax, loss_named
from ..._objective.problem import Problem
from ..._runtime.checks import check_share
from ..one_level import settle_level
from .arguments import (
    all_of,
    check_intercepts,
    check_targets,
    read_bounds,
    read_factors,
    shares_levels,
    what_of,
)
from .level_priors import loss_priors, squared_prior
from .priors import without_priors
from .read_groups import read_feature_groups
from .residual_scale import with_scales


class SharedLevelWarning(UserWarning):
    """The intercept of a task says little about the task itself."""


def make_problem(
    data: TaskData | Data,
    *,
    loss: str = "squared",
    epsilon: float = 1.35,
    fit_intercept: bool,
    standardize: bool | str,
    positive: bool,
    penalty_factors: ArrayLike | None = None,
    l1_ratio: float = 1.0,
    error: str = "mse",
    n_jobs: int | None = None,
    intercepts: str = "task",
    priors: Sequence[LevelPrior] | None = None,
    bounds: Any = None,
    feature_groups: Any = None,
    samples_alike: bool = False,
) -> Problem:
    """The problem with a loss by name: "squared", "logistic" (targets 0 and 1), "poisson", or "huber" with epsilon in units
    of the scale of every task's residuals. `priors` are what "shrunk" intercepts are drawn to, if that is known: one per
    task. `samples_alike`: whether the mean of losses is over samples, not over tasks."""
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
    groups = read_feature_groups(feature_groups, data)
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
    more: dict[str, Any] = {"l1_ratio": float(l1_ratio), "intercepts": intercepts, "bounds": box, "groups": groups}
    more["samples_alike"] = samples_alike
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


def of_tasks(problem: Problem, some: Ints) -> Problem:
    """The problem of some of the tasks, of data that have rows."""
    data, box, units = problem.data, problem.bounds, problem.known_units
    return replace(
        problem,
        data=replace(data, tasks=tuple(data.tasks[i] for i in some), labels=data.labels[some]),
        designs=[problem.designs[i] for i in some],
        given_factors=np.asfortranarray(problem.given_factors[:, some]),
        known_units=None if units is None else units[some],
        bounds=None if box is None else Box(box.low[some], box.high[some]),
    )


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
    factors, kind = problem.given_factors, problem.intercepts
    designs = _designs(data, problem.loss, centred(problem), factors, problem.limit, intercepts=kind)
    out = replace(problem, data=data, designs=designs)
    return out if problem.loss.squared else replace(out, scored_by=tuple(one.of_loss for one in problem.designs))


def centred(problem: Problem) -> bool:
    """Whether tasks have intercepts; of data that have rows."""
    first = problem.designs[0]
    if problem.intercepts != "task":  # that is of intercepts; tasks that have one level are not centred
        return True
    return bool((first.rows if problem.loss.squared else first.base).centre)


def typical_huber(problem: Problem) -> Huber | None:
    """Huber's loss at the median of the tasks' scales; None where the loss is another."""
    if problem.scales is None or not isinstance(problem.loss, Huber):
        return None
    scale = float(np.median(problem.scales))
    return Huber(problem.loss.epsilon * scale, scale)


def with_offset(problem: Problem, offsets: Sequence[Floats], factors: Floats, beside: Floats) -> Problem:
    """The same problem where the linear predictor of every task has more of an offset, with other penalty factors (d, m).
    What is known of X serves both. The offsets are predictions by coefficients like `beside` (d,): levels that are drawn to
    a common one have these in them, too."""
    tasks = tuple(
        replace(one, offset=part if one.offset is None else one.offset + part)
        for one, part in zip(problem.data.tasks, offsets, strict=True)
    )
    data = replace(problem.data, tasks=tasks)
    pairs = list(zip(problem.designs, tasks, strict=True))
    known: LevelPrior | None = getattr(problem.designs[0], "prior", None)
    prior, together = known, known is not None and problem.intercepts == "common"
    if known is not None:
        more = float(known.at @ beside)
        prior = replace(known, level=known.level - more, offset=known.offset + more)
    designs: list[Any]
    if problem.loss.squared:
        designs = [RowTask(one.rows, task.unexplained) for one, task in pairs]
        designs = designs if prior is None else list(drawn(designs, [prior] * len(designs)))
        return replace(problem, data=data, designs=designs, given_factors=factors)
    of_task = None if together else prior
    bases = [one.base.base if isinstance(one.base, LevelRows) else one.base for one in problem.designs]
    triples = [(base, one, task) for base, (one, task) in zip(bases, pairs, strict=True)]
    if isinstance(problem.loss, Huber):  # scales are those of the noise, which stays the same
        designs = [LossTask(b, task.unexplained, one.of_loss, one.curvature, prior=of_task) for b, one, task in triples]
    else:
        designs = [LossTask(b, task.y, one.of_loss, offset=task.offset, prior=of_task) for b, one, task in triples]
    if together and known is not None:
        for design in designs:
            design.move(known.level)
    return replace(problem, data=data, designs=designs, given_factors=factors)


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
        if isinstance(loss, Softmax):
            return ClassTask(rows, task.y, loss)
        prior = None if priors is None else priors[places[id(task)]]
        return LossTask(rows, task.y, loss, offset=task.offset, prior=prior)

    designs: list[LossTask] = data.designs(centre, n_jobs, make)
    if isinstance(loss, Softmax):
        for first in range(0, data.m, data.classes):
            ClassGroup(cast(Any, designs[first : first + data.classes]))
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
