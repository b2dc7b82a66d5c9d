"""What do intercepts that share gain? Random levels of tasks, their own intercepts against shrunk ones.

    python benchmarks/studies/intercepts.py                # some minutes on one core
    python benchmarks/studies/intercepts.py --smallest     # one seed of the smallest size

Numbers: 30 tasks, levels with standard deviation s_u, noise 1, one feature of five that matters. The strength that is
estimated stands beside the true 1 / s_u^2 (medians over seeds), and the excess error of predictions (their squared distance
from the mean of the target, averaged over all tasks) of SharedMTL at fixed strengths, shrunk intercepts over own ones.

Classes: 29 tasks like mine fields, 9 features, some 6 % of the second class, slopes and levels that differ a little.
Log-loss and AUC on 500 new samples per task; small tasks have 20 to 60 samples, some of them of one class. The classifier
with its own intercepts refuses tasks of one class.
"""

from __future__ import annotations

import argparse
import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from msmtfl import LassoMTL, MSMTFLClassifierCV, MultiTaskAutoClassifier, SharedMTL

SPREADS = (0.0, 0.3, 1.0, 3.0)
SIZES = {"2 to 8": (2, 9), "10 to 30": (10, 31)}


def numbers(spread, sizes, seed):
    """(X, y, task) to train on, and (X, mean of y, task) to test."""
    rng = np.random.default_rng([11, seed])
    m, d = 30, 5
    u, about = spread * rng.standard_normal(m), 0.5 * rng.standard_normal((m, d))
    task, of = np.repeat(np.arange(m), rng.integers(*sizes, m)), np.repeat(np.arange(m), 20)
    X, new = (rng.standard_normal((len(t), d)) + about[t] for t in (task, of))
    y = 2 + u[task] + X[:, 0] + rng.standard_normal(len(task))
    return (X, y, task), (new, 2 + u[of] + new[:, 0], of)


def study_numbers(spread, sizes, seeds):
    strengths, ratios = [], []
    for seed in range(seeds):
        (X, y, task), (new, truth, of) = numbers(spread, sizes, seed)
        strengths.append(LassoMTL(intercepts="shrunk").fit(X, y, task=task).level_ridge_)
        fits = [SharedMTL(0.1, 0.02, intercepts=kind).fit(X, y, task=task) for kind in ("task", "shrunk")]
        errors = [np.mean((fit.predict(new, task=of) - truth) ** 2) for fit in fits]
        ratios.append(errors[1] / errors[0])
    return np.median(strengths), np.mean(ratios), np.std(ratios, ddof=min(1, seeds - 1)) / np.sqrt(seeds)


def classes(small, seed):
    rng = np.random.default_rng([12, seed])
    m, d = 29, 9
    mean = np.array([1, -0.8, 0.6, 0.5, 0, 0, 0, 0, 0])
    u, about = 0.5 * rng.standard_normal(m), 0.3 * rng.standard_normal((m, d))
    W = mean + 0.3 * rng.standard_normal((m, d)) * (mean != 0)

    def draw(sizes):
        task = np.repeat(np.arange(m), sizes)
        X = rng.standard_normal((len(task), d)) + about[task]
        f = -3.3 + u[task] + np.einsum("rj,rj->r", X, W[task])
        return X, (rng.random(len(task)) < 1 / (1 + np.exp(-f))).astype(int), task

    return draw(rng.integers(20, 61, m) if small else rng.integers(400, 701, m)), draw(np.full(m, 500))


def study_classes(small, seeds, smallest):
    found = {}
    for seed in range(seeds):
        (X, y, task), (new, truth, of) = classes(small, seed)
        grid = {"lams": 5 if smallest else 15, "cv": 3}
        models = {
            "one logistic regression, no tasks": LogisticRegression(),
            "MSMTFLClassifierCV, own": MSMTFLClassifierCV(**grid),
            "MSMTFLClassifierCV, shrunk": MSMTFLClassifierCV(**grid, intercepts="shrunk"),
        }
        if small:
            names = ["lasso", "msmtfl", "pooled ridge"]
            auto = MultiTaskAutoClassifier(names, intercepts="shrunk", cv=3, inner_cv=3)
            models["MultiTaskAutoClassifier, shrunk"] = auto
        for name, model in models.items():
            to, at = ({}, {}) if isinstance(model, LogisticRegression) else ({"task": task}, {"task": of})
            try:
                p = model.fit(X, y, **to).predict_proba(new, **at)[:, 1]
            except ValueError:
                continue
            areas = [roc_auc_score(truth[of == i], p[of == i]) for i in range(29) if 0 < truth[of == i].sum() < 500]
            found.setdefault(name, []).append((log_loss(truth, p), np.mean(areas)))
    return {name: (len(values), *np.mean(values, axis=0)) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", choices=("numbers", "classes"), help="one of the two tables")
    parser.add_argument("--smallest", action="store_true", help="one seed of the smallest size")
    options = parser.parse_args()
    seeds = 1 if options.smallest else options.seeds
    warnings.simplefilter("ignore")  # tasks of one class or few samples, which this is about
    print("| samples per task | s_u | 1 / s_u^2 | strength found | excess error, shrunk / own |\n|---|---|---|---|---|")
    for name, sizes in list(SIZES.items())[: 1 if options.smallest else None] if options.only != "classes" else ():
        for spread in SPREADS[: 2 if options.smallest else None]:
            strength, ratio, se = study_numbers(spread, sizes, seeds)
            true = "inf" if spread == 0 else f"{spread**-2:.2g}"
            print(f"| {name} | {spread:g} | {true} | {strength:.2g} | {ratio:.2f} (s.e. {se:.2f}) |", flush=True)
    print("\n| classes | model | seeds fitted | log-loss | AUC within tasks |\n|---|---|---|---|---|")
    for small in () if options.only == "numbers" else (True,) if options.smallest else (True, False):
        for name, (count, loss, area) in study_classes(small, seeds, options.smallest).items():
            size = "20 to 60 samples" if small else "400 to 700 samples"
            print(f"| {size} | {name} | {count} of {seeds} | {loss:.4f} | {area:.3f} |", flush=True)


if __name__ == "__main__":
    main()
