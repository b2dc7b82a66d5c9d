"""Logistic regression: one per task, and one for all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from ..._data.designs import Floats
from ..._data.task_data import Task, TaskData
from ..._objective.losses import Logistic, pseudo_samples
from ..._paths.conformal import FoldFit, HeldOutScores, held_out_scores
from ..._paths.searched import fold_scores_of
from ..._paths.validation.held_out import Split
from ..._solvers.problems.arguments import check_intercepts
from ..._solvers.problems.level_priors import loss_prior
from ..classification.classes import class_folds, one_against_rest
from ..classification.classifier import MultiTaskClassifier
from ..msmtfl.classifier_search import MSMTFLClassifierCV
from .baseline import Baseline, Solved, Tried, given_folds, held_out_means, records_of, what_was_tried
from .ridge import ALPHAS
from .stack import Stack, column_scales, weighted_means

LOGISTIC_ALPHAS = ALPHAS[::3]  # a step is a fit


# ------------------------------------------------------------------ classes


class LogisticBaseline(Baseline, MultiTaskClassifier):
    """A baseline for classes says how it makes coefficients (m, d) and intercepts (m,) of tasks with targets 0 and 1
    (`_binary`), given folds as pairs of rows; with K > 2 classes it is asked for each against the rest."""

    def _binary(self, data: TaskData, folds: list[tuple[np.ndarray, np.ndarray]]) -> Solved:
        raise NotImplementedError

    def _as_fitted(self, data: TaskData) -> TaskData:
        return one_against_rest(data, self.classes_)

    def _scores(self, data: TaskData, without: list[FoldFit], groups: np.ndarray | None) -> HeldOutScores:
        others = self._ways()
        return held_out_scores(self._as_fitted(data), without, Logistic(), classes=True, groups=groups, ways=others)

    def _solve(self, data: TaskData, groups: np.ndarray | None) -> Solved:
        if given_folds(self.cv):
            folds = [(np.flatnonzero(split.train), np.flatnonzero(split.test)) for split in self.cv]
        else:
            alone = getattr(self, "intercepts", "task") == "task"
            folds = class_folds(data, self.classes_, max(self.cv, 2), self.random_state, groups, alone)
        K = len(self.classes_)
        parts = [self._binary(_one_class(data, k), folds) for k in (range(K) if K > 2 else [1])]
        without = _joined([fits for *_, fits in parts], data.m)
        W = np.stack([coef for coef, _, _ in parts], axis=1)  # (m, K, d)
        b = np.stack([level for _, level, _ in parts], axis=1)
        return (W, b, without) if K > 2 else (W[:, 0], b[:, 0], without)


def _joined(fits: Sequence[Sequence[FoldFit]], m: int) -> list[FoldFit]:
    """Fits of every class (or of the only one) without each fold, as one that has all classes of a task together."""
    return [
        FoldFit(
            np.stack([fit.coef for fit in of_fold], axis=1).reshape(m * len(fits), -1),
            np.stack([fit.intercept for fit in of_fold], axis=1).reshape(-1),
            of_fold[0].test,
        )
        for of_fold in zip(*fits, strict=True)
    ]


def _one_class(data: TaskData, k: int) -> TaskData:
    """Targets are 1 in class k, otherwise 0."""
    return replace(data, tasks=tuple(replace(task, y=(task.y == k).astype(np.float64)) for task in data.tasks))


def _logistic_path(
    X: Floats, y: Floats, weight: Floats, task: np.ndarray, offset: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    """(points, d) and (points, tasks): the minimisers w, b of  sum_r v_r h(y_r, o_r + x_r'w + b_i(r)) + alpha/2 |w|^2"""
    d, m = X.shape[1], int(task.max()) + 1
    squares, sizes = weight @ X**2, np.bincount(task, weight, m)
    z, out = np.zeros(d + m), []
    for alpha in LOGISTIC_ALPHAS[::-1] * max(float(squares.mean()), np.finfo(float).tiny):
        unit = np.sqrt(np.append(0.25 * squares + alpha, 0.25 * sizes))  # by the curvature: all variables alike
        rest = (unit, alpha, X, y, weight, task, offset)
        found: Any = minimize(_deviance, z * unit, rest, "L-BFGS-B", jac=True, options={"maxiter": 1000})
        z = found.x / unit
        out.append(z)
    return np.array(out)[:, :d], np.array(out)[:, d:]


def _deviance(
    z: Floats,
    unit: Floats,
    alpha: float,
    X: Floats,
    y: Floats,
    weight: Floats,
    task: np.ndarray,
    offset: Floats | float,
) -> tuple[float, Floats]:
    """The objective of `_logistic_path` and its gradient at (w, b) = z / unit"""
    loss, (w, b) = Logistic(), np.split(z / unit, [X.shape[1]])
    f = X @ w + b[task] + offset
    g = weight * loss.slope(y, f)
    value = float(weight @ loss.value(y, f)) + 0.5 * alpha * float(w @ w)
    return value, np.concatenate([X.T @ g + alpha * w, np.bincount(task, g, len(b))]) / unit


def _ridge_logistic(
    tasks: Sequence[Task],
    standardize: bool,
    folds: list[tuple[np.ndarray, np.ndarray]],
    records: Sequence[Any] = (),
    shrunk: bool = False,
) -> tuple[Floats, Floats, list[tuple[Floats, Floats]], Tried | None]:
    """(d,) and (tasks,): coefficients that the tasks share and their intercepts, at the penalty with the smallest held-out
    log-loss; both without each fold; and what they were chosen from, if there are records of the folds."""
    stack = Stack.of(tasks)

    def path(on: np.ndarray) -> tuple[Floats, Floats, Floats]:
        X, _ = stack.centred(on)
        scales = column_scales(X[on], stack.weight[on], standardize)
        given = X[on], stack.y[on], stack.weight[on], stack.task[on], stack.offset[on]
        if shrunk and len(tasks) > 1:
            given = _with_pseudo_samples(stack, X, on, given)
        W, b = _logistic_path(given[0] / scales, *given[1:])
        return X, W / scales, b

    total, of_folds, paths = np.zeros(len(LOGISTIC_ALPHAS)), [], []
    for f, (train, test) in enumerate([np.isin(stack.row, rows) for rows in pair] for pair in folds):
        if test.any():
            X, W, b = path(train)
            paths.append((W, b, train))
            linear = X[test] @ W.T + b[:, stack.task[test]].T + stack.offset[test, None]
            losses = Logistic().value(stack.y[test, None], linear)
            of_folds.append(held_out_means(records, f, losses, stack.weight[test]))
            total += stack.weight[test].sum() * of_folds[-1]
    _, W, b = path(np.ones(len(stack.y), dtype=bool))
    best = int(np.argmin(total))
    means = np.array([weighted_means(task.X, task.y, task.weight)[0] for task in tasks])
    tried = what_was_tried(records, of_folds, np.count_nonzero(W, axis=1), best)
    without = []
    for V, c, train in paths:
        centres = np.array([stack._mean_over(i, train)[0] for i in range(len(tasks))])
        without.append((V[best], c[best] - centres @ V[best]))
    return W[best], b[best] - means @ W[best], without, tried


def _with_pseudo_samples(
    stack: Stack, X: Floats, on: np.ndarray, given: tuple[Floats, Floats, Floats, np.ndarray, Floats]
) -> tuple[Floats, Floats, Floats, np.ndarray, Floats]:
    """X (centred by task), y, weights, tasks and offsets with the samples that draw the tasks' levels to a common one."""
    count = int(stack.task.max()) + 1
    some = [np.flatnonzero(on & (stack.task == i)) for i in range(count)]
    tasks = [
        Task(i, stack.X[at], stack.y[at], stack.weight[at], at, stack.offset[at])
        for i, at in enumerate(some)
        if len(at)
    ]
    prior = loss_prior(tasks, Logistic())
    y, shares = pseudo_samples(Logistic(), prior.level + prior.offset)
    firsts = [int(np.argmax(stack.task == i)) for i in range(count)]
    at = prior.at - (stack.X[firsts] - X[firsts])  # (tasks, d), less the means of each
    more = (np.repeat(at, len(y), axis=0), np.tile(y, count), np.tile(prior.ridge * shares, count))
    X, y, weight = (np.concatenate(both) for both in zip(given[:3], more, strict=True))
    task = np.append(given[3], np.repeat(np.arange(count), len(shares)))
    return X, y, weight, task, np.append(given[4], np.full(count * len(shares), prior.offset))


class LogisticPerTaskCV(LogisticBaseline):
    """One logistic regression with l2 penalty per task, each with its own strength of the penalty.

    This model takes dense data only.

    Parameters
    ----------
    cv : int, default=5
        Number of folds, which are stratified by task and class.
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    standardize : bool, default=False
        Whether every task's columns are penalised as if they were scaled to unit standard
        deviation. Coefficients stay in the data's units.
    unknown_task : {"error", "mean", "common", "similar"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error, or
        predict and warn, with the mean coefficients of the known tasks; with what they have in
        common, if the model has such a part; or with their mean weighted by exp(-D_i / D),
        where D_i is how far the means of the features in the samples to be predicted are from
        those of task i (the mean square of the differences in standard deviations), and D the
        distance of a known task to the nearest other one, in the median.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that deals out the samples to folds.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, sorted.
    coef_ : ndarray of shape (m, d) or (m, K, d)
        Coefficients of the log-odds of the second class, one line per task, in the data's
        units. With K > 2 classes there are coefficients for each class against the rest.
        Without the first axis if the model was fitted without tasks.
    intercept_ : ndarray of shape (m,) or (m, K)
        Intercepts of the tasks; without the first axis (a float, or K numbers) if the model
        was fitted without tasks.
    tasks_ : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `coef_`.
    features_ : ndarray of shape (d,)
        Names of the features, in the order of the last axis of `coef_`.
    n_features_in_ : int
        Number of columns of X in `fit`, the column that identifies the task included.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X in `fit`. There is no such attribute if X had no names
        that are text.
    uses_offset_ : bool
        Whether the model was fitted with an offset, so that `predict` needs one.
    n_samples_ : ndarray of shape (m,)
        Number of training samples of every task.
    n_fitted_tasks_ : int
        Number of tasks of the fit, those that were added later not counted.
    target_mean_ : ndarray of shape (m,) or (m, K)
        Share of the second class (of each class, if there are more than two) in the
        training samples of every task.
    target_sd_ : ndarray of shape (m,) or (m, K)
        Standard deviation of the 0/1 indicator of that class.
    feature_means_ : ndarray of shape (m, d)
        Means of the features over the training samples of every task, by which
        unknown_task="similar" knows how similar tasks are.
    learnable_ : ndarray of bool of shape (m, d)
        Where a feature varies within a task; elsewhere its effect cannot be told from the
        intercept.
    feature_sd_ : ndarray of shape (d,)
        Standard deviations of the features within tasks, pooled over the tasks in which a
        feature varies; 0 where it never does. A coefficient times it is the effect of one
        standard deviation.
    task_level_features_ : ndarray
        Names of the features that are constant within every task and differ only between
        tasks. A coefficient of 0 says nothing about their effect, and `fit` warns of them.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.baselines import LogisticPerTaskCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((200, 3)), np.repeat(["north", "south"], 100)
    >>> y = np.where(task == "north", 3, -3) * X[:, 0] + rng.logistic(size=200) > 0
    >>> np.sign(LogisticPerTaskCV().fit(X, y, task=task).coef_[:, 0])
    array([ 1., -1.])
    """

    _per_task = True

    def __init__(self, *, cv=5, task_column=None, standardize=False, unknown_task="error", random_state=0):
        self.cv = cv
        self.task_column = task_column
        self.standardize = standardize
        self.unknown_task = unknown_task
        self.random_state = random_state

    def _binary(self, data: TaskData, folds: list[tuple[np.ndarray, np.ndarray]]) -> Solved:
        parts = [_ridge_logistic([task], self.standardize, folds) for task in data.tasks]
        known = all(len(without) == len(folds) for *_, without, _ in parts)  # tasks of a few rows may be in few folds
        fits = [
            FoldFit(
                np.array([without[f][0] for *_, without, _ in parts]),
                np.array([without[f][1][0] for *_, without, _ in parts]),
                _rows(test, data.X.shape[0]),
            )
            for f, (_, test) in enumerate(folds if known else ())
        ]
        return np.array([w for w, *_ in parts]), np.array([b[0] for _, b, *_ in parts]), fits


def _rows(rows: np.ndarray, N: int) -> np.ndarray:
    """(N,) bool"""
    out = np.zeros(N, dtype=bool)
    out[rows] = True
    return out


class PooledLogisticCV(LogisticBaseline):
    """One logistic regression for all tasks, each with its own intercept, which is not penalised.

    This model takes dense data only.

    Parameters
    ----------
    penalty : {"l1", "l2"}, default="l2"
        The penalty on the coefficients.
    cv : int, default=5
        Number of folds, which are stratified by task and class.
    lams : int or array-like of shape (K,), default=30
        How many strengths of the l1 penalty are tried, or the values themselves. Not used
        with "l2".
    task_column : str or int, optional
        The column of X that identifies the task. Without it the tasks are given to `fit` as
        `task`, or as columns of y.
    standardize : bool, default=False
        Whether every task's columns are penalised as if they were scaled to unit standard
        deviation. Coefficients stay in the data's units.
    unknown_task : {"error", "mean", "common", "similar"}, default="error"
        What `predict` does with a label that was not in the training data: raise an error, or
        predict and warn, with the mean coefficients of the known tasks; with what they have in
        common, if the model has such a part; or with their mean weighted by exp(-D_i / D),
        where D_i is how far the means of the features in the samples to be predicted are from
        those of task i (the mean square of the differences in standard deviations), and D the
        distance of a known task to the nearest other one, in the median.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that deals out the samples to folds.
    intercepts : {"task", "shrunk"}, default="task"
        How intercepts share. "task": every task has its own. "shrunk", with penalty="l2"
        only: they are drawn to a common level, so that tasks of one class can be fitted.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The classes, sorted.
    coef_ : ndarray of shape (m, d) or (m, K, d)
        Coefficients of the log-odds of the second class, one line per task, in the data's
        units. With K > 2 classes there are coefficients for each class against the rest.
        Without the first axis if the model was fitted without tasks.
    intercept_ : ndarray of shape (m,) or (m, K)
        Intercepts of the tasks; without the first axis (a float, or K numbers) if the model
        was fitted without tasks.
    tasks_ : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `coef_`.
    features_ : ndarray of shape (d,)
        Names of the features, in the order of the last axis of `coef_`.
    n_features_in_ : int
        Number of columns of X in `fit`, the column that identifies the task included.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns of X in `fit`. There is no such attribute if X had no names
        that are text.
    uses_offset_ : bool
        Whether the model was fitted with an offset, so that `predict` needs one.
    n_samples_ : ndarray of shape (m,)
        Number of training samples of every task.
    n_fitted_tasks_ : int
        Number of tasks of the fit, those that were added later not counted.
    target_mean_ : ndarray of shape (m,) or (m, K)
        Share of the second class (of each class, if there are more than two) in the
        training samples of every task.
    target_sd_ : ndarray of shape (m,) or (m, K)
        Standard deviation of the 0/1 indicator of that class.
    feature_means_ : ndarray of shape (m, d)
        Means of the features over the training samples of every task, by which
        unknown_task="similar" knows how similar tasks are.
    learnable_ : ndarray of bool of shape (m, d)
        Where a feature varies within a task; elsewhere its effect cannot be told from the
        intercept.
    feature_sd_ : ndarray of shape (d,)
        Standard deviations of the features within tasks, pooled over the tasks in which a
        feature varies; 0 where it never does. A coefficient times it is the effect of one
        standard deviation.
    task_level_features_ : ndarray
        Names of the features that are constant within every task and differ only between
        tasks. A coefficient of 0 says nothing about their effect, and `fit` warns of them.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.baselines import PooledLogisticCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((200, 3)), np.repeat(["north", "south"], 100)
    >>> y = 3 * X[:, 0] + rng.logistic(size=200) > 0
    >>> model = PooledLogisticCV("l1").fit(X, y, task=task)
    >>> bool((model.coef_[0] == model.coef_[1]).all()), model.predict_proba(X[:2], task=task[:2]).shape
    (True, (2, 2))
    """

    def __init__(
        self,
        penalty="l2",
        *,
        cv=5,
        lams=30,
        task_column=None,
        standardize=False,
        unknown_task="error",
        random_state=0,
        intercepts="task",
    ):
        self.intercepts = intercepts
        self.penalty = penalty
        self.cv = cv
        self.lams = lams
        self.task_column = task_column
        self.standardize = standardize
        self.unknown_task = unknown_task
        self.random_state = random_state

    def _binary(self, data: TaskData, folds: list[tuple[np.ndarray, np.ndarray]]) -> Solved:
        if self.penalty not in ("l1", "l2"):
            raise ValueError(f"penalty must be 'l1' or 'l2', got {self.penalty!r}.")
        check_intercepts(self.intercepts, True)
        if not self._can_share(self.intercepts):
            raise ValueError(
                f"intercepts={self.intercepts!r}: with penalty='l2' they can be 'task' or 'shrunk', with 'l1' 'task' only."
            )
        solve: Any = self._lasso if self.penalty == "l1" else _ridge_logistic
        records = records_of(self.cv) if len(self.classes_) == 2 else []
        more = {"shrunk": True} if self.intercepts == "shrunk" else {}
        w, b, without, tried = solve(data.tasks, self.standardize, folds, records, **more)
        self._keep(tried)
        fits = [
            FoldFit(np.tile(v, (data.m, 1)), c, _rows(test, data.X.shape[0]))
            for (v, c), (_, test) in zip(without, folds, strict=False)
            if len(without) == len(folds)
        ]
        return np.tile(w, (data.m, 1)), b, fits

    def _can_share(self, intercepts: str) -> bool:
        return intercepts == "task" or (intercepts == "shrunk" and self.penalty == "l2")

    def _takes_folds(self, n_classes: int) -> bool:
        return n_classes == 2

    def _lasso(
        self,
        tasks: Sequence[Task],
        standardize: bool,
        folds: list[tuple[np.ndarray, np.ndarray]],
        records: Sequence[Any],
    ) -> tuple[Floats, Floats, list[tuple[Floats, Floats]], Tried | None]:
        """The intercepts are those of columns that say the task and have no penalty."""
        stack = Stack.of(tasks)
        d, others = stack.X.shape[1], np.arange(1, len(tasks))
        model = MSMTFLClassifierCV(
            self.lams,
            thetas=[np.inf],
            entry_shares=0,
            cv=[tuple(np.flatnonzero(np.isin(stack.row, rows)) for rows in pair) for pair in folds],
            standardize=standardize,
            penalty_factors=np.repeat([1.0, 0.0], [d, len(others)]),
        )
        if records:
            masks = [[np.isin(stack.row, rows) for rows in pair] for pair in folds]
            model.set_params(
                cv=[Split(train, test, record) for (train, test), record in zip(masks, records, strict=True)]
            )
        columns = np.column_stack([stack.X, stack.task[:, None] == others])
        beside = stack.offset if stack.offset.any() else None
        model.fit(columns, stack.y.astype(int), sample_weight=stack.weight, offset=beside)
        tried = None
        if records:
            used = np.maximum(model.cv_results_["n_rows"] - len(others), 0)
            tried = Tried(fold_scores_of(model), used.astype(np.float64), model.best_index_)
        scores = model.held_out_
        without = [
            (w[:d], level + np.append(0.0, w[d:]))
            for w, level in zip(scores.coefs()[0], scores.intercepts()[0], strict=True)
        ]
        return model.coef_[:d], model.intercept_ + np.append(0.0, model.coef_[d:]), without, tried
