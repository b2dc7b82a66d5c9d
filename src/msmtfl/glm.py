"""Problems whose loss is not squared: posing them, and their stages. The rest of the package sees a `Problem`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .certificates import largest_violation, relative_gap
from .checks import check_positive
from .designs import Floats, stage_scale
from .lasso import OVERRUN
from .loss_certificates import LossCertificate, certify_loss
from .losses import LOSSES, Huber, Logistic, Loss, LossTask, Poisson
from .newton import LossLassos
from .problem import Problem, read_factors
from .residual_scale import with_scales
from .stages import Listener, Outcome
from .tables import names_of, warn_user
from .tasks import Task, TaskData
from .threads import each

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

    def training(self, keep: Any) -> LossProblem:
        parts: dict[Any, tuple[Any, Floats | None]] = {}  # tasks on the same rows share them

        def part(task: Task) -> Task:
            stay = np.flatnonzero(keep[task.rows])
            key = (id(task.X), id(task.weight), stay.tobytes())
            if key not in parts:
                parts[key] = (task.X[stay], None if task.weight is None else task.weight[stay])
            return Task(task.label, parts[key][0], task.y[stay], parts[key][1], task.rows[stay])

        data = replace(self.data, tasks=tuple(part(task) for task in self.data.tasks))
        centre = self.designs[0].base.centre
        return replace(self, designs=_designs(data, self.loss, centre, self.given_factors, self.positive))

    def held_out(self, i: int, y: Floats, f: Floats) -> tuple[Floats, Floats]:
        loss = self.designs[i].of_loss
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
    first = Huber(np.inf) if isinstance(loss, Huber) else loss  # so that what is too large for its squares is seen
    designs: list[LossTask] = data.designs(centre, n_jobs, lambda rows, task: LossTask(rows, task.y, first))
    if isinstance(loss, Huber):
        designs = with_scales(designs, loss.epsilon, factors, positive, n_jobs)
    return designs


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
    """The problem with a loss by name: "logistic" (targets 0 and 1), "poisson", or "huber" with epsilon in units of the
    scale of every task's residuals."""
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
        A = self.scale * weights.T
        W, steps = self.lassos.solve(A, reference=last, max_iter=max_iter)
        proofs = each(
            lambda i: certify_loss(self.designs[i], W[i], A[i], self.lassos.positive),
            range(len(W)),
            self.lassos.n_jobs,
        )
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
        )

    def _warn(self, tasks: list[int], proofs: list[LossCertificate]) -> None:
        """Of tasks without a minimiser, once each."""
        if tasks:
            self.said |= set(tasks)
            named = names_of(self.data.features[proofs[tasks[0]].dependent])
            warn_user(NO_MINIMISER.format(names_of(self.data.labels[tasks]), named), ConvergenceWarning)

    def violation(self, weights: Floats, W: Floats) -> float:
        return largest_violation(self.designs, W, self.scale * weights.T, self.lassos.positive)
