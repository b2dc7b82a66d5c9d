"""What is said of single columns: bounds of their coefficients, and which of them belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._data.tables import choices_of
from ..options import listed
from .data import Columns, InputError

BOUNDS = (
    "--bounds is LOW:HIGH for all columns, or COL=LOW:HIGH,COL=LOW:HIGH for some; an end that is left out has no bound "
    "(0: is at least 0)"
)


def said_of_columns(
    estimator: Any,
    columns: Columns,
    *,
    positive: bool,
    bounds: str | None,
    groups: Sequence[str],
    one_hot_groups: bool,
) -> dict[str, Any]:
    """The parameters of an estimator that options are about."""
    if one_hot_groups and not columns.levels:
        raise InputError(
            "--one-hot-groups: --one-hot has not encoded any column. Give --one-hot, with columns of text; columns of "
            "numbers are put together with --groups."
        )
    out: dict[str, Any] = {}
    if positive or bounds is not None:
        out["bounds"] = _bounds(columns, positive, bounds)
    found = _groups(columns, groups, one_hot_groups)
    if found:
        out["feature_groups"] = found
    known = estimator._get_param_names()
    options = {"bounds": "--positive and --bounds", "feature_groups": "--groups and --one-hot-groups"}
    for name in out:
        if name not in known:
            raise InputError(f"{options[name]}: not for {type(estimator).__name__}.")
    return out


def _places(columns: Columns) -> dict[str, list[int]]:
    """The features of every column of the table, and every feature by itself."""
    out = {name: [j] for j, name in enumerate(columns.expanded)}
    start = 0
    for name in columns.features:
        count = len(columns.levels.get(name, [name]))
        out[name] = list(range(start, start + count))
        start += count
    return out


def _found(option: str, name: str, places: dict[str, list[int]]) -> list[int]:
    if name not in places:
        raise InputError(f"{option}: {name!r} is not a feature. Features: {choices_of(name, places)}.")
    return places[name]


def _bounds(columns: Columns, positive: bool, text: str | None) -> Any:
    d, places = len(columns.expanded), _places(columns)
    low, high = np.full(d, 0.0 if positive else -np.inf), np.full(d, np.inf)
    for one in listed(text):
        name, sign, ends = one.rpartition("=")
        if ends.count(":") != 1:
            raise InputError(f"{BOUNDS}; got {one!r}.")
        at = _found("--bounds", name, places) if sign else list(range(d))
        for end, of_features in zip(ends.split(":"), (low, high), strict=True):
            if end.strip():
                of_features[at] = _number(end, one)
    if positive and (low < 0.0).any():
        raise InputError(
            "--positive and --bounds: a lower bound below 0 contradicts --positive. Leave one of them out."
        )
    return (float(low[0]), float(high[0])) if len(set(low)) == len(set(high)) == 1 else (low, high)


def _number(text: str, one: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{BOUNDS}; {text.strip()!r} in {one!r} is no number.") from None


def _groups(columns: Columns, texts: Sequence[str], one_hot_groups: bool) -> dict[str, list[str]]:
    names, places = columns.expanded, _places(columns)
    out = {name: [names[j] for j in places[name]] for name in columns.levels} if one_hot_groups else {}
    for text in texts:
        name, sign, members = text.partition("=")
        if not sign or not name.strip() or not listed(members):
            raise InputError(f"--groups is NAME=COL,COL, once for every group; got {text!r}.")
        if name.strip() in out and name.strip() not in columns.levels:
            raise InputError(f"--groups: there are two groups {name.strip()!r}. Give them different names.")
        found: list[str] = []
        for one in listed(members):
            found += [names[j] for j in _found("--groups", one, places)]
            if one in columns.levels:
                out.pop(one, None)  # within the larger group
        out[name.strip()] = found
    return out
