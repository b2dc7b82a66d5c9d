"""A table with many categorical columns: time and memory of a fit, beside glum's with the same columns.

    python benchmarks/studies/categories.py                    # 100,000 rows, 10 tasks, 20 columns, 1,000 levels in all
    python benchmarks/studies/categories.py --rows 2000 --levels 40

One BLAS thread, seconds of CPU time. MSMTFL at one lam and theta, and LassoMTL at 20 values of lam, from a table of pandas
with categorical columns; glum (pip install glum) fits every task by itself, with the same levels one-hot encoded in its own
sparse form, an l1 penalty of the same size on every column (it knows no groups), and its path of the same 20 strengths.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import sys
import time
import tracemalloc
import warnings
from typing import Any

import numpy as np

from msmtfl import MSMTFL, regularization_surface

try:
    import pandas as pd
except ModuleNotFoundError:
    sys.exit("categories.py makes tables of pandas: pip install pandas.")


def made(rows: int, tasks: int, columns: int, levels: int) -> tuple[Any, np.ndarray]:
    """A third of the columns matter."""
    rng = np.random.default_rng(0)
    sizes = rng.multinomial(levels - 2 * columns, rng.dirichlet(np.ones(columns))) + 2
    task = rng.integers(tasks, size=rows)
    frame, y = {}, rng.standard_normal(rows)
    for j, size in enumerate(sizes.tolist()):
        codes = rng.choice(size, rows, p=rng.dirichlet(3.0 * np.ones(size)))
        frame[f"v{j}"] = pd.Categorical.from_codes(codes, [f"l{k}" for k in range(size)])
        if j % 3 == 0:
            effects = rng.standard_normal(size) + 0.3 * rng.standard_normal((tasks, size))
            y += effects[task, codes]
    return pd.DataFrame(frame).assign(task=task), y


def timed(what: str, run: Any) -> Any:
    began = time.process_time()
    out = run()
    print(f"{what:45s} {time.process_time() - began:8.2f} s")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--levels", type=int, default=1000)
    options = parser.parse_args()
    frame, y = made(options.rows, options.tasks, options.columns, options.levels)
    warnings.simplefilter("ignore")
    kind = {"task_column": "task", "standardize": True}
    top = MSMTFL(1e6, np.inf, **kind).fit(frame, y).lam_max_
    model = timed("MSMTFL at one lam and theta", lambda: MSMTFL(0.1 * top, **kind).fit(frame, y))
    used = sorted({str(name) for name in model.feature_groups_[model.row_norms_ > 0]})
    print(
        f"  {len(model.features_)} features, {len(used)} of {options.columns} variables used, gap {model.dual_gap_:.0e}"
    )
    lams = np.geomspace(1.0, 0.01, 20) * top
    surface = timed(
        "LassoMTL (groups) at 20 lams",
        lambda: regularization_surface(frame, y, lams=lams, thetas=[np.inf], max_stages=1, **kind),
    )
    print(f"  worst gap {surface.dual_gap.max():.0e}")
    tracemalloc.start()
    MSMTFL(0.1 * top, **kind).fit(frame, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    dense = 8 * options.rows * len(model.features_)
    print(f"  peak memory of the first fit {peak / 2**20:.0f} MiB; a dense table would take {dense / 2**20:.0f} MiB")
    try:
        from glum import GeneralizedLinearRegressor
    except ModuleNotFoundError:
        print("glum is not installed: pip install glum.")
        return

    def of_glum() -> None:
        m = options.tasks
        for _, part in frame.assign(y=y).groupby("task"):
            X = part.drop(columns=["task", "y"])
            alphas = [float(one) for one in m * lams / 2.0]
            peer = GeneralizedLinearRegressor(
                family="normal", l1_ratio=1.0, alpha_search=True, alpha=alphas, drop_first=False, scale_predictors=True
            )
            peer.fit(X, part["y"])

    timed("glum, lasso of every task at 20 strengths", of_glum)


if __name__ == "__main__":
    main()
