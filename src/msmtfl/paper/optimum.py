"""The global minimum of (1) by branch and bound, and how far Algorithm 1 is from it: for few features.

min(h, theta) is the smaller of two convex costs, so

    min F  =  min over sets C of rows  [ min_W  loss(W) + lam sum_{j not in C} |w^j|_1  +  lam theta |C| ]

and the inner problem is a stage: an exact weighted lasso. A node of the search has decided about some rows. The others get
the largest convex function below lam min(h, theta) on 0 <= h <= B_j, which is lam theta h / B_j where B_j > theta. B_j is
a bound on the row's norm wherever F is no larger than at the best W known. (Where there is none, in tasks with fewer
independent samples than features, it is 0, and the search looks at far more sets.)
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._data.designs import Floats, Ints
from .._estimators.families import is_regression_of
from .._estimators.fitted import check_without_ridge, require_offset
from .._objective.penalties import ConcaveRows
from .._objective.problem import Problem
from .._objective.proofs.certificates import loss_of
from .._objective.shapes import CAPPED, read_shape
from .._runtime.checks import check_count, check_positive
from .._runtime.progress import Listener, one_blas_thread
from .._solvers.solvers import solver_for
from .._solvers.stages import run_stages

OPEN, FREE, PENALISED = 0, 1, 2  # what a node has decided about a row


@dataclass(frozen=True, eq=False)
class GlobalMinimum:
    """What `global_minimum` found.

    Attributes
    ----------
    coef : ndarray of shape (m, d)
        The best coefficients found, in the data's units.
    objective : float
        The objective F there.
    lower_bound : float
        F is nowhere smaller.
    proven : bool
        Whether the two agree to the tolerance: `coef` is a global minimiser.
    free_rows : ndarray of int
        The features with norm >= theta.
    fitted : float
        F at the model's own solution.
    excess : float
        (fitted - objective) / fitted: what Algorithm 1 left on the table.
    n_nodes : int
        Number of convex problems solved.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.optimum import global_minimum
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(90)
    >>> found = global_minimum(MSMTFL(0.1, 1.5).fit(X, y, task=task), X, y, task=task)
    >>> found.free_rows, found.proven
    (array([0, 3]), True)
    """

    coef: Floats
    objective: float
    lower_bound: float
    proven: bool
    free_rows: Ints
    fitted: float
    n_nodes: int

    @property
    def excess(self) -> float:
        """How far the model's own solution is above the best one found, as a share of its objective."""
        return (self.fitted - self.objective) / abs(self.fitted) if self.fitted else 0.0

    def __str__(self) -> str:
        best = "The global minimum" if self.proven else "The best found"
        if self.excess > 1e-9:
            way = f"The model is {100 * self.excess:.3g} % above it."
        else:
            way = "The model is there." if self.proven else "Nothing better than the model was found."
        known = "" if self.proven else f" Not proven: the minimum is at least {self.lower_bound:.6g}."
        return f"{best} is {self.objective:.6g}, {len(self.free_rows)} rows free. {way}{known}"


def global_minimum(
    model: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    sample_weight: Any = None,
    tol: float = 1e-7,
    max_nodes: int = 20_000,
    offset: Any = None,
) -> GlobalMinimum:
    """Find out how far a fit is from the global minimum of its own problem (1).

    Algorithm 1 is proven to reach a critical point. Whether it is the best one can be found out where there
    are few features (some 20; more if the data determine the coefficients well). A node costs what one
    stage does.

    Parameters
    ----------
    model : MSMTFL or MSMTFLCV
        A fitted model, the paper's (lam_entry = 0, capped).
    X : DataFrame, ndarray or sparse matrix of shape (N, d)
        The samples of the fit.
    y : array-like of shape (N,) or (N, m)
        The targets of the fit.
    task : array-like of shape (N,), optional
        The task labels of the fit, if it was given any.
    sample_weight : array-like of shape (N,) or (N, m), optional
        The weights of the fit, if it was given any.
    tol : float, default=1e-7
        Relative difference between F and its lower bound at which the search ends.
    max_nodes : int, default=20000
        The largest number of convex problems to solve. If it is reached the result has `proven` False, and
        the bound reached.
    offset : array-like of shape (N,) or (N, m), optional
        The offset of the fit, if it was given one.

    Returns
    -------
    GlobalMinimum
        The best solution, and what is proven about it.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.optimum import global_minimum
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat([0, 1, 2], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(90)
    >>> model = MSMTFL(0.1, 1.5).fit(X, y, task=task)
    >>> found = global_minimum(model, X, y, task=task)
    >>> found.proven, bool(found.excess < 1e-9)
    (True, True)
    """
    check_is_fitted(model, "stages_")
    if not is_regression_of(model, "msmtfl") or read_shape(model.penalty) != CAPPED or model.lam_entry_:
        raise ValueError(
            "the global minimum is that of the paper's model: MSMTFL with penalty='capped' and lam_entry=0."
        )
    require_offset(model, offset)
    check_positive("tol", tol)
    check_count("max_nodes", max_nodes)
    with one_blas_thread():
        problem = clone(model)._make_problem(X, y, task, sample_weight, offset)
        check_without_ridge(model, "the search for the global optimum")
        if problem.bounds is not None:
            raise ValueError(
                "the search for the global optimum knows positive=True, but no other bounds: fit without them."
            )
        if problem.groups is not None:
            raise ValueError(
                "the search for the global optimum knows no groups of features: fit without feature_groups."
            )
        W = np.atleast_2d(model.stages_[-1].coef)
        if W.shape != (problem.m, problem.d):
            raise ValueError(
                f"X has {problem.d} features in {problem.m} tasks; the model was fitted on {W.shape[::-1]}."
            )
        return _Search(problem, ConcaveRows(model.lam_, model.theta_, problem.factors), W).run(tol, max_nodes)


