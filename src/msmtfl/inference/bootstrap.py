"""How far the least-squares refit of the entries selected moves when samples are drawn anew: percentiles over bootstrap
resamples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._data.designs import Floats, Ints
from .._data.forms.dense import RowTask
from .._data.tables import names_of, warn_user
from .._estimators.fitted import require_offset
from .._runtime.checks import check_count, check_level
from .._runtime.progress import Progress, one_blas_thread
from .._runtime.text.cards import Card
from .._runtime.threads import each
from .._solvers.lassos.weighted_lasso import least_squares_on
from .._solvers.task_lassos import lassos_for
from .common import check_squared, checked_model, entries_table

AT_ONCE = 2**22  # numbers in the largest arrays of the bootstrap
DEPENDENT = 1e-10  # share of the largest pivot, or eigenvalue of a resample, at which columns are linearly dependent
ENOUGH = 0.5  # share of a task's resamples that must determine its coefficients


@dataclass(frozen=True, eq=False, repr=False)
class Intervals(Card):
    """Bootstrap intervals of least-squares coefficients of the features that a model selected.

    Attributes
    ----------
    coef : ndarray of shape (m, d)
        The model's own coefficients, which its penalty shrinks (0 where a feature is not selected).
    estimate : ndarray of shape (m, d)
        Another number: least squares on the features selected (0 elsewhere). `coef` may well lie outside
        its interval.
    lower : ndarray of shape (m, d)
        Lower end of the interval of `estimate`; NaN where there is none.
    upper : ndarray of shape (m, d)
        Upper end of that interval.
    support : ndarray of bool of shape (m, d)
        The entries (task, feature) that the model selected.
    same_rows : bool
        Whether these are the samples that the model was fitted to, by their number, mean and variance in
        every task.
    n_used : ndarray of shape (m,)
        Number of resamples that determine a task's coefficients; the others are left out.
    level : float
        The probability that an interval is to cover.
    n_boot : int
        Number of resamples.
    tasks : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `estimate`.
    features : ndarray of shape (d,)
        Names of the features, in the order of the second axis of `estimate`.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL, bootstrap_intervals
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((180, 8)), np.tile(["north", "south", "west"], 60)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(180)
    >>> model = MSMTFL(0.2, 1.5).fit(X[:90], y[:90], task=task[:90])
    >>> found = bootstrap_intervals(model, X[90:], y[90:], task=task[90:], n_boot=100)
    >>> found.lower[:, 0].round(1), found.upper[:, 0].round(1), found.same_rows
    (array([1.7, 1.8, 1.8]), array([2. , 2.1, 2.2]), False)
    """

    coef: Floats
    estimate: Floats
    lower: Floats
    upper: Floats
    support: np.ndarray
    same_rows: bool
    n_used: Ints
    level: float
    n_boot: int
    tasks: np.ndarray
    features: np.ndarray

    def to_frame(self) -> Any:
        """Return a pandas table with one line per selected entry (task, feature), task outermost.

        Returns
        -------
        DataFrame
            The columns are task, feature, coef (the model's), estimate (of the refit), lower, upper, and
            selected_on ("these rows" or "other rows": intervals are to be trusted on other samples only).
        """
        selected_on = np.full(self.coef.shape, "these rows" if self.same_rows else "other rows", dtype=object)
        ends = {"lower": self.lower, "upper": self.upper, "selected_on": selected_on}
        return entries_table(self, self.support, coef=self.coef, estimate=self.estimate, **ends)

    def __repr__(self) -> str:
        level = f"{100 * self.level:g} %"
        lines = [
            f"{level} intervals of {int(self.support.sum())} coefficients from {self.n_boot} resamples",
            "estimated: least squares on the features that the model selected in a task, not the model's own",
            "coefficients (coef), which may be shrunk. CONDITIONAL ON SELECTION: nothing is said of features left out.",
        ]
        if self.same_rows:
            lines += [
                "NOT INTERVALS FOR EFFECTS: these rows have selected the features. One without effect is selected where",
                f"it looks large by chance: fewer than {level} of such intervals cover 0, often far fewer. Take",
                "split_intervals: it selects on one half of the rows, and estimates on the other.",
            ]
        else:
            lines += [
                "The features were selected on other rows. If none of these had a part in that, an interval covers the",
                "coefficient of a regression on the features selected, about as often as it says if there are many rows.",
            ]
        return "\n".join(lines)


def bootstrap_intervals(
    model: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    sample_weight: Any = None,
    n_boot: int = 1000,
    level: float = 0.95,
    random_state: Any = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
    offset: Any = None,
) -> Intervals:
    """Compute intervals for least-squares coefficients of the features that a fitted model selected.

    The samples of every task are drawn anew with replacement, `n_boot` times, and the coefficients selected
    in the task (and its intercept) refitted by least squares; an interval reaches from the (1 - level) / 2
    to the (1 + level) / 2 quantile of the refits. What is estimated is this refit, not the model's own
    coefficient, which the penalty shrinks. On samples that had no part in the fit an interval covers the
    coefficient of the regression on the selected features, about as often as it says if there are many
    samples. **On the samples of the fit it does not**: features without effect were selected because they
    look large on these very samples, and too many of their intervals exclude 0; the result says so.
    :func:`split_intervals` is the tool where there are no other samples.

    Resamples in which the selected columns are linearly dependent are left out; a task that loses more than
    half of them so has no intervals (NaN), and a warning says so.

    Parameters
    ----------
    model : estimator
        A fitted model; the refit of one with ``positive=True`` or `bounds` is not constrained.
    X : DataFrame, ndarray or sparse matrix of shape (N, d)
        Samples of all tasks of the model in the form of the fit, better not those of the
        fit.
    y : array-like of shape (N,) or (N, m)
        Their targets.
    task : array-like of shape (N,), optional
        Their task labels, if the fit was given labels.
    sample_weight : array-like of shape (N,) or (N, m), optional
        Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
        A sample of weight 2 is two samples.
    n_boot : int, default=1000
        Number of resamples.
    level : float, default=0.95
        The probability that an interval is to cover.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that draws the resamples.
    n_jobs : int, optional
        Number of threads, which work on tasks side by side. The result does not depend on it.
    verbose : bool, default=False
        Whether to show a progress bar.
    offset : array-like of shape (N,) or (N, m), optional
        Their offsets, if the fit was given any.

    Returns
    -------
    Intervals
        The refitted coefficients and their intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL, bootstrap_intervals
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((180, 20)), np.tile(["north", "south", "west"], 60)
    >>> y = 2 * X[:, 0] - X[:, 3] + rng.standard_normal(180)
    >>> model = MSMTFL(theta="adaptive").fit(X[:90], y[:90], task=task[:90])  # selects on one half of the rows
    >>> intervals = bootstrap_intervals(model, X[90:], y[90:], task=task[90:])
    >>> intervals.lower[:, 0].round(1), intervals.upper[:, 0].round(1)
    (array([1.7, 1.6, 2. ]), array([2.4, 2.4, 2.6]))
    """
    model = checked_model(model, n_jobs, verbose)
    check_is_fitted(model, "coef_")
    require_offset(model, offset)
    check_squared(model)
    check_count("n_boot", n_boot)
    check_level(level)
    if n_boot < (least := ceil(round(2.0 / (1.0 - level), 6))):
        way_out = "Take a lower level, such as 0.99." if least > 10_000 else f"Better take {max(1000, 10 * least)}."
        raise ValueError(f"n_boot={n_boot} is too small for level={level}: at least {least} are needed. {way_out}")
    with one_blas_thread():
        problem = clone(model)._make_problem(X, y, task, sample_weight, offset)
        labels, features = problem.data.labels, problem.data.features
        for what, old, new in (("tasks", model.tasks_, labels), ("features", model.features_, features)):
            if not np.array_equal(old, new):
                both = f"fitted: {names_of(old)}; given: {names_of(new)}"
                raise ValueError(f"the {what} are not those of the fitted model ({both}). Pass data as to its fit.")
        W = np.atleast_2d(model.coef_)
        estimate = least_squares_on(lassos_for(replace(problem, positive=False, bounds=None, groups=None)), W)
        seeds = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=problem.m)
        with Progress(problem.m, "tasks", verbose) as progress:

            def resample(i: int) -> Floats:
                refits = _refits(problem.designs[i], np.flatnonzero(W[i]), n_boot, np.random.default_rng(seeds[i]))
                progress.step()
                return refits

            refits = each(resample, range(problem.m), n_jobs, progress.stop)
    ends = np.full((2, *W.shape), np.nan)
    n_used = np.array([len(of_task) for of_task in refits], dtype=np.intp)
    known = n_used >= ENOUGH * n_boot
    for i in np.flatnonzero(known):
        ends[:, i, W[i] != 0.0] = np.quantile(refits[i], [0.5 - level / 2, 0.5 + level / 2], axis=0)
    if not known.all():
        lost = names_of(labels[~known])
        warn_user(f"no intervals for task(s) {lost}: features linearly dependent, or too many for the rows. Raise lam.")
    return Intervals(
        coef=W,
        estimate=estimate,
        lower=ends[0],
        upper=ends[1],
        support=W != 0.0,
        same_rows=_same_rows(model, problem.data),
        n_used=n_used,
        level=float(level),
        n_boot=int(n_boot),
        tasks=labels,
        features=features,
    )


def _same_rows(model: Any, data: Any) -> bool:
    """Whether data are those of the fit: as many rows in every task, with the same means and variances of the target."""
    rows, mean, variance = np.array([(target.rows, target.mean, target.variance) for target in data.targets]).T
    close = np.isclose(mean, model.target_mean_, rtol=1e-9) & np.isclose(np.sqrt(variance), model.target_sd_, rtol=1e-9)
    return bool((close & (rows == model.n_samples_)).all())


def _refits(design: RowTask, support: Ints, n_boot: int, random: np.random.Generator) -> Floats:
    """(resamples used, |support|): coefficients of the refits; no resamples if all rows do not determine them.

    With Z = [X_S, 1] (rows times the roots of their weights) and Z = QR, the refit on rows drawn c times is
    R^-1 (Q'y + M^-1 Q'C e), M = Q'CQ, C = diag(c), e the residual on all rows. M is near 1, however Z is conditioned.
    """
    if len(support) == 0:
        return np.empty((n_boot, 0))
    Z = np.column_stack([design.columns(support), *([design.rows.u] if design.rows.centre else [])])
    length = np.maximum(np.linalg.norm(Z, axis=0), np.finfo(float).tiny)
    Q, R, order = qr(Z / length, mode="economic", pivoting=True)
    if Z.shape[1] >= len(Z) or abs(R[-1, -1]) <= DEPENDENT * abs(R[0, 0]):
        return np.empty((0, len(support)))
    start = Q.T @ design.target
    eQ, (n, q) = (design.target - Q @ start)[:, None] * Q, Q.shape
    low, high = np.triu_indices(q)
    blocks = np.array_split(np.arange(n), ceil(n * len(low) / AT_ONCE))
    at_once, turned = max(1, AT_ONCE // max(n, q * q)), []
    for begin in range(0, n_boot, at_once):
        drawn = random.integers(n, size=(min(at_once, n_boot - begin), n))
        places = (drawn + n * np.arange(len(drawn))[:, None]).ravel()
        counts = np.bincount(places, minlength=drawn.size).reshape(drawn.shape).astype(np.float64)
        M = np.empty((len(counts), q, q))
        M[:, low, high] = sum(counts[:, rows] @ (Q[rows][:, low] * Q[rows][:, high]) for rows in blocks)
        M[:, high, low] = M[:, low, high]
        fine = np.linalg.eigvalsh(M)[:, 0] > DEPENDENT
        turned.append(start + np.linalg.solve(M[fine], (counts[fine] @ eQ)[..., None])[..., 0])
    refits = solve_triangular(R, np.concatenate(turned).T).T / length[order]
    return refits[:, np.argsort(order)[: len(support)]]
