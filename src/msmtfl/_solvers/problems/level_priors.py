"""What intercepts that share are drawn to, estimated from the training samples before the fit, whatever lam is.

Squared loss (and others on the scale of the targets). Levels u_i of the tasks are random, and so are slopes, which a pooled
part and deviations make up:

    y_r = a_0 + u_i + (x_r - x_0)'(b + v_i) + e_r,   variances s_u^2 of u_i, s^2 of e_r, ridges on b and v_i

The ridges and s^2 maximise the marginal likelihood of the samples about their tasks' means. Given them, the level of a task
is known with a variance, and s_u^2 and a_0 maximise the restricted likelihood (REML) of these levels, as in a random-effects
meta-analysis. The strength is k = s^2 / s_u^2. All of it needs sums of squares and products only, of at most `FEATURES`
features, those that explain most of the targets.

Other losses. A pooled generalised linear model with random levels: slopes at the mode of a joint fit, s_u by Laplace's
approximation of the marginal likelihood. A sample of weight k has the information k h''(a_0) about a level near a_0, h the
loss, so that k = 1 / (s_u^2 h''(a_0)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from ..._data.designs import Floats, Ints
from ..._data.forms.dense import RowTask
from ..._data.forms.level_rows import LevelPrior
from ..._data.tables import Matrix
from ..._data.task_data import TaskData
from ..._objective.loss_task import LossTask
from ..._objective.losses import Loss, best_level, robust_scale, weighted_median
from ..._objective.problem import Problem

FEATURES = 50  # that slopes are estimated of
NUMBERS = 2**24  # that are held for it
RIDGES = np.append(np.logspace(-2.0, 5.0, 15), np.inf)  # per variance of a column; inf: no such slopes
SOFTEST, STIFFEST = 1e-6, 1e3  # k: in samples, and in samples of the largest task
DIGITS = 3  # of the logarithm of a strength, which samples tell to one or two
ROUNDING = 1e-12  # relative, of sums of weights, which folds get by subtraction
FAR = 3.0  # robust standard deviations from a task's median, beyond which targets of robust losses are cut off
STEPS = 50  # of Newton's method; it takes about five
WIDEST, NARROWEST = 10.0, 0.01  # standard deviations of levels on the scale of a linear predictor that is no target


def squared_prior(parts: Sequence[Any], rows: Sequence[int]) -> LevelPrior:
    """Of centred tasks under squared loss (`Design`s without priors) that have so many rows."""
    weight = weight_of_a_row(np.array([part.n for part in parts]), np.array(rows))
    n = np.array([part.n for part in parts]) / weight
    means = np.array([part.mean for part in parts])
    at = np.asarray(n @ means / n.sum())
    levels = np.array([float(part.intercepts(np.zeros((1, part.d)))[0]) for part in parts])
    within = sum(part.yy for part in parts) / weight
    if n.sum() - len(n) < 1.0:  # a sample per task: nothing tells noise from levels
        return LevelPrior(at, float(n @ levels / n.sum()), weight)
    noise = within / (n.sum() - len(n))
    variances = noise / n
    some = _telling(parts)
    if some.size and within > 0.0:
        noise, levels, variances = _with_slopes(parts, some, n, weight, levels, (means - at)[:, some])
    level, spread = _random_levels(levels, variances)
    return LevelPrior(at, level, weight * _strength(noise, spread, float(n.max())))


def weight_of_a_row(n: Floats, rows: np.ndarray) -> float:
    """What a sample weighs: 1 where weights count samples, else their mean."""
    counts = (np.abs(n - np.rint(n)) <= ROUNDING * n).all() and (n >= rows * (1.0 - ROUNDING)).all()
    return 1.0 if counts else float(n.sum() / rows.sum())


def counted(problem: Problem) -> tuple[Floats, Floats]:
    """(m,): the weight of every task's samples, and how many samples these count as."""
    n = np.array([design.n for design in problem.designs])
    return n, n / weight_of_a_row(n, np.array([target.rows for target in problem.data.targets]))


