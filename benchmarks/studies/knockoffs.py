"""False discoveries and power of `shared_features`, over simulated data sets.

    python benchmarks/studies/knockoffs.py --draws 200

Of 60 features 15 matter in all four tasks and 10 in a single one (heterogeneous: 15 in two to four tasks, with effects of
other sizes and signs in each, and 10 in one). Asked is who matters in at least r tasks. The mean false discovery proportion
stands with its standard error beside the rate asked for, 0.1 (r = 4: 0.2); `all signs` is the rule of Li and others, which
counts the negative signs of all tasks; `stability` are the features that stability selection of separate lassos finds in at
least r tasks (threshold 0.75, lam chosen on another data set), which promises no such rate.

    python benchmarks/studies/knockoffs.py --draws 200 --sums

draws knockoffs from sums of squares and products alone (`Moments`), without stability selection.

    python benchmarks/studies/knockoffs.py --draws 50 --loss logistic --samples 250 --only 0.5

has classes, or counts that spread more than Poisson's (`--loss poisson`), in the place of numbers.

    MSMTFL_DATA=... python benchmarks/studies/knockoffs.py --hiv

are mutations of the HIV protease that `shared_features` declares to matter for the resistance to a drug, drug by drug (the
drugs share isolates), beside the positions of major mutations of the lists of Stanford's HIVDB and IAS-USA. A mutation at
another position is not known to be false: accessory mutations are listed at many. By chance, declared mutations would be at
major positions as often as all mutations of the data are.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from msmtfl import LassoMTL, LassoMTLCV, Moments, MSMTFLClassifier, stability_selection, stack_tasks
from msmtfl.inference import shared_features
from msmtfl.inference.knockoffs import knockoff_plus, scores_of

M, D, EVERYWHERE, SINGLE = 4, 60, 15, 10
SETTINGS = {
    "independent": (0.0, False),
    "correlated 0.5": (0.5, False),
    "correlated 0.9": (0.9, False),
    "heterogeneous, 0.5": (0.5, True),
}
QUESTIONS = {1: 0.1, 2: 0.1, 3: 0.1, 4: 0.2}
MAJOR = {
    30,
    32,
    33,
    46,
    47,
    48,
    50,
    54,
    76,
    82,
    84,
    88,
    90,
}  # positions of major resistance mutations to protease inhibitors


def drawn(seed: int, n: int, rho: float, heterogeneous: bool, effect: float) -> tuple[Any, Any, Any, Any]:
    """Samples, targets, labels and true coefficients (m, d)."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(rho ** np.abs(np.subtract.outer(np.arange(D), np.arange(D))))
    order, W = rng.permutation(D), np.zeros((M, D))
    shared, single = order[:EVERYWHERE], order[EVERYWHERE : EVERYWHERE + SINGLE]
    W[:, shared] = 1.0
    if heterogeneous:
        W[:, shared] = rng.choice([-1, 1], (M, EVERYWHERE)) * rng.uniform(0.7, 1.5, (M, EVERYWHERE))
        for j in shared:
            W[rng.choice(M, rng.integers(0, M - 1), replace=False), j] = 0.0
    W[rng.integers(M, size=SINGLE), single] = 1.5
    W *= effect
    Xs = [rng.standard_normal((n, D)) @ root.T for _ in range(M)]
    ys = [X @ w + rng.standard_normal(n) for X, w in zip(Xs, W, strict=True)]
    return *stack_tasks(Xs, ys), W


def all_signs(V: Any, r: int, fdr: float, random: Any) -> Any:
    """The partial-conjunction test of Li and others, with the threshold 1/2."""
    m, d = V.shape
    size = np.sort(np.abs(V), axis=0)[m - r :].prod(axis=0)
    coins, negative = np.maximum(m - r + 1 - (V == 0).sum(axis=0), 0), (V < 0).sum(axis=0)
    p = binom.cdf(negative - 1, coins, 0.5) + random.random(d) * binom.pmf(negative, coins, 0.5)
    return knockoff_plus(np.where(p <= 0.5, size, -size), fdr)


def rates(found: Any, true: Any) -> tuple[float, float]:
    """The false discovery proportion, and the share of true ones that are found."""
    return np.sum(found & ~true) / max(found.sum(), 1), np.sum(found & true) / max(true.sum(), 1)


def measured(
    draws: int,
    n: int,
    rho: float,
    heterogeneous: bool,
    effect: float,
    stability: bool,
    first: int = 0,
    sums: bool = False,
    loss: str = "squared",
) -> dict[Any, Any]:
    """By question and method: false discovery proportions and powers, one per data set."""
    X, y, task, _ = drawn(10**6, n, rho, heterogeneous, effect)
    lam = LassoMTLCV(selection="1se").fit(X, y, task=task).lam_ if stability else 1.0
    out: dict[Any, list[tuple[float, float]]] = {}
    for seed in range(first, first + draws):
        X, y, task, W = drawn(seed, n, rho, heterogeneous, effect)
        if loss != "squared":
            y, stability = of_loss(y, loss, np.random.default_rng(seed)), False
        known = (Moments().update(X, y, task=task),) if sums else (X, y)
        asked = MSMTFLClassifier() if loss == "logistic" else LassoMTL(loss=loss)
        V = shared_features(asked, *known, task=None if sums else task, r=1, random_state=seed).statistics
        often = stability_selection(LassoMTL(lam), X, y, task=task, n_pairs=15).selected() if stability else None
        for r, fdr in QUESTIONS.items():
            true = (W != 0).sum(axis=0) >= r
            out.setdefault((r, "shared_features"), []).append(rates(knockoff_plus(scores_of(V, r), fdr), true))
            out.setdefault((r, "all signs"), []).append(rates(all_signs(V, r, fdr, np.random.default_rng(seed)), true))
            if often is not None:
                out.setdefault((r, "stability"), []).append(rates(often.sum(axis=0) >= r, true))
    return {key: np.array(values) for key, values in out.items()}


