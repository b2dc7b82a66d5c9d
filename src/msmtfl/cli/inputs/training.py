"""From a file and options to what a model's fit takes."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..._data.copies import IDENTICAL
from ..._runtime.text.naturally import natural_order
from ..options import listed, number_rows, tell
from .batches import sampled, share_of
from .data import (
    Columns,
    InputError,
    about,
    about_fills,
    about_missing,
    design,
    find_columns,
    labels,
    missing,
    numbers,
    offsets,
    require,
    with_fills,
    with_level_of_missing,
)
from .levels import level_columns, with_levels
from .table_files import files_of, is_parquet, read_table

CLASSES = "If they are classes: msmtfl fit --classify, msmtfl compare --classify."


@dataclass(frozen=True)
class Training:
    """A table ready to fit: X with its task column, y, weights, groups and offset (or None); what the columns are; rows
    dropped."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    group: np.ndarray | str | None
    columns: Columns
    source: str
    dropped: int
    offset: np.ndarray | None = None

    def fit(self, estimator: Any, searches: bool) -> None:
        estimator.fit(self.X, self.y, **self.fit_arguments(searches))

    def fit_arguments(self, groups: bool) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if self.weight is not None:
            out["sample_weight"] = self.weight
        if self.offset is not None:
            out["offset"] = self.offset
        if self.group is not None and groups:
            out["groups"] = self.group
        return out

    def report_arguments(self) -> dict[str, Any]:
        """What a report shows beside the model: the rows, and what columns are called."""
        gone = f"{self.dropped:,} row{'s were' if self.dropped > 1 else ' was'} left out because of missing values."
        return {
            "X": self.X,
            "y": self.y,
            "sample_weight": self.weight,
            "offset": self.offset,
            "target": self.columns.event or self.columns.target,
            "task_name": self.columns.task if len(level_columns(self.columns.task)) < 2 else None,
            "left_out": gone if self.dropped else None,
        }

    def provenance(self, command: str) -> dict[str, Any]:
        return {
            "command": command,
            "data": self.source,
            "rows": len(self.y),
            "rows_dropped": self.dropped,
            "columns": asdict(self.columns),
        }


def source_of(data: Sequence[Path]) -> str:
    """The names of files, for a model file."""
    return ", ".join(path.name for path in data[:20]) + ", ..." * (len(data) > 20)


def read_training(
    data: list[Path],
    *,
    target: str,
    task: str,
    features: str | None,
    exclude: str | None,
    weight: str | None,
    group: str | None,
    id: str | None,
    one_hot: bool,
    drop_missing: bool,
    impute: str | None,
    delimiter: str | None,
    encoding: str | None,
    decimal: str | None,
    quiet: bool,
    classes: bool = False,
    group_identical: bool = False,
    offset: str | None = None,
    exposure: str | None = None,
    min_rows: int | None = None,
    missing_level: bool = False,
    event: str | None = None,
    sample: float | None = None,
    seed: int = 0,
) -> Training:
    if group is not None and group_identical:
        raise InputError("--group and --group-identical: give one of them.")
    with about(*data):
        levels = level_columns(task)
        texts = [name for name in (*levels, group, id, target if classes else None) if name is not None]
        if sample is not None and all(is_parquet(path) for path in files_of(data)):
            table = sampled(data, sample, seed, texts)
        else:
            table = read_table(data, delimiter=delimiter, encoding=encoding, decimal=decimal, as_text=texts)
            table = table if sample is None else share_of(table, sample, seed)
        table = with_levels(table, task)
        inside = [name for name in levels if name != task] if task in table.columns else []
        if missing_level:
            require(table, [task, target], "--task and --target")
            table = with_level_of_missing(
                table, [name for name in table.columns if name not in (*texts, target, event)]
            )
        columns = find_columns(
            table,
            target=target,
            task=task,
            features=None if features is None else listed(features),
            exclude=[*listed(exclude), *inside],
            weight=weight,
            group=group,
            id=id,
            one_hot=one_hot,
            offset=offset,
            exposure=exposure,
            event=event,
        )
        if impute is not None:
            columns = with_fills(table, columns, impute)
        kept = enough_rows(complete(table, columns, drop_missing, quiet), task, min_rows, quiet)
        warn_of_similar(kept[task])
        number_rows(kept.index)
        filled = about_fills(kept, columns)
        if filled and not quiet:
            tell(f"missing values are filled in with the {impute} of their column: {filled}.")
        return Training(
            X=design(kept, columns),
            y=_targets(kept, target, event, classes),
            weight=None if weight is None else weights(kept[weight]),
            group=IDENTICAL if group_identical else None if group is None else kept[group].map(str).to_numpy(),
            columns=columns,
            source=source_of(data),
            dropped=len(table) - len(kept),
            offset=offsets(kept, columns),
        )


