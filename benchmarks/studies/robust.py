"""Tasks unlike the rest: error of the others over that of an oracle that leaves these out, and whether they are named.

python benchmarks/studies/robust.py              # ten seeds
python benchmarks/studies/robust.py --parity     # solutions against cvxpy, if it is installed
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from msmtfl import PartialPoolingCV, RobustMTL, RobustMTLCV, SharedMTLCV

TASKS, SAMPLES, FEATURES = 20, 50, 10
MODELS = {
    "RobustMTL(relax=True)": lambda: RobustMTL(relax=True),
    "RobustMTL()": lambda: RobustMTL(),
    "RobustMTLCV(relax=True)": lambda: RobustMTLCV(relax=True),
    "RobustMTLCV()": lambda: RobustMTLCV(),
    "SharedMTLCV()": lambda: SharedMTLCV(),
    "PartialPoolingCV()": lambda: PartialPoolingCV(),
}


def generated(seed: int, share: float, how: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, set[int]]:
    """X, y, task, the slopes of good tasks, and the odd ones: reversed, or noise of the variance of the others."""
    random = np.random.default_rng(seed)
    task = np.repeat(np.arange(TASKS), SAMPLES)
    X, slopes = random.standard_normal((len(task), FEATURES)), 0.5 * random.standard_normal(FEATURES)
    odd = random.permutation(TASKS)[: round(share * TASKS)]
    W = np.tile(slopes, (TASKS, 1))
    W[odd] *= -1.0 if how == "reversed" else 0.0
    sd = np.where(np.isin(task, odd) & (how == "noise"), np.sqrt(1.0 + slopes @ slopes), 1.0)
    y = (X * W[task]).sum(axis=1) + sd * random.standard_normal(len(task))
    return X, y, task, slopes, set(odd.tolist())


def f1(found: set[int], odd: set[int]) -> float:
    return 2.0 * len(found & odd) / (len(found) + len(odd)) if odd else float(not found)


def study(seeds: int, shares: tuple[float, ...] = (0.0, 0.1, 0.3)) -> list[dict[str, Any]]:
    """A line per share, kind and model: mean ratio of errors on new samples (noise of variance 1) and mean F1."""
    lines = []
    for share in shares:
        for how in ("reversed", "noise") if share else ("reversed",):
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in MODELS}
            for seed in range(seeds):
                X, y, task, slopes, odd = generated(seed, share, how)
                good = [label for label in range(TASKS) if label not in odd]
                kept = np.isin(task, good)

                def error(model: Any, good: list[int] = good, slopes: np.ndarray = slopes) -> float:
                    rows = np.isin(model.tasks_, good)
                    return 1.0 + float(((model.coef_[rows] - slopes) ** 2).sum(axis=1).mean())

                oracle = error(RobustMTL(np.inf).fit(X[kept], y[kept], task=task[kept]))
                for name, make in MODELS.items():
                    model = make().fit(X, y, task=task)
                    named = getattr(model, "outlier_tasks_", None)
                    known = np.nan if named is None else f1(set(named.tolist()), odd)
                    found[name].append((error(model) / oracle, known))
            for name, values in found.items():
                ratio, named = np.mean(values, axis=0)
                lines.append(
                    {"share": share, "odd": how if share else "none", "model": name, "ratio": ratio, "f1": named}
                )
    return lines


def parity(seeds: int) -> float:
    """The largest relative excess of our objective over cvxpy's, over random problems."""
    import cvxpy as cp

    from msmtfl._data.tasks import read_training
    from msmtfl._objective.coupled.task_norms import CentreNorms, RowNorms
    from msmtfl._solvers.coupled.task_norms import TaskNormSolver
    from msmtfl._solvers.problems.make_problem import make_problem

    worst = 0.0
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        m, d = int(random.integers(2, 7)), int(random.integers(1, 20))
        n = random.integers(4, 30, size=m)
        task = np.repeat(np.arange(m), n)
        X, weight = random.standard_normal((n.sum(), d)), random.uniform(0.3, 2.0, n.sum())
        W = np.tile(random.standard_normal(d), (m, 1))
        W[0] *= -1.0
        y = (X * W[task]).sum(axis=1) + random.standard_normal(len(task)) + task
        problem = make_problem(
            read_training(X, y, task=task, sample_weight=weight),
            fit_intercept=True,
            standardize=bool(seed % 2),
            positive=False,
        )
        totals, strength = np.array([design.n for design in problem.designs]), 10.0 ** random.uniform(-1.5, 1.0)
        rest = problem.factors, problem.common_factors, totals
        for penalty in (
            CentreNorms(strength, 0.3 * (seed % 3), *rest),
            RowNorms(0.05 * strength, 0.05 * strength, *rest),
        ):
            P, _ = TaskNormSolver(problem).solve(penalty)
            coefs = penalty.coefs(P)
            own = sum(0.5 * k * x.loss(w) for k, x, w in zip(penalty.kappa, problem.designs, coefs, strict=True))
            own += penalty.value(P)
            V, C, levels = cp.Variable((m, d)), cp.Variable((len(P) - m, d)), cp.Variable(m)
            value: Any = 0.0
            for i in range(m):
                at = task == i
                left = X[at] @ (C[i if len(P) == 2 * m else 0] + V[i]) + levels[i] - y[at]
                value += 0.5 * penalty.kappa[i] * cp.sum_squares(cp.multiply(np.sqrt(weight[at]), left))
                value += penalty.bounds[i] * cp.norm(cp.multiply(penalty.factors[:, i], V[i]))
            if isinstance(penalty, CentreNorms):
                value += penalty.lam_common / totals.sum() * cp.sum_squares(cp.multiply(penalty.scales, C[0]))
            else:
                value += penalty.lam_common * sum(cp.norm(cp.multiply(penalty.factors[j], C[:, j])) for j in range(d))
            least = cp.Problem(cp.Minimize(value)).solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12)
            worst = max(worst, (own - least) / abs(least))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--parity", action="store_true")
    asked = parser.parse_args()
    if asked.parity:
        print(f"our objective exceeds cvxpy's by at most {parity(asked.seeds):.1e}, relatively")
        return
    print("| odd tasks | model | error over the oracle's | F1 |\n|---|---|---|---|")
    for line in study(asked.seeds):
        named = "" if np.isnan(line["f1"]) else f"{line['f1']:.2f}"
        print(f"| {line['share']:.0%} {line['odd']} | `{line['model']}` | {line['ratio']:.3f} | {named} |")


if __name__ == "__main__":
    main()
