"""Gaussian knockoffs: columns with the same covariances to the other features, made without looking at the target.

For features x with mean 0 and covariance C, and distances s, knockoffs are x - diag(s) C^-1 x + e, where e is normal with
covariance 2 diag(s) - diag(s) C^-1 diag(s) (Candes, Fan, Janson and Lv 2018, Journal of the Royal Statistical Society B 80).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from sklearn.covariance import ledoit_wolf

from .._data.designs import Floats

SWEEPS = 50  # of the coordinates of the knockoffs' distances; they settle in 5 to 15
TOGETHER = 48  # coordinates after which the inverse is brought up to date, by a product of matrices
SETTLED = 1e-4  # largest change of a distance in a sweep, relative
INSIDE = 1e-3  # how far distances stay from those at which a feature and its knockoff would be bound to each other


def covariance_of(X: Floats) -> Floats:
    """(d, d): correlations of columns of variance 1, shrunk towards 0 where there are few samples (Ledoit and Wolf)."""
    shrunk = ledoit_wolf(X, assume_centered=True)[0]
    sizes = np.sqrt(np.diag(shrunk))
    return np.asarray(shrunk / np.outer(sizes, sizes))


def covariance_near(own: Floats, n: float, common: Floats, share: float) -> Floats:
    """(d, d): correlations of a task's n samples, drawn towards those of all tasks together, of whose samples it has this
    share: the closer the less they differ by more than chance."""
    if share >= 1.0:
        return common
    apart = float(((own - common) ** 2).sum())
    by_chance = (
        (1.0 - share) * float((1.0 + own**2).sum() - 2.0 * len(own)) / n
    )  # of normal columns; diagonals are known
    weight = 1.0 if by_chance >= apart else by_chance / apart
    return np.asarray(weight * common + (1.0 - weight) * own)


def distances(cov: Floats) -> Floats:
    """(d,): s, where cov - diag(s) are the covariances of features with knockoffs, such that the entropy of both together,

        log det(2 cov - diag(s)) + sum log s_j,

    is largest (Gimenez and Zou 2019), by coordinate ascent. (s as large as possible, all alike or in sum, lets features be
    told from combinations of knockoffs; Spector and Janson 2022, Annals of Statistics 50.)
    """
    d = len(cov)
    lowest = max(float(eigh(cov, eigvals_only=True, subset_by_index=[0, 0])[0]), 0.0)
    s = np.full(d, max(min(1.0, lowest), INSIDE * 1e-3))
    inverse = np.asarray(np.linalg.inv(2.0 * cov - np.diag(s)), dtype=np.float64)
    for _ in range(SWEEPS):
        before = s.copy()
        for low in range(0, d, TOGETHER):
            some = slice(low, min(low + TOGETHER, d))
            columns = inverse[:, some].copy()
            s[some] = _ascended(s[some], columns[some])
            moved = s[some] - before[some]
            bend = np.linalg.solve(np.eye(len(moved)) - moved[:, None] * columns[some], np.diag(moved))
            inverse += columns @ (bend @ columns.T)  # Woodbury
        if np.abs(s - before).max() <= SETTLED * s.max():
            break
    return (1.0 - INSIDE) * s


def _ascended(s: Floats, inverse: Floats) -> Floats:
    """Some of the distances after one ascent along each; `inverse` is the part that belongs to them."""
    s, inverse = s.copy(), inverse.copy()
    for j in range(len(s)):
        step = (1.0 / inverse[j, j] - s[j]) / 2.0  # where 1 / s_j is the entry of the inverse
        column = inverse[:, j]
        inverse += np.outer(column, column) * (step / (1.0 - step * column[j]))
        s[j] += step
    return s


def law_of(cov: Floats) -> tuple[Floats, Floats]:
    """A and B (d, d): knockoffs of samples X (n, d) with mean 0 and this covariance are X A + Z B', where Z (n, d) is
    standard normal."""
    s = distances(cov)
    solved = cho_solve(cho_factor(cov), np.diag(s))  # cov^-1 diag(s)
    values, vectors = eigh(2.0 * np.diag(s) - s[:, None] * solved)
    # the symmetric root: signs and order of eigenvectors, and so the knockoffs drawn, differ between machines
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.eye(len(cov)) - solved, np.asarray(root)


def draw_knockoffs(X: Floats, random: np.random.Generator, cov: Floats) -> Floats:
    """(n, d): Gaussian knockoffs of columns with mean 0, variance 1 and this covariance."""
    kept, root = law_of(cov)
    return np.asarray(X @ kept + random.standard_normal(X.shape) @ root.T)
