"""Options that several commands share, and how every command ends: exit codes, errors and warnings on stderr."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from .data import InputError

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130

Data = Annotated[Path, typer.Argument(metavar="DATA", help="Table: CSV (also .gz, .bz2, .xz, .zst) or Parquet.")]
Target = Annotated[str, typer.Option("--target", "-y", metavar="COL", help="Column to predict.")]
Task = Annotated[str, typer.Option("--task", "-t", metavar="COL", help="Column that says the task.")]
Features = Annotated[
    str | None,
    typer.Option(
        "--features", "-x", metavar="COLS", help="Feature columns, a,b,c. Default: all that have no other role."
    ),
]
Exclude = Annotated[str | None, typer.Option("--exclude", metavar="COLS", help="Columns to leave out, a,b,c.")]
Weight = Annotated[str | None, typer.Option("--weight", metavar="COL", help="Column of weights of the rows.")]
Group = Annotated[
    str | None, typer.Option("--group", metavar="COL", help="Column: rows of a group (patient) stay in one fold.")
]
Id = Annotated[
    str | None, typer.Option("--id", metavar="COL", help="Column that names the rows: carried to the predictions.")
]
OneHot = Annotated[bool, typer.Option("--one-hot", help="Turn text columns into one 0/1 column per value.")]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows with missing values, and say how many.")
]
Delimiter = Annotated[str, typer.Option("--delimiter", help="Of a CSV file; \\t is a tab.")]
Encoding = Annotated[str, typer.Option("--encoding", help="Of a CSV file.")]
Standardize = Annotated[
    bool, typer.Option("--standardize/--no-standardize", help="Penalise columns as if scaled to standard deviation 1.")
]
Intercept = Annotated[bool, typer.Option("--intercept/--no-intercept", help="One intercept per task.")]
Folds = Annotated[int, typer.Option("--cv", min=2, help="Folds of cross-validation, stratified by task.")]
Seed = Annotated[int, typer.Option("--seed", help="Deals out the rows to folds.")]
Jobs = Annotated[int | None, typer.Option("--jobs", help="Threads; -1: all cores.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="The result as JSON on stdout, for programs.")]


def listed(text: str | None) -> list[str]:
    """a,b,c as a list; a name that holds a comma is quoted."""
    import csv

    return (
        []
        if text is None
        else [name.strip() for name in next(csv.reader([text], skipinitialspace=True)) if name.strip()]
    )


def talks(quiet: bool, as_json: bool) -> bool:
    """Whether a progress bar is wanted."""
    return not quiet and not as_json and sys.stderr.isatty()


@contextmanager
def guard(command: str, quiet: bool = False) -> Iterator[None]:
    """Errors end the command with a message and an exit code; warnings are a line each, and shown once."""
    said: set[str] = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        if not quiet and str(message) not in said:
            said.add(str(message))
            typer.echo(f"msmtfl {command}: warning: {message}", err=True)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield
    except (InputError, ValueError, TypeError) as error:
        typer.echo(f"msmtfl {command}: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read us has left: no message at exit
        raise typer.Exit(FAILED) from None
    except (OSError, ImportError, MemoryError) as error:
        what = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.strerror else str(error)
        typer.echo(f"msmtfl {command}: {what or 'not enough memory'}", err=True)
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt:
        typer.echo(f"\nmsmtfl {command}: stopped.", err=True)
        raise typer.Exit(INTERRUPTED) from None
