"""
139 schools: when one model for all is best
===========================================

Real data, which are not shipped: examination scores of pupils in London schools, a task each: the classical data set of
multi-task learning, and a warning. Schools differ in how good their pupils are (the intercept), hardly in what a
pupil's sex, year or test band means for the score. Then pooling wins.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np
import stored_data

from msmtfl import compare_models
from msmtfl.baselines import PooledLassoCV

data = stored_data.schools()
sizes = np.unique(data.task, return_counts=True)[1]
print(f"{data.source}: {len(data.y)} pupils, {data.X.shape[1]} features")
print(f"{len(sizes)} schools of {sizes.min()} to {sizes.max()} pupils")

# %%
# Three folds suffice for a picture (``benchmarks/studies/sharing.py`` has the full comparison):

result = compare_models(
    data.X, data.y, task=data.task, models=["lasso", "msmtfl", "pooled lasso"], cv=3, inner_cv=3, n_jobs=-1
)
print(result)

# %%
# Who gains from pooling? A dot is a school; below the line it is predicted better by one lasso for all schools than by a
# lasso of its own.

by_task = dict(zip(result.models, result.nmse_by_task, strict=True))
gain = by_task["pooled lasso"] - by_task["lasso"]
figure, axis = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
axis.axhline(0, color="#333", lw=0.8)
axis.scatter(sizes, gain, s=14, color=np.where(gain < 0, "#0072B2", "#D55E00"))
axis.set(xlabel="pupils in the school", ylabel="nMSE, pooled less separate")
axis.set_title(f"{(gain < 0).sum()} of {len(gain)} schools are predicted better by the pooled model", loc="left")
axis.text(1, 0.01, data.source, transform=axis.transAxes, ha="right", fontsize=8, color="#666")
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What the pooled model says. Effects are differences in examination points.

model = PooledLassoCV(cv=3).fit(data.X, data.y, task=data.task)
order = np.argsort(-np.abs(model.coef_[0]))[:12]
figure, axis = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
axis.barh(range(len(order)), model.coef_[0][order], color="#0072B2")
axis.set_yticks(range(len(order)), data.features[order])
axis.invert_yaxis()
axis.set_xlabel("examination points")
axis.spines[["top", "right"]].set_visible(False)
plt.show()
