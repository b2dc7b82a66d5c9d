"""What cross-validation costs under each loss: CPU seconds, beside squared loss and scikit-learn's searches.

Three tables: binary tasks like those of landmine detection (generated; 9 features, some 6 % positives); drug
resistance of viruses (hiv_pi, above or below the median of each drug), if `MSMTFL_DATA` has it; counts. The same folds,
features and number of lams for all; ours have five columns of theta for each lam, scikit-learn's LogisticRegressionCV none.

    python benchmarks/studies/loss_searches.py                     # small: seconds
    python benchmarks/studies/loss_searches.py --tasks 29 --rows 511 --peers --only landmine
    python benchmarks/studies/loss_searches.py --peers --only hiv_pi
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from landmine import POSITIVE
from sklearn.linear_model import LogisticRegressionCV
from sklearn.preprocessing import StandardScaler

from msmtfl import MSMTFLCV, MSMTFLClassifierCV

FOLDS = 5


def landmine(tasks, rows, d=9, shared=4, seed=0):
    """X, classes, tasks: heavy tails, some features that matter everywhere and one more in each task."""
    rng = np.random.default_rng(seed)
    mean = rng.choice([-1.0, 1.0], shared) * np.linspace(0.8, 0.3, shared)
    Xs, ys = [], []
    for _ in range(tasks):
        w = np.zeros(d)
        w[:shared] = mean + 0.25 * rng.standard_normal(shared)
        w[rng.integers(shared, d)] = rng.choice([-1.0, 1.0])
        X = rng.standard_t(3, (rows, d))
        f = X @ w
        b = -np.quantile(f + rng.logistic(size=rows), 1.0 - POSITIVE)  # so many are beyond
        y = f + b + rng.logistic(size=rows) > 0
        y[np.argsort(-f)[:FOLDS]] = True  # every fold has one
        Xs.append(X)
        ys.append(y.astype(int))
    return np.concatenate(Xs), np.concatenate(ys), np.repeat(np.arange(tasks), rows)


def hiv_pi(tasks, rows):
    """The first tasks of the real data, or None without them: no more than `rows` of each, if that is not 0."""
    file = Path(os.environ.get("MSMTFL_DATA", "")) / "hiv_pi.npz"
    if not file.is_file():
        return None
    with np.load(file) as arrays:
        X, y, task = arrays["X"].astype(np.float64), arrays["y"], arrays["task"]
    rng, keep, classes = np.random.default_rng(0), [], np.zeros(len(y), dtype=int)
    for i in np.unique(task)[:tasks]:
        at = rng.permutation(np.flatnonzero(task == i))[: rows or None]
        classes[at] = y[at] > np.median(y[at])
        keep.append(at)
    at = np.concatenate(keep)
    return X[at], classes[at], task[at]


def counts(tasks, rows, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((tasks * rows, d)), np.repeat(np.arange(tasks), rows)
    return X, rng.poisson(np.exp(0.5 * X[:, 0] - 0.3 * X[:, 1] + 0.5)).astype(float), task


TABLES = {"landmine": landmine, "hiv_pi": hiv_pi, "counts": counts}


def ours(lams, **options):
    return lambda X, y, task: MSMTFLCV(lams=lams, cv=FOLDS, standardize=True, **options).fit(
        X, y.astype(float), task=task
    )


def classes(lams):
    return lambda X, y, task: MSMTFLClassifierCV(lams=lams, cv=FOLDS, standardize=True).fit(X, y, task=task)


def per_task(lams):
    """scikit-learn's search with an l1 penalty, a task at a time."""

    def fit(X, y, task):
        for i in np.unique(task):
            model = LogisticRegressionCV(
                Cs=lams,
                cv=FOLDS,
                solver="liblinear",
                l1_ratios=(1.0,),
                scoring="neg_log_loss",
                use_legacy_attributes=False,
            )
            model.fit(StandardScaler().fit_transform(X[task == i]), y[task == i])

    return fit


def searches(table, lams, peers):
    out = {"squared": ours(lams)}
    if table == "counts":
        return out | {"poisson": ours(lams, loss="poisson"), "huber": ours(lams, loss="huber")}
    out["logistic"] = classes(lams)
    return out | ({"LogisticRegressionCV per task": per_task(lams)} if peers else {})


def seconds(fit, data):
    began = time.process_time()
    fit(*data)
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(TABLES), help="one of the tables")
    parser.add_argument("--tasks", type=int, default=8, help="tasks of each table, as far as it has so many")
    parser.add_argument("--rows", type=int, default=0, help="of each task; 0: all of real data, else 200")
    parser.add_argument("--lams", type=int, default=30, help="values of lam, and of scikit-learn's C")
    parser.add_argument("--repeats", type=int, default=1, help="the least CPU time of so many counts")
    parser.add_argument("--peers", action="store_true", help="scikit-learn's searches, too; they take longer")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| table | samples x features, tasks | search | CPU s | over squared |\n|---|---|---|---|---|")
    for table in [arguments.only] if arguments.only else TABLES:
        rows = arguments.rows if table == "hiv_pi" else arguments.rows or 200
        data = TABLES[table](arguments.tasks, rows)
        if data is None:
            continue
        X, _, task = data
        shape = f"{X.shape[0]:,} x {X.shape[1]}, {len(np.unique(task))}"
        first = None
        for name, fit in searches(table, arguments.lams, arguments.peers).items():
            least = min(seconds(fit, data) for _ in range(arguments.repeats))
            first = first or least
            print(f"| {table} | {shape} | {name} | {least:.2f} | {least / first:.1f} |", flush=True)


if __name__ == "__main__":
    main()
