"""Random ugly fits, each checked in extended precision by `oracles`: no certified answer may be wrong.

    python tests/fuzz_fits.py                            # 300 fits
    python tests/fuzz_fits.py --fits 5000 --seed 7       # others
    python tests/fuzz_fits.py --minutes 10 --fits 0      # as many as ten minutes allow
    python tests/fuzz_fits.py --only 1234                # one of them once more, in full
    python tests/fuzz_fits.py --members gamma tweedie    # of these only

Every family and loss, with data of wild scales, copies, constant and nearly dependent columns, means far off zero, tiny and
huge lams, weights of 0, un-penalised and excluded features; from dense, sparse and float32 rows, statistics, batches, grids,
cross-validation and warm starts. Failures are
    a lie        a gap of at most tol is claimed, and the independent one is above 1e-8
    no gap       a claimed gap that is negative or not a number
    in words     converged_, stopping_reason_ and the certificate do not agree
    an error     that is not one of those documented, or a warning of numpy's
Answers that are right but not certified are counted, too; so are those of which the oracle found no proof either way, as
un-penalised columns are too nearly dependent for its own digits.
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

import numpy as np
import oracles
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from msmtfl import (
    L12MTL,
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    DirtyMTLCV,
    LassoMTL,
    LassoMTLCV,
    Moments,
    MSMTFLClassifier,
    SharedMTL,
    SharedMTLCV,
    regularization_surface,
)

LIE = 1e-8  # an independent gap above this is not what "solved" means
RIGHT = 1e-10  # and below this the answer is right
MEMBERS = ("lasso", "msmtfl", "bi-level", "l12", "dirty", "shared", "poisson", "huber", "logistic")
MORE = ("gamma", "tweedie")  # which seeds that were noted once do not know
COLUMNS = ("plain", "scales", "wild", "copies", "near", "constant", "far", "low rank", "one-hot", "rounded", "mixed")
ROUTES = ("dense", "dense", "fortran", "sparse", "float32", "moments", "partial_fit", "surface", "cv", "warm")
EVERY = 1000  # fits between two lines of progress
DOCUMENTED = (
    "Rescale it before fitting",
    "Rescale the data",
    "no intercept fits best",
    "all their rows in",
    "holds no rows",
    "fewer than",
    "at least 2",
    "cannot be",
    "otherwise all coefficients are 0",
    "lam_max is 0",
    "n_splits",
    "no row",
    "one class only",
    "penalty_factors must be 0, inf, or between",
    "no point of the grid has a score",
    "penalty_factors has shape",
)


@dataclass
class Data:
    """Rows of all tasks; `kinds` says what is wrong with them."""

    X: np.ndarray
    y: np.ndarray
    task: np.ndarray
    weight: np.ndarray | None
    kinds: str
    dependent: float = 5e-14  # at what distance columns are one

    @property
    def m(self) -> int:
        return len(np.unique(self.task))

    def oracle_tasks(self, centre: bool) -> list[oracles.Task]:
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        parts = [self.task == label for label in np.unique(self.task)]
        return [oracles.task_of(self.X[at], self.y[at], weight[at], centre, self.dependent) for at in parts]


@dataclass
class Claim:
    """An answer and the gap that is claimed for it, with the gap that the oracle finds."""

    what: str
    gap: float
    tol: float
    true: float


@dataclass
class Report:
    seed: int
    name: str = ""
    claims: list[Claim] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    refused: str = ""


# ------------------------------------------------------------------ data


def columns(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    X = rng.standard_normal((n, d))
    half = d // 2
    if kind == "scales":
        X *= 10.0 ** rng.uniform(-8, 8, d)
    elif kind == "wild":
        X *= 10.0 ** rng.choice([0, 0, 12, 16, 20, -12, -20], d)
    elif kind == "copies" and half:
        X[:, half:] = X[:, rng.integers(0, half, d - half)] * rng.choice([1.0, -1.0, 2.0, 2.5, 1e-3, 1e6], d - half)
    elif kind == "near" and half:
        X[:, half:] = X[:, rng.integers(0, half, d - half)] + 10.0 ** rng.uniform(-15, -2) * X[:, half:]
    elif kind == "constant":
        at = rng.random(d) < 0.4
        X[:, at] = rng.choice([0.0, 1.0, 1e6, 0.1, -3e-7], int(at.sum()))
    elif kind == "far":
        X += 10.0 ** rng.uniform(0, 9, d) * rng.choice([-1, 1, 0], d)
    elif kind == "low rank":
        r = int(rng.integers(1, max(2, min(n, d))))
        X = rng.standard_normal((n, r)) @ rng.standard_normal((r, d))
    elif kind == "one-hot":
        X = (rng.integers(0, d, n)[:, None] == np.arange(d)).astype(float)
    elif kind == "rounded":
        X = np.round(2 * X)
    elif kind == "mixed":
        for one in rng.choice(COLUMNS[1:-1], 2, replace=False):
            part = columns(str(one), n, d, rng)
            at = rng.random(d) < 0.5
            X[:, at] = part[:, at]
    return X


def make_data(member: str, rng: np.random.Generator) -> Data:
    m, d = int(rng.integers(1, 5)), int(rng.choice([1, 2, 3, 5, 8, 13, 30]))
    kind = str(rng.choice(COLUMNS))
    sizes = rng.integers(6 if member in ("poisson", "logistic", "tweedie") else 2, 40, m)
    Xs = [columns(kind, int(n), d, rng) for n in sizes]
    support = rng.random(d) < 0.4
    ys, how = [], str(rng.choice(["noise", "noise", "noise", "exact", "tiny", "huge", "outliers", "constant", "null"]))
    for X, n in zip(Xs, sizes, strict=True):
        spread = np.maximum(X.std(axis=0), 1e-9 * np.abs(X).max(axis=0, initial=0.0) + 1e-200)
        f = ((X - X.mean(axis=0)) / spread) @ (support * rng.standard_normal(d))
        if member == "poisson":
            ys.append(rng.poisson(np.exp(np.clip(0.3 * f, -3, 4))).astype(float) + (how == "huge") * 1e4)
        elif member in MORE:
            y = np.exp(np.clip(0.5 * f, -4, 4)) * (1.0 if how == "exact" else rng.gamma(1.0, 1.0, n))
            y *= {"huge": 1e9, "tiny": 1e-9}.get(how, 1.0)
            y[rng.random(n) < 0.05] *= 1e6 if how == "outliers" else 1.0
            ys.append(
                np.where((member == "tweedie") & (rng.random(n) < (0.9 if how == "null" else 0.3)), 0.0, y + 1e-300)
            )
        elif member == "logistic":
            ys.append((f + rng.logistic(size=n) * (how != "exact") > 0).astype(float))
        else:
            noise = 0.0 if how == "exact" else float(10.0 ** rng.uniform(-3, 0.5))
            y = f + noise * (rng.standard_t(1.5, n) if how == "outliers" else rng.standard_normal(n))
            y += float(rng.choice([0.0, 1.0, 1e6]))
            y = {"tiny": 1e-120 * y, "huge": 1e120 * y, "constant": 0 * y + 0.1, "null": 0 * y}.get(how, y)
            ys.append(1e-170 * y if how == "tiny" and rng.random() < 0.2 else y)
    X, y, task = np.concatenate(Xs), np.concatenate(ys), np.repeat(np.arange(m), sizes)
    weight = None
    if rng.random() < 0.3:
        weight = rng.choice([0.0, 1.0, 2.0, 0.3, 1e-3, 1e3], len(y))
        for label in range(m):  # every task keeps rows
            at = np.flatnonzero(task == label)
            weight[at[:2]] = 1.0
    return Data(X, y, task, weight, f"{kind}, y {how}" + ", weights" * (weight is not None))


# ------------------------------------------------------------------ models


def factors(d: int, m: int, rng: np.random.Generator) -> np.ndarray | None:
    kind = rng.random()
    if kind < 0.5:
        return None
    values = [1.0, 0.0] if kind < 0.65 else [1.0, 0.5, 3.0, 0.0, np.inf]
    if kind > 0.95:
        values = [1.0, 1e-12, float(rng.choice([1e-90, 1e-300])), 0.0]
    out = rng.choice(values, (d, m) if kind > 0.8 and kind <= 0.95 else d)
    return np.asarray(out)


def lam_of(data: Data, rng: np.random.Generator) -> float | None:
    """From far below what data can tell to above lam_max, which is about that of correlations."""
    if rng.random() < 0.3:
        return None
    top = max(
        2.0 / (data.m * at.sum()) * float(np.abs((data.X[at] - data.X[at].mean(axis=0)).T @ (data.y[at])).max())
        for at in (data.task == label for label in np.unique(data.task))
    )
    low = float(rng.choice([-3.0, -3.0, -8.0, -12.0, -18.0]))
    return float(max(top, 1e-250) * 10.0 ** rng.uniform(low, 0.3))


def make_model(member: str, route: str, data: Data, rng: np.random.Generator) -> Any:
    d, m = data.X.shape[1], data.m
    options: dict[str, Any] = {
        "fit_intercept": bool(rng.random() < 0.7),
        "standardize": bool(rng.random() < 0.3),
        "penalty_factors": factors(d, m, rng),
    }
    if member == "shared" and np.ndim(options["penalty_factors"]) == 2:
        options["penalty_factors"] = None
    if member not in ("l12", "dirty", "shared") and rng.random() < 0.2:
        options["positive"] = True
    lam = lam_of(data, rng)
    theta = [None, "adaptive", np.inf, float(10.0 ** rng.uniform(-4, 2))][int(rng.integers(4))]
    if route == "cv":
        options |= {"lams": 4, "cv": 2}
        made = {"lasso": LassoMTLCV, "l12": L12MTLCV, "dirty": DirtyMTLCV, "shared": SharedMTLCV}.get(member, MSMTFLCV)
        if member in ("poisson", "huber", *MORE):
            options["loss"] = member
        return made(**options)
    if member == "lasso":
        return LassoMTL(lam, **options)
    if member == "l12":
        return L12MTL(lam, float(rng.choice([np.inf, 1.0])), **options)
    if member == "dirty":
        return DirtyMTL(None if lam is None else lam * float(rng.choice([0.3, 1.0, 2.0])), lam, **options)
    if member == "shared":
        ratio = float(rng.choice([0.1, 1.0, 3.0]))
        return SharedMTL(lam, None if lam is None else lam * ratio, float(rng.choice([np.inf, 1.0])), **options)
    if member == "logistic":
        return MSMTFLClassifier(lam, theta, **options)
    if member in ("poisson", "huber", *MORE):
        options["loss"] = member
    if member == "bi-level" and lam is not None:
        options |= {"lam_entry": lam * float(rng.choice([0.1, 1.0])), "theta_entry": float(10.0 ** rng.uniform(-4, 2))}
    return MSMTFL(lam, theta, **options)


# ------------------------------------------------------------------ what is claimed, and what is true


def units(tasks: list[oracles.Task], standardize: bool, given: np.ndarray) -> np.ndarray:
    """(d, m): penalty factors on the problem solved."""
    out = np.array(given, dtype=np.longdouble)
    if out.ndim == 1:
        out = np.repeat(out[:, None], len(tasks), axis=1)
    if standardize:
        sd = np.array([np.sqrt((task.X**2).sum(axis=0) / task.n) for task in tasks]).T
        out = out * np.where(sd > 0, sd, 1)
    return out


def lasso_weights(model: Any, tasks: list, F: np.ndarray, stage: Any, last: np.ndarray | None) -> np.ndarray:
    """(m, d): those of a stage after the one that led to `last` (m, d)."""
    lam_entry, rows = getattr(model, "lam_entry_", 0.0), stage.free_rows
    if lam_entry:  # `free_rows` are then those with an entry that is wholly free
        rows = np.flatnonzero(row_norms(F, last) >= model.theta_) if last is not None else []
    return weights_of(tasks, F, rows, last, model.lam_, lam_entry, getattr(model, "theta_entry_", np.inf))


def row_norms(F: np.ndarray, W: np.ndarray) -> np.ndarray:
    return (np.where(np.isinf(F), 0, F) * np.abs(W.T)).sum(axis=1)


def weights_of(tasks, F, free_rows, last, lam, lam_entry=0.0, theta_entry=np.inf) -> np.ndarray:
    finite = np.where(np.isinf(F), 0, F)
    slopes = np.full(F.shape, np.longdouble(lam))
    slopes[free_rows] = 0
    if lam_entry:
        small = np.ones(F.shape, bool) if last is None else finite * np.abs(last.T) < theta_entry
        slopes = slopes + np.longdouble(lam_entry) * small
    scale = np.array([len(tasks) * task.n / 2 for task in tasks])
    return np.where(np.isinf(F), np.inf, slopes * finite * scale).T


def check_stages(model: Any, data: Data, member: str, report: Report, start: np.ndarray | None = None) -> None:
    """Every stage of a fitted model."""
    tasks = data.oracle_tasks(model.fit_intercept)
    d, m = len(model.features_), len(tasks)
    given = np.ones(d) if model.penalty_factors is None else model.penalty_factors
    F = units(tasks, model.standardize, given)
    last = start
    for stage in model.stages_:
        W = np.atleast_2d(stage.coef)
        if member == "l12":
            a = np.full(d, np.longdouble(model.lam_))
            a[stage.free_rows] = 0
            true = oracles.rows_gap(tasks, W, oracles.Group(a, F))
        elif member == "dirty":
            true = oracles.rows_gap(tasks, W, oracles.Dirty(model.lam_s_, model.lam_b_, F))
        elif member == "shared":
            true = oracles.rows_gap(tasks, W, shared_norm(model, tasks, given, F, stage.free_rows))
        else:
            A = lasso_weights(model, tasks, F, stage, last)
            check_free_rows(model, F, stage, last, report)
            if member in LOSS_MEMBERS:
                if stage is not model.stages_[-1]:  # intercepts are known of the last stage only
                    last = W
                    continue
                b = np.atleast_1d(model.intercept_)
                scales = huber_scales(model, data) if member == "huber" else None
                true = oracles.loss_gap(tasks, W, b, A, member, scales, getattr(model, "positive", False))
            else:
                true = oracles.lasso_gap(tasks, W, A, getattr(model, "positive", False))
        report.claims.append(Claim(f"stage {stage.stage}", stage.dual_gap, model.tol, true))
        last = W
    check_words(model, m, report)


def shared_norm(model: Any, tasks: list, given: Any, F: np.ndarray, free_rows: np.ndarray) -> oracles.Shared:
    d = len(F)
    scales = np.array(given, dtype=np.longdouble)
    if model.standardize:
        square = np.mean([(task.X**2).sum(axis=0) / task.n for task in tasks], axis=0)
        scales = scales * np.sqrt(np.where(square > 0, square, 1))
    a = np.full(d, np.longdouble(model.lam_deviation_))
    a[free_rows] = 0
    with np.errstate(invalid="ignore"):
        c = np.where(scales == 0, 0, np.longdouble(model.lam_common_) * scales)
    return oracles.Shared(a, c, F)


def check_free_rows(model: Any, F: np.ndarray, stage: Any, last: np.ndarray | None, report: Report) -> None:
    theta = getattr(model, "theta_", np.inf)
    if last is None or np.isinf(theta) or getattr(model, "lam_entry_", 0.0):
        return
    norms = row_norms(F, last)
    free = (norms >= theta) & ((F > 0) & np.isfinite(F)).any(axis=1)
    clear = np.abs(norms - theta) > 1e-9 * theta
    wrong = np.flatnonzero(clear & (free != np.isin(np.arange(len(F)), stage.free_rows)))
    if wrong.size:
        report.failures.append(f"stage {stage.stage}: rows {wrong.tolist()} are not as free as the stage before says")


def huber_scales(model: Any, data: Data) -> list[float]:
    """In the units of y: what the model states, or else 1.4826 times the median absolute deviation."""
    stated = getattr(model, "scale_", None)
    if stated is not None:
        return [float(model.epsilon * one) for one in np.atleast_1d(stated)]
    from msmtfl._objective.losses import robust_scale

    weight = np.ones(len(data.y)) if data.weight is None else data.weight
    out = []
    for label in np.unique(data.task):
        at = (data.task == label) & (weight > 0)
        out.append(model.epsilon * robust_scale(data.y[at], None if data.weight is None else weight[at]))
    return out


def check_words(model: Any, m: int, report: Report) -> None:
    gaps = [stage.dual_gap for stage in model.stages_]
    certified = bool(0 <= gaps[-1] <= model.tol)
    text, reason = str(model.certificate_), model.stopping_reason_
    first = text.splitlines()[0]
    if model.converged_ and not all(0 <= gap <= model.tol for gap in gaps):
        report.failures.append(f"in words: converged_, but gaps are {gaps}")
    if certified != first.startswith("solved") or certified == ("not certified" in first):
        report.failures.append(f"in words: gap {gaps[-1]} and {first!r}")
    if not certified and ("not certified" not in reason or model.converged_):
        report.failures.append(f"in words: gap {gaps[-1]}, converged_ {model.converged_}, {reason!r}")
    if not np.isfinite(model.coef_).all() or not np.isfinite(model.intercept_).all():
        report.failures.append("coefficients are not finite")


# ------------------------------------------------------------------ routes


def fitted(model: Any, data: Data, route: str, rng: np.random.Generator) -> tuple[Any, np.ndarray | None]:
    """The model fitted to the data, by a route; and where its stages started."""
    X, y, how = data.X, data.y, {"task": data.task, "sample_weight": data.weight}
    if route == "sparse":
        return model.fit(csr_array(X), y, **how), None
    if route == "fortran":
        return model.fit(np.asfortranarray(X), y, **how), None
    if route == "float32":
        from msmtfl._data import tables

        before, tables.KEPT_ABOVE = tables.KEPT_ABOVE, 0
        try:
            return model.fit(X.astype(np.float32), y, **how), None
        finally:
            tables.KEPT_ABOVE = before
    if route in ("moments", "partial_fit"):
        parts = np.array_split(rng.permutation(len(y)), int(rng.integers(1, 4)))
        parts = [part for part in parts if len(part)]
        each = [
            (X[at], y[at], {"task": data.task[at], "sample_weight": None if data.weight is None else data.weight[at]})
            for at in parts
        ]
        if route == "partial_fit":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for one, target, more in each[:-1]:
                    model.partial_fit(one, target, **more)
            one, target, more = each[-1]
            return model.partial_fit(one, target, **more), None
        moments = Moments()
        for one, target, more in each:
            moments.update(one, target, **more)
        return model.fit_moments(moments), None
    if route == "warm":
        model.set_params(warm_start=True)
        model.fit(X, y, **how)
        if model.get_params().get("lam") is not None:
            model.set_params(lam=model.lam * float(10.0 ** rng.uniform(-2, 1)))
        start = np.atleast_2d(model.coef_).copy()
        model.fit(X, y, **how)
        return model, start
    return model.fit(X, y, **how), None


def check_surface(model: Any, data: Data, member: str, report: Report) -> None:
    """All points of a grid."""
    options: dict[str, Any] = {"fit_intercept": model.fit_intercept, "standardize": model.standardize, "n_jobs": None}
    surface = regularization_surface(
        data.X,
        data.y,
        task=data.task,
        sample_weight=data.weight,
        lams=4,
        theta_ratios=[2.0, np.inf],
        lam_min_ratio=1e-6 if member == "lasso" else None,
        penalty_factors=model.penalty_factors,
        positive=getattr(model, "positive", False),
        **options,
    )
    tasks = data.oracle_tasks(model.fit_intercept)
    given = np.ones(data.X.shape[1]) if model.penalty_factors is None else model.penalty_factors
    F = units(tasks, model.standardize, given)
    for k, l in np.ndindex(surface.dual_gap.shape):
        A = weights_of(tasks, F, surface.free_rows(k, l), None, surface.lams[k])
        true = oracles.lasso_gap(tasks, surface.coef(k, l), A, getattr(model, "positive", False))
        report.claims.append(Claim(f"point {k}, {l}", float(surface.dual_gap[k, l]), surface.tol, true))
        if surface.converged[k, l] and not 0 <= surface.dual_gap[k, l] <= surface.tol:
            report.failures.append(f"in words: point {k}, {l} has converged with a gap of {surface.dual_gap[k, l]}")


def run(seed: int, members: tuple[str, ...] = ()) -> Report:
    """One fit, and all that is wrong with it."""
    rng = np.random.default_rng(seed)
    member, route = str(rng.choice(members or MEMBERS)), str(rng.choice(ROUTES))
    if member in LOSS_MEMBERS and route in ("moments", "partial_fit", "surface"):
        route = "dense"
    if member in ("l12", "dirty") and route == "partial_fit":
        route = "moments"
    if route == "surface" and member not in ("lasso", "msmtfl"):
        route = "dense"
    if member == "logistic" and route == "cv":
        route = "dense"
    data = make_data(member, rng)
    if route == "float32":
        with np.errstate(over="ignore"):
            data.X = data.X.astype(np.float32).astype(np.float64)
        data.X[~np.isfinite(data.X)] = 1.0
    if route in ("moments", "partial_fit"):
        data.dependent = 1e-11  # what statistics can tell
    report = Report(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        try:
            model = make_model(member, route, data, rng)
            report.name = f"{member}, {route}, {data.kinds}, {data.X.shape}, m {data.m}: {model}".replace("\n", " ")
            if route == "surface":
                check_surface(model, data, member, report)
            else:
                model, start = fitted(model, data, route, rng)
                with np.errstate(all="ignore"):
                    kind = "msmtfl" if member == "bi-level" else member
                    if hasattr(model, "coef_init") or start is None or member in ("shared", "l12", "lasso", "dirty"):
                        check_stages(
                            model, data, kind, report, start if kind == "msmtfl" or kind in LOSS_MEMBERS else None
                        )
        except Exception as error:
            known = isinstance(error, (ValueError, TypeError)) and any(words in str(error) for words in DOCUMENTED)
            if known:
                report.refused = str(error)
            else:
                report.failures.append(f"an error: {error!r}\n{traceback.format_exc(limit=-3)}")
    for claim in report.claims:
        if not claim.gap >= 0:
            report.failures.append(f"no gap: {claim.what} {claim.gap}")
        elif claim.gap <= claim.tol and claim.true > LIE:
            report.failures.append(f"a lie: {claim.what} claims {claim.gap:.1e}, the gap is {claim.true:.1e}")
    return report


LOSS_MEMBERS = ("poisson", "huber", "logistic", *MORE)


def fuzz(
    fits: int, minutes: float, seed: int, show: Any = print, members: tuple[str, ...] = ()
) -> tuple[Counter, list[Report]]:
    """So many fits, or as many as there is time for; counts, and those that failed."""
    began, count, bad = time.perf_counter(), Counter(), []
    k = 0
    while (not fits or k < fits) and (not minutes or time.perf_counter() - began < 60.0 * minutes):
        if k and k % EVERY == 0:
            show(f"{k} fits, {len(bad)} failed, {(time.perf_counter() - began) / 60:.0f} minutes")
        started = time.perf_counter()
        report = run(seed + k, members)
        took = time.perf_counter() - started
        k += 1
        count["fits"] += 1
        count["refused, as documented"] += bool(report.refused)
        for claim in report.claims:
            count["answers"] += 1
            count["certified"] += bool(0 <= claim.gap <= claim.tol)
            count["not certified, though right"] += bool(claim.gap > claim.tol and claim.true <= RIGHT)
            count["not certified, and not right"] += bool(claim.gap > claim.tol and claim.true > RIGHT)
            count["certified, and not judged by the oracle"] += bool(claim.gap <= claim.tol and np.isnan(claim.true))
        count["slower than 10 s"] += took > 10.0
        if report.failures:
            bad.append(report)
            count["FAILED"] += 1
            show(f"seed {report.seed} ({report.name}):")
            for line in report.failures:
                show(f"    {line}")
    return count, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=300, help="how many; 0: as many as there is time for")
    parser.add_argument("--minutes", type=float, default=0.0, help="no more than this; 0: no limit")
    parser.add_argument("--seed", type=int, default=0, help="of the first fit; the next have those that follow")
    parser.add_argument("--only", type=int, help="the fit of this seed, with all that is claimed of it")
    parser.add_argument("--members", nargs="+", choices=MEMBERS + MORE, default=MEMBERS, help="models and losses")
    arguments = parser.parse_args()
    members = tuple(arguments.members)
    if arguments.only is not None:
        report = run(arguments.only, members)
        lines = [report.name, report.refused, *(str(claim) for claim in report.claims), *report.failures]
        sys.stdout.write("\n".join(line for line in lines if line) + "\n")
        return bool(report.failures)
    if not arguments.fits and not arguments.minutes:
        parser.error("give --fits, --minutes or both")
    began = time.perf_counter()
    count, bad = fuzz(
        arguments.fits,
        arguments.minutes,
        arguments.seed,
        lambda line: sys.stdout.write(line + "\n") and sys.stdout.flush(),
        members,
    )
    for name, value in sorted(count.items()):
        sys.stdout.write(f"{value:>10,}  {name}\n")
    sys.stdout.write(f"{time.perf_counter() - began:.0f} s\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
