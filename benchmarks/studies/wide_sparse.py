"""Sparse text-like data, far more features than rows: msmtfl against scikit-learn's Lasso per task, in one run.

    python benchmarks/studies/wide_sparse.py [--features 200000] [--tasks 10] [--rows 2000]

Rows are documents of 80 words drawn from a Zipf-like law, entries log(1 + count); 30 frequent words matter to all tasks.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings

import numpy as np
from scipy import sparse
from sklearn.linear_model import Lasso

from msmtfl import MSMTFL, LassoMTL

WORDS = 80


def documents(rows: int, features: int, rng: np.random.Generator) -> sparse.csr_array:
    at = np.repeat(np.arange(rows, dtype=np.int32), WORDS)
    words = np.minimum((20 * rng.pareto(1.1, rows * WORDS)).astype(np.int32), features - 1)
    X = sparse.csr_array(sparse.coo_array((np.ones(len(at)), (at, words)), shape=(rows, features)))
    X.sum_duplicates()
    X.data = np.log1p(X.data)
    return X


def memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=200_000)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--rows", type=int, default=2_000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    m, n, d = options.tasks, options.rows, options.features
    X, task = documents(m * n, d, rng), np.repeat(np.arange(m), n)
    weight = np.zeros(d)
    weight[np.argsort(-np.diff(X.tocsc().indptr))[:30]] = 2 * rng.standard_normal(30)
    y = X @ weight + 0.1 * rng.standard_normal(m * n)
    before = memory()
    print(f"{m} tasks x {n} rows x {d} features, {X.nnz} stored; a dense copy would take {8e-9 * m * n * d:.0f} GB")
    began = time.perf_counter()
    model = MSMTFL().fit(X, y, task=task)
    took = time.perf_counter() - began
    print(
        f"MSMTFL at 0.1 lam_max: {took:.2f} s, {model.n_stages_} stages, {np.count_nonzero(model.coef_)} coefficients, "
        f"gap {model.dual_gap_:.0e}, {memory() - before:.2f} GB beyond the data"
    )
    lam = 0.1 * model.lam_max_
    began = time.perf_counter()
    ours = LassoMTL(lam=lam).fit(X, y, task=task)
    took = time.perf_counter() - began
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = np.array(
            [
                Lasso(alpha=m * lam / 2, tol=1e-6, max_iter=10_000).fit(X[task == i], y[task == i]).coef_
                for i in range(m)
            ]
        )
    other = time.perf_counter() - began
    apart = np.abs(ours.coef_ - theirs).max()
    print(f"lasso per task: msmtfl {took:.2f} s (gap {ours.dual_gap_:.0e}), scikit-learn {other:.2f} s at tol 1e-6")
    print(f"ratio {other / took:.1f}")
    print(f"largest difference of coefficients {apart:.1e}")


if __name__ == "__main__":
    main()