def _strength(noise: float, spread: float, largest: float) -> float:
    most = STIFFEST * largest
    return float(np.clip(noise / spread, SOFTEST, most)) if spread > 0.0 else most


def _telling(parts: Sequence[Any]) -> Ints:
    """The features that explain most of the targets, each by itself in each of the tasks."""
    gain = np.zeros(parts[0].d)
    for part in parts:
        gain += np.divide(part.c**2, part.squares, out=np.zeros(part.d), where=part.squares > 0.0)
    count = min(FEATURES, int(np.sqrt(NUMBERS / len(parts))))
    order = np.argsort(-gain, kind="stable")[:count]
    return np.sort(order[gain[order] > 0.0])


def _with_slopes(
    parts: Sequence[Any], some: Ints, n: Floats, weight: float, levels: Floats, apart: Floats
) -> tuple[float, Floats, Floats]:
    """The variance of the noise, and the levels (m,) at a common point, from which the tasks' means are `apart`
    (m, features), with their variances."""
    known: dict[int, Floats] = {}
    for part in parts:
        if id(part.same_x) not in known:
            known[id(part.same_x)] = part.gram_block(some, some) / weight
    G = np.array([known[id(part.same_x)] for part in parts])
    c = np.array([part.c[some] for part in parts]) / weight
    total = sum(part.yy for part in parts) / weight
    unit = np.sqrt(G.diagonal(axis1=1, axis2=2).sum(axis=0) / n.sum())
    G, c, apart = G / np.outer(unit, unit), c / unit, apart / unit
    values, vectors = np.linalg.eigh(G)
    values = np.maximum(values, 0.0)
    turned = np.einsum("iab,ia->ib", vectors, c)
    dof = n.sum() - len(n)
    best: Any = (np.inf,)
    for own in RIDGES:
        left = np.ones_like(values) if np.isinf(own) else own / (values + own)  # what deviations leave of a direction
        H = np.einsum("iab,ib,icb->ac", vectors, values * left, vectors)
        h = np.einsum("iab,ib->a", vectors, left * turned)
        rest = total - float((turned**2 / (values + own)).sum())
        bend, basis = np.linalg.eigh(H)
        bend, along = np.maximum(bend, 0.0), basis.T @ h
        for pooled in RIDGES:
            S = max(rest - float((along**2 / (bend + pooled)).sum()), 1e-12 * total)
            value = float(np.log1p(values / own).sum() + np.log1p(bend / pooled).sum() + dof * np.log(S))
            if value < best[0]:
                best = (value, own, pooled, S / dof, left, bend, basis, along)
    _, own, pooled, noise, left, bend, basis, along = best
    b = basis @ (along / (bend + pooled))
    v = np.einsum("iab,ib->ia", vectors, (turned - values * np.einsum("iab,a->ib", vectors, b)) / (values + own))
    seen = np.einsum("iab,ia->ib", vectors, apart)
    of_pooled = np.einsum("iab,ib->ia", vectors, left * seen) @ basis
    doubt = (of_pooled**2 / (bend + pooled)).sum(axis=1) + (seen**2 / (values + own)).sum(axis=1)
    return noise, levels - (apart * (b + v)).sum(axis=1), noise * (1.0 / n + doubt)


def _random_levels(levels: Floats, variances: Floats) -> tuple[float, float]:
    """The mean and the variance (REML) of random levels that are known with these variances."""

    def mean(spread: float) -> tuple[float, Floats]:
        precision = 1.0 / np.maximum(spread + variances, np.finfo(float).tiny)
        weight = precision / precision.max()
        return float(weight @ levels / weight.sum()), precision

    def value(spread: float) -> float:
        middle, precision = mean(spread)
        return float(-np.log(precision).sum() + np.log(precision.sum()) + precision @ (levels - middle) ** 2)

    top = float(np.var(levels))
    if len(levels) < 2 or top == 0.0:
        return mean(0.0)[0], 0.0
    if not (variances > 0.0).all():
        return mean(top)[0], top
    spread = least(lambda log: value(float(np.exp(log))), np.log(1e-8 * top), np.log(1e2 * top))
    spread = float(np.exp(spread))
    spread = spread if value(spread) < value(0.0) else 0.0
    return mean(spread)[0], spread


