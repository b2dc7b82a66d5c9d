"""What a report knows of a fitted model, without a word of HTML."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._data.designs import Floats, Ints
from .._data.tables import names_of
from .._estimators.base import loss_of, separate
from .._estimators.families import family_of, has_family, known_families
from .._paths.choice import points_without
from ..compare.evidence import Evidence
from ..compare.scoring import Measure
from ..plots.views import (
    SearchGrid,
    evidence_over_lasso,
    gain_over_lasso,
    held_out,
    knowing_nothing,
    measure_of,
    measures,
    search_grid,
)
from ..sharing import SharingMap, coef_by_class, map_of, split_classes

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


class ModelFacts:
    """Of a fitted model, also one from a file.

    sharing : who uses which feature
    m, d, coef : tasks, features, (m, K, d) coefficients; K = 1 but for more than two classes
    family : what is known of its family
    stages : its stages
    searched : whether it chose its parameters on a grid
    measure : what its errors are
    shares : whether it is a model that lets tasks share, and there are some
    """

    def __init__(self, model: Any):
        self.model = model
        self.sharing: SharingMap = map_of(model)
        self.coef = coef_by_class(model)
        self.m, _, self.d = self.coef.shape
        if not (has_family(model) and family_of(model).staged):
            known = names_of(family.search.__name__ for family in known_families() if family.staged)
            raise TypeError(f"a report is of {known} (or without CV), not {model!r}.")
        self.family = family_of(model)
        self.stages: list[Any] = list(model.stages_)
        self.searched = hasattr(model, "cv_results_")
        self.shares = self.m > 1 and self.family.shares
        self.measure: Measure = measure_of(model)

    # ------------------------------------------------------------------ features

    @property
    def classes(self) -> list[str]:
        """Of a classifier, as text."""
        return [str(one) for one in getattr(self.model, "classes_", ())]

    @cached_property
    def n_samples(self) -> Floats:
        return np.asarray(self.model.n_samples_, dtype=np.float64)

    @property
    def own_scales(self) -> bool:
        """Whether coefficients are in units too different for one colour scale."""
        return bool(self.model.standardize)

    @cached_property
    def strongest(self) -> list[str]:
        """Features that several tasks use (if there is one task: that it uses), largest row norm first."""
        used = np.flatnonzero(self.sharing.n_tasks > min(1, self.m - 1))
        return self.sharing.features[used[np.argsort(-self.sharing.row_norms[used], kind="stable")]].tolist()

    @cached_property
    def freed(self) -> list[str] | None:
        """Features that the cap freed; None if there is no cap."""
        found = self.sharing
        return None if found.freed is None else found.features[found.order[found.freed[found.order]]].tolist()

    @cached_property
    def frames(self) -> list[Frame]:
        """The stages; after them, if the model was relaxed, its coefficients."""
        out = [
            Frame(f"Stage {s.stage} of {len(self.stages)}", split_classes(s.coef, self.m), s.free_rows)
            for s in self.stages
        ]
        last = Frame(f"Refitted by {self.refitted_by}", self.coef, out[-1].free_rows)
        return [*out, last] if self.model.relax else out

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
    def errors(self) -> HeldOut | None:
        """None if no rows were held out, or if their deviance alone was looked at."""
        if not measures(self.model):
            return None
        loss, weight = held_out(self.model, points_without(self.model))
        weight = np.where(np.isfinite(loss), weight, 0.0)  # (folds, m)
        total, nothing = weight.sum(axis=0), np.full(self.m, np.nan)
        of_task = np.divide((np.nan_to_num(loss) * weight).sum(axis=0), total, out=nothing.copy(), where=total > 0)
        unit = knowing_nothing(self.model)
        return HeldOut(total, of_task, np.divide(of_task, unit, out=nothing, where=unit > 0))

    @property
    def added(self) -> list[Any]:
        """Labels of the tasks that add_task added: their errors are not known."""
        return self.model.tasks_[self.model.n_fitted_tasks_ :].tolist()

    @cached_property
    def gain(self) -> tuple[Floats, Floats] | None:
        """(m,) each: error less that of the best lasso of the grid, and how far its interval reaches; None where the fit
        cannot know."""
        if self.errors is None or not self.shares:
            return None
        try:
            return gain_over_lasso(self.model)
        except ValueError:  # a grid without the lasso
            return None

    @cached_property
    def shares_nothing(self) -> bool:
        """Whether the model, which could share, does not: every task has a sparse model of its own."""
        same = self.gain is not None and not np.nan_to_num(self.gain[0]).any()
        return self.shares and (same or separate(self.model))

    @cached_property
    def evidence(self) -> Evidence | None:
        """What the folds say of sharing, in comparison with independent lassos; None where the fit cannot know."""
        return None if self.gain is None else evidence_over_lasso(self.model)

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
        lines = [f"from msmtfl import {type(model).__name__}", "", f"model = {model!r}", f"model.{call}"]
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
