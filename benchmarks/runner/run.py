"""The benchmarks against peers: one table of rows, then a report made from it.

    python benchmarks/runner/run.py                     # some fifteen minutes
    python benchmarks/runner/run.py --size full         # everything
    python benchmarks/runner/run.py --only surface predict --problems m=5 school
    python benchmarks/runner/run.py --python adelie=.venv-adelie/bin/python     # an interpreter of its own for a peer

How: every solver is a process of its own, pinned to one thread before numpy is imported, and times its own calls; data
are loaded beforehand, everything else (Gram matrices, checks of the input) counts. For each case all solvers are warmed
up, which also gives the answer and the memory; then rounds go over all of them in turn, --repeats times at most, an
entry dropping out once it has used up --budget seconds (or more than five in one or two runs). Best and median are
reported. A run beyond --limit seconds is ended and noted. The gap is computed here, by `gap.py`, from X, y and the
answer. Solvers that are not installed are skipped with a note.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import report
from peers import TOLERANCES
from problems import PROBLEMS
from processes import HERE, ONE_THREAD, Solver, SolverError
from rows import Row, write_rows
from units import FIRST_FIT, IMPORT, PATHS, SETTINGS, SURFACE, WORKS, Case, Entry, cases

SOLVERS = ["msmtfl", *TOLERANCES, "tuned FISTA", "abess", "numpy"]
LONG = 5.0  # seconds: a first run that takes as long has warmed up by itself, and counts


@dataclass(frozen=True)
class Rule:
    repeats: int
    budget: float
    limit: float


def measure(case: Case, solvers: dict[str, Solver], rule: Rule, folder: Path) -> list[Row]:
    """Rows of a case, all entries interleaved."""
    file = case.problem.write(folder / "problem.npz", case.lams)
    entries = [entry for entry in case.entries if entry.solver in solvers]
    seconds: dict[Entry, list[float]] = {entry: [] for entry in entries}
    found: dict[Entry, dict] = {entry: {} for entry in entries}
    loaded: dict[str, int] = {}  # solver -> process that has the data

    def ask(entry: Entry, **more) -> dict:
        solver = solvers[entry.solver]
        if loaded.get(solver.name) != solver.process.pid:
            solver.ask(load=file)
            loaded[solver.name] = solver.process.pid
        return solver.ask(rule.limit, **entry.command, **more)

    reference, given_up, live = None, set(), []
    for entry in entries:
        if entry.solver in given_up and entry.setting in SETTINGS:
            found[entry]["note"] = "given up at a looser tolerance"
            continue
        try:
            first = ask(entry, watch=True)
            arrays = solvers[entry.solver].arrays(folder / "answer.npz")
        except SolverError as failed:
            found[entry]["note"] = str(failed)
            given_up.add(entry.solver)
            continue
        if first["seconds"] > LONG:
            seconds[entry].append(first["seconds"])
        if entry.work == SURFACE:
            reference = arrays if entry.solver == "msmtfl" else reference
            found[entry]["note"] = agreement(arrays, reference)
        found[entry] |= {"peak": first["peak"], **judged(case, arrays)}
        live.append(entry)
    for _ in range(rule.repeats):
        live = [entry for entry in live if not _enough(seconds[entry], rule)]
        for entry in live:
            try:
                seconds[entry].append(ask(entry)["seconds"])
            except SolverError as failed:
                found[entry]["note"] = str(failed)
    return [_row(case, entry, solvers[entry.solver], seconds[entry], found[entry]) for entry in entries]


def _enough(seconds: list[float], rule: Rule) -> bool:
    return sum(seconds) > (rule.budget if len(seconds) >= 3 else LONG)


def judged(case: Case, arrays: dict[str, np.ndarray]) -> dict:
    if "coefs" not in arrays:
        return {}
    coefs = arrays["coefs"]
    used = coefs.reshape(-1, *coefs.shape[-2:])[-1].any(axis=0)
    gap = case.worst_gap(arrays) if case.worst_gap is not None and len(coefs) == len(case.lams) else None
    return {"support": int(used.sum()), "gap": gap}


def agreement(theirs: dict[str, np.ndarray], ours: dict[str, np.ndarray] | None) -> str:
    """A loop may go another way where capped rows are a matter of rounding."""
    if ours is None or theirs is ours:
        return ""
    same = (theirs["capped"] == ours["capped"]).all(axis=-1)
    return f"capped rows as ours at {same.sum()} of {same.size} points"


def _row(case: Case, entry: Entry, solver: Solver, seconds: list[float], found: dict) -> Row:
    problem = case.problem
    return Row(
        problem=problem.name,
        data=problem.data,
        shape=problem.shape,
        work=entry.work,
        solver=entry.solver,
        setting=entry.setting,
        threads=entry.threads,
        seconds=min(seconds, default=None),
        median=statistics.median(seconds) if seconds else None,
        runs=len(seconds),
        gap=found.get("gap"),
        support=found.get("support"),
        peak=found.get("peak"),
        x_bytes=problem.bytes,
        version=solver.version,
        note=found.get("note", ""),
    )


def fresh_rows(own: Solver, repeats: int) -> list[Row]:
    """Import beyond scikit-learn's own, and the first fit of the paper's problem beyond import, in fresh processes.

    An editable install looks for changes at every import: `make bench` has a plain one.
    """
    code = (
        "import time, sys, numpy as np; stored = np.load(sys.argv[1]); X, y, task = (stored[k] for k in ('X', 'y', 'task'));"
        "import sklearn.linear_model, sklearn.model_selection; t0 = time.perf_counter(); import msmtfl;"
        "t1 = time.perf_counter(); msmtfl.MSMTFL().fit(X, y, task=task); print(t1 - t0, time.perf_counter() - t1)"
    )
    problem, times = PROBLEMS["paper"](), []
    with tempfile.TemporaryDirectory() as folder:
        file = problem.write(Path(folder) / "paper.npz", problem.lams)
        for _ in range(repeats):
            command = [sys.executable, "-c", code, file]
            out = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **ONE_THREAD})
            times.append([float(number) for number in out.stdout.split()])
    case, found = Case(problem, problem.lams, []), {"note": "fresh process"}
    works = zip((IMPORT, FIRST_FIT), np.transpose(times).tolist())
    return [_row(case, Entry("msmtfl", work, {}), own, seconds, found) for work, seconds in works]


def machine() -> dict[str, str]:
    """What the figures were taken on; no names of hosts or folders."""
    cpu, memory = platform.processor() or platform.machine(), ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), cpu)
        kilobytes = Path("/proc/meminfo").read_text().splitlines()[0].split()[1]
        memory = f"{int(kilobytes) / 2**20:.0f} GiB"
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    return {
        "CPU": f"{cpu}, {os.cpu_count()} cores",
        "memory": memory,
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": f"{platform.python_version()}, {versions}",
        "load before the run": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "",
    }


def start(names: list[str], pythons: dict[str, str]) -> tuple[dict[str, Solver], list[str]]:
    """Those that are installed, and notes on the others."""
    pythons = {name: python for name, python in pythons.items() if shutil.which(python)}
    solvers, notes = {}, []
    for solver in [Solver(name, pythons.get(name, sys.executable)) for name in names]:
        try:
            _ = solver.version
            solvers[solver.name] = solver
        except SolverError as error:
            solver.close()
            notes.append(f"{solver.name} skipped: {error}.")
    return solvers, notes


def warm_up(solvers: dict[str, Solver], warm: dict[str, int], folder: Path) -> None:
    """Everything once on tiny problems, for processes that are new: what a first call compiles or loads is not counted."""
    new = {name: solver for name, solver in solvers.items() if warm.get(name) != solver.process.pid}
    for case in cases("tiny", list(WORKS)) if new else ():
        measure(case, new, Rule(0, 0.0, 300.0), folder)
    warm |= {name: solver.process.pid for name, solver in new.items()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=["quick", "full", "tiny"], default="quick")
    parser.add_argument("--only", nargs="+", choices=WORKS, default=list(WORKS), metavar="WORK", help=", ".join(WORKS))
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), metavar="PROBLEM", help=", ".join(PATHS))
    parser.add_argument(
        "--solvers", nargs="+", choices=SOLVERS, default=SOLVERS, metavar="SOLVER", help=", ".join(SOLVERS)
    )
    parser.add_argument("--python", action="append", default=[], metavar="SOLVER=PYTHON")
    parser.add_argument("--repeats", type=int, help="rounds (7; full: 15)")
    parser.add_argument("--budget", type=float, help="seconds an entry may use (1; full: 10)")
    parser.add_argument("--limit", type=float, help="seconds a run may take (5; full: 120)")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results", help="folder of rows, table and plots")
    options = parser.parse_args(arguments)
    usual = Rule(15, 10.0, 120.0) if options.size == "full" else Rule(7, 1.0, 5.0)
    rule = Rule(options.repeats or usual.repeats, options.budget or usual.budget, options.limit or usual.limit)
    pythons = dict(pair.split("=", 1) for pair in options.python)
    options.out.mkdir(parents=True, exist_ok=True)
    about, rows, began = machine(), [], time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        solvers, notes = start(options.solvers, pythons)
        for note in notes:
            print(note, file=sys.stderr)
        warm: dict[str, int] = {}
        for case in cases(options.size, options.only, options.problems):
            if options.size != "tiny":
                warm_up(solvers, warm, Path(place))
            rows += measure(case, solvers, rule, Path(place))
            write_rows(rows, options.out / "rows.csv")
            passed = time.perf_counter() - began
            print(f"{passed:5.0f} s  {case.entries[0].work}: {case.problem.name}", file=sys.stderr)
        if "start" in options.only and "msmtfl" in solvers:
            rows += fresh_rows(solvers["msmtfl"], rule.repeats)
            write_rows(rows, options.out / "rows.csv")
        for solver in solvers.values():
            solver.close()
    passed, used = time.perf_counter() - began, sum(os.times()[:4])
    about["run"] = (
        f"{options.size}, {passed / 60:.1f} minutes, {used / 60:.1f} of them on a core"  # less: others were busy
    )
    about["notes"] = " ".join(notes)
    (options.out / "machine.json").write_text(json.dumps(about, indent=1) + "\n")
    report.write(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
