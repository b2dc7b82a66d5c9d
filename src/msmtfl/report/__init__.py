"""Reports of fitted models and comparisons, as HTML files."""

from .writing import report_html, write_report

__all__ = ["report_html", "write_report"]
