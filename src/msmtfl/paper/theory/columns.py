"""What a design is like, in the numbers that the literature puts conditions on, beside sparse eigenvalues (Definition 6):
pi(k, s) of the appendix, mutual coherence, mutual incoherence, the restricted isometry constant.

All are per task, of A = X'X / n, exact where all subsets of columns can be looked at, and intervals elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from math import comb, inf, sqrt
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._data.tables import opened
from ..._data.tasks import read_training
from ..._runtime.checks import check_count, check_flag
from ..._runtime.progress import one_blas_thread
from ..spectra import AT_ONCE, EPS, MAX_SUBSETS, Interval, Spectrum, as_table, exactly, extreme, quotient, spectra_of
from .interaction import interaction, lemma_19
from .statements import Condition


@dataclass(frozen=True, eq=False)
class ColumnNumbers:
    """A number of every task's columns.

    Attributes
    ----------
    symbol : str
        The number's symbol.
    tasks : ndarray of shape (m,)
        Labels of the tasks.
    values : tuple of Interval
        The number of every task.
    limits : tuple of Interval
        Bounds that a lemma of the paper puts on the values, if one does (Lemma 19 on pi).
    largest : Interval
        The largest of all tasks.
    holds : bool
        Whether no limit is exceeded.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.theory import mutual_coherence
    >>> found = mutual_coherence(np.array([[1.0, 0.0, 1.0], [1.0, 2.0, -1.0]]))
    >>> print(found)
    task  coherence  known from
    all   0.7071
    0     0.7071     features x0 and x1
    """

    symbol: str
    tasks: np.ndarray
    values: tuple[Interval, ...]
    limits: tuple[Interval, ...] = ()

    @property
    def largest(self) -> Interval:
        """The largest of all tasks."""
        return extreme(max, self.values)

    @property
    def holds(self) -> bool:
        """Whether no limit is exceeded."""
        pairs = zip(self.values, self.limits, strict=False)
        return all(value.low <= limit.high * (1 + 1e-9) + 1e-12 for value, limit in pairs)

    def __str__(self) -> str:
        head, rows = ["task", self.symbol], [["all", str(self.largest)]]
        rows += [[str(label), str(value)] for label, value in zip(self.tasks.tolist(), self.values, strict=True)]
        if self.limits:
            head.append("at most")
            bounds = ["", *map(str, self.limits)]
            rows = [[*row, bound] for row, bound in zip(rows, bounds, strict=True)]
        sources = ["", *(value.how for value in self.values)]
        return as_table((*head, "known from"), [[*row, how] for row, how in zip(rows, sources, strict=True)])


def pi_constant(
    X: Any, k: int, s: int, *, task: Any = None, center: bool = False, max_subsets: int = MAX_SUBSETS
) -> ColumnNumbers:
    """Compute pi_i(k, s) of every task, equation (32) of the paper, and the bound of Lemma 19 on it.

    It is the largest v'A_IJ u ||v|| / (v'A_II v ||u||_inf) over disjoint sets I of k and J of s columns: how
    much s columns can disturb the fit of k others. `limits` of the result holds
    sqrt(s) / 2 sqrt(rho+(s) / rho-(k + s) - 1).

    Parameters
    ----------
    X : DataFrame or ndarray of shape (N, d)
        Samples of all tasks.
    k : int
        Size of the first set, at least 1.
    s : int
        Size of the second set, at least 1. Where k + s exceeds d, sets of at most k and at most s columns
        are meant.
    task : array-like of shape (N,), optional
        The label of the task of every sample. Without labels all samples are one task.
    center : bool, default=False
        Whether to centre every task's columns first, as a model with intercepts does.
    max_subsets : int, default=200000
        How many subsets of columns may be looked at, all tasks together. Where there are
        more, a number is not exact: one end of its interval is what a good subset attains,
        the other is a bound.

    Returns
    -------
    ColumnNumbers
        The numbers and their limits.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.theory import pi_constant
    >>> X = np.random.default_rng(0).standard_normal((50, 6))
    >>> found = pi_constant(X, 2, 2)
    >>> print(found.largest, found.limits[0], found.holds)
    0.5411 0.7891 True
    """
    check_count("s", s)

    def both(spectrum: Spectrum, most: int) -> tuple[Interval, Interval]:
        return interaction(spectrum, k, s, most), lemma_19(spectrum, k, s)

    tasks, found = _of_tasks(X, k, task, center, max_subsets, both)
    return ColumnNumbers(f"pi({k}, {s})", tasks, tuple(one[0] for one in found), tuple(one[1] for one in found))


def mutual_coherence(X: Any, *, task: Any = None, center: bool = False) -> ColumnNumbers:
    """Compute the largest absolute correlation of two columns of every task. It is exact.

    The correlation of columns j and l is |x_j'x_l| / (|x_j| |x_l|).

    Parameters
    ----------
    X : DataFrame or ndarray of shape (N, d)
        Samples of all tasks.
    task : array-like of shape (N,), optional
        The label of the task of every sample. Without labels all samples are one task.
    center : bool, default=False
        Whether to centre every task's columns first, as a model with intercepts does.

    Returns
    -------
    ColumnNumbers
        The numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.theory import mutual_coherence
    >>> X = np.random.default_rng(0).standard_normal((50, 6))
    >>> print(mutual_coherence(X).largest, mutual_coherence(X).values[0].how)
    0.2925 features x2 and x4
    """
    names: list[str] = []

    def of_task(spectrum: Spectrum, most: int) -> Interval:
        value, (j, l) = coherence(spectrum)
        if j == l:
            return Interval(0.0, 0.0, True, "fewer than two columns that are not 0")
        margin = 4 * spectrum.rows * EPS
        return Interval(max(value - margin, 0.0), min(value + margin, 1.0), True, f"features {names[j]} and {names[l]}")

    tasks, found = _of_tasks(X, 1, task, center, MAX_SUBSETS, of_task, names)
    return ColumnNumbers("coherence", tasks, tuple(found))


def mutual_incoherence(
    X: Any, k: int, *, task: Any = None, center: bool = False, max_subsets: int = MAX_SUBSETS
) -> ColumnNumbers:
    """Compute the largest l1 norm of the regression of a column on at most k others, of every task.

    Below 1 for the support of the truth, it is the incoherence (irrepresentable) condition under which the
    lasso finds the right features; this is the worst case over all supports of at most k features. For one
    support: :func:`incoherence`. It is infinite where k columns can be dependent.

    Parameters
    ----------
    X : DataFrame or ndarray of shape (N, d)
        Samples of all tasks.
    k : int
        The largest number of features in a support, at least 1.
    task : array-like of shape (N,), optional
        The label of the task of every sample. Without labels all samples are one task.
    center : bool, default=False
        Whether to centre every task's columns first, as a model with intercepts does.
    max_subsets : int, default=200000
        How many subsets of columns may be looked at, all tasks together. Where there are
        more, a number is not exact: one end of its interval is what a good subset attains,
        the other is a bound.

    Returns
    -------
    ColumnNumbers
        The numbers. Where they are not exact, the bounds come from coherence or sparse eigenvalues.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.theory import mutual_incoherence
    >>> X = np.random.default_rng(0).standard_normal((50, 6))
    >>> print(mutual_incoherence(X, 1).largest, mutual_incoherence(X, 3).largest)
    0.293 0.5585
    """

    def of_task(spectrum: Spectrum, most: int) -> Interval:
        return _incoherence(spectrum, k, most)

    tasks, found = _of_tasks(X, k, task, center, max_subsets, of_task)
    return ColumnNumbers(f"incoherence({k})", tasks, tuple(found))


def restricted_isometry(
    X: Any, k: int, *, task: Any = None, center: bool = False, scaled: bool = False, max_subsets: int = MAX_SUBSETS
) -> ColumnNumbers:
    """Compute the restricted isometry constant delta_k of every task.

    It is the smallest delta with (1 - delta) |w|^2 <= |X w|^2 / n <= (1 + delta) |w|^2 for all w with at
    most k entries: max(rho+(k) - 1, 1 - rho-(k)), so it depends on the units of X.

    Parameters
    ----------
    X : DataFrame or ndarray of shape (N, d)
        Samples of all tasks.
    k : int
        Number of columns, at least 1; above d it means d.
    task : array-like of shape (N,), optional
        The label of the task of every sample. Without labels all samples are one task.
    center : bool, default=False
        Whether to centre every task's columns first, as a model with intercepts does.
    scaled : bool, default=False
        Whether every task's X is first multiplied by the number that makes delta smallest; delta is then
        (rho+(k) - rho-(k)) / (rho+(k) + rho-(k)).
    max_subsets : int, default=200000
        How many subsets of columns may be looked at, all tasks together. Where there are
        more, a number is not exact: one end of its interval is what a good subset attains,
        the other is a bound.

    Returns
    -------
    ColumnNumbers
        The numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.theory import restricted_isometry
    >>> X = np.random.default_rng(0).standard_normal((900, 6))
    >>> print(restricted_isometry(X, 2).largest, restricted_isometry(7 * X, 2, scaled=True).largest)
    0.07589 0.07351
    """
    check_flag("scaled", scaled)

    def of_task(spectrum: Spectrum, most: int) -> Interval:
        return isometry(spectrum, k, scaled)

    tasks, found = _of_tasks(X, k, task, center, max_subsets, of_task)
    return ColumnNumbers(f"delta({k})", tasks, tuple(found))


# ------------------------------------------------------------------ of one task


def on_columns(spectra: Sequence[Spectrum], r: int, s: int) -> Condition:
    """(20)"""
    needed = extreme(max, [one.upper(s).over(one.lower(2 * r + 2 * s)) for one in spectra])
    return Condition("columns", "1 + s / (2 rbar) >= rho+(s) / rho-(2 rbar + 2 s)", needed, exactly(1 + s / (2 * r)))


def spectra_in(
    X: Any, task: Any, center: bool, max_subsets: int, names: list[str] | None = None
) -> tuple[np.ndarray, list[Spectrum]]:
    check_count("max_subsets", max_subsets)
    check_flag("center", center)
    X = opened(X)
    data = read_training(X, np.zeros(len(X)), task=task)
    if names is not None:
        names += [str(name) for name in data.features]
    with one_blas_thread():
        return data.labels, spectra_of(data.designs(bool(center)), max_subsets)


def _of_tasks(
    X: Any,
    k: int,
    task: Any,
    center: bool,
    max_subsets: int,
    number: Callable[[Spectrum, int], Any],
    names: list[str] | None = None,
) -> tuple[np.ndarray, list[Any]]:
    """The labels, and a number of every task; tasks with the same X share theirs."""
    check_count("k", k)
    tasks, spectra = spectra_in(X, task, center, max_subsets, names)
    with one_blas_thread():
        known = {id(one): number(one, one.max_subsets) for one in spectra}
    return tasks, [known[id(one)] for one in spectra]


def coherence(spectrum: Spectrum) -> tuple[float, tuple[int, int]]:
    """The largest absolute correlation, and of which columns; (0, 0) if there are not two."""
    lengths = np.sqrt(np.diag(spectrum.A))
    used = np.flatnonzero(lengths > 0)
    if len(used) < 2:
        return 0.0, (0, 0)
    C = np.abs(spectrum.A[np.ix_(used, used)]) / np.outer(lengths[used], lengths[used])
    np.fill_diagonal(C, -1.0)
    j, l = np.unravel_index(np.argmax(C), C.shape)
    return float(min(C[j, l], 1.0)), (int(used[j]), int(used[l]))


def of_pairs(spectrum: Spectrum, k: int, s: int) -> float:
    """By Gershgorin's discs, at least rho+(s) / rho-(k)."""
    c, spread = coherence(spectrum)[0], quotient(spectrum.upper(1).high, spectrum.lower(1).low)
    s, k = min(s, spectrum.d), min(k, spectrum.d)
    return quotient(spread * (1 + (s - 1) * c), max(1 - (k - 1) * c, 0.0))


