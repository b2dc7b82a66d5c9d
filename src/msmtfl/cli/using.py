"""`msmtfl predict`, `msmtfl inspect` and `msmtfl report`: what can be done with a model file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .._data.tables import names_of
from .._estimators.fitted import WAYS, noted, spread_over_tasks
from .._runtime.text.printable import printable
from . import options as o
from .inputs.data import (
    Columns,
    InputError,
    about,
    about_missing,
    design,
    find_labels,
    in_counts,
    label_texts,
    missing,
    missing_fills,
    offsets,
    pandas,
    refuse_nested,
    require,
)
from .inputs.levels import level_columns, with_levels
from .inputs.table_files import check_ending, csv_text, is_parquet, read_table, records, table_bytes
from .models import ModelFile, load

PREDICT = """\b
Examples:
  msmtfl predict model.msmtfl new.csv > predictions.csv
  msmtfl predict model.msmtfl new.parquet --out predictions.parquet --unknown-task mean
  msmtfl predict model.msmtfl new.csv --interval 0.9 > predictions.csv
  msmtfl predict model.msmtfl folder/ --out predictions.parquet   # in batches where memory is short"""
INSPECT = """\b
Examples:
  msmtfl inspect model.msmtfl
  msmtfl inspect model.msmtfl --coefficients coefficients.csv --sql model.sql
  msmtfl inspect model.msmtfl table.csv --fdr 0.1 --at-least 3"""
REPORT = """\b
Example:
  msmtfl report model.msmtfl --out report.html"""


def predict(
    model: ModelFile,
    data: o.Data,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV, Parquet or JSON file. Default, and -: CSV on stdout.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", help="Task column, if not that of the fit.")] = None,
    offset: Annotated[
        str | None, typer.Option("--offset", metavar="COL", help="Column of the offset, if not that of the fit.")
    ] = None,
    exposure: Annotated[
        str | None, typer.Option("--exposure", metavar="COL", help="Column of the exposure, if not that of the fit.")
    ] = None,
    id: o.Id = None,
    unknown_task: Annotated[
        str | None,
        typer.Option(
            "--unknown-task",
            help="error, or how to predict new tasks: mean (coefficients of the known ones), common (what they have in "
            "common) or similar (mean weighted by similarity), in as many digits as known tasks agree in. Default: as the "
            "model was made.",
        ),
    ] = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="No prediction for rows with missing values, instead of an error.")
    ] = False,
    delimiter: o.Delimiter = None,
    encoding: o.Encoding = None,
    decimal: o.DecimalMark = None,
    stream: o.Stream = False,
    formulas: o.Formulas = False,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval",
            help="How probable, e.g. 0.9: columns prediction_lower and prediction_upper hold the target so often; of a "
            "classifier prediction_set holds the class.",
        ),
    ] = None,
) -> None:
    """Predict: one line per row of DATA, in its order, with columns task and prediction.

    Of a classifier the prediction is a class; its probabilities follow.
    """
    with o.guard("predict", quiet):
        from .inputs.batches import check_part_by_part
        from .inputs.streaming import too_large

        out = o.file_or_stdout(out)
        o.check_outputs((out,), model, *data)
        check_ending(out)
        if unknown_task not in (None, "error", *WAYS):
            raise InputError(
                f"--unknown-task must be error, {', '.join(WAYS[:-1])} or {WAYS[-1]}, got {unknown_task!r}."
            )
        if interval is not None and not 0.0 < interval < 1.0:
            raise InputError(f"--interval must lie between 0 and 1, got {interval:g}: 0.9 for 90 per cent.")
        fitted, columns = load(model)
        _check_interval(fitted, interval)
        columns = _with_offset(fitted, _asked(fitted, columns, task), offset, exposure)
        name = id or columns.id
        texts = [
            text for text in (*level_columns(columns.task), columns.task, name, *columns.levels) if text is not None
        ]
        wanted = [*columns.features, *texts, *(one for one in (columns.offset, columns.exposure) if one is not None)]
        why = "--stream" if stream else too_large(data, wanted)
        how = (unknown_task or fitted.unknown_task, drop_missing, interval)
        if why:
            if as_json:
                raise InputError(f"{why}: rows are read in batches, and --json needs all of them. Take --out FILE.csv.")
            check_part_by_part(out)
            if not quiet and not stream:
                o.tell(f"{why}: rows are read in batches.")
            _in_batches(fitted, columns, data, wanted, texts, how, name, out, formulas, quiet)
            return
        with about(*data):
            table = read_table(data, delimiter=delimiter, encoding=encoding, decimal=decimal, as_text=texts)
            if id is not None:
                require(table, [id], "--id")
            result = _predictions(fitted, columns, table, *how)
            if name in table.columns:
                _carry(table[name], result)
        told = Told(len(result), empty_in(result), missing_fills(table, columns))
        told.say(None if name in table.columns else name, quiet)
        if out is not None:
            o.save(out, table_bytes(result, out, formulas))
        if as_json:
            o.emit(records(result) + "\n", data=True)
        elif out is None:
            o.emit(csv_text(result, formulas), data=True)


