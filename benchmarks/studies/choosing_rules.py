"""How much should it take to leave the family with the least held-out error for a simpler one? Rules, on fresh samples.

    python benchmarks/studies/choosing_rules.py --data-sets 60                  # classes
    python benchmarks/studies/choosing_rules.py --data-sets 60 --loss squared   # numbers
    python benchmarks/studies/choosing_rules.py --table                         # only the tables, of the rows that there are

A rule takes, of the families whose held-out error is within so many standard errors of the least, the best of those that
use about the fewest features: `MultiTaskAuto(selection="1se")` is that with 1, "min" with 0. A data set is compared once,
as the automatic choice does it, and every family is fitted to all training samples, so that all rules are judged by the
same models. `above the best` is the loss of the chosen family on fresh samples less that of the best family on that data
set, `above one family` less that of the family that is best on the average of the kind; both are over the loss of knowing
nothing (class shares, means), and so are the standard errors, over data sets. `features` is how many the chosen family uses.

Data sets have 4 to 10 tasks of 40 to 160 samples and 8 to 40 features, of six kinds: nothing to find, the same features in
all tasks, features of its own in every task, many small effects, tasks that are copies, and common effects from which some
tasks deviate. Of classes every other data set has one sample of ten of the rarer class, the others one of two.
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
from sklearn.base import clone

from msmtfl.compare.choice.choosing import pick
from msmtfl.compare.run import default_models, run_comparison

KINDS = ("null", "shared support", "own support", "dense small effects", "copies", "copies but for some")
MULTIPLES = (0.0, 0.25, 0.5, 0.75, 1.0)
RARE, FRESH = 0.1, 2000  # share of the rarer class; fresh samples of every task
ROWS = Path(__file__).parents[1] / "results" / "choosing_rules.jsonl"


def effects(kind: str, m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """(m, d): the coefficients of every task."""
    W, used = np.zeros((m, d)), max(2, d // 8)
    if kind == "shared support":
        W[:, :used] = rng.normal(size=(m, used))
    elif kind == "own support":
        for w in W:
            w[rng.choice(d, used, replace=False)] = rng.normal(size=used)
    elif kind == "dense small effects":
        W = rng.normal(size=d) / np.sqrt(d) + rng.normal(size=(m, d)) / np.sqrt(d)
    elif kind.startswith("copies"):
        W[:, :used] = rng.normal(size=used)
    if kind == "copies but for some":
        for i in rng.choice(m, max(1, m // 3), replace=False):
            W[i, rng.integers(d)] += rng.choice([-1.5, 1.5])
    return W


def draw(loss: str, seed: int) -> tuple[str, tuple, tuple]:
    """Kind, (X, y, task) to train on, and fresh samples."""
    rng = np.random.default_rng([40_000, seed])
    kind, rare = KINDS[seed % len(KINDS)], bool(seed // len(KINDS) % 2) and loss != "squared"
    m, d = int(rng.integers(4, 11)), int(rng.integers(8, 41))
    W, n = effects(kind, m, d, rng), rng.integers(40, 161, size=m)
    correlation = float(rng.choice([0.0, 0.5]))
    levels = np.zeros(m)

    def sample(sizes: np.ndarray) -> tuple:
        task = np.repeat(np.arange(m), sizes)
        common = rng.standard_normal((len(task), 1))
        X = np.sqrt(correlation) * common + np.sqrt(1.0 - correlation) * rng.standard_normal((len(task), d))
        return X, np.einsum("rj,rj->r", X, W[task]), task

    if loss == "squared":
        parts = [sample(n), sample(np.full(m, FRESH))]
        return kind, *((X, f + rng.standard_normal(len(f)), task) for X, f, task in parts)
    _, f, task = sample(np.full(m, FRESH))
    noisy = f + rng.logistic(size=len(f))
    levels = np.array([np.quantile(noisy[task == i], 1.0 - (RARE if rare else 0.5)) for i in range(m)])

    def classes(sizes: np.ndarray) -> tuple:
        while True:
            X, f, task = sample(sizes)
            y = (f + rng.logistic(size=len(f)) > levels[task]).astype(int)
            counts = np.array([np.bincount(y[task == i], minlength=2) for i in range(m)])
            if counts.min() >= 4:
                return X, y, task

    return kind + (", rare" if rare else ""), classes(n), classes(np.full(m, FRESH))


def fresh_loss(model, new: tuple, known: np.ndarray, classify: bool) -> float:
    """Mean over tasks of the loss over that of knowing nothing but the tasks' class shares or means."""
    X, y, task = new
    if classify:
        p = np.clip(model.predict_proba(X, task=task)[:, 1], 1e-15, 1.0 - 1e-15)
        loss, null = (-np.log(np.where(y == 1, one, 1.0 - one)) for one in (p, known[task]))
    else:
        loss, null = (y - model.predict(X, task=task)) ** 2, (y - known[task]) ** 2
    return float(np.mean([loss[task == i].mean() / null[task == i].mean() for i in range(len(known))]))


