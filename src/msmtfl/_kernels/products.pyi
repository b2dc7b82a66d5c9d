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
def use_registers(width: int) -> int: ...
