"""How soon is Ctrl-C answered, at any moment of a search on threads, of one in processes, and of the command?

    python benchmarks/studies/interrupts.py [--only threads ...] [--times 10]

Every search is begun in a process of its own, which gets the signal at a random moment. The seconds are those until the
search has raised KeyboardInterrupt, and of the command those until it has ended. They are real time: on a busy machine
also that of other work. Signals of POSIX are needed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from msmtfl.datasets import make_multitask

SEARCHES = {  # which take some seconds at least
    "one thread": "msmtfl.SharedMTLCV(cv=20)",
    "threads": "msmtfl.MSMTFLCV(cv=40, lams=200, n_jobs=2)",
    "processes": "msmtfl.MultiTaskAuto(cv=20, n_jobs=2)",
}
KINDS = (*SEARCHES, "command")
SHAPE = {"m": 12, "n": 200, "d": 300}
CODE = """
import signal, sys, time, warnings
import numpy as np
import msmtfl
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may ignore it
warnings.simplefilter("ignore")
with np.load({file!r}) as data:
    X, y, task = data["X"], data["y"], data["task"]
try:
    model = {search}
    print("begun", flush=True)
    model.fit(X, y, task=task)
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
"""


def answered(kind: str, folder: Path, wait: float) -> float | None:
    """Seconds from a signal, `wait` seconds after the beginning, to the answer; None if there was nothing left to stop."""
    if kind == "command":
        options = ("--target", "y", "--task", "town", "--model", "auto", "--cv", "20", "--jobs", "2")
        command = [sys.executable, "-m", "msmtfl", "fit", str(folder / "data.csv"), *options]
        command += ["--out", str(folder / "m.msmtfl")]
    else:
        command = [sys.executable, "-c", CODE.format(file=str(folder / "data.npz"), search=SEARCHES[kind])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        if kind != "command" and running.stdout.readline() != "begun\n":
            raise SystemExit(f"{kind}: the search did not begin.")
        time.sleep(wait)
        if running.poll() is not None:
            return None
        began = time.monotonic()
        running.send_signal(signal.SIGINT)
        if kind == "command":
            return time.monotonic() - began if running.wait() == 130 else None
        said = running.stdout.read()
        return float(said) - began if said else None


def write(folder: Path) -> None:
    """The data, for the searches and for the command."""
    made = make_multitask(**SHAPE, sigma=0.5, random_state=0)
    np.savez(folder / "data.npz", X=made.X, y=made.y, task=made.task)
    names = [*(f"x{j}" for j in range(made.X.shape[1])), "y", "town"]
    table = np.column_stack([made.X, made.y, made.task])
    np.savetxt(folder / "data.csv", table, "%.4g", ",", header=",".join(names), comments="")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--times", type=int, default=10)
    given = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # children would ignore what is ignored here
    rng = np.random.default_rng(0)
    print("| in | signals | median, s | longest, s |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        for kind in given.only:
            waits = rng.uniform(0.1, 2.0, given.times) + (2.0 if kind == "command" else 0.0)  # it reads a table first
            times = [answered(kind, folder, wait) for wait in waits.tolist()]
            found = [seconds for seconds in times if seconds is not None]
            if found:
                print(f"| {kind} | {len(found)} | {np.median(found):.3f} | {max(found):.3f} |", flush=True)
            else:
                print(f"| {kind} | 0 | | |", flush=True)


if __name__ == "__main__":
    main()
