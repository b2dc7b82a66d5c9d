"""The tables of a fitted model."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import numpy as np
import scipy
import sklearn

from .._data.designs import Floats, Ints
from .._estimators.classification.classes import labels_of
from .._estimators.fitted import classes_together, of_survival
from .._estimators.intervals import task_radii
from .._paths.validation.too_good import PERFECT
from .._runtime.text.naturally import natural_order
from ..plots.maps import OVER_CLASSES
from ..sharing import size_over_classes
from .known import performance
from .known.facts import ModelFacts, largest
from .known.sureness import Sureness
from .tabular import MOST_ROWS, Cell, Column, Table, counts, figures, texts
from .words import every, listed, percent

MOST_COLUMNS = 12  # tasks up to which the table of features has a column for each
LEVEL = 0.9  # of intervals of predictions that are told of
RANGE = (-1e300, 1e300)  # of effects
ROUNDING = 1e-12  # an effect, relative to the largest of its feature, that is nothing but rounding
MOST_ROWS_SHOWN = "those with the most rows are shown"
VALUES = {
    "lam_max_": "λ from which on all is 0",
    "objective_": "objective",
    "dual_gap_": "relative duality gap",
    "n_stages_": "stages",
    "n_iter_": "rounds of the solver",
    "best_score_": "mean score of the choice",
}


def tasks_table(facts: ModelFacts) -> Table:
    model, place = facts.model, _tasks_shown(facts, facts.m)
    columns = [texts(facts.subject.task.capitalize(), model.tasks_[place])]
    if np.isfinite(facts.n_samples).all():
        columns.append(counts("Rows", facts.n_samples[place]))
    if hasattr(model, "target_sd_"):
        columns += _targets(facts, place)
    columns.append(counts("Features used", facts.sharing.support.sum(axis=1)[place], "with a coefficient other than 0"))
    if facts.errors is not None:
        loss = facts.errors.loss[place]
        if facts.classes:
            each = ", of each class against the rest, added up"
            each *= len(facts.classes) > 2 and not classes_together(model)
            columns.append(figures("Held-out log-loss", loss, f"mean over rows held out{each}"))
        elif facts.by_own_loss:
            columns.append(figures(f"Held-out {facts.words.loss}", loss, "mean over rows held out"))
        else:
            root = "root of the mean squared error of rows held out, in the target's units"
            columns.append(figures("Held-out error", np.sqrt(loss), root))
        share = f"{facts.measure.about}: 0 is perfect, 1 is to know nothing but the {facts.subject.task}"
        columns.append(figures(facts.measure.heading, facts.errors.relative[place], share))
    columns += _more_of_tasks(facts, place)
    return Table("tasks", f"The {facts.subject.tasks}", columns, facts.m, MOST_ROWS_SHOWN)


def _more_of_tasks(facts: ModelFacts, place: Ints) -> list[Column]:
    """How far predictions may be off, how well classes are told apart, and what to look at."""
    out: list[Column] = []
    radii = task_radii(facts.model, LEVEL)
    if not facts.classes and np.isfinite(radii).any():
        out.append(figures("90 % within ±", radii[place], "of new rows like these, how far from their prediction"))
    auc = performance.auc_by_task(facts)
    if auc is not None:
        own = facts.samples is not None and not facts.samples.held_out
        of = ", of rows that the model itself predicts" * own
        out.append(figures("AUC", auc[place], f"area under the ROC curve{of}: 0.5 is chance, 1 is perfect"))
    notes = [_note(facts, int(i), radii) for i in place]
    return [*out, texts("Note", notes, wraps=True)] if any(notes) else out


def _note(facts: ModelFacts, i: int, radii: Floats) -> str:
    """What a reader should look at in a task."""
    if facts.errors is not None and facts.errors.relative[i] < PERFECT:
        return "too good: is the target computed from a feature?"
    if facts.model.tasks_[i] in facts.added:
        return "added later, not measured"
    if facts.unit is not None and facts.unit[i] == 0:
        return "the target does not vary"
    if np.isfinite(radii).any() and not np.isfinite(radii[i]):
        return "too few rows to say how far predictions are off"
    return ""


def _targets(facts: ModelFacts, place: Ints) -> list[Column]:
    """What the targets of the tasks are like."""
    mean, spread = (np.asarray(part)[place] for part in (facts.model.target_mean_, facts.model.target_sd_))
    if of_survival(facts.model):
        known = np.asarray(getattr(facts.model, "concordance_", np.full(facts.m, np.nan)))[place]
        order = figures(
            "C-index", known, "share of pairs held out by the same fold whose order is predicted: 0.5 is chance"
        )
        return [figures("Events", mean, "share of the rows in which the event was observed"), order]
    if not facts.classes:
        return [figures("Target mean", mean), figures("Target s.d.", spread)]
    shares = mean.reshape(len(place), -1).T[:MOST_COLUMNS]
    shown = facts.classes[1:] if len(facts.classes) == 2 else facts.classes[: len(shares)]
    return [figures(f"Share of {name}", share, "of the rows") for name, share in zip(shown, shares, strict=True)]


def gains_table(facts: ModelFacts) -> Table | None:
    if facts.gain is None or facts.errors is None or facts.shares_nothing:
        return None
    measured = facts.model.n_fitted_tasks_
    place = _tasks_shown(facts, measured)
    change, reach, error = facts.gain[0][place], facts.gain[1][place], facts.errors.relative[place]
    base, measure = error - change, facts.measure.heading
    share = np.divide(-change, base, out=np.full(len(base), np.nan), where=base > 0)
    verdict = np.select([facts.gain_clear[place] < 0, facts.gain_clear[place] > 0], ["gains", "loses"], "not clear")
    columns = [
        texts(facts.subject.task.capitalize(), facts.model.tasks_[place]),
        figures(measure, error, f"of rows held out: {facts.measure.about}"),
        figures(f"{measure} of lasso", base, "of one lasso per task, on the same rows"),
        figures("Difference", change, "below 0: sharing helps", 2),
        figures("± 95 %", reach, "how far the interval of the difference reaches", 2),
        Column("Gain", [Cell(percent(x), float(x)) for x in share], True, "share of the lasso's error that is saved"),
        texts("Verdict", verdict, "clear at a false discovery rate of 5 % over all tasks"),
    ]
    return Table("gains", f"What sharing gained, by {facts.subject.task}", columns, measured, MOST_ROWS_SHOWN)


def features_table(facts: ModelFacts) -> Table:
    found, model, kinds = facts.sharing, facts.model, []
    place = facts.by_importance[:MOST_ROWS]
    columns = [texts("Feature", found.features[place])]
    if facts.m > 1:
        said = {"all": every(facts.m), "some": "some", "one": "one", "unused": "none", "constant": "not learned"}
        shared = [said[name] for name in found.classes[place]]
        kinds = list(dict.fromkeys(shared))
        columns.append(texts("Used in", shared, f"{facts.subject.tasks} in which its coefficient is not 0"))
    columns += _effects(facts, place)
    if facts.sure is not None:
        hint = f"{facts.subject.tasks}, of {facts.m:,}: {sure_hint(facts.sure)}"
        columns.append(Column("Clearly non-zero in", _clear_in(facts, facts.sure, place), True, hint))
    if facts.m > 1:
        users = [Cell(_users(facts, j), int(found.n_tasks[j])) for j in place]
        columns.append(Column("Used by", users, wraps=True))
    if found.learnable is not None and not found.learnable.all():
        varies = found.learnable.sum(axis=0)[place]
        hint = f"{facts.subject.tasks}: elsewhere the column is constant, and nothing can be learned"
        columns.append(counts("Varies in", varies, hint))
    columns.append(figures("Strength", found.row_norms[place], "how much it counts in the penalty, over all tasks"))
    if found.freed is not None:
        freed = ["freed" if free else "no" for free in found.freed[place]]
        hint = "the cap freed it from the penalty, so that it is in every task where it varies"
        columns.append(texts("Freed", freed, hint))
    for part in facts.family.parts:
        values = getattr(model, part.attribute)
        one = values.ndim == 1 and part.common
        shown = values if one else np.abs(np.reshape(values, (-1, facts.d))).max(axis=0)
        note = part.note if one or not part.common else f"{part.note}: the largest over classes, in size"
        columns.append(figures(f"{part.title}{_per_unit(facts)}", shown[place], note))
    columns += _coefficients(facts, place)
    return Table("features", "The features", columns, facts.d, "the strongest are shown", kinds)


def sure_hint(sure: Sureness) -> str:
    """What "clearly" means."""
    if sure.corrected:
        return f"false discovery rate {100 * sure.rate:g} % over all coefficients that were looked at"
    level = "its interval" if sure.level is None else f"its {100 * sure.level:g} % interval"
    return f"{level} excludes 0, not corrected for how many were looked at"


def _effects(facts: ModelFacts, place: Ints) -> list[Column]:
    """Direction, and the effect of one standard deviation (or unit) over the tasks that use a feature."""
    if facts.K > 1:
        return []
    W = facts.effects[:, 0][:, place]
    W = np.where(np.abs(W) > ROUNDING * np.abs(W).max(axis=0), W, 0.0)  # what rounding left has no direction
    used = np.where(W == 0, np.nan, W)
    up, down = (W > 0).sum(axis=0), (W < 0).sum(axis=0)
    words = [_way(int(a), int(b)) for a, b in zip(up, down, strict=True)]
    some, step = ~np.isnan(used).all(axis=0), "one s.d." if facts.spreads is not None else "one unit"
    shape = np.exp if facts.ratio else np.asarray
    typical, low, high = np.full((3, len(place)), np.nan)
    typical[some] = shape(np.clip(np.nanmedian(used[:, some], axis=0), *RANGE))
    low[some], high[some] = (shape(np.clip(f(used[:, some], axis=0), *RANGE)) for f in (np.nanmin, np.nanmax))
    head = f"{facts.ratio.capitalize()} of {step}" if facts.ratio else f"Effect of {step}"
    of = f", median over the {facts.subject.tasks} that use it" if facts.m > 1 else ""
    unit = f"factor of the {facts.multiplied}" if facts.ratio else "in the target's units"
    way = texts("Direction", words, "in which the prediction goes when the feature rises")
    out = [way, figures(head, typical, f"{unit}{of}")]
    if facts.m > 1:
        out += [
            figures("Lowest", low, f"{head.lower()}, smallest of those"),
            figures("Highest", high, "largest of those"),
        ]
    return out


def _clear_in(facts: ModelFacts, sure: Sureness, place: Ints) -> list[Cell]:
    """In how many tasks features are clearly non-zero, and in which direction."""
    clear = sure.clear[:, place]
    total = clear.sum(axis=0)
    if facts.K > 1:
        return [Cell(f"{n:,}", int(n)) for n in total]
    W = facts.coef[:, 0][:, place]
    ways = [_way(int(a), int(b)) for a, b in zip((clear & (W > 0)).sum(0), (clear & (W < 0)).sum(0), strict=True)]
    return [
        Cell(f"{n:,}" if not n or way == "–" else f"{n:,} ({way})", int(n)) for n, way in zip(total, ways, strict=True)
    ]


def _way(up: int, down: int) -> str:
    """
    >>> _way(3, 0), _way(0, 1), _way(3, 1), _way(0, 0)
    ('up', 'down', '3 up, 1 down', '–')
    """
    return f"{up:,} up, {down:,} down" if up and down else "up" if up else "down" if down else "–"


def _coefficients(facts: ModelFacts, place: Ints) -> list[Column]:
    """Of features: a column per task, or per task and class, where there is room; else what is true of all of them."""
    W = facts.coef[..., place]
    m, K, _ = W.shape
    if facts.sharing.learnable is not None:  # a zero that could not be anything else is none
        W = np.where((W == 0.0) & ~facts.sharing.learnable[:, None, place], np.nan, W)
    if m == K == 1:
        return [figures(f"Coefficient{_per_unit(facts)}", W[0, 0])]
    if m * K <= MOST_COLUMNS:
        flat = W.reshape(m * K, -1)
        heads = facts.classes if m == 1 else labels_of(facts.model)
        said = "coefficient; – where the column is constant within the task"
        said = said if np.isnan(W).any() else "coefficient"
        return [figures(f"{head}{_per_unit(facts)}", w, said) for head, w in zip(heads, flat, strict=True)]
    if K > 1:
        sizes = size_over_classes(W)
        if m > MOST_COLUMNS:
            return [figures("Largest size", _of_known(sizes, np.fmax), f"largest over tasks of the {OVER_CLASSES}")]
        return [figures(f"Size: {task}", w, OVER_CLASSES) for task, w in zip(facts.model.tasks_, sizes, strict=True)]
    return []


def _per_unit(facts: ModelFacts) -> str:
    """What the head of a column of coefficients says, where others in the table are of one standard deviation."""
    if facts.K > 1 or facts.spreads is None:
        return ""
    return ", log per unit" if facts.ratio else ", per unit"


def _of_known(values: Floats, best: np.ufunc) -> Floats:
    """(features,): the best over tasks, but for those in which nothing is known."""
    return np.asarray(best.reduce(values, axis=0))


def _sorted(labels: Any) -> Any:
    return labels[natural_order(labels.tolist())]


def _users(facts: ModelFacts, j: int) -> str:
    """The tasks that use a feature, by name if they are few."""
    used = facts.sharing.support[:, j]
    n, labels = int(used.sum()), facts.sharing.tasks
    if n in (0, facts.m):
        return every(facts.m) if n else "none"
    if n <= 3:
        return listed(_sorted(labels[used]))
    return f"all but {listed(_sorted(labels[~used]))}" if facts.m - n <= 2 else f"{n} of {facts.m}"


def intervals_table(facts: ModelFacts) -> Table | None:
    """The intervals of the strongest features, one line each."""
    sure = facts.sure
    if sure is None or not sure.lines:
        return None
    rank = np.empty(facts.d, dtype=np.intp)
    rank[facts.by_importance] = np.arange(facts.d)
    place = np.argsort(facts.task_order)
    entries = sorted(sure.lines, key=lambda at: (rank[at[1]], place[at[0]]))
    shown = [(i, j, line) for i, j in entries[:MOST_ROWS] for line in sure.lines[i, j]][:MOST_ROWS]
    level = "" if sure.level is None else f"{100 * sure.level:g} % "
    log = f", of the logarithm of the {facts.multiplied}" if facts.multiplied else ""
    columns = [
        texts("Feature", (facts.sharing.features[j] for _, j, _ in shown)),
        texts(facts.subject.task.capitalize(), (facts.model.tasks_[i] for i, *_ in shown)),
        figures(
            "Coefficient", (facts.coef[i, 0, j] for i, j, _ in shown), f"the model's, in the units of the data{log}"
        ),
        figures("Lower", (line[0] for *_, line in shown), f"end of the {level}interval{log}"),
        figures("Upper", (line[1] for *_, line in shown), f"end of the {level}interval{log}"),
        texts("Clearly non-zero", ("yes" if sure.clear[i, j] else "no" for i, j, _ in shown), sure_hint(sure)),
    ]
    total = sum(len(lines) for lines in sure.lines.values())
    return Table("intervals", "Intervals of the coefficients", columns, total, "those of the strongest features")


def _tasks_shown(facts: ModelFacts, first: int) -> Ints:
    """Of the first tasks those that a table has room for, as a reader would sort them."""
    order = facts.task_order
    return largest(order[order < first], facts.n_samples, MOST_ROWS)


def stages_table(facts: ModelFacts) -> Table:
    stages = facts.stages
    columns = [
        Column("Stage", [Cell(str(s.stage), s.stage) for s in stages]),
        counts("Freed", (len(s.free_rows) for s in stages), "features that the stage left un-penalised"),
        counts("Features in use", (s.coef.any(axis=0).sum() for s in stages)),
        counts("Coefficients", (np.count_nonzero(s.coef) for s in stages), "that are not 0"),
        figures("Objective", (s.objective for s in stages), digits=6),
        figures("Duality gap", (s.dual_gap for s in stages), "relative: how far from optimal the stage is at most", 2),
        figures("Violation", (s.kkt for s in stages), "of the optimality conditions, as a correlation", 2),
        texts("Unique", ("yes" if s.unique else "not certified" for s in stages)),
        figures("Seconds", (s.seconds for s in stages), digits=2),
    ]
    return Table("stages", "The stages", columns, len(stages))


def parameters_table(facts: ModelFacts) -> Table:
    given, usual = facts.model.get_params(deep=False), type(facts.model)().get_params(deep=False)
    values = {name: _short(value) for name, value in given.items()}
    marks = ["" if text == _short(usual[name]) else "set" for name, text in values.items()]
    columns = [
        texts("Parameter", values),
        texts("Value", values.values(), wraps=True),
        texts("Set", marks, "differs from the default"),
    ]
    return Table("parameters", f"Parameters of {type(facts.model).__name__}", columns, len(values))


def _short(value: Any, longest: int = 80) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def values_table(facts: ModelFacts) -> Table | None:
    used = facts.family.values_in_use(facts.model)
    found = {f"{strength.symbol} used": value for strength, value in used.items()}
    found |= {text: float(getattr(facts.model, key)) for key, text in VALUES.items() if hasattr(facts.model, key)}
    if not found:
        return None
    cells = [Cell(f"{value:.6g}".replace("-", "−", int(value < 0)), value) for value in found.values()]
    return Table("values", "What came out", [texts("Quantity", found), Column("Value", cells, True)], len(found))


def versions_table(model: Any) -> Table:
    """What made the report, and what made the model if it comes from a file."""
    from .. import __version__

    now = {
        "msmtfl": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
    columns = [texts("Software", [*now, "bokeh"]), texts("This report", [*now.values(), metadata.version("bokeh")])]
    origin = getattr(model, "provenance_", None)
    if origin:
        then = dict(origin.get("versions") or {})
        columns.append(texts("The fit", [then.get(name, "–") for name in [*now, "bokeh"]]))
    return Table("versions", "Versions", columns, len(now) + 1)
