"""The (lam, theta) surface and its cross-validation: against its own path, loops around peers, threads, memory.

    python benchmarks/surface.py                          # everything (real data through MSMTFL_DATA)
    python benchmarks/surface.py --quick                  # without the wide problem and without the loops
    python benchmarks/surface.py --only m=5 school        # some problems
    python benchmarks/surface.py --loop-lams 6            # loops at six of the lambdas, their time scaled up
    python benchmarks/surface.py --adelie PYTHON          # PYTHON: an interpreter with adelie (it needs numpy < 2)

30 lambdas, theta ratios 50, 10, 4, 2, up to ten stages; Gram matrices are part of every time. Every solver runs in a
process of its own, on one thread unless said, and is timed inside it; rounds go over msmtfl's jobs in turn, the best of
--repeats counts. A loop (`loops.py`) is timed as its stage 1 plus all that follows, as often, or once if it takes more
than 10 seconds; it is given up when it takes three times as long as the fastest so far. Its answer is compared with the
surface where both end with the same capped rows and the solution is unique. Memory is the largest resident size of a
fresh process during the call, less its size before (data loaded, a small fit done), as a share of X. Every line ends with
OK or SHORT of its bar; lines without a bar are for information.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from loops import LOOPS
from problems import BenchProblem, problems
from processes import Solver, arguments_of, start, versions, write

RATIOS = [50.0, 10.0, 4.0, 2.0]
N_LAMS = 30
LONG = 10.0  # seconds: a loop that takes longer is run once
SURFACE, PATH = {"run": "surface", "theta_ratios": RATIOS}, {"run": "surface", "thetas": [np.inf]}
TWO_THREADS = {**SURFACE, "n_jobs": 2}
CV = {"run": "cross-validation", "model": "MSMTFLCV", "theta_ratios": RATIOS}
LASSO_CV = {"run": "cross-validation", "model": "LassoMTLCV"}

SURFACE_AT_MOST = {"m=5": 2.0, "wide": 3.5, "Isolet 3e-2": 6.0, "school": 7.0}  # times the path
CV_AT_MOST = {"m=5": 8.0, "Isolet 3e-2": 20.0}  # times the path
LOOP_AT_LEAST = 50.0  # times the surface
THREADS_AT_LEAST = {"wide": 1.6, "Isolet 3e-2": 1.6}
MEMORY_AT_MOST = {"wide": 0.35}  # of X


@dataclass(frozen=True)
class Row:
    """What was measured, over what; bar: at most ("<=") or at least (">=") this ratio."""

    problem: str
    what: str
    over: str
    value: float
    base: float
    unit: str = "s"
    sense: str = "<="
    bar: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float:
        return self.value / self.base

    @property
    def verdict(self) -> str:
        if self.bar is None:
            return ""
        return "OK" if (self.ratio <= self.bar if self.sense == "<=" else self.ratio >= self.bar) else "SHORT"

    def line(self) -> str:
        bar = "" if self.bar is None else f"{self.sense} {self.bar:g}"
        cells = [self.problem, self.what, self._show(self.value), self.over, self._show(self.base)]
        return "| " + " | ".join([*cells, f"{self.ratio:.3g}", bar, self.note, self.verdict]) + " |"

    def _show(self, value: float) -> str:
        if self.unit == "B":
            return f"{value / 1e6:.1f} MB"
        return f"{value:.2f} s" if value >= 1 else f"{1e3 * value:.1f} ms"


HEAD = "| problem | what | | over | | ratio | to reach | remarks | |\n" + "|---" * 9 + "|"


def best_of(repeats: int, jobs: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Least seconds of each job, after a warm-up, in interleaved rounds."""
    for job in jobs.values():
        job()
    rounds = [{name: job() for name, job in jobs.items()} for _ in range(repeats)]
    return {name: min(seconds[name] for seconds in rounds) for name in jobs}


def own_times(own: Solver, problem: BenchProblem, repeats: int) -> tuple[list[Row], float]:
    """Rows of the surface, cross-validation and threads; the surface's seconds."""
    name = problem.name
    commands = {"path": PATH, "surface": SURFACE}
    if name in CV_AT_MOST:
        commands |= {"MSMTFLCV": CV, "LassoMTLCV": LASSO_CV}
    if name in THREADS_AT_LEAST:
        commands["two threads"] = TWO_THREADS
    best = best_of(repeats, {key: lambda c=command: own.ask(**c)["seconds"] for key, command in commands.items()})
    rows = [Row(name, "surface", "path", best["surface"], best["path"], bar=SURFACE_AT_MOST[name])]
    if name in CV_AT_MOST:
        rows.append(Row(name, "MSMTFLCV, 3 folds", "path", best["MSMTFLCV"], best["path"], bar=CV_AT_MOST[name]))
        rows.append(Row(name, "LassoMTLCV, 3 folds", "path", best["LassoMTLCV"], best["path"]))
    if name in THREADS_AT_LEAST:
        one, two, bar = best["surface"], best["two threads"], THREADS_AT_LEAST[name]
        rows.append(Row(name, "surface, one thread", "two threads", one, two, sense=">=", bar=bar))
    return rows, best["surface"]


# ------------------------------------------------------------------ loops


