"""Which tasks help which: a target task is predicted with and without the samples of each other one.

The rule is that of glmtrans (Tian and Feng, Transfer learning under high-dimensional generalized linear models, JASA 2023):
a task counts as a source of the target if a model of both predicts held-out samples of the target hardly worse than a model
of the target alone. Beside it stands the paired evidence, sample by sample: tasks that clearly help, or clearly harm.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import norm

from .._data.copies import groups_of
from .._data.designs import Floats
from .._data.tables import choices_of, names_of
from .._data.task_data import TaskData
from .._data.tasks import read_training
from .._estimators.classification.classes import class_folds, read_classes
from .._estimators.fitted import loss_of
from .._objective.losses import is_loss, loss_named
from .._paths.validation.folds import read_splits
from .._paths.validation.held_out import Split
from .._runtime.checks import check_count, check_positive, check_verbose
from .._runtime.drawing import BLUE, GREY, ORANGE, pyplot, quiet, shown
from .._runtime.progress import Progress, one_blas_thread
from .._runtime.text.cards import Card
from .entrants import check_signature
from .measures import Classes, Measure, Numbers
from .scoring import Cells

LEAST_SPREAD = 0.01  # of an error over that of knowing nothing, as the least standard deviation over folds: glmtrans's
LEVEL = 0.95  # of all statements about tasks together


@dataclass(frozen=True, eq=False, repr=False)
class TaskHelp(Card):
    """Which other tasks help to predict a target task. Print it for the answer in words.

    Errors are those of samples of the target that a fold held out, over that of the target's mean (of
    classes: of its class shares).

    Attributes
    ----------
    target : str or number
        The label of the target.
    tasks : ndarray of shape (m - 1,)
        Labels of the other tasks.
    alone : float
        Error of the model of the target alone.
    together : float
        Error of the model of all tasks.
    error : ndarray of shape (m - 1,)
        Errors of models of the target and one other task each.
    difference : ndarray of shape (m - 1,)
        These errors less that of the target alone.
    se : ndarray of shape (m - 1,)
        Standard errors of the differences, which are paired by sample (by group, if there are groups).
    limit : float
        The error up to which a task counts as a source.
    is_source : ndarray of bool of shape (m - 1,)
        Tasks that count as sources of the target.
    helps, harms : ndarray of bool of shape (m - 1,)
        Tasks with which the error is clearly smaller, or clearly larger (negative transfer): all of these
        statements together are right with a probability of about 95 %.
    n_samples : int
        Samples of the target that were held out.
    measure : str
        What the errors are called.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import SharedMTLCV, which_tasks_help
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((230, 12)), np.repeat(["new", "twin", "odd"], [30, 100, 100])
    >>> slopes = np.where(task == "odd", -1.0, 1.0)[:, None] * np.linspace(1.0, 0.1, 12)
    >>> y = (X * slopes).sum(axis=1) + rng.standard_normal(230)
    >>> found = which_tasks_help(SharedMTLCV(lams=10, cv=3), X, y, task=task, target="new")
    >>> str(found.tasks[found.error.argmin()]), bool(found.error.max() > found.alone)
    ('twin', True)
    """

    target: Any
    tasks: np.ndarray
    alone: float
    together: float
    error: Floats
    difference: Floats
    se: Floats
    limit: float
    is_source: np.ndarray
    helps: np.ndarray
    harms: np.ndarray
    n_samples: int
    measure: str = "nMSE"

    @property
    def sources(self) -> np.ndarray:
        """Labels of the tasks that count as sources of the target."""
        return np.asarray(self.tasks[self.is_source])

    def to_frame(self) -> Any:
        """Return a pandas table with a line for every other task, the most helpful first.

        Returns
        -------
        DataFrame
            The columns are task, error, difference, se, is_source, helps and harms.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas (pip install pandas); the attributes hold the same.") from error
        names = ("error", "difference", "se", "is_source", "helps", "harms")
        columns = {"task": self.tasks, **{name: getattr(self, name) for name in names}}
        return pd.DataFrame(columns).iloc[np.argsort(self.error, kind="stable")].reset_index(drop=True)

    def __repr__(self) -> str:
        others = f"{len(self.tasks)} other task{'s' * (len(self.tasks) != 1)}"
        lines = [
            f"target {names_of([self.target])}: {self.n_samples} samples, {others}",
            f"{self.measure} {self.alone:.3f} alone, {self.together:.3f} with all other tasks",
        ]
        unclear = ~(self.helps | self.harms)
        said = (
            (self.helps, "clearly help"),
            (self.harms, "clearly harm (negative transfer)"),
            (unclear, "make no clear difference"),
        )
        lines += [f"{int(some.sum()):5d} {text}: {self._named(some)}" for some, text in said if some.any()]
        lines.append(
            f"{int(self.is_source.sum()):5d} count as sources (error up to {self.limit:.3f})"
            + (f": {self._named(self.is_source)}" if self.is_source.any() else "")
        )
        if self.harms.any():
            lines.append(
                "Fit the target without the tasks that harm, or with a model that lets tasks deviate (RobustMTL)."
            )
        return "\n".join(lines)

    def _named(self, some: np.ndarray) -> str:
        places = np.flatnonzero(some)
        places = places[np.argsort(self.error[places], kind="stable")]
        named = [f"{names_of([self.tasks[k]])} ({self.error[k]:.3f})" for k in places[:8].tolist()]
        return ", ".join(named) + (f" and {len(places) - 8} more" if len(places) > 8 else "")

    def plot(self, axes: Any = None) -> Any:
        """Draw by how much every other task changes the error of the target, with intervals.

        Parameters
        ----------
        axes : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        matplotlib Figure
            The figure.
        """
        plt = pyplot()
        order = np.argsort(-self.difference, kind="stable")
        if axes is None:
            _, axes = plt.subplots(figsize=(5.5, 1.2 + 0.24 * len(order)), layout="constrained")
        reach = _clear_from(len(self.tasks)) * self.se[order]
        colours = np.select([self.helps[order], self.harms[order]], [BLUE, ORANGE], GREY)
        for place, (k, colour) in enumerate(zip(order.tolist(), colours.tolist(), strict=True)):
            axes.errorbar(self.difference[k], place, xerr=reach[place], fmt="o", color=colour, ms=4.5, lw=1.2)
        axes.axvline(0.0, color=GREY, lw=0.8)
        axes.axvline(self.limit - self.alone, color=GREY, lw=0.8, ls=":")
        axes.set_yticks(range(len(order)), [shown(self.tasks[k]) for k in order.tolist()])
        axes.set_xlabel(f"change of the {self.measure} with this task's samples (dotted: limit of sources)")
        axes.set_title(f"{shown(self.target)}: blue tasks help, orange ones harm")
        quiet(axes, "x")
        return axes.figure


