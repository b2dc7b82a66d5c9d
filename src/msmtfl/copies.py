"""Samples that are there more than once."""

from ._data.copies import RepeatedSamplesWarning, identical_samples

__all__ = ["RepeatedSamplesWarning", "identical_samples"]
