"""Binary tasks like those of landmine detection: AUC of the classifier against logistic regressions of scikit-learn.

Generated: tasks with heavy-tailed features (Student's t with 3 degrees of freedom), some 6 % positives. Some features matter
in all tasks, with coefficients that differ between the tasks; each task has one more of its own. 160 rows per task to train
on (about ten positives), 1000 to test. Two settings: few features of 20 matter, or more than half of 12. All models choose
their parameters by three folds.

    python benchmarks/studies/landmine.py --seeds 5                    # 25 tasks
    python benchmarks/studies/landmine.py --seeds 2 --tasks 3 --only sparse

AUC is a task's own, averaged over tasks; standard errors are over seeds, of the differences of the same seed.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from msmtfl import MSMTFLClassifierCV, TaskKFold

TRAIN, TEST, POSITIVE, FOLDS = 160, 1000, 0.06, 3
SETTINGS = {"sparse": (20, 4), "dense": (12, 6)}  # features, and how many are shared
REFERENCE = "per task, l2"


def make_task(rng, d, mean, spread=0.25):
    """(X, y) of one task, positives among the training rows, which come first, at least three."""
    w = np.zeros(d)
    w[: len(mean)] = mean + spread * rng.standard_normal(len(mean))
    w[rng.integers(len(mean), d)] = rng.choice([-1.0, 1.0])
    X = rng.standard_t(3, (TRAIN + TEST, d))
    f = X @ w
    low, high = -30.0, 30.0  # the intercept that gives the share of positives
    for _ in range(60):
        b = 0.5 * (low + high)
        low, high = (b, high) if np.mean(1 / (1 + np.exp(-f - b))) < POSITIVE else (low, b)
    while True:
        y = rng.random(len(f)) < 1 / (1 + np.exp(-f - b))
        if y[:TRAIN].sum() >= 3 and y[TRAIN:].sum() >= 3:
            return X, y.astype(int)


def make_data(setting, seed, tasks):
    rng = np.random.default_rng(seed)
    d, shared = SETTINGS[setting]
    mean = rng.choice([-1.0, 1.0], shared) * np.linspace(0.8, 0.3, shared)
    parts = [make_task(rng, d, mean) for _ in range(tasks)]
    train = [np.concatenate([one[k][:TRAIN] for one in parts]) for k in (0, 1)]
    test = [np.concatenate([one[k][TRAIN:] for one in parts]) for k in (0, 1)]
    return (*train, np.repeat(np.arange(tasks), TRAIN)), (*test, np.repeat(np.arange(tasks), TEST))


def regression(penalty, cv):
    ratio = {"l1": (1.0,), "l2": (0.0,)}[penalty]
    solver = {"l1": "liblinear", "l2": "lbfgs"}[penalty]
    options = {"Cs": 10, "scoring": "neg_log_loss", "max_iter": 2000, "use_legacy_attributes": False}
    return make_pipeline(StandardScaler(), LogisticRegressionCV(cv=cv, solver=solver, l1_ratios=ratio, **options))


def per_task(penalty):
    def fit(X, y, task):
        cv = {i: min(FOLDS, int(y[task == i].sum())) for i in np.unique(task)}
        models = {i: regression(penalty, cv[i]).fit(X[task == i], y[task == i]) for i in cv}
        return lambda X, task: by_task(models, X, task)

    return fit


def by_task(models, X, task):
    out = np.empty(len(X))
    for i, model in models.items():
        out[task == i] = model.decision_function(X[task == i])
    return out


def pooled(penalty):
    def fit(X, y, task):
        model = regression(penalty, list(TaskKFold(FOLDS, task=task, random_state=0).split(X))).fit(X, y)
        return lambda X, task: model.decision_function(X)

    return fit


def ours(**options):
    def fit(X, y, task):
        model = MSMTFLClassifierCV(lams=20, cv=FOLDS, standardize=True, **options).fit(X, y, task=task)
        return lambda X, task: model.decision_function(X, task=task)

    return fit


MODELS = {
    "MSMTFLClassifierCV": ours(),
    "the same, one stage": ours(thetas=[np.inf]),
    "per task, l2": per_task("l2"),
    "pooled, l1": pooled("l1"),
    "pooled, l2": pooled("l2"),
}


def compare(setting, seeds, tasks) -> None:
    auc, seconds = np.empty((len(MODELS), seeds)), np.zeros(len(MODELS))
    for seed in range(seeds):
        (X, y, task), (X_new, y_new, task_new) = make_data(setting, seed, tasks)
        for k, fit in enumerate(MODELS.values()):
            began = time.perf_counter()
            score = fit(X, y, task)(X_new, task_new)
            seconds[k] += time.perf_counter() - began
            of_tasks = [roc_auc_score(y_new[task_new == i], score[task_new == i]) for i in range(tasks)]
            auc[k, seed] = np.mean(of_tasks)
    d, shared = SETTINGS[setting]
    base, root = list(MODELS).index(REFERENCE), np.sqrt(seeds)
    print(f"{setting}: {shared} of {d} features in all {tasks} tasks, one more in each; {seeds} seeds")
    print(f"{'model':<22} {'AUC':>7} {'(s.e.)':>8}   {'- ' + REFERENCE:>14} {'(s.e.)':>8} {'s per fit':>10}")
    for k in np.argsort(-auc.mean(axis=1)):
        gain = auc[k] - auc[base]
        print(
            f"{list(MODELS)[k]:<22} {auc[k].mean():7.4f} ({np.std(auc[k], ddof=1) / root:.4f})   {gain.mean():+14.4f} "
            f"({np.std(gain, ddof=1) / root:.4f}) {seconds[k] / seeds:10.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=25)
    parser.add_argument("--only", choices=list(SETTINGS))
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error("standard errors need at least two seeds")
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", "task.* have fewer rows of a class")
    for setting in [arguments.only] if arguments.only else SETTINGS:
        compare(setting, arguments.seeds, arguments.tasks)


if __name__ == "__main__":
    main()
