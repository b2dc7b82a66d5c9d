"""`msmtfl predict`, `msmtfl inspect` and `msmtfl report`: what can be done with a model file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from . import options as o
from .data import Columns, InputError, about_missing, design, labels, missing, pandas, read_table, require, write_table

PREDICT = """\b
Examples:
  msmtfl predict model.msmtfl new.csv > predictions.csv
  msmtfl predict model.msmtfl new.parquet --out predictions.parquet --unknown-task mean"""
INSPECT = """\b
Examples:
  msmtfl inspect model.msmtfl
  msmtfl inspect model.msmtfl --coefficients coefficients.csv --sql model.sql"""
REPORT = """\b
Example:
  msmtfl report model.msmtfl --out report.html"""
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file of `msmtfl fit` or save_model.")]


def predict(
    model: ModelFile,
    data: o.Data,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV, Parquet or JSON file. Default: CSV on stdout.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", help="Task column, if not that of the fit.")] = None,
    id: o.Id = None,
    unknown_task: Annotated[
        str, typer.Option("--unknown-task", help="error, or mean: predict new tasks with the mean coefficients.")
    ] = "error",
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="No prediction for rows with missing values, instead of an error.")
    ] = False,
    delimiter: o.Delimiter = ",",
    encoding: o.Encoding = "utf-8",
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Predict: one line per row of DATA, in its order, with columns task and prediction."""
    with o.guard("predict", quiet):
        from .fitting import check_writable

        check_writable(out)
        if unknown_task not in ("error", "mean"):
            raise InputError(f"--unknown-task must be error or mean, got {unknown_task!r}.")
        fitted, columns = load(model)
        if task is not None:
            columns = Columns(None, task, columns.features, None, None, columns.id, columns.levels)
        name = id or columns.id
        separator = "\t" if delimiter == "\\t" else delimiter
        texts = [text for text in (columns.task, name) if text is not None]
        table = read_table(data, delimiter=separator, encoding=encoding, as_text=texts)
        if id is not None:
            require(table, [id], "--id")
        result = _predictions(fitted, columns, table, unknown_task, drop_missing, data)
        if name is not None and name in table.columns and len(result) == len(table):
            result.insert(0, name, table[name].to_numpy())
        empty = int(result["prediction"].isna().sum())
        if empty and not quiet:
            typer.echo(f"{empty} of {len(result)} rows have missing values: no prediction.", err=True)
        if out is not None:
            write_table(result, out)
        elif as_json:
            typer.echo(result.to_json(orient="records", indent=1))
        else:
            typer.echo(result.to_csv(index=False), nl=False)


def load(path: Path) -> tuple[Any, Columns]:
    """The model, and which columns it wants."""
    from ..model_files import load_model

    if not path.exists():
        raise InputError(f"{path} does not exist.")
    fitted = load_model(path)
    told = (getattr(fitted, "provenance_", None) or {}).get("user") or {}
    if isinstance(told, dict) and isinstance(told.get("columns"), dict):
        try:
            found = Columns(**told["columns"])
            return fitted, Columns(None, found.task, found.features, None, None, found.id, found.levels)
        except TypeError as error:
            raise InputError(f"{path}: what it says of its columns cannot be read ({error}).") from error
    column = fitted.task_column if isinstance(getattr(fitted, "task_column", None), str) else None
    return fitted, Columns(None, column, [str(name) for name in fitted.features_])


