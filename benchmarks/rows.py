"""Paths of the row-coupled models: L1,2 with one X for all tasks or one each, and Dirty, against peers and FISTA.

    python benchmarks/rows.py                             # everything (real data through MSMTFL_DATA)
    python benchmarks/rows.py --quick                     # without the two problems that take longest
    python benchmarks/rows.py --only paper school         # some problems
    python benchmarks/rows.py --adelie PYTHON             # PYTHON: an interpreter with adelie (it needs numpy < 2)

30 lambdas from lam_max to lam_max / 30, no intercept; Gram matrices and all other preparation are part of every time.
Every solver runs in a process of its own, on one thread, and is timed inside it. msmtfl: the best of --repeats after a
warm-up, and of as many after the peers. A peer gets the loosest tolerance of its ladder at which its relative gap is at
most 1e-8 (or the tightest; then it does not count for the ratios), and is run up to --repeats times, until 5 seconds are
used up. FISTA (below) comes plain and tuned (Gram matrices where they are less to read, restarts, one product a step), and
is given up after 30 seconds.

The relative gap is (primal - dual) / (loss at 0), the worst over the lambdas, computed here from X and y for every solver
alike; the dual point is the best multiple of the residuals of all tasks that is feasible. To reach: the fastest peer is no
faster where the tasks share X, and plain FISTA takes ten times as long elsewhere.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from problems import PROBLEMS, BenchProblem
from processes import Solver, arguments_of, start, versions

N_LAMS, LAM_MIN = 30, 1 / 30
ACCURATE = 1e-8  # relative gap that a peer has to reach
LIMIT = 30.0  # seconds per path of FISTA
SMALL = 100  # features up to which FISTA's curvature is that of LAPACK
LONG = 5.0  # seconds after which a peer is not run again
SHARED_BAR, FISTA_BAR = 1.0, 10.0
LADDERS = {  # tolerances, in each peer's own terms
    "scikit-learn": [1e-7, 1e-8, 1e-9, 1e-10],
    "celer": [1e-6, 1e-7, 1e-8, 1e-9, 1e-10],
    "skglm": [1e-5, 1e-6, 1e-7, 1e-8, 1e-9],
    "adelie": [1e-14, 1e-16, 1e-18, 1e-20, 1e-22],
    "plain FISTA": [ACCURATE],
    "tuned FISTA": [ACCURATE],
}
WITH_SHARED = ["scikit-learn", "celer", "skglm", "adelie"]
RATIOS = (0.5, 0.2)  # lam_s / lam_b; where 1 / sqrt(m) is smaller, that instead of the latter


# ------------------------------------------------------------------ norms of rows, and the gap


def row_norms(W: np.ndarray, lam: float, ratio: float | None) -> np.ndarray:
    """(d,) of W (m, d): lam |w|_2, or min_{s + b = w} ratio lam |s|_1 + lam |b|_inf."""
    if ratio is None:
        return lam * np.sqrt((W * W).sum(axis=0))
    sizes = -np.sort(-np.abs(W), axis=0)
    most = int(1.0 / ratio + 1e-12)  # this many entries may be larger than |b|_inf
    t = sizes[most] if most < len(W) else np.zeros(W.shape[1])
    return lam * (t + ratio * np.maximum(sizes - t, 0.0).sum(axis=0))


def dual_norms(G: np.ndarray, ratio: float | None) -> np.ndarray:
    """(d,) of G (m, d): the smallest lam at which a row with this gradient is 0."""
    if ratio is None:
        return np.sqrt((G * G).sum(axis=0))
    sizes = np.abs(G)
    return np.maximum(sizes.sum(axis=0), sizes.max(axis=0) / ratio)


def relative_gap(Xs: list[np.ndarray], ys: list[np.ndarray], W: np.ndarray, lam: float, ratio: float | None) -> float:
    """(primal - dual) / (loss at 0) of W (m, d), from scratch."""
    share = [1.0 / (len(ys) * len(y)) for y in ys]
    residuals = [y - X @ w for X, y, w in zip(Xs, ys, W)]
    G = np.array([2.0 * s * (X.T @ r) for s, X, r in zip(share, Xs, residuals)])
    rr, ry, yy = (
        sum(s * (a @ b) for s, a, b in zip(share, left, right))
        for left, right in ((residuals, residuals), (residuals, ys), (ys, ys))
    )
    return gap_of(rr, ry, yy, row_norms(W, lam, ratio).sum(), dual_norms(G, ratio).max() / lam)


def gap_of(rr: float, ry: float, yy: float, penalty: float, over: float) -> float:
    """rr, ry, yy: weighted products of the residuals r and y; over: how many times too large the gradient is for r itself
    to be feasible."""
    scale = min(ry / rr, 1.0 / over) if rr > 0.0 else 0.0
    return (rr + penalty - scale * (2.0 * ry - scale * rr)) / yy


# ------------------------------------------------------------------ FISTA


class Gradient:
    """G (m, d) = kappa_i X_i'(y_i - X_i w_i) of the smooth part sum_i kappa_i / 2 |X_i w_i - y_i|^2, kappa_i = 2 / (m n_i).

    By Gram matrices or by products with X (short tasks padded with zeros), whichever is less to read; of the former only
    the rows of features in use, kept together as long as no others come to be used.
    """

    def __init__(self, Xs: list[np.ndarray], ys: list[np.ndarray]):
        m, self.d = len(Xs), Xs[0].shape[1]
        roots = [np.sqrt(2.0 / (m * len(y))) for y in ys]
        n = max(len(y) for y in ys)
        self.C = np.array([root * root * (X.T @ y) for root, X, y in zip(roots, Xs, ys)])
        self.yy = sum(root * root * (y @ y) for root, y in zip(roots, ys))
        self.gram = 2 * n > self.d
        if self.gram:
            self.A = np.array([root * root * (X.T @ X) for root, X in zip(roots, Xs)])
        else:
            self.A = np.zeros((m, n, self.d))
            for A, root, X in zip(self.A, roots, Xs):
                A[: len(X)] = root * X
        self.kept, self.part = np.arange(self.d), self.A

    def __call__(self, W: np.ndarray) -> np.ndarray:
        if not self.gram:
            return self.C - np.matmul(np.matmul(self.A, W[:, :, None])[:, None, :, 0], self.A)[:, 0]
        used = W.any(axis=0)
        if np.count_nonzero(used) != np.count_nonzero(used[self.kept]) or 4 * used.sum() < len(self.kept):
            self.kept = np.flatnonzero(used)
            if 3 * len(self.kept) > self.d:
                self.kept, self.part = np.arange(self.d), self.A
            else:
                self.part = self.A[:, self.kept]
        return self.C - np.matmul(W[:, None, self.kept], self.part)[:, 0]

    def curvature(self) -> float:
        """The largest eigenvalue of all tasks' Hessians (and one per cent, for the iteration that finds it)."""
        from scipy.sparse.linalg import eigsh, svds

        if self.d <= SMALL:
            return float(
                np.linalg.eigvalsh(self.A if self.gram else np.matmul(self.A.transpose(0, 2, 1), self.A)).max()
            )
        if self.gram:
            return 1.01 * max(float(eigsh(Q, k=1, tol=1e-3, return_eigenvectors=False)[0]) for Q in self.A)
        return 1.01 * max(float(svds(A, k=1, tol=1e-3, return_singular_vectors=False)[0]) ** 2 for A in self.A)


