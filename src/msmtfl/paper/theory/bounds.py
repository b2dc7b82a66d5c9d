"""The error bound of Theorem 8, stage by stage: as printed, as the paper's proof gives it, and sharpened.

With Lam = m lam, E_l = ||W^(l) - W||_2,1, u the right-hand side of (27), s >= rbar, and the conditions as proven (see
:mod:`msmtfl.paper.theory`). The proof of Lemma 15 has, at every stage, what Lemma 14 finds outside of the rows in play
bounded by 7/5 of the error inside them, and t_i >= 1/2, so that the curvature keeps 1 - (1 - t_i) 7/5 >= 0.3. It goes
on with 3 in place of 7/5 and 0.25 in place of 0.3, and with 2 (x^2 + y^2) in place of (x + y)^2 for the sum of what
noise and penalty do to a task. Without that,

    E_l <= C sqrt(m) (2 |noise of the rows in play|_F + Lam sqrt(true entries penalised)) / rho-
    C    = (1 + (7/5) / 2 sqrt 2) / (2 * 0.3) = 3.317

At stage 1 the rows in play are the true ones, so E_1 <= C (m Lam sqrt(rbar) + 2 sqrt(m u)) / rho-. Later, with A and B the
parts of E_(l-1) on other rows in play and on the true ones, which are disjoint sets of rows (A^2 + B^2 <= E_(l-1)^2), the
bracket is at most 2 sqrt(u) + sqrt(m) Lam / theta (A / 6 + B), and A / 6 + B <= sqrt(37/36) E_(l-1). As
theta >= 11 m Lam / rho-,

    E_l <= q E_(l-1) + 2 C sqrt(m u) / rho-,     q = sqrt(37/36) C / 11 = 0.306

which is `sharpened`:  E_l <= C q^(l-1) m Lam sqrt(rbar) / rho-  +  2 C (1 - q^l) / (1 - q) sqrt(m u) / rho-.

It implies the printed formula with m lam for lam, 0.8^(l/2) 9.1 m Lam sqrt(rbar) / rho- + 39.5 sqrt(m u) / rho-, at every
stage. With the paper's own constants, E_l^2 <= 0.662 E_(l-1)^2 + ..., 0.662 = 8 (1 + 1.5 sqrt 2)^2 (37/36) / 121, and
E_1^2 <= 8.83^2 m^2 Lam^2 rbar / rho-^2 + ..., that formula follows from stage 2 on only (at stage 1, 8.83 > 9.1 sqrt 0.8).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log, sqrt
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._runtime.checks import check_count, check_positive
from ..spectra import quotient

OUTSIDE = 7 / 5  # of the error inside the rows in play: (2 + 12) / (12 - 2), since m lam >= 12 times the noise
CURVATURE = 1 - OUTSIDE / 2  # what is left of rho-


def of_rows_in_play(r: int, s: int) -> float:
    """C: the error over what noise and penalty of the rows in play allow, times rho-."""
    return (1 + OUTSIDE / 2 * sqrt(2 * r / s)) / (2 * CURVATURE)


FIRST = of_rows_in_play(1, 1)  # the worst case, s = rbar
SHRINK = sqrt(37 / 36) * FIRST / 11  # from stage to stage


@dataclass(frozen=True)
class ErrorBound:
    """The bound of Theorem 8 on ||W^(l) - W||_2,1 for l = 1 .. stages.

    Attributes
    ----------
    sharpened : ndarray of shape (stages,)
        The bound that :mod:`msmtfl.paper.theory.bounds` derives.
    corrected : ndarray of shape (stages,)
        The weaker form that the proof gives as it stands.
    literal : ndarray of shape (stages,)
        The bound as printed, which is false for many tasks.
    shrinking : float
        The term of `corrected` at stage 1 that later stages shrink; inf where rho- may be 0.
    noise : float
        The term of `corrected` at stage 1 that remains; inf where rho- may be 0.
    probability : float
        A lower bound on the probability that `sharpened` and `corrected` hold at all stages at once.
    limit : float
        What `sharpened` comes to over many stages.
    stages_needed : int or None
        The first stage at which the shrinking term of `corrected` is below its noise term.
    m : int
        Number of tasks.
    stages : int
        Number of stages.

    Examples
    --------
    >>> from msmtfl.theory import error_bound
    >>> bound = error_bound(0.02, m=5, rbar=2, nu=1.1 / 1000, rho_minus=0.9, sigma=0.1)
    >>> bool(abs(bound.corrected[0] - bound.shrinking - bound.noise) < 1e-12), round(bound.probability, 3)
    (True, 0.95)
    >>> bound.sharpened.round(2)[:3]
    array([3.21, 1.59, 1.09])
    """

    shrinking: float
    noise: float
    probability: float
    m: int
    stages: int

    @property
    def corrected(self) -> Floats:
        """The bound at every stage that the paper's proof gives as it stands, (stages,)."""
        return np.asarray(0.8 ** (np.arange(self.stages) / 2) * self.shrinking + self.noise)

    @property
    def sharpened(self) -> Floats:
        """The sharper bound at every stage that :mod:`msmtfl.paper.theory.bounds` derives, (stages,)."""
        powers = SHRINK ** np.arange(self.stages)
        grown = 2 * FIRST / 39.5 * (1 - SHRINK * powers) / (1 - SHRINK)
        return np.asarray(FIRST / 9.1 * powers * self.shrinking + grown * self.noise)

    @property
    def literal(self) -> Floats:
        """The bound at every stage as the paper prints it, which is false for many tasks, (stages,)."""
        return np.asarray(0.8 ** (np.arange(1, self.stages + 1) / 2) * self.shrinking / self.m + self.noise)

    @property
    def limit(self) -> float:
        """What `sharpened` comes to over many stages."""
        return 2 * FIRST / 39.5 / (1 - SHRINK) * self.noise

    @property
    def stages_needed(self) -> int | None:
        """The first stage at which the shrinking term of `corrected` is below its noise term; None if there is none."""
        if not 0.0 < self.noise < inf:
            return None
        return max(int(2 * log(self.shrinking / self.noise) // log(1.25)) + 2, 1)


def error_bound(
    lam: float, *, m: int, rbar: int, nu: float, rho_minus: float, sigma: float, eta: float = 0.05, stages: int = 10
) -> ErrorBound:
    """Return the error bound of Theorem 8, stage by stage: sharpened, as proven and as printed.

    It holds under the theorem's conditions as proven, which :func:`check_conditions` looks at. The bound
    holds with probability at least 1 - 1.5 eta.

    Parameters
    ----------
    lam : float
        Strength of the penalty.
    m : int
        Number of tasks.
    rbar : int
        Number of features that matter, the non-zero rows of the true W.
    nu : float
        The largest rho+_i(rbar) / n_i.
    rho_minus : float
        The smallest rho-_i(2 rbar + s).
    sigma : float
        Parameter of the sub-Gaussian noise.
    eta : float, default=0.05
        The probability, between 0 and 1, with which the statements may fail.
    stages : int, default=10
        Number of stages to compute the bound for.

    Returns
    -------
    ErrorBound
        The bound.

    Examples
    --------
    >>> from msmtfl.theory import error_bound
    >>> bound = error_bound(0.02, m=5, rbar=2, nu=1.1 / 1000, rho_minus=0.9, sigma=0.1)
    >>> bound.corrected.round(2)[:3], bound.stages_needed
    (array([10.77, 10.02,  9.34]), 8)
    """
    for name, count in (("m", m), ("rbar", rbar), ("stages", stages)):
        check_count(name, count)
    check_positive("lam", lam)
    check_eta(eta)
    for name, value in (("nu", nu), ("rho_minus", rho_minus), ("sigma", sigma)):
        if not 0.0 <= value < inf:
            raise ValueError(f"{name} must be a finite number >= 0, got {value!r}.")
    square, held = noise_square(m, rbar, eta), m * rbar
    t = (sqrt(2 * square - held) - sqrt(held)) ** 2 / 4
    shrinking, noise = 9.1 * m**2 * lam * sqrt(rbar), 39.5 * sigma * sqrt(m * nu * square)
    chance = max(1 - eta - exp(-t), 0.0)
    return ErrorBound(quotient(shrinking, rho_minus), quotient(noise, rho_minus), chance, m, stages)


@dataclass(frozen=True)
class ErrorRates:
    """The orders of the bounds (24) and (25), without their constants and sigma.

    Attributes
    ----------
    lasso : float
        The order of (24), of the lasso.
    last : float
        The order of (25), of the last stage.
    ratio : float
        The first over the second.

    Examples
    --------
    >>> from msmtfl.theory import error_rates
    >>> rates = error_rates(m=5, n=100, d=2000, rbar=5)
    >>> round(rates.lasso, 2), round(rates.last, 2), round(rates.ratio, 2)
    (3.91, 1.41, 2.76)
    """

    lasso: float
    last: float

    @property
    def ratio(self) -> float:
        """The order of the lasso's bound over that of the last stage."""
        return self.lasso / self.last


def error_rates(*, m: int, n: int, d: int, rbar: int, eta: float = 0.05) -> ErrorRates:
    """Return how the bounds of the lasso (24) and of the last stage (25) depend on the size of the problem.

    (24) is m sqrt(rbar ln(d m / eta) / n): it grows with the number of features. (25) is
    m sqrt((rbar + ln(1 / eta)) / n): it does not. How measured errors behave: ``msmtfl reproduce growth``.

    Parameters
    ----------
    m : int
        Number of tasks.
    n : int
        Number of samples per task.
    d : int
        Number of features.
    rbar : int
        Number of features that matter.
    eta : float, default=0.05
        The probability, between 0 and 1, with which the statements may fail.

    Returns
    -------
    ErrorRates
        The two orders.

    Examples
    --------
    >>> from msmtfl.theory import error_rates
    >>> [round(error_rates(m=5, n=100, d=d, rbar=5).ratio, 2) for d in (20, 200, 2000)]
    [2.18, 2.49, 2.76]
    """
    for name, count in (("m", m), ("n", n), ("d", d), ("rbar", rbar)):
        check_count(name, count)
    check_eta(eta)
    return ErrorRates(m * sqrt(rbar * log(d * m / eta) / n), m * sqrt((rbar + log(1 / eta)) / n))


def noise_square(m: int, r: int, eta: float) -> float:
    """The right-hand side of (27), over sigma^2 nu(r)."""
    return m * (7.4 * r + 2.7 * log(2 / eta))


def check_eta(eta: Any) -> None:
    check_positive("eta", eta)
    if eta >= 1.0:
        raise ValueError(f"eta must be in (0, 1), such as 0.05, got {eta!r}.")