def _predictions(fitted: Any, columns: Columns, table: Any, unknown_task: str, drop_missing: bool, data: Path) -> Any:
    pd = pandas()
    absent = [name for name in columns.features if name not in table.columns]
    if absent:
        require(
            table, absent[:1], f"{data} lacks {len(absent)} of the model's features" if len(absent) > 1 else str(data)
        )
    if columns.task is None and fitted._form == "long":
        raise InputError("this model was fitted with task labels: name their column with --task.")
    if columns.task is not None:
        require(table, [columns.task], "--task")
    gone = missing(table, columns)
    if gone.any() and not drop_missing:
        raise InputError(
            f"{data}: {about_missing(table, columns)}. Fill them in, or use --drop-missing: no prediction for these rows."
        )
    kept = table[~gone]
    X = design(kept, Columns(None, None, columns.features, levels=columns.levels))
    X = X[[str(name) for name in fitted.features_]].to_numpy() if len(kept) else np.empty((0, len(fitted.features_)))
    coef, intercept = np.atleast_2d(fitted.coef_), np.atleast_1d(fitted.intercept_)
    if columns.task is None:  # every task for every row (one X for all), or the only one
        each = np.full((len(table), len(coef)), np.nan)
        each[~gone] = X @ coef.T + intercept
        return pd.DataFrame({"task": np.tile(_texts(fitted.tasks_), len(table)), "prediction": each.ravel()})
    text = np.asarray(labels(kept[columns.task]).astype(str))
    place = {str(label): i for i, label in enumerate(_texts(fitted.tasks_))}
    codes = np.array([place.get(name, -1) for name in text.tolist()], dtype=int)
    if unknown_task == "error" and (codes < 0).any():
        row = int(np.flatnonzero(~gone)[np.argmax(codes < 0)])
        from ..tables import names_of

        raise InputError(
            f"{data}: row {row + 1} has task {text[np.argmax(codes < 0)]!r}, which the model does not know; it knows "
            f"{names_of(place)}. Leave such rows out, or predict them with the mean coefficients: --unknown-task mean."
        )
    coef, intercept = (
        np.vstack([coef, coef.mean(axis=0)]),
        np.append(intercept, intercept.mean()),
    )  # the last is code -1
    values = np.full(len(table), np.nan)
    values[~gone] = np.einsum("nd,nd->n", X, coef[codes]) + intercept[codes]
    return pd.DataFrame({"task": table[columns.task].to_numpy(), "prediction": values})


def _texts(tasks: np.ndarray) -> list[str]:
    from .data import _label

    return [_label(label) for label in tasks.tolist()]


def inspect(
    model: ModelFile,
    coefficients: Annotated[
        Path | None,
        typer.Option("--coefficients", help="Write the sharing map and coefficients: CSV, Parquet or JSON."),
    ] = None,
    sql: Annotated[Path | None, typer.Option("--sql", help="Write one SQL expression per task.")] = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Say what a model file holds: parameters, what is shared, what is proven, where it came from."""
    with o.guard("inspect", quiet):
        from ..files import write_whole
        from .describing import describe, facts
        from .fitting import check_writable

        for path in (coefficients, sql):
            check_writable(path)
        fitted, _ = load(model)
        origin = getattr(fitted, "provenance_", None) or {}
        if coefficients is not None:
            write_table(_coefficients(fitted), coefficients)
        if sql is not None:
            from ..export import to_sql

            write_whole(sql, "".join(f"-- task {_comment(task)}\n{text}\n\n" for task, text in to_sql(fitted).items()))
        if as_json:
            typer.echo(json.dumps(facts(fitted) | {"provenance": origin}, indent=1))
        elif not quiet:
            typer.echo(describe(fitted))
            user = origin.get("user") or {}
            typer.echo(f"\nsaved {origin.get('saved')} by msmtfl {origin.get('versions', {}).get('msmtfl')}")
            for key in ("command", "data", "rows", "rows_dropped"):
                if key in user:
                    typer.echo(f"{key.replace('_', ' ')}: {user[key]}")


def _comment(text: Any) -> str:
    return str(text).replace("\n", " ").replace("\r", " ")


def _coefficients(fitted: Any) -> Any:
    """The sharing map with one more column per task."""
    from ..sharing import sharing_map

    frame = sharing_map(fitted).to_frame().reset_index(drop=True)
    for label, row in zip(fitted.tasks_.tolist(), np.atleast_2d(fitted.coef_), strict=True):
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
        from .fitting import check_writable

        check_writable(out)
        fitted, _ = load(model)
        user = (getattr(fitted, "provenance_", None) or {}).get("user") or {}
        write_report(fitted, out, title=title, command=user.get("command") if isinstance(user, dict) else None)
        if not quiet:
            typer.echo(f"report: {out}")
