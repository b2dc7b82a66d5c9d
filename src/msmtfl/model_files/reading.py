"""From a document to the fitted model, with nothing taken on trust."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._data.categories import of_model
from .._data.designs import Floats
from .._data.tables import missing_values, names_of
from .._estimators.classification.classes import labels_of
from .._estimators.families import family_of, known_strengths
from .._estimators.fitted import check_use
from .._objective.proofs.certificates import Certificate
from .._objective.shapes import Lost
from .._paths.conformal import HeldOutScores
from .._solvers.stages import Stage
from .layout import (
    APART,
    ATTRIBUTE,
    FORMAT,
    HELD_OUT,
    PLACES,
    PREDICTING,
    VERSION,
    Node,
    Shape,
    beyond_range,
    finite_attributes,
    is_shaped,
    scalar_fields,
    stored_models,
    types_of_attributes,
)
from .values import Reader, are_names, are_texts, is_list, need, parts_of, typed


def model_of(document: Node, read: Reader) -> tuple[Any, dict[str, str]]:
    """The model, and the parameters that it does not have from the file."""
    cls, required = _check_header(document)
    parameters, not_stored, fitted = (
        typed(node, dict, name)
        for name in ("parameters", "parameters_not_stored", "fitted")
        for node in parts_of(document, (name,), "the document")
    )
    form, position, provenance = parts_of(document, ("form", "task_position", "provenance"), "the document")
    unknown = sorted(set(parameters) - set(cls._get_param_names()))
    need(not unknown, f"{cls.__name__} has no parameter {names_of(unknown)}")
    model: Any = cls(**{key: read.value(node, f"parameter {key}") for key, node in parameters.items()})
    check_use(model)
    need(not isinstance(model.task_column, (dict, np.ndarray)), "task_column is not a name or a position")
    if "penalty" in not_stored and hasattr(model, "penalty"):
        model.penalty = Lost(typed(not_stored["penalty"], str, "parameters_not_stored"))
    need(form in ("single", "long", "wide"), f"form {form!r} is unknown")
    parts_of(fitted, required, "fitted")
    for key, value in _read_fitted(read, cls, fitted, form == "single").items():
        setattr(model, key, value)
    d = len(model.features_)
    places = [] if position is None else position if isinstance(position, list) else [position]
    need(
        all(type(place) is int and 0 <= place < d + len(places) for place in places)
        and len(set(places)) == len(places),
        f"task_position is {position!r}",
    )
    need(isinstance(model.task_column, (list, tuple)) or len(places) < 2, f"task_position is {position!r}")
    position = tuple(places) if isinstance(position, list) else position
    encoding = of_model(model)
    columns = d if encoding is None else len(encoding.columns)
    need(model.n_features_in_ == columns + len(places), f"n_features_in_ is {model.n_features_in_}")
    model._form, model._task_position = form, position
    if "n_stages_" in required:
        certificate, stages = parts_of(document, ("certificate", "stages"), "the document")
        stages = typed(stages, list, "stages")
        need(model.n_stages_ == len(stages) > 0, f"n_stages_ is {model.n_stages_}, but there are {len(stages)} stages")
        coef = model.coef_.reshape(-1, d)
        model.stages_ = [_read_stage(read, node, coef, f"stage {k + 1}") for k, node in enumerate(stages)]
        model.certificate_ = _read_certificate(read, certificate, labels_of(model))
    need(not read.members, f"the document does not name member(s) {names_of(read.members)} of the zip archive")
    model.provenance_ = typed(provenance, dict, "provenance")
    typed(provenance.get("versions", {}), dict, "versions")
    choice = typed(provenance.get("choice", {}), dict, "choice")
    need(not choice or are_texts(parts_of(choice, ("chosen", "reason"), "choice")), "choice is not told in texts")
    model._from_file = model.coef_  # a new fit makes new ones, to which the provenance does not apply
    return model, not_stored


def _check_header(document: Node) -> tuple[type[BaseEstimator], tuple[str, ...]]:
    known = isinstance(document, dict) and document.get("format") == FORMAT
    need(known, f'this is not a model of msmtfl: its document does not say "format": "{FORMAT}"')
    version, name = parts_of(document, ("format_version", "model"), "the document")
    need(type(version) is int and version >= 1, f"format_version {version!r} is not a whole number from 1")
    if version > VERSION:
        origin = document.get("provenance")
        versions = origin.get("versions") if isinstance(origin, dict) else None
        made_by = f"msmtfl {versions.get('msmtfl')}" if isinstance(versions, dict) else "a newer msmtfl"
        raise ValueError(
            f"this file has format version {version} (written by {made_by}); the msmtfl installed here reads versions up to "
            f"{VERSION}. Upgrade it (pip install --upgrade msmtfl), or fit and save the model again with this one."
        )
    known = stored_models()
    need(isinstance(name, str) and name in known, f"unknown model {name!r}; known: {', '.join(known)}")
    return known[name]


def _read_fitted(read: Reader, cls: type, nodes: dict[str, Node], single: bool) -> dict[str, Any]:
    tasks, features = (read.value(nodes[key], key) for key in ("tasks_", "features_"))
    need(is_list(tasks, "biufUO") and len(tasks) > 0, "tasks_ is not a list of labels")
    need(not missing_values(tasks).any(), "a label is missing in tasks_")
    need(len(set(tasks.tolist())) == len(tasks), "a label occurs twice in tasks_")
    need(are_names(features), "features_ is not a list of names")
    m, d = len(tasks), len(features)
    need(m == 1 or not single, f"form is 'single', but there are {m} tasks")
    c = typed(nodes["n_features_in_"], int, "n_features_in_")
    shapes: dict[str, Shape] = {**dict.fromkeys(("row_norms_", "row_slopes_"), (d,)), "feature_importances_": (c,)}
    out: dict[str, Any] = {"tasks_": tasks, "features_": features}
    for part in (part for part in family_of(cls).parts if part.lines):
        lines, places = (read.value(nodes[key], key) for key in (part.lines, part.places))
        need(is_list(lines, "UO") and len(lines) > 0, f"{part.lines} is not a list of names")
        whole = isinstance(places, np.ndarray) and places.dtype.kind in "iu" and places.ndim == 2 and len(places) == m
        inside = whole and bool(((places >= 0) & (places < len(lines))).all())
        need(inside, f"{part.places} does not name lines of {part.attribute} for every task")
        out[part.lines], out[part.places] = lines, places
    of_class: Shape = ()
    if "classes_" in nodes:
        classes = out["classes_"] = read.value(nodes["classes_"], "classes_")
        need(is_list(classes, "biufUO") and len(set(classes.tolist())) == len(classes) > 1, "classes_ are no classes")
        need(not missing_values(classes).any(), "a class is missing in classes_")
        of_class = (len(classes),) if len(classes) > 2 else ()
    of_task: Shape = () if single else (m,)
    shapes |= {part.attribute: (*of_class, d) for part in family_of(cls).parts if part.common}
    shapes |= {part.attribute: (len(out[part.lines]), *of_class, d) for part in family_of(cls).parts if part.lines}
    types = types_of_attributes()
    for key, node in nodes.items():
        allowed = bool(ATTRIBUTE.fullmatch(key)) and key not in (*APART, "learnable_")  # no method is named so
        need(allowed, f"{key!r} is no attribute of a fitted {cls.__name__}")
        if key in out:
            continue
        if key == "intercept_" and (of_task or of_class):
            out[key] = read.floats(node, (*of_task, *of_class), key, finite=False)
        elif key in ("target_mean_", "target_sd_"):
            out[key] = read.floats(node, (m, *of_class), key)
        elif key == "feature_sd_":
            out[key] = read.floats(node, (d,), key)
        elif is_shaped(key):
            out[key] = read.floats(node, shapes.get(key, (*of_task, *of_class, d)), key, finite=key != "coef_")
        else:
            out[key] = read.value(node, key)
        if key in types:
            out[key] = typed(out[key], types[key], key)
    if single and not of_class:
        typed(out["intercept_"], float, "intercept_")
    for key in PREDICTING:
        need(not (fault := beyond_range(key, out[key], tasks)), fault)
    for key in finite_attributes() & out.keys():
        need(bool(np.isfinite(out[key]).all()), f"{key} is not finite")
    if HELD_OUT in out:
        kept = typed(out[HELD_OUT], dict, HELD_OUT)
        fitted = typed(out.get("n_fitted_tasks_", m), int, "n_fitted_tasks_")
        out[HELD_OUT] = HeldOutScores.of_dict(kept, fitted, d, of_class[0] if of_class else 1)
    if PLACES in out:
        out[PLACES] = _learnable(out[PLACES], m, d)
    if "categories_" in out:
        _check_categories(out["categories_"], features)
    names = out.get("feature_groups_")
    need(
        names is None or (are_names(names) and len(names) == d),
        "feature_groups_ does not name a group of every feature",
    )
    level = out.get("task_level_features_", np.empty(0, dtype=object))
    need(are_names(level) and set(level) <= set(features), "task_level_features_ are not among features_")
    if "n_samples_" in out:
        counts = out["n_samples_"]
        need(
            is_list(counts, "iu") and len(counts) == m and bool((counts >= 0).all()),
            "n_samples_ are no numbers of rows",
        )
        need(0 < out.get("n_fitted_tasks_", m) <= m, "n_fitted_tasks_ is not a number of tasks")
    if "feature_names_in_" in out:
        names = out["feature_names_in_"]
        need(are_names(names) and len(names) == c, "feature_names_in_ does not name all columns")
    if "cv_results_" in out:
        _check_search(out)
    return {"learnable_" if key == PLACES else key: out[key] for key in nodes}


def _check_categories(levels: Any, features: np.ndarray) -> None:
    """Levels of columns, each with a feature of its own."""
    lists = isinstance(levels, dict) and all(isinstance(one, list) and one for one in levels.values())
    need(lists, "categories_ are no lists of levels")
    plain = all(isinstance(level, (str, bool, int, float)) for one in levels.values() for level in one)
    need(plain and all(len(set(one)) == len(one) for one in levels.values()), "categories_ hold what are no levels")
    made = {f"{name}={level}" for name, one in levels.items() for level in one}
    need(made <= {str(name) for name in features}, "a level in categories_ has no feature")


def _learnable(places: Any, m: int, d: int) -> np.ndarray:
    need(is_list(places, "iu") and bool(((places >= 0) & (places < m * d)).all()), f"{PLACES} are not places of cells")
    out = np.ones(m * d, dtype=bool)
    out[places] = False
    return out.reshape(m, d)


def _check_search(values: dict[str, Any]) -> None:
    """What a search left behind fits together."""
    results, point = values["cv_results_"], values["best_point_"]
    columns = isinstance(results, dict) and all(is_list(column, "biufO") for column in results.values())
    need(columns and len({len(column) for column in results.values()}) == 1, "cv_results_ is not a table")
    for key in ("mean_test_score", *(one.name for one in known_strengths())):
        absent = key not in results and (key != "mean_test_score" or values["n_splits_"] == 0)
        need(absent or is_list(results.get(key), "f"), f"{key} of cv_results_ are no numbers")
    need(0 <= values["best_index_"] < len(next(iter(results.values()))), "best_index_ is outside of cv_results_")
    pair = isinstance(point, tuple) and len(point) == 2 and all(type(place) is int for place in point)
    need(pair, "best_point_ is not a pair of whole numbers")
    for key, ndim in (("lams_", 1), ("thetas_", 2)):
        floats = key not in values or (isinstance(values[key], np.ndarray) and values[key].dtype == np.float64)
        need(
            floats and np.ndim(values.get(key, np.empty((1,) * ndim))) == ndim,
            f"{key} is not a {ndim}-D array of floats",
        )


def _read_stage(read: Reader, node: Node, coef: Floats, where: str) -> Stage:
    m, d = coef.shape
    scalars = read.scalars(node, scalar_fields(Stage), where)
    rows, own, pairs = parts_of(node, ("free_rows", "coef", "ambiguous"), where)
    rows = read.value(rows, where)
    need(is_list(rows, "iu") and bool(((rows >= 0) & (rows < d)).all()), f"free_rows of {where} are not rows")
    ambiguous = [np.empty(0, dtype=np.intp) for _ in range(m)]
    for i, columns in _pairs(pairs, where):
        places = isinstance(columns, list) and all(type(j) is int and 0 <= j < d for j in columns)
        need(type(i) is int and 0 <= i < m and places, f"ambiguous of {where} names what is not there")
        ambiguous[i] = np.array(columns, dtype=np.intp)
    own = coef if own is None else read.floats(own, (m, d), f"coef of {where}")
    return Stage(**scalars, coef=own, free_rows=rows.astype(np.intp), ambiguous=tuple(ambiguous))


def _read_certificate(read: Reader, node: Node, labels: list[Any]) -> Certificate:
    where = "the certificate"
    scalars = read.scalars(node, scalar_fields(Certificate), where)
    ambiguous = {}
    for written, names in _pairs(parts_of(node, ("ambiguous",), where)[0], where):
        label = read.value(written, where)
        named = isinstance(names, list) and all(isinstance(name, str) for name in names)
        known = isinstance(label, (str, bool, int, float)) and label in labels
        need(known and named, f"ambiguous of {where} names what is not there")
        ambiguous[label] = names
    doubt = node.get("doubt", "")  # files of earlier versions do without
    need(isinstance(doubt, str), f"doubt of {where} is not a text")
    return Certificate(**scalars, ambiguous=ambiguous, doubt=doubt)


def _pairs(node: Node, where: str) -> list[Node]:
    pairs = isinstance(node, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in node)
    need(pairs, f"ambiguous of {where} is not a list of pairs")
    return list(node)
