"""The page: words, tables and pictures put into the template."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import resources
from typing import Any

import numpy as np

from .._estimators.words.formulas import formula
from .._estimators.words.subject import Subject
from .._runtime.drawing import NAMED
from .._runtime.text.printable import short
from ..compare.comparison import Comparison
from ..inference.shared import SharedFeatures
from ..plots.grids import GainDisplay, SurfaceDisplay
from ..plots.maps import CoefficientMapDisplay
from . import charts, contest, model_tables, sentences
from .answer import answer, outcome
from .known.facts import ModelFacts
from .known.performance import calibration_table, confusion_table, overall_auc
from .pictures import Picture, picture
from .task_view import task_view
from .words import counted, every, number, symbol, typeset

PRINT_ROWS = 60  # of a table; as in style.css
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; script-src"
BEYOND = "Triangles at the edge are values beyond it; the table has their numbers."
COLOURS = "Blue: clearly better; orange: clearly worse; grey: not clear."


@dataclass(frozen=True)
class Illustration:
    """A chart, the still picture that stands for it, and what is said below."""

    name: str
    chart: charts.Chart
    picture: Picture
    caption: str
    notes: list[str] = field(default_factory=list)


def render(
    facts: ModelFacts | None,
    comparison: Comparison | None,
    title: str | None,
    command: str | None,
    reason: str | None = None,
    shared: SharedFeatures | None = None,
    left_out: str | None = None,
    subject: Subject | None = None,
) -> str:
    """The report as HTML; `reason`: why this model was chosen among others; `subject`: of a comparison alone, what target
    and tasks are called."""
    subject = facts.subject if facts is not None else subject or Subject()
    library, template = charts.library(), _template()
    content: dict[str, Any] = {
        "subject": subject,
        "facts": facts,
        "comparison": comparison,
        "command": command,
        "reason": reason,
    }
    view = None
    if facts is not None:
        content |= _of_model(facts, left_out) | {"shared": shared}
        view = task_view(facts)
    if comparison is not None:
        content |= _of_comparison(comparison, subject)
    content["snippet"] = contest.snippet(comparison) if facts is None else facts.snippet()
    content["versions"] = model_tables.versions_table(None if facts is None else facts.model)
    content["title"] = _title(facts, comparison, subject) if title is None else title
    content["byline"] = _byline(facts, comparison, subject)
    content["sections"] = _sections(content)
    shown = [one for one in content.values() if isinstance(one, Illustration)]
    return _fill(template, content, {"charts": {one.name: one.chart for one in shown}, "tasks": view}, library)


def _template() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ImportError('a report needs bokeh, jinja2 and matplotlib: pip install "msmtfl[report]".') from error
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["short"] = short
    environment.filters["typeset"] = typeset
    return environment.from_string(_asset("template.html"))


def _fill(template: Any, content: dict[str, Any], data: dict[str, Any], library: str) -> str:
    from markupsafe import Markup

    from .. import __version__

    script, style = _asset("script.js"), _asset("style.css")
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":  # no end of the element in it, and no comment
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    text_of_page: str = template.render(
        **content,
        version=__version__,
        print_rows=PRINT_ROWS,
        policy=" ".join([POLICY, *(f"'sha256-{_digest(part)}'" for part in (library, script))]),
        data=Markup(text),
        library=Markup(library),
        script=Markup(script),
        style=Markup(style),
    )
    return text_of_page


def _asset(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """What the page's policy knows a script by: no other script runs, whatever finds its way into the page."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# ------------------------------------------------------------------ a model


def _of_model(facts: ModelFacts, left_out: str | None) -> dict[str, Any]:
    """What the template says of a model."""
    return {
        "model_name": type(facts.model).__name__,
        "known_as": facts.family.title,
        "answer": answer(facts),
        "formula": formula(facts.model),
        "choice": sentences.choice(facts),
        "strengths": sentences.strengths(facts),
        "shares": sentences.shares(facts),
        "freed": sentences.freed(facts),
        "shares_bar": _shares_bar(facts),
        "prediction": sentences.prediction(facts),
        "reach": sentences.reach(facts),
        "suspicious": " ".join(filter(None, (sentences.suspicious(facts), sentences.failing(facts)))),
        "unmeasured": sentences.unmeasured(facts),
        "left_out": sentences.left_out(facts, left_out),
        "gain": sentences.gain(facts),
        "within": sentences.within(facts),
        "intervals_said": sentences.intervals(facts),
        "rows_said": sentences.rows_shown(facts),
        "overall_auc": overall_auc(facts) if facts.classes and facts.samples is not None else None,
        "coefficient_map": _coefficient_map(facts),
        "gains_chart": _gains_chart(facts),
        "surface": _surface(facts),
        "features": model_tables.features_table(facts),
        "tasks": model_tables.tasks_table(facts),
        "intervals": model_tables.intervals_table(facts),
        "confusion": confusion_table(facts),
        "calibration": calibration_table(facts),
        "gains": model_tables.gains_table(facts),
        "parameters": model_tables.parameters_table(facts),
        "values": model_tables.values_table(facts),
        **(_of_stages(facts) if facts.stages else {}),
    }


