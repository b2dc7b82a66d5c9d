"""Gaussian knockoffs: columns with the same covariances to the other features, made without looking at the target.

For features x with mean 0 and covariance C, and distances s, knockoffs are x - diag(s) C^-1 x + e, where e is normal with
covariance 2 diag(s) - diag(s) C^-1 diag(s) (Candes, Fan, Janson and Lv 2018, Journal of the Royal Statistical Society B 80).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.lapack import dpotri
from sklearn.covariance import ledoit_wolf

from .._data.designs import Floats, Ints

STEPS = 50  # of Newton's method for the knockoffs' distances; they settle in 4 to 15
SETTLED = 1e-2  # what the last step promised to gain in entropy: the next one would gain about its square
ENOUGH, SHORTER, TINY = 0.1, 0.5, 1e-6  # the share of what is promised that a step has to gain; how it is shortened
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
    if by_chance >= apart:
        return common
    weight = by_chance / apart
    return np.asarray(weight * common + (1.0 - weight) * own)


def distances(cov: Floats, start: Floats | None = None) -> Floats:
    """(d,): s, where cov - diag(s) are the covariances of features with knockoffs, such that the entropy of both together,

        log det(2 cov - diag(s)) + sum log s_j,

    is largest (Gimenez and Zou 2019), by Newton's method, from those of a similar covariance if they are known. (s as large
    as possible, all alike or in sum, lets features be told from combinations of knockoffs; Spector and Janson 2022, Annals
    of Statistics 50.)
    """
    s = 1.0 / inverted(cholesky(cov)).diagonal() if start is None else start / (1.0 - INSIDE)
    entropy, factor = _entropy(cov, s)
    while factor is None:
        s = SHORTER * s
        entropy, factor = _entropy(cov, s)
    for _ in range(STEPS):
        inverse = inverted(factor)
        slope, bend = 1.0 / s - inverse.diagonal(), inverse**2
        bend[np.diag_indices_from(bend)] += 1.0 / s**2
        step = cho_solve((cholesky(bend), True), slope, check_finite=False)
        rise, length = float(slope @ step), 1.0
        while True:
            there = s + length * step
            found, factor = _entropy(cov, there) if (there > 0.0).all() else (-np.inf, None)
            if factor is not None and found >= entropy + ENOUGH * length * rise:
                break
            length *= SHORTER
            if length < TINY:  # rounding: no better place is known
                return (1.0 - INSIDE) * s
        s, entropy = there, found
        if rise <= SETTLED:
            break
    return (1.0 - INSIDE) * s


def _entropy(cov: Floats, s: Floats) -> tuple[float, Floats | None]:
    """Of features and knockoffs at these distances, and the Cholesky factor of 2 cov - diag(s), if it has one."""
    joint = 2.0 * cov
    joint[np.diag_indices_from(joint)] -= s
    try:
        factor = cholesky(joint)
    except LinAlgError:
        return -np.inf, None
    return float(2.0 * np.log(factor.diagonal()).sum() + np.log(s).sum()), factor


def cholesky(A: Floats) -> Floats:
    """The lower factor; what is above it is left as it is."""
    return np.asarray(cho_factor(A, lower=True, check_finite=False)[0])


def inverted(factor: Floats) -> Floats:
    """The inverse of a matrix of which the lower Cholesky factor is known."""
    out, _ = dpotri(factor, lower=1)
    low = np.tril(out, -1)
    return np.asarray(low + low.T + np.diag(out.diagonal()))


@dataclass(frozen=True)
class Law:
    """Knockoffs of samples X (n, d) with mean 0 and a covariance are X kept + Z root', where Z (n, d) is standard normal.

    Attributes
    ----------
    s : (d,) the distances
    kept, root : (d, d)
    """

    s: Floats
    kept: Floats
    root: Floats

    @staticmethod
    def of(cov: Floats, start: Floats | None = None) -> Law:
        """The law for a covariance; `start` are the distances of a similar one."""
        s = distances(cov, start)
        inverse = inverted(cholesky(cov))
        size = np.sqrt(s)
        rest = -np.outer(size, size) * inverse  # 2 - size C^-1 size, which has a factor as s is inside
        rest[np.diag_indices_from(rest)] += 2.0
        root = size[:, None] * np.tril(cholesky(rest))  # one factor on all machines, unlike those of eigenvectors
        return Law(s, np.eye(len(cov)) - inverse * s, root)

    def draw(self, X: Floats, random: np.random.Generator) -> Floats:
        """(n, d): knockoffs of columns with mean 0 and variance 1."""
        return np.asarray(X @ self.kept + random.standard_normal(X.shape) @ self.root.T)


class Laws:
    """Laws of knockoffs of several tasks, whose correlations are near common ones."""

    def __init__(self, common: Floats):
        self.common, self.law = common, Law.of(common)

    def near(self, own: Floats, vary: Ints, n: int, share: float) -> Law:
        """Of a task with these correlations of the features that vary in it, n samples, and this share of all samples."""
        whole = len(vary) == len(self.common)
        cov = covariance_near(own, n, self.common if whole else self.common[np.ix_(vary, vary)], share)
        return self.law if cov is self.common else Law.of(cov, self.law.s[vary])
