"""What goes on around a fit: scikit-learn's callbacks (where the installed version has them) and BLAS threads."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

from .stages import Listener

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9: no callbacks, fits are silent

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method):
        return method


__all__ = ["CallbackSupportMixin", "Monitor", "one_blas_thread", "with_callbacks"]


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Hold BLAS to one thread: parallelism is over tasks, and the bits do not depend on n_jobs."""
    return _controller().limit(limits=1, user_api="blas")


class Monitor(Listener):
    """Reports the stages of a fit, and the tasks of a stage, to the estimator's callbacks."""

    def __init__(self, estimator: Any, max_stages: int, m: int):
        self.estimator, self.m = estimator, m
        self.root: Any = None
        self.stage: Any = None
        if getattr(estimator, "_skl_callbacks", None) or hasattr(estimator, "_parent_callback_ctx"):
            self.root = estimator._init_callback_context(max_subtasks=max_stages)
            self.root.call_on_fit_task_begin(estimator=estimator)

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