def _check_interval(fitted: Any, level: float | None) -> None:
    """Intervals are made of errors of rows that a fold held out."""
    from .._estimators.families import family_of
    from .._estimators.fitted import model_chosen

    model = model_chosen(fitted)
    if level is not None and not isinstance(model, family_of(model).search):
        raise InputError(
            "--interval: this model was fitted with given parameters, without cross-validation, so that nothing is known of "
            "its errors on other rows. Fit it again without --lam and the like: these are then chosen by cross-validation."
        )


def _asked(fitted: Any, columns: Columns, task: str | None) -> Columns:
    """With the task column that the user names."""
    if task is not None and fitted._form == "single":
        raise InputError("--task: this model has a single task without a label; leave the option out.")
    if task is None and columns.task is None and fitted._form == "long":
        raise InputError("this model was fitted with task labels: name their column with --task.")
    return columns if task is None else replace(columns, task=task)


def _with_offset(fitted: Any, columns: Columns, offset: str | None, exposure: str | None) -> Columns:
    """With the column of the offset: the one that the user names, or that of the fit."""
    if offset is not None and exposure is not None:
        raise InputError("--offset and --exposure: give one of them, the logarithm of an exposure is an offset.")
    if offset is not None or exposure is not None:
        return replace(columns, offset=offset, exposure=exposure)
    if getattr(fitted, "uses_offset_", False) and columns.offset is None and columns.exposure is None:
        raise InputError("this model was fitted with an offset: name its column with --offset, or --exposure.")
    return columns


def _predictions(
    fitted: Any, columns: Columns, table: Any, unknown_task: str, drop_missing: bool, level: float | None
) -> Any:
    """Columns task and prediction, in the order of the table; its rows are the index (several of each in the wide form)."""
    pd = pandas()
    table = with_levels(table, columns.task)
    free = _unused(fitted, columns) if level is None else {}  # intervals: models without a fold may use any
    needed = [name for name in columns.features if name not in free]
    require(table, needed, f"the model needs {len(needed)} feature column(s)")
    if columns.task is not None:
        require(table, [columns.task], "the model needs its task column (--task names another)")
    for option, name in (("--offset", columns.offset), ("--exposure", columns.exposure)):
        if name is not None:
            require(table, [name], f"the model needs the column of its offset ({option} names another)")
    table = table.assign(**free)
    refuse_nested(table, columns.used)
    gone = missing(table, columns)
    if gone.any() and not drop_missing:
        told = about_missing(table, columns)
        raise InputError(f"{told}. Fill them in, or use --drop-missing: no prediction for these rows.")
    kept = table[~gone]
    o.number_rows(kept.index)
    X, labels = design(kept, replace(columns, task=None)).to_numpy(dtype=float), None
    if columns.task is not None:
        codes = find_labels(fitted.tasks_.tolist(), kept[columns.task])
        if unknown_task == "error":
            _refuse_unknown(kept[columns.task], codes, fitted)
        labels = _known_labels(fitted, kept[columns.task], codes)
    model = copy(fitted).set_params(unknown_task=unknown_task)
    given, options = _as_in_fit(fitted, X, labels)
    beside = offsets(kept, columns)
    if beside is not None:
        options["offset"] = beside
    found = _predicted(model, given, options, level) if len(kept) else {}
    if found and columns.task is not None and (codes < 0).any():
        spread = spread_over_tasks(fitted, X[codes < 0], None if beside is None else beside[codes < 0])
        if spread > 0:  # digits beyond would say that more is known
            found["prediction"][codes < 0] = np.round(
                found["prediction"][codes < 0], 1 - int(np.floor(np.log10(spread)))
            )
    if columns.task is None:  # every task for every row (one X for all), or the only one
        m = len(fitted.tasks_)
        named = np.tile(np.array(label_texts(fitted.tasks_.tolist()), dtype=object), len(table))
        index, gone = np.repeat(table.index, m), np.repeat(gone, m)
    else:
        index, named = table.index, table[columns.task]
    return pd.DataFrame({"task": named} | _with_gaps(fitted, found, gone, level), index=index)


