"""The tables of a comparison of models."""

from __future__ import annotations

import numpy as np

from .._estimators.fitted import WAYS
from .._estimators.words.subject import Subject
from .._runtime.text.naturally import natural_order
from ..compare.comparison import Comparison, mean_over_tasks
from ..compare.measures import LOG_LOSS
from .tabular import MOST_ROWS, Cell, Column, Table, counts, figures, texts
from .words import percent

RATE = "at a false discovery rate of 5 % over all tasks"
SNIPPET = """from msmtfl import compare_models

result = compare_models(X, y, task=labels)  # or task_column=, or a column of y per task
print(result)"""


def snippet(result: Comparison | None) -> str:
    """Python that makes such a comparison."""
    classes = result is not None and result.measure == LOG_LOSS
    return SNIPPET.replace("task=labels)", "task=labels, classify=True)") if classes else SNIPPET


def models_table(result: Comparison) -> Table:
    order = np.argsort(result.error, kind="stable")
    names = [name + " (reference)" * (name == result.reference) for name in result.models]
    found = [result.evidence(result.models[k]) for k in order]
    standing = [
        "–" if result.models[k] == result.reference else one.standing for k, one in zip(order, found, strict=True)
    ]
    columns = [
        texts("Model", (names[k] for k in order)),
        figures(result.measure.heading, result.error[order], f"{result.measure.about}, mean over tasks by size"),
        figures("Difference", result.difference[order], f"to {result.reference}, on the same rows", 2),
        figures("s.e.", result.se[order], "of the difference, had other rows been drawn to train on and to predict", 2),
        texts("Standing", standing, "clear by the total, its standard error, and most tasks"),
        counts("Tasks better", (one.n_better for one in found), "with a smaller error, however little"),
        counts("Tasks worse", (one.n_worse for one in found), "with a larger error, however little"),
        Column(
            "Median change",
            [Cell(percent(one.median_change), one.median_change) for one in found],
            True,
            "of the tasks' errors, as a share of the reference's: no task counts for more",
        ),
        counts(
            "Clearly gain",
            result.gains[order].sum(axis=1),
            f"tasks that are clearly better, {RATE}",
        ),
        counts(
            "Clearly lose",
            result.loses[order].sum(axis=1),
            f"tasks that are clearly worse, {RATE}",
        ),
        figures("Features", result.n_features[order], "used in any task, mean over folds"),
        figures("Seconds", result.seconds[order], "of a search, or of a fit that is made on every fold", 2),
    ]
    if result.auc is not None:
        columns.append(figures("AUC", result.auc[order], "area under the curve of a task, mean over tasks by size"))
    if result.new_task is not None:
        by_way = mean_over_tasks(result.new_task)[order]
        for place, way in ((0, "the mean of the others"), (2, "what the others have in common"), (3, "similar others")):
            hint = f"{result.measure.name} in a task left out as a whole, predicted by {way}"
            title = "New task" if place == 0 else f"New task, by {WAYS[place - 1]}"
            if np.isfinite(by_way[:, place]).any():
                columns.append(figures(title, by_way[:, place], hint))
    return Table("models", "The models on the same held-out rows", columns, len(order))


def by_task_table(result: Comparison, subject: Subject) -> Table:
    order, m = np.argsort(result.error, kind="stable"), len(result.tasks)
    place = natural_order(result.tasks.tolist())[:MOST_ROWS]
    columns = [
        texts(subject.task.capitalize(), result.tasks[place]),
        *(figures(result.models[k], result.error_by_task[k, place], result.measure.name) for k in order),
    ]
    said = f"Held-out {result.measure.name} by {subject.task} and model"
    return Table("by-task", said, columns, m, "the first are shown")
