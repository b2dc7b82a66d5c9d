"""One solver in a process of its own: reads commands (a JSON object per line), answers with one line each.

{"load": file}             X, y, task and lams of a problem                -> {}
{"run": job, option: ..}   do a job once, with options                     -> {"seconds": ..., "cpu": ..., "peak": null}
{"run": .., "watch": true} the same; memory beyond what was held before    -> {.., "peak": bytes, null if not known}
{"save": file}             write the arrays of the last job                -> {}

Its first line is {"version": ...}. An exception is answered by {"error": what}. Jobs of msmtfl use its public names but for
L1,2 and Dirty, which have no public path function, and "solver".
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
from peers import Timed


def own_surface(data, lams, **options):
    from msmtfl import regularization_surface

    X, y, task = data
    return regularization_surface(X, y, task=task, lams=lams, fit_intercept=False, **options)


def own_path(data, lams):
    """The surface at theta = inf: every task's lasso. Certificates are computed when asked for, so not here."""
    return own_surface(data, lams, thetas=[np.inf])


def own_solver(data, lams):
    """The solver alone: no checks of doubtful answers on X, no result to hold coefficients."""
    from msmtfl._data.designs import stage_scale
    from msmtfl._data.tasks import read_training
    from msmtfl._solvers.lassos.weighted_lasso import Lassos

    X, y, task = data
    designs = read_training(X, y, task=task).designs(centre=False)
    lassos = Lassos(designs)
    out = np.zeros((len(lams), lassos.m, lassos.d))
    for W, solve in zip(out, lassos.path(lams, np.repeat(stage_scale(designs), lassos.d, axis=1))):
        W.ravel()[solve.at] = solve.values
    return out


def path_arrays(surface):
    return {"coefs": np.array([surface.coef(k, 0) for k in range(len(surface.thetas))])}


def surface_arrays(surface):
    points = list(np.ndindex(surface.thetas.shape))
    capped = np.zeros((*surface.thetas.shape, len(surface.features)), dtype=bool)
    for point in points:
        capped[point][surface.free_rows(*point)] = True
    coefs = np.array([surface.coef(*point) for point in points])
    return {"coefs": coefs.reshape(*surface.thetas.shape, *coefs.shape[1:]), "capped": capped}


def own_cross_validation(data, lams, **options):
    from msmtfl import MSMTFLCV

    X, y, task = data
    search = MSMTFLCV(lams, cv=3, fit_intercept=False, **options)
    search._ends_early = False  # all points, whose gaps are measured
    return search.fit(X, y, task=task)


def own_fit(data, lams):
    """At a lam and a theta that leave the same features free at all sizes of `problems.growth`."""
    from msmtfl import MSMTFL

    X, y, task = data
    m = int(task[-1]) + 1
    return MSMTFL(lam=0.5 / m, theta=0.5 * m).fit(X, y, task=task)


def own_rows(data, lams, *, ratio=None):
    """The path of L1,2, or of Dirty with lam_s = ratio lam_b."""
    from msmtfl._data.tasks import read_training
    from msmtfl._paths.families.coupled_path import dirty_grid, group_grid, solve_rows
    from msmtfl._solvers.problems.make_problem import make_problem

    X, y, task = data
    problem = make_problem(read_training(X, y, task=task), fit_intercept=False, standardize=False, positive=False)
    return solve_rows(problem, group_grid(problem, lams) if ratio is None else dirty_grid(problem, lams, [ratio]))


