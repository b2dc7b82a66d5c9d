"""From a fitted model to the document of its file."""

from __future__ import annotations

import json
import math
import platform
from datetime import UTC, datetime
from numbers import Integral
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.utils.validation import check_is_fitted

from .._data.designs import Floats
from .._data.tables import names_of
from .._estimators.fitted import choice_of, model_chosen
from .._objective.proofs.certificates import Certificate
from .._objective.shapes import describe_shape
from .._runtime.archives import array_bytes
from .._solvers.stages import Stage
from .layout import (
    APART,
    ATTRIBUTE,
    ENTRIES,
    FORMAT,
    HELD_OUT,
    INLINE,
    KEY,
    PLACES,
    PREDICTING,
    VERSION,
    Node,
    beyond_range,
    is_shaped,
    scalar_fields,
    stored_models,
)


def document_of(model: Any, write: Writer, provenance: dict[str, Any] | None) -> dict[str, Node]:
    choice, model = choice_of(model), model_chosen(model)
    name = type(model).__name__
    known = stored_models()
    if name not in known or known[name][0] is not type(model):
        raise TypeError(
            f"save_model stores {', '.join(known)}; got {name}. Of a Pipeline save the last step (pipeline[-1]), or all "
            "of it with skops."
        )
    check_is_fitted(model, "coef_")
    for key in PREDICTING:
        if fault := beyond_range(key, getattr(model, key), model.tasks_):
            raise ValueError(f"{fault}. Give features and targets in other units.")
    parameters, no_parameters = storable(write, model.get_params(deep=False), "parameters")
    for needed in {"task_column", "unknown_task"} & set(no_parameters):
        raise TypeError(
            f"{needed}={no_parameters[needed]} cannot be stored: predictions need it. Use text or a number."
        )
    attributes = {key: value for key, value in vars(model).items() if ATTRIBUTE.fullmatch(key) and key not in APART}
    fitted, left_out = storable(write, _compact(attributes), "fitted")
    if "tasks_" in left_out:
        raise TypeError(
            f"task labels {names_of(model.tasks_)} cannot be stored: they must be text, numbers or booleans. Fit with such "
            "labels."
        )
    staged = hasattr(model, "stages_")
    again = provenance is None and getattr(model, "_from_file", None) is model.coef_
    return {
        "format": FORMAT,
        "format_version": VERSION,
        "model": name,
        "provenance": model.provenance_ if again else _provenance(provenance) | choice,
        "parameters": parameters,
        "parameters_not_stored": no_parameters,
        "form": model._form,
        "task_position": list(model._task_position)
        if isinstance(model._task_position, tuple)
        else model._task_position,
        "fitted": fitted,
        "not_stored": left_out,
        "certificate": _write_certificate(write, model.certificate_) if staged else None,
        "stages": [_write_stage(write, *one, model.coef_) for one in enumerate(model.stages_)] if staged else None,
    }


def _compact(attributes: dict[str, Any]) -> dict[str, Any]:
    """With the few places where nothing can be learned instead of a flag for every cell, and arrays of held-out scores."""
    if HELD_OUT in attributes:
        attributes = attributes | {HELD_OUT: attributes[HELD_OUT].to_dict()}
    if "learnable_" not in attributes:
        return attributes
    places = np.flatnonzero(~attributes["learnable_"])
    places = places.astype(np.int32 if attributes["learnable_"].size < 2**31 else np.int64)
    return {PLACES if key == "learnable_" else key: value for key, value in attributes.items()} | {PLACES: places}


def storable(write: Writer, values: dict[str, Any], where: str) -> tuple[dict[str, Node], dict[str, str]]:
    """The values that a file can hold, and texts of the others."""
    nodes, others = {}, {}
    for key, value in values.items():
        before = dict(write.members or {})
        try:
            nodes[key] = write.value(value, f"{where}/{key}", sparse=is_shaped(key))
        except UnstorableError:
            if write.members is not None:  # without the parts of it that could be stored
                write.members.clear()
                write.members.update(before)
            text = repr(value)
            others[key] = text if len(text) <= 200 else text[:199] + "…"
    return nodes, others


def _write_stage(write: Writer, place: int, stage: Stage, coef: Floats) -> dict[str, Node]:
    where = f"stages/{place}"
    same = stage.coef.tobytes() == coef.tobytes()
    return {
        **{key: write.value(kind(getattr(stage, key)), where) for key, kind in scalar_fields(Stage).items()},
        "free_rows": write.value(stage.free_rows, f"{where}/free_rows"),
        "coef": None if same else write.value(stage.coef, f"{where}/coef", sparse=True),
        "ambiguous": [[i, columns.tolist()] for i, columns in enumerate(stage.ambiguous) if columns.size],
    }


