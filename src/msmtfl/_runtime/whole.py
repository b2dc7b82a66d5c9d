"""Methods that change an object wholly or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from sklearn.utils.metaestimators import available_if

Method = TypeVar("Method", bound=Callable[..., Any])


def available_where(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """For methods that an object has only where the check of it says so, or raises what is wrong (scikit-learn's
    `available_if`)."""
    decorate: Callable[[Method], Method] = available_if(check)
    return decorate


def whole_or_untouched(method: Method) -> Method:
    """If the method fails, by an error, a warning that is raised as one, or Ctrl-C, its object has the attributes that it
    had before. The method may replace these, but must not change what they hold in place."""

    @wraps(method)
    def guarded(self: Any, *args: Any, **options: Any) -> Any:
        before = vars(self).copy()
        try:
            return method(self, *args, **options)
        except BaseException:
            self.__dict__ = before
            raise

    guarded.leaves_whole = True  # type: ignore[attr-defined]
    return guarded  # type: ignore[return-value]


def guard_methods(cls: type, names: tuple[str, ...]) -> None:
    """Make those of a class's methods, its own and inherited ones, that have these names change objects wholly or not at
    all."""
    for name in names:
        method = getattr(cls, name, None)
        if method is not None and not getattr(method, "leaves_whole", False):
            setattr(cls, name, whole_or_untouched(method))
