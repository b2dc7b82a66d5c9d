"""Which theta is a good default? `MSMTFL` against the lasso at the same lam, over real and synthetic data.

    python benchmarks/studies/theta_study.py                              # synthetic problems only
    MSMTFL_DATA=folder python benchmarks/studies/theta_study.py           # and real data sets (some ten minutes on one core)
    python benchmarks/studies/theta_study.py --only null                  # problems whose name contains "null"
    python benchmarks/studies/theta_study.py --smallest                   # one seed of the smallest problem of every kind

theta = ratio * m lam / rho_bar with the ratio a constant or a function of m; the same, but at least some medians of the row
norms of stage 1; or at a jump of these norms in their order. "default" and "adaptive" are the estimator's own.

Per problem and rule: the test nMSE (MSE / variance, weighted by test rows over tasks, mean over seeds) relative to the
lasso's at the same lam, a share of lam_max; below 1 is better than the lasso. The first table also says which share of the
coefficients the lasso keeps at the default lam: in the problems called "null" each of them is noise.

There are two series of random numbers. Look at `--series choose` as long as you like to find a rule; what is then said of
it comes from `--series confirm`, the default, which has had no part in the choice. (Real data sets are the same in both,
split otherwise.)
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from msmtfl import MSMTFL
from msmtfl._objective.theta import unit
from msmtfl.metrics import nmse

SHARES = (0.1, 0.3, 0.03)  # of lam_max, the default first
SERIES = {"choose": 1, "confirm": 2}  # the study before used default_rng(0), ..., default_rng(4) themselves
SIZES = {"small": (40, 12), "tall": (100, 40), "wide": (50, 200)}  # rows of a task, features
MANY = (2, 5, 15, 40)  # tasks
TEST_ROWS = 200  # per task, synthetic
MOST_ROWS = 2000  # per task, real

# ------------------------------------------------------------------ rules

Ratio = Callable[[int], float]
RATIOS: dict[str, tuple[Ratio, float]] = {  # ratio of m tasks, and how many medians of the row norms theta is at least
    **{f"{r:g}": (lambda m, r=r: r, 0) for r in (8.0, 16.0)},
    **{f"{c:g} m": (lambda m, c=c: c * m, 0) for c in (0.5, 1.0, 2.0)},
    **{f"max(8, {c:g} m)": (lambda m, c=c: max(8.0, c * m), 0) for c in (0.25, 0.5, 1.0, 2.0)},
    "max(16, m)": (lambda m: max(16.0, float(m)), 0),
    "8, 3 medians": (lambda m: 8.0, 3),
    "max(8, 0.5 m), 3 medians": (lambda m: max(8.0, m / 2), 3),
    "max(8, 0.25 m), 2 medians": (lambda m: max(8.0, m / 4), 2),
    "max(4, 0.25 m), 4 medians": (lambda m: max(4.0, m / 4), 4),
}
ITSELF = {"default": None, "adaptive": "adaptive"}  # what the estimator does
JUMPS: dict[str, Callable[[float], float]] = {"jump 1/rows": lambda n: 1 / n}  # rows of a task: jump / largest norm
RULES = (*RATIOS, *ITSELF, *JUMPS)


def first_jump(row_norms: np.ndarray, share: float) -> float:
    """The middle of the first jump above a share of the largest norm in the sorted norms, a zero first; inf without one."""
    norms = np.concatenate([[0.0], np.sort(row_norms[row_norms > 0])])
    large = np.flatnonzero(np.diff(norms) > share * norms[-1])
    return float(norms[large[0] : large[0] + 2].mean()) if large.size else np.inf


# ------------------------------------------------------------------ problems

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # X, y, task


@dataclass(frozen=True)
class Split:
    train: Rows
    test: Rows
    options: dict[str, bool]


def no_features(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """W (m, d): nothing to find."""
    return np.zeros((m, d))


def shared_support(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Ten features that all tasks use, each with effects of its own."""
    W = np.zeros((m, d))
    W[:, rng.choice(d, 10, replace=False)] = rng.uniform(-10, 10, (m, 10))
    return W


