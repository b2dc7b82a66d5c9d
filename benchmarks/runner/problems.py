"""The problems: m tasks (X_i, y_i), Fortran-ordered float64, columns standardised, y centred.

Isolet, school, gdsc and hiv_pi are real where MSMTFL_DATA names a folder that has them, otherwise generated look-alikes of
the same shape (rows say which).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from gap import dual_norms


@dataclass(frozen=True, eq=False)
class BenchProblem:
    name: str
    Xs: list[np.ndarray]
    ys: list[np.ndarray]
    n_lams: int
    lam_min: float  # share of lam_max at which the path ends
    data: str = "generated"  # or "real", "look-alike"
    shared: bool = False  # one X for all tasks

    def gradient(self) -> np.ndarray:
        """(m, d): of objective (1)'s loss at W = 0, but for the sign."""
        m = len(self.Xs)
        return np.array([2.0 / (m * len(y)) * (X.T @ y) for X, y in zip(self.Xs, self.ys)])

    @property
    def lams(self) -> np.ndarray:
        """Falling lambdas of objective (1): lam_max = max_ij 2/(m n_i) |x_j'y_i|."""
        return np.abs(self.gradient()).max() * np.geomspace(1.0, self.lam_min, self.n_lams)

    def row_lams(self, ratio: float | None) -> np.ndarray:
        """The same for L1,2 (ratio None) and Dirty."""
        return dual_norms(self.gradient(), ratio).max() * np.geomspace(1.0, self.lam_min, self.n_lams)

    @property
    def shape(self) -> str:
        rows = sorted(len(y) for y in self.ys)
        n = f"{rows[0]:,}" if rows[0] == rows[-1] else f"{rows[0]:,}-{rows[-1]:,}"
        return f"m={len(self.Xs):,} n={n} d={self.Xs[0].shape[1]:,}"

    @property
    def bytes(self) -> int:
        return sum(X.nbytes for X in (self.Xs[:1] if self.shared else self.Xs))

    def write(self, file: Path, lams: np.ndarray) -> str:
        """For the workers: rows stacked and their task, or one X and a column of y per task."""
        if self.shared:
            arrays = {"X": self.Xs[0], "y": np.asfortranarray(np.stack(self.ys, axis=1))}
        else:
            task = np.repeat(np.arange(len(self.ys)), [len(y) for y in self.ys])
            arrays = {"X": np.asfortranarray(np.concatenate(self.Xs)), "y": np.concatenate(self.ys), "task": task}
        np.savez(file, **arrays, lams=lams)
        return str(file)


def from_tasks(name: str, Xs, ys, n_lams: int, lam_min: float, data: str = "generated") -> BenchProblem:
    pairs = [_standardise(X, y) for X, y in zip(Xs, ys)]
    return BenchProblem(name, [X for X, _ in pairs], [y for _, y in pairs], n_lams, lam_min, data)


def _standardise(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    X = np.asfortranarray(X, dtype=np.float64)
    X = X - X.mean(axis=0)
    spread = X.std(axis=0)
    X = X / np.where(spread > 1e-12, spread, 1.0)
    X[:, spread <= 1e-12] = 0.0
    return np.asfortranarray(X), np.ascontiguousarray(y - y.mean(), dtype=np.float64)


# ------------------------------------------------------------------ generated


def synthetic(
    name: str, m: int, n: int, d: int, active: int, noise: float, *, rho: float = 0.0, n_lams: int = 50
) -> BenchProblem:
    """Gaussian designs, columns correlated as rho^|j - k|; `active` rows shared by all tasks, a fifth of their entries 0."""
    rng = np.random.default_rng(0)
    rows = rng.choice(d, active, replace=False)
    Xs, ys = [], []
    for _ in range(m):
        X = rng.standard_normal((d, n)).T
        for j in range(1, d if rho else 0):
            X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho**2) * X[:, j]
        w = np.zeros(d)
        w[rows] = rng.uniform(-10, 10, active) * (rng.random(active) < 0.8)
        Xs.append(X)
        ys.append(X @ w + noise * rng.standard_normal(n))
    return from_tasks(name, Xs, ys, n_lams, 1e-2)


def paper() -> BenchProblem:
    """The paper's first synthetic setting."""
    rng = np.random.default_rng(0)
    m, n, d = 15, 40, 250
    W = rng.uniform(-10, 10, (d, m))
    W[rng.choice(d, int(0.9 * d), replace=False)] = 0.0
    live = np.argwhere(W != 0)
    off = live[rng.choice(len(live), int(0.8 * len(live)), replace=False)]
    W[off[:, 0], off[:, 1]] = 0.0
    Xs, ys = [], []
    for i in range(m):
        X = rng.standard_normal((n, d))
        X /= np.linalg.norm(X, axis=0)
        Xs.append(X)
        ys.append(X @ W[:, i] + 0.01 * rng.standard_normal(n))
    return from_tasks("paper", Xs, ys, 50, 1e-2)


def shared(name: str, n: int, d: int, m: int, active: int, noise: float) -> BenchProblem:
    """One Gaussian X for all tasks, its first `active` features used by all."""
    rng = np.random.default_rng(0)
    X, _ = _standardise(rng.standard_normal((n, d)), np.zeros(n))
    Y = X[:, :active] @ rng.uniform(-10, 10, (active, m)) + noise * rng.standard_normal((n, m))
    Y -= Y.mean(axis=0)
    return BenchProblem(name, [X] * m, [np.ascontiguousarray(y) for y in Y.T], 30, 1 / 30, shared=True)


