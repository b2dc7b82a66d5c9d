"""What is measured: cases, each a problem and the entries (solver, work, options) that are timed on it in turn.

`cases("full")` is everything, `cases("quick")` what takes some fifteen minutes, `cases("tiny")` what a test runs in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from gap import lasso_gaps, rows_gap
from loops import LOOPS
from peers import ROW_TOLERANCES, TOLERANCES
from problems import PROBLEMS, BenchProblem, growth

RATIOS = [50.0, 10.0, 4.0, 2.0]  # theta over m lam
SETTINGS = ("default", "usual", "tight", "tightest")

PATH, SURFACE, CV = "lasso path", "surface", "3-fold CV of the surface"
SHORT_PATH, TWO_THREADS = "path of the surface", "surface, 2 threads"
PASS, GRAMS = "one pass X'y", "Gram matrices"  # what no solver can do without: a bound, by numpy, rows already apart
ROWS, DIRTY, PREDICT, CHOICE = "L1,2", "Dirty", "predict", "choice by CV"
GROWTH_FIT, GROWTH_SURFACE = "growth, fit", "growth, surface"
IMPORT, FIRST_FIT = "import", "first fit"
WORKS = (PATH, SURFACE, ROWS, DIRTY, PREDICT, CHOICE, "growth", "start")  # what --only takes


@dataclass(frozen=True)
class Entry:
    solver: str
    work: str
    command: dict = field(hash=False)  # for the worker
    setting: str = ""
    threads: int = 1


@dataclass(frozen=True, eq=False)
class Case:
    problem: BenchProblem
    lams: np.ndarray
    entries: list[Entry]
    worst_gap: Callable[[dict[str, np.ndarray]], float] | None = None


# ------------------------------------------------------------------ the cases of a problem


def bounds(problem: BenchProblem) -> dict[str, str]:
    """What no solver can do without, and its job; Gram matrices as far as they fit into memory."""
    fit = sum(X.shape[1] ** 2 for X in problem.Xs) < 2**27  # 1 GiB
    return {PASS: "pass", **({GRAMS: "grams"} if fit else {})}


def path_case(problem: BenchProblem, rungs: int) -> Case:
    """The lasso path of every task; peers at `rungs` tolerances: 1 is the usual one, 2 its default, too."""
    entries = [Entry("msmtfl", PATH, {"run": "path"}), Entry("msmtfl", PATH, {"run": "solver"}, "solver alone")]
    entries += [Entry("numpy", work, {"run": job}) for work, job in bounds(problem).items()]
    for peer, tolerances in TOLERANCES.items():
        chosen = dict(zip(SETTINGS, tolerances[: max(rungs, 2)]))
        if rungs == 1 or chosen["default"] == chosen["usual"]:
            del chosen["default"]
        entries += [Entry(peer, PATH, {"run": "path", "tol": tol}, name) for name, tol in chosen.items()]
    return Case(problem, problem.lams, entries, lambda arrays: lasso_gap(problem, problem.lams, arrays))


def surface_case(problem: BenchProblem, *, cv: bool, threads: bool, loops: bool) -> Case:
    """30 lambdas x 4 thetas, up to ten stages; and everything that is said as a multiple of it."""
    command = {"run": "surface", "theta_ratios": RATIOS}
    entries = [Entry("msmtfl", SURFACE, command), Entry("msmtfl", SHORT_PATH, {"run": "path"})]
    if cv:
        entries.append(Entry("msmtfl", CV, {"run": "cross-validation", "theta_ratios": RATIOS}))
    if threads:
        entries.append(Entry("msmtfl", TWO_THREADS, {**command, "n_jobs": 2}, threads=2))
        for work, job in bounds(problem).items():
            entries.append(Entry("numpy", work, {"run": job}, "one thread"))
            entries.append(Entry("numpy", work, {"run": job, "threads": 2}, "two threads", threads=2))
    for peer, routes in LOOPS.items() if loops else ():
        options = {"run": "surface", "ratios": RATIOS}
        for name, plain in (("loop", False), ("plain loop", True)):
            command = {**options, "plain": plain}
            entries += [Entry(peer, SURFACE, {**command, "route": route}, f"{name}, {route}") for route in routes]
    return Case(problem, problem.lams, entries, lambda arrays: lasso_gap(problem, problem.lams, arrays))


def rows_case(problem: BenchProblem, ratio: float | None, rungs: int) -> Case:
    """L1,2 (ratio None) or Dirty: 30 lambdas to lam_max / 30."""
    work, lams = (ROWS if ratio is None else f"{DIRTY} {ratio:.2g}"), problem.row_lams(ratio)
    entries = [Entry("msmtfl", work, {"run": "rows", "ratio": ratio})]
    if problem.shared:
        peers = ["scikit-learn", "celer", "skglm", "adelie", "skein"]
    else:
        peers = [*(["adelie"] if ratio is None else []), "FISTA", "tuned FISTA"]
    for peer in peers:
        options = {"ratio": ratio} if peer.endswith("FISTA") else {}
        chosen = dict(zip(SETTINGS[1:], ROW_TOLERANCES[peer][:rungs]))
        entries += [Entry(peer, work, {"run": "rows", "tol": tol, **options}, name) for name, tol in chosen.items()]

    def worst(arrays):
        return max(rows_gap(problem.Xs, problem.ys, W, lam, ratio) for W, lam in zip(arrays["coefs"], lams))

    return Case(problem, lams, entries, worst)


def predict_case(problem: BenchProblem) -> Case:
    names = ("msmtfl", "scikit-learn", "numpy")
    return Case(problem, problem.lams, [Entry(name, PREDICT, {"run": "predict"}) for name in names])


def choice_case(problem: BenchProblem) -> Case:
    """Which rows matter, one X for all tasks, chosen by 3-fold cross-validation: MSMTFLCV, and best subsets by abess."""
    own = {"run": "cross-validation", "theta_ratios": RATIOS}
    entries = [Entry("msmtfl", CHOICE, own), Entry("abess", CHOICE, {"run": "cross-validation"})]
    return Case(problem, problem.lams, entries)


def growth_case(size: dict[str, int]) -> Case:
    problem = growth(**size)
    surface = {"run": "surface", "theta_ratios": RATIOS[:3]}
    entries = [Entry("msmtfl", GROWTH_FIT, {"run": "fit"}), Entry("msmtfl", GROWTH_SURFACE, surface)]
    return Case(problem, problem.lams, entries)


def lasso_gap(problem: BenchProblem, lams: np.ndarray, arrays: dict[str, np.ndarray]) -> float:
    """The worst over tasks, lambdas and thetas; at a point of a surface, that of the weighted lasso it ended with."""
    coefs, m = arrays["coefs"], len(problem.Xs)
    if coefs.ndim == 3:
        coefs = coefs[:, None]  # (K, L, m, d)
    free = arrays.get("capped", np.zeros((*coefs.shape[:2], coefs.shape[3]), dtype=bool))
    worst = -np.inf
    for l, i in np.ndindex(coefs.shape[1:3]):
        X, y = problem.Xs[i], problem.ys[i]
        A = np.where(free[:, l], 0.0, 0.5 * m * len(y) * lams[:, None])
        worst = max(worst, lasso_gaps(X, y, coefs[:, l, i], A).max())
    return worst


# ------------------------------------------------------------------ which

PATHS = [
    "paper", "m=5", "wide", "tall", "Isolet 3e-2", "Isolet 3e-3", "school",
    "gdsc", "hiv_pi", "AR 0.5", "AR 0.9", "AR 0.99", "many tasks",
]  # fmt: skip
LADDER = {"paper", "m=5"}  # all tolerances in the quick run, too
FULL_ONLY = {"gdsc", "AR 0.5", "AR 0.99", "many tasks"}
SURFACES = ["m=5", "wide", "Isolet 3e-2", "school"]
WITH_CV, WITH_THREADS = {"m=5", "Isolet 3e-2"}, {"wide", "Isolet 3e-2"}
SHARED = ["shared 300", "shared 1000", "shared 200"]
APART = ["paper", "m=5", "Isolet 3e-2", "school"]
AXES = [  # what grows, what stays
    ("m", [10, 18, 32, 56, 100], {"n": 5_000, "d": 100}),
    ("n", [20_000, 36_000, 63_000, 112_000, 200_000], {"m": 2, "d": 100}),
    ("d", [100, 180, 320, 560, 1_000], {"m": 4, "n": 10_000}),
    ("d", [2_000, 3_600, 6_300, 11_200, 20_000], {"m": 4, "n": 500}),
]


def growth_name(size: dict[str, int]) -> str:
    return f"m={size['m']} n={size['n']} d={size['d']}"


def cases(size: str, works: list[str], names: list[str] | None = None) -> Iterator[Case]:
    """Made one by one, each when it is its turn."""
    if size == "tiny":
        yield from _tiny(works)
        return
    full = size == "full"

    def made(chosen: list[str]) -> Iterator[BenchProblem]:
        return (PROBLEMS[name]() for name in chosen if names is None or name in names)

    def thirty(chosen: list[str], lam_min: float | None = None) -> Iterator[BenchProblem]:
        return (replace(problem, n_lams=30, lam_min=lam_min or problem.lam_min) for problem in made(chosen))

    if PATH in works:
        for problem in made([name for name in PATHS if full or names or name not in FULL_ONLY]):
            yield path_case(problem, 4 if full or problem.name in LADDER else 1)
    if SURFACE in works:
        for problem in thirty(SURFACES):
            cv, threads = problem.name in WITH_CV, problem.name in WITH_THREADS
            yield surface_case(problem, cv=cv, threads=threads, loops=True)
    rungs = 3 if full else 2
    if ROWS in works:
        for problem in thirty(SHARED + (APART if full else APART[1:2] + APART[3:]), 1 / 30):
            yield rows_case(problem, None, rungs)
    if DIRTY in works:
        for problem in thirty(APART if full else APART[1:2] + APART[3:], 1 / 30):
            for ratio in (0.5, min(0.2, 1.0 / np.sqrt(len(problem.ys))))[: 2 if full else 1]:
                yield rows_case(problem, ratio, rungs)
    if PREDICT in works:
        yield from map(predict_case, made(["tall", "school", "many tasks"]))
    if CHOICE in works:
        yield from map(choice_case, made(SHARED))
    if "growth" in works:
        for axis, sizes, fixed in AXES if full else AXES[:2]:
            for value in sizes if full else sizes[:3:2]:
                yield growth_case({**fixed, axis: value})


def _tiny(works: list[str]) -> Iterator[Case]:
    problem, shared = PROBLEMS["tiny"](), PROBLEMS["tiny shared"]()
    made = {
        PATH: lambda: path_case(problem, 1),
        SURFACE: lambda: surface_case(problem, cv=True, threads=True, loops=True),
        ROWS: lambda: rows_case(shared, None, 1),
        DIRTY: lambda: rows_case(problem, 0.5, 1),
        PREDICT: lambda: predict_case(problem),
        CHOICE: lambda: choice_case(shared),
        "growth": lambda: growth_case({"m": 2, "n": 40, "d": 20}),
    }
    yield from (make() for work, make in made.items() if work in works)
