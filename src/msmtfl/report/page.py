"""The page: what is said, shown and drawn, put into the template."""

from __future__ import annotations

import base64
import hashlib
import json
import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import resources
from typing import Any

import numpy as np
import scipy
import sklearn

from ..comparison import Comparison
from ..drawing import NAMED
from ..plots import CoefficientMapDisplay, GainDisplay, SurfaceDisplay
from . import charts, contest, sentences
from .facts import ModelFacts
from .pictures import Picture, picture
from .tabular import Cell, Column, Table
from .words import counted, every, number, short, symbol

PRINT_ROWS = 60  # of a table; as in style.css


@dataclass(frozen=True)
class Illustration:
    """A chart, the still picture that stands for it, and what is said below."""

    name: str
    chart: charts.Chart
    picture: Picture
    caption: str
    notes: list[str] = field(default_factory=list)


def render(facts: ModelFacts | None, comparison: Comparison | None, title: str | None, command: str | None) -> str:
    """The report as HTML."""
    from .. import __version__

    library = charts.bokeh_script()
    content: dict[str, Any] = {"facts": facts, "comparison": comparison, "command": command, "print_rows": PRINT_ROWS}
    shown: list[Illustration] = []
    if facts is not None:
        shown += _describe_model(content, facts)
    if comparison is not None:
        shown += _describe_comparison(content, comparison)
    content["versions"] = _versions_table(facts, __version__)
    content["title"] = title if title is not None else _title(facts, comparison)
    content["kicker"] = "Multi-task feature learning" if facts else "Comparison of multi-task models"
    content["byline"] = _byline(facts, comparison)
    content["sections"] = _sections(content)
    content["version"] = __version__
    data = {"charts": {one.name: one.chart for one in shown}}
    return _fill(content, data, library)


def _fill(content: dict[str, Any], data: Any, library: str) -> str:
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError as error:
        raise ImportError("a report needs bokeh, jinja2 and matplotlib: pip install msmtfl[report].") from error
    script = _asset("script.js")
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in (library, script))
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["short"] = short
    template = environment.from_string(_asset("template.html"))
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":  # no end of the element, no comment in it
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    whole = {"library": Markup(library), "script": Markup(script), "style": Markup(_asset("style.css"))}
    return template.render(**content, **whole, data=Markup(text), policy=policy)


