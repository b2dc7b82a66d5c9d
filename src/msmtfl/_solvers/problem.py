"""The problem actually solved: designs, penalty factors with the standardisation in them, and its scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .._data.designs import Floats, RowTask, stage_scale
from .._data.tasks import TaskData
from .._objective import theta as thresholds
from .._objective.certificates import TaskCertificate, certify_all
from .stages import LassoStages
from .task_solver import task_caches
from .weighted_lasso import Lassos

EXTREME = 1e100  # penalty factors beyond this, and below its inverse, leave the range of floats with what they multiply
LAM_SHARE = 0.1  # lam=None is this share of lam_max
SAME_MEAN = 1e-12  # relative difference of means that is rounding


@dataclass(frozen=True)
class Problem:
    """The data of all tasks as designs, with how they are to be penalised. Standardising is a matter of penalty
    factors: X stays as it is, and coefficients are always in its units."""

    data: TaskData
    designs: list[Any]
    given_factors: Floats  # (d, m), as given
    standardize: bool
    positive: bool

    @property
    def m(self) -> int:
        return len(self.designs)

    @property
    def d(self) -> int:
        return self.designs[0].d

    @cached_property
    def units(self) -> Floats:
        """(m, d): standard deviations if standardised, else 1."""
        squares = np.array([design.squares / design.n for design in self.designs])
        return np.sqrt(np.where(squares > 0, squares, 1.0)) if self.standardize else np.ones_like(squares)

    @cached_property
    def learnable(self) -> np.ndarray:
        """(m, d) bool: where a column varies within a task, so that its coefficient can be told from the intercept."""
        return np.array([design.squares > 0.0 for design in self.designs])

    @cached_property
    def of_task_level(self) -> np.ndarray:
        """(d,) bool: columns that are constant within every task, but not the same in all."""
        places = np.flatnonzero(~self.learnable.any(axis=0))
        out = np.zeros(self.d, dtype=bool)
        if places.size:
            means = np.array([design.mean[places] for design in self.designs])
            out[places] = np.ptp(means, axis=0) > SAME_MEAN * np.abs(means).max(axis=0)
        return out

    @cached_property
    def factors(self) -> Floats:
        """(d, m): penalty factors with the units in them; a task's lie side by side, as its coefficients do."""
        return np.asfortranarray(self.given_factors * self.units.T)

    @cached_property
    def stage_weights(self) -> Floats:
        """(m, d): the weights of stage 1 at lam = 1, on the scale of each task's own sums."""
        return np.ascontiguousarray(stage_scale(self.designs) * self.factors.T)

    @cached_property
    def first_gradient(self) -> Floats:
        """(m, d): 2 / (m n_i) x_j'r_i, r_i the residual of the fit of the cells that are never penalised; 0 in those."""
        return first_gradient(self.designs, self.factors, self.positive)

    @cached_property
    def lam_max(self) -> float:
        """The smallest lam at which stage 1 is zero (but for the cells that are never penalised)."""
        G, f = self.first_gradient, self.factors.T
        with np.errstate(over="ignore"):  # factors next to nothing: no finite lam is large enough
            sizes = np.divide(G if self.positive else np.abs(G), f, out=np.zeros_like(G), where=f > 0)
        return max(float(sizes.max(initial=0.0)), 0.0)

    @cached_property
    def rho_bar(self) -> float:
        return thresholds.mean_square(self.designs, self.units)

    def lam(self, lam: float | None) -> float:
        """The lam asked for, by default a share of lam_max."""
        return default_lam(lam, self.lam_max)

    # what depends on the loss: squared here, others in loss_stages.py

    error = "mse"  # what held-out errors are called
    may_escape = False  # whether there need not be a minimiser where features are not penalised

    @property
    def scales(self) -> Floats | None:
        """(m,): the scales of residuals, where the loss depends on them."""
        return None

    @property
    def deviance_units(self) -> Floats | None:
        """(m,): losses over these are deviances; None where the scale of the noise is not known."""
        return None

    def caches(self, **options: Any) -> list[Any]:
        """What solvers keep of the Gram matrices."""
        return task_caches(self.designs, **options)

    def gather(self, keeps: Sequence[Any], n_jobs: int | None = None) -> None:
        """Prepare for `training` with each of `keeps`."""
        self.data.gather(self.designs, keeps, n_jobs)

    def release(self) -> None:
        """Forget what can be formed again."""
        self.data.release(self.designs)

    def lassos(self, grams: list[Any] | None = None, n_jobs: int | None = None, careful: bool = False) -> Any:
        """The weighted lassos of the tasks."""
        options: dict[str, Any] = {"grams": grams, "careful": careful, "n_jobs": n_jobs}
        return Lassos(self.designs, positive=self.positive, units=self.units, **options)

    def stages(self, lassos: Any) -> Any:
        """What solves the stages of Algorithm 1."""
        return LassoStages(lassos)

    def certify(self, i: int, W: Floats, A: Floats, memo: dict[Any, Any] | None = None) -> list[TaskCertificate]:
        """Of task i, for rows of W and A (solutions, d)."""
        return certify_all(self.designs[i], W, A, self.positive, memo)

    def escapes(self, i: int, W: Floats, A: Floats) -> np.ndarray:
        """(solutions,) bool: whether task i has no minimiser, for rows of W and A (solutions, d)."""
        return np.zeros(len(W), dtype=bool)

    def held_out(self, i: int, y: Floats, f: Floats) -> tuple[Floats, Floats]:
        """Errors of linear predictors f at targets y of task i, and what they predict."""
        return (y - f) ** 2, f

    def training(self, keep: Any) -> Problem:
        """The same problem on some of the rows, keep (N,) bool (of statistics: without one fold), with centring and scaling
        of its own."""
        return replace(self, designs=self.data.training(self.designs, keep))


