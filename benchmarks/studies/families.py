"""Which family of models predicts, and which finds the truth: all of them on the paper's synthetic data and on real data.

    python benchmarks/studies/families.py synthetic [--seeds 10] [--models NAME ...]
    python benchmarks/studies/families.py real [--splits 10] [--shares 0.15 0.2 0.25] [--only DATA ...] [--models NAME ...]
    python benchmarks/studies/families.py tables

`synthetic`: estimation error (the paper's norm) over that of least squares on the true support, and F1 of the support, in
the three settings of the paper; "oracle" is the best point of each family's own default grid, "cv" the one that 5-fold
cross-validation chooses. `real`: test nMSE after training on a share of every task's rows, parameters chosen by
cross-validation; needs MSMTFL_DATA. Rows are added to CSV files in FOLDER as they come; a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from msmtfl import L12MTLCV, MSMTFLCV, DirtyMTLCV, LassoMTLCV, MultiTaskAuto
from msmtfl.compare.run import default_models
from msmtfl.datasets import make_multitask
from msmtfl.metrics import nmse, parameter_error, support_scores

SETTINGS = {
    1: {"m": 15, "n": 40, "d": 250, "sigma": 0.01},
    2: {"m": 20, "n": 30, "d": 200, "sigma": 0.005},
    3: {"m": 10, "n": 60, "d": 300, "sigma": 0.001},
}
DATA = ("isolet", "school", "hiv_pi", "gdsc", "sarcos", "computer")


# ------------------------------------------------------------------ rows on disk


def known(file: Path, *keys: str) -> set[tuple[str, ...]]:
    if not file.exists():
        return set()
    with file.open(newline="") as lines:
        return {tuple(row[key] for key in keys) for row in csv.DictReader(lines)}


def add(file: Path, row: dict) -> None:
    new = not file.exists()
    with file.open("a", newline="") as lines:
        writer = csv.DictWriter(lines, fieldnames=list(row))
        if new:
            writer.writeheader()
        writer.writerow(row)


def read(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


# ------------------------------------------------------------------ synthetic


def least_squares(sample) -> np.ndarray:
    """(m, d): on the true support."""
    W = np.zeros_like(sample.coef)
    for i, w in enumerate(sample.coef):
        rows, used = sample.task == i, w != 0
        W[i, used] = np.linalg.lstsq(sample.X[rows][:, used], sample.y[rows], rcond=None)[0]
    return W


def synthetic(seeds: int, only: list[str] | None, out: Path) -> None:
    file = out / "synthetic.csv"
    done = known(file, "setting", "seed", "model")
    models = {
        "lasso": LassoMTLCV,
        "l12": L12MTLCV,
        "dirty": DirtyMTLCV,
        "msmtfl": lambda **options: MSMTFLCV(entry_shares=0, **options),
        "bi-level": MSMTFLCV,
    }
    for seed in range(seeds):
        for setting, sizes in SETTINGS.items():
            sample = make_multitask(**sizes, random_state=1000 + seed)
            unit = parameter_error(sample.coef, least_squares(sample))
            for name, make in models.items():
                if (str(setting), str(seed), name) in done or (only and name not in only):
                    continue
                began = time.perf_counter()
                model = make(fit_intercept=False).fit(sample.X, sample.y, task=sample.task)
                seconds = time.perf_counter() - began
                K, L = model.surface_.last.shape
                errors = [parameter_error(sample.coef, model.surface_.coef(k, l)) for k, l in np.ndindex(K, L)]
                best = model.surface_.coef(*np.unravel_index(int(np.argmin(errors)), (K, L)))
                row = {
                    "setting": setting,
                    "seed": seed,
                    "model": name,
                    "oracle": min(errors) / unit,
                    "cv": parameter_error(sample.coef, model.coef_) / unit,
                    "oracle_f1": support_scores(sample.coef, best).f1,
                    "cv_f1": support_scores(sample.coef, model.coef_).f1,
                    "seconds": seconds,
                }
                add(file, row)
                print(*(f"{value:.4g}" if isinstance(value, float) else value for value in row.values()), flush=True)


def synthetic_table(out: Path) -> None:
    rows = read(out / "synthetic.csv")
    if not rows:
        return
    print("\nMedian estimation error over that of least squares on the true support (F1 of the support)\n")
    print("| model | setting | oracle | chosen by cross-validation | seeds |\n|---|---|---|---|---|")
    for name in dict.fromkeys(row["model"] for row in rows):
        for setting in ("1", "2", "3"):
            some = [row for row in rows if row["model"] == name and row["setting"] == setting]
            if some:
                oracle, cv, of1, cf1 = (
                    np.median([float(row[key]) for row in some]) for key in ("oracle", "cv", "oracle_f1", "cv_f1")
                )
                print(f"| {name} | {setting} | {oracle:.2f} ({of1:.2f}) | {cv:.2f} ({cf1:.2f}) | {len(some)} |")


# ------------------------------------------------------------------ real


def split(task: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    parts = [rng.permutation(np.flatnonzero(task == label)) for label in np.unique(task)]
    train = np.concatenate([part[: max(3, round(share * len(part)))] for part in parts])
    return train, np.setdiff1d(np.arange(len(task)), train)


def real(splits: int, shares: list[float], only: list[str], kinds: list[str] | None, out: Path) -> None:
    folder = Path(os.environ.get("MSMTFL_DATA", "."))
    file = out / "real.csv"
    done = known(file, "data", "share", "split", "model")
    for seed in range(splits):
        for name in only:
            if not (folder / f"{name}.npz").exists():
                print(f"{name}: {name}.npz not found, set MSMTFL_DATA to its folder")
                continue
            data = np.load(folder / f"{name}.npz")
            X, y, task = data["X"].astype(np.float64), data["y"].astype(np.float64), data["task"]
            for share in shares:
                train, test = split(task, share, seed)
                flat = [label for label in np.unique(task) if np.ptp(y[test][task[test] == label]) == 0]
                test = test[~np.isin(task[test], flat)]  # nMSE is undefined where all targets are equal
                fewest = int(np.bincount(task[train])[np.unique(task)].min())
                models = default_models(cv=min(5, fewest), standardize=True)
                outer = min(5, fewest)  # with fewer the training rows are fewer, too, and another family may be best
                inner = min(3, fewest - -(-fewest // outer))
                models["auto"] = MultiTaskAuto(cv=outer, inner_cv=inner, standardize=True)
                for kind, model in models.items():
                    if (name, str(share), str(seed), kind) in done or (kinds and kind not in kinds):
                        continue
                    began = time.perf_counter()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        model.fit(X[train], y[train], task=task[train])
                        error = nmse(y[test], model.predict(X[test], task=task[test]), task=task[test])
                    row = {
                        "data": name,
                        "share": share,
                        "split": seed,
                        "model": kind,
                        "nmse": float(error),
                        "features": int(np.atleast_2d(model.coef_).any(axis=0).sum()),
                        "chosen": getattr(model, "chosen_", ""),
                        "reason": getattr(model, "reason_", ""),
                        "seconds": time.perf_counter() - began,
                    }
                    add(file, row)
                    print(*row.values(), flush=True)


def error_of(values: np.ndarray) -> float:
    """The standard error of their mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


