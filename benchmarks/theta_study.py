"""Which theta is a good default? MSMTFL against the lasso at the same lam, over real and synthetic data.

    python benchmarks/theta_study.py                              # synthetic problems only
    MSMTFL_DATA=folder python benchmarks/theta_study.py           # real data sets too (about 20 minutes on one core)
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
from pathlib import Path

import numpy as np

from msmtfl import thresholds
from msmtfl.designs import DenseRows, DenseTask
from msmtfl.lasso import Lassos
from msmtfl.penalties import CappedRows
from msmtfl.problem import lam_max

SHARES = np.geomspace(1.0, 1e-2, 12)  # of lam_max
DEFAULT_SHARE = 0.1  # added to the grid
MAX_STAGES = 10

# ------------------------------------------------------------------ rules: (m, number of training rows, row norms) -> theta

RATIOS: dict[str, Callable[[int], float]] = {f"{r:g}": lambda m, r=r: r for r in 2.0 ** np.arange(-1, 12)}
RATIOS |= {f"{c:g} sqrt(m)": lambda m, c=c: c * m**0.5 for c in (1.0, 2.0, 4.0, 8.0)}
RATIOS |= {f"{c:g} m": lambda m, c=c: c * m for c in (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 50.0)}
RATIOS |= {f"max(4, {c:g} m)": lambda m, c=c: max(4.0, c * m) for c in (0.5, 1.0)}
RATIOS |= {f"max(8, {c:g} m)": lambda m, c=c: max(8.0, c * m) for c in (0.5, 1.0)}

JUMPS: dict[
    str, Callable[[np.ndarray, float], float]
] = {  # (positive row norms, mean n_i) -> smallest jump that counts
    "max/rows": lambda h, d, n: h.max() / n,
    "max/d": lambda h, d, n: h.max() / d,
    "max/nonzero": lambda h, d, n: h.max() / len(h),
    "max/sqrt(rows)": lambda h, d, n: h.max() / n**0.5,
    "max/sqrt(nonzero)": lambda h, d, n: h.max() / len(h) ** 0.5,
    "max/10": lambda h, d, n: h.max() / 10.0,
    "largest": lambda h, d, n: np.diff(np.sort(h)).max(initial=0.0) * (1.0 - 1e-9),
}


def first_jump(row_norms: np.ndarray, smallest: float) -> float:
    """The middle of the first jump between sorted positive row norms that exceeds `smallest`; inf without one."""
    h = np.sort(row_norms[row_norms > 0])
    large = np.flatnonzero(np.diff(h) > smallest)
    return float(h[large[0] : large[0] + 2].mean()) if large.size else np.inf


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


def unit_columns(W: np.ndarray, n: int, sigma: float, rng: np.random.Generator) -> Split:
    """The paper's data: columns of length 1, no intercept; test rows on the same scale."""
    train, test = [], []
    for w in W:
        X = rng.standard_normal((n, len(w)))
        X /= np.linalg.norm(X, axis=0)
        train.append((X, X @ w + sigma * rng.standard_normal(n)))
        X = rng.standard_normal((200, len(w))) / n**0.5
        test.append((X, X @ w + sigma * rng.standard_normal(200)))
    return Split(train, test, False, False, W)


def gaussian(W: np.ndarray, n: int, noise: float, rng: np.random.Generator) -> Split:
    """Standard normal columns; `noise` is the share of the noise in the variance of y."""
    sets = []
    for rows in (n, 200):
        Xs = rng.standard_normal((len(W), rows, W.shape[1]))
        size = np.sqrt((W**2).sum(axis=1) * noise / (1.0 - noise)) if noise < 1 else np.ones(len(W))
        signal = np.einsum("ind,id->in", Xs, W) if noise < 1 else 0.0
        ys = signal + size[:, None] * rng.standard_normal((len(W), rows))
        sets.append(list(zip(Xs, ys, strict=True)))
    return Split(*sets, False, True, W)


def real(path: Path, share: float, standardize: bool, at_most: int, rng: np.random.Generator) -> Split:
    """`share` of every task's rows (at most `at_most`) for training, the rest for testing."""
    stored = np.load(path)
    X, y, task = stored["X"].astype(np.float64), stored["y"], stored["task"]
    train, test = [], []
    for i in np.unique(task):
        rows = rng.permutation(np.flatnonzero(task == i))[:at_most]
        cut = round(share * len(rows))
        train.append((X[rows[:cut]], y[rows[:cut]]))
        test.append((X[rows[cut:]], y[rows[cut:]]))
    return Split(train, test, standardize, True)


