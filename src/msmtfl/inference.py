"""How sure a selection is: how often a cell (task, feature) is selected on halves of the rows (Shah and Samworth 2013,
JRSS-B 75, after Meinshausen and Buehlmann 2010, JRSS-B 72), and how far its coefficient moves when rows are drawn anew
(percentiles of the least-squares refit over bootstrap resamples).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .checks import check_count, check_flag, check_n_jobs
from .coupled import L12MTL, L12MTLCV, DirtyMTL, DirtyMTLCV, coupled_coef
from .designs import Floats, Ints, RowTask
from .gram import BUDGET
from .grids import point_of
from .lasso import Lassos, least_squares_on
from .linear import MultiTaskLinear, loss_of, model_chosen
from .model_selection import GridSearch
from .monitor import Progress, one_blas_thread
from .problem import Problem
from .shared import SharedMTL, SharedMTLCV, shared_coef
from .tables import names_of, read_groups, warn_user
from .tasks import TaskData
from .threads import count, each
from .walk import solve_surface

TRIES = 100  # to draw halves of the rows such that every task has some in both
AT_ONCE = 2**22  # numbers in the largest arrays of the bootstrap
DEPENDENT = 1e-10  # share of the largest pivot, or eigenvalue of a resample, at which columns are linearly dependent
ENOUGH = 0.5  # share of a task's resamples that must determine its coefficients


@dataclass(frozen=True, eq=False, repr=False)
class Stability:
    """How often each cell (task, feature) was selected over 2 n_pairs half-samples.

    Attributes
    ----------
    frequency, row_frequency : (m, d), (d,) share of the half-samples that select the cell; the feature in any task
    q : mean number of cells selected per half-sample, of the n_cells that are subject to selection
    n_cells : all cells but those of constant columns and those with a penalty factor of 0 or inf
    threshold, n_pairs, lam, theta : what was used; theta = inf is the lasso
    tasks, features : labels of the rows and names of the columns of `frequency`

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL, stability_selection
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(90)
    >>> found = stability_selection(MSMTFL(0.1, 1.5).fit(X, y, task=task), X, y, task=task, n_pairs=10)
    >>> np.flatnonzero(found.row_frequency == 1.0)
    array([0, 3])
    """

    frequency: Floats
    row_frequency: Floats
    q: float
    n_cells: int
    threshold: float
    n_pairs: int
    lam: float
    theta: float
    tasks: np.ndarray
    features: np.ndarray

    def selected(self, threshold: float | None = None) -> np.ndarray:
        """(m, d) bool: the cells whose frequency is at least the threshold."""
        return self.frequency >= (self.threshold if threshold is None else threshold)

    def error_bound(self, threshold: float | None = None) -> float:
        r"""A bound on the expected number of cells selected by accident.

        .. math::
            E \, |\{ (i, j) \text{ selected} : p_{ij} \le q / p \}| \le \frac{q^2}{(2 \tau - 1) \, p}

        with :math:`\tau` the threshold in (0.5, 1], p = `n_cells`, :math:`p_{ij}` the probability that half of the rows
        select the cell, and q as estimated. Nothing is assumed about features or model (no exchangeability), but what is
        counted are cells of low selection probability, not false ones as such: noise that goes along with a true
        feature may be selected often. Where noise cells are exchangeable and the model is no worse than guessing
        (Meinshausen and Buehlmann), they all have p_ij <= q / p, and false positives have the same bound.
        """
        tau = _checked_threshold(self.threshold if threshold is None else threshold)
        return self.q**2 / ((2.0 * tau - 1.0) * self.n_cells) if self.n_cells else 0.0

    def to_frame(self) -> Any:
        """A pandas table, one row per cell, task outer: task, feature, frequency, selected."""
        return _table(self, self.frequency >= 0.0, frequency=self.frequency, selected=self.selected())

    def __repr__(self) -> str:
        chosen = self.selected()
        return (
            f"{int(chosen.sum())} of {chosen.size} cells (task, feature) selected in at least {100 * self.threshold:g} % of "
            f"{2 * self.n_pairs} half-samples\nfeatures: {names_of(self.features[chosen.any(axis=0)]) or 'none'}\n"
            f"error bound: {self.error_bound():.2g} cells ({self.q:.1f} are selected per half-sample)"
        )


def stability_selection(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    n_pairs: int = 50,
    threshold: float = 0.75,
    random_state: Any = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Stability:
    """How often every (task, feature) is selected on random halves of the rows, with a bound on the errors.

    A clone of the estimator is fitted on all rows first, which settles lam and theta: all half-samples use its `lam_` and
    `theta_` (and start at 0, whatever `coef_init` says). Then `n_pairs` times the rows of every task are cut into two
    random halves, and the model is solved on both, as by :func:`regularization_surface`. A row of a 2-D y is in the same
    half for all tasks.

    Parameters
    ----------
    estimator : MSMTFL, LassoMTL, L12MTL, DirtyMTL, SharedMTL or their CV; if `error_bound` is too large to be of use,
        give it a larger lam (lam_s and lam_b, lam_common and lam_deviation)
    X, y, task, sample_weight : as for :meth:`MSMTFL.fit`
    groups : (N,) labels; rows of one group (a patient, a speaker) stay in one half, and in one fold of a CV model
    n_pairs, threshold : number of pairs of halves; frequency in (0.5, 1] from which a cell counts as selected
    random_state : int, RandomState or None
    n_jobs, verbose : threads over half-samples (the result does not depend on it); show a progress bar

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import LassoMTL, stability_selection
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 20)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(90)
    >>> stability_selection(LassoMTL(lam=0.2), X, y, task=task)
    6 of 60 cells (task, feature) selected in at least 75 % of 100 half-samples
    features: 'x0', 'x3'
    error bound: 1.7 cells (7.1 are selected per half-sample)
    """
    estimator = _checked(estimator, n_jobs, verbose)
    check_count("n_pairs", n_pairs)
    threshold = _checked_threshold(threshold)
    model = clone(estimator)
    groups_of_folds = {"groups": groups} if isinstance(model, GridSearch) else {}
    model.fit(X, y, task=task, sample_weight=sample_weight, **groups_of_folds)
    with one_blas_thread():
        problem = model._pose(X, y, task, sample_weight)
        halves = draw_halves(problem.data, groups, n_pairs, check_random_state(random_state))
        with Progress(2 * n_pairs, "half-samples", verbose) as progress:
            options = {"budget": BUDGET / (1 + count(n_jobs)), "tick": progress.step}
            parts = each(
                lambda keep: coef_on(model, problem.training(keep), **options) != 0.0, halves, n_jobs, progress.stop
            )
    cells, data, factors = np.array(parts), problem.data, problem.given_factors.T
    varying = np.array([design.squares > 0.0 for design in problem.designs])
    candidates = cells[:, varying & (factors > 0.0) & np.isfinite(factors)]
    frequency, row_frequency = cells.mean(axis=0), cells.any(axis=1).mean(axis=0)
    q, n_cells = float(candidates.sum(axis=1).mean()), candidates.shape[1]
    lam = next(float(getattr(model, name)) for name in ("lam_", "lam_b_", "lam_deviation_") if hasattr(model, name))
    theta = float(getattr(model, "theta_", np.inf))
    return Stability(frequency, row_frequency, q, n_cells, threshold, n_pairs, lam, theta, data.labels, data.features)


def coef_on(model: Any, part: Problem, **options: Any) -> Floats:
    """(m, d): the coefficients at a fitted model's setting on a part of the rows; options are those of `solve_surface`."""
    if isinstance(model, (L12MTL, L12MTLCV, DirtyMTL, DirtyMTLCV)):
        W = coupled_coef(model, part)
        options["tick"](1.0)
        return W
    if isinstance(model, (SharedMTL, SharedMTLCV)):
        W = shared_coef(model, part)
        options["tick"](1.0)
        return W
    return solve_surface(part, point_of(model), max_stages=getattr(model, "max_stages", 1), **options).coef(0, 0)


