"""Random fits of every family under every loss and option, each judged in extended precision by `oracles.composite`.

    python tests/fuzz_families.py                               # 200 fits
    python tests/fuzz_families.py --fits 5000 --seed 7          # others
    python tests/fuzz_families.py --only 1234                   # one of them once more, in full
    python tests/fuzz_families.py --families armul --losses cox
    python tests/fuzz_families.py --hard --fits 20000           # what losses find hard

`fuzz_fits.py` takes lassos and rows to the ends of the range of floats; here all that can be combined is: partial pooling,
the pretrained lasso, robust models and coupled ones, with counts, amounts, classes and times until an event, with groups of
features, bounds, ridges, intercepts that share, offsets and weights, on data with copies, constant and nearly dependent
columns. With --hard, targets are those that a loss finds hard: classes that a plane separates, tasks with one class or with
one sample of a class, counts and amounts that are all 0 or far apart, survival times that are nearly all tied or censored;
and columns have scales from 1e-8 to 1e8. Failures are
    a lie        a gap of at most tol is claimed, and a point is known that is better by more than 1e-8
    no gap       a claimed gap that is negative or not a number
    in words     converged_, stopping_reason_ and the certificate do not agree
    a value      objective_ is not the value of what the documentation says is minimised
    an error     that is not one of those documented, or a warning of numpy's
    silence      an answer without a certificate, and no warning that says so
Certified answers are confirmed where the oracle proves that nothing is better by more than 1e-8, or else not judged. Most
are confirmed by a dual point made of the answer itself (`Composite.near`); only the others are looked at for long.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import fuzz_fits
import numpy as np
from oracles.composite import Block, Composite, Exponentials, Separable
from sklearn.exceptions import ConvergenceWarning

import msmtfl
from msmtfl._estimators.pretrained import fit as pretrained_fit

LD = np.longdouble
LIE = fuzz_fits.LIE
FAMILIES = ("lasso", "msmtfl", "l12", "dirty", "shared", "pooling", "armul", "rmtfl", "pretrained")
LOSSES = ("squared", "huber", "poisson", "gamma", "tweedie", "cox", "logistic", "softmax")
COLUMNS = ("plain", "scales", "copies", "near", "constant", "far", "low rank", "one-hot", "rounded")
HARD = {
    "squared": ("exact", "alike", "far apart"),
    "huber": ("exact", "alike", "far apart"),
    "poisson": ("zeros", "one that is not 0", "far apart", "alike"),
    "gamma": ("far apart", "alike"),
    "tweedie": ("zeros", "one that is not 0", "far apart", "alike"),
    "logistic": ("separable", "one class", "one of a class"),
    "softmax": ("separable", "one class", "one of a class"),
    "cox": ("tied", "censored", "no event", "tied and censored", "in order"),
}
CLASSIFIERS = {"msmtfl", "l12", "dirty", "shared", "pooling"}
DOCUMENTED = (
    *fuzz_fits.DOCUMENTED,
    "is not possible with",
    "no minimiser",
    "must be",
    "needs an intercept",
    "otherwise",
    "at least",
    "targets that are all 0",
)


@dataclass
class Data:
    X: np.ndarray
    y: np.ndarray
    task: np.ndarray
    weight: np.ndarray | None
    offset: np.ndarray | None
    loss: str
    kinds: str

    @property
    def m(self) -> int:
        return len(np.unique(self.task))


@dataclass
class Report:
    seed: int
    name: str = ""
    failures: list[str] = field(default_factory=list)
    refused: str = ""
    lines: list[str] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)


# ------------------------------------------------------------------ data and models


def make_data(loss: str, rng: np.random.Generator, hard: bool = False) -> Data:
    m, d = int(rng.integers(1, 5)), int(rng.choice([1, 2, 3, 5, 8]))
    kind = str(rng.choice(COLUMNS))
    sizes = rng.integers(4 if loss in ("squared", "huber") else 8, 26, m)
    Xs = [fuzz_fits.columns(kind, int(n), d, rng) for n in sizes]
    X, task = np.concatenate(Xs), np.repeat(np.arange(m), sizes)
    if kind == "scales" and not hard:
        X = np.sign(X) * np.abs(X) ** 0.25
    if kind == "far":
        X = np.sign(X) * np.abs(X) ** 0.3
    spread = np.maximum(X.std(axis=0), 1e-9 * np.abs(X).max(axis=0, initial=0.0) + 1e-200)
    truth = (rng.random(d) < 0.5) * rng.standard_normal((m, d)) * 0.5 + (rng.random(d) < 0.5) * rng.standard_normal(d)
    Z = (X - X.mean(axis=0)) / spread
    f = np.clip((Z * truth[task]).sum(axis=1), -4, 4) + rng.standard_normal(m)[task]
    offset = rng.standard_normal(len(f)) if rng.random() < 0.25 and loss != "softmax" else None
    f = f if offset is None else f + offset
    N = len(f)
    how = str(rng.choice(["noise", "noise", "exact", "outliers", "null"]))
    f = 0 * f if how == "null" else f
    if loss in ("squared", "huber"):
        noise = rng.standard_t(1.5, N) if how == "outliers" else rng.standard_normal(N)
        y = f + (how != "exact") * float(10.0 ** rng.uniform(-3, 0.5)) * noise
    elif loss == "poisson":
        y = rng.poisson(np.exp(np.clip(f, -3, 4))).astype(float)
    elif loss == "gamma":
        y = np.exp(f) * (1.0 if how == "exact" else rng.gamma(1.0, 1.0, N)) + 1e-300
    elif loss == "tweedie":
        y = np.where(rng.random(N) < 0.3, 0.0, np.exp(f) * rng.gamma(1.0, 1.0, N))
    elif loss == "logistic":
        y = (f + rng.logistic(size=N) * (how != "exact") > 0).astype(float)
    elif loss == "softmax":
        g = np.column_stack([f, -f + Z[:, 0] * (d > 1), 0 * f]) + rng.gumbel(size=(N, 3))
        y = g.argmax(axis=1).astype(float)
        y[:3] = [0, 1, 2]
    else:
        times = rng.exponential(np.exp(-f))
        times = np.maximum(np.round(times, 1), 0.1) if rng.random() < 0.5 else times + 1e-6
        y = np.column_stack([times, rng.random(N) < 0.7])
    if hard:
        how = harden(loss, y, f, task, rng)
        if loss == "softmax" and len(np.unique(y)) < 3:
            y[:3] = [0, 1, 2]
    weight = None
    if rng.random() < 0.25:
        weight = rng.choice([1.0, 2.0, 0.3, 0.01], N)
    return Data(X, y, task, weight, offset, loss, f"{kind}, y {how}")


def harden(loss: str, y: np.ndarray, f: np.ndarray, task: np.ndarray, rng: np.random.Generator) -> str:
    """Make the targets of one task, or of all, hard for their loss; with a word for how."""
    how = str(rng.choice(HARD[loss]))
    some = np.unique(task) if rng.random() < 0.3 else [int(rng.integers(task.max() + 1))]
    for at in (np.flatnonzero(task == i) for i in some):
        n = len(at)
        if how == "separable":
            y[at] = (
                (f[at] > np.median(f[at])) if loss == "logistic" else np.digitize(f[at], np.quantile(f[at], [0.3, 0.7]))
            )
        elif how == "one class":
            y[at] = float(rng.integers(2))
        elif how == "one of a class":
            y[at] = 0.0
            y[rng.choice(at)] = 1.0
        elif how == "zeros":
            y[at] = 0.0
        elif how == "one that is not 0":
            y[at] = 0.0
            y[rng.choice(at)] = 3.0
        elif how == "far apart":
            y[at] = (y[at] + (loss == "gamma")) * 10.0 ** rng.integers(0, 7, n)
        elif how == "alike":
            y[at] = 2.5
        elif how == "exact":
            y[at] = f[at]
        elif how == "tied":
            y[at, 0] = rng.integers(1, 3, n)
        elif how == "censored":
            y[at, 1] = 0.0
            y[rng.choice(at), 1] = 1.0
        elif how == "no event":
            y[at, 1] = 0.0
        elif how == "tied and censored":
            y[at, 0], y[at, 1] = rng.integers(1, 4, n), rng.random(n) < 0.1
        elif how == "in order":  # the least time has the largest risk, and so on
            y[at[np.argsort(-f[at])], 0], y[at, 1] = np.arange(1.0, n + 1), 1.0
    return how


def make_model(family: str, data: Data, rng: np.random.Generator) -> Any:
    d, m, loss = data.X.shape[1], data.m, data.loss
    target = data.y[:, 1] if loss == "cox" else data.y
    top = max(
        2.0 / (m * at.sum()) * float(np.abs((data.X[at] - data.X[at].mean(axis=0)).T @ target[at]).max())
        for at in (data.task == i for i in range(m))
    )
    lam = float(max(top, 1e-12) * 10.0 ** rng.uniform(float(rng.choice([-2.0, -2.0, -5.0])), 0.3))
    near = [float(lam * 10.0 ** rng.uniform(-1, 1)) for _ in range(2)]
    options: dict[str, Any] = {"fit_intercept": bool(rng.random() < 0.8), "standardize": bool(rng.random() < 0.3)}
    factors = None
    if rng.random() < 0.4:
        flat = family not in ("lasso", "msmtfl", "l12", "dirty") or rng.random() < 0.5
        factors = rng.choice([1.0, 1.0, 0.5, 3.0, 0.0, np.inf], d if flat else (d, m))
    options["penalty_factors"] = factors
    if options["fit_intercept"] and rng.random() < 0.5:
        options["intercepts"] = str(rng.choice(["shrunk", "common"]))
        if family in ("pooling", "armul", "rmtfl"):
            options["intercepts"] = "shrunk"
    if loss in ("cox", "softmax"):
        options["intercepts"] = "task"
    if family in ("lasso", "msmtfl", "l12", "dirty", "shared", "pretrained") and rng.random() < 0.4:
        options["l1_ratio"] = float(rng.choice([0.9, 0.5, 0.1]))
    grouped = family in ("lasso", "msmtfl", "l12") and d > 1 and loss != "softmax" and rng.random() < 0.3
    if grouped:
        options["feature_groups"] = [f"g{g}" for g in np.sort(rng.integers(0, max(1, d // 2), d))]
        if factors is not None and np.ndim(factors) == 2:
            options["penalty_factors"] = factors[:, 0]
    if family in ("lasso", "msmtfl") and not grouped and loss != "softmax" and rng.random() < 0.3:
        low = rng.choice([0.0, -0.1, -1.0, -np.inf], d)
        options["bounds"] = (low, rng.choice([0.0, 0.1, 1.0, np.inf], d)) if rng.random() < 0.7 else (0.0, np.inf)
    kind = "Classifier" if loss in ("logistic", "softmax") else ""
    if not kind:
        options["loss"] = loss
    if loss == "softmax":
        options["multinomial"] = True
    theta = float(10.0 ** rng.uniform(-2, 1)) if rng.random() < 0.5 else np.inf
    if family == "lasso":
        return msmtfl.LassoMTL(lam, **options)
    if family == "msmtfl":
        return getattr(msmtfl, f"MSMTFL{kind}")(lam, theta, **options)
    if family == "l12":
        return getattr(msmtfl, f"L12MTL{kind}")(lam, theta, **options)
    if family == "dirty":
        return getattr(msmtfl, f"DirtyMTL{kind}")(lam, lam * float(rng.choice([0.5, 1.0, 1.5, 2.0, 3.0])), **options)
    if family == "shared":
        both = (lam, near[0]) if rng.random() < 0.9 else [(np.inf, lam), (lam, np.inf)][int(rng.integers(2))]
        return getattr(msmtfl, f"SharedMTL{kind}")(*both, theta, **options)
    if family == "pooling":
        ks = [float(10.0 ** rng.uniform(-4, 3)) for _ in range(2)]
        ks[1] = float(rng.choice([0.0, ks[1], ks[1]]))
        place = int(rng.integers(8))
        if place < 2:
            ks[place] = np.inf
        ks[0] = None if rng.random() < 0.2 and kind == "" else ks[0]
        return getattr(msmtfl, f"PartialPooling{kind}")(*ks, **options)
    if family == "pretrained":
        alpha = float(rng.choice([0.0, 0.25, 0.5, 1.0]))
        return msmtfl.PretrainedMTL(lam, near[0], alpha, offset_folds=2, **options)
    common = float(rng.choice([0.0, near[0], near[0], np.inf])) if family == "armul" else float(near[0])
    if family == "armul" and 0.0 < common < np.inf:
        common *= len(data.y)
    strength = lam * float(np.sqrt(len(data.y))) if family == "armul" else lam * float(rng.choice([0.5, 1.0, 2.0]))
    return msmtfl.RobustMTL(strength, common, kind=family, **options)


# ------------------------------------------------------------------ what is minimised


class Problem:
    """Coordinates and rows of what a fitted model says that it minimises."""

    def __init__(self, model: Any, data: Data, own_offset: np.ndarray | None = None, kappa: np.ndarray | None = None):
        self.model, self.data, self.m = model, data, data.m
        self.K = 3 if data.loss == "softmax" else 1
        m, n = self.m, len(data.task)
        self.v = np.ones(n, dtype=LD) if data.weight is None else data.weight.astype(LD)
        self.rows = [np.flatnonzero(data.task == i) for i in range(m)]
        self.n = np.array([self.v[at].sum() for at in self.rows])
        self.kappa = 2 / (m * self.K * self.n) if kappa is None else kappa
        self.X, self.d = data.X.astype(LD), data.X.shape[1]
        level = data.loss != "cox" and model.fit_intercept
        self.sharing = getattr(model, "intercepts", "task") if level and m > 1 else "task"
        self.level = level
        offset = np.zeros(n, dtype=LD) if own_offset is None else own_offset.astype(LD)
        within = np.array([self.v[at] @ self.X[at] / self.n[i] for i, at in enumerate(self.rows)])
        if self.sharing == "task" and (level or data.loss == "cox"):
            self.mean = within
        elif self.sharing == "shrunk":
            self.mean = np.repeat(np.asarray(model.level_at_, dtype=LD)[None], m, axis=0)
        else:
            self.mean = np.zeros((m, self.d), dtype=LD)
        self.Z = self.X - self.mean[data.task]
        self.spread = np.zeros((m, self.d), dtype=LD)
        for i, at in enumerate(self.rows):
            centred = (level and self.sharing != "common") or data.loss == "cox"
            C = self.X[at] - within[i] if centred else self.X[at]
            square = self.v[at] @ C**2
            flat = centred & (square <= LD(1e-26) * self.n[i] * within[i] ** 2)
            self.spread[i] = np.sqrt(np.where(flat, 0, square) / self.n[i])
            if self.sharing == "task" and (level or data.loss == "cox"):
                self.Z[np.ix_(at, np.flatnonzero(flat))] = 0
        self.beside = LD(0)  # what the linear predictor is at the sample that levels are drawn to, before coefficients
        self.o, self.columns, self.start, self.more, self.blocks, self.open = [*offset], [], [], [], [], []
        self.priors: list[int] = []
        given = getattr(model, "penalty_factors", None)
        given = np.ones(self.d) if given is None else np.asarray(given, dtype=LD)
        self.given = np.repeat(given[:, None], m, axis=1).astype(LD) if given.ndim == 1 else given.astype(LD)
        units = np.where(self.spread > 0, self.spread, 1).T if model.standardize else np.ones((self.d, m), dtype=LD)
        variances = self.spread**2
        if self.sharing == "shrunk":  # where a column does not vary within a task its level may count
            k = LD(model.level_ridge_)
            total = variances + (k / (self.n + k))[:, None] * (within - self.mean) ** 2
            known = (variances > 0).sum(axis=0)
            mean = np.where(known > 0, variances.sum(axis=0) / np.maximum(known, 1), total.mean(axis=0))
            variances = np.where(variances > 0, variances, np.where(total > 0, mean, 0))
            units = np.sqrt(np.where(variances > 0, variances, 1)).T if model.standardize else units
        self.units = units
        self.f = self.given * units
        squares = variances.mean(axis=0)
        self.g = self.given[:, 0] * (np.sqrt(np.where(squares > 0, squares, 1)) if model.standardize else 1)
        self.groups = [[j] for j in range(self.d)]
        names = getattr(model, "feature_groups", None)
        if names is not None:
            self.groups = [[j for j in range(self.d) if names[j] == name] for name in dict.fromkeys(names)]

    def add(self, parts: dict[int, int], start: Any, k: int = 0) -> int:
        """One coordinate: `parts` is {task: feature}; feature -1 is the intercept. k is the class."""
        column = np.zeros((len(self.data.task), self.K), dtype=LD)
        for i, j in parts.items():
            column[self.rows[i], k] = 1 if j < 0 else self.Z[self.rows[i], j]
        self.columns.append((column, parts))
        self.start.append(LD(start))
        return len(self.columns) - 1

    def ridge(self, combination: dict[int, Any], strength: Any) -> None:
        if strength > 0:
            self.more.append(("squared", combination, LD(strength), LD(0), LD(0)))

    def box(self, combination: dict[int, Any], low: Any, high: Any) -> None:
        self.more.append(("box", combination, LD(1), LD(low), LD(high)))

    def block(self, at: list[int], a: Any, s: list[Any], largest: bool = False) -> None:
        if len(at):
            self.blocks.append(Block(np.array(at), LD(a), np.array(s, dtype=LD), largest))

    def intercepts(self) -> list[int]:
        if not self.level:
            return []
        b = np.asarray(self.model.intercept_, dtype=LD).reshape(-1)
        W = np.asarray(self.model.coef_, dtype=LD).reshape(-1, self.d)
        if self.K > 1:
            b, W = b.reshape(self.m, self.K), W.reshape(self.m, self.K, self.d)
            return [
                self.add({i: -1}, b[i, k] + self.mean[i] @ W[i, k], k) for i in range(self.m) for k in range(self.K)
            ]
        at = b + (self.mean * W).sum(axis=1)
        if self.sharing == "common":
            return [self.add(dict.fromkeys(range(self.m), -1), b.mean())]
        return [self.add({i: -1}, at[i]) for i in range(self.m)]

    def made(self) -> tuple[Composite, np.ndarray, list[int]]:
        """The problem, the model's point and the coordinates of its intercepts."""
        levels = self.intercepts()
        N, K, loss, model = len(self.data.task), self.K, self.data.loss, self.model
        prior = self.m if self.sharing == "shrunk" else 0
        count = N * K + prior + len(self.more)
        A, o = np.zeros((count, len(self.columns)), dtype=LD), np.zeros(count, dtype=LD)
        o[: N * K] = np.repeat(np.array(self.o), K)
        o[N * K : N * K + prior] = self.beside
        for c, (column, parts) in enumerate(self.columns):
            A[: N * K, c] = column.ravel()
            for i, j in parts.items():
                if prior and j < 0:
                    A[N * K + i, c] = 1
        self.parts, sums = [], []
        y, scale = self.data.y, np.ones(N, dtype=LD)
        if loss == "huber":
            scale = (model.epsilon * np.atleast_1d(model.scale_)[self.data.task]).astype(LD)
        for i, at in enumerate(self.rows):
            v = self.kappa[i] * self.v[at]
            if loss == "softmax":
                self.parts.append(softmax(at, y[at].astype(int), v, K))
            elif loss == "cox":
                made, low = partial_likelihood(at, y[at], self.v[at], self.kappa[i])
                self.parts.extend(made)
                sums.append(low)
            else:
                self.parts.append(Separable(loss, at, v, y[at].astype(LD), scale[at]))
            if prior:
                a0, k = LD(model.common_level_), LD(model.level_ridge_)
                target = a0
                if loss in ("poisson", "gamma", "tweedie"):
                    target = np.exp(a0)
                if loss == "logistic":
                    target = 1 / (1 + np.exp(-a0))
                drawn = self.kappa[i] * np.array([k]), np.array([target]), scale[at][:1]
                self.parts.append(Separable(loss, np.array([N * K + i]), *drawn))
        first = N * K + prior
        for r, (_, combination, *_) in enumerate(self.more, start=first):
            for c, share in combination.items():
                A[r, c] = share
        for kind in ("squared", "box"):
            some = [r for r, one in enumerate(self.more) if one[0] == kind]
            if some:
                strengths, *ends = (
                    np.array(one, dtype=LD) for one in zip(*(self.more[r][2:] for r in some), strict=True)
                )
                self.parts.append(Separable(kind, first + np.array(some), strengths, *ends))
        self.saturated = sum(sums, LD(0))
        return Composite(A, o, self.parts, self.blocks), np.array(self.start), levels


