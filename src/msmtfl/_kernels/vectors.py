"""Small operations on flat arrays for kernels that run uncompiled; compiled ones take them from vectors.pxd."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intc]


def axpy(n: int, alpha: float, x: Floats, i: int, y: Floats, j: int) -> None:
    """y[j:j+n] += alpha * x[i:i+n]"""
    y[j : j + n] += alpha * x[i : i + n]


def move(x: Floats, i: int, j: int, n: int) -> None:
    """x[j:j+n] = x[i:i+n], overlapping allowed"""
    x[j : j + n] = x[i : i + n].copy()


def rotate(n: int, c: float, s: float, x: Floats, i: int, y: Floats, j: int) -> None:
    """x[i:i+n], y[j:j+n] = c x + s y, c y - s x"""
    x[i : i + n], y[j : j + n] = c * x[i : i + n] + s * y[j : j + n], c * y[j : j + n] - s * x[i : i + n]


def dot(n: int, x: Floats, i: int, y: Floats, j: int) -> float:
    """x[i:i+n]' y[j:j+n]"""
    return float(np.dot(x[i : i + n], y[j : j + n]))


def subtract_rows(n: int, count: int, weight: Floats, row: Ints, Q: Floats, width: int, low: int, g: Floats) -> None:
    """g[low:low+n] -= sum_t weight[t] Q[row[t], low:low+n] over t < count"""
    for t in range(count):
        axpy(n, -weight[t], Q, row[t] * width + low, g, low)


def subtract_block(n: int, count: int, weight: Floats, Q: Floats, low: int, ld: int, g: Floats, i: int) -> None:
    """g[i:i+n] -= sum_t weight[t] Q[low + t ld:][:n] over t < count"""
    for t in range(count):
        axpy(n, -weight[t], Q, low + t * ld, g, i)


def any_beyond(n: int, g: Floats, share: float, a: Floats, level: float, root: Floats, place: Ints) -> bool:
    """Whether |g_j| > share a_j + level root_j for a j with place[j] < 0: mostly not, and found out in one sweep"""
    return bool(((np.abs(g[:n]) > share * a[:n] + level * root[:n]) & (place[:n] < 0)).any())


def largest_ratio(c: Floats, root: Floats, n: int) -> float:
    """max_j |c_j| / root_j: the largest correlation, the unit of the tolerances"""
    used = root[:n] > 0.0
    return float(np.max(np.abs(c[:n][used]) / root[:n][used], initial=0.0))


def is_free(positive: bool, a: float) -> bool:
    """Whether a feature of weight a may take any value at no cost"""
    return a == 0.0 and not positive


def entry_sign(positive: bool, g: float, a: float) -> float:
    """The sign with which a feature of gradient g and weight a enters; 0: it may take either"""
    if is_free(positive, a):
        return 0.0
    return 1.0 if positive or g > 0.0 else -1.0


def excess(positive: bool, g: float, a: float) -> float:
    """By how much a feature outside the support violates optimality"""
    return (g if positive else abs(g)) - a
