"""Whole jobs: what it takes to choose a model for a table by cross-validation, beside the searches of peers.

    python benchmarks/runner/jobs.py                              # every job on every table that there is
    python benchmarks/runner/jobs.py --tables school hiv_pi --jobs LassoCV MSMTFLCV
    python benchmarks/runner/jobs.py --python adelie=.venv-adelie/bin/python --python ptlasso=.venv-ptlasso/bin/python
    python benchmarks/runner/jobs.py --docs                       # docs/benchmarks.md from the rows of the last run

A job is a process of its own. It loads the table, fits a small part of it first (what is imported or compiled at the first
call is not counted) and then the whole; CPU seconds are those of the process and of what it started. All jobs have five
folds and standardise the columns of every task; peers have one lasso per task, 50 alphas down to a hundredth of the
largest. Rounds go over all jobs in turn, the best of each counts; a job beyond --limit seconds is ended and noted.

NestedMTLCV, whose tasks have levels, is given ten tasks after each other as one value of a level above them.

Tables: real data in the folder that MSMTFL_DATA names (of Isolet and gdsc a quarter of every task), and one that needs
none, in which all tasks have the same X and the best model has more features than there are samples.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
TABLES = ("school", "hiv_pi", "computer", "isolet", "gdsc", "sarcos", "shared X")
QUARTER = ("isolet", "gdsc")
FOLDS, ALPHAS, SMALLEST = 5, 50, 1e-2
BASE = "LassoCV"
BY_NAME = ("PretrainedMTLCV", "RobustMTLCV", "NestedMTLCV")  # families that comparisons have where they are named
OURS = ("LassoMTLCV", "MSMTFLCV", "L12MTLCV", "SharedMTLCV", "DirtyMTLCV", *BY_NAME, "MultiTaskAuto")
ON_TWO = ("MSMTFLCV", "MultiTaskAuto")  # also with two threads
# ratio of CPU time to scikit-learn's LassoCV per task: on most tables, on hiv_pi
BARS = {"MSMTFLCV": (0.5, 1.5), "L12MTLCV": (0.5, 1.0), "DirtyMTLCV": (1.0, 2.5), "SharedMTLCV": (1.0, 5.0)}
BARS |= dict.fromkeys(BY_NAME, (1.0, 1.0))
BARS["MultiTaskAuto"] = (4.0, 15.0)

Table = tuple[np.ndarray, np.ndarray, np.ndarray]


# ------------------------------------------------------------------ tables


def table(name: str) -> Table | None:
    """X, y, task; None if the data are not there."""
    if name == "shared X":
        return shared_x()
    folder = os.environ.get("MSMTFL_DATA")
    file = Path(folder or "") / f"{name}.npz"
    if folder is None or not file.is_file():
        return None
    with np.load(file) as stored:
        X, y, task = stored["X"].astype(np.float64), stored["y"].astype(np.float64), stored["task"]
    if name not in QUARTER and len(y) <= 20_000:
        return X, y, task
    rng = np.random.default_rng(0)
    parts = [np.flatnonzero(task == i) for i in np.unique(task)]
    share = 0.25 if name in QUARTER else 20_000 / len(y)
    rows = np.sort(np.concatenate([rng.choice(part, int(share * len(part)), replace=False) for part in parts]))
    return X[rows], y[rows], task[rows]


def shared_x(m: int = 8, n: int = 150, d: int = 400, used: int = 200) -> Table:
    """Tasks with the same samples, and supports beyond n."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((n, d))
    W = np.zeros((m, d))
    W[:, :used] = rng.normal(size=used) + 0.5 * rng.normal(size=(m, used))
    Y = X @ W.T + rng.standard_normal((n, m))
    return np.tile(X, (m, 1)), Y.T.ravel(), np.repeat(np.arange(m), n)


