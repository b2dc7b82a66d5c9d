"""Conditions on columns at a known support: the incoherence of Jalali et al. (2010), and all that the paper speaks of, side
by side (Remarks 9 and 11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._runtime.checks import check_count
from ..spectra import MAX_SUBSETS, Spectrum, as_table, exactly, extreme
from .columns import isometry, of_pairs, on_columns, regressions, spectra_in
from .statements import Condition


@dataclass(frozen=True, eq=False)
class Incoherence:
    """The incoherence condition of Jalali et al. (2010) at the supports of the tasks.

    Attributes
    ----------
    tasks : ndarray of shape (m,)
        Labels of the tasks.
    values : ndarray of shape (m,)
        For every task the largest l1 norm of the regression of a feature that no task uses on those that
        the task uses.
    gamma : float
        1 - the largest sum over tasks of those norms, for one feature; the condition is gamma > 0.
    eigenvalues : ndarray of shape (m,)
        The smallest eigenvalue of X_S'X_S / n of the task's support S, which must be positive, too.
    holds : bool
        Whether both are.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.theory import incoherence
    >>> X = np.random.default_rng(0).standard_normal((50, 6))
    >>> found = incoherence(X, [2.0, 0, -1.0, 0, 0, 0])
    >>> print(found.holds, found)
    True gamma = 0.6046 > 0: the incoherence condition of Jalali et al. holds
    task  largest l1 norm  smallest eigenvalue
    0     0.3954           0.8773
    """

    tasks: np.ndarray
    values: Floats
    gamma: float
    eigenvalues: Floats

    @property
    def holds(self) -> bool:
        """Whether gamma and all eigenvalues are positive."""
        return bool(self.gamma > 0 and (self.eigenvalues > 0).all())

    def __str__(self) -> str:
        said = f"gamma = {self.gamma:.4g} {'>' if self.gamma > 0 else '<='} 0"
        rows = zip(self.tasks.tolist(), self.values.tolist(), self.eigenvalues.tolist(), strict=True)
        table = as_table(("task", "largest l1 norm", "smallest eigenvalue"), [(str(a), b, c) for a, b, c in rows])
        return f"{said}: the incoherence condition of Jalali et al. {'holds' if self.holds else 'fails'}\n{table}"


def incoherence(X: Any, coef: Any, *, task: Any = None, center: bool = False) -> Incoherence:
    """Compute the incoherence condition of Jalali et al. (2010) at a known support.

    Remark 11 of the paper compares it with (20).

    Parameters
    ----------
    X : DataFrame or ndarray of shape (N, d)
        Samples of all tasks.
    coef : array-like of shape (m, d) or (d,)
        Coefficients, (d,) if all tasks use the same features; what is not 0 is the support.
    task : array-like of shape (N,), optional
        The label of the task of every sample. Without labels all samples are one task.
    center : bool, default=False
        Whether to centre every task's columns first, as a model with intercepts does.

    Returns
    -------
    Incoherence
        The condition.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.theory import incoherence
    >>> X = np.random.default_rng(0).standard_normal((50, 6))
    >>> incoherence(X, [[2.0, 0, -1.0, 0, 0, 0], [1.0, 0, 0, 0, 0, 3.0]], task=np.repeat([0, 1], 25)).holds
    False
    """
    tasks, spectra = spectra_in(X, task, center, MAX_SUBSETS)
    return _at_support(tasks, spectra, coef)


def _at_support(tasks: np.ndarray, spectra: Sequence[Spectrum], coef: Any) -> Incoherence:
    W, d = np.atleast_2d(np.asarray(coef, dtype=np.float64)), spectra[0].d
    if W.shape not in ((1, d), (len(spectra), d)):
        raise ValueError(f"coef has shape {np.shape(coef)}; expected ({len(spectra)}, {d}) or ({d},).")
    used = np.broadcast_to(W != 0, (len(spectra), d))
    if not used.any():
        raise ValueError("all coefficients are zero: there is no support to look at.")
    outside = ~used.any(axis=0)
    norms, smallest = np.zeros((len(spectra), d)), np.full(len(spectra), inf)
    for i, (spectrum, S) in enumerate(zip(spectra, used, strict=True)):
        if S.any():
            inside = np.flatnonzero(S)[None]
            norms[i] = regressions(spectrum, inside)[0]
            smallest[i] = max(np.linalg.eigvalsh(spectrum.A[np.ix_(inside[0], inside[0])])[0], 0.0)
            if smallest[i] <= spectrum.margin(len(inside[0])):
                smallest[i] = 0.0
    norms = norms[:, outside]
    largest = norms.max(axis=1, initial=0.0)
    return Incoherence(tasks, largest, float(1 - norms.sum(axis=0).max(initial=0.0)), smallest)


# ------------------------------------------------------------------ the conditions on columns side by side


def design_conditions(
    X: Any,
    coef: Any,
    *,
    task: Any = None,
    center: bool = False,
    s: int | None = None,
    max_subsets: int = MAX_SUBSETS,
) -> tuple[Condition, ...]:
    """Compute the conditions that the paper speaks of, at the support of `coef`, on one design.

    They are those of Remarks 9 and 11. "columns" is (20), the one that Theorem 8 needs. Two others imply it:
    "isometry", delta(2 rbar + 2 s) <= s / (4 rbar + s) at the best scale of every task, and "coherence",
    with c the coherence of a task and q its largest over its smallest squared column length,
    q (1 + (s - 1) c) / (1 - (2 rbar + 2 s - 1) c) <= 1 + s / (2 rbar). "incoherence" is that of Jalali et al.
    (2010) at this support: other than Remark 11 says, it neither implies "columns" nor follows from it.

    Parameters
    ----------
    X : DataFrame or ndarray of shape (N, d)
        Samples of all tasks.
    coef : array-like of shape (m, d) or (d,)
        Coefficients, (d,) if all tasks use the same features; what is not 0 is the support.
    task : array-like of shape (N,), optional
        The label of the task of every sample. Without labels all samples are one task.
    center : bool, default=False
        Whether to centre every task's columns first, as a model with intercepts does.
    s : int, optional
        The number s of the theorem, at least rbar; by default rbar.
    max_subsets : int, default=200000
        How many subsets of columns may be looked at, all tasks together. Where there are
        more, a number is not exact: one end of its interval is what a good subset attains,
        the other is a bound.

    Returns
    -------
    tuple of Condition
        The conditions.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl.theory import design_conditions
    >>> X = np.random.default_rng(0).standard_normal((4000, 6))
    >>> [(one.name, one.verdict) for one in design_conditions(X, [2.0, 0, 0, 0, 0, 0])]
    [('columns', 'holds'), ('isometry', 'holds'), ('coherence', 'holds'), ('incoherence', 'holds')]
    """
    tasks, spectra = spectra_in(X, task, center, max_subsets)
    found = _at_support(tasks, spectra, coef)
    r = int(np.count_nonzero(np.atleast_2d(np.asarray(coef, dtype=np.float64)).any(axis=0)))
    s = r if s is None else s
    check_count("s", s)
    if s < r:
        raise ValueError(f"s={s} must be at least rbar = {r}, the number of rows that matter.")
    k, limit, have = 2 * r + 2 * s, exactly(s / (4 * r + s)), exactly(1 + s / (2 * r))
    delta = extreme(max, [isometry(one, k, True) for one in spectra])
    pairs = exactly(max(of_pairs(one, k, s) for one in spectra))
    of_support = exactly(1 - found.gamma if (found.eigenvalues > 0).all() else inf)
    return (
        on_columns(spectra, r, s),
        Condition("isometry", "s / (4 rbar + s) >= delta(2 rbar + 2 s)", delta, limit),
        Condition(
            "coherence", "1 + s / (2 rbar) >= what coherence allows for rho+(s) / rho-(2 rbar + 2 s)", pairs, have
        ),
        Condition("incoherence", "1 > sum over tasks of the regression of a feature", of_support, exactly(1 - 1e-9)),
    )
