"""Errors on the samples that folds hold out, for all folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..._data.designs import Floats

OfFold = tuple[Floats, Floats, Floats | None, np.ndarray]  # what `HeldOut` has, of one fold


@dataclass(frozen=True)
class HeldOut:
    """Errors on held-out rows.

    mse is (folds, m, K, L), NaN where a fold holds no row of a task; weight (folds, m) is the sum of the sample weights of
    the rows held out; scores (folds, K, L) are a scorer's, if there is one; complete (folds, K, L) says where a fold's
    solution is the one that the model itself gives on the training rows (`Solutions.complete`).
    """

    mse: Floats
    weight: Floats
    scores: Floats | None
    complete: np.ndarray

    @property
    def reached(self) -> np.ndarray:
        """(folds, K, L) bool: where errors were measured at all."""
        return np.asarray(np.isfinite(self.mse).any(axis=1))

    @classmethod
    def of(cls, folds: Sequence[OfFold]) -> HeldOut:
        mse, weight, scores, complete = zip(*folds, strict=True)
        return cls(np.array(mse), np.array(weight), None if scores[0] is None else np.array(scores), np.array(complete))
