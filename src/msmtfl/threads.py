"""Work on threads: the kernel and BLAS release the interpreter lock, so tasks and cells of a grid run side by side.

A standing pool of the standard library's instead of joblib's threads, which look for results every 10 ms only: most
solves are shorter than that. n_jobs is counted as joblib does.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from itertools import count as count_up
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs

Item = TypeVar("Item")
_here = threading.local()
PATIENCE = 0.1  # seconds after which a waiting thread looks for Ctrl-C, even where a signal does not wake it


@lru_cache(maxsize=4)
def _pool(workers: int) -> ThreadPoolExecutor:
    """Kept between calls: starting threads would cost more than a small solve."""
    return ThreadPoolExecutor(workers, thread_name_prefix="msmtfl")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process has no threads


def count(n_jobs: int | None) -> int:
    """The number of threads that n_jobs asks for, as joblib counts (None is 1, -1 all cores)."""
    return 1 if n_jobs is None else int(effective_n_jobs(n_jobs))


def shares(n: int, n_jobs: int | None) -> list[slice]:
    """n items cut into one piece per thread."""
    if n_jobs in (None, 1):
        return [slice(0, n)]
    ends = np.linspace(0, n, min(count(n_jobs), max(n, 1)) + 1).astype(int)
    return [slice(int(low), int(high)) for low, high in pairwise(ends)]


def each(
    call: Callable[[Item], Any],
    items: Sequence[Item],
    n_jobs: int | None = None,
    stop: Callable[[], None] | None = None,
) -> list[Any]:
    """[call(item) for item in items], on threads if asked to; a call that calls `each` again gets no threads of its own.

    The first error (or Ctrl-C) is raised once the calls under way have ended; those not begun are dropped. `stop` is called
    at once to hurry them.
    """
    workers = min(count(n_jobs), len(items))
    if workers < 2 or getattr(_here, "working", False):
        return [call(item) for item in items]
    out: list[Any] = [None] * len(items)
    turns, errors = count_up(), deque[BaseException]()

    def failed(error: BaseException) -> None:
        errors.append(error)
        if stop is not None:
            stop()

    def work() -> None:
        _here.working = True
        try:
            while not errors and (turn := next(turns)) < len(items):
                out[turn] = call(items[turn])
        except BaseException as error:
            failed(error)
        finally:
            _here.working = False

    others: list[Future[None]] = []
    try:
        for _ in range(workers - 1):
            others.append(_pool(workers - 1).submit(work))  # noqa: PERF401 - all of them known if interrupted
        work()  # the calling thread does its share: it begins at once, and what it does last need not wake it
    except BaseException as error:
        failed(error)
    left = {other for other in others if not other.cancel()}
    while left:
        try:
            left = wait(left, PATIENCE).not_done
        except KeyboardInterrupt as error:
            failed(error)
    if errors:
        raise errors[0]
    return out
