"""Which theta is a good default? MSMTFL against the lasso at the same lam, over real and synthetic data.

    python benchmarks/theta_study.py                              # synthetic problems only
    MSMTFL_DATA=folder python benchmarks/theta_study.py           # real data sets too (about 10 minutes on one core)
    python benchmarks/theta_study.py --only dense --seeds 1       # problems whose name contains "dense"

theta = ratio * m lam / rho_bar with the ratio a constant or a function of m, or at a jump of the sorted row norms
of stage 1. Per problem and rule: the test nMSE (MSE / variance, weighted by test rows over tasks, mean over seeds)
relative to the lasso's, at lam = 0.1 lam_max, at the lasso's best lam, and each at its own best lam of the grid.
Below 1 is better than the lasso.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from msmtfl import thresholds
from msmtfl.designs import DenseRows, RowTask
from msmtfl.lasso import Lassos
from msmtfl.penalties import ConcaveRows
from msmtfl.problem import lam_max

DEFAULT_SHARE = 0.1  # of lam_max
SHARES = np.sort(np.append(np.geomspace(1.0, 1e-2, 12), DEFAULT_SHARE))[::-1]
AT_DEFAULT = int(np.argmin(np.abs(SHARES - DEFAULT_SHARE)))
WHERE = ("default lam", "lasso's best lam", "own best lam")
MAX_STAGES = 10
TEST_ROWS = 200  # per task, synthetic
MOST_ROWS = 2000  # per task, real

# ------------------------------------------------------------------ rules

CONSTANTS: dict[str, Callable[[int], float]] = {f"{r:g}": lambda m, r=r: r for r in 2.0 ** np.arange(-1, 8)}
OF_M: dict[str, Callable[[int], float]] = {
    **{f"{c:g} sqrt(m)": lambda m, c=c: c * m**0.5 for c in (1.0, 2.0, 4.0)},
    **{f"{c:g} m": lambda m, c=c: c * m for c in (0.25, 0.5, 1.0, 2.0, 4.0, 11.0)},
    **{f"max({a:g}, m/2)": lambda m, a=a: max(a, m / 2) for a in (4.0, 6.0, 8.0)},
    "4 + m/2": lambda m: 4.0 + m / 2,
}
JUMPS: dict[str, Callable[[np.ndarray, int, float], float]] = {  # sorted positive norms, d, mean n_i -> least jump
    "max/rows": lambda h, d, n: h[-1] / n,
    "max/d": lambda h, d, n: h[-1] / d,
    "max/nonzero": lambda h, d, n: h[-1] / len(h),
    "max/sqrt(rows)": lambda h, d, n: h[-1] / n**0.5,
    "max/sqrt(nonzero)": lambda h, d, n: h[-1] / len(h) ** 0.5,
    "max/sqrt(d)": lambda h, d, n: h[-1] / d**0.5,
    "max/10": lambda h, d, n: h[-1] / 10.0,
    "largest": lambda h, d, n: (1.0 - 1e-9) * np.diff(h).max(initial=0.0),
}


def first_jump(positive: np.ndarray, least: float) -> float:
    """The middle of the first jump above `least` in the sorted norms, a zero first; inf without one."""
    norms = np.concatenate([[0.0], positive])
    large = np.flatnonzero(np.diff(norms) > least)
    return float(norms[large[0] : large[0] + 2].mean()) if large.size else np.inf


def all_thetas(row_norms: np.ndarray, m: int, rows: float, unit: float) -> dict[str, float]:
    """theta of every rule; the lasso is inf."""
    thetas = {"lasso": np.inf} | {rule: ratio(m) * unit for rule, ratio in (CONSTANTS | OF_M).items()}
    positive = np.sort(row_norms[row_norms > 0])
    for rule, least in JUMPS.items():
        thetas[rule] = first_jump(positive, least(positive, len(row_norms), rows)) if positive.size else np.inf
    return thetas


# ------------------------------------------------------------------ problems


@dataclass(frozen=True)
class Split:
    """Training and test rows of every task, and the true W (m, d) where it is known."""

    train: list[tuple[np.ndarray, np.ndarray]]
    test: list[tuple[np.ndarray, np.ndarray]]
    standardize: bool
    fit_intercept: bool
    truth: np.ndarray | None = None


def sparse_rows(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """W (m, d) of the paper: 90 % of the rows zero, 80 % of the other entries too."""
    W = np.zeros((m, d))
    rows = rng.choice(d, d // 10, replace=False)
    W[:, rows] = rng.uniform(-10, 10, (m, len(rows)))
    live = np.flatnonzero(W)
    W.flat[rng.choice(live, int(0.8 * len(live)), replace=False)] = 0.0
    return W


def dense_rows(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Ten rows that all tasks use."""
    W = np.zeros((m, d))
    W[:, rng.choice(d, 10, replace=False)] = rng.uniform(-10, 10, (m, 10))
    return W


