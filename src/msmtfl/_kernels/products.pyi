import numpy as np
from numpy.typing import NDArray

def column_moments(
    X: NDArray[np.float64],
    u: NDArray[np.float64],
    y: NDArray[np.float64],
    sums: NDArray[np.float64],
    c: NDArray[np.float64],
    squares: NDArray[np.float64],
) -> None: ...
def gram(X: NDArray[np.float64], out: NDArray[np.float64], low: int = 0, high: int = -1) -> None: ...
def few_products(V: NDArray[np.float64], X: NDArray[np.float64], out: NDArray[np.float64], most: int) -> None: ...
def eliminate(
    kappa: NDArray[np.float64],
    Q: NDArray[np.float64],
    which: NDArray[np.intc],
    rows: NDArray[np.intp],
    S: NDArray[np.float64],
    free: NDArray[np.uint8],
    rest: NDArray[np.float64],
    heights: NDArray[np.float64],
    slot: NDArray[np.intp],
    M: NDArray[np.float64],
    right: NDArray[np.float64],
    room: NDArray[np.float64],
    index: NDArray[np.intp],
) -> bool: ...
def substitute(
    S: NDArray[np.float64],
    free: NDArray[np.uint8],
    slot: NDArray[np.intp],
    levels: NDArray[np.float64],
    room: NDArray[np.float64],
    index: NDArray[np.intp],
    out: NDArray[np.float64],
) -> None: ...
def compact(Q: NDArray[np.float64], kept: NDArray[np.intp]) -> None: ...
def extend(Q: NDArray[np.float64], rows: NDArray[np.intp], first: int, out: NDArray[np.float64]) -> None: ...
def add_between(block: NDArray[np.float64], rows: NDArray[np.intp], out: NDArray[np.float64]) -> None: ...
def subtract(
    Q: NDArray[np.float64], rows: NDArray[np.intp], weights: NDArray[np.float64], out: NDArray[np.float64]
) -> None: ...
def use_registers(width: int) -> int: ...
