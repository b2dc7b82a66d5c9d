"""Damaged files: every reader refuses them in words, or reads what was written.

    python benchmarks/studies/fuzz_files.py                              # 20,000 files, at most 30 minutes
    python benchmarks/studies/fuzz_files.py --count 500 --seed 7
    python benchmarks/studies/fuzz_files.py --only "bytes of a model" --replay 7:123   # one case again, with its traceback

Two kinds of damage. To bytes: bits flipped, pieces cut out, doubled, zeroed or moved, as by disks and networks; a file
that is read all the same must hold the numbers that were written. To content: entries replaced by others, arrays changed,
everything packed anew with correct checksums, as by somebody who wants to deceive; what is read must then be usable (it
predicts, is described, can be saved) and, of statistics, be such as rows can have. A reader may raise ValueError, with the
name of the file in it, and nothing else; it may take seconds, and memory in proportion to the file.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import signal
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from msmtfl import MSMTFL, MSMTFLCV, DirtyMTL, LassoMTL, Moments, MSMTFLClassifier, SharedMTLCV
from msmtfl._estimators.baselines.ridge import RidgePerTaskCV
from msmtfl.cli.describing import describe, facts
from msmtfl.cli.inputs.data import InputError
from msmtfl.cli.inputs.table_files import read_table
from msmtfl.cli.models import load
from msmtfl.export import to_sql
from msmtfl.model_files import load_model, save_model
from msmtfl.model_files.files import checksum
from msmtfl.sharing import sharing_map

SECONDS = 20  # that a reader may take
MEMORY = 64  # bytes that it may take for every byte of the file, beside a few megabytes
JUNK: list[Any] = [
    *(None, True, False, 0, 1, -1, 2**63, 10**30, 0.5, -1e308, 5e-324, "", "x", "nan", "\x1b[2J", "a" * 10_000),
    *([], {}, [[]], [None], {"a": 1}, [1, "a", None], {"float": "nan"}, {"float": "inf"}, {"tuple": []}, {"dict": {}}),
    *({"array": {}}, {"array": {"dtype": "float64", "shape": [2], "values": [1.0, 2.0]}}, {"cells": 3}, {"shape": {}}),
    {"array": {"dtype": "float64", "shape": [10**12], "values": []}},
    {"array": {"dtype": "str", "shape": [1], "values": ["\udc80"]}},
    {"sparse": {"shape": [10**6, 10**6], "at": [], "values": []}},
]


class UnsoundError(AssertionError):
    """A reader that did what it must not."""


# ------------------------------------------------------------------ good files


def rows(n: int = 60) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((n, 5)), columns=[f"f{j}" for j in range(5)])
    X["town"] = np.tile(["north", "south", "7"], n // 3)
    return X, (2 * X["f0"] - X["f1"]).to_numpy() + 0.3 * rng.standard_normal(n)


def models() -> list[Any]:
    X, y = rows()
    classes = np.digitize(y, [-0.5, 0.5])
    common = {"task_column": "town"}
    numbers = [
        MSMTFL(lam=0.1, **common),
        MSMTFLCV(lams=3, cv=2, **common),
        LassoMTL(lam=0.1, **common),
        DirtyMTL(0.1, 0.2, **common),
        SharedMTLCV(cv=2, **common),
        RidgePerTaskCV(cv=2, **common),
    ]
    out = [model.fit(X, y) for model in numbers]
    out.append(MSMTFLClassifier(lam=0.05, **common).fit(X, classes > 0))
    out.append(MSMTFLClassifier(lam=0.05, **common).fit(X, classes))
    return [
        *out,
        MSMTFL(lam=0.1).fit(X[["f0", "f1"]], y),
        MSMTFL(lam=0.1).fit(X[["f0", "f1"]], np.column_stack([y, -y])),
    ]


@dataclass
class Good:
    """Files as they are written, by kind."""

    models: list[Any]
    archives: list[bytes]
    documents: list[bytes]
    moments: list[Moments]
    statistics: list[bytes]
    csv: list[bytes]
    parquet: list[bytes]

    @staticmethod
    def make(folder: Path) -> Good:
        X, y = rows()
        known = models()
        archives, documents = [], []
        for model in known:
            for name, into in (("m.msmtfl", archives), ("m.json", documents)):
                save_model(model, folder / name, provenance={"note": "good"})
                into.append((folder / name).read_bytes())
        long = Moments().update(X[:30], y[:30], task_column="town")
        long.update(X[30:], y[30:], task_column="town", sample_weight=np.linspace(0.5, 2.0, 30))
        plain = X[["f0", "f1"]]
        moments = [long, Moments().update(plain, y), Moments().update(plain, np.column_stack([y, -y]))]
        statistics = []
        for one in moments:
            one.save(folder / "s.npz")
            statistics.append((folder / "s.npz").read_bytes())
        table = X.assign(y=y, id=[f"r{i}" for i in range(len(y))])
        buffer = io.BytesIO()
        table.to_parquet(buffer, index=False)
        texts = [table.to_csv(index=False).encode()]
        return Good(known, archives, documents, moments, statistics, texts, [buffer.getvalue()])


# ------------------------------------------------------------------ damage


def damaged_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """One to three kinds of damage to bytes."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        if not out:
            break
        low, high = sorted(rng.integers(0, len(out) + 1, 2).tolist())
        high = min(high, low + int(rng.integers(1, 200)))
        at, piece = int(rng.integers(0, len(out))), out[low:high]
        match int(rng.integers(0, 9)):
            case 0:
                out[at] ^= 1 << int(rng.integers(0, 8))
            case 1:
                out[at] = int(rng.integers(0, 256))
            case 2:
                del out[low:high]
            case 3:
                out[at:at] = piece
            case 4:
                out[low:high] = bytes(len(piece))
            case 5:
                del out[at:]
            case 6:
                out[at : at + len(piece)] = piece
            case 7:
                out[at:at] = rng.bytes(int(rng.integers(1, 50)))
            case _:  # a digit becomes another: the damage that looks most like data
                digits = [i for i in range(low, high) if 48 <= out[i] < 58]
                if digits:
                    out[int(rng.choice(digits))] = int(rng.integers(48, 58))
    return bytes(out)


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inside = node.items() if isinstance(node, dict) else enumerate(node[:20]) if isinstance(node, list) else ()
    for key, one in inside:
        yield from places(one, (*path, key))


