"""What goes on around a fit: scikit-learn's callbacks (where the installed version has them) and BLAS threads."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import Lock
from typing import Any, Self, TypeVar

from threadpoolctl import ThreadpoolController

from .threads import interrupted

Method = TypeVar("Method", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # scikit-learn before 1.9: no callbacks, fits are silent

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def _with_callbacks(method: Any) -> Any:
        return method


def with_callbacks(fit: Method) -> Method:
    """Let a fit report to scikit-learn's callbacks, where there are such."""
    reporting: Method = _with_callbacks(fit)
    return reporting


FIRST_LINE, NEXT_LINE = 10.0, 30.0  # seconds, where there is no bar

__all__ = ["CallbackSupportMixin", "Listener", "Monitor", "Progress", "one_blas_thread", "with_callbacks"]


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread: parallelism is over tasks, and the bits do not depend on n_jobs.

    The limit is the whole process's: of fits that overlap the first sets it, and the last one lifts it.
    """
    with _limit.lock:
        _limit.inside += 1
        if _limit.inside == 1:
            _limit.held = _controller().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _limit.lock:
            _limit.inside -= 1
            if _limit.inside == 0:
                _limit.held.restore_original_limits()


class _Limit:
    """How many fits are under way, and what they hold."""

    lock, inside, held = Lock(), 0, None


_limit: Any = _Limit()


def _root_context(estimator: Any, parts: int) -> Any:
    """scikit-learn's callback context of a fit, begun; None if nobody listens."""
    if not (getattr(estimator, "_skl_callbacks", None) or hasattr(estimator, "_parent_callback_ctx")):
        return None
    root = estimator._init_callback_context(max_subtasks=parts)
    root.call_on_fit_task_begin(estimator=estimator)
    return root


class Listener:
    """Hears how far a run is; this one says nothing. `end_stage` may ask to stop by returning True."""

    def begin_stage(self) -> None: ...

    def task_done(self) -> None: ...

    def end_stage(self) -> bool:
        return False

    def end(self) -> None: ...


class Monitor(Listener):
    """Reports the stages of a fit, and the tasks of a stage, to the estimator's callbacks."""

    def __init__(self, estimator: Any, max_stages: int, m: int):
        self.estimator, self.m = estimator, m
        self.root = _root_context(estimator, max_stages)
        self.stage: Any = None

    def begin_stage(self) -> None:
        if self.root is not None:
            self.stage = self.root.subcontext(task_name="stage", max_subtasks=self.m)
            self.stage.call_on_fit_task_begin(estimator=self.estimator)

    def task_done(self) -> None:
        if self.stage is not None:
            task = self.stage.subcontext(task_name="task")
            task.call_on_fit_task_begin(estimator=self.estimator)
            task.call_on_fit_task_end(estimator=self.estimator)

    def end_stage(self) -> bool:
        """Whether a callback asks to stop."""
        return self.stage is not None and bool(self.stage.call_on_fit_task_end(estimator=self.estimator))

    def end(self) -> None:
        if self.root is not None:
            self.root.call_on_fit_task_end(estimator=self.estimator)


class Progress:
    """Long work in equal steps, for `with`: `step` (from any thread) moves on a bar on the standard error stream, if
    `verbose`, and tells the callbacks of the estimator that does the work, if there is one. Work within `part` of another
    moves that on, too. Where the stream is a file or a pipe there is a line now and then instead of a bar, and none for
    short work."""

    def __init__(self, total: int, what: str, verbose: bool, estimator: Any = None, width: int = 30):
        self.total, self.what, self.width, self.estimator = max(total, 1), what, width, estimator
        self.around = _around.get()
        self.root = _root_context(estimator, total)
        self.stream = sys.stderr if verbose else None
        self.redraws = self.stream is not None and _redraws(self.stream)
        self.done, self.shown, self.stopped = 0.0, float("-inf"), False
        self.lock = Lock()

    def __enter__(self) -> Self:
        self.began = time.monotonic()
        if not self.redraws:
            self.shown = self.began + FIRST_LINE - NEXT_LINE
        return self

    def stop(self) -> None:
        """Make the next step raise."""
        self.stopped = True

    def step(self, part: float = 1.0) -> None:
        """One step, or a part of one, is done."""
        if self.stopped or interrupted():
            raise RuntimeError("stopped: another thread has failed or was interrupted")
        if self.around is not None:
            self.around.step(part / self.total)
        with self.lock:
            before, self.done = int(self.done + 1e-9), self.done + part
            whole = int(self.done + 1e-9)
            for _ in range(whole - before if self.root is not None else 0):
                context = self.root.subcontext(task_name=self.what)
                context.call_on_fit_task_begin(estimator=self.estimator)
                context.call_on_fit_task_end(estimator=self.estimator)
            now = time.monotonic()
            if self.stream is not None and self.done > 0 and self._is_due(now, whole == self.total):
                self.shown = now
                self._show(now - self.began)

    def _is_due(self, now: float, ended: bool) -> bool:
        """Whether something is to be shown: ten times a second and at the end, or a line now and then."""
        if self.redraws:
            return ended or now - self.shown > 0.1
        return now - self.shown > NEXT_LINE or (ended and self.shown > self.began)

    def finish(self) -> None:
        """The steps that are left need not be made."""
        self.step(max(self.total - self.done, 0.0))

    def _show(self, seconds: float) -> None:
        assert self.stream is not None
        done, part = int(self.done + 1e-9), min((self.done + 1e-9) / self.total, 1.0)
        left = seconds / part * (1.0 - part)
        if not self.redraws:
            self.stream.write(f"{done}/{self.total} {self.what} after {seconds:.0f} s, {left:.0f} s to go\n")
            self.stream.flush()
            return
        full = int(self.width * part)
        line = f"{done}/{self.total} {self.what} [{'#' * full}{'.' * (self.width - full)}] {seconds:.1f} s"
        self.stream.write(f"\r{line}, {left:.1f} s to go  ")
        self.stream.flush()

    @contextmanager
    def part(self, size: float = 1.0) -> Iterator[None]:
        """Work that is so many steps; what it says of its own progress counts already."""
        of_this = _Part(self, size)
        token = _around.set(of_this)
        try:
            yield
        finally:
            _around.reset(token)
        of_this.step(1.0)

    def __exit__(self, *problem: object) -> None:
        self.stopped = True
        if self.root is not None:
            self.root.call_on_fit_task_end(estimator=self.estimator)
        if self.stream is not None and self.redraws:
            self.stream.write("\n")


def _redraws(stream: Any) -> bool:
    """Whether a line can be drawn over the one before: on a terminal, and in a notebook."""
    return stream.isatty() or "ipykernel" in sys.modules


class _Part:
    """A part of long work: how much of it has been counted."""

    def __init__(self, progress: Progress, size: float):
        self.progress, self.size, self.done, self.lock = progress, size, 0.0, Lock()

    def step(self, share: float) -> None:
        with self.lock:
            more = min(share, 1.0 - self.done)
            self.done += more
        if more > 0:
            self.progress.step(self.size * more)


_around: ContextVar[_Part | None] = ContextVar("around", default=None)