def _asset(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# ------------------------------------------------------------------ a model


def _describe_model(content: dict[str, Any], facts: ModelFacts) -> list[Illustration]:
    """Fills in what the template says of a model; returns the charts."""
    coefficients, gain, surface = _coefficients(facts), _gain(facts), _surface(facts)
    content |= {
        "name_of_model": type(facts.model).__name__,
        "shares": _shares(facts),
        "shares_said": sentences.shares(facts),
        "frames": len(facts.frames),
        "map": coefficients,
        "surface": surface,
        "gain": gain,
        "prediction": sentences.prediction(facts),
        "sharing_gain": sentences.gain(facts),
        "proof": sentences.proof(facts),
        "within": sentences.within(facts),
        "certificate": sentences.certificate(facts.model.certificate_) if facts.stages else [],
        "tasks": facts.tasks_table(),
        "gains": facts.gain_table(),
        "features": facts.features_table(),
        "stages": facts.stages_table(),
        "parameters": facts.parameters_table(),
        "values": facts.values_table(),
        "snippet": facts.snippet(),
    }
    return [one for one in (coefficients, gain, surface) if one is not None]


def _shares(facts: ModelFacts) -> list[dict[str, Any]]:
    """The bar of the summary."""
    said = {"all": f"used by {every(facts.m)} tasks", "some": "by some", "one": "by one only", "unused": "unused"}
    if facts.m == 1:
        said["one"] = "used"
    return [{"name": name, "count": f"{n:,}", "said": said[name], "n": n} for name, n in facts.sharing.counts.items()]


def _coefficients(facts: ModelFacts) -> Illustration | None:
    if not facts.ever_used.size:
        return None
    rows = min(NAMED, facts.d)
    drawn, _ = picture(
        lambda axes: CoefficientMapDisplay.from_estimator(
            facts.model, scale="row" if facts.model.standardize else None, ax=axes[0, 0]
        ),
        f"Coefficients of {counted(facts.d, 'feature')} in {counted(facts.m, 'task')}, as colours. The table of features "
        "holds the numbers.",
        float(np.clip(3.4 + 0.4 * facts.m, 5.0, 9.0)),
        1.4 + 0.19 * rows,
    )
    chart = charts.coefficient_map(facts)
    left, notes = chart.pop("left_out"), []
    if left["features"]:
        notes.append(
            f"The {len(chart['rows']):,} strongest of {counted(facts.d, 'feature')} are shown; all are in "
            "model.coef_ and sharing_map(model).to_frame()."
        )
    if left["unused"]:
        notes.append(f"Left out: {counted(left['unused'], 'feature')} that no task uses in any stage.")
    if left["tasks"]:
        notes.append(f"The {len(chart['columns']):,} tasks with the most rows are shown, of {facts.m:,}.")
    if rows < facts.d:
        notes.append(f"Print shows at most {rows}.")
    caption = "Blue: the target rises with the feature; orange: it falls. Blank cells are exactly 0."
    return Illustration("map", chart, drawn, caption, notes)


def _surface(facts: ModelFacts) -> Illustration | None:
    if facts.grid is None:
        return None
    grid, levels = facts.grid, len(facts.grid.levels)
    k, l = grid.chosen
    where = f"{symbol(grid.strength)} = {number(grid.lams[k, l])}"
    if levels > 1:
        where += f" and {symbol(grid.level_name)} = {grid.levels[l]}"
    measured = f"{grid.measure} {number(grid.values[k, l])}"
    drawn, display = picture(
        lambda axes: SurfaceDisplay(grid).plot(axes[0, 0]),
        f"{grid.measure} over the grid of candidates; the one chosen has {where} and {measured}.",
        7.5,
        3.6 if levels == 1 else 1.9 + 0.4 * levels,
    )
    caption = f"Star: the choice, {where}, with {measured}."
    if grid.within is not None:
        caption += " Whiskers: one standard error." if levels == 1 else " Dots: within one standard error of the best."
    return Illustration("surface", charts.surface_chart(display), drawn, caption)


def _gain(facts: ModelFacts) -> Illustration | None:
    if facts.gain is None or facts.is_lasso:
        return None
    drawn, display = picture(
        lambda axes: GainDisplay.from_estimator(facts.model, ax=axes[0, 0]),
        "Held-out error of each task less that of independent lassos; the table below holds the numbers.",
        7.0,
        _tall(facts.m),
    )
    caption = (
        "Held-out nMSE less that of the best independent lassos, with 95 % intervals over folds. Blue: sharing clearly helps "
        "the task; orange: it clearly hurts; grey: not clear."
    )
    return Illustration("gains", charts.gain_chart(display), drawn, caption)


def _tall(names: int) -> float:
    """Inches for a picture with so many names, one below the other."""
    return 1.7 + 0.25 * min(names, NAMED)


# ------------------------------------------------------------------ a comparison


def _describe_comparison(content: dict[str, Any], result: Comparison) -> list[Illustration]:
    tall = max(len(result.models), min(len(result.tasks), 14))
    drawn, _ = picture(
        lambda axes: result.plot(axes=axes),
        "Held-out error of each model; the table below holds the numbers.",
        10.0,
        1.6 + 0.3 * tall,
        columns=2,
    )
    said = f"Each model's nMSE less that of {result.reference}, on the same rows, ± 2 standard errors."
    models = Illustration("models", charts.models_chart(result), drawn, said)
    drawn, display = picture(
        lambda axes: GainDisplay.from_comparison(result, ax=axes[0, 0]),
        "What each task gains by the best model; the table below holds the numbers.",
        7.0,
        _tall(len(result.tasks)),
    )
    said = f"nMSE of {display.model} less that of {display.reference}, 95 % intervals. Blue: clearly better; orange: clearly worse; grey: not clear."
    tasks = Illustration("contest-tasks", charts.gain_chart(display), drawn, said)
    content |= {
        "contest": models,
        "contest_tasks": tasks,
        "models": contest.models_table(result),
        "by_task": contest.by_task_table(result),
    }
    content.setdefault("snippet", contest.SNIPPET)
    return [models, tasks]


# ------------------------------------------------------------------ around it


def _title(facts: ModelFacts | None, comparison: Comparison | None) -> str:
    if facts is None:
        assert comparison is not None
        return f"Did sharing help {counted(len(comparison.tasks), 'task')}?"
    return f"What {counted(facts.m, 'task')} share" if facts.m > 1 else "A sparse linear model"


def _byline(facts: ModelFacts | None, comparison: Comparison | None) -> list[str]:
    today = f"{datetime.now(UTC):%-d %B %Y}"
    if facts is not None:
        return [
            type(facts.model).__name__,
            counted(facts.m, "task"),
            counted(facts.n_rows, "row"),
            counted(facts.d, "feature"),
            today,
        ]
    assert comparison is not None
    return [counted(len(comparison.models), "model"), counted(len(comparison.tasks), "task"), today]


def _sections(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Anchors and headings for the table of contents."""
    facts = content["facts"]
    every = [
        ("summary", "Summary", facts),
        ("coefficients", "Coefficients", facts),
        ("features", "Features", facts),
        ("tasks", "Tasks and errors", facts),
        ("sharing", "What sharing gained", facts and facts.shares),
        ("comparison", "Comparison", content["comparison"]),
        ("choice", "Choice of parameters", facts and content["surface"]),
        ("proof", "What is proven", facts and facts.stages),
        ("settings", "Parameters" if facts else "Versions", True),
        ("reproduce", "Reproduce", True),
    ]
    return [(anchor, text) for anchor, text, there in every if there]


def _versions_table(facts: ModelFacts | None, own: str) -> Table:
    import bokeh

    rows = [
        ("msmtfl", own),
        ("Python", platform.python_version()),
        ("numpy", np.__version__),
        ("scipy", scipy.__version__),
        ("scikit-learn", sklearn.__version__),
        ("bokeh", bokeh.__version__),
    ]
    origin = getattr(facts.model, "provenance_", None) if facts else None
    if origin:
        rows = [(f"report: {name}", version) for name, version in rows]
        rows += [(f"fit: {name}", str(version)) for name, version in dict(origin.get("versions") or {}).items()]
        rows.append(("model saved", str(origin.get("saved"))))
    cells = [(Cell(name), Cell(version)) for name, version in rows]
    return Table("versions", "Versions", [Column("Software"), Column("Version")], cells, len(cells))
