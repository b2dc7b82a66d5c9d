"""Relative duality gaps and optimality conditions of all models, from raw data and an answer, in extended precision.

All is numpy's longdouble (on x86 19 digits, against 16 of float64), where data and answers are exact. The gap of an answer
is (primal - dual) / (loss at W = 0), summed over tasks. Any dual point proves a bound, so several are tried and the smallest
gap is the one reported: it is never less than the distance of the answer from the optimum.

Two rules of the package define what the problem is, and are repeated here: a column whose spread is below 1e-13 of its mean
is constant, and un-penalised columns that agree in all but the last digits (at a distance below `DEPENDENT` of their length;
in statistics, which hold squares, a larger one) are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

LD = np.longdouble
CONSTANT = LD(1e-13)  # spread over mean of a column, up to which it is constant
DEPENDENT = LD(5e-14)  # what is left of a unit-length column, up to which it depends on others
# Weights, as shares of |x_j| |r|, up to which dual points are made orthogonal to columns.
PROVED = LD(1e-13)  # of the loss at 0: no better dual point is looked for
HELD = (0.0, 1e-15, 1e-12, 1e-9, 1e-7, 1e-5, 1e-4, 1e-3)
# Shares of dual points that are tried, to be in the range of slopes.
SHRINK = (1.0, 1.0 - 1e-12, 1.0 - 1e-9, 1.0 - 1e-6, 1.0 - 1e-3, 0.5)
# Slopes of coefficients that may not be negative and are 0, up to which dual points are made orthogonal to their columns; of
# two columns that are nearly copies one alone may have to be.
AT_ZERO = (LD(1e-9), LD(1e-12), LD(1e-15))
ESCAPED = (0.0, 1e-12, 1e-9, 1e-6)  # slopes, as shares of the largest, up to which dual points are 0 in a row
MISSED = 1e-16  # of the equations of un-penalised columns, per length of a dual point, that is rounding in any case
NEARLY = 1e-13  # the same, up to which nearly dependent columns may be the reason
LOOSE = 1e4  # a gap of so many times PROVED is none that rounding leaves
INF = LD(np.inf)


class Task(NamedTuple):
    """One task's data in extended precision: X and y centred (if there is an intercept) and times the roots of the weights,
    n the sum of the weights; and as they came, with the weights v."""

    X: np.ndarray
    y: np.ndarray
    n: LD
    raw: np.ndarray
    target: np.ndarray
    v: np.ndarray
    centre: bool
    dependent: LD


def task_of(X, y, weight=None, centre=True, dependent=DEPENDENT) -> Task:
    raw, target = np.asarray(X, dtype=np.float64).astype(LD), np.asarray(y, dtype=np.float64).astype(LD)
    v = np.ones(len(target), dtype=LD) if weight is None else np.asarray(weight, dtype=np.float64).astype(LD)
    keep = v > 0
    raw, target, v = raw[keep], target[keep], v[keep]
    Z, z, n = raw, target, v.sum()
    if centre:
        mean = v @ Z / n
        Z = Z - mean
        Z = Z - v @ Z / n
        Z[:, v @ Z**2 <= CONSTANT**2 * n * mean**2] = 0.0
        z = z - v @ z / n if np.ptp(z) else 0.0 * z
    root = np.sqrt(v)
    return Task(Z * root[:, None], z * root, n, raw, target, v, centre, LD(dependent))


# ------------------------------------------------------------------ linear algebra


def factorised(Z, dependent=DEPENDENT):
    """Q, R and the order of the columns that were taken: the independent ones of Z (of unit length), largest rest first."""
    Z = Z.copy()
    rest = np.sqrt((Z**2).sum(axis=0))
    Q, R, order = [], [], []
    while rest.size and rest.max() > dependent and len(order) < min(Z.shape):
        j = int(np.argmax(rest))
        q = Z[:, j] / rest[j]
        for other in Q:
            q = q - other * (other @ q)
        q = q / np.sqrt(q @ q)
        row = q @ Z
        Z -= np.outer(q, row)
        again = q @ Z
        Z -= np.outer(q, again)
        Q.append(q)
        R.append(row + again)
        order.append(j)
        Z[:, j] = 0.0
        rest = np.sqrt((Z**2).sum(axis=0))
    if not order:
        return np.zeros((len(Z), 0), dtype=LD), np.zeros((0, 0), dtype=LD), np.zeros(0, dtype=int)
    # a column's entry in the row of its own q is what was left of it; later rows have none of it
    return np.array(Q).T, np.triu(np.array(R)[:, order]), np.array(order)


def solved(R, b, transposed=False):
    """R z = b, or R'z = b, for an upper triangle R."""
    z, k = b.astype(LD).copy(), len(b)
    for t in range(k) if transposed else range(k - 1, -1, -1):
        if transposed:
            z[t] = (z[t] - R[:t, t] @ z[:t]) / R[t, t]
        else:
            z[t] = (z[t] - R[t, t + 1 :] @ z[t + 1 :]) / R[t, t]
    return z


