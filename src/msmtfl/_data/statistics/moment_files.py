"""Files of statistics: a zip archive of a head, the names of the features, and one array per sum, (m, ...) over the tasks.

What is read is believed only as far as rows can have such sums: whoever fits from a file has nothing else to go by.
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..._runtime.archives import array_bytes, open_file, pack, read_array, unpack
from ..designs import Floats
from ..tables import missing_values
from .task_moments import Sums, TaskMoments, impossible, too_many

FORMAT, VERSION = "msmtfl-moments", 1
FORMS = ("single", "long", "wide")
CUT_OFF = 1e-6  # digits that rounding cut off a mean are less than this share of it, or of the spread


def shapes(m: int, d: int) -> dict[str, tuple[int, ...]]:
    """Those of the arrays."""
    out: dict[str, tuple[int, ...]] = {"rows": (m,), "n": (m,), "mean": (m, d), "y_mean": (m,), "low": (m, d + 1)}
    return out | {"xx": (m, d, d), "xy": (m, d), "yy": (m,)}


def to_bytes(head: Mapping[str, Any], features: np.ndarray, tasks: Mapping[Hashable, TaskMoments]) -> bytes:
    """A file."""
    head = {"format": FORMAT, "version": VERSION, "tasks": [plain(label) for label in tasks], **head}
    arrays = {"features": features.astype(str), "head": np.array(json.dumps(head))}
    for name, shape in shapes(len(tasks), len(features)).items():
        kind = np.int64 if name == "rows" else np.float64
        arrays[name] = np.array([getattr(task, name) for task in tasks.values()], dtype=kind).reshape(shape)
    return pack({f"{name}.npy": array_bytes(values) for name, values in arrays.items()})


def plain(label: object) -> str | int | float | bool:
    value = label.item() if isinstance(label, np.generic) else label
    if not isinstance(value, str | int | float | bool):
        raise TypeError(f"task label {label!r} cannot be stored: use text or numbers.")
    return value


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], np.ndarray, dict[Hashable, TaskMoments]]:
    """Head, names of features, and tasks of a file, checked. Whatever is wrong with it is a ValueError that says what."""
    try:
        with open_file(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            members = unpack(file, size)
        return _checked(members)
    except (ValueError, RecursionError, MemoryError) as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise ValueError(f"{os.fspath(path)} is not a file of Moments, or is damaged: {reason}.") from error


def _checked(members: dict[str, bytes]) -> tuple[dict[str, Any], np.ndarray, dict[Hashable, TaskMoments]]:
    head = _head(members)
    features = _array(members, "features", "U")
    _need(features.ndim == 1 and len(features) > 0, "it has no features")
    _need(len(set(features.tolist())) == len(features), "a feature occurs twice")
    arrays = {}
    for name, shape in shapes(len(head["tasks"]), len(features)).items():
        arrays[name] = _array(members, name, "iu" if name == "rows" else "f")
        found = arrays[name].shape
        _need(found == shape, f"{name} has shape {list(found)}, but {list(shape)} is expected")
        _need(bool(np.isfinite(arrays[name]).all()), f"{name} is not finite")
    _need(not members, f"it holds what is none of its arrays: {', '.join(map(repr, sorted(members)[:3]))}")
    tasks = {}
    for i, label in enumerate(head["tasks"]):
        tasks[label] = _task({name: values[i] for name, values in arrays.items()})
        wrong = _impossible(tasks[label], features.tolist())
        _need(wrong is None, f"task {label!r}: {wrong}; no rows have such sums")
    return head, features.astype(object), tasks


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(f"{message}.")


def _array(members: dict[str, bytes], name: str, kinds: str) -> np.ndarray:
    data = members.pop(f"{name}.npy", None)
    if data is None:
        raise ValueError(f"it has no {name}.")
    try:
        values = read_array(data)
    except ValueError as error:
        raise ValueError(f"{name} {error}.") from error
    _need(
        values.dtype.kind in kinds and (kinds != "f" or values.dtype == np.float64), f"{name} is of type {values.dtype}"
    )
    return values


def _head(members: dict[str, bytes]) -> dict[str, Any]:
    text = _array(members, "head", "U")
    _need(text.ndim == 0, "the head is no text")
    try:
        head: dict[str, Any] = json.loads(str(text))
    except ValueError as error:
        raise ValueError(f"the head is no JSON ({error}).") from error
    _need(isinstance(head, dict) and "format" in head, "the head does not say what this is")
    _need(head["format"] == FORMAT, f"its format is {head['format']!r}")
    version = head.get("version")
    _need(
        version == VERSION and type(version) is int,
        f"version {version!r}; this msmtfl reads {VERSION}. Install a newer one",
    )
    _need(head.get("form") in FORMS, f"its form is {head.get('form')!r}")
    _need(type(head.get("named")) is bool, "the head does not say whether features have names")
    for name in ("tasks", "seen", "categories"):
        _need(_are_labels(head.get(name)) or (name == "categories" and head.get(name) is None), f"{name} are no labels")
    _need(head["form"] != "single" or len(head["tasks"]) <= 1, "it has several tasks, but no labels")
    return head


def _are_labels(values: object) -> bool:
    """Whether this is a list of labels, each once."""
    if not isinstance(values, list) or not all(isinstance(value, str | int | float | bool) for value in values):
        return False
    return len(set(values)) == len(values) and not missing_values(np.array([*values, None], dtype=object))[:-1].any()


def _task(values: Mapping[str, Any]) -> TaskMoments:
    scalars: dict[str, Any] = {name: float(values[name]) for name in ("n", "y_mean", "yy")}
    return TaskMoments(**{**values, **scalars, "rows": int(values["rows"])})


def _impossible(task: TaskMoments, features: Sequence[str]) -> str | None:
    """What is wrong with the sums of a task; None if rows can have such."""
    names = [*(f"column {name!r}" for name in features), "the target"]
    if task.rows < 1 or task.n <= 0.0:
        return f"it has {task.rows} rows of total weight {task.n:g}"
    with np.errstate(over="ignore"):
        large = np.flatnonzero(~np.isfinite(task.n * np.append(task.mean, task.y_mean) ** 2))
    if large.size:
        return f"the mean of {names[large[0]]} is too large: its square overflows"
    sums = Sums(task)
    negative = np.flatnonzero(sums.matrix.diagonal() < -(sums.size**2) * 1e-9)
    if negative.size:
        return f"{names[negative[0]]} has a negative sum of squares"
    left = sums.left(task)
    uneven = np.argwhere(np.abs(left - left.T) > 1e-9)
    if uneven.size:
        return f"the sums of products of {names[uneven[0][0]]} and {names[uneven[0][1]]} differ with their order"
    odd = impossible(left)
    if odd is not None:
        return f"{names[odd]} has sums of products that are too large for its sum of squares"
    if too_many(left, task.rows):
        return f"{task.rows} row(s) cannot vary in so many directions"
    spread = np.sqrt(np.maximum(sums.matrix.diagonal(), 0.0) / task.n)
    far = np.flatnonzero(_far(task.low, sums.mean, spread))
    return f"the mean of {names[far[0]]} has a correction that is no rounding" if far.size else None


def _far(low: Floats, mean: Floats, spread: Floats) -> np.ndarray:
    return np.abs(low) > CUT_OFF * (np.abs(mean) + spread)
