"""What a fitted model minimises, as a line of text."""

from ._estimators.words.formulas import formula

__all__ = ["formula"]
