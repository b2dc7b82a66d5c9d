"""Do prediction intervals hold what they promise, in every task, and how wide are they?

    python benchmarks/studies/prediction_intervals.py synthetic --reps 100
    python benchmarks/studies/prediction_intervals.py small-tasks --reps 100
    python benchmarks/studies/prediction_intervals.py new-tasks --reps 50
    python benchmarks/studies/prediction_intervals.py new-ways --reps 50 --levels 0.9
    MSMTFL_DATA=... python benchmarks/studies/prediction_intervals.py real --splits 20
    python benchmarks/studies/prediction_intervals.py quantiles
    python benchmarks/studies/prediction_intervals.py cost

synthetic: few samples per task, noise that differs tenfold between tasks, 10^4 new samples per task; what is shown is the
mean over data sets of the share of new samples in their intervals. Allowed: the mean over tasks within 1.5 points of
nominal, no task below nominal - 3; upwards 1 / (n_i + 1) more, as a quantile of n_i scores is no finer.

small-tasks: ways to make intervals of tasks with too few scores, compared on scores alone.

new-tasks: tasks that the model has not seen.

new-ways: the same by every way of predicting them, four new tasks beside 36 known ones: alike but for noise; with slopes
that go with the means of the features; and schools of eight regions that differ.

real: school, computer and Isolet, training and test rows drawn anew. Beside intervals per task: widths of MAPIE's CV+ (all
tasks pooled; the lasso of each task with the lam that the search has chosen) and of crepes, Mondrian by task (a third of
the training rows calibrates), if these packages are installed. Coverage per task is told beside what binomial noise and the
draw of n_i scores would make of it.

quantiles: what the quantile of a few scores holds of new ones, where it lies between two scores; beside it the larger of the
two, and the straight line between them.

How intervals are made was chosen by looking at data sets and splits 0 to 99; --first 1000 has others, which had no part in
it.

cost: the share of a search's time that goes into what it keeps for intervals.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm, t

import msmtfl
from msmtfl._estimators.grid_search import GridSearch
from msmtfl._paths.conformal import HeldOutScores, Table

COUNTS = np.array([6, 8, 10, 12, 15, 20, 20, 30, 40, 40])
NOISE = np.array([1.0, 0.3, 3.0, 1.0, 0.5, 2.0, 0.3, 1.0, 3.0, 0.5])
REAL = {"school": 0.6, "computer": 0.7, "isolet": 0.2}  # share of every task's rows that are trained on


def truth(rng: np.random.Generator, m: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    W = np.zeros((m, d))
    W[:, :3] = 1.0 + 0.5 * rng.standard_normal((m, 3))
    return W, rng.standard_normal(m)


def draw(
    rng: np.random.Generator, W: Any, b: Any, noise: Any, counts: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    task = np.repeat(np.arange(len(W)), counts)
    X = rng.standard_normal((len(task), W.shape[1]))
    return X, np.einsum("ij,ij->i", X, W[task]) + b[task] + noise[task] * rng.standard_normal(len(task)), task


def held(interval: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (interval[:, 0] <= y) & (y <= interval[:, 1])


def by_task(values: np.ndarray, task: np.ndarray) -> np.ndarray:
    return np.bincount(task, values) / np.bincount(task)


# ------------------------------------------------------------------ synthetic


def synthetic(model: str, levels: list[float], reps: int, new: int, d: int, lams: int, first: int) -> bool:
    """Whether all is within what is allowed."""
    m = len(COUNTS)
    found = {level: np.empty((reps, 2, m)) for level in levels}
    for r in range(reps):
        rng = np.random.default_rng(first + r)
        W, b = truth(rng, m, d)
        X, y, task = draw(rng, W, b, NOISE, COUNTS)
        fitted = getattr(msmtfl, model)(lams=lams).fit(X, y, task=task)
        X, y, task = draw(rng, W, b, NOISE, new)
        for level in levels:
            interval = fitted.predict_interval(X, task=task, level=level)
            found[level][r] = by_task(held(interval, y), task), by_task(np.ptp(interval, axis=1), task)
    good = True
    print(f"{model}, {reps} data sets\n{'n_i':>14s}" + "".join(f"{n:7d}" for n in COUNTS) + "   mean  allowed")
    for level, values in found.items():
        cover, width = values.mean(axis=0)
        error = values[:, 0].std(axis=0).max() / np.sqrt(reps)
        most = level + np.minimum(1 / (COUNTS + 1), 1 - level)
        good &= bool(level - 0.015 <= cover.mean() <= most.mean() + 0.015 and (cover >= level - 0.03).all())
        print(f"level {level:4.2f}    " + "".join(f"{100 * v:7.1f}" for v in cover), end="")
        print(
            f"{100 * cover.mean():7.1f}  {100 * level - 1.5:.1f} to {100 * most.mean() + 1.5:.1f}; s.e. {100 * error:.1f}"
        )
        print("  width/noise " + "".join(f"{v:7.1f}" for v in width / NOISE))
    print("within what is allowed" if good else "NOT within what is allowed", flush=True)
    return good


def new_tasks(model: str, levels: list[float], reps: int, m: int, d: int, lams: int, first: int) -> None:
    """Tasks that were not there: coverage over draws of known and new tasks."""
    levels = [level for level in levels if level <= m / (m + 1)]
    cover = np.zeros((reps, len(levels)))
    for r in range(reps):
        rng = np.random.default_rng(first + r)
        W, b = truth(rng, 2 * m, d)
        X, y, task = draw(rng, W, b, np.full(2 * m, 0.5), 30)
        known = task < m
        fitted = getattr(msmtfl, model)(lams=lams, unknown_task="mean").fit(X[known], y[known], task=task[known])
        for l, level in enumerate(levels):
            interval = fitted.predict_interval(X[~known], task=task[~known], level=level)
            cover[r, l] = held(interval, y[~known]).mean()
    for level, mean, error in zip(levels, cover.mean(axis=0), cover.std(axis=0) / np.sqrt(reps), strict=True):
        print(f"{model}: {m} new tasks, known {m}: level {level:.2f}: {100 * mean:.1f} % (s.e. {100 * error:.1f})")


NEW = 4
WAYS = ("mean", "common", "similar")
MODELS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "alike": [("SharedMTLCV", {}), ("PartialPoolingCV", {}), ("PretrainedMTLCV", {}), ("RobustMTLCV", {})],
    "features": [("SharedMTLCV", {})],
    "regions": [("NestedMTLCV", {"kind": "ridge"}), ("NestedMTLCV", {})],
}


def of_kind(kind: str, seed: int, m: int = 40, n: int = 25, d: int = 6, regions: int = 8) -> tuple[np.ndarray, ...]:
    """X, y, the task of every sample as a number, and its label."""
    rng = np.random.default_rng(seed)
    task, X = np.repeat(np.arange(m), n), rng.standard_normal((m * n, d))
    of_region, own, place = rng.standard_normal((regions, d)), rng.standard_normal((m, d)), rng.standard_normal(m)
    W = 1.0 + 0.3 * own
    if kind == "regions":
        W += 0.7 * of_region[np.arange(m) % regions]
    if kind == "features":
        X += 1.5 * place[task, None]
        W += place[:, None] * np.linspace(-1.0, 1.0, d)
    y = (X * W[task]).sum(axis=1) + rng.standard_normal(m)[task] + rng.standard_normal(m * n)
    return X, y, task, np.array([f"{i % regions} / {i}" for i in task]) if kind == "regions" else task


def new_ways(levels: list[float], reps: int, first: int) -> None:
    """Coverage and width of intervals for new tasks by every way of predicting them."""
    for kind, models in MODELS.items():
        for name, options in models:
            found = np.zeros((reps, len(WAYS), len(levels), 2))
            for r in range(reps):
                X, y, task, label = of_kind(kind, first + r)
                new = task >= task.max() + 1 - NEW
                fitted = getattr(msmtfl, name)(**options).fit(X[~new], y[~new], task=label[~new])
                for w, way in enumerate(WAYS):
                    fitted.set_params(unknown_task=way)
                    for l, level in enumerate(levels):
                        interval = fitted.predict_interval(X[new], task=label[new], level=level)
                        found[r, w, l] = held(interval, y[new]).mean(), np.ptp(interval, axis=1).mean()
            mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(reps)
            title = f"{name}({', '.join(f'{key}={value!r}' for key, value in options.items())})"
            for l, level in enumerate(levels):
                each = [
                    f"{way} {100 * mean[w, l, 0]:.1f} % ({100 * error[w, l, 0]:.1f}) of width {mean[w, l, 1]:.2f}"
                    for w, way in enumerate(WAYS)
                ]
                print(f"{kind}: {title}: level {level:.2f}: {'; '.join(each)}", flush=True)


# ------------------------------------------------------------------ what small tasks borrow


def small_tasks(levels: list[float], reps: int) -> None:
    """Ways to make an interval of a task with few scores, on scores alone: |noise| of known scale, half of the tasks with 6
    of them, half with 30. Coverage is exact: the distribution of a new score is known."""
    counts, scale = np.tile([6, 30], 5), np.repeat([0.3, 0.6, 1.0, 2.0, 3.0], 2)
    shapes = {"normal": norm.cdf, "t with 3 degrees": t(3).cdf}
    for shape, cdf in shapes.items():
        for level in levels:
            found: dict[str, np.ndarray] = {}
            for r in range(reps):
                rng = np.random.default_rng(r)
                noise = rng.standard_normal if shape == "normal" else lambda n, rng=rng: rng.standard_t(3, n)
                parts = [s * np.sort(np.abs(noise(n))) for s, n in zip(scale, counts, strict=True)]
                pool = np.concatenate(parts)
                task = np.repeat(np.arange(len(counts)), counts)
                fold = np.zeros(len(pool), dtype=int)
                table = Table(task, fold, pool, np.ones(len(pool)))
                scores = HeldOutScores(np.empty(0, int), np.empty(0), np.zeros((1, len(counts), 1)), 1, table, table)
                mean, overall = np.array([part.mean() for part in parts]), np.mean([part.mean() for part in parts])
                for i in np.flatnonzero((counts == 6) & (level > 6 / 7)):
                    borrowed = scores.borrowed(i, level)
                    assert borrowed is not None
                    radii = {"scale of its own": borrowed.score[0], "pooled, no scale": np.quantile(pool, level)}
                    for k in (2, 6):  # as if k scores of the other tasks' mean size were the task's, too
                        steadied = (counts * mean + k * overall) / (counts + k)
                        radii[f"scale drawn, k = {k}"] = steadied[i] * np.quantile(pool / steadied[task], level)
                    for way, radius in radii.items():
                        found.setdefault(way, np.zeros((reps, len(counts), 2)))[r, i] = (
                            2 * cdf(radius / scale[i]) - 1,
                            radius / scale[i],
                        )
            print(
                f"{shape}, level {level:g}: coverage of tasks with 6 scores, noise " + ", ".join(map(str, scale[::2]))
            )
            for way, values in found.items():
                cover, radius = values.mean(axis=0)[::2].T
                shown = "".join(f"{100 * v:7.1f}" for v in cover)
                print(
                    f"  {way:22s}{shown}   mean {100 * cover.mean():5.1f}, radius/noise {radius.mean():.2f}", flush=True
                )


def quantiles(levels: list[float], reps: int) -> None:
    """Per cent of new scores below the quantile of n scores, which is exact: their distribution is known."""
    shapes = {
        "uniform": (lambda rng, size: rng.uniform(-1, 1, size), lambda x: np.minimum(0.5 + 0.5 * x, 1.0)),
        "normal": (lambda rng, size: rng.standard_normal(size), norm.cdf),
        "t, 3 d.f.": (lambda rng, size: rng.standard_t(3, size), t(3).cdf),
    }
    print("level   n  " + "".join(f"{shape:>10s}: used  line  larger" for shape in shapes))
    for level in levels:
        for n in (10, 12, 14, 16, 22, 25, 30, 40):
            at = level * (n + 1)
            if at > n:
                continue
            shown, one, k = "", np.zeros(n, int), int(np.floor(at + 1e-9))
            for draw_from, cdf in shapes.values():
                scores = np.sort(np.abs(draw_from(np.random.default_rng(0), (20 * reps, n))), axis=1)
                low, high = scores[:, k - 1], scores[:, min(k, n - 1)]
                used = np.array([Table(one, one, score, np.ones(n)).radius(level) for score in scores])
                ways = used, low + (at - k) * (high - low), scores[:, int(np.ceil(at - 1e-9)) - 1]
                shown += "     " + "".join(f"{100 * np.mean(2 * cdf(way) - 1):7.1f}" for way in ways)
            print(f"{level:4.2f} {n:4d}  {shown}", flush=True)


# ------------------------------------------------------------------ real data


def real_data(name: str, folder: Path, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with np.load(folder / f"{name}.npz") as file:
        X, y, task = file["X"].astype(np.float64), file["y"].astype(np.float64), file["task"].astype(int)
    kept = task < rows
    return X[kept], y[kept], task[kept]


def splits(task: np.ndarray, share: float, count: int, first: int = 0) -> Iterator[np.ndarray]:
    for r in range(first, first + count):
        rng = np.random.default_rng(r)
        train = np.zeros(len(task), dtype=bool)
        for i in np.unique(task):
            rows = rng.permutation(np.flatnonzero(task == i))
            train[rows[: max(round(share * len(rows)), 5)]] = True
        yield train


def real(
    name: str, folder: Path, model: str, level: float, count: int, lams: int, tasks: int, share: float, first: int
) -> None:
    X, y, task = real_data(name, folder, tasks)
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for train in splits(task, share, count, first):
        fitted = getattr(msmtfl, model)(lams=lams).fit(X[train], y[train], task=task[train])
        test = ~train
        ways = {"msmtfl": fitted.predict_interval(X[test], task=task[test], level=level)}
        for other, way in (("MAPIE CV+ (pooled)", mapie), ("crepes Mondrian", crepes)):
            interval = way(fitted, X, y, task, train, level)
            if interval is not None:
                ways[other] = interval
        for other, interval in ways.items():
            width = np.ptp(interval, axis=1)
            found.setdefault(other, []).append((held(interval, y[test]), np.where(np.isfinite(width), width, np.nan)))
            found.setdefault("", []).append((task[test], np.isinf(width))) if other == "msmtfl" else None
    of = np.concatenate([one for one, _ in found.pop("")])
    print(f"{name}: {len(np.unique(task))} tasks, {count} splits, {share:g} of the rows, {model}, level {level:g}")
    for other, parts in found.items():
        cover, width = np.concatenate([c for c, _ in parts]), np.concatenate([w for _, w in parts])
        each = by_task(cover, of)
        endless = f", infinite for {100 * np.isnan(width).mean():.1f} %" if np.isnan(width).any() else ""
        print(
            f"  {other:20s} covers {100 * cover.mean():5.1f} %; per task {100 * each.min():5.1f} to {100 * each.max():5.1f} "
            f"(s.d. {100 * each.std():4.1f}); mean width {np.nanmean(width):8.4g}{endless}"
        )
    counts = np.bincount(task[next(splits(task, share, 1))])
    new = np.bincount(of)
    expected = np.sqrt(np.mean(level * (1 - level) * (1 / new + 1 / (counts + 2) / count)))
    finest = np.ceil(level * (counts + 1) - 1e-9) / (counts + 1)
    finest = np.average(np.where(level <= counts / (counts + 1), finest, level), weights=new)
    print(f"  a quantile of as many scores as there are is that of level {100 * finest:.1f} %")
    print(f"  per task, s.d. by chance alone (test rows, and scores drawn anew in every split): {100 * expected:.1f}")
    each = by_task(np.concatenate([c for c, _ in found["msmtfl"]]), of)
    edges = np.arange(0.7, 1.0001, 0.05)
    tally = np.histogram(np.clip(each, 0.7, 1.0), edges)[0]
    told = ", ".join(f"{100 * edge:.0f}+: {n}" for edge, n in zip(edges, tally, strict=False))
    print(f"  tasks by coverage: {told}", flush=True)


def with_task(X: np.ndarray, task: np.ndarray) -> np.ndarray:
    """The task as first column, so that estimators of other packages pass it on."""
    return np.column_stack([task, X])


def mapie(fitted: Any, X: Any, y: Any, task: Any, train: np.ndarray, level: float) -> np.ndarray | None:
    """CV+ over all tasks together, of the lasso at the lam that was chosen."""
    try:
        from mapie.regression import CrossConformalRegressor
    except ImportError:
        return None
    Z = with_task(X, task)
    base = msmtfl.MSMTFL(fitted.lam_, getattr(fitted, "theta_", np.inf), task_column=0)
    folds = msmtfl.TaskKFold(5, task_column=0, random_state=0)
    cross = CrossConformalRegressor(base, confidence_level=level, method="plus", cv=folds)
    cross.fit_conformalize(Z[train], y[train])
    return np.asarray(cross.predict_interval(Z[~train])[1][:, :, 0])


def crepes(fitted: Any, X: Any, y: Any, task: Any, train: np.ndarray, level: float) -> np.ndarray | None:
    """Split conformal, Mondrian by task."""
    try:
        from crepes import ConformalRegressor
    except ImportError:
        return None
    rng = np.random.default_rng(0)
    fit = train & (rng.uniform(size=len(train)) < 2 / 3)
    base = msmtfl.MSMTFL(fitted.lam_, getattr(fitted, "theta_", np.inf), task_column=0, unknown_task="mean")
    Z = with_task(X, task)
    base.fit(Z[fit], y[fit])
    rest = train & ~fit
    regressor = ConformalRegressor().fit(y[rest] - base.predict(Z[rest]), bins=task[rest])
    return np.asarray(regressor.predict_int(base.predict(Z[~train]), bins=task[~train], confidence=level))


# ------------------------------------------------------------------ cost


def cost(model: str, m: int, n: int, d: int, repeats: int) -> None:
    """The share of a search's time that goes into what is kept for intervals."""
    rng = np.random.default_rng(0)
    W, b = truth(rng, m, d)
    X, y, task = draw(rng, W, b, np.ones(m), n)
    keep, kept, shares, seconds = GridSearch._keep_scores, [0.0], [], []

    def timed(*given: Any) -> None:
        began = time.process_time()
        keep(*given)
        kept[0] = time.process_time() - began

    GridSearch._keep_scores = timed  # type: ignore[method-assign,assignment]
    for _ in range(repeats):
        began = time.process_time()
        getattr(msmtfl, model)().fit(X, y, task=task)
        seconds.append(time.process_time() - began)
        shares.append(kept[0] / seconds[-1])
    GridSearch._keep_scores = keep  # type: ignore[method-assign]
    print(
        f"{model}, m = {m}, n = {n}, d = {d}: {100 * np.median(shares):.1f} % of {np.median(seconds):.3f} s", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what", choices=["synthetic", "small-tasks", "new-tasks", "new-ways", "quantiles", "real", "cost"]
    )
    parser.add_argument("--model", default="MSMTFLCV")
    parser.add_argument("--levels", type=float, nargs="*", default=[0.8, 0.9, 0.95])
    parser.add_argument("--reps", type=int, default=100)
    parser.add_argument("--new", type=int, default=10_000, help="new samples per task")
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--lams", type=int, default=30)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--data", nargs="*", default=list(REAL))
    parser.add_argument("--tasks", type=int, default=10**9, help="of real data only the first so many")
    parser.add_argument("--share", type=float, help="of the rows of real data that are trained on")
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first data set or split: what it is drawn by"
    )
    parser.add_argument("--repeats", type=int, default=5)
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    if a.what == "synthetic":
        synthetic(a.model, a.levels, a.reps, a.new, a.features, a.lams, a.first)
    elif a.what == "small-tasks":
        small_tasks([level for level in a.levels if level > 6 / 7], a.reps)
    elif a.what == "quantiles":
        quantiles(a.levels, a.reps)
    elif a.what == "new-tasks":
        new_tasks(a.model, a.levels, a.reps, 20, a.features, a.lams, a.first)
    elif a.what == "new-ways":
        new_ways([level for level in a.levels if level <= 0.97], a.reps, a.first)
    elif a.what == "cost":
        for m, n, d in ((10, 40, 50), (50, 100, 30), (5, 300, 600)):
            cost(a.model, m, n, d, a.repeats)
    else:
        folder = Path(os.environ.get("MSMTFL_DATA", ""))
        for name in a.data:
            if not (folder / f"{name}.npz").exists():
                print(f"{name}: MSMTFL_DATA names no folder with {name}.npz")
                continue
            for level in a.levels:
                real(name, folder, a.model, level, a.splits, a.lams, a.tasks, a.share or REAL[name], a.first)


if __name__ == "__main__":
    main()
