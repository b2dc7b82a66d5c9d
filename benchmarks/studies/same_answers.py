"""Are the answers still the same? Coefficients of a fixed set of fits: every family, dense, sparse, statistics, searches.

    python benchmarks/studies/same_answers.py FILE.npz                 # writes them down
    python benchmarks/studies/same_answers.py FILE.npz --compare       # compares with what is there

Write with one version of the package, compare with another: a change that is meant to change no answer must leave
coefficients equal to 1e-10 (relative to the largest of a fit) and the choices of searches equal.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import msmtfl
from msmtfl import Moments

FITS: dict[str, list[dict[str, Any]]] = {
    "MSMTFL": [
        {},
        {"theta": "adaptive", "standardize": True},
        {"lam_entry": 0.05},
        {"penalty": "mcp", "theta": 3.0},
        {"positive": True},
        {"loss": "huber"},
    ],
    "LassoMTL": [{}, {"relax": True}],
    "L12MTL": [{}, {"theta": 2.0}],
    "DirtyMTL": [{}],
    "SharedMTL": [{}, {"theta": 1.0}],
}
SEARCHES = ("MSMTFLCV", "LassoMTLCV", "L12MTLCV", "DirtyMTLCV", "SharedMTLCV")
SAME = 1e-10


def data(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Six shared features, one of every task's own, columns of different scales."""
    rng = np.random.default_rng(seed)
    m, n, d = (4, 40, 25) if seed % 2 else (6, 20, 40)
    X, task = rng.standard_normal((m * n, d)) * rng.uniform(0.5, 2.0, d), np.repeat(np.arange(m), n)
    W = np.zeros((m, d))
    W[:, :6] = rng.standard_normal((m, 6))
    W[np.arange(m), 6 + np.arange(m)] = 1.5
    return X, (X * W[task]).sum(axis=1) + rng.standard_normal(m * n), task


def answers() -> Iterator[tuple[str, np.ndarray]]:
    for seed in range(4):
        X, y, task = data(seed)
        for name, settings in FITS.items():
            for number, setting in enumerate(settings):
                make = getattr(msmtfl, name)
                yield f"{name} {number} dense {seed}", make(**setting).fit(X, y, task=task).coef_
                yield f"{name} {number} sparse {seed}", make(**setting).fit(csr_array(X), y, task=task).coef_
                if "loss" not in setting:
                    moments = Moments().update(X, y, task=task)
                    yield f"{name} {number} moments {seed}", make(**setting).fit_moments(moments).coef_
        for name in SEARCHES:
            model = getattr(msmtfl, name)(cv=3).fit(X, y, task=task)
            yield f"{name} {seed}", model.coef_
            yield f"{name} {seed} choice", np.array(model.best_point_)
        counts = np.random.default_rng(seed).poisson(np.exp(np.clip(0.3 * y, -3, 3)))
        yield f"Poisson {seed}", msmtfl.MSMTFL(loss="poisson").fit(X, counts, task=task).coef_
        yield f"MSMTFLClassifier {seed}", msmtfl.MSMTFLClassifier().fit(X, y > 0, task=task).coef_


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--compare", action="store_true", help="compare with the file instead of writing it")
    parser.add_argument("--quick", action="store_true", help="the first fits only")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, np.ndarray] = {}
    for name, value in answers():
        found[name] = value
        if arguments.quick and len(found) == 10:
            break
    if not arguments.compare:
        np.savez(arguments.file, **found)
        print(f"{len(found)} answers written")
        return 0
    stored, worst, other = np.load(arguments.file), 0.0, []
    for name, value in found.items():
        size = max(float(np.abs(stored[name]).max(initial=0.0)), np.finfo(float).tiny)
        apart = float(np.abs(value - stored[name]).max(initial=0.0)) / size
        worst = max(worst, apart)
        other += [f"{name}: {apart:.1e}"] * (not apart <= SAME)
    print(f"{len(found)} answers, largest relative difference {worst:.1e}, {len(other)} above {SAME:g}")
    print("\n".join(other))
    return bool(other)


if __name__ == "__main__":
    sys.exit(main())
