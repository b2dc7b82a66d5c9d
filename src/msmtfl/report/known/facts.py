"""What a report knows of a fitted model, without a word of HTML."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._data.designs import Floats, Ints
from ..._estimators.cross_fitted import lasso_points
from ..._estimators.families import family_of
from ..._estimators.fitted import loss_of, separate
from ..._estimators.words.subject import Subject
from ..._objective.losses import loss_named
from ..._paths.searched import cross_fits
from ..._paths.validation.other_folds import points_without
from ..._runtime.text.naturally import natural_order
from ...compare.evidence import Evidence, clear_from
from ...compare.measures import NMSE, Measure
from ...compare.of_losses import DEVIANCE, HAZARDS
from ...plots.views import (
    OverLasso,
    SearchGrid,
    held_out,
    knowing_nothing,
    measures,
    over_folds,
    over_lasso,
    search_grid,
)
from ...sharing import (
    SharingMap,
    by_variable,
    coef_by_class,
    map_of,
    size_over_classes,
    split_classes,
    variables_of,
)
from .lifetimes import Lifetimes
from .measured import WORDS, ErrorWords, losses_by_fold, measure_under, numbers_of, units_of
from .samples import Samples
from .sureness import Sureness

TINY = 1e-300
SCORED = "test_deviance"  # in `cv_results_`, where a search scored by it
FAILED = 4.0  # times the loss of knowing nothing but the task from which on its predictions fail
FEW = 0.1  # share of the rows up to which tasks that fail are told of apart from the others
UNLIKE = 30.0  # times that one standard deviation is another from which on coefficients have a scale each

FIT = {
    "single": "fit(X, y)",
    "long": "fit(X, y, task=labels)  # one label per row",
    "wide": "fit(X, Y)  # one column of Y per task",
}


@dataclass(frozen=True)
class Frame:
    """What the coefficient map shows at one place of its slider; coef is (m, K, d), K = 1 but for more than two classes."""

    title: str
    coef: Floats
    free_rows: Ints


@dataclass(frozen=True)
class HeldOut:
    """Errors of the rows held out, each fold at the point that the other folds choose: (m,) each. `loss` is a mean,
    `relative` to knowing nothing: NaN where a target does not vary, and both are for tasks that were added after the fit."""

    weight: Floats
    loss: Floats
    relative: Floats

    def overall(self, values: Floats) -> float:
        """Mean over tasks by size; tasks without a value do not count."""
        seen = np.isfinite(values) & (self.weight > 0)
        return float(np.average(values[seen], weights=self.weight[seen])) if seen.any() else float("nan")


@dataclass(frozen=True)
class Explained:
    """Share of the tasks' own variation (or log-loss) that is saved on rows held out, how far its 95 % interval reaches, and
    the mean losses of the model and of knowing nothing but the task."""

    share: float
    reach: float
    loss: float
    nothing: float


class ModelFacts:
    """Of a fitted model, also one from a file.

    sharing : who uses which feature
    m, d, coef : tasks, features, (m, K, d) coefficients; K = 1 but for more than two classes
    family : what is known of its family
    stages : its stages; none of a model that is not made in stages
    searched : whether it has the errors of a grid on which it chose its parameters
    measure, words : what its errors are, and are called: those of its own loss
    shares : whether it is a model that lets tasks share, and there are some
    subject : what target and tasks are called
    samples : rows of the data and their predictions, if they are at hand
    sure : intervals of coefficients, if they are at hand
    lifetimes : in the place of samples, of times until an event
    """

    def __init__(
        self,
        model: Any,
        subject: Subject | None = None,
        samples: Samples | None = None,
        sure: Sureness | None = None,
        lifetimes: Lifetimes | None = None,
    ):
        self.model = model
        self.sharing: SharingMap = map_of(model)
        names = variables_of(model)
        self.variables: SharingMap = by_variable(self.sharing, names)  # the same without groups and categories
        self.noun = "feature" if names is None else "variable"
        self.coef = coef_by_class(model)
        self.m, self.K, self.d = self.coef.shape
        self.family = family_of(model)
        self.stages: list[Any] = list(getattr(model, "stages_", ()))
        self.searched = hasattr(model, "cv_results_")
        self.shares = self.m > 1 and self.family.shares
        self.measure: Measure = measure_under(model)
        self.words: ErrorWords = WORDS[self.measure]
        self.subject = subject or Subject()
        self.samples = samples
        self.sure = sure
        self.lifetimes = lifetimes

    # ------------------------------------------------------------------ features

    @property
    def classes(self) -> list[str]:
        """Of a classifier, as text."""
        return [str(one) for one in getattr(self.model, "classes_", ())]

    @cached_property
    def n_samples(self) -> Floats:
        """(m,): rows of the tasks; NaN where they are not known."""
        if hasattr(self.model, "n_samples_"):
            return np.asarray(self.model.n_samples_, dtype=np.float64)
        rows = self.samples or self.lifetimes
        return np.full(self.m, np.nan) if rows is None else rows.counts.astype(np.float64)

    @cached_property
    def task_order(self) -> Ints:
        """Places of the tasks as a reader would sort them: P2 before P10."""
        return natural_order(self.model.tasks_.tolist())

    @property
    def intervals_known(self) -> bool:
        """Whether there are intervals of the coefficients of such a model: those without a penalty of what it selects."""
        return len(self.classes) <= 2 and hasattr(self.model, "penalty_factors")

    # ------------------------------------------------------------------ effects

    @cached_property
    def multiplied(self) -> str:
        """What the exponential of an effect multiplies: "odds", "rate", "mean"; "" if effects are in the target's units."""
        if self.classes:
            return "odds"
        loss: Any = loss_named(loss_of(self.model))
        return "" if loss.linear else str(loss.mean)

    @cached_property
    def ratio(self) -> str:
        """What the exponential of an effect is: "odds ratio", "rate ratio"; "" if effects are in the target's units."""
        return f"{self.multiplied} ratio" if self.multiplied else ""

    @cached_property
    def spreads(self) -> Floats | None:
        """(d,): standard deviations of the features within tasks; None of a model from a file that is older than these."""
        return getattr(self.model, "feature_sd_", None)

    @cached_property
    def effects(self) -> Floats:
        """(m, K, d): what one standard deviation of a feature (or one unit) changes in the linear predictor."""
        return self.coef if self.spreads is None else self.coef * self.spreads

    @cached_property
    def importance(self) -> Floats:
        """(d,): how much a feature counts, whatever its units are as far as that is known."""
        if self.spreads is None:
            return np.asarray(self.sharing.row_norms)
        return np.asarray(size_over_classes(self.effects).mean(axis=0))

    @cached_property
    def by_importance(self) -> Ints:
        """Places of the features, the strongest first."""
        return np.argsort(-self.importance, kind="stable")

    @property
    def own_scales(self) -> bool:
        """Whether coefficients are in units too different for one colour scale."""
        if self.spreads is None:
            return bool(self.model.standardize)
        known = self.spreads[self.spreads > 0]
        return bool(self.model.standardize or (known.size and known.max() > UNLIKE * known.min()))

    @cached_property
    def freed(self) -> list[str] | None:
        """Features (or variables) that the cap freed; None if there is no cap."""
        found = self.variables
        return None if found.freed is None else found.features[found.order[found.freed[found.order]]].tolist()

    @cached_property
    def frames(self) -> list[Frame]:
        """The stages; after them, if the model was relaxed, its coefficients."""
        out = [
            Frame(f"Stage {s.stage} of {len(self.stages)}", split_classes(s.coef, self.m), s.free_rows)
            for s in self.stages
        ]
        if not out:
            return [Frame("", self.coef, np.empty(0, dtype=np.intp))]
        last = Frame(f"Refitted by {self.refitted_by}", self.coef, out[-1].free_rows)
        return [*out, last] if self.relaxed else out

    @property
    def relaxed(self) -> bool:
        return bool(getattr(self.model, "relax", False))

    @property
    def refitted_by(self) -> str:
        """What `relax` refits with."""
        squared = loss_of(self.model) == "squared" and not self.classes
        return "least squares" if squared else "the loss alone"

    @cached_property
    def ever_used(self) -> Ints:
        """Features that any task uses in any stage, in the order of the sharing map."""
        used = np.any([frame.coef.any(axis=(0, 1)) for frame in self.frames], axis=0)
        return self.sharing.order[used[self.sharing.order]]

    def groups(self, places: Ints) -> list[str]:
        """ "freed", or the class of each feature."""
        freed = self.sharing.freed
        return ["freed" if freed is not None and freed[j] else str(self.sharing.classes[j]) for j in places]

    # ------------------------------------------------------------------ errors

    @cached_property
    def by_fold(self) -> tuple[Floats, Floats, bool] | None:
        """(folds, m) each: mean losses of rows held out, and their weights; and whether each fold was predicted with the
        parameters that the others choose. None if no rows were held out, or if nobody knows their losses."""
        if self.by_own_loss:
            return self._own
        if measures(self.model):
            loss, weight = held_out(self.model, points_without(self.model))
            return loss, np.where(np.isfinite(loss), weight, 0.0), True
        scores = getattr(self.model, "held_out_", None)
        if scores is None or self.K > 1 or scores.n_folds < 2:
            return None
        own, shape = scores.own, (scores.n_folds, self.m)
        at = own.fold * self.m + own.task
        size = -np.log(np.maximum(1.0 - own.score, TINY)) if self.classes else own.score**2
        weight = np.bincount(at, own.weight, shape[0] * self.m).reshape(shape)
        total = np.bincount(at, own.weight * size, shape[0] * self.m).reshape(shape)
        return np.divide(total, weight, out=np.full(shape, np.nan), where=weight > 0), weight, False

    @property
    def by_own_loss(self) -> bool:
        """Whether errors are those of another loss than the squared one, which a search does not keep beside what nothing
        but the task would cost: the rows of the fit must be at hand."""
        return not self.classes and self.measure != NMSE

    @cached_property
    def _own(self) -> tuple[Floats, Floats, bool] | None:
        kind = numbers_of(self.model)
        if kind is None or (self.samples is None and self.lifetimes is None):
            return None
        by_deviance = (
            self.measure in (DEVIANCE, HAZARDS) and cross_fits(self.model) and SCORED in self.model.cv_results_
        )
        if by_deviance and self._rows_of_fit:
            loss, weight = held_out(self.model, points_without(self.model), SCORED)
            return loss, np.where(np.isfinite(loss), weight, 0.0), True
        if self.samples is None or not self.samples.held_out:
            return None
        crossed = self.samples.crossed
        if crossed is not None:
            return (*losses_by_fold(kind, self.samples, [one[0] for one in crossed]), True)
        return (*losses_by_fold(kind, self.samples, self.samples.predicted), False)

    @property
    def _rows_of_fit(self) -> bool:
        """Whether the rows at hand are those that the model was fitted to."""
        if self.lifetimes is not None:
            return self.lifetimes.of_the_fit
        return self.samples is not None and self.samples.held_out

    @cached_property
    def errors(self) -> HeldOut | None:
        """None if no rows were held out, or if nobody knows their losses."""
        if self.by_fold is None or self.unit is None:
            return None
        loss, weight, _ = self.by_fold
        total, nothing = weight.sum(axis=0), np.full(self.m, np.nan)
        of_task = np.divide((np.nan_to_num(loss) * weight).sum(axis=0), total, out=nothing.copy(), where=total > 0)
        return HeldOut(total, of_task, np.divide(of_task, self.unit, out=nothing, where=self.unit > 0))

    @cached_property
    def unit(self) -> Floats | None:
        """(m,): the loss of knowing nothing but the task's mean or class shares; None where it is not known."""
        if self.by_own_loss:
            kind, rows = numbers_of(self.model), self.samples or self.lifetimes
            return None if kind is None or rows is None else units_of(kind, rows.data, rows.places)
        return knowing_nothing(self.model) if hasattr(self.model, "target_sd_") else None

    @cached_property
    def explained(self) -> Explained | None:
        """Which share of the loss of knowing nothing but the task is saved, all rows together, by the folds."""
        return self._explained(np.ones(self.m, dtype=bool))

    @cached_property
    def failed(self) -> Ints:
        """Places of tasks that are predicted far worse than by knowing nothing but the task, if they are a small share of
        the rows: a task of three rows can make the whole look as if nothing were found."""
        none = np.empty(0, dtype=np.intp)
        if self.errors is None:
            return none
        bad = np.nan_to_num(self.errors.relative) >= FAILED
        few = self.errors.weight[bad].sum() <= FEW * self.errors.weight.sum()
        return np.flatnonzero(bad) if few else none

    @cached_property
    def explained_elsewhere(self) -> Explained | None:
        """What is explained of the rows of tasks whose predictions do not fail."""
        return self._explained(~np.isin(np.arange(self.m), self.failed)) if self.failed.size else self.explained

    def _explained(self, tasks: np.ndarray) -> Explained | None:
        if self.by_fold is None or self.unit is None:
            return None
        loss, weight, _ = self.by_fold
        known = np.where(np.isfinite(loss) & (self.unit > 0) & tasks, weight, 0.0)
        base, lost = (known * np.nan_to_num(self.unit)).sum(axis=1), (np.nan_to_num(loss) * known).sum(axis=1)
        seen = base > 0
        if not seen.any():
            return None
        share = 1.0 - lost[seen] / base[seen]
        mean, se = (float(part[0]) for part in over_folds(share[:, None], base[seen][:, None]))
        reach = clear_from(int(seen.sum())) * se if seen.sum() > 1 else float("nan")
        total = known.sum()
        return Explained(mean, float(reach), float(lost.sum() / total), float(base.sum() / total))

    @property
    def added(self) -> list[Any]:
        """Labels of the tasks that add_task added: their errors are not known."""
        return self.model.tasks_[getattr(self.model, "n_fitted_tasks_", self.m) :].tolist()

    @cached_property
    def over_lasso(self) -> OverLasso | None:
        """Errors beside those of the best lasso of the grid, by the model's own loss; None where the fit cannot know."""
        if not self.shares or not self.searched:
            return None
        if self.by_own_loss:
            return self._own_over_lasso
        try:
            return over_lasso(self.model) if measures(self.model) else None
        except ValueError:  # a grid without the lasso
            return None

    @property
    def _own_over_lasso(self) -> OverLasso | None:
        kind, unit = numbers_of(self.model), self.unit
        if kind is None or unit is None or self.by_fold is None or not self.by_fold[2]:
            return None
        chosen, weight, _ = self.by_fold
        if SCORED in self.model.cv_results_:
            lassos = lasso_points(self.model)
            if lassos.size in (0, len(self.model.cv_results_["mean_test_score"])):
                return None
            lasso, _ = held_out(self.model, points_without(self.model, lassos), SCORED)
        else:
            crossed = self.samples.crossed if self.samples is not None else None
            if self.samples is None or crossed is None or any(np.isnan(one[1]).any() for one in crossed):
                return None
            lasso, _ = losses_by_fold(kind, self.samples, [one[1] for one in crossed])
        one = np.where(unit > 0, unit, np.nan)
        return OverLasso(chosen / one, lasso / one, weight, self.model.tasks_)

    @cached_property
    def gain(self) -> tuple[Floats, Floats] | None:
        """(m,) each: error less that of the best lasso of the grid, and how far its interval reaches; None where the fit
        cannot know."""
        return None if self.over_lasso is None else self.over_lasso.by_task()

    @cached_property
    def gain_clear(self) -> Ints:
        """(m,): -1 for tasks that clearly gain, 1 for those that clearly lose, 0 for others; at a false discovery rate of
        5 % over all tasks (Benjamini and Hochberg)."""
        return np.zeros(self.m, dtype=np.intp) if self.over_lasso is None else self.over_lasso.clear()

    @cached_property
    def shares_nothing(self) -> bool:
        """Whether the model, which could share, does not: every task has a sparse model of its own."""
        same = self.gain is not None and not np.nan_to_num(self.gain[0]).any()
        return self.shares and (same or separate(self.model))

    @cached_property
    def evidence(self) -> Evidence | None:
        """What the folds say of sharing, in comparison with independent lassos; None where the fit cannot know."""
        return None if self.over_lasso is None else self.over_lasso.evidence()

    @cached_property
    def grid(self) -> SearchGrid | None:
        return search_grid(self.model) if self.searched else None

    # ------------------------------------------------------------------ parameters

    @property
    def strengths(self) -> dict[str, float]:
        """The strengths of the penalty that were used, by the names of the parameters."""
        return {strength.name: value for strength, value in self.family.values_in_use(self.model).items()}

    @property
    def bilevel(self) -> bool:
        """Whether entries have a penalty of their own."""
        return "lam_entry" in self.strengths

    def snippet(self) -> str:
        """Python that fits the model once more, and the same without the search."""
        model = self.model
        call = FIT[model._form] if model.task_column is None else "fit(table, y)  # features and the task column"
        room = "msmtfl" if self.family.staged else "msmtfl.baselines"
        lines = [f"from {room} import {type(model).__name__}", "", f"model = {model!r}", f"model.{call}"]
        cls = self.family.fit
        if cls is not None and type(model) is self.family.search:
            known = cls().get_params()
            values = {
                key: value for key, value in (model.get_params(deep=False) | self.strengths).items() if key in known
            }
            lines += ["", "# the point chosen, without the search", f"from msmtfl import {cls.__name__}", ""]
            lines += [f"same = {cls(**values)!r}", f"same.{call}"]
        return "\n".join(lines)


def largest(order: Ints, size: Floats, most: int) -> Ints:
    """Those of the largest size, in the order given."""
    if len(order) <= most:
        return order
    chosen = order[np.argsort(-size[order], kind="stable")[:most]]
    return order[np.isin(order, chosen)]
