"""What a report says of a fitted model: the numbers and tables, without a word of HTML."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..coupled import L12MTL, L12MTLCV, DirtyMTL, DirtyMTLCV
from ..cross_validation import CRITERIA
from ..designs import Floats, Ints
from ..estimators import MSMTFL, LassoMTL
from ..model_selection import MSMTFLCV, GridSearch, LassoMTLCV
from ..sharing import SharingMap, fitted_coef, sharing_map
from ..views import SearchGrid, gain_over_lasso, search_grid
from .tabular import Cell, Column, Table, columns_to_rows, counts, figures, texts
from .words import counted, every, listed, number, percent

MOST_ROWS = 1000  # of a table
MOST_COLUMNS = 12  # tasks up to which the features table has a column for each
NAMES = {
    "MSMTFL": "multi-stage multi-task feature learning",
    "LassoMTL": "independent lassos, one per task",
    "L12MTL": "L1,2: the group lasso over tasks",
    "DirtyMTL": "the dirty model: shared plus task-specific coefficients",
}
FORMULAS = {
    "MSMTFL": "minimise  Σᵢ 1/(m nᵢ) ‖Xᵢ wᵢ − yᵢ‖²  +  λ Σⱼ min(‖wʲ‖₁, θ)",
    "LassoMTL": "minimise  Σᵢ 1/(m nᵢ) ‖Xᵢ wᵢ − yᵢ‖²  +  λ Σⱼ ‖wʲ‖₁",
    "L12MTL": "minimise  Σᵢ 1/(m nᵢ) ‖Xᵢ wᵢ − yᵢ‖²  +  λ Σⱼ min(‖wʲ‖₂, θ)",
    "DirtyMTL": "minimise  Σᵢ 1/(m nᵢ) ‖Xᵢ (sᵢ + bᵢ) − yᵢ‖²  +  λ_s Σ |sⱼᵢ|  +  λ_b Σⱼ maxᵢ |bⱼᵢ|",
}
SINGLE = {MSMTFLCV: MSMTFL, LassoMTLCV: LassoMTL, L12MTLCV: L12MTL, DirtyMTLCV: DirtyMTL}


@dataclass(frozen=True)
class Frame:
    """What the coefficient map shows at one place of its slider."""

    title: str
    coef: Floats
    free_rows: Ints


@dataclass(frozen=True)
class HeldOutErrors:
    """Squared errors of rows held out, at the point that cross-validation chose: (m,) each, and over all rows."""

    weight: Floats
    mse: Floats
    nmse: Floats

    def overall(self, values: Floats) -> float:
        """Mean over tasks by size; tasks without a value do not count."""
        seen = np.isfinite(values) & (self.weight > 0)
        return float(np.average(values[seen], weights=self.weight[seen])) if seen.any() else float("nan")


class ModelFacts:
    """Of a fitted model, also one from a file."""

    def __init__(self, model: Any):
        self.model = model
        self.sharing: SharingMap = sharing_map(model)
        self.coef = fitted_coef(model)
        self.m, self.d = self.coef.shape
        self.kind = type(model).__name__.removesuffix("CV")
        self.stages: list[Any] = list(getattr(model, "stages_", []))
        self.searched = isinstance(model, GridSearch)
        self.shares = self.m > 1 and self.kind in ("MSMTFL", "L12MTL", "DirtyMTL")  # whether it is a model that can

    # ------------------------------------------------------------------ in words

    @property
    def known_as(self) -> str:
        return NAMES.get(self.kind, "")

    @property
    def formula(self) -> str:
        return FORMULAS.get(self.kind, "")

    @property
    def n_rows(self) -> int:
        return int(np.sum(self.model.n_samples_))

    @cached_property
    def strongest(self) -> list[str]:
        """Features that several tasks use (with one task: that it uses), largest row norm first."""
        used = np.flatnonzero(self.sharing.n_tasks > min(1, self.m - 1))
        return self.sharing.features[used[np.argsort(-self.sharing.row_norms[used], kind="stable")]].tolist()

    @cached_property
    def freed(self) -> list[str] | None:
        found = self.sharing
        return None if found.freed is None else found.features[found.order[found.freed[found.order]]].tolist()

    @property
    def choice(self) -> str:
        """How the parameters came about."""
        if not self.searched:
            return "The parameters were given, or are the defaults for these data"
        model, points = self.model, len(next(iter(self.model.cv_results_.values())))
        what = {"MSMTFL": "λ and θ", "DirtyMTL": "λ_s and λ_b"}.get(self.kind, "λ")
        if model.selection in CRITERIA:
            return f"{model.selection.upper()} chose {what} from {counted(points, 'candidate')}, without folds"
        rule = ": the simplest model within one standard error of the best" if model.selection == "1se" else ""
        return f"Cross-validation in {model.n_splits_} folds chose {what} from {counted(points, 'candidate')}{rule}"

    @property
    def values(self) -> list[tuple[str, str]]:
        """The strengths of the penalty that were used."""
        symbols = {"lam_": "λ", "theta_": "θ", "lam_s_": "λ_s", "lam_b_": "λ_b"}
        return [
            (symbol, number(getattr(self.model, key), 4)) for key, symbol in symbols.items() if hasattr(self.model, key)
        ]

    @property
    def is_lasso(self) -> bool:
        """Whether the model, which could share, does not."""
        capless = self.kind == "MSMTFL" and bool(np.isinf(self.model.theta_))
        return capless or (self.gain is not None and not np.nan_to_num(self.gain[0]).any())

    # ------------------------------------------------------------------ coefficients

    @cached_property
    def frames(self) -> list[Frame]:
        """The stages; then, if the model was relaxed, its coefficients."""
        of = f" of {len(self.stages)}"
        out = [Frame(f"Stage {s.stage}{of}", s.coef, s.free_rows) for s in self.stages]
        if not out or self.model.relax:
            last = out[-1].free_rows if out else np.empty(0, dtype=np.intp)
            out.append(Frame("Refitted by least squares" if out else "Coefficients", self.coef, last))
        return out

    @cached_property
    def ever_used(self) -> Ints:
        """Features that any task uses in any stage: in the order of the sharing map, those unused in the end last."""
        used = np.zeros(self.d, dtype=bool)
        for frame in self.frames:
            used |= frame.coef.any(axis=0)
        return self.sharing.order[used[self.sharing.order]]

    def groups(self, places: Ints) -> list[str]:
        """What a feature is called in the map: "freed", or its class."""
        freed = self.sharing.freed
        return ["freed" if freed is not None and freed[j] else str(self.sharing.classes[j]) for j in places]

    # ------------------------------------------------------------------ errors

    @cached_property
    def errors(self) -> HeldOutErrors | None:
        if not self.searched or "test_mse" not in self.model.cv_results_:
            return None
        mse = self.model.cv_results_["test_mse"][self.model.best_index_]
        weight = np.where(np.isfinite(mse), self.model.cv_results_["test_weight"][self.model.best_index_], 0.0)
        total = weight.sum(axis=0)
        of_task = np.divide(
            (np.nan_to_num(mse) * weight).sum(axis=0), total, out=np.full(self.m, np.nan), where=total > 0
        )
        variance = np.asarray(self.model.target_sd_) ** 2
        nmse = np.divide(of_task, variance, out=np.full(self.m, np.nan), where=variance > 0)
        return HeldOutErrors(total, of_task, nmse)

    @cached_property
    def gain(self) -> tuple[Floats, Floats] | None:
        """nMSE less that of the best lasso of the grid, and how far its interval reaches; None where the fit cannot know."""
        if self.errors is None or not self.shares:
            return None
        try:
            return gain_over_lasso(self.model)
        except ValueError:  # a grid without the lasso, or of nothing else
            return None

    @cached_property
    def grid(self) -> SearchGrid | None:
        return search_grid(self.model) if self.searched else None

    # ------------------------------------------------------------------ tables

    def tasks_table(self) -> Table:
        model, place = self.model, self._tasks_shown()
        columns = [
            Column("Task"),
            Column("Rows", True),
            Column("Target mean", True),
            Column("Target s.d.", True),
            Column("Features used", True, "features with a coefficient other than 0"),
        ]
        cells = [
            texts(model.tasks_[place]),
            counts(np.asarray(model.n_samples_)[place]),
            figures(np.asarray(model.target_mean_)[place]),
            figures(np.asarray(model.target_sd_)[place]),
            counts(self.sharing.support.sum(axis=1)[place]),
        ]
        if self.errors is not None:
            columns += [
                Column(
                    "Held-out error", True, "root of the mean squared error of rows held out, in the target's units"
                ),
                Column(
                    "nMSE", True, "its square over the target's variance: 0 is perfect, 1 is no better than the mean"
                ),
            ]
            cells += [figures(np.sqrt(self.errors.mse[place])), figures(self.errors.nmse[place])]
        rest = "those with the most rows are shown"
        return Table("tasks", "The tasks", columns, columns_to_rows(cells), self.m, rest)

    def gain_table(self) -> Table | None:
        if self.gain is None or self.errors is None or self.is_lasso:
            return None
        difference, reach = self.gain
        place, nmse = self._tasks_shown(), self.errors.nmse
        base = nmse - difference
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(base > 0, -difference / base, np.nan)
        verdict = np.where(difference < -reach, "gains", np.where(difference > reach, "loses", "not clear"))
        columns = [
            Column("Task"),
            Column("nMSE", True, "mean squared error of rows held out over the target's variance"),
            Column("nMSE of lasso", True, "of one lasso per task, on the same rows"),
            Column("Difference", True, "below 0: sharing helps"),
            Column("± 95 %", True, "how far the interval of the difference reaches"),
            Column("Gain", True, "share of the lasso's error that sharing takes away"),
            Column("Verdict", False, "clear where the 95 % interval excludes 0"),
        ]
        cells = [
            texts(self.model.tasks_[place]),
            figures(nmse[place]),
            figures(base[place]),
            figures(difference[place], 2),
            figures(reach[place], 2),
            [Cell(percent(x), float(x)) for x in share[place]],
            texts(verdict[place]),
        ]
        return Table(
            "gains", "Held-out error by task", columns, columns_to_rows(cells), self.m, "those with the most rows"
        )

    def features_table(self) -> Table:
        found = self.sharing
        place = _chosen(found.order, found.row_norms, MOST_ROWS)
        classes = {"all": every(self.m), "some": "some", "one": "one", "unused": "none"}
        columns, cells = [Column("Feature")], [texts(found.features[place])]
        if self.m > 1:
            columns += [Column("Shared by"), Column("Used by", wraps=True)]
            cells.append([Cell(classes[found.classes[j]]) for j in place])
            cells.append([Cell(self._used_by(j), int(found.n_tasks[j])) for j in place])
        columns.append(Column("Row norm", True, "how much it counts over all tasks"))
        cells.append(figures(found.row_norms[place]))
        if found.freed is not None:
            columns.append(Column("Freed", False, "the cap freed it: its coefficients are not shrunk"))
            cells.append([Cell("freed" if found.freed[j] else "no") for j in place])
        for key, head in (("coef_shared_", "Shared part"), ("coef_specific_", "Specific part")):
            if hasattr(self.model, key):
                columns.append(Column(head, True, "the largest over tasks, in size"))
                cells.append(figures(np.abs(np.atleast_2d(getattr(self.model, key))[:, place]).max(axis=0)))
        if self.m <= MOST_COLUMNS:
            for i, label in enumerate(self.model.tasks_.tolist()):
                columns.append(Column(str(label) if self.m > 1 else "Coefficient", True, "coefficient"))
                cells.append(figures(self.coef[i, place]))
        else:
            columns += [
                Column("Lowest", True, "coefficient over tasks"),
                Column("Highest", True, "coefficient over tasks"),
            ]
            cells += [figures(self.coef[:, place].min(axis=0)), figures(self.coef[:, place].max(axis=0))]
        kinds = list(dict.fromkeys(cell.text for cell in cells[1])) if self.m > 1 else []
        return Table(
            "features", "The features", columns, columns_to_rows(cells), self.d, "the strongest are shown", kinds
        )

    def stages_table(self) -> Table:
        columns = [
            Column("Stage"),
            Column("Capped rows", True, "features that the stage left un-penalised"),
            Column("Features in use", True),
            Column("Coefficients", True, "that are not 0"),
            Column("Objective", True),
            Column("Duality gap", True, "relative: how far from optimal the stage can be at most"),
            Column("Violation", True, "of the optimality conditions, as a correlation"),
            Column("Unique"),
            Column("Seconds", True),
        ]
        rows = [
            (
                *counts([s.stage, len(s.free_rows), s.coef.any(axis=0).sum(), np.count_nonzero(s.coef)]),
                *figures([s.objective], 6),
                *figures([s.dual_gap, s.kkt], 2),
                Cell("yes" if s.unique else "not certified"),
                *figures([s.seconds], 2),
            )
            for s in self.stages
        ]
        return Table("stages", "The stages", columns, rows, len(rows))

    def parameters_table(self) -> Table:
        given, usual = self.model.get_params(deep=False), type(self.model)().get_params(deep=False)
        rows = [
            (Cell(name), Cell(_short(value)), Cell("" if _short(value) == _short(usual[name]) else "set"))
            for name, value in given.items()
        ]
        columns = [Column("Parameter"), Column("Value", wraps=True), Column("Set", False, "differs from the default")]
        return Table("parameters", f"Parameters of {type(self.model).__name__}", columns, rows, len(rows))

    def values_table(self) -> Table:
        said = {
            "lam_": "λ used",
            "theta_": "θ used",
            "lam_s_": "λ_s used",
            "lam_b_": "λ_b used",
            "lam_max_": "λ above which all is 0",
            "objective_": "objective",
            "dual_gap_": "relative duality gap",
            "n_stages_": "stages",
            "n_iter_": "rounds of the solver",
            "best_score_": "mean score of the choice",
        }
        found = [(text, getattr(self.model, key)) for key, text in said.items() if hasattr(self.model, key)]
        rows = [(Cell(text), Cell(f"{value:.6g}".replace("-", "−", value < 0), float(value))) for text, value in found]
        return Table("values", "What came out", [Column("Quantity"), Column("Value", True)], rows, len(rows))

    def _used_by(self, j: int) -> str:
        used = self.sharing.support[:, j]
        n, labels = int(used.sum()), self.sharing.tasks
        if n == 0:
            return "none"
        if n == self.m:
            return every(self.m)
        if n <= 3:
            return listed(labels[used])
        return f"all but {listed(labels[~used])}" if self.m - n <= 2 else f"{n} of {self.m}"

    def _tasks_shown(self) -> Ints:
        """All tasks, or those with the most rows."""
        return _chosen(np.arange(self.m), np.asarray(self.model.n_samples_, dtype=np.float64), MOST_ROWS)

    # ------------------------------------------------------------------ to do it again

    def snippet(self) -> str:
        """Python that fits the model once more, and the same without the search."""
        model, name = self.model, type(self.model).__name__
        if model.task_column is not None:
            call = "fit(table, y)  # table: the features and the task column"
        else:
            call = {
                "long": "fit(X, y, task=labels)  # one label per row",
                "wide": "fit(X, Y)  # a column of Y per task",
            }.get(model._form, "fit(X, y)")
        lines = [f"from msmtfl import {name}", "", f"model = {model!r}", f"model.{call}"]
        single = self._single()
        if single is not None:
            lines += ["", "# the point chosen, without the search", f"from msmtfl import {type(single).__name__}", ""]
            lines += [f"same = {single!r}", f"same.{call}"]
        return "\n".join(lines)

    def _single(self) -> Any:
        """The estimator without search at the values that were chosen."""
        cls: Any = SINGLE.get(type(self.model))
        if cls is None:
            return None
        known = cls().get_params()
        common = {key: value for key, value in self.model.get_params(deep=False).items() if key in known}
        chosen = {
            key: float(getattr(self.model, f"{key}_"))
            for key in ("lam", "theta", "lam_s", "lam_b")
            if key in known and hasattr(self.model, f"{key}_")
        }
        return cls(**common | chosen)


def _chosen(order: Ints, size: Floats, most: int) -> Ints:
    """Those of the largest size, in the order given."""
    if len(order) <= most:
        return order
    largest = np.zeros(len(size), dtype=bool)
    largest[np.argsort(-size, kind="stable")[:most]] = True
    return order[largest[order]]


def _short(value: Any, longest: int = 80) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
