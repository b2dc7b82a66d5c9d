"""A process per solver, pinned to one thread before numpy is imported there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)


class SolverError(RuntimeError):
    """What a solver could not do, in a few words."""


class Solver:
    """A worker process (`worker.py`), started at once; `version` waits for it."""

    def __init__(self, name: str, python: str = sys.executable):
        self.name, self.python = name, python
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            [self.python, str(HERE / "worker.py"), self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # so that it ends with what it started (R)
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(HERE)},
        )
        self._first: dict | None = None

    @property
    def version(self) -> str:
        """SolverError where the solver is not to be had."""
        if self._first is None:
            line = self.process.stdout.readline()
            self._first = json.loads(line) if line else {"error": f"{self.python} does not run"}
        if "error" in self._first:
            raise SolverError(self._first["error"])
        return self._first["version"]

    def ask(self, limit: float = 3600.0, **command) -> dict:
        """Its answer. Beyond `limit` seconds the process is ended and begun anew, without data."""
        _ = self.version  # it has begun
        clock = threading.Timer(limit, self._kill)
        clock.start()
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            clock.cancel()
        if not line:
            self.close()
            self._start()
            raise SolverError(f"> {limit:g} s")
        answer = json.loads(line)
        if "error" in answer:
            raise SolverError(answer["error"])
        return answer

    def arrays(self, file: Path) -> dict[str, np.ndarray]:
        """Those of the last job, by way of a file."""
        self.ask(save=str(file))
        with np.load(file) as stored:
            return dict(stored)

    def _kill(self) -> None:
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()

    def close(self) -> None:
        self._kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
