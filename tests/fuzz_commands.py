"""The command on random ugly tables: it works, or says in a line what is wrong; never a traceback.

    python tests/fuzz_commands.py                            # 300 commands
    python tests/fuzz_commands.py --count 5000 --seed 7      # others
    python tests/fuzz_commands.py --minutes 10 --count 0     # as many as ten minutes allow
    python tests/fuzz_commands.py --only 1234                # one of them once more: the table, and what was said

Tables are CSV with byte order marks, quotes, names twice or absent, empty and constant columns, mixed types, infinities,
huge numbers, tasks of one row, writing of all kinds, zero bytes, very long fields, missing values, line ends of all systems
or none at the end, lines too short or too long. Failures are
    an error     that is no exit code 0, 1 or 2, or whose message is not a line that begins with the command
    a warning    of numpy's or pandas', which says nothing to a user
    nonsense     a fit whose model does not predict the rows that it was fitted to, or not each of them once
    too long     more than SECONDS
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from msmtfl.cli import app

SECONDS = 30.0
FOREIGN = ("encountered in", "RuntimeWarning", "FutureWarning", "DtypeWarning", "PerformanceWarning", "pandas")
NAMES = (
    *("a", "b", "height (cm)", "ä ö", "名前", "=x", "a,b", 'q"q', " padded ", "x" * 300, "1", "nan", ""),
    *("\u202eabc", "t=1"),
)
LABELS = (
    *("north", "south", "7", "7.0", "007", "=1+1", "é", "", "NA", "nan", "x" * 500, "1e3", "True", 'a"b'),
    *("a\nb", "9" * 20),
)
VALUES = (
    *("1.5", "-2", "0", "1e300", "-1e308", "1e-320", "1e400", "inf", "-Infinity", "nan", "NA", "", " ", "1,5"),
    *("1.234,5", "0x10", "1_000", "TRUE", "yes", "2020-01-01", "'", '"', "=1+1", "9" * 40, "x" * 20_000, "\x00"),
    *("\x1b[2J", "½", "٣", "-"),
)
KINDS = (
    "normal",
    "normal",
    "normal",
    "scaled",
    "integers",
    "constant",
    "empty",
    "flags",
    "text",
    "ugly",
    "few ugly",
    "ids",
)
Y_KINDS = ("normal", "normal", "normal", "integers", "constant", "flags", "few ugly", "text", "scaled")


@dataclass
class Try:
    """One command on one table."""

    seed: int
    arguments: list[str] = field(default_factory=list)
    table: bytes = b""
    code: int = 0
    said: str = ""
    failures: list[str] = field(default_factory=list)


# ------------------------------------------------------------------ tables


def column(kind: str, n: int, rng: np.random.Generator) -> list[str]:
    """n entries as text."""
    if kind == "scaled":
        return [repr(float(one)) for one in 10.0 ** rng.uniform(-200, 200) * rng.standard_normal(n)]
    if kind == "integers":
        return [str(one) for one in rng.integers(-5, 10 ** int(rng.integers(1, 19)), n).tolist()]
    if kind == "constant":
        return [str(rng.choice(["1", "0", "-3.5", "1e6", "x"]))] * n
    if kind == "empty":
        return [""] * n
    if kind == "flags":
        return [str(one) for one in rng.choice(["0", "1"], n)]
    if kind == "text":
        return [str(one) for one in rng.choice(LABELS, n)]
    if kind == "ids":
        return [f"id{k}" for k in range(n)]
    out = [f"{one:.6g}" for one in rng.standard_normal(n).tolist()]
    share = {"ugly": 0.7, "few ugly": 0.03}.get(kind, 0.0)
    return [str(rng.choice(VALUES)) if rng.random() < share else one for one in out]


def make_table(rng: np.random.Generator) -> tuple[bytes, list[str]]:
    """The file, and the options that it takes to read it. Half of the tables are nearly as they should be."""
    ugly = rng.random() < 0.5
    n, d, m = (
        int(rng.choice([0, 1, 2, 5, 20, 60])) if ugly else 60,
        int(rng.integers(not ugly, 6)),
        int(rng.integers(1, 5)),
    )
    names = [str(one) for one in rng.choice(NAMES, d, replace=bool(rng.random() < 0.1))]
    if not ugly or rng.random() < 0.5:
        names = [f"x{j}" for j in range(d)]
    columns = [column(str(rng.choice(KINDS if rng.random() < 0.3 else KINDS[:3])), n, rng) for _ in names]
    labels = rng.choice(LABELS if ugly else LABELS[:3], m)
    y_kind = str(rng.choice(Y_KINDS if ugly else Y_KINDS[:6]))
    columns += [[str(one) for one in rng.choice(labels, n)], column(y_kind, n, rng)]
    names += ["town", "y"]
    if rng.random() < 0.2:
        names.append("w")
        columns.append([str(one) for one in rng.choice(["1", "0", "2.5", "-1" if rng.random() < 0.2 else "1"], n)])
    order = rng.permutation(len(names)) if rng.random() < 0.5 else np.arange(len(names))
    lines = [[names[j] for j in order], *([columns[j][i] for j in order] for i in range(n))]
    if ugly and rng.random() < 0.1 and n:
        lines[int(rng.integers(n)) + 1].append("more")
    if ugly and rng.random() < 0.1 and n:
        del lines[int(rng.integers(n)) + 1][-1]
    if ugly and rng.random() < 0.1:
        lines.insert(int(rng.integers(len(lines) + 1)), [])
    return as_bytes(lines, rng)


def as_bytes(lines: list[list[str]], rng: np.random.Generator) -> tuple[bytes, list[str]]:
    text = io.StringIO()
    end = str(rng.choice(["\n", "\n", "\r\n", "\r"]))
    mark = str(rng.choice([",", ",", ",", ";", "\t"]))
    quoting = csv.QUOTE_ALL if rng.random() < 0.2 else csv.QUOTE_MINIMAL
    csv.writer(text, delimiter=mark, lineterminator=end, quoting=quoting).writerows(lines)
    out = text.getvalue()
    if rng.random() < 0.2:
        out = out.rstrip("\r\n")
    encoding = str(rng.choice(["utf-8", "utf-8", "utf-8", "utf-8-sig", "latin-1", "utf-16"]))
    data = out.encode(encoding, "replace")
    if rng.random() < 0.05 and data:  # damage
        at = int(rng.integers(len(data)))
        data = data[:at] + bytes(rng.integers(0, 256, 3, dtype=np.uint8)) + data[at:]
    if rng.random() < 0.1:
        mark, encoding = str(rng.choice([";", "|", ",,"])), str(rng.choice(["utf-8", "cp1252", "klingon"]))
    options = [] if mark == "," else ["--delimiter", mark.replace("\t", "\\t")]
    return data, options + ([] if encoding == "utf-8" else ["--encoding", encoding])


# ------------------------------------------------------------------ commands


def make_arguments(rng: np.random.Generator, data: Path, model: Path, reading: list[str]) -> list[str]:
    roles = [str(data), "--target", "y", "--task", "town"]
    for chance, more in (
        (0.5, ["--one-hot"]),
        (0.6, ["--drop-missing"]),
        (0.2, ["--impute", str(rng.choice(["mean", "median", "mode"]))]),
        (0.05, ["--weight", "w"]),
        (0.05, ["--exclude", str(rng.choice([*NAMES, "x0"]))]),
        (0.05, ["--features", "x0,x1"]),
        (0.05, ["--id", str(rng.choice(["x0", "town", "y"]))]),
        (0.1, ["--no-standardize"]),
    ):
        if rng.random() < chance:
            roles += more
    roles += reading + (["--decimal", ","] if rng.random() < 0.05 else [])
    kind = rng.random()
    if kind < 0.6:
        name = str(rng.choice(["lasso", "msmtfl", "bi-level", "l12", "shared", "classifier"]))
        strength = ["--lam", str(rng.choice(["0.1", "1e-6", "1e3"]))] if name != "shared" else ["--cv", "2"]
        return ["fit", *roles, "--model", name, *strength, "--out", str(model)]
    if kind < 0.7:
        return ["surface", *roles, "--lams", "3"]
    if kind < 0.8:
        return ["compare", *roles, "--models", "ridge per task,pooled ridge", "--cv", "2"]
    return ["predict", str(model), str(data), *reading, *(["--drop-missing"] if rng.random() < 0.6 else [])]


def invoke(arguments: list[str]) -> tuple[Any, float]:
    began = time.perf_counter()
    result = CliRunner().invoke(app, arguments)
    return result, time.perf_counter() - began


def check(found: Try, result: Any, seconds: float) -> None:
    found.code, found.said = result.exit_code, result.stderr
    command, last = found.arguments[0], (result.stderr.splitlines() or [""])[-1]
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        found.failures.append("an error: " + "".join(traceback.format_exception(result.exception))[-1500:])
    elif result.exit_code not in (0, 1, 2):
        found.failures.append(f"an error: exit code {result.exit_code}")
    elif result.exit_code and not (last.startswith(f"msmtfl {command}: ") and last.endswith((".", "!", ")"))):
        found.failures.append(f"an error: no message in a line: {last[-300:]!r}")
    elif result.exit_code and result.stdout:
        found.failures.append("an error: with something on stdout")
    for words in FOREIGN:
        if words in result.stderr:
            found.failures.append(f"a warning: {last[-300:]!r}")
    if seconds > SECONDS:
        found.failures.append(f"too long: {seconds:.0f} s")


def check_model(found: Try, model: Path, out: Path) -> None:
    """What was fitted predicts the rows that it was fitted to, each once."""
    reading = ("--delimiter", "--encoding", "--decimal")
    options = [one for k, one in enumerate(found.arguments) if one in reading or found.arguments[k - 1] in reading]
    again, seconds = invoke(["predict", str(model), found.arguments[1], "--drop-missing", "--out", str(out), *options])
    if again.exit_code != 0 or again.exception is not None:
        found.failures.append(f"nonsense: fitted, but not predicted: {again.stderr[-300:]!r} {again.exception!r}")
    elif seconds > SECONDS:
        found.failures.append(f"too long: {seconds:.0f} s")


def run(seed: int, folder: Path) -> Try:
    rng = np.random.default_rng(seed)
    table, reading = make_table(rng)
    found, data, model = Try(seed, table=table), folder / f"t{seed}.csv", folder / f"m{seed}.msmtfl"
    data.write_bytes(table)
    found.arguments = make_arguments(rng, data, model, reading)
    if found.arguments[0] == "predict":
        rows = "".join(f"{k},{LABELS[k % 3]},{k}\n" for k in range(20))
        (folder / "plain.csv").write_text("x0,town,y\n" + rows)
        plain = ["fit", str(folder / "plain.csv"), "-y", "y", "-t", "town", "--lam", "0.1", "--out", str(model)]
        assert invoke(plain)[0].exit_code == 0
    check(found, *invoke(found.arguments))
    if found.arguments[0] == "fit" and found.code == 0:
        check_model(found, model, folder / "p.csv")
    for path in (data, model):
        path.unlink(missing_ok=True)
    return found


def fuzz(count: int, minutes: float, seed: int, tell: Any) -> tuple[Counter[str], list[Try]]:
    """As many as are wanted, or as there is time for; how they ended, and those that failed."""
    outcomes: Counter[str] = Counter()
    bad, began, k = [], time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        while (not count or k < count) and (not minutes or time.monotonic() - began < 60 * minutes):
            found = run(seed + k, Path(folder))
            outcomes[f"{found.arguments[0]}: {'done' if found.code == 0 else 'refused'}"] += 1
            if found.failures:
                bad.append(found)
                tell(f"{found.seed}: {' '.join(found.arguments)}\n  " + "\n  ".join(found.failures))
            k += 1
    return outcomes, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="how many; 0: as many as there is time for")
    parser.add_argument("--minutes", type=float, default=0.0, help="no more than this; 0: no limit")
    parser.add_argument("--seed", type=int, default=0, help="of the first; the next have those that follow")
    parser.add_argument("--only", type=int, help="the command of this seed, its table and what it said")
    arguments = parser.parse_args()
    write = sys.stdout.write
    if arguments.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            found = run(arguments.only, Path(folder))
        write(f"{found.table[:3000]!r}\n{' '.join(found.arguments)}\n{found.code}\n{found.said}\n")
        write("\n".join(found.failures) + "\n")
        return bool(found.failures)
    if not arguments.count and not arguments.minutes:
        parser.error("give --count, --minutes or both")
    outcomes, bad = fuzz(arguments.count, arguments.minutes, arguments.seed, lambda line: write(line + "\n"))
    for name, value in sorted(outcomes.items()):
        write(f"{value:>10,}  {name}\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
