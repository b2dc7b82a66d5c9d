"""The rows that steps are made on, as the kernel takes them, and steps that stay on their side of what bounds them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._data.designs import Floats, Ints
from ...._kernels import row_sweep as _row_kernel
from ...._objective.coupled.row_norms import DirtyNorm, GroupNorm, RowNorm

TIED, BELOW, ABOVE = (_row_kernel.PATTERN[name] for name in ("TIED", "BELOW", "ABOVE"))


@dataclass
class WorkingRows:
    """The rows at hand (K,) and all that the kernel needs of them."""

    rows: Ints
    Q: Floats  # (groups, K, K), a part of a larger array
    H: Floats  # (K, m)
    F: Floats
    C: Floats  # (m, K)
    W: Floats  # (K, m)
    G: Floats  # (m, K)
    T: Floats  # (K,)
    kinds: np.ndarray  # (K, m)


def to_kernel(norm: RowNorm, d: int) -> tuple[int, Floats, Floats]:
    """Which norm it is to the kernel, and its two parameters for each of the d rows."""
    if isinstance(norm, GroupNorm):
        return _row_kernel.GROUP, norm.a, np.zeros(d)
    assert isinstance(norm, DirtyNorm)
    return _row_kernel.DIRTY, np.full(d, norm.lam_s), np.full(d, norm.lam_b)


def not_beyond_zero(W: Floats, work: WorkingRows) -> Floats:
    """W with 0 in the rows that have passed it."""
    return np.where((W * work.W).sum(axis=1, keepdims=True) < 0.0, 0.0, W)


def kept_sides(W: Floats, work: WorkingRows) -> Floats:
    """W changed so that every entry stays on its side of its row's t (the size of the entries tied to it)."""
    sizes = work.F * np.abs(W)
    tied = work.kinds == TIED
    t = np.where(tied, np.where(W * work.W > 0.0, sizes, 0.0), 0.0).max(axis=1)
    t = np.where(tied.any(axis=1), t, work.T)[:, None]
    below, above = (work.kinds == BELOW) & (work.F > 0.0), work.kinds == ABOVE
    wrong = (below & (sizes > t)) | (above & ((sizes < t) | (W * work.W < 0.0))) | (tied & (t == 0.0))
    bound = np.where(below, np.sign(W), np.sign(work.W)) * t / np.where(work.F > 0.0, work.F, 1.0)
    return np.where(wrong, bound, W)
