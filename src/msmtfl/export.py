"""Predictions where Python is not: a fitted model as SQL, or as an ONNX graph."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ._data.designs import Floats
from ._data.tables import names_of
from ._estimators.fitted import is_model, loss_of, model_chosen
from ._estimators.new_tasks import Line, new_line
from ._objective.losses import loss_named

TERMS = 16  # of a sum without parentheses
# in SQL, and as nodes of ONNX after the linear predictor
RESPONSES = {"identity": ("{}", ""), "exp": ("EXP({})", "Exp"), "expit": ("1.0e0 / (1.0e0 + EXP(-({})))", "Sigmoid")}
QUOTES = {'"': '"', "`": "`", "[": "]"}  # that begin and end a name
OPSET, IR = 19, 9  # of ONNX: the first that compares text, and the file version that goes with it


def _exported(model: Any) -> tuple[Any, str]:
    """The fitted model, and what becomes of its linear predictor; an error that says the way out where that is not one
    function of it."""
    model = model_chosen(model)
    if hasattr(model, "steps"):
        raise TypeError(
            "a Pipeline cannot be exported whole. Export its last step, pipeline[-1], for columns that the steps before it "
            "have made; or do without such steps: standardize=True of the model scales columns, and its coefficients stay "
            "in the table's units."
        )
    if not is_model(model):
        raise TypeError(f"only models of this package can be exported, got {type(model).__name__}.")
    check_is_fitted(model, "coef_")
    link = "expit" if is_classifier(model) else loss_named(loss_of(model)).link
    if is_classifier(model) and (len(model.classes_) != 2 or np.ndim(model.coef_) == 3):
        raise ValueError(
            f"this classifier tells {len(model.classes_)} classes apart by several linear predictors, and one can be "
            "exported: fit a model to one class against the others. Probabilities of all classes: "
            "load_model(path).predict_proba(...) in Python, or `msmtfl predict` on the command line."
        )
    if link not in RESPONSES:
        raise ValueError(
            f"loss={model.loss!r}: predictions are no function of the linear predictor that SQL or ONNX have."
        )
    if getattr(model, "uses_offset_", False):
        raise ValueError(
            "this model was fitted with an offset, which would be left out of what is exported. With squared loss fit it to "
            "y - offset, which gives the same coefficients, and add the offset to the predictions; of other losses export a "
            "model of the same data without offset, or predict in Python."
        )
    return model, link


def _parts(model: Any) -> tuple[list[Any], Floats, Floats]:
    """Labels, coefficients (m, d) and intercepts (m,) of a fitted model."""
    labels = [label.item() if isinstance(label, np.generic) else label for label in model.tasks_.tolist()]
    return labels, np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)


# ------------------------------------------------------------------ SQL


@overload
def to_sql(model: Any, *, task_column: None = None, table: None = None, quote: str = '"') -> dict[Any, str]: ...


@overload
def to_sql(model: Any, *, task_column: str | None = None, table: str | Sequence[str], quote: str = '"') -> str: ...


def to_sql(
    model: Any,
    *,
    task_column: str | None = None,
    table: str | Sequence[str] | None = None,
    quote: str = '"',
) -> dict[Any, str] | str:
    """Write a fitted model as SQL: sums of products that any database can compute.

    What is written is what `predict` returns; of a classifier of two classes it is the probability of the second one
    (``classes_[1]``). Models of counts and amounts, whose predictions are exp of a sum, and classifiers need EXP, which
    databases have (SQLite from 3.35 on, if it was compiled with its functions of mathematics).

    Numbers are written as Python writes them, which is exact, with an exponent, which makes them floating
    point in SQL. Coefficients that are 0 are left out. Long sums are nested in parentheses, 16 terms at a
    time, so that 5,000 features make an expression some 50 deep (SQLite allows 1,000). A NULL among the
    features makes the prediction NULL. SQLite takes time with the square of the terms of a statement,
    seconds for 10,000: where all tasks together have more, run one statement per task, made of the
    expressions.

    Parameters
    ----------
    model : estimator
        A fitted model of this package.
    task_column : str, optional
        The column of the table that identifies the task; by default the one that the model was fitted
        with. Only with `table`.
    table : str or sequence of str, optional
        Write a whole SELECT from this table (("schema", "table") for one in a schema).
    quote : {'"', '`', '['}, default='"'
        The quotes around names: standard SQL, MySQL, SQL Server. SQLite takes a name in double quotes that
        is no column for a text; there '`' is safer.

    Returns
    -------
    dict {label: expression} or str
        An expression per task; or, with `table`, a statement: all columns of the table and `prediction`,
        chosen by the column that identifies the task. A label never seen gives NULL, or with
        ``unknown_task="mean"`` the prediction with the mean coefficients. For a model fitted with a 2-D y
        (and no `task_column`) there is one column per task, under its label.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.export import to_sql
    >>> X = np.array([[-1, 1], [1, 1], [-1, -1], [1, -1]] * 2)
    >>> model = MSMTFL(lam=0.5).fit(X, 1 + 2 * X[:, 0], task=np.repeat(["north", "south"], 4))
    >>> print(to_sql(model, table="winter", task_column="place"))
    SELECT *, CASE "place"
      WHEN 'north' THEN 1.0e0 + 1.5e0 * "x0"
      WHEN 'south' THEN 1.0e0 + 1.5e0 * "x0"
    END AS "prediction"
    FROM "winter"
    """
    model, link = _exported(model)
    labels, coef, intercept = _parts(model)
    if quote not in QUOTES:
        raise ValueError(f"quote must be one of {', '.join(QUOTES)}, got {quote!r}.")
    names = [_name(name, quote) for name in model.features_.tolist()]
    expressions = [_expression(w, b, names, link) for w, b in zip(coef, intercept.tolist(), strict=True)]
    if table is not None:
        _refuse_equals(labels)
    if table is None:
        if task_column is not None:
            raise ValueError("task_column= goes with table=: without, there is one expression per task.")
        return dict(zip(labels, expressions, strict=True))
    if model._form == "single":
        columns = [f"{expressions[0]} AS {_name('prediction', quote)}"]
    elif model._form == "wide" and task_column is None:
        columns = [
            f"{expression} AS {_name(str(label), quote)}" for label, expression in zip(labels, expressions, strict=True)
        ]
    else:
        cases = [f"  WHEN {_literal(label, quote)} THEN {one}" for label, one in zip(labels, expressions, strict=True)]
        if model.unknown_task != "error":
            w, b = new_line(model, coef[:, None], intercept[:, None])
            cases.append(f"  ELSE {_expression(w[0], float(b[0]), names, link)}")
        column = _name(_task_name(model, task_column), quote)
        columns = ["\n".join([f"CASE {column}", *cases, f"END AS {_name('prediction', quote)}"])]
    source = ".".join(_name(part, quote) for part in ([table] if isinstance(table, str) else table))
    return f"SELECT {', '.join(['*', *columns])}\nFROM {source}"


def _task_name(model: Any, given: str | None) -> str:
    if given is not None:
        return given
    if isinstance(model.task_column, str):
        return str(model.task_column)
    if isinstance(model.task_column, (list, tuple)):
        raise ValueError(
            f"the tasks have levels, in the columns {names_of(model.task_column)}: pass task_column=, a column of the table "
            f"with labels as in tasks_, such as {model.tasks_.tolist()[0]!r}."
        )
    if model._task_position is not None and hasattr(model, "feature_names_in_"):
        return str(model.feature_names_in_[model._task_position])
    raise ValueError(
        "pass task_column=, the column of the table that says the task: the model knows it by labels only."
    )


def _refuse_equals(labels: list[Any]) -> None:
    """An error if a number and a text among the labels are the same to a database, or to a reader of column names."""
    numbers = {float(label): label for label in labels if isinstance(label, (bool, int, float))}
    for text in (label for label in labels if isinstance(label, str)):
        try:
            value = float(text)
        except ValueError:
            value = {"true": 1.0, "false": 0.0}.get(text.lower(), float("nan"))
        if value in numbers:
            raise ValueError(
                f"task labels {numbers[value]!r} and {text!r} are the same in SQL, where texts and numbers are compared. "
                "Relabel one of them and fit again; or take the expressions, one per task, without table=."
            )


def _expression(w: Floats, intercept: float, names: list[str], link: str) -> str:
    """What is predicted, from intercept + w . x as a tree of sums."""
    terms = [_number(intercept)] if intercept != 0.0 else []
    terms += [f"{_number(float(w[j]))} * {names[j]}" for j in np.flatnonzero(w)]
    while len(terms) > TERMS:
        terms = [f"({' + '.join(terms[k : k + TERMS])})" for k in range(0, len(terms), TERMS)]
    return RESPONSES[link][0].format(" + ".join(terms) or _number(0.0))


def _number(value: float) -> str:
    text = repr(value)
    return text if "e" in text else text + "e0"


def _name(name: str, quote: str) -> str:
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(f"{name!r} cannot be a name in SQL. Rename it and fit again.")
    end = QUOTES[quote]
    return f"{quote}{name.replace(end, 2 * end)}{end}"


def _literal(label: Any, quote: str) -> str:
    if isinstance(label, bool):
        return str(label).upper()
    if isinstance(label, int) and -(2**63) <= label < 2**63:
        return str(label)
    if isinstance(label, float) and np.isfinite(label):
        return _number(label)
    if isinstance(label, str) and "\0" not in label and not (quote == "`" and "\\" in label):
        return "'" + label.replace("'", "''") + "'"
    way_out = " with quote='`': databases differ in what a backslash means" if quote == "`" else ""
    raise ValueError(f"task label {label!r} cannot be written in SQL{way_out}. Relabel the tasks and fit again.")


# ------------------------------------------------------------------ ONNX


def to_onnx(model: Any) -> Any:
    """Write a fitted model as an ONNX graph of standard operators (opset 19; needs `onnx`).

    Inputs are `X`, double, (samples, d) in the order of `features_` without the column that identifies the
    task, and, if the model was fitted with labels, `task`, (samples,) labels: text, int64, double or bool.
    Output is `prediction`, double, (samples,); (samples, m) if the model was fitted with a 2-D y. A label
    never seen gives NaN, or with ``unknown_task="mean"`` the prediction with the mean coefficients. Of a classifier
    of two classes the output is the probability of the second one. The
    metadata `features` and `tasks` hold their names as JSON.

    Parameters
    ----------
    model : estimator
        A fitted model of this package.

    Returns
    -------
    onnx.ModelProto
        The graph; ``onnx.save(to_onnx(model), "model.onnx")`` writes a file.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.export import to_onnx
    >>> X, task = np.random.default_rng(0).standard_normal((40, 3)), np.repeat(["north", "south"], 20)
    >>> model = MSMTFL().fit(X, X[:, 0], task=task)
    >>> import onnxruntime
    >>> session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    >>> (prediction,) = session.run(["prediction"], {"X": X[:3], "task": task[:3].astype(object)})
    >>> np.allclose(prediction, model.predict(X[:3], task=task[:3]))
    True
    """
    from . import __version__

    model, link = _exported(model)
    labels, coef, intercept = _parts(model)
    onnx = _onnx()
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    inputs = [helper.make_tensor_value_info("X", double, ["rows", coef.shape[1]])]
    if model._form == "long":
        tensor = _label_tensor(onnx, labels)
        of_new = None if model.unknown_task == "error" else new_line(model, coef[:, None], intercept[:, None])
        inputs.append(helper.make_tensor_value_info("task", tensor.data_type, ["rows"]))
        nodes, constants = _by_label(onnx, coef, intercept, of_new)
        tensors = [tensor]
    else:
        wide = model._form == "wide"
        nodes = [("MatMul", "X coef", "sums", {}), ("Add", "sums intercept", "prediction", {})]
        constants = {"coef": coef.T if wide else coef[0], "intercept": intercept if wide else intercept[0]}
        tensors = []
    if response := RESPONSES[link][1]:
        kind, into, _, more = nodes.pop()
        nodes += [(kind, into, "predictor", more), (response, "predictor", "prediction", {})]
    tensors += [onnx.numpy_helper.from_array(np.array(value), name) for name, value in constants.items()]
    shape = ["rows", len(labels)] if model._form == "wide" else ["rows"]
    graph = helper.make_graph(
        [helper.make_node(kind, into.split(), [out], **options) for kind, into, out, options in nodes],
        type(model).__name__,
        inputs,
        [helper.make_tensor_value_info("prediction", double, shape)],
        tensors,
    )
    out = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    out.producer_name, out.producer_version = "msmtfl", __version__
    helper.set_model_props(out, {"features": json.dumps(model.features_.tolist()), "tasks": json.dumps(labels)})
    onnx.checker.check_model(out)
    return out


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise ImportError('to_onnx needs onnx: pip install onnx, or "msmtfl[onnx]".') from error
    return onnx


Node = tuple[str, str, str, dict[str, Any]]  # operator, inputs, output, options


def _by_label(onnx: Any, coef: Floats, intercept: Floats, of_new: Line | None) -> tuple[list[Node], dict[str, Any]]:
    """Operators and constants that take every row's coefficients by its label; costs rows (m + d)."""
    whole, flag = {"to": onnx.TensorProto.INT32}, {"to": onnx.TensorProto.BOOL}
    nodes: list[Node] = [
        ("Unsqueeze", "task one", "column", {}),
        ("Equal", "column labels", "equal", {}),  # (rows, m)
        ("Cast", "equal", "which", whole),
        ("ArgMax", "which", "place", {"axis": 1, "keepdims": 0}),
        ("Gather", "coef place", "w", {}),
        ("Mul", "X w", "terms", {}),
        ("ReduceSum", "terms one", "sums", {"keepdims": 0}),
        ("Gather", "intercept place", "b", {}),
        ("Add", "sums b", "of_task", {}),
        ("ReduceMax", "which one", "found", {"keepdims": 0}),
        ("Cast", "found", "known", flag),
    ]
    constants = {"one": np.array([1]), "coef": coef, "intercept": intercept}
    if of_new is not None:
        nodes += [("MatMul", "X mean_coef", "mean_sums", {}), ("Add", "mean_sums mean_intercept", "of_others", {})]
        constants |= {"mean_coef": of_new[0][0], "mean_intercept": np.asarray(of_new[1][0])}
    else:
        constants |= {"of_others": np.array(np.nan)}
    return [*nodes, ("Where", "known of_task of_others", "prediction", {})], constants


def _label_tensor(onnx: Any, labels: list[Any]) -> Any:
    """The labels as a tensor of ONNX."""
    kinds = onnx.TensorProto
    known = {str: kinds.STRING, int: kinds.INT64, float: kinds.DOUBLE, bool: kinds.BOOL}
    types = {type(label) for label in labels}
    large = types == {int} and not all(-(2**63) <= label < 2**63 for label in labels)
    if len(types) > 1 or not types <= set(known) or large:
        raise ValueError(
            f"task labels {names_of(labels)} do not fit into one type of ONNX. Relabel the tasks with text or whole numbers "
            "(of 64 bits) and fit again."
        )
    entries = [label.encode() if isinstance(label, str) else label for label in labels]
    return onnx.helper.make_tensor("labels", known[types.pop()], [len(labels)], entries)