def target_of(loss: str, target: str | None, time: str | None, event: str | None) -> tuple[str, bool]:
    """The column of targets (with --loss cox, of times), and whether there is one of events beside it."""
    survival = loss.startswith("cox")
    if survival:
        if time is None or event is None or target is not None:
            raise InputError(
                "--loss cox: give --time, the column of times, and --event, the column that is 1 where the event was "
                "observed and 0 where it was not, in the place of --target."
            )
        return time, True
    if time is not None or event is not None:
        raise InputError("--time and --event are for --loss cox.")
    if target is None:
        raise InputError("--target: name the column to predict (with --loss cox: --time and --event).")
    return target, False


def _targets(table: Any, target: str, event: str | None, classes: bool) -> Any:
    if event is None:
        return labels(table[target]) if classes else numbers(table[target], "--target", f"{CLASSES} Or encode them.")
    time, observed = numbers(table[target], "--time"), table[event]
    happened = observed.to_numpy() if observed.dtype.kind == "b" else numbers(observed, "--event")
    bad = np.flatnonzero((time < 0.0) | ~np.isin(happened, (0, 1)))
    if bad.size:
        raise InputError(
            f"row {table.index[bad[0]] + 1}: times must be at least 0, and events 0 or 1; columns {target!r} and {event!r} "
            f"hold {time[bad[0]]:g} and {happened[bad[0]]}."
        )
    return np.where(happened == 1, time, -time)


def enough_rows(table: Any, task: str, least: int | None, quiet: bool) -> Any:
    """The rows of tasks that have at least so many; the others are counted, named and left out."""
    if least is None:
        return table
    counts = table[task].map(str).value_counts()
    small = counts[counts < least]
    if len(small) == 0:
        return table
    if len(small) == len(counts):
        raise InputError(f"--min-rows: no task has {least} rows; {counts.index[0]!r} has most, {counts.iloc[0]}.")
    names = [str(small.index[k]) for k in natural_order(small.index.tolist())]
    shown = ", ".join(f"{name!r} ({small[name]})" for name in names[:8]) + ", ..." * (len(names) > 8)
    if not quiet:
        tell(
            f"{len(small)} of {len(counts)} tasks, {int(small.sum())} of {len(table)} rows, are left out: fewer than "
            f"{least} rows: {shown}."
        )
    return table[~table[task].map(str).isin(small.index)]


def warn_of_similar(labels: Any) -> None:
    """Names of tasks that differ in capitals, blanks or marks only: often the same task, written in two ways."""
    alike: dict[str, list[str]] = {}
    for name in {str(label) for label in labels.unique()}:
        plain = "".join(re.findall(r"\w+", unicodedata.normalize("NFKC", name).casefold())).replace("_", "")
        alike.setdefault(plain, []).append(name)
    pairs = [
        " and ".join(repr(one) for one in sorted(names))
        for plain, names in sorted(alike.items())
        if plain and len(names) > 1
    ]
    if pairs:
        warnings.warn(
            f"names of tasks that differ in capitals, blanks or marks only: {'; '.join(pairs[:5])}"
            f"{'; ...' * (len(pairs) > 5)}. They are fitted as different tasks: if they are the same, write them alike.",
            UserWarning,
            stacklevel=2,
        )


def complete(table: Any, columns: Columns, drop_missing: bool, quiet: bool) -> Any:
    """The rows in which nothing is missing; the others are an error, or counted and left out."""
    gone = missing(table, columns)
    if not gone.any():
        return table
    found = about_missing(table, columns)
    if not drop_missing:
        numeric = any(name not in columns.levels for name in columns.features if table[name].isna().any())
        fill = "Fill them in (features: --impute mean)" if numeric and not columns.fills else "Fill them in"
        raise InputError(f"{found}. {fill}, or leave these rows out: --drop-missing.")
    if gone.all():
        raise InputError(f"every row has {found}. Leave columns out with --exclude.")
    if not quiet:
        tell(f"{int(gone.sum())} of {len(table)} rows are left out: {found}.")
    return table[~gone]


def warn_of_classes(y: np.ndarray, target: str) -> None:
    """Numbers that are classes, more likely."""
    if np.isin(y, (0.0, 1.0)).all():
        warnings.warn(
            f"--target: column {target!r} holds nothing but 0 and 1. {CLASSES}",
            UserWarning,
            stacklevel=2,
        )


def warn_of_exposure(exposure: str | None, linear: bool) -> None:
    """The logarithm of an exposure, where predictions are no exponentials."""
    if exposure is not None and linear:
        warnings.warn(
            f"--exposure: the logarithm of column {exposure!r} is added to the prediction itself, which makes no rates. For "
            "counts: msmtfl fit --loss poisson. For a known part of the target: --offset.",
            UserWarning,
            stacklevel=2,
        )


def weights(column: Any) -> np.ndarray:
    values = numbers(column, "--weight")
    negative = np.flatnonzero(values < 0)
    if negative.size:
        row = int(column.index[negative[0]]) + 1
        raise InputError(
            f"--weight: column {column.name!r} holds {values[negative[0]]:g} in row {row}; weights are >= 0."
        )
    return values
