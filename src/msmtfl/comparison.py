"""What `compare_models` returns."""

from .compare.comparison import Comparison

__all__ = ["Comparison"]
