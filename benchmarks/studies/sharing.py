"""Did sharing help? `compare_models` with its defaults on real data: 139 schools, and Isolet with a quarter of its rows.

    python benchmarks/studies/sharing.py [--quick] [--only NAME] [--figures FOLDER]

Needs MSMTFL_DATA, the folder of school.npz and isolet.npz. Figures need matplotlib.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

from msmtfl import compare_models


def quarter(task, repeats, seed=0):
    """Pairs (training rows, test rows): a random quarter of every task to train on."""
    rng = np.random.default_rng(seed)
    for _ in range(repeats):
        parts = [rng.permutation(np.flatnonzero(task == label)) for label in np.unique(task)]
        train = np.concatenate([part[: len(part) // 4] for part in parts])
        yield train, np.setdiff1d(np.arange(len(task)), train)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one split of Isolet, three folds of the schools")
    parser.add_argument("--only", choices=["school", "isolet"])
    parser.add_argument("--figures", type=Path)
    options = parser.parse_args()
    folder = Path(os.environ.get("MSMTFL_DATA", "."))
    for name in ("school", "isolet"):
        file = folder / f"{name}.npz"
        if options.only not in (None, name):
            continue
        if not file.exists():
            print(f"{name}: {file.name} not found, set MSMTFL_DATA to its folder")
            continue
        data = np.load(file)
        X, y, task = data["X"], data["y"].astype(float), data["task"]
        if name == "school":
            settings = {"cv": 3 if options.quick else 5}
        else:
            settings = {"cv": list(quarter(task, 1 if options.quick else 3)), "inner_cv": 3, "standardize": True}
        began = time.perf_counter()
        result = compare_models(X, y, task=task, verbose=True, **settings)
        print(f"\n## {name} ({time.perf_counter() - began:.0f} s)\n{result}\nseconds per fit:")
        for model, seconds in zip(result.models, result.seconds, strict=True):
            print(f"  {model:<15} {seconds:6.2f}")
        if options.figures is not None:
            options.figures.mkdir(parents=True, exist_ok=True)
            result.plot().savefig(options.figures / f"sharing_{name}.png", dpi=150)


if __name__ == "__main__":
    main()
