"""Coefficients as a table for a paper: LaTeX, Word, HTML, Markdown, CSV or Excel, with a caption that says what it is."""

from .table import CoefficientTable, coefficient_table

__all__ = ["CoefficientTable", "coefficient_table"]
