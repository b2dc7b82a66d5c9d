"""Groups of features as a user gives them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.designs import AnyData
from .._data.tables import choices_of
from .._objective.groups import Groups, groups_named
from .._objective.problem import Problem


def read_feature_groups(given: Any, data: AnyData, bounded: bool) -> Groups | None:
    """feature_groups=, a mapping {name: columns} or a group's name for every column, as groups; None where all have one
    column, which are no groups."""
    if given is None:
        return None
    groups = _from_mapping(given, data) if hasattr(given, "keys") else _from_names(given, data)
    if groups.count == data.d:
        return None
    if bounded:
        raise ValueError(
            "feature_groups= and bounds of the coefficients (bounds= or positive=True) do not go together: which columns of "
            "a group are 0 would depend on their bounds. Leave out one of them."
        )
    return groups


def refuse_entries(problem: Problem) -> None:
    """An error where single entries are to be penalised beside groups."""
    if problem.groups is not None:
        raise ValueError(
            "a penalty on single coefficients (lam_entry, entry_shares) would let the columns of a group go apart: with "
            "groups of features leave it out (lam_entry=0, entry_shares=0)."
        )


def _from_names(given: Any, data: AnyData) -> Groups:
    names = [str(name) for name in given] if not isinstance(given, (str, bytes)) and hasattr(given, "__len__") else None
    if names is None or len(names) != data.d:
        raise ValueError(
            f"feature_groups must be a mapping {{name: columns}} or the name of a group for each of the {data.d} features; "
            f"got {'a ' + type(given).__name__ if names is None else f'{len(names)} names'}."
        )
    return groups_named(names)


def _from_mapping(given: Any, data: AnyData) -> Groups:
    features = [str(name) for name in data.features.tolist()]
    place = {name: j for j, name in enumerate(features)}
    names: list[str | None] = [None] * data.d
    for group in given:
        columns = given[group]
        columns = [columns] if isinstance(columns, (str, bytes)) or not hasattr(columns, "__iter__") else list(columns)
        if not columns:
            raise ValueError(f"group {group!r} of feature_groups has no columns. Leave it out.")
        for column in columns:
            j = place.get(str(column))
            if j is None and isinstance(column, (int, np.integer)) and -data.d <= column < data.d:
                j = int(column) % data.d
            if j is None:
                raise ValueError(
                    f"group {group!r} of feature_groups names column {column!r}, which X does not have. Its features are "
                    f"{choices_of(column, features)}."
                )
            if names[j] is not None:
                raise ValueError(
                    f"column {features[j]!r} is in two groups of feature_groups, {names[j]!r} and {str(group)!r}. A column "
                    "can belong to one group only."
                )
            names[j] = str(group)
    lacking = [features[j] for j, name in enumerate(names) if name is None]
    clash = [name for name in lacking if name in set(names)]
    if clash:
        raise ValueError(
            f"feature_groups has a group {clash[0]!r} without the column of that name, which would be a group by itself. "
            "Give the group another name, or put the column into it."
        )
    return groups_named([feature if name is None else name for name, feature in zip(names, features, strict=True)])
