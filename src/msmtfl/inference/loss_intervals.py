"""Intervals of coefficients without a penalty under losses that are not squared: classes, counts, amounts, times.

With w the minimiser of a task's loss  sum_r v_r h(y_r, x_r'w + b)  over the features at hand, H its second derivatives and
s_r = v_r h'(y_r, f_r), the covariance of w is taken to be

    H^-1  sum_r (s_r / (1 - l_r))^2 x_r x_r'  H^-1,     l_r the leverage of sample r

(the sandwich of Huber and White, as HC3 of MacKinnon and White 1985 corrects it for few samples). It holds for the minimiser
in the population whether or not the samples spread as the loss supposes: counts more than Poisson's, classes where a feature
that matters is not among those at hand. Quantiles are those of Student's t, with as many degrees of freedom as there are
samples more than coefficients. The samples of a partial likelihood (cox) are not independent terms of it: for these the
covariance is H^-1, and it is events that count.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.special import stdtr, stdtrit

from .._data.designs import Floats, Ints
from .._data.event_times import times_of
from .._objective.loss_task import LossTask
from .._objective.problem import Problem
from .._solvers.problems.make_problem import remade
from .._solvers.task_lassos import lassos_for

DEPENDENT = 1e-10  # share of the largest pivot at which columns are linearly dependent
ALONE = 1.0 - 1e-9  # leverage of a sample that a coefficient serves alone
FEW = "half of its samples are no more than the features selected (and the intercept). A larger lam selects fewer"
FEW_EVENTS = "half of its events are no more than the features selected. A larger lam selects fewer"
TIED = "on the estimating half the features selected are linearly dependent, or one is constant"
ESCAPED = (
    "on the estimating half the features selected separate the classes (or hold counts at 0, or put events in order), so "
    "that estimates without a penalty are infinite. A larger lam selects fewer"
)


def intervals_within(
    problem: Problem, keep: np.ndarray, support: np.ndarray, level: float, centre: bool
) -> list[Floats | str]:
    """Of every task of a problem, on some of its samples, keep (N,) bool: (4, k) estimates, ends of their intervals and
    p-values of the features in use, support (m, d) bool, beside an intercept, if there is one (`centre`); or, in words about
    these samples, why there are none."""
    levelled = problem.loss.levelled
    parts = [task.y[keep[task.rows]] for task in problem.data.tasks]
    counts = np.array([len(y) if levelled else np.count_nonzero(times_of(y)[1]) for y in parts])
    crowded = counts - support.sum(axis=1) - (centre and levelled) < 1
    used = support & ~crowded[:, None]
    weights = None if problem.weigh is None else problem.weigh(keep)
    plain = replace(problem, positive=False, bounds=None, groups=None, l1_ratio=1.0)
    part = remade(plain, problem.data.kept(keep, weights), np.where(used.T, 1.0, np.inf), centre)
    A = np.where(used, 0.0, np.inf)
    W = lassos_for(part).solve(A)[0]
    out: list[Floats | str] = []
    for i, design in enumerate(part.designs):
        S = np.flatnonzero(used[i])
        if crowded[i]:
            out.append(FEW if levelled else FEW_EVENTS)
        elif part.escapes(i, W[i : i + 1], A[i : i + 1])[0]:
            out.append(ESCAPED)
        else:
            out.append(around_minimiser(design, W[i], S, level) if S.size else np.empty((4, 0)))
    return out


def around_minimiser(design: LossTask, w: Floats, S: Ints, level: float) -> Floats | str:
    """(4, k): estimates w at the features S, which minimise the loss, ends of their intervals and p-values."""
    loss, y, v, f = design.of_loss, design.y, design.v, design.predictor(w)
    k, bend = len(S), loss.curvature(y, f)
    C = design.block(S, ones=design.centred)
    length = np.linalg.norm(C, axis=0)
    length[length == 0.0] = 1.0
    C = C / length
    Q, R, order = qr(loss.root(C, v, f, bend), mode="economic", pivoting=True)
    if len(R) < C.shape[1] or abs(R[-1, -1]) <= DEPENDENT * abs(R[0, 0]):
        return TIED
    inverse = np.empty_like(R)
    inverse[order] = solve_triangular(R, np.eye(len(R)))  # times its transpose that of the second derivatives
    if loss.levelled:
        alone = np.minimum((Q**2).sum(axis=1), ALONE)
        spread = np.linalg.norm(((v * loss.slope(y, f) / (1.0 - alone))[:, None] * C) @ inverse @ inverse.T, axis=0)
        degrees = float(len(y) - C.shape[1])
    else:
        spread, degrees = np.linalg.norm(inverse, axis=1), float(np.count_nonzero(times_of(y)[1]) - k)
    estimate, error = w[S], (spread / length)[:k]
    reach = stdtrit(degrees, 0.5 + level / 2) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2.0 * stdtr(degrees, -np.abs(estimate) / error)
    return np.array([estimate, estimate - reach, estimate + reach, np.nan_to_num(p, nan=1.0)])
