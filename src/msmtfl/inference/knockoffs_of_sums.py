"""Sums of squares and products of features, Gaussian knockoffs and target, drawn where only those of features and target are
known.

Knockoffs of the samples X are X A + Z B', where Z (n, d) is standard normal (`Law`). So the sums that a lasso needs are
those of [X, y, Z]. With M = [X, y] about its means, M'M = L L', and Q an orthonormal basis of its columns, M = Q L', the
part G = Z'Q is standard normal whatever the samples are, and so are the means of Z times the root of n. Hence

    Z'M = G L',        Z'Z = G G' + Wishart(n - 1 - rank of M)        about the means:

the law of these sums is the one that knockoffs of the samples have, and nothing of the samples but their sums is needed.
Where samples have weights it is not: sums of squared weights would be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

from .._data.designs import CONSTANT_SHARE, Floats
from .._data.statistics.moment_data import MomentData
from .._data.statistics.moments import Moments
from .._data.statistics.task_moments import Sums, TaskMoments
from .._data.tables import names_of
from .._estimators.fitted import loss_of
from .gaussian_knockoffs import Law, Laws, covariance_near

FOLDS = 5  # drawn, where the statistics are not of folds
UNSEEN = 1e-10  # a sum of squares of columns of length 1 along a direction, below which there is none
ALIKE = 1e-9  # relative differences of sums up to which these are of the same samples


@dataclass(frozen=True)
class SumsBesideKnockoffs:
    """Statistics of features and, beside them, knockoffs, one per fold; what is approximate about the latter, in words."""

    folds: list[Moments]
    approximate: tuple[str, ...]


def is_statistics(X: Any) -> bool:
    """Whether these are Moments, or a list of them."""
    return isinstance(X, Moments) or (isinstance(X, list | tuple) and bool(X) and isinstance(X[0], Moments))


def check_sums(estimator: Any, moments: Any, given: dict[str, Any]) -> MomentData:
    """The statistics, if knockoffs can be drawn for them."""
    more = [name for name, value in given.items() if value is not None]
    if more:
        raise TypeError(
            f"Moments hold targets, tasks and all else that counts: {', '.join(more)} cannot be given, too."
        )
    if hasattr(estimator, "predict_proba") or loss_of(estimator) != "squared":
        kind = f"loss={estimator.loss!r}" if hasattr(estimator, "loss") else "classes"
        raise ValueError(f"statistics serve squared loss only, not {kind}: give the samples.")
    data = MomentData([moments] if isinstance(moments, Moments) else list(moments), None)
    if data.form == "wide" and data.m > 1:
        raise ValueError(
            "these Moments are of a 2-D y, and have no products of one target with another, which say how far chance "
            "findings repeat themselves. Give the samples, or the Moments of one column of y at a time."
        )
    weighted = [label for label, one in zip(data.labels.tolist(), data.tasks, strict=True) if one.n != one.rows]
    if weighted:
        raise ValueError(
            f"the samples of task(s) {names_of(weighted)} have weights: knockoffs of weighted samples cannot be drawn from "
            "sums. Give the samples, or Moments without weights."
        )
    return data


def same_sums(data: MomentData) -> str:
    """Which tasks have the same samples, in words, as far as sums show it; "" if none is seen to."""
    for i, one in enumerate(data.tasks):
        for k, other in enumerate(data.tasks[:i]):
            size = np.sqrt(one.xx.diagonal())
            close = np.abs(one.xx - other.xx) <= ALIKE * np.outer(size, size)
            if one.rows == other.rows and close.all() and np.allclose(one.mean, other.mean, rtol=ALIKE, atol=ALIKE):
                return f"the samples of tasks {names_of(data.labels[[k, i]])} have the same sums in all features"
    return ""


# ------------------------------------------------------------------ draws


def draw_wishart(df: int, d: int, random: np.random.Generator) -> Floats:
    """(d, d): the sum of squares and products of df standard normal samples of d columns."""
    if df <= d:
        Z = random.standard_normal((df, d))
        return np.asarray(Z.T @ Z)
    root = np.tril(random.standard_normal((d, d)), -1)  # Bartlett's
    np.fill_diagonal(root, np.sqrt(random.chisquare(df - np.arange(d))))
    return np.asarray(root @ root.T)


def factor_of(sums: Floats, rank: int) -> Floats:
    """(k, rank or less): L with L L' = sums."""
    size = np.sqrt(np.maximum(sums.diagonal(), 0.0))
    unit = np.where(size > 0.0, size, 1.0)
    values, vectors = eigh(sums / np.outer(unit, unit))
    seen = np.flatnonzero(values > UNSEEN * len(sums))[::-1][: max(rank, 0)]
    vectors = vectors[:, seen]
    largest = vectors[
        np.abs(vectors).argmax(axis=0), np.arange(len(seen))
    ]  # eigenvectors have no sign: machines differ
    return np.asarray(unit[:, None] * vectors * (np.sign(largest) * np.sqrt(values[seen])))


