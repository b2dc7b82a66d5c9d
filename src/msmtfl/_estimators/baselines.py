"""What an analyst would try first: ridge per task, and one model for all tasks on task-centred data; for classes the same
with the logistic loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse

from .._data.copies import groups_of
from .._data.designs import Floats
from .._data.folds import TaskKFold
from .._data.tables import check_finite, unmasked
from .._data.tasks import Task, TaskData
from .._objective.losses import Logistic, Squared, pseudo_samples
from .._paths.choice import fold_scores_of
from .._paths.conformal import FoldFit, HeldOutScores, held_out_scores
from .._paths.cross_validation import Split
from .._paths.solve import regularization_surface
from .._runtime.checks import check_count, check_flag
from .._runtime.progress import one_blas_thread
from .._solvers.level_priors import loss_prior
from .._solvers.make_problem import check_intercepts, make_problem
from .base import MultiTaskLinear, forget, warn_of_task_level
from .classes import class_folds, one_against_rest
from .classifier import MSMTFLClassifierCV, MultiTaskClassifier
from .new_tasks import feature_means

ALPHAS = np.geomspace(1e-4, 1e4, 33)  # of ridge, times the mean square of the columns
LOGISTIC_ALPHAS = ALPHAS[::3]  # a step is a fit


@dataclass(frozen=True, eq=False)
class Tried:
    """What a baseline has chosen from, on folds that it was given: its scores (folds, P), the features that its points use
    on all data, and the place of its choice."""

    scores: Floats
    n_features: Floats
    chosen: int


Solved = tuple[Floats, Floats, list[FoldFit]]  # coefficients and intercepts, and fits without each fold


class _Baseline:
    """A baseline says how it makes coefficients and intercepts of the tasks (`_solve`); the first axis of both is theirs.

    A comparison may set `cv` to folds (`Split`). What `_takes_folds` then keeps the losses of its points in their records,
    and says in `_tried` what it has chosen from.
    """

    cv: Any
    _tried: Tried | None = None
    standardize: bool
    random_state: Any
    coef_: Any
    _read: Callable[..., TaskData]

    def _keep(self, tried: Tried | None) -> None:
        """For the comparison only: what is fitted without one has nothing to keep."""
        if tried is not None:
            self._tried = tried
        elif self._tried is not None:
            del self._tried

    def _takes_folds(self, n_classes: int) -> bool:
        """Whether it has one choice to make for all tasks, which folds can be given for."""
        return False

    def _separates(self) -> bool:
        return isinstance(self, (RidgePerTaskCV, LogisticPerTaskCV))

    def _common(self) -> Floats | None:
        """One model for all tasks is what they have in common."""
        return None if self._separates() else np.asarray(self.coef_)[0]

    def _solve(self, data: TaskData, groups: np.ndarray | None) -> Solved:
        raise NotImplementedError

    def _as_fitted(self, data: TaskData) -> TaskData:
        """The data with the targets that are fitted: of classes, each against the rest."""
        return data

    def _scores(self, data: TaskData, without: list[FoldFit], groups: np.ndarray | None) -> HeldOutScores:
        """What intervals are made of."""
        return held_out_scores(data, without, Squared(), groups=groups)

    def fit(
        self, X: Any, y: Any, *, task: Any = None, sample_weight: Any = None, groups: Any = None, offset: Any = None
    ) -> Any:
        """Choose the strength of the penalty, and fit the model to all samples with it.

        Parameters
        ----------
        X : DataFrame, ndarray or sparse matrix of shape (N, d)
            Samples of all tasks. A table or an array may have a column that identifies the task
            (see `task_column`).
        y : array-like of shape (N,) or (N, m)
            Targets, or the classes for a classifier. A 2-D y has one column per task, all of
            them for the same samples X; NaN (or None) means not measured.
        task : array-like of shape (N,), optional
            The label of the task of every sample, if the tasks are not a column of X.
        sample_weight : array-like of shape (N,) or (N, m), optional
            Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
        groups : array-like of shape (N,) or "identical", optional
            Labels of groups: samples of one group (a patient, a speaker) stay in one fold.
            "identical": samples with the same features are a group.
        offset : array-like of shape (N,) or (N, m), optional
            A known part of the linear predictor, which is offset + b_i + x'w_i; (N, m) beside a
            2-D y. With loss="poisson" the logarithm of an exposure makes a model of rates.
            `predict` then needs the offsets of its samples, too.

        Returns
        -------
        object
            The fitted model itself.
        """
        check_flag("standardize", self.standardize)
        if not given_folds(self.cv):
            check_count("cv", self.cv)
        with one_blas_thread():
            if issparse(X):
                raise TypeError(
                    f"Sparse data was passed for X, but {type(self).__name__} takes dense data: X.toarray()."
                )
            data = self._read(X, y, task, sample_weight, offset)
            if data.X.dtype != np.float64:
                data = self._read(np.asarray(unmasked(X), dtype=np.float64), y, task, sample_weight, offset)
            check_finite(data.X, data.features, "X")
            problem = make_problem(
                data, fit_intercept=True, standardize=False, positive=False
            )  # refuses columns out of range
            of_rows = None if groups is None else groups_of(groups, data.X)
            W, b, without = self._solve(data, of_rows)
        forget(self, "held_out_")
        if without:
            together = self.cv[0].groups if given_folds(self.cv) else of_rows
            self.held_out_ = self._scores(data, without, together)
        self._form, self._task_position, self.uses_offset_ = data.form, data.task_position, data.has_offset
        self.tasks_, self.features_ = data.labels, data.features
        targets = self._as_fitted(data).targets
        self.n_samples_, self.n_fitted_tasks_ = np.array([len(one.y) for one in data.tasks]), data.m
        shape = (data.m,) if len(targets) == data.m else (data.m, -1)  # of more than two classes
        self.target_mean_ = np.reshape([target.mean for target in targets], shape)
        self.target_sd_ = np.sqrt(np.reshape([target.variance for target in targets], shape))
        self.learnable_, self.task_level_features_ = problem.learnable, data.features[problem.of_task_level]
        self.feature_means_, self.feature_sd_ = feature_means(problem), problem.feature_sds
        warn_of_task_level(self.task_level_features_)
        single = data.form == "single"
        self.coef_ = W[0] if single else W
        self.intercept_ = (float(b[0]) if b.ndim == 1 else b[0]) if single else b
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = False
        return tags


class _Linear(_Baseline, MultiTaskLinear):
    """A baseline for numbers says how it makes coefficients (m, d) of the tasks, and fits without each fold (`_coefs`)."""

    def _coefs(self, data: TaskData, groups: np.ndarray | None) -> tuple[Floats, list[FoldFit]]:
        raise NotImplementedError

    def _solve(self, data: TaskData, groups: np.ndarray | None) -> Solved:
        data = data.less_offset()  # squared errors: an offset is a matter of the target
        W, without = self._coefs(data, groups)
        means = [_means(one.X, one.y, one.weight) for one in data.tasks]
        return W, np.array([y_mean - w @ x_mean for w, (x_mean, y_mean) in zip(W, means, strict=True)]), without


def _means(X: Floats, y: Floats, weight: Floats | None) -> tuple[Floats, float]:
    return np.average(X, axis=0, weights=weight), float(np.average(y, weights=weight))


@dataclass(frozen=True)
class _Stack:
    """Rows of several tasks one below the other: which task and which row of the data each is."""

    X: Floats
    y: Floats
    weight: Floats
    task: np.ndarray
    row: np.ndarray
    offset: Floats

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> _Stack:
        weights = [np.ones(len(task.y)) if task.weight is None else task.weight for task in tasks]
        return cls(
            np.concatenate([task.X for task in tasks]),
            np.concatenate([task.y for task in tasks]),
            np.concatenate(weights),
            np.repeat(np.arange(len(tasks)), [len(task.y) for task in tasks]),
            np.concatenate([task.rows for task in tasks]),
            np.concatenate([np.zeros(len(task.y)) if task.offset is None else task.offset for task in tasks]),
        )

    def levels(self, on: np.ndarray, w: Floats) -> Floats:
        """(tasks,): the intercepts that belong to coefficients (d,) fitted to some of the rows."""
        means = [self._mean_over(i, on) for i in range(int(self.task.max()) + 1)]
        return np.array([y_mean - w @ x_mean for x_mean, y_mean in means])

    def _mean_over(self, i: int, on: np.ndarray) -> tuple[Floats, float]:
        of_task = self.task == i
        some = of_task & on if (of_task & on).any() else on
        return _means(self.X[some], self.y[some], self.weight[some])

    def held_out(self, test: np.ndarray, N: int) -> np.ndarray:
        """(N,) bool: rows of the data, for some of those that are stacked."""
        out = np.zeros(N, dtype=bool)
        out[self.row[test]] = True
        return out

    def centred(self, on: np.ndarray) -> tuple[Floats, Floats]:
        """X and y less their task's means over some of the rows (of a task without any: the means of all of these)."""
        X, y = self.X.copy(), self.y.copy()
        for i in np.unique(self.task):
            of_task = self.task == i
            x_mean, y_mean = self._mean_over(i, on)
            X[of_task] -= x_mean
            y[of_task] -= y_mean
        return X, y


