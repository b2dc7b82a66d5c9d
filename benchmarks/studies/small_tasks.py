"""Many small tasks in a stream: rows per second against the number of tasks and the rows of a batch.

    python benchmarks/studies/small_tasks.py                                # 400,000 rows
    python benchmarks/studies/small_tasks.py --rows 2000 --tasks 1 10

Rows x 20 features (float32) in a temporary file, `Moments.from_parquet`, one BLAS thread, the best of --repeats. What a task
costs in every batch that holds it is the difference to one task, by task and batch.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from msmtfl import Moments

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ModuleNotFoundError:
    sys.exit("small_tasks.py reads Parquet files, which needs pyarrow: pip install pyarrow.")

FEATURES = 20
TASKS, BATCHES = (1, 100, 1000, 5000), (2**15, 2**17, 2**19)


def seconds(file: Path, batch_rows: int, repeats: int) -> float:
    best = np.inf
    for _ in range(repeats):
        began = time.perf_counter()
        Moments.from_parquet(file, "y", "task", batch_rows=batch_rows)
        best = min(best, time.perf_counter() - began)
    return float(best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--tasks", type=int, nargs="+", default=TASKS)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((options.rows, FEATURES), dtype=np.float32)
    alone = {}
    print("tasks  rows of a batch  million rows/s  ms per task and batch")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.parquet"
        for m in options.tasks:
            columns = {f"x{j}": X[:, j] for j in range(FEATURES)}
            task = rng.integers(m, size=len(X), dtype=np.int32)
            pq.write_table(pa.table({**columns, "y": X[:, 0], "task": task}), file)
            for rows in BATCHES:
                took = seconds(file, rows, options.repeats)
                base = alone.setdefault(rows, took)
                each = 1e3 * max(took - base, 0.0) / (m * -(-len(X) // rows))
                print(f"{m:5}  {rows:15}  {1e-6 * len(X) / took:14.2f}  {each:21.3f}", flush=True)


if __name__ == "__main__":
    main()
