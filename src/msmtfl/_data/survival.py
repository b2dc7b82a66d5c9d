"""Times until an event, as users give them as y: read as one number per sample (`event_times.py`). Forms that are read:

- a structured array with a field of booleans and one of times, as scikit-survival has it,
- two columns, of a table or an array: times, and events as booleans or 0 and 1,
- the numbers themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .designs import Floats
from .event_times import times_of
from .tables import Table, Targets, as_values, is_table, missing_values, native, refuse_dates

FORMS = (
    "Give y as two columns (time, event), as a structured array with a field of booleans (event) and one of times, or as "
    "times with a minus sign where the event was not observed."
)


def read_survival(y: Targets | None) -> Floats:
    """(N,): times, with a minus sign where they are censored, of any accepted form."""
    if y is None:
        raise ValueError(f"a survival model needs y. {FORMS}")
    y = native(y)
    if is_table(y):
        given: Any = y
        time, event = _of_table(given)
    else:
        values = np.asarray(y) if getattr(getattr(y, "dtype", None), "names", None) else as_values(y, "y")
        if values.dtype.names:
            time, event = _of_fields(values)
        elif values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1):
            return _finite(_numbers(values.ravel(), "y"))
        elif values.ndim == 2 and values.shape[1] == 2:
            time, event = values[:, 0], values[:, 1]
        else:
            raise ValueError(f"y has shape {values.shape}. {FORMS}")
    return _signed(_numbers(time, "the times in y"), _events(event))


def _of_table(table: Table) -> tuple[np.ndarray, np.ndarray]:
    y: Any = table
    names = list(y.columns)
    if len(names) == 1:
        values = _finite(_numbers(as_values(y[names[0]], "y"), "y"))
        return times_of(values)
    if len(names) != 2:
        raise ValueError(f"y has {len(names)} columns: {', '.join(map(repr, names))}. {FORMS}")
    first, second = (as_values(y[name], "y") for name in names)
    return (second, first) if first.dtype.kind == "b" and second.dtype.kind != "b" else (first, second)


def _of_fields(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    names: tuple[str, ...] = values.dtype.names or ()
    events = [name for name in names if values[name].dtype.kind == "b"]
    if len(names) != 2 or len(events) != 1 or values.ndim != 1:
        raise ValueError(
            f"y is a structured array with the fields {', '.join(map(repr, names))}: exactly one must hold booleans "
            f"(whether the event was observed), and one other the times. {FORMS}"
        )
    other = next(name for name in names if name != events[0])
    return values[other], values[events[0]]


def _numbers(values: np.ndarray, what: str) -> Floats:
    refuse_dates(values, what)
    if values.dtype == object:
        values = np.where(missing_values(values), np.nan, values)
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be numbers: {error}. {FORMS}") from error


def _events(values: np.ndarray) -> np.ndarray:
    found = np.asarray(values, dtype=np.float64) if values.dtype.kind == "b" else _numbers(values, "the events in y")
    bad = np.flatnonzero(~((found == 0.0) | (found == 1.0)))
    if bad.size:
        raise ValueError(
            f"events must be booleans, or 0 (censored) and 1 (observed); row {bad[0]} of y holds {found[bad[0]]:g}. {FORMS}"
        )
    return np.asarray(found == 1.0)


def _finite(values: Floats) -> Floats:
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(f"times must be finite; row {bad[0]} of y holds {values[bad[0]]}. Drop such rows.")
    return values


def _signed(time: Floats, event: np.ndarray) -> Floats:
    _finite(time)
    bad = np.flatnonzero(time < 0.0)
    if bad.size:
        raise ValueError(f"times must be at least 0; row {bad[0]} of y holds {time[bad[0]]:g}.")
    return np.where(event, time, -time)
