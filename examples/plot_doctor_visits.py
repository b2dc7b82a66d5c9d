"""
Does a share of the bill keep the sick from the doctor?
=======================================================

Real data: in the RAND Health Insurance Experiment families were assigned by lot to insurance plans that differ in what
the family pays itself. The target is the number of visits to a doctor in a year, tasks are four states of health, as
people judged their own when they entered. Does a share of the bill mean fewer visits, and for those in poor health as
well?

The table (20,190 rows of people and years) is in the public domain, and comes with statsmodels.
"""

# %%
# Counts: the loss is Poisson's, effects are rate ratios.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from statsmodels.datasets import randhie

from msmtfl import SharedMTLCV, compare_models

table = randhie.load_pandas().data
states = {"good": table["hlthg"], "fair": table["hlthf"], "poor": table["hlthp"]}
names = {
    "lncoins": "log of the share paid",
    "idp": "individual deductible",
    "lpi": "log of the incentive",
    "fmde": "log of the highest bill",
    "physlm": "physical limitation",
    "disea": "chronic diseases",
}
X = table[list(names)].rename(columns=names)
X["health"] = np.select([state == 1 for state in states.values()], list(states), "excellent")
y = table["mdvis"].rename("visits")
print(y.groupby(X["health"]).agg(["size", "mean"]).round(2))

# %%
# Which model predicts best? Errors are deviances, relative to knowing no more than the mean of a state of health.

options = {"task_column": "health", "loss": "poisson", "standardize": True}
result = compare_models(X, y, models=["lasso", "msmtfl", "shared"], cv=3, **options)
print(result)

# %%
# The models predict equally well, some 7 % better than the means: who goes to the doctor is mostly not told by these
# columns. What is common to the four states is then the easiest to read, and deviations from it are where states differ.

model = SharedMTLCV(lams=20, cv=3, **options).fit(X, y)
ratios = pd.DataFrame(np.exp(model.coef_ * model.feature_sd_), index=model.tasks_, columns=model.features_).T
print(ratios[["excellent", "good", "fair", "poor"]].round(2))

# %%
# Rate ratios of one standard deviation: below 1, fewer visits.

figure, axis = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
places = np.arange(len(ratios))[::-1]
marks = {
    "excellent": ("#56B4E9", 0.24),
    "good": ("#0072B2", 0.08),
    "fair": ("#E69F00", -0.08),
    "poor": ("#D55E00", -0.24),
}
for state, (colour, shift) in marks.items():
    axis.plot(ratios[state], places + shift, "o", color=colour, label=state, ms=6)
axis.axvline(1.0, color="#888", lw=1)
axis.set_yticks(places, ratios.index)
axis.set_xlabel("visits, times, per standard deviation")
axis.legend(frameon=False, title="health")
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What not to conclude: people are in the table once per year, without a name, so rows are not independent and errors look
# surer than they are. Only the plan was assigned by lot; diseases and limitations were not. And 302 of 20,190 rows are
# of people in poor health: what is said of them is said by the others, mostly.
