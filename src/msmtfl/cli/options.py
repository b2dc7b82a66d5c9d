"""Options that several commands share, and how every command ends: exit codes, errors and warnings on stderr."""

from __future__ import annotations

import _thread
import csv
import os
import re
import shutil
import signal
import sys
import tempfile
import textwrap
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from .._runtime.text.printable import printable_lines
from .inputs.data import InputError, Note

NO_MEMORY = "not enough memory. `msmtfl fit` reads Parquet files in batches where they are too large: write it so."
BAD_INPUT, FAILED, INTERRUPTED, TERMINATED = 2, 1, 130, 143
OPTIONS = {  # what parameters are called here, in messages
    "n_splits=": "--cv ",
    "n_jobs must": "--jobs must",
    "l1_ratio must": "--l1-ratio must",
    "groups='identical'": "--group-identical",
    "intercepts='shrunk'": "--intercepts shrunk",
    "give groups=, a label of the unit per row": "name the column of units with --group",
    "compare_models(..., leave_one_task_out=True) estimates it": "`msmtfl compare --leave-one-task-out` estimates it",
}

Data = Annotated[
    list[Path],
    typer.Argument(
        metavar="DATA...",
        help="Table: CSV (also .gz, .bz2, .xz, .zst), .parquet, .feather, .jsonl or .xlsx; several files, a folder of them "
        "or a pattern ('scores-*.csv') are one table; - is CSV from standard input. Parquet is read fastest.",
    ),
]
Target = Annotated[str, typer.Option("--target", "-y", metavar="COL", help="Column to predict.")]
MaybeTarget = Annotated[
    str | None, typer.Option("--target", "-y", metavar="COL", help="Column to predict (with --loss cox: see --time).")
]
Time = Annotated[
    str | None, typer.Option("--time", metavar="COL", help="With --loss cox: column of times until an event.")
]
Event = Annotated[
    str | None,
    typer.Option("--event", metavar="COL", help="With --loss cox: column that is 1 if the event was observed, else 0."),
]
Task = Annotated[
    str,
    typer.Option(
        "--task",
        "-t",
        metavar="COL",
        help="Column that identifies the task; of tasks with levels COL,COL (region,school).",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        "--features", "-x", metavar="COLS", help="Feature columns, a,b,c. Default: all that have no other role."
    ),
]
Exclude = Annotated[str | None, typer.Option("--exclude", metavar="COLS", help="Columns to leave out, a,b,c.")]
Weight = Annotated[str | None, typer.Option("--weight", metavar="COL", help="Column of weights of the rows.")]
Offset = Annotated[
    str | None,
    typer.Option(
        "--offset", metavar="COL", help="Column that is added to the linear predictor as it is: never a feature."
    ),
]
Exposure = Annotated[
    str | None,
    typer.Option(
        "--exposure",
        metavar="COL",
        help="Column > 0 (person-years, area) whose logarithm is the offset: with --loss poisson a model of rates.",
    ),
]
Group = Annotated[
    str | None, typer.Option("--group", metavar="COL", help="Column: rows of a group (patient) stay in one fold.")
]
GroupIdentical = Annotated[
    bool, typer.Option("--group-identical", help="Rows with the same features, of any task, stay in one fold.")
]
Id = Annotated[
    str | None,
    typer.Option("--id", metavar="COL", help="Column that names the rows: never a feature, carried to predictions."),
]
OneHot = Annotated[bool, typer.Option("--one-hot", help="Turn text columns into one 0/1 column per value.")]
OneHotGroups = Annotated[
    bool,
    typer.Option(
        "--one-hot-groups", help="The columns that --one-hot makes of one column enter or leave the model together."
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--groups",
        metavar="NAME=COLS",
        help="Columns that enter or leave the model together: size=width,height; repeat.",
    ),
]
Positive = Annotated[bool, typer.Option("--positive", help="No coefficient is below 0.")]
Bounds = Annotated[
    str | None,
    typer.Option(
        "--bounds",
        metavar="BOUNDS",
        help="LOW:HIGH of all coefficients, or of those of columns: age=0:,price=:0,width=-1:1.",
    ),
]
MissingLevel = Annotated[
    bool, typer.Option("--missing-level", help="With --one-hot: missing values of text columns are a category.")
]
DropMissing = Annotated[
    bool,
    typer.Option("--drop-missing", help="Leave out rows with missing values (empty, NA, nan, null), and say how many."),
]
Impute = Annotated[
    str | None,
    typer.Option(
        "--impute",
        metavar="HOW",
        help="mean or median: fill what is missing in features of numbers, by that of their column. Kept in the model file.",
    ),
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", help="Of a CSV file; \\t is a tab. Default: as its first lines look.")
]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Of a CSV file. Default: UTF-8, else as it looks.")]
DecimalMark = Annotated[
    str | None, typer.Option("--decimal", help="Decimal mark of a CSV file, . or a comma. Default: as it looks.")
]
MinRows = Annotated[
    int | None, typer.Option("--min-rows", min=1, help="Leave out tasks with fewer rows, and say which.")
]
Standardize = Annotated[
    bool, typer.Option("--standardize/--no-standardize", help="Penalise columns as if scaled to standard deviation 1.")
]
Intercept = Annotated[bool, typer.Option("--intercept/--no-intercept", help="One intercept per task.")]
Intercepts = Annotated[
    str,
    typer.Option(
        "--intercepts",
        metavar="HOW",
        help="task: each task's own; shrunk: drawn to a common level (random intercepts), which also fits tasks of one row "
        "or class; common: one for all tasks.",
    ),
]
Folds = Annotated[int, typer.Option("--cv", min=2, help="Folds of cross-validation, stratified by task.")]
MaybeFolds = Annotated[
    int | None, typer.Option("--cv", min=2, help="Folds of cross-validation, stratified by task. Default: 5.")
]
Nested = Annotated[
    bool,
    typer.Option(
        "--nested",
        help="Every model chooses its parameters anew within the training rows of each fold: slower by about as many times.",
    ),
]
MaybeSeed = Annotated[int | None, typer.Option("--seed", help="Deals out the rows to folds. Default: 0.")]
Seed = Annotated[int, typer.Option("--seed", help="Deals out the rows to folds.")]
Jobs = Annotated[int | None, typer.Option("--jobs", help="Threads; -1: all cores.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only errors.")]
Formulas = Annotated[
    bool,
    typer.Option(
        "--formulas",
        help="Write text to CSV as it is, also if it begins with =, +, - or @, which spreadsheets take for a formula. "
        "Default: an apostrophe before it.",
    ),
]
Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Parquet files: read them in batches, as is done by itself where they are too large for memory.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="The result as JSON on stdout, for programs.")]


