"""Real data where they are to be had, and what is generated where not. Every story says which of the two it shows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

GENERATED = "generated look-alike, not real data"


@dataclass
class Story:
    X: np.ndarray  # (N, d)
    y: np.ndarray  # (N,)
    task: np.ndarray  # (N,) labels
    features: np.ndarray  # (d,) names
    source: str
    groups: np.ndarray | None = None  # (N,) rows that belong together


def archive(name: str) -> dict[str, np.ndarray] | None:
    """The arrays of NAME.npz in the folder MSMTFL_DATA, if it is there."""
    path = Path(os.environ.get("MSMTFL_DATA", "")) / f"{name}.npz"
    if not path.is_file():
        return None
    with np.load(path) as stored:
        return {key: stored[key] for key in stored.files}


def hiv() -> Story:
    """Log fold resistance of HIV isolates to eight protease inhibitors; a feature is a mutation, e.g. 90M."""
    stored = archive("hiv_pi")
    if stored is not None:
        task = stored["task_names"][stored["task"]]
        source = "Stanford HIV Drug Resistance Database, protease inhibitors"
        return Story(stored["X"].astype(float), stored["y"], task, stored["feature_names"], source, stored["isolate"])
    rng = np.random.default_rng(0)
    drugs = np.array(["FPV", "ATV", "IDV", "LPV", "NFV", "SQV", "TPV", "DRV"])
    places = np.repeat(np.arange(1, 100), 2)  # two mutations at each of 99 positions
    features = np.array([f"{place}{'AV'[k % 2]}" for k, place in enumerate(places)])
    isolates = (rng.random((400, len(places))) < 0.06).astype(float)
    major = np.isin(places, [30, 32, 46, 47, 48, 50, 54, 76, 82, 84, 88, 90])
    coef = np.where(major, rng.uniform(0.1, 0.7, (8, len(places))), 0.0)
    coef += (rng.random(coef.shape) < 0.03) * rng.uniform(-0.2, 0.2, coef.shape)
    y = (isolates @ coef.T + 0.3 * rng.standard_normal((400, 8))).T.ravel()
    groups = np.tile(np.arange(400), 8)
    return Story(np.tile(isolates, (8, 1)), y, np.repeat(drugs, 400), features, GENERATED, groups)


def schools() -> Story:
    """Examination scores of pupils in 139 London schools."""
    stored = archive("school")
    if stored is not None:
        keep = stored["feature_names"] != "bias"
        source = "Inner London Education Authority, 1985 to 1987"
        names = stored["feature_names"][keep]
        return Story(stored["X"][:, keep].astype(float), stored["y"], stored["task"], names, source)
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(139), rng.integers(22, 120, 139))
    X = (rng.random((len(task), 27)) < 0.3).astype(float)
    coef = 4 * rng.standard_normal(27) + 0.8 * rng.standard_normal((139, 27))
    y = 20 + 5 * rng.standard_normal(139)[task] + np.einsum("nj,nj->n", X, coef[task])
    names = np.array([f"indicator {j + 1}" for j in range(27)])
    return Story(X, y + 11 * rng.standard_normal(len(task)), task, names, GENERATED)


def isolet() -> Story:
    """Letters of the alphabet as numbers 1 to 26, spoken by five groups of thirty people."""
    stored = archive("isolet")
    if stored is not None:
        task = stored["task_names"][stored["task"]]
        source = "ISOLET, UCI Machine Learning Repository"
        return Story(stored["X"].astype(float), stored["y"], task, stored["feature_names"], source)
    rng = np.random.default_rng(0)
    task = np.repeat([f"Isolet{k}" for k in range(1, 6)], 1560)
    y = np.tile(np.arange(1.0, 27.0), len(task) // 26)
    letters = rng.standard_normal((26, 617))
    X = letters[y.astype(int) - 1] + 3 * rng.standard_normal((len(task), 617))
    return Story(X, y, task, np.array([f"sound {j + 1}" for j in range(617)]), GENERATED)