Path = Callable[[Floats, Floats, Floats], Floats]  # centred X, y, weights -> (d, points) coefficients


def _chosen(
    stack: _Stack, path: Path, folds: list[tuple[np.ndarray, np.ndarray]], records: Sequence[Any] = ()
) -> tuple[Floats, list[Floats], Tried | None]:
    """(d,): the coefficients at the point of a path with the smallest held-out error; those without each fold; and what they
    were chosen from, if there are records of the folds. Centring belongs to the fold: of rows centred together the others
    tell those left out, if there are fewer than features."""
    means, sizes, paths = [], [], []
    for f, (train, test) in enumerate(folds):
        X, y = stack.centred(train)
        paths.append(path(X[train], y[train], stack.weight[train]))
        fitted = X[test] @ paths[-1]
        losses = (y[test, None] - fitted) ** 2
        means.append(_told(records, f, losses, stack.weight[test]))
        sizes.append(stack.weight[test].sum())
    X, y = stack.centred(np.ones(len(stack.y), dtype=bool))
    coefs = path(X, y, stack.weight)
    if not folds:
        return np.zeros(X.shape[1]), [], None
    best = int(np.argmin(np.array(sizes) @ np.array(means)))
    tried = _what_was_tried(records, means, np.count_nonzero(coefs, axis=0), best)
    return np.asarray(coefs[:, best]), [one[:, best] for one in paths], tried