def by_task(X: np.ndarray, y: np.ndarray, task: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Every task's samples, columns standardised, as peers that know one task take them."""
    out = []
    for i in np.unique(task):
        part = X[task == i]
        spread = part.std(axis=0)
        out.append((np.asfortranarray((part - part.mean(axis=0)) / np.where(spread > 0, spread, 1.0)), y[task == i]))
    return out


# ------------------------------------------------------------------ jobs


def ours(name: str) -> Callable[[Table, int], object]:
    def fit(data: Table, threads: int) -> object:
        import msmtfl

        X, y, task = data
        kwargs = {} if name == "MultiTaskAuto" else {"standardize": True}
        if name == "NestedMTLCV":
            number = np.unique(task, return_inverse=True)[1]
            task = np.column_stack([number // 10, number])
        return getattr(msmtfl, name)(n_jobs=threads, **kwargs).fit(X, y, task=task)

    return fit


def lasso_cv(data: Table, threads: int) -> object:
    from sklearn.linear_model import LassoCV

    options = {"alphas": ALPHAS, "eps": SMALLEST, "cv": FOLDS, "n_jobs": threads}
    return [LassoCV(**options).fit(X, y) for X, y in by_task(*data)]


def multi_task_lasso_cv(data: Table, threads: int) -> object:
    """L1,2 of scikit-learn, for tasks that have the same X."""
    from sklearn.linear_model import MultiTaskLassoCV

    tasks = by_task(*data)
    if any(X.shape != tasks[0][0].shape or not np.array_equal(X, tasks[0][0]) for X, _ in tasks):
        raise SystemExit("the tasks have not the same X")
    Y = np.column_stack([y for _, y in tasks])
    return MultiTaskLassoCV(alphas=ALPHAS, eps=SMALLEST, cv=FOLDS, n_jobs=threads).fit(tasks[0][0], Y)


def celer_cv(data: Table, threads: int) -> object:
    """celer 0.7.4 needs scikit-learn before 1.9."""
    from celer import LassoCV

    options = {"n_alphas": ALPHAS, "eps": SMALLEST, "cv": FOLDS, "n_jobs": threads}
    return [LassoCV(**options).fit(X, y) for X, y in by_task(*data)]


def skglm_cv(data: Table, threads: int) -> object:
    """skglm has no search of its own: its Lasso in scikit-learn's."""
    from skglm import Lasso
    from sklearn.model_selection import GridSearchCV

    out = []
    for X, y in by_task(*data):
        alphas = np.geomspace(1.0, SMALLEST, ALPHAS) * np.abs(X.T @ (y - y.mean())).max() / len(y)
        out.append(GridSearchCV(Lasso(), {"alpha": alphas}, cv=FOLDS, n_jobs=threads).fit(X, y))
    return out


def adelie_cv(data: Table, threads: int) -> object:
    import adelie

    options = {"n_folds": FOLDS, "lmda_path_size": ALPHAS, "min_ratio": SMALLEST, "n_threads": threads}
    return [adelie.cv.cv_grpnet(X, adelie.glm.gaussian(y), progress_bar=False, **options) for X, y in by_task(*data)]


def glmnet_cv(data: Table, threads: int) -> object:
    """In R, with the folds of scikit-learn's LassoCV; the seconds of its own calls are counted. Its path ends, as it does by
    default, where a step explains no more."""
    if shutil.which("Rscript") is None:
        raise SystemExit("there is no Rscript (Debian: r-base-core and r-cran-glmnet)")
    with tempfile.TemporaryDirectory() as folder:
        for k, (X, y) in enumerate(by_task(*data)):
            np.column_stack([y, X]).T.ravel().tofile(f"{folder}/{k}.bin")
            Path(f"{folder}/{k}.txt").write_text(f"{X.shape[0]} {X.shape[1]}")
        code = (
            f"suppressMessages(library(glmnet)); tasks <- lapply(0:{k}, function(k) {{"
            f"shape <- scan(sprintf('{folder}/%d.txt', k), quiet=TRUE); matrix(readBin(sprintf('{folder}/%d.bin', k), "
            "'double', shape[1] * (shape[2] + 1)), shape[1])}); began <- proc.time(); "
            f"for (Z in tasks) {{ n <- nrow(Z); folds <- rep(1:{FOLDS}, n %/% {FOLDS} + (1:{FOLDS} <= n %% {FOLDS})); "
            f"cv.glmnet(Z[, -1], Z[, 1], foldid=folds, nlambda={ALPHAS}, lambda.min.ratio={SMALLEST}, "
            "standardize=FALSE, grouped=FALSE) }; spent <- proc.time() - began; cat(spent[1] + spent[2], spent[3])"
        )
        done = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"Rscript: {' '.join(done.stderr.split())[-90:]}")
        found = done.stdout.split()
    return {"cpu": float(found[-2]), "wall": float(found[-1])}


def ptlasso_cv(data: Table, threads: int) -> object:
    """The pretrained lasso, all tasks at once."""
    from ptlasso import PretrainedLassoCV

    X, y, task = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"n_folds": FOLDS, "lmda_path_size": ALPHAS, "min_ratio": SMALLEST, "n_threads": threads}
        model = PretrainedLassoCV(verbose=False, **options)
        return model.fit(X, y, groups=np.unique(task, return_inverse=True)[1])


PEERS: dict[str, tuple[str, Callable[[Table, int], object]]] = {  # name of the job: package, job
    BASE: ("scikit-learn", lasso_cv),
    "MultiTaskLassoCV": ("scikit-learn", multi_task_lasso_cv),
    "cv.glmnet": ("glmnet", glmnet_cv),
    "celer LassoCV": ("celer", celer_cv),
    "adelie cv_grpnet": ("adelie", adelie_cv),
    "skglm Lasso": ("skglm", skglm_cv),
    "ptlasso": ("ptlasso", ptlasso_cv),
}
JOBS = {**PEERS, **{name: ("msmtfl", ours(name)) for name in OURS}}


def used() -> float:
    """CPU seconds of this process and of those that it started and that have ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def work(job: str, file: str, threads: int) -> dict:
    """In the process of the job."""
    with np.load(file) as stored:
        data = stored["X"], stored["y"], stored["task"]
    fit = JOBS[job][1]
    rows = np.concatenate([np.flatnonzero(data[2] == i)[:40] for i in np.unique(data[2])[:3]])
    small = tuple(part[rows] for part in data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if job != "MultiTaskLassoCV":
            fit(small, 1)
        cpu, wall = used(), time.perf_counter()
        result = fit(data, threads)
    cpu, wall = used() - cpu, time.perf_counter() - wall
    return result if isinstance(result, dict) else {"cpu": cpu, "wall": wall}


def measure(job: str, file: Path, threads: int, python: str, limit: float) -> dict:
    one = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    command = [python, str(HERE / "jobs.py"), "--work", job, str(file), str(threads)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env={**os.environ, **dict.fromkeys(one, "1")}
        )
    except subprocess.TimeoutExpired:
        return {"note": f"> {limit:.0f} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"note": lines[-1][:100] if lines else f"ended with {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


# ------------------------------------------------------------------ rows and tables


def run(given: argparse.Namespace) -> list[dict]:
    pythons = {"msmtfl": sys.executable, **dict(pair.split("=", 1) for pair in given.python)}
    rows: dict[tuple[str, str, int], dict] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in given.tables:
            data = table(name)
            if data is None:
                print(f"{name}: not there (MSMTFL_DATA)", file=sys.stderr)
                continue
            X, y, task = data
            file = Path(folder) / "table.npz"
            np.savez(file, X=X, y=y, task=task)
            shape = f"m={len(np.unique(task))} n={len(y)} d={X.shape[1]}"
            cells = [(job, t) for job in given.jobs for t in given.threads if t == 1 or job in ON_TWO]
            for turn in range(given.rounds):
                for job, threads in cells:
                    known = rows.get((name, job, threads), {})
                    if "note" in known or (turn and known.get("cpu", 0.0) > given.once):
                        continue
                    python = pythons.get(JOBS[job][0], sys.executable)
                    found = measure(job, file, threads, python, given.limit)
                    best = {k: min(found[k], known.get(k, np.inf)) for k in ("cpu", "wall") if k in found}
                    rows[name, job, threads] = {"table": name, "shape": shape, "job": job, "threads": threads}
                    rows[name, job, threads] |= {"note": found["note"]} if "note" in found else best
                    print(json.dumps(rows[name, job, threads]), flush=True)
    return list(rows.values())


def seconds_of(rows: list[dict]) -> dict[tuple[str, str, int], dict]:
    return {(row["table"], row["job"], row["threads"]): row for row in rows}


def job_table(rows: list[dict]) -> str:
    """CPU seconds of every job on one thread, and in brackets how many times those of scikit-learn's LassoCV."""
    by = seconds_of(rows)
    names = [name for name in TABLES if (name, BASE, 1) in by]
    shapes = {row["table"]: row["shape"] for row in rows}
    lines = [["job", *(f"{name}<br>{shapes[name]}" for name in names)]]
    for job in JOBS:
        cells = []
        for name in names:
            row, base = by.get((name, job, 1), {}), by[name, BASE, 1].get("cpu")
            if "cpu" not in row:
                cells.append(row.get("note", "") if row.get("note", "").startswith(">") else "")
                continue
            cell = f"{row['cpu']:.2f} s" + (f" ({row['cpu'] / base:.2f}x)" if base and job != BASE else "")
            cells.append(f"**{cell}**" if job in OURS else cell)
        if any(cells):
            lines.append([job, *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]])