def proximal(Z: np.ndarray, step: float, lam: float, ratio: float | None, cuts: np.ndarray) -> np.ndarray:
    """argmin_W |W - Z|^2 / 2 + step * norms of the rows; Z is (m, d). cuts (d,) is kept from one call to the next."""
    excess = dual_norms(Z, ratio) / (step * lam)
    if ratio is None:
        return Z * (1.0 - 1.0 / np.maximum(excess, 1.0))
    rows = np.flatnonzero(excess > 1.0)
    part, a = Z[:, rows], ratio * step * lam
    sizes = np.abs(part)
    cuts[rows] = cut = _cut(sizes, a, step * lam, cuts[rows])
    out = np.zeros_like(Z)
    out[:, rows] = np.copysign(sizes - np.minimum(np.maximum(sizes - cut, 0.0), a), part)
    return out


def _cut(sizes: np.ndarray, a: float, total: float, guess: np.ndarray) -> np.ndarray:
    """(k,): the least tau >= 0 with sum_i min(a, (s_i - tau)_+) <= total, for each column s of sizes (m, k).

    Newton's steps from the guess, which is close when FISTA is; where they do not get there, by sorting.
    """
    left = np.flatnonzero(np.minimum(sizes, a).sum(axis=0) > total)
    out = np.zeros(len(guess))
    S, tau = sizes[:, left], guess[left]
    for _ in range(4):
        if left.size == 0:
            return out
        rest = S - tau
        capped = np.minimum(np.maximum(rest, 0.0), a)
        off = capped.sum(axis=0) - total
        found = np.abs(off) <= 1e-14 * len(S) * total
        if found.any():
            out[left[found]] = tau[found]
            go = ~found
            left, S, tau, rest, capped, off = left[go], S[:, go], tau[go], rest[:, go], capped[:, go], off[go]
        tau = tau + off / np.maximum((capped == rest).sum(axis=0), 1)
    out[left] = _sorted_cut(S.T, a, total)
    return out


