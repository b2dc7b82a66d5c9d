"""Work in processes of their own: for jobs of seconds that spend them in Python, which one thread at a time can run.

The calling thread does its share, so that n_jobs processes are n_jobs - 1 workers, and waits for none of them to start.
What jobs work on goes to the workers once, large arrays as files that they map into memory. A worker ends as soon as the
pipe that it is asked through is closed: with `close`, and with whoever started it, however that ends. It then removes these
files, which whoever started it can no longer do if it was killed.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Self, TypeVar

import numpy as np

from .threads import each

try:
    import cloudpickle
except ImportError:  # joblib before 1.6 brings its own
    from joblib.externals import cloudpickle

LARGE = 2**20  # bytes of an array that is worth a file of its own
GLANCE = 0.05  # seconds between two looks whether a worker is still needed that has not started yet
PATIENCE = 2.0  # seconds that a worker without work is given to end by itself
BEGIN = "import sys; sys.path[:] = sys.argv[1:]; from msmtfl._runtime.processes import serve; serve()"

Item = TypeVar("Item")
Job = Callable[[Any], Any]  # of what the workers were given
Ask = Callable[[Job], Any]


class RemoteError(Exception):
    """The cause of an error that was raised in a worker: where it was raised, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Processes:
    """Workers for one piece of work after the other, for `with`. They are started by the first call of `each`."""

    def __init__(self, work: Any, count: int):
        self.work, self.count = work, count
        self.workers: list[_Worker] = []
        self.free: SimpleQueue[_Worker] = SimpleQueue()
        self.folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        for worker in self.workers:
            worker.close(at_once=problem[0] is not None)
        for worker in self.workers:
            worker.wait()
        self.workers = []
        if self.folder is not None:
            self.folder.cleanup()

    def start(self) -> bool:
        """Start the workers; False if what jobs work on cannot be sent to another process."""
        if self.workers or self.count < 2:
            return bool(self.workers)
        self.folder = tempfile.TemporaryDirectory(prefix="msmtfl_", ignore_cleanup_errors=True)
        given = Path(self.folder.name) / "work"
        try:
            with given.open("wb") as file:
                _Pickler(file, self.folder.name).dump(self.work)
        except (pickle.PicklingError, TypeError, AttributeError, OSError):
            return False
        for _ in range(self.count - 1):
            worker = _Worker(given)
            self.workers.append(worker)
            self.free.put(worker)
        return True

    def each(
        self,
        here: Callable[[Item], Any],
        apart: Callable[[Item, Ask], Any],
        items: Sequence[Item],
        stop: Callable[[], None],
    ) -> list[Any]:
        """What is made of all items, in their order: here(item) of those that the calling thread takes; of others, taken as
        soon as a worker is there, apart(item, ask), ask(job) being what that worker makes of a job. The first error ends all
        workers."""
        home, left, out = threading.get_ident(), deque(enumerate(items)), [None] * len(items)

        def take_all(make: Callable[[Item], Any]) -> None:
            while left:
                try:
                    place, item = left.popleft()
                except IndexError:  # another one was faster
                    return
                out[place] = make(item)

        def drive(_: int) -> None:
            if threading.get_ident() == home:
                take_all(here)
                return
            worker = self.free.get()
            try:
                while left and not worker.known.wait(GLANCE):
                    pass
                if left and worker.ready:
                    take_all(lambda item: apart(item, worker.ask))
            finally:
                self.free.put(worker)

        def end() -> None:
            left.clear()
            stop()
            for worker in self.workers:
                worker.close(at_once=True)

        each(drive, range(self.count), self.count, end)
        return out


class _Worker:
    """A process, seen from the one that has started it."""

    def __init__(self, given: Path):
        options: dict[str, Any] = {"process_group": 0}  # Ctrl-C is for who has started it
        if sys.platform == "win32":
            options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        command = [sys.executable, "-c", BEGIN, *sys.path]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        self.known, self.ready = threading.Event(), False  # whether it has started, or failed to
        threading.Thread(target=self._begin, args=(given,), daemon=True).start()

    def _begin(self, given: Path) -> None:
        try:
            self.ready = bool(self.ask(given))
        except Exception:  # then others do the work
            self.ready = False
        self.known.set()

    @property
    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        return self.process.stdin, self.process.stdout

    def _send(self, value: Any) -> None:
        asked, _ = self._pipes
        asked.write(cloudpickle.dumps(value))
        asked.flush()

    def ask(self, job: Job | Path) -> Any:
        """What it makes of a job, or whether it has read a file."""
        try:
            self._send(job)
            error, value = pickle.load(self._pipes[1])
        except (EOFError, OSError, ValueError, pickle.UnpicklingError) as problem:
            raise RuntimeError(
                "a process that worked on a part of this has ended before its time, perhaps for want of memory: use fewer "
                "jobs (n_jobs)."
            ) from problem
        if error is not None:
            raise error from RemoteError(value)
        return value

    def close(self, at_once: bool = False) -> None:
        """Let it end: at once, or as it listens."""
        if at_once or not self.known.is_set():
            self.process.kill()
            return
        try:
            self._pipes[0].close()
        except OSError:  # it has ended already
            self.process.kill()

    def wait(self) -> None:
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in self._pipes:
            try:
                pipe.close()
            except OSError:  # what was still to be written is of no use any more
                continue


class _Pickler(cloudpickle.Pickler):
    """Writes large arrays into files of their own."""

    def __init__(self, file: IO[bytes], folder: str):
        super().__init__(file)
        self.folder, self.count = folder, 0

    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray and value.nbytes >= LARGE and not value.dtype.hasobject:
            self.count += 1
            path = os.path.join(self.folder, f"{self.count}.npy")
            np.save(path, value)
            return _mapped, (path,)
        return super().reducer_override(value)


def _mapped(path: str) -> np.ndarray:
    return np.asarray(np.load(path, mmap_mode="r"))


# ------------------------------------------------------------------ in the worker


def serve() -> None:
    """Do what is asked for through the standard input; answers go where the standard output was."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what jobs print must not come among the answers
    asked: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, asked), daemon=True).start()
    given = asked.get()
    with given.open("rb") as file:
        work = pickle.load(file)
    answers.write(pickle.dumps((None, True)))
    while True:
        answers.flush()
        answers.write(_answer(asked.get(), work))


def _listen(stream: IO[bytes], asked: SimpleQueue[Any]) -> None:
    given: Path | None = None  # what is sent first
    while True:
        try:
            job = pickle.load(stream)
            given = job if given is None else given
            asked.put(job)
        except EOFError:
            if given is not None:
                shutil.rmtree(given.parent, ignore_errors=True)
            os._exit(0)  # nobody waits for what is under way
        except Exception as error:  # a job of what is not to be had here
            asked.put(partial(_fail, error))


def _fail(error: Exception, work: Any) -> None:
    raise error


def _answer(job: Job, work: Any) -> bytes:
    try:
        return bytes(cloudpickle.dumps((None, job(work))))
    except Exception as error:
        text = traceback.format_exc()
        try:
            answer = bytes(cloudpickle.dumps((error, text)))
            cloudpickle.loads(answer)  # some errors can be sent, but not received
            return answer
        except Exception:
            return bytes(cloudpickle.dumps((RuntimeError(f"{type(error).__name__}: {error}"), text)))
