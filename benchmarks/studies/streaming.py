"""Rows streamed from Parquet parts: statistics by task and fold, and the model chosen and fitted from them.

    python benchmarks/studies/streaming.py                  # 1 % of 20 million rows
    python benchmarks/studies/streaming.py --full           # all of them: 8 GB in a temporary folder, removed afterwards
    python benchmarks/studies/streaming.py --folder FOLDER  # where the temporary folder goes

100 features x 8 tasks, float32. `Moments.from_parquet` with 3 folds, then `MSMTFLCV.fit_moments`, against a plain scan with
pyarrow that multiplies X'X batch by batch, without tasks, folds, centring or checks: in float64, as exact answers need it,
and in float32. Every measurement is a fresh process with one BLAS thread, in turn, the best of --repeats counts; pyarrow
decodes with as many threads as it likes in all of them. Peak memory is the largest resident size of the process. On a
subsample the streamed fit is compared with the fit to the rows in memory. Lines end with OK or SHORT of their bar.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "runner"))
from processes import ONE_THREAD

ROWS, SHARE, FEATURES, TASKS, FOLDS = 20_000_000, 0.01, 100, 8, 3
PART = 500_000  # rows in a file
ROW_GROUP = 2**17
BATCH = {"f8": 2**15, "f4": 2**16}  # rows of a batch of the plain scan: the fastest of 2**12 to 2**17
SUBSAMPLE = 50_000
RATE_AT_LEAST, MEMORY_AT_MOST, DIFFERENCE_AT_MOST = 0.5, 1.5e9, 1e-8
NAMES = [f"x{j}" for j in range(FEATURES)]


def write_part(file: Path, rows: int, seed: int) -> None:
    """Ten features shared by all tasks, means that are not zero."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    W = np.zeros((TASKS, FEATURES), dtype=np.float32)
    W[:, :10] = np.random.default_rng(0).standard_normal((TASKS, 10))
    rng = np.random.default_rng([1, seed])
    X = rng.standard_normal((rows, FEATURES), dtype=np.float32) + np.arange(FEATURES, dtype=np.float32)
    task = rng.integers(0, TASKS, rows, dtype=np.int32)
    y = np.einsum("ij,ij->i", X, W[task]) + rng.standard_normal(rows, dtype=np.float32)
    table = pa.table({**{name: X[:, j] for j, name in enumerate(NAMES)}, "task": task, "y": y})
    pq.write_table(table, file, row_group_size=ROW_GROUP, use_dictionary=["task"])


def write_parts(folder: Path, rows: int) -> None:
    for k, low in enumerate(range(0, rows, PART)):
        write_part(folder / f"part-{k:03}.parquet", min(PART, rows - low), k)


def plain(folder: Path, kind: str) -> None:
    """What one would write by hand for X'X alone."""
    import pyarrow.parquet as pq

    G = np.zeros((FEATURES, FEATURES), dtype=kind)
    for file in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches(batch_size=BATCH[kind], columns=NAMES):
                X = np.empty((batch.num_rows, FEATURES), dtype=kind, order="F")
                for j in range(FEATURES):
                    X[:, j] = batch.column(j).to_numpy()
                G += X.T @ X


def in_float64(folder: Path) -> None:
    plain(folder, "f8")


def in_float32(folder: Path) -> None:
    plain(folder, "f4")


def stream(folder: Path) -> Any:
    from msmtfl import Moments

    return Moments.from_parquet(folder, "y", "task", folds=FOLDS)


def stream_and_fit(folder: Path) -> None:
    from msmtfl import MSMTFLCV

    MSMTFLCV().fit_moments(stream(folder))