def bar_table(rows: list[dict]) -> str:
    by = seconds_of(rows)
    lines, held, count = [], 0, 0
    for job, (most, most_hiv) in BARS.items():
        cells = []
        for name in TABLES[:5]:
            row, base = by.get((name, job, 1), {}), by.get((name, BASE, 1), {})
            if "cpu" not in row or "cpu" not in base:
                cells.append("")
                continue
            ratio, bar = row["cpu"] / base["cpu"], most_hiv if name == "hiv_pi" else most
            count, held = count + 1, held + (ratio <= bar)
            cells.append(f"{ratio:.2f} of {bar:g}" if ratio <= bar else f"**{ratio:.2f} of {bar:g}**")
        lines.append([job, *cells])
    head = ["job", *TABLES[:5]]
    text = "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])
    return f"{held} of {count} hold; those that do not are bold.\n\n{text}"


def thread_table(rows: list[dict]) -> str:
    by = seconds_of(rows)
    lines = []
    for job in ON_TWO:
        both = [(by.get((name, job, 1), {}), by.get((name, job, 2), {})) for name in TABLES]
        lines.append([job, *(f"{a['wall'] / b['wall']:.2f}x" if "wall" in a and "wall" in b else "" for a, b in both)])
    head = ["job", *TABLES]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def in_one_sentence(rows: list[dict]) -> str:
    by = {key[:2]: row["cpu"] for key, row in seconds_of(rows).items() if key[2] == 1 and "cpu" in row}
    names = [name for name in TABLES[:5] if all((name, job) in by for job in (BASE, "MSMTFLCV", "MultiTaskAuto"))]
    if not names:
        return "Not measured in this run."
    ratios, auto = (
        [by[name, "MSMTFLCV"] / by[name, BASE] for name in names],
        [by[name, "MultiTaskAuto"] for name in names],
    )
    return (
        f"Cross-validation of `MSMTFLCV` takes {min(ratios):.2f} to {max(ratios):.2f} of the CPU time of scikit-learn's "
        f"`LassoCV` per task on the {len(names)} real tables below, and the choice among all families (`MultiTaskAuto`) "
        f"{min(auto):.0f} to {max(auto):.0f} seconds."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES, metavar="TABLE")
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=list(JOBS), metavar="JOB")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts")
    parser.add_argument("--once", type=float, default=10.0, help="a job of more CPU seconds is run once")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a job is ended")
    parser.add_argument("--python", action="append", default=[], metavar="PACKAGE=PATH", help="its own interpreter")
    parser.add_argument("--out", type=Path, default=RESULTS / "jobs.json")
    parser.add_argument("--add", action="store_true", help="keep the rows of the last run that this one does not have")
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md from the rows of the last run")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        job, file, threads = given.work
        print(json.dumps(work(job, file, int(threads))))
        return
    if given.docs:
        import report

        rows = json.loads(given.out.read_text())
        made = {"jobs": job_table(rows), "job bars": bar_table(rows), "job threads": thread_table(rows)}
        report.fill(report.DOCS / "benchmarks.md", {**made, "in one sentence": in_one_sentence(rows)})
        return
    rows = run(given)
    if given.add and given.out.exists():
        rows = list({**seconds_of(json.loads(given.out.read_text())), **seconds_of(rows)}.values())
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(rows, indent=1))
    print(f"\n{job_table(rows)}\n\n{bar_table(rows)}\n\n{thread_table(rows)}")


if __name__ == "__main__":
    main()
