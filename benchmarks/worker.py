"""One solver in a process of its own: reads commands (a JSON object per line), answers with one line each.

{"load": file}            X, y, task and lams of a problem               -> {}
{"run": job, option: ..}  do a job once, with options                    -> {"seconds": ...}
{"save": file}            write the arrays of the last job               -> {}
{"memory": true}          resident bytes of this process, now and at most -> {"now": ..., "peak": ...}
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np


def own_path(data, lams):
    """msmtfl: front door, designs, the warm path, dense coefficients. Tasks stacked beforehand, as in a long table."""
    from msmtfl.designs import stage_scale
    from msmtfl.lasso import Lassos
    from msmtfl.tasks import read_training

    X, y, task = data
    designs = read_training(X, y, task=task).designs(centre=False)
    lassos = Lassos(designs)
    out = np.zeros((len(lams), lassos.m, lassos.d))
    for W, solve in zip(out, lassos.path(lams, np.repeat(stage_scale(designs), lassos.d, axis=1))):
        W.ravel()[solve.at] = solve.values
    return out


def own_surface(data, lams, **options):
    from msmtfl import regularization_surface

    X, y, task = data
    return regularization_surface(X, y, task=task, lams=lams, fit_intercept=False, **options)


def surface_arrays(surface):
    points = list(np.ndindex(surface.thetas.shape))
    capped = np.zeros((*surface.thetas.shape, len(surface.features)), dtype=bool)
    for point in points:
        capped[point][surface.free_rows(*point)] = True
    coefs = np.array([surface.coef(*point) for point in points])
    return {
        "coefs": coefs.reshape(*surface.thetas.shape, *coefs.shape[1:]),
        "capped": capped,
        "unique": surface.unique,
    }


def own_cross_validation(data, lams, *, model, **options):
    import msmtfl

    X, y, task = data
    return getattr(msmtfl, model)(lams, cv=3, fit_intercept=False, **options).fit(X, y, task=task)


def own_rows(data, lams, *, ratio=None):
    """The path of L1,2, or of Dirty with lam_s = ratio lam_b."""
    from msmtfl.problem import pose
    from msmtfl.row_surface import dirty_grid, group_grid, solve_rows
    from msmtfl.tasks import read_training

    X, y, task = data
    problem = pose(read_training(X, y, task=task), fit_intercept=False, standardize=False, positive=False)
    return solve_rows(problem, group_grid(problem, lams) if ratio is None else dirty_grid(problem, lams, [ratio]))


def small_fit(data, lams):
    """So that what a first call loads is not counted."""
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.standard_normal((60, 30)))
    return own_surface((X, X[:, 0] + rng.standard_normal(60), np.repeat([0, 1], 30)), 5)


def of_lists(path, data, lams, **options):
    return path(*data, lams, **options)


def jobs_of(name):
    """(version, {job: (do it, make arrays of the result)})"""
    if name == "msmtfl":
        import msmtfl

        return msmtfl.__version__, {
            "path": (own_path, lambda result: {"coefs": np.array(result)}),
            "surface": (own_surface, surface_arrays),
            "cross-validation": (own_cross_validation, None),
            "rows": (own_rows, lambda result: {"coefs": result.coefs(range(len(result.solved)))}),
            "small fit": (small_fit, None),
        }
    if name.endswith("FISTA"):
        import rows

        path = rows.fista if name == "tuned FISTA" else rows.plain_fista
        return f"(numpy {np.__version__})", {"rows": (partial(of_lists, path), lambda result: {"coefs": result})}
    import loops
    import peers

    def path(data, lams):
        Xs, ys = data
        return peers.PEERS[name](Xs, ys, 0.5 * len(Xs) * lams)

    return __import__({"scikit-learn": "sklearn"}.get(name, name)).__version__, {
        "path": (path, lambda result: {"coefs": np.swapaxes(np.array(result), 0, 1)}),
        "stages": (partial(loops.stages, name), lambda result: result),
        "rows": (partial(of_lists, peers.ROW_PEERS.get(name)), lambda result: {"coefs": result}),
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


def memory():
    """On Linux not from getrusage: there a process begins with the peak of the one that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return {key: 1024 * int(fields[name].split()[0]) for key, name in (("now", "VmRSS"), ("peak", "VmHWM"))}
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"now": peak, "peak": peak}


def main() -> None:
    name = sys.argv[1]
    version, jobs = jobs_of(name)
    print(json.dumps({"version": version}), flush=True)
    data, lams, result, arrays = None, None, None, None
    for line in sys.stdin:
        command = json.loads(line)
        answer = {}
        if "load" in command:
            data, lams = load(command["load"], stacked=name == "msmtfl")
        elif "run" in command:
            job, arrays = jobs[command.pop("run")]
            began = time.perf_counter()
            result = job(data, lams, **command)
            answer = {"seconds": time.perf_counter() - began}
        elif "save" in command:
            np.savez(command["save"], **arrays(result))
        elif "memory" in command:
            answer = memory()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