def growth(m: int, n: int, d: int) -> BenchProblem:
    """Ten relevant features, coefficients between 1 and 2; as drawn, not standardised. Ten lambdas to a tenth."""
    rng = np.random.default_rng(0)
    Xs, ys = [], []
    for _ in range(m):
        X = np.asfortranarray(rng.standard_normal((n, d)))
        Xs.append(X)
        w = rng.uniform(1.0, 2.0, 10) * rng.choice([-1.0, 1.0], 10)
        ys.append(X[:, :10] @ w + rng.standard_normal(n))
    return BenchProblem(f"m={m} n={n} d={d}", Xs, ys, 10, 0.1)


# ------------------------------------------------------------------ real


def data_folder() -> Path | None:
    folder = os.environ.get("MSMTFL_DATA")
    return Path(folder) if folder and Path(folder).is_dir() else None


def real(name: str, file: str, share: float, lam_min: float, like: Callable) -> BenchProblem:
    """A real data set, a random `share` of every task's rows; its look-alike without MSMTFL_DATA."""
    folder = data_folder()
    if folder is None or not (folder / file).exists():
        return from_tasks(name, *like(np.random.default_rng(0)), 30, lam_min, "look-alike")
    with np.load(folder / file) as stored:
        X, y, task = stored["X"].astype(np.float64), stored["y"], stored["task"]
    rng = np.random.default_rng(0)
    rows = [rng.permutation(np.flatnonzero(task == i)) for i in np.unique(task)]
    rows = [part[: max(2, round(share * len(part)))] for part in rows]
    return from_tasks(name, [X[part] for part in rows], [y[part] for part in rows], 30, lam_min, "real")


def binary(m: int, fewest: int, most: int, d: int, relevant: int, noise: float):
    """Indicators, few of them frequent, some nearly copies of others; a shared signal and one of each task."""

    def make(rng: np.random.Generator):
        share = 10.0 ** rng.uniform(-2.3, -0.4, d)
        Xs, ys = [], []
        shared_signal = np.zeros(d)
        shared_signal[rng.choice(d, relevant, replace=False)] = rng.standard_normal(relevant)
        for n in rng.integers(fewest, most + 1, m):
            X = (rng.random((n, d)) < share).astype(float)
            X[:, 1::10] = X[:, 0 : 10 * len(X[0, 1::10]) : 10] * (rng.random((n, len(X[0, 1::10]))) < 0.9)
            w = shared_signal * rng.uniform(0.5, 1.5, d)
            Xs.append(X)
            ys.append(X @ w + noise * rng.standard_normal(n))
        return Xs, ys

    return make


def low_rank(m: int, n: int, d: int, rank: int):
    """Strongly correlated features, as spectra of speech have them; y depends on the factors."""

    def make(rng: np.random.Generator):
        loadings = rng.standard_normal((rank, d)) * np.geomspace(1.0, 0.05, rank)[:, None]
        Xs, ys = [], []
        for _ in range(m):
            Z = rng.standard_normal((n, rank))
            Xs.append(np.tanh(Z @ loadings) + 0.1 * rng.standard_normal((n, d)))
            ys.append(Z @ rng.standard_normal(rank) + 2.0 * rng.standard_normal(n))
        return Xs, ys

    return make


def _isolet(name: str, lam_min: float) -> BenchProblem:
    return real(name, "isolet.npz", 0.25, lam_min, low_rank(5, 390, 617, 40))


PROBLEMS: dict[str, Callable[[], BenchProblem]] = {
    "paper": paper,
    "m=5": lambda: synthetic("m=5", 5, 300, 617, 20, 0.5),
    "wide": lambda: synthetic("wide", 4, 500, 20_000, 12, 0.5),
    "tall": lambda: synthetic("tall", 4, 20_000, 500, 200, 20.0),
    "Isolet 3e-2": lambda: _isolet("Isolet 3e-2", 3e-2),
    "Isolet 3e-3": lambda: _isolet("Isolet 3e-3", 3e-3),
    "school": lambda: real("school", "school.npz", 1.0, 1e-2, binary(139, 22, 251, 28, 10, 3.0)),
    "gdsc": lambda: real("gdsc", "gdsc.npz", 1.0, 3e-2, binary(20, 375, 933, 671, 40, 3.0)),
    "hiv_pi": lambda: real("hiv_pi", "hiv_pi.npz", 1.0, 1e-2, binary(8, 678, 1907, 208, 40, 1.0)),
    "AR 0.5": lambda: synthetic("AR 0.5", 5, 300, 600, 20, 0.5, rho=0.5),
    "AR 0.9": lambda: synthetic("AR 0.9", 5, 300, 600, 20, 0.5, rho=0.9),
    "AR 0.99": lambda: synthetic("AR 0.99", 5, 300, 600, 20, 0.5, rho=0.99),
    "many tasks": lambda: synthetic("many tasks", 1_000, 50, 200, 10, 1.0, n_lams=30),
    "shared 300": lambda: shared("shared 300", 300, 617, 5, 20, 4.0),
    "shared 1000": lambda: shared("shared 1000", 1_000, 300, 10, 30, 9.0),
    "shared 200": lambda: shared("shared 200", 200, 2_000, 20, 15, 2.4),
    "tiny": lambda: replace(synthetic("tiny", 3, 20, 12, 3, 0.5), n_lams=8),
    "tiny shared": lambda: replace(shared("tiny shared", 25, 12, 3, 3, 1.0), n_lams=8),
}
