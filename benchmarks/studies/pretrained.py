"""How the pretrained lasso predicts, beside other families and the package ptlasso, on the generator of its vignette.

    python benchmarks/studies/pretrained.py [--seeds 5] [--peer] [--data patients]

5 tasks of 200 samples and 120 features: 10 are used by all tasks, with the coefficient 3 i in task i; 10 by each task alone,
with the coefficient 3; 60 are noise. The noise of the targets has the standard deviation 20. Printed is the nMSE on as
many new samples, its mean and standard error over the seeds, and the seconds of CPU time of a search. `--peer` adds
ptlasso (`pip install ptlasso`), whose folds, default of ten, are set to five; and says how far apart the two are at the
same strength, alpha and first step. A small fit of every model goes before, so that what happens once in a process is not
counted.

`--data patients` takes the 442 diabetes patients of the demo, six groups with 54 features: two thirds of every group to
train, the rest to predict.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from msmtfl import MSMTFLCV, LassoMTL, LassoMTLCV, PretrainedMTLCV, SharedMTLCV, TaskKFold
from msmtfl.baselines import PooledLassoCV
from msmtfl.demo import load_patients
from msmtfl.metrics import nmse

M, N, D, SIGMA = 5, 200, 120, 20.0
Table = tuple[np.ndarray, np.ndarray, np.ndarray]
MODELS = {
    "pretrained": PretrainedMTLCV,
    "shared": SharedMTLCV,
    "msmtfl": MSMTFLCV,
    "lasso": LassoMTLCV,
    "pooled lasso": PooledLassoCV,
}


def sample(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    task, W = np.repeat(np.arange(M), N), np.zeros((M, D))
    for i in range(M):
        W[i, :10], W[i, 10 * (i + 1) : 10 * (i + 2)] = 3.0 * (i + 1), 3.0
    X = rng.standard_normal((M * N, D))
    return X, np.einsum("nj,nj->n", X, W[task]) + SIGMA * rng.standard_normal(M * N), task


def patients(seed: int) -> tuple[Table, Table]:
    known = load_patients()
    train, test = next(iter(TaskKFold(3, task=known.group, random_state=seed).split(known.X)))
    return tuple((known.X[some], known.y[some], known.group[some]) for some in (train, test))


def vignette(seed: int) -> tuple[Table, Table]:
    rng = np.random.default_rng(seed)
    return sample(rng), sample(rng)


def peer(X: np.ndarray, y: np.ndarray, task: np.ndarray, standardize: bool):
    from ptlasso import PretrainedLassoCV

    group = np.unique(task, return_inverse=True)[1]
    return PretrainedLassoCV(n_folds=5, verbose=False, n_threads=1, standardize=standardize).fit(X, y, group)


def one_seed(seed: int, data: str, with_peer: bool) -> dict[str, tuple[float, float]]:
    """nMSE and seconds by model."""
    (X, y, task), (X_new, y_new, task_new) = DATA[data](seed)
    units = data == "patients"  # whose columns are products of measurements
    fits = {name: (lambda kind=kind: kind(standardize=units).fit(X, y, task=task)) for name, kind in MODELS.items()}
    if with_peer:
        fits["ptlasso"] = lambda: peer(X, y, task, units)
    out = {}
    for name, fit in fits.items():
        begin = time.process_time()
        model = fit()
        seconds = time.process_time() - begin
        group = np.unique(task_new, return_inverse=True)[1]
        f = model.predict(X_new, group) if name == "ptlasso" else model.predict(X_new, task=task_new)
        out[name] = nmse(y_new, f, task=task_new), seconds
    return out


DATA = {"vignette": vignette, "patients": patients}


def distance(seed: int = 0, alpha: float = 0.5) -> float:
    """The largest difference of coefficients of the second step, at every task's own strength of ptlasso, on its offsets and
    the support of its first step; relative to the largest coefficient."""
    from ptlasso import PretrainedLasso

    X, y, task = sample(np.random.default_rng(seed))
    model = PretrainedLasso(alpha, n_folds=5, verbose=False, n_threads=1, standardize=False).fit(X, y, task)
    factors = np.where(model.overall_coef_ != 0, 1.0, 1.0 / alpha)
    worst = 0.0
    for i in range(M):
        mine, state, place = task == i, model.pretrain_models_[i], model.pretrain_lmda_idx_[i]
        theirs = np.asarray(state.betas[place].toarray()).ravel()
        lam = (
            2.0 * float(np.asarray(state.lmdas)[place]) / factors.mean()
        )  # theirs is on half the loss, of factors over their mean
        offset = (1.0 - alpha) * model._preval_offset[mine]
        ours = LassoMTL(lam, penalty_factors=factors).fit(X[mine], y[mine], offset=offset).coef_
        worst = max(worst, float(np.abs(ours - theirs).max() / np.abs(theirs).max()))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--data", default="vignette", choices=list(DATA))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    small = sample(np.random.default_rng(99))
    for kind in MODELS.values():
        kind(cv=2).fit(small[0][::4, :30], small[1][::4], task=small[2][::4])
    if options.peer:
        peer(small[0][::4, :5], small[1][::4], small[2][::4], False)
    rows = [one_seed(seed, options.data, options.peer) for seed in range(options.seeds)]
    print(f"{'model':14} {'nMSE':>8} {'se':>8} {'seconds':>9} {'least':>9}")
    for name in rows[0]:
        errors, seconds = np.array([row[name] for row in rows]).T
        spread = errors.std(ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else np.nan
        print(f"{name:14} {errors.mean():8.4f} {spread:8.4f} {seconds.mean():9.2f} {seconds.min():9.2f}")
    if options.peer and options.data == "vignette":
        print(f"coefficients of the second step differ from ptlasso's by {distance():.1e} of the largest")


if __name__ == "__main__":
    main()
