"""How sure a selection is: how often a cell (task, feature) is selected on halves of the rows (Shah and Samworth 2013,
JRSS-B 75, after Meinshausen and Buehlmann 2010, JRSS-B 72), and how far the least-squares refit of the cells selected moves
when rows are drawn anew (percentiles over bootstrap resamples).
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

from ._data.copies import groups_of
from ._data.designs import Floats, Ints, RowTask
from ._data.tables import names_of, warn_user
from ._data.tasks import TaskData
from ._estimators.base import MultiTaskLinear, loss_of, model_chosen, require_offset, separate
from ._estimators.families import family_of
from ._runtime.checks import check_count, check_flag, check_n_jobs
from ._runtime.progress import Progress, one_blas_thread
from ._runtime.threads import count, each
from ._solvers.gram import BUDGET
from ._solvers.make_problem import training
from ._solvers.solvers import lassos_for
from ._solvers.weighted_lasso import least_squares_on

TRIES = 100  # to draw halves of the rows such that every task has some in both
AT_ONCE = 2**22  # numbers in the largest arrays of the bootstrap
DEPENDENT = 1e-10  # share of the largest pivot, or eigenvalue of a resample, at which columns are linearly dependent
ENOUGH = 0.5  # share of a task's resamples that must determine its coefficients


@dataclass(frozen=True, eq=False, repr=False)
class Stability:
    """How often each entry (task, feature) was selected over 2 n_pairs half-samples.

    Attributes
    ----------
    frequency : ndarray of shape (m, d)
        Share of the half-samples that select the feature in the task.
    row_frequency : ndarray of shape (d,)
        Share of the half-samples that select the feature in any task.
    candidates : ndarray of bool of shape (m, d)
        Entries subject to selection: all but those of constant columns and of penalty factors 0 or inf.
    q : float
        Mean number of candidates selected per half-sample.
    n_cells : int
        Number of candidates.
    separate : bool
        Whether every task has a sparse model of its own; otherwise tasks are selected together.
    of_these_rows : str
        Which strengths of the penalty were taken from these samples, in words; "" if none was.
    threshold : float
        Frequency from which an entry counts as selected.
    n_pairs : int
        Number of pairs of half-samples.
    lam : float
        The strength of the penalty that was used.
    theta : float
        The norm from which a feature is free that was used; inf is the lasso.
    tasks : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `frequency`.
    features : ndarray of shape (d,)
        Names of the features, in the order of the second axis of `frequency`.

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
    candidates: np.ndarray
    separate: bool
    of_these_rows: str
    threshold: float
    n_pairs: int
    lam: float
    theta: float
    tasks: np.ndarray
    features: np.ndarray

    @property
    def n_cells(self) -> int:
        """Number of entries (task, feature) subject to selection."""
        return int(self.candidates.sum())

    @property
    def q(self) -> float:
        """Mean number of candidates selected per half-sample."""
        return float(self._of_cells[0].sum())

    @property
    def _of_cells(self) -> tuple[Floats, Floats]:
        """(m,) each: the candidates selected per half-sample, and how many there are."""
        return np.where(self.candidates, self.frequency, 0.0).sum(axis=1), self.candidates.sum(axis=1).astype(float)

    @property
    def _of_features(self) -> tuple[Floats, Floats]:
        """(1,) each: the same of features, but for those that are selected anyhow, un-penalised in some task."""
        anyhow = ((self.frequency > 0.0) & ~self.candidates).any(axis=0)
        some = self.candidates.any(axis=0) & ~anyhow
        return self.row_frequency[some].sum(keepdims=True), np.array([float(some.sum())])

    def selected(self, threshold: float | None = None) -> np.ndarray:
        """Tell which entries (task, feature) are selected.

        Parameters
        ----------
        threshold : float, optional
            Frequency from which an entry counts as selected; by default that of the selection.

        Returns
        -------
        ndarray of bool of shape (m, d)
            True where the frequency is at least the threshold.
        """
        return self.frequency >= (self.threshold if threshold is None else threshold)

    def selected_features(self, threshold: float | None = None) -> np.ndarray:
        """Tell which features are selected, in whichever tasks.

        Parameters
        ----------
        threshold : float, optional
            Frequency from which a feature counts as selected; by default that of the selection.

        Returns
        -------
        ndarray of bool of shape (d,)
            True where at least this share of the half-samples selects the feature in any task.
        """
        return self.row_frequency >= (self.threshold if threshold is None else threshold)

    def error_bound(self, threshold: float | None = None, *, of: str | None = None) -> float:
        r"""Bound the expected number of false ones among the entries, or the features, selected.

        .. math::
            E \, V \le \frac{q^2}{(2 \tau - 1) \, p}

        with :math:`\tau` the threshold in (0.5, 1], p candidates of which q are selected per half-sample (as
        estimated), and V the number of false ones, whose true coefficient is 0, that are selected by at least
        that share of the half-samples.

        It supposes that all false candidates are selected with the same probability, not above the mean q / p
        (Meinshausen and Buehlmann): that none of them goes along with a true feature more than others do, and
        that the strengths of the penalty do not depend on these samples. Without any such assumption the bound
        is one on the number of candidates selected whose probability is at most q / p (Shah and Samworth),
        which false ones may exceed.

        Entries of different tasks are not alike: a task with more noise has more false ones. So with separate
        models for the tasks the bound is the sum of the bounds of the tasks. Where tasks are selected together
        a false entry of a true feature comes along with it: there is no bound for entries then, but one for
        features that no task should use.

        Parameters
        ----------
        threshold : float, optional
            Frequency from which an entry or a feature counts as selected; by default that of the selection.
        of : {"cells", "features"}, optional
            What the bound is about: entries (task, feature) of separate models, or features. By default
            entries where they have a bound.

        Returns
        -------
        float
            The bound.
        """
        tau = _checked_threshold(self.threshold if threshold is None else threshold)
        of = of or ("cells" if self.separate else "features")
        if of not in ("cells", "features"):
            raise ValueError(f"of must be 'cells' or 'features', got {of!r}.")
        if of == "cells" and not self.separate:
            raise ValueError(
                "there is no bound on false cells where tasks are selected together: a task that does not need a feature is "
                "selected with those that do. Ask for of='features', or take LassoMTL."
            )
        q, p = self._of_cells if of == "cells" else self._of_features
        return float(np.divide(q**2, p, out=np.zeros_like(p), where=p > 0).sum() / (2.0 * tau - 1.0))

    def to_frame(self) -> Any:
        """Return a pandas table with one line per entry (task, feature), task outermost.

        Returns
        -------
        DataFrame
            The columns are task, feature, frequency, selected, and feature_frequency (of the feature in any
            task).
        """
        of_features = np.broadcast_to(self.row_frequency, self.frequency.shape)
        columns = {"frequency": self.frequency, "selected": self.selected(), "feature_frequency": of_features}
        return _table(self, self.frequency >= 0.0, **columns)

    def __repr__(self) -> str:
        cells, features = self.selected(), self.selected_features()
        share = f"at least {100 * self.threshold:g} % of {2 * self.n_pairs} half-samples"
        if self.separate:
            of, n, (q, _) = "cells", int(cells.sum()), self._of_cells
            lines = [f"{n} of {cells.size} cells (task, feature) selected in {share}"]
            lines.append(f"features: {names_of(self.features[cells.any(axis=0)]) or 'none'}")
        else:
            of, n, (q, _) = "features", int(features.sum()), self._of_features
            lines = [
                f"{n} of {len(features)} features selected in {share}: {names_of(self.features[features]) or 'none'}"
            ]
            lines.append(f"cells (task, feature) selected so often: {int(cells.sum())} of {cells.size}")
        return "\n".join([*lines, *self._on_errors(of, n, float(q.sum()))])

    def _on_errors(self, of: str, n: int, q: float) -> list[str]:
        """How many of the n selected may be false, and what that supposes."""
        bound, each = self.error_bound(), f"{q:.1f} are selected per half-sample"
        if bound >= max(n, 1):
            lines = [f"no useful bound on false {of} ({bound:.2g} of {n} selected; {each}): it takes a larger lam"]
        else:
            here = f": HERE IT WAS, {self.of_these_rows}" if self.of_these_rows else ""
            what = of if self.separate else f"{of}, which no task should use"
            lines = [
                f"false {what}: at most {bound:.2g} of these on average ({each}),",
                f"if all false {of} are as likely to be selected (none goes along with a true feature more than others)",
                f"and lam was not chosen on these rows{here}",
            ]
        if not self.separate:
            lines.append(
                "tasks are selected together: which of them need a feature is not tested, nor is there a bound"
            )
        return lines


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
    offset: Any = None,
) -> Stability:
    """Count how often every feature is selected in every task on random halves of the samples.

    A clone of the estimator is fitted on all samples first, which settles lam and theta: all half-samples
    use its `lam_` and `theta_` (and start at 0, whatever `coef_init` says). The result bounds the number of
    errors. The bound is for a lam that was given, not found on these samples by cross-validation or as a
    share of lam_max; the result says where it was found so.

    Then `n_pairs` times the samples of every task are cut into two random halves, and the model is solved
    on both, as by :func:`regularization_surface`. A sample of a 2-D y is in the same half for all tasks.

    Parameters
    ----------
    estimator : estimator
        MSMTFL, LassoMTL, L12MTL, DirtyMTL, SharedMTL or the CV class of one of them. If `error_bound` is
        too large to be of use, give it a larger lam (lam_s and lam_b, lam_common and lam_deviation).
    X : DataFrame, ndarray or sparse matrix of shape (N, d)
        Samples of all tasks. A table or an array may have a column that identifies the task
        (see `task_column`).
    y : array-like of shape (N,) or (N, m)
        Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
        means not measured.
    task : array-like of shape (N,), optional
        The label of the task of every sample, if the tasks are not a column of X.
    sample_weight : array-like of shape (N,) or (N, m), optional
        Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
    groups : array-like of shape (N,), optional
        Labels of groups: samples of one group (a patient, a speaker) stay in one half, and in one fold of
        a CV model.
    n_pairs : int, default=50
        Number of pairs of halves.
    threshold : float, default=0.75
        Frequency in (0.5, 1] from which an entry (task, feature) counts as selected.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that draws the halves.
    n_jobs : int, optional
        Number of threads, which work on half-samples side by side. The result does not depend on it.
    verbose : bool, default=False
        Whether to show a progress bar.
    offset : array-like of shape (N,) or (N, m), optional
        A known part of the linear predictor, which is offset + b_i + x'w_i; (N, m) beside a
        2-D y. With loss="poisson" the logarithm of an exposure makes a model of rates.
        `predict` then needs the offsets of its samples, too.

    Returns
    -------
    Stability
        The frequencies.

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
    false cells: at most 1.7 of these on average (7.1 are selected per half-sample),
    if all false cells are as likely to be selected (none goes along with a true feature more than others)
    and lam was not chosen on these rows
    """
    estimator = _checked(estimator, n_jobs, verbose)
    check_count("n_pairs", n_pairs)
    threshold = _checked_threshold(threshold)
    model, family = clone(estimator), family_of(estimator)
    groups_of_folds = {"groups": groups} if family.is_search(model) else {}
    model.fit(X, y, task=task, sample_weight=sample_weight, offset=offset, **groups_of_folds)
    with one_blas_thread():
        problem = model._make_problem(X, y, task, sample_weight, offset)
        halves = draw_halves(problem.data, groups, n_pairs, check_random_state(random_state))
        with Progress(2 * n_pairs, "half-samples", verbose) as progress:
            options = {"budget": BUDGET / (1 + count(n_jobs)), "tick": progress.step}
            parts = each(
                lambda keep: family.coef_on(model, training(problem, keep), **options) != 0.0,
                halves,
                n_jobs,
                progress.stop,
            )
    cells, data, factors = np.array(parts), problem.data, problem.given_factors.T
    return Stability(
        frequency=cells.mean(axis=0),
        row_frequency=cells.any(axis=1).mean(axis=0),
        candidates=problem.learnable & (factors > 0.0) & np.isfinite(factors),
        separate=separate(model),
        of_these_rows=_of_these_rows(model),
        threshold=threshold,
        n_pairs=n_pairs,
        lam=float(getattr(model, f"{family.main}_")),
        theta=float(getattr(model, "theta_", np.inf)),
        tasks=data.labels,
        features=data.features,
    )