def difference(folder: Path) -> float:
    """Largest difference of a coefficient or intercept between the streamed fit and the fit to the rows."""
    import pyarrow.parquet as pq

    from msmtfl import MSMTFL, Moments

    with tempfile.TemporaryDirectory(dir=folder) as sub:
        write_part(Path(sub) / "subsample.parquet", SUBSAMPLE, 0)
        streamed = MSMTFL(theta="adaptive").fit_moments(Moments.from_parquet(sub, "y", "task", batch_rows=4096))
        table = pq.read_table(Path(sub) / "subsample.parquet")
    X = np.column_stack([table[name].to_numpy() for name in NAMES])
    whole = MSMTFL(theta="adaptive").fit(X, table["y"].to_numpy(), task=table["task"].to_numpy())
    pairs = [(streamed.coef_, whole.coef_), (streamed.intercept_, whole.intercept_)]
    return max(float(np.abs(a - b).max()) for a, b in pairs)


def timed(run: Callable[[Path], Any], folder: Path) -> tuple[float, float]:
    """(seconds, peak bytes) of a run, imports not counted."""
    import pyarrow.parquet  # noqa: F401

    import msmtfl  # noqa: F401

    began = time.perf_counter()
    run(folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return time.perf_counter() - began, float(peak) * (1 if sys.platform == "darwin" else 1024)


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """In a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


@dataclass(frozen=True)
class Line:
    """What was measured; bar says in words what is to be reached, good whether it is."""

    what: str
    value: str
    bar: str = ""
    good: bool | None = None

    def __str__(self) -> str:
        verdict = {None: "", True: "OK", False: "SHORT"}[self.good]
        return f"| {self.what} | {self.value} | {self.bar} | {verdict} |"


def lines(rows: int, best: dict[Any, tuple[float, float]], off: float) -> list[Line]:
    def rate(run: Any) -> str:
        return f"{best[run][0]:.2f} s, {rows / best[run][0] / 1e6:.2f} M rows/s"

    def over(run: Any, base: Any, what: str, counts: bool) -> Line:
        ratio = best[base][0] / best[run][0]
        bar = (f">= {RATE_AT_LEAST}", ratio >= RATE_AT_LEAST) if counts else ()
        return Line(what, f"{ratio:.2f}", *bar)

    seconds, peak = best[stream_and_fit]
    return [
        Line("plain scan + X'X, float64", rate(in_float64)),
        Line("plain scan + X'X, float32", rate(in_float32)),
        Line(f"Moments.from_parquet, {FOLDS} folds", rate(stream)),
        over(stream, in_float64, "its rate over the plain one, float64", True),
        over(stream, in_float32, "its rate over the plain one, float32", False),
        Line("MSMTFLCV.fit_moments, default grid", f"{seconds - best[stream][0]:.2f} s"),
        # the fit takes the same time however many rows there are: it is judged with all of them
        over(stream_and_fit, in_float64, "rate with the fit, over float64", rows == ROWS),
        Line("peak memory", f"{peak / 1e6:.0f} MB", f"<= {MEMORY_AT_MOST / 1e6:.0f} MB", peak <= MEMORY_AT_MOST),
        Line(
            f"streamed less in memory, {SUBSAMPLE:,} rows",
            f"{off:.1e}",
            f"<= {DIFFERENCE_AT_MOST:.0e}",
            off <= DIFFERENCE_AT_MOST,
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help=f"{ROWS:,} rows")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the temporary folder goes")
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)
    rows = ROWS if options.full else round(SHARE * ROWS)
    with tempfile.TemporaryDirectory(prefix="msmtfl-streaming-", dir=options.folder) as name:
        folder = Path(name)
        alone(write_parts, folder, rows)
        size = sum(file.stat().st_size for file in folder.glob("*.parquet"))
        print(
            f"{rows:,} rows x {FEATURES} features x {TASKS} tasks, {size / 1e9:.2f} GB; load {os.getloadavg()[0]:.1f}"
        )
        runs = (in_float64, in_float32, stream, stream_and_fit)
        best: dict[Any, tuple[float, float]] = {}
        for _ in range(options.repeats):
            for run in runs:
                found = alone(timed, run, folder)
                best[run] = min(best.get(run, found), found)
        off = alone(difference, folder)
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print("| what | | to reach | |\n|---|---|---|---|")
    found_all = lines(rows, best, off)
    print(*found_all, sep="\n")
    return 0 if all(line.good is not False for line in found_all) else 1


if __name__ == "__main__":
    sys.exit(main())