def which_tasks_help(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    target: Any,
    task: Any = None,
    task_column: str | int | None = None,
    sample_weight: Any = None,
    groups: Any = None,
    offset: Any = None,
    cv: int = 5,
    tolerance: float = 2.0,
    random_state: Any = 0,
    verbose: bool = False,
) -> TaskHelp:
    """Find the tasks whose samples help to predict a target task, and those whose samples harm.

    The samples of the target are dealt out to folds. For each fold the estimator is fitted to the other
    samples of the target alone, to these and one other task at a time, and to these and all other tasks; the
    samples held out tell the difference. A task counts as a source if its error exceeds that of the target
    alone by no more than `tolerance` standard deviations of the latter over folds, the rule of glmtrans.

    Parameters
    ----------
    estimator : estimator
        What is fitted: a model that shares what you want to know of, such as SharedMTLCV for values,
        MSMTFLCV for features, or baselines.PooledLassoCV (one model for both, as in glmtrans).
    X : DataFrame, ndarray or sparse matrix of shape (N, d)
        Samples of all tasks. A table or an array may have a column that identifies the task
        (see `task_column`).
    y : array-like of shape (N,)
        Targets.
    target : str or number
        The label of the task that is to be predicted.
    task : array-like of shape (N,), optional
        The label of the task of every sample, if the tasks are not a column of X.
    task_column : str or int, optional
        The column of X that identifies the task.
    sample_weight : array-like of shape (N,), optional
        Weights of the samples, at least 0. By default all are 1.
    groups : array-like of shape (N,) or "identical", optional
        Labels of groups: samples of one group (a patient, a speaker) stay in one fold.
        "identical": samples with the same features are a group.
    offset : array-like of shape (N,), optional
        A known part of the linear predictor, which is offset + b_i + x'w_i.
    cv : int, default=5
        Number of folds of the target's samples.
    tolerance : float, default=2
        How many standard deviations over folds the error of a source may be larger than that of the target
        alone.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that deals out the samples to folds.
    verbose : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    TaskHelp
        What each task does for the target. Print it; `to_frame()` and `plot()` say more.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import SharedMTLCV, which_tasks_help
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((230, 12)), np.repeat(["new", "twin", "odd"], [30, 100, 100])
    >>> slopes = np.where(task == "odd", -1.0, 1.0)[:, None] * np.linspace(1.0, 0.1, 12)
    >>> y = (X * slopes).sum(axis=1) + rng.standard_normal(230)
    >>> found = which_tasks_help(SharedMTLCV(lams=10, cv=3), X, y, task=task, target="new")
    >>> bool(found.error[found.tasks == "twin"][0] < found.alone)
    True
    """
    check_count("cv", cv)
    if cv < 2:
        raise ValueError(f"cv must be at least 2, got {cv}.")
    check_positive("tolerance", tolerance, allow_zero=True)
    check_verbose(verbose)
    given = {"task": task, "task_column": task_column, "sample_weight": sample_weight, "offset": offset}
    data, kind = _read(estimator, X, y, given)
    i = _place(data, target)
    check_signature("the estimator", estimator, True, sample_weight is not None, offset is not None)
    rows = Cells(data, kind, sample_weight, None if groups is None else groups_of(groups, data.X))
    others = np.delete(np.arange(data.m), i)
    splits = _folds(data, i, groups, kind, {"cv": cv, "random_state": random_state, "X": X, "y": y})
    with one_blas_thread(), Progress(len(splits) * (len(others) + 2), "fits", verbose) as progress:

        def losses(beside: np.ndarray) -> list[Floats]:
            """By fold: of the target's samples held out, with the samples of some other tasks."""
            more = np.zeros(len(splits[0].train), dtype=bool)
            for k in beside.tolist():
                more[data.tasks[k].rows] = True
            out = []
            for split in splits:
                out.append(rows.held_out(estimator, replace(split, train=split.train | more)).losses)
                progress.step(1.0)
            return out

        alone, together = losses(others[:0]), losses(others)
        with_each = [losses(others[[k]]) for k in range(len(others))]
    return _summed(data, i, rows, splits, alone, together, with_each, tolerance, kind.measure)