class Cell:
    """One data set at one share of training rows: the lines over the splits that all of them have, and the automatic choice
    over those that it has as well."""

    def __init__(self, rows: list[dict[str, str]]):
        found: dict[str, dict[str, float]] = {}
        for row in rows:
            found.setdefault(row["model"], {})[row["split"]] = float(row["nmse"])
        auto = found.pop("auto", {})
        self.splits = sorted(set.intersection(*(set(of) for of in found.values())))
        self.lines = {model: np.array([of[split] for split in self.splits]) for model, of in found.items()}
        self.best = min(self.lines, key=lambda model: self.lines[model].mean())
        both = [place for place, split in enumerate(self.splits) if split in auto]
        self.auto = np.array([auto[self.splits[place]] for place in both])
        self.beside = self.lines[self.best][both]  # the best line on the same splits

    def digits(self) -> int:
        return 4 if self.lines[self.best].mean() < 0.2 else 3

    def of(self, model: str) -> str:
        if model not in self.lines:
            return "-"
        text = f"{self.lines[model].mean():.{self.digits()}f}"
        return f"**{text}**" if model == self.best else text


def real_table(out: Path) -> None:
    """All data in one table, then one for each with standard errors."""
    rows = read(out / "real.csv")
    data = list(dict.fromkeys(row["data"] for row in rows))
    shares = sorted({row["share"] for row in rows}, key=float)
    cells = {}
    for name in data:
        for share in shares:
            some = [row for row in rows if (row["data"], row["share"]) == (name, share)]
            if any(row["model"] != "auto" for row in some):
                cells[name, share] = Cell(some)
    models = list(dict.fromkeys(row["model"] for row in rows if row["model"] != "auto"))
    if not models:
        return

    def line(title: str, of: Callable[[Cell], str]) -> None:
        texts = (
            " / ".join(of(cells[at]) if (at := (name, share)) in cells else "-" for share in shares) for name in data
        )
        print(f"| {title} | " + " | ".join(texts) + " |")

    print(
        "\nTest nMSE, mean over splits, after training on "
        + " / ".join(f"{100 * float(s):.0f} %" for s in shares)
        + "\n"
    )
    print("| model | " + " | ".join(data) + " |\n|---|" + "---|" * len(data))
    for model in models:
        line(model, lambda cell, model=model: cell.of(model))
    line(
        "the automatic choice, less the best line",
        lambda c: f"{(c.auto - c.beside).mean():+.4f}" if len(c.auto) else "-",
    )
    line("standard error of that", lambda c: f"{error_of(c.auto - c.beside):.4f}" if len(c.auto) else "-")
    line("standard error of the best line", lambda c: f"{error_of(c.lines[c.best]):.4f}")
    line("splits of the lines, of the automatic choice", lambda c: f"{len(c.splits)}, {len(c.auto)}")
    for name in data:
        of_data = {share: cells[name, share] for share in shares if (name, share) in cells}
        print(f"\n{name}: test nMSE, mean over splits (standard error of the difference to the best line)\n")
        print(
            "| model |"
            + "".join(f" {100 * float(share):.0f} % |" for share in of_data)
            + "\n|---|"
            + "---|" * len(of_data)
        )
        for model in models:
            parts = [
                f"{cell.of(model)} ({error_of(cell.lines[model] - cell.lines[cell.best]):.4f})"
                if model in cell.lines
                else "-"
                for cell in of_data.values()
            ]
            print(f"| {model} | " + " | ".join(parts) + " |")
        picks = [row["chosen"] for row in rows if row["data"] == name and row["model"] == "auto"]
        if picks:
            print("\nauto chose " + ", ".join(f"{pick} {picks.count(pick)}x" for pick in sorted(set(picks))) + ".")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["synthetic", "real", "tables"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--models", nargs="+", help="only these; Dirty takes a minute a fit on synthetic data, more on gdsc"
    )
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.15, 0.2, 0.25])
    parser.add_argument("--only", nargs="+", default=list(DATA), choices=DATA)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/families"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.what == "synthetic":
        synthetic(options.seeds, options.models, options.out)
    if options.what == "real":
        real(options.splits, options.shares, options.only, options.models, options.out)
    synthetic_table(options.out)
    real_table(options.out)


if __name__ == "__main__":
    main()
