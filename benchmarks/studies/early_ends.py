"""What does it cost that searches end where held-out errors have turned? The same searches over the whole grid, on data sets
of ten kinds: how often is another point chosen, what is its error on fresh samples, and how much time is saved.

    python benchmarks/studies/early_ends.py             # 100 data sets, every search; rows go to a file
    python benchmarks/studies/early_ends.py --data-sets 20 --searches LassoMTLCV MSMTFLCV
    python benchmarks/studies/early_ends.py --table     # only the table, from the rows that there are

`other point` counts the data sets on which the searches choose differently; `error` is that of the early search on fresh
samples over that of the whole one, `score` the same of the held-out errors that they chose by; `time` is CPU time over
that of the whole grid, `solved` the share of the points that were solved. The rule is `msmtfl._paths.early_stopping`; the
first 20 data sets were looked at when its patience was set, the others were not.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from chosen_points import of_model, squared_errors

from msmtfl import L12MTLCV, MSMTFLCV, DirtyMTLCV, LassoMTLCV, SharedMTLCV

KINDS = (
    "null",
    "shared support",
    "own support",
    "dense small effects",
    "copies",
    "flat curves",
    "two scales",
    "tiny tasks",
    "more features than samples",
    "correlated",
)
SEARCHES = (LassoMTLCV, MSMTFLCV, L12MTLCV, DirtyMTLCV, SharedMTLCV)
FRESH = 20  # fresh samples for every one to train on
ROWS = Path(__file__).parents[1] / "results" / "early_ends.jsonl"


def data_set(seed: int) -> tuple[str, tuple, tuple]:
    """Kind, (X, y, task) to train on, and the same to measure on."""
    rng = np.random.default_rng([30_000, seed])
    kind = KINDS[seed % len(KINDS)]
    m, d = int(rng.integers(3, 8)), int(rng.integers(10, 50))
    n, noise, correlation = rng.integers(20, 60, size=m), 1.0, float(rng.choice([0.0, 0.5]))
    if kind == "tiny tasks":
        n = rng.integers(6, 12, size=m)
    elif kind == "more features than samples":
        d, n = 150, rng.integers(20, 40, size=m)
    elif kind == "flat curves":  # far more samples than are needed: whatever lam, errors are the same
        d, n = int(rng.integers(4, 8)), rng.integers(150, 250, size=m)
    elif kind == "correlated":
        correlation = 0.98
    used, W = max(2, d // 8), np.zeros((m, d))
    if kind in ("shared support", "tiny tasks", "more features than samples", "correlated", "flat curves"):
        W[:, :used] = rng.normal(size=(m, used))
    elif kind == "own support":
        for w in W:
            w[rng.choice(d, used, replace=False)] = rng.normal(size=used)
    elif kind == "dense small effects":
        W = rng.normal(size=(m, d)) / np.sqrt(d)
    elif kind == "copies":
        W[:, :used] = rng.normal(size=used) + 0.05 * rng.normal(size=(m, used))
    elif kind == "two scales":  # a feature that explains nearly all, and many that matter once it is known
        W[:, 0], W[:, 1:] = 20.0, rng.normal(size=(m, d - 1)) * 0.5
        n, noise = n + 2 * d, 0.5

    def draw(sizes: np.ndarray) -> tuple:
        task = np.repeat(np.arange(m), sizes)
        common = rng.standard_normal((len(task), 1))
        X = np.sqrt(correlation) * common + np.sqrt(1.0 - correlation) * rng.standard_normal((len(task), d))
        return X, np.einsum("rj,rj->r", X, W[task]) + noise * rng.standard_normal(len(task)), task

    return kind, draw(n), draw(FRESH * n)


def rows_of(seed: int, names: list[str]) -> list[dict]:
    kind, (X, y, task), new = data_set(seed)
    out = []
    for search in SEARCHES:
        if search.__name__ not in names:
            continue
        found = []
        for early in (True, False):
            model = search()
            model._ends_early = early
            began = time.process_time()
            model.fit(X, y, task=task)
            found.append((model, time.process_time() - began))
        (model, seconds), (whole, all_seconds) = found
        out.append(
            {
                "search": search.__name__,
                "same": model.best_point_ == whole.best_point_,
                "error": of_model(squared_errors, model, new) / of_model(squared_errors, whole, new),
                "score": model.best_score_ / whole.best_score_,
                "seconds": seconds,
                "all_seconds": all_seconds,
                "solved": float(model.cv_results_["solved"].mean()),
            }
        )
    return [{"seed": seed, "kind": kind, **row} for row in out]


def table(rows: list[dict], by: str) -> str:
    lines = [f"| {by} | data sets | other point | error, mean | largest | score, largest | time | solved |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(row[by] for row in rows):
        some = [row for row in rows if row[by] == name]
        error = np.array([row["error"] for row in some])
        spent = sum(row["seconds"] for row in some) / sum(row["all_seconds"] for row in some)
        lines.append(
            f"| {name} | {len(some)} | {sum(not row['same'] for row in some)} | {error.mean():.4f} | {error.max():.3f} | "
            f"{max(row['score'] for row in some):.3f} | {spent:.2f} | {np.mean([row['solved'] for row in some]):.2f} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=100)
    parser.add_argument("--searches", nargs="+", default=[search.__name__ for search in SEARCHES])
    parser.add_argument(
        "--out", type=Path, default=ROWS, help="rows are added to it; data sets that it has are left out"
    )
    parser.add_argument("--table", action="store_true", help="no fits, only the table")
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    done = {(row["seed"], row["search"]) for row in rows}
    for seed in range(0 if args.table else args.data_sets):
        names = [name for name in args.searches if (seed, name) not in done]
        if not names:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            new = rows_of(seed, names)
        rows += new
        args.out.parent.mkdir(parents=True, exist_ok=True)
        with args.out.open("a") as out:
            out.writelines(json.dumps(row) + "\n" for row in new)
    print(table(rows, "search"))
    print()
    print(table(rows, "kind"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
