"""How often an entry (task, feature) is selected on halves of the samples (Shah and Samworth 2013, JRSS-B 75, after
Meinshausen and Buehlmann 2010, JRSS-B 72)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from .._data.designs import Floats
from .._data.tables import names_of
from .._estimators.families import family_of
from .._estimators.fitted import separate
from .._runtime.checks import check_count
from .._runtime.progress import Progress, one_blas_thread
from .._runtime.text.cards import Card
from .._runtime.threads import count, each
from .._solvers.gram import BUDGET
from .common import checked_model, draw_halves, entries_table
from .stability_bounds import KINDS, false_selections


@dataclass(frozen=True, eq=False, repr=False)
class Stability(Card):
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
        Mean number of candidates selected per half-sample, at any of the lams.
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
        The strength of the penalty that was used; of a grid the smallest.
    theta : float
        The norm from which a feature is free that was used; inf is the lasso.
    tasks : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of `frequency`.
    features : ndarray of shape (d,)
        Names of the features, in the order of the second axis of `frequency`.
    lams : ndarray of shape (L,), optional
        The grid of lams, if one was given. `frequency` and `row_frequency` are then the largest over the grid.
    at_any_lam : ndarray of shape (m, d), optional
        Share of the half-samples that select the feature in the task at any lam of the grid.
    row_at_any_lam : ndarray of shape (d,), optional
        Share of the half-samples that select the feature in any task at any lam of the grid.

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
    lams: Floats | None = None
    at_any_lam: Floats | None = None
    row_at_any_lam: Floats | None = None

    @property
    def n_cells(self) -> int:
        """Number of entries (task, feature) subject to selection."""
        return int(self.candidates.sum())

    @property
    def q(self) -> float:
        """Mean number of candidates selected per half-sample, at any of the lams."""
        return float(self._of_cells[0].sum())

    @property
    def _of_cells(self) -> tuple[Floats, Floats]:
        """(m,) each: the candidates selected per half-sample, and how many there are."""
        often = self.frequency if self.at_any_lam is None else self.at_any_lam
        return np.where(self.candidates, often, 0.0).sum(axis=1), self.candidates.sum(axis=1).astype(float)

    @property
    def _of_features(self) -> tuple[Floats, Floats]:
        """(1,) each: the same of features, but for those that are selected anyhow, un-penalised in some task."""
        anyhow = ((self.frequency > 0.0) & ~self.candidates).any(axis=0)
        some = self.candidates.any(axis=0) & ~anyhow
        often = self.row_frequency if self.row_at_any_lam is None else self.row_at_any_lam
        return often[some].sum(keepdims=True), np.array([float(some.sum())])

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

    def error_bound(self, threshold: float | None = None, *, of: str | None = None, kind: str = "crude") -> float:
        r"""Bound the expected number of false ones among the entries, or the features, selected.

        .. math::
            E \, V \le \frac{q^2}{(2 \tau - 1) \, p}

        is the crude bound, with :math:`\tau` the threshold in (0.5, 1], p candidates of which q are selected
        per half-sample (as estimated), and V the number of false ones, whose true coefficient is 0, that are
        selected by at least that share of the half-samples.

        It supposes that all false candidates are selected with the same probability, not above the mean q / p
        (Meinshausen and Buehlmann): that none of them goes along with a true feature more than others do, and
        that the strengths of the penalty do not depend on these samples. Without any such assumption the bound
        is one on the number of candidates selected whose probability is at most q / p (Shah and Samworth),
        which false ones may exceed.

        Shah and Samworth's other bounds are sharper, and suppose more: that the share of pairs of halves that
        select a candidate twice has a distribution with one mode ("unimodal"), or that this distribution and
        that of the share of half-samples do not have heavier tails than -1/2- and -1/4-concave ones have
        ("r-concave"), which they found to hold in practice.

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
        kind : {"crude", "unimodal", "r-concave"}, default="crude"
            Which bound.

        Returns
        -------
        float
            The bound; NaN where the unimodal one does not apply, as more than a share of 0.58 of the candidates is
            selected, or the threshold is next to 0.5.
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
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}.")
        q, p = self._of_cells if of == "cells" else self._of_features
        parts = zip(q.tolist(), p.tolist(), strict=True)
        return float(sum(false_selections(*part, tau, self.n_pairs, kind) for part in parts))

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
        return entries_table(self, self.frequency >= 0.0, **columns)

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
        each = f"{q:.1f} are selected per half-sample{'' if self.lams is None else ', at any lam'}"
        bounds = {kind: self.error_bound(kind=kind) for kind in KINDS}
        known = {kind: bound for kind, bound in bounds.items() if bound < max(n, 1)}
        if not known:
            crude = bounds["crude"]
            lines = [f"no useful bound on false {of} ({crude:.2g} of {n} selected; {each}): it takes a larger lam"]
        else:
            what = of if self.separate else f"{of}, which no task should use"
            more = "" if list(known) == ["crude"] else "; help(error_bound) says what each bound supposes"
            lines = [
                f"false {what}: at most {_shown(known)} of these on average",
                f"({each}{more}),",
                f"if all false {of} are as likely to be selected (none goes along with a true feature more than others)",
                "and lam was not chosen on these rows",
            ]
        if self.of_these_rows:
            lines[-1] += "" if known else ". It must not be chosen on these rows"
            lines[-1] += f": HERE IT WAS, {self.of_these_rows}."
            lines.append(
                "Give lams=[..], a grid fixed beforehand: every entry counts at the lam that selects it most often"
            )
        if not self.separate:
            lines.append(
                "tasks are selected together: which of them need a feature is not tested, nor is there a bound"
            )
        return lines