def _told(records: Sequence[Any], f: int, losses: Floats, weight: Floats) -> Floats:
    """(P,): the means of losses (rows, P) that a fold holds out, which are kept if there is a record of it."""
    if records:
        records[f].keep(losses.T)
    return np.asarray(weight @ losses / weight.sum())


def _what_was_tried(records: Sequence[Any], means: list[Floats], n_features: Any, best: int) -> Tried | None:
    return Tried(-np.array(means), np.asarray(n_features, dtype=np.float64), best) if records else None


def given_folds(cv: Any) -> bool:
    """Whether folds were made by a comparison."""
    return isinstance(cv, list) and bool(cv) and all(isinstance(split, Split) for split in cv)


def _records(cv: Any) -> list[Any]:
    """Where losses of folds are to be kept."""
    kept = [split.record for split in cv] if given_folds(cv) else []
    return [] if None in kept else kept


def _folds(model: Any, stack: _Stack, data: TaskData, groups: np.ndarray | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Folds of the stacked rows as masks, stratified by task; of a 2-D y whole rows are held out."""
    if given_folds(model.cv):
        return [(split.train[stack.row], split.test[stack.row]) for split in model.cv]
    strata = np.zeros(data.X.shape[0], dtype=np.intp)
    if data.form != "wide":
        strata[stack.row] = stack.task
    splitter = TaskKFold(max(model.cv, 2), random_state=model.random_state)
    rows = np.unique(stack.row)
    parts = list(splitter.deal_evenly(strata[rows], None if groups is None else groups[rows]))
    pairs = [(np.isin(stack.row, rows[train]), np.isin(stack.row, rows[test])) for train, test in parts]
    return [(train, test) for train, test in pairs if train.any() and test.any()]


def _pooled_fits(
    stack: _Stack, data: TaskData, folds: list[tuple[np.ndarray, np.ndarray]], without: list[Floats]
) -> list[FoldFit]:
    """Coefficients (d,) without each fold as those of all tasks, with the tasks' intercepts."""
    return [
        FoldFit(np.tile(w, (data.m, 1)), stack.levels(train, w), stack.held_out(test, data.X.shape[0]))
        for w, (train, test) in zip(without, folds, strict=True)
    ]


def _ridge(X: Floats, y: Floats, weight: Floats, alpha: float, standardize: bool) -> Floats:
    """(d,): the minimiser of sum_r s_r (y_r - x_r'w)^2 + alpha |w|^2, from the smaller of two systems."""
    if not np.isfinite(alpha):
        return np.zeros(X.shape[1])
    scales, root = _scales(X, weight, standardize), np.sqrt(weight)
    Z, t = X / scales * root[:, None], root * y
    alpha = max(alpha, float((Z**2).sum()) * np.finfo(float).eps)
    if len(Z) < Z.shape[1]:
        return np.asarray(Z.T @ np.linalg.solve(Z @ Z.T + alpha * np.eye(len(Z)), t) / scales)
    return np.asarray(np.linalg.solve(Z.T @ Z + alpha * np.eye(Z.shape[1]), Z.T @ t) / scales)


def _scales(X: Floats, weight: Floats, standardize: bool) -> Floats:
    """(d,): what to divide the columns by; inf for a constant one."""
    square = np.average(X**2, axis=0, weights=weight)
    return np.where(square > 0, np.sqrt(square) if standardize else 1.0, np.inf)


def _left_out_ridge(Z: Floats, y: Floats, weight: Floats, alphas: Floats) -> tuple[Floats, float]:
    """(d,), and the strength: the ridge with the smallest squared error of samples that are left out one by one, intercept
    included. Z and y are centred. A sample's residual without it is that with it, divided by 1 less its leverage; one
    decomposition serves all strengths (scikit-learn's RidgeCV takes one strength after the other)."""
    root = np.sqrt(weight)
    U, size, Vt = np.linalg.svd(root[:, None] * Z, full_matrices=False)
    along = U.T @ (root * y)
    kept = size[:, None] ** 2 / (size[:, None] ** 2 + alphas)
    residuals = (root * y)[:, None] - U @ (kept * along[:, None])
    leverage = (weight / weight.sum())[:, None] + U**2 @ kept
    best = int(np.argmin(((residuals / np.maximum(1.0 - leverage, np.finfo(float).eps)) ** 2).sum(axis=0)))
    return Vt.T @ (size / (size**2 + alphas[best]) * along), float(alphas[best])


def _ridge_path(standardize: bool) -> Path:
    def path(X: Floats, y: Floats, weight: Floats) -> Floats:
        """The minimisers of sum_r s_r (y_r - x_r'w)^2 + alpha |w|^2"""
        scales = _scales(X, weight, standardize)
        root = np.sqrt(weight)
        U, values, V = np.linalg.svd(X / scales * root[:, None], full_matrices=False)
        alphas = ALPHAS * max(float((values**2).sum()) / X.shape[1], np.finfo(float).tiny)
        share = values[:, None] / (values[:, None] ** 2 + alphas)
        return np.asarray(V.T @ (share * (U.T @ (root * y))[:, None]) / scales[:, None])

    return path


class RidgePerTaskCV(_Linear):
    """One ridge regression per task, each with its own strength of the penalty.

    The strength is chosen by leave-one-out cross-validation; where `fit` is given groups, by folds of them.
    This model takes dense data only.

    Parameters
    ----------
    cv : int, default=5
        Number of folds, where `fit` is given groups.
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
    coef_ : ndarray of shape (m, d)
        Coefficients of every task in the data's units; (d,) if the model was fitted without
        tasks.
    intercept_ : ndarray of shape (m,)
        Intercepts of the tasks; a float if the model was fitted without tasks.
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
    target_mean_ : ndarray of shape (m,)
        Mean of the training targets of every task.
    target_sd_ : ndarray of shape (m,)
        Standard deviation of the training targets of every task.
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
    >>> from msmtfl.baselines import RidgePerTaskCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((60, 4)), np.repeat(["north", "south"], 30)
    >>> y = np.where(task == "north", 2, -1) * X[:, 0] + 0.1 * rng.standard_normal(60)
    >>> RidgePerTaskCV().fit(X, y, task=task).coef_[:, 0].round(1)
    array([ 2., -1.])
    """

    def __init__(self, *, cv=5, task_column=None, standardize=False, unknown_task="error", random_state=0):
        self.cv = cv
        self.task_column = task_column
        self.standardize = standardize
        self.unknown_task = unknown_task
        self.random_state = random_state

    def _coefs(self, data: TaskData, groups: np.ndarray | None) -> tuple[Floats, list[FoldFit]]:
        parts = [self._one(task, data, groups) for task in data.tasks]
        return np.array([w for w, _ in parts]), self._refits(data, groups, [alpha for _, alpha in parts])

    def _refits(self, data: TaskData, groups: np.ndarray | None, alphas: list[float]) -> list[FoldFit]:
        """Fits without each fold, at the strengths of the penalty that were chosen."""
        out, stack = [], _Stack.of(data.tasks)
        for train, test in _folds(self, stack, data, groups):
            W, b = np.zeros((data.m, data.d)), np.zeros(data.m)
            for i, task in enumerate(data.tasks):
                on = train[stack.task == i]
                if not on.any():
                    return []
                one = _Stack.of([task])
                X, y = one.centred(on)
                W[i] = _ridge(X[on], y[on], one.weight[on], alphas[i], self.standardize)
                b[i] = one.levels(on, W[i])[0]
            out.append(FoldFit(W, b, stack.held_out(test, data.X.shape[0])))
        return out

    def _one(self, task: Task, data: TaskData, groups: np.ndarray | None) -> tuple[Floats, float]:
        """The coefficients, and the strength of the penalty (inf: all of them are 0)."""
        stack = _Stack.of([task])
        if groups is not None:
            few = len(np.unique(groups[task.rows])) < 2
            folds = [] if few else _folds(self, stack, data, groups)
            w = _chosen(stack, _ridge_path(self.standardize), folds)[0]
            X, y = stack.centred(np.ones(len(stack.y), dtype=bool))
            scales = _scales(X, stack.weight, self.standardize)
            # the strength of a ridge is what its gradient says: alpha w = Z'(y - Z w)
            z = (X / scales).T @ (stack.weight * (y - X @ w))
            u = np.where(np.isfinite(scales), w * scales, 0.0)
            return w, float(z @ u / (u @ u)) if u.any() else np.inf
        X, y = stack.centred(np.ones(len(stack.y), dtype=bool))
        scales = _scales(X, stack.weight, self.standardize)
        Z = X / scales
        size = float((Z**2).sum()) / X.shape[1]
        if size == 0.0 or not y.any() or len(y) < 3:
            return np.zeros(X.shape[1]), np.inf
        w, alpha = _left_out_ridge(Z, y, stack.weight, ALPHAS * size)
        return np.asarray(w / scales), alpha


class PooledRidgeCV(_Linear):
    """One ridge regression for all tasks, each with its own intercept.

    This model takes dense data only.

    Parameters
    ----------
    cv : int, default=5
        Number of folds, which are stratified by task; with a 2-D y a sample is held out in
        all tasks at once.
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
    coef_ : ndarray of shape (m, d)
        Coefficients of every task in the data's units; (d,) if the model was fitted without
        tasks.
    intercept_ : ndarray of shape (m,)
        Intercepts of the tasks; a float if the model was fitted without tasks.
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
    target_mean_ : ndarray of shape (m,)
        Mean of the training targets of every task.
    target_sd_ : ndarray of shape (m,)
        Standard deviation of the training targets of every task.
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
    >>> from msmtfl.baselines import PooledRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((60, 4)), np.repeat(["north", "south"], 30)
    >>> y = 2 * X[:, 0] + np.where(task == "north", 3, 5) + 0.1 * rng.standard_normal(60)
    >>> model = PooledRidgeCV().fit(X, y, task=task)
    >>> model.coef_[:, 0].round(1), model.intercept_.round()
    (array([2., 2.]), array([3., 5.]))
    """

    def __init__(self, *, cv=5, task_column=None, standardize=False, unknown_task="error", random_state=0):
        self.cv = cv
        self.task_column = task_column
        self.standardize = standardize
        self.unknown_task = unknown_task
        self.random_state = random_state

    def _coefs(self, data: TaskData, groups: np.ndarray | None) -> tuple[Floats, list[FoldFit]]:
        stack, records = _Stack.of(data.tasks), _records(self.cv)
        folds = _folds(self, stack, data, groups)
        w, without, tried = _chosen(stack, _ridge_path(self.standardize), folds, records)
        self._keep(tried)
        return np.tile(w, (data.m, 1)), _pooled_fits(stack, data, folds, without)

    def _takes_folds(self, n_classes: int) -> bool:
        return True


class PooledLassoCV(_Linear):
    """One lasso for all tasks, each with its own intercept.

    This model takes dense data only.

    Parameters
    ----------
    cv : int, default=5
        Number of folds, which are stratified by task; with a 2-D y a sample is held out in
        all tasks at once.
    lams : int or array-like of shape (K,), default=50
        How many strengths of the penalty are tried, or the values themselves.
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
    coef_ : ndarray of shape (m, d)
        Coefficients of every task in the data's units; (d,) if the model was fitted without
        tasks.
    intercept_ : ndarray of shape (m,)
        Intercepts of the tasks; a float if the model was fitted without tasks.
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
    target_mean_ : ndarray of shape (m,)
        Mean of the training targets of every task.
    target_sd_ : ndarray of shape (m,)
        Standard deviation of the training targets of every task.
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
    >>> from msmtfl.baselines import PooledLassoCV
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((60, 4)), np.repeat(["north", "south"], 30)
    >>> y = 2 * X[:, 0] + np.where(task == "north", 3, 5) + 0.1 * rng.standard_normal(60)
    >>> model = PooledLassoCV().fit(X, y, task=task)
    >>> model.coef_[:, 0].round(1), model.intercept_.round()
    (array([2., 2.]), array([3., 5.]))
    """

    def __init__(self, *, cv=5, lams=50, task_column=None, standardize=False, unknown_task="error", random_state=0):
        self.cv = cv
        self.lams = lams
        self.task_column = task_column
        self.standardize = standardize
        self.unknown_task = unknown_task
        self.random_state = random_state

    def _coefs(self, data: TaskData, groups: np.ndarray | None) -> tuple[Floats, list[FoldFit]]:
        stack = _Stack.of(data.tasks)
        options: dict[str, Any] = {"thetas": [np.inf], "fit_intercept": False, "standardize": self.standardize}
        X, y = stack.centred(np.ones(len(stack.y), dtype=bool))
        records = _records(self.cv)
        if not y.any():
            for record, split in zip(records, self.cv if records else (), strict=True):
                record.keep(np.zeros((1, int(split.test[stack.row].sum()))))
            self._keep(_what_was_tried(records, [np.zeros(1)] * len(records), [0.0], 0))
            folds = _folds(self, stack, data, groups)
            return np.zeros((data.m, data.d)), _pooled_fits(stack, data, folds, [np.zeros(data.d)] * len(folds))
        lams = regularization_surface(X, y, lams=self.lams, sample_weight=stack.weight, **options).lams

        def path(X: Floats, y: Floats, weight: Floats) -> Floats:
            surface = regularization_surface(X, y, lams=lams, sample_weight=weight, **options)
            return np.array([surface.coef(k, 0)[0] for k in range(len(lams))]).T

        folds = _folds(self, stack, data, groups)
        w, without, tried = _chosen(stack, path, folds, records)
        self._keep(tried)
        return np.tile(w, (data.m, 1)), _pooled_fits(stack, data, folds, without)

    def _takes_folds(self, n_classes: int) -> bool:
        return True


# ------------------------------------------------------------------ classes


class _Logistic(_Baseline, MultiTaskClassifier):
    """A baseline for classes says how it makes coefficients (m, d) and intercepts (m,) of tasks with targets 0 and 1
    (`_binary`), given folds as pairs of rows; with K > 2 classes it is asked for each against the rest."""

    def _binary(self, data: TaskData, folds: list[tuple[np.ndarray, np.ndarray]]) -> Solved:
        raise NotImplementedError

    def _as_fitted(self, data: TaskData) -> TaskData:
        return one_against_rest(data, self.classes_)

    def _scores(self, data: TaskData, without: list[FoldFit], groups: np.ndarray | None) -> HeldOutScores:
        return held_out_scores(self._as_fitted(data), without, Logistic(), classes=True, groups=groups)

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
    stack = _Stack.of(tasks)

    def path(on: np.ndarray) -> tuple[Floats, Floats, Floats]:
        X, _ = stack.centred(on)
        scales = _scales(X[on], stack.weight[on], standardize)
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
            of_folds.append(_told(records, f, losses, stack.weight[test]))
            total += stack.weight[test].sum() * of_folds[-1]
    _, W, b = path(np.ones(len(stack.y), dtype=bool))
    best = int(np.argmin(total))
    means = np.array([_means(task.X, task.y, task.weight)[0] for task in tasks])
    tried = _what_was_tried(records, of_folds, np.count_nonzero(W, axis=1), best)
    without = []
    for V, c, train in paths:
        centres = np.array([stack._mean_over(i, train)[0] for i in range(len(tasks))])
        without.append((V[best], c[best] - centres @ V[best]))
    return W[best], b[best] - means @ W[best], without, tried


def _with_pseudo_samples(
    stack: _Stack, X: Floats, on: np.ndarray, given: tuple[Floats, Floats, Floats, np.ndarray, Floats]
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


class LogisticPerTaskCV(_Logistic):
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


class PooledLogisticCV(_Logistic):
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
        records = _records(self.cv) if len(self.classes_) == 2 else []
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
        stack = _Stack.of(tasks)
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