def draw_halves(data: TaskData, groups: Any, n_pairs: int, random: np.random.RandomState) -> list[np.ndarray]:
    """n_pairs random halves of the rows, (N,) bool, each followed by its complement; every task has rows in both.

    Rows (or groups) that belong to the same set of tasks are shuffled and dealt out in turn, set after set in random
    order. (Folds balanced with more care leave little to chance where such sets are small or groups differ in size.)
    """
    unit = np.arange(data.X.shape[0])
    if groups is not None:
        unit = np.unique(read_groups(groups, data.X.shape[0]), return_inverse=True)[1].ravel()
    sets = np.zeros((unit.max() + 1, data.m), dtype=bool)
    np.logical_or.at(sets, unit, data.membership)
    stratum = np.unique(sets, axis=0, return_inverse=True)[1].ravel()
    out: list[np.ndarray] = []
    for _ in range(TRIES * n_pairs):
        order = np.lexsort((random.permutation(len(sets)), random.permutation(stratum.max() + 1)[stratum]))
        half = np.argsort(order) % 2 == 0
        if (sets[half].any(axis=0) & sets[~half].any(axis=0)).all():
            out += [half[unit], ~half[unit]]
        if len(out) == 2 * n_pairs:
            return out
    i = int(np.argmin(sets.sum(axis=0)))
    size = f"{int(sets[:, i].sum())} {'row' if groups is None else 'group'}(s)"
    raise ValueError(f"task {data.labels.tolist()[i]!r} has {size}, too few to have some in both halves. Leave it out.")


