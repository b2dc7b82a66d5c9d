"""Bounds of coefficients in models that couple the tasks, against cvxpy (Clarabel) on random small problems.

python benchmarks/studies/bounds.py                       # 100 problems per family
python benchmarks/studies/bounds.py --problems 10 --only dirty rmtfl
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from msmtfl import L12MTL, DirtyMTL, PartialPooling, RobustMTL, SharedMTL

FAMILIES = ("l12", "l12 ridge", "dirty", "shared", "shared ridge", "pooling", "armul", "rmtfl")
ACCURACY = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12, "max_iter": 200}


def generated(seed: int) -> tuple[Any, ...]:
    """X, y, task, and bounds (d, m): w >= 0, of all kinds, known signs, or boxes."""
    rng = np.random.default_rng(seed)
    m, d = int(rng.integers(2, 5)), int(rng.integers(2, 9))
    task = np.repeat(np.arange(m), rng.integers(5, 25, size=m))
    mixed = np.eye(d) + 0.5 * rng.standard_normal((d, d)) / np.sqrt(d)
    X = rng.standard_normal((len(task), d)) @ mixed * 10.0 ** rng.uniform(-0.5, 0.5, d)
    W = rng.standard_normal((d, 1)) * (rng.random((d, 1)) < 0.7) + 0.5 * rng.standard_normal((d, m))
    y = np.einsum("rj,jr->r", X, W[:, task]) + 0.5 * rng.standard_normal(len(task)) + 1.0
    low, high = np.zeros((d, m)), np.full((d, m), np.inf)
    if seed % 4 == 1:
        some = rng.random((4, d, m))
        low = np.where(some[0] < 0.3, -np.inf, -0.5 * some[1] * (some[2] < 0.7))
        high = np.where(some[3] < 0.3, np.inf, 0.5 * rng.random((d, m)))
    elif seed % 4 == 2:
        sign = rng.integers(-1, 2, size=(d, 1)) * np.ones((1, m))
        low, high = np.where(sign > 0, 0.0, -np.inf), np.where(sign < 0, 0.0, np.inf)
    elif seed % 4 == 3:
        low, high = -rng.random((d, 1)) * np.ones((1, m)), rng.random((d, 1)) * np.ones((1, m))
    return X, y, task, low, high, rng


def problem(seed: int, family: str) -> tuple[Any, Any, list[Any], float, Any]:
    """A model that is fitted, cvxpy's objective and constraints, and the loss at W = 0."""
    import cvxpy as cp

    X, y, task, low, high, rng = generated(seed)
    m, d = low.shape[1], low.shape[0]
    n = np.bincount(task)
    parts = [(X[task == i] - X[task == i].mean(axis=0), y[task == i] - y[task == i].mean()) for i in range(m)]
    W, b, Z = cp.Variable((d, m)), cp.Variable((d, 1)), cp.Variable((d, m))
    V, strength = W - b @ np.ones((1, m)), 10.0 ** rng.uniform(-2.5, -0.2)
    alike = family in ("pooling", "armul")  # every sample counts the same
    weight = np.full(m, 1.0 / n.sum()) if alike else 1.0 / (m * n)
    loss = sum(weight[i] * cp.sum_squares(A @ W[:, i] - t) for i, (A, t) in enumerate(parts))
    lam = strength * max(np.abs(2.0 * A.T @ t / (m * len(t))).max() for A, t in parts)
    N, model, penalty = n.sum(), None, None
    if family.startswith("l12"):
        share = 0.6 if family.endswith("ridge") else 1.0
        model = L12MTL(lam, l1_ratio=share)
        penalty = share * lam * cp.sum(cp.norm(W, 2, axis=1)) + (1 - share) / 2 * lam * cp.sum_squares(W)
    elif family == "dirty":
        other = lam * rng.uniform(1.0, m)
        model = DirtyMTL(lam, other)
        penalty = lam * cp.sum(cp.abs(W - Z)) + other * cp.sum(cp.max(cp.abs(Z), axis=1))
    elif family.startswith("shared"):
        common, share = lam * rng.uniform(0.3, m), 0.5 if family.endswith("ridge") else 1.0
        model = SharedMTL(common, lam, l1_ratio=share)
        penalty = share * (common * cp.sum(cp.abs(b)) + lam * cp.sum(cp.abs(V)))
        penalty += (1 - share) / 2 * (common * cp.sum_squares(b) + lam * cp.sum_squares(V))
    elif family == "pooling":
        k, common = 10.0 ** rng.uniform(-1, 2), (0.0, 1.0, 10.0)[seed % 3]
        model = PartialPooling(k, common)
        penalty = k / N * cp.sum_squares(V) + common / N * cp.sum_squares(b)
    elif family == "armul":
        of_task, common = 10.0 ** rng.uniform(-1, 1.5), (0.0, 1.0)[seed % 2]
        model = RobustMTL(kind="armul", lam_deviation=of_task, lam_common=common)
        penalty = of_task / N * sum(np.sqrt(n[i]) * cp.norm(V[:, i], 2) for i in range(m))
        penalty += common / N * cp.sum_squares(b)
    else:
        of_task = lam * rng.uniform(0.3, 3)
        model = RobustMTL(kind="rmtfl", lam_deviation=of_task, lam_common=lam)
        penalty = lam * cp.sum(cp.norm(Z, 2, axis=1))
        penalty += of_task * sum(cp.norm(W[:, i] - Z[:, i], 2) for i in range(m))
    sides = [(np.isfinite(low), low, 1.0), (np.isfinite(high), high, -1.0)]
    inside = [cp.multiply(s * f, W) >= s * np.where(f, end, 0.0) for f, end, s in sides if f.any()]
    model.set_params(bounds=(low, high)).fit(X, y, task=task)
    found = model.coef_.T
    assert ((found >= low) & (found <= high)).all(), (family, seed)
    return model, loss + penalty, inside, sum(float(weight[i] * t @ t) for i, (_, t) in enumerate(parts)), found


def study(problems: int, families: tuple[str, ...]) -> list[dict[str, Any]]:
    """A line per family: how much more the objective is than cvxpy's, as a share of the loss at W = 0, at most."""
    import cvxpy as cp

    lines = []
    for family in families:
        excess, gaps, solved, began = [], [], 0, time.process_time()
        for seed in range(problems):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model, objective, inside, unit, _ = problem(seed, family)
                gaps.append(model.dual_gap_)
                try:
                    value = cp.Problem(cp.Minimize(objective), inside).solve(solver="CLARABEL", **ACCURACY)
                except cp.SolverError:
                    continue
            solved += 1
            excess.append((model.objective_ - value) / unit)
        line = {"family": family, "problems": problems, "cvxpy solved": solved, "most": max(excess, default=np.nan)}
        lines.append(line | {"least": min(excess, default=np.nan), "gap": max(gaps)})
        lines[-1]["seconds"] = time.process_time() - began
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--only", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    args = parser.parse_args()
    print("| family | problems | solved by cvxpy | objective over cvxpy's, at most | at least | largest gap |")
    print("|---|---|---|---|---|---|")
    for line in study(args.problems, tuple(args.only)):
        print(
            f"| {line['family']} | {line['problems']} | {line['cvxpy solved']} | {line['most']:.1e} | {line['least']:.1e} "
            f"| {line['gap']:.1e} |"
        )


if __name__ == "__main__":
    main()
