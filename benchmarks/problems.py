"""The problems of the benchmarks: lists of (X_i, y_i), Fortran-ordered float64, columns standardised, y centred."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class BenchProblem:
    name: str
    Xs: list[np.ndarray]
    ys: list[np.ndarray]
    n_lams: int
    lam_min: float  # share of lam_max at which the path ends

    @property
    def lams(self) -> np.ndarray:
        """Falling lambdas of objective (1): lam_max = max_ij 2/(m n_i) |x_j'y_i|."""
        m = len(self.Xs)
        top = max(2.0 / (m * len(y)) * np.abs(X.T @ y).max() for X, y in zip(self.Xs, self.ys, strict=True))
        return top * np.geomspace(1.0, self.lam_min, self.n_lams)

    def describe(self) -> str:
        rows = sorted(len(y) for y in self.ys)
        n = f"{rows[0]}" if rows[0] == rows[-1] else f"{rows[0]}-{rows[-1]}"
        return f"m={len(self.Xs)} n={n} d={self.Xs[0].shape[1]}, {self.n_lams} lambdas to {self.lam_min:g} lam_max"


def _standardise(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    X = np.asfortranarray(X, dtype=np.float64)
    X = X - X.mean(axis=0)
    spread = X.std(axis=0)
    X = X / np.where(spread > 1e-12, spread, 1.0)
    X[:, spread <= 1e-12] = 0.0
    return np.asfortranarray(X), np.ascontiguousarray(y - y.mean(), dtype=np.float64)


def synthetic(name: str, m: int, n: int, d: int, active: int, noise: float, seed: int = 0) -> BenchProblem:
    """Gaussian designs; `active` rows shared by all tasks."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(d, active, replace=False)
    Xs, ys = [], []
    for _ in range(m):
        X = rng.standard_normal((d, n)).T
        w = np.zeros(d)
        w[rows] = rng.uniform(-10, 10, active) * (rng.random(active) < 0.8)
        X, y = _standardise(X, X @ w + noise * rng.standard_normal(n))
        Xs.append(X)
        ys.append(y)
    return BenchProblem(name, Xs, ys, 50, 1e-2)


def paper(seed: int = 0) -> BenchProblem:
    """The paper's first synthetic setting."""
    rng = np.random.default_rng(seed)
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
        X, y = _standardise(X, X @ W[:, i] + 0.01 * rng.standard_normal(n))
        Xs.append(X)
        ys.append(y)
    return BenchProblem("paper", Xs, ys, 50, 1e-2)


def data_folder() -> Path | None:
    folder = os.environ.get("MSMTFL_DATA")
    return Path(folder) if folder and Path(folder).is_dir() else None


def real(name: str, file: str, share: float, lam_min: float) -> BenchProblem | None:
    """A real data set, `share` of every task's rows; None without MSMTFL_DATA."""
    folder = data_folder()
    if folder is None or not (folder / file).exists():
        return None
    stored = np.load(folder / file)
    X, y, task = stored["X"].astype(np.float64), stored["y"], stored["task"]
    rng = np.random.default_rng(0)
    Xs, ys = [], []
    for i in np.unique(task):
        rows = np.flatnonzero(task == i)
        rows = rng.permutation(rows)[: max(2, round(share * len(rows)))]
        X_i, y_i = _standardise(X[rows], y[rows])
        Xs.append(X_i)
        ys.append(y_i)
    return BenchProblem(name, Xs, ys, 30, lam_min)


PROBLEMS: dict[str, Callable[[], BenchProblem | None]] = {
    "paper": paper,
    "m=5": lambda: synthetic("m=5", 5, 300, 617, 20, 0.5),
    "wide": lambda: synthetic("wide", 4, 500, 20_000, 12, 0.5),
    "tall": lambda: synthetic("tall", 4, 20_000, 500, 200, 20.0),
    "Isolet 3e-2": lambda: real("Isolet 3e-2", "isolet.npz", 0.25, 3e-2),
    "Isolet 3e-3": lambda: real("Isolet 3e-3", "isolet.npz", 0.25, 3e-3),
    "school": lambda: real("school", "school.npz", 1.0, 1e-2),
}
LARGE = {"wide", "tall"}


def problems(names: Iterable[str]) -> Iterator[BenchProblem]:
    """The problems of these names whose data are at hand, each made when it is its turn."""
    for name in names:
        problem = PROBLEMS[name]()
        if problem is not None:
            yield problem
