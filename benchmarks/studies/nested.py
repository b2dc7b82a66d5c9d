"""Tasks with levels: errors of models that know them beside flat ones, for known schools, new schools and new regions.

python benchmarks/studies/nested.py              # ten seeds of three generators
python benchmarks/studies/nested.py --real       # the school data, with the kinds of schools as a level
python benchmarks/studies/nested.py --parity     # objectives against cvxpy, if it is installed
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from msmtfl import LassoMTLCV, NestedMTLCV, PartialPoolingCV, SharedMTLCV, TaskKFold
from msmtfl.datasets import load_school

REGIONS, SCHOOLS, SAMPLES, FEATURES = 6, 48, 15, 12
KINDS = ("dense", "sparse", "crossed")
FLAT: dict[str, Callable[..., Any]] = {
    "SharedMTLCV": SharedMTLCV,
    "PartialPoolingCV": PartialPoolingCV,
    "LassoMTLCV": LassoMTLCV,
}
NESTED: dict[str, dict[str, Any]] = {"NestedMTLCV()": {}, "NestedMTLCV(kind='ridge')": {"kind": "ridge"}}


def generated(seed: int, kind: str) -> tuple[np.ndarray, ...]:
    """X, y, region and school of all samples, and whether a sample is of a known school, a new one or a new region (0, 1,
    2). Effects of regions are twice as large as those of schools; if `sparse`, only on some features."""
    random = np.random.default_rng(seed)
    crossed = kind == "crossed"
    regions, schools = REGIONS + 1, SCHOOLS // 3 if crossed else SCHOOLS + SCHOOLS // 3
    school = np.repeat(np.arange(schools), REGIONS * 2 * SAMPLES if crossed else 4 * SAMPLES)
    region = random.integers(0, REGIONS, len(school)) if crossed else (school * regions) // schools
    b, u = random.standard_normal(FEATURES), random.standard_normal((regions, FEATURES)) * 0.6
    v = random.standard_normal((schools, FEATURES)) * 0.3
    if kind == "sparse":
        b *= random.random(FEATURES) < 0.5
        u *= 1.5 * (random.random(u.shape) < 0.25)
        v *= 1.5 * (random.random(v.shape) < 0.15)
    levels = random.standard_normal(regions)[region] + random.standard_normal(schools)[school]
    X = random.standard_normal((len(school), FEATURES))
    y = (X * (b + u[region] + v[school])).sum(axis=1) + levels + 1.5 * random.standard_normal(len(school))
    new_school = np.isin(school, random.permutation(schools)[: schools // 6]) & (not crossed)
    where = np.where((region == REGIONS) & (not crossed), 2, np.where(new_school, 1, 0))
    return X, y, region, school, where


def split(seed: int, labels: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Whether a sample is trained on: a quarter of those of every known task."""
    train = np.zeros(len(labels), dtype=bool)
    random = np.random.default_rng(seed)
    for label in np.unique(labels[known]):
        rows = random.permutation(np.flatnonzero(known & (labels == label)))
        train[rows[: max(2, len(rows) // 4)]] = True
    return train


def models() -> dict[str, tuple[Callable[[], Any], str]]:
    """By name: how to make a model, and what its tasks are."""
    out: dict[str, tuple[Callable[[], Any], str]] = {}
    for name, options in NESTED.items():
        out[name] = (lambda options=options: NestedMTLCV(unknown_task="common", nested=False, **options)), "both"
    for name, make in FLAT.items():
        way = "mean" if make is LassoMTLCV else "common"
        for tasks in ("school", "region", "both"):
            out[f"{name}, by {tasks}"] = (lambda make=make, way=way: make(unknown_task=way)), tasks
    return out


def study(seeds: int, kinds: tuple[str, ...]) -> list[dict[str, Any]]:
    """A line per generator and model: the mean nMSE of known schools, new schools and new regions, and seconds."""
    lines = []
    for kind in kinds:
        found: dict[str, list[list[float]]] = {name: [] for name in models()}
        for seed in range(seeds):
            X, y, region, school, where = generated(seed, kind)
            both = np.array([f"{r} / {s}" for r, s in zip(region, school, strict=True)])
            labels = {"both": both, "school": school, "region": region}
            train = split(seed, both, where == 0)
            for name, (make, tasks) in models().items():
                if tasks == "both" and name not in NESTED and kind != "crossed":
                    continue  # nested schools are the combinations
                model, task = make(), labels[tasks]
                began = time.process_time()
                model.fit(X[train], y[train], task=task[train])
                seconds = time.process_time() - began
                f = model.predict(X, task=task)
                errors = []
                for place in range(3):
                    rows = (where == place) & ~train
                    errors.append(float(np.mean((y - f)[rows] ** 2) / np.var(y[rows])) if rows.any() else np.nan)
                found[name].append([*errors, seconds])
        for name, values in found.items():
            if values:
                mean, spread = np.mean(values, axis=0), np.std(values, axis=0) / np.sqrt(max(len(values) - 1, 1))
                lines.append({"data": kind, "model": name, "mean": mean, "se": spread})
    return lines


def real(seeds: int) -> list[dict[str, Any]]:
    """The school data: a fifth of the samples of every school is trained on. The kinds of schools are their gender and
    denomination, which are constant within schools."""
    data = load_school()
    X, y, school = np.asarray(data.X, dtype=float), np.asarray(data.y), np.asarray(data.task)
    names = [str(name) for name in data.feature_names]
    kinds = [j for j, name in enumerate(names) if name.startswith(("schoolgender", "denom"))]
    kind = np.array(["".join(str(int(value)) for value in row) for row in X[:, kinds]])
    both = np.array([f"{k} / {s}" for k, s in zip(kind, school, strict=True)])
    X, lines = np.delete(X, kinds, axis=1), []
    found: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        folds = list(TaskKFold(5, task=school, random_state=seed).split(X))
        test, train = folds[0]  # a fifth is trained on
        for name, (make, tasks) in models().items():
            if tasks == "both" and name not in NESTED:
                continue
            task = {"both": both, "school": school, "region": kind}[tasks]
            model, began = make(), time.process_time()
            model.fit(X[train], y[train], task=task[train])
            seconds, f = time.process_time() - began, model.predict(X, task=task)
            own = [np.flatnonzero(school[test] == label) for label in np.unique(school)]
            errors = [np.mean((y - f)[test][at] ** 2) / np.var(y[test][at]) for at in own]
            error = np.average(errors, weights=[len(at) for at in own])
            found.setdefault(name.replace("by region", "by kind"), []).append([error, np.nan, np.nan, seconds])
    for name, values in found.items():
        mean, spread = np.mean(values, axis=0), np.std(values, axis=0) / np.sqrt(max(len(values) - 1, 1))
        lines.append({"data": "school", "model": name, "mean": mean, "se": spread})
    return lines


def parity(seeds: int) -> float:
    """The largest relative difference of our objective to cvxpy's, over random problems, nested and crossed."""
    import cvxpy as cp

    from msmtfl import NestedMTL

    worst = 0.0
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        schools, regions, d = int(random.integers(4, 9)), int(random.integers(2, 4)), int(random.integers(1, 8))
        n = random.integers(6, 20, size=schools)
        school = np.repeat(np.arange(schools), n)
        region = random.integers(0, regions, len(school)) if seed % 2 else school % regions
        X, weight = random.standard_normal((len(school), d)), random.uniform(0.5, 2.0, len(school))
        y = X.sum(axis=1) * (1.0 + region) + random.standard_normal(len(school))
        labels = np.array([f"{r} / {s}" for r, s in zip(region, school, strict=True)])
        tasks, codes = np.unique(labels, return_inverse=True)
        sums = np.bincount(codes, weight)
        for kind in ("sparse", "ridge"):
            scale = 0.05 if kind == "sparse" else 5.0
            lams = scale * 10.0 ** random.uniform(-1.0, 0.5, 3)
            model = NestedMTL(lams[0], lams[1], lam_upper=lams[2], kind=kind, nested=False)
            model.fit(X, y, task=labels, sample_weight=weight)
            b, u, v = cp.Variable(d), cp.Variable((regions, d)), cp.Variable((schools, d))
            level = cp.Variable(len(tasks))
            left = y - X @ b - cp.sum(cp.multiply(X, u[region] + v[school]), axis=1) - level[codes]
            share = weight / weight.sum() if kind == "ridge" else weight / (len(tasks) * sums[codes])
            value = cp.sum_squares(cp.multiply(np.sqrt(share), left))
            for lam, part in ((lams[0], v), (lams[1], b), (lams[2], u)):
                value += lam * cp.norm1(part) if kind == "sparse" else lam / weight.sum() * cp.sum_squares(part)
            least = cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL", tol_gap_abs=1e-13, tol_gap_rel=1e-13)
            worst = max(worst, abs(model.objective_ - least) / abs(least))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--parity", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.parity:
        print(f"our objective differs from cvxpy's by at most {parity(asked.seeds):.1e}, relatively")
        return
    print(
        "| data | model | known schools | new schools | new regions | seconds |\n|---|---|---|---|---|---|", flush=True
    )
    for line in real(asked.seeds) if asked.real else study(asked.seeds, tuple(asked.only)):
        texts = [
            "" if np.isnan(mean) else f"{mean:.4f} ({se:.4f})"
            for mean, se in zip(line["mean"][:3], line["se"][:3], strict=True)
        ]
        print(f"| {line['data']} | `{line['model']}` | {' | '.join(texts)} | {line['mean'][3]:.2f} |")


if __name__ == "__main__":
    main()