def lengths(X):
    return np.sqrt((X**2).sum(axis=0))


def orthogonal(r, X, dependent=DEPENDENT):
    """r less its projection on the columns of X."""
    length = lengths(X)
    Q, _, _ = factorised(X[:, length > 0] / length[length > 0], dependent)
    for _ in range(2):
        r = r - Q @ (Q.T @ r)
    return r


def share(gap, unit):
    if unit == 0:
        return 0.0 if gap == 0 else float("inf")
    return float(gap / unit)


# ------------------------------------------------------------------ weighted lassos


def penalty_of(w, a):
    used = w != 0
    return (a[used].astype(LD) * np.abs(w[used])).sum() if used.any() else LD(0)


def lasso_gap_of_task(task, w, a, positive=False):
    """P - D of  1/2 |y - Xw|^2 + sum_j a_j |w_j|,  a_j in [0, inf]."""
    X, y, w, a = task.X, task.y, np.asarray(w, dtype=LD), np.asarray(a, dtype=LD)
    if np.any((w != 0) & np.isinf(a)) or (positive and np.any(w < 0)) or not np.isfinite(w).all():
        return INF
    r, length = y - X @ w, lengths(X)
    best = r @ r / 2 + penalty_of(w, a)  # of the dual point 0
    seen = None
    for close, at_zero in product(HELD, AT_ZERO if positive else (LD(0),)):
        held = (a <= LD(close) * length * np.sqrt(r @ r)) & (length > 0)
        if positive:
            held &= (w > 0) | (X.T @ r > -at_zero * length * np.sqrt(y @ y))
        if seen is not None and np.array_equal(held, seen):
            continue
        seen = held
        p = orthogonal(r, X[:, held], task.dependent) if held.any() else r
        best = min(best, _gap_at(p, np.where(held, LD(0), X.T @ p), r, y, w, a, positive))
    if best > PROVED * (y @ y) / 2 and np.any(w != 0):
        p = stationary(r, X, np.where(w != 0, np.where(np.isfinite(a), a, 0) * np.sign(w), 0), (w != 0) | (a == 0))
        best = min(best, _gap_at(p, np.where(a == 0, LD(0), X.T @ p), r, y, w, a, positive))
    return best


def _gap_at(p, g, r, y, w, a, positive):
    """The gap that a dual point p proves, X'p being g, once it is scaled to be feasible."""
    size = g if positive else np.abs(g)
    over = (size > 0) & np.isfinite(a)
    most = np.min(a[over] / size[over], initial=INF)
    pp, best = p @ p, INF
    t = min(max(y @ p, LD(0)) / pp, most) if pp > 0 else LD(0)
    for scale in {t, min(LD(1), most)}:
        u = r - scale * p
        terms = np.where(w != 0, np.where(np.isfinite(a), a, 0) * np.abs(w) - scale * w * g, 0)
        best = min(best, u @ u / 2 + terms.sum())
    return best


