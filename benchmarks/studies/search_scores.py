"""What the score of a search is worth: the best on its folds, each fold at the point that the others choose, and the truth.

Data are drawn anew many times; the truth is the error on all of the distribution, known here, of the same search on four
fifths of the rows, which is what a fold's model has.

    python benchmarks/studies/search_scores.py              some minutes
    python benchmarks/studies/search_scores.py --sets 10
"""

from __future__ import annotations

import argparse

import numpy as np

from msmtfl import MSMTFLCV, LassoMTLCV
from msmtfl._paths.searched import fold_scores_of
from msmtfl._paths.validation.other_folds import points_without

SETTINGS = {"strong": (2, 1.5, 15), "weak": (1, 2.0, 10)}  # features that matter, noise, features
TASKS, ROWS = 6, 15


def one(seed: int, matter: int, noise: float, d: int) -> list[float]:
    """Mean squared errors: of the search by its best score, by folds, in truth; and the same less those of lassos."""
    rng = np.random.default_rng(seed)
    W = np.zeros((TASKS, d))
    W[:, :matter] = rng.standard_normal((TASKS, matter))
    X, task = rng.standard_normal((TASKS * ROWS, d)), np.repeat(np.arange(TASKS), ROWS)
    y = np.einsum("nj,nj->n", X, W[task]) + noise * rng.standard_normal(len(X))
    first = np.tile(np.arange(ROWS) < 4 * ROWS // 5, TASKS)
    options = {"lams": 12, "scoring": "neg_mse"}
    search = MSMTFLCV(entry_shares=0, **options).fit(X, y, task=task)

    def truth(model: MSMTFLCV | LassoMTLCV) -> float:
        model.fit(X[first], y[first], task=task[first])
        return float(np.mean(((model.coef_ - W) ** 2).sum(axis=1) + model.intercept_**2) + noise**2)

    lassos, scores = np.flatnonzero(np.isinf(search.cv_results_["theta"])), fold_scores_of(search)
    lasso = np.mean(scores[np.arange(len(scores)), points_without(search, lassos)])
    known, separate = truth(MSMTFLCV(entry_shares=0, **options)), truth(LassoMTLCV(**options))
    best = search.best_score_ - scores[:, lassos].mean(axis=0).max()
    gains = [best, search.cross_fitted_score_ - lasso, separate - known]
    return [-search.best_score_, -search.cross_fitted_score_, known, *gains]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=100, help="data sets of each kind")
    sets = parser.parse_args().sets
    print(f"{sets} data sets of each kind, {TASKS} tasks of {ROWS} rows; means (standard errors)\n")
    heads = ["error: best score", "folds", "truth", "gain over lassos: best score", "folds", "truth"]
    print("| signal | " + " | ".join(heads) + " |\n|---" + "|---" * len(heads) + "|")
    for name, (matter, noise, d) in SETTINGS.items():
        found = np.array([one(seed, matter, noise, d) for seed in range(sets)])
        cells = zip(found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(sets))
        print(f"| {name} | " + " | ".join(f"{mean:.2f} ({se:.2f})" for mean, se in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
