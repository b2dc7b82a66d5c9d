"""How sure one may be of what a model has found."""

from .bootstrap import Intervals, bootstrap_intervals
from .common import draw_halves
from .debiased import DebiasedIntervals, debiased_intervals
from .knockoffs import shared_features
from .shared import SharedFeatures
from .splitting import SplitIntervals, split_intervals
from .stability import Stability, stability_selection

__all__ = [
    "DebiasedIntervals",
    "Intervals",
    "SharedFeatures",
    "SplitIntervals",
    "Stability",
    "bootstrap_intervals",
    "debiased_intervals",
    "draw_halves",
    "shared_features",
    "split_intervals",
    "stability_selection",
]
