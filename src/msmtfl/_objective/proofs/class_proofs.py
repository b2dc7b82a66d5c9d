"""What is proven of several classes, each against the rest, whose problems have nothing but strengths in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..coupled.common_penalty import SharedBlocks, SharedNorm
from ..coupled.pooling import PoolingRidge, certify_pooling, certify_ridges
from .certificates import RowCertificate
from .row_certificates import certify_rows, row_violation


def of_every_class(designs: Sequence[Any], classes: int, certify: Callable[[int], RowCertificate]) -> RowCertificate:
    """The certificates of classes as one, of which the parts `designs[c::classes]` are about class c: its gap is that of the
    sum of their objectives."""
    if classes == 1:
        return certify(0)
    proofs = [certify(c) for c in range(classes)]
    units = np.array([sum(part.null / part.n for part in designs[c::classes]) for c in range(classes)])
    gaps = np.array([proof.gap for proof in proofs])
    total = float(units.sum())
    with np.errstate(invalid="ignore"):
        gap = float(gaps @ units / total) if total > 0.0 else float(gaps.max())
    return RowCertificate(
        gap if not np.isnan(gap) else float("inf"),
        max(proof.kkt for proof in proofs),
        all(proof.unique for proof in proofs),
        tuple(proofs[i % classes].dependent[i // classes] for i in range(len(designs))),
        next((proof.doubt for proof in proofs if proof.doubt is not None), None),
        tuple(sorted(i * classes + c for c, proof in enumerate(proofs) for i in proof.escapes)),
    )


def certify_shared(designs: Sequence[Any], W: Floats, norm: SharedNorm, classes: int = 1) -> RowCertificate:
    """Of W = b + V (m, d)."""
    if classes == 1:
        return certify_rows(designs, W, norm)
    parts = [(designs[c::classes], W[c::classes], norm.of_class(c, classes)) for c in range(classes)]
    return of_every_class(designs, classes, lambda c: certify_rows(*parts[c]))


def shared_violation(designs: Sequence[Any], W: Floats, norm: SharedNorm, classes: int = 1) -> float:
    """The largest violation of the optimality conditions at W = b + V (m, d)."""
    if classes == 1:
        return row_violation(designs, W, norm)
    return max(row_violation(designs[c::classes], W[c::classes], norm.of_class(c, classes)) for c in range(classes))


def certify_common_ridges(
    designs: Sequence[Any], scale: Floats, P: Floats, norm: SharedNorm, ridge: Floats, classes: int = 1
) -> RowCertificate:
    """Of b and V (p,) with a ridge (p,) on both, in sums of losses times `scale` (m,), whatever the loss is."""
    a = 0.5 * len(designs) * norm.weights()
    A, R, parts = (x.reshape(len(designs) // classes + 1, classes, -1) for x in (a, ridge, P))

    def of_class(c: int) -> RowCertificate:
        point = np.ascontiguousarray(parts[:, c]).ravel()
        groups = norm.groups.on(np.arange(A.shape[2])) if isinstance(norm, SharedBlocks) else None
        return certify_ridges(designs[c::classes], point, A[:, c], R[:, c], scale[c::classes], groups)

    return of_every_class(designs, classes, of_class)


def certify_pooled(designs: Sequence[Any], P: Floats, penalty: PoolingRidge, classes: int = 1) -> RowCertificate:
    """Of b and V (p,) with ridges only."""
    if classes == 1:
        return certify_pooling(designs, P, penalty)
    parts = P.reshape(len(designs) // classes + 1, classes, -1)

    def of_class(c: int) -> RowCertificate:
        point = np.ascontiguousarray(parts[:, c]).ravel()
        return certify_pooling(designs[c::classes], point, penalty.of_class(c, classes))

    return of_every_class(designs, classes, of_class)
