"""How often intervals of coefficients cover what they are about.

    python benchmarks/studies/interval_coverage.py --draws 40

`split`: of `split_intervals`, the least-squares coefficient within the features selected in a task, apart for selected
entries without and with an effect. That is what these intervals are about. It is not 0 where a feature without an effect
of its own is correlated with one that matters and was not selected; `0 of null` is how often 0 is in the interval of such
a feature all the same, which nobody promises. `split, logistic` and so on: of other losses, six given features, nothing
being left to select, of which one that matters may be missing; what is covered then is what 60,000 samples say.
`debiased`: of `debiased_intervals`, the true coefficients, apart for entries without (null) and with an effect (active).
`bootstrap on the samples of the fit`: what not to do. Nominal are 95 %. Intervals of one data set are not independent of
each other; standard errors are those over data sets.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from msmtfl import L12MTLCV, MSMTFLCV, LassoMTL, LassoMTLCV, MSMTFLClassifier, bootstrap_intervals, stack_tasks
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


class Covered(NamedTuple):
    """Whether intervals cover, an array per data set: entries without an effect, with one, and 0 of the former."""

    null: list[Any]
    active: list[Any]
    zero: list[Any]

    def add(self, lower: Any, upper: Any, truth: Any, W: Any) -> None:
        known = np.isfinite(lower)
        inside, zero = (lower <= truth) & (truth <= upper), (lower <= 0.0) & (upper >= 0.0)
        self.null.append(inside[known & (W == 0)])
        self.active.append(inside[known & (W != 0)])
        self.zero.append(zero[known & (W == 0)])


def share(parts: list[Any]) -> tuple[float, float]:
    """Of all entries, and its standard error over data sets."""
    counts, hits = np.array([len(one) for one in parts]), np.array([one.sum() for one in parts])
    mean = hits.sum() / max(counts.sum(), 1)
    return mean, float(np.sqrt(((hits - mean * counts) ** 2).sum()) / max(counts.sum(), 1))


def split(draws: int, n: int, d: int, rho: float, model: Any) -> Covered:
    out = Covered([], [], [])
    for seed in range(draws):
        X, y, task, W, cov = drawn(seed, n, d, rho=rho)
        found = split_intervals(model, X, y, task=task, level=LEVEL, random_state=seed)
        for s in range(2):
            lower, upper = (
                np.where(np.isfinite(found.estimate[s]), one[s], np.nan) for one in (found.lower, found.upper)
            )
            out.add(lower, upper, within(W, cov, found.support[s]), W)
    return out


def targets(rng: Any, f: Any, loss: str) -> Any:
    """Targets with linear predictors f, as the loss supposes, but for counts, which spread more than Poisson's."""
    n = len(f)
    if loss == "logistic":
        return f + rng.logistic(size=n) > 0
    if loss == "poisson":
        return rng.poisson(np.exp(np.minimum(f, 4.0)) * rng.gamma(1.5, 1 / 1.5, n))
    if loss == "gamma":
        return rng.gamma(2.0, np.exp(f) / 2.0)
    if loss == "huber":
        return f + rng.standard_t(3, n)
    ends = np.column_stack([rng.exponential(np.exp(-f)), rng.exponential(3.0, n)])
    return np.column_stack([ends.min(axis=1), ends[:, 0] <= ends[:, 1]])


def of_loss(draws: int, n: int, loss: str, missing: bool) -> Covered:
    """n samples in each half of a single task."""
    w = np.array([0.6, -0.5, 0.0, 0.4, 0.0, 0.0])
    root = np.linalg.cholesky(0.5 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6))))
    factors = np.where(np.arange(6) == 1, np.inf if missing else 0.0, 0.0)

    def model(lam: float) -> Any:
        if loss == "logistic":
            return MSMTFLClassifier(lam, penalty_factors=factors)
        return LassoMTL(lam, loss=loss, penalty_factors=factors)

    def sample(seed: int, size: int) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((size, 6)) @ root.T
        return X, targets(rng, X @ w, loss)

    truth = np.atleast_2d(model(1e-3).fit(*sample(10**6, 60_000)).coef_ if missing else w)
    out = Covered([], [], [])
    for seed in range(draws):
        found = split_intervals(model(0.1), *sample(seed, 2 * n), level=LEVEL, random_state=seed)
        for lower, upper in zip(found.lower, found.upper, strict=True):
            out.add(lower, upper, truth, w[None])
    return out


def debiased(draws: int, n: int, d: int, rho: float, model: Any) -> Covered:
    out = Covered([], [], [])
    for seed in range(draws):
        X, y, task, W, _ = drawn(seed, n, d, rho=rho)
        found = debiased_intervals(model, X, y, task=task, level=LEVEL)
        out.add(found.lower, found.upper, W, W)
    return out


def same_samples(draws: int, n: int, d: int, rho: float, model: Any) -> Covered:
    """As `split`, with bootstrap intervals on the samples that have selected."""
    out = Covered([], [], [])
    for seed in range(draws):
        X, y, task, W, cov = drawn(seed, n, d, rho=rho)
        found = bootstrap_intervals(model.fit(X, y, task=task), X, y, task=task, n_boot=200, level=LEVEL)
        out.add(found.lower, found.upper, within(W, cov, found.support), W)
    return out


def cases(draws: int, d: int) -> Iterator[tuple[str, Callable[[], Covered]]]:
    for rho in (0.0, 0.5, 0.8):
        for model in (LassoMTL(0.1), LassoMTLCV(), MSMTFLCV(), MSMTFLCV(selection="1se"), L12MTLCV()):
            what = f"n = 2d, rho {rho}, {type(model).__name__}{', 1se' * (getattr(model, 'selection', '') == '1se')}"
            yield f"split, {what}", partial(split, draws, 2 * d, d, rho, model)
    for loss in ("logistic", "poisson", "gamma", "huber", "cox"):
        for n in (30, 60, 150):
            for missing in (False, True):
                what = f"split, {loss}, {n} samples in a half{', one missing' if missing else ''}"
                yield what, partial(of_loss, draws, n, loss, missing)
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
    print(f"{'':60} {'null':>12} {'active':>12} {'0 of null':>12} {'intervals':>10}")
    for name, measured in cases(args.draws, args.features):
        if args.only not in name:
            continue
        covered = measured()
        parts = (share(one) for one in (covered.null, covered.active, covered.zero))
        shown = " ".join(f"{100 * mean:5.1f} ({100 * se:.1f})".rjust(12) for mean, se in parts)
        print(f"{name:60} {shown} {sum(map(len, covered.null + covered.active)):10}", flush=True)


if __name__ == "__main__":
    main()