def of_loss(y: Any, loss: str, random: Any) -> Any:
    """Classes, or counts, in the place of numbers y."""
    if loss == "logistic":
        return y + random.logistic(size=len(y)) > 0
    return random.poisson(np.exp(np.clip(0.5 * y, -5.0, 3.0)))  # the noise of y makes them spread more


def position(mutation: str) -> int:
    """Of a mutation such as 90M."""
    return int(re.findall(r"\d+", mutation)[0])


def declared_by_drug(X: Any, y: Any, drug: Any, names: Any, fdr: float, seeds: int) -> list[dict[str, Any]]:
    """Per drug: samples, mutations declared at the first seed, how many of them (mean over seeds, as of all others) and how
    many at major positions, and at how many of the major positions."""
    at, out = np.array([position(name) for name in names]), []
    major = np.isin(at, sorted(MAJOR))
    for name in dict.fromkeys(drug.tolist()):
        rows = drug == name
        Z = X[rows].astype(float)
        runs = [shared_features(LassoMTL(), Z, y[rows], r=1, fdr=fdr, random_state=k).declared for k in range(seeds)]
        known = major & (Z.min(axis=0) < Z.max(axis=0))
        out.append(
            {
                "drug": name,
                "samples": int(rows.sum()),
                "declared": np.mean([one.sum() for one in runs]),
                "at major": np.mean([(one & major).sum() / max(one.sum(), 1) for one in runs]),
                "by chance": known.sum() / (Z.min(axis=0) < Z.max(axis=0)).sum(),
                "positions": np.mean([len(set(at[one]) & MAJOR) for one in runs]),
                "missed": sorted(MAJOR - set(at[np.mean(runs, axis=0) >= 0.5])),
            }
        )
    return out


def show_hiv(fdr: float, seeds: int) -> None:
    """The table of `--hiv`."""
    if "MSMTFL_DATA" not in os.environ:
        raise SystemExit("set MSMTFL_DATA to the folder that holds hiv_pi.npz.")
    data = np.load(Path(os.environ["MSMTFL_DATA"]) / "hiv_pi.npz")
    X, y, drug, names = data["X"], data["y"], data["task_names"][data["task"]], data["feature_names"]
    try:
        shared_features(LassoMTL(), X, y, task=drug, r=2, fdr=fdr, groups=data["isolate"])
    except ValueError as error:
        print(f"r=2: {error}\n")
    print(
        f"{'drug':5} {'samples':>7} {'declared':>8} {'at major':>8} {'by chance':>9} {'positions':>12}  not among them"
    )
    for one in declared_by_drug(X, y, drug, names, fdr, seeds):
        print(
            f"{one['drug']:5} {one['samples']:7} {one['declared']:8.1f} {one['at major']:8.2f} {one['by chance']:9.2f} "
            f"{one['positions']:6.1f} of {len(MAJOR)}  {', '.join(map(str, one['missed']))}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first data set: others give other data sets")
    parser.add_argument("--samples", type=int, default=150, help="per task")
    parser.add_argument("--effect", type=float, default=0.45)
    parser.add_argument("--only", default="", help="settings whose names hold this")
    parser.add_argument("--sums", action="store_true", help="draw knockoffs from Moments")
    parser.add_argument(
        "--loss", choices=["squared", "logistic", "poisson"], default="squared", help="of other targets"
    )
    parser.add_argument("--hiv", action="store_true", help="real data instead: mutations of the HIV protease, per drug")
    parser.add_argument("--fdr", type=float, default=0.1, help="rate of --hiv")
    parser.add_argument("--seeds", type=int, default=10, help="draws of knockoffs of --hiv")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.hiv:
        show_hiv(args.fdr, args.seeds)
        return
    print(f"{'':20} {'r':>2} {'method':16} {'rate':>5} {'false':>7} {'s.e.':>6} {'power':>6}")
    for name, (rho, heterogeneous) in ((k, v) for k, v in SETTINGS.items() if args.only in k):
        for (r, method), values in measured(
            args.draws, args.samples, rho, heterogeneous, args.effect, not args.sums, args.first, args.sums, args.loss
        ).items():
            (false, power), se = values.mean(axis=0), values[:, 0].std() / np.sqrt(len(values))
            rate = "" if method == "stability" else f"{QUESTIONS[r]:.2f}"
            print(f"{name:20} {r:2} {method:16} {rate:>5} {false:7.3f} {se:6.3f} {power:6.2f}", flush=True)


if __name__ == "__main__":
    main()
