"""Predictions as an ONNX graph."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._data.tables import names_of
from .._estimators.new_tasks import Line, new_line
from .linear import RESPONSES, linear_model, parts_of

OPSET, IR = 19, 9  # of ONNX: the first that compares text, and the file version that goes with it


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
    from .. import __version__

    model, link = linear_model(model)
    labels, coef, intercept = parts_of(model)
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