def _sorted_cut(S: np.ndarray, a: float, total: float) -> np.ndarray:
    """The same for the rows of S, all of which need a cut."""
    knots = np.concatenate([S, S - a], axis=1)  # going down, the sum's slope rises by 1 at s_i and falls at s_i - a
    order = np.argsort(-knots, axis=1)
    knots = np.take_along_axis(knots, order, axis=1)
    slope = np.cumsum(np.where(order < S.shape[1], 1.0, -1.0), axis=1)
    sums = np.cumsum(slope[:, :-1] * (knots[:, :-1] - knots[:, 1:]), axis=1)
    k = (sums < total).sum(axis=1)  # within the k-th piece; the last sum is m a, above the total
    every = np.arange(len(S))
    before = np.where(k > 0, sums[every, np.maximum(k - 1, 0)], 0.0)
    return knots[every, k] - (total - before) / slope[every, k]


def fista(Xs, ys, lams, *, tol: float, ratio: float | None = None, limit: float = np.inf) -> np.ndarray:
    """(K, m, d): accelerated proximal gradient steps on W, each lambda from the one before, momentum restarted where it
    points uphill, until the relative gap (looked at every ten steps) is at most tol; NaN from where the time was up.

    The gradient is affine: that at the extrapolated point is extrapolated, too.
    """
    began = time.perf_counter()
    gradient = Gradient(Xs, ys)
    step = 1.0 / gradient.curvature()
    out = np.full((len(lams), *gradient.C.shape), np.nan)
    W, G, cuts = np.zeros_like(gradient.C), gradient.C, np.zeros(gradient.d)
    for k, lam in enumerate(lams):
        V, slope, t = W, G, 1.0
        count = 0
        while True:
            if count % 10 == 0:
                ry, rr = gradient.yy - np.vdot(W, gradient.C), gradient.yy - np.vdot(W, gradient.C + G)
                penalty, over = 2.0 * row_norms(W, lam, ratio).sum(), dual_norms(G, ratio).max() / lam
                if gap_of(rr, ry, gradient.yy, penalty, over) <= tol:
                    break
                if time.perf_counter() - began > limit:
                    return out
            count += 1
            new = proximal(V + step * slope, step, lam, ratio, cuts)
            G_new = gradient(new)
            moved = new - W
            if np.vdot(V - new, moved) > 0.0:
                t = 1.0
            t_new = 0.5 + np.sqrt(0.25 + t * t)
            momentum = (t - 1.0) / t_new
            V, slope = new + momentum * moved, G_new + momentum * (G_new - G)
            W, G, t = new, G_new, t_new
        out[k] = W
    return out


def plain_fista(Xs, ys, lams, *, tol: float, ratio: float | None = None, limit: float = np.inf) -> np.ndarray:
    """The same as Beck and Teboulle wrote it down: products with X, one fixed step, momentum never restarted; each lambda
    from the one before."""
    began = time.perf_counter()
    kappa = [2.0 / (len(Xs) * len(y)) for y in ys]
    step = 1.0 / max(k * np.linalg.norm(X, 2) ** 2 for k, X in zip(kappa, Xs))
    yy = sum(k * (y @ y) for k, y in zip(kappa, ys))
    W = np.zeros((len(Xs), Xs[0].shape[1]))
    out, cuts = np.full((len(lams), *W.shape), np.nan), np.zeros(W.shape[1])
    for n, lam in enumerate(lams):
        V, t, count = W, 1.0, 0
        while True:
            if count % 10 == 0:
                rest = [y - X @ w for X, y, w in zip(Xs, ys, W)]
                G = np.array([k * (X.T @ r) for k, X, r in zip(kappa, Xs, rest)])
                rr, ry = (sum(k * (r @ v) for k, r, v in zip(kappa, rest, other)) for other in (rest, ys))
                penalty, over = 2.0 * row_norms(W, lam, ratio).sum(), dual_norms(G, ratio).max() / lam
                if gap_of(rr, ry, yy, penalty, over) <= tol:
                    break
                if time.perf_counter() - began > limit:
                    return out
            count += 1
            slope = np.array([k * (X.T @ (y - X @ v)) for k, X, y, v in zip(kappa, Xs, ys, V)])
            new = proximal(V + step * slope, step, lam, ratio, cuts)
            t_new = 0.5 + np.sqrt(0.25 + t * t)
            V, W, t = new + (t - 1.0) / t_new * (new - W), new, t_new
        out[n] = W
    return out


