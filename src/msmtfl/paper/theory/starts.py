"""How much the result of Algorithm 1 depends on where it starts (the paper's section 3.2).

A start W^(0) matters by the features that stage 1 leaves un-penalised: those with a row norm of theta or more. The paper
starts at 0, so that stage 1 is the lasso. Every run ends at a critical point; which one may depend on the start, since (1)
is not convex.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..._data.designs import Floats, Ints
from ..._estimators.families import is_regression_of
from ..._estimators.fitted import check_without_ridge, require_offset
from ..._objective.penalties import ConcaveRows
from ..._objective.problem import Problem
from ..._objective.proofs.certificates import loss_of
from ..._objective.shapes import read_shape
from ..._runtime.checks import check_count
from ..._runtime.progress import one_blas_thread
from ..._solvers.largest_lam import first_gradient
from ..._solvers.solvers import solver_for
from ..._solvers.stages import run_stages
from ..._solvers.task_lassos import lassos_for
from ..spectra import as_table

SAME = 1e-6  # results whose coefficients differ by this share are one
STAGES = 100  # most stages of a run: it should end by itself


@dataclass(frozen=True, eq=False)
class StartResult:
    """Where one run of Algorithm 1 ended.

    Attributes
    ----------
    start : str
        The name of the start.
    began : int
        Number of features that stage 1 left un-penalised.
    coef : ndarray of shape (m, d)
        The coefficients, in the data's units.
    objective : float
        The objective (1) there.
    free_rows : ndarray of int
        The features that are un-penalised at the end.
    n_features : int
        Number of features that have a coefficient that is not 0.
    n_stages : int
        Number of stages of the run.
    converged : bool
        Whether the run has converged.
    moved : float
        How far the coefficients are from the model's, over the size of the model's: Euclidean norms over
        all features and tasks, every coefficient times the root mean square of its column. (Fitted values
        would tell less: where a task has more features than samples, very different coefficients fit it
        equally well.)
    changed : int
        Number of features that are used by one of the two, but not by the other.
    result : int
        Results that are the same have the same number, 0 being the model's.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.theory import check_starts
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat([0, 1, 2], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(90)
    >>> first = check_starts(MSMTFL(0.1, 1.0).fit(X, y, task=task), X, y, task=task, starts=5).runs[0]
    >>> first.start, first.began, first.free_rows, first.result
    ('0, the lasso first', 0, array([0, 3]), 0)
    """

    start: str
    began: int
    coef: Floats
    objective: float
    free_rows: Ints
    n_features: int
    n_stages: int
    converged: bool
    moved: float
    changed: int
    result: int


@dataclass(frozen=True, eq=False)
class StartCheck:
    """What Algorithm 1 makes of other starts. Print it for the answer in words.

    Attributes
    ----------
    runs : tuple of StartResult
        The result of every start.
    objective : float
        The objective (1) at the model.
    n_results : int
        Number of different results, the model's included.
    best : StartResult
        The run with the smallest objective.
    excess : float
        (objective - the smallest one) / objective: how far the model is above it, at least 0.
    same_share : float
        Share of the starts that end where the model is.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.theory import check_starts
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat([0, 1, 2], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(90)
    >>> check = check_starts(MSMTFL(0.1, 1.0).fit(X, y, task=task), X, y, task=task, starts=5)
    >>> check.n_results, check.excess, check.same_share
    (1, 0.0, 1.0)
    """

    runs: tuple[StartResult, ...]
    objective: float

    @property
    def n_results(self) -> int:
        """Number of different results, the model's included."""
        return len({0, *(run.result for run in self.runs)})

    @property
    def best(self) -> StartResult:
        """The run with the smallest objective."""
        return min(self.runs, key=lambda run: run.objective)

    @property
    def excess(self) -> float:
        """How far the model's objective is above the smallest one, as a share of it, at least 0."""
        return max(self.objective - self.best.objective, 0.0) / abs(self.objective) if self.objective else 0.0

    @property
    def same_share(self) -> float:
        """Share of the starts that end where the model is."""
        return sum(run.result == 0 for run in self.runs) / len(self.runs)

    def __str__(self) -> str:
        here, count = sum(run.result == 0 for run in self.runs), len(self.runs)
        if self.n_results == 1:
            said = f"All {count} starts end at the model's result."
        else:
            moved = max(run.moved for run in self.runs)
            said = (
                f"{here} of {count} starts end at the model's result; the others at {self.n_results - 1} more. "
                f"Coefficients differ by up to {_percent(moved)} of their size, and up to "
                f"{max(run.changed for run in self.runs)} features are used in one result and not in the other. "
            )
            if self.excess > 1e-9:
                said += (
                    f"The smallest objective is {100 * self.excess:.2g} % below the model's, from {self.best.start}."
                )
            else:
                said += "None has a smaller objective than the model."
            said += " A smaller objective need not predict better: compare on data that were held out."
        ends = sum(not run.converged for run in self.runs)
        said += f" {ends} did not come to an end in {STAGES} stages." if ends else ""
        head = ("start", "free at first", "free at the end", "features", "objective", "moved", "changed", "result")
        rows = [
            (r.start, r.began, len(r.free_rows), r.n_features, f"{r.objective:.6g}", r.moved, r.changed, r.result)
            for r in self.runs
        ]
        return f"{said}\n\n{as_table(head, rows)}"

    def to_frame(self) -> Any:
        """Return a pandas table with one line per start.

        Returns
        -------
        DataFrame
            The results.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas (pip install pandas); `runs` holds the same.") from error
        names = ("start", "began", "objective", "n_features", "n_stages", "converged", "moved", "changed", "result")
        rows = [{name: getattr(run, name) for name in names} | {"n_free": len(run.free_rows)} for run in self.runs]
        return pd.DataFrame(rows)


def check_starts(
    model: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    sample_weight: Any = None,
    starts: int = 20,
    others: Mapping[str, Any] | None = None,
    random_state: int = 0,
    offset: Any = None,
) -> StartCheck:
    """Run Algorithm 1 from other starting points on the data of a fit, and compare the results.

    The starts are 0 (the paper's), the regressions on every feature by itself, least squares on all
    features where every task has more independent samples than features, and random sets of features left
    un-penalised, of random size up to half of what the smallest task can bear. All run to their end.

    Parameters
    ----------
    model : MSMTFL or MSMTFLCV
        A fitted model, of any loss and penalty.
    X : DataFrame, ndarray or sparse matrix of shape (N, d)
        The samples of the fit.
    y : array-like of shape (N,) or (N, m)
        The targets of the fit.
    task : array-like of shape (N,), optional
        The task labels of the fit, if it was given any.
    sample_weight : array-like of shape (N,) or (N, m), optional
        The weights of the fit, if it was given any.
    starts : int, default=20
        Number of random starts, at least 1.
    others : dict {name: array-like of shape (m, d)}, optional
        Coefficients of more starts, such as those of another model.
    random_state : int, default=0
        The seed of the random starts.
    offset : array-like of shape (N,) or (N, m), optional
        The offset of the fit, if it was given one.

    Returns
    -------
    StartCheck
        The results.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.theory import check_starts
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat([0, 1, 2], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(90)
    >>> check = check_starts(MSMTFL(0.1, 1.0).fit(X, y, task=task), X, y, task=task)
    >>> print(str(check).splitlines()[0])
    All 23 starts end at the model's result.
    """
    if not is_regression_of(model, "msmtfl"):
        raise TypeError(f"starts are those of MSMTFL and MSMTFLCV: give a fitted one, not {type(model).__name__}.")
    check_is_fitted(model, "stages_")
    require_offset(model, offset)
    check_count("starts", starts)
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of crowded stages; the results tell
        problem = clone(model)._make_problem(X, y, task, sample_weight, offset)
        shape = read_shape(model.penalty)
        check_without_ridge(model, "the paper's theory")
        penalty = ConcaveRows(model.lam_, model.theta_, problem.factors, shape, model.lam_entry_, model.theta_entry_)
        W = np.atleast_2d(model.stages_[-1].coef)
        _check_same(problem, penalty, W, model)
        runs: list[StartResult] = []
        if not penalty.convex:
            rng = np.random.default_rng(random_state)
            named = [*_named(problem), *_random(problem, penalty, starts, rng), *_given(problem, others or {})]
        else:
            named = [*_named(problem), *_given(problem, others or {})]
        solver = solver_for(problem, penalty, n_jobs=model.n_jobs)
        results: list[Floats] = [W]
        for name, start in named:
            found = run_stages(penalty, solver, max_stages=STAGES, tol=model.tol, start=start)
            V = found.stages[-1].coef
            moved = [_moved(problem, known, V) for known in results]
            alike = [k for k, one in enumerate(moved) if one <= SAME]
            if not alike:
                results.append(V)
            runs.append(
                StartResult(
                    start=name,
                    began=len(penalty.free_rows(penalty.pattern(start.T))),
                    coef=V,
                    objective=found.stages[-1].objective,
                    free_rows=penalty.free_rows(penalty.pattern(V.T)),
                    n_features=int(V.any(axis=0).sum()),
                    n_stages=len(found.stages),
                    converged=found.converged,
                    moved=moved[0],
                    changed=int((V.any(axis=0) != W.any(axis=0)).sum()),
                    result=alike[0] if alike else len(results) - 1,
                )
            )
    return StartCheck(tuple(runs), float(loss_of(problem.designs, W) + penalty.value(W.T)))


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def _check_same(problem: Problem, penalty: ConcaveRows, W: Floats, model: Any) -> None:
    same = np.array_equal(model.tasks_, problem.data.labels) and np.array_equal(model.features_, problem.data.features)
    if same:
        value, scale = loss_of(problem.designs, W) + penalty.value(W.T), loss_of(problem.designs, np.zeros_like(W))
        same = abs(value - model.objective_) <= 1e-6 * abs(model.objective_) + 1e-12 * scale
    if not same:
        raise ValueError("X, y, task, sample_weight and offset are not the data of the fit. Pass them as to fit.")


def _named(problem: Problem) -> Iterator[tuple[str, Floats]]:
    """Starts that anyone would try."""
    m, d = problem.m, problem.d
    yield "0, the lasso first", np.zeros((m, d))
    n = np.array([[design.n] for design in problem.designs])
    squares = np.array([design.squares for design in problem.designs])
    slopes = first_gradient(problem) * m * n / 2
    yield "each feature alone", np.divide(slopes, squares, out=np.zeros((m, d)), where=squares > 0)
    if all(design.order == d for design in problem.designs):
        free = np.where(np.isfinite(problem.factors.T), 0.0, np.inf)
        yield "least squares", lassos_for(problem).solve(free)[0]


def _random(
    problem: Problem, penalty: ConcaveRows, starts: int, rng: np.random.Generator
) -> Iterator[tuple[str, Floats]]:
    """Random features, large enough to be free, with random signs."""
    f = np.where(np.isfinite(problem.factors.T) & (problem.factors.T > 0), problem.factors.T, 0.0)  # (m, d)
    counted = np.flatnonzero(f.any(axis=0))
    most = max(min(min(design.order for design in problem.designs) // 2, len(counted)), 1)
    size = 10 * max(penalty.theta if np.isfinite(penalty.theta) else 0.0, _entry(penalty) * problem.m)
    for k in range(starts):
        chosen = rng.choice(counted, rng.integers(1, most + 1), replace=False)
        start = np.zeros((problem.m, problem.d))
        part = np.divide(size, f.sum(axis=0)[chosen])
        signs = 1.0 if problem.positive else rng.choice([-1.0, 1.0], (problem.m, len(chosen)))
        start[:, chosen] = np.where(f[:, chosen] > 0, signs * part, 0.0)
        yield f"random set {k + 1}", start


def _entry(penalty: ConcaveRows) -> float:
    """theta of entries, if they are capped at all."""
    return penalty.theta_entry if penalty.lam_entry and np.isfinite(penalty.theta_entry) else 0.0


def _given(problem: Problem, others: Mapping[str, Any]) -> Iterator[tuple[str, Floats]]:
    for name, coef in others.items():
        start = np.atleast_2d(np.asarray(coef, dtype=np.float64))
        if start.shape != (problem.m, problem.d) or not np.isfinite(start).all():
            raise ValueError(
                f"start {name!r} has shape {np.shape(coef)}; expected finite numbers of shape ({problem.m}, {problem.d})."
            )
        yield str(name), start


def _moved(problem: Problem, W: Floats, V: Floats) -> float:
    """How far the coefficients V are from W, over the size of W, every one times the root mean square of its column."""
    scale = np.array([np.sqrt(design.squares / design.n) for design in problem.designs])
    change, total = (float(np.linalg.norm(scale * one)) for one in (V - W, W))
    return change / total if total else (float("inf") if change else 0.0)
