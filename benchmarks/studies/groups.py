"""Groups of features: is every stage what cvxpy finds, and how should the norm of a group count its columns?

    python benchmarks/studies/groups.py                 # both parts; the first needs cvxpy: pip install cvxpy clarabel
    python benchmarks/studies/groups.py --problems 5 --sets 2
    python benchmarks/studies/groups.py --sets 0 --only shared dirty

Part 1: random problems with groups of random sizes, factors, ridges. For every stage of MSMTFL, with the features that it
leaves free, for L1,2 over groups, for Dirty's norm of groups, for common values with deviations in groups, for common rows
beside deviations of whole tasks (rMTFL), for effects by level and for the first step of the pretrained lasso: objective less
that of cvxpy over the loss at 0, the smallest and the largest over all problems; and with bounds on coefficients.

Part 2: ten tasks, 150 samples each, categorical variables of 2 to 40 levels and numeric ones, a third of which matter.
"size": columns as they are (standardised), norms times the root of the group's size, which is what the models do.
"orthonormal": columns made orthonormal within group and task first, by a factor of the centred columns, with the same roots.
Shares of the variables that are chosen, of those that matter and of the others, and the error of predictions on new samples,
over the variance of what can be predicted; chosen by LassoMTLCV. And, where y is noise, how often a variable of each size is
the first to enter (were sizes counted fairly, each would be first equally often).
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import warnings
from typing import Any

import numpy as np

from msmtfl import (
    L12MTL,
    MSMTFL,
    DirtyMTL,
    LassoMTL,
    LassoMTLCV,
    NestedMTL,
    PretrainedMTL,
    RobustMTL,
    SharedMTL,
)

SIZES = (2, 3, 5, 10, 20, 40, 1, 1, 1, 1, 1, 1)


def random_problem(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    m, d = int(rng.integers(1, 4)), int(rng.integers(3, 20))
    n = int(rng.integers(8, 40))
    X = rng.standard_normal((m * n, d)) @ (np.eye(d) + 0.5 * rng.standard_normal((d, d)) / np.sqrt(d))
    y = X @ (rng.standard_normal(d) * (rng.random(d) < 0.4)) + rng.standard_normal(m * n)
    names = [f"g{one}" for one in rng.integers(0, max(1, d // 3), d)]
    factors = np.exp(0.3 * rng.standard_normal(d))
    return {
        "X": X,
        "y": y,
        "task": np.repeat(np.arange(m), n),
        "names": names,
        "factors": factors,
        "l1_ratio": float(rng.choice([1.0, 0.7])),
        "share": float(rng.uniform(0.05, 0.6)),
    }


def parity(problems: int) -> float:
    """The largest difference of objectives of MSMTFL's stages and L1,2."""
    return max(difference(random_problem(seed)) for seed in range(problems))


FAMILIES = ("lasso", "l12", "dirty", "shared", "rmtfl", "nested", "pretrained")
WITHOUT_BOUNDS = (
    "nested",
    "pretrained",
)  # the first takes none, the second is a lasso with an offset after its first step


def models_of(p: dict[str, Any], ratio: float) -> dict[str, Any]:
    """What makes a model of each family at a strength."""
    plain: dict[str, Any] = {"penalty_factors": p["factors"], "feature_groups": p["names"]}
    more = plain | {"l1_ratio": p["l1_ratio"]}
    return {
        "lasso": lambda s: LassoMTL(s, **more),
        "l12": lambda s: L12MTL(s, **more),
        "dirty": lambda s: DirtyMTL(s / ratio, s, **more),
        "shared": lambda s: SharedMTL(s * ratio, s, theta=np.inf, **more),
        "rmtfl": lambda s: RobustMTL(s * ratio, s, kind="rmtfl", **plain),
        "nested": lambda s: NestedMTL(s, s * ratio, lam_upper=s * ratio, **plain),
        "pretrained": lambda s: PretrainedMTL(s, s * ratio, **plain),
    }


def largest(family: str, p: dict[str, Any], ratio: float, task: np.ndarray) -> float:
    """A strength of about the size at which nothing is left."""
    if family in ("lasso", "l12", "dirty", "shared"):
        found = models_of(p, ratio)[family](1.0).fit(p["X"], p["y"], task=task).lam_max_
        return float(found) / (ratio if family == "shared" and ratio > 1.0 else 1.0)
    return float(models_of(p, ratio)["l12"](1.0).fit(p["X"], p["y"], task=task).lam_max_)


