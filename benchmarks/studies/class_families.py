"""Classifiers of all families on new samples: AUC and log-loss over random splits.

Three kinds of tasks: resistance of HIV to eight protease inhibitors by mutation (hiv_pi, where MSMTFL_DATA names a folder
that has it), "resistant" being a fold change of susceptibility of at least three; spoken letters of five groups of speakers
(isolet, from the same folder), vowels against consonants; and tasks like those of landmine detection (`landmine.py`), which
are generated. Every family chooses its parameters on the training samples by three folds, and so does the automatic choice
among families, of the simplest within a standard error (1se) and of the one with the least error (min).

    python benchmarks/studies/class_families.py --splits 10
    python benchmarks/studies/class_families.py --splits 2 --only landmine --tasks 3

Both measures are a task's own, averaged over tasks: AUC, and the log-loss over that of the class shares of the training
samples. Standard errors are over splits, of the differences to separate lassos on the same split; the last lines compare
the automatic choices with the line of the least mean log-loss in the same way.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
from landmine import make_data as landmines
from sklearn.base import clone
from sklearn.metrics import log_loss, roc_auc_score

from msmtfl import MultiTaskAutoClassifier
from msmtfl.compare.choice.choosing import RULES, choose_family
from msmtfl.compare.run import default_models

FOLD_CHANGE = 3.0  # from which on a virus counts as resistant
REFERENCE, CHOICE = "lasso", "automatic choice"
VOWELS = (1, 5, 9, 15, 21)  # letters


def hiv(split, share, tasks):
    """Training and test samples of some drugs, split by isolate: one isolate is measured with several drugs."""
    path = Path(os.environ.get("MSMTFL_DATA", "")) / "hiv_pi.npz"
    if not path.exists():
        return None
    with np.load(path) as table:
        X, y, task, isolate = (table[name] for name in ("X", "y", "task", "isolate"))
    some = task < tasks
    X, y, task, isolate = (
        X[some].astype(float),
        (y[some] >= np.log10(FOLD_CHANGE)).astype(int),
        task[some],
        isolate[some],
    )
    names = np.unique(isolate)
    chosen = np.random.default_rng(split).choice(names, int(share * len(names)), replace=False)
    train = np.isin(isolate, chosen)
    return (X[train], y[train], task[train]), (X[~train], y[~train], task[~train])


def spoken(split, samples, tasks):
    """Training and test samples of some groups of speakers: so many of each train."""
    path = Path(os.environ.get("MSMTFL_DATA", "")) / "isolet.npz"
    if not path.exists():
        return None
    with np.load(path) as table:
        X, y, task = table["X"].astype(float), np.isin(table["y"], VOWELS).astype(int), table["task"]
    rng, train = np.random.default_rng(split), np.zeros(len(y), dtype=bool)
    for i in range(tasks):
        train[rng.choice(np.flatnonzero(task == i), samples, replace=False)] = True
    test = ~train & (task < tasks)
    return (X[train], y[train], task[train]), (X[test], y[test], task[test])


def scores(p, y, task, shares):
    """AUC and relative log-loss, averaged over tasks."""
    found = []
    for i in np.unique(task):
        rows = task == i
        null = log_loss(y[rows], np.full(rows.sum(), shares[i]), labels=[0, 1])
        found.append((roc_auc_score(y[rows], p[rows]), log_loss(y[rows], p[rows], labels=[0, 1]) / null))
    return np.mean(found, axis=0)


def row_of(name, make, split, lams) -> dict | None:
    """What every line predicts on one split, and what the comparison knows of the families."""
    models = default_models(cv=3, standardize=True, classify=True)
    for model in models.values():
        if "lams" in model.get_params():
            model.set_params(lams=lams)
    automatic = MultiTaskAutoClassifier({name: clone(one) for name, one in models.items()}, cv=3)
    made = make(split)
    if made is None:
        return None
    (X, y, task), new = made
    shares = {int(i): float(y[task == i].mean()) for i in np.unique(task)}
    found, seconds = {}, {}
    for line, model in {**models, CHOICE: automatic}.items():
        began = time.perf_counter()
        p = model.fit(X, y, task=task).predict_proba(new[0], task=new[2])[:, 1]
        seconds[line] = time.perf_counter() - began
        found[line] = scores(p, *new[1:], shares).tolist()
    # what the other rule chooses has a line already
    chosen = {rule: choose_family(automatic.comparison_, rule)[0] for rule in RULES}
    found |= {f"{CHOICE}, {rule}": found[one] for rule, one in chosen.items()}
    del found[CHOICE]
    size = {"tasks": len(shares), "samples": len(y), "features": X.shape[1]}
    return {"data": name, "split": split, "scores": found, "chosen": chosen, "seconds": seconds, **size}


def table(name, rows) -> None:
    names, splits = list(rows[0]["scores"]), len(rows)
    results = np.array([[row["scores"][line] for row in rows] for line in names])
    base, root, first = names.index(REFERENCE), np.sqrt(splits), rows[0]
    print(
        f"{name}: {first['tasks']} tasks, {first['samples']} training samples, {first['features']} features; "
        f"splits {', '.join(str(row['split']) for row in rows)}"
    )
    beside = f"{'- lasso':>8} {'(s.e.)':>8}"
    print(f"{'model':<22} {'AUC':>6} {beside} {'log-loss':>9} {beside} {'s per fit':>10}")
    for k in np.argsort(results[:, :, 1].mean(axis=1)):
        gain = results[k] - results[base]
        mean, error = gain.mean(axis=0), np.std(gain, axis=0, ddof=1) / root
        auc, loss = results[k].mean(axis=0)
        seconds = np.mean([row["seconds"].get(names[k], row["seconds"][CHOICE]) for row in rows])
        print(
            f"{names[k]:<22} {auc:6.3f} {mean[0]:+8.3f} ({error[0]:.4f}) "
            f"{loss:9.3f} {mean[1]:+8.3f} ({error[1]:.4f}) {seconds:10.1f}",
            flush=True,
        )
    losses, choices = results[:, :, 1], [k for k, line in enumerate(names) if line.startswith(CHOICE)]
    best = int(np.argmin(np.delete(losses, choices, axis=0).mean(axis=1)))
    for choice, rule in zip(choices, RULES, strict=True):
        chosen, more = [row["chosen"][rule] for row in rows], losses[choice] - losses[best]
        print(
            f"{names[choice]} ({', '.join(f'{one} {chosen.count(one)}' for one in dict.fromkeys(chosen))}): log-loss less "
            f"that of {names[best]}, the best line: {more.mean():+.3f} ({np.std(more, ddof=1) / root:.4f})",
            flush=True,
        )


def study(name, make, splits, lams, out, minutes) -> None:
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out and out.exists() else []
    rows, began = {row["split"]: row for row in rows if row["data"] == name}, time.perf_counter()
    for split in splits:
        if split in rows or time.perf_counter() - began > 60.0 * minutes:
            continue
        rows[split] = row_of(name, make, split, lams)
        if rows[split] is None:
            print(f"{name}: no data (MSMTFL_DATA)")
            return
        if out is not None:
            with out.open("a") as file:
                file.write(json.dumps(rows[split]) + "\n")
    done = [rows[split] for split in splits if split in rows]
    if len(done) > 1:
        table(name, done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--share", type=float, default=0.1, help="of the isolates that train (hiv_pi)")
    parser.add_argument("--samples", type=int, default=80, help="of each group of speakers that train (isolet)")
    parser.add_argument("--lams", type=int, default=15)
    parser.add_argument("--only", choices=["hiv_pi", "landmine", "isolet"])
    parser.add_argument("--first", type=int, default=0, help="the number of the first split")
    parser.add_argument("--out", type=Path, default=None, help="where splits are added; those that it has are skipped")
    parser.add_argument("--minutes", type=float, default=np.inf, help="no new split of a kind of data after that")
    arguments = parser.parse_args()
    if arguments.splits < 2:
        parser.error("standard errors need at least two splits")
    warnings.simplefilter("ignore")
    kinds = {
        "hiv_pi": lambda split: hiv(split, arguments.share, arguments.tasks),
        "isolet": lambda split: spoken(split, arguments.samples, min(arguments.tasks, 5)),
        "landmine": lambda split: landmines("sparse", split, arguments.tasks),
    }
    for name, make in kinds.items():
        if arguments.only in (None, name):
            splits = range(arguments.first, arguments.first + arguments.splits)
            study(name, make, splits, arguments.lams, arguments.out, arguments.minutes)


if __name__ == "__main__":
    main()