def least(value: Callable[[float], float], low: float, high: float, points: int = 25) -> float:
    """Where a function of one variable is least, about the best of some points, to `DIGITS` after the point: closer, what is
    found depends on rounding, so that weights and repeated samples would not make the same model."""
    grid = np.linspace(low, high, points)
    k = int(np.argmin([value(one) for one in grid]))
    ends = (grid[max(k - 1, 0)], grid[min(k + 1, points - 1)])
    return round(float(minimize_scalar(value, bounds=ends, method="bounded", options={"xatol": 1e-7}).x), DIGITS)


# ------------------------------------------------------------------ other losses


def loss_priors(data: TaskData, loss: Loss, tasks: Sequence[LossTask] = ()) -> list[LevelPrior]:
    """One per task, the same for all tasks of a class against the rest; `tasks` are those without priors, where the loss
    takes part of its form from them."""
    if loss.linear:
        parts = [RowTask(task.base, _cut(task.y, task.v)) for task in tasks]
        return [squared_prior(parts, [len(task.y) for task in data.tasks])] * data.m
    K = data.classes
    of_class = [loss_prior([data.tasks[i] for i in range(c, data.m, K)], loss) for c in range(K)]
    return [of_class[i % K] for i in range(data.m)]


def _cut(y: Floats, v: Floats) -> Floats:
    """Targets without outliers."""
    middle, reach = weighted_median(y, v), FAR * robust_scale(y, v)
    return np.clip(y, middle - reach, middle + reach)


def loss_prior(tasks: Sequence[Any], loss: Loss) -> LevelPrior:
    """Of tasks (`Task`) under a loss whose linear predictors have another scale than the targets."""
    v = [np.ones(len(task.y)) if task.weight is None else task.weight for task in tasks]
    n, rows = np.array([one.sum() for one in v]), np.array([len(one) for one in v])
    weight = weight_of_a_row(n, rows)
    at = np.asarray(sum(np.asarray(one @ task.X) for one, task in zip(v, tasks, strict=True)) / n.sum())
    y, weights = np.concatenate([task.y for task in tasks]), np.concatenate(v) / weight
    offset = np.concatenate([np.zeros(len(task.y)) if task.offset is None else task.offset for task in tasks])
    beside = float(weights @ offset / weights.sum())
    columns = _columns(tasks, loss, y, weights, at)
    model = _RandomLevels(loss, y, weights, np.repeat(np.arange(len(tasks)), rows), columns, offset)
    spread = 1.0
    for _ in range(2):
        model.slopes(spread)
        log = least(lambda log: model.criterion(float(np.exp(log))), np.log(NARROWEST), np.log(WIDEST), 12)
        spread = float(np.exp(log))
    level = model.level
    information = float(loss.curvature(y[:1], np.array([level + beside]))[0])
    return LevelPrior(at, level, weight * _strength(1.0 / information, spread**2, float(n.max() / weight)), beside)