def _unused(fitted: Any, columns: Columns) -> dict[str, Any]:
    """Columns that no task uses, with a value in place of what they hold: they may be absent, or hold anything."""
    from .._estimators.fitted import model_chosen

    coef = np.reshape(model_chosen(fitted).coef_, (-1, len(fitted.features_)))
    used = {str(name) for name in fitted.features_[coef.any(axis=0)]}
    free: dict[str, Any] = {}
    for name in columns.features:
        levels = columns.levels.get(name)
        names = [name] if levels is None else [f"{name}={level}" for level in levels]
        if not used.intersection(names):
            free[name] = 0.0 if levels is None else levels[0]
    return free


def _known_labels(fitted: Any, column: Any, codes: np.ndarray) -> np.ndarray:
    """The labels of the rows as the model has them; those of new tasks as they are."""
    labels = column.map(str).to_numpy(dtype=object, copy=True)
    known = np.empty(len(fitted.tasks_), dtype=object)
    known[:] = fitted.tasks_.tolist()
    labels[codes >= 0] = known[codes[codes >= 0]]
    return labels


def _as_in_fit(fitted: Any, X: np.ndarray, labels: np.ndarray | None) -> tuple[Any, dict[str, Any]]:
    """X like the one that the model was fitted to, and what `predict` takes beside it."""
    frame, names = pandas().DataFrame(X), getattr(fitted, "feature_names_in_", None)
    inside = fitted._task_position is not None
    if inside:
        frame.insert(fitted._task_position, "task", labels)
    if names is None:
        return frame.to_numpy(), {} if inside or labels is None else {"task": labels}
    frame.columns = names
    return frame, {} if inside or labels is None else {"task": labels}


def _predicted(model: Any, X: Any, options: dict[str, Any], level: float | None) -> dict[str, np.ndarray]:
    """Columns of what the model predicts, all tasks of a row one after the other: of a classifier the class and the
    probabilities; with a level how far targets may lie, or which classes are possible."""
    out = {"prediction": model.predict(X, **options).ravel()}
    if not hasattr(model, "classes_"):
        ends = model.predict_interval(X, **options, level=level).reshape(-1, 2).T if level is not None else ()
        return out | dict(zip(_of_level(model, level), ends, strict=True))
    if level is not None:
        held = model.predict_set(X, **options, level=level).reshape(-1, len(model.classes_))
        names = np.array(label_texts(model.classes_.tolist()), dtype=object)
        out["prediction_set"] = np.array([_listed(names[one]) for one in held], dtype=object)
    p, classes = model.predict_proba(X, **options), model.classes_
    if len(classes) == 2 and model._form == "wide" and "task" not in options:  # of the second class only
        p = np.stack([1.0 - p, p], axis=-1)
    p = p.reshape(-1, len(classes))
    out["prediction"] = out["prediction"].astype(object)
    return out | {name: p[:, k] for k, name in enumerate(_probabilities(model))}


def _listed(names: Any) -> str:
    """Classes in one field, separated by ";": a name that holds one is quoted, as in CSV."""
    return ";".join('"' + name.replace('"', '""') + '"' if ";" in name or '"' in name else name for name in names)


def _probabilities(model: Any) -> list[str]:
    """What the columns of probabilities are called."""
    return [f"probability[{name}]" for name in label_texts(getattr(model, "classes_", np.empty(0)).tolist())]


def _of_level(model: Any, level: float | None) -> list[str]:
    """What the columns of intervals, or of sets of classes, are called."""
    if level is None:
        return []
    return ["prediction_set"] if hasattr(model, "classes_") else ["prediction_lower", "prediction_upper"]


