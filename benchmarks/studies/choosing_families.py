"""Is the choice among families as good, and the error that is reported for it as true, as with nested cross-validation?

    python benchmarks/studies/choosing_families.py                       # five small data sets
    python benchmarks/studies/choosing_families.py --data-sets 100       # of five kinds in turn; rows go to a file
    python benchmarks/studies/choosing_families.py --real school computer --splits 20 --families all
    python benchmarks/studies/choosing_families.py --table               # only the tables, from the rows that there are

`plain` is the default of `MultiTaskAuto`: one cross-validation of every family, and an error that is corrected for having
chosen by bootstrap (BBC). `nested` repeats the search of every family within every fold. Both choose by the same rule among
the same families, fitted to all training samples at the same points. `reported` is what a way says of its choice,
`fresh` the error of that model on fresh samples, both in units of the training targets' variances. Bias is reported less
fresh; regret is fresh less that of the best family on these samples. `uncorrected` is the held-out error of the choice as
the comparison shows it, each fold at the point that the others choose. Models that are measured on held-out samples were
trained on four fifths of the data, so that a bias above 0 is to be expected of every honest way.

Simulated data are those of `chosen_points.py`. Real data are found through the environment variable MSMTFL_DATA; a part of
the samples of every task, drawn anew for each split, is trained on, the others are the fresh ones.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn.base import clone

sys.path.insert(0, str(Path(__file__).parent))
from chosen_points import KINDS, data_set

from msmtfl.compare.choice.choosing import choose_family
from msmtfl.compare.run import default_models, run_comparison

FAST = ("lasso", "l12", "msmtfl", "ridge per task", "pooled lasso", "pooled ridge")
ROWS = Path(__file__).parents[1] / "results" / "choosing_families.jsonl"
WAYS = ("plain", "nested")


def models_of(names: list[str], lams: int) -> dict:
    known = default_models()
    chosen = {name: known[name] for name in (known if names == ["all"] else names)}
    for model in chosen.values():
        if "lams" in model.get_params():
            model.set_params(lams=lams)
    return chosen


def fresh_error(model, new: tuple, unit: np.ndarray, sizes: np.ndarray) -> float:
    """Mean over tasks, by the size that they have in training, of squared errors over the variances of training targets."""
    X, y, task = new
    wrong = (y - model.predict(X, task=task)) ** 2
    by_task = np.array([wrong[task == i].mean() if (task == i).any() else np.nan for i in range(len(unit))])
    known = np.isfinite(by_task) & (unit > 0)
    return float(np.average(by_task[known] / unit[known], weights=sizes[known]))


def rows_of(name: str, seed: int, train: tuple, new: tuple, models: dict, cv: int) -> list[dict]:
    """One row per way."""
    X, y, task = train
    given = {"task_column": None, "sample_weight": None, "groups": None, "classify": False, "screen": False}
    given |= {"cv": cv, "inner_cv": cv, "random_state": seed, "n_jobs": None, "verbose": False}
    found, seconds = {}, {}
    for way in WAYS:
        began = time.process_time()
        found[way] = run_comparison(X, y, task=task, models=models, nested=way == "nested", **given)
        seconds[way] = time.process_time() - began
    plain = found["plain"].comparison
    sizes = np.bincount(task, minlength=len(plain.tasks)).astype(float)
    fitted = {
        key: found["plain"].fitted[key] if key in found["plain"].fitted else clone(model).fit(X, y, task=task)
        for key, model in models.items()
    }
    fresh = {key: fresh_error(model, new, plain.unit, sizes) for key, model in fitted.items()}
    out = []
    for way, of_way in found.items():
        comparison = of_way.comparison
        chosen = choose_family(comparison)[0]
        error = float(comparison.error[comparison.models.index(chosen)])
        reported = error if comparison.corrected is None else comparison.corrected.chosen["1se"]
        row = {"data": name, "seed": seed, "way": way, "chosen": chosen, "reported": reported, "uncorrected": error}
        out.append(row | {"fresh": fresh[chosen], "best": min(fresh.values()), "seconds": seconds[way]})
    return out


def real_split(name: str, seed: int, share: float) -> tuple[tuple, tuple]:
    """Samples to train on and fresh ones, from a file of X, y and task in the folder of MSMTFL_DATA."""
    folder = os.environ.get("MSMTFL_DATA")
    if folder is None:
        raise SystemExit(f"{name}: set MSMTFL_DATA to a folder that has {name}.npz.")
    with np.load(Path(folder) / f"{name}.npz") as file:
        X, y = file["X"].astype(np.float64), file["y"].astype(np.float64)
        task = np.unique(file["task"], return_inverse=True)[1].ravel()
    rng = np.random.default_rng([30_000, seed])
    train = np.zeros(len(y), dtype=bool)
    for i in np.unique(task):
        rows = rng.permutation(np.flatnonzero(task == i))
        train[rows[: max(6, round(share * len(rows)))]] = True
    return (X[train], y[train], task[train]), (X[~train], y[~train], task[~train])


def sets_of(given: argparse.Namespace) -> Iterator[tuple[str, int, Callable[[], tuple[tuple, tuple]]]]:
    """Name, number, and what makes the samples to train on and the fresh ones."""
    for seed in range(given.first, given.first + (0 if given.real else given.data_sets)):
        yield KINDS[seed % len(KINDS)], seed, lambda seed=seed: data_set(seed)[1:]
    for name in given.real:
        for seed in range(given.first, given.first + given.splits):
            yield name, seed, lambda name=name, seed=seed: real_split(name, seed, given.share)


def table(rows: list[dict]) -> str:
    lines = [
        "| data | sets | way | bias (s.e.) | bias uncorrected | regret (s.e.) | same choice | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    kinds = [*dict.fromkeys(row["data"] for row in rows), None]
    for kind in kinds:
        own = [row for row in rows if kind in (row["data"], None)]
        by_set = {(row["data"], row["seed"], row["way"]): row for row in own}
        keys = sorted({key[:2] for key in by_set if all((*key[:2], way) in by_set for way in WAYS)})
        for way in WAYS if keys else ():
            part = [by_set[*key, way] for key in keys]
            bias = np.array([row["reported"] - row["fresh"] for row in part])
            raw = np.array([row["uncorrected"] - row["fresh"] for row in part])
            regret = np.array([row["fresh"] - row["best"] for row in part])
            same = np.mean([by_set[*key, "plain"]["chosen"] == by_set[*key, "nested"]["chosen"] for key in keys])
            lines.append(
                f"| {kind or 'all'} | {len(part)} | {way} | {mean_se(bias)} | {raw.mean():+.4f} | {mean_se(regret)} | "
                f"{same:.0%} | {np.mean([row['seconds'] for row in part]):.2f} |"
            )
    return "\n".join(lines)


def mean_se(values: np.ndarray) -> str:
    se = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():+.4f} ({se:.4f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=5, help="simulated ones, of the five kinds in turn")
    parser.add_argument("--first", type=int, default=0, help="the first of them: several processes can share the work")
    parser.add_argument("--real", nargs="*", default=[], help="names of real data sets")
    parser.add_argument("--splits", type=int, default=20, help="of each of the real data sets")
    parser.add_argument("--share", type=float, default=0.5, help="of the samples of a real task that is trained on")
    parser.add_argument("--families", nargs="+", default=list(FAST), help="names, or all")
    parser.add_argument("--lams", type=int, default=20, help="values of lam in every grid")
    parser.add_argument("--cv", type=int, default=5, help="folds, inner ones too")
    parser.add_argument("--out", type=Path, default=None, help="where rows are added; what it has is skipped")
    parser.add_argument("--table", action="store_true", help="print the tables of the rows that there are, and stop")
    given = parser.parse_args()
    out = given.out or (ROWS if given.table or given.data_sets > len(KINDS) or given.real else None)
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out and out.exists() else []
    for name, seed, draw in [] if given.table else sets_of(given):
        if any((row["data"], row["seed"]) == (name, seed) for row in rows):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows += (new := rows_of(name, seed, *draw(), models_of(given.families, given.lams), given.cv))
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            with out.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in new)
    print(table(rows))


if __name__ == "__main__":
    main()
