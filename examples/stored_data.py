"""Real tables of the stories that are not shipped: read from the folder that the environment variable MSMTFL_DATA names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass
class Story:
    X: np.ndarray  # (N, d)
    y: np.ndarray  # (N,)
    task: np.ndarray  # (N,) labels
    features: np.ndarray  # (d,) names
    source: str
    groups: np.ndarray | None = None  # (N,) rows that belong together


def archive(name: str) -> dict[str, np.ndarray]:
    """The arrays of NAME.npz."""
    path = Path(os.environ.get("MSMTFL_DATA", "")) / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(f"{name}.npz is needed: set MSMTFL_DATA to the folder that holds it.")
    with np.load(path) as stored:
        return {key: stored[key] for key in stored.files}


def hiv() -> Story:
    """Log fold resistance of HIV isolates to eight protease inhibitors; a feature is a mutation, e.g. 90M."""
    stored = archive("hiv_pi")
    task = stored["task_names"][stored["task"]]
    source = "Stanford HIV Drug Resistance Database, protease inhibitors"
    return Story(stored["X"].astype(float), stored["y"], task, stored["feature_names"], source, stored["isolate"])


def schools() -> Story:
    """Examination scores of pupils in 139 London schools."""
    stored = archive("school")
    keep = stored["feature_names"] != "bias"
    source = "Inner London Education Authority, 1985 to 1987"
    names = stored["feature_names"][keep]
    return Story(stored["X"][:, keep].astype(float), stored["y"], stored["task"], names, source)


def isolet() -> Story:
    """Letters of the alphabet as numbers 1 to 26, spoken by five groups of thirty people."""
    stored = archive("isolet")
    task = stored["task_names"][stored["task"]]
    source = "ISOLET, UCI Machine Learning Repository"
    return Story(stored["X"].astype(float), stored["y"], task, stored["feature_names"], source)