def stationary(r, X, slopes, used):
    """The point nearest to r at which the products with the columns in use are their slopes: the residual of the exact
    minimiser, where large coefficients of nearly equal columns have cost r itself its digits."""
    length = lengths(X)
    at = np.flatnonzero(used & (length > 0))
    Q, R, order = factorised(X[:, at] / length[at], LD(0))
    for _ in range(2):
        r = r - Q @ (Q.T @ r)
    return r + Q @ solved(R, (slopes[at] / length[at])[order], transposed=True)


def lasso_gap(tasks: Sequence[Task], W, A, positive=False):
    """Of W (m, d) for weights A (m, d) of the tasks' own sums (see `lasso_gap_of_task`)."""
    gaps = [lasso_gap_of_task(task, w, a, positive) / task.n for task, w, a in zip(tasks, W, A, strict=True)]
    return share(sum(gaps), sum(task.y @ task.y / (2 * task.n) for task in tasks))


def lasso_violation(tasks: Sequence[Task], W, A, positive=False):
    """Largest violation of the optimality conditions, as a correlation."""
    worst = LD(0)
    for task, w, a in zip(tasks, W, A, strict=True):
        w, a = np.asarray(w, dtype=LD), np.asarray(a, dtype=LD)
        g, length = task.X.T @ (task.y - task.X @ w), lengths(task.X) * np.sqrt(task.y @ task.y)
        live = (length > 0) & np.isfinite(a)
        beyond = np.maximum((g if positive else np.abs(g)) - a, 0)
        wrong = np.where(w != 0, np.abs(g - np.where(live, a, 0) * np.sign(w)), beyond)
        worst = max(worst, np.max(wrong[live] / length[live], initial=LD(0)))
    return float(worst)


# ------------------------------------------------------------------ norms of rows; W and G are (d, m), factors f (d, m)


def counts(f):
    return (f > 0) & np.isfinite(f)


def divided(G, f):
    return np.where(counts(f), G / np.where(counts(f), f, 1), 0)


class Group(NamedTuple):
    """a_j |f_j w^j|_2, a_j in [0, inf)"""

    a: np.ndarray
    f: np.ndarray

    def values(self, W):
        return self.a * np.sqrt(((np.where(counts(self.f), self.f, 0) * W) ** 2).sum(axis=1))

    def duals(self, G):
        sizes = np.sqrt((divided(G, self.f) ** 2).sum(axis=1))
        return np.where(self.a > 0, sizes / np.where(self.a > 0, self.a, 1), 0)

    def free(self):
        return ((self.a == 0)[:, None] | (self.f == 0)) & np.isfinite(self.f)


class Dirty(NamedTuple):
    """min over s + b = w of  lam_s sum_i f_i |s_i| + lam_b max_i f_i |b_i|"""

    lam_s: float
    lam_b: float
    f: np.ndarray

    def values(self, W):
        sizes = np.where(counts(self.f), self.f, 0) * np.abs(W)
        levels = np.concatenate([np.zeros((len(W), 1), dtype=LD), sizes], axis=1)  # of b: one of them is best
        above = np.maximum(sizes[:, :, None] - levels[:, None, :], 0).sum(axis=1)
        return (LD(self.lam_s) * above + LD(self.lam_b) * levels).min(axis=1)

    def duals(self, G):
        sizes = np.abs(divided(G, self.f))
        return np.maximum(sizes.sum(axis=1) / LD(self.lam_b), sizes.max(axis=1) / LD(self.lam_s))

    def free(self):
        return self.f == 0


