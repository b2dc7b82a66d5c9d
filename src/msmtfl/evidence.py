"""What the difference of two models' errors allows one to conclude."""

from .compare.evidence import Evidence

__all__ = ["Evidence"]