def isometry(spectrum: Spectrum, k: int, scaled: bool) -> Interval:
    low, high = spectrum.lower(k), spectrum.upper(k)
    exact, how = low.exact and high.exact, low.how
    if not scaled:
        ends = max(high.low - 1, 1 - low.high, 0.0), max(high.high - 1, 1 - low.low)
        return Interval(*ends, exact, how)
    ratio = high.over(low)
    first, last = (1 - 2 * quotient(1.0, max(end, 1.0) + 1) for end in (ratio.low, ratio.high))
    return Interval(first, last, exact, how)


def regressions(spectrum: Spectrum, S: np.ndarray) -> Floats:
    """(count, d) l1 norms of the regressions of all columns on those of each S (count, k); 0 for members of S, inf where
    the columns of S are dependent."""
    A, k = spectrum.A, S.shape[1]
    values, vectors = np.linalg.eigh(A[S[:, :, None], S[:, None, :]])
    dependent = values[:, 0] <= spectrum.margin(k)
    inverse = 1.0 / np.where(dependent[:, None], 1.0, values)
    found = np.abs(vectors @ (inverse[:, :, None] * (vectors.transpose(0, 2, 1) @ A[S]))).sum(axis=1)
    found[dependent] = inf
    np.put_along_axis(found, S, 0.0, axis=1)
    return np.asarray(found)


