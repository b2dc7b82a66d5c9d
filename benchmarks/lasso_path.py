"""The lasso path of every task, against scikit-learn, celer, skglm and adelie, in one interleaved run on one thread.

    python benchmarks/lasso_path.py                       # all problems (real data through MSMTFL_DATA)
    python benchmarks/lasso_path.py --quick               # without the two large ones
    python benchmarks/lasso_path.py --adelie PYTHON       # PYTHON: an interpreter with adelie (it needs numpy < 2)

Every solver runs in a process of its own and is timed inside it; rounds go over the solvers in turn, the best of
--repeats counts. The relative duality gap (primal - dual over the loss at 0, worst over lambdas and tasks sampled) is
computed here from X and y. "to reach" is the bar for the ratio fastest peer / msmtfl.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from problems import LARGE, PROBLEMS, BenchProblem, problems
from processes import ONE_THREAD, Solver, arguments_of, start, versions, write
from stress import gap_of

TO_REACH = {"paper": 10, "m=5": 4, "wide": 5, "tall": 1.3, "Isolet 3e-2": 15, "Isolet 3e-3": 60, "school": 15}
SLOW = {"skglm"}  # run once per problem: it is timed after a warm-up that compiles


def worst_gap(problem: BenchProblem, coefs: np.ndarray) -> float:
    """Over every third lambda and at most ten tasks."""
    m = len(problem.Xs)
    tasks = np.unique(np.linspace(0, m - 1, min(m, 10)).astype(int))
    worst = 0.0
    for k in range(0, problem.n_lams, 3):
        for i in tasks:
            X, y = problem.Xs[i], problem.ys[i]
            a = np.full(X.shape[1], 0.5 * m * len(y) * problem.lams[k])
            worst = max(worst, gap_of(X, y, coefs[k, i], a))
    return worst


def run(problem: BenchProblem, solvers: list[Solver], repeats: int, folder: Path) -> list[dict]:
    """Tidy rows: one per solver."""
    file = write(problem, folder / "problem.npz")
    best: dict[str, float] = {}
    for solver in solvers:
        solver.ask(load=file)
        best[solver.name] = float("inf")
        if solver.name not in SLOW:
            solver.ask(run="path")  # warm-up
    for repeat in range(repeats):
        for solver in solvers:
            if repeat == 0 or solver.name not in SLOW:
                best[solver.name] = min(best[solver.name], solver.ask(run="path")["seconds"])
    rows = []
    for solver in solvers:
        coefs = solver.arrays(folder / "coefs.npz")["coefs"]
        rows.append(
            {
                "problem": problem.name,
                "solver": solver.name,
                "version": solver.version,
                "seconds": best[solver.name],
                "gap": worst_gap(problem, coefs),
                "support": int((coefs[-1] != 0).sum(axis=1).max()),
            }
        )
    return rows


def start_up() -> list[str]:
    """Import beyond scikit-learn's own, and the first fit beyond import, in fresh processes (best of 5)."""
    code = (
        "import time; t0 = time.perf_counter(); import sklearn.linear_model, sklearn.model_selection; "
        "t1 = time.perf_counter(); import msmtfl; t2 = time.perf_counter(); import numpy as np; "
        "rng = np.random.default_rng(0); X = rng.standard_normal((600, 250)); y = X[:, 0] + rng.standard_normal(600); "
        "task = np.repeat(np.arange(15), 40); t3 = time.perf_counter(); msmtfl.MSMTFL().fit(X, y, task=task); "
        "print(t2 - t1, time.perf_counter() - t3)"
    )
    times = []
    for _ in range(5):
        out = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **ONE_THREAD}
        )
        times.append([float(v) for v in out.stdout.split()])
    imported, fitted = np.min(times, axis=0)
    return [
        f"import beyond scikit-learn's own: {imported:.3f} s (to reach 0.1)",
        f"first fit of the paper's problem beyond import: {fitted:.3f} s (to reach 0.2)",
    ]


def table(rows: list[dict], problems: list[BenchProblem]) -> str:
    names = list(dict.fromkeys(row["solver"] for row in rows))
    lines = [
        "| problem | " + " | ".join(names) + " | fastest peer / msmtfl | to reach |",
        "|---" * (len(names) + 3) + "|",
    ]
    for problem in problems:
        cells = {row["solver"]: row for row in rows if row["problem"] == problem.name}
        peers = {name: row["seconds"] for name, row in cells.items() if name != "msmtfl"}
        shown = [f"{1e3 * cells[n]['seconds']:.1f} ms ({cells[n]['gap']:.0e})" if n in cells else "" for n in names]
        ratio, bar = "", TO_REACH.get(problem.name)
        if peers:
            value = min(peers.values()) / cells["msmtfl"]["seconds"]
            ratio = f"{value:.1f}x ({min(peers, key=peers.get)})" + ("" if bar is None or value >= bar else ", SHORT")
        lines.append(f"| {problem.name}: {problem.describe()} | " + " | ".join(shown) + f" | {ratio} | {bar}x |")
    return "\n".join(lines)


def main() -> int:
    peers = ["scikit-learn", "celer", "skglm", "adelie"]
    arguments = arguments_of(__doc__, PROBLEMS, peers, "leave the two large problems out").parse_args()
    solvers = start(["msmtfl", *arguments.peers], arguments.adelie)
    chosen = list(problems(arguments.only or [name for name in PROBLEMS if not (arguments.quick and name in LARGE)]))
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as folder:
        for problem in chosen:
            rows += run(problem, solvers, arguments.repeats, Path(folder))
            print(f"{problem.name} done", file=sys.stderr)
    for solver in solvers:
        solver.close()
    print(versions(solvers))
    print("\n".join(start_up()))
    print(table(rows, chosen))
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