def _shown(bounds: dict[str, float]) -> str:
    """Bounds in words."""
    return ", ".join(f"{bound:.2g} ({kind})" for kind, bound in bounds.items())


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
    lams: Any = None,
    offset: Any = None,
) -> Stability:
    """Count how often every feature is selected in every task on random halves of the samples.

    A clone of the estimator is fitted on all samples first, which settles lam and theta: all half-samples
    use its `lam_` and `theta_` (and start at 0, whatever `coef_init` says). The result bounds the number of
    errors. The bound is for a lam that was given, not found on these samples by cross-validation or as a
    share of lam_max; the result says where it was found so. Who has no lam gives a grid of them, `lams`:
    an entry then counts at the lam at which it is selected most often, and the bound with all that are
    selected at any lam.

    Then `n_pairs` times the samples of every task are cut into two random halves, and the model is solved
    on both, as by :func:`regularization_surface`. A sample of a 2-D y is in the same half for all tasks.

    Parameters
    ----------
    estimator : estimator
        MSMTFL, LassoMTL, L12MTL, DirtyMTL, SharedMTL, MSMTFLClassifier or the CV class of one of them. Of
        several classes an entry (task, feature) is selected if it is for any class. If `error_bound` is too
        large to be of use, give it a larger lam (lam_s and lam_b, lam_common and lam_deviation).
    X : DataFrame, ndarray or sparse matrix of shape (N, d)
        Samples of all tasks. A table or an array may have a column that identifies the task
        (see `task_column`).
    y : array-like of shape (N,) or (N, m)
        Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
        means not measured. With loss="cox" it has two, times and events.
    task : array-like of shape (N,), optional
        The label of the task of every sample, if the tasks are not a column of X.
    sample_weight : array-like of shape (N,) or (N, m), optional
        Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
        A sample of weight 2 is two samples.
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
    lams : array-like of shape (L,), optional
        A grid of strengths that takes the place of the estimator's `lam` (of DirtyMTL `lam_b`, of SharedMTL
        `lam_deviation`), fixed without looking at these samples.
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
    false cells: at most 1.7 (crude), 0.86 (unimodal), 0.25 (r-concave) of these on average
    (7.1 are selected per half-sample; help(error_bound) says what each bound supposes),
    if all false cells are as likely to be selected (none goes along with a true feature more than others)
    and lam was not chosen on these rows
    """
    estimator = checked_model(estimator, n_jobs, verbose, classes=True)
    check_count("n_pairs", n_pairs)
    threshold = _checked_threshold(threshold)
    family = family_of(estimator)
    models = [clone(estimator)] if lams is None else _on_a_grid(estimator, lams)
    groups_of_folds = {"groups": groups} if family.is_search(estimator) else {}
    for model in models:
        model.fit(X, y, task=task, sample_weight=sample_weight, offset=offset, **groups_of_folds)
    model = models[-1]
    with one_blas_thread():
        problem = model._make_problem(X, y, task, sample_weight, offset)
        halves = draw_halves(problem.data, groups, n_pairs, check_random_state(random_state), problem.loss)
        with Progress(2 * n_pairs * len(models), "half-samples", verbose) as progress:
            options = {"budget": BUDGET / (1 + count(n_jobs)), "tick": progress.step}

            def selected(keep: np.ndarray) -> list[np.ndarray]:
                part = model._training(problem, keep)
                return [family.coef_on(one, part, **options) != 0.0 for one in models]

            parts = each(selected, halves, n_jobs, progress.stop)
    data, K = problem.data, problem.data.classes
    cells: np.ndarray = np.array(parts).reshape(len(halves), len(models), -1, K, data.d)
    cells = np.any(cells, axis=3)  # half-samples, lams, tasks, features
    factors = problem.given_factors.T
    candidates = problem.learnable & (factors > 0.0) & np.isfinite(factors)
    return Stability(
        frequency=cells.mean(axis=0).max(axis=0),
        row_frequency=np.any(cells, axis=2).mean(axis=0).max(axis=0),
        candidates=candidates[::K],
        separate=separate(model),
        of_these_rows=_of_these_rows(model),
        threshold=threshold,
        n_pairs=n_pairs,
        lam=float(getattr(model, f"{family.main}_")),
        theta=float(getattr(model, "theta_", np.inf)),
        tasks=model.tasks_,
        features=data.features,
        lams=None if lams is None else np.array([getattr(one, f"{family.main}_") for one in models]),
        at_any_lam=None if lams is None else np.any(cells, axis=1).mean(axis=0),
        row_at_any_lam=None if lams is None else np.any(cells, axis=(1, 2)).mean(axis=0),
    )