def _write_certificate(write: Writer, proof: Certificate) -> dict[str, Node]:
    return {
        **{
            key: write.value(kind(getattr(proof, key)), "certificate")
            for key, kind in scalar_fields(Certificate).items()
        },
        "ambiguous": [[write.value(label, "certificate"), names] for label, names in proof.ambiguous.items()],
        "doubt": proof.doubt,
    }


def _provenance(user: dict[str, Any] | None) -> dict[str, Any]:
    from .. import __version__

    try:
        plain = user is None or (isinstance(user, dict) and json.loads(json.dumps(user, allow_nan=False)) == user)
    except (TypeError, ValueError):
        plain = False
    if not plain:
        raise TypeError("provenance must be a dict of what JSON can hold: text, finite numbers, lists, dicts by text.")
    versions = {"python": platform.python_version(), "msmtfl": __version__, "numpy": np.__version__}
    versions |= {"scipy": scipy.__version__, "scikit-learn": sklearn.__version__}
    return {"saved": datetime.now(UTC).isoformat(timespec="seconds"), "versions": versions, "user": user}


class UnstorableError(TypeError):
    """A value that no file can hold."""


class Writer:
    """Makes nodes of values; large arrays become `members`, unless there are none (None)."""

    def __init__(self, members: dict[str, bytes] | None):
        self.members = members

    def value(self, value: Any, where: str, sparse: bool = False) -> Node:
        if value is None or isinstance(value, (bool, np.bool_)):
            return None if value is None else bool(value)
        if isinstance(value, str):
            return str(value)
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, (float, np.floating)) and (float(value) == value or value != value):
            return float(value) if math.isfinite(value) else {"float": str(float(value))}
        if isinstance(value, (list, tuple)):
            nodes = [self.value(one, f"{where}/{k}") for k, one in enumerate(value)]
            return nodes if isinstance(value, list) else {"tuple": nodes}
        if isinstance(value, dict) and all(isinstance(key, str) and KEY.fullmatch(key) for key in value):
            return {"dict": {key: self.value(one, f"{where}/{key}") for key, one in value.items()}}
        if type(value) is np.ndarray:
            return self._array(value, where, sparse)
        if (shape := describe_shape(value)) is not None:
            return {"shape": {key: self.value(one, where) for key, one in shape.items()}}
        raise UnstorableError(f"{where}: {type(value).__name__}")

    def _array(self, values: np.ndarray, where: str, sparse: bool = False) -> Node:
        if values.dtype.kind in "UOT":
            return self._objects(values, where)
        if values.dtype.name not in ENTRIES:
            raise UnstorableError(f"{where}: {values.dtype}")
        if sparse and values.dtype == np.float64 and values.size > INLINE:
            flat = values.ravel()
            at = np.flatnonzero(flat.view(np.int64))  # by their bits: -0.0 is kept
            if 12 * at.size < 8 * flat.size:
                at = at.astype(np.int32 if flat.size < 2**31 else np.int64)
                parts = {"at": self._array(at, f"{where}.at"), "values": self._array(flat[at], f"{where}.values")}
                return {"sparse": {"shape": list(values.shape), **parts}}
        node: dict[str, Node] = {"dtype": values.dtype.name, "shape": list(values.shape)}
        if self.members is None or values.size <= INLINE:
            entries = values.ravel().tolist()
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                entries = [entry if math.isfinite(entry) else str(entry) for entry in entries]
            return {"array": {**node, "values": entries}}
        self.members[f"{where}.npy"] = array_bytes(values)
        return {"array": {**node, "member": f"{where}.npy"}}

    def _objects(self, values: np.ndarray, where: str) -> Node:
        entries = values.ravel().tolist()
        if values.ndim == 1 and entries and all(isinstance(entry, np.ndarray) for entry in entries):
            if len({(entry.shape, entry.dtype) for entry in entries}) > 1 or entries[0].dtype == object:
                raise UnstorableError(f"{where}: arrays that differ")
            return {"cells": self._array(np.stack(entries), where)}
        if not all(isinstance(entry, (str, bool, np.bool_, Integral, float, np.floating)) for entry in entries):
            raise UnstorableError(f"{where}: {names_of(entries)}")
        kind = "str" if values.dtype.kind == "U" else "object"
        nodes = [self.value(entry, where) for entry in entries]
        return {"array": {"dtype": kind, "shape": list(values.shape), "values": nodes}}
