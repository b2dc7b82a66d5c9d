"""How sure one may be of what a model has found."""

from .bootstrap import Intervals, bootstrap_intervals
from .common import draw_halves
from .stability import Stability, stability_selection

__all__ = ["Intervals", "Stability", "bootstrap_intervals", "draw_halves", "stability_selection"]
