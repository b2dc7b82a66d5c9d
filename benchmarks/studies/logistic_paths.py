"""How fast logistic lassos are solved along a path, and how far from optimal they end, beside other packages.

    python benchmarks/studies/logistic_paths.py [--problems NAME ...] [--lams 50] [--limit 60] [--gap 1e-8]
    python benchmarks/studies/logistic_paths.py --python adelie=.venv-adelie/bin/python

Every task has a path of its own, from the smallest lambda at which all coefficients of all tasks are 0 down to a hundredth
of it, one after the other, each started from the last. No intercept: not all packages have one that is not penalised.
A peer is run at tighter and tighter tolerances (each in its own terms) until its worst relative duality gap, over the loss
at 0, is at most the one asked for; what is shown is the time of that run on one core, the best of three where that is short.
A package that is not installed is left out, but for those that `--python` names another interpreter for (adelie needs an
older numpy); one that needs more than the limit says so. glmnet is run in R, if that has it, and timed there. Data:
landmine-like (19 tasks), hiv_pi (resistance above or below its median; needs MSMTFL_DATA), and a wide one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

SHORT = 2.0  # seconds, below which a run is repeated
Tasks = tuple[list[np.ndarray], list[np.ndarray]]  # per task X (n, d), standardised, Fortran-ordered; y (n,), 0 or 1


class TooLongError(Exception):
    """A path needs more than the time that it is given."""


# ------------------------------------------------------------------ problems


def standardised(X: np.ndarray) -> np.ndarray:
    X = X - X.mean(axis=0)
    sd = X.std(axis=0)
    return np.asfortranarray(np.where(sd > 0.0, X / np.where(sd > 0.0, sd, 1.0), 0.0))


def generated(m: int, n: int, d: int, relevant: int, share: float, seed: int = 0) -> Tasks:
    """Tasks that have most of their relevant features in common; a share of the samples is positive."""
    rng = np.random.default_rng(seed)
    Xs, ys = [], []
    for _ in range(m):
        w = np.zeros(d)
        w[:relevant] = rng.normal(1.0, 0.5, relevant) * rng.choice([0.0, 1.0], relevant, p=[0.2, 0.8])
        X = 0.7 * rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n, 1))
        f = X @ w + rng.logistic(size=n)
        Xs.append(standardised(X))
        ys.append((f > np.quantile(f, 1.0 - share)).astype(float))
    return Xs, ys


def hiv_pi() -> Tasks:
    folder = os.environ.get("MSMTFL_DATA")
    if not folder or not (Path(folder) / "hiv_pi.npz").exists():
        raise FileNotFoundError("hiv_pi: set MSMTFL_DATA to the folder that has hiv_pi.npz")
    with np.load(Path(folder) / "hiv_pi.npz", allow_pickle=False) as data:
        X, y, task = data["X"], data["y"], data["task"]
    labels = np.unique(task)
    Xs = [standardised(X[task == one].astype(float)) for one in labels]
    return Xs, [(y[task == one] > np.median(y[task == one])).astype(float) for one in labels]


PROBLEMS: dict[str, Callable[[], Tasks]] = {
    "landmine-like": lambda: generated(19, 500, 9, 5, 0.1),
    "hiv_pi": hiv_pi,
    "wide": lambda: generated(1, 500, 20_000, 20, 0.5),
    "small": lambda: generated(2, 40, 6, 2, 0.5),
}


def largest(Xs: list[np.ndarray], ys: list[np.ndarray]) -> float:
    """The smallest alpha, of 1/n sum log(1 + exp(...)) + alpha |w|_1, at which all coefficients are 0."""
    return max(float(np.abs(X.T @ (y - 0.5)).max()) / len(y) for X, y in zip(Xs, ys, strict=True))


def worst_gap(tasks: Tasks, alphas: np.ndarray, paths: list[np.ndarray]) -> float:
    """The largest duality gap of a fit, over the loss at 0."""
    worst = 0.0
    for X, y, path in zip(*tasks, paths, strict=True):
        sign = 2.0 * y - 1.0
        for alpha, w in zip(alphas, path, strict=True):
            t = sign * (X @ w)
            p = 1.0 / (1.0 + np.exp(t))  # of the other class
            size = np.abs(X.T @ (sign * p)).max() / len(y)
            q = p * min(1.0, alpha / size)
            entropy = -(q * np.log(np.maximum(q, 1e-300)) + (1.0 - q) * np.log1p(-q))
            gap = np.mean(np.logaddexp(0.0, -t)) + alpha * np.abs(w).sum() - np.mean(entropy)
            worst = max(worst, gap / np.log(2.0))
    return worst


# ------------------------------------------------------------------ packages: (tasks, alphas, tol, deadline) -> paths


def late(deadline: float) -> None:
    if time.process_time() > deadline:
        raise TooLongError


def msmtfl(tasks: Tasks, alphas: np.ndarray, tol: float, deadline: float) -> list[np.ndarray]:
    from msmtfl._data.tasks import read_training
    from msmtfl._solvers.problems.make_problem import make_problem
    from msmtfl._solvers.task_lassos import lassos_for

    Xs, ys = tasks
    task = np.repeat(np.arange(len(ys)), [len(y) for y in ys])
    data = read_training(np.concatenate(Xs), np.concatenate(ys), task=task)
    problem = make_problem(data, loss="logistic", fit_intercept=False, standardize=False, positive=False)
    solves = lassos_for(problem).path(2.0 * alphas / len(ys), problem.stage_weights)
    W = np.zeros((len(alphas), problem.m * problem.d))
    for of_lam, one in zip(W, solves, strict=True):
        of_lam[one.at] = one.values
    return list(W.reshape(len(alphas), problem.m, problem.d).transpose(1, 0, 2))


def of_scikit_learn(solver: str):
    def path(tasks: Tasks, alphas: np.ndarray, tol: float, deadline: float) -> list[np.ndarray]:
        from sklearn.linear_model import LogisticRegression

        out = []
        for X, y in zip(*tasks, strict=True):
            options = {"solver": solver, "l1_ratio": 1.0, "fit_intercept": False, "tol": tol, "random_state": 0}
            model, coefs = LogisticRegression(**options, max_iter=100_000, warm_start=True), []
            for alpha in alphas:
                late(deadline)
                coefs.append(model.set_params(C=1.0 / (alpha * len(y))).fit(X, y).coef_[0].copy())
            out.append(np.array(coefs))
        return out

    return path


def celer(tasks: Tasks, alphas: np.ndarray, tol: float, deadline: float) -> list[np.ndarray]:
    from celer import celer_path

    out = []
    for X, y in zip(*tasks, strict=True):
        late(deadline)
        out.append(celer_path(X, 2.0 * y - 1.0, "logreg", alphas=alphas * len(y), tol=tol, max_iter=500)[1].T)
    return out


def skglm(tasks: Tasks, alphas: np.ndarray, tol: float, deadline: float) -> list[np.ndarray]:
    from skglm.datafits import Logistic
    from skglm.penalties import L1
    from skglm.solvers import ProxNewton
    from skglm.utils.jit_compilation import compiled_clone

    out = []
    for X, y in zip(*tasks, strict=True):
        solver, w, coefs = ProxNewton(tol=tol, fit_intercept=False, max_iter=200), np.zeros(X.shape[1]), []
        target, f = 2.0 * y - 1.0, np.zeros(len(y))
        for alpha in alphas:
            late(deadline)
            datafit, penalty = compiled_clone(Logistic()), compiled_clone(L1(alpha))
            w = solver.solve(X, target, datafit, penalty, w.copy(), f.copy())[0]
            f = X @ w
            coefs.append(w)
        out.append(np.array(coefs))
    return out


def adelie(tasks: Tasks, alphas: np.ndarray, tol: float, deadline: float) -> list[np.ndarray]:
    import adelie as ad

    options = {"early_exit": False, "progress_bar": False, "intercept": False, "n_threads": 1, "min_ratio": 1e-6}
    out = []
    for X, y in zip(*tasks, strict=True):
        late(deadline)
        state = ad.grpnet(X=X, glm=ad.glm.binomial(y=y), lmda_path=alphas, tol=tol, irls_tol=tol, **options)
        out.append(np.asarray(state.betas.todense()))
    return out


def glmnet(tasks: Tasks, alphas: np.ndarray, tol: float, deadline: float) -> tuple[float, list[np.ndarray]]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "runner"))
    from peers import r_process

    late(deadline)
    if not GIVEN:
        GIVEN.append(tasks)
    found = r_process().path(*GIVEN[0], alphas, tol, "binomial")
    return found.seconds, found.result


GIVEN: list[Tasks] = []  # to R
PACKAGES = {
    "msmtfl": (msmtfl, (0.0,)),
    "skglm": (skglm, (1e-4, 1e-6, 1e-8, 1e-10)),
    "adelie": (adelie, (1e-7, 1e-10, 1e-14, 1e-18)),
    "glmnet": (glmnet, (1e-7, 1e-10, 1e-14, 1e-18)),
    "scikit-learn, liblinear": (of_scikit_learn("liblinear"), (1e-4, 1e-6, 1e-8, 1e-10)),
    "scikit-learn, saga": (of_scikit_learn("saga"), (1e-4, 1e-6, 1e-8, 1e-10)),
    "celer": (celer, (1e-6, 1e-8, 1e-10)),  # last: a path of its own does not stop at the limit
}


def measured(solve: Callable, tasks: Tasks, alphas: np.ndarray, tol: float, limit: float) -> tuple[float, list]:
    began = time.process_time()
    found = solve(tasks, alphas, tol, began + limit)
    return found if isinstance(found, tuple) else (time.process_time() - began, found)


def best(name: str, tasks: Tasks, alphas: np.ndarray, limit: float, wanted: float) -> tuple[float, float, float]:
    """Seconds, the worst gap, and the tolerance at which it was reached."""
    solve, tolerances = PACKAGES[name]
    if name == "skglm":  # compiled beforehand
        solve(([np.asfortranarray(X[:20, :3]) for X in tasks[0][:1]], [tasks[1][0][:20]]), alphas[:2], 1e-3, np.inf)
    if name == "msmtfl":
        solve(([X[:20, :3] for X in tasks[0][:1]], [tasks[1][0][:20]]), alphas[:2], 0.0, np.inf)  # imports
    for tol in tolerances:
        seconds, paths = measured(solve, tasks, alphas, tol, limit)
        gap = worst_gap(tasks, alphas, paths)
        if gap <= wanted:
            break
    for _ in range(2 if seconds < SHORT else 0):
        seconds = min(seconds, measured(solve, tasks, alphas, tol, limit)[0])
    return seconds, gap, tol


def figures(name: str, tasks: Tasks, alphas: np.ndarray, args: argparse.Namespace) -> tuple[float, ...] | None:
    """What `best` says; None where a path needs too long."""
    try:
        return best(name, tasks, alphas, args.limit, args.gap)
    except TooLongError:
        return None


def elsewhere(python: str, problem: str, name: str, args: argparse.Namespace) -> tuple[float, float, float]:
    """The same, found by another interpreter."""
    words = ["--problems", problem, "--packages", name, "--lams", args.lams, "--limit", args.limit, "--gap", args.gap]
    found = subprocess.run([python, __file__, *map(str, words), "--json"], capture_output=True, text=True, check=False)
    if found.returncode or not found.stdout:
        raise ImportError(found.stderr)
    answer = json.loads(found.stdout)
    if answer is None:
        raise TooLongError
    return tuple(answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=["landmine-like", "hiv_pi", "wide"])
    parser.add_argument("--packages", nargs="+", choices=PACKAGES, default=list(PACKAGES))
    parser.add_argument("--lams", type=int, default=50)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for a path")
    parser.add_argument("--gap", type=float, default=1e-8)
    parser.add_argument("--python", nargs="*", default=[], help="packages of other interpreters: NAME=PATH")
    parser.add_argument("--json", action="store_true", help="only the figures of one package on one problem")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    others = dict(one.split("=", 1) for one in args.python)
    for problem in args.problems:
        tasks = PROBLEMS[problem]()
        GIVEN.clear()
        alphas = largest(*tasks) * np.geomspace(1.0, 1e-2, args.lams)
        if args.json:
            print(json.dumps(figures(args.packages[0], tasks, alphas, args)))
            return
        print(f"\n{problem}: m={len(tasks[0])} n={len(tasks[1][0])} d={tasks[0][0].shape[1]}")
        ours = None
        for name in args.packages:
            try:
                if name in others:
                    seconds, gap, tol = elsewhere(others[name], problem, name, args)
                else:
                    seconds, gap, tol = best(name, tasks, alphas, args.limit, args.gap)
            except ImportError:
                continue
            except TooLongError:
                print(f"  {name:<24} more than {args.limit:g} s")
                continue
            ours = seconds if ours is None else ours
            print(f"  {name:<24} {seconds:9.4f} s  {seconds / ours:8.1f}x  gap {gap:.1e}  tol {tol:g}", flush=True)


if __name__ == "__main__":
    main()