def _with_gaps(
    fitted: Any, found: dict[str, np.ndarray], gone: np.ndarray, level: float | None
) -> dict[str, np.ndarray]:
    """The columns with empty places for rows that are left out."""
    out = {}
    for name in ("prediction", *_of_level(fitted, level), *_probabilities(fitted)):
        classes = name in ("prediction", "prediction_set") and hasattr(fitted, "classes_")
        out[name] = np.full(len(gone), None if classes else np.nan, dtype=object if classes else float)
        if found:
            out[name][~gone] = found[name]
    return out


def _refuse_unknown(labels: Any, codes: np.ndarray, fitted: Any) -> None:
    if (codes >= 0).all():
        return
    place, new = int(np.argmax(codes < 0)), int((codes < 0).sum())
    known = names_of(label_texts(fitted.tasks_.tolist()))
    raise InputError(
        f"row {labels.index[place] + 1} has task {str(labels.iloc[place])!r}, which the model does not know ({new} of "
        f"{len(codes)} rows have such a task); it knows {known}. Leave such rows out, or predict them with the mean "
        "coefficients: --unknown-task mean."
    )


def _carry(ids: Any, result: Any) -> None:
    """The ids as first column of the predictions."""
    if ids.name in result.columns:
        raise InputError(f"--id: the predictions have a column {ids.name!r} of their own; rename this one.")
    result.insert(0, ids.name, ids.loc[result.index])


@dataclass(frozen=True)
class Told:
    """What people should know of the predictions: how many there are, how many are empty, and what was filled in."""

    rows: int = 0
    empty: int = 0
    filled: Any = 0

    def __add__(self, other: Told) -> Told:
        return Told(self.rows + other.rows, self.empty + other.empty, self.filled + other.filled)

    def say(self, absent: str | None, quiet: bool) -> None:
        if quiet:
            return
        filled = "" if isinstance(self.filled, int) else in_counts(self.filled)
        if filled:
            o.tell(f"missing values are filled in as the model was made (--impute): {filled}.")
        if self.empty:
            o.tell(f"{self.empty} of {self.rows} predictions are left empty: missing values.")
        if absent is not None:
            o.tell(f"There is no column {absent!r}, which named the rows of the fit: predictions go without.")


def empty_in(result: Any) -> int:
    return int(result["prediction"].isna().sum())


def _in_batches(
    fitted: Any,
    columns: Columns,
    data: Sequence[Path],
    wanted: Sequence[str],
    texts: Sequence[str],
    how: tuple[str, bool, float | None],
    name: str | None,
    out: Path | None,
    formulas: bool,
    quiet: bool,
) -> None:
    """Predict the rows of Parquet files batch by batch, and write them as they come."""
    from .._runtime.files import whole_file
    from .inputs.batches import TableWriter, batches, parquet_files

    told, named = Told(), False
    with ExitStack() as stack:
        files = parquet_files(data)
        if out is not None:
            stack.enter_context(o.writing(out))
        target = None if out is None else stack.enter_context(whole_file(out))
        writer = TableWriter(target, is_parquet(out) if out is not None else False, formulas)
        for path, table in batches(files, wanted, texts):
            with about(path):
                result = _predictions(fitted, columns, table, *how)
                named = name in table.columns
                if named:
                    _carry(table[name], result)
                told += Told(len(result), empty_in(result), missing_fills(table, columns))
                writer.write(result)
        writer.close()
    told.say(None if named else name, quiet)