class Shared(NamedTuple):
    """min over b of  c_j |b| + a_j sum_i f_ji |w_ji - b|,  a_j, c_j in [0, inf]"""

    a: np.ndarray
    c: np.ndarray
    f: np.ndarray

    def deviation(self):
        with np.errstate(invalid="ignore"):
            return np.where(counts(self.f), self.a[:, None] * np.where(counts(self.f), self.f, 1), 0)

    def values(self, W):
        A, out = self.deviation(), []
        for w, a, c in zip(W, A, self.c, strict=True):
            levels = [LD(0), *w]
            out.append(
                min(_cost(c, b) + sum(_cost(one, w_i - b) for one, w_i in zip(a, w, strict=True)) for b in levels)
            )
        return np.array(out)

    def duals(self, G):
        A = self.deviation()
        G = np.where(A > 0, G, 0)
        apart = np.where(A > 0, np.abs(G) / np.where(A > 0, A, 1), 0).max(axis=1)
        together = np.abs(G.sum(axis=1))
        return np.maximum(apart, np.where(together > 0, together / np.where(self.c > 0, self.c, LD(1e-300)), 0))

    def free(self):
        return ((self.a == 0)[:, None] | (self.f == 0)) & np.isfinite(self.f)


def _cost(weight, x):
    return LD(0) if x == 0 else LD(weight) * abs(x)


def rows_gap(tasks: Sequence[Task], W, norm):
    """Of W (m, d) for  sum_i 1/(m n_i) |y_i - X_i w_i|^2 + sum_j N(w^j)."""
    m, W = len(tasks), np.asarray(W, dtype=LD)
    if np.any(W.T[np.isinf(norm.f)] != 0) or not np.isfinite(W).all():
        return float("inf")
    kappa = [2 / (m * task.n) for task in tasks]
    unit = sum(k * (task.y @ task.y) / 2 for k, task in zip(kappa, tasks, strict=True))
    r = [task.y - task.X @ w for task, w in zip(tasks, W, strict=True)]
    live = np.array([lengths(task.X) > 0 for task in tasks]).T & np.isfinite(norm.f)
    free, cost = norm.free() & live, norm.values(W.T)
    best = sum(k * (one @ one) / 2 for k, one in zip(kappa, r, strict=True)) + cost.sum()
    # what rounding may leave of a gradient: the residual has that of the targets, however small it is itself
    sizes = [np.sqrt(one @ one) + 1e-13 * np.sqrt(task.y @ task.y) for task, one in zip(tasks, r, strict=True)]
    noise = np.array([k * lengths(task.X) * size for k, task, size in zip(kappa, tasks, sizes, strict=True)]).T
    for close in (*HELD, None):  # at last all columns: the bound of least squares, which is feasible in any case
        if best <= PROVED * unit:
            break
        every = np.ones(len(cost), dtype=bool)
        tight = every if close is None else LD(close) * norm.duals(np.where(live & ~free, noise, 0)) >= 1
        held = (tight[:, None] & live) | free
        p = [
            orthogonal(one, task.X[:, h], task.dependent) if h.any() else one
            for task, one, h in zip(tasks, r, held.T, strict=True)
        ]
        G = np.array([k * (task.X.T @ one) for k, task, one in zip(kappa, tasks, p, strict=True)]).T
        G = np.where(live & ~held, G, 0)
        top = norm.duals(G).max(initial=LD(0))
        most = 1 / top if top > 0 else INF
        pp = sum(k * (one @ one) for k, one in zip(kappa, p, strict=True))
        py = sum(k * (one @ task.y) for k, task, one in zip(kappa, tasks, p, strict=True))
        for scale in {min(max(py, LD(0)) / pp, most) if pp > 0 else LD(0), min(LD(1), most)}:
            apart = [one - scale * other for one, other in zip(r, p, strict=True)]
            loss = sum(k * (one @ one) / 2 for k, one in zip(kappa, apart, strict=True))
            best = min(best, loss + (cost - scale * (W.T * G).sum(axis=1)).sum())
    return share(best, unit)


