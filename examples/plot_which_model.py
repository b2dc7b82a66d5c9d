"""
Four worlds, four winners
=========================

Generated data, four kinds of them: which model predicts best depends on how the tasks are related. Here we make the
relation ourselves, four times, and let :func:`~msmtfl.compare_models` say who wins. The page :doc:`/which_model` draws
the conclusions.
"""

# %%
# Eight tasks with 40 rows and 60 features each. What differs is the matrix of true coefficients.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from msmtfl import L12MTLCV, MSMTFLCV, DirtyMTLCV, LassoMTLCV, compare_models
from msmtfl.baselines import PooledLassoCV

M, N, D = 8, 40, 60


def copies(rng):
    """The same coefficients in every task, nearly."""
    return np.r_[rng.choice([-1, 1], 5) * rng.uniform(0.3, 0.8, 5), np.zeros(D - 5)] + np.zeros((M, 1))


def strangers(rng):
    """Every task has five features of its own."""
    W = np.zeros((M, D))
    for w in W:
        w[rng.choice(D, 5, replace=False)] = rng.choice([-1, 1], 5) * rng.uniform(0.5, 1.5, 5)
    return W


def same_features(rng):
    """The same five features in all tasks, with coefficients of any sign."""
    W = np.zeros((M, D))
    W[:, :5] = rng.choice([-1, 1], (M, 5)) * rng.uniform(0.3, 0.9, (M, 5))
    return W


def some_tasks(rng):
    """Twelve features that matter, each to two tasks in five."""
    W = np.zeros((M, D))
    W[:, :12] = rng.choice([-1, 1], (M, 12)) * rng.uniform(0.8, 1.6, (M, 12)) * (rng.random((M, 12)) < 0.4)
    return W


WORLDS = {
    "copies": copies,
    "nothing in common": strangers,
    "same features": same_features,
    "shared by some": some_tasks,
}

# %%
# The coefficients: a line is a task, a column one of the first 30 features; blue is positive, orange negative, grey 0.

EFFECTS = LinearSegmentedColormap.from_list(
    "effects", ["#6b2400", "#D55E00", "white", "#0072B2", "#00304d"]
).with_extremes(bad="#e6e6e6")
samples = {}
figure, axes = plt.subplots(1, 4, figsize=(10, 2.3), layout="constrained")
for axis, (name, make) in zip(axes, WORLDS.items(), strict=True):
    rng = np.random.default_rng(0)
    W = make(rng)
    X, task = rng.standard_normal((M * N, D)), np.repeat(np.arange(M), N)
    samples[name] = X, np.einsum("nj,nj->n", X, W[task]) + rng.standard_normal(M * N), task
    axis.imshow(np.where(W == 0, np.nan, W)[:, :30], cmap=EFFECTS, vmin=-1.6, vmax=1.6, aspect="auto")
    axis.set(title=name, xlabel="feature", xticks=[], yticks=[])
axes[0].set_ylabel("task")
plt.show()

# %%
# Held-out error, each model choosing its parameters by its own cross-validation: 1 is predicting a task's mean. Whiskers are
# two standard errors of the difference from separate lassos, for other rows to train on as well as to predict.

choice = {"cv": 3, "lams": 20}
models = {
    "pooled lasso": PooledLassoCV(cv=3),
    "separate lassos": LassoMTLCV(**choice),
    "L1,2": L12MTLCV(**choice),
    "Dirty": DirtyMTLCV(cv=3, lams=10),
    "MSMTFL": MSMTFLCV(entry_shares=0, **choice),
    "bi-level": MSMTFLCV(**choice),
}
figure, axes = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained", sharey=True)
for axis, (name, (X, y, task)) in zip(axes, samples.items(), strict=True):
    result = compare_models(X, y, task=task, models=models, reference="separate lassos", cv=5, n_jobs=-1)
    values, spread = (dict(zip(result.models, numbers, strict=True)) for numbers in (result.nmse, result.se))
    best = min(values, key=values.get)
    axis.barh(
        list(values), list(values.values()), color=["#0072B2" if model == best else "#c9c9c9" for model in values]
    )
    axis.errorbar(
        list(values.values()),
        list(values),
        xerr=[2 * spread[model] for model in values],
        fmt="none",
        ecolor="#333",
        lw=1,
    )
    axis.set(title=name, xlim=(0, 1.4), xlabel="held-out nMSE")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].invert_yaxis()
plt.show()

# %%
# The best of each world is blue. Nobody wins everywhere, and the price of the wrong choice is high: sharing features among
# tasks that have none in common is as bad as pooling tasks whose effects differ in sign. So compare on your own data.
