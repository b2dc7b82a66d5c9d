"""Tasks that several columns name, `--task region,school`: they are made one column of labels, of the name given."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._data.task_levels import SEPARATOR
from ..options import listed
from .data import InputError, label_texts


def level_columns(task: str | None) -> list[str]:
    """The columns that an option names, from the widest level on; one of them where tasks have one level."""
    if task is None:
        return []
    parts = listed(task)
    return parts if len(parts) > 1 else [task]


def with_levels(table: Any, task: str | None) -> Any:
    """The table with a column of labels of all levels, if several columns are named and it has them. A label is missing
    where one of its levels is."""
    parts = level_columns(task)
    if len(parts) < 2 or task in table.columns or not set(parts) <= set(table.columns):
        return table
    if len(set(parts)) < len(parts):
        raise InputError(f"--task {task}: a column is named twice.")
    whole = np.ones(len(table), dtype=bool)
    texts = []
    for name in parts:
        column = table[name]
        whole &= column.notna().to_numpy()
        known = column.dropna().unique().tolist()
        text = dict(zip(known, label_texts(known), strict=True))
        wrong = [one for one in text.values() if SEPARATOR in one]
        if wrong:
            raise InputError(
                f"--task: column {name!r} holds {wrong[0]!r}, but {SEPARATOR!r} separates levels in the labels of tasks. "
                "Write it otherwise."
            )
        texts.append([text.get(value, "") for value in column.tolist()])
    labels = [
        SEPARATOR.join(one) if there else None for one, there in zip(zip(*texts, strict=True), whole, strict=True)
    ]
    return table.assign(**{str(task): np.array(labels, dtype=object)})