def softmax(at: np.ndarray, y: np.ndarray, v: np.ndarray, K: int) -> Exponentials:
    n = len(at)
    omega, c = np.zeros((n, n * K), dtype=LD), np.zeros((n, n * K), dtype=LD)
    for r in range(n):
        omega[r, r * K : (r + 1) * K] = 1
        c[r, r * K + y[r]] = 1
    return Exponentials((at[:, None] * K + np.arange(K)).ravel(), v, omega, c)


def partial_likelihood(at: np.ndarray, y: np.ndarray, v: np.ndarray, kappa: Any) -> tuple[list, Any]:
    """Efron's, and its least value."""
    times, events = y[:, 0], (y[:, 1] > 0) & (v > 0)
    terms, low = [], LD(0)
    for t in np.unique(times[events]):
        tied, risk = events & (times == t), times >= t
        d, total = int(tied.sum()), v[tied].sum()
        for k in range(d):
            omega = np.where(risk, v, 0) - LD(k) / d * np.where(tied, v, 0)
            terms.append((kappa * total / d, omega, np.where(tied, v, 0) / total))
            low += kappa * total / d * np.log(total * (1 - LD(k) / d))
    if not terms:
        return [], low
    return [Exponentials(at, *(np.array(part) for part in zip(*terms, strict=True)))], low


