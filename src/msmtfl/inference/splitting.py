"""Intervals of coefficients that hold although features were selected: one half of the samples selects, the other half,
which had no part in that, estimates (Cox 1975, Biometrika 62; Wasserman and Roeder 2009, Annals of Statistics 37)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.special import stdtr, stdtrit
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from .._data.designs import Floats, Ints
from .._data.tables import warn_user
from .._estimators.fitted import loss_of, require_offset
from .._objective.losses import LOGISTIC
from .._objective.problem import Problem
from .._paths.discoveries import benjamini_hochberg
from .._runtime.checks import check_level
from .._runtime.progress import one_blas_thread
from .._runtime.text.cards import Card
from .common import (
    Samples,
    checked_model,
    dense_rows,
    draw_halves,
    to_pandas,
)
from .loss_intervals import DEPENDENT, FEW, TIED, intervals_within

SHOWN = 20  # entries in a print-out


@dataclass(frozen=True, eq=False, repr=False)
class SplitIntervals(Card):
    """Intervals of least-squares coefficients, from samples that had no part in the selection of their features.

    There are two splits: in split 1 one half of every task's samples selects and the other one estimates;
    in split 2 they change places. They are two answers, each of them valid by itself: they are not to be
    averaged, nor is the better one to be picked.

    Attributes
    ----------
    estimate : ndarray of shape (2, m, d)
        Coefficients without a penalty of the features selected in a task, per split: least squares or, under
        another loss, those that minimise it (log odds, logarithms of rates or of hazards); NaN where a feature
        is not selected, or where there is no interval.
    lower : ndarray of shape (2, m, d)
        Lower ends of the intervals.
    upper : ndarray of shape (2, m, d)
        Upper ends of the intervals.
    p_value : ndarray of shape (2, m, d)
        Of the test that this coefficient, within the features selected, is 0.
    p_adjusted : ndarray of shape (2, m, d)
        p-values adjusted by Benjamini and Hochberg over all entries (task, feature) of a split: those of at
        most 0.1 have a false discovery rate of 0.1 among the entries selected.
    support : ndarray of bool of shape (2, m, d)
        The entries (task, feature) that were selected, on the other half.
    n_estimating : ndarray of int of shape (2, m)
        Number of samples that estimate.
    without : tuple of str
        Tasks without intervals, and why, in words.
    level : float
        The probability that an interval is to cover.
    tasks : ndarray of shape (m,)
        Labels of the tasks, in the order of the second axis of `estimate`.
    features : ndarray of shape (d,)
        Names of the features, in the order of the third axis of `estimate`.
    loss : str, default="squared"
        The name of the loss that estimates minimise.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFLCV
    >>> from msmtfl.inference import split_intervals
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((180, 8)), np.tile(["north", "south", "west"], 60)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(180)
    >>> found = split_intervals(MSMTFLCV(), X, y, task=task)
    >>> bool((found.lower[:, :, 0] < 2).all() and (found.upper[:, :, 0] > 2).all())
    True
    """

    estimate: Floats
    lower: Floats
    upper: Floats
    p_value: Floats
    p_adjusted: Floats
    support: np.ndarray
    n_estimating: Ints
    without: tuple[str, ...]
    level: float
    tasks: np.ndarray
    features: np.ndarray
    loss: str = "squared"

    def to_frame(self) -> Any:
        """Return a pandas table with one line per interval: an entry (task, feature) that both halves select has two.

        Returns
        -------
        DataFrame
            The columns are task, feature, split (1 or 2), estimate, lower, upper, p_value, and p_adjusted (by
            Benjamini and Hochberg over the entries of the split). The lines of an entry stand together.
        """
        i, j, split = np.nonzero(np.isfinite(self.estimate).transpose(1, 2, 0))
        columns = {
            "estimate": self.estimate,
            "lower": self.lower,
            "upper": self.upper,
            "p_value": self.p_value,
            "p_adjusted": self.p_adjusted,
        }
        names = {"task": self.tasks[i], "feature": self.features[j], "split": split + 1}
        return to_pandas(names | {name: values[split, i, j] for name, values in columns.items()})

    def __repr__(self) -> str:
        known = np.isfinite(self.estimate)
        counts = known.sum(axis=(1, 2))
        what = (
            "the least-squares coefficient" if self.loss == "squared" else f"the coefficient ({self.loss}, no penalty)"
        )
        lines = [
            f"{100 * self.level:g} % intervals of coefficients: {counts[0]} in split 1, {counts[1]} in split 2",
            f"covered: {what} of a feature within the features selected in its task, on samples that",
            "had no part in the selection. It is not 0 where a feature stands in for one that was not selected. Nothing is",
            "said of features that were not selected. The splits are two answers, each valid by itself:",
            "do not average them, and do not pick the better one.",
        ]
        entries = np.argwhere(known.any(axis=0))
        if len(entries):
            width = max(len(self._named(i, j)) for i, j in entries[:SHOWN])
            lines.append(f"{'':{width}}  {'split 1':^24}  {'split 2':^24}".rstrip())
            lines += [
                f"{self._named(i, j):{width}}  {self._shown(0, i, j):^24}  {self._shown(1, i, j):^24}".rstrip()
                for i, j in entries[:SHOWN]
            ]
            if len(entries) > SHOWN:
                lines.append(f"... {len(entries)} entries in all: to_frame() has them")
        return "\n".join([*lines, *self.without])

    def _named(self, i: int, j: int) -> str:
        return f"{self.tasks[i]}: {self.features[j]}"

    def _shown(self, split: int, i: int, j: int) -> str:
        if not self.support[split, i, j]:
            return "not selected"
        if np.isnan(self.estimate[split, i, j]):
            return "no interval"
        ends = f"[{self.lower[split, i, j]:.3g}, {self.upper[split, i, j]:.3g}]"
        return f"{self.estimate[split, i, j]:.3g} {ends}"


def split_intervals(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    level: float = 0.95,
    sample_weight: Any = None,
    offset: Any = None,
    groups: Any = None,
    random_state: Any = 0,
) -> SplitIntervals:
    """Compute intervals of coefficients that hold after features were selected, by splitting the samples.

    A clone of the estimator is fitted to a random half of every task's samples, which selects features; a CV
    estimator chooses its parameters on that half, too. On the other half the coefficients of the features
    selected in a task (and its intercept) are estimated without a penalty, by least squares or by what
    minimises the model's loss, with intervals of Student's t of n - k degrees of freedom, k being the number
    of coefficients. Then the halves change places. Both results are shown side by side; they are never averaged.

    What an interval covers is the coefficient **within the features selected in that task**:
    the effect given the other selected features, not given all of them. It holds for features without
    effect, too, whichever way they were selected; but the coefficient covered is not 0 where such a feature is
    correlated with one that matters and was not selected, for which it stands in. A small p-value says that
    the feature tells something beside the selected ones. With squared loss it is supposed that the noise of a
    task has the same variance everywhere (with weights: inversely proportional to them), and about normal noise
    where there are few samples. Under other losses nothing is supposed of the variance (standard errors are
    those of the sandwich, HC3), but there have to be some more samples; with loss="cox" the hazards are to be
    proportional, and standard errors are those of the partial likelihood.

    Parameters
    ----------
    estimator : estimator
        MSMTFL, LassoMTL, L12MTL, DirtyMTL, SharedMTL, the CV class or the classifier of one of them, with any
        loss; of two classes. It need not be fitted.
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
        Labels of groups: samples of one group (a patient, a speaker) stay in one half, and in one fold of
        a CV model. Intervals take the samples of a group as independent all the same.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that draws the halves.

    Returns
    -------
    SplitIntervals
        The estimates and intervals of both splits.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import LassoMTL
    >>> from msmtfl.inference import split_intervals
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((160, 20)), np.tile(["north", "south"], 80)
    >>> y = 2 * X[:, 0] - X[:, 3] + rng.standard_normal(160)
    >>> found = split_intervals(LassoMTL(lam=0.5), X, y, task=task).to_frame()
    >>> found[["task", "feature", "split", "lower", "upper"]].head(4).round(1)
        task feature  split  lower  upper
    0  north      x0      1    1.7    2.4
    1  north      x0      2    1.8    2.5
    2  north      x3      1   -1.3   -0.6
    3  north      x3      2   -1.3   -0.7
    """
    estimator = checked_model(estimator, None, False, classes=True)
    require_offset(estimator, offset)
    check_level(level)
    with one_blas_thread():
        problem = clone(estimator)._make_problem(X, y, task, sample_weight, offset)
        data = problem.data
        if data.classes > 1:
            raise ValueError(
                f"there are {data.classes} classes, and a coefficient for each. Intervals are of two classes: ask about one "
                "class against the rest, y == label."
            )
        samples = Samples.read(estimator, X, y, task, sample_weight, groups, offset)
        halves = draw_halves(data, groups, 1, check_random_state(random_state), problem.loss)
        shape = (2, data.m, data.d)
        estimate, lower, upper, p_value, p_adjusted = np.full((5, *shape), np.nan)
        support, n_estimating = np.zeros(shape, dtype=bool), np.zeros(shape[:2], dtype=np.intp)
        lost: dict[str, list[str]] = {}
        for split, half in enumerate(halves):
            support[split] = np.atleast_2d(samples.fit(estimator, half).coef_) != 0.0
            n_estimating[split] = [np.count_nonzero(~half[of_task.rows]) for of_task in data.tasks]
            parts = _least_squares if problem.loss.squared else intervals_within
            for i, found in enumerate(parts(problem, ~half, support[split], level, bool(estimator.fit_intercept))):
                S = np.flatnonzero(support[split, i])
                if isinstance(found, str):
                    lost.setdefault(found, []).append(f"{data.labels.tolist()[i]!r} (split {split + 1})")
                else:
                    estimate[split, i, S], lower[split, i, S], upper[split, i, S], p_value[split, i, S] = found
            p_adjusted[split] = benjamini_hochberg(p_value[split])
    without = tuple(f"no intervals for task(s) {', '.join(of)}: {why}." for why, of in lost.items())
    for words in without:
        warn_user(words)
    if not support.any():
        without = ("no half selects any feature: there is nothing to estimate. A smaller lam selects more.",)
    return SplitIntervals(
        estimate=estimate,
        lower=lower,
        upper=upper,
        p_value=p_value,
        p_adjusted=p_adjusted,
        support=support,
        n_estimating=n_estimating,
        without=without,
        level=float(level),
        tasks=data.labels,
        features=data.features,
        loss=LOGISTIC if is_classifier(estimator) else loss_of(estimator),
    )


def _least_squares(
    problem: Problem, keep: np.ndarray, support: np.ndarray, level: float, centre: bool
) -> Iterator[Floats | str]:
    """As `intervals_within`, of the squared loss."""
    for of_task, used in zip(problem.data.tasks, support, strict=True):
        rows = dense_rows(of_task, np.flatnonzero(keep[of_task.rows]), np.flatnonzero(used), centre)
        yield least_squares_intervals(*rows, level, int(centre), half=True)


def least_squares_intervals(X: Floats, y: Floats, level: float, more: int, half: bool = False) -> Floats | str:
    """(4, k): estimates, ends of their intervals and p-values, `more` coefficients having been fitted besides; or, in words
    about a task, of which these are all samples or half of them, why there are none."""
    n, k = X.shape
    if k == 0:
        return np.empty((4, 0))
    degrees = n - k - more
    if degrees < 1:
        if half:
            return FEW
        return "its samples are no more than its features (and the intercept)"
    length = np.linalg.norm(X, axis=0)
    length[length == 0.0] = 1.0
    Q, R, order = qr(X / length, mode="economic", pivoting=True)
    if abs(R[-1, -1]) <= DEPENDENT * max(abs(R[0, 0]), 1.0):
        return TIED if half else "its features are linearly dependent, or one is constant"
    start = Q.T @ y
    inverse = solve_triangular(R, np.eye(k))
    estimate, spread = np.empty(k), np.empty(k)
    estimate[order], spread[order] = inverse @ start, np.linalg.norm(inverse, axis=1)
    estimate, spread = estimate / length, spread / length
    error = spread * np.sqrt(max(y @ y - start @ start, 0.0) / degrees)
    reach = stdtrit(degrees, 0.5 + level / 2) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2.0 * stdtr(degrees, -np.abs(estimate) / error)
    return np.array([estimate, estimate - reach, estimate + reach, np.nan_to_num(p, nan=1.0)])