def inspect(
    model: ModelFile,
    data: Annotated[
        Path | None, typer.Argument(metavar="[DATA]", help="For --fdr: a table with the columns of the fit.")
    ] = None,
    coefficients: Annotated[
        Path | None,
        typer.Option("--coefficients", help="Write the sharing map and coefficients: CSV, Parquet or JSON."),
    ] = None,
    sql: Annotated[Path | None, typer.Option("--sql", help="Write one SQL expression per task.")] = None,
    fdr: Annotated[
        float | None,
        typer.Option("--fdr", help="Declare features shared, of which this share is false on average; needs DATA."),
    ] = None,
    at_least: Annotated[
        int | None, typer.Option("--at-least", help="With --fdr: in how many tasks a feature is to matter. Default: 2.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-y", help="With --fdr: target column, if not that of the fit.")
    ] = None,
    delimiter: o.Delimiter = None,
    encoding: o.Encoding = None,
    decimal: o.DecimalMark = None,
    formulas: o.Formulas = False,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Say what a model file holds: parameters, what is shared, what is proven, where it came from.

    With DATA and --fdr also which features matter in several tasks, with an error rate (knockoffs).
    """
    with o.guard("inspect", quiet):
        from .._estimators.words.formulas import formula
        from .describing import describe, facts
        from .sureness import as_facts, shared_in

        o.check_outputs((coefficients, sql), model, *([] if data is None else [data]))
        check_ending(coefficients)
        if (data is None) != (fdr is None):
            raise InputError("--fdr and DATA, a table with the columns of the fit, go together: give both or none.")
        if fdr is not None and not 0.0 < fdr < 1.0:
            raise InputError(
                f"--fdr must lie between 0 and 1, got {fdr:g}: with 0.1 one in ten features declared is false on average. "
                "No search can promise 0."
            )
        if fdr is None and (at_least is not None or target is not None):
            raise InputError("--at-least and --target are for --fdr, which is not given.")
        fitted, columns = load(model)
        shared = None
        if data is not None and fdr is not None:
            how: dict[str, Any] = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal, "quiet": quiet}
            asked: dict[str, Any] = {"target": target, "at_least": 2 if at_least is None else at_least, "fdr": fdr}
            shared = shared_in(fitted, columns, data, **asked, **how)
        if coefficients is not None:
            o.save(coefficients, table_bytes(_coefficients(fitted), coefficients, formulas))
        if sql is not None:
            from ..export import to_sql

            o.save(sql, _commented(to_sql(fitted)))
        if as_json:
            more = {} if shared is None else {"shared_features": as_facts(shared)}
            o.emit(json.dumps(facts(fitted) | more | {"provenance": fitted.provenance_}, indent=1) + "\n", data=True)
        elif not quiet:
            parts = [describe(fitted), *([] if shared is None else [str(shared)])]
            o.emit("\n\n".join([*parts, formula(fitted), _origin(fitted.provenance_)]) + "\n")


def _commented(expressions: dict[Any, str]) -> str:
    """SQL expressions, each with its task in a comment; 1 and '1' are two tasks."""
    names = [printable(task) for task in expressions]
    if len(set(names)) < len(names):
        names = [printable(repr(task)) for task in expressions]
    return "".join(f"-- task {name}\n{text}\n\n" for name, text in zip(names, expressions.values(), strict=True))


def _origin(provenance: dict[str, Any]) -> str:
    user = provenance.get("user")
    told = user if isinstance(user, dict) else {"note": user} if user else {}
    lines = [f"saved {provenance.get('saved')} by msmtfl {provenance.get('versions', {}).get('msmtfl')}"]
    plain = {name: value for name, value in told.items() if not isinstance(value, dict | list)}
    lines += [f"{printable(name.replace('_', ' '))}: {printable(value)}" for name, value in plain.items()]
    return "\n".join(lines)


def _coefficients(fitted: Any) -> Any:
    """The sharing map with one more column per task."""
    from .._estimators.classification.classes import labels_of
    from ..sharing import map_of

    frame = map_of(fitted).to_frame().reset_index(drop=True)
    for label, row in zip(labels_of(fitted), np.reshape(fitted.coef_, (-1, len(fitted.features_))), strict=True):
        frame[f"coef[{label}]"] = row
    for name in frame.columns:  # lists of tasks as text: CSV and Parquet
        if frame[name].map(lambda v: isinstance(v, list | tuple)).any():
            frame[name] = frame[name].map(lambda v: ";".join(str(one) for one in v))
    return frame


def report(
    model: ModelFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option("--title", help="Title of the page.")] = None,
    quiet: o.Quiet = False,
) -> None:
    """Make the HTML report of a model file: one page that works offline."""
    with o.guard("report", quiet):
        from ..report import write_report

        o.check_outputs((out,), model)
        fitted, _ = load(model)
        command = noted(fitted, "command")
        with o.writing(out):
            write_report(fitted, out, title=title, command=command)
        if not quiet:
            o.emit(f"report: {out}\n")