def lassos(p: Problem, W: np.ndarray, lam: float, slopes: np.ndarray, f: np.ndarray, ratio: float, bounds: Any) -> None:
    """W (m, K, d); slopes (d,)."""
    K = p.K
    for i in range(p.m):
        for k in range(K):
            for group in p.groups:
                at, s = [], []
                for j in group:
                    fixed = bounds is not None and bounds[0][j, i] == bounds[1][j, i] == 0
                    if np.isinf(f[j, i]) or fixed:
                        continue
                    c = p.add({i: j}, W[i, k, j], k)
                    if f[j, i] > 0:
                        at.append(c)
                        s.append(f[j, i])
                        if p.spread[i, j] > 0 or p.sharing != "task":
                            p.ridge({c: 1}, (1 - ratio) * lam * f[j, i] ** 2)
                    if bounds is not None:
                        p.box({c: 1}, bounds[0][j, i], bounds[1][j, i])
                p.block(at, ratio * lam * slopes[group].min() * np.sqrt(len(group)), s)


def problem_of(model: Any, data: Data, family: str, caught: dict[str, Any]) -> list[tuple[Problem, float, bool]]:
    """What the model says it minimises; the gap claimed; whether its `objective_` is that value."""
    d, m = data.X.shape[1], data.m
    ratio, gap = getattr(model, "l1_ratio", 1.0), model.stages_[-1].dual_gap
    W = np.asarray(model.stages_[-1].coef, dtype=LD)
    slopes = np.ones(d)
    slopes[model.stages_[-1].free_rows] = 0
    whole = sum(data.weight) if data.weight is not None else len(data.y)
    N = np.full(m, LD(2) / LD(whole))
    if family == "pretrained":
        return pretrained(model, data, caught, gap)
    p = Problem(model, data, data.offset, N if family in ("pooling", "armul") else None)
    f, g = p.f, p.g
    plain = not np.isfinite(getattr(model, "theta_", np.inf))
    if family in ("lasso", "msmtfl"):
        bounds = getattr(model, "bounds", None)
        if bounds is not None:
            bounds = [np.broadcast_to(np.asarray(b, dtype=float).reshape(-1, 1), (d, m)) for b in bounds]
        slopes[(f == 0).all(axis=1)] = 1
        lassos(p, W.reshape(m, p.K, d), model.lam_, slopes, f, ratio, bounds)
        return [(p, gap, plain)]
    W = W.reshape(m, d)
    if family == "l12":
        slopes[(f == 0).all(axis=1)] = 1
        for group in p.groups:
            at, s = [], []
            for j in group:
                for i in range(m):
                    if np.isinf(f[j, i]):
                        continue
                    c = p.add({i: j}, W[i, j])
                    if f[j, i] > 0:
                        at.append(c)
                        s.append(f[j, i])
                        if p.spread[i, j] > 0 or p.sharing != "task":
                            p.ridge({c: 1}, (1 - ratio) * model.lam_ * f[j, i] ** 2)
            p.block(at, ratio * model.lam_ * slopes[group].min() * np.sqrt(len(group)), s)
        return [(p, gap, plain)]
    if family == "dirty":
        B = np.asarray(model.coef_shared_, dtype=LD).reshape(m, d)
        for j in range(d):
            at, s = [], []
            for i in range(m):
                if np.isinf(f[j, i]):
                    continue
                if f[j, i] == 0:
                    p.add({i: j}, W[i, j])
                    continue
                one, other = p.add({i: j}, W[i, j] - B[i, j]), p.add({i: j}, B[i, j])
                p.block([one], ratio * model.lam_s_, [f[j, i]])
                at.append(other)
                s.append(f[j, i])
                if p.spread[i, j] > 0 or p.sharing != "task":
                    p.ridge({one: 1, other: 1}, (1 - ratio) * model.lam_s_ * f[j, i] ** 2)
            p.block(at, ratio * model.lam_b_, s, largest=True)
        return [(p, gap, True)]
    if family in ("shared", "pooling", "armul"):
        b = np.asarray(model.coef_common_, dtype=LD)
        common = {"shared": "lam_common_", "pooling": "k_common", "armul": "lam_common_"}[family]
        deviation = {"shared": "lam_deviation_", "pooling": "k_", "armul": "lam_deviation_"}[family]
        common, deviation = float(getattr(model, common)), float(getattr(model, deviation))
        at = [[] for _ in range(m)]
        for j in range(d):
            if np.isinf(g[j]):
                continue
            shares = g[j] > 0 and np.isfinite(common)
            if shares:
                c = p.add(dict.fromkeys(range(m), j), b[j])
                if family == "shared":
                    p.block([c], ratio * common, [g[j]])
                    p.ridge({c: 1}, (1 - ratio) * common * g[j] ** 2)
                else:
                    p.ridge({c: 1}, 2 * LD(common) / LD(whole) * g[j] ** 2)
            for i in range(m):
                if g[j] > 0 and np.isinf(deviation):
                    continue
                c = p.add({i: j}, W[i, j] - (b[j] if shares else 0))
                if g[j] == 0:
                    continue
                if family == "shared":
                    p.block([c], ratio * deviation * slopes[j], [f[j, i]])
                    p.ridge({c: 1}, (1 - ratio) * deviation * f[j, i] ** 2)
                elif family == "pooling":
                    p.ridge({c: 1}, 2 * LD(deviation) / LD(whole) * f[j, i] ** 2)
                else:
                    at[i].append((c, f[j, i]))
        for i in range(m):
            if at[i]:
                p.block([c for c, _ in at[i]], LD(deviation) * np.sqrt(p.n[i]) / LD(whole), [s for _, s in at[i]])
        return [(p, gap, plain)]
    V, P = (np.asarray(one, dtype=LD).reshape(m, d) for one in (model.coef_deviation_, model.coef_shared_))
    own = [[] for _ in range(m)]
    for j in range(d):
        rows = []
        for i in range(m):
            if np.isinf(f[j, i]):
                continue
            own[i].append((p.add({i: j}, V[i, j]), f[j, i]))
            if f[j, i] > 0:
                rows.append((p.add({i: j}, P[i, j]), f[j, i]))
        p.block([c for c, _ in rows], model.lam_common_, [s for _, s in rows])
    for i in range(m):
        bound = [(c, s) for c, s in own[i] if s > 0]
        p.block([c for c, _ in bound], model.lam_deviation_, [s for _, s in bound])
    return [(p, gap, True)]