def _of_stages(facts: ModelFacts) -> dict[str, Any]:
    """Of a model that has them: what is proven of each."""
    return {
        "proof": sentences.proof(facts),
        "certificate": sentences.certificate(facts.model.certificate_),
        "stages": model_tables.stages_table(facts),
    }


def _shares_bar(facts: ModelFacts) -> list[tuple[str, int, str]]:
    """Class, number of features, words."""
    said = {"all": f"in {every(facts.m)} {facts.subject.tasks}", "some": "in some", "one": "in one only"}
    said |= {"unused": "unused", "constant": "could not be learned"}
    if facts.m == 1:
        said["one"] = "used"
    return [(name, n, said[name]) for name, n in facts.variables.counts.items() if n]


def _coefficient_map(facts: ModelFacts) -> Illustration | None:
    used = facts.ever_used.size
    if not used:
        return None
    rows = min(NAMED, used)
    alt = (
        f"Coefficients of features in {facts.subject.counted(facts.m)}, as colours. The table of features holds the "
        "numbers."
    )
    size = float(np.clip(3.4 + 0.4 * facts.m, 5.0, 9.0)), 1.4 + 0.19 * rows
    scale = "row" if facts.own_scales else None
    drawn, _ = picture(
        lambda axes: CoefficientMapDisplay.from_estimator(facts.model, scale=scale, ax=axes[0, 0]), alt, *size
    )
    chart, notes = charts.coefficient_map(facts), []
    p, m = len(chart["rows"]), len(chart["columns"])
    if p < used:
        notes.append(
            f"The {p:,} strongest of {counted(facts.d, 'feature')} are shown; all are in model.coef_ and "
            "sharing_map(model).to_frame()."
        )
    if used < facts.d:
        constant = int((facts.sharing.classes == "constant").sum())
        unused = facts.d - used - constant
        why = [f"{counted(unused, 'feature')} not used in any {facts.subject.task}"] * (unused > 0)
        why += [f"{counted(constant, 'feature')} that could not be learned"] * (constant > 0)
        notes.append(f"Left out: {' and '.join(why)}.")
    if chart["constant"]:
        notes.append(
            f"Crosses: {counted(len(chart['constant']), 'cell')} in which the column is constant within the "
            f"{facts.subject.task}, so that nothing could be learned."
        )
    if m < facts.m:
        notes.append(f"The {m:,} {facts.subject.tasks} with the most rows are shown, of {facts.m:,}.")
    if rows < p:
        notes.append(f"In print, and where scripts do not run, at most {rows} features are shown.")
    rises = f"{outcome(facts)} {'rise' if facts.classes else 'rises'} with the feature; orange: the opposite"
    caption = f"Blue: {rises}. Blank cells (in print: grey) are exactly 0."
    if len(facts.classes) > 2:
        caption = (
            "Every class has coefficients of its own. All classes together: the sum of their sizes, which has no sign. "
            "One class, chosen above the map: blue where the odds of this class against the others rise with the "
            "feature, orange where they fall. Blank cells (in print: grey) are exactly 0. What stands to the right is about "
            "use by any class. In print: all classes together."
        )
    return Illustration("map", chart, drawn, caption, notes)


def _surface(facts: ModelFacts) -> Illustration | None:
    grid = facts.grid
    if grid is None:
        return None
    at, levels = tuple(grid.chosen), len(grid.levels)
    where = f"{symbol(grid.strength)} = {number(grid.lams[at])}"
    if levels > 1:
        where += f" and {symbol(grid.level_name)} = {grid.levels[at[1]]}"
    measured = f"{grid.measure} {number(grid.values[at])}"
    alt = f"{grid.measure} over the grid of candidates; the one chosen has {where} and {measured}."
    tall = 3.6 if levels == 1 else 1.9 + 0.4 * levels
    drawn, display = picture(lambda axes: SurfaceDisplay(grid).plot(axes[0, 0]), alt, 7.5, tall)
    caption = f"Star: the choice, {where}, with {measured}."
    if facts.errors is not None and facts.by_fold is not None and facts.by_fold[2]:
        caption += " That is the smallest of many errors; the one to report, of folds that did not choose, is above."
    if grid.within is not None:
        caption += (
            " Whiskers: one standard error."
            if levels == 1
            else " Dots (in print: boxes): within one standard error of the best."
        )
    if not np.isfinite(grid.values).all():
        caption += " Grey: not measured; a search ends where errors have risen." if levels > 1 else ""
    return Illustration("surface", charts.surface_chart(display), drawn, caption)


