"""Parquet files that do not fit into memory are read in batches, of which sums are kept: for squared loss they say all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..._data.statistics.moments import Moments, with_labels
from ..._estimators.fitted import loss_of
from ..._runtime.memory import free_memory
from ..._runtime.text.naturally import natural_order
from ..options import listed, tell
from .batches import parquet_files
from .data import Columns, InputError, NamedError, pandas, require
from .data import labels as texts_of
from .table_files import files_of, is_parquet, schema_of
from .training import source_of, warn_of_similar

COPIES = (
    3.0  # times the size of the numbers that a fit to rows takes at its peak: the table, the design, and what it makes
)
EACH = 8  # bytes of a number


@dataclass(frozen=True)
class Streamed:
    """Statistics ready to fit, one per fold or one in all; what the columns are; rows."""

    parts: list[Moments]
    columns: Columns
    source: str
    rows: int

    def fit(self, estimator: Any, searches: bool) -> None:
        estimator.fit_moments(self.parts if len(self.parts) > 1 else self.parts[0])

    def report_arguments(self) -> dict[str, Any]:
        return {"target": self.columns.target, "task_name": self.columns.task}

    def provenance(self, command: str) -> dict[str, Any]:
        columns = asdict(self.columns)
        return {"command": command, "data": self.source, "rows": self.rows, "rows_dropped": 0, "columns": columns}


def too_large(data: Sequence[Path], columns: Iterable[str] | None) -> str:
    """Why tables are read in batches, if they are Parquet and too large for this machine's memory; else ""."""
    if any(str(path) == "-" for path in data):
        return ""
    files = files_of(data)
    if not all(is_parquet(path) and path.is_file() for path in files):
        return ""
    wanted, size = None if columns is None else set(columns), 0.0
    for path in files:
        names, rows = schema_of(path)
        size += rows * EACH * len(names if wanted is None else wanted.intersection(names))
    room = free_memory()
    if COPIES * size <= room:
        return ""
    return f"the table has {_in_words(size)} of numbers, too many for the {_in_words(room)} of memory that are free"


def _in_words(size: float) -> str:
    return f"{size / 2**30:.1f} GB" if size >= 2**30 else f"{size / 2**20:.0f} MB"


def refuse_streaming(why: str, estimator: Any, **options: Any) -> None:
    """What cannot be done with statistics: an error that names it and says the way out."""
    begin = f"{why}: rows are read in batches, and only their sums are kept"
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value not in (None, False)]
    if given:
        raise InputError(f"{begin}. {', '.join(given)}: not possible then. Prepare these columns in the files.")
    if loss_of(estimator) != "squared" or hasattr(estimator, "predict_proba") or not hasattr(estimator, "fit_moments"):
        what = f"loss={loss_of(estimator)!r}" if loss_of(estimator) != "squared" else "this model"
        raise InputError(
            f"{begin}, which is not enough for {what}. Take --model msmtfl, lasso, l12, dirty, shared or partial-pooling "
            "with squared loss, a part of the files, or a larger machine."
        )


def read_statistics(
    data: Sequence[Path],
    *,
    target: str,
    task: str,
    features: str | None,
    exclude: str | None,
    weight: str | None,
    group: str | None,
    id: str | None,
    min_rows: int | None,
    folds: int | None,
    seed: int,
    quiet: bool,
    verbose: bool,
) -> Streamed:
    files = parquet_files(data)
    names, _ = schema_of(files[0])
    head = pandas().DataFrame(columns=names)
    roles = {"--target": target, "--task": task, "--weight": weight, "--group": group, "--id": id}
    for option, name in roles.items():
        if name is not None:
            require(head, [name], option)
    require(head, listed(exclude), "--exclude")
    taken = {*roles.values(), *listed(exclude)}
    found = [name for name in names if name not in taken] if features is None else listed(features)
    if features is not None:
        require(head, found, "--features")
    try:
        read = Moments.from_parquet(
            files,
            target,
            task,
            features=found,
            weight=weight,
            group=group,
            folds=folds,
            random_state=seed,
            verbose=verbose,
        )
    except ValueError as error:
        raise NamedError(str(error)) from error
    parts = [read] if folds is None else read
    labels = list(dict.fromkeys(label for one in parts for label in one.tasks.tolist()))
    texts = dict(zip(labels, texts_of(pandas().Series(labels, dtype=object)).tolist(), strict=True))
    counts = {label: sum(int(one[label].rows) for one in parts if label in one) for label in labels}
    kept = {label: texts[label] for label in labels if counts[label] >= (min_rows or 1)}
    _tell_of_small(counts, texts, kept, min_rows, quiet)
    warn_of_similar(pandas().Series(list(kept.values()), dtype=object))
    return Streamed(
        parts=[with_labels(one, kept) for one in parts],
        columns=Columns(target, task, found, weight, group, id),
        source=source_of(data),
        rows=sum(counts[label] for label in kept),
    )


def _tell_of_small(
    counts: dict[Any, int], texts: dict[Any, str], kept: dict[Any, str], least: Any, quiet: bool
) -> None:
    """Which tasks are left out, if any are."""
    small = [label for label in counts if label not in kept]
    if not kept:
        raise InputError(f"--min-rows: no task has {least} rows; the largest has {max(counts.values())}.")
    if small and not quiet:
        names = [texts[small[k]] for k in natural_order([texts[label] for label in small])]
        shown = ", ".join(map(repr, names[:8])) + ", ..." * (len(names) > 8)
        tell(f"{len(small)} of {len(counts)} tasks are left out: fewer than {least} rows: {shown}.")
