"""Probabilities of classes, and what scores them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer, get_scorer_names

from ..._data.designs import Floats
from ..._paths.validation.scorers import Scorer

LOG_LOSS = "neg_log_loss"


class ClassScorer(Scorer):
    """A scikit-learn scorer of classifiers on probabilities that have been computed already."""

    def __init__(self, scoring: Any, X: Any, y: np.ndarray, weight: Floats | None, classes: np.ndarray):
        known = isinstance(scoring, str) and scoring in get_scorer_names()
        self.score = get_scorer(scoring) if known else scoring
        if not callable(self.score):
            raise ValueError(
                f"scoring must be {LOG_LOSS!r}, the name of a scikit-learn scorer (such as 'roc_auc' or 'accuracy') or a "
                f"callable; got {scoring!r}."
            )
        self.X, self.y, self.weight, self.classes = X, y, weight, classes
        self.weighted = weight is not None

    def _predicted(self, values: Floats) -> Any:
        return _Predicted(values, self.classes)


class LogLoss:
    """Minus the mean log-loss of probabilities of K > 2 classes, each against the rest; codes are (N,), or (N, m) with NaN
    where nothing was measured."""

    is_log_loss = True  # so that it goes down a grid as the errors of two classes do

    def __init__(self, codes: Floats, weight: Floats | None, n_classes: int):
        self.codes, self.n_classes = codes.reshape(len(codes), -1), n_classes
        shape = self.codes.shape[::-1]
        self.weight = np.ones(shape).T if weight is None else np.broadcast_to(weight.T, shape).T
        self.counts = np.isfinite(self.codes) & (self.weight > 0)

    def __call__(self, predictions: Floats, test: np.ndarray) -> float:
        p = normalised(predictions.reshape(*self.codes.shape, self.n_classes))
        row, column = np.nonzero(np.isfinite(p).all(axis=2) & test[:, None] & self.counts)
        chosen = p[row, column, self.codes[row, column].astype(np.intp)]
        losses = -np.log(np.maximum(chosen, np.finfo(float).tiny))
        return -float(np.average(losses, weights=self.weight[row, column]))


class _Predicted(ClassifierMixin, BaseEstimator):
    """A classifier that has predicted already; values are probabilities (n,), or (n, K) one against the rest."""

    def __init__(self, values: Any = None, classes: Any = None):
        self.values, self.classes = values, classes
        self.classes_ = classes

    def fit(self, X: Any, y: Any) -> _Predicted:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def decision_function(self, X: Any) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.clip(logit(self.values), -1e3, 1e3))

    def predict_proba(self, X: Any) -> Floats:
        return normalised(self.values if self.values.ndim == 2 else self.values[:, None])

    def predict(self, X: Any) -> np.ndarray:
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])


def normalised(p: Floats) -> Floats:
    """(..., K) probabilities of classes from (..., 1) of the second, or (..., K) of each against the rest."""
    if p.shape[-1] == 1:
        return np.concatenate([1.0 - p, p], axis=-1)
    total = p.sum(axis=-1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1.0 / p.shape[-1])


def probabilities(f: Floats, together: bool = False) -> Floats:
    """(..., K) from linear predictors: (..., 1) of the second class, or (..., K), of each against the rest or of all of them
    together."""
    return np.asarray(softmax(f, axis=-1)) if together else normalised(expit(f))
