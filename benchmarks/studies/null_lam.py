"""What does the default lam keep of pure noise? Plain estimators and their CV classes on data without any effect.

    python benchmarks/studies/null_lam.py                  # some two minutes on one core
    python benchmarks/studies/null_lam.py --smallest       # one seed of the smallest size

Features and targets are independent standard normal numbers: every coefficient that is not 0 is false. The plain estimators
have all their defaults, lam = 0.1 lam_max among them; beside them stands what the lasso per task and MSMTFL keep where
cross-validation chooses lam. Shares of all coefficients, mean over seeds.
"""

from __future__ import annotations

import argparse
import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from msmtfl import L12MTL, MSMTFL, MSMTFLCV, DirtyMTL, LassoMTL, LassoMTLCV, SharedMTL

SIZES = [(3, 50, 200), (15, 50, 200), (3, 100, 40), (15, 100, 40), (15, 1000, 40)]  # tasks, rows of each, features
MODELS = (LassoMTL, MSMTFL, L12MTL, DirtyMTL, SharedMTL, LassoMTLCV, MSMTFLCV)


def kept(model: type, m: int, n: int, d: int, seed: int) -> float:
    """The share of coefficients that are not 0."""
    rng = np.random.default_rng([7, m, n, d, seed])
    X, y, task = rng.standard_normal((m * n, d)), rng.standard_normal(m * n), np.repeat(np.arange(m), n)
    coef = model().fit(X, y, task=task).coef_
    return float(np.count_nonzero(coef) / coef.size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--smallest", action="store_true", help="one seed of the smallest size")
    options = parser.parse_args()
    sizes, seeds = (SIZES[2:3], 1) if options.smallest else (SIZES, options.seeds)
    warnings.simplefilter("ignore")  # some of these fits interpolate, or are not unique
    print("| tasks x rows x features | " + " | ".join(model.__name__ for model in MODELS) + " |")
    print("|---|" + "---|" * len(MODELS))
    for size in sizes:
        shares = [np.mean([kept(model, *size, seed) for seed in range(seeds)]) for model in MODELS]
        texts = " | ".join(f"{100 * share:.0f} %" for share in shares)
        print(f"| {' x '.join(map(str, size))} | {texts} |", flush=True)


if __name__ == "__main__":
    main()
