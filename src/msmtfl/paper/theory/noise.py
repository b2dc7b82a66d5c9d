"""Assumption 1 (sub-Gaussian noise, Remarks 4 and 5), and what the lemmas on noise (13, 18 and 21) come to on a design.

A variable is sub-Gaussian with parameter sigma if E exp(t x) <= exp(sigma^2 t^2 / 2) for all t. For a normal variable that
is an equality with its standard deviation (Remark 4); a variable of mean 0 in [a, b] has (b - a) / 2 by Hoeffding's lemma
(Remark 5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, inf, log, sqrt
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from ..._data.designs import Floats
from ..._data.tables import opened
from ..._data.tasks import read_training
from ..._runtime.checks import check_count, check_flag, check_positive
from ..._runtime.progress import one_blas_thread
from ..spectra import MAX_SUBSETS, Spectrum, spectra_of
from .bounds import check_eta, noise_square
from .statements import LemmaCheck

SURE = 4.0  # standard errors by which a sample must exceed a bound to speak against it
FAR = 2.0  # largest sigma |t| at which a sample's mean of exp(t x) is looked at: beyond, it is decided by a few values
AT_ONCE = 500  # draws of noise that are held at once
MULTIPLES = (1.5, 2.0, 2.5, 3.0)  # z of Lemma 18


@dataclass(frozen=True)
class SubGaussian:
    """What a sample of noise says about Assumption 1.

    Attributes
    ----------
    sigma : float
        The smallest parameter with which the sample itself, centred, is sub-Gaussian.
    sd : float
        The sample's standard deviation, which no parameter is below.
    half_range : float
        (largest - smallest) / 2, a parameter with which the sample is sub-Gaussian by Remark 5.
    n : int
        Number of values.
    asked : float or None
        The parameter asked about.
    excess : float or None
        By how many standard errors the sample's mean of exp(t x) exceeds exp(asked^2 t^2 / 2), at the worst
        t with asked |t| <= 2.
    refuted : bool
        Whether that is more than 4, so that the noise is not sub-Gaussian with the parameter asked about. A
        sample can only speak against a parameter: that none is refuted proves nothing about rare large
        values.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.theory import sub_gaussian
    >>> normal = np.random.default_rng(0).standard_normal(1000)
    >>> sub_gaussian(normal, 1.0).refuted, sub_gaussian(normal, 0.8).refuted
    (False, True)
    """

    sigma: float
    sd: float
    half_range: float
    n: int
    asked: float | None
    excess: float | None

    @property
    def refuted(self) -> bool:
        """Whether the noise is not sub-Gaussian with the parameter asked about."""
        return self.excess is not None and self.excess > SURE

    def __str__(self) -> str:
        text = (
            f"{self.n} values with standard deviation {self.sd:.4g}: as a sample they are sub-Gaussian with parameter "
            f"{self.sigma:.4g} (at most {self.half_range:.4g}, half their range)."
        )
        if self.asked is None:
            return text
        way = f"exceeded by {self.excess:.2g} standard errors: it is too small" if self.refuted else "not contradicted"
        return f"{text} The parameter {self.asked:.4g} is {way}."


def sub_gaussian(noise: Any, sigma: float | None = None) -> SubGaussian:
    """Look at a sample of noise, such as residuals, with Assumption 1 in mind.

    Parameters
    ----------
    noise : array-like
        Numbers, two different ones at least; their mean is subtracted.
    sigma : float, optional
        A parameter to ask about.

    Returns
    -------
    SubGaussian
        What the sample says.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.theory import sub_gaussian
    >>> print(sub_gaussian(np.repeat([-1.0, 1.0], 50)))
    100 values with standard deviation 1: as a sample they are sub-Gaussian with parameter 1 (at most 1, half their range).
    """
    values = np.ravel(np.asarray(noise, dtype=np.float64))
    if not np.isfinite(values).all():
        raise ValueError("noise must be finite numbers.")
    if len(values) < 2 or np.ptp(values) == 0.0:
        raise ValueError("noise must have two different values at least.")
    x = values - values.mean()
    sd = float(x.std())
    excess = None
    if sigma is not None:
        check_positive("sigma", sigma)
        excess = _excess(x, float(sigma))
    smallest = max(_parameter(x / sd, sign) for sign in (1.0, -1.0)) * sd
    return SubGaussian(smallest, sd, float(np.ptp(x)) / 2, len(x), None if sigma is None else float(sigma), excess)


def _parameter(x: Floats, sign: float) -> float:
    """The largest sqrt(2 ln(mean of exp(t x))) / |t| over t of one sign; x has mean 0 and variance 1."""

    def square(log_t: float) -> float:
        t = sign * exp(log_t)
        top = t * (x.max() if t > 0 else x.min())
        return float(2 * (top + log(np.exp(t * x - top).mean())) / t**2)

    grid = np.linspace(log(1e-3), log(100.0), 80)
    k = int(np.argmax([square(one) for one in grid]))
    ends = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
    best = minimize_scalar(lambda one: -square(one), bounds=ends, method="bounded")
    return sqrt(max(-float(best.fun), square(grid[k]), 1.0))


def _excess(x: Floats, sigma: float) -> float:
    """Standard errors above the bound at the worst t, for exp(t x), exp(-t x) and the mean of both; it is what sees a
    variance that is too large. Where the bound is not exceeded, 0 or less."""
    worst = -inf
    for t in np.linspace(0.1, FAR, 20) / sigma:
        up, down = (np.exp(sign * t * x - (sigma * t) ** 2 / 2) for sign in (1.0, -1.0))
        for y in (up, down, (up + down) / 2):
            se = y.std(ddof=1) / sqrt(len(y))
            worst = max(worst, float((y.mean() - 1) / se) if se > 0 else inf if y[0] > 1 + 1e-12 else 0.0)
    return worst


# ------------------------------------------------------------------ Lemmas 13, 18 and 21 on a design


def check_noise(
    X: Any,
    support: Any,
    *,
    task: Any = None,
    center: bool = False,
    sigma: float = 1.0,
    eta: float = 0.05,
    noise: Any = "normal",
    draws: int = 1000,
    random_state: int = 0,
) -> tuple[LemmaCheck, ...]:
    """Count how often the events of Lemmas 13, 18 and 21 fail on a design, in draws of noise.

    `left` of a result is the share of draws in which an event fails, less 4 standard errors (0 if that is
    negative): the probability of failing is hardly below it. `right` is what the lemma allows: eta for "13a"
    and "21" (which is about one task; the worst is shown), eta / 2 for "13b" (see
    :mod:`msmtfl.paper.theory`), and 2 exp(-z^2 / 2) for "18", where |a'noise| > z sigma |a| for z = 1.5, 2,
    2.5 and 3 and a all columns of all tasks.

    Parameters
    ----------
    X : DataFrame or ndarray of shape (N, d)
        Samples of all tasks.
    support : array-like of bool of shape (d,), or of int
        The features that matter: flags or places.
    task : array-like of shape (N,), optional
        The label of the task of every sample. Without labels all samples are one task.
    center : bool, default=False
        Whether to centre every task's columns first, as a model with intercepts does.
    sigma : float, default=1
        Parameter of the noise.
    eta : float, default=0.05
        The probability, between 0 and 1, with which the statements may fail.
    noise : {"normal", "signs"} or array-like, default="normal"
        "normal" (standard deviation sigma), "signs" (sigma or -sigma), or residuals that are drawn from
        with replacement and random signs; `sigma` should then be :func:`sub_gaussian` of them with both
        signs.
    draws : int, default=1000
        Number of draws.
    random_state : int, default=0
        The seed.

    Returns
    -------
    tuple of LemmaCheck
        The shares of failures, and what the lemmas allow.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.theory import check_noise
    >>> X = np.random.default_rng(0).standard_normal((60, 8))
    >>> found = check_noise(X, [0, 3], task=np.repeat(["a", "b"], 30), draws=200)
    >>> all(one.holds for one in found), [one.lemma for one in found]
    (True, ['13a', '13b', '21', '18', '18', '18', '18'])
    """
    check_count("draws", draws)
    check_positive("sigma", sigma)
    check_eta(eta)
    check_flag("center", center)
    X = opened(X)
    data = read_training(X, np.zeros(len(X)), task=task)
    draw = _sampler(noise, float(sigma), np.random.default_rng(random_state))
    with one_blas_thread():
        designs = data.designs(bool(center))
        columns = [design.columns(np.arange(design.d)) for design in designs]
        H = np.zeros(designs[0].d, dtype=bool)
        H[np.asarray(support)] = True
        if not H.any():
            raise ValueError("support is empty: name at least one feature that matters.")
        limits = _limits(spectra_of(designs, MAX_SUBSETS), H, float(sigma), eta)
        parts = []
        for begin in range(0, draws, AT_ONCE):
            count = min(AT_ONCE, draws - begin)
            E = np.stack([draw((count, len(Z))) @ Z / one.n for Z, one in zip(columns, designs, strict=True)], axis=1)
            parts.append(_failures(E, H, limits))
    failed = np.concatenate(parts)  # (draws, events)
    left = np.maximum(failed.mean(axis=0) - SURE * failed.std(axis=0) / sqrt(draws), 0.0)
    tails = [
        LemmaCheck("18", 0, float(low), 2 * exp(-(z**2) / 2), True) for low, z in zip(left, MULTIPLES, strict=False)
    ]
    rest = left[len(MULTIPLES) :]
    return (
        LemmaCheck("13a", 0, float(rest[0]), float(eta), True),
        LemmaCheck("13b", 0, float(rest[1]), eta / 2, True),
        LemmaCheck("21", 0, float(rest[2:].max()), float(eta), True),
        *tails,
    )


@dataclass(frozen=True)
class _Limits:
    """Right-hand sides: of |a'noise| over z (m, d), of (26), (27) and of Lemma 21 (m,)."""

    tails: Floats
    largest: float
    square: float
    squares: Floats