def rows_violation(tasks: Sequence[Task], W, norm):
    """How far the gradient g^j of every row is from the subdifferential of the norm: dual(g^j) <= 1, g^j'w^j = N(w^j), and 0
    where entries are free; as correlations."""
    m, W = len(tasks), np.asarray(W, dtype=LD)
    G = np.array([2 / (m * t.n) * (t.X.T @ (t.y - t.X @ w)) for t, w in zip(tasks, W, strict=True)]).T
    size = np.array([2 / (m * t.n) * lengths(t.X) * np.sqrt(t.y @ t.y) for t in tasks]).T
    live = (size > 0) & np.isfinite(norm.f)
    correlation = np.where(live, np.abs(G) / np.where(live, size, 1), 0)
    free = norm.free() & live
    inner = np.where(live & ~free, G, 0)
    beyond, value = np.maximum(norm.duals(inner) - 1, 0), norm.values(W.T)
    slack = np.where(value > 0, np.abs(value - (inner * W.T).sum(axis=1)) / np.where(value > 0, value, 1), 0)
    coupled = np.maximum(beyond, slack) * np.where(free, 0, correlation).max(axis=1)
    return float(max(coupled.max(initial=LD(0)), np.where(free, correlation, 0).max(initial=LD(0))))


# ------------------------------------------------------------------ other losses


def half_deviance(loss, y, f, scale):
    """h(y, f); scale is that of Huber's loss, in the units of y."""
    with np.errstate(over="ignore", invalid="ignore"):
        if loss == "logistic":
            return np.logaddexp(LD(0), np.where(y > 0.5, -f, f))
        if loss == "poisson":
            return np.exp(f) - y * f + xlogx(y) - y
        if loss == "gamma":
            above = f - np.log(y)
            return np.expm1(-above) + above
        if loss == "tweedie":  # of power 1.5
            z, root = np.exp(f / 2), np.sqrt(y)
            return np.where(z > 0, 2 * (z - root) ** 2 / np.where(z > 0, z, 1), np.where(y > 0, INF, 0))
    size = np.abs(y - f)
    return np.where(size <= scale, size**2 / 2, scale * size - scale**2 / 2)


def slope_of(loss, y, f, scale):
    with np.errstate(over="ignore"):
        if loss == "logistic":
            return np.where(y > 0.5, -1 / (1 + np.exp(f)), 1 / (1 + np.exp(-f)))
        if loss == "poisson":
            return np.exp(f) - y
        if loss == "gamma":
            return -np.expm1(np.log(y) - f)
        if loss == "tweedie":
            return np.exp(f / 2) - y * np.exp(-f / 2)
    return np.clip(f - y, -scale, scale)


def bend_of(loss, y, f, scale):
    with np.errstate(over="ignore"):
        if loss == "logistic":
            return 1 / (1 + np.exp(f)) / (1 + np.exp(-f))
        if loss == "poisson":
            return np.exp(f)
        if loss == "gamma":
            return np.exp(np.log(y) - f)
        if loss == "tweedie":
            return np.exp(f / 2) / 2 + y * np.exp(-f / 2) / 2
    return (np.abs(y - f) < scale).astype(LD)


def conjugate_of(loss, y, s, scale):
    """sup over f of s f - h(y, f)"""
    if loss == "logistic":
        t = np.where(y > 0.5, -s, s)  # the probability of the other class
        return np.where((t >= 0) & (t <= 1), xlogx(np.clip(t, 0, 1)) + xlogx(np.clip(1 - t, 0, 1)), INF)
    if loss == "poisson":
        q = y + s
        return np.where(q >= 0, xlogx(np.maximum(q, 0)) - q - xlogx(y) + y, INF)
    if loss == "gamma":
        q = 1 - s  # y e^-f where s is the slope
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(
                q > 0, s * (np.log(y) - np.log(q)) - q + 1 + np.log(q), np.where(q == 0, 1 + np.log(y), INF)
            )
    if loss == "tweedie":
        far = np.sqrt(s**2 + 4 * y)
        z = np.where(s >= 0, (s + far) / 2, 2 * y / np.where(s < 0, far - s, 1))  # e^(f/2) where s is the slope
        with np.errstate(divide="ignore", invalid="ignore"):
            found = s * 2 * np.log(z) - 2 * (z - np.sqrt(y)) ** 2 / z
        return np.where(z > 0, found, np.where((y == 0) & (s == 0), 0, INF))
    return np.where(np.abs(s) <= scale, s * y + s**2 / 2, INF)


