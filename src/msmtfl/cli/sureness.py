"""`msmtfl inspect MODEL DATA --fdr 0.1`: which features are shared, with an error rate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from .data import Columns, InputError, about, design, labels, numbers, require
from .options import number_rows
from .table_files import read_table


def shared_in(
    fitted: Any,
    columns: Columns,
    data: Path,
    *,
    target: str | None,
    at_least: int,
    fdr: float,
    delimiter: str,
    encoding: str,
    decimal: str,
    quiet: bool,
) -> Any:
    """What `shared_features` finds in a table whose columns are those of the fit."""
    from sklearn.base import clone

    from .._estimators.base import model_chosen
    from ..inference import shared_features
    from .training import complete, weights

    model = model_chosen(fitted)
    columns = _with_roles(fitted, columns, target)
    if not 1 <= at_least <= len(model.tasks_):
        raise InputError(f"--at-least must be between 1 and {len(model.tasks_)}, the number of tasks; got {at_least}.")
    classes = hasattr(model, "predict_proba")
    texts = [name for name in (columns.task, columns.group, columns.target if classes else None) if name is not None]
    with about(data):
        table = read_table(
            data, delimiter=delimiter, encoding=encoding, decimal=decimal, as_text=[*texts, *columns.levels]
        )
        require(table, [name for name in (columns.target,) if name is not None], "--target")
        roles = (columns.task, columns.weight, columns.group, *columns.features)
        require(table, [name for name in roles if name is not None], "the model")
        kept = complete(table, columns, True, quiet)
        number_rows(kept.index)
        return shared_features(
            clone(model).set_params(task_column=columns.task),
            design(kept, columns),
            labels(kept[columns.target]) if classes else numbers(kept[columns.target], "--target"),
            r=at_least,
            fdr=fdr,
            sample_weight=None if columns.weight is None else weights(kept[columns.weight]),
            groups=None if columns.group is None else kept[columns.group].map(str).to_numpy(),
        )


def _with_roles(fitted: Any, columns: Columns, target: str | None) -> Columns:
    """The columns with target, weight and group, as `msmtfl fit` wrote them down or as they are given now."""
    user = fitted.provenance_.get("user")
    told = user.get("columns") if isinstance(user, dict) else None
    told = told if isinstance(told, dict) else {}
    target = target or told.get("target")
    if target is None:
        raise InputError("--target: the model file does not say which column of DATA is the target. Give it.")
    if columns.task is None:
        raise InputError("the model has no task column. In Python msmtfl.shared_features takes task labels, too.")
    return replace(columns, target=target, weight=told.get("weight"), group=told.get("group"))


def as_facts(found: Any) -> dict[str, Any]:
    """What JSON can hold of shared features."""
    return {
        "features": [str(name) for name in found.features],
        "at_least": found.r,
        "fdr": found.fdr,
        "approximate": list(found.approximate),
    }