@dataclass(frozen=True, eq=False, repr=False)
class Intervals:
    """Bootstrap intervals of the coefficients selected, CONDITIONAL ON SELECTION.

    Attributes
    ----------
    estimate, lower, upper : (m, d) least squares on the support (0 elsewhere) and its interval (NaN where there is none)
    support : (m, d) bool, the cells selected
    n_used : (m,) resamples that determine a task's coefficients; the others are left out
    level, n_boot, tasks, features : as asked for; labels of the rows and names of the columns of `estimate`

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL, bootstrap_intervals
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(90)
    >>> found = bootstrap_intervals(MSMTFL(0.2, 1.5).fit(X, y, task=task), X, y, task=task, n_boot=100)
    >>> found.lower[:, 0].round(1), found.upper[:, 0].round(1)
    (array([1.8, 1.6, 1.9]), array([2.2, 2.2, 2.3]))
    """

    estimate: Floats
    lower: Floats
    upper: Floats
    support: np.ndarray
    n_used: Ints
    level: float
    n_boot: int
    tasks: np.ndarray
    features: np.ndarray

    def to_frame(self) -> Any:
        """A pandas table, one row per selected cell, task outer: task, feature, estimate, lower, upper."""
        return _table(self, self.support, estimate=self.estimate, lower=self.lower, upper=self.upper)

    def __repr__(self) -> str:
        return (
            f"{100 * self.level:g} % intervals of {int(self.support.sum())} coefficients from {self.n_boot} resamples\n"
            "CONDITIONAL ON SELECTION: the support is treated as known beforehand; if the same rows chose it, the\n"
            "intervals are too optimistic. They say nothing about the features left out."
        )


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
) -> Intervals:
    """Intervals for the coefficients of a fitted model, its support held fixed.

    The rows of every task are drawn anew with replacement, `n_boot` times, and the selected coefficients (and the
    intercept) refitted by least squares, as with ``relax=True``; an interval reaches from the (1 - level) / 2 to the
    (1 + level) / 2 quantile of the refits. It is conditional on selection: too optimistic where the same rows chose the
    support, honest on rows that had no part in it. Resamples in which the selected columns are linearly dependent are
    left out; a task that loses more than half of them so has no intervals (NaN), and a warning says so.

    Parameters
    ----------
    model : a fitted estimator; the refit of one with ``positive=True`` is not constrained
    X, y, task, sample_weight : the data of the fit, or other rows in the same form
    n_boot, level : number of resamples, and the probability that an interval is to cover
    random_state, n_jobs, verbose : as for :func:`stability_selection`; threads are over tasks

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL, bootstrap_intervals
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 20)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + rng.standard_normal(90)
    >>> intervals = bootstrap_intervals(MSMTFL(theta="adaptive").fit(X, y, task=task), X, y, task=task)
    >>> intervals.lower[:, 0].round(1), intervals.upper[:, 0].round(1)
    (array([1.2, 1.8, 1.8]), array([2.1, 2.4, 2.5]))
    """
    model = _checked(model, n_jobs, verbose)
    check_is_fitted(model, "coef_")
    if loss_of(model) != "squared":
        raise ValueError(f"intervals are those of least squares; the model has loss={model.loss!r}.")
    check_count("n_boot", n_boot)
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, such as 0.95; got {level!r}.")
    if n_boot < (least := ceil(round(2.0 / (1.0 - level), 6))):
        raise ValueError(f"n_boot={n_boot} is too small for level={level}: at least {least} are needed, better 1000.")
    with one_blas_thread():
        problem = clone(model)._pose(X, y, task, sample_weight)
        labels, features = problem.data.labels, problem.data.features
        for what, old, new in (("tasks", model.tasks_, labels), ("features", model.features_, features)):
            if not np.array_equal(old, new):
                both = f"fitted: {names_of(old)}; given: {names_of(new)}"
                raise ValueError(f"the {what} are not those of the fitted model ({both}). Pass data as to its fit.")
        W = np.atleast_2d(model.coef_)
        estimate = least_squares_on(Lassos(problem.designs, units=problem.units), W)
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
    return Intervals(estimate, ends[0], ends[1], W != 0.0, n_used, float(level), int(n_boot), labels, features)


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


def _checked(model: Any, n_jobs: Any, verbose: Any) -> Any:
    """The model that is meant; of a fitted MultiTaskAuto the one that it chose."""
    model = model_chosen(model)
    if hasattr(model, "predict_proba"):
        raise TypeError(f"{type(model).__name__} is a classifier; half-samples and intervals are of regressions only.")
    if not isinstance(model, MultiTaskLinear):
        raise TypeError(f"give a model such as MSMTFL(), not {type(model).__name__}; of a Pipeline, its last step.")
    if not hasattr(model, "penalty_factors"):
        way = " Fit it first: then the model that it chooses is meant." if hasattr(model, "models") else ""
        raise TypeError(f"give a model with a sparse penalty, such as MSMTFL(), not {type(model).__name__}.{way}")
    check_n_jobs(n_jobs)
    check_flag("verbose", verbose)
    return model


def _checked_threshold(threshold: float) -> float:
    if not 0.5 < threshold <= 1.0:
        raise ValueError(f"threshold must be in (0.5, 1], where the error bound holds; got {threshold!r}.")
    return float(threshold)


def _table(result: Stability | Intervals, cells: np.ndarray, **columns: np.ndarray) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_frame needs pandas (pip install pandas); the attributes hold the same.") from error
    i, j = np.nonzero(cells)
    names = {"task": result.tasks[i], "feature": result.features[j]}
    return pd.DataFrame(names | {name: values[cells] for name, values in columns.items()})
