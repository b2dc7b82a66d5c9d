"""The coefficients of a fitted model by class: several where there are more than two classes, one otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._data.designs import Floats
from .._data.tables import choices_of
from .._estimators.fitted import is_model, model_chosen


def coef_by_class(model: Any) -> Floats:
    """(m, K, d): the coefficients of a fitted model of this package; K is 1 but for classifiers with more than two classes.

    There is no such thing as "the" coefficient of a feature over several classes: the largest of them may be that of
    another class in every task, and its sign too."""
    model = model_chosen(model)
    if not is_model(model):
        raise TypeError(
            f"give a fitted model such as MSMTFL(), not {type(model).__name__}; of a Pipeline, its last step."
        )
    check_is_fitted(model, "coef_")
    return split_classes(model.coef_, len(model.tasks_))


def split_classes(coef: Floats, m: int) -> Floats:
    """(m, K, d) of coefficients in whatever shape: of tasks, and of the classes of each if there are several."""
    return np.reshape(coef, (m, -1, np.shape(coef)[-1]))


def size_over_classes(coef: Floats) -> Floats:
    """(m, d): how much a feature counts in a task, the sum of |coefficients| over the classes of (m, K, d)."""
    return np.asarray(np.abs(coef).sum(axis=1))


def class_place(model: Any, class_of_interest: Any) -> int:
    """The place of a class among those that have coefficients of their own."""
    known = model.classes_.tolist() if hasattr(model, "classes_") else []
    if len(known) < 3:
        raise ValueError(
            f"class_of_interest={class_of_interest!r}: coefficients are of classes where there are more than two; this "
            f"{type(model).__name__} has {len(known) or 'none'}. Leave it out."
        )
    if class_of_interest not in known:
        raise ValueError(f"no class {class_of_interest!r}: {choices_of(class_of_interest, known)}.")
    return known.index(class_of_interest)