def listed(text: str | None) -> list[str]:
    """a,b,c as a list; a name that holds a comma is quoted."""
    if not text:
        return []
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True)) if name.strip()]


def talks(quiet: bool, as_json: bool) -> bool:
    """Whether progress is to be shown: a bar on a terminal, a line now and then in a log."""
    return not quiet and not as_json


# ------------------------------------------------------------------ output


def file_or_stdout(path: Path | None) -> Path | None:
    """The file to write; None, standard output, if it is - or nothing is given."""
    return None if path is None or str(path) == "-" else path


def check_outputs(paths: Iterable[Path | None], *inputs: Path) -> None:
    """Before the work: can the files be written, and is none of them another, or one that is read?"""
    given = [path for path in paths if path is not None]
    for k, path in enumerate(given):
        _check_output(path, *inputs)
        if path.resolve() in [other.resolve() for other in given[:k]]:
            raise InputError(f"{path} is to be written twice; give two names.")


def _check_output(path: Path, *inputs: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file.")
    if path.exists() and not path.is_file():  # it would be replaced by a file
        raise InputError(f"{path} is a device or a pipe, not a file; give the name of a file.")
    if any(path.exists() and given.exists() and path.samefile(given) for given in inputs):
        raise InputError(f"{path} is an input of this command and would be overwritten; give another name.")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}.")
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise InputError(f"{path}: the folder {path.parent} cannot be written to ({error.strerror}).") from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of the system name the file that was to be written."""
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror or error}; the file was not written"
        raise OSError(error.errno, reason, str(path)) from error


def save(path: Path, content: str | bytes) -> None:
    from .._runtime.files import write_whole

    with writing(path):
        write_whole(path, content)


def fitted(text: str, stream: Any) -> str:
    """Lines that are too long for a terminal are broken between words; what goes elsewhere stays as it is."""
    if not stream.isatty():
        return text
    width = max(shutil.get_terminal_size().columns, NARROW)
    return "\n".join(_broken(line, width) for line in text.split("\n"))


def _broken(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    after = f"{indent}  " if indent else ""  # what goes on is further in than what begins
    how: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False, "subsequent_indent": after}
    return textwrap.fill(line, width, **how)


def tell(text: str) -> None:
    """To stderr, for people."""
    typer.echo(fitted(printable_lines(text), sys.stderr), err=True)


def emit(text: str, data: bool = False) -> None:
    """To stdout, in UTF-8 and to the last byte: an unbuffered stdout may take a part only, without an error. Text for people
    is made printable; `data` for programs stay as they are, unless they go to a terminal."""
    if not data or sys.stdout.isatty():
        text = printable_lines(text)
        text = text if data else fitted(text, sys.stdout)
    rest = memoryview(text.encode("utf-8", "surrogateescape"))
    try:
        sys.stdout.flush()
        while rest:
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more at exit
        if isinstance(error, BrokenPipeError):
            raise
        raise OSError(error.errno, error.strerror, "stdout") from error


# ------------------------------------------------------------------ how a command ends


NARROW = 40  # letters of a line, however narrow the terminal
RETRY = 0.01  # seconds until an interruption that was ignored comes again


class Terminated(KeyboardInterrupt):
    """Somebody asked the process to end."""


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends what is within as Ctrl-C does, so that nothing unfinished is left behind. An interruption that arrives
    while Python clears something away (in a destructor or the callback of a weak reference) is ignored there: it comes again
    a moment later."""

    again: list[threading.Timer] = []

    def end(*_: Any) -> None:
        raise Terminated

    def ignored(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            report(unraisable)
            return
        number = signal.SIGTERM if issubclass(unraisable.exc_type, Terminated) else signal.SIGINT
        again.append(threading.Timer(RETRY, _interrupt_main, [number]))
        again[-1].daemon = True
        again[-1].start()

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread
        yield
        return
    report, sys.unraisablehook = sys.unraisablehook, ignored
    try:
        yield
    finally:
        sys.unraisablehook = report
        for timer in again:
            timer.cancel()
        signal.signal(signal.SIGTERM, before)


def _interrupt_main(number: signal.Signals) -> None:
    """The signal in the main thread, so that it does not go on sleeping or waiting."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        _thread.interrupt_main(number)


@contextmanager
def guard(command: str, quiet: bool = False) -> Iterator[None]:
    """Errors end the command with a message and an exit code; warnings are a line each, and shown once."""
    said: set[str] = set()
    _numbers.clear()

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        text = _in_options(_renumbered(str(message)))
        if not quiet and text not in said:
            said.add(text)
            tell(text if issubclass(category, Note) else f"msmtfl {command}: warning: {text}")

    try:
        with _terminable(), warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield
    except (InputError, ValueError, TypeError) as error:
        text = str(error) if isinstance(error, InputError) else _renumbered(str(error))
        tell(f"msmtfl {command}: {_in_options(text)}")
        raise typer.Exit(BAD_INPUT) from error
    except BrokenPipeError:  # whoever read us has left: no message
        raise typer.Exit(FAILED) from None
    except (OSError, ImportError, MemoryError) as error:
        what = f"{error.filename}: {error.strerror}." if isinstance(error, OSError) and error.filename else str(error)
        tell(f"msmtfl {command}: {what or NO_MEMORY}")
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt as error:
        tell(f"\nmsmtfl {command}: stopped.")
        raise typer.Exit(TERMINATED if isinstance(error, Terminated) else INTERRUPTED) from None


_numbers: list[Any] = []  # at most one index: of the rows that a model was given


def number_rows(index: Any) -> None:
    """Say which rows of the table, counted from 0, are given to a model: its errors count them from 0, the command counts
    those of the table from 1."""
    _numbers[:] = [index]


def _renumbered(message: str) -> str:
    def number(match: re.Match[str]) -> str:
        place, index = int(match[1]), _numbers[0]
        return f"row {int(index[place]) + 1}" if place < len(index) else match[0]

    return re.sub(r"\brow (\d+)\b", number, message) if _numbers else message


def _in_options(message: str) -> str:
    """What the parameters of the estimators are called here."""
    for name, option in OPTIONS.items():
        message = message.replace(name, option)
    return message
