"""What to expect of a task that was not in the training data, by the way in which it is predicted.

    python benchmarks/studies/new_tasks.py [--only DATA ...] [--tasks 40]
    python benchmarks/studies/new_tasks.py --labelled 5 [--only DATA ...] [--tasks 40] [--draws 10]

Every task (or so many of them, drawn at random) is left out as a whole, and predicted by partial pooling fitted to the
others: by their mean coefficients, by the common values, and by the mean of those whose features are similar. Printed is
the nMSE, its mean over the tasks left out, and the standard error of each way's difference to the mean. `levels` and `kinds`
are synthetic, 40 tasks of 30 samples and 10 features: slopes that differ a little and levels that differ much; and
slopes that go with the means of the features. The others are real and need MSMTFL_DATA.

With --labelled some samples of the task are labelled, and the others predicted: by the common values with the mean of the
labelled targets for a level, by `add_task`, with intercepts as in the fit or drawn to a common level (shrunk), by a ridge
regression on the labelled samples alone, and by the mean of their targets. Below every line stands how far the way that is
recommended, "common" without labelled samples and "shrunk" with some, is from the best one.
"""

from __future__ import annotations

import argparse
import os
import warnings
from copy import deepcopy

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.linear_model import RidgeCV

from msmtfl import PartialPooling
from msmtfl.datasets.files import data_folder

WAYS = ("mean", "common", "similar")
LABELLED = ("common", "add_task", "shrunk", "alone", "level")
EQUAL = 1e-6  # differences of mean nMSE below this are rounding
RECOMMENDED = ("common", "shrunk")  # without labelled samples, and with some
REAL = ("school", "computer", "hiv_pi")


def synthetic(name: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    m, n, d = 40, 30, 10
    task, place = np.repeat(np.arange(m), n), rng.standard_normal(m)
    X = rng.standard_normal((m * n, d))
    slopes = rng.standard_normal(d) + 0.2 * rng.standard_normal((m, d))
    levels = 10.0 * rng.standard_normal(m)
    if name == "kinds":
        X += 2.0 * place[task, None]
        slopes, levels = slopes + place[:, None] * rng.standard_normal(d), np.zeros(m)
    return X, np.einsum("nj,nj->n", X, slopes[task]) + levels[task] + rng.standard_normal(m * n), task


def load(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    folder = data_folder()
    if folder is None:
        raise SystemExit(f"{name} is real data: set MSMTFL_DATA to the folder that has {name}.npz.")
    with np.load(folder / f"{name}.npz") as stored:
        return stored["X"].astype(np.float64), stored["y"].astype(np.float64), stored["task"]


def left_out(X: np.ndarray, y: np.ndarray, task: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    """(tasks, ways): nMSE of tasks that are left out."""
    labels = [label for label in np.unique(task) if np.ptp(y[task == label]) > 0]
    chosen = np.random.default_rng(seed).permutation(labels)[:count]
    out = []
    for label in chosen:
        on = task == label
        model = PartialPooling().fit(X[~on], y[~on], task=task[~on])
        found = [model.set_params(unknown_task=way).predict(X[on], task=task[on]) for way in WAYS]
        out.append([np.mean((y[on] - f) ** 2) / y[on].var() for f in found])
    return np.array(out)


def with_labels(
    X: np.ndarray, y: np.ndarray, task: np.ndarray, count: int, labelled: int, draws: int, seed: int = 0
) -> np.ndarray:
    """(tasks, ways): nMSE of the other samples of tasks of which so many are labelled, drawn so many times."""
    random = np.random.default_rng(seed)
    labels = [one for one in np.unique(task) if np.ptp(y[task == one]) > 0 and (task == one).sum() >= labelled + 10]
    out = []
    for label in random.permutation(labels)[:count]:
        others, on = task != label, np.flatnonzero(task == label)
        fits = {
            intercepts: PartialPooling(unknown_task="common", intercepts=intercepts).fit(
                X[others], y[others], task=task[others]
            )
            for intercepts in ("task", "shrunk")
        }
        errors = []
        for _ in range(draws):
            rows = random.permutation(on)
            some, rest = rows[:labelled], rows[labelled:]
            f = fits["task"].predict(X[rows], task=task[rows])
            found = [f[labelled:] + np.mean(y[some] - f[:labelled])]
            added = [deepcopy(fit).add_task(X[some], y[some], label) for fit in fits.values()]
            found += [model.predict(X[rest], task=task[rest]) for model in added]
            found.append(RidgeCV(np.geomspace(1e-2, 1e4, 13)).fit(X[some], y[some]).predict(X[rest]))
            found.append(np.full(len(rest), y[some].mean()))
            errors.append([np.mean((y[rest] - f) ** 2) / y[rest].var() for f in found])
        out.append(np.mean(errors, axis=0))
    return np.array(out)


def verdict(errors: np.ndarray, ways: tuple[str, ...], recommended: str) -> str:
    """How far the recommended way is from the best one, in standard errors of the difference over tasks."""
    best = int(np.argmin(errors.mean(axis=0)))
    behind = errors[:, ways.index(recommended)] - errors[:, best]
    if ways[best] == recommended or behind.mean() < EQUAL:
        return f"{recommended} is best"
    se = behind.std(ddof=1) / np.sqrt(len(behind)) if len(behind) > 1 else np.nan
    within = "within" if behind.mean() <= se else "NOT within"
    return f"{recommended} is {within} one standard error of {ways[best]}: {behind.mean():+.4f} ({se:.4f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=["levels", "kinds", *REAL])
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--labelled", type=int, default=0)
    parser.add_argument("--draws", type=int, default=1, help="of the samples that are labelled, in every task")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    ways = LABELLED if options.labelled else WAYS
    print(f"{'data':10} {'tasks':>5} " + " ".join(f"{way:>8} {'(s.e.)':>8}" for way in ways), flush=True)
    for name in options.only:
        data = load(name) if name in REAL else synthetic(name)
        errors = (
            with_labels(*data, options.tasks, options.labelled, options.draws)
            if options.labelled
            else left_out(*data, options.tasks)
        )
        difference = errors - errors[:, :1]
        spread = (
            difference.std(axis=0, ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else np.full(len(ways), np.nan)
        )
        shown = " ".join(f"{one:8.4f} ({se:.4f})" for one, se in zip(errors.mean(axis=0), spread, strict=True))
        print(f"{name:10} {len(errors):5d} {shown}", flush=True)
        print(f"{'':10} {verdict(errors, ways, RECOMMENDED[bool(options.labelled)])}", flush=True)


if __name__ == "__main__":
    main()
