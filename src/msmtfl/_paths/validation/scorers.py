"""Scores of predictions that have been made already: what scikit-learn's scorers, or any callable, say of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

from ..._data.designs import Floats
from ..._data.tables import Table, Targets
from ..._data.tasks import check_weights

ERRORS = ("neg_nmse", "neg_amse", "neg_mse", "neg_deviance")  # what is scored without a scorer
Scoring: TypeAlias = str | Callable[..., float]


class Scorer:
    """A scikit-learn scorer, or any callable (estimator, X, y), on predictions that have been made already."""

    def __init__(self, scoring: Scoring, X: Table, y: Targets, sample_weight: ArrayLike | None):
        known = isinstance(scoring, str) and scoring in get_scorer_names()
        score: Any = get_scorer(scoring) if known else scoring
        if not callable(score):
            raise ValueError(
                f"scoring must be one of {', '.join(map(repr, ERRORS))}, the name of a scikit-learn scorer or a callable; "
                f"got {scoring!r}."
            )
        self.score: Callable[..., float] = score
        if known and "predict" not in np.atleast_1d(getattr(self.score, "_response_method", "predict")):
            raise ValueError(
                f"scoring={scoring!r} is for classifiers: it asks for probabilities, and a regression has none. Use one of "
                f"{', '.join(map(repr, ERRORS))}, or a scorer of regressions, such as 'r2'."
            )
        self.X, self.y = X, np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y, dtype=np.float64)
        if self.y.ndim == 2 and np.isnan(self.y).any():
            raise ValueError(
                f"scoring={scoring!r} cannot be used with missing values in y: use one of {', '.join(map(repr, ERRORS))}."
            )
        self.weight = check_weights(sample_weight, self.y.shape)
        if self.weight is not None and self.weight.ndim == 2:
            raise ValueError(
                f"scoring={scoring!r} takes one weight per row, not one per row and task: use one of "
                f"{', '.join(map(repr, ERRORS))}."
            )
        self.weighted = self.weight is not None and "sample_weight" in _parameters(self.score)

    def _rows(self, rows: np.ndarray) -> Any:
        """Of X, for scorers that look at it."""
        given: Any = self.X
        X = given.iloc if hasattr(given, "iloc") else given.tocsr() if hasattr(given, "tocsr") else given
        return X[rows] if hasattr(given, "shape") else None

    def __call__(self, predictions: Floats, test: np.ndarray) -> float:
        rows = np.flatnonzero(test & ~np.isnan(predictions.reshape(len(test), -1)).any(axis=1))
        options = {"sample_weight": self.weight[rows]} if self.weighted and self.weight is not None else {}
        return float(self.score(self._predicted(predictions[rows]), self._rows(rows), self.y[rows], **options))

    def _predicted(self, values: Floats) -> object:
        return _Predicted(values)


def _parameters(call: Callable[..., object]) -> Iterable[str]:
    try:
        return inspect.signature(call).parameters
    except (TypeError, ValueError):
        return ()


class _Predicted(RegressorMixin, BaseEstimator):
    """An estimator that has predicted already."""

    def __init__(self, values: Floats | None = None):
        self.values = values

    def fit(self, X: object, y: object) -> _Predicted:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: object) -> Floats | None:
        return self.values
