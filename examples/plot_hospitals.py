"""
Five hospitals that may not share patients
==========================================

Generated data, not real patients: five hospitals measure the same 12 quantities and want one study, but rows must not
leave the house. For squared loss they need not: every hospital sends sums, and the model from the sums is the model
from the rows.
"""

# %%
# Every hospital has its patients, its own level, and one effect that only it has.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from msmtfl import MSMTFL, Moments
from msmtfl.plots import CoefficientMapDisplay

FEATURES = [
    "age",
    "bmi",
    "pressure",
    "glucose",
    "ldl",
    "hdl",
    "creatinine",
    "sodium",
    "crp",
    "albumin",
    "lactate",
    "pulse",
]
HOSPITALS = ["Aarhus", "Bergen", "Gent", "Porto", "Turku"]
rng = np.random.default_rng(0)


def patients(k):
    X = pd.DataFrame(rng.standard_normal((120 + 40 * k, len(FEATURES))), columns=FEATURES)
    effect = np.zeros(len(FEATURES))
    effect[[1, 3, 9]] = 1.2, 0.8, -1.0  # bmi, glucose, albumin: everywhere
    effect[4 + k] += 0.6  # one of its own
    return X, 5 + k + X @ effect + rng.standard_normal(len(X))


rows = {name: patients(k) for k, name in enumerate(HOSPITALS)}

# %%
# What each hospital computes and sends: a file with numbers of rows, means, and sums of products. The package says what
# such a file gives away.

folder = Path(tempfile.mkdtemp())
for name, (X, y) in rows.items():
    local = Moments().update(X, y, task=np.full(len(y), name))
    local.save(folder / f"{name}.npz")
    size = (folder / f"{name}.npz").stat().st_size
    print(f"{name}: {len(y)} patients, {size / 1000:.0f} kB;", local.disclosure() or "nothing conspicuous")

# %%
# The centre adds up and fits.

files = [Moments.load(folder / f"{name}.npz") for name in HOSPITALS]
study = files[0]
for other in files[1:]:
    study = study + other
model = MSMTFL(theta="adaptive").fit_moments(study)

# %%
# Had the rows been in one place, the answer would have been the same:

X = pd.concat([X for X, _ in rows.values()])
y = np.concatenate([y for _, y in rows.values()])
task = np.repeat(HOSPITALS, [len(y) for _, y in rows.values()])
central = MSMTFL(theta="adaptive").fit(X, y, task=task)
print(f"largest difference of a coefficient: {np.abs(model.coef_ - central.coef_).max():.1e}")

# %%
# Three effects that all hospitals share, and one of each hospital's own on the diagonal:

figure, axis = plt.subplots(figsize=(6.5, 4.6), layout="constrained")
CoefficientMapDisplay.from_estimator(model, ax=axis)
plt.show()

# %%
# Sums hide single patients only where there are many of them. See :doc:`/federated` for what statistics reveal, and what
# this is not: neither encryption nor differential privacy.
