"""The paper's synthetic data: features that matter to several tasks, known coefficients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._data.designs import Floats
from .._runtime.checks import check_count, check_flag


@dataclass(frozen=True, eq=False)
class Sample:
    """Simulated data with the true coefficients. It unpacks to X, y, task, coef.

    Attributes
    ----------
    X : ndarray of shape (N, d)
        Samples of all tasks.
    y : ndarray of shape (N,)
        Targets.
    task : ndarray of shape (N,)
        The task of every sample, 0 .. m-1.
    coef : ndarray of shape (m, d)
        The true coefficients.

    Examples
    --------
    >>> from msmtfl.datasets import make_multitask
    >>> sample = make_multitask(3, 20, 50)
    >>> X, y, task, coef = sample
    >>> X.shape, coef.shape
    ((60, 50), (3, 50))
    """

    X: Floats
    y: Floats
    task: np.ndarray
    coef: Floats

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.X, self.y, self.task, self.coef))

    def __repr__(self) -> str:
        m, d = self.coef.shape
        used = int(self.coef.any(axis=0).sum())
        return f"Sample({m} tasks, {len(self.y)} rows, {d} features of which {used} matter)"


def make_multitask(
    m: int = 15,
    n: Any = 40,
    d: int = 250,
    *,
    sigma: float = 0.01,
    zero_rows: float = 0.9,
    zero_entries: float = 0.8,
    coef_range: tuple[float, float] = (-10.0, 10.0),
    normalize: bool = True,
    correlation: float = 0.0,
    random_state: Any = 0,
) -> Sample:
    """Make the synthetic data of the paper: y_i = X_i w_i + noise, with features that the tasks share.

    Entries of X are standard normal, columns are then scaled to length 1. Coefficients are uniform; a share
    of the features has none, and a share of the coefficients that remain is set to 0. By default m=15,
    n=40, d=250, sigma=0.01; other settings of our experiments are (m=20, n=30, d=200, sigma=0.005) and
    (m=10, n=60, d=300, sigma=0.001).

    Parameters
    ----------
    m : int, default=15
        Number of tasks.
    n : int or array-like of shape (m,), default=40
        Number of samples of every task.
    d : int, default=250
        Number of features.
    sigma : float, default=0.01
        Standard deviation of the noise.
    zero_rows : float, default=0.9
        Share of the features that matter to no task.
    zero_entries : float, default=0.8
        Share of the other coefficients that are 0. With 0 every feature that matters does so to all tasks.
    coef_range : tuple (low, high), default=(-10.0, 10.0)
        The range of the uniform distribution of coefficients.
    normalize : bool, default=True
        Whether to scale every task's columns to length 1.
    correlation : float, default=0
        Correlation of neighbouring columns before scaling, between -1 and 1; that of columns j and k is
        correlation^|j - k|.
    random_state : int, RandomState instance or None, default=0
        The source of randomness.

    Returns
    -------
    Sample
        The data and the true coefficients.

    Examples
    --------
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.datasets import make_multitask
    >>> X, y, task, coef = make_multitask(m=4, n=30, d=50, random_state=1)
    >>> X.shape, coef.shape, int(coef.any(axis=0).sum()) <= 5
    ((120, 50), (4, 50), True)
    >>> MSMTFL(fit_intercept=False).fit(X, y, task=task).coef_.shape
    (4, 50)
    """
    check_count("m", m)
    check_count("d", d)
    check_flag("normalize", normalize)
    rows = _read_rows(n, m)
    for name, value in (("zero_rows", zero_rows), ("zero_entries", zero_entries)):
        _check_between(name, value, 0.0, 1.0)
    _check_between("sigma", sigma, 0.0, np.inf)
    _check_between("correlation", correlation, -1.0, 1.0)
    if abs(correlation) == 1.0:
        raise ValueError(
            "correlation must be between -1 and 1, both excluded: the columns would be copies of each other."
        )
    low, high = (float(bound) for bound in coef_range)
    if not (np.isfinite([low, high]).all() and low < high):
        raise ValueError(f"coef_range must be two finite numbers, the smaller first; got {coef_range!r}.")
    random = check_random_state(random_state)
    coef = random.uniform(low, high, (d, m))
    coef[random.permutation(d)[: round(zero_rows * d)]] = 0.0
    left = np.argwhere(coef != 0.0)
    off = left[random.permutation(len(left))[: round(zero_entries * len(left))]]
    coef[off[:, 0], off[:, 1]] = 0.0
    Xs = [_columns(random, count, d, correlation, normalize) for count in rows]
    noise = [sigma * random.standard_normal(count) for count in rows]
    y = np.concatenate([X @ w + e for X, w, e in zip(Xs, coef.T, noise, strict=True)])
    return Sample(np.concatenate(Xs), y, np.repeat(np.arange(m), rows), np.ascontiguousarray(coef.T))


def _read_rows(n: Any, m: int) -> list[int]:
    counts = [n] * m if np.ndim(n) == 0 else list(n)
    if len(counts) != m:
        raise ValueError(f"n has {len(counts)} entries for {m} tasks: give one number, or one per task.")
    for i, count in enumerate(counts):
        check_count("n" if np.ndim(n) == 0 else f"n[{i}]", count)
    return [int(count) for count in counts]


def _check_between(name: str, value: Any, low: float, high: float) -> None:
    if not isinstance(value, Real) or not low <= float(value) <= high:
        bound = f"between {low:g} and {high:g}" if np.isfinite(high) else f"a number of at least {low:g}"
        raise ValueError(f"{name} must be {bound}, got {value!r}.")


def _columns(random: np.random.RandomState, n: int, d: int, correlation: float, normalize: bool) -> Floats:
    X = random.standard_normal((n, d))
    if correlation:
        fresh = np.sqrt(1.0 - correlation**2)
        for j in range(1, d):
            X[:, j] = correlation * X[:, j - 1] + fresh * X[:, j]
    return X / np.linalg.norm(X, axis=0) if normalize else X