def pretrained(model: Any, data: Data, caught: dict[str, Any], gap: float) -> list[tuple[Problem, float, bool]]:
    d, m, first = data.X.shape[1], data.m, caught["first"]
    ratio, alpha = model.l1_ratio, model.alpha_
    own = np.zeros(len(data.task)) if data.offset is None else data.offset.copy()
    for i, part in enumerate(first.offsets):
        at = data.task == i
        if getattr(model, "intercepts", "task") != "task" and model.fit_intercept and m > 1:
            part = part - np.average(part, weights=None if data.weight is None else data.weight[at]) + first.levels[i]
        own[at] += (1 - alpha) * part
    second = Problem(model, data, own)
    if second.sharing == "shrunk":
        second.beside = (1 - LD(alpha)) * (np.asarray(model.level_at_, dtype=LD) @ np.asarray(first.coef, dtype=LD))
    used = model.coef_common_ != 0
    with np.errstate(divide="ignore", invalid="ignore"):
        extra = np.where(used, 1.0, np.inf if alpha == 0 else 1 / alpha)
        f = np.where(second.given == 0, 0, second.f * extra[:, None])
    W = np.asarray(model.coef_specific_, dtype=LD).reshape(m, 1, d)
    lassos(second, W, model.lam_, np.ones(d), f, ratio, None)
    return [(second, gap, False)]


