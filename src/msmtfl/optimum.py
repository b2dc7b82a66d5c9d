"""The global minimum of small problems."""

from .paper.optimum import GlobalMinimum, global_minimum

__all__ = ["GlobalMinimum", "global_minimum"]