def _limits(spectra: Sequence[Spectrum], H: np.ndarray, sigma: float, eta: float) -> _Limits:
    m, d, r = len(spectra), len(H), int(H.sum())
    nu = {k: np.array([one.upper(k).high / one.n for one in spectra]) for k in (1, r)}
    return _Limits(
        tails=sigma * np.sqrt(np.array([np.diag(one.A) / one.n for one in spectra])),
        largest=sigma * sqrt(2 * nu[1].max() * log(2 * d * m / eta)),
        square=sigma**2 * float(nu[r].max()) * noise_square(m, r, eta),
        squares=sigma**2 * nu[r] * noise_square(1, r, eta),
    )


def _failures(E: Floats, H: np.ndarray, limits: _Limits) -> Floats:
    """(draws, events) whether each fails: the tails of Lemma 18 (as a share of all columns), (26), (27), and Lemma 21 in
    every task. E (draws, m, d) are the noise correlations."""
    used = limits.tails > 0
    sizes = np.abs(E)[:, used] / limits.tails[used]
    tails = [(sizes > z).mean(axis=1) for z in MULTIPLES]
    squares = (E[:, :, H] ** 2).sum(axis=2)
    events = [np.abs(E).max(axis=(1, 2)) > limits.largest, squares.sum(axis=1) > limits.square]
    return np.column_stack([*tails, *events, squares > limits.squares])


def _sampler(noise: Any, sigma: float, rng: np.random.Generator) -> Callable[[tuple[int, int]], Floats]:
    """What draws noise of a shape."""
    if isinstance(noise, str):
        if noise == "normal":
            return lambda shape: sigma * rng.standard_normal(shape)
        if noise == "signs":
            return lambda shape: sigma * rng.choice([-1.0, 1.0], shape)
        raise ValueError(f"noise must be 'normal', 'signs' or an array of residuals, got {noise!r}.")
    values = np.ravel(np.asarray(noise, dtype=np.float64))
    if not len(values) or not np.isfinite(values).all():
        raise ValueError("noise must be finite numbers, one at least.")
    return lambda shape: rng.choice(values, shape) * rng.choice([-1.0, 1.0], shape)