def _read(estimator: Any, X: Any, y: Any, given: dict[str, Any]) -> tuple[TaskData, Numbers | Classes]:
    kind: Numbers | Classes = Numbers()
    if hasattr(estimator, "predict_proba"):
        classes, _, data = read_classes(X, y, **given, alone=False)
        kind = Classes(classes)
    else:
        data = read_training(X, y, **given)
        loss = loss_of(estimator)
        data = replace(data, offset_of_targets=data.has_offset and (not is_loss(loss) or loss_named(loss).linear))
    if data.form != "long":
        raise ValueError(
            "which_tasks_help compares samples of tasks: give 1-D targets, with the label of every sample (task= or "
            "task_column=)."
        )
    if data.m < 2:
        raise ValueError("there is one task only: no other could help it.")
    return data, kind


def _place(data: TaskData, target: Any) -> int:
    labels = data.labels.tolist()
    if not isinstance(target, Hashable) or target not in labels:
        raise ValueError(f"target={target!r} is not among the tasks: {choices_of(target, labels)}.")
    return labels.index(target)


def _folds(data: TaskData, i: int, groups: Any, kind: Numbers | Classes, given: dict[str, Any]) -> list[Split]:
    """Of the target's samples: those of folds of all tasks, stratified, of which the target's are taken."""
    cv, random_state = given["cv"], given["random_state"]
    own = np.zeros(data.X.shape[0], dtype=bool)
    own[data.tasks[i].rows] = True
    if isinstance(kind, Classes):
        folds: Any = class_folds(data, kind.classes, cv, random_state, groups, False)
    else:
        folds = cv
    splits = read_splits(folds, given["X"], given["y"], groups, data, random_state)
    found = [replace(split, train=split.train & own, test=split.test & own) for split in splits]
    if not all(split.train.sum() >= 2 and split.test.any() for split in found):
        raise ValueError(
            f"the target {names_of([data.labels[i]])} has too few samples ({int(own.sum())}) for {cv} folds: some would "
            "have none to hold out. Give a smaller cv."
        )
    return found


def _summed(
    data: TaskData,
    i: int,
    rows: Cells,
    splits: list[Split],
    alone: list[Floats],
    together: list[Floats],
    with_each: list[list[Floats]],
    tolerance: float,
    measure: Measure,
) -> TaskHelp:
    unit = float(rows.unit[i])
    if not unit > 0.0:
        raise ValueError(f"the targets of task {names_of([data.labels[i]])} are constant: there is nothing to predict.")
    weights = [rows.cell_weight[split.test[rows.cell_row]] for split in splits]
    clusters = np.concatenate([rows.cell_cluster[split.test[rows.cell_row]] for split in splits])
    weight = np.concatenate(weights)

    def mean(losses: list[Floats]) -> float:
        return float(np.average(np.concatenate(losses), weights=weight)) / unit

    base, by_fold = mean(alone), [np.average(part, weights=w) / unit for part, w in zip(alone, weights, strict=True)]
    error = np.array([mean(one) for one in with_each])
    differences = [(np.concatenate(one) - np.concatenate(alone)) / unit for one in with_each]
    se = np.array([_standard_error(one, weight, clusters) for one in differences])
    limit = base + tolerance * max(float(np.std(by_fold, ddof=1)), LEAST_SPREAD)
    beyond = _clear_from(len(error)) * se
    return TaskHelp(
        target=data.labels.tolist()[i],
        tasks=np.delete(data.labels, i),
        alone=base,
        together=mean(together),
        error=error,
        difference=error - base,
        se=se,
        limit=limit,
        is_source=error <= limit,
        helps=error - base < -beyond,
        harms=error - base > beyond,
        n_samples=len(weight),
        measure=measure.name,
    )


def _standard_error(difference: Floats, weight: Floats, clusters: np.ndarray) -> float:
    """Of a weighted mean, samples of a cluster being taken together."""
    centre = np.average(difference, weights=weight)
    sums = np.bincount(np.unique(clusters, return_inverse=True)[1].ravel(), weight * (difference - centre))
    count = len(sums)
    return float(np.sqrt(count / max(count - 1, 1) * np.sum(sums**2)) / weight.sum())


def _clear_from(count: int) -> float:
    """Standard errors from which a difference is clear, of so many that are looked at."""
    return float(norm.ppf(1.0 - (1.0 - LEVEL) / (2.0 * count)))