def _columns(tasks: Sequence[Any], loss: Loss, y: Floats, v: Floats, at: Floats) -> Floats:
    """(samples, features): the columns that tell most of all samples together, centred and of standard deviation 1."""
    pull = v * (y - v @ y / v.sum())
    ends = np.cumsum([len(task.y) for task in tasks])[:-1]
    parts = list(zip(tasks, np.split(pull, ends), np.split(v, ends), strict=True))
    c = sum(np.asarray(part @ task.X) for task, part, _ in parts)
    squares = sum(np.asarray(w @ _squared(task.X)) for task, _, w in parts) - v.sum() * at**2
    live = squares > 1e-12 * v.sum() * at**2
    gain = np.divide(c**2, squares, out=np.zeros(len(at)), where=live)
    count = min(FEATURES, max(1, NUMBERS // len(y)))
    order = np.argsort(-gain, kind="stable")[:count]
    some = np.sort(order[gain[order] > 0.0])
    X = np.concatenate([_dense(task.X[:, some]) for task in tasks])
    return np.asarray((X - at[some]) / np.sqrt(squares[some] / v.sum()))


def _squared(X: Matrix) -> Any:
    sparse: Any = X
    return sparse.multiply(sparse) if hasattr(X, "multiply") else np.square(sparse, dtype=np.float64)


def _dense(X: Matrix) -> Floats:
    sparse: Any = X
    return np.asarray(sparse.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)


class _RandomLevels:
    """A pooled model with levels of the tasks: samples' targets y and weights v, their tasks, columns Z. `level` and `u`
    (m,) are those of the last fit, `offset` the samples' own and what the slopes make of Z."""

    def __init__(self, loss: Loss, y: Floats, v: Floats, task: Ints, Z: Floats, offset: Floats):
        self.loss, self.y, self.v, self.task, self.Z = loss, y, v, task, Z
        self.m = int(task.max()) + 1
        self.offset, self.level, self.u = offset, best_level(loss, y, offset, v), np.zeros(self.m)
        self.beta = np.zeros(Z.shape[1])

    def _objective(self, level: float, u: Floats, offset: Floats, beta: Floats, precision: float) -> float:
        f = level + u[self.task] + offset
        return float(self.v @ self.loss.value(self.y, f) + 0.5 * precision * (u @ u) + 0.5 * (beta @ beta))

    def slopes(self, spread: float) -> None:
        """Fit everything, slopes with a ridge of 1."""
        self._newton(spread, self.Z)

    def criterion(self, spread: float) -> float:
        """Minus Laplace's approximation of the log-likelihood, the slopes being what they are."""
        self._newton(spread, self.Z[:, :0])
        f = self.level + self.u[self.task] + self.offset
        bend = np.bincount(self.task, self.v * self.loss.curvature(self.y, f), self.m)
        inside = 0.5 * np.log1p(spread**2 * bend).sum() + 0.5 * np.log((bend / (1.0 + spread**2 * bend)).sum())
        return self._objective(self.level, self.u, self.offset, 0.0 * self.beta, spread**-2) + float(inside)

    def _newton(self, spread: float, Z: Floats) -> None:
        precision, k = spread**-2, Z.shape[1]
        A = np.column_stack([Z, np.ones(len(Z))])  # the last is the common level
        ridge = np.append(np.ones(k), 0.0)
        held = self.offset - Z @ self.beta[:k]
        z, u = np.append(self.beta[:k], self.level), self.u
        value = self._objective(0.0, u, held + A @ z, z[:k], precision)
        for _ in range(STEPS):
            f = held + A @ z + u[self.task]
            slope, bend = self.v * self.loss.slope(self.y, f), self.v * self.loss.curvature(self.y, f)
            g, gu = A.T @ slope + ridge * z, np.bincount(self.task, slope, self.m) + precision * u
            D = np.bincount(self.task, bend, self.m) + precision
            B = np.array([np.bincount(self.task, bend * column, self.m) for column in A.T])  # (k + 1, m)
            H = A.T @ (bend[:, None] * A) + np.diag(ridge) - (B / D) @ B.T
            H[np.diag_indices(k + 1)] += 1e-10 * (1.0 + H.diagonal())
            dz = np.linalg.solve(H, g - B @ (gu / D))
            du = (gu - dz @ B) / D
            t, new = 1.0, np.inf
            while t > 1e-6:
                new = self._objective(0.0, u - t * du, held + A @ (z - t * dz), (z - t * dz)[:k], precision)
                if new <= value:
                    break
                t *= 0.5
            else:
                break
            z, u, gain, value = z - t * dz, u - t * du, value - new, new
            if gain <= 1e-10 * (1.0 + abs(value)):
                break
        self.level, self.u, self.offset = float(z[k]), u, held + Z @ z[:k]
        if k:
            self.beta = z[:k]
