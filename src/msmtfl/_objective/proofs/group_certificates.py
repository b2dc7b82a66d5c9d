"""Certificates of one task's weighted group lasso: a problem whose blocks are the groups (`row_certificates.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._data.forms.ridged import apart, ridged
from ..box import Limit
from ..coupled.groups import BlockNorm, BoundedGroups, Groups
from .certificates import certify, largest_violation
from .loss_certificates import LossCertificate, certify_loss
from .pressed import Pressed
from .row_certificates import certify_rows, row_violation


def certify_task(design: Any, w: Floats, a: Floats, limit: Limit | Groups | BoundedGroups) -> Any:
    """Of w for one task's weighted lasso, whatever its loss is, and whatever ties its coefficients."""
    if isinstance(limit, Groups | BoundedGroups):
        return certify_group_lasso(design, w, a, limit)
    if hasattr(apart(design)[0], "of_loss"):
        return certify_loss(design, w, a, limit)
    return certify(design, w, a, limit)


def certify_group_lasso(design: Any, w: Floats, a: Floats, groups: Groups | BoundedGroups) -> LossCertificate:
    """Of w for  loss/2 + sum_g |(a w)_g|_2  of one task, in its own sums, within bounds if there are any."""
    proof = certify_rows([_held(design, w, a, groups)], w[None], _norm(design, a, groups))
    bare = apart(design)[0]
    unit = bare.null if hasattr(bare, "of_loss") else 0.5 * bare.yy
    gap = proof.gap * unit if unit > 0.0 else proof.gap
    return LossCertificate(gap, unit, proof.kkt, proof.unique, proof.dependent[0], proof.doubt, bool(proof.escapes))


def largest_group_violation(
    designs: Sequence[Any], W: Floats, A: Floats, limits: Sequence[Limit | Groups | BoundedGroups]
) -> float:
    """Of the optimality conditions of all tasks' lassos with weights A (m, d), at W (m, d), as a correlation; `limits` says
    of each what ties its coefficients."""
    parts = list(zip(designs, W, A, limits, strict=True))
    return max(
        row_violation([_held(design, w, a, limit)], w[None], _norm(design, a, limit))
        if isinstance(limit, Groups | BoundedGroups)
        else largest_violation([design], w[None], a[None], limit)
        for design, w, a, limit in parts
    )


def _held(design: Any, w: Floats, a: Floats, limit: Groups | BoundedGroups) -> Any:
    """The task with the forces of its bounds, if it has any."""
    if isinstance(limit, Groups):
        return design
    bare, ridge = apart(design)
    return ridged(Pressed(bare, limit.forces(w, a, design.gradient(w)), limit.box), ridge)


def _norm(design: Any, a: Floats, limit: Groups | BoundedGroups) -> BlockNorm:
    """On the scale of a problem of one task, whose loss is divided by n/2."""
    groups = limit if isinstance(limit, Groups) else limit.groups
    with np.errstate(over="ignore"):
        return BlockNorm((2.0 / design.n * a)[:, None], groups)