# ------------------------------------------------------------------ what is measured


@dataclass(frozen=True, eq=False)
class Unit:
    """One path: L1,2 (ratio None), or Dirty with lam_s = ratio lam_b."""

    problem: BenchProblem
    shared: bool
    ratio: float | None = None

    @cached_property
    def lams(self) -> np.ndarray:
        Xs, ys = self.problem.Xs, self.problem.ys
        G = np.array([2.0 / (len(ys) * len(y)) * (X.T @ y) for X, y in zip(Xs, ys)])
        return dual_norms(G, self.ratio).max() * np.geomspace(1.0, LAM_MIN, N_LAMS)

    @property
    def peers(self) -> list[str]:
        fistas = ["plain FISTA", "tuned FISTA"]
        return WITH_SHARED if self.shared else ["adelie", *fistas] if self.ratio is None else fistas

    @property
    def model(self) -> str:
        if self.ratio is None:
            return "L1,2, shared X" if self.shared else "L1,2"
        m = len(self.problem.ys)
        return f"Dirty {self.ratio:.2g}" + (" (= lasso)" if self.ratio * m <= 1.0 + 1e-12 else "")

    def worst_gap(self, coefs: np.ndarray) -> float:
        Xs, ys = self.problem.Xs, self.problem.ys
        return max(relative_gap(Xs, ys, W, lam, self.ratio) for W, lam in zip(coefs, self.lams))

    def write(self, file: Path) -> str:
        """For the workers: rows stacked and their task, or one X and a column of y per task."""
        Xs, ys = self.problem.Xs, self.problem.ys
        if self.shared:
            arrays = {"X": Xs[0], "y": np.asfortranarray(np.stack(ys, axis=1))}
        else:
            task = np.repeat(np.arange(len(ys)), [len(y) for y in ys])
            arrays = {"X": np.asfortranarray(np.concatenate(Xs)), "y": np.concatenate(ys), "task": task}
        np.savez(file, **arrays, lams=self.lams)
        return str(file)


def shared(name: str, n: int, d: int, m: int, active: int, noise: float) -> BenchProblem:
    """One Gaussian X, `active` rows used by all tasks."""
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.standard_normal((n, d)))
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    Y = X[:, :active] @ rng.uniform(-10, 10, (active, m)) + noise * rng.standard_normal((n, m))
    Y -= Y.mean(axis=0)
    return BenchProblem(name, [X] * m, [np.ascontiguousarray(y) for y in Y.T], N_LAMS, LAM_MIN)


SHARED: dict[str, Callable[[], BenchProblem]] = {
    "shared 300": lambda: shared("shared 300", 300, 617, 5, 20, 4.0),
    "shared 1000": lambda: shared("shared 1000", 1000, 300, 10, 30, 9.0),
    "shared 200": lambda: shared("shared 200", 200, 2000, 20, 15, 2.4),
}
APART = ["paper", "m=5", "Isolet 3e-2", "school"]
SLOW = {"paper", "Isolet 3e-2"}


def units(names: list[str]) -> list[Unit]:
    """Those of the problems whose data are at hand."""
    out = [Unit(SHARED[name](), True) for name in names if name in SHARED]
    made = [PROBLEMS[name]() for name in names if name in APART]
    problems = [replace(problem, n_lams=N_LAMS, lam_min=LAM_MIN) for problem in made if problem is not None]
    out += [Unit(problem, False) for problem in problems]
    for problem in problems:
        first, second = RATIOS
        out += [Unit(problem, False, ratio) for ratio in (first, min(second, 1.0 / np.sqrt(len(problem.ys))))]
    return out


