"""What the tests compare with, sharing nothing with the package: random tasks, a plain solver and plain formulas in
`plain.py`; duality gaps and optimality conditions of every family and loss in extended precision in `gaps.py`."""

from __future__ import annotations

from .gaps import (
    Dirty,
    Group,
    Shared,
    Task,
    lasso_gap,
    lasso_violation,
    loss_gap,
    loss_violation,
    rows_gap,
    rows_violation,
    task_of,
)
from .plain import lam_max, loss, objective, primal, random_tasks, relative_gap, weighted_lasso

__all__ = [
    "Dirty",
    "Group",
    "Shared",
    "Task",
    "lam_max",
    "lasso_gap",
    "lasso_violation",
    "loss",
    "loss_gap",
    "loss_violation",
    "objective",
    "primal",
    "random_tasks",
    "relative_gap",
    "rows_gap",
    "rows_violation",
    "task_of",
    "weighted_lasso",
]