REAL = [  # file, shares for training, whether to standardise, seeds, most rows per task
    ("isolet", (0.15, 0.2, 0.25), True, 3, 10_000),
    ("school", (0.2, 0.4, 0.75), True, 3, 10_000),
    ("hiv_pi", (0.05, 0.2), True, 3, 10_000),
    ("hiv_pi", (0.2,), False, 3, 10_000),
    ("gdsc", (0.2, 0.5), True, 2, 10_000),
    ("gdsc", (0.5,), False, 2, 10_000),
    ("computer", (0.5, 0.8), True, 5, 10_000),
    ("sarcos", (0.02, 0.2), True, 3, 2000),
    ("wine", (0.02, 0.2), True, 3, 10_000),
    ("wine", (0.2,), False, 3, 10_000),
]


def problems() -> Iterator[tuple[str, int, Callable[[np.random.Generator], Split]]]:
    """Name, seeds, and how to make one split."""
    for m, n, d, sigma in ((15, 40, 250, 0.01), (20, 30, 200, 0.005), (10, 60, 300, 0.001)):
        yield (
            f"paper m={m} n={n}",
            5,
            lambda rng, m=m, n=n, d=d, s=sigma: unit_columns(sparse_rows(m, d, rng), n, s, rng),
        )
    for noise in (0.05, 0.5):
        for m in (5, 30, 100):
            yield (
                f"dense m={m} noise={noise:g}",
                3,
                lambda rng, m=m, s=noise: gaussian(dense_rows(m, 200, rng), 50, s, rng),
            )
    for m in (5, 30, 100):
        yield f"own rows m={m}", 3, lambda rng, m=m: gaussian(own_rows(m, 200, rng), 50, 0.05, rng)
    yield "only noise m=30", 3, lambda rng: gaussian(np.zeros((30, 200)), 50, 1.0, rng)
    folder = Path(os.environ.get("MSMTFL_DATA", ""))
    for name, shares, standardize, seeds, at_most in REAL:
        path = folder / f"{name}.npz"
        if "MSMTFL_DATA" in os.environ and path.exists():
            for share in shares:
                label = f"{name} {share:.0%}{'' if standardize else ' raw'}"
                yield label, seeds, lambda rng, p=path, s=share, z=standardize, a=at_most: real(p, s, z, a, rng)


# ------------------------------------------------------------------ fits


class Fits:
    """Algorithm 1 on one split at one lam for many thetas; thetas that cap the same rows share their stages."""

    def __init__(self, split: Split):
        self.split = split
        self.designs = [DenseTask(DenseRows(X, None, split.fit_intercept), y) for X, y in split.train]
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
        return CappedRows(lam, np.inf, self.factors).row_norms(W.T)

    def run(self, theta: float) -> tuple[np.ndarray, int]:
        """W (m, d) after all stages, and the number of free rows."""
        penalty = CappedRows(self.lam, theta, self.factors)
        chain: tuple[bytes, ...] = ()  # the capped rows of every stage so far: W depends on them, not on theta
        W = self.known[chain]
        free = np.zeros(self.d, dtype=bool)
        for _ in range(MAX_STAGES - 1):
            capped = penalty.row_norms(W.T) >= theta
            if capped.tobytes() in chain or (not chain and not capped.any()):
                break
            chain, free = (*chain, capped.tobytes()), capped
            if chain not in self.known:
                self.known[chain], _ = self.lassos.solve(self.scale * penalty.weights(W.T).T, reference=W)
            W = self.known[chain]
        return W, int(free.sum())

    def error(self, W: np.ndarray) -> float:
        """Test nMSE, weighted by rows over the tasks whose test targets vary."""
        total = rows = 0.0
        for (X, y), w, design in zip(self.split.test, W, self.designs, strict=True):
            if np.ptp(y) > 0:
                b = design.intercept(w) if self.split.fit_intercept else 0.0
                total += len(y) * np.mean((y - X @ w - b) ** 2) / np.var(y)
                rows += len(y)
        return total / rows


@dataclass(frozen=True)
class Outcome:
    """Means over seeds, (lams,) per rule: test nMSE, number of free rows, |W - truth|_F (nan if unknown)."""

    name: str
    m: int
    nmse: dict[str, np.ndarray]
    free: dict[str, np.ndarray]
    distance: dict[str, np.ndarray]

    def relative(self, rule: str, where: str) -> float:
        """nMSE of a rule over the lasso's: at the default lam, the lasso's best lam, or each at its own best."""
        mine, lasso = self.nmse[rule], self.nmse["lasso"]
        if where == "own best":
            return float(mine.min() / lasso.min())
        at = int(np.argmin(np.abs(shares() - DEFAULT_SHARE))) if where == "default" else int(lasso.argmin())
        return float(mine[at] / lasso[at])


def shares() -> np.ndarray:
    return np.sort(np.append(SHARES, DEFAULT_SHARE))[::-1]


