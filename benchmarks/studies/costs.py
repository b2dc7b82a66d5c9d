"""What does it cost to ask for more? CPU time with a ridge, an offset, other intercepts or intervals, over that without.

    python benchmarks/studies/costs.py [--only school ...] [--what ridge] [--repeats 5] [--quick]

On real data (MSMTFL_DATA), columns in units of their standard deviations, one thread. `path`: lassos of all tasks at 50
strengths. `fit`, `search`: of every family with its defaults. Intervals of predictions: what a search needs to keep for
them, and the first call of `predict_interval`. Knockoffs: `shared_features` over the search of lassos on [X, knockoffs]
that it holds. Splitting: `split_intervals` over a fit on all samples. Each ratio is the median over repeats, with and
without in turns; --quick takes synthetic data.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import msmtfl
from msmtfl._data.tasks import read_training
from msmtfl.datasets import make_multitask
from msmtfl.inference import shared_features, split_intervals
from msmtfl.inference.knockoffs import lassos_for

SHARES = {"school": 0.3, "hiv_pi": 0.2, "isolet": 0.1}
SEARCHES = ("LassoMTLCV", "MSMTFLCV", "L12MTLCV", "DirtyMTLCV", "SharedMTLCV")
RIDGE = 0.7


def read(name):
    if name == "synthetic":
        made = make_multitask(m=5, n=40, d=30, sigma=0.5, random_state=0)
        return made.X, made.y, made.task
    data = np.load(Path(os.environ.get("MSMTFL_DATA", ".")) / f"{name}.npz")
    X, y, task = data["X"].astype(float), data["y"].astype(float), data["task"]
    kept = np.random.default_rng(0).random(len(y)) < SHARES[name]
    X, y, task = X[kept], y[kept], task[kept]
    sizes = X.std(axis=0)
    return X[:, sizes > 0] / sizes[sizes > 0], y, task


def cpu(call):
    began = time.process_time()
    call()
    return time.process_time() - began


def ratio(more, less, repeats):
    """Of two calls that take turns: the median of the ratios, and seconds without."""
    more(), less()  # what only the first call costs
    times = np.array([(cpu(more), cpu(less)) for _ in range(repeats)])
    return float(np.median(times[:, 0] / times[:, 1])), float(np.median(times[:, 1]))


def jobs(X, y, task):
    """(what, what more is asked, call with it, call without)"""
    offset = 0.1 * np.random.default_rng(1).standard_normal(len(y)) * y.std()
    ridge = f"ridge, l1_ratio={RIDGE}"

    def path(share=1.0):
        model = msmtfl.MSMTFL(max_stages=1, l1_ratio=share)
        return lambda: model.surface(X, y, task=task, thetas=[np.inf], lams=50)

    def search(name, y=y, given=None, **options):
        given = {} if given is None else {"offset": given}
        return lambda: getattr(msmtfl, name)(n_jobs=1, **options).fit(X, y, task=task, **given)

    yield "path of lassos", ridge, path(RIDGE), path()
    bic = {"name": "LassoMTLCV", "selection": "bic"}
    yield "path of lassos, BIC", "offset", search(given=offset, **bic), search(y=y - offset, **bic)
    for name in SEARCHES:
        yield f"search, {name}", ridge, search(name, l1_ratio=RIDGE), search(name)
        yield f"search, {name}", "offset", search(name, given=offset), search(name, y=y - offset)
        yield f"search, {name}", "intercepts='shrunk'", search(name, intercepts="shrunk"), search(name)
    lassos = msmtfl.LassoMTLCV()
    yield (
        "search, LassoMTLCV",
        "predict_interval of all samples",
        lambda: lassos.fit(X, y, task=task).predict_interval(X, task=task),
        search("LassoMTLCV"),
    )
    both = np.hstack([X, np.random.default_rng(2).permutation(X)])
    spread = {label: y[task == label].std() or 1.0 for label in np.unique(task).tolist()}
    units = y / np.array([spread[label] for label in task.tolist()])
    asked = lassos_for(lassos, None)
    yield (
        "search on [X, knockoffs]",
        "shared_features",
        lambda: shared_features(lassos, X, y, task=task),
        lambda: asked.fit(both, units, task=task),
    )
    for one in (msmtfl.LassoMTL(), lassos):
        yield (
            f"fit, {type(one).__name__}",
            "split_intervals",
            lambda one=one: split_intervals(one, X, y, task=task),
            lambda one=one: one.fit(X, y, task=task),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SHARES), default=list(SHARES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--what", default="", help="part of what a line says: only these")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of data, which do not matter for the time
    for name in ["synthetic"] if options.quick else options.only:
        X, y, task = read(name)
        data = read_training(X, y, task=task)
        print(f"{name}: {data.m} tasks, {len(y):,} samples, {data.d} features")
        print("| | with | ratio | CPU s without |\n| --- | --- | --- | --- |")
        for what, asked, more, less in jobs(X, y, task):
            if options.what in f"{what}, {asked}":
                found, seconds = ratio(more, less, options.repeats)
                print(f"| {what} | {asked} | {found:.2f} | {seconds:.3f} |", flush=True)


if __name__ == "__main__":
    main()
