"""Problems whose loss is not squared: posing them, and their stages. The rest of the package sees a `Problem`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._data.designs import Floats, stage_scale
from .._data.tables import names_of, warn_user
from .._data.tasks import TaskData
from .._objective.certificates import largest_violation, main_doubt, relative_gap
from .._objective.loss_certificates import LossCertificate, certify_loss, escaping
from .._objective.losses import LOSSES, Huber, Logistic, Loss, LossTask, Poisson
from .._runtime.checks import check_positive
from .._runtime.progress import Listener
from .._runtime.threads import each
from .problem import Problem, read_factors
from .proximal_newton import LossLassos
from .residual_scale import with_scales
from .stages import Outcome, rather_zero, scaled
from .weighted_lasso import OVERRUN

NO_MINIMISER = (
    "the targets of task(s) {} are separated by features that are not penalised (in the first of them by {}): no finite "
    "coefficients minimise the loss, and those returned only come close to its lowest value. Choose a larger theta or lam, "
    "or penalise these features."
)


@dataclass(frozen=True)
class LossProblem(Problem):
    """A `Problem` whose designs are `LossTask`s."""

    loss: Loss  # of Huber's with epsilon in units of the residuals' scale; what designs have is in units of the targets
    error: str = "mse"  # of rows held out: squares of the response's, the "deviance", or half of it, "log_loss"
    weigh: Callable[[np.ndarray], Floats] | None = None  # (N,) bool -> weights (N,) or (N, m) of a fit of these rows
    scored_by: tuple[Loss, ...] | None = None  # of a training fold: the tasks' losses in the problem of all rows

    @property
    def scales(self) -> Floats | None:
        return np.array([design.of_loss.scale for design in self.designs]) if isinstance(self.loss, Huber) else None

    @property
    def deviance_units(self) -> Floats:
        return np.ones(self.m) if self.scales is None else self.scales**2

    @cached_property
    def rho_bar(self) -> float:
        """The mean of |x_j|^2 / n_i times the mean curvature of the task's loss, at the fit of intercepts only; of Huber's
        at its pilot fit."""
        squares = np.array([design.squares / design.n * design.curvature for design in self.designs]) / self.units**2
        return float(squares[squares > 0].mean()) if (squares > 0).any() else 1.0

    @cached_property
    def first_gradient(self) -> Floats:
        free = (self.factors == 0.0).T
        W = np.zeros((self.m, self.d))
        if free.any():
            W, _ = self.lassos().solve(np.where(free, 0.0, np.inf))
        counts = (self.factors > 0).T & np.isfinite(self.factors.T)
        G = np.array([design.gradient(w) for design, w in zip(self.designs, W, strict=True)])
        unit = np.array([np.sqrt(design.squares * design.yy) for design in self.designs])
        G[np.abs(G) <= 1e-11 * unit] = 0.0  # rounding
        return np.where(counts, G / stage_scale(self.designs), 0.0)

    def caches(self, **options: Any) -> list[Any]:
        return []

    def gather(self, keeps: Any, n_jobs: int | None = None) -> None:
        pass

    def release(self) -> None:
        pass

    def lassos(self, grams: Any = None, n_jobs: int | None = None, careful: bool = False) -> Any:
        return LossLassos(self.designs, positive=self.positive, units=self.units, n_jobs=n_jobs)

    def stages(self, lassos: Any) -> Any:
        return LossStages(lassos, self.data)

    def certify(self, i: int, W: Floats, A: Floats, memo: dict[Any, Any] | None = None) -> list[LossCertificate]:  # type: ignore[override]
        return [certify_loss(self.designs[i], w, a, self.positive) for w, a in zip(W, A, strict=True)]

    @property
    def may_escape(self) -> bool:  # type: ignore[override]
        return any(design.of_loss.escapes(design.y).any() for design in self.designs)

    @cached_property
    def _separating(self) -> list[dict[bool, list[np.ndarray]]]:
        """Of each task: sets of free features that are known to leave no minimiser (True), or one (False)."""
        return [{True: [], False: []} for _ in self.designs]

    def escapes(self, i: int, W: Floats, A: Floats) -> np.ndarray:
        design, known = self.designs[i], self._separating[i]
        frees = (A == 0.0) & (design.squares > 0) & ((W > 0) | (not self.positive))

        def one(w: Floats, free: np.ndarray) -> bool:
            """More free features separate what fewer do: so few sets need a linear program."""
            if any((free >= less).all() for less in known[True]):
                return True
            if any((free <= more).all() for more in known[False]):
                return False
            found = escaping(design, w, free).size > 0
            known[found].append(free)
            return found

        return np.array([one(w, free) for w, free in zip(W, frees, strict=True)], dtype=bool)

    def training(self, keep: Any) -> LossProblem:
        data = self.data.kept(keep, None if self.weigh is None else self.weigh(keep))
        centre = self.designs[0].base.centre
        designs = _designs(data, self.loss, centre, self.given_factors, self.positive)
        return replace(self, designs=designs, scored_by=tuple(design.of_loss for design in self.designs))

    def held_out(self, i: int, y: Floats, f: Floats) -> tuple[Floats, Floats]:
        """Errors and predictions. The loss is that of all rows in every fold: with a scale of its own (Huber's) a fold whose
        scale is large would decide for the others."""
        loss = self.designs[i].of_loss if self.scored_by is None else self.scored_by[i]
        response = loss.response(f)
        if self.error == "mse":
            with np.errstate(over="ignore"):
                return (y - response) ** 2, response
        value = loss.value(y, f)
        return value if self.error == "log_loss" else 2.0 * value, response


def _designs(
    data: TaskData, loss: Loss, centre: bool, factors: Floats, positive: bool, n_jobs: int | None = None
) -> list[LossTask]:
    check_targets(data, loss, centre)
    # of Huber's loss at first with all of y, so that what is too large for its squares is seen
    first = Huber(np.inf) if isinstance(loss, Huber) else loss
    designs: list[LossTask] = data.designs(centre, n_jobs, lambda rows, task: LossTask(rows, task.y, first))
    return with_scales(designs, loss.epsilon, factors, positive, n_jobs) if isinstance(loss, Huber) else designs


def check_targets(data: TaskData, loss: Loss, centre: bool) -> None:
    """An error where the targets do not suit the loss, or no intercept does: it names all such tasks."""
    lonely = []
    for task in data.tasks:
        negative = np.flatnonzero(isinstance(loss, Poisson) & (task.y < 0))
        if negative.size:
            raise ValueError(
                f"loss='poisson' needs targets >= 0; task {task.label!r} holds {task.y[negative[0]]:g} in row "
                f"{task.rows[negative[0]]}."
            )
        away = loss.escapes(task.y)
        if centre and away[0] != 0.0 and (away == away[0]).all():
            lonely.append(task.label)
    if lonely:
        what = "targets that are all 0" if isinstance(loss, Poisson) else "rows of one class only"
        raise ValueError(
            f"{all_of(lonely)} {what} (to train on): no intercept fits best. Leave out such tasks until they have others; "
            "in cross-validation use fewer folds."
        )


def all_of(labels: Sequence[Any]) -> str:
    """All of some tasks, however many: who is to leave them out needs the whole list."""
    one = len(labels) == 1
    return f"task{'s' * (not one)} {', '.join(map(repr, labels))} {'has' if one else 'have'}"


def check_loss(loss: Any, epsilon: Any) -> None:
    if loss not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(map(repr, LOSSES))}, got {loss!r}.")
    check_positive("epsilon", epsilon)


def pose_loss(
    data: TaskData,
    *,
    loss: str,
    epsilon: float = 1.35,
    fit_intercept: bool,
    standardize: bool,
    positive: bool,
    penalty_factors: Any = None,
    error: str = "mse",
    n_jobs: int | None = None,
) -> LossProblem:
    """The problem with a loss by name: "logistic" (targets 0 and 1), "poisson", or "huber" with epsilon in units of
    the scale of every task's residuals."""
    if not isinstance(data, TaskData):
        raise ValueError(f"loss={loss!r} needs rows: statistics in their place serve squared loss only.")
    kinds: dict[str, Loss] = {"logistic": Logistic(), "poisson": Poisson(), "huber": Huber(epsilon)}
    factors = read_factors(penalty_factors, data)
    designs = _designs(data, kinds[loss], fit_intercept, factors, positive, n_jobs)
    return LossProblem(data, designs, factors, standardize, positive, kinds[loss], error)


class LossStages:
    """Stages that are weighted lassos under a loss: weights (d, m)."""

    def __init__(self, lassos: LossLassos, data: TaskData):
        self.designs: list[Any] = lassos.designs
        self.lassos, self.grams = lassos, lassos.grams
        self.scale, self.data = stage_scale(self.designs), data
        self.said: set[int] = set()

    def solve(self, weights: Floats, last: Floats, max_iter: int, listener: Listener) -> Outcome:
        A = scaled(self.scale, weights)
        W, steps = self.lassos.solve(A, reference=last, max_iter=max_iter)

        def check(i: int) -> LossCertificate:
            def proven(w: Floats) -> LossCertificate:
                return certify_loss(self.designs[i], w, A[i], self.lassos.positive)

            W[i], proof = rather_zero(W[i], proven(W[i]), proven)
            return proof

        proofs = each(check, range(len(W)), self.lassos.n_jobs)
        for _ in proofs:
            listener.task_done()
        self._warn([i for i, proof in enumerate(proofs) if proof.escapes and i not in self.said], proofs)
        return Outcome(
            coef=W,
            n_iter=int(steps.max()),
            finished=not (self.lassos.status & OVERRUN).any(),
            dual_gap=relative_gap(self.designs, proofs),
            kkt=max(proof.kkt for proof in proofs),
            unique=all(proof.unique for proof in proofs),
            ambiguous=tuple(proof.dependent for proof in proofs),
            doubt=main_doubt(self.designs, proofs),
        )

    def _warn(self, tasks: list[int], proofs: list[LossCertificate]) -> None:
        """Of tasks without a minimiser, once each."""
        if tasks:
            self.said |= set(tasks)
            named = names_of(self.data.features[proofs[tasks[0]].dependent])
            warn_user(NO_MINIMISER.format(names_of(self.data.labels[tasks]), named), ConvergenceWarning)

    def violation(self, weights: Floats, W: Floats) -> float:
        return largest_violation(self.designs, W, scaled(self.scale, weights), self.lassos.positive)
