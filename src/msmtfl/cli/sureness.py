"""The table that a model was fitted to, once more: for `inspect --fdr`, `table --intervals` and `plot MODEL path`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .inputs.data import Columns, InputError, about, design, labels, numbers, require
from .inputs.levels import level_columns, with_levels
from .inputs.table_files import read_table
from .options import number_rows


@dataclass(frozen=True)
class Samples:
    """A fresh copy of the model, X with the task column, y, and weights and groups by their names in Python."""

    model: Any
    X: Any
    y: Any
    options: dict[str, Any]

    @property
    def fit_options(self) -> dict[str, Any]:
        """What `fit` takes: groups only where there are folds."""
        from .._estimators.families import family_of

        searches = family_of(self.model).is_search(self.model)
        return {name: value for name, value in self.options.items() if name != "groups" or searches}


def samples_of(
    fitted: Any,
    columns: Columns,
    data: Path,
    *,
    target: str | None,
    delimiter: str | None,
    encoding: str | None,
    decimal: str | None,
    quiet: bool,
) -> Samples:
    """The rows of a table whose columns are those of the fit."""
    from sklearn.base import clone

    from .._estimators.fitted import model_chosen
    from .inputs.training import complete, weights

    model = model_chosen(fitted)
    columns = _with_roles(fitted, columns, target)
    classes = hasattr(model, "predict_proba")
    roles = (*level_columns(columns.task), columns.group, columns.target if classes else None)
    texts = [name for name in roles if name is not None]
    with about(data):
        table = read_table(
            [data], delimiter=delimiter, encoding=encoding, decimal=decimal, as_text=[*texts, *columns.levels]
        )
        table = with_levels(table, columns.task)
        require(table, [name for name in (columns.target,) if name is not None], "--target")
        roles = (columns.task, columns.weight, columns.group, *columns.features)
        require(table, [name for name in roles if name is not None], "the model")
        kept = complete(table, columns, True, quiet)
        number_rows(kept.index)
        options = {
            "sample_weight": None if columns.weight is None else weights(kept[columns.weight]),
            "groups": None if columns.group is None else kept[columns.group].map(str).to_numpy(),
        }
        return Samples(
            model=clone(model).set_params(task_column=columns.task),
            X=design(kept, columns),
            y=labels(kept[columns.target]) if classes else numbers(kept[columns.target], "--target"),
            options={name: value for name, value in options.items() if value is not None},
        )


def shared_in(fitted: Any, columns: Columns, data: Path, *, at_least: int, fdr: float, **how: Any) -> Any:
    """What `shared_features` finds in a table whose columns are those of the fit."""
    from .._estimators.fitted import model_chosen
    from ..inference import shared_features

    m = len(model_chosen(fitted).tasks_)
    if not 1 <= at_least <= m:
        raise InputError(f"--at-least must be between 1 and {m}, the number of tasks; got {at_least}.")
    samples = samples_of(fitted, columns, data, **how)
    return shared_features(samples.model, samples.X, samples.y, r=at_least, fdr=fdr, **samples.options)


def _with_roles(fitted: Any, columns: Columns, target: str | None) -> Columns:
    """The columns with target, weight and group, as `msmtfl fit` wrote them down or as they are given now."""
    from .._estimators.fitted import noted

    told = noted(fitted, "columns")
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