def _of_these_rows(model: Any) -> str:
    """Which strengths of the penalty a fitted model took from its rows, in words."""
    family = family_of(model)
    if family.is_search(model):
        return f"{type(model).__name__} chose the strengths of the penalty on all of them"
    given = model.get_params(deep=False)
    groups = [group for group in family.by_default if all(given[name] in (None, "adaptive") for name in group)]
    found = [name for group in groups for name in group]
    return f"{' and '.join(found)} by default, from all of them" if found else ""


def draw_halves(data: TaskData, groups: Any, n_pairs: int, random: np.random.RandomState) -> list[np.ndarray]:
    """n_pairs random halves of the rows, (N,) bool, each followed by its complement; every task has rows in both.

    Rows (or groups) that belong to the same set of tasks are shuffled and dealt out in turn, set after set in random
    order. (Folds balanced with more care leave little to chance where such sets are small or groups differ in size.)
    """
    unit = np.arange(data.X.shape[0])
    if groups is not None:
        unit = np.unique(groups_of(groups, data.X), return_inverse=True)[1].ravel()
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
        return _table(self, self.support, coef=self.coef, estimate=self.estimate, **ends)

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
                f"it looks large by chance: fewer than {level} of such intervals cover 0, often far fewer. Select on one",
                "half of the rows (fit), and call this with the other half.",
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

    Resamples in which the selected columns are linearly dependent are left out; a task that loses more than
    half of them so has no intervals (NaN), and a warning says so.

    Parameters
    ----------
    model : estimator
        A fitted model; the refit of one with ``positive=True`` is not constrained.
    X : DataFrame, ndarray or sparse matrix of shape (N, d)
        Samples of all tasks of the model in the form of the fit, better not those of the
        fit.
    y : array-like of shape (N,) or (N, m)
        Their targets.
    task : array-like of shape (N,), optional
        Their task labels, if the fit was given labels.
    sample_weight : array-like of shape (N,) or (N, m), optional
        Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
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
    model = _checked(model, n_jobs, verbose)
    check_is_fitted(model, "coef_")
    require_offset(model, offset)
    if loss_of(model) != "squared":
        raise ValueError(f"intervals are those of least squares; the model has loss={model.loss!r}.")
    check_count("n_boot", n_boot)
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, such as 0.95; got {level!r}.")
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
        estimate = least_squares_on(lassos_for(problem), W)
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
