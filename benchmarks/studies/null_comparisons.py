"""How often compare_models finds a clear difference where there is none.

Every model has features of its own, drawn in the same way and of the same effect, so that over data sets all are equally
good: a verdict that one is clearly better or worse is wrong. At most 5 % may be; two standard errors over rows, which leave
out that other rows would train other models, give more.

    python benchmarks/studies/null_comparisons.py            200 data sets of each kind, some minutes
    python benchmarks/studies/null_comparisons.py --sets 20
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from msmtfl import compare_models


class OnItsOwn(RegressorMixin, BaseEstimator):
    """Least squares on some of the features: for every task by itself, or for all with an intercept each."""

    def __init__(self, low: int = 0, high: int = 1, pooled: bool = False):
        self.low, self.high, self.pooled = low, high, pooled

    def _design(self, X: Any, task: Any) -> Any:
        own = (np.asarray(task)[:, None] == self.tasks_).astype(float)
        features = X[:, self.low : self.high]
        slopes = features if self.pooled else (features[:, :, None] * own[:, None]).reshape(len(X), -1)
        return np.hstack([slopes, own])

    def fit(self, X: Any, y: Any, task: Any = None) -> OnItsOwn:
        self.tasks_ = np.unique(task)
        self.weights_ = np.linalg.lstsq(self._design(X, task), y, rcond=None)[0]
        return self

    def predict(self, X: Any, task: Any = None) -> Any:
        return self._design(X, task) @ self.weights_


@dataclass(frozen=True)
class Kind:
    """m tasks with n rows each; `models` models with p features each; noise normal, or of heavy tails."""

    m: int
    n: int
    p: int
    models: int
    pooled: bool = False
    tails: bool = False

    def compared(self, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        X, task = rng.standard_normal((self.m * self.n, self.models * self.p)), np.repeat(np.arange(self.m), self.n)
        noise = rng.standard_t(3, len(X)) if self.tails else rng.standard_normal(len(X))
        places = range(0, self.models * self.p, self.p)
        models = {f"features from {low}": OnItsOwn(low, low + self.p, self.pooled) for low in places}
        return compare_models(
            X, X.sum(axis=1) / np.sqrt(X.shape[1]) + noise, task=task, models=models, random_state=seed
        )

    def __str__(self) -> str:
        words = [f"{self.models} models", f"{self.m} tasks x {self.n} rows", f"{self.p} features each"]
        return ", ".join([*words, *["pooled"] * self.pooled, *["heavy tails"] * self.tails])


KINDS = (
    Kind(4, 15, 3, 2),
    Kind(10, 20, 3, 2),
    Kind(4, 15, 3, 2, pooled=True),
    Kind(4, 15, 3, 2, tails=True),
    Kind(1, 60, 5, 2),
    Kind(4, 15, 3, 9),
    Kind(10, 20, 3, 9, pooled=True),
)


def rates(kind: Kind, sets: int) -> dict[str, float]:
    """Shares of data sets: differences of a pair beyond two standard errors over rows, beyond two as they are printed, clear
    by all that is asked; verdicts in words that something is clear. And how much differences vary over data sets, in
    standard errors over rows."""
    found = [kind.compared(seed) for seed in range(sets)]
    size = np.abs([one.difference[1] for one in found])
    return {
        "vary": float(np.std([one.difference[1] for one in found]) / np.mean([one.se_of_rows[1] for one in found])),
        "rows": float(np.mean(size > 2 * np.array([one.se_of_rows[1] for one in found]))),
        "printed": float(np.mean(size > 2 * np.array([one.se[1] for one in found]))),
        "clear": float(np.mean([one.evidence(one.models[1]).clear for one in found])),
        "verdict": float(np.mean([is_clear(one.verdict()) for one in found])),
    }


def is_clear(verdict: str) -> bool:
    return ": clearly less than" in verdict or ", is clearly worse" in verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=200, help="data sets of each kind")
    sets = parser.parse_args().sets
    print(f"{sets} data sets of each kind, all models equally good. Vary: standard deviation of a difference over data")
    print("sets, in standard errors over rows. Then shares of data sets with a difference that is taken for real.\n")
    print("| data | vary | 2 s.e. over rows | 2 s.e. as printed | clear | verdict clear |")
    print("|---|---|---|---|---|---|")
    for kind in KINDS:
        found = rates(kind, sets)
        shares = " | ".join(f"{100 * found[name]:.1f} %" for name in ("rows", "printed", "clear", "verdict"))
        print(f"| {kind} | {found['vary']:.2f} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
