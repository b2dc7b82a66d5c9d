"""In which units should partial pooling penalise? Held-out errors of `PartialPoolingCV` by its `standardize`, on real data.

    python benchmarks/studies/column_units.py [--only DATA ...] [--folds 5] [--quick]

Needs MSMTFL_DATA, the folder of school.npz and the others. Every fold is predicted with strengths that were chosen
within its training samples; the error is that of a task's held-out samples over the variance of its target. Of large
data a part of the samples is taken, drawn at random. Differences from the data's own units have standard errors of
samples. --quick takes two folds of the small ones.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from msmtfl import PartialPoolingCV, TaskKFold

SHARES = {"school": 1.0, "computer": 1.0, "hiv_pi": 0.15, "sarcos": 0.03, "gdsc": 0.4, "isolet": 0.1}
SMALL = ("computer", "sarcos")
WAYS = (False, True, "numeric")


def read(folder, name):
    data = np.load(folder / f"{name}.npz")
    X, y, task = data["X"].astype(float), data["y"].astype(float), data["task"]
    kept = np.random.default_rng(0).random(len(y)) < SHARES[name]
    return X[kept], y[kept], task[kept]


def errors(X, y, task, folds, standardize):
    """Of every sample, over the variance of its task; tasks with one value of y are left out."""
    predicted = np.zeros(len(y))
    for train, test in folds:
        model = PartialPoolingCV(standardize=standardize).fit(X[train], y[train], task=task[train])
        predicted[test] = model.predict(X[test], task=task[test])
    of_task = {label: y[task == label].var() for label in np.unique(task).tolist()}
    variance = np.array([of_task[label] for label in task.tolist()])
    live = variance > 0
    return (predicted - y)[live] ** 2 / variance[live]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SHARES), default=list(SHARES))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of constant targets, and of samples that are alike in several tasks
    folder = Path(os.environ.get("MSMTFL_DATA", "."))
    print(f"{'data':<10} {'samples':>8}   " + "   ".join(f"{f'standardize={way}':<24}" for way in WAYS) + "   CPU s")
    for name in options.only:
        if not (folder / f"{name}.npz").exists():
            print(f"{name}: {name}.npz not found, set MSMTFL_DATA to its folder")
            continue
        if options.quick and name not in SMALL:
            continue
        X, y, task = read(folder, name)
        parts = TaskKFold(2 if options.quick else options.folds, task=task, random_state=0)
        folds = list(parts.split(X))
        began = time.process_time()
        found = {way: errors(X, y, task, folds, way) for way in WAYS}
        words = []
        for way, error in found.items():
            apart = error - found[False]
            se = apart.std(ddof=1) / np.sqrt(len(apart))
            words.append(f"{error.mean():.4f}" + ("" if way is False else f" {apart.mean():+.4f} ({se:.4f})"))
        print(f"{name:<10} {len(y):>8,}   " + "   ".join(f"{one:<24}" for one in words), end="   ")
        print(f"{time.process_time() - began:.0f}", flush=True)


if __name__ == "__main__":
    main()
