"""What is exported of a fitted model: coefficients and intercepts of its tasks, and what becomes of the linear predictor."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from .._data.designs import Floats
from .._estimators.fitted import is_model, loss_of, model_chosen
from .._objective.losses import loss_named

# in SQL, and as nodes of ONNX after the linear predictor
RESPONSES = {"identity": ("{}", ""), "exp": ("EXP({})", "Exp"), "expit": ("1.0e0 / (1.0e0 + EXP(-({})))", "Sigmoid")}


def linear_model(model: Any) -> tuple[Any, str]:
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


def parts_of(model: Any) -> tuple[list[Any], Floats, Floats]:
    """Labels, coefficients (m, d) and intercepts (m,) of a fitted model."""
    labels = [label.item() if isinstance(label, np.generic) else label for label in model.tasks_.tolist()]
    return labels, np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