def xlogx(x):
    return np.where(x > 0, x * np.log(np.where(x > 0, x, 1)), 0)


def null_loss(task, loss, scale):
    """sum_r v_r h(y_r, b) at the best b; at 0 if the model has no intercept."""
    b = LD(0)
    if task.centre:
        low, high = LD(-1), LD(1)
        while (task.v * slope_of(loss, task.target, 0 * task.target + low, scale)).sum() > 0:
            low *= 2
        while (task.v * slope_of(loss, task.target, 0 * task.target + high, scale)).sum() < 0:
            high *= 2
        for _ in range(300):
            b = (low + high) / 2
            if b in (low, high):
                break
            rising = (task.v * slope_of(loss, task.target, 0 * task.target + b, scale)).sum() > 0
            low, high = (low, b) if rising else (b, high)
    return (task.v * half_deviance(loss, task.target, 0 * task.target + b, scale)).sum()


def loss_gap_of_task(task, w, intercept, a, loss, scale=1.0, positive=False, enough=0.0):
    """P - D of  sum_r v_r h(y_r, x_r'w + b) + sum_j a_j |w_j|;  NaN if no dual point meets the equations of columns that
    leave it no room, as these are too nearly dependent, or if those that might have proven the answer miss them by a few
    roundings: then nothing is known. Every dual point proves its gap: none is tried after one of at most `enough`."""
    w, a, scale, y, v = np.asarray(w, dtype=LD), np.asarray(a, dtype=LD), LD(scale), task.target, task.v
    if np.any((w != 0) & np.isinf(a)) or (positive and np.any(w < 0)) or not np.isfinite(w).all():
        return INF
    X = task.X / np.sqrt(v)[:, None]  # centred, so that sums of u cost no digits
    f = task.raw @ w + LD(intercept)
    f = (
        _digits_of_intercept(task, f, loss, scale, np.abs(task.raw * w).max(initial=abs(LD(intercept))))
        if task.centre
        else f
    )
    slope, bend = slope_of(loss, y, f, scale), bend_of(loss, y, f, scale)
    value, length = (v * half_deviance(loss, y, f, scale)).sum(), lengths(task.X)
    best = value + penalty_of(w, a)
    size_of_slope = np.sqrt((v * slope**2).sum())
    judged, lost = best == 0, False
    down = -(X.T @ (-v * slope)) / np.where(length > 0, length * size_of_slope, 1)
    used = (w != 0) & (length > 0) & np.isfinite(a)
    for close, at_zero, exact in product(HELD, AT_ZERO if positive else (LD(0),), (False, True)):
        held = (a <= LD(close) * length * size_of_slope) & (length > 0)
        if positive:
            held &= (w > 0) | (down < at_zero)
        at = held | used if exact else held  # exact: the slopes of coefficients in use are made what they should be
        C, aim = X[:, at] / length[at], np.where(held, LD(0), np.where(used, a, LD(0)) * np.sign(w))[at] / length[at]
        if task.centre:
            C, aim = np.column_stack([C, np.ones(len(y), dtype=LD) / np.sqrt(task.n)]), np.append(aim, LD(0))
        for escaped in ESCAPED:
            gone = np.abs(slope) <= LD(escaped) * np.abs(slope).max()
            s = _balanced(C, v, np.where(gone, 0, bend), np.where(gone, 0, -slope), aim)
            u = v * s
            missed = np.abs(C.T @ u - aim).max(initial=LD(0)) / np.sqrt((v * s**2).sum()) if s.any() else LD(0)
            if missed > MISSED:
                lost |= bool(missed <= NEARLY)
                continue
            judged = True
            g = np.where(held, LD(0), X.T @ u)
            size = g if positive else np.abs(g)
            over = (size > 0) & np.isfinite(a)
            most = min(LD(1), np.min(a[over] / size[over], initial=INF))
            for shrink in SHRINK:
                t = LD(shrink) * most
                excess = half_deviance(loss, y, f, scale) + conjugate_of(loss, y, -t * s, scale) + t * s * f
                terms = np.where(w != 0, np.where(np.isfinite(a), a, 0) * np.abs(w) - t * w * g, 0).sum()
                gap = (v * excess).sum() + terms
                best = min(best, gap) if np.isfinite(gap) else best
                if best <= enough:
                    return best
    unknown = not judged or (lost and best > LOOSE * enough)
    return LD(np.nan) if unknown else best