def loop_rows(
    own: Solver, peers: list[Solver], problem: BenchProblem, file: str, surface: float, repeats: int, some: int
) -> list[Row]:
    """A row per loop, the fastest last once more, with the bar."""
    folder = Path(file).parent
    own.ask(**SURFACE)
    count = min(some, problem.n_lams)
    at = ((np.arange(count) + 0.5) * problem.n_lams / count).astype(int).tolist()
    ours = {key: values[at] for key, values in own.arrays(folder / "surface.npz").items()}
    rows: list[Row] = []
    for peer in peers:
        peer.ask(load=file)
        stage_1 = best_of(repeats, {"path": lambda peer=peer: peer.ask(run="path")["seconds"]})["path"]
        start_file = folder / "stage_1.npz"
        peer.ask(save=str(start_file))
        for route in LOOPS[peer.name]:
            fastest = min((row.value for row in rows), default=np.inf)
            command = {"run": "stages", "route": route, "ratios": RATIOS, "start": str(start_file), "at": at}
            command["limit"] = max(LONG, 3.0 * fastest * count / problem.n_lams)
            later = [peer.ask(**command)["seconds"]]
            theirs = peer.arrays(folder / "loop.npz")
            if later[0] <= LONG:  # otherwise it has had time to warm up
                later = [peer.ask(**command)["seconds"] for _ in range(repeats)]
            notes = [f"stage 1: {1e3 * stage_1:.0f} ms", agreement(theirs, ours)]
            if count < problem.n_lams:
                notes.append(f"stages at {count} of {problem.n_lams} lambdas, scaled")
            if not theirs["done"].all():
                notes.append(f"GIVEN UP, {theirs['done'].sum()} of {theirs['done'].size} points done")
            seconds = stage_1 + min(later) * problem.n_lams / count
            what = f"loop, {peer.name}, {route}"
            rows.append(Row(problem.name, what, "surface", seconds, surface, note="; ".join(notes)))
            print(rows[-1].line(), file=sys.stderr)
    if rows:
        best = min(rows, key=lambda row: row.value)
        note = best.what.removeprefix("loop, ")
        rows.append(replace(best, what="best loop", sense=">=", bar=LOOP_AT_LEAST, note=note))
    return rows


def agreement(theirs: dict[str, np.ndarray], ours: dict[str, np.ndarray]) -> str:
    """Where the capped rows are the same, and how far coefficients differ there, relative to the point's largest (or a
    millionth of the surface's, for points that are zero but for rounding)."""
    same = (theirs["capped"] == ours["capped"]).all(axis=-1) & theirs["done"]
    out = f"capped rows agree at {same.sum()} of {theirs['done'].sum()} points"
    compared = same & ours["unique"]
    if not compared.any():
        return out
    difference = np.abs(theirs["coefs"] - ours["coefs"]).max(axis=(2, 3))
    size = np.abs(ours["coefs"]).max(axis=(2, 3))
    relative = difference / np.maximum(size, 1e-6 * size.max())
    return f"{out}, coefficients within {relative[compared].max():.0e} at the {compared.sum()} unique ones"


# ------------------------------------------------------------------ memory


def memory_rows(problem: BenchProblem, file: str) -> list[Row]:
    size = float(sum(X.nbytes for X in problem.Xs))
    rows = []
    for what, command in (("path", PATH), ("surface", SURFACE)):
        fresh = Solver("msmtfl")
        fresh.ask(load=file)
        fresh.ask(run="small fit")
        before = fresh.ask(memory=True)["now"]
        fresh.ask(**command)
        beyond = fresh.ask(memory=True)["peak"] - before
        fresh.close()
        bar = MEMORY_AT_MOST[problem.name]
        rows.append(Row(problem.name, f"peak memory, {what}", "X", beyond, size, unit="B", bar=bar))
    return rows


def main() -> int:
    parser = arguments_of(__doc__, SURFACE_AT_MOST, LOOPS, "leave the wide problem and the loops out")
    parser.add_argument("--loop-lams", type=int, default=N_LAMS, help="at how many of the 30 lambdas the loops run")
    arguments = parser.parse_args()
    own, *peers = start(["msmtfl", *([] if arguments.quick else arguments.peers)], arguments.adelie)
    names = arguments.only or [name for name in SURFACE_AT_MOST if not (arguments.quick and name == "wide")]
    rows: list[Row] = []
    described = []
    with tempfile.TemporaryDirectory() as folder:
        for made in problems(names):
            problem = replace(made, n_lams=N_LAMS)
            described.append(f"{problem.name}: {problem.describe()}")
            file = write(problem, Path(folder) / "problem.npz")
            own.ask(load=file)
            of_one, surface = own_times(own, problem, arguments.repeats)
            if peers:
                of_one += loop_rows(own, peers, problem, file, surface, arguments.repeats, arguments.loop_lams)
            if problem.name in MEMORY_AT_MOST:
                of_one += memory_rows(problem, file)
            rows += of_one
            print(f"{problem.name} done", file=sys.stderr)
    for solver in (own, *peers):
        solver.close()
    print(versions([own, *peers]))
    print("\n".join(described))
    print("\n".join([HEAD, *(row.line() for row in rows)]))
    if arguments.out:
        whole = [asdict(row) | {"ratio": row.ratio, "verdict": row.verdict} for row in rows]
        arguments.out.write_text(json.dumps(whole, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
