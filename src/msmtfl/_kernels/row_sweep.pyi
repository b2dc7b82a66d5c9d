import numpy as np
from numpy.typing import NDArray

GROUP: int
DIRTY: int
PATTERN: dict[str, int]

def sweep(
    norm: int,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    kappa: NDArray[np.float64],
    Q: NDArray[np.float64],
    which: NDArray[np.intc],
    H: NDArray[np.float64],
    F: NDArray[np.float64],
    G: NDArray[np.float64],
    W: NDArray[np.float64],
    T: NDArray[np.float64],
    kinds: NDArray[np.uint8],
    scratch: NDArray[np.float64],
    past: NDArray[np.float64],
    C: NDArray[np.float64],
    epochs: int,
    stop: float,
) -> tuple[int, float]: ...
def excess(
    norm: int,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    F: NDArray[np.float64],
    G: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
