"""Work on threads: the kernel and BLAS release the interpreter lock, so tasks and points of a grid run side by side.

Threads that stay, instead of joblib's, which look for results every 10 ms only: most solves are shorter than that. The
calling thread does its share, so that n_jobs threads are n_jobs - 1 helpers. n_jobs is counted as joblib does.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from itertools import count as count_up
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs

Item = TypeVar("Item")
_here = threading.local()
PATIENCE = 0.1  # seconds after which a waiting thread looks for Ctrl-C, even where a signal does not wake it


class _Helpers:
    """Threads that do what they are asked, in turn. Of nothing but `SimpleQueue`: Ctrl-C may come at any line of Python, and
    would leave the locks of an executor and its futures closed."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.asked: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.threads: list[threading.Thread] = []

    def ask(self, job: Callable[[], None], count: int) -> None:
        """Have so many of them do a job, which must not raise; in the context (errstate of numpy ...) of the caller."""
        for place in range(len(self.threads), count):
            thread = threading.Thread(target=_obey, args=(self.asked,), name=f"msmtfl_{place}", daemon=True)
            thread.start()
            self.threads.append(thread)
        for _ in range(count):
            context = copy_context()
            self.asked.put(lambda context=context: context.run(job))  # type: ignore[misc]


def _obey(asked: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        asked.get()()


_helpers = _Helpers()


def _forked() -> None:
    _helpers.begin()  # a forked process has no threads
    _here.working, _here.crew = False, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def count(n_jobs: int | None) -> int:
    """The number of threads that n_jobs asks for, as joblib counts (None is 1, -1 all cores); 1 within a call of `each`."""
    return 1 if n_jobs is None or getattr(_here, "working", False) else int(effective_n_jobs(n_jobs))


def shares(n: int, n_jobs: int | None) -> list[slice]:
    """n items cut into one piece per thread."""
    if n_jobs in (None, 1):
        return [slice(0, n)]
    ends = np.linspace(0, n, min(count(n_jobs), max(n, 1)) + 1).astype(int)
    return [slice(int(low), int(high)) for low, high in pairwise(ends)]


class _Crew:
    """The threads of one call of `each`, which help each other where asked to: who finds no item left does what calls of
    `each` within the items of others have offered."""

    def __init__(self, size: int, errors: deque[BaseException]):
        self.size, self.errors = size, errors
        self.offers: SimpleQueue[_Offer] = SimpleQueue()

    def help_until(self, done: Callable[[], bool]) -> None:
        while not (done() or self.errors):
            with suppress(Empty):
                self.offers.get(timeout=PATIENCE)()


class _Offer:
    """Work that others may take part in, until it is withdrawn."""

    def __init__(self, job: Callable[[], None]):
        self.job: Callable[[], None] | None = job

    def __call__(self) -> None:
        job = self.job
        if job is not None:
            job()


def interrupted() -> bool:
    """Whether the work that this thread does a part of has failed elsewhere, or was interrupted: what it makes is of no use
    any more."""
    crew = getattr(_here, "crew", None)
    return crew is not None and bool(crew.errors)


def each(
    call: Callable[[Item], Any],
    items: Sequence[Item],
    n_jobs: int | None = None,
    stop: Callable[[], None] | None = None,
    share: bool = False,
) -> list[Any]:
    """[call(item) for item in items], on threads if asked to; a call that calls `each` again gets no threads of its own.
    With `share` it gets those that have nothing left to do, if it asks for threads.

    The first error is raised (before it Ctrl-C, and what else is no Exception) once the calls under way have ended; those
    not begun are dropped. `stop` is called at once to hurry them.
    """
    crew: _Crew | None = getattr(_here, "crew", None)
    within = crew is not None and n_jobs is not None
    workers = min(crew.size if within and crew is not None else count(n_jobs), len(items))
    if workers < 2:
        return [call(item) for item in items]
    out: list[Any] = [None] * len(items)
    places, errors = count_up(), deque[BaseException]()
    begun, ended, news = deque[None](), deque[None](), SimpleQueue[None]()
    finished = deque[None]()
    if not within:
        crew = _Crew(workers, errors) if share else None

    def failed(error: BaseException) -> None:
        errors.append(error)
        if stop is not None:
            stop()

    def work() -> None:
        before = getattr(_here, "working", False), getattr(_here, "crew", None)
        _here.working, _here.crew = True, crew
        try:
            while not errors and (place := next(places)) < len(items):
                out[place] = call(items[place])
                finished.append(None)
            if crew is not None and not within:
                crew.help_until(lambda: len(finished) == len(items))
        except BaseException as error:
            failed(error)
        finally:
            _here.working, _here.crew = before

    def help_out() -> None:
        begun.append(None)
        try:
            work()
        finally:
            ended.append(None)
            news.put(None)

    offers = [_Offer(help_out) for _ in range(workers - 1)] if within else []
    try:
        if within and crew is not None:
            for offer in offers:
                crew.offers.put(offer)
        else:
            _helpers.ask(help_out, workers - 1)
        work()
    except BaseException as error:
        failed(error)
    while True:
        try:
            for offer in offers:
                offer.job = None
            while len(ended) < len(begun):  # who begins later finds no place left, or an error, and does nothing
                with suppress(Empty):
                    news.get(timeout=PATIENCE)
            break
        except BaseException as error:  # Ctrl-C, or what the handler of another signal raises
            failed(error)
    if errors:
        raise next((error for error in errors if not isinstance(error, Exception)), errors[0])
    return out


def each_or_together(call: Callable[..., Any], items: Sequence[Item], n_jobs: int | None = None) -> list[Any]:
    """The same for calls that can use threads themselves: those of the last items, too few to keep all threads busy with one
    each, are made one after the other, as call(item, n_jobs)."""
    alone = len(items) - len(items) % count(n_jobs)
    return each(call, items[:alone], n_jobs) + [call(item, n_jobs) for item in items[alone:]]
