"""Steps on rows that couple the tasks: line searches, inverses of their blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotrf, dpotri

from ...._data.designs import Floats, Ints
from ...._kernels.products import extend

BATCHED = (
    48  # up to this order matrices are inverted together, or factored in the kernel, and Gram matrices kept together
)


def lowest(value: Callable[[float], float]) -> float:
    """Where in (2^-40, 1] a convex function is smallest: a golden section of the exponents."""
    low, high, share = -40.0, 0.0, 0.5 * (np.sqrt(5.0) - 1.0)
    left, right = high - share * (high - low), low + share * (high - low)
    at_left, at_right = value(2.0**left), value(2.0**right)
    while high - low > 0.05:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - share * (high - low)
            at_left = value(2.0**left)
        else:
            low, left, at_left = left, right, at_right
            right = low + share * (high - low)
            at_right = value(2.0**right)
    return float(2.0 ** (left if at_left < at_right else right))


def block_inverses(A: Floats, among: np.ndarray | None = None) -> Floats | None:
    """A^-1 of positive definite matrices (count, k, k), or of their parts `among` (count, k) bool of the rows and columns,
    0 elsewhere; None if one of them is not definite. A is used up."""
    k = A.shape[1]
    if k <= BATCHED:
        if among is not None:
            A *= among[:, :, None] & among[:, None, :]
            A[:, np.arange(k), np.arange(k)] += ~among
        try:
            A = np.asarray(np.linalg.inv(A))
        except LinAlgError:
            return None
        out: Floats | None = A if among is None else A * (among[:, :, None] & among[:, None, :])
        return out
    every = np.arange(k)
    for i, one in enumerate(A):
        part = every if among is None or among[i].all() else np.flatnonzero(among[i])
        if part.size == 0:
            one[:] = 0.0
            continue
        whole = len(part) == k
        factor, failed = dpotrf((one if whole else one[part[:, None], part]).T, lower=1, overwrite_a=1)
        if failed:
            return None
        inverse, _ = dpotri(factor, lower=1, overwrite_c=1)  # its lower triangle, 0 above
        diagonal = inverse.diagonal().copy()
        inverse = inverse + inverse.T
        inverse.flat[:: len(part) + 1] = diagonal
        if whole:
            one[:] = inverse
        else:
            one[:] = 0.0
            one[part[:, None], part] = inverse
    return A


def between(Q: Floats, rows: Ints) -> Floats:
    """(count, k, k): symmetric matrices (count, d, d) on some of their rows and columns."""
    if len(rows) == Q.shape[1] and bool((np.diff(rows) == 1).all()):
        return Q
    out = np.empty((len(Q), len(rows), len(rows)))
    extend(Q, np.ascontiguousarray(rows, dtype=np.intp), 0, out)
    return out


def solved(A: Floats, b: Floats) -> Floats | None:
    """A^-1 b for a positive definite A; None if it is not."""
    try:
        return np.asarray(cho_solve(cho_factor(A, lower=True, check_finite=False), b, check_finite=False))
    except (LinAlgError, ValueError):
        return None
