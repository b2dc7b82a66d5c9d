"""theta: its natural unit, the default, and the adaptive choice.

The lasso shrinks an entry by about m lam / (2 rho), rho = |x_j|^2 / n_i, so the unit of theta is
m lam / rho_bar: theta = ratio * m * lam / rho_bar, with rho_bar the mean of |x_j|^2 / n_i over the (task,
column) pairs that are not constant, as the solver sees them (1 when standardised).

The two rules below were chosen by `benchmarks/studies/theta_study.py`, and measured by it again on other random numbers (its
series "confirm", which had no part in the choice; real data sets are the same, split otherwise): 110 problems, 23 of
them from seven real data sets. Test nMSE relative to the lasso's at the same lam = 0.1 lam_max, geometric mean over
problems (the worst of them):

===================================  ===========  ===========  ===========
problems                             default      max(8, m/2)  adaptive
===================================  ===========  ===========  ===========
null: noise alone                    1.00 (1.01)  1.09 (1.33)  1.20 (1.42)
ten features that all tasks share    0.80 (1.01)  0.73 (1.02)  0.65 (1.20)
ten features of every task's own     1.00 (1.01)  0.94 (1.12)  0.96 (1.34)
small effects of all features        1.00 (1.03)  1.03 (1.08)  1.12 (1.42)
copies: tasks that are nearly equal  0.95 (1.02)  0.96 (1.02)  0.97 (1.18)
the paper's three settings           0.99 (1.02)  0.99 (1.02)  0.48 (0.82)
real data                            1.00 (1.08)  1.00 (1.08)  1.01 (1.33)
===================================  ===========  ===========  ===========

- default: a ratio of max(8, m / 4), and at least three times the median row norm of stage 1. A ratio alone cannot
  tell noise from effects, since it knows lam but not the noise: with more rows than features the row norms of pure
  noise are all alike, and at 0.1 lam_max all beyond m / 2, the default before. Ratios that are large enough for that,
  max(16, m) or more, give up most of the gain (0.95 where features are shared). What the median costs: where more
  than half of all features are shared none stands out, and the default is the lasso (10 of 12 features, 15 tasks,
  little noise: the ratio alone reaches 0.30). With two or three tasks it is mostly the lasso anyway.
- adaptive, a jump above max(h) / sqrt(d): the larger gains, and the larger losses; noise alone costs it a fifth. The
  rule max(h) / n of iterative support detection frees too much: 1.38 on noise alone, 2.8 at worst.

At smaller lams, where lassos overfit, every rule loses more: at 0.03 lam_max the default has 1.09 (1.87) on noise
alone and 1.13 (3.60) where every task has features of its own. With 1 to 5 seeds a problem, differences of 0.02 are
not resolved.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._data.designs import Design, Floats

MEDIANS = 3.0  # the default theta is at least so many times the median row norm


def mean_square(designs: Sequence[Design], units: Floats) -> float:
    """rho_bar; units (m, d) are the scales that the problem divides the columns by. Where the loss is not squared, the
    mean curvature of a task's loss counts, at the fit of intercepts only (of Huber's: at its pilot fit)."""
    squares = np.array([design.squares / design.n * design.curvature for design in designs]) / units**2
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