# ------------------------------------------------------------------ judged


def judge(model: Any, data: Data, family: str, caught: dict[str, Any], report: Report) -> None:
    for p, gap, valued in problem_of(model, data, family, caught):
        composite, z, levels = p.made()
        null = composite.A @ (settled(composite, np.zeros_like(z), levels) * composite.size) + composite.o
        unit = sum((part.value(null) for part in p.parts), LD(0)) - p.saturated
        separate = [part for part in p.parts if isinstance(part, Separable) and part.kind != "box"]
        if not unit > LD(1e-25) * sum((size_of(part) for part in separate), LD(0)):
            report.counts["of targets that do not vary"] += 1
            continue
        composite.unit = unit
        at = settled(composite, z, levels)
        value = composite.value(at)
        report.lines.append(f"unit {float(unit):.3e}, value {float(value - p.saturated):.12e}, claimed gap {gap:.2e}")
        if family != "pretrained":
            apart = float((composite.value(z) - value) / composite.unit)
            if 0 <= gap <= model.tol and not apart <= 1e-7:
                report.failures.append(f"intercepts: moving them gains {apart:.1e}")
        if valued and hasattr(model, "objective_"):
            own = composite.value(z)  # with the intercepts that an answer without a certificate may have ended with
            ends = (abs(float((one - p.saturated - LD(model.objective_)) / composite.unit)) for one in (value, own))
            off = min(end for end in ends if not np.isnan(end))
            report.lines.append(f"objective_ {model.objective_:.12e}, apart {off:.1e}")
            if not off <= 1e-6 * max(1.0, float((value - p.saturated) / composite.unit)):
                report.failures.append(
                    f"a value: objective_ {model.objective_!r}, and it is {float(value - p.saturated)!r}"
                )
        report.counts["answers"] += 1
        if not gap >= 0:
            report.failures.append(f"no gap: {gap}")
            continue
        certified = gap <= model.tol
        report.counts["certified"] += certified
        best, bound = composite.near(at)
        if (value - composite.value(best) + bound) / composite.unit > (LIE if certified else fuzz_fits.RIGHT):
            report.counts["looked at for long"] += 1
            best, bound = composite.least(at)
        gained = float((value - composite.value(best)) / composite.unit)
        most = gained + float(bound / composite.unit)
        report.lines.append(f"a better point by {gained:.2e}, at most {most:.2e} to gain")
        if certified and gained > max(LIE, 1.01 * gap):
            report.failures.append(f"a lie: {gap:.1e} is claimed, and a point is better by {gained:.1e}")
        report.counts["certified, and confirmed"] += certified and most <= LIE
        report.counts["certified, and not judged by the oracle"] += certified and not most <= LIE
        report.counts["not certified, though right"] += not certified and most <= fuzz_fits.RIGHT
        report.counts["not certified, and not right"] += not certified and gained > fuzz_fits.RIGHT


