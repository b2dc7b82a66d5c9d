"""Do the defaults of MSMTFLCV serve? Test error of MSMTFLCV().fit and LassoMTLCV().fit on real and synthetic data.

    python benchmarks/studies/cv_defaults.py                 # all problems (real data through MSMTFL_DATA), some minutes
    python benchmarks/studies/cv_defaults.py --quick         # two splits instead of ten

A problem is split at random, task by task; both models see the same training rows and choose lam (and theta) by
themselves. nMSE is over the test rows, weighted by task sizes; the difference is paired over splits. "worse" means by
more than one standard error of the paired difference.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from msmtfl import MSMTFLCV, LassoMTLCV
from msmtfl.metrics import nmse

sys.path.insert(0, str(Path(__file__).parents[1] / "runner"))
from problems import data_folder

Split = tuple[np.ndarray, np.ndarray, np.ndarray]  # X, y, task


def real(file: str, share: float, seed: int) -> tuple[Split, Split] | None:
    folder = data_folder()
    if folder is None or not (folder / file).exists():
        return None
    stored = np.load(folder / file)
    X, y, task = stored["X"].astype(np.float64), stored["y"], stored["task"]
    rng = np.random.default_rng(seed)
    train = np.zeros(len(y), dtype=bool)
    for i in np.unique(task):
        rows = rng.permutation(np.flatnonzero(task == i))
        train[rows[: max(5, round(share * len(rows)))]] = True
    return (X[train], y[train], task[train]), (X[~train], y[~train], task[~train])


def synthetic(m: int, n: int, d: int, sigma: float, zero_entries: float, seed: int) -> tuple[Split, Split]:
    """The paper's generator: 90 % zero rows, of the rest a share of zero entries, columns of about unit length."""
    rng = np.random.default_rng(seed)
    W = rng.uniform(-10, 10, (d, m))
    W[rng.choice(d, int(0.9 * d), replace=False)] = 0.0
    live = np.argwhere(W != 0)
    off = live[rng.choice(len(live), int(zero_entries * len(live)), replace=False)]
    W[off[:, 0], off[:, 1]] = 0.0
    parts = []
    for size in (n, 1000):
        X = rng.standard_normal((m * size, d)) / np.sqrt(n)
        task = np.repeat(np.arange(m), size)
        y = np.einsum("ij,ij->i", X, W.T[task]) + sigma * rng.standard_normal(m * size)
        parts.append((X, y, task))
    return parts[0], parts[1]


PROBLEMS = {
    "Isolet 15 %": lambda s: real("isolet.npz", 0.15, s),
    "Isolet 20 %": lambda s: real("isolet.npz", 0.20, s),
    "Isolet 25 %": lambda s: real("isolet.npz", 0.25, s),
    "school 60 %": lambda s: real("school.npz", 0.60, s),
    "school 80 %": lambda s: real("school.npz", 0.80, s),
    "synthetic m=15 n=40 d=250 sigma=0.01": lambda s: synthetic(15, 40, 250, 0.01, 0.8, s),
    "synthetic m=20 n=30 d=200 sigma=0.005": lambda s: synthetic(20, 30, 200, 0.005, 0.8, s),
    "synthetic m=10 n=60 d=300 sigma=0.1": lambda s: synthetic(10, 60, 300, 0.1, 0.8, s),
    "synthetic m=15 n=40 d=250 sigma=0.5, dense rows": lambda s: synthetic(15, 40, 250, 0.5, 0.0, s),
    "hiv_pi 25 %": lambda s: real("hiv_pi.npz", 0.25, s),
    "computer 50 %": lambda s: real("computer.npz", 0.50, s),
    "wine 10 %": lambda s: real("wine.npz", 0.10, s),
    "sarcos 5 %": lambda s: real("sarcos.npz", 0.05, s),
}


def error(model, test: Split) -> float:
    """Test nMSE; tasks whose test targets do not vary are left out."""
    X, y, task = test
    keep = np.isin(task, [i for i in np.unique(task) if np.ptp(y[task == i]) > 0])
    return float(nmse(y[keep], model.predict(X[keep], task=task[keep]), task=task[keep]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two splits")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", nargs="*", help="parts of names of problems")
    parser.add_argument("--selection", default="min")
    parser.add_argument("--standardize", action="store_true")
    arguments = parser.parse_args()
    splits = 2 if arguments.quick else arguments.splits
    options = {"selection": arguments.selection, "standardize": arguments.standardize}
    print("| problem | LassoMTLCV | MSMTFLCV | paired difference | features used | equals the lasso | seconds |")
    print("|---|---|---|---|---|---|---|")
    worse = False
    for name, make in PROBLEMS.items():
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        rows = []
        for seed in range(splits):
            made = make(seed)
            if made is None:
                break
            train, test = made
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                lasso = LassoMTLCV(**options).fit(*train[:2], task=train[2])
                began = time.perf_counter()
                model = MSMTFLCV(**options).fit(*train[:2], task=train[2])
                seconds = time.perf_counter() - began
            used = [np.count_nonzero(fitted.coef_.any(axis=0)) for fitted in (lasso, model)]
            rows.append((error(lasso, test), error(model, test), *used, model.n_stages_ == 1, seconds))
        if not rows:
            continue
        table = np.array(rows, dtype=float)
        loss = table[:, 1] - table[:, 0]
        se = loss.std(ddof=1) / np.sqrt(splits) if splits > 1 else np.nan
        mean = table.mean(axis=0)
        verdict = ", WORSE" if loss.mean() > se else ""
        worse |= bool(verdict)
        print(
            f"| {name} | {mean[0]:.4f} | {mean[1]:.4f} | {loss.mean():+.4f} (s.e. {se:.4f}{verdict}) | {mean[2]:.0f} -> "
            f"{mean[3]:.0f} | {mean[4]:.0%} | {mean[5]:.2f} |",
            flush=True,
        )
    return int(worse)


if __name__ == "__main__":
    sys.exit(main())
