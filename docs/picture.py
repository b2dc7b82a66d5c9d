"""Draws docs/picture.png, the README's picture: the demo's patients, separate lassos beside msmtfl.

python docs/picture.py        (needs matplotlib)
"""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from msmtfl import MSMTFLCV, LassoMTLCV
from msmtfl._runtime.drawing import DIVERGING, colours
from msmtfl.demo import load_patients

mpl.use("Agg")


def main() -> None:
    patients = load_patients()
    models = [
        model.fit(patients.X, patients.y, task=patients.group)
        for model in (LassoMTLCV(standardize=True), MSMTFLCV(standardize=True))
    ]
    spread = np.array([patients.X[patients.group == g].std(axis=0) for g in models[0].tasks_])
    effects = [model.coef_ * spread for model in models]
    rows = np.argsort(-models[1].row_norms_ - 1e-3 * models[0].row_norms_)
    rows = [j for j in rows if any(effect[:, j].any() for effect in effects)][:16]
    groups = [label.replace(", age ", "\n") for label in models[0].tasks_]
    free = set(models[1].stages_[-1].free_rows.tolist())

    figure, axes = plt.subplots(1, 2, figsize=(9.5, 5.2), sharey=True, layout="constrained")
    limit = max(np.abs(effect).max() for effect in effects)
    titles = (
        "separate lassos",
        f"msmtfl ({len(free)} features freed: shared, not shrunk)",
    )
    for axis, effect, title in zip(axes, effects, titles, strict=True):
        shown = np.where(effect[:, rows] == 0, np.nan, effect[:, rows]).T  # exactly 0: grey
        image = axis.imshow(shown, cmap=colours(DIVERGING), vmin=-limit, vmax=limit, aspect="auto")
        axis.set_title(title, fontsize=11)
        axis.set_xticks(range(len(groups)), groups, fontsize=7.5)
        for t, j in enumerate(rows):
            for i in range(len(groups)):
                if effect[i, j]:
                    shade = "white" if abs(effect[i, j]) > 0.35 * limit else "black"
                    axis.text(i, t, f"{effect[i, j]:.0f}", ha="center", va="center", fontsize=7.5, color=shade)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    axes[0].set_yticks(range(len(rows)), [patients.features[j] for j in rows], fontsize=8.5)
    for t, j in enumerate(rows):
        if j in free:
            axes[1].add_patch(plt.Rectangle((-0.5, t - 0.5), len(groups), 1, fill=False, ec="black", lw=1.3))
    bar = figure.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label("effect of one standard deviation on progression (blue: up)", fontsize=8.5)
    bar.ax.tick_params(labelsize=8)
    figure.savefig(Path(__file__).with_name("picture.png"), dpi=130)


if __name__ == "__main__":
    main()
