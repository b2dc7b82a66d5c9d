"""Which models, with which options, are to be the same whatever form the data come in."""

from __future__ import annotations

import numpy as np

from msmtfl import L12MTL, MSMTFL, DirtyMTL, LassoMTL


def options_for(d):
    """Options that change what is made of the data, by name; d features."""
    return {
        "default": {},
        "no intercept": {"fit_intercept": False},
        "standardize": {"standardize": True},
        "penalty factors": {"penalty_factors": np.r_[0.0, np.linspace(0.5, 2.0, d - 2), np.inf]},
        "relax": {"relax": True},
        "positive": {"positive": True},
    }


MODELS = [
    (model, name)
    for model in (MSMTFL, LassoMTL, L12MTL, DirtyMTL)
    for name in options_for(3)
    if name != "positive" or model in (MSMTFL, LassoMTL)
]
