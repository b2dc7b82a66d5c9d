"""What is minimised: the data of all tasks as designs, a loss, and how coefficients are to be penalised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .._data.designs import SAME_MEAN, Floats, Ints, stage_scale
from .._data.forms.level_rows import LevelRows, LevelTask
from .._data.forms.ridged import ridged
from .._data.two_values import apart
from .box import Box, Limit, can_fall, of_task
from .coupled.groups import Groups
from .escapes import escaping, escaping_alone
from .losses import Huber, Loss, Softmax, Squared
from .survival import Cox, held_out
from .theta import mean_square

NUMERIC = "numeric"  # a way to standardise: see `column_units`


def share(l1_ratio: float, factors: Floats) -> Floats:
    """The factors times l1_ratio; inf stays what it is."""
    if l1_ratio == 1.0:
        return factors
    return np.where(np.isinf(factors), np.inf, l1_ratio * np.where(np.isinf(factors), 0.0, factors))


@dataclass(frozen=True)
class Problem:
    """The designs of all tasks under a loss, with their penalty factors. Standardising is a matter of penalty factors: X
    stays as it is, and coefficients are always in its units. `make_problem` in `_solvers` makes one of what a user gives,
    `solver_for` there makes what solves it."""

    data: Any  # `AnyData`, and what its form has besides: who asks for that knows which it is
    designs: list[Any]  # a `Design` per task if the loss is squared, else a `LossTask`
    given_factors: Floats  # (d, m), as given
    standardize: bool | str  # or NUMERIC
    positive: bool
    loss: Loss = field(
        default_factory=Squared
    )  # of Huber's: epsilon in units of the residuals' scale, not of the targets
    error: str = "mse"  # of held-out samples: squares of the response's, the "deviance", or half of it, "log_loss"
    weigh: Callable[[np.ndarray], Floats | None] | None = (
        None  # (N,) bool -> weights (N,) or (N, m) of a fit of these rows
    )
    scored_by: tuple[Loss, ...] | None = None  # of a training fold: the tasks' losses in the problem of all rows
    l1_ratio: float = 1.0  # of the penalty; the rest is a ridge, (1 - l1_ratio) lam / 2 sum_ji f_ji^2 w_ji^2
    intercepts: str = "task"  # how they share: "task" (not at all), "shrunk" or "common"
    samples_alike: bool = False  # whether samples count the same in the mean that is minimised, or tasks do
    known_units: Floats | None = None  # (m, d): units of another problem, in whose place this one is solved
    known_common: Floats | None = None  # (d,): its factors of a common part
    bounds: Box | None = None  # (m, d), where they are others than those that `positive` says
    groups: Groups | None = None  # features that enter or leave a task together, where some do

    @property
    def m(self) -> int:
        return len(self.designs)

    @property
    def d(self) -> int:
        out: int = self.designs[0].d
        return out

    # ------------------------------------------------------------------ classes

    @property
    def classes(self) -> int:
        """How many problems a task has: one, or one for each of several classes, which stand side by side."""
        return int(getattr(self.data, "classes", 1))

    @cached_property
    def classes_together(self) -> bool:
        """Whether the classes of a task have one loss."""
        return isinstance(self.loss, Softmax)

    @cached_property
    def has_one_level(self) -> bool:
        """Whether what a task is depends on the coefficients of others: tasks are held at one level, or the classes of a
        task have one loss."""
        prior = getattr(self.designs[0], "prior", None)
        return self.classes_together or (self.intercepts == "common" and prior is not None)

    def wide(self, x: Floats) -> Floats:
        """What is known of (features, problems) as (classes * features, tasks): of models in which the tasks of each class
        have something in common, a row is a feature of a class."""
        return x if self.classes == 1 else x.T.reshape(self.m // self.classes, -1).T

    # ------------------------------------------------------------------ bounds

    @property
    def limit(self) -> Limit:
        """How coefficients are bounded."""
        return self.positive if self.bounds is None else self.bounds

    @property
    def box(self) -> Box | None:
        """The bounds (m, d), if there are any."""
        if self.bounds is None and self.positive:
            return Box(np.zeros((self.m, self.d)), np.full((self.m, self.d), np.inf))
        return self.bounds

    def held(self, W: Floats) -> np.ndarray:
        """(m, d) bool: where W is at a bound."""
        box = self.box
        return np.zeros(W.shape, dtype=bool) if box is None else np.asarray((box.low == W) | (box.high == W))

    def within(self, W: Floats) -> Floats:
        """W (m, d), or the nearest there is within the bounds: sums of parts may leave them by rounding."""
        box = self.box
        return W if box is None else np.clip(W, box.low, box.high)

    @property
    def one_sided(self) -> bool:
        """Whether every coefficient has a bound, so that more free features than samples can have one minimiser only."""
        if self.bounds is None:
            return self.positive
        return bool((np.isfinite(self.bounds.low) | np.isfinite(self.bounds.high)).all())

    # ------------------------------------------------------------------ penalty factors

    @cached_property
    def variances(self) -> Floats:
        """(m, d): of the columns within the tasks, whatever their levels are drawn to; where a column does not vary within a
        task, but counts because of its level, the mean of the tasks in which it does (or of what levels add)."""
        total = np.array([design.squares / design.n for design in self.designs])
        own = np.array([within(design) / design.n for design in self.designs])
        known = (own > 0).sum(axis=0)
        mean = np.where(known > 0, own.sum(axis=0) / np.maximum(known, 1), total.mean(axis=0))
        return np.where(own > 0, own, np.where(total > 0, mean, 0.0))

    @cached_property
    def units(self) -> Floats:
        """(m, d): standard deviations if standardised, else 1 or those of columns in all tasks."""
        if self.known_units is not None:
            return self.known_units
        if not self.standardize:
            return np.ones((self.m, self.d))
        if self.standardize == NUMERIC:
            return np.tile(self.column_units, (self.m, 1))
        return np.sqrt(np.where(self.variances > 0, self.variances, 1.0))

    @cached_property
    def column_units(self) -> Floats:
        """(d,): one unit of a column for all tasks, in which numbers and indicators are alike: the distance of its two
        values if it has no more, else two standard deviations within tasks (Gelman, 2008), which are 1 for an indicator of
        half of the samples."""
        spans, sds = apart(self.data), self.feature_sds
        return np.where(np.isfinite(spans), spans, np.where(sds > 0.0, 2.0 * sds, 1.0))

    @cached_property
    def factors(self) -> Floats:
        """(d, m): penalty factors with the units and the sizes of groups in them; a task's lie side by side, as its
        coefficients do."""
        plain = self.plain_factors
        return plain if self.groups is None else np.asfortranarray(plain * self.groups.scale[:, None])

    @cached_property
    def plain_factors(self) -> Floats:
        """(d, m): the same without the sizes of groups."""
        return np.asfortranarray(self.given_factors * self.units.T)

    @cached_property
    def common_factors(self) -> Floats:
        """(d,): those of a part that is common to all tasks; if the problem is standardised with the root of the mean
        variance of a column."""
        if self.known_common is not None:
            return self.known_common
        given = self.given_factors[:, 0]
        if not self.standardize:
            return given
        if self.standardize == NUMERIC:
            return np.asarray(given * self.column_units)
        square = self.variances.mean(axis=0)
        return np.asarray(given * np.sqrt(np.where(square > 0, square, 1.0)))

    @cached_property
    def stage_weights(self) -> Floats:
        """(m, d): the weights of stage 1 at lam = 1, on the scale of each task's own sums."""
        return np.ascontiguousarray(stage_scale(self.designs) * share(self.l1_ratio, self.factors.T))

    # ------------------------------------------------------------------ the ridge

    @cached_property
    def squared_factors(self) -> Floats:
        """(m, d): f^2; 0 where a coefficient is 0 anyway, as it is excluded or its column constant."""
        f = np.where(np.isfinite(self.factors.T) & self.learnable, self.plain_factors.T, 0.0)
        return np.ascontiguousarray(f**2)

    @cached_property
    def unit_ridge(self) -> Floats | None:
        """(m, d): the ridge at lam = 1, on the scale of each task's own sums; None if there is none."""
        if self.l1_ratio == 1.0:
            return None
        return np.ascontiguousarray((1.0 - self.l1_ratio) * stage_scale(self.designs) * self.squared_factors)

    def at(self, lam: float) -> list[Any]:
        """The designs with the ridge that they have at lam."""
        if self.unit_ridge is None:
            return self.designs
        return [ridged(design, lam * one) for design, one in zip(self.designs, self.unit_ridge, strict=True)]

    def ridge_bends(self, lam: float) -> Floats:
        """(m, d): the second derivatives of the ridge, on the scale of the objective."""
        return (1.0 - self.l1_ratio) * lam * self.squared_factors

    def ridge_value(self, lam: float, W: Floats) -> float:
        """What the ridge adds to the objective at W (m, d)."""
        if self.unit_ridge is None:
            return 0.0
        return float(0.5 * np.sum(self.ridge_bends(lam) * W**2))

    @cached_property
    def rho_bar(self) -> float:
        """What theta's unit is relative to: see `theta.py`."""
        return mean_square(self.designs, self.units)

    # ------------------------------------------------------------------ what can be learned

    @cached_property
    def learnable(self) -> np.ndarray:
        """(m, d) bool: where a column varies within a task, so that its coefficient can be told from the intercept."""
        return np.array([design.squares > 0.0 for design in self.designs])

    @cached_property
    def feature_sds(self) -> Floats:
        """(d,): standard deviations of the columns within the tasks, pooled over the tasks in which they vary; else 0."""
        own = np.array([within(design) for design in self.designs])
        n = np.array([design.n for design in self.designs], dtype=np.float64) @ (own > 0.0)
        return np.asarray(np.sqrt(np.divide(own.sum(axis=0), n, out=np.zeros(self.d), where=n > 0.0)))

    @cached_property
    def of_task_level(self) -> np.ndarray:
        """(d,) bool: columns that are constant within every task, but not the same in all."""
        places = np.flatnonzero(~self.learnable.any(axis=0))
        out = np.zeros(self.d, dtype=bool)
        if places.size:
            means = np.array([design.mean[places] for design in self.designs])
            out[places] = np.ptp(means, axis=0) > SAME_MEAN * np.abs(means).max(axis=0)
        return out

    # ------------------------------------------------------------------ the loss

    @property
    def scales(self) -> Floats | None:
        """(m,): the scales of residuals, where the loss depends on them."""
        return np.array([design.of_loss.scale for design in self.designs]) if isinstance(self.loss, Huber) else None

    @property
    def deviance_units(self) -> Floats | None:
        """(m,): losses over these are deviances; None where the scale of the noise is not known."""
        if self.loss.squared:
            return None
        return np.ones(self.m) if self.scales is None else self.scales**2

    def held_out(self, i: int, y: Floats, f: Floats) -> tuple[Floats, Floats]:
        """Errors of linear predictors f at targets y of task i, and what they predict. The loss is that of all rows in
        every fold: with a scale of its own (Huber's) a fold whose scale is large would decide for the others."""
        if self.loss.squared:
            return (y - f) ** 2, f
        loss = self.designs[i].of_loss if self.scored_by is None else self.scored_by[i]
        response = loss.response(f)
        if self.error == "mse":
            with np.errstate(over="ignore"):
                return (y - response) ** 2, response
        value = loss.value(y, f)
        return value if self.error == "log_loss" else 2.0 * value, response

    def held_out_of_task(self, y: Floats, v: Floats, out: np.ndarray, f: Floats, strata: Ints | None = None) -> Floats:
        """(rows held out, P): deviances of those of a task's rows that are held out, out (rows,) bool, where the loss is
        one that rows have together (those of a stratum, if there are such); f (rows, P)."""
        assert isinstance(self.loss, Cox)
        codes = np.zeros(len(y), dtype=np.intp) if strata is None else strata
        errors = np.zeros(f.shape)
        for code in np.unique(codes[out]).tolist():
            at = np.flatnonzero(codes == code)
            errors[at[out[at]]] = 2.0 * held_out(self.loss.ties, y[at], v[at], out[at], f[at])
        return np.asarray(errors[out])

    # ------------------------------------------------------------------ whether there is a minimiser

    @cached_property
    def may_escape(self) -> bool:
        """Whether there need not be a minimiser where features are not penalised."""
        return not self.loss.squared and any(design.of_loss.escapes(design.y).any() for design in self.designs)

    @cached_property
    def _separating(self) -> list[dict[bool, list[np.ndarray]]]:
        """Of each task: sets of free features that are known to leave no minimiser (True), or one (False)."""
        return [{True: [], False: []} for _ in self.designs]

    @cached_property
    def _lonely(self) -> np.ndarray:
        """(m, d) bool: features that by themselves leave no minimiser where they are free."""
        if not self.may_escape:
            return np.zeros((self.m, self.d), dtype=bool)
        return np.array([escaping_alone(design) for design in self.designs])

    def without_minimiser(self, A: Floats) -> np.ndarray:
        """(m,) bool: tasks of which it is known that weights A (m, d) leave no minimiser: what `escapes` has found out of
        other weights says so, or a single feature."""
        if self.limit is not False or not self.may_escape or not (A == 0.0).any():
            return np.zeros(self.m, dtype=bool)
        free = (A == 0.0) & self.learnable & self._bare
        out = np.asarray((free & self._lonely).any(axis=1))
        for i, known in enumerate(self._separating):
            out[i] = out[i] or any((free[i] >= less).all() for less in known[True])
        return out

    @cached_property
    def _bare(self) -> np.ndarray:
        """(m, d) bool: entries that have no ridge."""
        return np.ones((self.m, self.d), dtype=bool) if self.unit_ridge is None else self.unit_ridge == 0.0

    def escapes(self, i: int, W: Floats, A: Floats, ridge: bool = True) -> np.ndarray:
        """(solutions,) bool: whether task i has no minimiser, for rows of W and A (solutions, d), with or without ridge."""
        if not self.may_escape:
            return np.zeros(len(W), dtype=bool)
        design, known = self.designs[i], self._separating[i]
        limit = of_task(self.limit, i)
        frees = (A == 0.0) & (design.squares > 0) & can_fall(limit, W)
        if ridge:
            frees &= self._bare[i]

        def one(w: Floats, free: np.ndarray) -> bool:
            """More free features separate what fewer do: so few sets need a linear program."""
            alone = self.bounds is None and bool((free & self._lonely[i]).any())  # whichever way it goes
            if alone or any((free >= less).all() for less in known[True]):
                return True
            if any((free <= more).all() for more in known[False]):
                return False
            found = escaping(design, w, free, limit)
            if found.size:
                free = np.zeros_like(free)
                free[found] = True
            known[found.size > 0].append(free)
            return found.size > 0

        keys = [free.tobytes() for free in frees]
        first = {key: s for s, key in reversed(list(enumerate(keys)))}
        sizes = frees.sum(axis=1)
        out = {s: one(W[s], frees[s]) for s in sorted(first.values(), key=lambda s: -sizes[s])}  # smaller ones follow
        return np.array([out[first[key]] for key in keys], dtype=bool)


def within(design: Any) -> Floats:
    """(d,): sums of squares of a task's own columns, without what its level is drawn to."""
    if isinstance(design, LevelTask) and np.isfinite(design.prior.ridge):
        return np.asarray(design.part.squares)
    rows = getattr(design, "base", None)
    return np.asarray(rows.base.squares if isinstance(rows, LevelRows) else design.squares)
