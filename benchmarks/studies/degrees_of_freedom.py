"""Degrees of freedom as they are charged, against the covariances that define them.

    python benchmarks/studies/degrees_of_freedom.py --draws 400

X and the true coefficients stay as they are, the noise is drawn anew. The true degrees of freedom of a fit at a fixed point
of its grid are  sum_r cov(fitted_r, y_r) / sigma^2  (Efron 1986); what an information criterion charges is the mean of
`Solutions.degrees`. The last column is their difference over its standard error: beyond 3 the two do not agree. Penalties
that are not convex are shown to see what a threshold costs beside the coefficients it leaves: for these no value is
offered but by EBIC, which charges for the search apart.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from msmtfl._data.tasks import read_training
from msmtfl._paths.families.common_path import shared_grid, shared_lam_max, solve_shared
from msmtfl._paths.families.coupled_path import (
    DirtyGrid,
    GroupGrid,
    dirty_lam_max,
    group_lam_max,
    solve_rows,
)
from msmtfl._paths.families.pooling_path import PoolingPaths, pooling_grid
from msmtfl._paths.grids import read_grid
from msmtfl._paths.solve import solve_surface
from msmtfl._solvers.largest_lam import largest_lam
from msmtfl._solvers.problems.make_problem import make_problem

SIGMA = 1.0
Solve = Callable[[Any], Any]  # a problem's solutions at the one point looked at


def families(first: Any, share: float) -> Iterator[tuple[str, bool, Solve]]:
    """Name, whether it is convex, and how it is solved, at a share of the lam_max of a first draw."""

    def rows(**options: Any) -> Solve:
        lam = share * largest_lam(first)
        return lambda problem: solve_surface(problem, read_grid(problem, [lam], **options))

    def dirty(ratio: float) -> Solve:
        lam = np.array([[share * dirty_lam_max(first, ratio)]])
        return lambda problem: solve_rows(problem, DirtyGrid(lam, ratio * lam, problem.l1_ratio))

    def shared(ratio: float, theta_ratio: float = np.inf) -> Solve:
        lam = share * shared_lam_max(first, ratio)
        return lambda problem: solve_shared(problem, shared_grid(problem, [lam], [ratio], [theta_ratio]))

    def half(solve: Solve) -> Solve:
        return lambda problem: solve(replace(problem, l1_ratio=0.5))

    def pooled(k: float, k_common: float) -> Solve:
        return lambda problem: PoolingPaths(
            problem, pooling_grid(problem, [k], [k_common]), None, lambda _: None
        ).solutions()

    lam = np.array([[share * group_lam_max(first)]])
    yield "lasso", True, rows(thetas=[np.inf])
    yield "L1,2", True, lambda problem: solve_rows(problem, GroupGrid(lam))
    yield "Dirty, lam_s = lam_b (l1,inf)", True, dirty(1.0)
    yield "Dirty, lam_s = 0.4 lam_b", True, dirty(0.4)
    yield "shared values, ratio 0.5", True, shared(0.5)
    yield "shared values, ratio 0 (pooled)", True, shared(0.0)
    yield "lasso, l1_ratio 0.5", True, half(rows(thetas=[np.inf]))
    yield "L1,2, l1_ratio 0.5", True, half(lambda problem: solve_rows(problem, GroupGrid(lam)))
    yield "Dirty, 0.4, l1_ratio 0.5", True, half(dirty(0.4))
    yield "shared values, 0.5, l1_ratio 0.5", True, half(shared(0.5))
    yield "partial pooling", True, pooled(10.0, 0.0)
    yield "partial pooling, ridge on both", True, pooled(3.0, 10.0)
    yield "MSMTFL, theta ratio 2", False, rows(theta_ratios=[2.0])
    yield "bi-level", False, rows(theta_ratios=[2.0], entry_shares=[0.5], entry_ratios=[0.5])
    yield "shared values, capped", False, shared(0.5, 1.0)


def draws(m: int, n: int, d: int, seed: int) -> Iterator[tuple[Any, np.ndarray]]:
    """Problems that differ in their noise (m, n) only. Tasks have n and 2 n samples in turn, columns that correlate, and
    half a dozen features in common, some of them with the same coefficient."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), np.where(np.arange(m) % 2, 2 * n, n))
    X = rng.standard_normal((len(task), d)) + 0.7 * rng.standard_normal((len(task), 1))
    W = np.zeros((m, d))
    W[:, :3] = 1.0
    W[:, 3:6] = rng.normal(0.0, 1.0, (m, 3))
    mean = np.einsum("rj,rj->r", X, W[task])
    while True:
        noise = rng.normal(0.0, SIGMA, len(task))
        data = read_training(X, mean + noise, task=task)
        yield make_problem(data, fit_intercept=True, standardize=False, positive=False), noise


def fitted(problem: Any, surface: Any) -> np.ndarray:
    """Of all samples, without intercepts."""
    W = surface.coef(0, 0)
    return np.concatenate([design.target - design.residual(w) for design, w in zip(problem.designs, W, strict=True)])


def study(m: int, n: int, d: int, share: float, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """One row per family: coefficients in use, degrees of freedom charged and true, and how sure that is."""
    source = draws(m, n, d, seed)
    first, _ = next(source)
    models = list(families(first, share))
    about = [fitted(first, solve(first)) for *_, solve in models]  # a constant: it takes variance away, and no mean
    entries, charged, products = (np.zeros((count, len(models))) for _ in range(3))
    for one in range(count):
        problem, noise = next(source)
        for k, (_, _, solve) in enumerate(models):
            surface = solve(problem)
            entries[one, k] = np.count_nonzero(surface.coef(0, 0))
            charged[one, k] = surface.degrees(surface.last.ravel()).sum()
            products[one, k] = noise @ (fitted(problem, surface) - about[k]) / SIGMA**2
    out = []
    for k, (name, convex, _) in enumerate(models):
        off = charged[:, k] - products[:, k]
        out.append(
            {
                "model": name,
                "convex": convex,
                "entries": entries[:, k].mean(),
                "charged": charged[:, k].mean(),
                "true": products[:, k].mean(),
                "z": off.mean() / (off.std(ddof=1) / np.sqrt(count)),
            }
        )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in {"tasks": 5, "samples": 20, "features": 30, "draws": 400, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--share", type=float, default=0.15, help="of lam_max, at which the models are fitted")
    args = parser.parse_args()
    print(f"{'model':32} {'coefficients':>12} {'charged':>8} {'true':>8} {'z':>6}")
    for row in study(args.tasks, args.samples, args.features, args.share, args.draws, args.seed):
        convex = "" if row["convex"] else "   (not convex)"
        numbers = f"{row['entries']:12.1f} {row['charged']:8.2f} {row['true']:8.2f} {row['z']:6.1f}"
        print(f"{row['model']:32} {numbers}{convex}")


if __name__ == "__main__":
    main()