def own_result(own: Solver, unit: Unit, repeats: int, folder: Path) -> dict:
    best = min(own.ask(run="rows", ratio=unit.ratio)["seconds"] for _ in range(1 + repeats))
    coefs = own.arrays(folder / "coefs.npz")["coefs"]
    return {"seconds": best, "gap": unit.worst_gap(coefs), "support": int(coefs[-1].any(axis=0).sum())}


def peer_result(peer: Solver, unit: Unit, repeats: int, folder: Path) -> dict:
    command = {"run": "rows"}
    if peer.name.endswith("FISTA"):
        command |= {"ratio": unit.ratio, "limit": LIMIT}
    else:
        peer.ask(**command, tol=LADDERS[peer.name][0])  # warm-up
    for tol in LADDERS[peer.name]:
        seconds = [peer.ask(**command, tol=tol)["seconds"]]
        coefs = peer.arrays(folder / "coefs.npz")["coefs"]
        done = int(np.isfinite(coefs).all(axis=(1, 2)).sum())
        gap = unit.worst_gap(coefs[:done]) if done else np.inf
        if gap <= ACCURATE or done < len(unit.lams):
            break
    while len(seconds) < repeats and sum(seconds) < LONG:
        seconds.append(peer.ask(**command, tol=tol)["seconds"])
    return {"seconds": min(seconds), "gap": gap, "tol": tol, "lams": done}


def line(unit: Unit, results: dict[str, dict], names: list[str]) -> str:
    """Ratios first."""
    own = results["msmtfl"]
    ratios = {
        name: found["seconds"] / own["seconds"]
        for name, found in results.items()
        if name != "msmtfl" and (found["gap"] <= ACCURATE or found["lams"] < N_LAMS)
    }
    at_least = {name: ">= " for name in ratios if results[name]["lams"] < N_LAMS}
    bar, judged = (SHARED_BAR, min(ratios, key=ratios.get, default=None)) if unit.shared else (FISTA_BAR, "plain FISTA")
    verdict = "" if judged not in ratios else "OK" if ratios[judged] >= bar else "SHORT"
    fastest = min(ratios, key=ratios.get, default=None)
    cells = [
        f"{unit.problem.name}, {unit.model}",
        *(
            f"{at_least.get(name, '')}{ratios[name]:.3g}x" + (f" ({name})" if name == fastest and label else "")
            if name in ratios
            else ""
            for name, label in ((fastest, True), ("plain FISTA", False))
        ),
        f"{bar:g}x" + ("" if unit.shared else " plain FISTA"),
        verdict,
        *(shown(results[name]) if name in results else "" for name in names),
        str(own["support"]),
    ]
    return "| " + " | ".join(cells) + " |"


def shown(found: dict) -> str:
    if found.get("lams", N_LAMS) < N_LAMS:
        return f"> {LIMIT:g} s, {found['lams']} of {N_LAMS} lambdas"
    seconds = found["seconds"]
    return (f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms") + f" ({found['gap']:.0e})"


def main() -> int:
    parser = arguments_of(__doc__, [*SHARED, *APART], LADDERS, f"leave {' and '.join(sorted(SLOW))} out")
    parser.set_defaults(repeats=3)
    arguments = parser.parse_args()
    chosen = arguments.only or [name for name in (*SHARED, *APART) if not (arguments.quick and name in SLOW)]
    own, *peers = start(["msmtfl", *arguments.peers], arguments.adelie)
    names = ["msmtfl", *(peer.name for peer in peers)]
    rows, lines = [], []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for unit in units(chosen):
            file = unit.write(folder / "problem.npz")
            own.ask(load=file)
            results = {"msmtfl": own_result(own, unit, arguments.repeats, folder)}
            for peer in peers:
                if peer.name in unit.peers:
                    peer.ask(load=file)
                    results[peer.name] = peer_result(peer, unit, arguments.repeats, folder)
            again = own_result(own, unit, arguments.repeats, folder)["seconds"]
            results["msmtfl"]["seconds"] = min(results["msmtfl"]["seconds"], again)
            lines.append(line(unit, results, names))
            print(lines[-1], file=sys.stderr)
            rows += [
                {"problem": unit.problem.name, "model": unit.model, "solver": name, **found}
                for name, found in results.items()
            ]
    for solver in (own, *peers):
        solver.close()
    print(versions([own, *peers]))
    print(
        "| problem | fastest peer / msmtfl | plain FISTA / msmtfl | to reach | | "
        + " | ".join(names)
        + " | rows at the end |"
    )
    print("|---" * (6 + len(names)) + "|")
    print("\n".join(lines))
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
