"""What the report says in sentences."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from .._estimators.fitted import BETWEEN_TASKS, noted, of_survival
from .._estimators.intervals import task_radii
from .._estimators.words.odd_tasks import odd_in_words
from .._objective.proofs.certificates import CRITICAL, Certificate
from .._paths.validation.information import CRITERIA
from .._paths.validation.too_good import PERFECT
from .._runtime.text.printable import short
from .known.facts import ModelFacts
from .words import LISTED, counted, every, listed, number, percent, task

LEVEL = 0.9  # of intervals that are told of
FEW = 10  # rows of a task below which it is named
NEXT_TO_NOTHING = 0.001  # share of an error that is told as no difference
FAIR = "Each fold is predicted with the parameters that the other folds choose"


def choice(facts: ModelFacts) -> str:
    """How the parameters came about."""
    if not facts.searched and facts.family.is_search(facts.model):
        return "Cross-validation chose the strength of the penalty"
    if not facts.searched:
        return "The parameters were given, or are the defaults for these data"
    model, points = facts.model, len(next(iter(facts.model.cv_results_.values())))
    what = "λ and θ of features and of single coefficients" if facts.bilevel else facts.family.chosen
    if model.selection in CRITERIA:
        valued = int(np.isfinite(model.cv_results_[model.selection]).sum())
        some = "" if valued == points else f"{valued:,} of {points:,} candidates, those with a convex penalty"
        return f"{model.selection.upper()} chose {what} from {some or counted(points, 'candidate')}, without folds"
    rule = ": the simplest model within one standard error of the best" if model.selection == "1se" else ""
    by = f" by their {facts.grid.measure}" if facts.by_own_loss and facts.grid is not None else ""
    return f"Cross-validation in {model.n_splits_} folds chose {what} from {counted(points, 'candidate')}{by}{rule}"


def strengths(facts: ModelFacts) -> list[str]:
    found = facts.family.values_in_use(facts.model)
    return [f"{strength.symbol} = {number(value, 4)}" for strength, value in found.items()]


def shares(facts: ModelFacts) -> str:
    """How many features are used, and in how many tasks."""
    n, tasks, d = facts.variables.counts, facts.subject.tasks, len(facts.variables.features)
    if n["unused"] + n["constant"] == d:
        return f"No {facts.noun} is used: all coefficients are 0."
    said_of_tasks = odd_in_words(facts.model, (facts.subject.task, facts.subject.tasks))
    odd = " " * bool(said_of_tasks) + said_of_tasks
    if not facts.family.selects(facts.model):
        return f"Every {facts.noun} that varies is used: the penalty shrinks coefficients, and leaves none of them out.{odd}"
    used = d - n["unused"] - n["constant"]
    begin = f"Of {counted(d, facts.noun)} {used:,} {'is' if used == 1 else 'are'} used"
    if facts.m > 1:
        said = {
            "all": f"in {every(facts.m)} {tasks}",
            "some": f"in some {tasks}",
            "one": f"in one {facts.subject.task} only",
        }
        parts = [(n[name], text) for name, text in said.items() if n[name]]
        only = f", {parts[0][1]}" + " each" * (parts[0][0] > 1 and n["one"] > 0)
        begin += only if len(parts) == 1 else f": {listed([f'{count:,} {text}' for count, text in parts])}"
    if n["constant"]:
        begin += f". {n['constant']:,} could not be learned"
    return f"{begin}.{odd}"


def freed(facts: ModelFacts) -> str:
    """What the cap freed from the penalty."""
    if facts.freed is None:
        return ""
    if not facts.freed:
        return f"The cap freed no {facts.noun} from the penalty."
    many = len(facts.freed) > 1
    whose = "their" if many else "its"
    said = f"The cap freed {listed(facts.freed)} from the penalty: {whose} coefficients are not shrunk"
    if facts.bilevel:
        return f"{said}, but for small ones."
    if facts.m > 1:
        said += (
            f", and {'they are' if many else 'it is'} in every {facts.subject.task} in which "
            f"{'they vary' if many else 'it varies'}, needed there or not"
        )
    return f"{said}."


def left_out(facts: ModelFacts, before: str | None = None) -> str:
    """Rows, columns and tasks that had no part, or of which little can be said; `before`: what a caller knows of them."""
    found, said = facts.variables, [before or ""]
    dropped = noted(facts.model, "rows_dropped")
    if isinstance(dropped, int) and dropped > 0 and not before:
        said.append(f"{counted(dropped, 'row')} with missing values {'was' if dropped == 1 else 'were'} left out.")
    same = (found.classes == "constant") & ~(found.task_level if found.task_level is not None else np.False_)
    if found.learnable is not None and same.any():
        many = int(same.sum()) > 1
        what = f"The column{'s' * many} {listed(found.features[same])}"
        said.append(f"{what} {'are' if many else 'is'} the same in all rows, and could not be learned from.")
    said.append(not_learned(facts))
    few = np.flatnonzero(facts.n_samples < FEW)
    if few.size and facts.m > 1:
        tasks = listed([task(label, facts.subject.task) for label in facts.model.tasks_[few]])
        said.append(
            f"{facts.subject.counted(len(few))} with fewer than {FEW} rows: {tasks}. Their own errors and coefficients are "
            "known poorly."
        )
    return " ".join(filter(None, said))


def not_learned(facts: ModelFacts) -> str:
    """Features whose coefficients could not be learned, whatever their effect is."""
    found = facts.variables
    if found.task_level is None or found.learnable is None:
        return ""
    said, level = [], found.task_level
    if level.any():
        said.append(
            f"Constant within every {facts.subject.task} and different only between {facts.subject.tasks}: "
            f"{listed(found.features[level])}. Beside an intercept per {facts.subject.task} their effect "
            f"cannot be learned, and coefficients of 0 say nothing about it. {BETWEEN_TASKS}"
        )
    partly = int((~found.learnable).any(axis=0).sum() - (found.classes == "constant").sum())
    if partly:
        said.append(
            f"{counted(partly, facts.noun)} {'is' if partly == 1 else 'are'} constant within some of the "
            f"{facts.subject.tasks}, where no coefficient of their own can be learned. The table of features says in how "
            "many each varies."
        )
    return " ".join(said)


def prediction(facts: ModelFacts) -> str:
    """How well the model predicts, as far as the fit knows."""
    errors = facts.errors
    crossed = facts.by_fold is not None and facts.by_fold[2]
    if errors is None and facts.grid is not None and facts.model.n_splits_:
        value, folds = facts.grid.values[tuple(facts.grid.chosen)], facts.model.n_splits_
        measure = facts.grid.measure.removeprefix("held-out ")
        measure = facts.words.loss if measure == "deviance" and facts.by_own_loss else measure
        return (
            f"On rows held out in {folds} folds the mean {measure} is {number(value)}. The same folds chose the parameters: "
            f"new data will be predicted less well.{_in_order(facts)}{_with_rows(facts)}"
        )
    if errors is None:
        way = "selection='min' with several folds" if facts.searched else facts.family.search.__name__
        none = "no rows out that had no part in the choice" if getattr(facts.model, "n_splits_", 0) else "no rows out"
        if facts.family.is_search(facts.model):
            way = "compare_models"
            return f"This fit held {none}, so how well it predicts is not known: {way} measures it."
        return f"This fit held {none}, so how well it predicts is not known: {way} measures it, and so does compare_models."
    of_task = errors.relative
    if not np.isfinite(of_task).any():
        return "The targets of all tasks are constant."
    error = errors.overall(of_task)
    folds = len(facts.by_fold[0]) if facts.by_fold is not None else 0
    own = f"each {facts.subject.task} by itself, " * (facts.m > 1)
    said = (
        f"On rows held out in {folds} folds{', each predicted with parameters that the other folds chose' * crossed}, the "
        f"{facts.words.loss} is {percent(error)} of {facts.words.unit} "
        f"({own}{facts.measure.name} {number(error)}, mean by size)"
    )
    if np.isfinite(of_task).sum() > 1:
        extremes = (np.nanargmin(of_task), np.nanargmax(of_task))
        ends = [f"{number(of_task[i])} in {task(facts.model.tasks_[i], facts.subject.task)}" for i in extremes]
        said += f": from {ends[0]} to {ends[1]}"
    poor = int((of_task >= 1).sum())
    if poor:
        than = "these" if facts.classes else f"the {facts.words.nothing}"
        said += f". In {facts.subject.counted(poor)} it is no better than {than}"
    said += "" if crossed else ". The same folds chose the parameters: new data will be predicted a little less well"
    return f"{said}.{_in_order(facts)}{facts.words.about}"


def _in_order(facts: ModelFacts) -> str:
    """How well the order of times until an event is predicted."""
    found = np.asarray(getattr(facts.model, "concordance_", []), dtype=np.float64)
    if not np.isfinite(found).any():
        return ""
    low, high = int(np.nanargmin(found)), int(np.nanargmax(found))
    ends = [f"{number(found[i])} in {task(facts.model.tasks_[i], facts.subject.task)}" for i in (low, high)]
    said = f"from {ends[0]} to {ends[1]}" if low != high else number(found[low])
    return f" The C-index, the share of pairs whose order is predicted, is {said} (0.5 is chance, 1 is perfect)."


def _with_rows(facts: ModelFacts) -> str:
    """What would tell the errors of another loss than the squared one."""
    if not facts.by_own_loss:
        return ""
    loss, one = facts.words.loss, facts.subject.task
    return f" With the rows of the fit (X and y) the page tells the held-out {loss} of every {one}."


def suspicious(facts: ModelFacts) -> str:
    """Tasks that are predicted better than measurements allow."""
    if facts.errors is None:
        return ""
    known = np.flatnonzero(facts.errors.relative < PERFECT)
    if not known.size:
        return ""
    worst = float(np.max(facts.errors.relative[known]))
    size = (
        "without any error"
        if worst == 0.0
        else f"with a {facts.words.loss} of at most {worst:.0e} of {facts.words.unit}"
    )
    tasks = listed([task(label, facts.subject.task) for label in facts.model.tasks_[known]])
    return (
        f"Too good to be true: held-out rows of {tasks} are predicted {size}. Is the target computed from a feature there, "
        "or are rows in the table twice?"
    )


def failing(facts: ModelFacts) -> str:
    """Tasks whose predictions fail, so that they are told of apart from the others."""
    places, errors, all_rows = facts.failed, facts.errors, facts.explained
    if not places.size or errors is None or all_rows is None or facts.unit is None:
        return ""
    squared = not facts.classes and not facts.by_own_loss
    size = np.sqrt if squared else lambda value: value
    begin = "" if squared else f"{facts.words.loss} "
    said = []
    for i in places[:LISTED]:
        known = f"{counted(int(facts.n_samples[i]), 'row')}, " if np.isfinite(facts.n_samples[i]) else ""
        off = f"{known}{begin or 'off by '}{number(size(errors.loss[i]))}"
        nothing = f"the {facts.words.nothing} {number(size(facts.unit[i]))}"
        said.append(f"{task(facts.model.tasks_[i], facts.subject.task)} ({off}, {nothing})")
    more = f" and {facts.subject.counted(len(places) - LISTED)} more" if len(places) > LISTED else ""
    of_all = f"{begin or 'off by '}{number(size(all_rows.loss))}, each {facts.subject.task}'s own {facts.words.nothing}"
    one = len(places) == 1
    return (
        f"Predictions fail in {', '.join(said)}{more}, and what is said above is about the others. Over all rows they are "
        f"{of_all} {number(size(all_rows.nothing))}. Where few rows are the reason, leave {'it' if one else 'them'} out "
        "(--min-rows in the command, enough_samples in Python)."
    )


def reach(facts: ModelFacts) -> str:
    """How far predictions may be off, task by task, as far as folds tell."""
    radii = task_radii(facts.model, LEVEL)
    known = np.flatnonzero(np.isfinite(radii) & (radii > 0))
    if not known.size or facts.classes:
        return ""
    first, last = known[np.argmin(radii[known])], known[np.argmax(radii[known])]
    one, labels = facts.subject.task, facts.model.tasks_
    ends = [f"±\N{NO-BREAK SPACE}{number(radii[i])} in {task(labels[i], one)}" for i in (first, last)]
    far = f"±\N{NO-BREAK SPACE}{number(radii[first])}" if len(radii) == 1 else f"from {ends[0]} to {ends[1]}"
    few = int(np.isnan(radii).sum()) - len(facts.added)
    rest = f"; {facts.subject.counted(few)} {'has' if few == 1 else 'have'} too few rows to say" if few else ""
    return (
        f"In {percent(LEVEL, 0)} of new rows like these the target will be about this near its prediction: {far}{rest} "
        "(predict_interval says it of every row)."
    )


def unmeasured(facts: ModelFacts) -> str:
    """Which tasks have no held-out error, where others do."""
    if facts.errors is None or not facts.added:
        return ""
    added = listed([task(label, facts.subject.task) for label in facts.added])
    return f"Not measured: {added}, which add_task added after the search."


def gain(facts: ModelFacts) -> str:
    """What sharing gained over independent lassos on the same rows."""
    if facts.gain is None or facts.evidence is None:
        return ""
    if facts.shares_nothing:
        return "Cross-validation chose a point of the grid where nothing is shared: these data give no reason to share."
    found, one, many = facts.evidence, facts.subject.task, facts.subject.tasks
    gains, loses = (_some(int((facts.gain_clear == sign).sum())) for sign in (-1, 1))
    smaller, larger = _some(found.n_better), _some(found.n_worse)
    median = f" (median change {percent(found.median_change)})" if np.isfinite(found.median_change) else ""
    begin = {"better": "Sharing lowers the error", "worse": "Sharing raises the error"}
    size = f"{percent(abs(found.change))} {'lower' if found.difference < 0 else 'higher'}"
    if abs(found.change) < NEXT_TO_NOTHING:
        size = f"the same to {percent(NEXT_TO_NOTHING)}"
    doubt = f", but {found.doubt}" if found.beyond and not found.clear else ""
    return (
        f"{begin.get(found.standing, 'Whether sharing helps is not clear')}: compared with the best independent lassos "
        f"({facts.measure.name} {number(found.base)}) it is {size} (standard error {percent(found.se_of_change)}){doubt}. "
        f"Of {found.n_tasks:,} {one if found.n_tasks == 1 else many} {smaller} {'has' if found.n_better < 2 else 'have'} a "
        f"smaller error and {larger} a larger one{median}; {gains} clearly gain{'s' * (gains in ('none', '1'))} and {loses} "
        f"clearly lose{'s' * (loses in ('none', '1'))} (corrected for how many were looked at). {FAIR}; standard errors are "
        "for other rows to train on as well as to predict."
    )


def _some(n: int) -> str:
    return f"{n:,}" if n else "none"


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


def intervals(facts: ModelFacts) -> str:
    """What the intervals of coefficients are, if there are any."""
    sure = facts.sure
    if sure is None:
        return ""
    clear, known = int(sure.clear.sum()), int(sure.known.sum())
    said = f"Of {known:,} coefficients that have an interval {_some(clear)} {'is' if clear < 2 else 'are'} clearly non-zero"
    if sure.corrected:
        said += f", at a false discovery rate of {percent(sure.rate, 0 if sure.rate >= 0.01 else 1)} over all of them"
        alone = sum(any(low > 0 or high < 0 for low, high in lines) for lines in sure.lines.values()) - clear
        if alone > 0:
            said += (
                f" ({alone:,} more {'has an interval' if alone == 1 else 'have intervals'} without 0, which is not enough "
                "where so many are looked at)"
            )
    else:
        said += ": their interval excludes 0, which is not corrected for how many were looked at"
    if sure.made:
        said += (
            f". The intervals are those of least squares on all features, in each {facts.subject.task} by itself: every "
            f"{facts.subject.task} has rows enough. They take rows as independent, and do not depend on what the model chose"
        )
    return f"{said}."


def rows_shown(facts: ModelFacts) -> str:
    """Which predictions of rows are shown."""
    if of_survival(facts.model):
        said = "Hazards are predicted, not times, so there are no predictions to hold against what was observed."
        one = facts.subject.task
        if facts.lifetimes is None:
            return f"{said} With the data (X and y) the page shows survival curves of every {one}."
        fits = "The rows are not those of the fit."
        if facts.lifetimes.of_the_fit:
            fits = "The curves are made from the rows of the fit, and fit these better than new ones."
        return (
            f"{said} Curves: the share of rows that are expected to be still without the event, where the hazard is as in "
            f"the lowest tenth of the {one}'s rows, in the middle, and as in the highest tenth. Grey steps: the share "
            f"observed in all rows of the {one} (Kaplan-Meier). {fits}"
        )
    if facts.samples is None:
        return ""
    if facts.samples.held_out:
        return "Every row is predicted by the model that was fitted without the row's fold, with the parameters chosen."
    return (
        "Rows are predicted by the model itself. If it was fitted to them, it looks better here than it is on new rows."
    )
