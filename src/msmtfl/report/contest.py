"""What a report says of a comparison of models."""

from __future__ import annotations

import numpy as np

from ..comparison import Comparison
from .facts import MOST_ROWS
from .tabular import Cell, Column, Table, columns_to_rows, counts, figures, texts

SNIPPET = """from msmtfl import compare_models

result = compare_models(X, y, task=labels)  # or task_column=, or a column of y per task
print(result)"""


def models_table(result: Comparison) -> Table:
    order = np.argsort(result.nmse, kind="stable")
    columns = [
        Column("Model"),
        Column("nMSE", True, "held-out squared error over the target's variance, averaged over tasks by size"),
        Column("Difference", True, f"to {result.reference}, on the same rows"),
        Column("s.e.", True, "standard error of the difference"),
        Column("Tasks that gain", True, "95 % interval below 0"),
        Column("Tasks that lose", True, "95 % interval above 0"),
        Column("Features", True, "used in any task, mean over folds"),
        Column("Seconds", True, "of a fit, mean over folds"),
    ]
    cells = [
        [
            Cell(f"{result.models[k]} (reference)" if result.models[k] == result.reference else result.models[k])
            for k in order
        ],
        figures(result.nmse[order]),
        figures(result.difference[order], 2),
        figures(result.se[order], 2),
        counts(result.gains[order].sum(axis=1)),
        counts(result.loses[order].sum(axis=1)),
        figures(result.n_features[order]),
        figures(result.seconds[order], 2),
    ]
    if result.new_task is not None:
        columns.append(
            Column("New task", True, "nMSE in a task left out as a whole, predicted by the mean of the others")
        )
        cells.append(figures(np.nanmean(result.new_task[order, :, 0], axis=1)))
    return Table("models", "The models on the same held-out rows", columns, columns_to_rows(cells), len(order))


def by_task_table(result: Comparison) -> Table:
    order = np.argsort(result.nmse, kind="stable")
    place = np.arange(len(result.tasks))[:MOST_ROWS]
    columns = [Column("Task"), *(Column(result.models[k], True, "nMSE") for k in order)]
    cells = [texts(result.tasks[place]), *(figures(result.nmse_by_task[k][place]) for k in order)]
    return Table(
        "by-task",
        "Held-out nMSE by task and model",
        columns,
        columns_to_rows(cells),
        len(result.tasks),
        "the first are shown",
    )