def _gains_chart(facts: ModelFacts) -> Illustration | None:
    if facts.gain is None or facts.shares_nothing:
        return None
    alt = "Held-out error of each task less that of independent lassos; the table below holds the numbers."
    model, unmeasured = facts.model, sentences.unmeasured(facts)
    measured = model.n_fitted_tasks_
    gains = GainDisplay(
        model.tasks_,
        *facts.gain,
        type(model).__name__.removesuffix("CV"),
        measure=facts.measure.name,
        clear=facts.gain_clear,
    )
    drawn, display = picture(lambda axes: gains.plot(axes[0, 0]), alt, 7.0, _tall(measured))
    caption = (
        f"Held-out {facts.measure.name} less that of the best independent lassos, 95 % intervals over folds, each "
        f"{facts.subject.task} by itself. {COLOURS} Clear is said at a false discovery rate of 5 % over all "
        f"{measured:,}: about {0.05 * measured:.2g} intervals without 0 are expected by chance. {sentences.FAIR}."
    )
    chart = charts.gain_chart(display)
    notes = [BEYOND] if chart["beyond"] else []
    return Illustration("gains", chart, drawn, caption, notes + ([unmeasured] if unmeasured else []))


def _differences(name: str, chart: charts.Chart, drawn: Picture, caption: str) -> Illustration:
    return Illustration(name, chart, drawn, caption, [BEYOND] if chart["beyond"] else [])


def _tall(names: int) -> float:
    """Inches for a picture with so many names, one below the other."""
    return 1.7 + 0.25 * min(names, NAMED)


# ------------------------------------------------------------------ a comparison


def _of_comparison(result: Comparison, subject: Subject) -> dict[str, Any]:
    """What the template says of a comparison."""
    tall = 1.6 + 0.3 * max(len(result.models), min(len(result.tasks), 14))
    alt = "Held-out error of each model, and what each task gains; the tables below hold the numbers."
    drawn, _ = picture(lambda axes: result.plot(axes=axes), alt, 10.0, tall, columns=2)
    measure = result.measure.name
    said = (
        f"Each model's {measure} less that of {result.reference}, on the same rows, ± 2 standard errors (for other rows to "
        f"train on as well as to predict). {COLOURS}"
    )
    by_model = _differences("models", charts.models_chart(result), drawn, said)
    alt = "What each task gains by the best model; the table below holds the numbers."
    drawn, display = picture(
        lambda axes: GainDisplay.from_comparison(result, ax=axes[0, 0]), alt, 7.0, _tall(len(result.tasks))
    )
    said = f"{display.measure} of {display.model} less that of {display.reference}, 95 % intervals. {COLOURS}"
    return {
        "models_chart": by_model,
        "rival_chart": _differences("rival", charts.gain_chart(display), drawn, said),
        "models": contest.models_table(result),
        "by_task": contest.by_task_table(result, subject),
    }


# ------------------------------------------------------------------ around it


def _title(facts: ModelFacts | None, comparison: Comparison | None, subject: Subject) -> str:
    if facts is not None:
        return facts.subject.title(facts.m)
    assert comparison is not None
    what = "" if subject.target == Subject.target else f"predict {subject.target} in "
    return f"Did sharing help {what}{subject.counted(len(comparison.tasks))}?"


def _byline(facts: ModelFacts | None, comparison: Comparison | None, subject: Subject) -> list[str]:
    now = datetime.now(UTC)
    today = f"{now.day} {now:%B %Y}"
    if facts is not None:
        rows = [counted(int(facts.n_samples.sum()), "row")] if np.isfinite(facts.n_samples).all() else []
        return [facts.subject.counted(facts.m), *rows, counted(facts.d, "feature"), today]
    assert comparison is not None
    return [counted(len(comparison.models), "model"), subject.counted(len(comparison.tasks)), today]


def _sections(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Anchors and headings for the table of contents."""
    facts = content["facts"]
    every_one = [
        ("summary", "The answer", facts),
        ("features", "Which features", facts),
        ("coefficients", "For whom", facts),
        ("tasks", _capital(facts.subject.tasks) if facts else "", facts),
        ("one", _one_by_one(facts) if facts else "", facts and (facts.m > 1 or facts.samples)),
        ("classes", "Classes", facts and content["confusion"]),
        ("sure", "How sure am I", facts),
        ("sharing", "What sharing gained", facts and facts.shares),
        ("comparison", "Comparison", content["comparison"]),
        ("method", "Method", facts),
        ("choice", "Choice of parameters", facts and content["surface"]),
        ("proof", "What is proven", facts and facts.stages),
        ("settings", "Parameters" if facts else "Versions", True),
        ("reproduce", "Reproduce", True),
    ]
    return [(anchor, text) for anchor, text, there in every_one if there]


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]


def _one_by_one(facts: ModelFacts) -> str:
    return f"One {facts.subject.task} at a time" if facts.m > 1 else "Row by row"