def _digits_of_intercept(task, f, loss, scale, terms):
    """f with the digits of the intercept that float64 has no room for: where targets are far from 0, or columns, these may
    be all that there is of the targets' spread. A Newton step is taken only if it is rounding of `terms`, the largest
    of those that f is a sum of."""
    y, v = task.target, task.v
    for _ in range(3):
        bend = (v * bend_of(loss, y, f, scale)).sum()
        if not bend > 0:
            break
        step = -(v * slope_of(loss, y, f, scale)).sum() / bend
        if not abs(step) <= LD(2.0**-48) * terms:
            break
        f = f + step
    return f


def _balanced(C, v, bend, s, aim):
    """s - h'' C z  with  C'v(s - h'' C z) = aim"""
    if not C.shape[1]:
        return s
    B = np.sqrt(v * bend)[:, None] * C
    size = lengths(B)
    live = np.flatnonzero(size > 0)
    _, R, order = factorised(B[:, live] / size[live])
    at = live[order]
    for _ in range(4):
        e = (C.T @ (v * s) - aim)[at] / size[at]
        s = s - bend * (C[:, at] @ (solved(R, solved(R, e, transposed=True)) / size[at]))
    return s


def loss_gap(tasks: Sequence[Task], W, intercepts, A, loss, scales=None, positive=False):
    """Of W (m, d) and intercepts (m,) for weights A (m, d); `scales` (m,) are Huber's, in the units of y."""
    scales = np.ones(len(tasks)) if scales is None else scales
    nulls, gaps = [null_loss(task, loss, LD(scale)) for task, scale in zip(tasks, scales, strict=True)], []
    for task, w, b, a, scale, null in zip(tasks, W, intercepts, A, scales, nulls, strict=True):
        gaps.append(loss_gap_of_task(task, w, b, a, loss, scale, positive, PROVED * null) / task.n)
    return share(sum(gaps), sum(null / task.n for null, task in zip(nulls, tasks, strict=True)))


def loss_violation(tasks: Sequence[Task], W, intercepts, A, loss, scales=None):
    """Largest violation of the optimality conditions, as a correlation with the slopes at W = 0."""
    scales, worst = np.ones(len(tasks)) if scales is None else scales, LD(0)
    for task, w, b, a, scale in zip(tasks, W, intercepts, A, scales, strict=True):
        w, a = np.asarray(w, dtype=LD), np.asarray(a, dtype=LD)
        u = -task.v * slope_of(loss, task.target, task.raw @ w + LD(b), LD(scale))
        X, size = task.X / np.sqrt(task.v)[:, None], np.sqrt((u**2 / task.v).sum())
        g, length = X.T @ u, lengths(task.X) * size
        live = (length > 0) & np.isfinite(a)
        wrong = np.where(w != 0, np.abs(g - np.where(live, a, 0) * np.sign(w)), np.maximum(np.abs(g) - a, 0))
        worst = max(worst, np.max(wrong[live] / length[live], initial=LD(0)))
        if task.centre and size > 0:
            worst = max(worst, abs(u.sum()) / (size * np.sqrt(task.n)))
    return float(worst)