def own_rows(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Ten rows per task, each task its own: nothing is shared."""
    W = np.zeros((m, d))
    for w in W:
        w[rng.choice(d, 10, replace=False)] = rng.uniform(-10, 10, 10)
    return W


def no_rows(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Nothing to find."""
    return np.zeros((m, d))


def paper(m: int, n: int, d: int, sigma: float, rng: np.random.Generator) -> Split:
    """The paper's data: columns of length 1, no intercept; test rows on the same scale."""
    W = sparse_rows(m, d, rng)
    train, test = [], []
    for w in W:
        X = rng.standard_normal((n, d))
        X /= np.linalg.norm(X, axis=0)
        train.append((X, X @ w + sigma * rng.standard_normal(n)))
        X = rng.standard_normal((TEST_ROWS, d)) / n**0.5
        test.append((X, X @ w + sigma * rng.standard_normal(TEST_ROWS)))
    return Split(train, test, False, False, W)


def gaussian(make_rows: Callable, m: int, noise: float, rng: np.random.Generator) -> Split:
    """50 rows and 200 standard normal columns per task; `noise` is its share of the variance of y."""
    W = make_rows(m, 200, rng)
    sigma = np.sqrt((W**2).sum(axis=1) * noise / (1.0 - noise)) if noise < 1 else np.ones(m)
    sets = []
    for rows in (50, TEST_ROWS):
        Xs = rng.standard_normal((m, rows, 200))
        ys = np.einsum("ind,id->in", Xs, W) + sigma[:, None] * rng.standard_normal((m, rows))
        sets.append(list(zip(Xs, ys)))
    return Split(*sets, False, True, W if W.any() else None)


def real(path: Path, share: float, tasks: int | None, standardize: bool, rng: np.random.Generator) -> Split:
    """`share` of the rows of every task (or of `tasks` random ones) for training, the rest for testing."""
    stored = np.load(path)
    X, y, task = stored["X"].astype(np.float64), stored["y"], stored["task"]
    labels = np.unique(task)
    train, test = [], []
    for i in labels if tasks is None else rng.choice(labels, tasks, replace=False):
        rows = rng.permutation(np.flatnonzero(task == i))[:MOST_ROWS]
        cut = round(share * len(rows))
        train.append((X[rows[:cut]], y[rows[:cut]]))
        test.append((X[rows[cut:]], y[rows[cut:]]))
    return Split(train, test, standardize, True)


REAL = [  # file, shares for training, numbers of tasks (None: all), whether to standardise, seeds
    ("isolet", (0.15, 0.2, 0.25), (None,), True, 3),
    ("isolet", (0.2,), (2,), True, 3),
    ("school", (0.2, 0.4, 0.75), (None,), True, 3),
    ("school", (0.4,), (15, 45), True, 5),
    ("hiv_pi", (0.05, 0.2), (None,), True, 3),
    ("hiv_pi", (0.05,), (1, 4), True, 5),
    ("hiv_pi", (0.2,), (None,), False, 3),
    ("gdsc", (0.2, 0.5), (None,), True, 1),
    ("gdsc", (0.5,), (None,), False, 1),
    ("computer", (0.5, 0.8), (None,), True, 5),
    ("computer", (0.5,), (5, 60), True, 5),
    ("sarcos", (0.02, 0.2), (None,), True, 3),
    ("wine", (0.02, 0.2), (None,), True, 3),
    ("wine", (0.2,), (None,), False, 3),
]


@dataclass(frozen=True)
class Study:
    """One problem: its kind (sharing, alone or real), how to make a split, and how many of them."""

    kind: str
    name: str
    seeds: int
    make: Callable[[np.random.Generator], Split]


def studies() -> Iterator[Study]:
    for m, n, d, sigma in ((15, 40, 250, 0.01), (20, 30, 200, 0.005), (10, 60, 300, 0.001)):
        yield Study("sharing", f"paper m={m}", 5, partial(paper, m, n, d, sigma))
    for noise in (0.05, 0.5):
        for m in (2, 5, 10, 30, 100):
            seeds = 2 if m > 10 else 5
            yield Study("sharing", f"dense m={m} noise={noise:g}", seeds, partial(gaussian, dense_rows, m, noise))
    for m in (5, 30, 100):
        yield Study("alone", f"own rows m={m}", 2 if m > 10 else 5, partial(gaussian, own_rows, m, 0.05))
    yield Study("alone", "only noise m=30", 2, partial(gaussian, no_rows, 30, 1.0))
    folder = Path(os.environ.get("MSMTFL_DATA", "no folder"))
    for file, shares, numbers, standardize, seeds in REAL:
        path = folder / f"{file}.npz"
        for share in shares if path.exists() else ():
            for tasks in numbers:
                name = f"{file} {share:.0%}{f' m={tasks}' if tasks else ''}{'' if standardize else ' raw'}"
                yield Study("real", name, seeds, partial(real, path, share, tasks, standardize))


# ------------------------------------------------------------------ fits


class Fits:
    """Algorithm 1 on one split at one lam for many thetas; thetas that cap the same rows share their stages."""

    def __init__(self, split: Split):
        self.split = split
        self.designs = [RowTask(DenseRows(X, None, split.fit_intercept), y) for X, y in split.train]
        squares = np.array([design.squares / design.n for design in self.designs])
        units = np.sqrt(np.where(squares > 0, squares, 1.0)) if split.standardize else np.ones_like(squares)
        self.factors = units.T
        self.lassos = Lassos(self.designs, units=units, reuse=True)
        self.scale = 0.5 * len(self.designs) * np.array([[design.n] for design in self.designs])
        self.top = lam_max(self.designs, self.factors)
        self.rho_bar = thresholds.mean_square(self.designs, units)
        self.rows = float(np.mean([design.n for design in self.designs]))
        self.m, self.d = squares.shape

    def begin(self, lam: float) -> np.ndarray:
        """Stage 1 at lam; its row norms."""
        self.lam = lam
        self.known: dict[tuple[bytes, ...], np.ndarray] = {}
        W, _ = self.lassos.solve(self.scale * (lam * self.factors).T)
        self.known[()] = W
        return ConcaveRows(lam, np.inf, self.factors).row_norms(W.T)

    def run(self, theta: float) -> tuple[np.ndarray, int]:
        """W (m, d) after all stages, and the number of free rows."""
        penalty = ConcaveRows(self.lam, theta, self.factors)
        chain: tuple[bytes, ...] = ()  # the capped rows of every stage so far: W depends on them, not on theta
        W = self.known[chain]
        free = np.zeros(self.d, dtype=bool)
        for _ in range(MAX_STAGES - 1):
            capped = penalty.row_norms(W.T) >= theta
            if capped.tobytes() in chain or (not chain and not capped.any()):
                break
            chain, free = (*chain, capped.tobytes()), capped
            if chain not in self.known:
                self.known[chain], _ = self.lassos.solve(self.scale * penalty.weights(capped).T, reference=W)
            W = self.known[chain]
        return W, int(free.sum())

    def error(self, W: np.ndarray) -> float:
        """Test nMSE, weighted by rows over the tasks whose test targets vary."""
        total = rows = 0.0
        for (X, y), w, design in zip(self.split.test, W, self.designs, strict=True):
            if np.ptp(y) > 0:
                b = float(design.intercepts(w[None])[0]) if self.split.fit_intercept else 0.0
                total += len(y) * np.mean((y - X @ w - b) ** 2) / np.var(y)
                rows += len(y)
        return total / rows

    def distance(self, W: np.ndarray) -> float:
        """|W - truth|_F; nan if the truth is not known."""
        return np.nan if self.split.truth is None else float(np.linalg.norm(W - self.split.truth))


@dataclass(frozen=True)
class Outcome:
    """Means over seeds, (lams,) per rule: test nMSE, number of free rows, |W - truth|_F (nan if unknown)."""

    kind: str
    name: str
    m: int
    nmse: dict[str, np.ndarray]
    free: dict[str, np.ndarray]
    distance: dict[str, np.ndarray]

    def relative(self, rule: str, where: str) -> float:
        """nMSE of a rule over the lasso's, at one of WHERE."""
        mine, lasso = self.nmse[rule], self.nmse["lasso"]
        if where == "own best lam":
            return float(mine.min() / lasso.min())
        at = AT_DEFAULT if where == "default lam" else int(lasso.argmin())
        return float(mine[at] / lasso[at])


def run_study(study: Study, seeds: int) -> Outcome:
    rules = ["lasso", *CONSTANTS, *OF_M, *JUMPS]
    table = {rule: np.zeros((3, seeds, len(SHARES))) for rule in rules}
    for seed in range(seeds):
        fits = Fits(study.make(np.random.default_rng(seed)))
        for k, share in enumerate(SHARES):
            lam = share * fits.top
            norms = fits.begin(lam)
            measured: dict[int, tuple[float, float]] = {}
            for rule, theta in all_thetas(norms, fits.m, fits.rows, thresholds.unit(lam, fits.m, fits.rho_bar)).items():
                W, free = fits.run(theta)
                if id(W) not in measured:
                    measured[id(W)] = fits.error(W), fits.distance(W)
                nmse, distance = measured[id(W)]
                table[rule][:, seed, k] = nmse, free, distance
    means = {rule: values.mean(axis=1) for rule, values in table.items()}
    return Outcome(study.kind, study.name, fits.m, *({rule: means[rule][q] for rule in rules} for q in range(3)))


# ------------------------------------------------------------------ tables


def print_table(title: str, head: list[str], lines: list[list[str]]) -> None:
    print(f"\n### {title}\n\n| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for line in lines:
        print(f"| {' | '.join(line)} |")


def print_lasso(outcomes: list[Outcome]) -> None:
    lines = []
    for o in outcomes:
        lasso = o.nmse["lasso"]
        lines.append(
            [o.name, f"{o.m}", f"{lasso[AT_DEFAULT]:.4f}", f"{lasso.min():.4f}", f"{SHARES[lasso.argmin()]:.3f}"]
        )
    print_table(
        "The lasso", ["problem", "m", f"nMSE at {DEFAULT_SHARE} lam_max", "best nMSE", "at lam / lam_max"], lines
    )


def print_problems(outcomes: list[Outcome], title: str, rules: list[str]) -> None:
    """One line per problem: nMSE relative to the lasso; free rows; distance to the true W."""
    for where in WHERE:
        print_table(
            f"{title}: nMSE relative to the lasso, {where}",
            ["problem", *rules],
            [[o.name, *(f"{o.relative(r, where):.3f}" for r in rules)] for o in outcomes],
        )
    print_table(
        f"{title}: free rows at lam = {DEFAULT_SHARE} lam_max",
        ["problem", *rules],
        [[o.name, *(f"{o.free[r][AT_DEFAULT]:.0f}" for r in rules)] for o in outcomes],
    )
    known = [o for o in outcomes if np.isfinite(o.distance["lasso"]).all()]
    print_table(
        f"{title}: |W - truth|_F relative to the lasso, own best lam",
        ["problem", *rules],
        [[o.name, *(f"{o.distance[r].min() / o.distance['lasso'].min():.3f}" for r in rules)] for o in known],
    )


def print_summary(outcomes: list[Outcome], rules: list[str]) -> None:
    """Per kind of problem: geometric mean (worst) of the relative nMSE, and how many are more than 1 % worse / better."""
    for kind in dict.fromkeys(o.kind for o in outcomes):
        some = [o for o in outcomes if o.kind == kind]
        lines = []
        for rule in rules:
            line = [rule]
            for where in WHERE:
                r = np.array([o.relative(rule, where) for o in some])
                line.append(f"{np.exp(np.log(r).mean()):.3f} ({r.max():.2f}) {(r > 1.01).sum()}/{(r < 0.99).sum()}")
            lines.append(line)
        print_table(f"Summary, {kind}, {len(some)} problems: mean (worst) worse/better", ["rule", *WHERE], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--seeds", type=int, help="at most this many seeds")
    options = parser.parse_args()
    outcomes = []
    for study in studies():
        if options.only in study.name:
            began = time.perf_counter()
            outcomes.append(run_study(study, min(study.seeds, options.seeds or study.seeds)))
            print(f"{study.name}: {time.perf_counter() - began:.0f} s", flush=True)
    if not outcomes:
        parser.error(f"no problem's name contains {options.only!r}")
    print_lasso(outcomes)
    for title, rules in (("Constant ratios", CONSTANTS), ("Ratios from m", OF_M), ("Jumps", JUMPS)):
        print_problems(outcomes, title, list(rules))
    print_summary(outcomes, [*CONSTANTS, *OF_M, *JUMPS])


if __name__ == "__main__":
    main()
