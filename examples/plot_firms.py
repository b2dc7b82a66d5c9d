"""
Eleven firms: when tasks are best left alone
============================================

Real data: what eleven American firms invested from 1935 to 1954, in millions of dollars, with their market value and
their stock of plant and equipment (Grunfeld 1950), a classical panel of econometrics. A task is a firm. Do firms follow
the same rule, so that one model for all does, or each its own?

The table is in the public domain, and comes with statsmodels.
"""

# %%
# Value and capital of the year and of the year before; the first year is lost to that.

import matplotlib.pyplot as plt
from statsmodels.datasets import grunfeld

from msmtfl import LassoMTLCV, compare_models
from msmtfl.plots import CoefficientMapDisplay
from msmtfl.sharing import sharing_map

table = grunfeld.load_pandas().data.sort_values(["firm", "year"])
for name in ("value", "capital"):
    table[f"{name} before"] = table.groupby("firm")[name].shift()
table = table.dropna()
X, y = table[["value", "capital", "value before", "capital before", "firm"]], table["invest"]
print(f"{len(table)} rows, {table['firm'].nunique()} firms")

# %%
# Years of one firm resemble each other, but folds are stratified by firm: every firm is predicted from its other years.

result = compare_models(X, y, task_column="firm", standardize=True)
print(result)

# %%
# Pooled models, one rule for all firms, are far behind: General Motors invests more than a hundred times what Diamond
# Match does. But models in between, which would let firms share, are not clearly better than separate lassos either.
# With nineteen years per firm and four columns there is enough to learn from at home.

figure = result.plot()
plt.show()

# %%
# Each firm by itself, then: who follows what? Effects of one standard deviation.

model = LassoMTLCV(task_column="firm", standardize=True, selection="1se").fit(X, y)
print(sharing_map(model))
CoefficientMapDisplay.from_estimator(model, scale="sd")
plt.show()