class _Search:
    """Best first: the node with the smallest lower bound is split at the row whose cost it underestimates most."""

    def __init__(self, problem: Problem, penalty: ConcaveRows, W: Floats):
        self.problem, self.penalty = problem, penalty
        self.stages = solver_for(problem, penalty)
        self.zero_loss = loss_of(problem.designs, np.zeros_like(W))
        self.fitted = self.value(W)
        self.best, self.coef, self.n_nodes = self.fitted, W, 0
        self.at_least, self.reach = _reach(problem)
        counts = (problem.factors > 0) & np.isfinite(problem.factors)
        self.rows = np.flatnonzero(counts.any(axis=1))  # the others have no cap

    def value(self, W: Floats) -> float:
        return loss_of(self.problem.designs, W) + self.penalty.value(W.T)

    def improve(self, W: Floats) -> None:
        """Keep W, or what Algorithm 1 makes of it, if it is the best so far."""
        value = self.value(W)
        if value < self.best:
            self.best, self.coef = value, W

    def bounds(self) -> Floats:
        """(d,): no row has a larger norm where F <= best."""
        if self.reach is None:
            return np.full(self.problem.d, np.inf)
        centre, spread = self.reach
        return np.asarray(centre + np.sqrt(max(self.best - self.at_least, 0.0) * spread))

    def relaxed(self, decided: np.ndarray) -> tuple[float, Floats, Floats]:
        """A lower bound on F under the decisions, its minimiser, and by how much it underestimates each open row."""
        lam, theta, bounds = self.penalty.lam, self.penalty.theta, self.bounds()
        slope = np.where(bounds > theta, theta / np.maximum(bounds, theta), 1.0)
        slope = np.where(decided == FREE, 0.0, np.where(decided == PENALISED, 1.0, slope))
        pattern = np.stack([np.arange(self.problem.d, dtype=float), slope])
        weights = self.penalty.weights(pattern)
        outcome = self.stages.solve(weights, self.coef, 0, Listener())
        self.n_nodes += 1
        W = outcome.coef
        self.improve(W)
        norms = self.penalty.row_norms(W.T)
        free = lam * theta * np.count_nonzero(decided == FREE)
        value = loss_of(self.problem.designs, W) + lam * float(slope @ norms) + free
        under = np.where(decided == OPEN, lam * (np.minimum(norms, theta) - slope * norms), 0.0)
        return value - outcome.dual_gap * self.zero_loss, W, under

    def run(self, tol: float, max_nodes: int) -> GlobalMinimum:
        decided = np.full(self.problem.d, PENALISED, dtype=np.int8)
        decided[self.rows] = OPEN
        bound, W, under = self.relaxed(decided)
        self.improve(run_stages(self.penalty, self.stages, max_stages=50, start=W).stages[-1].coef)
        heap = [(bound, 0, decided, under)]
        lower = bound
        while heap:
            lower, _, decided, under = heapq.heappop(heap)
            if lower >= self.best - tol * abs(self.best) or self.n_nodes >= max_nodes:
                break
            j = int(np.argmax(under))
            if under[j] <= 0.0:  # the relaxation is F itself at its minimiser, which `improve` has seen
                continue
            for choice in (FREE, PENALISED):
                child = decided.copy()
                child[j] = choice
                bound, _, of_child = self.relaxed(child)
                bound = max(bound, lower)
                if bound < self.best - tol * abs(self.best):
                    heapq.heappush(heap, (bound, self.n_nodes, child, of_child))
        else:
            lower = self.best
        lower = min(max(lower, 0.0), self.best)  # F is nowhere negative
        proven = lower >= self.best - tol * abs(self.best)
        free = self.penalty.free_rows(self.penalty.pattern(self.coef.T))
        return GlobalMinimum(self.coef, self.best, lower, proven, free, self.fitted, self.n_nodes)


def _reach(problem: Problem) -> tuple[float, tuple[Floats, Floats] | None]:
    """The smallest loss, and, where least squares determines every task, (d,) the row norms of its coefficients and how
    their squares can grow per unit of loss: by Cauchy and Schwarz, h_j <= centre_j + (excess loss * spread_j)^1/2."""
    m, d = problem.m, problem.d
    centre, spread, least = np.zeros(d), np.zeros(d), 0.0
    for i, design in enumerate(problem.designs):
        f = problem.factors[:, i]
        used = np.flatnonzero((design.squares > 0) & np.isfinite(f))
        root = np.sqrt(design.squares[used])
        correlation = design.gram_block(used, used) / np.outer(root, root)
        try:
            if np.linalg.cond(correlation) > 1e10:
                return 0.0, None
            factor = cho_factor(correlation)
        except LinAlgError:
            return 0.0, None
        inverse = np.diag(cho_solve(factor, np.eye(len(used)))) / root**2
        w = np.zeros(d)
        w[used] = cho_solve(factor, design.c[used] / root) / root
        least += design.loss(w) / (m * design.n)
        centre += np.where(np.isfinite(f), f, 0.0) * np.abs(w)
        spread[used] += f[used] ** 2 * m * design.n * inverse
    return least, (centre, spread)
