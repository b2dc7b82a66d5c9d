"""From what a user gives to a `Problem`, and to that of a training fold; the largest lam of a problem."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._data.designs import AnyData, Data, Floats, stage_scale
from .._data.tasks import TaskData
from .._objective.losses import Huber, Loss, LossTask, Poisson, loss_named, of_regressions
from .._objective.problem import Problem
from .._runtime.checks import check_positive, check_share
from .residual_scale import with_scales
from .solvers import lassos_for

EXTREME = 1e100  # penalty factors beyond this, and below its inverse, leave the range of floats with what they multiply
LAM_SHARE = 0.1  # lam=None is this share of lam_max
LEAST_SHARE = 1e-3  # of the l1 norm in a penalty: with less, the largest lam is that of this share
ROUNDING = 1e-11  # of the largest that a gradient can be: what is less is left by an interpolation


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
) -> Problem:
    """The problem with a loss by name: "squared", "logistic" (targets 0 and 1), "poisson", or "huber" with epsilon in units
    of the scale of every task's residuals."""
    kind = loss_named(loss, epsilon)
    if not kind.squared and not isinstance(data, TaskData):
        raise ValueError(f"loss={loss!r} needs rows: statistics in their place serve squared loss only.")
    factors = read_factors(penalty_factors, data)
    designs = _designs(data, kind, fit_intercept, factors, positive, n_jobs)
    check_share("l1_ratio", l1_ratio)
    return Problem(data, designs, factors, standardize, positive, kind, error, l1_ratio=float(l1_ratio))


def training(problem: Problem, keep: np.ndarray | int) -> Problem:
    """The same problem on some of the rows, keep (N,) bool (of statistics: without one fold), with centring and scaling of
    its own."""
    if problem.loss.squared:
        return replace(problem, designs=problem.data.training(problem.designs, keep))
    assert isinstance(keep, np.ndarray)  # data that have rows
    data = problem.data.kept(keep, None if problem.weigh is None else problem.weigh(keep))
    centre = problem.designs[0].base.centre
    designs = _designs(data, problem.loss, centre, problem.given_factors, problem.positive)
    return replace(problem, designs=designs, scored_by=tuple(design.of_loss for design in problem.designs))


def gather(problem: Problem, keeps: Sequence[np.ndarray | int], n_jobs: int | None = None) -> None:
    """Prepare for `training` with each of `keeps`."""
    if problem.loss.squared:
        problem.data.gather(problem.designs, keeps, n_jobs)


def release(problem: Problem) -> None:
    """Forget what can be formed again."""
    if problem.loss.squared:
        problem.data.release(problem.designs)


def _designs(
    data: TaskData | Data, loss: Loss, centre: bool, factors: Floats, positive: bool, n_jobs: int | None = None
) -> list[Any]:
    if loss.squared:
        return list(data.designs(centre, n_jobs))
    assert isinstance(data, TaskData)
    check_targets(data, loss, centre)
    if isinstance(
        loss, Huber
    ):  # of y - f: an offset is a matter of y. At first with all of it, so that what is too large for
        # its squares is seen
        designs: list[LossTask] = data.designs(
            centre, n_jobs, lambda rows, task: LossTask(rows, task.unexplained, Huber(np.inf))
        )
        return list(with_scales(designs, loss.epsilon, factors, positive, n_jobs))
    return data.designs(centre, n_jobs, lambda rows, task: LossTask(rows, task.y, loss, offset=task.offset))


# ------------------------------------------------------------------ the largest lam


def first_gradient(problem: Problem) -> Floats:
    """(m, d): 2 / (m n_i) x_j'r_i, r_i the residual of the fit of the entries that are never penalised; 0 in those. (Where
    the loss is not squared, its slope takes the place of the residual.)"""
    free = (problem.factors == 0.0).T
    W = np.zeros((problem.m, problem.d))
    if free.any():
        W, _ = lassos_for(problem).solve(np.where(free, 0.0, np.inf))
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
        sizes = np.divide(G if problem.positive else np.abs(G), f, out=np.zeros_like(G), where=f > 0)
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


def check_loss(loss: object, epsilon: object) -> None:
    if loss not in of_regressions():
        raise ValueError(f"loss must be one of {', '.join(map(repr, of_regressions()))}, got {loss!r}.")
    check_positive("epsilon", epsilon)


def check_targets(data: TaskData, loss: Loss, centre: bool) -> None:
    """An error where the targets do not suit the loss, or no intercept does: it names all such tasks."""
    lonely = []
    for task in data.tasks:
        low = np.flatnonzero(task.y < loss.least)
        if low.size:
            raise ValueError(
                f"loss={type(loss).__name__.lower()!r} needs targets >= {loss.least:g}; task {task.label!r} holds "
                f"{task.y[low[0]]:g} in row {task.rows[low[0]]}."
            )
        away = loss.escapes(task.y)
        if centre and away[0] != 0.0 and (away == away[0]).all():
            lonely.append(task.label)
    if lonely:
        what = "targets that are all 0" if isinstance(loss, Poisson) else "rows of one class only"
        raise ValueError(
            f"{all_of(lonely)} {what} (to train on): no intercept fits best. Leave out such tasks until they have others; "
            "in cross-validation use fewer folds."
        )


def all_of(labels: Sequence[Hashable]) -> str:
    """All of some tasks, however many: who is to leave them out needs the whole list."""
    one = len(labels) == 1
    return f"task{'s' * (not one)} {', '.join(map(repr, labels))} {'has' if one else 'have'}"
