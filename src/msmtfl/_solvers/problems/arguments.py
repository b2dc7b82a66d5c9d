"""What a user gives: penalty factors, bounds, a loss, targets that suit it; read, or refused with a way out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._data.designs import AnyData, Floats
from ..._data.task_data import TaskData
from ..._objective.box import Box
from ..._objective.losses import LOGISTIC, SOFTMAX, Logistic, Loss, is_loss, of_regressions
from ..._runtime.checks import check_positive

EXTREME = 1e100  # penalty factors beyond this, and below its inverse, leave the range of floats with what they multiply
INTERCEPTS = ("task", "shrunk", "common")  # how they share
WAY_OUT = "Or fit with intercepts='shrunk', which draws the intercepts of such tasks to that of all."


def shares_levels(intercepts: str, data: AnyData) -> bool:
    """Whether there are levels that have something to share."""
    return intercepts != "task" and data.m > getattr(data, "classes", 1)


# ------------------------------------------------------------------ what a user gives


def read_factors(factors: ArrayLike | None, data: AnyData) -> Floats:
    """penalty_factors as (d, m): None, one per feature (d,), or one per feature and task (d, m)."""
    if factors is None:
        return np.ones((data.d, data.m))
    try:
        out = np.asarray(factors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"penalty_factors must be numbers >= 0: {error}.") from error
    encoding = getattr(data, "encoding", None)
    if encoding is not None and out.ndim and len(out) == len(encoding.columns):
        out = encoding.spread(out)
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
            f"penalty_factors must be >= 0 (inf excludes an entry); feature {data.features[bad[0][0]]!r} has "
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


def _bound(name: str, given: ArrayLike | None, otherwise: float, data: AnyData) -> Floats:
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
    if not is_loss(loss) or loss in (LOGISTIC, SOFTMAX):
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
