"""Sparse eigenvalues (Definition 6 of the paper): exact where all subsets can be looked at, else certified intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from math import comb, inf
from typing import Any

import numpy as np

from .._data.designs import Design, Floats
from .._data.tables import opened
from .._data.tasks import read_training
from .._runtime.checks import check_count, check_flag
from .._runtime.progress import one_blas_thread

MAX_SUBSETS = 200_000  # about a second
AT_ONCE = 2**21  # numbers in a batch of submatrices
EPS = float(np.finfo(float).eps)
CLOSE = 1e-9  # share of the largest column's square at which the ends of an interval count as equal
FEW = 32  # columns whose eigenvalues cost next to nothing


@dataclass(frozen=True)
class Interval:
    """A number known to lie in [low, high].

    Attributes
    ----------
    low : float
        The lower end.
    high : float
        The upper end.
    exact : bool
        Whether the ends differ by rounding only.
    how : str
        How the number is known.

    Examples
    --------
    >>> from msmtfl.theory import Interval
    >>> print(Interval(0.43, 0.66, exact=False), Interval(2.0, 3.0, exact=False).over(Interval(2.0, 2.0)))
    0.43 .. 0.66 1 .. 1.5
    """

    low: float
    high: float
    exact: bool = True
    how: str = ""

    def over(self, other: Interval) -> Interval:
        """Return the quotient of this number and another, both at least 0; what is divided by 0 is infinite.

        Parameters
        ----------
        other : Interval
            The number to divide by.

        Returns
        -------
        Interval
            The quotient.
        """
        ends = quotient(self.low, other.high), quotient(self.high, other.low)
        return Interval(*ends, self.exact and other.exact)

    def __str__(self) -> str:
        low, high = f"{self.low:.4g}", f"{self.high:.4g}"
        return high if self.exact or low == high else f"{low} .. {high}"


def quotient(x: float, y: float) -> float:
    return inf if y == 0.0 else 0.0 if y == inf else float(x) / float(y)


def exactly(value: float) -> Interval:
    return Interval(value, value)


def extreme(which: Callable[[Iterable[float]], float], parts: Sequence[Interval]) -> Interval:
    """The smallest or largest of several numbers."""
    ends = which(part.low for part in parts), which(part.high for part in parts)
    return Interval(*ends, all(part.exact for part in parts))


# ------------------------------------------------------------------ sparse eigenvalues (Definition 6)


class Spectrum:
    """Sparse eigenvalues of one A = Z'Z / n: exact where `max_subsets` suffice, else certified intervals.

    Both kinds are the largest k-sparse eigenvalue R(k) of a symmetric M: rho+ with M = A, -rho- with M = -A. It is at most
    - the largest eigenvalue of M,
    - the largest m_jj + (the k - 1 largest |m_jl|, l != j): Gershgorin's discs,
    - c R(q) - (c - 1) min_j m_jj for q < k and c = (k - 1)/(q - 1): the sum of all q x q blocks of a k x k block, over how
      many of them hold a given pair, is that block plus (c - 1) times its diagonal; c is how often a row is held by then.
    """

    def __init__(self, Z: Floats, n: float, order: int, max_subsets: int):
        self.A, self.n, self.order, self.max_subsets = Z.T @ Z / n, n, order, max_subsets
        self.rows, self.d = Z.shape
        self.squares = -np.sort(-np.diag(self.A))
        self.whole = np.linalg.eigvalsh(self.A)
        self.known: dict[tuple[int, int], Interval] = {}
        self.ends: dict[int, tuple[float, float]] = {}

    def upper(self, k: int) -> Interval:
        return self._known(1, min(k, self.d))

    def lower(self, k: int) -> Interval:
        return self._known(-1, min(k, self.d))

    def _known(self, sign: int, k: int) -> Interval:
        if (sign, k) not in self.known:
            self.known[sign, k] = self._certified(sign, k)
        return self.known[sign, k]

    def _certified(self, sign: int, k: int) -> Interval:
        if sign < 0 and k > self.order:
            return Interval(0.0, 0.0, True, f"{k} columns, at most {self.order} of them independent")
        if k == 1:
            value = float(self.squares[0 if sign > 0 else -1])
            return Interval(value * (1 - self.rows * EPS), value * (1 + self.rows * EPS), True, "the columns' squares")
        low, high, exact, how = self._largest(sign, k)
        margin = self.margin(k)
        if sign > 0:
            return Interval(low - margin, high + margin, exact, how)
        return Interval(max(-high - margin, 0.0), min(max(-low, 0.0) + margin, self.lower(1).high), exact, how)

    def margin(self, k: int) -> float:
        """What rounding may hide: of A, at most rows * eps times the lengths of two columns, and of eigenvalues."""
        return (self.rows + 10 * k) * EPS * float(self.squares[:k].sum())

    def _largest(self, sign: int, k: int) -> tuple[float, float, bool, str]:
        """Bounds on the largest k-sparse eigenvalue of sign * A, k >= 2."""
        diagonal, whole = sign * np.diag(self.A), float((sign * self.whole).max())
        if k == self.d:
            return whole, whole, True, "all columns"
        found, close, count = _attained(sign * self.A, k), CLOSE * float(self.squares[0]), comb(self.d, k)
        sizes = np.abs(self.A)
        np.fill_diagonal(sizes, 0.0)
        discs = np.partition(sizes, 1 - k, axis=1)[:, 1 - k :].sum(axis=1)
        above = {float((diagonal + discs).max()): "discs", whole: "all columns"}
        if min(above) - found > close:
            if count <= self.max_subsets:
                top = self._over_all(sign, k)
                return top, top, True, f"all {count} subsets"
            q = max((q for q in range(3, k) if comb(self.d, q) <= self.max_subsets), default=0)
            if q:
                c = (k - 1) / (q - 1)
                top = c * (self._over_all(sign, q) + self.margin(q)) - (c - 1) * float(diagonal.min())
                above[top] = f"all subsets of {q}"
        high = min(above)
        return min(found, high), high, high - found <= close, f"a subset on one side, {above[high]} on the other"

    def _over_all(self, sign: int, k: int) -> float:
        """The largest eigenvalue of all k x k blocks of sign * A."""
        if k not in self.ends:
            subsets, (low, high) = combinations(range(self.d), k), (inf, -inf)
            while batch := list(islice(subsets, max(1, AT_ONCE // k**2))):
                S = np.fromiter(chain.from_iterable(batch), dtype=np.intp).reshape(-1, k)
                values = np.linalg.eigvalsh(self.A[S[:, :, None], S[:, None, :]])
                low, high = min(low, float(values.min())), max(high, float(values.max()))
            self.ends[k] = low, high
        return max(sign * end for end in self.ends[k])


def _attained(M: Floats, k: int) -> float:
    """The largest eigenvalue of some k x k block, k >= 2: to the best pair of columns those are added that are best beside
    the eigenvector so far; then the column that counts least is exchanged while that helps. Beyond FEW columns half as many
    as there are are added at once, and none exchanged."""
    diagonal, best = np.diag(M), -inf
    pairs = _of_two(diagonal[:, None], diagonal, M)
    np.fill_diagonal(pairs, -inf)
    S = [int(j) for j in np.unravel_index(np.argmax(pairs), pairs.shape)]
    while True:
        value, v = _top(M, S)
        if len(S) == k:
            if value <= best or k > FEW:
                return max(value, best)
            best = value
            S.pop(int(np.argmin(np.abs(v))))
            value, v = _top(M, S)
        gain = _of_two(value, diagonal, M[:, S] @ v)
        gain[S] = -inf
        more = 1 if len(S) < FEW else min(len(S) // 2, k - len(S))
        S += np.argpartition(-gain, more - 1)[:more].tolist()


def _of_two(x: Any, y: Any, c: Any) -> Floats:
    """The largest eigenvalue of [[x, c], [c, y]]."""
    return np.asarray((x + y) / 2 + np.hypot((x - y) / 2, c))


def _top(M: Floats, S: list[int]) -> tuple[float, Floats]:
    values, vectors = np.linalg.eigh(M[np.ix_(S, S)])
    return float(values[-1]), vectors[:, -1]


def spectra_of(designs: Sequence[Design], max_subsets: int, units: Floats | None = None) -> list[Spectrum]:
    """One per task; tasks with the same X share theirs."""
    different = {id(design.same_x) for design in designs}
    made: dict[int, Spectrum] = {}
    for i, design in enumerate(designs):
        if id(design.same_x) not in made:
            Z = design.columns(np.arange(design.d))
            if Z is None:
                raise ValueError("sparse eigenvalues are computed from rows; here only statistics are at hand.")
            Z = Z if units is None else Z / units[i]
            made[id(design.same_x)] = Spectrum(Z, design.n, design.order, max_subsets // len(different))
    return [made[id(design.same_x)] for design in designs]


@dataclass(frozen=True, eq=False)
class SparseEigenvalues:
    """The smallest and the largest eigenvalue of k columns of every task.

    Attributes
    ----------
    k : int
        Number of columns.
    tasks : ndarray of shape (m,)
        Labels of the tasks.
    lower : tuple of Interval
        For every task the smallest eigenvalue, rho-_i(k).
    upper : tuple of Interval
        For every task the largest eigenvalue, rho+_i(k).
    rho_min : Interval
        The smallest of all tasks.
    rho_max : Interval
        The largest of all tasks.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.theory import sparse_eigenvalues
    >>> found = sparse_eigenvalues(np.diag([1.0, 2.0, 3.0, 4.0]), 2, task=["a", "a", "b", "b"])
    >>> print(found.rho_max, [str(one) for one in found.upper])
    8 ['2', '8']
    """

    k: int
    tasks: np.ndarray
    lower: tuple[Interval, ...]
    upper: tuple[Interval, ...]

    @property
    def rho_min(self) -> Interval:
        """The smallest eigenvalue of all tasks."""
        return extreme(min, self.lower)

    @property
    def rho_max(self) -> Interval:
        """The largest eigenvalue of all tasks."""
        return extreme(max, self.upper)

    def __str__(self) -> str:
        parts = zip(self.tasks.tolist(), self.lower, self.upper, strict=True)
        rows = [(str(label), str(low), str(high), low.how, high.how) for label, low, high in parts]
        rows.insert(0, ("all", str(self.rho_min), str(self.rho_max), "", ""))
        return as_table(("task", f"rho-({self.k})", f"rho+({self.k})", "rho- known from", "rho+ known from"), rows)


def sparse_eigenvalues(
    X: Any, k: int, *, task: Any = None, center: bool = False, max_subsets: int = MAX_SUBSETS
) -> SparseEigenvalues:
    """Compute the sparse eigenvalues of every task (Definition 6 of the paper), or intervals that hold them.

    rho+_i(k) (rho-_i(k)) is the largest (smallest) eigenvalue of X_i'X_i / n_i restricted to any k columns.

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
    max_subsets : int, default=200000
        How many subsets of columns may be looked at, all tasks together. Where there are
        more, a number is not exact: one end of its interval is what a good subset attains,
        the other is a bound.

    Returns
    -------
    SparseEigenvalues
        The eigenvalues. Where they are not exact, the bounds come from all columns, from discs or from all
        smaller subsets.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.theory import sparse_eigenvalues
    >>> found = sparse_eigenvalues(np.array([[1.0, 0.0, 1.0], [1.0, 2.0, -1.0]]), 2)
    >>> print(found.rho_min, found.rho_max, found.lower[0].how)
    0.382 2.618 all 3 subsets
    >>> print(sparse_eigenvalues(np.random.default_rng(0).standard_normal((900, 100)), 10).rho_min)
    0.4318 .. 0.6641
    """
    check_count("k", k)
    check_count("max_subsets", max_subsets)
    check_flag("center", center)
    X = opened(X)
    data = read_training(X, np.zeros(len(X)), task=task)
    with one_blas_thread():
        spectra = spectra_of(data.designs(bool(center)), max_subsets)
        lower, upper = tuple(one.lower(k) for one in spectra), tuple(one.upper(k) for one in spectra)
    return SparseEigenvalues(int(k), data.labels, lower, upper)


# ------------------------------------------------------------------ tables of text


def as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def as_table(head: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> str:
    text = [head, *(tuple(map(as_text, row)) for row in rows)]
    widths = [max(len(row[c]) for row in text) for c in range(len(head))]
    return "\n".join("  ".join(f"{a:<{w}}" for a, w in zip(row, widths, strict=True)).rstrip() for row in text)