def size_of(part: Separable) -> Any:
    """What a loss is of targets that are by their own size from what is predicted."""
    power = {"squared": 2, "huber": 2, "poisson": 1, "tweedie": 0.5}.get(part.kind, 0)
    return part.v @ np.abs(part.y) ** power


def settled(composite: Composite, z: np.ndarray, levels: list[int]) -> np.ndarray:
    """z with intercepts at their best."""
    from oracles.composite import solved

    z = np.asarray(z, dtype=LD) * composite.size
    if not levels:
        return z / composite.size
    value = composite._value(z)
    for _ in range(2000):  # where exponentials are too large, a step changes f by 1 only
        f = composite.A @ z + composite.o
        g, H = np.zeros(len(levels), dtype=LD), np.zeros((len(levels), len(levels)), dtype=LD)
        above = H.copy()  # what Huber's curvature is at most
        A = composite.A[:, levels]
        for part in composite.parts:
            if isinstance(part, Exponentials):
                pi = part.shares(f)
                g += A[part.at].T @ (part.v @ (pi - part.c))
                M = pi @ A[part.at]
                H += (A[part.at] * (part.v @ pi)[:, None]).T @ A[part.at] - (M * part.v[:, None]).T @ M
            elif part.kind != "box":
                _, slope, bend = part.smoothed(f, LD(0))
                g += A[part.at].T @ slope
                H += (A[part.at] * bend[:, None]).T @ A[part.at]
                if part.kind == "huber":
                    bend = part.v * part.scale / np.maximum(np.abs(f[part.at] - part.y), part.scale) - bend
                    above += (A[part.at] * bend[:, None]).T @ A[part.at]
        whole = -solved(H, g)  # of tasks whose curvature has all but gone it may be 1e16 times too long
        for step in (whole, -solved(H + above, g), np.clip(whole, -3, 3)):
            t = LD(1)
            while t > LD(1e-12) and step.any():
                new = z.copy()
                new[levels] += t * step
                if composite._value(new) < value:
                    break
                t /= 2
            else:
                continue
            break
        else:
            break
        z, value = new, composite._value(new)
    return z / composite.size


