"""Does cross-validation choose well? Errors on fresh samples of the points that searches choose, on data sets of five kinds.

    python benchmarks/studies/chosen_points.py             # 200 data sets, every search; rows go to a file
    python benchmarks/studies/chosen_points.py --data-sets 20 --searches LassoMTLCV MSMTFLCV
    python benchmarks/studies/chosen_points.py --table     # only the table, from the rows that there are

For a data set and a search:  `over best` is the error of the chosen point, refitted on all training samples, over that of
the best point of its own whole grid, chosen with the fresh samples themselves (for an automatic choice: over the best of
the searches and itself); `over simple` is the same over the better of the lasso chosen by cross-validation (one per task)
and the tasks' means. An error is what the searches score: the squared error over the variance of a task's targets (classes:
the log-loss), averaged over samples, of which a task has as large a share as it has in training. Data sets have
3 to 8 tasks of 15 to 60 samples and 10 to 60 features; nothing here was used to set a default of the package.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

import msmtfl
from msmtfl import LassoMTLCV, MSMTFLClassifierCV

KINDS = ("null", "shared support", "own support", "dense small effects", "copies")
SEARCHES = [getattr(msmtfl, name) for name in msmtfl.__all__ if name.endswith("CV") or name.startswith("MultiTaskAuto")]
CONTAIN_LASSO = tuple(
    one.__name__
    for one in SEARCHES
    if one.__name__.startswith(("MSMTFL", "Dirty", "Shared", "Pretrained", "MultiTaskAuto"))
)
FRESH = 20  # fresh samples for every one to train on
ROWS = Path(__file__).parents[1] / "results" / "chosen_points.jsonl"


def data_set(seed: int) -> tuple[str, tuple, tuple]:
    """Kind, (X, y, task) to train on, and the same to measure on."""
    rng = np.random.default_rng([20_000, seed])
    kind = KINDS[seed % len(KINDS)]
    m, d = int(rng.integers(3, 9)), int(rng.integers(10, 61))
    n = rng.integers(15, 61, size=m)
    W, used = np.zeros((m, d)), max(2, d // 8)
    if kind == "shared support":
        W[:, :used] = rng.normal(size=(m, used))
    elif kind == "own support":
        for w in W:
            w[rng.choice(d, used, replace=False)] = rng.normal(size=used)
    elif kind == "dense small effects":
        W = rng.normal(size=(m, d)) / np.sqrt(d)
    elif kind == "copies":
        W[:, :used] = rng.normal(size=used) + 0.05 * rng.normal(size=(m, used))
    correlation = float(rng.choice([0.0, 0.5]))

    def draw(sizes: np.ndarray) -> tuple:
        task = np.repeat(np.arange(m), sizes)
        common = rng.standard_normal((len(task), 1))
        X = np.sqrt(correlation) * common + np.sqrt(1.0 - correlation) * rng.standard_normal((len(task), d))
        return X, np.einsum("rj,rj->r", X, W[task]) + rng.standard_normal(len(task)), task

    return kind, draw(n), draw(FRESH * n)


def squared_errors(coefs: np.ndarray, intercepts: np.ndarray, X: np.ndarray, y: np.ndarray, task: np.ndarray):
    """Of models (P, m, d): mean over samples of the squared error over the variance of their task's targets, (P,)."""
    out = np.zeros(len(coefs))
    for i in range(coefs.shape[1]):
        on = task == i
        out += ((y[on] - coefs[:, i] @ X[on].T - intercepts[:, [i]]) ** 2).sum(axis=1) / y[on].var()
    return out / len(y)


def log_losses(coefs: np.ndarray, intercepts: np.ndarray, X: np.ndarray, y: np.ndarray, task: np.ndarray):
    """The same of classes 0 and 1: log-losses."""
    out = np.zeros(len(coefs))
    for i in range(coefs.shape[1]):
        on = task == i
        f = coefs[:, i] @ X[on].T + intercepts[:, [i]]
        out += np.logaddexp(0.0, np.where(y[on] == 1, -f, f)).sum(axis=1)
    return out / len(y)


def of_model(measure, model, new) -> float:
    return float(measure(model.coef_[None], model.intercept_[None], *new)[0])


def of_grid(measure, model, train, new) -> np.ndarray:
    """Errors of all points of the whole grid, those included that the search left out when held-out errors had turned."""
    results = model.cv_results_
    X, y, task = train
    surface = model.complete_surface(X, y, task=task).surface_
    points = np.argwhere((results["eligible"] | ~results["solved"]).reshape(surface.last.shape)).tolist()
    coefs = np.array([surface.coef(k, l) for k, l in points])
    return measure(coefs, np.array([surface.intercept(k, l) for k, l in points]), *new)


