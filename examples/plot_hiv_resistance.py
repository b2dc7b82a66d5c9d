"""
Which mutations make HIV resistant to which drugs
=================================================

Real data, which are not shipped (Stanford HIV Drug Resistance Database): eight drugs attack the same protein of the
virus, its protease. A mutation of the protein may help the virus against one of them, or against all. Tasks are drugs,
rows are virus isolates that were tested in the laboratory, a feature says whether the isolate has a mutation (position
and amino acid, ``90M``), and the target is log10 of how much more drug is needed than for the normal virus.

Which positions matter is known: 30, 32, 46, 47, 48, 50, 54, 76, 82, 84, 88 and 90 are the major ones. The model does not
know that. Does it find them?
"""

# %%
# An isolate is tested with several drugs. It must not be in a training fold for one drug and in a held-out fold for another:
# that is what ``groups`` is for.

import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import stored_data
from matplotlib.colors import LinearSegmentedColormap

from msmtfl import MSMTFLCV, LassoMTLCV
from msmtfl.sharing import sharing_map

MAJOR = {30, 32, 46, 47, 48, 50, 54, 76, 82, 84, 88, 90}

data = stored_data.hiv()
print(f"{data.source}: {len(data.y)} tests, {len(data.features)} mutations, {len(set(data.task))} drugs")

# %%
# The simplest models within one standard error of the best, with and without sharing:

models = {
    "separate lassos": LassoMTLCV(selection="1se"),
    "MSMTFL": MSMTFLCV(entry_shares=0, selection="1se"),
}
X = pd.DataFrame(data.X, columns=data.features)
for name, model in models.items():
    model.fit(X, data.y, task=data.task, groups=data.groups)
    used = int(np.count_nonzero(model.coef_.any(axis=0)))
    print(f"{name:16} held-out nMSE {-model.cross_fitted_score_:.3f}, {used} mutations in use")

# %%
# On the real data the same error with far fewer mutations. Now rank the positions by the largest norm of their
# mutations, and look how many of the twelve major ones are among the first k.

position = np.array([int(re.match(r"\d+", name)[0]) for name in data.features])
known = MAJOR & set(position.tolist())


def ranked(model):
    strength = {p: model.row_norms_[position == p].max() for p in set(position.tolist())}
    return sorted(strength, key=strength.get, reverse=True)


figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained", sharex=True)
for (name, model), colour in zip(models.items(), ("#8a8a8a", "#0072B2"), strict=True):
    hits = np.cumsum([p in known for p in ranked(model)[:40]])
    first = np.arange(1, len(hits) + 1)
    axes[0].plot(first, hits / len(known), color=colour, label=name)
    axes[1].plot(first, hits / first, color=colour)
    print(f"{name:16} {hits[len(known) - 1]} of the {len(known)} strongest positions are major ones;", end=" ")
    print(f"all {len(known)} are among the first {1 + int(np.argmax(hits == len(known)))}")
axes[0].set(title="recall: major positions found", xlabel="positions looked at", ylim=(0, 1.05))
axes[1].set(title="precision: share that is major", xlabel="positions looked at", ylim=(0, 1.05))
axes[0].legend(frameon=False)
for axis in axes:
    axis.spines[["top", "right"]].set_visible(False)
figure.suptitle(data.source, fontsize=9, color="#666")
plt.show()

# %%
# Which of them for which drug? A line per position, a column per drug: the strongest effect of a mutation there. Major
# positions are in bold.

model = models["MSMTFL"]
rows = ranked(model)[:20]
effect = np.array([[w[position == p][np.argmax(np.abs(w[position == p]))] for w in model.coef_] for p in rows])
figure, axis = plt.subplots(figsize=(6, 6.2), layout="constrained")
limit = np.abs(effect).max()
effects = LinearSegmentedColormap.from_list(
    "effects", ["#6b2400", "#D55E00", "white", "#0072B2", "#00304d"]
).with_extremes(bad="#e6e6e6")
image = axis.imshow(np.where(effect == 0, np.nan, effect), cmap=effects, vmin=-limit, vmax=limit, aspect="auto")
for (row, column), value in np.ndenumerate(effect):
    if value:
        shade = "w" if abs(value) > 0.35 * limit else "k"
        axis.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=8, color=shade)
axis.set_xticks(range(len(model.tasks_)), model.tasks_)
axis.set_yticks(range(len(rows)), [f"position {p}" for p in rows])
for label, p in zip(axis.get_yticklabels(), rows, strict=True):
    label.set_fontweight("bold" if p in MAJOR else "normal")
axis.tick_params(length=0)
axis.spines[:].set_visible(False)
figure.colorbar(image, label="log10 fold resistance", shrink=0.6)
plt.show()

# %%
# Both models rank the positions about equally well: what matters to all drugs is strong enough for each lasso to see it.
# Sharing pays in the size of the answer. An orange cell is a mutation that makes a virus more sensitive to a drug.

print(sharing_map(model))

# %%
# What not to conclude: mutations occur together, so a coefficient is not the effect of changing one position alone; and fold
# resistance above 100 was recorded as 100.
