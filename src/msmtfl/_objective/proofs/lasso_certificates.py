"""Certificates of the weighted lassos of a problem's tasks, whatever the loss is and whatever ties the coefficients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._data.designs import Floats
from ..._data.forms.ridged import ridged
from ..box import of_task
from ..coupled.groups import BoundedGroups
from ..problem import Problem
from .certificates import TaskCertificate, certify_all
from .dual_points import Memo
from .group_certificates import certify_group_lasso
from .loss_certificates import certify_loss


def certify_lassos(
    problem: Problem, i: int, W: Floats, A: Floats, memo: Memo | None = None, lams: Floats | None = None
) -> Sequence[TaskCertificate]:
    """Certificates of a task's weighted lassos, for rows of W and of weights A (solutions, d), at lams (solutions,)."""
    ridge = None
    if problem.unit_ridge is not None:
        assert lams is not None
        ridge = np.multiply.outer(lams, problem.unit_ridge[i])
    if problem.groups is not None:
        ridges, box = [None] * len(W) if ridge is None else ridge, problem.box
        tied = problem.groups if box is None else BoundedGroups(problem.groups, box.task(i))
        return [
            certify_group_lasso(ridged(problem.designs[i], r), w, a, tied) for w, a, r in zip(W, A, ridges, strict=True)
        ]
    if problem.loss.squared:
        return certify_all(problem.designs[i], W, A, of_task(problem.limit, i), memo, ridge=ridge)
    ridges, limit = [None] * len(W) if ridge is None else ridge, of_task(problem.limit, i)
    return [certify_loss(ridged(problem.designs[i], r), w, a, limit) for w, a, r in zip(W, A, ridges, strict=True)]