def damaged_document(document: Any, rng: np.random.Generator) -> Any:
    """A JSON document with some of its entries replaced, removed, added or exchanged."""
    document = copy.deepcopy(document)
    for _ in range(int(rng.integers(1, 4))):
        every = list(places(document))
        if not every:
            break
        *way, last = every[int(rng.integers(0, len(every)))]
        parent = document
        for key in way:
            parent = parent[key]
        value = parent[last]
        other = copy.deepcopy(JUNK[int(rng.integers(0, len(JUNK)))])
        match int(rng.integers(0, 6)):
            case 0 | 1:
                parent[last] = other
            case 2 if isinstance(parent, dict):
                del parent[last]
            case 3 if isinstance(parent, dict):
                parent[str(rng.choice(["x_", "predict", "coef_", "__class__", "_form"]))] = other
            case 4 if isinstance(value, int | float) and not isinstance(value, bool):
                parent[last] = value * float(rng.choice([-1, 0, 2, 1e300, 0.5])) + float(rng.choice([0, 1, 1e-9]))
            case _:
                *way, last_other = every[int(rng.integers(0, len(every)))]
                source = document
                try:
                    for key in (*way, last_other):
                        source = source[key]
                except (KeyError, IndexError, TypeError):
                    continue
                parent[last] = copy.deepcopy(source)
    return document


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: dict[str, bytes], rng: np.random.Generator) -> bytes:
    file = io.BytesIO()
    how = zipfile.ZIP_DEFLATED if rng.random() < 0.05 else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=how)
    return file.getvalue()


