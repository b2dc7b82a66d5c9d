"""Which of many findings stand, when so many were looked at: the false discovery rate of Benjamini and Hochberg."""

from __future__ import annotations

import numpy as np

from .._data.designs import Floats


def benjamini_hochberg(p: Floats) -> Floats:
    """p-values that are to be held against the false discovery rate wanted, in the order given; NaN stays NaN."""
    out, known = np.full(p.shape, np.nan), np.isfinite(p)
    values = p[known]
    order = np.argsort(values)
    steps = values[order] * len(values) / np.arange(1, len(values) + 1)
    of_known = np.empty_like(values)
    of_known[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)
    out[known] = of_known
    return out
