"""From a file and options to what a model's fit takes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from .data import Columns, InputError, about_missing, design, find_columns, missing, read_table
from .options import listed


@dataclass(frozen=True)
class Training:
    """A table ready to fit: X with its task column, y, weights and groups (or None); what the columns are; rows dropped."""

    X: Any
    y: Any
    weight: np.ndarray | None
    group: np.ndarray | None
    columns: Columns
    source: str
    dropped: int

    def fit_arguments(self, groups: bool) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if self.weight is not None:
            out["sample_weight"] = self.weight
        if self.group is not None and groups:
            out["groups"] = self.group
        return out

    def provenance(self, command: str) -> dict[str, Any]:
        return {
            "command": command,
            "data": self.source,
            "rows": len(self.y),
            "rows_dropped": self.dropped,
            "columns": asdict(self.columns),
        }


def read_training(
    data: Path,
    *,
    target: str,
    task: str,
    features: str | None,
    exclude: str | None,
    weight: str | None,
    group: str | None,
    id: str | None = None,
    one_hot: bool,
    drop_missing: bool,
    delimiter: str,
    encoding: str,
    quiet: bool,
) -> Training:
    separator = "\t" if delimiter == "\\t" else delimiter
    labels = [name for name in (task, group, id) if name is not None]
    table = read_table(data, delimiter=separator, encoding=encoding, as_text=labels)
    columns = find_columns(
        table,
        target=target,
        task=task,
        features=None if features is None else listed(features),
        exclude=listed(exclude),
        weight=weight,
        group=group,
        id=id,
        one_hot=one_hot,
    )
    gone = missing(table, columns)
    if gone.any():
        if not drop_missing:
            about = about_missing(table, columns)
            raise InputError(f"{data}: {about}. Fill them in, or leave these rows out: --drop-missing.")
        if gone.all():
            raise InputError(
                f"{data}: every row has {about_missing(table, columns)}. Leave columns out with --exclude."
            )
        if not quiet:
            about = about_missing(table, columns)
            typer.echo(f"{int(gone.sum())} of {len(table)} rows are left out: {about}.", err=True)
        table = table[~gone]
    X = design(table, columns)
    y = _floats(table, target, "--target")
    weights = None if weight is None else _floats(table, weight, "--weight")
    groups = None if group is None else table[group].astype(str).to_numpy()
    return Training(X, y, weights, groups, columns, data.name, int(gone.sum()))


def _floats(table: Any, name: str, option: str) -> np.ndarray:
    try:
        return np.asarray(table[name].to_numpy(dtype=float))
    except (TypeError, ValueError) as error:
        raise InputError(f"{option}: column {name!r} must hold numbers: {error}.") from error
