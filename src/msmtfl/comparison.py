"""What `compare_models` returns."""

from .compare.comparison import Comparison, Corrected

__all__ = ["Comparison", "Corrected"]