def run(
    seed: int, families: tuple[str, ...] = FAMILIES, losses: tuple[str, ...] = LOSSES, hard: bool = False
) -> Report:
    rng = np.random.default_rng(seed)
    family, loss = str(rng.choice(families)), str(rng.choice(losses))
    if loss == "softmax":
        family = "msmtfl"
    if loss == "logistic" and family not in CLASSIFIERS:
        family = "msmtfl"
    data = make_data(loss, rng, hard)
    report, caught = Report(seed), {}
    real = pretrained_fit.second_step

    def second_step(problem: Any, first: Any, alpha: float) -> Any:
        caught["first"] = first
        return real(problem, first, alpha)

    with warnings.catch_warnings(record=True) as said, mock.patch.object(pretrained_fit, "second_step", second_step):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            model = make_model(family, data, rng)
            if getattr(model, "intercepts", "task") == "shrunk" and loss != "squared":
                data.offset = None
            report.name = f"{family}, {loss}, {data.kinds}, {data.X.shape}, m {data.m}"
            report.name += ", weights" * (data.weight is not None) + ", offset" * (data.offset is not None)
            report.name += f": {model}".replace("\n", " ")
            model.fit(data.X, data.y, task=data.task, sample_weight=data.weight, offset=data.offset)
        except Exception as error:
            if isinstance(error, ValueError | TypeError) and any(words in str(error) for words in DOCUMENTED):
                report.refused = str(error)
            else:
                report.failures.append(f"an error: {error!r}\n{traceback.format_exc(limit=-3)}")
            return report
    with np.errstate(all="ignore"):
        words = fuzz_fits.Report(seed)
        fuzz_fits.check_words(model, data.m, words)
        report.failures += words.failures
        if not 0 <= model.stages_[-1].dual_gap <= model.tol and not said:
            report.failures.append(f"silence: a gap of {model.stages_[-1].dual_gap}, and no warning")
        judge(model, data, family, caught, report)
    return report


