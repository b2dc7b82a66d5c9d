"""What the benchmarks against peers share: a process per solver, problems written for it, arguments."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from problems import BenchProblem

HERE = Path(__file__).parent
ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)


class Solver:
    """A worker process."""

    def __init__(self, name: str, python: str = sys.executable):
        self.name = name
        self.process = subprocess.Popen(
            [python, str(HERE / "worker.py"), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(HERE)},
        )
        first = self.process.stdout.readline()
        self.version = json.loads(first)["version"] if first else None

    def ask(self, **command) -> dict:
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} stopped")
        return json.loads(line)

    def arrays(self, file: Path) -> dict[str, np.ndarray]:
        """Those of the last job, by way of a file."""
        self.ask(save=str(file))
        with np.load(file) as stored:
            return dict(stored)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def start(names: list[str], adelie: str) -> list[Solver]:
    """Those that are installed."""
    solvers = [Solver(name, adelie if name == "adelie" else sys.executable) for name in names]
    for solver in solvers:
        if solver.version is None:
            print(f"{solver.name}: not installed, skipped")
    return [solver for solver in solvers if solver.version is not None]


def versions(solvers: list[Solver]) -> str:
    names = ", ".join(f"{solver.name} {solver.version}" for solver in solvers)
    return f"{names}; {platform.processor() or platform.machine()}"


def write(problem: BenchProblem, file: Path) -> str:
    """A problem for the workers: tasks stacked, Fortran-ordered."""
    task = np.repeat(np.arange(len(problem.ys)), [len(y) for y in problem.ys])
    X = np.asfortranarray(np.concatenate(problem.Xs))
    np.savez(file, X=X, y=np.concatenate(problem.ys), task=task, lams=problem.lams)
    return str(file)


def arguments_of(doc: str, problems: Iterable[str], peers: Iterable[str], quick: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--only", nargs="*", choices=list(problems), metavar="PROBLEM", help="names of problems")
    parser.add_argument("--peers", nargs="*", choices=list(peers), default=list(peers), metavar="PEER")
    parser.add_argument("--adelie", default=sys.executable, metavar="PYTHON", help="an interpreter that has adelie")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    return parser