def beside_cvxpy(family: str, seed: int, bounded: bool) -> tuple[float, float, bool]:
    """Of one problem and family: objective less that of cvxpy, over the loss at 0; the gap that is claimed; whether bounds
    are met."""
    import cvxpy as cp

    p, rng = random_problem(seed), np.random.default_rng(10_000 + seed)
    X, y, task, f, share = p["X"], p["y"], p["task"], p["factors"], p["l1_ratio"]
    groups = [np.flatnonzero(np.array(p["names"]) == name) for name in dict.fromkeys(p["names"])]
    labels = np.unique(task)
    m, d = len(labels), X.shape[1]
    low, high = np.full(d, -np.inf), np.full(d, np.inf)
    if bounded:
        low = np.where(rng.random(d) < 0.5, 0.0, -0.5 * rng.random(d))
        high = np.where(rng.random(d) < 0.3, np.inf, 0.5 * rng.random(d))
    ratio = float(rng.choice([0.8, 1.0, 1.7, 2.0, 5.0]))
    named = np.array([f"{one % 2} / {one}" for one in task]) if family == "nested" else task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        at = p["share"] * largest(family, p, ratio, task)
        model = models_of(p, ratio)[family](at)
        model = (model.set_params(bounds=(low, high)) if bounded else model).fit(X, y, task=named)
    S, B, b, level = cp.Variable((d, m)), cp.Variable((d, m)), cp.Variable((d, 1)), cp.Variable(m)
    F, penalty, U = f[:, None] * np.ones((1, m)), 0.0, cp.Variable((d, 2))
    of_all = b @ np.ones((1, m))
    W = {
        "dirty": S + B,
        "shared": S + of_all,
        "rmtfl": S + B,
        "nested": S + of_all + U @ (np.arange(2)[:, None] == labels[None] % 2),
        "pretrained": of_all,
    }.get(family, S)
    ridged = family not in ("rmtfl", "nested", "pretrained")
    for g in groups:
        root = np.sqrt(len(g)) * (share if ridged else 1.0)
        of_tasks = [cp.norm(cp.multiply(F[g, i], S[g, i])) for i in range(m)]
        if family in ("l12", "rmtfl"):
            penalty += at * root * cp.norm(cp.multiply(F[g], S[g]), "fro")
        elif family != "pretrained":
            penalty += (at / ratio if family == "dirty" else at) * root * sum(of_tasks)
        if family == "dirty":
            penalty += at * root * cp.max(cp.hstack([cp.norm(cp.multiply(F[g, i], B[g, i])) for i in range(m)]))
        if family in ("shared", "nested", "pretrained"):
            penalty += at * ratio * root * cp.norm(cp.multiply(f[g], b[g, 0]))
        if family == "nested":
            penalty += at * ratio * root * sum(cp.norm(cp.multiply(f[g], U[g, k])) for k in range(2))
    if family == "rmtfl":
        penalty += at * ratio * sum(cp.norm(cp.multiply(f, B[:, i])) for i in range(m))
    if family == "shared":
        ridge = ratio * cp.sum_squares(cp.multiply(f[:, None], b)) + cp.sum_squares(cp.multiply(F, S))
    else:
        ridge = cp.sum_squares(cp.multiply(F, W)) / (ratio if family == "dirty" else 1.0)
    parts = [(X[task == one], y[task == one]) for one in labels]
    weights = [1.0 / len(y) if family == "pretrained" else 1.0 / (m * len(t)) for _, t in parts]
    loss = sum(
        a * cp.sum_squares(Z @ W[:, i] + level[i] - t) for i, (a, (Z, t)) in enumerate(zip(weights, parts, strict=True))
    )
    limits = [W[j] >= low[j] for j in np.flatnonzero(np.isfinite(low))]
    limits += [W[j] <= high[j] for j in np.flatnonzero(np.isfinite(high))]
    goal = loss + penalty + ((1.0 - share) * at / 2.0 * ridge if ridged else 0.0)
    problem = cp.Problem(cp.Minimize(goal), limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    value, best = model.objective_, problem.value
    if family == "pretrained":  # its first step: what is said of the fit is the second's
        b.value = model.coef_common_[:, None]
        level.value = np.array([(t - Z @ model.coef_common_).mean() for Z, t in parts])
        value = goal.value
    unit = sum(a * len(t) * t.var() for a, (_, t) in zip(weights, parts, strict=True))
    inside = bool((model.coef_ >= low).all() and (model.coef_ <= high).all())
    return (value - best) / unit, model.dual_gap_, inside


def difference(p: dict[str, Any]) -> float:
    """That of one problem."""
    import cvxpy as cp

    worst = 0.0
    X, y, task, f = p["X"], p["y"], p["task"], p["factors"]
    groups = [np.flatnonzero(np.array(p["names"]) == name) for name in dict.fromkeys(p["names"])]
    labels = np.unique(task)
    m, d = len(labels), X.shape[1]
    more = {"penalty_factors": f, "l1_ratio": p["l1_ratio"], "feature_groups": p["names"]}

    def solved(lam: float, of_group: Any, ridge: float) -> tuple[Any, Any]:
        W, b = cp.Variable((d, m)), cp.Variable(m)
        loss = sum(
            cp.sum_squares(X[task == t] @ W[:, i] + b[i] - y[task == t]) / (m * (task == t).sum())
            for i, t in enumerate(labels)
        )
        loss += (1.0 - ridge) * lam / 2.0 * cp.sum_squares(cp.multiply(f[:, None], W))
        problem = cp.Problem(cp.Minimize(loss + of_group(W)))
        options = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
        problem.solve(solver=cp.CLARABEL, **options)
        return problem.value, (W, loss, of_group)

    def at(found: Any, coef: np.ndarray, lam: float) -> float:
        """The objective at our coefficients, the intercepts being the best ones."""
        W, _, of_group = found
        value = 0.0
        for i, t in enumerate(labels):
            r = y[task == t] - X[task == t] @ coef[i]
            value += ((r - r.mean()) ** 2).mean() / m
        W.value = coef.T
        value += (1.0 - p["l1_ratio"]) * lam / 2.0 * ((f * coef) ** 2).sum()
        return value + float(of_group(W).value)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        top = MSMTFL(1.0, **more).fit(X, y, task=task).lam_max_
        lam = p["share"] * top
        model = MSMTFL(lam, 1.5 * lam * m, **more).fit(X, y, task=task)
        other = L12MTL(lam, **more).fit(X, y, task=task)
    for stage in model.stages_:
        free = set(stage.free_rows.tolist())
        weights = [0.0 if free & set(g.tolist()) else p["l1_ratio"] * lam * np.sqrt(len(g)) for g in groups]

        def of_tasks(W: Any, weights: list[float] = weights) -> Any:
            pairs = zip(groups, weights, strict=True)
            return sum(a * cp.norm(cp.multiply(f[g], W[g, i])) for g, a in pairs for i in range(m))

        value, found = solved(lam, of_tasks, p["l1_ratio"])
        worst = max(worst, abs(at(found, stage.coef, lam) - value))

    def of_all(W: Any) -> Any:
        a = p["l1_ratio"] * lam
        return sum(a * np.sqrt(len(g)) * cp.norm(cp.multiply(f[g][:, None], W[g]), "fro") for g in groups)

    value, found = solved(lam, of_all, p["l1_ratio"])
    return max(worst, abs(at(found, np.atleast_2d(other.stages_[-1].coef), lam) - value))


def table(rng: np.random.Generator, n: int, shares: list[np.ndarray]) -> np.ndarray:
    """Columns of n samples: dummies of the categorical variables with these shares of levels, then numeric variables."""
    parts = [np.eye(len(p))[rng.choice(len(p), n, p=p)] if len(p) > 1 else rng.standard_normal((n, 1)) for p in shares]
    return np.hstack(parts)


def orthonormal(X: np.ndarray, groups: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Columns of unit standard deviation that span the centred ones of each group (0 where these are dependent); and what
    makes of their coefficients those of X."""
    out, back = np.zeros_like(X), np.zeros((X.shape[1], X.shape[1]))
    for g in groups:
        Z = X[:, g] - X[:, g].mean(axis=0)
        U, s, V = np.linalg.svd(Z, full_matrices=False)
        rank = int((s > 1e-9 * s.max(initial=1e-300)).sum())
        out[:, g[:rank]] = np.sqrt(len(X)) * U[:, :rank]
        back[np.ix_(g, g[:rank])] = np.sqrt(len(X)) * V[:rank].T / s[:rank]
    return out, back


def compared(sets: int) -> None:
    m, n = 10, 150
    groups, start = [], 0
    for size in SIZES:
        groups.append(np.arange(start, start + size))
        start += size
    names = [f"g{g}" for g, size in enumerate(SIZES) for _ in range(size)]
    scores: dict[str, list[tuple[float, float, float]]] = {"size": [], "orthonormal": []}
    firsts = {kind: dict.fromkeys(sorted(set(SIZES)), 0.0) for kind in scores}
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        shares = [rng.dirichlet(2.0 * np.ones(size)) if size > 1 else np.ones(1) for size in SIZES]
        matters = rng.permutation(len(SIZES)) < len(SIZES) // 3
        common = np.concatenate([on * rng.standard_normal(size) for on, size in zip(matters, SIZES, strict=True)])
        W = common + np.repeat(matters, SIZES) * 0.5 * rng.standard_normal((m, start))
        train = [table(rng, n, shares) for _ in range(m)]
        test = [table(rng, 2000, shares) for _ in range(m)]
        y = np.concatenate([X @ w + 2.0 * rng.standard_normal(n) for X, w in zip(train, W, strict=True)])
        noise, task = rng.standard_normal(m * n), np.repeat(np.arange(m), n)
        turned = [orthonormal(X, groups) for X in train]
        forms = {"size": (train, None), "orthonormal": ([one for one, _ in turned], [back for _, back in turned])}
        for kind, (parts, backs) in forms.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                options = {"standardize": kind == "size", "feature_groups": names}
                model = LassoMTLCV(cv=5, **options).fit(np.vstack(parts), y, task=task)
                null = LassoMTLCV(lams=25, cv=2, **options).fit(np.vstack(parts), noise, task=task).surface_
            coef = model.coef_ if backs is None else np.array([b @ w for b, w in zip(backs, model.coef_, strict=True)])
            errors = []
            for i in range(m):
                truth, found = test[i] @ W[i], test[i] @ coef[i]
                errors.append(np.var(truth - found) / np.var(truth))
            used = np.array([(coef[:, g] != 0.0).any(axis=1).mean() for g in groups])
            scores[kind].append((used[matters].mean(), used[~matters].mean(), float(np.mean(errors))))
            for i in range(m):
                order = next((k for k in range(25) if null.reached[k, 0] and null.coef(k, 0)[i].any()), None)
                if order is not None:
                    first = [g for g, at in enumerate(groups) if null.coef(order, 0)[i, at].any()]
                    for g in first:
                        firsts[kind][SIZES[g]] += 1.0 / len(first)
    print("\ncolumns      chosen: matter  do not   error of predictions")
    for kind, rows in scores.items():
        right, wrong, error = np.mean(rows, axis=0)
        print(f"{kind:12s} {right:14.2f} {wrong:7.2f} {error:22.3f}")
    print("\nfirst to enter from noise, per variable, over what is fair (1); by size")
    for kind, counts in firsts.items():
        total = sum(counts.values())
        fair = {size: SIZES.count(size) / len(SIZES) for size in counts}
        print(f"{kind:12s} " + "  ".join(f"{size}: {c / total / fair[size]:.2f}" for size, c in counts.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=FAMILIES, help="of the table beside cvxpy")
    options = parser.parse_args()
    if options.problems:
        print("| family | bounds | least | most | largest gap | within bounds |")
        for family in options.only:
            for bounded in (False,) if family in WITHOUT_BOUNDS else (False, True):
                found = [beside_cvxpy(family, seed, bounded) for seed in range(options.problems)]
                apart, gaps, inside = zip(*found, strict=True)
                print(
                    f"| {family} | {'yes' if bounded else 'no'} | {min(apart):.1e} | {max(apart):.1e} | {max(gaps):.1e} | "
                    f"{sum(inside)} of {len(inside)} |",
                    flush=True,
                )
    if options.problems and set(options.only) == set(FAMILIES):
        print(
            f"largest difference of objectives from cvxpy, {options.problems} problems: {parity(options.problems):.1e}"
        )
    if options.sets:
        compared(options.sets)


if __name__ == "__main__":
    main()