def study(name: str, seeds: int, make: Callable[[np.random.Generator], Split]) -> Outcome:
    rules = ["lasso", *(f"ratio {r}" for r in RATIOS), *(f"jump {r}" for r in JUMPS)]
    table = {rule: np.zeros((3, seeds, len(shares()))) for rule in rules}
    for seed in range(seeds):
        fits = Fits(make(np.random.default_rng(seed)))
        for k, share in enumerate(shares()):
            lam = share * fits.top
            h = fits.begin(lam)
            unit = thresholds.unit(lam, fits.m, fits.rho_bar)
            thetas = {"lasso": np.inf} | {f"ratio {r}": ratio(fits.m) * unit for r, ratio in RATIOS.items()}
            positive = h[h > 0]
            for r, smallest in JUMPS.items():
                few = len(positive) < 2
                thetas[f"jump {r}"] = np.inf if few else first_jump(h, smallest(positive, fits.d, fits.rows))
            seen: dict[int, tuple[float, float]] = {}
            for rule, theta in thetas.items():
                W, free = fits.run(theta)
                if id(W) not in seen:
                    truth = fits.split.truth
                    seen[id(W)] = fits.error(W), np.nan if truth is None else float(np.linalg.norm(W - truth))
                nmse, distance = seen[id(W)]
                table[rule][:, seed, k] = nmse, free, distance
    means = {rule: values.mean(axis=1) for rule, values in table.items()}
    return Outcome(name, fits.m, *({rule: means[rule][q] for rule in rules} for q in range(3)))


# ------------------------------------------------------------------ tables


def print_table(title: str, head: list[str], lines: list[list[str]]) -> None:
    print(f"\n### {title}\n\n| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for line in lines:
        print(f"| {' | '.join(line)} |")


def print_tables(outcomes: list[Outcome], rules: list[str], kind: str) -> None:
    for where in ("default", "lasso best", "own best"):
        print_table(
            f"{kind}: nMSE relative to the lasso, lam: {where}",
            ["problem", *rules],
            [[o.name, *(f"{o.relative(r, where):.3f}" for r in rules)] for o in outcomes],
        )
    at = int(np.argmin(np.abs(shares() - DEFAULT_SHARE)))
    print_table(
        f"{kind}: free rows at lam = {DEFAULT_SHARE} lam_max",
        ["problem", *rules],
        [[o.name, *(f"{o.free[r][at]:.0f}" for r in rules)] for o in outcomes],
    )
    known = [o for o in outcomes if np.isfinite(o.distance["lasso"]).all()]
    if known:
        print_table(
            f"{kind}: |W - truth|_F at its best lam, relative to the lasso's",
            ["problem", *rules],
            [[o.name, *(f"{o.distance[r].min() / o.distance['lasso'].min():.3f}" for r in rules)] for o in known],
        )


def print_summary(outcomes: list[Outcome], rules: list[str]) -> None:
    """Over problems: geometric mean and worst of the relative nMSE, and how often more than 1 % worse or better."""
    lines = []
    for rule in rules:
        line = [rule]
        for where in ("default", "lasso best", "own best"):
            r = np.array([o.relative(rule, where) for o in outcomes])
            line.append(f"{np.exp(np.log(r).mean()):.3f}")
            line.append(f"{r.max():.2f}")
            line.append(f"{(r > 1.01).sum()}/{(r < 0.99).sum()}")
        lines.append(line)
    head = ["rule"]
    for where in ("default lam", "lasso's best lam", "own best lam"):
        head += [f"{where}: mean", "worst", "worse/better"]
    print_table(f"Summary over {len(outcomes)} problems", head, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--seeds", type=int, help="fewer seeds than the study's own number")
    options = parser.parse_args()
    outcomes = []
    for name, seeds, make in problems():
        if options.only in name:
            began = time.perf_counter()
            outcomes.append(study(name, min(seeds, options.seeds or seeds), make))
            print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    ratios, jumps = [f"ratio {r}" for r in RATIOS], [f"jump {r}" for r in JUMPS]
    at = int(np.argmin(np.abs(shares() - DEFAULT_SHARE)))
    print_table(
        "The lasso",
        ["problem", "m", f"nMSE at {DEFAULT_SHARE}", "best nMSE", "best lam / lam_max"],
        [
            [
                o.name,
                f"{o.m}",
                f"{o.nmse['lasso'][at]:.4f}",
                f"{o.nmse['lasso'].min():.4f}",
                f"{shares()[o.nmse['lasso'].argmin()]:.3f}",
            ]
            for o in outcomes
        ],
    )
    print_tables(outcomes, ratios, "Ratios")
    print_tables(outcomes, jumps, "Jumps")
    print_summary(outcomes, ratios + jumps)


if __name__ == "__main__":
    main()