def sparse_support(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """The paper's: a tenth of the features, each used by a fifth of the tasks."""
    W = np.zeros((m, d))
    used = rng.choice(d, d // 10, replace=False)
    W[:, used] = rng.uniform(-10, 10, (m, len(used)))
    live = np.flatnonzero(W)
    W.flat[rng.choice(live, int(0.8 * len(live)), replace=False)] = 0.0
    return W


def own_support(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Ten features for every task, drawn for it alone: nothing is shared but by chance."""
    W = np.zeros((m, d))
    for w in W:
        w[rng.choice(d, 10, replace=False)] = rng.uniform(-10, 10, 10)
    return W


def dense_effects(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """A small effect of every feature in every task."""
    return rng.standard_normal((m, d))


def copies(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Tasks that are nearly the same: ten features, values that differ by a twentieth."""
    b = np.zeros(d)
    b[rng.choice(d, 10, replace=False)] = rng.uniform(-10, 10, 10)
    return b * (1.0 + 0.05 * rng.standard_normal((m, d)))


def gaussian(effects: Callable, m: int, size: str, noise: float, rng: np.random.Generator) -> Split:
    """Standard normal features; `noise` is its share of the variance of y."""
    n, d = SIZES[size]
    W = effects(m, d, rng)
    sigma = np.sqrt((W**2).sum(axis=1) * noise / (1.0 - noise)) if noise < 1 else np.ones(m)
    return Split(*(drawn(W, rows, 1.0, sigma, rng) for rows in (n, TEST_ROWS)), {})


def drawn(W: np.ndarray, n: int, scale: float, sigma: np.ndarray, rng: np.random.Generator) -> Rows:
    m, d = W.shape
    task = np.repeat(np.arange(m), n)
    X = scale * rng.standard_normal((m * n, d))
    return X, np.einsum("nd,nd->n", X, W[task]) + sigma[task] * rng.standard_normal(m * n), task


def paper(m: int, n: int, d: int, sigma: float, rng: np.random.Generator) -> Split:
    """The paper's synthetic data: columns of about unit length, no intercept."""
    W, noise = sparse_support(m, d, rng), np.full(m, sigma)
    return Split(*(drawn(W, rows, n**-0.5, noise, rng) for rows in (n, TEST_ROWS)), {"fit_intercept": False})


def real(path: Path, share: float, tasks: int | None, standardize: bool, rng: np.random.Generator) -> Split:
    """`share` of the rows of every task (or of `tasks` random ones) for training, the rest for testing."""
    stored = np.load(path)
    X, y, task = stored["X"].astype(np.float64), stored["y"], stored["task"]
    labels = np.unique(task)
    train, test = [], []
    for i in labels if tasks is None else rng.choice(labels, tasks, replace=False):
        rows = rng.permutation(np.flatnonzero(task == i))[:MOST_ROWS]
        cut = round(share * len(rows))
        train.append(rows[:cut])
        test.append(rows[cut:])
    parts = (np.concatenate(some) for some in (train, test))
    return Split(*((X[rows], y[rows], task[rows]) for rows in parts), {"standardize": standardize})


REAL = [  # file, shares for training, numbers of tasks (None: all), whether to standardise, seeds
    ("school", (0.2, 0.4, 0.75), (None,), True, 3),
    ("school", (0.4,), (15, 45), True, 5),
    ("isolet", (0.15, 0.25), (None,), True, 2),
    ("isolet", (0.2,), (2,), True, 3),
    ("hiv_pi", (0.05, 0.2), (None,), True, 3),
    ("hiv_pi", (0.05,), (1, 4), True, 5),
    ("hiv_pi", (0.2,), (None,), False, 3),
    ("gdsc", (0.2, 0.5), (None,), True, 1),
    ("computer", (0.5, 0.8), (None,), True, 5),
    ("computer", (0.5,), (5, 60), True, 5),
    ("sarcos", (0.02, 0.2), (None,), True, 3),
    ("wine", (0.02, 0.2), (None,), True, 3),
]


@dataclass(frozen=True)
class Study:
    """One problem: its kind, how to make a split, and how many of them."""

    kind: str
    name: str
    seeds: int
    make: Callable[[np.random.Generator], Split]


def studies() -> Iterator[Study]:
    for size in SIZES:
        for m in MANY:
            seeds = 4 if m < 10 else 2
            made = partial(_study, m=m, size=size, seeds=seeds)
            yield made("null", no_features, 1.0)
            for noise in (0.05, 0.5):
                yield made("shared support", shared_support, noise)
                yield made("own support", own_support, noise)
            yield made("dense effects", dense_effects, 0.5)
            yield made("copies", copies, 0.5)
    for m, n, d, sigma in ((15, 40, 250, 0.01), (20, 30, 200, 0.005), (10, 60, 300, 0.001)):
        yield Study("paper", f"paper m={m}", 5, partial(paper, m, n, d, sigma))
    folder = Path(os.environ.get("MSMTFL_DATA", "no folder"))
    for file, shares, numbers, standardize, seeds in REAL:
        path = folder / f"{file}.npz"
        for share in shares if path.exists() else ():
            for tasks in numbers:
                name = f"{file} {share:.0%}{f' m={tasks}' if tasks else ''}{'' if standardize else ' raw'}"
                yield Study("real", name, seeds, partial(real, path, share, tasks, standardize))


def _study(kind: str, effects: Callable, noise: float, *, m: int, size: str, seeds: int) -> Study:
    text = f"{kind} {size} m={m}" + (f" noise={noise:g}" if noise < 1 else "")
    return Study(kind, text, seeds, partial(gaussian, effects, m, size, noise))


# ------------------------------------------------------------------ fits


def mean_square(X: np.ndarray, task: np.ndarray, standardize: bool = False, fit_intercept: bool = True) -> float:
    """rho_bar: of all columns in all tasks that vary."""
    parts = [X[task == i] for i in np.unique(task)]
    squares = np.array([np.mean((part - part.mean(axis=0) * fit_intercept) ** 2, axis=0) for part in parts])
    return 1.0 if standardize else float(squares[squares > 0].mean())


class Fits:
    """`MSMTFL` on one split at one share of lam_max, with any theta; its stage 1 is the lasso."""

    def __init__(self, split: Split, share: float):
        self.split = split
        self.lasso = MSMTFL(max_stages=1, **split.options).fit(*split.train[:2], task=split.train[2])
        if share != SHARES[0]:
            options = {"lam": share * self.lasso.lam_max_, "max_stages": 1}
            self.lasso = MSMTFL(**options, **split.options).fit(*split.train[:2], task=split.train[2])
        _, y, task = split.test
        self.tested = np.isin(task, [i for i in np.unique(task) if np.ptp(y[task == i]) > 0])
        self.m, self.d = self.lasso.coef_.shape
        self.rows = len(split.train[1]) / self.m
        self.unit = unit(self.lasso.lam_, self.m, mean_square(*split.train[::2], **split.options))
        self.known: dict[float | str | None, tuple[float, int]] = {np.inf: (self.error(self.lasso), 0)}

    def theta(self, rule: str) -> float | str | None:
        if rule in ITSELF:
            return ITSELF[rule]
        norms = self.lasso.row_norms_
        if rule in JUMPS:
            theta = first_jump(norms, JUMPS[rule](self.rows))
        else:
            ratio, medians = RATIOS[rule]
            theta = max(ratio(self.m) * self.unit, medians * float(np.median(norms)))
        return theta if theta <= norms.max() else np.inf

    def outcome(self, rule: str) -> tuple[float, int]:
        """Test nMSE, and how many features are free in the end."""
        theta = self.theta(rule)
        if theta not in self.known:
            X, y, task = self.split.train
            model = MSMTFL(self.lasso.lam_, theta, **self.split.options).fit(X, y, task=task)
            self.known[theta] = self.error(model), len(model.stages_[-1].free_rows)
        return self.known[theta]

    def error(self, model: MSMTFL) -> float:
        """Tasks whose test targets do not vary are left out."""
        X, y, task = (part[self.tested] for part in self.split.test)
        return float(nmse(y, model.predict(X, task=task), task=task))


@dataclass(frozen=True)
class Outcome:
    """nMSE and free features of a rule (seeds, shares), and what the lasso keeps at the default lam, a share (seeds,)."""

    study: Study
    m: int
    lasso: np.ndarray
    nmse: dict[str, np.ndarray]
    free: dict[str, np.ndarray]
    kept: np.ndarray

    def relative(self, rule: str, at: int) -> float:
        """nMSE of a rule over the lasso's, both means over seeds."""
        return float(self.nmse[rule][:, at].mean() / self.lasso[:, at].mean())


def run_study(study: Study, seeds: int, series: int, shares: tuple[float, ...]) -> Outcome:
    table = {rule: np.zeros((2, seeds, len(shares))) for rule in RULES}
    lasso, kept = np.zeros((seeds, len(shares))), np.zeros(seeds)
    for seed in range(seeds):
        split = study.make(np.random.default_rng([series, zlib.crc32(study.name.encode()), seed]))
        for k, share in enumerate(shares):
            fits = Fits(split, share)
            lasso[seed, k] = fits.known[np.inf][0]
            if k == 0:
                kept[seed] = np.count_nonzero(fits.lasso.coef_) / fits.lasso.coef_.size
            for rule in RULES:
                table[rule][:, seed, k] = fits.outcome(rule)
    errors, free = ({rule: values[q] for rule, values in table.items()} for q in (0, 1))
    return Outcome(study, fits.m, lasso, errors, free, kept)


# ------------------------------------------------------------------ tables


def print_table(title: str, head: list[str], lines: list[list[str]]) -> None:
    print(f"\n### {title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for line in lines:
        print(f"| {' | '.join(line)} |")


def print_lasso(outcomes: list[Outcome]) -> None:
    lines = [
        [o.study.name, f"{o.m}", f"{o.lasso[:, 0].mean():.3f}", f"{100 * o.kept.mean():.0f} %", f"{len(o.lasso)}"]
        for o in outcomes
    ]
    print_table("The lasso at 0.1 lam_max", ["problem", "m", "nMSE", "coefficients that are not 0", "seeds"], lines)


def print_problems(outcomes: list[Outcome], rules: list[str]) -> None:
    def cell(o: Outcome, rule: str) -> str:
        return f"{o.relative(rule, 0):.3f} ({o.free[rule][:, 0].mean():.0f})"

    lines = [[o.study.name, *(cell(o, rule) for rule in rules)] for o in outcomes]
    print_table("nMSE relative to the lasso's at 0.1 lam_max (free features)", ["problem", *rules], lines)


def print_summary(outcomes: list[Outcome], shares: tuple[float, ...]) -> None:
    """Per kind of problem and rule: geometric mean of the relative nMSE over problems, and the worst of them."""
    kinds = {o.study.kind: [p for p in outcomes if p.study.kind == o.study.kind] for o in outcomes}
    for at, share in enumerate(shares):
        lines = []
        for rule in RULES:
            ratios = [np.array([o.relative(rule, at) for o in some]) for some in kinds.values()]
            lines.append([rule, *(f"{np.exp(np.log(r).mean()):.3f} ({r.max():.2f})" for r in ratios)])
        head = [f"{kind}, {len(some)}" for kind, some in kinds.items()]
        print_table(f"At {share:g} lam_max: nMSE relative to the lasso's, mean (worst)", ["ratio", *head], lines)


def chosen(only: str, smallest: bool) -> list[Study]:
    found = [study for study in studies() if only in study.name]
    return list({study.kind: study for study in reversed(found)}.values())[::-1] if smallest else found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--seeds", type=int, help="at most this many seeds")
    parser.add_argument("--series", choices=list(SERIES), default="confirm", help="of random numbers")
    parser.add_argument("--smallest", action="store_true", help="one problem of every kind, one seed, the default lam")
    options = parser.parse_args()
    some = chosen(options.only, options.smallest)
    if not some:
        parser.error(f"no problem's name contains {options.only!r}")
    shares = SHARES[:1] if options.smallest else SHARES
    most = 1 if options.smallest else options.seeds
    warnings.filterwarnings("ignore", ".*rows are un-penalised")  # what small thetas do is part of the question
    outcomes = []
    for study in some:
        began = time.perf_counter()
        outcomes.append(run_study(study, min(study.seeds, most or study.seeds), SERIES[options.series], shares))
        print(f"{study.name}: {time.perf_counter() - began:.0f} s", flush=True)
    print_lasso(outcomes)
    print_problems(outcomes, list(RULES))
    print_summary(outcomes, shares)


if __name__ == "__main__":
    main()
