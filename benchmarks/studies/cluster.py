"""Fit, surface and cross-validation of data that stay on the workers of a Dask cluster, and what goes over the network.

    python benchmarks/studies/cluster.py
    python benchmarks/studies/cluster.py --features 100000 --tasks 8

A cluster of two worker processes on this machine; sparse data, 500 rows a task, ten features shared by all tasks. Every
line: seconds on the cluster and here, rounds of messages, bytes that went to and came from the workers, and the largest
difference of coefficients to the local answer. Two workers on one machine gain nothing: what is measured are messages.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
from typing import Any

import numpy as np
from scipy import sparse

from msmtfl import MSMTFL, MSMTFLCV

try:
    from distributed import Client, LocalCluster

    from msmtfl.dask import DaskMSMTFL, DaskMSMTFLCV
except ModuleNotFoundError:
    sys.exit('cluster.py starts a Dask cluster, which needs Dask: pip install ".[dask]".')

ROWS, SHARED, DENSITY, LAMS, FOLDS = 500, 10, 0.01, 30, 5
DOWN_TO = 0.03  # of lam_max: beyond it models interpolate


def make(d: int, m: int) -> tuple[Any, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = sparse.random_array((m * ROWS, d), density=DENSITY, format="csr", rng=rng)
    X = X + sparse.csr_array((rng.standard_normal(m * ROWS * SHARED), np.tile(np.arange(SHARED), m * ROWS),
                              SHARED * np.arange(m * ROWS + 1)), shape=X.shape)  # fmt: skip
    task, W = np.repeat(np.arange(m), ROWS), np.zeros((m, d))
    W[:, :SHARED] = rng.standard_normal((m, SHARED))
    y = np.concatenate([X[task == i] @ W[i] for i in range(m)]) + rng.standard_normal(m * ROWS)
    return X, y, task


def timed(call: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    out = call()
    return time.perf_counter() - began, out


def line(what: str, seconds: float, here: float, messages: dict[str, int], difference: float) -> None:
    sent, received = (1e-6 * messages[name] for name in ("sent", "received"))
    print(
        f"{what:28} {seconds:7.2f} s (here {here:.2f} s)  {messages['rounds']:3} rounds, sent {sent:.3f} MB, "
        f"received {received:.3f} MB, difference {difference:.0e}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--features", type=int, default=20_000)
    parser.add_argument("--tasks", type=int, default=4)
    options = parser.parse_args()
    d, m = options.features, options.tasks
    X, y, task = make(d, m)
    print(
        f"{m} tasks x {ROWS} rows x {d} features; a dense row of coefficients of all tasks is {8 * d * m / 1e6:.2f} MB"
    )
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        rows = np.array_split(np.arange(X.shape[0]), 4)
        parts = client.scatter([(X[some], y[some], task[some]) for some in rows])
        lazy = DaskMSMTFL(mode="data", standardize=True)
        seconds, model = timed(lambda: lazy.fit(parts))
        here, local = timed(lambda: MSMTFL(standardize=True).fit(X, y, task=task))
        line(f"fit, {local.n_stages_} stages", seconds, here, model.messages_, np.abs(model.coef_ - local.coef_).max())
        seconds, surface = timed(lambda: lazy.surface(parts, lams=LAMS, lam_min_ratio=DOWN_TO))
        here, other = timed(lambda: MSMTFL(standardize=True).surface(X, y, task=task, lams=LAMS, lam_min_ratio=DOWN_TO))
        worst = max(np.abs(surface.coef(k, l) - other.coef(k, l)).max() for k, l in np.ndindex(other.thetas.shape))
        line(f"surface, {LAMS} x {other.thetas.shape[1]} points", seconds, here, lazy.messages_, worst)
        seconds, search = timed(
            lambda: DaskMSMTFLCV(mode="data", lams=LAMS, lam_min_ratio=DOWN_TO, cv=FOLDS, standardize=True).fit(parts)
        )
        here, found = timed(
            lambda: MSMTFLCV(lams=LAMS, lam_min_ratio=DOWN_TO, cv=FOLDS, standardize=True).fit(X, y, task=task)
        )
        line(f"the same with {FOLDS} folds", seconds, here, search.messages_, np.abs(search.coef_ - found.coef_).max())
        apart = np.subtract(*(one.cv_results_["mean_test_score"] for one in (search, found)))
        print(f"scores differ by {np.abs(apart).max():.0e}; chosen: {search.best_point_}, {found.best_point_}")


if __name__ == "__main__":
    main()
