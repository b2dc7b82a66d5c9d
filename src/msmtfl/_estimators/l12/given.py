"""L1,2 for one more task: its penalty beside the norms of the others."""

from __future__ import annotations

import numpy as np

from ..._data.designs import Floats
from ..._objective.coupled.given_rows import Rounded
from ..._objective.coupled.row_norms import counted
from ..._objective.problem import Problem
from ..added_tasks import AddTaskMixin, refuse_bounds, refuse_groups, refuse_more_classes


class GivenNorms(AddTaskMixin):
    """One more task beside those whose norms are held fixed."""

    def _penalty_given(self, problem: Problem) -> Rounded:
        refuse_more_classes(self)
        refuse_bounds(self, problem)
        refuse_groups(self, problem)
        f = problem.factors[:, 0]
        bound = self.n_fitted_tasks_ * problem.l1_ratio * self.lam_ * self.row_slopes_ * counted(f)
        reach = np.divide(self.row_norms_, f, out=np.zeros_like(f), where=(f > 0.0) & np.isfinite(f))
        return Rounded(np.where(np.isinf(f), np.inf, bound), reach)

    def _norms_with(self, w: Floats, problem: Problem) -> Floats:
        return np.asarray(np.hypot(self.row_norms_, counted(problem.factors)[:, 0] * w[0]))