def as_classes(sample: tuple, cut: np.ndarray) -> tuple:
    X, y, task = sample
    return X, (y > cut[task]).astype(int), task


def rows_of(seed: int, names: list[str]) -> list[dict]:
    kind, train, new = data_set(seed)
    rows: list[dict] = []
    numbers = [name for name in names if not of_classes(name)]
    if numbers:
        _, y, task = train
        means = np.array([y[task == i].mean() for i in np.unique(task)])
        rows += rows_of_searches(numbers, train, new, squared_errors, LassoMTLCV(), means)
    classes = [name for name in names if of_classes(name)]
    if classes:
        _, y, task = train
        cut = np.array([np.median(y[task == i]) for i in np.unique(task)])
        own, fresh = as_classes(train, cut), as_classes(new, cut)
        share = np.array([own[1][task == i].mean() for i in np.unique(task)])
        lassos = MSMTFLClassifierCV(lams=15, thetas=[np.inf])
        rows += rows_of_searches(classes, own, fresh, log_losses, lassos, np.log(share / (1 - share)))
    return [{"seed": seed, "kind": kind, **row} for row in rows]


def rows_of_searches(names: list[str], train: tuple, new: tuple, measure, lassos, constants: np.ndarray) -> list[dict]:
    """Of searches that measure errors alike; `constants` (m,) are the intercepts of models without features."""
    X, y, task = train
    nothing = np.zeros((1, len(constants), X.shape[1]))
    simple = min(of_model(measure, lassos.fit(X, y, task=task), new), float(measure(nothing, constants[None], *new)[0]))
    out = []
    for name in names:
        began = time.process_time()
        search = {one.__name__: one for one in SEARCHES}[name]
        model = (search(lams=15) if name == "MSMTFLClassifierCV" else search()).fit(X, y, task=task)
        row = {"search": name, "seconds": time.process_time() - began, "simple": simple}
        row["error"] = of_model(measure, model, new)
        if "Auto" not in name:
            row["best"] = float(of_grid(measure, model, train, new).min())
        out.append(row)
    return out


def of_classes(name: str) -> bool:
    return "Classifier" in name


def with_best_family(rows: list[dict]) -> list[dict]:
    """Rows in which the best that an automatic choice could take is the best search of the same data set, or itself."""
    best: dict[tuple[int, bool], float] = {}
    for row in rows:
        key = row["seed"], of_classes(row["search"])
        best[key] = min(row["error"], best.get(key, np.inf))
    return [
        {**row, "best": best[row["seed"], of_classes(row["search"])]} if "Auto" in row["search"] else row
        for row in rows
    ]


def table(rows: list[dict]) -> str:
    rows = with_best_family(rows)
    lines = [
        "| search | data sets | over best: mean | 95 % | largest | over simple: mean | 95 % | largest | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in dict.fromkeys(row["search"] for row in rows):
        own = [row for row in rows if row["search"] == name]
        cells = []
        for base in ("best", "simple"):
            ratio = np.array([row["error"] / row[base] for row in own])
            shown = base == "best" or name in CONTAIN_LASSO
            values = (ratio.mean(), np.quantile(ratio, 0.95), ratio.max())
            cells += [f"{value:.3f}" if shown else "" for value in values]
        seconds = np.mean([row["seconds"] for row in own])
        lines.append(f"| {name} | {len(own)} | {' | '.join(cells)} | {seconds:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=200, help="how many, of the five kinds in turn")
    parser.add_argument("--first", type=int, default=0, help="the first of them: several processes can share the work")
    parser.add_argument("--searches", nargs="+", default=[one.__name__ for one in SEARCHES])
    parser.add_argument(
        "--out", type=Path, default=ROWS, help="where rows are added; data sets that it has are skipped"
    )
    parser.add_argument("--table", action="store_true", help="print the table of the rows that there are, and stop")
    parser.add_argument("--by-kind", action="store_true", help="a table for every kind of data as well")
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    if not given.table:
        known = {(row["seed"], row["search"]) for row in rows}
        given.out.parent.mkdir(parents=True, exist_ok=True)
        for seed in range(given.first, given.first + given.data_sets):
            wanted = [name for name in given.searches if (seed, name) not in known]
            if not wanted:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                new = rows_of(seed, wanted)
            rows += new
            with given.out.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in new)
    print(table(rows))
    for kind in KINDS if given.by_kind else ():
        print(f"\n{kind}\n\n{table([row for row in rows if row['kind'] == kind])}")


if __name__ == "__main__":
    main()