def damaged_array(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers that are others, or of another kind or shape."""
    out = np.array(values)
    at = tuple(int(rng.integers(0, size)) for size in out.shape) if out.size else None
    match int(rng.integers(0, 12)):
        case 0:
            return -out if out.dtype.kind in "if" else out[::-1]
        case 1 if out.dtype.kind in "if":
            return out * rng.choice([0, 2, 1e150, 1e-3])
        case 2 if at is not None and out.dtype.kind == "f":
            out[at] = rng.choice([np.nan, np.inf, 1e308, -1.0, 0.0, 1e-320])
        case 3 if at is not None and out.dtype.kind in "if":
            out[at] = out[at] * rng.choice([-1, 2, 10])
        case 4:
            return out.astype(str) if rng.random() < 0.5 else out.astype(object)
        case 5 if out.dtype.kind in "if":
            return out.astype(rng.choice(["f4", "i4", ">f8", "?", "c16"]))
        case 6:
            return out[:-1] if out.ndim and len(out) else out[None]
        case 7:
            return out.ravel()
        case 8 if out.ndim > 1:
            return np.asfortranarray(rng.permutation(out, axis=int(rng.integers(0, out.ndim))))
        case 9 if out.ndim:
            return np.repeat(out, 2, axis=int(rng.integers(0, out.ndim)))
        case 10 if out.dtype.kind == "f":
            return out + rng.standard_normal(out.shape)
        case _ if out.dtype.kind in "if" and out.ndim:
            return rng.permutation(out)
    return out


def npy(values: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, values, allow_pickle=True)
    return file.getvalue()


# ------------------------------------------------------------------ what is tried


def bytes_of_a_model(good: Good, folder: Path, rng: np.random.Generator) -> str:
    """Archives and documents with damaged bytes."""
    k, alone = int(rng.integers(0, len(good.models))), bool(rng.integers(0, 2))
    path = folder / ("model.json" if alone else "model.msmtfl")
    path.write_bytes(damaged_bytes((good.documents if alone else good.archives)[k], rng))
    model = read(lambda: load_model(path), path)
    if model is None:
        return "refused"
    for name in ("coef_", "intercept_", "tasks_", "features_"):
        if not np.array_equal(getattr(model, name), getattr(good.models[k], name)):
            raise UnsoundError(f"read with another {name}")
    use(model, path)
    return "read as written"


def content_of_a_model(good: Good, folder: Path, rng: np.random.Generator) -> str:
    """Archives and documents with other entries, and checksums to match."""
    k, alone = int(rng.integers(0, len(good.models))), bool(rng.integers(0, 2))
    path = folder / ("model.json" if alone else "model.msmtfl")
    if alone:
        document = damaged_document(json.loads(good.documents[k]), rng)
        if isinstance(document, dict) and "checksum" in document:
            document["checksum"] = checksum(document)
        path.write_bytes(json.dumps(document).encode())
    else:
        members = members_of(good.archives[k])
        if rng.random() < 0.3 and len(members) > 1:
            name = str(rng.choice([name for name in members if name.endswith(".npy")]))
            members[name] = npy(damaged_array(np.load(io.BytesIO(members[name])), rng))
        else:
            members["model.json"] = json.dumps(damaged_document(json.loads(members["model.json"]), rng)).encode()
        path.write_bytes(packed(members, rng))
    model = read(lambda: load_model(path), path)
    if model is None:
        return "refused"
    use(model, path)
    return "usable"


def bytes_of_statistics(good: Good, folder: Path, rng: np.random.Generator) -> str:
    k, path = int(rng.integers(0, len(good.moments))), folder / "sums.npz"
    path.write_bytes(damaged_bytes(good.statistics[k], rng))
    found = read(lambda: Moments.load(path), path)
    if found is None:
        return "refused"
    written = good.moments[k]
    for label in written.tasks.tolist():
        for name in ("rows", "n", "mean", "y_mean", "xx", "xy", "yy"):
            if not np.array_equal(getattr(found[label], name), getattr(written[label], name)):
                raise UnsoundError(f"read with another {name}")
    return "read as written"


def content_of_statistics(good: Good, folder: Path, rng: np.random.Generator) -> str:
    k, path = int(rng.integers(0, len(good.moments))), folder / "sums.npz"
    members = members_of(good.statistics[k])
    name = str(rng.choice(sorted(members)))
    if name == "head.npy":
        head = damaged_document(json.loads(str(np.load(io.BytesIO(members[name])))), rng)
        members[name] = npy(np.array(json.dumps(head)))
    else:
        members[name] = npy(damaged_array(np.load(io.BytesIO(members[name])), rng))
    path.write_bytes(packed(members, rng))
    found = read(lambda: Moments.load(path), path)
    if found is None:
        return "refused"
    possible(found)
    if len(found):
        with allowed(ValueError, "fit_moments"):
            model = LassoMTL().fit_moments(found)
            finite(model.coef_)
    with allowed(ValueError, "a sum"):
        found + found
    found.disclosure()
    found.save(folder / "again.npz")
    Moments.load(folder / "again.npz")
    return "usable"


def possible(found: Moments) -> None:
    """Every direction has a sum of squares that is not negative, and an intercept and sums a model can come from."""
    if len(set(found.tasks.tolist())) != len(found):
        raise UnsoundError("a task was lost")
    for label in found.tasks.tolist():
        task = found[label]
        every = np.block([[task.xx, task.xy[:, None]], [task.xy, np.array([[task.yy]])]])
        if not np.allclose(every, every.T, rtol=1e-6) or task.rows < 1 or not task.n > 0:
            raise UnsoundError("sums that differ with their order, or no rows")
        size = np.sqrt(np.maximum(every.diagonal(), 0.0)) + 1e-12 * np.sqrt(task.n) * np.abs([*task.mean, task.y_mean])
        size = np.where(size > 0, size, 1.0)
        if np.linalg.eigvalsh(every / np.outer(size, size)).min() < -1e-6:
            raise UnsoundError("a negative sum of squares")


def bytes_of_a_table(good: Good, folder: Path, rng: np.random.Generator) -> str:
    """CSV, packed or not, and Parquet."""
    kind = str(rng.choice(["csv", "csv.gz", "parquet"]))
    path = folder / f"table.{kind}"
    if kind == "csv.gz":
        import gzip

        path.write_bytes(damaged_bytes(gzip.compress(good.csv[0], mtime=0), rng))
    else:
        path.write_bytes(damaged_bytes((good.csv if kind == "csv" else good.parquet)[0], rng))
    try:
        table = read_table([path], decimal="." if kind == "parquet" or rng.random() < 0.7 else ",", as_text=["town"])
    except InputError:
        return "refused"
    if not len(table) or len(set(table.columns)) != len(table.columns):
        raise UnsoundError("a table without rows, or with a name twice")
    return "read"


def bytes_of_a_stream(good: Good, folder: Path, rng: np.random.Generator) -> str:
    """Parquet as statistics are made of it."""
    path = folder / "table.parquet"
    path.write_bytes(damaged_bytes(good.parquet[0], rng))
    found = read(lambda: Moments.from_parquet(path, "y", "town", features=[f"f{j}" for j in range(5)]), path)
    if found is None:
        return "refused"
    possible(found)
    return "read"


TRIES: dict[str, Callable[[Good, Path, np.random.Generator], str]] = {
    "bytes of a model": bytes_of_a_model,
    "content of a model": content_of_a_model,
    "bytes of statistics": bytes_of_statistics,
    "content of statistics": content_of_statistics,
    "bytes of a table": bytes_of_a_table,
    "bytes of a stream": bytes_of_a_stream,
}


# ------------------------------------------------------------------ what is allowed


@contextmanager
def allowed(kinds: Any, what: str) -> Iterator[None]:
    try:
        yield
    except kinds as error:
        if not str(error):
            raise UnsoundError(f"{what}: an error without words") from error


def read(call: Callable[[], Any], path: Path) -> Any:
    """What a reader makes of a file; None if it refuses it with a ValueError that names it."""
    try:
        return call()
    except ValueError as error:
        if path.name not in str(error):
            raise UnsoundError(f"the error does not name the file: {error}") from error
        return None


def finite(values: Any) -> None:
    if not np.isfinite(values).all():
        raise UnsoundError("numbers that are not finite")


def use(model: Any, path: Path) -> None:
    """What people do with a model that could be loaded."""
    X, _ = rows(12)
    table = X.reindex(columns=[str(name) for name in model.features_], fill_value=1.0)
    with allowed((ValueError, TypeError), "predict"):
        given = {}
        if isinstance(model.task_column, str):
            table.insert(model._task_position, model.task_column, np.resize(model.tasks_, len(table)))
        elif model._form == "long":
            given["task"] = np.resize(model.tasks_, len(table))
        finite(model.predict(table, **given) if not hasattr(model, "classes_") else model.predict_proba(table, **given))
    describe(model)
    json.dumps(facts(model))
    str(getattr(model, "certificate_", ""))
    with allowed((ValueError, TypeError), "a sharing map"):
        str(sharing_map(model))
    with allowed((ValueError, TypeError), "SQL"):
        to_sql(model)
    with allowed(InputError, "the command"):
        load(path)
    with allowed((ValueError, TypeError), "saving"):
        save_model(model, path.with_name("again.msmtfl"))
        load_model(path.with_name("again.msmtfl"))


@contextmanager
def in_time(seconds: int = SECONDS) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise UnsoundError(f"still at it after {seconds} s")

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def one_case(name: str, good: Good, folder: Path, seed: int, case: int) -> str:
    rng = np.random.default_rng([seed, list(TRIES).index(name), case])
    tracemalloc.start()
    try:
        with warnings.catch_warnings(), in_time():
            warnings.simplefilter("ignore")
            outcome = TRIES[name](good, folder, rng)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    largest = max((path.stat().st_size for path in folder.iterdir() if path.is_file()), default=0)
    if peak > 50e6 + MEMORY * largest:
        raise UnsoundError(f"{peak / 1e6:.0f} MB for a file of {largest / 1e3:.0f} kB")
    return outcome


def run(seed: int, count: int, minutes: float = 60.0, only: str | None = None) -> tuple[Counter, list[str]]:
    """(outcomes, failures) of so many damaged files, or as many as there is time for."""
    names = [only] if only else list(TRIES)
    outcomes: Counter = Counter()
    failures: list[str] = []
    end = time.monotonic() + 60.0 * minutes
    with tempfile.TemporaryDirectory() as there:
        folder = Path(there)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            good = Good.make(folder)
        for case in range(count):
            if time.monotonic() > end:
                break
            name = names[case % len(names)]
            try:
                outcomes[f"{name}: {one_case(name, good, folder, seed, case)}"] += 1
            except Exception as error:
                outcomes[f"{name}: FAILURE"] += 1
                last = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(last.filename).name}:{last.lineno}"
                what = f"{type(error).__name__} at {where}: {str(error)[:200]}"
                failures.append(f'--only "{name}" --replay {seed}:{case}  {what}')
    return outcomes, failures


def replay(name: str, seed: int, case: int) -> None:
    with tempfile.TemporaryDirectory() as there, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        good = Good.make(Path(there))
        print(one_case(name, good, Path(there), seed, case))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000, help="files to damage")
    parser.add_argument("--minutes", type=float, default=30.0, help="that it may take at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(TRIES), help="one kind of damage")
    parser.add_argument("--replay", metavar="SEED:CASE", help="one case again, with its traceback; needs --only")
    arguments = parser.parse_args()
    if arguments.replay:
        replay(arguments.only, *map(int, arguments.replay.split(":")))
        return 0
    outcomes, failures = run(arguments.seed, arguments.count, arguments.minutes, arguments.only)
    print("\n".join(failures[:50]))
    for name, count in sorted(outcomes.items()):
        print(f"{count:>8,}  {name}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
