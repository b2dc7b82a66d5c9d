"""Model files on the command line, and the columns that their models want."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from .._estimators.fitted import noted
from .inputs.data import (
    Columns,
    InputError,
    about,
)

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file of `msmtfl fit` or save_model.")]


def load(path: Path) -> tuple[Any, Columns]:
    """The model, and which columns it wants."""
    from ..model_files import load_model

    with about(path):
        if not path.exists():
            raise InputError("there is no such file.")
        if path.is_dir():
            raise InputError("it is a folder, not a model file.")
        if path.stat().st_size == 0 and path.is_file():
            raise InputError("it is empty, not a model file.")
    fitted = load_model(path)
    return fitted, _columns_of_fit(fitted) or _columns_of_model(fitted)


def _columns_of_fit(fitted: Any) -> Columns | None:
    """What `msmtfl fit` wrote down of the columns; None if somebody else saved the model."""
    told = noted(fitted, "columns")
    try:
        found = Columns(**told)
        same = found.expanded == [str(name) for name in fitted.features_]
    except (TypeError, AttributeError):
        return None
    texts = all(name is None or isinstance(name, str) for name in (found.task, found.id, found.offset, found.exposure))
    fills = found.fills.items() if isinstance(found.fills, dict) else [("", None)]
    known = set(found.features)
    numbers = all(name in known and isinstance(value, int | float) for name, value in fills)
    return replace(found, target=None, weight=None, group=None) if same and texts and numbers else None


def _columns_of_model(fitted: Any) -> Columns:
    task = fitted.task_column
    if isinstance(task, int) and hasattr(fitted, "feature_names_in_"):
        task = fitted.feature_names_in_[fitted._task_position]
    return Columns(None, task if isinstance(task, str) else None, [str(name) for name in fitted.features_])
