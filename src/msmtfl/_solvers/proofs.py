"""What stages have in common when they prove their solutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._data.designs import AnyData, Floats, Ints
from .._data.tables import names_of, warn_user


def scaled(scale: Floats, weights: Floats) -> Floats:
    """(m, d): the weights (d, m) of a stage on the scale (m, 1) of each task's own sums. One too large for floats excludes a
    coefficient, as it would anyway."""
    with np.errstate(over="ignore"):
        return np.asarray(scale * weights.T)


NO_MINIMISER = (
    "the targets of task(s) {} are separated by features that are not penalised (in the first of them by {}): no finite "
    "coefficients minimise the loss, and those returned only come close to its lowest value. {}, or penalise these features."
)
Proof = TypeVar("Proof", bound=Any)


def rather_zero(W: Floats, proof: Proof, certify: Callable[[Floats], Proof]) -> tuple[Floats, Proof]:
    """A solution and its proof; or zeros, if rounding has left so little of the solution that zeros are proven to be nearer
    to the optimum, with what is doubtful about it."""
    if proof.relative_gap <= 1.0:
        return W, proof
    zero = certify(np.zeros_like(W))
    return (np.zeros_like(W), replace(zero, doubt=proof.doubt)) if zero.gap < proof.gap else (W, proof)


class Separation:
    """Warns, once each, of tasks whose loss has no minimiser."""

    def __init__(self, data: AnyData, way_out: str = "Choose a larger theta or lam"):
        self.data, self.way_out = data, way_out
        self.said: set[int] = set()

    def warn(self, features: dict[int, Ints]) -> None:
        """Of tasks, with the features of a direction in which their loss always falls."""
        new = [i for i in features if i not in self.said]
        if new:
            self.said |= set(new)
            named = names_of(self.data.features[features[new[0]]])
            warn_user(NO_MINIMISER.format(names_of(self.data.labels[new]), named, self.way_out), ConvergenceWarning)
