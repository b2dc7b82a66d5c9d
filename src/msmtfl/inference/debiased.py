"""Intervals of all coefficients, those that a model set to 0 as well: the shrinkage of a sparse model is taken back, one
coefficient after the other.

With z_j what is left of column x_j after a lasso on the other columns, r = y - Xw the residual of the model, and df the
number of its coefficients that are not 0 (and its intercept),

    b_j = w_j + z_j'r / (z_j'x_j (1 - df/n)),    standard error  |r| / sqrt(n) |z_j| / (|z_j'x_j| (1 - df/n))

That is the desparsified lasso (Zhang and Zhang 2014, JRSS-B 76; van de Geer, Buehlmann, Ritov and Dezeure 2014, Annals of
Statistics 42) with the adjustment for degrees of freedom (Bellec and Zhang 2022, Bernoulli 28). Where a task has twice as
many samples as features z_j is what least squares leave of x_j, and b is least squares, exactly, whatever w is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.base import clone

from .._data.designs import Floats
from .._data.tables import names_of, warn_user
from .._data.tasks import read_training
from .._estimators.families import family_of
from .._estimators.fitted import require_offset
from .._paths.discoveries import benjamini_hochberg
from .._runtime.checks import check_level
from .._runtime.progress import one_blas_thread
from .._runtime.text.cards import Card
from .._solvers.problems.make_problem import make_problem
from .._solvers.task_lassos import lassos_for
from .common import (
    check_squared,
    checked_model,
    dense_rows,
    entries_table,
)
from .splitting import least_squares_intervals

MANY_SAMPLES = 2.0  # samples per feature from which least squares are taken: their intervals are exact
# The strength of the nodewise lassos in units of sqrt(2 log d / n), for columns of variance 1: smaller ones give wider
# intervals, larger ones cover active entries too rarely where columns are correlated. With 0.3 intervals are a sixth
# narrower, and cover 88 to 89 % of these at n = d/2 and correlations of 0.8; with 0.15 they cover 92 %
# (python benchmarks/studies/interval_coverage.py --nodewise 0.3 --only debiased).
NODEWISE = 0.15
CROWDED = 0.9  # share of its samples that a task's model may have as coefficients


@dataclass(frozen=True, eq=False, repr=False)
class DebiasedIntervals(Card):
    """Intervals of the coefficients of all features in all tasks, given all other features.

    Attributes
    ----------
    coef : ndarray of shape (m, d)
        The model's own coefficients, which its penalty shrinks; NaN in tasks that needed no model.
    estimate : ndarray of shape (m, d)
        The coefficients without shrinkage; NaN where there is no interval.
    lower : ndarray of shape (m, d)
        Lower ends of the intervals.
    upper : ndarray of shape (m, d)
        Upper ends of the intervals.
    p_value : ndarray of shape (m, d)
        Of the test that the coefficient is 0.
    p_adjusted : ndarray of shape (m, d)
        p-values adjusted by Benjamini and Hochberg over all entries (task, feature).
    exact : ndarray of bool of shape (m,)
        Whether a task's intervals are those of least squares on all features, which are exact for normal
        noise; elsewhere they hold about, for a model that is sparse.
    without : tuple of str
        Tasks without intervals, and why, in words.
    level : float
        The probability that an interval is to cover.
    tasks : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `estimate`.
    features : ndarray of shape (d,)
        Names of the features, in the order of the second axis of `estimate`.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFLCV
    >>> from msmtfl.inference import debiased_intervals
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 40)), np.tile(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(90)
    >>> found = debiased_intervals(MSMTFLCV(), X, y, task=task)
    >>> found.estimate[:, 0].round(1), found.exact
    (array([1.9, 1.9, 1.9]), array([False, False, False]))
    """

    coef: Floats
    estimate: Floats
    lower: Floats
    upper: Floats
    p_value: Floats
    p_adjusted: Floats
    exact: np.ndarray
    without: tuple[str, ...]
    level: float
    tasks: np.ndarray
    features: np.ndarray

    def to_frame(self) -> Any:
        """Return a pandas table with one line per entry (task, feature) that has an interval, task outermost.

        Returns
        -------
        DataFrame
            The columns are task, feature, coef (the model's), estimate, lower, upper, p_value, and p_adjusted
            (by Benjamini and Hochberg over all entries).
        """
        values = {"lower": self.lower, "upper": self.upper, "p_value": self.p_value, "p_adjusted": self.p_adjusted}
        return entries_table(self, np.isfinite(self.estimate), coef=self.coef, estimate=self.estimate, **values)

    def __repr__(self) -> str:
        known, level = np.isfinite(self.estimate), f"{100 * self.level:g} %"
        away = int((known & ((self.lower > 0.0) | (self.upper < 0.0))).sum())
        lines = [
            f"{level} intervals of {int(known.sum())} coefficients (task, feature), {away} of which exclude 0",
            "covered: the coefficient of a feature given all other features, each interval by itself. Of entries without "
            f"effect {100 - 100 * self.level:.3g} % exclude 0:",
            f"p_adjusted (Benjamini-Hochberg over entries) is at most 0.1 for {int((self.p_adjusted <= 0.1).sum())}.",
        ]
        if self.exact.any():
            lines.append(
                f"Least squares on all features, exact for normal noise: task(s) {names_of(self.tasks[self.exact])}."
            )
        about = ~self.exact & known.any(axis=1)
        if about.any():
            lines.append(
                "About right on average over entries, if few features matter and none is nearly a combination of others: "
                f"task(s) {names_of(self.tasks[about])}."
            )
        return "\n".join([*lines, *self.without])


def debiased_intervals(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    level: float = 0.95,
    sample_weight: Any = None,
    offset: Any = None,
    groups: Any = None,
) -> DebiasedIntervals:
    """Compute intervals of all coefficients, given all other features, on the samples of the fit.

    A clone of the estimator is fitted, and the shrinkage of its coefficients taken back one by one (the
    desparsified lasso, with an adjustment for degrees of freedom). No selection takes place, so there is none
    to be accounted for: every entry (task, feature) has an interval, and may be asked about in advance. Where
    a task has at least twice as many samples as features, its intervals are those of least squares on all
    features, and exact for normal noise. Elsewhere they hold about, and on average over entries: if few
    features matter in the task, and columns are not nearly combinations of each other.

    Parameters
    ----------
    estimator : estimator
        MSMTFL, LassoMTL, L12MTL, DirtyMTL, SharedMTL or the CV class of one of them, with squared loss. It
        need not be fitted. The better it fits, the shorter the intervals.
    X : DataFrame, ndarray or sparse matrix of shape (N, d)
        Samples of all tasks. A table or an array may have a column that identifies the task
        (see `task_column`).
    y : array-like of shape (N,) or (N, m)
        Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
        means not measured.
    task : array-like of shape (N,), optional
        The label of the task of every sample, if the tasks are not a column of X.
    level : float, default=0.95
        The probability that an interval is to cover.
    sample_weight : array-like of shape (N,) or (N, m), optional
        Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
    offset : array-like of shape (N,) or (N, m), optional
        A known part of the linear predictor, as `fit` takes it; a model that was fitted with one needs it.
    groups : array-like of shape (N,), optional
        Labels of groups: samples of one group (a patient, a speaker) stay in one fold of a CV model.
        Intervals take the samples of a group as independent all the same.

    Returns
    -------
    DebiasedIntervals
        The estimates and their intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import LassoMTL
    >>> from msmtfl.inference import debiased_intervals
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((160, 20)), np.tile(["north", "south"], 80)
    >>> y = 2 * X[:, 0] - X[:, 3] + rng.standard_normal(160)
    >>> found = debiased_intervals(LassoMTL(lam=0.5), X, y, task=task)
    >>> found.lower[:, [0, 3]].round(1).tolist(), found.upper[:, [0, 3]].round(1).tolist()
    ([[1.8, -1.2], [1.8, -1.2]], [[2.3, -0.7], [2.3, -0.6]])
    """
    estimator = checked_model(estimator, None, False)
    require_offset(estimator, offset)
    check_squared(estimator)
    check_level(level)
    with one_blas_thread():
        model = clone(estimator)
        problem = model._make_problem(X, y, task, sample_weight, offset)
        data, inside = problem.data, problem.learnable & np.isfinite(problem.given_factors.T)
        rows = np.array([len(of_task.y) for of_task in data.tasks])
        exact = rows >= MANY_SAMPLES * np.maximum(inside.sum(axis=1), 1)
        W = np.full((data.m, data.d), np.nan)
        if not exact.all():
            in_folds = {"groups": groups} if groups is not None and family_of(model).is_search(model) else {}
            known = {"task": task, "sample_weight": sample_weight, "offset": offset, **in_folds}
            W = np.atleast_2d(model.fit(X, y, **known).coef_).copy()
            W[exact] = np.nan
        estimate, lower, upper, p_value = np.full((4, data.m, data.d), np.nan)
        left: dict[Any, tuple[Floats, Floats]] = {}  # tasks on the same rows share what is left of their columns
        lost: dict[str, list[Any]] = {}
        centre = bool(estimator.fit_intercept)
        for i, of_task in enumerate(data.tasks):
            S = np.flatnonzero(inside[i])
            if S.size == 0:
                lost.setdefault("no feature varies in it", []).append(of_task.label)
                continue
            Xi, yi = dense_rows(of_task, np.arange(rows[i]), S, centre)
            if exact[i]:
                found = least_squares_intervals(Xi, yi, level, int(centre))
            else:
                key = (id(of_task.X), id(of_task.weight), S.tobytes())
                if key not in left:
                    left[key] = nodewise(Xi)
                found = debiased(Xi, yi, W[i, S], left[key], level, int(centre))
            if isinstance(found, str):
                lost.setdefault(found, []).append(of_task.label)
            else:
                estimate[i, S], lower[i, S], upper[i, S], p_value[i, S] = found
    without = tuple(f"no intervals for task(s) {names_of(of)}: {why}." for why, of in lost.items())
    for words in without:
        warn_user(words)
    return DebiasedIntervals(
        coef=W,
        estimate=estimate,
        lower=lower,
        upper=upper,
        p_value=p_value,
        p_adjusted=benjamini_hochberg(p_value),
        exact=exact & np.isfinite(estimate).any(axis=1),
        without=without,
        level=float(level),
        tasks=data.labels,
        features=data.features,
    )


def nodewise(X: Floats) -> tuple[Floats, Floats]:
    """(n, k) and (k,): what lassos on the other columns leave of every column of X, and its products with that column. The
    columns are the targets of as many tasks that share X, and so one Gram matrix."""
    n, k = X.shape
    sizes = np.sqrt((X**2).sum(axis=0) / n)
    unit = X / sizes
    problem = make_problem(read_training(unit, unit.copy()), fit_intercept=False, standardize=False, positive=False)
    weights = np.full((k, k), NODEWISE * np.sqrt(2.0 * n * np.log(max(k, 2))))
    np.fill_diagonal(weights, np.inf)  # a column has no part in its own regression
    W, _ = lassos_for(problem).solve(weights)
    Z = unit - unit @ W.T
    return Z, (Z * unit).sum(axis=0) * sizes


def debiased(X: Floats, y: Floats, w: Floats, left: tuple[Floats, Floats], level: float, more: int) -> Floats | str:
    """(4, k): estimates, ends of their intervals and p-values, `more` coefficients having been fitted besides w; or, in
    words, why there are none."""
    n, (Z, product) = len(y), left
    degrees = np.count_nonzero(w) + more
    if degrees >= CROWDED * n:
        return (
            f"the model has about as many coefficients ({degrees}) as the task has samples. A larger lam selects fewer"
        )
    r, share = y - X @ w, 1.0 - degrees / n
    size = np.linalg.norm(Z, axis=0)
    known = product > np.finfo(float).eps * n
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = np.where(known, w + Z.T @ r / (product * share), np.nan)
        error = np.linalg.norm(r) / np.sqrt(n) * size / (np.abs(product) * share)
        reach = student.ppf(0.5 + level / 2, n - degrees) * error
        p = 2.0 * student.sf(np.abs(estimate) / error, n - degrees)
    return np.array([estimate, estimate - reach, estimate + reach, np.where(known, p, np.nan)])
