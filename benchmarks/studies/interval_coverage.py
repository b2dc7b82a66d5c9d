"""How often intervals of coefficients cover what they are about.

    python benchmarks/studies/interval_coverage.py --draws 40

`split`: of `split_intervals`, the least-squares coefficient within the features selected in a task, apart for selected
entries without and with an effect. `debiased`: of `debiased_intervals`, the true coefficients, apart for entries without
(null) and with an effect (active). `bootstrap on the samples of the fit`: what not to do. Nominal are 95 %.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from msmtfl import MSMTFLCV, LassoMTL, LassoMTLCV, bootstrap_intervals, stack_tasks
from msmtfl.inference import debiased as nodes
from msmtfl.inference import debiased_intervals, split_intervals

LEVEL = 0.95


def drawn(seed: int, n: int, d: int, m: int = 4, rho: float = 0.5, active: int = 5) -> tuple[Any, ...]:
    """Samples, targets, labels, true coefficients and the covariance of the columns: `active` features matter in all tasks,
    with effects of 0.3 to 1 of either sign; noise of variance 1."""
    rng = np.random.default_rng(seed)
    cov = rho ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    root, W = np.linalg.cholesky(cov), np.zeros((m, d))
    W[:, rng.choice(d, active, replace=False)] = rng.choice([-1, 1], (m, active)) * rng.uniform(0.3, 1.0, (m, active))
    Xs = [rng.standard_normal((n, d)) @ root.T for _ in range(m)]
    ys = [X @ w + rng.standard_normal(n) for X, w in zip(Xs, W, strict=True)]
    return *stack_tasks(Xs, ys), W, cov


def within(W: Any, cov: Any, support: Any) -> Any:
    """(m, d): the coefficients of regressions, in the population, on the features selected."""
    out = np.full(W.shape, np.nan)
    for i, S in enumerate(support):
        out[i, S] = np.linalg.solve(cov[np.ix_(S, S)], cov[S] @ W[i])
    return out


def split(draws: int, n: int, d: int, rho: float, model: Any) -> tuple[Any, Any]:
    """Whether intervals cover, of selected entries without an effect and of those with one."""
    null, active = [], []
    for seed in range(draws):
        X, y, task, W, cov = drawn(seed, n, d, rho=rho)
        found = split_intervals(model, X, y, task=task, level=LEVEL, random_state=seed)
        for s in range(2):
            truth = within(W, cov, found.support[s])
            known = np.isfinite(found.estimate[s])
            covered = (found.lower[s] <= truth) & (truth <= found.upper[s])
            null.append(covered[known & (W == 0)])
            active.append(covered[known & (W != 0)])
    return np.concatenate(null), np.concatenate(active)


def debiased(draws: int, n: int, d: int, rho: float, model: Any) -> tuple[Any, Any]:
    """Whether intervals cover the true coefficients, of entries without an effect and of those with one."""
    null, active = [], []
    for seed in range(draws):
        X, y, task, W, _ = drawn(seed, n, d, rho=rho)
        found = debiased_intervals(model, X, y, task=task, level=LEVEL)
        covered = (found.lower <= W) & (found.upper >= W)
        null.append(covered[W == 0])
        active.append(covered[W != 0])
    return np.concatenate(null), np.concatenate(active)


def same_samples(draws: int, n: int, d: int, rho: float, model: Any) -> tuple[Any, Any]:
    """As `split`, with bootstrap intervals on the samples that have selected."""
    null, active = [], []
    for seed in range(draws):
        X, y, task, W, cov = drawn(seed, n, d, rho=rho)
        found = bootstrap_intervals(model.fit(X, y, task=task), X, y, task=task, n_boot=200, level=LEVEL)
        truth, known = within(W, cov, found.support), np.isfinite(found.lower)
        covered = (found.lower <= truth) & (truth <= found.upper)
        null.append(covered[known & (W == 0)])
        active.append(covered[known & (W != 0)])
    return np.concatenate(null), np.concatenate(active)


def cases(draws: int, d: int) -> Iterator[tuple[str, Callable[[], tuple[Any, Any]]]]:
    for rho in (0.0, 0.5, 0.8):
        for model in (LassoMTL(0.1), LassoMTLCV(), MSMTFLCV()):
            what = f"n = 2d, rho {rho}, {type(model).__name__}"
            yield f"split, {what}", partial(split, draws, 2 * d, d, rho, model)
    for rho in (0.0, 0.5, 0.8):
        yield f"debiased, n = 2d, rho {rho}", partial(debiased, draws, 2 * d, d, rho, LassoMTLCV())
        for n, said in ((3 * d // 2, "n = 1.5d"), (d // 2, "n = d/2")):
            for model in (LassoMTLCV(), MSMTFLCV()):
                yield (
                    f"debiased, {said}, rho {rho}, {type(model).__name__}",
                    partial(debiased, draws, n, d, rho, model),
                )
    name = "bootstrap on the samples of the fit, n = 2d, rho 0.5, LassoMTLCV"
    yield name, partial(same_samples, draws, 2 * d, d, 0.5, LassoMTLCV())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=40, help="data sets of four tasks each")
    parser.add_argument("--features", type=int, default=60)
    parser.add_argument("--nodewise", type=float, default=nodes.NODEWISE, help="strength of the nodewise lassos")
    parser.add_argument("--only", default="", help="cases whose names hold this")
    args = parser.parse_args()
    nodes.NODEWISE = args.nodewise
    warnings.simplefilter("ignore")
    print(f"{'':72} {'null':>6} {'active':>7} {'intervals':>10}")
    for name, measured in cases(args.draws, args.features):
        if args.only not in name:
            continue
        null, active = measured()
        print(f"{name:72} {null.mean():6.3f} {active.mean():7.3f} {len(null) + len(active):10}", flush=True)


if __name__ == "__main__":
    main()