def _on_a_grid(estimator: Any, lams: Any) -> list[Any]:
    """The estimator at each of the lams, the largest first."""
    family = family_of(estimator)
    if family.is_search(estimator):
        name = family.name
        raise ValueError(
            f"lams= is a grid for a model that is given its strengths, such as {name}(); {type(estimator).__name__} chooses "
            f"them on these samples. Give {name}()."
        )
    values = np.atleast_1d(np.asarray(lams, dtype=np.float64))
    if values.ndim != 1 or values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"lams must be one or more numbers above 0; got {lams!r}.")
    return [clone(estimator).set_params(**{family.main: lam}) for lam in np.sort(values)[::-1].tolist()]


def _of_these_rows(model: Any) -> str:
    """Which strengths of the penalty a fitted model took from its rows, in words."""
    family = family_of(model)
    if family.is_search(model):
        return f"{type(model).__name__} chose the strengths of the penalty on all of them"
    given = model.get_params(deep=False)
    groups = [group for group in family.by_default if all(given[name] in (None, "adaptive") for name in group)]
    found = [name for group in groups for name in group]
    return f"{' and '.join(found)} by default, from all of them" if found else ""


def _checked_threshold(threshold: float) -> float:
    if not 0.5 < threshold <= 1.0:
        raise ValueError(f"threshold must be in (0.5, 1], where the error bound holds; got {threshold!r}.")
    return float(threshold)