def _incoherence(spectrum: Spectrum, k: int, max_subsets: int) -> Interval:
    d = spectrum.d
    k = min(k, d - 1)
    if k == 0:
        return Interval(0.0, 0.0, True, "one column")
    if k > spectrum.order or spectrum.lower(1).high == 0.0:
        return Interval(inf, inf, True, "dependent columns")
    count = sum(comb(d, q) for q in range(1, k + 1))
    slack = 1 + (spectrum.rows + 10 * k) * EPS * quotient(spectrum.upper(k).high, spectrum.lower(k).low)
    if count <= max_subsets:
        found = max(_worst(spectrum, q) for q in range(1, k + 1))
        return Interval(found / slack if found < inf else inf, found * slack, True, f"all {count} supports")
    found = max(_nearest(spectrum, q) for q in {1, (k + 1) // 2, k})
    mu, longest = coherence(spectrum)[0], sqrt(quotient(spectrum.upper(1).high, spectrum.lower(1).low))
    of_pairs = quotient(longest * k * mu, max(1 - (k - 1) * mu, 0.0))
    room = max(spectrum.upper(1).high - spectrum.lower(k + 1).low, 0.0)
    above = {of_pairs * (1 + 1e-12): "coherence", sqrt(quotient(k * room, spectrum.lower(k).low)): "sparse eigenvalues"}
    high = min(above)
    return Interval(min(found / slack, high), high, False, f"a support on one side, {above[high]} on the other")


def _worst(spectrum: Spectrum, k: int) -> float:
    """The largest of all supports of k columns."""
    subsets, best = combinations(range(spectrum.d), k), 0.0
    while batch := list(islice(subsets, max(1, AT_ONCE // (k * spectrum.d)))):
        S = np.fromiter(chain.from_iterable(batch), dtype=np.intp).reshape(-1, k)
        best = max(best, float(regressions(spectrum, S).max()))
    return best


def _nearest(spectrum: Spectrum, k: int) -> float:
    """What the k columns most correlated with each column make of it."""
    sizes = np.abs(spectrum.A) / np.sqrt(np.diag(spectrum.A))
    np.fill_diagonal(sizes, -1.0)
    S, best = np.sort(np.argpartition(-sizes, k - 1, axis=1)[:, :k], axis=1), 0.0
    step = max(1, AT_ONCE // (k * spectrum.d))
    for begin in range(0, len(S), step):
        found = regressions(spectrum, S[begin : begin + step])
        best = max(best, float(np.where(np.isfinite(found), found, 0.0).max()))
    return best