def draw_sums(sums: Floats, mean: Floats, n: int, law: Law, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Sums about the means (2 d + 1, 2 d + 1), and means, of [X, knockoffs, y], from those of n samples [X, y]."""
    kept, root = law.kept, law.root
    d = len(kept)
    factor = factor_of(sums, n - 1)
    G = random.standard_normal((d, factor.shape[1]))
    cross = G @ factor.T  # Z'[X, y]
    zz = G @ G.T + draw_wishart(n - 1 - factor.shape[1], d, random)
    all_sums = np.block([[sums, cross.T], [cross, zz]])  # of [X, y, Z]
    T = np.zeros((2 * d + 1, 2 * d + 1))  # from [X, y, Z] to [X, knockoffs, y]
    T[:d, :d], T[:d, d : 2 * d], T[d, -1], T[d + 1 :, d : 2 * d] = np.eye(d), kept, 1.0, root.T
    means = np.concatenate([mean, random.standard_normal(d) / np.sqrt(n)])
    return T.T @ all_sums @ T, means @ T


def draw_folds(task: TaskMoments, count: int, random: np.random.Generator) -> list[TaskMoments]:
    """Statistics of folds that add up to those of a task: those of rotated samples, which have the same sums. Of normal
    samples these have the law of folds."""
    count = max(min(count, task.rows), 1)
    sizes = np.full(count, task.rows // count) + (np.arange(count) < task.rows % count)
    d = len(task.mean)
    factor = factor_of(Sums(task).matrix, task.rows - 1)
    k = factor.shape[1]
    means = random.standard_normal((count, k)) / np.sqrt(sizes)[:, None]
    means -= sizes @ means / task.rows
    parts = [draw_wishart(int(size) - 1, k, random) for size in sizes]
    if k:
        total = np.sum(parts, axis=0) + (means * sizes[:, None]).T @ means
        map_ = solve_triangular(cholesky(total, lower=True), factor.T, lower=True, trans="T")
        means, parts = means @ map_, [map_.T @ one @ map_ for one in parts]
    else:
        means, parts = np.zeros((count, d + 1)), [np.zeros((d + 1, d + 1))] * count
    return [
        TaskMoments(
            int(size),
            float(size),
            task.mean + mean[:d],
            task.y_mean + float(mean[d]),
            np.zeros(d + 1),
            one[:d, :d],
            one[:d, d],
            float(one[d, d]),
        )
        for size, mean, one in zip(sizes, means, parts, strict=True)
    ]


# ------------------------------------------------------------------ of all tasks


@dataclass(frozen=True)
class Unit:
    """How a task's columns (features, then the target) are brought to mean 0 and variance 1."""

    mean: Floats
    size: Floats  # 1 where a column is constant
    varies: np.ndarray

    @staticmethod
    def of(task: TaskMoments) -> Unit:
        sums = Sums(task)
        variance = sums.matrix.diagonal() / task.n
        varies = variance > CONSTANT_SHARE**2 * sums.mean**2
        return Unit(sums.mean, np.sqrt(np.where(varies, variance, 1.0)), varies)

    def applied(self, task: TaskMoments) -> tuple[Floats, Floats]:
        """Sums about the means, and means, of samples of the task; 0 where a column is constant."""
        sums = Sums(task)
        on = np.outer(self.varies, self.varies)
        return (
            np.where(on, sums.matrix / np.outer(self.size, self.size), 0.0),
            np.where(self.varies, (sums.mean - self.mean) / self.size, 0.0),
        )


def common_correlations(owns: list[Floats], rows: list[int]) -> Floats:
    """(d, d): those of all tasks together, drawn towards 0 where there are few samples."""
    pooled = np.average(owns, axis=0, weights=rows)
    size = np.sqrt(pooled.diagonal())
    unit = np.where(size > 0.0, size, 1.0)
    pooled = pooled / np.outer(unit, unit)
    np.fill_diagonal(pooled, 1.0)
    return covariance_near(pooled, sum(rows), np.eye(len(pooled)), 0.0)


def beside_drawn(data: MomentData, random: np.random.Generator) -> SumsBesideKnockoffs:
    """Statistics of features and knockoffs of all tasks, in units of each task, fold by fold. Where the statistics are not
    of folds, folds that add up to them are drawn, too."""
    labels, d = data.labels.tolist(), data.d
    units = [Unit.of(task) for task in data.tasks]
    owns = [unit.applied(task)[0][:d, :d] / task.n for unit, task in zip(units, data.tasks, strict=True)]
    laws = Laws(common_correlations(owns, [task.rows for task in data.tasks]))
    found: list[dict[Any, TaskMoments]] = [{} for _ in range(max(len(data.folds), FOLDS))]
    few = []
    for label, task, unit, own in zip(labels, data.tasks, units, owns, strict=True):
        vary = np.flatnonzero(unit.varies[:d])
        law = Law(np.zeros(d), np.zeros((d, d)), np.zeros((d, d)))
        if vary.size:
            at, share = np.ix_(vary, vary), task.rows / sum(one.rows for one in data.tasks)
            near = laws.near(own[at], vary, task.rows, share)
            law.kept[at], law.root[at] = near.kept, near.root
        if task.rows < vary.size:
            few.append(label)
        parts = [fold[label] if label in fold else None for fold in data.folds]  # noqa: SIM401 (no dict)
        for f, part in enumerate(parts if len(parts) > 1 else draw_folds(task, FOLDS, random)):
            if part is not None:
                sums, means = draw_sums(*unit.applied(part), part.rows, law, random)
                found[f][label] = as_moments(part.rows, sums, means)
    names = np.array([*(f"x{j}" for j in range(d)), *(f"knockoff of x{j}" for j in range(d))])
    folds = [data.total._of_tasks(names, tasks) for tasks in found if tasks]
    return SumsBesideKnockoffs(folds, words_about(data, few))


def as_moments(n: int, sums: Floats, means: Floats) -> TaskMoments:
    return TaskMoments(
        n, float(n), means[:-1], float(means[-1]), 0.0 * means, sums[:-1, :-1], sums[:-1, -1], float(sums[-1, -1])
    )


def words_about(data: MomentData, few: list[Any]) -> tuple[str, ...]:
    """What is approximate about knockoffs, in words."""
    words = []
    if few:
        size = "fewer samples than features, so that correlations are known badly"
        words.append(f"task(s) {names_of(few)} have {size}.")
    two = np.zeros(data.d, dtype=bool)
    for task in data.tasks:
        two |= two_valued(task)
    if two.any():
        words.append(f"knockoffs are normal, but feature(s) {names_of(data.features[two])} have two values only.")
    return tuple(words)


def two_valued(task: TaskMoments) -> np.ndarray:
    """(d,) bool: features that have two values in the task, or, if values were not counted, can be of 0 and 1."""
    d = len(task.mean)
    second = task.xx.diagonal() + task.n * task.mean**2
    out = (task.mean > 0.0) & (task.mean < 1.0) & np.isclose(second, task.n * task.mean, rtol=ALIKE)
    if task.levels is not None:
        two = task.levels.columns[(task.levels.counts > 0).sum(axis=1) == 2]
        out[two[two < d]] = True
    return np.asarray(out)
