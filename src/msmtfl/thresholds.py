"""theta: its natural unit, the default, and the adaptive choice.

The lasso shrinks an entry by about m lam / (2 rho), rho = |x_j|^2 / n_i, so the unit of theta is
m lam / rho_bar: theta = ratio * m * lam / rho_bar, with rho_bar the mean of |x_j|^2 / n_i over the (task,
column) pairs that are not constant, as the solver sees them (1 when standardised).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .designs import Design, Floats

DEFAULT_RATIO = 4.0


def mean_square(designs: Sequence[Design], units: Floats) -> float:
    """rho_bar; units (m, d) are the scales that the problem divides the columns by."""
    squares = np.array([design.squares / design.n for design in designs]) / units**2
    return float(squares[squares > 0].mean()) if (squares > 0).any() else 1.0


def unit(lam: float, m: int, rho_bar: float) -> float:
    """What the ratio of theta is counted in."""
    return m * lam / rho_bar


def default_theta(lam: float, m: int, rho_bar: float) -> float:
    return DEFAULT_RATIO * unit(lam, m, rho_bar)


def adaptive_theta(row_norms: Floats, rows: float) -> float:
    """Theta at the first significant jump of the sorted row norms of stage 1.

    With h_(1) <= h_(2) <= ... (a zero first) the jump is the first h_(k+1) - h_(k) above max(h) / rows, the rule of
    iterative support detection (Wang and Yin, 2010) that Fan, Wang and Huang (2014) brought to MSMTFL; theta is
    the middle of the jump. inf (the lasso) if there is none.
    """
    norms = np.concatenate([[0.0], np.sort(row_norms[row_norms > 0])])
    if len(norms) < 3:
        return float("inf")
    jumps = np.diff(norms)
    large = np.flatnonzero(jumps[1:] > norms[-1] / rows) + 1
    return float(norms[large[0]] + 0.5 * jumps[large[0]]) if large.size else float("inf")
