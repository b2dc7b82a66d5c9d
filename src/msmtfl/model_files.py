"""Models as files that are safe to load: JSON and plain arrays, no code.

A file is a zip archive of `model.json` and of arrays; where its name ends in `.json` it is the document alone, with all
arrays written out in it. The document (UTF-8) is an object with these keys:

    format, format_version  "msmtfl-model", 1; a reader refuses a larger version
    model                   the class: a key of MODELS below
    parameters              {name: value}: what the model was made with
    parameters_not_stored   {name: text}: parameters that no file can hold (a splitter, a penalty of the user's own); loading
                            takes their defaults, for the penalty an object that says what is missing
    form                    "single": one task, no labels; "long": a label per row; "wide": one X for all tasks
    task_position           place of the task column in the table given, or null
    fitted                  {name: value}, see below
    stages                  list of {stage, objective, free_rows, dual_gap, kkt, unique, n_iter, seconds, coef, ambiguous},
                            or null; coef null: that of the model; ambiguous: list of [task, [features]], by place
    certificate             {dual_gap, kkt, critical, unique, monotone, tol, convex, ambiguous, doubt}, or null; ambiguous:
                            list of [label, [names of features]]; doubt: why the gap is above tol, or ""
    not_stored              {name: text}: attributes that are left out (surface_)
    provenance              {saved: time in UTC, versions: {python, msmtfl, numpy, scipy, scikit-learn}, user: what the
                            user said, or null, choice: {chosen, reason} if MultiTaskAuto chose the model}
    checksum                "sha256:..." of a file that is all JSON (an archive has its own): of the document without this
                            key, in ASCII, keys sorted, no blanks, numbers as Python writes them. Whoever changes such a
                            file by hand deletes it. Files of earlier versions have none

The prediction for a row x of task i is ``intercept_[i] + coef_[i] . x``: i is the place of its label in `tasks_`, and x is
in the order of `features_`. With the parameter loss "poisson" it is the exponential of that. Of a classifier it is the
log-odds of the second of its two classes; of K > 2 classes coef_ is (m, K, d), or (K, d), intercept_ (m, K), or (K,), and it
is that of each class against the rest; target_mean_ and target_sd_ are (m, K), and the coefs of stages (m K, d).

In `fitted`, with m tasks, d features and c columns given (the task column too):

    tasks_, features_                       (m,) labels: text, numbers, true or false; (d,) text
    coef_, coef_specific_, coef_shared_     (m, d) in the data's units; (d,) if form is "single"
    coef_common_, coef_deviation_           (d,); as coef_, which is their sum
    classes_                                (K,) labels of a classifier: text, numbers, true or false
    intercept_                              (m,); a number if form is "single"
    n_samples_, target_mean_, target_sd_    (m,): rows of the tasks, mean and standard deviation of their targets
    scale_                                  with loss "huber": as intercept_, the scales of the residuals
    n_fitted_tasks_                         the first so many tasks were fitted together, the others added later
    constant_at_                            places, in C order of (m, d), where a column does not vary within a task, so that
                                            no coefficient can be learned; in Python learnable_ (m, d). Older files do not
                                            have it
    task_level_features_                    text: the features that differ between tasks only
    row_norms_, row_slopes_                 (d,)
    feature_importances_                    (c,)
    n_features_in_, feature_names_in_       c; (c,) text, if the columns had names
    lam_, theta_, lam_s_, lam_b_, lam_max_  numbers, those that the model has
    lam_common_, lam_deviation_             numbers, or inf
    objective_, dual_gap_, n_stages_, n_iter_, converged_, stopping_reason_
    lams_, thetas_                          of a CV model: (K,); (K, L)
    best_point_, best_index_, best_score_   of a CV model: (k, l); its place in the columns of cv_results_; its score
    n_splits_, cv_results_                  of a CV model: {column: (P,)} over the points of the grid, lam outer; test_mse
                                            and test_weight have an array (folds, m) per point

A value is null, true, false, a number, a text, a list of values, or an object with one key that says what it is:

    float   "nan", "inf" or "-inf"
    array   {dtype, shape, values} or {dtype, shape, member}: entries in C order, here or in that member of the archive, a
            .npy file of version 1.0, little-endian. dtype is bool, int8 ... uint64, float16 ... float64, str, or object
            (text and numbers, each a value). Floats that are not finite are "nan", "inf", "-inf"
    sparse  {shape, at, values}: float64; 0 but for `values` at the places `at`, which rise, of the array in C order
    cells   an array of which every entry along the first axis is an array of its own
    tuple   a list of values
    dict    {name: value}
    shape   {name, and its parameters}: a penalty of msmtfl._objective.shapes

Members are not compressed, so that none can be larger than the file; each is named once in the document. Whole numbers may
have any number of digits.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.utils.validation import check_is_fitted

from ._data.designs import Floats
from ._data.tables import missing_values, names_of, warn_user
from ._estimators.base import MultiTaskModel, check_use, model_chosen
from ._estimators.baselines import LogisticPerTaskCV, PooledLassoCV, PooledLogisticCV, PooledRidgeCV, RidgePerTaskCV
from ._estimators.classifier import MSMTFLClassifier, MSMTFLClassifierCV, labels_of
from ._estimators.coupled import L12MTL, L12MTLCV, DirtyMTL, DirtyMTLCV
from ._estimators.msmtfl import MSMTFL, LassoMTL
from ._estimators.search import MSMTFLCV, LassoMTLCV
from ._estimators.shared import SharedMTL, SharedMTLCV
from ._objective.certificates import Certificate
from ._objective.shapes import SHAPES, Lost, describe_shape, made_shape
from ._runtime.archives import array_bytes, open_file, pack, read_array, unpack
from ._runtime.files import write_whole
from ._solvers.stages import Stage
from .compare.auto import choice_of

FORMAT, VERSION = "msmtfl-model", 1
DOCUMENT = "model.json"
INLINE = 64  # arrays of more numbers than this are members of the archive
WIDE = 2**28  # characters that an array of text may take in memory
KEY = re.compile(r"\w+", re.ASCII)
ATTRIBUTE = re.compile(r"[a-z]\w*_", re.ASCII)

Node = Any  # what json makes of a value
Shape = tuple[int, ...]
SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
ENTRIES: dict[str, set[type]] = {  # what stands in JSON for the entries of an array, by dtype
    "bool": {bool},
    **{f"{kind}{8 * size}": {int} for kind in ("int", "uint") for size in (1, 2, 4, 8)},
    **{f"float{8 * size}": {float, int, str} for size in (2, 4, 8)},
}

LINEAR = ("tasks_", "features_", "n_features_in_", "coef_", "intercept_")
FITTING = ("lam_max_", "objective_", "dual_gap_", "n_stages_", "n_iter_", "converged_", "stopping_reason_")
TARGETS = ("n_samples_", "target_mean_", "target_sd_", "n_fitted_tasks_")
STAGED = (*LINEAR, *TARGETS, "row_norms_", "row_slopes_", "feature_importances_", *FITTING)
SEARCH = (*STAGED, "cv_results_", "best_point_", "best_index_", "best_score_", "n_splits_")
BILEVEL = ("lam_", "theta_", "lam_entry_", "theta_entry_")
DIRTY = ("lam_s_", "lam_b_", "coef_specific_", "coef_shared_")
SHARED = ("lam_common_", "lam_deviation_", "theta_", "coef_common_", "coef_deviation_")
MODELS: dict[str, tuple[type[MultiTaskModel], tuple[str, ...]]] = {  # the only classes there are, and what they need
    "MSMTFL": (MSMTFL, (*STAGED, *BILEVEL)),
    "MSMTFLCV": (MSMTFLCV, (*SEARCH, *BILEVEL, "lams_", "thetas_")),
    "MSMTFLClassifier": (MSMTFLClassifier, (*STAGED, *BILEVEL, "classes_")),
    "MSMTFLClassifierCV": (MSMTFLClassifierCV, (*SEARCH, *BILEVEL, "lams_", "thetas_", "classes_")),
    "LassoMTL": (LassoMTL, (*STAGED, "lam_")),
    "LassoMTLCV": (LassoMTLCV, (*SEARCH, "lam_", "lams_", "thetas_")),
    "L12MTL": (L12MTL, (*STAGED, "lam_", "theta_")),
    "L12MTLCV": (L12MTLCV, (*SEARCH, "lam_", "lams_")),
    "DirtyMTL": (DirtyMTL, (*STAGED, *DIRTY)),
    "DirtyMTLCV": (DirtyMTLCV, (*SEARCH, *DIRTY)),
    "SharedMTL": (SharedMTL, (*STAGED, *SHARED)),
    "SharedMTLCV": (SharedMTLCV, (*SEARCH, *SHARED, "thetas_")),
    "RidgePerTaskCV": (RidgePerTaskCV, LINEAR),
    "PooledRidgeCV": (PooledRidgeCV, LINEAR),
    "PooledLassoCV": (PooledLassoCV, LINEAR),
    "LogisticPerTaskCV": (LogisticPerTaskCV, (*LINEAR, "classes_")),
    "PooledLogisticCV": (PooledLogisticCV, (*LINEAR, "classes_")),
}
STRENGTHS = ("lam_", "lam_s_", "lam_b_", "lam_max_")
PLACES = "constant_at_"  # of the cells that are False in learnable_
APART = ("stages_", "certificate_", "provenance_", "moments_")  # attributes that have keys of their own, or stay behind
TYPES: dict[str, type] = {
    **dict.fromkeys(
        (*STRENGTHS, *SHARED[:3], "lam_entry_", "theta_entry_", "objective_", "dual_gap_", "best_score_"), float
    ),
    **dict.fromkeys(("n_features_in_", "n_fitted_tasks_", "n_stages_", "n_iter_", "n_splits_", "best_index_"), int),
    "converged_": bool,
    "stopping_reason_": str,
}


def _scalars(cls: Any) -> dict[str, type]:
    """The fields of a dataclass that are numbers or flags."""
    kinds: dict[Any, type] = {"int": int, "float": float, "bool": bool}
    return {field.name: kinds[field.type] for field in fields(cls) if field.type in kinds}


def save_model(model: Any, path: str | os.PathLike[str], *, provenance: dict[str, Any] | None = None) -> None:
    """Write a fitted model to a file that :func:`load_model` and other programs can read; no pickle.

    Parameters
    ----------
    model : estimator
        A fitted model of this package.
    path : path or str
        The file to write: a zip archive of JSON and arrays (`.msmtfl` is a good ending), or all JSON if the
        name ends in `.json`. It is written whole or not at all. The format is described in
        :mod:`msmtfl.model_files`.
    provenance : dict, optional
        Anything that JSON can hold: where the data came from, who fitted, why. A model that was loaded and
        not fitted again keeps what it came with if this is None.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.model_files import load_model, save_model
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((60, 5)), np.repeat(["north", "south"], 30)
    >>> model = MSMTFL().fit(X, X[:, 0] + 0.1 * rng.standard_normal(60), task=task)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, os.path.join(folder, "winter.msmtfl"), provenance={"data": "winter survey"})
    ...     same = load_model(os.path.join(folder, "winter.msmtfl"))
    >>> np.array_equal(same.predict(X, task=task), model.predict(X, task=task)), same.provenance_["user"]
    (True, {'data': 'winter survey'})
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {os.fspath(path.parent)} to write {path.name} to.")
    if path.suffix.lower() == ".json":
        alone = _document(model, _Writer(None), provenance)
        data = _text({**alone, "checksum": _checksum(alone)})
    else:
        members: dict[str, bytes] = {}
        document = _text(_document(model, _Writer(members), provenance))
        data = pack({DOCUMENT: document, **members})
    write_whole(path, data)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read the fitted model in a file of :func:`save_model`. No code is run, whatever the file holds.

    Coefficients are the same to the bit. What the file says of its origin is `provenance_`. The `surface_`
    of a CV model is not in the file (but `cv_results_` is).

    Parameters
    ----------
    path : path or str
        The file to read.

    Returns
    -------
    estimator
        The fitted model.

    Raises
    ------
    ValueError
        The file is damaged, or of a newer format.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from msmtfl import L12MTL
    >>> from msmtfl.model_files import load_model, save_model
    >>> X = np.random.default_rng(0).standard_normal((30, 4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(L12MTL(lam=0.1).fit(X, X[:, :2]), os.path.join(folder, "model.json"))
    ...     model = load_model(os.path.join(folder, "model.json"))
    >>> model
    L12MTL(lam=0.1)
    >>> model.predict(X).shape, model.certificate_.unique
    ((30, 2), True)
    """
    try:
        document, members, packed = _open(Path(path))
        model, not_stored = _model(document, _Reader(members))
        checked = _check_sum(document) or packed
    except OSError:
        raise
    except Exception as error:  # whatever a file may hold: one kind of error
        raise ValueError(f"{os.fspath(path)}: {str(error) or type(error).__name__}") from error
    if not checked:
        warn_user(
            f"{os.fspath(path)}: the file has no checksum (an earlier version wrote it, or somebody changed it): damage to "
            "its numbers could not be seen. Save the model again to have one."
        )
    if not_stored:
        given = ", ".join(f"{name}={text}" for name, text in not_stored.items())
        warn_user(
            f"{os.fspath(path)}: the file could not hold {given}; the default stands there (for a penalty: none). "
            "Predictions do not depend on it; set it before fitting again."
        )
    return model


# ------------------------------------------------------------------ model -> document


def _document(model: Any, write: _Writer, provenance: dict[str, Any] | None) -> dict[str, Node]:
    choice, model = choice_of(model), model_chosen(model)
    name = type(model).__name__
    if name not in MODELS or MODELS[name][0] is not type(model):
        raise TypeError(
            f"save_model stores {', '.join(MODELS)}; got {name}. Of a Pipeline save the last step (pipeline[-1]), or all "
            "of it with skops."
        )
    check_is_fitted(model, "coef_")
    for key in ("coef_", "intercept_"):
        if not np.isfinite(getattr(model, key)).all():
            raise ValueError(f"{key} is not finite: this fit predicts nothing.")
    parameters, no_parameters = _stored(write, model.get_params(deep=False), "parameters")
    for needed in {"task_column", "unknown_task"} & set(no_parameters):
        raise TypeError(
            f"{needed}={no_parameters[needed]} cannot be stored: predictions need it. Use text or a number."
        )
    attributes = {key: value for key, value in vars(model).items() if ATTRIBUTE.fullmatch(key) and key not in APART}
    fitted, left_out = _stored(write, _compact(attributes), "fitted")
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
        "task_position": model._task_position,
        "fitted": fitted,
        "not_stored": left_out,
        "certificate": _write_certificate(write, model.certificate_) if staged else None,
        "stages": [_write_stage(write, *one, model.coef_) for one in enumerate(model.stages_)] if staged else None,
    }


def _compact(attributes: dict[str, Any]) -> dict[str, Any]:
    """With the few places where nothing can be learned instead of a flag for every cell."""
    if "learnable_" not in attributes:
        return attributes
    places = np.flatnonzero(~attributes["learnable_"])
    places = places.astype(np.int32 if attributes["learnable_"].size < 2**31 else np.int64)
    return {PLACES if key == "learnable_" else key: value for key, value in attributes.items()} | {PLACES: places}


def _stored(write: _Writer, values: dict[str, Any], where: str) -> tuple[dict[str, Node], dict[str, str]]:
    """The values that a file can hold, and texts of the others."""
    nodes, others = {}, {}
    for key, value in values.items():
        before = dict(write.members or {})
        try:
            nodes[key] = write.value(value, f"{where}/{key}", sparse=_is_shaped(key))
        except _UnstorableError:
            if write.members is not None:  # without the parts of it that could be stored
                write.members.clear()
                write.members.update(before)
            text = repr(value)
            others[key] = text if len(text) <= 200 else text[:199] + "…"
    return nodes, others


def _is_shaped(name: str) -> bool:
    """Whether a reader knows the shape of an attribute: only these are stored sparse."""
    return name.startswith("coef_") or name in ("row_norms_", "row_slopes_", "feature_importances_")


def _write_stage(write: _Writer, place: int, stage: Stage, coef: Floats) -> dict[str, Node]:
    where = f"stages/{place}"
    same = stage.coef.tobytes() == coef.tobytes()
    return {
        **{key: write.value(kind(getattr(stage, key)), where) for key, kind in _scalars(Stage).items()},
        "free_rows": write.value(stage.free_rows, f"{where}/free_rows"),
        "coef": None if same else write.value(stage.coef, f"{where}/coef", sparse=True),
        "ambiguous": [[i, columns.tolist()] for i, columns in enumerate(stage.ambiguous) if columns.size],
    }


def _write_certificate(write: _Writer, proof: Certificate) -> dict[str, Node]:
    return {
        **{key: write.value(kind(getattr(proof, key)), "certificate") for key, kind in _scalars(Certificate).items()},
        "ambiguous": [[write.value(label, "certificate"), names] for label, names in proof.ambiguous.items()],
        "doubt": proof.doubt,
    }


def _provenance(user: dict[str, Any] | None) -> dict[str, Any]:
    from . import __version__

    try:
        plain = user is None or (isinstance(user, dict) and json.loads(json.dumps(user, allow_nan=False)) == user)
    except (TypeError, ValueError):
        plain = False
    if not plain:
        raise TypeError("provenance must be a dict of what JSON can hold: text, finite numbers, lists, dicts by text.")
    versions = {"python": platform.python_version(), "msmtfl": __version__, "numpy": np.__version__}
    versions |= {"scipy": scipy.__version__, "scikit-learn": sklearn.__version__}
    return {"saved": datetime.now(UTC).isoformat(timespec="seconds"), "versions": versions, "user": user}


# ------------------------------------------------------------------ values -> nodes


class _UnstorableError(TypeError):
    """A value that no file can hold."""


class _Writer:
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
        raise _UnstorableError(f"{where}: {type(value).__name__}")

    def _array(self, values: np.ndarray, where: str, sparse: bool = False) -> Node:
        if values.dtype.kind in "UOT":
            return self._objects(values, where)
        if values.dtype.name not in ENTRIES:
            raise _UnstorableError(f"{where}: {values.dtype}")
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
                raise _UnstorableError(f"{where}: arrays that differ")
            return {"cells": self._array(np.stack(entries), where)}
        if not all(isinstance(entry, (str, bool, np.bool_, Integral, float, np.floating)) for entry in entries):
            raise _UnstorableError(f"{where}: {names_of(entries)}")
        kind = "str" if values.dtype.kind == "U" else "object"
        nodes = [self.value(entry, where) for entry in entries]
        return {"array": {"dtype": kind, "shape": list(values.shape), "values": nodes}}


# ------------------------------------------------------------------ files


def _text(document: dict[str, Node]) -> bytes:
    try:
        return _lines(document, 0, False).encode() + b"\n"
    except UnicodeEncodeError:  # half a character in a name
        return _lines(document, 0, True).encode() + b"\n"


def _lines(node: Node, indent: int, ascii_only: bool) -> str:
    """JSON with a line per entry, but for what fits in a line and for lists of scalars."""
    if isinstance(node, dict) and node:
        keys = [json.dumps(key, ensure_ascii=ascii_only) for key in node]
        parts = [f"{key}: {_lines(one, indent + 2, ascii_only)}" for key, one in zip(keys, node.values(), strict=True)]
        begin, end = "{}"
    elif isinstance(node, list) and any(isinstance(one, (dict, list)) for one in node):
        parts = [_lines(one, indent + 2, ascii_only) for one in node]
        begin, end = "[]"
    else:
        return json.dumps(node, ensure_ascii=ascii_only, allow_nan=False)
    if sum(map(len, parts)) < 100 - indent and not any("\n" in part for part in parts):
        return f"{begin}{', '.join(parts)}{end}"
    line = "\n" + " " * indent
    return f"{begin}{line}  " + f",{line}  ".join(parts) + f"{line}{end}"


def _open(path: Path) -> tuple[Node, dict[str, bytes], bool]:
    """The document of a file, the members of its archive, and whether it is one, which has checksums of its own."""
    with open_file(path) as file:
        start = file.read(2)
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if start != b"PK":
            return _parse(file.read(), "this is neither a zip archive nor JSON"), {}, False
        members = unpack(file, size)
    if DOCUMENT not in members:
        raise ValueError(f"the zip archive holds no {DOCUMENT}: it is not a model of msmtfl.")
    return _parse(members.pop(DOCUMENT), f"{DOCUMENT} in it is not JSON"), members, True


def _checksum(document: dict[str, Node]) -> str:
    rest = {key: node for key, node in document.items() if key != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _check_sum(document: dict[str, Node]) -> bool:
    """Whether the document has a checksum; an error if it has the wrong one."""
    _need(
        "checksum" not in document or document["checksum"] == _checksum(document),
        "its content does not have the checksum that it should: the file is damaged, or somebody changed it. Get it anew, "
        'or, if the change was meant, delete the entry "checksum"',
    )
    return "checksum" in document


def _parse(data: bytes, otherwise: str) -> Node:
    def refuse(text: str) -> None:
        raise ValueError(f"{text} is not JSON")

    def unique(pairs: list[tuple[str, Node]]) -> dict[str, Node]:
        out = dict(pairs)
        _need(len(out) == len(pairs), "a key occurs twice in an object")
        return out

    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=refuse, object_pairs_hook=unique)
    except RecursionError as error:
        raise ValueError(f"{otherwise}: nested too deeply.") from error
    except ValueError as error:
        raise ValueError(f"{otherwise}, or damaged or cut off ({error}).") from error


# ------------------------------------------------------------------ nodes -> values


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(f"{message}.")


def _typed(value: Any, kind: type, where: str) -> Any:
    """A value of a type; whole numbers are floats, too, but true and false are no numbers."""
    if kind is float and type(value) is int:
        value = float(value)
    _need(type(value) is kind, f"{where} is not of type {kind.__name__}")
    return value


def _keys(node: Node, keys: Sequence[str], where: str) -> list[Node]:
    """What stands under the keys of an object that must have these."""
    missing = [key for key in keys if key not in _typed(node, dict, where)]
    _need(not missing, f"{where} lacks {names_of(missing)}")
    return [node[key] for key in keys]


def _shape(node: Node, where: str) -> Shape:
    whole = isinstance(node, list) and all(type(size) is int and size >= 0 for size in node)
    _need(whole and len(node) <= 8, f"{where}: the shape is not a list of sizes")
    return tuple(node)


def _is_list(values: Any, kinds: str) -> bool:
    """Whether a value is a 1-D array of these kinds."""
    return isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in kinds


def _are_texts(nodes: list[Node]) -> bool:
    return all(isinstance(node, str) for node in nodes)


def _are_names(values: Any) -> bool:
    return _is_list(values, "UO") and _are_texts(values.tolist())


class _Reader:
    """Makes values of nodes. Every member is read once."""

    def __init__(self, members: dict[str, bytes]):
        self.members = members

    def value(self, node: Node, where: str) -> Any:
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        if isinstance(node, list):
            return [self.value(one, where) for one in node]
        _need(len(node) == 1, f"{where}: an object that is a value has one key")
        ((kind, inner),) = node.items()
        if kind == "float":
            _need(isinstance(inner, str) and inner in SPECIAL, f"{where}: {inner!r} is no float")
            return SPECIAL[inner]
        if kind == "tuple":
            return tuple(self.value(one, where) for one in _typed(inner, list, where))
        if kind == "dict":
            return {key: self.value(one, f"{where}.{key}") for key, one in _typed(inner, dict, where).items()}
        if kind == "cells":
            stacked = self.value(inner, where)
            _need(isinstance(stacked, np.ndarray) and stacked.ndim > 0, f"{where}: the cells are not an array")
            cells = np.empty(len(stacked), dtype=object)
            for k in range(len(stacked)):
                cells[k] = stacked[k]
            return cells
        if kind == "shape":
            return self._shape(inner, where)
        _need(kind == "array", f"{where}: {kind!r} is no kind of value that may stand here")
        return self._array(inner, where)

    def _shape(self, node: Node, where: str) -> Any:
        (name,) = _keys(node, ("name",), where)
        _need(isinstance(name, str) and name in SHAPES, f"{where}: no shape {name!r}")
        kinds: dict[str, type] = dict.fromkeys(
            (key for key in describe_shape(SHAPES[name]) or () if key != "name"), float
        )
        _need(set(node) == {"name", *kinds}, f"{where}: these are not the parameters of the shape {name!r}")
        return made_shape(name, **self.scalars(node, kinds, where))

    def scalars(self, node: Node, kinds: dict[str, type], where: str) -> dict[str, Any]:
        entries = zip(kinds.items(), _keys(node, list(kinds), where), strict=True)
        return {key: _typed(self.value(one, where), kind, f"{key} of {where}") for (key, kind), one in entries}

    def floats(self, node: Node, shape: Shape, where: str) -> Floats:
        """A float64 array of known shape, finite; it may be sparse."""
        expected = f"but {list(shape)} is expected"
        if isinstance(node, dict) and list(node) == ["sparse"]:
            given, at, entries = _keys(node["sparse"], ("shape", "at", "values"), where)
            _need(_shape(given, where) == shape, f"{where} has shape {given}, {expected}")
            at, entries = self.value(at, where), self.value(entries, where)
            _need(_is_list(at, "iu") and _is_list(entries, "f"), f"{where}: a sparse array is two lists of numbers")
            inside = not len(at) or bool(at[0] >= 0 and at[-1] < math.prod(shape) and (at[1:] > at[:-1]).all())
            _need(inside and len(at) == len(entries), f"{where}: the places of a sparse array do not fit")
            _need(bool(np.isfinite(entries).all()), f"{where} is not finite")
            out = np.zeros(math.prod(shape))
            out[at] = entries
            return out.reshape(shape)
        values = self.value(node, where)
        _need(isinstance(values, np.ndarray) and values.dtype == np.float64, f"{where} is not a float64 array")
        _need(values.shape == shape, f"{where} has shape {list(values.shape)}, {expected}")
        _need(bool(np.isfinite(values).all()), f"{where} is not finite")
        return values

    def _array(self, node: Node, where: str) -> np.ndarray:
        name, given = _keys(node, ("dtype", "shape"), where)
        shape = _shape(given, where)
        _need(isinstance(name, str) and name in (*ENTRIES, "str", "object"), f"{where}: unknown dtype {name!r}")
        if "member" in node:
            _need(name in ENTRIES, f"{where}: an array of {name} cannot be a member")
            return self._member(node["member"], np.dtype(name), shape, where)
        entries = _typed(_keys(node, ("values",), where)[0], list, where)
        _need(len(entries) == math.prod(shape), f"{where}: {len(entries)} values do not make the shape {given}")
        if name not in ENTRIES:
            return self._objects(entries, name, where).reshape(shape)
        types = set(map(type, entries))
        _need(types <= ENTRIES[name], f"{where}: a value is not of dtype {name}")
        if str in types:
            _need(all(type(one) is not str or one in SPECIAL for one in entries), f"{where}: a text is no number")
            entries = [SPECIAL[one] if type(one) is str else one for one in entries]
        return np.array(entries, dtype=name).reshape(shape)

    def _objects(self, entries: list[Node], name: str, where: str) -> np.ndarray:
        out = np.empty(len(entries), dtype=object)
        for k, entry in enumerate(entries):
            out[k] = self.value(entry, where)
            _need(isinstance(out[k], (str, bool, int, float)), f"{where}: entry {k} is neither text nor a number")
        if name == "object":
            return out
        _need(_are_names(out), f"{where}: an entry is not text")
        _need(len(out) * max(map(len, entries), default=0) <= WIDE, f"{where}: a text is too long")
        return out.astype(str)

    def _member(self, name: Node, dtype: np.dtype, shape: Shape, where: str) -> np.ndarray:
        _need(isinstance(name, str) and name in self.members, f"{where}: member {name!r} is missing, or named twice")
        try:
            values = read_array(self.members.pop(name))
        except ValueError as error:
            raise ValueError(f"{where}: member {name!r} {error}.") from error
        same = values.shape == shape and values.dtype == dtype
        _need(same, f"{where}: member {name!r} is not the array of {dtype}, {list(shape)}, of the document")
        return values


# ------------------------------------------------------------------ document -> model


def _model(document: Node, read: _Reader) -> tuple[Any, dict[str, str]]:
    """The model, and the parameters that it does not have from the file."""
    cls, required = _check_header(document)
    parameters, not_stored, fitted = (
        _typed(node, dict, name)
        for name in ("parameters", "parameters_not_stored", "fitted")
        for node in _keys(document, (name,), "the document")
    )
    form, position, provenance = _keys(document, ("form", "task_position", "provenance"), "the document")
    unknown = sorted(set(parameters) - set(cls._get_param_names()))
    _need(not unknown, f"{cls.__name__} has no parameter {names_of(unknown)}")
    model: Any = cls(**{key: read.value(node, f"parameter {key}") for key, node in parameters.items()})
    check_use(model)
    _need(not isinstance(model.task_column, (dict, np.ndarray)), "task_column is not a name or a position")
    if "penalty" in not_stored and hasattr(model, "penalty"):
        model.penalty = Lost(_typed(not_stored["penalty"], str, "parameters_not_stored"))
    _need(form in ("single", "long", "wide"), f"form {form!r} is unknown")
    _keys(fitted, required, "fitted")
    for key, value in _read_fitted(read, cls, fitted, form == "single").items():
        setattr(model, key, value)
    d = len(model.features_)
    _need(position is None or (type(position) is int and 0 <= position <= d), f"task_position is {position!r}")
    _need(model.n_features_in_ == d + (position is not None), f"n_features_in_ is {model.n_features_in_}")
    model._form, model._task_position = form, position
    if "n_stages_" in required:
        certificate, stages = _keys(document, ("certificate", "stages"), "the document")
        stages = _typed(stages, list, "stages")
        _need(model.n_stages_ == len(stages) > 0, f"n_stages_ is {model.n_stages_}, but there are {len(stages)} stages")
        coef = model.coef_.reshape(-1, d)
        model.stages_ = [_read_stage(read, node, coef, f"stage {k + 1}") for k, node in enumerate(stages)]
        model.certificate_ = _read_certificate(read, certificate, labels_of(model))
    _need(not read.members, f"the document does not name member(s) {names_of(read.members)} of the zip archive")
    model.provenance_ = _typed(provenance, dict, "provenance")
    _typed(provenance.get("versions", {}), dict, "versions")
    choice = _typed(provenance.get("choice", {}), dict, "choice")
    _need(not choice or _are_texts(_keys(choice, ("chosen", "reason"), "choice")), "choice is not told in texts")
    model._from_file = model.coef_  # a new fit makes new ones, to which the provenance does not apply
    return model, not_stored


def _check_header(document: Node) -> tuple[type[MultiTaskModel], tuple[str, ...]]:
    known = isinstance(document, dict) and document.get("format") == FORMAT
    _need(known, f'this is not a model of msmtfl: its document does not say "format": "{FORMAT}"')
    version, name = _keys(document, ("format_version", "model"), "the document")
    _need(type(version) is int and version >= 1, f"format_version {version!r} is not a whole number from 1")
    if version > VERSION:
        origin = document.get("provenance")
        versions = origin.get("versions") if isinstance(origin, dict) else None
        made_by = f"msmtfl {versions.get('msmtfl')}" if isinstance(versions, dict) else "a newer msmtfl"
        raise ValueError(
            f"this file has format version {version} (written by {made_by}); the msmtfl installed here reads versions up to "
            f"{VERSION}. Upgrade it (pip install --upgrade msmtfl), or fit and save the model again with this one."
        )
    _need(isinstance(name, str) and name in MODELS, f"unknown model {name!r}; known: {', '.join(MODELS)}")
    return MODELS[name]


def _read_fitted(read: _Reader, cls: type, nodes: dict[str, Node], single: bool) -> dict[str, Any]:
    tasks, features = (read.value(nodes[key], key) for key in ("tasks_", "features_"))
    _need(_is_list(tasks, "biufUO") and len(tasks) > 0, "tasks_ is not a list of labels")
    _need(not missing_values(tasks).any(), "a label is missing in tasks_")
    _need(len(set(tasks.tolist())) == len(tasks), "a label occurs twice in tasks_")
    _need(_are_names(features), "features_ is not a list of names")
    m, d = len(tasks), len(features)
    _need(m == 1 or not single, f"form is 'single', but there are {m} tasks")
    c = _typed(nodes["n_features_in_"], int, "n_features_in_")
    rows = ("row_norms_", "row_slopes_", "coef_common_")
    shapes: dict[str, Shape] = {**dict.fromkeys(rows, (d,)), "feature_importances_": (c,)}
    out: dict[str, Any] = {"tasks_": tasks, "features_": features}
    of_class: Shape = ()
    if "classes_" in nodes:
        classes = out["classes_"] = read.value(nodes["classes_"], "classes_")
        _need(_is_list(classes, "biufUO") and len(set(classes.tolist())) == len(classes) > 1, "classes_ are no classes")
        _need(not missing_values(classes).any(), "a class is missing in classes_")
        of_class = (len(classes),) if len(classes) > 2 else ()
    of_task: Shape = () if single else (m,)
    for key, node in nodes.items():
        allowed = bool(ATTRIBUTE.fullmatch(key)) and key not in (*APART, "learnable_")  # no method is named so
        _need(allowed, f"{key!r} is no attribute of a fitted {cls.__name__}")
        if key in out:
            continue
        if key == "intercept_" and (of_task or of_class):
            out[key] = read.floats(node, (*of_task, *of_class), key)
        elif key in ("target_mean_", "target_sd_"):
            out[key] = read.floats(node, (m, *of_class), key)
        elif _is_shaped(key):
            out[key] = read.floats(node, shapes.get(key, (*of_task, *of_class, d)), key)
        else:
            out[key] = read.value(node, key)
        if key in TYPES:
            out[key] = _typed(out[key], TYPES[key], key)
    if single and not of_class:
        _typed(out["intercept_"], float, "intercept_")
    for key in {"intercept_", *STRENGTHS} & out.keys():
        _need(bool(np.isfinite(out[key]).all()), f"{key} is not finite")
    if PLACES in out:
        out[PLACES] = _learnable(out[PLACES], m, d)
    level = out.get("task_level_features_", np.empty(0, dtype=object))
    _need(_are_names(level) and set(level) <= set(features), "task_level_features_ are not among features_")
    if "n_samples_" in out:
        counts = out["n_samples_"]
        _need(
            _is_list(counts, "iu") and len(counts) == m and bool((counts >= 0).all()),
            "n_samples_ are no numbers of rows",
        )
        _need(0 < out.get("n_fitted_tasks_", m) <= m, "n_fitted_tasks_ is not a number of tasks")
    if "feature_names_in_" in out:
        names = out["feature_names_in_"]
        _need(_are_names(names) and len(names) == c, "feature_names_in_ does not name all columns")
    if "cv_results_" in out:
        _check_search(out)
    return {"learnable_" if key == PLACES else key: out[key] for key in nodes}


def _learnable(places: Any, m: int, d: int) -> np.ndarray:
    _need(
        _is_list(places, "iu") and bool(((places >= 0) & (places < m * d)).all()), f"{PLACES} are not places of cells"
    )
    out = np.ones(m * d, dtype=bool)
    out[places] = False
    return out.reshape(m, d)


def _check_search(values: dict[str, Any]) -> None:
    """What a search left behind fits together."""
    results, point = values["cv_results_"], values["best_point_"]
    columns = isinstance(results, dict) and all(_is_list(column, "biufO") for column in results.values())
    _need(columns and len({len(column) for column in results.values()}) == 1, "cv_results_ is not a table")
    for key in ("mean_test_score", "theta", "lam_common"):
        absent = key not in results and (key != "mean_test_score" or values["n_splits_"] == 0)
        _need(absent or _is_list(results.get(key), "f"), f"{key} of cv_results_ are no numbers")
    _need(0 <= values["best_index_"] < len(next(iter(results.values()))), "best_index_ is outside of cv_results_")
    pair = isinstance(point, tuple) and len(point) == 2 and all(type(place) is int for place in point)
    _need(pair, "best_point_ is not a pair of whole numbers")
    for key, ndim in (("lams_", 1), ("thetas_", 2)):
        floats = key not in values or (isinstance(values[key], np.ndarray) and values[key].dtype == np.float64)
        _need(
            floats and np.ndim(values.get(key, np.empty((1,) * ndim))) == ndim,
            f"{key} is not a {ndim}-D array of floats",
        )


def _read_stage(read: _Reader, node: Node, coef: Floats, where: str) -> Stage:
    m, d = coef.shape
    scalars = read.scalars(node, _scalars(Stage), where)
    rows, own, pairs = _keys(node, ("free_rows", "coef", "ambiguous"), where)
    rows = read.value(rows, where)
    _need(_is_list(rows, "iu") and bool(((rows >= 0) & (rows < d)).all()), f"free_rows of {where} are not rows")
    ambiguous = [np.empty(0, dtype=np.intp) for _ in range(m)]
    for i, columns in _pairs(pairs, where):
        places = isinstance(columns, list) and all(type(j) is int and 0 <= j < d for j in columns)
        _need(type(i) is int and 0 <= i < m and places, f"ambiguous of {where} names what is not there")
        ambiguous[i] = np.array(columns, dtype=np.intp)
    own = coef if own is None else read.floats(own, (m, d), f"coef of {where}")
    return Stage(**scalars, coef=own, free_rows=rows.astype(np.intp), ambiguous=tuple(ambiguous))


def _read_certificate(read: _Reader, node: Node, labels: list[Any]) -> Certificate:
    where = "the certificate"
    scalars = read.scalars(node, _scalars(Certificate), where)
    ambiguous = {}
    for written, names in _pairs(_keys(node, ("ambiguous",), where)[0], where):
        label = read.value(written, where)
        named = isinstance(names, list) and all(isinstance(name, str) for name in names)
        known = isinstance(label, (str, bool, int, float)) and label in labels
        _need(known and named, f"ambiguous of {where} names what is not there")
        ambiguous[label] = names
    doubt = node.get("doubt", "")  # files of earlier versions do without
    _need(isinstance(doubt, str), f"doubt of {where} is not a text")
    return Certificate(**scalars, ambiguous=ambiguous, doubt=doubt)


def _pairs(node: Node, where: str) -> list[Node]:
    pairs = isinstance(node, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in node)
    _need(pairs, f"ambiguous of {where} is not a list of pairs")
    return list(node)
