"""From what stands in a document to values, each checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._data.tables import names_of
from .._objective.shapes import SHAPES, describe_shape, made_shape
from .._runtime.archives import read_array
from .layout import ENTRIES, SPECIAL, WIDE, Node, Shape


def need(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(f"{message}.")


def typed(value: Any, kind: type, where: str) -> Any:
    """A value of a type; whole numbers are floats, too, but true and false are no numbers."""
    if kind is float and type(value) is int:
        value = float(value)
    need(type(value) is kind, f"{where} is not of type {kind.__name__}")
    return value


def parts_of(node: Node, keys: Sequence[str], where: str) -> list[Node]:
    """What stands under the keys of an object that must have these."""
    missing = [key for key in keys if key not in typed(node, dict, where)]
    need(not missing, f"{where} lacks {names_of(missing)}")
    return [node[key] for key in keys]


def sizes_of(node: Node, where: str) -> Shape:
    whole = isinstance(node, list) and all(type(size) is int and size >= 0 for size in node)
    need(whole and len(node) <= 8, f"{where}: the shape is not a list of sizes")
    return tuple(node)


def is_list(values: Any, kinds: str) -> bool:
    """Whether a value is a 1-D array of these kinds."""
    return isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in kinds


def are_texts(nodes: list[Node]) -> bool:
    return all(isinstance(node, str) for node in nodes)


def are_names(values: Any) -> bool:
    return is_list(values, "UO") and are_texts(values.tolist())


class Reader:
    """Makes values of nodes. Every member is read once."""

    def __init__(self, members: dict[str, bytes]):
        self.members = members

    def value(self, node: Node, where: str) -> Any:
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        if isinstance(node, list):
            return [self.value(one, where) for one in node]
        need(len(node) == 1, f"{where}: an object that is a value has one key")
        ((kind, inner),) = node.items()
        if kind == "float":
            need(isinstance(inner, str) and inner in SPECIAL, f"{where}: {inner!r} is no float")
            return SPECIAL[inner]
        if kind == "tuple":
            return tuple(self.value(one, where) for one in typed(inner, list, where))
        if kind == "dict":
            return {key: self.value(one, f"{where}.{key}") for key, one in typed(inner, dict, where).items()}
        if kind == "cells":
            stacked = self.value(inner, where)
            need(isinstance(stacked, np.ndarray) and stacked.ndim > 0, f"{where}: the cells are not an array")
            cells = np.empty(len(stacked), dtype=object)
            for k in range(len(stacked)):
                cells[k] = stacked[k]
            return cells
        if kind == "shape":
            return self._shape(inner, where)
        need(kind == "array", f"{where}: {kind!r} is no kind of value that may stand here")
        return self._array(inner, where)

    def _shape(self, node: Node, where: str) -> Any:
        (name,) = parts_of(node, ("name",), where)
        need(isinstance(name, str) and name in SHAPES, f"{where}: no shape {name!r}")
        kinds: dict[str, type] = dict.fromkeys(
            (key for key in describe_shape(SHAPES[name]) or () if key != "name"), float
        )
        need(set(node) == {"name", *kinds}, f"{where}: these are not the parameters of the shape {name!r}")
        return made_shape(name, **self.scalars(node, kinds, where))

    def scalars(self, node: Node, kinds: dict[str, type], where: str) -> dict[str, Any]:
        entries = zip(kinds.items(), parts_of(node, list(kinds), where), strict=True)
        return {key: typed(self.value(one, where), kind, f"{key} of {where}") for (key, kind), one in entries}

    def floats(self, node: Node, shape: Shape, where: str, *, finite: bool = True) -> Floats:
        """A float64 array of known shape, finite unless who asks will look; it may be sparse."""
        expected = f"but {list(shape)} is expected"
        if isinstance(node, dict) and list(node) == ["sparse"]:
            given, at, entries = parts_of(node["sparse"], ("shape", "at", "values"), where)
            need(sizes_of(given, where) == shape, f"{where} has shape {given}, {expected}")
            at, entries = self.value(at, where), self.value(entries, where)
            need(is_list(at, "iu") and is_list(entries, "f"), f"{where}: a sparse array is two lists of numbers")
            inside = not len(at) or bool(at[0] >= 0 and at[-1] < math.prod(shape) and (at[1:] > at[:-1]).all())
            need(inside and len(at) == len(entries), f"{where}: the places of a sparse array do not fit")
            need(not finite or bool(np.isfinite(entries).all()), f"{where} is not finite")
            out = np.zeros(math.prod(shape))
            out[at] = entries
            return out.reshape(shape)
        values = self.value(node, where)
        need(isinstance(values, np.ndarray) and values.dtype == np.float64, f"{where} is not a float64 array")
        need(values.shape == shape, f"{where} has shape {list(values.shape)}, {expected}")
        need(not finite or bool(np.isfinite(values).all()), f"{where} is not finite")
        return values

    def _array(self, node: Node, where: str) -> np.ndarray:
        name, given = parts_of(node, ("dtype", "shape"), where)
        shape = sizes_of(given, where)
        need(isinstance(name, str) and name in (*ENTRIES, "str", "object"), f"{where}: unknown dtype {name!r}")
        if "member" in node:
            need(name in ENTRIES, f"{where}: an array of {name} cannot be a member")
            return self._member(node["member"], np.dtype(name), shape, where)
        entries = typed(parts_of(node, ("values",), where)[0], list, where)
        need(len(entries) == math.prod(shape), f"{where}: {len(entries)} values do not make the shape {given}")
        if name not in ENTRIES:
            return self._objects(entries, name, where).reshape(shape)
        types = set(map(type, entries))
        need(types <= ENTRIES[name], f"{where}: a value is not of dtype {name}")
        if str in types:
            need(all(type(one) is not str or one in SPECIAL for one in entries), f"{where}: a text is no number")
            entries = [SPECIAL[one] if type(one) is str else one for one in entries]
        return np.array(entries, dtype=name).reshape(shape)

    def _objects(self, entries: list[Node], name: str, where: str) -> np.ndarray:
        out = np.empty(len(entries), dtype=object)
        for k, entry in enumerate(entries):
            out[k] = self.value(entry, where)
            need(isinstance(out[k], (str, bool, int, float)), f"{where}: entry {k} is neither text nor a number")
        if name == "object":
            return out
        need(are_names(out), f"{where}: an entry is not text")
        need(len(out) * max(map(len, entries), default=0) <= WIDE, f"{where}: a text is too long")
        return out.astype(str)

    def _member(self, name: Node, dtype: np.dtype, shape: Shape, where: str) -> np.ndarray:
        need(isinstance(name, str) and name in self.members, f"{where}: member {name!r} is missing, or named twice")
        try:
            values = read_array(self.members.pop(name))
        except ValueError as error:
            raise ValueError(f"{where}: member {name!r} {error}.") from error
        same = values.shape == shape and values.dtype == dtype
        need(same, f"{where}: member {name!r} is not the array of {dtype}, {list(shape)}, of the document")
        return values
