"""The dirty model for one more task: its penalty beside the shared part of the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._objective.coupled.given_rows import Flat
from ..._objective.coupled.row_norms import counted
from ..._objective.penalties import Dirty
from ..._objective.problem import Problem
from ..._solvers.stages import Solution
from ..added_tasks import AddTaskMixin, refuse_bounds, refuse_groups, refuse_more_classes


def keep_parts(model: Any, penalty: Dirty, solution: Solution) -> None:
    """Dirty's own attributes."""
    model.lam_s_, model.lam_b_ = penalty.lam_s, penalty.lam_b
    S, B = penalty.norm.split(solution.stages[-1].coef.T)
    single = np.ndim(model.coef_) == 1
    model.coef_specific_, model.coef_shared_ = (
        part.T[0] if single else np.ascontiguousarray(part.T) for part in (S, B)
    )


class GivenShared(AddTaskMixin):
    """One more task beside those whose shared part is held fixed."""

    coef_shared_: Floats
    coef_specific_: Floats

    def _penalty_given(self, problem: Problem) -> Flat:
        refuse_more_classes(self)
        refuse_bounds(self, problem)
        refuse_groups(self, problem)
        f = problem.factors[:, 0]
        least = min(self.lam_s_, self.lam_b_)
        bound = self.n_fitted_tasks_ * problem.l1_ratio * least * counted(f)
        return Flat(np.where(np.isinf(f), np.inf, bound), self._shared_sizes())

    def _shared_sizes(self) -> Floats:
        """(d,): the largest entry of the others' shared part of every feature: so far that of a new task may go."""
        return np.asarray(np.abs(self.coef_shared_[: self.n_fitted_tasks_]).max(axis=0))

    def _ridge_lam(self, problem: Problem) -> float:
        return float(self.n_fitted_tasks_ * self.lam_s_)

    def _append_parts(self, own: Floats, problem: Problem) -> None:
        most = self._shared_sizes()
        shared = np.where(problem.factors[:, 0] > 0.0, np.clip(own, -most, most), 0.0)
        self.coef_shared_ = np.vstack([self.coef_shared_, shared])
        self.coef_specific_ = np.vstack([self.coef_specific_, own - shared])
