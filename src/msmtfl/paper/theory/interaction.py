"""pi(k, s), equation (32): how much s columns can disturb k others, and Lemma 19, which bounds it by sparse eigenvalues.

    pi(k, s) = sup  v'A_IJ u ||v|| / (v'A_II v ||u||_inf)      I, J disjoint sets of k and s columns, A = X'X / n

For given I and J the best u is made of signs. With b = A_IJ u, and l and beta the eigenvalues of A_II and b in its
eigenvectors, the best v is beta / (l - c), where c in [l_min / 2, l_min] solves sum beta^2 (2c - l) / (l - c)^2 = 0: c is
half the Rayleigh quotient of v. If beta vanishes where l = l_min and no c does, v has c = l_min and as much of that
eigenvector as makes the sum 0. (The square of the quotient is a product of two quadratic forms, (v'b)^2 and v'v, on
v'A_II v = 1. Their joint range is convex, or for two columns an ellipse, so that a local maximum of this kind is the
largest.) So pi is exact where all I, J and signs can be looked at; elsewhere one end is what a search attains, the other
Lemma 19, or sqrt(k) times the largest sum of s entries beside the diagonal, over rho-(k).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, islice, product
from math import comb, inf, sqrt

import numpy as np

from ..._data.designs import Floats
from ..spectra import AT_ONCE, EPS, Interval, Spectrum, quotient

HALVINGS = 52  # of the interval of c: to the last bit
ROUNDING = 1e-9  # what pi of orthogonal columns comes to by rounding
TRIES, ROUNDS = 4, 8  # of a search that improves v and u in turn: starts, and rounds of each


def interaction(spectrum: Spectrum, k: int, s: int, max_subsets: int) -> Interval:
    """pi of at most k and at most s columns of one task: where k + s <= d, with exactly so many it is the same."""
    A, d = spectrum.A, spectrum.d
    beside = np.abs(A)
    np.fill_diagonal(beside, 0.0)
    if d == 1 or not beside.any():
        return Interval(0.0, 0.0, True, "orthogonal columns")
    k, s = min(k, d - 1), min(s, d - 1)
    if k > spectrum.order:
        return Interval(inf, inf, True, f"{k} columns, at most {spectrum.order} of them independent")
    sizes = [(k, s)] if k + s <= d else [(q, d - q) for q in range(max(1, d - s), k + 1)]
    count = sum(comb(d, q) * comb(d - q, t) * 2 ** (t - 1) for q, t in sizes)
    minus = spectrum.lower(k)
    slack = 1 + (spectrum.rows + 10 * k) * EPS * quotient(spectrum.upper(k).high, max(minus.low, EPS * minus.high))
    sums = float(np.partition(beside, -s, axis=1)[:, -s:].sum(axis=1).max())
    above = {lemma_19(spectrum, k, s).high: "Lemma 19", quotient(sqrt(k) * sums, minus.low): "sums beside the diagonal"}
    high = min(above)
    if high <= ROUNDING:
        return Interval(0.0, high, True, "orthogonal columns")
    if count <= max_subsets:
        found = max(_over_all(A, q, t) for q, t in sizes)
        return Interval(found / slack, found * slack, True, f"all {count} choices of columns and signs")
    found = max(_attained(A, q, t) for q, t in {sizes[0], sizes[-1]})
    return Interval(min(found / slack, high), high, False, f"a choice on one side, {above[high]} on the other")


def lemma_19(spectrum: Spectrum, k: int, s: int) -> Interval:
    """sqrt(s) / 2 sqrt(rho+(s) / rho-(k + s) - 1)"""
    ratio = spectrum.upper(s).over(spectrum.lower(k + s))
    low, high = (sqrt(s) / 2 * sqrt(max(end - 1, 0.0)) for end in (ratio.low, ratio.high))
    return Interval(low, high, ratio.exact, "sparse eigenvalues")


def _over_all(A: Floats, k: int, s: int) -> float:
    """The largest of all I, J and signs."""
    d, best = len(A), 0.0
    for U in _signs(d - k, s):
        subsets = combinations(range(d), k)
        while batch := list(islice(subsets, max(1, AT_ONCE // (U.size + len(U) * k)))):
            I = np.array(batch)
            left = np.ones((len(I), d), dtype=bool)
            np.put_along_axis(left, I, False, axis=1)
            outside = np.nonzero(left)[1].reshape(len(I), d - k)
            values, vectors = np.linalg.eigh(A[I[:, :, None], I[:, None, :]])
            beta = U @ (A[outside[:, :, None], I[:, None, :]] @ vectors)
            best = max(best, float(_best(values[:, None, :], beta)[0].max()))
    return best


def _signs(d: int, s: int) -> Iterator[Floats]:
    """Batches (count, d) of all vectors with s entries of 1 or -1, one of each pair of opposites."""
    patterns = np.array([(1.0, *rest) for rest in product((1.0, -1.0), repeat=s - 1)])
    subsets = combinations(range(d), s)
    while batch := list(islice(subsets, max(1, AT_ONCE // (len(patterns) * d)))):
        J = np.fromiter(chain.from_iterable(batch), dtype=np.intp).reshape(-1, s)
        U = np.zeros((len(J), len(patterns), d))
        np.put_along_axis(U, np.broadcast_to(J[:, None, :], (*U.shape[:2], s)), patterns[None], axis=2)
        yield U.reshape(-1, d)


def _best(values: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """The largest v'b ||v|| / v'Mv for every b, and the v; `values` (..., k) are the eigenvalues of M, b and v (..., k) are
    given in its eigenvectors."""
    smallest, largest = values[..., :1], values[..., -1:]
    singular = smallest <= EPS * values.shape[-1] * largest
    values = np.where(singular, 1.0, values)
    smallest, largest = values[..., :1], values[..., -1:]
    low = np.broadcast_to(smallest / 2, (*beta.shape[:-1], 1))
    high = np.broadcast_to(np.minimum(smallest, largest / 2), low.shape)
    square = beta**2
    for _ in range(HALVINGS):
        c = (low + high) / 2
        above = (square * (2 * c - values) / (values - c) ** 2).sum(axis=-1, keepdims=True) > 0
        low, high = np.where(above, low, c), np.where(above, c, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        v = beta / (values - low)
        # c = l_min: the rest of v is given, and the part in its eigenvectors makes up for what is lacking
        rest = values - smallest > 1e-9 * largest
        other = np.where(rest, beta / np.where(rest, values - smallest, 1.0), 0.0)
        lacking = (other**2 * (values - 2 * smallest)).sum(axis=-1) / smallest[..., 0]
        other[..., 0] = np.sqrt(np.maximum(lacking, 0.0)) * np.where(beta[..., 0] < 0, -1.0, 1.0)
        found, at_end = _value(values, beta, v), _value(values, beta, other)
    without = np.where(singular[..., 0], np.where(beta.any(axis=-1), inf, 0.0), 0.0)
    best = np.maximum(np.maximum(found, at_end), without)
    return best, np.where((at_end > found)[..., None], other, v)


def _value(values: Floats, beta: Floats, v: Floats) -> Floats:
    out = (v * beta).sum(axis=-1) * np.sqrt((v**2).sum(axis=-1)) / (v**2 * values).sum(axis=-1)
    return np.nan_to_num(out, nan=0.0)


def _attained(A: Floats, k: int, s: int) -> float:
    """What some I, J, u, v attain: u and v are improved in turn, from each of a few columns as the first of I."""
    best = 0.0
    for first in np.argsort(-np.abs(A - np.diag(np.diag(A))).max(axis=1))[:TRIES]:
        v, value = np.zeros(len(A)), 0.0
        v[first] = 1.0
        for _ in range(ROUNDS):
            pull = A @ v
            pull[v != 0] = 0.0
            J = np.argpartition(-np.abs(pull), s - 1)[:s]
            b = A[:, J] @ np.where(pull[J] < 0, -1.0, 1.0)
            sizes = np.abs(b)
            sizes[J] = -1.0
            I = np.argpartition(-sizes, k - 1)[:k]
            values, vectors = np.linalg.eigh(A[np.ix_(I, I)])
            new, direction = _best(values, b[I] @ vectors)
            if not value < new < inf:
                break
            value = float(new)
            v[:] = 0.0
            v[I] = vectors @ direction
        best = max(best, value)
    return best
