"""What does it cost to ask for more? CPU time with a ridge, an offset, other intercepts or intervals, over that without.

    python benchmarks/studies/costs.py [--only school ...] [--what ridge] [--repeats 5] [--paths] [--quick]

On real data (MSMTFL_DATA), columns in units of their standard deviations, one thread. `path`: lassos of all tasks at 50
strengths. `fit`, `search`: of every family with its defaults. Intervals of predictions: what a search needs to keep for
them, and the first call of `predict_interval`. Knockoffs: `shared_features` over the search of lassos on [X, knockoffs]
that it holds. Splitting: `split_intervals` over a fit on all samples. Each ratio is the median over repeats, with and
without in turns; --quick takes synthetic data.

With --paths instead: paths of every family, each with its own strengths from its largest lam down, on larger parts of the
data. A ridge makes solutions denser; lassos and L1,2 are therefore also solved `at equal support`, that is at lams where
the path with a ridge has as many coefficients as that without. The numbers of coefficients, and of rounds of the solver
(mean over tasks), say whether there was more work to do.
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
from msmtfl._paths.families.common_path import shared_grid, solve_shared
from msmtfl._paths.families.coupled_path import dirty_grid, group_grid, solve_rows
from msmtfl._paths.grids import read_grid
from msmtfl._paths.solve import solve_surface
from msmtfl._solvers import task_lassos
from msmtfl._solvers.problems.make_problem import make_problem
from msmtfl._solvers.solvers import LASSOS, caches_for
from msmtfl.datasets import make_multitask
from msmtfl.inference import shared_features, split_intervals
from msmtfl.inference.knockoffs import lassos_for

SHARES = {"school": 0.3, "hiv_pi": 0.2, "isolet": 0.1}
OF_PATHS = {"school": 1.0, "hiv_pi": 1.0, "isolet": 0.25, "computer": 1.0}
SEARCHES = ("LassoMTLCV", "MSMTFLCV", "L12MTLCV", "DirtyMTLCV", "SharedMTLCV")
RIDGE = 0.7


def read(name, shares=SHARES):
    if name == "synthetic":
        made = make_multitask(m=5, n=40, d=30, sigma=0.5, random_state=0)
        return made.X, made.y, made.task
    data = np.load(Path(os.environ.get("MSMTFL_DATA", ".")) / f"{name}.npz")
    X, y, task = data["X"].astype(float), data["y"].astype(float), data["task"]
    kept = np.random.default_rng(0).random(len(y)) < shares[name]
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


# ------------------------------------------------------------------ paths


def surface(problem, lams, ratios=(np.inf,)):
    """Of lassos, thetas in the units of `MSMTFL.surface`."""
    of_lassos = (None, [np.inf]) if ratios == (np.inf,) else (ratios, None)
    return solve_surface(problem, read_grid(problem, lams, *of_lassos, None, (0.0,), None, "capped"))


FAMILIES = {
    "LassoMTL": lambda problem: surface(problem, 50),
    "MSMTFL": lambda problem: surface(problem, 30, (50.0, 10.0, 4.0)),
    "L12MTL": lambda problem: solve_rows(problem, group_grid(problem, 30, 1e-2)),
    "DirtyMTL": lambda problem: solve_rows(problem, dirty_grid(problem, 30, [0.5], 1e-2)),
    "SharedMTL": lambda problem: solve_shared(problem, shared_grid(problem, 20, [0.5, 1.0], None, 1e-2)),
}


def problem_of(X, y, task, share=1.0, offset=None):
    data = read_training(X, y, task=task, offset=offset)
    return make_problem(data, fit_intercept=True, standardize=False, positive=False, l1_ratio=share)


def rounds(problem, lams):
    """Of all lams, in the mean over tasks."""
    lassos, total = task_lassos.lassos_for(problem, caches_for(problem, LASSOS), None), 0.0
    for lam in lams.tolist():
        lassos.at(lam)
        total += float(lassos.solve(lam * problem.stage_weights)[1].mean())
    return total


def of_rows(problem, lams):
    """Of L1,2"""
    return solve_rows(problem, group_grid(problem, lams, 1e-2 if np.ndim(lams) == 0 else None))


def strengths(path):
    """Its lams (K,)"""
    return path.lams if hasattr(path, "lams") else path.grid.strength[:, 0]


def equal_lams(X, y, task, path, number, most):
    """Lams of a path of so many without and with a ridge at which it has equally many coefficients, as nearly as can be of
    `most` lams."""
    plain = path(problem_of(X, y, task), number)
    problem = problem_of(X, y, task, RIDGE)
    lams = strengths(plain)
    fine = path(problem, lams[0] / RIDGE * np.geomspace(1.0, 1e-2 if path is of_rows else 1e-5, most))
    counts = np.ravel(fine.n_entries)
    nearest = [int(np.abs(counts - n).argmin()) for n in np.ravel(plain.n_entries).tolist()]
    places, firsts = np.unique(nearest, return_index=True)
    return lams[firsts], strengths(fine)[places]


def of_paths(X, y, task, repeats):
    """Lines of the table: family, what more, ratio, seconds without, coefficients and rounds with over those without."""
    offset = 0.1 * np.random.default_rng(1).standard_normal(len(y)) * y.std()
    calls = []
    for name, path in FAMILIES.items():

        def of(y=y, share=1.0, offset=None, path=path):
            return path(problem_of(X, y, task, share, offset))

        calls.append((name, f"ridge, l1_ratio={RIDGE}", lambda of=of: of(share=RIDGE), of))
        calls.append((name, "offset", lambda of=of: of(offset=offset), lambda of=of: of(y=y - offset)))
    for name, path, number, most in (("LassoMTL", surface, 50, 400), ("L12MTL", of_rows, 30, 100)):
        without, ridged = equal_lams(X, y, task, path, number, most)

        def at_equal(path=path, share=RIDGE, lams=ridged):
            return path(problem_of(X, y, task, share), lams)

        less = lambda at=at_equal, lams=without: at(share=1.0, lams=lams)  # noqa: E731
        calls.append((name, "ridge, at equal support", at_equal, less))
    for name, asked, more, less in calls:
        found, seconds = ratio(more, less, repeats)
        a, b = more(), less()
        denser = np.maximum(a.n_entries, 0).sum() / np.maximum(b.n_entries, 0).sum()
        turns = "-"
        if name == "LassoMTL" and "ridge" in asked:
            turns = rounds(problem_of(X, y, task, RIDGE), a.lams) / rounds(problem_of(X, y, task), b.lams)
            turns = f"{turns:.2f}"
        yield f"| {name} | {asked} | {found:.2f} | {seconds:.3f} | {denser:.2f} | {turns} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(OF_PATHS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--what", default="", help="part of what a line says: only these")
    parser.add_argument("--paths", action="store_true", help="paths of every family, with a ridge or an offset")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of data, which do not matter for the time
    shares = OF_PATHS if options.paths else SHARES
    for name in ["synthetic"] if options.quick else options.only or list(shares):
        X, y, task = read(name, {**OF_PATHS, **shares})
        data = read_training(X, y, task=task)
        print(f"{name}: {data.m} tasks, {len(y):,} samples, {data.d} features")
        if options.paths:
            print(
                "| path | with | ratio | CPU s without | coefficients, ratio | rounds, ratio |\n" + "| --- " * 6 + "|"
            )
            for line in of_paths(X, y, task, options.repeats):
                print(line, flush=True)
            continue
        print("| | with | ratio | CPU s without |\n| --- | --- | --- | --- |")
        for what, asked, more, less in jobs(X, y, task):
            if options.what in f"{what}, {asked}":
                found, seconds = ratio(more, less, options.repeats)
                print(f"| {what} | {asked} | {found:.2f} | {seconds:.3f} |", flush=True)


if __name__ == "__main__":
    main()
