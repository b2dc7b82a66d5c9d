"""Groups of features as a user gives them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..._data.categories import Encoding
from ..._data.designs import AnyData, Ints
from ..._data.tables import choices_of
from ..._objective.coupled.groups import Groups, groups_named
from ..._objective.problem import Problem


def read_feature_groups(given: Any, data: AnyData) -> Groups | None:
    """feature_groups=, a mapping {name: columns} or a group's name for every column, as groups. A categorical column is one
    in any case. None where all have one column, which are no groups, and for False."""
    encoding = getattr(data, "encoding", None)
    if given is False or (given is None and encoding is None):
        return None
    if given is None and encoding is not None:
        groups = groups_named(encoding.variables)
    else:
        groups = _from_mapping(given, data) if hasattr(given, "keys") else _from_names(given, data)
    if encoding is not None:
        groups = replace(groups, one_hot=tuple(_one_hot(at, encoding) for at in groups.members))
    return None if groups.count == data.d else groups


def _one_hot(features: Ints, encoding: Encoding) -> bool:
    """Whether the features of a group are all levels of one categorical column."""
    names = {encoding.variables[j] for j in features.tolist()}
    name = names.pop()
    return not names and len(encoding.levels.get(name, ())) == len(features)


def refuse_entries(problem: Problem) -> None:
    """An error where single entries are to be penalised beside groups."""
    if problem.groups is not None:
        raise ValueError(
            "a penalty on single coefficients (lam_entry, entry_shares) would let the columns of a group go apart: with "
            "groups of features leave it out (lam_entry=0, entry_shares=0)."
        )


def _from_names(given: Any, data: AnyData) -> Groups:
    names = [str(name) for name in given] if not isinstance(given, (str, bytes)) and hasattr(given, "__len__") else None
    encoding = getattr(data, "encoding", None)
    if names is not None and encoding is not None and len(names) == len(encoding.columns):
        names = encoding.spread(np.array(names, dtype=object)).tolist()
    if names is None or len(names) != data.d:
        raise ValueError(
            f"feature_groups must be a mapping {{name: columns}} or the name of a group for each of the {data.d} features; "
            f"got {'a ' + type(given).__name__ if names is None else f'{len(names)} names'}."
        )
    return groups_named(names)


def _from_mapping(given: Any, data: AnyData) -> Groups:
    features = [str(name) for name in data.features.tolist()]
    encoding = getattr(data, "encoding", None)
    variables = features if encoding is None else encoding.variables
    place = {name: [j] for j, name in enumerate(features)}
    place |= {name: [j for j, one in enumerate(variables) if one == name] for name in dict.fromkeys(variables)}
    names: list[str | None] = [None] * data.d
    for group in given:
        columns = given[group]
        columns = [columns] if isinstance(columns, (str, bytes)) or not hasattr(columns, "__iter__") else list(columns)
        if not columns:
            raise ValueError(f"group {group!r} of feature_groups has no columns. Leave it out.")
        for column in columns:
            found = place.get(str(column))
            if found is None and isinstance(column, (int, np.integer)) and -data.d <= column < data.d:
                found = [int(column) % data.d]
            if found is None:
                raise ValueError(
                    f"group {group!r} of feature_groups names column {column!r}, which X does not have. Its features are "
                    f"{choices_of(column, features)}."
                )
            taken = next((j for j in found if names[j] is not None), None)
            if taken is not None:
                raise ValueError(
                    f"column {features[taken]!r} is in two groups of feature_groups, {names[taken]!r} and {str(group)!r}. A "
                    "column can belong to one group only."
                )
            for j in found:
                names[j] = str(group)
    lacking = [variables[j] for j, name in enumerate(names) if name is None]
    clash = [name for name in lacking if name in set(names)]
    if clash:
        raise ValueError(
            f"feature_groups has a group {clash[0]!r} without the column of that name, which would be a group by itself. "
            "Give the group another name, or put the column into it."
        )
    return groups_named([feature if name is None else name for name, feature in zip(names, variables, strict=True)])
