"""How far an answer is from the optimum."""

from ._objective.proofs.certificates import Certificate

__all__ = ["Certificate"]
