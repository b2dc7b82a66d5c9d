"""What the report says in sentences."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..certificates import CRITICAL, Certificate
from ..cross_validation import CRITERIA
from .facts import STRENGTHS, ModelFacts
from .words import counted, every, listed, number, percent, short, task

KNOWN_AS = {
    "MSMTFL": "multi-stage multi-task feature learning",
    "LassoMTL": "independent lassos, one per task",
    "L12MTL": "L1,2: the group lasso over tasks",
    "DirtyMTL": "the dirty model: shared plus task-specific coefficients",
    "SharedMTL": "values common to all tasks, and sparse deviations from them",
    "MSMTFLClassifier": "multi-stage multi-task feature learning for classes",
}
LOSS = "minimise  Σᵢ 1/(m nᵢ) ‖Xᵢ wᵢ − yᵢ‖²  +  "
LOG_LOSS = "minimise  Σᵢ 2/(m nᵢ) Σᵣ [log(1 + exp fᵣ) − yᵣ fᵣ]  +  "
ROWS = "λ Σⱼ min(‖wʲ‖₁, θ)"
FORMULAS = {
    "MSMTFL": LOSS + ROWS,
    "MSMTFLClassifier": LOG_LOSS + ROWS,
    "LassoMTL": LOSS + "λ Σⱼ ‖wʲ‖₁",
    "L12MTL": LOSS + "λ Σⱼ min(‖wʲ‖₂, θ)",
    "DirtyMTL": LOSS + "λ_s Σ |sⱼᵢ|  +  λ_b Σⱼ maxᵢ |bⱼᵢ|,   w = s + b",
    "SharedMTL": LOSS + "λ_c Σⱼ |bⱼ|  +  λ_d Σⱼ min(‖vʲ‖₁, θ),   wᵢ = b + vᵢ",
}
ENTRIES = "  +  λₑ Σ min(|wⱼᵢ|, θₑ)"
FLATTERS = "The same folds chose the parameters, so this flatters a little"


def choice(facts: ModelFacts) -> str:
    """How the parameters came about."""
    if not facts.searched:
        return "The parameters were given, or are the defaults for these data"
    model, points = facts.model, len(next(iter(facts.model.cv_results_.values())))
    both = dict.fromkeys(("MSMTFL", "MSMTFLClassifier"), "λ and θ")
    what = {**both, "DirtyMTL": "λ_s and λ_b", "SharedMTL": "λ_c, λ_d and θ"}.get(facts.kind, "λ")
    what = "λ and θ of rows and entries" if facts.bilevel else what
    if model.selection in CRITERIA:
        valued = int(np.isfinite(model.cv_results_[model.selection]).sum())
        some = "" if valued == points else f"{valued:,} of {points:,} candidates, those with a convex penalty"
        return f"{model.selection.upper()} chose {what} from {some or counted(points, 'candidate')}, without folds"
    rule = ": the simplest model within one standard error of the best" if model.selection == "1se" else ""
    return f"Cross-validation in {model.n_splits_} folds chose {what} from {counted(points, 'candidate')}{rule}"


def formula(facts: ModelFacts) -> str:
    of_class = ",   y = 1 in one class, 0 in the others" if len(facts.classes) > 2 else ""
    return FORMULAS[facts.kind] + (ENTRIES if facts.bilevel else "") + of_class


def strengths(facts: ModelFacts) -> list[str]:
    return [f"{STRENGTHS[key]} = {number(value, 4)}" for key, value in facts.strengths.items()]


def shares(facts: ModelFacts) -> tuple[str, str, str]:
    """How many features are used by whom: a sentence in three parts, of which the second matters most."""
    n = facts.sharing.counts
    if n["unused"] == facts.d:
        return "", "No feature is used", ": all coefficients are 0."
    begin = f"Of {counted(facts.d, 'feature')} "
    if facts.m == 1:
        return begin, f"{n['one']:,} {'is' if n['one'] == 1 else 'are'} used", "."
    said = {"some": "by some", "one": "by one only", "unused": "by none"}
    rest = listed([f"{n[name]:,} {text}" for name, text in said.items() if n[name]])
    used = f"{n['all']:,} are" if n["all"] > 1 else "1 is" if n["all"] else "none is"
    return begin, f"{used} used by {every(facts.m)} tasks", f", {rest}." if rest else "."


def prediction(facts: ModelFacts) -> str:
    """How well the model predicts, as far as the fit knows."""
    errors = facts.errors
    if errors is None:
        way = "selection='min' measures it with folds" if facts.searched else f"{facts.kind}CV measures it"
        return f"This fit held no rows out, so how well it predicts is not known: {way}, and so does compare_models."
    of_task = errors.relative
    if not np.isfinite(of_task).any():
        return "The targets of all tasks are constant."
    error = errors.overall(of_task)
    loss, unit = (
        ("log-loss", "that of the class shares") if facts.classes else ("squared error", "the targets' variance")
    )
    said = (
        f"On rows held out in {facts.model.n_splits_} folds the {loss} is {percent(error)} of {unit} "
        f"({facts.measure.name} {number(error)}, mean over tasks by size)"
    )
    if np.isfinite(of_task).sum() > 1:
        extremes = (np.nanargmin(of_task), np.nanargmax(of_task))
        ends = [f"{number(of_task[i])} in {task(facts.model.tasks_[i])}" for i in extremes]
        said += f": from {ends[0]} to {ends[1]}"
    poor = int((of_task >= 1).sum())
    if poor:
        said += f". In {counted(poor, 'task')} it is no better than {'these' if facts.classes else 'the mean'}"
    return f"{said}."


def unmeasured(facts: ModelFacts) -> str:
    """Which tasks have no held-out error, where others do."""
    if facts.errors is None or not facts.added:
        return ""
    added = listed([task(label) for label in facts.added])
    return f"Not measured: {added}, which add_task added after the search."


def gain(facts: ModelFacts) -> str:
    """What sharing gained over independent lassos on the same rows."""
    if facts.gain is None or facts.errors is None:
        return ""
    difference, reach = facts.gain
    if facts.is_lasso:
        return (
            "Cross-validation chose the point of the grid where nothing is shared: on these data sharing did not help."
        )
    error = facts.errors.overall(facts.errors.relative)
    base = facts.errors.overall(facts.errors.relative - difference)
    change = 1 - error / base if base > 0 else 0.0
    measured = int(np.isfinite(difference).sum())
    better, worse = (int((sign * difference > reach).sum()) for sign in (-1, 1))
    verb = "lowers" if change >= 0 else "raises"
    return (
        f"Compared with the best independent lassos on the same folds ({facts.measure.name} {number(base)}), sharing {verb} "
        f"the error by {percent(abs(change))}. Of {counted(measured, 'task')} {better or 'none'} clearly "
        f"gain{'s' * (better < 2)} and {worse or 'none'} clearly lose{'s' * (worse < 2)} (95 % intervals over folds). "
        f"{FLATTERS}; msmtfl compare measures it on rows that had no part in the choice."
    )


def proof(facts: ModelFacts) -> str:
    """Whether the solution is optimal, critical and unique."""
    found: Certificate = facts.model.certificate_
    if not found.optimal:
        first = f"Not solved to the tolerance: the relative duality gap is {number(found.dual_gap, 2)}"
    elif found.convex:
        first = f"Proven optimal: the objective is convex, and the relative duality gap is {number(found.dual_gap, 2)}"
    else:
        first = f"The last stage is proven optimal (relative duality gap {number(found.dual_gap, 2)})"
        critical = "a critical point" if found.critical <= CRITICAL else "not a critical point"
        first += f", and the result is {critical} of the non-convex objective"
    if found.unique:
        return (
            f"{first}. {'It is the only solution' if found.convex else 'The solution of every stage is the only one'}."
        )
    doubt = "That there is no other solution" if found.convex else "That no stage has another solution"
    tasks = [task(label) for label in found.ambiguous]
    where = f" in {listed(tasks, 3)}, where features can stand in for each other" if tasks else ""
    return f"{first}. {doubt} is not certified{where}."


def within(facts: ModelFacts) -> str:
    """How flat the surface is around the choice."""
    if facts.grid is None or facts.grid.within is None:
        return ""
    n, points = int(facts.grid.within.sum()), facts.grid.within.size
    return f"{n:,} of {points:,} {'is' if n == 1 else 'are'} within one standard error of the best."


@dataclass(frozen=True)
class Line:
    """A line of a certificate: "good", or "care" where something is not proven."""

    text: str
    mark: str
    details: list[str] = field(default_factory=list)


def certificate(found: Certificate) -> list[Line]:
    """What printing the certificate says, line by line."""
    names = {
        label if isinstance(label, int) else short(label): list(map(short, of)) for label, of in found.ambiguous.items()
    }
    lines: list[Line] = []
    doubts = ("NOT solved", "not a critical", "the objective rose", "uniqueness not")
    for text in str(replace(found, ambiguous=names)).splitlines():
        if text.startswith("  ") and lines:
            lines[-1].details.append(text.strip())
        else:
            lines.append(Line(text[0].upper() + text[1:], "care" if text.startswith(doubts) else "good"))
    return lines
