"""Targets of every kind in three sites, of which two features tell something: what pages of reports are made of."""

import numpy as np
import pandas as pd


def make_data(kind, n=40):
    """X with its column of tasks, and targets; of "cox" two columns, times and events."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((3 * n, 5)), columns=["dose", "age", "sun", "rain", "height"])
    level = (0.5 * X["dose"] - 0.4 * X["sun"]).to_numpy() + np.repeat([0.0, 0.3, 0.6], n)
    X["site"] = np.repeat(["north", "south", "west"], n)
    gamma = np.exp(level) * rng.gamma(2.0, 0.5, 3 * n)
    times, ends = rng.exponential(np.exp(-level)), rng.exponential(2.0, 3 * n)
    if kind == "cox":
        return X, np.column_stack([np.minimum(times, ends), times <= ends])
    y = {
        "squared": level + 0.5 * rng.standard_normal(3 * n),
        "poisson": rng.poisson(np.exp(level)).astype(float),
        "gamma": gamma,
        "tweedie": np.where(rng.random(3 * n) < 0.3, 0.0, gamma),
        "huber": level + 0.3 * rng.standard_normal(3 * n) + 30.0 * (rng.random(3 * n) < 0.05),
        "two": np.where(level + 0.5 * rng.logistic(size=3 * n) > 0.2, "ill", "well"),
        "three": np.array(["a", "b", "c"])[(level + rng.logistic(size=(3, 3 * n))).argmax(axis=0)],
    }
    return X, pd.Series(y[kind], name="score")
