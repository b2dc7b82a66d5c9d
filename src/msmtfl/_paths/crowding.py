"""When a stage is not worth solving: it would interpolate in most tasks.

Such stages are not unique, say nothing about other data, and would take most of the time of a search.
"""

from __future__ import annotations

import numpy as np

from .._data.designs import Ints
from .._objective.problem import Problem


class Crowding:
    """Whether in most tasks more features would be un-penalised than there are independent samples.

    Attributes
    ----------
    usable : (m, d) bool, columns that vary within the task
    always : (m,) how many features are never penalised
    orders : (m,) how many columns can be linearly independent
    roomy : with so many more free features no task is crowded
    """

    def __init__(self, problem: Problem):
        self.m, self.positive = problem.m, problem.one_sided
        self.usable = problem.learnable
        self.always = (self.usable & (problem.factors.T == 0)).sum(axis=1, dtype=np.intp)
        # a ridge leaves no coefficient free
        orders = [problem.d if problem.unit_ridge is not None else design.order for design in problem.designs]
        self.orders = np.array(orders, dtype=np.intp)
        self.roomy = int((self.orders - self.always).min())

    def __call__(self, freed: Ints) -> bool:
        """freed (m,) counts the usable features that a stage leaves un-penalised besides those that always are. With a
        constraint on signs such a stage can be unique, so that it is never crowded."""
        return not self.positive and bool(np.count_nonzero(self.always + freed > self.orders) > 0.5 * self.m)