def fuzz(fits: int, minutes: float, seed: int, show: Any, **which: Any) -> tuple[Counter, list[Report]]:
    began, count, bad, k = time.perf_counter(), Counter(), [], 0
    while (not fits or k < fits) and (not minutes or time.perf_counter() - began < 60.0 * minutes):
        if k and k % fuzz_fits.EVERY == 0:
            show(f"{k} fits, {len(bad)} failed, {(time.perf_counter() - began) / 60:.0f} minutes")
        report = run(seed + k, **which)
        k += 1
        count["fits"] += 1
        count["refused, as documented"] += bool(report.refused)
        count.update(report.counts)
        if report.failures:
            bad.append(report)
            count["FAILED"] += 1
            show(f"seed {report.seed} ({report.name}):")
            for line in report.failures:
                show(f"    {line}")
    return count, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=200, help="how many; 0: as many as there is time for")
    parser.add_argument("--minutes", type=float, default=0.0, help="no more than this; 0: no limit")
    parser.add_argument("--seed", type=int, default=0, help="of the first fit; the next have those that follow")
    parser.add_argument("--only", type=int, help="the fit of this seed, with all that is claimed of it")
    parser.add_argument("--hard", action="store_true", help="targets that a loss finds hard, columns of wild scales")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=LOSSES)
    arguments = parser.parse_args()
    which = {"families": tuple(arguments.families), "losses": tuple(arguments.losses), "hard": arguments.hard}
    if arguments.only is not None:
        report = run(arguments.only, **which)
        sys.stdout.write("\n".join([report.name, report.refused, *report.lines, *report.failures]) + "\n")
        return bool(report.failures)
    if not arguments.fits and not arguments.minutes:
        parser.error("give --fits, --minutes or both")
    began = time.perf_counter()
    show = lambda line: sys.stdout.write(line + "\n") and sys.stdout.flush()  # noqa: E731
    count, bad = fuzz(arguments.fits, arguments.minutes, arguments.seed, show, **which)
    for name, value in sorted(count.items()):
        sys.stdout.write(f"{value:>10,}  {name}\n")
    sys.stdout.write(f"{time.perf_counter() - began:.0f} s\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
