"""What the report says in sentences."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from .._estimators.base import BETWEEN_TASKS
from .._objective.certificates import CRITICAL, Certificate
from .._paths.choice import PERFECT, too_good
from .._paths.cross_validation import CRITERIA
from .facts import ModelFacts
from .words import counted, every, listed, number, percent, short, task

FAIR = "Each fold is predicted with the parameters that the other folds choose"


def choice(facts: ModelFacts) -> str:
    """How the parameters came about."""
    if not facts.searched:
        return "The parameters were given, or are the defaults for these data"
    model, points = facts.model, len(next(iter(facts.model.cv_results_.values())))
    what = "λ and θ of rows and entries" if facts.bilevel else facts.family.chosen
    if model.selection in CRITERIA:
        valued = int(np.isfinite(model.cv_results_[model.selection]).sum())
        some = "" if valued == points else f"{valued:,} of {points:,} candidates, those with a convex penalty"
        return f"{model.selection.upper()} chose {what} from {some or counted(points, 'candidate')}, without folds"
    rule = ": the simplest model within one standard error of the best" if model.selection == "1se" else ""
    return f"Cross-validation in {model.n_splits_} folds chose {what} from {counted(points, 'candidate')}{rule}"


def strengths(facts: ModelFacts) -> list[str]:
    found = facts.family.values_in_use(facts.model)
    return [f"{strength.symbol} = {number(value, 4)}" for strength, value in found.items()]


def shares(facts: ModelFacts) -> tuple[str, str, str]:
    """How many features are used by whom: a sentence in three parts, of which the second matters most."""
    n = facts.sharing.counts
    if n["unused"] + n["constant"] == facts.d:
        return "", "No feature is used", ": all coefficients are 0."
    if not facts.family.selects(facts.model):
        return (
            "",
            "Every feature that varies is used",
            ": the penalty shrinks coefficients, and leaves none of them out.",
        )
    begin = f"Of {counted(facts.d, 'feature')} "
    if facts.m == 1:
        return begin, f"{n['one']:,} {'is' if n['one'] == 1 else 'are'} used", "."
    said = {"some": "by some", "one": "by one only", "unused": "by none", "constant": "could not be learned"}
    rest = listed([f"{n[name]:,} {text}" for name, text in said.items() if n[name]])
    used = f"{n['all']:,} are" if n["all"] > 1 else "1 is" if n["all"] else "none is"
    return begin, f"{used} used by {every(facts.m)} tasks", f", {rest}." if rest else "."


def not_learned(facts: ModelFacts) -> str:
    """Features whose coefficients could not be learned, whatever their effect is."""
    found = facts.sharing
    if found.task_level is None or found.learnable is None:
        return ""
    said, level = [], found.task_level
    if level.any():
        said.append(
            f"Constant within every task and different only between tasks: {listed(found.features[level])}. Beside an "
            "intercept per task their effect cannot be learned, and coefficients of 0 say nothing about it. "
            f"{BETWEEN_TASKS}"
        )
    partly = int((~found.learnable).any(axis=0).sum() - (found.classes == "constant").sum())
    if partly:
        said.append(
            f"{counted(partly, 'feature')} {'is' if partly == 1 else 'are'} constant within some of the tasks, where no "
            "coefficient can be learned. The table of features says in how many tasks each varies."
        )
    return " ".join(said)


def prediction(facts: ModelFacts) -> str:
    """How well the model predicts, as far as the fit knows."""
    errors = facts.errors
    if errors is None and facts.grid is not None and facts.model.n_splits_:
        value, folds = facts.grid.values[tuple(facts.grid.chosen)], facts.model.n_splits_
        measure = facts.grid.measure.removeprefix("held-out ")
        return (
            f"On rows held out in {folds} folds the mean {measure} is {number(value)}. The same folds chose the parameters: "
            "new data will be predicted less well."
        )
    if errors is None:
        way = "selection='min' with several folds" if facts.searched else facts.family.search.__name__
        none = "no rows out that had no part in the choice" if getattr(facts.model, "n_splits_", 0) else "no rows out"
        return f"This fit held {none}, so how well it predicts is not known: {way} measures it, and so does compare_models."
    of_task = errors.relative
    if not np.isfinite(of_task).any():
        return "The targets of all tasks are constant."
    error = errors.overall(of_task)
    loss, unit = (
        ("log-loss", "that of the class shares") if facts.classes else ("squared error", "the targets' variance")
    )
    said = (
        f"On rows held out in {facts.model.n_splits_} folds, each predicted with parameters that the other folds chose, the "
        f"{loss} is {percent(error)} of {unit} ({facts.measure.name} {number(error)}, mean over tasks by size)"
    )
    if np.isfinite(of_task).sum() > 1:
        extremes = (np.nanargmin(of_task), np.nanargmax(of_task))
        ends = [f"{number(of_task[i])} in {task(facts.model.tasks_[i])}" for i in extremes]
        said += f": from {ends[0]} to {ends[1]}"
    poor = int((of_task >= 1).sum())
    if poor:
        said += f". In {counted(poor, 'task')} it is no better than {'these' if facts.classes else 'the mean'}"
    known = of_task < PERFECT
    return " ".join(filter(None, [f"{said}.", too_good(facts.model.tasks_[known], of_task[known], facts.measure.name)]))


def unmeasured(facts: ModelFacts) -> str:
    """Which tasks have no held-out error, where others do."""
    if facts.errors is None or not facts.added:
        return ""
    added = listed([task(label) for label in facts.added])
    return f"Not measured: {added}, which add_task added after the search."


def gain(facts: ModelFacts) -> str:
    """What sharing gained over independent lassos on the same rows."""
    if facts.gain is None or facts.evidence is None:
        return ""
    if facts.shares_nothing:
        return "Cross-validation chose a point of the grid where nothing is shared: these data give no reason to share."
    found, (difference, reach) = facts.evidence, facts.gain
    better, worse = (int((sign * difference > reach).sum()) for sign in (-1, 1))
    begin = {"better": "Sharing lowers the error", "worse": "Sharing raises the error"}
    way = "lower" if found.difference < 0 else "higher"
    doubt = f", but {found.doubt}" if found.beyond and not found.clear else ""
    return (
        f"{begin.get(found.standing, 'Whether sharing helps is not clear')}: compared with the best independent lassos "
        f"({facts.measure.name} {number(found.base)}) it is {percent(abs(found.change))} {way} (standard error "
        f"{percent(found.se_of_change)}){doubt}. {found.tasks_in_words()}; {better or 'none'} clearly "
        f"gain{'s' * (better < 2)} and {worse or 'none'} clearly lose{'s' * (worse < 2)} (95 % intervals). {FAIR}; standard "
        "errors are for other rows to train on as well as to predict."
    )


def proof(facts: ModelFacts) -> str:
    """Whether the solution is optimal, critical and unique."""
    found: Certificate = facts.model.certificate_
    if not found.optimal:
        first = f"Not certified: the relative duality gap is {number(found.dual_gap, 2)}, above the tolerance"
        first += f" ({found.doubt})" if found.doubt else ""
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
