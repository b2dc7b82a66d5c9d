"""What `regularization_surface` returns."""

from ._paths.surface import Surface

__all__ = ["Surface"]
