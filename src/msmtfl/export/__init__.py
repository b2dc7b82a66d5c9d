"""Predictions where Python is not: a fitted model as SQL, or as an ONNX graph."""

from .onnx_graph import to_onnx
from .sql import to_sql

__all__ = ["to_onnx", "to_sql"]