def own_predict(data, lams):
    from msmtfl import LassoMTL

    X, y, task = data
    model = LassoMTL(lams[len(lams) // 2]).fit(X, y, task=task)
    return timed(lambda: model.predict(X, task=task))


def predict_per_task(make):
    """A loop over tasks, each with a linear model of its own; rows already apart."""

    def run(data, lams):
        Xs, ys = data
        alpha = 0.5 * len(Xs) * lams[len(lams) // 2]
        models = [make(alpha, X, y) for X, y in zip(Xs, ys)]
        return timed(lambda: np.concatenate([model(X) for model, X in zip(models, Xs)]))

    return run


def per_task(call):
    """Something with every task's X and y, rows already apart."""

    def run(data, lams, *, threads=1):
        if threads == 1:
            return [call(X, y) for X, y in zip(*data)]
        with ThreadPool(threads) as pool:
            return timed(lambda: pool.starmap(call, zip(*data), chunksize=1))

    return run


def scikit_learn_model(alpha, X, y):
    from sklearn.linear_model import Lasso

    return Lasso(alpha).fit(X, y).predict


def timed(call) -> Timed:
    began, used = time.perf_counter(), time.process_time()
    result = call()
    return Timed(time.perf_counter() - began, result, time.process_time() - used)


def jobs_of(name):
    """(version, {job: (do it, make arrays of the result)})"""
    if name == "msmtfl":
        import msmtfl

        return msmtfl.__version__, {
            "path": (own_path, path_arrays),
            "solver": (own_solver, lambda result: {"coefs": np.array(result)}),
            "surface": (own_surface, surface_arrays),
            "cross-validation": (own_cross_validation, lambda result: {"coefs": result.coef_[None]}),
            "fit": (own_fit, lambda result: {"coefs": result.coef_[None]}),
            "rows": (own_rows, lambda result: {"coefs": result.coefs(range(len(result.solved)))}),
            "predict": (own_predict, lambda result: {}),
        }
    import loops
    import peers

    if name == "numpy":
        return np.__version__, {
            "predict": (predict_per_task(lambda _, X, y: partial(np.dot, b=X[0])), lambda _: {}),
            "pass": (per_task(lambda X, y: X.T @ y), lambda _: {}),
            "grams": (per_task(lambda X, y: X.T @ X), lambda _: {}),
        }

    def path(data, lams, *, tol):
        Xs, ys = data
        return peers.PATHS[name](Xs, ys, 0.5 * len(Xs) * lams, tol)

    def rows(data, lams, **options):
        return peers.ROW_PATHS[name](*data, lams, **options)

    def choose(data, lams):
        return getattr(peers, name)(*data, lams)

    return peers.version_of(name), {
        "path": (path, lambda result: {"coefs": np.swapaxes(np.array(result), 0, 1)}),
        "surface": (partial(loops.surface, name), lambda result: result),
        "rows": (rows, lambda result: {"coefs": result}),
        "predict": (predict_per_task(scikit_learn_model), lambda result: {}),
        "cross-validation": (choose, lambda result: {"coefs": result}),
    }


def load(file, stacked):
    """data and lams: tasks stacked as (X, y, task), or apart as lists (Xs, ys); without a task, y has a column for each"""
    with np.load(file) as stored:
        X, y, lams = (stored[key] for key in ("X", "y", "lams"))
        task = stored.get("task")
    if stacked:
        return (X, y, task), lams
    if task is None:
        return ([X] * y.shape[1], list(y.T)), lams
    parts = [task == i for i in np.unique(task)]
    return ([np.asfortranarray(X[part]) for part in parts], [y[part] for part in parts]), lams


class Memory:
    """How much a job holds at most beyond what the process held before, by Linux's own count; None elsewhere. The count is
    begun anew, and freed memory given back, just before."""

    def __init__(self) -> None:
        self.before: int | None = None
        try:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")
            self.before = self.now("VmRSS")
        except OSError:
            pass

    @staticmethod
    def now(name: str) -> int:
        fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return 1024 * int(fields[name].split()[0])

    def peak(self) -> int | None:
        return None if self.before is None else self.now("VmHWM") - self.before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("solver")
    name = parser.parse_args().solver
    try:
        version, jobs = jobs_of(name)
    except (ImportError, OSError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"version": version}), flush=True)
    data, lams, result, arrays = None, None, None, None

    def do(command):
        nonlocal data, lams, result, arrays
        if "load" in command:
            data, lams = load(command["load"], stacked=name == "msmtfl")
        elif "run" in command:
            job, arrays = jobs[command.pop("run")]
            result, watch = None, Memory() if command.pop("watch", False) else None
            seconds, result, cpu = timed(lambda: job(data, lams, **command))
            peak = watch.peak() if watch else None
            if isinstance(result, Timed):  # elsewhere, or only in part: the memory is not that of the work
                (seconds, result, cpu), peak = result, None
            return {"seconds": seconds, "cpu": cpu, "peak": peak}
        elif "save" in command:
            np.savez(command["save"], **arrays(result))
        return {}

    for line in sys.stdin:
        try:
            answer = do(json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
