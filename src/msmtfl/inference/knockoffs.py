"""Which features matter in at least r of the m tasks, with a false discovery rate: the multi-environment knockoff filter
(Li, Sesia, Romano, Candes and Sabatti 2022, Biometrika 109).

Every feature of every task gets a knockoff: a column with the same correlations to the other features, made without looking
at the target. A lasso of the task chooses among features and knockoffs, and

    V_ij = |coefficient of feature j| - |coefficient of its knockoff|        in task i

If the feature does not matter in the task, the sign of V_ij is that of a fair coin, whatever the sizes |V| are, and
independent of all others: swapping feature and knockoff in task i changes the sign of V_ij, and nothing else. (The lassos
share one lam, chosen by cross-validation, which does not change either.)

The score of a feature is the product of its r largest sizes, with a plus if V_ij > 0 in all of these r tasks, else with a
minus. Which tasks these are is decided by sizes alone. If the feature matters in fewer than r tasks, one of the r signs at
least is a coin, so that plus has a probability of 1/2 at most, whatever the other signs are. So the features with scores of
at least t are declared, for the smallest t with

    (1 + number of scores <= -t) / (number of scores >= t) <= fdr

(knockoff+ of Barber and Candes 2015, Annals of Statistics 43). Hence 1/fdr features are declared at least, or none. Li and
others look at all m signs: a feature needs few negative ones among them, and those of tasks in which it does not matter
count, too. Both hold the rate, and this finds more (`benchmarks/studies/knockoffs.py` has both).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from .._data.designs import Floats
from .._data.statistics.moment_data import MomentData
from .._data.tables import is_sparse, names_of, warn_user
from .._data.task_data import TaskData
from .._estimators.families import lassos_like
from .._estimators.fitted import loss_of, require_offset
from .._runtime.checks import check_count
from .common import Samples, as_dense, checked_model, sliceable
from .gaussian_knockoffs import Laws, covariance_of
from .knockoffs_of_sums import beside_drawn, check_sums, is_statistics, same_sums
from .shared import SharedFeatures, least_declared

CONSTANT = 1e-12  # standard deviation, relative to the largest deviation, up to which a column is constant
REPEATED = 0.9  # share of a task's samples that stand in another one, from which they are the same samples


# ------------------------------------------------------------------ the filter


def scores_of(V: Floats, r: int) -> Floats:
    """(d,): products of the r largest sizes of V (m, d), with a plus where all r are positive, else a minus."""
    largest = np.argsort(-np.abs(V), axis=0, kind="stable")[:r]
    top = np.take_along_axis(V, largest, axis=0)
    return np.asarray(np.abs(top).prod(axis=0) * np.where((top > 0.0).all(axis=0), 1.0, -1.0))


def knockoff_plus(score: Floats, fdr: float) -> np.ndarray:
    """(d,) bool: those declared at a false discovery rate."""
    sizes = np.unique(np.abs(score[score != 0.0]))
    for t in sizes:
        if (1 + np.sum(score <= -t)) <= fdr * np.sum(score >= t) * (1 + 1e-12):
            return np.asarray(score >= t)
    return np.zeros(len(score), dtype=bool)


def shared_features(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    task: Any = None,
    r: int = 2,
    fdr: float = 0.1,
    sample_weight: Any = None,
    offset: Any = None,
    groups: Any = None,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> SharedFeatures:
    """Find the features that matter in at least r tasks, with a false discovery rate.

    The multi-environment knockoff filter of Li, Sesia, Romano, Candes and Sabatti (2022). Every feature
    competes with a knockoff of its own in every task: a random column with the same correlations to the other
    features that knows nothing of the target. One lasso per task chooses among features and knockoffs, with a
    lam that cross-validation chooses for all tasks; features preferred to their knockoffs by much, in the r
    tasks that tell most, are declared.

    The rate is exact if the features of each task are normal with a known covariance, whatever the model of
    the target. Here the covariance is estimated, from the task's samples and, as far as these do not differ
    from the other tasks', from all of them; and the features may not be normal. So it holds about, as measured
    in ``benchmarks/studies/knockoffs.py``; `approximate` says what is doubtful.

    Parameters
    ----------
    estimator : estimator
        A model or classifier of any family. It tells how the data are read (`task_column`), the loss,
        `penalty_factors`, `positive`, `fit_intercept` and the signs in `bounds`; its own strengths of the
        penalty have no part in this: models that select for all tasks at once would carry evidence from one task to another.
    X : DataFrame, ndarray or sparse matrix of shape (N, d), Moments or list of Moments
        Samples of all tasks. A table or an array may have a column that identifies the task
        (see `task_column`). Or statistics of unweighted samples, then without y and all else that is known of
        samples, for squared loss: sums with knockoffs are drawn from the law that they would have with the
        samples. A list holds one :class:`Moments` per fold, on which lam is chosen; of a single one, folds that
        add up to it are drawn, too. Sums do not show that tasks share *some* of their samples: it is up to you
        that they do not.
    y : array-like of shape (N,) or (N, m), optional
        Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
        means not measured. Such tasks are not independent of each other: only r=1 can be asked of them, and
        their Moments are refused.
    task : array-like of shape (N,), optional
        The label of the task of every sample, if the tasks are not a column of X.
    r : int, default=2
        In how many tasks, at least, a feature is to matter.
    fdr : float, default=0.1
        The share of false ones among the features declared, on average, that is accepted. At least 1 / fdr
        features are declared, or none.
    sample_weight : array-like of shape (N,) or (N, m), optional
        Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
    offset : array-like of shape (N,) or (N, m), optional
        A known part of the linear predictor, as `fit` takes it; a model that was fitted with one needs it.
    groups : array-like of shape (N,), optional
        Labels of groups: samples of one group (a patient, a speaker) stay in one fold. A group must not have
        samples in several tasks if r is more than 1.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that draws the knockoffs. Another draw may declare other features.
    n_jobs : int, optional
        Number of threads. The result does not depend on it.

    Returns
    -------
    SharedFeatures
        The features declared.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.inference import shared_features
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((600, 30)), np.tile(["north", "south", "west"], 200)
    >>> y = X[:, :8].sum(axis=1) + rng.standard_normal(600)
    >>> sorted(shared_features(MSMTFL(), X, y, task=task, r=3, fdr=0.2).features)
    ['x0', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7']
    """
    estimator = checked_model(estimator, n_jobs, False, classes=True, sparse=False)
    random = np.random.default_rng(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    data: TaskData | MomentData
    if is_statistics(X):
        known = {"y": y, "task": task, "sample_weight": sample_weight, "offset": offset, "groups": groups}
        data = check_sums(estimator, X, known)
        _check_question(data, r, fdr, partial(same_sums, data))
        drawn = beside_drawn(data, random)
        V, approximate = statistics_of(lassos_for(estimator, n_jobs).fit_moments(drawn.folds), data), drawn.approximate
    elif y is None:
        raise TypeError("y is missing: give the targets of the samples X, or Moments in the place of X.")
    else:
        require_offset(estimator, offset)
        rows: TaskData = clone(estimator)._read(X, y, task, sample_weight, offset)
        data = rows
        _check_question(data, r, fdr, partial(_same_samples, rows, groups))
        samples = Samples.read(estimator, X, y, task, sample_weight, groups, offset)
        both, approximate = beside_knockoffs(rows, random)
        V = lasso_statistics(estimator, rows, samples, both, n_jobs)
    if data.form == "wide":
        V = V.sum(axis=0, keepdims=True)
    score = scores_of(V, r)
    declared = knockoff_plus(score, fdr)
    order = np.argsort(-score, kind="stable")
    return SharedFeatures(
        features=data.features[order[declared[order]]],
        declared=declared,
        statistics=V,
        score=score,
        r=int(r),
        fdr=float(fdr),
        approximate=approximate,
        tasks=data.labels,
        candidates=data.features,
    )


def beside_knockoffs(data: TaskData, random: np.random.Generator) -> tuple[Floats, tuple[str, ...]]:
    """(N, 2 d): the features of all samples, of mean 0 and variance 1 within a task, and beside them their knockoffs; and
    what is approximate about these, in words. Columns that are constant in a task are 0 there."""
    N, d = data.X.shape
    out = np.zeros((N, 2 * d))
    parts = [np.flatnonzero(data.membership.any(axis=1))] if data.form == "wide" else [one.rows for one in data.tasks]
    for rows in parts:
        X = as_dense(sliceable(data.X)[rows])
        X = X - X.mean(axis=0)
        sizes = X.std(axis=0)
        vary = np.flatnonzero(sizes > CONSTANT * np.abs(X).max(axis=0, initial=0.0))
        out[np.ix_(rows, vary)] = X[:, vary] / sizes[vary]
    used = out[np.concatenate(parts), :d]
    anywhere = np.flatnonzero(used.any(axis=0))
    common = np.eye(d)
    if anywhere.size:
        common[np.ix_(anywhere, anywhere)] = covariance_of(used[:, anywhere])
    laws = Laws(common)
    few, two = [], np.zeros(d, dtype=bool)
    for i, rows in enumerate(parts):
        vary = np.flatnonzero(out[rows, :d].any(axis=0))
        if not vary.size:
            continue
        unit = out[np.ix_(rows, vary)]
        own = unit.T @ unit / len(rows)
        law = laws.near(own, vary, len(rows), len(rows) / len(used))
        out[np.ix_(rows, d + vary)] = law.draw(unit, random)
        two[vary] |= [len(np.unique(column[:1000])) == 2 for column in unit.T]
        if len(rows) < vary.size:
            few.append(data.labels.tolist()[i])
    words = []
    if few:
        size = "fewer samples than features, so that correlations are known badly"
        words.append(f"task(s) {names_of(few)} have {size}." if data.form != "wide" else f"there are {size}.")
    if two.any():
        words.append(f"knockoffs are normal, but feature(s) {names_of(data.features[two])} have two values only.")
    return out, tuple(words)


def lassos_for(estimator: Any, n_jobs: int | None) -> Any:
    """The search of lassos of the tasks, with one lam, on features and knockoffs."""
    factors = getattr(estimator, "penalty_factors", None)
    return lassos_like(
        estimator,
        standardize=True,  # knockoffs, too, have a variance of 1 in the samples at hand then: both are alike
        fit_intercept=getattr(estimator, "fit_intercept", True),
        positive=getattr(estimator, "positive", False),
        penalty_factors=None if factors is None else np.concatenate([factors, factors]),
        bounds=_signs(getattr(estimator, "bounds", None)),
        n_jobs=n_jobs,
    )


def _signs(bounds: Any) -> Any:
    """Bounds of features and their knockoffs: of those of a model only the signs, as targets have other units here."""
    if bounds is None:
        return None
    low, high = (np.asarray(np.nan if one is None else one, dtype=float) for one in bounds)
    signs = np.where(low == 0.0, 0.0, -np.inf), np.where(high == 0.0, 0.0, np.inf)
    return tuple(one if one.ndim == 0 else np.concatenate([one, one]) for one in signs)


def lasso_statistics(estimator: Any, data: TaskData, samples: Samples, both: Floats, n_jobs: int | None) -> Floats:
    """(m, d): sizes of the features' coefficients less those of their knockoffs, in lassos of the tasks with one lam."""
    y, offset = samples.y, samples.offset
    if not hasattr(estimator, "predict_proba") and loss_of(estimator) == "squared":
        y, offset = _in_units(data.less_offset(), y), None  # one lam suits tasks of all units then
    known: dict[str, Any] = {"task": samples.task, "sample_weight": samples.weight, "groups": samples.groups}
    if offset is not None:
        known["offset"] = offset
    return statistics_of(lassos_for(estimator, n_jobs).fit(both, y, **known), data)


def statistics_of(lassos: Any, data: TaskData | MomentData) -> Floats:
    """(m, d): sizes of the features' coefficients less those of their knockoffs."""
    W = np.abs(np.atleast_2d(lassos.coef_))
    if W.ndim == 3 or len(W) != data.m:  # several classes
        W = W.reshape(data.m, -1, W.shape[-1]).sum(axis=1)
    return np.asarray(W[:, : data.d] - W[:, data.d :])


def _in_units(data: TaskData, y: np.ndarray) -> Floats:
    """Targets less their mean, in units of their standard deviation, within each task."""
    out = np.array(y, dtype=np.float64)
    for i, (one, target) in enumerate(zip(data.tasks, data.targets, strict=True)):
        at = (one.rows, i) if out.ndim == 2 else one.rows
        out[at] = (one.y - target.mean) / (np.sqrt(target.variance) or 1.0)
    return out


def _check_question(data: TaskData | MomentData, r: int, fdr: float, same_samples: Callable[[], str]) -> None:
    check_count("r", r)
    if not 0.0 < fdr < 1.0:
        raise ValueError(f"fdr must be between 0 and 1, such as 0.1; got {fdr!r}.")
    if r > data.m:
        tasks = f"are {data.m} tasks" if data.m > 1 else "is one task"
        raise ValueError(f"r={r}, but there {tasks}: no feature can matter in more. Take r={data.m} at most.")
    if r > 1 and (why := same_samples()):
        raise ValueError(
            f"{why}. Their errors are not independent of each other, and a chance finding in one task comes again in "
            f"the others: no error rate can be given for r={r}. Take r=1 (matters in any task), or give each task "
            "samples of its own."
        )
    if (least := least_declared(fdr)) > data.d:
        warn_user(
            f"at fdr={fdr:g} at least {least} features are declared, or none, and there are {data.d}: none can be. Take fdr "
            f"of {1 / data.d:.2g} or more."
        )


def _same_samples(data: TaskData, groups: Any) -> str:
    """Which tasks share samples, in words; "" if none is seen to."""
    if data.form == "wide":
        return "the columns of y are measured on the same samples"
    if groups is not None:
        shared = np.unique(np.asarray(groups), return_inverse=True)[1].ravel()
        tasks_of = np.zeros((shared.max() + 1, data.m), dtype=bool)
        np.logical_or.at(tasks_of, shared, data.membership)
        if (tasks_of.sum(axis=1) > 1).any():
            return "some groups have samples in several tasks"
    if is_sparse(data.X):
        return ""
    rows = [{row.tobytes() for row in np.ascontiguousarray(one.X)} for one in data.tasks]
    for i in range(data.m):
        if len(rows[i]) < REPEATED * len(data.tasks[i].y):
            continue  # values are so few that samples are alike within a task, too
        for k in range(i):
            if len(rows[i] & rows[k]) >= REPEATED * min(len(rows[i]), len(rows[k])):
                return f"the samples of tasks {names_of(data.labels[[k, i]])} have the same values in all features"
    return ""