def default_lam(lam: float | None, lam_max: float) -> float:
    """The lam asked for, by default a share of lam_max."""
    if lam is not None:
        return float(lam)
    return LAM_SHARE * lam_max if lam_max > 0 else 1.0


def pose(
    data: TaskData,
    *,
    fit_intercept: bool,
    standardize: bool,
    positive: bool,
    penalty_factors: Any = None,
    n_jobs: int | None = None,
) -> Problem:
    designs = data.designs(fit_intercept, n_jobs)
    return Problem(data, designs, read_factors(penalty_factors, data), standardize, positive)


def read_factors(factors: Any, data: TaskData) -> Floats:
    """penalty_factors as (d, m): None, one per feature (d,), or one per feature and task (d, m)."""
    if factors is None:
        return np.ones((data.d, data.m))
    try:
        out = np.asarray(factors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"penalty_factors must be numbers >= 0: {error}.") from error
    if out.shape == (data.d,):
        out = np.repeat(out[:, None], data.m, axis=1)
    if out.shape != (data.d, data.m):
        raise ValueError(
            f"penalty_factors has shape {np.shape(factors)}; expected ({data.d},) for one per feature, or "
            f"({data.d}, {data.m}) for one per feature and task."
        )
    bad = np.argwhere(~(out >= 0))
    if bad.size:
        raise ValueError(
            f"penalty_factors must be >= 0 (inf excludes a cell); feature {data.features[bad[0][0]]!r} has "
            f"{out[tuple(bad[0])]}."
        )
    extreme = np.argwhere((out > 0) & np.isfinite(out) & ~((out >= 1.0 / EXTREME) & (out <= EXTREME)))
    if extreme.size:
        raise ValueError(
            f"penalty_factors must be 0, inf, or between {1 / EXTREME:g} and {EXTREME:g}; feature "
            f"{data.features[extreme[0][0]]!r} has {out[tuple(extreme[0])]:g}. Use 0 for a feature that is not to be "
            "penalised, inf for one that is to be left out."
        )
    return out


def first_gradient(designs: Sequence[RowTask], factors: Floats, positive: bool = False) -> Floats:
    free = (factors == 0.0).T
    W = np.zeros((len(designs), designs[0].d))
    if free.any():
        W, _ = Lassos(designs, positive=positive).solve(np.where(free, 0.0, np.inf))
    out = np.zeros_like(W)
    for design, w, f, of_task in zip(designs, W, factors.T, out, strict=True):
        g = design.c
        if w.any():
            g = design.gradient(w)
            g[np.abs(g) <= 1e-11 * np.sqrt(design.squares) * np.sqrt(design.yy)] = 0.0  # rounding of an interpolation
        of_task[:] = np.where((f > 0) & np.isfinite(f), 2.0 / (len(designs) * design.n) * g, 0.0)
    return out