def row_of(loss: str, seed: int, cv: int, lams: int) -> dict:
    """What is known of every family on one data set."""
    kind, (X, y, task), new = draw(loss, seed)
    classify, began = loss != "squared", time.process_time()
    models = default_models(cv=cv, classify=classify)
    for model in models.values():
        if "lams" in model.get_params():
            model.set_params(lams=lams)
    options = {"sample_weight": None, "groups": None, "n_jobs": None, "verbose": False, "task_column": None}
    options |= {"cv": cv, "inner_cv": cv, "screen": True, "random_state": seed, "nested": False}
    found = run_comparison(X, y, task=task, models=models, classify=classify, **options)
    comparison = found.comparison.steadied.at_choice
    names = comparison.models
    known = np.array([y[task == i].mean() for i in np.unique(task)])
    fitted = {
        name: found.fitted[name] if name in found.fitted else clone(models[name]).fit(X, y, task=task) for name in names
    }
    best = comparison.models[int(np.argmin(comparison.error))]
    paired = comparison if comparison.reference == best else _against(comparison, best)
    return {
        "loss": loss,
        "data": kind,
        "seed": seed,
        "models": names,
        "error": comparison.error.tolist(),
        "difference": paired.difference.tolist(),
        "se": paired.se.tolist(),
        "features": comparison.n_features.tolist(),
        "fresh": [fresh_loss(fitted[name], new, known, classify) for name in names],
        "seconds": time.process_time() - began,
    }


def _against(comparison, name: str):
    from dataclasses import replace

    return replace(comparison, reference=name)


def chosen(row: dict, multiple: float) -> int:
    """The place of the family that a rule takes."""
    error, difference, se = (np.array(row[name]) for name in ("error", "difference", "se"))
    features = np.array([np.nan if one is None else one for one in row["features"]], dtype=float)
    return pick(error, difference, multiple * se, features, "1se" if multiple else "min")


def table(rows: list[dict]) -> str:
    rules = " | ".join(f"{multiple:g} s.e." for multiple in MULTIPLES)
    lines = [f"| data | sets | what | {rules} |", "|" + " --- |" * (3 + len(MULTIPLES))]
    for kind in [*sorted({row["data"] for row in rows}), None]:
        own = [row for row in rows if kind in (row["data"], None)]
        places = np.array([[chosen(row, multiple) for multiple in MULTIPLES] for row in own])
        taken = np.array([[row["fresh"][k] for k in of_rules] for row, of_rules in zip(own, places, strict=True)])
        above = taken - np.array([min(row["fresh"]) for row in own])[:, None]
        used = np.array([[row["features"][k] for k in of_rules] for row, of_rules in zip(own, places, strict=True)])
        tell = f"| {kind or 'all'} | {len(own)} |"
        lines.append(f"{tell} above the best (s.e.) | " + " | ".join(mean_se(one) for one in above.T) + " |")
        names = [name for name in own[0]["models"] if all(name in row["models"] for row in own)]
        lines_of = {name: np.array([row["fresh"][row["models"].index(name)] for row in own]) for name in names}
        if kind is not None and lines_of:
            one = min(lines_of, key=lambda name: lines_of[name].mean())
            parts = (taken - lines_of[one][:, None]).T
            lines.append(f"{tell} above one family ({one}) | " + " | ".join(mean_se(part) for part in parts) + " |")
        lines.append(f"{tell} features | " + " | ".join(f"{np.nanmean(one):.1f}" for one in used.T) + " |")
    return "\n".join(lines)


def mean_se(values: np.ndarray) -> str:
    se = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():+.4f} ({se:.4f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=2, help="the kinds take turns")
    parser.add_argument("--first", type=int, default=0, help="the number of the first of them")
    parser.add_argument("--loss", choices=["logistic", "squared"], default="logistic")
    parser.add_argument("--cv", type=int, default=5, help="folds, inner ones too")
    parser.add_argument("--lams", type=int, default=15, help="values of lam in every grid")
    parser.add_argument("--minutes", type=float, default=np.inf, help="no new data set after that")
    parser.add_argument("--out", type=Path, default=None, help="where rows are added; what it has is skipped")
    parser.add_argument("--table", action="store_true", help="print the table of the rows that there are, and stop")
    given = parser.parse_args()
    out = given.out or (ROWS if given.table or given.data_sets > len(KINDS) else None)
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out and out.exists() else []
    rows, began = [row for row in rows if row["loss"] == given.loss], time.perf_counter()
    for seed in range(given.first, given.first + (0 if given.table else given.data_sets)):
        if any(row["seed"] == seed for row in rows) or time.perf_counter() - began > 60.0 * given.minutes:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows.append(row_of(given.loss, seed, given.cv, given.lams))
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            with out.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
