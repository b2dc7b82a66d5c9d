"""Certificates of one task's weighted group lasso: a problem whose blocks are the groups (`row_certificates.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._data.ridged import apart
from .box import Limit
from .certificates import certify, largest_violation
from .groups import BlockNorm, Groups
from .loss_certificates import LossCertificate, certify_loss
from .row_certificates import certify_rows, row_violation


def certify_task(design: Any, w: Floats, a: Floats, limit: Limit | Groups) -> Any:
    """Of w for one task's weighted lasso, whatever its loss is, and whatever ties its coefficients."""
    if isinstance(limit, Groups):
        return certify_group_lasso(design, w, a, limit)
    if hasattr(apart(design)[0], "of_loss"):
        return certify_loss(design, w, a, limit)
    return certify(design, w, a, limit)


def certify_group_lasso(design: Any, w: Floats, a: Floats, groups: Groups) -> LossCertificate:
    """Of w for  loss/2 + sum_g |(a w)_g|_2  of one task, in its own sums."""
    proof = certify_rows([design], w[None], _norm(design, a, groups))
    bare = apart(design)[0]
    unit = bare.null if hasattr(bare, "of_loss") else 0.5 * bare.yy
    gap = proof.gap * unit if unit > 0.0 else proof.gap
    return LossCertificate(gap, unit, proof.kkt, proof.unique, proof.dependent[0], proof.doubt, bool(proof.escapes))


def largest_group_violation(designs: Sequence[Any], W: Floats, A: Floats, limit: Limit | Groups) -> float:
    """Of the optimality conditions of all tasks' lassos with weights A (m, d), at W (m, d), as a correlation."""
    if not isinstance(limit, Groups):
        return largest_violation(designs, W, A, limit)
    parts = zip(designs, W, A, strict=True)
    return max(row_violation([design], w[None], _norm(design, a, limit)) for design, w, a in parts)


def _norm(design: Any, a: Floats, groups: Groups) -> BlockNorm:
    """On the scale of a problem of one task, whose loss is divided by n/2."""
    with np.errstate(over="ignore"):
        return BlockNorm((2.0 / design.n * a)[:, None], groups)
