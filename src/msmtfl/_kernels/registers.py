"""How wide the registers are that kernels use; for tests and benchmarks of machines without wide ones."""

from . import arrow_factor, products, support


def use_registers(width: int) -> int:
    """Let all kernels use registers of at most 8, 4 or 2 numbers, as machines without wider ones do; returns what was
    allowed before."""
    products.use_registers(width)
    arrow_factor.use_registers(width)
    return support.use_registers(width)
