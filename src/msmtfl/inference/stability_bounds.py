"""Bounds on the number of false selections among those that many half-samples agree on.

With p candidates of which q are selected per half-sample on average, theta = q / p, and B complementary pairs of halves, V
counts the candidates selected by a share tau of the 2 B half-samples at least whose probability of being selected is theta
at most:

    crude       E V <= q^2 / ((2 tau - 1) p)                       (Meinshausen and Buehlmann 2010, JRSS-B 72)
    unimodal    the same, if the share of pairs that select a candidate twice has a distribution with one mode
    r-concave   if that distribution is -1/2-concave, and that of the share of half-samples -1/4-concave
                (both: Shah and Samworth 2013, JRSS-B 75)
"""

from __future__ import annotations

from math import ceil, nan

import numpy as np
from scipy.optimize import brentq, minimize_scalar

KINDS = ("crude", "unimodal", "r-concave")
FLAT, STEEP = 1e6, 1e-9  # limits of a in (a + i)^(1 / r): uniform, and all at 0


def false_selections(q: float, p: float, tau: float, n_pairs: int, kind: str = "crude") -> float:
    """The bound on E V; NaN where a kind does not apply."""
    if p == 0 or q == 0:
        return 0.0
    crude = q**2 / ((2.0 * tau - 1.0) * p)
    if kind == "crude":
        return crude
    theta = q / p
    if kind == "unimodal":
        return q**2 / p * _unimodal(theta, tau, n_pairs)
    pairs = r_concave_tail(theta**2, 2.0 * tau - 1.0, n_pairs, -0.5)
    halves = r_concave_tail(theta, tau, 2 * n_pairs, -0.25)
    return p * min(pairs, halves)


def _unimodal(theta: float, tau: float, B: int) -> float:
    """What q^2 / p is multiplied by."""
    least = min(0.5 + theta**2, 0.5 + 1.0 / (2 * B) + 0.75 * theta**2)
    if theta > 1.0 / np.sqrt(3.0) or tau <= least or 2.0 * tau - 1.0 <= 1.0 / (2 * B):
        return nan
    if tau <= 0.75:
        return 1.0 / (2.0 * (2.0 * tau - 1.0 - 1.0 / (2 * B)))
    return 4.0 * (1.0 - tau + 1.0 / (2 * B)) / (1.0 + 1.0 / B)


def r_concave_tail(mean: float, tau: float, B: int, r: float) -> float:
    """The largest P(X >= tau) of a distribution on {0, 1/B, .., 1} with this mean, whose probabilities are r-concave, r < 0.

    The extreme ones are f(i) = c (a + i)^(1/r) up to some k, and at k + 1 no more than that: a is sought for every k. They
    are known for tau above twice the mean; 1 is the answer elsewhere.
    """
    s, total, T = -1.0 / r, mean * B, ceil(tau * B - 1e-9)
    first = ceil(2.0 * total) + 1
    if first > B or first > T:
        return 1.0

    def excess(a: float, k: int) -> float:
        """How far the mean of f on 0 .. k, times B, is above what is wanted."""
        i = np.arange(k + 1)
        f = (1.0 + i / a) ** -s
        return float(i @ f / f.sum() - total)

    def full(k: int) -> float:
        """a at which f on 0 .. k has the mean."""
        return float(brentq(excess, STEEP, FLAT, args=(k,))) if excess(FLAT, k) > 0 else FLAT

    def below(a: float, k: int) -> float:
        """P(X < tau) of f on 0 .. k with what is left at k + 1, so that the mean is as wanted."""
        f = (1.0 + np.arange(k + 1) / a) ** -s
        return float((k + 1 - total) * f[:T].sum() / ((k + 1 - np.arange(k + 1)) @ f))

    ends = {k: full(k) for k in range(T, B + 1)}
    largest = 1.0 - below(ends[B], B)
    for k in range(T, B):
        low, high = np.log(ends[k + 1]), np.log(ends[k])
        at = [ends[k + 1], ends[k]]
        if high > low:
            found = minimize_scalar(lambda x, k=k: below(np.exp(x), k), bounds=(low, high), method="bounded")
            at.append(float(np.exp(found.x)))
        largest = max(largest, *(1.0 - below(a, k) for a in at))
    return min(largest, 1.0)
