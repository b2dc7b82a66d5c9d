"""theta: its natural unit, the default, and the adaptive choice.

The lasso shrinks an entry by about m lam / (2 rho), rho = |x_j|^2 / n_i, so the unit of theta is
m lam / rho_bar: theta = ratio * m * lam / rho_bar, with rho_bar the mean of |x_j|^2 / n_i over the (task,
column) pairs that are not constant, as the solver sees them (1 when standardised).

The two rules below were chosen by `benchmarks/theta_study.py` on 43 problems: 26 from seven real data sets at several
training sizes and numbers of tasks, 13 synthetic ones that share rows (the paper's three settings among them), 4 that
share nothing or are noise only. Test nMSE relative to the lasso at the same lam = 0.1 lam_max:

- default ratio max(8, m / 2): real data 1.00 in the geometric mean, 1.12 at worst; 0.74 (1.00 at worst) where rows are
  shared, 1.00 where nothing is. No constant does this: a ratio of 4 reaches 11 on real data with many tasks, since
  the norm of a row of pure noise grows with m; one of 32 gives up most of the gain with few tasks. m / 2 means that a
  row is freed when its mean entry reaches one lasso shrinkage. With two or three tasks it is cautious: mostly the lasso.
- adaptive, jump above max(h) / sqrt(d) (one seed): real data 0.98 in the geometric mean, 1.12 at worst; 0.08 to 0.68
  in the paper's settings; up to 1.43 where nothing is shared. The rule max(h) / n of iterative support detection frees
  too much: 2.8 at worst on real data, 72 with noise only.

These figures flatter the winners: more than a hundred variants were tried on largely the same problems, with one to five
seeds each, so differences of 0.02 are not resolved.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .designs import Design, Floats

MEDIANS = 3.0  # the default theta is at least so many times the median row norm


def mean_square(designs: Sequence[Design], units: Floats) -> float:
    """rho_bar; units (m, d) are the scales that the problem divides the columns by."""
    squares = np.array([design.squares / design.n for design in designs]) / units**2
    return float(squares[squares > 0].mean()) if (squares > 0).any() else 1.0


def unit(lam: float, m: int, rho_bar: float) -> float:
    """What the ratio of theta is counted in."""
    return m * lam / rho_bar


def default_ratio(m: int) -> float:
    return max(8.0, m / 4)


def default_theta(lam: float, m: int, rho_bar: float, row_norms: Floats) -> float:
    """From the (d,) row norms of stage 1 at this lam."""
    return max(default_ratio(m) * unit(lam, m, rho_bar), MEDIANS * float(np.median(row_norms)))


def default_theta_entry(lam: float, m: int, rho_bar: float) -> float:
    """With lam the strength of both penalties, on rows and on entries, together."""
    return unit(lam, m, rho_bar)


def adaptive_theta(row_norms: Floats) -> float:
    """Theta at the first significant jump of the sorted row norms of stage 1.

    With 0 = h_(0) and the non-zero norms h_(1) <= h_(2) <= ... the jump is the first h_(k+1) - h_(k) above
    max(h) / sqrt(d): the idea of iterative support detection (Wang and Yin, 2010) that Fan, Wang and Huang (2014)
    brought to MSMTFL. theta is the middle of the jump; inf (the lasso) if there is none.
    """
    norms = np.concatenate([[0.0], np.sort(row_norms[row_norms > 0])])
    jumps = np.diff(norms)
    large = np.flatnonzero(jumps > norms[-1] / np.sqrt(len(row_norms)))
    return float(norms[large[0]] + 0.5 * jumps[large[0]]) if large.size else float("inf")
